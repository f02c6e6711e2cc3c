"""Which files belong together: the profile, trace or database that a path means, and profiles below a folder.

torch_npu and MindSpore put ``trace_view.json`` or a database into ``ASCEND_PROFILER_OUTPUT`` of a folder a rank
(``..._ascend_pt``, ``..._ascend_ms``), msprof ``msprof_<time>.json`` into ``mindstudio_profiler_output`` of
``PROF_<number>``, in slices if it is long, and its database beside that folder:
https://www.hiascend.com/document/detail/en/canncommercial/850/devaids/profiling/atlasprofiling_16_0056.html.
Up to CANN 7 msprof put ``msprof_<device>_<model>_<iteration>.json`` into ``device_<number>/timeline`` of that folder.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from msgspec import Struct

from npu_tui.load import raw
from npu_tui.load.errors import InputError, SeveralError
from npu_tui.load.ftrace_files import is_recording, recording_in
from npu_tui.load.roles import holds_roles
from npu_tui.load.service_files import folders_in, service_files, service_folder, services_below
from npu_tui.load.snapshot_files import dumps_in, is_snapshot
from npu_tui.trace.message import Message, message
from npu_tui.trace.side_file import open_regular

_WHOLE = 8 << 20
"""Bytes up to which a file is known by all its content, a larger one by its size, its time and samples."""

_EDGE = 64 * 1024
_SAMPLES, _SAMPLE = 64, 4096


def content_of(file: Path) -> bytes:
    """A digest of ``file``, wherever it lies. Raises ``OSError`` if it cannot be read."""
    with open_regular(file) as stream:
        status = os.fstat(stream.fileno())
        digest = hashlib.blake2b(f"{status.st_size} ".encode(), digest_size=16)
        if status.st_size <= _WHOLE:
            digest.update(stream.readall())
            return digest.digest()
        digest.update(f"{status.st_mtime_ns} ".encode())
        # A profiler writes the whole file anew: size, time, both ends and some of the middle tell two runs apart.
        digest.update(os.pread(stream.fileno(), _EDGE, 0))
        digest.update(os.pread(stream.fileno(), _EDGE, status.st_size - _EDGE))
        for number in range(1, _SAMPLES):
            digest.update(os.pread(stream.fileno(), _SAMPLE, number * (status.st_size // _SAMPLES)))
    return digest.digest()


_OUTPUT = "ASCEND_PROFILER_OUTPUT"
_MSPROF_OUTPUT = "mindstudio_profiler_output"
OUTPUTS = (_OUTPUT, _MSPROF_OUTPUT)
"""The folders of a profile that hold what was parsed."""
_TRACE = re.compile(r"trace_view\.json(?:\.gz)?")
_MSPROF = re.compile(r"msprof_\d+\.json(?:\.gz)?")
_SLICE = re.compile(r"msprof_slice_(\d+)_(\d+)\.json(?:\.gz)?")
_OLD = re.compile(r"msprof(?:_\d+){2,3}\.json(?:\.gz)?")
_OLD_TASKS = re.compile(r"task_time(?:_\d+){1,3}\.json(?:\.gz)?")
_OLD_DEVICE = re.compile(r"device_\d+")
_TIMELINE = "timeline"
_KINETO = re.compile(r".*\.pt\.trace\.json(?:\.gz)?")
_VERL = re.compile(r"(?:.*_)?prof_rank[-_]\d.*\.json(?:\.gz)?")
"""Traces of the profiler of PyTorch as verl names them, such as ``prof_rank-0_031847.json.gz``."""
_LOOSE = re.compile(r"(?=.*trace)(?:.*trace_view.*|.*rank[_-]?\d.*)\.json(?:\.gz)?", re.IGNORECASE)
"""Traces that somebody has copied out of their profiles, such as ``trace_view_rank0.json``."""
_RANK_IN_NAME = re.compile(r"rank[_-]?(\d{1,5})(?!\d)", re.IGNORECASE)
_DATABASE = re.compile(r"(?:ascend_pytorch_profiler|ascend_mindspore_profiler)(?:_(\d{1,5}))?\.db")
_MSPROF_DATABASE = re.compile(r"(?:msprof|msmonitor)_[\d_-]+\.db")
_INFO = re.compile(r"profiler_info_(\d{1,5})\.json")
_NAMED_OTHERWISE = re.compile(r"(?!profiler_|communication|cluster_).*\.json(?:\.gz)?")
"""Files that may be traces under names of somebody's own."""
_LISTED = 8
_LEVELS, MOST_FOLDERS = 5, 1000
"""Levels of folders, and folders, that are looked through for profiles, levels as MindStudio Insight does."""
MOST_OF_ROLES = 100_000
"""Folders that are looked through where folders of roles tell that all of it is one job."""
SQLITE = b"SQLite format 3\0"
"""How every database begins (https://www.sqlite.org/fileformat.html)."""

