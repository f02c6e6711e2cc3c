"""The scene of profiles: what the view draws beside the slices, from the analysis of launches and memory.

The critical paths are lanes of it, one a device: the owner of every stretch, and where it runs.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from pathlib import PurePath

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.code_lines import CodeLine
from npu_tui.analysis.cpu_time import INTERRUPT, CpuTime, thread_timeline
from npu_tui.analysis.drains import backlog, host_lead, waiting
from npu_tui.analysis.launches import Dispatch
from npu_tui.analysis.memory import AMOUNTS, APP, MemoryCurve, MemoryUse
from npu_tui.analysis.overlap import COMMUNICATION, COMPUTING, FREE, NOT_OVERLAPPED
from npu_tui.analysis.owners import owners
from npu_tui.analysis.path import (
    COMPUTE,
    COPY,
    HOST,
    LATENCY,
    NO_PEER,
    TRANSFER,
    UNEXPLAINED,
    Owner,
    Owners,
    Path,
    critical_path,
)
from npu_tui.analysis.replay import Change, Replay
from npu_tui.native.cells import spread
from npu_tui.profile.file_tables import port_samples
from npu_tui.profile.profile import Profile
from npu_tui.profile.snapshot_memory import memory_of_device
from npu_tui.rules.facts import Facts
from npu_tui.rules.judged_path import JudgedPath, owner_name, owner_text, short_call
from npu_tui.rules.model import Finding
from npu_tui.strings import say, words
from npu_tui.trace.arrays import I8, I32, I64, Bools
from npu_tui.trace.classes import OpClass
from npu_tui.trace.folded_rows import folded_row
from npu_tui.trace.intervals import union
from npu_tui.trace.message import Message, message
from npu_tui.trace.model import Lane, Layer, Trace, make_rows
from npu_tui.trace.recorder import launch_links
from npu_tui.trace.scheduling import NOBODY, WAITS, Scheduling, State
from npu_tui.trace.text import brief, drawable
from npu_tui.view.path_lane import PathLane, PathMarks
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
)

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
    return trace if trace.layers else dataclasses.replace(trace, layers=[_NO_LANES])


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
    """Lead and queue depth of every device that is launched to, under its layer; for a snapshot curves of memory."""
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

    Components of the device are drawn if they reach 100 MiB, as their table shows all.
    """
    trace = profile.trace
    if trace.nature.has_holders:
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
    """The class that a lane draws while a thread is in state ``part``, and the sentence about that state."""
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
"""Holders of a stacked area: more would be slivers without room for a name."""


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
    """The owner of an allocation: the line of the user's code, else the name that it has."""
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


_OF_HOST = ("python", "cann")


class ShownPath(Struct, eq=False):
    """A critical path with its ``lane``, None where it is not known; ``longest`` has the stretches by length."""

    told: JudgedPath
    lane: PathLane | None = None
    longest: I64 = np.zeros(0, np.int64)

    @property
    def found(self) -> Owners:
        """The stretches and their owners."""
        assert self.told.owners is not None
        return self.told.owners

    def lasts(self, stretch: int) -> int:
        """How long a stretch lasts, ns."""
        path = self.found.path
        return int(path.end[stretch] - path.start[stretch])

    @property
    def length(self) -> int:
        """How long the path is, ns."""
        return self.found.path.length

    def owner_name(self, number: int) -> str:
        """What owner ``number`` is called."""
        assert self.lane is not None
        return self.lane.names[number].partition("\n")[0]

    def name(self, stretch: int) -> str:
        """The owner of a stretch, in words."""
        return self.owner_name(int(self.found.owner[stretch]))


def shown_paths(profile: Profile) -> list[ShownPath]:
    """The paths of all devices of ``profile``; raises ``InputError`` as ``critical_paths`` does."""
    paths = profile.critical_paths
    tids = {part.device: replay.model.tids for part, replay in profile.replays if replay is not None} if paths else {}
    return [_shown_path(profile.trace, told, tids.get(told.device, np.zeros(0, np.int64))) for told in paths]


def path_charts(trace: Trace, shown: Sequence[ShownPath]) -> list[Chart]:
    """A lane for each of the known paths of ``trace``."""
    layers = [layer for layer in trace.layers if layer.kind == "hardware" and layer.lanes]
    charts, lanes = [], [path for path in shown if path.lane is not None]
    for path in lanes:
        layer = next((layer for layer in layers if layer.device == path.told.device), None)
        if layer is None or path.lane is None:
            continue
        name = say("lane.path_of", device=path.told.device) if len(lanes) > 1 else say("lane.path")
        charts.append(Chart("path", layer.index, name, partial(_step_function_without_steps, trace), path=path.lane))
    return charts


def _step_function_without_steps(trace: Trace) -> StepFunction:
    none = np.zeros(0, np.int64)
    return StepFunction(none, none, trace.end)


def played_path(profile: Profile, facts: Facts, replay: Replay, change: Change, played: Trace, place: I64) -> ShownPath:
    """The path of the run of ``replay`` with ``change``, as ``analysis.film`` has ``played`` it.

    ``place`` is the number of each recorded slice there. The gain of an owner is what is gained beside ``change``.
    """
    path = critical_path(replay, change)
    found = owners(replay, profile.types_of, path, facts.judged, change)
    path = replace(found.path, item=place[found.path.item])
    told = JudgedPath(facts.part.device, facts.unit_name, facts.count, replay.model.floor, replace(found, path=path))
    return _shown_path(played, told, replay.model.tids)


