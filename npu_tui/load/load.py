"""From a path to a ``Trace``: which reader reads it, and whether its parsed copy is used instead.

``Opening`` is what a user wants to open, ``load`` reads it from its files.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import gc
import os
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct, field
from msgspec.structs import replace

import npu_tui.load.text_trace  # noqa: F401 - most traces are texts: their reader is imported now
from npu_tui.load import copy as copies
from npu_tui.load.args import json_args
from npu_tui.load.errors import UNWATCHED, InputError, Watcher, out_of_memory
from npu_tui.load.find import PIPE, PIPED, find_source
from npu_tui.load.format import Form, ReadingPace, Source, Survey, form_of, imported
from npu_tui.load.json_chunks import CHUNK
from npu_tui.load.text_trace import piped
from npu_tui.load.unpack import Unpacking, open_file, scratch_folder, spooled
from npu_tui.trace.message import Message, message
from npu_tui.trace.model import Trace
from npu_tui.trace.once import once


def load(
    path: str | Path | Source, watcher: Watcher = UNWATCHED, chunk_size: int = CHUNK, range_bytes: int = 0
) -> Trace:
    """The trace at ``path``: a file of events, a profile directory that holds one, or a ``Source`` that was found.

    ``range_bytes`` is how much is read at a time; 0 leaves that to the reader.

    Raises ``InputError`` if it cannot be read or holds no event, ``Cancelled`` if the watcher says to stop.
    """
    collecting = gc.isenabled()
    gc.disable()  # nothing decoded is cyclic, and a collection walks every event
    try:
        source = path if isinstance(path, Source) else find_source(Path(path))
        try:
            trace: Trace = imported(source.format.reader)(source, watcher, ReadingPace(chunk_size, range_bytes))
            return trace
        except OSError as error:
            raise InputError(refusal(source.path, error)) from error
        except MemoryError as error:
            raise out_of_memory(source.path) from error
    finally:
        if collecting:
            gc.enable()


def refusal(path: Path, error: OSError) -> Message:
    """Why ``path`` cannot be read: ``error``, or that there is no room on the disk for what it unpacks to."""
    if error.errno == errno.ENOSPC:
        return message("input.no_room", path=str(path), folder=str(error.filename or scratch_folder()))
    return message("input.unreadable", path=str(path), why=error.strerror or str(error))


_QUICK_BYTES = 16 << 20  # the largest text that opens fast without a copy


def opening_of(
    path: str | Path, cached: bool = True, form: Form | None = None, survey: Survey | None = None
) -> Opening:
    """The opening of ``path``, in ``form`` where it lies there as text and as database; ``-`` is standard input.

    ``survey`` knows the folders that were looked at before. Raises ``InputError`` if there is no standard input.
    """
    if Path(path) != PIPED:
        return Opening(Path(path), cached, form=form, survey=survey or Survey())
    try:
        return Opening(PIPED, cached, os.fdopen(os.dup(0), "rb"))
    except OSError as error:
        raise InputError(message("input.no_stdin", path=str(PIPED))) from error


class Opening(Struct, dict=True, eq=False):
    """A trace to be opened: the file or directory ``path``, in ``form`` where it lies there as text and as database.

    With ``cached`` its parsed copy is used, or made if there is none. If ``piped`` is given it supplies the bytes, and
    no copy is used, because its content is known only once all of it has been read. One that is ``optional`` was not
    asked for by name and is left out if it cannot be read.
    """

    path: Path
    cached: bool = True
    piped: BinaryIO | None = None
    form: Form | None = None
    optional: bool = False
    survey: Survey = field(default_factory=Survey)

    @once
    def source(self) -> Source:
        """The source at ``path``. Raises ``InputError`` as ``find_source`` does."""
        return PIPE if self.piped is not None else find_source(self.path, self.form, self.survey)

    @once
    def _key(self) -> str | None:
        """The name of its parsed copy, None if it may have none."""
        kept = self.cached and self.piped is None and self.source.format.is_profile
        return copies.key_of(self.source) if kept else None

    @property
    def has_copy(self) -> bool:
        """Whether a parsed copy exists. Raises ``InputError`` as ``find_source`` does."""
        return self._key is not None and copies.has(self._key)

    @property
    def is_quick(self) -> bool:
        """Whether the trace opens fast: a small text, or one with a copy."""
        with contextlib.suppress(InputError, OSError):
            if self.source.format.form == "db" or self.piped is not None:
                return False
            return self.has_copy or sum(file.stat().st_size for file in self.source.files) < _QUICK_BYTES
        return False

    def sketch(self) -> Trace | None:
        """A part of the trace, enough to draw its first picture and nothing else; None without a parsed copy.

        Raises ``InputError`` as ``find_source`` does.
        """
        return copies.sketch(self.source, self._key) if self._key is not None else None

    def trace(self, watcher: Watcher = UNWATCHED) -> Trace:
        """Read the trace; to be called once. Raises as ``load`` does.

        A copy is written in the background; when the program ends it waits for that a moment.
        """
        if self.piped is not None:
            return _piped_trace(self.piped, watcher)
        source, key = self.source, self._key
        if key is not None and (trace := copies.find(source, key, watcher)) is not None:
            with contextlib.suppress(OSError):  # reading its args raises the error later
                trace.held = [open_file(file.path).kept() for file in trace.files if file.copy is None]
            if watcher.early is not None:
                watcher.early(trace)  # it is complete, but its analysis takes longer than the first picture
            if watcher.progress is not None:
                # The args lie in the file, which may be packed, and a user who watches will want to see some.
                for file in trace.files:
                    if isinstance(file.copy, Unpacking):
                        file.copy.begin()
            return trace
        trace = load(source, watcher)
        # Copies are keyed by all files of the source: a trace that left one out is not copied.
        if key is not None and len(trace.files) == len(source.files) and copies.key_of(source) == key:
            atexit.register(copies.Keeper(trace, key, watcher.note).finish)
        return trace


def _piped_trace(stream: BinaryIO, watcher: Watcher) -> Trace:
    """The trace in the bytes of ``stream``, which are kept for its args as long as the trace exists."""
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
