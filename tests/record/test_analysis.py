"""Raw profiles are analysed by the program that wrote them; where it is absent, the command is told."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from npu_tui.cli.main import main
from npu_tui.record import RecordError
from npu_tui.record.outputs import analysed, raw_below
from npu_tui.strings import words
from tests.record.live import FastClock, stages

PROFILE = Path(__file__).resolve().parents[2] / "fixtures" / "dispatch_bound"


def raw(folder: Path, name: str = "host_1_2026_ascend_pt", rank: int = 0) -> Path:
    """A raw profile of torch_npu."""
    place = folder / name
    (place / "FRAMEWORK").mkdir(parents=True)
    (place / "PROF_000001_2026_A" / "host").mkdir(parents=True)
    (place / f"profiler_info_{rank}.json").write_text("{}")
    return place


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python whose profiler copies a trace, and a msprof; ``how`` beside it says what else it does."""
    place = tmp_path / "bin"
    place.mkdir()
    python = place / "job-python"
    python.write_text(
        f'#!/bin/sh\ncase "$2" in *find_spec*) exit 0;; esac\n. {place}/how\n'
        f'target=$(printf %s "$2" | sed "s/.*analyse(\'\\([^\']*\\)\'.*/\\1/")\n'
        f'[ -n "$TRACE" ] && cp -r {PROFILE}/ASCEND_PROFILER_OUTPUT "$target/"\nexit ${{CODE:-0}}\n'
    )
    (place / "how").write_text("TRACE=1\n")
    (place / "msprof").write_text("#!/bin/sh\n")
    for program in (python, place / "msprof"):
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # where it is remembered how long it took
    return place


def test_raw_profiles_are_analysed_one_after_the_other(tmp_path: Path, programs: Path) -> None:
    places = [raw(tmp_path / "job", f"host_{rank}_ascend_pt", rank) for rank in (0, 1)]
    raws = raw_below(tmp_path / "job")
    assert [each.folder for each in raws] == places
    assert [each.folder for each in raw_below(tmp_path / "job", [1])] == places[1:]
    assert stages(analysed(raws, FastClock(), str(programs / "job-python"))) == ["analysing", "complete"]
    assert all((place / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").is_file() for place in places)
    assert raw_below(tmp_path / "job") == []


def test_an_analysis_without_a_trace_has_failed(tmp_path: Path, programs: Path) -> None:
    place = raw(tmp_path / "job")
    for how, code in (("echo; echo 'no CANN here'; CODE=3\n", 3), ("echo 'no CANN here'\n", 0)):
        (programs / "how").write_text(how)
        with pytest.raises(RecordError) as told:
            list(analysed(raw_below(place), FastClock(), str(programs / "job-python")))
        assert told.value.message.args["code"] == code
        assert "no CANN here" in words(told.value.message)


HALF = """
for part in ASCEND_PROFILER_OUTPUT/trace_view.json PROF_000001_2026_A/mindstudio_profiler_output/msprof_1.json; do
    mkdir -p "$target/${part%/*}"
    echo '[{}' > "$target/$part"
done
echo $$ > "$target/pid"
sleep 100 & sleep 100
"""


def half(programs: Path, *ignores: str) -> None:
    """Let an analysis write half of what it makes, then last."""
    script = programs / "job-python"
    lines = script.read_text().replace("[ -n", f"trap '' {' '.join(ignores) or 'USR1'}\n{HALF}[ -n")
    script.write_text(lines)


@pytest.mark.parametrize("ignores", [(), ("TERM", "INT", "HUP")])
def test_an_analysis_that_is_broken_off_leaves_raw_data_as_they_were(
    ignores: tuple[str, ...], tmp_path: Path, programs: Path
) -> None:
    place = raw(tmp_path / "job")
    before = sorted(place.rglob("*"))
    half(programs, *ignores)
    with closing(analysed(raw_below(place), FastClock(), str(programs / "job-python"))) as states:
        while not (place / "pid").exists() or not (place / "pid").read_text():
            next(states)
    pid = (place / "pid").read_text().strip()
    (place / "pid").unlink()
    assert not Path(f"/proc/{pid}").exists()
    assert sorted(place.rglob("*")) == before
    assert [each.folder for each in raw_below(place)] == [place]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_the_command_ends_its_analysis_with_it(how: signal.Signals, tmp_path: Path, programs: Path) -> None:
    place = raw(tmp_path / "job")
    half(programs)
    command = [sys.executable, "-m", "npu_tui", "analyse", str(place), "--python", str(programs / "job-python")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 120
    while not (place / "pid").exists() and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(how)
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 130
    assert "is removed" in said.splitlines()[-1]
    assert not Path(f"/proc/{(place / 'pid').read_text().strip()}").exists()
    assert not (place / "ASCEND_PROFILER_OUTPUT").exists()


def test_half_a_trace_is_not_taken_for_an_analysis(tmp_path: Path, programs: Path) -> None:
    """Before 2026 only the end of its files tells that an analysis has ended; while it writes it is let alone."""
    place = raw(tmp_path / "job")
    trace = place / "ASCEND_PROFILER_OUTPUT" / "trace_view.json"
    trace.parent.mkdir()
    trace.write_text('[{"name": "a"},')
    assert [each.folder for each in raw_below(place)] == [place]
    with pytest.raises(RecordError) as told:
        list(analysed(raw_below(place), FastClock(), str(programs / "job-python")))
    assert told.value.message.code == "record.analysed_elsewhere"
    for path in place.rglob("*"):
        os.utime(path, (1e9, 1e9))
    shutil.rmtree(trace.parent)  # as torch_npu does first
    assert stages(analysed(raw_below(place), FastClock(), str(programs / "job-python")))[-1] == "complete"
    assert raw_below(place) == []


def test_where_the_profiler_is_absent_the_command_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = raw(tmp_path / "a job")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["analyse", str(tmp_path / "a job"), "--python", sys.executable]) == 3
    said = capsys.readouterr().err
    assert "torch_npu" in said
    assert "msprof (CANN)" in said
    assert str(place) in said
    assert main(["analyse", str(place), "--dry-run"]) == 0
    command = shlex.split(capsys.readouterr().out)
    assert command[:2] == ["python3", "-c"]
    assert repr(str(place)) in command[2]
    assert main(["analyse", str(place), "--python", str(tmp_path / "none")]) == 3
    assert main(["analyse", str(tmp_path)]) == 3
    shutil.rmtree(place)
    assert main(["analyse", str(tmp_path / "a job")]) == 3
    assert "no raw profile" in capsys.readouterr().err


def test_folders_that_are_analysed_are_printed_a_line_each(
    tmp_path: Path, programs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw(tmp_path / "job", "odd\n\x1b[2Jname_ascend_pt")
    (programs / "how").write_text(f"cp -r {PROFILE}/ASCEND_PROFILER_OUTPUT {tmp_path}/job/odd*/\n")
    assert main(["analyse", str(tmp_path / "job"), "--python", str(programs / "job-python")]) == 0
    assert capsys.readouterr().out == f"{tmp_path}/job/odd??[2Jname_ascend_pt\n"


def test_data_of_msprof_and_of_services_are_raw_too(tmp_path: Path) -> None:
    (tmp_path / "PROF_000001_2026_A" / "device_0").mkdir(parents=True)
    (tmp_path / "service").mkdir()
    (tmp_path / "service" / "ms_service_host-1.db").write_bytes(b"")
    assert [each.writer for each in raw_below(tmp_path / "PROF_000001_2026_A")] == ["msprof"]
    assert [each.writer for each in raw_below(tmp_path / "service")] == ["msserviceprofiler"]
