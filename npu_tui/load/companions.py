"""The files beside a trace, read: CSV tables, JSON documents, settings of the profiler, a recording of the scheduler.

``companion_schema`` says which tables there are, ``communication`` what the files on collectives hold.

For a recording of the scheduler (ftrace): where it lies, which clock it uses and the threads of which processes it has.
msprof writes ``start_info`` {clockMonotonicRaw ns, collectionTimeBegin us}, torch_npu the end of its run by
CLOCK_MONOTONIC into ``profiler_info_<rank>.json``; ``pid_mapping.json`` is of MindStudio Insight's recorder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec import Struct, field

from npu_tui.load.companion_schema import JsonFile, Reading, Schema, State, find_file
from npu_tui.load.csv_rows import CsvBlocks, parsed_rows
from npu_tui.load.csv_table import read_table
from npu_tui.load.documents import (
    COMMUNICATION,
    LARGEST,
    MATRIX,
    ROW,
    collectives_in,
    fits,
    is_rank,
    matrix_rows_in,
    members_of,
    operations_in,
    read_document,
    read_operations,
    scaled,
    start_ns,
)
from npu_tui.load.errors import InputError
from npu_tui.load.format import OUTPUTS, Source, Survey, imported
from npu_tui.load.formats.ftrace import recording_in
from npu_tui.trace.arrays import I64
from npu_tui.trace.message import message
from npu_tui.trace.once import once
from npu_tui.trace.scheduling import Scheduling
from npu_tui.trace.side_file import read_regular

T = TypeVar("T")

_INFO = re.compile(r"profiler_info(?:_(\d{1,5}))?\.json")
_LEVEL = re.compile(r"Level(\d)")
_MISSING = ("", "N/A")
_PROFILES = ("_ascend_pt", "_ascend_ms")
_LARGE = 32 << 20  # bytes of a table that takes a while to read

STEP_FILE = "step_trace_time.csv"
STEP_TIMES = {"step": "Step", "computing": "Computing", "exposed": "Communication(Not Overlapped)", "free": "Free"}
"""The columns of step_trace_time.csv that say how a step was spent, by the names of its schema."""


class Companions(Struct, frozen=True, dict=True):
    """The files in ``folder``, where the events of a trace lie, and the settings of the profiler above it."""

    folder: Path
    survey: Survey = field(default_factory=Survey)

    def rows(self, name: str, *columns: str) -> Iterator[tuple[str | None, ...]]:
        """The cells of ``columns`` in every row of the CSV file ``name``, blanks and tabs stripped.

        A cell that is empty, ``N/A`` or not there is None. Nothing comes from a file that is missing or cannot be
        read.
        """
        try:
            blocks = CsvBlocks(self.folder / name)
            header = [cell.strip() for cell in blocks.header]
            wanted = [header.index(column) if column in header else -1 for column in columns]
            for block in blocks:
                for cells in parsed_rows(block):
                    if cells:
                        yield tuple(_cell_text(cells, at) for at in wanted)
            if blocks.cut_off:
                self.cut_off.add(name)
        except OSError:
            return

    @once
    def cut_off(self) -> set[str]:
        """The CSV files that end within a row, of those whose ``rows`` were read."""
        return set()

    def step_times(self) -> Iterator[tuple[str | None, ...]]:
        """The cells of ``STEP_TIMES`` in every row of ``STEP_FILE``, as texts; times are in us."""
        return self.rows(STEP_FILE, *STEP_TIMES.values())

    def has(self, schema: Schema) -> bool:
        """Whether there is a table of ``schema``, readable or not."""
        try:
            return find_file(self.folder, schema.stem, schema.others, survey=self.survey).exists()
        except OSError:
            return False

    def read(self, schema: Schema) -> Reading:
        """The table of ``schema`` in typed columns with its faults; read anew at each call."""
        return read_table(self.folder, schema, self.survey)

    def communication(self) -> JsonFile:
        """The collectives of communication.json: ``value`` is a list of ``Collective``."""
        return read_operations(self.folder / COMMUNICATION, collectives_in, lambda collective: collective.size)

    def matrix(self) -> JsonFile:
        """What communication_matrix.json has of every pair of ranks: ``value`` is a list of ``MatrixRow``."""
        return read_operations(self.folder / MATRIX, matrix_rows_in, lambda _: ROW)

    def decoded(self, name: str, decoder: msgspec.json.Decoder[T]) -> T | None:
        """The fields of the file ``name`` that ``decoder`` knows, ten times as fast as all of them.

        None if it is not there, is cut off, large or holds something else: then it has to be read patiently.
        """
        try:
            data = read_regular(self.folder / name)
            return decoder.decode(data) if fits(data) else None
        except (OSError, ValueError, RecursionError):  # what msgspec raises is one; a text that is no UTF-8 too
            return None

    @once
    def above(self) -> Path:
        """The folder of the profile, one directory up."""
        return self.folder.resolve().parent

    @once
    def _info(self) -> JsonFile:
        try:
            name = next(filter(_INFO.fullmatch, self.survey.names(self.above)), None)
        except OSError:
            return JsonFile("missing")
        return JsonFile("missing") if name is None else read_document(self.above / name)

    @once
    def _metadata(self) -> JsonFile:
        return read_document(self.above / "profiler_metadata.json")

    def info_document(self) -> JsonFile:
        """``profiler_info_<rank>.json`` one directory up."""
        return self._info

    def metadata_document(self) -> JsonFile:
        """``profiler_metadata.json`` one directory up: groups and environment."""
        return self._metadata

    @property
    def profiler_info(self) -> dict[str, Any]:
        """The content of ``profiler_info_<rank>.json``, empty without one."""
        return members_of(self.info_document().value)

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks whose profiles lie beside this one and its own, by their ``profiler_info_<rank>.json``."""
        ranks = set()
        try:
            for profile in self.survey.folders(self.above.parent):
                if profile.name.endswith(_PROFILES):
                    matches = map(_INFO.fullmatch, self.survey.names(profile))
                    ranks |= {int(match[1]) for match in matches if match is not None and match[1] is not None}
        except OSError:
            pass
        return tuple(sorted(ranks))

    @property
    def chip(self) -> str | None:
        """What the profile calls its device, such as ``Ascend910B3``; text files do not name it."""
        return None

    @property
    def device_info(self) -> dict[str, Any]:
        """What msprof wrote about the device into ``PROF_*/device_*/info.json.*``; empty where that is gone.

        ``ai_core_num``, ``aiv_num`` and ``aic_frequency`` (MHz) of the first device, ``drvVersion``, ``hostname``.
        """
        places = ("device_*/info.json*", "PROF_*/device_*/info.json*")
        for file in sorted(file for place in places for file in self.survey.glob(self.above, place)):
            info = members_of(read_document(file).value)
            devices = info.get("DeviceInfo")
            if isinstance(devices, list) and devices:
                return {**info, **members_of(devices[0])}
        return {}

    @property
    def host_name(self) -> str | None:
        """The name of the host, where a file has it."""
        names = (info.get(key) for info, key in ((self.profiler_info, "host_name"), (self.device_info, "hostname")))
        return next((name for name in names if isinstance(name, str) and name), None)

    @property
    def profiler_level(self) -> int | None:
        """0, 1 or 2 where the settings of the profiler say so."""
        return level_in(self.profiler_info)


