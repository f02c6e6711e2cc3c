"""Findings about a memory snapshot: what failed, what grows, what lies in pieces, who holds most."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.code_lines import CodeLine
from npu_tui.analysis.limits import A_PART, HALF, LITTLE, NAMED, NEARLY_ALL, PLACES, Thresholds
from npu_tui.analysis.memory import best_split, recorded, replay
from npu_tui.analysis.snapshot import (
    BlockOwner,
    Failure,
    HeldMemory,
    failures,
    free_blocks,
    held_in,
    owner_of,
    placed,
    request_of,
)
from npu_tui.rules import pages
from npu_tui.rules.model import SEVERITIES, Evidence, Finding, Findings, Kind, Severity, SubjectVerdict
from npu_tui.rules.rule import advise, sentences
from npu_tui.trace.message import Message, message
from npu_tui.trace.model import Trace
from npu_tui.trace.snapshot import LARGE_SEGMENT, NEVER, OUTSIDE, SMALL, SMALL_SEGMENT, TAKEN, Action, DeviceMemory
from npu_tui.trace.text import brief

_WORTH = 16 << 20  # bytes below which nothing is reported: a pool of a few segments is never full
# Steps in which a leak takes as much again as the peak: up to the first it is high, up to the second medium. Runs
# have thousands of steps, and the memory of a device is seldom many times a peak that is worth a snapshot.
_DOUBLES = 1_000, 10_000
_SMALLER = advise("smaller_batch", "checkpointing")


class SnapshotRule(Kind, frozen=True, kw_only=True):
    """A rule about the memory of one device."""

    check: Callable[[HeldMemory], Iterator[Finding]]


def findings_of(devices: Sequence[HeldMemory]) -> list[tuple[HeldMemory, Finding]]:
    """What is to be said of ``devices``, the gravest first."""
    found = []
    for held in devices:
        for finding in chain.from_iterable(rule.check(held) for rule in SNAPSHOT_RULES):
            title = message("snapshot.of", device=held.device.label, title=finding.title)
            found.append((held, replace(finding, title=title) if len(devices) > 1 else finding))
    # Who holds most comes before what else is only worth knowing.
    return sorted(found, key=lambda one: (SEVERITIES.index(one[1].severity), one[1].id != "SNAPSHOT.PEAK"))


def _replayed(finding: Finding, code: str, **words: Any) -> Finding:
    """``finding`` with what a replay with another setting shows; what does not help is not advised."""
    told = message(f"finding.snapshot.gain_{code}", **words)
    detail = message("finding.snapshot.replayed", detail=finding.detail, replayed=told)
    gain = max((words["was"] - words[name] for name in ("now", "split") if name in words), default=None)
    advice = _SMALLER if code in ("none", "refused") else finding.advice
    return replace(finding, detail=detail, gain_bytes=gain if code in ("split", "expandable") else None, advice=advice)


def judged(trace: Trace, limits: Thresholds) -> SubjectVerdict:
    """The findings about the snapshot that ``trace`` was made of, as the explorer shows them; none has a limit."""
    del limits
    assert trace.snapshot is not None
    found = findings_of(held_in(trace.snapshot))
    findings = tuple(replace(one, evidence=_evidence_places(trace, held, one)) for held, one in found)
    return SubjectVerdict(Findings(findings, (), tuple(finding.title for finding in findings[:3]), findings[:3]))


def _evidence_places(trace: Trace, held: HeldMemory, finding: Finding) -> tuple[Evidence, ...]:
    """Where ``trace`` shows a finding: the largest blocks of its owner, else the moments of its events.

    A failed allocation is shown at its moment.
    """
    if finding.owner is None or finding.id == "SNAPSHOT.OOM":
        return tuple(
            replace(place, start=place.start - trace.start_ns, end=place.end - trace.start_ns)
            for place in finding.evidence[:PLACES]
        )
    members, first = finding.owner.members, held.snapshot.first_of(held.device)
    largest = members[np.argsort(-held.device.lives.size[members], kind="stable")][:PLACES]
    items = np.flatnonzero(np.isin(trace.slices.event, first + largest))
    note, slices = line_text(finding.owner.code), trace.slices
    # A block may stand in two lanes: by age and by address.
    return tuple(
        Evidence(
            int(slices.start[item]), int(slices.end[item]), int(slices.lane[item]), brief(trace.name_of(item)), note,
            item,
        )
        for item in items[np.unique(slices.event[items], return_index=True)[1]].tolist()
    )  # fmt: skip


def line_text(code: CodeLine | None) -> Message:
    """The text for a line of code, or for an unknown one."""
    if code is None:
        return message("snapshot.no_stack")
    if not code.file:
        return message("snapshot.operation", name=brief(code.function))
    return message(
        "snapshot.line", file=brief(code.file.rpartition("/")[2]), line=code.line, function=brief(code.function)
    )


def _device_finding(
    id_: str, severity: Severity, title: str, detail: str, words: Mapping[str, Any], device: DeviceMemory,
    *events: int, owner: BlockOwner | None = None, advice: tuple[Message, ...] = (),
) -> Finding:  # fmt: skip
    """A finding of ``device`` at ``events``, with all the advice of its rule unless some is given."""
    rule = next(rule for rule in SNAPSHOT_RULES if rule.id == id_)
    code = None if owner is None else placed(owner.code)
    return Finding(
        id_, rule.cls, severity, message(f"finding.snapshot.{title}", **words),
        message(f"finding.snapshot.{detail}", **words),
        tuple(
            Evidence(at := int(device.moments[event]), at + 1, name=message("snapshot.at", event=event), event=event)
            for event in events
        ),
        advice or advise(*rule.advice or (id_,)), code_lines=() if code is None else (code,), owner=owner,
    )  # fmt: skip


def _failed(held: HeldMemory) -> Iterator[Finding]:
    device = held.device
    failed = failures(device)
    if not failed:
        return
    first = failed[0]
    free = free_blocks(device, first.event, first.request, int(device.events.stream[first.event]))
    known = first.device_free >= 0
    # Free blocks that are large enough, and a device with room, are refused by a limit or belong to a private pool.
    if free.largest >= first.request:
        why = "fits"
    elif free.here >= first.request:
        why = "pieces"
    elif free.unused >= first.request:
        why = "elsewhere"
    else:
        why = "limit" if known and first.device_free >= first.request + LARGE_SEGMENT else "full"
    words = {
        "request": first.request, "reserved": first.reserved, "allocated": first.allocated, "unused": free.unused,
        "here": free.here, "largest": free.largest, "event": first.event, "count": len(failed),
        "left": message(f"finding.snapshot.oom_{'left' if known else 'unknown'}", free=first.device_free),
    }  # fmt: skip
    advice = advise("expandable") if why == "pieces" and not device.is_expandable else _SMALLER
    finding = _device_finding(
        "SNAPSHOT.OOM", "high", "oom", f"oom_{why}", words, device, *(one.event for one in failed), advice=advice
    )
    cause, owner = _cause(held, first, why, words)
    title = finding.title if cause is None else message("finding.snapshot.because", title=finding.title, cause=cause)
    code = None if owner is None else placed(owner.code)
    finding = replace(finding, title=title, owner=owner, code_lines=() if code is None else (code,))
    if advice is not _SMALLER and (was := recorded(device)) is not None:
        now = replay(device, replace(was.settings, expandable=True), first).peak
        room = first.reserved + max(first.device_free, 0)
        finding = _replayed(finding, "served" if now <= room else "refused", now=now, room=room, was=0)
    yield finding


def _cause(
    held: HeldMemory, failed: Failure, why: str, words: Mapping[str, Any]
) -> tuple[Message | None, BlockOwner | None]:
    """Why an allocation failed, and its owner: what leaks as much, the request itself, else who holds most."""
    stack = int(held.device.events.stack[failed.event])
    code = owner_of(held.snapshot.stacks[stack]) if stack >= 0 else None
    asks = None if code is None else BlockOwner(code, failed.request, np.zeros(0, np.int64))
    for owner, more in [] if held.growth is None else held.growth.leaks[:1]:
        if owner.code is not None and int(more.sum()) >= max(failed.request, words["here"]):
            size = int(more.sum()) // int((more > 0).sum())
            return message("finding.snapshot.leak", place=line_text(owner.code), size=size), owner
    if why == "pieces":
        return message("finding.snapshot.oom_by_pieces", **words), asks
    if why not in ("full", "limit"):
        return None, asks
    most = next((owner for owner in held.owners(failed.event) if owner.code is not None), None)
    if asks is not None and (most is None or asks.size >= most.size):
        return message("finding.snapshot.oom_by_request", place=line_text(code)), asks
    if most is None:
        return None, None
    share = most.size / max(failed.allocated, 1)
    return message("finding.snapshot.most", place=line_text(most.code), held=most.size, share=share), most


def _leaks(held: HeldMemory) -> Iterator[Finding]:
    device = held.device
    for owner, more in [] if held.growth is None else held.growth.leaks[:PLACES]:
        size, steps, grown = int(more.sum()), len(more), int((more > 0).sum())
        if size < max(1 << 20, device.peak[1] // 1000):
            continue
        doubles = -(-device.peak[1] * steps // size)
        words = {
            "place": line_text(owner.code), "size": size // grown, "steps": steps, "blocks": len(owner.members),
            "sum": owner.size, "grown": grown, "of": steps, "doubles": doubles, "peak": device.peak[1],
        }  # fmt: skip
        severity = SEVERITIES[bisect_left(_DOUBLES, doubles)]
        title = "leak" if grown == steps else "leak_sometimes"
        starts = np.sort(device.lives.start[owner.members])[:PLACES].tolist()
        yield _device_finding("SNAPSHOT.LEAK", severity, title, f"{title}_detail", words, device, *starts, owner=owner)


def _pieces(held: HeldMemory) -> Iterator[Finding]:
    """More was reserved than another setting takes; where none can be replayed, enough of it was unused."""
    device = held.device
    event = _last_growth(device)
    if event is None or not device.has_segments or failures(device):  # what failed is reported instead
        return
    reserved, allocated = int(device.reserved[event]), int(device.active[event])
    grown = int(device.events.size[event])
    unused = reserved - allocated - grown
    request = request_of(device, event)
    free = free_blocks(device, event - 1, request, int(device.events.stream[event]))
    # What is free in the pool of the request is wasted by its pieces, or else what lies elsewhere; but the large pool
    # never serves small requests.
    wasted = unused - free.here if request > SMALL and free.here < request else free.here
    is_wasted = min(unused, wasted) >= max(A_PART * reserved, _WORTH, grown)
    enough = free.here >= request
    why = "fits" if free.largest >= request else "detail" if enough else "elsewhere"
    if enough and why == "detail" and device.is_expandable:
        why = "expandable"
    if not enough and 2 * free.here >= unused:
        why = "short"
    most, peak, saved, gain = device.fullest[1], device.peak[1], 0, dict[str, int]()
    if most - int(device.active.max()) < max(LITTLE * most, _WORTH):  # the peak takes all of it
        return
    was = recorded(device) if not device.is_expandable else None
    if was is not None:
        now, split = replay(device, replace(was.settings, expandable=True)), best_split(device, was.settings)
        gain = {"now": now.peak, "was": was.peak, "split": split.peak, "limit": split.settings.max_split >> 20}
        saved = was.peak - min(now.peak, split.peak)
        if saved < max(LITTLE * was.peak, _WORTH) and not (is_wasted and why == "elsewhere"):
            return
    elif not is_wasted:
        return
    words = {
        "reserved": reserved, "allocated": allocated, "unused": unused, "event": event, "grown": grown,
        "request": request, "here": free.here, "largest": free.largest, "share": unused / reserved,
        "peak": peak, "saved": saved,
    }  # fmt: skip
    finding = _device_finding(
        "SNAPSHOT.PIECES", "medium" if is_wasted or saved >= HALF * peak else "info",
        "pieces_saved" if saved else "pieces", f"pieces_{why}", words, device, event,
        advice=_SMALLER if device.is_expandable else advise("expandable"),
    )  # fmt: skip
    if was is not None:
        helps, splits = (was.peak - gain[name] >= LITTLE * was.peak for name in ("now", "split"))
        finding = _replayed(finding, "split" if splits else "expandable" if helps else "none", **gain)
    yield _with_streams(device, finding, saved, words)


def _with_streams(device: DeviceMemory, finding: Finding, saved: int, words: Mapping[str, Any]) -> Finding:
    """``finding``, with what streams hold at other times: what one of them gives back no other can use.

    It is the title where it is more than what another setting has ``saved``, bytes.
    """
    alone, most = int(device.stream_peaks.sum()), int(device.active.max())
    if alone - most < max(A_PART * device.fullest[1], _WORTH):
        return finding
    of_streams = {"count": len(device.stream_peaks), "alone": alone, "more": alone - most}
    said = message("finding.snapshot.streams", **of_streams)
    if alone - most > saved:
        finding = replace(finding, title=message("finding.snapshot.pieces_streams", **words, **of_streams))
    return replace(finding, detail=sentences(finding.detail, said), advice=(*finding.advice, *advise("one_stream")))


def _last_growth(device: DeviceMemory) -> int | None:
    """The event after which most was reserved, of those that took more for large blocks, else of all that took any."""
    events = device.events
    taken = np.isin(events.action, TAKEN)
    large = taken & (events.size > SMALL_SEGMENT)
    at = np.flatnonzero(large if large.any() else taken)
    return int(at[device.reserved[at].argmax()]) if len(at) else None


def _returned(held: HeldMemory) -> Iterator[Finding]:
    """Segments are given back to the device and taken again; by one call of ``empty_cache``, where stacks show it."""
    device, events = held.device, held.device.events
    back = np.flatnonzero(events.action == Action.segment_free)
    again = np.flatnonzero(events.action == Action.segment_alloc)
    again = again[again > back.min(initial=NEVER)]
    size, retaken = int(events.size[back].sum()), int(events.size[again].sum())
    if min(size, retaken) < max(HALF * device.fullest[1], _WORTH):
        return
    stacks = [held.snapshot.stacks[stack] if stack >= 0 else "" for stack in events.stack[back].tolist()]
    lines = {owner_of(stack) if "): empty_cache;" in stack else None for stack in stacks}
    words: dict[str, Any] = {"size": size, "count": len(back), "again": retaken, "segments": len(again)}
    if len(lines) > 1 or None in lines:
        finding = _device_finding(
            "SNAPSHOT.RETURNED", "low", "returned", "returned_detail", words, device, *back[:PLACES].tolist()
        )
    else:
        calls = back[np.diff(back, prepend=-2) > 1]
        words |= {"place": line_text(lines.pop()), "calls": len(calls)}
        finding = _device_finding(
            "SNAPSHOT.RETURNED", "low", "returned", "returned_by", words, device, *calls[:PLACES].tolist()
        )
    was = recorded(device)
    if was is not None:
        kept = replay(device, replace(was.settings, released=False))
        finding = _replayed(finding, "kept", times=kept.taken, taken=was.taken, kept=kept.peak, was=was.peak)
    yield finding


def _cached(held: HeldMemory) -> Iterator[Finding]:
    device, unused = held.device, held.pieces.free_segments
    reserved = int(device.segments.size.sum())
    if unused >= max(A_PART * reserved, _WORTH):
        words = {"size": unused, "reserved": reserved}
        yield _device_finding("SNAPSHOT.CACHED", "info", "cached", "cached_detail", words, device)


def _peak(held: HeldMemory) -> Iterator[Finding]:
    device, owners = held.device, held.at_peak
    event, size = device.peak
    if not owners or (event < 0 and len(device.events)):
        return
    lives, first = device.lives, owners[0]
    released = int(lives.size[first.members][lives.end[first.members] < NEVER].sum())
    words = {
        "size": size, "event": event, "place": line_text(first.code), "held": first.size, "before": device.before,
        "share": first.size / max(size, 1), "blocks": len(first.members), "released": released,
    }  # fmt: skip
    if event < 0:  # the state at one moment, without what led to it
        yield _device_finding("SNAPSHOT.PEAK", "info", "state", "state_detail", words, device, owner=first)
        return
    others = [one for one in owners[1:NAMED] if one.size >= NEARLY_ALL * first.size]
    words["others"] = [
        message("finding.snapshot.holder", place=line_text(one.code), share=one.size / max(size, 1)) for one in others
    ]
    title = "peak_alike" if others else "peak" if len(owners) > 1 or first.code is not None else "peak_nobody"
    advice = advise("compare_dumps") if device.allocator.startswith(OUTSIDE) else ()
    detail = "peak_released" if released else "peak_kept"
    yield _device_finding("SNAPSHOT.PEAK", "info", title, detail, words, device, event, owner=first, advice=advice)


SNAPSHOT_RULES = (
    SnapshotRule(
        "SNAPSHOT.OOM",
        "memory",
        "memory",
        advice=("expandable", "smaller_batch", "checkpointing"),
        pages=(pages.ALLOCATOR,),
        check=_failed,
    ),
    SnapshotRule("SNAPSHOT.LEAK", "memory", "memory", advice=("leak", "leak_detach"), check=_leaks),
    SnapshotRule(
        "SNAPSHOT.PIECES",
        "memory",
        "memory",
        advice=("expandable", "one_stream"),
        pages=(pages.ALLOCATOR,),
        check=_pieces,
    ),
    SnapshotRule(
        "SNAPSHOT.RETURNED", "memory", "memory", advice=("empty_cache",), pages=(pages.ALLOCATOR,), check=_returned
    ),
    SnapshotRule("SNAPSHOT.CACHED", "memory", "memory", check=_cached),
    SnapshotRule(
        "SNAPSHOT.PEAK",
        "memory",
        "memory",
        advice=("checkpointing", "smaller_batch"),
        pages=(pages.CHECKPOINT,),
        check=_peak,
    ),
)
"""Every rule about a memory snapshot."""
