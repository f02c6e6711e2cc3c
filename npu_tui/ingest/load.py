"""A path to a Trace."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path

from npu_tui.ingest.build import build_trace
from npu_tui.ingest.chunks import CHUNK, ChunkReader, array_start
from npu_tui.ingest.columns import Columns
from npu_tui.ingest.errors import Cancelled, InputError
from npu_tui.ingest.events import decode_events
from npu_tui.ingest.lenient import strict_json
from npu_tui.ingest.profile import find_trace, rank_of
from npu_tui.trace.model import Health, Trace

Progress = Callable[[int, int, int], bool]
"""Called with (bytes read, bytes in all, events so far); returning False cancels the loading."""

_REPORT_BYTES = 2 << 20


def load(path: str | Path, progress: Progress | None = None, chunk_size: int = CHUNK) -> Trace:
    """The trace at ``path``: a file of events, or a profile directory that holds one.

    Raises ``InputError`` if it cannot be read or holds no event, ``Cancelled`` if ``progress`` returns False.
    """
    file = find_trace(Path(path))
    collecting = gc.isenabled()
    gc.disable()  # nothing decoded is cyclic, and a collection walks every event
    try:
        return _load(file, progress, chunk_size)
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}; give a file that can be read") from error
    finally:
        if collecting:
            gc.enable()


def _load(file: Path, progress: Progress | None, chunk_size: int) -> Trace:
    with file.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        head = stream.read(CHUNK)
        start = array_start(head)
        if start is None:
            raise InputError(_refusal(file, head))
        columns = Columns()
        reader = ChunkReader(stream, start, decode_events, strict_json, chunk_size)
        reported = 0
        for chunk in reader:
            columns.add(chunk.offset, chunk.length, chunk.events)
            if progress is not None and reader.offset - reported >= _REPORT_BYTES:
                reported = reader.offset
                if not progress(reported, size, columns.count):
                    raise Cancelled
    if columns.count == columns.phases[""]:
        raise InputError(f"{file}: byte {reader.offset}: the array holds no complete event; profile again")
    health = Health(truncated=reader.truncated)
    health.skip("malformed event", reader.malformed)
    return build_trace(columns, str(file), size, rank_of(file), health)


def _refusal(file: Path, head: bytes) -> str:
    if not head.strip():
        return f"{file}: byte 0: the file is empty; profile again, or let the analysis of the profile finish"
    seen = repr(head.lstrip()[:12]).removeprefix("b")
    return f"{file}: byte 0: expected a JSON array of trace events, found {seen}; give a trace_view.json"
