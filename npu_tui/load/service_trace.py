"""An inference service as a ``Trace``: requests by state, what each engine does, KV blocks and transfers, on one clock.

The lanes are those of ``Service``; ranges of ``chrome_tracing.json`` stand below them as the file has them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from npu_tui.load.build import build_trace
from npu_tui.load.json_reader import WholeColumns
from npu_tui.trace.args import ArgReader, RowArgs
from npu_tui.trace.message import message
from npu_tui.trace.model import EventFile, Health, Slices, Trace
from npu_tui.trace.service import (
    EXECUTE,
    KINDS,
    LENGTHS,
    MOMENTS,
    NONE,
    NUMBERED,
    SCHEDULE,
    SCHEDULED,
    SERVED,
    TABLES,
    TEXTS,
    UNKNOWN,
    Service,
    plus,
)

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_STATES = "queued", "prefill", "decode", "running"
_PARTS = "schedule", "execute", "draft", "other", "forward", "speculation"
_MOST_ENGINES = 256
"""A layer each; a damaged file may name as many as it has rows."""
_MOST_LANES = 256
"""Of a layer."""


def service_trace(
    service: Service,
    whole: WholeColumns,
    files: tuple[EventFile, ...],
    health: Health,
    early: Callable[[Trace], None] | None = None,
) -> Trace:
    """The trace of ``service``; ``whole`` holds the spans of ``files`` already.

    ``early`` is shown the trace without its links: the requests of all batches take longer than everything else.
    """
    health.warnings += service.odd
    if service.clock.basis != "written":
        health.warnings.append(message(f"odd.service_clock.{service.clock.basis}", shift=service.clock.shift))
    spans, first = whole.count, {}
    for name in TABLES:
        first[name] = whole.count
        whole.count += len(getattr(service, name))
    lanes = _Lanes(whole, service, first)
    lanes.add_requests()
    lanes.add_engines()
    lanes.add_cache()
    lanes.add_transfers()
    trace = build_trace(whole, service.path, files, None, health)
    trace.args = ServiceArgs(service, first, trace.args if spans else None)
    trace.service = service
    if early is not None:
        early(trace)
    _link(trace, service, first)
    return trace


class _Lanes:
    """Takes the rows of ``service`` into ``whole`` as slices and samples, layer by layer.

    ``first`` gives the ordinal of the first row of each table.
    """

    def __init__(self, whole: WholeColumns, service: Service, first: dict[str, int]) -> None:
        self._whole, self._service, self._first = whole, service, first
        self._layers = 0

    def _layer(self, name: str) -> int:
        """A new layer below the others."""
        # Bits 5 to 9 are no sort index that stands there: the number is not read as one of msprof's with a device.
        pid = 1 << 45 | self._layers << 10 | 31 << 5
        self._whole.metadata.process_name[pid] = name
        self._whole.metadata.process_order[pid] = self._layers - (1 << 20)
        self._layers += 1
        return pid

    def _slices(
        self,
        pid: int,
        tid: int,
        lane: str,
        start: I64,
        end: I64,
        names: Sequence[str],
        name: npt.NDArray[Any],
        kind: I32,
        event: I64,
    ) -> None:
        """Slices of one ``lane``, for rows with times: ``name`` indexes ``names``, ``kind`` are codes of categories."""
        there = np.flatnonzero((start != UNKNOWN) & (end != UNKNOWN) & (end >= start))
        if not len(there):
            return
        whole, count = self._whole, len(there)
        used, place = np.unique(name[there], return_inverse=True)
        codes = np.array([whole.names[names[number]] for number in used.tolist()], np.int32)
        whole.metadata.thread_name[pid, tid] = lane
        none = np.full(count, -1)
        columns: dict[str, Any] = {
            "time": start[there], "duration": (end - start)[there], "name": codes[place], "category": kind[there],
            "thread": np.full(count, whole.threads[pid, tid], np.int32), "event": event[there], "stream": none,
            "task_type": none.astype(np.int32), "connection": none, "correlation": none, "stack": none.astype(np.int32),
        }  # fmt: skip
        for column, values in columns.items():
            whole.put(f"x_{column}", values)
        whole.phases["X"] += count

    def _samples(self, pid: int, name: str, time: I64, value: I64, instance: str = "") -> None:
        """The samples of one counter, where time and value are known."""
        there = np.flatnonzero((time != UNKNOWN) & (value != UNKNOWN))
        if not len(there):
            return
        whole, series = self._whole, self._whole.series[pid, name, name, instance]
        whole.put("c_time", time[there])
        whole.put("c_value", value[there].astype(np.float64))
        whole.put("c_series", np.full(len(there), series, np.int32))
        whole.phases["C"] += len(there)

    def _category(self, name: str) -> int:
        return self._whole.categories[name]

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
        waited = np.where((waited != UNKNOWN) & known, np.minimum(waited, first_token), waited)
        begun = np.where(waited == UNKNOWN, start, waited)
        nothing = np.full(len(start), UNKNOWN)
        spans = (
            (start, waited),
            (np.where(known, begun, nothing), first_token),
            (first_token, end),
            (np.where(known, nothing, begun), np.where(end < begun, begun, end)),
        )
        for tid, (state, (low, high)) in enumerate(zip(_STATES, spans, strict=True)):
            kind = np.full(len(start), self._category(state), np.int32)
            self._slices(pid, tid, state, low, high, self._service.rids, requests.rid, kind, event)
        keys, where = np.unique(np.stack((statuses.host, statuses.process)), axis=1, return_inverse=True)
        for number, (_, process) in enumerate(keys.T.tolist()):
            mine = np.flatnonzero(where.ravel() == number)
            instance = self._service.text(process) if keys.shape[1] > 1 else ""
            for name in ("waiting", "running", "swapped"):
                self._samples(pid, name, statuses.time[mine], getattr(statuses, name)[mine], instance)

    def add_engines(self) -> None:
        """A layer for each data parallel rank, or process where no rank is known: what it schedules and executes."""
        service = self._service
        batches, forwards, drafts = service.batches, service.forwards, service.spec_decodes
        tables: dict[str, Any] = {"batches": batches, "forwards": forwards, "spec_decodes": drafts}
        if not any(map(len, tables.values())):
            return
        process = np.concatenate([table.process for table in tables.values()]).astype(np.int64)
        rank = np.concatenate((batches.dp_rank, forwards.dp_rank, np.full(len(drafts), UNKNOWN)))
        rank_of = np.full(len(service.texts) + 1, UNKNOWN)  # a process has the rank that any of its rows names
        rank_of[process[rank != UNKNOWN]] = rank[rank != UNKNOWN]
        rank = np.where((rank == UNKNOWN) & (process != NONE), rank_of[process], rank)
        part = np.concatenate((batches.passes, np.full(len(forwards), 4), np.full(len(drafts), 5)))
        part = np.where(part == NONE, _PARTS.index("other"), part)
        names, name = _names([(batches.kind, batches.size), (forwards.kind, forwards.size)])
        name = np.concatenate((name, len(names) + drafts.rid))
        categories = np.array([self._category(word) for word in (*KINDS, "speculation", "batch")], np.int32)
        kind = categories[np.concatenate((batches.kind, forwards.kind, np.full(len(drafts), len(KINDS))))]
        event = np.concatenate([self._first[title] + np.arange(len(table)) for title, table in tables.items()])
        start, end = (np.concatenate([getattr(table, edge) for table in tables.values()]) for edge in ("start", "end"))
        # Ranks first, by number, then processes without one.
        engines, engine = np.unique(np.stack((rank == UNKNOWN, np.where(rank == UNKNOWN, process, rank))), axis=1,
                                    return_inverse=True)  # fmt: skip
        engine = np.minimum(engine.ravel(), _MOST_ENGINES)
        lanes = np.unique(np.stack((engine, process, part)), axis=1)
        for number in np.unique(engine).tolist():
            alone, code = engines[:, number].tolist()
            title = service.text(code) if alone else f"DP {code}"
            pid = self._layer(f"Engine {title}".strip() if number < _MOST_ENGINES else "Other engines")
            of_engine = lanes[1:, lanes[0] == number]
            several = len(np.unique(of_engine[0])) > 1
            for tid, (worker, of_lane) in enumerate(sorted(of_engine.T.tolist())[:_MOST_LANES]):
                rows = np.flatnonzero((engine == number) & (process == worker) & (part == of_lane))
                lane = f"{_PARTS[of_lane]} {service.text(worker)}" if several else _PARTS[of_lane]
                self._slices(pid, tid, lane, start[rows], end[rows], [*names, *service.rids], name[rows], kind[rows],
                             event[rows])  # fmt: skip
            rows = np.flatnonzero(engine[: len(batches)] == number)
            for title in ("used_blocks", "free_blocks"):
                self._samples(pid, title, batches.start[rows], getattr(batches, title)[rows])

    def add_cache(self) -> None:
        """What the KV cache holds, as its events say."""
        blocks = self._service.kv_blocks
        if not len(blocks):
            return
        pid = self._layer("KV cache")
        for domain in np.unique(blocks.domain)[:_MOST_LANES].tolist():
            rows = np.flatnonzero(blocks.domain == domain)
            for name in ("used_blocks", "free_blocks"):
                self._samples(pid, name, blocks.time[rows], getattr(blocks, name)[rows], self._service.text(domain))

    def add_transfers(self) -> None:
        """Pulls of KV blocks by rank, and the two sides of a request that is prefilled here and decoded there."""
        transfers, handoffs, rids = self._service.transfers, self._service.handoffs, self._service.rids
        if not (len(transfers) or len(handoffs)):
            return
        pid, category = self._layer("Transfers"), self._category("transfer")
        event = self._first["handoffs"] + np.arange(len(handoffs))
        sides = ("received", "prefilled"), ("sent", "acknowledged"), ("prefilled", "ended")
        for tid, (lane, (low, high)) in enumerate(zip(("prefill side", "hand-off", "decode side"), sides, strict=True)):
            kind = np.full(len(handoffs), self._category(lane), np.int32)
            self._slices(pid, tid, lane, getattr(handoffs, low), getattr(handoffs, high), rids, handoffs.rid, kind,
                         event)  # fmt: skip
        event = self._first["transfers"] + np.arange(len(transfers))
        for tid, rank in enumerate(np.unique(transfers.rank)[:_MOST_LANES].tolist(), 3):
            rows = np.flatnonzero(transfers.rank == rank)
            lane = "pull" if rank == UNKNOWN else f"pull rank {rank}"
            kind = np.full(len(rows), category, np.int32)
            self._slices(pid, tid, lane, transfers.start[rows], transfers.end[rows], rids, transfers.rid[rows], kind,
                         event[rows])  # fmt: skip


def _names(tables: Sequence[tuple[npt.NDArray[np.int8], I64]]) -> tuple[list[str], I64]:
    """What batches are called, by what they compute and how many requests they hold, and which name each has."""
    kind = np.concatenate([table[0] for table in tables]).astype(np.int64)
    size = np.concatenate([table[1] for table in tables])
    keys, where = np.unique(np.stack((kind, size)), axis=1, return_inverse=True)
    words = (*KINDS, "batch")
    names = [words[kind] if size == UNKNOWN else f"{words[kind]} {size}" for kind, size in keys.T.tolist()]
    return names, where.ravel()


def _link(trace: Trace, service: Service, first: dict[str, int]) -> None:
    """Link the states of requests to the batches that they are in, and schedules to what executes them."""
    batches, members, slices = service.batches, service.members, trace.slices
    if not len(members):
        return
    of_batch = _places(slices, first["batches"], len(batches))
    executed = batches.passes == EXECUTE
    chosen = np.flatnonzero(executed[members.batch] | ~executed.any())
    target = of_batch[members.batch[chosen]]
    request_of = np.full(len(service.rids), -1)
    request_of[service.requests.rid[::-1]] = np.arange(len(service.requests))[::-1]
    request = np.where(members.rid[chosen] == NONE, -1, request_of[members.rid[chosen]])
    there = (target >= 0) & (request >= 0)
    target, request = target[there], request[there]
    codes = [trace.categories.index(state) if state in trace.categories else -2 for state in _STATES]
    queued, prefill, decode, running = (
        _places(slices, first["requests"], len(service.requests), slices.category == code)[request] for code in codes
    )
    decoding = (decode >= 0) & (slices.start[target] >= slices.start[decode])
    source = np.where(decoding, decode, -1)
    for state in (prefill, running, queued, decode):
        source = np.where(source < 0, state, source)
    target, source = target[source >= 0], source[source >= 0]
    trace.add_links(SERVED, source, target, source)
    lead = members.offset[:-1]
    named = np.flatnonzero(np.diff(members.offset) > 0)
    key = np.full(len(batches), -1)
    key[named] = members.rid[lead[named]].astype(np.int64) * len(batches) + named  # batches are in order of time
    passes = np.sort(key[executed & (key >= 0)])
    schedules = np.flatnonzero((batches.passes == SCHEDULE) & (key >= 0))
    at = np.searchsorted(passes, key[schedules])
    schedules, at = schedules[at < len(passes)], at[at < len(passes)]
    passed = passes[at] % len(batches)
    same = (members.rid[lead[passed]] == members.rid[lead[schedules]]) & (
        members.iter[lead[passed]] == members.iter[lead[schedules]]
    )
    source, target = of_batch[schedules[same]], of_batch[passed[same]]
    there = (source >= 0) & (target >= 0)
    trace.add_links(SCHEDULED, source[there], target[there], source[there])


def _places(slices: Slices, first: int, count: int, chosen: Bools | None = None) -> I64:
    """The slice of each of ``count`` rows whose ordinals begin at ``first``, -1 without one; (count,)."""
    places, row = np.full(count, -1), slices.event - first
    inside = (row >= 0) & (row < count)
    here = np.flatnonzero(inside if chosen is None else inside & chosen)
    places[row[here]] = here
    return places


class ServiceArgs(RowArgs, frozen=True, eq=False):
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
            value = getattr(rows, name)[row].item()
            if value == UNKNOWN or value != value or (value == NONE and name in (*TEXTS, *NUMBERED, "rid")):
                continue
            if name in MOMENTS:
                continue  # the slice says when
            if name in LENGTHS:
                known[f"{name}_ms"] = value / 1e6
            elif name == "rid":
                known[name] = self.service.rids[value]
            else:
                known[name] = (
                    self.service.text(value) if name in TEXTS else NUMBERED[name][value] if name in NUMBERED else value
                )
        return known
