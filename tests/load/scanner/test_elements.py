"""Elements of a piece of JSON: the compiled loop against a parser."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npu_tui.load.args import Elements
from npu_tui.load.load import load
from npu_tui.native.library import VARIABLE, library

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
