"""A dump of MemScope to the columns of a memory snapshot: its allocations and releases, by device and allocator.

https://gitcode.com/Ascend/msmemscope, docs/en/user_guide/output_file_spec.md. The rows are in no order: their times
order them. What the driver (HAL) gave out holds the segments of PyTorch (PTA), so allocators are never added up. The
dump has no segments: where the allocator does not count what it has reserved, that is unknown, and so is what lies
unused in it.

A life of a block is an allocation paired with what gave it back; the history may lack either.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from npu_tui.load.csv_rows import CsvBlocks as Rows
from npu_tui.load.csv_rows import parsed_rows
from npu_tui.load.database_file import as_text, opened
from npu_tui.load.database_rows import DatabaseTables
from npu_tui.load.errors import UNWATCHED, InputError, Watcher
from npu_tui.load.format import form_of
from npu_tui.load.layers import first_rows
from npu_tui.trace.classes import OPERATION
from npu_tui.trace.message import Message, message
from npu_tui.trace.snapshot import (
    BEFORE,
    HOST,
    NEVER,
    Action,
    AllocatorEvents,
    DeviceMemory,
    Lives,
    MemorySnapshot,
    SegmentBlocks,
    Segments,
    State,
)

if TYPE_CHECKING:
    import polars as pl

TABLE = "memscope_dump"
_NEEDED = "Event", "Event Type", "Timestamp(ns)", "Device Id", "Ptr", "Attr"
_WANTED = (*_NEEDED, "ID", "Process Id", "Call Stack(Python)", "Call Stack(C)", "Name", "Thread Id")
_BEGUN, _ENDED = -1, -2
"""An operation of PyTorch begins or ends on its thread."""
_ACTIONS = {"MALLOC": Action.alloc.value, "FREE": Action.free_completed.value}
_OPERATIONS = {"ATEN_START": _BEGUN, "ATEN_END": _ENDED}
_OWNER = r"""[{,]\s*"?owner"?\s*:\s*"?([\w@./-]{1,128})"""
"""Whose memory it is, such as ``PTA@weight``, where the tool was set to find that out."""
# A number in Attr, which has three spellings: ``{addr:1,size:-512}``, with hexadecimal addresses, or JSON.
_NUMBER = r"""(?s)^.*[{,]\s*"?%s"?\s*:\s*"?(-?[0-9]{1,18})(?:[^0-9]|$)"""
_WHOLE, _HEXADECIMAL = r"^[0-9]{1,19}$", r"^0x([0-9a-fA-F]{1,16})$"
_FRAME = re.compile(r"(.{1,4096})\((\d{1,9})\): (.{1,1024})")
_OF_THE_TOOL = re.compile(r"[/\\]msmemscope[/\\]")
_LONGEST_STACK = 400  # as many frames as of a snapshot of PyTorch
_MICROSECONDS, _LATEST_US = 10**17, (2**63 - 1) // 1000
"""Times below it are in us, whatever the name of the column says, as those of 2025-04 are."""
_MOST, _MOST_DEVICES, _MOST_ALLOCATORS = 1 << 50, 1024, 256  # more bytes or names are damage
_HOSTS = "cpu", "host"
_KEPT = "action", "address", "size", "time", "owner", "total", "used"
"""Columns of allocations and releases that are looked at once all of them are in order."""
_ROWS = 5_000  # rows that are looked at together: as texts each takes 700 bytes


def load_memscope(path: Path, watcher: Watcher = UNWATCHED) -> MemorySnapshot:
    """The dump at ``path``, CSV or a database. Raises ``InputError`` for another file, ``OSError`` as ``open``."""
    return _DumpReading(path, watcher).snapshot()


class _DumpReading:
    """One reading of the dump at ``path``."""

    def __init__(self, path: Path, watcher: Watcher) -> None:
        self._path, self._watcher = path, watcher
        self._size = path.stat().st_size
        self._stacks: dict[str, int] = {}
        self._texts: list[str] = []
        self._stack_of: dict[tuple[str, str], int] = {}
        self._odd = Counter[Message]()
        self._owners: dict[str, int] = {}

    def snapshot(self) -> MemorySnapshot:
        """The columns of every device and allocator of the dump, by name."""
        import polars as pl

        cells = self._of_database() if form_of(self._path) == "db" else self._of_csv()
        rows = pl.concat(self._pieces(cells))
        if (once := first_rows(rows, ("time",))) is not None:
            self._odd[message("odd.memscope_twice")] += int(np.count_nonzero(~once))
            rows = rows.filter(once)
        whose = "device", "allocator", "process"
        order = np.lexsort((rows["number"].to_numpy(), rows["time"].to_numpy()))
        timed = rows.select("action", "address", "thread", "stack", *whose)[order]
        timed = timed.with_columns(stack=self._operated(timed), row=order).filter(pl.col("action") >= 0)
        several = timed["process"].n_unique() > 1
        if timed["device"].null_count():
            timed = timed.with_columns(_devices(timed))
        self._odd[message("odd.memscope_device")] += timed["device"].null_count()
        timed = timed.select("row", "stack", *whose).drop_nulls("device")
        parts = timed.partition_by(whose, maintain_order=True)
        self._odd[message("odd.memory_event")] += sum(map(len, parts[_MOST_ALLOCATORS:]))
        parts = sorted(parts[:_MOST_ALLOCATORS], key=lambda part: part.select(whose).row(0))
        joined = pl.concat([timed[:0], *parts])
        given_away = rows.select(_KEPT).to_dict()
        del rows, timed
        # One column after the other: all of them at once would take as much memory again.
        columns = {name: given_away.pop(name).gather(joined["row"]).to_numpy() for name in _KEPT}
        columns["stack"] = joined["stack"].to_numpy()
        devices, end = [], 0
        for part in parts:
            (device, allocator, process), begin, end = part.select(whose).row(0), end, end + len(part)
            mine = {name: column[begin:end] for name, column in columns.items()}
            devices.append(self._device(device, allocator, process if several else -1, mine))
        owners = list(self._owners)
        return MemorySnapshot(str(self._path), self._size, devices, self._texts, +self._odd, "memscope_dump", owners)

    def _device(self, number: int, allocator: str, process: int, column: dict[str, Any]) -> DeviceMemory:
        events = AllocatorEvents(
            action=column["action"], address=column["address"], size=column["size"], stack=column["stack"],
            stream=np.broadcast_to(np.int64(-1), len(column["time"])), time=column["time"], pool=column["owner"],
        )  # fmt: skip
        segments, blocks = Segments(), SegmentBlocks()
        lives = lives_of(events, segments, blocks)
        device = DeviceMemory(number, events, segments, blocks, lives, allocator, process, has_segments=False)
        total, used = column["total"], column["used"]
        # A total below what is used, as in dumps of 2025-04, is no total.
        if (total >= np.maximum(used, device.requested)).all():
            device.counted = total
        self._odd[message("odd.memscope_used")] += int(np.count_nonzero((used >= 0) & (used != device.requested)))
        return device

    def _pieces(self, cells: Iterator[list[str]]) -> Iterator[pl.DataFrame]:
        """The rows that ``cells`` (as ``_WANTED``) spell, some at a time; those that cannot be used are counted."""
        while True:
            piece = list(itertools.islice(cells, _ROWS))
            yield self._rows(piece)
            if len(piece) < _ROWS:
                return

    def _rows(self, cells: list[list[str]]) -> pl.DataFrame:
        """Allocations and releases, ``total`` and ``used`` as the allocator counted after each, -1 if it did not.

        Operations that begin or end are called ``allocator``.
        """
        import polars as pl

        event, kind, time, device, pointer, attr, number, process, python, native, name, thread = map(pl.col, _WANTED)
        of_memory = event.replace_strict(_ACTIONS, default=None, return_dtype=pl.Int64)
        of_operation = kind.replace_strict(_OPERATIONS, default=None, return_dtype=pl.Int64)
        action = pl.coalesce(of_memory, pl.when(event == "OP_LAUNCH").then(of_operation))
        rows = pl.DataFrame(cells, dict.fromkeys(_WANTED, pl.String), orient="row").with_columns(action=action)

        def whole(text: pl.Expr, otherwise: int | None = None, beyond: int = -1) -> pl.Expr:
            number = text.cast(pl.Int64, strict=False).fill_null(beyond)
            return pl.when(text.str.contains(_WHOLE)).then(number).otherwise(otherwise)

        def counted(of: str) -> pl.Expr:
            return attr.str.extract(_NUMBER % of).cast(pl.Int64)

        action, size, since, at = pl.col("action"), pl.col("size"), pl.col("time"), pl.col("device")
        allocates, asked = action == Action.alloc.value, counted("size")
        on = whole(device, beyond=_MOST_DEVICES)
        address = pl.coalesce(pointer.str.extract(_HEXADECIMAL).str.to_integer(base=16, strict=False), whole(pointer))
        rows = rows.filter(action.is_not_null()).select(
            "action", python=python, native=native, thread=thread,
            time=whole(time), number=whole(number, 0), process=whole(process, 0),
            allocator=pl.when(action < 0).then(name.str.strip_prefix("torch._ops.").str.slice(0, 63)).otherwise(kind),
            device=pl.when(action < 0).then(0).when(device.is_in(_HOSTS)).then(HOST).otherwise(on),
            address=pl.when(action < 0).then(0).otherwise(address),
            size=pl.when(action < 0).then(0).when(~allocates & (asked < 0)).then(-asked).otherwise(asked),
            total=counted("total").fill_null(-1), used=counted("used").fill_null(-1),
            owner=pl.when(allocates).then(attr.str.extract(_OWNER)),
        )  # fmt: skip
        usable = (
            pl.all_horizontal(pl.col("time", "number", "process", "address", "size") >= 0) & (size < _MOST)
            & ~since.is_between(_LATEST_US + 1, _MICROSECONDS - 1)
            & pl.col("allocator").str.len_chars().is_between(1, 63) & (at < _MOST_DEVICES).fill_null(~allocates)
        ).fill_null(False)  # fmt: skip
        kept = rows.filter(usable).with_columns(time=pl.when(since < _MICROSECONDS).then(since * 1000).otherwise(since))
        self._odd[message("odd.memory_event")] += len(rows) - len(kept)
        stacks = kept.select(allocates, "python", "native").iter_rows()
        codes = {
            "stack": [self._stack(*texts) if told else -1 for told, *texts in stacks],
            "owner": [-1 if one is None else self._owners.setdefault(one, len(self._owners)) for one in kept["owner"]],
        }
        return kept.drop("python", "native").with_columns(
            *pl.DataFrame(codes, dict.fromkeys(codes, pl.Int32)),
            pl.col("action").cast(pl.Int8),
            pl.col("device").cast(pl.Int16),
            pl.col("thread", "allocator").cast(pl.Categorical),
        )

    def _operated(self, rows: pl.DataFrame) -> pl.Series:
        """The stacks of ``rows``; an operation is the innermost frame of what it allocated itself."""
        import polars as pl

        stacks: list[int] = rows["stack"].to_list()
        going_on: dict[tuple[int, str], list[tuple[str, list[int]]]] = {}
        cells = rows.select("action", "process", "thread", "allocator").iter_rows()
        for row, (action, process, thread, name) in enumerate(cells):
            operations = going_on.setdefault((process, thread), [])
            if action == _BEGUN:
                operations.append((name, []))
            elif action == Action.alloc and operations:
                operations[-1][1].append(row)
            while action == _ENDED and any(operation == name for operation, _ in operations):
                operation, allocated = operations.pop()
                if operation != name:  # it did not end: what it allocated stays without an operation
                    continue
                for of in allocated:
                    rest = [] if stacks[of] < 0 else [self._texts[stacks[of]]]
                    stacks[of] = self._number("\n".join((f"{OPERATION}{name};", *rest)))
                break
        return pl.Series(stacks, dtype=pl.Int32)

    def _number(self, stack: str) -> int:
        known = self._stacks.get(stack)
        if known is None:
            known = self._stacks[stack] = len(self._texts)
            self._texts.append(stack)
        return known

    def _stack(self, python: str, native: str) -> int:
        known = self._stack_of.get((python, native))
        if known is None:
            lines = [f"??(0): {line.rpartition('/')[2]};" for line in native.splitlines() if line.strip()]
            for line in python.splitlines():
                match = _FRAME.fullmatch(line.strip())
                if match and not _OF_THE_TOOL.search(match[1]):  # the hooks of the tool allocate nothing
                    lines.append(f"{match[1]}({match[2]}): {match[3]};")
            text = "\n".join(lines[:_LONGEST_STACK])
            known = self._number(text) if text else -1
            self._stack_of[python, native] = known
        return known

    def _of_csv(self) -> Iterator[list[str]]:
        rows = Rows(self._path)
        header = [name.strip() for name in rows.header]
        places = self._places(header)
        done = 0
        for block in rows:
            done += len(block)
            self._watcher.report(min(done, self._size), self._size)
            for row in parsed_rows(block):
                if len(row) < len(header):
                    self._odd[message("odd.memscope_row")] += int(any(row))
                else:
                    yield ["" if place is None else row[place].strip() for place in places]
        self._odd[message("odd.memscope_row")] += rows.short + rows.cut_off

    def _of_database(self) -> Iterator[list[str]]:
        with opened(self._path) as database:
            tables = DatabaseTables(database)
            table = tables.find(TABLE)
            self._places([] if table is None else list(table.columns.values()))
            for cells in tables.cells(table, *_WANTED):
                yield [as_text(cell).strip() for cell in cells]
            if tables.damaged or database.cut:
                self._odd[message("odd.memscope_page")] += 1

    def _places(self, header: Sequence[str]) -> list[int | None]:
        """Where each of ``_WANTED`` stands in ``header``. Raises ``InputError`` without one that is needed."""
        missing = [name for name in _NEEDED if name not in header]
        if missing:
            raise InputError(message("input.memscope", path=str(self._path), missing=", ".join(missing)))
        return [header.index(name) if name in header else None for name in _WANTED]


def _devices(rows: pl.DataFrame) -> pl.Series:
    """The device of each of ``rows``, which are in order: the driver does not say of which it releases memory.

    It is that of the last allocation at the address, in numpy: a window of polars takes 150 bytes an address.
    """
    keys = [rows["address"].to_numpy(), rows["allocator"].to_physical().to_numpy(), rows["process"].to_numpy()]
    order = np.lexsort(keys)
    begins = np.append(True, np.logical_or.reduce([key[order][1:] != key[order][:-1] for key in keys]))
    allocates = (rows["action"] == Action.alloc.value).to_numpy()[order]
    last = np.maximum.accumulate(np.where(begins | allocates, np.arange(len(order)), 0))
    source = np.empty(len(order), np.int64)
    source[order] = np.where(allocates[last], order[last], order)
    return rows["device"].fill_null(rows["device"].gather(source))


def lives_of(events: AllocatorEvents, segments: Segments, blocks: SegmentBlocks) -> Lives:
    """Every block that ``events`` or the ``blocks`` at the end have, by the event that began it."""
    at = np.flatnonzero(np.isin(events.action, (Action.alloc, Action.free_requested, Action.free_completed)))
    at = at[np.lexsort((at, events.address[at]))]
    action, address = events.action[at], events.address[at]
    earlier = np.append(np.int8(-1), action[:-1])[: len(at)]
    earlier[np.append(True, address[1:] != address[:-1])[: len(at)]] = -1  # the first one of its address
    # A release that no allocation or request leads to is of a block older than the history.
    requested, completed = action == Action.free_requested, action == Action.free_completed
    begins = (action == Action.alloc) | (earlier == -1)
    begins |= requested & (earlier != Action.alloc)
    begins |= completed & (earlier == Action.free_completed)
    first, life = np.flatnonzero(begins), np.cumsum(begins) - 1
    # Memory that is given out again was released, even where the history lacks that.
    gone = np.append(at[first[1:]], NEVER)[: len(first)]
    gone[np.append(address[first[1:]] != address[first[:-1]], True)[: len(first)]] = NEVER
    gone[life[completed]] = at[completed]
    end = gone.copy()
    end[life[requested]] = at[requested]
    start, at = np.where(action[first] == Action.alloc, at[first], BEFORE), at[first]

    live = np.flatnonzero(blocks.state != State.inactive)
    # A block at the end belongs to the last life of its address, if that has no end.
    open_ = np.flatnonzero(gone == NEVER)
    known = np.append(events.address[at[open_]], -1)
    place = np.searchsorted(known[:-1], blocks.address[live])
    matched = known[place] == blocks.address[live]
    taken = np.full(len(at), -1, np.int64)
    taken[open_[place[matched]]] = blocks.size[live[matched]]
    rest = live[~matched]
    before = np.full(len(rest), BEFORE)
    order = np.argsort(np.append(start, before), kind="stable")
    return Lives(
        start=np.append(start, before)[order],
        end=np.append(end, np.where(blocks.state[rest] == State.active_pending_free, BEFORE, NEVER))[order],
        gone=np.append(gone, np.full(len(rest), NEVER))[order],
        address=np.append(events.address[at], blocks.address[rest])[order],
        size=np.append(events.size[at], blocks.requested[rest])[order],
        taken=np.append(taken, blocks.size[rest])[order],
        stream=np.append(events.stream[at], segments.stream[blocks.segment[rest]])[order],
        stack=np.append(events.stack[at], blocks.stack[rest])[order],
    )
