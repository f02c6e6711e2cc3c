"""The profiles that a recording leaves below a folder, and how far each has come.

A rank of torch_npu writes ``<host>_<pid>_<time>_ascend_pt`` with ``FRAMEWORK`` and ``PROF_*``;
``profiler_info_<rank>.json`` comes when all is recorded. Its analysis makes ``ASCEND_PROFILER_OUTPUT`` empty first and
puts ``analyse.done`` there at its end, also where a part of it failed; before 2026 there is no such file, and what does
not change any more is complete (``torch_npu/profiler/analysis/_profiling_parser.py``). MindSpore writes
``..._ascend_ms`` likewise, one folder below ``rank<rank>_start<step>_stop<step>``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import orjson
from msgspec import Struct

from npu_tui.load.format import MSPROF_OUTPUT, OUTPUT, Survey
from npu_tui.load.formats.database import databases_in
from npu_tui.trace.side_file import admitted, open_regular, paths_in, read_regular

ANALYSED = "analyse.done"

_PROFILE = re.compile(r".+_ascend_(?:pt|ms)")
_INFO = re.compile(r"profiler_info(?:_(\d{1,9}))?\.json")
_MOST_INFO = 1 << 20
_DEPTH = 2
"""Profiles of MindSpore lie in a folder of their rank."""

State = Literal["recording", "written", "analysing", "raw", "complete", "failed", "broken"]
"""``written``: all is recorded, and an analysis may begin; ``raw``: none has. ``failed``: it has left no trace.
``broken``: the recording has not come to its end.
"""
ENDED: frozenset[State] = frozenset({"raw", "complete", "failed", "broken"})
"""The states in which nothing changes any more by itself."""

QUIET = 30.0
"""Seconds in which an analysis that has begun has written something: it makes its folder at once."""
SETTLED = 10.0
"""Seconds after the last change of a profile whose analysis does not tell its end."""


def is_whole(file: Path) -> bool:
    """Whether ``file``, JSON or a database, ends as it does when it is whole, as far as its last bytes tell."""
    if file.suffix == ".db":
        return not any(Path(f"{file}{end}").exists() for end in ("-journal", "-wal"))
    try:
        with open_regular(file) as stream:
            stream.seek(max(stream.seek(0, 2) - _TAIL, 0))
            return bool(stream.read().rstrip().endswith((b"]", b"}")))
    except OSError:
        return False


_TAIL = 256


class FolderLook(Struct, frozen=True):
    """How a profile looks: its ``files`` with their ``bytes``, and the newest time of change, ns."""

    files: int = 0
    bytes: int = 0
    changed: int = 0


class Output:
    """The profile in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def info(self) -> Path | None:
        """The file that is written when all of it is recorded."""
        return next((path for path in _outputs_inside(self.folder) if _INFO.fullmatch(path.name)), None)

    @property
    def rank(self) -> int | None:
        """The rank that writes it, None as long as nothing tells."""
        found = None if self.info is None else _INFO.fullmatch(self.info.name)
        return None if found is None or found[1] is None else int(found[1])

    @property
    def is_done(self) -> bool:
        """Whether its analysis has said that it ended."""
        return (self.folder / OUTPUT / ANALYSED).is_file()

    @property
    def has_trace(self) -> bool:
        """Whether a trace or a database has come out of its analysis."""
        place = self.folder / OUTPUT
        try:
            return (place / "trace_view.json").is_file() or bool(databases_in(place, Survey()))
        except OSError:
            return False

    @property
    def is_begun(self) -> bool:
        """Whether an analysis has begun."""
        exported = any((path / MSPROF_OUTPUT).is_dir() for path in _outputs_inside(self.folder))
        return exported or (self.folder / OUTPUT).is_dir()

    def state(self, unchanged: float) -> State:
        """How far it is, if nothing of it has changed for ``unchanged`` seconds."""
        if self.is_done:
            return "complete" if self.has_trace else "failed"
        if self.is_analysed and unchanged >= SETTLED:
            return "complete"
        if self.is_begun:
            return "analysing"
        if self.info is None:
            return "recording" if unchanged < QUIET else "broken"
        return "written" if unchanged < QUIET else "raw"

    @property
    def is_analysed(self) -> bool:
        """Whether a trace or a database has come out of its analysis, whole as far as the ends of its files tell."""
        files = _outputs_inside(self.folder / OUTPUT)
        whole = self.is_done or all(is_whole(file) for file in files if file.suffix in (".json", ".db"))
        return self.has_trace and whole

    def look(self) -> FolderLook:
        """How it looks now."""
        files = bytes = changed = 0
        for folder, _, names in os.walk(admitted(self.folder)):
            for name in names:
                try:
                    told = os.stat(os.path.join(folder, name))
                except OSError:
                    continue
                files, bytes, changed = files + 1, bytes + told.st_size, max(changed, told.st_mtime_ns)
        return FolderLook(files, bytes, changed)

    @property
    def steps(self) -> int | None:
        """How many steps it was asked to record, None where that is not told."""
        info = self.info
        try:
            if info is None:
                return None
            schedule = orjson.loads(read_regular(info, _MOST_INFO))["config"]["common_config"]["schedule"]
            return int(schedule["active"])
        except (OSError, ValueError, TypeError, KeyError):
            return None


