"""Slices found by their args, which are only in the file: bytes are searched first, then the events are decoded."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from npu_tui.ingest.args.one import fetch_event
from npu_tui.ingest.errors import InputError
from npu_tui.ingest.json.lenient import loose_value
from npu_tui.ingest.source.unpack import plain_path
from npu_tui.trace.arg import Arg, as_number
from npu_tui.trace.model import Trace
from npu_tui.trace.text import on_one_line

I64 = npt.NDArray[np.int64]

BLOCK = 1 << 20
"""Bytes that are read and searched at a time."""

_SAFE = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789 !#$%&'()*+,-.:;<=>?@[]^_`{|}~")
"""Lower-case characters that every JSON writer leaves as they are."""


class _Args(msgspec.Struct, gc=False):
    args: msgspec.Raw = msgspec.Raw(b"")


_events = msgspec.json.Decoder(list[_Args]).decode
_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_text = msgspec.json.Decoder(str).decode


@dataclass(frozen=True, slots=True)
class Batch:
    """Slices found in the next part of the file, ascending by place in it, and the share 0..1 searched so far."""

    items: I64
    done: float


def file_order(trace: Trace) -> I64:
    """All slices in the order of their events in the file; (n,)."""
    return np.argsort(trace.slices.event, kind="stable")


def slices_with_args(
    trace: Trace, items: I64, wanted: Sequence[Arg], go_on: Callable[[], bool] = lambda: True
) -> Iterator[Batch]:
    """Those of the slices ``items``, given in ``file_order``, whose args match all of ``wanted``, block by block.

    Stops when ``go_on`` says so. Raises ``InputError`` if the file is gone or is not the one that was loaded.
    """
    bounds = np.searchsorted(trace.slices.event[items], trace.chunks.first_event)
    bounds = np.append(bounds, len(items))
    needles = [needle for needle in map(_needle, wanted) if needle]
    blocks = _blocks(trace, np.flatnonzero(np.diff(bounds)))
    for number, (first, last) in enumerate(blocks):
        if not go_on():
            return
        found = _in_block(trace, first, last, items, bounds, needles, wanted)
        yield Batch(found, (number + 1) / len(blocks))


def _needle(wanted: Arg) -> bytes:
    """The longest bytes that stand in the file wherever ``wanted`` matches; empty if none are sure to."""
    # A number may be written in more than one way.
    exact = wanted.sign == "~" or (wanted.sign == "=" and as_number(wanted.text) is None)
    texts = [wanted.key, *wanted.text.split()] if exact else [wanted.key]
    safe = [text.encode() for text in texts if set(text.encode()) <= _SAFE]
    return max(safe, key=len, default=b"")


def _blocks(trace: Trace, chunks: I64) -> list[tuple[int, int]]:
    """First and last chunk of every block: neighbours in one file, together no longer than ``BLOCK`` if they can be."""
    table = trace.chunks
    blocks: list[tuple[int, int]] = []
    for chunk in chunks.tolist():
        if blocks:
            first, last = blocks[-1]
            end = int(table.offset[chunk] + table.length[chunk])
            if chunk == last + 1 and table.file[chunk] == table.file[first] and end - table.offset[first] <= BLOCK:
                blocks[-1] = (first, chunk)
                continue
        blocks.append((chunk, chunk))
    return blocks


def _in_block(
    trace: Trace, first: int, last: int, items: I64, bounds: I64, needles: list[bytes], wanted: Sequence[Arg]
) -> I64:
    table = trace.chunks
    base = int(table.offset[first])
    data = _read(trace, int(table.file[first]), base, int(table.offset[last] + table.length[last]) - base)
    lowered = data.lower()
    found: list[int] = []
    for number in _chunks_with(needles, lowered, table.offset[first : last + 1] - base, table.length[first : last + 1]):
        at = int(table.offset[first + number]) - base
        own = data[at : at + int(table.length[first + number])]
        low, high = bounds[first + number : first + number + 2].tolist()
        if high > low:
            found += _in_chunk(trace, own, int(table.first_event[first + number]), items[low:high], needles, wanted)
    return np.array(found, np.int64)


def _read(trace: Trace, file: int, offset: int, length: int) -> bytes:
    plain = trace.files[file]
    try:
        descriptor = os.open(plain_path(plain), os.O_RDONLY)
        try:
            data = os.pread(descriptor, length, offset)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise InputError(f"{trace.path}: {error.strerror or error}; the args are read from the file again") from error
    if len(data) != length:
        raise InputError(f"{trace.path}: the file has changed since it was loaded; open it again")
    return data


def _chunks_with(needles: list[bytes], lowered: bytes, offset: I64, length: I64) -> list[int]:
    """Which chunks of a block hold all of ``needles``."""
    chosen = set(range(len(offset)))
    for needle in needles:
        having: set[int] = set()
        at = lowered.find(needle)
        while at >= 0:
            number = int(np.searchsorted(offset, at, "right")) - 1
            having.add(number)
            at = lowered.find(needle, int(offset[number] + length[number]))
        chosen &= having
    return sorted(chosen)


def _in_chunk(
    trace: Trace, data: bytes, first_event: int, items: I64, needles: list[bytes], wanted: Sequence[Arg]
) -> list[int]:
    try:
        events = _events(b"[%b]" % data)
    except (ValueError, RecursionError):
        return [item for item in items.tolist() if _matches_loose(trace, item, wanted)]
    found = []
    ordinals = (trace.slices.event[items] - first_event).tolist()
    for item, ordinal in zip(items.tolist(), ordinals, strict=True):
        raw = bytes(events[ordinal].args)
        lowered = raw.lower()
        if all(needle in lowered for needle in needles) and _matches(raw, wanted):
            found.append(item)
    return found


def _matches(raw: bytes, wanted: Sequence[Arg]) -> bool:
    try:
        args = [(key.lower(), _value_text(value)) for key, value in _object(raw).items()]
    except (ValueError, RecursionError):
        return False
    return all(any(one.holds(key, value) for key, value in args) for one in wanted)


def _matches_loose(trace: Trace, item: int, wanted: Sequence[Arg]) -> bool:
    args = fetch_event(trace, int(trace.slices.event[item])).get("args")
    if not isinstance(args, dict):
        return False
    pairs = [(str(key).lower(), on_one_line(str(value)).lower()) for key, value in args.items()]
    return all(any(one.holds(key, value) for key, value in pairs) for one in wanted)


def _value_text(raw: msgspec.Raw) -> str:
    """A value as it is shown: a text without its quotes, everything else as it stands in the file."""
    data = bytes(raw)
    try:
        text = _text(data) if data.startswith(b'"') else data.decode(errors="replace")
    except ValueError:
        text = str(loose_value(data))
    return on_one_line(text).lower()
