"""Recording a job under torch_npu's own dynamic profiling; ``NPU_TUI_TORCH_NPU`` is the package out of its wheel."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from npu_tui.record import RecordClock, RecordError, RecordRequest
from npu_tui.record.recording import Recorder, RecordingSource
from npu_tui.record.switch import NAME, Switch
from tests.record.live import stages

pytestmark = pytest.mark.skipif(
    "NPU_TUI_TORCH_NPU" not in os.environ, reason="NPU_TUI_TORCH_NPU is not set: the unpacked package torch_npu"
)
PROFILE = Path(__file__).resolve().parents[2] / "fixtures" / "healthy"
JOB = Path(__file__).parent / "torch_npu_job.py"


@contextmanager
def job(folder: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A job that watches ``folder``, from when it has its file.

    The memory that it shares is named after the hour: one that is killed leaves it to whatever starts in that hour.
    """
    before = shared()
    process = subprocess.Popen(
        [sys.executable, str(JOB), str(folder), str(PROFILE)], env=os.environ | {"RANK": "0"} | environment,
        start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        until = time.monotonic() + 30
        while not (folder / NAME).exists() and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(3.0)  # its poller looks at the file every other second
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for left in shared() - before:
            left.unlink()


def shared() -> set[Path]:
    return set(Path("/dev/shm").glob("DynamicProfileNpuShm*"))


def wanted(folder: Path, **fields: object) -> RecordRequest:
    return RecordRequest(folder / "out", **({"patience": 20.0, "analysis": 20.0} | fields))  # type: ignore[arg-type]


def test_it_records_twice_and_leaves_the_switch_off(tmp_path: Path) -> None:
    with job(tmp_path):
        recorder = Recorder(RecordingSource(tmp_path), wanted(tmp_path, steps=3, warmup=1))
        assert stages(recorder.record(RecordClock()))[-1] == "complete"
        first = recorder.newest
        assert first is not None
        assert first.is_relative_to(tmp_path / "out")
        assert json.loads((tmp_path / NAME).read_bytes())["start_step"] == 0
        assert stages(recorder.record(RecordClock()))[-1] == "complete"
        assert recorder.before == first


def test_a_rank_that_is_not_there_records_nothing(tmp_path: Path) -> None:
    with job(tmp_path), pytest.raises(RecordError) as told:
        list(Recorder(RecordingSource(tmp_path), wanted(tmp_path, ranks=(7,))).record(RecordClock()))
    assert told.value.message.code == "record.no_rank"


def test_a_job_that_is_killed_is_told(tmp_path: Path) -> None:
    with job(tmp_path) as process:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        with pytest.raises(RecordError) as told:
            list(Recorder(RecordingSource(tmp_path), wanted(tmp_path)).record(RecordClock()))
    assert told.value.message.code == "record.ended"


def test_a_torn_file_is_refused_in_a_line(tmp_path: Path) -> None:
    with job(tmp_path):
        (tmp_path / NAME).write_text('{"activities": ["CPU", ')
        with pytest.raises(RecordError) as told:
            list(Recorder(RecordingSource(tmp_path), wanted(tmp_path)).record(RecordClock()))
    assert told.value.message.code == "record.bad_switch"


def test_a_second_job_of_the_hour_is_told_apart(tmp_path: Path) -> None:
    """It takes the memory of the first for its own, and never reads its file."""
    with job(tmp_path / "first"), job(tmp_path / "second"), pytest.raises(RecordError) as told:
        list(Recorder(RecordingSource(tmp_path / "second"), wanted(tmp_path / "second")).record(RecordClock()))
    assert told.value.message.code == "record.other_job"


def test_a_step_that_is_past_is_told(tmp_path: Path) -> None:
    """The job says it on its own output alone, as long as nothing was recorded; later its logs tell."""
    with job(tmp_path):
        with pytest.raises(RecordError) as told:
            list(Recorder(RecordingSource(tmp_path), wanted(tmp_path, at=1, patience=6.0)).record(RecordClock()))
        assert told.value.message.code == "record.not_at"
        list(Recorder(RecordingSource(tmp_path), wanted(tmp_path, steps=1)).record(RecordClock()))
        with pytest.raises(RecordError) as told:
            list(Recorder(RecordingSource(tmp_path), wanted(tmp_path, at=1)).record(RecordClock()))
        assert told.value.message.code == "record.past"
        assert json.loads((tmp_path / NAME).read_bytes())["start_step"] == 0


def test_of_two_writes_in_a_second_the_job_takes_the_last(tmp_path: Path) -> None:
    """It compares whole seconds: a file that is written twice in one would be read once."""
    with job(tmp_path):
        for _ in range(3):
            switch = Switch(tmp_path)
            switch.on(wanted(tmp_path, at=1_000_000))
            switch.off()
        assert (
            stages(Recorder(RecordingSource(tmp_path), wanted(tmp_path, steps=2)).record(RecordClock()))[-1]
            == "complete"
        )
