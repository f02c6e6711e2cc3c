"""Where the time of each request of an inference service went: parts of TTFT and TPOT that add up to the nanosecond.

The moments between them, when requests come, get their first token and have a place, are on one clock.
"""

from __future__ import annotations

import numpy as np

from npu_tui.analysis.limits import ALMOST_ALL, ENOUGH, EVEN, LITTLE, LONG_NS, MORE_THAN_ONE, NEARLY_ALL, NOTABLE, SOME
from npu_tui.analysis.service_blocks import ahead_in, following_of, room_for, room_of
from npu_tui.analysis.service_members import is_prompt, tokens_of
from npu_tui.analysis.service_stalls import held_in
from npu_tui.analysis.service_steps import (
    ROUNDING,
    Cycle,
    Steps,
    Work,
    engines_of,
    inner_rows,
    keys_of,
    steps_of_engines,
    sums_by_group,
    with_idle,
)
from npu_tui.analysis.service_timeline import TPOT, TTFT, Latencies, Places, ServiceTimeline
from npu_tui.trace.arrays import I64, Bools, summed
from npu_tui.trace.intervals import covered_within
from npu_tui.trace.service import ENQUEUES, UNKNOWN, WHOLE_MS, EngineRanges, Service, minus, plus


def timeline(service: Service) -> ServiceTimeline:
    """The engines, steps and requests of ``service``."""
    keys = keys_of(service)
    outer = inner_rows(service, keys)
    engines, of_process = engines_of(service, keys)
    steps = steps_of_engines(service, keys, outer, of_process)
    members, spans = service.members, service.spans
    count = len(service.rids)  # ranges name requests that no table has
    step_of = np.full(len(service.batches), -1)
    step_of[steps.row] = np.arange(len(steps))
    kept = np.flatnonzero((step_of[members.batch] >= 0) & (members.rid >= 0))
    step, rid = step_of[members.batch[kept]], members.rid[kept].astype(np.int64)
    later = np.array([not engine.prefills for engine in engines], np.bool_)[steps.engine[step]]
    order = np.lexsort((steps.opened[step], later, rid))  # hosts may have other clocks: prompts come first
    # A batch may name a request twice, as for several answers: it takes part in the step once.
    order = order[np.append(True, (np.diff(rid[order]) != 0) | (np.diff(step[order]) != 0))[: len(order)]]
    rid, step, prompt = rid[order], step[order], is_prompt(service)[kept][order]
    tokens = tokens_of(service)[kept][order]
    begin, stop = np.searchsorted(rid, np.arange(count)), np.searchsorted(rid, np.arange(count), "right")

    requests = service.requests
    told, row = np.unique(requests.rid, return_index=True)  # of several with one rid the first counts
    row_of = np.full(count, len(requests))
    row_of[told[told >= 0]] = row[told >= 0]
    asked, output, start, ttft, queue, ended = (
        np.append(column, UNKNOWN)[row_of]
        for column in (
            requests.prompt_tokens, requests.output_tokens, requests.start, requests.first_token, requests.queue,
            requests.end,
        )
    )  # fmt: skip
    start[(start < 0) | (start > _LATEST)] = UNKNOWN
    for lengths in (ttft, queue):
        lengths[lengths > _LONGEST] = UNKNOWN
    seen = stop > begin
    last = np.where(seen, stop - 1, 0)
    pulls = pulls_of(service)
    ahead = aligned(steps, rid, step, start, ended, pulls[0], len(engines))
    ends = np.append(steps.end[step], 0)
    # A prompt after a token, or that left out a step, was taken out of the batch: it waited again.
    again = np.append(False, prompt[1:] & (~prompt[:-1] | (np.diff(step) > 1)))[: len(rid)]
    entered = np.append(True, (np.diff(rid) != 0) | (np.diff(steps.engine[step]) != 0))[: len(rid)]
    admitted = entered | again
    # A start in whole ms is rounded down, and so is the moment that is reckoned from it.
    slack = ROUNDING + np.where(start % WHOLE_MS == 0, WHOLE_MS, 0)
    left = plus(start, ttft)
    moment = (
        np.where(left == UNKNOWN, UNKNOWN, left + slack)[rid] + np.where(ahead != 0, WHOLE_MS, 0)[steps.engine[step]]
    )
    computed_at = (steps.end - steps.cycle[:, Cycle.sampling] - steps.cycle[:, Cycle.draft])[step]
    token, contradicted = first_tokens(
        computed_at, steps.engine[step], prompt, prompt & ~admitted, rid, begin, stop, moment
    )
    contradicted &= left != UNKNOWN
    ttft[contradicted] = UNKNOWN
    at = np.arange(len(rid))
    computed = summed(rid, tokens * (prompt & (at <= token[rid])), count)
    computed = np.where(asked > 0, np.minimum(computed, asked), computed)  # what was taken out was computed again
    has_tokens = summed(rid, ((members.tokens[kept][order] != UNKNOWN) & prompt).astype(np.int64), count) > 0
    computed = np.where(has_tokens | (asked > 0), computed, UNKNOWN)
    last_end = np.where(seen, ends[last], UNKNOWN)
    # A request without an end closed its connection; if none has an end, ends are not recorded.
    has_end = (ended != UNKNOWN) | bool((ended == UNKNOWN).all())
    complete = (start != UNKNOWN) & seen & has_end & ((ended == UNKNOWN) | (last_end <= ended + WHOLE_MS + slack))
    there = (token >= 0) & (last_end > start)  # another run may have batches of the same names
    decoding = np.where(seen & there, last_end - ends[token], UNKNOWN)
    streamed = (left == UNKNOWN) | (left < ended - WHOLE_MS) | (token < 0) | (decoding <= _AT_ONCE)
    ttft = np.where(streamed | contradicted, ttft, np.maximum(ends[token] - start, 0))
    tpot = minus(ended, plus(start, ttft))
    if len(rid):
        tpot = np.where((decoding == UNKNOWN) | (tpot < 0), decoding, tpot)
    else:  # without batches all that is known is what the table of requests says
        complete, computed = (start != UNKNOWN) & (ttft != UNKNOWN) & has_end, asked
        tpot[tpot < 0] = UNKNOWN
    arrival = arrivals_of(service, spans, steps, step, rid, admitted, start, queue)
    steps_of_pairs, engine = np.append(step, 0), np.append(steps.engine[step], 0)
    latencies = Latencies(
        start, arrival, ttft, tpot, output, computed,
        np.where(seen, stop - 1 - token, 0), np.where(seen, steps_of_pairs[np.where(seen, begin, 0)], -1),
        np.where(token >= 0, steps_of_pairs[token], -1), np.where(seen, steps_of_pairs[last], -1),
        np.where(seen, engine[last], -1), np.zeros((count, len(TTFT)), np.int64),
        np.zeros((count, len(TPOT)), np.int64), complete, minus(ended, start), streamed, contradicted,
    )  # fmt: skip
    pulls = np.where(pulls == UNKNOWN, UNKNOWN, pulls - np.append(ahead, 0)[latencies.engine])
    entries = np.flatnonzero(entered)
    there, first = steps.opened[step[entries]], entries == begin[rid[entries]]
    came = np.where(first, arrival[rid[entries]], pulls[1, rid[entries]])
    came = np.where(came == UNKNOWN, there, np.minimum(came, there))
    swapped = _swapped(steps, rid, step, prompt, admitted)
    found = ServiceTimeline(
        service, keys, outer, engines, steps, latencies, rid, step, tokens, prompt, admitted, swapped, entries, came,
        np.zeros(len(steps), np.int64), np.zeros((len(engines), len(TTFT)), np.int64),
        seated_in(rid, step, admitted | swapped, len(steps)), pulls, ahead, np.zeros_like(steps.cycle),
        _places_of(latencies, steps, rid, step, pulls[0], len(engines)),
    )  # fmt: skip
    leaves = np.append(entries[1:], len(rid))[: len(entries)] - 1
    stays = np.bincount(step[entries] + 1, minlength=len(steps) + 1) - np.bincount(
        step[leaves] + 1, minlength=len(steps) + 1
    )
    for number in range(len(engines)):
        mine = steps.engine[step[entries]] == number
        with_idle(steps, number, came[mine], steps.end[step[leaves[mine]]])
    found.held[:] = held_in(found, np.cumsum(stays)[: len(steps)] > 0)
    found.room = room_of(found)
    found.queued[:] = _reasons(found)
    seats = np.flatnonzero(found.places.waits)
    found.waited[:, TTFT.queue_full] += summed(latencies.engine[seats], found.places.waits[seats], len(engines))
    _split_ttft(found, begin, token, seen, prompt)
    _split_tpot(found, token, last, seen, prompt, decoding)
    if not len(rid):  # how long a request queued is known, not why
        queued = np.where(complete, queue.clip(0, np.maximum(ttft, 0)), 0)
        latencies.ttft_parts[:, TTFT.queue_other] += queued
        latencies.ttft_parts[:, TTFT.unrecorded] -= queued
    return found


