"""``:sql`` in the explorer: rows that lead to slices and times."""

from __future__ import annotations

from typing import Any

from asking import FIXTURES
from measured import session_of

from npu_tui.load.load import load
from npu_tui.query.frames import ONE_PROFILE
from npu_tui.tui.tabs.lines import LinesTab, answered
from npu_tui.tui.tabs.table import Context, Stretch, Table
from npu_tui.view.scene import Selected


def context() -> Context:
    nothing: Any = None
    return Context(session_of(load(FIXTURES / "dispatch_bound")), None, None, None, "", nothing, 0)


def test_rows_lead_to_slices_and_times() -> None:
    now = context()
    trace = now.profile.trace
    found = answered(now, "SELECT name, slice, lost FROM launches ORDER BY lost DESC LIMIT 3")
    assert isinstance(found, Table)
    assert found.headings == ("name", "slice", "lost ns")
    for row in found.rows:
        (place,) = row.places
        assert isinstance(place, Selected)
        assert trace.name_of(place.item) == row.values[0]
    found = answered(now, "SELECT start, duration FROM free ORDER BY duration DESC LIMIT 1")
    assert isinstance(found, Table)
    (place,) = found.rows[0].places
    assert isinstance(place, Stretch)
    start, length = found.rows[0].values
    assert (place.start, place.end - place.start) == (start, length)


def test_what_is_wrong_stands_in_the_tab() -> None:
    now = context()
    assert answered(now, "SELECT nam FROM slices") == "there is no column nam; did you mean name?"
    assert answered(now, "SELECT name FROM slices WHERE start < 0") == "no rows"
    found = answered(now, "SELECT name FROM slices")
    assert isinstance(found, Table)
    assert len(found.rows) == 1000
    assert found.note == "1,000 rows   npu-tui query shows the rest"


def test_without_a_query_the_tables_and_columns_are_listed() -> None:
    now = context()
    found = answered(now, "")
    assert isinstance(found, Table)
    assert [row.values[0] for row in found.rows] == list(ONE_PROFILE)
    assert "ranks" not in ONE_PROFILE
    found = answered(now, "launches")
    assert isinstance(found, Table)
    assert found.headings == ("column", "unit", "meaning")
    assert ("lost", "ns", "how long the idle device waited for it") in [row.values for row in found.rows]


def test_the_tab_keeps_the_query_until_its_key() -> None:
    now, tab = context(), LinesTab()
    tab.ask("SELECT count(*) AS n FROM slices")
    found = tab.content(now)
    assert isinstance(found, Table)
    assert found.rows[0].values == (len(now.profile.trace.slices),)
    assert tab.name == "SQL"
    before = tab.depends_on(now)
    tab.ask("SELECT 1")
    assert tab.depends_on(now) != before
    tab.again()
    assert tab.view == "lines"
