"""Small traces by hand, and the bundled profiles."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path

import pytest

from npu_tui.load.load import load
from npu_tui.trace.model import Trace

ORDER = ("Python", "CANN", "Ascend Hardware", "HCCL", "AI Core Freq", "HBM", "Overlap Analysis")
FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
sys.path.insert(0, str(Path(__file__).resolve().parent))

Point = tuple[str, str, int]
MakeTrace = Callable[..., Trace]


def _us(time: int) -> str:
    return f"{10**15 + time // 1000}.{time % 1000:03d}"


def _events(
    slices: Iterable[tuple[str, str, str, int, int]],
    links: Iterable[tuple[str, str, Point, list[Point]]],
    counters: Iterable[tuple[str, str, int, float]],
) -> list[dict[str, object]]:
    pids = {layer: 100 + order for order, layer in enumerate(ORDER)}
    tids: dict[tuple[str, str], int] = {}
    numbers = count(1)
    events: list[dict[str, object]] = []

    def at(layer: str, lane: str) -> dict[str, object]:
        if (layer, lane) not in tids:
            tids[layer, lane] = int(lane.split()[1]) if lane.startswith("Thread ") else next(numbers)
        return {"pid": pids[layer], "tid": tids[layer, lane]}

    for layer, lane, name, start, end in slices:
        events.append(at(layer, lane) | {"ph": "X", "name": name, "ts": _us(start), "dur": (end - start) / 1000})
    for category, key, (layer, lane, time), targets in links:
        start_of = {"name": category, "cat": category, "id": key}
        events.append(at(layer, lane) | start_of | {"ph": "s", "ts": _us(time)})
        for layer, lane, time in targets:
            events.append(at(layer, lane) | start_of | {"ph": "f", "bp": "e", "ts": _us(time)})
    for layer, series, time, value in counters:
        events.append({"ph": "C", "pid": pids[layer], "tid": 0, "name": series, "ts": _us(time), "args": {"v": value}})
    for layer, pid in pids.items():
        events.append({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": layer}})
        events.append({"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": pid}})
    for (layer, lane), tid in tids.items():
        events.append({"ph": "M", "name": "thread_name", "pid": pids[layer], "tid": tid, "args": {"name": lane}})
    return events


@pytest.fixture(scope="session")
def make_trace(tmp_path_factory: pytest.TempPathFactory) -> MakeTrace:
    """Makes a trace of slices (layer, lane, name, start, end), links (category, id, source, targets) and counters
    (layer, series, time, value), times in ns."""
    folder, numbers = tmp_path_factory.mktemp("traces"), count()

    def make(slices=(), links=(), counters=()) -> Trace:
        file = folder / f"{next(numbers)}.json"
        file.write_text(json.dumps(_events(slices, links, counters)))
        return load(file)

    return make


@pytest.fixture(scope="session")
def healthy() -> Trace:
    return load(FIXTURES / "healthy")


@pytest.fixture(scope="session")
def dispatch_bound() -> Trace:
    return load(FIXTURES / "dispatch_bound")
