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
from npu_tui.analysis.graph import BACKWARD, FORWARD, plan_with
from npu_tui.analysis.limits import GRID_NS, SIGMAS, SOME
from npu_tui.trace.model import Trace

_OF_A_MESSAGE = 1.5  # even stages wait for each other for about as many times as long as a message takes
_AHEAD = 1 / 3  # share of both passes of a micro batch that the forward one takes, where they are not seen apart
_DRAWS = 16  # how often the step of even stages is played, each time with other passes of this one


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


_Step = tuple[list[_Event], _Event | None, int]
"""The messages of a step by start, the collective that closes it, and how many stages there are, 0: unknown."""


def pipeline_fills(trace: Trace, collectives: Collectives, steps: int) -> dict[int, int]:
    """How long receives, and the collective that closes a step, wait while the pipeline fills and drains.

    A dict from slice to ns, less what is left for a slow stage. Only where each of ``steps`` steps receives equally
    often, and often enough to show a rhythm.
    """
    fills: dict[int, int] = {}
    found = list(_by_step(trace, collectives, steps))
    even = _even(found)
    for messages, closing, stages in found:
        # A group of two has the places 0 and 1; others are those of the stages.
        place = messages[0].place if messages[0].place >= 0 and (stages or max(messages[0].places) > 1) else None
        passes = [message for message in messages if message.kind == "receive"]
        every = [*passes, closing] if closing is not None else passes
        begin, end = messages[0].start, max(event.end for event in every)
        micro = max(Counter(event.lane for event in passes).values())
        moving = median(event.end - event.start - event.wait for event in passes)
        working = end - begin - sum(event.end - event.start for event in every)
        first_stage = place == 0 or messages[0].kind == "send"
        work = max(working, 0) / (micro - _AHEAD if first_stage else micro)
        late = _slack(messages, work, moving, place, stages)
        if closing is not None:
            # The last gradients go up through the stages before this one, which take as long for them as it did.
            last = closing.start - passes[-1].end + moving
            late[closing.item] = max(closing.wait - messages[0].place * last, 0.0)
        if even is not None and (total := sum(late.values())):
            # As long as an even pipeline would take, nobody is late in this one. A stage far away holds up fills and
            # drains too, where its waits look like those of even stages.
            left = even.less(_step_length(messages, closing))
            late = {item: time * min(left / total, 1.0) for item, time in late.items()}
            more = max(left - total, 0.0)
            for event in sorted(every, key=lambda event: late[event.item] - event.wait):
                late[event.item] += (beyond := min(more, max(event.wait - late[event.item], 0.0)))
                more -= beyond
        fills |= {event.item: event.wait - round(late[event.item]) for event in every}
    return {item: time for item, time in fills.items() if time > 0}


class _Even(Struct, frozen=True):
    """How long a step takes if all stages work as this one does, ns, and how far that varies."""

    length: float
    spread: float

    def less(self, length: int) -> float:
        """What a step that takes ``length`` takes longer, 0 where that is chance."""
        more = length - self.length
        return more if more > SIGMAS * self.spread else 0.0


def _even(steps: Sequence[_Step]) -> _Even | None:
    """The step of even stages: its schedule played with passes drawn from those of this stage, as long as usual ones.

    None where the number of stages is not known, or no schedule has the passes of this stage in their order. Drawn
    passes are a guess that no file confirms; with mean ones, simulated stages of uneven passes (tests/pipelines.py)
    would seem to be late.
    """
    times: tuple[list[float], list[float]] = ([], [])
    plans = []
    for messages, closing, stages in steps:
        place = messages[0].place
        passes = _passes_between_messages(messages, closing, place, stages) if 0 <= place < stages else None
        letters = "".join("FB"[kind] for kind, _ in passes or ())
        plan = None if passes is None else plan_with([letters if at == place else "" for at in range(stages)])
        if passes is None or plan is None:
            return None
        plans.append(plan)
        for kind, length in passes:
            if length is not None:
                times[kind].append(length)
    if not plans or not all(times):
        return None
    plan, draws = plans[0], np.random.default_rng(0)
    messages, closing, _ = steps[0]
    place = messages[0].place
    receives = [message for messages, _, _ in steps for message in messages if message.kind == "receive"]
    # Between the stages a message takes the median of the transfers that are recorded here.
    moving = median(each.end - each.start - each.wait for each in receives)
    moved = np.zeros((1, 2, len(plan.kind)))
    moved[:, 1, (plan.needs >= 0) & (plan.stage[plan.needs] != plan.stage)] = moving
    time = np.zeros((_DRAWS, len(plan.kind)))
    for kind in (FORWARD, BACKWARD):
        chosen = plan.kind == kind
        time[:, chosen] = draws.choice(times[kind], (_DRAWS, int(chosen.sum())))
    own = np.flatnonzero(plan.stage == place)
    ends = plan.ends(time, np.broadcast_to(moved, (_DRAWS, *moved.shape[1:])))
    until = ends.max(axis=1) if closing is not None else ends[:, own[-1]]
    # A last receive begins a pass that no message ends: the recorded step is without it, so this one is, too.
    if closing is None and messages[-1].kind == "receive":
        until = until - time[:, own[-1]]
    if not place:
        until = until - ends[:, own[0]]
    return _Even(float(until.mean()), float(until.std()))