def _outputs_inside(folder: Path) -> list[Path]:
    try:
        return paths_in(folder)
    except OSError:
        return []


def outputs_below(folder: Path, depth: int = _DEPTH) -> Iterator[Output]:
    """The profiles in ``folder``, or one or two folders deeper, by name."""
    for path in _outputs_inside(folder):
        if not path.is_dir():
            continue
        if _PROFILE.fullmatch(path.name):
            yield Output(path)
        elif depth and not path.is_symlink():
            yield from outputs_below(path, depth - 1)


class Size(Struct, frozen=True):
    """What a recording takes on the disk: ``bytes`` of each of ``ranks`` ranks for each of ``steps`` steps."""

    bytes: int
    ranks: int
    steps: int

    def of(self, ranks: int, steps: int) -> int:
        """Bytes of as many ranks and steps, by proportion."""
        return round(self.bytes / max(self.ranks * self.steps, 1) * ranks * steps)


def last_size(folder: Path) -> Size | None:
    """What the last recording of a rank in ``folder`` took; None without one that tells its steps."""
    known = [(output.folder.stat().st_mtime_ns, output) for output in outputs_below(folder) if output.steps]
    if not known:
        return None
    _, last = max(known, key=lambda entry: entry[0])
    return Size(last.look().bytes, 1, last.steps or 1)


class Followed:
    """A profile that is being written, looked at again and again; ``now`` is in seconds of one clock."""

    def __init__(self, output: Output, now: float) -> None:
        self.output = output
        self.seen = output.look()
        self._since = now

    def state(self, now: float) -> State:
        """How far it is."""
        look = self.output.look()
        if look != self.seen:
            self.seen, self._since = look, now
        return self.output.state(now - self._since)

    def unchanged(self, now: float) -> float:
        """Seconds since something of it changed."""
        return now - self._since


_MARK = re.compile(rb"ProfilerStep#(\d{1,18})\D")
_LONGEST = 32
"""Bytes of a mark of which only the beginning may have been read."""
# Read at one look: a rank records a few MB a second, and what is left over comes with the next look.
_MOST_BYTES = 16 << 20


class StepMarks:
    """The marks of steps in the raw data of the profile in ``folder``, read as they are written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}
        self._steps: set[bytes] = set()

    def over(self) -> int:
        """How many steps are over for certain; 0 also where nothing tells."""
        try:
            for path in paths_in(self._folder / "FRAMEWORK"):
                if path.name.endswith(".op_range"):
                    self._look(path)
        except OSError:  # it is not there yet
            pass
        return len(self._steps)

    def _look(self, path: Path) -> None:
        with open_regular(path) as file:
            begin = file.seek(max(self._read.get(path, 0) - _LONGEST, 0))
            content = file.read(_MOST_BYTES)
        self._steps.update(_MARK.findall(content))
        self._read[path] = begin + len(content)
