"""Findings about device memory, by memory_record.csv, operator_memory.csv and the calls that take it.

Source: step 17 of the 20-step tuning checklist.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.calls import ALLOCATING_OPERATIONS, is_memory_call
from npu_tui.analysis.device import HOST
from npu_tui.analysis.limits import AWAKE_NS, HALF, LONG_NS, SHORT_NS, Threshold
from npu_tui.analysis.memory import Allocations, holders
from npu_tui.analysis.replay import Change
from npu_tui.rules import pages
from npu_tui.rules.blame import SYNC_SHARE, sync_calls
from npu_tui.rules.facts import Facts
from npu_tui.rules.host_work import called
from npu_tui.rules.inputs import MOST_PLACES, first_of_largest, inside
from npu_tui.rules.model import Evidence
from npu_tui.rules.rule import GRADES, LISTED, Draft, Rule, about, advise, most_common, sentences
from npu_tui.trace.arrays import I64, Bools
from npu_tui.trace.message import Said, message
from npu_tui.trace.text import MIB, brief

# Memory of the devices on the market; a few GB of it are the driver's own. A full one of 32 GB looks like a half full
# one of 64 GB, so it is not reported.
_CAPACITIES_GB = (64, 96, 128)
_MOST = 1_000_000 * MIB
"""More than any device has: a row that is damaged."""

PRESSURE_GB = Threshold("pressure_gb", 16.0)
FRAGMENTATION = Threshold("fragmentation", 1.3)
MEMORY_FULL = Threshold("memory_full", 0.9)


def pressure(facts: Facts) -> Draft | None:
    """Memory that is nearly full, or reserved and not used in a job that needs much of it."""
    limits = facts.limits
    curves = facts.inputs.memory().all("reserved")
    held = np.array([curve.value[curve.value <= _MOST].max(initial=0) for curve in curves] or [0])
    top = int(held.max())
    capacity = next((size for size in _CAPACITIES_GB if top <= size * 1024 * MIB), np.inf)
    if top >= limits[MEMORY_FULL] * capacity * 1024 * MIB:
        fullest = curves[int(held.argmax())]
        at = int(fullest.time[int((fullest.value == top).argmax())])
        words = {"reserved": top / MIB / 1024, "capacity": float(capacity)}
        return Draft(
            "medium",
            message("finding.pressure.full_title", **words),
            message("finding.pressure.full", **words),
            (_moment(at, brief(fullest.component), message("finding.pressure.place", size=top)),),
            advise("checkpointing", "smaller_batch", "expandable"),
            confidence="medium",
        )
    used = facts.inputs.memory().fullest()
    if used is None:
        return None
    at, reserved, allocated = used[0], used[1] / MIB, used[2] / MIB
    if reserved < limits[PRESSURE_GB] * 1024 or not allocated or reserved / allocated <= limits[FRAGMENTATION]:
        return None
    return Draft(
        "medium",
        *about("pressure", reserved=reserved / 1024, allocated=allocated / 1024, ratio=reserved / allocated),
        (_moment(at, message("finding.pressure.peak"), message("finding.pressure.place", size=used[1])),),
        confidence="medium",
    )


GROWTH_MB = Threshold("growth_mb", 20.0)
GROWTH_FEWEST = Threshold("growth_fewest", 3)


def growth(facts: Facts) -> Draft | None:
    """The allocator takes memory from the device inside the steps, each time with a slow call of the driver."""
    curve = facts.inputs.memory().curve("reserved")
    if curve is None or len(curve.time) < 2:
        return None
    more = np.diff(curve.value)
    at = np.flatnonzero(more >= facts.limits[GROWTH_MB] * MIB) + 1
    at = at[_is_in_steps(facts, curve.time[at])]
    if len(at) < facts.limits[GROWTH_FEWEST]:
        return None
    allocations = facts.inputs.memory().allocations
    makers = [_maker(allocations, int(time)) for time in curve.time[at].tolist()]
    names = Counter(maker for maker in makers if maker is not None)
    listed = most_common(names)
    largest = np.sort(first_of_largest(more[at - 1], MOST_PLACES))
    return Draft(
        "low",
        message("finding.growth.title", count=len(at), size=int(more[at - 1].sum())),
        message("finding.growth.detail", names=listed) if listed else message("finding.growth.unknown"),
        tuple(
            _moment(
                int(curve.time[at[k]]), makers[k] or brief(curve.component),
                message("finding.growth.place", size=int(more[at[k] - 1])),
            )
            for k in largest.tolist()
        ),
        confidence="medium",
    )  # fmt: skip


def _is_in_steps(facts: Facts, time: I64) -> Bools:
    """Which times of the host lie in a step of the window but the first one, where the pool fills."""
    items = [step.item for step in facts.steps if step.item >= 0]
    return inside(facts.span_of(np.array(items[1:] or items, np.int64)), time)


def _maker(allocations: Allocations, time: int) -> str | None:
    """The operation that allocated nearest to ``time``, None without one near."""
    if not len(allocations):
        return None
    away = np.abs(allocations.start - time)
    nearest = int(away.argmin())
    return brief(allocations.name.at(nearest) or "") if away[nearest] <= LONG_NS else None


LEAK_MB = Threshold("leak_mb", 1.0)


def leak(facts: Facts) -> Draft | None:
    """What is allocated at the end of a step grows with every step."""
    curve = facts.inputs.memory().curve("allocated")
    slices = facts.trace.slices
    items = [step.item for step in facts.steps if step.item >= 0]
    if curve is None:
        return None
    known = [(end, held) for end in slices.end[items].tolist() if (held := curve.at(end)) is not None]
    if len(known) <= facts.limits[GROWTH_FEWEST]:
        return None
    value = np.array([held for _, held in known], np.int64)
    more = np.diff(value)
    if (more < facts.limits[LEAK_MB] * MIB).any():
        return None
    allocations = facts.inputs.memory().allocations
    first, last = known[0][0], known[-1][0]
    unreleased = np.flatnonzero((allocations.start > first) & (allocations.start <= last) & (allocations.end > last))
    holding = holders(allocations, unreleased, [None] * len(unreleased))[:LISTED]
    grown = int(value[-1] - value[0])
    names = [message("finding.leak.holder", name=brief(holder.name), size=holder.size) for holder in holding]
    return Draft(
        "medium",
        message("finding.leak.title", size=float(more.mean()), count=len(known)),
        message("finding.leak.detail", size=grown, names=names)
        if names
        else message("finding.leak.unknown", size=grown),
        tuple(
            _moment(end, message("finding.leak.end"), message("finding.leak.place", size=held))
            for end, held in known[:MOST_PLACES]
        ),
        confidence="medium",
    )


def _moment(time: int, name: Said, note: Said) -> Evidence:
    """A moment that is on no lane."""
    return Evidence(time, time + 1, None, name, note)


def allocation(facts: Facts) -> Draft | None:
    """Memory taken from the device or given back to it while the job runs."""
    slices, asked = facts.trace.slices, facts.named(("python", "other"), ALLOCATING_OPERATIONS.__contains__)
    asked = facts.outermost(np.sort(asked[facts.length(asked) > SHORT_NS]))
    within = facts.span_of(asked)
    every = facts.named(HOST, is_memory_call)
    every = np.concatenate((asked, every[~inside(within, slices.start[every])]))
    names = np.array([facts.trace.name_of(item).rpartition("@")[2] for item in every.tolist()])
    calls = [
        message("finding.allocation.call", name=name, count=len(own), time=int(facts.length(own).sum()))
        for name in dict.fromkeys(names.tolist())
        for own in [every[names == name]]
    ]
    waits = sync_calls(facts)
    waits = waits[inside(within, slices.start[waits])]
    change = facts.without_calls(every) | Change(waits=frozenset(waits.tolist()))
    draft = called(facts, "allocation", every, change, {"calls": calls})
    if draft is None:
        return None
    drops = len(facts.outermost(facts.named(("python", "other"), lambda name: name.endswith(": empty_cache"))))
    if len(asked):
        words = {**draft.title.args, "names": sorted({facts.trace.name_of(item) for item in asked.tolist()})}
        full = message("finding.allocation.full", count=len(waits)) if len(waits) else ""
        draft = replace(
            draft,
            title=message("finding.allocation.title_asked", **words),
            detail=sentences(draft.detail, full),
        )
    if not drops:
        return _where_full(facts, every, draft)
    detail = sentences(draft.detail, message("finding.allocation.drops", count=drops))
    return replace(draft, detail=detail, advice=advise("empty_cache", "expandable"))


def _where_full(facts: Facts, calls: I64, draft: Draft) -> Draft:
    """``draft`` about ``calls``, which says that memory is full where blocks are given back for what is taken then.

    The allocator does so when the device has none left; what a program gives back is taken again by later operations.
    """
    slices = facts.trace.slices
    calls = calls[np.argsort(slices.start[calls], kind="stable")]
    free = facts.names_where(lambda name: "Free" in name.rpartition("@")[2])[slices.name[calls]]
    last = np.flatnonzero(free & ~np.append(free[1:], False))
    following = np.minimum(last + 1, len(calls) - 1)
    at_once = (slices.start[calls[following]] - slices.end[calls[last]] <= AWAKE_NS) & ~free[following]
    at_once &= slices.lane[calls[following]] == slices.lane[calls[last]]
    count = int(np.count_nonzero(at_once))
    if count < facts.count or count <= HALF * len(last):
        usual = map(facts.recorder.word, ("expandable", "empty_cache", "temporaries", "smaller_batch"))
        return replace(draft, advice=advise(*usual))
    return replace(
        draft,
        title=message("finding.allocation.title_full", **draft.title.args),
        detail=sentences(draft.detail, message("finding.allocation.given_back", count=count)),
        advice=advise("less_memory", "checkpointing", "expandable", "temporaries"),
    )


RULES: tuple[Rule, ...] = (
    Rule(
        "MEM.ALLOC",
        cls="memory",
        inputs=("device", "overlap", "runtime"),
        check=allocation,
        thresholds=(SYNC_SHARE, *GRADES),
        advice=("expandable", "empty_cache", "temporaries", "smaller_batch", "less_memory", "checkpointing"),
        gpu=("gpu_expandable", "temporaries", "smaller_batch"),
        pages=(pages.ALLOCATOR,),
        change="""\
