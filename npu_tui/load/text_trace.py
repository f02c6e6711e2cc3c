"""Text traces, the events of Chrome's format in one or more files, to a ``Trace``; what is no trace is named.

Packed files (but gzip, which is unpacked), other encodings, tables and pages are recognised by the signatures that
``file(1)`` knows; a Git LFS pointer is described at https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md.

The fast reader has scanners in threads, each with ranges of the file, put together in file order.

A range begins where an event is likely to begin (``json_chunks.boundary_from``). Only the end of the range before it
proves that: a range that began elsewhere, as within nested args, is scanned again from the proven place.
"""

from __future__ import annotations

import itertools
import os
import queue
import re
import shlex
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct, field

from npu_tui.load.build import build_trace
from npu_tui.load.errors import InputError, Watcher
from npu_tui.load.fast_scanner import Scanned, Scanner
from npu_tui.load.format import ReadingPace, Source
from npu_tui.load.formats.tables import is_of_tables
from npu_tui.load.json_chunks import BOM, CHUNK, LONGEST, array_start
from npu_tui.load.json_reader import Advance, ReadingOutcome, WholeColumns, boundary_from, read_tolerantly
from npu_tui.load.kineto import complete, link_events, rank_in
from npu_tui.load.times import TimeUnit, time_unit
from npu_tui.load.unpack import OpenFile, open_file, open_plain
from npu_tui.native.library import Library, library
from npu_tui.trace.message import Message, message
from npu_tui.trace.model import EventFile, Health, Trace

ALONE_BYTES = 4 << 20
"""A smaller file is scanned before another thread would have begun."""

_PER_THREAD = 4 << 20  # bytes that are worth one more thread
_MOST_THREADS = 8
_AHEAD = 2
"""Ranges per thread that are scanned before they can be taken in."""
_TICK_SECONDS = 0.1  # how long Ctrl+C waits for a thread at most

_LARGEST = 32 << 20
_SMALLEST = 1 << 20
_FIRST = 2 << 20
_PER_REPORT = 12
"""Ranges of a large file that each thread reads: the picture and the progress move on after each."""