def _places_of(lat: Latencies, steps: Steps, rid: I64, step: I64, begun: I64, engines: int) -> Places:
    """The places of engines whose pulls begin once one is free: nearly all of what goes by before them is without one.

    A place is taken from the moment at which the pull of a request has ``begun`` to its last step. The request of each
    of pairs, ``rid``, is in ``step``.
    """
    most, waits = np.zeros(engines, np.int64), np.zeros(len(lat.start), np.int64)
    rids = np.flatnonzero((begun != UNKNOWN) & (lat.first >= 0) & (lat.last >= 0))
    rids = rids[steps.engine[lat.first[rids]] != lat.engine[rids]] if len(rids) else rids
    ended = np.zeros(len(lat.start), np.int64)
    stays = steps.engine[step] == steps.engine[lat.first[rid]]
    np.maximum.at(ended, rid[stays], steps.end[step[stays]])
    for number in np.unique(lat.engine[rids]).tolist():
        mine = rids[lat.engine[rids] == number]
        before = np.maximum(begun[mine] - ended[mine], 0)
        moments = np.append(begun[mine], steps.end[lat.last[mine]])
        more = np.repeat((1, -1), len(mine))
        order = np.lexsort((more, moments))  # one that leaves makes room for the next one
        moments, taken = moments[order], np.cumsum(more[order])
        lasting = np.diff(moments)
        places = int(np.bincount(taken[:-1], lasting).argmax()) if len(lasting) else 0
        if lasting[taken[:-1] > places].sum() > LITTLE * lasting[taken[:-1] >= places].sum():
            continue
        full = np.flatnonzero(taken[:-1] >= places)
        inside = covered_within(moments[full], moments[full + 1], begun[mine] - before, begun[mine])
        long = before > LONG_NS
        if places < MORE_THAN_ONE or long.sum() < SOME or inside.sum() < NEARLY_ALL * before.sum():
            continue
        most[number], waits[mine] = places, inside
    return Places(most, waits)


