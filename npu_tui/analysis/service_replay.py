"""The schedule of an inference service, replayed: what TTFT, TPOT and throughput would be if something were different.

The model of ``service_model`` is used only if replaying it unchanged reproduces the recording.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from contextlib import suppress

import numpy as np
from msgspec import Struct

from npu_tui.analysis.service_blocks import MANY
from npu_tui.analysis.service_model import LIMIT, EngineModel, ServiceModel
from npu_tui.analysis.service_timeline import TTFT, Room, ServiceTimeline
from npu_tui.trace.arrays import F64, I64, Bools

FAITHFUL = 0.1
"""How far the replay of the unchanged service may be from the recorded one."""


class Served(Struct, frozen=True):
    """What came of it: TTFT and E2E (ns) of each request, TPOT (ns a token) of those with several, tokens a second.

    ``itl`` (ns) lies between two tokens of a request, 0 where a step gave both.
    """

    ttft: F64
    tpot: F64
    e2e: F64
    tokens_per_s: float
    itl: F64

    @property
    def complete(self) -> bool:
        """Whether every request was served."""
        return bool(np.isfinite(self.ttft).all() and np.isfinite(self.tpot).all())

    def figures(self) -> dict[str, float]:
        """The figures that count, by name; NaN if unknown."""
        found = {"tokens_per_s": self.tokens_per_s}
        for name, values in (("ttft", self.ttft), ("tpot", self.tpot), ("e2e", self.e2e)):
            found |= dict.fromkeys((f"{name}_{one}" for one in ("mean", "p50", "p90", "p99")), float("nan"))
            if len(values):
                found[f"{name}_mean"] = float(values.mean())
                found |= {f"{name}_p{share}": float(np.percentile(values, share)) for share in (50, 90, 99)}
        for share in (50, 99):
            found[f"itl_p{share}"] = float(np.percentile(self.itl, share)) if len(self.itl) else float("nan")
        return found


FIGURES = "ttft_p50", "ttft_p99", "ttft_mean", "tpot_p50", "tpot_p99", "tpot_mean"
"""The figures by which one service is better than another."""
TOLD = (*(f"{name}_{one}" for name in ("ttft", "tpot", "e2e") for one in ("p50", "p99", "mean")), "itl_p50", "itl_p99")
"""The figures that are reported, where the unchanged service has them as recorded."""


def recorded(found: ServiceTimeline) -> Served:
    """What was recorded of the complete requests."""
    lat, (first, later) = found.latencies, found.latencies.metrics
    answered = lat.start[first.rids] + lat.ttft[first.rids] + lat.tpot[first.rids].clip(0)
    end = found.steps.end if len(found.steps) else answered
    wall = (end.max() - lat.start[first.rids].min()) if len(first.rids) else 0
    speed = float(lat.tokens[first.rids].clip(0).sum() / wall * 1e9) if wall > 0 else float("nan")
    return Served(first.values, later.values, lat.end_to_end.values, speed, _between_tokens(found))


def _between_tokens(found: ServiceTimeline) -> F64:
    """What lies between the tokens of each complete request, by the ends of the steps that gave them."""
    lat, rid = found.latencies, found.pair_rid
    if not len(rid):
        return np.zeros(0)
    counts = np.zeros(len(lat.start), np.bool_)
    counts[lat.decoded] = True
    first = np.append(True, (np.diff(rid) != 0) | (np.diff(found.steps.engine[found.pair_step]) != 0))
    gives = ~found.pair_prompt & counts[rid]
    end = found.steps.end[found.pair_step]
    gives &= ~first & (end > found.steps.end[np.maximum(lat.token, 0)][rid])
    gaps = (end - np.append(0, end)[:-1])[gives]
    # On an engine that gave no token before, the first one follows the one that another gave.
    other = found.steps.engine[found.pair_step] != found.steps.engine[np.maximum(lat.token, 0)][rid]
    moved = first & ~found.pair_prompt & counts[rid] & (lat.token >= 0)[rid] & other
    left = lat.start + lat.ttft - lat.ttft_parts[:, TTFT.output]
    gaps = np.append(gaps, np.maximum(end - left[rid], 0)[moved])
    alike = int(np.maximum(lat.tokens[lat.decoded] - 1 - lat.turns[lat.decoded], 0).sum())
    return np.append(gaps.astype(np.float64), np.zeros(alike))


class Moments(Struct, frozen=True, eq=False):
    """When each request of a model comes, is first in a batch, and has its first and its last token, ns; (n,) each.

    Its last step has ``ended`` before that. Between two tokens of a request lie the times ``between``. NaN where it is
    not served.
    """

    come: I64
    begun: F64
    first: F64
    ended: F64
    last: F64
    between: list[float]


def moments(model: ServiceModel) -> Moments:
    """Run ``model``: first the engines that a request begins on, then those that it is handed to."""
    n = len(model.rids)
    given, ended, begun, between = [0.0] * n, [0.0] * n, [np.nan] * n, list[float]()
    ready = (model.start + model.front + model.held).astype(np.float64)
    moved = model.first != model.last
    _run_all(
        model, [_steps(engine, model, np.flatnonzero(model.first == number), ready, moved, given, ended, begun,
                       between)
                for number, engine in enumerate(model.engines)]
    )  # fmt: skip
    seated = np.array([engine.seated for engine in model.engines], np.bool_)[model.last]
    ready = np.where(moved, np.array(ended) + model.handover + np.where(seated, 0, model.pull), ready)
    given = np.where(model.shipped, ready, np.array(given)).tolist()
    stay = np.zeros(n, bool)
    _run_all(
        model, [_steps(engine, model, np.flatnonzero(moved & (model.last == number)), ready, stay, given, ended,
                       begun, between) for number, engine in enumerate(model.engines)]
    )  # fmt: skip
    end = np.array(ended)
    return Moments(model.start, np.array(begun), np.array(given) + model.tail, end, end + model.close, between)


def replayed(model: ServiceModel) -> Served:
    """What comes of ``model``."""
    run, tokens = moments(model), model.answer
    first, last, between = run.first, run.last, run.between
    counts, several = model.counts, model.counts & (model.turns > 0) & (tokens > 1)
    wall = float(run.ended.max() - model.start.min())
    return Served(
        (first - model.start)[counts], (np.maximum(last - first, 0) / np.maximum(tokens - 1, 1))[several],
        (last - model.start)[counts],
        float(tokens.sum()) / max(wall, 1) * 1e9,
        np.append(between, np.zeros(int(np.maximum(tokens - 1 - model.turns, 0)[counts].sum()))),
    )  # fmt: skip


_Steps = Generator[tuple[float, float], float, None]
"""The steps of an engine: it says when it is ready for one, and hears when that begins and when all can go on.