_TABLES = (
    "kernel_details.csv", "step_trace_time.csv", "op_statistic.csv", "api_statistic.csv", "operator_details.csv",
    "communication.json", "communication_matrix.json", "memory_record.csv", "operator_memory.csv", "npu_module_mem.csv",
    "task_time.csv",
)  # fmt: skip
"""Companion files of which any one makes a profile without a trace."""


CLUSTER_FILES = (
    "cluster_analysis.db", "cluster_step_trace_time.csv", "cluster_communication.json",
    "cluster_communication_matrix.json",
)  # fmt: skip
"""Files of which any one makes the output of a cluster analysis."""

_CLUSTER = "cluster_analysis_output"


def cluster_folder(path: Path) -> Path | None:
    """The output of a cluster analysis at ``path``: the folder itself, the one in it, or that of one of its files."""
    try:
        if path.is_file():
            return path.parent if path.name in CLUSTER_FILES else None
        places = (path, path / _CLUSTER)
        return next((place for place in places if any((place / name).is_file() for name in CLUSTER_FILES)), None)
    except OSError:
        return None


Kind = Literal[
    "trace_view_json", "msprof_json", "json", "database", "companions", "pipe", "memory", "service", "ftrace"
]
"""What the files of a source are, as their names tell; ``json`` are events under any other name.

``companions`` are tables without a trace: there are no files of events, and ``path`` is their folder, as that of a
``service``, the output of msServiceProfiler.
"""

Writer = Literal["torch_npu", "torch", "mindspore", "msprof"]
"""Which profiler has written a profile; ``torch`` is that of PyTorch without torch_npu (Kineto)."""

Form = Literal["text", "db"]
"""The two forms in which the profilers export a trace."""


class Source(Struct, frozen=True):
    """What discovery found at ``opened``, which is what the user gave.

    ``files`` hold one trace together (several only for sliced msprof exports), ``path`` is the one that stands for
    them; ``rank`` is None where nothing beside them tells it. ``twin`` is the same trace in the other form, where both
    lie side by side.
    """

    opened: Path
    path: Path
    files: tuple[Path, ...]
    rank: int | None
    kind: Kind
    twin: Path | None = None

    @property
    def is_directory(self) -> bool:
        """Whether a directory was opened, not a file in it."""
        return self.opened != self.path

    @property
    def folder(self) -> Path | None:
        """Where companion files lie; None where there is no folder."""
        if self.kind in ("companions", "service"):
            return self.path
        return self.files[0].parent if self.files else None


PIPED = Path("-")
"""Stands for the trace that comes through standard input."""

PIPE = Source(PIPED, PIPED, (), None, "pipe")
"""Nothing lies beside what comes through a pipe, and nothing tells what it is."""


