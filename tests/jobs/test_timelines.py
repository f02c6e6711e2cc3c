"""Traces of a job on its clock: where each is drawn, and those that nothing ties."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from made_jobs import EPOCH, simulated
from msgspec.structs import replace

from npu_tui.jobs.job import Job
from npu_tui.jobs.timelines import Timelines

MS = 1_000_000
HOUR = 3_600_000 * MS


def profile(start: int, length: int = 50 * MS) -> SimpleNamespace:
    """What of a profile says where it is drawn."""
    return SimpleNamespace(trace=SimpleNamespace(start_ns=start, end=length))


def test_traces_lie_on_the_common_clock_whatever_their_own_say():
    job = simulated(4, lambda rank, step, call: MS, offset=lambda rank: rank * HOUR)
    starts = [EPOCH + rank * HOUR + rank * MS for rank in range(4)]  # each begins 1 ms after the one before
    lines = Timelines(job, [0, 1, 2, 3], [profile(start) for start in starts])
    assert lines.offsets() == pytest.approx([0, MS, 2 * MS, 3 * MS], abs=2_000)
    assert lines.apart == []


def test_ranks_that_nothing_ties_are_drawn_behind_the_others_and_said():
    tied, other = simulated(2, lambda rank, step, call: MS), simulated(2, lambda rank, step, call: MS)
    alone = [
        replace(
            each,
            rank=each.rank + 2,
            calls=tuple(replace(call, group="9", name=call.name.replace("__123_", "__9_")) for call in each.calls),
        )
        for each in other.ranks
    ]
    job = Job(Path("job"), [*tied.ranks, *alone])
    lines = Timelines(job, [0, 2, 1, 3], [profile(EPOCH) for _ in range(4)])
    offsets = lines.offsets()
    assert lines.apart == [2, 3]
    assert [offsets[0], offsets[2]] == pytest.approx([0, 0], abs=2_000)
    assert min(offsets[1], offsets[3]) >= 50 * MS  # after the end of those that are tied
    assert abs(offsets[1] - offsets[3]) < 2_000  # these two are tied to each other
