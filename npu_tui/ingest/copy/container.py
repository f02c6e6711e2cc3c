"""A Trace as one file of raw columns, after a sketch of it that is read first.

Each of the two has a head (magic, lengths, checksums, everything that is no column) and the columns after it, each at
a multiple of 64 bytes. Whoever changes the file without this module changes its time stamp, which the heads know.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from npu_tui.ingest.args.json_args import JsonArgs
from npu_tui.ingest.copy.proof import BLOCK, args_hold, checksums, codes_hold, folded_holds, proven
from npu_tui.ingest.copy.sketch import deep_lanes, sketch_of
from npu_tui.ingest.errors import InputError
from npu_tui.ingest.progress import Progress
from npu_tui.ingest.source.find import Source
from npu_tui.ingest.source.unpack import Unpacking
from npu_tui.trace.args import ArgReader, CollectiveArgs, CommunicationArgs, Copies, PlaneArgs
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
    Series,
    Slices,
    Trace,
    joined_rows,
    single_rows,
)
from npu_tui.trace.transfers import communication_args, copies_of

MAGIC = b"npu-tui\x02"
_HEAD = 8 + 8 + 4
_ALIGN = 64
_SKETCH = _ALIGN
"""Where the sketch lies, after the magic and the place of the trace itself."""
_FOLDED_BYTES = 56
"""Of a slice of a folded lane at most: two pieces of two times, a slice and a count."""
_WRITTEN = 4 << 20


class DamagedError(ValueError):
    """The file is not what was written."""


class _Head(msgspec.Struct):
    """Everything of a trace but its columns; ``arrays`` gives (name, type, offset, length) of those.

    ``files`` gives the plain bytes of each file and whether it is packed, ``opened`` the path when this was written.
    ``folded`` are the first rows of the lanes that were made one row of, whose columns follow each other. ``links``,
    ``algorithms`` and ``ways`` are texts of the args of communication layers and copies, None where those could not be
    read. All places are counted from the head.
    """

    stamp: int
    opened: str
    files: list[tuple[int, bool]]
    size: int
    checksums: list[int]
    start_ns: int
    end: int
    names: list[str]
    categories: list[str]
    task_types: list[str]
    stacks: list[str]
    link_categories: list[str]
    layers: list[Layer]
    lanes: list[Lane]
    series: list[Series]
    events: dict[str, int]
    health: Health
    roles: list[RoleKind]
    folded: list[int]
    links: list[str] | None
    algorithms: list[str] | None
    ways: list[str] | None
    arrays: list[tuple[str, str, int, int]]


class _Label(msgspec.Struct):
    """What a list of copies needs of a head."""

    opened: str


_GROUPS: dict[str, type] = {"slices": Slices, "rows": Rows, "links": Links, "counters": Counters, "chunks": Chunks}
_FOLDED = "folded"
_ARGS: dict[str, type] = {"planes": PlaneArgs, "collectives": CollectiveArgs, "copies": Copies}
"""Groups that are there where the args of communication layers and copies could be read."""
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Head).decode
_decode_label = msgspec.msgpack.Decoder(_Label).decode


def _columns(trace: Trace, folded: dict[int, Rows]) -> list[tuple[str, npt.NDArray[Any]]]:
    found = []
    holders = {group: getattr(trace, group) for group in _GROUPS} | {_FOLDED: joined_rows([*folded.values()])}
    if trace.communication is not None and trace.copies is not None:
        holders |= {"planes": trace.communication.planes, "collectives": trace.communication.collectives}
        holders |= {"copies": trace.copies}
    for group, holder in holders.items():
        for name in holder.__struct_fields__:
            values = getattr(holder, name)
            if isinstance(values, np.ndarray):
                found.append((f"{group}.{name}", np.ascontiguousarray(values)))
    return found


def container_bytes(trace: Trace) -> int:
    """About how long the file of ``trace`` will be."""
    texts = sum(map(len, trace.names)) + sum(map(len, trace.stacks))
    folded = sum(lane.last - lane.first for lane in deep_lanes(trace)) * _FOLDED_BYTES
    return sum(values.nbytes + _ALIGN for _, values in _columns(trace, {})) + folded + 2 * texts + (16 << 20)


def write_container(trace: Trace, out: BinaryIO, stamp: int, go_on: Callable[[], bool]) -> bool:
    """Write ``trace`` to ``out``, an empty file; False if ``go_on`` said to stop.

    ``stamp`` is the time (ns) that the file will be given once it is whole. Raises ``OSError`` where there is no room.
    """
    sketch = sketch_of(trace, go_on)
    if sketch is None:
        return False
    whole = _write_part(sketch, sketch.folded, out, _SKETCH, stamp, go_on)
    if whole is None:
        return False
    trace.roles = sketch.roles
    folded = {lane.first_row: trace.folded[lane.first_row] for lane in deep_lanes(trace)}
    with contextlib.suppress(InputError):
        trace.communication, trace.copies = communication_args(trace), copies_of(trace)
    if _write_part(trace, folded, out, whole, stamp, go_on) is None:
        return False
    out.seek(0)
    out.write(MAGIC + whole.to_bytes(8, "little"))
    out.flush()
    return True


def _write_part(
    trace: Trace, folded: dict[int, Rows], out: BinaryIO, base: int, stamp: int, go_on: Callable[[], bool]
) -> int | None:
    """Write one of the two at ``base``; returns where it ends, None if ``go_on`` said to stop."""
    args, copies, columns = trace.communication, trace.copies, _columns(trace, folded)
    arrays = [(name, values.dtype.str, 0, len(values)) for name, values in columns]
    head = _Head(
        stamp=stamp,
        opened=os.path.abspath(trace.path).encode(errors="replace").decode(),
        files=[(file.size, file.copy is not None) for file in trace.files],
        size=2**62,
        checksums=[],
        start_ns=trace.start_ns,
        end=trace.end,
        names=trace.names,
        categories=trace.categories,
        task_types=trace.task_types,
        stacks=trace.stacks,
        link_categories=trace.link_categories,
        layers=trace.layers,
        lanes=trace.lanes,
        series=trace.counters.series,
        events=trace.events,
        health=trace.health,
        roles=trace.roles,
        folded=[*folded],
        links=None if args is None else args.planes.links,
        algorithms=None if args is None else args.collectives.algorithms,
        ways=None if copies is None else copies.ways,
        arrays=[(name, kind, 2**62, length) for name, kind, _, length in arrays],
    )
    columns_bytes = sum(_aligned(values.nbytes) for _, values in columns)
    head.checksums = [2**32 - 1] * -(-columns_bytes // BLOCK)
    at = _aligned(_HEAD + len(_encode(head)) + 64)  # the numbers put in below are not longer
    for i, (_, values) in enumerate(columns):
        head.arrays[i] = (*arrays[i][:2], at, len(values))
        at = _aligned(at + values.nbytes)
    head.size = at
    for (_, values), (_, _, offset, _) in zip(columns, head.arrays, strict=True):
        data = values.data.cast("B") if len(values) else memoryview(b"")
        out.seek(base + offset)
        for low in range(0, len(data), _WRITTEN):
            if not go_on():
                return None
            out.write(data[low : low + _WRITTEN])
    out.truncate(base + head.size)
    out.flush()
    head.checksums = checksums(out.fileno(), base + head.arrays[0][2], base + head.size)
    packed = _encode(head)
    out.seek(base)
    out.write(MAGIC + len(packed).to_bytes(8, "little") + zlib.crc32(packed).to_bytes(4, "little") + packed)
    out.flush()
    return base + head.size


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGN) * _ALIGN


def opened_path(descriptor: int) -> str:
    """The path of the trace in the file ``descriptor`` when it was written. Raises as ``Container`` does."""
    try:
        return _decode_label(_packed_head(descriptor, *_parts(descriptor)[0])).opened
    except msgspec.DecodeError as error:
        raise DamagedError from error


def _parts(descriptor: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Where the sketch and the trace itself begin and end."""
    lead, size = os.pread(descriptor, 16, 0), os.fstat(descriptor).st_size
    whole = int.from_bytes(lead[8:], "little")
    if lead[:8] != MAGIC or not _SKETCH < whole < size:
        raise DamagedError
    return (_SKETCH, whole), (whole, size)