def _swapped(steps: Steps, rid: I64, step: I64, prompt: Bools, admitted: Bools) -> Bools:
    """Which pairs go on to decode after steps that decoded for others alone."""
    decodes = np.append(0, np.cumsum(np.isin(steps.work, (Work.decode, Work.mixed))))
    passed = decodes[step[1:]] - decodes[np.minimum(step[:-1] + 1, step[1:])] > 0
    return np.append(False, passed & (rid[1:] == rid[:-1]) & ~prompt[1:] & ~admitted[1:])[: len(rid)]


_LATEST, _LONGEST = 4_000_000_000_000_000_000, 10_000_000_000_000_000
"""Moments and lengths (116 days) above which a table is damaged, ns."""
# Answers that take no longer from the first to the last token leave at once even where they are streamed.
_AT_ONCE = 4 * WHOLE_MS
_MOST_CHUNKS = 2000  # steps before the first token that are distinguished


def _reasons(found: ServiceTimeline) -> I64:
    """Why the next request was not scheduled in each step: no blocks, full, or another reason."""
    steps, reasons = found.steps, np.full(len(found.steps), TTFT.queue_other)
    for number in range(len(found.engines)):
        part, following = steps.of(number), following_of(found, number)
        if not len(following):
            continue
        need = room_for(found, following)
        tokens, free, seated = (steps.prompts + steps.decoded)[part], steps.free[part], found.seated[part]
        chunks = not ((steps.prompts[part] > 0) & (steps.work[part] == Work.prefill)).all()
        budget = tokens.max()
        full = (seated >= seated.max()) | ((tokens >= ALMOST_ALL * budget) & (steps.prompts[part] > 0))
        full |= (steps.work[part] == Work.prefill) & (tokens + need > budget) & chunks
        room, ahead = found.room, found.room.ahead[number]
        left = free - room.margin[number] - (ahead_in(found, room, ahead)[part] if ahead else 0)
        blocks = (free != UNKNOWN) & (left < room.blocks(need + ahead))
        reasons[part] = np.select([blocks, full], [TTFT.queue_blocks, TTFT.queue_full], TTFT.queue_other)
    return reasons


