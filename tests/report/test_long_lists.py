"""Of many steps and ranges the pages show those that count most, and say how many they leave out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measured import profile_at, report_of

from npu_tui.report.foremost import foremost
from npu_tui.report.pages.html_report import html_report
from npu_tui.report.pages.markdown_report import markdown_report
from npu_tui.report.pages.text_report import text_report
from npu_tui.report.report import report

PROFILE = Path(__file__).resolve().parents[2] / "fixtures" / "dispatch_bound"
STEPS, LONG, RANGES = 1_512, 1_400, 40


def test_the_heaviest_stay_in_their_order() -> None:
    assert foremost([3, 9, 1, 9, 4], 3, float) == [9, 9, 4]
    assert foremost([3, 9, 1], 3, float) == [3, 9, 1]
    assert foremost([(1, "a"), (1, "b"), (1, "c")], 2, lambda each: each[0]) == [(1, "a"), (1, "b")]


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """A report of many steps, of which one is long, and of many ranges, of which the last loses most."""
    plain = to_builtins(report(profile_at(PROFILE)))
    step = plain["steps"][0]
    length = step["stage_us"] or step["duration_us"]
    steps = [
        {**step, "name": f"ProfilerStep#{k}", "step": k, "stage_us": length * (3 if k == LONG else 1)}
        for k in range(STEPS)
    ]
    dispatch = plain["dispatch"]
    ranges = [
        {**dispatch["ranges"][0], "start_us": k * 1000.0, "end_us": k * 1000.0 + 1, "lost_us": 1.0 + k}
        for k in range(RANGES)
    ]
    return plain | {"steps": steps, "dispatch": dispatch | {"ranges": ranges}}


def test_text_and_markdown_show_the_longest_of_many_steps(found: dict[str, Any]) -> None:
    for page in (text_report, markdown_report):
        said = page(report_of(found))
        assert f"ProfilerStep#{LONG}" in said.replace("<!-- -->", "")
        assert said.replace("<!-- -->", "").count("ProfilerStep#") == 10
        assert f"{STEPS - 10:,} more, none longer; the median step takes" in said


def test_the_page_holds_so_many_steps_and_the_longest_among_them(found: dict[str, Any]) -> None:
    said = html_report(report_of(found), profile_at(PROFILE))
    table = said[said.index('<h2 id="steps">') : said.index('<h2 id="operators">')]
    assert table.count('data-head="step"') == 500
    assert f">ProfilerStep#{LONG}<" in table
    assert f"{STEPS - 500:,} more, none longer; the median step takes" in table


def test_the_ranges_that_lose_most_come_first(found: dict[str, Any]) -> None:
    lines = text_report(report_of(found)).splitlines()
    shown = lines[lines.index("Ranges") + 1 : lines.index("Ranges") + 12]
    assert [line.split(" to ")[0].strip() for line in shown[:-1]] == [f"{k}.00 ms" for k in range(30, RANGES)]
    assert shown[-1].strip() == "… and 30 more, none of which loses more"


def test_counts_read_in_groups_of_three(found: dict[str, Any]) -> None:
    dispatch = found["dispatch"]
    many = found | {"dispatch": dispatch | {"links": 1_234_567, "starved": 2_345, "near_vertical": 3_456}}
    said = text_report(report_of(many))
    assert "2,345 starved launches of 1,234,567" in said
    assert "near-vertical 3,456" in said
