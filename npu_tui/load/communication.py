"""Collectives of communication.json and communication_matrix.json, in typed columns.

torch_npu and MindSpore write them from level 1 on; databases hold the same in the tables ``CommAnalyzerTime``,
``CommAnalyzerBandwidth`` and ``CommAnalyzerMatrix``. They are described with the other files beside a trace:
https://www.hiascend.com/document/detail/en/canncommercial/850/devaids/profiling/atlasprofiling_16_1149.html
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import islice
from sys import intern
from typing import Any

from msgspec import Struct

from npu_tui.load.companion_schema import JsonFile, Reading
from npu_tui.load.documents import Operation, members_of
from npu_tui.load.times import INVALID, parse_time
from npu_tui.trace.text import LONGEST

LARGEST = 2**62

COMMUNICATION, MATRIX = "communication.json", "communication_matrix.json"

_PLACE = {"step": str, "kind": str, "name": str, "group": str}
_TIMES = {
    "elapsed": "Elapse Time(ms)",
    "transit": "Transit Time(ms)",
    "wait": "Wait Time(ms)",
    "synchronization": "Synchronization Time(ms)",
    "idle": "Idle Time(ms)",
}

Place = tuple[str, str, str, str]
"""Step, kind (``collective`` or ``p2p``), name and group of a collective."""

MatrixRow = tuple[str, str, str, str, int, int, str | None, float | None, int | None, float | None, str | None]
"""``Place``, source, target, transport, size in MB, time in ns, GB/s and the operation."""


class Transport(Struct):
    """What a collective moved over one transport: MB, ms, GB/s, share of large packets; and packets of each size.

    ``packets`` are (count, ms) by size in MB. All are as the writer has them, None where there is no value.
    """

    size: Any
    time: Any
    speed: Any
    large: Any
    packets: dict[str, tuple[Any, ...]] = {}


class WrittenCollective(Struct):
    """A collective of a step with its times as the writer has them: ``start`` in us since 1970, ``spans`` in ms.

    ``spans`` are in the order elapsed, transit, wait, synchronization, idle.
    """

    place: Place
    start: Any = None
    spans: tuple[Any, ...] = (None,) * len(_TIMES)
    wait_ratio: Any = None
    synchronization_ratio: Any = None
    transports: dict[str, Transport] = {}

    @property
    def size(self) -> int:
        """About the bytes that it takes."""
        return ROW * (2 + sum(1 + len(transport.packets) for transport in self.transports.values()))


def collectives_in(operations: Iterable[Operation]) -> Iterator[WrittenCollective]:
    """The collectives that are the ``operations`` of a communication.json, but those of which nothing is told."""
    for step, kind, name, group, body in operations:
        times = members_of(body.get("Communication Time Info"))
        transports = {
            transport: Transport(
                link.get("Transit Size(MB)"),
                link.get("Transit Time(ms)"),
                link.get("Bandwidth(GB/s)"),
                link.get("Large Packet Ratio"),
                {
                    size: (*counts, None, None)[:2] if isinstance(counts, list) else (None, None)
                    for size, counts in members_of(link.get("Size Distribution")).items()
                },
            )
            for transport, link in members_of(body.get("Communication Bandwidth Info")).items()
            if isinstance(link, dict)
        }
        if times or transports:
            yield WrittenCollective(
                (step.removeprefix("step"), kind, name, group),
                times.get("Start Timestamp(us)"),
                tuple(times.get(title) for title in _TIMES.values()),
                times.get("Wait Time Ratio"),
                times.get("Synchronization Time Ratio"),
                transports,
            )


def matrix_rows_in(operations: Iterable[Operation]) -> Iterator[MatrixRow]:
    """What every pair of ranks exchanged, by the ``operations`` of a communication_matrix.json."""
    for step, kind, name, group, body in operations:
        for pair, link in body.items():
            if isinstance(link, dict):
                place = step.removeprefix("step"), kind, name, group
                yield from matrix_row(place, pair.partition("-")[::2], *(link.get(title) for title in LINK))


LINK = "Transport Type", "Transit Size(MB)", "Transit Time(ms)", "Bandwidth(GB/s)", "Op Name"
ROW = 400
"""About the bytes that a row, or a part of a collective, takes."""


def is_rank(text: str) -> bool:
    """Whether ``text`` is the number of a rank; one of 20 digits is none."""
    return text.isdecimal() and len(text) < _MOST_DIGITS


_MOST_DIGITS = 10


def matrix_row(
    place: Place, ends: tuple[str, ...], transport: Any, size: Any, time: Any, speed: Any, operation: Any
) -> list[MatrixRow]:
    """The row of these cells, MB, ms and GB/s; none if the ``ends`` are no two numbers of ranks."""
    source, target = ends
    if not (is_rank(source) and is_rank(target)):
        return []
    words = [None if word is None else intern(str(word)) for word in (transport, operation)]
    return [
        (*place, int(source), int(target), words[0], number_of(size), scaled(time, 1e6), number_of(speed), words[1])
    ]


def communication_times(document: JsonFile) -> Reading:
    """A row per collective: ``start`` (ns since 1970, rounded by its writer to 0.5 us) and its times in ns."""
    columns = {
        **_PLACE,
        "start": int,
        **dict.fromkeys(_TIMES, int),
        "wait_ratio": float,
        "synchronization_ratio": float,
    }
    rows = (
        (
            *collective.place,
            start_ns(collective.start),
            *(scaled(span, 1e6) for span in collective.spans),
            number_of(collective.wait_ratio),
            number_of(collective.synchronization_ratio),
        )
        for collective in document.value or ()
    )
    return _reading(COMMUNICATION, document, columns, rows)


def communication_bandwidth(document: JsonFile) -> Reading:
    """A row per collective and transport (SDMA, RDMA, HCCS, PCIE, SIO): size in MB, time in ns, GB/s."""
    columns = {
        **_PLACE, "transport": str, "size_mb": float, "transit": int, "gb_s": float, "large_packet_ratio": float,
    }  # fmt: skip
    rows = (
        (
            *collective.place,
            name,
            number_of(use.size),
            scaled(use.time, 1e6),
            number_of(use.speed),
            number_of(use.large),
        )
        for collective in document.value or ()
        for name, use in collective.transports.items()
    )
    return _reading(COMMUNICATION, document, columns, rows)


def communication_packets(document: JsonFile) -> Reading:
    """A row per collective, transport and size of packet in MB: how many there were, and their time in ns."""
    columns = {**_PLACE, "transport": str, "packet_mb": float, "count": int, "total": int}
    rows = (
        (*collective.place, name, number_of(size), scaled(count, 1), scaled(total, 1e6))
        for collective in document.value or ()
        for name, use in collective.transports.items()
        for size, (count, total) in use.packets.items()
    )
    return _reading(COMMUNICATION, document, columns, rows)


def communication_matrix(document: JsonFile) -> Reading:
    """A row per operation and pair of ranks of its group: size in MB, time in ns, GB/s."""
    columns = {
        **_PLACE, "source": int, "target": int, "transport": str, "size_mb": float, "transit": int, "gb_s": float,
        "operation": str,
    }  # fmt: skip
    return _reading(MATRIX, document, columns, document.value or [])


def _reading(name: str, document: JsonFile, columns: dict[str, type], rows: Iterable[tuple[Any, ...]]) -> Reading:
    import polars as pl

    types: dict[type, Any] = {str: pl.String, int: pl.Int64, float: pl.Float64}
    schema = {key: types[kind] for key, kind in columns.items()}
    frames, left = [pl.DataFrame(schema=schema)], iter(rows)
    while some := list(islice(left, _AT_ONCE)):
        frames.append(pl.DataFrame(some, schema=schema, orient="row"))
    frame = pl.concat(frames)
    state = "empty" if document.state == "read" and not len(frame) else document.state
    return Reading(name, state, frame, tuple(columns) if len(frame) else (), why=document.why)


_AT_ONCE = 1 << 16
"""Rows of a frame that are lists for a while."""


def number_of(value: Any) -> float | None:
    """The number that a cell or a member is or reads as; None for a word, an infinity or none."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def start_ns(value: Any) -> int | None:
    """A time in us since 1970 as a writer has it, in ns; None if it is none."""
    time = INVALID if value is None else parse_time(str(value))
    return None if time == INVALID else time


def scaled(value: Any, factor: float) -> int | None:
    """``value`` times ``factor`` as a whole number, a length or a size; None if it is none, or exceeds ``LONGEST``."""
    number = number_of(value)
    return None if number is None or abs(number * factor) >= LONGEST else round(number * factor)
