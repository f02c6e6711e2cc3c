"""A large loss leads, with the recording that would tell its cause; what is left out leads the sentence."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import simulator
from by_hand import ByHand
from cause_jobs import GRAPH
from causes import ALL
from jobs import check, facts_of, job, measured, profile_at, rule
from measured import opened
from msgspec import structs
from test_repetitions import CANN, DEVICE, Writer

from npu_tui.analysis.code_lines import own_lines
from npu_tui.analysis.device import Window, named_on
from npu_tui.analysis.kernels import Coded
from npu_tui.output.report import report
from npu_tui.output.report_tables import overlap_table
from npu_tui.output.whatif import whatif, whatif_document
from npu_tui.profile.parts import Selection
from npu_tui.rules import communication
from npu_tui.rules.model import MUCH_LOST
from npu_tui.rules.rule import Draft
from npu_tui.strings import words

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
HEALTHY = "No significant bottleneck"


def even(gap: float, length: float = 80, count: int = 40) -> Writer:
    """Kernels of one length (µs) with gaps of another between them, whose launches nobody recorded."""
    writer = Writer()
    for k in range(count):
        writer.kernel("MatMulV2" if k % 2 else "Add", 200 + k * (length + gap), length)
    return writer


@pytest.mark.parametrize(("gap", "share"), [(2000, "96.1%"), (60, "42.2%")])
def test_free_time_without_launches_leads_and_names_the_recording(tmp_path: Path, gap: float, share: str) -> None:
    found = even(gap).profile(tmp_path).findings
    lead, verdict = found.findings[0], words(found.verdict[0])
    assert re.match(rf"DISPATCH: the device is free for \S+ [µm]s per \w+ \({share}\), ", verdict), verdict
    assert "cause unknown: the launches are not recorded (activity CPU, or msprof --ascendcl=on)" in verdict
    assert (lead.id, lead.severity, lead.gain_ns, lead.leads) == ("DISPATCH.FREE", "high", None, True)
    assert "ProfilerActivity.CPU" in words(lead.advice[0])
    assert "device side" not in " ".join(map(words, lead.advice))


@pytest.mark.parametrize(("kernel_ns", "gap_ns"), [(9_000, 6_000), (30_000, 20_000)])
def test_gaps_between_tasks_of_a_stream_are_told_with_their_lengths(kernel_ns: int, gap_ns: int) -> None:
    """The host is far ahead, so neither it nor another recording can tell more."""
    whole = measured(replace(GRAPH, kernel_ns=kernel_ns, task_gap_ns=gap_ns, layers=40))
    facts, found = whole.facts[0], whole.findings
    lead, verdict, detail = found.findings[0], words(found.verdict[0]), words(found.findings[0].detail)
    count, middle, kernel = re.search(
        r" are ([\d,]+) gaps of ([\d.]+) µs between kernels of ([\d.]+) µs", verdict
    ).groups()
    starts, ends = facts.free
    queued = (ends - starts)[ends - starts < 2 * gap_ns]
    assert abs(int(count.replace(",", "")) - len(queued)) <= facts.count
    assert float(middle) == pytest.approx(np.median(queued) / 1_000, rel=0.01)
    assert float(kernel) == pytest.approx(kernel_ns / 1_000, rel=0.2)
    assert (lead.id, lead.severity, lead.leads) == ("DISPATCH.FREE", "high", False)
    assert lead.gain_ns == pytest.approx(queued.sum() / facts.count, rel=0.02)
    gaps = next(owner for owner in whole.critical_paths[0].owners.owners if owner.kind == "device_gap")
    assert gaps.gain == pytest.approx(lead.gain_ns * facts.count, rel=0.02)
    assert "fewer and longer kernels do" in detail
    assert "cause unknown" not in verdict
    assert not any("Level1" in words(each) for each in lead.advice)


def test_little_free_time_is_no_loss(tmp_path: Path) -> None:
    found = even(gap=10).profile(tmp_path).findings
    assert words(found.verdict[0]).startswith("COMPUTE: Add takes 50.0%")
    assert not any(finding.leads for finding in found.findings)


@pytest.mark.parametrize("name", ["communication_bound", "dispatch_bound", "level0", "interrupted"])
def test_no_range_above_the_limit_is_without_bottleneck(name: str) -> None:
    profile = profile_at(FIXTURES / name)
    end = profile.trace.end
    for number in range(4):
        part = profile.part(Selection(Window(number * end // 4, (number + 1) * end // 4)))
        (facts,) = part.facts
        lost = max(facts.share(facts.sums.free), facts.share(facts.sums.not_overlapped))
        assert not (lost > MUCH_LOST and HEALTHY in words(part.findings.verdict[0]))
        for finding in part.findings.findings:
            assert not (finding.severity == "high" and finding.gain_ns == 0)


def test_a_chain_of_elementwise_kernels_leads_and_computing_is_named() -> None:
    formula = replace(ALL["nothing: parameters one by one"].job[0], parameters=0, chain=12)
    lead = measured(formula).findings.findings[0]
    assert (lead.id, lead.severity) == ("OP.AFFINITY_KERNEL", "high")
    assert words(lead.title).startswith("16 chains of vector kernels take ")
    assert "torch.compile" in words(lead.advice[0])
    assert "Called from model.py:58 in forward()" in words(lead.detail)
    healthy, computing = measured(replace(formula, chain=0)).findings.verdict
    assert HEALTHY in words(healthy)
    assert words(computing).startswith("Computing is mostly MatMulV2 (")  # of two lines
    assert "ForeachAddList at train.py:151 (" in words(computing)


def test_what_nothing_in_the_backward_pass_comes_from_has_no_gradient() -> None:
    """A chain in the forward pass that no link leads from; where its line is known it trains a product as well."""
    formula = replace(ALL["nothing: parameters one by one"].job[0], parameters=0, chain=12)
    assert "OP.NOGRAD" not in {row.id for row in measured(formula).findings.findings}
    without_lines = measured(replace(formula, with_stack=False)).findings.findings
    found = next(row for row in without_lines if row.id == "OP.NOGRAD")
    assert (found.severity, found.code_lines) == ("high", ())
    assert 0 < (found.remedy.gain if found.remedy else 0) < measured(formula).facts[0].step_ns


@pytest.mark.parametrize(("shape", "severity"), [("64,64;64,64", "high"), ("{row},64;64", "info"), ("", "info")])
def test_one_kernel_for_many_tensors_moves_as_much(shape: str, severity: str) -> None:
    found = measured(replace(ALL["nothing: parameters one by one"].job[0], parameters=0, chain=12))
    rows = [shape.format(row=row) or None for row in range(len(found.all_kernels) - 1)]
    table = structs.replace(found.all_kernels, shapes=Coded.of([*rows, "8"]))  # shapes are recorded
    draft = check("OP.AFFINITY_KERNEL", facts_of(found, all_kernels=table))
    assert isinstance(draft, Draft)
    assert (draft.severity, draft.change is None) == (severity, severity == "info")


@pytest.mark.parametrize(("kinds", "severity"), [(2, "info"), (3, "info"), (8, "high")])
def test_a_few_kinds_over_and_over_are_a_loop_over_tensors(
    kinds: int, severity: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulator, "FORMULA", simulator.FORMULA[:kinds])
    found = measured(replace(ALL["nothing: parameters one by one"].job[0], parameters=0, chain=12, steps=4))
    (chains,) = [each for each in found.findings.findings if each.id == "OP.AFFINITY_KERNEL"]
    assert chains.severity == severity
    assert (chains.gain_ns or 0) > 0 or severity == "info"


@pytest.mark.parametrize(("stream", "severity"), [(9, "info"), (2, "high")])
def test_an_ai_cpu_kernel_that_nothing_waits_for_is_no_alarm(tmp_path: Path, stream: int, severity: str) -> None:
    writer = even(gap=0.5)
    for k in range(8):
        at, cpu = 205.0 + 300 * k if stream == 9 else 3_500.0 + 300 * k, "aclnnHistc_HistcAiCpu_Histc"
        writer.slice(cpu, DEVICE, stream, at, 250, args={"Task Type": "AI_CPU"})
    found = {row.id: row for row in writer.profile(tmp_path).findings.findings}
    assert found["KERNEL.BOUND"].severity == severity


def test_warm_up_that_is_left_out_leads_the_sentence() -> None:
    found = measured(ALL["nothing: compiled in two steps"].job)
    (facts,) = found.facts
    first, last = facts.inputs.steps[0].number, facts.inputs.steps[-1].number
    assert [step.number for step in facts.warm_up] == [first, first + 1]
    verdict = words(found.findings.verdict[0])
    assert verdict.startswith(f"Steps {first}–{first + 1} of {first}–{last} are left out as warm-up (")
    assert "operator compiles; the others take " in verdict
    assert HEALTHY in verdict
    device = overlap_table(report(found))
    assert device is not None
    assert device.title == "Device time, with 2 warm-up steps that findings leave out"
    answer = whatif(found, ["no sync", "kernel MatMulV2 x0.5"])
    assert (answer.count, answer.warm_up) == (len(facts.steps), 2)
    assert answer.step_us == pytest.approx(facts.step_ns / 1000, rel=0.001)
    computed = facts.time_by_type["MatMulV2"] / facts.count / 1000
    assert sum(row.gain_us for row in answer.changes) < answer.step_us, (
        "what is compiled in warm-up is no gain of a step"
    )
    assert answer.changes[1].alone_us == pytest.approx(computed / 2, rel=0.1)


def test_a_gain_has_its_unit_and_how_many_were_measured(tmp_path: Path) -> None:
    tokens = measured(ALL["decode: slow Python"].job)
    (facts,) = tokens.facts
    assert {(row.unit, row.count) for row in tokens.findings.findings} == {("token", facts.rhythm.count)}
    answer = whatif(tokens, ["no sync"])
    assert (answer.per, answer.count) == ("token", facts.rhythm.count)
    assert whatif_document(answer).title.startswith("token ")
    part = profile_at(FIXTURES / "dispatch_bound").part(Selection(Window(10_000_000, 20_000_000)))
    assert {(row.unit, row.count) for row in part.findings.findings} == {("range", 1)}


@pytest.mark.parametrize(("ahead", "told"), [(2_300, False), (20, True)])
def test_a_first_kernel_that_queues_is_behind_work_from_before_the_recording(
    tmp_path: Path, ahead: int, told: bool
) -> None:
    """A device on which the first launch waits is not idle, though nothing of what it does is recorded."""
    writer = Writer()
    for step in range(3):
        begun, device = 6_000 * step, 6_000 * step + (2_500 if step == 0 else 50)
        writer.host(f"ProfilerStep#{step}", begun, 5_900)
        for k in range(20):
            launched = device - (ahead if step == 0 else 10) + 12 * k
            writer.host("aten::mm", launched - 2, 10)
            writer.launch("Node@launch", launched, device + 150 * k)
            writer.kernel("MatMulV2", device + 150 * k, 149)
    assert ("STEP.START" in {row.id for row in writer.profile(tmp_path).findings.findings}) == told


@pytest.mark.parametrize(("blocking", "lead"), [(True, "STEP.START"), (False, "DATA.COPY")])
def test_a_step_start_leads_a_copy_that_blocks_it(tmp_path: Path, blocking: bool, lead: str) -> None:
    """At level 0 no call of CANN waits: aten::copy_ that ends with its copy has waited for it."""
    writer = Writer()
    for step in range(4):
        begun = 9_200 * step
        writer.host(f"ProfilerStep#{step}", begun, 9_190)
        writer.host("aten::copy_", begun + 20, 4_015 if blocking else 30)
        writer.launch("Node@launch", begun + 25, begun + 35)
        writer.slice("MEMCPY_ASYNC", DEVICE, 2, begun + 35, 3_990, args={"Task Type": "MEMCPY_ASYNC"})
        at = begun + 4_060
        for k in range(20):
            writer.host("aten::mm", (at if blocking else begun + 80) + 12 * k, 10)
            writer.launch("Node@launch", (at if blocking else begun + 80) + 12 * k + 2, at + 30 + 250 * k)
            writer.kernel("MatMulV2", at + 30 + 250 * k, 249)
        asked = at + 300 if blocking else begun + 400
        writer.host("aten::item", asked, at + 30 + 5_010 - asked)
    found = writer.profile(tmp_path).findings.findings
    assert found[0].id == lead
    copies = next(row for row in found if row.id == "DATA.COPY")
    assert ("The host waits for 4 copies to end" in words(copies.detail)) == blocking


def test_a_frame_before_the_first_kernel_is_named_and_its_time_is_the_hosts(tmp_path: Path) -> None:
    """A copy in the middle of free time does not make the rest of that time the fault of the device."""
    writer = Writer()
    for step in range(4):
        at = 9_000 * step
        writer.host(f"ProfilerStep#{step}", at, 8_990)
        writer.launch("AscendCL@aclrtMemcpyAsync", at - 4, at + 6)
        writer.slice("MEMCPY_ASYNC", DEVICE, 2, at + 6, 100, args={"Task Type": "MEMCPY_ASYNC"})
        writer.host("/app/data.py(12): __iter__", at + 10, 4_000, "python_function")
        for k in range(20):
            writer.host("aten::mm", at + 4_020 + 12 * k, 10)
            writer.launch("Node@launch", at + 4_020 + 12 * k + 2, at + 4_050 + 240 * k)
            writer.kernel("MatMulV2", at + 4_050 + 240 * k, 239)
    found = writer.profile(tmp_path)
    assert "data.py:12 in __iter__()" in words(found.findings.findings[0].title)


def test_a_pause_inside_an_operation_that_launches_is_a_pause(tmp_path: Path) -> None:
    """What autograd does between its own start and the launch is not recorded."""
    writer, at = Writer(), 0.0
    for step in range(3):
        begun = device = at
        for number in range(30):
            pause = 12_000 if number == 15 else 0
            writer.host("MulBackward0", at, 45 + pause)
            writer.host("aten::mul", at + 2 + pause, 40)
            device = max(device + 200, at + pause + 30)
            writer.launch("Node@launch", at + 5 + pause, device)
            writer.kernel("Mul", device, 198)
            at += 50 + pause
        writer.host("aten::item", at, device + 220 - at)
        writer.host(f"ProfilerStep#{step}", begun, device + 230 - begun)
        at = device + 240
    found = writer.profile(tmp_path).findings.findings[0]
    assert (found.id, round((found.gain_ns or 0) / 1e6)) == ("HOST.PAUSE", 10)
    assert "in MulBackward0" in words(found.title)


@pytest.mark.parametrize(("call", "copied", "id"), [
    ("aten::item", True, "HOST.PAUSE"), ("aten::item", False, "HOST.WORK"), ("aten::nonzero", True, "HOST.WORK"),
])  # fmt: skip
def test_a_call_that_has_its_number_and_does_not_return_stands_still(
    call: str, copied: bool, id: str, tmp_path: Path
) -> None:
    """Each step ends with a call that returns 4 ms after the device; it may work where nothing, or more, is copied."""
    writer = Writer()
    for step in range(6):
        at = 9_500 * step
        writer.host(f"ProfilerStep#{step}", at, 9_490)
        for k in range(20):
            writer.host("aten::mm", at + 12 * k + 5, 10)
            writer.launch("Node@launch", at + 12 * k + 6, at + 30 + 250 * k)
            writer.kernel("MatMulV2", at + 30 + 250 * k, 249)
        done = at + 30 + 20 * 250
        if copied:
            writer.slice("MEMCPY_ASYNC", DEVICE, 2, done, 3, args={"Task Type": "MEMCPY_ASYNC"})
        writer.slice("AscendCL@aclrtSynchronizeStream", CANN, 1, at + 320, done + 8 - at - 320)
        writer.host("train.py(9): report", at + 300, done + 4_100 - at - 300, "python_function")
        writer.host(call, at + 310, done + 4_080 - at - 310)
    found = writer.profile(tmp_path).findings.findings[0]
    assert (found.id, round((found.gain_ns or 0) / 1e6)) == (id, 4)
    assert ("has been copied by then" in words(found.detail)) == (id == "HOST.PAUSE")
    assert any("cpu.max" in words(each) for each in found.advice) == (id == "HOST.PAUSE")


def test_transfers_that_nothing_can_hide_are_no_riddle(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = measured(ALL["peers: little computed after reductions"].job).facts[0]
    monkeypatch.setattr(communication, "_hideable", lambda facts, _: np.zeros(len(facts.collectives), np.int64))
    draft = rule("COMM.EXPOSED").check(facts)
    assert isinstance(draft, Draft)
    assert draft.unexplained is not None
    assert "the transfers take" in words(draft.unexplained.verdict)
    assert not draft.unexplained.advice


def test_operations_without_a_stack_are_not_at_the_line_of_the_step() -> None:
    """The stack of ``ProfilerStep#N``, which lies around them, is that of prof.step()."""
    trace = job("healthy").trace
    steps = named_on(trace, ("python",), lambda name: name.startswith("ProfilerStep#"))
    events = named_on(trace, ("python",), "record_event".__eq__)
    assert all("train.py(154)" in trace.stacks[stack] for stack in trace.slices.stack[steps].tolist())
    assert set(own_lines(trace, events)) == {None}


