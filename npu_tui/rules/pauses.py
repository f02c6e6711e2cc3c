"""Findings about pauses: streams that wait for events, servers for requests, and a host that launches nothing.

The runtime part of the operator tuning guide (0-02): dependencies between streams, as in a captured graph.
"""

from __future__ import annotations

import re

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.calls import profiler_work
from npu_tui.analysis.code_lines import CodeLine
from npu_tui.analysis.device import EVERYTHING
from npu_tui.analysis.host_owners import WORK_NS
from npu_tui.analysis.limits import (
    A_PART,
    AWAKE_NS,
    EVEN,
    HALF,
    NAMED,
    NEARLY_ALL,
    NOTABLE,
    PLACES,
    ROUNDING_NS,
    SOME,
    Threshold,
)
from npu_tui.analysis.path import Owner
from npu_tui.analysis.replay import ANY_THREAD, NO_CHANGE, Change, HostCut
from npu_tui.analysis.replay_device import AFTER_EVENT_NS, AWAIT, RECORD, DeviceTasks
from npu_tui.analysis.replay_host import thread_numbers, waits_of
from npu_tui.rules import pages
from npu_tui.rules.blame import SYNC_SHARE, waited_copies, without_all
from npu_tui.rules.cpu import PERIOD_NS, stops
from npu_tui.rules.facts import Facts, once_per_device
from npu_tui.rules.host_work import (
    change_of,
    is_frame,
    reach_of,
    span_of,
    stops_within,
    waiting,
    works,
    works_behind_peers,
)
from npu_tui.rules.inputs import (
    GARBAGE_COLLECTION,
    NOTHING,
    Span,
    common,
    inside,
    largest,
    length_of,
    together,
    without,
)
from npu_tui.rules.judged_path import launching_gains, short_call
from npu_tui.rules.model import Evidence
from npu_tui.rules.rule import (
    SEVERITY_HIGH,
    SEVERITY_MEDIUM,
    Draft,
    Rule,
    about,
    advise,
    cost_of,
    line_of,
    sentences,
    severity_of,
    stretches,
)
from npu_tui.trace.arrays import I64
from npu_tui.trace.classes import FRAME, is_of_program
from npu_tui.trace.intervals import covered_within, parted, touches, union
from npu_tui.trace.message import Message, Said, message
from npu_tui.trace.text import brief


def event_waits(facts: Facts) -> Draft | None:
    """Waits of streams for events, each ending in the task that ends the idle time."""
    tasks = facts.tasks
    if tasks is None:
        return None
    chosen = _holding(facts, tasks)
    if not len(chosen):
        return None
    low, high = tasks.start[chosen], tasks.end[chosen]
    idle = without(facts.free, together(facts.busy, facts.host_late))
    removes = common(idle, union(low, high))
    chosen = chosen[touches(*removes, low.astype(np.float64), high.astype(np.float64))]
    share = facts.share(length_of(removes))
    if not len(chosen) or share < facts.limits[SEVERITY_MEDIUM]:
        return None
    fired = tasks.event[chosen]
    late = np.where(fired >= 0, tasks.item[np.maximum(fired, 0)], tasks.item[chosen])
    return Draft(
        severity_of(facts.limits, share),
        message("finding.event.title", each=facts.per_unit(length_of(removes)), share=share),
        sentences(message("finding.event.detail", share=share, rows=_sources(facts, tasks, chosen, removes))),
        facts.longest(tasks.item[chosen], lambda item: _awaited(facts, tasks, item)),
        removes=removes,
        change=Change(waits=frozenset(late.tolist())),
        confidence="medium",
    )


def _holding(facts: Facts, tasks: DeviceTasks) -> I64:
    """The waits in the window that the next task of their stream follows at once."""
    follows = np.flatnonzero(tasks.previous >= 0)
    wait = tasks.previous[follows]
    held = (tasks.kind[wait] == AWAIT) & (tasks.kind[follows] != AWAIT)
    held &= (tasks.start[follows] - tasks.end[wait] <= AFTER_EVENT_NS) & facts.window.holds(tasks.start[wait])
    holding: I64 = np.unique(wait[held])
    return holding


