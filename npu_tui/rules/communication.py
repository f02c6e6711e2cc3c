"""Findings about collectives: communication that nothing hides, and a long one.

Sources: the signs of a communication bottleneck in the MindStudio Insight walk-through, who is late by the waits of the
plane tasks, and the communication rules of msprof-analyze's advisor (byte alignment, packets, bandwidth contention,
retransmission).
"""

from __future__ import annotations

import numpy as np

from npu_tui.analysis.code_lines import CodeLine
from npu_tui.analysis.collectives import Collective
from npu_tui.analysis.communication import UNKNOWN, planes_moving
from npu_tui.analysis.launches import operation_of
from npu_tui.analysis.limits import A_PART, HALF, MORE_THAN_ONE, NAMED, NOTABLE, Threshold
from npu_tui.analysis.replay import Change, TaskCut
from npu_tui.rules import pages
from npu_tui.rules.compute import lines_by
from npu_tui.rules.facts import Facts, once_per_device
from npu_tui.rules.inputs import Span, common, largest, length_of, without
from npu_tui.rules.late_ranks import (
    LatePeers,
    fill_span,
    is_uneven,
    late,
    moving,
    numbers_of,
    unseen_waits,
    waits_for_late_ranks,
    waits_for_named,
)
from npu_tui.rules.model import Evidence
from npu_tui.rules.parallelism import (
    BUCKET,
    PURPOSES,
    Purpose,
    beside_product,
    due_at_once,
    gathered_whole,
    is_for,
    purposes,
    serial,
    unsplit,
)
from npu_tui.rules.rule import (
    SEVERITY_HIGH,
    SEVERITY_MEDIUM,
    Draft,
    Rule,
    Unexplained,
    about,
    advise,
    cost_of,
    line_of,
    ranked,
    sentences,
    severity_of,
    timed,
)
from npu_tui.rules.sequences import CHAIN_FROM
from npu_tui.trace.arrays import F64, I64, Bools, BySlice, in_groups, summed
from npu_tui.trace.intervals import covered_within, union
from npu_tui.trace.message import Message, Said, message
from npu_tui.trace.recorder import exchange_kernels

# Bytes at which a class of sizes begins: sizes of one bucket configuration fall together.
_CLASSES = 2 * 4 ** np.arange(31, dtype=np.int64)

EXPOSED_SHARE = Threshold("exposed_share", 0.1)


