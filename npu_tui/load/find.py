"""Which files belong together: the profile, trace or database that a path means, and profiles below a folder.

One source a profile: the most processed form wins, then the text. Folders are looked at through ``Survey``, which
looks at each once.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from npu_tui.load import raw
from npu_tui.load.errors import InputError, SeveralError
from npu_tui.load.format import (
    LEVELS,
    MSPROF_OUTPUT,
    OUTPUT,
    OUTPUTS,
    TIMELINE,
    Files,
    Form,
    Format,
    Survey,
    form_of,
    is_capture,
    is_part,
    packed_in,
    table_of_export,
    timelines_in,
)
from npu_tui.load.format import MOST_FOLDERS as MOST_FOLDERS
from npu_tui.load.format import RANK_IN_NAME as RANK_IN_NAME
from npu_tui.load.format import Source as Source
from npu_tui.load.formats import FORMATS
from npu_tui.load.formats.chrome import KINETO_NAME, MSPROF_NAMES, begins_as_trace, named_otherwise
from npu_tui.load.formats.cluster import cluster_folder
from npu_tui.load.formats.database import OF_MSPROF, databases_in
from npu_tui.load.formats.memory import dumps_in
from npu_tui.load.formats.service import SERVICE
from npu_tui.load.formats.tables import TABLES
from npu_tui.load.roles import holds_roles
from npu_tui.trace.message import Message, message
from npu_tui.trace.side_file import open_regular

_WHOLE = 8 << 20  # bytes up to which a file is known by all its content, a larger one by its size, its time and samples

_EDGE = 64 * 1024  # bytes at either end
_SAMPLES, _SAMPLE = 64, 4096  # places between the ends, and bytes at each


def content_of(file: Path, edited: bool = False) -> bytes:
    """A digest of ``file``, wherever it lies. Raises ``OSError`` if it cannot be read.

    With ``edited`` another one after each edit of a large file, also where it keeps size, time and samples: programs do
    not set back the change time of an inode. It is another one as well where the file was moved.
    """
    with open_regular(file) as stream:
        status = os.fstat(stream.fileno())
        digest = hashlib.blake2b(f"{status.st_size} ".encode(), digest_size=16)
        if status.st_size <= _WHOLE:
            digest.update(stream.readall())
            return digest.digest()
        digest.update(f"{status.st_mtime_ns} {status.st_ctime_ns if edited else ''} ".encode())
        # A profiler writes the whole file anew: size, time, both ends and some of the middle differ between two runs.
        digest.update(os.pread(stream.fileno(), _EDGE, 0))
        digest.update(os.pread(stream.fileno(), _EDGE, status.st_size - _EDGE))
        for number in range(1, _SAMPLES):
            digest.update(os.pread(stream.fileno(), _SAMPLE, number * (status.st_size // _SAMPLES)))
    return digest.digest()


_LISTED = 8  # places that a message names
MOST_OF_ROLES = 100_000
"""Folders that are looked through where folders of roles show that all of it is one job."""

Writer = Literal["torch_npu", "torch", "mindspore", "msprof"]
"""Which profiler has written a profile; ``torch`` is that of PyTorch without torch_npu (Kineto)."""


PIPED = Path("-")
"""Stands for the trace that comes through standard input."""


PIPE = Source(PIPED, PIPED, (), None, Format("pipe", lambda path, survey: None, "text_trace.read_other"))
"""Nothing lies beside what comes through a pipe, and no name says what it is."""


def find_source(path: Path, form: Form | None = None, survey: Survey | None = None) -> Source:
    """The trace at ``path``: a file, or a directory of the profiler that holds one, in ``form`` if it matters.

    Where both forms lie side by side the text is taken. A slice of an msprof export stands for all slices of that
    export beside it. Raises ``InputError`` if nothing is there, or a directory holds no or several traces, or only data
    that were never parsed.
    """
    survey = survey or Survey()
    try:
        if not path.exists():
            raise InputError(message("input.missing", path=str(path)))
        if not (path.is_dir() or path.is_file()):
            raise InputError(message("input.stream", path=str(path)))
        if not path.is_dir():
            if form is None or form == form_of(path, survey):
                return _recognised(path, survey, form)
            return _trace_beside(path, form, survey)
        profiles = _profiles_at(path, form, survey)
        places = [files[0] for held in profiles for files in held.traces] or [held.place for held in profiles]
        if any(held.traces for held in profiles):
            places += [held.place for held in profiles if not held.traces]
        if len(places) > 1:
            bare = not any(held.opens for held in profiles)
            raise SeveralError(_several(path, places, "input.tables" if bare else "input.several"))
        if profiles:
            return replace(profiles[0].sources()[0], opened=path)
        found = (one.recognise(path, survey) for one in FORMATS if one.form is None)  # a text or a database is a file
        if form is None and (alone := next(filter(None, found), None)) is not None:
            return alone
    except OSError as error:
        raise InputError(message("input.unreadable_place", path=str(path), why=error.strerror or str(error))) from error
    raise InputError(_nothing_in(path, form, survey))


def _recognised(file: Path, survey: Survey, form: Form | None = None) -> Source:
    """What ``file`` is: in a ``form``, it is no table or database of something that is read as a folder."""
    # The last format takes any file, and says what is wrong with it.
    return next(filter(None, (one.recognise(file, survey) for one in FORMATS if form is None or not one.is_folder)))


def twin_of(source: Source) -> Path | None:
    """The same trace in the other form: the only one beside ``source`` that has it; None without one."""
    others: list[Files] = []
    if source.format.form is not None:
        with suppress(OSError):
            others = traces_in(source.path.parent, source.survey, "text" if source.format.form == "db" else "db")
    return others[0][0] if len(others) == 1 else None


def _trace_beside(path: Path, form: Form, survey: Survey) -> Source:
    """The trace in ``form`` that lies beside the file ``path``."""
    traces = traces_in(path.parent, survey, form)
    if len(traces) == 1:
        return replace(_recognised(traces[0][0], survey, form), opened=path)
    raise InputError(message(f"input.no_{form}_beside", path=str(path)))


def traces_in(folder: Path, survey: Survey, form: Form | None = None) -> list[Files]:
    """The traces that lie in ``folder`` as the profilers lay them out; the most processed form wins, then the text."""
    for place in (folder / OUTPUT, folder, folder / MSPROF_OUTPUT):
        if place.is_dir() and (traces := _named_in(place, survey, form)):
            return traces
    traces = [trace for child in survey.folders(folder, "PROF_*") for trace in traces_in(child, survey, form)]
    if traces or form == "db":
        return traces
    old = [trace for place in timelines_in(folder, survey) for trace in _named_in(place, survey, "text")]
    return old or [(file,) for file in named_otherwise(folder, survey) if begins_as_trace(file, survey)]


def _named_in(folder: Path, survey: Survey, form: Form | None) -> list[Files]:
    """The traces in ``folder`` itself whose names show their format."""
    forms: tuple[Form, ...] = ("text", "db") if form is None else (form,)
    found = (one.traces(folder, survey) for wanted in forms for one in FORMATS if one.form == wanted)
    return next(filter(None, found), [])


class _Held(Struct, frozen=True):
    """What the folder ``place`` holds: ``traces``, or ``whole``, the source of a format that is read as a folder."""

    place: Path
    survey: Survey
    traces: list[Files] = []
    whole: Source | None = None

    @property
    def is_service(self) -> bool:
        """Whether it is no profile of a device, but of a service."""
        return self.whole is not None and not self.whole.format.is_profile

    @property
    def opens(self) -> bool:
        """Whether it is more than tables."""
        return bool(self.traces) or self.is_service

    def sources(self) -> list[Source]:
        """The profiles in the folder, as they are to be opened."""
        if self.whole is not None:
            return [self.whole]
        return [
            replace(_recognised(files[0], self.survey, "text"), opened=self.place, files=files) for files in self.traces
        ]


def _held_in(folder: Path, survey: Survey, form: Form | None = None) -> _Held | None:
    """What the profile at ``folder`` holds, only traces in ``form`` if it matters; None where it holds nothing.

    Raises ``OSError`` where it may not be read.
    """
    if form is None and (service := SERVICE.recognise(folder, survey)) is not None:
        return _Held(folder, survey, whole=service)
    if traces := traces_in(folder, survey, form):
        return _Held(folder, survey, traces)
    tables = TABLES.recognise(folder, survey) if form is None else None
    return _Held(folder, survey, whole=tables) if tables is not None else None


def _held_below(folder: Path, survey: Survey, form: Form | None = None, most: int = 0) -> Iterator[_Held]:
    """What ``folder`` and those below it hold, some levels down; among profiles only the first is searched for others.

    Raises ``InputError`` after ``most`` folders without a profile, by default as many as fit the layout.
    """
    most, looked = most or (MOST_OF_ROLES if holds_roles(folder, survey) else MOST_FOLDERS), 0
    for place, children in survey.walk(folder, LEVELS):
        held = None
        with suppress(OSError):  # not ours to read
            held = _held_in(place, survey, form)
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
            if place == folder and not is_part(child) and not any(file.is_relative_to(child) for file in used)
        ]


def _profiles_at(path: Path, form: Form | None, survey: Survey) -> list[_Held]:
    """What opens for the directory ``path``: its traces, else the services below it, else the profiles below it."""
    own = _held_in(path, survey, form)
    if own is not None and own.opens:
        return [own]
    below: list[_Held] = []
    try:
        below += (held for held in _held_below(path, survey, form) if held.place != path)
    except InputError:
        if len(below) < 2:  # it is enough to know that there are several
            raise
    services = [held for held in below if held.is_service]
    if services and not holds_roles(path, survey):
        return services
    return below if own is None or any(held.traces for held in below) else [own]


def find_sources(path: Path, survey: Survey | None = None) -> list[Source]:
    """Every profile at ``path`` or below it, by path: for each its trace, or its tables where it has no trace.

    Raises ``InputError`` if nothing is there or it cannot be read.
    """
    survey = survey or Survey()
    try:
        if not path.is_dir():
            return [find_source(path, survey=survey)]
        sources = [source for held in _held_below(path, survey) for source in held.sources()]
        if not sources:
            raise InputError(_nothing_in(path, None, survey))
    except OSError as error:
        raise InputError(message("input.unreadable_place", path=str(path), why=error.strerror or str(error))) from error
    profiles = [source for source in sources if source.format.is_profile] or sources  # others are no rank of the job
    return sorted(profiles, key=lambda source: source.path)


def unparsed_in(path: Path, sources: Sequence[Source], survey: Survey) -> Message | None:
    """What is said of profiles in ``path`` that were never parsed, beside the ``sources`` that were; None of none."""
    below = unparsed_below(path, sources, survey)
    return raw.refusal(path, below) if below else None


def unparsed_below(path: Path, sources: Sequence[Source], survey: Survey) -> list[tuple[Path, raw.Writer]]:
    """The profiles below ``path`` that were never parsed, beside the ``sources`` that were, each with its writer."""
    if not path.is_dir():
        return []
    parsed = {source.opened for source in sources}
    return [(place, writer) for place, writer in _raw_below(path, survey, parsed) if not sources_in(place, survey)]


def sources_in(profile: Path, survey: Survey) -> list[Source]:
    """What the profile at ``profile`` holds; nothing where it may not be read."""
    with suppress(OSError):
        held = _held_in(profile, survey)
        return held.sources() if held is not None else []
    return []


def sources_below(folder: Path, stopped: Callable[[], object] = bool, survey: Survey | None = None) -> Iterator[Source]:
    """The profiles in ``folder`` and some levels down; one is not searched for others.

    In a tree of very many folders only the first ones, level by level, are looked into; then ``stopped`` is called.
    """
    try:
        for held in _held_below(folder, survey or Survey(), most=MOST_FOLDERS):
            with suppress(OSError):
                yield from held.sources()
    except InputError:
        stopped()


def left_out_messages(source: Source) -> list[Message]:
    """What is said of what lies at the directory ``source`` was opened as, and is no part of it."""
    if not source.is_directory or not source.files or not source.format.is_profile:
        return []
    home, survey = source.path.parent, source.survey
    home = home.parent if home.name in OUTPUTS else home
    said = []
    with suppress(OSError, InputError):
        twin = twin_of(source)
        others = [file for file in _traces_beside(source) if file != twin]
        others += [held.place for held in _held_below(home, survey) if held.place != home]
        if others:
            said.append(listed("input.left_out", home, others, len(others)))
        captures = [child for child in survey.folders(home) if is_capture(child) and sources_in(child, survey)]
        said += [message("input.capture", path=str(capture)) for capture in captures]
        if home != source.opened:
            unparsed = unparsed_in(source.opened, [replace(source, opened=home)], survey)
            said += [unparsed] if unparsed else []
    return said


def _traces_beside(source: Source) -> list[Path]:
    """The traces in the folder of ``source`` that are no part of it, whatever their names and forms, by name."""
    files, survey = source.files, source.survey
    used = {*files, *(file.with_name(f"{file.name}.gz") for file in files)}
    texts = [file for file in named_otherwise(files[0].parent, survey) if file not in used]
    databases = databases_in(files[0].parent, survey)
    return [file for file in texts if begins_as_trace(file, survey)] + [file for file in databases if file not in files]


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


def _nothing_in(path: Path, form: Form | None, survey: Survey) -> Message:
    """What is said of a directory without a trace, with the command that makes one out of raw data."""
    # From what is most certain to what is a guess: the first that applies is said.
    if form is not None and any(held.traces for held in _held_below(path, survey)):
        return message(f"input.no_{form}_in", path=str(path))
    if (folder := cluster_folder(path, survey)) is not None:
        return message("input.cluster", path=str(folder))
    inside = next((place for place in path.parents[:3] if raw.is_msprof(place)), None)
    if inside is not None and traces_in(inside, survey):
        return message("input.inside", path=str(path), folder=OUTPUT, profile=str(inside))
    tables = table_of_export(path, survey)
    if tables is not None:
        return message("input.export_of_tables", path=str(path), name=tables.name, folder=str(tables.parent))
    place = inside or path
    writer = raw.writer_of(place, survey)
    below = [(place, writer)] if writer is not None else _raw_below(path, survey)
    if below:
        return raw.refusal(path if inside is None else inside, below)
    if memory := [*dumps_in(path, survey), *sorted(survey.glob(path, "*.pkl"))]:
        return listed("input.recordings", path, memory, len(memory))
    if survey.glob(path, "*.db") or survey.glob(path, f"{OUTPUT}/*.db"):
        return message("input.databases", path=str(path))
    if loose := named_otherwise(path, survey) + packed_in(path, survey):
        return listed("input.loose", path, loose, len(loose))
    return message("input.nothing", path=str(path), folder=OUTPUT)


def _raw_below(folder: Path, survey: Survey, parsed: Container[Path] = ()) -> list[tuple[Path, raw.Writer]]:
    """The profiles below ``folder`` that were never parsed, some levels down, each with its writer."""
    profiles: list[tuple[Path, raw.Writer]] = []
    for looked, (place, children) in enumerate(survey.walk(folder, LEVELS)):
        if looked > MOST_FOLDERS:
            break
        writer = None
        with suppress(OSError):  # not ours to read
            writer = raw.writer_of(place, survey) if looked else None
        if writer is not None:
            profiles.append((place, writer))
            children.clear()
        children[:] = [child for child in children if child not in parsed]
    return profiles


def writer_of(source: Source) -> Writer | None:
    """The profiler that wrote ``source``, judged by the names of its files; None if they do not say."""
    file, folders = source.path, [source.path.name, *(place.name for place in source.path.parents[:3])]
    if any(name.endswith("_ascend_ms") for name in folders) or file.name.startswith("ascend_mindspore_profiler"):
        return "mindspore"
    if KINETO_NAME.fullmatch(file.name):
        return "torch"
    if file.name.startswith(("trace_view", "ascend_pytorch_profiler")) or OUTPUT in folders[:2]:
        return "torch_npu"
    named = any(pattern.fullmatch(file.name) for pattern in (*MSPROF_NAMES, OF_MSPROF))
    is_msprof = named or MSPROF_OUTPUT in folders[:2]
    return "msprof" if is_msprof else None


def home_of(source: Source) -> Path:
    """What opens ``source`` and names it best: the folder of its profile, or its file where that is one of several."""
    if source.format.is_folder:
        return source.opened
    file = source.path
    home = file.parent.parent if file.parent.name in (*OUTPUTS, TIMELINE) else file.parent
    above = home.parent
    for place in ([above] if home.name.startswith(("PROF_", "device_")) else []) + [home]:
        try:
            if find_source(place, survey=source.survey).files == source.files:
                return place
        except (InputError, OSError):  # several, none, or not to be read: the file itself names it
            continue
    return file
