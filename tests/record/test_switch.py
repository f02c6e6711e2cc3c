"""Recording by the file switch: the states of a job, the reasons why nothing comes, what is left behind."""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from contextlib import closing
from pathlib import Path

import pytest

from npu_tui.record import RecordError, RecordRequest, StoppedError
from npu_tui.record.file_recording import job_of, record_by_file
from npu_tui.record.outputs import StepMarks
from npu_tui.record.recording import Recorder, RecordingSource
from npu_tui.record.switch import NAME, Switch
from tests.record.live import FastClock, live_job, stages

TORCH = {"active": 1, "warmup": 0, "start_step": 0, "own": {"kept": [1]}, "experimental_config": {"l2_cache": True}}


def settings(folder: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / NAME).read_bytes())
    return found


def wanted(folder: Path, **fields: object) -> RecordRequest:
    return RecordRequest(folder / "out", **({"patience": 1200.0, "analysis": 600.0} | fields))  # type: ignore[arg-type]


def test_a_job_is_recorded_and_its_switch_is_off_again(tmp_path: Path) -> None:
    with live_job(tmp_path):
        before = settings(tmp_path)
        recorder = Recorder(RecordingSource(tmp_path), wanted(tmp_path, steps=3, warmup=1))
        assert stages(recorder.record(FastClock())) == ["waiting", "recording", "raw", "analysing", "complete"]
        assert recorder.newest is not None
        assert (recorder.newest / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").is_file()
        assert recorder.before is None
        assert settings(tmp_path) == before
        first = recorder.newest
        list(recorder.record(FastClock()))
        assert recorder.newest != first
        assert recorder.before == first


def test_the_step_that_is_recorded_is_told(tmp_path: Path) -> None:
    with live_job(tmp_path, "--ranks", "2", "--step", "0.2"):
        recorder = Recorder(RecordingSource(tmp_path), wanted(tmp_path, steps=5, warmup=2))
        told = [state.said.args for state in recorder.record(FastClock()) if state.said.code == "record.step"]
    assert [args["step"] for args in told] == [2, 3, 4, 5]
    assert all((args["over"], args["steps"], args["ranks"]) == (args["step"] - 1, 5, 2) for args in told)


def test_a_recording_whose_steps_go_on_is_waited_for(tmp_path: Path) -> None:
    """Its patience is of one step, not of all of them."""
    with live_job(tmp_path, "--step", "0.5"):
        states = Recorder(RecordingSource(tmp_path), wanted(tmp_path, steps=6, patience=45.0)).record(FastClock())
        assert stages(states)[-1] == "complete"


@pytest.mark.parametrize("seed", range(8))
def test_marks_of_steps_are_found_however_they_are_written(seed: int, tmp_path: Path) -> None:
    """They are told once, and no earlier than what follows them is there; bytes between them are of any kind."""
    draw = random.Random(seed)
    content, ends = b"", list[int]()
    for step in range(draw.randint(1, 30)):
        content += draw.randbytes(draw.randint(0, 200)).replace(b"P", b"p") + b"ProfilerStep#%d" % (step * 7) + b"\0"
        ends.append(len(content))
    place = tmp_path / "FRAMEWORK"
    marks = StepMarks(tmp_path)
    assert marks.over() == 0
    place.mkdir()
    written = 0
    while written < len(content):
        with (place / "torch.op_range").open("ab") as out:
            more = draw.choice([1, 3, 40, 400])
            out.write(content[written : written + more])
        written = min(written + more, len(content))
        assert marks.over() == sum(end <= written for end in ends)


def test_several_ranks_are_recorded_together(tmp_path: Path) -> None:
    with live_job(tmp_path, "--ranks", "3"):
        recorder = Recorder(RecordingSource(tmp_path), wanted(tmp_path))
        last = list(recorder.record(FastClock()))[-1]
        assert (last.stage, len(last.profiles)) == ("complete", 3)
        assert recorder.newest is not None
        assert recorder.newest.parent == tmp_path / "out"


def test_only_the_ranks_asked_for_record(tmp_path: Path) -> None:
    with live_job(tmp_path, "--ranks", "3"):
        last = list(Recorder(RecordingSource(tmp_path), wanted(tmp_path, ranks=(1,))).record(FastClock()))[-1]
        assert len(last.profiles) == 1
        with pytest.raises(RecordError) as told:
            list(Recorder(RecordingSource(tmp_path), wanted(tmp_path, ranks=(1, 7))).record(FastClock()))
        assert told.value.message.code == "record.no_rank"


def test_an_analysis_that_does_not_tell_its_end_is_complete_once_it_settles(tmp_path: Path) -> None:
    with live_job(tmp_path, "--ends", "unsaid"):
        assert stages(Recorder(RecordingSource(tmp_path), wanted(tmp_path)).record(FastClock()))[-1] == "complete"


@pytest.mark.parametrize("stage", ["waiting", "recording", "analysing"])
def test_whoever_stops_waiting_leaves_the_switch_off(stage: str, tmp_path: Path) -> None:
    with live_job(tmp_path):
        states = record_by_file(tmp_path, wanted(tmp_path), FastClock())
        with closing(states):
            next(state for state in states if state.stage == stage)
        assert settings(tmp_path)["start_step"] == 0
        assert not list(tmp_path.glob(".*.part"))


def test_a_pace_that_is_stopped_ends_the_wait(tmp_path: Path) -> None:
    with live_job(tmp_path, "--ends", "still"):
        clock = FastClock()
        states = Recorder(RecordingSource(tmp_path), wanted(tmp_path)).record(clock)
        next(states)
        clock.stop()
        with pytest.raises(StoppedError):
            list(states)
        assert settings(tmp_path)["start_step"] == 0
        assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def test_mindspore_is_recorded_at_a_step(tmp_path: Path) -> None:
    with live_job(tmp_path, "--mindspore"):
        with pytest.raises(RecordError) as told:
            list(Recorder(RecordingSource(tmp_path), wanted(tmp_path)).record(FastClock()))
        assert told.value.message.code == "record.mindspore_step"
        before = settings(tmp_path)
        recorder = Recorder(RecordingSource(tmp_path), wanted(tmp_path, at=100_000, patience=5.0))
        with pytest.raises(RecordError) as told:
            list(recorder.record(FastClock()))
        assert told.value.message.code == "record.not_at"
        assert settings(tmp_path)["start_step"] == -1
        assert (
            stages(Recorder(RecordingSource(tmp_path), wanted(tmp_path, at=200, patience=600.0)).record(FastClock()))[
                -1
            ]
            == "complete"
        )
        assert settings(tmp_path) == before


def test_what_mindspore_records_ends_though_nobody_waits_for_it(tmp_path: Path) -> None:
    """Its callback looks for the step to end at after each step, and goes on where there is none."""
    with live_job(tmp_path, "--mindspore", "--step", "0.05"):
        states = record_by_file(tmp_path, wanted(tmp_path, at=40, steps=8, patience=600.0), FastClock())
        with closing(states):
            next(state for state in states if state.stage == "recording")
        left = settings(tmp_path)
        assert (left["start_step"], left["stop_step"]) == (-1, 47)
        until = time.monotonic() + 20
        while not list(tmp_path.glob("out/*/*/profiler_info_0.json")) and time.monotonic() < until:
            time.sleep(0.05)
        assert list(tmp_path.glob("out/*/*/profiler_info_0.json"))


def test_a_job_of_mindspore_that_ends_within_a_recording_is_told(tmp_path: Path) -> None:
    with live_job(tmp_path, "--mindspore", "--ends", "recording"), pytest.raises(RecordError) as told:
        list(record_by_file(tmp_path, wanted(tmp_path, at=200, patience=600.0), FastClock()))
    assert told.value.message.code == "record.broken"


def test_fields_that_nobody_knows_stay(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(json.dumps(TORCH), encoding="utf-8")
    switch = Switch(tmp_path)
    switch.on(wanted(tmp_path, steps=7, ranks=(2,)))
    asked = settings(tmp_path)
    assert asked["own"] == {"kept": [1]}
    assert asked["experimental_config"] == {"l2_cache": True, "profiler_level": "Level1"}
    assert (asked["active"], asked["start_step"], asked["is_rank"], asked["rank_list"]) == (7, -1, True, [2])
    assert asked["prof_dir"] == str(tmp_path / "out")
    switch.off()
    assert settings(tmp_path) == TORCH


def test_every_write_is_of_a_later_second(tmp_path: Path) -> None:
    """Those who look compare whole seconds, also where a clock runs ahead."""
    file = tmp_path / NAME
    file.write_text(json.dumps(TORCH), encoding="utf-8")
    ahead = int(time.time()) + 1000
    os.utime(file, (ahead, ahead))
    switch, seconds = Switch(tmp_path), [ahead]
    for write in (lambda: switch.on(wanted(tmp_path)), switch.off, lambda: switch.on(wanted(tmp_path)), switch.off):
        write()
        seconds.append(int(file.stat().st_mtime))
    assert seconds == sorted(set(seconds))
    assert file.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"nothing", b"{" + b" " * (1 << 20) + b"}"])
