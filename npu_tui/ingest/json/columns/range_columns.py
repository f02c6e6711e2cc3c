"""What a range of the file held, as columns, and its way through a pipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.ingest.json.decoding.events import Event

Array = npt.NDArray[Any]

DICTIONARY = {
    "x_thread": "threads",
    "x_name": "names",
    "x_category": "categories",
    "x_task_type": "task_types",
    "x_stack": "stacks",
    "c_series": "series",
    "l_category": "link_categories",
    "l_thread": "threads",
}
"""The columns that hold codes, each with the dictionary they are of; -1 stands for absent."""


class RangeColumns(Struct):
    """The columns of one range, by name, and what else is to be taken over in file order.

    Codes are those of the reader of the range: it knew ``known`` values of each dictionary before, ``news`` are those
    that came with the range. ``x_event``, ``l_event`` and ``chunk_first`` count from the range's first event.
    ``replay`` are the numbered events that concern the whole trace: metadata and the marks that pair up across ranges.

    ``number`` counts the ranges of the file, ``start`` and ``end`` are file offsets: where it begins and what was
    reached. ``complete`` says that this is the range's end, ``truncated`` that the file ends without the array's end,
    ``too_long`` where an element begins that is longer than any event, if one is. ``last`` that nothing after is to be
    read.
    """

    count: int
    phases: dict[str, int]
    skipped: dict[str, int]
    known: dict[str, int]
    news: dict[str, list[Any]]
    replay: list[tuple[int, Event]]
    columns: dict[str, Array]
    named: dict[int, str] = {}
    number: int = 0
    start: int = 0
    end: int = 0
    complete: bool = True
    truncated: bool = False
    malformed: int = 0
    too_long: int | None = None
    last: bool = False


class _Wire(msgspec.Struct):
    """``RangeColumns`` without the bytes of its columns, which follow: ``arrays`` gives (name, type, length) each."""

    count: int
    phases: dict[str, int]
    skipped: dict[str, int]
    known: dict[str, int]
    news: dict[str, list[Any]]
    replay_at: list[int]
    replay: list[tuple[str, str, int, int, str, str, int | str | None, bytes]]
    arrays: list[tuple[str, str, int]]
    named: dict[int, str]
    number: int
    start: int
    end: int
    complete: bool
    truncated: bool
    malformed: int
    too_long: int | None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Wire).decode
_TUPLES = frozenset({"threads", "series"})


def packed(part: RangeColumns) -> Iterator[bytes | memoryview]:
    """``part`` as a head and the bytes of its columns."""
    columns = {name: np.ascontiguousarray(_narrow(name, values)) for name, values in part.columns.items()}
    yield _encode(
        _Wire(
            part.count,
            part.phases,
            part.skipped,
            part.known,
            part.news,
            [i for i, _ in part.replay],
            [(e.ph, e.name, e.pid, e.tid, e.ts, e.cat, e.id, bytes(e.args)) for _, e in part.replay],
            [(name, values.dtype.str, len(values)) for name, values in columns.items()],
            part.named,
            part.number,
            part.start,
            part.end,
            part.complete,
            part.truncated,
            part.malformed,
            part.too_long,
        )
    )
    for values in columns.values():
        yield values.data.cast("B") if len(values) else b""


def _narrow(name: str, values: Array) -> Array:
    """Whole numbers that fit into half the bytes (times never do)."""
    if values.dtype == np.int64 and not name.endswith("_time") and len(values):
        low, high = int(values.min()), int(values.max())
        if low >= -(1 << 31) and high < 1 << 31:
            return values.astype(np.int32)
    return values


def unpacked(head: bytes, fill: Callable[[memoryview], None]) -> RangeColumns:
    """The part whose head is ``head``; ``fill`` fills a buffer with the bytes that follow it.

    Raises ``msgspec.DecodeError`` if that is no head.
    """
    wire = _decode(head)
    columns: dict[str, Array] = {}
    for name, kind, length in wire.arrays:
        columns[name] = np.empty(length, kind)
        if length:
            fill(columns[name].data.cast("B"))
    for name in wire.news.keys() & _TUPLES:
        wire.news[name] = [tuple(value) for value in wire.news[name]]
    events = [
        Event(ph=ph, name=name, pid=pid, tid=tid, ts=ts, cat=cat, id=identity, args=msgspec.Raw(args))
        for ph, name, pid, tid, ts, cat, identity, args in wire.replay
    ]
    return RangeColumns(
        count=wire.count,
        phases=wire.phases,
        skipped=wire.skipped,
        known=wire.known,
        news=wire.news,
        replay=list(zip(wire.replay_at, events, strict=True)),
        columns=columns,
        named=wire.named,
        number=wire.number,
        start=wire.start,
        end=wire.end,
        complete=wire.complete,
        truncated=wire.truncated,
        malformed=wire.malformed,
        too_long=wire.too_long,
    )
