"""Kernels far slower than their equals: the trouble table of the operator tuning guide (0-29)."""

from __future__ import annotations

import numpy as np

from npu_tui.analysis.findings.facts.facts import Facts
from npu_tui.analysis.findings.facts.spans import I64
from npu_tui.analysis.findings.phrases import advise
from npu_tui.analysis.findings.rule import Draft, Rule, severity_of
from npu_tui.analysis.replay.change import Change, TaskCut
from npu_tui.trace.intervals import union
from npu_tui.trace.message import message
from npu_tui.trace.text import brief

_FEWEST_EQUALS = 8
_RARE = 0.1
"""Share of the calls above which slow ones are a habit of the operator, not outliers."""
_APART = 2.0
"""How far an outlier lies above the ninth decile of the others: sizes that differ do not leave such a gap."""


def outliers(facts: Facts) -> Draft | None:
    """Calls of a kernel that take several times as long as the other calls of the same kernel."""
    limits, slices = facts.limits, facts.trace.slices
    names = slices.name[facts.kernels]
    order = np.argsort(names, kind="stable")
    edges = np.flatnonzero(np.diff(names[order])) + 1
    rows: list[tuple[int, I64, float]] = []
    cuts: list[TaskCut] = []
    for own in np.split(order, edges):
        if len(own) < _FEWEST_EQUALS:
            continue
        items = facts.kernels[own]
        length = facts.length(items).astype(np.float64)
        median = float(np.median(length))
        slow = length > limits.outlier_factor * median
        count = int(slow.sum())
        if not count or count > max(_RARE * len(items), 1):
            continue
        usual = length[~slow]
        slow &= length > _APART * float(np.percentile(usual, 90))
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
    excess = sum(row[0] for row in rows)
    share = facts.share(excess)
    if share < limits.outlier_share:
        return None
    items = np.concatenate([row[1] for row in rows])
    usual_of = {item: row[2] for row in rows for item in row[1].tolist()}
    over = np.array([usual_of[item] for item in items.tolist()])
    worst = rows[0]
    return Draft(
        severity_of(facts, share),
        message("finding.outlier.title", count=len(items), name=_name(facts, worst[1]), time=excess),
        message(
            "finding.outlier.detail",
            kernels=[
                message(
                    "finding.outlier.kernel",
                    name=_name(facts, own),
                    count=len(own),
                    longest=int(facts.length(own).max()),
                    median=median,
                )
                for _, own, median in rows[:4]
            ],
        ),
        facts.longest(items, lambda item: message("finding.outlier.place", median=usual_of[item])),
        advise("outlier_shape", "outlier_neighbour"),
        union((slices.start[items] + over.astype(np.int64)), slices.end[items]),
        change=Change(tasks=tuple(cuts)),
        confidence="medium",
    )


def _name(facts: Facts, items: I64) -> str:
    return brief(facts.trace.name_of(int(items[0])), 60)


RULES = (
    Rule(
        "OP.OUTLIER",
        "compute",
        ("device", "overlap"),
        outliers,
        ("outlier_factor", "outlier_share", "severity_medium", "severity_high"),
        ("operator tuning guide 0-29",),
        reach="place",
    ),
)
