"""A table is declared once: every place that shows tables finds it, and shows what its declaration says."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from measured import profile_at

from npu_tui import jobs, profile
from npu_tui.jobs import tables as job_tables
from npu_tui.output.job_report import JobReport
from npu_tui.output.report import report, sections_of
from npu_tui.output.report_schema import Report
from npu_tui.output.report_tables import data_tables
from npu_tui.profile.table import declared_tables
from npu_tui.query.frames import OF_JOBS, ONE_PROFILE, TABLES
from npu_tui.strings import say

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
ROOMS = {"npu_tui.profile": (profile, Report), "npu_tui.jobs": (jobs, JobReport)}


@pytest.mark.parametrize("room", ROOMS)
def test_every_declaration_is_found_once(room: str) -> None:
    package, document = ROOMS[room]
    found = declared_tables(room)
    folder = Path(package.__file__ or "").parent
    declared = [path.stem for path in folder.glob("*tables.py")]
    assert set(package.TABLE_FILES) <= set(declared)
    assert len({table.id for table in found}) == len(found)
    assert len({id(table) for table in found}) == len(found)
    sections = [table.section for table in found if table.section]
    assert len(set(sections)) == len(sections)
    fields = {field.name: field.type for field in msgspec.structs.fields(document)}
    assert all(fields[table.section] == list[table.row] for table in found if table.section)


def test_sql_has_what_has_columns_of_it() -> None:
    both = [table for room in ROOMS for table in declared_tables(room) if table.sql]
    assert list(TABLES.values()) == both
    assert {TABLES[name].subject for name in ONE_PROFILE} == {"profile"}
    assert {TABLES[name].subject for name in OF_JOBS} == {"job", "part"}
    assert job_tables.RANKS.subject == "part"


def test_a_page_has_every_section_with_columns_of_one() -> None:
    whole = report(profile_at(FIXTURES / "dispatch_bound"))
    shown = [table.title for table in data_tables(whole)]
    for table in declared_tables("npu_tui.profile"):
        if table.page and table.section:
            title = {"kernel_groups": "shapes", "collectives": "communication"}.get(table.id, table.id)
            assert shown.count(say(f"table.{title}")) == 1, table.id


def test_a_section_is_computed_when_it_is_asked_for() -> None:
    whole = profile_at(FIXTURES / "dispatch_bound")
    every, said = report(whole), sections_of(whole)
    assert said.apis == every.apis
    assert vars(said).keys() == {"_part", "_left_out", "apis"}
    assert said.step_times == every.step_times
    assert vars(said).keys() == {"_part", "_left_out", "apis", "steps", "step_times"}
    with pytest.raises(AttributeError):
        said.nothing  # noqa: B018
    some = msgspec.to_builtins(report(whole, ["source", "apis"]))
    assert some == {name: msgspec.to_builtins(every)[name] for name in ("schema_version", "kind", "source", "apis")}
