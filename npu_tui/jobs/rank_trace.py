"""What a trace says of its rank: calls, notifies between ranks, and when peers that are not on disk came.

Kernels of NCCL and RCCL are collectives too, by type, group and number within the group.

PyTorch writes these into the args of the kernel (``Collective name``, ``Process Group Name``, ``Process Group Ranks``,
``Seq``; from 2.2 on, not every version has all of them); without ``Collective name`` the name of the kernel has the
type. Source: torch/csrc/distributed/c10d/ParamCommsUtils.hpp, libkineto's output_json.cpp.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.calls import BLOCKING_OPERATIONS
from npu_tui.analysis.code_lines import losing_launches
from npu_tui.analysis.collectives import Collectives
from npu_tui.analysis.communication import ON_CHIP, faltering, owned_tasks
from npu_tui.analysis.device import DeviceSlices
from npu_tui.analysis.evidence import losses_of
from npu_tui.analysis.experts import ExpertPass, Pace, exchanging, paces, routed_rows
from npu_tui.analysis.kernels import core_clock
from npu_tui.analysis.launches import dequeued_launches, enqueue_of
from npu_tui.analysis.operators import collective_type
from npu_tui.analysis.overlap import DevicePart
from npu_tui.analysis.steps import Step
from npu_tui.jobs.model import (
    NO_PAIR,
    Busy,
    LinkUse,
    Notifies,
    Notify,
    RankCalls,
    RankProfile,
    RecordedCall,
    Seen,
    Sightings,
    StepTime,
    WaitedLine,
    WorkBefore,
    is_message,
    pair_of,
)
from npu_tui.jobs.passes import launched_at, passes_of
from npu_tui.jobs.rank_files import call_name, findings_of
from npu_tui.jobs.reasons import OPERATIONS
from npu_tui.jobs.role_steps import stints_added
from npu_tui.load.find import Source
from npu_tui.load.load import load
from npu_tui.profile.expert_tables import expert_layers_of
from npu_tui.profile.profile import Profile
from npu_tui.trace.arrays import I64, BySlice, in_groups
from npu_tui.trace.intervals import intersection, union
from npu_tui.trace.message import Message, message
from npu_tui.trace.model import Trace, bulk_of
from npu_tui.trace.recorder import communication_args, exchange_kernels, recorder_of
from npu_tui.trace.text import printable
from npu_tui.trace.transfers import NO_RANK, NOTIFY_WAIT, plane_task

_MOST_LINES = 8  # lines of code that are kept of a rank

_ARGS = ("notify_id", "src rank", "dst rank")
_NOTIFIES = (NOTIFY_WAIT, "notify_record")
_NO_NOTIFY = (1 << 64) - 1
"""What msprof writes for a task without a notify."""

_MOST_NOTIFIES = 8_192  # notifies that are kept of a rank; more of them bound its clock no better

_HOST_PACES = 16  # calls of CANN, and operations, that are kept of a rank: the launch of a kernel takes some ten

_OF_EXPERTS = {"ep", "exp", "expert"}  # words in the names of groups whose ranks share the experts

# ns: a wait that is no longer only says that the peer had come before (reference: ranks, section 3).
_ALREADY_THERE = 20


def with_trace(profile: RankProfile, source: Source, examined: bool = True) -> RankProfile:
    """``profile`` with what the trace of ``source`` adds to the files beside it. Raises ``InputError``.

    What is wrong with the rank alone takes most of the time, and is left out where it is not ``examined``.
    """
    measured = Profile(load(source), source)
    of_rank = replace(
        stints_added(profile, measured.trace),
        steps=profile.steps or tuple(_steps_of(measured)),
        lines=_lines_of(measured),
        findings=findings_of(measured) if examined else (),
        groups=profile.groups or measured.setup.groups,
        links=_links(profile.links, tuple(links_of(measured))),
        kind=recorder_of(measured.trace).kind or profile.kind,
        begun=_first_step_begun(measured),
        ended=_ended(measured),
        recorded=measured.trace.start_ns,
        problems=(*profile.problems, *_losses_in(measured, profile.rank), *_far_away(measured, profile.rank)),
    )
    of_rank = _with_paces(of_rank, measured)
    recorded = [*calls_of(measured), *_exchanges_of(measured, of_rank.groups)]
    if not recorded:
        return of_rank
    notifies = notifies_of(measured, profile.rank)
    calls, items = RankCalls.of(_with_pairs(recorded, notifies)), _judged_collectives(measured).item
    items = items[np.argsort(measured.trace.slices.start[items], kind="stable")]
    of_rank = replace(
        of_rank,
        calls=calls,
        notifies=Notifies.of(fewer(notifies)),
        seen=Sightings.of(seen_of(recorded, notifies)),
        passes=passes_of(measured, calls, launched_at(measured.trace, items)),
    )
    for part in measured.devices:
        if part.slices is not None and (part.slices.collective.any() or of_rank.experts):
            work = _work_of(measured, part, part.slices, calls)
            return replace(of_rank, work=work, busy=_busy_in(measured, part.slices, calls))
    return of_rank


def with_kernels(profile: RankProfile, source: Source) -> RankProfile:
    """``profile`` with the time that the device spent by kernel_details.csv, where no other file has it."""
    spent = Profile(load(source), source).tables.sums[1]
    if not spent.total:
        return profile
    step = StepTime("", spent.computing, spent.not_overlapped, spent.free, spent.total)
    return replace(profile, steps=(step,))


def with_passes(profile: RankProfile, source: Source) -> RankProfile:
    """``profile`` with what kernel_details.csv has: passes where it sends and receives, experts.

    Raises ``InputError``.
    """
    measured = Profile(load(source), source)
    if any(is_message(kind) for _, kind, _ in profile.calls.kinds):
        profile = replace(profile, passes=passes_of(measured, profile.calls))
    if exchanges := list(_exchanges_of(measured, profile.groups)):
        profile = replace(profile, calls=RankCalls.of([*profile.calls, *exchanges]))
    return _with_paces(profile, measured)


def _steps_of(profile: Profile) -> Iterator[StepTime]:
    """The steps of the trace by its first device, as step_trace_time.csv has them; a run without steps is one.

    A step that launched nothing, or whose launches are unknown, has no time on the device and is left out.
    """
    for step, sums in profile.step_sums:
        if sums and step.window is not None and sums[0].overlap.total:
            spent = sums[0].overlap
            name = "" if step.number is None else str(step.number)
            yield StepTime(name, spent.computing, spent.not_overlapped, spent.free, spent.total)


def _losses_in(profile: Profile, rank: int) -> list[Message]:
    """What the trace has lost of the slices that its collectives are."""
    losses = losses_of(printable(profile.trace.path), profile.health)
    return [message("job.lost", rank=rank, share=loss.share, why=loss.why) for loss in losses if loss.kind == "slices"]


def _far_away(profile: Profile, rank: int) -> Iterator[Message]:
    """The note on slices that are not judged because a wrong clock puts them far away."""
    bulk = bulk_of(profile.trace)
    if bulk is not None:
        yield message("job.far", rank=rank, count=bulk.far, hours=bulk.gap / 3.6e12)


def _first_step_begun(profile: Profile) -> int | None:
    """When the first step began, on the clock of the device; None without steps."""
    first = next((step for step in profile.steps if step.number is not None), None)
    return None if first is None else profile.trace.start_ns + _device_span(profile, first)[0]


def _ended(profile: Profile) -> int | None:
    """When the last step ended on the clock of the device, or the device did; None where it did nothing or jumps."""
    if profile.clock_jump is not None:
        return None
    ends = [_device_span(profile, step)[1] for step in profile.steps if step.number is not None]
    for device in profile.device_slices:
        busy = profile.trace.slices.end[device.busy]
        ends += [int(busy.max())] if len(busy) else []
    return profile.trace.start_ns + max(ends) if ends else None


def _device_span(profile: Profile, step: Step) -> tuple[int, int]:
    """When the slice of ``step`` begins and ends, ns on the clock of the device."""
    apart = next((facts.clocks_apart for facts in profile.facts), 0)
    slices = profile.trace.slices
    return int(slices.start[step.item]) + apart, int(slices.end[step.item]) + apart


_MOST_PASSES = 1 << 15  # MoE layers of passes that are kept of a rank: those of 500 tokens of a model with 61 layers


def _with_paces(profile: RankProfile, measured: Profile) -> RankProfile:
    """``profile`` with its MoE layers, and how fast its device and its host are."""
    kernels = measured.all_kernels
    return replace(
        profile,
        experts=tuple(_since_1970(measured)),
        paces=paces(kernels, expert_layers_of(measured)),
        host_paces=_host_paces(measured),
        clock=core_clock(measured.trace.counters, kernels.start + kernels.duration, kernels.duration),
        routed=routed_rows(kernels),
    )


def _host_paces(profile: Profile) -> tuple[Pace, ...]:
    """The calls of CANN, and the operations of the framework that do not wait, that are made most often.

    For each the usual length, which no single wait changes.
    """
    trace, slices = profile.trace, profile.trace.slices
    calls = sorted(profile.apis, key=lambda row: -row.count)[:_HOST_PACES]
    told = [(row.name, row.level, row.items) for row in calls]
    if "cpu_op" in trace.categories:
        asking = [name.startswith("aten::") and name not in BLOCKING_OPERATIONS for name in trace.names]
        asked = np.flatnonzero(slices.category == trace.categories.index("cpu_op"))
        asked = asked[np.array(asking, np.bool_)[slices.name[asked]]]
        counts = np.bincount(slices.name[asked], minlength=1)
        often = np.argsort(-counts, kind="stable")[:_HOST_PACES]
        told += [
            (trace.names[code], OPERATIONS, asked[slices.name[asked] == code])
            for code in often[counts[often] > 0].tolist()
        ]
    usual = [float(np.median(slices.end[items] - slices.start[items])) for _, _, items in told]
    return tuple(
        Pace(name, level, len(items), round(time * len(items)))
        for (name, level, items), time in zip(told, usual, strict=True)
    )


def _since_1970(profile: Profile) -> Iterator[ExpertPass]:
    """The MoE layers of the passes of ``profile``, ns since 1970."""
    begun = profile.tables.start_ns
    times = ("start", "end", "sent_start", "sent_end", "back_start", "back_end")
    for row in expert_layers_of(profile)[:_MOST_PASSES]:
        known = {name: getattr(row, name) for name in times}
        yield replace(row, **{name: time + begun for name, time in known.items() if time >= 0})


def _exchanges_of(profile: Profile, groups: Mapping[str, tuple[int, ...]]) -> Iterator[RecordedCall]:
    """The kernels that exchange tokens (MC2) as calls: no rank leaves one before all have come."""
    kernels, begun = profile.all_kernels, profile.tables.start_ns
    places = exchanging(kernels)
    windows = _step_windows(profile)
    # The kernel does not name its group: it is that of the experts, else all ranks of the job.
    group = next((ranks for name, ranks in groups.items() if set(name.lower().split("_")) & _OF_EXPERTS), ())
    for number, (at, word) in enumerate(places.items()):
        start = int(kernels.start[at])
        step = next((name for name, low, high in windows if low <= start < high), "")
        if not windows and "step" in kernels.details:
            step = kernels.details["step"].at(at) or ""
        kind, end = f"MoeDistribute{word}", start + int(kernels.duration[at])
        name = f"{kind} {list(group)}"
        yield RecordedCall(f"experts {list(group)}", kind, f"{name} {number}", step, None, begun + start, begun + end)


def _with_pairs(calls: list[RecordedCall], notifies: list[Notify]) -> list[RecordedCall]:
    """``calls`` with the two places that each message is between, where its notifies name one peer."""
    pairs: dict[str, set[int]] = defaultdict(set)
    for notify in notifies:
        if notify.place >= 0:
            pairs[notify.name].add(pair_of(notify.place, notify.peer))
    return [
        replace(call, pair=next(iter(pairs[call.name])))
        if is_message(call.type) and len(pairs.get(call.name, ())) == 1
        else call
        for call in calls
    ]


def fewer(notifies: list[Notify]) -> list[Notify]:
    """All of them, or those of some collectives.

    Which ones is a matter of the name alone, so that the ranks keep both halves of the same notifies; for messages,
    which each rank calls otherwise, of the id.
    """
    kept, stride = notifies, 1
    while len(kept) > _MOST_NOTIFIES and stride < 1 << 16:
        stride *= 2
        kept = [
            row
            for row in kept
            if zlib.crc32((str(row.key) if is_message(call_name(row.name)[0]) else row.name).encode()) % stride == 0
        ]
    return kept


def _busy_in(profile: Profile, device: DeviceSlices, calls: RankCalls) -> Busy:
    """When the device computed inside ``calls``."""
    slices, begun = profile.trace.slices, profile.trace.start_ns
    compute = np.flatnonzero(device.compute)
    computing = union(slices.start[compute].astype(np.int64), slices.end[compute].astype(np.int64))
    start, end = intersection(*computing, *union(calls.start - begun, calls.end - begun))
    return Busy(start + begun, end + begun)


def _work_of(profile: Profile, part: DevicePart, device: DeviceSlices, calls: RankCalls) -> WorkBefore:
    """What the device that makes ``calls`` did from start to start.

    A rank that waits in a collective goes on computing, which a slow one does before it comes.
    """
    trace = profile.trace
    high = calls.start - trace.start_ns
    low = np.concatenate((np.zeros(1, np.int64), high[:-1]))
    compute = np.flatnonzero(device.compute)
    start = trace.slices.start[compute].astype(np.int64)
    durations = (trace.slices.end[compute] - trace.slices.start[compute]).astype(np.int64)
    lost = np.zeros(len(low), np.int64)
    if part.launches is not None:
        target = trace.links.target_slice[part.launches.link]
        waited = np.rint(part.launches.lost).astype(np.int64)
        lost = _sum_in_segments(low, high, trace.slices.start[target].astype(np.int64), waited)
    kernels = _sum_in_segments(low, high, start, np.ones(len(start), np.int64))
    return WorkBefore(kernels, _sum_in_segments(low, high, start, durations), lost)


def _sum_in_segments(low: I64, high: I64, at: I64, value: I64) -> I64:
    """The sum of the values ``at`` times in [low, high] of every segment; a segment that ends before it begins is 0."""
    order = np.argsort(at, kind="stable")
    sums = np.concatenate((np.zeros(1, np.int64), np.cumsum(value[order])))
    first, last = np.searchsorted(at[order], low), np.searchsorted(at[order], high, "right")
    return np.asarray(np.where(last > first, sums[last] - sums[np.minimum(first, last)], 0))


def _lines_of(profile: Profile) -> tuple[WaitedLine, ...]:
    """The lines of code with the latest launches."""
    losses = [loss for device in profile.devices if device.launches is not None
              for loss, _ in losing_launches(profile.trace, device.launches)[:_MOST_LINES]]  # fmt: skip
    losses.sort(key=lambda loss: -loss.lost)
    return tuple(
        WaitedLine(loss.code.file, loss.code.line, round(loss.lost))
        for loss in losses[:_MOST_LINES]
        if loss.code is not None
    )


def calls_of(profile: Profile) -> list[RecordedCall]:
    """Every collective of the trace, ns since 1970.

    It belongs to the step that asked for it, else, without a link, to the one in whose window on the device it starts;
    before the first kernel, to the one that it starts in on the host.
    """
    trace = profile.trace
    windows = _step_windows(profile)
    calls, item = [], _judged_collectives(profile).item
    names = [trace.names[code] for code in trace.slices.name[item].tolist()]
    kernels = gpu_calls(trace, item)
    known = [(call.type, call.group, call.ordinal, call.pair) for call in kernels]
    known = known or [(*call_name(name), NO_PAIR) for name in names]
    counts = Counter[str]()
    for at in np.flatnonzero(np.isin(item, exchange_kernels(trace))).tolist() if not kernels else ():
        # Such a kernel names neither its group nor its number: equals of all ranks meet in their order.
        kind = type_of(names[at]) or collective_type(names[at])
        known[at], names[at] = (kind, "", None, NO_PAIR), f"{kind} {counts[kind]}"
        counts[kind] += 1
    numbered = [(str(step.number), step.item) for step in profile.steps if step.number is not None]
    hosts = [(name, int(trace.slices.start[at]), int(trace.slices.end[at])) for name, at in numbered]
    asked = _asked_at(trace, item)
    times = zip(trace.slices.start[item].tolist(), trace.slices.end[item].tolist(), asked.tolist(), strict=True)
    for name, (kind, group, ordinal, pair), (start, end, launched) in zip(names, known, times, strict=True):
        step = next((number for number, low, high in hosts if low <= launched < high), "")
        step = step or next((number for number, low, high in windows if low <= start < high), "")
        calls.append(RecordedCall(group, kind, name, step, ordinal, trace.start_ns + start, trace.start_ns + end, pair))
    return calls


def _asked_at(trace: Trace, items: I64) -> I64:
    """When the host asked for each slice, ns: where it entered the task queue, else when it was launched; (n,).

    The thread of the queue launches steps after the host asked, where the device is behind. -1 without a link.
    """
    link, dequeue = dequeued_launches(trace)
    enqueue = enqueue_of(trace, dequeue)
    known = enqueue >= 0
    queued = BySlice(trace.links.target_slice[link[known]], enqueue[known]).of(items)
    return np.where(queued >= 0, trace.slices.start[queued], launched_at(trace, items))


def _step_windows(profile: Profile) -> list[tuple[str, int, int]]:
    """The windows of numbered steps on the device, then those of their slices on the host: name, start, end."""
    numbered = [(str(step.number), step) for step in profile.steps if step.number is not None]
    windows = [(name, step.window.start, step.window.end) for name, step in numbered if step.window is not None]
    return windows + [(name, *_device_span(profile, step)) for name, step in numbered]


def _judged_collectives(profile: Profile) -> Collectives:
    """The collectives of the trace, without those that a wrong clock puts far away from all else, and of experts."""
    collectives, slices, bulk = profile.collectives, profile.trace.slices, bulk_of(profile.trace)
    if len(exchange_kernels(profile.trace)):
        kernels = profile.all_kernels
        collectives = collectives.taken(~np.isin(collectives.item, kernels.item[list(exchanging(kernels))]))
    if bulk is None:
        return collectives
    return collectives.taken(bulk.holds(slices.start[collectives.item], slices.end[collectives.item]))


def _links(told: tuple[LinkUse, ...], seen: tuple[LinkUse, ...]) -> tuple[LinkUse, ...]:
    """What a file has ``told`` of links, with those that falter by the tasks ``seen``; all of these without a file."""
    return (*told, *(use for use in seen if use.slow)) if told else seen


def links_of(profile: Profile) -> Iterator[LinkUse]:
    """What links carried by the tasks of collectives: of each operation and size the usual speed between two places."""
    trace, planes = profile.trace, communication_args(profile.trace).planes
    item = _judged_collectives(profile).item
    owner, _, task = owned_tasks(trace, item)
    row = np.searchsorted(planes.item, task)
    source, target, size = planes.source_rank[row], planes.target_rank[row], planes.size[row]
    time = trace.slices.end[task] - trace.slices.start[task]
    carried = planes.over(lambda name: name not in ("", ON_CHIP, "INVALID_TYPE"))[row]
    used = np.flatnonzero(carried & (np.minimum(source, target) >= 0) & (source != target) & (size > 0) & (time > 0))
    called, code = np.unique(trace.slices.name[item[owner[used]]], return_inverse=True)
    operations = [call_name(trace.names[name])[:2] for name in called.tolist()]
    every = sorted(set(operations))
    place = np.array([every.index(operation) for operation in operations], np.int64)[code.reshape(-1)]
    classes = np.log2(size[used]).round().astype(np.int64)
    rows = np.column_stack((place, source[used], target[used], planes.link[row[used]], classes))
    kinds, kind = np.unique(rows, axis=0, return_inverse=True)
    speeds, of_kind = size[used] / time[used], kinds[kind.reshape(-1)]
    for uses in in_groups(kind.reshape(-1)):
        at, here, there, way, _ = of_kind[uses[0]].tolist()
        slowly = faltering(speeds[uses])
        usual = speeds[uses] if slowly is None else speeds[uses][~slowly]
        times = () if slowly is None else (len(uses), int(slowly.sum()), float(np.median(speeds[uses][slowly])))
        moved = float(np.median(size[used[uses]])) / 1e6
        way_name = "RDMA" if planes.links[way] == "ROCE" else planes.links[way]  # as communication_matrix.json calls it
        link = here, there, way_name, every[at][0], moved, float(np.median(usual)), every[at][1]
        yield LinkUse(*link, *times)


def notifies_of(profile: Profile, rank: int) -> list[Notify]:
    """Every record for a peer and every wait for one inside a collective; peers are places in its group.

    Raises ``InputError`` if the file is gone or has changed.
    """
    trace, slices = profile.trace, profile.trace.slices
    calls = _judged_collectives(profile).item
    owner, _, items = owned_tasks(trace, calls)
    notifying = np.array([plane_task(name) in _NOTIFIES for name in trace.names] + [False])[slices.name[items]]
    # Where collectives of a group overlap the one that begins last counts.
    items, at = np.unique(items[notifying][::-1], return_index=True)
    calls_of = calls[owner[notifying][::-1][at]]
    ids, places, peers = trace.args.many(slices.event[items], _ARGS)
    notifies = []
    for item, id, place, peer, call in zip(items.tolist(), ids, places, peers, calls_of.tolist(), strict=True):
        start, end, task = int(slices.start[item]), int(slices.end[item]), plane_task(trace.name_of(item))
        key = _notify_id(id)
        # A task that does not name its own place names its peer by the rank of the job.
        here = place if type(place) is int and 0 <= place != NO_RANK else rank
        if key is None or type(peer) is not int or peer in (NO_RANK, here) or peer < 0:
            continue
        name, begun = trace.names[slices.name[call]], trace.start_ns
        notifies.append(Notify(task == NOTIFY_WAIT, peer, name, key, begun + start, begun + end, here))
    return notifies


def _notify_id(value: object) -> int | None:
    """The id that a text or a number is; None for none."""
    if isinstance(value, str) and value.isdecimal() and len(value) <= 20:
        value = int(value)
    return value if type(value) is int and 0 <= value < _NO_NOTIFY else None


def seen_of(calls: list[RecordedCall], notifies: list[Notify]) -> list[Seen]:
    """When the peers of each collective came: the first wait for each ends then, or they had come before."""
    start = {call.name: call.start for call in calls}
    first: dict[tuple[str, int], Notify] = {}
    for notify in notifies:
        key = notify.name, notify.peer
        if notify.waits and (key not in first or notify.start < first[key].start):
            first[key] = notify
    return [
        Seen(name, peer, wait.end - start[name], wait.end - wait.start <= _ALREADY_THERE, wait.place)
        for (name, peer), wait in first.items()
    ]


_TYPES = {
    "allreduce": "allReduce", "allgather": "allGather", "reducescatter": "reduceScatter", "alltoall": "alltoAll",
    "broadcast": "broadcast", "barrier": "barrier", "sendrecv": "sendRecv", "send": "send", "recv": "receive",
}  # fmt: skip
"""What the letters of a name hold, and the type: ``_allgather_base`` and ``all_gather_single`` are one."""
_NO_LETTER = re.compile("[^a-z]")


class GpuCall(Struct, frozen=True):
    """A collective: ``group`` is the same text on all ranks of a group, ``ordinal`` None where no ``Seq`` is there.

    ``pair`` stands for the two ranks of a message, ``NO_PAIR`` where they are not recorded.
    """

    type: str
    group: str
    ordinal: int | None
    pair: int = NO_PAIR


def gpu_calls(trace: Trace, items: I64) -> list[GpuCall]:
    """What each of the kernels ``items`` of a communication library is; empty where args do not tell it.

    Raises ``InputError`` if the file is gone or has changed.
    """
    args = recorder_of(trace).collective_args
    columns = (column.objects for column in trace.args.columns(trace.slices.event[items], args)) if args else ()
    names = [trace.names[code] for code in trace.slices.name[items].tolist()]
    return [
        GpuCall(
            type_of(called) or type_of(name) or "",
            _group_of(group, ranks),
            number if type(number) is int and number >= 0 else None,
            pair_of(*ends) if all(type(end) is int and end >= 0 for end in ends) and ends[0] != ends[1] else NO_PAIR,
        )
        for name, (called, group, ranks, number, *ends) in zip(names, zip(*columns, strict=True), strict=False)
    ]


def type_of(name: Any) -> str:
    """``allGather`` of ``_allgather_base`` or ``ncclDevKernel_AllGather_RING_LL(…)``; empty where it says nothing."""
    letters = _NO_LETTER.sub("", name.partition("(")[0].lower()) if isinstance(name, str) else ""
    return next((kind for word, kind in _TYPES.items() if word in letters), "")


def _group_of(name: Any, ranks: Any) -> str:
    """``1 [0, 1]``: split groups have equal names on ranks that never meet, and groups of the same ranks differ."""
    if isinstance(ranks, str):
        with suppress(ValueError):  # the list of a large group is cut: [0, 1, ..., 1023]
            ranks = json.loads(ranks)
    members = ", ".join(map(str, ranks)) if isinstance(ranks, list) else str(ranks or "").strip("[]")
    words = [str(name) if isinstance(name, str | int) else "", f"[{members}]" if members else ""]
    return " ".join(word for word in words if word)
