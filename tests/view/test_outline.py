from __future__ import annotations

from copy import copy

import pytest
from msgspec.structs import replace

from npu_tui.trace.folded_rows import DEEP, flat_rows, leaf_row
from npu_tui.trace.model import Trace
from npu_tui.view.outline import Folds, default_folds, outline, series_name
from npu_tui.view.scene import LinkClasses, Scene, ScreenRow


def scene_of(*traces: Trace) -> Scene:
    return Scene(list(traces), [LinkClasses.plain(len(trace.links)) for trace in traces])


def shown(scene: Scene, folds: Folds | None = None, heads: bool = True) -> list[ScreenRow]:
    def leaf(trace: int, lanes: tuple[int, ...]):
        return flat_rows([leaf_row(scene.traces[trace], scene.traces[trace].lanes[lane]) for lane in lanes])

    return outline(scene, Folds() if folds is None else folds, leaf, heads)


def names(rows: list[ScreenRow]) -> list[str]:
    return [row.name for row in rows if row.opener]


def nested(count: int) -> list[tuple[str, str, str, int, int]]:
    return [("Python", "Thread 7", f"op{depth}", depth, 1000 - depth) for depth in range(count)]


COLLECTIVES = [
    ("HCCL", lane, f"hcom in {lane}", 0, 100)
    for lane in ("Group 0 Communication", "Plane 0", "Plane 1", "Group 1 Communication", "Plane 0 of 1")
]


def test_layers_stand_in_the_profilers_order_with_counters_last(healthy):
    layers = [row.name for row in shown(scene_of(healthy), default_folds(scene_of(healthy))) if row.kind == "layer"]
    assert layers == ["Python", "CANN", "Ascend Hardware", "HCCL", "Overlap Analysis"]
    alike = copy(healthy)
    alike.layers = [replace(layer, name="python3") for layer in healthy.layers]
    heads = {row.name for row in shown(scene_of(alike), default_folds(scene_of(alike))) if row.kind == "layer"}
    assert heads == {"python3", f"python3 NPU {healthy.layers[2].device}"}
    counters = [row.name for row in shown(scene_of(healthy), default_folds(scene_of(healthy))) if row.kind == "counter"]
    assert counters == ["AI Core Freq", "HBM", "NPU MEM", "Acc PMU"]


def test_steps_stand_above_everything(healthy):
    first = shown(scene_of(healthy))[0]
    assert (first.kind, first.name, first.foldable) == ("slices", "Steps", False)


def test_the_dequeue_thread_is_the_last_of_its_layer(healthy):
    threads = [lane.name for lane in healthy.lanes if lane.layer == 0 and not lane.derived]
    assert threads == ["Thread 284117", "Thread 287930", "Thread 285402"]


def test_a_lane_has_a_row_per_depth_and_its_name_on_the_first(make_trace):
    rows = [row for row in shown(scene_of(make_trace(nested(3)))) if row.kind == "slices"]
    assert [(row.depth, row.opener) for row in rows] == [(0, True), (1, False), (2, False)]


@pytest.mark.parametrize(("depth", "folded"), [(DEEP, False), (DEEP + 1, True)])
def test_deep_lanes_start_folded(make_trace, depth: int, folded: bool):
    scene = scene_of(make_trace(nested(depth)))
    kinds = [row.kind for row in shown(scene, default_folds(scene)) if row.lane >= 0]
    assert kinds == (["leaf"] if folded else ["slices"] * depth)


def test_a_folded_lane_is_one_leaf_row_with_its_own_rows(make_trace):
    scene = scene_of(make_trace(nested(3)))
    (row,) = [row for row in shown(scene, Folds(lanes={(0, 0)})) if row.lane == 0]
    assert (row.kind, row.row, row.foldable, row.folded) == ("leaf", 0, True, True)
    assert row.rows is not scene.traces[0].rows


