"""The schedule of an inference service, replayed: what TTFT, TPOT and throughput would be if something were different.

The model is read off the steps: how long a forward pass takes by its tokens and its context, how long scheduling,
sampling and gaps take, how many requests, tokens and blocks fit. It is used only if replaying it unchanged reproduces
the recording.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.limits import ALMOST_ALL, ENOUGH, FAR_LONGER, HALF, LITTLE, LONG_NS, SOME
from npu_tui.analysis.service_blocks import MANY, growth_of
from npu_tui.analysis.service_cost import (
    FEWEST,
    Cost,
    Filled,
    Jump,
    Slower,
    around_of,
    fitted,
    line_of,
    lockstep_of,
    work_of,
)
from npu_tui.analysis.service_sampling import Sampling
from npu_tui.analysis.service_steps import Cycle, Work
from npu_tui.analysis.service_timeline import TPOT, TTFT, Room, ServiceTimeline
from npu_tui.trace.arrays import F64, I64, Bools
from npu_tui.trace.service import UNKNOWN

LIMIT = 2_000_000
"""Most pairs of request and step that a replay takes on; some seconds."""
FAITHFUL = 0.1
"""How far the replay of the unchanged service may be from the recorded one."""
_LEAST = 2  # the percentile of waits that counts as the shortest one


NEVER_LATE = MANY << 20, MANY << 20, 1.0


class EngineModel(Struct, frozen=True):
    """One engine: its cost, times around the forward pass (ns) and limits. A request is admitted where its next chunk
    fits, or with ``whole`` where all of its prompt does, and ``margin`` blocks are left; ``late`` slows all by a
    factor, ever more from a moment to another one. A request that decodes takes ``width`` tokens of a step, drafts
    included, which cost ``draft`` ns a step. ``stalls`` are moments at which it stands still, and for how long, in
    order; ``stuck`` is extra time within the step that covers a moment. One that ``swaps`` keeps the context of a
    request that it takes out; one that ``skips`` admits who comes behind where the next one does not fit. ``lost`` are
    moments from which so many blocks more are nobody's. A request computes no more than ``part`` tokens in a step. A
    batch ``beyond`` a size takes so many times as long, and one with prompts so many times; those that only decode are
    ``filled`` up: so many ns more, less so many for each request, from more than so many on. What lies around a pass
    takes so many ns a request and so many a step: the ``schedule`` so many for each request that waits, ``prepare`` for
    each token of a prompt, what comes ``after`` it for each token given before. Without any request under way it waits
    with ``patience`` for more.
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
    patience: float = 0.0


class ServiceModel(Struct, frozen=True):
    """A service: its engines, and its requests as columns (n,) by rid of ``rids``.

    ``front`` lies between request and queue, ``held`` until the scheduler looks at it; ``pull`` (ns) and ``handover``
    lie between the prefill engine and the decode engine; the prefill engine gives who is ``early`` the first token.
    ``cached`` tokens of each prompt are not computed, yet in its context; they share their blocks. ``tail`` lies
    between a step and the first token, ``close`` between the last step and the last token. Of those that wait the
    lowest ``rank`` is taken first, without it who came first. ``first`` and ``last`` are engines. With a request in it
    a step takes ``extra`` ns longer, the most ``once`` or those of all. In ``lockstep`` engines begin their steps
    together and wait for the longest one, be it within their passes (``waits_inside``) or after their tokens.
    """

    engines: tuple[EngineModel, ...]
    rids: I64
    start: I64
    front: I64
    prompt: I64
    turns: I64
    growth: F64
    first: I64
    last: I64
    pull: I64
    handover: I64
    tail: I64
    close: I64
    held: I64
    early: Bools
    cached: int = 0
    rank: I64 | None = None
    extra: F64 | None = None
    once: bool = False
    lockstep: bool = False
    waits_inside: bool = False