def find_source(path: Path, form: Form | None = None) -> Source:
    """The trace at ``path``: a file, or a directory of the profiler that holds one, in ``form`` if it matters.

    Where both forms lie side by side the text is taken. A slice of an msprof export stands for all slices of that
    export beside it. Raises ``InputError`` if nothing is there, or a directory holds no or several traces, or only data
    that were never parsed.
    """
    try:
        if not path.exists():
            raise InputError(message("input.missing", path=str(path)))
        if not (path.is_dir() or path.is_file()):
            raise InputError(message("input.stream", path=str(path)))
        if form is None and (service := service_folder(path)) is not None:
            return Source(path, service, tuple(service_files(service)), None, "service")
        if not path.is_dir():
            return _source(path, path, _whole_export(path)) if form in (None, form_of(path)) else _beside(path, form)
        traces = _traces_in(path, form)
        if not traces and form is None and holds_roles(path):
            profiles = [source.opened for source in sources_below(path, MOST_OF_ROLES)]
            if len(profiles) > 1:
                raise SeveralError(_several(path, profiles))
        if not traces and form is None and (services := list(services_below(path))):
            if len(services) > 1:
                raise SeveralError(_several(path, services))
            return find_source(services[0])
        if not traces and not (form is None and _is_job_of_tables(path)):
            traces = _traces_below(path, form, several=True)
    except OSError as error:
        raise InputError(message("input.unreadable_place", path=str(path), why=error.strerror or str(error))) from error
    if len(traces) == 1:
        return _source(path, traces[0][0], traces[0])
    if traces:
        raise SeveralError(_several(path, [files[0] for files in traces]))
    tables = _tables_in(path) if form is None else None
    if tables is not None:
        return Source(path, tables, (), _rank_of(tables / _OUTPUT), "companions")
    recording = recording_in(path) if form is None else None
    if recording is not None:
        return Source(path, recording, (recording,), None, "ftrace")
    with suppress(OSError):
        profiles = [child for child in folders_in(path) if _tables_in(child) is not None] if form is None else []
        if profiles:
            raise SeveralError(_several(path, profiles, "input.tables"))
    raise InputError(_nothing_in(path, form))


def find_sources(path: Path) -> list[Source]:
    """Every profile at ``path`` or below it, by path: of each its trace, or its tables where it has no trace.

    Raises ``InputError`` if nothing is there or it cannot be read.
    """
    try:
        if not path.is_dir():
            return [find_source(path)]
        if holds_roles(path):
            sources = list(sources_below(path, MOST_OF_ROLES))
        else:
            sources = [source for folder in (path, *folders_in(path)) for source in sources_in(folder)]
        if not sources:
            sources = [_source(files[0], files[0], files) for files in _traces_below(path, None)]
    except OSError as error:
        raise InputError(message("input.unreadable_place", path=str(path), why=error.strerror or str(error))) from error
    if not sources:
        raise InputError(_nothing_in(path, None))
    profiles = [source for source in sources if source.kind != "service"] or sources  # it is no rank of the job beside
    return sorted(profiles, key=lambda source: source.path)


def unparsed_in(path: Path, sources: Sequence[Source]) -> Message | None:
    """What is said of profiles in ``path`` that were never parsed, beside the ``sources`` that were; None of none."""
    if not path.is_dir():
        return None
    parsed = {source.opened for source in sources}
    if holds_roles(path):
        below = [(child, writer) for child, writer in _raw_below(path) if child not in parsed and not sources_in(child)]
    else:
        children = [child for child in folders_in(path) if child not in parsed and not sources_in(child)]
        below = [(child, writer) for child in children if (writer := raw.writer_of(child)) is not None]
    return raw.refusal(path, below) if below else None


def sources_in(profile: Path) -> list[Source]:
    """What the profile at ``profile`` holds; nothing where it may not be read."""
    try:
        if service_folder(profile) is not None:
            return [find_source(profile)]
        traces = _traces_in(profile)
        tables = None if traces else _tables_in(profile)
        if tables is not None:
            return [Source(profile, tables, (), _rank_of(tables / _OUTPUT), "companions")]
        return [_source(profile, files[0], files) for files in traces]
    except OSError:
        return []


def _is_job_of_tables(path: Path) -> bool:
    """Whether the first two folders in ``path`` are profiles that hold tables and no trace."""
    first = folders_in(path)[:2]
    return len(first) == 2 and all(_tables_in(child) is not None and not _traces_in(child) for child in first)


def _tables_in(path: Path) -> Path | None:
    """The folder of the profile at ``path`` that holds tables, though no trace; None without one."""
    for folder in (path / _OUTPUT, path, path / _MSPROF_OUTPUT):
        if _is_of_tables(folder):
            return folder
    exports = (child / _MSPROF_OUTPUT for child in folders_in(path, "PROF_*"))
    return next((folder for folder in exports if _is_of_tables(folder)), None)


