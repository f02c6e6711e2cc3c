"""Spans of a device's time: disjoint intervals, ns, in order of time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_tui.trace.intervals import covered, difference, intersection, union

I64 = npt.NDArray[np.int64]

Bools = npt.NDArray[np.bool_]

Span = tuple[I64, I64]

"""Starts and ends (ns) of intervals."""

NOTHING: Span = (np.zeros(0, np.int64), np.zeros(0, np.int64))


def length_of(span: Span) -> int:
    """How long ``span`` is, without counting anything twice, ns."""
    return covered(*span)


def without(span: Span, cut: Span) -> Span:
    """``span`` less ``cut``."""
    return difference(*span, *cut)


def both(span: Span, other: Span) -> Span:
    """What two spans share."""
    return intersection(*span, *other)


def together(*spans: Span) -> Span:
    """All of ``spans`` as one."""
    return union(np.concatenate([each[0] for each in spans]), np.concatenate([each[1] for each in spans]))


def first_of_largest(values: I64, most: int) -> I64:
    """The positions of the ``most`` largest of ``values``, largest first; of equals the earlier one."""
    if len(values) > most > 0:
        own = np.flatnonzero(values >= np.partition(values, len(values) - most)[len(values) - most])
        return own[np.argsort(-values[own], kind="stable")[:most]]
    return np.argsort(-values, kind="stable")[:most]


def largest(span: Span, most: int = 10) -> list[tuple[int, int]]:
    """The longest intervals of a disjoint ``span``, in order of time."""
    start, end = span
    chosen = np.sort(first_of_largest(end - start, most))
    return list(zip(start[chosen].tolist(), end[chosen].tolist(), strict=True))
