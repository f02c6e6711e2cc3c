"""Work that one rank does alone and broadcasts, and broadcasts of what all have."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from npu_tui.analysis.experts import Pace
from npu_tui.jobs.findings import job_findings
from npu_tui.jobs.job import Job
from npu_tui.jobs.model import Busy, RankFinding, RankProfile, RecordedCall, StepTime
from npu_tui.jobs.rings import root_of
from npu_tui.strings import words
from npu_tui.trace.message import message

EPOCH, MS, STEPS = 1_760_000_000_000_000_000, 1_000_000, 3


def ranks(root: int, alone: int, waits: int) -> list[RankProfile]:
    """Four ranks that sum gradients, and get what ``root`` sends in 5 ms after it computed ``alone`` ms more.

    The others wait ``waits`` ms for it in the broadcast.
    """
    profiles = []
    for rank in range(4):
        calls = []
        for step in range(STEPS):
            summed = EPOCH + (step * 100 + 50) * MS
            end = summed + (5 + waits + 5) * MS
            sent = end - 5 * MS if rank == root else summed + 5 * MS
            calls += [RecordedCall("7", "allReduce", f"sum {step}", str(step), step, summed, summed + 5 * MS)]
            calls += [RecordedCall("7", "broadcast", f"sent {step}", str(step), step, sent, end)]
        more = alone * (rank == root)
        paces = (Pace("MatMulV2", "64,64", 300, 3 * 40 * MS), Pace("AdamW", "64", 30, 3 * more * MS))
        words_of = {"count": 1, "unit": "step", "time": 5 * MS}
        told = RankFinding("COMM.NEEDLESS", 5 * MS, message("finding.needless.sent.title", **words_of), "communication",
                           None, STEPS, True)  # fmt: skip
        times = [StepTime(str(step), (40 + more) * MS, (10 + waits - more) * MS, 0, 100 * MS) for step in range(STEPS)]
        profiles.append(
            RankProfile(rank, Path(f"rank{rank}"), "trace", calls=tuple(calls), steps=tuple(times), findings=(told,),
                        recorded=EPOCH, paces=paces[: 1 + bool(more)])
        )  # fmt: skip
    return profiles


def test_the_rank_that_alone_computes_what_it_sends_is_named():
    job = Job(Path("job"), ranks(2, 20, 20))
    (found,) = (each for each in job_findings(job) if each.id == "COMM.NEEDLESS")
    assert words(found.title).startswith(
        "rank 2 alone computes 20.00 ms a step that it then broadcasts, mostly AdamW: 1 broadcast a step"
    )
    assert "wait 20.00 ms a step for it" in words(found.detail)
    assert "what rank 2 does alone" in words(found.detail)
    assert found.gain_ns == STEPS * 5 * MS  # the work stays: any rank that does it takes as long


def test_a_rank_that_is_late_with_what_it_sends_is_slow_by_what_its_host_does():
    late, loads = ranks(2, 0, 20), {"longest": 20 * MS, "waits": 20 * MS, "unit": "step"}
    reads = RankFinding(
        "DATA.LOADER", 20 * MS, message("finding.loader.title", **loads), "data", ("train.py", 7), STEPS, True
    )
    late[2] = replace(late[2], findings=(reads,))
    found = job_findings(Job(Path("job"), late))[0]
    assert (found.id, found.ranks, found.gain_ns) == ("RANK.SLOW", (2,), STEPS * 20 * MS)
    assert words(found.title).startswith("rank 2 is late with what it broadcasts: in time a step would be up to 20.00")
    assert "train.py:7" in words(found.title)
    # What the others compute meanwhile costs nothing, nor what may be the start of its profiler.
    busy = [replace(each, busy=Busy(each.calls.start[1::2], each.calls.end[1::2])) for each in late]
    fresh = [replace(each, recorded=EPOCH + 270 * MS) for each in late]
    for known in (busy, fresh):
        assert not [each for each in job_findings(Job(Path("job"), known)) if each.id == "RANK.SLOW"]


@pytest.mark.parametrize(("alone", "waits"), [(0, 0), (0, 20), (20, 0)])
def test_what_all_have_is_sent_by_nobody_alone(alone: int, waits: int):
    """Buffers; a rank that comes late with equal work; work beside broadcasts that nobody waits in."""
    job = Job(Path("job"), ranks(2, alone, waits))
    assert root_of(job) is None
    assert not [each for each in job_findings(job) if words(each.title).startswith("rank 2 alone")]
