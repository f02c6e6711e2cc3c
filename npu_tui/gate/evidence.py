"""Which parts of a trace could not be read, so that what is measured by them is not measured."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

Evidence = Literal["slices", "links"]

_LOST: dict[str, Evidence] = {
    "slice without a usable time": "slices",
    "slice with a negative or endless duration": "slices",
    "begin or end without a usable time": "slices",
    "not an event": "slices",
    "malformed event": "slices",
    "link end without a usable time": "links",
    "link source without target": "links",
    "link target without source": "links",
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


def unread(reasons: Iterable[object]) -> frozenset[Evidence]:
    """What the ``reasons`` for which events were skipped, texts or messages, leave incomplete."""
    codes = (str(getattr(reason, "code", reason)) for reason in reasons)
    return frozenset(_LOST[code] for code in codes if code in _LOST)
