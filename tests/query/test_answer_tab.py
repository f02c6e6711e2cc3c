"""``:sql`` in the explorer: rows that lead to slices and times."""

from __future__ import annotations

import time
from threading import Thread
from typing import Any

from asking import FIXTURES
from measured import session_of

from npu_tui.load.load import load
from npu_tui.query.frames import ONE_PROFILE, tables_of
from npu_tui.query.query import NEVER
from npu_tui.tui.tabs.lines import LinesTab
from npu_tui.tui.tabs.lines import answered as answered_until
from npu_tui.tui.tabs.table import Content, Context, Stretch, TabTable
from npu_tui.view.scene import Selected


def answered(now: Context, sql: str) -> Content:
    return answered_until(now, sql, NEVER)


def context() -> Context:
    nothing: Any = None
    return Context(session_of(load(FIXTURES / "dispatch_bound")), None, None, None, "", nothing, 0)


def test_rows_lead_to_slices_and_times() -> None:
    now = context()
    trace = now.profile.trace
    found = answered(now, "SELECT name, slice, lost FROM launches ORDER BY lost DESC LIMIT 3")
    assert isinstance(found, TabTable)
    assert found.headings == ("name", "slice", "lost ns")
    for row in found.rows:
        (place,) = row.places
        assert isinstance(place, Selected)
        assert trace.name_of(place.item) == row.values[0]
    found = answered(now, "SELECT start, duration FROM free ORDER BY duration DESC LIMIT 1")
    assert isinstance(found, TabTable)
    (place,) = found.rows[0].places
    assert isinstance(place, Stretch)
    start, length = found.rows[0].values
    assert (place.start, place.end - place.start) == (start, length)


def test_what_is_wrong_stands_in_the_tab() -> None:
    now = context()
    assert answered(now, "SELECT nam FROM slices") == "there is no column nam; did you mean name?"
    assert answered(now, "SELECT name FROM slices WHERE start < 0") == "no rows"
    found = answered(now, "SELECT name FROM slices")
    assert isinstance(found, TabTable)
    assert len(found.rows) == 1000
    assert found.note == "1,000 rows   npu-tui query shows the rest"


def test_a_query_is_stopped_and_may_be_asked_again() -> None:
    now, tab, said = context(), LinesTab(), list[Content]()
    assert not tab.stop()
    tab.ask("SELECT count(*) FROM slices a CROSS JOIN slices b CROSS JOIN slices c WHERE a.start + b.start < c.start")
    before = tab.depends_on(now)
    thread = Thread(target=lambda: said.append(tab.content(now)))
    thread.start()
    while not tab.stop():
        time.sleep(0.01)
    thread.join(20)
    assert said == ["the query was stopped"]
    tab.ask("SELECT 1 AS one")
    assert tab.depends_on(now) != before
    assert isinstance(tab.content(now), TabTable)
    assert not tab.stop()


def test_without_a_query_the_tables_and_columns_are_listed() -> None:
    now = context()
    found = answered(now, "")
    assert isinstance(found, TabTable)
    assert [row.values[0] for row in found.rows] == list(ONE_PROFILE)
    assert "ranks" not in ONE_PROFILE
    found = answered(now, "launches")
    assert isinstance(found, TabTable)
    assert found.headings == ("column", "unit", "meaning")
    assert ("lost", "ns", "how long the idle device waited for it") in [row.values for row in found.rows]


def test_the_tab_keeps_the_query_until_another_one() -> None:
    now, tab = context(), LinesTab()
    tab.ask("SELECT count(*) AS n FROM slices")
    found = tab.content(now)
    assert isinstance(found, TabTable)
    assert found.rows[0].values == (len(now.profile.trace.slices),)
    assert tab.name == "SQL"
    before = tab.depends_on(now)
    tab.ask("SELECT 1")
    assert tab.depends_on(now) != before


def test_a_declared_table_is_a_view_by_its_name() -> None:
    now, tab = context(), LinesTab()
    tab.view = "fusion"
    found = tab.content(now)
    assert isinstance(found, TabTable)
    assert tab.name == "Fused, and not fused"
    assert len(found.rows) == len(tables_of(now.profile).scan("fusion").lazy().collect())
