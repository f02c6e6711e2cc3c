"""``npu-tui record`` as a command: its lines, what follows the recording, its exit codes, how it is interrupted."""

from __future__ import annotations

import json
import os
import random
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from npu_tui.cli.main import main
from npu_tui.record import RecordClock
from tests.record.live import FASTER, LIVE_JOB, FastClock, live_job

HEALTHY = Path(__file__).resolve().parents[2] / "fixtures" / "healthy"


def test_a_recording_is_reported_and_compared_with_the_one_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with live_job(tmp_path):
        assert main(["record", str(tmp_path), "--steps", "3", "--report"]) == 0
    first = capsys.readouterr()
    assert "recording: 3 steps" in first.err
    assert "complete: 1 profile" in first.err
    assert "DISPATCH" in first.out
    with live_job(tmp_path, "--profile", str(HEALTHY)):
        assert main(["record", str(tmp_path), "--check", "--max-free", "50%"]) in (0, 1)
        capsys.readouterr()
        assert main(["record", str(tmp_path), "--report"]) == 0
    said = capsys.readouterr().out
    assert "\nbase " in said
    assert "\nnew " in said
    assert len(list((tmp_path / "profiles").iterdir())) == 3


ENDS = {
    "deaf": "the job has not read",
    "still": "no step has begun in",
    "unstarted": "the job ended before the recording was complete",
    "recording": "the job ended before the recording was complete",
    "unwritten": "nothing was written in",
    "raw": "its recording was broken off (1 of 1 profile)",
    "unanalysed": "missing on this machine; run there where the job runs: ",
    "exporting": "its analysis has written nothing for",
    "joining": "its analysis has written nothing for",
    "cut": "its analysis has written nothing for",
    "failed": "its analysis ended without a trace",
    "unsaid": "",
}


def test_every_point_at_which_a_job_can_end_is_tried() -> None:
    points = runpy.run_path(str(LIVE_JOB))["POINTS"]
    assert set(points) == set(ENDS)


@pytest.mark.parametrize("point", ENDS)
def test_a_job_that_ends_at_any_point_is_told_in_one_sentence_with_its_exit_code(
    point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(RecordClock, "now", FastClock.now)
    waits = RecordClock.wait
    monkeypatch.setattr(RecordClock, "wait", lambda clock, seconds: waits(clock, seconds / FASTER))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # no msprof
    wait = "150" if ENDS[point].endswith((" in", " for", "has not read")) else "2000"
    with live_job(tmp_path, "--ends", point):
        code = main(["record", str(tmp_path), "--wait", wait, "--python", sys.executable, "--report"])
    said = capsys.readouterr()
    last = said.err.splitlines()[-1]
    if ENDS[point]:
        assert code == 3
        assert last.startswith("npu-tui: ")
        assert ENDS[point] in last
        assert said.out == ""
    else:
        assert code == 0
        assert "complete: 1 profile" in last
        assert "DISPATCH" in said.out
    assert json.loads((tmp_path / "profiler_config.json").read_bytes())["start_step"] == 0
    assert not list(tmp_path.glob(".*.part"))


@pytest.mark.few(1)
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_is_interrupted_leaves_the_switch_off(how: signal.Signals, tmp_path: Path) -> None:
    with live_job(tmp_path, "--ends", "still"):
        command = [sys.executable, "-m", "npu_tui", "record", str(tmp_path)]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        assert "waiting" in process.stderr.readline()
        process.send_signal(how)
        said = process.communicate(timeout=120)[1]
    assert process.returncode == 130
    assert "stopped" in said.splitlines()[-1]
    assert json.loads((tmp_path / "profiler_config.json").read_bytes())["start_step"] == 0
    assert not list(tmp_path.glob(".*.part"))


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(6))
def test_impatience_at_any_moment_leaves_the_switch_off_and_nothing_behind(seed: int, tmp_path: Path) -> None:
    """One to three signals, at any moment from the start of the command to its end, also within a write."""
    draw = random.Random(seed)
    with live_job(tmp_path, "--step", "0.1"):
        command = [sys.executable, "-m", "npu_tui", "record", str(tmp_path), "--steps", "3", "--report"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(draw.uniform(0.3, 5.0))
        for _ in range(draw.randint(1, 2)):
            process.send_signal(draw.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP]))
            time.sleep(draw.choice([0, 0.001, 0.05]))
        process.communicate(timeout=120)
        assert json.loads((tmp_path / "profiler_config.json").read_bytes())["start_step"] == 0
    assert not list(tmp_path.rglob(".*.part"))
    assert process.returncode in (0, 130, -signal.SIGINT, -signal.SIGTERM, -signal.SIGHUP)


