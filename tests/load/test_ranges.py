"""Threads that read ranges of a file give the trace that one reader gives, wherever the file is cut."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from compare import assert_equal
from documents import Document, documents, render
from equality import assert_same, assert_same_events
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import read
from refusals import refused
from scanning import threads, without_scanner

from npu_tui.load import text_trace as loading
from npu_tui.load.args import json_args
from npu_tui.load.errors import Watcher
from npu_tui.load.load import load
from npu_tui.load.text_trace import ALONE_BYTES, range_cuts
from npu_tui.trace.model import Trace
from npu_tui.trace.once import Cancelled

FIXTURES = ["dispatch_bound", "healthy", "msprof_two_devices", "kineto", "mindspore", "level0"]
SIZES = st.integers(16, 400) | st.sampled_from([64, 1 << 16])


def by_threads(path: Path | str, count: int, length: int, **how: Any) -> Trace:
    """The trace at ``path``, read by ``count`` threads in ranges of ``length`` bytes."""
    with threads(count):
        return load(path, range_bytes=length, **how)


@settings(max_examples=15)
@given(documents(), SIZES, st.integers(8, 600), st.integers(1, 4))
def test_any_cuts_give_what_the_reference_reader_gives(
    tmp_path_factory: pytest.TempPathFactory, document: Document, chunk: int, length: int, count: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "trace_view.json"
    path.write_bytes(document.data)
    trace = by_threads(path, count, length, chunk_size=chunk)
    assert_equal(trace, read(document.data))
    events = [json.loads(event) for event in document.events]
    assert [json_args(trace).event(ordinal) for ordinal in range(len(events))] == events
    with without_scanner():
        assert_same(trace, load(path, chunk_size=chunk, range_bytes=length))


@settings(max_examples=15)
@given(documents(), st.integers(8, 600), st.data())
def test_a_file_cut_anywhere_gives_the_same_with_any_readers(
    tmp_path_factory: pytest.TempPathFactory, document: Document, length: int, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "trace_view.json"
    path.write_bytes(document.data[: data.draw(st.integers(document.spans[0][1], len(document.data)))])
    alone = load(path, chunk_size=64)
    assert_same(alone, by_threads(path, 3, length, chunk_size=64))
    with without_scanner():
        assert_same(alone, load(path, chunk_size=64, range_bytes=length))


@pytest.mark.parametrize("name", FIXTURES)
def test_fixtures_are_the_same_to_the_bit(name: str) -> None:
    alone = load(f"fixtures/{name}")
    for count, length in ((1, 100_000), (2, 30_000), (4, 7_000)):
        together = by_threads(f"fixtures/{name}", count, length)
        assert_same(alone, together)
    assert_same_events(alone, together, 7)


def test_a_range_within_nested_objects_is_read_again(tmp_path: Path) -> None:
    """Objects in an argument look like events: readers that begin among them find out at their end."""
    inner = ", ".join(f'{{"ph": "X", "name": "inner{i}", "ts": "{i}"}}' for i in range(400))
    outer = '{"ph": "X", "name": "outer", "pid": 1, "tid": 1, "ts": "5.000", "dur": 1, "args": {"list": ['
    outer += inner + "]}}"
    plain = [f'{{"ph": "X", "name": "n{i}", "pid": 1, "tid": 1, "ts": "{10 + i}.000", "dur": 0.5}}' for i in range(200)]
    path = tmp_path / "trace_view.json"
    path.write_bytes(render([*plain[:100], outer, *plain[100:]]).data)
    alone = load(path)
    assert len(alone.slices) == 201
    for length in (300, 1000, 5000):
        assert_same(alone, by_threads(path, 2, length))


def test_what_follows_the_array_is_not_read(tmp_path: Path) -> None:
    events = [f'{{"ph": "X", "pid": 1, "tid": 1, "name": "n{i}", "ts": "{i}.000", "dur": 1}}' for i in range(50)]
    path = tmp_path / "trace_view.json"
    trailing = ", ".join(f'{{"ph": "X", "name": "no{i}"}}' for i in range(500))
    path.write_text(f'{{"traceEvents": [{", ".join(events)}], "stackFrames": [{trailing}]}}')
    alone = load(path)
    assert len(alone.slices) == 50
    assert_same(alone, by_threads(path, 3, 500))


@pytest.mark.parametrize("size", [1, 5_000, ALONE_BYTES, 10**9, 10**11])
@pytest.mark.parametrize("count", [1, 2, 8])
def test_cuts_ascend_and_cover_the_file(size: int, count: int) -> None:
    cuts = range_cuts(1, size, count)
    assert cuts[0] == 1
    assert cuts == sorted(set(cuts))
    assert cuts[-1] < max(size, 2)


@pytest.mark.parametrize("scanner", [True, False])
def test_who_cancels_is_obeyed(monkeypatch: pytest.MonkeyPatch, scanner: bool) -> None:
    if not scanner:
        monkeypatch.setenv("NPU_TUI_SCANNER", "off")
    with pytest.raises(Cancelled):
        by_threads("fixtures/healthy", 2, 5_000, watcher=Watcher(lambda done, total, events: False))


@pytest.mark.parametrize("scanner", [True, False])
def test_a_file_that_vanishes_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scanner: bool) -> None:
    if not scanner:
        monkeypatch.setenv("NPU_TUI_SCANNER", "off")
    path = tmp_path / "trace_view.json"
    path.write_bytes(render(['{"ph": "X", "ts": "1.000", "name": "a"}'] * 50).data)
    start = loading._array_start

    def vanish(*arguments: object) -> int:
        path.unlink()
        return start(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(loading, "_array_start", vanish)
    with refused("No such file"):
        load(path, range_bytes=100)


@pytest.mark.parametrize("scanner", [True, False])
def test_early_traces_grow_into_the_whole_one(monkeypatch: pytest.MonkeyPatch, scanner: bool) -> None:
    if not scanner:
        monkeypatch.setenv("NPU_TUI_SCANNER", "off")
    for name in ("_FIRST_SECONDS", "_EARLY_SECONDS"):
        monkeypatch.setattr(loading, name, 0.0)
    seen = []
    whole = load("fixtures/healthy", range_bytes=9_000, chunk_size=4_000, watcher=Watcher(early=seen.append))
    assert len(seen) >= 2
    counts = [len(trace.slices) for trace in seen]
    assert counts == sorted(counts)
    assert counts[-1] <= len(whole.slices)
    assert all(not len(trace.links) for trace in seen)
    monkeypatch.undo()
    assert_same(whole, load("fixtures/healthy", chunk_size=4_000))


def test_a_name_that_is_no_text_is_read(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xc4\xe3.json"))
    path.write_bytes(Path("fixtures/healthy/ASCEND_PROFILER_OUTPUT/trace_view.json").read_bytes())
    assert len(by_threads(path, 2, 9_000).slices) == len(load("fixtures/healthy").slices)
