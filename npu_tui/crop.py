"""A smaller trace: the events of a range, written so that Insight and Perfetto open them."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.device import EVERYTHING, Window
from npu_tui.analysis.launches import Around, dequeue_of, enqueue_of
from npu_tui.load.args import JsonArgs
from npu_tui.load.json_columns import PHASES
from npu_tui.load.json_events import CROPPED, Event, decode_events, strict_json
from npu_tui.load.json_reader import mark_pairs
from npu_tui.load.times import INVALID, parse_time
from npu_tui.load.unpack import plain_path
from npu_tui.profile.profile import Profile
from npu_tui.subjects import subject_of
from npu_tui.trace.arrays import Bools
from npu_tui.trace.message import SaidError, message
from npu_tui.trace.model import HOST_TO_DEVICE, TASK_QUEUE, Trace
from npu_tui.trace.side_file import open_regular
from npu_tui.trace.transfers import groups_of
from npu_tui.whole_file import replacing


class CropRequest(Struct, frozen=True):
    """What to keep: slices that touch ``window``, on ``lanes`` (None: all), whose name contains one of ``names``.

    With ``clip`` slices are cut at the edges of the window, and nothing outside of it is kept.
    """

    window: Window = EVERYTHING
    lanes: frozenset[int] | None = None
    names: tuple[str, ...] = ()
    clip: bool = False


class NoCropError(SaidError):
    """A crop that cannot be made."""


class Cropped(Struct, frozen=True):
    """What a crop keeps of how many slices and links, how many events it writes, and the ``bytes`` of its file."""

    path: str
    slices: int
    of_slices: int
    links: int
    of_links: int
    events: int
    bytes: int


def crop(
    part: Profile, path: Path, lanes: Sequence[str] = (), names: Sequence[str] = (), clip: bool = False
) -> Cropped:
    """Write the range of ``part`` to the file ``path``: lanes and slices with one of these texts in their names.

    Raises ``NoCropError``, ``InputError`` if the file of the trace is gone or has changed, ``OSError``.
    """
    trace, window = part.trace, part.window
    if not str(path).endswith((".json", ".json.gz")):
        raise NoCropError(message("crop.bad_output"))
    if not isinstance(trace.args, JsonArgs) or not len(trace.slices):
        otherwise = "crop.database" if part.kind == "database" else "crop.no_text"
        raise NoCropError(message(subject_of(trace).refusals.get("crop", otherwise), path=part.path))
    if any(warning.code in ("odd.in_ns", "odd.far_times") for warning in trace.health.warnings):
        raise NoCropError(message("crop.unit", path=part.path))
    on = lanes_named(trace, lanes) if lanes else None
    if on is not None and not on:
        layers = ", ".join(dict.fromkeys(layer.name for layer in trace.layers if layer.lanes))
        raise NoCropError(message("crop.no_lane", name=", ".join(lanes), names=layers))
    kept = chosen(trace, CropRequest(Window(window.start, window.end), on, tuple(names), clip))
    slices, links = int(kept.slices.sum()), int(kept.links.sum())
    if not slices:
        raise NoCropError(message("crop.nothing"))
    events = write_events(path, chain(kept_events(trace, trace.args, kept), _range_of(trace, window)), frame_of(trace))
    return Cropped(str(path), slices, len(trace.slices), links, len(trace.links), events, path.stat().st_size)


def _range_of(trace: Trace, window: Window) -> Iterator[bytes]:
    """The event that says what range a crop holds: a reader must not take the rest for silence."""
    if window != EVERYTHING and trace.layers:
        start, end = max(window.start, 0), min(window.end, trace.end)
        span = {"start_ns": trace.start_ns + start, "end_ns": trace.start_ns + end}
        yield msgspec.json.encode({"ph": "M", "name": CROPPED, "pid": trace.layers[0].pid, "tid": 0, "args": span})


class KeptMasks(Struct, frozen=True):
    """Masks over the slices and the links of a trace that are kept; (slices,) and (links,)."""

    wanted: CropRequest
    slices: Bools
    links: Bools

    def events(self, trace: Trace) -> Bools:
        """Which events are kept because of a slice or a link, by ordinal; (events,)."""
        events = np.zeros(sum(trace.events.values()), np.bool_)
        events[trace.slices.event[self.slices]] = True
        events[trace.links.source_event[self.links]] = True
        events[trace.links.target_event[self.links]] = True
        return events


def lanes_named(trace: Trace, words: Sequence[str]) -> frozenset[int]:
    """The lanes whose name, or whose layer's name, contains one of ``words``; case does not count."""
    lanes = set()
    for lane in trace.file_lanes:
        texts = (lane.name.lower(), trace.layers[lane.layer].name.lower())
        if any(word.strip().lower() in text for word in words for text in texts):
            lanes.add(lane.index)
    return frozenset(lanes)


