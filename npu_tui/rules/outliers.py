"""Kernels far slower than their equals: the trouble table of the operator tuning guide (0-29)."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from zlib import crc32

import numpy as np

from npu_tui.analysis.launches import operation_of
from npu_tui.analysis.limits import A_PART, FEWEST_EQUALS
from npu_tui.analysis.replay import Change, TaskCut
from npu_tui.analysis.thresholds import Threshold
from npu_tui.load.errors import InputError
from npu_tui.native.spans import count_until
from npu_tui.rules import pages
from npu_tui.rules.blame import SYNC_SHARE
from npu_tui.rules.facts import Facts
from npu_tui.rules.rule import GRADES, LISTED, Draft, Rule, Skipped, severity_of
from npu_tui.trace.arrays import F64, I64, BySlice, distinct
from npu_tui.trace.intervals import union
from npu_tui.trace.message import message

_GAP_FACTOR = 2.0
"""How far an outlier lies above the ninth decile of the others: sizes that differ do not leave such a gap.

It takes so many times as much longer as the kernels beside it as well.
"""
_NEIGHBOURS = 8
"""How many kernels before and after are looked at to see whether all of them take longer there."""

_MOST_READ = 20_000
"""Kernels for which the shapes of operations are read from the trace."""
OUTLIER_FACTOR = Threshold("outlier_factor", 3.0)


def outliers(facts: Facts) -> Draft | Skipped | None:
    """Calls of a kernel that take several times as long as the other calls of the same kernel."""
    limits, slices = facts.limits, facts.trace.slices
    equals = _equals(facts)
    if equals is None:
        return Skipped(message("finding.needs.equal_calls"))
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
        slow[chosen] = ratio[group[chosen]] > _GAP_FACTOR * _around(ratio, names, group[chosen])
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
        message("finding.outlier.title", count=len(items), name=facts.name_of(int(rows[0][1][0]), 60), time=excess),
        message("finding.outlier.detail", kernels=kernels)
        if by_shapes
        else message("finding.outlier.detail_place", kernels=kernels, unit=facts.unit),
        facts.longest(items, lambda item: message("finding.outlier.place", median=usual_of[item])),
        removes=union(slices.start[items] + usual.astype(np.int64), slices.end[items]),
        change=Change(tasks=tuple(TaskCut(np.array([item]), share) for item, share in keep)),
        confidence="medium",
    )


def _equals(facts: Facts) -> tuple[I64, bool] | None:
    """A number for every kernel of ``facts``, the same for kernels that do equal work; whether shapes tell that.

    Equal are kernels of one name and shape, by kernel_details.csv or by the operation that launched them. Without
    shapes those are compared that have the same place in steps, or in what repeats, of the same kernels: a head at the
    end of each token is no slow call of the layers before it. None where nothing tells.
    """
    kernels, table = facts.kernels, facts.kernel_table
    names = facts.trace.slices.name[kernels].astype(np.int64)
    shapes = table.shapes.code if len(table) == len(names) else np.full(len(names), -1)
    unlike = -1 - np.arange(len(names))
    if (shapes >= 0).any():
        return np.where(shapes >= 0, names * (int(shapes.max()) + 1) + shapes, unlike), True
    groups = _compared(facts, names, facts.limits[OUTLIER_FACTOR], FEWEST_EQUALS)[1]
    if not groups:
        return names, True
    members = np.sort(np.concatenate(groups))
    shapes = _launched_shapes(facts, kernels[members], _code_of)
    known = shapes >= 0
    places = _places(facts, names)
    if places is None and not known.any():
        return None
    equal = names.copy()
    equal[members] = unlike[members] if places is None else places[members]
    # Numbers of shapes lie beyond all places.
    beyond = int(equal.max(initial=0)) + 1
    equal[members[known]] = beyond + distinct(names[members[known]] * (1 << 32) + shapes[known])[1]
    return equal, bool(known.any())


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


def _places(facts: Facts, names: I64) -> I64 | None:
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

    A group holds the positions of ``fewest`` equal kernels or more, of which few take longer than ``factor`` times the
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


def _around(ratio: F64, names: I64, chosen: I64) -> F64:
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
        totals=("outlier.title",),
    ),
)
