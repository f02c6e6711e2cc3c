"""Two jobs on the screen: the verdict, the ranks by the change of their work, and the way into a pair of timelines."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from driving import of_jobs
from test_golden import SIZES, compare
from test_job import overview, press, rows, until

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "jobs"))
from job_pairs import pair

from npu_tui.jobs.against import JobComparison
from npu_tui.tui.app import NpuTui
from npu_tui.tui.job_overview import Examined, compared_job
from npu_tui.tui.job_screen import JobScreen
from npu_tui.tui.screen import MainScreen

pytestmark = of_jobs
FOLDER = Path(__file__).resolve().parent / "golden_job"
_JOB = Path(__file__).resolve().parents[2] / "fixtures/two_ranks"


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_screens(size: tuple[int, int]):
    found = pair("permuted, one 10% slower", 16, 1)
    async with overview(Examined(found.new, JobComparison(found.base, found.new)), size) as (screen, app):
        shown = rows(app)
        assert screen.view.rank == found.ranks[0]
        assert screen.panel.rows[0].rank == found.ranks[0]
    compare(f"changes_{size[0]}x{size[1]}", shown, FOLDER)


async def test_enter_on_a_rank_compares_it_with_that_of_the_base():
    screen = JobScreen(_JOB, base=_JOB)
    screen.show(compared_job(_JOB, _JOB, lambda done, count: None))
    app = NpuTui(job=screen)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await press(app, "tab", "down", "enter")
        await until(lambda: isinstance(app.screen, MainScreen))
        sides = app.screen.session.picture.comparison.sides
        assert [side.trace.rank for side in sides] == [1, 1]
        await press(app, "escape", "escape")
        await until(lambda: app.screen is screen)


async def test_ranks_without_traces_say_so():
    found = pair("nothing", 8, 1)
    async with overview(Examined(found.new, JobComparison(found.base, found.new))) as (_, app):
        await press(app, "enter")
        assert any("no trace here" in row for row in rows(app))


async def test_a_job_alone_has_no_changes():
    async with overview(Examined(pair("nothing", 8, 1).new)) as (screen, app):
        await press(app, "F")
        assert screen.panel.tab == "job_findings"
        assert any("npu-tui compare JOB_A JOB_B" in row for row in rows(app))
