"""One thing that changed between two profiles: what it costs per step, how grave it is, where it is on both sides."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.compare.comparison import Comparison
from npu_tui.compare.side import Side
from npu_tui.compare.steps import StepWindow
from npu_tui.rules.model import FindingClass, Severity
from npu_tui.trace.message import Message

I64 = npt.NDArray[np.int64]

SideName = Literal["base", "new"]

_NONE = np.zeros(0, np.int64)
_HIGH, _MEDIUM = 0.03, 0.01
"""Shares of the base step from which what is longer is grave."""
_MOST_EVIDENCE = 5


class Place(Struct, frozen=True):
    """Where on one side a difference is to be seen: ``[start, end)`` in ns of that side's trace, on ``lane``."""

    side: SideName
    start: int
    end: int
    lane: int | None
    name: str
    item: int | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that changed.

    ``delta`` is what it adds to a step (ns, negative: saves), None where that cannot be told. ``items`` are all of its
    slices in the base and in the new profile, ``places`` the longest of them; ``p`` is how likely chance made it.
    """

    id: str
    cls: FindingClass
    severity: Severity
    title: Message
    delta: float | None
    places: tuple[Place, ...]
    advice: tuple[Message, ...] = ()
    part_of: str | None = None
    items: tuple[I64, I64] = field(default=(_NONE, _NONE), compare=False, repr=False)
    p: float | None = None


def severity_of(delta: float, wall: float) -> Severity:
    """How grave ``delta`` (ns per step) is against ``wall`` (ns, the base step); what is saved is only told."""
    share = abs(delta) / wall
    if delta <= 0:
        return "info"
    return "high" if share >= _HIGH else "medium" if share >= _MEDIUM else "low"


def places_of(side: Side, name: SideName, items: I64, step: StepWindow | None = None) -> list[Place]:
    """The longest of the slices ``items``, by start: of those in ``step`` (by default the typical one) if any are."""
    slices = side.trace.slices
    window = step or side.sample.medoid
    inside = items[(slices.start[items] >= window.start) & (slices.start[items] < window.end)]
    items = inside if len(inside) else items
    longest = items[np.argsort(slices.start[items] - slices.end[items], kind="stable")][:_MOST_EVIDENCE]
    return [
        Place(
            name,
            int(slices.start[item]),
            int(slices.end[item]),
            int(slices.lane[item]),
            side.trace.name_of(item),
            item,
        )
        for item in sorted(longest.tolist())
    ]


def places_on_both(comparison: Comparison, base: I64, new: I64) -> tuple[Place, ...]:
    """The longest of the slices ``base`` and ``new`` of the two sides."""
    return (*places_of(comparison.base, "base", base), *places_of(comparison.new, "new", new))
