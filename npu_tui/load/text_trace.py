"""Text traces, the events of Chrome's format in one or more files, to a ``Trace``."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct, field

from npu_tui.load.build import build_trace
from npu_tui.load.containers import foreign
from npu_tui.load.errors import InputError, Watcher
from npu_tui.load.fast_reader import read_scanned
from npu_tui.load.format import ReadingPace, Source
from npu_tui.load.formats.tables import is_of_tables
from npu_tui.load.graph_dump import link_events
from npu_tui.load.json_chunks import BOM, CHUNK, LONGEST, array_start
from npu_tui.load.json_reader import WholeColumns, read_tolerantly
from npu_tui.load.kineto import add_stacks, distributed, link_launches, link_operations
from npu_tui.load.open_file import OpenFile, open_file
from npu_tui.load.times import TimeUnit, time_unit
from npu_tui.load.unpack import open_plain
from npu_tui.native.library import library
from npu_tui.trace.kineto import DEVICE_CATEGORIES
from npu_tui.trace.message import Message, message
from npu_tui.trace.model import EventFile, Health, Trace

_FIRST_SECONDS = 0.1  # between pictures of a trace that loads, until one has slices
_EARLY_SECONDS = 0.5  # and then: each picture takes time from loading
_EARLY_SHARE = 0.7
"""Past this share of the file the whole trace comes soon."""

_LONGEST_HEAD = 64 << 20


def read_or_tables(source: Source, watcher: Watcher, pace: ReadingPace) -> Trace:
    """The trace of ``source``. The tables beside it are as good without it, where it cannot be read."""
    try:
        return TextReading(source, watcher, pace).trace()
    except InputError as error:
        if source.folder is None or not is_of_tables(source.folder, source.survey):
            raise
        return _without_events(source, error.message)


def read_other(source: Source, watcher: Watcher, pace: ReadingPace) -> Trace:
    """The trace of ``source``; tables beside it are those of another one, unless the folder was opened."""
    return read_or_tables(source, watcher, pace) if source.is_directory else TextReading(source, watcher, pace).trace()


def read_tables(source: Source, watcher: Watcher, pace: ReadingPace) -> Trace:
    """A trace without events: the tables of ``source`` tell all there is."""
    return _without_events(source, message("odd.no_trace", path=str(source.path)))


def _without_events(source: Source, why: Message) -> Trace:
    return build_trace(WholeColumns(), str(source.path), (), source.rank, Health(warnings=[why]))


class TextReading(Struct):
    """One reading of the files of ``source``, which are text.

    ``shown_at`` is when what has been read was last shown, ``shown_events`` how much that was. ``held`` are the files
    that stay open, ``unit`` is that of their times where it is no microsecond that fits.
    """

    source: Source
    watcher: Watcher
    pace: ReadingPace
    shown_at: float = field(default_factory=time.monotonic)
    shown_events: int = 0
    whole: WholeColumns = field(default_factory=WholeColumns)
    health: Health = field(default_factory=Health)
    held: list[OpenFile | None] = field(default_factory=list)
    unit: TimeUnit | None = None

    def trace(self) -> Trace:
        """Read all files and put the trace together."""
        source, health = self.source, self.health
        files: list[EventFile] = []
        reached = 0
        for path in source.files:
            try:
                file, reached = self.read(path, len(files))
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
        trace.held, trace.is_fine = self.held, self.is_fine
        if not (health.truncated or len(trace.slices) or len(trace.counters) or len(trace.links)):
            raise InputError(message("input.no_time", path=str(source.path), count=self.whole.count))
        if on_gpu:
            link_launches(trace)
            link_operations(trace)
            add_stacks(trace)
        link_events(trace)
        return trace

    @property
    def is_fine(self) -> bool:
        """Whether times are read as picoseconds."""
        return self.unit is not None and self.unit.told == "below_ns"

    def read(self, path: Path, number: int) -> tuple[EventFile, int]:
        """Take the events of the file ``number`` at ``path`` in; returns the offset reached as well."""
        whole, health = self.whole, self.health
        packed, before = path.stat().st_size, whole.count
        plain = open_plain(path, lambda done: self.watcher.report(done, packed, whole.count))
        start = _array_start(path, plain.stream)
        file = EventFile(plain.path, plain.size, plain.stream if plain.unpacked else None)
        opened = open_file(plain.path)
        self.held.append(opened.kept())

        def advance(done: int, events: int) -> None:
            self.watcher.report(done, file.size, events)
            if not number:  # those of later files are not in sight yet
                self._show(file, done)

        if not number:  # the slices of one export count alike
            self.unit = time_unit(os.pread(opened.descriptor, CHUNK, start))
            if self.unit is not None:
                health.warnings.append(message(f"odd.{self.unit.told}", origin=f"{self.unit.origin:f}"))
        compiled = library()
        how = (whole, number, self.pace.chunk_size, advance, self.pace.range_bytes)
        if compiled is None or self.unit is not None:
            outcome = read_tolerantly(file.path, start, *how, self.unit)
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
        trace.is_fine = self.is_fine
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
