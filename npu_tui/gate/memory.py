"""A memory snapshot held against limits and findings."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping

from npu_tui.analysis.snapshot import pieces
from npu_tui.gate.checks import Check, Status
from npu_tui.gate.measures import parse_share
from npu_tui.strings import say, words
from npu_tui.trace.message import Message, message
from npu_tui.trace.snapshot import BEFORE, MemorySnapshot

_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)\s*([kmgt]?)(i?)b", re.IGNORECASE)
_POWERS = ("", "k", "m", "g", "t")
_NO_BYTES = ("odd.memory_frame",)
"""What could not be used of a snapshot and changes no figure in bytes."""


def parse_size(text: str) -> int | None:
    """The bytes in ``56GB`` (56e9), ``52.5 GiB`` or ``800MB``; None if it is no size. A number alone is none."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return None
    factor: int = (1024 if match[3] else 1000) ** _POWERS.index(match[2].lower())
    return round(float(match[1]) * factor)


MEMORY_LIMITS: dict[str, tuple[str, Callable[[str], float | None]]] = {
    "max_peak": ("peak", parse_size), "max_fragmentation": ("fragmentation", parse_share),
}  # fmt: skip
"""The measure that each option limits, and what reads its value: bytes, or a share of what is reserved (0..1)."""


def memory_checks(snapshot: MemorySnapshot, limits: Mapping[str, float], allowed_loss: float = 0.0) -> list[Check]:
    """One check for each limit, of the device where the value is highest.

    The peak is the most bytes requested at a time in the history, fragmentation the share of reserved memory that lies
    in inactive blocks at the end. A snapshot that has lost more than ``allowed_loss`` of its entries measures nothing.
    """
    lost = snapshot_loss(snapshot, allowed_loss)
    if lost is not None:
        return unmeasured(limits, words(lost))
    return [_peak(snapshot, int(most)) if name == "peak" else _fragmentation(snapshot, most)
            for name, most in limits.items()]  # fmt: skip


def _peak(snapshot: MemorySnapshot, most: int) -> Check:
    if not snapshot.devices:
        return Check("limit", "peak", "not_measured", text=say("snapshot.nothing"))
    device = max(snapshot.devices, key=lambda device: device.peak[1])
    value = device.peak[1]
    # What is allocated in the end is the least that the peak can have been.
    if value <= most and any(not len(device.events) for device in snapshot.devices):
        return Check("limit", "peak", "not_measured", text=say("gate.memory.no_history"))
    status: Status = "pass" if value <= most else "fail"
    where = say("gate.memory.device", device=device.label)
    if device.peak[0] != BEFORE:
        where = say("gate.memory.event", device=device.label, event=device.peak[0])
    return Check("limit", "peak", status, text=where, value_bytes=value, allowed_bytes=most)


def _fragmentation(snapshot: MemorySnapshot, most: float) -> Check:
    rows = []
    for device in snapshot.devices:
        reserved, inactive = int(device.segments.size.sum()), pieces(device).inactive
        if reserved:
            rows.append((inactive / reserved, inactive, reserved, device.label))
    if any(not device.has_segments for device in snapshot.devices):
        return Check("limit", "fragmentation", "not_measured", text=say("snapshot.without.segments"))
    if not rows:
        return Check("limit", "fragmentation", "not_measured", text=say("gate.memory.no_segments"))
    share, inactive, reserved, number = max(rows)
    status: Status = "pass" if share <= most + _ROUNDING else "fail"
    where = say("gate.memory.device", device=number)
    return Check(
        "limit", "fragmentation", status, share=share, allowed_share=most, text=where,
        value_bytes=inactive, allowed_bytes=int(most * reserved),
    )  # fmt: skip


_ROUNDING = 1e-9


def snapshot_loss(snapshot: MemorySnapshot, allowed: float = 0.0) -> Message | None:
    """Why the figures of ``snapshot`` do not count: more than ``allowed`` of its entries could not be used."""
    lost = {said: count for said, count in snapshot.odd.items() if count and said.code not in _NO_BYTES}
    rows = sum(len(device.events) + len(device.segments) + len(device.blocks) for device in snapshot.devices)
    missing = sum(lost.values())
    if missing <= allowed * (rows + missing):
        return None
    return message("gate.memory.lost", count=missing, what=max(lost, key=lambda said: lost[said]))


def unmeasured(measures: Collection[str], why: str) -> list[Check]:
    """A check for each of ``measures`` that does not apply, because ``why``."""
    return [Check("limit", measure, "not_measured", text=why) for measure in measures]


def memory_notes(snapshot: MemorySnapshot, limits: Collection[str]) -> list[str]:
    """That the history begins with memory in use: a higher peak before it would not show."""
    started = [device for device in snapshot.devices if len(device.events) and device.before]
    return [say("gate.memory.before")] if started and "peak" in limits else []
