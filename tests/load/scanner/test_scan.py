"""The compiled scanner against the reader in Python."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from documents import FOREIGN, LINK_END, NAME, SAMPLE, SLICE, Document, documents
from equality import assert_same, assert_same_events
from hypothesis import given, settings
from hypothesis import strategies as st
from scanning import threads, without_scanner

from npu_tui.load.fast_scanner import Scanner
from npu_tui.load.json_reader import WholeColumns
from npu_tui.load.load import load
from npu_tui.load.text_trace import read_scanned
from npu_tui.native.library import library
from npu_tui.trace.message import message
from npu_tui.trace.model import Trace

pytestmark = pytest.mark.skipif(library() is None, reason="there is no compiled scanner for this machine")

ROOT = Path(__file__).resolve().parents[3]
FILES = sorted(
    path
    for path in (ROOT / "fixtures").rglob("*.json")
    if path.name.startswith(("trace_view", "msprof", "localhost"))
    or ("chrome_generic" in path.parts and path.name != "truth.json")
)


def python_only(path: Path) -> Trace:
    with without_scanner():
        return load(path)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT / "fixtures")))
def test_fixtures_are_the_same(path: Path) -> None:
    expected = python_only(path)
    found = load(path)
    assert_same(expected, found)
    assert_same_events(expected, found, 11)
    with threads(3):
        assert_same(expected, load(path, range_bytes=9_000, chunk_size=2_000))


@pytest.mark.parametrize(("told", "without"), [("0", 0), ("-0", 0), ("-0.0", 0), ('"-0"', 0), ("null", 1), ('""', 1)])
def test_a_duration_of_nothing_is_a_duration(told: str, without: int, tmp_path: Path) -> None:
    """However the events around it are read."""
    event = '{"ph": "X", "name": "a", "pid": 1, "tid": %s, "ts": "17.000", "dur": %s}'
    for thread in ("2", '"a name"'):
        path = tmp_path / "trace_view.json"
        path.write_text("[" + ", ".join([event % ("3", "1.5"), event % (thread, told)]) + "]")
        counts = [message("odd.no_duration", count=1)] * without
        for trace in (load(path), python_only(path)):
            assert trace.health.warnings == counts
            assert sorted(trace.slices.end - trace.slices.start) == [0, 1500]


def test_real_traces_are_the_same(real) -> None:
    expected = python_only(real.path)
    assert_same(expected, load(real.path))
    with threads(2):
        found = load(real.path, range_bytes=100_000, chunk_size=64_000)
    assert_same(expected, found)
    assert_same_events(expected, found, 97)


def test_real_traces_need_the_tolerant_reader_only_at_the_end(real, monkeypatch) -> None:
    read: list[int] = []
    before = Scanner._read_odd

    def counted(self, descriptor, scanned, length, size) -> None:
        start = scanned.end
        before(self, descriptor, scanned, length, size)
        read.append(scanned.end - start)

    monkeypatch.setattr(Scanner, "_read_odd", counted)
    load(real.path)
    assert sum(read) < 5_000


@settings(max_examples=18)
@given(documents(SLICE | LINK_END | SAMPLE | NAME | FOREIGN), st.integers(1, 3), st.integers(60, 400))
def test_any_document_is_the_same(tmp_path_factory, document: Document, count: int, length: int) -> None:
    path = tmp_path_factory.mktemp("scanned") / "trace_view.json"
    path.write_bytes(document.data)
    expected = python_only(path)
    assert_same(expected, load(path))
    with threads(count):
        found = load(path, range_bytes=length, chunk_size=64)
    assert_same(expected, found)
    assert_same_events(expected, found)


def test_numbers_are_the_nearest_floats(tmp_path: Path) -> None:
    """Digits of every length, on both sides of halves, against Python's own parser."""
    rng = random.Random(4)
    texts = [
        "0",
        "0.0",
        "9007199254740993",
        "9007199254740992.5",
        "0.1",
        "1e3",
        "123456789012345678",
        "97.36842105263158",
    ]
    texts += [f"{rng.randrange(10 ** rng.randint(1, 9))}.{rng.randrange(10 ** (n := rng.randint(1, 12))):0{n}d}"
              for _ in range(4_000)]  # fmt: skip
    texts += [repr(rng.uniform(0, 10 ** rng.randint(0, 12))) for _ in range(4_000)]
    texts += [str(rng.randrange(10 ** rng.randint(1, 22))) for _ in range(1_000)]
    event = '{"ph": "C", "name": "n", "pid": 1, "tid": 0, "ts": "17364054438%05d.400", "args": {"value": %s}}'
    body = ", ".join(event % (k, text) for k, text in enumerate(texts))
    path = tmp_path / "trace_view.json"
    path.write_text(
        '[{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": "1736405443863674.400", "dur": 1}, ' + body + "]"
    )
    assert load(path).counters.value.tolist() == [float(text) for text in texts]


def test_texts_of_any_number_and_length_find_room(tmp_path: Path) -> None:
    events = [
        {
            "ph": "X",
            "name": f"name {k}",
            "pid": k % 7,
            "tid": k,
            "ts": f"{1736405443863674 + k}.400",
            "dur": 1,
            "cat": f"{k}",
        }
        | {"args": {"Call stack": "main.py(1): f;" * (k % 200)}}
        for k in range(9_000)
    ]
    path = tmp_path / "trace_view.json"
    path.write_text(json.dumps(events))
    assert_same(python_only(path), load(path))


def test_a_file_that_shrinks_while_it_is_read_ends_there(tmp_path: Path) -> None:
    event = b'{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": "1736405443863674.400", "dur": 1}, '
    path = tmp_path / "trace_view.json"
    path.write_bytes(b"[" + event * 60_000)
    size, whole = path.stat().st_size, WholeColumns()

    def shrink(done: int, events: int) -> None:
        path.write_bytes(b"[" + event * 30_000)

    outcome = read_scanned(library(), str(path), 1, size, whole, 0, 1 << 16, shrink, 1 << 20, threads=1)
    assert outcome.truncated
    assert 12_000 < whole.count <= 60_000


def test_who_cancels_is_obeyed(tmp_path: Path) -> None:
    event = b'{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": "1736405443863674.400", "dur": 1}, '
    path = tmp_path / "trace_view.json"
    path.write_bytes(b"[" + event * 60_000)

    class StopError(Exception):
        pass

    def stop(done: int, events: int) -> None:
        raise StopError

    with pytest.raises(StopError):
        read_scanned(library(), str(path), 1, path.stat().st_size, WholeColumns(), 0, 1 << 16, stop, 1 << 20, threads=3)
