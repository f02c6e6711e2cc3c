"""What a trace tells of its rank: calls, notifies between ranks, and when peers that are not on disk came."""

from __future__ import annotations

import zlib
from collections import defaultdict

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from npu_tui.analysis.code_lines import losing_launches
from npu_tui.jobs.model import (  # fmt: skip
    Busy,
    Call,
    Calls,
    Line,
    Notify,
    RankProfile,
    Seen,
    Told,
    Work,
    is_message,
    pair_of,
)
from npu_tui.jobs.rank_files import call_name
from npu_tui.load.find import Source
from npu_tui.load.load import load
from npu_tui.profile.profile import Profile
from npu_tui.trace.intervals import intersection, union
from npu_tui.trace.transfers import NO_RANK, plane_tasks

I64 = npt.NDArray[np.int64]

_MOST_LINES = 8
_MOST_TOLD = 5
"""Lines of code and findings that are kept of a rank."""

_ARGS = ("notify_id", "src rank", "dst rank")
_NOTIFIES = ("Notify_Wait", "Notify_Record", "Notify Wait", "Notify Record")
_NO_NOTIFY = (1 << 64) - 1
"""What msprof writes for a task without a notify."""

_MOST_NOTIFIES = 8_192
"""Notifies that are kept of a rank: so many bound its clock as well as all of them."""

_ALREADY_THERE = 20
"""ns: a wait that is no longer only says that the peer had come before (reference: ranks, section 3)."""


def with_trace(profile: RankProfile, source: Source) -> RankProfile:
    """``profile`` with what the trace of ``source`` adds to the files beside it. Raises ``InputError``."""
    measured = Profile(load(source), source)
    found = calls_of(measured)
    lines, told = _lines_of(measured), _told_of(measured)
    begun = _begun(measured)
    if not found:
        return replace(profile, lines=lines, told=told, begun=begun)
    notifies = notifies_of(measured, profile.rank)
    calls = Calls.of(_with_pairs(found, notifies))
    return replace(
        profile,
        calls=calls,
        notifies=fewer(notifies),
        seen=tuple(seen_of(found, notifies)),
        work=_work_of(measured, calls),
        lines=lines,
        told=told,
        busy=_busy_in(measured, calls),
        begun=begun,
    )


def _begun(profile: Profile) -> int | None:
    """When the first step began, on the clock of the device; None without steps."""
    first = next((step for step in profile.steps if step.number is not None), None)
    if first is None:
        return None
    apart = next((facts.clocks_apart for facts in profile.facts), 0)
    return profile.trace.start_ns + int(profile.trace.slices.start[first.item]) + apart


def _with_pairs(calls: list[Call], notifies: list[Notify]) -> list[Call]:
    """``calls`` with the two places that each message is between, where its notifies tell one peer."""
    pairs: dict[str, set[int]] = defaultdict(set)
    for each in notifies:
        if each.place >= 0:
            pairs[each.name].add(pair_of(each.place, each.peer))
    return [
        replace(call, pair=next(iter(pairs[call.name])))
        if is_message(call.type) and len(pairs.get(call.name, ())) == 1
        else call
        for call in calls
    ]


def fewer(notifies: list[Notify]) -> tuple[Notify, ...]:
    """All of them, or those of some collectives by their names: what a rank with fewer keeps, the others keep too."""
    kept, stride = notifies, 1
    while len(kept) > _MOST_NOTIFIES and stride < 1 << 16:
        stride *= 2
        kept = [each for each in kept if zlib.crc32(each.name.encode()) % stride == 0]
    return tuple(kept)


def _busy_in(profile: Profile, calls: Calls) -> Busy | None:
    """When the device computed inside ``calls``; None where the trace shows no device."""
    device = next((each for each in profile.devices if each.slices is not None and each.slices.collective.any()), None)
    if device is None or device.slices is None:
        return None
    slices, begun = profile.trace.slices, profile.trace.start_ns
    compute = np.flatnonzero(device.slices.compute)
    computing = union(slices.start[compute].astype(np.int64), slices.end[compute].astype(np.int64))
    start, end = intersection(*computing, *union(calls.start - begun, calls.end - begun))
    return Busy(start + begun, end + begun)


def _work_of(profile: Profile, calls: Calls) -> Work | None:
    """What the device that makes ``calls`` did from start to start; None where the trace shows no device.

    A rank that waits in a collective goes on computing, which a slow one does before it comes.
    """
    device = next((each for each in profile.devices if each.slices is not None and each.slices.collective.any()), None)
    if device is None or device.slices is None:
        return None
    trace = profile.trace
    high = calls.start - trace.start_ns
    low = np.concatenate((np.zeros(1, np.int64), high[:-1]))
    compute = np.flatnonzero(device.slices.compute)
    start = trace.slices.start[compute].astype(np.int64)
    took = (trace.slices.end[compute] - trace.slices.start[compute]).astype(np.int64)
    kernels, computing = _between(low, high, start, np.ones(len(start), np.int64)), _between(low, high, start, took)
    lost = np.zeros(len(low), np.int64)
    if device.launches is not None:
        target = trace.links.target_slice[device.launches.link]
        waited = np.rint(device.launches.lost).astype(np.int64)
        lost = _between(low, high, trace.slices.start[target].astype(np.int64), waited)
    return Work(kernels, computing, lost)


