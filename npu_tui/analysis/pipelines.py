"""What a pipeline makes its stages wait for anyway: filling and draining, and what is left for a slow stage.

A step of ``S`` even stages and ``M`` micro batches takes ``M + S - 1`` passes: each stage waits for ``S - 1`` of them,
while the first pass comes down to it and while the last gradients go up from it. More micro batches or interleaved
stages shrink that share, no rank in time does. What a stage waits beyond it, pass after pass, is due to a slow one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median

import numpy as np
from msgspec import Struct

from npu_tui.analysis.collectives import Collective, Collectives
from npu_tui.trace.model import Trace

_FEWEST_PASSES = 3
"""Receives per step that show a rhythm: the first one, and two more."""
_LONGER = 1.25
"""How much longer than one of this stage a pass of another one may take while the pipeline fills or drains."""
_OF_A_MESSAGE = 1.5
"""Even stages wait for each other for about as many times as long as a message takes."""
_LEAST = 0.25
"""Of the waits in its rhythm the one that a pass which fills or drains the pipeline holds as well."""
_UNSEEN = 0.5
"""Share of what a slow stage costs that may be hidden in filling and draining; with more nobody is known to be late."""
_JITTER = 0.75
"""Even stages whose passes differ take longer by up to this share of how much passes differ."""
_HIDDEN = 1 / 3
"""Share of a pass before the first stage has anything to send."""


class _Event(Struct, frozen=True):
    """A receive, a send or another collective; times in ns, ``wait`` until the last of ``places`` had come.

    ``place`` is that of this rank; ``peer`` is whom a message goes to or comes from.
    """

    item: int
    lane: int
    kind: str
    start: int
    end: int
    wait: int
    place: int
    peer: int
    places: frozenset[int]


def pipeline_fills(trace: Trace, collectives: Collectives, steps: int) -> dict[int, int]:
    """How long receives, and the collective that closes a step, wait while the pipeline fills and drains.

    A dict from slice to ns, less what is left for a slow stage. Only where each of ``steps`` steps receives equally
    often, and often enough to show a rhythm.
    """
    fills: dict[int, int] = {}
    for messages, closing, stages in _by_step(trace, collectives, steps):
        # A group of two has the places 0 and 1; others are those of the stages.
        place = messages[0].place if messages[0].place >= 0 and (stages or max(messages[0].places) > 1) else None
        passes = [message for message in messages if message.kind == "receive"]
        every = [*passes, closing] if closing is not None else passes
        begin, end = messages[0].start, max(event.end for event in every)
        micro = max(Counter(event.lane for event in passes).values())
        moving = median(event.end - event.start - event.wait for event in passes)
        working = end - begin - sum(event.end - event.start for event in every)
        first_stage = messages[0].kind == "send"
        work = max(working, 0) / (micro - _HIDDEN if first_stage else micro)
        late = _slack(messages, work, moving, place, stages)
        if closing is not None:
            # The last gradients go up through the stages before this one, which take as long for them as it did.
            last = closing.start - passes[-1].end + moving
            late[closing.item] = max(closing.wait - messages[0].place * last * _LONGER, 0.0)
        if stages and (total := sum(late.values())):
            # As long as an even pipeline would take, nobody is late in this one.
            even = (micro + stages - 1) * (work + (2 if stages > 2 else 1) * moving)
            left = max(end - begin + (work * _HIDDEN if first_stage else 0) - even, 0)
            if left < _JITTER * _spread(every) * even:
                left = 0.0
            beyond, idle = left - total, sum(event.wait for event in every) - total
            if beyond <= 0:
                late = {item: time * left / total for item, time in late.items()}
            elif beyond <= _UNSEEN * left and idle > 0:
                # A stage far away holds up fills and drains too, where its waits look like those of even stages.
                for event in sorted(every, key=lambda event: late[event.item] - event.wait):
                    more = min(beyond, event.wait - late[event.item])
                    late[event.item] += more
                    beyond -= more
        fills |= {event.item: event.wait - round(late[event.item]) for event in every}
    return {item: time for item, time in fills.items() if time > 0}


def _spread(every: Sequence[_Event]) -> float:
    """The standard deviation of what this stage works after its receives of a lane, as a share of the mean."""
    work: dict[int, list[int]] = {}
    order = sorted(every, key=lambda event: event.start)
    for event, after in pairwise(order):
        if event.kind == "receive":
            work.setdefault(event.lane, []).append(after.start - event.end)
    spread = [float(np.std(times)) / max(float(np.mean(times)), 1.0) for times in work.values() if len(times) > 1]
    return median(spread) if spread else 0.0


def _slack(messages: Sequence[_Event], work: float, moving: float, place: int | None, stages: int) -> dict[int, float]:
    """What each receive waits beyond the rhythm of even stages, ns by slice.

    Where stages take turns with forward and backward passes, something is sent to a stage between two receives from it.
    The wait of such a pass is slack; others fill or drain the pipeline and hold no more of it. ``moving`` is what a
    message takes: even stages wait for one now and then.
    """
    usual = _OF_A_MESSAGE * moving
    late: dict[int, float] = {}
    for lane in {message.lane: None for message in messages if message.kind == "receive"}:
        passes = [message for message in messages if message.kind == "receive" and message.lane == lane]
        sent = [m.start for m in messages if m.kind == "send" and m.peer == passes[0].peer]
        turns = [
            event for before, event in pairwise(passes) if any(before.start < time <= event.start for time in sent)
        ] or passes[1:]
        rhythm = float(np.quantile([event.wait for event in turns], _LEAST)) if turns else 0.0
        steady = {event.item for event in turns}
        for number, event in enumerate(passes):
            wait = event.wait if event.item in steady else min(event.wait, rhythm)
            slack = max(wait - usual, 0.0)
            above = place is not None and event.peer > place
            if event.item not in steady and place is not None and (stages or number or not above):
                between = 1 if number else stages - 1 - place if above else place
                # Whoever takes longer than the passes between take of this stage is late itself.
                slack = max(slack, event.wait - between * (work + usual) * (_LONGER if number else 1.0))
            late[event.item] = slack
    return late


def _by_step(trace: Trace, collectives: Collectives, steps: int) -> Iterator[tuple[list[_Event], _Event | None, int]]:
    """The messages of each step by start, the collective of all stages that closes it, and how many stages there are.

    The number is 0 where no collective of more than two ranks has both this one and those that it exchanges with.
    """
    kinds = [_kind_of(kind) for kind in collectives.types]
    chosen = np.flatnonzero(collectives.has_arrivals)
    if not steps or "receive" not in kinds:
        return
    types = collectives.type[chosen].tolist()
    events = [_event(trace, row, kinds[kind]) for kind, row in zip(types, collectives.at(chosen), strict=True)]
    messages = [event for event in events if event.kind != "other"]
    of_step: list[list[_Event]] = [[] for _ in range(steps)]
    most = 0
    for lane, kind in {(message.lane, message.kind): None for message in messages}:
        same = [message for message in messages if (message.lane, message.kind) == (lane, kind)]
        if len(same) % steps:
            return
        count = len(same) // steps
        most = max(most, count if kind == "receive" else 0)
        for number, message in enumerate(same):
            of_step[number // count].append(message)
    if most < _FEWEST_PASSES:
        return
    peers = {message.peer for message in messages} | {message.place for message in messages}
    shared = [event for event in events if event.kind == "other" and len(event.places) > 2 and peers <= event.places]
    if len({message.place for message in messages}) > 1:
        shared = []  # places within groups of two
    stages = max((max(event.places) + 1 for event in shared), default=0)
    begins = [min(message.start for message in step) for step in of_step]
    for step, until in zip(of_step, [*begins[1:], trace.end + 1], strict=True):
        step.sort(key=lambda message: (message.start, message.item))
        received = max(message.end for message in step if message.kind == "receive")
        closing = next((event for event in shared if received <= event.start < until), None)
        yield step, closing, stages


def _event(trace: Trace, row: Collective, kind: str) -> _Event:
    arrivals = row.arrivals or []
    start = int(trace.slices.start[row.item])
    places = frozenset(place for place, _ in arrivals)
    peer = -1 if row.peer is None else row.peer
    own = next((place for place, after in arrivals if not after and place != peer), -1)
    wait = min(max(after for _, after in arrivals), row.elapsed)
    return _Event(row.item, int(trace.slices.lane[row.item]), kind, start, start + row.elapsed, wait, own, peer, places)


def _kind_of(kind: str) -> str:
    kind = kind.lower()
    sends, receives = "send" in kind, "receive" in kind or "recv" in kind
    return "other" if sends == receives else "send" if sends else "receive"  # batchSendRecv is a meeting of both
