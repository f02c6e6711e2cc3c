"""How clocks run against that of their reference: a drift, and where that is not constant, its bends."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.job.ends import Events, agreement, window_offsets, windows_of

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

_LEAST_WINDOWS = 4
_LEAST_NS = 2_000.0
"""ns below which a bend is within what the files round and the ends of a collective differ by."""
_CLEAR = 0.5
"""A bend is told that leaves at most this share of what is left of the clock without it."""
_ROUNDS = 3
"""How often what is left in the windows is added to the bends."""


class Course(Struct, frozen=True, eq=False):
    """What each clock gains, ns: ``drift`` (ranks,) times the time, and ``bend`` (ranks, knots) between ``knots``.

    ``knots`` (knots,) are times since the zero of every rank, ns, ascending; before the first and after the last one a
    bend stays as it is.
    """

    drift: F64
    knots: F64
    bend: F64

    def gained(self, time: F64, rank: I64) -> F64:
        """What the clocks of ``rank`` (n,) had gained by ``time`` (n,)."""
        gained = self.drift[rank] * time
        for place in np.flatnonzero(self.bend.any(axis=1)).tolist():
            own = rank == place
            gained[own] += np.interp(time[own], self.knots, self.bend[place])
        return np.asarray(gained)

    def straightened(self, events: Events) -> Events:
        """``events`` as even clocks would show them."""
        return Events(events.row, events.rank, events.time - self.gained(events.time, events.rank), events.group)


def course(events: Events, drift: F64, references: I64) -> Course:
    """The clocks of ``drift`` (ranks,) with the bends that the windows of ``events`` tell.

    A rank has a bend where the offsets from window to window leave a straight line, and the events agree much better
    when it is taken out.
    """
    count = len(drift)
    even = Course(drift, np.zeros(1), np.zeros((count, 1)))
    straight = even.straightened(events)
    window, parts = windows_of(straight)
    if parts < _LEAST_WINDOWS:
        return even
    first, last = float(events.time.min()), float(events.time.max())
    found = even
    for _ in range(_ROUNDS):
        middle, offsets, _ = window_offsets(found.straightened(events), window, parts, references)
        known = np.flatnonzero(~np.isnan(middle))
        knots = np.concatenate(([first], middle[known], [last]))
        bend = np.zeros((count, len(knots)))
        for place in range(count):
            told = known[~np.isnan(offsets[known, place])]
            if len(told) >= _LEAST_WINDOWS and references[place] != place:
                before = np.interp(knots, found.knots, found.bend[place])
                bend[place] = before + _through(middle[told], offsets[told, place], knots)
                bend[place] -= np.interp(0.0, knots, bend[place])
        found = Course(drift, knots, np.where(np.ptp(bend, axis=1, keepdims=True) > _LEAST_NS, bend, 0.0))
    if not found.bend.any():
        return even
    without, better = agreement(straight, references).error, agreement(found.straightened(events), references).error
    bend = np.where((better <= _CLEAR * without)[:, None], found.bend, 0.0)
    return Course(drift, found.knots, bend) if bend.any() else even


def _through(time: F64, value: F64, at: F64) -> F64:
    """The line through the points (``time``, ``value``) at the times ``at``, straight on beyond the first and last."""
    found = np.interp(at, time, value)
    low, high = (value[1] - value[0]) / (time[1] - time[0]), (value[-1] - value[-2]) / (time[-1] - time[-2])
    found = np.where(at < time[0], value[0] + low * (at - time[0]), found)
    return np.asarray(np.where(at > time[-1], value[-1] + high * (at - time[-1]), found))