class Served(Struct, frozen=True):
    """What came of it: TTFT and E2E (ns) of each request, TPOT (ns a token) of those with several, tokens a second."""

    ttft: F64
    tpot: F64
    e2e: F64
    tokens_per_s: float

    @property
    def complete(self) -> bool:
        """Whether every request was served."""
        return bool(np.isfinite(self.ttft).all() and np.isfinite(self.tpot).all())

    def figures(self) -> dict[str, float]:
        """The figures that count, by name; NaN where nothing tells."""
        found = {"tokens_per_s": self.tokens_per_s}
        for name, values in (("ttft", self.ttft), ("tpot", self.tpot), ("e2e", self.e2e)):
            found |= dict.fromkeys((f"{name}_{one}" for one in ("mean", "p50", "p90", "p99")), float("nan"))
            if len(values):
                found[f"{name}_mean"] = float(values.mean())
                found |= {f"{name}_p{share}": float(np.percentile(values, share)) for share in (50, 90, 99)}
        return found


FIGURES = "ttft_p50", "ttft_p99", "ttft_mean", "tpot_p50", "tpot_p99", "tpot_mean"
"""The figures by which one service is better than another."""
TOLD = tuple(f"{name}_{one}" for name in ("ttft", "tpot", "e2e") for one in ("p50", "p99", "mean"))
"""The figures that are told, where the unchanged service has them as recorded."""


def recorded(found: ServiceTimeline) -> Served:
    """What was recorded of the complete requests."""
    lat, (first, later) = found.latencies, found.latencies.metrics
    answered = lat.start[first.rids] + lat.ttft[first.rids] + lat.tpot[first.rids].clip(0)
    end = found.steps.end if len(found.steps) else answered
    wall = (end.max() - lat.start[first.rids].min()) if len(first.rids) else 0
    speed = float(lat.tokens[first.rids].clip(0).sum() / wall * 1e9) if wall > 0 else float("nan")
    return Served(first.values, later.values, lat.end_to_end.values, speed)


