"""Kernels far slower than their equals: the trouble table of the operator tuning guide (0-29)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_tui.analysis.replay import Change, TaskCut
from npu_tui.analysis.thresholds import Threshold
from npu_tui.rules import pages
from npu_tui.rules.facts import Facts
from npu_tui.rules.inputs import I64
from npu_tui.rules.rule import SEVERITY_HIGH, SEVERITY_MEDIUM, Draft, Rule, severity_of
from npu_tui.trace.arrays import distinct
from npu_tui.trace.intervals import union
from npu_tui.trace.message import message

F64 = npt.NDArray[np.float64]

_FEWEST_EQUALS = 8
_RARE_SHARE = 0.1
"""Share of the calls above which slow ones are a habit of the operator, not outliers."""
_GAP_FACTOR = 2.0
"""How far an outlier lies above the ninth decile of the others: sizes that differ do not leave such a gap."""
_NEIGHBOURS = 8
"""How many kernels before and after are looked at to see whether all of them take longer there."""
_SLOWER_THAN_NEIGHBOURS = 0.5
"""An outlier takes at least twice as much longer as the kernels beside it."""

OUTLIER_FACTOR = Threshold("outlier_factor", 3.0)
OUTLIER_SHARE = Threshold("outlier_share", 0.01)


def outliers(facts: Facts) -> Draft | None:
    """Calls of a kernel that take several times as long as the other calls of the same kernel."""
    limits, slices = facts.limits, facts.trace.slices
    names = _equals(facts)
    ratio, groups = _compared(facts, names, limits[OUTLIER_FACTOR])
    rows: list[tuple[int, I64, float]] = []
    cuts: list[TaskCut] = []
    for group in groups:
        items = facts.kernels[group]
        length = facts.length(items).astype(np.float64)
        median = float(np.median(length))
        slow = length > limits[OUTLIER_FACTOR] * median
        usual = length[~slow]
        slow &= length > _GAP_FACTOR * float(np.percentile(usual, 90))
        # Where all kernels take longer the work is larger: another batch, a longer sequence, the first token.
        chosen = np.flatnonzero(slow)
        slow[chosen] = _SLOWER_THAN_NEIGHBOURS * ratio[group[chosen]] > _around(ratio, names, group[chosen])
        if not slow.any():
            continue
        rows.append((int((length[slow] - median).sum()), items[slow], median))
        cuts += [
            TaskCut(np.array([item]), median / took)
            for item, took in zip(items[slow].tolist(), length[slow].tolist(), strict=True)
        ]
    if not rows:
        return None
    rows.sort(key=lambda row: -row[0])
    excess = sum(lost for lost, _, _ in rows)
    share = facts.share(excess)
    if share < limits[OUTLIER_SHARE]:
        return None
    items = np.concatenate([slow_items for _, slow_items, _ in rows])
    usual_of = {item: median for _, slow_items, median in rows for item in slow_items.tolist()}
    over = np.array([usual_of[item] for item in items.tolist()])
    kernels = [
        message(
            "finding.outlier.kernel",
            name=facts.name_of(int(slow_items[0]), 60), count=len(slow_items),
            longest=int(facts.length(slow_items).max()), median=median,
        )
        for _, slow_items, median in rows[:4]
    ]  # fmt: skip
    return Draft(
        severity_of(facts, share),
        message("finding.outlier.title", count=len(items), name=facts.name_of(int(rows[0][1][0]), 60), time=excess),
        message("finding.outlier.detail", kernels=kernels),
        facts.longest(items, lambda item: message("finding.outlier.place", median=usual_of[item])),
        removes=union((slices.start[items] + over.astype(np.int64)), slices.end[items]),
        change=Change(tasks=tuple(cuts)),
        confidence="medium",
    )


def _equals(facts: Facts) -> I64:
    """A number for every kernel of ``facts``, equal for kernels of one name and, where they are known, one shape."""
    names = facts.trace.slices.name[facts.kernels].astype(np.int64)
    table = facts.kernel_table
    shapes = table.shapes.code if len(table) == len(names) else np.zeros(len(names), np.int64)
    return names * (int(shapes.max(initial=0)) + 2) + shapes + 1


def _compared(facts: Facts, names: I64, factor: float) -> tuple[F64, list[I64]]:
    """How long each kernel takes as a multiple of the median of its equals, (n,), and the groups with a few slow ones.

    A group holds the positions of kernels that are equal, of which few take longer than ``factor`` times the median.
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
    comparable = (counts >= _FEWEST_EQUALS) & (slow > 0) & (slow <= np.maximum(_RARE_SHARE * counts, 1))
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
        inputs=("device", "overlap"),
        check=outliers,
        thresholds=(OUTLIER_FACTOR, OUTLIER_SHARE, SEVERITY_MEDIUM, SEVERITY_HIGH),
        advice=("outlier_shape", "outlier_neighbour"),
        pages=(pages.ADVISOR,),
        sources=("operator tuning guide 0-29",),
        reach="place",
    ),
)
