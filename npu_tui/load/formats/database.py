"""The database of torch_npu, MindSpore, msprof and msMonitor: a whole profile with its tables in one file of SQLite.

torch_npu and MindSpore put ``ascend_(pytorch|mindspore)_profiler[_<rank>].db`` where the text would lie, msprof
``msprof_<time>.db`` beside ``PROF_<number>``; the tables are those of
https://gitcode.com/Ascend/msprof (docs, ``db_output``) and
https://www.hiascend.com/document/detail/en/canncommercial/850/devaids/profiling/atlasprofiling_16_0056.html.

With ``--export-type Jsonl`` msMonitor's npu-monitor writes the same records as lines of JSON, those of MSPTI one a
line: ``msmonitor_<process>_<time>_<rank>.jsonl``, files of 10,000 lines each that follow one another (``docs`` and
``plugin/ipc_monitor`` of https://gitcode.com/Ascend/msmonitor). All files of a process and rank are one recording.
"""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path

from npu_tui.load.format import Files, Format, Source, Survey, form_of, named, rank_above

_FRAMEWORK = re.compile(r"(?:ascend_pytorch_profiler|ascend_mindspore_profiler)(?:_(\d{1,5}))?\.db")
OF_MSPROF = re.compile(r"(?:msprof|msmonitor)_[\d_-]+\.db")


def _traces(folder: Path, survey: Survey) -> list[Files]:
    # A database of the framework's profiler has all that msprof's has, of which the last one counts.
    files = named(folder, survey, _FRAMEWORK) or named(folder, survey, OF_MSPROF)[-1:]
    return [(file,) for file in files]


def databases_in(folder: Path, survey: Survey) -> list[Path]:
    """All databases in ``folder`` that hold a trace by their names."""
    return named(folder, survey, _FRAMEWORK) + named(folder, survey, OF_MSPROF)


def _recognise(path: Path, survey: Survey) -> Source | None:
    if form_of(path, survey) != "db":
        return None
    rank, match = rank_above(path, survey), _FRAMEWORK.fullmatch(path.name)
    rank = int(match[1]) if rank is None and match and match[1] else rank
    return Source(path, path, (path,), rank, DATABASE, survey=survey)


DATABASE = Format(
    "database", _recognise, "database.read_database", _traces, "db", companions="database_companions.companions_in"
)


MSMONITOR_NAME = re.compile(r"msmonitor_(\d+)_([\d-]+)_(-?\d+)\.jsonl")


def _process_and_rank(file: Path) -> tuple[str, str]:
    """The process and the rank that ``file`` is named after."""
    process, _, rank = MSMONITOR_NAME.fullmatch(file.name).groups()  # type: ignore[union-attr]
    return process, rank


def _traces_of_msmonitor(folder: Path, survey: Survey) -> list[Files]:
    files = sorted(named(folder, survey, MSMONITOR_NAME), key=lambda file: (_process_and_rank(file), file.name))
    return [tuple(own) for _, own in groupby(files, _process_and_rank)]


def _recognise_msmonitor(path: Path, survey: Survey) -> Source | None:
    if not MSMONITOR_NAME.fullmatch(path.name):
        return None
    files = next((files for files in _traces_of_msmonitor(path.parent, survey) if path in files), (path,))
    rank = int(_process_and_rank(path)[1])
    return Source(path, path, files, rank if rank >= 0 else None, MSMONITOR, survey=survey)


MSMONITOR = Format("msmonitor", _recognise_msmonitor, "database.read_records", _traces_of_msmonitor, "db")
