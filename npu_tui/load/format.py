"""What a format is: how its files are recognised, and what reads them. Each one is declared in ``formats``.

It also knows how the profilers lay out a profile: the names of its folders, and how deep profiles lie.

A ``Survey`` lists each folder once, and reads the first bytes of each file once.

``find`` makes one and leaves it with the ``Source``, for all that look beside a trace. It does not see later changes:
to wait for some, make a new one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from fnmatch import filter as matching
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from msgspec import Struct, field

from npu_tui.load.json_chunks import CHUNK
from npu_tui.trace.side_file import admitted, head_of

T = TypeVar("T")

HEAD = 64 << 10
"""Bytes of the beginning of a file that its format is recognised by: the schema of a database fits in."""

# Heads that are kept: a file is judged by all formats one after the other, and each ``answer`` is kept for good.
_MOST_HEADS = 64


class Survey:
    """What is known of folders and files so far; what could not be read is looked at again."""

    def __init__(self) -> None:
        self._listed: dict[tuple[int, int], dict[str, bool | None]] = {}
        self._heads: dict[Path, bytes] = {}
        self._answers: dict[tuple[object, Path], object] = {}

    def __eq__(self, other: object) -> bool:
        """Sources are equal whichever survey found them."""
        return isinstance(other, Survey)

    def __hash__(self) -> int:
        return hash(Survey)

    def _entries(self, folder: Path) -> dict[str, bool | None]:
        """The names in ``folder``, sorted; True for a folder, False for a file, None for anything else."""
        status = os.stat(folder)
        key = status.st_dev, status.st_ino
        if key not in self._listed:
            found: dict[str, bool | None] = {}
            with os.scandir(admitted(folder)) as entries:
                for entry in entries:
                    found[entry.name] = None
                    with suppress(OSError):  # a link that leads nowhere, or in a circle
                        found[entry.name] = True if entry.is_dir() else False if entry.is_file() else None
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
        """Like ``folder.glob`` without ``**``, by path; nothing of a folder that cannot be read."""
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

        What the caller takes out of that list is not looked into, as with ``os.walk``. The folders on the last of the
        ``levels``, and those that may not be read, come with an empty list.
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

    def answer(self, ask: Callable[[Path, Survey], T], path: Path) -> T:
        """What ``ask`` says of ``path``, asked once."""
        key = ask, path
        if key not in self._answers:
            self._answers[key] = ask(path, self)
        return cast(T, self._answers[key])


Form = Literal["text", "db"]
"""The two forms in which the profilers export a trace."""

JSON = (".json", ".json.gz")
"""How the names of texts end, packed or not."""

SQLITE = b"SQLite format 3\0"
"""How every database begins (https://www.sqlite.org/fileformat.html)."""

Files = tuple[Path, ...]
"""The files of one trace, several only for sliced exports of msprof; the first one stands for them."""


class ReadingPace(Struct, frozen=True):
    """How many bytes of a text are taken in at a time: ``range_bytes`` by a thread, 0 for what suits the file."""

    chunk_size: int = CHUNK
    range_bytes: int = 0


def imported(name: str) -> Any:
    """The function ``name`` of ``load``, such as ``database.read_database``."""
    module, _, function = name.rpartition(".")
    return getattr(import_module(f"npu_tui.load.{module}"), function)


def _no_traces(folder: Path, survey: Survey) -> list[Files]:
    return []  # a function with a name: sources go to other processes with their format


class Format(Struct, frozen=True):
    """One format of a file or a folder.

    ``kind`` is its name. ``recognise`` makes the source of a file or a folder of this format, None for any other.
    ``reader`` is the module in ``load`` that reads it, and its function: as most are heavy, it is ``imported``
    to read. It takes the source, a ``Watcher`` and a ``ReadingPace``, and raises ``InputError``, ``OSError``, or
    ``Cancelled`` if the watcher says to stop.
    ``companions`` is named so too: what reads the tables beside a trace, "" where they are plain files.
    ``traces`` finds those in a folder by the names that its writer gives them, in ``form``. With ``is_folder`` a folder
    is read as a whole. What is no profile of a device (``is_profile``) has no parsed copy and nothing beside it.
    """

    kind: str
    recognise: Callable[[Path, Survey], Source | None]
    reader: str
    traces: Callable[[Path, Survey], list[Files]] = _no_traces
    form: Form | None = None
    is_folder: bool = False
    is_profile: bool = True
    companions: str = ""


class Source(Struct, frozen=True):
    """What discovery found at ``opened``, which is what the user gave.

    ``files`` hold one trace together (several only for sliced msprof exports), ``path`` is the one that stands for
    them, or their folder; ``rank`` is None where nothing beside them says it. ``survey`` is what has been seen of the
    folders around.
    """

    opened: Path
    path: Path
    files: Files
    rank: int | None
    format: Format
    survey: Survey = field(default_factory=Survey)

    @property
    def kind(self) -> str:
        """The name of its format."""
        return self.format.kind

    @property
    def is_directory(self) -> bool:
        """Whether a directory was opened, not a file in it."""
        return self.opened != self.path

    @property
    def folder(self) -> Path | None:
        """Where companion files lie; None where there is no folder."""
        if self.format.is_folder:
            return self.path
        return self.files[0].parent if self.files else None


_INFO = re.compile(r"profiler_info_(\d{1,5})\.json")
RANK_IN_NAME = re.compile(r"rank[_-]?(\d{1,5})(?!\d)", re.IGNORECASE)


def rank_above(file: Path, survey: Survey) -> int | None:
    """The rank named by the first ``profiler_info_<rank>.json`` two directories up, as torch_npu lays profiles out."""
    try:
        above = survey.names(Path(os.path.realpath(file.parent)).parent)
    except OSError:
        return None
    return next((int(match[1]) for name in above if (match := _INFO.fullmatch(name))), None)


def rank_of(file: Path, survey: Survey) -> int | None:
    """The rank that lies above ``file``, else the one in its name."""
    rank, named = rank_above(file, survey), RANK_IN_NAME.search(file.name)
    return int(named[1]) if rank is None and named else rank


def named(folder: Path, survey: Survey, *patterns: re.Pattern[str]) -> list[Path]:
    """The files in ``folder`` of the first of ``patterns`` that is the whole name of any, by name.

    Those that are packed and lie unpacked beside are left out. Raises ``OSError`` if the folder cannot be read.
    """
    files = survey.files(folder)
    for pattern in patterns:
        if found := [file for file in files if pattern.fullmatch(file.name)]:
            return [file for file in found if file.suffix != ".gz" or file.with_suffix("") not in found]
    return []


def form_of(file: Path, survey: Survey | None = None) -> Form:
    """What ``file`` is, by its name, else by its first bytes."""
    return "db" if file.suffix == ".db" or (survey or Survey()).head(file, len(SQLITE)) == SQLITE else "text"


OUTPUT = "ASCEND_PROFILER_OUTPUT"
MSPROF_OUTPUT = "mindstudio_profiler_output"
OUTPUTS = (OUTPUT, MSPROF_OUTPUT)
"""The folders of a profile that hold what was parsed."""
TIMELINE = "timeline"
"""That of the exports of CANN up to 7."""

LEVELS, MOST_FOLDERS = 5, 1000
"""Levels of folders, and folders, that are looked through for profiles, levels as MindStudio Insight does."""

_OLD_DEVICE = re.compile(r"device_\d+")
_CAPTURES = re.compile(r".*capture.*", re.IGNORECASE)
"""Folders that serving engines write the capture of their graphs into, such as ``capture_traces`` of vLLM."""
_PACKED = re.compile(
    r".*\.(?:zip|tar|tgz|tar\.gz|xz|zst|bz2|lz4|7z|rar|sqlite|parquet|pftrace|perfetto-trace)", re.IGNORECASE
)


def timelines_in(folder: Path, survey: Survey) -> list[Path]:
    """The folders of timelines in the export at ``folder`` as CANN up to 7 lays them out, one a device."""
    devices = [child for child in survey.folders(folder, "device_*") if _OLD_DEVICE.fullmatch(child.name)]
    return [place for parent in (folder, *devices) for place in survey.folders(parent, TIMELINE)]


def packed_in(folder: Path, survey: Survey) -> list[Path]:
    """The archives in ``folder``, and files of other tools, by name."""
    return [file for file in survey.files(folder) if _PACKED.fullmatch(file.name)]


def table_of_export(path: Path, survey: Survey) -> Path | None:
    """The first table of an msprof export at ``path`` that has no timeline; None without one."""
    for folder in (path, *survey.folders(path, "PROF_*")):
        for pattern in (f"{MSPROF_OUTPUT}/*.csv", "device_*/summary/*.csv", "summary/*.csv", "op_summary_*.csv"):
            for table in survey.glob(folder, pattern):
                return table
    return None


def is_part(folder: Path) -> bool:
    """Whether ``folder`` is a part of the profile it lies in, by its name."""
    if folder.name.startswith("PROF_"):
        return (folder.parent / OUTPUT).is_dir()  # the raw data of what was parsed
    return folder.name in (*OUTPUTS, TIMELINE) or _OLD_DEVICE.fullmatch(folder.name) is not None or is_capture(folder)


def is_capture(folder: Path) -> bool:
    """Whether ``folder`` holds the capture of graphs that a profile beside it replays, by its name."""
    return _CAPTURES.fullmatch(folder.name) is not None
