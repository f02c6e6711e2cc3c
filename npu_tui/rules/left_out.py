"""What of a run is left out of the figures that a verdict gives, and why."""

from __future__ import annotations

from collections import Counter

import numpy as np

from npu_tui.analysis.calls import profiler_work
from npu_tui.analysis.device import named_in
from npu_tui.analysis.limits import HALF
from npu_tui.analysis.owners import owners
from npu_tui.analysis.path import Owner, critical_path
from npu_tui.analysis.replay import NO_CHANGE
from npu_tui.rules.blame import COMPILE
from npu_tui.rules.facts import Facts
from npu_tui.rules.inputs import common, inside, length_of
from npu_tui.rules.rule import runs_of
from npu_tui.rules.told_path import owner_text
from npu_tui.trace.classes import step_number
from npu_tui.trace.message import Message, Said, message
from npu_tui.trace.model import Bulk, bulk_of


def left_out(facts: Facts) -> list[Message]:
    """A sentence for each thing that the figures leave out."""
    parts = []
    if facts.warm_up:
        parts.append(_warm_up(facts))
    if facts.entered is not None:
        count, *others = facts.kernels_in([facts.entered, *facts.steps]).tolist()
        parts.append(message("finding.left_out.cut", step=facts.entered.number, count=count, usual=min(others)))
    if (first := facts.first_meeting) >= 0:
        time = int(facts.length(np.array([first])).sum())
        parts.append(message("finding.left_out.meeting", name=facts.name_of(first, 40), time=time))
    if facts.part.slices is not None and len(overruns := facts.part.slices.overruns):
        longest = overruns[np.argmax(facts.length(overruns))]
        words = {"name": facts.name_of(int(longest), 40), "time": int(facts.length(np.array([longest])).sum())}
        parts.append(message("finding.left_out.overruns", count=len(overruns), **words))
    flushed = common(facts.unasked, facts.profiling)
    if len(flushed[0]):
        parts.append(_flushed(facts, length_of(flushed)))
    if time := length_of(facts.unasked) - length_of(flushed):
        may = "_may" * (max(item for *_, item in facts.waits_for_requests) < 0)
        parts.append(message(f"finding.left_out.unasked{may}", time=time, total=time + facts.total))
    bulk = bulk_of(facts.trace)
    if bulk is not None:
        far = _steps_beyond(facts, bulk)
        steps: Said = message("finding.left_out.far_steps", steps=runs_of(far)) if far else ""
        parts.append(message("finding.left_out.far", count=bulk.far, hours=bulk.gap / 3.6e12, steps=steps))
    silent = [step.number for step in facts.inputs.steps if step.number is not None and step.window is None]
    if silent and facts.whole_steps and facts.inputs.step is None and facts.steps:
        parts.append(message("finding.left_out.silent", count=len(silent), first=min(silent)))
    return parts


def _flushed(facts: Facts, time: int) -> Message:
    """What the profiler did while the device waited, and in which steps."""
    slices, items = facts.trace.slices, profiler_work(facts.trace)
    names = Counter(facts.trace.name_of(item) for item in items.tolist())
    starts = slices.start[items]
    held = [
        step.number for step in facts.steps
        if step.number is not None
        and ((starts >= slices.start[step.item]) & (starts < slices.end[step.item])).any()
    ]  # fmt: skip
    where: Said = message("finding.left_out.flushed_in", steps=runs_of(held)) if held else ""
    return message(
        "finding.left_out.flushed", name=names.most_common(1)[0][0], time=time, count=len(items), where=where
    )


def _steps_beyond(facts: Facts, bulk: Bulk) -> list[int]:
    """The numbers of the steps whose slice lies beyond ``bulk``."""
    slices = facts.trace.slices
    lanes = [lane for lane in facts.trace.lanes if not lane.derived]
    items = named_in(facts.trace, lanes, lambda name: step_number(name) is not None)
    items = items[~bulk.holds(slices.start[items], slices.end[items])]
    return sorted({int(step_number(facts.trace.name_of(item)) or 0) for item in items.tolist()})


def _warm_up(facts: Facts) -> Message:
    """The first steps that take far longer than the others, with what was compiled in them."""
    slices = facts.trace.slices
    every = [step for step in facts.inputs.steps if step.number is not None and step.window is not None]
    items = np.array([step.item for step in facts.warm_up], np.int64)
    time = int(facts.length(items).sum())
    words = {
        "first": facts.warm_up[0].number,
        "last": facts.warm_up[-1].number,
        "all_first": every[0].number,
        "all_last": every[-1].number,
        "time": time,
        "total": int(facts.length(np.array([step.item for step in every], np.int64)).sum()),
        "usual": facts.step_ns,
    }
    lanes = [lane for lane in facts.trace.lanes if facts.trace.layers[lane.layer].kind == "cann"]
    compiled = named_in(facts.trace, lanes, lambda name: name.endswith(COMPILE))
    count = int(np.count_nonzero(inside((slices.start[items], slices.end[items]), slices.start[compiled])))
    why = message("finding.left_out.compiled", count=count) if count else _mostly(facts, time)
    return message("finding.left_out.warm_up" if len(items) == 1 else "finding.left_out.warm_ups", why=why, **words)


def _mostly(facts: Facts, time: int) -> Said:
    """The host's work that holds most of the critical path of the first steps, which take ``time`` ns."""
    owner = first_owner(facts)
    if owner is not None and owner.doing == "work" and owner.on_path >= HALF * time:
        return message("finding.left_out.mostly", what=owner_text(facts.trace, owner), time=owner.on_path)
    return ""


def first_owner(facts: Facts) -> Owner | None:
    """The owner of most of the critical path of the first steps, which are left out."""
    replay = facts.inputs.replay_of(facts.part)
    if replay is None:
        return None
    start, end = int(facts.trace.slices.start[facts.warm_up[0].item]), int(facts.window.start)
    path = critical_path(replay).within(start, end - replay.model.floor)
    return next(iter(owners(replay, facts.inputs.types_of, path, lambda _: NO_CHANGE).owners), None)
