"""What is taken out of a run, or made shorter, to see what would remain of it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.trace.intervals import union

I64 = npt.NDArray[np.int64]
Span = tuple[I64, I64]

ANY_THREAD = -1


class HostCut(Struct, frozen=True):
    """Work of a host thread in ``span`` (ns on the host's clock) of which ``keep`` is left, 0 to 1 or more.

    ``thread`` is the id of the thread, ANY_THREAD for all.
    """

    thread: int
    span: Span
    keep: float = 0.0


class TaskCut(Struct, frozen=True):
    """Device slices ``items`` of whose length (of a collective: of its transfer) ``keep`` is left."""

    items: I64
    keep: float = 0.0


class Change(Struct, frozen=True):
    """Several things at once; what is empty stays as it is.

    ``waits`` are slices of the host that no longer wait for the device, or records of events that come at once,
    ``in_time`` ranks that no longer come last to the collectives ``at`` (none: to any).
    """

    host: tuple[HostCut, ...] = ()
    tasks: tuple[TaskCut, ...] = ()
    waits: frozenset[int] = frozenset()
    in_time: frozenset[int] = frozenset()
    at: frozenset[int] = frozenset()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is changed."""
        return not (self.host or self.tasks or self.waits or self.in_time)

    @property
    def key(self) -> tuple[object, ...]:
        """What is equal for changes that change the same."""
        host = frozenset((cut.thread, cut.keep, cut.span[0].tobytes(), cut.span[1].tobytes()) for cut in self.host)
        tasks = tuple((cut.keep, cut.items.tobytes()) for cut in self.tasks)
        # Of cuts of one task the lesser counts, but stretches multiply: their order is of no account, their number is.
        return (
            host,
            frozenset(tasks) if all(keep <= 1 for keep, _ in tasks) else tasks,
            self.waits,
            self.in_time,
            self.at,
        )

    def __or__(self, other: Change) -> Change:
        """Both changes at once."""
        everywhere = any(each.in_time and not each.at for each in (self, other))
        return Change(
            self.host + other.host,
            self.tasks + other.tasks,
            self.waits | other.waits,
            self.in_time | other.in_time,
            frozenset() if everywhere else self.at | other.at,
        )


NO_CHANGE = Change()


def spans_by_cut(cuts: Iterable[HostCut]) -> list[tuple[int, float, Span]]:
    """The union of the spans of each thread and share that is kept, what is cut most first."""
    found: dict[tuple[int, float], list[Span]] = {}
    for cut in cuts:
        found.setdefault((cut.thread, cut.keep), []).append(cut.span)
    return [
        (thread, keep, union(np.concatenate([each[0] for each in spans]), np.concatenate([each[1] for each in spans])))
        for (thread, keep), spans in sorted(found.items(), key=lambda row: (row[0][1], row[0][0]))
    ]