def _packed_head(descriptor: int, base: int, end: int) -> bytes:
    lead = os.pread(descriptor, _HEAD, base)
    length = int.from_bytes(lead[8:16], "little")
    whole = lead[:8] == MAGIC and length < end - base
    packed = os.pread(descriptor, length, base + _HEAD) if whole else b""
    if len(packed) != length or zlib.crc32(packed) != int.from_bytes(lead[16:], "little") or not packed:
        raise DamagedError
    return packed


class Container:
    """The trace in the file ``descriptor``, or its ``sketch``, whose events lie in ``source``.

    Packed files are unpacked when an event is asked for. Raises ``DamagedError`` if the file is not as it was written,
    ``OSError`` if it cannot be read.
    """

    def __init__(self, descriptor: int, source: Source, sketch: bool = False) -> None:
        files, rank = source.files, source.rank
        self._base, end = _parts(descriptor)[0 if sketch else 1]
        try:
            self._head = head = _decode(_packed_head(descriptor, self._base, end))
        except msgspec.DecodeError as error:
            raise DamagedError from error
        if len(head.files) != len(files) or not head.arrays:
            raise DamagedError
        if (self._base + head.size, head.stamp) != (end, os.fstat(descriptor).st_mtime_ns):
            raise DamagedError
        if source.kind == "database" and rank is None:
            rank = head.layers[0].rank if head.layers else None  # the database itself tells it
        if (head.lanes and head.lanes[0].rank != rank) or (head.layers and head.layers[0].rank != rank):
            head.layers = [replace(layer, rank=rank) for layer in head.layers]
            head.lanes = [replace(lane, rank=rank) for lane in head.lanes]
        self._descriptor = descriptor
        self._path = str(source.path)
        self._kind = source.kind
        self._files = tuple(_event_file(file, *known) for file, known in zip(files, head.files, strict=True))
        self._rank = rank

    def proven(self, progress: Progress | None = None) -> Trace:
        """The trace once all its bytes are read, as they were written and hold together.

        ``progress`` is told how many have been read; raises ``Cancelled`` if that says to stop.
        """
        head = self._head
        events = sum(head.events.values())
        start = head.arrays[0][2]
        held = proven(self._descriptor, self._base, head.size, start, head.checksums, events, progress)
        if held is None:
            raise DamagedError
        trace = self._trace(held.data)
        if not (codes_hold(trace) and args_hold(trace)):
            raise DamagedError
        return trace

    def _trace(self, data: memoryview) -> Trace:
        head = self._head
        groups: dict[str, dict[str, Any]] = {group: {} for group in (*_GROUPS, *_ARGS, _FOLDED)}
        try:
            for name, kind, offset, count in head.arrays:
                group, _, column = name.partition(".")
                groups[group][column] = np.frombuffer(data, kind, count, offset)
        except (ValueError, TypeError, KeyError) as error:
            raise DamagedError from error
        groups["counters"]["series"] = head.series
        folded = Rows(**groups[_FOLDED])
        held = {group: kind(**groups[group]) for group, kind in _GROUPS.items()}
        communication = copies = None
        if head.links is not None and head.algorithms is not None and head.ways is not None:
            planes = PlaneArgs(**groups["planes"], links=head.links)
            collectives = CollectiveArgs(**groups["collectives"], algorithms=head.algorithms)
            communication = CommunicationArgs(planes, collectives)
            copies = Copies(**groups["copies"], ways=head.ways)
        args: ArgReader = JsonArgs(self._path, self._files, held["chunks"], sum(head.events.values()))
        if self._kind == "database":
            from npu_tui.ingest.database.args import DatabaseArgs  # most traces are JSON

            args = DatabaseArgs(self._path, self._files[0], held["chunks"])
        trace = Trace(
            path=self._path,
            files=self._files,
            rank=self._rank,
            start_ns=head.start_ns,
            end=head.end,
            names=head.names,
            categories=head.categories,
            task_types=head.task_types,
            stacks=head.stacks,
            layers=head.layers,
            lanes=head.lanes,
            link_categories=head.link_categories,
            events=head.events,
            health=head.health,
            args=args,
            **held,
        )
        if not folded_holds(trace, head.folded, folded) or len(head.roles) != len(head.lanes):
            raise DamagedError
        trace.folded = dict(zip(head.folded, single_rows(folded), strict=True))
        trace.roles = head.roles
        trace.communication, trace.copies = communication, copies
        return trace


def _event_file(file: Path, size: int, packed: bool) -> EventFile:
    return EventFile(str(file), size, Unpacking(file, size) if packed else None)
