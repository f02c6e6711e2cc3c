"""Findings about the work of the device itself: how much it computes, and on what.

Sources: the tuning guides and the kernel rules of msprof-analyze's advisor.
"""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.code_lines import CodeLine, called_lines, common_lines, lines_of_stacks, stack_of, user_line
from npu_tui.analysis.launches import Around, operation_of
from npu_tui.analysis.limits import A_PART, LITTLE, MAINLY, NAMED, NEARLY_ALL, Threshold
from npu_tui.analysis.ranges import PHASES
from npu_tui.analysis.replay import Change, TaskCut
from npu_tui.rules import pages
from npu_tui.rules.blame import LINKS_FEWEST
from npu_tui.rules.facts import CUBE, MOVES, Facts
from npu_tui.rules.functions import frames_of, stacks_of_launches, within, without_passes
from npu_tui.rules.inputs import length_of, together
from npu_tui.rules.left_out import left_out
from npu_tui.rules.rule import (
    GRADES,
    LISTED,
    SEVERITY_MEDIUM,
    Draft,
    Rule,
    advise,
    line_of,
    lines_of,
    ranked,
    sentences,
    severity_of,
    timed,
)
from npu_tui.rules.sequences import CHAIN_FROM, ELEMENTWISE
from npu_tui.trace.arrays import F64, I64, Bools, summed
from npu_tui.trace.message import Message, message
from npu_tui.trace.model import FORWARD_BACKWARD
from npu_tui.trace.text import brief

LAYOUT = re.compile(r"^(?:transpose|reshape|permute|flatten|squeeze|unsqueeze)", re.IGNORECASE)
SOFTMAX = re.compile(r"softmax", re.IGNORECASE)

UTILIZATION_FINE = Threshold("utilization_fine", 0.8)
UTILIZATION_POOR = Threshold("utilization_poor", 0.5)


def utilization(facts: Facts) -> Draft:
    """How much of its time the device computes, and how much it does anything at all."""
    limits, sums = facts.limits, facts.sums
    compute, busy = facts.share(sums.computing), 1 - facts.share(sums.free)
    band = "fine" if compute > limits[UTILIZATION_FINE] else "poor" if compute < limits[UTILIZATION_POOR] else "room"
    return Draft(
        "info",
        message(
            "finding.util.title_poor" if band == "poor" else "finding.util.title",
            compute=compute,
            busy=busy,
            limit=limits[UTILIZATION_POOR],
        ),
        message(f"finding.util.{band}", compute=compute, busy=busy, total=facts.total),
        advice=(),  # the other findings say what to change
    )


def verdict(facts: Facts) -> Draft:
    """What takes most time: host-late Free (where no launch is known all of Free), exposed communication or computing;
    none of them where the device is free for longer than all three with its launches on time, or unknown.
    """
    sums = facts.sums
    known = facts.part.split is not None
    late = length_of(facts.host_late) if known else sums.free
    parts = {"dispatch": late, "communication": sums.not_overlapped, "compute": sums.computing}
    bound = max(parts, key=lambda name: parts[name])
    times = {"late": late, "exposed": sums.not_overlapped, "compute": sums.computing}
    shares = {f"{name}_share": facts.share(time) for name, time in times.items()}
    detail = message("finding.verdict.detail" if known else "finding.verdict.detail_free", **times, **shares)
    if not known and bound == "dispatch":
        title = message("finding.verdict.title_free")
    elif sums.free - late > sum(parts.values()):
        on_time = 2 * length_of(facts.device_side) >= sums.free - late
        title = message(f"finding.verdict.title_{'device' if on_time else 'unlinked'}")
    else:
        words = {"bound": message(f"finding.bound.{bound}"), "share": facts.share(parts[bound])}
        title = message("finding.verdict.title", **words)
    return Draft("info", title, sentences(detail, *left_out(facts)))


_KIND = 40
"""Characters of a kind of kernel in a sentence, which may name several."""
_NOTABLE, _MOST_KINDS = 0.05, 2
"""Kinds of kernels that say what computing is: each has this share of it, and so many are named."""


def _kind(name: str) -> str:
    """A kind of kernel in a sentence; names that are long differ at their ends."""
    return brief(name) if len(name) <= _KIND else f"{brief(name[: _KIND // 2])}…{brief(name[1 - _KIND // 2 :])}"


