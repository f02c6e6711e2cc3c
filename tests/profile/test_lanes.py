"""Traces without a device of their own: pipes and cores of one kernel, tasks of PTO, lanes and names of other tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from measured import profile_at

from npu_tui.output.report import report
from npu_tui.output.report_document import report_document
from npu_tui.output.statement import written_document
from npu_tui.profile.file_tables import CORES, LANES, NAMES
from npu_tui.profile.profile import Profile

Event = dict[str, Any]


class Simulated:
    """Instructions as the simulator of msprof op writes them, in us: pipes set flags that others wait for."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._flags = 0

    def run(self, core: str, pipe: str, name: str, start: float, length: float) -> None:
        args = {"code": "", "detail": "", "pc_addr": "0x10d0d000"}
        self.events.append(
            {"ph": "X", "pid": core, "tid": pipe, "name": name, "ts": start, "dur": length, "args": args}
        )

    def wait(self, core: str, pipe: str, start: float, end: float, of: tuple[str, float]) -> None:
        """``pipe`` waits until the flag that ``of`` (another pipe, at a time) sets."""
        self._flags += 1
        place = {"pid": core, "tid": pipe, "id": self._flags, "name": "WAIT_FLAG"}
        self.events += [place | {"ph": "B", "ts": start, "args": {}}, place | {"ph": "E", "ts": end, "args": {}}]
        flow = {"cat": f"{of[0]}To{pipe}", "id": self._flags, "name": "flow", "pid": core}
        self.events += [flow | {"ph": "s", "tid": of[0], "ts": of[1]}, flow | {"ph": "t", "tid": pipe, "ts": end}]

    def write(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"profilingType": "op", "schemaVersion": 2, "traceEvents": self.events}))
        return path


def _loads_then_adds(core: str, loads: int, each: float) -> Simulated:
    """``loads`` one after the other; the sum of all begins when the last has set its flag, and is stored at once."""
    kernel = Simulated()
    for k in range(loads):
        kernel.run(core, "MTE2", "MOV_OUT_TO_UB", 10 + k * each, each)
    done = 10 + loads * each
    kernel.run(core, "MTE2", "SET_FLAG", done, 0.01)
    kernel.wait(core, "VECTOR", 10, done + 0.02, ("MTE2", done))
    kernel.run(core, "VECTOR", "VADD", done + 0.02, 3)
    kernel.run(core, "VECTOR", "SET_FLAG", done + 3.02, 0.01)
    kernel.wait(core, "MTE3", 10, done + 3.04, ("VECTOR", done + 3.02))
    kernel.run(core, "MTE3", "MOV_UB_TO_OUT", done + 3.04, 2)
    return kernel


def _text(profile: Profile) -> str:
    return written_document(report_document(report(profile)), "text")


@pytest.mark.parametrize("place", ["mine.json", "OPPROF_20270203040506_QWERTY/simulator/trace.json"])
@pytest.mark.parametrize("opened", ["file", "folder"])
def test_pipes_wait_for_each_other_and_one_core_holds_up_the_kernel(tmp_path: Path, place: str, opened: str) -> None:
    kernel = _loads_then_adds("core0.veccore0", 4, 2)
    kernel.events += _loads_then_adds("core1.veccore1", 4, 5).events
    path = kernel.write(tmp_path / place)
    profile = profile_at(path if opened == "file" else tmp_path)
    rows = {(row.layer, row.lane): row for row in LANES.records(profile)}
    slow = {pipe: rows["core1.veccore1", pipe] for pipe in ("MTE2", "VECTOR", "MTE3")}
    assert [slow[pipe].busy_us for pipe in slow] == [20.01, 3.01, 2.0]
    assert [slow[pipe].waits_us for pipe in slow] == [0, 20.02, 23.04]
    # What is between: the 10 ns from a flag to the pipe that waits for it, twice.
    assert [slow[pipe].on_chain_us for pipe in slow] == [20.01, 3.01, 2.0]
    assert rows["core0.veccore0", "MTE2"].on_chain_us == 0
    assert slow["MTE2"].busy_share == pytest.approx(20.01 / 25.04, abs=1e-5)
    first, second = CORES.records(profile)
    assert (first.core, first.span_us, first.of_slowest, first.pipe) == ("core1.veccore1", 25.04, 1, "MTE2")
    assert (second.core, second.of_slowest) == ("core0.veccore0", pytest.approx(13.04 / 25.04, abs=1e-5))
    text = " ".join(_text(profile).split())
    assert "One kernel in the simulator, on 2 cores, 25.04 µs: MTE2 of core1.veccore1 is the busiest pipe" in text
    assert "The longest chain, 25.04 µs, runs on core1.veccore1 MTE2 (79.9%), core1.veccore1 VECTOR (12.0%)" in text
    assert "torch_npu" not in text
    assert "ProfilerLevel" not in text


def test_a_pipe_that_nobody_waits_for_is_not_on_the_chain(tmp_path: Path) -> None:
    """The scalar unit works all the time beside the others: it is the busiest, and nothing hangs on it."""
    kernel = _loads_then_adds("core3.cubecore0", 2, 1)
    for k in range(70):
        kernel.run("core3.cubecore0", "SCALAR", "ADD", 10 + k * 0.1, 0.1)
    profile = profile_at(kernel.write(tmp_path / "trace.json"))
    rows = {row.lane: row for row in LANES.records(profile)}
    assert (rows["SCALAR"].busy_us, rows["SCALAR"].on_chain_us) == (7, 0)
    assert CORES.records(profile)[0].pipe == "SCALAR"
    assert {row.name: (row.count, row.total_us) for row in NAMES.records(profile)}["ADD"] == (70, 7)


