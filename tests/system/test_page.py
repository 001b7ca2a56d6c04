"""The live page in a real browser, on the real demo: `vicinal demo` in one process, Debian's Chromium in another.

Screenshots are kept in build/screenshots, to be looked at.
"""

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cloud.broker.brokers import Brokers, free_port
from cloud.traffic.test_office import OfficeProcess
from playwright.sync_api import Browser, Page, expect, sync_playwright
from system.demo import Demo

from vicinal_cloud.traffic.page import STATIC

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("traffic")]

CHROMIUM = shutil.which("chromium")
SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
SOON = 180_000
"""ms: a deadline for a computer with other work, not what a page takes"""
LIMIT, BEFORE = 10, 30
HOPS = ["vehicle", "monitor", "broker", "broker", "office"]
RENDERED = """() => import("/main.js").then(({ map }) => Object.fromEntries(
    map.gl.queryRenderedFeatures({ layers: ["vehicles"] })
        .map((one) => [one.properties.vehicle, one.geometry.coordinates])))"""
"""where vehicles are drawn"""
PROJECTED = """() => import("/main.js").then(({ map, shown }) => {
    const canvas = map.gl.getCanvas(), box = canvas.getBoundingClientRect();
    for (const one of map.gl.queryRenderedFeatures({ layers: ["vehicles"] })) {
        const { x, y } = map.gl.project(one.geometry.coordinates);
        const free = document.elementFromPoint(box.x + x, box.y + y) === canvas;
        if (free && shown().events.some((event) => event.vehicle === one.properties.vehicle)) return [x, y];
    }
    return null; })"""
"""where in the map one is drawn that has said something, and nothing lies over it"""
NEWEST = """() => import("/main.js").then(({ shown }) => shown().events[0]?.number ?? 0)"""
"""the number of the last event that had come; its time may be that of others, too"""
SMALL = """() => [...document.querySelectorAll("body *")]
    .filter((one) => one.checkVisibility() && !one.childElementCount && one.textContent.trim())
    .filter((one) => parseFloat(getComputedStyle(one).fontSize) < 10).map((one) => one.outerHTML)"""
"""what nobody can read"""
OPTIONS = [
    "--disable-gpu", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run",
]  # fmt: skip


@pytest.fixture(scope="module")
def built() -> None:
    if CHROMIUM is None or not (STATIC / "index.html").is_file():
        missing = "Chromium (apt-get install chromium)" if CHROMIUM is None else "the page (make page)"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"PAGE NOT TESTED: there is no {missing}")


@pytest.fixture
def address(built: None, request: pytest.FixtureRequest) -> str:
    """Of the page of a town that runs; it is not started where there is no browser."""
    demo: Demo = request.getfixturevalue("demo")
    return demo.address


@pytest.fixture(scope="module")
def browser(built: None) -> Iterator[Browser]:
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    expect.set_options(timeout=SOON)
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=[*OPTIONS, *sandbox])
        yield made
        made.close()


@contextmanager
def opened(browser: Browser, address: str, calm: bool = True, **options: Any) -> Iterator[Page]:
    """`calm`: nothing may go wrong in it, and nobody else be asked for anything."""
    # What is not about motion is drawn only when there is news: a processor draws here, not a graphics card.
    context = browser.new_context(**{"reduced_motion": "reduce", **options})
    page = context.new_page()
    page.set_default_timeout(SOON)
    wrong: list[str] = []
    asked: list[str] = []
    page.on("console", lambda one: wrong.append(one.text) if one.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda one: asked.append(one.url))
    page.goto(address)
    page.locator(".sign").first.wait_for()
    try:
        yield page
    finally:
        context.close()
    if calm:
        assert wrong == []
    assert [one for one in asked if not one.startswith((f"{address}/", "data:", f"blob:{address}/"))] == []


def keep(page: Page, name: str, **options: Any) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png", **options)


