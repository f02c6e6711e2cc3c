"""Which parts of a trace could not be read, so that what is measured by them is not measured."""

from __future__ import annotations

from typing import Literal

from npu_tui.analysis.health import TraceHealth
from npu_tui.trace.message import Message

Evidence = Literal["slices", "links"]

_SLICES: frozenset[Evidence] = frozenset({"slices"})
_LINKS: frozenset[Evidence] = frozenset({"links"})
_BOTH = _SLICES | _LINKS
_LOST: dict[str, frozenset[Evidence]] = {
    "skip.slice_time": _SLICES,
    "skip.slice_duration": _SLICES,
    "skip.mark_time": _SLICES,
    "skip.lone_begin": _SLICES,
    "skip.lone_end": _SLICES,
    "skip.not_event": _SLICES,
    "skip.malformed": _SLICES,
    "skip.launch_id": _LINKS,
    "skip.link_time": _LINKS,
    "skip.lone_source": _LINKS,
    "skip.lone_target": _LINKS,
    "odd.args": _SLICES,
    "odd.no_duration": _SLICES,
    "odd.no_name": _SLICES,
    "odd.no_process": _SLICES,
    "odd.no_thread": _SLICES,
    "odd.devices": _BOTH,
    "odd.db_locked": _BOTH,
    "odd.db_written": _BOTH,
    "odd.db_tables": _BOTH,
    "odd.db_tables_more": _BOTH,
    "odd.db_texts": _SLICES,
    "input.too_long_later": _BOTH,
}
"""What is said in ``TraceHealth`` by what it takes away; what was never shown takes nothing away."""

_PHASES = frozenset("NODSTpFcVva()=,n")
"""Phases of the Trace Event Format that are no slices, samples or links; any other is a damaged one of these."""


def unread(health: TraceHealth) -> frozenset[Evidence]:
    """What is incomplete by what ``health`` says."""
    lost: set[Evidence] = set()
    for each in (*(reason for reason, _ in health.skipped), *health.warnings):
        lost |= _taken(each)
    return frozenset(lost)


def _taken(said: Message) -> frozenset[Evidence]:
    if said.code == "skip.phase":
        return frozenset() if said.args["phase"] in _PHASES else _BOTH
    return _LOST.get(said.code, frozenset())
