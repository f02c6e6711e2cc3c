"""What PyTorch's profiler records of memory (``profile_memory=True``): instants named ``[memory]`` with their totals.

Source: torch/csrc/profiler/collection.cpp, libkineto's output_json.cpp.
"""

from __future__ import annotations

import json
import mmap
from decimal import Decimal
from typing import Any

from msgspec import Struct

from npu_tui.trace.side_file import open_regular

_NAME = b'"[memory]"'
_MOST_BYTES = 4096
"""An event of memory is far shorter."""
_TOTALS = ("Total Allocated", "Total Reserved")


class MemoryEvent(Struct, frozen=True):
    """What was ``allocated`` and ``reserved`` (bytes) on a ``device`` at ``time``, ns as the file counts them."""

    time: int
    device: int
    allocated: int
    reserved: int


def memory_events(path: str) -> list[MemoryEvent]:
    """The events of memory of devices in the trace at ``path``, which is not packed, by time; none where it is gone."""
    try:
        with open_regular(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _events_in(content)
    except (OSError, ValueError):  # an empty file cannot be mapped
        return []


def _events_in(content: mmap.mmap) -> list[MemoryEvent]:
    found: list[MemoryEvent] = []
    at = content.find(_NAME)
    while at >= 0:
        event = _event_around(content, at)
        args = event.get("args") if event else None
        # Device Type 0 is the host, whose totals are not tracked.
        if event and isinstance(args, dict) and args.get("Device Type") != 0:
            allocated, reserved = (args.get(name) for name in _TOTALS)
            time, device = event.get("ts"), args.get("Device Id")
            if isinstance(allocated, int) and isinstance(reserved, int) and isinstance(time, int | Decimal):
                device = device if isinstance(device, int) else 0
                found.append(MemoryEvent(round(time * 1000), device, allocated, reserved))
        at = content.find(_NAME, at + 1)
    return sorted(found, key=lambda event: event.time)


def _event_around(content: mmap.mmap, at: int) -> dict[str, Any] | None:
    """The object of JSON around the byte ``at``; None where there is none nearby."""
    depth, start = 0, at
    while depth < 1:
        start -= 1
        if start < 0 or at - start > _MOST_BYTES:
            return None
        depth += {123: 1, 125: -1}.get(content[start], 0)
    try:
        text = content[start : start + 2 * _MOST_BYTES].decode("utf-8", "replace")
        event, _ = json.JSONDecoder(parse_float=Decimal).raw_decode(text)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None
