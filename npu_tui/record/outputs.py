"""The profiles that a recording leaves below a folder: how far each has come, and the analysis of raw ones.

A rank of torch_npu writes ``<host>_<pid>_<time>_ascend_pt`` with ``FRAMEWORK`` and ``PROF_*``;
``profiler_info_<rank>.json`` comes when all is recorded. Its analysis makes ``ASCEND_PROFILER_OUTPUT`` empty first and
puts ``analyse.done`` there at its end, also where a part of it failed; before 2026 there is no such file, and what does
not change any more is complete (``torch_npu/profiler/analysis/_profiling_parser.py``). MindSpore writes
``..._ascend_ms`` likewise, one folder below ``rank<rank>_start<step>_stop<step>``.

Raw profiles are analysed one after the other by the command of their profiler: for torch_npu and MindSpore ``analyse``
of their profiler, which needs ``msprof`` of CANN on the PATH; ``msprof --export=on``; ``msserviceprofiler parse``. An
analysis needs no NPU.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Literal

import msgspec
import orjson
from msgspec import Struct

from npu_tui.load.find import Source, sources_in, unparsed_below
from npu_tui.load.format import MSPROF_OUTPUT, OUTPUT, Survey
from npu_tui.load.formats.database import databases_in
from npu_tui.load.raw import PARSED, Writer, commands_of, is_msprof, shell_of, writer_of
from npu_tui.nearby import Nearby, newest_first, raw_nearby
from npu_tui.record import POLL, Progress, RecordClock, RecordError, surely, unreadable
from npu_tui.trace.message import Message, message
from npu_tui.trace.side_file import admitted, open_regular, paths_in, read_regular
from npu_tui.trace.text import on_one_line
from npu_tui.whole_file import write_file

ANALYSED = "analyse.done"

_PROFILE = re.compile(r".+_ascend_(?:pt|ms)")
_INFO = re.compile(r"profiler_info(?:_(\d{1,9}))?\.json")
_MOST_INFO = 1 << 20
_DEPTH = 2
"""Profiles of MindSpore lie in a folder of their rank."""

State = Literal["recording", "written", "analysing", "raw", "complete", "failed", "broken"]
"""``written``: all is recorded, and an analysis may begin; ``raw``: none has. ``failed``: it has left no trace.
``broken``: the recording has not come to its end.
"""
ENDED: frozenset[State] = frozenset({"raw", "complete", "failed", "broken"})
"""The states in which nothing changes any more by itself."""

QUIET = 30.0
"""Seconds in which an analysis that has begun has written something: it makes its folder at once."""
SETTLED = 10.0
"""Seconds after the last change of a profile whose analysis does not mark its end."""


def is_whole(file: Path) -> bool:
    """Whether ``file``, JSON or a database, ends as a whole one does, by its last bytes."""
    if file.suffix == ".db":
        return not any(Path(f"{file}{end}").exists() for end in ("-journal", "-wal"))
    try:
        with open_regular(file) as stream:
            stream.seek(max(stream.seek(0, 2) - _TAIL, 0))
            return bool(stream.read().rstrip().endswith((b"]", b"}")))
    except OSError:
        return False


_TAIL = 256


class FolderLook(Struct, frozen=True):
    """How a profile looks: its ``files`` with their ``bytes``, and the newest time of change, ns."""

    files: int = 0
    bytes: int = 0
    changed: int = 0


class Output:
    """The profile in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def info(self) -> Path | None:
        """The file that is written when all of it is recorded."""
        return next((path for path in _outputs_inside(self.folder) if _INFO.fullmatch(path.name)), None)

    @property
    def rank(self) -> int | None:
        """The rank that writes it, None as long as it is unknown."""
        found = None if self.info is None else _INFO.fullmatch(self.info.name)
        return None if found is None or found[1] is None else int(found[1])

    @property
    def is_done(self) -> bool:
        """Whether its analysis has said that it ended."""
        return (self.folder / OUTPUT / ANALYSED).is_file()

    @property
    def has_trace(self) -> bool:
        """Whether a trace or a database has come out of its analysis."""
        place = self.folder / OUTPUT
        try:
            return (place / "trace_view.json").is_file() or bool(databases_in(place, Survey()))
        except OSError:
            return False

    @property
    def is_begun(self) -> bool:
        """Whether an analysis has begun."""
        exported = any((path / MSPROF_OUTPUT).is_dir() for path in _outputs_inside(self.folder))
        return exported or (self.folder / OUTPUT).is_dir()

    def state(self, unchanged: float) -> State:
        """How far it is, if nothing of it has changed for ``unchanged`` seconds."""
        if self.is_done:
            return "complete" if self.has_trace else "failed"
        if self.is_analysed and unchanged >= SETTLED:
            return "complete"
        if self.is_begun:
            return "analysing"
        if self.info is None:
            return "recording" if unchanged < QUIET else "broken"
        return "written" if unchanged < QUIET else "raw"

    @property
    def is_analysed(self) -> bool:
        """Whether a trace or a database has come out of its analysis, whole by the ends of its files."""
        files = _outputs_inside(self.folder / OUTPUT)
        whole = self.is_done or all(is_whole(file) for file in files if file.suffix in (".json", ".db"))
        return self.has_trace and whole

    def look(self) -> FolderLook:
        """How it looks now."""
        files = bytes = changed = 0
        for folder, _, names in os.walk(admitted(self.folder)):
            for name in names:
                try:
                    told = os.stat(os.path.join(folder, name))
                except OSError:
                    continue
                files, bytes, changed = files + 1, bytes + told.st_size, max(changed, told.st_mtime_ns)
        return FolderLook(files, bytes, changed)

    @property
    def steps(self) -> int | None:
        """How many steps it was asked to record, None where that is unknown."""
        info = self.info
        try:
            if info is None:
                return None
            schedule = orjson.loads(read_regular(info, _MOST_INFO))["config"]["common_config"]["schedule"]
            return int(schedule["active"])
        except (OSError, ValueError, TypeError, KeyError):
            return None


