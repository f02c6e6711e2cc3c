"""What lies within the steps of an inference service, the cycle without it, and the model of the service without it."""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.limits import HALF, NAMED
from npu_tui.analysis.service_model import ServiceModel
from npu_tui.analysis.service_steps import Cycle, Steps, processes_of
from npu_tui.analysis.service_timeline import ServiceTimeline
from npu_tui.trace.arrays import I64
from npu_tui.trace.intervals import covered_within, union
from npu_tui.trace.service import UNKNOWN


def parts_of(steps: Steps) -> dict[Cycle, tuple[I64, I64]]:
    """When each part of the cycle of each step begins and ends, ns.

    Bubbles lie before the schedule, the first ones, and between it and the pass.
    """
    cycle = steps.cycle
    closed = np.where(steps.schedule == UNKNOWN, steps.opened, steps.schedule_end)
    passed = steps.start + cycle[:, Cycle.prepare]
    ended = passed + cycle[:, Cycle.forward]
    before = np.maximum(cycle[:, Cycle.bubble] - np.maximum(steps.start - closed, 0), 0)
    return {
        Cycle.schedule: (steps.opened, steps.opened + cycle[:, Cycle.schedule]),
        Cycle.prepare: (steps.start, passed),
        Cycle.forward: (passed, ended),
        Cycle.sampling: (ended, ended + cycle[:, Cycle.sampling]),
        Cycle.bubble: (
            np.append(steps.opened - before, np.minimum(closed, steps.start)),
            np.append(steps.opened, steps.start),
        ),
    }


def within(found: ServiceTimeline, begin: I64, end: I64, *parts: Cycle) -> I64:
    """How much of ``parts`` of each cycle the ranges ``begin`` to ``end`` cover, ns; (steps, 7)."""
    covered = np.zeros_like(found.steps.cycle)
    where = parts_of(found.steps)
    for part in parts:
        covered[:, part] = covered_within(begin, end, *where[part]).reshape(-1, len(covered)).sum(axis=0)
    return covered


class Named(Struct, frozen=True, eq=False):
    """The ranges with the code ``name``: their ``rows``, and the ``time`` (ns) that they add to what shorter ones take.

    ``share`` is that of the stretch in which they were looked for.
    """

    name: int
    rows: I64
    time: int
    share: float


def named_in(found: ServiceTimeline, low: I64, high: I64, least: int = 1) -> list[Named]:
    """What most of the times ``low`` to ``high`` lie in by the names of ranges of engines, the longest first.

    Ranges are at least as long as ``least``, passes are none; they lie in those times and little elsewhere. A range
    counts by what lies in none of a shorter kind. Empty where half of the times have no name.
    """
    spans, whole = found.service.spans, max(int((high - low).sum()), 1)
    a_pass = np.isin(spans.name, found.service.batches.name)
    rows = np.flatnonzero(~a_pass & (spans.end - spans.start >= max(least, 1)))
    if a_pass.any():  # other processes work meanwhile
        rows = rows[np.isin(spans.process[rows], np.unique(spans.process[a_pass]))]
    kinds = [rows[spans.name[rows] == code] for code in np.unique(spans.name[rows]).tolist()]
    kinds.sort(key=lambda mine: float((spans.end - spans.start)[mine].mean()))
    begin, end, before, told = np.zeros(0, np.int64), np.zeros(0, np.int64), 0, list[Named]()
    for mine in kinds:
        own_begin, own_end = union(spans.start[mine], spans.end[mine])
        inside = int(covered_within(own_begin, own_end, low, high).sum())
        if not inside or (own_end - own_begin).sum() > 2 * inside:
            continue
        begin, end = union(np.append(begin, own_begin), np.append(end, own_end))
        after = int(covered_within(begin, end, low, high).sum())
        told.append(Named(int(spans.name[mine[0]]), mine, after - before, (after - before) / whole))
        before = after
    told.sort(key=lambda one: -one.time)
    told = [one for one in told if one.time >= HALF * told[0].time][:NAMED]
    return told if sum(one.share for one in told) >= HALF else []


def of_range(found: ServiceTimeline, names: int | list[int], *parts: Cycle) -> I64:
    """How much of ``parts`` of each cycle the ranges called ``names`` of the same engine cover, ns; (steps, 7)."""
    service, steps = found.service, found.steps
    chosen = np.flatnonzero(np.isin(service.spans.name, names))
    codes = {text: code for code, text in enumerate(service.texts)}
    process = processes_of(service, chosen)
    time = np.zeros_like(steps.cycle)
    for number, engine in enumerate(found.engines):
        mine = chosen
        if len(found.engines) > 1:
            mine = chosen[np.isin(process, [codes[one] for one in engine.processes])]
        begin, end = union(service.spans.start[mine], service.spans.end[mine])
        here = steps.of(number)
        time[here] = within(found, begin, end, *parts)[here]
    return time


def freed(found: ServiceTimeline, time: I64) -> ServiceTimeline:
    """``found`` with cycles that are shorter by ``time`` (steps, 7), and so is what held them up."""
    steps, cycle = found.steps, np.maximum(found.steps.cycle - time, 0)
    sooner = np.clip(time[:, Cycle.bubble], 0, np.maximum(steps.start - steps.schedule_end, 0))
    closed = np.where(steps.schedule == UNKNOWN, steps.schedule_end, steps.schedule_end + sooner)
    return replace(
        found,
        steps=replace(steps, cycle=cycle, schedule_end=closed),
        held=np.minimum(np.maximum(found.held - time, 0), cycle),
    )


_TAKEN = (
    "cost", "schedule", "gap", "dispatch", "prepare", "after", "draft", "late", "beyond", "filled", "least", "stalls",
    "stuck",
)  # fmt: skip


def taken_out(base: ServiceModel, other: ServiceModel, model: ServiceModel) -> ServiceModel:
    """``model`` with the costs of ``other``, which is ``base`` without something, where it has those of ``base``."""
    engines = []
    for number, one in enumerate(model.engines):
        was, then = (of.engines[number % len(of.engines)] for of in (base, other))  # a second service has the same ones
        changed = {name: getattr(then, name) for name in _TAKEN if getattr(one, name) == getattr(was, name)}
        engines.append(replace(one, **changed))
    extra = other.extra if model.extra is base.extra else model.extra
    return replace(model, engines=tuple(engines), extra=extra)