def thread_count(size: int) -> int:
    """How many threads a file of ``size`` bytes is worth on this machine; at least 1."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 1 if size < ALONE_BYTES else max(min(cores, size // _PER_THREAD, _MOST_THREADS), 1)


def range_cuts(start: int, size: int, threads: int, range_bytes: int = 0) -> list[int]:
    """Where ranges of the bytes ``[start, size)`` begin.

    Small ones at the start, for an early picture, and at the end, so that no thread is left with a large one.
    """
    largest = range_bytes or min(max(size // (_PER_REPORT * threads), _SMALLEST), _LARGEST)
    smallest, first = min(largest, _SMALLEST), min(largest, _FIRST)
    cuts, at = [start], start
    while True:
        at += max(min(largest, first + (at - start) // 4, (size - at) // (2 * threads)), smallest)
        if at >= size:
            return cuts
        cuts.append(at)


def read_scanned(
    library: Library,
    path: str,
    start: int,
    size: int,
    whole: WholeColumns,
    file: int,
    chunk_size: int,
    advance: Advance,
    range_bytes: int = 0,
    threads: int = 0,
) -> ReadingOutcome:
    """Take the events of ``path`` from the boundary at ``start`` into ``whole``.

    ``advance`` is called several times a second and may raise. Raises ``OSError`` if the file cannot be read.
    """
    count = threads or thread_count(size)
    cuts = range_cuts(start, size, count, range_bytes)
    largest = max(b - a for a, b in itertools.pairwise([*cuts, size])) if size > start else 1
    taken = _Taken(whole, file, ReadingOutcome(end=start))
    make = partial(Scanner, library, chunk_size, largest)
    opened = open_file(path)
    if count == 1:
        _scan_in_order(make(), opened.descriptor, cuts, taken, advance)
    else:
        _scan_side_by_side(_Threads(make, opened.descriptor, cuts, count), opened.descriptor, taken, advance)
    return taken.outcome


class _Taken(Struct):
    """What was taken in of a file: the ``outcome`` so far ends where the next range has to begin."""

    whole: WholeColumns
    file: int
    outcome: ReadingOutcome

    def add(self, scanned: Scanned) -> None:
        """Take in the parts of the next range."""
        outcome = self.outcome
        for reader, part in scanned.parts:
            self.whole.add(part, reader, self.file)
            outcome.malformed += part.malformed
            outcome.truncated, outcome.too_long = part.truncated, part.too_long
        outcome.end = scanned.end


def _scan_in_order(scanner: Scanner, descriptor: int, cuts: list[int], taken: _Taken, advance: Advance) -> None:
    """Scan range after range in this thread."""
    outcome = taken.outcome
    for cut in [*cuts[1:], None]:
        if cut is not None and cut < outcome.end:
            continue  # the last event of the range before reached over all of this one
        scanned = scanner.scan(descriptor, outcome.end, cut)
        taken.add(scanned)
        advance(outcome.end - cuts[0], taken.whole.count)
        if scanned.last:
            return


class _Result(Struct):
    """Range ``number`` as ``reader`` scanned it; None where no event begins near. ``error`` ended the thread."""

    number: int
    reader: str
    scanned: Scanned | None
    error: BaseException | None = None


class _Threads:
    """``count`` threads that scan the ranges between ``cuts`` and put results into ``results``, in any order.

    Codes of a scanner build on all that it has read. When one of its ranges is not taken in, the others would not know
    the texts that came with it: its name goes into ``refused``, and its thread begins anew with another scanner.
    ``room`` is released for every range that was taken in or dropped: another one may be scanned.
    """

    def __init__(self, make: Callable[[], Scanner], descriptor: int, cuts: list[int], count: int) -> None:
        self.make = make
        self.cuts = cuts
        self.results: queue.SimpleQueue[_Result] = queue.SimpleQueue()
        self.room = threading.Semaphore(count * (1 + _AHEAD))
        self.refused: set[str] = set()
        self._descriptor = descriptor
        self._next = itertools.count()
        self._over = False
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Wait for the threads, which stop at the end of their range."""
        self._over = True
        for _ in self._threads:
            self.room.release()
        for thread in self._threads:
            thread.join()

    def cut_after(self, number: int) -> int | None:
        """Where the range after ``number`` begins; None for the last one."""
        return self.cuts[number + 1] if number + 1 < len(self.cuts) else None

    def _run(self) -> None:
        try:
            self._scan_ranges(self._descriptor)
        except BaseException as error:  # the thread that waits for a result must not wait for ever
            self.results.put(_Result(-1, "", None, error))

    def _scan_ranges(self, descriptor: int) -> None:
        scanner = self.make()
        while True:
            self.room.acquire()
            number = next(self._next)
            if self._over or number >= len(self.cuts):
                return
            if scanner.name in self.refused:
                scanner = self.make()
            start = boundary_from(descriptor, self.cuts[number]) if number else self.cuts[0]
            scanned = None if start is None else scanner.scan(descriptor, start, self.cut_after(number))
            self.results.put(_Result(number, scanner.name, scanned))


def _scan_side_by_side(threads: _Threads, descriptor: int, taken: _Taken, advance: Advance) -> None:
    """Take in the ranges in file order. One that does not begin where the range before it ended is scanned again."""
    outcome = taken.outcome
    waiting: dict[int, _Result] = {}
    scanned_bytes = following = 0
    try:
        while following < len(threads.cuts):
            try:
                result = threads.results.get(timeout=_TICK_SECONDS)
            except queue.Empty:
                advance(scanned_bytes, taken.whole.count)
                continue
            if result.error is not None:
                raise result.error
            if result.scanned is not None:
                scanned_bytes += result.scanned.end - result.scanned.start
            waiting[result.number] = result
            while following in waiting:
                result, cut = waiting.pop(following), threads.cut_after(following)
                following += 1
                scanned = result.scanned
                if scanned is None or scanned.start != outcome.end or result.reader in threads.refused:
                    threads.refused.add(result.reader)
                    if cut is not None and cut < outcome.end:
                        threads.room.release()
                        continue  # the last event of the range before reached over all of this one
                    scanned = threads.make().scan(descriptor, outcome.end, cut)
                taken.add(scanned)
                threads.room.release()
                if scanned.last:
                    return
            advance(scanned_bytes, taken.whole.count)
    finally:
        threads.close()


_FIRST_SECONDS = 0.1  # between pictures of a trace that loads, until one has slices
_EARLY_SECONDS = 0.5  # and then: each picture takes time from loading
_EARLY_SHARE = 0.7
"""Past this share of the file the whole trace comes soon."""

_LONGEST_HEAD = 64 << 20  # no event is longer, so one that begins here is seen whole


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
    """A trace without events: the tables of ``source`` are all there is."""
    return _without_events(source, message("odd.no_trace", path=str(source.path)))


def _without_events(source: Source, why: Message) -> Trace:
    """A trace with no slices for the tables of ``source`` to lie beside; ``why`` is a warning in its ``Health``."""
    return build_trace(WholeColumns(), str(source.path), (), source.rank, Health(warnings=[why]))