def _is_of_tables(folder: Path) -> bool:
    """Whether tables lie in ``folder`` that make a profile without a trace."""
    return any((folder / name).exists() for name in _TABLES) or bool(glob.glob("op_summary*.csv", root_dir=folder))


def has_tables(source: Source) -> bool:
    """Whether tables lie beside the trace of ``source`` that tell what the device did without it."""
    folder = source.folder
    return folder is not None and _is_of_tables(folder)


def form_of(file: Path) -> Form:
    """What a file is, by its name, else by its first bytes."""
    if file.suffix == ".db":
        return "db"
    if not file.is_file():  # what is no file can be read only once
        return "text"
    with file.open("rb", buffering=0) as stream:
        return "db" if stream.read(len(SQLITE)) == SQLITE else "text"


def _beside(path: Path, form: Form) -> Source:
    """The trace in ``form`` that lies beside the file ``path``."""
    traces = _traces_in(path.parent, form)
    if len(traces) == 1:
        return _source(path, traces[0][0], traces[0])
    raise InputError(message(f"input.no_{form}_beside", path=str(path)))


def _source(opened: Path, path: Path, files: tuple[Path, ...]) -> Source:
    kind: Kind
    if is_recording(path):
        return Source(opened, path, files, None, "ftrace")
    if is_snapshot(path):
        return Source(opened, path, files, None, "memory")
    if form_of(path) == "db":
        kind = "database"
    elif path.name.startswith("msprof"):
        kind = "msprof_json"
    else:
        kind = "trace_view_json" if path.name.startswith("trace_view") else "json"
    rank = _rank_of(files[0])
    if rank is None and kind == "json" and path.is_file():
        from npu_tui.load.kineto import distributed  # most traces are of an NPU

        rank = distributed(str(path)).rank
    if rank is None and kind != "database" and (named := _RANK_IN_NAME.search(path.name)):
        rank = int(named[1])
    if kind == "database" and rank is None and (match := _DATABASE.fullmatch(path.name)) and match[1]:
        rank = int(match[1])
    return Source(opened, path, files, rank, kind, _twin_of(path, kind))


def _twin_of(path: Path, kind: Kind) -> Path | None:
    """The only trace beside the file ``path`` that has the other form; None without one."""
    try:
        others = _traces_in(path.parent, "text" if kind == "database" else "db") if path.is_file() else []
    except OSError:
        return None
    return others[0][0] if len(others) == 1 else None


def _traces_in(folder: Path, form: Form | None = None) -> list[tuple[Path, ...]]:
    """The traces that lie in ``folder`` as the profilers lay them out; the most processed form wins."""
    for place in (folder / _OUTPUT, folder, folder / _MSPROF_OUTPUT):
        if not place.is_dir():
            continue
        names = sorted(os.listdir(place))
        traces = _texts_of(place, names) if form != "db" else []
        if not traces and form != "text":
            # A database of the framework's profiler has all that msprof's has, of which the last one counts.
            databases = _files(place, names, _DATABASE) or _files(place, names, _MSPROF_DATABASE)[-1:]
            traces = [(file,) for file in databases]
        if traces:
            return traces
    traces = [trace for child in folders_in(folder, "PROF_*") for trace in _traces_in(child, form)]
    return traces or ([] if form == "db" else _old_exports_in(folder))


def _old_exports_in(folder: Path) -> list[tuple[Path, ...]]:
    """The timelines of the export at ``folder`` as CANN up to 7 lays them out, one a device, model and iteration."""
    places = [folder / _TIMELINE]
    places += [child / _TIMELINE for child in folders_in(folder, "device_*") if _OLD_DEVICE.fullmatch(child.name)]
    return [trace for place in places if place.is_dir() for trace in _texts_of(place, sorted(os.listdir(place)))]