def _outputs_inside(folder: Path) -> list[Path]:
    try:
        return paths_in(folder)
    except OSError:
        return []


def outputs_below(folder: Path, depth: int = _DEPTH) -> Iterator[Output]:
    """The profiles in ``folder``, or one or two folders deeper, by name."""
    for path in _outputs_inside(folder):
        if not path.is_dir():
            continue
        if _PROFILE.fullmatch(path.name):
            yield Output(path)
        elif depth and not path.is_symlink():
            yield from outputs_below(path, depth - 1)


class Size(Struct, frozen=True):
    """What a recording takes on the disk: ``bytes`` of each of ``ranks`` ranks for each of ``steps`` steps."""

    bytes: int
    ranks: int
    steps: int

    def of(self, ranks: int, steps: int) -> int:
        """Bytes of as many ranks and steps, by proportion."""
        return round(self.bytes / max(self.ranks * self.steps, 1) * ranks * steps)


def last_size(folder: Path) -> Size | None:
    """What the last recording of a rank in ``folder`` took; None without one that has its steps."""
    known = [(output.folder.stat().st_mtime_ns, output) for output in outputs_below(folder) if output.steps]
    if not known:
        return None
    _, last = max(known, key=lambda entry: entry[0])
    return Size(last.look().bytes, 1, last.steps or 1)


class Followed:
    """A profile that is being written, looked at again and again; ``now`` is in seconds of one clock."""

    def __init__(self, output: Output, now: float) -> None:
        self.output = output
        self.seen = output.look()
        self._since = now

    def state(self, now: float) -> State:
        """How far it is."""
        look = self.output.look()
        if look != self.seen:
            self.seen, self._since = look, now
        return self.output.state(now - self._since)

    def unchanged(self, now: float) -> float:
        """Seconds since something of it changed."""
        return now - self._since


_MARK = re.compile(rb"ProfilerStep#(\d{1,18})\D")
_LONGEST = 32
"""Bytes of a mark; only its beginning may have been read."""
# Read at one look: a rank records a few MB a second, and what is left over comes with the next look.
_MOST_BYTES = 16 << 20


