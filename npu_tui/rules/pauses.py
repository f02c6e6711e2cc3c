"""Findings about a device that idles while nobody works: streams that wait for events, servers for requests.

The runtime part of the operator tuning guide (0-02): dependencies between streams, as in a captured graph.
"""

from __future__ import annotations

import numpy as np

from npu_tui.analysis.limits import NAMED
from npu_tui.analysis.replay import Change
from npu_tui.analysis.replay_device import AWAIT, RECORD, DeviceTasks
from npu_tui.rules import pages
from npu_tui.rules.facts import Facts
from npu_tui.rules.inputs import Span, common, length_of, together, without
from npu_tui.rules.model import Evidence
from npu_tui.rules.rule import SEVERITY_HIGH, SEVERITY_MEDIUM, Draft, Rule, advise, sentences, severity_of
from npu_tui.trace.arrays import I64
from npu_tui.trace.intervals import touches, union
from npu_tui.trace.message import Message, message
from npu_tui.trace.text import brief

_FOLLOWS_WITHIN_NS = 30_000  # how long after an event the task that follows it starts at the latest


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
    removes = common(idle, union(low, high))
    chosen = chosen[touches(*removes, low.astype(np.float64), high.astype(np.float64))]
    share = facts.share(length_of(removes))
    if not len(chosen) or share < facts.limits[SEVERITY_MEDIUM]:
        return None
    fired = tasks.event[chosen]
    late = np.where(fired >= 0, tasks.item[np.maximum(fired, 0)], tasks.item[chosen])
    return Draft(
        severity_of(facts.limits, share),
        message("finding.event.title", each=facts.per_unit(length_of(removes)), share=share),
        sentences(message("finding.event.detail", share=share, rows=_sources(facts, tasks, chosen, removes))),
        facts.longest(tasks.item[chosen], lambda item: _awaited(facts, tasks, item)),
        removes=removes,
        change=Change(waits=frozenset(late.tolist())),
        confidence="medium",
    )


def _holding(facts: Facts, tasks: DeviceTasks) -> I64:
    """The waits in the window that the next task of their stream follows at once."""
    follows = np.flatnonzero(tasks.previous >= 0)
    wait = tasks.previous[follows]
    held = (tasks.kind[wait] == AWAIT) & (tasks.kind[follows] != AWAIT)
    held &= (tasks.start[follows] - tasks.end[wait] <= _FOLLOWS_WITHIN_NS) & facts.window.holds(tasks.start[wait])
    holding: I64 = np.unique(wait[held])
    return holding


def _source(facts: Facts, tasks: DeviceTasks, task: int) -> Message:
    """What a wait waited for: the task before the record of its event, and the stream of both."""
    record = int(tasks.event[task])
    if record < 0:
        return message("finding.event.unknown")
    lane = facts.trace.lanes[int(facts.trace.slices.lane[tasks.item[record]])].name
    before = int(tasks.previous[record])
    if before < 0 or tasks.kind[before] in (AWAIT, RECORD):
        return message("finding.event.record", stream=brief(lane))
    return message("finding.event.after", stream=brief(lane), name=facts.name_of(int(tasks.item[before]), 60))


def _awaited(facts: Facts, tasks: DeviceTasks, item: int) -> Message:
    return _source(facts, tasks, int(np.flatnonzero(tasks.item == item)[0]))


def _sources(facts: Facts, tasks: DeviceTasks, chosen: I64, removes: Span) -> list[Message]:
    """What was waited for longest, with the time."""
    waited: dict[Message, int] = {}
    for task in chosen.tolist():
        awaited = (tasks.start[[task]], tasks.end[[task]])
        source = _source(facts, tasks, task)
        waited[source] = waited.get(source, 0) + length_of(common(removes, awaited))
    rows = sorted(waited.items(), key=lambda row: -row[1])[:NAMED]
    return [message("finding.event.row", what=what, time=time) for what, time in rows]


def unasked(facts: Facts) -> Draft | None:
    """A server that waits for requests."""
    waits = facts.waits_for_requests
    time = length_of(without(facts.unasked, facts.profiling))
    if not time:
        return None
    share = time / (time + facts.total)
    items = np.array([item for *_, item in waits if item >= 0], np.int64)
    if not len(items):
        pauses = sorted(sorted(waits, key=lambda wait: wait[0] - wait[1])[:10])
        note = message("finding.unasked.between")
        return Draft(
            "info",
            message("finding.unasked.title_may", time=time, share=share),
            message("finding.unasked.detail_may", count=len(waits), time=time),
            tuple(Evidence(low + facts.floor, high + facts.floor, None, "", note) for low, high, _ in pauses),
            advise("serve_load", "pause_record"),
        )
    name = facts.name_of(int(items[np.argmax(facts.length(items))]), 60)
    return Draft(
        "info",
        message("finding.unasked.title", time=time, share=share),
        message("finding.unasked.detail", count=len(waits), time=time, name=name),
        facts.longest(items, lambda item: message("finding.unasked.place")),
    )


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
        words=("device_side", "event_wait"),
    ),
    Rule(
        "SERVE.IDLE",
        cls="dispatch",
        inputs=("device", "overlap", "links"),
        check=unasked,
        advice=("serve_load",),
        gpu=("serve_load",),
        pages=(pages.TUNING,),
        sources=("20-step tuning checklist 2-20",),
    ),
)
