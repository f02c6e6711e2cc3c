"""Events as Perfetto's importer needs them: it drops what overlaps, and takes times and ids through a double.

Times are numbers relative to the start, ids small, every link has an id of its own, and slices that cross others of
their lane move to threads of their own beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import numpy as np
import numpy.typing as npt

from npu_tui.crop.chosen import Chosen
from npu_tui.crop.events import microseconds
from npu_tui.ingest.args.json_args import JsonArgs
from npu_tui.trace.model import Trace

I64 = npt.NDArray[np.int64]

_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_text = msgspec.json.encode


def perfetto_events(trace: Trace, reader: JsonArgs, chosen: Chosen) -> Iterator[bytes]:
    """The events that are kept, rewritten. Raises ``InputError`` if the file is gone or has changed."""
    items = np.flatnonzero(chosen.slices)
    window = chosen.wanted.window
    start, end = trace.slices.start[items], trace.slices.end[items]
    if chosen.wanted.clip:
        start, end = np.clip(start, window.start, window.end), np.clip(end, window.start, window.end)
    origin = int(start.min()) if len(items) else 0
    nests = _nests(trace.slices.lane[items], start, end)
    threads = _Threads(trace)
    yield from _metadata(trace, items, nests, threads)
    place = np.full(len(trace.slices), -1, np.int64)
    place[items] = np.arange(len(items))
    yield from _slices(trace, reader, items, (start - origin, end - origin), nests, threads)
    yield from _links(trace, np.flatnonzero(chosen.links), place, (start - origin, end - origin), nests, threads)
    yield from _counters(trace, chosen, origin)


class _Threads:
    """The thread of every lane and nest: the first keeps its id, the others get ids that no lane has."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._next = max((lane.tid for lane in trace.lanes), default=0) + 1
        if self._next > 1 << 31:  # Perfetto keeps 32 bits
            self._next = 1 << 20
        self._ids: dict[tuple[int, int], int] = {}
        self._small: dict[int, int] = {}

    def process(self, lane: int) -> int:
        """A small id for the process of ``lane``."""
        return self.of_layer(self._trace.lanes[lane].layer)

    def of_layer(self, layer: int) -> int:
        """A small id for the process of ``layer``; those above 32 bits are numbered anew."""
        pid = self._trace.layers[layer].pid
        return self._small.setdefault(layer, pid if 0 <= pid < 1 << 31 else (1 << 20) + layer)

    def of(self, lane: int, nest: int) -> int:
        """The id of the thread of ``lane`` that holds the slices of ``nest``."""
        if (lane, nest) not in self._ids:
            tid = self._trace.lanes[lane].tid
            if nest or not 0 <= tid < 1 << 31:
                tid, self._next = self._next, self._next + 1
            self._ids[lane, nest] = tid
        return self._ids[lane, nest]


def _nests(lane: npt.NDArray[np.int32], start: I64, end: I64) -> I64:
    """For every slice, sorted as those of a trace, the first thread on which it lies inside others or behind them."""
    found = np.zeros(len(lane), np.int64)
    if not len(lane):
        return found
    order = np.lexsort((-end, start, lane))
    open_: list[list[int]] = [[]]
    before = -1
    for item, own, begin, stop in zip(
        order.tolist(), lane[order].tolist(), start[order].tolist(), end[order].tolist(), strict=True
    ):
        if own != before:
            open_, before = [[]], own
        number = _fitting(open_, begin, stop)
        open_[number].append(stop)
        found[item] = number
    return found


def _fitting(open_: list[list[int]], begin: int, stop: int) -> int:
    """The first thread of ``open_`` (ends of open slices) on which ``[begin, stop]`` lies inside all others."""
    for number, ends in enumerate(open_):
        while ends and ends[-1] <= begin:
            ends.pop()
        if not ends or ends[-1] >= stop:
            return number
    open_.append([])
    return len(open_) - 1


def _metadata(trace: Trace, items: I64, nests: I64, threads: _Threads) -> Iterator[bytes]:
    pairs = np.unique(np.stack((trace.slices.lane[items].astype(np.int64), nests), axis=1), axis=0).tolist()
    layers = dict.fromkeys(trace.lanes[lane].layer for lane, _ in pairs)
    layers |= dict.fromkeys(series.layer for series in trace.counters.series)
    for order, layer in enumerate(layers):
        pid = threads.of_layer(layer)
        yield _meta("process_name", pid, 0, {"name": trace.layers[layer].name})
        yield _meta("process_sort_index", pid, 0, {"sort_index": order})
    for order, (lane, nest) in enumerate(pairs):
        pid, tid = threads.process(lane), threads.of(lane, nest)
        name = trace.lanes[lane].name + (f" ({nest + 1})" if nest else "")
        yield _meta("thread_name", pid, tid, {"name": name})
        yield _meta("thread_sort_index", pid, tid, {"sort_index": order})


