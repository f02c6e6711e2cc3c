"""Every profile below a folder, however they lie there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npu_tui.ingest.errors import InputError
from npu_tui.ingest.source.find import MOST_FOLDERS, OUTPUTS, Source, find_source, folders_in, sources_in

_LEVELS = 4


def sources_below(folder: Path) -> Iterator[Source]:
    """The profiles in ``folder`` and some levels down; one is not searched for others.

    Of a tree of very many folders only the first ones, level by level, are looked into.
    """
    level, looked = [folder], 0
    for _ in range(_LEVELS):
        deeper: list[Path] = []
        for place in level:
            looked += 1
            if looked > MOST_FOLDERS:
                return
            found = sources_in(place)
            yield from found
            if not found or place == folder:
                deeper += [child for child in _children(place) if child.name not in OUTPUTS]
        level = deeper


def _children(place: Path) -> list[Path]:
    try:
        return [child for child in folders_in(place) if not child.name.startswith(".")]
    except OSError:  # not ours to read
        return []


def home_of(source: Source) -> Path:
    """What opens ``source`` and names it best: the folder of its profile, or its file where that is one of several."""
    if source.kind == "companions":
        return source.opened
    file = source.path
    home = file.parent.parent if file.parent.name in OUTPUTS else file.parent
    above = home.parent
    for place in ([above] if home.name.startswith("PROF_") else []) + [home]:
        try:
            if find_source(place).files == source.files:
                return place
        except (InputError, OSError):  # several, none, or not to be read: the file itself names it
            continue
    return file
