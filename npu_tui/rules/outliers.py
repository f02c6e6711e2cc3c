"""Kernels slower than their equals: a few calls, those at a lower clock, those beside communication.

The trouble table of the operator tuning guide (0-29), and the frequency rule of msprof-analyze's advisor.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from statistics import median
from zlib import crc32

import numpy as np
from msgspec import Struct

from npu_tui.analysis.kernels import BACKWARD
from npu_tui.analysis.launches import operation_of
from npu_tui.analysis.limits import A_PART, EVEN, FEWEST_EQUALS, SOME, Threshold
from npu_tui.analysis.replay import Change, TaskCut
from npu_tui.load.errors import InputError
from npu_tui.native.spans import count_until
from npu_tui.rules import pages
from npu_tui.rules.blame import SYNC_SHARE
from npu_tui.rules.cores import counted_clock, reading
from npu_tui.rules.facts import Facts, once_per_device
from npu_tui.rules.inputs import Span
from npu_tui.rules.kernels import cheaper_kernels
from npu_tui.rules.rule import (
    GRADES,
    LISTED,
    SEVERITY_MEDIUM,
    Draft,
    Rule,
    Skipped,
    about,
    advise,
    sentences,
    severity_of,
)
from npu_tui.trace.arrays import F64, I64, BySlice, distinct
from npu_tui.trace.intervals import covered_within, union
from npu_tui.trace.message import message
from npu_tui.trace.model import CORE_CLOCK

# How far an outlier lies above the ninth decile of the others: sizes that differ do not leave such a gap. It takes so
# many times as much longer as the kernels beside it as well.
_GAP_FACTOR = 2.0
_NEIGHBOURS = 8  # how many kernels before and after are looked at to see whether all of them take longer there

_MOST_READ = 20_000  # kernels for which the shapes of operations are read from the trace
OUTLIER_FACTOR = Threshold("outlier_factor", 3.0)


def outliers(facts: Facts) -> Draft | Skipped | None:
    """Calls of a kernel that take several times as long as the other calls of the same kernel."""
    limits, slices = facts.limits, facts.trace.slices
    equals = _equal_kernels(facts)
    if equals is None:
        names = slices.name[facts.kernels].astype(np.int64)
        several = _compared(facts, names, limits[OUTLIER_FACTOR], FEWEST_EQUALS)[1]
        return Skipped(message("finding.needs.equal_calls")) if several else None
    names, by_shapes = equals
    ratio, groups = _compared(facts, names, limits[OUTLIER_FACTOR], FEWEST_EQUALS)
    rows: list[tuple[int, I64, float]] = []
    for group in groups:
        items = facts.kernels[group]
        length = facts.length(items).astype(np.float64)
        median = float(np.median(length))
        slow = length > limits[OUTLIER_FACTOR] * median
        slow &= length > _GAP_FACTOR * float(np.percentile(length[~slow], 90))
        # Where all kernels take longer the work is larger: another batch, a longer sequence, the first token.
        chosen = np.flatnonzero(slow)
        slow[chosen] = ratio[group[chosen]] > _GAP_FACTOR * _median_beside(ratio, names, group[chosen])
        if not slow.any():
            continue
        rows.append((int((length[slow] - median).sum()), items[slow], median))
    if not rows:
        return None
    rows.sort(key=lambda row: -row[0])
    excess = sum(lost for lost, _, _ in rows)
    share = facts.share(excess)
    if share < limits[SYNC_SHARE]:
        return None
    items = np.concatenate([slow_items for _, slow_items, _ in rows])
    usual = np.repeat([median for *_, median in rows], [len(slow_items) for _, slow_items, _ in rows])
    usual_of = dict(zip(items.tolist(), usual.tolist(), strict=True))
    keep = zip(items, (usual / facts.length(items)).tolist(), strict=True)
    kernels = [
        message(
            "finding.outlier.kernel",
            name=facts.name_of(int(slow_items[0]), 60), count=len(slow_items),
            longest=int(facts.length(slow_items).max()), median=median,
        )
        for _, slow_items, median in rows[:LISTED]
    ]  # fmt: skip
    return Draft(
        severity_of(facts.limits, share),
        message("finding.outlier.title", name=facts.name_of(int(rows[0][1][0]), 60), each=facts.per_unit(excess)),
        message("finding.outlier.detail", kernels=kernels)
        if by_shapes
        else message("finding.outlier.detail_place", kernels=kernels, unit=facts.unit),
        facts.longest(items, lambda item: message("finding.outlier.place", median=usual_of[item])),
        removes=union(slices.start[items] + usual.astype(np.int64), slices.end[items]),
        change=Change(tasks=tuple(TaskCut(np.array([item]), share) for item, share in keep)),
        confidence="medium",
    )


class Slowed(Struct, frozen=True):
    """Kernels ``items`` that take longer somewhere than equal ones elsewhere, by ``excess`` ns, and what undoes it.

    ``known`` is their time for which there are equal ones at all, ns.
    """

    items: I64
    excess: int
    known: int
    cuts: tuple[TaskCut, ...]


@once_per_device
def _equal_kernels(facts: Facts) -> tuple[I64, bool] | None:
    """A number for every kernel of ``facts``, the same for kernels that do equal work; whether shapes show that.

    Equal are kernels of one name and shape, by kernel_details.csv or by the operation that launched them. Without
    shapes those are compared that have the same place in steps, or in what repeats, of the same kernels: a head at the
    end of each token is no slow call of the layers before it. None where that is unknown.
    """
    names, table = facts.trace.slices.name[facts.kernels].astype(np.int64), facts.kernel_table
    shapes, places = table.shapes.code, None
    if len(table) != len(names) or not table.shapes.is_known:
        shapes, places = _launched_shapes(facts, facts.kernels, _code_of), _places_in_repetition(facts, names)
    known = shapes >= 0
    if places is None and not known.any():
        return None
    equal = -1 - np.arange(len(names)) if places is None else places
    # Numbers of shapes lie beyond all places.
    equal[known] = int(equal.max(initial=0)) + 1 + distinct(names[known] * (1 << 32) + shapes[known])[1]
    return equal, bool(known.any())


def slowed(facts: Facts, level: I64) -> Slowed:
    """The kernels at each ``level`` above 0 beside equal ones at level 0; (n,).

    How much longer they take is estimated for each name and level, as single kernels differ by chance.
    """
    length, equals = facts.length(facts.kernels).astype(np.float64), _equal_kernels(facts)
    if equals is None:
        return Slowed(facts.kernels[:0], 0, 0, ())
    group = distinct(equals[0])[1]
    usual = np.full(int(group.max(initial=-1)) + 1, np.nan)
    order = np.flatnonzero(level == 0)
    order = order[np.lexsort((length[order], group[order]))]
    value, first, count = np.unique(group[order], return_index=True, return_counts=True)
    middle = (length[order[first + (count - 1) // 2]] + length[order[first + count // 2]]) / 2
    usual[value] = np.where(count >= SOME, middle, np.nan)
    known = np.flatnonzero((level > 0) & np.isfinite(usual[group]))
    names = facts.trace.slices.name[facts.kernels[known]].astype(np.int64)
    kind = distinct(names * (int(level.max(initial=0)) + 1) + level[known])[1]
    took, alone = (np.bincount(kind, column[known]) for column in (length, usual[group]))
    longer = took > (1 + EVEN) * alone
    cuts = tuple(
        TaskCut(facts.kernels[known[kind == number]], float(alone[number] / took[number]))
        for number in np.flatnonzero(longer).tolist()
    )
    slow = longer[kind]
    return Slowed(facts.kernels[known[slow]], round((took - alone)[longer].sum()), round(took.sum()), cuts)


FREQUENCY_DROP = Threshold("frequency_drop", 0.05)


def frequency(facts: Facts) -> Draft | None:
    """The AI cores run below their full clock while they compute.

    Full is the highest clock that is recorded, or the one by which the profiler counts cycles. What waits for memory
    does not follow the clock.
    """
    kernels = facts.kernels
    length, ends = facts.length(kernels), facts.trace.slices.end[kernels]
    keep = np.ones(len(kernels))
    counted, told, top = counted_clock(facts), 0.0, 0.0
    for highest, clock in facts.trace.counters.at(CORE_CLOCK, ends):
        full = highest
        if counted is not None and counted > (1 + EVEN) * highest:
            full = told = counted
        keep, top = np.minimum(keep, clock / full), max(top, full)
    drop = float(((1 - keep) * length).sum() / max(length.sum(), 1))
    table = facts.kernel_table
    lost = (1 - keep) * length * ~np.isin(kernels, table.item[reading(facts) & (table.item >= 0)])
    if drop < facts.limits[FREQUENCY_DROP]:
        return None
    clocks, level = np.unique(keep, return_inverse=True)
    slow = slowed(facts, np.where(keep < 1, level + 1, 0))
    items, known = kernels[keep < 1], 2 * slow.known >= int(length[keep < 1].sum())
    excess = slow.excess if known else round(lost.sum())
    follows = lost > 0
    cuts = (
        slow.cuts
        if known
        else tuple(TaskCut(kernels[follows & (keep == clock)], clock) for clock in clocks[clocks < 1].tolist())
    )
    words = {"drop": drop, "count": len(items), "all": len(kernels), "time": excess}
    words |= {"full": round(top), "mhz": round((1 - drop) * top)}
    share = facts.share(excess)
    return Draft(
        severity_of(facts.limits, share) if share >= facts.limits[SYNC_SHARE] else "info",
        message("finding.frequency.title", **words),
        sentences(
            message("finding.frequency.detail", **words),
            message("finding.frequency.counted", clock=round(told)) if told else "",
            message(f"finding.frequency.{'equals' if known else 'bound'}", **words),
        ),
        facts.longest(items, lambda item: message("finding.frequency.place"), 5),
        removes=shortened_ends(facts, cuts),
        change=Change(tasks=cuts),
        confidence="high" if known else "medium" if told else "low",
        anywhere=True,
    )


def shortened_ends(facts: Facts, cuts: Sequence[TaskCut]) -> Span:
    """The last part of every kernel that ``cuts`` take away."""
    items = np.concatenate([cut.items for cut in cuts] or [np.zeros(0, np.int64)])
    share = np.repeat([1 - cut.keep for cut in cuts], [len(cut.items) for cut in cuts])
    end = facts.trace.slices.end[items]
    return union(end - (share * facts.length(items)).astype(np.int64), end)


def beside(facts: Facts) -> Draft | None:
    """Kernels that take longer while a collective runs on another stream than equal ones without."""
    slices, kernels = facts.trace.slices, facts.kernels
    along = covered_within(*facts.span_of(facts.collectives.item), slices.start[kernels], slices.end[kernels])
    slow = slowed(facts, (along > 0).astype(np.int64))
    share = facts.share(slow.excess)
    if not len(slow.items) or share < facts.limits[SEVERITY_MEDIUM]:
        return None
    took = int(facts.length(slow.items).sum())
    words = {"count": len(slow.items), "time": slow.excess, "more": slow.excess / (took - slow.excess)}
    return Draft(
        severity_of(facts.limits, share),
        *about("beside", each=facts.per_unit(slow.excess), **words),
        facts.longest(slow.items, lambda item: message("finding.beside.place")),
        removes=shortened_ends(facts, slow.cuts),
        change=Change(tasks=slow.cuts),
        confidence="medium",
    )


def first_shapes(facts: Facts, kernels: I64) -> I64:
    """A number for the shape of the first tensor that each of ``kernels`` reads, -1 where it is unknown; (n,)."""
    table = facts.kernel_table
    if len(table) != len(facts.kernels) or not (table.shapes.code >= 0).any():
        return _launched_shapes(facts, kernels, lambda shapes: _code_of(re.split(r";|\], ?\[", shapes)[0].strip("[]")))
    firsts = np.array([*(_code_of(shapes.split(";")[0]) for shapes in table.shapes.values), -1], np.int64)
    return firsts[table.shapes.code[BySlice(facts.kernels, np.arange(len(facts.kernels))).of(kernels)]]


def _launched_shapes(facts: Facts, kernels: I64, number: Callable[[str], int]) -> I64:
    """``number`` of the shapes of the operation that launched each of ``kernels``, -1 where it has none; (n,).

    An operation such as ``aclnnAddmm`` has those of ``aten::linear`` around it.
    """
    code = np.full(len(kernels), -1, np.int64)
    hosts, operation = facts.inputs.hosts(), operation_of(facts.trace, kernels)
    if not len(hosts.item) or not 0 < len(kernels) <= _MOST_READ:
        return code
    at = np.minimum(np.searchsorted(hosts.item, operation), len(hosts.item) - 1)
    at = np.where((operation >= 0) & (hosts.item[at] == operation), at, -1)
    while len(asked := np.unique(at[(at >= 0) & (code < 0)])):
        with suppress(InputError):  # the shapes are args of a trace that is gone
            (dims,) = facts.trace.args.many(facts.trace.slices.event[hosts.item[asked]], ("Input Dims",))
            # Kineto has lists in place of texts.
            shapes = np.array([number(str(shape)) if shape else -1 for shape in dims] + [-1], np.int64)
            shape = shapes[np.minimum(np.searchsorted(asked, at), len(asked) - 1)]
            code = np.where((code < 0) & (at >= 0), shape, code)
        at = np.where(at >= 0, hosts.parent[at], -1)
    return code


def _code_of(shapes: str) -> int:
    """A number from 0 on for a text, the same wherever that is read."""
    return crc32(shapes.encode())


def _places_in_repetition(facts: Facts, names: I64) -> I64 | None:
    """A number for the place of each kernel in its repetition and for the kernels of that; None where nothing repeats.

    ``names`` are the names of all kernels; (n,).
    """
    starts = facts.repetitions
    if len(starts) < FEWEST_EQUALS:
        return None
    position = np.arange(len(names))
    repetition = count_until(starts, facts.trace.slices.start[facts.kernels])
    first = np.append(True, np.diff(repetition) > 0)
    place = position - np.maximum.accumulate(np.where(first, position, 0))
    # Repetitions of the same kernels in the same order have the same sum of products.
    sums = np.zeros(len(starts) + 1, np.uint64)
    factor = np.random.default_rng(0).integers(1 << 63, size=int(place.max(initial=0)) + 1, dtype=np.uint64)
    np.add.at(sums, repetition, factor[place] * (names + 1).astype(np.uint64))
    if facts.has_engine_steps:  # the kernels of a prefill compute more than those of a decode
        works = [f"{step.engine.kind} {step.engine.bucket}" if step.engine else "" for step in facts.steps]
        sums[1:] += np.array([*map(_code_of, works)], np.uint64)
    kind = np.unique(sums, return_inverse=True)[1]
    return np.asarray(kind[repetition] * (int(place.max(initial=0)) + 1) + place, np.int64)


def _compared(facts: Facts, names: I64, factor: float, fewest: int) -> tuple[F64, list[I64]]:
    """How long each kernel takes as a multiple of the median of its equals, (n,), and the groups with a few slow ones.

    A group holds the positions of ``fewest`` equal kernels or more; few of them take longer than ``factor`` times the
    median.
    """
    length = facts.length(facts.kernels)
    _, code = distinct(names)
    counts = np.bincount(code)
    beyond = int(length.max(initial=0)) + 1
    if length.min(initial=0) >= 0 and beyond * len(counts) < 2**62:
        ordered = np.sort(code * beyond + length) % beyond  # of one code after the other
    else:
        ordered = length[np.lexsort((length, code))]
    first = np.cumsum(counts) - counts
    lower = ordered[first + (counts - 1) // 2]
    median = (lower + ordered[first + counts // 2]) / 2
    slow = np.bincount(code[length > factor * median[code]], minlength=len(counts))
    comparable = (counts >= fewest) & (slow > 0) & (slow <= np.maximum(A_PART * counts, 1))
    members = np.flatnonzero(comparable[code])
    members = members[np.argsort(code[members], kind="stable")]
    ratio: F64 = length / np.maximum(lower, 1.0)[code]
    return ratio, np.split(members, np.flatnonzero(np.diff(code[members])) + 1) if len(members) else []


def _median_beside(ratio: F64, names: I64, chosen: I64) -> F64:
    """The median of ``ratio`` over the kernels before or after each of ``chosen``, whichever is more.

    Its equals are left out; 1 without other kernels.
    """
    around = np.ones(len(chosen))
    steps = np.arange(1, _NEIGHBOURS + 1)
    for side in (-steps, steps):
        beside = chosen[:, None] + side
        inside = (beside >= 0) & (beside < len(ratio))
        beside = np.clip(beside, 0, len(ratio) - 1)
        inside &= names[beside] != names[chosen][:, None]
        values = np.where(inside, ratio[beside], np.nan)
        values[~inside.any(axis=1)] = 1.0
        around = np.maximum(around, np.nanmedian(values, axis=1))
    return around


_DETERMINISTIC = ("HCCL_DETERMINISTIC", "ASCEND_DETERMINISTIC")


def deterministic(facts: Facts) -> Draft | None:
    """Passes backward of attention that take longer than their work at the pace of the same pass forward.

    Where computing is set to be deterministic, as they add up in one order then.
    """
    recorded, table = facts.inputs.setup.environment or {}, facts.kernel_table
    settings = [name for name in _DETERMINISTIC if recorded.get(name, "").lower() in ("1", "true", "strict")]
    grads = np.flatnonzero(table.type.where(lambda kind: "attention" in kind.lower() and "grad" in kind.lower()))
    if not settings or not len(grads):
        return None
    query = {text: text.split(";")[0].strip('" ') for text in table.shapes.values}

    def alike(row: int, kind: str) -> str:
        return f"{kind} {query.get(table.shapes.at(row) or '')}"

    forward: dict[str, list[int]] = defaultdict(list)
    for row in np.flatnonzero(table.type.where(lambda kind: "attention" in kind.lower())).tolist():
        forward[alike(row, table.type.at(row) or "")].append(int(table.duration[row]))
    expected = table.duration[grads].astype(np.float64)
    for number, row in enumerate(grads.tolist()):
        same = forward.get(alike(row, (table.type.at(row) or "").replace("Grad", "")))
        if same:
            expected[number] = min(expected[number], BACKWARD * median(same))
    slower = expected < (1 - EVEN) * table.duration[grads]
    note = message("finding.determined.place")
    return cheaper_kernels(
        facts, grads[slower], expected[slower], "determined.{}", lambda row: note, advise("undetermined"), "medium",
        settings=settings,
    )  # fmt: skip


RULES: tuple[Rule, ...] = (
    Rule(
        "OP.OUTLIER",
        cls="compute",
        check=outliers,
        thresholds=(OUTLIER_FACTOR, SYNC_SHARE, *GRADES),
        advice=("outlier_shape", "outlier_neighbour"),
        gpu=("outlier_shape", "outlier_neighbour"),
        pages=(pages.ADVISOR,),
        sources=("operator tuning guide 0-29",),
        reach="place",
    ),
    Rule(
        "KERNEL.DETERMINISTIC",
        cls="compute",
        inputs=("kernel_details", "metadata"),
        check=deterministic,
        thresholds=GRADES,
        advice=("undetermined",),
        pages=(pages.ADVISOR,),
        change="""\
-torch.use_deterministic_algorithms(True)
-export HCCL_DETERMINISTIC=true
""",
        sources=("PyTorch: torch.use_deterministic_algorithms",),
        reach="cause",
    ),
    Rule(
        "FREQ",
        cls="config",
        inputs=("device", "overlap", "frequency"),
        check=frequency,
        thresholds=(FREQUENCY_DROP, SYNC_SHARE, *GRADES),
        advice=("power",),
        pages=(pages.NPU_SMI,),
        sources=("20-step tuning checklist 2-29", "msprof-analyze advisor: AI core frequency"),
        reach="cause",
    ),
    Rule(
        "COMM.BESIDE",
        cls="communication",
        check=beside,
        thresholds=GRADES,
        advice=("contention", "fewer_at_once"),
        gpu=("contention", "fewer_at_once"),
        pages=(pages.ANALYZE,),
        sources=("msprof-analyze advisor: bandwidth contention", "20-step tuning checklist 2-26"),
        reach="cause",
        words=("overlap",),
    ),
)
