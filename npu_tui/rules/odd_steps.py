"""Steps that compute longer than their equals: an evaluation, a longer input, a slower device, or a warm-up.

The time of a few is no matter of every step: without it the mean over all steps is what the others take.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from npu_tui.analysis.code_lines import CodeLine, common_lines, stack_of, user_lines
from npu_tui.analysis.launches import operation_of
from npu_tui.analysis.limits import HALF, NAMED, SOME
from npu_tui.analysis.replay import ANY_THREAD, NO_CHANGE, Change, HostCut, TaskCut
from npu_tui.analysis.replay_host import waits_of
from npu_tui.analysis.steps import OddStep, odd_steps
from npu_tui.native.spans import count_until
from npu_tui.rules import pages
from npu_tui.rules.affinity import in_optimizer
from npu_tui.rules.facts import Facts
from npu_tui.rules.host_work import is_program_work
from npu_tui.rules.left_out import first_owner
from npu_tui.rules.model import Evidence
from npu_tui.rules.outliers import shortened_ends
from npu_tui.rules.rule import (
    GRADES,
    SEVERITY_MEDIUM,
    Draft,
    Rule,
    advise,
    line_of,
    ranked,
    runs_of,
    sentences,
    severity_of,
    timed,
)
from npu_tui.trace.arrays import I64
from npu_tui.trace.message import Said, message

# What to do about a step by what its kernels have that those of its equals do not have.
_ADVICE = {
    "extra": ("evaluate_less", "profile_without"),
    "shapes": ("even_lengths", "uneven_ranks"),
    "longer": ("shapes_recorded", "even_lengths"),
    "slower": ("outlier_neighbour", "power"),
}


class _Own(Struct, frozen=True):
    """What a step computes beyond a usual one, ns: ``change`` undoes it, kernels ``items`` are its own, at ``line``."""

    excess: int
    change: Change
    items: I64
    line: CodeLine | None = None


def odd(facts: Facts) -> Draft | None:
    """Steps that compute longer than all others do."""
    if not facts.is_whole or facts.has_engine_steps or not facts.steps:
        return None
    length, (types, kind) = facts.length(facts.kernels), facts.kernel_types
    step = count_until(facts.repetitions, facts.trace.slices.start[facts.kernels]) - 1
    applied = in_optimizer(facts) & (step >= 0)
    if len(np.unique(np.bincount(step[applied], minlength=len(facts.steps)))) == 1:
        applied[:] = False
    # Gradients that are summed up over several steps are applied in some of them only.
    found = odd_steps(np.where(applied, -1, step), kind, length, len(facts.steps))
    if not found:
        return None
    own = [_own_work(facts, one, length) for one in found]
    excess = sum(each.excess for each in own)
    share = facts.share(excess)
    if share < facts.limits[SEVERITY_MEDIUM]:
        return None
    mine = np.concatenate([one.kernels for one in found])
    equal = np.flatnonzero(step == found[0].model)
    what = "extra" if sum(len(each.items) for each in own) else _why(facts, mine, equal, excess)
    line = next((each.line for each in own if each.line is not None), None)
    numbers = [facts.steps[one.step].number or 0 for one in found]
    words = {
        "step": numbers[0], "steps": runs_of(numbers), "all": len(facts.steps) - len(found),
        "time": int(length[mine].sum()) / len(found), "usual": int(length[equal].sum()),
        "each": facts.per_unit(excess), "count": sum(len(each.items) for each in own),
        "line": "" if line is None else message("finding.odd_step.at", line=line_of(line)),
    }  # fmt: skip
    many = "_many" * (len(found) > 1)
    title = message(f"finding.odd_step.title{many}", what=message(f"finding.odd_step.{what}", **words), **words)
    change = NO_CHANGE
    for each in own:
        change |= each.change
    took, usual = (np.bincount(kind[part], length[part], len(types)) for part in (mine, equal))
    more = took - len(found) * usual
    most = ranked({types[code]: float(more[code]) for code in np.flatnonzero(more > 0).tolist()}, NAMED)
    words["kinds"] = [timed(name, time) for name, time in most]
    return Draft(
        severity_of(facts.limits, share),
        title,
        sentences(
            message("finding.odd_step.detail", **words), _shapes_compared(facts, found[0]) if what == "shapes" else ""
        ),
        _odd_windows(facts, found),
        advise(*_ADVICE[what]),
        removes=shortened_ends(facts, change.tasks),
        change=change,
        code_lines=() if line is None else (line,),
        verdict=message("finding.odd_step.verdict", title=title, **words),
    )


def _odd_windows(facts: Facts, found: Sequence[OddStep]) -> tuple[Evidence, ...]:
    """The odd steps on the device, a place each."""
    places = []
    for one in found:
        step = facts.steps[one.step]
        assert step.window is not None
        note = message("finding.odd_step.place")
        places.append(Evidence(step.window.start, step.window.end, None, step.name or "", note))
    return tuple(places)


def _own_work(facts: Facts, one: OddStep, length: I64) -> _Own:
    """What only the odd step computes: a run of kernels, else the time by which its kernels exceed their equals."""
    if not one.count:
        excess = round(float(((1.0 - one.keep) * length[one.kernels]).sum()))
        keeps = np.unique(one.keep[one.keep < 1.0]).tolist()
        cuts = tuple(TaskCut(facts.kernels[one.kernels[one.keep == keep]], keep) for keep in keeps)
        return _Own(excess, Change(tasks=cuts), facts.kernels[:0])
    runs = [one.kernels[begin : begin + one.count] for begin in {one.first, one.last}]
    chains = [_common_frames(facts, facts.kernels[run]) for run in runs]
    # The run that comes from one place of the program is what was inserted.
    best = max(range(len(runs)), key=lambda at: len(chains[at]))
    items = facts.kernels[runs[best]]
    line = chains[best][-1] if chains[best] else None
    change = Change(tasks=(TaskCut(items, 0.0),)) | _host_removal(facts, one, items)
    return _Own(int(length[runs[best]].sum()), change, items, line)


def _host_removal(facts: Facts, one: OddStep, items: I64) -> Change:
    """The change by which the host neither launches the kernels ``items`` of a step nor waits for them.

    That is the longest frame that launches nothing else in the step; without one it lasts until the next launch.
    """
    slices = facts.trace.slices
    calls, every = (operation_of(facts.trace, part) for part in (items, facts.kernels[one.kernels]))
    if (calls < 0).any():
        return NO_CHANGE
    begin, end = int(slices.start[calls].min()), int(slices.end[calls].max())
    others = slices.start[np.setdiff1d(every[every >= 0], calls)]
    until = int(others[others > end].min(initial=int(slices.end[facts.steps[one.step].item])))
    frames = _frames_around(facts, int(calls[np.argmin(slices.start[calls])]))
    low, high = slices.start[frames], slices.end[frames]
    alone = (high >= end) & (count_until(np.sort(others), high) == count_until(np.sort(others), low))
    if alone.any():
        widest = np.flatnonzero(alone)[np.argmax((high - low)[alone])]
        begin, until = int(low[widest]), int(high[widest])
    waits = waits_of(facts.trace)
    waits = waits[(slices.start[waits] >= begin) & (slices.start[waits] < until)]
    span = np.array([begin]), np.array([max(until, end)])
    return Change(host=(HostCut(ANY_THREAD, span),), waits=frozenset(waits.tolist()))


def _frames_around(facts: Facts, item: int) -> I64:
    """The frames of Python around slice ``item`` on its lane."""
    slices, categories = facts.trace.slices, facts.trace.categories
    if "python_function" not in categories:
        return np.zeros(0, np.int64)
    lane = facts.trace.lanes[int(slices.lane[item])]
    own = slice(lane.first, lane.last)
    around = (slices.start[own] <= slices.start[item]) & (slices.end[own] >= slices.end[item])
    return lane.first + np.flatnonzero(around & (slices.category[own] == categories.index("python_function")))


def _common_frames(facts: Facts, items: I64) -> list[CodeLine]:
    """The frames of the user that all kernels ``items`` were launched below, outermost first."""
    trace = facts.trace
    stacks = np.unique(stack_of(trace, operation_of(trace, items)))
    if not len(stacks) or stacks[0] < 0:
        return []
    return common_lines(user_lines(trace.stacks[stack]) for stack in stacks.tolist())


def _why(facts: Facts, mine: I64, equal: I64, excess: int) -> str:
    """Why ``mine`` take ``excess`` ns more than ``equal`` kernels: other ``shapes``, or ``slower``; else ``longer``."""
    table = facts.kernel_table
    if len(table) != len(facts.kernels) or not (table.shapes.code[mine] >= 0).any():
        return "longer"
    other = ~np.isin(table.shapes.code[mine], table.shapes.code[equal])
    return "shapes" if facts.length(facts.kernels[mine[other]]).sum() >= HALF * excess else "slower"


def _shapes_compared(facts: Facts, one: OddStep) -> Said:
    """The shapes of the longest kernel of the odd step beside those of the same kernel in a usual step; else empty."""
    table, length = facts.kernel_table, facts.length(facts.kernels)
    longest = int(one.kernels[np.argmax(length[one.kernels])])
    step = count_until(facts.repetitions, facts.trace.slices.start[facts.kernels]) - 1
    equal = np.flatnonzero(step == one.model)
    place = longest - int(one.kernels[0])
    if place >= len(equal) or (usual := table.shapes.at(int(equal[place]))) is None:
        return ""
    return message("finding.odd_step.shapes_of", name=facts.name_of(int(facts.kernels[longest]), 60),
                   shapes=table.shapes.at(longest) or "", usual=usual)  # fmt: skip


RULES: tuple[Rule, ...] = (
    Rule(
        "STEP.ODD",
        cls="compute",
        check=odd,
        thresholds=GRADES,
        advice=tuple(dict.fromkeys(word for words in _ADVICE.values() for word in words)),
        gpu=tuple(dict.fromkeys(word for words in _ADVICE.values() for word in words if word != "power")),
        pages=(pages.ADVISOR,),
        sources=("operator tuning guide 0-29",),
        reach="cause",
        words=("step",),
    ),
)


def works_at_first(facts: Facts) -> bool:
    """Whether work of the program, which it may do in any step, is why the first steps that are left out take longer.

    They are not the first of the job, in which everything is compiled, allocated and read for the first time.
    """
    if not facts.warm_up or (facts.warm_up[0].number or 0) < SOME:
        return False
    owner, usual = first_owner(facts), facts.step_ns * len(facts.warm_up)
    longer = int(facts.length(np.array([step.item for step in facts.warm_up], np.int64)).sum()) - usual
    return owner is not None and is_program_work(owner) and owner.on_path >= HALF * longer
