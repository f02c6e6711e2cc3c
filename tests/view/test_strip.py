import numpy as np
from builders import make_scene, make_trace

from npu_tui.view.grid import Attr, Grid
from npu_tui.view.links import LinkIndex, StripCount, draw_strip
from npu_tui.view.palette import Ink
from npu_tui.view.scene import LinkClasses, LinkShape
from npu_tui.view.viewport import Viewport

CATEGORY = "HostToDevice"
Mark = tuple[int, LinkShape, int, bool]


def drawn(links: list[Mark], width: int = 10) -> tuple[Grid, StripCount]:
    """The strip over 0..1000 ns of links as (target time, shape, lost ns, starved), sources 7 ns earlier."""
    trace = make_trace({}, links=[(-1, target - 7, -1, target, CATEGORY) for target, *_ in links])
    marks = LinkClasses(
        np.array([shape for _, shape, _, _ in links], np.int8),
        np.array([lost for _, _, lost, _ in links], np.int64),
        np.array([starved for *_, starved in links], np.bool_),
    )
    grid = Grid.blank(1, width, Ink.TEXT, Ink.BAND)
    return grid, draw_strip(grid, LinkIndex(trace, marks, CATEGORY), Viewport(0, 1000, width))


def test_each_shape_has_its_glyph() -> None:
    links = [(50, LinkShape.NEAR_VERTICAL, 0, False), (150, LinkShape.SHALLOW, 0, False)]
    links += [(250, LinkShape.QUEUED, 0, False), (350, LinkShape.PLAIN, 0, False)]
    grid, count = drawn(links)
    assert grid.text(0) == "┃\\╲╲" + " " * 6
    assert grid.fg[0, :3].tolist() == [Ink.NEAR, Ink.SHALLOW, Ink.QUEUED]
    assert (count.links, count.starved, count.near) == (4, 0, 1)


def test_one_starved_link_wins_over_any_number_of_healthy_ones() -> None:
    calm = [(10 + k, LinkShape.NEAR_VERTICAL, 0, False) for k in range(40)]
    grid, count = drawn([*calm, (60, LinkShape.QUEUED, 12_000, True)])
    assert (grid.text(0)[0], grid.fg[0, 0]) == ("╲", Ink.ALERT_LOW)
    assert count == StripCount(41, 1, 40)


def test_the_red_grows_with_the_lost_time_of_the_cell() -> None:
    near = LinkShape.NEAR_VERTICAL
    lost = [(50, 20_000), (150, 60_000), (250, 600_000), (350, 30_000), (360, 30_000)]
    grid, _ = drawn([(target, near, ns, True) for target, ns in lost])
    assert grid.fg[0, :4].tolist() == [Ink.ALERT_LOW, Ink.ALERT, Ink.ALERT, Ink.ALERT]
    assert (grid.attr[0, :4] & Attr.BOLD).astype(bool).tolist() == [False, False, True, False]
    assert grid.text(0)[:4] == "┃┃┃┃"


def test_a_negative_latency_leans_the_other_way() -> None:
    trace = make_trace({}, links=[(-1, 60, -1, 50, CATEGORY)])
    grid = Grid.blank(1, 10, Ink.TEXT, Ink.BAND)
    draw_strip(grid, LinkIndex(trace, make_scene(trace).link_classes[0], CATEGORY), Viewport(0, 1000, 10))
    assert (grid.text(0)[0], grid.fg[0, 0]) == ("╱", Ink.NEGATIVE)


def test_links_outside_the_view_and_of_other_categories_do_not_count() -> None:
    trace = make_trace({}, links=[(-1, 0, -1, 50, "fwdbwd"), (-1, 0, -1, 1000, CATEGORY), (-1, 0, -1, 999, CATEGORY)])
    grid = Grid.blank(1, 10, Ink.TEXT, Ink.BAND)
    count = draw_strip(grid, LinkIndex(trace, make_scene(trace).link_classes[0], CATEGORY), Viewport(0, 1000, 10))
    assert (grid.text(0), count.links) == (" " * 9 + "╲", 1)


def test_a_run_of_links_holds_all_that_touch_a_window() -> None:
    random = np.random.default_rng(3)
    times = random.integers(0, 10_000, (200, 2))
    trace = make_trace({}, links=[(-1, int(a), -1, int(b), CATEGORY) for a, b in times])
    index = LinkIndex(trace, make_scene(trace).link_classes[0], CATEGORY)
    for start in range(-500, 10_500, 700):
        low, high = index.touching(start, start + 400)
        first, last = np.minimum(index.source, index.target), np.maximum(index.source, index.target)
        touching = np.flatnonzero((first < start + 400) & (last >= start))
        assert all(low <= k < high for k in touching)
