"""What tests of the demo share: a town that is accounted for, and `vicinal demo` itself, which runs until Ctrl-C. They
are of one xdist group, so that there is one of each."""

from collections.abc import Iterator

import pytest
from system.demo import Demo
from system.town import Town, run


@pytest.fixture(scope="session")
def town() -> Iterator[Town]:
    yield from run()


class Demos:
    """One that runs: the last, unless a test has ended it."""

    def __init__(self) -> None:
        self.made: list[Demo] = []

    def running(self) -> Demo:
        if not self.made or self.made[-1].process.poll() is not None:
            self.made.append(Demo("--vehicles", "10", "--speeders", "0.5", "--seed", "189"))
            self.made[-1].wait_for_address()
        return self.made[-1]


@pytest.fixture(scope="session")
def demos() -> Iterator[Demos]:
    found = Demos()
    try:
        yield found
        for one in found.made:
            one.ctrl_c()
    finally:
        for one in found.made:
            one.remove()


@pytest.fixture
def demo(demos: Demos) -> Demo:
    return demos.running()