def computing_is(facts: Facts) -> list[Message]:
    """What computing is where nothing else is to be worked on: the kinds of kernels with most of it, and lines."""
    length, (types, code) = facts.length(facts.kernels), facts.kernel_types
    total = int(length.sum())
    kinds: list[Message] = []
    for name, time in list(facts.time_by_type.items())[:NAMED]:
        if time < _NOTABLE * total:
            continue
        of_kind = code == types.index(name)
        lines = lines_by(facts, operation_of(facts.trace, facts.kernels[of_kind]), length[of_kind]).most_common(1)
        words = {"name": _kind(name), "share": time / total}
        at = [lines_of(line.file, (line.line,)) for line, spent in lines if spent >= MAINLY * time]
        kinds.append(message("finding.shared_at", line=at[0], **words) if at else message("finding.shared", **words))
    return [message("finding.verdict.computing", kinds=kinds)] if kinds else []


SHARE_CUBE = Threshold("share_cube", 0.6)
SHARE_SOFTMAX = Threshold("share_softmax", 0.15)


def op_share(facts: Facts) -> Draft | None:
    """A kind of operators that takes more of the compute time than it should."""
    limits, times = facts.limits, facts.time_by_type
    total = sum(times.values())
    if not total or len(facts.kernels) < limits[LINKS_FEWEST]:
        return None
    # Matrix work is what the device is for: a large share of it says where to look, not that something is wrong.
    kinds: tuple[tuple[str, float, re.Pattern[str]], ...] = (
        ("softmax", limits[SHARE_SOFTMAX], SOFTMAX),
        ("cube", limits[SHARE_CUBE], CUBE),
    )
    of_kind = [(kind, most, [name for name in times if belongs.search(name)]) for kind, most, belongs in kinds]
    shares = [(kind, sum(times[name] for name in types) / total, most, types) for kind, most, types in of_kind]
    exceeding = [row for row in shares if row[1] > row[2]]
    if not exceeding:
        return None
    lines = [
        message(
            "finding.share.part",
            kind=message(f"finding.share.{kind}"), share=share,
            types=[timed(name, times[name]) for name in types[:LISTED]],
        )
        for kind, share, _, types in exceeding
    ]  # fmt: skip
    first, share, most, types = exceeding[0]
    items = _kernels_of(facts, set(types))
    return Draft(
        "info" if first == "cube" else "medium",
        message("finding.share.title", kind=message(f"finding.share.{first}"), share=share),
        sentences(*lines),
        facts.longest(items, lambda item: message("finding.dominant.place"), 5),
        advise(*(f"share.{kind}" for kind, *_ in exceeding)),
        weight=(share - most) * total,
        shown=facts.span_of(items),
    )


def _kernels_of(facts: Facts, wanted: set[str]) -> I64:
    types, code = facts.kernel_types
    chosen = np.array([name in wanted for name in types] + [False])
    items: I64 = facts.kernels[chosen[code]]
    return items


def lines_by(facts: Facts, operations: I64, weight: F64 | I64) -> Counter[CodeLine]:
    """The lines of the user's code that called ``operations`` (n,) by their sums of ``weight`` (n,)."""
    sums: Counter[CodeLine] = Counter()
    for stack, total in enumerate(np.bincount(stack_of(facts.trace, operations) + 1, weight).tolist()[1:]):
        if total and (line := user_line(facts.trace.stacks[stack])) is not None:
            sums[line] += total
    return sums


DOMINANT_SHARE = Threshold("dominant_share", 0.3)


def dominant(facts: Facts) -> Draft | None:
    """One operator type that takes a large part of the compute time."""
    limits, times = facts.limits, facts.time_by_type
    total = sum(times.values())
    if not total or len(facts.kernels) < limits[LINKS_FEWEST]:
        return None
    large = [name for name, time in times.items() if time / total >= limits[DOMINANT_SHARE]]
    if not large:
        return None
    # Matrix work is what the device is for: what else takes as much stands before it.
    name = next((name for name in large if CUBE.search(name) is None), large[0])
    time, share = times[name], times[name] / total
    items = _kernels_of(facts, {name})
    length = facts.length(items)
    is_cube, converts = CUBE.search(name) is not None, MOVES.search(name) or LAYOUT.search(name) or name == "Cast"
    words = {"time": time, "count": len(items), "average": float(length.mean()), "longest": float(length.max())}
    title = message("finding.dominant.title", name=_kind(name), share=share)
    makers = _makers(facts, items)
    # The name of a template says nothing of what the kernel does: what launches it does.
    by = message("finding.dominant.by", names=makers) if len(makers) > 1 or (makers and "::" in name) else ""
    return Draft(
        "info" if is_cube else "medium",
        title,
        sentences(message("finding.dominant.detail", name=brief(name), share=share, **words), by),
        facts.longest(items, lambda item: message("finding.dominant.place")),
        advise("dominant", "share.cube" if is_cube else "replace"),
        weight=time - limits[DOMINANT_SHARE] * total,
        shown=facts.span_of(items),
        removes=facts.span_of(items) if converts else None,  # at best none of them is needed
        change=Change(tasks=(TaskCut(items),)) if converts else None,
        confidence="medium" if converts else "high",
        verdict=message("finding.dominant.verdict", title=title, names=makers) if by else None,
    )


