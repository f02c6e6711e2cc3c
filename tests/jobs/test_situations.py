"""Jobs as they lie about: ranks missing, foreign, broken, twice, at other levels, with other steps, hosts rebooted."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from made_jobs import simulated
from msgspec.structs import replace
from simulations import simulate
from written import fields_of

from npu_tui.cli.main import main
from npu_tui.jobs.findings import job_findings
from npu_tui.jobs.job import Job
from npu_tui.jobs.model import RankProfile, RecordedCall
from npu_tui.jobs.opening import job_of, open_job

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
from many_ranks import write_job


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A job of 8 ranks whose rank 4 is slow."""
    write_job(tmp_path / "job", 8, 6, 6, slow=4)
    return tmp_path / "job"


def ids(job: Job) -> dict[str, tuple[int, ...]]:
    return {finding.id: finding.ranks for finding in job_findings(job)}


def test_a_missing_rank_is_told_and_nothing_is_invented_of_it(folder: Path):
    shutil.rmtree(folder / "rank_2_ascend_pt")
    job = open_job(folder)
    found = ids(job)
    assert found["RANK.MISSING"] == (2,)
    assert found["RANK.SLOW"] == (4,)
    assert 2 not in job.blamed.ranks


@pytest.mark.parametrize("damage", [b"", b"{", b"\0\xff\xfe", b"[1, 2]", b'{"step0": 7}'])
def test_a_rank_with_broken_files_leaves_the_others_as_they_are(folder: Path, damage: bytes):
    for name in ("communication.json", "communication_matrix.json", "step_trace_time.csv"):
        (folder / "rank_3_ascend_pt" / "ASCEND_PROFILER_OUTPUT" / name).write_bytes(damage)
    job = open_job(folder)
    assert len(job.ranks) == 8
    found = ids(job)
    assert found["RANK.SLOW"] == (4,)
    assert found["RANK.CLOCK"] == (3,)


