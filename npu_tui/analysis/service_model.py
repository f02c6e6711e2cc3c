"""The model that the schedule of an inference service is replayed with, and changes of it.

How long a forward pass takes by its tokens and its context, how long scheduling, sampling and gaps take, how many
requests, tokens and blocks fit: all is read off the steps.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.limits import ALMOST_ALL, ENOUGH, FAR_LONGER, HALF, LITTLE, LONG_NS, NOTABLE, SOME
from npu_tui.analysis.service_blocks import MANY, growth_of
from npu_tui.analysis.service_cost import (
    FEWEST,
    Cost,
    Filled,
    Floor,
    Jump,
    Sampling,
    Slower,
    around_of,
    fitted,
    line_of,
    lockstep_of,
    work_of,
)
from npu_tui.analysis.service_steps import Cycle, Work
from npu_tui.analysis.service_timeline import TPOT, TTFT, Room, ServiceTimeline
from npu_tui.trace.arrays import F64, I64, Bools
from npu_tui.trace.service import UNKNOWN

LIMIT = 2_000_000
"""Most pairs of request and step that a replay takes on; some seconds."""
_LEAST = 2  # the percentile of waits that counts as the shortest one


NEVER_LATE = MANY << 20, MANY << 20, 1.0


class EngineModel(Struct, frozen=True):
    """One engine: its cost, times around the forward pass (ns) and limits. A request is admitted where its next chunk
    fits, or with ``whole`` where all of its prompt does, and ``margin`` blocks are left beside those that ``ahead``
    tokens of all answers would take; ``late`` slows all by a factor, ever more from a moment to another one. A request
    that decodes takes ``width`` tokens of a step, drafts included, which cost ``draft`` ns a step. ``stalls`` are
    moments at which it stands still, and for how long, in order; ``stuck`` is extra time within the step that covers a
    moment. One that ``swaps`` keeps the context of a request that it takes out; one that ``skips`` admits a later
    request where the next one does not fit. ``lost`` are moments from which so many more blocks have no owner. A
    request computes no more than ``part`` tokens in a step. A batch ``beyond`` a size takes so many times as long, and
    one with prompts so many times; those that only decode are ``filled`` up: so many ns more, less so many for each
    request, from more than so many on. No pass that only decodes takes less than ``least`` ns, and none with a prompt
    less than the second of these. What lies around a pass takes so many ns a
    request and so many a step: the ``schedule`` so many for each request that waits, ``prepare`` for each token of a
    prompt, what comes ``after`` it for each token given before. Without any request under way it waits with
    ``patience`` for more; it admits none before the first one has waited for ``timer`` ns, or as many as ``fill`` wait.
    What ``grows`` takes so many ns from the second moment on, ever more of it from the first one on. Where
    requests are ``seated`` the pull of one begins once it has a place. In a ``padded`` batch all have the longest
    context. Without any request it looks for new ones every so many ns only, where it ``looks`` at a time.
    """

    cost: Cost
    schedule: tuple[float, float, float]
    gap: float
    dispatch: float
    prepare: tuple[float, float, float]
    after: tuple[float, float, float]
    seqs: int
    budget: int
    chunked: bool
    blocks: int
    room: Room
    margin: int
    ahead: int = 0
    whole: bool = False
    late: tuple[int, int, float] = NEVER_LATE
    width: int = 1
    draft: float = 0.0
    stalls: tuple[tuple[int, int], ...] = ()
    stuck: tuple[tuple[int, int], ...] = ()
    swaps: bool = False
    skips: bool = False
    lost: tuple[tuple[int, int], ...] = ()
    part: int = MANY
    beyond: tuple[int, float, float] = (MANY, 1.0, 1.0)
    filled: tuple[float, float, int] = (0.0, 0.0, 0)
    least: tuple[float, float] = (0.0, 0.0)
    patience: float = 0.0
    timer: float = 0.0
    fill: int = MANY
    grows: tuple[tuple[int, int, float], ...] = ()
    seated: bool = False
    padded: bool = False
    looks: float = 0.0


class ServiceModel(Struct, frozen=True):
    """A service: its engines, and its requests as columns (n,) by rid of ``rids``.

    Each gets ``answer`` tokens. ``front`` lies between request and queue, ``held`` until the scheduler looks at it;
    ``pull`` (ns) and ``handover`` lie between the prefill engine and the decode engine; the prefill engine gives who is
    ``early`` the first token, which leaves after the pull where it is ``shipped``. Latencies are those of the requests
    that ``counts``. ``cached`` tokens of each prompt are not computed, yet in its context; they share their blocks.
    ``tail`` lies between a step and the first token, ``close`` between the last step and the last token. Among those
    that wait the lowest ``rank`` is taken first, without it the earliest. ``first`` and ``last`` are engines. With a
    request in it a step takes ``extra`` ns longer, the most ``once`` or those of all. In ``lockstep`` engines begin
    their steps together and wait for the longest one, be it within their passes (``waits_inside``) or after their
    tokens; with a ``barrier`` no pass goes on before the last one has begun.
    """

    engines: tuple[EngineModel, ...]
    rids: I64
    start: I64
    front: I64
    prompt: I64
    turns: I64
    growth: F64
    answer: I64
    first: I64
    last: I64
    pull: I64
    handover: I64
    tail: I64
    close: I64
    held: I64
    early: Bools
    shipped: Bools
    counts: Bools
    cached: int = 0
    rank: I64 | None = None
    extra: F64 | None = None
    once: bool = False
    lockstep: bool = False
    waits_inside: bool = False
    barrier: bool = False


def model_of(
    found: ServiceTimeline, slower: Slower | None = None, holds: bool = False, jump: Jump | None = None,
    filled: Filled | None = None, sampling: Sampling | None = None, floor: Floor | None = None,
) -> ServiceModel | None:  # fmt: skip
    """The model of ``found``, ``slower`` from a moment on, with a ``jump`` or ``floor`` of its cost, or ``filled`` up.

    Sampling takes as long as ``sampling`` says, without it by the size of batches.

    None where there is too little, or too much, to model.

    With ``holds`` every request first waits the shortest wait before the scheduler considers it.
    """
    lat, steps = found.latencies, found.steps
    rids = np.flatnonzero((lat.first >= 0) & (lat.prompt > 0))
    if not len(rids) or len(found.pair_rid) > LIMIT or len(steps) < FEWEST:
        return None
    asked = [number for number in range(len(found.engines)) if steps.size[steps.of(number)].any()]
    if not asked:
        return None
    work, lockstep = work_of(found), lockstep_of(found)
    engines: dict[int, EngineModel] = {}
    for number in asked:
        engine, part, cost = found.engines[number], steps.of(number), lockstep.cost if lockstep else None
        if part.stop - part.start < FEWEST and cost is None:
            alike = [n for n, other in enumerate(found.engines) if other.prefills == engine.prefills]
            mine = np.isin(steps.engine, alike) & (steps.size > 0)
            cost = fitted(work[mine], steps.forward[mine])
        changes = dict[str, float | tuple[float, ...]]()
        if lockstep:
            changes["gap"] = lockstep.gap
        if slower is not None and not engine.prefills:
            cost, changes["late"] = slower.before, (slower.since, slower.until, slower.factor)
        elif jump is not None and not engine.prefills:
            below = (steps.size <= jump.size) & (steps.size > 0) & found.serves[steps.engine] & (found.stuck == 0)
            cost, changes["beyond"] = (
                fitted(work[below], steps.forward[below]), (jump.size, jump.factor, jump.mixed)
            )  # fmt: skip
        elif filled is not None and not engine.prefills:
            cost, changes["filled"] = filled.cost, (filled.more, filled.each, filled.above)
        elif floor is not None and not engine.prefills:
            cost, changes["least"] = floor.cost, (floor.least, floor.least)
        if sampling is not None and not engine.prefills:
            changes["after"] = sampling.each, sampling.fixed, sampling.token
        engines[number] = replace(_engine(found, number, work, cost), **changes)
    for number, engine in enumerate(found.engines):  # one without requests is modelled like the first of its kind
        alike = [n for n in asked if found.engines[n].prefills == engine.prefills] or asked
        engines.setdefault(number, engines[alike[0]])
    for number, engine in enumerate(found.engines):
        # Limits are the most that engines were seen to take, and those of a kind are set alike: the largest one counts.
        # How many blocks an engine has is known where it lacked them.
        kind = [engines[n] for n, other in enumerate(found.engines) if other.prefills == engine.prefills]
        limits = {
            name: max((limit for one in kind if (limit := getattr(one, name)) < MANY), default=MANY)
            for name in ("seqs", "budget", "blocks")
        }
        limits["blocks"] = min(limits["blocks"], engines[number].blocks)
        places = max(
            int(found.places.most[n]) for n, other in enumerate(found.engines) if other.prefills == engine.prefills
        )
        engines[number] = replace(engines[number], **limits | ({"seqs": places, "seated": True} if places else {}))
    opened = steps.opened
    first, last = steps.engine[lat.first[rids]], lat.engine[rids]
    known = lat.arrival[rids] != UNKNOWN
    arrival = np.where(known, lat.arrival[rids], opened[lat.first[rids]])
    start = np.where(lat.start[rids] == UNKNOWN, arrival, lat.start[rids])
    front = np.maximum(arrival - start, 0)
    if known.any():  # without a recorded wait it came as fast as the others
        front = np.where(known, front, np.minimum(front, int(np.median(front[known]))))
    ends, began = np.zeros(len(found.service.rids), np.int64), found.pulls[0, rids]
    on_first = steps.engine[found.pair_step] == steps.engine[lat.first[found.pair_rid]]
    np.maximum.at(ends, found.pair_rid[on_first], steps.end[found.pair_step[on_first]])
    pull = lat.ttft_parts[rids, TTFT.transfer] + lat.tpot_parts[rids, TPOT.transfer]  # of requests that change engines
    handover = np.where(began == UNKNOWN, 0, np.maximum(began - ends[rids], 0))
    early = (lat.token[rids] >= 0) & (steps.engine[lat.token[rids]] != last)  # the wait for a place comes of itself
    shipped = early & (lat.ttft_parts[rids, TTFT.transfer] > 0)
    handover = np.where(early & ~shipped, np.minimum(handover, lat.tpot_parts[rids, TPOT.handover]), handover)
    ttft, _ = lat.metrics
    tail = lat.ttft_parts[rids, TTFT.output]
    tail = np.where(shipped, np.maximum(tail - handover, 0), tail)
    handover = np.maximum(handover - found.places.waits[rids], 0)
    close = np.where(lat.whole[rids] == UNKNOWN, tail, lat.whole[rids] - (steps.end[lat.last[rids]] - start))
    waits = ttft.part(TTFT.queue_step, TTFT.queue_blocks, TTFT.queue_full, TTFT.queue_other)[
        lat.arrival[ttft.rids] != UNKNOWN
    ]
    waits_for_more = any(engine.timer for engine in engines.values())
    least = int(np.percentile(waits, _LEAST)) if holds and len(waits) and not waits_for_more else 0
    turns, growth = np.maximum(lat.turns[rids], 0), growth_of(lat)[rids]
    answer = np.where(lat.tokens[rids] > 0, lat.tokens[rids], np.rint(turns * growth).astype(np.int64) + 1)
    models = tuple(engines[number] for number in range(len(found.engines)))
    ordered = found.overtaken[rids].sum() < LITTLE * np.maximum(lat.ttft[rids], 0).sum()
    return ServiceModel(
        models, rids, start, front, lat.prompt[rids], turns, growth, answer, first, last,
        pull, handover, tail, np.maximum(close, 0), np.full(len(rids), least, np.int64),
        early, shipped, lat.complete[rids] if lat.complete[rids].any() else np.ones(len(rids), np.bool_),
        rank=None if ordered else opened[lat.first[rids]],
        extra=np.where(sampling.special[rids], sampling.extra, 0.0) if sampling and sampling.extra else None,
        once=sampling is not None and sampling.once, lockstep=lockstep is not None,
        waits_inside=lockstep is not None and lockstep.inside, barrier=lockstep is not None and lockstep.barrier,
    )  # fmt: skip


def _engine(found: ServiceTimeline, number: int, work: F64, cost: Cost | None) -> EngineModel:
    steps, part, stalls = found.steps, found.steps.of(number), found.stalls
    mine = np.arange(part.start, part.stop)
    mine = mine[steps.size[mine] > 0]
    opened, closed = steps.opened[mine], np.where(steps.schedule == UNKNOWN, steps.opened, steps.schedule_end)[mine]
    tokens, size = (steps.prompts + steps.decoded)[mine], steps.size[mine]
    since = opened - np.append(opened[:1], np.maximum.accumulate(steps.end[mine])[:-1])
    still = np.flatnonzero(steps.engine[stalls.step] == number)
    still = still[np.argsort(stalls.begin[still], kind="stable")]

    def usual(column: Cycle) -> Bools:
        free: Bools = found.held[mine, column] == 0
        return free if free.any() else ~free

    between = np.maximum(steps.cycle[mine, Cycle.bubble] - np.maximum(steps.start[mine] - closed, 0), 0)
    busy = (steps.cycle[mine, Cycle.bubble] > 0) & (steps.cycle[mine, -1] == 0) & usual(Cycle.bubble)
    decodes = found.pair_tokens[~found.pair_prompt & (steps.engine[found.pair_step] == number)]
    begun = found.pair_step[found.entries]
    here = (begun >= part.start) & (begun < part.stop)
    entered = found.entries[here]
    before = np.maximum(entered - 1, 0)  # who comes from another engine may wait there until it has a place
    moved = (entered > 0) & (found.pair_rid[before] == found.pair_rid[entered])
    came = np.sort(np.where(moved, np.minimum(steps.end[found.pair_step[before]], found.came[here]), found.came[here]))
    went = np.sort(steps.opened[begun[here]])
    waits = np.searchsorted(came, opened, "right") - np.searchsorted(went, opened, "right")
    waiting = waits > 0
    budget, seated = int(tokens.max()), found.seated[mine]
    most = int(seated.max())
    chunks = found.pair_prompt & (steps.engine[found.pair_step] == number)
    works = set(steps.work[mine].tolist())
    chunked = Work.mixed in works or not {Work.prefill, Work.decode} <= works
    several = bool(len(found.pair_rid[chunks]) > len(np.unique(found.pair_rid[chunks])))
    no_blocks = found.queued[mine] == TTFT.queue_blocks
    in_budget = (tokens < ALMOST_ALL * budget) | (steps.prompts[mine] == 0)
    held = waiting & ~no_blocks & in_budget
    full = np.count_nonzero(held & (seated == most))
    limited = full >= ENOUGH and full >= HALF * np.count_nonzero(held)
    several = several and int((tokens == budget).sum()) >= SOME
    short = bool(no_blocks.any())
    within = stalls.within[still]
    lost = [
        tuple(zip(stalls.begin[still[here]].tolist(), stalls.lasting[still[here]].tolist(), strict=True))
        for here in (~within, within)
    ]
    known = found.room.total[number]
    timer, fill = _timer(found, number)
    looks = 0.0 if timer else _looks(found, mine, since)
    return EngineModel(
        cost or fitted(work[mine][usual(Cycle.forward)], steps.forward[mine][usual(Cycle.forward)]),
        around_of(size, waits, steps.cycle[mine, Cycle.schedule], usual(Cycle.schedule)),
        float(between[busy].mean()) if busy.any() else 0.0,
        float(np.median(np.maximum(steps.start[mine] - closed, 0))),
        around_of(size, steps.prompts[mine], steps.cycle[mine, Cycle.prepare], usual(Cycle.prepare)),
        (*line_of(size[usual(Cycle.sampling)], steps.cycle[mine, Cycle.sampling][usual(Cycle.sampling)]), 0.0),
        most if limited else MANY, budget if several or not chunked else MANY, chunked or several,
        known if short and known else MANY, found.room, found.room.margin[number], found.room.ahead[number],
        width=round(float(decodes.mean())) if len(decodes) else 1, draft=float(steps.cycle[mine, Cycle.draft].mean()),
        swaps=_swaps_out(found, number), stalls=lost[0], stuck=lost[1],
        lost=found.room.lost[number] if found.room.lost else (), part=_part(found, chunks, budget),
        patience=0.0 if timer or looks else _patience(found, mine, since), timer=timer, fill=fill, looks=looks,
    )  # fmt: skip


def _idle_waits(found: ServiceTimeline, mine: I64, since: I64) -> tuple[I64, Bools]:
    """How long who comes first waits for the steps ``mine`` that begin ``since`` the last one; which were idle before.

    (n,) each, no longer than nothing runs.
    """
    steps, entries = found.steps, found.entries
    new = np.bincount(found.pair_step[entries], minlength=len(steps))
    first = np.full(len(steps), np.iinfo(np.int64).max)
    np.minimum.at(first, found.pair_step[entries], found.came)
    alone = (new[mine] == found.seated[mine]) & (new[mine] > 0)
    return np.minimum(steps.opened[mine] - first[mine], since), alone


def _patience(found: ServiceTimeline, mine: I64, since: I64) -> float:
    """How long an engine without any request waits for more once one has come, ns; 0 where that is a usual gap."""
    waits, alone = _idle_waits(found, mine, since)
    usual = np.maximum(since[~alone], 0)
    if np.count_nonzero(alone) < SOME or not len(usual):
        return 0.0
    least = float(np.median(waits[alone]))
    return least if least > FAR_LONGER * max(float(np.median(usual)), LONG_NS) else 0.0


def _looks(found: ServiceTimeline, mine: I64, since: I64) -> float:
    """How often an engine without any request looks for new ones, ns; 0 where it is not idle for multiples of that."""
    waits, alone = _idle_waits(found, mine, since)
    longest = float(np.quantile(waits[alone], 1 - LITTLE)) if alone.any() else 0.0
    idle = since[alone & (since > waits)]
    idle = idle[(idle > LONG_NS) & (idle < FAR_LONGER * FAR_LONGER * longest)].astype(np.float64)
    if longest <= FAR_LONGER * LONG_NS or len(idle) < FEWEST:
        return 0.0
    rates = np.arange(1 / (1 + NOTABLE), 1 / (1 - NOTABLE), 1 / (20 * FAR_LONGER * FAR_LONGER)) / longest
    turns = np.exp(2j * np.pi * rates[:, None] * idle).mean(axis=1)
    best = int(np.abs(turns).argmax())
    return 1 / float(rates[best]) if abs(turns[best]) >= ALMOST_ALL else 0.0


def _timer(found: ServiceTimeline, number: int) -> tuple[float, int]:
    """How long the first of the requests that an engine admits together has waited, ns, and how many cut that short.

    0 where others wait as long as the first one, or nothing is the same for nearly all.
    """
    steps, step = found.steps, found.pair_step[found.entries]
    here = steps.engine[step] == number
    step, waited = step[here], (steps.opened[step] - found.came)[here]
    longest, shortest = np.full(len(steps), -1), np.full(len(steps), np.iinfo(np.int64).max)
    np.maximum.at(longest, step, waited)
    np.minimum.at(shortest, step, waited)
    new = np.bincount(step, minlength=len(steps))
    first, count = longest[new > 0], new[new > 0]
    if len(first) < FEWEST:
        return 0.0, MANY
    least, usual = np.quantile(first, (LITTLE, 1 / 4))
    later = shortest[new > 1] < (1 - LITTLE) * least
    if least <= FAR_LONGER * LONG_NS or usual > (1 + LITTLE) * least or later.sum() < max(SOME, HALF * len(later)):
        return 0.0, MANY
    return float(least), int(count[first < (1 - LITTLE) * least].min(initial=MANY))


def _part(found: ServiceTimeline, chunks: Bools, budget: int) -> int:
    """The per-request token limit: the most tokens of one request in steps with room for more, if several reach it."""
    tokens = found.pair_tokens[chunks]
    most = int(tokens.max(initial=0))
    goes_on = np.append(found.pair_rid[1:] == found.pair_rid[:-1], False) & np.append(found.pair_prompt[1:], False)
    cut = np.count_nonzero((tokens == most) & goes_on[chunks])
    return most if cut >= SOME and most < budget else MANY


def _swaps_out(found: ServiceTimeline, engine: int) -> bool:
    """Whether ``engine`` swaps: most requests that it takes out of batches come back without being computed again."""
    here = found.steps.engine[found.pair_step] == engine
    again = found.pair_admitted & here
    again[found.entries] = False
    return int(np.count_nonzero(found.pair_swapped & here)) > int(np.count_nonzero(again))


def with_engines(model: ServiceModel, **values: object) -> ServiceModel:
    """``model`` with other ``values`` of all of its engines."""
    return replace(model, engines=tuple(replace(engine, **values) for engine in model.engines))


def undrafted(model: ServiceModel) -> ServiceModel:
    """``model`` without drafts: a step for every token."""
    turns = np.rint(model.turns * model.growth).astype(np.int64)
    alone = replace(model, turns=turns, growth=np.ones(len(turns)))
    return with_engines(alone, width=1, draft=0.0)


def accepted(growth: float, model: ServiceModel) -> ServiceModel:
    """``model`` with ``growth`` tokens a step, of all requests that decode."""
    turns = np.ceil(model.turns * model.growth / growth).astype(np.int64)
    return replace(model, turns=turns, growth=model.turns * model.growth / np.maximum(turns, 1))


def fewer_drafts(few: int, count: int, ratio: float, model: ServiceModel) -> ServiceModel:
    """``model`` with ``few`` drafts a step of ``count``, ``ratio`` of them accepted: each after those before it.

    All have the same probability.
    """
    chances = np.linspace(0.0, 1.0, 1001)
    powers = chances[:, None] ** np.arange(1, count + 1)
    chance = float(np.interp(ratio * count, powers.sum(axis=1), chances))
    growth = 1 + float(np.sum(chance ** np.arange(1, few + 1)))
    engines = (replace(one, width=min(one.width, few + 1), draft=one.draft * few / count) for one in model.engines)
    return accepted(growth, replace(model, engines=tuple(engines)))


def twice(model: ServiceModel, chosen: Bools | None = None) -> ServiceModel:
    """``model`` with a second one of the engines ``chosen`` (all), which takes every other request of each."""
    count = len(model.engines)
    doubled = np.ones(count, np.bool_) if chosen is None else chosen
    moved = {}
    for name in ("first", "last"):
        engine = getattr(model, name)
        order, second = np.lexsort((model.start, engine)), np.zeros(len(engine), np.int64)
        second[order] = np.arange(len(order)) % 2 * count
        moved[name] = engine + np.where(doubled[engine], second, 0)
    return replace(model, engines=model.engines * 2, **moved)


def evenly(model: ServiceModel, engines: I64) -> ServiceModel:
    """``model`` with its requests on ``engines`` in turn, by arrival."""
    last = model.last.copy()
    on_them = np.flatnonzero(np.isin(last, engines))
    last[on_them[np.argsort(model.start[on_them], kind="stable")]] = engines[np.arange(len(on_them)) % len(engines)]
    return replace(model, first=np.where(model.first == model.last, last, model.first), last=last)
