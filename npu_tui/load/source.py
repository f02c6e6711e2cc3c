"""The source of a profiled program, where it lies at hand: found by the files of its frames, and checked against them.

A recording names files as they were called on its machine, often without their folder, and any name at all in a
hostile one. So only Python is looked for, through the door of all files, and shown only where every frame fits.
"""

from __future__ import annotations

import errno
import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from npu_tui.trace.message import Message, message
from npu_tui.trace.side_file import read_regular

# Bytes: over twice the largest module of PyTorch (``common_methods_invocations.py``, 1.4 MB). Larger is data.
_LARGEST = 4 << 20
_ABOVE = 3  # folders above a trace: its ``ASCEND_PROFILER_OUTPUT``, the profile, and what that was written into

_HEADING = re.compile(r"[ ]*(?:async +)?(?:def|class) +(?P<name>\w+)")
_CLOSING = ")]}"
"""What ends the arguments of a heading, as far left as that is."""
_SEPARATORS = re.compile(r"[/\\]+")
_TAB = 8
"""Python itself counts a tab up to the next multiple of so many columns."""

_given: list[Path] = []


def look_below(folder: Path) -> None:
    """From now on look for sources in ``folder``, before any other place."""
    if folder in _given:
        _given.remove(folder)
    _given.insert(0, folder)


def given_folders() -> tuple[Path, ...]:
    """The folders that the user has named, the last one first."""
    return tuple(_given)


class Heading(Struct, frozen=True):
    """A function or class: the line (from 1) that names it, and how many columns that is indented."""

    line: int
    indent: int
    name: str


class Source(Struct, frozen=True):
    """The file at ``path`` by lines, without their ends and tabs; ``headings`` are its functions and classes."""

    path: Path
    lines: list[str]
    headings: list[Heading]

    def around(self, line: int) -> list[Heading]:
        """The headings that ``line`` (from 1) may be inside of, outermost first."""
        found: list[Heading] = []
        indent = _indent(self.lines[line - 1])
        for heading in reversed(self.headings):
            if heading.line < line and heading.indent < indent:
                indent = heading.indent
                found.append(heading)
        return found[::-1]

    def end_of(self, heading: Heading) -> int:
        """The last line with code of what ``heading`` begins."""
        last = heading.line
        for number, text in enumerate(self.lines[heading.line :], heading.line + 1):
            first = text.lstrip()[:1]
            if first in ("", "#"):
                continue
            if first not in _CLOSING and _indent(text) <= heading.indent:
                break
            last = number
        return last

    def fits(self, line: int, function: str) -> bool:
        """Whether code of ``function`` can stand in ``line`` (from 1)."""
        text = self.lines[line - 1].strip() if 0 < line <= len(self.lines) else ""
        if not text or text.startswith("#"):
            return False
        if function.startswith("<"):  # a module, a lambda, a comprehension
            return True
        first = next((each for each in self.headings if each.line >= line), None)
        if first is not None and first.name == function and (first.line == line or text.startswith("@")):
            return True
        return any(heading.name == function for heading in self.around(line))


def source_of(file: str, frames: Iterable[tuple[int, str]], trace: Path) -> Source | Message | None:
    """The source that the recording at ``trace`` calls ``file``, None where it is not at hand.

    ``frames`` are lines (from 1), each with its function. A message says why the only file at hand is not shown.
    """
    frames, refused = list(frames), None
    for path in _candidates(file, trace):
        found = _read_source(path)
        if isinstance(found, Source):
            wrong = next(((line, function) for line, function in frames if not found.fits(line, function)), None)
            if wrong is None:
                return found
            found = message("source.other", path=str(path), line=wrong[0], function=wrong[1])
        refused = refused or found
    return refused


def _candidates(file: str, trace: Path) -> Iterator[Path]:
    """Where ``file`` may be: at its own place, then in the folders by the end of its path, the longest end first."""
    parts = [part for part in _SEPARATORS.split(file) if part]
    if not parts or not parts[-1].endswith(".py") or ".." in parts:
        return
    if file.startswith("/"):
        yield Path(file)
    for folder in (*_given, Path(), *_folders_above(trace)):
        for first in range(len(parts)):
            yield folder.joinpath(*parts[first:])


def _folders_above(trace: Path) -> Sequence[Path]:
    """Named as ``trace`` is, as far as its name has them."""
    with suppress(OSError):  # the current folder may be gone
        return (trace if len(trace.parents) > _ABOVE else trace.absolute()).parents[:_ABOVE]
    return trace.parents[:_ABOVE]


def _read_source(path: Path) -> Source | Message | None:
    """The source at ``path``, or why it is not one; None if no file can be read there."""
    try:
        raw = read_regular(path, _LARGEST)
    except OSError as error:
        return message("source.large", path=str(path)) if error.errno == errno.EFBIG else None
    if b"\0" in raw:
        return message("source.no_text", path=str(path))
    lines = _decoded_source(raw).expandtabs(_TAB).removesuffix("\n").split("\n")
    headings = [
        Heading(number, _indent(text), match["name"])
        for number, text in enumerate(lines, 1)
        if (match := _HEADING.match(text)) is not None
    ]
    return Source(path, lines, headings)


# What a first line may name; others, such as punycode, take a time that grows with the square of the size.
_ENCODINGS = frozenset(("utf-8", "utf-8-sig", "gbk", "gb2312", "gb18030", "big5", "iso-8859-1"))


def _decoded_source(raw: bytes) -> str:
    """``raw`` decoded as it names its encoding, with Python's line ends; invalid bytes are replaced."""
    try:
        named, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
    except SyntaxError:  # unknown, or not what the bytes are
        named = "utf-8"
    encoding = named if named in _ENCODINGS else "utf-8"
    return io.TextIOWrapper(io.BytesIO(raw), encoding, "replace").read()


def _indent(text: str) -> int:
    """The columns before the first character of ``text``."""
    return len(text) - len(text.lstrip(" "))
