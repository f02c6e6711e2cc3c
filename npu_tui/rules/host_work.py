"""Findings about work of the host that launches nothing while the device waits: by owner on the critical path.

An owner of such work has one explanation, the most specific: a collection, an allocation, compiling, a fetch, a pause
in which nothing is recorded. What none of these recognises is reported by its name, its line and its gain.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.calls import (
    ALLOCATING_OPERATIONS,
    BLOCKING_OPERATIONS,
    READING_OPERATIONS,
    is_memory_call,
    profiler_work,
)
from npu_tui.analysis.code_lines import user_line
from npu_tui.analysis.device import HOST
from npu_tui.analysis.launches import Around, enqueue_of, launch_delays
from npu_tui.analysis.limits import A_PART, ENOUGH, HALF, LITTLE, NAMED, NEARLY_ALL, NOTABLE, PLACES
from npu_tui.analysis.owners import owners as owners_of
from npu_tui.analysis.path import Owner, critical_path
from npu_tui.analysis.replay import ANY_THREAD, NO_CHANGE, Change, HostCut, TaskCut
from npu_tui.analysis.replay_device import COLLECTIVE, KERNEL
from npu_tui.rules import pages
from npu_tui.rules.blame import (
    COMPILE,
    SYNC_SHARE,
    at_the_end,
    compile_calls,
    late_behind_collectives,
    sync_calls,
)
from npu_tui.rules.compute import lines_by
from npu_tui.rules.cpu import stops, thief
from npu_tui.rules.facts import Facts, once_per_device
from npu_tui.rules.functions import (
    by_function,
    in_one_stretch,
    read_before,
    right_before,
    sent_after,
    waited_before,
    whole_stretches,
)
from npu_tui.rules.inputs import (
    GARBAGE_COLLECTION,
    NOTHING,
    Span,
    common,
    inside,
    length_of,
    together,
    without,
)
from npu_tui.rules.judged_path import owner_text, path_owners, short_call
from npu_tui.rules.rule import (
    GRADES,
    LISTED,
    SEVERITY_HIGH,
    SEVERITY_MEDIUM,
    Draft,
    Reach,
    Rule,
    about,
    advise,
    cost_of,
    line_of,
    ranked,
    sentences,
    severity_of,
)
from npu_tui.trace.arrays import I64, among, less
from npu_tui.trace.classes import FRAME, phase_of
from npu_tui.trace.intervals import covered_within, touches, union
from npu_tui.trace.message import Said, message

EXPLANATIONS: tuple[tuple[str, Callable[[Owner], bool]], ...] = (
    ("PY.GC", lambda owner: owner.name == GARBAGE_COLLECTION),
    ("MEM.ALLOC", lambda owner: is_memory_call(owner.name) or owner.name in ALLOCATING_OPERATIONS),
    ("OP.COMPILE", lambda owner: owner.name.endswith(COMPILE)),
    ("DATA.LOADER", lambda owner: any("dataloader" in call.lower() for call in owner.calls)),
    ("ENGINE.HOST", lambda owner: any(phase_of(call) is not None for call in owner.calls)),
    ("HOST.PAUSE", lambda owner: not owner.name),
    ("HOST.WORK", lambda owner: True),
)
"""The rules that explain owners of work, the most specific first, and how each recognises its own."""


def is_program_work(owner: Owner) -> bool:
    """Whether only its name says what ``owner`` does: neither memory, compiling nor fetching."""
    rule = next(rule for rule, recognises in EXPLANATIONS if recognises(owner))
    once = any(_COMPILER.search(call) is not None or "importlib" in call for call in (owner.name, *owner.calls))
    return owner.doing == "work" and rule == "HOST.WORK" and not once


@once_per_device
def works(facts: Facts) -> dict[str, tuple[Owner, ...]]:
    """The owners of work that launches nothing, by the rule that explains each, most gain first."""
    told = path_owners(facts)
    return _by_rule(facts, () if told is None else told.owners)


def _by_rule(facts: Facts, owners: tuple[Owner, ...]) -> dict[str, tuple[Owner, ...]]:
    found: dict[str, list[Owner]] = {rule: [] for rule, _ in EXPLANATIONS}
    for owner in owners:
        of_profiler = len(owner.items) > 0 and bool(np.isin(owner.items, profiler_work(facts.trace)).all())
        if owner.doing == "work" and owner.change is not None and not of_profiler:
            rule = next(rule for rule, recognises in EXPLANATIONS if recognises(owner))
            rule = "OP.COMPILE" if _compiles(facts, owner) else rule
            found["HOST.PAUSE" if stops_within(facts, owner) else rule].append(owner)
    return {rule: tuple(sorted(own, key=lambda owner: -(owner.gain or 0))) for rule, own in found.items()}


def _compiles(facts: Facts, owner: Owner) -> bool:
    """Whether most of the work of ``owner`` is compiling."""
    compiled = {cut.thread: cut.span for cut in (_compiled(facts) if facts.has("cann") else ())}
    cuts = (owner.change or NO_CHANGE).host
    own = sum(length_of(cut.span) for cut in cuts)
    return sum(length_of(common(cut.span, compiled.get(cut.thread, NOTHING))) for cut in cuts) > HALF * own


def stops_within(facts: Facts, owner: Owner) -> Literal["", "once", "read"]:
    """Why ``owner`` does no work: its call only waits, for nothing; empty if it may work.

    It returns at ``once`` at other times, or the number that it has to ``read`` is on the host by then. There is
    nothing that it could do: its thread stands still, as it would anywhere else.
    """
    if owner.name not in BLOCKING_OPERATIONS or owner.change is None:
        return ""
    slices, equal = facts.trace.slices, facts.named(HOST, owner.name.__eq__)
    span = together(*(cut.span for cut in owner.change.host))
    work = covered_within(*span, slices.start[equal], slices.end[equal])
    if int(np.count_nonzero(work <= NOTABLE * work.max(initial=0))) >= A_PART * len(equal):
        return "once"
    read = owner.name in READING_OPERATIONS and len(
        right_before(facts, span_of(facts, owner.change))
    ) >= NEARLY_ALL * len(span[0])
    return "read" if read else ""


def change_of(owners: tuple[Owner, ...]) -> Change:
    """The run without all of ``owners``."""
    change = NO_CHANGE
    for owner in owners:
        change |= owner.change or NO_CHANGE
    return change


def span_of(facts: Facts, change: Change) -> Span:
    """When host threads do what ``change`` takes out, on the device's clock."""
    spans = [facts.on_device(cut.span) for cut in change.host]
    return together(*spans) if spans else NOTHING


