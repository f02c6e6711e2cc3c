"""Findings about a device that idles while nobody works: streams that wait for events, pauses of the host.

The runtime part of the operator tuning guide (0-02): dependencies between streams, as in a captured graph.
"""

from __future__ import annotations

import numpy as np

from npu_tui.analysis.host_work import launch_times
from npu_tui.analysis.replay import Change
from npu_tui.analysis.replay_device import AWAIT, RECORD, DeviceTasks
from npu_tui.analysis.thresholds import Threshold
from npu_tui.rules import pages
from npu_tui.rules.blame import (
    STEP_START_SHARE,
    before_first_kernels,
    before_late_copies,
    start_share,
    waited_copies,
    without_all,
)
from npu_tui.rules.facts import Facts, once_per_device
from npu_tui.rules.inputs import NOTHING, Span, both, largest, length_of, together, without
from npu_tui.rules.model import Evidence
from npu_tui.rules.rule import SEVERITY_HIGH, SEVERITY_MEDIUM, Draft, Rule, advise, sentences, severity_of
from npu_tui.trace.arrays import I64
from npu_tui.trace.intervals import touches, union
from npu_tui.trace.message import Message, message
from npu_tui.trace.text import brief

_FOLLOWS_WITHIN_NS = 30_000
"""How long after an event the task that follows it starts at the latest."""
_MOST_NAMED = 3
_MOST_PAUSES = 5
_MOST_A_STEP = 3
_MOST_SHOWN = 10
_REMAINDER = 0.25
"""What is left of a pause that the device was busy for in part counts as well."""
_FAR_LONGER = 3
_COMPARABLE = 0.5
"""A pause before the first kernel that is half as long as the others is one of them."""
_MOST_SILENT = 50
_MOSTLY_SILENT = 0.5
"""Times of silence between copies, and their share, from which the copies and they are one pause."""
_MOSTLY_AT_STARTS = 0.5
"""Pauses that lie before first kernels for half of their time or more are matters of the start of the step."""


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
        severity_of(facts.limits, share),
        message("finding.event.title", count=len(chosen), time=time, share=share),
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
        waited[source] = waited.get(source, 0) + length_of(both(removes, awaited))
    rows = sorted(waited.items(), key=lambda row: -row[1])[:_MOST_NAMED]
    return [message("finding.event.row", what=what, time=time) for what, time in rows]


PAUSE_MS = Threshold("pause_ms", 5.0)
PAUSE_SHARE = Threshold("pause_share", 0.5)


@once_per_device
def pauses(facts: Facts) -> Draft | None:
    """A few long times in which the host launched nothing and recorded nothing: the host is not slow, it pauses."""
    limits = facts.limits
    late = together(facts.host_late, before_late_copies(facts), at_the_end(facts))
    copying = _copying(facts, late)
    late = together(late, copying)
    total = length_of(late)
    if not total:
        return None
    # A slow host makes many short pauses. Long ones count however many there are, of shorter ones the few longest.
    least = limits[PAUSE_MS] * 1e6
    most = max(_MOST_PAUSES, _MOST_A_STEP * facts.count, int(np.count_nonzero(late[1] - late[0] >= least)))
    long = [span for span in largest(late, most) if span[1] - span[0] >= _REMAINDER * least]
    silent = [span for span in long if span[1] in copying[1] or _silent(facts, *span)]
    # What a call takes as long as a pause has a finding of its own.
    told = sum(end - start for start, end in set(long) - set(silent) if end - start >= least)
    if max((end - start for start, end in silent), default=0) < least:
        return None
    silent += _first_of_them(facts, silent)
    start, end = np.array(silent, np.int64).T
    removes = start, end
    time = length_of(removes)
    share = facts.share(time)
    if time < limits[PAUSE_SHARE] * (total - told) or share < limits[SEVERITY_MEDIUM]:
        return None
    starts = before_first_kernels(facts)
    # STEP.START is about the starts of steps.
    at_starts = length_of(both(removes, starts)) >= _MOSTLY_AT_STARTS * time
    if at_starts and start_share(facts, starts) >= limits[STEP_START_SHARE]:
        return None
    longest = sorted(sorted(silent, key=lambda row: row[0] - row[1])[:_MOST_SHOWN])
    frames = _frames(facts, longest)
    named = next((frame for frame in frames if frame), "")
    copied = both(removes, copying)
    form, words = ("_in", {"frame": brief(named, 60)}) if named else ("", {})
    return Draft(
        severity_of(facts.limits, share),
        message(f"finding.pause.title{form}", count=len(silent), time=time, **words),
        message(f"finding.pause.detail{'_copies' * bool(len(copied[0]))}", count=len(silent), share=time / total),
        tuple(
            Evidence(start, end, None, "Free", _note(end - start, frame, end in copied[1]))
            for (start, end), frame in zip(longest, frames, strict=True)
        ),
        advise("pause_look") if named else advise("pause_look", "pause_record"),
        removes,
        confidence="medium",
        change=facts.without_work(removes) | without_all(facts, copied) if len(copied[0]) else None,
        most=time if len(copied[0]) else None,
        verdict=message(f"finding.pause.verdict{form}", count=len(silent), time=time, **words),
    )


