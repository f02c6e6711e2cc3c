"""The history of a run in every format, and the commands that keep it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
from msgspec.structs import replace
from written import fields_of

from npu_tui.cli.main import main
from npu_tui.jobs.history import Log, LoggedRun, OfKind, read_log
from npu_tui.output.envelope import report_schema
from npu_tui.output.log_report import log_document, log_report
from npu_tui.output.text import text
from npu_tui.strings import speaking
from tests.histories import history
from tests.jobs.test_history import FIXTURES, made, put

LEVELS = [(12, 1.0), (8, 1.03)]


def runs_of(levels: list[tuple[int, float]] = LEVELS, drift: float = 0.0, changed: int = 12) -> list[LoggedRun]:
    """Runs whose free time grows, the version of CANN being another one from run ``changed`` on."""
    steps = history(levels, "normal", 0.004, 1, drift).tolist()
    return [
        made(
            f"c{k}",
            step,
            f"2026-11-{1 + k:02}T12:00:00+00:00",
            setup={"cann_version": "8.3" if k >= changed else "8.2"},
            computing_us=90_000.0,
            exposed_us=7_000.0,
            free_us=step - 97_000,
            lost_us=None,
        )
        for k, step in enumerate(steps)
    ]


def put_all(folder: Path, runs: list[LoggedRun]) -> list[str]:
    """The words that name a log of ``runs``."""
    for number, run in enumerate(runs):
        put(folder, run, str(number))
    return ["--log", str(folder)]


def test_a_change_with_its_place_size_and_parts() -> None:
    report = log_report(Log("log", runs_of(), [], 0))
    (change,), (series,) = report.changes, report.series
    assert (change.after, change.before, change.after_run, change.before_run) == ("c11", "c12", 11, 12)
    assert change.first_after_run <= 11
    assert change.last_before_run >= 12
    assert change.low_us < 4110 < change.high_us
    assert change.delta_ratio == pytest.approx(0.03, abs=0.005)
    assert change.parts["computing_us"] == 0.0
    assert change.parts["free_us"] == pytest.approx(change.delta_us, rel=0.2)
    assert "lost_us" not in change.parts
    assert [(row.key, row.base, row.new) for row in change.setup] == [("cann_version", "8.2", "8.3")]
    assert (series.first, series.undecided, len(series.runs)) == (12, 0, 20)
    assert series.noise_ratio == pytest.approx(0.004, rel=0.6)
    assert re.fullmatch(r"The step got slower by 4\.\d+ ms \(\+\d\.\d%\) between c11 and c12\.", report.verdict[0])
    assert report.verdict[3] == "cann_version changed there: 8.2 → 8.3."


def test_a_change_lies_between_two_commits_not_within_one() -> None:
    old, new = [1000.0, 1006, 994, 1001, 1008, 996, 1003, 998, 1004, 995, 1002], [1040.0, 1046, 1034, 1041, 1048, 1036]
    for begin in (11, 12):  # the run in the middle may be of either level
        steps = [*old, 1020.0, *new]
        runs = [made("new" if k >= begin else "old", step, id=str(k)) for k, step in enumerate(steps)]
        (change,) = log_report(Log("log", runs, [], 0)).changes
        assert (change.after, change.before, change.before_run) == ("old", "new", begin)


def test_runs_of_one_commit_part_where_their_levels_do() -> None:
    """The last run of the old level is of the new commit, perhaps of another build: its own level counts."""
    steps = [1590.1, 1592.4, 1591.0, 1593.2, 1589.9, 1592.0, 1591.7, 1290.2, 1288.7, 1291.1, 1289.4, 1290.9]
    runs = [made("new" if k >= 6 else "old", step, id=str(k), computing_us=step - 500) for k, step in enumerate(steps)]
    report = log_report(Log("log", runs, [], 0))
    (change,) = report.changes
    assert (change.after_run, change.before_run) == (6, 7)
    assert (change.first_after_run, change.last_before_run) == (6, 7)
    assert change.parts["computing_us"] == pytest.approx(change.delta_us, abs=5)


def test_growth_from_some_run_on() -> None:
    runs = [made(f"c{k}", 1000.0 + 20 * max(k - 9, 0), id=str(k)) for k in range(20)]
    report = log_report(Log("log", runs, [], 0))
    (series,) = report.series
    assert (series.drift_first, series.drift_last) == (9, 19)
    assert series.drift_us == pytest.approx(20)
    assert "from c9 to c19" in report.verdict[0]


def test_drift_few_runs_and_the_last_ones() -> None:
    (drift,) = log_report(Log("log", runs_of([(25, 1.0)], 0.08), [], 0)).verdict
    assert drift.startswith("The step drifts by +")
    (few,) = log_report(Log("log", runs_of()[:5], [], 0)).verdict
    assert few == "The step: 5 runs are too few to tell whether it changed; four are needed on either side (3 more)."
    last = log_report(Log("log", runs_of([(12, 1.0), (2, 1.1)]), [], 0))
    assert last.verdict[0] == "The step has not changed in 12 runs."
    assert re.fullmatch(r"The last 2 runs differ from this level by \+\d+\.\d%: 2 more will tell .*", last.verdict[2])
    assert last.series[0].off_us == pytest.approx(13_700, rel=0.1)


def test_runs_that_were_recorded_in_another_way_are_a_series_of_their_own() -> None:
    other = [replace(run, ranks=8) for run in runs_of([(9, 2.0)])]
    report = log_report(Log("log", other + runs_of(), [], 0))
    assert [(series.ranks, len(series.runs)) for series in report.series] == [(1, 20), (8, 9)]
    assert report.verdict[0].startswith("1 rank, level 1: The step got slower")


def test_engine_steps_are_judged_by_kind() -> None:
    runs = [
        replace(
            run,
            per="engine_step",
            step_us=None,
            kinds=[OfKind(kind="decode", step_us=run.step_us), OfKind(kind="prefill", step_us=5e5)],
        )
        for run in runs_of()
    ]
    report = log_report(Log("log", runs, [], 0))
    assert [(change.kind, change.before) for change in report.changes] == [("decode", "c12")]
    assert report.runs[0].step_us is None
    assert [times.kind for times in report.runs[0].kinds] == ["decode", "prefill"]
    assert "The decode step got slower by" in report.verdict[0]
    assert "The prefill step has not changed in 20 runs." in report.verdict


def test_every_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = put_all(tmp_path, runs_of())
    assert main(["log", *words]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines()[2:-1])) <= 80
    assert re.search(r"^  c12 +\+3\.\d% +14\d\.\d ms .*[.*]{8}$", shown, re.MULTILINE)
    assert "\nRuns from 2026-11-01 to 2026-11-20 (1 rank, level 1)\n" in shown
    assert main(["log", "show", *words, "--format", "json"]) == 0
    shown = capsys.readouterr().out
    jsonschema.validate(json.loads(shown), report_schema("log"))
    told = fields_of(shown)
    fields = {"label", "when", "step_us", "computing_us", "exposed_us", "free_us", "lost_us"}
    assert fields <= set(told["runs"][0])
    assert {"after", "before", "delta_us", "low_us", "high_us"} <= set(told["changes"][0])
    page = tmp_path / "page.html"
    assert main(["--lang", "zh", "log", *words, "-o", str(page)]) == 0
    content = page.read_text(encoding="utf-8")
    assert "<svg" in content
    assert "变慢" in content
    assert main(["log", *words, "--format", "markdown"]) == 0
    assert "| `c12` |" in capsys.readouterr().out


def test_a_long_log_shows_its_last_runs() -> None:
    runs = [replace(made(f"c{k}", 1000.0 + k % 7), id=str(k)) for k in range(60)]
    shown = text(log_document(log_report(Log("log", runs, [], 0))), 40)
    assert [name in shown for name in ("c19 ", "c20 ", "c59 ")] == [False, True, True]
    assert "20 earlier runs" in shown


def test_adding_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "deep" / "log"
    words = ["--log", str(log)]
    assert main(["log", *words]) == 3
    assert "npu-tui log add PATH --label COMMIT" in capsys.readouterr().err
    add = ["log", "add", str(FIXTURES / "kineto"), *words]
    assert main([*add, "--label", "b"]) == 0
    assert main([*add, "--label", "a", "--when", "2026-01-01T00:00Z"]) == 0
    assert "the log already has this profile as b: a copy" in capsys.readouterr().err
    assert main([*add, "--label", "b"]) == 0
    assert main(["log", "add", str(FIXTURES / "two_ranks"), *words, "--label", "job"]) == 0
    assert [(run.label, run.ranks) for run in read_log(log).runs] == [("a", 1), ("b", 1), ("job", 2)]
    for wrong in (add, [*add, "--label", "x", "--when", "soon"], [*add, "--label", "x", "--format", "json"]):
        with pytest.raises(SystemExit):
            main(wrong)
    with pytest.raises(SystemExit):
        main(["log", *words, "--label", "x"])


def test_a_damaged_profile_is_not_added(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = (FIXTURES / "healthy" / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_bytes()
    (tmp_path / "trace_view.json").write_bytes(whole[: len(whole) // 2])
    words = ["log", "add", str(tmp_path / "trace_view.json"), "--label", "x", "--log", str(tmp_path / "log")]
    assert main(words) == 1
    assert "not added" in capsys.readouterr().err
    assert not (tmp_path / "log").exists()
    assert main([*words, "--allow-damage", "100%"]) == 0


def test_what_is_no_run_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = put_all(tmp_path, runs_of()[:2])
    (tmp_path / "x.run.json").write_bytes(b"{}")
    (tmp_path / "notes.txt").write_bytes(b"")
    with speaking("en"):
        assert main(["log", *words]) == 0
    shown = capsys.readouterr().out
    assert "- x.run.json: not a run of a log (" in shown
    assert "- 1 other file in the folder" in shown