@once_per_device
def waiting(facts: Facts) -> Span:
    """When the device has nothing to do, or runs nothing but a collective while the launch after it is not made.

    Free by the Overlap Analysis ends with the last kernel, so what a step does after it is not in there; a wait for a
    request is no work. Without a replay nothing says whether the host itself waits for the collective.
    """
    busy = facts.busy
    if not len(busy[0]):
        return NOTHING
    begins = np.array([step.item for step in facts.steps[:1]], np.int64)
    first = facts.trace.slices.start[begins] + facts.floor, busy[0][: len(begins)]
    before = union(first[0], np.maximum(*first)) if len(begins) else NOTHING
    between = facts.cut((busy[1][:-1], busy[0][1:]))
    behind = NOTHING if facts.replay is None else late_behind_collectives(facts)
    return without(together(before, between, behind, at_the_end(facts)), facts.unasked)


def called(
    facts: Facts, subject: str, calls: I64, change: Change | None = None, more: dict[str, object] | None = None
) -> Draft | None:
    """The draft about ``subject``: what the run gains without ``calls`` of the host, wherever they are.

    Its texts get how often and how long they are called, for how long the device is ``idle`` meanwhile, how long it
    ``waits`` in one ``unit``, and ``more``. None where neither is worth a word.
    """
    if not len(calls):
        return None
    change = facts.without_calls(calls) if change is None else change
    removes = common(waiting(facts), facts.on_device(facts.span_of(calls)))
    cost, idle, length = cost_of(facts, change, removes), length_of(removes), facts.length(calls)
    if facts.share(max(cost, idle)) < facts.limits[SYNC_SHARE]:
        return None
    words: dict[str, object] = {
        "count": len(calls),
        "time": length_of(facts.span_of(calls)),
        "mean": float(length.mean()),
        "longest": int(length.max()),
        "each": facts.per_unit(length_of(facts.span_of(calls))),
        "idle": idle,
        "waits": idle / facts.count,
        "unit": facts.unit,
        **(more or {}),
    }
    return Draft(
        severity_of(facts.limits, facts.share(cost)),
        *about(subject, **words),
        facts.longest(calls, lambda item: message(f"finding.{subject}.place")),
        removes=removes,
        change=change,
    )


