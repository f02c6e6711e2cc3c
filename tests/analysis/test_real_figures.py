"""Dispatch and overlap of the real profiles: the figures of the format and of the companion files."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from measured import dispatch_of

from npu_tui.analysis.device import EVERYTHING, device_slices
from npu_tui.analysis.overlap import overlap_lanes
from npu_tui.trace.model import Trace

if TYPE_CHECKING:
    from conftest import Sample

#: Launches, near-vertical ones, starved ones, lost time and clock floor in us.
DISPATCH = {
    "level0/rank0": (210, 36, 39, 24009.3, 6.314),
    "level0/rank1": (210, 38, 40, 25532.0, 26.418),
    "level1/rank0": (210, 37, 36, 23756.6, -13.035),
    "level1/rank1": (210, 38, 36, 24675.4, -25.374),
    "single_card": (274, 268, 91, 8043.4, -17.210),
}
#: Window, Computing, Communication, Communication(Not Overlapped) and Free in ms.
OVERLAP = {
    "level0/rank0": (116.251, 8.827, 85.517, 81.516, 25.908),
    "level0/rank1": (100.602, 8.813, 68.606, 64.616, 27.173),
    "level1/rank0": (136.581, 8.874, 105.992, 101.963, 25.744),
    "level1/rank1": (131.913, 8.878, 100.375, 96.359, 26.675),
    "single_card": (11.270, 1.788, 0.0, 0.0, 9.482),
}
#: Slices of Computing, Communication, Communication(Not Overlapped) and Free.
OVERLAP_COUNTS = dict.fromkeys(list(OVERLAP)[:4], (187, 4, 101, 90)) | {"single_card": (274, 0, 0, 273)}
#: What the overlap lanes leave of their window, ns: rounding in one writer.
RESIDUAL = {"single_card": 45}


def test_dispatch(real: Sample) -> None:
    (found,) = dispatch_of(real.trace)
    launches, near_vertical, starved, lost_us, floor_us = DISPATCH[real.name]
    assert len(found.link) == launches
    assert np.count_nonzero(found.near_vertical) == near_vertical
    assert np.count_nonzero(found.starved) == starved
    assert found.lost.sum() / 1000 == pytest.approx(lost_us, abs=0.1)
    assert [floor.floor / 1000 for floor in found.floors] == [pytest.approx(floor_us, abs=0.0005)]
    assert all(floor.trusted for floor in found.floors)
    assert (found.near_vertical.astype(int) + found.shallow + found.queued == 1).all()


def test_overlap(real: Sample) -> None:
    (found,) = (lanes.sums(EVERYTHING) for lanes in overlap_lanes(real.trace, device_slices(real.trace)))
    parts = (found.total, found.computing, found.communication, found.not_overlapped, found.free)
    assert [round(part / 1e6, 3) for part in parts] == pytest.approx(OVERLAP[real.name], abs=0.0011)
    lanes = [real.trace.lanes[lane] for layer in real.trace.layers if layer.kind == "overlap" for lane in layer.lanes]
    counts = {lane.name: lane.last - lane.first for lane in lanes}
    names = ("Computing", "Communication", "Communication(Not Overlapped)", "Free")
    assert tuple(counts.get(name, 0) for name in names) == OVERLAP_COUNTS[real.name]
    first = min(int(real.trace.slices.start[lane.first]) for lane in lanes)
    last = max(int(real.trace.slices.end[lane.last - 1]) for lane in lanes)
    assert abs(found.total - (last - first)) <= RESIDUAL.get(real.name, 0)


def test_step_trace_time(profile: Sample) -> None:
    """The overlap lanes' sums are the row of step_trace_time.csv (one step, and nothing outside it)."""
    (found,) = (lanes.sums(EVERYTHING) for lanes in overlap_lanes(profile.trace, device_slices(profile.trace)))
    (row,) = table(profile.file.with_name("step_trace_time.csv"))
    assert row["Step"] == "50"
    assert microseconds(row["Computing"]) == pytest.approx(found.computing, abs=1)
    assert microseconds(row["Communication"]) == pytest.approx(found.communication, abs=1)
    assert microseconds(row["Communication(Not Overlapped)"]) == pytest.approx(found.not_overlapped, abs=1)
    assert microseconds(row["Free"]) == pytest.approx(found.free, abs=1)
    assert microseconds(row["Overlapped"]) == pytest.approx(found.communication - found.not_overlapped, abs=1)


