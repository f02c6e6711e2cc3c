from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from measured import profile_of

from npu_tui.analysis import search
from npu_tui.analysis.code_lines import losing_launches
from npu_tui.analysis.search import SearchError, parse_search
from npu_tui.analysis.steps import steps
from npu_tui.trace.model import Trace


def find(trace: Trace, text: str) -> list[int]:
    places = [lane.name for lane in trace.lanes] + [layer.name for layer in trace.layers]
    return np.flatnonzero(profile_of(trace).searchable.find(parse_search(text, places))).tolist()


def chosen(trace: Trace, wanted: Callable[[int], bool]) -> list[int]:
    """What a loop over all slices finds."""
    return [item for item in range(len(trace.slices)) if wanted(item)]


def duration(trace: Trace, item: int) -> int:
    return int(trace.slices.end[item] - trace.slices.start[item])


def layer(trace: Trace, item: int) -> str:
    return trace.layers[trace.lanes[int(trace.slices.lane[item])].layer].name


def test_small_letters_find_any_case(bundled):
    trace = bundled.trace
    expected = chosen(trace, lambda item: "matmul" in trace.name_of(item).lower())
    assert expected
    assert find(trace, "matmul") == expected


def test_a_capital_makes_the_case_count(bundled):
    trace = bundled.trace
    assert find(trace, "MatMul") == chosen(trace, lambda item: "MatMul" in trace.name_of(item))
    assert not find(trace, "MATMUL")


def test_blanks_and_signs_are_part_of_the_name(bundled):
    assert find(bundled.trace, "ProfilerStep#")
    assert not find(bundled.trace, "ProfilerStep#.*")


def test_patterns(bundled):
    trace = bundled.trace
    expected = chosen(trace, lambda item: trace.name_of(item).lower().startswith("aclnn"))
    assert expected
    assert find(trace, "/^ACLNN|^aclnn/") == chosen(trace, lambda item: trace.name_of(item).startswith("aclnn"))
    assert find(trace, "/^aclnn/") == expected
    assert find(trace, r"/step#\d+$/")


def test_a_pattern_that_would_take_for_ever_does_not(bundled):
    assert find(bundled.trace, r"/(\w+\w+)+~$/") == []


PATTERNS = (
    r"^aclnn.*mul", r"step#\d+$", r"a\*|b+?", r"[*+a]n", r"(?:gelu|mul)", r"(?P<kind>aten)::", r"[^a]{2,}x?",
    r"(ge)+lu", r"(l+)+",
)  # fmt: skip
"""Only the last one may be looked for by the other engine."""


@pytest.mark.parametrize("pattern", PATTERNS)
def test_both_engines_find_the_same(bundled, monkeypatch, pattern):
    trace = bundled.trace
    names = [bool(re.search(pattern, name, re.IGNORECASE)) for name in trace.names]
    expected = chosen(trace, lambda item: names[trace.slices.name[item]])
    assert find(trace, f"/{pattern}/") == expected
    monkeypatch.setattr(search, "_HERE_SECONDS", -1.0)
    assert find(trace, f"/{pattern}/") == expected


def test_plain_patterns_need_no_other_engine(bundled, monkeypatch):
    monkeypatch.setattr(search, "_search_beside", None)
    monkeypatch.setattr(search, "_HERE_SECONDS", 1_000.0)
    for pattern in PATTERNS[:-1]:
        find(bundled.trace, f"/{pattern}/")


def test_what_is_prepared_is_what_would_be_found(bundled):
    trace, search = bundled.trace, parse_search("line:train.py")
    prepared = profile_of(trace).searchable
    prepared.prepare()
    assert prepared.find(search).any()
    assert (prepared.find(search) == profile_of(trace).searchable.find(search)).all()


def test_a_pattern_of_another_kind_is_refused(bundled):
    with pytest.raises(SearchError, match="lookaround"):
        find(bundled.trace, "/(?=a)b/")


def test_a_whole_name(bundled):
    trace = bundled.trace
    name = trace.name_of(find(trace, "aten::")[0])
    assert find(trace, f'name="{name}"') == chosen(trace, lambda item: trace.name_of(item) == name)