def test_a_call_that_blocks_the_host_while_the_device_is_free_is_named(tmp_path: Path) -> None:
    """Kernels start half a second after their launches, and nothing tells why: the host is in a copy meanwhile."""
    writer = Writer()
    for k in range(12):
        writer.launch("Node@launch", 100 + 10 * k, 500_000 + 90 * k)
        writer.kernel("MatMulV2", 500_000 + 90 * k, 80)
    writer.host("aten::copy_", 300, 501_000)
    writer.slice("AscendCL@aclrtMemcpy", CANN, 1, 310, 500_900)
    for k in range(12):
        writer.launch("Node@launch", 501_400 + 10 * k, 502_000 + 90 * k)
        writer.kernel("MatMulV2", 502_000 + 90 * k, 80)
    writer.kernel("Add", 20, 60)
    found = writer.profile(tmp_path).findings
    verdict = words(found.verdict[0])
    assert "meanwhile the host is blocked for 499.8 ms, waiting in" in verdict
    assert "aclrtMemcpy" in verdict or "copy_" in verdict


def test_tables_tell_what_is_waited_for() -> None:
    found = opened("job4/rank_0_ascend_pt").measured.findings
    assert "hcom_batchSendRecv takes longest: 313.9 ms in 3, of which communication.json counts 158.5 ms" in words(
        found.verdict[0]
    )


