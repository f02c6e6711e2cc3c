"""Newer files of the profiler: tasks of the device, TLB rates, traffic of network cards and host, execution traces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from measured import profile_at

from npu_tui.cli.main import main
from npu_tui.output.report import report
from npu_tui.profile.profile import Profile
from npu_tui.query.frames import tables_of
from npu_tui.query.query import query
from npu_tui.trace.model import HOST_TO_DEVICE
from npu_tui.tui.session import NO_HITS, make_session
from npu_tui.tui.tabs.summary import summary
from npu_tui.tui.tabs.table import Context, TabTable

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
START = 1_736_408_883_000_000


def _folder(path: Path, **files: str) -> Path:
    """A profile with ``files`` (csv) in it."""
    output = path / "run_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    for name, text in files.items():
        (output / f"{name}.csv").write_text(text, encoding="utf-8")
    return output.parent


def _answer(profile: Profile, sql: str) -> list[tuple[Any, ...]]:
    return query(tables_of(profile), sql).rows()


_TASKS = (
    "Device_id,kernel_name,kernel_type,stream_id,task_id,task_time(us),task_start(us),task_stop(us)\n"
    f"0,aclnnMatmul_MatMulV2,KERNEL_AICORE,2,1,30,{START}.000\t,{START + 30}.000\t\n"
    f"0,N/A,EVENT_WAIT,2,2,500,{START + 30}.000\t,{START + 530}.000\t\n"
    f"0,aclnnAdd_Add,KERNEL_AIVEC,2,3,10,{START + 530}.000\t,{START + 540}.000\t\n"
    f"0,aclnnAdd_Add,AI_VECTOR_CORE,3,4,12,{START + 600}.000\t,{START + 612}.000\t\n"
    f"0,MEMCPY_ASYNC,MEMCPY_ASYNC,3,5,70,{START + 700}.000\t,{START + 770}.000\t\n"
    f"0,hcom_allReduce__1,Notify_Wait,9,6,900,{START + 700}.000\t,{START + 1600}.000\t\n"
)


def test_tasks_alone_tell_the_kernels_and_what_exchanges(tmp_path: Path):
    profile = profile_at(_folder(tmp_path, task_time=_TASKS))
    sql = "select type, core, calls, total from operators order by total desc"
    assert _answer(profile, sql) == [("MatMulV2", "AI_CORE", 1, 30_000), ("Add", "AI_VECTOR_CORE", 2, 22_000)]
    assert _answer(profile, "select name, start, stream from kernels") == [
        ("aclnnMatmul_MatMulV2", 0, 2), ("aclnnAdd_Add", 530_000, 2), ("aclnnAdd_Add", 600_000, 3),
    ]  # fmt: skip
    told = report(profile)
    assert (told.overlap.computing_us, told.overlap.communication_us, told.overlap.total_us) == (52.0, 900.0, 1600.0)
    states = {file.name: (file.state, file.rows) for file in told.files}
    assert states["task_time.csv"] == ("read", 6)
    assert states["kernel_details.csv"] == ("missing", 0)


def test_kernel_details_count_before_tasks(tmp_path: Path):
    details = f"Name,Type,Accelerator Core,Start Time(us),Duration(us)\nMul,Mul,AI_VECTOR_CORE,{START},5\n"
    profile = profile_at(_folder(tmp_path, task_time=_TASKS, kernel_details=details))
    assert _answer(profile, "select type, total from operators") == [("Mul", 5_000)]


@pytest.mark.parametrize("text", ["", "kernel_name,kernel_type\n", _TASKS[:200], "Device_id,other\n1,2\n"])
def test_damaged_tasks_are_no_traceback(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]):
    assert main(["report", str(_folder(tmp_path, task_time=text))]) in (0, 3)
    assert "Traceback" not in capsys.readouterr().err


def _with_trace(path: Path, **files: str) -> Profile:
    folder = _folder(path, **files)
    trace = next((FIXTURES / "healthy").rglob("trace_view.json"))
    (folder / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").write_bytes(trace.read_bytes())
    return profile_at(folder)


def test_kernels_have_their_tlb_rates(tmp_path: Path):
    bare = _with_trace(tmp_path / "bare")
    item = int(bare.all_kernels.item[0])
    (task,) = bare.trace.args.many(bare.trace.slices.event[[item]], ("Task Id",))[0]
    stream, name = int(bare.trace.slices.stream[item]), bare.trace.name_of(item)
    rates = f"Stream Id,Task Id,TLB Hit Rate,TLB Miss Rate,Op Name\n{stream},{task},0.75,0.2,{name}\n"
    profile = _with_trace(tmp_path / "rates", soc_pmu=rates)
    sql = "select slice, tlb_hit_rate, tlb_miss_rate from kernels where tlb_hit_rate is not null"
    assert _answer(profile, sql) == [(item, 0.75, 0.2)]


def test_the_traffic_of_cards_and_the_host_is_told(tmp_path: Path):
    start = profile_at(FIXTURES / "healthy").tables.start_ns // 1000
    header = (
        "Device_id,Timestamp(us),Bandwidth(MB/s),Rx Bandwidth efficiency(%),rxPacket/s,rxError rate(%),"
        "rxDropped rate(%),Tx Bandwidth efficiency(%),txPacket/s,txError rate(%),txDropped rate(%),funcId\n"
    )
    rows = [(0, 100.0, 0.0, 0), (1000, 300.0, 0.5, 0), (0, 40.0, 0.0, 1)]
    roce = header + "".join(
        f"0,{start + after}.000\t,{speed},1,10,{errors},0,2,20,0,0,{port}\n" for after, speed, errors, port in rows
    )
    cpu = "Device_id,Total Cpu Numbers,Occupied Cpu Numbers,Recommend Cpu Numbers\nhost,192,12,16\n"
    profile = _with_trace(tmp_path, roce=roce, host_cpu_usage_20250109000000=cpu)
    assert _answer(profile, "select transport, port, start_ns, bandwidth from network where port = 0") == [
        ("roce", 0, start * 1000, 100.0), ("roce", 0, (start + 1000) * 1000, 300.0),
    ]  # fmt: skip
    ports = json.loads(
        json.dumps([[r.port, r.samples, r.mean_mb_s, r.max_mb_s, r.errors_percent] for r in report(profile).ports])
    )
    assert ports == [[0, 2, 200.0, 300.0, 0.5], [1, 1, 40.0, 40.0, 0.0]]
    shown = summary(Context(make_session([profile]), None, None, None, HOST_TO_DEVICE, NO_HITS, 0))
    assert isinstance(shown, TabTable)
    told = {str(row.cells[1]): str(row.cells[2]) for row in shown.rows if str(row.cells[0]) == "host"}
    assert told == {
        "roce, port 0": "mean 200.0 MB/s, most 300.0 MB/s   errors up to 0.5%",
        "roce, port 1": "mean 40.0 MB/s, most 40.0 MB/s",
        "host_cpu_usage": "12 of 192 cores in use",
    }
    assert report(profile_at(FIXTURES / "healthy")).ports == []


def test_an_execution_trace_is_named_for_what_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "et.json"
    path.write_text(json.dumps({"schema": "1.1.0-chakra.0.0.4", "pid": 1, "nodes": [{"id": 1}]}), encoding="utf-8")
    assert main(["report", str(path)]) == 3
    assert "an execution trace of PyTorch" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("snapshot.pkl", b"\x80\x04\x95\x02}", "the snapshot ends before it is complete"),
        ("trace.txt", b"# tracer: nop\n", "no event of ftrace"),
        ("trace.json", b"# tracer: nop\n", "scheduler events of the kernel"),
        ("a.parquet", b"PAR1\x15\x04", "a Parquet file, which holds no profile"),
    ],
)
def test_files_of_other_tools_are_named(
    tmp_path: Path, name: str, content: bytes, said: str, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / name).write_bytes(content)
    assert main(["report", str(tmp_path / name)]) == 3
    assert said in capsys.readouterr().err
