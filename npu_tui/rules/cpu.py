"""Who had the CPU while the device waited for launches, and whether a CPU limit stopped a process for a while.

A recording of the kernel's scheduler shows the first, all threads of a process that stop at once the second.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.cpu_time import CpuTime, Culprit
from npu_tui.analysis.device import HOST, named_in
from npu_tui.analysis.limits import A_PART, ALMOST_ALL, AWAKE_NS, HALF, LONG_NS, MORE_THAN_ONE, NOTABLE, SOME
from npu_tui.analysis.replay import Change, HostCut
from npu_tui.rules import pages
from npu_tui.rules.blame import sync_calls
from npu_tui.rules.facts import Facts, once_per_device
from npu_tui.rules.inputs import NOTHING, Span, common, first_of_largest, length_of
from npu_tui.rules.model import Evidence
from npu_tui.rules.rule import (
    LISTED,
    SEVERITY_HIGH,
    SEVERITY_MEDIUM,
    Draft,
    Rule,
    Skipped,
    advise,
    sentences,
    severity_of,
)
from npu_tui.trace.arrays import I64, Bools
from npu_tui.trace.intervals import quiet, union
from npu_tui.trace.message import Message, Said, message
from npu_tui.trace.text import brief


def _culprit_name(culprit: Culprit) -> Said:
    """The name of ``culprit``, with its number where it is a thread."""
    if not culprit.name:
        return message(f"cpu.by.{culprit.by}")
    name = brief(culprit.name, 40)
    return name if culprit.task is None else message("cpu.by.task", name=name, task=culprit.task)


def _words(culprit: Culprit) -> str:
    """The last part of the keys of texts about ``culprit``."""
    return culprit.by if culprit.by in ("idle", "waking") else culprit.part


@once_per_device
def thief(facts: Facts) -> tuple[Culprit, Span] | None:
    """The task or interrupt that takes most time from the launching threads, and that time; None if little."""
    known, launches = facts.inputs.cpu(), facts.launches
    if not isinstance(known, CpuTime) or launches is None:
        return None
    every = known.culprits(launches.link, together=True)
    first = next((row for row in every if _words(row) not in ("running", "unknown", "waking")), None)
    removes = NOTHING if first is None else common(union(*known.on_device(first.rows)), facts.lost)
    return (
        None if first is None or facts.share(length_of(removes)) < facts.limits[SEVERITY_MEDIUM] else (first, removes)
    )


@once_per_device
def cpu(facts: Facts) -> Draft | Skipped | None:
    """The launching threads do not run while the device waits for them: something else has their CPU, or they sleep."""
    known, launches, found = facts.inputs.cpu(), facts.launches, thief(facts)
    if isinstance(known, Message):
        return Skipped(known)
    if known is None or launches is None:
        return None
    every = known.culprits(launches.link, together=True)
    lost = sum(culprit.total for culprit in every)
    unknown = sum(culprit.total for culprit in every if culprit.part == "unknown")
    if found is None:
        # Most of the loss must be known before a thread is blamed, or before it is said that none is.
        if facts.share(unknown) >= facts.limits[SEVERITY_MEDIUM] and unknown > lost / 2:
            reason = known.unknown[0] if known.unknown else message("cpu.lost_events")
            return Skipped(message("cpu.mostly_unknown", time=unknown, lost=lost, reason=reason))
        return None
    first, removes = found
    kind, words = _words(first), {"name": _culprit_name(first), "each": facts.per_unit(length_of(removes))}
    shown = [culprit for number, culprit in enumerate(every) if number < LISTED or culprit.part == "unknown"]
    named = [message("finding.cpu.row", what=_culprit_text(culprit), time=culprit.total) for culprit in shown]
    rest = lost - sum(culprit.total for culprit in shown)
    late = int(np.count_nonzero(np.isin(known.waits.link, launches.link)))
    return Draft(
        severity_of(facts.limits, facts.share(length_of(removes))),
        message(f"finding.cpu.title.{kind}", **words),
        sentences(
            message("finding.cpu.detail", lost=lost, count=late, rows=named),
            message("finding.cpu.rest", time=rest) if rest else "",
            message("finding.cpu.cpus", cpus=[str(number) for number in first.cpus]) if first.cpus else "",
            *known.unknown,
        ),
        _evidence(facts, known, first),
        advise(f"cpu_{kind}", *(("binding",) if kind == "waiting" else ())),
        removes=removes,
        confidence="high" if lost and unknown <= (1 - ALMOST_ALL) * lost else "medium",
        verdict=message("finding.cpu.verdict", what=message(f"finding.cpu.title.{kind}", **words)),
        change=_with_own_cpu(facts, known, first, length_of(removes)),
        reach="place" if kind in ("asleep", "blocked") else "cause",
    )


def _culprit_text(culprit: Culprit) -> Message:
    return message(f"finding.cpu.what.{_words(culprit)}", name=_culprit_name(culprit))


def _with_own_cpu(facts: Facts, known: CpuTime, culprit: Culprit, least: int) -> Change | None:
    """The run in which the threads keep their CPU, also where the device was still busy: that cost the host its lead.

    Sleeps that interrupts end count during waits only: so a thread waits that has nothing to do. None where the model
    of the run blames another thread for that time and so gains hardly anything.
    """
    parts, rows = known.parts, culprit.rows
    always = next((other.rows for other in known.everything if other.key == culprit.key), None)
    if always is not None and (culprit.part != "asleep" or culprit.by == "task"):
        parts, rows = known.all_parts, always
    threads = {task: thread for thread, task in known.threads.items()}
    cuts = [
        HostCut(threads[task], union(parts.start[chosen], parts.end[chosen]))
        for task in np.unique(parts.task[rows]).tolist()
        for chosen in [rows[parts.task[rows] == task]]
    ]
    change = Change(host=tuple(cuts))
    gain = facts.freed(change)
    return None if gain is not None and gain < NOTABLE * least else change


def _evidence(facts: Facts, known: CpuTime, culprit: Culprit) -> tuple[Evidence, ...]:
    """The longest times that were taken, each at the kernel that it made late."""
    parts = known.parts
    longest = np.sort(culprit.rows[first_of_largest(parts.time[culprit.rows], 10)])
    start, end = known.on_device(longest)
    places = []
    for row, low, high in zip(longest.tolist(), start.tolist(), end.tolist(), strict=True):
        item = int(facts.trace.links.target_slice[known.waits.link[parts.wait[row]]])
        thread = known.scheduling.name_of(int(parts.task[row]))
        note = message(
            "finding.cpu.place", thread=brief(thread, 40), what=_culprit_text(culprit), time=int(parts.time[row])
        )
        places.append(replace(facts.place(item, note), start=low, end=high))
    return tuple(places)


RULES: tuple[Rule, ...] = (
    Rule(
        "HOST.CPU",
        cls="dispatch",
        inputs=("device", "overlap", "links", "ftrace"),
        check=cpu,
        thresholds=(SEVERITY_MEDIUM, SEVERITY_HIGH),
        advice=("cpu_waiting", "binding", "cpu_interrupt", "cpu_idle", "cpu_asleep", "cpu_blocked"),
        pages=(pages.BINDING, pages.INTERRUPTS, pages.SWITCHING),
        change="""\