def _makers(facts: Facts, kernels: I64) -> list[str]:
    """The operations that launch most of ``kernels`` by their time, as far as they are known."""
    operations, length = operation_of(facts.trace, kernels), facts.length(kernels)
    names, where = np.unique(facts.trace.slices.name[operations[operations >= 0]], return_inverse=True)
    times = summed(where, length[operations >= 0], len(names))
    most = [place for place in np.argsort(-times, kind="stable").tolist() if times[place] >= A_PART * length.sum()]
    return [brief(facts.trace.names[names[place]]) for place in most[:NAMED]]


def without_gradient(facts: Facts) -> tuple[Draft, ...]:
    """What a pass forward computes of nothing that is trained: masks, positions, statistics; or all of it once more.

    Nothing in the pass backward comes from it. Products among it are a part of the model that is not trained, unless
    they are those of the pass that is. Nor does it come from what is updated after the optimizer.
    """
    trace, slices = facts.trace, facts.trace.slices
    links = trace.bound_links_of(FORWARD_BACKWARD)
    if not len(links):
        return ()
    phase, operations = facts.kernel_phases, operation_of(trace, facts.kernels)
    passing = np.isin(phase, [PHASES.index("forward"), PHASES.index("neither")]) & (operations >= 0)
    at, operations = np.flatnonzero(passing), operations[passing]
    trained = np.unique(trace.links.source_slice[links]).astype(np.int64)
    around = Around(trace, trained).find(slices.lane[operations], slices.start[operations], slices.end[operations])
    chosen = around < 0
    for lane in np.unique(slices.lane[trained]).tolist():
        begins = np.sort(slices.start[trained[slices.lane[trained] == lane]])
        low, high = (np.searchsorted(begins, edge[operations]) for edge in (slices.start, slices.end))
        chosen &= (slices.lane[operations] != lane) | (low == high)
    again, place = _again(facts, at, chosen)
    lines = lines_of_stacks(trace, stack_of(trace, operation_of(trace, facts.kernels)))[0]
    line, updates = lines[at], _updates(facts, phase, lines)[at]
    # A line that trains something is a part of the model.
    before, after = (beside[at] for beside in _phases_beside(facts, phase))
    passed = (before == PHASES.index("forward")) & (after == PHASES.index("backward"))  # and the other begins
    inside = (phase[at] == PHASES.index("forward")) | (passed & (phase[at] == PHASES.index("neither")))
    apart = chosen & ~again & inside & ((line < 0) | ~np.isin(line, line[~chosen]))
    types, code = facts.kernel_types
    if any(CUBE.search(types[kind]) for kind in np.unique(code[at[apart]]).tolist()):
        apart[:] = False
    parts = (("nograd", apart, ()), ("again", again, place), ("updates", updates, ()))
    drafts = [_untrained(facts, at[part], operations[part], subject, named) for subject, part, named in parts]
    drafts[-1] = _with_its_function(facts, drafts[-1], facts.kernels[at[updates]], phase)
    return tuple(draft for draft in drafts if draft is not None)


def _phases_beside(facts: Facts, phase: I64) -> tuple[I64, I64]:
    """The known phases of what was launched before and after each kernel, of such phases, -1 without; (kernels,)."""
    launch = facts.trace.slices.start[operation_of(facts.trace, facts.kernels)]
    known = np.flatnonzero(phase != PHASES.index("neither"))
    known = known[np.argsort(launch[known], kind="stable")]
    place, of_known = np.searchsorted(launch[known], launch), np.append(phase[known], -1)
    return of_known[place - 1], of_known[place]


