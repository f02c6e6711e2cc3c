"""The heat map of a job: by step, collective and time; what is alike shares a row, what stands out never does."""

from __future__ import annotations

import numpy as np
import pytest
from made_jobs import simulated

from npu_tui.jobs.heat import METRICS, SHADES, HeatSource, heat_rows
from npu_tui.jobs.timelines import waterfall

MS = 1_000_000
SLOW = 5


def late_rank(rank: int, step: int, call: int) -> int:
    """Every rank works 1 ms before a call, rank 5 works 1.5 ms."""
    return MS + (MS // 2 if rank == SLOW else 0)


@pytest.fixture(scope="module")
def job():
    return simulated(16, late_rank)


def test_own_excess_by_step_is_what_the_rank_worked_more(job):
    heat = HeatSource(job).heat("own", "step")
    assert [column.label for column in heat.columns] == [str(step) for step in range(8)]
    own = heat.values[heat.ranks.index(SLOW)]
    assert own == pytest.approx([5 * MS / 2] + [6 * MS / 2] * 7, abs=2_000)  # nothing is known before the first call
    others = np.delete(heat.values, heat.ranks.index(SLOW), axis=0)
    assert np.abs(others).max() < 20_000


def test_a_column_per_collective_says_who_came_last_and_who_waited(job):
    source = HeatSource(job)
    cost, waits = source.heat("cost", "collective"), source.heat("waits", "collective")
    assert len(cost.columns) == len(job.blamed) == 48
    assert [cost.ranks[row] for row in np.nanargmax(cost.values, axis=0)] == [SLOW] * 48
    assert np.nanmin(waits.values[[rank != SLOW for rank in waits.ranks]]) > 0.49 * MS
    assert np.nanmax(waits.values[waits.ranks.index(SLOW)]) == 0


def test_a_stretch_of_time_holds_the_worst_of_its_collectives(job):
    source = HeatSource(job)
    by_time, single = source.heat("late", "time"), source.heat("late", "collective")
    assert sorted(number for column in by_time.columns for number in column.collectives) == list(range(48))
    for place, column in enumerate(by_time.columns):
        if column.collectives:
            worst = single.values[:, list(column.collectives)].max(axis=1)
            assert by_time.values[:, place] == pytest.approx(worst)


def test_what_steps_tell_is_over_steps_whatever_the_axis(job):
    for metric in METRICS[4:7]:
        heat = HeatSource(job).heat(metric, "time")
        assert heat.axis == "step"
        assert np.nanmin(heat.values) == 0  # more than the rank with the least


def test_alike_ranks_share_a_row_and_outliers_never():
    def work(rank: int, step: int, call: int) -> int:
        return MS + (MS // 2 if rank == SLOW or (rank, step) == (40, 3) else 0)

    heat = HeatSource(simulated(64, work)).heat("own", "step")
    rows = heat_rows(heat)
    assert [(row.kind, row.ranks) for row in rows[:2]] == [("rank", (SLOW,)), ("rank", (40,))]
    assert [(row.kind, len(row.ranks)) for row in rows[2:]] == [("alike", 62)]
    assert rows[2].values.max() < SHADES[0]
    assert len(heat_rows(heat, opened=True)) == 64
    assert sum(len(row.ranks) for row in heat_rows(heat, scope=range(8))) == 8


def test_missing_ranks_are_said_and_nothing_is_invented(job):
    heat = HeatSource(job).heat("own", "step")
    rows = heat_rows(heat, missing=[20, 21, 22])
    assert [row.ranks for row in rows if row.kind == "missing"] == [(20, 21, 22)]
    assert np.isnan(rows[-1].values).all()
    assert [row.ranks for row in heat_rows(heat, missing=[20, 21]) if row.kind == "missing"] == [(20,), (21,)]


def test_bars_of_a_collective_hold_the_arrivals_in_their_order(job):
    blamed = job.blamed[7]
    found = waterfall(blamed, job.clocks)
    assert found.bars[0].rank == SLOW
    assert [bar.come for bar in found.bars] == sorted((bar.come for bar in found.bars), reverse=True)
    first = found.bars[0]
    assert (first.come, first.wait) == (found.come, 0)
    assert first.own == pytest.approx(MS / 2, abs=2_000)
    for bar in found.bars[1:]:
        assert bar.come + bar.wait == found.come
        assert 0 <= bar.come <= bar.end <= found.length