def _source(facts: Facts, tasks: DeviceTasks, task: int) -> Message:
    """What a wait waited for: the task before the record of its event, and the stream of both."""
    record = int(tasks.event[task])
    if record < 0:
        return message("finding.event.unknown")
    lane = facts.trace.lanes[int(facts.trace.slices.lane[tasks.item[record]])].name
    before = int(tasks.previous[record])
    if before < 0 or tasks.kind[before] in (AWAIT, RECORD):
        return message("finding.event.record", stream=brief(lane))
    return message("finding.event.after", stream=brief(lane), name=facts.name_of(int(tasks.item[before]), 60))


def _awaited(facts: Facts, tasks: DeviceTasks, item: int) -> Message:
    return _source(facts, tasks, int(np.flatnonzero(tasks.item == item)[0]))


def _sources(facts: Facts, tasks: DeviceTasks, chosen: I64, removes: Span) -> list[Message]:
    """What was waited for longest, with the time."""
    waited: dict[Message, int] = {}
    for task in chosen.tolist():
        awaited = (tasks.start[[task]], tasks.end[[task]])
        source = _source(facts, tasks, task)
        waited[source] = waited.get(source, 0) + length_of(common(removes, awaited))
    rows = sorted(waited.items(), key=lambda row: -row[1])[:NAMED]
    return [message("finding.event.row", what=what, time=time) for what, time in rows]


def unasked(facts: Facts) -> Draft | None:
    """A server that waits for requests."""
    waits = facts.waits_for_requests
    time = length_of(without(facts.unasked, facts.profiling))
    if not time:
        return None
    share = time / (time + facts.total)
    items = np.array([item for *_, item in waits if item >= 0], np.int64)
    if not len(items):
        pauses = sorted(sorted(waits, key=lambda wait: wait[0] - wait[1])[:10])
        note = message("finding.unasked.between")
        return Draft(
            "info",
            message("finding.unasked.title_may", time=time, share=share),
            message("finding.unasked.detail_may", count=len(waits), time=time),
            tuple(Evidence(low + facts.floor, high + facts.floor, None, "", note) for low, high, _ in pauses),
            advise("serve_load", "pause_record"),
        )
    name = facts.name_of(int(items[np.argmax(facts.length(items))]), 60)
    return Draft(
        "info",
        message("finding.unasked.title", time=time, share=share),
        message("finding.unasked.detail", count=len(waits), time=time, name=name),
        facts.longest(items, lambda item: message("finding.unasked.place")),
    )


PAUSE_MS = Threshold("pause_ms", 5.0)
_UNSEEN = ("pause_look", "pause_record", "gc_record")


@once_per_device
def pauses(facts: Facts) -> Draft | None:
    """Long times in which the host launches nothing and records nothing: it is not slow, it pauses."""
    return _pauses(facts, works(facts)["HOST.PAUSE"]) or _held_up(facts)


def pauses_behind_peers(facts: Facts) -> Draft | None:
    """The pauses that would hold up a rank that waits for others if these came in time; ``most`` is their gain."""
    return _pauses(facts, works_behind_peers(facts).get("HOST.PAUSE", ()), in_time=True)