def _meta(name: str, pid: int, tid: int, args: dict[str, object]) -> bytes:
    return _text({"ph": "M", "name": name, "pid": pid, "tid": tid, "args": args})


def _slices(
    trace: Trace, reader: JsonArgs, items: I64, times: tuple[I64, I64], nests: I64, threads: _Threads
) -> Iterator[bytes]:
    start, end = times
    lanes = trace.slices.lane[items].tolist()
    place = np.full(sum(trace.events.values()), -1, np.int64)
    place[trace.slices.event[items]] = np.arange(len(items))
    for first, texts in reader.texts():
        own = place[first : first + len(texts)]
        for number in np.flatnonzero(own >= 0).tolist():
            at = int(own[number])
            try:
                args = bytes(_object(texts[number]).get("args", msgspec.Raw(b"{}")))
            except ValueError:
                args = b"{}"
            yield b'{"ph":"X","name":%b,"cat":%b,"pid":%d,"tid":%d,"ts":%b,"dur":%b,"args":%b}' % (
                _text(trace.name_of(int(items[at]))),
                _text(_category(trace, int(items[at]))),
                threads.process(lanes[at]),
                threads.of(lanes[at], int(nests[at])),
                microseconds(int(start[at])),
                microseconds(int(end[at] - start[at])),
                args if args.lstrip().startswith(b"{") else b"{}",
            )


def _category(trace: Trace, item: int) -> str:
    code = int(trace.slices.category[item])
    return trace.categories[code] if code >= 0 else ""


def _links(
    trace: Trace, links: I64, place: I64, times: tuple[I64, I64], nests: I64, threads: _Threads
) -> Iterable[bytes]:
    """An s and an f for every link between two slices; a link without one of them says nothing to Perfetto."""
    own, (start, end) = trace.links, times
    for number, link in enumerate(links.tolist()):
        source, target = int(own.source_slice[link]), int(own.target_slice[link])
        if min(source, target) < 0 or min(place[source], place[target]) < 0:
            continue
        at = int(place[source]), int(place[target])
        told = (
            int(own.source_time[link] - trace.slices.start[source]),
            int(own.target_time[link] - trace.slices.start[target]),
        )
        whence, where = (
            (int(start[k]), max(int(end[k]) - 1, int(start[k])), int(start[k]) + after)
            for k, after in zip(at, told, strict=True)
        )
        times_of = _ordered(whence, where)
        if times_of is None:
            continue
        name = _text(trace.link_categories[int(own.category[link])])
        for phase, item, k, time in zip((b"s", b"f"), (source, target), at, times_of, strict=True):
            lane = int(trace.slices.lane[item])
            yield b'{"ph":"%b","bp":"e","name":%b,"cat":%b,"id":%d,"pid":%d,"tid":%d,"ts":%b}' % (
                phase, name, name, number + 1, threads.process(lane), threads.of(lane, int(nests[k])),
                microseconds(time),
            )  # fmt: skip


_End = tuple[int, int, int]
"""First and last time inside a slice, and when the link is there."""


def _ordered(source: _End, target: _End) -> tuple[int, int] | None:
    """Times of a link inside its slices, the source not after the target: Perfetto drops what ends before it starts.
    None where the whole target lies before the source.

    The clocks of host and device differ; its arrows lead from slice to slice wherever in them a link is.
    """
    begin = min(max(source[2], source[0]), source[1])
    end = min(max(target[2], target[0]), target[1])
    if begin > end:
        begin = max(end, source[0])
        end = min(max(end, begin), target[1])
    return (begin, end) if begin <= end else None


def _counters(trace: Trace, chosen: Chosen, origin: int) -> Iterator[bytes]:
    counters, wanted = trace.counters, chosen.wanted
    if wanted.names or wanted.lanes is not None:
        return
    threads = _Threads(trace)
    inside = wanted.window.holds(counters.time)
    for series in counters.series:
        first, last = int(counters.offset[series.index]), int(counters.offset[series.index + 1])
        name = _text(series.name if not series.instance else f"{series.name} {series.instance}")
        for at in (first + np.flatnonzero(inside[first:last])).tolist():
            yield b'{"ph":"C","name":%b,"pid":%d,"ts":%b,"args":{%b:%b}}' % (
                name, threads.of_layer(series.layer), microseconds(int(counters.time[at]) - origin),
                _text(series.key), _text(float(counters.value[at])),
            )  # fmt: skip
