"""A path to a Trace."""

from __future__ import annotations

import contextlib
import errno
import gc
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from npu_tui.ingest.build.trace import build_trace
from npu_tui.ingest.errors import Cancelled, InputError, WorkerError
from npu_tui.ingest.heap import reused_memory
from npu_tui.ingest.json.columns.event_columns import Columns
from npu_tui.ingest.json.columns.whole_columns import UnknownValuesError, WholeColumns
from npu_tui.ingest.json.decoding.chunks import BOM, CHUNK, LONGEST, ChunkReader, TooLongError, array_start
from npu_tui.ingest.json.decoding.events import decode_events
from npu_tui.ingest.json.decoding.lenient import strict_json
from npu_tui.ingest.json.reading.parallel import Outcome, read_parallel
from npu_tui.ingest.json.reading.workers import Workers, worker_count
from npu_tui.ingest.scanner.library import Library, library
from npu_tui.ingest.scanner.reading import read_scanned
from npu_tui.ingest.source.find import Source, find_source
from npu_tui.ingest.source.growing import Growing, UnpackingError, growing
from npu_tui.ingest.source.scratch import scratch_folder
from npu_tui.ingest.source.unpack import Plain, open_plain
from npu_tui.trace.message import Message, message
from npu_tui.trace.model import EventFile, Health, Trace

Progress = Callable[[int, int, int], bool]
"""Called with (bytes read, bytes in all, events so far); returning False cancels the loading."""

Early = Callable[[Trace], None]
"""Called with the trace of what has been read so far, without links."""

_REPORT_BYTES = 2 << 20
_PART_BYTES = 32 << 20
_FIRST_SECONDS = 0.1
_EARLY_SECONDS = 0.5
_EARLY_SHARE = 0.7
"""Past this share of the file the whole trace comes soon."""

_LONGEST_HEAD = 64 << 20


@reused_memory()
def load(
    path: str | Path | Source,
    progress: Progress | None = None,
    chunk_size: int = CHUNK,
    workers: Workers | None = None,
    range_bytes: int = 0,
    early: Early | None = None,
) -> Trace:
    """The trace at ``path``: a file of events, a profile directory that holds one, or what discovery found there.

    A large file is read by several processes: by ``workers`` (which are ended), or by as many as this machine has room
    for. ``range_bytes`` is how much one of them reads at a time, 0 for what suits the file. ``early`` is called now and
    then with the trace of what has been read so far.

    Raises ``InputError`` if it cannot be read or holds no event, ``Cancelled`` if ``progress`` returns False.
    """
    collecting = gc.isenabled()
    gc.disable()  # nothing decoded is cyclic, and a collection walks every event
    try:
        source = path if isinstance(path, Source) else find_source(Path(path))
        try:
            if source.kind == "companions":
                return _without_events(source)
            if source.kind == "database":
                from npu_tui.ingest.database.load import load_database  # most traces are JSON

                return load_database(source.path, source.rank, progress or _silent, early)
            return _Reading(source, progress or _silent, chunk_size, range_bytes, workers, early).trace()
        except UnknownValuesError:
            return _Reading(source, progress or _silent, chunk_size, 0, None, None, alone=True).trace()
        except OSError as error:
            raise InputError(refusal(source.path, error)) from error
        except MemoryError as error:
            raise InputError(message("input.memory", path=str(source.path))) from error
    finally:
        if workers is not None:
            workers.close()
        if collecting:
            gc.enable()


def _without_events(source: Source) -> Trace:
    """A trace without slices, for a profile of which only the companion files are there."""
    health = Health(warnings=[message("odd.no_trace", path=str(source.path))])
    return build_trace(WholeColumns(), str(source.path), (), source.rank, health)


def refusal(path: Path, error: OSError) -> Message:
    """Why the bytes of ``path`` cannot be had: ``error``, or that the disk for the plain ones is full."""
    if error.errno == errno.ENOSPC:
        return message("input.no_room", path=str(path), folder=str(error.filename or scratch_folder()))
    return message("input.unreadable", path=str(path), why=error.strerror or str(error))