def _pauses(facts: Facts, owners: tuple[Owner, ...], in_time: bool = False) -> Draft | None:
    owners = _still(facts, owners)
    change = _uncollected(facts, change_of(owners))
    silent = span_of(facts, change)
    removes = common(waiting(facts), silent)
    # Short ones within a frame, or as short as a read-back takes, are how launching looks.
    longest_ns = max((int((cut.span[1] - cut.span[0]).max(initial=0)) for cut in change.host), default=0)
    if not len(removes[0]) or longest_ns < WORK_NS:
        return None
    # Python passes its lock on every 5 ms: pauses for a thread that asks for it all the time are no longer than that.
    beside = _beside(facts, silent, removes)
    if (
        longest_ns < facts.limits[PAUSE_MS] * 1e6
        and beside is None
        and not owners[0].name
        and (owners[0].calls or cost_of(facts, change, removes) <= sum(launching_gains(facts)))
    ):
        return None
    copied = _copying(facts, removes)
    if len(copied[0]):
        change, removes = change | without_all(facts, copied), together(removes, common(waiting(facts), copied), copied)
    cost = (facts.freed(facts.judged(change)) or 0) if in_time else cost_of(facts, change, removes)
    share = facts.share(cost)
    if share < facts.limits[SYNC_SHARE if in_time else SEVERITY_MEDIUM]:
        return None
    length = removes[1] - removes[0]
    told = length >= NOTABLE * length.max()  # the gaps between kernels that it leaves are no pauses
    longest, copies = largest((removes[0][told], removes[1][told])), "_copies" * bool(len(copied[0]))
    words: dict[str, Said | int] = {"count": int(told.sum()), "each": facts.per_unit(cost)}
    first = owners[0]
    place = line_of(first.where) if first.where is not None else short_call(first.calls[0]) if first.calls else ""
    beside = None if copies else beside
    form = "_beside" if beside is not None else "_within" if first.name else "_in" if place else ""
    own = sorted(_long_pauses(owner) for owner in owners)
    if form == "_in" and own[-1] < NEARLY_ALL * sum(own):
        # One step does not show whether the next one stops elsewhere: each place is one of its own.
        form, place = "_spread" if facts.count > 1 else "", ""
        words["places"] = sum(time > NOTABLE * own[-1] for time in own)
    lines = [owner.where for owner in owners[:PLACES]]
    if beside is not None:
        place, lines = line_of(beside[0]), [beside[0], *lines]
        words |= {"held": beside[1], "whole": beside[2]}
    if place:
        words["frame"] = place
    if form == "_within":
        words["frame"] = short_call(first.name)
        words["why"] = message(f"finding.pause.stops.{stops_within(facts, first)}")
    detail = f"finding.pause.detail{copies or form * (form != '_in')}"
    nowhere = form in ("_within", "_spread")
    look = "pause_thread" if beside is not None else "pause_look"
    return Draft(
        severity_of(facts.limits, share),
        message(f"finding.pause.title{form}", **words),
        message(detail, share=facts.share(length_of(removes)), **words),
        stretches(longest, "Free", "finding.pause.place"),
        advise("cpu_idle", "binding", "gc_record")
        if nowhere
        else advise(look)
        if place or any(lines)
        else advise(*_UNSEEN),
        removes,
        confidence="medium",
        code_lines=() if nowhere else tuple(dict.fromkeys(line for line in lines if line is not None)),
        change=change,
        verdict=message(f"finding.pause.verdict{form}", **words),
        anywhere=nowhere,
        most=cost if in_time else None,
        reach=reach_of(facts, change),
    )


def _still(facts: Facts, owners: tuple[Owner, ...]) -> tuple[Owner, ...]:
    """``owners`` as far as nothing begins on their threads: an operator that is launched slowly begins calls."""
    found = []
    for owner in owners:
        if not owner.name and owner.change is not None:
            cuts = tuple(replace(cut, span=_silences(facts, cut)) for cut in owner.change.host)
            owner = replace(owner, change=replace(owner.change, host=tuple(cut for cut in cuts if len(cut.span[0]))))
        if owner.change is not None and owner.change.host:
            found.append(owner)
    return tuple(found)


def _silences(facts: Facts, cut: HostCut) -> Span:
    """The parts of ``cut`` of the length of a pause in which no slice of its thread begins."""
    slices, (tids, number) = facts.trace.slices, thread_numbers(facts.trace)
    lanes = [lane for lane in facts.trace.lanes if number[lane.index] >= 0 and tids[number[lane.index]] == cut.thread]
    begins = np.concatenate([slices.start[lane.first : lane.last] for lane in lanes] or [slices.start[:0]])
    start, end = parted(*cut.span, np.sort(begins, kind="stable"))
    long = end - start >= WORK_NS
    return start[long], end[long]