def companions_of(source: Source) -> Companions:
    """What lies beside ``source``. Raises ``InputError`` where it lies in no folder."""
    if source.folder is None:
        raise InputError(message("input.nothing", path=str(source.path), folder=""))
    if not source.format.companions:
        return Companions(source.folder, source.survey)
    companions: Companions = imported(source.format.companions)(source)
    return companions


def large_tables(folder: Path, survey: Survey | None = None) -> list[tuple[str, int]]:
    """The tables in ``folder`` that take a while to read, largest first: name and bytes."""
    try:
        sizes = [(path.name, path.stat().st_size) for path in (survey or Survey()).glob(folder, "*.csv")]
    except OSError:
        return []
    return sorted(((name, size) for name, size in sizes if size >= _LARGE), key=lambda name_and_size: -name_and_size[1])


def level_in(info: dict[str, Any]) -> int | None:
    """The level of the profiler in ``info``, a profiler_info file."""
    settings: Any = info
    for key in ("config", "experimental_config", "_profiler_level"):
        settings = settings.get(key) if isinstance(settings, dict) else None
    match = _LEVEL.fullmatch(settings.rpartition(".")[2]) if isinstance(settings, str) else None
    return int(match[1]) if match else None


def _cell_text(cells: list[str], at: int) -> str | None:
    text = cells[at].strip() if 0 <= at < len(cells) else ""
    return None if text in _MISSING else text


