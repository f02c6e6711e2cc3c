"""Findings about requests of a service that compute again what was computed before: repeated ones, lost prefixes."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from msgspec.structs import asdict, replace

from npu_tui.analysis.limits import A_PART, HALF, LITTLE, NEARLY_ALL, SOME, UNSEEN
from npu_tui.analysis.service_model import ServiceModel
from npu_tui.analysis.service_timeline import TPOT, TTFT
from npu_tui.rules.service_facts import Cause, ServiceFacts, draft_of
from npu_tui.trace.arrays import F64, I64
from npu_tui.trace.service import UNKNOWN, plus

_TELLING = 50  # prompts from which on their lengths tell what they have in common
_SURE = UNSEEN**2  # how likely so many alike at a time are by chance, at the most
_MOST = 3_000  # requests of which all pairs are looked at


def repeats(facts: ServiceFacts) -> Cause | None:
    """Requests come again while the first of them is still served, as clients send them that have waited too long.

    They have as many tokens as one that is under way, which few would have by chance.
    """
    lat, rids = facts.latencies, facts.ttft.rids
    rids = rids[(lat.prompt[rids] > 0) & (lat.whole[rids] != UNKNOWN)]
    if not SOME <= len(rids) <= _MOST:
        return None
    rids = rids[np.argsort(lat.start[rids], kind="stable")]
    asked = facts.asked[rids]
    start, end = lat.start[rids], plus(lat.start, lat.whole)[rids]
    again, (beside, equal) = np.zeros(len(rids), np.bool_), np.zeros((2, len(rids)), np.int64)
    for at in range(1, len(rids)):
        under_way = end[:at] > start[at]
        same = under_way & (asked[:at] == asked[at])
        beside[at], equal[at] = np.count_nonzero(under_way), np.count_nonzero(same)
        again[at] = (same & ~again[:at]).any()
    _, counts = np.unique(asked, return_counts=True)
    alike, pairs = int((counts * (counts - 1)).sum()) // 2, len(asked) * (len(asked) - 1) // 2
    share, found = float(beside.sum()) / pairs, int(again.sum())
    if found < max(SOME, LITTLE * len(rids)) or not 0 < share < 1 or _chance(int(equal.sum()), alike, share) > _SURE:
        return None
    expected = (alike - int(equal.sum())) * share / (1 - share)
    cost = np.zeros(len(lat.start), np.int64)
    cost[rids[again]] = lat.whole[rids[again]]
    steps = facts.found.steps
    blame = np.bincount(facts.found.pair_step, cost[facts.found.pair_rid] > 0, len(steps)).astype(np.int64)
    words: dict[str, Any] = {"count": found, "all": len(rids), "share": found / len(rids), "expected": expected}
    return draft_of(
        found / len(rids), "repeats", "repeats_detail", words, cost, blame, partial(_without, rids[again])
    )  # fmt: skip


def _chance(found: int, every: int, share: float) -> float:
    """How likely ``found`` and more of ``every`` pair are among a ``share`` of all pairs."""
    terms = (
        math.lgamma(every + 1) - math.lgamma(k + 1) - math.lgamma(every - k + 1)
        + k * math.log(share) + (every - k) * math.log1p(-share)
        for k in range(found, every + 1)
    )  # fmt: skip
    return sum(map(math.exp, terms))


def _without(gone: I64, model: ServiceModel) -> ServiceModel:
    """``model`` without the requests ``gone``."""
    kept = ~np.isin(model.rids, gone)
    columns = {name: of[kept] for name, of in asdict(model).items() if isinstance(of, np.ndarray)}
    return replace(model, **columns)


def lost_prefix(facts: ServiceFacts) -> Cause | None:
    """Some prompts had a beginning from the prefix cache that most others, as long as they, computed anew."""
    lat, requests = facts.latencies, facts.found.service.requests
    rows = np.flatnonzero((requests.rid >= 0) & np.isfinite(requests.hit_rate) & (requests.prompt_tokens > 0))
    rows = rows[np.isin(requests.rid[rows], facts.ttft.rids)]
    if len(rows) < _TELLING:
        return None
    asked, rates = requests.prompt_tokens[rows], requests.hit_rate[rows]
    hits, given = rates > HALF, rates * asked
    engines = np.count_nonzero(facts.found.serves)
    most = NEARLY_ALL if engines > 1 else HALF  # the first one of each beginning has none anyway
    if not max(SOME, LITTLE * len(rows)) <= np.count_nonzero(hits) <= most * len(rows):
        return None
    known = float(np.median(given[hits]))
    same = (np.abs(given[hits] - known) <= LITTLE * known).mean() >= NEARLY_ALL
    lost = ~hits & (asked > known)
    alike = abs(float(np.median(asked[~hits]) / np.median(asked[hits])) - 1) <= A_PART
    if not (same and alike) or np.count_nonzero(lost) < NEARLY_ALL * np.count_nonzero(~hits):
        return None
    less, gone = np.zeros(len(lat.start), np.int64), np.flatnonzero(lost)  # by start
    if engines > 1:  # each instance computes every beginning once: one of them has to
        gone = gone[len(gone) // engines :]
    less[requests.rid[rows[gone]]] = round(known)
    remedy = partial(_shorter, less)
    if not facts.gains(remedy):
        return None
    share, tokens = facts.ttft.share(TTFT.prefill)[0], facts.tpot.share(TPOT.surcharge, TPOT.prompts)[0]
    words = {
        "count": int(lost.sum()), "all": len(rows), "known": round(known), "hits": int(hits.sum()), "engines": engines,
        "share": share, "tokens": tokens,
    }  # fmt: skip
    cost: F64 = lat.ttft_parts[:, TTFT.prefill] * (less / np.maximum(lat.prompt, 1)).clip(0, 1)
    kind = "spread" if engines > 1 else "evicted"
    return draft_of(
        max(share, tokens), "prefix_lost", f"prefix_{kind}", words, cost.astype(np.int64), facts.found.steps.prompts,
        remedy, f"service_prefix_{kind}",
    )  # fmt: skip


def _shorter(less: I64, model: ServiceModel) -> ServiceModel:
    """``model`` with prompts of so many tokens ``less``."""
    return replace(model, prompt=np.maximum(model.prompt - less[model.rids], 1))
