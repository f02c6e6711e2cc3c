"""Events of other writers and damaged ones: read all the same, exactly, or counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from documents import SLICE, Event, documents, render
from hypothesis import given
from hypothesis import strategies as st
from refusals import skipped

from npu_tui.load.args import json_args
from npu_tui.load.json_events import decode_events
from npu_tui.load.load import load
from npu_tui.trace.model import Trace

BASE: Event = {"ph": "X", "name": "op", "pid": 1, "tid": 2, "ts": "1736405443863674.400", "dur": 1.5, "cat": "cpu_op"}
START = 1736405443863674400


@pytest.fixture
def read(tmp_path: Path) -> Any:
    """Loads elements given as JSON texts or events."""

    def loaded(*elements: str | bytes | Event) -> Trace:
        texts = [json.dumps(element) if isinstance(element, dict) else element for element in elements]
        data = b", ".join(text.encode() if isinstance(text, str) else text for text in texts)
        path = tmp_path / "trace_view.json"
        path.write_bytes(b"[" + data + b"]")
        return load(path)

    return loaded


@pytest.mark.parametrize(
    ("ts", "ns"),
    [
        ('"1736405443863674.400"', START),
        ("1736405443863674.400", START),
        ("1736405443863674", START - 400),
        ("1.7364054438636744e15", START),
        ('"1.7364054438636744E+15"', START),
        ('" 1736405443863674.4004 "', START),
        ("1736405443863674.4005", START + 1),
        ('"0"', 0),
        ("-3.5", -3500),
    ],
)
def test_times_of_any_writer_are_exact(read: Any, ts: str, ns: int) -> None:
    trace = read(json.dumps(BASE).replace('"1736405443863674.400"', ts))
    assert (trace.start_ns, trace.end) == (ns, 1500)


@pytest.mark.parametrize(
    ("dur", "ns"),
    [("3", 3000), ("996.9599375", 996960), ('"3.25"', 3250), ("null", 0), ('""', 0), ("1e3", 1_000_000), ('"1E-3"', 1)],
)
def test_durations_of_any_writer(read: Any, dur: str, ns: int) -> None:
    trace = read(json.dumps(BASE).replace("1.5", dur))
    assert trace.end == ns


@given(st.lists(SLICE, min_size=1, max_size=8))
def test_one_odd_event_changes_no_other(events: list[Event]) -> None:
    """A chunk that holds one event of another writer is decoded tolerantly, with the same result."""
    odd = dict(BASE, ts=1736405443863674.5)
    strict = decode_events(json.dumps(events).encode())
    tolerant = decode_events(json.dumps([*events, odd]).encode())[:-1]
    for one, other in zip(strict, tolerant, strict=True):
        for key in one.__struct_fields__:
            left, right = getattr(one, key), getattr(other, key)
            assert (bytes(left), key) == (bytes(right), key) if key == "args" else left == right


@given(
    documents(),
    st.sampled_from(["null", "1.5", "true", '"text"', "[1]", '{"a": 1}', "1e400", "99999999999999999999999"]),
    st.data(),
)
def test_a_field_of_any_type_never_fails(
    tmp_path_factory: pytest.TempPathFactory, document: Any, value: str, data: st.DataObject
) -> None:
    """Nothing is lost but, at most, the event itself, and that is counted."""
    field = data.draw(
        st.sampled_from(["ph", "name", "pid", "tid", "ts", "dur", "cat", "id", "args", "Task Type", "connection_id"])
    )
    base = {**BASE, "args": {"Task Type": "", "connection_id": 0}, "id": ""}
    where = base if field in base else base["args"]
    where[field] = "@"  # type: ignore[index]
    texts = [event.decode() for event in document.events]
    path = tmp_path_factory.getbasetemp() / "trace_view.json"
    path.write_bytes(render([*texts, json.dumps(base).replace('"@"', value)]).data)
    trace = load(path, chunk_size=64)
    assert sum(trace.events.values()) == len(texts) + 1
    path.write_bytes(render(texts).data)
    alone = load(path)
    assert len(trace.slices) + sum(trace.health.skipped.values()) >= len(alone.slices) + 1


def test_texts_for_process_and_thread_keep_their_lanes_apart(read: Any) -> None:
    trace = read(dict(BASE, pid="7", tid="8"), dict(BASE, pid="app", tid="a"), dict(BASE, pid="app", tid="b"))
    assert sorted(len(layer.lanes) for layer in trace.layers) == [1, 2]
    assert [(layer.pid, trace.lanes[layer.lanes[0]].tid) for layer in trace.layers if layer.pid > 0] == [(7, 8)]


def test_args_of_another_type_count_as_absent(read: Any) -> None:
    args = {"Task Type": 3, "Stream Id": "5", "connection_id": "x", "correlation_id": 2.0, "Call stack": None}
    trace = read(
        dict(BASE, args=args), dict(BASE, args=[1]), dict(BASE, args=None), dict(BASE, args={"connection_id": 2**70})
    )
    slices = trace.slices
    assert [trace.task_types[code] if code >= 0 else "" for code in slices.task_type] == ["3", "", "", ""]
    assert slices.stream.tolist() == [5, -1, -1, -1]
    assert slices.connection.tolist() == [-1, -1, -1, -1]
    assert slices.correlation.tolist() == [2, -1, -1, -1]
    assert slices.stack.tolist() == [-1, -1, -1, -1]


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (dict(BASE, ts="inf"), "slice without a usable time"),
        (dict(BASE, ts=""), "slice without a usable time"),
        ({"ph": "X", "name": "op"}, "slice without a usable time"),
        (dict(BASE, dur=-1), "slice without a usable duration"),
        (dict(BASE, dur="soon"), "slice without a usable duration"),
        (dict(BASE, dur=1e300), "slice without a usable duration"),
        (json.dumps(BASE).replace("1.5", "Infinity"), "slice without a usable duration"),
        (dict(BASE, ph="C", ts="nan", args={"a": 1}), "counter sample without a usable time"),
        (dict(BASE, ph="C", args={"a": "x"}), "counter value is not a number"),
        (json.dumps(dict(BASE, ph="C")).replace("}", ', "args": {"a": NaN}}'), "counter value is not a number"),
        (dict(BASE, ph="s"), "link end without id"),
        (dict(BASE, ph="s", id=None), "link end without id"),
        (dict(BASE, ph="s", id=1), "link source without target"),
        (dict(BASE, ph="f", id=1), "link target without source"),
        (dict(BASE, ph="s", id=1, ts="x"), "link end without a usable time"),
        (dict(BASE, ph="i"), "instant without duration"),
        ({"name": "op"}, "not an event"),
        ("7", "not an event"),
        ('{"ph": "X" "name": 1}', "malformed event"),
    ],
)
def test_what_cannot_be_placed_is_counted(read: Any, event: Event | str, reason: str) -> None:
    trace = read(BASE, event)
    assert skipped(trace) == {reason: 1}
    assert len(trace.slices) == 1


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('"\\ud800 op"', "? op"),
        ('"tab\there"', "tab\there"),
        ('"算子"'.encode("gb18030"), "算子"),
        ('"算子"'.encode(), "算子"),
    ],
)
def test_names_that_no_strict_parser_takes(read: Any, text: str | bytes, name: str) -> None:
    data = text.encode() if isinstance(text, str) else text
    trace = read(BASE, json.dumps(BASE).encode().replace(b'"op"', data), BASE)
    assert [trace.name_of(item) for item in range(3)] == ["op", name, "op"]
    assert [json_args(trace).event(ordinal)["name"] for ordinal in range(3)] == ["op", name, "op"]
    assert not any(trace.health.skipped.values())


@pytest.mark.parametrize("scanner", ["", "off"])
def test_a_name_in_another_encoding_beside_numbers_of_another_type(
    read: Any, monkeypatch: pytest.MonkeyPatch, scanner: str
) -> None:
    monkeypatch.setenv("NPU_TUI_SCANNER", scanner)
    plain = json.dumps(BASE).replace("1.5", '"46.000"')
    trace = read(plain, plain.encode().replace(b'"op"', '"算子"'.encode("gb18030")), plain)
    assert [trace.name_of(item) for item in range(3)] == ["op", "算子", "op"]
    assert not any(trace.health.skipped.values())


def test_numbers_of_a_repaired_event_stay_exact(read: Any) -> None:
    odd = '{"ph": "X", "name": "a\tb", "pid": 1, "tid": 2, "ts": 1736405443863674.401, "dur": 1.5}'
    assert read(odd).start_ns == START + 1


def test_link_ids_are_compared_as_text_within_a_category(read: Any) -> None:
    ends = [dict(BASE, ph="s", id=936), dict(BASE, ph="f", id="936"), dict(BASE, ph="f", id=936, cat="fwdbwd")]
    huge = [dict(BASE, ph=phase, id="55340232225423622143") for phase in "sf"]
    trace = read(BASE, *ends, *huge)
    assert trace.links.source_event.tolist() == [1, 4]
    assert trace.links.target_event.tolist() == [2, 5]
    assert skipped(trace)["link target without source"] == 1


def test_counters_tell_instances_apart(read: Any) -> None:
    sample = {"ph": "C", "name": "read_bandwidth", "pid": 3, "tid": 0, "ts": "1736405443863674.400"}
    trace = read(
        *(dict(sample, args={"value": i, "acc_id": id_}) for i, id_ in enumerate([12345678, 12345679, 12345678])),
        dict(sample, name="Mem", args={"Used": 1, "Free": 2.5}),
    )
    counters = trace.counters
    found = {
        (s.name, s.key, s.instance): counters.value[counters.offset[s.index] : counters.offset[s.index + 1]].tolist()
        for s in counters.series
    }
    assert found == {
        ("read_bandwidth", "value", "acc_id 12345678"): [0, 2],
        ("read_bandwidth", "value", "acc_id 12345679"): [1],
        ("Mem", "Used", ""): [1],
        ("Mem", "Free", ""): [2.5],
    }


def test_a_record_at_time_zero_keeps_rows_apart(read: Any) -> None:
    """One slice of 1970 stretches the axis; the others stay where they are."""
    many = [dict(BASE, tid=tid, ts=f"17364054438636{tid:02d}.000", dur=5) for tid in range(20) for _ in range(2)]
    trace = read(dict(BASE, ts="0.000"), *many)
    assert all(lane.rows == 2 for lane in trace.lanes)
