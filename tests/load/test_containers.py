"""Files that are not the trace itself are named, with what to do."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import sqlite3
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
from refusals import refused

from npu_tui.load import load as loading
from npu_tui.load.errors import InputError
from npu_tui.load.load import load
from npu_tui.strings import words

EVENTS = [{"ph": "X", "name": f"op{i}", "pid": 1, "tid": 2, "ts": i, "dur": 1} for i in range(3)]
TRACE = json.dumps(EVENTS).encode()


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/trace_view.json", TRACE)
    return file.getvalue()


def tarred(mode: str) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as archive:  # type: ignore[call-overload]
        member = tarfile.TarInfo("rank0_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json")
        member.size = len(TRACE)
        archive.addfile(member, io.BytesIO(TRACE))
    return file.getvalue()


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 870601265\n"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.zip", zipped(), r"packed as zip.*: unzip \S*a\.zip -d \S*/a$"),
        ("trace_view.json", zipped(), r"packed as zip"),
        ("a.json.xz", lzma.compress(TRACE), r"packed as xz.*: xz -dk"),
        ("a.json.bz2", bz2.compress(TRACE), r"packed as bzip2.*: bzip2 -dk"),
        ("a.json.zst", b"\x28\xb5\x2f\xfd\x04\0", r"packed as zst.*: zstd -d"),
        ("a.tar.gz", tarred("w:gz"), r"packed as tar.*: tar -xf \S*a\.tar\.gz -C \S"),
        ("a.tar", tarred("w"), r"packed as tar.*: tar -xf"),
        ("a.json", POINTER, r"a Git LFS pointer to 870.601 MB, not the file itself; .* git lfs pull"),
        ("a.json", TRACE.decode().encode("utf-16"), r"text in UTF-16; .*iconv -f UTF-16 -t UTF-8"),
        ("a.json", TRACE.decode().encode("utf-16-le"), r"text in UTF-16LE; "),
        ("a.json", TRACE.decode().encode("utf-16-be"), r"text in UTF-16BE; "),
        ("a.json", b"\n<!DOCTYPE html><html></html>", r"a web page \(HTML\), not a trace; download the raw file"),
        (
            "kernels_rank3.csv",
            b"Name,Type,Accelerator Core,Start Time(us),Duration(us)\n",
            r"the table kernel_details\.csv .* cp \S",
        ),
        ("notes.csv", b"Name,Type\n", r"a table, not a trace; give the folder of its profile: \S"),
        ("a.pftrace", b"\x0a\x10", r"a Perfetto trace in binary form; .*traceconv json"),
    ],
    # Packed bytes hold the time of their packing, so they may not name a case: all processes need the same names.
    ids=lambda value: "" if isinstance(value, bytes) else value[:40],
)
def test_what_is_no_trace_is_named_with_what_to_do(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with refused(said):
        load(tmp_path / name)


@pytest.mark.parametrize("end", ["\n", "\r\n", ",\n"])
def test_lines_of_json_get_a_command_that_makes_a_trace(tmp_path: Path, end: str) -> None:
    lines = tmp_path / "it's lines.jsonl"
    lines.write_text(end.join(map(json.dumps, EVENTS)) + end, newline="")
    with refused("one JSON object a line") as caught:
        load(lines)
    command = caught.value.message.args["command"]
    subprocess.run(["sh", "-c", str(command)], check=True)
    assert len(load(tmp_path / "it's lines.array.json").slices) == 3


def test_an_object_around_the_events_is_no_line(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b'{"schemaVersion": 1,\n"traceEvents": [\n{"a": 1},\n' + TRACE[1:] + b"}")
    assert len(load(tmp_path / "a.json").slices) == 3


def test_no_command_names_the_file_behind_a_pipe() -> None:
    with pytest.raises(InputError) as caught:
        loading._piped_trace(io.BytesIO(zipped()), loading.UNWATCHED)
    assert words(caught.value.message) == "-: packed as zip, which npu-tui does not unpack; unpack it before the pipe"


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("CUPTI_ACTIVITY_KIND_KERNEL", "a database of Nsight Systems"),
        ("moz_places", r"no Ascend profiler has written \(its tables: moz_places\)"),
        ("TASK", "no profiler table with events"),
    ],
)
def test_databases_of_others_are_named(tmp_path: Path, table: str, said: str) -> None:
    with sqlite3.connect(tmp_path / "a.db") as database:
        database.execute(f"CREATE TABLE {table} (a INTEGER)")
    with refused(said):
        load(tmp_path / "a.db")


@pytest.mark.parametrize(
    "events",
    [
        [{"ph": "X", "name": "a", "dur": 1}, {"ph": "X", "name": "b", "ts": "soon", "dur": 1}],
        [
            {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "CANN"}},
            {"ph": "X", "name": "a", "ts": "NaN"},
        ],
        [{"ph": "C", "name": "a", "pid": 1, "args": {"value": 1}}],
        [{"ph": "X", "name": "a", "ts": 1, "dur": -5}],
        [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "CANN"}}],
    ],
)
def test_no_usable_time_is_said_at_once(tmp_path: Path, events: list[dict[str, object]]) -> None:
    (tmp_path / "a.json").write_text(json.dumps(events))
    with refused(rf"none of its {len(events)} events? has a usable time"):
        load(tmp_path / "a.json")


def test_a_packed_trace_of_gzip_still_opens(tmp_path: Path) -> None:
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(TRACE))
    assert len(load(tmp_path / "a.json.gz").slices) == 3
