"""The events of a crop as they stand in the file, or cut at the edges of the range."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import msgspec
import numpy as np

from npu_tui.crop.chosen import Chosen
from npu_tui.ingest.args.json_args import JsonArgs
from npu_tui.ingest.json.decoding.events import Event, decode_events
from npu_tui.ingest.times import INVALID, parse_time
from npu_tui.trace.model import Trace

_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_OPEN, _CLOSE = {"B": "E", "b": "e"}, {"E", "e"}


def kept_events(trace: Trace, reader: JsonArgs, chosen: Chosen) -> Iterator[bytes]:
    """The text of every event that is kept, in the order of the file.

    Metadata is kept as it is, samples of counters and instants if they lie in the range. Raises ``InputError`` if the
    file is gone or has changed.
    """
    return _Keeping(trace, reader, chosen).events()


class _Keeping:
    def __init__(self, trace: Trace, reader: JsonArgs, chosen: Chosen) -> None:
        self._trace = trace
        self._reader = reader
        self._window = chosen.wanted.window
        self._clip = chosen.wanted.clip
        self._kept = chosen.events(trace)
        self._slice_of = _slices_by_event(trace) if self._clip else None
        lanes = chosen.wanted.lanes
        self._pids = None if lanes is None else {trace.layers[trace.lanes[lane].layer].pid for lane in lanes}
        self._named = bool(chosen.wanted.names)
        self._open: defaultdict[tuple[object, ...], list[bool]] = defaultdict(list)

    def events(self) -> Iterator[bytes]:
        for first, texts in self._reader.texts():
            kept = self._kept[first : first + len(texts)]
            try:
                heads = decode_events(b"[%b]" % b",".join(texts))
            except ValueError:
                continue  # alone in its chunk, and no event for us either
            for number, (text, head) in enumerate(zip(texts, heads, strict=True)):
                if head.ph == "X":
                    if kept[number]:
                        yield self._cut(first + number, text) if self._clip else text
                elif self._keeps(head, bool(kept[number])):
                    yield text

    def _keeps(self, head: Event, bound: bool) -> bool:
        phase = head.ph
        if phase == "M":
            return True
        if phase in _OPEN:
            self._open[_key(_OPEN[phase], head)].append(bound)
            return bound
        if phase in _CLOSE:
            opened = self._open[_key(phase, head)]
            return opened.pop() if opened else False
        if phase in ("s", "t", "f"):
            return bound
        if self._named or (self._pids is not None and head.pid not in self._pids):
            return False
        time = parse_time(head.ts)
        return time != INVALID and bool(self._window.start <= time - self._trace.start_ns < self._window.end)

    def _cut(self, ordinal: int, text: bytes) -> bytes:
        """The slice of event ``ordinal`` with what of it lies in the range; as it stands if that is all of it."""
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
    found = np.full(sum(trace.events.values()), -1, np.int64)
    found[trace.slices.event] = np.arange(len(trace.slices))
    return found


def _key(phase: str, head: Event) -> tuple[object, ...]:
    """What the two ends of a slice have in common."""
    return (phase, head.pid, head.tid) if phase == "E" else (phase, head.pid, head.cat, head.id, head.name)


def microseconds(ns: int) -> bytes:
    """``ns`` as microseconds with three decimals."""
    sign, ns = ("-" if ns < 0 else ""), abs(ns)
    return f"{sign}{ns // 1000}.{ns % 1000:03d}".encode()


def _like(before: msgspec.Raw | None, ns: int) -> bytes:
    """``ns`` in microseconds, a text in quotes where the value ``before`` is one."""
    quoted = before is not None and bytes(before).lstrip().startswith(b'"')
    return b'"%b"' % microseconds(ns) if quoted else microseconds(ns)
