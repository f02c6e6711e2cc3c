"""The replayed allocator: pools of expandable segments against a picture of their pages; what a run reserved."""

from __future__ import annotations

import pickle
from itertools import groupby
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from npu_tui.analysis.memory import AllocatorSettings, _Pool, best_split, recorded, replay
from npu_tui.load.snapshot import load_snapshot
from npu_tui.trace.snapshot import DeviceMemory

UNIT = 1 << 20
PAGE = 20
EXPANDABLE = AllocatorSettings(expandable=True)


class Picture:
    """An expandable pool as a row of MiB, each unmapped (``.``), free (``-``) or used (``#``)."""

    def __init__(self) -> None:
        self.row = "." * 40 * PAGE

    def runs(self, kinds: str) -> list[tuple[int, int]]:
        """The address and the size of each longest run of ``kinds``."""
        found, at = [], 0
        for is_one, run in groupby(self.row, lambda kind: kind in kinds):
            size = len(list(run))
            found += [(at, size)] * is_one
            at += size
        return found

    def paint(self, at: int, cells: str) -> None:
        self.row = self.row[:at] + cells + self.row[at + len(cells) :]

    def alloc(self, size: int) -> int:
        fitting = sorted((length, at) for at, length in self.runs("-") if length >= size)
        if fitting:
            growable = [length + dict(self.runs(".")).get(at + length, 0) for length, at in fitting]
            place = next((k for k in range(len(fitting) - 1) if growable[k + 1] >= growable[k]), len(fitting) - 1)
            at = fitting[place][1]
        else:
            before = {begin + length: begin for begin, length in self.runs("-")}
            begins = [before.get(gap, gap) for gap, _ in self.runs(".")]
            at = next(at for at in begins if "#" not in self.row[at : at + size])
            for page in range(at // PAGE, -(-(at + size) // PAGE)):
                cells = self.row[page * PAGE : (page + 1) * PAGE]
                self.paint(page * PAGE, cells.replace(".", "-"))
        self.paint(at, "#" * size)
        return at

    def empty_cache(self) -> None:
        for at, size in self.runs("-"):
            for page in range(-(-at // PAGE), (at + size) // PAGE):
                self.paint(page * PAGE, "." * PAGE)

    @property
    def reserved(self) -> int:
        return len(self.row) - self.row.count(".")


@pytest.mark.parametrize("seed", range(30))
def test_pages_are_given_back_and_filled_again_where_they_were(seed: int) -> None:
    draw, pool, picture, held = Random(seed), _Pool(False, EXPANDABLE), Picture(), list[tuple[int, int]]()
    for _ in range(60):
        turn = draw.random()
        if turn < 0.1:
            pool.empty_cache()
            picture.empty_cache()
        elif turn < 0.5 and held:
            at, size = held.pop(draw.randrange(len(held)))
            pool.free(at * UNIT, size * UNIT)
            picture.paint(at, "-" * size)
        elif sum(size for _, size in held) < 400:
            size = draw.choice((2, 5, 9, 15, 20, 33, 70))
            held.append((picture.alloc(size), size))
            assert pool.alloc(size * UNIT) == (held[-1][0] * UNIT, size * UNIT)
        assert pool.reserved == picture.reserved * UNIT


def _device(
    rows: list[tuple[str, int, int, int]], segments: dict[int, tuple[int, list[int]]], tmp_path: Path
) -> DeviceMemory:
    """The device of ``rows``: action, MiB of address and size, stream; ``segments`` by address: size, blocks in use."""
    events = [
        {"action": action, "addr": at << 20, "size": size << 20, "stream": stream} for action, at, size, stream in rows
    ]
    listed = []
    for at, (whole, sizes) in segments.items():
        blocks = [{"size": size << 20, "requested_size": size << 20, "state": "active_allocated"} for size in sizes]
        blocks.append({"size": whole - sum(sizes) << 20, "requested_size": 0, "state": "inactive"})
        listed.append({"device": 0, "address": at << 20, "total_size": whole << 20, "stream": 0, "blocks": blocks})
    path = tmp_path / "snapshot.pkl"
    path.write_bytes(pickle.dumps({"segments": listed, "device_traces": [events]}))
    return load_snapshot(path).devices[0]


def test_expandable_segments_give_back_what_the_run_did(tmp_path: Path) -> None:
    """100 MiB on a stream, given back, then 100 MiB on another one: 100 MiB at a time."""
    rows = [("segment_alloc", 1000, 102, 0), ("alloc", 1000, 100, 0), ("free_completed", 1000, 100, 0)]
    rows += [("segment_free", 1000, 102, 0), ("segment_alloc", 3000, 102, 1), ("alloc", 3000, 100, 1)]
    rows += [("free_completed", 3000, 100, 1), ("segment_free", 3000, 102, 1)]
    device = _device(rows, {}, tmp_path)
    was = recorded(device)
    assert was is not None
    assert was.peak == 102 * UNIT
    assert replay(device, replace(was.settings, expandable=True)).peak == 120 * UNIT  # six pages
    assert replay(device, replace(was.settings, expandable=True, released=False)).peak == 240 * UNIT


@pytest.mark.parametrize(("padded", "peak"), [(False, 20), (True, 40)])
def test_the_allocator_is_the_one_that_reserves_what_was_recorded(padded: bool, peak: int, tmp_path: Path) -> None:
    """Ten blocks of 2 MiB fill a segment of 20 MiB, unless each request is padded: then nine do."""
    rows = [("segment_alloc", 1000, 20, 0), *(("alloc", 1000 + 2 * at, 2, 0) for at in range(9 if padded else 10))]
    if padded:
        rows += [("segment_alloc", 3000, 20, 0), ("alloc", 3000, 2, 0)]
    segments = {1000: (20, [2] * 9), 3000: (20, [2])} if padded else {1000: (20, [2] * 10)}
    device = _device(rows, segments, tmp_path)
    was = recorded(device)
    assert was is not None
    assert (was.peak, was.settings.pad) == (peak * UNIT, 32 if padded else 0)


def test_a_limit_of_what_is_divided_keeps_large_blocks_whole(tmp_path: Path) -> None:
    """40 MiB stay in a segment of 402 MiB, which is too small for the next 400 MiB then."""
    rows = [("segment_alloc", 1000, 402, 0), ("alloc", 1000, 400, 0), ("free_completed", 1000, 400, 0)]
    rows += [("alloc", 1000, 40, 0), ("segment_alloc", 3000, 402, 0), ("alloc", 3000, 400, 0)]
    device = _device(rows, {1000: (402, [40]), 3000: (402, [400])}, tmp_path)
    was = recorded(device)
    assert was is not None
    assert was.peak == 2 * 402 * UNIT
    best = best_split(device, was.settings)
    assert best.settings == replace(was.settings, max_split=64 * UNIT)
    assert best.peak == (402 + 42) * UNIT


@pytest.mark.parametrize("pad", [0, 32])
def test_a_request_of_nothing_takes_a_block(pad: int, tmp_path: Path) -> None:
    rows = [("alloc", 1000, 0, 0), ("alloc", 1001, 0, 0), ("free_completed", 1000, 0, 0), ("alloc", 1000, 0, 0)]
    assert replay(_device(rows, {}, tmp_path), AllocatorSettings(pad=pad)).peak == 2 * UNIT
