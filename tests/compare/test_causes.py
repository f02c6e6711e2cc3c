"""Simulated pairs of jobs with one cause each: it is found first, with its price."""

import dataclasses
import json

import numpy as np
import pytest
from measured import profile_at
from msgspec import structs
from pairs import (
    BASE,
    SlowLine,
    Trouble,
    Uneven,
    compared,
    layers_of,
    moved_lines,
    profile,
    replace,
    slower_kernel,
)
from workload import LAYER, Kernel, Operator

from npu_tui.compare.differences import differences
from npu_tui.compare.picture import DrawnSteps
from npu_tui.output.compare_report import compared as typed
from npu_tui.trace.model import CORE_CLOCK, Counters

_HOST = replace(BASE, kernel_ns=18_000, host_op_ns=90_000)


def first(comparison):
    return differences(comparison)[0]


def test_equal_jobs_have_no_finding():
    own = compared(profile(BASE), profile(BASE))
    assert own.step.verdict == "same"
    assert differences(own) == []


def test_slices_that_take_no_time(tmp_path):
    trace = tmp_path / "trace_view.json"
    layer = {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "Ascend Hardware"}}
    kernel = {"ph": "X", "name": "MatMul", "pid": 1, "tid": 1, "ts": "5.0", "dur": 0, "args": {"Task Type": "AI_CORE"}}
    trace.write_text(json.dumps([layer, kernel]))
    assert {each.delta_ns or 0 for each in differences(compared(profile_at(trace), profile_at(trace)))} <= {0}


def test_a_slower_kernel():
    with slower_kernel("MatMulV2", 1.3):
        new = profile(BASE)
    found = compared(profile(BASE), new)
    assert found.step.verdict == "slower"
    assert first(found).id == "DIFF.KERNEL.SLOWER"
    assert first(found).title.args["kernel"] == "MatMulV2"
    assert first(found).delta_ns == pytest.approx(found.step.delta, rel=0.01)


_NO_KERNEL = (Operator("aten::view", "aclnnView", ()),)


_LAYERS = replace(BASE, modules=9)
"""All calls of a layer are used, however many it has."""


def of(api, kernel, weight):
    """A call whose gradient needs no kernel, as the attention of a layer is called."""
    operator = Operator(f"aten::{api}", f"aclnn{api.title()}", (Kernel(kernel, f"{kernel}AiCore", weight),))
    return dataclasses.replace(LAYER[1], forward=operator, backward=_NO_KERNEL, gradient="ViewBackward0")


def test_one_more_call_in_every_layer():
    gelu = dataclasses.replace(LAYER[4], backward=_NO_KERNEL, gradient="ViewBackward0")
    with layers_of(*LAYER, gelu):
        new = profile(_LAYERS)
    found = compared(profile(_LAYERS), new)
    assert first(found).id == "DIFF.KERNEL.MORE"
    assert first(found).title.args["kernel"] == "Gelu"
    assert first(found).title.args["new_count"] == first(found).title.args["base_count"] + BASE.layers
    assert first(found).delta_ns == pytest.approx(found.step.delta, rel=0.01)


def test_operations_replaced_by_a_fused_one():
    single = [of("matmul", "BatchMatMul", 90), of("softmax", "SoftmaxV2", 120), of("dropout", "DropOutDoMask", 60)]
    fused = of("fused_attention", "FlashAttentionScore", 110)
    with layers_of(LAYER[0], *single, *LAYER[2:]):
        base = profile(_LAYERS)
    with layers_of(LAYER[0], fused, *LAYER[2:]):
        new = profile(_LAYERS)
    found = compared(base, new)
    assert first(found).id == "DIFF.REPLACED"
    assert first(found).title.args["was"] == "BatchMatMul + SoftmaxV2 + DropOutDoMask"
    assert first(found).title.args["kernel"] == "FlashAttentionScore"
    computing = next(part.delta for part in found.parts if part.part == "computing")
    assert first(found).delta_ns == pytest.approx(computing, rel=0.01)
    back = compared(new, base)
    assert first(back).id == "DIFF.REPLACED"
    assert first(back).delta_ns == -first(found).delta_ns