def _long_pauses(owner: Owner) -> int:
    """How long ``owner`` pauses, ns, without what is as short as launching."""
    length = [cut.span[1] - cut.span[0] for cut in (owner.change or NO_CHANGE).host]
    return sum(int(times[times >= WORK_NS].sum()) for times in length)


def _beside(facts: Facts, silent: Span, removes: Span) -> tuple[CodeLine, int, int] | None:
    """The frame of another thread that runs mostly within ``silent``, with its time there and in all, ns.

    It runs for most of ``removes``, the time of the device that the silences cost: many a silence costs nothing. Such
    a thread calls no operations: threads of Python share one lock, which it holds, but where it waits or writes.
    """
    trace, slices = facts.trace, facts.trace.slices
    begin, end = silent[0] - facts.floor, silent[1] - facts.floor
    framed = facts.names_where(lambda name: is_frame(name) or name.startswith("<built-in"))
    costly = common(silent, removes)
    costly = costly[0] - facts.floor, costly[1] - facts.floor
    best, most = None, HALF * length_of(costly)
    for lane in [trace.lanes[at] for layer in trace.layers if layer.kind == "python" for at in layer.lanes]:
        items = np.arange(lane.first, lane.last)
        if not framed[slices.name[items]].all():
            continue
        span = without((begin, end), _unlocked(facts, items))
        held = covered_within(*span, slices.start[items], slices.end[items])
        lost = covered_within(*common(span, costly), slices.start[items], slices.end[items])
        for name in np.unique(slices.name[items[held > 0]]).tolist():
            own, frame = slices.name[items] == name, FRAME.fullmatch(trace.names[name])
            within, whole = int(held[own].sum()), int(facts.length(items[own]).sum())
            cost = int(lost[own].sum())
            if frame is not None and is_of_program(frame["file"]) and cost > most and within > HALF * whole:
                best, most = (CodeLine(frame["file"], int(frame["line"]), frame["function"]), within, whole), cost
    return best


def _held_up(facts: Facts) -> Draft | None:
    """Threads that launch stand still while another thread runs a frame, wherever in the code they are.

    Threads of Python share one lock, which a frame holds but where it waits.
    """
    trace, slices = facts.trace, facts.trace.slices
    every = [trace.lanes[at] for layer in trace.layers if layer.kind == "python" for at in layer.lanes]
    framed = facts.names_where(lambda name: is_frame(name) or name.startswith("<built-in"))
    alone = [lane for lane in every if lane.first < lane.last and framed[slices.name[lane.first : lane.last]].all()]
    threads = [_edges(facts, tid) for tid in sorted({lane.tid for lane in every} - {lane.tid for lane in alone})]
    best, most = None, 0
    for lane in alone:
        items = np.arange(lane.first, lane.last)
        names, code = np.unique(slices.name[items], return_inverse=True)
        long = np.bincount(code, facts.length(items)) >= NOTABLE * facts.total
        for name in names[long].tolist():
            own, frame = facts.outermost(items[slices.name[items] == name]), FRAME.fullmatch(trace.names[name])
            if frame is None or not is_of_program(frame["file"]) or len(own) < SOME:
                continue
            held = without(facts.span_of(own), _unlocked(facts, items))
            change = Change(host=tuple(cut for thread in threads for cut in _still_in(thread, held)))
            removes = common(waiting(facts), span_of(facts, change))
            cost = cost_of(facts, change, removes) if change.host else 0
            if cost > most:
                line = CodeLine(frame["file"], int(frame["line"]), frame["function"])
                best, most = (line, held, change, removes), cost
    if best is None or facts.share(most) < facts.limits[SEVERITY_MEDIUM]:
        return None
    line, held, change, removes = best
    words: dict[str, Said | int] = {"each": facts.per_unit(most), "frame": line_of(line), "count": len(held[0])}
    words |= {"held": length_of(held), "stood": sum(length_of(cut.span) for cut in change.host)}
    return Draft(
        severity_of(facts.limits, facts.share(most)),
        message("finding.pause.title_beside", **words),
        message("finding.pause.detail_held", **words),
        stretches(largest(removes), "Free", "finding.pause.place"),
        advise("pause_thread"),
        removes,
        confidence="medium",
        code_lines=(line,),
        change=change,
        verdict=message("finding.pause.verdict_beside", **words),
    )


