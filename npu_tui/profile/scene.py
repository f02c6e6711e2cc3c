"""The scene of profiles: what the view draws beside the slices, from the analysis of launches and memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import PurePath

import numpy as np

from npu_tui.analysis.code_lines import CodeLine
from npu_tui.analysis.cpu_time import INTERRUPT, CpuTime, thread_timeline
from npu_tui.analysis.drains import backlog, host_lead, waiting
from npu_tui.analysis.launches import Dispatch
from npu_tui.analysis.memory import AMOUNTS, APP, MemoryCurve, MemoryUse
from npu_tui.analysis.overlap import COMMUNICATION, COMPUTING, FREE, NOT_OVERLAPPED
from npu_tui.profile.file_tables import port_samples
from npu_tui.profile.profile import Profile
from npu_tui.profile.snapshot_memory import memory_of_device
from npu_tui.rules.model import Finding
from npu_tui.strings import say
from npu_tui.trace.classes import OpClass
from npu_tui.trace.intervals import union
from npu_tui.trace.message import Message, message
from npu_tui.trace.model import Lane, Layer, Trace
from npu_tui.trace.scheduling import NOBODY, WAITS, Scheduling, State
from npu_tui.trace.text import brief
from npu_tui.view.scene import (
    Chart,
    CpuClass,
    FindingMark,
    LinkClasses,
    LinkShape,
    Losses,
    Scene,
    StackedArea,
    StepFunction,
)  # fmt: skip

_LARGE = 100 * 2**20
_NO_LANES = Layer(0, -1, "Ascend Hardware", "hardware", None, None, ())
"""The layer for the curves of memory where there is no trace."""


def make_scene(profiles: Sequence[Profile]) -> Scene:
    """The scene of ``profiles``, with the launches of every device of each; findings come later."""
    traces = [_with_memory_layer(profile.trace) for profile in profiles]
    marks, charts = [_link_classes(profile) for profile in profiles], [_charts(profile) for profile in profiles]
    return Scene(traces, marks, charts, [_losses(profile.dispatch) for profile in profiles])


def _with_memory_layer(trace: Trace) -> Trace:
    """``trace``; where only the tables of a profile are there, with a layer for the curves of memory."""
    return trace if trace.layers else replace(trace, layers=[_NO_LANES])


def finding_marks(findings: Iterable[Finding]) -> list[FindingMark]:
    """Marks over the evidence of the ``findings`` (all of a profile, in order) that shorten the step.

    The first finding is drawn last, over the others.
    """
    ladder = [
        (number, finding)
        for number, finding in enumerate(findings, 1)
        if finding.step_after_ns is not None and finding.part_of is None and not finding.hidden
    ]
    return [
        FindingMark(start, end, str(number), finding.severity)
        for number, finding in reversed(ladder)
        for start, end in _covered_times([(place.start, place.end) for place in finding.evidence])
    ]


def _covered_times(places: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Start and end of the times that ``places`` cover together, ns."""
    times = np.array(places, np.int64).reshape(-1, 2)
    start, end = union(times[:, 0], times[:, 1])
    return list(zip(start.tolist(), end.tolist(), strict=True))


def _link_classes(profile: Profile) -> LinkClasses:
    marks = LinkClasses.plain(len(profile.trace.links))
    for device in profile.dispatch:
        shape = np.select(
            [device.near_vertical, device.shallow], [LinkShape.NEAR_VERTICAL, LinkShape.SHALLOW], LinkShape.QUEUED
        )
        marks.shape[device.link] = shape
        marks.lost[device.link] = np.rint(device.lost)
        marks.starved[device.link] = device.starved
    return marks


def _charts(profile: Profile) -> list[Chart]:
    """Lead and queue depth of every device that is launched to, under its layer; of a snapshot curves of memory."""
    trace, charts = profile.trace, list[Chart]()
    if trace.snapshot is not None:
        layer_of = {layer.pid: layer for layer in trace.layers}
        for number, held in enumerate(trace.snapshot.devices):
            memory, of_device = memory_of_device(trace.snapshot, held, trace.start_ns), layer_of[number]
            if (curve := memory.curve("allocated")) is not None:
                area = cache(partial(_held_over_time, trace, memory, curve))
                total = partial(_sum_of_holders, area)
                charts.append(Chart("stack", of_device.index, say("chart.stack"), total, area=area))
            charts += _memory_charts(trace, memory, of_device)
        return charts
    for device in profile.dispatch:
        layers = [layer for layer in trace.layers if layer.kind == "hardware" and layer.lanes]
        layer = next((layer for layer in layers if layer.device == device.device), None)
        if layer is not None:
            charts.append(Chart("lead", layer.index, say("chart.lead"), partial(_lead, trace, device)))
            charts.append(Chart("depth", layer.index, say("chart.depth"), partial(_depth, profile, device.device)))
    return charts + _overlap_charts(profile)


