import numpy as np
import pytest
from builders import Bar, all_rows, bars, make_scene, make_trace
from hypothesis import example, given, settings
from hypothesis import strategies as st

from npu_tui.trace.classes import OpClass
from npu_tui.trace.folded_rows import leaf_row
from npu_tui.trace.model import UNFINISHED, Trace
from npu_tui.view.caches import Frame
from npu_tui.view.grid import CONTINUED, SPACE
from npu_tui.view.margins import gutter_width
from npu_tui.view.painter import Painter, compose, spot_at
from npu_tui.view.palette import Ink, bar
from npu_tui.view.scene import LinkMode, Selected, ViewState
from npu_tui.view.viewport import Viewport

WIDTH = 56
COLUMNS = WIDTH - gutter_width(WIDTH)


def draw(trace: Trace, span: int = 4000, width: int = WIDTH, height: int = 8, **state: object) -> Frame:
    view = Viewport.around(0, span, width - gutter_width(width))
    state.setdefault("cursor", -1)
    return compose(make_scene(trace), all_rows(trace), ViewState(view, **state), width, height)  # type: ignore[arg-type]


def lane_text(frame: Frame, y: int = 0) -> str:
    return frame.grid.text(frame.lanes_top + y)[frame.gutter :].replace("┊", " ")


def cell(frame: Frame, x: int, y: int = 0) -> tuple[str, int, int]:
    at = (frame.lanes_top + y, frame.gutter + x)
    return chr(frame.grid.char[at]), int(frame.grid.fg[at]), int(frame.grid.bg[at])


def test_a_bar_has_a_tick_a_name_and_an_end_in_eighths() -> None:
    frame = draw(make_trace({"Stream 2": bars((400, 1650), name="aten::linear")}, end=4000), focus=5)
    assert lane_text(frame) == "    ▏linear     ▌" + " " * 23
    assert cell(frame, 4) == ("▏", Ink.LANE, bar(OpClass.OP))
    assert cell(frame, 5) == ("l", Ink.LABEL, bar(OpClass.OP))
    assert cell(frame, 16) == ("▌", bar(OpClass.OP), Ink.LANE)


def test_what_never_ended_has_an_open_end_in_sight() -> None:
    trace = make_trace({"a": bars((100, 900), name="ended"), "b": bars((2400, 4000), name="hangs")}, end=4000)
    trace.categories, trace.slices.category[1] = [UNFINISHED], 0
    frame = draw(trace, span=4800)
    assert lane_text(frame, 1).rstrip().endswith("►")
    assert "►" not in lane_text(frame)
    assert "►" not in lane_text(draw(trace, span=3600), 1), "its end is not in view"


def test_lone_thin_slices_stand_at_their_place() -> None:
    trace = make_trace({"a": bars((110, 111), (250, 250), (390, 391), (450, 470), (500, 540), (655, 700))}, end=4000)
    assert lane_text(draw(trace)).rstrip() == " ▏│▕┃▌▐"


def test_several_slices_are_a_busy_fraction() -> None:
    many = [(100 * k + 10 * j, 100 * k + 10 * j + k) for k in range(1, 10) for j in range(9)]
    assert lane_text(draw(make_trace({"a": bars(*many)}, end=4000)))[1:9] == "▁▁▂▃▄▄▅▆"


