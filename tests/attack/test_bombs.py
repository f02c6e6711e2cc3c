"""Files that mean far more than they hold, one of each kind: memory and time stay within those of their bytes.

The command ``bombs.py`` tries all of them.
"""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest
from bombs import BOMBS, is_held, tried
from hypothesis import given
from hypothesis import strategies as st

from npu_tui.load.companion_schema import FileColumn, Schema
from npu_tui.load.csv_table import read_table
from npu_tui.load.errors import InputError
from npu_tui.load.load import load
from npu_tui.load.memscope import load_memscope
from npu_tui.load.snapshot import load_snapshot
from npu_tui.load.unpack import open_file
from npu_tui.trace import memory, side_file
from npu_tui.trace.memory import A_ROW, UNLIMITED
from npu_tui.trace.side_file import head_of, held_bytes, open_regular, read_regular

KINDS = [
    "block with a history shared", "long ids of pools shared", "empty lines", "one list of requests", "commas",
    "very many members", "a cell of zeros", "endless view",
]  # fmt: skip
SIZE = 6 << 20


@pytest.mark.few(2)
@pytest.mark.parametrize("name", [*KINDS, *(bomb.format for bomb in BOMBS if bomb.name == "hole of 1 TB")])
def test_memory_and_time_are_those_of_the_bytes_on_the_disk(name):
    bomb = next(bomb for bomb in BOMBS if name in (bomb.name, bomb.format if bomb.name == "hole of 1 TB" else ""))
    least, most, size = tried(bomb, SIZE)
    assert is_held(bomb, least, most, size), (least, most, size)


PAGE = 64 << 10
"""No file system keeps smaller holes."""


@given(st.binary(min_size=1, max_size=300), st.integers(1, 5), st.integers(0, 1 << 42), st.integers(1, 1 << 20))
def test_a_hole_is_the_end_of_a_file(tmp_path_factory, content, pages, hole, step):
    path = tmp_path_factory.mktemp("holes") / "file"
    data = (content * (pages * PAGE // len(content) + 1))[: pages * PAGE]
    path.write_bytes(data)
    os.truncate(path, len(data) + hole)
    with open_regular(path) as stream:
        assert held_bytes(stream.fileno()) == len(data) if hole >= PAGE else True
        if hole < PAGE:
            return
        assert b"".join(iter(lambda: stream.read(step), b"")) == data
        stream.seek(0)
        assert stream.readall() == data
        stream.seek(len(data) - 1)
        assert stream.read() == data[-1:]
        stream.seek(len(data) + 7)
        assert stream.read(9) == b""
    assert read_regular(path, len(data)) == data
    assert head_of(path, 1 << 30) == data
    with open_file(path).stream() as stream:
        buffer = bytearray(len(data) + 100)
        assert stream.readinto(buffer) == len(data)
        assert stream.seek(0, os.SEEK_END) == len(data)


def test_a_file_larger_than_the_free_memory_is_refused_before_it_is_read(tmp_path, monkeypatch):
    path = tmp_path / "s.pickle"
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [[]]}, 4) + bytes(100_000))
    monkeypatch.setattr(side_file, "free_memory", lambda: 50_000)
    with pytest.raises(MemoryError):
        load_snapshot(path)


@given(st.integers(0, 300), st.integers(0, 8), st.integers(1, 8))
def test_blocks_with_a_history_are_read_as_far_as_the_file_holds_them(tmp_path_factory, keys, blocks, entries):
    """Blocks that several segments share, with any number of further keys, count as often as they stand there."""
    path: Path = tmp_path_factory.mktemp("history") / "s.pickle"
    block = {"size": 8, "state": "active_allocated", "history": [{"addr": 1, "real_size": 7, "frames": []}]}
    block |= {f"key{number}": number for number in range(keys)}
    segments = [
        {"device": 0, "address": n << 20, "total_size": 1 << 20, "stream": 0, "blocks": [block] * blocks}
        for n in range(entries)
    ]
    path.write_bytes(pickle.dumps({"segments": segments, "device_traces": [[]]}, 4))
    [device] = load_snapshot(path).devices
    assert device.blocks.requested.tolist() == [7] * blocks * entries
    assert device.blocks.address.tolist() == [(n << 20) + 8 * k for n in range(entries) for k in range(blocks)]


def test_millions_of_shared_blocks_that_end_too_soon_are_refused(tmp_path):
    path, block = tmp_path / "s.pickle", {"size": 8, "state": "active_allocated", "history": []}
    segments = [{"device": 0, "address": 0, "total_size": 1 << 20, "stream": 0, "blocks": [block] * 2_000_000}]
    path.write_bytes(pickle.dumps({"segments": segments, "device_traces": [[]]}, 4)[:2_100_000])
    with pytest.raises(InputError):
        load_snapshot(path)


ROWS = 3000
TABLE = Schema("table", (FileColumn("at", "whole", ("At",)),), ("at",))


def rows_of(kind: str, count: int, folder: Path) -> int:
    """How many rows are read of a file of a ``kind`` with ``count`` rows."""
    if kind == "table":
        (folder / "table.csv").write_text("At\n" + "".join(f"{n}\n" for n in range(count)))
        reading = read_table(folder, TABLE)
        if reading.state == "unreadable":
            raise MemoryError(reading.why)
        return len(reading.frame)
    bomb = next(bomb for bomb in BOMBS if (bomb.format, bomb.name) == tuple(kind.split(": ")))
    path = bomb.make(
        folder, count * {"MemScope CSV": 36, "MemScope database": 120, "database": 40}.get(bomb.format, 60)
    )
    if path.name.startswith("memscope"):
        return len(load_memscope(path).devices[0].events)
    return len(load(path).slices)


@pytest.mark.parametrize(
    "kind",
    ["table", "trace: names of their own", "MemScope CSV: short rows", "MemScope database: short rows",
     "database: short tasks"],
)  # fmt: skip
def test_rows_without_room_are_refused_before_they_are_laid_out(kind, tmp_path, monkeypatch):
    """However few bytes a row has: what all of them take is reckoned by their number."""
    monkeypatch.setattr(memory, "free_addresses", lambda: UNLIMITED)
    monkeypatch.setattr(memory, "free_memory", lambda: 100_000 * A_ROW)
    assert rows_of(kind, ROWS, tmp_path) >= ROWS - 1
    folder = tmp_path / "larger"
    folder.mkdir()
    with pytest.raises((InputError, MemoryError)) as refused:
        rows_of(kind, 110_000, folder)
    assert "memory" in str(refused.value)


def test_a_column_of_one_value_takes_no_memory(tmp_path):
    """MemScope tells no stream of a block: the slices share one."""
    path = tmp_path / "memscope_dump_1.csv"
    path.write_bytes(next(bomb for bomb in BOMBS if bomb.name == "short rows").make(tmp_path, 20_000).read_bytes())
    slices = load(path).slices
    assert slices.stream.strides == slices.correlation.strides == (0,)
    assert len(slices.stream) == len(slices) > 500
    assert set(slices.stream.tolist()) == {-1}
