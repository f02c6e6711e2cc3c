"""A run held against the last ones of a log."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from written import fields_of

from npu_tui.analysis import changes
from npu_tui.cli.main import main
from npu_tui.gate import checks as gate_checks
from npu_tui.gate.checks import log_checks
from npu_tui.jobs.history import Log, LoggedRun, OfKind, read_log
from npu_tui.jobs.kept import RUN
from tests.histories import history
from tests.jobs.test_history import FIXTURES, made, put

HOUR = "2026-11-{day:02}T{hour:02}:00:00+00:00"


def log_of(steps: list[float], **given: object) -> Log:
    """A log of training runs."""
    runs = [made(f"c{k}", step, HOUR.format(day=1 + k // 24, hour=k % 24), **given) for k, step in enumerate(steps)]
    return Log("log", runs, [], 0)


def statuses(log: Log, step: float, last: int = 10, **given: object) -> dict[str, str]:
    """How a run with ``step`` fares."""
    checks, _ = log_checks(log, made("new", step, **given), last, {}, None)
    return {check.id: check.status for check in checks}


LEVEL = [1000.0, 1004, 998, 1001, 997, 1003, 1000, 999, 1002, 996]


def test_longer_than_tolerance_and_noise_fails() -> None:
    log = log_of(LEVEL)
    assert statuses(log, 1002) == {"step": "pass", "computing": "pass"}
    assert statuses(log, 1029)["step"] == "pass"
    assert statuses(log, 1031) == {"step": "fail", "computing": "fail"}
    assert statuses(log, 900)["step"] == "pass"
    (step, _), notes = log_checks(log, made("new", 1031.0), 10, {}, None)
    assert (step.value_us, step.base_us, step.allowed_us, step.tolerance) == (
        1031.0,
        1000.0,
        1030.0,
        pytest.approx(0.03),
    )
    assert "10 runs since c0" in notes[0]


def test_noise_widens_what_is_allowed() -> None:
    noisy = [1000 + 10 * (step - 1000) for step in LEVEL]
    assert statuses(log_of(noisy), 1055)["step"] == "pass"
    assert statuses(log_of(noisy), 1075)["step"] == "fail"
    disturbed = [*LEVEL[:9], 1500.0]
    assert statuses(log_of(disturbed), 1040)["step"] == "fail"


def test_no_more_than_one_alarm_in_twenty() -> None:
    alarms = 0
    for seed in range(100):
        values = history([(11, 1.0)], "normal", 0.015, seed).tolist()
        checks, _ = log_checks(log_of(values[:10]), made("new", values[10]), 10, {"computing": 1.0}, None)
        alarms += checks[0].status == "fail"
    assert alarms <= 5


def test_only_the_level_since_the_last_change_counts() -> None:
    rng = np.random.default_rng(3)
    values = [*(1000 + rng.standard_normal(12)), *(1100 + rng.standard_normal(6))]
    assert statuses(log_of(values), 1101)["step"] == "pass"
    assert statuses(log_of(values), 1140)["step"] == "fail"
    back = [*values, *(1000 + rng.standard_normal(6))]
    assert statuses(log_of(back), 1101)["step"] == "fail"


def test_a_regression_that_was_logged_does_not_hide_itself() -> None:
    for logged in range(4):
        assert statuses(log_of([*LEVEL, *[1060.0 + k for k in range(logged)]]), 1061)["step"] == "fail"
    assert statuses(log_of([*LEVEL, *[1060.0 + k for k in range(4)]]), 1061)["step"] == "pass"


def test_a_long_log_is_held_against_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (changes, gate_checks):
        monkeypatch.setattr(module, "MOST", 30)
    rng = np.random.default_rng(4)
    values = [*(1000 + rng.standard_normal(40)), *(1100 + rng.standard_normal(12))]
    assert statuses(log_of(values), 1101)["step"] == "pass"
    assert statuses(log_of(values), 1140)["step"] == "fail"


def test_too_few_runs_like_it_are_not_measured() -> None:
    assert set(statuses(log_of(LEVEL[:3]), 1000).values()) == {"not_measured"}
    assert set(statuses(log_of(LEVEL, ranks=8), 1000).values()) == {"not_measured"}
    assert set(statuses(log_of(LEVEL, setup={"chip": "A"}), 1000, setup={"chip": "B"}).values()) == {"not_measured"}


def test_a_run_that_was_added_already_does_not_count() -> None:
    log = log_of(LEVEL[:4])
    checks, _ = log_checks(log, log.runs[3], 10, {}, None)
    assert {check.status for check in checks} == {"not_measured"}


def test_parts_by_their_tolerance_and_lost_time_that_is_unknown() -> None:
    run = made("new", 1000.0)
    checks, _ = log_checks(log_of(LEVEL), run, 10, {"free": 0.1, "wait": 0.2}, None)
    assert [check.id for check in checks] == ["step", "computing", "free"]
    checks, _ = log_checks(log_of(LEVEL), replace(run, lost_us=None), 10, {"lost": 0.1}, None)
    assert [check.status for check in checks if check.id == "lost"] == ["not_measured"]


def test_engine_steps_by_kind() -> None:
    def run(step: float, k: int) -> LoggedRun:
        kinds = [OfKind(kind="decode", steps=90, step_us=step), OfKind(kind="prefill", steps=2, step_us=9 * step)]
        return replace(made(f"c{k}", step), per="engine_step", step_us=None, kinds=kinds)

    log = Log("log", [run(step, k) for k, step in enumerate(LEVEL)], [], 0)
    checks, _ = log_checks(log, run(1100.0, 99), 10, {}, None)
    assert [(check.id, check.status) for check in checks] == [("decode:p50", "fail"), ("prefill:p50", "fail")]


def test_damage_is_not_measured(tmp_path: Path) -> None:
    for number, step in enumerate(LEVEL):
        put(tmp_path, made(f"c{number}", step), str(number))
    assert statuses(read_log(tmp_path), 1000)["step"] == "pass"
    (tmp_path / f"z{RUN}").write_bytes(b"{")
    log = read_log(tmp_path)
    assert set(statuses(log, 1000).values()) == {"not_measured"}
    checks, _ = log_checks(log, made("new", 1000.0), 10, {}, None, allowed_loss=0.1)
    assert checks[0].status == "pass"
    nothing = replace(made("new", 1000.0), step_us=None, computing_us=None)
    checks, _ = log_checks(log_of(LEVEL), nothing, 10, {}, None)
    assert [(check.id, check.status) for check in checks] == [("step", "not_measured"), ("computing", "not_measured")]


def check(*words: str) -> int:
    """What ``check`` of a fixture ends with."""
    return main(["check", str(FIXTURES / "kineto"), *words])


def test_check_against_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = ["--log", str(tmp_path / "log")]
    for words in (
        ["--against", "log:last-3", *folder],
        ["--against", "log:last", *folder],
        ["--against", "log:last-10", "--step", "1", *folder],
        ["--max-free", "90%", *folder],
    ):
        with pytest.raises(SystemExit):
            check(*words)
    assert check("--against", "log:last-10", *folder) == 3
    assert main(["log", "add", str(FIXTURES / "kineto"), "--label", "a", *folder]) == 0
    (run,) = read_log(tmp_path / "log").runs
    for number in range(3):
        put(tmp_path / "log", replace(run, id=f"{number}", when=f"2026-01-0{number + 1}T00:00:00Z"), f"{number}")
    assert check("--against", "log:last-10", *folder) == 1
    assert "3 runs comparable with this one" in capsys.readouterr().out
    put(tmp_path / "log", replace(run, id="3", when="2026-01-04T00:00:00Z"), "3")
    assert check("--against", "log:last-10", "--max-free", "90%", *folder) == 0
    capsys.readouterr()
    assert check("--against", "log:last-10", *folder, "--format", "json") == 0
    told = fields_of(capsys.readouterr().out)
    assert [(row["kind"], row["id"], row["status"]) for row in told["checks"]] == [
        ("log", "step", "pass"),
        ("log", "computing", "pass"),
    ]


def test_the_folder_of_a_log_is_known_for_what_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "runs"
    assert main(["log", "add", str(FIXTURES / "healthy"), "--label", "one", "--log", str(folder), "--no-cache"]) == 0
    capsys.readouterr()
    assert main(["log", "--log", str(folder)]) == 0
    said = capsys.readouterr().out
    assert main(["report", str(folder)]) == 0
    assert capsys.readouterr().out == said
    with pytest.raises(SystemExit):
        main(["report", str(folder), "--step", "1"])
    assert "no --range, --step" in capsys.readouterr().err
    assert main(["query", str(folder), "SELECT 1"]) != 0
    assert "is a log of runs, not a profile" in capsys.readouterr().err
