"""What the others wait for in broadcasts: work that one rank does alone, or a rank that is late for other reasons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median_low

import numpy as np
from msgspec import Struct

from npu_tui.analysis.limits import HALF
from npu_tui.jobs.columns import I64
from npu_tui.jobs.finding import Held, priced
from npu_tui.jobs.job import Job
from npu_tui.rules.model import Finding
from npu_tui.rules.rule import SEVERITY_MEDIUM
from npu_tui.trace.message import Message, message


class Root(Struct, frozen=True):
    """The ``rank`` that alone computes what it broadcasts, mostly such ``kernels``: types, and how long each takes.

    It computes ``time`` longer than the others, which ``waits`` for it in broadcasts; ns over all steps.
    """

    rank: int
    time: int
    waits: int
    kernels: tuple[tuple[str, int], ...]


def _waits(job: Job) -> tuple[int, I64] | None:
    """The place of the rank that waits least in broadcasts, and how much longer each other one does there, ns.

    What a rank computes meanwhile is no wait. None where the ranks do not make equally many.
    """
    table = job.calls
    sent = np.array(["broadcast" in kind.lower() for _, kind, _ in table.kinds] + [False])[table.kind]
    counts = np.bincount(table.rank[sent], minlength=len(job.ranks))
    if len(job.ranks) < 2 or not counts.all() or counts.min() < counts.max():
        return None
    waits = np.zeros((len(job.ranks), int(counts[0])), np.int64)
    begun = np.zeros(waits.shape, np.int64)
    for place, profile in enumerate(job.ranks):
        own = sent & (table.rank == place)
        start, end = table.start[own], table.end[own]
        hidden = 0 if profile.busy is None else profile.busy.until(end) - profile.busy.until(start)
        waits[place], begun[place] = end - start - hidden, start - (profile.recorded or 0)
    place = int(waits.sum(axis=1).argmin())
    # What began before that rank was recorded may have been the start of its profiler.
    waits = waits[:, begun[place] >= waits.max(axis=0)].sum(axis=1)
    return place, np.delete(waits, place) - waits[place]


def root_of(job: Job) -> Root | None:
    """Whose work the other ranks wait for in broadcasts; None where none has kernels that they have not.

    In what a rank sends it waits for nobody. Ranks that are broadcast the same as they have, such as buffers that all
    of them computed, wait for nobody either.
    """
    steps, found = [sum(step.computing for step in each.steps) for each in job.ranks], _waits(job)
    if found is None or not all(steps):
        return None
    place, waits = found[0], median_low(found[1].tolist())
    more, beside = steps[place] - median_low(steps[:place] + steps[place + 1 :]), job.beside[place]
    if beside.other is None or min(more, beside.other) < HALF * waits or waits < HALF * more or more <= 0:
        return None
    kernels = tuple(row for row in beside.more if row[1] >= HALF * beside.more[0][1])
    return Root(job.ranks[place].rank, more, waits, kernels)


def late_roots(job: Job, why: Callable[[Job, Sequence[int], int], Message | None]) -> list[Finding]:
    """The rank that comes late with what it broadcasts, though it computes no more; ``why`` tells what makes it late.

    Nobody waits for one that receives late, so that broadcasts are no meetings: here they are those of their root.
    """
    found = _waits(job) if job.length else None
    if found is None:
        return []
    rank, gain = job.ranks[found[0]].rank, int(found[1].min())
    known = next((row.gain or 0 for row in job.sums if row.rank == rank), 0)
    if gain < SEVERITY_MEDIUM.default * job.length or known >= HALF * gain or root_of(job) is not None:
        return []
    by = why(job, (rank,), gain)
    codes = f"job.root.title{'_by' * (by is not None)}", "job.root.detail"
    return [priced("RANK.SLOW", codes, (rank,), gain, Held.of_steps(job.length, job.steps), rank=rank, what=by or "")]


def rooted(root: Root, what: Message, share: float, held: Held) -> tuple[Message, Message]:
    """Title and detail of broadcasts of that ``root``: ``what`` they cost, without which that ``share`` is saved."""
    args: dict[str, object] = {"rank": root.rank, "time": held.each(root.time), "waits": held.each(root.waits)}
    args |= {"kernels": [kind for kind, _ in root.kernels], "what": what, "share": share, **held.words}
    parts = [message("job.rooted.detail", **args), message("job.rooted.advice", **args)]
    return message("job.rooted.title", **args), message("list.sentences", parts=parts)
