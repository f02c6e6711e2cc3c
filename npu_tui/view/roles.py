"""What the lanes of a trace are called on screen, and their order there."""

from __future__ import annotations

import re

from msgspec import Struct

from npu_tui.strings import say
from npu_tui.trace.model import Lane, RoleKind, Trace
from npu_tui.trace.roles import lane_roles

_ORDER: tuple[RoleKind, ...] = ("main", "backward", "queue", "compute", "communication", "copy", "plain", "worker")
_STREAM = re.compile(r"(?:^|\b)stream (?P<number>\d+)$", re.IGNORECASE)
_NUMBERED = re.compile(r"(?:thread )?\d+(?!\w)", re.IGNORECASE)
"""What profilers call a thread that has no name of its own."""
_OVERLAP = {
    "Computing": "computing",
    "Communication": "all",
    "Communication(Not Overlapped)": "exposed",
    "Free": "free",
}


class Role(Struct, frozen=True):
    """What a lane is there for, and what it is called on screen."""

    kind: RoleKind
    name: str

    @property
    def order(self) -> int:
        """Lanes of a layer stand in this order, those of one kind in the profiler's."""
        return _ORDER.index(self.kind)


def roles(trace: Trace) -> list[Role]:
    """The role of every lane of ``trace``."""
    return [
        Role(kind, _overlap_name(lane) if trace.layers[lane.layer].kind == "overlap" else _name(lane, kind))
        for lane, kind in zip(trace.lanes, lane_roles(trace), strict=True)
    ]


def _overlap_name(lane: Lane) -> str:
    return say(f"lane.overlap.{_OVERLAP[lane.name]}") if lane.name in _OVERLAP else lane.name


def _name(lane: Lane, role: RoleKind) -> str:
    if lane.derived:
        return say("lane.steps")
    if role in ("main", "backward", "queue") and _NUMBERED.match(lane.name):
        return say(f"lane.{role}")
    stream = _STREAM.search(lane.name)
    if role in ("compute", "communication", "copy") and stream is not None:
        return say(f"lane.{role}", number=stream["number"])
    return lane.name
