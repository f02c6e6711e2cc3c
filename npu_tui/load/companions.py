"""The files beside a trace, read: CSV tables, JSON documents, communication.json."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import orjson
from msgspec import Struct

from npu_tui.load.companion_schema import Reading, Schema, State, find_file, reason
from npu_tui.load.csv_table import Blocks, parsed_rows
from npu_tui.load.times import INVALID, parse_time

if TYPE_CHECKING:
    import polars as pl


_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*("?)|[{}\[\],]', re.DOTALL)
_CLOSING = {b"{": b"}", b"[": b"]"}


class Document(Struct, frozen=True):
    """What became of a JSON file: its ``value`` (None without one), of a file that is cut off what stands before."""

    state: State
    value: Any = None
    why: str = ""


def read_document(path: Path) -> Document:
    """The content of the JSON file ``path``."""
    try:
        if not path.exists():
            return Document("missing")
        data = path.read_bytes()
    except OSError as error:
        return Document("unreadable", why=reason(error))
    data = data.removeprefix(b"\xef\xbb\xbf")
    if not data.strip(b" \t\r\n\0"):
        return Document("empty")
    try:
        data.decode()
    except UnicodeDecodeError:
        data = data.decode("gb18030", "replace").encode()
    try:
        value = orjson.loads(data)
    except ValueError as error:
        closed = _closed(data)
        try:
            return Document("cut_off", orjson.loads(closed)) if closed else Document("unreadable", why=reason(error))
        except ValueError:
            return Document("unreadable", why=reason(error))
    return Document("read" if value not in ({}, [], None) else "empty", value)


def _closed(data: bytes) -> bytes:
    """``data`` up to its last whole member, with the brackets that are open there closed; empty if it is not cut."""
    ends: list[bytes] = []
    whole = 0
    for match in _TOKEN.finditer(data):
        token = match[0]
        if match[1] == b"":
            break  # the text that begins here is cut off
        if token in _CLOSING:
            ends.append(_CLOSING[token])
            whole = match.end()
        elif token in (b"}", b"]"):
            if not ends or ends.pop() != token:
                return b""
            whole = match.end()
        elif token == b",":
            whole = match.start()
    return data[:whole] + b"".join(reversed(ends)) if ends else b""


_INFO = re.compile(r"profiler_info(?:_(\d{1,5}))?\.json")
_LEVEL = re.compile(r"Level(\d)")
_MISSING = ("", "N/A")
_PROFILES = ("_ascend_pt", "_ascend_ms")
_LARGE = 32 << 20


class Companions(Struct, frozen=True):
    """The files in ``folder``, where the events of a trace lie, and the settings of the profiler above it."""

    folder: Path

    def rows(self, name: str, *columns: str) -> Iterator[tuple[str | None, ...]]:
        """The cells of ``columns`` in every row of the CSV file ``name``, blanks and tabs stripped.

        A cell that is empty, ``N/A`` or not there is None. Nothing comes from a file that is missing or cannot be
        read.
        """
        try:
            blocks = Blocks(self.folder / name)
            header = [cell.strip() for cell in blocks.header]
            wanted = [header.index(column) if column in header else -1 for column in columns]
            for block in blocks:
                for cells in parsed_rows(block):
                    if cells:
                        yield tuple(_cell(cells, at) for at in wanted)
        except OSError:
            return

    def has(self, schema: Schema) -> bool:
        """Whether there is a table of ``schema``, readable or not."""
        try:
            return find_file(self.folder, schema.stem, schema.others).exists()
        except OSError:
            return False

    def read(self, schema: Schema) -> Reading:
        """The table of ``schema`` in typed columns, read again each time; what is wrong with it is told with it."""
        from npu_tui.load.csv_table import read_table

        return read_table(self.folder, schema)

    def document_state(self, name: str) -> Document:
        """The JSON file ``name`` with what became of it."""
        return read_document(self.folder / name)

    def document(self, name: str) -> Any:
        """The content of the JSON file ``name``, None if it is missing or no JSON."""
        return self.document_state(name).value

    @property
    def info_state(self) -> Document:
        """``profiler_info_<rank>.json`` one directory up, with what became of it."""
        try:
            above = self.folder.resolve().parent.iterdir()
            found = min((file for file in above if _INFO.fullmatch(file.name)), default=None)
        except OSError:
            return Document("missing")
        return Document("missing") if found is None else read_document(found)

    @property
    def profiler_info(self) -> dict[str, Any]:
        """The content of ``profiler_info_<rank>.json``, empty without one."""
        found = self.info_state.value
        return found if isinstance(found, dict) else {}

    @property
    def metadata_state(self) -> Document:
        """``profiler_metadata.json`` one directory up, with what became of it."""
        return read_document(self.folder.resolve().parent / "profiler_metadata.json")

    @property
    def metadata(self) -> Any:
        """The content of ``profiler_metadata.json``, None without one."""
        return self.metadata_state.value

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks whose profiles lie beside this one, its own included, by their ``profiler_info_<rank>.json``."""
        found = set()
        try:
            for profile in self.folder.resolve().parent.parent.iterdir():
                if profile.name.endswith(_PROFILES) and profile.is_dir():
                    matches = (_INFO.fullmatch(file.name) for file in profile.iterdir())
                    found |= {int(match[1]) for match in matches if match is not None and match[1] is not None}
        except OSError:
            pass
        return tuple(sorted(found))

    @property
    def chip(self) -> str | None:
        """What the profile calls its device, such as ``Ascend910B3``; text files do not tell."""
        return None

    @property
    def profiler_level(self) -> int | None:
        """0, 1 or 2 where the settings of the profiler say so."""
        return level_in(self.profiler_info)


