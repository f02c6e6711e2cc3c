"""Work that one rank does alone and then broadcasts: the others wait for it there, and all for what it sends."""

from __future__ import annotations

from statistics import median_low

import numpy as np
from msgspec import Struct

from npu_tui.analysis.limits import HALF
from npu_tui.jobs.finding import Held
from npu_tui.jobs.job import Job
from npu_tui.trace.message import Message, message


class Root(Struct, frozen=True):
    """The ``rank`` that alone computes what it broadcasts, mostly such ``kernels``: types, and how long each takes.

    It computes ``time`` longer than the others, which ``waits`` for it in broadcasts; ns over all steps.
    """

    rank: int
    time: int
    waits: int
    kernels: tuple[tuple[str, int], ...]


def root_of(job: Job) -> Root | None:
    """Whose work the other ranks wait for in broadcasts; None where none has kernels that they have not.

    In what a rank sends it waits for nobody. Ranks that are broadcast the same as they have, such as buffers that all
    of them computed, wait for nobody either.
    """
    table, steps = job.calls, [sum(step.computing for step in each.steps) for each in job.ranks]
    sent = np.array(["broadcast" in kind.lower() for _, kind, _ in table.kinds] + [False])[table.kind]
    counts = np.bincount(table.rank[sent], minlength=len(job.ranks))
    if len(job.ranks) < 2 or not counts.all() or counts.min() < counts.max() or not all(steps):
        return None
    times = np.bincount(table.rank[sent], (table.end - table.start)[sent], len(job.ranks))
    place = int(times.argmin())
    waits = median_low([*times[:place], *times[place + 1 :]]) - times[place]
    more, beside = steps[place] - median_low(steps[:place] + steps[place + 1 :]), job.beside[place]
    if beside.other is None or min(more, beside.other) < HALF * waits or waits < HALF * more or more <= 0:
        return None
    return Root(
        job.ranks[place].rank, more, int(waits), tuple(row for row in beside.more if row[1] >= HALF * beside.more[0][1])
    )


def rooted(root: Root, what: Message, share: float, held: Held) -> tuple[Message, Message]:
    """Title and detail of broadcasts of that ``root``: ``what`` they cost, without which that ``share`` is saved."""
    args: dict[str, object] = {"rank": root.rank, "time": held.each(root.time), "waits": held.each(root.waits)}
    args |= {"kernels": [kind for kind, _ in root.kernels], "what": what, "share": share, **held.words}
    parts = [message("job.rooted.detail", **args), message("job.rooted.advice", **args)]
    return message("job.rooted.title", **args), message("list.sentences", parts=parts)
