"""What of a run is not there, has not ended, or is left out of the figures that a verdict gives, and why."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from npu_tui.analysis.borrowed import capture_time
from npu_tui.analysis.calls import profiler_work
from npu_tui.analysis.device import core_lanes, lane_times, named_in
from npu_tui.analysis.limits import A_PART, HALF, NAMED
from npu_tui.analysis.owners import owners
from npu_tui.analysis.path import Owner, critical_path
from npu_tui.analysis.replay import NO_CHANGE
from npu_tui.load.find import Source, writer_of
from npu_tui.load.formats.opprof import measured_operator
from npu_tui.load.raw import unfinished, without_device
from npu_tui.rules import pages
from npu_tui.rules.blame import COMPILE
from npu_tui.rules.facts import Facts
from npu_tui.rules.inputs import common, inside, length_of
from npu_tui.rules.judged_path import owner_text
from npu_tui.rules.model import Finding, Findings
from npu_tui.rules.rule import Draft, Rule, runs_of
from npu_tui.trace.classes import step_number
from npu_tui.trace.kineto import runtime_calls
from npu_tui.trace.message import Message, Said, message
from npu_tui.trace.model import UNFINISHED, Bulk, Trace, bulk_of


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
    """The numbers of the steps with a slice beyond ``bulk``."""
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


# Advice to record what was recorded, and waits to be analysed.
_RECORD = frozenset({"finding.advice.record_host", "finding.advice.record_launches"})
_NO_DEVICE = "finding.verdict.no_device"


def with_what_is_missing(found: Findings, source: Source) -> Findings:
    """``found`` with what is missing of the profile that ``source`` is part of, and why."""
    file, survey = source.files[0], source.survey
    if (place := unfinished(file, survey)) is not None:
        advice = message("finding.advice.analyse", path=str(place))
        told = {id(one): _advised(one, advice) for one in found.findings}
        return replace(
            found,
            findings=tuple(told.values()),
            verdict=(message("finding.verdict.unfinished", path=str(place)), *found.verdict),
            leaders=tuple(told.get(id(one), one) for one in found.leaders),
        )
    codes = [line.code for line in found.verdict if isinstance(line, Message)]
    if codes[:1] == [_NO_DEVICE] and writer_of(source) in ("torch_npu", "mindspore", "msprof"):
        why = message(f"finding.verdict.device_{without_device(file, survey) or 'unknown'}")
        return replace(found, verdict=(*found.verdict, why))
    return found


def capturing(trace: Trace) -> Message | None:
    """The note that the trace shows a graph's capture, in which nothing runs; None for other traces."""
    time = capture_time(trace)
    return message("finding.verdict.capturing", time=time, total=trace.end) if time > A_PART * trace.end else None


_LAUNCH = re.compile(r"(?:cuda|hip|musa|cu|xpu|ur)\w*Launch\w*", re.IGNORECASE)


def with_launches(found: Findings, trace: Trace, kind: str, source: Source | None = None) -> Findings:
    """``found`` with what is known of a trace without a device: launches of another device, or another tool's trace."""
    if kind == "opprof" and source is not None and (operator := measured_operator(source.path)) is not None:
        words = {"name": operator.name, "time": operator.time, "blocks": operator.blocks}
        return replace(found, verdict=(message("finding.verdict.one_operator", **words),))
    if [line.code for line in found.verdict if isinstance(line, Message)] != [_NO_DEVICE]:
        return found
    own = _WITHOUT_DEVICE.get(kind)
    return found if own is None else replace(found, verdict=tuple(own(trace)))


def _launched_verdict(trace: Trace) -> Iterator[Message]:
    """How much was launched on a device that was not recorded."""
    launches = np.array([_LAUNCH.match(name) is not None for name in trace.names] + [False])
    count = int(np.count_nonzero(launches[trace.slices.name[runtime_calls(trace)]]))
    yield message("finding.verdict.no_kernels", count=count) if count else message("finding.verdict.host_alone")


