"""Engines of an inference service and their steps: what each step did, and what all time of an engine went to.

A pass of an engine is a schedule and an execution in batch.csv, repeated by each tensor parallel worker. They belong
together where they hold the same requests; ``batch_id`` of the tool joins nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum

import numpy as np
from msgspec import Struct

from npu_tui.analysis.limits import FAR_LONGER, HALF, LITTLE
from npu_tui.analysis.service_members import is_prompt, tokens_of
from npu_tui.trace.arrays import F64, I64, U64, summed
from npu_tui.trace.service import NONE, UNKNOWN, Kind, Pass, Service, minus

Work = IntEnum("Work", "prefill mixed decode dummy unknown", start=0)
"""What a step computes; unknown where neither its requests nor its type say."""
Cycle = IntEnum("Cycle", "schedule prepare forward sampling draft bubble idle", start=0)
"""What the time from the end of one step to the end of the next goes to: the columns of ``Steps.cycle``."""
# The increment of SplitMix64: the bits of neighbouring numbers differ everywhere.
_MIXING = np.uint64(0x9E3779B97F4A7C15)
_MOST_PROCESSES = 512
"""A damaged table may name as many as it has rows."""
_HANDED_OVER = 100_000
"""Executions as short, ns, only hand a batch over: reading 0.1 G parameters in 16 bits takes a device as long."""
ROUNDING = 1_000
"""Moments in ms are floats of the tool: good for a quarter of a microsecond."""


class Steps(Struct, eq=False):
    """The steps of all engines by engine and time, (n,) each; moments and lengths in ns.

    ``row`` is the execution in ``Service.batches``, ``schedule`` the start of the schedule before it (UNKNOWN: none).
    ``work`` is a ``Work``. ``cycle`` (n, 7) sums up to the time since the step before: the schedule that no
    execution covers, prepare (what the execution does before its forward pass), forward, sampling (what follows it),
    draft, bubble while requests waited or ran, and idle time without any. ``prompts`` are tokens of prompts,
    ``decoded`` those of decodes. ``free`` blocks are those after scheduling.
    """

    engine: I64
    row: I64
    start: I64
    end: I64
    schedule: I64
    schedule_end: I64
    work: I64
    size: I64
    prompts: I64
    decoded: I64
    free: I64
    allocated: I64
    cycle: I64

    def __len__(self) -> int:
        return len(self.start)

    def of(self, engine: int) -> slice:
        """The steps of ``engine``."""
        return slice(*np.searchsorted(self.engine, (engine, engine + 1)).tolist())

    @property
    def forward(self) -> I64:
        """How long the forward pass of each step took."""
        return self.cycle[:, Cycle.forward]

    @property
    def opened(self) -> I64:
        """When each step first held its requests: the start of its schedule, else of its execution."""
        return np.where(self.schedule == UNKNOWN, self.start, np.minimum(self.schedule, self.start))


class Engine(Struct, frozen=True):
    """One engine: its DP rank (None: unknown), its processes, and whether it only computes prompts."""

    rank: int | None
    processes: tuple[str, ...]
    prefills: bool


def keys_of(service: Service) -> U64:
    """A key of the requests of each batch, equal for the same requests at the same iteration; 0 for no requests."""
    members = service.members
    mixed = members.rid.astype(np.uint64) * _MIXING
    for column in (members.iter, members.phase, members.tokens):  # in place: there are many
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed += column.view(np.uint64)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0x94D049BB133111EB)
    total = np.zeros(len(mixed) + 1, np.uint64)
    np.cumsum(mixed, out=total[1:])
    keys: U64 = total[members.offset[1:]] - total[members.offset[:-1]]
    return keys


def inner_rows(service: Service, keys: U64) -> I64:
    """The execution that each execution lies in, -1 of one that lies in none: a part of that step; (batches,).

    A worker writes its own event below that of the engine, under another name and for the same requests, whose turns
    and tokens it may leave out: ``keys`` are made those of the step.
    """
    batches, members = service.batches, service.members
    outer = np.full(len(batches), -1)
    rows = np.flatnonzero((batches.passes == Pass.execute) & (batches.start != UNKNOWN) & (batches.end != UNKNOWN))
    rows = rows[(np.diff(members.offset) > 0)[rows]]
    names, counts = np.unique(batches.name[rows], return_counts=True)
    if len(names) < 2:
        return outer
    total = np.append(np.uint64(0), np.cumsum((members.rid.astype(np.uint64) + np.uint64(1)) * _MIXING))
    of_rids = total[members.offset[1:]] - total[members.offset[:-1]]
    silent = summed(members.batch, (members.iter != UNKNOWN).astype(np.int64), len(batches)) == 0
    for name in names[np.argsort(-counts, kind="stable")].tolist():  # there are several workers, and one engine
        free = rows[outer[rows] < 0]
        mine, others = (free[(batches.name[free] == name) == own] for own in (True, False))
        if not len(others):
            break
        both = np.append(others, mine)
        # Of several that began at a time the longest one lies around the others, or the one that has the turns.
        order = np.lexsort((np.arange(len(both)), silent[both], -batches.end[both], batches.start[both]))
        found = _last_before(of_rids[both], order, len(others))
        found, same = others[found], found >= 0
        same &= np.maximum(batches.end[mine] - batches.end[found], 0) <= HALF * (batches.end - batches.start)[mine]
        if same.mean() > HALF:
            outer[mine[same]] = found[same]
            keys[mine[same]] = keys[found[same]]
    return outer


def engines_of(service: Service, keys: U64) -> tuple[list[Engine], I64]:
    """The engines, and which of them each process (a code of ``Service.texts``) belongs to (-1: none)."""
    batches = service.batches
    passes = np.isin(batches.passes, (Pass.schedule, Pass.execute))
    processes, rows = np.unique(batches.process[passes & (batches.process >= 0)], return_counts=True)
    # A damaged file may name any number of processes; real engines have tens, and those with most rows are kept.
    most = np.sort(np.argsort(-rows, kind="stable")[:_MOST_PROCESSES])
    processes, rows = processes[most], rows[most]
    passes &= np.isin(batches.process, processes)
    known = np.flatnonzero(passes & (keys > 0))
    order = known[np.lexsort((batches.process[known], keys[known]))]
    same = keys[order][1:] == keys[order][:-1]
    pairs = np.stack([batches.process[order][:-1][same], batches.process[order][1:][same]])
    # The scheduler and the workers of an engine name the same batches: processes that share enough are one engine.
    group = {process: process for process in processes.tolist()}
    count = dict(zip(processes.tolist(), rows.tolist(), strict=True))
    pairs, counts = np.unique(pairs, axis=1, return_counts=True)
    for one, other, shared in zip(*pairs.tolist(), counts.tolist(), strict=True):
        if one != other and shared >= HALF * min(count[one], count[other]) / 2:
            joined = group[other]
            group = {process: group[one] if of == joined else of for process, of in group.items()}
    found: list[tuple[int | None, list[int], bool]] = []
    for leader in sorted(set(group.values())):
        members = [process for process, of in group.items() if of == leader]
        mine = passes & np.isin(batches.process, members)
        ranks = batches.dp_rank[mine & (batches.dp_rank != UNKNOWN)]
        kinds = batches.kind[mine & (batches.kind != Kind.dummy)]
        if (batches.passes[mine] == Pass.execute).any():
            prefills = bool(len(kinds) and (kinds == Kind.prefill).all())
            found.append((int(ranks[0]) if len(ranks) else None, members, prefills))
    # Prefill engines first, then by their data-parallel rank: the order in which a request meets them.
    found.sort(key=lambda engine: (not engine[2], -1 if engine[0] is None else engine[0]))
    # Only where another engine decodes and caches are sent is one a prefill engine of a split service.
    some_decode = any(not prefills for _, _, prefills in found)
    of = np.full(max(len(service.texts), 1), -1)
    engines = []
    for number, (rank, members, prefills) in enumerate(found):
        of[members] = number
        names = tuple(service.text(process) for process in members)
        engines.append(Engine(rank, names, prefills and some_decode and bool(len(service.transfers))))
    return engines, of


def steps_of_engines(service: Service, keys: U64, outer: I64, of_process: I64) -> Steps:
    """The steps of all engines, without what a cycle went to while no request was there (``with_idle``).

    An execution that has an ``outer`` one is no step of its own.
    """
    batches = service.batches
    engine = np.where(batches.process >= 0, of_process[batches.process], -1)
    executions = np.flatnonzero(
        (batches.passes == Pass.execute) & (outer < 0) & (engine >= 0) & (batches.start != UNKNOWN)
    )
    sound = (batches.start[executions] >= 0) & (batches.end[executions] < np.iinfo(np.int64).max // 2)
    executions = executions[sound & (batches.end[executions] != UNKNOWN)]
    lead = np.zeros(len(of_process), bool)
    for number in np.unique(engine[executions]).tolist():  # the workers of an engine repeat its steps
        processes, rows = np.unique(batches.process[executions[engine[executions] == number]], return_counts=True)
        lead[processes[np.argmax(rows)]] = True
    executions = executions[lead[batches.process[executions]]]
    row = executions[np.lexsort((batches.end[executions], batches.start[executions], engine[executions]))]
    number = engine[row]
    schedule = _schedules(service, keys, engine, row)
    has = schedule >= 0
    start = batches.start[row]
    opened = np.where(has, np.minimum(batches.start[schedule], start), start)
    passed = batches.end[row] if len(forward_passes(service)) else _ended(number, opened, start, batches.end[row])
    end, drafted = _drafted(service, of_process, number, start, passed)
    blocks = {
        name: np.where(has, getattr(batches, name)[schedule], UNKNOWN) for name in ("free_blocks", "allocated_blocks")
    }
    for at, events in _events_before(service, engine, number, start):
        for name, values in blocks.items():
            told = np.where(events >= 0, getattr(service.kv_blocks, name)[events], UNKNOWN)
            values[at] = np.where(values[at] == UNKNOWN, told, values[at])
    prompts, decoded, size, work = _work(service, row)
    steps = Steps(
        number, row, start, end, np.where(has, batches.start[schedule], UNKNOWN),
        np.where(has, batches.end[schedule], UNKNOWN), work, size, prompts, decoded,
        blocks["free_blocks"], blocks["allocated_blocks"], np.zeros((len(row), len(Cycle)), np.int64),
    )  # fmt: skip
    _cycles(service, steps, of_process, passed, drafted)
    return steps


def _ended(engine: I64, opened: I64, start: I64, end: I64) -> I64:
    """When each step ends: with its execution or, where that only hands the batch over, when the next one is opened."""
    end = end.copy()
    for number in np.unique(engine).tolist():
        mine = np.flatnonzero(engine == number)
        until = opened[mine][1:] - start[mine][:-1]
        usual = float(np.median(until)) if len(until) else 0.0
        if len(until) and np.median((end - start)[mine]) <= min(_HANDED_OVER, LITTLE * usual):
            # No token is scheduled before the last one is there; but no request may have been.
            lasting = np.minimum(until, int(FAR_LONGER * usual))
            end[mine[:-1]] = np.maximum(end[mine[:-1]], start[mine[:-1]] + lasting)
    return end


def handed_over(service: Service, steps: Steps) -> int:
    """How many ``steps`` last longer than their executions, which only hand a batch over."""
    lasting = service.batches.end[steps.row] - steps.start
    return int(np.count_nonzero((lasting <= _HANDED_OVER) & (steps.end > service.batches.end[steps.row])))


def _drafted(service: Service, of_process: I64, engine: I64, start: I64, end: I64) -> tuple[I64, I64]:
    """When each step ends with its drafts, which some engines make after the execution, and how long these take."""
    rows, drafts = service.batches, service.spec_decodes
    mine = np.flatnonzero(rows.passes == Pass.draft)
    begun, until = np.append(rows.start[mine], drafts.start), np.append(rows.end[mine], drafts.end)
    lasting = np.append(minus(rows.end, rows.start)[mine], drafts.draft)
    lasting = np.where(lasting == UNKNOWN, minus(until, begun), lasting)
    process = np.append(rows.process[mine], drafts.process)
    where = np.where(process >= 0, of_process[process], 0)
    end, took = end.copy(), np.zeros(len(start), np.int64)
    for number in np.unique(engine).tolist():
        steps = np.flatnonzero(engine == number)
        here = np.flatnonzero((where == number) & (begun != UNKNOWN) & (until != UNKNOWN) & (lasting >= 0))
        # Dates are rounded: the middle of what lies in a step is in it for sure.
        at = np.searchsorted(start[steps], begun[here] + (until - begun)[here] // 2, "right") - 1
        here, at = here[at >= 0], at[at >= 0]
        np.maximum.at(took, steps[at], lasting[here])
        following = np.append(start[steps][1:], np.iinfo(np.int64).max)[at]
        np.maximum.at(end, steps[at], np.minimum(until[here], following))
    return end, took


def _events_before(service: Service, engine: I64, number: I64, start: I64) -> Iterator[tuple[I64, I64]]:
    """By engine the steps, and the last event of the KV cache before each of them that ``start``, -1 without one.

    With several engines an event is about the one that its request is on.
    """
    events, members = service.kv_blocks, service.members
    engines, of_event = np.unique(number), np.full(len(events), -1)
    if len(engines) == 1:
        of_event[:] = engines[0]
    elif len(members):
        of_request = np.full(len(service.rids) + 1, -1)  # the last one is for events without a request
        known = members.rid >= 0
        of_request[members.rid[known]] = engine[members.batch[known]]
        of_event = of_request[events.rid]
    for one in engines.tolist():
        mine, steps = np.flatnonzero(of_event == one), np.flatnonzero(number == one)
        if len(mine):
            at = np.searchsorted(events.time[mine], start[steps], "right") - 1
            yield steps, np.where(at >= 0, mine[at], -1)


class LateWorker(Struct, frozen=True):
    """The worker ``process`` of an engine begins ``lag`` ns after the others, in the median step."""

    engine: int
    process: int
    lag: int


def late_workers(service: Service, keys: U64, outer: I64, steps: Steps, engines: list[Engine]) -> list[LateWorker]:
    """The worker of each engine that begins last. Workers wait for each other, so that its pass is the shortest one.

    When it begins is not asked, as the clock of its host may be another one. Where workers write no executions, their
    forward passes count.
    """
    batches, found = service.batches, list[LateWorker]()
    rows = np.flatnonzero((batches.passes == Pass.execute) & (keys > 0) & (batches.end != UNKNOWN))
    codes = {text: code for code, text in enumerate(service.texts)}
    for number, engine in enumerate(engines):
        mine = steps.row[steps.of(number)]
        mine = mine[keys[mine] > 0]
        known = np.unique(keys[mine])
        own = rows[np.isin(batches.process[rows], [codes[name] for name in engine.processes])]
        own = own[outer[own] >= 0] if (outer[own] >= 0).any() else own  # what lies around them is the engine's
        workers = np.unique(batches.process[own]).tolist()  # a process may schedule only
        if len(workers) < 2 or not len(mine):
            found += _late_in_forward(service, steps, number, len(engines))
            continue
        lasting = np.full((len(workers), len(known)), np.nan)
        for place, worker in enumerate(workers):
            theirs = own[batches.process[own] == worker]
            at = np.minimum(np.searchsorted(known, keys[theirs]), len(known) - 1)
            same = known[at] == keys[theirs]
            lasting[place, at[same]] = (batches.end - batches.start)[theirs[same]]
        found += _latest(number, workers, lasting)
    return found


def _late_in_forward(service: Service, steps: Steps, engine: int, engines: int) -> list[LateWorker]:
    """The worker of ``engine`` that begins its forward passes last; none where they may be of another engine."""
    passes, part = forward_passes(service), steps.of(engine)
    workers = np.unique(passes.process[passes.process >= 0]).tolist()
    if engines > 1 or not 1 < len(workers) <= _MOST_PROCESSES or not len(steps.start[part]):
        return []
    lasting = np.full((len(workers), len(steps.start[part])), np.nan)
    at = np.searchsorted(steps.start[part], passes.start + (passes.end - passes.start) // 2, "right") - 1
    inside = (at >= 0) & (passes.end <= steps.end[part][at] + ROUNDING)
    for place, worker in enumerate(workers):
        theirs = inside & (passes.process == worker)
        lasting[place, at[theirs]] = (passes.end - passes.start)[theirs]
    return _latest(engine, workers, lasting)


def _latest(engine: int, workers: list[int], lasting: F64) -> list[LateWorker]:
    """The one of ``workers`` with the shortest passes, (workers, steps); none if most steps lack one of them."""
    whole = ~np.isnan(lasting).any(axis=0)
    if whole.mean() < HALF:
        return []
    lag = np.median(lasting[:, whole].max(axis=0) - lasting[:, whole], axis=1)
    return [LateWorker(engine, workers[int(lag.argmax())], int(lag.max()))]


def _schedules(service: Service, keys: U64, engine: I64, row: I64) -> I64:
    """The row of the last schedule of the same requests that began before each execution ended; -1 without one."""
    batches = service.batches
    schedules = np.flatnonzero((batches.passes == Pass.schedule) & (keys > 0) & (batches.start != UNKNOWN))
    if not len(schedules):
        return np.full(len(row), -1)
    both = np.append(schedules, row)
    key = keys[both] + engine[both].astype(np.uint64) * _MIXING
    order = np.argsort(np.append(batches.start[schedules], batches.end[row]), kind="stable")
    found = _last_before(key, order, len(schedules))
    return np.where((found >= 0) & (keys[row] > 0), schedules[found], -1)


def _last_before(key: U64, order: I64, count: int) -> I64:
    """For each row after the first ``count`` the last of these with its ``key`` before it in ``order``, -1 without."""
    _, group = np.unique(key, return_inverse=True)
    rank = np.empty(len(key), np.int64)
    rank[order] = np.arange(len(key))
    place = group.ravel().astype(np.int64) * len(key) + rank
    by_place = np.argsort(place[:count])
    at = np.searchsorted(place[:count][by_place], place[count:]) - 1
    found = by_place[np.maximum(at, 0)]
    return np.where((at >= 0) & (group.ravel()[found] == group.ravel()[count:]), found, -1)


def _work(service: Service, row: I64) -> tuple[I64, I64, I64, I64]:
    """Tokens of prompts and of decodes, the requests, and what of ``Work`` the batches ``row`` do."""
    members, batches = service.members, service.batches
    tokens = tokens_of(service)
    first, last = members.offset[row], members.offset[row + 1]
    total = np.zeros(len(tokens) + 1, np.int64)  # of all members: there are many
    np.cumsum(tokens, out=total[1:])
    both = total[last] - total[first]
    np.cumsum(tokens * is_prompt(service), out=total[1:])
    prompts = total[last] - total[first]
    listed = [prompts, both - prompts, last - first]
    columns = [batches.prefill_tokens[row], batches.decode_tokens[row], batches.size[row]]
    found = (np.where((of == 0) & (column > 0), column, of) for of, column in zip(listed, columns, strict=True))
    prompts, decoded, size = found
    tells = (members.phase != UNKNOWN) | (members.iter != UNKNOWN) | (members.tokens != UNKNOWN)
    told = (np.bincount(members.batch[tells], minlength=len(batches)) > 0)[row] | (columns[1] > 0)
    kind = batches.kind[row]
    by_kind = np.where(np.isin(kind, (Kind.other, NONE)), np.where(size > 0, Work.unknown, Work.dummy), _WORK_OF[kind])
    work = np.select(
        [(prompts > 0) & (decoded > 0), prompts > 0, told & (size > 0)],
        [Work.mixed, Work.prefill, Work.decode],
        by_kind,
    )
    return prompts, decoded, size, work


_WORK_OF = np.array([Work[name] if name in Work.__members__ else Work.unknown for name in Kind.__members__])


def _cycles(service: Service, steps: Steps, of_process: I64, passed: I64, drafted: I64) -> None:
    """Fill ``steps.cycle`` but for idle time; each pass ended when it ``passed``, drafts took ``drafted`` ns of it."""
    n = len(steps)
    same = np.append(False, steps.engine[1:] == steps.engine[:-1])
    before = np.where(same, np.append(0, steps.end[:-1]), steps.opened)
    for number in np.unique(steps.engine).tolist():  # the end of a step that another one outlasts is no end
        part = steps.of(number)
        before[part] = np.append(before[part][:1], np.maximum.accumulate(steps.end[part])[:-1])
    end = np.maximum(steps.end, before)
    begin = np.clip(steps.start, before, end)
    opened = np.clip(steps.opened, before, begin)
    closed = np.clip(np.where(steps.schedule == UNKNOWN, opened, steps.schedule_end), opened, begin)
    before_it, after_it = _around_forward(service, steps, of_process, passed)
    # How long drafts take is recorded, not always when: what does not fit after the forward pass, and fits before it,
    # is there, as where they are made of the last tokens.
    early = (drafted > after_it) & (before_it >= drafted)
    after = np.minimum(np.where(early, after_it, np.maximum(after_it, drafted)), end - begin)
    prepare = np.clip(before_it - (begin - steps.start), 0, end - begin - after)
    draft = np.minimum(drafted, np.where(early, prepare, after))
    prepare, after = prepare - draft * early, after + draft * early
    steps.cycle[:, Cycle.schedule] = closed - opened
    steps.cycle[:, Cycle.prepare] = prepare
    steps.cycle[:, Cycle.forward] = end - begin - after - prepare
    steps.cycle[:, Cycle.sampling] = after - draft
    steps.cycle[:, Cycle.draft] = draft
    steps.cycle[:, Cycle.bubble] = (opened - before) + (begin - closed)
    assert n == 0 or (steps.cycle.sum(axis=1) == end - before).all()


class ForwardPasses(Struct, frozen=True, eq=False):
    """The forward passes of a service by start; moments in ns, ``process`` a code of ``Service.texts`` or ``NONE``."""

    start: I64
    end: I64
    process: I64

    def __len__(self) -> int:
        return len(self.start)


def forward_passes(service: Service) -> ForwardPasses:
    """The rows of forward.csv, which many versions of vLLM leave empty; then the events of that name."""
    rows = service.forwards
    if len(rows):
        return ForwardPasses(rows.start, rows.end, rows.process.astype(np.int64))
    spans = service.spans
    names = [code for code, text in enumerate(service.texts) if text.lower() == "forward"]
    chosen = np.flatnonzero(np.isin(spans.name, names))
    return ForwardPasses(spans.start[chosen], spans.end[chosen], processes_of(service, chosen))


def processes_of(service: Service, chosen: I64) -> I64:
    """The process of each of the spans ``chosen``, a code of ``Service.texts``: ``NONE`` if it may be one of several.

    A span is of the process whose number it or its thread has: ``prof_id`` ends with that of the process.
    """
    spans = service.spans
    processes = np.unique(service.batches.process[service.batches.process >= 0]).tolist()
    numbers = {number[0]: code for code in processes if (number := _NUMBER.findall(service.text(code))[-1:])}
    only = processes[0] if len(processes) == 1 else NONE

    def process_of(*texts: int) -> int:
        found = (number for text in texts for number in _NUMBER.findall(service.text(text)))
        return next((numbers[number] for number in found if number in numbers), only)

    pairs = np.stack([spans.thread[chosen], spans.process[chosen]])
    known, which = np.unique(pairs, axis=1, return_inverse=True)
    codes = np.array([process_of(*pair) for pair in known.T.tolist()] + [NONE], np.int64)
    of_each: I64 = codes[which.ravel()]
    return of_each


_NUMBER = re.compile(r"\d+")


def _around_forward(service: Service, steps: Steps, of_process: I64, passed: I64) -> tuple[I64, I64]:
    """Time of each step before and after its forward pass, 0 if unknown; later drafts count in the second.

    The pass is of the process that executes, else of one of its workers.
    """
    before, after = np.zeros(len(steps), np.int64), steps.end - passed
    forwards, process = forward_passes(service), service.batches.process[steps.row]
    engine = np.where(forwards.process >= 0, of_process[forwards.process], -1)
    for code in np.unique(process).tolist():
        mine, theirs = np.flatnonzero(process == code), np.flatnonzero(forwards.process == code)
        if not len(theirs):
            theirs = np.flatnonzero(engine == of_process[code])
        if not len(theirs):
            continue
        at = np.searchsorted(forwards.start[theirs], steps.end[mine]) - 1
        inside = (at >= 0) & (forwards.start[theirs][at] >= steps.start[mine] - ROUNDING)
        after[mine] = np.where(inside, np.maximum(steps.end[mine] - forwards.end[theirs][at], 0), after[mine])
        first = np.searchsorted(forwards.start[theirs], steps.start[mine] - ROUNDING)
        begun = forwards.start[theirs][np.minimum(first, len(theirs) - 1)]
        before[mine] = np.where(inside & (first <= at), np.maximum(begun - steps.start[mine], 0), 0)
    return before, after


def with_idle(steps: Steps, engine: int, came: I64, left: I64) -> None:
    """Move the time of ``engine`` without any request from bubble to idle: when each ``came`` to it and ``left`` it."""
    part = steps.of(engine)
    if not len(came):
        return
    opened, end = steps.opened[part], np.maximum.accumulate(steps.end[part])
    came, left = np.sort(came), np.sort(left)
    before = end[:-1]
    present = np.searchsorted(came, before, "right") - np.searchsorted(left, before, "right")
    following = came[np.minimum(np.searchsorted(came, before, "right"), len(came) - 1)]
    following = np.where(following > before, following, opened[1:])
    cycle = steps.cycle[part][1:]
    idle = np.clip(np.minimum(following, np.maximum(opened[1:], before)) - before, 0, cycle[:, Cycle.bubble])
    cycle[:, Cycle.idle] = np.where(present > 0, 0, idle)
    cycle[:, Cycle.bubble] -= cycle[:, Cycle.idle]


def sums_by_group(amounts: I64, of: I64, count: int) -> I64:
    """The sums of the rows of ``amounts`` (n, k) by their group ``of`` (n,), exact: (count, k)."""
    return np.stack([summed(of, column, count) for column in amounts.T], axis=1)