def _step_length(messages: Sequence[_Event], closing: _Event | None) -> int:
    """From the first message of a step until the last stage is done, as far as this one sees it, ns."""
    if closing is not None:
        return closing.start + closing.wait - messages[0].start
    last = messages[-1]
    return (last.end if last.kind == "receive" else last.start) - messages[0].start


def _passes_between_messages(
    messages: Sequence[_Event], closing: _Event | None, place: int, stages: int
) -> list[tuple[int, float | None]] | None:
    """The passes of this stage in their order: their kind, and how long each took, None where that is not seen.

    A forward pass begins with what the stage before sent, on the first stage it ends with what is sent on; a backward
    pass begins with what the next stage sent, on the last stage it ends with what is sent back.
    """
    ahead, behind = (place - 1) % stages, (place + 1) % stages
    marks = {
        ("receive", ahead) if place else ("send", behind): FORWARD,
        ("receive", behind) if place < stages - 1 else ("send", ahead): BACKWARD,
    }
    # With two stages the one before is also the next one, and messages do not show which way they go.
    if ahead == behind and len(marks) < 2:
        return None
    borders = sorted({each.start for each in messages} | ({closing.start} if closing is not None else set()))
    begins = sorted({*borders, *(each.end for each in messages if each.kind == "receive")})
    passes: list[tuple[int, int, int, int]] = []
    for each in messages:
        kind = marks.get((each.kind, each.peer))
        if kind is None:
            continue
        if each.kind == "receive":
            low, high = each.end, next((time for time in borders if time > each.end), -1)
        else:
            low, high = next((time for time in reversed(begins) if time < each.start - GRID_NS), -1), each.start
        passes.append((high if each.kind == "send" else low, kind, low, high))
    passes.sort()
    # Two passes with one begin follow each other unseen: the time is shared in the usual ratio of their work.
    shared = Counter(low for _, _, low, _ in passes)
    parts = {FORWARD: _AHEAD, BACKWARD: 1 - _AHEAD}
    return [
        (kind, (high - low) * (parts[kind] if shared[low] > 1 else 1.0) if min(low, high) >= 0 else None)
        for _, kind, low, high in passes
    ]


def _slack(messages: Sequence[_Event], work: float, moving: float, place: int | None, stages: int) -> dict[int, float]:
    """What each receive waits beyond the rhythm of even stages, ns by slice.

    Where stages take turns with forward and backward passes, something is sent to a stage between two receives from it.
    The wait of such a pass is slack; others fill or drain the pipeline and hold no more of it. ``work`` is what both
    passes of a micro batch take here, and ``moving`` a message: even stages wait for one now and then.

    A guess that no file confirms: simulated pipelines of two stages, or of one pass, need it, as their schedule is
    unknown.
    """
    usual = _OF_A_MESSAGE * moving
    late: dict[int, float] = {}
    for lane in {message.lane: None for message in messages if message.kind == "receive"}:
        passes = [message for message in messages if message.kind == "receive" and message.lane == lane]
        sent = [m.start for m in messages if m.kind == "send" and m.peer == passes[0].peer]
        turns = [
            event for before, event in pairwise(passes) if any(before.start < time <= event.start for time in sent)
        ] or passes[1:]
        rhythm = min((event.wait for event in turns), default=0)
        steady = {event.item for event in turns}
        for number, event in enumerate(passes):
            wait = event.wait if event.item in steady else min(event.wait, rhythm)
            slack = max(wait - usual, 0.0)
            above = place is not None and event.peer > place
            if event.item not in steady and place is not None and (stages or number or not above):
                between = 1 if number else stages - 1 - place if above else place
                # A stage that takes longer than the passes between take on this stage is late itself.
                slack = max(slack, event.wait - between * (work + usual))
            late[event.item] = slack
    return late


def _by_step(trace: Trace, collectives: Collectives, steps: int) -> Iterator[_Step]:
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
    peers = {message.peer for message in messages} | {message.place for message in messages}
    shared = [event for event in events if event.kind == "other" and len(event.places) > 2 and peers <= event.places]
    if len({message.place for message in messages}) > 1:
        shared = []  # places within groups of two
    stages = max((max(event.places) + 1 for event in shared), default=0)
    if most < SOME and not stages:
        return
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
