"""Findings about the engines of a service: one is slower than others or has more to do, waits, or stands still."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.limits import (
    ENOUGH,
    FAR_LONGER,
    HALF,
    LITTLE,
    NEARLY_ALL,
    NOTABLE,
    OUTLYING,
    PLACES,
    SOME,
    UNSEEN,
    Threshold,
)
from npu_tui.analysis.service_cost import FEWEST, fitted, in_lockstep, line_of, work_of
from npu_tui.analysis.service_host import Named, differs_in, named_in
from npu_tui.analysis.service_model import ServiceModel, evenly, with_engines
from npu_tui.analysis.service_stalls import beat_of
from npu_tui.analysis.service_steps import Cycle, Engine, Steps, late_workers
from npu_tui.analysis.service_timeline import TPOT, TTFT, Stalls
from npu_tui.rules.rule import Skipped, sentences
from npu_tui.rules.service_facts import COMPUTING, SHARE, SHORT, SLOWER, SLOWEST, Cause, ServiceFacts, draft_of
from npu_tui.trace.arrays import F64, I64, Bools
from npu_tui.trace.intervals import covered_within
from npu_tui.trace.message import Message, Said, message
from npu_tui.trace.service import ADAPTERS, COMPILERS, STORES, UNKNOWN, plus
from npu_tui.trace.text import brief

RANK_LOAD = Threshold("service_rank_load", 1.3)
_WORSE = 1.2  # how much longer the requests of one rank take, or how many more it has, for it to be reported
_FEWEST = 100  # steps of each rank from which its cost is fitted


def rank(facts: ServiceFacts) -> Cause | Skipped | None:
    """One of several engines is slower: its device, or the load that it is given."""
    engines: list[int] = np.flatnonzero(facts.found.serves).tolist()
    if len(engines) < 2:
        return None
    found, lat = facts.found, facts.latencies
    steps, work = found.steps, work_of(found)
    parts = [steps.of(number) for number in engines]
    mean = work[np.isin(steps.engine, engines)].mean(axis=0)[None, :]
    alike = [np.flatnonzero((steps.size > 0) & (steps.engine == number) & (found.stuck == 0)) for number in engines]
    if any(len(rows) < _FEWEST for rows in alike):
        return Skipped(message("finding.service.rank_few", fewest=_FEWEST))
    costs = [fitted(work[rows], steps.forward[rows]) for rows in alike]
    time = np.array([cost.of(mean)[0] for cost in costs])
    loads = [
        np.array([float(of[part].sum()) for part in parts]) for of in (steps.prompts + steps.decoded, steps.decoded)
    ]
    tokens = loads[0]
    counts = np.array([float((lat.engine[facts.ttft.rids] == number).sum()) for number in engines])
    apart = not in_lockstep(found)
    worst = int(np.argmax(beside_others(time)))
    if apart and facts.limits[SLOWER] <= (ratio := float(beside_others(time)[worst])) < SLOWEST:
        slow, usual = engines[worst], engines[int(np.argsort(time)[(len(time) - 1) // 2])]

        def others_cost(model: ServiceModel) -> ServiceModel:
            changed = list(model.engines)
            changed[slow] = replace(changed[slow], cost=changed[usual].cost)
            return replace(model, engines=tuple(changed))

        share = 1 - 1 / ratio
        words: dict[str, Any] = {
            "engine": _engine_title(found.engines[slow]), "ratio": ratio - 1, "share": share,
            "tokens": tokens[worst] / tokens.sum(),
        }  # fmt: skip
        return draft_of(
            share, "rank_slow", "rank_slow_detail", words, _engine_of(facts, slow, share),
            np.where(steps.engine == slow, steps.forward, 0), others_cost, "service_device",
        )  # fmt: skip
    if apart:  # long answers take a place for long, however few tokens they are beside the prompts
        tokens = max(loads, key=lambda of: beside_others(of).max())
    worst = int(np.argmax(beside_others(tokens)))
    if not apart:
        return _waited_for(facts, engines, tokens)
    slowness = [(_slowness(of.values, lat.engine[of.rids] == engines[worst]), of) for of in lat.metrics]
    slowest, metric = max(slowness, key=lambda one: one[0])
    if beside_others(tokens)[worst] < facts.limits[RANK_LOAD] or slowest < _WORSE:
        return None
    by = "count" if beside_others(counts)[worst] >= _WORSE else "lengths"
    words = {
        "engine": _engine_title(found.engines[engines[worst]]), "load": tokens[worst] / tokens.sum(),
        "ranks": len(engines),
        "requests": int(counts[worst]), "all": int(counts.sum()), "times": slowest, "metric": facts.called(metric),
    }  # fmt: skip
    detail = "rank_load" if tokens is loads[0] else "rank_answers"
    title, advice = f"rank_{by}", "service_routing"
    if by == "count" and (late := _joins_late(facts, engines)):
        title, detail, advice = "rank_joins", "rank_joins_detail", "service_joins"
        words |= {"late": _engine_title(found.engines[late[0]]), "since": late[1], "before": late[2]}
    return draft_of(
        1 - 1 / slowest, title, detail, words, _engine_of(facts, engines[worst], 1 - 1 / slowest),
        np.where(steps.engine == engines[worst], steps.size, 0),
        partial(evenly if by == "count" else _by_tokens, engines=np.array(engines)), advice,
    )  # fmt: skip


def stale(facts: ServiceFacts) -> Cause | None:
    """Each engine gets its share, yet many requests in a row, as by a router that sees their load now and then.

    Chance brings so few changes from one engine to another less than once in a thousand times.
    """
    engines, lat, rids = np.flatnonzero(facts.found.serves), facts.latencies, facts.ttft.rids
    rids = rids[np.argsort(lat.start[rids], kind="stable")]
    of = lat.engine[rids]
    if len(engines) < 2 or len(rids) < _FEWEST or facts.model is None:
        return None
    shares = np.bincount(of, minlength=len(facts.found.engines)) / len(of)
    differs = 1 - float((shares**2).sum())
    changes, expected = int(np.count_nonzero(np.diff(of))), differs * (len(of) - 1)
    waits = [TTFT.queue_step, TTFT.queue_full, TTFT.queue_blocks, TTFT.queue_other]
    held = lat.ttft_parts[:, waits].sum(axis=1)
    remedy = partial(_least_open, engines, np.where(lat.whole == UNKNOWN, 0, lat.whole - held).clip(0))
    if changes > HALF * expected or (expected - changes) ** 2 < OUTLYING**2 * expected or not facts.gains(remedy):
        return None
    begin = np.flatnonzero(np.append(True, np.diff(of) != 0))
    row = np.diff(begin, append=len(of))
    words = {
        "row": float(np.average(row, weights=row)), "changes": changes, "expected": round(expected),
        "time": float(np.median(np.diff(lat.start[rids[begin]]))), "count": len(rids),
        "share": max(facts.ttft.share(*waits)),
    }  # fmt: skip
    cost = np.zeros(len(lat.start), np.int64)
    cost[rids] = np.where(np.arange(len(rids)) > np.repeat(begin, row), held[rids], 0)
    return draft_of(
        words["share"], "rank_stale", "rank_stale_detail", words, cost, facts.held(TTFT.queue_full), remedy,
        "service_stale",
    )  # fmt: skip


def _least_open(engines: I64, lasting: I64, model: ServiceModel) -> ServiceModel:
    """``model`` with each request on that of ``engines`` which has the fewest then, each ``lasting`` so many ns.

    Where several have as few they take turns.
    """
    last, open_until = model.last.copy(), {engine: list[int]() for engine in engines.tolist()}
    on_them = np.flatnonzero(np.isin(last, engines))
    for turn, request in enumerate(on_them[np.argsort(model.start[on_them], kind="stable")].tolist()):
        now = int(model.start[request])
        for of in open_until.values():
            of[:] = [end for end in of if end > now]
        order = engines[(np.arange(len(engines)) + turn) % len(engines)].tolist()
        last[request] = chosen = min(order, key=lambda engine: len(open_until[engine]))
        open_until[chosen].append(now + int(lasting[model.rids[request]]))
    return replace(model, first=np.where(model.first == model.last, last, model.first), last=last)


def _joins_late(facts: ServiceFacts, engines: list[int]) -> tuple[int, int, int] | None:
    """The one of ``engines`` that gets its first request later than chance explains, how much later, after how many.

    Of so many requests it would have had one.
    """
    lat, rids = facts.latencies, facts.ttft.rids
    start, of = lat.start[rids], lat.engine[rids]
    first = np.array([int(start[of == number].min(initial=np.iinfo(np.int64).max)) for number in engines])
    late, before = int(np.argmax(first)), int(np.count_nonzero(start < first.max()))
    if (1 - 1 / len(engines)) ** before > UNSEEN or not (of == engines[late]).any():
        return None
    return engines[late], int(first.max() - start.min()), before


_ROUTING = ("service_routing",), ("service_joins",)


def routed(facts: ServiceFacts) -> float:
    """The share of TTFT or TPOT that other routing saves where one of several engines is given too much, else 0."""
    found = rank(facts)
    if isinstance(found, Cause) and found.remedy is not None and found.advice in _ROUTING:
        return facts.gives(found.remedy)
    return 0.0


def _by_tokens(model: ServiceModel, engines: I64) -> ServiceModel:
    """``model`` with each request on that of ``engines`` which was given the fewest tokens before, answers included."""
    last, given = model.last.copy(), dict.fromkeys(engines.tolist(), 0.0)
    tokens = model.prompt + model.turns * model.growth
    on_them = np.flatnonzero(np.isin(last, engines))
    for request in on_them[np.argsort(model.start[on_them], kind="stable")].tolist():
        last[request] = fewest = min(given, key=lambda engine: given[engine])
        given[fewest] += float(tokens[request])
    return replace(model, first=np.where(model.first == model.last, last, model.first), last=last)


def slow_host(facts: ServiceFacts) -> Cause | None:
    """What the host of one of several engines does within a step takes longer than on the others."""
    found, steps = facts.found, facts.found.steps
    engines: list[int] = np.flatnonzero(found.serves).tolist()
    mine = [np.flatnonzero((steps.engine == number) & (steps.size > 0)) for number in engines]
    if facts.model is None or len(engines) < 2 or min(map(len, mine)) < FEWEST:
        return None
    size = float(steps.size[np.concatenate(mine)].mean())
    usual = np.array([[_of_size(steps.size[rows], steps.cycle[rows, part], size) for part in _HOST] for rows in mine])
    over = np.array([usual[at] - np.median(np.delete(usual, at, axis=0), axis=0) for at in range(len(engines))])
    over = np.maximum(over, 0)
    worst = int(over.sum(axis=1).argmax())
    parts = sorted((at for at in range(len(_HOST)) if over[worst, at] > 0), key=lambda at: -over[worst, at])
    lasting, engine = float(over[worst].sum()), engines[worst]
    times = float(usual[worst, parts].sum() / max((usual[worst] - over[worst])[parts].sum(), 1.0)) if parts else 1.0
    share = lasting / max(float(np.median(steps.cycle[mine[worst]].sum(axis=1))), 1.0)
    other = engines[int(np.argsort(usual.sum(axis=1))[(len(engines) - 1) // 2])]

    def as_others(model: ServiceModel) -> ServiceModel:
        changed, like = list(model.engines), model.engines[other]
        changed[engine] = replace(
            changed[engine], schedule=like.schedule, prepare=like.prepare, after=like.after, dispatch=like.dispatch
        )
        return replace(model, engines=tuple(changed))

    if times < facts.limits[SLOWER] or not facts.worth((share, share), as_others, NOTABLE):
        return None
    words = {
        "engine": _engine_title(found.engines[engine]), "times": times, "lag": lasting, "share": share,
        "parts": [
            message("finding.service.host_part", name=message(f"latency.part.{_HOST[at].name}"),
                    time=float(usual[worst, at]), usual=float(usual[worst, at] - over[worst, at]))
            for at in parts if over[worst, at] >= NOTABLE * lasting
        ],
    }  # fmt: skip
    kind = "rank_host" if facts.lockstep is None else "rank_host_all"
    cost = _engine_of(facts, engine, share) if facts.lockstep is None else (facts.cost(*TPOT) * share).astype(np.int64)
    blame = np.where(steps.engine == engine, steps.cycle[:, list(_HOST)].sum(axis=1), 0)
    draft = draft_of(share, kind, "rank_host_detail", words, cost, blame, as_others, "service_rank_host")
    return replace(draft, root=True)


_HOST = Cycle.schedule, Cycle.prepare, Cycle.sampling


def _of_size(size: I64, time: I64, usual: float) -> float:
    """What a part of a step of ``usual`` requests takes by those of each ``size`` (n,), ns."""
    slope, offset = line_of(size, time)
    return max(slope * usual + offset, 0.0)


def workers(facts: ServiceFacts) -> Cause | None:
    """A worker begins late in every step, and the others of its engine wait for it."""
    found, steps = facts.found, facts.found.steps
    late = max(
        late_workers(found.service, found.keys, found.outer, steps, found.engines),
        key=lambda one: one.lag,
        default=None,
    )
    if late is None:
        return None
    part = steps.of(late.engine)
    lead = int(found.service.batches.process[steps.row[part.start]])
    # Its own steps are without what the others wait: that lies before them.
    usual = float(np.median(steps.forward[part])) + (late.lag if lead == late.process else 0)
    share = late.lag / max(usual, 1.0)
    if share < facts.limits[SHARE] or share > 1:
        return None
    words = {"worker": brief(found.service.text(late.process), SHORT), "lag": late.lag, "share": share}

    def on_time(model: ServiceModel) -> ServiceModel:
        engines, own = list(model.engines), model.engines[late.engine]
        if lead == late.process:
            each, fixed, token = own.prepare
            rest = max(late.lag - own.dispatch, 0.0)
            inputs = each, max(fixed - rest, 0.0), token
            changed = replace(own, dispatch=max(own.dispatch - late.lag, 0.0), prepare=inputs)
        else:
            changed = replace(own, cost=replace(own.cost, fixed=max(own.cost.fixed - late.lag, 0.0)))
        engines[late.engine] = changed
        return replace(model, engines=tuple(engines))

    return draft_of(
        share, "workers", "workers_detail", words, _engine_of(facts, late.engine, share),
        np.where(steps.engine == late.engine, steps.forward, 0), on_time,
    )  # fmt: skip


def _engine_title(engine: Engine) -> Message:
    """What ``engine`` is called: by its DP rank, without one by its first process."""
    if engine.rank is None:
        return message("service.engine", name=brief(engine.processes[0], SHORT))
    return message("service.dp_rank", rank=engine.rank)


def _waited_for(facts: ServiceFacts, engines: list[int], tokens: F64) -> Cause | None:
    """All ranks wait for the one of ``engines`` that has most to do in every step."""
    steps, told, worst = facts.found.steps, facts.lockstep, int(np.argmax(beside_others(tokens)))
    if told is None or beside_others(tokens)[worst] < facts.limits[RANK_LOAD]:
        return None
    share, engine = told.uneven, engines[worst]
    remedy = partial(evenly, engines=np.array(engines))
    if not facts.worth((share, share), remedy):
        return None
    words = {
        "engine": _engine_title(facts.found.engines[engine]), "share": share, "load": tokens[worst] / tokens.sum(),
    }  # fmt: skip
    return draft_of(
        share, "rank_wait", "rank_wait_detail", words, (facts.cost(*COMPUTING) * share).astype(np.int64),
        np.where(steps.engine == engine, steps.size, 0), remedy, "service_routing",
    )  # fmt: skip


def beside_others(values: F64) -> F64:
    """Each value over the median of the others."""
    return np.array([value / max(float(np.median(np.delete(values, at))), 1.0) for at, value in enumerate(values)])


def _slowness(values: F64, here: Bools) -> float:
    """The mean of ``values`` here over that elsewhere; 1 where one of both has none."""
    return float(values[here].mean() / values[~here].mean()) if here.any() and (~here).any() else 1.0


def _engine_of(facts: ServiceFacts, engine: int, share: float) -> I64:
    lat = facts.latencies
    time = np.where(lat.ttft == UNKNOWN, 0, lat.ttft) + np.where(lat.tpot == UNKNOWN, 0, lat.tpot)
    return np.where(lat.engine == engine, time * share, 0).astype(np.int64)


def stall(facts: ServiceFacts) -> Cause | None:
    """An engine stands still now and then, or once, though it has requests."""
    stalls, lat, steps = facts.found.stalls, facts.latencies, facts.found.steps
    engine, given = steps.engine[stalls.step], plus(lat.start, lat.ttft)
    first, tokens = np.zeros(len(given), np.int64), np.zeros(len(given), np.int64)
    for number in np.unique(engine).tolist():
        begin, end = stalls.begin[engine == number], stalls.end[engine == number]
        here = np.flatnonzero((given != UNKNOWN) & (lat.first >= 0) & (steps.engine[lat.first] == number))
        first[here] = covered_within(begin, end, lat.start[here], given[here])
        here = np.flatnonzero((given != UNKNOWN) & (lat.tpot != UNKNOWN) & (lat.engine == number))
        tokens[here] = covered_within(begin, end, given[here], given[here] + lat.tpot[here])
    of_first, of_tokens = facts.ttft.shares(first[facts.ttft.rids]), facts.tpot.shares(tokens[facts.tpot.rids])
    part = any(facts.notable(of) or facts.worth(of, _unstalled, NOTABLE) for of in (of_first, of_tokens))
    if not part and not facts.gains(_unstalled):  # a percentile of few requests has all of it
        return None
    within, longest = stalls.within, int(np.argmax(stalls.lasting))
    named = named_in(facts.found, stalls.begin, stalls.end, int(stalls.lasting.min()) // 2)
    kind, more = _kind_of(facts, stalls, named)
    begun, over = beat_of(stalls.begin, engine), beat_of(stalls.end, engine)
    period = None
    if begun and kind in ("stall", "stall_inputs"):
        kind, period = "stall_timer", begun.period
    # What a timer starts lasts as long each time: of the host's time what is used up is only there again at its end.
    if over and (begun is None or 1 - over.agree < HALF * (1 - begun.agree)):
        kind, period = "stall_quota", over.period
    until = _only_until(steps, stalls) if kind == "stall" else 0
    kind = "stall_first" if until else kind
    advised = "stall_schedules" if kind == "stall_new" else kind
    # Whatever has a name need not be guessed.
    explained = "stall" if kind == "stall_timer" or (named and kind == "stall_inputs") else advised
    words = {
        "share": max(*of_first, *of_tokens),
        "metric": facts.called(facts.ttft if max(of_first) >= max(of_tokens) else facts.tpot),
        "count": len(stalls.step), "time": int(stalls.lasting.sum()), "longest": int(stalls.lasting[longest]),
        "at": int(stalls.begin[longest] - steps.opened.min()), "first": of_first[0], "tokens": of_tokens[0],
        "period": period, "between": int((~within).sum()), "within": int(within.sum()), "steps": len(steps),
        "parts": _parts_of(stalls), "until": until,
    }  # fmt: skip
    again = facts.found.pair_admitted & np.isin(facts.found.pair_step, stalls.step[~within])
    again[facts.found.entries] = False
    words |= {"again": int(again.sum())}
    words |= {"usual": float(np.median(stalls.lasting))}
    draft = draft_of(
        max(*of_first, *of_tokens), kind, f"{explained}_detail", words, first + tokens, facts.found.held.sum(axis=1),
        _unstalled, f"service_{advised}",
    )  # fmt: skip
    anew = message("finding.service.stall_again", **words) if words["again"] else ""
    where = np.bincount(engine, stalls.lasting)
    one = len(facts.found.engines) > 1 and where.max() >= NEARLY_ALL * where.sum()
    words |= {
        "engine": _engine_title(facts.found.engines[int(where.argmax())]),
        "here": float(where.max() / where.sum()),
    }
    told = message("finding.service.stall_on", **words) if one else ""
    draft = replace(draft, detail=sentences(draft.detail, told, more, anew))
    if kind not in ("stall", "stall_inputs", "stall_schedules") or not named:
        return draft
    words |= {"names": [brief(facts.found.service.text(one.name), SHORT) for one in named]}
    title = message(f"finding.service.stall_{'of' if one else 'named'}", **words)
    return _fetched(facts, _needless(facts, replace(draft, title=title), words, named), named)


def _needless(facts: ServiceFacts, draft: Cause, words: dict[str, Any], named: list[Named]) -> Cause:
    """``draft``, and where what lies there does again what was done before, or makes what a size needs: that."""
    rows, name = named[0].rows, facts.found.service.text(named[0].name).lower()
    again = facts.again(rows)
    if again is not None and (remedy := facts.freed(again[1])) is not None and facts.gains(remedy):
        title = message("finding.service.stall_repeats", **words | again[0].args)
        advised = "service_adapters" if any(word in name for word in ADAPTERS) else "service_again"
        detail = sentences(draft.detail, again[0])
        return replace(draft, title=title, detail=detail, remedy=remedy, advice=(advised,))
    differs = differs_in(facts.found, rows)
    said = (
        message("finding.service.stall_each", key=brief(differs[0], SHORT), values=_some(differs[1])) if differs else ""
    )
    advice = ("service_stall_sizes",) if any(word in name for word in COMPILERS) else draft.advice
    return replace(draft, detail=sentences(draft.detail, said), advice=advice)


def _some(values: list[Any]) -> list[str]:
    return [brief(str(value), SHORT) for value in values[:PLACES]]


def _fetched(facts: ServiceFacts, draft: Cause, named: list[Named]) -> Cause:
    """``draft``, and where it is blocks of prompts that are fetched: as if these were computed instead."""
    service, lat = facts.found.service, facts.latencies
    if not any(word in service.text(named[0].name).lower() for word in STORES):
        return draft
    rids = np.unique(service.spans.rid[named[0].rows])
    rids = rids[rids >= 0]
    given = (facts.asked - lat.prompt)[rids]
    rids, given = rids[given > 0], given[given > 0]
    if not len(rids):
        return draft
    words = {"count": len(rids), "tokens": round(float(given.mean())), "each": named[0].time / int(given.sum())}
    told = message("finding.service.stall_fetched", **words)

    def computed(model: ServiceModel) -> ServiceModel:
        prompt = np.where(np.isin(model.rids, rids), facts.asked[model.rids], model.prompt)
        return replace(_unstalled(model), prompt=prompt)

    return replace(draft, detail=sentences(draft.detail, told), remedy=computed, advice=("service_store",))


def _parts_of(stalls: Stalls) -> list[Message]:
    """The parts of the cycle that ``stalls`` lie in, the longest first."""
    sums = {part: int(stalls.lasting[stalls.part == part].sum()) for part in Cycle}
    told = sorted((part for part in Cycle if sums[part]), key=lambda part: -sums[part])
    whole = max(sum(sums.values()), 1)
    return [
        message("finding.service.stall_part", name=message(f"latency.part.{part.name}"), share=sums[part] / whole)
        for part in told
    ]


def _unstalled(model: ServiceModel) -> ServiceModel:
    return with_engines(model, stalls=(), stuck=())


def _kind_of(facts: ServiceFacts, stalls: Stalls, named: list[Named]) -> tuple[str, Said]:
    """Whether nearly all that ``stalls`` take is of schedules, of inputs or of steps of a new size; what lies there.

    For schedules it says whether they come with new requests, which few others do.
    """
    found, steps = facts.found, facts.found.steps

    def most(chosen: Bools) -> bool:
        return bool(stalls.lasting[chosen].sum() >= NEARLY_ALL * stalls.lasting.sum())

    inside = [
        message("finding.service.stall_in", name=brief(facts.found.service.text(one.name), SHORT), share=one.share)
        for one in named
    ]
    if most(stalls.part == Cycle.schedule):
        begins = np.isin(np.arange(len(steps)), found.pair_step[found.entries])
        new = begins[stalls.step].mean() >= NEARLY_ALL and begins.mean() <= HALF
        told = message("finding.service.stall_made" if new else "finding.service.stall_rare")
        return "stall_new" if new else "stall_schedules", sentences(*inside or [told])
    # Graphs are captured and kernels compiled in the forward pass: a stall before it belongs to a request.
    if most(stalls.part == Cycle.prepare):
        return "stall_inputs", sentences(*inside)
    stuck = stalls.step[stalls.part == Cycle.forward]
    if most(stalls.part == Cycle.forward) and _are_new_sizes(facts, stuck):
        return "stall_sizes", sentences(*inside)
    usual = float(np.median(steps.cycle[steps.size > 0].sum(axis=1))) if len(stuck) else 0.0
    if len(stuck) >= FEWEST and most(stalls.part == Cycle.forward) and np.median(stalls.lasting) <= FAR_LONGER * usual:
        return "stall_passes", sentences(*inside, _other_shapes(facts, stuck))
    return "stall", sentences(*inside)


def _other_shapes(facts: ServiceFacts, stuck: I64) -> Said:
    """What is said of ``stuck`` steps whose prompts have another size than those of the steps just before; else empty.

    So it is where few shapes at a time are compiled, or kept.
    """
    steps, best = facts.found.steps, (0.0, 0, 0)
    for prompts, few in product(_ROUNDED_TO[1], range(1, ENOUGH)):
        agree = list[tuple[int, int, int]]()
        for number in range(len(facts.found.engines)):
            mine = np.flatnonzero((steps.engine == number) & (steps.prompts > 0))
            size, here = -(-steps.prompts[mine] // prompts), np.isin(mine, stuck)
            other = np.ones(len(mine), np.bool_)
            for back in range(1, few + 1):
                other[back:] &= size[back:] != size[:-back]
            agree.append((int((other & here).sum()), int(other.sum()), int(here.sum())))
        both, others, all_stuck = (sum(column) for column in zip(*agree, strict=True))
        if both >= NEARLY_ALL * len(stuck):
            best = max(best, (min(both / max(others, 1), both / max(all_stuck, 1)), prompts, few))
    if best[0] < NEARLY_ALL:
        return ""
    return message("finding.service.stall_shapes", share=best[0], tokens=best[1], few=best[2])


def _only_until(steps: Steps, stalls: Stalls) -> int:
    """Among how many of the first steps of an engine all ``stalls`` are, within passes; 0 where chance may do that."""
    order = np.argsort(steps.engine, kind="stable")
    first = np.searchsorted(steps.engine[order], steps.engine)
    rank = np.empty(len(steps), np.int64)
    rank[order] = np.arange(len(steps))
    rank -= first
    until, count = int(rank[stalls.step].max()) + 1, len(np.unique(stalls.step))
    every = int(np.bincount(steps.engine).min(initial=len(steps), where=np.bincount(steps.engine) > 0))
    at_start = bool(stalls.within.all()) and count >= SOME and (until / max(every, 1)) ** count <= UNSEEN
    return until if at_start and until <= LITTLE * every else 0


def _are_new_sizes(facts: ServiceFacts, stuck: I64) -> bool:
    """Whether nearly all of ``stuck`` steps are the first of their size on their engine, which few others are.

    Sizes are requests, or tokens of prompts where there are any, rounded up to what graphs or kernels are made for.
    """
    steps = facts.found.steps
    if len(stuck) < ENOUGH:
        return False
    for decodes, prompts in product(_ROUNDED_TO[0], _ROUNDED_TO[1]):
        size = np.where(steps.prompts > 0, -1 - -(-steps.prompts // prompts), -(-steps.size // decodes))
        first = np.zeros(len(steps), bool)
        first[np.unique(np.stack([steps.engine, size]), axis=1, return_index=True)[1]] = True
        alike = np.isin(steps.prompts > 0, steps.prompts[stuck] > 0)  # sizes that hardly ever come again tell nothing
        if first[stuck].mean() >= NEARLY_ALL and 2 * first[alike].sum() <= alike.sum():
            return True
    return False


# Requests, and tokens of prompts, whose multiples are usual sizes of captured graphs.
_ROUNDED_TO = (1, 2, 4, 8, 16), (1, 128, 256, 512, 1024)
