"""Operations that began and never ended, where nothing of the device began after them: where a run hangs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_tui.analysis.limits import NAMED
from npu_tui.rules import pages
from npu_tui.rules.facts import Facts
from npu_tui.rules.rule import Draft, Rule
from npu_tui.trace.message import message
from npu_tui.trace.model import UNFINISHED, Trace

UNENDED = "RUN.UNENDED"


def _stuck(trace: Trace) -> list[int]:
    """The innermost slice of each lane that never ended, after the last task of the device began; collectives first.

    The host waits for them.
    """
    if UNFINISHED not in trace.categories:
        return []
    slices = trace.slices
    is_open = slices.category == trace.categories.index(UNFINISHED)
    kinds = np.array([trace.layers[lane.layer].kind for lane in trace.lanes])
    on_device: npt.NDArray[np.bool_] = kinds[slices.lane] == "hardware"
    done = slices.start[~is_open & on_device]
    if not len(done):
        return []
    stuck = np.flatnonzero(is_open & (slices.start >= done.max()))
    innermost = {int(slices.lane[item]): int(item) for item in stuck[np.argsort(slices.start[stuck], kind="stable")]}
    return sorted(innermost.values(), key=lambda item: (kinds[slices.lane[item]] != "communication", item))


def unended(facts: Facts) -> Draft | None:
    """The finding about what never ended, without a gain: nothing recorded tells how long it would have taken."""
    trace, slices = facts.trace, facts.trace.slices
    items = _stuck(trace)
    if not items:
        return None
    names = [
        message("finding.unended.one", name=facts.name_of(item), start=int(slices.start[item]))
        for item in items[:NAMED]
    ]
    if len(items) > NAMED:
        names.append(message("finding.unended.more", count=len(items) - NAMED))
    places = tuple(facts.place(item, message("finding.unended.place")) for item in items)
    first, others = facts.name_of(items[0]), len(items) - 1
    return Draft(
        "high",
        message("finding.unended.titles" if others else "finding.unended.title", name=first, count=others),
        message("finding.unended.detail"),
        places,
        verdict=message("finding.unended", names=names),
    )


RULES: tuple[Rule, ...] = (
    Rule(
        UNENDED,
        cls="dispatch",
        inputs=("device",),
        check=unended,
        advice=("unended",),
        gpu=("unended_gpu",),
        pages=(pages.HCCL_TIMEOUT,),
        sources=("Trace Event Format: a beginning (B) without an end is open when the recording stops",),
    ),
)
