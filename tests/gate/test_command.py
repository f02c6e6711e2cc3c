from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from written import fields_of

from npu_tui.cli.main import main

SCRIPT = """
set -u
check() { "$PYTHON" -m npu_tui check "$@" >out.txt 2>err.txt; echo "$?"; }
check "$SAME" --max-free 99% --max-step 10s
check "$SAME" --max-free 1%
check broken.json --max-free 99%
check "$SAME"
"""


def test_exit_codes_in_a_shell_script(profiles, tmp_path):
    (tmp_path / "broken.json").write_text("this is no trace")
    environment = os.environ | {
        "PYTHON": sys.executable,
        "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
        "SAME": str(profiles["1"]),
    }
    done = subprocess.run(
        ["bash", "-c", SCRIPT], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["0", "1", "3", "2"]


def test_a_regression_of_six_percent_is_told(profiles, tmp_path, capsys):
    base = tmp_path / "base.json"
    assert main(["check", str(profiles["1"]), "--write-baseline", str(base)]) == 0
    assert json.loads(base.read_text())["schema_version"] == 2
    capsys.readouterr()
    assert main(["check", str(profiles["1.06"]), "--baseline", str(base), "--format", "json"]) == 1
    found = fields_of(capsys.readouterr().out)
    changes = {each["id"]: each["change_ratio"] for each in found["checks"]}
    assert changes["step_p99"] == pytest.approx(0.06, abs=0.001)
    assert changes["computing"] == pytest.approx(0.06, abs=0.001)
    assert not found["passed"]
    assert main(["check", str(profiles["1.04"]), "--baseline", str(base)]) == 0
    assert main(["check", str(profiles["1.06"]), "--baseline", str(base), "--tolerance", "10%"]) == 0
    base.write_text("this is no baseline")
    assert main(["check", str(profiles["1"]), "--baseline", str(base)]) == 3


def test_a_failing_check_keeps_the_baseline(profiles, tmp_path, capsys):
    base = tmp_path / "base.json"
    assert main(["check", str(profiles["1"]), "--max-free", "0%", "--write-baseline", str(base)]) == 1
    assert not base.exists()
    assert "was not changed" in " ".join(capsys.readouterr().out.split())


def test_a_range_is_gated_alone(profiles, capsys):
    words = ["check", str(profiles["1"]), "--format", "json", "--max-lost", "99s"]
    assert main(words) == 0
    whole = fields_of(capsys.readouterr().out)["checks"][0]["value_us"]
    assert main([*words, "--range", "2ms..4ms"]) == 0
    assert fields_of(capsys.readouterr().out)["checks"][0]["value_us"] < whole


def test_a_baseline_that_cannot_be_written_is_one_line(profiles, tmp_path, capsys):
    assert main(["check", str(profiles["1"]), "--write-baseline", str(tmp_path / "no" / "b.json")]) == 3
    said = capsys.readouterr()
    assert said.err.count("\n") == 1
    assert "No such file" in said.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "nothing to check"),
        (["--max-free", "10"], "not 10"),
        (["--max-step", "10%"], "needs a time"),
        (["--only", "OP.SMALL"], "--fail-on"),
        (["--tolerance", "5%", "--max-free", "9%"], "--baseline"),
        (["--baseline", "b", "--tolerance", "5"], "needs a share"),
        (["--baseline", "b", "--tolerance", "fre=5%"], "did you mean free?"),
        (["--fail-on", "huge"], "huge"),
        (["--max-fre", "5%"], "--max-fre"),
        (["--range", "later", "--max-free", "9%"], "range"),
    ],
)
def test_wrong_usage(words, said, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["check", "nowhere.json", *words])
    assert ended.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err


STARVED = Path(__file__).resolve().parents[2] / "fixtures" / "dispatch_bound"


def test_findings_of_a_profile(capsys):
    words = ["check", str(STARVED), "--fail-on", "high", "--format", "json"]
    assert main(words) == 1
    failed = {each["id"] for each in fields_of(capsys.readouterr().out)["checks"] if each["fails"]}
    assert "DISPATCH.VERTICAL" in failed
    assert main([*words, "--only", "COMM.STRAGGLER", "--allow-unmeasured"]) == 0
    assert main([*words, "--ignore", ",".join(failed)]) == 0


def test_thresholds_of_the_settings_count(tmp_path, capsys):
    file = tmp_path / "settings.toml"
    words = ["check", str(STARVED), "--fail-on", "medium", "--only", "DISPATCH.FREE", "--config", str(file)]
    file.write_text("[thresholds]\nfree_share = 0.80\n")
    assert main(words) == 1
    file.write_text("[thresholds]\nfree_share = 0.95\n")
    assert main(words) == 0
    file.write_text("[thresholds]\nfree_shar = 0.95\n")
    capsys.readouterr()
    assert main(words) == 2
    assert capsys.readouterr().err.endswith(":2: there is no threshold free_shar; did you mean free_share?\n")


@pytest.mark.parametrize("form", ["text", "markdown", "html", "json"])
def test_a_report_with_wrong_settings_is_refused(tmp_path, capsys, form):
    file = tmp_path / "settings.toml"
    file.write_text("[screen]\nglyphs = 'block'\n")
    assert main(["report", "nowhere.json", "--format", form, "--config", str(file)]) == 2
    assert "did you mean blocks?" in capsys.readouterr().err


def test_a_misspelt_finding_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["check", "nowhere.json", "--fail-on", "high", "--only", "DISPTCH.FREE"])
    assert "did you mean DISPATCH.FREE?" in capsys.readouterr().err


def test_a_pipe_is_held_against_limits_as_the_file_is(capsys):
    trace = next((Path(__file__).resolve().parents[2] / "fixtures" / "healthy").rglob("trace_view.json"))
    words = ["--max-free", "99%", "--fail-on", "low", "--range", "1ms..30ms", "--format", "json"]
    direct = main(["check", str(trace), *words])
    answer = capsys.readouterr().out
    with trace.open("rb") as stdin:
        done = subprocess.run([sys.executable, "-m", "npu_tui", "check", "-", *words], stdin=stdin, capture_output=True)
    assert (done.returncode, done.stderr) == (direct, b"")
    assert done.stdout.decode() == answer.replace(str(trace), "-")


def test_a_trace_that_is_cut_off_does_not_pass(tmp_path, capsys):
    whole = Path("fixtures/healthy/ASCEND_PROFILER_OUTPUT/trace_view.json").read_bytes()
    cut = tmp_path / "trace_view.json"
    cut.write_bytes(whole[: len(whole) // 2])
    assert main(["check", str(cut), "--max-step", "10s"]) == 1
    assert "NOT MEASURED  trace: the file is cut off" in capsys.readouterr().out
    assert main(["check", str(cut), "--max-step", "10s", "--allow-unmeasured"]) == 0
