"""The file of a parsed copy: all columns of a trace, and the sketch that its first picture needs.

It is a format of our own, which another version never reads (``copy.key_of``): a lead of 64 bytes, then twice columns
and their head, first those of the sketch. A head is msgpack; it says where each column lies, and the CRC-32 of every
piece. The sketch is some slices of each row, so few that they are read and drawn at once, however long the trace is.

An ``.npz`` of the same columns takes the same processor time (148 MB: 0.15 to 0.24 s, here 0.17), but on one core, and
has a directory of up to 2,600 arrays to be read before the sketch, by ``zipfile``; Arrow has no checksums.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, BinaryIO, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace as replace_fields

from npu_tui.load.args import JsonArgs
from npu_tui.load.errors import UNWATCHED, InputError, Watcher
from npu_tui.load.find import Source
from npu_tui.load.unpack import Unpacking
from npu_tui.trace.args import ArgReader, CommunicationArgs, SizedCopies, always
from npu_tui.trace.arrays import I64
from npu_tui.trace.classes import lane_roles
from npu_tui.trace.folded_rows import DEEP, folded_row, leaf_row
from npu_tui.trace.model import Chunks, Counters, EventFile, Health, Lane, Layer, Links, RoleKind, Rows, Slices, Trace
from npu_tui.trace.recorder import communication_args
from npu_tui.trace.transfers import copies_of

Columns = TypeVar("Columns", Slices, Links, Chunks)

MOST = 300_000
"""Positions of rows that a sketch holds at most, unless there are so many rows."""

MOST_FOLDED = 256
"""Lanes that a copy keeps folded at most; the others are short."""

_STEP, _WHOLE, _LEAST = 2048, 1024, 32
"""Stretches of the opening view and of the whole trace, more of them than a terminal has columns."""


def sketch_of(trace: Trace, go_on: Callable[[], bool] = always) -> Trace | None:
    """A trace of some slices of ``trace``, with rows and lanes of the same numbers; None if ``go_on`` said to stop.

    Between the slices that are kept ``Rows.busy`` still counts all of them. There are no links, and nothing that leads
    to the file. Long lanes of several rows are ``folded`` already, and what each lane is there for is known.
    """
    leaves: dict[int, Rows] = {}
    for lane in _folding(trace):
        if not go_on():
            return None
        leaves[lane.first_row] = folded_row(trace, lane) if lane.rows > DEEP else leaf_row(trace, lane)
    # Longer stretches until the sketch is small enough: it is read before anything else is.
    halves = 0
    while True:
        edges = _stretch_starts(trace, max(_STEP >> halves, _LEAST), max(_WHOLE >> halves, _LEAST))
        positions = _kept_positions(trace.rows, edges)
        folded = {row: _kept_positions(rows, edges) for row, rows in leaves.items()}
        if len(positions) + sum(map(len, folded.values())) <= MOST or _STEP >> halves <= _LEAST:
            break
        halves += 1
    shown = [trace.rows.item[positions], *(leaves[row].item[chosen] for row, chosen in folded.items())]
    items = np.unique(np.concatenate(shown)).astype(np.int64)
    names, coded = np.unique(trace.slices.name[items], return_inverse=True)
    slices = _at(trace.slices, items)
    slices.name = coded.astype(np.int32)
    slices.stack = np.full(len(items), -1, np.int32)
    bounds = np.searchsorted(items, [(lane.first, lane.last) for lane in trace.lanes]).reshape(-1, 2).tolist()
    nothing = np.zeros(0, np.int64)
    sketch = replace(
        trace,
        names=[trace.names[code] for code in names.tolist()],
        stacks=[],
        lanes=[
            replace_fields(lane, first=first, last=last)
            for lane, (first, last) in zip(trace.lanes, bounds, strict=True)
        ],
        slices=slices,
        rows=_thinned(trace.rows, positions, items),
        links=_at(trace.links, nothing),
        link_categories=[],
        counters=_counters(trace.counters, edges),
        chunks=_at(trace.chunks, nothing),
        health=Health(),
    )
    sketch.folded = {row: _thinned(leaves[row], chosen, items) for row, chosen in folded.items()}
    sketch.roles = lane_roles(trace)
    return sketch


def _folding(trace: Trace) -> list[Lane]:
    """The lanes of several rows, the longest ones where there are too many."""
    offset = trace.rows.offset
    lengths = {
        lane.index: int(offset[lane.first_row + lane.rows]) - int(offset[lane.first_row])
        for lane in trace.lanes
        if lane.rows > 1
    }
    longest = sorted(lengths, key=lambda lane: -lengths[lane])[:MOST_FOLDED]
    return [trace.lanes[lane] for lane in sorted(longest)]


def deep_lanes(trace: Trace) -> list[Lane]:
    """The lanes that start folded, as far as a copy keeps their rows."""
    return [lane for lane in _folding(trace) if lane.rows > DEEP]


def _stretch_starts(trace: Trace, step: int, whole: int) -> I64:
    """Where the stretches begin, ns: ``step`` of what the opening screen shows, ``whole`` of all; ascending.

    The cursor is in the middle of that screen, and what counts there is given as a number.
    """
    low, high = 0, trace.end
    steps = [
        slice(*trace.rows.offset[[lane.first_row, lane.first_row + lane.rows]]) for lane in trace.lanes if lane.derived
    ]
    if steps:
        start, end = (np.concatenate([times[part] for part in steps]) for times in (trace.rows.start, trace.rows.end))
        if len(start):  # the opening screen shows the step around the start of the trace, else the next one
            first = int(np.argmin(np.maximum(np.maximum(start, -end), 0)))
            low, high = int(start[first]), int(end[first])
    parts = [np.linspace(low, high, step + 1), np.linspace(0, trace.end, whole + 1), [(low + high) // 2 + 1]]
    return np.unique(np.concatenate([np.asarray(part).astype(np.int64) for part in parts]))


def _kept_positions(rows: Rows, edges: I64) -> I64:
    """The positions of ``rows`` to keep, ascending; even ones stay even, as the shades of bars alternate."""
    group = _row_numbers(rows.offset) * (len(edges) + 1) + np.searchsorted(edges, rows.start, "right")
    positions = _outstanding(group, rows.end - rows.start)
    between = positions[:-1][np.diff(positions) % 2 == 0] + 1
    return np.sort(np.concatenate([positions, between]))


def _row_numbers(offset: I64) -> I64:
    """For every position the number of the row between ``offset`` it is in; ``numpy.repeat`` would stop all threads."""
    return np.cumsum(np.bincount(offset[1:-1], minlength=int(offset[-1]) + 1)[:-1])


def _outstanding(group: I64, value: npt.NDArray[np.generic]) -> I64:
    """The first and the last place of every ``group``, which ascends, and the first of its largest ``value``."""
    if not len(group):
        return np.zeros(0, np.int64)
    first = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
    size = np.diff(np.append(first, len(group)))
    largest = np.flatnonzero(value == np.repeat(np.maximum.reduceat(value, first), size))
    return np.unique(np.concatenate([first, first + size - 1, largest[np.searchsorted(largest, first)]]))


def _thinned(rows: Rows, positions: I64, items: I64) -> Rows:
    """The ``positions`` of ``rows``, whose slices are numbered by their place among ``items``."""
    return Rows(
        np.searchsorted(positions, rows.offset).astype(np.int64),
        np.searchsorted(items, rows.item[positions]).astype(np.int32),
        rows.start[positions],
        rows.end[positions],
        np.append(rows.busy[positions], rows.busy[-1:]),
    )


def _counters(counters: Counters, edges: I64) -> Counters:
    """The first, last, lowest and highest sample of every series in every stretch."""
    group = _row_numbers(counters.offset) * (len(edges) + 1) + np.searchsorted(edges, counters.time, "right")
    finite = np.isfinite(counters.value)
    extremes = [_outstanding(group, np.where(finite, sign * counters.value, -np.inf)) for sign in (1, -1)]
    at = np.unique(np.concatenate(extremes))
    return Counters(
        counters.time[at], counters.value[at], np.searchsorted(at, counters.offset).astype(np.int64), counters.series
    )


def _at(columns: Columns, index: I64) -> Columns:
    """The entries ``index`` of every column."""
    return type(columns)(**{name: getattr(columns, name)[index] for name in columns.__struct_fields__})


MAGIC = b"npu-tui\x04"
_LEAD = struct.Struct("<8sQQLQQL")
_ALIGN = 64  # bytes of a cache line: where each column begins
_PIECE = 4 << 20
"""Bytes of a column that have a checksum of their own."""

_THREADS = 2
_FOLDED_BYTES = 56
"""For a slice of a folded lane at most: two pieces of two times, a slice and a count."""

_SKETCH_BYTES = 16 << 20  # more than any sketch takes: it only says how much room the disk must have

Array = npt.NDArray[Any]


class DamagedError(ValueError):
    """The file is not what was written."""


class _StoredTrace(msgspec.Struct):
    """The fields of a trace that a copy has, by their names. A column is stored as its type, offset and length."""

    start_ns: int
    end: int
    names: list[str]
    categories: list[str]
    task_types: list[str]
    stacks: list[str]
    link_categories: list[str]
    layers: list[Layer]
    lanes: list[Lane]
    slices: Slices
    rows: Rows
    links: Links
    counters: Counters
    chunks: Chunks
    events: dict[str, int]
    health: Health
    is_fine: bool
    roles: list[RoleKind]
    folded: dict[int, Rows]
    communication: CommunicationArgs | None
    copies: SizedCopies | None


_LATER = ("roles", "folded", "communication", "copies")  # fields that a trace is not made with


class _Head(msgspec.Struct):
    """``stamp`` is the time (ns) of the file, ``key`` what it is called, ``opened`` the path of the trace when this
    was written.

    ``files`` gives the plain bytes of each event file and whether it is packed. The columns are ``size`` bytes from
    ``start`` on; ``pieces`` of them have an offset from there, a length and a checksum. ``trace`` is ``_StoredTrace``.
    """

    stamp: int
    key: str
    opened: str
    files: list[tuple[int, bool]]
    start: int
    size: int
    pieces: list[tuple[int, int, int]]
    events: int
    trace: msgspec.Raw


_decode_head = msgspec.msgpack.Decoder(_Head).decode


def _encoded(trace: Trace, folded: dict[int, Rows]) -> tuple[bytes, list[tuple[int, Array]], int]:
    """A ``_StoredTrace`` as msgpack, its columns with the offset of each, and the bytes of them all."""
    columns: list[tuple[int, Array]] = []
    size = 0

    def place(value: Any) -> tuple[str, int, int]:
        nonlocal size
        if not isinstance(value, np.ndarray):
            raise NotImplementedError  # what msgspec asks of a hook for a value that is none of its own
        columns.append((size, np.ascontiguousarray(value)))
        offset, size = size, _aligned(size + value.nbytes)
        return value.dtype.str, offset, len(value)

    fields = {name: getattr(trace, name) for name in _StoredTrace.__struct_fields__}
    stored = _StoredTrace(**fields | {"folded": folded})
    return msgspec.msgpack.Encoder(enc_hook=place).encode(stored), columns, size


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGN) * _ALIGN


def container_bytes(trace: Trace) -> int:
    """About how long the file of ``trace`` will be."""
    stored, _, size = _encoded(trace, {})
    folded = sum(lane.last - lane.first for lane in deep_lanes(trace)) * _FOLDED_BYTES
    return size + len(stored) + folded + _SKETCH_BYTES


def write_container(trace: Trace, out: BinaryIO, stamp: int, go_on: Callable[[], bool], key: str = "") -> bool:
    """Write ``trace`` to ``out``, an empty file; False if ``go_on`` said to stop.

    ``stamp`` is the time (ns) that the file will be given once it is whole, ``key`` what it will be called.
    Raises ``OSError`` where there is no room.
    """
    sketch = sketch_of(trace, go_on)
    if sketch is None:
        return False
    # Everything that the first picture needs is computed now, so that the copy has it when it is opened.
    trace.roles = sketch.roles
    with contextlib.suppress(InputError):
        trace.communication, trace.copies = communication_args(trace), copies_of(trace)
    heads: list[int] = []
    out.seek(_ALIGN)
    deep = {lane.first_row: trace.folded[lane.first_row] for lane in deep_lanes(trace)}
    for part, folded in ((sketch, sketch.folded), (trace, deep)):
        head = _write_part(part, folded, out, stamp, go_on, key)
        if head is None:
            return False
        heads += out.tell(), len(head), zlib.crc32(head)
        out.write(head)
        out.seek(_aligned(out.tell()))
    # The lead is written last: a file without it is no copy, whatever stopped the writer.
    out.seek(0)
    out.write(_LEAD.pack(MAGIC, *heads))
    out.flush()
    return True


def _write_part(
    trace: Trace, folded: dict[int, Rows], out: BinaryIO, stamp: int, go_on: Callable[[], bool], key: str
) -> bytes | None:
    """Write the columns of ``trace``; the head that belongs after them, None if ``go_on`` said to stop."""
    stored, columns, size = _encoded(trace, folded)
    start = out.tell()
    pieces: list[tuple[int, int, int]] = []
    for offset, column in columns:
        data = column.data.cast("B") if len(column) else memoryview(b"")
        for low in range(0, len(data), _PIECE):
            if not go_on():
                return None
            piece = data[low : low + _PIECE]
            padding = bytes(_aligned(len(piece)) - len(piece))
            out.write(piece)
            out.write(padding)
            pieces.append((offset + low, len(piece) + len(padding), zlib.crc32(padding, zlib.crc32(piece))))
    opened = os.path.abspath(trace.path).encode(errors="replace").decode()
    files = [(file.size, file.copy is not None) for file in trace.files]
    events = sum(trace.events.values())
    return msgspec.msgpack.encode(_Head(stamp, key, opened, files, start, size, pieces, events, msgspec.Raw(stored)))


def opened_path(descriptor: int) -> str:
    """The path of the trace in the file ``descriptor`` when it was written. Raises as ``read_container`` does."""
    return _read_head(descriptor, sketch=True).opened


def _read_head(descriptor: int, sketch: bool) -> _Head:
    try:
        magic, *heads = _LEAD.unpack(os.pread(descriptor, _LEAD.size, 0))
        at, length, checksum = heads[:3] if sketch else heads[3:]
        if magic != MAGIC or at + length > os.fstat(descriptor).st_size:
            raise DamagedError
        packed = os.pread(descriptor, length, at)
        if zlib.crc32(packed) != checksum:
            raise DamagedError
        return _decode_head(packed)
    except (struct.error, msgspec.DecodeError) as error:
        raise DamagedError from error


def read_container(
    descriptor: int, source: Source, sketch: bool = False, watcher: Watcher = UNWATCHED, key: str = ""
) -> Trace:
    """The trace in the file ``descriptor``, or its ``sketch``, whose events lie in ``source``.

    Packed files are unpacked when an event is asked for. Raises ``DamagedError`` if the file was changed since it was
    written, or was written for another ``key``, ``Cancelled`` if the watcher says to stop, ``OSError`` if the file
    cannot be read.
    """
    head = _read_head(descriptor, sketch)
    if head.key != key or len(head.files) != len(source.files) or head.stamp != os.fstat(descriptor).st_mtime_ns:
        raise DamagedError
    memory = _column_bytes(descriptor, head, watcher)

    def column(kind: type, place: Any) -> Any:
        if kind is object:  # an argument of a message
            return place
        dtype, offset, length = place
        return np.frombuffer(memory, dtype, length, offset)

    try:
        stored = msgspec.msgpack.decode(head.trace, type=_StoredTrace, dec_hook=column)
    except ValueError as error:
        raise DamagedError from error
    path, rank = str(source.path), source.rank
    files = tuple(
        EventFile(str(file), size, Unpacking(file, size) if is_packed else None)
        for file, (size, is_packed) in zip(source.files, head.files, strict=True)
    )
    args: ArgReader = JsonArgs(path, files, stored.chunks, head.events)
    if source.kind == "database":
        from npu_tui.load.database_args import DatabaseArgs  # most traces are JSON

        args = DatabaseArgs(path, files[0], stored.chunks)
        if rank is None and stored.layers:
            rank = stored.layers[0].rank  # the database itself says which
    if any(lane.rank != rank for lane in stored.lanes[:1]) or any(layer.rank != rank for layer in stored.layers[:1]):
        stored.layers = [replace_fields(layer, rank=rank) for layer in stored.layers]
        stored.lanes = [replace_fields(lane, rank=rank) for lane in stored.lanes]
    fields = {name: getattr(stored, name) for name in _StoredTrace.__struct_fields__ if name not in _LATER}
    trace = Trace(path=path, files=files, rank=rank, args=args, **fields)
    for name in _LATER:
        setattr(trace, name, getattr(stored, name))
    return trace


def _column_bytes(descriptor: int, head: _Head, watcher: Watcher) -> Array:
    """The bytes of all columns, each piece of them as it was written.

    They are read, not mapped: nothing that becomes of the file later changes them, or ends the process at its new end.
    """
    memory = np.frombuffer(_mapping(head.size), np.uint8) if head.size else np.zeros(0, np.uint8)

    def holds(piece: tuple[int, int, int]) -> bool:
        offset, length, checksum = piece
        block = memory[offset : offset + length].data
        return os.preadv(descriptor, [block], head.start + offset) == length and zlib.crc32(block) == checksum

    with ThreadPoolExecutor(_THREADS) as threads:
        for low in range(0, len(head.pieces), _THREADS):
            batch = head.pieces[low : low + _THREADS]
            watcher.report(batch[0][0], head.size, head.events)
            if not all(threads.map(holds, batch)):
                raise DamagedError
    return memory


def _mapping(size: int) -> mmap.mmap:
    """``size`` bytes to be filled, in large pages where there are some: most of the time of filling goes into pages."""
    memory = mmap.mmap(-1, size)
    if (large := getattr(mmap, "MADV_HUGEPAGE", None)) is not None:
        with contextlib.suppress(OSError):
            memory.madvise(large)
    return memory
