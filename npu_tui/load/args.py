"""The args of events, read again from their bytes when they are asked for.

A trace keeps a few args as columns and leaves all others in its file. ``Chunks`` says where the bytes of an event are:
in a chunk of whole events, which is decoded, or taken apart by the library where many events are asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from npu_tui.load.errors import InputError
from npu_tui.load.json_events import loose_value
from npu_tui.load.unpack import has_plain_copy, open_file, plain_path
from npu_tui.native.layout import CHOSEN_REGION, CHOSEN_UNREAD, CHOSEN_WORD, PADDING
from npu_tui.native.library import Library, library
from npu_tui.trace.args import Arg, ArgColumn, ArgReader, ScanMatches, always, args_match, as_number, column_of, joined
from npu_tui.trace.arrays import I64
from npu_tui.trace.message import message
from npu_tui.trace.model import Chunks, EventFile, Trace
from npu_tui.trace.text import on_one_line

_WORD_BYTES = 8  # the library compares keys a word at a time, also past the end of the last one
_TEXTS = 1 << 11
_HEAP = 1 << 18
"""So many different texts and bytes of them; events with more are left unread."""


class ChosenArgs:
    """The args ``keys`` of events, by the library, from pieces of the file that are written into ``view``.

    There is a row for each event; ``positions`` (n,) are those in their pieces. ``values`` and ``kinds``
    (``CHOSEN_ABSENT`` and the others) are (keys, n).
    """

    def __init__(self, library: Library, room: tuple[int, int, int], keys: Sequence[str], positions: I64) -> None:
        """``room`` is for so many bytes and pieces at a time, and events of a piece."""
        self._library, (most_bytes, most, most_events) = library, room
        text = np.zeros(most_bytes + PADDING, np.uint8)
        self.view = text.data
        names = [key.encode() for key in keys]
        places = np.cumsum([0] + [len(name) for name in names])
        rows = len(positions)
        self.values = np.zeros((len(keys), rows), np.int64)
        self.kinds = np.zeros((len(keys), rows), np.uint8)
        self._entries, self._heap = np.zeros((_TEXTS, 3), np.int64), np.zeros(_HEAP, np.uint8)
        self._pieces = np.zeros((most, 4), np.int64)
        self._arrays: dict[str, npt.NDArray[Any]] = {
            "text": text,
            "pieces": self._pieces,
            "bounds": np.empty((most_events, 2), np.int64),
            "positions": np.ascontiguousarray(positions, np.int64),
            "keys": np.array([[at, len(name)] for at, name in zip(places[:-1].tolist(), names, strict=True)], np.int64),
            "letters": np.frombuffer(b"".join(names) + bytes(_WORD_BYTES), np.uint8),
            "values": self.values,
            "kinds": self.kinds,
            "slots": np.zeros(2 * _TEXTS, np.int32),
            "entries": self._entries,
            "heap": self._heap,
        }
        # One block of memory names all others, so that a call of the library takes one pointer.
        self._plan = np.zeros(2 * len(CHOSEN_REGION) + len(CHOSEN_WORD), np.int64)
        for name, word in CHOSEN_REGION.items():
            self._plan[word : word + 2] = self._arrays[name].ctypes.data, self._arrays[name].nbytes
        self._plan[CHOSEN_WORD["count"]], self._plan[CHOSEN_WORD["rows"]] = len(keys), rows

    def take(self, first: int, pieces: I64) -> I64:
        """Read the rows from ``first`` on of ``pieces`` that lie in the text; those that are left unread.

        Each piece is its offset in the text, its length, how many events it has, and the row after its last; (n, 4).
        """
        self._pieces[: len(pieces)] = pieces
        self._plan[CHOSEN_WORD["asked"]] = len(pieces)
        if not self._library.chosen(self._plan, self._plan.nbytes, first):
            return np.zeros(0, np.int64)
        return first + np.flatnonzero(self.kinds[0, first : int(pieces[-1, 3])] == CHOSEN_UNREAD)

    @property
    def texts(self) -> list[str]:
        """The texts that values of ``CHOSEN_TEXT`` are the places of."""
        known = self._entries[: int(self._plan[CHOSEN_WORD["known"]])]
        data = self._heap[: int(self._plan[CHOSEN_WORD["used"]])].tobytes()
        return [data[at : at + length].decode() for _, at, length in known.tolist()]


_GAP = 32 << 10  # so many bytes between chunks are read sooner than skipped
_TOGETHER = 256 << 10  # bytes of chunks that are read at a time; they stay in the cache
_SHARE = 1024  # chunks that a thread reads before it takes others
_THREADS = 4  # at most: each of them holds buffers of its own

_SAFE = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789 !#$%&'()*+,-.:;<=>?@[]^_`{|}~")
"""Lower-case characters that every JSON writer leaves as they are."""


class _Args(msgspec.Struct, gc=False):
    args: msgspec.Raw = msgspec.Raw(b"")


_raws = msgspec.json.Decoder(list[msgspec.Raw]).decode
_events = msgspec.json.Decoder(list[_Args]).decode
_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_text = msgspec.json.Decoder(str).decode


class JsonArgs(ArgReader, frozen=True, eq=False):
    """The ``ArgReader`` of the events in ``files``, ``count`` of them, that ``chunks`` finds again.

    ``path`` is what an error names.
    """

    path: str
    files: tuple[EventFile, ...]
    chunks: Chunks
    count: int

    @property
    def is_ready(self) -> bool:
        """Whether every file is unpacked."""
        return all(has_plain_copy(file) for file in self.files)

    def one(self, ordinal: int) -> dict[str, Any]:
        """All args of an event; empty if it has none."""
        args = self.event(ordinal).get("args")
        return args if isinstance(args, dict) else {}

    def event(self, ordinal: int) -> dict[str, Any]:
        """The whole event ``ordinal``; empty if that element of the file is no object."""
        try:
            event = loose_value(self.event_bytes(ordinal))
        except ValueError:
            raise self._changed() from None
        return event if isinstance(event, dict) else {}

    def event_bytes(self, ordinal: int) -> bytes:
        """The text of event ``ordinal`` as it stands in the file."""
        at = int(np.searchsorted(self.chunks.first_event, ordinal, "right")) - 1
        return self._texts(at, [int(ordinal - self.chunks.first_event[at])])[0]

    def texts(self) -> Iterator[tuple[int, list[bytes]]]:
        """The events as they stand in the file, chunk by chunk: the ordinal of the first, and the text of each."""
        bounds = [*self.chunks.first_event.tolist(), self.count]
        for block in self._near(np.arange(len(bounds) - 1)):
            data, base = self._read(block.start, block.stop - 1), int(self.chunks.offset[block.start])
            for at in block:
                begin = int(self.chunks.offset[at]) - base
                chunk = data[begin : begin + int(self.chunks.length[at])]
                yield bounds[at], self._texts_of(chunk, at, list(range(bounds[at + 1] - bounds[at])))

    def many(self, ordinals: I64, keys: Sequence[str]) -> list[list[Any]]:
        """The args ``keys`` of many events."""
        return [column.objects for column in self.columns(ordinals, keys)]

    def columns(self, ordinals: I64, keys: Sequence[str]) -> list[ArgColumn]:
        """``many`` as columns; a chunk that holds several of the events is read once, several chunks at a time."""
        order = np.argsort(ordinals, kind="stable")
        chunk = np.searchsorted(self.chunks.first_event, ordinals[order], "right") - 1
        position = ordinals[order] - self.chunks.first_event[chunk]
        firsts = np.flatnonzero(np.diff(chunk, prepend=-1))
        bounds = np.append(firsts, len(order))
        numbers = chunk[firsts]

        def read(share: range) -> list[ArgColumn]:
            rows = slice(int(bounds[share.start]), int(bounds[share.stop]))
            groups = bounds[share.start : share.stop + 1] - rows.start
            return self._columns_of(numbers[share.start : share.stop], groups, position[rows], tuple(keys))

        if len(numbers) < 2 * _SHARE:
            parts = [read(range(len(numbers)))]  # few chunks are not worth a thread
        else:
            from concurrent.futures import ThreadPoolExecutor  # a first picture needs no args

            shares = [range(low, min(low + _SHARE, len(numbers))) for low in range(0, len(numbers), _SHARE)]
            with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:
                parts = list(pool.map(read, shares))
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return [joined([part[k] for part in parts])[back] for k in range(len(keys))]

    def scan(self, ordinals: I64, wanted: Sequence[Arg], go_on: Callable[[], bool] = always) -> Iterator[ScanMatches]:
        """Which events match, block by block: bytes are searched first, then the events are decoded."""
        bounds = np.append(np.searchsorted(ordinals, self.chunks.first_event), len(ordinals))
        needles = [needle for needle in map(_needle, wanted) if needle]
        chunks = np.flatnonzero(np.diff(bounds))
        blocks = self._near(chunks)
        for number, block in enumerate(blocks):
            if not go_on():
                return
            first, last = chunks[[block.start, block.stop - 1]].tolist()
            places = self._in_block(first, last, ordinals, bounds, needles, wanted)
            yield ScanMatches(places, (number + 1) / len(blocks))

    def _columns_of(self, chunks: I64, bounds: I64, positions: I64, keys: tuple[str, ...]) -> list[ArgColumn]:
        """The args ``keys`` of the events at ``positions`` of ``chunks``; ``bounds`` part the events by chunk."""
        if not len(chunks):
            return [column_of([]) for _ in keys]
        compiled = library()
        if compiled is None:
            rows = [
                row
                for at, (low, high) in zip(chunks.tolist(), pairwise(bounds.tolist()), strict=True)
                for row in _args_of_events(self._texts(at, positions[low:high].tolist()), keys)
            ]
            return [column_of(values) for values in zip(*rows, strict=True)]
        table = self.chunks
        events = self._following(chunks) - table.first_event[chunks]
        blocks = self._near(chunks)
        begin = table.offset[chunks[[block.start for block in blocks]]]  # of each block
        begin = np.repeat(begin, list(map(len, blocks)))
        places = np.stack((table.offset[chunks] - begin, table.length[chunks], events, bounds[1:]), axis=1)
        most_bytes = max(self._bytes_of(int(chunks[block.start]), int(chunks[block.stop - 1])) for block in blocks)
        chosen = ChosenArgs(compiled, (most_bytes, max(map(len, blocks)), int(events.max())), keys, positions)
        unread: list[int] = []
        values: list[tuple[Any, ...]] = []
        for block in blocks:
            low, high = block.start, block.stop
            self._read_into(int(chunks[low]), int(chunks[high - 1]), chosen.view)
            left = chosen.take(int(bounds[low]), places[low:high])
            unread += left.tolist()
            owner = low + np.searchsorted(places[low:high, 3], left, "right")
            for number in np.unique(owner).tolist():
                wanted = positions[left[owner == number]].tolist()
                values += _args_of_events(self._texts(int(chunks[number]), wanted), keys)
        known = chosen.texts
        if not unread:
            return [ArgColumn(kind, value, known, ()) for kind, value in zip(chosen.kinds, chosen.values, strict=True)]
        # The rows that were left are read one after the other and take the place of their own.
        index = np.arange(len(positions))
        index[unread] = len(positions) + np.arange(len(unread))
        rest = list(zip(*values, strict=True)) or [()] * len(keys)
        return [
            joined([ArgColumn(kind, value, known, ()), column_of(others)])[index]
            for kind, value, others in zip(chosen.kinds, chosen.values, rest, strict=True)
        ]

    def _following(self, chunks: I64) -> I64:
        """The ordinal behind the last event of each of ``chunks``; (n,)."""
        firsts = self.chunks.first_event
        last = chunks == len(firsts) - 1
        return np.where(last, self.count, firsts[np.where(last, 0, chunks + 1)])

    def _near(self, chunks: I64) -> list[range]:
        """Which of the ascending ``chunks`` are read together: no more than a few bytes lie between them."""
        table = self.chunks
        begin, end, file = table.offset[chunks], table.offset[chunks] + table.length[chunks], table.file[chunks]
        apart = (file[1:] != file[:-1]) | (begin[1:] - end[:-1] > _GAP) | (begin[1:] < end[:-1])
        firsts = [0] if len(chunks) else []
        for at, is_apart in enumerate(apart.tolist(), 1):
            if is_apart or end[at] - begin[firsts[-1]] > _TOGETHER:
                firsts.append(at)
        return [range(low, high) for low, high in pairwise([*firsts, len(chunks)])]

    def _read(self, first: int, last: int) -> bytes:
        """The bytes from chunk ``first`` to chunk ``last`` of the same file."""
        data = bytearray(self._bytes_of(first, last))
        self._read_into(first, last, memoryview(data))
        return bytes(data)

    def _bytes_of(self, first: int, last: int) -> int:
        return int(self.chunks.offset[last] + self.chunks.length[last] - self.chunks.offset[first])

    def _read_into(self, first: int, last: int, view: memoryview) -> None:
        """Write the bytes from chunk ``first`` to chunk ``last`` of the same file into ``view``.

        Raises ``InputError`` if the file is gone or has changed.
        """
        file, length = self.files[int(self.chunks.file[first])], self._bytes_of(first, last)
        try:
            opened = open_file(plain_path(file))
            size = os.fstat(opened.descriptor).st_size
            got = os.preadv(opened.descriptor, [view[:length]], int(self.chunks.offset[first]))
        except OSError as error:
            raise InputError(message("input.gone", path=self.path, why=error.strerror or str(error))) from error
        if size != file.size or got != length:
            raise self._changed()

    def _texts(self, at: int, positions: list[int]) -> list[bytes]:
        """The texts of the events at ``positions`` of chunk ``at``."""
        return self._texts_of(self._read(at, at), at, positions)

    def _texts_of(self, data: bytes, at: int, positions: list[int]) -> list[bytes]:
        """The texts of the events at ``positions`` of chunk ``at``, whose bytes are ``data``."""
        firsts = self.chunks.first_event
        following = int(firsts[at + 1]) if at + 1 < len(firsts) else self.count
        if following - int(firsts[at]) == 1:
            return [data.strip()] * len(positions)  # alone in its chunk, perhaps because no strict parser takes it
        try:
            raws = _raws(b"[%b]" % data)
            return [bytes(raws[position]) for position in positions]
        except (ValueError, IndexError, RecursionError):
            raise self._changed() from None

    def _in_block(
        self, first: int, last: int, ordinals: I64, bounds: I64, needles: list[bytes], wanted: Sequence[Arg]
    ) -> I64:
        table = self.chunks
        data, base = self._read(first, last), int(table.offset[first])
        offset, length = table.offset[first : last + 1] - base, table.length[first : last + 1]
        matches: list[int] = []
        for number in _chunks_with(needles, data.lower(), offset, length):
            low, high = bounds[first + number : first + number + 2].tolist()
            if high > low:
                chunk = data[int(offset[number]) : int(offset[number] + length[number])]
                begin = int(table.first_event[first + number])
                matches += [low + place for place in self._in_chunk(chunk, begin, ordinals[low:high], needles, wanted)]
        return np.array(matches, np.int64)

    def _in_chunk(
        self, data: bytes, first_event: int, ordinals: I64, needles: list[bytes], wanted: Sequence[Arg]
    ) -> list[int]:
        """The places among ``ordinals`` whose events in ``data`` match; each match holds all ``needles``."""
        try:
            events = _events(b"[%b]" % data)
        except (ValueError, RecursionError):
            return [place for place, one in enumerate(ordinals.tolist()) if args_match(self.one(one), wanted)]
        matches = []
        for place, position in enumerate((ordinals - first_event).tolist()):
            raw = bytes(events[position].args)
            lowered = raw.lower()
            if all(needle in lowered for needle in needles) and _arg_matches(raw, wanted):
                matches.append(place)
        return matches

    def _changed(self) -> InputError:
        return InputError(message("input.changed", path=self.path))


def json_args(trace: Trace) -> JsonArgs:
    """The reader of a trace that was loaded from JSON."""
    return JsonArgs(trace.path, trace.files, trace.chunks, sum(trace.events.values()))


def _args_of_events(texts: list[bytes], keys: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """The args ``keys`` of every event, strictly decoded if all events are quite the profiler's."""
    try:
        events = _decoder(keys)(b"[%b]" % b",".join(texts))
    except (ValueError, RecursionError):
        return [_tolerated(text, keys) for text in texts]
    return [msgspec.structs.astuple(event.args) for event in events]