def compiling(facts: Facts) -> Draft | None:
    """Operators that are compiled while the job runs, with what launches them: no other call of it takes so long."""
    calls = _compiling_calls(facts)
    if not len(calls):
        return None
    length = facts.length(calls)
    asked = enqueue_of(facts.trace, calls)
    lines = ranked(lines_by(facts, np.where(asked >= 0, asked, calls), length), NAMED)
    operators = sorted({name for item in calls.tolist() if (name := _operator_in(facts.trace.name_of(item)))})
    left = len(operators) - LISTED
    more: Said = message("finding.affinity.more", count=left) if left > 0 else ""
    what = message("finding.compile.any")
    if operators:
        what = message("finding.compile.operators", names=operators[:LISTED], more=more)
    at = np.unique(np.searchsorted(facts.repetitions, facts.trace.slices.start[calls] + facts.floor, "right"))
    only = len(at) == 1 < len(facts.steps) and facts.whole_steps
    words: dict[str, object] = {
        "chip": facts.chip,
        "compiles": len(compile_calls(facts)),
        "what": message("finding.compile.where", what=what, line=line_of(lines[0][0])) if lines else what,
        "step": message("finding.long.step", step=facts.steps[max(int(at[0]) - 1, 0)].number) if only else "",
    }
    draft = called(facts, "compile", calls, Change(host=_compiled(facts)), words)
    if draft is None:
        return None
    waits = draft.removes is not None and length_of(draft.removes)
    verdict = message("finding.compile.verdict", **draft.title.args) if waits else None
    return replace(draft, code_lines=tuple(line for line, _ in lines), verdict=verdict)


def _operator_in(name: str) -> str:
    """The operator that an operation or an entry of the task queue launches; empty for any other call."""
    queued, _, operator = name.rpartition("@")
    if queued.startswith("Dequeue") or name.startswith("aten::"):
        return operator.removeprefix("aclnn")
    return ""


@once_per_device
def _compiling_calls(facts: Facts) -> I64:
    """The innermost operations, or entries of the task queue, that compile before they launch; else the call itself."""
    trace, slices, calls = facts.trace, facts.trace.slices, compile_calls(facts)
    tid = np.array([lane.tid for lane in trace.lanes])[slices.lane[calls]]
    lane_of = {trace.lanes[lane].tid: lane for layer in trace.layers if layer.kind == "python" for lane in layer.lanes}
    lane = np.array([lane_of.get(thread, -1) for thread in tid.tolist()], np.int32)
    kinds = np.array([trace.categories.index(kind) for kind in _LAUNCHING & {*trace.categories}], np.int64)
    operations = among(slices.category, kinds)
    around = Around(trace, operations).find(lane, slices.start[calls], slices.end[calls])
    return np.unique(np.where(around >= 0, around, calls))


_LAUNCHING = {"cpu_op", "dequeue"}
"""The categories of operations of the host and of entries of the task queue."""


@once_per_device
def _compiled(facts: Facts) -> tuple[HostCut, ...]:
    """What threads do longer as they compile: all of the calls that do, but for what a launch takes otherwise."""
    trace, slices, calls = facts.trace, facts.trace.slices, _compiling_calls(facts)
    every = np.unique(np.concatenate((calls, compile_calls(facts))))
    equal = less(np.flatnonzero(among(slices.category, slices.category[calls])), every)
    usual = int(np.median(facts.length(equal))) if len(equal) else 0
    inner = np.isin(every, compile_calls(facts))
    end = np.where(inner, slices.end[every], np.maximum(slices.end[every] - usual, slices.start[every]))
    tid = np.array([lane.tid for lane in trace.lanes])[slices.lane[every]]
    return tuple(
        HostCut(thread, union(slices.start[every[tid == thread]], end[tid == thread]))
        for thread in np.unique(tid).tolist()
    )