@pytest.mark.parametrize("sign", ["<", "<=", ">", ">=", "="])
def test_durations_compare_to_the_nanosecond(bundled, sign):
    trace = bundled.trace
    value = int(np.sort(trace.slices.end - trace.slices.start)[len(trace.slices) // 2])
    compare = {"<": int.__lt__, "<=": int.__le__, ">": int.__gt__, ">=": int.__ge__, "=": int.__eq__}[sign]
    expected = chosen(trace, lambda item: bool(compare(duration(trace, item), value)))
    assert expected
    assert find(trace, f"dur{sign}{value}ns") == expected


def test_start_and_end(bundled):
    trace = bundled.trace
    middle = trace.end // 2
    expected = chosen(trace, lambda item: trace.slices.start[item] > middle and trace.slices.end[item] < trace.end)
    assert find(trace, f"start>{middle}ns end<{trace.end}ns") == expected


def test_fields_all_hold(bundled):
    trace = bundled.trace
    expected = chosen(
        trace,
        lambda item: layer(trace, item) == "CANN" and duration(trace, item) > 5_000 and "a" in trace.name_of(item),
    )
    assert expected
    assert find(trace, "dur>5us layer:cann a") == find(trace, "a layer=CANN dur>5us")


def test_lanes_with_blanks_in_their_names(bundled):
    trace = bundled.trace
    lane = next(lane for lane in trace.file_lanes if " " in lane.name)
    same = [other.index for other in trace.file_lanes if lane.name.lower() in other.name.lower()]
    assert find(trace, f"lane:{lane.name}") == chosen(trace, lambda item: trace.slices.lane[item] in same)


def test_classes_are_those_of_the_launches(bundled):
    trace = bundled.trace
    for device in profile_of(trace).dispatch:
        for name, mask in (
            ("starved", device.starved),
            ("near-vertical", device.near_vertical),
            ("shallow", device.shallow),
            ("queued", device.queued),
        ):
            assert set(trace.links.target_slice[device.link[mask]].tolist()) <= set(find(trace, f"class:{name}"))
    assert len(find(trace, "class:starved")) == sum(int(device.starved.sum()) for device in profile_of(trace).dispatch)


def test_operator_classes(bundled):
    trace = bundled.trace
    kinds = np.array([trace.layers[lane.layer].kind for lane in trace.lanes])[trace.slices.lane]
    cube = np.flatnonzero((trace.slices.op_class == 4) & (kinds != "overlap")).tolist()
    assert cube
    assert find(trace, "class:cube") == cube


def test_a_line_is_found_in_the_stack_and_through_the_launch(bundled):
    trace = bundled.trace
    lines = {int(line) for stack in trace.stacks for line in re.findall(r"/train\.py\((\d+)\)", stack)}
    layers = set()
    for line in lines:
        found = find(trace, f"line:train.py:{line}")
        stacks = [number for number, stack in enumerate(trace.stacks) if f"/train.py({line})" in stack]
        assert set(np.flatnonzero(np.isin(trace.slices.stack, stacks)).tolist()) <= set(found)
        layers |= {layer(trace, item) for item in found}
    assert {"Python", "CANN", "Ascend Hardware"} <= layers
    assert not find(trace, "line:train.py:99999")
    assert not find(trace, f"line:rain.py:{min(lines)}")


def test_a_step_holds_what_starts_in_it(bundled):
    trace = bundled.trace
    for step in steps(trace):
        found = find(trace, f"step:{step.number}")
        assert step.item in found
        device = [item for item in found if layer(trace, item) == "Ascend Hardware"]
        assert all(step.window.holds(trace.slices.start[device]))
    assert not find(trace, "step:999999")


def test_lanes_and_classes_that_are_not_there_are_refused_with_the_nearest(bundled):
    with pytest.raises(SearchError, match="no lane name contains Steam 2; did you mean stream 2"):
        find(bundled.trace, 'lane:"Steam 2"')
    with pytest.raises(SearchError, match="no class starvd; did you mean starved"):
        find(bundled.trace, "class:starvd")


def test_no_text_finds_nothing(bundled):
    assert not find(bundled.trace, "")
    assert not find(bundled.trace, "no such kernel")


def test_main_354_launched_the_starved_kernels_of_the_real_profile(level1):
    # All of its launches that lost time but those that lost less than makes a starved one.
    [device] = profile_of(level1.trace).dispatch
    loss = next(loss for loss, _ in losing_launches(level1.trace, device) if loss.code and loss.code.line == 354)
    found = find(level1.trace, "line:main.py:354 class:starved")
    assert 0 < len(found) <= loss.launches
