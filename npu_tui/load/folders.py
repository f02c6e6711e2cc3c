"""The folders in a folder, and those below it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def folders_in(folder: Path, pattern: str = "*") -> list[Path]:
    """The folders in ``folder``, by name."""
    return [child for child in sorted(folder.glob(pattern)) if child.is_dir()]


def walk(folder: Path, levels: int) -> Iterator[tuple[Path, list[Path]]]:
    """``folder`` and those below it, level by level, each with the folders in it; hidden ones are passed over.

    What the caller takes out of that list is not looked into, as with ``os.walk``. Those on the last of the ``levels``
    come with an empty list, as do those that may not be read.
    """
    level = [folder]
    for number in range(levels + 1):
        deeper: list[Path] = []
        for place in level:
            children: list[Path] = []
            with suppress(OSError):
                if number < levels:
                    children = [child for child in folders_in(place) if not child.name.startswith(".")]
            yield place, children
            deeper += children
        level = deeper