@once_per_device
def collector(facts: Facts) -> Draft | None:
    """Python's garbage collector at work; where a process of its own records it, it stops all threads."""
    events = facts.named(("python", "other"), GARBAGE_COLLECTION.__eq__)
    draft = called(facts, "gc", events, Change(host=(HostCut(ANY_THREAD, facts.span_of(events)),)))
    return draft and replace(draft, anywhere=True)  # it runs wherever the number of objects makes it


@once_per_device
def host_work(facts: Facts) -> tuple[Draft, ...]:
    """Operations and frames of Python that launch nothing and hold up the launches after them, each by itself."""
    found = works(facts)
    silent = [owner for owner in found["HOST.PAUSE"] if not owner.name]
    owners = by_function(facts, _by_line(facts, found["HOST.WORK"]), silent)
    drafts = [_work(facts, owner) for owner in owners[:PLACES]]
    return tuple(draft for draft in drafts if draft is not None)


@once_per_device
def works_behind_peers(facts: Facts) -> dict[str, tuple[Owner, ...]]:
    """``works`` of the run in which no other rank comes late; empty if this rank waits little for others."""
    late = Change(in_time=frozenset() if facts.replay is None else facts.replay.late)
    if facts.replay is None or facts.share(facts.replay.gain(facts.judged(late))) < facts.limits[SYNC_SHARE]:
        return {}
    path = critical_path(facts.replay, late)
    found = owners_of(facts.replay, facts.inputs.types_of, path, facts.judged, late)
    return _by_rule(facts, found.owners)


def work_behind_peers(facts: Facts) -> tuple[Draft, ...]:
    """What would hold up the launches of a rank that waits for others if these came in time; ``most`` is its gain."""
    every = _by_line(facts, works_behind_peers(facts).get("HOST.WORK", ()))[:PLACES]
    drafts = [_work(facts, owner, in_time=True) for owner in every]
    return tuple(draft for draft in drafts if draft is not None)


def _by_line(facts: Facts, owners: tuple[Owner, ...]) -> list[Owner]:
    """``owners`` with those below one call of a line as one, and operators of a line or stretch: they are what it does.

    A call that computes on the device does more than its host is held up by: those below it stay apart.
    """
    same: dict[object, list[Owner]] = {}
    stretch = in_one_stretch(facts, owners)
    for number, owner in enumerate(owners):
        key: object = stretch.get(number, number)
        if owner.where is not None and "::" in owner.name:
            key = owner.where, owner.thread, owner.calls[1:]
        elif calls := _calls_of_line(owner)[1:]:
            tasks = _asked_in(facts, calls[-1])
            key = (owner.where, owner.thread, calls[-1]) if tasks is not None else number
        same.setdefault(key, []).append(owner)
    return [_as_one(facts, each) if len(each) > 1 else each[0] for each in same.values()]


def _asked_in(facts: Facts, call: str) -> I64 | None:
    """The collectives that ``call`` launches, slices; None where it launches kernels, too."""
    span, tasks = facts.span_of(facts.named(("python", "other"), call.__eq__)), facts.tasks
    if tasks is None or not len(span[0]):
        return None
    asked = inside(span, tasks.launched)
    return None if (tasks.kind[asked] == KERNEL).any() else tasks.item[asked & (tasks.kind == COLLECTIVE)]


def _as_one(facts: Facts, owners: list[Owner]) -> Owner:
    """What ``owners`` do together; for a call around them, which waits and meets other ranks, that is part."""
    calls, change = owners[0].calls, change_of(tuple(owners))
    name = ", ".join(owner.name for owner in owners[:NAMED])
    if "::" not in owners[0].name:
        calls = calls[len(_calls_of_line(owners[0])) - 1 :]
        name, waits = calls[0], sync_calls(facts)
        met, items = _asked_in(facts, name), facts.named(("python", "other"), name.__eq__)
        waits = waits[inside(facts.span_of(items), facts.trace.slices.start[waits])]
        change |= facts.without_calls(items) | Change(waits=frozenset(waits.tolist()))
        if met is not None and len(met) and facts.replay is not None:
            change |= Change(tasks=(TaskCut(met),), in_time=facts.replay.late, at=frozenset(met.tolist()))
    elif owners[0].where is None:
        every = works(facts).items()
        others = tuple(owner for rule, own in every if rule not in ("HOST.WORK", "HOST.PAUSE") for owner in own)
        change = whole_stretches(facts, change, together(*(cut.span for cut in change_of(others).host), NOTHING))
    items, time = np.sort(np.concatenate([owner.items for owner in owners])), sum(owner.on_path for owner in owners)
    return replace(owners[0], name=name, calls=calls, change=change, items=items, on_path=time)