# --- What a job needs of thousands of ranks, without a table ---


class _JobTimes(Struct):
    start: float | None = msgspec.field(name="Start Timestamp(us)", default=None)
    elapsed: float | None = msgspec.field(name="Elapse Time(ms)", default=None)


class _JobOperation(Struct):
    times: _JobTimes | None = msgspec.field(name="Communication Time Info", default=None)


class _JobLink(Struct):
    transport: str | None = msgspec.field(name="Transport Type", default=None)
    size: float | None = msgspec.field(name="Transit Size(MB)", default=None)
    speed: float | None = msgspec.field(name="Bandwidth(GB/s)", default=None)
    operation: str | None = msgspec.field(name="Op Name", default=None)


_job_times = msgspec.json.Decoder(dict[str, dict[str, dict[str, _JobOperation]]])
_job_links = msgspec.json.Decoder(dict[str, dict[str, dict[str, dict[str, _JobLink]]]])


class CollectiveSpans(Struct):
    """Collectives by (step, name, group), their starts and ends in ns since 1970; (n,) each.

    ``state`` is what became of communication.json.
    """

    places: list[tuple[str, str, str]]
    start: I64
    end: I64
    state: State = "read"


def communication_spans(companions: Companions) -> CollectiveSpans:
    """Every collective with its times, without a table."""
    places: list[tuple[str, str, str]] = []
    steps = companions.decoded(COMMUNICATION, _job_times)
    if steps is None:
        document = companions.communication()
        bounds = []
        for collective in document.value or ():
            begin, elapsed = start_ns(collective.start), scaled(collective.spans[0], 1e6)
            if begin is not None and elapsed is not None:
                step, _, name, group = collective.place
                places.append((step, name, group))
                bounds.append((begin, begin + elapsed))
        start, end = np.array(bounds, np.int64).reshape(-1, 2).T
        return CollectiveSpans(places, start, end, document.state)
    rows = []
    for step, _, name, group, body in operations_in(steps, _JobOperation):
        span = body.times
        if span is not None and span.start is not None and span.elapsed is not None:
            places.append((step.removeprefix("step"), name, group))
            rows.append((span.start, span.elapsed))
    table = np.array(rows, np.float64).reshape(-1, 2)
    good = np.isfinite(table).all(axis=1) & (np.abs(table[:, 0]) < LARGEST / 1e3) & (np.abs(table[:, 1]) < 1e12)
    if not good.all():
        table, places = table[good], [place for place, usable in zip(places, good.tolist(), strict=True) if usable]
    whole = np.floor(table[:, 0])  # a float of us since 1970 holds no ns: the parts are scaled apart
    start = whole.astype(np.int64) * 1_000 + np.rint((table[:, 0] - whole) * 1e3).astype(np.int64)
    return CollectiveSpans(places, start, start + np.rint(table[:, 1] * 1e6).astype(np.int64))


LinkRow = tuple[str, str, int, int, str, float | None, float | None, str]
"""Step, group, source, target, transport, size in MB, GB/s and the operation."""


def communication_links(companions: Companions) -> tuple[Iterator[LinkRow], State]:
    """Every operation between two places by communication_matrix.json, without sums over operations, and its state."""
    steps = companions.decoded(MATRIX, _job_links)
    if steps is not None:
        return _typed_links(steps), "read"
    document = companions.matrix()
    return (
        (step, group, source, target, transport or "", size, speed, operation or name)
        for step, _, name, group, source, target, transport, size, _, speed, operation in document.value or ()
        if not name.endswith("-total")
    ), document.state


