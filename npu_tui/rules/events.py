"""The finding about streams that wait for events of other streams while the device has nothing else to do.

The runtime part of the operator tuning guide (0-02): dependencies between streams, as in a captured graph.
"""

from __future__ import annotations

import numpy as np

from npu_tui.analysis.replay.change import Change
from npu_tui.analysis.replay.device import AWAIT, RECORD, DeviceTasks
from npu_tui.rules import pages
from npu_tui.rules.facts.facts import Facts
from npu_tui.rules.facts.spans import I64, Span, both, length_of, together, without
from npu_tui.rules.phrases import advise, sentences
from npu_tui.rules.rule import SEVERITY_HIGH, SEVERITY_MEDIUM, Draft, Rule, severity_of
from npu_tui.trace.intervals import touches, union
from npu_tui.trace.message import Message, message
from npu_tui.trace.text import brief

_AFTER_NS = 30_000
"""How long after an event the task that follows it starts at the latest."""
_MOST_NAMED = 3


def event_waits(facts: Facts) -> Draft | None:
    """Waits of streams for events, each ending in the task that ends the idle time."""
    tasks = facts.tasks
    if tasks is None:
        return None
    chosen = _holding(facts, tasks)
    if not len(chosen):
        return None
    low, high = tasks.start[chosen], tasks.end[chosen]
    idle = without(facts.free, together(facts.busy, facts.host_late))
    removes = both(idle, union(low, high))
    chosen = chosen[touches(*removes, low.astype(np.float64), high.astype(np.float64))]
    share = facts.share(length_of(removes))
    if not len(chosen) or share < facts.limits[SEVERITY_MEDIUM]:
        return None
    time = length_of(removes)
    fired = tasks.event[chosen]
    late = np.where(fired >= 0, tasks.item[np.maximum(fired, 0)], tasks.item[chosen])
    return Draft(
        severity_of(facts, share),
        message("finding.event.title", count=len(chosen), time=time, share=share),
        sentences(message("finding.event.detail", share=share, rows=_sources(facts, tasks, chosen, removes))),
        facts.longest(tasks.item[chosen], lambda item: _awaited(facts, tasks, item)),
        advise("event_order", "event_graph"),
        removes,
        change=Change(waits=frozenset(late.tolist())),
        confidence="medium",
    )


def _holding(facts: Facts, tasks: DeviceTasks) -> I64:
    """The waits in the window that the next task of their stream follows at once."""
    follows = np.flatnonzero(tasks.previous >= 0)
    wait = tasks.previous[follows]
    held = (tasks.kind[wait] == AWAIT) & (tasks.kind[follows] != AWAIT)
    held &= (tasks.start[follows] - tasks.end[wait] <= _AFTER_NS) & facts.window.holds(tasks.start[wait])
    found: I64 = np.unique(wait[held])
    return found


def _source(facts: Facts, tasks: DeviceTasks, task: int) -> Message:
    """What a wait waited for: the task before the record of its event, and the stream of both."""
    record = int(tasks.event[task])
    if record < 0:
        return message("finding.event.unknown")
    lane = facts.trace.lanes[int(facts.trace.slices.lane[tasks.item[record]])].name
    before = int(tasks.previous[record])
    if before < 0 or tasks.kind[before] in (AWAIT, RECORD):
        return message("finding.event.record", stream=brief(lane))
    return message(
        "finding.event.after", stream=brief(lane), name=brief(facts.trace.name_of(int(tasks.item[before])), 60)
    )


def _awaited(facts: Facts, tasks: DeviceTasks, item: int) -> Message:
    return _source(facts, tasks, int(np.flatnonzero(tasks.item == item)[0]))


def _sources(facts: Facts, tasks: DeviceTasks, chosen: I64, removes: Span) -> list[Message]:
    """What was waited for longest, with the time."""
    waited: dict[Message, int] = {}
    for task in chosen.tolist():
        own = (tasks.start[[task]], tasks.end[[task]])
        source = _source(facts, tasks, task)
        waited[source] = waited.get(source, 0) + length_of(both(removes, own))
    rows = sorted(waited.items(), key=lambda row: -row[1])[:_MOST_NAMED]
    return [message("finding.event.row", what=what, time=time) for what, time in rows]


RULES: tuple[Rule, ...] = (
    Rule(
        "DEVICE.EVENT",
        cls="dispatch",
        inputs=("device", "overlap"),
        check=event_waits,
        thresholds=(SEVERITY_MEDIUM, SEVERITY_HIGH),
        advice=("event_order", "event_graph"),
        pages=(pages.EVENTS, pages.GRAPHS),
        change="""\
-side.wait_stream(main)
-with torch.npu.stream(side):
-    y = light(x)
-main.wait_stream(side)
-z = heavy(x)
+side.wait_stream(main)
+with torch.npu.stream(side):
+    y = light(x)
+z = heavy(x)
+main.wait_stream(side)
""",
        sources=("operator tuning guide 0-02, 0-07",),
        reach="cause",
        replayed=True,
    ),
)
