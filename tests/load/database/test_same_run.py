"""A text trace and the database of the same run are the same trace."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from npu_tui.load.database import load_database
from npu_tui.load.database_args import ARGS, DatabaseArgs
from npu_tui.load.load import load
from npu_tui.trace.model import HOST_TO_DEVICE, Trace

sys.path.append(str(Path(__file__).resolve().parents[1]))

from equality import assert_same

DIFFERENT = ("Task Type", "notify_id", "correlation_id")
"""Args that a database names by another number or more exactly."""

EXACT = ("async_task_queue", "fwdbwd", "async_npu")


def of(database: Path) -> Trace:
    """The trace in ``database``."""
    return load_database(database, None)


@pytest.fixture(scope="module")
def both(same_run: tuple[Path, Path]) -> tuple[Trace, Trace]:
    """The trace of the text and that of the database."""
    return load(same_run[0]), of(same_run[1])


def slices(trace: Trace, *but: str) -> Counter[tuple[object, ...]]:
    """Every slice by where it is and what it is called; ``but`` names layers to leave out."""
    found: Counter[tuple[object, ...]] = Counter()
    for lane in trace.file_lanes:
        layer = trace.layers[lane.layer]
        if layer.name in but:
            continue
        for item in range(lane.first, lane.last):
            times = (int(trace.slices.start[item]) + trace.start_ns, int(trace.slices.end[item]) + trace.start_ns)
            stack = int(trace.slices.stack[item])
            category = trace.categories[trace.slices.category[item]]
            depth, stream = int(trace.slices.depth[item]), int(trace.slices.stream[item])
            words = (trace.name_of(item), category, trace.stacks[stack] if stack >= 0 else "")
            key = (layer.name, layer.device, lane.name, times, words, depth, stream)
            found[key] += 1
    return found


def test_every_slice_is_there(both: tuple[Trace, Trace]) -> None:
    text, database = both
    level0 = any(layer.name == "CANN" and not layer.lanes for layer in text.layers)
    but = ("Overlap Analysis", "CANN") if level0 else ("Overlap Analysis",)  # a text leaves CANN out at level 0
    assert slices(database, *but) == slices(text, *but)
    assert [layer.name for layer in database.layers] == [layer.name for layer in text.layers]
    assert database.rank == text.rank


def test_reading_counters_and_links_beside_the_rest_changes_nothing(
    same_run: tuple[Path, Path], both: tuple[Trace, Trace], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, alone = both
    monkeypatch.setattr("npu_tui.load.database._WORTH_A_THREAD", 0)
    for _ in range(3):
        assert_same(alone, of(same_run[1]))


def test_the_overlap_analysis_is_the_same(both: tuple[Trace, Trace]) -> None:
    def lanes(trace: Trace) -> dict[str, tuple[list[int], list[int]]]:
        own = [lane for lane in trace.file_lanes if trace.layers[lane.layer].kind == "overlap"]
        times = (trace.slices.start + trace.start_ns, trace.slices.end + trace.start_ns)
        return {lane.name: tuple(time[lane.first : lane.last].tolist() for time in times) for lane in own}

    text, database = map(lanes, both)
    assert database.keys() == text.keys()
    for name, times in text.items():
        for told, expected in zip(database[name], times, strict=True):
            assert len(told) == len(expected)
            assert (np.abs(np.array(told) - np.array(expected)) <= 2).all()  # a text has parts of nanoseconds


def test_every_sample_is_there(both: tuple[Trace, Trace]) -> None:
    def curves(trace: Trace) -> dict[tuple[str, str, str, str], tuple[list[int], list[float]]]:
        found = {}
        for series in trace.counters.series:
            own = slice(trace.counters.offset[series.index], trace.counters.offset[series.index + 1])
            name = series.name.replace("band_width", "bandwidth")  # older texts spell it so
            times = (trace.counters.time[own] + trace.start_ns).tolist()
            key = (trace.layers[series.layer].name, name, series.key, series.instance)
            found[key] = (times, trace.counters.value[own].tolist())
        return found

    text, database = map(curves, both)
    assert sorted(database) == sorted(text)
    for key, (times, values) in text.items():
        assert database[key][0] == times, key
        np.testing.assert_allclose(database[key][1], values, rtol=1e-6, atol=1e-6)


def test_every_link_is_there(both: tuple[Trace, Trace]) -> None:
    def links(trace: Trace, category: str, *, source: bool) -> Counter[tuple[object, ...]]:
        found: Counter[tuple[object, ...]] = Counter()
        for link in trace.links_of(category).tolist():
            ends = [(int(trace.links.target_slice[link]), int(trace.links.target_time[link]))]
            if source:
                ends.append((int(trace.links.source_slice[link]), int(trace.links.source_time[link])))
            found[tuple((trace.name_of(item), time + trace.start_ns) for item, time in ends)] += 1
        return found

    text, database = both
    for category in EXACT:
        assert links(database, category, source=True) == links(text, category, source=True)
    assert links(database, HOST_TO_DEVICE, source=False) == links(text, HOST_TO_DEVICE, source=False)
    launched = database.links.source_slice[database.links_of(HOST_TO_DEVICE)]
    assert (launched >= 0).all()
    earlier = np.sort(text.links.source_time[text.links_of(HOST_TO_DEVICE)] + text.start_ns) - np.sort(
        database.links.source_time[database.links_of(HOST_TO_DEVICE)] + database.start_ns
    )
    assert (earlier >= 0).all()  # a database keeps the start of the call, a text that of the submission inside it
    assert np.median(earlier) < 20_000


def test_args_have_the_same_names_and_values(both: tuple[Trace, Trace]) -> None:
    text, database = both
    by_place = {}
    for trace in (text, database):
        own = {}
        for lane in trace.file_lanes:
            name = trace.layers[lane.layer].name
            for item in range(lane.first, lane.last, 7 if name == "Python" else 3):
                key = (name, lane.name, int(trace.slices.start[item]) + trace.start_ns, trace.name_of(item))
                own[key] = int(trace.slices.event[item])
        by_place[trace is database] = own
    shared = sorted(by_place[True].keys() & by_place[False].keys())
    assert len(shared) > 500
    ordinals = np.array([by_place[True][key] for key in shared])
    assert isinstance(database.args, DatabaseArgs)
    names = [*dict.fromkeys(name for args in ARGS.values() for name in args)]
    cells = zip(*database.args.many(ordinals, names), strict=True)
    all_told = [{name: cell for name, cell in zip(names, row, strict=True) if cell is not None} for row in cells]
    for place in range(0, len(shared), 20):
        assert database.args.one(int(ordinals[place])) == all_told[place]
    compared: Counter[str] = Counter()
    for place, key in enumerate(shared):
        told, expected = all_told[place], text.args.one(by_place[False][key])
        for name, value in told.items():
            if name in expected and name not in DIFFERENT:
                if isinstance(value, float):
                    assert abs(value - expected[name]) <= 0.2 * abs(expected[name]) + 1e-3, (key, name)
                else:
                    assert (key, name, value) == (key, name, expected[name])
                compared[name] += 1
    assert {"Input Dims", "Call stack", "Task Id", "connection_id"} <= compared.keys()
