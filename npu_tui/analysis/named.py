"""Slices by their names and the layers they are on."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from npu_tui.trace.model import Lane, LayerKind, Trace
from npu_tui.trace.once import of_trace

I64 = npt.NDArray[np.int64]

_FEW = 8


def named_on(trace: Trace, kinds: tuple[LayerKind, ...], rule: Callable[[str], bool]) -> I64:
    """The slices on layers of ``kinds`` whose name fulfils ``rule``, ascending."""
    return named_in(trace, (lane for lane in trace.lanes if trace.layers[lane.layer].kind in kinds), rule)


def named_in(trace: Trace, lanes: Iterable[Lane], rule: Callable[[str], bool]) -> I64:
    """The slices in ``lanes`` whose name fulfils ``rule``, ascending."""
    known = _names_in_lanes(trace)
    wanted = np.zeros(len(trace.names) + 1, np.bool_)
    found = [np.zeros(0, np.int64)]
    for lane in sorted(lanes, key=lambda lane: lane.first):
        own = [code for code in known[lane.index] if rule(trace.names[code])]
        if not own:
            continue
        name = trace.slices.name[lane.first : lane.last]
        if len(own) <= _FEW:  # compared sooner than looked up
            chosen = name == own[0]
            for code in own[1:]:
                chosen |= name == code
        else:
            wanted[own] = True
            chosen = wanted[name]
        found.append(lane.first + np.flatnonzero(chosen))
    return np.concatenate(found)


@of_trace
def _names_in_lanes(trace: Trace) -> list[list[int]]:
    """Which names occur in each lane: few of all do, and most rules find none of theirs there."""
    found = []
    for lane in trace.lanes:
        there = np.zeros(len(trace.names) + 1, np.bool_)
        there[trace.slices.name[lane.first : lane.last]] = True
        found.append(np.flatnonzero(there[:-1]).tolist())
    return found