class StepMarks:
    """The marks of steps in the raw data of the profile in ``folder``, read as they are written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}
        self._steps: set[bytes] = set()

    def over(self) -> int:
        """How many steps are over for certain; 0 also where it is unknown."""
        try:
            for path in paths_in(self._folder / "FRAMEWORK"):
                if path.name.endswith(".op_range"):
                    self._look(path)
        except OSError:  # it is not there yet
            pass
        return len(self._steps)

    def _look(self, path: Path) -> None:
        with open_regular(path) as file:
            begin = file.seek(max(self._read.get(path, 0) - _LONGEST, 0))
            content = file.read(_MOST_BYTES)
        self._steps.update(_MARK.findall(content))
        self._read[path] = begin + len(content)


_LAST = 4 << 10
_SAID = 200
_CHECK_SECONDS = 60.0
PYTHON = "python3"
"""What analyses unless the user names another: that of the shell has torch_npu, our own seldom."""
_END_SECONDS = 3.0  # seconds in which a program that is asked to end does so
_GENTLY = ("nice", "-n", "10")  # the job that was recorded runs on, and its threads come first


class RawProfile(Struct, frozen=True):
    """RawProfile data in ``folder``, and the ``writer`` that parses them."""

    folder: Path
    writer: Writer


def raw_below(path: Path, ranks: Sequence[int] = ()) -> list[RawProfile]:
    """The raw profiles at ``path`` or one or two folders below it, of ``ranks`` alone where any are named.

    What is analysed already is left out. Raises ``RecordError``.
    """
    try:
        found = list(_raw_in(path, _DEPTH))
    except OSError as error:
        raise unreadable(path, error) from error
    if ranks:
        found = [raw for raw in found if Output(raw.folder).rank in ranks]
    return found


def _raw_in(place: Path, depth: int) -> Iterator[RawProfile]:
    writer = writer_of(place, Survey())
    if writer is not None:  # what lies inside belongs to it
        if not _is_analysed(place, writer):
            yield RawProfile(place, writer)
    elif depth:
        for inner in paths_in(place):
            if inner.is_dir() and not inner.is_symlink():
                yield from _raw_in(inner, depth - 1)


def raw_rows(folder: Path, sources: Sequence[Source]) -> list[Nearby]:
    """The raw profiles at ``folder`` and below it, beside the ``sources`` there, as ``in_order`` lists them."""
    survey, rows = Survey(), list[Nearby]()
    found = unparsed_below(folder, sources, survey)
    try:
        own = writer_of(folder, survey) if not sources else None
    except OSError:  # it is said where it is opened
        own = None
    if own is not None and not sources_in(folder, survey):
        found = [(folder, own)]
    for place, writer in found:
        output = Output(place)
        look = output.look()
        rows.append(raw_nearby(place, writer, folder, look.bytes, look.changed / 1e9, output.rank))
    return newest_first(rows)


def opened_of(folder: Path) -> Path:
    """What is opened of a profile that was analysed: the tables of a service, else the profile itself."""
    parsed = folder / PARSED
    return parsed if parsed.is_dir() else folder


def raw_at(folder: Path) -> RawProfile:
    """The raw data that lie in ``folder``. Raises ``RecordError`` where there are none."""
    try:
        writer = writer_of(folder, Survey())
    except OSError as error:
        raise unreadable(folder, error) from error
    if writer is None:
        raise RecordError(message("record.no_raw", path=str(folder)))
    return RawProfile(folder, writer)


def _is_analysed(folder: Path, writer: Writer) -> bool:
    if writer in ("torch_npu", "mindspore"):
        return Output(folder).is_analysed
    if writer == "msserviceprofiler":
        return (folder / PARSED).is_dir()
    parts = [folder] if is_msprof(folder) else [part for part in paths_in(folder) if is_msprof(part)]
    return all((part / MSPROF_OUTPUT).is_dir() for part in parts)


def analysed(
    raws: Sequence[RawProfile], clock: RecordClock, python: str = PYTHON, jobs: int | None = None
) -> Generator[Progress]:
    """Analyse ``raws``, of which ``jobs`` processes take a part each; each state once it is there.

    ``python`` is that of the job: it has its profiler. What an analysis that is broken off had written is removed, as
    it could pass for a whole one. Raises ``RecordError``, ``StoppedError``.
    """
    for raw in raws:
        _refuse_absent(raw, python)
        _refuse_busy(raw)
    done: list[Path] = []
    for number, raw in enumerate(raws, 1):
        size = Output(raw.folder).look().bytes
        free = shutil.disk_usage(raw.folder).free
        expected = estimated(raw.writer, size)
        if free < expected.room:
            raise RecordError(message("record.no_room_analysis", folder=str(raw.folder), needed=expected.room,
                                      free=free), [raw.folder])  # fmt: skip
        yield Progress("analysing", message("record.analyses", number=number, count=len(raws), path=str(raw.folder),
                                            size=size, estimate=expected.said))  # fmt: skip
        begun, most = clock.now(), size
        for command in commands_of(raw.writer, [raw.folder], python, jobs):
            followed = Followed(Output(raw.folder), clock.now())
            for progress in _run_command(raw, command, clock, followed):
                most = max(most, followed.seen.bytes)
                yield progress
        most = max(most, Output(raw.folder).look().bytes)
        remember(raw.writer, size, clock.now() - begun, most - size)
        done.append(raw.folder)
    yield Progress("complete", message("record.complete", count=len(done)), tuple(done))


def shell_line(raws: Sequence[RawProfile], python: str = PYTHON) -> str:
    """The commands that analyse ``raws``, to be copied into a shell."""
    return shell_of([call for raw in raws for call in commands_of(raw.writer, [raw.folder], python)])


def _refuse_absent(raw: RawProfile, python: str) -> None:
    """Raises ``RecordError`` where what parses ``raw`` is not installed here."""
    missing = []
    if raw.writer in ("torch_npu", "mindspore"):
        look = f"import importlib.util as u, sys; sys.exit(u.find_spec({raw.writer!r}) is None)"
        try:
            told = subprocess.run([python, "-c", look], capture_output=True, timeout=_CHECK_SECONDS, check=False)
        except (OSError, subprocess.SubprocessError):
            raise RecordError(message("record.no_python", python=python)) from None
        missing += [f"{raw.writer} ({python})"] if told.returncode else []
        missing += [] if shutil.which("msprof") else ["msprof (CANN)"]
    elif shutil.which(raw.writer) is None:
        missing.append(raw.writer)
    if missing:
        raise RecordError(message("record.no_analyser", missing=missing, command=shell_line([raw])), [raw.folder])


def _refuse_busy(raw: RawProfile) -> None:
    """Raises ``RecordError`` where an analysis of ``raw`` is under way, by its last change."""
    output = Output(raw.folder)
    ago = time.time() - output.look().changed / 1e9
    if output.state(ago) == "analysing" and 0 <= ago < QUIET:
        raise RecordError(message("record.analysed_elsewhere", path=str(raw.folder), ago=ago * 1e9), [raw.folder])


def _results(folder: Path) -> dict[Path, int]:
    """The folders in which an analysis of ``folder`` leaves what it made, with the time of their last change, ns."""
    found = {}
    for place in (folder, *paths_in(folder)):
        for name in (OUTPUT, MSPROF_OUTPUT, PARSED):
            with suppress(OSError):
                found[place / name] = (place / name).stat().st_ctime_ns
    return found


def _break_off(process: subprocess.Popen[bytes], folder: Path, before: dict[Path, int]) -> None:
    """End ``process`` and all it has started, then take away what it had made of ``folder`` since ``before``."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):  # after the first one only what has not heard it
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
    for made, changed in _results(folder).items():
        if before.get(made) != changed:
            shutil.rmtree(made, ignore_errors=True)


