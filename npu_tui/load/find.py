"""Which files belong together: the profile, trace or database that a path means, and profiles below a folder."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from npu_tui.load import layouts, raw
from npu_tui.load.errors import InputError, SeveralError
from npu_tui.load.folders import folders_in, walk
from npu_tui.load.ftrace_files import is_recording, recording_in
from npu_tui.load.layouts import DATABASE, OUTPUTS, Files, Form, tables_in, traces_in
from npu_tui.load.roles import holds_roles
from npu_tui.load.service_files import service_files, service_folder
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


_LISTED = 8
_LEVELS, MOST_FOLDERS = 5, 1000
"""Levels of folders, and folders, that are looked through for profiles, levels as MindStudio Insight does."""
MOST_OF_ROLES = 100_000
"""Folders that are looked through where folders of roles tell that all of it is one job."""

_INFO = re.compile(r"profiler_info_(\d{1,5})\.json")
RANK_IN_NAME = re.compile(r"rank[_-]?(\d{1,5})(?!\d)", re.IGNORECASE)

Kind = Literal[
    "trace_view_json", "msprof_json", "json", "database", "companions", "pipe", "memory", "service", "ftrace"
]
"""What the files of a source are, as their names tell; ``json`` are events under any other name.

``companions`` are tables without a trace: there are no files of events, and ``path`` is their folder, as that of a
``service``, the output of msServiceProfiler.
"""

Writer = Literal["torch_npu", "torch", "mindspore", "msprof"]
"""Which profiler has written a profile; ``torch`` is that of PyTorch without torch_npu (Kineto)."""


_TRACES = ("trace_view_json", "msprof_json", "json", "database")


class Source(Struct, frozen=True):
    """What discovery found at ``opened``, which is what the user gave.

    ``files`` hold one trace together (several only for sliced msprof exports), ``path`` is the one that stands for
    them; ``rank`` is None where nothing beside them tells it. ``twin`` is the same trace in the other form, where both
    lie side by side.
    """

    opened: Path
    path: Path
    files: Files
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
            return _service(path, service)
        if form is None and path.is_file() and layouts.is_table(path):
            return Source(path, path.parent, (), _rank_of(path), "companions")
        if not path.is_dir():
            whole = layouts.whole_export(path)
            return _source(path, whole, path) if form in (None, layouts.form_of(path)) else _beside(path, form)
        profiles = _profiles_at(path, form)
        places = [files[0] for held in profiles for files in held.traces] or [held.place for held in profiles]
        if any(held.traces for held in profiles):
            places += [held.place for held in profiles if not held.traces]
        if len(places) > 1:
            bare = not any(held.traces or held.service for held in profiles)
            raise SeveralError(_several(path, places, "input.tables" if bare else "input.several"))
        if profiles:
            return replace(profiles[0].sources[0], opened=path)
        recording = recording_in(path) if form is None else None
        if recording is not None:
            return Source(path, recording, (recording,), None, "ftrace")
    except OSError as error:
        raise InputError(message("input.unreadable_place", path=str(path), why=error.strerror or str(error))) from error
    raise InputError(_nothing_in(path, form))


class _Held(Struct, frozen=True):
    """What the folder ``place`` holds: ``traces``, else the folder of its ``tables``, else that of a ``service``."""

    place: Path
    traces: list[Files] = []
    tables: Path | None = None
    service: Path | None = None

    @property
    def sources(self) -> list[Source]:
        """The same as what is to be opened."""
        if self.service is not None:
            return [_service(self.place, self.service)]
        if self.tables is not None:
            return [Source(self.place, self.tables, (), _rank_of(self.tables / layouts.OUTPUT), "companions")]
        return [_source(self.place, files) for files in self.traces]


def _held_in(folder: Path, form: Form | None = None) -> _Held | None:
    """What the profile at ``folder`` holds, only traces in ``form`` if it matters; None where it holds nothing.

    Raises ``OSError`` where it may not be read.
    """
    if form is None and (service := service_folder(folder)) is not None:
        return _Held(folder, service=service)
    if traces := traces_in(folder, form):
        return _Held(folder, traces)
    tables = tables_in(folder) if form is None else None
    return _Held(folder, tables=tables) if tables is not None else None


def _held_below(folder: Path, form: Form | None = None, most: int = 0) -> Iterator[_Held]:
    """What ``folder`` and those below it hold, some levels down; of profiles only the first is searched for others.

    Raises ``InputError`` after ``most`` folders without a profile, by default as many as fit the layout.
    """
    most, looked = most or (MOST_OF_ROLES if holds_roles(folder) else MOST_FOLDERS), 0
    for place, children in walk(folder, _LEVELS):
        held = None
        with suppress(OSError):  # not ours to read
            held = _held_in(place, form)
        if held is None:
            looked += 1
            if looked > most:
                raise InputError(message("input.many_folders", path=str(folder), most=most))
            continue
        yield held
        used = [files[0] for files in held.traces]
        children[:] = [
            child
            for child in children
            if place == folder and not layouts.is_part(child) and not any(file.is_relative_to(child) for file in used)
        ]


def _profiles_at(path: Path, form: Form | None) -> list[_Held]:
    """What opens for the directory ``path``: its traces, else the services below it, else the profiles below it."""
    own = _held_in(path, form)
    if own is not None and own.tables is None:
        return [own]
    below: list[_Held] = []
    try:
        below += (held for held in _held_below(path, form) if held.place != path)
    except InputError:
        if len(below) < 2:  # it is enough to know that there are several
            raise
    services = [held for held in below if held.service is not None]
    if services and not holds_roles(path):
        return services
    return below if own is None or any(held.traces for held in below) else [own]


def find_sources(path: Path) -> list[Source]:
    """Every profile at ``path`` or below it, by path: of each its trace, or its tables where it has no trace.

    Raises ``InputError`` if nothing is there or it cannot be read.
    """
    try:
        if not path.is_dir():
            return [find_source(path)]
        sources = [source for held in _held_below(path) for source in held.sources]
        if not sources:
            raise InputError(_nothing_in(path, None))
    except OSError as error:
        raise InputError(message("input.unreadable_place", path=str(path), why=error.strerror or str(error))) from error
    profiles = [source for source in sources if source.kind != "service"] or sources  # it is no rank of the job beside
    return sorted(profiles, key=lambda source: source.path)


def cluster_below(folder: Path) -> Path | None:
    """The only output of a cluster analysis some levels below ``folder``; None where there are others, or none."""
    found: list[Path] = []
    for place, children in islice(walk(folder, _LEVELS), MOST_FOLDERS):
        if layouts.cluster_folder(place) == place:
            found.append(place)
            children.clear()
    return found[0] if len(found) == 1 else None


def unparsed_in(path: Path, sources: Sequence[Source]) -> Message | None:
    """What is said of profiles in ``path`` that were never parsed, beside the ``sources`` that were; None of none."""
    if not path.is_dir():
        return None
    parsed = {source.opened for source in sources}
    below = [(place, writer) for place, writer in _raw_below(path, parsed) if not sources_in(place)]
    return raw.refusal(path, below) if below else None


def sources_in(profile: Path) -> list[Source]:
    """What the profile at ``profile`` holds; nothing where it may not be read."""
    with suppress(OSError):
        held = _held_in(profile)
        return held.sources if held is not None else []
    return []


def sources_below(folder: Path, stopped: Callable[[], object] = bool) -> Iterator[Source]:
    """The profiles in ``folder`` and some levels down; one is not searched for others.

    Of a tree of very many folders only the first ones, level by level, are looked into; then ``stopped`` is called.
    """
    try:
        for held in _held_below(folder, most=MOST_FOLDERS):
            with suppress(OSError):
                yield from held.sources
    except InputError:
        stopped()


def has_tables(source: Source) -> bool:
    """Whether tables lie beside the trace of ``source`` that tell what the device did without it."""
    folder = source.folder
    return folder is not None and layouts.is_of_tables(folder)


def left_out(source: Source) -> list[Message]:
    """What is said of what lies at the directory ``source`` was opened as, and is no part of it."""
    if not source.is_directory or not source.files or source.kind not in _TRACES:
        return []
    home = source.path.parent
    home = home.parent if home.name in OUTPUTS else home
    said = []
    with suppress(OSError, InputError):
        others = [file for file in layouts.traces_beside(source.files) if file != source.twin]
        others += [held.place for held in _held_below(home) if held.place != home]
        if others:
            said.append(listed("input.left_out", home, others, len(others)))
        captures = [child for child in folders_in(home) if layouts.is_capture(child) and sources_in(child)]
        said += [message("input.capture", path=str(capture)) for capture in captures]
        if home != source.opened and (unparsed := unparsed_in(source.opened, [replace(source, opened=home)])):
            said.append(unparsed)
    return said


def _beside(path: Path, form: Form) -> Source:
    """The trace in ``form`` that lies beside the file ``path``."""
    traces = traces_in(path.parent, form)
    if len(traces) == 1:
        return _source(path, traces[0])
    raise InputError(message(f"input.no_{form}_beside", path=str(path)))


def _service(opened: Path, folder: Path) -> Source:
    return Source(opened, folder, tuple(service_files(folder)), None, "service")


def _source(opened: Path, files: Files, path: Path | None = None) -> Source:
    kind: Kind
    path = path or files[0]
    if is_recording(path):
        return Source(opened, path, files, None, "ftrace")
    if is_snapshot(path):
        return Source(opened, path, files, None, "memory")
    if layouts.form_of(path) == "db":
        kind = "database"
    elif layouts.is_json(path) and path.name.startswith(("msprof", "trace_view")):
        kind = "msprof_json" if path.name.startswith("msprof") else "trace_view_json"
    else:
        kind = "json"
    rank = _rank_of(files[0])
    if rank is None and kind == "json" and path.is_file():
        from npu_tui.load.kineto import distributed  # most traces are of an NPU

        rank = distributed(str(path)).rank
    if rank is None and kind != "database" and (named := RANK_IN_NAME.search(path.name)):
        rank = int(named[1])
    if kind == "database" and rank is None and (match := DATABASE.fullmatch(path.name)) and match[1]:
        rank = int(match[1])
    return Source(opened, path, files, rank, kind, _twin_of(path, kind))


def _twin_of(path: Path, kind: Kind) -> Path | None:
    """The only trace beside the file ``path`` that has the other form; None without one."""
    try:
        others = traces_in(path.parent, "text" if kind == "database" else "db") if path.is_file() else []
    except OSError:
        return None
    return others[0][0] if len(others) == 1 else None


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
    if form is not None and any(held.traces for held in _held_below(path)):
        return message(f"input.no_{form}_in", path=str(path))
    if (folder := layouts.cluster_folder(path)) is not None:
        return message("input.cluster", path=str(folder))
    inside = next((place for place in path.parents[:3] if raw.is_msprof(place)), None)
    if inside is not None and traces_in(inside):
        return message("input.inside", path=str(path), folder=layouts.OUTPUT, profile=str(inside))
    tables = layouts.table_of_export(path)
    if tables is not None:
        return message("input.export_of_tables", path=str(path), name=tables.name, folder=str(tables.parent))
    place = inside or path
    writer = raw.writer_of(place)
    below = [(place, writer)] if writer is not None else _raw_below(path)
    if below:
        return raw.refusal(path if inside is None else inside, below)
    if dumps := dumps_in(path):
        return listed("input.dumps", path, dumps, len(dumps))
    if any(path.glob("*.db")) or any((path / layouts.OUTPUT).glob("*.db")):
        return message("input.databases", path=str(path))
    if loose := layouts.named_otherwise(path) + layouts.packed_in(path):
        return listed("input.loose", path, loose, len(loose))
    return message("input.nothing", path=str(path), folder=layouts.OUTPUT)


def _raw_below(folder: Path, parsed: Container[Path] = ()) -> list[tuple[Path, raw.Writer]]:
    """The profiles below ``folder`` that were never parsed, some levels down, with whose they are."""
    profiles: list[tuple[Path, raw.Writer]] = []
    for looked, (place, children) in enumerate(walk(folder, _LEVELS)):
        if looked > MOST_FOLDERS:
            break
        writer = None
        with suppress(OSError):  # not ours to read
            writer = raw.writer_of(place) if looked else None
        if writer is not None:
            profiles.append((place, writer))
            children.clear()
        children[:] = [child for child in children if child not in parsed]
    return profiles


def _rank_of(file: Path) -> int | None:
    """The rank named by the first ``profiler_info_<rank>.json`` two directories up, as torch_npu lays profiles out."""
    try:
        above = os.listdir(file.resolve().parent.parent)
        ranks = sorted((name, int(match[1])) for name in above if (match := _INFO.fullmatch(name)))
    except OSError:
        return None
    return ranks[0][1] if ranks else None


def writer_of(source: Source) -> Writer | None:
    """Which profiler has written ``source``, as its names tell; None where they do not."""
    file, folders = source.path, [source.path.name, *(place.name for place in source.path.parents[:3])]
    if any(name.endswith("_ascend_ms") for name in folders) or file.name.startswith("ascend_mindspore_profiler"):
        return "mindspore"
    if layouts.KINETO.fullmatch(file.name):
        return "torch"
    if file.name.startswith(("trace_view", "ascend_pytorch_profiler")) or layouts.OUTPUT in folders[:2]:
        return "torch_npu"
    named = any(pattern.fullmatch(file.name) for pattern in layouts.OF_MSPROF)
    is_msprof = named or layouts.MSPROF_OUTPUT in folders[:2]
    return "msprof" if is_msprof else None


def home_of(source: Source) -> Path:
    """What opens ``source`` and names it best: the folder of its profile, or its file where that is one of several."""
    if source.kind in ("companions", "service"):
        return source.opened
    file = source.path
    home = file.parent.parent if file.parent.name in (*OUTPUTS, layouts.TIMELINE) else file.parent
    above = home.parent
    for place in ([above] if home.name.startswith(("PROF_", "device_")) else []) + [home]:
        try:
            if find_source(place).files == source.files:
                return place
        except (InputError, OSError):  # several, none, or not to be read: the file itself names it
            continue
    return file