class TextReading(Struct):
    """One reading of the files of ``source``, which are text.

    ``shown_at`` is when what has been read was last shown, ``shown_events`` how much that was. ``held`` are the files
    that stay open, ``unit`` is that of their times where it is no microsecond that fits, ``is_fine`` whether times are
    read as picoseconds.
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
    is_fine: bool = False

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
        categories, rank = [*self.whole.categories.values_in_order], source.rank
        rank = rank_in(files[0].path, categories) if rank is None else rank
        trace = build_trace(self.whole, str(source.path), tuple(files), rank, health)
        trace.held, trace.is_fine = self.held, self.is_fine
        if not (health.truncated or len(trace.slices) or len(trace.counters) or len(trace.links)):
            raise InputError(message("input.no_time", path=str(source.path), count=self.whole.count))
        complete(trace, categories)
        link_events(trace)
        return trace

    def read(self, path: Path, number: int) -> tuple[EventFile, int]:
        """Take the events of the file ``number`` at ``path`` in; returns the offset reached as well."""
        whole, health = self.whole, self.health
        packed, before = path.stat().st_size, whole.count
        plain = open_plain(path, lambda done: self.watcher.report(done, packed, whole.count))
        start = _array_start(path, plain.stream)
        file = EventFile(plain.path, plain.size, plain.stream if plain.unpacked else None)
        opened = open_file(plain.path)
        self.held.append(opened.kept())
        advance = partial(self._advance, file, number)
        if not number:  # the slices of one export count alike
            self.unit = time_unit(os.pread(opened.descriptor, CHUNK, start))
            if self.unit is not None:
                self.is_fine = self.unit.told == "below_ns"
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

    def _advance(self, file: EventFile, number: int, done: int, events: int) -> None:
        """Report that ``done`` bytes of the file ``number`` are read; show what is there if that is twice as much."""
        self.watcher.report(done, file.size, events)
        early, count = self.watcher.early, self.whole.count
        if number or early is None:  # those of later files are not in sight yet
            return
        if count < max(2 * self.shown_events, 1) or done >= file.size * _EARLY_SHARE:
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


# First bytes, the name of the format, and the command that unpacks it.
_PACKED = (
    (b"PK\x03\x04", "zip", "unzip {file} -d {folder}"),
    (b"PK\x05\x06", "zip", "unzip {file} -d {folder}"),
    (b"\xfd7zXZ\0", "xz", "xz -dk {file}"),
    (b"\x28\xb5\x2f\xfd", "zst", "zstd -d {file}"),
    (b"BZh", "bzip2", "bzip2 -dk {file}"),
    (b"\x04\x22\x4d\x18", "lz4", "lz4 -d {file}"),
    (b"7z\xbc\xaf\x27\x1c", "7z", "7z x {file}"),
    (b"Rar!\x1a\x07", "rar", "unrar x {file}"),
)

_TAR_AT, _TAR = 257, b"ustar"  # where POSIX has the mark in the header of the first member
_WIDE = (
    (b"\xff\xfe\0\0", "UTF-32"),
    (b"\0\0\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
    (b"[\0", "UTF-16LE"),
    (b"{\0", "UTF-16LE"),
    (b"\0[", "UTF-16BE"),
    (b"\0{", "UTF-16BE"),
)
"""How a text of wider characters begins: with a byte order mark, or with the bracket of JSON."""

_POINTER = b"version https://git-lfs.github.com/spec/"
_POINTER_SIZE = re.compile(rb"^size (\d{1,18})$", re.MULTILINE)
_PAGE = re.compile(rb"\s*<(?:!doctype html|html)\b", re.IGNORECASE)
_OTHERS = ((re.compile(rb"# tracer: "), "input.ftrace"), (re.compile(rb"PAR1"), "input.parquet"))
"""how files of other tools begin that lie near profiles: scheduler events, a table of columns."""
# How the file of PyTorch's ExecutionTraceObserver begins: https://github.com/facebookresearch/param (et_replay).
_EXECUTION_TRACE = re.compile(rb'\s*\{\s*"schema"\s*:\s*"\d+\.\d+\.\d+-')
# What PTO's runtime records of its tasks: docs/dfx/chip-swimlane-profiling.md of
# https://github.com/hw-native-sys/simpler.
_SWIMLANES = re.compile(r"(?:chip|perf)_swimlane.*\.json")
_TABLES = (".csv", ".xlsx", ".xls", ".tsv")
_OF_PROFILERS = (
    ((b"Accelerator Core", b"Duration(us)"), "kernel_details.csv"),
    ((b"Task Duration(us)",), "op_summary.csv"),
    ((b"Index", b"Communication(Not Overlapped)"), "cluster_step_trace_time.csv"),
    ((b"Computing", b"Communication(Not Overlapped)"), "step_trace_time.csv"),
    ((b"Core Type", b"Total Time(us)"), "op_statistic.csv"),
    ((b"kernel_name", b"task_time(us)"), "task_time.csv"),
)
"""Columns of tables that are read without a trace, and the name that each must have."""
_PERFETTO = (".pftrace", ".perfetto-trace", ".perfetto", ".proto")
_PIPED = {"input.packed": "input.packed_piped", "input.wide": "input.wide_piped", "input.lines": "input.lines_piped"}
"""What is said of bytes that came through a pipe, where their file has a command of its own."""
_LINE = re.compile(rb"\s*(\{.*\}),?[ \t\r]*\n\s*\{")


def foreign(head: bytes, file: Path) -> Message | None:
    """What ``file``, which begins with ``head``, is instead of a trace, and what to do; None if unknown."""
    quoted = shlex.quote(str(file))
    for magic, form, command in _PACKED:
        if head.startswith(magic):
            folder = shlex.quote(str(file.with_suffix("")) if file.suffix else f"{file}.unpacked")
            return _packed(file, form, command.format(file=quoted, folder=folder))
    if head[_TAR_AT : _TAR_AT + len(_TAR)] == _TAR:
        return _packed(file, "tar", f"tar -xf {quoted} -C {shlex.quote(str(file.parent))}")
    # Wide encodings before all that looks at letters: there every other byte is zero.
    for magic, encoding in _WIDE:
        if head.startswith(magic):
            command = f"iconv -f {encoding} -t UTF-8 {quoted} > {_name_beside(file, 'utf8')}"
            return message("input.wide", path=str(file), encoding=encoding, command=command)
    # What Git LFS leaves where the file itself was not fetched.
    if head.startswith(_POINTER):
        size = _POINTER_SIZE.search(head)
        return message("input.pointer", path=str(file), size=int(size[1]) if size else 0)
    if _PAGE.match(head):
        return message("input.page", path=str(file))
    if file.suffix.lower() in _TABLES:
        header = head.partition(b"\n")[0]
        if name := next((name for columns, name in _OF_PROFILERS if all(each in header for each in columns)), ""):
            place = Path(f"{file.with_suffix('')}_table")
            command = f"mkdir {shlex.quote(str(place))} && cp {quoted} {shlex.quote(str(place / name))}"
            return message("input.table_renamed", path=str(file), name=name, command=command)
        return message("input.table", path=str(file), folder=str(file.parent))
    if file.suffix.lower() in _PERFETTO:
        command = f"traceconv json {quoted} {_name_beside(file.with_suffix(''), 'trace')}"
        return message("input.perfetto", path=str(file), command=command)
    for begins, code in _OTHERS:
        if begins.match(head):
            return message(code, path=str(file))
    if _SWIMLANES.fullmatch(file.name) and b'"traceEvents"' not in head:
        command = f"python3 tools/swimlane_converter.py {quoted} -o {_name_beside(file, 'merged')}"
        return message("input.swimlanes", path=str(file), command=command)
    if _EXECUTION_TRACE.match(head):
        return message("input.execution_trace", path=str(file))
    if _is_lines(head):
        command = (
            f"(echo '['; sed -E 's/,?[[:space:]]*$//; $!s/$/,/' {quoted}; echo ']') > {_name_beside(file, 'array')}"
        )
        return message("input.lines", path=str(file), command=command)
    return None


def piped(refusal: Message, path: str) -> Message:
    """``refusal`` for bytes that came through the pipe ``path``: no command can name their file."""
    return Message(_PIPED.get(refusal.code, refusal.code), refusal.args | {"path": path})


def _packed(file: Path, form: str, command: str) -> Message:
    return message("input.packed", path=str(file), form=form, command=command)


def _name_beside(file: Path, what: str) -> str:
    """The name of a new file beside ``file``, for a command line."""
    return shlex.quote(str(file.with_name(f"{file.stem}.{what}.json")))


def _is_lines(head: bytes) -> bool:
    """Whether ``head`` begins with an object on a line of its own and another one after it."""
    first = _LINE.match(head)
    if first is None:
        return False
    try:
        return isinstance(msgspec.json.decode(first[1]), dict)
    except (ValueError, RecursionError):
        return False