def _overlap_charts(profile: Profile) -> list[Chart]:
    """The lanes of the overlap analysis of a trace that has none, computed of its slices, below the first device."""
    layers = profile.trace.layers
    layer = next((layer for layer in layers if layer.kind == "hardware" and layer.lanes), None)
    if layer is None or any(layer.kind == "overlap" and layer.lanes for layer in layers) or not profile.compute.any():
        return []
    names = {"compute": COMPUTING, "communication": COMMUNICATION, "exposed": NOT_OVERLAPPED, "free": FREE}
    if not (profile.trace.slices.op_class == OpClass.COMMUNICATION).any():
        del names["communication"], names["exposed"]
    return [
        Chart("share", layer.index, say(f"chart.{name}"), partial(_going_on, profile, part))
        for name, part in names.items()
    ]


def _going_on(profile: Profile, part: str) -> StepFunction:
    """1 while ``part`` of the overlap analysis goes on, on any device."""
    intervals = [
        {
            COMPUTING: overlap.computing,
            COMMUNICATION: overlap.communication,
            NOT_OVERLAPPED: overlap.not_overlapped,
        }.get(part, overlap.free)
        for overlap in profile.overlap_lanes
    ]
    none = np.zeros(0, np.int64)
    start, end = union(
        np.concatenate([none, *(interval[0] for interval in intervals)]),
        np.concatenate([none, *(interval[1] for interval in intervals)]),
    )
    time = np.stack((start, end), 1).reshape(-1)
    return StepFunction(time, np.arange(len(time)) % 2 ^ 1, int(end[-1]) if len(end) else 0)


def memory_charts(profile: Profile) -> list[Chart]:
    """Curves of memory under the first layer of the device, those of the framework first; none without files.

    Of the components of the device those are drawn that reach 100 MiB, as their table shows all.
    """
    trace = profile.trace
    if trace.snapshot is not None:
        return []  # they are there at once
    layers = trace.layers or [_NO_LANES]
    layer = next((layer for layer in layers if layer is _NO_LANES or (layer.kind == "hardware" and layer.lanes)), None)
    return [] if layer is None else _memory_charts(trace, profile.memory, layer)


def _memory_charts(trace: Trace, memory: MemoryUse, layer: Layer) -> list[Chart]:
    curves = [curve for amount in AMOUNTS if (curve := memory.curve(amount)) is not None]
    top = max((curve.peak[1] for curve in curves), default=0)
    curves += [memory.gap] if memory.gap is not None else []
    rows = [(say(f"chart.memory.{curve.amount}"), curve, top) for curve in curves]
    if memory.process is not None:
        rows.append((say("chart.memory.process"), memory.process, 0))
    large = [curve for curve in memory.modules if curve.peak[1] >= _LARGE and curve.component != APP]
    rows += [(say("chart.memory.module", name=curve.component), curve, 0) for curve in large]
    return [Chart("memory", layer.index, name, partial(_bytes, trace, curve), most) for name, curve, most in rows]


def network_charts(profile: Profile) -> list[Chart]:
    """What each port of the network cards carries, under the layer of its device; none without nic.csv and roce.csv."""
    trace = profile.trace
    layers = [layer for layer in trace.layers if layer.kind == "hardware" and layer.lanes]
    charts = []
    for transport, device, port, time, speed in port_samples(profile) if layers else ():
        layer = next((layer for layer in layers if layer.device == device), layers[0])
        name = " ".join([transport, *(str(number) for number in (port,) if number is not None)])
        end = max(trace.end, int(time[-1]) + 1)
        charts.append(Chart("network", layer.index, name, partial(StepFunction, time, speed, end)))
    return charts


def cpu_charts(profile: Profile) -> list[Chart]:
    """What the kernel did with each host thread that its recording is known to hold, below the first lane of it."""
    known, trace = profile.cpu, profile.trace
    if not isinstance(known, CpuTime):
        return []
    lanes: dict[int, Lane] = {}
    for layer in sorted(trace.layers, key=lambda layer: layer.kind != "python"):
        if layer.kind in ("python", "cann"):
            for number in layer.lanes:
                lanes.setdefault(trace.lanes[number].tid, trace.lanes[number])
    return [
        Chart("cpu", lanes[thread].layer, say("chart.cpu"), partial(_cpu, known, task), lane=lanes[thread].index)
        for thread, task in known.threads.items()
        if thread in lanes
    ]


def _cpu(known: CpuTime, task: int) -> StepFunction:
    """The states of thread ``task`` over time (``CpuClass`` and its sentence), with who had its CPU."""
    time, *codes = thread_timeline(known.scheduling, task, known.trace.end)
    distinct, number = np.unique(np.stack(codes), axis=1, return_inverse=True)
    places = [_doing(known.scheduling, *code) for code in distinct.T.tolist()]
    value = np.array([kind + 8 * place for place, (kind, _) in enumerate(places)], np.int64)
    return StepFunction(time, value[number.ravel()], known.trace.end, [legend for _, legend in places])


