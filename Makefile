# Every target works as the first command after a clone: on Debian as root it installs what is missing, elsewhere it
# says what to install. What it makes is in .venv, .tools, build, and for the live page in cloud/page/node_modules and
# the package; `make clean` removes them.

VENV := .venv
PY := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed
MICROPYTHON := .tools/micropython/micropython
PYTEST := $(PY) -m pytest -n 3 --dist loadgroup
PAGE := cloud/vicinal_cloud/traffic/static

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test check bench stage page soak clean micropython try-page

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(INSTALLED) try-page ## a small town: vehicles, monitors, brokers and traffic control, until Ctrl-C
	@$(VENV)/bin/vicinal demo

test: $(INSTALLED) micropython try-page ## all tests, under CPython and MicroPython
	$(PYTEST)

check: $(INSTALLED) ## lint, format, types, import directions, mpy-cross on every device file
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy --strict
	$(PY) -m pytest -q tests/test_house.py

bench: $(INSTALLED) micropython ## the figures, each against a peer or a limit in the same run (some twenty minutes)
	$(PY) -m vicinal_tools.bench

stage: $(INSTALLED) ## build/device: the tree that goes onto a device
	$(PY) -m vicinal_tools.stage build/device

page: $(INSTALLED) ## the live page of traffic control, from cloud/page: goes into the wheel
	@tools/build_page.sh

soak: $(INSTALLED) micropython try-page ## the tests with many more generated cases
	VICINAL_SOAK=1 HYPOTHESIS_PROFILE=soak $(PYTEST)

clean: ## remove what make has made
	rm -rf $(VENV) .tools build dist $(PAGE) $(PAGE).new cloud/page/node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is the last thing written: an installation that was interrupted is done again.
$(INSTALLED): pyproject.toml tools/setup.sh
	@python=$$(tools/setup.sh) && "$$python" -m venv $(VENV)
	@echo "installing vicinal and what its tests need into $(VENV) (1.6 gigabytes, a minute or two)"
	@$(PY) -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(PY) -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

# Without it the tests of the device's side are skipped and say so; where CI=true that is a failure.
micropython:
	@tools/get_micropython.sh || [ "$$CI" != true ]

# Without it traffic control shows a page that says so, and its test in a browser is skipped; where CI=true that is a
# failure.
try-page: $(INSTALLED)
	@tools/build_page.sh || [ "$$CI" != true ]
