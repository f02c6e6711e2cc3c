"""Causes that the simulator takes away: the finding leads, its gain is the simulated one, nothing is left to say."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cause import troubled
from cause_jobs import CALM as CALM_ONE
from causes import ALL, outcome
from jobs import by_id, check, facts_of, first_of, job, measured, put, rule
from kineto_writer import build_gpus
from measured import profile_at
from situations import Trouble
from troubled import TROUBLED

from npu_tui.analysis.calls import blocking_calls
from npu_tui.analysis.collectives import Transfer
from npu_tui.analysis.communication import owned_tasks
from npu_tui.analysis.device import named_on
from npu_tui.analysis.launches import operation_of
from npu_tui.output.whatif import remedies
from npu_tui.rules.blame import held_launches, launch_blocking
from npu_tui.rules.communication import start_costs
from npu_tui.rules.host_work import works
from npu_tui.rules.inputs import Setup
from npu_tui.rules.rule import Draft
from npu_tui.strings import words
from npu_tui.trace.arrays import summed
from npu_tui.trace.once import ValueCache
from npu_tui.trace.transfers import plane_task

#: One of each kind; ``python tests/causes.py`` tries all of them with many seeds.
TRIED = (
    "host: slow fetch",
    "host: slow line",
    "own: short steps, collector",
    "host: checkpoint",
    "host: fetch in one step",
    "own: Level0, sorting",
    "own: decode, tensor parallel, late by little",
    "own: slow transfers now and then",
    "own: a clock that falls",
    "own: kernels beside reductions",
    "host: an optimizer on the CPU",
    "device: AI CPU for little",
    "own: a slow first product of six",
    "device: waits in a graph",
    "peers: two late",
    "peers: another each time",
    "peers: always late at Level0",
    "peers: unseen in a ring",
    "peers: one late, events lost",
    "peers: a rank that fetches",
    "waits: metrics",
    "waits: many short ones",
    "decode: Python between tokens, for a tenth of them",
    "decode: sampling on the CPU",
    "uneven: accumulation that reduces in each pass",
    "uneven: AI CPU in the backward pass",
    "own: chains of elementwise kernels",
    "own: gradients in one bucket",
    "own: a slow link of eight, reductions that block",
    "uneven: blocking copies, no call that waits",
    "own: slow fetch and a pause",
    "uneven: collector and allocation",
    "uneven: a late first pass",
    "uneven: masks, far ahead",
    "uneven: a copy to the host, other clocks",
    "uneven: compiling now and then",
    "uneven: a slow stage before",
)
CALM = (
    "nothing: warm-up",
    "nothing: Level0",
    "nothing: decode",
    "nothing: far ahead",
    "nothing: longest first",
    "nothing: a long side stream",
    "nothing: tensor parallel",
    "nothing: a server without requests",
    "nothing: pipeline",
    "nothing: pauses of the device",
)


@pytest.mark.few(9)
@pytest.mark.parametrize("name", TRIED)
def test_a_cause_taken_away(name: str) -> None:
    cause = ALL[name]
    found = outcome(cause, 31)
    assert found.lead in cause.leads
    assert found.right, (found.predicted, found.simulated, found.step)
    assert found.above_info == ()
    assert found.error <= 0.02


@pytest.mark.few(4)
@pytest.mark.parametrize("name", CALM)
def test_a_healthy_job_is_quiet(name: str) -> None:
    assert outcome(ALL[name], 31).above_info == ()


def test_slow_calls_of_a_kernel_show_on_a_gpu_too(tmp_path: Path) -> None:
    # Without a task queue, which a GPU does not have: operations launch themselves.
    (slow,) = ALL["device: outlier"].job
    ((name, content),) = build_gpus((troubled(slow, launch_blocking=True),)).items()
    (tmp_path / name).write_bytes(content)
    findings = profile_at(tmp_path / name).findings.findings
    found = next(finding for finding in findings if finding.id == "OP.OUTLIER")
    assert found.gain_ns == pytest.approx(3_300_000, rel=0.15)


def test_a_late_host_gains_nothing_where_a_peer_is_later() -> None:
    cause = ALL["host: an earlier one"]
    found = outcome(cause, 31)
    assert found.lead == "COMM.STRAGGLER"
    assert found.right, (found.predicted, found.simulated, found.step)
    assert found.found is not None
    assert "first: then this saves" in words(found.found.detail)


def test_a_server_is_told_per_token() -> None:
    found = outcome(ALL["decode: slow Python"], 32).found
    assert found is not None
    assert "per token" in words(found.detail)
    assert re.search(r"per token \([\d.]+ ms → [\d.]+ ms\)", words(found.detail))
    assert "MINDIE_ASYNC_SCHEDULING_ENABLE=1" in words(found.advice[0])


def test_waits_for_requests_are_no_gain_of_what_ends_before_them() -> None:
    """Without a read-back that a wait for a request follows the host would run ahead through the wait."""
    quick = replace(ALL["decode: Python between tokens, for a tenth of them"].job[0], trouble=Trouble())
    profile = measured(replace(quick, trouble=Trouble(request_ns=40_000_000)))
    (facts,) = profile.facts
    idle = facts.step_ns * facts.share(facts.sums.free)
    assert 0 < sum(row.gain_ns or 0 for row in profile.findings.findings if row.verdict is not None) < idle


def test_many_short_reductions_are_merged_not_split() -> None:
    """The gain is that of a second simulation with fewer of them, less what Python does between two of them."""
    split = replace(ALL["nothing: four devices"].job[0], gradient_bytes=60_000, kernel_ns=120_000, layers=3, pieces=30)
    profile, merged = measured(split), measured(replace(split, gradient_bytes=1_800_000, pieces=1))
    first, *others = profile.findings.findings
    assert first.id == "COMM.SMALL"
    assert "fewer, larger buckets" in words(first.advice[0])
    advice = {row.id: words(row.advice[0]) for row in others if row.advice}
    assert "Fix COMM.SMALL first" in advice["DISPATCH.VERTICAL"]
    before, after = (each.replays[0][1].recorded / split.steps for each in (profile, merged))
    assert first.gain_ns is not None
    assert 0.75 * (before - after) < first.gain_ns < 1.05 * (before - after)


def test_a_file_that_sums_planes_tells_no_other_start_cost() -> None:
    """communication.json adds up what planes move at the same time: no collective moves data for so long."""
    profile = job("buckets")
    facts = profile.facts[0]
    every, slices = facts.collectives, facts.trace.slices
    owner, _, item = owned_tasks(facts.trace, every.item)
    moving = facts.names_where(lambda name: plane_task(name) in ("memcpy", "reduce_inline"))[slices.name[item]]
    sums = summed(owner[moving], facts.length(item[moving]), len(every))
    assert (sums > 2 * every.timings.transit).all()
    rows = [Transfer("", item, 0, 0, "SDMA", 1.0, time, None, ()) for item, time in zip(every.item, sums, strict=True)]
    told = start_costs(facts_of(profile, transfers=rows))
    assert told == pytest.approx(start_costs(facts), rel=0.1)


def test_what_is_said_of_late_ranks() -> None:
    many = outcome(ALL["peers: two late"], 32).found
    ring = outcome(ALL["peers: unseen in a ring"], 32).found
    assert many is not None
    assert ring is not None
    assert words(many.title).startswith("Ranks 2 and 3 are late")
    assert "the late rank is not visible from here" in words(ring.title)
    assert ring.confidence == "low"


def test_silence_after_a_sync_is_no_sync() -> None:
    drains = (
        measured(troubled(ALL["nothing: no stacks"].job[0], silent_ns=11_000_000, read_back_ns=20_000)).facts[0].drains
    )
    assert set(drains.taken(drains.end - drains.start > 5e6).counted()) == {"python"}


def test_a_slow_link_is_named_with_its_speed() -> None:
    job = ALL["own: a slow link"].job[0]
    for late in (None, 2):
        findings = measured(troubled(job, late_peer=late, late_peer_ns=2_000_000)).findings.findings
        assert findings[0].id == "COMM.LINK"
        assert words(findings[0].title).startswith("The link to rank 2 is slow (1.")
        assert "aligned" not in words(findings[0].detail)  # the sizes are those of the quick links
        tuned = [row.id for row in findings for advice in row.advice if "bucket size" in words(advice)]
        assert not tuned  # transfers take longer than the waits


def test_no_rank_is_to_be_profiled_where_another_is_late_each_time() -> None:
    lead = measured(ALL["peers: another each time"].job).findings.findings[0]
    assert words(lead.advice[0]).startswith("No single rank is slow.")
    assert not any("rank 1" in words(row) or "rank 2" in words(row) for row in lead.advice)
    assert "There is no profile of" not in words(lead.detail)


def test_what_a_late_rank_costs_is_known_where_one_wait_ends_with_its_collective() -> None:
    cause = ALL["peers: one late, events lost"]
    job = replace(cause.job[0], steps=1, seed=1)
    lead = measured(job).findings.findings[0]
    assert (lead.id, lead.severity) == ("COMM.STRAGGLER", "high")
    in_time = measured(cause.remedy((job,))[0]).facts[0].step_ns
    assert lead.gain_ns == pytest.approx(measured(job).facts[0].step_ns - in_time, rel=0.05)


def test_waits_for_copies_are_advised_as_such() -> None:
    for name, copies in (("uneven: a copy to the host", True), ("waits: metrics", False)):
        waits = next(row for row in measured(ALL[name].job).findings.findings if row.id == "SYNC.HOST")
        assert [".item()" in words(row) for row in waits.advice] == ([False, False] if copies else [True])


def test_host_work_is_named_with_its_line_and_offered() -> None:
    sorting = measured(replace(ALL["host: sorting before the backward pass"].job[0], paired=True))
    lead = sorting.findings.findings[0]
    assert "aten::sort at train.py:147 in train_epoch()" in words(lead.title)
    drains = sorting.facts[0].drains
    assert set(drains.taken(drains.end - drains.start > 5e6).counted()) == {"work"}
    offered = {row.text: row.alone_us for row in remedies(sorting).changes}
    assert offered["owner aten::sort at train.py:147"] == pytest.approx(lead.gain_ns / 1000, rel=0.01)
    tokens = measured(ALL["decode: Python between tokens"].job)
    assert "batcher.py:131 in build_batch()" in words(tokens.findings.findings[0].title)
    offered = {row.text: row.alone_us for row in remedies(tokens).changes}
    assert offered["owner serve.batcher.build_batch at batcher.py:131"] == pytest.approx(1_260, rel=0.05)  # per token


def test_a_checkpoint_of_copies_is_one_finding() -> None:
    findings = measured(ALL["host: a checkpoint of a dozen copies"].job).findings.findings
    assert [row.id for row in findings if row.gain_ns and row.part_of is None] == ["HOST.PAUSE"]
    assert "Nothing begins meanwhile but copies that the host waits for." in words(findings[0].detail)


def test_what_follows_a_sync_is_said_where_nothing_is_recorded() -> None:
    job = replace(ALL["decode: Python between tokens"].job[0], with_stack=False)
    lead = measured(job).findings.findings[0]
    assert lead.id == "SYNC.HOST"
    assert "After each sync the host records nothing for 1." in words(lead.detail)


@pytest.mark.parametrize("fetch_ns", [180_000, 2_000_000])
def test_waits_within_a_step_gain_what_they_cost_beside_the_one_that_ends_it(fetch_ns: int) -> None:
    """Without the wait that ends each step the host would run ahead and hide the next fetch: that is another matter."""
    job = replace(ALL["waits: many short ones"].job[0], dataloader_ns=fetch_ns)
    lead = measured(job).findings.findings[0]
    spared = outcome(ALL["waits: many short ones"], 31)
    assert (lead.id, spared.lead) == ("SYNC.HOST", "SYNC.HOST")
    assert "aten::item at model.py" in words(lead.title)
    assert lead.gain_ns == pytest.approx(spared.simulated, rel=0.05)
    beyond = "Without the wait that ends each step as well (waiting in aclrtSynchronizeDevice at train.py:154"
    assert (beyond in words(lead.detail)) == (fetch_ns > 1_000_000)


def test_values_that_are_tested_before_each_read_are_one_cause_with_the_tests(tmp_path: Path) -> None:
    """Kernels of what tests values count where a wait reads them next, not where they only are called so."""
    put(first_of(ALL["waits: many short ones"].job), tmp_path)
    (source,) = tmp_path.rglob("trace_view.json")
    plain, reading = check("SYNC.HOST", facts_of(profile_at(source))), profile_at(source)
    names = reading.trace.names
    for before, after in (("Addmm", "any"), ("LayerNorm", "isnan"), ("Gelu", "any"), ("GeluBackward", "isnan")):
        names[names.index(f"aclnn{before}")] = f"aten::{after}"
    facts = facts_of(reading)
    tested = check("SYNC.HOST", facts)
    assert isinstance(plain, Draft)
    assert isinstance(tested, Draft)
    assert words(tested.title).startswith(
        "Values are tested on the device and read on the host (aten::any and aten::isnan)"
    )
    assert "set_detect_anomaly" in words(tested.advice[0])
    (cut,) = tested.change.tasks
    called = operation_of(facts.trace, facts.target)
    everywhere = np.isin([facts.name_of(item) for item in called.tolist()], ["aten::any", "aten::isnan"]).sum()
    assert 0 < len(cut.items) < everywhere
    assert tested.most - plain.most == pytest.approx(facts.length(cut.items).sum(), rel=0.2)


@pytest.mark.parametrize("within", [True, False], ids=["within", "after"])
def test_a_result_whose_size_depends_on_the_data_is_waited_for(within: bool, tmp_path: Path) -> None:
    """The call that waits lies in the operation, or follows it: it is the wait of the operation, and the only one."""
    put(first_of(ALL["waits: many short ones"].job), tmp_path)
    (source,) = tmp_path.rglob("trace_view.json")
    plain, sized = check("SYNC.HOST", facts_of(profile_at(source))), profile_at(source)
    trace, slices = sized.trace, sized.trace.slices
    trace.names[trace.names.index("aten::item")] = "aten::nonzero"
    trace.names[trace.names.index("aten::_local_scalar_dense")] = "aten::view"
    operations = named_on(trace, ("python",), lambda name: name in ("aten::nonzero", "aten::view"))
    for call in blocking_calls(trace).tolist() if not within else ():
        around = operations[
            (slices.start[operations] <= slices.start[call]) & (slices.start[call] < slices.end[operations])
        ]
        slices.end[around] = slices.start[call] - 5_000
    draft = check("SYNC.HOST", facts_of(sized))
    assert isinstance(plain, Draft)
    assert isinstance(draft, Draft)
    assert "waiting in aten::nonzero at model.py" in words(draft.title)
    assert words(draft.advice[0]).startswith("Use operators whose shapes do not depend on data")
    assert draft.most == pytest.approx(plain.most, rel=0.05)


def test_an_operation_that_only_takes_memory_waits_for_it() -> None:
    sorting = measured(replace(TROUBLED["sorting"], seed=5))
    (work,) = (row for row in sorting.findings.findings if row.id == "HOST.WORK")
    assert check("MEM.ALLOC", facts_of(sorting)) is None
    sorting.trace.names[sorting.trace.names.index("aten::sort")] = "aten::empty"
    sorting.trace.known = ValueCache()
    draft, owners = check("MEM.ALLOC", facts_of(sorting)), works(facts_of(sorting))
    assert isinstance(draft, Draft)
    assert draft.change is not None
    assert "aten::empty waits for device memory: the step loses 6." in words(draft.title)
    assert draft.title.args["waits"] == pytest.approx(work.gain_ns, rel=0.05)
    assert [owner.name for owner in owners["MEM.ALLOC"]] == ["aten::empty"]
    assert "aten::empty" not in {owner.name for owner in owners["HOST.WORK"]}


def test_a_graph_with_a_read_back_is_no_launch_blocking() -> None:
    graph = measured(ALL["nothing: a graph"].job)
    assert launch_blocking(graph.facts[0]) == 0
    environment = Setup(environment={"ASCEND_LAUNCH_BLOCKING": "1"})
    silent = facts_of(measured(replace(ALL["nothing: far ahead"].job[0], profiler_level=0)), environment)
    assert rule("SYNC.HOST").check(silent) is None


def test_launch_blocking_is_unset_first() -> None:
    found = outcome(ALL["waits: launch blocking"], 32).found
    assert found is not None
    assert "ASCEND_LAUNCH_BLOCKING" in words(found.advice[0])
    assert not any("TASK_QUEUE_ENABLE=2" in words(each) for each in found.advice)
    assert launch_blocking(facts_of(job("metrics"))) < 0.5
    assert launch_blocking(facts_of(job("metrics"), Setup(environment={"ASCEND_LAUNCH_BLOCKING": "1"}))) == 1


def test_launch_blocking_shows_without_recorded_waits() -> None:
    """At Level0 no wait is recorded: each operation returns a steady time after its kernel, a short or a long one."""
    blocking = replace(troubled(replace(CALM_ONE, kernel_ns=300_000), launch_blocking=True), profiler_level=0)
    found = measured(blocking)
    lead = found.findings.findings[0]
    assert lead.id == "SYNC.HOST"
    assert lead.title.code == "finding.sync.title_held"
    assert held_launches(found.facts[0])[0] > 0.95
    recorded = measured(replace(blocking, profiler_level=1))
    unset = measured(troubled(replace(CALM_ONE, kernel_ns=300_000)))
    saved = (recorded.facts[0].total - unset.facts[0].total) / recorded.facts[0].count
    lead = recorded.findings.findings[0]
    assert lead.title.code == "finding.sync.title_held"
    assert lead.gain_ns == pytest.approx(saved, rel=0.2)  # the calls that wait are gone with the waits
    for healthy in (replace(CALM_ONE, profiler_level=0), TROUBLED["queue_off"], TROUBLED["slow_python"]):
        assert held_launches(measured(healthy).facts[0])[0] < 0.95


def test_work_on_what_many_copies_bring_gains_all_of_them() -> None:
    gain = {}
    for copies in (1, 6):
        job = replace(ALL["own: sorting on the host what was copied back"].job[0], steps=3, seed=4)
        job = replace(job, trouble=replace(job.trouble, sort_copies=copies, sort_copy_ns=1_000_000))
        lead = measured(job).findings.findings[0]
        assert lead.id == "HOST.WORK"
        gain[copies] = lead.gain_ns or 0
    assert gain[6] - gain[1] == pytest.approx(5_000_000, rel=0.15)


def test_what_has_no_frame_of_the_program_is_of_the_line_of_the_operation_around_it(tmp_path: Path) -> None:
    files = first_of((replace(TROUBLED["loader"], seed=3),))
    (trace,) = (name for name in files if name.endswith("trace_view.json"))
    events = json.loads(files[trace])
    kept = [event for event in events if event.get("cat") != "python_function" or "dataloader" in event["name"]]
    put({**files, trace: json.dumps(kept).encode()}, tmp_path)
    (line,) = by_id(profile_at(tmp_path).findings)["DATA.LOADER"].code_lines
    assert (line.line, line.function) == (137, "train_epoch")


def test_operators_in_one_stretch_without_frames_are_one_piece_of_work(tmp_path: Path) -> None:
    """What sorts a tensor in four parts, each by an operator of another name, with pauses between them."""
    sorting = replace(TROUBLED["sorting"], seed=5, steps=3, with_stack=False)
    files = first_of((replace(sorting, trouble=replace(sorting.trouble, sort_parts=4)),))
    (trace,) = (name for name in files if name.endswith("trace_view.json"))
    events = json.loads(files[trace])
    parts = [event for event in events if event.get("name") == "aten::sort"]
    usual = sum(float(part["dur"]) for part in parts) / 3
    for number, part in enumerate(parts):
        part["name"] = f"aten::{('sort', 'tril', 'lt', 'fill_')[number % 4]}"
        part["dur"] = float(part["dur"]) * (1 if number % 4 == 3 else 0.8)
    put({**files, trace: json.dumps(events).encode()}, tmp_path)
    lead, *others = profile_at(tmp_path).findings.findings
    assert lead.id == "HOST.WORK"
    assert words(lead.title).startswith(
        ("aten::fill_, aten::", "aten::sort, aten::", "aten::tril, aten::", "aten::lt, ")
    )
    assert (lead.gain_ns or 0) / 1000 == pytest.approx(usual, rel=0.03)
    assert not any(other.id in ("HOST.WORK", "HOST.PAUSE") and not other.part_of for other in others)