def _copying(facts: Facts, late: Span) -> Span:
    """When the host does nothing but copy, in calls that it waits for, and is silent in between: each is one pause.

    So a checkpoint takes a dozen tensors to the host. Most of it is silent, else the copies are what takes the time.
    """
    device, copies = facts.part.slices, waited_copies(facts)
    if device is None or len(copies) < 2 or not len(late[0]):
        return NOTHING
    others = device.busy.copy()
    others[copies] = False
    least, copied = facts.limits[PAUSE_MS] * 1e6, facts.trace.slices.end[copies]
    low, high = without((late[0][:1], late[1][-1:]), facts.span_of(others))
    first, last = np.searchsorted(copied, low), np.searchsorted(copied, high)
    several = (last - first >= 2) & (high - low >= least)
    pauses = []
    for begin, end in zip(low[several].tolist(), high[several].tolist(), strict=True):
        inside = both(late, (np.array([begin]), np.array([end])))
        silent = sum(until - since for since, until in largest(inside, _MOST_SILENT) if _silent(facts, since, until))
        end = max(inside[1][-1:].tolist() + copied[(copied > begin) & (copied <= end)][-1:].tolist())
        if end - begin >= least and silent >= _MOSTLY_SILENT * (end - begin):
            pauses.append((begin, end))
    return union(*np.array(pauses, np.int64).reshape(-1, 2).T)


def _first_of_them(facts: Facts, pauses: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Pauses like ``pauses`` before the first kernel of a step, where Overlap Analysis has no Free."""
    least = _COMPARABLE * float(np.median([end - start for start, end in pauses]))
    start, end = before_first_kernels(facts)
    starts = [(a, b) for a, b in zip(start.tolist(), end.tolist(), strict=True) if b - a >= least]
    known = [any(low < b and high > a for low, high in pauses) for a, b in starts]
    return [gap for gap, counted in zip(starts, known, strict=True) if not counted and _silent(facts, *gap)]


def _note(length: int, frame: str, copies: bool) -> Message:
    if frame:
        return message("finding.pause.place_in", time=length, frame=brief(frame, 60))
    return message(f"finding.pause.place{'_copies' * copies}", time=length)


def at_the_end(facts: Facts) -> Span:
    """From the last kernel to the end of the last step but for copies, which Overlap Analysis does not call Free."""
    start, done = facts.working
    if not facts.whole_steps or not facts.steps or not len(done):
        return NOTHING
    end = int(facts.trace.slices.end[facts.steps[-1].item]) + facts.floor
    begin = int(done[int(np.searchsorted(start, end)) - 1]) if start[0] < end else end
    return without((np.array([begin], np.int64), np.array([end], np.int64)), facts.busy)


def _frames(facts: Facts, spans: list[tuple[int, int]]) -> list[str]:
    """The innermost frame of Python around the middle of each of ``spans`` of the device's time, empty without one.

    Else it is the innermost operation in which something is launched as well, such as one of the backward pass.
    """
    frames = []
    for start, end in spans:
        low, high = start - facts.floor, end - facts.floor
        margin, most = (high - low) // 10, _FAR_LONGER * (high - low)
        around = facts.frames(high - margin - most, low + margin + 1, after=high - margin - 1)
        # A frame far longer than the pause is the program itself.
        around = around[facts.length(around) <= most]
        if not len(around):
            around = _launching(facts, facts.host_calls(high - margin - most, low + margin + 1, high - margin - 1))
        frames.append(facts.trace.name_of(int(around[np.argmin(facts.length(around))])) if len(around) else "")
    return frames


def _launching(facts: Facts, items: I64) -> I64:
    """Those of ``items`` that are operations in which something is launched: what they do beside it is not recorded."""
    if "cpu_op" not in facts.trace.categories:
        return items[:0]
    slices, times = facts.trace.slices, launch_times(facts.trace)
    operations = items[slices.category[items] == facts.trace.categories.index("cpu_op")]
    before, after = (np.searchsorted(times, edge[operations]) for edge in (slices.start, slices.end))
    return np.sort(operations[after > before])


def _silent(facts: Facts, start: int, end: int) -> bool:
    """Whether the host records nothing in the middle of ``[start, end)`` of the device's time.

    A call, an operation or a collection that lasts about as long is what takes the time; a frame of Python, a part of
    the program, or an operation that launches something around it says nothing.
    """
    low, high = start - facts.floor, end - facts.floor
    length, margin = high - low, (high - low) // 20
    if len(facts.host_calls(low + margin, high - margin, after=low - 1)):
        return False
    around = facts.host_calls(low - _FAR_LONGER * length, low + margin, after=low + length // 2)
    around = np.setdiff1d(around, _launching(facts, around))
    return not bool((facts.length(around) < _FAR_LONGER * length).any())


def unasked(facts: Facts) -> Draft | None:
    """A server that waits for requests."""
    waits = facts.waits_for_requests
    time = length_of(facts.unasked)
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
        totals=("event.title",),
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
    Rule(
        "HOST.PAUSE",
        cls="dispatch",
        inputs=("device", "overlap", "links"),
        check=pauses,
        thresholds=(PAUSE_MS, PAUSE_SHARE, STEP_START_SHARE, SEVERITY_MEDIUM, SEVERITY_HIGH),
        advice=("pause_look", "pause_record"),
        gpu=("pause_look", "pause_record"),
        pages=(pages.PROFILER, pages.TUNING),
        change="""\
-torch.save(model.state_dict(), path)
+state = {name: each.to("cpu", non_blocking=True) for name, each in model.state_dict().items()}
+threading.Thread(target=torch.save, args=(state, path)).start()
""",
        sources=("MindStudio Insight walk-through 1-51", "operator tuning guide 0-07"),
        reach="cause",
        replayed=True,
        totals=("pause.title", "pause.title_in"),
    ),
)
