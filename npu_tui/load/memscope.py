"""A dump of MemScope to the columns of a memory snapshot: its allocations and releases, by device and allocator.

https://gitcode.com/Ascend/msmemscope, docs/en/user_guide/output_file_spec.md. The rows are in no order: their times
order them. What the driver (HAL) gave out holds the segments of PyTorch (PTA), so allocators are never added up. The
dump tells no segments: where the allocator does not count what it has reserved, that is unknown, and so is what lies
unused in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct

from npu_tui.load.csv_table import Blocks as Rows
from npu_tui.load.csv_table import parsed_rows
from npu_tui.load.database_file import as_text, opened
from npu_tui.load.database_rows import Tables
from npu_tui.load.errors import UNWATCHED, InputError, Watcher
from npu_tui.load.layouts import form_of
from npu_tui.load.lives import lives_of
from npu_tui.trace.frames import OPERATION
from npu_tui.trace.message import Message, message
from npu_tui.trace.snapshot import HOST, Action, Blocks, DeviceMemory, Events, MemorySnapshot, Segments

TABLE = "memscope_dump"
_NEEDED = "Event", "Event Type", "Timestamp(ns)", "Device Id", "Ptr", "Attr"
_WANTED = (*_NEEDED, "ID", "Process Id", "Call Stack(Python)", "Call Stack(C)", "Name", "Thread Id")
_BEGUN, _ENDED = -1, -2
"""An operation of PyTorch begins or ends on its thread."""
_ACTIONS = {"MALLOC": Action.alloc, "FREE": Action.free_completed}
_OPERATIONS = {"ATEN_START": _BEGUN, "ATEN_END": _ENDED}
_OWNER = re.compile(r"[{,]\s*\"?owner\"?\s*:\s*\"?([\w@./-]{1,128})")
"""Whose memory it is, such as ``PTA@weight``, where the tool was told to find that out."""
_NUMBER = re.compile(r"[{,]\s*\"?(size|total|used)\"?\s*:\s*\"?(-?[0-9]{1,18})(?![0-9])")
"""A number in Attr, which has three spellings: ``{addr:1,size:-512}``, with hexadecimal addresses, or JSON."""
_WHOLE, _ADDRESS = re.compile(r"[0-9]{1,19}"), re.compile(r"0x[0-9a-fA-F]{1,16}|[0-9]{1,20}")
_FRAME = re.compile(r"(.{1,4096})\((\d{1,9})\): (.{1,1024})")
_OF_THE_TOOL = re.compile(r"[/\\]msmemscope[/\\]")
_LONGEST_STACK = 400
_MICROSECONDS = 10**17
"""Times below it are in us, whatever the name of the column says, as those of 2025-04 are."""
_MOST, _MOST_DEVICES, _MOST_ALLOCATORS = 1 << 50, 1024, 256
_HOSTS = "cpu", "host"


class _Row(Struct, gc=False):
    """One allocation or release; ``total`` and ``used`` are what the allocator counted after it, -1 if it did not.

    Or an operation, called ``allocator``, that begins or ends.
    """

    time: int
    number: int
    action: int
    allocator: str
    process: int
    device: int | None
    address: int
    size: int
    total: int
    used: int
    stack: int
    owner: int
    thread: str


def load_memscope(path: Path, watcher: Watcher = UNWATCHED) -> MemorySnapshot:
    """The dump at ``path``, CSV or a database. Raises ``InputError`` for another file, ``OSError`` as ``open``."""
    return _Reading(path, watcher).snapshot()


class _Reading:
    """One reading of the dump at ``path``."""

    def __init__(self, path: Path, watcher: Watcher) -> None:
        self._path, self._watcher = path, watcher
        self._size = path.stat().st_size
        self._stacks: dict[str, int] = {}
        self._texts: list[str] = []
        self._stack_of: dict[tuple[str, str], int] = {}
        self._odd: dict[Message, int] = {}
        self._owners: dict[str, int] = {}

    def snapshot(self) -> MemorySnapshot:
        """The columns of every device and allocator of the dump, by name."""
        cells = self._of_database() if form_of(self._path) == "db" else self._of_csv()
        rows = sorted(
            (row for one in cells if (row := self._row(one)) is not None), key=lambda row: (row.time, row.number)
        )
        several = len({row.process for row in rows}) > 1
        groups: dict[tuple[int, str, int], list[_Row]] = {}
        held: dict[tuple[int, str, int], int] = {}
        going_on: dict[tuple[int, str], list[tuple[str, list[_Row]]]] = {}
        for row in rows:
            operations = going_on.setdefault((row.process, row.thread), [])
            if row.action == _BEGUN:
                operations.append((row.allocator, []))
            elif row.action == _ENDED:
                self._end(operations, row.allocator)
            elif row.action == Action.alloc and operations:
                operations[-1][1].append(row)
            if row.action < 0:
                continue
            # The driver does not say of which device it releases memory.
            place = row.process, row.allocator, row.address
            device = held.get(place) if row.device is None else row.device
            if row.action == Action.alloc and device is not None:
                held[place] = device
            if device is None:
                self._count("odd.memscope_device")
                continue
            whose = device, row.allocator, row.process
            if whose not in groups and len(groups) >= _MOST_ALLOCATORS:
                self._count("odd.memory_event")
            else:
                groups.setdefault(whose, []).append(row)
        devices = [
            self._device(device, allocator, process if several else -1, groups[device, allocator, process])
            for device, allocator, process in sorted(groups)
        ]
        owners = list(self._owners)
        return MemorySnapshot(str(self._path), self._size, devices, self._texts, self._odd, "memscope_dump", owners)

    def _device(self, number: int, allocator: str, process: int, rows: list[_Row]) -> DeviceMemory:
        def column(name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
            return np.array([getattr(row, name) for row in rows], np.int64)

        action = column("action")
        events = Events(
            action=action.astype(np.int8), address=column("address"), size=column("size"),
            stream=np.full(len(rows), -1), stack=np.where(action == Action.alloc, column("stack"), -1).astype(np.int32),
            time=column("time"), pool=column("owner").astype(np.int32),
        )  # fmt: skip
        segments, blocks = Segments(), Blocks()
        lives = lives_of(events, segments, blocks)
        device = DeviceMemory(number, events, segments, blocks, lives, allocator, process, has_segments=False)
        total, used = column("total"), column("used")
        # A total below what is used, as in dumps of 2025-04, is no total.
        if (total >= np.maximum(used, device.requested)).all():
            device.counted = total
        self._count("odd.memscope_used", int(np.count_nonzero((used >= 0) & (used != device.requested))))
        return device

    def _row(self, cells: Sequence[str]) -> _Row | None:
        """The row that ``cells`` (as ``_WANTED``) spell, None for one that is no allocation or cannot be used."""
        event, allocator, time, device, pointer, attr, number, process, python, native, name, thread = cells
        action = _OPERATIONS.get(allocator) if event == "OP_LAUNCH" else _ACTIONS.get(event)
        if action is None:
            return None
        allocates = action == Action.alloc
        if action < 0:
            allocator, device, pointer, attr = name.removeprefix("torch._ops.")[:63], "0", "0", "{size:0"
        counts = {name: int(text) for name, text in _NUMBER.findall(attr)}
        size = counts.get("size", _MOST)
        size = -size if action == Action.free_completed and size < 0 else size
        place = device if device in _HOSTS or _WHOLE.fullmatch(device) else None
        is_known = (
            _WHOLE.fullmatch(time) and _ADDRESS.fullmatch(pointer) and 0 <= size < _MOST and 0 < len(allocator) < 64
        )
        if not is_known or (place is None and allocates):
            self._count("odd.memory_event")
            return None
        moment, address = int(time), int(pointer, 16 if pointer.startswith("0x") else 10)
        moment = moment * 1000 if moment < _MICROSECONDS else moment
        numbers = int(number) if _WHOLE.fullmatch(number) else 0, int(process) if _WHOLE.fullmatch(process) else 0
        on = None if place is None else HOST if place in _HOSTS else int(place)
        if max(moment, address, *numbers) >= 1 << 63 or (on is not None and on >= _MOST_DEVICES):
            self._count("odd.memory_event")
            return None
        return _Row(
            moment, numbers[0], action, allocator, numbers[1], on, address, size,
            counts.get("total", -1), counts.get("used", -1), self._stack(python, native) if allocates else -1,
            self._owner(attr) if allocates else -1, thread,
        )  # fmt: skip

    def _owner(self, attr: str) -> int:
        match = _OWNER.search(attr)
        return -1 if match is None else self._owners.setdefault(match[1], len(self._owners))

    def _end(self, operations: list[tuple[str, list[_Row]]], name: str) -> None:
        """Operation ``name`` ends, of those that go on: it is the innermost frame of what it allocated itself."""
        if name not in (operation for operation, _ in operations):
            return
        while operations:
            operation, allocated = operations.pop()
            if operation == name:
                break  # those within it did not end: what they allocated stays without an operation
        for row in allocated:
            rest = [] if row.stack < 0 else [self._texts[row.stack]]
            row.stack = self._number("\n".join((f"{OPERATION}{name};", *rest)))

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

    def _count(self, said: str, count: int = 1) -> None:
        if count:
            self._odd[message(said)] = self._odd.get(message(said), 0) + count

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
                    self._count("odd.memscope_row", int(any(row)))
                else:
                    yield ["" if place is None else row[place].strip() for place in places]
        self._count("odd.memscope_row", rows.short + rows.cut_off)

    def _of_database(self) -> Iterator[list[str]]:
        with opened(self._path) as database:
            tables = Tables(database)
            table = tables.find(TABLE)
            self._places([] if table is None else list(table.columns.values()))
            for cells in tables.cells(table, *_WANTED) if table is not None else ():
                yield [as_text(cell).strip() for cell in cells]
            if tables.damaged or database.cut:
                self._count("odd.memscope_page")

    def _places(self, header: Sequence[str]) -> list[int | None]:
        """Where each of ``_WANTED`` stands in ``header``. Raises ``InputError`` without one that is needed."""
        missing = [name for name in _NEEDED if name not in header]
        if missing:
            raise InputError(message("input.memscope", path=str(self._path), missing=", ".join(missing)))
        return [header.index(name) if name in header else None for name in _WANTED]