def test_another_data_type():
    with slower_kernel("MatMulV2", 2.2):
        new = profile(BASE, dtype="FLOAT")
    found = compared(profile(BASE, dtype="DT_BF16"), new)
    assert first(found).id == "DIFF.KERNEL.CHANGED"
    assert first(found).title.args["what"].code == "diff.attribute.dtypes"
    assert first(found).delta_ns == pytest.approx(found.step.delta, rel=0.01)


def test_a_layer_less():
    found = compared(profile(BASE), profile(replace(BASE, layers=1)))
    assert found.step.verdict == "faster"
    assert first(found).id == "DIFF.KERNEL.FEWER"
    assert found.operations_matched > 0.7
    fewer = [row for row in found.groups if row.change == "fewer"]
    assert sum(row.delta for row in fewer) == pytest.approx(
        next(part.delta for part in found.parts if part.part == "computing"), rel=0.01
    )


def test_a_line_that_launches_late():
    slow = replace(_HOST, slow_lines=(SlowLine("/workspace/vit/model.py", 64, 200_000),))
    found = compared(profile(_HOST), profile(slow))
    assert first(found).id == "DIFF.LINE"
    assert first(found).title.args["line"] == 64
    assert first(found).delta_ns == pytest.approx(found.step.delta, rel=0.01)


def test_a_read_back_of_a_value():
    found = compared(profile(_HOST), profile(replace(_HOST, trouble=Trouble(metric_reads=3))))
    assert first(found).id == "DIFF.SYNC.ADDED"
    assert first(found).title.args["count"] == 3
    assert first(found).delta_ns == pytest.approx(found.step.delta, rel=0.01)
    inner = [each for each in differences(found) if each.id == "DIFF.LINE" and each.delta_ns > 0]
    assert inner
    assert all(each.part_of == "DIFF.SYNC.ADDED" for each in inner)


def test_another_late_peer():
    before = replace(BASE, trouble=Trouble(late_peer=3, late_peer_ns=200_000))
    after = replace(BASE, trouble=Trouble(late_peer=5, late_peer_ns=900_000))
    found = compared(profile(before), profile(after))
    assert first(found).id == "DIFF.COMM.LATE_RANK"
    assert (first(found).title.args["base_peer"], first(found).title.args["new_peer"]) == (3, 5)
    assert first(found).delta_ns == pytest.approx(found.step.delta, rel=0.01)


def test_compiled_operators():
    found = compared(profile(_HOST), profile(replace(_HOST, compile_permille=200)))
    assert first(found).id == "DIFF.COMPILE"
    assert first(found).delta_ns == pytest.approx(found.step.delta, rel=0.01)


def test_lines_that_moved_are_no_change():
    found = compared(profile(_HOST), profile(_HOST, moved_lines(7)))
    assert differences(found) == []
    both = [row for row in found.lines if row.base and row.new and row.base.code and row.new.code]
    assert {row.new.code.line - row.base.code.line for row in both} - {0} == {7}


def test_both_ways_are_each_other_s_negative():
    one, other = profile(_HOST), profile(replace(_HOST, trouble=Trouble(metric_reads=2), seed=5))
    there, back = typed(compared(one, other)), typed(compared(other, one))
    assert there.step.delta_us == -back.step.delta_us
    assert [part.delta_us for part in there.parts] == [-part.delta_us for part in back.parts]
    words = {"new": "gone", "gone": "new", "slower": "faster", "faster": "slower", "more": "fewer", "fewer": "more"}
    turned = {(row.type, words.get(row.change, row.change), -row.delta_us) for row in back.groups}
    assert {(row.type, row.change, row.delta_us) for row in there.groups} == turned


def test_terms_add_up():
    found = compared(profile(_HOST), profile(replace(_HOST, seed=3, trouble=Trouble(metric_reads=2))))
    assert sum(part.exact for part in found.parts) == round(
        len(found.base.walls) * found.new.walls.sum() - len(found.new.walls) * found.base.walls.sum()
    )
    computing = next(part.delta for part in found.parts if part.part == "computing")
    assert sum(row.delta for row in found.groups) - found.stream_overlap == pytest.approx(computing, abs=1e-6)
    for row in found.groups:
        assert row.by_count + row.by_duration == pytest.approx(row.delta, abs=1e-6)
    medoids = [side.sample.medoid.wall for side in found.sides]
    lag = DrawnSteps(found).pair([]).lag
    assert lag[0] == 0
    assert lag[-1] == medoids[1] - medoids[0]