def _edges(facts: Facts, thread: int) -> tuple[int, I64, Span]:
    """``thread``, the times at which something begins or ends on it, and when it waits and needs no lock itself."""
    slices, lanes = facts.trace.slices, [lane for lane in facts.trace.lanes if lane.tid == thread]
    items = np.concatenate([np.arange(lane.first, lane.last) for lane in lanes])
    return thread, np.unique(np.concatenate((slices.start[items], slices.end[items]))), _unlocked(facts, items)


def _still_in(thread: tuple[int, I64, Span], held: Span) -> tuple[HostCut, ...]:
    """When a thread of such ``_edges`` stands still for a frame that runs while ``held``; nothing if it goes on then.

    Not every frame is recorded: where those of it are of one length, what stands still for as long does so for one.
    """
    tid, edges, waits = thread
    held = without(held, waits)
    share = length_of(held) / max(int(edges[-1] - edges[0]), 1) if len(edges) and len(held[0]) else 0.0
    if share < NOTABLE or inside((held[0] + ROUNDING_NS, held[1] - ROUNDING_NS), edges).mean() > A_PART * share:
        return ()
    length, still = held[1] - held[0], np.diff(edges)
    usual = np.median(length)
    alike = np.abs(still - usual) <= EVEN * usual if (np.abs(length - usual) <= EVEN * usual).all() else still < 0
    return (HostCut(tid, together(held, (edges[:-1][alike], edges[1:][alike]))),)


def _unlocked(facts: Facts, items: I64) -> Span:
    """When some of the calls ``items`` let other threads have the lock of the interpreter."""
    waits = facts.names_where(lambda name: _UNLOCKED.search(name) is not None)
    return facts.span_of(items[waits[facts.trace.slices.name[items]]])


_UNLOCKED = re.compile(
    r"^<(?:built-in )?method '?(?:sleep|wait|acquire|poll|select|join|read|readinto|recv|write|flush|send)\b"
)
"""Calls that let other threads have the lock of the interpreter while they wait."""


@once_per_device
def reads_back(facts: Facts) -> bool:
    """Whether most of what nothing records begins as a wait ends: what the program does with what it has read back."""
    ends = np.sort(facts.trace.slices.end[waits_of(facts.trace)]) + facts.floor
    silences = [owner for owner in works(facts)["HOST.PAUSE"] if not owner.name]  # within a call it has not read yet
    start, end = silent = span_of(facts, change_of(tuple(silences)))
    if not len(start) or int((end - start).max()) >= facts.limits[PAUSE_MS] * 1e6:
        return False
    after = start - np.append(ends, start.max(initial=0))[np.searchsorted(ends, start, "right") - 1]
    follows = (after >= 0) & (after <= AWAKE_NS)
    return 2 * int((end - start)[follows].sum()) > length_of(silent)


def _uncollected(facts: Facts, change: Change) -> Change:
    """``change`` without what a collection on a thread of its own stops, or the profiler: that is no pause."""
    collections = facts.span_of(facts.named(("python", "other"), GARBAGE_COLLECTION.__eq__))
    collections = together(collections, facts.span_of(profiler_work(facts.trace)))
    cuts = (HostCut(cut.thread, without(cut.span, collections)) for cut in change.host)
    return Change(host=tuple(cut for cut in cuts if len(cut.span[0])))


