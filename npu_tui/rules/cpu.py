"""A finding about who had the CPU while the device waited for launches, by a recording of the kernel's scheduler."""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.cpu_time import CpuTime, Culprit
from npu_tui.analysis.replay import Change, HostCut
from npu_tui.analysis.thresholds import Threshold
from npu_tui.rules import pages
from npu_tui.rules.facts import Facts, once_per_device
from npu_tui.rules.inputs import I64, Span, both, first_of_largest, length_of
from npu_tui.rules.model import Evidence
from npu_tui.rules.rule import (
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

CPU_SHARE = Threshold("cpu_share", 0.03)
_MOST_NAMED = 4
_KNOWN = 0.9
_BLAMED = 0.1
_WAITS = {"preempted": "waiting", "woken": "waiting"}


class Taker(Struct, frozen=True):
    """Who or what took the CPU, whether it preempted the thread or kept it waiting after a wakeup."""

    kind: str
    culprits: tuple[Culprit, ...]

    @property
    def key(self) -> tuple[object, ...]:
        """What tells it from others."""
        first = self.culprits[0]
        return self.kind, first.name, first.process, first.by

    @property
    def total(self) -> int:
        """The lost time, ns."""
        return sum(culprit.total for culprit in self.culprits)

    @property
    def name(self) -> Said:
        """What it is called, with its thread where it is one."""
        first = self.culprits[0]
        if not first.name:
            return message(f"cpu.by.{first.by}")
        known = {culprit.task for culprit in self.culprits}
        task = known.pop() if len(known) == 1 else None
        name = brief(first.name, 40)
        return name if task is None else message("cpu.by.task", name=name, task=task)

    @property
    def words(self) -> str:
        """The end of the keys of its texts."""
        by = self.culprits[0].by
        return by if by in ("idle", "waking") else self.kind


def takers(culprits: list[Culprit]) -> list[Taker]:
    """``culprits`` with those that are one and the same together, most time first."""
    groups: dict[tuple[object, ...], list[Culprit]] = {}
    for culprit in culprits:
        kind = _WAITS.get(culprit.part, culprit.part)
        groups.setdefault((kind, culprit.name, culprit.process, culprit.by), []).append(culprit)
    found = [Taker(str(kind), tuple(members)) for (kind, *_), members in groups.items()]
    return sorted(found, key=lambda taker: -taker.total)


@once_per_device
def cpu(facts: Facts) -> Draft | Skipped | None:
    """The launching threads do not run while the device waits for them: something else has their CPU, or they sleep."""
    known, launches = facts.inputs.cpu(), facts.launches
    if isinstance(known, Message):
        return Skipped(known)
    if known is None or launches is None:
        return None
    every = takers(known.culprits(launches.link))
    lost = sum(taker.total for taker in every)
    unknown = sum(taker.total for taker in every if taker.kind == "unknown")
    stolen = [taker for taker in every if taker.words not in ("running", "unknown", "waking")]
    removes = _on_device(facts, known, stolen[0]) if stolen else None
    share = 0.0 if removes is None else facts.share(length_of(removes))
    if removes is None or share < facts.limits[CPU_SHARE]:
        least = facts.limits[CPU_SHARE]
        if facts.share(unknown) >= least and unknown > lost / 2:
            reason = known.unknown[0] if known.unknown else message("cpu.lost_events")
            return Skipped(message("cpu.mostly_unknown", time=unknown, lost=lost, reason=reason))
        return None
    first = stolen[0]
    words = {"name": first.name, "time": length_of(removes)}
    rows = np.concatenate([culprit.rows for culprit in first.culprits])
    cpus = sorted({number for culprit in first.culprits for number in culprit.cpus})
    shown = [taker for number, taker in enumerate(every) if number < _MOST_NAMED or taker.kind == "unknown"]
    named = [message("finding.cpu.row", what=_what(taker), time=taker.total) for taker in shown]
    rest = lost - sum(taker.total for taker in shown)
    late = int(np.count_nonzero(np.isin(known.waits.link, launches.link)))
    return Draft(
        severity_of(facts, share),
        message(f"finding.cpu.title.{first.words}", **words),
        sentences(
            message("finding.cpu.detail", lost=lost, count=late, rows=named),
            message("finding.cpu.rest", time=rest) if rest else "",
            message("finding.cpu.cpus", cpus=[str(number) for number in cpus]) if cpus else "",
            *known.unknown,
        ),
        _evidence(facts, known, rows, first),
        advise(f"cpu_{first.words}", *(("binding",) if first.words == "waiting" else ())),
        removes=removes,
        confidence="high" if lost and unknown <= (1 - _KNOWN) * lost else "medium",
        verdict=message("finding.cpu.verdict", what=message(f"finding.cpu.title.{first.words}", **words)),
        change=_without(facts, known, first, length_of(removes)),
        reach="place" if first.words in ("asleep", "blocked") else "cause",
    )


def _what(taker: Taker) -> Message:
    return message(f"finding.cpu.what.{taker.words}", name=taker.name)


def _on_device(facts: Facts, known: CpuTime, taker: Taker) -> Span:
    rows = np.concatenate([culprit.rows for culprit in taker.culprits])
    return both(union(*known.on_device(rows)), facts.lost)


def _without(facts: Facts, known: CpuTime, taker: Taker, least: int) -> Change | None:
    """The run in which the threads keep their CPU, also where the device was still busy: that cost the host its lead.

    Sleeps that interrupts end count during waits only: so a thread waits that has nothing to do. None where the model
    of the run blames another thread for that time and so gains hardly anything.
    """
    parts, alike = known.parts, taker.culprits
    if taker.kind != "asleep" or taker.culprits[0].by == "task":
        parts = known.all_parts
        alike = next(other.culprits for other in takers(known.everything) if other.key == taker.key)
    rows = np.concatenate([culprit.rows for culprit in alike])
    threads = {task: thread for thread, task in known.threads.items()}
    cuts = [
        HostCut(threads[task], union(parts.start[chosen], parts.end[chosen]))
        for task in np.unique(parts.task[rows]).tolist()
        for chosen in [rows[parts.task[rows] == task]]
    ]
    change = Change(host=tuple(cuts))
    gain = facts.freed(change)
    return None if gain is not None and gain < _BLAMED * least else change


def _evidence(facts: Facts, known: CpuTime, rows: I64, taker: Taker) -> tuple[Evidence, ...]:
    """The longest times that were taken, each at the kernel whose launch it made late."""
    parts = known.parts
    longest = np.sort(rows[first_of_largest(parts.time[rows], 10)])
    start, end = known.on_device(longest)
    places = []
    for row, low, high in zip(longest.tolist(), start.tolist(), end.tolist(), strict=True):
        item = int(facts.trace.links.target_slice[known.waits.link[parts.wait[row]]])
        thread = known.scheduling.name_of(int(parts.task[row]))
        note = message("finding.cpu.place", thread=brief(thread, 40), what=_what(taker), time=int(parts.time[row]))
        places.append(replace(facts.place(item, note), start=low, end=high))
    return tuple(places)


RULES: tuple[Rule, ...] = (
    Rule(
        "HOST.CPU",
        cls="dispatch",
        inputs=("device", "overlap", "links", "ftrace"),
        check=cpu,
        thresholds=(CPU_SHARE, SEVERITY_MEDIUM, SEVERITY_HIGH),
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
