"""Elements of a piece of JSON and the loop over a model: the compiled ones against plain Python."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npu_tui.analysis.replay.loops import PlainLoops
from npu_tui.analysis.replay_edges import NEVER
from npu_tui.ingest.load import load
from npu_tui.ingest.scanner.elements import Elements
from npu_tui.ingest.scanner.library import VARIABLE, library
from npu_tui.ingest.scanner.replaying import replaying

pytestmark = pytest.mark.skipif(library() is None, reason="no compiled library for this machine")

TEXTS = st.text(st.sampled_from('ab"\\{}[],: \n中'), max_size=40)
VALUES = st.recursive(
    st.none() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
EVENTS = st.lists(st.dictionaries(TEXTS, VALUES, max_size=4), min_size=1, max_size=12)


def bounds(text: bytes, count: int) -> list[list[int]] | None:
    found = library()
    assert found is not None
    elements = Elements(found, len(text), count)
    elements.view[: len(text)] = text
    rows = elements.bounds(len(text), count)
    return None if rows is None else rows.tolist()


@settings(max_examples=100, deadline=None, derandomize=True)
@given(EVENTS, st.sampled_from([",", ", ", ",\n  "]), st.booleans())
def test_elements_are_what_a_parser_finds(events: list[dict[str, object]], comma: str, ascii_only: bool) -> None:
    texts = [json.dumps(event, ensure_ascii=ascii_only).encode() for event in events]
    whole = comma.encode().join(texts)
    rows = bounds(whole, len(texts))
    assert rows is not None
    assert [whole[low:high] for low, high in rows] == texts
    assert bounds(whole, len(texts) + 1) is None


@pytest.mark.parametrize("text", [b'{"a": 1', b'{"a": "1}', b"{}}", b"]", b'{"a": "\\"}', b"1, 2"])
def test_what_does_not_match_is_refused(text: bytes) -> None:
    assert bounds(text, 1) is None


@pytest.mark.parametrize("gap", range(28, 36))
def test_quotes_and_escapes_across_blocks(gap: int) -> None:
    text = b'{"%s\\\\\\"}": "{"}, {"b": "%s\\\\"}' % (b"x" * gap, b"y" * (gap + 29))
    rows = bounds(text, 2)
    assert rows is not None
    assert [json.loads(text[low:high]) for low, high in rows] == json.loads(b"[%b]" % text)


@pytest.mark.parametrize("name", ["dispatch_bound", "healthy", "communication_bound", "older_chip"])
def test_args_are_the_same_without_a_library(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    trace = load(str(Path("fixtures", name)))
    keys = ("src rank", "size(Byte)", "Call stack", "connection_id", "alg_type")
    events = trace.slices.event[:: max(len(trace.slices) // 500, 1)][::-1].copy()
    quick = trace.args.many(events, keys)
    monkeypatch.setenv(VARIABLE, "off")
    assert quick == trace.args.many(events, keys)
    assert [trace.args.one(int(event)).get("connection_id") for event in events[:50]] == quick[3][:50]


def test_rows_are_passed_as_in_python() -> None:
    random = np.random.default_rng(3)
    count, edges = 5_000, 12_000
    rows = np.arange(count)
    source, other = (np.maximum(rows - random.integers(1, 40, count), 0) for _ in range(2))
    edge, other_edge = random.integers(0, edges + 2, (2, count))
    lag = np.append(random.integers(-50, 9_000, edges), (NEVER, 0))
    lag[random.random(edges + 2) < 0.1] = NEVER
    edge[random.random(count) < 0.9] %= 1_000
    lag[:1_000] = np.abs(lag[:1_000]) % 9_000
    compiled = replaying()
    assert compiled is not None
    columns = [each.astype(np.int32) for each in (source, edge, other, other_edge)]
    mine = PlainLoops().passing(*columns, lag)
    assert np.array_equal(compiled.passing(*columns, lag), mine)
    assert np.count_nonzero(mine > 0) > count // 2


def test_spans_cover_as_much_as_in_python() -> None:
    random = np.random.default_rng(5)
    compiled = replaying()
    assert compiled is not None
    for spans in (0, 1, 2, 3, 400):
        edges = np.sort(random.choice(20_000, 2 * spans, replace=False)).astype(np.int64)
        start, end = edges[::2], edges[1::2]
        inside = np.zeros(20_200, np.int64)
        for one, other in zip(start, end, strict=True):
            inside[one + 50 : other + 50] = 1
        sums = np.append(0, np.cumsum(inside))
        for low in (random.integers(-50, 20_050, 900), np.sort(random.integers(-50, 20_050, 900))):
            high = low + random.integers(0, random.choice([3, 60, 20_000]), 900)
            thread = random.integers(0, 3, 900)
            for number in (None, 0, 2, 7):
                place, found = compiled.covered(start, end, low, high, thread, number)
                mine = PlainLoops().covered(start, end, low, high, thread, number)
                assert np.array_equal(place, mine[0])
                assert np.array_equal(found, mine[1])
                whole = sums[np.minimum(high + 50, 20_200)] - sums[np.minimum(low + 50, 20_200)]
                whole[(thread != number) & (number is not None)] = 0
                assert np.array_equal(place, np.flatnonzero(whole))
                assert np.array_equal(found, whole[whole > 0])


@pytest.mark.parametrize("longest", [0, 3, 40, 100_000])
@pytest.mark.parametrize("inner", [1, 3, 10_000])
def test_ends_ascend_as_in_python(longest: int, inner: int) -> None:
    random = np.random.default_rng(longest + inner)
    compiled = replaying()
    assert compiled is not None
    for count in (0, 1, 2, 9_000):
        start = np.sort(random.integers(0, 40_000, count))
        end = start + random.integers(0, longest + 1, count)
        end[::inner] = start[::inner] + random.integers(0, 5, len(end[::inner]))  # nested, or most cross others
        mine = PlainLoops().ascending_ends(start, end)
        assert np.array_equal(compiled.ascending_ends(start, end), mine)
        assert mine.tolist() == sorted(end.tolist())


def test_ends_of_slices_that_end_before_they_start_ascend() -> None:
    compiled = replaying()
    assert compiled is not None
    start, end = np.array([5, 9, 12]), np.array([7, 3, 2])
    assert compiled.ascending_ends(start, end).tolist() == [2, 3, 7]


@pytest.mark.parametrize("nodes", [1, 2, 5, 300])
def test_edges_are_sorted_and_put_into_rows_as_in_python(nodes: int) -> None:
    random = np.random.default_rng(nodes)
    compiled, plain = replaying(), PlainLoops()
    assert compiled is not None
    for count in (0, 1, nodes, 3 * nodes):
        ends = np.sort(random.integers(0, nodes, (2, count)), axis=0).astype(np.int32)
        source, target = ends[:, ends[0] < ends[1]]
        key = random.permutation(nodes)
        wrong = compiled.contradicting(source, target, key)
        assert np.array_equal(wrong, plain.contradicting(source, target, key))
        assert wrong.tolist() == [k for k, (a, b) in enumerate(zip(source, target, strict=True)) if key[b] <= key[a]]
        where = np.arange(nodes, dtype=np.int32)[::-1].copy()
        for number in (where, np.arange(nodes, dtype=np.int32)):
            mine = plain.ordered(source, target, number)
            assert all(map(np.array_equal, compiled.ordered(source, target, number), mine))
        rows = plain.rows(mine[0], mine[1], nodes)
        assert all(map(np.array_equal, compiled.rows(mine[0], mine[1], nodes), rows))


def test_more_contradictions_than_expected_are_all_told() -> None:
    compiled = replaying()
    assert compiled is not None
    count = 9_000
    source, target = np.ones(count, np.int32), np.zeros(count, np.int32)
    assert np.array_equal(compiled.contradicting(source, target, np.arange(2)), np.arange(count))


def test_without_a_library_the_loops_are_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "off")
    assert replaying() is None
