"""Findings about work of the host that launches nothing while the device waits: whose it is, by the critical path.

An owner of such work has one explanation, the most specific: a collection, an allocation, compiling, a fetch, a pause in
which nothing is recorded. What none of these recognises is told by its name, its line and its gain.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npu_tui.analysis.calls import is_memory_call
from npu_tui.analysis.owners import Owner
from npu_tui.analysis.replay import NO_CHANGE, Change
from npu_tui.analysis.thresholds import Threshold
from npu_tui.rules import pages
from npu_tui.rules.blame import COMPILE, late_behind_collectives
from npu_tui.rules.facts import Facts, once_per_device
from npu_tui.rules.inputs import GARBAGE_COLLECTION, NOTHING, Span, both, length_of, together, without
from npu_tui.rules.judged import within
from npu_tui.rules.pauses import at_the_end
from npu_tui.rules.rule import SEVERITY_HIGH, SEVERITY_MEDIUM, Draft, Rule, sentences, severity_of
from npu_tui.rules.told_path import owner_text, path_owners
from npu_tui.trace.engine_names import phase_of
from npu_tui.trace.intervals import union
from npu_tui.trace.message import message

HOST_WORK_SHARE = Threshold("host_work_share", 0.03)

_NOTABLE = 0.1
"""Work that gains less than this share of what the most costly work does is not named."""
_MOST_NAMED = 3

EXPLANATIONS: tuple[tuple[str, Callable[[Owner], bool]], ...] = (
    ("PY.GC", lambda owner: owner.name == GARBAGE_COLLECTION),
    ("MEM.ALLOC", lambda owner: is_memory_call(owner.name)),
    ("OP.COMPILE", lambda owner: owner.name.endswith(COMPILE)),
    ("DATA.LOADER", lambda owner: any("dataloader" in call.lower() for call in owner.calls)),
    ("ENGINE.HOST", lambda owner: any(phase_of(call) is not None for call in owner.calls)),
    ("HOST.PAUSE", lambda owner: not owner.name),
    ("HOST.WORK", lambda owner: True),
)
"""The rules that explain owners of work, the most specific first, and how each recognises its own."""


@once_per_device
def works(facts: Facts) -> dict[str, tuple[Owner, ...]]:
    """The owners of work that launches nothing, by the rule that explains each, most gain first."""
    told = path_owners(facts)
    found: dict[str, list[Owner]] = {rule: [] for rule, _ in EXPLANATIONS}
    for owner in () if told is None else told.owners:
        if owner.doing == "work" and owner.change is not None:
            found[next(rule for rule, recognises in EXPLANATIONS if recognises(owner))].append(owner)
    return {rule: tuple(sorted(own, key=lambda owner: -(owner.gain or 0))) for rule, own in found.items()}


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
    request is nobody's work.
    """
    busy = facts.busy
    if not len(busy[0]):
        return NOTHING
    begins = np.array([step.item for step in facts.steps[:1]], np.int64)
    first = facts.trace.slices.start[begins] + facts.floor, busy[0][: len(begins)]
    before = union(first[0], np.maximum(*first)) if len(begins) else NOTHING
    between = facts.cut((busy[1][:-1], busy[0][1:]))
    return without(together(before, between, late_behind_collectives(facts), at_the_end(facts)), facts.unasked)


def cost_of(facts: Facts, change: Change, removes: Span) -> int:
    """What the run gains without ``change``, ns over all steps; without a replay how long the device waits for it."""
    return length_of(removes) if facts.replay is None else max(facts.replay.gain(within(facts, change)), 0)


@once_per_device
def host_work(facts: Facts) -> Draft | None:
    """Operations and frames of Python that launch nothing and hold up the launches after them."""
    every = works(facts)["HOST.WORK"]
    owners = tuple(owner for owner in every if (owner.gain or 0) >= _NOTABLE * (every[0].gain or 0))
    if not owners:
        return None
    change = change_of(owners)
    removes = both(waiting(facts), span_of(facts, change))
    cost = cost_of(facts, change, removes)
    share = facts.share(cost)
    if share < facts.limits[HOST_WORK_SHARE]:
        return None
    rows = [
        message(
            "finding.work.row",
            what=owner_text(facts.trace, owner),
            time=(owner.gain if owner.gain is not None else owner.on_path) / facts.count,
            unit=facts.unit,
        )
        for owner in owners[:_MOST_NAMED]
    ]
    words = {"where": owner_text(facts.trace, owners[0]), "time": cost}
    items = np.sort(np.concatenate([owner.items for owner in owners]))
    return Draft(
        severity_of(facts.limits, share),
        message("finding.work.title", **words),
        sentences(message("finding.work.detail", rows=rows)),
        facts.longest(items, lambda item: message("finding.work.place")),
        removes=removes,
        code_lines=tuple(dict.fromkeys(owner.where for owner in owners[:_MOST_NAMED] if owner.where is not None)),
        verdict=message("finding.work.verdict", **words),
        change=change,
    )


RULES: tuple[Rule, ...] = (
    Rule(
        "HOST.WORK",
        cls="dispatch",
        inputs=("device", "overlap", "links"),
        check=host_work,
        thresholds=(HOST_WORK_SHARE, SEVERITY_MEDIUM, SEVERITY_HIGH),
        advice=("work_beside", "work_on_device"),
        gpu=("work_beside",),
        pages=(pages.TUNING,),
        change="""\
-score = metric(output.cpu().numpy(), labels)
+if step % 100 == 0:
+    score = metric(output.cpu().numpy(), labels)
""",
        sources=("operator tuning guide 0-07", "MindStudio Insight walk-through 1-51"),
        reach="cause",
        replayed=True,
        totals=("work.title",),
    ),
)
