"""Roles on screen: whole screens at three sizes, steps, roles, and the way into the timeline of the last rank."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import pytest
from test_golden import SIZES, compare
from test_job import FOLDER, overview, press, rows

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "jobs"))
from made_roles import colocated, job_in_memory
from role_simulations import one

from npu_tui.tui.job_overview import Examined


@cache
def examined() -> Examined:
    """Eight ranks in four roles over three steps, of which rank 5 generates 41 s longer in the second one."""
    return Examined(job_in_memory(colocated(one(5, 41, 2), steps=3)))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_screens(size: tuple[int, int]):
    async with overview(examined(), size) as (_, app):
        compare(f"roles_{size[0]}x{size[1]}", rows(app), FOLDER)


async def test_the_last_rank_is_under_the_cursor_and_opens_in_its_step():
    async with overview(examined()) as (screen, app):
        view = screen.overview
        assert (view.axis, view.job.role, view.rank, view.step) == ("role", "rollout_generate", 5, "2")
        assert [len(row.ranks) for row in view.rows] == [1, 7, 8, 8, 8]
        paths = {rank.rank: rank.path_at(view.step) for rank in view.job.ranks}
        assert paths[5] == Path("2/rollout_generate/5")
        await press(app, "right")
        assert (view.step, len(view.rows)) == ("3", 4)
        await press(app, "left", "down", "down")
        assert view.job.role == "actor_compute_log_prob"
        await press(app, ">")
        assert view.job.role == "actor_compute_log_prob"
        await press(app, *":3\r")
        assert (view.job.role, view.rank, len(view.rows)) == ("actor_compute_log_prob", 3, 32)
        await press(app, "escape", "e")
        assert (view.job.role, view.rank, view.step) == ("rollout_generate", 5, "2")
        await press(app, "down", "space")
        assert len(view.rows) == 32
        await press(app, "escape", "|")
        assert view.axis == "step"
        await press(app, "9")
        assert any("actor_update" in line for line in rows(app))
