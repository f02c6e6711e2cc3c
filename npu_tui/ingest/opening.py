"""What the user wants to see, on its way to a Trace: from a file, from its parsed copy, or through a pipe."""

from __future__ import annotations

import atexit
import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from msgspec.structs import replace

from npu_tui.ingest.args.json_args import json_args
from npu_tui.ingest.copy import cache
from npu_tui.ingest.errors import InputError
from npu_tui.ingest.load import load, refusal
from npu_tui.ingest.progress import Early, Progress, Watcher
from npu_tui.ingest.source.find import PIPE, PIPED, Form, Source, find_source, form_of
from npu_tui.ingest.source.unpack import Unpacking, spooled
from npu_tui.trace.message import Message, message
from npu_tui.trace.model import Trace
from npu_tui.trace.once import once

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