def _doing(scheduling: Scheduling, part: int, by: int, cpu: int) -> tuple[CpuClass, Message]:
    """The class that a lane draws while a thread is in state ``part``, and the sentence that tells the state."""
    name = scheduling.sources[by] if part == INTERRUPT else scheduling.name_of(by)
    words = {"name": brief(name, 40), "cpu": cpu}
    if part == INTERRUPT:
        return CpuClass.TAKEN, message("chart.cpu.interrupt", **words)
    if part in WAITS:
        who = "waiting" if name else "nobody" if by == NOBODY else "idle"
        return CpuClass.TAKEN, message(f"chart.cpu.{who}", **words)
    if part == State.asleep:
        return CpuClass.NOTHING, message("chart.cpu.asleep_until" if name else "chart.cpu.asleep", **words)
    if part == State.running:
        return CpuClass.RUNNING, message("chart.cpu.running", **words)
    kind = CpuClass.TAKEN if part == State.blocked else CpuClass.UNKNOWN
    return kind, message("chart.cpu.blocked" if part == State.blocked else "chart.cpu.unknown")


def _bytes(trace: Trace, curve: MemoryCurve) -> StepFunction:
    return StepFunction(curve.time, curve.value, max(trace.end, int(curve.time[-1]) + 1))


_NAMED = 6
"""Holders of a stacked area: more are slivers, whose names nobody reads."""


def _held_over_time(trace: Trace, memory: MemoryUse, curve: MemoryCurve) -> StackedArea:
    """What the largest holders of ``memory`` at its peak have over time, and what all others have."""
    held, time = memory.allocations, curve.time
    line = np.full(len(held), -1, np.int64) if held.line is None else held.line
    pairs, of_pair = np.unique(np.stack((held.name.code, line)), axis=1, return_inverse=True)
    holders: dict[CodeLine | str, int] = {}
    of = np.array(
        [holders.setdefault(_holder_of_allocation(memory, *pair), len(holders)) for pair in pairs.T.tolist()], np.int64
    )
    of = of[of_pair.reshape(-1)]
    alive = held.alive(curve.peak[0])
    largest = np.argsort(-np.bincount(of[alive], held.size[alive], len(holders)), kind="stable")[:_NAMED]
    value = np.zeros((len(largest) + 1, len(time)), np.int64)
    for row, chosen in enumerate(largest.tolist()):
        own = np.flatnonzero(of == chosen)
        for moments, sign in ((held.start[own], 1), (held.end[own], -1)):
            at = np.searchsorted(time, moments, "left")
            there = at < len(time)
            np.add.at(value[row], at[there], sign * held.size[own][there])
    value = np.cumsum(value, axis=1)
    value[-1] = np.maximum(curve.value - value[:-1].sum(axis=0), 0)
    named = [[*holders][chosen] for chosen in largest.tolist()]
    short = Counter(_holder_text(holder) for holder in named)
    names = [_holder_text(holder, short[_holder_text(holder)] > 1) for holder in named]
    return StackedArea((*names, say("chart.stack.others")), time, value, max(trace.end, int(time[-1]) + 1))


def _holder_text(holder: CodeLine | str, file: bool = False) -> str:
    """The function and line of ``holder``, or its ``file`` and line, where it is a line of code."""
    if isinstance(holder, str):
        return holder
    return f"{PurePath(holder.file).name if file else holder.function}:{holder.line}"


def _holder_of_allocation(memory: MemoryUse, name: int, line: int) -> CodeLine | str:
    """Whose an allocation is: the line of the user's code, else the name that it has."""
    held = memory.allocations
    place = held.lines[line] if 0 <= line < len(held.lines) else None
    if isinstance(place, CodeLine):
        return place
    return held.name.values[name] if name >= 0 else say("memory.unknown")


def _sum_of_holders(area: Callable[[], StackedArea]) -> StepFunction:
    """The bytes that all holders have together, over time."""
    found = area()
    return StepFunction(found.time, found.value.sum(axis=0), found.end)


def _lead(trace: Trace, launches: Dispatch) -> StepFunction:
    """The lead of the launch whose kernel starts next, over time; it holds until that kernel starts."""
    lead, target = host_lead(trace, launches), trace.links.target_time[launches.link]
    known = ~np.isnan(lead)
    begins, first = np.unique(target[known], return_index=True)
    if len(begins) == 0:
        return StepFunction(begins, begins, 0)
    lowest = np.rint(np.minimum.reduceat(lead[known], first)).astype(np.int64)
    before = launches.ready[known][0]
    return StepFunction(np.append(min(before, begins[0] - 1), begins[:-1]), lowest, int(begins[-1]))


def _depth(profile: Profile, device: int | None) -> StepFunction:
    """The launches in flight from the first one on."""
    trace = profile.trace
    pairs = next(part.pairs for part in profile.devices if part.device == device and part.pairs is not None)
    time, depth, _ = backlog(pairs)
    time = np.rint(time).astype(np.int64)
    last = np.append(time[1:] != time[:-1], True)
    return StepFunction(time[last], depth[last], max(trace.end, int(time[-1]) + 1))


def _losses(devices: list[Dispatch]) -> Losses:
    losses = [waiting(device) for device in devices]
    return Losses(*(np.concatenate(parts) for parts in zip(*losses, strict=True))) if losses else Losses.none()
