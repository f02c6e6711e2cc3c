"""Jobs of GPUs: which kernels of the ranks are one collective, and who came late."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from kineto_writer import build_gpus
from situations import JOBS

from npu_tui.jobs.findings import job_findings
from npu_tui.jobs.job import Job
from npu_tui.jobs.opening import open_job
from npu_tui.output.job_report import not_checked
from npu_tui.strings import words

Events = list[dict[str, Any]]

_APART = 3_000_000
"""ns between the clocks of the two hosts."""


@cache
def _written(slow: bool) -> dict[str, bytes]:
    first, second = (replace(rank, clock_error_ns=0) for rank in JOBS["two_ranks"])
    return build_gpus((first, second if slow else replace(first, rank=1, seed=7)), _APART)


def _job(folder: Path, slow: bool, change: Callable[[int, Events], Events] = lambda rank, events: events) -> Job:
    for rank, (name, text) in enumerate(_written(slow).items()):
        document = json.loads(text)
        document["traceEvents"] = change(rank, document["traceEvents"])
        (folder / name).write_text(json.dumps(document))
    return open_job(folder)


def _collectives(events: Events) -> Iterator[dict[str, Any]]:
    return (event["args"] for event in events if event["name"].startswith("nccl"))


def test_a_late_gpu_is_named_as_a_late_npu_is(tmp_path: Path):
    job = _job(tmp_path, slow=True)
    (slow,) = [finding for finding in job_findings(job) if finding.id == "RANK.SLOW"]
    (of_npus,) = job_findings(open_job(Path(__file__).parents[2] / "fixtures" / "two_ranks"))
    assert slow.ranks == of_npus.ranks == (1,)
    assert slow.gain_ns == pytest.approx(of_npus.gain_ns, rel=1e-3)
    assert len(job.meetings) == 4
    clock = job.clocks[1]
    assert clock.method == "collective_ends"
    assert abs(clock.offset - _APART) <= clock.error + 200
    assert job.groups[0].ranks == (0, 1)
    assert not job.missing
    said = [words(reason) for reason in not_checked(job)]
    assert not any("communication_matrix" in text or "profiler_metadata" in text for text in said)


def test_gpus_of_a_healthy_job_are_even(tmp_path: Path):
    job = _job(tmp_path, slow=False)
    assert len(job.meetings) == 4
    assert {(found.title.code, found.ranks) for found in job_findings(job)} == {("job.alike.all", (0, 1))}


def _without_args(rank: int, events: Events) -> Events:
    for args in _collectives(events):
        for name in ("Collective name", "Process Group Name", "Process Group Ranks", "Seq"):
            del args[name]
    return events


def _older_and_newer(rank: int, events: Events) -> Events:
    for args in _collectives(events):
        args |= {"Collective name": ("_allreduce_coalesced", "all_reduce")[rank], "Process Group Ranks": [0, 1]}
    return events


def _send_and_receive(rank: int, events: Events) -> Events:
    for event in events:
        if event["name"].startswith("nccl"):
            event["name"] = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
    return _without_args(rank, events)


def _named_messages(rank: int, events: Events) -> Events:
    for args in _collectives(events):
        args |= {"Collective name": ("send", "recv")[rank], "Src Rank": 0, "Dst Rank": 1}
    return events


@pytest.mark.parametrize("change", [_without_args, _older_and_newer, _send_and_receive])
def test_calls_of_other_versions_meet_as_well(tmp_path: Path, change: Callable[[int, Events], Events]):
    job = _job(tmp_path, True, change)
    assert len(job.meetings) == 4
    assert [finding.ranks for finding in job_findings(job) if finding.id == "RANK.SLOW"] == [(1,)]


def test_messages_are_paired_by_the_ranks_they_name(tmp_path: Path):
    job = _job(tmp_path, True, _named_messages)
    assert [set(meeting.calls) for meeting in job.meetings] == [{0, 1}] * 4
    assert job.messages_apart == 0


def _a_moment_later(rank: int, events: Events) -> Events:
    """No steps; rank 1 was recorded from its second collective on, rank 0 up to its last but one."""
    numbers = sorted(args["Seq"] for args in _collectives(events))
    outside = numbers[0] if rank else numbers[-1]
    return [
        event
        for event in events
        if not event["name"].startswith("ProfilerStep") and event.get("args", {}).get("Seq") != outside
    ]


def test_the_number_of_a_collective_counts_before_its_place(tmp_path: Path):
    job = _job(tmp_path, True, _a_moment_later)
    ordinals = [{call.ordinal for call in meeting.calls.values()} for meeting in job.meetings]
    assert ordinals == [{2}, {3}]
    assert abs(job.clocks[1].offset - _APART) < 10_000


def test_groups_of_one_name_are_told_apart_by_their_ranks(tmp_path: Path):
    def split(rank: int, events: Events) -> Events:
        for args in _collectives(events):
            args |= {"Process Group Name": "3", "Process Group Ranks": json.dumps([rank, rank + 2]), "Group size": 2}
        return events

    assert not len(_job(tmp_path, True, split).meetings)
