"""What is on screen goes into files: reports, pictures and pages to pan and zoom; what is absent says what it needs."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from browser import CHROMIUM, Tab, opened_page
from driving import Driver, opened
from measured import profile_at

from npu_tui.output.html import MOST_BYTES, share_page
from npu_tui.output.statement import profile_statement
from npu_tui.profile.profile import Profile
from npu_tui.strings import say
from npu_tui.trace.text import brief, printable
from npu_tui.tui.session import make_session
from npu_tui.view.explorer import Explorer

DEMO = Path(__file__).resolve().parents[2] / "fixtures" / "dispatch_bound"


async def ordered(driver: Driver, text: str, path: Path) -> None:
    await driver.send(f":{text} {path}\r")
    for _ in range(500):
        await driver.pilot.pause()
        if path.exists():
            return
        await asyncio.sleep(0.02)
    raise AssertionError(driver.text())


async def test_reports_pictures_and_pages_are_written_from_within(tmp_path: Path) -> None:
    async with opened(make_session([profile_at(DEMO)])) as driver:
        await driver.settle()
        for name in ("report.html", "report.md", "report.txt", "report.json"):
            await ordered(driver, "report", tmp_path / name)
        assert json.loads((tmp_path / "report.json").read_bytes())["kind"] == "report"
        assert "tolist" in (tmp_path / "report.md").read_text()
        await ordered(driver, "screenshot", tmp_path / "screen.svg")
        picture = (tmp_path / "screen.svg").read_text()
        assert picture.startswith("<svg")
        assert "ProfilerStep" in picture
        await ordered(driver, "share", tmp_path / "view.html")
        assert "ProfilerStep#20" in (tmp_path / "view.html").read_text()


async def test_a_word_says_what_it_needs() -> None:
    async with opened(make_session([profile_at(DEMO)])) as driver:
        for word in ("report", "screenshot", "share", "compare", "requests", "roles", "experts"):
            await driver.send(f":{word}\r")
            await driver.settle()
            assert say(f"order.{word}")[:40] in driver.text(), word


async def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    async with opened(make_session([profile_at(DEMO)])) as driver:
        await driver.settle()
        for order in (f"share {tmp_path}/view.png", f"report {tmp_path}/none", f"share {tmp_path}/no/view.html"):
            await driver.send(f":{order}\r")
            await driver.settle()
            assert "view" not in {path.name for path in tmp_path.iterdir()}
            assert "end with" in driver.text() or "not written" in driver.text()


class Page(HTMLParser):
    """The tags of a page, and where they lead."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.led: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.led += [value or "" for name, value in attrs if name in ("src", "href", "action")]


def shared(profile: Profile) -> str:
    session = make_session([profile])
    explorer = Explorer(session.scene, 100, 40)
    return share_page(session.scene, explorer.rows, explorer.state, ["1 verdict"])


HOSTILE = ("</script><script>alert(1)</script>", "<!--<script>", "\u2028\u2029\x1b[31m", '"});alert(2);//', "&lt;b&gt;")


def hostile() -> Profile:
    profile = profile_at(DEMO)
    names = [HOSTILE[number % len(HOSTILE)] + name for number, name in enumerate(profile.trace.names)]
    return Profile(replace(profile.trace, names=names, path="<img src=x onerror=alert(3)>"), None)


def test_a_page_loads_nothing_and_no_name_leaves_its_place() -> None:
    page = shared(hostile())
    found = Page(page)
    assert found.tags.count("script") == 1
    assert "img" not in found.tags
    assert not found.led
    assert "default-src 'none'" in page
    assert not re.search(r"https?://", page)
    assert len(page.encode()) < MOST_BYTES


def test_a_page_has_the_slices_of_the_view() -> None:
    profile = profile_at(DEMO)
    page = shared(profile)
    data = json.loads(re.search(r"const data = (\{.*\});\n", page)[1])
    row, start, length, name, _ = data["slices"]
    assert len(row) == len(start) == len(length) == len(name)
    known = {brief(printable(each), 80) for each in profile.trace.names}
    assert {data["names"][at] for at in name} <= known
    assert data["view"][0] < data["view"][1]
    assert "1 verdict" in page