@pytest.mark.parametrize(
    ("begin", "end", "length", "told"),
    [
        ("cudaStreamBeginCapture", "cudaStreamEndCapture", 40_000, True),
        ("AscendCL@aclmdlRICaptureBegin", "AscendCL@aclmdlRICaptureEnd", 40_000, True),
        ("AscendCL@aclmdlRICaptureBegin", "AscendCL@aclmdlRICaptureEnd", 400, False),
    ],
)
def test_a_capture_is_no_run(begin: str, end: str, length: float, told: bool, tmp_path: Path) -> None:
    """Nothing waits for what the host does between the launches that a graph records."""
    writer = even(gap=2)
    writer.slice(begin, CANN, 1, 4_000, 5)
    writer.host("model.py(7): forward", 4_010, length, "python_function")
    writer.slice(end, CANN, 1, 4_020 + length, 5)
    writer.kernel("Add", 4_100 + length, 20)
    verdict = words(writer.profile(tmp_path).findings.verdict[0])
    assert verdict.startswith("A graph is captured for 40.0") is told


@pytest.mark.parametrize(
    ("way", "size", "time", "slow", "advised"),
    [
        ("device to host", 44_000_000, 20_000, True, "copy_back"),
        ("device to host", 400_000_000, 20_000, False, "copy_back"),
        ("host to device", 44_000_000, 20_000, True, "non_blocking"),
        ("host to device", 4_000, 20_000, False, "non_blocking"),
    ],
)
def test_a_copy_is_told_with_its_direction_and_bandwidth(
    way: str, size: int, time: float, slow: bool, advised: str, tmp_path: Path
) -> None:
    writer = even(gap=2)
    args = {"Task Type": "PCIE_DMA_SQE", "size(B)": size, "operation": way, "bandwidth(GB/s)": size / time / 1e3}
    writer.slice("MEMCPY_ASYNC", DEVICE, 2, 4_000, time, args=args)
    writer.slice("AscendCL@aclrtMemcpy", CANN, 1, 3_990, time + 20)
    writer.host("aten::copy_", 3_980, time + 40, "cpu_op")
    writer.kernel("Add", 4_010 + time, 80)
    (told,) = [each for each in writer.profile(tmp_path).findings.findings if each.id == "DATA.COPY"]
    assert f"{way} at {size / time / 1e3:.1f} GB/s" in words(told.title)
    assert ("do not use pinned memory" in words(told.detail)) is slow
    assert f"finding.advice.{advised}" in [each.code for each in told.advice]


