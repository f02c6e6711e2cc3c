"""Numbers that no machine number holds, wherever a file or a person may write one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shapes import device, link_end, named, slice_event, thread

from npu_tui.analysis.search import SearchError, parse_search
from npu_tui.cli.main import main
from npu_tui.load.copy import limit
from npu_tui.load.load import load
from npu_tui.trace.text import LONGEST, parse_duration

HUGE = (
    "9" * 5_000,
    "-" + "9" * 5_000,
    "9" * 20,
    str(2**63),
    "1e400",
    '"' + "9" * 5_000 + '"',
    '"NPU ' + "9" * 20 + '"',
)


def events(numbers: dict[str, str]) -> str:
    """A trace with ``numbers`` in their places."""

    def put(where: str, value: object) -> object:
        return f"@{where}@" if where in numbers else value

    found = [
        *device(100),
        {"ph": "M", "name": "process_labels", "pid": 5, "args": {"labels": put("label", "NPU 0")}},
        {"ph": "M", "name": "thread_sort_index", "pid": 5, "tid": 2, "args": {"sort_index": put("order", 1)}},
        slice_event(4, 1, 0, 50, f"ProfilerStep#{put('step', 1)}"),
        slice_event(4, 1, 1, 9, "aten::add", **{"Call stack": f"main.py({put('line', 1)}): f;"}),
        slice_event(5, 2, 110, 5, "Add", **{"Stream Id": put("stream", 2), "connection_id": put("connection", 1)}),
        slice_event(5, 2, 130, 5, "Mul", anything=put("args", 1)),
        slice_event(5, put("thread", 2), 140, 5, "Sub") | {"pid": put("process", 5), "name": put("name", "Sub")},
        link_end("s", 4, 1, 2, put("id", 1)),
        link_end("f", 5, 2, 110, put("id", 1)),
        *named(7, "Communication", "NPU 0"),
        thread(7, 1, "Group 0 Communication"),
        thread(7, 2, "Plane 0"),
        slice_event(7, 1, 150, 9, "hcom_allReduce__1"),
        slice_event(
            7, 2, 151, 5, "Memcpy",
            **{"src rank": put("source", 0), "dst rank": put("target", 1), "size(Byte)": put("size", 9)},
        ),
        {"ph": "C", "name": "load", "pid": 9, "ts": "1736405443863000.000", "args": {"MHz": put("counter", 1)}},
    ]  # fmt: skip
    text = json.dumps(found)
    for place, number in numbers.items():
        text = text.replace(f'"@{place}@"', number).replace(f"@{place}@", number.strip('"'))
    return text


@pytest.mark.parametrize(
    "places",
    [  # what hides nothing of each other
        ("label", "step", "line", "counter"),
        ("thread", "order", "connection", "source", "size"),
        ("process", "stream", "args", "target"),
        ("name", "id"),
    ],
    ids="-".join,
)
def test_numbers_in_a_file_cost_no_slice(
    places: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = len(load(_written(tmp_path, events({}))).slices)
    for number in HUGE:
        path = _written(tmp_path, events(dict.fromkeys(places, number)))
        assert len(load(path).slices) == whole, number[:20]
        assert main(["report", str(path), "--format", "json", "--no-cache"]) == 0
        json.loads(capsys.readouterr().out)


def _written(folder: Path, text: str) -> Path:
    path = folder / "trace_view.json"
    path.write_text(text)
    return path


@pytest.mark.parametrize("number", ["9" * 5_000, "9" * 40])
def test_a_number_that_is_typed_is_refused_in_a_line(number: str, tmp_path: Path) -> None:
    assert parse_duration(f"{number}ms") is None
    with pytest.raises(SearchError):
        parse_search(f"step:{number}")
    for words in (["--size", f"{number}x40"], ["--range", f"0..{number}ms"], ["--at", number]):
        with pytest.raises(SystemExit) as refused:
            main(["screenshot", "fixtures/healthy", "-o", str(tmp_path / "a.svg"), *words])
        assert refused.value.code == 2
    for words in (["--select", f"#{number}"], ["--rows", f"t{number}"]):
        assert main(["screenshot", "fixtures/healthy", "-o", str(tmp_path / "a.svg"), *words, "--no-cache"]) == 0


WIDE = ["1e18", "9223372036854775807", "-9223372036854775808", "1e308", "-1e308", "1e400", "inf", "nan", "9" * 400,
        "9" * 5_000, "0", "-0.0", "1e-320", "1_000", "\u0663", "0x10", ""]  # fmt: skip
CLUSTER = "Step,Type,Index,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble"


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(WIDE)), min_size=1, max_size=4), st.integers(0, 4))
def test_of_a_cluster_analysis(tmp_path_factory, cells, first):
    folder = tmp_path_factory.mktemp("cluster") / "cluster_analysis_output"
    folder.mkdir()
    rows = [[str(step), "rank", str(rank), "900", "50", "20", "70", "30", "980", "10"]
            for rank in range(4) for step in range(1, 6)]  # fmt: skip
    for row in rows[first:]:
        for place, value in cells:
            row[place] = value
    text = "\n".join([CLUSTER, *map(",".join, rows), ""])
    (folder / "cluster_step_trace_time.csv").write_text(text)
    for words in (["ranks", str(folder)], ["ranks", str(folder), "--format", "json"]):
        assert main(words) in (0, 2, 3)


@given(st.sampled_from(WIDE), st.sampled_from(["Start Time(us)", "Duration(us)", "Step Id", "Input Shapes", "Task ID"]))
def test_of_a_table(tmp_path_factory, value, column):
    folder = tmp_path_factory.mktemp("table") / "profile"  # what lies beside it is looked at
    folder.mkdir()
    header = (
        "Step Id,Device_id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Input Shapes,Task ID,Wait Time(us)"
    )
    rows = [["7", "0", f"k{n}", "MatMulV2", "AI_CORE", f"17364054438{n:05d}.5", "900.5", '"64,64;64,64"', f"{n}", "1"]
            for n in range(40)]  # fmt: skip
    for row in rows[::3]:
        row[header.split(",").index(column)] = f'"{value},{value};{value}"' if "Shapes" in column else value
    (folder / "kernel_details.csv").write_text("\n".join([header, *map(",".join, rows), ""]))
    for words in (["report", str(folder)], ["query", str(folder), "select * from kernels"]):
        assert main(words) in (0, 2, 3)


@pytest.mark.parametrize("value", [*WIDE, "-1", "9" * 320])
def test_of_the_environment(value, monkeypatch):
    monkeypatch.setenv("NPU_TUI_CACHE_MB", value)
    assert main(["doctor"]) in (0, 1, 2)
    assert 0 <= limit() <= LONGEST


@pytest.mark.parametrize("value", WIDE)
@pytest.mark.parametrize(
    "words",
    [["report", "--step"], ["report", "--range"], ["query", "--limit"], ["query", "--timeout"], ["check", "--max-step"],
     ["whatif"], ["timeline", "--columns"]],
    ids=" ".join,
)  # fmt: skip
def test_of_an_option(value, words):
    command, *option = words
    given_ = [command, "fixtures/healthy", *(["select 1"] if command == "query" else []), *option, value]
    try:
        code = main(given_)
    except SystemExit as ended:
        code = int(ended.code or 0)
    assert code in (0, 1, 2, 3)
