"""A path to a ``Trace``: which reader, which copy, and what is told on the way."""

from __future__ import annotations

import atexit
import contextlib
import errno
import gc
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from npu_tui.load import copy as cache
from npu_tui.load.args import json_args
from npu_tui.load.build import build_trace
from npu_tui.load.errors import Early, InputError, Progress, Watcher
from npu_tui.load.fast_reader import read_scanned
from npu_tui.load.find import PIPE, PIPED, Form, Source, find_source, form_of
from npu_tui.load.json_chunks import BOM, CHUNK, LONGEST, array_start
from npu_tui.load.json_reader import Outcome, WholeColumns, read_tolerantly
from npu_tui.load.unpack import Plain, Unpacking, open_plain, scratch_folder, spooled
from npu_tui.native.library import library
from npu_tui.trace.message import Message, message
from npu_tui.trace.model import EventFile, Health, Trace
from npu_tui.trace.once import once

_FIRST_SECONDS = 0.1
_EARLY_SECONDS = 0.5
_EARLY_SHARE = 0.7
"""Past this share of the file the whole trace comes soon."""

_LONGEST_HEAD = 64 << 20


def load(
    path: str | Path | Source,
    progress: Progress | None = None,
    chunk_size: int = CHUNK,
    range_bytes: int = 0,
    early: Early | None = None,
) -> Trace:
    """The trace at ``path``: a file of events, a profile directory that holds one, or what discovery found there.

    ``range_bytes`` is how much is read at a time, 0 for what suits the file. ``early`` is called now and then with the
    trace of what has been read so far.

    Raises ``InputError`` if it cannot be read or holds no event, ``Cancelled`` if ``progress`` returns False.
    """
    collecting = gc.isenabled()
    gc.disable()  # nothing decoded is cyclic, and a collection walks every event
    watcher = Watcher(progress, early)
    try:
        source = path if isinstance(path, Source) else find_source(Path(path))
        try:
            if source.kind == "companions":
                return _without_events(source)
            if source.kind == "database":
                from npu_tui.load.database import load_database  # most traces are JSON

                return load_database(source.path, source.rank, watcher)
            return _Reading(source, watcher, chunk_size, range_bytes).trace()
        except OSError as error:
            raise InputError(refusal(source.path, error)) from error
        except MemoryError as error:
            raise InputError(message("input.memory", path=str(source.path))) from error
    finally:
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
    """One loading of the files of ``source``."""

    def __init__(self, source: Source, watcher: Watcher, chunk_size: int, range_bytes: int) -> None:
        self._source = source
        self._watcher = watcher
        self._chunk_size = chunk_size
        self._range_bytes = range_bytes
        self._pictured = _Pictured(time.monotonic())
        self._whole = WholeColumns()
        self._health = Health()

    def trace(self) -> Trace:
        """Read all files and put the trace together."""
        source, health = self._source, self._health
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
        if self._whole.count == self._whole.phases[""]:
            raise InputError(message("input.no_event", path=str(source.path), byte=reached))
        size = sum(file.size for file in files)
        self._watcher.report(size, size, self._whole.count)
        return build_trace(self._whole, str(source.path), tuple(files), source.rank, health)

    def _read(self, path: Path, number: int) -> tuple[EventFile, int]:
        """Take the events of the file at ``path`` in; returns the offset reached as well."""
        whole = self._whole
        packed, before = path.stat().st_size, whole.count
        plain = open_plain(path, lambda done: self._watcher.report(done, packed, whole.count))
        try:
            start = _array_start(path, plain.stream)
        finally:
            if not plain.unpacked:
                plain.stream.close()

        def advance(done: int, events: int) -> None:
            self._watcher.report(done, plain.size, before + events)
            if not number:  # those of later files are not in sight yet
                self._show(plain, done)

        scanner = library()
        if scanner is not None:
            outcome = read_scanned(
                scanner, plain.path, start, plain.size, whole, number, self._chunk_size, advance, self._range_bytes
            )
        else:
            outcome = read_tolerantly(plain.path, start, whole, number, self._chunk_size, advance, self._range_bytes)
        self._note(path, plain, outcome, before)
        return EventFile(plain.path, plain.size, plain.stream if plain.unpacked else None), outcome.end

    def _show(self, plain: Plain, done: int) -> None:
        """Show what is there, now and then."""
        early, count = self._watcher.early, self._whole.count
        if early is None or not self._pictured.is_due(count, done, plain.size):
            return
        files = (EventFile(plain.path, plain.size, plain.stream if plain.unpacked else None),)
        trace = build_trace(self._whole.so_far(), str(self._source.path), files, self._source.rank, Health())
        if len(trace.slices):
            early(trace)
        self._pictured.done(count)

    def _note(self, path: Path, plain: Plain, outcome: Outcome, before: int) -> None:
        """Note what was odd about a file that was read; ``before`` is how many events there were without it."""
        health = self._health
        if outcome.too_long is not None:
            where = {"path": str(path), "byte": outcome.too_long, "megabytes": LONGEST >> 20}
            if self._whole.count == before:
                raise InputError(Message("input.too_long", where))
            health.warnings.append(Message("input.too_long_later", where))
        health.truncated = health.truncated or outcome.truncated or plain.cut or outcome.too_long is not None
        health.skip(message("skip.malformed"), outcome.malformed)


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