+export CPU_AFFINITY_CONF=2
+echo 0-7 > /proc/irq/88/smp_affinity_list
""",
        sources=("msprof best practices: interrupts, frequent switching of threads", "Linux: sched_switch, irq events"),
        reach="cause",
        replayed=True,
    ),
)


PERIOD_NS = 100_000_000
"""The period of a CPU limit: cpu.max and cpu.cfs_period_us of Linux by default (sched-bwc), which containers keep."""


@once_per_device
def stops(facts: Facts) -> Span:
    """When no thread of the process begins or ends anything, until moments that are whole periods of a limit apart.

    On the clock of the host; nothing where that may be chance.
    """
    start, end = _silences(facts)
    on_time = _on_time(end)
    marks = np.array([step.item for step in facts.steps], np.int64)
    stepping = _on_time(facts.trace.slices.end[marks]).sum() > HALF * len(marks)  # steps of that length end so, too
    if on_time.sum() < max(SOME, HALF * len(on_time)) or stepping:
        return NOTHING
    return start[on_time], end[on_time]


@once_per_device
def standstills(facts: Facts) -> Span:
    """When no thread of the process begins or ends anything though the device has nothing to do, on its clock.

    A wait for the device that goes on then does not count: the thread is not woken, as it may not run. In the whole
    trace: a step that is left out as unlike the others may be so for that.
    """
    if facts.part.lanes is None:
        return NOTHING
    slices, layers = facts.trace.slices, facts.trace.layers
    lanes = (lane for lane in facts.trace.lanes if layers[lane.layer].kind in HOST and lane.tid not in facts.foreign)
    items = named_in(facts.trace, lanes, lambda name: True)
    silent = quiet(np.concatenate((slices.start[items], slices.end[items])) + facts.floor, LONG_NS)
    start, end = common(silent, facts.part.lanes.free)
    still = end - start >= max(LONG_NS, A_PART * (end - start).max(initial=0))  # shorter ones are Python's
    return start[still], end[still]


def together_on_time(ends: I64) -> bool:
    """Whether several such moments are all whole periods of a CPU limit apart, as closely as threads wake."""
    return len(ends) >= MORE_THAN_ONE and bool(_on_time(ends).all())


def _silences(facts: Facts) -> Span:
    """When nothing of the host begins or ends for a part of a period, on its clock, but for waits that last as long."""
    slices = facts.trace.slices
    items = facts.named(HOST, lambda name: True)
    edges = np.concatenate((slices.start[items], slices.end[items]))
    start, end = quiet(edges[facts.window.holds(edges + facts.floor)], LONG_NS)
    start, end = start[end - start < PERIOD_NS], end[end - start < PERIOD_NS]
    waits = union(*(edge[sync_calls(facts)] for edge in (slices.start, slices.end)))
    at = np.searchsorted(waits[0], start, "right") - 1
    waited = (at >= 0) & (end <= np.append(waits[1], 0)[at])
    start, end = start[~waited], end[~waited]
    most = end - start >= A_PART * (end - start).max(initial=0)  # shorter ones are those of calls
    return start[most], end[most]


def _on_time(moments: I64) -> Bools:
    """Which of ``moments`` are whole periods apart from most others that are so, as closely as threads wake; (n,)."""
    if not len(moments):
        return np.zeros(0, np.bool_)
    phase, within = moments % PERIOD_NS, 2 * AWAKE_NS
    ordered = np.sort(phase)
    count = np.searchsorted(np.append(ordered, ordered + PERIOD_NS), ordered + within, "right") - np.arange(
        len(ordered)
    )
    return np.asarray((phase - ordered[count.argmax()]) % PERIOD_NS <= within)