def large_tables(folder: Path) -> list[tuple[str, int]]:
    """The tables in ``folder`` that take a while to read, largest first: name and bytes."""
    try:
        sizes = [(path.name, path.stat().st_size) for path in folder.glob("*.csv")]
    except OSError:
        return []
    return sorted(((name, size) for name, size in sizes if size >= _LARGE), key=lambda one: -one[1])


def level_in(info: dict[str, Any]) -> int | None:
    """The level of the profiler that ``info``, a profiler_info file, tells."""
    settings: Any = info
    for key in ("config", "experimental_config", "_profiler_level"):
        settings = settings.get(key) if isinstance(settings, dict) else None
    match = _LEVEL.fullmatch(settings.rpartition(".")[2]) if isinstance(settings, str) else None
    return int(match[1]) if match else None


def _cell(cells: list[str], at: int) -> str | None:
    text = cells[at].strip() if 0 <= at < len(cells) else ""
    return None if text in _MISSING else text


I64 = npt.NDArray[np.int64]

_LARGEST = 2**62

COMMUNICATION, MATRIX = "communication.json", "communication_matrix.json"
_TOTALS = ("Total Op Info", "total")
_PLACE = {"step": str, "kind": str, "name": str, "group": str}
_TIMES = {
    "elapsed": "Elapse Time(ms)",
    "transit": "Transit Time(ms)",
    "wait": "Wait Time(ms)",
    "synchronization": "Synchronization Time(ms)",
    "idle": "Idle Time(ms)",
}


class _Times(msgspec.Struct):
    start: float | None = msgspec.field(name="Start Timestamp(us)", default=None)
    elapsed: float | None = msgspec.field(name="Elapse Time(ms)", default=None)


class _Operation(msgspec.Struct):
    times: _Times | None = msgspec.field(name="Communication Time Info", default=None)


class _Link(msgspec.Struct):
    transport: str | None = msgspec.field(name="Transport Type", default=None)
    size: float | None = msgspec.field(name="Transit Size(MB)", default=None)
    speed: float | None = msgspec.field(name="Bandwidth(GB/s)", default=None)
    operation: str | None = msgspec.field(name="Op Name", default=None)


_communication = msgspec.json.Decoder(dict[str, dict[str, dict[str, _Operation]]])
_matrix = msgspec.json.Decoder(dict[str, dict[str, dict[str, dict[str, _Link]]]])
_Decoded = TypeVar("_Decoded")


