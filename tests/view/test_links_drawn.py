import numpy as np
from builders import all_rows, bars, make_scene, make_trace

from npu_tui.trace.classes import OpClass
from npu_tui.trace.folded_rows import leaf_row
from npu_tui.trace.model import Trace
from npu_tui.view.caches import Frame, lanes_top
from npu_tui.view.margins import gutter_width
from npu_tui.view.painter import compose
from npu_tui.view.palette import Ink
from npu_tui.view.rows import RowIndex
from npu_tui.view.scene import LinkMode, Scene, ScreenRow, Selected, ViewState
from npu_tui.view.viewport import Viewport

WIDTH = 46
COLUMNS = WIDTH - gutter_width(WIDTH)
CATEGORY = "HostToDevice"


def launches(source_time: int = 550, target: int = 1510) -> Trace:
    """A host and a device lane with four empty ones between them and one link from the first to the last."""
    lanes = {"host": bars((500, 600)), **{f"lane {k}": [] for k in range(4)}, "device": bars((target, target + 90))}
    return make_trace(lanes, links=[(0, source_time, 1, target, CATEGORY)], end=3000)


def rows_of(trace: Trace) -> list[ScreenRow]:
    return [ScreenRow("slices", 0, 0, lane.index, 0, -1, trace.rows, lane.first_row if lane.rows else -1, lane.name)
            for lane in trace.lanes]  # fmt: skip


def draw(scene: Scene, start: int = 0, height: int = 9, mode: LinkMode = "selection", **state: object) -> Frame:
    view = Viewport.around(start, start + 100 * COLUMNS, COLUMNS)
    state.setdefault("selection", Selected(0, 0) if mode == "selection" else None)
    return compose(
        scene, rows_of(scene.traces[0]), ViewState(view, cursor=-1, focus=-1, link_mode=mode, **state), WIDTH, height
    )  # type: ignore[arg-type]


def lanes(frame: Frame) -> list[str]:
    rows = range(frame.lanes_top, frame.lanes_top + len(frame.lane_rows))
    return [frame.grid.text(y)[frame.gutter :].replace("┊", " ").rstrip() for y in rows]


def ink(frame: Frame, x: int, y: int) -> int:
    return int(frame.grid.fg[frame.lanes_top + y, frame.gutter + x])


def is_braille(text: str) -> bool:
    return all(0x2800 <= ord(glyph) <= 0x28FF for glyph in text)


def test_a_line_runs_from_source_to_target() -> None:
    text = lanes(draw(make_scene(launches())))
    assert (text[0][5], text[5].strip()) == ("●", "▼")
    for y in range(1, 5):
        dots = text[y].strip()
        assert dots
        assert is_braille(dots)
    starts = [len(line) - len(line.lstrip()) for line in text[1:6]]
    assert starts == sorted(starts)
    assert (starts[0], starts[-1]) == (5, 15)


def test_a_near_vertical_link_is_a_column_and_red_when_it_starved() -> None:
    trace = launches(target=560)
    calm, red = draw(make_scene(trace, near=[0])), draw(make_scene(trace, near=[0], starved=[0]))
    assert lanes(calm) == lanes(red)
    assert [line.strip() for line in lanes(calm)[1:5]] == ["┃"] * 4
    assert (ink(calm, 5, 2), ink(red, 5, 2)) == (Ink.NEAR, Ink.ALERT)


def test_a_starved_link_that_queued_keeps_its_shape_in_red() -> None:
    frame = draw(make_scene(launches(), starved=[0]))
    assert is_braille(lanes(frame)[2].strip())
    assert ink(frame, 9, 2) == Ink.ALERT


def test_lines_stay_behind_bars() -> None:
    body = {f"lane {k}": bars((0, 3000), name="name") for k in range(4)}
    host, device = {"host": bars((500, 600))}, {"device": bars((1510, 1600))}
    trace = make_trace(host | body | device, links=[(0, 550, 5, 1510, CATEGORY)], end=3000)
    frame = draw(make_scene(trace))
    assert all(line.startswith("▏name") for line in lanes(frame)[1:5])
    line = lanes(frame)[2]
    dots = [x for x in range(5, len(line)) if is_braille(line[x])]
    assert dots
    assert {ink(frame, x, 2) for x in dots} == {Ink.LABEL}


def test_an_end_below_the_screen_is_marked_at_the_border() -> None:
    text = lanes(draw(make_scene(launches()), height=lanes_top(0) + 3))
    assert text[0].strip() == "●"
    assert "▼" in text[2]


def test_an_end_beside_the_screen_is_marked_at_the_border() -> None:
    text = lanes(draw(make_scene(launches()), start=1000))
    assert [line for line in text if "◄" in line]
    text = lanes(draw(make_scene(launches(target=9000))))
    assert [line for line in text if line.endswith("►")]


def test_nothing_is_drawn_when_links_are_off_or_the_slice_has_none() -> None:
    plain = lanes(draw(make_scene(launches()), mode="off"))
    assert lanes(draw(make_scene(launches()), selection=None)) == plain
    assert not any("●" in line for line in plain)


def test_all_shows_starved_links_first_and_thins_the_rest() -> None:
    count = 3000
    host, device = bars(*((k, k) for k in range(count))), bars(*((k + 700, k + 700) for k in range(count)))
    links = [(k, k, count + k, k + 700, CATEGORY) for k in range(count)]
    trace = make_trace({"host": host, "lane": [], "device": device}, links=links)
    frame = draw(make_scene(trace, starved=[1234]), mode="all")
    marks = sum(line.count("●") for line in lanes(frame))
    assert 3 <= marks <= COLUMNS
    assert Ink.ALERT in frame.grid.fg[frame.lanes_top :, frame.gutter :]


def test_ends_bind_to_the_row_that_stands_for_the_slice() -> None:
    trace = make_trace({"a": bars((0, 100), (10, 90), (20, 80)), "b": bars((0, 50), (10, 40)), "c": bars((0, 9))})
    scene = make_scene(trace)
    rows = all_rows(trace, heads=True, fold=lambda lane: leaf_row(trace, lane) if lane.name == "b" else None)
    places = RowIndex(scene, rows)

    def row(lane: int, depth: int) -> int:
        return int(places.rows(0, np.array([lane]), np.array([depth]))[0])

    assert [row(0, depth) for depth in range(4)] == [1, 2, 3, 3]
    assert (row(1, 1), row(2, 0), row(-1, 0)) == (4, 5, -1)
    assert RowIndex(scene, rows[:1]).rows(0, np.array([0, 2]), np.array([2, 0])).tolist() == [0, 0]
    assert RowIndex(scene, rows[1:3]).rows(0, np.array([0, 2]), np.array([2, 0])).tolist() == [1, -1]
    assert RowIndex(scene, []).rows(0, np.array([0]), np.array([0])).tolist() == [-1]


def test_a_link_without_a_slice_at_one_end_marks_the_other() -> None:
    trace = make_trace({"host": bars((500, 600), op_class=OpClass.CANN)}, links=[(0, 550, -1, 900, CATEGORY)], end=3000)
    assert lanes(draw(make_scene(trace)))[0].strip() == "●"


def test_links_of_a_trace_without_lanes_are_nowhere() -> None:
    found = RowIndex(make_scene(make_trace({})), []).rows(0, np.array([-1, -1]), np.array([0, 3]))
    assert found.tolist() == [-1, -1]