def test_a_flat_lane_cannot_fold(make_trace):
    (row,) = [row for row in shown(scene_of(make_trace(nested(1)))) if row.lane == 0]
    assert not row.foldable


def test_without_heads_only_folded_layers_have_a_row_of_their_own(healthy):
    scene = scene_of(healthy)
    assert not [row for row in shown(scene, Folds(), heads=False) if row.kind == "layer" and row.lane >= 0]
    folded = shown(scene, Folds(layers={(0, 1)}), heads=False)
    assert [row.name for row in folded if row.kind == "layer" and row.folded] == ["CANN"]


def test_a_folded_layer_hides_its_lanes(healthy):
    rows = shown(scene_of(healthy), Folds(layers={(0, 1)}))
    assert [row.kind for row in rows if row.layer == 1] == ["layer"]


def test_planes_hide_under_their_group_only(make_trace):
    scene = scene_of(make_trace(COLLECTIVES))
    assert names(shown(scene, Folds(lanes={(0, 0)}))) == [
        "HCCL",
        "Group 0 Communication",
        "Group 1 Communication",
        "Plane 0 of 1",
    ]


def test_groups_with_planes_start_folded(make_trace):
    scene = scene_of(make_trace(COLLECTIVES))
    assert names(shown(scene, default_folds(scene))) == ["HCCL", "Group 0 Communication", "Group 1 Communication"]
    groups = [row for row in shown(scene, default_folds(scene)) if row.lane >= 0]
    assert all(row.foldable and row.folded for row in groups)


def test_planes_outside_the_communication_layer_are_lanes_like_others(make_trace):
    scene = scene_of(
        make_trace([("Ascend Hardware", "Stream 1", "a", 0, 9), ("Ascend Hardware", "Plane 0", "b", 0, 9)])
    )
    assert names(shown(scene, default_folds(scene))) == ["Ascend Hardware", "compute s1", "Plane 0"]


def test_a_layer_with_one_curve_is_that_curve(make_trace):
    scene = scene_of(make_trace(nested(1), counters=[("HBM", "used", 5, 1.0), ("HBM", "used", 9, 2.0)]))
    for folds in (Folds(), default_folds(scene)):
        row = shown(scene, folds)[-1]
        assert (row.kind, row.name, row.foldable) == ("counter", "HBM", False)


def test_many_curves_fold_into_the_first_and_open_into_all(make_trace):
    counters = [("HBM", series, time, 1.0) for series in ("read", "write") for time in (1, 5)]
    scene = scene_of(make_trace(nested(1), counters=counters))
    assert [(row.kind, row.name) for row in shown(scene, default_folds(scene))[-1:]] == [("counter", "HBM")]
    assert [(row.kind, row.name) for row in shown(scene, Folds())[-3:]] == [
        ("layer", "HBM"),
        ("counter", "read"),
        ("counter", "write"),
    ]


def test_series_of_several_instances_carry_the_instance():
    assert series_name("read", "") == "read"
    assert series_name("read", "acc 1") == "read acc 1"


def test_two_traces_stand_one_below_the_other(make_trace):
    scene = scene_of(make_trace(nested(2)), make_trace(nested(1)))
    rows = shown(scene)
    assert [(row.kind, row.trace) for row in rows if row.kind != "slices"] == [
        ("trace", 0), ("layer", 0), ("trace", 1), ("layer", 1)
    ]  # fmt: skip
    assert [row.trace for row in rows] == [0, 0, 0, 0, 1, 1, 1]
    assert [row.trace for row in shown(scene, Folds(traces={0}))] == [0, 1, 1, 1]


def test_an_empty_scene_has_no_rows():
    assert shown(scene_of()) == []


def test_a_trace_of_counters_only_has_their_rows(make_trace):
    scene = scene_of(make_trace(counters=[("HBM", "used", 5, 1.0)]))
    assert [row.kind for row in shown(scene, default_folds(scene))] == ["counter"]
