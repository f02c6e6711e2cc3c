import numpy as np
from builders import bars, levels_of, make_trace

from npu_tui.view.grid import Grid
from npu_tui.view.levels import Minimap
from npu_tui.view.palette import Ink
from npu_tui.view.viewport import Viewport

NONE = np.zeros(0, np.int64)


def overlap() -> Minimap:
    trace = make_trace(
        {"Computing": bars((0, 100), (150, 200), (500, 501)), "Communication(Not Overlapped)": bars((100, 400))},
        kind="overlap",
        end=1000,
    )
    return Minimap(trace, Viewport.around(0, 1000, 10), levels_of)


def drawn(minimap: Minimap, start: int, end: int, hits: np.ndarray = NONE) -> Grid:
    grid = Grid.blank(1, 10, Ink.TEXT, Ink.BAND)
    minimap.draw(grid, Viewport.around(start, end, 20), hits)
    return grid


def test_computing_is_a_histogram_and_exposed_communication_a_thin_line() -> None:
    grid = drawn(overlap(), 600, 700)
    assert grid.text(0) == "█▄▁▁ ▐ ▌  "
    assert grid.fg[0, 2] == grid.fg[0, 3] == Ink.EXPOSED
    assert grid.bg[0, 6] == Ink.WINDOW


def test_the_window_is_marked_and_open_where_it_reaches_the_end() -> None:
    assert drawn(overlap(), 0, 1000).text(0) == "█▄▁▁ ▁    "
    assert drawn(overlap(), 720, 1000).text(0) == "█▄▁▁ ▁▐   "
    assert drawn(overlap(), 5000, 6000).text(0)[8] == "▐"


def test_hits_are_marked() -> None:
    grid = drawn(overlap(), 0, 1000, np.array([20, 850]))
    assert grid.text(0)[8] == "▔"
    assert (grid.text(0)[0], grid.fg[0, 0], grid.fg[0, 8]) == ("█", Ink.HIT, Ink.HIT)


def test_without_overlap_lanes_the_device_is_shown() -> None:
    trace = make_trace({"Stream 1": bars((0, 50)), "Stream 2": bars((40, 100), (900, 1000))}, kind="hardware")
    assert drawn(Minimap(trace, Viewport.around(0, 1000, 10), levels_of), 0, 1000).text(0) == "▅        █"


def test_a_trace_without_slices_has_an_empty_map() -> None:
    assert drawn(Minimap(make_trace({}), Viewport.around(0, 1, 10), levels_of), 0, 10).text(0).strip() == ""
