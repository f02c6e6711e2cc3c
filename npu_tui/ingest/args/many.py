"""Args of many events at once, from the file: one decoding per chunk of it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from npu_tui.ingest.errors import InputError
from npu_tui.ingest.json.lenient import loose_value
from npu_tui.ingest.source.unpack import plain_path
from npu_tui.trace.model import Trace

I64 = npt.NDArray[np.int64]

NO_RANK = 4_294_967_295
"""What msprof writes for a rank that a task has none of."""


class _Args(msgspec.Struct, gc=False):
    source_rank: int = msgspec.field(name="src rank", default=-1)
    target_rank: int = msgspec.field(name="dst rank", default=-1)
    size: int = msgspec.field(name="size(Byte)", default=-1)
    link_type: str = msgspec.field(name="link type", default="")


class _Event(msgspec.Struct, gc=False):
    args: _Args = msgspec.field(default_factory=_Args)


_raws = msgspec.json.Decoder(list[msgspec.Raw]).decode
_events = msgspec.json.Decoder(list[_Event]).decode
_FIELDS = {field.name: field.encode_name for field in msgspec.structs.fields(_Args)}


@dataclass(frozen=True, slots=True)
class TaskArgs:
    """Ranks and sizes (bytes) of communication tasks, -1 where absent, and their link types; (n,) each."""

    source_rank: I64
    target_rank: I64
    size: I64
    link_type: list[str]


def task_args(trace: Trace, items: I64) -> TaskArgs:
    """The communication args of the slices ``items``.

    Raises ``InputError`` if the file is gone or is not the one that was loaded.
    """
    ordinal = trace.slices.event[items]
    order = np.argsort(ordinal, kind="stable")
    chunk = np.searchsorted(trace.chunks.first_event, ordinal[order], "right") - 1
    found: list[_Args] = []
    bounds = np.flatnonzero(np.diff(chunk)) + 1
    for run in np.split(np.arange(len(order)), bounds):
        if len(run):
            at = int(chunk[run[0]])
            found += _decoded(_chunk_events(trace, at, (ordinal[order[run]] - trace.chunks.first_event[at]).tolist()))
    back = np.argsort(order, kind="stable")
    own = [found[k] for k in back.tolist()]
    return TaskArgs(
        _ranks([args.source_rank for args in own]),
        _ranks([args.target_rank for args in own]),
        np.array([args.size for args in own], np.int64),
        [args.link_type for args in own],
    )


def _ranks(values: list[int]) -> I64:
    ranks = np.array(values, np.int64)
    return np.where(ranks == NO_RANK, -1, ranks)


def _chunk_events(trace: Trace, at: int, positions: list[int]) -> list[bytes]:
    """The texts of the events at ``positions`` of chunk ``at``."""
    file = trace.files[int(trace.chunks.file[at])]
    try:
        with open(plain_path(file), "rb") as stream:
            if os.fstat(stream.fileno()).st_size != file.size:
                raise InputError(_changed(trace))
            stream.seek(int(trace.chunks.offset[at]))
            data = stream.read(int(trace.chunks.length[at]))
    except OSError as error:
        raise InputError(f"{trace.path}: {error.strerror or error}; the events are read from the file again") from error
    firsts = trace.chunks.first_event
    following = int(firsts[at + 1]) if at + 1 < len(firsts) else sum(trace.events.values())
    if following - int(firsts[at]) == 1:
        return [data.strip()]  # alone in its chunk, perhaps because no strict parser takes it
    try:
        raws = _raws(b"[%b]" % data)
        return [bytes(raws[position]) for position in positions]
    except (ValueError, IndexError, RecursionError):
        raise InputError(_changed(trace)) from None


def _decoded(events: list[bytes]) -> list[_Args]:
    try:
        return [event.args for event in _events(b"[%b]" % b",".join(events))]
    except ValueError:
        return [_tolerated(event) for event in events]


def _tolerated(data: bytes) -> _Args:
    """The args of an event that is not quite the profiler's: values of another type count as absent."""
    found = _Args()
    try:
        event: Any = loose_value(data)
        args = event["args"]
        values = {attribute: args[key] for attribute, key in _FIELDS.items() if key in args}
    except (ValueError, TypeError, KeyError):
        return found
    for attribute, value in values.items():
        if attribute == "link_type":
            found.link_type = value if isinstance(value, str) else ""
        elif isinstance(value, int) and abs(value) < 2**62:
            setattr(found, attribute, value)
    return found


def _changed(trace: Trace) -> str:
    return f"{trace.path}: the file has changed since it was loaded; open it again"
