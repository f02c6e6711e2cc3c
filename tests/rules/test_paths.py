"""The critical path of simulated runs: its stretches tile the run, its owners add up to it, and no gain is a loss."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from cause import FETCH_NS, ranks_of
from cause_jobs import CAUSES, JOB, SLOW_LINE
from jobs import measured
from own_jobs import OWN
from uneven_jobs import UNEVEN

from npu_tui.profile.parts import select_step
from npu_tui.profile.profile import Profile
from npu_tui.rules.judged_path import owner_text
from npu_tui.strings import words

ALL = {**CAUSES, **OWN, **UNEVEN}
RUNS = 8
"""Runs of each batch; ``NPU_TUI_ALL=1`` tries all 25 of them."""


def assert_adds_up(part: Profile, run: str) -> None:
    for told in part.critical_paths:
        assert told.owners is not None, run
        path, of_stretch, owners = told.owners.path, told.owners.owner, told.owners.owners
        assert (path.start[1:] == path.end[:-1]).all(), run
        assert (path.end > path.start).all(), run
        assert (of_stretch >= 0).all(), run
        time = np.bincount(of_stretch, path.end - path.start, len(owners))
        assert [owner.on_path for owner in owners] == time.tolist(), run
        assert sum(owner.on_path for owner in owners) == path.length, run
        assert [owner.on_path for owner in owners] == sorted((owner.on_path for owner in owners), reverse=True), run
        assert all(owner.gain is None or 0 <= owner.gain <= path.length for owner in owners), run
        if part.selection.step is not None:
            assert all(owner.gain is None or owner.gain <= owner.on_path for owner in owners), run
        titles = [words(owner_text(part.trace, owner)) for owner in owners]
        assert len(titles) == len(set(titles)), run


@pytest.mark.few(1)
@pytest.mark.parametrize("batch", range(25))
def test_paths_add_up(batch: int) -> None:
    chosen = random.Random(batch)
    for _ in range(RUNS):
        name, seed = chosen.choice(list(ALL)), chosen.randrange(10**6)
        profile = measured(tuple(replace(rank, seed=seed + 1_000 * rank.rank) for rank in ALL[name].job))
        steps = [step.number for step in profile.steps if step.number is not None]
        parts = [profile, *(profile.part(select_step(profile.steps, number)) for number in {*steps[:1], *steps[-1:]})]
        for part in parts:
            assert_adds_up(part, f"{name}, seed {seed}, step {part.selection.step}")


def test_ranks_that_are_held_up_alike_gain_together() -> None:
    """One line holds up all ranks, one of which comes a little later: who removes the line does so on all."""
    slow = ranks_of(replace(JOB, slow_lines=(SLOW_LINE,), steps=6), r2=FETCH_NS + 900_000)
    jobs = [
        tuple(replace(rank, seed=7 + 1_000 * rank.rank, slow_lines=lines) for rank in slow)
        for lines in ((SLOW_LINE,), ())
    ]
    recorded, without = (measured(job) for job in jobs)
    lead = recorded.findings.findings[0]
    lengths = [profile.facts[0].replay.recorded / 6 for profile in (recorded, without)]
    assert lead.id == "HOST.WORK"
    assert lead.gain_ns == pytest.approx(lengths[0] - lengths[1], rel=0.1)
