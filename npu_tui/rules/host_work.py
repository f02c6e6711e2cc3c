"""Findings about work of the host that launches nothing, while the device waits: metrics, sorting, a CPU optimizer."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npu_tui.analysis.code_lines import CodeLine, own_lines
from npu_tui.analysis.host_work import idle_work
from npu_tui.analysis.thresholds import Threshold
from npu_tui.rules import pages
from npu_tui.rules.blame import STEP_START_SHARE, before_first_kernels, late_behind_collectives, start_share
from npu_tui.rules.facts import Facts, once_per_device
from npu_tui.rules.inputs import NOTHING, Span, both, length_of, together, without
from npu_tui.rules.pauses import at_the_end, pauses
from npu_tui.rules.rule import SEVERITY_HIGH, SEVERITY_MEDIUM, Draft, Rule, line_of, sentences, severity_of
from npu_tui.trace.arrays import I64
from npu_tui.trace.engine_names import phase_of
from npu_tui.trace.intervals import covered_within
from npu_tui.trace.message import Said, message
from npu_tui.trace.text import brief

HOST_WORK_SHARE = Threshold("host_work_share", 0.03)

_NOTABLE = 0.1
"""Work that holds the device up for less than this share of what the most costly work does is not named."""
_MOST_NAMED = 3
_HOLDS_UP = 0.5
"""Work that the device waits for during less than this share of it runs beside the device."""


class Work(Struct, frozen=True):
    """The calls ``items`` of one operation or frame ``name`` from one line: the device waits ``idle`` ns for them."""

    name: str
    code: CodeLine | None
    items: I64
    length: int
    idle: int

    @property
    def place(self) -> Said:
        """The name with its line; a frame of Python is its line."""
        if self.code is None:
            return brief(self.name, 60)
        if self.name.endswith(f": {self.code.function}"):
            return line_of(self.code)
        return message("finding.work.at", name=brief(self.name, 60), line=line_of(self.code))


@once_per_device
def costly_work(facts: Facts) -> list[Work]:
    """The work for which the idle device waits, most first, but what STEP.START, HOST.PAUSE, ENGINE.HOST tell."""
    trace, slices = facts.trace, facts.trace.slices
    items = idle_work(trace)
    if facts.has_engine_steps:
        items = items[~facts.names_where(lambda name: phase_of(name) is not None)[slices.name[items]]]
    waiting = without(_waiting(facts), _told_elsewhere(facts))
    low, high = facts.on_device((slices.start[items], slices.end[items]))
    idle = covered_within(*waiting, low, high)
    there = (idle > 0) | ((low < facts.window.end) & (high > facts.window.start))
    items, idle, held = items[there], idle[there], (idle >= _HOLDS_UP * (high - low))[there]
    groups: dict[tuple[int, CodeLine | None], list[int]] = {}
    for at, key in enumerate(zip(slices.name[items].tolist(), own_lines(trace, items), strict=True)):
        groups.setdefault(key, []).append(at)
    # Whoever mends a line mends each call of it: the device may use up its queue during one and wait in the next.
    rows = [
        Work(trace.names[name], code, items[rows], int(facts.length(items[rows]).sum()), int(idle[rows].sum()))
        for (name, code), rows in groups.items()
        if held[rows].any()
    ]
    rows.sort(key=lambda work: (-work.idle, work.name))
    return [work for work in rows if work.idle >= _NOTABLE * rows[0].idle]


@once_per_device
def _waiting(facts: Facts) -> Span:
    """When the device has nothing to do, or runs nothing but a collective while the launch after it is not made.

    Free by the Overlap Analysis ends with the last kernel, so what a step does after it is not in there.
    """
    busy = facts.busy
    if not len(busy[0]):
        return NOTHING
    between = facts.cut((busy[1][:-1], busy[0][1:]))
    return together(between, late_behind_collectives(facts), at_the_end(facts))


def _told_elsewhere(facts: Facts) -> Span:
    """The starts of steps, pauses of the host and waits for requests, where these are findings of their own."""
    starts = before_first_kernels(facts)
    paused = pauses(facts)
    return together(
        starts if start_share(facts, starts) >= facts.limits[STEP_START_SHARE] else NOTHING,
        paused.removes if paused is not None and paused.removes is not None else NOTHING,
        facts.unasked,
    )


@once_per_device
def host_work(facts: Facts) -> Draft | None:
    """Operations and frames of Python that launch nothing and hold up the launches after them."""
    works = costly_work(facts)
    if not works:
        return None
    items = np.sort(np.concatenate([work.items for work in works]))
    removes = both(_waiting(facts), facts.on_device(facts.span_of(items)))
    time = length_of(removes)
    share = facts.share(time)
    if share < facts.limits[HOST_WORK_SHARE]:
        return None
    rows = [
        message("finding.work.row", what=work.place, time=work.length / facts.count, unit=facts.unit)
        for work in works[:_MOST_NAMED]
    ]
    words = {"where": works[0].place, "time": time}
    return Draft(
        severity_of(facts.limits, share),
        message("finding.work.title", **words),
        sentences(message("finding.work.detail", rows=rows)),
        facts.longest(items, lambda item: message("finding.work.place")),
        removes=removes,
        code_lines=tuple(dict.fromkeys(work.code for work in works[:_MOST_NAMED] if work.code is not None)),
        verdict=message("finding.work.verdict", **words),
        change=facts.without_calls(items),
    )


RULES: tuple[Rule, ...] = (
    Rule(
        "HOST.WORK",
        cls="dispatch",
        inputs=("device", "overlap", "links"),
        check=host_work,
        thresholds=(HOST_WORK_SHARE, SEVERITY_MEDIUM, SEVERITY_HIGH),
        advice=("work_beside", "work_on_device"),
        gpu=("work_beside",),
        pages=(pages.TUNING,),
        change="""\
-score = metric(output.cpu().numpy(), labels)
+if step % 100 == 0:
+    score = metric(output.cpu().numpy(), labels)
""",
        sources=("operator tuning guide 0-07", "MindStudio Insight walk-through 1-51"),
        reach="cause",
        replayed=True,
        totals=("work.title",),
    ),
)
