"""The path of a job: its ranks by how long they hold it, against jobs whose guilty rank is known, and real ones."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cause import Job as Ranks
from cause import in_time, ranks_of
from cause_jobs import _MET, JOB
from generate import recorded
from kineto_writer import build_gpus
from pipelines import Pipeline
from pipelines import write as write_stage
from simulator import simulate_ranks
from situations import JOBS
from written import fields_of

from npu_tui.cli.main import main
from npu_tui.jobs.job import Job
from npu_tui.jobs.opening import open_job
from npu_tui.jobs.path import JobPath, job_path
from npu_tui.strings import words

FIXTURE = Path(__file__).resolve().parents[2] / "fixtures" / "two_ranks"


def written(ranks: Ranks, folder: Path) -> Path:
    """The profiles of ``ranks`` in ``folder``."""
    for situation, recording in zip(ranks, simulate_ranks(ranks), strict=True):
        for name, content in recorded(situation, recording).items():
            file = folder / f"rank{situation.rank}_ascend_pt" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
    return folder


def staged(pipeline: Pipeline, folder: Path) -> Path:
    """The profiles of all stages of ``pipeline`` in ``folder``."""
    for rank in range(pipeline.stages):
        place = folder / f"rank_{rank}_ascend_pt"
        (place / "ASCEND_PROFILER_OUTPUT").mkdir(parents=True)
        write_stage(replace(pipeline, rank=rank, paired=True), place / "ASCEND_PROFILER_OUTPUT" / "trace_view.json")
        (place / f"profiler_info_{rank}.json").write_text("{}")
    return folder


def told(folder: Path) -> JobPath:
    """The path of the job in ``folder``, which tiles its run."""
    path = job_path(open_job(folder))
    assert path.reason is None
    return tiled(path)


def tiled(path: JobPath) -> JobPath:
    """``path``, whose stretches, owners and ranks each add up to its length."""
    stretches = path.stretches
    assert stretches[0].start == 0
    assert stretches[-1].end == path.length > 0
    assert [one.end for one in stretches[:-1]] == [one.start for one in stretches[1:]]
    assert all(one.start < one.end for one in stretches)
    assert sum(owner.on_path for owner in path.owners) == path.length
    assert sum(share.on_path for share in path.ranks) == path.length
    for number, owner in enumerate(path.owners):
        own = [one for one in stretches if one.owner == number]
        assert len(own) == owner.count
        assert sum(one.end - one.start for one in own) == owner.on_path
        assert {one.rank for one in own} == {owner.rank}
    return path


@pytest.fixture
def real_profiles() -> Path:
    """The folder of the real profiles."""
    folder = os.environ.get("NPU_TUI_TRACES")
    if folder is None:
        pytest.skip(reason="NPU_TUI_TRACES is not set: it names the folder of the real profiles")
    return Path(folder)


def share(path: JobPath, rank: int | None) -> float:
    return sum(one.on_path for one in path.ranks if one.rank == rank) / path.length


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("fetching", "guilty"),
    [({"r2": 30_000_000}, 2), ({"r3": 5_000_000}, 3), ({"r0": 9_000_000, "r2": 30_000_000}, 2),
     ({"r1": 12_000_000, "r3": 14_000_000}, 3)],
)  # fmt: skip
@pytest.mark.parametrize("base", [_MET, replace(JOB, steps=4)], ids=["no stacks", "stacks"])
def test_the_path_is_on_the_slow_rank_and_its_gain_is_that_of_the_job_without(fetching, guilty, base, tmp_path):
    path = told(written(ranks_of(base, **fetching), tmp_path / "slow"))
    assert path.ranks[0].rank == guilty
    assert share(path, guilty) > 0.9
    loading = next(owner for owner in path.owners if "__next__" in words(owner.name))
    assert (loading.rank, loading.kind) == (guilty, "host")
    without = told(written(in_time(guilty)(ranks_of(base, **fetching)), tmp_path / "remedied"))
    assert loading.gain == pytest.approx(path.length - without.length, rel=0.02)


def test_clocks_apart_change_nothing(tmp_path: Path):
    even = ranks_of(_MET, r1=20_000_000)
    apart = tuple(replace(rank, clock_error_ns=100_000 * rank.rank) for rank in even)
    paths = [told(written(ranks, tmp_path / f"{number}")) for number, ranks in enumerate((even, apart))]
    assert [share(path, 1) for path in paths] == pytest.approx([share(paths[0], 1)] * 2, abs=0.01)
    assert paths[0].length == pytest.approx(paths[1].length, rel=0.001)


def test_a_job_in_which_nobody_is_slow_has_a_path_too(tmp_path: Path):
    told(written(ranks_of(_MET), tmp_path))


@pytest.mark.few(1)
@pytest.mark.parametrize("stage", [2, 0, 1, 3])
def test_the_path_of_a_pipeline_goes_through_its_slow_stage(stage: int, tmp_path: Path):
    path = told(staged(Pipeline(slow=((stage, 900_000, 1_200_000),)), tmp_path))
    assert path.ranks[0].rank == stage
    assert share(path, stage) > 1.5 * max(share(path, other) for other in range(4) if other != stage)
    assert {one.rank for one in path.ranks} == {0, 1, 2, 3}  # the pipeline fills and drains


def test_the_rank_without_a_trace_holds_the_path_unrecorded(tmp_path: Path):
    folder = written(ranks_of(_MET, r2=30_000_000), tmp_path)
    shutil.rmtree(folder / "rank2_ascend_pt")
    path = told(folder)
    first = path.ranks[0]
    assert (first.rank, first.recorded) == (2, False)
    assert first.on_path > 0.7 * path.length
    assert words(path.owners[0].text) == "rank 2, not recorded"
    assert path.owners[0].kind == "late_rank"
    assert "is on rank 2, which is not recorded" in words(path.sentence)


def test_only_ranks_that_the_path_leads_to_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    job = open_job(written(ranks_of(_MET, r2=30_000_000), tmp_path))
    read = []
    from npu_tui.jobs import path_walk

    loading = path_walk.load
    monkeypatch.setattr(path_walk, "load", lambda source: read.append(source.rank) or loading(source))
    path = job_path(job)
    assert sorted(read) == sorted(one.rank for one in path.ranks)
    assert len(read) < 4


def test_the_fixture_of_two_ranks():
    path = told(FIXTURE)
    assert path.ranks[0].rank == 1
    assert share(path, 1) == pytest.approx(0.979, abs=0.001)
    assert words(path.owners[0].name) == "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    assert path.owners[0].on_path == 9_314_450


def test_a_step_has_the_path_of_that_step():
    job, whole = open_job(FIXTURE), told(FIXTURE)
    steps = [tiled(job_path(job.narrowed(None, step))) for step in job.steps]
    assert sum(path.length for path in steps) == pytest.approx(whole.length, rel=0.05)
    slow = max(steps, key=lambda path: path.length)
    assert slow is steps[1]
    assert slow.owners[0].name == whole.owners[0].name
    assert slow.count == 1


def test_what_one_group_is_blamed_for_does_not_change_the_path(tmp_path: Path):
    job = open_job(FIXTURE)
    assert job_path(job.narrowed(job.groups[0].name, None)).owners == job_path(job).owners


def test_json_says_what_the_tables_say(capsys: pytest.CaptureFixture[str]):
    assert main(["ranks", str(FIXTURE), "--format", "json"]) == 0
    part = fields_of(capsys.readouterr().out)["critical_path"]
    path = told(FIXTURE)
    assert part["told"]
    assert part["sentence"] == words(path.sentence)
    assert sum(owner["ratio"] for owner in part["owners"]) == pytest.approx(1, abs=1e-3)
    assert sum(owner["on_path_us"] for owner in part["owners"]) == pytest.approx(part["length_us"])
    assert sum(rank["ratio"] for rank in part["ranks"]) == pytest.approx(1, abs=1e-3)
    assert part["stretch_count"] == len(part["stretches"]) == len(path.stretches)
    assert all("rank" in owner for owner in part["owners"])
    query = "SELECT rank, sum(duration) AS time FROM job_path GROUP BY rank ORDER BY rank"
    assert main(["query", str(FIXTURE), query, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["time"] for row in rows] == pytest.approx([share(path, rank) * part["length_us"] for rank in (0, 1)])
    assert main(["query", str(FIXTURE), "SELECT sum(on_path) AS time FROM job_owners", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["time"] == pytest.approx(part["length_us"])


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_a_report_says_where_the_path_is(form: str, capsysbinary: pytest.CaptureFixture[bytes]):
    assert main(["ranks", str(FIXTURE), "--format", form]) == 0
    shown = capsysbinary.readouterr().out.decode()
    assert "path is on rank 1 for 97.9% of the step" in shown
    assert "Whose the critical path of the job is" in shown


def test_gpus_beside_each_other_in_one_folder_are_told_apart(tmp_path: Path):
    first, second = (replace(rank, clock_error_ns=0) for rank in JOBS["two_ranks"])
    for name, text in build_gpus((first, second), 3_000_000).items():
        (tmp_path / name).write_bytes(text)
    path = told(tmp_path)
    assert path.ranks[0].rank == 1
    assert share(path, 1) > 0.95


def test_files_beside_the_traces_tell_no_path(tmp_path: Path):
    job = Job(tmp_path, [])
    assert job_path(job).reason is not None


def test_real_ranks_wait_for_one_that_is_not_recorded(real_profiles: Path):
    path = told(real_profiles / "text" / "level1")
    assert path.ranks[0].rank == 5
    assert share(path, 5) == pytest.approx(0.943, abs=0.002)
    assert not path.ranks[0].recorded
    assert [one.rank for one in path.ranks[1:]] == [1]


@pytest.mark.few(1)
@pytest.mark.parametrize("form", ["text", "db"])
def test_without_planes_nothing_names_the_rank_that_real_ones_wait_for(form: str, real_profiles: Path):
    path = told(real_profiles / form / "level0")
    assert path.ranks[0].rank is None
    assert share(path, None) > 0.85
    assert "a rank that no task names" in words(path.sentence)


def test_real_companions_alone_tell_no_path(real_profiles: Path):
    path = job_path(open_job(real_profiles / "job4"))
    assert path.reason is not None
    assert path.reason.code == "job.path.no_traces"
    assert path.sentence is None
    assert np.size(path.stretches) == 0
