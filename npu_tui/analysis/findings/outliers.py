"""Findings about what stands out: kernels far slower than their equals, pauses of the host without a record.

Rules F13 and F18 of the collected diagnosis rules: the trouble table of the operator tuning guide (0-29).
"""

from __future__ import annotations

import numpy as np

from npu_tui.analysis.findings.dispatch import severity_of
from npu_tui.analysis.findings.facts import I64, Facts, Span, largest, length_of
from npu_tui.analysis.findings.model import Evidence
from npu_tui.analysis.findings.phrases import advise
from npu_tui.analysis.findings.rule import Draft, Rule
from npu_tui.analysis.replay.change import Change, TaskCut
from npu_tui.trace.intervals import union
from npu_tui.trace.message import message
from npu_tui.trace.text import brief

_FEWEST_EQUALS = 8
_RARE = 0.1
"""Share of the calls above which slow ones are a habit of the operator, not outliers."""
_APART = 2.0
"""How far an outlier lies above the ninth decile of the others: sizes that differ do not leave such a gap."""
_MOST_PAUSES = 5
_AS_LONG = 3


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


def pauses(facts: Facts) -> Draft | None:
    """Few long times in which the host launched nothing and recorded nothing: no matter of a slow host."""
    limits = facts.limits
    late = facts.host_late
    total = length_of(late)
    if not total:
        return None
    found = [
        (start, end)
        for start, end in largest(late, _MOST_PAUSES)
        if end - start >= limits.pause_ms * 1e6 and _silent(facts, start, end)
    ]
    if not found:
        return None
    removes: Span = (
        np.array([start for start, _ in found], np.int64),
        np.array([end for _, end in found], np.int64),
    )
    time = length_of(removes)
    share = facts.share(time)
    if time < limits.pause_share * total or share < limits.severity_medium:
        return None
    return Draft(
        severity_of(facts, share),
        message("finding.pause.title", count=len(found), time=time),
        message("finding.pause.detail", count=len(found), share=time / total),
        tuple(
            Evidence(start, end, None, "Free", message("finding.pause.place", time=end - start)) for start, end in found
        ),
        advise("pause_look", "pause_record"),
        removes,
        confidence="medium",
        verdict=message("finding.pause.verdict", count=len(found), time=time),
    )


def _silent(facts: Facts, start: int, end: int) -> bool:
    """Whether the host records nothing in the middle of ``[start, end)`` of the device's time.

    A call, an operation or a collection that lasts about as long is what takes the time; a frame of Python or a part
    of the program around it says nothing.
    """
    low, high = start - facts.floor, end - facts.floor
    length, margin = high - low, (high - low) // 20
    begins, lasts = facts.host_calls
    at = np.searchsorted(begins, (low - _AS_LONG * length, low + margin, high - margin)).tolist()
    if at[1] != at[2]:
        return False
    begins, lasts = begins[at[0] : at[1]], lasts[at[0] : at[1]]
    return not bool(((begins + lasts > low + length // 2) & (lasts < _AS_LONG * length)).any())


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
    Rule(
        "HOST.PAUSE",
        "dispatch",
        ("device", "overlap", "links"),
        pauses,
        ("pause_ms", "pause_share", "severity_medium", "severity_high"),
        ("MindStudio Insight walk-through 1-51", "operator tuning guide 0-07"),
        reach="cause",
    ),
)
