"""One event again, from the file: args are not kept in memory."""

from __future__ import annotations

import os
from typing import Any

import msgspec
import numpy as np

from npu_tui.ingest.errors import InputError
from npu_tui.ingest.json.lenient import loose_value
from npu_tui.ingest.source.unpack import plain_path
from npu_tui.trace.model import Trace

_raws = msgspec.json.Decoder(list[msgspec.Raw]).decode


def fetch_event(trace: Trace, ordinal: int) -> dict[str, Any]:
    """The whole event ``ordinal`` of ``trace``, decoded; empty if that element of the file is no object.

    Raises ``InputError`` if the file is gone or is not the one that was loaded.
    """
    data = event_bytes(trace, ordinal)
    try:
        event = loose_value(data)
    except ValueError:
        raise InputError(_changed(trace)) from None
    return event if isinstance(event, dict) else {}


def event_bytes(trace: Trace, ordinal: int) -> bytes:
    """The text of event ``ordinal`` as it stands in the file. Raises ``InputError`` as ``fetch_event`` does."""
    chunks = trace.chunks
    at = int(np.searchsorted(chunks.first_event, ordinal, "right")) - 1
    length, first = int(chunks.length[at]), int(chunks.first_event[at])
    following = chunks.first_event[at + 1] if at + 1 < len(chunks.first_event) else sum(trace.events.values())
    file = trace.files[int(chunks.file[at])]
    try:
        descriptor = os.open(plain_path(file), os.O_RDONLY)
        try:
            size = os.fstat(descriptor).st_size
            data = os.pread(descriptor, length, int(chunks.offset[at]))
        finally:
            os.close(descriptor)
    except OSError as error:
        raise InputError(f"{trace.path}: {error.strerror or error}; the events are read from the file again") from error
    if size != file.size:
        raise InputError(_changed(trace))
    if following - first == 1:
        return data.strip()  # alone in its chunk, perhaps because no strict parser takes it
    try:
        return bytes(_raws(b"[%b]" % data)[ordinal - first])
    except (ValueError, IndexError, RecursionError):
        raise InputError(_changed(trace)) from None


def _changed(trace: Trace) -> str:
    return f"{trace.path}: the file has changed since it was loaded; open it again"