def test_a_file_that_is_cut_off_counts_up_to_there(folder: Path):
    file = folder / "rank_3_ascend_pt" / "ASCEND_PROFILER_OUTPUT" / "communication.json"
    data = file.read_bytes()
    file.write_bytes(data[: len(data) * 2 // 3])
    job = open_job(folder)
    assert ids(job)["RANK.SLOW"] == (4,)
    assert [problem.code for problem in job.ranks[3].problems] == ["job.cut_off"]
    assert job.clocks[3].is_tied


def test_a_rank_of_another_job_has_a_clock_of_its_own(folder: Path, tmp_path: Path):
    write_job(tmp_path / "other", 16, 6, 6, slow=9)
    other = tmp_path / "other" / "rank_12_ascend_pt"
    times = other / "ASCEND_PROFILER_OUTPUT" / "communication.json"
    times.write_text(times.read_text().replace("@99", "@77"))
    shutil.move(other, folder)
    job = open_job(folder)
    found = ids(job)
    assert found["RANK.CLOCK"] == (12,)
    assert found["RANK.SLOW"] == (4,)
    assert all(12 not in row.meeting.calls for row in job.blamed)


def test_of_a_rank_that_lies_there_twice_the_one_of_this_job_counts(folder: Path, tmp_path: Path):
    write_job(tmp_path / "other", 8, 6, 6, slow=1)
    stranger = tmp_path / "other" / "rank_4_ascend_pt"
    times = stranger / "ASCEND_PROFILER_OUTPUT" / "communication.json"
    times.write_text(times.read_text().replace("@99", "@77").replace("@1000", "@78"))
    shutil.move(stranger, folder / "a_rank_4_ascend_pt")
    job = open_job(folder)
    assert len(job.ranks) == 8
    assert job.ranks[4].path.name == "rank_4_ascend_pt"
    assert [each.code for each in job.broken] == ["job.twice"]
    assert ids(job)["RANK.SLOW"] == (4,)


def test_mixed_levels_are_told(folder: Path, capsys: pytest.CaptureFixture[str]):
    info = folder / "rank_5_ascend_pt" / "profiler_info_5.json"
    info.write_text(info.read_text().replace("Level1", "Level2"))
    assert main(["ranks", str(folder), "--format", "json"]) == 0
    assert any("levels" in row["reason"] for row in fields_of(capsys.readouterr().out)["not_checked"])


def test_a_host_that_was_booted_again_is_another_host_and_changes_no_blame(folder: Path):
    info = folder / "rank_6_ascend_pt" / "profiler_info_6.json"
    told = json.loads(info.read_text())
    told["end_info"]["collectionTimeEnd"] += 10**12
    info.write_text(json.dumps(told))
    job = open_job(folder)
    assert [host.ranks for host in job.hosts] == [(0, 1, 2, 3, 4, 5, 7), (6,)]
    assert ids(job) == {"RANK.SLOW": (4,)}


def test_other_step_counts_are_compared_where_they_meet(folder: Path):
    file = folder / "rank_5_ascend_pt" / "ASCEND_PROFILER_OUTPUT" / "communication.json"
    steps = json.loads(file.read_text())
    file.write_text(json.dumps({step: steps[step] for step in list(steps)[2:]}))
    job = open_job(folder)
    assert ids(job)["RANK.SLOW"] == (4,)
    counts = {own.rank: own.collectives for own in job.sums}
    assert counts[5] == 24
    assert counts[0] == 36


def test_messages_between_stages_are_pairs():
    """Rank 0 sends, rank 1 receives and sends on: who comes late to a message is known, and bounds its clock."""
    draw = simulated(2, lambda *_: 1_000_000)
    rows: list[list[RecordedCall]] = [[], []]
    time = [0, 0]
    for step in range(6):
        for number in range(4):
            sends, receives = time[0] + 1_000_000, time[1] + 3_000_000
            end = max(sends, receives) + 50_000
            for rank, kind, start in ((0, "send", sends), (1, "receive", receives)):
                name = f"hcom_{kind}__123_{step * 4 + number}_1"
                shift = 7 * 10**9 * rank
                rows[rank].append(RecordedCall("123", kind, name, str(step), number, start + shift, end + shift))
                time[rank] = end
    ranks = [replace(profile, calls=tuple(own)) for profile, own in zip(draw.ranks, rows, strict=True)]
    job = Job(Path("job"), ranks)
    assert len(job.meetings) == 24
    assert not job.meetings.barrier.any()
    assert job.clocks[1].high is not None or not job.clocks[1].is_tied


def test_broadcasts_keep_nobody_waiting():
    job, _ = simulate("nobody is slow", 8, 1)
    late = replace(job.ranks[3], calls=tuple(replace(call, type="broadcast") for call in job.ranks[3].calls))
    every = [replace(each, calls=tuple(replace(call, type="broadcast") for call in each.calls)) for each in job.ranks]
    assert len(Job(Path("job"), every).meetings) == 0
    assert job_findings(Job(Path("job"), [*job.ranks[:3], late, *job.ranks[4:]]))[0].id in {"RANK.CLOCK"}


def test_a_profile_without_a_number_gets_a_free_one(folder: Path):
    (folder / "rank_7_ascend_pt" / "profiler_info_7.json").unlink()
    job = open_job(folder)
    assert [profile.rank for profile in job.ranks] == list(range(8))
    assert [each.code for each in job.broken] == ["job.unnumbered"]
    assert ids(job)["RANK.SLOW"] == (4,)


def test_one_rank_alone_has_nothing_to_be_compared_with():
    job, _ = simulate("one slow rank", 8, 1)
    alone = job_of(Path("job"), job.ranks[:1])
    assert [each for each in job_findings(alone) if each.severity != "info"] == []
    assert alone.length == sum(step.total for step in alone.ranks[0].steps)


def test_nothing_recorded_is_no_finding():
    ranks = [RankProfile(rank, Path(), "companions") for rank in range(4)]
    assert [each.id for each in job_findings(Job(Path("job"), ranks))] == ["RANK.CLOCK"]


def test_folders_name_the_hosts_where_their_clocks_do_not_tell(folder: Path):
    """By their clocks all booted at one time; rank 2 had its clock set meanwhile, and rank 7 names no process."""
    for rank in range(8):
        own = folder / f"rank_{rank}_ascend_pt"
        info = own / f"profiler_info_{rank}.json"
        told = json.loads(info.read_text())
        told["end_info"]["collectionTimeEnd"] += 7_000_000 * (rank == 2)
        info.write_text(json.dumps(told))
        process = f"{'ab'[rank > 3]}_{4_000 + rank if rank < 7 else rank}"
        own.rename(folder / f"{process}_20260101000000000_ascend_pt")
    job = open_job(folder)
    assert [(host.id, host.ranks) for host in job.hosts] == [("a", (0, 1, 2, 3, 7)), ("b", (4, 5, 6))]
