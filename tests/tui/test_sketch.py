"""The first picture of a parsed copy, drawn of a sketch, is that of the whole trace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from msgspec import structs

from npu_tui.load import copy as cache
from npu_tui.load import copy_container as sketch
from npu_tui.load.copy_container import sketch_of
from npu_tui.load.find import find_source
from npu_tui.load.load import Opening, load
from npu_tui.trace.classes import OpClass
from npu_tui.trace.model import Trace, make_rows
from npu_tui.tui.loading import Early, Ended, Loader, _picture
from npu_tui.tui.terminal.terminal import Terminal
from npu_tui.view.caches import lanes_top
from npu_tui.view.explorer import Explorer
from npu_tui.view.grid import Grid
from npu_tui.view.margins import gutter_width
from npu_tui.view.painter import Painter
from npu_tui.view.scene import Scene

I64 = npt.NDArray[np.int64]

FIXTURES = ("healthy", "dispatch_bound", "level0", "kineto", "mindspore", "msprof_two_devices", "interrupted")
SIZES = ((80, 20), (120, 32), (200, 44))


def opening_screen(trace: Trace, width: int, height: int) -> Grid:
    scene = Scene.plain([trace])
    columns, rows = width - gutter_width(width), height - lanes_top(height)
    explorer = Explorer(scene, columns, rows)
    explorer.resize(columns, rows, height > 30)
    return Painter(scene).compose(explorer.rows, explorer.state, width, height).grid


def differing(first: Grid, second: Grid) -> float:
    """The share of cells that are not the same."""
    planes = ((first.char, second.char), (first.fg, second.fg), (first.bg, second.bg), (first.attr, second.attr))
    return float(np.mean(np.any([one != other for one, other in planes], axis=0)))


@pytest.mark.parametrize("name", FIXTURES)
def test_a_short_trace_is_sketched_to_the_cell(name: str) -> None:
    trace = load(f"fixtures/{name}")
    found = sketch_of(trace)
    assert found is not None
    for width, height in SIZES:
        assert differing(opening_screen(trace, width, height), opening_screen(found, width, height)) == 0, (
            name,
            width,
        )


def denser(trace: Trace, times: int) -> Trace:
    """``trace`` with every slice cut into ``times`` of different lengths; of a step the others have no duration."""
    rows, slices = trace.rows, trace.slices
    cuts = np.sort(np.random.default_rng(3).random((len(slices), times + 1)), axis=1)
    cuts[slices.op_class == OpClass.STEP] = 1
    cuts[:, 0], cuts[:, -1] = 0, 1

    def cut(start: I64, end: I64, item: I64) -> tuple[I64, I64]:
        at = start[:, None] + (cuts[item] * (end - start)[:, None]).astype(np.int64)
        return at[:, :-1].ravel(), at[:, 1:].ravel()

    start, end = cut(slices.start, slices.end, np.arange(len(slices)))
    row_start, row_end = cut(rows.start, rows.end, rows.item.astype(np.int64))
    many = {name: np.repeat(getattr(slices, name), times) for name in slices.__struct_fields__}
    item = (rows.item.astype(np.int64)[:, None] * times + np.arange(times)).astype(np.int32).ravel()
    return replace(
        trace,
        slices=type(slices)(**many | {"start": start, "end": end}),
        rows=make_rows(rows.offset * times, item, row_start, row_end),
        lanes=[structs.replace(lane, first=lane.first * times, last=lane.last * times) for lane in trace.lanes],
    )


def test_a_dense_trace_is_sketched_all_but_to_the_cell() -> None:
    trace = denser(load("fixtures/healthy"), 100)
    found = sketch_of(trace)
    assert found is not None
    assert len(found.slices) < len(trace.slices) / 2
    for width, height in SIZES:
        whole, drawn = opening_screen(trace, width, height), opening_screen(found, width, height)
        assert differing(whole, drawn) < 0.05, width
        gutter = gutter_width(width)
        assert differing(whole.part(0, 0, height, gutter), drawn.part(0, 0, height, gutter)) == 0, width


def test_a_sketch_does_not_grow_with_the_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = denser(load("fixtures/healthy"), 100)
    monkeypatch.setattr(sketch, "MOST", 10_000)
    found = sketch_of(trace)
    assert found is not None
    assert 5_000 < len(found.rows.item) + sum(len(rows.item) for rows in found.folded.values()) <= 10_000
    assert differing(opening_screen(trace, 120, 32), opening_screen(found, 120, 32)) < 0.2


def test_of_very_many_lanes_the_longest_are_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = load("fixtures/healthy")
    monkeypatch.setattr(sketch, "MOST_FOLDED", 1)
    found = sketch_of(trace)
    assert found is not None
    length = np.diff(trace.rows.offset[[[lane.first_row, lane.first_row + lane.rows] for lane in trace.lanes]])[:, 0]
    longest = max((lane for lane in trace.lanes if lane.rows > 1), key=lambda lane: int(length[lane.index]))
    assert [*found.folded] == [longest.first_row]
    assert opening_screen(found, 120, 32).char.any()


def test_who_gives_up_the_copy_gives_up_the_sketch() -> None:
    assert sketch_of(load("fixtures/healthy"), lambda: False) is None


def test_the_first_picture_is_drawn_before_the_copy_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(cache, "LEAST_BYTES", 1)
    monkeypatch.setattr(cache, "_LEFT_FREE", 0)
    path = Path("fixtures/healthy")
    key = cache.key_of(find_source(path))
    assert key is not None
    cache.keep(load(path), key, lambda: True)
    happened: list[str] = []
    original = cache.find
    monkeypatch.setattr(cache, "find", lambda *words: (happened.append("read"), original(*words))[1])
    drawn: list[Trace] = []

    def picture(trace: Trace, whole: bool) -> None:
        happened.append("drawn")
        drawn.append(trace)

    loader = Loader([Opening(path)], picture=picture)
    loader.listen(lambda news: happened.append(type(news).__name__))
    loader.start()
    loader._thread.join(60)
    assert happened[:2] == ["drawn", "read"]
    assert happened.count("drawn") == 1
    assert happened[-1] == Ended.__name__
    assert Early.__name__ in happened
    assert len(drawn[0].links) == 0  # it is the sketch
    drawn[0].rank = None  # it may be a service or a snapshot as well
    whole, part = (_picture(drawn[0], whole, Terminal(), 80, 24) for whole in (True, False))
    assert "examining the trace" in whole
    assert "examining the trace" not in part
    assert "read so far" in part
    head = whole.partition("\x1b[2;1H")[0]
    assert "fixtures/healthy" in head
    assert "single device" not in head
