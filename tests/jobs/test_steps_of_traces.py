"""Steps of a rank from its trace alone, and the steps that its collectives are of."""

import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace
from written import reasons

from npu_tui.analysis.device import Window
from npu_tui.analysis.steps import Step
from npu_tui.jobs.opening import open_job
from npu_tui.jobs.rank_trace import calls_of
from npu_tui.load.find import find_source
from npu_tui.load.load import load
from npu_tui.output.job_document import job_document
from npu_tui.output.job_report import job_report
from npu_tui.profile.profile import Profile
from npu_tui.strings import words

_JOB = Path(__file__).parents[2] / "fixtures" / "two_ranks"


def test_a_trace_tells_the_steps_that_no_table_does():
    for rank in open_job(_JOB).ranks:
        truth = json.loads((rank.path / "truth.json").read_text())["overlap"]
        assert [step.step for step in rank.steps] == ["20", "21"]
        assert sum(step.computing for step in rank.steps) == truth["computing_ns"]
        assert sum(step.exposed for step in rank.steps) == truth["communication_not_overlapped_ns"]
        assert sum(step.free for step in rank.steps) == truth["free_ns"]
        assert all(step.total == step.computing + step.exposed + step.free for step in rank.steps)


def test_steps_of_a_real_trace_are_those_of_its_table(tmp_path):
    folder = os.environ.get("NPU_TUI_TRACES")
    if not folder:
        pytest.skip(reason="NPU_TUI_TRACES is not set: it names the folder of the real profiles")
    recorded = Path(folder) / "text" / "level1"
    for rank in ("rank0_ascend_pt", "rank1_ascend_pt"):
        shutil.copytree(recorded / rank, tmp_path / rank, copy_function=os.symlink)
        (tmp_path / rank / "ASCEND_PROFILER_OUTPUT" / "step_trace_time.csv").unlink()
    for told, traced in zip(open_job(recorded).ranks, open_job(tmp_path).ranks, strict=True):
        assert len(told.steps) == len(traced.steps) == 1
        for name in ("computing", "exposed", "free", "total"):
            assert getattr(traced.steps[0], name) == pytest.approx(getattr(told.steps[0], name), abs=2)


def _of_first_rank() -> Profile:
    source = find_source(_JOB / "rank0_ascend_pt")
    return Profile(load(source), source)


def test_a_collective_before_the_first_kernel_is_of_the_step_on_the_host():
    profile = _of_first_rank()
    items = profile.collectives.item.tolist()
    first, last = (int(profile.trace.slices.start[item]) for item in (items[0], items[-1]))
    step = profile.steps[0]
    late = replace(step, window=Window(first + 1, last + 1, whole=True))
    # The slice of the step begins before the first collective, its first kernel after it.
    host = int(profile.trace.slices.start[step.item])
    assert host < first
    seen = SimpleNamespace(trace=profile.trace, steps=[late], collectives=profile.collectives, facts=profile.facts)
    assert {call.step for call in calls_of(seen)} == {"20"}
    idle = SimpleNamespace(
        trace=profile.trace,
        steps=[Step(None, None, -1, Window(0, profile.trace.end, whole=True))],
        collectives=profile.collectives,
        facts=profile.facts,
    )
    assert {call.step for call in calls_of(idle)} == {""}


def test_a_collective_is_of_the_step_that_asks_for_it_though_the_queue_launches_it_later(tmp_path):
    source = _JOB / "rank0_ascend_pt" / "ASCEND_PROFILER_OUTPUT" / "trace_view.json"
    events = json.loads(source.read_text())
    begin = 1_751_342_400_002_920.0  # the second of two collectives is asked for 26 us before, and launched 20 us later
    for event in events:
        if event.get("name") == "ProfilerStep#20":
            event["dur"] = begin - float(event["ts"])
        if event.get("name") == "ProfilerStep#21":
            event["dur"] += float(event["ts"]) - begin
            event["ts"] = f"{begin:.3f}"
    (tmp_path / "trace_view.json").write_text(json.dumps(events))
    assert [call.step for call in calls_of(Profile(load(tmp_path / "trace_view.json")))] == ["20", "20", "21", "21"]