def communication_times(document: Document) -> Reading:
    """A row per collective: ``start`` (ns since 1970, rounded by its writer to 0.5 us) and its times in ns."""
    columns = {
        **_PLACE,
        "start": int,
        **dict.fromkeys(_TIMES, int),
        "wait_ratio": float,
        "synchronization_ratio": float,
    }
    rows = [
        (
            *place,
            _start(times.get("Start Timestamp(us)")),
            *(_scaled(times.get(title), 1e6) for title in _TIMES.values()),
            _number(times.get("Wait Time Ratio")),
            _number(times.get("Synchronization Time Ratio")),
        )
        for place, times in _times(document.value)
    ]
    return _reading(COMMUNICATION, document, columns, rows)


class Spans(msgspec.Struct):
    """Collectives by (step, name, group), their starts and ends in ns since 1970; (n,) each.

    ``state`` is what became of communication.json.
    """

    places: list[tuple[str, str, str]]
    start: I64
    end: I64
    state: State = "read"


def communication_spans(companions: Companions) -> Spans:
    """Every collective with its times, without a table."""
    places: list[tuple[str, str, str]] = []
    steps = _decoded(companions, COMMUNICATION, _communication)
    if steps is None:
        document = companions.document_state(COMMUNICATION)
        bounds = []
        for (step, _, name, group), times in _times(document.value):
            begin, elapsed = _start(times.get("Start Timestamp(us)")), _scaled(times.get(_TIMES["elapsed"]), 1e6)
            if begin is not None and elapsed is not None:
                places.append((step, name, group))
                bounds.append((begin, begin + elapsed))
        start, end = np.array(bounds, np.int64).reshape(-1, 2).T
        return Spans(places, start, end, document.state)
    rows = []
    for step, kinds in steps.items():
        number = step.removeprefix("step")
        for operations in kinds.values():
            for key, body in operations.items():
                span = body.times
                if span is None or span.start is None or span.elapsed is None:
                    continue
                name, _, group = key.partition("@")
                if name not in _TOTALS:
                    places.append((number, name, group))
                    rows.append((span.start, span.elapsed))
    table = np.array(rows, np.float64).reshape(-1, 2)
    good = np.isfinite(table).all(axis=1) & (np.abs(table[:, 0]) < _LARGEST / 1e3) & (np.abs(table[:, 1]) < 1e12)
    if not good.all():
        table, places = table[good], [place for place, usable in zip(places, good.tolist(), strict=True) if usable]
    whole = np.floor(table[:, 0])  # a float of us since 1970 holds no ns: the parts are scaled apart
    start = whole.astype(np.int64) * 1_000 + np.rint((table[:, 0] - whole) * 1e3).astype(np.int64)
    return Spans(places, start, start + np.rint(table[:, 1] * 1e6).astype(np.int64))


LinkRow = tuple[str, str, int, int, str, float | None, float | None, str]
"""Step, group, source, target, transport, size in MB, GB/s and the operation."""


def communication_links(companions: Companions) -> tuple[Iterator[LinkRow], State]:
    """Every operation between two places by communication_matrix.json, without sums over operations, and its state."""
    steps = _decoded(companions, MATRIX, _matrix)
    if steps is not None:
        return _typed_links(steps), "read"
    document = companions.document_state(MATRIX)
    return (
        (step, group, source, target, transport or "", size, speed, operation or name)
        for step, _, name, group, source, target, transport, size, _, speed, operation in _matrix_rows(document)
        if not name.endswith("-total")
    ), document.state


def _typed_links(steps: dict[str, dict[str, dict[str, dict[str, _Link]]]]) -> Iterator[LinkRow]:
    for step, kinds in steps.items():
        for operations in kinds.values():
            for key, links in operations.items():
                name, _, group = key.partition("@")
                if name in _TOTALS or name.endswith("-total"):
                    continue
                for pair, link in links.items():
                    source, _, target = pair.partition("-")
                    if source.isdecimal() and target.isdecimal():
                        operation = link.operation or name
                        ends = int(source), int(target)
                        yield step, group, *ends, link.transport or "", link.size, link.speed, operation


def _decoded(companions: Companions, name: str, decoder: msgspec.json.Decoder[_Decoded]) -> _Decoded | None:
    """The few fields that a job needs of the file ``name`` as records, ten times as fast as all of them.

    None if it is not there, is cut off or holds something else: then it is read patiently.
    """
    if type(companions) is not Companions:  # what a database holds is no file
        return None
    try:
        return decoder.decode((companions.folder / name).read_bytes())
    except (OSError, ValueError):  # what msgspec raises is one; a text that is no UTF-8 too
        return None


