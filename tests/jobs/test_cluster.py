"""A job from the output of a cluster analysis: what it tells, and what it cannot tell."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

import pytest
from written import reasons

from npu_tui.cli.main import main
from npu_tui.jobs.findings import job_findings
from npu_tui.jobs.job import Job
from npu_tui.jobs.kept import is_kept
from npu_tui.jobs.opening import open_job
from npu_tui.jobs.tables import RANKS
from npu_tui.output.job_report import job_report
from npu_tui.strings import say

_HEADER = "Step,Type,Index,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble"
_GROUP = "13337953553061386822"


@pytest.fixture
def real() -> Job:
    """The job of the public output, 16 ranks in two stages of a pipeline."""
    folder = os.environ.get("NPU_TUI_TRACES")
    if not folder:
        pytest.skip(reason="NPU_TUI_TRACES is not set: it names the folder of the real profiles")
    return open_job(Path(folder) / "cluster/cluster_analysis_output")


def _calls(late: int) -> dict[int, list[tuple[float, float]]]:
    """Start in us and length in ms of three collectives of four ranks; rank 2 comes ``late`` us late to each."""
    calls = {}
    for rank in range(4):
        after = late if rank == 2 else 0
        calls[rank] = [(1e15 + 20_000 * k + after, (10_000 - after) / 1e3) for k in range(3)]
    return calls


def _written(folder: Path, late: int = 3_000) -> Path:
    """The output of an analysis of text profiles."""
    folder.mkdir(parents=True)
    rows = [f"7,rank,{rank},{9000 + (late if rank == 2 else 0)},12000,0,12000,1000,22000,0" for rank in range(4)]
    (folder / "cluster_step_trace_time.csv").write_text("\n".join([_HEADER, *rows]) + "\n", encoding="utf-8")
    operations = {
        f"hcom_allReduce__822_{k}@{_GROUP}": {
            str(rank): {"Communication Time Info": {"Start Timestamp(us)": start, "Elapse Time(ms)": length}}
            for rank, rows_of in _calls(late).items()
            for start, length in [rows_of[k]]
        }
        for k in range(3)
    }
    total = {"0": {"Communication Time Info": {"Elapse Time(ms)": 1e6}}}
    document = {"(0, 1, 2, 3)": {"step7": {**operations, "Total Op Info": total}}}
    (folder / "cluster_communication.json").write_text(json.dumps(document), encoding="utf-8")
    link = {"Transport Type": "HCCS", "Transit Time(ms)": 1.0, "Transit Size(MB)": 32.0, "Bandwidth(GB/s)": 32.0}
    matrix = {f"hcom_allReduce__822_0@{_GROUP}": {"0-1": link, "1-0": link, "0-0": {**link, "Transport Type": "LOCAL"}}}
    (folder / "cluster_communication_matrix.json").write_text(
        json.dumps({"(0, 1, 2, 3)": {"step7": matrix}}), encoding="utf-8"
    )
    groups = [{"type": "collective", "rank_set": [3, 0, 1, 2], "group_name": _GROUP, "group_id": "a", "pg_name": "dp"}]
    (folder / "communication_group.json").write_text(json.dumps({"comm_group_parallel_info": groups}), encoding="utf-8")
    return folder


def _database(folder: Path, late: int = 3_000, newer: bool = True) -> Path:
    """The same as the analysis of databases writes it, with the names of newer or older tables."""
    folder.mkdir(parents=True)
    with sqlite3.connect(folder / "cluster_analysis.db") as database:
        database.execute(
            "CREATE TABLE ClusterStepTraceTime (step TEXT, type TEXT, [index] TEXT, computing NUMERIC, "
            "communication_not_overlapped NUMERIC, overlapped NUMERIC, communication NUMERIC, free NUMERIC)"
        )
        database.executemany(
            "INSERT INTO ClusterStepTraceTime VALUES ('7', 'rank', ?, ?, 12000, 0, 12000, 1000)",
            [(str(rank), 9000 + (late if rank == 2 else 0)) for rank in range(4)],
        )
        name, elapsed = (
            ("ClusterCommunicationTime", "elapsed_time") if newer else ("ClusterCommAnalyzerTime", "elapse_time")
        )
        database.execute(
            f"CREATE TABLE {name} (step TEXT, rank_id INTEGER, hccl_op_name TEXT, group_name TEXT, "
            f"start_timestamp NUMERIC, {elapsed} NUMERIC)"
        )
        database.executemany(
            f"INSERT INTO {name} VALUES ('step7', ?, ?, ?, ?, ?)",
            [
                (rank, f"hcom_allReduce__822_{k}@{_GROUP}", _GROUP, start, length)
                for rank, rows in _calls(late).items()
                for k, (start, length) in enumerate(rows)
            ],
        )
        database.execute("CREATE TABLE HostInfo (hostUid TEXT, hostName TEXT)")
        database.execute("INSERT INTO HostInfo VALUES ('42', 'node-1')")
        database.execute("CREATE TABLE RankDeviceMap (rankId INTEGER, deviceId INTEGER, hostUid TEXT)")
        database.executemany("INSERT INTO RankDeviceMap VALUES (?, ?, '42')", [(rank, rank) for rank in range(4)])
    database.close()
    return folder


def test_the_public_output_has_its_times_stages_and_links(real: Job):
    report = job_report(real)
    rows = {row.rank: row for row in report.rank_table}
    assert sorted(rows) == list(range(16))
    assert report.source.traces == 0
    assert rows[2].computing_us == pytest.approx(76_310.94)
    assert max(row.computing_us for row in report.rank_table) == rows[8].computing_us == pytest.approx(80_072.450)
    for ranks, computing, free in ((range(8), 75_514.589, 67_709.191), (range(8, 16), 79_885.012, 85_691.614)):
        assert sum(rows[rank].computing_us for rank in ranks) / 8 == pytest.approx(computing, abs=1e-3)
        assert sum(rows[rank].free_us for rank in ranks) / 8 == pytest.approx(free, abs=1e-3)
    steps = [rows[rank].step_us for rank in range(16)]
    assert (min(steps), max(steps)) == (pytest.approx(284_960, abs=0.2), pytest.approx(394_234.92, abs=0.2))
    assert [real.stage(rank) for rank in range(16)] == [0] * 8 + [1] * 8
    assert sum(step.bubble or 0 for rank in real.ranks[8:] for step in rank.steps) / 8e3 == pytest.approx(181_582.526)
    assert [(link.src, link.dst, link.transport, link.gb_s) for link in report.links if link.type == "send"] == [
        (0, 8, "RDMA", 24.278)
    ]
    assert report.collectives == []  # two ranks that send to others do not meet
    assert "ranks 8–15 wait 178.3 ms to 195.5 ms a step (47.6%) to receive" in report.verdict[0]
    assert any("no timeline" in reason or "which has none of them" in reason for reason in reasons(report))
    # It has no times, so that nothing could tie them: that is no finding, and no reason of a rank.
    assert not real.untied
    assert "RANK.CLOCK" not in {row.id for row in job_findings(real)}
    assert say("ranks.apart") not in RANKS.make(real).values("reasons")


@pytest.mark.parametrize("make", [_written, _database, lambda folder: _database(folder, newer=False)])
def test_a_late_rank_is_named_as_from_the_files_of_the_ranks(tmp_path: Path, make):
    job = open_job(make(tmp_path / "cluster_analysis_output"))
    report = job_report(job)
    assert [row.computing_us for row in report.rank_table] == [9000, 9000, 12000, 9000]
    assert [(row.last_rank, row.second_us) for row in report.collectives] == [(2, 3000.0)] * 3
    assert report.findings[0].id == "RANK.SLOW"
    assert report.findings[0].ranks == [2]


def test_an_even_job_blames_nobody(tmp_path: Path):
    report = job_report(open_job(_written(tmp_path / "cluster_analysis_output", late=0)))
    assert [finding.id for finding in report.findings] == []
    assert [group.kind for group in report.groups] == ["dp"]
    assert len(report.links) == 2


@pytest.mark.parametrize("slow", [0, 900])
def test_without_collectives_the_steps_tell_who_works_longest(tmp_path: Path, slow: int):
    folder = _written(tmp_path / "cluster_analysis_output")
    for file in folder.glob("*communication*"):
        file.unlink()
    works = [(rank, 9000 + 7 * rank + (slow if rank == 2 else 0)) for rank in range(5)]
    rows = [f"7,rank,{rank},{work},{14_000 - work},0,9000,1000,15000,0" for rank, work in works]
    (folder / "cluster_step_trace_time.csv").write_text("\n".join([_HEADER, *rows]) + "\n", encoding="utf-8")
    found = [(row.id, row.ranks, row.gain_us) for row in job_report(open_job(folder)).findings]
    assert [row for row in found if row[0] == "RANK.SLOW"] == ([("RANK.SLOW", [2], 886.0)] if slow else [])


def test_the_database_tells_the_hosts(tmp_path: Path):
    assert [(host.id, host.ranks) for host in open_job(_database(tmp_path / "a")).hosts] == [("node-1", (0, 1, 2, 3))]


def test_it_opens_by_the_folder_above_and_by_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = _written(tmp_path / "run" / "cluster_analysis_output")
    for path in (
        folder,
        folder.parent,
        tmp_path,
        folder / "cluster_step_trace_time.csv",
        folder / "cluster_communication.json",
    ):
        assert is_kept(path)
        assert main(["ranks", str(path)]) == 0
        assert "rank 2 is slow" in capsys.readouterr().out
    assert main(["query", str(folder), "select rank from ranks order by computing desc limit 1"]) == 0
    assert capsys.readouterr().out.split() == ["rank", "2"]
    assert main(["compare", str(folder), str(folder)]) == 0
    assert capsys.readouterr().out.startswith("SAME: ")


def test_profiles_beside_it_count_first(tmp_path: Path):
    _written(tmp_path / "cluster_analysis_output")
    tables = tmp_path / "host_1_20250101_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    tables.mkdir(parents=True)
    (tables / "step_trace_time.csv").write_text(_HEADER + "\n", encoding="utf-8")
    assert not is_kept(tmp_path)
    assert is_kept(tmp_path / "cluster_analysis_output")


def test_damage_is_told_and_the_rest_counts(tmp_path: Path):
    folder = _written(tmp_path / "cluster_analysis_output")
    file = folder / "cluster_communication.json"
    file.write_bytes(file.read_bytes()[:-150])
    report = job_report(open_job(folder))
    assert any("cluster_communication.json is cut off" in reason for reason in reasons(report))
    assert report.collectives
    file.write_text("[1, 2", encoding="utf-8")
    (folder / "cluster_communication_matrix.json").write_text('{"p2p": {"step7": [3]}}', encoding="utf-8")
    assert len(job_report(open_job(folder)).rank_table) == 4
    (folder / "cluster_step_trace_time.csv").write_text("nothing\n", encoding="utf-8")
    assert main(["ranks", str(folder)]) == 3
