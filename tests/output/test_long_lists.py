"""Of many steps and ranges the pages show those that count most, and say how many they leave out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measured import profile_at, report_of
from written import html_report, markdown_report, text_report

from npu_tui.output.document import Cell, Table
from npu_tui.output.report import report

PROFILE = Path(__file__).resolve().parents[2] / "fixtures" / "dispatch_bound"
STEPS, LONG, RANGES = 1_512, 1_400, 40


def weighed(*weights: float) -> Table:
    rows = [[Cell(f"{weight:g}{place}")] for place, weight in enumerate(weights)]
    return Table("steps", "", ("step",), (False,), rows, weights)


def test_the_heaviest_stay_in_their_order() -> None:
    def shown(table: Table, most: int) -> list[str]:
        return [row[0].text for row in table.shown(most)]

    assert shown(weighed(3, 9, 1, 9, 4), 3) == ["91", "93", "44"]
    assert shown(weighed(3, 9, 1), 3) == ["30", "91", "12"]
    assert shown(weighed(1, 1, 1), 2) == ["10", "11"]
    assert shown(replace(weighed(1, 9), weights=()), 1) == ["10"], "without weights the first stay"
    assert weighed(1, 2, 3).hidden(2) == "… and 1 more"
    assert weighed(1, 2, 3).hidden(3) == ""


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
    shown = lines[lines.index("Ranges") + 2 : lines.index("Ranges") + 13]
    assert [" ".join(line.split()[:2]) for line in shown[:-1]] == [f"{k}.000 ms" for k in range(30, RANGES)]
    assert shown[-1].strip() == "… and 30 more, none with more lost time"


def test_counts_read_in_groups_of_three(found: dict[str, Any]) -> None:
    dispatch = found["dispatch"]
    many = found | {"dispatch": dispatch | {"links": 1_234_567, "starved": 2_345, "near_vertical": 3_456}}
    said = text_report(report_of(many))
    assert "2,345 starved launches of 1,234,567" in said
    assert "near-vertical 3,456" in said
