"""Stacked areas: who holds memory over time, in as many rows as are left, with the peak marked."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from npu_tui.load.load import opening_of
from npu_tui.profile.memory_tables import HOLDERS
from npu_tui.profile.profile import Profile
from npu_tui.profile.scene import make_scene
from npu_tui.profile.snapshot_memory import memory_of_device
from npu_tui.view.curves import DrawnArea, ink_of
from npu_tui.view.explorer import Explorer
from npu_tui.view.grid import Grid
from npu_tui.view.outline import LEAST_BANDS, MOST_BANDS
from npu_tui.view.painter import Painter
from npu_tui.view.palette import Ink
from npu_tui.view.scene import Scene, StackedArea
from npu_tui.view.viewport import Viewport
from tests.snapshots import write_snapshot


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    path = tmp_path_factory.mktemp("snapshot") / "leak.pkl"
    write_snapshot(path, "leak", 3)
    return Profile(opening_of(path, False).trace(), None)


@pytest.fixture(scope="module")
def scene(profile: Profile) -> Scene:
    return make_scene([profile])


def area_of(scene: Scene) -> StackedArea:
    (chart,) = [chart for chart in scene.charts[0] if chart.kind == "stack"]
    assert chart.area is not None
    return chart.area()


def test_holders_add_up_to_what_is_allocated(profile: Profile, scene: Scene) -> None:
    area = area_of(scene)
    snapshot = profile.trace.snapshot
    memory = memory_of_device(snapshot, snapshot.devices[0], profile.trace.start_ns)
    curve = memory.curve("allocated")
    assert (area.time == curve.time).all()
    assert (area.value.sum(axis=0) == curve.value).all()
    assert (area.value >= 0).all()
    # At the peak the first holder has what the table says of its line.
    sheet = HOLDERS.make(profile, chosen=memory.allocations.alive(curve.peak[0]), time=curve.peak[0], memory=memory)
    places = [f"{place.function}:{place.line}" if place else None for place in map(sheet.code, range(sheet.rows))]
    held: dict[str, int] = {}
    for place, size in zip(places, sheet.values("held"), strict=True):
        if place is not None:
            held[place] = held.get(place, 0) + int(size)
    at = DrawnArea(area).peak
    known = [name for name in area.names[:-1] if name in held]
    assert known
    assert [int(area.value[area.names.index(name), at]) for name in known] == [held[name] for name in known]
    assert (np.diff(area.value[:-1, at]) <= 0).all(), "the largest is the lowest"


def test_every_column_is_at_its_fullest_moment(scene: Scene) -> None:
    area = DrawnArea(area_of(scene))
    view = Viewport.around(0, int(area.area.end), 97)
    columns, moment = area.moments(view)
    edges = view.edges().tolist()
    for column, found in zip(columns.tolist(), moment.tolist(), strict=True):
        low, high = edges[column], edges[column + 1]
        begun = int(np.searchsorted(area.area.time, low, "right")) - 1
        inside = [at for at in range(max(begun, 0), len(area.total)) if area.area.time[at] < high]
        assert area.total[found] == max(area.total[inside])


def small() -> DrawnArea:
    """Two holders: 4 and 4 of 8 bytes in the first half, 8 and 0 in the second, then nothing."""
    value = np.array([[4, 8, 0], [4, 0, 0], [0, 0, 0]], np.int64)
    return DrawnArea(StackedArea(("a", "b", "others"), np.array([0, 50, 90], np.int64), value, 100))


def test_a_holder_stands_on_those_that_hold_more() -> None:
    area = small()
    grid = Grid.blank(5, 10, Ink.TEXT, Ink.LANE)
    area.draw(grid, [(band, band) for band in range(5)], 5, Viewport.around(0, 100, 10))
    first, second = (ink_of(area.area, holder) for holder in (0, 1))
    assert [int(grid.fg[band, 2]) for band in (4, 3, 2, 1)] == [first, first, second, second]
    assert [int(grid.fg[band, 7]) for band in (4, 3, 2, 1)] == [first] * 4
    assert grid.text(0).startswith("▼ 8 B")
    assert all(grid.text(band)[9] == " " for band in range(1, 5))


def test_a_boundary_within_a_cell_has_both_colours() -> None:
    area = DrawnArea(
        StackedArea(("a", "b", "others"), np.array([0], np.int64), np.array([[3], [5], [0]], np.int64), 10)
    )
    grid = Grid.blank(2, 4, Ink.TEXT, Ink.LANE)
    area.draw(grid, [(0, 0), (1, 1)], 2, Viewport.around(0, 10, 4))
    assert grid.text(1)[0] == "▃"
    assert (int(grid.fg[1, 0]), int(grid.bg[1, 0])) == (ink_of(area.area, 0), ink_of(area.area, 1))


def test_an_area_takes_the_rows_that_are_left(scene: Scene) -> None:
    explorer = Explorer(scene, 120, 20)
    bands = []
    for height in (12, 20, 30, 60):
        explorer.resize(120, height, heads=True)
        rows = explorer.rows
        bands.append(sum(row.bands > 0 for row in rows))
        assert LEAST_BANDS <= bands[-1] <= MOST_BANDS
        assert len(rows) <= max(height, explorer.list.wanted)
        assert len(rows) == height or bands[-1] in (LEAST_BANDS, MOST_BANDS)
    assert all(before <= after for before, after in pairwise(bands))
    assert bands[-1] > bands[0]


def test_bands_are_the_legend_of_the_area(scene: Scene) -> None:
    explorer = Explorer(scene, 120, 30)
    explorer.resize(120, 30, heads=True)
    frame = Painter(scene).compose(explorer.rows, explorer.state, 150, 36)
    names = area_of(scene).names
    gutters = [frame.grid.text(line)[: frame.gutter] for line in range(frame.grid.height)]
    lowest = max(line for line, row in enumerate(explorer.rows) if row.bands) + frame.lanes_top
    for holder, name in enumerate(names):
        assert name[:3] in gutters[lowest - holder]
        assert int(frame.grid.fg[lowest - holder, 0]) == ink_of(area_of(scene), holder)
