"""Folders of roles: every rank of every role is there, whatever the layout, and none is taken for another."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest
from made_roles import colocated
from roles import Layout, Work, write_roles
from written import fields_of, reasons

from npu_tui.cli.main import main
from npu_tui.jobs.opening import open_job
from npu_tui.load.roles import RolePlaces, holds_roles, role_names
from npu_tui.nearby import holds_several, nearby
from npu_tui.output.job_report import JobReport, job_report

ROLES = {"rollout_generate", "actor_compute_log_prob", "ref_compute_log_prob", "actor_update"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two ranks in four roles over two steps."""
    folder = tmp_path_factory.mktemp("made") / "profile"
    write_roles(folder, colocated(lambda step, rank: 0.0, world=2))
    return folder


def pairs(report: JobReport) -> set[tuple[str | None, int]]:
    return {(row.role, row.rank) for row in report.rank_table}


@pytest.mark.parametrize("layout", ["steps", "roles", "metadata"])
def test_every_rank_of_every_role_is_there(layout: Layout, tmp_path: Path):
    steps = 1 if layout == "metadata" else 2
    write_roles(tmp_path / "p", colocated(lambda step, rank: 0.0, world=2, steps=steps), layout)
    assert not holds_several(tmp_path / "p")
    report = job_report(open_job(tmp_path / "p"))
    assert pairs(report) == {(role, rank) for role in ROLES for rank in (0, 1)}
    assert len(report.rank_table) == 8
    assert report.source.traces == 8 * steps
    assert not report.findings