def _split_ttft(found: ServiceTimeline, begin: I64, token: I64, seen: Bools, prompt: Bools) -> None:
    """Fill the parts of TTFT: each moment of a request belongs to one, in the order in which it passes them."""
    steps, lat, parts = found.steps, found.latencies, found.latencies.ttft_parts
    step = np.append(found.pair_step, 0)
    known = (lat.start != UNKNOWN) & (lat.ttft != UNKNOWN)
    parts[known & ~seen, TTFT.unrecorded] = lat.ttft[known & ~seen]
    rids = np.flatnonzero(known & seen)
    pulled, pull_end = found.pulls
    closed = np.where(steps.schedule == UNKNOWN, steps.opened, steps.schedule_end)
    after = steps.cycle[:, Cycle.sampling]
    cursor, stop = lat.start.copy(), plus(lat.start, lat.ttft)
    turn = 0
    while len(rids):
        at = step[begin[rids] + turn]
        last, low = stop[rids], cursor[rids]
        opened = np.clip(steps.opened[at], low, last)
        shut = np.clip(closed[at], opened, last)
        begun = np.clip(steps.start[at], shut, last)
        end = np.clip(steps.end[at], begun, last)
        engine = steps.engine[at]
        if turn == 0:
            come = np.clip(np.where(lat.arrival[rids] == UNKNOWN, opened, lat.arrival[rids]), low, opened)
            front = np.where(lat.arrival[rids] == UNKNOWN, TTFT.before, TTFT.frontend)
            parts[rids, front] += come - low
            parts[rids] += _first_schedule_waits(found, engine, come, opened)
        else:
            moved = (pulled[rids] != UNKNOWN) & (engine != steps.engine[step[begin[rids] + turn - 1]])
            pull = np.where(moved, np.clip(pulled[rids], low, opened), opened)
            back = np.where(moved, np.clip(pull_end[rids], pull, opened), opened)
            seat = np.where(moved, np.minimum(found.places.waits[rids], pull - low), 0)
            parts[rids, TTFT.queue_full] += seat
            _between_schedules(found, rids, engine, low + seat, pull)
            parts[rids, TTFT.transfer] += back - pull
            parts[rids] += _first_schedule_waits(found, engine, back, opened)
        parts[rids, TTFT.batching] += shut - opened
        _between_schedules(found, rids, engine, shut, begun)
        tail = np.minimum(after[at], end - begun)
        own = np.where(prompt[np.minimum(begin[rids] + turn, len(prompt) - 1)], TTFT.prefill, TTFT.decode)
        head = np.minimum(steps.cycle[at, Cycle.prepare], end - begun - tail)
        parts[rids, TTFT.prepare] += head
        parts[rids, own] += end - begun - tail - head
        parts[rids, TTFT.sampling] += tail
        cursor[rids] = end
        done = begin[rids] + turn >= token[rids]
        if turn == _MOST_CHUNKS:
            parts[rids[~done], TTFT.unrecorded] += (last - end)[~done]
            rids, done = rids[done], done[done]
            last, end = stop[rids], cursor[rids]
        # The first token may leave only once its keys and values are on the engine that decodes.
        pull = np.where(pulled[rids] != UNKNOWN, np.clip(pulled[rids], end, last), last)
        back = np.where(pulled[rids] != UNKNOWN, np.clip(pull_end[rids], pull, last), last)
        waits = pull_end[rids] <= last + WHOLE_MS
        shipped = np.where((pulled[rids] != UNKNOWN) & waits, back - pull, 0)
        seat = np.where(waits, np.minimum(found.places.waits[rids], pull - end), 0)
        parts[rids[done], TTFT.transfer] += shipped[done]
        parts[rids[done], TTFT.queue_full] += seat[done]
        parts[rids[done], TTFT.output] += (last - end - shipped - seat)[done]
        rids, turn = rids[~done], turn + 1
    assert (parts.sum(axis=1)[known] == lat.ttft[known]).all()


