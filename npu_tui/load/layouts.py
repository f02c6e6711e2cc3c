"""How the profilers lay out a profile: the traces and the tables that lie in one folder, by their names.

torch_npu and MindSpore put ``trace_view.json`` or a database into ``ASCEND_PROFILER_OUTPUT`` of a folder a rank
(``..._ascend_pt``, ``..._ascend_ms``), msprof ``msprof_<time>.json`` into ``mindstudio_profiler_output`` of
``PROF_<number>``, in slices if it is long, and its database beside that folder:
https://www.hiascend.com/document/detail/en/canncommercial/850/devaids/profiling/atlasprofiling_16_0056.html.
Up to CANN 7 msprof put ``msprof_<device>_<model>_<iteration>.json`` into ``device_<number>/timeline`` of that folder.
A file of any other name is a trace if its content begins as one.
"""

from __future__ import annotations

import glob
import os
import re
import zlib
from pathlib import Path
from typing import Literal

from npu_tui.load.folders import folders_in
from npu_tui.load.unpack import MAGIC
from npu_tui.trace.side_file import head_of

OUTPUT = "ASCEND_PROFILER_OUTPUT"
MSPROF_OUTPUT = "mindstudio_profiler_output"
OUTPUTS = (OUTPUT, MSPROF_OUTPUT)
"""The folders of a profile that hold what was parsed."""
TIMELINE = "timeline"
"""That of the exports of CANN up to 7."""

_TRACE = re.compile(r"trace_view\.json(?:\.gz)?")
_MSPROF = re.compile(r"msprof_\d+\.json(?:\.gz)?")
_SLICE = re.compile(r"msprof_slice_(\d+)_(\d+)\.json(?:\.gz)?")
_OLD = re.compile(r"msprof(?:_\d+){2,3}\.json(?:\.gz)?")
_OLD_TASKS = re.compile(r"task_time(?:_\d+){1,3}\.json(?:\.gz)?")
_OLD_DEVICE = re.compile(r"device_\d+")
KINETO = re.compile(r".*\.pt\.trace\.json(?:\.gz)?")
_VERL = re.compile(r"(?:.*_)?prof_rank[-_]\d.*\.json(?:\.gz)?")
"""Traces of the profiler of PyTorch as verl names them, such as ``prof_rank-0_031847.json.gz``."""
_LOOSE = re.compile(r"(?=.*trace)(?:.*trace_view.*|.*rank[_-]?\d.*)\.json(?:\.gz)?", re.IGNORECASE)
"""Traces that somebody has copied out of their profiles, such as ``trace_view_rank0.json``."""
DATABASE = re.compile(r"(?:ascend_pytorch_profiler|ascend_mindspore_profiler)(?:_(\d{1,5}))?\.db")
_MSPROF_DATABASE = re.compile(r"(?:msprof|msmonitor)_[\d_-]+\.db")
OF_MSPROF = (_MSPROF, _SLICE, _OLD, _OLD_TASKS, _MSPROF_DATABASE)
"""The names that msprof gives to its files."""
_CAPTURES = re.compile(r".*capture.*", re.IGNORECASE)
"""Folders that serving engines write the capture of their graphs into, such as ``capture_traces`` of vLLM."""
_OTHERWISE = re.compile(r"(?!profiler_|communication|cluster_|chrome_tracing\.).*\.json(?:\.gz)?")
"""Files that may be traces under names of somebody's own."""
_PACKED = re.compile(
    r".*\.(?:zip|tar|tgz|tar\.gz|xz|zst|bz2|lz4|7z|rar|sqlite|parquet|pftrace|perfetto-trace)", re.IGNORECASE
)
_HEAD = 64 << 10
_BEGINS = re.compile(rb'\s*(?:\xef\xbb\xbf)?[\[{].*?"(?:ph|traceEvents|schemaVersion|distributedInfo)"\s*:', re.DOTALL)