def _with_its_function(facts: Facts, draft: Draft | None, items: I64, phase: I64) -> Draft | None:
    """``draft`` about updates of tensors with all that their function does, such as a copy of every tensor before.

    It launches nothing of a pass or of the optimizer, and no products: the step does not need it.
    """
    types, code = facts.kernel_types
    product = np.array([CUBE.search(name) is not None for name in types] + [False])[code]
    beside = (phase == PHASES.index("neither")) & ~product
    function = without_passes(facts, items, beside) if draft is not None else None
    if draft is None or function is None or not len(frames := frames_of(facts, function)):
        return draft
    kernels = facts.kernels[within(facts, function, stacks_of_launches(facts, facts.kernels))]
    change = Change(tasks=(TaskCut(kernels),)) | facts.without_calls(frames)
    gain = 0 if facts.replay is None else facts.replay.gain(facts.judged(change))
    held = length_of(facts.span_of(kernels))
    if gain <= (1 + LITTLE) * length_of(facts.span_of(items)):
        return draft
    line = user_line(facts.name_of(int(frames[0])))
    words = draft.title.args | {"each": facts.per_unit(gain), "line": "" if line is None else line_of(line)}
    words |= {"all": len(kernels), "held": held / facts.count, "unit": facts.unit}
    words |= {"called": length_of(facts.span_of(frames)) / facts.count}
    title = message("finding.updates.title_in", **words)
    return replace(
        draft,
        severity=severity_of(facts.limits, facts.share(gain)),
        title=title,
        verdict=title,
        detail=sentences(message("finding.updates.in", **words), draft.detail),
        code_lines=draft.code_lines if line is None else (line, *draft.code_lines),
        removes=together(facts.span_of(kernels), facts.on_device(facts.span_of(frames))),
        change=change,
        reach="cause",
    )


def _updates(facts: Facts, phase: I64, line: I64) -> Bools:
    """Which kernels, of such phases and lines, update tensors after the optimizer: averages of weights, projections.

    Nothing else is launched at their line, which does so to many tensors, or to such as the optimizer has; (kernels,).
    """
    shapes, (types, code) = facts.kernel_table.shapes.code, facts.kernel_types
    stepping, before = phase == PHASES.index("optimizer"), _phases_beside(facts, phase)[0]
    behind = (before < 0) | (before == PHASES.index("optimizer"))
    plain, listed = (
        np.array([rule(name) for name in types] + [False], np.bool_)[code]
        for rule in (lambda name: _ELEMENTWISE.fullmatch(name) is not None, lambda name: name.startswith("Foreach"))
    )
    updates: Bools = (phase == PHASES.index("neither")) & behind & plain & (line >= 0)
    alike = np.isin(shapes, shapes[stepping & (shapes >= 0)]) if len(shapes) == len(line) else np.zeros_like(updates)
    for each in np.unique(line[updates]).tolist():
        there = line == each
        many = np.count_nonzero(there) >= CHAIN_FROM * facts.count or (there & (listed | alike)).any()
        if not many or not updates[there].all() or {types[kind] for kind in np.unique(code[there])} == {"Cast"}:
            updates &= ~there
    return updates


_ELEMENTWISE = re.compile(rf"(?:Foreach)?(?:{'|'.join(ELEMENTWISE)}|Axpy)(?:Scalar)?(?:List|Tensor)?(?:V\d)?")


def _again(facts: Facts, at: I64, untrained: Bools) -> tuple[Bools, tuple[CodeLine, ...]]:
    """Which kernels of passes forward, at such places, run what is trained once more, and the line that asks for it.

    They are stretches of ``untrained`` ones; nearly all of their products have types and shapes that are trained. Where
    a kernel before its first product is found nowhere else, such a stretch begins the pass that is trained.
    """
    table, (types, code) = facts.kernel_table, facts.kernel_types
    if not untrained.any() or not table.shapes.is_known or len(table) != len(facts.kernels):
        return np.zeros(len(at), np.bool_), ()
    kind = code[at].astype(np.int64) * (len(table.shapes.values) + 1) + table.shapes.code[at] + 1
    product = np.array([CUBE.search(name) is not None for name in types])[code[at]]
    stretch = np.cumsum(np.append(True, np.diff(untrained.astype(np.int8)) != 0)) - 1
    products, known = (np.bincount(stretch, part) for part in (product, product & np.isin(kind, kind[~untrained])))
    trained = len(np.unique(kind[product & ~untrained]))
    kinds = np.unique(np.stack((stretch, kind), axis=1)[product & untrained], axis=0)[:, 0]
    most = np.bincount(kinds, minlength=len(products)) >= NEARLY_ALL * trained
    again: Bools = untrained & (most & (known == products) & (products > 0))[stretch]
    # The lines of the model are those of the pass that is trained as well: the last line that all products have counts,
    # of those that only they have where there are some.
    stacks, stack = facts.trace.stacks, stack_of(facts.trace, operation_of(facts.trace, facts.kernels[at]))
    asking, others = (np.unique(stack[rows & product & (stack >= 0)]).tolist() for rows in (again, ~untrained))
    every = common_lines(called_lines(stacks[each]) for each in asking)  # it may be a library's
    shared = {line for each in others for line in called_lines(stacks[each])}
    place = tuple([line for line in every if line not in shared][-1:] or every[-1:])
    if place:
        below = [each for each in np.unique(stack[stack >= 0]).tolist() if place[0] in called_lines(stacks[each])]
        again &= np.isin(stack, below)
    seen = np.cumsum(product)
    begins = again & (seen == (seen - product)[np.searchsorted(stretch, stretch)]) & ~np.isin(kind, kind[~again])
    again &= (np.bincount(stretch, begins) == 0)[stretch]
    return again, place


