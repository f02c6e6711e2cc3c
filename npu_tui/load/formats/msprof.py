"""The text timeline of msprof: ``msprof_<time>.json``, a Chrome trace, in slices if it is long.

It lies in ``mindstudio_profiler_output`` of ``PROF_<number>``:
https://www.hiascend.com/document/detail/en/canncommercial/850/devaids/profiling/atlasprofiling_16_0056.html.
Up to CANN 7 msprof put ``msprof_<device>_<model>_<iteration>.json`` into ``device_<number>/timeline`` of that folder,
or only ``task_time_<...>.json``. Of several exports the last one counts; all slices of an export are one trace.
"""

from __future__ import annotations

import re
from pathlib import Path

from npu_tui.load.format import JSON, Files, Format, Source, Survey, form_of, named, rank_of

_WHOLE = re.compile(r"msprof_\d+\.json(?:\.gz)?")
_SLICE = re.compile(r"msprof_slice_(\d+)_(\d+)\.json(?:\.gz)?")
_OLD = re.compile(r"msprof(?:_\d+){2,3}\.json(?:\.gz)?")
_OLD_TASKS = re.compile(r"task_time(?:_\d+){1,3}\.json(?:\.gz)?")
NAMES = (_WHOLE, _SLICE, _OLD, _OLD_TASKS)


def _traces(folder: Path, survey: Survey) -> list[Files]:
    files = named(folder, survey, *NAMES)
    if files and _WHOLE.fullmatch(files[0].name):
        return [(files[-1],)]
    slices = [(match[2], file) for file in files if (match := _SLICE.fullmatch(file.name))]
    return [_whole_export(max(slices)[1], survey)] if slices else [(file,) for file in files]


def _whole_export(file: Path, survey: Survey) -> Files:
    """All slices of the export that ``file`` is a slice of, in their order; any other file alone."""
    match = _SLICE.fullmatch(file.name)
    if match is None:
        return (file,)
    slices: dict[int, Path] = {}
    for sibling in reversed(survey.files(file.parent)):  # an unpacked slice comes after its packed twin
        other = _SLICE.fullmatch(sibling.name)
        if other and other[2] == match[2]:
            slices[int(other[1])] = sibling
    return tuple(slices[number] for number in sorted(slices))


def _recognise(path: Path, survey: Survey) -> Source | None:
    if not path.name.startswith("msprof") or not path.name.endswith(JSON) or form_of(path, survey) != "text":
        return None
    files = _whole_export(path, survey)
    return Source(path, path, files, rank_of(files[0], survey), MSPROF, survey=survey)


MSPROF = Format("msprof_json", _recognise, "text_trace.read_or_tables", _traces, "text")
