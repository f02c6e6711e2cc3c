"""The collectives of a trace with what a comparison needs of them: how long each waited for a peer, and for which.

That a task waits is told by its name; for whom stands in its args, which are read of some steps only, as reading them
takes longer than all the rest of a comparison.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from npu_tui.analysis.collectives import Arrivals, Collectives, Groups, Moved, Timings, Waits, with_ranks_of_job
from npu_tui.analysis.operators import collective_types
from npu_tui.compare.steps import StepWindow
from npu_tui.ingest.errors import InputError
from npu_tui.trace.model import Trace
from npu_tui.trace.transfers import groups_of, rank_numbers

I64 = npt.NDArray[np.int64]

_WAIT = "Notify_Wait"
_ASKED_STEPS = 16
"""Steps, evenly over the run, in which the peer of a wait is looked up."""


def exchanges(trace: Trace, groups: Groups, windows: Sequence[StepWindow]) -> Collectives:
    """The collectives by start: elapsed time, the longest wait on any plane and when it ended, in ns.

    ``groups`` gives the ranks of the job; the peer is known in some of the steps ``windows``, else None.
    """
    slices = trace.slices
    is_wait = np.array([name == _WAIT for name in trace.names] + [False])
    item: list[I64] = []
    wait: list[I64] = []
    for group, planes in groups_of(trace):
        own = np.arange(group.first, group.last)
        longest = np.full(len(own), -1, np.int64)
        tasks = np.concatenate([np.zeros(0, np.int64), *(np.arange(each.first, each.last) for each in planes)])
        tasks = tasks[is_wait[slices.name[tasks]]]
        if len(tasks) and len(own):
            begin, end = slices.start[own], slices.end[own]
            at = np.searchsorted(begin, slices.start[tasks], "right") - 1
            inside = (at >= 0) & (slices.start[tasks] < end[np.maximum(at, 0)])
            tasks, at = tasks[inside], at[inside]
            order = np.lexsort((slices.end[tasks] - slices.start[tasks], at))
            longest[at[order]] = tasks[order]  # of several the last one stays
        item.append(own)
        wait.append(longest)
    items = np.concatenate([np.zeros(0, np.int64), *item])
    waits = np.concatenate([np.zeros(0, np.int64), *wait])
    order = np.argsort(slices.start[items], kind="stable")
    items, waits = items[order], waits[order]
    source, target = _peers(trace, items, waits, windows)
    found = _waiting(trace, items, waits, source, target)
    return with_ranks_of_job(trace, found, groups)


def _waiting(trace: Trace, items: I64, waits: I64, source: I64, target: I64) -> Collectives:
    """The collectives ``items`` with the longest wait of each, -1 for none, and what is told of both its ends."""
    slices, count = trace.slices, len(items)
    known, nothing = waits >= 0, np.zeros(count, np.int64)
    longest = np.maximum(waits, 0)
    until = np.minimum(slices.end[longest], slices.end[items]) - slices.start[items]
    met = np.flatnonzero(known & (target >= 0))
    owner = np.repeat(met, 2)
    rank = np.stack((np.maximum(source[met], 0), target[met]), axis=1).ravel()
    after = np.stack((nothing[met], until[met]), axis=1).ravel()
    return Collectives(
        items,
        slices.end[items] - slices.start[items],
        *collective_types(trace, items),
        Timings(np.zeros(count, np.bool_), nothing, nothing, nothing, nothing),
        Moved(nothing[:0], nothing[:0], nothing[:0], nothing[:0], ()),
        Waits(known, slices.end[longest] - slices.start[longest], target, until),
        Arrivals(count, owner, rank, after),
        nothing,
        ("",),
        nothing - 1,
    )


def _peers(trace: Trace, items: I64, waits: I64, windows: Sequence[StepWindow]) -> tuple[I64, I64]:
    """Rank of this side and of the peer of each wait, -1 where it was not looked up or is not told; (n,) each."""
    source, target = np.full(len(items), -1, np.int64), np.full(len(items), -1, np.int64)
    chosen = np.zeros(len(items), np.bool_)
    start = trace.slices.start[items]
    for k in np.unique(np.linspace(0, len(windows) - 1, _ASKED_STEPS).astype(np.int64)).tolist():
        chosen |= (start >= windows[k].start) & (start <= windows[k].end)
    asked = np.flatnonzero(chosen & (waits >= 0))
    try:
        columns = trace.args.columns(trace.slices.event[waits[asked]], ("src rank", "dst rank"))
    except InputError:
        return source, target
    source[asked], target[asked] = map(rank_numbers, columns)
    return source, target
