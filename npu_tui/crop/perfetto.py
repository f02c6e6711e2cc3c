"""Events as Perfetto's importer needs them: it drops what overlaps, and takes times and ids through a double.

Times are numbers relative to the start, ids small, every link has an id of its own, and slices that cross others of
their lane move to threads of their own beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.crop.chosen import Chosen
from npu_tui.crop.events import microseconds
from npu_tui.ingest.args.json_args import JsonArgs
from npu_tui.ingest.database.args import DatabaseArgs
from npu_tui.trace.model import Trace

I64 = npt.NDArray[np.int64]
Reader = JsonArgs | DatabaseArgs
"""What reads the args of the slices again."""

_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_text = msgspec.json.encode


def perfetto_events(trace: Trace, reader: Reader, chosen: Chosen, links: Drawable) -> Iterator[bytes]:
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
    yield from _links(trace, links, place, origin, nests, threads)
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
    """For every slice, sorted as those of a trace, the first thread on which it lies inside others or after them."""
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
    trace: Trace, reader: Reader, items: I64, times: tuple[I64, I64], nests: I64, threads: _Threads
) -> Iterator[bytes]:
    start, end = times
    lanes = trace.slices.lane[items].tolist()
    for at, args in _args(trace, reader, items):
        yield b'{"ph":"X","name":%b,"cat":%b,"pid":%d,"tid":%d,"ts":%b,"dur":%b,"args":%b}' % (
            _text(trace.name_of(int(items[at]))),
            _text(_category(trace, int(items[at]))),
            threads.process(lanes[at]),
            threads.of(lanes[at], int(nests[at])),
            microseconds(int(start[at])),
            microseconds(int(end[at] - start[at])),
            args,
        )


def _args(trace: Trace, reader: Reader, items: I64) -> Iterator[tuple[int, bytes]]:
    """The args of every slice of ``items`` as JSON, each with its place there; in the order that reads fastest."""
    events = trace.slices.event[items]
    if isinstance(reader, DatabaseArgs):
        told = np.zeros(len(items), np.bool_)
        for at, found in reader.objects(events):
            told[at] = True
            yield at, _text(found)
        yield from ((at, b"{}") for at in np.flatnonzero(~told).tolist())
        return
    place = np.full(sum(trace.events.values()), -1, np.int64)
    place[events] = np.arange(len(items))
    for first, texts in reader.texts():
        own = place[first : first + len(texts)]
        for number in np.flatnonzero(own >= 0).tolist():
            try:
                args = bytes(_object(texts[number]).get("args", msgspec.Raw(b"{}")))
            except ValueError:
                args = b"{}"
            yield int(own[number]), args if args.lstrip().startswith(b"{") else b"{}"


def _category(trace: Trace, item: int) -> str:
    code = int(trace.slices.category[item])
    return trace.categories[code] if code >= 0 else ""


class Drawable(Struct, frozen=True):
    """The links that Perfetto can draw, by their numbers in the trace, and the ``begin`` and ``end`` of each in ns.

    It draws arrows from slice to slice and drops one that ends before it starts. ``unbound`` links have no slice at one
    of their ends; the whole target of a ``backward`` one lies before its source.
    """

    links: I64
    begin: I64
    end: I64
    unbound: int
    backward: int


def drawable_links(trace: Trace, chosen: Chosen) -> Drawable:
    """Which of the links that are kept Perfetto can draw.

    The clocks of host and device differ, so a target may start before its source: the times move, inside the slices
    that they are of, until they are in order.
    """
    own, slices, window = trace.links, trace.slices, chosen.wanted.window
    links = np.flatnonzero(chosen.links)
    here = np.append(chosen.slices, False)
    bound = here[own.source_slice[links]] & here[own.target_slice[links]]
    links, unbound = links[bound], int((~bound).sum())

    def inside(items: I64, when: I64) -> tuple[I64, I64, I64]:
        """First and last time in the slices ``items``, and ``when``, moved in between."""
        start, end = slices.start[items], slices.end[items]
        if chosen.wanted.clip:
            start, end = np.clip(start, window.start, window.end), np.clip(end, window.start, window.end)
        last = np.maximum(end - 1, start)
        return start, last, np.clip(when, start, last)

    first, last, begin = inside(own.source_slice[links], own.source_time[links])
    _, latest, end = inside(own.target_slice[links], own.target_time[links])
    late = begin > end
    begin = np.where(late, np.clip(end, first, last), begin)
    end = np.where(late, np.minimum(np.maximum(end, begin), latest), end)
    kept = begin <= end
    return Drawable(links[kept], begin[kept], end[kept], unbound, int((~kept).sum()))


def _links(trace: Trace, found: Drawable, place: I64, origin: int, nests: I64, threads: _Threads) -> Iterable[bytes]:
    """An s and an f for every link."""
    own = trace.links
    for number, (link, begin, end) in enumerate(
        zip(found.links.tolist(), found.begin.tolist(), found.end.tolist(), strict=True)
    ):
        name = _text(trace.link_categories[int(own.category[link])])
        for phase, item, time in ((b"s", own.source_slice[link], begin), (b"f", own.target_slice[link], end)):
            lane = int(trace.slices.lane[item])
            yield b'{"ph":"%b","bp":"e","name":%b,"cat":%b,"id":%d,"pid":%d,"tid":%d,"ts":%b}' % (
                phase, name, name, number + 1, threads.process(lane), threads.of(lane, int(nests[place[item]])),
                microseconds(time - origin),
            )  # fmt: skip


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