-    torch.npu.empty_cache()
+export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True
""",
        sources=("20-step tuning checklist 2-27", "msprof-analyze advisor: memory operations"),
        reach="cause",
        replayed=True,
        words=("memory",),
    ),
    Rule(
        "MEM.PRESSURE",
        cls="memory",
        inputs=("memory",),
        check=pressure,
        thresholds=(PRESSURE_GB, FRAGMENTATION, MEMORY_FULL),
        advice=("expandable", "checkpointing", "smaller_batch"),
        pages=(pages.ALLOCATOR, pages.CHECKPOINT),
        change="""\
-x = block(x)
+x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
""",
        sources=("operator tuning guide 0-22, 0-24",),
        words=("memory",),
    ),
    Rule(
        "MEM.GROWTH",
        cls="memory",
        inputs=("memory", "steps"),
        check=growth,
        thresholds=(GROWTH_MB, GROWTH_FEWEST),
        advice=("expandable", "warm_pool", "empty_cache"),
        pages=(pages.ALLOCATOR,),
        sources=("20-step tuning checklist 2-27",),
        reach="place",
        words=("memory",),
    ),
    Rule(
        "MEM.LEAK",
        cls="memory",
        inputs=("memory", "steps"),
        check=leak,
        thresholds=(LEAK_MB, GROWTH_FEWEST),
        advice=("leak", "leak_detach"),
        pages=(pages.ALLOCATOR,),
        sources=("20-step tuning checklist 2-27",),
        reach="place",
        words=("memory",),
    ),
)
