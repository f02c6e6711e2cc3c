"""How the profilers lay out a profile: its folders by their names, and how deep profiles lie.

What the files in them are called, their formats say (``formats``); each of those names the page that describes it.
"""

from __future__ import annotations

import re
from pathlib import Path

from npu_tui.load.survey import Survey

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
