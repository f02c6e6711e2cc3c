"""Events that a file holds twice: one, a tenth, half or all of them change no figure, and their number is said."""

from __future__ import annotations

import csv
import json
import random
import sqlite3
import sys
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict

from npu_tui.load import layers
from npu_tui.load.companion_schema import KERNELS
from npu_tui.load.csv_table import read_table
from npu_tui.load.ftrace import load_ftrace
from npu_tui.load.layers import first_rows
from npu_tui.load.load import Opening, load
from npu_tui.load.snapshot import load_snapshot
from npu_tui.profile.profile import Profile
from npu_tui.trace.model import Trace
from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "tests" / "load" / "database"))
from small import small_database
from test_ftrace import IDLE, A, _line, _switch
from test_memscope import HEADER, row

SHARES = (0.0, 0.1, 0.5, 1.0)
"""Of 0 one event is doubled."""


def again(events: list[Any], share: float, seed: int, together: bool) -> list[Any]:
    """``events`` with some of them twice: a part behind the others, or each beside itself."""
    chosen = random.Random(seed)
    count = max(round(share * len(events)), 1)
    if together:
        first = chosen.randrange(len(events) - count + 1)
        return [*events, *events[first : first + count]]
    return [one for event in events for one in [event] * (1 + (chosen.random() < max(share, 1 / len(events))))]


def columns(trace: Trace) -> dict[str, Any]:
    """What a trace measures; where events stand in the file is not asked."""
    parts = {"slices": asdict(trace.slices), "links": asdict(trace.links), "counters": asdict(trace.counters)}
    return {
        f"{part}.{name}": value
        for part, values in parts.items()
        for name, value in values.items()
        if isinstance(value, np.ndarray) and "event" not in name
    }


def said(trace: Trace, code: str) -> int:
    return sum(one.args["count"] for one in trace.health.warnings if one.code == code)


@pytest.mark.parametrize("name", ["healthy", "communication_bound", "kineto"])
@given(st.sampled_from(SHARES), st.integers(0, 1 << 30), st.booleans())
def test_of_a_text(tmp_path_factory, name, share, seed, together):
    file = next(one for one in sorted((ROOT / "fixtures" / name).rglob("*.json")) if one.stat().st_size > 50_000)
    content = json.loads(file.read_text())
    events = content if isinstance(content, list) else content["traceEvents"]
    names = [event for event in events if event["ph"] == "M"]
    timed = [event for event in events if event["ph"] in "Xsf"]
    tasks = [event for event in timed if event["ph"] == "X" and "Task Type" in event.get("args", {})]
    path = tmp_path_factory.mktemp("doubled") / file.name
    path.write_text(json.dumps(names + timed))
    alone = load(path)
    assert not alone.health.warnings
    path.write_text(json.dumps(names + (twice := again(timed, share, seed, together))))
    trace = load(path)
    slices = sum(event["ph"] == "X" for event in twice) - len(alone.slices.start)
    assert said(trace, "odd.doubled") + said(trace, "odd.alike") == slices
    assert said(trace, "odd.doubled_links") == len(twice) - len(timed) - slices
    of_tasks = sum(event in tasks for event in twice[len(timed) :]) if together else len(twice) - len(timed)
    if of_tasks and said(trace, "odd.doubled"):
        for column, values in columns(alone).items():
            np.testing.assert_array_equal(values, columns(trace)[column], column)
    assert Profile(trace, Opening(path).source).clock_jump is None


def test_equal_calls_of_the_host_alone_are_told_and_count(tmp_path):
    file = next((ROOT / "fixtures/healthy").rglob("trace_view.json"))
    events = json.loads(file.read_text())
    call = next(event for event in events if event["ph"] == "X" and event["name"].startswith("aten::"))
    path = tmp_path / "trace_view.json"
    path.write_text(json.dumps([*events, call]))
    trace = load(path)
    assert (said(trace, "odd.alike"), said(trace, "odd.doubled")) == (1, 0)
    assert len(trace.slices.start) == len(load(file).slices.start) + 1


@given(st.sampled_from(SHARES), st.integers(0, 1 << 30), st.booleans())
def test_of_a_table(tmp_path_factory, share, seed, together):
    folder = tmp_path_factory.mktemp("table")
    rows = [f"7,0,kernel{i % 9},AI_CORE,1736405443881410.{i:03d},{i % 5}.5" for i in range(300)]
    header = "Step Id,Device_id,Name,Accelerator Core,Start Time(us),Duration(us)"
    (folder / "kernel_details.csv").write_text("\n".join([header, *rows, ""]))
    alone = read_table(folder, KERNELS)
    twice = again(rows, share, seed, together)
    (folder / "kernel_details.csv").write_text("\n".join([header, *twice, ""]))
    reading = read_table(folder, KERNELS)
    assert reading.frame.equals(alone.frame)
    assert [one.args["count"] for one in reading.messages if one.code == "companion.twice"] == [
        count for count in [len(twice) - len(rows)] if count
    ]