def _first_schedule_waits(found: ServiceTimeline, engine: I64, low: I64, high: I64) -> I64:
    """The parts of waits for the first schedule: until the engine schedules, then by why it did not take the request.

    (waits, parts of TTFT).
    """
    steps, parts = found.steps, np.zeros((len(engine), len(TTFT)), np.int64)
    for number in np.unique(engine).tolist():
        mine, part = engine == number, steps.of(number)
        opened = steps.opened[part]
        a, b = low[mine], high[mine]
        following = np.searchsorted(opened, a)
        until = np.minimum(np.where(following < len(opened), opened[np.minimum(following, len(opened) - 1)], b), b)
        ends = np.append(a[:1], np.maximum.accumulate(steps.end[part]))[following]  # of the step that runs at a
        running = np.clip(np.where(following > 0, ends, a), a, until)
        rest = b - until
        waited = {TTFT.queue_step: running - a}
        for reason in (TTFT.queue_blocks, TTFT.queue_full):
            held = np.flatnonzero(found.queued[part] == reason)
            shut = np.append(opened[1:], opened[-1:])
            time = covered_within(opened[held], np.maximum(shut, opened)[held], until, b)
            waited[reason] = np.clip(time, 0, rest)
            rest = rest - waited[reason]
        still = np.append(found.paused[part] > 0, False)[following]
        waited[TTFT.bubble] = np.where(still, until - running, 0)
        waited[TTFT.queue_other] = rest + np.where(still, 0, until - running)
        for reason, time in waited.items():
            parts[mine, reason] = time
            found.waited[number, reason] += time.sum()
    return parts


def _between_schedules(found: ServiceTimeline, rids: I64, engine: I64, low: I64, high: I64) -> None:
    """Split a time between the schedules of a request: the engine works for others, or nothing runs."""
    parts, steps = found.latencies.ttft_parts, found.steps
    for number in np.unique(engine).tolist():
        mine, part = engine == number, steps.of(number)
        work = covered_within(steps.start[part], steps.end[part], low[mine], high[mine])
        work = np.clip(work, 0, high[mine] - low[mine])
        parts[rids[mine], TTFT.other] += work
        parts[rids[mine], TTFT.bubble] += high[mine] - low[mine] - work