def _between(low: I64, high: I64, at: I64, value: I64) -> I64:
    """The sum of the values ``at`` times in [low, high] of every segment; a segment that ends before it begins is 0."""
    order = np.argsort(at, kind="stable")
    sums = np.concatenate((np.zeros(1, np.int64), np.cumsum(value[order])))
    first, last = np.searchsorted(at[order], low), np.searchsorted(at[order], high, "right")
    return np.asarray(np.where(last > first, sums[last] - sums[np.minimum(first, last)], 0))


def _lines_of(profile: Profile) -> tuple[Line, ...]:
    rows = [loss for device in profile.devices if device.launches is not None
            for loss, _ in losing_launches(profile.trace, device.launches)[:_MOST_LINES]]  # fmt: skip
    rows.sort(key=lambda row: -row.lost)
    return tuple(
        Line(row.code.file, row.code.line, round(row.lost)) for row in rows[:_MOST_LINES] if row.code is not None
    )


def _told_of(profile: Profile) -> tuple[Told, ...]:
    """What the rank would gain by itself, the dearest first."""
    found = [Told(each.id, each.gain_ns) for each in profile.findings.findings if each.gain_ns and not each.hidden]
    return tuple(sorted(found, key=lambda each: -each.gain)[:_MOST_TOLD])


def calls_of(profile: Profile) -> list[Call]:
    """Every collective of the trace, ns since 1970."""
    trace = profile.trace
    found = []
    for each in profile.collectives:
        name = trace.names[trace.slices.name[each.item]]
        start, end = int(trace.slices.start[each.item]), int(trace.slices.end[each.item])
        kind, suffix, ordinal = call_name(name)
        step = next(
            (step for step in profile.steps if step.window and step.window.start <= start < step.window.end), None
        )
        number = "" if step is None else str(step.number if step.number is not None else step.name)
        found.append(Call(suffix, kind, name, number, ordinal, trace.start_ns + start, trace.start_ns + end))
    return found


def notifies_of(profile: Profile, rank: int) -> list[Notify]:
    """Every record for a peer and every wait for one inside a collective; peers are places in its group.

    Raises ``InputError`` if the file is gone or has changed.
    """
    trace = profile.trace
    tasks = plane_tasks(trace)
    names = [trace.names[code] for code in trace.slices.name[tasks].tolist()]
    kept = [number for number, name in enumerate(names) if name in _NOTIFIES]
    items = tasks[kept]
    if not len(items):
        return []
    ids, places, peers = trace.args.many(trace.slices.event[items], _ARGS)
    calls = [each.item for each in profile.collectives]
    spans = [(int(trace.slices.start[call]), int(trace.slices.end[call]), call) for call in calls]
    found = []
    for number, item, key, place, peer in zip(kept, items.tolist(), ids, places, peers, strict=True):
        start, end = int(trace.slices.start[item]), int(trace.slices.end[item])
        own = next((call for low, high, call in spans if low <= start and end <= high), None)
        notify = _whole(key)
        here = place if type(place) is int and 0 <= place != NO_RANK else rank
        if own is None or notify is None or type(peer) is not int or peer in (NO_RANK, here) or peer < 0:
            continue
        name = trace.names[trace.slices.name[own]]
        times = trace.start_ns + start, trace.start_ns + end
        found.append(Notify("Wait" in names[number], peer, name, notify, *times, here))
    return found


def _whole(value: object) -> int | None:
    """The id that a text or a number is; None for none."""
    if isinstance(value, str) and value.isdecimal() and len(value) <= 20:
        value = int(value)
    return value if type(value) is int and 0 <= value < _NO_NOTIFY else None


def seen_of(calls: list[Call], notifies: list[Notify]) -> list[Seen]:
    """When the peers of each collective came: the first wait for each ends then, or they had come before."""
    start = {call.name: call.start for call in calls}
    first: dict[tuple[str, int], Notify] = {}
    for each in notifies:
        if each.waits and ((each.name, each.peer) not in first or each.start < first[each.name, each.peer].start):
            first[each.name, each.peer] = each
    return [
        Seen(name, peer, each.end - start[name], each.end - each.start <= _ALREADY_THERE, each.place)
        for (name, peer), each in first.items()
    ]