def _copying(facts: Facts, silent: Span) -> Span:
    """When the host does nothing but copy, in calls that it waits for, and is ``silent`` for most of the time.

    So a checkpoint takes a dozen tensors to the host: that is one pause.
    """
    device, copies = facts.part.slices, waited_copies(facts)
    if device is None or len(copies) < 2 or not len(silent[0]):
        return NOTHING
    others = device.busy.copy()
    others[copies] = False
    copied = facts.trace.slices.end[copies]
    low, high = without((silent[0][:1], silent[1][-1:]), facts.span_of(others))
    first, last = np.searchsorted(copied, low), np.searchsorted(copied, high)
    either = together(silent, facts.span_of(copies))  # what is launched before or after is no part of it
    low = np.maximum(low, np.append(either[0], EVERYTHING.end)[np.searchsorted(either[1], low, "right")])
    high = np.minimum(high, np.append(EVERYTHING.start, either[1])[np.searchsorted(either[0], high)])
    most = (low < high) & (covered_within(*silent, low, high) >= HALF * (high - low))
    chosen = (last - first >= 2) & most
    return low[chosen], high[chosen]


def limited(facts: Facts) -> Draft | None:
    """A CPU limit stops all threads of the process until the next period of it begins."""
    held = stops(facts)
    if not len(held[0]):
        return None
    change = Change(host=(HostCut(ANY_THREAD, held),))
    removes = common(waiting(facts), facts.on_device(held))
    cost = cost_of(facts, change, removes)
    if facts.share(cost) < facts.limits[SEVERITY_MEDIUM]:
        return None
    words = {"time": cost / facts.count, "unit": facts.unit, "count": len(held[0]), "period": PERIOD_NS}
    words |= {"held": float(np.median(held[1] - held[0]))}
    return Draft(
        severity_of(facts.limits, facts.share(cost)),
        *about("quota", **words),
        stretches(largest(facts.on_device(held)), message("finding.quota.name"), "finding.quota.place"),
        removes=removes,
        confidence="medium",
        change=change,
    )


RULES: tuple[Rule, ...] = (
    Rule(
        "HOST.QUOTA",
        cls="dispatch",
        inputs=("device", "overlap", "links"),
        check=limited,
        thresholds=(SEVERITY_MEDIUM, SEVERITY_HIGH),
        advice=("cpu_idle",),
        pages=(pages.BINDING,),
        sources=("Linux: CFS bandwidth control",),
        reach="cause",
        replayed=True,
    ),
    Rule(
        "DEVICE.EVENT",
        cls="dispatch",
        inputs=("device", "overlap"),
        check=event_waits,
        thresholds=(SEVERITY_MEDIUM, SEVERITY_HIGH),
        advice=("event_order", "event_graph"),
        pages=(pages.EVENTS, pages.GRAPHS),
        change="""\
-side.wait_stream(main)
-with torch.npu.stream(side):
-    y = light(x)
-main.wait_stream(side)
-z = heavy(x)
+side.wait_stream(main)
+with torch.npu.stream(side):
+    y = light(x)
+z = heavy(x)
+main.wait_stream(side)
""",
        sources=("operator tuning guide 0-02, 0-07",),
        reach="cause",
        replayed=True,
        words=("device_side", "event_wait"),
    ),
    Rule(
        "SERVE.IDLE",
        cls="dispatch",
        inputs=("device", "overlap", "links"),
        check=unasked,
        advice=("serve_load",),
        gpu=("serve_load",),
        pages=(pages.TUNING,),
        sources=("20-step tuning checklist 2-20",),
    ),
    Rule(
        "HOST.PAUSE",
        cls="dispatch",
        inputs=("device", "overlap", "links"),
        check=pauses,
        thresholds=(PAUSE_MS, SEVERITY_MEDIUM, SEVERITY_HIGH),
        advice=("pause_look", "pause_thread", "pause_record", "gc_record", "cpu_idle", "binding"),
        gpu=("pause_look", "pause_thread", "pause_record", "cpu_idle"),
        pages=(pages.PROFILER, pages.TUNING),
        change="""\
-torch.save(model.state_dict(), path)
+state = {name: each.to("cpu", non_blocking=True) for name, each in model.state_dict().items()}
+threading.Thread(target=torch.save, args=(state, path)).start()
""",
        sources=("MindStudio Insight walk-through 1-51", "operator tuning guide 0-07"),
        reach="cause",
        replayed=True,
    ),
)
