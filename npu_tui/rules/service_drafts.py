"""Findings about the drafts of a service: few that are accepted, fewer than before, or long ones to make."""

from __future__ import annotations

from functools import partial

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.limits import LITTLE, NEARLY_ALL, NOTABLE, Threshold
from npu_tui.analysis.service_model import ServiceModel, accepted, fewer_drafts, undrafted
from npu_tui.analysis.service_steps import Cycle
from npu_tui.analysis.service_timeline import TPOT
from npu_tui.rules.rule import sentences
from npu_tui.rules.service_facts import HIT_FALL, SHARE, TELLING, Cause, Remedy, ServiceFacts, draft_of
from npu_tui.trace.message import message
from npu_tui.trace.service import UNKNOWN

ACCEPTED = Threshold("service_accepted", 0.3)


def drafts(facts: ServiceFacts) -> Cause | None:
    """Few of the drafted tokens are accepted: a cause where they cost more than they save, or once were accepted."""
    rows = facts.found.service.spec_decodes
    known = (rows.draft_tokens > 0) & (rows.accepted_tokens >= 0)
    if not known.any():
        return None
    ratio = float(rows.accepted_tokens[known].sum() / rows.draft_tokens[known].sum())
    share = max(facts.tpot.share(TPOT.draft))
    if ratio >= facts.limits[ACCEPTED]:
        return _slow_drafts(facts, ratio)
    each = float(rows.draft_tokens[known].mean())
    count, fall, then = round(each), _fall(facts), facts.after(undrafted)
    words = {"ratio": ratio, "share": share, "per": ratio * each, "usual": NEARLY_ALL, "drafted": count}
    usual = partial(accepted, float(np.sum(NEARLY_ALL ** np.arange(count + 1))))
    draft = draft_of(
        share, "drafts", "drafts_detail", words, facts.cost(TPOT.draft), facts.found.steps.cycle[:, Cycle.draft],
        undrafted,
    )  # fmt: skip
    if then is not None and then["tpot_p50"] > 0:  # a step with drafts takes so many times as long as one without
        even = ((1 + ratio * each) * facts.figures["tpot_p50"] / then["tpot_p50"] - 1) / each
        told = message(f"finding.service.drafts_{'even' if even < 1 else 'never'}", even=even)
        draft = replace(draft, detail=sentences(draft.detail, told))
    if fall:
        return replace(
            draft,
            share=max(share, 1 - (1 + ratio * each) / (1 + fall["before"] * each)),
            title=message("finding.service.drafts_fall", **fall),
            detail=sentences(draft.detail, message("finding.service.drafts_before")),
            remedy=partial(accepted, 1 + fall["before"] * each),
            instead=("undrafted", undrafted),
        )
    if then is None:
        return draft if facts.notable(facts.tpot.share(TPOT.draft)) else None
    fewer: dict[int, Remedy] = {0: undrafted}
    fewer |= {few: partial(fewer_drafts, few, count, ratio) for few in range(1, count)}
    takes = {few: after["tpot_mean"] for few, remedy in fewer.items() if (after := facts.after(remedy))}
    best = min(takes, key=lambda few: takes[few])
    if 0 in takes and takes[best] > (1 - LITTLE) * takes[0]:  # what none would take is known best
        best = 0
    if (gain := facts.better(facts.figures, facts.after(fewer[best]))) >= facts.limits[SHARE]:
        told = message("finding.service.drafts_fewer", best=best)
        return replace(
            draft, share=max(share, gain), detail=sentences(draft.detail, told) if best else draft.detail,
            remedy=fewer[best], instead=("undrafted", undrafted) if best else ("drafts", usual),
        )  # fmt: skip
    good = facts.after(usual)
    if good is None or not facts.gains(usual):
        return None
    hint = message("finding.service.drafts_if", changes=facts.changes(good), **words)
    return replace(draft, remedy=usual, hint=hint)


def _fall(facts: ServiceFacts) -> dict[str, float] | None:
    """Since when far fewer drafts are accepted, and the ratios before and after; None where they always were few."""
    rows = facts.found.service.spec_decodes
    mine = np.flatnonzero((rows.draft_tokens > 0) & (rows.accepted_tokens >= 0) & (rows.start != UNKNOWN))
    drafted, taken = (np.cumsum(of[mine]).astype(float) for of in (rows.draft_tokens, rows.accepted_tokens))
    if len(mine) < 2 * TELLING:
        return None
    cuts = np.arange(TELLING, len(mine) - TELLING)  # rows are by time
    rest = drafted[-1] - drafted[cuts - 1]
    early, late = taken[cuts - 1] / drafted[cuts - 1], (taken[-1] - taken[cuts - 1]) / rest
    best = int(np.argmax((early - late) ** 2 * drafted[cuts - 1] * rest))
    before, after = float(early[best]), float(late[best])
    if before - after < facts.limits[HIT_FALL] or before < facts.limits[ACCEPTED]:
        return None
    since = int(rows.start[mine[cuts[best]]] - facts.found.steps.opened.min())
    return {"before": before, "after": after, "since": since}


def _slow_drafts(facts: ServiceFacts, ratio: float) -> Cause | None:
    """Drafts are accepted, yet making them takes long beside the passes that verify them.

    Where no drafts at all are better that is known. Else only a usual draft model, which is a guess, would be better.
    """
    cycle = facts.found.steps.cycle[facts.found.serving]
    time, forward = float(np.median(cycle[:, Cycle.draft])), float(np.median(cycle[:, Cycle.forward]))
    share, usual = facts.tpot.share(TPOT.draft)[0], NOTABLE * forward
    remedy = partial(_drafting, usual)
    if time < 2 * usual or not facts.worth((share, share), remedy) or (then := facts.after(remedy)) is None:
        return None
    loses = facts.better(facts.figures, facts.after(undrafted)) >= facts.limits[SHARE]
    words = {"share": share, "ratio": ratio, "time": time, "forward": forward, "usual": usual}
    draft = draft_of(
        share, "drafts_slow", "drafts_slow_detail", words, facts.cost(TPOT.draft),
        facts.found.steps.cycle[:, Cycle.draft], undrafted if loses else remedy, "service_drafts_slow",
    )  # fmt: skip
    if loses:
        return replace(draft, instead=("quick_drafts", remedy))
    hint = message("finding.service.drafts_slow_if", changes=facts.changes(then), **words)
    return replace(draft, hint=hint, likely=time >= forward)


def _drafting(usual: float, model: ServiceModel) -> ServiceModel:
    return replace(model, engines=tuple(replace(one, draft=min(one.draft, usual)) for one in model.engines))
