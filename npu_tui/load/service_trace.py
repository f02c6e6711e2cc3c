"""An inference service as a ``Trace``: requests by state, what each engine does, KV blocks and transfers, on one clock.

The lanes are those of ``Service``; ranges of ``chrome_tracing.json`` stand below them as the file has them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from npu_tui.load.build import build_trace
from npu_tui.load.errors import InputError, Watcher
from npu_tui.load.format import ReadingPace, Source
from npu_tui.load.formats.service import DATABASES, SPANS
from npu_tui.load.json_reader import WholeColumns
from npu_tui.load.service import read_service
from npu_tui.load.service_spans import add_instants, add_slices, spans_of
from npu_tui.load.text_trace import TextReading
from npu_tui.load.times import INVALID
from npu_tui.trace.args import ArgColumn, ArgReader
from npu_tui.trace.arrays import I32, I64, Bools, distinct
from npu_tui.trace.message import message
from npu_tui.trace.model import EventFile, Health, Slices, Trace
from npu_tui.trace.service import (
    FOLLOWED,
    LENGTHS,
    MOMENTS,
    NONE,
    SCHEDULED,
    SERVED,
    SERVICE,
    SERVICE_PID,
    TABLES,
    UNKNOWN,
    Batches,
    Forwards,
    Kind,
    Pass,
    Service,
    ServiceRows,
    plus,
    whole_quarters,
)

_STATES = "queued", "prefill", "decode", "running"
_PARTS = "schedule", "execute", "draft", "other", "forward", "speculation"
_BLOCKS = "used_blocks", "free_blocks"
_NAMELESS = "?"
"""What has no rid."""
_MOST_ENGINES = 256  # a layer each; a damaged file may name as many as it has rows
_MOST_LANES = 256  # of a layer; others share the last one
_REST = "Other engines"
_LARGEST = 1 << 22
"""A batch of more requests has a damaged size."""


def read_service_trace(source: Source, watcher: Watcher, pace: ReadingPace) -> Trace:
    """The trace of an inference service, with the spans of its file of events if there is one; raises as ``load``."""
    text, files, args = TextReading(source, replace(watcher, early=None), pace), list[EventFile](), None
    service = read_service(source.path, text.watcher, source.survey)
    if SPANS in service.files:
        try:
            files.append(text.read(source.path / SPANS, 0)[0])
            add_instants(text.whole, files[0])
        except InputError as error:
            service.odd.append(error.message)
    for name in DATABASES:
        if name in service.files and not text.whole.phases["X"]:
            args, odd = add_slices(text.whole, source.path / name)
            service.odd += odd
    trace = service_trace(service, text.whole, tuple(files), text.health, args, watcher.early)
    trace.held = text.held
    return trace


def service_trace(
    service: Service,
    whole: WholeColumns,
    files: tuple[EventFile, ...],
    health: Health,
    args: ArgReader | None = None,
    early: Callable[[Trace], None] | None = None,
) -> Trace:
    """The trace of ``service``; ``whole`` holds the spans of ``files`` already, or of a database with their ``args``.

    ``early`` is shown the trace without its links: the requests of all batches take longer than everything else.
    """
    times = whole.peek("x_time", np.int64)
    if service.clock.basis == "assumed" and len(times := times[times != INVALID]):  # spans have ms since 1970
        moments = (int(values[known].min()) for values in service.moments() if (known := values != UNKNOWN).any())
        service.move(whole_quarters(int(times.min()) - min(moments, default=0)), "written")
    health.warnings += service.odd
    if service.clock.basis != "written":
        health.warnings.append(message(f"odd.service_clock.{service.clock.basis}", shift=service.clock.shift))
    spans, first = whole.count, {}
    for name in TABLES:
        first[name] = whole.count
        whole.count += len(getattr(service, name))
    lanes = _ServiceLanes(whole, service, first)
    lanes.add_requests()
    lanes.add_engines()
    lanes.add_cache()
    lanes.add_transfers()
    trace = build_trace(whole, service.path, files, None, health)
    trace.args = service.args = ServiceArgs(service, first, args or (trace.args if spans else None))
    service.read_spans = lambda: spans_of(trace, service, spans)
    trace.nature, trace.service, service.ordinals = SERVICE, service, first
    trace.bytes_beside = sum(service.files.values()) - trace.size
    if early is not None:
        early(trace)
    _link(trace, service, first)
    return trace


class _ServiceLanes:
    """Takes the rows of ``service`` into ``whole`` as slices and samples, layer by layer.

    ``first`` gives the ordinal of the first row of each table.
    """

    def __init__(self, whole: WholeColumns, service: Service, first: dict[str, int]) -> None:
        self._whole, self._service, self._first = whole, service, first
        self._layers = 0
        self._lanes = 0
        self._rids = np.array(whole.names.of((*service.rids, _NAMELESS)), np.int32)
        """The name of each request; that of ``NONE`` is the last one."""

    def _layer(self, name: str) -> int:
        """A new layer below the others."""
        # Bits 5 to 9 are no sort index that stands there: the number is not read as one of msprof's with a device.
        pid = SERVICE_PID | self._layers << 10 | 31 << 5
        self._whole.metadata.process_name[pid] = name
        self._whole.metadata.process_order[pid] = self._layers - (1 << 20)
        self._layers += 1
        self._lanes = 0
        return pid

    def _lane(self, pid: int, name: str) -> int:
        """The code of a new lane of the last layer, which is ``pid``; the last one of the most is shared."""
        if self._lanes < _MOST_LANES:
            self._whole.metadata.thread_name[pid, self._lanes] = name
            self._lanes += 1
        return self._whole.threads[pid, self._lanes - 1]

    def _slices(self, pid: int, lane: str, start: I64, end: I64, name: I32, kind: I32 | str, event: I64) -> None:
        """Slices of a new ``lane`` for the rows that have times."""
        there = np.flatnonzero((start != UNKNOWN) & (end != UNKNOWN) & (end >= start))
        category = self._whole.categories[kind] if isinstance(kind, str) else kind[there]
        thread = np.full(len(there), self._lane(pid, lane), np.int32)
        self._whole.slices(event[there], thread, start[there], end[there], name[there], category)

    def _samples(self, pid: int, table: ServiceRows, chosen: I64, names: tuple[str, ...], instance: str = "") -> None:
        """Samples of the counters ``names`` from the rows ``chosen``, where time and value are known."""
        for name in names:
            time, value = getattr(table, table.BY)[chosen], getattr(table, name)[chosen]
            there = (time != UNKNOWN) & (value != UNKNOWN)
            self._whole.samples(pid, name, name, instance, time[there], value[there].astype(np.float64))

    def add_requests(self) -> None:
        """Requests by state, one lane each: a request waits, is prefilled, decodes; else it is only there.

        The file does not say when the wait begins: it is drawn from the start of the request on.
        """
        requests, statuses = self._service.requests, self._service.statuses
        if not len(requests) and not len(statuses):
            return
        pid, event = self._layer("Requests"), np.arange(len(requests)) + self._first["requests"]
        start, end = requests.start, requests.end
        first_token = plus(start, requests.first_token)
        first_token[(first_token > end) & (end != UNKNOWN)] = UNKNOWN  # one of the two is wrong
        known = first_token != UNKNOWN
        waited = plus(start, requests.queue)
        if (beyond := known & (waited >= first_token)).any():
            waited = np.where(beyond, self._taken(start, first_token), waited)
        begun = np.where(waited == UNKNOWN, start, waited)
        spans = (
            (start, waited),
            (np.where(known, begun, UNKNOWN), first_token),
            (first_token, end),
            (np.where(known, UNKNOWN, begun), np.where(end < begun, begun, end)),
        )
        for state, (low, high) in zip(_STATES, spans, strict=True):
            self._slices(pid, state, low, high, self._rids[requests.rid], state, event)
        width = len(self._service.texts) + 1
        processes, where = _lanes_with_last((statuses.host.astype(np.int64) + 1) * width + statuses.process + 1)
        for number, process in enumerate(processes):
            instance = self._service.text(process % width - 1) if len(processes) > 1 else ""
            mine = np.flatnonzero(where == number)
            self._samples(pid, statuses, mine, ("waiting", "running", "swapped"), instance)

    def _taken(self, start: I64, first_token: I64) -> I64:
        """When each request was first in a batch: its wait goes on after a preemption, to beyond its first token."""
        service, late = self._service, np.iinfo(np.int64).max
        members, taken = service.members, np.full(len(service.rids) + 1, late)  # the last one has no name
        begun = service.batches.start[members.batch]
        np.minimum.at(taken, members.rid[begun != UNKNOWN], begun[begun != UNKNOWN])
        first = taken[service.requests.rid]
        return np.where((first > start) & (first < first_token), first, first_token)

    def add_engines(self) -> None:
        """A layer for each data parallel rank, or process where no rank is known: what it schedules and executes."""
        service = self._service
        batches, forwards, drafts = service.batches, service.forwards, service.spec_decodes
        passes, of_drafts = np.where(batches.passes == NONE, Pass.other, batches.passes), np.ones(len(drafts), np.int64)
        tables: tuple[tuple[str, Any, I64, I32, Any, I64], ...] = (
            ("batches", batches, passes, self._kinds(batches), batches.kind, batches.dp_rank),
            ("forwards", forwards, np.full(len(forwards), 4), self._kinds(forwards), forwards.kind, forwards.dp_rank),
            ("spec_decodes", drafts, 5 * of_drafts, self._rids[drafts.rid], len(Kind) * of_drafts, UNKNOWN * of_drafts),
        )
        rows_of = (
            (self._first[title] + np.arange(len(table)), table.start, table.end, table.process, *columns)
            for title, table, *columns in tables
        )
        event, start, end, process, part, name, kind, rank = map(np.concatenate, zip(*rows_of, strict=True))
        words = [self._whole.categories[word] for word in (*Kind.__members__, "speculation", "batch")]
        kind = np.array(words, np.int32)[kind]
        rank_of = np.full(len(service.texts) + 1, UNKNOWN)  # a process has the rank that any of its rows names
        rank_of[process[rank != UNKNOWN]] = rank[rank != UNKNOWN]
        rank = np.where((rank == UNKNOWN) & (process != NONE), rank_of[process], rank)
        common = _common_prefix_length([service.text(code) for code in _lanes_with_last(process)[0]])
        # A process without a rank is an engine of its own, after those with one.
        engines = [(f"DP {number}", rank == number) for number in np.unique(rank[rank != UNKNOWN])[:_MOST_ENGINES]]
        lone = np.unique(process[rank == UNKNOWN])[: _MOST_ENGINES - len(engines)]
        engines += [(service.text(code), (rank == UNKNOWN) & (process == code)) for code in lone.tolist()]
        rest = ~np.logical_or.reduce([np.zeros(len(rank), np.bool_), *(mine for _, mine in engines)])
        for title, mine in [*engines, *([(_REST, rest)] if rest.any() else [])]:
            pid, rows = self._layer(title if title == _REST else f"Engine {title}".strip()), np.flatnonzero(mine)
            workers, worker_of = _lanes_with_last(process[rows])
            for at, worker in enumerate(workers):
                of_worker = rows[worker_of == at]
                for number in _lanes_with_last(part[of_worker])[0]:
                    chosen = of_worker[part[of_worker] == number]
                    several = f" {service.text(worker)[common:]}" if len(workers) > 1 else ""
                    columns = (column[chosen] for column in (start, end, name, kind, event))
                    self._slices(pid, _PARTS[number] + several, *columns)
            self._samples(pid, batches, rows[rows < len(batches)], _BLOCKS)

    def _kinds(self, rows: Batches | Forwards) -> I32:
        """What each batch is called, by what it computes and how many requests it holds: ``decode 12``."""
        words = ("batch", *Kind.__members__)
        size = np.where((rows.size == UNKNOWN) | (rows.size > _LARGEST), -1, rows.size)
        keys, where = distinct((size + 1) * len(words) + rows.kind.astype(np.int64) + 1)
        pairs = [divmod(key, len(words)) for key in keys.tolist()]
        names = [f"{words[word]} {size - 1}" if size else words[word] for size, word in pairs]
        return np.array([self._whole.names[name] for name in names], np.int32)[where]

    def add_cache(self) -> None:
        """What the KV cache holds, as its events say."""
        blocks = self._service.kv_blocks
        if not len(blocks):
            return
        pid = self._layer("KV cache")
        for domain in np.unique(blocks.domain)[:_MOST_LANES].tolist():
            rows = np.flatnonzero(blocks.domain == domain)
            self._samples(pid, blocks, rows, _BLOCKS, self._service.text(domain))

    def add_transfers(self) -> None:
        """Pulls of KV blocks by rank, and the two sides of a request that is prefilled here and decoded there."""
        transfers, handoffs = self._service.transfers, self._service.handoffs
        if not (len(transfers) or len(handoffs)):
            return
        pid, event = self._layer("Transfers"), self._first["handoffs"] + np.arange(len(handoffs))
        sides = ("received", "prefilled"), ("sent", "acknowledged"), ("prefilled", "ended")
        for lane, (low, high) in zip(("prefill side", "hand-off", "decode side"), sides, strict=True):
            begin, end = getattr(handoffs, low), getattr(handoffs, high)
            self._slices(pid, lane, begin, end, self._rids[handoffs.rid], lane, event)
        event = self._first["transfers"] + np.arange(len(transfers))
        ranks, rank = _lanes_with_last(transfers.rank)
        for number, name in enumerate(ranks):
            rows = np.flatnonzero(rank == number)
            lane, names = "pull" if name == UNKNOWN else f"pull rank {name}", self._rids[transfers.rid[rows]]
            self._slices(pid, lane, transfers.start[rows], transfers.end[rows], names, "transfer", event[rows])


def _lanes_with_last(values: I64) -> tuple[list[int], I64]:
    """Like ``distinct``; values beyond the most lanes count as the last."""
    values, place = distinct(values)
    return values[:_MOST_LANES].tolist(), np.minimum(place, _MOST_LANES - 1)


def _common_prefix_length(names: Sequence[str]) -> int:
    """How many letters all ``names`` begin with, up to a separator."""
    first, last = min(names, default=""), max(names, default="")  # what these two share, all share
    length = next((at for at, pair in enumerate(zip(first, last, strict=False)) if len(set(pair)) > 1), len(first))
    return 0 if len(names) < 2 else max(first.rfind(separator, 0, length) for separator in "-_. ") + 1


def _link(trace: Trace, service: Service, first: dict[str, int]) -> None:
    """Link states of requests to the next ones and to the batches in them, and schedules to what executes them."""
    batches, slices = service.batches, trace.slices
    codes = [trace.categories.index(state) if state in trace.categories else -2 for state in _STATES]
    states = [
        _slices_of_rows(slices, first["requests"], len(service.requests), slices.category == code) for code in codes
    ]
    queued, prefill, decode, running = states
    for source, target in ((queued, np.where(prefill < 0, running, prefill)), (prefill, decode)):
        _link_slices(trace, FOLLOWED, source, target)
    members = service.members
    if not len(members):
        return
    of_batch = _slices_of_rows(slices, first["batches"], len(batches))
    executed = batches.passes == Pass.execute
    request_of = np.full(len(service.rids) + 1, -1, np.int32)  # the last one has no name
    named = np.flatnonzero(service.requests.rid != NONE)[::-1]  # of several with one rid the first counts
    request_of[service.requests.rid[named]] = named
    linked = (of_batch >= 0) & (executed | ~executed.any())
    chosen = np.flatnonzero(linked[members.batch] & (request_of[members.rid] >= 0))
    target, request = of_batch[members.batch[chosen]], request_of[members.rid[chosen]]
    source = np.full(len(target), -1)
    for state in (queued[request], running[request], prefill[request], decode[request]):  # the last that has begun
        source = np.where((state >= 0) & (slices.start[target] >= slices.start[state]), state, source)
    _link_slices(trace, SERVED, source, target)
    lead = members.offset[:-1]
    named = np.flatnonzero(np.diff(members.offset) > 0)
    key = np.full(len(batches), -1)
    key[named] = members.rid[lead[named]].astype(np.int64) * len(batches) + named  # batches are in order of time
    passes = np.sort(key[executed & (key >= 0)])
    schedules = np.flatnonzero((batches.passes == Pass.schedule) & (key >= 0))
    at = np.searchsorted(passes, key[schedules])
    schedules, at = schedules[at < len(passes)], at[at < len(passes)]
    passed = passes[at] % len(batches)
    same = (members.rid[lead[passed]] == members.rid[lead[schedules]]) & (
        members.iter[lead[passed]] == members.iter[lead[schedules]]
    )
    _link_slices(trace, SCHEDULED, of_batch[schedules[same]], of_batch[passed[same]])


def _link_slices(trace: Trace, category: str, source: I64, target: I64) -> None:
    """Link the pairs of slices where both are there."""
    there = (source >= 0) & (target >= 0)
    trace.add_links(category, source[there], target[there], source[there])


def _slices_of_rows(slices: Slices, first: int, count: int, chosen: Bools | None = None) -> I64:
    """The slice of each of ``count`` rows whose ordinals begin at ``first``, -1 without one; (count,)."""
    places, row = np.full(count, -1), slices.event - first
    inside = (row >= 0) & (row < count)
    here = np.flatnonzero(inside if chosen is None else inside & chosen)
    places[row[here]] = here
    return places


class ServiceArgs(ArgReader, frozen=True, eq=False):
    """What the tables say of each slice, lengths in ms; ``first`` gives the ordinal of the first row of each table.

    Ordinals before are those of ``spans``, which a file holds.
    """

    service: Service
    first: dict[str, int]
    spans: ArgReader | None

    def one(self, ordinal: int) -> dict[str, Any]:
        """The row that a slice stands for; what is not known is left out."""
        table = next((name for name in reversed(TABLES) if ordinal >= self.first[name]), None)
        if table is None:
            return {} if self.spans is None else self.spans.one(ordinal)
        rows, row, known = getattr(self.service, table), ordinal - self.first[table], {}
        for name in rows.__struct_fields__ if row < len(rows) else ():
            value, words = getattr(rows, name)[row].item(), self.service.words(name)
            if name in MOMENTS or value == (UNKNOWN if words is None else NONE) or value != value:
                continue  # the slice says when
            if name in LENGTHS:
                known[f"{name}_ms"] = value / 1e6
            else:
                known[name] = value if words is None else words[value]
        return known

    def columns(self, ordinals: I64, keys: Sequence[str]) -> list[ArgColumn]:
        """Those of spans from their file, which reads many events at once."""
        if self.spans is not None and (ordinals < self.first["requests"]).all():
            return self.spans.columns(ordinals, keys)
        return super().columns(ordinals, keys)
