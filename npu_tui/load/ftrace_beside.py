"""The recording of the scheduler beside a profile: where it lies, on which clock, and whose threads are in it.

msprof writes ``start_info`` {clockMonotonicRaw ns, collectionTimeBegin us}, torch_npu the end of its run by
CLOCK_MONOTONIC into ``profiler_info_<rank>.json``; ``pid_mapping.json`` is of MindStudio Insight's recorder.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from npu_tui.load.companions import companions_of
from npu_tui.load.documents import read_document
from npu_tui.load.format import OUTPUTS, Source, Survey
from npu_tui.load.formats.ftrace import recording_in
from npu_tui.trace.scheduling import Scheduling

_CLOCKS = ("start_info", "PROF_*/start_info", "*/start_info", "PROF_*/*/start_info*", "start_info.*")
_MOST_CLOCKS = 8


@lru_cache(maxsize=1)
def _loaded(path: Path, size: int, changed: int) -> Scheduling:
    from npu_tui.load.ftrace import load_scheduling  # few profiles have one beside them

    return load_scheduling(path)


class Mapped(Struct, frozen=True):
    """A thread by the numbers of the host: its process, and the number that its container has for it."""

    task: int
    process: int
    inside: int


class Recording(Struct, frozen=True):
    """The recording at ``path``; ``offsets`` are what may have to be added to its times to be those of the profile, ns.

    ``threads`` are empty without a ``pid_mapping.json``.
    """

    path: Path
    offsets: tuple[int, ...]
    threads: tuple[Mapped, ...]

    def load(self) -> Scheduling:
        """What it holds, read once for all ranks of a host; raises as ``load_ftrace``."""
        status = self.path.stat()
        return _loaded(self.path, status.st_size, status.st_mtime_ns)


def recording_beside(source: Source) -> Recording | None:
    """The recording beside the profile, in its folders or in that of its job; None without any."""
    folder = source.folder
    if folder is None or not source.format.is_profile:
        return None
    folder = folder.resolve()
    places = [folder, *(folder.parents[:2] if folder.name in OUTPUTS else ())]
    path = next((path for place in places if (path := recording_in(place, source.survey)) is not None), None)
    if path is None:
        return None
    infos = [info for place in (path.parent, *places[:2]) for info in _infos(place, source.survey)]
    offsets = dict.fromkeys(offset for info in infos if (offset := _raw_clock(info)) is not None)
    end = companions_of(source).profiler_info.get("end_info")
    if isinstance(end, dict) and isinstance(utc := end.get("collectionTimeEnd"), int):
        monotonic = end.get("MonotonicTimeEnd")
        if isinstance(monotonic, int):
            offsets[utc - monotonic] = None
    mappings = (read_document(place / "pid_mapping.json").value for place in (path.parent, *places))
    threads = next((_mapped(value) for value in mappings if isinstance(value, dict)), ())
    return Recording(path, tuple(offsets), threads)


def _infos(place: Path, survey: Survey) -> list[dict[str, Any]]:
    files = [file for pattern in _CLOCKS for file in survey.glob(place, pattern)][:_MOST_CLOCKS]
    return [value for file in files if isinstance(value := read_document(file).value, dict)]


def _last_whole_number(value: object) -> int | None:
    text = str(value).split()[-1:]
    return int(text[0]) if text and text[0].isascii() and text[0].isdecimal() and len(text[0]) < 19 else None


def _raw_clock(info: dict[str, Any]) -> int | None:
    raw, utc = _last_whole_number(info.get("clockMonotonicRaw")), _last_whole_number(info.get("collectionTimeBegin"))
    return None if raw is None or utc is None or utc > 1 << 53 else utc * 1000 - raw


def _mapped(value: dict[str, Any]) -> tuple[Mapped, ...]:
    """The threads of a mapping; of a thread in nested containers the number of the innermost one counts."""
    rows = [
        (_last_whole_number(task), _last_whole_number(row.get("Tgid", task)), _last_whole_number(row.get("NSpid")))
        for task, row in value.items()
        if isinstance(row, dict)
    ]
    return tuple(
        Mapped(task, task if process is None else process, inside)
        for task, process, inside in rows
        if task is not None and inside is not None
    )
