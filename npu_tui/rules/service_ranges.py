"""Findings about what runs within the passes of a service and computes nothing of its requests."""

from __future__ import annotations

import numpy as np

from npu_tui.analysis.limits import ALMOST_ALL, EVEN, LITTLE, NEARLY_ALL, NOTABLE, SOME
from npu_tui.analysis.service_cost import FEWEST
from npu_tui.analysis.service_steps import Cycle
from npu_tui.analysis.service_timeline import TPOT
from npu_tui.analysis.service_within import of_range
from npu_tui.rules.service_engines import SHORT
from npu_tui.rules.service_facts import Cause, ServiceFacts, draft_of
from npu_tui.trace.arrays import I64, summed
from npu_tui.trace.service import DRAFTERS
from npu_tui.trace.text import brief


def copies(facts: ServiceFacts) -> Cause | None:
    """A range takes as long in every forward pass, whatever that computes, as where weights are copied."""
    found, steps, spans = facts.found, facts.found.steps, facts.found.service.spans
    mine = found.serving
    least = NOTABLE * float(np.median(steps.forward[mine])) if len(mine) >= FEWEST else np.inf
    often = np.bincount(spans.name[(spans.rid < 0) & (spans.end - spans.start >= least)], minlength=1)
    for code in np.flatnonzero(often >= NEARLY_ALL * len(mine)).tolist():
        if any(word in found.service.text(code).lower() for word in DRAFTERS):  # drafts are told as such
            continue
        time = of_range(found, code, Cycle.forward)
        if not _is_flat(facts, time[mine, Cycle.forward]) or (remedy := facts.freed(time)) is None:
            continue
        if not facts.gains(remedy):
            continue
        each = time[:, Cycle.forward]
        cost = summed(found.pair_rid, each[found.pair_step], len(facts.latencies.start))
        later = found.pair_step > facts.latencies.token[found.pair_rid]
        tokens = summed(found.pair_rid[later], each[found.pair_step[later]], len(facts.latencies.start))
        share = facts.tpot.shares(np.minimum(tokens, facts.cost(*TPOT))[facts.tpot.rids])[0]
        words = {
            "name": brief(found.service.text(code), SHORT), "share": share, "time": int(np.median(each[mine])),
            "few": int(steps.size[mine].min()), "many": int(steps.size[mine].max()),
            "tokens": int(steps.prompts[mine].max()),
        }  # fmt: skip
        return draft_of(share, "copies", "copies_detail", words, cost, each, remedy)
    return None


def _is_flat(facts: ServiceFacts, time: I64) -> bool:
    """Whether ``time`` of forward passes is part of each and the same in all, while the rest grows with the work."""
    mine, steps = facts.found.serving, facts.found.steps
    forward, prompts = steps.forward[mine], steps.prompts[mine]
    if (time > 0).mean() < NEARLY_ALL or time.sum() >= ALMOST_ALL * forward.sum():
        return False
    low, usual, high = np.quantile(time[time > 0], (LITTLE, 0.5, 1 - LITTLE))
    much = prompts > np.quantile(prompts, ALMOST_ALL)
    if much.sum() < SOME or high - low > NOTABLE * usual:
        return False
    rest = forward - time
    grows = float(np.median(rest[much])) - float(np.median(rest[~much]))
    return abs(float(np.median(time[much])) - float(np.median(time[~much]))) <= EVEN * grows
