"""What a format is: how its files are told from others, and what reads them. Each one is declared in ``formats``.

How the profilers lay out a profile is here too: its folders by their names, and how deep profiles lie.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field

from npu_tui.load.errors import Watcher
from npu_tui.load.json_chunks import CHUNK
from npu_tui.load.survey import Survey
from npu_tui.trace.model import Trace

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
    ``reader`` is the module in ``load`` that reads it, and its function: as most are heavy, it is imported by ``read``.
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

    def read(self, source: Source, watcher: Watcher, pace: ReadingPace) -> Trace:
        """The trace of ``source``. Raises ``InputError``, ``OSError``, ``Cancelled`` if the watcher says to stop."""
        trace: Trace = imported(self.reader)(source, watcher, pace)
        return trace


class Source(Struct, frozen=True):
    """What discovery found at ``opened``, which is what the user gave.

    ``files`` hold one trace together (several only for sliced msprof exports), ``path`` is the one that stands for
    them, or their folder; ``rank`` is None where nothing beside them tells it. ``twin`` is the same trace in the other
    form, where both lie side by side. ``survey`` is what has been seen of the folders around.
    """

    opened: Path
    path: Path
    files: Files
    rank: int | None
    format: Format
    twin: Path | None = None
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