def _split_tpot(found: ServiceTimeline, token: I64, last: I64, seen: Bools, prompt: Bools, decoding: I64) -> None:
    """Fill the parts of TPOT: a request takes part in all of a step that it is in, and is left out of the others.

    They are first those of the time ``decoding`` from the step of the first token to the last step.
    """
    steps, lat, parts = found.steps, found.latencies, found.latencies.tpot_parts
    rid, step = found.pair_rid, found.pair_step
    if not len(step):
        parts[:, TPOT.unrecorded] = np.where(lat.tpot != UNKNOWN, lat.tpot, 0)
        return
    extra = surcharges(steps, found.held[:, Cycle.forward])
    cycle = steps.cycle
    forward, idle = cycle[:, Cycle.forward] - extra, cycle[:, Cycle.bubble] + cycle[:, Cycle.idle]
    others = (cycle[:, place] for place in (Cycle.prepare, Cycle.sampling, Cycle.draft, Cycle.schedule))
    of_step = np.stack([forward, extra, *others, idle], axis=1)
    at = np.arange(len(rid))
    inside = (at > token[rid]) & (steps.engine[step] == lat.engine[rid]) & ~prompt
    own = slice(0, TPOT.bubble + 1)
    parts[:, own] = sums_by_group(of_step[step[inside]], rid[inside], len(seen))
    first, end = np.where(token >= 0, step[token], 0), step[np.where(seen, last, 0)]
    # Who decodes on another engine than that of the first token was not there before its first step.
    came = np.full(len(seen), len(steps))
    np.minimum.at(came, rid[inside], step[inside])
    moved = seen & (came < len(steps)) & (token >= 0) & (steps.engine[first] != steps.engine[end])
    came = np.minimum(came, len(steps) - 1)
    opened = steps.opened
    closed = np.where(steps.schedule == UNKNOWN, opened, steps.schedule_end)
    absent = np.maximum(idle - np.maximum(steps.start - closed, 0), 0)
    parts[moved, TPOT.bubble] -= absent[came[moved]]
    whole = cycle.sum(axis=1)
    carries = np.where((steps.prompts > 0) & (steps.work == Work.prefill), whole, 0)
    total = np.append(0, np.cumsum(carries))
    same = seen & (steps.engine[first] == steps.engine[end])
    present = summed(rid[inside], carries[step[inside]], len(seen))
    prompts = np.where(same, total[end + 1] - total[np.minimum(first, end) + 1] - present, 0)
    rest = np.where(seen & (lat.tpot != UNKNOWN), decoding - parts[:, own].sum(axis=1), 0)
    parts[:, TPOT.prompts] = np.clip(prompts, 0, np.maximum(rest, 0))
    rest -= parts[:, TPOT.prompts]
    pulled, pull_end = found.pulls
    moves = moved & (lat.tpot != UNKNOWN)
    entered, left = opened[came[moves]], steps.end[first[moves]]
    away = np.clip(entered - left, 0, np.maximum(rest[moves], 0))
    low = np.where(pulled[moves] == UNKNOWN, entered, pulled[moves])
    rest[moves] -= away
    given = np.maximum(left, np.where(lat.ttft == UNKNOWN, UNKNOWN, lat.start + lat.ttft)[moves])
    transfer = np.minimum(np.maximum(np.minimum(pull_end[moves], entered) - np.maximum(low, given), 0), away)
    parts[moves, TPOT.transfer], away = transfer, away - transfer
    pulled_at = np.clip(pull_end[moves], np.minimum(left, entered), entered)
    waits = _first_schedule_waits(found, lat.engine[moves], pulled_at, entered)
    # Who has no place on the other engine is not pulled there.
    seats, low = found.places.taken_first[lat.engine[moves]], np.clip(low, left, pulled_at)
    other = np.flatnonzero(~seats)
    waits[other] += _first_schedule_waits(
        found, lat.engine[moves][other], np.minimum(left, pulled_at)[other], low[other]
    )
    waits[seats, TTFT.queue_full] += found.places.waits[moves][seats]
    for part, reason in ((TPOT.queue_blocks, TTFT.queue_blocks), (TPOT.queue_full, TTFT.queue_full)):
        parts[moves, part] = waited = np.minimum(waits[:, reason], away)
        away -= waited
    parts[moves, TPOT.handover] = away
    parts[:, TPOT.preempted] = rest
    late = np.where(lat.tpot != UNKNOWN, lat.tpot - decoding, 0)
    # What went by before the first token left is taken off its steps, then off what lies between them.
    over = np.maximum(-late, 0)
    for columns in (own, slice(own.stop, None)):
        whole = parts[:, columns].sum(axis=1)
        left = np.maximum(whole - over, 0)
        kept = np.floor(parts[:, columns] * (left / np.maximum(whole, 1))[:, None]).astype(np.int64)
        kept[np.arange(len(kept)), kept.argmax(axis=1)] += left - kept.sum(axis=1)
        parts[:, columns], over = np.where((over > 0)[:, None], kept, parts[:, columns]), over - (whole - left)
    parts[:, TPOT.output] = np.maximum(late, 0)