def _typed_links(steps: dict[str, dict[str, dict[str, dict[str, _JobLink]]]]) -> Iterator[LinkRow]:
    for step, _, name, group, links in operations_in(steps):
        for pair, link in () if name.endswith("-total") else links.items():
            source, _, target = pair.partition("-")
            if is_rank(source) and is_rank(target):
                ends = int(source), int(target)
                yield step, group, *ends, link.transport or "", link.size, link.speed, link.operation or name


_CLOCKS = ("start_info", "PROF_*/start_info", "*/start_info", "PROF_*/*/start_info*", "start_info.*")
_MOST_CLOCKS = 8  # files that are read


@lru_cache(maxsize=1)
def _loaded(path: Path, size: int, changed: int) -> Scheduling:
    from npu_tui.load.ftrace import load_scheduling  # few profiles have one beside them

    return load_scheduling(path)


class Mapped(Struct, frozen=True):
    """A thread by the numbers of the host: its process, and the number that its container has for it."""

    task: int
    process: int
    inside: int


class Recording(Struct, frozen=True):
    """The recording at ``path``; ``offsets`` are what may have to be added to its times to be those of the profile, ns.

    ``threads`` are empty without a ``pid_mapping.json``.
    """

    path: Path
    offsets: tuple[int, ...]
    threads: tuple[Mapped, ...]

    def load(self) -> Scheduling:
        """What it holds, read once for all ranks of a host; raises as ``load_ftrace``."""
        status = self.path.stat()
        return _loaded(self.path, status.st_size, status.st_mtime_ns)


def recording_beside(source: Source) -> Recording | None:
    """The recording beside the profile, in its folders or in that of its job; None without any."""
    folder = source.folder
    if folder is None or not source.format.is_profile:
        return None
    folder = folder.resolve()
    places = [folder, *(folder.parents[:2] if folder.name in OUTPUTS else ())]
    path = next((path for place in places if (path := recording_in(place, source.survey)) is not None), None)
    if path is None:
        return None
    infos = [info for place in (path.parent, *places[:2]) for info in _infos(place, source.survey)]
    offsets = dict.fromkeys(offset for info in infos if (offset := _raw_clock(info)) is not None)
    end = companions_of(source).profiler_info.get("end_info")
    if isinstance(end, dict) and isinstance(utc := end.get("collectionTimeEnd"), int):
        monotonic = end.get("MonotonicTimeEnd")
        if isinstance(monotonic, int):
            offsets[utc - monotonic] = None
    mappings = (read_document(place / "pid_mapping.json").value for place in (path.parent, *places))
    threads = next((_mapped(value) for value in mappings if isinstance(value, dict)), ())
    return Recording(path, tuple(offsets), threads)


def _infos(place: Path, survey: Survey) -> list[dict[str, Any]]:
    files = [file for pattern in _CLOCKS for file in survey.glob(place, pattern)][:_MOST_CLOCKS]
    return [value for file in files if isinstance(value := read_document(file).value, dict)]


def _last_whole_number(value: object) -> int | None:
    text = str(value).split()[-1:]
    return int(text[0]) if text and text[0].isascii() and text[0].isdecimal() and len(text[0]) < 19 else None


def _raw_clock(info: dict[str, Any]) -> int | None:
    raw, utc = _last_whole_number(info.get("clockMonotonicRaw")), _last_whole_number(info.get("collectionTimeBegin"))
    return None if raw is None or utc is None or utc > 1 << 53 else utc * 1000 - raw


def _mapped(value: dict[str, Any]) -> tuple[Mapped, ...]:
    """The threads of a mapping; for a thread in nested containers the number of the innermost one counts."""
    rows = [
        (_last_whole_number(task), _last_whole_number(row.get("Tgid", task)), _last_whole_number(row.get("NSpid")))
        for task, row in value.items()
        if isinstance(row, dict)
    ]
    return tuple(
        Mapped(task, task if process is None else process, inside)
        for task, process, inside in rows
        if task is not None and inside is not None
    )
