from __future__ import annotations

import gzip
import json
from functools import cache

import numpy as np
import pytest
from refusals import refused

from npu_tui.load import args as arg_scan
from npu_tui.load.args import json_args
from npu_tui.load.load import load
from npu_tui.load.service_spans import TextArgs
from npu_tui.trace.args import Arg, always
from npu_tui.trace.text import on_one_line

QUESTIONS = [
    Arg("input dims", "~", "64"),
    Arg("dims", "~", ""),
    Arg("", "~", "train.py"),
    Arg("task type", "=", "ai_core"),
    Arg("stream id", ">=", "3"),
    Arg("stream id", "=", "2.0"),
    Arg("connection_id", "<", "40"),
    Arg("input type", "~", "float; float"),
    Arg("", "~", "no such value"),
]


def scan(trace, wanted, items=None) -> list[int]:
    order = trace.slices.file_order()
    items = order if items is None else order[np.isin(order, items)]
    return sorted(items[place] for found in parts(trace, items, wanted) for place in found.places.tolist())


def parts(trace, items, wanted, go_on=always):
    return trace.args.scan(trace.slices.event[items], wanted, go_on)


@cache
def all_args(path) -> list[list[tuple[str, str]]]:
    """The args of every slice, each event decoded on its own."""
    trace = load(path)
    events = (json_args(trace).event(int(event)) for event in trace.slices.event)
    return [
        [(key.lower(), on_one_line(str(value)).lower()) for key, value in event.get("args", {}).items()]
        for event in events
    ]


def slowly(sample, wanted, items=None) -> list[int]:
    """The same by decoding every event on its own."""
    args = all_args(sample.path)
    return sorted(
        int(item)
        for item in (range(len(args)) if items is None else items)
        if all(any(one.holds(key, value) for key, value in args[item]) for one in wanted)
    )


@pytest.mark.parametrize("wanted", QUESTIONS, ids=repr)
def test_the_scan_finds_what_decoding_every_event_finds(bundled, wanted):
    assert scan(bundled.trace, [wanted]) == slowly(bundled.trace, [wanted])


def test_most_questions_find_something(bundled):
    assert sum(bool(scan(bundled.trace, [wanted])) for wanted in QUESTIONS) >= 6


def test_several_questions_all_hold_and_only_the_candidates_count(bundled):
    trace = bundled.trace
    wanted = [Arg("input dims", "~", "64"), Arg("call stack", "~", "train.py")]
    items = np.arange(0, len(trace.slices), 3)
    assert scan(trace, wanted, items) == slowly(bundled, wanted, items.tolist())


def test_small_blocks_find_the_same(bundled, monkeypatch):
    trace, wanted = bundled.trace, [Arg("input dims", "~", "64")]
    whole = scan(trace, wanted)
    monkeypatch.setattr(arg_scan, "_TOGETHER", 1)
    order = trace.slices.file_order()
    found = list(parts(trace, order, wanted))
    assert sorted(order[place] for part in found for place in part.places.tolist()) == whole
    assert [part.share for part in found] == sorted(part.share for part in found)
    assert found[-1].share == 1


def test_it_stops_when_told(bundled, monkeypatch):
    monkeypatch.setattr(arg_scan, "_TOGETHER", 1)
    trace = bundled.trace
    asked = iter([True, True, False])
    found = list(parts(trace, trace.slices.file_order(), [Arg("", "~", "a")], lambda: next(asked)))
    assert len(found) == 2


ODD = [
    ("日本", "日本"),
    ('say "hi"', 'say "hi"'),
    ("back\\slash", "back\\slash"),
    ("a/b", "a/b"),
    ("ä", "Ä"),
]


@pytest.mark.parametrize("escaped", [True, False])
@pytest.mark.parametrize(("needle", "value"), ODD)
def test_texts_that_writers_escape_are_found(tmp_path, needle, value, escaped):
    file = tmp_path / "trace_view.json"
    events = [
        {
            "ph": "X",
            "name": f"n{i}",
            "pid": 1,
            "tid": 1,
            "ts": str(i),
            "dur": 1,
            "args": {"k": value if i == 2 else "x"},
        }
        for i in range(4)
    ]
    text = json.dumps(events, ensure_ascii=escaped)
    file.write_text(text.replace("a/b", "a\\/b"), encoding="utf-8")
    trace = load(file)
    assert [trace.name_of(item) for item in scan(trace, [Arg("k", "~", needle)])] == ["n2"]


def test_packed_and_odd_files(tmp_path):
    common = '"ph":"X","pid":1,"tid":1,"dur":1'
    events = (
        f'{{{common},"name":"a","ts":"1","args":{{"v":NaN,"w":[1, 2]}}}},'
        f'{{{common},"name":"b","ts":"3","args":{{"v":1e3}}}}'
    )
    file = tmp_path / "trace_view.json.gz"
    file.write_bytes(gzip.compress(f"[{events}]".encode()))
    trace = load(file)
    assert [trace.name_of(item) for item in scan(trace, [Arg("v", "=", "1000")])] == ["b"]
    assert [trace.name_of(item) for item in scan(trace, [Arg("v", "~", "nan")])] == ["a"]
    assert [trace.name_of(item) for item in scan(trace, [Arg("w", "~", "[1, 2]")])] == ["a"]


def test_a_file_that_is_gone_is_one_line(tmp_path):
    file = tmp_path / "trace_view.json"
    file.write_text('[{"ph":"X","name":"a","pid":1,"tid":1,"ts":"1","dur":1,"args":{"v":1}}]')
    trace = load(file)
    file.unlink()
    with refused("args are read from the file when they are shown"):
        scan(trace, [Arg("v", "~", "1")])


def test_what_stands_between_chunks_is_no_hit_and_not_looked_at_for_ever():
    data = b'"key": 1 "key" "key" "key": 2 "ke'
    assert arg_scan._chunks_with([b'"key"'], data, np.array([0, 20]), np.array([8, 9])) == [0, 1]
    assert arg_scan._chunks_with([b'"key"'], data, np.array([0, 29]), np.array([4, 4])) == []


def test_names_of_rows_at_hand_match_whatever_their_case() -> None:
    reader = TextArgs(['{"Batch Size": 4}', '{"Batch Size": 8, "Note": "two\\nlines"}', "no object"])
    found = {
        wanted: [place for part in reader.scan(np.arange(3), wanted) for place in part.places.tolist()]
        for wanted in ((Arg("batch size", "=", "4"),), (Arg("note", "~", "two lines"),), (Arg("", "~", "8"),))
    }
    assert list(found.values()) == [[0], [1], [1]]