def test_kernel_details(profile: Sample) -> None:
    """Every row is a compute slice or a collective of the same name, start within 1 ns and duration; and back."""
    trace, slices = profile.trace, profile.trace.slices
    (device,) = device_slices(trace)
    starts: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for item in np.flatnonzero(device.compute | device.collective).tolist():
        length = int(slices.end[item] - slices.start[item])
        starts[trace.name_of(item)].append((int(slices.start[item]) + trace.start_ns, length))
    rows: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in table(profile.file.with_name("kernel_details.csv")):
        rows[row["Name"]].append((microseconds(row["Start Time(us)"]), microseconds(row["Duration(us)"])))
    assert sum(map(len, rows.values())) == 191
    assert rows.keys() == starts.keys()
    for name, expected in rows.items():
        assert len(starts[name]) == len(expected)
        for (start, length), (row_start, row_length) in zip(sorted(starts[name]), sorted(expected), strict=True):
            assert abs(start - row_start) <= 1
            assert abs(length - row_length) <= 1


def test_api_statistic(level1: Sample) -> None:
    """CANN slices by level and name: count, sum, shortest and longest."""
    trace, slices = level1.trace, level1.trace.slices
    levels = {"AscendCL": "acl", "Node": "node", "Model": "model", "Hccl": "hccl", "Runtime": "runtime"}
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for layer in trace.layers:
        for lane in (trace.lanes[index] for index in layer.lanes if layer.kind == "cann"):
            for item in range(lane.first, lane.last):
                prefix, _, api = trace.name_of(item).partition("@")
                found[levels[prefix], api].append(int(slices.end[item] - slices.start[item]))
    rows = {(row["Level"], row["API Name"]): row for row in table(level1.file.with_name("api_statistic.csv"))}
    assert found.keys() == rows.keys()
    for key, lengths in found.items():
        assert int(rows[key]["Count"]) == len(lengths)
        assert microseconds(rows[key]["Time(us)"]) == pytest.approx(sum(lengths), abs=len(lengths))
        assert microseconds(rows[key]["Min(us)"]) == pytest.approx(min(lengths), abs=1)
        assert microseconds(rows[key]["Max(us)"]) == pytest.approx(max(lengths), abs=1)


def test_computing_is_the_union_of_compute_slices(real: Sample) -> None:
    trace = real.trace
    (device,) = device_slices(trace)
    (lanes,) = (lanes.sums(EVERYTHING) for lanes in overlap_lanes(trace, device_slices(trace)))
    assert union_ns(trace, device.compute) == pytest.approx(lanes.computing, abs=50)
    assert union_ns(trace, device.collective) == pytest.approx(lanes.communication, abs=50)


def union_ns(trace: Trace, mask: np.ndarray) -> int:
    total, reach = 0, -1
    for start, end in sorted(zip(trace.slices.start[mask].tolist(), trace.slices.end[mask].tolist(), strict=True)):
        total += max(end - max(start, reach), 0)
        reach = max(reach, end)
    return total


def table(path: Path) -> Iterator[dict[str, str]]:
    """Rows of a companion file; its cells may end in a tab."""
    with path.open(newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            yield {key.strip(): value.strip() for key, value in row.items() if isinstance(value, str)}


def microseconds(text: str) -> int:
    """A cell in us as whole ns, without a float for what is exact."""
    whole, _, fraction = text.partition(".")
    return int(whole) * 1000 + round(float(f"0.{fraction or 0}") * 1000)