_UNTRAINED = {"nograd": ("nograd_once", "nograd_debug"), "again": ("again",), "updates": ("updates",)}
"""What to do about them."""


def _untrained(facts: Facts, at: I64, operations: I64, subject: str, place: tuple[CodeLine, ...]) -> Draft | None:
    """The draft about the kernels at ``at`` and the ``operations`` that launched them; its ``place`` if known."""
    items, (types, code) = facts.kernels[at], facts.kernel_types
    time = int(facts.length(items).sum())
    if facts.share(time) < facts.limits[SEVERITY_MEDIUM]:
        return None
    lines = place or tuple(line for line, _ in ranked(lines_by(facts, operations, facts.length(items)), LISTED))
    sums = Counter[str]()
    for kind, spent in zip(code[at].tolist(), facts.length(items).tolist(), strict=True):
        sums[types[kind]] += spent
    named = message("finding.share.lines", lines=[line_of(line) for line in lines]) if lines else ""
    words = {"each": facts.per_unit(time), "share": facts.share(time), "count": len(items)}
    words |= {"at": message("finding.dtype.at", line=line_of(lines[0])) if lines else ""}
    words |= {"kernels": [timed(name, spent) for name, spent in ranked(sums, LISTED)]}
    words |= {"names": [_kind(name) for name, _ in ranked(sums, _MOST_KINDS)]}
    return Draft(
        severity_of(facts.limits, facts.share(time)),
        message(f"finding.{subject}.title", **words),
        sentences(message(f"finding.{subject}.detail", **words), named),
        facts.longest(items, lambda item: message("finding.nograd.place"), 5),
        advise(*_UNTRAINED[subject]),
        removes=facts.span_of(items),
        confidence="medium",
        code_lines=lines,
        verdict=message(f"finding.{subject}.title", **words),
        change=Change(tasks=(TaskCut(items),)) | facts.without_operations(np.unique(operations)),
    )


RULES: tuple[Rule, ...] = (
    Rule(
        "OP.SHARE",
        cls="compute",
        check=op_share,
        thresholds=(SHARE_CUBE, SHARE_SOFTMAX, LINKS_FEWEST),
        advice=("share.softmax", "share.cube"),
        pages=(pages.ADVISOR,),
        sources=("20-step tuning checklist 2-09 to 2-12",),
        reach="place",
    ),
    Rule(
        "OP.DOMINANT",
        cls="compute",
        check=dominant,
        thresholds=(DOMINANT_SHARE, LINKS_FEWEST),
        advice=("dominant", "replace"),
        gpu=("dominant",),
        pages=(pages.ADVISOR,),
        change="""\
-x[mask] = value
+x = x * (1 - mask) + value * mask
""",
        sources=("affinity operators guide 3-03", "20-step tuning checklist 2-08"),
        reach="place",
    ),
    Rule(
        "OP.NOGRAD",
        cls="compute",
        inputs=("device", "overlap", "python"),
        check=without_gradient,
        thresholds=GRADES,
        advice=("nograd_once", "nograd_debug", "again", "updates"),
        gpu=("nograd_once", "nograd_debug", "again", "updates"),
        pages=(pages.TUNING,),
        change="""\
-    mask = torch.triu(torch.ones(n, n, device=x.device), 1).bool()
-    out = attention(x, mask)
+    out = attention(x, self.mask[:n, :n])  # a buffer, made once
""",
        sources=("torch.profiler: fwdbwd links",),
        reach="place",
        replayed=True,
    ),
    Rule(
        "UTIL",
        cls="dispatch",
        inputs=("overlap",),
        check=utilization,
        thresholds=(UTILIZATION_FINE, UTILIZATION_POOR),
        advice=("order",),
        gpu=("order",),
        pages=(pages.PIPELINE, pages.NPU_SMI),
        sources=("20-step tuning checklist 2-06",),
        words=("device_time", "utilization"),
    ),
    Rule(
        "VERDICT",
        cls="compute",
        inputs=("overlap",),
        check=verdict,
        advice=("order",),
        gpu=("order",),
        pages=(pages.ADVISOR,),
        sources=("MindStudio Insight walk-through 1-02, 1-49, 1-56",),
        words=("device_time", "slow"),
    ),
)
