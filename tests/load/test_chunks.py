"""Files cut anywhere give the events that ``json`` gives, and every event's bytes are found again."""

from __future__ import annotations

import io
import json
from pathlib import Path

import msgspec
import pytest
from compare import assert_equal
from documents import FOREIGN, LINK_END, NAME, SAMPLE, SLICE, VALUE, Document, documents, render
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import read

from npu_tui.load.args import json_args
from npu_tui.load.json_chunks import Chunk, ChunkReader, array_start, candidate, object_spans
from npu_tui.load.json_events import decode_events
from npu_tui.load.load import load
from npu_tui.trace.message import message

SIZES = st.integers(16, 400) | st.sampled_from([16, 17, 64, 1 << 16])


def raw_events(data: bytes) -> list[bytes]:
    """The elements as they stand, if the loader's own decoder takes them."""
    decode_events(data)
    return [bytes(raw) for raw in msgspec.json.decode(data, type=list[msgspec.Raw])]


def chunks_of(data: bytes, chunk_size: int) -> tuple[list[Chunk[bytes]], ChunkReader[bytes]]:
    start = array_start(data)
    assert start is not None
    reader = ChunkReader(io.BytesIO(data), start, raw_events, chunk_size=chunk_size)
    return list(reader), reader


@given(documents(), SIZES)
def test_events_and_their_bytes(document: Document, chunk_size: int) -> None:
    chunks, reader = chunks_of(document.data, chunk_size)
    assert [event for chunk in chunks for event in chunk.events] == document.events
    assert (reader.malformed, reader.truncated) == (0, False)
    for chunk in chunks:
        text = document.data[chunk.offset : chunk.offset + chunk.length]
        assert raw_events(b"[%b]" % text) == chunk.events


@given(documents(), SIZES, st.data())
def test_truncated_anywhere_keeps_exactly_the_complete_events(
    document: Document, chunk_size: int, data: st.DataObject
) -> None:
    ends = [end for _, end in document.spans]
    cut = data.draw(st.integers(document.spans[0][0], len(document.data) - 1) | st.sampled_from(ends))
    chunks, reader = chunks_of(document.data[:cut], chunk_size)
    complete = [event for event, end in zip(document.events, ends, strict=True) if end <= cut]
    assert [event for chunk in chunks for event in chunk.events] == complete
    assert reader.malformed == 0
    assert reader.truncated == (b"]" not in document.data[ends[-1] : cut])


@given(st.lists(VALUE.map(json.dumps), min_size=1, max_size=8), SIZES)
def test_elements_of_any_type(elements: list[str], chunk_size: int) -> None:
    """What is no event still counts as an element, so that ordinals stay true."""
    document = render([*elements, '{"ph": "X"}'])
    chunks, _ = chunks_of(document.data, chunk_size)
    assert [event for chunk in chunks for event in chunk.events] == document.events


@given(documents(), SIZES)
def test_load_equals_the_reference_reader(
    tmp_path_factory: pytest.TempPathFactory, document: Document, chunk_size: int
) -> None:
    path = written(tmp_path_factory, document.data)
    trace = load(path, chunk_size=chunk_size)
    assert_equal(trace, read(document.data))
    events = [json.loads(event) for event in document.events]
    assert [json_args(trace).event(ordinal) for ordinal in range(len(events))] == events
    assert [json_args(trace).event_bytes(ordinal) for ordinal in range(len(events))] == document.events


@given(documents(SLICE | LINK_END | SAMPLE | NAME | FOREIGN), st.sampled_from([64, 200, 1 << 16]))
@settings(max_examples=18)
def test_documents_of_several_writers_equal_the_reference_reader(
    tmp_path_factory: pytest.TempPathFactory, document: Document, chunk_size: int
) -> None:
    trace = load(written(tmp_path_factory, document.data), chunk_size=chunk_size)
    assert_equal(trace, read(document.data))


@given(documents(), SIZES, st.data())
def test_one_malformed_element_costs_only_itself(
    tmp_path_factory: pytest.TempPathFactory, document: Document, chunk_size: int, data: st.DataObject
) -> None:
    broken = data.draw(
        st.sampled_from(['{"ph": "X", "ts": tru}', '{"ph": "X" "ts": "1"}', "{\"ph\": 'X'}", '{"ph": "X",}'])
    )
    at = data.draw(st.integers(0, len(document.spans)))
    texts = [event.decode() for event in document.events]
    damaged = render([*texts[:at], broken, *texts[at:]])
    trace = load(written(tmp_path_factory, damaged.data), chunk_size=chunk_size)
    assert trace.health.skipped.pop(message("skip.malformed")) == 1
    assert_equal(trace, read(render(texts).data))
    assert [json_args(trace).event_bytes(ordinal) for ordinal in range(len(texts))] == document.events


def written(factory: pytest.TempPathFactory, data: bytes) -> Path:
    path = factory.getbasetemp() / "trace_view.json"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("tail", ["", ",", ", ", "\n,\n"])
def test_unfinished_file_of_a_killed_job(tail: str) -> None:
    chunks, reader = chunks_of(b'[{"ph": "X"}, {"ph": "C"}' + tail.encode(), 16)
    assert [event for chunk in chunks for event in chunk.events] == [b'{"ph": "X"}', b'{"ph": "C"}']
    assert reader.truncated


