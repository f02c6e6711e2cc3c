"""Flags: named times and ranges of a trace, kept in a text file that people can read and write.

Sections of the file belong to traces, whatever path they are opened from::

    [1751342400002023870-173504320-9876] /data/rank0_ascend_pt
    12.345678ms  first stall
    30.058000ms..57.851000ms  the slow part
"""

from __future__ import annotations

import re
from bisect import insort
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from npu_tui.strings import say
from npu_tui.trace.model import Trace
from npu_tui.trace.text import exact_text, parse_duration, printable
from npu_tui.whole_file import write_file

LONGEST_NAME = 256
"""As in MindStudio Insight."""

_SECTION = re.compile(r"\[(?P<identity>[^\]]*)\]")
_FLAG = re.compile(r"(?P<start>[-+.\w]+?)(?:\.\.(?P<end>[-+.\w]+))?(?:\s+(?P<name>.*))?")


class Flag(Struct, frozen=True, order=True):
    """A named time, or a range if ``end`` is later than ``start``; ns relative to the trace start."""

    start: int
    end: int
    name: str

    @property
    def when(self) -> str:
        """The time or range as it stands in the file."""
        first = exact_text(self.start).replace(" ", "")
        return first if self.end == self.start else f"{first}..{exact_text(self.end).replace(' ', '')}"

    def shifted(self, by: int) -> Flag:
        """The same flag ``by`` ns later."""
        return replace(self, start=self.start + by, end=self.end + by)


def identity_of(trace: Trace) -> str:
    """What tells this trace from others, wherever its file lies."""
    return f"{trace.start_ns}-{trace.end}-{sum(trace.events.values())}"


def default_notes() -> Path:
    """The file of flags in the user's data directory."""
    from platformdirs import user_data_path

    return user_data_path("npu-tui", appauthor=False) / "flags.txt"


class Flags:
    """The flags of one trace, ascending by start; in ``path`` too unless that is None.

    A change reads the file again first, as other programs may write it; what is not a flag of this trace stays as it
    is. ``problem`` is one line if the file could not be read or written: the flags are then kept in memory only.
    """

    def __init__(self, trace: Trace, path: Path | None) -> None:
        self.all: list[Flag] = []
        self.problem = ""
        self._identity = identity_of(trace)
        self._title = _title(trace)
        self._path = path
        self._load()

    def keep_in(self, trace: Trace, path: Path | None) -> None:
        """From now on these are the flags of ``trace`` in ``path``; those that are here already are added to it."""
        before, self.problem = self.all, ""
        self._identity, self._title, self._path = identity_of(trace), _title(trace), path
        self._load()
        for flag in before:
            self.add(flag)

    def shift(self, by: int) -> None:
        """All flags are ``by`` ns later, as the trace begins earlier."""
        self.all = [flag.shifted(by) for flag in self.all]

    def add(self, flag: Flag) -> None:
        """Keep ``flag``."""
        self._change(None, replace(flag, name=printable(flag.name.strip())[:LONGEST_NAME]))

    def rename(self, flag: Flag, name: str) -> None:
        """Call ``flag`` something else."""
        self._change(flag, replace(flag, name=printable(name.strip())[:LONGEST_NAME]))

    def delete(self, flag: Flag) -> None:
        """Forget ``flag``."""
        self._change(flag, None)

    def at(self, low: int, high: int) -> Flag | None:
        """A flag that starts or ends in ``[low, high)`` ns."""
        return next((flag for flag in self.all if any(low <= time < high for time in (flag.start, flag.end))), None)

    def free_name(self, kind: str) -> str:
        """``kind`` with the first number that no flag has."""
        names = {flag.name for flag in self.all}
        return next(name for i in range(1, len(names) + 2) if (name := f"{kind}-{i}") not in names)

    def _change(self, old: Flag | None, new: Flag | None) -> None:
        before, own, after = self._load()
        if old in self.all:
            self.all.remove(old)
        if new is not None and new not in self.all:
            insort(self.all, new)
        if self._path is None or self.problem:
            return
        remarks = [line for line in own if _flag(_text(line)) is None]
        lines = [f"{flag.when}  {flag.name}".rstrip().encode() for flag in self.all]
        if not before and not after:
            before = [say("flags.head").encode()]
        head = [] if own else [f"[{self._identity}] {self._title}".encode()]
        self._write([*before, *head, *remarks[:1], *lines, *remarks[1:], *after])

    def _write(self, lines: list[bytes]) -> None:
        assert self._path is not None
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_file(self._path, b"\n".join(lines) + b"\n")
        except OSError as error:
            self._refuse(error)

    def _load(self) -> tuple[list[bytes], list[bytes], list[bytes]]:
        """The lines before, of and after the section of this trace."""
        if self._path is None or self.problem:
            return [], [], []
        try:
            # What is no file holds no flags, and a FIFO would be waited for.
            content = self._path.read_bytes() if self._path.is_file() or not self._path.exists() else b""
            lines = content.removesuffix(b"\n").split(b"\n") if content else []
        except FileNotFoundError:
            lines = []
        except OSError as error:
            self._refuse(error)
            return [], [], []
        heads = [
            (i, match["identity"]) for i, line in enumerate(lines) if (match := _SECTION.match(_text(line).strip()))
        ]
        first = next((i for i, identity in heads if identity == self._identity), len(lines))
        last = next((i for i, _ in heads if i > first), len(lines))
        self.all = sorted({flag for line in lines[first:last] if (flag := _flag(_text(line))) is not None})
        return lines[:first], lines[first:last], lines[last:]

    def _refuse(self, error: OSError) -> None:
        self.problem = say("flags.problem", path=printable(str(self._path)), why=error.strerror)


def _title(trace: Trace) -> str:
    return printable(str(Path(trace.path).absolute()))


def _text(line: bytes) -> str:
    """A line as it was typed: editors of a Chinese locale may write GBK."""
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("gb18030", "replace")


def _flag(line: str) -> Flag | None:
    match = _FLAG.fullmatch(line.strip())
    start = None if match is None else parse_duration(match["start"])
    if match is None or start is None:
        return None
    end = parse_duration(match["end"]) if match["end"] else start
    if end is None:
        return None
    return Flag(min(start, end), max(start, end), printable(match["name"] or "")[:LONGEST_NAME])
