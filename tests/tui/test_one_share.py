"""On every surface one thing has one share: no screen, page or report gives it of two wholes."""

from __future__ import annotations

import html
import re
import sys
from pathlib import Path

import pytest
from driving import opened
from measured import path_of
from written import fields_of

sys.path.append(str(Path(__file__).resolve().parents[2] / "fixtures"))

from service_causes import write_service
from snapshot import write_snapshot

from npu_tui.jobs.opening import open_job
from npu_tui.load.load import opening_of
from npu_tui.output.envelope import json_bytes
from npu_tui.output.statement import Statement, job_statement, profile_statement, written_document
from npu_tui.output.text import ALL
from npu_tui.profile.profile import Profile
from npu_tui.tui.heads import JobHead
from npu_tui.tui.job_overview import Examined, Overview
from npu_tui.tui.session import make_session

RANKS = ("dispatch_bound", "communication_bound", "healthy", "older_chip", "text/level1/rank0_ascend_pt", "single_card")
_FORMS = ("text", "markdown", "html")
_PARTS = {
    "free": "(?:F|f)ree",
    "compute": "(?:C|c)omput(?:e|ing)",
    "exposed": "(?:E|e)xposed comm(?:unication)?",
}
_SHARE = r"(?<![-+\d.])\d[\d.]*%"


def shares(surface: str) -> dict[str, set[str]]:
    """The shares of the device's time that ``surface`` tells, by the part they are of."""
    found = {part: set(re.findall(rf"\b{words}:? ({_SHARE})", surface)) for part, words in _PARTS.items()}
    return {part: told for part, told in found.items() if told}


def _pages(said: Statement) -> dict[str, str]:
    """What text, Markdown and HTML say."""
    pages = {form: written_document(said.document(form), form, ALL) for form in _FORMS}
    pages["html"] = html.unescape(re.sub(r"<[^>]*>", " ", pages["html"]))
    return {form: " ".join(page.split()) for form, page in pages.items()}


def _more_than_one(told: dict[str, dict[str, set[str]]]) -> list[tuple[str, str, set[str]]]:
    return [(place, part, each) for place, parts in told.items() for part, each in parts.items() if len(each) > 1]


@pytest.mark.parametrize("name", RANKS)
async def test_a_part_of_the_device_s_time_has_one_share_on_a_surface(name: str) -> None:
    opening = opening_of(path_of(name), cached=False)
    profile = Profile(opening.trace(), opening.source)
    said = profile_statement(profile)
    told = {form: shares(page) for form, page in _pages(said).items()}
    async with opened(make_session([profile]), (80, 24)) as driver:
        for size in ((80, 24), (120, 40), (200, 50)):
            await driver.pilot.resize_terminal(*size)
            await driver.settle()
            told[str(size)] = shares(driver.text())
    assert _more_than_one(told) == []
    assert told["(200, 50)"], "the words of the head are others: this test looks for none of them"
    overlap = fields_of(json_bytes(said.data))["overlap"]
    for part, key in (("free", "free"), ("compute", "computing"), ("exposed", "communication_not_overlapped")):
        pages = {each for form in _FORMS for each in told[form].get(part, ())}
        assert pages <= {f"{overlap[f'{key}_ratio']:.1%}"}, f"{part}: a page has another share than the JSON"


async def _beside_lanes(profile: Profile) -> str:
    """The first screen without the rows of lanes, whose shares are those of what is in view."""
    async with opened(make_session([profile]), (200, 50)) as driver:
        await driver.settle()
        return " ".join(row for row in driver.rows() if not row.startswith("▎"))


def _told_elsewhere(screen: str, pages: dict[str, str]) -> None:
    """Each share of ``screen`` stands in every page: none is of a whole of its own."""
    shown = set(re.findall(_SHARE, screen))
    assert {form: shown - set(re.findall(_SHARE, page)) for form, page in pages.items()} == {
        form: set() for form in _FORMS
    }
    assert shown


@pytest.mark.parametrize("kind", ["service", "snapshot"])
async def test_shares_beside_the_lanes_of_another_subject_are_those_of_its_pages(kind: str, tmp_path: Path) -> None:
    if kind == "service":
        write_service(tmp_path, "kv", requests=60)
    else:
        write_snapshot(tmp_path / "leak.pkl", "leak")
    opening = opening_of(tmp_path if kind == "service" else tmp_path / "leak.pkl", cached=False)
    profile = Profile(opening.trace(), opening.source)
    _told_elsewhere(await _beside_lanes(profile), _pages(profile_statement(profile)))


@pytest.mark.parametrize("name", ["two_ranks", "job4"])
def test_shares_in_the_head_of_a_job_are_those_of_its_pages(name: str) -> None:
    job = open_job(path_of(name))
    head = JobHead.verdict_lines(Overview(Examined(job)), 400, False)
    _told_elsewhere(" ".join(line.plain for line in head), _pages(job_statement(job)))