@pytest.mark.parametrize(
    ("limit", "first", "lead"),
    [
        ("1", 4, "DISPATCH.PLANS"),
        ("1", 70, "DISPATCH.PLANS"),
        ("1", 120, "DISPATCH.PLANS"),
        ("100000", 4, "DISPATCH.VERTICAL"),
    ],
)
def test_a_cache_that_is_off_leads_the_launches_that_it_makes_late(
    tmp_path: Path, limit: str, first: int, lead: str
) -> None:
    """Each operator is planned for 120 µs but for the ``first``, whose plan may be kept if it is short."""
    trace, at = ByHand(), 0.0
    for step in range(3):
        begun = at
        for k in range(40):
            planned = 120 if k else first
            name = ["Mul", "Add", "Sub", "Div", "Matmul"][k % 5]
            trace.host(f"aten::{name.lower()}", at, planned + 20)
            trace.call(f"AscendCL@aclnn{name}GetWorkspaceSize", at + 2, planned)
            trace.launch(f"aclnn{name}_{name}AiCore_{name}", at + planned + 6, at + planned + 16, 90)
            at += planned + 22
        trace.step(step, begun, at - begun)
    profile = trace.write(tmp_path)
    (profile / "profiler_metadata.json").write_text(json.dumps({"ENV_VARIABLES": {"ACLNN_CACHE_LIMIT": limit}}))
    found = profile_at(profile).findings.findings[0]
    assert found.id == lead
    if limit == "1":
        assert found.gain_ns == pytest.approx(39 * (142 - 90) * 1000, rel=0.1), (
            "the device waits for the rest of a call"
        )
        assert "ACLNN_CACHE_LIMIT=1" in words(found.title)
        assert f"the shortest {first}.0" in words(found.detail)
        assert ("no call finds its plan" in words(found.detail)) is (first > 4)


@pytest.mark.parametrize("apart", [0, 1500])
def test_a_frame_of_another_thread_while_which_launching_stands_still_is_named(tmp_path: Path, apart: float) -> None:
    """It holds the lock in an operation, now of one kind, now of another; half of its frames are not recorded."""
    trace, at = ByHand(), 0.0
    for step in range(3):
        begun = at
        for k in range(60):
            op, held = ["mul", "add", "sub"][(k + step) % 3], 3000 * (k in (20, 45))
            trace.host(f"aten::{op}", at, held + 40)
            if k == 20:
                for name in ("app/sink.py(8): drain", "json/encoder.py(182): encode"):
                    trace.add(4001, 77, name, at + 10 + apart, held, cat="python_function", args={})
            trace.launch(f"aclnn{op}_{op}AiCore_{op}", at + held + 30, at + held + 42, 30)
            at += held + 50
        trace.step(step, begun, at - begun)
    lead = profile_at(trace.write(tmp_path)).findings.findings[0]
    assert ("while another thread runs sink.py:8 in drain()" in words(lead.title)) == (not apart)
    if not apart:
        assert lead.gain_ns == pytest.approx(2 * 3000 * 1000, rel=0.05)