def surcharges(steps: Steps, stuck: I64) -> I64:
    """What each step with prompts takes longer than the median one that decodes as many requests (by powers of two).

    What it was ``stuck`` for is no surcharge.
    """
    extra = np.zeros(len(steps), np.int64)
    decodes = np.where(steps.work == Work.decode, steps.size, steps.decoded)
    bucket = steps.engine * 64 + np.log2(np.maximum(decodes, 1)).astype(np.int64)
    for number in np.unique(bucket[steps.work == Work.mixed]).tolist():
        plain = np.flatnonzero((bucket == number) & (steps.work == Work.decode))
        mixed = np.flatnonzero((bucket == number) & (steps.work == Work.mixed))
        if len(plain) >= ENOUGH:
            usual = int(np.median(steps.forward[plain]))
            extra[mixed] = np.maximum(steps.forward[mixed] - stuck[mixed] - usual, 0)
    return extra


def aligned(steps: Steps, rid: I64, step: I64, begun: I64, ended: I64, pulled: I64, engines: int) -> I64:
    """Put the steps on the clock of the requests; (engines,) how much later they were.

    A request ends after its last step, and is neither ``pulled`` to an engine nor on it before it left another. Where
    most of an engine do not, its host has another clock, unless they would then be computed before they have ``begun``:
    those are computed on after their end.
    """
    ahead = np.zeros(engines, np.int64)
    if not len(rid):
        return ahead
    engine, final = steps.engine[step], np.append(np.diff(rid) != 0, True)
    first = np.append(True, final[:-1]) & (begun[rid] != UNKNOWN)
    final &= ended[rid] != UNKNOWN
    for number in np.unique(engine).tolist():
        mine = np.flatnonzero(final & (engine == number))
        comes = np.flatnonzero((np.diff(rid) == 0) & (engine[:-1] != number) & (engine[1:] == number))
        usual = int(np.median(steps.end[step[mine]] - ended[rid[mine]])) if len(mine) else 0
        there, pull = steps.opened[step[comes + 1]], pulled[rid[comes]]
        there = np.where(pull == UNKNOWN, there, np.minimum(there, pull))
        before = np.median(there - steps.end[step[comes]]) if len(comes) else 0
        waits = (steps.opened[step] - begun[rid])[first & (engine == number)]
        too_early = np.count_nonzero(waits < usual - WHOLE_MS) > NOTABLE * len(waits)
        if (usual > WHOLE_MS and not too_early) or (before < 0 and usual < -WHOLE_MS):
            ahead[number], part = usual, steps.of(number)
            for moments in (steps.start, steps.end, steps.schedule, steps.schedule_end):
                moments[part] -= np.where(moments[part] == UNKNOWN, 0, usual)
    return ahead


def pulls_of(service: Service) -> I64:
    """When the first pull of the KV blocks of each request began and the last one ended: (2, requests)."""
    pulls, found = service.transfers, np.full((2, len(service.rids)), UNKNOWN)
    usable = np.flatnonzero((pulls.rid >= 0) & (pulls.start != UNKNOWN) & (pulls.end != UNKNOWN))
    found[0, pulls.rid[usable][::-1]] = pulls.start[usable][::-1]
    np.maximum.at(found[1], pulls.rid[usable], pulls.end[usable])
    return found


