"""When requests of an inference service come, get their first token and have a place, on one clock."""

from __future__ import annotations

import numpy as np

from npu_tui.analysis.limits import EVEN
from npu_tui.analysis.service_steps import ROUNDING, Steps
from npu_tui.trace.arrays import I64, Bools
from npu_tui.trace.service import ENQUEUES, UNKNOWN, WHOLE_MS, EngineRanges, Service


def aligned(steps: Steps, rid: I64, step: I64, ended: I64, pulled: I64, engines: int) -> I64:
    """Put the steps on the clock of the requests; (engines,) by how much they were later.

    A request ends after its last step, and is neither ``pulled`` to an engine nor on it before it left another. Where
    most of an engine do not, its host has another clock.
    """
    ahead = np.zeros(engines, np.int64)
    if not len(rid):
        return ahead
    engine, final = steps.engine[step], np.append(np.diff(rid) != 0, True)
    final &= ended[rid] != UNKNOWN
    for number in np.unique(engine).tolist():
        mine = np.flatnonzero(final & (engine == number))
        comes = np.flatnonzero((np.diff(rid) == 0) & (engine[:-1] != number) & (engine[1:] == number))
        usual = int(np.median(steps.end[step[mine]] - ended[rid[mine]])) if len(mine) else 0
        there, pull = steps.opened[step[comes + 1]], pulled[rid[comes]]
        there = np.where(pull == UNKNOWN, there, np.minimum(there, pull))
        before = np.median(there - steps.end[step[comes]]) if len(comes) else 0
        if usual > WHOLE_MS or (before < 0 and usual < -WHOLE_MS):
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

    Of a request that goes to another engine, or whose prompt is computed again, it is the last one before ``moment``.
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