def test_trailing_comma_before_the_end() -> None:
    chunks, reader = chunks_of(b'[{"ph": "X"}, {"ph": "C"},]', 16)
    assert sum(len(chunk.events) for chunk in chunks) == 2
    assert not reader.truncated


def test_a_piece_that_ends_with_an_element_loses_no_scalar_behind_it() -> None:
    document = render(['[{"a": 1}, {"b": "12345678901"}]', '""', '{"ph": "X"}'])
    for chunk_size in range(4, 40):
        chunks, _ = chunks_of(document.data, chunk_size)
        assert [event for chunk in chunks for event in chunk.events] == document.events


def test_an_event_longer_than_many_chunks() -> None:
    long = json.dumps({"ph": "X", "name": "x}, {" * 4000, "args": {"a": [{"b": 1}] * 4000}})
    document = render(['{"ph": "M"}', long, '{"ph": "C"}'])
    chunks, _ = chunks_of(document.data, 16)
    assert [event for chunk in chunks for event in chunk.events] == document.events


def test_nesting_deeper_than_the_parser_goes_is_one_malformed_event() -> None:
    deep = '{"ph": "X", "args": ' + "[" * 20_000 + "]" * 20_000 + "}"
    chunks, reader = chunks_of(render(['{"ph": "M"}', deep, '{"ph": "C"}']).data, 64)
    assert [event for chunk in chunks for event in chunk.events] == [b'{"ph": "M"}', b'{"ph": "C"}']
    assert reader.malformed == 1


@pytest.mark.parametrize(
    ("head", "start"),
    [
        (b"[", 1),
        (b"\xef\xbb\xbf [", 5),
        (b'{"traceEvents" : [', 18),
        (b'{"schemaVersion": 1, "x": [1, 2], "traceEvents":[{}]}', 49),
        (b'{"config": {}}', None),
        (b"Name,Type\n", None),
        (b"", None),
    ],
)
def test_array_start(head: bytes, start: int | None) -> None:
    assert array_start(head) == start


def test_a_separator_inside_a_text_is_no_candidate() -> None:
    assert candidate(rb'{"name": "a}, {"}') is None
    assert candidate(rb'{"name": "a}, {", "b": "}, {\"x"}') is None
    assert candidate(rb'{"name": 1} , { "b": 2') == (11, 14)


def test_object_spans() -> None:
    assert object_spans(rb'{"a": "}\""}, {"b": [{}]}] x {}') == ([(0, 12), (14, 25)], 25)
    assert object_spans(b'{"a": {}}, {"b": "') == ([(0, 9)], None)


def test_where_events_go_on_behind_an_early_end_does_not_depend_on_the_cuts() -> None:
    """A block may end within the place that tells."""
    document = render([f'{{\n  "ph": "X",\n  "name": "{i:02}"\n }}' for i in range(20)], separator=",\n ")
    at = document.spans[7][0]
    kept = document.events[:7] + document.events[8:]
    for chunk_size in range(40, 140):
        chunks, reader = chunks_of(document.data[:at] + document.data[at + 1 :], chunk_size)
        assert [event for chunk in chunks for event in chunk.events] == kept
        assert reader.malformed == 1


def test_a_long_event_behind_damage_is_not_lost_for_a_short_one() -> None:
    long = json.dumps({"ph": "X", "args": {"Call stack": "train.py(354): step;\r\n" * 120}})
    texts = ['{"ph": "M"}'] * 8 + [long, '{"ph": "C"}', '{"ph": "X"}']
    document = render([*texts[:4], '{"ph": "X", "name": "cut', *texts[4:8], '{"ph": "X", "args": {', *texts[8:]])
    for chunk_size in range(40, 6_000, 113):
        chunks, reader = chunks_of(document.data, chunk_size)
        found = [event.decode() for chunk in chunks for event in chunk.events]
        assert found == texts, chunk_size
        assert reader.malformed == 2


def test_a_long_event_is_found_behind_damage_that_looks_like_a_long_one() -> None:
    long = json.dumps({"ph": "M", "name": "process_name", "args": {"name": "n" * 5_000}})
    texts = ['{"ph": "M"}', long, *['{"ph": "C"}'] * 8_000, long, '{"ph": "X"}', long]
    damaged = '{"ph": "C", "name": ", {"ph": "M", "tid": ' + "9" * 2_700
    document = render([*texts[:1], damaged, *texts[1:]])
    for chunk_size in (7_919, 1 << 16, 1 << 20):
        chunks, reader = chunks_of(document.data, chunk_size)
        found = [event.decode() for chunk in chunks for event in chunk.events]
        assert found == texts, chunk_size
        assert reader.malformed == 1


def test_a_quote_too_many_between_events_does_not_end_the_array() -> None:
    """With the quotes the wrong way round, brackets in names are taken for those of the file."""
    texts = [f'{{"ph": "X", "name": "n{i}]}}", "dur": {i}}}' for i in range(40)]
    document = render(texts)
    at = document.spans[9][1]
    damaged = document.data[:at] + b'": 4611686018427387904, "id": 0}}' + document.data[at:]
    for chunk_size in (64, 200, 1 << 16):
        chunks, reader = chunks_of(damaged, chunk_size)
        assert [event.decode() for chunk in chunks for event in chunk.events] == texts, chunk_size
        assert reader.malformed == 1
        assert not reader.truncated