WATCHED = """
import os, sys
sys.dont_write_bytecode = True
told = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT
changing = {f"os.{name}" for name in "rename mkdir remove rmdir link symlink truncate".split()} | {"shutil.rmtree"}
def heard(event, args):
    if event == "open" and isinstance(args[0], str) and (args[2] or 0) & writing:
        os.write(told, f"{os.path.realpath(args[0])}\\n".encode())
    elif event in changing:
        paths = [os.path.realpath(arg) for arg in args if isinstance(arg, (str, os.PathLike))]
        os.write(told, "".join(f"{path}\\n" for path in paths).encode())
    elif event in ("socket.connect", "socket.sendto", "socket.bind"):
        os.write(told, f"/network {args[1:]}\\n".encode())
sys.addaudithook(heard)
from npu_tui.cli.main import main
sys.exit(main(sys.argv[2:]))
"""


def test_nothing_is_written_elsewhere_and_nothing_is_sent(tmp_path: Path) -> None:
    """A recording, its report and the comparison with the one before it, as the interpreter tells of them."""
    places = {name: tmp_path / name for name in ("job", "out", "cache", "temporary", "home")}
    for place in places.values():
        place.mkdir()
    environment = os.environ | {
        "XDG_CACHE_HOME": str(places["cache"]), "TMPDIR": str(places["temporary"]), "HOME": str(places["home"]),
    }  # fmt: skip
    with live_job(places["job"]):
        for _ in range(2):
            words = ["record", str(places["job"]), "--out", str(places["out"]), "--steps", "2", "--report"]
            command = [sys.executable, "-c", WATCHED, str(tmp_path / "told"), *words]
            subprocess.run(command, env=environment, check=True, capture_output=True, timeout=120, cwd=places["home"])
    allowed = [str(places[name]) + "/" for name in ("job", "out", "cache", "temporary")]
    written = set((tmp_path / "told").read_text().splitlines()) - {os.devnull}
    assert any(path.startswith(allowed[0]) for path in written)
    assert [path for path in written if not f"{path}/".startswith(tuple(allowed))] == []


def test_recordings_go_on_and_the_oldest_go(tmp_path: Path) -> None:
    with live_job(tmp_path):
        command = [sys.executable, "-m", "npu_tui", "record", str(tmp_path), "--every", "1s", "--keep", "1"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        folders: set[str] = set()
        until = time.monotonic() + 60
        while len(folders) < 3 and time.monotonic() < until:
            folders |= {path.name for path in (tmp_path / "profiles").glob("*")}
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
    assert len(folders) >= 3
    assert len(list((tmp_path / "profiles").iterdir())) <= 2


@pytest.mark.parametrize(
    "options",
    [[], ["DIR", "--url", "http://host"], ["--url", "http://host"], ["DIR", "--steps", "0"], ["DIR", "--ranks", "a"],
     ["DIR", "--every", "soon"], ["DIR", "--keep", "1"], ["DIR", "--at", "-1"], ["DIR", "--wait", "1x"]],
)  # fmt: skip
def test_wrong_usage_is_refused(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["record", *options])
    assert ended.value.code == 2
    assert "error" in capsys.readouterr().err


def test_a_reason_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["record", str(tmp_path)]) == 3
    assert capsys.readouterr().err.count("\n") == 1


def test_setup_says_what_to_set(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PROF_CONFIG_PATH", "/a folder")
    assert main(["record", "--setup"]) == 0
    said = capsys.readouterr().out
    assert "PROF_CONFIG_PATH='/a folder'" in said
    assert "--profiler-config" in said
    assert "DynamicProfilerMonitor" in said
    assert "SERVICE_PROF_CONFIG_PATH" in said


def test_doctor_says_whether_a_job_can_be_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(tmp_path), "--format", "json"]) == 0
    found = {row["name"]: row for row in json.loads(capsys.readouterr().out)["sections"]["facts"]}
    assert str(tmp_path) in found["switch"]["advice"]
    with live_job(tmp_path, "--ranks", "2"):
        assert main(["doctor", str(tmp_path), "--format", "json"]) == 0
    found = {row["name"]: row for row in json.loads(capsys.readouterr().out)["sections"]["facts"]}
    assert found["switch"]["advice"] == ""
    assert found["ranks"]["value"].startswith("2 ranks run: 0, 1")
