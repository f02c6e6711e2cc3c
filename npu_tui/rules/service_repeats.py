"""Findings about requests of a service that come again: repeated by clients, or sent twice by a gateway."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from msgspec.structs import asdict, replace

from npu_tui.analysis.limits import A_PART, ENOUGH, EVEN, FAR_LONGER, HALF, LITTLE, NEARLY_ALL, SOME, UNSEEN
from npu_tui.analysis.service_model import ServiceModel, evenly
from npu_tui.analysis.service_timeline import TPOT
from npu_tui.rules.service_facts import SHARE, Cause, ServiceFacts, chance, draft_of
from npu_tui.trace.arrays import I64
from npu_tui.trace.message import message
from npu_tui.trace.service import UNKNOWN, WHOLE_MS, plus

_SURE = UNSEEN**2  # how likely so many alike at a time are by chance, at the most
_MOST = 3_000  # requests of which all pairs are looked at


def repeats(facts: ServiceFacts) -> Cause | None:
    """Requests come again: once their client has given up on them, or while they are still served."""
    return _given_up(facts) or _beside(facts) or _probes(facts)


def _probes(facts: ServiceFacts) -> Cause | None:
    """The same request comes at a time of its own, as from a probe, and slows the others."""
    lat, steps = facts.latencies, facts.found.steps
    rids = facts.ttft.rids[facts.asked[facts.ttft.rids] > 0]
    kind = facts.asked[rids] * (int(lat.tokens.max(initial=0)) + 1) + lat.tokens[rids].clip(0)
    _, of, every = np.unique(kind, return_inverse=True, return_counts=True)
    for number in np.argsort(-every)[:SOME].tolist() if len(rids) else ():
        mine = rids[of.ravel() == number]
        start = np.sort(lat.start[mine])
        between = np.diff(start)
        if len(mine) < max(ENOUGH, LITTLE * len(rids)) or len(mine) > HALF * len(rids):
            continue
        usual = float(np.median(between))
        if (np.abs(between - usual) <= EVEN * usual).mean() < NEARLY_ALL:
            continue
        remedy = partial(without, mine)
        if facts.better(facts.figures, facts.after(remedy)) < facts.limits[SHARE] and not facts.gains(remedy):
            continue
        words = {
            "count": len(mine), "all": len(rids), "prompt": int(facts.asked[mine[0]]),
            "tokens": int(lat.tokens[mine[0]]), "every": usual, "usual": round(float(np.median(facts.asked[rids]))),
        }  # fmt: skip
        chosen = np.isin(facts.found.pair_rid, mine) & facts.found.pair_prompt
        blame = np.zeros(len(steps), np.int64)
        blame[facts.found.pair_step[chosen]] = steps.forward[facts.found.pair_step[chosen]]
        share = max(facts.tpot.share(TPOT.surcharge, TPOT.prompts))
        return draft_of(
            share, "probes", "probes_detail", words, facts.cost(TPOT.surcharge, TPOT.prompts), blame, remedy,
            "service_probes",
        )  # fmt: skip
    return None


def _given_up(facts: ServiceFacts) -> Cause | None:
    """Requests end after the same time, and soon one with as many tokens comes: clients give up and try again."""
    lat, found = facts.latencies, facts.found
    rids = np.flatnonzero((lat.start != UNKNOWN) & (lat.whole != UNKNOWN) & (facts.asked > 0))
    rids = rids[np.argsort(lat.start[rids], kind="stable")]
    lasting = np.sort(lat.whole[rids])
    together = np.searchsorted(lasting, lasting + 2 * WHOLE_MS, "right") - np.arange(len(lasting))
    if len(rids) < SOME or (most := int(together.max(initial=0))) < max(SOME, LITTLE * len(rids)):
        return None
    after = int(lasting[int(together.argmax())])
    near = np.count_nonzero(np.abs(lasting - after) <= after * A_PART) - most  # as many are between others by chance
    if most < FAR_LONGER * max(near * 2 * WHOLE_MS / max(2 * A_PART * after, 1), 1.0):
        return None
    start, asked, gone = lat.start[rids], facts.asked[rids], (lat.whole[rids] - after).clip(-1) <= 2 * WHOLE_MS
    gone &= lat.whole[rids] >= after
    ended = start + lat.whole[rids]

    def following(within: int) -> I64:
        """Which request comes as the next try of each one that was given up (n,), ``within`` ns; else -1."""
        again, taken = np.full(len(rids), -1), np.zeros(len(rids), np.bool_)
        for at in np.flatnonzero(gone).tolist():
            low, high = np.searchsorted(start, (ended[at], ended[at] + within))
            same = low + np.flatnonzero((asked[low:high] == asked[at]) & ~taken[low:high])
            again[at] = same[0] if len(same) else -1
            taken[same[:1]] = True
        return again

    again = following(after)
    if not (again >= 0).any():
        return None
    pause = float(np.median((start[again] - ended)[again >= 0]))
    again = following(within := round(FAR_LONGER * max(pause, WHOLE_MS)))
    taken = np.isin(np.arange(len(rids)), again)
    alike = np.unique(asked, return_inverse=True, return_counts=True)
    expected = float(alike[2][alike[1].ravel()[gone]].sum()) * within / max(int(start[-1] - start[0]), 1)
    count = int(taken.sum())
    if count < max(SOME, LITTLE * len(rids), HALF * most) or count < FAR_LONGER * expected:
        return None
    first, last = np.arange(len(rids)), np.arange(len(rids))
    for at in np.flatnonzero(again >= 0).tolist():  # by start: who comes again is later
        first[again[at]] = first[at]
    last[first] = np.arange(len(rids))
    kept, ends = rids[~taken], rids[last[~taken]]
    cost = np.zeros(len(lat.start), np.int64)
    cost[rids[taken]] = lat.whole[rids[taken]]
    blame = np.bincount(found.pair_step, cost[found.pair_rid] > 0, len(found.steps)).astype(np.int64)
    words = {"count": count, "all": len(rids), "after": after, "pause": pause, "gone": most}
    draft = draft_of(
        count / len(rids), "retries", "retries_detail", words, cost, blame,
        partial(_patient, kept, ends, rids[taken], rids[first[taken]]), "service_retries",
    )  # fmt: skip
    return replace(draft, feeds=True)


def _patient(kept: I64, ends: I64, later: I64, firsts: I64, model: ServiceModel) -> ServiceModel:
    """``model`` in which each of ``kept`` gets the answer that the last try of it (``ends``) got, and no other comes.

    Where it was never taken in itself, the first of those ``later`` tries that was stands for it, at its own start.
    """
    place = {rid: at for at, rid in enumerate(model.rids.tolist())}
    stands = {rid: rid for rid in kept.tolist() if rid in place}
    for rid, first in zip(later.tolist(), firsts.tolist(), strict=True):
        if rid in place:
            stands.setdefault(first, rid)
    start, turns, answer = model.start.copy(), model.turns.copy(), model.answer.copy()
    starts = dict(zip(model.rids.tolist(), model.start.tolist(), strict=True))
    for first, end in zip(kept.tolist(), ends.tolist(), strict=True):
        if first in stands and end in place:
            at = place[stands[first]]
            turns[at], answer[at] = model.turns[place[end]], model.answer[place[end]]
            start[at] = starts.get(first, start[at])
    stay = np.isin(model.rids, list(stands.values()))
    whole = replace(model, start=start, turns=turns, answer=answer, counts=np.ones_like(model.counts))
    return without(model.rids[~stay], whole)


def _beside(facts: ServiceFacts) -> Cause | None:
    """Requests come again while the first of them is still served, as clients send them that have waited too long.

    They have as many tokens as one that is under way, which few would have by chance.
    """
    lat, rids = facts.latencies, facts.ttft.rids
    rids = np.union1d(rids, np.flatnonzero((lat.ttft == UNKNOWN) & (lat.start != UNKNOWN)))  # some get no answer
    rids = rids[(facts.asked[rids] > 0) & (lat.whole[rids] != UNKNOWN)]
    if not SOME <= len(rids) <= _MOST:
        return None
    rids = rids[np.argsort(lat.start[rids], kind="stable")]
    asked = facts.asked[rids]
    start, end = lat.start[rids], plus(lat.start, lat.whole)[rids]
    again, (beside, equal) = np.zeros(len(rids), np.bool_), np.zeros((2, len(rids)), np.int64)
    needless, answered, after = again.copy(), lat.ttft[rids] != UNKNOWN, list[int]()
    for at in range(1, len(rids)):
        under_way = end[:at] > start[at]
        same = under_way & (asked[:at] == asked[at])
        beside[at], equal[at] = np.count_nonzero(under_way), np.count_nonzero(same)
        if len(of := np.flatnonzero(same & ~again[:at])):
            again[at] = True
            needless[of[-1] if answered[at] and not answered[of[-1]] else at] = True
            after.append(int(start[at] - start[of[-1]]))
    _, counts = np.unique(asked, return_counts=True)
    alike, pairs = int((counts * (counts - 1)).sum()) // 2, len(asked) * (len(asked) - 1) // 2
    share, found = float(beside.sum()) / pairs, int(again.sum())
    if found < max(SOME, LITTLE * len(rids)) or not 0 < share < 1 or chance(int(equal.sum()), alike, share) > _SURE:
        return None
    expected = (alike - int(equal.sum())) * share / (1 - share)
    cost = np.zeros(len(lat.start), np.int64)
    cost[rids[needless]] = lat.whole[rids[needless]]
    steps = facts.found.steps
    blame = np.bincount(facts.found.pair_step, cost[facts.found.pair_rid] > 0, len(steps)).astype(np.int64)
    words: dict[str, Any] = {"count": found, "all": len(rids), "share": found / len(rids), "expected": expected}
    soon, unanswered = float(np.median(after)), int((needless & ~answered).sum())
    draft = draft_of(
        found / len(rids), "repeats", "repeats_detail", words, cost, blame, partial(without, rids[needless])
    )  # fmt: skip
    # No client's time-out is shorter than most first tokens take.
    if not (unanswered >= HALF * found and soon < HALF * float(np.median(lat.ttft[facts.ttft.rids]))):
        return draft
    words |= {"after": soon, "unanswered": unanswered}
    told, explained = (message(f"finding.service.{key}", **words) for key in ("copies_sent", "copies_sent_detail"))
    spread = partial(_spread, rids[needless], np.flatnonzero(facts.found.serves))
    remedy = spread if facts.found.serves.all() else draft.remedy  # a copy goes to another engine than the first one
    return replace(draft, title=told, detail=explained, remedy=remedy, advice=("service_copies_sent",), feeds=True)


def _spread(gone: I64, engines: I64, model: ServiceModel) -> ServiceModel:
    """``model`` without the requests ``gone``, the others on ``engines`` in turn."""
    return evenly(without(gone, model), engines)


def without(gone: I64, model: ServiceModel) -> ServiceModel:
    """``model`` without the requests ``gone``."""
    kept = ~np.isin(model.rids, gone)
    columns = {name: of[kept] for name, of in asdict(model).items() if isinstance(of, np.ndarray)}
    return replace(model, **columns)
