"""Findings about the answers of a service: those that are decoded past their end."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.limits import LITTLE, NEARLY_ALL, SOME
from npu_tui.analysis.service_model import ServiceModel
from npu_tui.rules.rule import sentences
from npu_tui.rules.service_facts import Cause, ServiceFacts, draft_of
from npu_tui.trace.arrays import I64
from npu_tui.trace.message import message


def stop(facts: ServiceFacts) -> Cause | None:
    """Requests are decoded on for steps that add nothing to their answer, as where its end is looked for too seldom.

    An engine may notice an end one or two steps late.
    """
    found, lat = facts.found, facts.latencies
    rids = facts.tpot.rids[found.serves[lat.engine[facts.tpot.rids]]]
    over = np.zeros(len(lat.start), np.int64)
    over[rids] = np.maximum(lat.turns[rids] - (lat.tokens[rids] - 1), 0)
    over[over < SOME] = 0
    late = np.flatnonzero(over)
    turns = np.maximum(lat.turns[rids], 0).sum()
    if len(late) < max(SOME, LITTLE * len(rids)) or over.sum() < LITTLE * turns or not facts.gains(_on_time, LITTLE):
        return None
    share, every = float(over.sum() / turns), _multiple(lat.turns[rids] + 1)
    words = {
        "share": share, "count": len(late), "all": len(rids), "mean": float(over[late].mean()),
        "tokens": int(np.median(lat.tokens[late])), "every": every,
    }  # fmt: skip
    begin, end = np.maximum(lat.last[late] - over[late] + 1, 0), np.maximum(lat.last[late], 0)
    blame = np.zeros(len(found.steps) + 1, np.int64)
    np.add.at(blame, begin, 1)
    np.add.at(blame, end + 1, -1)
    cost = (lat.tpot_parts.sum(axis=1) * over / np.maximum(lat.turns, 1)).astype(np.int64)
    draft = draft_of(share, "stop", "stop_detail", words, cost, np.cumsum(blame)[:-1], _on_time)
    by_count = message("finding.service.stop_every", **words) if every else ""
    return replace(draft, detail=sentences(draft.detail, by_count))


def _multiple(steps: I64) -> int:
    """The largest number that divides nearly all of ``steps`` (n,), 0 where none but 1 does."""
    tried = np.arange(2, max(int(steps.max(initial=0)), 2) + 1)
    whole = np.array([(steps % one == 0).mean() for one in tried.tolist()])
    return int(tried[whole >= NEARLY_ALL].max(initial=0)) if len(steps) else 0


def _on_time(model: ServiceModel) -> ServiceModel:
    """``model`` in which no request takes more steps than its answer has tokens."""
    return replace(model, turns=np.minimum(model.turns, np.maximum(model.answer - 1, 0)))
