"""While a trace loads, the view stays where the user put it."""

from __future__ import annotations

import pytest

from npu_tui.load import text_trace as loading
from npu_tui.load.errors import Watcher
from npu_tui.load.load import load
from npu_tui.trace.model import Trace
from npu_tui.view.explorer import Explorer
from npu_tui.view.scene import LinkClasses, Scene, Selected
from npu_tui.view.start import take_over


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list[Trace]:
    """A trace while it loads, and the whole one."""
    monkeypatch.setattr(loading, "_FIRST_SECONDS", 0.0)
    monkeypatch.setattr(loading, "_EARLY_SECONDS", 0.0)
    seen: list[Trace] = []
    whole = load("fixtures/dispatch_bound", range_bytes=20_000, watcher=Watcher(early=seen.append))
    early = next(trace for trace in seen if len(trace.slices) > 100)
    assert len(early.slices) < len(whole.slices)
    return [early, whole]


def explorer(trace: Trace) -> Explorer:
    return Explorer(Scene([trace], [LinkClasses.plain(len(trace.links))]), 120, 30)


def test_a_view_that_was_not_moved_is_the_opening_one(traces: list[Trace]) -> None:
    before, now, fresh = explorer(traces[0]), explorer(traces[1]), explorer(traces[1])
    take_over(before, now)
    assert now.place() == fresh.place()


def test_time_selection_and_row_are_kept(traces: list[Trace]) -> None:
    before, now = explorer(traces[0]), explorer(traces[1])
    early, whole = traces
    item = len(early.slices) // 2
    before.select(Selected(0, item))
    before.fit(None)
    before.mark_selection()
    take_over(before, now)
    selected = now.state.selection
    assert selected is not None
    assert whole.slices.event[selected.item] == early.slices.event[item]
    shift = early.start_ns - whole.start_ns
    assert now.fitted == (before.fitted[0] + shift, before.fitted[1] + shift)
    assert before.state.range is not None
    assert now.state.range == tuple(edge + shift for edge in before.state.range)
    old, new = before.focused, now.focused
    assert old is not None
    assert new is not None
    assert early.lanes[old.lane].tid == whole.lanes[new.lane].tid


def test_folds_of_the_user_are_kept_and_no_others(traces: list[Trace]) -> None:
    before, now, fresh = explorer(traces[0]), explorer(traces[1]), explorer(traces[1])
    layer = next(layer for layer in traces[0].layers if layer.kind == "python")
    before.folds.layers.add((0, layer.index))
    take_over(before, now)
    assert now.folds.lanes == fresh.folds.lanes
    (folded,) = now.folds.layers - fresh.folds.layers
    assert traces[1].layers[folded[1]].pid == layer.pid
    assert now.list.rows != fresh.list.rows


def test_what_was_folded_pinned_and_hidden_stays_so_when_the_screen_is_laid_out(traces: list[Trace]) -> None:
    before, now = explorer(traces[0]), explorer(traces[1])
    before.resize(120, 30, True)
    assert before.toggle_fold()
    before.move_row(3)
    before.list.toggle_pin()
    before.move_row(8)
    assert before.list.hide()
    before.list.toggle_idle()
    take_over(before, now)
    now.resize(120, 30, True)

    def named(shown: Explorer, key: tuple[int, ...]) -> tuple[int, int]:
        trace = shown.scene.traces[0]
        return trace.layers[key[1]].pid, trace.lanes[key[2]].tid if key[2] >= 0 else -1

    assert [named(now, key) for key in now.folds.pinned] == [named(before, key) for key in before.folds.pinned] != []
    assert {named(now, key) for key in now.folds.hidden} == {named(before, key) for key in before.folds.hidden} != set()
    assert now.list.idle_away
    lanes = [
        {(named(each, (0, each.scene.traces[0].lanes[lane].layer, lane))) for _, lane in each.folds.lanes}
        for each in (before, now)
    ]
    assert lanes[0] <= lanes[1]