def exposed(facts: Facts) -> Draft | None:
    """Communication that no computing hides."""
    sums = facts.sums
    share = facts.share(sums.not_overlapped)
    due, line = _gathered_when_due(facts)
    least = facts.limits[SEVERITY_MEDIUM if due else EXPOSED_SHARE]
    if share <= least:
        return None
    known = bool(facts.collectives.has_arrivals.any())
    lateness = late(facts)
    waited = length_of(waits_for_late_ranks(facts))
    all_long = waited > 0 and lateness is None and _all_long(facts)
    filling = fill_span(facts)
    rest = moving(facts)
    mostly_late = 2 * waited >= sums.not_overlapped
    severity = severity_of(facts.limits, facts.share(length_of(rest if known else facts.exposed)))
    if facts.share(sums.not_overlapped - length_of(filling)) <= least:
        severity = "info"
    words = {"time": sums.not_overlapped, "share": share}
    mostly = _mostly(facts)
    overlapped = (sums.communication - sums.not_overlapped) / sums.communication if sums.communication else 0.0
    detail = "finding.exposed.detail" if len(facts.collectives) else "finding.exposed.detail_streams"
    parts = [message(detail, hidden=overlapped, count=len(facts.collectives), **words)]
    if sums.communication > sums.computing:
        parts.append(message("finding.exposed.more", communication=sums.communication, computing=sums.computing))
    told = waited >= NOTABLE * sums.not_overlapped
    if told and lateness is not None:
        parts.append(_waited_for_text(facts, lateness, length_of(waits_for_named(facts))))
    elif told:
        parts.append(message(f"finding.exposed.{'waited_all' if all_long else 'waited'}", waited=waited))
    if not known:
        parts.append(message(f"finding.exposed.unknown{'_gpu' * _in_kernels(facts)}"))
    if length_of(filling):
        parts.append(message("finding.straggler.fill", time=length_of(filling)))
    if late_ones := unsplit(facts):
        own, others = len(late_ones[0].reductions), late_ones[0].others
        code = "finding.exposed.unsplit" + "_some" * bool(others)
        parts.append(message(code, count=late_ones[0].buckets, late=own, all=own + others))
    items = facts.collectives.item
    hideable = _hideable(facts, rest)
    bound = np.isin(purposes(facts), [PURPOSES.index(purpose) for purpose in _BOUND])
    by_design = bool(2 * hideable[bound].sum() > hideable.sum())
    cuts = shortened_collectives(facts, hideable)
    # Without arrivals late ranks are unknown: then the verdict is about the wait, else about what is left without it.
    verdict, spent = ("verdict_partly" if told else "verdict"), sums.not_overlapped
    if mostly_late:
        verdict, spent = ("verdict_rest", length_of(rest)) if known else ("verdict_waited", waited)
        verdict += "_all" * all_long
    if severity == "info":
        verdict, spent = "verdict_fill", length_of(filling)
    nameless = mostly_late and not known and not all_long
    due, line = (0, None) if mostly_late or severity == "info" else (due, line)
    at_once = bool(due) and len(gathered_whole(facts)) > 0
    if line is not None:
        parts.append(message(f"finding.exposed.asked{'_whole' * at_once}", line=line_of(line)))
    late_sums = np.concatenate([items[:0], *(items[each.reductions] for each in late_ones)])
    after = not nameless and not due and length_of(common(rest, facts.span_of(late_sums))) > HALF * sums.not_overlapped
    title = f"finding.exposed.title{'_waited' * nameless}{'_due' * bool(due)}{'_whole' * at_once}{'_after' * after}"
    title += "_some" * (after and any(each.others for each in late_ones))
    return Draft(
        severity,
        message(
            title,
            each=facts.per_unit(sums.not_overlapped),
            share=share,
            mostly=mostly,
            waited=waited / facts.count,
            gathers=round(due / facts.count),
            sums=max(round(len(late_sums) / facts.count), 1),
            all=max(round((len(late_sums) + sum(each.others for each in late_ones)) / facts.count), 1),
            unit=facts.unit,
        ),
        sentences(*parts),
        facts.longest(items, lambda item: message("finding.exposed.place", time=exposed_of(facts, item)))
        or tuple(Evidence(a, b, None, "Communication(Not Overlapped)", "") for a, b in largest(facts.exposed)),
        advise(*(["slow_then"] if all_long else []), _first_of_all(facts, lateness))
        if mostly_late
        else advise(*_words(facts)),
        rest if known else waits_for_late_ranks(facts) if nameless else facts.exposed,
        change=Change(tasks=cuts, in_time=frozenset({UNKNOWN}) if not known else frozenset()),
        confidence="high" if known else "low",
        by_design=known and by_design and not mostly_late,
        # No replay says what a range gains: no more than waits and what computing could hide.
        most=None if facts.whole_steps else int(hideable.sum()) + (0 if known else waited),
        verdict=message(
            f"finding.exposed.{verdict}",
            each=facts.per_unit(spent),
            share=facts.share(spent),
            waited=waited / facts.count,
            exposed=sums.not_overlapped / facts.count,
            mostly=mostly,
        ),
        unexplained=Unexplained(without(facts.exposed, filling), *_unexplained(facts, known, share, length_of(rest))),
        code_lines=() if line is None else (line,),
    )