def _shown_path(trace: Trace, told: JudgedPath, tids: I64) -> ShownPath:
    found = told.owners
    if found is None or not len(found.path):
        return ShownPath(told)
    path = found.path
    longest = np.argsort(path.start - path.end, kind="stable")
    names = ["\n".join(_forms(trace, owner)) for owner in found.owners]
    marks, item = _path_marks(trace, path, tids, told.floor)
    rows = make_rows(np.array([0, len(path)], np.int64), item, path.start, path.end)
    owner = found.owner.astype(np.int32)
    return ShownPath(
        told,
        PathLane(rows, _stretch_classes(trace, found), owner, names, marks, _launching_links(trace, path)),
        longest,
    )


def _forms(trace: Trace, owner: Owner) -> list[str]:
    """What an owner is called, in ever fewer words."""
    whole = words(owner_text(trace, owner))
    short = words(owner_name(trace, owner))
    if owner.doing == "device" and owner.kind in ("latency", "device_gap", "unexplained"):
        short = say(f"path.kind.{owner.kind}")
    elif owner.doing == "launch":
        short = say("path.owner.launching")
    last = short if owner.doing != "wait" else short_call(owner.name)
    last = last.rpartition(".")[2] if " " not in last else last  # ``__next__`` of torch.utils.data.dataloader
    return [drawable(text) for text in dict.fromkeys((whole, short, last or short))]


def _stretch_classes(trace: Trace, found: Owners) -> I8:
    """How each stretch is drawn: work as such, launching as what fills queues, all waiting as waits."""
    path = found.path
    launches = np.array([owner.doing == "launch" for owner in found.owners])[found.owner]
    item = np.maximum(path.item, 0)
    kernel = trace.slices.op_class[item] if len(trace.slices) else np.zeros(len(item), np.int8)
    classes = np.select(
        [path.kind == HOST, path.kind == COMPUTE, path.kind == COPY, path.kind == TRANSFER, path.kind == UNEXPLAINED],
        [
            np.where(launches, int(OpClass.QUEUE), int(OpClass.OP)), kernel, int(OpClass.MEMORY),
            int(OpClass.COMMUNICATION), int(OpClass.OTHER),
        ],
        int(OpClass.WAIT),
    )  # fmt: skip
    return classes.astype(np.int8)


def _path_marks(trace: Trace, path: Path, tids: I64, floor: int) -> tuple[PathMarks, I32]:
    """Where ``path`` runs through slices: those it is about, on the host the innermost ones of each thread.

    Then the slice of every stretch, on the host the one that it spends most time in; -1 without one.
    """
    slices = trace.slices
    kinds = np.array([trace.layers[lane.layer].kind in _OF_HOST for lane in trace.lanes], np.bool_)
    columns: list[tuple[I64, I64, I64, I64]] = []
    about = np.flatnonzero((path.item >= 0) & (path.kind != HOST))
    item = path.item[about]
    shift = np.where(kinds[slices.lane[item]], 0, floor)
    columns.append((item, path.start[about] + shift, path.end[about] + shift, about))
    for lane in trace.lanes:
        thread = np.flatnonzero(tids == lane.tid)
        if not len(thread) or not kinds[lane.index] or lane.derived:
            continue
        own = np.flatnonzero((path.kind == HOST) & (path.thread == thread[0]))
        pieces = folded_row(trace, lane)
        low = np.searchsorted(pieces.end, path.start[own], "right")
        count = np.maximum(np.searchsorted(pieces.start, path.end[own]) - low, 0)
        at, stretch = spread(low, count), np.repeat(own, count)
        start = np.maximum(pieces.start[at], path.start[stretch])
        end = np.minimum(pieces.end[at], path.end[stretch])
        columns.append((pieces.item[at].astype(np.int64), start, end, stretch))
    item, start, end, stretch = (np.concatenate(column) for column in zip(*columns, strict=True))
    start, end = np.maximum(start, slices.start[item]), np.minimum(end, slices.end[item])
    lasting = np.flatnonzero(end > start)
    item = item[lasting]
    of_lane = slices.lane[item].astype(np.int32)
    first_row = np.array([lane.first_row for lane in trace.lanes], np.int32)
    row: I32 = (first_row[of_lane] + slices.depth[item]).astype(np.int32)
    start, end, stretch = start[lasting], end[lasting], stretch[lasting]
    about_most = np.where(path.kind == HOST, -1, path.item)
    order = np.lexsort((end - start, stretch))
    order = order[np.append(stretch[order][1:] != stretch[order][:-1], True)[: len(order)]]
    order = order[path.kind[stretch[order]] == HOST]
    about_most[stretch[order]] = item[order]
    return PathMarks.sorted(of_lane, row, start, end, stretch.astype(np.int32)), about_most.astype(np.int32)


def _launching_links(trace: Trace, path: Path) -> Bools:
    """Which links launch what the path comes to from the host."""
    taken = np.zeros(len(trace.links), np.bool_)
    links = launch_links(trace)
    on_host = np.append(False, path.kind[:-1] == HOST)
    launched = path.item[(path.kind == LATENCY) & on_host & (path.item >= 0) & (path.peer == NO_PEER)]
    if len(links) and len(launched):
        is_launched = np.zeros(len(trace.slices) + 1, np.bool_)
        is_launched[launched] = True
        taken[links[is_launched[trace.links.target_slice[links]]]] = True
    return taken