def _silent(done: int, total: int, events: int) -> bool:
    """No progress is shown and nothing is cancelled."""
    return True


class _Pictured(Struct):
    """When what was read so far was last shown: it is shown again when twice as much is there."""

    at: float
    events: int = 0

    def is_due(self, taken: int, done: int, size: int) -> bool:
        """Whether to show ``taken`` events, ``done`` of ``size`` bytes having been read."""
        waited = time.monotonic() - self.at >= (_EARLY_SECONDS if self.events else _FIRST_SECONDS)
        return waited and taken >= max(2 * self.events, 1) and done < size * _EARLY_SHARE

    def done(self, events: int) -> None:
        """Note that ``events`` are on screen now."""
        self.at, self.events = time.monotonic(), events


class _Reading:
    """One loading of ``source``."""

    def __init__(
        self,
        source: Source,
        progress: Progress,
        chunk_size: int,
        range_bytes: int,
        workers: Workers | None,
        early: Early | None,
        alone: bool = False,
    ) -> None:
        self._source = source
        self._progress = progress
        self._chunk_size = chunk_size
        self._range_bytes = range_bytes
        self._workers = workers
        self._early = early
        self._pictured = _Pictured(time.monotonic())
        self._alone = alone
        self._whole = WholeColumns()
        self._columns = Columns()
        self._health = Health()

    def trace(self) -> Trace:
        """Read all files and put the trace together."""
        try:
            return self._trace()
        finally:
            if self._workers is not None:
                self._workers.close()

    def _trace(self) -> Trace:
        source, health = self._source, self._health
        files: list[EventFile] = []
        reached = 0
        for file in source.files:
            try:
                read, reached = self._read(file, len(files))
            except WorkerError:
                raise
            except InputError as error:
                if len(source.files) == 1:
                    raise
                health.warnings.append(error.message)  # the other slices of the export are as good without this one
            else:
                files.append(read)
        if not files:
            raise InputError(health.warnings[0])
        if self._whole.count == self._whole.phases[""]:
            raise InputError(message("input.no_event", path=str(source.path), byte=reached))
        size = sum(file.size for file in files)
        self._report(size, size, self._whole.count)
        return build_trace(self._whole, str(source.path), tuple(files), source.rank, health, self._workers)

    def _report(self, done: int, total: int, events: int) -> None:
        if not self._progress(done, total, events):
            raise Cancelled

    def _advanced(self, done: int, plain: Plain, number: int, events: int) -> None:
        """Say how far it is, and now and then show what is there."""
        self._report(done, plain.size, events)
        if self._early is None or number or not self._pictured.is_due(self._whole.count, done, plain.size):
            return
        copy = plain.stream if plain.unpacked else None
        files = (EventFile(plain.path, plain.size, copy),)
        trace = build_trace(self._whole.so_far(), str(self._source.path), files, self._source.rank, Health())
        if len(trace.slices):
            self._early(trace)
        self._pictured.done(self._whole.count)

    def _read(self, file: Path, number: int) -> tuple[EventFile, int]:
        """Take the events of ``file`` in; returns the offset reached as well."""
        scanner = library() if self._workers is None and not self._alone else None
        if scanner is not None and len(self._source.files) == 1 and (unpacking := growing(file)) is not None:
            try:
                return self._read_growing(file, unpacking, scanner)
            except UnpackingError:
                self._whole = WholeColumns()  # what is wrong, and what can be read all the same, is found below
        whole = self._whole
        packed, before = file.stat().st_size, whole.count
        plain = open_plain(file, lambda done: self._progress(done, packed, whole.count))
        try:
            start = _array_start(file, plain.stream)
            if scanner is None:
                self._start_workers(plain.size)
            if scanner is not None:
                outcome = read_scanned(
                    scanner,
                    plain.path,
                    start,
                    plain.size,
                    whole,
                    number,
                    self._chunk_size,
                    lambda done, events: self._advanced(done, plain, number, before + events),
                    self._range_bytes,
                )
            elif self._workers is not None:
                outcome = read_parallel(
                    plain.path,
                    start,
                    plain.size,
                    self._workers,
                    whole,
                    number,
                    self._chunk_size,
                    lambda done, events: self._advanced(done, plain, number, before + events),
                    self._range_bytes,
                )
            else:
                outcome = self._read_alone(plain.stream, start, plain.size, number)
        finally:
            if not plain.unpacked:
                plain.stream.close()
        return self._taken(file, plain, outcome, before), outcome.end

    def _read_growing(self, file: Path, unpacking: Growing, scanner: Library) -> tuple[EventFile, int]:
        """``_read`` of a gzip while it is unpacked. Raises ``UnpackingError``."""

        def advance(done: int, events: int) -> None:
            if unpacking.is_over:
                self._advanced(done, unpacking.finish(), 0, events)
            else:  # args of what is there already could not be read yet
                self._report(done, unpacking.told, events)

        try:
            unpacking.wait(_LONGEST_HEAD)
            with open(unpacking.path, "rb") as head:
                start = _array_start(file, head)
            outcome = read_scanned(
                scanner,
                unpacking.path,
                start,
                unpacking.told,
                self._whole,
                0,
                self._chunk_size,
                advance,
                self._range_bytes,
                arrived=lambda upto: unpacking.wait() if upto is None else unpacking.wait(upto),
            )
            plain = unpacking.finish()
        except BaseException:
            unpacking.stop()
            raise
        return self._taken(file, plain, outcome, 0), outcome.end

    def _taken(self, file: Path, plain: Plain, outcome: Outcome, before: int) -> EventFile:
        """Note what was odd about a file that was read."""
        whole, health = self._whole, self._health
        if outcome.too_long is not None:
            where = {"path": str(file), "byte": outcome.too_long, "megabytes": LONGEST >> 20}
            if whole.count == before:
                raise InputError(Message("input.too_long", where))
            health.warnings.append(Message("input.too_long_later", where))
        health.truncated = health.truncated or outcome.truncated or plain.cut or outcome.too_long is not None
        health.skip(message("skip.malformed"), outcome.malformed)
        return EventFile(plain.path, plain.size, plain.stream if plain.unpacked else None)

    def _start_workers(self, size: int) -> None:
        """Start as many workers as the file is worth, if there are none; without room for them it goes on alone."""
        if self._workers is None and not self._alone and (count := worker_count(size)) > 1:
            with contextlib.suppress(OSError):
                self._workers = Workers(count)

    def _read_alone(self, stream: BinaryIO, start: int, size: int, number: int) -> Outcome:
        """Read a file in this process."""
        outcome = Outcome()
        reader = ChunkReader(stream, start, decode_events, strict_json, self._chunk_size)
        reported = taken = start
        try:
            for chunk in reader:
                self._columns.add(chunk.offset, chunk.length, chunk.events)
                if reader.offset - reported >= _REPORT_BYTES:
                    reported = reader.offset
                    self._report(reported, size, self._whole.count + self._columns.count)
                if reader.offset - taken >= _PART_BYTES:
                    taken = reader.offset
                    self._whole.add(self._columns.take(), file=number)
        except TooLongError as error:
            outcome.too_long = error.offset
        self._whole.add(self._columns.take(), file=number)
        outcome.end, outcome.truncated, outcome.malformed = reader.offset, reader.truncated, reader.malformed
        return outcome


def _array_start(file: Path, stream: BinaryIO) -> int:
    """Offset after the bracket that opens the events; what may stand before it is searched in growing pieces."""
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
    raise InputError(_no_array(file, head))


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


def _no_array(file: Path, head: bytes) -> Message:
    if not head.strip():
        return message("input.empty", path=str(file))
    return message("input.no_array", path=str(file), found=repr(head.lstrip()[:12]).removeprefix("b"))