def chosen(trace: Trace, wanted: CropRequest) -> KeptMasks:
    """What of ``trace`` is kept as ``wanted`` says.

    A link stays with its target, a collective has its tasks with it. Unless slices are clipped a link brings the slice
    at its source, and a launch its way through the task queue, wherever they are: they say who launched the
    kernels.
    """
    links = trace.links
    touched, allowed = _touched(trace, wanted), _on_lanes(trace, wanted)
    if not wanted.clip and not wanted.names:
        touched |= _tasks(trace, touched) & allowed
    target, source = links.target_slice, links.source_slice
    free_ends = not wanted.names  # a link end without a slice has no name to look for
    inside = wanted.window.holds(links.target_time)
    to_kept = np.append(touched, False)[target]
    to_kept |= (target < 0) & inside & free_ends & _lanes_kept(wanted, links.target_lane)
    from_there = np.append(touched if wanted.clip else allowed, False)[source]
    from_there |= (source < 0) & _lanes_kept(wanted, links.source_lane)
    links_kept = to_kept & from_there
    if wanted.clip:
        links_kept &= inside & wanted.window.holds(links.source_time)
    pulled = np.zeros(len(touched), np.bool_)
    pulled[source[links_kept & (source >= 0)]] = True
    if not wanted.clip:
        launches = np.intersect1d(np.flatnonzero(links_kept), trace.links_of(HOST_TO_DEVICE))
        dequeue = dequeue_of(trace, launches)
        queued = np.concatenate([dequeue, enqueue_of(trace, dequeue)])
        pulled[queued[queued >= 0]] = True
        pulled |= _slices_holding(trace, pulled & ~touched)
        pulled &= allowed
        queue = trace.links_of(TASK_QUEUE)
        both = np.append(touched | pulled, False)
        links_kept[queue[both[target[queue]] & both[source[queue]]]] = True
    return KeptMasks(wanted, touched | pulled, links_kept)


def _tasks(trace: Trace, touched: Bools) -> Bools:
    """The tasks on planes of the collectives among ``kept``: a collective that is kept whole keeps all of them."""
    slices = trace.slices
    tasks = np.zeros(len(touched), np.bool_)
    for group, planes in groups_of(trace):
        collectives = group.first + np.flatnonzero(touched[group.first : group.last])
        if not len(collectives):
            continue
        latest = np.maximum.accumulate(slices.end[collectives])
        for plane in planes:
            start = slices.start[plane.first : plane.last]
            at = np.searchsorted(slices.start[collectives], start, "right") - 1
            tasks[plane.first : plane.last] = (at >= 0) & (start < latest[np.maximum(at, 0)])
    return tasks


def _touched(trace: Trace, wanted: CropRequest) -> Bools:
    slices, window = trace.slices, wanted.window
    touched = _on_lanes(trace, wanted)
    if window != EVERYTHING:
        touched &= ((slices.end > window.start) & (slices.start < window.end)) | window.holds(slices.start)
    if wanted.names:
        lowered = [word.lower() for word in wanted.names]
        named = np.array([any(word in name.lower() for word in lowered) for name in trace.names] + [False])
        touched &= named[slices.name]
    return touched


def _on_lanes(trace: Trace, wanted: CropRequest) -> Bools:
    if wanted.lanes is None:
        return np.ones(len(trace.slices), np.bool_)
    mask = np.zeros(len(trace.slices), np.bool_)
    for lane in wanted.lanes:
        mask[trace.lanes[lane].first : trace.lanes[lane].last] = True
    return mask


def _lanes_kept(wanted: CropRequest, lane: npt.NDArray[np.int32]) -> Bools:
    if wanted.lanes is None:
        return np.ones(len(lane), np.bool_)
    on_lanes: Bools = np.isin(lane, np.array(sorted(wanted.lanes), np.int32))
    return on_lanes


def _slices_holding(trace: Trace, inner: Bools) -> Bools:
    """The slices that hold the slices ``inner`` on their lanes."""
    around = np.zeros(len(inner), np.bool_)
    at = np.flatnonzero(inner)
    parent = Around(trace, np.ones(len(inner), np.bool_)).parents() if len(at) else at
    while len(at):
        at = np.unique(parent[at])
        at = at[at >= 0]
        at = at[~around[at]]
        around[at] = True
    return around


_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_BOUND = frozenset("stfBEbe")
"""Phases of events that are kept for a slice or a link alone."""


def kept_events(trace: Trace, reader: JsonArgs, chosen: KeptMasks) -> Iterator[bytes]:
    """The text of every event that is kept, in the order of the file.

    Metadata is kept as it is, samples of counters and instants if they lie in the range. Raises ``InputError`` if the
    file is gone or has changed.
    """
    return _Keeping(trace, reader, chosen).events()


def _heads(texts: list[bytes]) -> tuple[list[bytes], list[Event]]:
    """``texts`` as Perfetto and Insight take them, and their events."""
    try:
        return texts, decode_events(b"[%b]" % b",".join(texts))
    except ValueError:  # alone in its chunk, as no strict parser takes it
        texts = [strict_json(text) for text in texts]
        return texts, decode_events(b"[%b]" % b",".join(texts))