@pytest.mark.parametrize("view", ["AICore View", "Worker View", "Machine View"])
def test_tasks_of_pto_have_cores_and_a_chain(tmp_path: Path, view: str) -> None:
    """A long task on one core, then two on another: the third core has work that nothing needs."""
    names = {1: view, 2: "AICPU View"}
    events: list[Event] = [
        {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}} for pid, name in names.items()
    ]
    for pid in names:
        for core, kind in enumerate(("AIC", "AIV", "AIV")):
            named = {"ph": "M", "name": "thread_name", "pid": pid, "tid": 10_000 + 10 * core}
            events.append(named | {"args": {"name": f"{kind}_{core}"}})
    tasks = [("qk(t0)", 0, 5, 40), ("softmax(t1)", 1, 50, 10), ("add(t2)", 1, 62, 8), ("zero(t3)", 2, 5, 30)]
    for name, core, start, length in tasks:
        tid = 10_000 + 10 * core
        task = {"ph": "X", "cat": "event", "name": name, "tid": tid, "args": {"taskId": 0}}
        events.append(task | {"pid": 1, "ts": start, "dur": length})
        events.append(task | {"pid": 2, "ts": start - 2, "dur": length + 4})
    flow = {"cat": "flow", "name": "dependency", "id": 0, "pid": 1}
    events.append(flow | {"ph": "s", "tid": 10_000, "ts": 44.99})
    events.append(flow | {"ph": "f", "bp": "e", "tid": 10_010, "ts": 50})
    path = tmp_path / "merged_swimlane_20270203_040506.json"
    path.write_text(json.dumps({"traceEvents": events}))
    profile = profile_at(path)
    assert [(row.core, row.span_us, row.busy_us, row.pipe) for row in CORES.records(profile)] == [
        ("AIC_0", 40, 40, None), ("AIV_2", 30, 30, None), ("AIV_1", 20, 18, None),
    ]  # fmt: skip
    chained = {row.lane: row.on_chain_us for row in LANES.records(profile) if row.layer == view}
    assert chained == {"AIC_0": 40, "AIV_1": 18, "AIV_2": 0}
    text = " ".join(_text(profile).split())
    assert "Tasks on 3 cores, 65.00 µs: AIC_0 is the busiest, 61.5% of that time." in text
    assert "The longest chain, 65.00 µs, runs on" in text


def test_lanes_of_another_tool_have_no_chain(tmp_path: Path) -> None:
    events = [
        {"ph": "X", "pid": 1, "tid": tid, "name": f"codegen {k % 2}", "ts": 100 * k, "dur": 50 + 10 * tid}
        for tid in (1, 2)
        for k in range(5)
    ]
    path = tmp_path / "build.json"
    path.write_text(json.dumps(events))
    profile = profile_at(path)
    assert [(row.lane, row.busy_us, row.on_chain_us, row.waits_us) for row in LANES.records(profile)] == [
        ("Thread 2", 350, None, None), ("Thread 1", 300, None, None),
    ]  # fmt: skip
    assert [(row.name, row.count, row.total_us) for row in NAMES.records(profile)] == [
        ("codegen 0", 6, 390), ("codegen 1", 4, 260),
    ]  # fmt: skip
    assert not CORES.records(profile)


def test_profiles_of_devices_have_tables_of_their_own() -> None:
    profile = profile_at(Path(__file__).resolve().parents[2] / "fixtures" / "healthy")
    assert not any(table.records(profile) for table in (LANES, CORES, NAMES))


_PIPES = (
    "block_id,sub_block_id,aic_time(us),aic_cube_time(us),aic_cube_ratio,aiv_time(us),aiv_vec_time(us),aiv_vec_ratio,"
    "aiv_mte2_ratio,aiv_icache_miss_rate,"
)


@pytest.mark.parametrize("opened", ["", "OpBasicInfo.csv", "PipeUtilization.csv", "visualize_data.bin"])
def test_one_operator_has_cores_and_pipes(tmp_path: Path, opened: str) -> None:
    folder = tmp_path / "OPPROF_20270203040506_QWERTY"
    folder.mkdir()
    (folder / "OpBasicInfo.csv").write_text(
        "Op Name,Op Type,Task Duration(us),Block Dim,Device Id,\nfused_norm,mix,12.5,40,0,\n"
    )
    rows = ["0,cube0,4,1,0.25,NA,NA,NA,NA,NA,", "0,vector0,NA,NA,NA,11,5.5,0.5,0.75,0.01,",
            "1,vector0,NA,NA,NA,8,2,0.25,0.5,0.01,"]  # fmt: skip
    (folder / "PipeUtilization.csv").write_text("\n".join([_PIPES, *rows, ""]))
    (folder / "ResourceConflictRatio.csv").write_text(
        "block_id,sub_block_id,aiv_time(us),aiv_vec_wait_ratio,\n0,vector0,11,0.4,\n1,vector0,8,NA,\n"
    )
    (folder / "visualize_data.bin").write_bytes(b"\0")
    profile = profile_at(folder / opened)
    assert [(row.core, row.span_us, row.pipe, row.busy_us) for row in CORES.records(profile)] == [
        ("0.vector0", 11, "mte2", 8.25), ("1.vector0", 8, "mte2", 4), ("0.cube0", 4, "cube", 1),
    ]  # fmt: skip
    pipes = {(row.layer, row.lane): row for row in LANES.records(profile)}
    assert len(pipes) == 5
    assert (pipes["0.vector0", "vec"].waits_us, pipes["1.vector0", "vec"].waits_us) == (4.4, None)
    assert pipes["0.vector0", "mte2"].busy_share == 0.75
    assert "fused_norm, 12.50 µs, Block Dim 40" in _text(profile)
