"""Which parts of a trace could not be read, so that what is measured by them is not measured."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from npu_tui.trace.message import Message

Evidence = Literal["slices", "links"]

_LOST: dict[str, Evidence] = {
    "skip.slice_time": "slices",
    "skip.slice_duration": "slices",
    "skip.mark_time": "slices",
    "skip.not_event": "slices",
    "skip.malformed": "slices",
    "skip.link_time": "links",
    "skip.lone_source": "links",
    "skip.lone_target": "links",
}
"""Reasons of ``Health.skipped`` by what they take away; what was never shown takes nothing away."""


def unread(reasons: Iterable[Message]) -> frozenset[Evidence]:
    """What the ``reasons`` for which events were skipped leave incomplete."""
    return frozenset(_LOST[reason.code] for reason in reasons if reason.code in _LOST)