def test_steps_without_folders_survive_a_bad_profile(tmp_path: Path):
    write_roles(tmp_path, colocated(lambda step, rank: 0.0, world=3, steps=3), "roles")
    bad = sorted((tmp_path / "actor_update").iterdir())[4]
    (bad / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").write_text("no trace")
    report = job_report(open_job(tmp_path))
    assert report.steps == ["1", "2", "3"]
    assert [str(bad) in line for line in reasons(report)].count(True) == 1
    assert len(report.stints) == 3 * 4 * 3 - 1


def test_ranks_of_one_number_meet_in_their_role_only(made: Path):
    report = job_report(open_job(made))
    assert {row.role for row in report.collectives} == {"actor_update"}
    assert [(row.step, row.ordinal) for row in report.collectives] == [(s, k) for s in "12" for k in range(3)]
    assert report.steps == ["1", "2"]


def test_a_role_may_have_other_ranks_than_another(tmp_path: Path):
    work = [Work(1, "rollout_generate", rank, 0, 10**10, rank) for rank in range(4)]
    work += [Work(1, "actor_update", rank, 11 * 10**9, 20 * 10**9, 9 + rank) for rank in range(2)]
    write_roles(tmp_path, work)
    report = job_report(open_job(tmp_path))
    assert pairs(report) == {("rollout_generate", rank) for rank in range(4)} | {
        ("actor_update", 0),
        ("actor_update", 1),
    }


def test_replicas_count_their_ranks_from_0(tmp_path: Path):
    work = [
        Work(1, f"agent_loop_rollout_replica_{replica}", rank, 0, 10**9, 2 * replica + rank)
        for replica in range(3)
        for rank in range(2)
    ]
    write_roles(tmp_path, work, "roles")
    assert len(pairs(job_report(open_job(tmp_path)))) == 6


def test_a_bad_rank_and_an_empty_role_are_lines(made: Path, tmp_path: Path):
    shutil.copytree(made, tmp_path / "p")
    bad = next((tmp_path / "p" / "1" / "actor_update").iterdir())
    (bad / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").write_text("no trace")
    for profile in (tmp_path / "p" / "2" / "ref_compute_log_prob").iterdir():
        shutil.rmtree(profile)
    report = job_report(open_job(tmp_path / "p"))
    assert len(report.rank_table) == 8  # the rank has another step, the role another one
    assert sum(str(bad) in line for line in reasons(report)) == 1
    assert sum("ref_compute_log_prob: no profile is in it" in line for line in reasons(report)) == 1


def test_summaries_of_roles_are_the_job(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["summarize", str(made), "-o", str(tmp_path / "kept"), "--traces"]) == 0
    capsys.readouterr()
    found = []
    for path in (made, tmp_path / "kept"):
        assert main(["ranks", str(path), "--traces", "--format", "json"]) == 0
        found.append(fields_of(capsys.readouterr().out))
        found[-1]["source"].pop("path")
    assert found[0] == found[1]


def test_sql_tells_the_role(made: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["query", str(made), "select role, count(*) n from ranks group by role order by role"]) == 0
    assert "actor_update,2" in capsys.readouterr().out
    assert main(["query", str(made), "select role, count(*) n from kernels group by role order by role"]) == 0
    assert "actor_update,96" in capsys.readouterr().out


def test_raw_profiles_hosts_of_engines_and_roles_without_times_are_lines(made: Path, tmp_path: Path):
    shutil.copytree(made / "1", tmp_path / "p")
    for profile in (tmp_path / "p" / "rollout_generate").iterdir():
        shutil.rmtree(profile / "ASCEND_PROFILER_OUTPUT")
        (profile / "FRAMEWORK").mkdir()
    for profile in (tmp_path / "p" / "ref_compute_log_prob").iterdir():
        output = profile / "ASCEND_PROFILER_OUTPUT"
        (output / "trace_view.json").unlink()
        (output / "step_trace_time.csv").write_text("Device_id,Step,Computing,Free\n0,,7200000,800000\n")
    engine = tmp_path / "p" / "actor_update" / "engine_ascend_pt"
    engine.mkdir()
    (engine / "node_async_llm.17.pt.trace.json").write_text("[]")
    report = job_report(open_job(tmp_path / "p"))
    text = "\n".join(reasons(report))
    assert "2 raw profiles" in text
    assert "no profile is in it" not in text
    assert "async_llm), not a rank" in text
    assert "ref_compute_log_prob: working times are unknown" in text
    assert len(report.rank_table) == 6
    assert [row.role for row in report.roles] == ["actor_compute_log_prob", "actor_update"]


def test_traces_of_pytorch_as_verl_names_them(tmp_path: Path):
    for role in ("actor_update", "actor_compute_log_prob"):
        (tmp_path / role).mkdir()
        for rank in (0, 1):
            kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 5.0, "dur": 9e5}
            document = {"distributedInfo": {"rank": rank, "world_size": 2}, "deviceProperties": [{"id": 0}],
                        "baseTimeNanoseconds": 10**18, "traceEvents": [kernel]}  # fmt: skip
            with gzip.open(tmp_path / role / f"prof_rank-{rank}_031847.json.gz", "wt") as file:
                json.dump(document, file)
    report = job_report(open_job(tmp_path))
    assert pairs(report) == {(role, rank) for role in ("actor_update", "actor_compute_log_prob") for rank in (0, 1)}
    assert [row.works_us for row in report.roles] == [9e5, 9e5]


def test_a_gate_and_a_step_of_roles(made: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["check", str(made), "--max-rank-wait", "50%"]) == 0
    assert "actor_update" in capsys.readouterr().out
    assert main(["ranks", str(made), "--step", "2", "--format", "json"]) == 0
    found = fields_of(capsys.readouterr().out)
    assert {row["step"] for row in found["role_steps"]} == {row["step"] for row in found["heat"]} == {"2"}


def test_folders_of_other_things_are_no_roles(made: Path, tmp_path: Path):
    assert role_names(["ref", "new"]) == set()
    assert role_names(["actor", "ref", "judge", "3"]) == {"actor", "ref", "judge"}
    assert RolePlaces().of(Path("/a/ref/x_ascend_pt")).role == ""
    shutil.copytree(made, tmp_path / "jobs" / "one")
    shutil.copytree(made, tmp_path / "jobs" / "two")
    assert holds_several(tmp_path / "jobs")
    assert holds_roles(tmp_path / "jobs" / "one")
    jobs = [entry for entry in nearby(tmp_path / "jobs") if entry.is_job]
    assert {entry.name: (entry.path, len(entry.ranks)) for entry in jobs} == {
        "one/": (tmp_path / "jobs" / "one", 16),
        "two/": (tmp_path / "jobs" / "two", 16),
    }