def model_of(
    found: ServiceTimeline, slower: Slower | None = None, holds: bool = False, jump: Jump | None = None,
    filled: Filled | None = None, sampling: Sampling | None = None,
) -> ServiceModel | None:  # fmt: skip
    """The model of ``found``, ``slower`` from a moment on, with a ``jump`` of its cost, or with ``filled`` batches.

    Sampling takes as long as ``sampling`` tells, without it by the size of batches.

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
        engines[number] = replace(engines[number], **limits)
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
    handover = np.where(early, np.minimum(handover, lat.tpot_parts[rids, TPOT.handover]), handover)
    ttft, _ = lat.metrics
    tail = lat.ttft_parts[rids, TTFT.output]
    close = np.where(lat.whole[rids] == UNKNOWN, tail, lat.whole[rids] - (steps.end[lat.last[rids]] - start))
    waits = ttft.part(TTFT.queue_step, TTFT.queue_blocks, TTFT.queue_full, TTFT.queue_other)[
        lat.arrival[ttft.rids] != UNKNOWN
    ]
    least = int(np.percentile(waits, _LEAST)) if holds and len(waits) else 0
    turns, growth = np.maximum(lat.turns[rids], 0), growth_of(lat)[rids]
    models = tuple(engines[number] for number in range(len(found.engines)))
    ordered = found.overtaken[rids].sum() < LITTLE * np.maximum(lat.ttft[rids], 0).sum()
    return ServiceModel(
        models, rids, start, front, lat.prompt[rids], turns, growth, first, last,
        pull, handover, tail, np.maximum(close, 0), np.full(len(rids), least, np.int64),
        early, rank=None if ordered else opened[lat.first[rids]],
        extra=np.where(sampling.special[rids], sampling.extra, 0.0) if sampling and sampling.extra else None,
        once=sampling is not None and sampling.once, lockstep=lockstep is not None,
        waits_inside=lockstep is not None and lockstep.inside,
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
    return EngineModel(
        cost or fitted(work[mine][usual(Cycle.forward)], steps.forward[mine][usual(Cycle.forward)]),
        around_of(size, waits, steps.cycle[mine, Cycle.schedule], usual(Cycle.schedule)),
        float(np.maximum(since[busy], 0).mean()) if busy.any() else 0.0,
        float(np.median(np.maximum(steps.start[mine] - closed, 0))),
        around_of(size, steps.prompts[mine], steps.cycle[mine, Cycle.prepare], usual(Cycle.prepare)),
        (*line_of(size[usual(Cycle.sampling)], steps.cycle[mine, Cycle.sampling][usual(Cycle.sampling)]), 0.0),
        most if limited else MANY, budget if several or not chunked else MANY, chunked or several,
        known if short and known else MANY, found.room, found.room.margin[number],
        width=round(float(decodes.mean())) if len(decodes) else 1, draft=float(steps.cycle[mine, Cycle.draft].mean()),
        swaps=_swaps_out(found, number), stalls=lost[0], stuck=lost[1],
        lost=found.room.lost[number] if found.room.lost else (), part=_part(found, chunks, budget),
        patience=_patience(found, mine, since),
    )  # fmt: skip


def _patience(found: ServiceTimeline, mine: I64, since: I64) -> float:
    """How long an engine without any request waits for more once one has come, ns; 0 where that is a usual gap."""
    steps, entries = found.steps, found.entries
    new = np.bincount(found.pair_step[entries], minlength=len(steps))
    first = np.full(len(steps), np.iinfo(np.int64).max)
    np.minimum.at(first, found.pair_step[entries], found.came)
    alone = (new[mine] == found.seated[mine]) & (new[mine] > 0)
    begins = np.flatnonzero(alone)
    waited = np.minimum(steps.opened[mine] - first[mine], since)[begins]
    usual = np.maximum(since[~alone], 0)
    if len(begins) < SOME or not len(usual):
        return 0.0
    least = float(np.median(waited))
    return least if least > FAR_LONGER * max(float(np.median(usual)), LONG_NS) else 0.0


def _part(found: ServiceTimeline, chunks: Bools, budget: int) -> int:
    """The most tokens that one request computes in a step that has room for more, where several have just so many."""
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


def replayed(model: ServiceModel) -> Served:
    """Run ``model``: first the engines that a request begins on, then those that it is handed to."""
    n = len(model.rids)
    given, ended = np.zeros(n), np.zeros(n)
    ready = (model.start + model.front + model.held).astype(np.float64)
    moved = model.first != model.last
    _run_all(
        model, [_steps(engine, model, np.flatnonzero(model.first == number), ready, moved, given, ended)
                for number, engine in enumerate(model.engines)]
    )  # fmt: skip
    ready = np.where(moved, ended + model.handover + model.pull, ready)
    stay = np.zeros(n, bool)
    _run_all(
        model, [_steps(engine, model, np.flatnonzero(moved & (model.last == number)), ready, stay, given, ended)
                for number, engine in enumerate(model.engines)]
    )  # fmt: skip
    tokens = np.rint(model.turns * model.growth) + 1
    several = model.turns > 0
    wall = float(ended.max() - model.start.min())
    first, last = given + model.tail, ended + model.close
    return Served(
        first - model.start, (np.maximum(last - first, 0) / np.maximum(tokens - 1, 1))[several], last - model.start,
        float(tokens.sum()) / max(wall, 1) * 1e9,
    )  # fmt: skip


_Steps = Generator[float, float, None]
"""The steps of an engine: it says when it is ready for one and is told when it begins, then when all can go on."""


def _run_all(model: ServiceModel, engines: list[_Steps]) -> None:
    """Run ``engines`` one after another, or in lockstep: a step begins together, and all wait for the longest."""
    for together in [engines] if model.lockstep else [[one] for one in engines]:
        ready = {one: moment for one in together if (moment := next(one, None)) is not None}
        free = 0.0
        while ready:
            begin = max(min(ready.values()), free)
            taking = [one for one, moment in ready.items() if moment <= begin]
            ends = {one: end for one in taking if (end := _told(one, begin)) is not None}
            free = max(ends.values(), default=begin)
            for one in taking:
                moment = _told(one, free) if one in ends else None
                if moment is None:
                    del ready[one]
                else:
                    ready[one] = moment


def _told(engine: _Steps, moment: float) -> float | None:
    """What ``engine`` says once it is told the ``moment``; None where it has nothing to do any more."""
    try:
        return engine.send(moment)
    except StopIteration:
        return None


def _steps(
    engine: EngineModel, model: ServiceModel, mine: I64, ready: F64, leaves: Bools, given: F64, ended: F64
) -> _Steps:
    """Run the requests ``mine`` on ``engine``; those who leave after their prompt have an end and no token there.

    If the schedule cannot be completed (damaged tables), the rest is NaN: unknown.
    """
    order = mine[np.argsort(ready[mine], kind="stable")]
    handed = (model.first != model.last) & ~leaves  # such a request decodes at once
    coming = deque(
        (came, _QueuedRequest(r, 1 if handed[r] else prompt, prompt - 1.0 if handed[r] else 0.0, turns, growth))
        for came, r, prompt, turns, growth in zip(
            ready[order].tolist(), order.tolist(), model.prompt[order].tolist(), model.turns[order].tolist(),
            model.growth[order].tolist(), strict=True,
        )
    )  # fmt: skip
    waiting: deque[_QueuedRequest] = deque()
    running: list[_QueuedRequest] = []
    cost, room = engine.cost, engine.room
    free, time = engine.blocks, 0.0
    stalls, stuck, lost = deque(engine.stalls), deque(engine.stuck), deque(engine.lost)
    rank = None if model.rank is None else model.rank.tolist()
    extra = None if model.extra is None else model.extra.tolist()
    left = _MOST_TURNS * (int(model.turns[mine].sum()) + len(mine)) + int((model.prompt[mine] // engine.budget).sum())
    while (coming or waiting or running) and 0 <= left <= _MOST_TURNS * LIMIT:
        if not waiting and not running:
            time = max(time, coming[0][0]) + engine.patience
        time = yield time
        while stalls and stalls[0][0] <= time:
            time += stalls.popleft()[1]
        while lost and lost[0][0] <= time:
            free -= lost.popleft()[1]
        if rank is not None and coming and coming[0][0] <= time:
            came = [coming.popleft()[1] for _ in range(sum(moment <= time for moment, _ in coming))]
            waiting = deque(sorted((*waiting, *came), key=lambda row: rank[row.request]))
        while coming and coming[0][0] <= time:
            waiting.append(coming.popleft()[1])
        budget, evicted, queued = engine.budget, False, len(waiting)
        chosen: list[tuple[_QueuedRequest, int]] = []
        rest = free - (engine.margin if running else 0)
        prompts_first = not engine.chunked and waiting and len(running) < engine.seqs
        prompts_first = prompts_first and _following(engine, waiting, budget, rest) is not None
        for row in () if prompts_first else list(running):
            if budget <= 0 or row.out:  # budget used up, or this one and all after it were preempted
                break
            count = min(row.prompt, budget, engine.part) or engine.width
            need = row.lacks(count, room)
            while need > free and not row.out:
                victim = running.pop()
                free += victim.restart(engine.swaps)
                waiting.appendleft(victim)
                evicted = True
                if not running:  # it does not fit even alone: the replay ends
                    left = -1
            if row.out:
                break
            free, row.blocks = free - need, row.blocks + need
            chosen.append((row, count))
            budget -= count
        while (
            (engine.chunked or prompts_first) and not evicted and waiting and budget > 0 and len(running) < engine.seqs
        ):
            following = _following(engine, waiting, budget, free - (engine.margin if running else 0))
            if following is None:
                break
            row, count, need = following
            if not engine.chunked and chosen and row.prompt > budget:
                break
            free, row.blocks, row.out = free - need, row.blocks + need, False
            waiting.remove(row)
            running.append(row)
            chosen.append((row, count))
            budget -= count
        if not chosen:  # what waits is larger than all that the engine has
            break
        prompts = sum(count for row, count in chosen if row.prompt and not (handed[row.request] and row.prompt == 1))
        decoded = sum(count for _, count in chosen) - prompts
        context = sum(row.context + model.cached + count for row, count in chosen)
        product = sum((row.context + model.cached + count) * count for row, count in chosen)
        forward = (
            cost.fixed + cost.prompt * prompts + cost.decode * decoded + cost.context * context + cost.product * product
        )
        if not prompts and len(chosen) > engine.filled[2]:
            forward += max(engine.filled[0] - engine.filled[1] * len(chosen), 0.0)
        since, until, factor = engine.late
        if time >= since:
            forward *= 1 + (factor - 1) * min((time - since) / max(until - since, 1), 1.0)
        if len(chosen) > engine.beyond[0]:
            forward *= engine.beyond[2 if prompts else 1]
        around = sum(of[0] * len(chosen) + of[1] for of in (engine.schedule, engine.prepare, engine.after))
        around += engine.schedule[2] * queued + engine.prepare[2] * prompts
        if engine.after[2]:
            around += engine.after[2] * sum(row.given for row, _ in chosen)
        if extra is not None:
            around += (max if model.once else sum)(extra[row.request] for row, _ in chosen)
        end = time + around + engine.dispatch + forward + engine.draft
        while stuck and stuck[0][0] <= end:
            end += stuck.popleft()[1]
        left -= len(chosen)
        time = yield end + engine.gap
        end = time - engine.gap if model.waits_inside else end
        for row, count in chosen:
            decodes = not row.prompt
            row.prompt -= 0 if decodes else count
            row.context += row.growth if decodes else count
            if row.prompt:
                continue
            row.given += row.growth if decodes else 1
            if decodes or given[row.request]:
                row.turns -= 1
            elif model.early[row.request] or not leaves[row.request]:
                given[row.request] = end
            ended[row.request] = end
            if row.turns <= 0 or leaves[row.request]:
                running.remove(row)
                free += row.blocks
    unserved = [row.request for row in (*(row for _, row in coming), *waiting, *running)]
    given[unserved] = ended[unserved] = np.nan


def _following(
    engine: EngineModel, waiting: deque[_QueuedRequest], budget: int, rest: int
) -> tuple[_QueuedRequest, int, int] | None:
    """Who of ``waiting`` is admitted next to ``rest`` blocks, with how many tokens and blocks; None if nobody is."""
    for row in waiting:
        count = (min(row.prompt, budget, engine.part) if engine.chunked else row.prompt) or engine.width
        need = row.lacks(count, engine.room)
        if need <= rest and not (engine.whole and row.lacks(row.prompt, engine.room) > rest):
            return row, count, need
        if not engine.skips:
            break
    return None


class _QueuedRequest(Struct, eq=False):
    """A request on an engine: tokens ``prompt`` are left to be computed, ``turns`` steps to be decoded after the first.

    It holds ``blocks`` for a ``context`` of so many tokens, which grows by ``growth`` a step, and was ``given`` so
    many; ``out`` of the batch.
    """

    request: int
    prompt: int
    context: float
    turns: int
    growth: float
    blocks: int = 0
    out: bool = True
    given: float = 0.0

    def lacks(self, count: int, room: Room) -> int:
        """How many blocks it needs for ``count`` tokens more."""
        return max(int(room.blocks(self.context + count)) - self.blocks, 0)

    def restart(self, kept: bool) -> int:
        """Take it out of the batch, to compute its context again unless that is ``kept``; the blocks that it held."""
        held, self.blocks, self.out = self.blocks, 0, True
        if not kept:
            self.prompt, self.context = round(self.context) + max(self.prompt, 1), 0.0
        return held


# Most times a request is scheduled, as a multiple of the recorded ones: what is preempted is computed again.
_MOST_TURNS = 8


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