def _gathered_when_due(facts: Facts) -> tuple[int, CodeLine | None]:
    """How many gathers of weights nothing goes along with, if most of what is exposed is theirs, and who asks for them.

    The thread of the pass backward has no frames: it asks where the pass forward does.
    """
    items = facts.collectives.item[is_for(facts, "weights") & serial(facts)]
    # The first of both passes are due at once.
    several = len(items) > max(MORE_THAN_ONE * facts.count, HALF * np.count_nonzero(is_for(facts, "weights")))
    # Of one that fetches all weights of a step, most are due later.
    several |= len(gathered_whole(facts)) == facts.count
    if not several or length_of(common(facts.exposed, facts.span_of(items))) <= HALF * length_of(facts.exposed):
        return 0, None
    operation = operation_of(facts.trace, items)
    lines = lines_by(facts, operation[operation >= 0], facts.length(items[operation >= 0]))
    first = max(lines, key=lambda line: lines[line], default=None)
    return len(items), first if first is not None and lines[first] > HALF * lines.total() else None


def _mostly(facts: Facts) -> Said:
    """Which of several types of collectives are exposed for a good part of the time; empty where there is one."""
    every = facts.collectives
    items = {name: every.item[every.type == kind] for kind, name in enumerate(every.types)}
    times = {name: length_of(common(facts.exposed, facts.span_of(own))) for name, own in items.items()}
    told = {name.strip("_"): time / facts.count for name, time in times.items() if time >= A_PART * sum(times.values())}
    if len(times) < 2 or not told:
        return ""
    return message("finding.exposed.mostly", types=[timed(name, time) for name, time in ranked(told, NAMED)])


# What the next kernel waits for: nothing that is computed meanwhile is independent of it.
_BOUND: tuple[Purpose, ...] = ("tensor", "experts", "pipeline")

# What hides or saves communication, by what it is for.
_WORDS: dict[Purpose, tuple[str, ...]] = {
    "gradients": ("overlap", "accumulate"),
    "shards": ("shard_overlap",),
    "tensor": ("mc2", "sequence_parallel"),
    "weights": ("prefetch_weights", "gather_less"),
    "experts": ("exchange_beside", "expert_placement"),
    "pipeline": ("micro_batches",),
    "other": ("asynchronous",),
}


def _words(facts: Facts) -> list[str]:
    """What to do about exposed communication: by what each notable part of it is for, the largest first."""
    parts = {purpose: facts.collectives.item[is_for(facts, purpose)] for purpose in PURPOSES}
    times = {purpose: length_of(common(facts.exposed, facts.span_of(items))) for purpose, items in parts.items()}
    order = sorted((purpose for purpose in PURPOSES if times[purpose]), key=lambda purpose: -times[purpose])
    notable = [purpose for purpose in order if times[purpose] >= A_PART * max(sum(times.values()), 1)]
    words = _WORDS if many_small(facts) is None else {**_WORDS, "gradients": ("merge_buckets", "accumulate")}
    words = words if not len(gathered_whole(facts)) else {**words, "weights": ("gather_in_parts",)}
    return [word for purpose in notable or ["other"] for word in words[purpose]]


def _first_of_all(facts: Facts, lateness: LatePeers | None) -> str:
    """What to do where most of the exposed time is waiting."""
    if lateness is None:
        unknown = "record_ranks" if _in_kernels(facts) else "late_unknown"
        return "late_first" if facts.collectives.has_arrivals.any() else unknown
    return "experts_balance" if is_uneven(facts, lateness) else "late_first"


def _in_kernels(facts: Facts) -> bool:
    """Whether most of what communicates are kernels that wait in themselves: no level records tasks of theirs."""
    items = facts.collectives.item
    return facts.recorder.waits_within or 2 * len(np.intersect1d(items, exchange_kernels(facts.trace))) > len(items)


