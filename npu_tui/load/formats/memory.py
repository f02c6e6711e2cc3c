"""Memory snapshots: pickles of PyTorch and torch_npu, and dumps of MemScope.

``torch.npu.memory._dump_snapshot`` writes a pickle of protocol 2 to 5 under any name, as that of CUDA:
https://pytorch.org/docs/stable/torch_cuda_memory.html. MemScope writes a CSV file or a database with one table:
https://gitcode.com/Ascend/msmemscope, docs/en/user_guide/output_file_spec.md.
"""

from __future__ import annotations

import mmap
import re
from pathlib import Path

from npu_tui.load.format import HEAD, SQLITE, Format, Source, Survey
from npu_tui.trace.side_file import held_bytes, open_regular

_HEADER = 4 << 10  # bytes that hold the heading of a table
_TABLE = re.compile(rb"CREATE TABLE \"?memscope_dump\"?[ (]")


_SUFFIXES = (".pickle", ".pkl")


def is_snapshot(file: Path, survey: Survey | None = None) -> bool:
    """Whether ``file`` begins as a memory snapshot does, a pickle or a dump of MemScope."""
    survey = survey or Survey()
    return _is_pickle(file, survey) or is_memscope(file, survey)


def _is_pickle(file: Path, survey: Survey) -> bool:
    head = survey.head(file, 2)
    return len(head) == 2 and head[0] == 0x80 and 2 <= head[1] <= 5


def is_untimed(file: Path) -> bool:
    """Whether ``file`` is a pickle of a snapshot whose events have no times, as torch_npu writes."""
    if not _is_pickle(file, Survey()):
        return False
    with open_regular(file) as stream:
        held = held_bytes(stream.fileno())
        with mmap.mmap(stream.fileno(), held, access=mmap.ACCESS_READ) as data:
            return data.find(b"time_us") < 0


def is_memscope(file: Path, survey: Survey | None = None) -> bool:
    """Whether ``file`` begins as a dump of MemScope does: a header with its columns, or a database with its table."""
    head = (survey or Survey()).head(file, HEAD)
    if head.startswith(SQLITE):
        return _TABLE.search(head) is not None
    if b"Event Type" not in head[:_HEADER]:
        return False
    names = {name.strip(b' "\r') for name in head.removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0].split(b",")}
    return {b"Event", b"Event Type", b"Ptr"} <= names


def dumps_in(folder: Path, survey: Survey) -> list[Path]:
    """The dumps of MemScope in ``folder``, or where its writer puts them below it."""
    places = ("", "dump/", "device_*/dump/", "msmemscope_*/device_*/dump/")
    files = (file for place in places for file in survey.glob(folder, f"{place}memscope_dump_*"))
    return sorted(file for file in files if file.suffix in (".csv", ".db"))


def _recognise(path: Path, survey: Survey) -> Source | None:
    if path.is_dir():
        pickles = [file for file in survey.files(path) if file.suffix in _SUFFIXES and is_snapshot(file, survey)]
        return Source(path, pickles[0], (pickles[0],), None, MEMORY, survey=survey) if len(pickles) == 1 else None
    return Source(path, path, (path,), None, MEMORY, survey=survey) if is_snapshot(path, survey) else None


MEMORY = Format("memory", _recognise, "snapshot.read_snapshot_trace", is_profile=False)