def _core_verdicts(trace: Trace) -> Iterator[Message]:
    """How busy the pipes of one kernel's cores were, or the cores that ran tasks; that any other is of another tool."""
    lanes, are_cores = core_lanes(trace)
    if not len(lanes):
        yield message("finding.verdict.other_tool")
        return
    times = lane_times(trace)
    at = np.searchsorted(times.lane, lanes)
    share = times.busy[at] / np.maximum(times.span[at], 1)
    named = [trace.lanes[lane] for lane in lanes.tolist()]
    cores = [lane.name if are_cores else trace.layers[lane.layer].name for lane in named]
    most = int(np.argmax(share))
    words = {"count": len(set(cores)), "time": int(times.span[at].max()), "core": cores[most], "pipe": named[most].name}
    yield message(f"finding.verdict.{'tasks' if are_cores else 'pipes'}", share=float(share[most]), **words)
    chain = np.argsort(-times.chained, kind="stable")[:NAMED]
    whole = int(times.chained.sum()) + times.between
    if not whole or not len(times.lane):
        return
    parts = [
        message("finding.shared", name=_called(trace, int(times.lane[k])), share=int(times.chained[k]) / whole)
        for k in chain.tolist()
        if times.chained[k]
    ]
    yield message("finding.verdict.chain", time=whole, parts=parts, between=times.between / whole)


_WITHOUT_DEVICE = {"kineto": _launched_verdict, "chrome_trace": _core_verdicts}
"""The verdict on a trace without a device, by its kind."""


def _called(trace: Trace, lane: int) -> str:
    known = trace.lanes[lane]
    return f"{trace.layers[known.layer].name} {known.name}"


def _advised(finding: Finding, instead: Message) -> Finding:
    advice = dict.fromkeys(instead if one.code in _RECORD else one for one in finding.advice)
    return replace(finding, advice=tuple(advice))


UNENDED = "RUN.UNENDED"


def _stuck(trace: Trace) -> list[int]:
    """The innermost slice of each lane that never ended, after the last task of the device began; collectives first.

    The host waits for them.
    """
    if UNFINISHED not in trace.categories:
        return []
    slices = trace.slices
    is_open = slices.category == trace.categories.index(UNFINISHED)
    kinds = np.array([trace.layers[lane.layer].kind for lane in trace.lanes])
    on_device: npt.NDArray[np.bool_] = kinds[slices.lane] == "hardware"
    done = slices.start[~is_open & on_device]
    if not len(done):
        return []
    stuck = np.flatnonzero(is_open & (slices.start >= done.max()))
    innermost = {int(slices.lane[item]): int(item) for item in stuck[np.argsort(slices.start[stuck], kind="stable")]}
    return sorted(innermost.values(), key=lambda item: (kinds[slices.lane[item]] != "communication", item))


def unended(facts: Facts) -> Draft | None:
    """The finding about what never ended, without a gain: how long it would have taken is not recorded."""
    trace, slices = facts.trace, facts.trace.slices
    items = _stuck(trace)
    if not items:
        return None
    names = [
        message("finding.unended.one", name=facts.name_of(item), start=int(slices.start[item]))
        for item in items[:NAMED]
    ]
    if len(items) > NAMED:
        names.append(message("finding.unended.more", count=len(items) - NAMED))
    places = tuple(facts.place(item, message("finding.unended.place")) for item in items)
    first, others = facts.name_of(items[0]), len(items) - 1
    return Draft(
        "high",
        message("finding.unended.titles" if others else "finding.unended.title", name=first, count=others),
        message("finding.unended.detail"),
        places,
        verdict=message("finding.unended", names=names),
    )


RULES: tuple[Rule, ...] = (
    Rule(
        UNENDED,
        cls="dispatch",
        inputs=("device",),
        check=unended,
        advice=("unended",),
        gpu=("unended_gpu",),
        pages=(pages.HCCL_TIMEOUT,),
        sources=("Trace Event Format: a beginning (B) without an end is open when the recording stops",),
    ),
)