def test_what_is_no_switch_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(RecordError) as told:
        Switch(tmp_path)
    assert told.value.message.code == "record.bad_switch"
    assert (tmp_path / NAME).read_bytes() == content


def test_a_folder_that_nobody_watches_is_refused(tmp_path: Path) -> None:
    def code() -> str:
        with pytest.raises(RecordError) as told:
            list(record_by_file(tmp_path / "job", wanted(tmp_path), FastClock()))
        return told.value.message.code

    assert code() == "record.no_folder"
    (tmp_path / "job").mkdir()
    assert code() in ("record.no_switch", "record.no_switch_shared")
    (tmp_path / "job" / NAME).write_text(json.dumps(TORCH), encoding="utf-8")
    assert code() == "record.no_logs"
    with live_job(tmp_path / "job"):
        pass
    assert code() == "record.ended"


ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
OWNER, OTHER = 41001, 41002
"""Users of whom nothing else lies on the disk."""


@ROOT
def test_root_leaves_what_it_makes_to_the_user_of_the_job(tmp_path: Path) -> None:
    """A job that runs as another user could not write its profile into a folder of root's."""
    with live_job(tmp_path):
        os.chown(tmp_path / NAME, OWNER, OWNER)
        recorder = Recorder(RecordingSource(tmp_path), wanted(tmp_path / "of" / "mine"))
        list(recorder.record(FastClock()))
        assert recorder.newest is not None
        made = [tmp_path / NAME, *(path for path in recorder.newest.parents if path.is_relative_to(tmp_path / "of"))]
    assert {path.stat().st_uid for path in made} == {OWNER}
    assert tmp_path.stat().st_uid == 0


@ROOT
@pytest.mark.parametrize("folder_mode", [0o755, 0o777, 0o750, 0o700])
@pytest.mark.parametrize("file_mode", [0o640, 0o644, 0o600])
def test_another_user_is_told_whose_the_job_is(folder_mode: int, file_mode: int) -> None:
    with tempfile.TemporaryDirectory() as name:  # pytest's own are closed to others
        place = Path(name)
        place.chmod(0o755)
        folder = place / "job"
        folder.mkdir()
        (folder / "log").mkdir()
        (folder / NAME).write_text(json.dumps(TORCH), encoding="utf-8")
        for path in (folder / "log", folder / NAME, folder):
            os.chown(path, OWNER, OWNER)
        (folder / NAME).chmod(file_mode)
        folder.chmod(folder_mode)
        child = os.fork()
        if not child:
            told = "nothing"
            try:
                os.setgroups([])
                os.setresgid(OTHER, OTHER, OTHER)
                os.setresuid(OTHER, OTHER, OTHER)
                job_of(folder)
                Switch(folder)
            except RecordError as error:
                told = error.message.code if f"{OWNER}" in error.message.args.values() else "another owner"
            finally:
                os._exit(0 if told == "record.foreign" else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert settings(folder) == TORCH
