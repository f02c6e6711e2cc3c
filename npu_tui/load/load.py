"""A path to a ``Trace``: which reader reads it, and whether its parsed copy is used instead.

``Opening`` is what a user wants to open, ``load`` reads it from its files.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import gc
import os
import time
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct, field
from msgspec.structs import replace

from npu_tui.load import copy as copies
from npu_tui.load.args import json_args
from npu_tui.load.build import build_trace
from npu_tui.load.containers import foreign, piped
from npu_tui.load.errors import UNWATCHED, InputError, Watcher, out_of_memory
from npu_tui.load.fast_reader import read_scanned
from npu_tui.load.find import PIPE, PIPED, Source, find_source, has_tables
from npu_tui.load.graph_dump import link_events
from npu_tui.load.json_chunks import BOM, CHUNK, LONGEST, array_start
from npu_tui.load.json_reader import WholeColumns, read_tolerantly
from npu_tui.load.kineto import add_stacks, distributed, link_launches
from npu_tui.load.layouts import Form, form_of
from npu_tui.load.service_files import DATABASES, SPANS
from npu_tui.load.unpack import Unpacking, open_plain, scratch_folder, spooled
from npu_tui.native.library import library
from npu_tui.trace.kineto import DEVICE_CATEGORIES
from npu_tui.trace.message import Message, message
from npu_tui.trace.model import EventFile, Health, Trace
from npu_tui.trace.once import once

_FIRST_SECONDS = 0.1
_EARLY_SECONDS = 0.5
_EARLY_SHARE = 0.7
"""Past this share of the file the whole trace comes soon."""

_LONGEST_HEAD = 64 << 20


def load(
    path: str | Path | Source, watcher: Watcher = UNWATCHED, chunk_size: int = CHUNK, range_bytes: int = 0
) -> Trace:
    """The trace at ``path``: a file of events, a profile directory that holds one, or what discovery found there.

    ``range_bytes`` is how much is read at a time, 0 for what suits the file.

    Raises ``InputError`` if it cannot be read or holds no event, ``Cancelled`` if the watcher says to stop.
    """
    collecting = gc.isenabled()
    gc.disable()  # nothing decoded is cyclic, and a collection walks every event
    try:
        source = path if isinstance(path, Source) else find_source(Path(path))
        try:
            if source.kind == "companions":
                health = Health(warnings=[message("odd.no_trace", path=str(source.path))])
                return build_trace(WholeColumns(), str(source.path), (), source.rank, health)
            if source.kind == "memory":
                from npu_tui.load.snapshot_trace import snapshot_trace  # most traces are JSON

                return snapshot_trace(source.path, watcher)
            if source.kind == "service":
                return _TextLoading(source, watcher, chunk_size, range_bytes, time.monotonic()).service()
            if source.kind == "ftrace":
                from npu_tui.load.ftrace_trace import ftrace_trace  # most traces are JSON

                return ftrace_trace(source.path, watcher)
            if source.kind == "database":
                from npu_tui.load.database import load_database  # most traces are JSON

                return load_database(source.path, source.rank, watcher)
            try:
                return _TextLoading(source, watcher, chunk_size, range_bytes, time.monotonic()).trace()
            except InputError as error:
                # The tables beside the trace are as good without it, but not those beside any other file.
                if not has_tables(source) or (source.kind == "json" and not source.is_directory):
                    raise
                health = Health(warnings=[error.message])
                return build_trace(WholeColumns(), str(source.path), (), source.rank, health)
        except OSError as error:
            raise InputError(refusal(source.path, error)) from error
        except MemoryError as error:
            raise out_of_memory(source.path) from error
    finally:
        if collecting:
            gc.enable()


def refusal(path: Path, error: OSError) -> Message:
    """Why the bytes of ``path`` cannot be had: ``error``, or that the disk for the plain ones is full."""
    if error.errno == errno.ENOSPC:
        return message("input.no_room", path=str(path), folder=str(error.filename or scratch_folder()))
    return message("input.unreadable", path=str(path), why=error.strerror or str(error))


class _TextLoading(Struct):
    """One loading of the files of ``source``, which are text; ``range_bytes`` is 0 for what suits each file.

    ``shown_at`` is when what has been read was last shown, ``shown_events`` how much that was.
    """

    source: Source
    watcher: Watcher
    chunk_size: int
    range_bytes: int
    shown_at: float
    shown_events: int = 0
    whole: WholeColumns = field(default_factory=WholeColumns)
    health: Health = field(default_factory=Health)

    def trace(self) -> Trace:
        """Read all files and put the trace together."""
        source, health = self.source, self.health
        files: list[EventFile] = []
        reached = 0
        for path in source.files:
            try:
                file, reached = self._read(path, len(files))
            except InputError as error:
                if len(source.files) == 1:
                    raise
                health.warnings.append(error.message)  # the other slices of the export are as good without this one
            else:
                files.append(file)
        if not files:
            raise InputError(health.warnings[0])
        if self.whole.count == self.whole.phases[""]:
            raise InputError(message("input.no_event", path=str(source.path), byte=reached))
        size = sum(file.size for file in files)
        self.watcher.report(size, size, self.whole.count)
        on_gpu, rank = not DEVICE_CATEGORIES.isdisjoint(self.whole.categories.values_in_order), source.rank
        if on_gpu and rank is None:
            rank = distributed(files[0].path).rank
        trace = build_trace(self.whole, str(source.path), tuple(files), rank, health)
        if not (health.truncated or len(trace.slices) or len(trace.counters) or len(trace.links)):
            raise InputError(message("input.no_time", path=str(source.path), count=self.whole.count))
        if on_gpu:
            link_launches(trace)
            add_stacks(trace)
        link_events(trace)
        return trace

    def service(self) -> Trace:
        """The trace of an inference service, with the spans of its file of events if there is one."""
        from npu_tui.load.service import read_service  # most traces are of an NPU
        from npu_tui.load.service_spans import add_instants, add_slices
        from npu_tui.load.service_trace import service_trace

        early, files, args = self.watcher.early, [], None
        self.watcher = replace(self.watcher, early=None)
        service = read_service(self.source.path, self.watcher)
        if SPANS in service.files:
            try:
                files.append(self._read(self.source.path / SPANS, 0)[0])
                add_instants(self.whole, files[0])
            except InputError as error:
                service.odd.append(error.message)
        for name in DATABASES if not self.whole.slice_count else ():
            if name in service.files and not self.whole.slice_count:
                args, odd = add_slices(self.whole, self.source.path / name)
                service.odd += odd
        return service_trace(service, self.whole, tuple(files), self.health, args, early)

    def _read(self, path: Path, number: int) -> tuple[EventFile, int]:
        """Take the events of the file at ``path`` in; returns the offset reached as well."""
        whole, health = self.whole, self.health
        packed, before = path.stat().st_size, whole.count
        plain = open_plain(path, lambda done: self.watcher.report(done, packed, whole.count))
        try:
            start = _array_start(path, plain.stream)
        finally:
            if not plain.unpacked:
                plain.stream.close()
        file = EventFile(plain.path, plain.size, plain.stream if plain.unpacked else None)

        def advance(done: int, events: int) -> None:
            self.watcher.report(done, file.size, events)
            if not number:  # those of later files are not in sight yet
                self._show(file, done)

        compiled = library()
        how = (whole, number, self.chunk_size, advance, self.range_bytes)
        if compiled is None:
            outcome = read_tolerantly(file.path, start, *how)
        else:
            outcome = read_scanned(compiled, file.path, start, file.size, *how)
        if outcome.too_long is not None:
            where = {"path": str(path), "byte": outcome.too_long, "megabytes": LONGEST >> 20}
            if whole.count == before:
                raise InputError(Message("input.too_long", where))
            health.warnings.append(Message("input.too_long_later", where))
        health.truncated = health.truncated or outcome.truncated or plain.cut or outcome.too_long is not None
        health.skip(message("skip.malformed"), outcome.malformed)
        return file, outcome.end

    def _show(self, file: EventFile, done: int) -> None:
        """Show what is there of ``file``, of which ``done`` bytes are read, whenever it is twice as much as before."""
        early, count = self.watcher.early, self.whole.count
        if early is None or count < max(2 * self.shown_events, 1) or done >= file.size * _EARLY_SHARE:
            return
        if time.monotonic() - self.shown_at < (_EARLY_SECONDS if self.shown_events else _FIRST_SECONDS):
            return
        trace = build_trace(self.whole.so_far(), str(self.source.path), (file,), self.source.rank, Health())
        if len(trace.slices):
            early(trace)
        self.shown_at, self.shown_events = time.monotonic(), count


def _array_start(file: Path, stream: BinaryIO) -> int:
    """Offset after the bracket that opens the events; what may stand before it is searched in growing pieces."""
    text = b""
    while not text and (block := stream.read(CHUNK)):
        text = block.lstrip()  # what is blank is not kept, however long it is
    begin = stream.tell() - len(text)
    stream.seek(begin)
    head, length = b"", CHUNK
    while len(head) < length and length <= _LONGEST_HEAD:
        head += stream.read(length - len(head))
        refused = foreign(head, file)
        if refused is not None:
            raise InputError(refused)
        start = array_start(head)
        if start is not None:
            return begin + start
        if len(head) < length or not head.removeprefix(BOM).lstrip().startswith(b"{"):
            break
        length *= 4
    if not head.strip():
        raise InputError(message("input.empty", path=str(file)))
    raise InputError(message("input.no_array", path=str(file), found=repr(head.lstrip()[:12]).removeprefix("b")))


_QUICK_BYTES = 16 << 20


def opening_of(path: str | Path, cached: bool = True, form: Form | None = None) -> Opening:
    """``path`` to be opened, in ``form`` where both forms are there; ``-`` is what comes through standard input.

    Raises ``InputError`` if there is none.
    """
    if Path(path) != PIPED:
        return Opening(Path(path), cached, form=form)
    try:
        return Opening(PIPED, cached, os.fdopen(os.dup(0), "rb"))
    except OSError as error:
        raise InputError(message("input.no_stdin", path=str(PIPED))) from error


class Opening(Struct, dict=True, eq=False):
    """A trace to be opened: the file or directory ``path``, in ``form`` where both forms are there.

    With ``cached`` its parsed copy is used, or made if there is none. ``piped`` brings the bytes instead, if it is
    given; then there is no copy, as nothing tells that it is the same before all of it has been read. One that is
    ``optional`` lies beside what was asked for: it is left out where it cannot be read.
    """

    path: Path
    cached: bool = True
    piped: BinaryIO | None = None
    form: Form | None = None
    optional: bool = False

    @once
    def source(self) -> Source:
        """What is there. Raises ``InputError`` as ``find_source`` does."""
        return PIPE if self.piped is not None else find_source(self.path, self.form)

    @once
    def _key(self) -> str | None:
        """The name of its copy, None where it has none."""
        kept = self.cached and self.piped is None and self.source.kind not in ("memory", "service", "ftrace")
        return copies.key_of(self.source) if kept else None

    @property
    def has_copy(self) -> bool:
        """Whether there is a parsed copy to be read. Raises ``InputError`` as ``find_source`` does."""
        return self._key is not None and copies.has(self._key)

    @property
    def is_quick(self) -> bool:
        """Whether the trace is there at once: a small text, or one with a copy."""
        with contextlib.suppress(InputError, OSError):
            if self.source.kind == "database" or self.piped is not None:
                return False
            return self.has_copy or sum(file.stat().st_size for file in self.source.files) < _QUICK_BYTES
        return False

    def sketch(self) -> Trace | None:
        """What the first picture of the trace needs, where its parsed copy has it; to be drawn and nothing else.

        Raises ``InputError`` as ``find_source`` does.
        """
        return copies.sketch(self.source, self._key) if self._key is not None else None

    def trace(self, watcher: Watcher = UNWATCHED) -> Trace:
        """The trace, once; raises as ``load`` does.

        A copy is written beside everything else and waited for a moment when the program ends.
        """
        if self.piped is not None:
            return _piped_trace(self.piped, watcher)
        source, key = self.source, self._key
        if key is not None and (trace := copies.find(source, key, watcher)) is not None:
            if watcher.early is not None:
                watcher.early(trace)  # all of it is there, but what is known of it takes longer than its first picture
            if watcher.progress is not None:
                # The args lie in the file, which may be packed, and a user who watches will want to see some.
                for file in trace.files:
                    if isinstance(file.copy, Unpacking):
                        file.copy.begin()
            return trace
        trace = load(source, watcher)
        # A copy names its files by those of the source, so it cannot leave one out.
        if key is not None and len(trace.files) == len(source.files) and copies.key_of(source) == key:
            atexit.register(copies.Keeper(trace, key, watcher.note).finish)
        return trace


def _piped_trace(stream: BinaryIO, watcher: Watcher) -> Trace:
    """The trace that ``stream`` brings; its bytes are kept for its args as long as the trace is."""
    try:
        copy, path = spooled(stream, lambda done: watcher.report(done, 0))
    except OSError as error:
        raise InputError(refusal(PIPED, error)) from error
    if form_of(Path(path)) == "db":
        raise InputError(message("input.piped_database", path=str(PIPED)))

    def show(trace: Trace) -> None:
        trace.path = str(PIPED)
        trace.args = json_args(trace)
        if watcher.early is not None:
            watcher.early(trace)

    try:
        trace = load(path, Watcher(watcher.progress, show if watcher.early is not None else None))
    except InputError as error:
        raise InputError(piped(error.message, str(PIPED))) from error
    trace.path = str(PIPED)
    trace.files = tuple(file if file.copy is not None else replace(file, copy=copy) for file in trace.files)
    trace.args = json_args(trace)
    return trace
