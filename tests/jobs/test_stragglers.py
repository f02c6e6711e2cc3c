"""Pipelines of a recorded run whose slow worker is known: 64 workers, 4 stages, 32 micro batches, 44 steps.

Source: github.com/ByteDance-Seed/StragglerAnalysis, whose replay says what the run would take without stragglers.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from npu_tui.jobs.findings import job_findings
from npu_tui.jobs.job import Job
from npu_tui.jobs.model import Layout, RankPasses, RankProfile, RecordedCall
from npu_tui.jobs.passes import stage_as_others
from npu_tui.jobs.pipeline import PARTS

_STEPS = 6
"""Of the 44 steps those that a test reads; they are alike."""


@pytest.fixture(scope="module")
def stragglers() -> tuple[Job, dict[str, dict[str, float]]]:
    """The run as a job, and what its authors say of the slowest worker (mw) and the last stage (ms)."""
    folder = os.environ.get("NPU_TUI_TRACES")
    if not folder:
        pytest.skip(reason="NPU_TUI_TRACES is not set: it names the folder of the real profiles")
    source = Path(folder) / "stragglers"
    table = pl.read_parquet(source / "trace-AR.parquet").with_columns(pl.col("optype").cast(pl.String))
    table = table.filter(pl.col("step").rank("dense") <= _STEPS).sort("rank", "step", "start_ts")
    told = {name: json.loads((source / f"{name}-AR.json").read_text()) for name in ("mw", "ms")}
    ranks = [_rank(int(rank), own) for (rank,), own in table.group_by(["rank"], maintain_order=True)]
    return Job(source, ranks), told


def _rank(rank: int, table: pl.DataFrame) -> RankProfile:
    # The times of every step begin at 0.
    start = np.rint((table["start_ts"].cast(pl.Float64) + 60.0 * table["step"]).to_numpy() * 1e9).astype(np.int64)
    end = start + np.rint(table["duration"].to_numpy().astype(np.float64) * 1e9).astype(np.int64)
    kinds = table["optype"].to_list()
    works = np.flatnonzero([kind.endswith("-compute") for kind in kinds])
    backward = np.array([kinds[at].startswith("backward") for at in works.tolist()])
    calls = []
    for kind, step, stage, replica, low, high in zip(
        kinds, table["step"], table["stage"], table["dp_rank"], start.tolist(), end.tolist(), strict=True
    ):
        way, _, act = kind.partition("-")
        if act in ("send", "recv"):
            lower = stage - ((way == "forward") == (act == "recv"))
            calls.append(RecordedCall(f"{replica} {lower} {way}", act, kind, str(step), None, low, high))
    layout = Layout(tensor=4, pipeline=4, data=4, world=64)
    passes = RankPasses(start[works], end[works], end[works], backward, np.ones(len(backward), np.int64))
    return RankProfile(rank, Path(), "", calls=tuple(calls), layout=layout, passes=passes)


def test_the_pipelines_of_four_replicas(stragglers: tuple[Job, dict[str, dict[str, float]]]):
    job, _ = stragglers
    found = job.pipelines
    assert not found.left_out
    assert {run.ranks for run in found.runs} == {tuple(range(4 * dp, 64, 16)) for dp in range(4)}
    assert [len(found.runs), found.count] == [4 * _STEPS, _STEPS]
    assert {(run.plan.schedule, run.plan.micro, run.plan.chunks) for run in found.runs} == {("1f1b", 32, 1)}
    lengths = [run.length for run in found.runs]
    assert found.parts.sum(axis=1).tolist() == lengths
    for run, parts in zip(found.runs, found.parts, strict=True):
        # All stages wait for what the bubble is, to the ns of a rounded mean.
        assert sum(run.idle(stage) for stage in range(4)) / 4 == pytest.approx(parts[1:].sum(), abs=1)
        # Filling and draining by the theory of 1F1B: three passes of the mean stage and micro batch.
        assert parts[PARTS.index("fill")] == pytest.approx(3 / 32 * parts[0], abs=70)  # a ns a pass


def test_what_it_would_take_without_the_slow_worker(stragglers: tuple[Job, dict[str, dict[str, float]]]):
    """The slow worker is the first stage of one of four pipelines: with that stage as the others the rest counts."""
    job, told = stragglers
    found = job.pipelines
    saved = found.total() - found.total(found.gains(stage_as_others(0)))
    assert saved / 1e9 / found.count == pytest.approx(told["mw"]["tori"] - told["mw"]["trem"], rel=0.03)
    assert all(found.total(found.gains(stage_as_others(stage))) >= found.total() for stage in (1, 2, 3))
    worst = max(found.runs, key=lambda run: run.length)
    assert worst.ranks[0] == 0
    # Not a slow stage: the same stage of the other pipelines is as fast as their others.
    assert [finding.id for finding in job_findings(job) if finding.id == "RANK.STAGE"] == []