class _Keeping:
    def __init__(self, trace: Trace, reader: JsonArgs, chosen: KeptMasks) -> None:
        self._trace = trace
        self._reader = reader
        self._window = chosen.wanted.window
        self._clip = chosen.wanted.clip
        self._kept = chosen.events(trace)
        self._slice_of = _slices_by_event(trace) if self._clip else None
        lanes = chosen.wanted.lanes
        self._pids = None if lanes is None else {trace.layers[trace.lanes[lane].layer].pid for lane in lanes}
        self._named = bool(chosen.wanted.names)
        self._ends = self._kept_ends()

    def events(self) -> Iterator[bytes]:
        for first, texts in self._reader.texts():
            bound = self._kept[first : first + len(texts)]
            texts, heads = _heads(texts)
            for number, (text, head) in enumerate(zip(texts, heads, strict=True)):
                if head.ph == "X":
                    if bound[number]:
                        yield self._cut(first + number, text) if self._clip else text
                elif first + number in self._ends or self._keeps(head, bool(bound[number])):
                    yield text

    def _kept_ends(self) -> set[int]:
        """The ordinals of the ends of the slices that are kept, of those that are two events."""
        if not self._trace.events.keys() & PHASES:
            return set()
        numbered = [
            (first + number, head)
            for first, texts in self._reader.texts()
            for number, head in enumerate(_heads(texts)[1])
            if head.ph in PHASES
        ]
        pairs = mark_pairs([head for _, head in numbered]).pairs
        return {numbered[end][0] for beginning, end in pairs if self._kept[numbered[beginning][0]]}

    def _keeps(self, head: Event, bound: bool) -> bool:
        phase = head.ph
        if phase == "M":
            return True
        if phase in _BOUND:
            return bound
        if self._named or (self._pids is not None and head.pid not in self._pids):
            return False
        time = parse_time(head.ts)
        return time != INVALID and bool(self._window.start <= time - self._trace.start_ns < self._window.end)

    def _cut(self, ordinal: int, text: bytes) -> bytes:
        """The slice of event ``ordinal`` cut at the edges of the range; unchanged if it lies inside."""
        assert self._slice_of is not None
        item = int(self._slice_of[ordinal])
        start, end = int(self._trace.slices.start[item]), int(self._trace.slices.end[item])
        low, high = max(start, self._window.start), min(end, self._window.end)
        if (low, high) == (start, end):
            return text
        fields = _object(text)
        fields["ts"] = msgspec.Raw(_like(fields.get("ts"), self._trace.start_ns + low))
        fields["dur"] = msgspec.Raw(_like(fields.get("dur"), max(high - low, 0)))
        return msgspec.json.encode(fields)


def _slices_by_event(trace: Trace) -> np.ndarray:
    slices = np.full(sum(trace.events.values()), -1, np.int64)
    slices[trace.slices.event] = np.arange(len(trace.slices))
    return slices


def microseconds(ns: int) -> bytes:
    """``ns`` as microseconds with three decimals."""
    sign, ns = ("-" if ns < 0 else ""), abs(ns)
    return f"{sign}{ns // 1000}.{ns % 1000:03d}".encode()


def _like(before: msgspec.Raw | None, ns: int) -> bytes:
    """``ns`` in microseconds, a text in quotes where the value ``before`` is one."""
    quoted = before is not None and bytes(before).lstrip().startswith(b'"')
    return b'"%b"' % microseconds(ns) if quoted else microseconds(ns)


_LONGEST = 16 << 20
"""A longer text around the events is not kept."""

Frame = tuple[bytes, bytes]
BARE: Frame = (b"[\n", b"\n]\n")
"""The text before and after the events of a plain list."""


def frame_of(trace: Trace) -> Frame:
    """The text before and after the events of ``trace``: settings of the profiler beside ``traceEvents``."""
    chunks = trace.chunks
    if len(trace.files) != 1 or not len(chunks.offset):
        return BARE
    first, last = int(chunks.offset[0]), int(chunks.offset[-1] + chunks.length[-1])
    try:
        with open_regular(plain_path(trace.files[0])) as file:
            if first > _LONGEST or os.fstat(file.fileno()).st_size - last > _LONGEST:
                return BARE
            head = file.read(first)
            file.seek(last)
            tail = file.read()
    except OSError:
        return BARE
    try:
        content = msgspec.json.decode(head + tail)
    except ValueError:
        return BARE
    events = content.get("traceEvents") if isinstance(content, dict) else content
    return (head, tail) if events == [] else BARE


def write_events(path: Path, events: Iterable[bytes], frame: Frame) -> int:
    """Write ``events`` to ``path``, packed if its name ends with ``.gz``; returns how many there are.

    The file is there as a whole or not at all, and may be the one that the events are read from. Raises ``OSError``
    that names ``path``.
    """
    with replacing(path) as out:
        if path.suffix == ".gz":
            with gzip.GzipFile("", "wb", 6, out, 0) as packed:
                return _written(packed, events, frame)
        return _written(out, events, frame)


def _written(out: BinaryIO | gzip.GzipFile, events: Iterable[bytes], frame: Frame) -> int:
    head, tail = frame
    out.write(head)
    count = 0
    for event in events:
        if count:
            out.write(b",\n")
        out.write(event)
        count += 1
    out.write(tail)
    return count