def test_a_step_without_a_name_is_none_beside_others():
    job = open_job(_JOB)
    first, second = job.ranks
    unnamed = tuple(replace(step, step="") for step in first.steps[:1])
    mixed = type(job)(job.path, [replace(first, steps=unnamed + first.steps[1:]), second])
    assert mixed.steps == ["20", "21"]
    alone = job_report(
        type(job)(job.path, [replace(rank, steps=tuple(replace(step, step="") for step in rank.steps[:1]), calls=())
                             for rank in job.ranks])
    )  # fmt: skip
    assert alone.steps == [""]
    assert "no steps recorded" in job_document(alone).blocks[0].lines[0]


def test_a_host_that_nothing_tells_is_unknown():
    job = open_job(_JOB)
    alone = type(job)(job.path, [replace(rank, boot=None, host_name="") for rank in job.ranks])
    found = job_report(alone)
    assert found.hosts == []
    assert {row.host for row in found.rank_table} == {"unknown"}
    assert job_document(found).blocks[0].lines[0].startswith("2 ranks, hosts unknown, 2 traces")


def test_a_collective_that_a_wrong_clock_puts_far_away_is_told_and_not_judged(tmp_path):
    """Without steps it would be paired with those of the other rank, 30 days before it."""
    shutil.copytree(_JOB, tmp_path / "job")
    for rank in (0, 1):
        trace = tmp_path / "job" / f"rank{rank}_ascend_pt" / "ASCEND_PROFILER_OUTPUT" / "trace_view.json"
        events = [event for event in json.loads(trace.read_text()) if "ProfilerStep" not in event.get("name", "")]
        if rank:
            last = [event for event in events if event["name"].startswith("hcom_") and event["ph"] == "X"][-1]
            last["ts"] = f"{float(last['ts']) + 30 * 86_400e6:.3f}"
        trace.write_text(json.dumps(events))
    job = open_job(tmp_path / "job")
    assert [len(rank.calls) for rank in job.ranks] == [4, 3]
    assert len(job.meetings) == 3
    assert job.length < 10**9
    assert any("1 slice lies 720.0 h away from all others: not judged" in line for line in reasons(job_report(job))), (
        reasons(job_report(job))
    )


_KERNELS = """Device_id,Name,Type,Accelerator Core,Start Time(us),Duration(us)
0,mm,MatMul,AI_CORE,1000.000,300.000
0,add,Add,AI_VECTOR_CORE,1400.000,100.000
0,hcom_allReduce__1_0_1,hcom_allReduce_,HCCL,1450.000,250.000
"""


def test_kernels_alone_tell_the_time_of_the_device(tmp_path):
    for rank in (0, 1):
        folder = tmp_path / f"r{rank}_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
        folder.mkdir(parents=True)
        (folder / "kernel_details.csv").write_text(_KERNELS)
        (folder.parent / f"profiler_info_{rank}.json").write_text("{}")
    for rank in open_job(tmp_path).ranks:
        (step,) = rank.steps
        assert (step.computing, step.exposed, step.free, step.total) == (400_000, 200_000, 100_000, 700_000)


def test_profiles_that_were_never_parsed_are_named_beside_those_that_were(tmp_path):
    shutil.copytree(_JOB, tmp_path / "job")
    raw = tmp_path / "job" / "node7_9_ascend_pt"
    (raw / "FRAMEWORK").mkdir(parents=True)
    (raw / "FRAMEWORK" / "torch.op_range").write_bytes(b"")
    job = open_job(tmp_path / "job")
    assert len(job.ranks) == 2
    (unread,) = [words(reason) for reason in job.broken]
    assert "1 raw profile, never parsed" in unread
    assert "node7_9_ascend_pt" in unread
