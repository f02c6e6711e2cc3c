"""A Trace as one file, after a sketch of it that is read first.

    lead      magic, and of the sketch and of the trace where the head lies, its length and checksum; 64 bytes
    columns   of the sketch, each at a multiple of 64 bytes
    head      of the sketch: a ``_Head`` as msgpack
    columns   of the trace
    head      of the trace

Everything that is read has a checksum, and whoever changes the file without this module changes its time stamp, which
the heads know: a copy that is cut off or damaged is never taken for the trace.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from npu_tui.ingest.args.json_args import JsonArgs
from npu_tui.ingest.copy.sketch import deep_lanes, sketch_of
from npu_tui.ingest.errors import InputError
from npu_tui.ingest.progress import Progress, Watcher
from npu_tui.ingest.source.find import Source
from npu_tui.ingest.source.unpack import Unpacking
from npu_tui.trace.args import ArgReader, CommunicationArgs, Copies
from npu_tui.trace.model import (
    Chunks,
    Counters,
    EventFile,
    Health,
    Lane,
    Layer,
    Links,
    RoleKind,
    Rows,
    Slices,
    Trace,
)
from npu_tui.trace.transfers import communication_args, copies_of

MAGIC = b"npu-tui\x03"
_LEAD = struct.Struct("<8sQQLQQL")
_ALIGN = 64
_PIECE = 4 << 20
"""Bytes of a column that have a checksum of their own."""

_THREADS = 2
_FOLDED_BYTES = 56
"""Of a slice of a folded lane at most: two pieces of two times, a slice and a count."""

_SKETCH_BYTES = 16 << 20

Array = npt.NDArray[Any]


class DamagedError(ValueError):
    """The file is not what was written."""


class _Kept(msgspec.Struct):
    """What is kept of a trace: its fields by their names. A column stands as its type, offset and length."""

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
    roles: list[RoleKind]
    folded: dict[int, Rows]
    communication: CommunicationArgs | None
    copies: Copies | None


_LATER = ("roles", "folded", "communication", "copies")
"""Fields that a trace is not made with."""


class _Head(msgspec.Struct):
    """``stamp`` is the time (ns) of the file, ``opened`` the path of the trace when this was written.

    ``files`` gives the plain bytes of each event file and whether it is packed. The columns are ``size`` bytes from
    ``start`` on; ``pieces`` of them have an offset from there, a length and a checksum. ``trace`` is a ``_Kept``.
    """

    stamp: int
    opened: str
    files: list[tuple[int, bool]]
    start: int
    size: int
    pieces: list[tuple[int, int, int]]
    events: int
    trace: msgspec.Raw


_decode_head = msgspec.msgpack.Decoder(_Head).decode


def _encoded(trace: Trace, folded: dict[int, Rows]) -> tuple[bytes, list[tuple[int, Array]], int]:
    """A ``_Kept`` as msgpack, its columns with the offset of each, and the bytes of them all."""
    columns: list[tuple[int, Array]] = []
    size = 0

    def place(value: Any) -> tuple[str, int, int]:
        nonlocal size
        if not isinstance(value, np.ndarray):
            raise NotImplementedError
        columns.append((size, np.ascontiguousarray(value)))
        offset, size = size, _aligned(size + value.nbytes)
        return value.dtype.str, offset, len(value)

    fields = {name: getattr(trace, name) for name in _Kept.__struct_fields__}
    kept = _Kept(**fields | {"folded": folded})
    return msgspec.msgpack.Encoder(enc_hook=place).encode(kept), columns, size


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGN) * _ALIGN


def container_bytes(trace: Trace) -> int:
    """About how long the file of ``trace`` will be."""
    kept, _, size = _encoded(trace, {})
    folded = sum(lane.last - lane.first for lane in deep_lanes(trace)) * _FOLDED_BYTES
    return size + len(kept) + folded + _SKETCH_BYTES


def write_container(trace: Trace, out: BinaryIO, stamp: int, go_on: Callable[[], bool]) -> bool:
    """Write ``trace`` to ``out``, an empty file; False if ``go_on`` said to stop.

    ``stamp`` is the time (ns) that the file will be given once it is whole. Raises ``OSError`` where there is no room.
    """
    sketch = sketch_of(trace, go_on)
    if sketch is None:
        return False
    trace.roles = sketch.roles
    with contextlib.suppress(InputError):
        trace.communication, trace.copies = communication_args(trace), copies_of(trace)
    heads: list[int] = []
    out.seek(_ALIGN)
    for part, folded in ((sketch, sketch.folded), (trace, {row: trace.folded[row] for row in _deep_rows(trace)})):
        head = _write_part(part, folded, out, stamp, go_on)
        if head is None:
            return False
        heads += out.tell(), len(head), zlib.crc32(head)
        out.write(head)
        out.seek(_aligned(out.tell()))
    out.seek(0)
    out.write(_LEAD.pack(MAGIC, *heads))
    out.flush()
    return True


def _deep_rows(trace: Trace) -> list[int]:
    return [lane.first_row for lane in deep_lanes(trace)]


def _write_part(
    trace: Trace, folded: dict[int, Rows], out: BinaryIO, stamp: int, go_on: Callable[[], bool]
) -> bytes | None:
    """Write the columns of ``trace``; the head that belongs after them, None if ``go_on`` said to stop."""
    kept, columns, size = _encoded(trace, folded)
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
    return msgspec.msgpack.encode(_Head(stamp, opened, files, start, size, pieces, events, msgspec.Raw(kept)))


def opened_path(descriptor: int) -> str:
    """The path of the trace in the file ``descriptor`` when it was written. Raises as ``read_container`` does."""
    return _head(descriptor, sketch=True).opened


def _head(descriptor: int, sketch: bool) -> _Head:
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


def read_container(descriptor: int, source: Source, sketch: bool = False, progress: Progress | None = None) -> Trace:
    """The trace in the file ``descriptor``, or its ``sketch``, whose events lie in ``source``.

    Packed files are unpacked when an event is asked for. ``progress`` is told how many bytes have been read. Raises
    ``DamagedError`` if the file is not as it was written, ``Cancelled`` if ``progress`` says to stop, ``OSError`` if
    the file cannot be read.
    """
    head = _head(descriptor, sketch)
    if len(head.files) != len(source.files) or head.stamp != os.fstat(descriptor).st_mtime_ns:
        raise DamagedError
    held = _columns(descriptor, head, Watcher(progress))

    def column(kind: type, place: Any) -> Any:
        if kind is object:  # an argument of a message
            return place
        dtype, offset, length = place
        return np.frombuffer(held, dtype, length, offset)

    try:
        kept = msgspec.msgpack.decode(head.trace, type=_Kept, dec_hook=column)
    except ValueError as error:
        raise DamagedError from error
    path, rank = str(source.path), source.rank
    files = tuple(_event_file(file, *known) for file, known in zip(source.files, head.files, strict=True))
    if source.kind == "database" and rank is None:
        rank = kept.layers[0].rank if kept.layers else None  # the database itself tells it
    if any(lane.rank != rank for lane in kept.lanes[:1]) or any(layer.rank != rank for layer in kept.layers[:1]):
        kept.layers = [replace(layer, rank=rank) for layer in kept.layers]
        kept.lanes = [replace(lane, rank=rank) for lane in kept.lanes]
    args: ArgReader = JsonArgs(path, files, kept.chunks, head.events)
    if source.kind == "database":
        from npu_tui.ingest.database.args import DatabaseArgs  # most traces are JSON

        args = DatabaseArgs(path, files[0], kept.chunks)
    fields = {name: getattr(kept, name) for name in _Kept.__struct_fields__ if name not in _LATER}
    trace = Trace(path=path, files=files, rank=rank, args=args, **fields)
    for name in _LATER:
        setattr(trace, name, getattr(kept, name))
    return trace


def _columns(descriptor: int, head: _Head, watcher: Watcher) -> Array:
    """The bytes of all columns, each piece of them as it was written.

    They are read, not mapped: nothing that becomes of the file later changes them, or ends the process at its new end.
    """
    held = np.frombuffer(_memory(head.size), np.uint8) if head.size else np.zeros(0, np.uint8)

    def holds(piece: tuple[int, int, int]) -> bool:
        offset, length, checksum = piece
        block = held[offset : offset + length].data
        return os.preadv(descriptor, [block], head.start + offset) == length and zlib.crc32(block) == checksum

    with ThreadPoolExecutor(_THREADS) as threads:
        for low in range(0, len(head.pieces), _THREADS):
            batch = head.pieces[low : low + _THREADS]
            watcher.report(batch[0][0], head.size, head.events)
            if not all(threads.map(holds, batch)):
                raise DamagedError
    return held


def _memory(size: int) -> mmap.mmap:
    """``size`` bytes to be filled, in large pages where there are some: most of the time of filling goes into pages."""
    held = mmap.mmap(-1, size)
    if (large := getattr(mmap, "MADV_HUGEPAGE", None)) is not None:
        with contextlib.suppress(OSError):
            held.madvise(large)
    return held


def _event_file(file: Path, size: int, packed: bool) -> EventFile:
    return EventFile(str(file), size, Unpacking(file, size) if packed else None)
