"""The files of a log, and what a profile says for one."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from statistics import median

import msgspec
import pytest

from npu_tui.jobs.history import LoggedRun, OfKind, file_name, read_log, run_of, run_of_job
from npu_tui.jobs.kept import RUN
from npu_tui.jobs.opening import open_job
from npu_tui.load.errors import InputError
from npu_tui.load.find import find_source
from npu_tui.load.load import load
from npu_tui.output.report import report
from npu_tui.profile.profile import Profile

FIXTURES = Path(__file__).parents[2] / "fixtures"


def made(label: str, step: float, when: str = "2026-11-25T10:00:00+00:00", **given: object) -> LoggedRun:
    """A run of training."""
    times = {
        "steps": 5,
        "step_us": step,
        "computing_us": step / 2,
        "exposed_us": 0.0,
        "free_us": step / 2,
        "lost_us": 1.0,
    }
    fields = {"id": f"{label}{step}{when}", "path": "x", "per": "step", "ranks": 1, "level": 1, "setup": {}}
    return LoggedRun(label=label, when=when, **times | fields | given)  # type: ignore[arg-type]


def put(folder: Path, run: LoggedRun, token: str = "0") -> Path:
    """The file of ``run`` in ``folder``."""
    folder.mkdir(exist_ok=True)
    file = folder / file_name(run, token)
    file.write_bytes(msgspec.json.encode(run))
    return file


def opened(name: str) -> Profile:
    """The profile of a fixture."""
    source = find_source(FIXTURES / name)
    return Profile(load(source), source)


def test_times_are_medians_of_the_report() -> None:
    profile = opened("dispatch_bound")
    found, run = report(profile), run_of(profile, "a1", "2026-11-25T10:00:00+00:00")
    assert found.step_times is not None
    assert (run.per, run.ranks, run.level) == ("step", 1, 1)
    assert run.step_us == found.step_times.p50_us
    assert run.computing_us == sorted(row.computing_us for row in found.steps)[1]
    assert run.free_us == sorted(row.free_us for row in found.steps)[1]
    assert run.lost_us is not None
    assert run.free_us is not None
    assert run.lost_us == pytest.approx(run.free_us, rel=0.1)
    assert run_of(profile, "a1", "x", linked=False).lost_us is None


def test_without_steps_the_run_is_one() -> None:
    run = run_of(opened("mindspore"), "a1", "2026-11-25T10:00:00+00:00")
    overlap = report(opened("mindspore")).overlap
    assert run.per == "run"
    assert run.step_us == overlap.total_us
    assert run.exposed_us == overlap.communication_not_overlapped_us


def test_a_job_is_the_median_of_its_ranks() -> None:
    job = open_job(FIXTURES / "two_ranks")
    run = run_of_job(job, "a1", "2026-11-25T10:00:00+00:00")
    by_rank = [sorted(step.total / 1000 for step in profile.steps) for profile in job.ranks]
    assert run.ranks == 2
    assert run.step_us == pytest.approx(sum(sum(steps[:2]) / 2 for steps in by_rank) / 2)
    assert run.lost_us is None


def test_roles_of_a_job_are_apart(tmp_path: Path) -> None:
    from made_roles import colocated
    from roles import write_roles

    write_roles(tmp_path / "job", colocated(lambda step, rank: 0.0, world=2))
    job = open_job(tmp_path / "job")
    run = run_of_job(job, "a1", "2026-11-25T10:00:00+00:00")
    assert run.step_us is None
    assert run.steps_of == list(dict.fromkeys(profile.role for profile in job.ranks))
    assert len(run.steps_of) > 1
    for kind in run.steps_of:
        ranks = [profile for profile in job.ranks if profile.role == kind]
        assert run.time(kind) == pytest.approx(median(median(s.total for s in rank.steps) for rank in ranks) / 1000)


def test_versions_of_a_job_are_those_of_its_first_rank(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "two_ranks", tmp_path / "job")
    for file in (tmp_path / "job").rglob("profiler_info*.json"):
        file.write_text(file.read_text().replace("{", '{"cann_version": "8.3.RC1",', 1))
    run = run_of_job(open_job(tmp_path / "job"), "a1", "2026-11-25T10:00:00+00:00")
    assert run.setup == {"cann_version": "8.3.RC1"}


def test_runs_are_in_the_order_of_their_time(tmp_path: Path) -> None:
    put(tmp_path, made("late", 3.0, "2026-11-25T12:00:00+00:00"))
    put(tmp_path, made("early", 1.0, "2026-11-25T10:00:00+00:00"))
    put(tmp_path, made("between", 2.0, "2026-11-25T13:00:00+02:00"))
    assert [run.label for run in read_log(tmp_path).runs] == ["early", "between", "late"]


DAMAGED = {
    "empty": b"",
    "half": b'{"format":"npu-tui run","schema_version":1,"id":"1","label":"x"',
    "other": b'{"format":"another"}',
    "list": b"[1, 2]",
    "deep": b"[" * 50_000,
    "nan": b"NaN",
    "newer": msgspec.json.encode(made("x", 1.0)).replace(b'"schema_version":1', b'"schema_version":2'),
    "negative": msgspec.json.encode(made("x", -1.0)),
    "below a ns": msgspec.json.encode(made("x", 1e-300)),
    "steps": msgspec.json.encode(made("x", 1.0, steps=-1)),
    "huge": msgspec.json.encode(made("x", 1e300)),
    "text": msgspec.json.encode(made("x", 1.0)).replace(b'"step_us":1.0', b'"step_us":"fast"'),
    "when": msgspec.json.encode(made("x", 1.0, "yesterday")),
    "no zone": msgspec.json.encode(made("x", 1.0, "2026-11-25T10:00:00")),
    "old": msgspec.json.encode(made("x", 1.0, "0001-01-01T00:00:00+14:00")),
    "kinds": msgspec.json.encode(made("x", 1.0, kinds=[OfKind(kind=str(k)) for k in range(65)])),
    "large": b" " * (1 << 17),
    "bytes": bytes(range(256)),
}


def test_damaged_and_foreign_files_are_counted_and_lose_nothing_else(tmp_path: Path) -> None:
    put(tmp_path, made("good", 1.0))
    for name, content in DAMAGED.items():
        (tmp_path / f"{name}{RUN}").write_bytes(content)
    (tmp_path / f"link{RUN}").symlink_to("/dev/zero")
    (tmp_path / f"folder{RUN}").mkdir()
    (tmp_path / "README.md").write_text("ours")
    (tmp_path / ".hidden.part").write_text("half a run")
    log = read_log(tmp_path)
    assert [run.label for run in log.runs] == ["good"]
    assert log.damaged == len(DAMAGED) + 2
    named = [problem for problem in log.problems if problem.code == "log.damaged"]
    assert len(named) == log.damaged
    assert [problem.args["count"] for problem in log.problems if problem.code == "log.foreign"] == [1]


def test_a_copied_file_is_one_run(tmp_path: Path) -> None:
    file = put(tmp_path, made("a", 1.0))
    (tmp_path / f"a (1){RUN}").write_bytes(file.read_bytes())
    log = read_log(tmp_path)
    assert len(log.runs) == 1
    assert [problem.code for problem in log.problems] == ["log.copies"]


def test_a_run_that_two_add_at_a_time_counts_once(tmp_path: Path) -> None:
    for token, second in (("1", "00"), ("2", "01")):
        put(tmp_path / "log", made("a", 5.0, when=f"2026-11-25T10:00:{second}+00:00", id="1"), token)
    assert len(read_log(tmp_path / "log").runs) == 1


def test_labels_are_harmless(tmp_path: Path) -> None:
    bad = "\x1b[31m"
    run = made(f"{bad}../../etc/x \u202e", 1.0, path=bad, setup={bad: bad}, kinds=[OfKind(kind=bad)])
    file = put(tmp_path, run)
    assert file.parent == tmp_path
    assert file.name == f"20261125100000-31m..-..-etc-x-0{RUN}"
    assert b"\\u001b" in file.read_bytes()
    assert b"\\u001b" not in msgspec.json.encode(read_log(tmp_path).runs[0])


def test_two_writers_lose_nothing(tmp_path: Path) -> None:
    from npu_tui.cli.main import main

    def add(name: str) -> None:
        for number in range(3):
            words = [
                "log",
                "add",
                str(FIXTURES / "kineto"),
                "--label",
                f"{name}{number}",
                "--log",
                str(tmp_path / "log"),
            ]
            assert main(words) == 0

    threads = [threading.Thread(target=add, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {run.label for run in read_log(tmp_path / "log").runs} == {f"{n}{k}" for n in "ab" for k in range(3)}


def test_there_must_be_a_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        read_log(tmp_path / "nothing")
