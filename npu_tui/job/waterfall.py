"""One collective on one clock: when every rank came, for whom it waited, when it left."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from npu_tui.job.blame import Arrival, Blamed
from npu_tui.job.clock import Clock


class Bar(Struct, frozen=True):
    """One rank of the collective, ns after ``Waterfall.start``: it worked from ``begin`` to ``come``, of that ``own``
    more than its peers, waited until the last one came, and left at ``end``.

    ``begin`` is None where its work before is not recorded. ``error`` is the ± of its clock. A rank that is
    ``outside`` has no files here; ``at_most``: it came then or before.
    """

    rank: int
    begin: int | None
    come: int
    end: int
    own: int
    wait: int
    error: int
    outside: bool
    at_most: bool


class Waterfall(Struct, frozen=True):
    """The bars of a collective, the last to come first; ``come`` is when that was. Times are ns from ``start`` on.

    ``start`` is on the common clock, ns since 1970.
    """

    start: int
    length: int
    come: int
    bars: tuple[Bar, ...]


_BEFORE = 1.6
"""Of the work before the collective so many times the time between the first and the last arrival is shown."""


def waterfall(blamed: Blamed, clocks: Sequence[Clock]) -> Waterfall:
    """The bars of ``blamed`` by the ``clocks`` of the job."""
    error = {clock.rank: clock.error for clock in clocks if clock.is_tied}
    sure = [arrival for arrival in blamed.arrivals if not arrival.at_most] or list(blamed.arrivals)
    last, first = max(arrival.start for arrival in sure), min(arrival.start for arrival in sure)
    end = max(arrival.end for arrival in blamed.arrivals)
    begun = [arrival.start - arrival.gap for arrival in sure if arrival.gap is not None]
    apart = max(last - first, end - last, 1)
    start = max(
        min(begun, default=first - apart // 4), last - round(_BEFORE * apart), min(begun, default=first) - apart
    )
    start = min(start, first)
    order = sorted(blamed.arrivals, key=lambda arrival: (arrival.at_most, -arrival.start, arrival.rank))
    bars = tuple(_bar(arrival, start, error.get(arrival.rank, 0.0)) for arrival in order)
    return Waterfall(start, max(end - start, 1), last - start, bars)


def _bar(arrival: Arrival, start: int, error: float) -> Bar:
    begin = None if arrival.gap is None else max(arrival.start - arrival.gap - start, 0)
    return Bar(
        arrival.rank,
        begin,
        arrival.start - start,
        arrival.end - start,
        max(arrival.own or 0, 0),
        arrival.wait,
        round(error),
        arrival.outside,
        arrival.at_most,
    )
