"""A path to a Trace."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from npu_tui.ingest.build import build_trace
from npu_tui.ingest.chunks import BOM, CHUNK, ChunkReader, TooLongError, array_start
from npu_tui.ingest.columns import Columns
from npu_tui.ingest.errors import Cancelled, InputError
from npu_tui.ingest.events import decode_events
from npu_tui.ingest.lenient import strict_json
from npu_tui.ingest.profile import Source, find_source
from npu_tui.ingest.unpack import open_plain
from npu_tui.trace.model import EventFile, Health, Trace

Progress = Callable[[int, int, int], bool]
"""Called with (bytes read, bytes in all, events so far); returning False cancels the loading."""

_REPORT_BYTES = 2 << 20
_SQLITE = b"SQLite format 3\0"
_LONGEST_HEAD = 64 << 20


def load(path: str | Path, progress: Progress | None = None, chunk_size: int = CHUNK) -> Trace:
    """The trace at ``path``: a file of events, or a profile directory that holds one.

    Raises ``InputError`` if it cannot be read or holds no event, ``Cancelled`` if ``progress`` returns False.
    """
    source = find_source(Path(path))
    collecting = gc.isenabled()
    gc.disable()  # nothing decoded is cyclic, and a collection walks every event
    try:
        return _load(source, progress or _silent, chunk_size)
    except OSError as error:
        raise InputError(f"{source.path}: {error.strerror or error}; give a file that can be read") from error
    finally:
        if collecting:
            gc.enable()


def _silent(done: int, total: int, events: int) -> bool:
    """No progress is shown and nothing is cancelled."""
    return True


def _load(source: Source, progress: Progress, chunk_size: int) -> Trace:
    columns, health = Columns(), Health()
    files: list[EventFile] = []
    reached = 0
    for file in source.files:
        try:
            read, reached = _read(file, len(files), columns, health, progress, chunk_size)
        except InputError as error:
            if len(source.files) == 1:
                raise
            health.warnings.append(str(error))  # the other slices of the export are as good without this one
        else:
            files.append(read)
    if not files:
        raise InputError(health.warnings[0])
    if columns.count == columns.phases[""]:
        raise InputError(f"{source.path}: byte {reached}: the array holds no complete event; profile again")
    size = sum(file.size for file in files)
    if not progress(size, size, columns.count):
        raise Cancelled
    return build_trace(columns, str(source.path), tuple(files), source.rank, health)


def _read(
    file: Path, number: int, columns: Columns, health: Health, progress: Progress, chunk_size: int
) -> tuple[EventFile, int]:
    """Take the events of ``file`` into ``columns``; returns the offset reached as well."""
    packed = file.stat().st_size
    plain = open_plain(file, lambda done: progress(done, packed, columns.count))
    before = columns.count
    try:
        start = _array_start(file, plain.stream)
        reader = ChunkReader(plain.stream, start, decode_events, strict_json, chunk_size)
        reported = 0
        for chunk in reader:
            columns.add(chunk.offset, chunk.length, chunk.events, number)
            if reader.offset - reported >= _REPORT_BYTES:
                reported = reader.offset
                if not progress(reported, plain.size, columns.count):
                    raise Cancelled
    except TooLongError as error:
        if columns.count == before:
            raise InputError(f"{file}: {error}; this is no trace of events") from error
        health.warnings.append(f"{file}: {error}; what lies behind it is not shown")
        health.truncated = True
    finally:
        if not plain.unpacked:
            plain.stream.close()
    health.truncated = health.truncated or reader.truncated or plain.cut
    health.skip("malformed event", reader.malformed)
    return EventFile(plain.path, plain.size, plain.stream if plain.unpacked else None), reader.offset


def _array_start(file: Path, stream: BinaryIO) -> int:
    """Offset behind the bracket that opens the events; what may stand before it is searched in growing pieces."""
    begin = _first_word(stream)
    head, length = b"", CHUNK
    while len(head) < length and length <= _LONGEST_HEAD:
        head += stream.read(length - len(head))
        start = array_start(head)
        if start is not None:
            return begin + start
        if len(head) < length or not _may_begin_later(head):
            break
        length *= 4
    raise InputError(_refusal(file, head))


def _first_word(stream: BinaryIO) -> int:
    """Offset of the first byte that is not blank, where ``stream`` then stands; blanks are not kept."""
    offset = 0
    while blank := stream.read(CHUNK):
        word = blank.lstrip()
        if word:
            offset += len(blank) - len(word)
            break
        offset += len(blank)
    stream.seek(offset)
    return offset


def _may_begin_later(head: bytes) -> bool:
    return head.removeprefix(BOM).lstrip().startswith(b"{")


def _refusal(file: Path, head: bytes) -> str:
    if not head.strip():
        return f"{file}: byte 0: the file is empty; profile again, or let the analysis of the profile finish"
    if head.startswith(_SQLITE):
        return f"{file}: byte 0: a database of the profiler; export the profile as text (export_type) and give that"
    seen = repr(head.lstrip()[:12]).removeprefix("b")
    return f"{file}: byte 0: expected a JSON array of trace events, found {seen}; give a trace_view.json"