def _texts_of(folder: Path, names: list[str]) -> list[tuple[Path, ...]]:
    for pattern, place in ((_TRACE, 0), (_MSPROF, -1)):  # of several msprof exports the last one counts
        if files := _files(folder, names, pattern):
            unpacked = [file for file in files if file.suffix != ".gz"]
            return [((unpacked or files)[place],)]
    exports = {match[2]: file for file in _files(folder, names, _SLICE) if (match := _SLICE.fullmatch(file.name))}
    if exports:
        return [_whole_export(exports[max(exports)])]
    for pattern in (_KINETO, _VERL, _OLD, _OLD_TASKS, _LOOSE):
        if files := _files(folder, names, pattern):
            return [(file,) for file in files if file.suffix != ".gz" or file.with_suffix("") not in files]
    return []


def _files(folder: Path, names: list[str], pattern: re.Pattern[str]) -> list[Path]:
    """The files in ``folder`` whose whole name is ``pattern``, as ``names`` are ordered; only they are looked at."""
    return [file for name in names if pattern.fullmatch(name) and (file := folder / name).is_file()]


def _traces_below(folder: Path, form: Form | None, several: bool = False) -> list[tuple[Path, ...]]:
    """The traces in the folders below ``folder``, some levels down; a profile is not searched for others.

    Raises ``InputError`` where there are too many folders to look through; with ``several`` it is enough then if two
    traces were found.
    """
    traces: list[tuple[Path, ...]] = []
    level, looked = [folder], 0
    for _ in range(_LEVELS):
        deeper: list[Path] = []
        for child in (child for parent in level for child in folders_in(parent) if not child.name.startswith(".")):
            looked += 1
            if looked > MOST_FOLDERS and several and len(traces) > 1:
                return traces
            if looked > MOST_FOLDERS:
                raise InputError(message("input.many_folders", path=str(folder), most=MOST_FOLDERS))
            try:
                in_child = _traces_in(child, form)
            except OSError:  # not ours to read
                continue
            traces += in_child
            if not in_child:
                deeper.append(child)
        level = deeper
    return traces


def _whole_export(file: Path) -> tuple[Path, ...]:
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


def _several(path: Path, files: list[Path], code: str = "input.several") -> Message:
    """What names the profiles of ``files``, or the files themselves, to be copied to a command line."""
    places = []
    for file in files[:_LISTED]:
        profile = file if file.is_dir() else file.parent
        profile = profile.parent if profile.name in OUTPUTS else profile
        alone = sum(other.is_relative_to(profile) for other in files) == 1
        places.append(profile if alone else file)
    return listed(code, path, places, len(files))


def listed(code: str, path: Path, places: Sequence[Path], count: int) -> Message:
    """The message ``code`` about ``count`` things at ``path``, of which the first ``places`` are named."""
    names = "  ".join(shlex.quote(str(place)) for place in places[:_LISTED])
    rest = count - min(len(places), _LISTED)
    args: dict[str, object] = {"path": str(path), "count": count, "names": names}
    return Message(f"{code}_more", args | {"rest": rest}) if rest else Message(code, args)


def _nothing_in(path: Path, form: Form | None) -> Message:
    """What is said of a directory without a trace, with the command that makes one out of raw data."""
    if form is not None and (_traces_in(path) or _traces_below(path, None)):
        return message(f"input.no_{form}_in", path=str(path))
    if (folder := cluster_folder(path)) is not None:
        return message("input.cluster", path=str(folder))
    inside = next((place for place in path.parents[:3] if raw.is_msprof(place)), None)
    if inside is not None and _traces_in(inside):
        return message("input.inside", path=str(path), folder=_OUTPUT, profile=str(inside))
    tables = _tables_of_export(path)
    if tables is not None:
        return message("input.export_of_tables", path=str(path), name=tables.name, folder=str(tables.parent))
    place = inside or path
    writer = raw.writer_of(place)
    below = [(place, writer)] if writer is not None else _raw_below(path)
    if below:
        return raw.refusal(path if inside is None else inside, below)
    if dumps := dumps_in(path):
        return listed("input.dumps", path, dumps, len(dumps))
    if any(path.glob("*.db")) or any((path / _OUTPUT).glob("*.db")):
        return message("input.databases", path=str(path))
    loose = [file for file in sorted(path.iterdir()) if _NAMED_OTHERWISE.fullmatch(file.name) and file.is_file()]
    if loose:
        return listed("input.loose", path, loose, len(loose))
    return message("input.nothing", path=str(path), folder=_OUTPUT)