In between it says when its pass may begin, and how long it takes from there on.
"""


def _run_all(model: ServiceModel, engines: list[_Steps]) -> None:
    """Run ``engines`` one after another, or in lockstep: a step begins together, and all wait for the longest."""
    if not model.lockstep:
        for one in engines:
            _run_alone(one)
        return
    ready = {one: told[0] for one in engines if (told := next(one, None)) is not None}
    free = 0.0
    while ready:
        begin = max(min(ready.values()), free)
        taking = [one for one, moment in ready.items() if moment <= begin]
        passes = {one: of for one in taking if (of := _next_answer(one, begin)) is not None}
        free = max((sum(of) for of in passes.values()), default=begin)
        if model.barrier and passes:
            free = max(of[0] for of in passes.values()) + max(of[1] for of in passes.values())
        for one in taking:
            told = _next_answer(one, free) if one in passes else None
            if told is None:
                del ready[one]
            else:
                ready[one] = told[0]


def _run_alone(engine: _Steps) -> None:
    """Run ``engine``: a step begins when it is ready for one, and it goes on when that step has ended."""
    free, send = 0.0, engine.send
    with suppress(StopIteration):
        ready, _ = next(engine)
        while True:
            begin, lasting = send(max(ready, free))
            free = begin + lasting
            ready, _ = send(free)


def _next_answer(engine: _Steps, moment: float) -> tuple[float, float] | None:
    """What ``engine`` answers at the ``moment``; None once it has nothing left to do."""
    try:
        return engine.send(moment)
    except StopIteration:
        return None


def _steps(
    engine: EngineModel,
    model: ServiceModel,
    mine: I64,
    ready: F64,
    leaves: Bools,
    given: list[float],
    ended: list[float],
    begun: list[float],
    between: list[float],
) -> _Steps:
    """Run the requests ``mine`` on ``engine``; those who leave after their prompt have an end and no token there.

    If the schedule cannot be completed (damaged tables), the rest is NaN: unknown.
    """
    order = mine[np.argsort(ready[mine], kind="stable")]
    handed = ((model.first != model.last) & ~leaves).tolist()  # such a request decodes at once
    ends_here, early = leaves.tolist(), model.early.tolist()
    columns = (of[order].tolist() for of in (ready, model.prompt, model.turns, model.growth))
    coming = deque[tuple[float, _QueuedRequest]]()
    for r, came, prompt, turns, growth in zip(order.tolist(), *columns, strict=True):
        left, context = (1, prompt - 1.0) if handed[r] else (prompt, 0.0)
        coming.append((came, _QueuedRequest(r, left, context, turns, growth, came=came)))
    waiting: deque[_QueuedRequest] = deque()
    running: list[_QueuedRequest] = []
    asking = coming if engine.seated else deque[tuple[float, _QueuedRequest]]()
    coming = coming if asking is not coming else deque[tuple[float, _QueuedRequest]]()

    def pulled(until: float, since: float) -> None:
        """Pull for those who ask before ``until``, not before ``since``, as long as there are places."""
        taken = len(running) + len(waiting) + len(coming)
        while asking and asking[0][0] <= until and taken < engine.seqs:
            moment, row = asking.popleft()
            row.came = max(moment, since) + float(model.pull[row.request])
            coming.append((row.came, row))
            given[row.request] = row.came if model.shipped[row.request] else given[row.request]
            taken += 1
        coming.extend(sorted((coming.popleft() for _ in range(len(coming))), key=lambda one: one[0]))

    cost, room, cached = engine.cost, engine.room, model.cached
    block, spare, part, width = room.block, room.spare, engine.part, engine.width
    free, time = engine.blocks, 0.0
    kept = deque[tuple[float, int]]()
    stalls, stuck, lost = deque(engine.stalls), deque(engine.stuck), deque(engine.lost)
    rank, counts = None if model.rank is None else model.rank.tolist(), model.counts.tolist()
    extra = None if model.extra is None else model.extra.tolist()
    left = _MOST_TURNS * (int(model.turns[mine].sum()) + len(mine)) + int((model.prompt[mine] // engine.budget).sum())
    while (coming or waiting or running or asking) and 0 <= left <= _MOST_TURNS * LIMIT:
        if not waiting and not running:
            if asking:
                pulled(coming[0][0] if coming else asking[0][0], time)
            if engine.looks and coming[0][0] > time:
                time += -(-(coming[0][0] - time) // engine.looks) * engine.looks
            time = max(time, coming[0][0]) + engine.patience
        time = yield time, 0.0
        while stalls and stalls[0][0] <= time:
            time += stalls.popleft()[1]
        while lost and lost[0][0] <= time:
            free -= lost.popleft()[1]
        while kept and kept[0][0] <= time:
            free += kept.popleft()[1]
        if rank is not None and coming and coming[0][0] <= time:
            came = [coming.popleft()[1] for _ in range(sum(moment <= time for moment, _ in coming))]
            waiting = deque(sorted((*waiting, *came), key=lambda row: rank[row.request]))
        while coming and coming[0][0] <= time:
            waiting.append(coming.popleft()[1])
        while engine.timer and not running and _waits_for_more(engine, waiting, time):
            time = waiting[0].came + engine.timer
            if coming and coming[0][0] < time:
                time, one = coming.popleft()
                waiting.append(one)
        budget, evicted, queued = engine.budget, False, len(waiting)
        chosen: list[tuple[_QueuedRequest, int]] = []
        admits = not (engine.timer and _waits_for_more(engine, waiting, time))
        prompts_first = not engine.chunked and admits and bool(waiting) and len(running) < engine.seqs
        if prompts_first:
            prompts_first = _following(engine, waiting, budget, _left(engine, free, running)) is not None
        for row in () if prompts_first else list(running):
            if budget <= 0 or row.out:  # budget used up, or this one and all after it were preempted
                break
            count = (min(row.prompt, budget, part) if row.prompt else 0) or width
            need = 0 if row.context + count <= (row.blocks - spare) * block else row.lacks(count, room)
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
        admits = admits and (engine.chunked or prompts_first)
        while admits and not evicted and waiting and budget > 0 and len(running) < engine.seqs:
            following = _following(engine, waiting, budget, _left(engine, free, running))
            if following is None:
                break
            row, count, need = following
            if not engine.chunked and chosen and row.prompt > budget:
                break
            free, row.blocks, row.out = free - need, row.blocks + need, False
            row.most = row.blocks + row.lacks(row.prompt + engine.ahead, engine.room) if engine.ahead else 0
            waiting.remove(row)
            running.append(row)
            begun[row.request] = min(begun[row.request], time) if begun[row.request] > 0 else time
            chosen.append((row, count))
            budget -= count
        if not chosen:  # what waits is larger than all that the engine has, unless ended requests still hold some
            if not kept:
                break
            time = yield kept[0][0], 0.0
            continue
        prompts, decoded, context, product, here = 0, 0, 0.0, 0.0, len(chosen)
        for row, count in chosen:
            if row.prompt and not (handed[row.request] and row.prompt == 1):
                prompts += count
            else:
                decoded += count
            reach = row.context + cached + count
            context += reach
            product += reach * count
        if engine.padded:
            context = here * max(row.context + cached + count for row, count in chosen)
        forward = (
            cost.fixed + cost.prompt * prompts + cost.decode * decoded + cost.context * context + cost.product * product
        )
        if not prompts and here > engine.filled[2]:
            forward += max(engine.filled[0] - engine.filled[1] * here, 0.0)
        forward = max(forward, engine.least[prompts > 0])
        since, until, factor = engine.late
        if time >= since:
            forward *= 1 + (factor - 1) * min((time - since) / max(until - since, 1), 1.0)
        if here > engine.beyond[0]:
            forward *= engine.beyond[2 if prompts else 1]
        begin = time + sum(of[0] * here + of[1] for of in (engine.schedule, engine.prepare)) + engine.dispatch
        begin += engine.schedule[2] * queued + engine.prepare[2] * prompts
        around = engine.after[0] * here + engine.after[1]
        for since, until, more in engine.grows:
            around += more * min(max((time - since) / max(until - since, 1), 0.0), 1.0)
        if engine.after[2]:
            around += engine.after[2] * sum(row.given for row, _ in chosen)
        if extra is not None:
            around += (max if model.once else sum)(extra[row.request] for row, _ in chosen)
        end = begin + around + forward + engine.draft
        while stuck and stuck[0][0] <= end:
            end += stuck.popleft()[1]
        left -= here
        time = yield begin, end + engine.gap - begin
        end = time - engine.gap if model.waits_inside else end
        over = []
        for row, count in chosen:
            request, decodes = row.request, not row.prompt
            if decodes:
                row.context += row.growth
                row.given += row.growth
            else:
                row.prompt -= count
                row.context += count
                if row.prompt:
                    continue
                row.given += 1
            if decodes or given[request]:
                row.turns -= 1
                if counts[request] and (row.given > 1 or handed[request]):
                    # What is handed over had a token from another engine, once that has left.
                    between.append(end - (ended if row.given > 1 else given)[request])
            elif early[request] or not ends_here[request]:
                given[request] = end
            ended[request] = end
            if row.turns <= 0 or ends_here[request]:
                over.append(row)
        if asking:
            pulled(end, 0.0)
        for row in over:
            running.remove(row)
            kept.append((end + room.after, row.blocks))
        if asking:
            pulled(end, end)
    unserved = [row.request for row in (*(row for _, row in (*coming, *asking)), *waiting, *running)]
    for request in unserved:
        given[request] = ended[request] = np.nan


def _waits_for_more(engine: EngineModel, waiting: deque[_QueuedRequest], time: float) -> bool:
    """Whether ``engine`` admits none of ``waiting`` yet: they are few, and the first one has not waited for long."""
    return 0 < len(waiting) < engine.fill and time < waiting[0].came + engine.timer


def _following(
    engine: EngineModel, waiting: deque[_QueuedRequest], budget: int, rest: int
) -> tuple[_QueuedRequest, int, int] | None:
    """The next of ``waiting`` that fits into ``rest`` blocks, with its tokens and blocks; None if none fits."""
    for row in waiting:
        count = (min(row.prompt, budget, engine.part) if engine.chunked else row.prompt) or engine.width
        need = row.lacks(count, engine.room)
        kept = engine.ahead and rest < engine.blocks  # alone it is admitted in any case
        most = max(need, row.lacks(row.prompt + engine.ahead, engine.room)) if kept else need
        if most <= rest and not (engine.whole and row.lacks(row.prompt, engine.room) > rest):
            return row, count, need
        if not engine.skips:
            break
    return None


def _left(engine: EngineModel, free: int, running: list[_QueuedRequest]) -> int:
    """The blocks of ``free`` ones that can be given to a request that waits while others are ``running``."""
    if not running:
        return free
    kept = sum(max(row.most - row.blocks, 0) for row in running) if engine.ahead and engine.blocks < MANY else 0
    return free - engine.margin - kept


class _QueuedRequest(Struct, eq=False):
    """A request on an engine: tokens ``prompt`` are left to be computed, ``turns`` steps to be decoded after the first.

    It holds ``blocks`` for a ``context`` of so many tokens, which grows by ``growth`` a step, and was ``given`` so
    many; ``out`` of the batch. It may take so many blocks at ``most``, for which there is room. It ``came`` to the
    queue at that moment, ns.
    """

    request: int
    prompt: int
    context: float
    turns: int
    growth: float
    blocks: int = 0
    out: bool = True
    given: float = 0.0
    most: int = 0
    came: float = 0.0

    def lacks(self, count: int, room: Room) -> int:
        """How many blocks it needs for ``count`` tokens more."""
        if room.reserved:
            if not self.blocks:
                return int(room.blocks(self.context + max(count, self.prompt)))
            return max(int(room.blocks(self.context + count)) - room.spare - self.blocks, 0)
        return max(int(room.blocks(self.context + count)) - self.blocks, 0)

    def restart(self, kept: bool) -> int:
        """Take it out of the batch, to compute its context again unless that is ``kept``; the blocks that it held."""
        held, self.blocks, self.out = self.blocks, 0, True
        if not kept:
            self.prompt, self.context = round(self.context) + max(self.prompt, 1), 0.0
        return held


# Most times a request is scheduled, as a multiple of the recorded ones: what is preempted is computed again.
_MOST_TURNS = 8