@lru_cache(maxsize=16)
def _decoder(keys: tuple[str, ...]) -> Callable[[bytes], list[Any]]:
    """Decodes events of which nothing but the args ``keys`` is kept."""
    named = [(f"arg_{number}", Any, msgspec.field(name=key, default=None)) for number, key in enumerate(keys)]
    args = msgspec.defstruct("_Chosen", named, gc=False)
    event = msgspec.defstruct("_Event", [("args", args, msgspec.field(default_factory=args))], gc=False)
    return msgspec.json.Decoder(list[event]).decode  # type: ignore[valid-type]


def _tolerated(text: bytes, keys: tuple[str, ...]) -> tuple[Any, ...]:
    """The args ``keys`` of one event that is not written quite as the profiler does."""
    try:
        event = loose_value(text)
    except ValueError:
        event = None
    args = event.get("args") if isinstance(event, dict) else None
    return tuple(args.get(key) for key in keys) if isinstance(args, dict) else (None,) * len(keys)


def _needle(wanted: Arg) -> bytes:
    """The longest bytes that stand in the file wherever ``wanted`` matches; empty if none are sure to."""
    # A number may be written in more than one way.
    exact = wanted.sign == "~" or (wanted.sign == "=" and as_number(wanted.text) is None)
    texts = [wanted.key, *wanted.text.split()] if exact else [wanted.key]
    safe = [text.encode() for text in texts if set(text.encode()) <= _SAFE]
    return max(safe, key=len, default=b"")


def _chunks_with(needles: list[bytes], lowered: bytes, offset: I64, length: I64) -> list[int]:
    """Which chunks of a block hold all of ``needles``; what lies between chunks belongs to none."""
    chosen = set(range(len(offset)))
    for needle in needles:
        having: set[int] = set()
        at = lowered.find(needle)
        while at >= 0:
            number = int(np.searchsorted(offset, at, "right")) - 1
            end = int(offset[number] + length[number])
            if at + len(needle) <= end:
                having.add(number)
            at = lowered.find(needle, max(end, at + 1))
        chosen &= having
    return sorted(chosen)


def _arg_matches(raw: bytes, wanted: Sequence[Arg]) -> bool:
    try:
        args = [(key.lower(), _value_text(value)) for key, value in _object(raw).items()]
    except (ValueError, RecursionError):
        return False
    return all(any(arg.holds(key, value) for key, value in args) for arg in wanted)


def _value_text(raw: msgspec.Raw) -> str:
    """A value as it is shown: a text without its quotes, everything else as it stands in the file."""
    data = bytes(raw)
    try:
        text = _text(data) if data.startswith(b'"') else data.decode(errors="replace")
    except ValueError:
        text = str(loose_value(data))
    return on_one_line(text).lower()