SQLITE = b"SQLite format 3\0"
"""How every database begins (https://www.sqlite.org/fileformat.html)."""

_TABLES = (
    "kernel_details.csv", "step_trace_time.csv", "op_statistic.csv", "api_statistic.csv", "operator_details.csv",
    "communication.json", "communication_matrix.json", "memory_record.csv", "operator_memory.csv", "npu_module_mem.csv",
)  # fmt: skip
_TABLES_OF_MSPROF = ("op_summary*.csv", "task_time*.csv")
"""Companion files of which any one makes a profile without a trace; msprof writes the time behind their names."""

CLUSTER_FILES = (
    "cluster_analysis.db", "cluster_step_trace_time.csv", "cluster_communication.json",
    "cluster_communication_matrix.json",
)  # fmt: skip
"""Files of which any one makes the output of a cluster analysis."""

_CLUSTER = "cluster_analysis_output"

Form = Literal["text", "db"]
"""The two forms in which the profilers export a trace."""

Files = tuple[Path, ...]
"""The files of one trace, several only for sliced exports of msprof; the first one stands for them."""


def form_of(file: Path) -> Form:
    """What a file is, by its name, else by its first bytes."""
    if file.suffix == ".db":
        return "db"
    if not file.is_file():  # what is no file can be read only once
        return "text"
    with file.open("rb", buffering=0) as stream:
        return "db" if stream.read(len(SQLITE)) == SQLITE else "text"


def traces_in(folder: Path, form: Form | None = None) -> list[Files]:
    """The traces that lie in ``folder`` as the profilers lay them out; the most processed form wins."""
    for place in (folder / OUTPUT, folder, folder / MSPROF_OUTPUT):
        if not place.is_dir():
            continue
        names = sorted(os.listdir(place))
        traces = _texts_of(place, names) if form != "db" else []
        if not traces and form != "text":
            # A database of the framework's profiler has all that msprof's has, of which the last one counts.
            databases = _files(place, names, DATABASE) or _files(place, names, _MSPROF_DATABASE)[-1:]
            traces = [(file,) for file in databases]
        if traces:
            return traces
    traces = [trace for child in folders_in(folder, "PROF_*") for trace in traces_in(child, form)]
    if traces or form == "db":
        return traces
    return _old_exports_in(folder) or [(file,) for file in named_otherwise(folder) if _is_trace(file)]


def _old_exports_in(folder: Path) -> list[Files]:
    """The timelines of the export at ``folder`` as CANN up to 7 lays them out, one a device, model and iteration."""
    places = [folder / TIMELINE]
    places += [child / TIMELINE for child in folders_in(folder, "device_*") if _OLD_DEVICE.fullmatch(child.name)]
    return [trace for place in places if place.is_dir() for trace in _texts_of(place, sorted(os.listdir(place)))]


def _texts_of(folder: Path, names: list[str]) -> list[Files]:
    for pattern, place in ((_TRACE, 0), (_MSPROF, -1)):  # of several msprof exports the last one counts
        if files := _plain(_files(folder, names, pattern)):
            return [(files[place],)]
    exports = {match[2]: file for file in _files(folder, names, _SLICE) if (match := _SLICE.fullmatch(file.name))}
    if exports:
        return [whole_export(exports[max(exports)])]
    for pattern in (KINETO, _VERL, _OLD, _OLD_TASKS, _LOOSE):
        if files := _plain(_files(folder, names, pattern)):
            return [(file,) for file in files]
    return []


def _files(folder: Path, names: list[str], pattern: re.Pattern[str]) -> list[Path]:
    """The files in ``folder`` whose whole name is ``pattern``, as ``names`` are ordered; only they are looked at."""
    return [file for name in names if pattern.fullmatch(name) and (file := folder / name).is_file()]


def _plain(files: list[Path]) -> list[Path]:
    """``files`` without those that are packed and lie unpacked beside."""
    return [file for file in files if file.suffix != ".gz" or file.with_suffix("") not in files]


