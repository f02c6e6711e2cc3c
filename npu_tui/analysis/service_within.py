"""What lies within the steps of an inference service, the cycle without it, and the model of the service without it."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.service_model import ServiceModel
from npu_tui.analysis.service_steps import Cycle, Steps, processes_of
from npu_tui.analysis.service_timeline import ServiceTimeline
from npu_tui.trace.arrays import I64
from npu_tui.trace.intervals import covered_within
from npu_tui.trace.service import UNKNOWN


def parts_of(steps: Steps) -> dict[Cycle, tuple[I64, I64]]:
    """When each part of the cycle of each step begins and ends, ns; a bubble is what lies before the schedule."""
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
        Cycle.bubble: (steps.opened - before, steps.opened),
    }


def within(found: ServiceTimeline, begin: I64, end: I64, *parts: Cycle) -> I64:
    """How much of ``parts`` of each cycle the ranges ``begin`` to ``end`` cover, ns; (steps, 7)."""
    covered = np.zeros_like(found.steps.cycle)
    where = parts_of(found.steps)
    for part in parts:
        covered[:, part] = covered_within(begin, end, *where[part])
    return covered


def of_range(found: ServiceTimeline, name: int, *parts: Cycle) -> I64:
    """How much of ``parts`` of each cycle the ranges called ``name`` of the same engine cover, ns; (steps, 7)."""
    service, steps = found.service, found.steps
    chosen = np.flatnonzero(service.spans.name == name)
    codes = {text: code for code, text in enumerate(service.texts)}
    process = processes_of(service, chosen)
    time = np.zeros_like(steps.cycle)
    for number, engine in enumerate(found.engines):
        mine = chosen
        if len(found.engines) > 1:
            mine = chosen[np.isin(process, [codes[one] for one in engine.processes])]
        begin, end = service.spans.start[mine], service.spans.end[mine]
        here = steps.of(number)
        time[here] = within(found, begin, end, *parts)[here]
    return time


def freed(found: ServiceTimeline, time: I64) -> ServiceTimeline:
    """``found`` with cycles that are shorter by ``time`` (steps, 7), and so is what held them up."""
    cycle = np.maximum(found.steps.cycle - time, 0)
    return replace(
        found, steps=replace(found.steps, cycle=cycle), held=np.minimum(np.maximum(found.held - time, 0), cycle)
    )


_TAKEN = (
    "cost", "schedule", "gap", "prepare", "after", "draft", "late", "beyond", "filled", "least", "stalls", "stuck",
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