class Opening:
    """A trace to be opened: the file or directory ``path``, or what ``piped`` brings.

    With ``cached`` its parsed copy is used, or made if there is none; what comes through a pipe has none, as nothing
    tells that it is the same before all of it has been read.
    """

    def __init__(
        self, path: Path, cached: bool = True, piped: BinaryIO | None = None, form: Form | None = None
    ) -> None:
        self.path = path
        self._form = form
        self._cached = cached
        self._piped = piped

    @once
    def source(self) -> Source:
        """What is there. Raises ``InputError`` as ``find_source`` does."""
        return PIPE if self._piped is not None else find_source(self.path, self._form)

    @once
    def _key(self) -> str | None:
        """What its copy is called, None where it has none."""
        return cache.key_of(self.source) if self._cached and self._piped is None else None

    @property
    def has_copy(self) -> bool:
        """Whether there is a parsed copy to be read. Raises ``InputError`` as ``find_source`` does."""
        return self._key is not None and cache.has(self._key)

    @property
    def is_quick(self) -> bool:
        """Whether the trace is there at once: a small text, or one with a copy."""
        with contextlib.suppress(InputError, OSError):
            source, key = self.source, self._key
            if source.kind == "database" or self._piped is not None:
                return False
            if key is not None and cache.has(key):
                return True
            return sum(file.stat().st_size for file in source.files) < _QUICK_BYTES
        return False

    def sketch(self) -> Trace | None:
        """What the first picture of the trace needs, where its parsed copy has it; to be drawn and nothing else.

        Raises ``InputError`` as ``find_source`` does.
        """
        return cache.sketch(self.source, self._key) if self._key is not None else None

    def trace(
        self,
        progress: Progress | None = None,
        note: Callable[[Message | str], None] | None = None,
        early: Early | None = None,
    ) -> Trace:
        """The trace, once; raises and calls ``progress`` and ``early`` as ``load`` does.

        A copy is written beside everything else and waited for a moment when the program ends; ``note`` is told why it
        could not be.
        """
        if self._piped is not None:
            return _piped_trace(self._piped, progress, early)
        source, key = self.source, self._key
        if key is not None and (found := cache.find(source, key, progress)) is not None:
            if early is not None:
                early(found)  # it is whole, but what is known of it takes longer than its first picture
            if progress is not None:
                _unpack_ahead(found)
            return found
        trace = load(source, progress, early=early)
        # A copy names its files by those of the source, so it cannot leave one out.
        if key is not None and len(trace.files) == len(source.files) and cache.key_of(source) == key:
            atexit.register(cache.Keeper(trace, key, note).finish)
        return trace


def _piped_trace(stream: BinaryIO, progress: Progress | None, early: Early | None) -> Trace:
    watcher = Watcher(progress)
    try:
        copy, path = spooled(stream, lambda done: watcher.report(done, 0))
    except OSError as error:
        raise InputError(refusal(PIPED, error)) from error

    if form_of(Path(path)) == "db":
        raise InputError(message("input.piped_database", path=str(PIPED)))

    def named(trace: Trace) -> None:
        trace.path = str(PIPED)
        trace.args = json_args(trace)
        if early is not None:
            early(trace)

    try:
        trace = load(path, progress, early=None if early is None else named)
    except InputError as error:
        raise InputError(Message(error.message.code, error.message.args | {"path": str(PIPED)})) from error
    trace.path = str(PIPED)
    trace.files = tuple(file if file.copy is not None else replace(file, copy=copy) for file in trace.files)
    trace.args = json_args(trace)
    return trace


def _unpack_ahead(trace: Trace) -> None:
    """Somebody watches, who will want to see args: they lie in the file, which may be packed."""
    for file in trace.files:
        if isinstance(file.copy, Unpacking):
            file.copy.begin()
