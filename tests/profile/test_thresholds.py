"""The thresholds of the settings reach every way of looking at a profile: all count the same launches."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from measured import profile_at
from written import fields_of

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tui"))

from driving import opened
from written import html_report

from npu_tui.analysis.limits import Thresholds
from npu_tui.cli.main import main
from npu_tui.output.report import report
from npu_tui.tui.session import make_session

PROFILE = Path(__file__).resolve().parents[2] / "fixtures" / "dispatch_bound"
LIMITS = {"usual": (30.0, 10.0), "strict": (1.0, 100_000.0), "lax": (80.0, 1.0)}
"""Near-vertical up to, starved from, µs."""

LINKS = re.compile(r"H→D([ \\\\┃!]*)")
"""The lane of links: upright where one is near-vertical."""


class Known:
    """Settings in use, and how many launches are near-vertical and starved by them."""

    def __init__(self, name: str, folder: Path) -> None:
        near, starved = LIMITS[name]
        self.file = folder / "settings.toml"
        self.file.write_text(f"[thresholds]\nnear_vertical_us = {near}\nstarved_us = {starved}\n")
        self.profile = profile_at(PROFILE, Thresholds(near_vertical_us=near, starved_us=starved))
        (device,) = self.profile.dispatch
        self.near = int((device.relative <= near * 1000).sum())
        self.starved = int((device.lost >= starved * 1000).sum())


@pytest.fixture(params=["strict", "lax"])
def known(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Known:
    found = Known(request.param, tmp_path)
    monkeypatch.setenv("NPU_TUI_CONFIG", str(found.file))
    return found


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main([*words]) == 0
    return capsys.readouterr().out


def texts(svg: str) -> str:
    return " ".join(
        "".join(each.itertext()) for each in ElementTree.fromstring(svg).iter() if each.tag.endswith("text")
    )


def test_the_limits_tell_apart(tmp_path: Path) -> None:
    found = [Known(name, tmp_path) for name in LIMITS]
    assert len({(each.near, each.starved) for each in found}) == len(LIMITS)
    assert found[1].starved == 0


def test_reports(known: Known, capsys: pytest.CaptureFixture[str]) -> None:
    found = fields_of(said(capsys, "report", str(PROFILE), "--format", "json"))
    assert (found["dispatch"]["near_vertical"], found["dispatch"]["starved"]) == (known.near, known.starved)
    text = said(capsys, "report", str(PROFILE))
    assert f"lost in {known.starved} starved launches of" in text
    assert f"near-vertical {known.near} " in text
    titles = [each["title"] for each in found["findings"] if each["id"] == "DISPATCH.VERTICAL"]
    for form in ("markdown", "html"):
        page = said(capsys, "report", str(PROFILE), "--format", form)
        assert all(title in page.replace("\\", "").replace("&#x27;", "'") for title in titles)


async def test_the_timeline_of_the_page(known: Known) -> None:
    page = html_report(report(known.profile), known.profile)
    pictures = [svg for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL) if "<title>Timeline</title>" in svg]
    assert len(pictures) == 1
    async with opened(make_session([known.profile]), (200, 50)) as driver:
        await driver.settle()
        for picture in pictures:
            assert_drawn(known, texts(picture))


def test_the_picture_of_the_screen(known: Known, tmp_path: Path) -> None:
    picture = tmp_path / "screen.svg"
    assert main(["screenshot", str(PROFILE), "-o", str(picture), "--size", "200x50"]) == 0
    assert_drawn(known, texts(picture.read_text(encoding="utf-8")))


async def test_the_screen(known: Known) -> None:
    session = make_session([known.profile])
    async with opened(session, (200, 50)) as driver:
        await driver.settle()
        assert_drawn(known, driver.text())
        assert len(known.profile.starved) == known.starved
        driver.explorer.set_range(0, driver.explorer.scene.end + 1)
        await driver.press("5")
        await driver.settle()
        assert f"{known.starved} starved" in driver.panel.content.note
        assert f"{known.near} near-vertical" in driver.panel.content.note


def assert_drawn(known: Known, text: str) -> None:
    found = LINKS.search(text)
    assert found is not None, text[:2000]
    (device,) = known.profile.dispatch
    assert ("\\" in found[1]) == (known.near < 0.9 * len(device.relative)), found[1]  # a few share their cells
