"""Texts in Chrome's Trace Event Format, by who writes them: torch_npu, msprof, PyTorch's Kineto, and any other tool.

https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU. An array of events, or an object with
``traceEvents``; packed by gzip too. What is not recognised as anything else is read as this, so that its reader says
what is wrong with it. In a folder only files count that begin so.

torch_npu and MindSpore write ``trace_view.json`` into ``ASCEND_PROFILER_OUTPUT`` of a folder a rank (``..._ascend_pt``,
``..._ascend_ms``), with tables beside it and ``profiler_info_<rank>.json`` above. A copy under a longer name
(``trace_view_rank0.json``) is read alike.

msprof writes ``msprof_<time>.json``, in slices if it is long, into ``mindstudio_profiler_output`` of ``PROF_<number>``.
Up to CANN 7 it put ``msprof_<device>_<model>_<iteration>.json`` into ``device_<number>/timeline`` of that folder, or
only ``task_time_<...>.json``. Among several exports the last one counts; all slices of an export are one trace. Both:
https://www.hiascend.com/document/detail/en/canncommercial/850/devaids/profiling/atlasprofiling_16_0056.html.

Kineto writes ``<worker>.<time>.pt.trace.json`` on GPUs and CPUs
(https://github.com/pytorch/kineto/blob/main/tb_plugin/README.md); verl calls them ``prof_rank-0_031847.json.gz``. They
are read for comparisons with a GPU: what Kineto leaves out, ``load.kineto`` adds to every trace that looks like one,
whatever its name.
"""

from __future__ import annotations

import re
import zlib
from pathlib import Path

from npu_tui.load.format import HEAD, JSON, Files, Format, Source, Survey, form_of, named, rank_above, rank_of
from npu_tui.load.unpack import MAGIC

# Traces that a user copied out of their profiles, such as ``trace_view_rank0.json``.
_COPIED = re.compile(r"(?=.*trace)(?:.*trace_view.*|.*rank[_-]?\d.*)\.json(?:\.gz)?", re.IGNORECASE)
# Files that may be traces under other names.
_ANY = re.compile(r"(?!profiler_|communication|cluster_|chrome_tracing\.).*\.json(?:\.gz)?")
_BEGINS = re.compile(rb'\s*(?:\xef\xbb\xbf)?[\[{].*?"(?:ph|traceEvents|schemaVersion|distributedInfo)"\s*:', re.DOTALL)


def _traces(folder: Path, survey: Survey) -> list[Files]:
    return [(file,) for file in named(folder, survey, _COPIED)]


def named_otherwise(folder: Path, survey: Survey) -> list[Path]:
    """The files in ``folder`` that may be traces under other names, by name."""
    return named(folder, survey, _ANY) if folder.is_dir() else []


def begins_as_trace(file: Path, survey: Survey) -> bool:
    """Whether ``file`` begins as a text of events does; not where it cannot be read."""
    head = survey.head(file, HEAD)
    if head.startswith(MAGIC):
        try:
            head = zlib.decompressobj(31).decompress(head, HEAD)
        except zlib.error:
            return False
    return _BEGINS.match(head) is not None


def rank_in(path: Path, survey: Survey) -> int | None:
    """The rank of a trace by the folders around it, by what Kineto says in it, or by its name."""
    rank = rank_above(path, survey)
    if rank is None and path.is_file():
        from npu_tui.load.kineto import distributed  # most traces are of an NPU

        rank = survey.answer(distributed, path).rank
    return rank_of(path, survey) if rank is None else rank


def _recognise(path: Path, survey: Survey) -> Source:
    return Source(path, path, (path,), rank_in(path, survey), CHROME, survey=survey)


CHROME = Format("json", _recognise, "text_trace.read_other", _traces, "text")


KINETO_NAME = re.compile(r".*\.pt\.trace\.json(?:\.gz)?")
_VERL = re.compile(r"(?:.*_)?prof_rank[-_]\d.*\.json(?:\.gz)?")


def _traces_of_kineto(folder: Path, survey: Survey) -> list[Files]:
    return [(file,) for file in named(folder, survey, KINETO_NAME, _VERL)]


def _recognise_kineto(path: Path, survey: Survey) -> Source | None:
    named_so = KINETO_NAME.fullmatch(path.name) or _VERL.fullmatch(path.name)
    if not named_so or form_of(path, survey) != "text":
        return None
    return Source(path, path, (path,), rank_in(path, survey), KINETO, survey=survey)


KINETO = Format("json", _recognise_kineto, "text_trace.read_other", _traces_of_kineto, "text")


_WHOLE = re.compile(r"msprof_\d+\.json(?:\.gz)?")
_SLICE = re.compile(r"msprof_slice_(\d+)_(\d+)\.json(?:\.gz)?")
_OLD = re.compile(r"msprof(?:_\d+){2,3}\.json(?:\.gz)?")
_OLD_TASKS = re.compile(r"task_time(?:_\d+){1,3}\.json(?:\.gz)?")
MSPROF_NAMES = (_WHOLE, _SLICE, _OLD, _OLD_TASKS)


def _traces_of_msprof(folder: Path, survey: Survey) -> list[Files]:
    files = named(folder, survey, *MSPROF_NAMES)
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


def _recognise_msprof(path: Path, survey: Survey) -> Source | None:
    if not path.name.startswith("msprof") or not path.name.endswith(JSON) or form_of(path, survey) != "text":
        return None
    files = _whole_export(path, survey)
    return Source(path, path, files, rank_of(files[0], survey), MSPROF, survey=survey)


MSPROF = Format("msprof_json", _recognise_msprof, "text_trace.read_or_tables", _traces_of_msprof, "text")


_TORCH_NPU_NAME = re.compile(r"trace_view\.json(?:\.gz)?")


def _traces_of_torch_npu(folder: Path, survey: Survey) -> list[Files]:
    return [(file,) for file in named(folder, survey, _TORCH_NPU_NAME)[:1]]


def _recognise_torch_npu(path: Path, survey: Survey) -> Source | None:
    if not path.name.startswith("trace_view") or not path.name.endswith(JSON) or form_of(path, survey) != "text":
        return None
    return Source(path, path, (path,), rank_of(path, survey), TORCH_NPU, survey=survey)


TORCH_NPU = Format("trace_view_json", _recognise_torch_npu, "text_trace.read_or_tables", _traces_of_torch_npu, "text")
