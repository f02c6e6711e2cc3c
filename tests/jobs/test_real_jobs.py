"""Clocks, stages and blame on real profiles; the figures are those of their own notifies and common ends."""

from __future__ import annotations

import math
import os
from collections import defaultdict
from functools import cache
from pathlib import Path

import polars as pl
import pytest
from written import fields_of

from npu_tui.cli.main import main
from npu_tui.jobs.blame import excess
from npu_tui.jobs.findings import job_findings
from npu_tui.jobs.job import Job
from npu_tui.jobs.model import Layout, RankProfile, RecordedCall, call_table
from npu_tui.jobs.opening import open_job
from npu_tui.load.find import find_sources
from npu_tui.load.load import load
from npu_tui.profile.profile import Profile


@pytest.fixture
def real_profiles() -> Path:
    """The folder of the real profiles."""
    folder = os.environ.get("NPU_TUI_TRACES")
    if not folder:
        pytest.skip(reason="NPU_TUI_TRACES is not set: it names the folder of the real profiles")
    return Path(folder)


@cache
def job_at(path: Path) -> Job:
    """A job that several tests ask; none changes it."""
    return open_job(path)


@pytest.mark.parametrize(
    ("folder", "low", "high"),
    [("text/level1", -8.48, -6.09), ("db/level1", 14.07, 16.36), ("text/level0", 5.6, 9.9)],
)
def test_the_clock_of_the_second_rank(real_profiles: Path, folder: str, low: float, high: float):
    job = job_at(real_profiles / folder)
    clock = job.clocks[1]
    assert low <= clock.offset / 1e3 <= high
    assert len(job.hosts) == 1
    assert clock.method == ("collective_ends" if folder.endswith("0") else "notify")


def test_a_trace_is_moved_as_a_whole_as_its_lanes_on_their_own_would_run_backwards(real_profiles: Path):
    """On one host the host lanes share a clock: left where they are, they would lie in front of what they launch.

    Links from host to device that end before they begin, in the second rank, with both moved and with the device alone.
    """
    together = alone = 0
    for folder in ("db/level0", "db/level1"):
        job = job_at(real_profiles / folder)
        assert len(job.hosts) == 1
        assert job.devices_apart == abs(job.clocks[1].offset)
        source = find_sources(real_profiles / folder)[1]
        profile = Profile(load(source), source)
        links = profile.devices[0].launches.link
        took = profile.trace.links.target_time[links] - profile.trace.links.source_time[links]
        together += int((took < 0).sum())
        alone += int((took < job.clocks[1].offset).sum())
    assert (together, alone) == (6, 66)


def test_a_late_rank_without_files_is_named(real_profiles: Path):
    job = job_at(real_profiles / "text/level1")
    found = job_findings(job)
    assert found[0].id == "RANK.SLOW"
    assert found[0].ranks == (5,)
    assert job.missing == [2, 3, 4, 5, 6, 7]
    bounds = {arrival.at_most for each in job.blamed for arrival in each.arrivals if arrival.outside}
    assert bounds == {True, False}


def test_a_job_without_traces(real_profiles: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["ranks", str(real_profiles / "job4"), "--format", "json"]) == 0
    found = fields_of(capsys.readouterr().out)
    assert [row["offset_us"] for row in found["clock"]] == pytest.approx([0, -1.0, -25.0, 1.5], abs=2)
    assert found["source"] | {"path": ""} == {"path": "", "ranks": 4, "traces": 0, "kinds": ["companions"]}
    stage = next(each for each in found["findings"] if each["id"] == "RANK.STAGE")
    assert stage["ranks"] == [2, 3]
    computing = [row["computing_us"] for row in found["rank_table"]]
    assert computing == pytest.approx([231_290, 230_904, 400_448, 401_132], rel=1e-4)
    waits = defaultdict(float)
    for each in found["collectives"]:
        waits[each["last_rank"]] += each["second_us"]
    for row in found["rank_table"]:
        assert row["job_waits_us"] == pytest.approx(waits[row["rank"]], abs=0.1)
    assert main(["ranks", str(real_profiles / "job4")]) == 0
    # A link that is the only one of its kind is not held against itself.
    told = "none slower than the others; the slowest of its kind is rank 0 to 1 over HCCS in allGather: 19.47 GB/s"
    assert f"{told}\n" in capsys.readouterr().out


def test_the_labelled_straggler_works_longer_than_its_stage_in_every_step(real_profiles: Path):
    """Operations of one rank follow each other, so the time of each stands as the work before a call of no length."""
    table = pl.read_parquet(real_profiles / "stragglers/trace-AR.parquet")
    kinds = table["optype"].cast(pl.String)
    work = (
        table.with_columns(kinds.alias("optype"))
        .filter(kinds.str.ends_with("-compute"))
        .sort("rank", "step", "start_ts")
    )
    ranks = []
    for (rank,), own in work.group_by(["rank"], maintain_order=True):
        time, calls = 0, []
        for kind, step, number, stage, duration in own.select(
            "optype", "step", "mb_id", "stage", "duration"
        ).iter_rows():
            if not calls:
                calls.append(RecordedCall("", "", "", str(step), None, -1, 0))
            time += math.ceil(duration * 1e9)
            calls.append(RecordedCall(f"{stage}", f"{kind} {number}", "", str(step), None, time, time))
        ranks.append(RankProfile(int(rank), Path(), "", calls=tuple(calls)))
    sums: dict[tuple[int, str], int] = defaultdict(int)
    layout = Layout(tensor=1, pipeline=4, data=16, world=64)
    calls = call_table(ranks)
    more, known = excess(calls, layout.peers_key)
    for row in known.nonzero()[0].tolist():
        sums[calls.ranks[calls.rank[row]], calls.call(row).step] += int(more[row])
    steps = {step for _, step in sums}
    assert len(steps) == 44
    for step in steps:
        assert max((more, rank) for (rank, at), more in sums.items() if at == step)[1] == 0


def test_a_gate_on_what_the_job_waits_for_one_rank(real_profiles: Path, capsys: pytest.CaptureFixture[str]):
    job4 = str(real_profiles / "job4")
    assert main(["check", job4, "--max-rank-wait", "50%", "--max-own-excess", "5%"]) == 0
    assert main(["check", job4, "--max-rank-wait", "5ms"]) == 1
    assert "rank 3" in capsys.readouterr().out


def test_a_gate_on_one_rank_is_not_measured(real_profiles: Path):
    assert main(["check", str(real_profiles / "single_card"), "--max-rank-wait", "50%"]) == 1


def test_limits_on_one_profile_do_not_go_with_those_on_a_job(real_profiles: Path):
    with pytest.raises(SystemExit) as ended:
        main(["check", str(real_profiles / "job4"), "--max-rank-wait", "50%", "--max-free", "10%"])
    assert ended.value.code == 2


def test_a_folder_of_ranks_is_a_job_wherever_a_report_is_asked_for(
    real_profiles: Path, capsys: pytest.CaptureFixture[str]
):
    job4 = str(real_profiles / "job4")
    assert main(["ranks", job4]) == 0
    text = capsys.readouterr().out
    for words in (["report", job4], [job4]):
        assert main(words) == 0
        assert capsys.readouterr().out == text