def _last_line(said: IO[bytes]) -> str:
    """The last line that a program has written into ``said``, and goes on writing to; empty without one."""
    descriptor = said.fileno()
    tail = os.pread(descriptor, _LAST, max(os.fstat(descriptor).st_size - _LAST, 0)).decode("utf-8", "replace")
    lines = [line for line in tail.splitlines() if line.strip()]
    return on_one_line(lines[-1])[:_SAID] if lines else ""


def _run_command(raw: RawProfile, command: Sequence[str], clock: RecordClock, followed: Followed) -> Iterator[Progress]:
    """Run ``command`` to its end."""
    begun, told, before = clock.now(), None, _results(raw.folder)
    with tempfile.TemporaryFile() as said:
        gently = _GENTLY if shutil.which(_GENTLY[0]) else ()
        try:
            process = subprocess.Popen([*gently, *command], stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                                       env=os.environ | {"PYTHONUNBUFFERED": "1"}, start_new_session=True)  # fmt: skip
        except OSError as error:
            raise unreadable(command[0], error) from error
        try:
            while process.poll() is None:
                clock.wait(POLL)
                followed.state(clock.now())
                seen, says = followed.seen, _last_line(said)
                code = "record.analyses_says" if says else "record.analyses_now"
                line = Progress("analysing", message(code, path=raw.folder.name, said=says, size=seen.bytes,
                                                     files=seen.files))  # fmt: skip
                if line != told:
                    told = line
                    yield line
        except BaseException:
            surely(lambda: _break_off(process, raw.folder, before))
            raise
        why = _last_line(said)
    if process.returncode or not _is_analysed(raw.folder, raw.writer):
        args = {"path": str(raw.folder), "code": process.returncode, "waited": (clock.now() - begun) * 1e9}
        raise RecordError(message("record.analysis_failed" if why else "record.analysis_silent", why=why, **args),
                          [raw.folder])  # fmt: skip


