"""A graph walked backward twice in a step: each loss is propagated back on its own, and shared layers once for each."""

from __future__ import annotations

import numpy as np

from npu_tui.analysis.code_lines import CodeLine, user_line
from npu_tui.analysis.launches import Around, operation_of
from npu_tui.analysis.replay import Change, TaskCut
from npu_tui.rules import pages
from npu_tui.rules.facts import Facts
from npu_tui.rules.host_work import cost_of
from npu_tui.rules.rule import GRADES, SEVERITY_MEDIUM, Draft, Rule, about, line_of, ranked, severity_of
from npu_tui.trace.arrays import I64
from npu_tui.trace.message import Said, message
from npu_tui.trace.model import FORWARD_BACKWARD


def second_backward(facts: Facts) -> Draft | None:
    """Operations of a pass backward that a later one runs again for the same operation of the pass forward."""
    trace, slices = facts.trace, facts.trace.slices
    again = _walked_again(facts)
    if not len(again):
        return None
    operations = operation_of(trace, facts.kernels)
    kernels, operations = facts.kernels[operations >= 0], operations[operations >= 0]
    around = Around(trace, again).find(slices.lane[operations], slices.start[operations], slices.end[operations])
    items = kernels[around >= 0]
    change, removes = Change(tasks=(TaskCut(items),)) | facts.without_operations(again), facts.span_of(items)
    cost = cost_of(facts, change, removes)
    if facts.share(cost) < facts.limits[SEVERITY_MEDIUM]:
        return None
    lines = _called_from(facts, again)
    at: Said = message("finding.dtype.at", line=line_of(lines[0])) if lines else ""
    words = {"count": len(again), "time": int(facts.length(items).sum()) / facts.count, "unit": facts.unit, "at": at}
    words["cost"] = cost / facts.count
    return Draft(
        severity_of(facts.limits, facts.share(cost)),
        *about("twice", **words),
        facts.longest(items, lambda item: message("finding.twice.place"), most=5),
        removes=removes,
        verdict=message("finding.twice.title", **words),
        change=change,
        code_lines=lines,
    )


def _walked_again(facts: Facts) -> I64:
    """The operations of passes backward that are run once more later for the same one forward; ascending.

    What a pass backward records itself, as for a penalty on gradients, is walked again because it must be.
    """
    trace, slices = facts.trace, facts.trace.slices
    link = trace.bound_links_of(FORWARD_BACKWARD)
    link = link[trace.links.source_slice[link] >= 0]
    source, target, key = (each[link].astype(np.int64) for each in (
        trace.links.source_slice, trace.links.target_slice, trace.links.key
    ))  # fmt: skip
    order = np.lexsort((slices.start[target], source, key))
    source, target, key = source[order], target[order], key[order]
    every = np.unique(target)
    place = np.argsort(np.argsort(slices.start[every], kind="stable"))[np.searchsorted(every, target)]
    # Of one walk are those that follow each other, such as the gradients of both factors of a product.
    walked = (np.diff(source) == 0) & (np.diff(key) == 0) & (np.diff(place) > 1)
    again = facts.begun(np.unique(target[:-1][walked]))
    recorded = np.unique(source)
    inside = Around(trace, every).find(slices.lane[recorded], slices.start[recorded], slices.end[recorded])
    return again[:0] if (inside >= 0).any() else again


def _called_from(facts: Facts, operations: I64) -> tuple[CodeLine, ...]:
    """The frames of the user within which most of ``operations`` run, on whatever thread; the innermost of each."""
    trace, slices = facts.trace, facts.trace.slices
    frames = facts.named(("python", "other"), lambda name: user_line(name) is not None)
    counts: dict[CodeLine, int] = {}
    for lane in np.unique(slices.lane[frames]).tolist():
        every = Around(trace, np.sort(frames[slices.lane[frames] == lane]))
        at = every.find(np.full(len(operations), lane, np.int32), slices.start[operations], slices.end[operations])
        for frame in at[at >= 0].tolist():
            line = user_line(trace.name_of(frame))
            if line is not None:
                counts[line] = counts.get(line, 0) + 1
    return tuple(line for line, _ in ranked(counts))


RULES: tuple[Rule, ...] = (
    Rule(
        "OP.BACKWARD",
        cls="compute",
        inputs=("device", "overlap", "python"),
        check=second_backward,
        thresholds=GRADES,
        advice=("one_backward",),
        pages=(pages.TUNING,),
        change="""\
-aux_loss.backward(retain_graph=True)
-loss.backward()
+(loss + aux_loss).backward()
""",
        sources=("torch.profiler: fwdbwd links",),
        reach="cause",
        replayed=True,
    ),
)