def until(page: Page, condition: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + SOON / 1000
    while not (found := condition()):
        assert time.monotonic() < end, f"waited in vain for {what}"
        page.wait_for_timeout(200)
    return found


def sign(page: Page, monitor: str) -> Any:
    return page.locator(f'.sign[data-monitor="{monitor}"]')


def test_a_limit_is_lowered_by_clicking_and_the_next_offence_shows_its_path(browser: Browser, address: str) -> None:
    with opened(browser, address, viewport={"width": 1160, "height": 740}, reduced_motion="no-preference") as page:
        expect(page.locator("#mode")).to_have_text("Live")
        first = until(page, lambda: page.evaluate(RENDERED), "vehicles on the map")

        def moved() -> bool:
            now = page.evaluate(RENDERED)
            return any(one in first and max(map(abs, _less(place, first[one]))) > 2e-5 for one, place in now.items())

        until(page, moved, "a vehicle to move")
        assert sign(page, "m1").get_attribute("data-shown") == str(BEFORE)
        sign(page, "m1").click()
        expect(page.locator("#limit-title")).to_have_text("Limit in Old Town")
        keep(page, "limit")
        page.fill("#limit input[name=value]", str(LIMIT))
        page.click("#limit button.primary")
        begun = time.monotonic()
        expect(page.locator("#limit")).to_be_hidden()
        for monitor in ("m1", "m2"):
            expect(sign(page, monitor)).to_have_attribute("data-shown", str(LIMIT))
        changed = time.monotonic()
        row = page.locator("#view-cases tbody tr").filter(has=page.locator(f"td:nth-child(4):text-is('{LIMIT}')")).first
        row.wait_for()
        print(f"signs after {changed - begun:.1f} s, an offence {time.monotonic() - changed:.1f} s later")
        number = row.get_attribute("data-key")
        page.locator(f'#view-cases tbody tr[data-key="{number}"] button').click()
        expect(page.locator("#detail h2")).to_contain_text(f"Offence {number}:")

        def whole() -> bool:
            paths = [path.locator(".hop").all() for path in page.locator(".path").all()]
            return bool(paths) and all([hop.get_attribute("data-kind") for hop in hops] == HOPS for hops in paths)

        until(page, whole, "the path with all its hops")
        text = page.locator(".path").first.inner_text()
        for part in ("COSMIC on CAN", "STEAM → SIENA", "became the pseudonym p-", "b-west", "b-office", "police"):
            assert part in text
        assert len(re.findall(r"[+−]\d+ ms", text)) == len(HOPS) - 1
        keep(page, "map")
        page.get_by_role("tab", name="Overlay").click()
        marked = page.locator("#diagram .node.on")
        expect(marked).to_have_count(5)
        names = {one.get_attribute("data-node") for one in page.locator("#diagram .node").all()}
        assert names == {"vehicles", "m1", "m2", "m3", "b-west", "b-east", "b-office", "office"}
        page.locator("#rates canvas").wait_for()
        expect(page.locator("#latency tbody tr")).to_have_count(5)
        keep(page, "overlay")
        page.get_by_role("button", name="Void").click()
        expect(page.locator(".moves .error")).to_have_text("Void: say why.")
        page.get_by_label("Reason").fill("an ambulance")
        page.get_by_role("button", name="Void").click()
        expect(page.locator("#detail .steps")).to_contain_text("an ambulance")
        cells = page.locator(f'#view-cases tbody tr[data-key="{number}"]')
        expect(cells).to_have_attribute("data-state", "void")


def _less(a: list[float], b: list[float]) -> list[float]:
    return [one - other for one, other in zip(a, b, strict=True)]


def test_the_slider_goes_back_and_keys_do_what_clicks_do(browser: Browser, address: str) -> None:
    with opened(browser, address, viewport={"width": 1000, "height": 640}, color_scheme="dark") as page:
        expect(sign(page, "m1")).to_have_attribute("data-shown", str(LIMIT))
        page.click("#previous")
        expect(page.locator("#mode")).to_have_text("Past")
        slider = page.get_by_role("slider", name="Time")
        last = page.evaluate(NEWEST)
        page.click("#previous")
        until(page, lambda: page.evaluate(NEWEST) < last, "an earlier event")
        slider.focus()
        page.keyboard.press("Home")  # where it began: before the limit was lowered
        expect(sign(page, "m1")).to_have_attribute("data-shown", str(BEFORE))
        expect(page.locator("#count-cases")).to_have_text("")
        page.get_by_role("tab", name="Events").click()
        page.click("#next")
        until(page, lambda: page.locator(".events li").count() == 1, "the first event")
        page.locator(".events button").first.press("Enter")
        expect(page.locator(".hop").first).to_contain_text("Vehicle")
        page.keyboard.press("Escape")
        expect(page.locator("#detail")).to_be_hidden()

        def chosen() -> bool:
            page.click("#next")
            if found := page.evaluate(PROJECTED):
                page.locator("#map canvas").click(position={"x": found[0], "y": found[1]})
                page.wait_for_timeout(200)
            return page.locator("#detail").is_visible()

        until(page, chosen, "a vehicle to click at")
        expect(page.locator("#detail h2")).to_contain_text(" of ")
        page.locator(".hop").first.wait_for()
        keep(page, "past")
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Back to now").press("Enter")
        expect(page.locator("#mode")).to_have_text("Live")
        expect(sign(page, "m1")).to_have_attribute("data-shown", str(LIMIT))

        sign(page, "m3").focus()
        page.keyboard.press("Enter")
        expect(page.locator("#limit input[name=value]")).to_be_focused()
        page.keyboard.press("Escape")
        expect(page.locator("#limit")).to_be_hidden()
        expect(sign(page, "m3")).to_be_focused()
        page.keyboard.press("Enter")
        page.keyboard.type("300")
        page.keyboard.press("Enter")
        expect(page.locator("#limit")).to_be_visible()  # 130 is the most
        page.locator("#limit input[name=value]").fill("65")
        page.keyboard.press("Enter")
        expect(sign(page, "m3")).to_have_attribute("data-shown", "65")
        page.get_by_role("tab", name="Map").focus()
        page.keyboard.press("ArrowRight")
        expect(page.get_by_role("tab", name="Overlay")).to_be_focused()
        expect(page.locator("#diagram svg")).to_be_visible()


def test_a_phone_has_room_for_it(browser: Browser, address: str) -> None:
    size = {"width": 390, "height": 844}
    with opened(browser, address, viewport=size, is_mobile=True, has_touch=True) as page:
        page.locator("#view-cases tbody tr").first.wait_for()
        for view in ("Map", "Overlay"):
            page.get_by_role("tab", name=view).tap()
            assert page.evaluate("document.documentElement.scrollWidth") <= size["width"], f"{view} is wider than that"
            if view == "Overlay":
                page.locator("#diagram svg").wait_for()
                page.locator("#rates canvas").wait_for()
                keep(page, "phone-overlay")
        page.get_by_role("tab", name="Map").tap()
        assert page.evaluate(SMALL) == []
        page.wait_for_timeout(1000)
        keep(page, "phone")
        page.locator("#view-cases tbody button").first.tap()
        expect(page.locator("#detail h2")).to_be_in_viewport()
        keep(page, "phone-offence")


def test_an_office_that_is_away_is_said_and_when_it_is_back_the_page_goes_on(browser: Browser, tmp_path: Path) -> None:
    brokers = Brokers(tmp_path)
    office = OfficeProcess(tmp_path, brokers.start("b1", log=True).address)
    office.file.write_text(office.file.read_text().replace("127.0.0.1:0", f"127.0.0.1:{free_port()}"))
    office.start()
    try:
        with opened(browser, office.address, calm=False, viewport={"width": 800, "height": 500}) as page:
            expect(page.locator("#notice")).to_be_hidden()
            office.kill()
            expect(page.locator("#notice")).to_contain_text("does not answer")
            keep(page, "lost")
            office.start()
            expect(page.locator("#notice")).to_be_hidden(timeout=SOON)
            assert office.ask("/api/limits", {"area": "town", "value": 45})[0] == 201
            expect(page.locator('[data-area="town"] strong')).to_have_text("45")
    finally:
        office.stop()
        brokers.stop()


def test_what_the_page_is_made_of_is_small(built: None) -> None:
    """What a phone has to fetch once: two megabytes, the map's library most of it."""
    sizes = {str(file.relative_to(STATIC)): file.stat().st_size for file in STATIC.rglob("*") if file.is_file()}
    assert sum(sizes.values()) < 2_500_000, json.dumps(sizes, indent=1)
