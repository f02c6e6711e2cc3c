"""Files that are not the trace itself: packed ones, other encodings, tables, pages. Each is named with what to do.

gzip is not among them: it is unpacked. The signatures are those that ``file(1)`` knows; a Git LFS pointer is described
at https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import msgspec

from npu_tui.trace.message import Message, message

_PACKED = (
    (b"PK\x03\x04", "zip", "unzip {file} -d {folder}"),
    (b"PK\x05\x06", "zip", "unzip {file} -d {folder}"),
    (b"\xfd7zXZ\0", "xz", "xz -dk {file}"),
    (b"\x28\xb5\x2f\xfd", "zst", "zstd -d {file}"),
    (b"BZh", "bzip2", "bzip2 -dk {file}"),
    (b"\x04\x22\x4d\x18", "lz4", "lz4 -d {file}"),
    (b"7z\xbc\xaf\x27\x1c", "7z", "7z x {file}"),
    (b"Rar!\x1a\x07", "rar", "unrar x {file}"),
)
"""First bytes, the name of the format, and the command that unpacks it."""

_TAR_AT, _TAR = 257, b"ustar"  # where POSIX has the mark in the header of the first member
_WIDE = (
    (b"\xff\xfe\0\0", "UTF-32"),
    (b"\0\0\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
    (b"[\0", "UTF-16LE"),
    (b"{\0", "UTF-16LE"),
    (b"\0[", "UTF-16BE"),
    (b"\0{", "UTF-16BE"),
)
"""How a text of wider characters begins: with a byte order mark, or with the bracket of JSON."""

_POINTER = b"version https://git-lfs.github.com/spec/"
_POINTER_SIZE = re.compile(rb"^size (\d{1,18})$", re.MULTILINE)
_PAGE = re.compile(rb"\s*<(?:!doctype html|html)\b", re.IGNORECASE)
_OTHERS = ((re.compile(rb"# tracer: "), "input.ftrace"), (re.compile(rb"PAR1"), "input.parquet"))
"""how files of other tools begin that lie near profiles: scheduler events, a table of columns."""
_EXECUTION_TRACE = re.compile(rb'\s*\{\s*"schema"\s*:\s*"\d+\.\d+\.\d+-')
"""How the file of PyTorch's ExecutionTraceObserver begins: https://github.com/facebookresearch/param (et_replay)."""
_SWIMLANES = re.compile(r"(?:chip|perf)_swimlane.*\.json")
"""What PTO's runtime records of its tasks: docs/dfx/chip-swimlane-profiling.md of https://github.com/hw-native-sys/simpler."""
_TABLES = (".csv", ".xlsx", ".xls", ".tsv")
_OF_PROFILERS = (
    ((b"Accelerator Core", b"Duration(us)"), "kernel_details.csv"),
    ((b"Task Duration(us)",), "op_summary.csv"),
    ((b"Index", b"Communication(Not Overlapped)"), "cluster_step_trace_time.csv"),
    ((b"Computing", b"Communication(Not Overlapped)"), "step_trace_time.csv"),
    ((b"Core Type", b"Total Time(us)"), "op_statistic.csv"),
    ((b"kernel_name", b"task_time(us)"), "task_time.csv"),
)
"""Columns of tables that are read without a trace, and the name that each must have."""
_PERFETTO = (".pftrace", ".perfetto-trace", ".perfetto", ".proto")
_PIPED = {"input.packed": "input.packed_piped", "input.wide": "input.wide_piped", "input.lines": "input.lines_piped"}
"""What is said of bytes that came through a pipe, where their file has a command of its own."""
_LINE = re.compile(rb"\s*(\{.*\}),?[ \t\r]*\n\s*\{")


def foreign(head: bytes, file: Path) -> Message | None:
    """What ``file``, which begins with ``head``, is instead of a trace, and what to do; None where nothing tells it."""
    quoted = shlex.quote(str(file))
    for magic, form, command in _PACKED:
        if head.startswith(magic):
            folder = shlex.quote(str(file.with_suffix("")) if file.suffix else f"{file}.unpacked")
            return _packed(file, form, command.format(file=quoted, folder=folder))
    if head[_TAR_AT : _TAR_AT + len(_TAR)] == _TAR:
        return _packed(file, "tar", f"tar -xf {quoted} -C {shlex.quote(str(file.parent))}")
    for magic, encoding in _WIDE:
        if head.startswith(magic):
            command = f"iconv -f {encoding} -t UTF-8 {quoted} > {_beside(file, 'utf8')}"
            return message("input.wide", path=str(file), encoding=encoding, command=command)
    if head.startswith(_POINTER):
        size = _POINTER_SIZE.search(head)
        return message("input.pointer", path=str(file), size=int(size[1]) if size else 0)
    if _PAGE.match(head):
        return message("input.page", path=str(file))
    if file.suffix.lower() in _TABLES:
        header = head.partition(b"\n")[0]
        if name := next((name for columns, name in _OF_PROFILERS if all(each in header for each in columns)), ""):
            place = Path(f"{file.with_suffix('')}_table")
            command = f"mkdir {shlex.quote(str(place))} && cp {quoted} {shlex.quote(str(place / name))}"
            return message("input.table_renamed", path=str(file), name=name, command=command)
        return message("input.table", path=str(file), folder=str(file.parent))
    if file.suffix.lower() in _PERFETTO:
        command = f"traceconv json {quoted} {_beside(file.with_suffix(''), 'trace')}"
        return message("input.perfetto", path=str(file), command=command)
    for begins, code in _OTHERS:
        if begins.match(head):
            return message(code, path=str(file))
    if _SWIMLANES.fullmatch(file.name) and b'"traceEvents"' not in head:
        command = f"python3 tools/swimlane_converter.py {quoted} -o {_beside(file, 'merged')}"
        return message("input.swimlanes", path=str(file), command=command)
    if _EXECUTION_TRACE.match(head):
        return message("input.execution_trace", path=str(file))
    if _is_lines(head):
        command = f"(echo '['; sed -E 's/,?[[:space:]]*$//; $!s/$/,/' {quoted}; echo ']') > {_beside(file, 'array')}"
        return message("input.lines", path=str(file), command=command)
    return None


def piped(refusal: Message, path: str) -> Message:
    """``refusal`` for bytes that came through the pipe ``path``: no command can name their file."""
    return Message(_PIPED.get(refusal.code, refusal.code), refusal.args | {"path": path})


def _packed(file: Path, form: str, command: str) -> Message:
    return message("input.packed", path=str(file), form=form, command=command)


def _beside(file: Path, what: str) -> str:
    """The name of a new file beside ``file``, for a command line."""
    return shlex.quote(str(file.with_name(f"{file.stem}.{what}.json")))


def _is_lines(head: bytes) -> bool:
    """Whether ``head`` begins with an object on a line of its own and another one after it."""
    first = _LINE.match(head)
    if first is None:
        return False
    try:
        return isinstance(msgspec.json.decode(first[1]), dict)
    except (ValueError, RecursionError):
        return False