def named_otherwise(folder: Path) -> list[Path]:
    """The files in ``folder`` that may be traces under names of somebody's own, by name."""
    return _plain(_files(folder, sorted(os.listdir(folder)), _OTHERWISE)) if folder.is_dir() else []


def packed_in(folder: Path) -> list[Path]:
    """The archives in ``folder``, and files of other tools, by name."""
    return _files(folder, sorted(os.listdir(folder)), _PACKED)


def _is_trace(file: Path) -> bool:
    """Whether ``file`` begins as a text of events does; not where it cannot be read."""
    head = head_of(file, _HEAD)
    if head.startswith(MAGIC):
        try:
            head = zlib.decompressobj(31).decompress(head, _HEAD)
        except zlib.error:
            return False
    return _BEGINS.match(head) is not None


def traces_beside(files: Files) -> list[Path]:
    """The traces in the folder of ``files`` that are not among them, whatever their names and forms, by name."""
    folder = files[0].parent
    databases = [
        file for pattern in (DATABASE, _MSPROF_DATABASE) for file in _files(folder, sorted(os.listdir(folder)), pattern)
    ]
    packed = {file.with_name(f"{file.name}.gz") for file in files}
    beside = [file for file in named_otherwise(folder) if file not in packed and file not in files and _is_trace(file)]
    return beside + [file for file in databases if file not in files]


def whole_export(file: Path) -> Files:
    """All slices of the msprof export that ``file`` is a slice of, in their order; any other file alone."""
    match = _SLICE.fullmatch(file.name)
    if match is None:
        return (file,)
    slices: dict[int, Path] = {}
    for sibling in sorted(file.parent.iterdir(), reverse=True):  # an unpacked slice comes after its packed twin
        other = _SLICE.fullmatch(sibling.name)
        if other and other[2] == match[2] and sibling.is_file():
            slices[int(other[1])] = sibling
    return tuple(slices[number] for number in sorted(slices))


def tables_in(path: Path) -> Path | None:
    """The folder of the profile at ``path`` that holds tables, though no trace; None without one."""
    for folder in (path / OUTPUT, path, path / MSPROF_OUTPUT):
        if is_of_tables(folder):
            return folder
    exports = (child / MSPROF_OUTPUT for child in folders_in(path, "PROF_*"))
    return next((folder for folder in exports if is_of_tables(folder)), None)


def is_of_tables(folder: Path) -> bool:
    """Whether tables lie in ``folder`` that make a profile without a trace."""
    return any((folder / name).exists() for name in _TABLES) or any(
        glob.glob(pattern, root_dir=folder) for pattern in _TABLES_OF_MSPROF
    )


def is_table(file: Path) -> bool:
    """Whether ``file`` is one of the tables that make a profile without a trace, by its name."""
    return (file.name in _TABLES and file.suffix == ".csv") or any(map(file.match, _TABLES_OF_MSPROF))


def is_json(file: Path) -> bool:
    """Whether ``file`` is a text of JSON, packed or not, by its name."""
    return file.name.endswith((".json", ".json.gz"))


def table_of_export(path: Path) -> Path | None:
    """The first table of an msprof export at ``path`` that has no timeline; None without one."""
    for folder in (path, *folders_in(path, "PROF_*")):
        for pattern in (f"{MSPROF_OUTPUT}/*.csv", "device_*/summary/*.csv", "summary/*.csv", "op_summary_*.csv"):
            for table in sorted(folder.glob(pattern)):
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


def cluster_folder(path: Path) -> Path | None:
    """The output of a cluster analysis at ``path``: the folder itself, the one in it, or that of one of its files."""
    try:
        if path.is_file():
            return path.parent if path.name in CLUSTER_FILES else None
        places = (path, path / _CLUSTER)
        return next((place for place in places if any((place / name).is_file() for name in CLUSTER_FILES)), None)
    except OSError:
        return None
