"""A survey of folders and files: each folder is listed once, and the first bytes of each file are read once.

``find`` makes one and leaves it with the ``Source``, for all that look beside a trace. It does not see what changes
later: whoever waits for changes makes a new one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from fnmatch import filter as matching
from pathlib import Path
from typing import TypeVar, cast

from npu_tui.trace.side_file import admitted, head_of

T = TypeVar("T")

HEAD = 64 << 10
"""Bytes of the beginning of a file that tell its format: the schema of a database fits in."""

# Heads that are kept: a file is judged by all formats one after the other, and what was ``told`` is kept for good.
_MOST_HEADS = 64


class Survey:
    """What is known of folders and files so far; what could not be read is looked at again."""

    def __init__(self) -> None:
        self._listed: dict[tuple[int, int], dict[str, bool | None]] = {}
        self._heads: dict[Path, bytes] = {}
        self._told: dict[tuple[object, Path], object] = {}

    def __eq__(self, other: object) -> bool:
        """Sources are equal whoever has looked for them."""
        return isinstance(other, Survey)

    def __hash__(self) -> int:
        return hash(Survey)

    def _entries(self, folder: Path) -> dict[str, bool | None]:
        """The names in ``folder``, sorted; True for a folder, False for a file, None for anything else."""
        status = os.stat(folder)
        key = status.st_dev, status.st_ino
        if key not in self._listed:
            with os.scandir(admitted(folder)) as entries:
                found = {entry.name: _is_folder(entry) for entry in entries}
            self._listed[key] = dict(sorted(found.items()))
        return self._listed[key]

    def names(self, folder: Path) -> list[str]:
        """The names in ``folder``, sorted. Raises ``OSError`` if it cannot be read."""
        return [*self._entries(folder)]

    def files(self, folder: Path) -> list[Path]:
        """The files in ``folder``, by name; links to files too. Raises ``OSError`` if it cannot be read."""
        return [folder / name for name, is_folder in self._entries(folder).items() if is_folder is False]

    def folders(self, folder: Path, pattern: str = "*") -> list[Path]:
        """The folders in ``folder`` whose names match ``pattern``, by name; none of one that cannot be read."""
        entries: dict[str, bool | None] = {}
        with suppress(OSError):
            entries = self._entries(folder)
        return [folder / name for name in matching(entries, pattern) if entries[name]]

    def glob(self, folder: Path, pattern: str) -> list[Path]:
        """As ``folder.glob`` without ``**``, by path; nothing of a folder that cannot be read."""
        above, _, last = pattern.rpartition("/")
        places = [folder]
        for part in filter(None, above.split("/")):
            places = [child for place in places for child in self.folders(place, part)]
        found: list[Path] = []
        for place in places:
            with suppress(OSError):
                found += [place / name for name in matching(self._entries(place), last)]
        return found

    def walk(self, folder: Path, levels: int) -> Iterator[tuple[Path, list[Path]]]:
        """``folder`` and those below it, level by level, each with the folders in it; hidden ones are passed over.

        What the caller takes out of that list is not looked into, as with ``os.walk``. Those on the last of the
        ``levels`` come with an empty list, as do those that may not be read.
        """
        level = [folder]
        for number in range(levels + 1):
            deeper: list[Path] = []
            for place in level:
                children = self.folders(place) if number < levels else []
                children = [child for child in children if not child.name.startswith(".")]
                yield place, children
                deeper += children
            level = deeper

    def head(self, file: Path, count: int = HEAD) -> bytes:
        """The first ``count`` bytes of ``file``, at most ``HEAD``; nothing of one that cannot be read."""
        head = self._heads.get(file)
        if head is None:
            while len(self._heads) >= _MOST_HEADS:
                self._heads.pop(next(iter(self._heads)), None)
            head = self._heads[file] = head_of(file, HEAD)
        return head[:count]

    def told(self, ask: Callable[[Path, Survey], T], path: Path) -> T:
        """What ``ask`` says of ``path``, asked once."""
        key = ask, path
        if key not in self._told:
            self._told[key] = ask(path, self)
        return cast(T, self._told[key])


def _is_folder(entry: os.DirEntry[str]) -> bool | None:
    with suppress(OSError):  # a link that leads nowhere, or in a circle
        return True if entry.is_dir() else False if entry.is_file() else None
    return None
