"""The finding about pauses of the host in which nothing is recorded."""

from __future__ import annotations

import numpy as np

from npu_tui.analysis.findings.facts.facts import Facts
from npu_tui.analysis.findings.facts.spans import Span, largest, length_of
from npu_tui.analysis.findings.model import Evidence
from npu_tui.analysis.findings.phrases import advise
from npu_tui.analysis.findings.rule import Draft, Rule, severity_of
from npu_tui.trace.message import message

_MOST_PAUSES = 5
_AS_LONG = 3


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
        "HOST.PAUSE",
        "dispatch",
        ("device", "overlap", "links"),
        pauses,
        ("pause_ms", "pause_share", "severity_medium", "severity_high"),
        ("MindStudio Insight walk-through 1-51", "operator tuning guide 0-07"),
        reach="cause",
    ),
)
