"""What writers get wrong and can be read all the same: bare quotes, values as text, operations that never ended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from refusals import skipped

from npu_tui.cli.main import main
from npu_tui.load.args import json_args
from npu_tui.load.load import load
from npu_tui.strings import words
from npu_tui.trace.model import UNFINISHED

OK = '{"name":"ok","ph":"X","pid":1,"tid":1,"ts":90,"dur":5,"args":{"a":1}}'


def wrote(folder: Path, *events: str) -> Path:
    file = folder / "trace.json"
    file.write_text("[" + ",".join(events) + "]", encoding="utf-8")
    return file


def named(name: str, more: str = ',"ph":"X","pid":1,"tid":1,"ts":10,"dur":5') -> str:
    return f'{{"name":"{name}"{more}}}'


NAMES = {
    '{"device": "npu"}(12): run': '{"device": "npu"}(12): run',
    'say "hi': 'say "hi',
    '"': '"',
    "torch\\cuda\\_init(3): f": "torch\\cuda\\_init(3): f",
    "C:\\temp\\new\\": "C:\\temp\\new\\",
    'a\\"b" \\u7b97': 'a"b" 算',
    '"quoted", not a field': '"quoted", not a field',
}


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("more", [',"ph":"X","pid":1,"tid":1,"ts":10,"dur":5', ""])
def test_bare_quotes_and_backslashes_stay_in_the_name(tmp_path: Path, name: str, at: int, more: str) -> None:
    text = named(name, more) if more else '{"ph":"X","pid":1,"tid":1,"ts":10,"dur":5,"name":"' + name + '"}'
    events = [OK, OK]
    events.insert(at, text)
    trace = load(wrote(tmp_path, *events))
    assert sorted(trace.name_of(item) for item in range(len(trace.slices))) == sorted(["ok", "ok", NAMES[name]])
    assert not trace.health.skipped
    assert not trace.health.truncated
    assert json_args(trace).event(at)["name"] == NAMES[name]


@pytest.mark.parametrize("odd", [['正"则'], ["C:\\", '"'], ['a"b', "ok", 'c"d', 'e"f']])
def test_neighbours_with_odd_quotes_are_events_of_their_own(tmp_path: Path, odd: list[str]) -> None:
    stack = ',"ph":"X","pid":1,"tid":1,"ts":10,"dur":5,"args":{"Call stack":"a.py(3): f("x")"}'
    trace = load(wrote(tmp_path, OK, *map(named, odd), named("stack", stack), OK))
    assert sorted(map(trace.name_of, range(len(trace.slices)))) == sorted([*odd, "ok", "ok", "stack"])
    assert trace.stacks == ['a.py(3): f("x")']
    assert not trace.health.skipped


def test_what_cannot_be_repaired_is_counted(tmp_path: Path) -> None:
    trace = load(wrote(tmp_path, OK, '{"name":"a" "b","ph":"X","ts":tru}', OK))
    assert len(trace.slices) == 2
    assert skipped(trace) == {"malformed event": 1}


def test_a_crop_keeps_every_slice_whatever_its_bytes(tmp_path: Path) -> None:
    odd = [
        named('{"device": "npu"}'),
        '{"name":"nan","ph":"X","pid":1,"tid":1,"ts":20,"dur":5,"args":{"a":NaN}}',
        named("torch\\_init"),
        '{"name":"late end","ph":"E","pid":1,"tid":7,"ts":60}',
        '{"name":"pair","ph":"B","pid":1,"tid":7,"ts":50}',
        '{"name":"open","ph":"B","pid":1,"tid":8,"ts":70}',
    ]
    file = wrote(tmp_path, OK, *odd)
    gbk = tmp_path / "gbk.json"
    gbk.write_bytes(file.read_bytes().replace(b'"ok"', '"算子"'.encode("gbk")))
    for path in (file, gbk):
        whole, out = load(path), tmp_path / "out.json"
        assert len(whole.slices) == 6
        for options in ([], ["--clip"]):
            assert main(["crop", str(path), "-o", str(out), "--no-cache", *options]) == 0
            cropped = load(out)
            assert len(cropped.slices) == 6
            assert sorted(map(cropped.name_of, range(6))) == sorted(map(whole.name_of, range(6)))
            json.loads(out.read_text(encoding="utf-8"))


def test_counters_written_as_text_are_numbers(tmp_path: Path) -> None:
    values = ['"12.5"', '" -3 "', '"1e3"', "7", '"soon"', '"nan"', '"0x10"', '"1_0"', '""']
    events = [f'{{"name":"c","ph":"C","pid":1,"ts":{i},"args":{{"value":{value}}}}}' for i, value in enumerate(values)]
    trace = load(wrote(tmp_path, *events))
    assert trace.counters.value.tolist() == [12.5, -3.0, 1000.0, 7.0]
    assert sum(skipped(trace).values()) == 5


def test_an_operation_that_never_ended_lasts_to_the_end_of_the_trace(tmp_path: Path) -> None:
    trace = load(
        wrote(
            tmp_path,
            '{"name":"hcom_allReduce_","ph":"B","pid":1,"tid":1,"ts":10,"cat":"a"}',
            '{"name":"inner","ph":"B","pid":1,"tid":1,"ts":20}',
            '{"name":"","ph":"E","pid":1,"tid":1,"ts":30}',
            '{"name":"request","ph":"b","pid":2,"tid":1,"ts":40,"cat":"queue","id":"1"}',
            OK,
        )
    )
    kept = {trace.name_of(k): k for k in range(len(trace.slices))}
    slices = trace.slices
    spans = {name: (int(slices.start[k]), int(slices.end[k])) for name, k in kept.items()}
    assert spans == {
        "hcom_allReduce_": (0, 85_000), "inner": (10_000, 20_000), "request": (30_000, 85_000), "ok": (80_000, 85_000)
    }  # fmt: skip
    marked = [name for name, k in kept.items() if trace.categories[slices.category[k]] == UNFINISHED]
    assert sorted(marked) == ["hcom_allReduce_", "request"]
    assert [words(warning) for warning in trace.health.warnings] == [
        "2 slices began and never ended: drawn to the end of the trace, category: never ended"
    ]


def test_of_a_thread_without_any_end_the_outermost_are_drawn(tmp_path: Path) -> None:
    events = [f'{{"name":"f{i}","ph":"B","pid":1,"tid":1,"ts":{i}}}' for i in range(100)]
    trace = load(wrote(tmp_path, *events))
    assert len(trace.slices) == 64
    assert trace.name_of(0) == "f0"
    assert skipped(trace) == {"beginning without an end": 36}


HOST = '{"name":"op","ph":"X","pid":1,"tid":1,"ts":10,"dur":5%s}'
SOURCE = '{"ph":"s","id":1,"pid":1,"tid":1,"ts":11}'
NEXT = '{"name":"kernel","ph":"X","pid":2,"tid":1,"ts":30,"dur":5%s}'


@pytest.mark.parametrize(
    ("events", "bound"),
    [
        # A target without bp is that of the slice that begins next, with bp that of the slice around it.
        ([HOST % "", NEXT % "", SOURCE, '{"ph":"f","id":1,"pid":2,"tid":1,"ts":20}'],
         ("op", "kernel", 20_000)),
        ([HOST % "", NEXT % "", SOURCE, '{"ph":"f","id":1,"pid":1,"tid":1,"ts":12}'],
         ("op", "op", 2_000)),
        ([HOST % "", NEXT % "", SOURCE, '{"ph":"f","bp":"e","id":1,"pid":2,"tid":1,"ts":32}'],
         ("op", "kernel", 22_000)),
        # Slices that are the ends themselves.
        ([HOST % ',"bind_id":"0x7","flow_out":true', NEXT % ',"bind_id":"0x7","flow_in":true'],
         ("op", "kernel", 20_000)),
        ([NEXT % ',"bind_id":7,"flow_in":true,"flow_out":false', HOST % ',"flow_out":true,"bind_id":7'],
         ("op", "kernel", 20_000)),
    ],
)  # fmt: skip
def test_ends_of_links_in_every_form(tmp_path: Path, events: list[str], bound: tuple[str, str, int]) -> None:
    trace = load(wrote(tmp_path, *events))
    links = trace.links
    assert len(links) == 1
    assert (
        trace.name_of(int(links.source_slice[0])),
        trace.name_of(int(links.target_slice[0])),
        int(links.target_time[0]),
    ) == bound


def test_a_slice_that_ends_one_link_begins_the_next(tmp_path: Path) -> None:
    middle = '{"name":"middle","ph":"X","pid":1,"tid":2,"ts":20,"dur":5,"bind_id":7,"flow_in":true,"flow_out":true}'
    trace = load(
        wrote(tmp_path, HOST % ',"bind_id":7,"flow_out":true', middle, NEXT % ',"bind_id":7,"flow_in":true', OK)
    )
    names = [
        (trace.name_of(int(source)), trace.name_of(int(target)))
        for source, target in zip(trace.links.source_slice, trace.links.target_slice, strict=True)
    ]
    assert names == [("op", "middle"), ("middle", "kernel")]