def communication_bandwidth(document: Document) -> Reading:
    """A row per collective and transport (SDMA, RDMA, HCCS, PCIE, SIO): size in MB, time in ns, GB/s."""
    columns = {
        **_PLACE, "transport": str, "size_mb": float, "transit": int, "gb_s": float, "large_packet_ratio": float,
    }  # fmt: skip
    rows = [
        (
            *place,
            transport,
            _number(link.get("Transit Size(MB)")),
            _scaled(link.get("Transit Time(ms)"), 1e6),
            _number(link.get("Bandwidth(GB/s)")),
            _number(link.get("Large Packet Ratio")),
        )
        for place, transport, link in _links(document.value)
    ]
    return _reading(COMMUNICATION, document, columns, rows)


def communication_packets(document: Document) -> Reading:
    """A row per collective, transport and size of packet in MB: how many there were, and their time in ns."""
    columns = {**_PLACE, "transport": str, "packet_mb": float, "count": int, "total": int}
    rows = []
    for place, transport, link in _links(document.value):
        for size, found in _dict(link.get("Size Distribution")).items():
            count, total, *_ = [*found, None, None] if isinstance(found, list) else (None, None)
            rows.append((*place, transport, _number(size), _scaled(count, 1), _scaled(total, 1e6)))
    return _reading(COMMUNICATION, document, columns, rows)


def communication_matrix(document: Document) -> Reading:
    """A row per operation and pair of ranks of its group: size in MB, time in ns, GB/s."""
    columns = {
        **_PLACE, "source": int, "target": int, "transport": str, "size_mb": float, "transit": int, "gb_s": float,
        "operation": str,
    }  # fmt: skip
    return _reading(MATRIX, document, columns, list(_matrix_rows(document)))


def _matrix_rows(document: Document) -> Iterator[tuple[Any, ...]]:
    """The rows of ``communication_matrix``."""
    for place, body in _operations(document.value):
        for pair, link in body.items():
            source, _, target = pair.partition("-")
            if isinstance(link, dict) and source.isdecimal() and target.isdecimal():
                yield (
                    *place,
                    int(source),
                    int(target),
                    _text(link.get("Transport Type")),
                    _number(link.get("Transit Size(MB)")),
                    _scaled(link.get("Transit Time(ms)"), 1e6),
                    _number(link.get("Bandwidth(GB/s)")),
                    _text(link.get("Op Name")),
                )


def _reading(name: str, document: Document, columns: dict[str, type], rows: list[tuple[Any, ...]]) -> Reading:
    import polars as pl

    types: dict[type, Any] = {str: pl.String, int: pl.Int64, float: pl.Float64}
    frame: pl.DataFrame = pl.DataFrame(rows, schema={key: types[kind] for key, kind in columns.items()}, orient="row")
    state = "empty" if document.state == "read" and not rows else document.state
    return Reading(name, state, frame, tuple(columns) if rows else (), why=document.why)


def _times(value: Any) -> Iterator[tuple[tuple[str, str, str, str], dict[str, Any]]]:
    for place, body in _operations(value):
        yield place, _dict(body.get("Communication Time Info"))


def _operations(value: Any) -> Iterator[tuple[tuple[str, str, str, str], dict[str, Any]]]:
    for step, kinds in _dict(value).items():
        for kind, operations in _dict(kinds).items():
            for key, body in _dict(operations).items():
                name, _, group = key.partition("@")
                if name not in _TOTALS and isinstance(body, dict):
                    yield (step.removeprefix("step"), kind, name, group), body


def _links(value: Any) -> Iterator[tuple[tuple[str, str, str, str], str, dict[str, Any]]]:
    for place, body in _operations(value):
        for transport, link in _dict(body.get("Communication Bandwidth Info")).items():
            if isinstance(link, dict):
                yield place, transport, link


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _start(value: Any) -> int | None:
    time = INVALID if value is None else parse_time(str(value))
    return None if time == INVALID else time


def _scaled(value: Any, factor: float) -> int | None:
    number = _number(value)
    return None if number is None or abs(number * factor) >= 2**62 else round(number * factor)
