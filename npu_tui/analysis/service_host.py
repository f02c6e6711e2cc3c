"""What the host of a service does within its steps, the cycle without it, and what slows all that it does."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.limits import HALF, NAMED, NOTABLE, SOME, UNSEEN
from npu_tui.analysis.service_cost import FEWEST, combined
from npu_tui.analysis.service_model import ServiceModel
from npu_tui.analysis.service_steps import Cycle, Steps, processes_of
from npu_tui.analysis.service_timeline import ServiceTimeline
from npu_tui.trace.args import column_of
from npu_tui.trace.arrays import F64, I64, Bools
from npu_tui.trace.intervals import covered_within, union
from npu_tui.trace.service import COMMON_ARGS, DISPATCHERS, EAGER, IDENTITIES, UNKNOWN, Service


def parts_of(steps: Steps) -> dict[Cycle, tuple[I64, I64]]:
    """When each part of the cycle of each step begins and ends, ns.

    Bubbles lie before the schedule, the first ones, and between it and the pass.
    """
    cycle = steps.cycle
    closed = np.where(steps.schedule == UNKNOWN, steps.opened, steps.schedule_end)
    passed = steps.start + cycle[:, Cycle.prepare]
    ended = passed + cycle[:, Cycle.forward]
    before = np.maximum(cycle[:, Cycle.bubble] - np.maximum(steps.start - closed, 0), 0)
    return {
        Cycle.schedule: (steps.opened, steps.opened + cycle[:, Cycle.schedule]),
        Cycle.prepare: (steps.start, passed),
        Cycle.forward: (passed, ended),
        Cycle.sampling: (ended, ended + cycle[:, Cycle.sampling]),
        Cycle.bubble: (
            np.append(steps.opened - before, np.minimum(closed, steps.start)),
            np.append(steps.opened, steps.start),
        ),
    }


def within(found: ServiceTimeline, begin: I64, end: I64, *parts: Cycle) -> I64:
    """How much of ``parts`` of each cycle the ranges ``begin`` to ``end`` cover, ns; (steps, 7)."""
    covered = np.zeros_like(found.steps.cycle)
    where = parts_of(found.steps)
    for part in parts:
        covered[:, part] = covered_within(begin, end, *where[part]).reshape(-1, len(covered)).sum(axis=0)
    return covered


class Named(Struct, frozen=True, eq=False):
    """The ranges with the code ``name``: their ``rows``, and the ``time`` (ns) that they add to what shorter ones take.

    ``share`` is that of the stretch in which they were looked for.
    """

    name: int
    rows: I64
    time: int
    share: float


def named_in(found: ServiceTimeline, low: I64, high: I64, least: int = 1) -> list[Named]:
    """What most of the times ``low`` to ``high`` lie in by the names of ranges of engines, the longest first.

    Ranges are at least as long as ``least``, passes do not count; they lie in those times and little elsewhere. A range
    counts by what lies in none of a shorter kind. Empty where half of the times have no name.
    """
    spans, whole = found.service.spans, max(int((high - low).sum()), 1)
    a_pass = np.isin(spans.name, found.service.batches.name)
    rows = np.flatnonzero(~a_pass & (spans.end - spans.start >= max(least, 1)))
    if a_pass.any():  # other processes work meanwhile
        rows = rows[np.isin(spans.process[rows], np.unique(spans.process[a_pass]))]
    kinds = [rows[spans.name[rows] == code] for code in np.unique(spans.name[rows]).tolist()]
    kinds.sort(key=lambda mine: float((spans.end - spans.start)[mine].mean()))
    begin, end, before, told = np.zeros(0, np.int64), np.zeros(0, np.int64), 0, list[Named]()
    for mine in kinds:
        own_begin, own_end = union(spans.start[mine], spans.end[mine])
        inside = int(covered_within(own_begin, own_end, low, high).sum())
        if not inside or (own_end - own_begin).sum() > 2 * inside:
            continue
        begin, end = union(np.append(begin, own_begin), np.append(end, own_end))
        after = int(covered_within(begin, end, low, high).sum())
        told.append(Named(int(spans.name[mine[0]]), mine, after - before, (after - before) / whole))
        before = after
    told.sort(key=lambda one: -one.time)
    told = [one for one in told if one.time >= HALF * told[0].time][:NAMED]
    return told if sum(one.share for one in told) >= HALF else []


def of_range(found: ServiceTimeline, names: int | list[int], *parts: Cycle) -> I64:
    """How much of ``parts`` of each cycle the ranges called ``names`` of the same engine cover, ns; (steps, 7)."""
    return of_rows(found, np.flatnonzero(np.isin(found.service.spans.name, names)), *parts)


def of_rows(found: ServiceTimeline, chosen: I64, *parts: Cycle) -> I64:
    """How much of ``parts`` of each cycle the ranges ``chosen`` of the same engine cover, ns; (steps, 7)."""
    service, steps = found.service, found.steps
    codes = {text: code for code, text in enumerate(service.texts)}
    process = processes_of(service, chosen)
    time = np.zeros_like(steps.cycle)
    for number, engine in enumerate(found.engines):
        mine = chosen
        if len(found.engines) > 1:
            mine = chosen[np.isin(process, [codes[one] for one in engine.processes])]
        begin, end = union(service.spans.start[mine], service.spans.end[mine])
        here = steps.of(number)
        time[here] = within(found, begin, end, *parts)[here]
    return time


def said_of(service: Service, rows: I64) -> dict[str, list[Any]]:
    """What is said of the ranges ``rows`` of one kind beside metrics, by the name of the arg; None where it is not."""
    some = rows[np.unique(np.linspace(0, len(rows) - 1, _LOOKED_AT).astype(np.int64))] if len(rows) else rows
    every = {str(key) for event in service.spans.event[some].tolist() for key in service.args.one(event)}
    keys = sorted(key for key in every - COMMON_ARGS if not (key[-1:] in ("=", "+") or key.startswith("scope#")))
    return dict(zip(keys, service.args.many(service.spans.event[rows], keys), strict=True)) if keys else {}


_LOOKED_AT = 5  # ranges of a kind that show what is said of it


class Again(Struct, frozen=True, eq=False):
    """Of ranges those ``rows`` are about what earlier ones of their process had, by the arg ``key``; of ``distinct``.

    ``others`` are those that are not.
    """

    key: str
    rows: I64
    others: I64
    distinct: int


def again_of(found: ServiceTimeline, rows: I64) -> Again | None:
    """Which of the ranges ``rows`` of one kind, by start, do what was done before and take as long; None if few do."""
    spans = found.service.spans
    lasting = (spans.end - spans.start)[rows]
    for key, values in said_of(found.service, rows).items():
        if (_WORD.findall(key) or [""])[-1].lower() not in IDENTITIES:
            continue
        seen, before = set[tuple[int, str]](), np.zeros(len(rows), np.bool_)
        for at, (process, value) in enumerate(zip(spans.process[rows].tolist(), values, strict=True)):
            each = {(process, str(one)) for one in (value if isinstance(value, list) else [value])}
            before[at] = bool(each) and value is not None and each <= seen
            seen |= each if value is not None else set()
        if not before.any() or before.all():
            continue
        # What is still there costs no more than to look for it.
        before &= lasting >= HALF * np.median(lasting[~before])
        if before.sum() >= SOME:
            return Again(key, rows[before], rows[~before], len({value for _, value in seen}))
    return None


def differs_in(found: ServiceTimeline, rows: I64) -> tuple[str, list[Any]] | None:
    """In which arg each of the ranges ``rows`` of one kind differs from all others, and its values; None if in none."""
    for key, values in said_of(found.service, rows).items() if len(rows) > 1 else ():
        if None not in values and len({str(value) for value in values}) == len(values):
            return key, values
    return None


_WORD = re.compile("[A-Z]?[a-z]+|[A-Z]+")


GRAPH_PASS, EAGER_PASS = 0, 1
"""How a pass runs: as a graph that was captured, or launched by the host kernel by kernel."""


def modes_of(found: ServiceTimeline) -> I64:
    """How each pass runs by the range that chooses its graph, ``UNKNOWN`` where there is none; (steps,)."""
    spans, texts, steps = found.service.spans, found.service.texts, found.steps
    names = [code for code, text in enumerate(texts) if text.lower() in DISPATCHERS]
    chosen = np.flatnonzero(np.isin(spans.name, names))
    told = found.service.args.columns(spans.event[chosen], ["mode"])[0] if len(chosen) else column_of([])
    words = np.array([text.split(".")[-1].split(":")[0] == EAGER for text in told.texts] + [False])
    known = told.text_codes >= 0
    chosen, eager = chosen[known], words[told.text_codes[known]]
    codes = {text: code for code, text in enumerate(texts)}
    process, modes = processes_of(found.service, chosen), np.full(len(steps), UNKNOWN)
    for number, engine in enumerate(found.engines):
        part = steps.of(number)
        mine = np.isin(process, [codes[one] for one in engine.processes]) | (len(found.engines) == 1)
        begin, end = spans.start[chosen[mine]], spans.end[chosen[mine]]
        if part.stop > part.start:
            at = np.maximum(np.searchsorted(steps.start[part], begin, "right") - 1, 0)
            inside = (begin >= steps.start[part][at]) & (end <= steps.end[part][at])
            modes[part.start + at[inside]] = np.where(eager[mine][inside], EAGER_PASS, GRAPH_PASS)
    return modes


def freed(found: ServiceTimeline, time: I64) -> ServiceTimeline:
    """``found`` with cycles that are shorter by ``time`` (steps, 7), and so is what held them up."""
    steps, cycle = found.steps, np.maximum(found.steps.cycle - time, 0)
    sooner = np.clip(time[:, Cycle.bubble], 0, np.maximum(steps.start - steps.schedule_end, 0))
    closed = np.where(steps.schedule == UNKNOWN, steps.schedule_end, steps.schedule_end + sooner)
    return replace(
        found,
        steps=replace(steps, cycle=cycle, schedule_end=closed),
        held=np.minimum(np.maximum(found.held - time, 0), cycle),
    )


_TAKEN = (
    "cost", "schedule", "gap", "dispatch", "prepare", "after", "draft", "late", "beyond", "filled", "least", "stalls",
    "stuck", "grows", "padded",
)  # fmt: skip


def taken_out(base: ServiceModel, other: ServiceModel, model: ServiceModel) -> ServiceModel:
    """``model`` with the costs of ``other``, which is ``base`` without something, where it has those of ``base``."""
    engines = []
    for number, one in enumerate(model.engines):
        was, then = (of.engines[number % len(of.engines)] for of in (base, other))  # a second service has the same ones
        changed = {name: getattr(then, name) for name in _TAKEN if getattr(one, name) == getattr(was, name)}
        engines.append(replace(one, **changed))
    extra = other.extra if model.extra is base.extra else model.extra
    return replace(model, engines=tuple(engines), extra=extra)


_PERIOD = 100_000_000
"""The period of a CPU quota unless it is set (cfs_period_us of the kernel), ns."""
HOSTED = Cycle.schedule, Cycle.prepare, Cycle.sampling, Cycle.bubble
"""Parts of a cycle in which the host works."""


class Stops(Struct, frozen=True, eq=False):
    """The host stands still for ``lasting`` ns until the same moment of every ``period``: from each of ``begin`` on.

    That takes so much of the ``time`` of each part of a cycle (steps, 7).
    """

    period: int
    lasting: int
    begin: I64
    time: I64

    @property
    def end(self) -> I64:
        """(n,), ns."""
        return self.begin + self.lasting


def stops_of(found: ServiceTimeline, others: I64) -> Stops | None:
    """When the host stands still: nothing that it does, in any step or at the moments ``others``, ever ends then.

    So it is where its CPU quota is used up early in each period. Chance leaves no such part of all periods empty.
    """
    steps, mine = found.steps, found.serving
    ends = [steps.end[mine], (steps.start + steps.cycle[:, Cycle.prepare])[mine]]
    ends += [steps.schedule_end[mine][steps.schedule[mine] != UNKNOWN], others]
    moments = np.sort(np.concatenate(ends))
    if len(moments) < FEWEST or moments[-1] - moments[0] < FEWEST * _PERIOD:
        return None
    phase = np.sort(moments % _PERIOD)
    gaps = np.diff(phase, append=phase[0] + _PERIOD)
    at = int(np.argmax(gaps))
    share = float(gaps[at]) / _PERIOD
    if share < NOTABLE or math.log(len(phase)) + len(phase) * math.log1p(-share) > math.log(UNSEEN):
        return None
    # Steps that end at a moment of each period by themselves, as few as there are, leave the rest of it empty.
    busy = np.histogram(phase, bins=_BINS, range=(0, _PERIOD))[0]
    if np.count_nonzero(busy) < HALF * (1 - share) * _BINS:
        return None
    begin = np.arange(moments[0] // _PERIOD - 1, moments[-1] // _PERIOD + 1) * _PERIOD + phase[at]
    lasting = int(gaps[at])
    return Stops(_PERIOD, lasting, begin, within(found, begin, begin + lasting, *HOSTED))


_BINS = 50  # parts of a period, in most of which something of the host ends where it does not stand still


class Shared(Struct, frozen=True, eq=False):
    """All that the host does takes longer by the share ``each`` for each request that is open.

    The ``time`` that this takes of each part of a cycle (steps, 7), and of each of the ranges that show it: ``own``.
    """

    each: float
    time: I64
    own: I64
    open: float


def shared_of(found: ServiceTimeline, begin: I64, end: I64, tokens: I64) -> Shared | None:
    """Whether work on prompts of so many ``tokens``, from ``begin`` to ``end``, takes the longer the more are open.

    It has nothing to do with batches: another one of the same process takes its time. Where it is so, parts of steps
    grow in the same way.
    """
    lat, steps = found.latencies, found.steps
    known = (lat.start != UNKNOWN) & (lat.whole != UNKNOWN)
    came, left = np.sort(lat.start[known]), np.sort((lat.start + lat.whole)[known])

    def under_way(moment: I64) -> I64:
        count: I64 = np.searchsorted(came, moment, "right") - np.searchsorted(left, moment, "right")
        return count

    if len(begin) < FEWEST:
        return None
    time, count = end - begin, under_way(begin)
    plain = combined(time, tokens)[1]
    (fixed, token, more, product), away = combined(time, tokens, count, tokens * count)
    usual = fixed + token * float(tokens.mean())
    if away > HALF * plain or usual <= 0:
        return None
    each = (more + product * float(tokens.mean())) / usual
    own = (time * (1 - 1 / (1 + each * count))).astype(np.int64)
    taken, mine = np.zeros_like(steps.cycle), found.serving
    slowed: F64 = (1 + each * under_way(steps.opened[mine])).astype(np.float64)
    for part in HOSTED:
        lasting: F64 = steps.cycle[mine, part].astype(np.float64)
        size = steps.size[mine]
        free: Bools = (found.held[mine, part] == 0) & (steps.cycle[mine, Cycle.idle] == 0)
        if free.sum() < FEWEST:
            continue
        grown = _grown(lasting, size, slowed, free)
        taken[mine, part] = np.clip(grown * (1 - 1 / slowed), 0, lasting).astype(np.int64)
    return Shared(each, taken, own, float(count.mean()))


def _grown(time: F64, size: I64, slowed: F64, free: Bools) -> F64:
    """The part of ``time`` (n,) that takes as many times as long as it is ``slowed``; the rest is the same for all."""
    (_, fixed, each), _ = combined(time[free], slowed[free], (size * slowed)[free])
    grown: F64 = (fixed + each * size) * slowed
    return grown
