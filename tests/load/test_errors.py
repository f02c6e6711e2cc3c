"""Inputs that cannot be read: one line with the file, where, what is wrong and what to do."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from refusals import said

from npu_tui.load.args import json_args
from npu_tui.load.errors import InputError, Watcher
from npu_tui.load.load import load
from npu_tui.trace.once import Cancelled

EVENT = b'{"ph": "X", "name": "op", "pid": 1, "tid": 2, "ts": "1.000", "dur": 1}'


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        load(path)
    message = said(caught.value)
    assert "\n" not in message
    assert str(path) in message
    assert "; " in message, "what to do comes after what is wrong"
    return message


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "byte 0: the file is empty"),
        (b" \n\t ", "byte 0: the file is empty"),
        (b"Name,Type,Duration\n", "byte 0: expected a JSON array of trace events, found 'Name,Type,Du'"),
        (b'{"config": {"rank": 0}}', "byte 0: expected a JSON array of trace events, found '{\"config\": {'"),
        (b"SQLite format 3\x00\x10\x00", "byte 18: the file ends in the header of a database"),
        (bytes(range(256)), "found '\\x00\\x01"),
        (b"\x1f\x8b\x08\x00\x1b[2J\r\n", "gzip without content"),
        (b"\x1f\x8b\x08\xff\x1b[2J\r\nxxxxxxxxx", "damaged gzip"),
        (b"\x01\x1b[2J\r\n", "found '\\x01\\x1b[2J"),
        ("算子".encode(), "found '\\xe7"),
        (b"null", "found 'null'"),
        (b"]", "found ']'"),
        (b"[]", "byte 1: the array holds no complete event"),
        (b'{"traceEvents": []}', "byte 17: the array holds no complete event"),
        (b"[", "byte 1: the array holds no complete event"),
        (b'[{"ph": "X", "na', "byte 1: the array holds no complete event"),
        (b"[1, 2, null]", "the array holds no complete event"),
        (b'[{"name": "no phase"}]', "the array holds no complete event"),
        (b"[\xff\xfe\x00]", "the array holds no complete event"),
    ],
)
def test_what_is_no_trace(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "trace_view.json"
    path.write_bytes(content)
    message = refusal(path)
    assert expected in message
    assert message.isascii()


def test_no_such_file(tmp_path: Path) -> None:
    assert "no such file or directory" in refusal(tmp_path / "absent.json")


def test_directory_without_a_trace(tmp_path: Path) -> None:
    assert "no ASCEND_PROFILER_OUTPUT/trace_view.json" in refusal(tmp_path)


def test_directory_with_several_traces(tmp_path: Path) -> None:
    for rank in "01":
        output = tmp_path / f"rank{rank}_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
        output.mkdir(parents=True)
        (output / "trace_view.json").write_bytes(b"[" + EVENT + b"]")
    assert "holds 2 traces" in refusal(tmp_path)
    assert len(load(tmp_path / "rank1_ascend_pt").slices) == 1


def test_profile_directory_names_the_rank(tmp_path: Path) -> None:
    output = tmp_path / "ASCEND_PROFILER_OUTPUT"
    output.mkdir()
    (output / "trace_view.json").write_bytes(b"[" + EVENT + b"]")
    (tmp_path / "profiler_info_12.json").write_text("{}")
    assert load(tmp_path).rank == 12
    assert load(output).rank == 12
    assert load(output / "trace_view.json").rank == 12


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "trace_view.json"
    path.write_bytes(b"[" + EVENT + b"]")

    def refuse(*args: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "open", refuse)  # the super-user may read everything, so modes prove nothing
    assert "Permission denied" in refusal(path)


def test_cancelling(tmp_path: Path) -> None:
    path = tmp_path / "trace_view.json"
    path.write_bytes(b"[" + b", ".join([EVENT] * 60_000) + b"]")
    seen = []

    def progress(read: int, size: int, events: int) -> bool:
        seen.append((read, size, events))
        return len(seen) < 2

    with pytest.raises(Cancelled):
        load(path, Watcher(progress))
    (first, size, _), (second, _, events) = seen
    assert 0 < first < second <= size == path.stat().st_size
    assert 0 < events <= 60_000


class TestFetch:
    """The file is read again when an event is shown; by then it may be another one."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        path = tmp_path / "trace_view.json"
        path.write_bytes(b"[" + b", ".join([EVENT] * 50) + b"]")
        return path

    def test_the_event(self, path: Path) -> None:
        trace = load(path, chunk_size=200)
        assert {json_args(trace).event(ordinal)["name"] for ordinal in range(50)} == {"op"}
        assert json_args(trace).event(np.int64(3))["ts"] == "1.000"

    def test_gone(self, path: Path) -> None:
        trace = load(path)
        path.unlink()
        self.refused(trace)

    @pytest.mark.parametrize("size", [0, 40, 2000])
    def test_shrunk(self, path: Path, size: int) -> None:
        trace = load(path)
        os.truncate(path, size)
        assert "has changed since it was loaded" in self.refused(trace)

    def test_grown(self, path: Path) -> None:
        trace = load(path)
        path.write_bytes(path.read_bytes()[:-1] + b", " + EVENT + b"]")
        assert "has changed since it was loaded" in self.refused(trace)

    @pytest.mark.parametrize("chunk_size", [64, 1 << 16])
    def test_overwritten(self, path: Path, chunk_size: int) -> None:
        trace = load(path, chunk_size=chunk_size)
        path.write_bytes(b"#" * trace.size)
        assert "has changed since it was loaded" in self.refused(trace)

    def refused(self, trace: object) -> str:
        with pytest.raises(InputError) as caught:
            json_args(trace).event(30)  # type: ignore[arg-type]
        message = said(caught.value)
        assert "\n" not in message
        assert "trace_view.json" in message
        return message