@pytest.mark.parametrize("form", ["csv", "db"])
@given(st.sampled_from(SHARES), st.integers(0, 1 << 30), st.booleans())
def test_of_memscope(tmp_path_factory, form, share, seed, together):
    folder = tmp_path_factory.mktemp("memscope")
    rows = [row(i + 1, "MALLOC", 0x1000 * (i + 1), 512, f",total:4096,used:{i}") for i in range(60)]

    def read(rows: list[list[str]]) -> Any:
        path = folder / f"memscope_dump_1.{form}"
        path.unlink(missing_ok=True)
        if form == "csv":
            with path.open("w", newline="") as stream:
                csv.writer(stream).writerows([HEADER, *rows])
        else:
            with sqlite3.connect(path) as base:
                names, marks = ", ".join(f'"{name}" TEXT' for name in HEADER), ", ".join("?" * len(HEADER))
                base.execute(f"CREATE TABLE memscope_dump ({names})")
                base.executemany(f"INSERT INTO memscope_dump VALUES ({marks})", rows)
        return load_snapshot(path)

    alone, twice = read(rows), again(rows, share, seed, together)
    snapshot = read(twice)
    assert sum(count for what, count in snapshot.odd.items() if what.code == "odd.memscope_twice") == len(twice) - 60
    for name, values in asdict(alone.devices[0].events).items():
        np.testing.assert_array_equal(values, getattr(snapshot.devices[0].events, name), name)


@given(st.sampled_from(SHARES[1:]), st.integers(0, 1 << 30))
def test_of_a_recording(tmp_path_factory, share, seed):
    path = tmp_path_factory.mktemp("ftrace") / "trace.txt"
    lines = ["# tracer: nop"]
    for turn in range(40):
        lines += [
            _switch(100 * turn, 0, IDLE, "R", A),
            _line(100 * turn + 30, 0, A, "sched_wakeup: comm=kworker/3:1-ev pid=9 prio=120 target_cpu=000"),
            _switch(100 * turn + 60, 0, A, "S", IDLE),
        ]
    path.write_text("\n".join([*lines, ""]))
    alone = load_ftrace(path)
    twice = again(lines[1:], share, seed, together=True)
    path.write_text("\n".join([lines[0], *twice, ""]))
    recording = load_ftrace(path)
    assert recording.odd == {**alone.odd, **{k: v for k, v in recording.odd.items() if k.code == "odd.ftrace_twice"}}
    assert sum(recording.odd.values()) - sum(alone.odd.values()) == len(twice) - len(lines) + 1
    for name in ("states", "runs"):
        for column, values in asdict(getattr(alone, name)).items():
            np.testing.assert_array_equal(values, getattr(getattr(recording, name), column), column)


def test_of_a_service(tmp_path):
    header = "name,batch_type,start_time(ms),end_time(ms),prof_id,batch_size,res_list"
    rows = [
        f"""modelExec,Decode,{1727940490718 + 20 * i}.5,{1727940490730 + 20 * i}.5,7,1,"[{{'rid': {i}, 'iter': 1}}]\""""
        for i in range(50)
    ]
    folder = tmp_path / "service"
    folder.mkdir()

    def read(rows: list[str]) -> Any:
        (folder / "batch.csv").write_text("\n".join([header, *rows, ""]))
        return Opening(folder).trace().service

    alone, twice = read(rows), read([*rows, *rows[10:20]])
    assert [one.args["count"] for one in twice.odd if one.code == "companion.twice"] == [10]
    assert len(alone.batches) == len(twice.batches) == 50
    np.testing.assert_array_equal(alone.batches.start, twice.batches.start)
    np.testing.assert_array_equal(alone.members.batch, twice.members.batch)
    assert [alone.rids[code] for code in alone.members.rid] == [twice.rids[code] for code in twice.members.rid]


@given(st.integers(1, 9), st.sampled_from(["TASK", "PYTORCH_API", "NPU_MEM"]))
def test_of_a_database(tmp_path_factory, every, table):
    path = small_database(tmp_path_factory.mktemp("database") / "ascend_pytorch_profiler_0.db")
    alone = load(path)
    with sqlite3.connect(path) as base:
        base.execute(f"INSERT INTO {table} SELECT * FROM {table} WHERE rowid % {every} = 0")
        count = base.total_changes
    base.close()
    trace = load(path)
    if table == "PYTORCH_API":
        assert said(trace, "odd.alike") == count
        return
    for column, values in columns(alone).items():
        np.testing.assert_array_equal(values, columns(trace)[column], column)
    twice = said(trace, "odd.doubled") + said(trace, "odd.doubled_samples")
    assert twice == count if table == "TASK" else twice and twice % count == 0  # a row of memory is several samples


CELLS = st.tuples(
    st.integers(0, 2) | st.none(),
    st.sampled_from(["a", "b", ""]) | st.none(),
    st.sampled_from([0.0, 1.5, float("nan")]),
)


@given(st.lists(CELLS, max_size=40), st.integers(1, 50))
def test_rows_count_once_by_all_their_cells(cells, together):
    """However many are compared together."""
    frame = pl.DataFrame(cells, {"time": pl.Int64, "name": pl.Categorical, "value": pl.Float64}, orient="row")
    first = [repr(cell) not in map(repr, cells[:at]) for at, cell in enumerate(cells)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layers, "_TOGETHER", together)
        found = first_rows(frame, ("time",))
    assert (found is None and all(first)) or found.tolist() == first


@pytest.mark.parametrize("apart", [0, 1_000_000])
def test_two_ranks_in_one_file_are_told(tmp_path, apart):
    """Their processes have the numbers of each other, or their own."""
    events = []
    for rank in (0, 1):
        file = next((ROOT / f"fixtures/two_ranks/rank{rank}_ascend_pt").rglob("trace_view.json"))
        events.append(json.loads(file.read_text()))
    events[1] = [{**event, "pid": event["pid"] + apart} for event in events[1]]
    path = tmp_path / "trace_view.json"
    for merged, times in ((events[0], 0), (events[1], 0), (events[0] + events[1], 1)):
        path.write_text(json.dumps(merged))
        warnings = [warning.code for warning in load(path).health.warnings]
        assert warnings.count("odd.ranks_merged") == times