def _all_long(facts: Facts) -> bool:
    """Whether all collectives of a kind take longer than usual together, in some repetitions and not in others.

    A late rank delays the first of those that follow each other; slow links, or a rank that is slow all the time, each.
    """
    every, slices = facts.collectives, facts.trace.slices
    longer = np.isin(every.item, list(unseen_waits(facts)))
    kind = slices.lane[every.item].astype(np.int64) * (len(every.types) + 1) + every.type
    repetition = np.searchsorted(facts.repetitions, slices.start[every.item], "right")
    groups = [longer[alike] for alike in in_groups(kind * (len(facts.repetitions) + 1) + repetition) if len(alike) > 1]
    some = [each for each in groups if each.any()]
    return len(some) < len(groups) and 2 * sum(bool(each.all()) for each in some) > len(some)


def _waited_for_text(facts: Facts, lateness: LatePeers, waited: int) -> Message:
    """For whom the collectives wait."""
    if lateness.peers[0] == UNKNOWN:
        return message("finding.exposed.unseen", waited=waited)
    many = "_ranks" * (len(lateness.visible) > 1)
    return message(f"finding.exposed.late{many}", ranks=numbers_of(facts, lateness.visible), waited=waited)


def _unexplained(facts: Facts, known: bool, share: float, transfers: int) -> tuple[Message, tuple[Message, ...]]:
    """The verdict on exposed communication that nothing explains, and the advice that leads to its cause.

    No cause is missing where most of it is ``transfers`` (ns): then nothing is computed that could hide them.
    """
    if known and 2 * transfers >= facts.sums.not_overlapped:
        return message("finding.exposed.verdict_transfers", share=share, each=facts.per_unit(transfers)), ()
    why, recording = _unknown(facts, known)
    each = facts.per_unit(facts.sums.not_overlapped)
    verdict = message("finding.exposed.verdict_unexplained", share=share, each=each, why=why)
    return verdict, advise(recording)


def _unknown(facts: Facts, known: bool) -> tuple[Message, str]:
    """Why the cause of exposed communication may not be known, and the advice that leads to it."""
    slices, device, start = facts.trace.slices, facts.part.slices, facts.window.start
    if not facts.whole_steps and device is not None:
        items = np.flatnonzero(device.collective)
        items = items[(slices.start[items] < start) & (slices.end[items] > start)]
        cut = length_of(common(facts.exposed, facts.span_of(items)))
        if len(items) and 2 * cut >= facts.sums.not_overlapped:
            longest = int(items[np.argmax(slices.end[items])])
            words = {"name": facts.name_of(longest, 40), "time": start - int(slices.start[longest])}
            return message("finding.exposed.unexplained.before", **words), "widen_range"
    if not known:
        return message(facts.recorder.word("finding.exposed.unexplained.level")), "late_unknown"
    return message("finding.exposed.unexplained.waits"), "record_ranks"


_FRACTIONS = 4096  # parts of a transfer that are distinguished when it is hidden


def shortened_collectives(facts: Facts, hidden: I64) -> tuple[TaskCut, ...]:
    """The collectives shorter by what is ``hidden`` of each, ns, beside what each waits."""
    slices, items = facts.trace.slices, facts.collectives.item
    moved = facts.length(items) - covered_within(*waits_for_late_ranks(facts), slices.start[items], slices.end[items])
    kept = np.rint(_FRACTIONS * (1.0 - hidden / np.maximum(moved, 1))).clip(0, _FRACTIONS)
    return tuple(
        TaskCut(items[kept == fraction], fraction / _FRACTIONS)
        for fraction in np.unique(kept).tolist()
        if fraction < _FRACTIONS
    )