_ROOM = 2  # an analysis needs the room of the raw data once more for CANN's tables and once more for the trace
# Bytes of raw data from which torch_npu itself warns that its analysis may take more than 30 minutes.
_LONG_FROM = 1 << 30
_LIKE = 16  # how many times larger or smaller the raw data of the compared run may be: any start takes seconds
_LONGEST_MEMORY = 64 << 10


class Estimate(Struct, frozen=True):
    """``room``: bytes on the disk that an analysis needs; ``said``: time and room, and what they are taken from."""

    room: int
    said: Message


class AnalysisRun(Struct, frozen=True):
    """An analysis that came to its end: ``bytes`` of raw data, ``seconds``, the most bytes of ``room`` beside them."""

    bytes: int
    seconds: float
    room: int


def estimated(writer: Writer, bytes: int) -> Estimate:
    """What the analysis of ``bytes`` of raw data of ``writer`` needs: by proportion to the last one of like size."""
    last = _known_runs().get(writer)
    if last is not None and last.bytes > 0 and 1 / _LIKE <= bytes / last.bytes <= _LIKE:
        times = bytes / last.bytes
        room = round(last.room * times)
        said = message("record.estimate.last", length=last.seconds * times * 1e9, room=room, size=last.bytes,
                       took=last.seconds * 1e9)  # fmt: skip
        return Estimate(room, said)
    is_long = writer == "torch_npu" and bytes >= _LONG_FROM
    room = _ROOM * bytes
    return Estimate(room, message("record.estimate.long" if is_long else "record.estimate.unknown", room=room))


def remember(writer: Writer, bytes: int, seconds: float, room: int) -> None:
    """Keep how the last analysis of ``writer`` went; without a cache the next one is not estimated by it."""
    known = _known_runs() | {writer: AnalysisRun(bytes, seconds, room)}
    with suppress(OSError):
        _file().parent.mkdir(parents=True, exist_ok=True)
        write_file(_file(), msgspec.json.encode(known))


def _known_runs() -> dict[str, AnalysisRun]:
    with suppress(OSError, msgspec.MsgspecError, UnicodeError):
        known = msgspec.json.decode(read_regular(_file(), _LONGEST_MEMORY), type=dict[str, AnalysisRun])
        return {writer: run for writer, run in known.items() if run.bytes > 0 and run.seconds >= 0 and run.room >= 0}
    return {}


def _file() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("npu-tui") / "analyses.json"
