"""The requests of an inference service and the steps of its engines: what is known of each, and its parts."""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar

import numpy as np
from msgspec import Struct

from npu_tui.analysis.service_steps import Cycle, Engine, Steps
from npu_tui.trace.arrays import F64, I64, U64, Bools
from npu_tui.trace.once import once
from npu_tui.trace.service import UNKNOWN, Service

Tokens = TypeVar("Tokens", I64, F64, float)

TTFT = IntEnum(
    "TTFT",
    "before frontend queue_step queue_blocks queue_full queue_other batching prepare prefill decode "
    "other bubble transfer sampling output unrecorded",
    start=0,
)
"""Parts of the time to first token, in the order in which a request passes them.

``before`` is frontend and queue where they cannot be separated. A request queues for the end of the running step, for
blocks of the KV cache, because the batch is full, or for another reason: there is room, or nothing runs. ``other`` is
work of the engine for others between two chunks of the prompt, ``prepare`` that of the host before a forward pass,
``decode`` the first step of a decode instance, ``unrecorded`` all of a request without a batch.
"""
TPOT = IntEnum(
    "TPOT",
    "forward surcharge prepare sampling draft schedule bubble prompts transfer queue_blocks queue_full handover "
    "preempted output unrecorded",
    start=0,
)
"""Parts of the time between the first and the last token.

``surcharge`` is what a step with prompts takes longer than one without. In ``prompts`` and ``preempted`` the request
was left out: because the engine computed prompts first, or because its blocks were taken away, recomputing included.
``transfer``, ``queue_blocks`` and ``queue_full`` (for blocks or a place of the engine that decodes), and ``handover``,
all else between it and the engine of the first token, are those of requests that go to another. ``output`` is how much
later than its step the last token left, beyond the delay of the first one; what lies before the first one left is in no
part. ``unrecorded`` is all of a request where no table has batches.
"""