def _tables_of_export(path: Path) -> Path | None:
    """The first table of an msprof export at ``path`` that has no timeline; None without one."""
    for folder in (path, *folders_in(path, "PROF_*")):
        for pattern in (f"{_MSPROF_OUTPUT}/*.csv", "device_*/summary/*.csv", "summary/*.csv", "op_summary_*.csv"):
            for table in sorted(folder.glob(pattern)):
                return table
    return None


def _raw_below(folder: Path) -> list[tuple[Path, raw.Writer]]:
    """The profiles below ``folder`` that were never parsed, some levels down, with whose they are."""
    profiles: list[tuple[Path, raw.Writer]] = []
    level, looked = [folder], 0
    for _ in range(_LEVELS):
        deeper: list[Path] = []
        for parent in level:
            with suppress(OSError):  # not ours to read
                for child in folders_in(parent):
                    looked += 1
                    if looked > MOST_FOLDERS:
                        return profiles
                    writer = raw.writer_of(child)
                    if writer is not None:
                        profiles.append((child, writer))
                    elif not child.name.startswith("."):
                        deeper.append(child)
        level = deeper
    return profiles


def _rank_of(file: Path) -> int | None:
    """The rank named by the first ``profiler_info_<rank>.json`` two directories up, as torch_npu lays profiles out."""
    try:
        above = os.listdir(file.resolve().parent.parent)
        ranks = sorted((name, int(match[1])) for name in above if (match := _INFO.fullmatch(name)))
    except OSError:
        return None
    return ranks[0][1] if ranks else None


def sources_below(folder: Path, most: int = MOST_FOLDERS) -> Iterator[Source]:
    """The profiles in ``folder`` and some levels down; one is not searched for others.

    Of a tree of very many folders only the first ``most``, level by level, are looked into.
    """
    level, looked = [folder], 0
    for _ in range(_LEVELS + 1):  # the folder itself is the first
        deeper: list[Path] = []
        for place in level:
            looked += 1
            if looked > most:
                return
            sources = sources_in(place)
            yield from sources
            if not sources or place == folder:
                with suppress(OSError):  # not ours to read
                    children = (child for child in folders_in(place) if not child.name.startswith("."))
                    deeper += [child for child in children if not _is_part(child)]
        level = deeper


def writer_of(source: Source) -> Writer | None:
    """Which profiler has written ``source``, as its names tell; None where they do not."""
    file, folders = source.path, [source.path.name, *(place.name for place in source.path.parents[:3])]
    if any(name.endswith("_ascend_ms") for name in folders) or file.name.startswith("ascend_mindspore_profiler"):
        return "mindspore"
    if _KINETO.fullmatch(file.name):
        return "torch"
    if file.name.startswith("trace_view") or file.name.startswith("ascend_pytorch_profiler") or _OUTPUT in folders[:2]:
        return "torch_npu"
    patterns = (_MSPROF, _SLICE, _OLD, _OLD_TASKS, _MSPROF_DATABASE)
    is_msprof = _MSPROF_OUTPUT in folders[:2] or any(pattern.fullmatch(file.name) for pattern in patterns)
    return "msprof" if is_msprof else None


def _is_part(folder: Path) -> bool:
    """Whether ``folder`` is a part of the profile it lies in, by its name."""
    return folder.name in (*OUTPUTS, _TIMELINE) or _OLD_DEVICE.fullmatch(folder.name) is not None


def home_of(source: Source) -> Path:
    """What opens ``source`` and names it best: the folder of its profile, or its file where that is one of several."""
    if source.kind in ("companions", "service"):
        return source.opened
    file = source.path
    home = file.parent.parent if file.parent.name in (*OUTPUTS, _TIMELINE) else file.parent
    above = home.parent
    for place in ([above] if home.name.startswith(("PROF_", "device_")) else []) + [home]:
        try:
            if find_source(place).files == source.files:
                return place
        except (InputError, OSError):  # several, none, or not to be read: the file itself names it
            continue
    return file
