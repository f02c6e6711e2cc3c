"""Which files are memory snapshots: pickles, and dumps of MemScope."""

from __future__ import annotations

import mmap
import re
from pathlib import Path

from npu_tui.load.layouts import SQLITE
from npu_tui.trace.side_file import head_of, open_regular

_HEAD, _HEADER = 64 << 10, 4 << 10
_TABLE = re.compile(rb"CREATE TABLE \"?memscope_dump\"?[ (]")


def is_snapshot(file: Path) -> bool:
    """Whether ``file`` begins as a memory snapshot does, a pickle or a dump of MemScope."""
    return is_pickle(file) or is_memscope(file)


def is_pickle(file: Path) -> bool:
    """Whether ``file`` begins as a pickle does, such as a memory snapshot."""
    head = head_of(file, 2)
    return len(head) == 2 and head[0] == 0x80 and 2 <= head[1] <= 5


def is_untimed(file: Path) -> bool:
    """Whether ``file`` is a pickle of a snapshot whose events have no times, as torch_npu writes."""
    if not is_pickle(file):
        return False
    with open_regular(file) as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return data.find(b"time_us") < 0


def is_memscope(file: Path) -> bool:
    """Whether ``file`` begins as a dump of MemScope does: a header with its columns, or a database with its table."""
    head = head_of(file, _HEAD)
    if head.startswith(SQLITE):
        return _TABLE.search(head) is not None
    if b"Event Type" not in head[:_HEADER]:
        return False
    names = {name.strip(b' "\r') for name in head.removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0].split(b",")}
    return {b"Event", b"Event Type", b"Ptr"} <= names


def dumps_in(folder: Path) -> list[Path]:
    """The dumps of MemScope in ``folder``, or where its writer puts them below it."""
    places = ("", "dump/", "device_*/dump/", "msmemscope_*/device_*/dump/")
    files = (file for place in places for file in folder.glob(f"{place}memscope_dump_*"))
    return sorted(file for file in files if file.suffix in (".csv", ".db"))