class Room(Struct, frozen=True):
    """Blocks hold ``block`` tokens; a request holds ``spare`` more than it needs. Of the ``total`` of each engine,
    0 where it is unknown, ``margin`` stay free when a request is admitted, and for all that run those that ``ahead``
    tokens of their answers take. ``lost`` are the moments of each at which blocks turned out to be neither free nor of
    a request, and how many more. Where they are ``reserved`` a request has the spare ones for its answer, and takes no
    other ones until these are used up. It keeps its blocks for ``after`` ns once it has ended.
    """

    block: int
    spare: int
    total: tuple[int, ...]
    margin: tuple[int, ...]
    lost: tuple[tuple[tuple[int, int], ...], ...] = ()
    ahead: tuple[int, ...] = ()
    reserved: bool = False
    after: int = 0

    def blocks(self, tokens: Tokens) -> Tokens:
        """How many a request with a context of ``tokens`` holds."""
        return -(-tokens // self.block) + self.spare


class Latencies(Struct, eq=False):
    """The requests of a service by rid (a code of ``Service.rids``), (n,) each; ns, UNKNOWN if not recorded.

    ``ttft`` and ``tpot`` are the sums of the rows of ``ttft_parts`` (n, 16) and ``tpot_parts`` (n, 15): TPOT here is
    the time from the first to the last token, of ``tokens``, as they left the service, else as their steps ended.
    ``first``, ``token`` and ``last`` are the steps of the first schedule, of the first and of the last token (-1:
    none), ``engine`` that of the last one. It came to the engine at ``arrival``. ``prompt`` are tokens computed,
    ``turns`` steps after the first token. It took ``whole`` to its end. A request that is not ``complete`` has parts,
    but does not count in percentiles. The first token of one that is not ``streamed`` left with the last one: its
    ``ttft`` lasts until the step that gave it. A request is ``contradicted`` if its first token would have left before
    its prompt was computed: its ``ttft`` is unknown.
    """

    start: I64
    arrival: I64
    ttft: I64
    tpot: I64
    tokens: I64
    prompt: I64
    turns: I64
    first: I64
    token: I64
    last: I64
    engine: I64
    ttft_parts: I64
    tpot_parts: I64
    complete: Bools
    whole: I64
    streamed: Bools
    contradicted: Bools

    @property
    def answered(self) -> I64:
        """The requests whose time to first token is known."""
        return np.flatnonzero(self.complete & (self.ttft != UNKNOWN))

    @property
    def decoded(self) -> I64:
        """The requests of two tokens or more, all of which were recorded."""
        return np.flatnonzero(self.complete & (self.tpot != UNKNOWN) & (self.tokens > 1))

    @property
    def metrics(self) -> tuple[Metric, Metric]:
        """TTFT and TPOT."""
        answered, decoded = self.answered, self.decoded
        return (
            Metric("ttft", [*TTFT.__members__], answered, self.ttft_parts[answered], np.ones(len(answered), np.int64)),
            Metric("tpot", [*TPOT.__members__], decoded, self.tpot_parts[decoded], self.tokens[decoded] - 1),
        )

    @property
    def end_to_end(self) -> Metric:
        """From the request to its end."""
        rids = np.flatnonzero(self.complete & (self.whole != UNKNOWN))
        return Metric("e2e", [], rids, self.whole[rids][:, None], np.ones(len(rids), np.int64))


class Metric(Struct, frozen=True):
    """TTFT or TPOT of its requests ``rids``, (n,) each: ``weight`` is 1, or how many tokens follow the first one.

    ``parts`` (n, k) are ns by ``names``; over the weight they add up to the latency.
    """

    name: str
    names: list[str]
    rids: I64
    parts: I64
    weight: I64

    @property
    def values(self) -> F64:
        """The latencies, ns."""
        values: F64 = self.parts.sum(axis=1) / self.weight
        return values

    def part(self, *parts: int) -> I64:
        """What each request spent in parts, ns."""
        time: I64 = self.parts[:, parts].sum(axis=1)
        return time

    def share(self, *parts: int) -> tuple[float, float]:
        """The share of parts, as ``shares``."""
        return self.shares(self.part(*parts))

    def shares(self, time: I64) -> tuple[float, float]:
        """The share of ``time`` (n,): of all requests, and of the slowest tenth."""
        slow = np.argsort(self.values, kind="stable")[-max(len(self.rids) // 10, 1) :]
        whole = self.parts.sum(axis=1)
        every, tail = (float(time[of].sum() / max(whole[of].sum(), 1)) for of in (slice(None), slow))
        return every, tail


class Stalls(Struct, frozen=True):
    """What held engines up in a ``part`` of the cycle of ``step``: for ``lasting`` ns until the ``end`` of that part.

    One of each part of a step at the most.
    """

    step: I64
    part: I64
    lasting: I64
    end: I64

    @classmethod
    def of(cls, steps: Steps, held: I64) -> Stalls:
        """Those of which parts of cycles were ``held`` up (steps, 7)."""
        step, part = np.nonzero(held)
        lasting, start, cycle = held[step, part], steps.start[step], steps.cycle[step]
        passed = start + cycle[:, Cycle.prepare]
        ends = {
            Cycle.schedule: steps.schedule_end[step], Cycle.prepare: passed,
            Cycle.forward: passed + cycle[:, Cycle.forward], Cycle.sampling: steps.end[step] - cycle[:, Cycle.draft],
            # A pause is before a step, be it before or after its schedule.
            Cycle.bubble: np.where(start - steps.opened[step] > lasting, start, steps.opened[step]),
        }  # fmt: skip
        end = np.select([part == one for one in ends], [*ends.values()], steps.end[step])
        return cls(step, part, lasting, end)

    @property
    def begin(self) -> I64:
        """(n,), ns."""
        begin: I64 = self.end - self.lasting
        return begin

    @property
    def within(self) -> Bools:
        """Which are within a step, not before it."""
        within: Bools = self.part != Cycle.bubble
        return within


class Places(Struct, frozen=True, eq=False):
    """Each engine (engines,) has ``most`` places, 0 where pulls wait for none; ``waits`` (requests,) for one, ns."""

    most: I64
    waits: I64

    @property
    def taken_first(self) -> Bools:
        """Which engines pull for who has a place there alone."""
        return self.most > 0


class ServiceTimeline(Struct, dict=True, eq=False):
    """A service as engines, their steps and the requests; ``pairs`` say which request was in which step, by request.

    ``keys`` (batches,) are the same for the same requests at the same turn, ``outer`` (batches,) is the execution that
    another one of the same requests is a part of, else -1. Its context begins anew where it is ``pair_admitted``: at
    first, on another engine, after a preemption. It comes to an engine with the pairs ``entries``, at the moments
    ``came``. ``pulls`` (2, requests) is when the first pull of its KV blocks began and the last one ended. The clock of
    each engine was ``ahead`` of that of the requests by so many ns, behind it below 0; all moments here are on that of
    the requests. ``queued`` (steps,) is why the first request that waits after a step was not scheduled in it, an index
    of ``TTFT``; ``waited`` (engines, parts of TTFT) is how long requests waited for an engine, by reason. ``seated``
    (steps,) requests have a place in the batch: those that a step leaves out, as it computes prompts first, have theirs
    too. By what is ``held`` (steps, 7) of a cycle its parts took longer than their work costs, or than others, because
    something stopped them. Where it is ``pair_swapped``, other requests were served in steps before, and the context is
    there again without being computed. ``places`` are those of engines that pull only for requests
    that have one.
    """

    service: Service
    keys: U64
    outer: I64
    engines: list[Engine]
    steps: Steps
    latencies: Latencies
    pair_rid: I64
    pair_step: I64
    pair_tokens: I64
    pair_prompt: Bools
    pair_admitted: Bools
    pair_swapped: Bools
    entries: I64
    came: I64
    queued: I64
    waited: I64
    seated: I64
    pulls: I64
    ahead: I64
    held: I64
    places: Places
    room: Room = Room(0, 0, (), ())

    @property
    def serves(self) -> Bools:
        """Whether each engine gives tokens."""
        return np.array([not engine.prefills for engine in self.engines], np.bool_)

    @property
    def paused(self) -> I64:
        """For how much longer than usual nothing ran before each step, though requests were under way."""
        return self.held[:, Cycle.bubble]

    @property
    def stuck(self) -> I64:
        """How much longer each step took, from its schedule on."""
        stuck: I64 = self.held.sum(axis=1) - self.paused
        return stuck

    @property
    def stalls(self) -> Stalls:
        """What held engines up though they had requests."""
        return Stalls.of(self.steps, self.held)

    @once
    def overtaken(self) -> I64:
        """How long each request (requests,) still waited for its engine after one that came later was taken, ns."""
        waited, entries = np.zeros(len(self.latencies.start), np.int64), self.entries
        taken, rids = self.steps.opened[self.pair_step[entries]], self.pair_rid[entries]
        for number in range(len(self.engines)):
            mine = np.flatnonzero(self.steps.engine[self.pair_step[entries]] == number)
            mine = mine[np.argsort(self.came[mine], kind="stable")]
            earliest = np.minimum.accumulate(taken[mine][::-1])[::-1]
            waited[rids[mine]] += taken[mine] - earliest
        return waited

    @property
    def serving(self) -> I64:
        """The steps with requests of engines that give tokens."""
        return np.flatnonzero(self.serves[self.steps.engine] & (self.steps.size > 0))