def test_slices_that_meet_share_a_cell() -> None:
    trace = make_trace({"a": bars((0, 150)) + bars((160, 400), op_class=OpClass.CUBE)}, end=4000)
    char, fg, bg = cell(draw(trace, focus=9), 1)
    assert char == "▌"
    assert (fg // 3, bg // 3) == (OpClass.OP, OpClass.CUBE)


def test_a_wait_is_hatched_beside_its_name() -> None:
    trace = make_trace({"a": bars((0, 1400), name="Notify Wait", op_class=OpClass.WAIT)}, end=4000)
    assert lane_text(draw(trace)).rstrip() == "▏Notify Wait ╱"


def test_a_long_name_is_cut() -> None:
    trace = make_trace({"a": bars((0, 1000), name="x" * 30)}, end=4000)
    assert lane_text(draw(trace)).rstrip() == "▏xxxxxxxx…"


def test_hostile_names_never_reach_the_grid() -> None:
    trace = make_trace({"\x1b[2J": bars((0, 3000), name="a\x1b[31m\u202e\u200b矩\n")}, end=4000)
    frame = draw(trace)
    assert lane_text(frame).rstrip() == "▏a?[31m??矩?"
    assert ((frame.grid.char >= SPACE) | (frame.grid.char == CONTINUED)).all()
    assert ((frame.grid.char < 0x7F) | (frame.grid.char > 0x9F)).all()


def test_the_selected_slice_is_inverse_and_bracketed() -> None:
    frame = draw(make_trace({"a": bars((400, 1600), name="mul")}, end=4000), selection=Selected(0, 0))
    assert lane_text(frame).rstrip() == "    [mul]"
    assert {cell(frame, x)[2] for x in range(4, 16)} == {Ink.SELECTED}


def test_a_selected_slice_inside_a_cell_is_a_diamond() -> None:
    frame = draw(make_trace({"a": bars((410, 420), (430, 440), (450, 460))}, end=4000), selection=Selected(0, 1))
    assert lane_text(frame).rstrip() == "    ◆"


def test_hits_are_underlined() -> None:
    trace = make_trace({"a": [*bars((0, 900), name="add"), *bars((1000, 2000), name="mul")]}, end=4000)
    frame = draw(trace, hits=np.array([1000]), hit_masks=[np.array([False, True])])
    under = frame.grid.attr[frame.lanes_top, frame.gutter :] > 0
    assert under[10:20].all()
    assert not under[:9].any()


def test_the_gutter_tells_name_depth_and_share() -> None:
    trace = make_trace({"Stream 12345678": bars((0, 1000), (500, 900), (3000, 4000))})
    frame = draw(trace)
    left = [frame.grid.text(y)[: frame.gutter] for y in range(frame.lanes_top, frame.lanes_top + 3)]
    assert left == ["▎  St…45678 50% ", "▎  │            ", " " * 16]
    assert frame.utilisation == [0.5, None, None, None, None]


def test_the_share_of_a_lane_is_the_union_of_its_rows() -> None:
    frame = draw(make_trace({"a": bars((0, 1000), (900, 2000), (1950, 2500))}, end=4000))
    assert frame.utilisation[0] == pytest.approx(2500 / 4000)


def test_counters_are_charts_with_a_value() -> None:
    trace = make_trace({}, kind="counter", samples={"HBM": [(400, 0.0), (1000, 10.0), (1050, 5.0)]}, end=4000)
    frame = draw(trace, cursor=1060)
    assert lane_text(frame)[:16] == "    ▁▁▁▁▁▁█▅▅▅▅▅"
    assert frame.grid.text(frame.lanes_top)[: frame.gutter].rstrip() == "▎  HBM        5"


def test_top_rows_tell_rank_view_and_links() -> None:
    trace = make_trace({"a": bars((0, 100_000))}, links=[(0, 10, 0, 30_000, "HostToDevice")])
    frame = draw(trace, span=100_000, width=110)
    left = [frame.grid.text(y)[: frame.gutter].rstrip() for y in range(frame.lanes_top)]
    assert left == [" rank 0 · 100.0µs", " view 100.0µs", " links H→D"]


def test_what_is_under_a_cell() -> None:
    trace = make_trace({"a": bars((400, 1600))}, end=4000)
    frame, rows = draw(trace), all_rows(trace)
    state, scene = ViewState(frame.viewport), make_scene(trace)
    found = spot_at(frame, rows, state, scene, frame.gutter + 5, frame.lanes_top)
    assert (found.part, found.time, found.row, found.slice) == ("lanes", 500, 0, Selected(0, 0))
    assert spot_at(frame, rows, state, scene, 3, frame.lanes_top).part == "gutter"
    assert spot_at(frame, rows, state, scene, frame.gutter + 5, 0).time == 500
    assert spot_at(frame, rows, state, scene, frame.gutter + 5, 2).part == "strip"
    assert spot_at(frame, rows, state, scene, frame.gutter, frame.lanes_top + 3).row is None
    assert spot_at(frame, rows, state, scene, WIDTH, 0).part == "outside"


def test_a_painter_draws_what_a_fresh_one_draws() -> None:
    trace = make_trace({"a": bars(*((k * 7, k * 7 + 5) for k in range(500)))})
    painter, rows = Painter(make_scene(trace)), all_rows(trace)
    for span in (3500, 200, 3500, 40):
        state = ViewState(Viewport.around(100, 100 + span, COLUMNS))
        assert painter.compose(rows, state, WIDTH, 8).grid.changed(draw_at(trace, state).grid) == []


def draw_at(trace: Trace, state: ViewState) -> Frame:
    return compose(make_scene(trace), all_rows(trace), state, WIDTH, 8)


def some_lanes() -> st.SearchStrategy[dict[str, list[Bar]]]:
    one = st.tuples(st.integers(0, 900), st.integers(0, 200), st.sampled_from(["a", "aten::b", "Notify Wait", ""]))
    lane = st.lists(one, max_size=25).map(
        lambda found: [(at, at + size, name, OpClass(at % len(OpClass))) for at, size, name in found]
    )
    return st.dictionaries(st.sampled_from(["Stream 2", "Thread 3178231", "x"]), lane, max_size=3)


@settings(max_examples=18, deadline=None)
@given(
    some_lanes(),
    st.sampled_from([(20, 6), (1, 1), (80, 24), (300, 80), (17, 3), (100, 4)]),
    st.integers(-500, 2000),
    st.integers(0, 3000),
    st.integers(-3, 12),
    st.sampled_from(["off", "selection", "all"]),
    st.integers(-2, 30),
)
@example({}, (20, 6), 0, 6, 0, "all", 0)
def test_no_size_and_no_state_stops_a_frame(
    lanes: dict[str, list[Bar]],
    size: tuple[int, int],
    start: int,
    span: int,
    focus: int,
    mode: LinkMode,
    item: int,
) -> None:
    count = sum(map(len, lanes.values()))
    links = [(k, 10 * k, (k * 7) % count, 12 * k + 3, "HostToDevice") for k in range(count)]
    trace = make_trace(lanes, links=[*links, (-1, 5, -1, 900, "HostToDevice")], samples={"c": [(5, 1.0), (9, np.nan)]})
    scene = make_scene(trace, starved=range(0, count, 3), near=range(0, count, 2))
    rows = all_rows(trace, heads=True, fold=lambda lane: leaf_row(trace, lane) if lane.index % 2 else None)
    state = ViewState(
        Viewport.around(start, start + span, max(size[0] - gutter_width(size[0]), 1)),
        cursor=start + span // 2,
        focus=focus,
        top=max(focus - 2, 0),
        selection=Selected(0, item),
        range=(start + span // 3, start + span // 2),
        link_mode=mode,
        hits=np.arange(0, 1000, 90),
    )
    frame = compose(scene, rows, state, *size)
    assert frame.grid.char.shape == (size[1], size[0])
    assert ((frame.grid.char >= SPACE) | (frame.grid.char == CONTINUED)).all()


@settings(max_examples=18, deadline=None)
@given(some_lanes(), st.integers(-100, 900), st.integers(1, 1500))
def test_no_slice_disappears(lanes: dict[str, list[Bar]], start: int, span: int) -> None:
    trace = make_trace(lanes)
    view = Viewport.around(start, start + span, COLUMNS)
    rows = all_rows(trace)
    frame = compose(make_scene(trace), rows, ViewState(view, cursor=-(10**6), focus=-1), WIDTH, len(rows) + 4)
    grid = frame.grid.part(frame.lanes_top, frame.gutter, len(frame.lane_rows), COLUMNS)
    blank = (grid.char == SPACE) & np.isin(grid.bg, [Ink.LANE, Ink.VOID])
    at = {(row.lane, row.depth): y for y, row in enumerate(rows) if row.lane >= 0}
    slices = trace.slices
    for k in range(len(slices)):
        begin, stop = int(slices.start[k]), max(int(slices.end[k]) - 1, int(slices.start[k]))
        if begin < view.end and stop >= view.start:
            first, last = max(view.column(begin), 0), min(view.column(stop), COLUMNS - 1)
            assert not blank[at[int(slices.lane[k]), int(slices.depth[k])], first : last + 1].any()
