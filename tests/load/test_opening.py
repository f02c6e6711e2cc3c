"""However a trace comes in, it is the same trace."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from equality import assert_same, assert_same_events
from refusals import refused

from npu_tui.cli.main import main
from npu_tui.load.errors import Watcher
from npu_tui.load.find import PIPED
from npu_tui.load.load import Opening, load
from npu_tui.load.unpack import spooled
from npu_tui.trace.once import Cancelled

TRACE = Path("fixtures/two_ranks/rank1_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json")
WAYS = ["report", "--format", "json"]


def piped(data: bytes) -> Opening:
    return Opening(PIPED, piped=io.BytesIO(data))  # type: ignore[arg-type]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_pipe_gives_the_trace_of_the_file(pack: object) -> None:
    content = TRACE.read_bytes()
    through = piped(gzip.compress(content) if pack is gzip.compress else content).trace()
    trace = load(TRACE)
    trace.rank = None
    trace.layers, trace.lanes = through.layers, through.lanes  # they name the rank, which a pipe does not tell
    assert through.path == "-"
    assert_same(trace, through)
    assert_same_events(trace, through, 3)


@pytest.mark.parametrize(("content", "words"), [(b"", "empty"), (b"junk", "JSON array")])
def test_what_is_wrong_with_a_pipe_is_said_of_the_pipe(content: bytes, words: str) -> None:
    with refused(f"^-: .*{words}"):
        piped(content).trace()


def test_a_pipe_can_be_given_up() -> None:
    with pytest.raises(Cancelled):
        piped(TRACE.read_bytes()).trace(Watcher(lambda done, total, events: False))


def test_what_was_spooled_leaves_no_file() -> None:
    copy, path = spooled(io.BytesIO(b"[1, 2]"))
    assert Path(path).read_bytes() == b"[1, 2]"
    if path.startswith("/proc/"):
        assert not os.path.exists(os.readlink(path))
    copy.close()
    assert not os.path.exists(path)


def test_both_forms_of_the_report_are_the_same_through_a_pipe(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = tmp_path / "trace_view.json"
    path.write_bytes(TRACE.read_bytes())
    assert main([*WAYS, str(path), "--no-cache"]) == 0
    through = run([*WAYS, "-"], TRACE.read_bytes())
    piped_report, report = json.loads(through), json.loads(capsysbinary.readouterr().out)
    assert piped_report["sections"].pop("files") == []  # nothing lies beside a pipe
    assert {each["state"] for each in report["sections"].pop("files")} == {"missing"}
    assert piped_report | {"source": report["source"]} == report
    assert piped_report["source"] == report["source"] | {"path": "-", "writer": None}
    assert main([str(path)]) == 0
    assert run(["-"], TRACE.read_bytes()).splitlines()[1:] == capsysbinary.readouterr().out.splitlines()[1:]


def run(words: list[str], stdin: bytes = b"") -> bytes:
    done = subprocess.run([sys.executable, "-m", "npu_tui", *words], input=stdin, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_pipe_that_brings_nothing_can_be_given_up() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"[")
    calls: list[int] = []
    with os.fdopen(reading, "rb") as stream, pytest.raises(Cancelled):
        Opening(PIPED, piped=stream).trace(Watcher(lambda done, total, events: calls.append(done) or len(calls) < 3))
    os.close(writing)
    assert calls == [1, 1, 1]


def test_no_room_for_a_pipe_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(stream: object, advance: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("npu_tui.load.load.spooled", full)
    with refused(r"^-: no room in .*TMPDIR"):
        piped(b"[]").trace()