def _hideable(facts: Facts, rest: Span) -> I64:
    """How much of each collective's exposed part in ``rest`` computing of its own step could hide, ns; (n,).

    A reduction hides behind what is computed after it may start and before the last collective of the step, which
    waits for the last gradient. A gather that is prefetched hides behind what is computed before it in the step. What
    belongs to a matrix product hides beside that alone, and a small sum that the next kernel waits for behind nothing.
    """
    collectives, slices = facts.collectives, facts.trace.slices
    order = np.argsort(slices.start[collectives.item], kind="stable")
    item = collectives.item[order]
    start, end = slices.start[item], slices.end[item]
    gathers = np.array(["gather" in name.lower() for name in collectives.types], np.bool_)[collectives.type[order]]
    awaited = is_for(facts, "tensor") | small_sums(facts)
    bare = np.where(awaited[order], 0, covered_within(*rest, start, end))
    lanes = facts.part.lanes
    free = facts.computing if lanes is None else without(facts.computing, facts.cut(lanes.communication))
    hidden = beside_product(facts, rest)
    for rows in in_groups(np.searchsorted(facts.repetitions, start, "right")):
        rows = np.sort(rows)
        between = covered_within(*free, start[rows[:-1]], start[rows[1:]])
        reduced, gathered = np.where(gathers[rows], 0, bare[rows]), np.where(gathers[rows], bare[rows], 0)
        fits = np.zeros(len(rows), np.int64)
        fits[1:] += _fitting_into_room(gathered[1:], between)
        fits[:-1] += _fitting_into_room(reduced[:-1][::-1], between[::-1])[::-1]
        most = int(between.sum())
        hidden[order[rows]] += fits if fits.sum() <= most else fits * most // fits.sum()
    whole = gathered_whole(facts)
    hidden[whole] -= np.rint(hidden[whole] * due_at_once(facts, whole)).astype(np.int64)
    for late_ones in unsplit(facts):
        rows = late_ones.reductions
        needed = covered_within(*rest, slices.start[collectives.item[rows]], slices.end[collectives.item[rows]])
        room = int(covered_within(*free, np.array([late_ones.begin]), np.array([late_ones.end]))[0])
        # Either the first bucket, which needs its part of the pass, or the last one goes along with nothing.
        most = int(min(int(needed.sum()), room) * (1 - late_ones.last))
        hidden[rows] = np.maximum(hidden[rows], needed * most // max(int(needed.sum()), 1))
    return hidden


def _fitting_into_room(needed: I64, room: I64) -> I64:
    """How much of each that is ``needed`` fits into the ``room`` up to it that nothing before it has taken; (n,)."""
    fitting, left = np.zeros(len(needed), np.int64), 0
    for at, (need, more) in enumerate(zip(needed.tolist(), room.tolist(), strict=True)):
        left += more
        fitting[at] = min(need, left)
        left -= int(fitting[at])
    return fitting


def exposed_of(facts: Facts, item: int) -> int:
    """How much of the collective ``item`` no computing hides, ns."""
    return length_of(common(facts.exposed, facts.span_of(np.array([item]))))


def data_sizes(facts: Facts) -> I64:
    """Bytes of the data of each collective; with many ranks each sends those of a sum twice; (n,)."""
    every = facts.collectives
    times = np.where(is_for(facts, "shards") | is_for(facts, "weights"), 1, 2)
    return np.where(every.size >= 0, every.size, every.moved.sums(len(every))[0] // times)


@once_per_device
def start_costs(facts: Facts) -> F64:
    """What each collective takes beside waiting for ranks and moving data, ns: the usual of its group and type; (n,).

    It moves data for as long as communication.json says of its transports, one after another, else its tasks. That file
    sums what planes do at the same time. 0 where neither says it.
    """
    every, cost = facts.collectives, np.zeros(len(facts.collectives))
    row_of, told, known = BySlice(every.item, np.arange(len(every))), np.zeros(len(every)), every.timings.transit > 0
    for transport in ("SDMA", "RDMA"):
        rows = [(each.item, each.time) for each in facts.inputs.transfers() if each.transport == transport]
        item, time = np.array(rows, np.int64).reshape(-1, 2).T
        row = row_of.of(item)
        planes = planes_moving(facts.trace, facts.inputs.planes(), every.item, transport)
        told += summed(row[row >= 0], time[row >= 0], len(every)) / np.maximum(planes, 1)
        known[row[row >= 0]] = True  # what takes less than the file can express is 0 there
    moving = np.maximum(every.timings.transit, told)
    beside = (every.elapsed - np.maximum(every.waited, 0) - moving).clip(0)
    kind = facts.trace.slices.lane[every.item].astype(np.int64) * (len(every.types) + 1) + every.type
    for equal in in_groups(np.where(known, kind, -1)):
        cost[equal] = float(np.median(beside[equal])) if known[equal[0]] else 0.0
    return cost


@once_per_device
def small_sums(facts: Facts) -> Bools:
    """Which sums kernels wait for one after another although they take longer to start than to move anything; (n,).

    They are no gradients, nor parts of a product: the statistics that SyncBatchNorm has in each layer, or norms.
    """
    every = facts.collectives
    reduces = np.array(["reduce" in name.lower() for name in every.types] + [False], np.bool_)[every.type]
    starts = start_costs(facts) > HALF * (every.elapsed - np.maximum(every.waited, 0))
    few: Bools = serial(facts) & is_for(facts, "other") & reduces & starts
    return few & (np.count_nonzero(few) >= CHAIN_FROM * facts.count)


def small(facts: Facts) -> tuple[Draft, ...]:
    """Reductions of gradients, and gathers of weights, that are so small that starting them costs."""
    drafts = many_small(facts), _too_small(facts, is_for(facts, "weights"), "pieces", "gather_more")
    return tuple(draft for draft in drafts if draft is not None)


@once_per_device
def many_small(facts: Facts) -> Draft | None:
    """Gradient reductions in so many buckets that starting them costs; larger buckets start less often."""
    return _too_small(facts, is_for(facts, "gradients") | is_for(facts, "shards"), "buckets", "merge_buckets")


def _too_small(facts: Facts, chosen: Bools, subject: str, advice: str) -> Draft | None:
    """What starting so many of the ``chosen`` collectives costs beside that of as few as ``BUCKET`` needs."""
    trace, slices = facts.trace, facts.trace.slices
    every, items, start, size = facts.collectives, facts.collectives.item, start_costs(facts), data_sizes(facts)
    rows = np.flatnonzero(chosen & (size > 0))
    if not len(rows):
        return None
    size, start = size[rows], start[rows]
    buckets = facts.count * np.ceil(size.sum() / facts.count / BUCKET)
    if buckets >= len(rows):
        return None
    less, spared = 1 - buckets / len(rows), np.zeros(len(every), np.int64)
    spared[rows] = np.rint(start * less)
    change = Change(tasks=shortened_collectives(facts, spared))
    calls = operation_of(trace, items[rows])
    calls = calls[calls >= 0]
    change |= facts.without_operations(calls, 1 - less)
    begin = slices.start[items[rows]]
    removes = common(facts.exposed, union(begin, begin + spared[rows]))
    share = facts.share(cost_of(facts, change, removes))
    if share < facts.limits[SEVERITY_MEDIUM]:
        return None
    words = {
        "count": len(rows) / facts.count, "buckets": buckets / facts.count, "unit": facts.unit,
        "start": float(np.median(start)), "size": float(np.median(size)),
        "time": int(spared.sum()) / facts.count,
    }  # fmt: skip
    return Draft(
        severity_of(facts.limits, share),
        *about(subject, **words),
        facts.longest(items[rows], lambda item: message("finding.buckets.place")),
        advise(advice),
        removes=removes,
        change=change,
    )


LONG_OP_FACTOR = Threshold("long_op_factor", 2.0)


def long_op(facts: Facts) -> Draft | None:
    """Collectives that move their data far more slowly than their equals once all ranks are there."""
    every = facts.collectives
    own, (size, _) = np.where(every.has_arrivals, every.elapsed - every.waited, 0), every.moved.sums(len(every))
    kind = facts.trace.slices.lane[every.item].astype(np.int64) * (len(every.types) + 1) + every.type
    usual = own.copy()
    for equal in in_groups(kind * (len(_CLASSES) + 1) + np.searchsorted(_CLASSES, size, "right")):
        usual[equal] = int(np.median(own[equal]))
    longer = np.where(own > facts.limits[LONG_OP_FACTOR] * usual, own - usual, 0)
    slow = np.flatnonzero(longer)
    if not len(slow):
        return None
    begin = facts.trace.slices.start[every.item] + every.waited
    removes = common(union(begin[slow], (begin + longer)[slow]), facts.exposed)
    change = Change(tasks=shortened_collectives(facts, longer))
    share = facts.share(cost_of(facts, change, removes))
    if share < facts.limits[SEVERITY_MEDIUM]:
        return None
    slow = slow[np.argsort(-longer[slow], kind="stable")]
    (worst,) = every.at(slow[:1])
    words = {"name": facts.name_of(worst.item, 40), "count": len(slow), "speed": _speed(worst)}
    words |= {"time": int(own[slow[0]]), "usual": int(usual[slow[0]]), "where": ""}
    if len(slow) == 1 and len(facts.steps) > 1 and facts.whole_steps:
        at = np.searchsorted(facts.repetitions, facts.trace.slices.start[worst.item], "right") - 1
        words["where"] = message("finding.long.step", step=facts.steps[max(int(at), 0)].number)
    return Draft(
        severity_of(facts.limits, share),
        message("finding.long.title", **words),
        message("finding.long.detail", **words),
        tuple(
            facts.place(int(every.item[at]), message("finding.long.place", time=int(own[at])))
            for at in slow[:10].tolist()
        ),
        removes=removes,
        change=change,
    )


def _speed(collective: Collective) -> Said:
    traffic = collective.traffic or []
    time = sum(link.transfer for link in traffic)
    return message("finding.speed", speed=sum(link.size for link in traffic) / time) if time else ""


_EVERYWHERE = (
    "late_first", "slow_then", "overlap", "accumulate", "shard_overlap", "sequence_parallel",
    "prefetch_weights", "gather_less", "gather_in_parts", "exchange_beside", "expert_placement", "micro_batches",
    "asynchronous",
)  # fmt: skip
"""What to do about exposed communication on an NPU and on a GPU."""

RULES: tuple[Rule, ...] = (
    Rule(
        "COMM.EXPOSED",
        cls="communication",
        inputs=("device", "overlap"),
        check=exposed,
        thresholds=(EXPOSED_SHARE, SEVERITY_MEDIUM, SEVERITY_HIGH),
        advice=(*_EVERYWHERE, "mc2"),
        gpu=(*_EVERYWHERE, "record_ranks"),
        pages=(pages.DDP, pages.ANALYZE),
        change="""\
-model = DistributedDataParallel(model)
+model = DistributedDataParallel(model, bucket_cap_mb=10, gradient_as_bucket_view=True)
""",
        sources=("MindStudio Insight walk-through 1-36, 1-58",),
        replayed=True,
        words=("exposed", "overlap"),
    ),
    Rule(
        "COMM.SMALL",
        cls="communication",
        inputs=("device", "overlap"),
        check=small,
        thresholds=(SEVERITY_MEDIUM, SEVERITY_HIGH),
        advice=("merge_buckets", "gather_more"),
        gpu=("merge_buckets", "gather_more"),
        pages=(pages.DDP,),
        change="""\
-model = DistributedDataParallel(model, bucket_cap_mb=1)
+model = DistributedDataParallel(model, bucket_cap_mb=25)
""",
        sources=("msprof-analyze advisor: packet",),
        reach="cause",
        replayed=True,
    ),
    Rule(
        "COMM.LONGOP",
        cls="communication",
        inputs=("device", "overlap"),
        check=long_op,
        thresholds=(LONG_OP_FACTOR, SEVERITY_MEDIUM, SEVERITY_HIGH),
        advice=("slow_link", "slow_then"),
        pages=(pages.SLOW_RANK, pages.ANALYZE),
        sources=("MindStudio Insight walk-through 1-59",),
        reach="cause",
        replayed=True,
    ),
)