@pytest.mark.skipif(shutil.which("node") is None, reason="no node")
def test_the_script_pans_and_zooms(tmp_path: Path) -> None:
    """In place of a browser: a canvas that counts what is drawn."""
    script = re.search(r"<script>(.*)</script>", shared(hostile()), re.S)[1]
    run = tmp_path / "run.js"
    run.write_text(
        """
const listeners = {}, drawn = [], frames = [];
const listen = (name, act) => { listeners[name] = act; };
const pen = new Proxy({}, {
  get: (own, name) => name in own ? own[name] : (...given) => { drawn.push([name, ...given]); },
  set: (own, name, value) => { own[name] = value; return true; },
});
const element = () => ({
  getContext: () => pen, style: {}, addEventListener: listen, setPointerCapture() {},
  getBoundingClientRect: () => ({ top: 0, left: 0 }),
});
globalThis.window = { addEventListener() {}, devicePixelRatio: 1 };
globalThis.requestAnimationFrame = (act) => frames.push(act);
globalThis.document = {
  getElementById: element, documentElement: { clientWidth: 1000 }, addEventListener: listen,
};
"""
        + script
        + """
const view = () => window.lanes.view(), said = [view(), drawn.length];
const press = (key) => { listeners.keydown({ key }); frames.splice(0).forEach((act) => act()); said.push(view()); };
for (const key of ["w", "w", "d", "a", "s", "0", "f"]) press(key);
listeners.wheel({ ctrlKey: true, deltaY: -1, clientX: 600, preventDefault() {} });
frames.splice(0).forEach((act) => act());
said.push(view());
listeners.pointerdown({ clientX: 500, pointerId: 1 });
listeners.pointermove({ clientX: 400, clientY: 5 });
said.push(view(), drawn.length);
console.log(JSON.stringify(said));
"""
    )
    told = subprocess.run(["node", str(run)], capture_output=True, text=True, check=True, timeout=60).stdout
    home, first, near, nearer, right, left, far, again, whole, wheeled, dragged, last = json.loads(told)
    span = lambda view: view[1] - view[0]  # noqa: E731
    assert span(home) > span(near) > span(nearer)
    assert right[0] > nearer[0]
    assert left[0] == pytest.approx(nearer[0])
    assert span(far) > span(left)
    assert again == home
    assert span(whole) >= span(home)
    assert span(wheeled) < span(whole)
    assert dragged[0] > wheeled[0]
    assert first > 100
    assert last > first


in_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")


def loads_nothing(tab: Tab) -> None:
    """The page asked for itself alone, offline, ran no script of a name, and broke no policy."""
    asked = [told["request"]["url"] for name, told in tab.events if name == "Network.requestWillBeSent"]
    assert [url for url in asked if not url.startswith("file:")] == []
    assert len(asked) == 1
    wrong = ("Page.javascriptDialogOpening", "Runtime.exceptionThrown", "Network.loadingFailed")
    assert [event for event in tab.events if event[0] in wrong] == []
    logged = [told["entry"] for name, told in tab.events if name == "Log.entryAdded"]
    assert [entry for entry in logged if entry["level"] == "error"] == []
    assert tab.value("[document.scripts.length, document.images.length, document.links.length]")[:2] == [1, 0]


@pytest.mark.reached_from("npu_tui/output", "npu_tui/tui/exports.py", "tests/browser.py")
@in_browser
def test_a_browser_pans_and_zooms_a_page_of_hostile_names_offline(tmp_path: Path) -> None:
    page = tmp_path / "view.html"
    page.write_text(shared(hostile()), encoding="utf-8")
    colours = """(() => {
      const own = document.getElementById("lanes"), pen = own.getContext("2d");
      const seen = new Uint32Array(pen.getImageData(0, 0, own.width, own.height).data.buffer);
      return [new Set(seen).size, seen.reduce((sum, one, at) => (sum * 31 + one + at) % 1e9, 0)];
    })()"""
    with opened_page(page, tmp_path / "profile") as tab:

        def view() -> tuple[float, float]:
            low, high = tab.value("window.lanes.view()")
            return low, high

        span = lambda: view()[1] - view()[0]  # noqa: E731
        home = view()
        shades, first = tab.value(colours)
        assert shades > 5
        tab.key("w")
        near = view()
        assert near[1] - near[0] < home[1] - home[0]
        assert tab.value(colours)[1] != first
        tab.key("d")
        assert view()[0] > near[0]
        tab.key("a")
        assert view() == pytest.approx(near)
        before = span()
        tab.mouse("mouseWheel", 600, 100, deltaX=0, deltaY=-100, modifiers=2)
        assert span() < before
        held = view()
        tab.mouse("mousePressed", 500, 100, button="left", buttons=1, clickCount=1)
        tab.mouse("mouseMoved", 400, 100, button="left", buttons=1)
        tab.mouse("mouseReleased", 400, 100, button="left", clickCount=1)
        assert view()[0] > held[0]
        tab.key("0")
        assert view() == pytest.approx(home)
        # The mouse over the middle of a long slice tells its name as text.
        place = tab.value("document.getElementById('lanes').getBoundingClientRect().top + 18 * 1.5")
        tab.mouse("mouseMoved", 700, place)
        told = tab.value("document.getElementById('tip').textContent")
        assert any(brief(printable(name), 20)[:8] in told for name in HOSTILE)
        assert tab.value("document.getElementById('tip').children.length") == 0
        loads_nothing(tab)


@pytest.mark.reached_from("npu_tui/output", "npu_tui/tui/exports.py", "tests/browser.py")
@in_browser
def test_a_browser_shows_the_page_of_a_report_offline(tmp_path: Path) -> None:
    profile = profile_at(DEMO)
    page = tmp_path / "report.html"
    page.write_text(str(profile_statement(profile).written("html")), encoding="utf-8")
    with opened_page(page, tmp_path / "profile") as tab:
        told = """[...document.querySelectorAll(".tip path")].map((path) => {
          path.scrollIntoView({ block: "center" });
          const box = path.getBoundingClientRect(), x = box.left + box.width / 2, y = box.top + box.height / 2;
          return document.elementFromPoint(x, y)?.querySelector("title")?.textContent;
        }).filter(Boolean)"""
        words = tab.value(told)
        assert len(words) > 100
        assert any("tolist" in each for each in words)
        first = "document.querySelector('table.sortable tbody').rows[0].textContent"
        before = tab.value(first)
        tab.value("document.querySelector('table.sortable th button').click()")
        assert tab.value(first) != before, "a head sorts its table"
        loads_nothing(tab)