def first_tokens(
    end: I64, engine: I64, prompt: Bools, goes_on: Bools, rid: I64, begin: I64, stop: I64, moment: I64
) -> tuple[I64, Bools]:
    """The pair of each request whose step gave its first token: the last one of its prompt, if that ended in time.

    For a request that goes to another engine, or whose prompt is computed again, it is the last one before ``moment``.
    The second array says whose batches contradict that moment: its prompt, which ``goes_on`` there, was not computed.
    """
    at = np.arange(len(rid))
    token = np.full(len(begin), -1)
    if not len(rid):
        return token, token >= 0
    decodes = np.where(~prompt, at, len(rid))
    first_decode = np.minimum.reduceat(np.append(decodes, len(rid)), np.minimum(begin, len(rid)))
    by_kind = np.clip(np.minimum(first_decode, stop) - 1, begin, None)
    early = end <= moment
    token[rid[early]] = at[early]  # ascending: the last one counts
    last = np.minimum(by_kind, len(rid) - 1)
    stays = (token >= 0) & prompt[last] & early[last] & (engine[last] == engine[token])
    none = token < 0
    token = np.where(none | stays, by_kind, token)
    following = np.minimum(token + 1, len(rid) - 1)
    unfinished = goes_on[following] & (rid[following] == rid[np.minimum(token, len(rid) - 1)])
    contradicted = (stop > begin) & np.where(none, prompt[last], unfinished)
    token = np.where(contradicted, by_kind, token)
    return np.where(stop > begin, token, -1), contradicted


def arrivals_of(
    service: Service, spans: EngineRanges, steps: Steps, step: I64, rid: I64, admitted: Bools, start: I64, queue: I64
) -> I64:
    """When each request came into the queue: its Enqueue, else the schedule it left the queue in less its wait."""
    arrival = np.full(len(start), UNKNOWN)
    at = np.flatnonzero(admitted)
    has = steps.schedule != UNKNOWN
    lasts = np.where(has, steps.schedule_end - steps.schedule, 0)[step[at]]
    # A request comes before the schedule that takes it out of the queue begins, so that its wait says when it is taken.
    waits = queue[rid[at]]
    told = (waits != UNKNOWN) & (lasts > 0)
    taken = float(np.clip(np.quantile(waits[told] / lasts[told], EVEN), 0, 1)) if told.any() else 1.0
    begun = np.where(has, steps.schedule, steps.start)[step[at]]
    came = np.where(waits == UNKNOWN, UNKNOWN, begun + (taken * lasts).astype(np.int64) - waits)
    first = np.full(len(start), UNKNOWN)
    first[rid[at][::-1]] = begun[::-1]
    # A wait lasts until the last admission, of the decode side too, unless requests would come after their first one.
    last = np.append(np.diff(rid[at]) != 0, True)[: len(at)]
    late = (came > first[rid[at]] + ROUNDING)[last & (came != UNKNOWN)]
    if len(late) and late.mean() > EVEN:
        at, came = at[::-1], came[::-1]
    arrival[rid[at]] = came
    named = [number for number, text in enumerate(service.texts) if text.lower() in ENQUEUES]
    rows = np.flatnonzero(np.isin(spans.name, named) & (spans.rid >= 0))[::-1]
    arrival[spans.rid[rows]] = spans.start[rows]
    return np.where((arrival == UNKNOWN) | (start == UNKNOWN), arrival, np.maximum(arrival, start))


def seated_in(rid: I64, step: I64, admitted: Bools, steps: int) -> I64:
    """How many requests have a place in each step: from the one that admits a request to its last one."""
    begins = step[admitted]
    ends = step[np.append(admitted[1:], True)[: len(rid)]] + 1
    return np.cumsum(np.bincount(begins, minlength=steps + 1) - np.bincount(ends, minlength=steps + 1))[:steps]