def _work(facts: Facts, owner: Owner, in_time: bool = False) -> Draft | None:
    change = owner.change or NO_CHANGE
    read = read_before(facts, owner, span_of(facts, change))
    sent = sent_after(facts, owner, span_of(facts, change)) if len(read) else read
    own = np.concatenate([sent[:0], *(cut.items for cut in change.tasks if cut.keep == 0)])
    own = own[facts.part.slices.copy[own]] if facts.part.slices is not None else own[:0]
    form_of_copies = "_within" * bool(len(own)) or "_back" * bool(len(sent))
    copied = np.unique(np.concatenate((read, sent, own)))
    if sum(length_of(cut.span) for cut in change.host) < NOTABLE * length_of(facts.span_of(copied)):
        return None  # it copies, and hardly works
    removes = together(common(waiting(facts), span_of(facts, change)), without(facts.span_of(copied), facts.working))
    change |= Change(tasks=(TaskCut(copied),)) if len(copied) else NO_CHANGE
    cost = (facts.freed(facts.judged(change)) or 0) if in_time else cost_of(facts, change, removes)
    share = facts.share(cost)
    if share < facts.limits[SYNC_SHARE if in_time else SEVERITY_MEDIUM]:
        return None
    words = {"where": owner_text(facts.trace, owner), "chip": facts.chip, "unit": facts.unit}
    time, late = cost / facts.count, _late_behind(facts, removes)
    behind: Said = message("finding.work.late", count=late) if late else ""
    # Launches that took longer than usual are a cause of their own: loading a kernel at its first use.
    slow = launch_delays(facts.trace).of(owner.items)
    form = "_launching" * bool(len(slow) and (slow >= 0).all())
    told = path_owners(facts)
    copies = length_of(facts.span_of(copied))
    few = copies < LITTLE * cost  # else it waits for what it copies
    waited = None if told is None or in_time or not few else waited_before(facts, owner, told.waits)
    first: Said = ""
    if waited is not None:
        first = message("finding.work.waits", name=short_call(waited.name), count=len(waited.items), **words)
    synchronizes = waited is not None and waited.name not in BLOCKING_OPERATIONS
    compiles = any(_COMPILER.search(call) is not None for call in (owner.name, *owner.calls))
    return Draft(
        severity_of(facts.limits, share),
        message(
            f"finding.work.title{'_waits' * synchronizes}",
            time=time,
            name=short_call(waited.name) if waited is not None else "",
            **words,
        ),
        sentences(
            message(f"finding.work.detail{form}", time=owner.on_path / facts.count, unit=facts.unit),
            first,
            message("finding.work.through", calls=through) if (through := _through(owner)) else "",
            message("finding.work.most", name=short_call(owner.calls[0]))
            if owner.calls and is_frame(owner.name) and owner.calls[0] != owner.name
            else "",
            _frames_in(facts, change),
            message(
                f"finding.work.copies{form_of_copies}",
                time=copies / facts.count,
                unit=facts.unit,
            )
            if len(copied) and not few
            else "",
            message("finding.work.optimizer") if any(call.startswith(_OPTIMIZER) for call in owner.calls) else "",
            message("finding.work.compiles") if compiles else "",
        ),
        facts.longest(facts.outermost(owner.items), lambda item: message(f"finding.work.place{form}")),
        advise("bucket_shapes" if compiles else "warm_launches")
        if form or compiles
        else advise(*("timers",) * synchronizes, "work_beside", "work_on_device"),
        removes=removes,
        code_lines=() if owner.where is None else (owner.where,),
        verdict=message("finding.work.verdict", time=time, step=facts.step_ns, late=behind, **words),
        change=change,
        most=cost if in_time else None,
        reach=reach_of(facts, change),
    )


_OPTIMIZER = "Optimizer.step#"
_COMPILER = re.compile(r"(?:torch/_(?:dynamo|inductor)|triton/(?:compiler|runtime/jit)|torchair)[/.(]")
"""Frames of what compiles graphs and kernels at their first call, and again for inputs of other shapes."""


