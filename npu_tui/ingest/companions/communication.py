"""communication.json and communication_matrix.json as tables.

Both nest step, kind (``p2p`` or ``collective``) and ``name@group``; the pseudo operation ``Total Op Info`` sums up a
step and is left out. Milliseconds become int64 ns; sizes stay in MB of 10**6 bytes, bandwidths in GB/s.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from npu_tui.ingest.companions.documents import Document
from npu_tui.ingest.companions.reading import Reading
from npu_tui.ingest.times import INVALID, parse_time

if TYPE_CHECKING:
    import polars as pl

_TOTALS = ("Total Op Info", "total")
_PLACE = {"step": str, "kind": str, "name": str, "group": str}
_TIMES = {
    "elapsed": "Elapse Time(ms)",
    "transit": "Transit Time(ms)",
    "wait": "Wait Time(ms)",
    "synchronization": "Synchronization Time(ms)",
    "idle": "Idle Time(ms)",
}


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
    return _reading("communication.json", document, columns, rows)


def communication_spans(document: Document) -> Iterator[tuple[tuple[str, str, str, str], int, int]]:
    """Every collective with (step, kind, name, group), its start in ns since 1970 and what it took, ns; no table."""
    for place, times in _times(document.value):
        start, elapsed = _start(times.get("Start Timestamp(us)")), _scaled(times.get(_TIMES["elapsed"]), 1e6)
        if start is not None and elapsed is not None:
            yield place, start, elapsed


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
    return _reading("communication.json", document, columns, rows)


def communication_packets(document: Document) -> Reading:
    """A row per collective, transport and size of packet in MB: how many there were, and their time in ns."""
    columns = {**_PLACE, "transport": str, "packet_mb": float, "count": int, "total": int}
    rows = []
    for place, transport, link in _links(document.value):
        for size, found in _dict(link.get("Size Distribution")).items():
            count, total, *_ = [*found, None, None] if isinstance(found, list) else (None, None)
            rows.append((*place, transport, _number(size), _scaled(count, 1), _scaled(total, 1e6)))
    return _reading("communication.json", document, columns, rows)


def communication_matrix(document: Document) -> Reading:
    """A row per operation and pair of ranks of its group: size in MB, time in ns, GB/s."""
    columns = {
        **_PLACE, "source": int, "target": int, "transport": str, "size_mb": float, "transit": int, "gb_s": float,
        "operation": str,
    }  # fmt: skip
    return _reading("communication_matrix.json", document, columns, list(matrix_rows(document)))


def matrix_rows(document: Document) -> Iterator[tuple[Any, ...]]:
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
