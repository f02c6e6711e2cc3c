"""A finding about who had the CPU while the device waited for launches, by a recording of the kernel's scheduler."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.cpu_time import CpuTime, Culprit
from npu_tui.analysis.limits import ALMOST_ALL, NOTABLE
from npu_tui.analysis.replay import Change, HostCut
from npu_tui.rules import pages
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
from npu_tui.trace.intervals import union
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
    """Who or what takes most of the lost time from the launching threads, and that time; None where it is little."""
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
        # Most of the loss must be known before anybody is blamed, or before it is said that nobody is.
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
    """The longest times that were taken, each at the kernel whose launch it made late."""
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
