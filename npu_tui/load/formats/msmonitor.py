"""Records of msMonitor's npu-monitor as lines of JSON: ``msmonitor_<process>_<time>_<rank>.jsonl``.

With ``--export-type Jsonl`` it writes what MSPTI tells one record a line, in files of 10,000 lines each that follow one
another; the records are those of its database (``docs`` and ``plugin/ipc_monitor`` of
https://gitcode.com/Ascend/msmonitor). All files of one process and rank are one recording.
"""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path

from npu_tui.load.format import Files, Format, Source, Survey, named

NAME = re.compile(r"msmonitor_(\d+)_([\d-]+)_(-?\d+)\.jsonl")


def _process_and_rank(file: Path) -> tuple[str, str]:
    """The process and the rank that ``file`` is named after."""
    process, _, rank = NAME.fullmatch(file.name).groups()  # type: ignore[union-attr]
    return process, rank


def _traces(folder: Path, survey: Survey) -> list[Files]:
    files = sorted(named(folder, survey, NAME), key=lambda file: (_process_and_rank(file), file.name))
    return [tuple(own) for _, own in groupby(files, _process_and_rank)]


def _recognise(path: Path, survey: Survey) -> Source | None:
    if not NAME.fullmatch(path.name):
        return None
    files = next((files for files in _traces(path.parent, survey) if path in files), (path,))
    rank = int(_process_and_rank(path)[1])
    return Source(path, path, files, rank if rank >= 0 else None, MSMONITOR, survey=survey)


MSMONITOR = Format("msmonitor", _recognise, "database.read_records", _traces, "db")