def _calls_of_line(owner: Owner) -> tuple[str, ...]:
    """The calls between the line of the user and the work of ``owner``, which is the first; nothing where none is."""
    for number, call in enumerate(owner.calls):
        if owner.where is not None and (line := user_line(call)) and line.function == owner.where.function:
            return owner.calls[:number]
    return ()


def _through(owner: Owner) -> list[str]:
    """The calls that lead from the line of the user to the work of ``owner``, innermost first; at most ``NAMED``."""
    return list(dict.fromkeys(map(short_call, _calls_of_line(owner)[1:])))[:NAMED]


def _frames_in(facts: Facts, change: Change) -> Said:
    """How many frames begin in the work of the host that ``change`` takes out, and which most of them are."""
    slices, spans = facts.trace.slices, together(*(cut.span for cut in change.host), NOTHING)
    frames = facts.begun(facts.named(("python", "other"), lambda name: name.startswith("<built-in") or is_frame(name)))
    frames = frames[inside(spans, slices.start[frames])]
    if len(frames) < ENOUGH * max(len(spans[0]), 1):
        return ""
    name, count = np.unique(slices.name[frames], return_counts=True)
    words = {"count": round(len(frames) / facts.count), "most": round(int(count.max()) / facts.count)}
    most = short_call(facts.trace.names[name[count.argmax()]])
    return message("finding.work.frames", name=most, unit=facts.unit, **words)


def is_frame(name: str) -> bool:
    """Whether a slice of this ``name`` is a frame of Python."""
    return FRAME.fullmatch(name) is not None


def _late_behind(facts: Facts, span: Span) -> int:
    """How many starved launches the idle device waited for in ``span``."""
    launches = facts.asked
    if launches is None:
        return 0
    starved = launches.starved
    ready = launches.ready[starved].astype(np.float64)
    return int(touches(*span, ready, ready + launches.lost[starved]).sum())


def reach_of(facts: Facts, change: Change) -> Reach | None:
    """``place`` where a finding about the CPU is nearer to the cause of what ``change`` takes out; else the rule's own.

    It says who had the CPU, by ftrace, or that a limit of it stops the process for most of that time.
    """
    work, held = together(*(cut.span for cut in change.host), NOTHING), stops(facts)
    limited = len(held[0]) and length_of(common(work, held)) > HALF * length_of(work)
    return "place" if thief(facts) is not None or limited else None


RULES: tuple[Rule, ...] = (
    Rule(
        "OP.COMPILE",
        cls="dispatch",
        inputs=("device", "overlap", "links", "cann"),
        check=compiling,
        thresholds=(SYNC_SHARE, *GRADES),
        advice=("jit_compile", "internal_format", "bucket_shapes"),
        pages=(pages.COMPILE,),
        change="""\
+torch_npu.npu.set_compile_mode(jit_compile=False)
+torch_npu.npu.config.allow_internal_format = False
 model = model.npu()
""",
        sources=("msprof-analyze advisor: operator dispatch",),
        reach="cause",
        replayed=True,
    ),
    Rule(
        "PY.GC",
        cls="config",
        inputs=("device", "overlap", "python"),
        check=collector,
        thresholds=(SYNC_SHARE, *GRADES),
        advice=("gc",),
        gpu=("gc",),
        pages=(pages.GC, pages.PROFILER),
        change="""\
+gc.collect()
+gc.freeze()
+gc.disable()
 for step, batch in enumerate(loader):
     train(batch)
+    if step % 500 == 0:
+        gc.collect()
""",
        sources=("msprof-analyze advisor: GC, conjectured GC",),
        reach="cause",
        replayed=True,
    ),
    Rule(
        "HOST.WORK",
        cls="dispatch",
        inputs=("device", "overlap", "links"),
        check=host_work,
        thresholds=(SEVERITY_MEDIUM, SEVERITY_HIGH),
        advice=("timers", "work_beside", "work_on_device", "warm_launches"),
        gpu=("timers", "work_beside", "warm_launches"),
        pages=(pages.TUNING,),
        change="""\
-score = metric(output.cpu().numpy(), labels)
+if step % 100 == 0:
+    score = metric(output.cpu().numpy(), labels)
""",
        sources=("operator tuning guide 0-07", "MindStudio Insight walk-through 1-51"),
        reach="cause",
        replayed=True,
    ),
)