def test_a_longer_fetch():
    found = compared(profile(BASE), profile(replace(BASE, dataloader_ns=20_000_000)))
    assert first(found).id == "DIFF.LOADER"
    assert first(found).delta_ns == pytest.approx(found.step.delta, rel=0.03)
    assert all(each.part_of == "DIFF.LOADER" for each in differences(found) if each.id == "DIFF.LINE")
    back = compared(profile(replace(BASE, dataloader_ns=20_000_000)), profile(BASE))
    assert first(back).id == "DIFF.LOADER"
    assert first(back).delta_ns == pytest.approx(-first(found).delta_ns, rel=0.01)


def test_longer_copies():
    found = compared(profile(BASE), profile(replace(BASE, copy_ns=8_000_000)))
    assert first(found).id == "DIFF.COPY"
    assert first(found).delta_ns == pytest.approx(found.step.delta, rel=0.03)


def test_what_is_copied_during_a_fetch_is_no_wait_for_it(monkeypatch: pytest.MonkeyPatch):
    found = compared(profile(BASE), profile(replace(BASE, dataloader_ns=20_000_000)))
    always = np.array([-(1 << 40)]), np.array([1 << 40])
    monkeypatch.setattr("npu_tui.compare.differences._copying", lambda side: (np.zeros(0, np.int64), always))
    assert "DIFF.LOADER" not in {each.id for each in differences(found)}


def test_a_sync_is_not_blamed_for_a_longer_fetch():
    job = replace(BASE, item_sync=True, dataloader_ns=20_000_000)
    found = {each.id: each for each in differences(compared(profile(BASE), profile(job)))}
    assert found["DIFF.LOADER"].delta_ns > 15_000_000
    assert "DIFF.SYNC.ADDED" not in found or found["DIFF.SYNC.ADDED"].delta_ns < 5_000_000


def test_long_steps_that_come_again_are_no_outliers():
    base = replace(BASE, steps=11)
    paused = replace(base, trouble=Trouble(pause_ns=60_000_000), uneven=Uneven(trouble_every=3))
    found = compared(profile(base), profile(paused))
    assert found.step.verdict == "unsure"  # three steps of ten
    assert found.step.delta == pytest.approx(18_000_000, rel=0.25)
    assert sum(row.delta for row in found.parts) == pytest.approx(found.step.delta)
    # Long steps that both sides have, or a single one, say nothing of the change.
    assert compared(profile(paused), profile(paused)).step.verdict == "same"
    assert len(compared(profile(paused), profile(paused)).base.sample.left_out) == 4
    once = compared(profile(base), profile(replace(base, stalled_step=5, stall_ns=90_000_000)))
    assert [why for _, why in once.new.sample.left_out] == ["first", "outlier"]
    assert abs(once.step.delta) < 1_000_000


def test_a_clock_that_falls_while_nothing_runs_is_no_difference():
    base, new = profile(BASE), profile(replace(BASE, seed=2))
    for lowest, differs in ((800.0, True), (1_800.0, False)):
        idle = _with_clocks(new, running=lowest)
        found = [each for each in differences(compared(base, idle)) if each.id == "DIFF.FREQ"]
        assert bool(found) == differs
        assert not found or found[0].title.args == {"base": 1_800.0, "new": 800.0}


def _with_clocks(profile, running):
    """``profile`` with cores that have the clock ``running`` at the ends of kernels, and 800 MHz between them, MHz."""
    copied = profile_at(profile.source.path)
    kernels = copied.kernel_table
    end = np.unique(kernels.start + kernels.duration)
    time = np.sort(np.concatenate((end, end + 1)))
    value = np.where(np.isin(time, end), running, 800.0)
    (series,) = [each for each in copied.trace.counters.series if each.name == CORE_CLOCK]
    copied.trace.counters = Counters(time, value, np.array([0, len(time)]), [structs.replace(series, index=0)])
    return copied
