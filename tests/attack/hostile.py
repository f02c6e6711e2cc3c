"""Hostile files: none takes more memory than four times its size and 300 MB, nor more than two minutes.

python tests/attack/hostile.py [NAME...] [--scale 1]
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

import pickles
from shapes import SHAPES, write_shape

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "fixtures"), str(ROOT / "tests/load/database")]

from roles import SECOND as ROLE_SECOND  # noqa: E402 - its folder is no package
from roles import Work, write_roles  # noqa: E402
from service_causes import write_service  # noqa: E402
from service_writer import EPOCH_NS  # noqa: E402
from small import small_database  # noqa: E402

from npu_tui.jobs.kept import SUFFIX  # noqa: E402
from npu_tui.jobs.model import RankProfile  # noqa: E402
from npu_tui.jobs.summary import write_summary  # noqa: E402

MB = 1 << 20
SECONDS, TIMES, MORE = 120, 4, 300 * MB
ENVIRONMENT = os.environ | {"NPU_TUI_CACHE_MB": "0"}
PROFILE = {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "Ascend Hardware"}}
Written = Callable[[Path, int], list[list[str]]]


def trace(path: Path, events: list[object]) -> list[list[str]]:
    """A trace of ``events`` and what is run on it."""
    file = path / "trace_view.json"
    file.write_text(json.dumps(events))
    return shown(file)


def shown(file: Path) -> list[list[str]]:
    """The commands of a file that has a screen."""
    return [["report", str(file), "--format", "json"], ["screenshot", str(file), "-o", str(file.parent / "a.svg")]]


def slices(count: int, **more: object) -> list[object]:
    """Slices of a device, each ``more`` of what a slice has."""
    every = {"ph": "X", "name": "a", "pid": 1, "tid": 1, "dur": 1}
    return [PROFILE, *({**every, "ts": str(1000 + k)} | {n: f(k) if callable(f) else f for n, f in more.items()}
                       for k in range(count))]  # fmt: skip


def shape(name: str) -> Written:
    """One of the extreme shapes of traces."""
    return lambda path, size: shown(write_shape(path / "trace_view.json", name, 20_000 * size))


def beside(name: str, content: Callable[[int], bytes]) -> Written:
    """A small profile with a large companion."""

    def made(path: Path, size: int) -> list[list[str]]:
        output = path / "rank_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
        output.mkdir(parents=True)
        (output / name).resolve().write_bytes(content(20 * MB * size))
        return trace(output, slices(50))

    return made


def of_many(before: str, unit: str, after: str) -> Callable[[int], bytes]:
    """A document with much of one kind; ``%d`` counts."""

    def content(size: int) -> bytes:
        count = size // len(unit % 10**6)
        return before.encode() + ",".join(unit % k for k in range(count)).encode() + after.encode()

    return content


def table(name: str, cell: bytes, rows: int = 1) -> Written:
    """The tables of a service, one of which has rows of much."""

    def made(path: Path, size: int) -> list[list[str]]:
        write_service(path, "kv", 1, 40)
        with (path / name).open("ab") as out:
            for _ in range(rows):
                out.write(cell * (20 * MB * size // rows // len(cell)) + b"\n" * (rows > 1))
        return shown(path)

    return made


def batches(members: Callable[[int], Iterable[str]]) -> Written:
    """A service with a batch for each of many lists of requests."""

    def made(path: Path, size: int) -> list[list[str]]:
        write_service(path, "kv", 1, 40)
        with (path / "batch.csv").open("w") as out:
            out.write("name,res_list,start_time(ms),end_time(ms),batch_type,prof_id\n")
            for k, rid in enumerate(members(20 * MB * size)):
                out.write(f"modelExec,\"[{{'rid': {rid}, 'type': 1}}]\",{EPOCH_NS // 1_000_000 + k},,Decode,7\n")
        return shown(path)

    return made


def database(*statements: str) -> Written:
    """A small database after some statements."""

    def made(path: Path, size: int) -> list[list[str]]:
        file = small_database(path / "ascend_pytorch_profiler_3.db")
        with sqlite3.connect(file) as base:
            for statement in statements:
                base.execute(statement)
        base.close()
        return shown(file)

    return made


_MANY = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT {})"


def service_database(path: Path, size: int) -> list[list[str]]:
    """Spans of a service with arguments of some MB."""
    write_service(path, "kv", 1, 20, database=True)
    with sqlite3.connect(path / "profiler.db") as base:
        base.execute("UPDATE slice SET args = ?", ('{"a": "' + "x" * 100_000 * size + '"}',))
    base.close()
    for file in path.glob("*.csv"):
        file.unlink()
    return shown(path)


def spans_of_a_service(path: Path, size: int) -> list[list[str]]:
    """Spans, each of its own name, request and thread."""
    events = [{"name": f"n{k}", "ph": "X", "ts": k, "dur": 1, "pid": k % 999, "tid": f"t{k}", "args": {"rid": f"{k}"}}
              for k in range(60_000 * size)]  # fmt: skip
    (path / "chrome_tracing.json").write_text(json.dumps([{"name": "httpReq", "ph": "I", "ts": 1, "pid": 1, "tid": "a",
                                                           "args": {"rid": "1"}}, *events]))  # fmt: skip
    return shown(path)


def scheduling(line: Callable[[int], str]) -> Written:
    """A recording of ftrace of lines of a kind."""

    def made(path: Path, size: int) -> list[list[str]]:
        text = "# tracer: nop\n" + "".join(line(k) for k in range(100_000 * size))
        (path / "trace.txt").write_text(text)
        return shown(path / "trace.txt")

    return made


def switch(task: int, cpu: int, at: float) -> str:
    """A line of ftrace in which a task gives its place to the next one."""
    before, after = f"prev_comm=t prev_pid={task} prev_prio=120 prev_state=S", f"next_comm=t next_pid={task + 1}"
    return f"  t-{task} [{cpu:03d}] d... {at:.6f}: sched_switch: {before} ==> {after} next_prio=120\n"


def alone(name: str, content: Callable[[int], bytes]) -> Written:
    """A large file."""

    def made(path: Path, size: int) -> list[list[str]]:
        (path / name).write_bytes(content(20 * MB * size))
        return shown(path / name)

    return made


_EVENTS = b"ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr\n"


def packed(path: Path, size: int) -> list[list[str]]:
    """One slice and blanks that a packer makes nothing of."""
    file = path / "trace_view.json.gz"
    with gzip.open(file, "wb", 1) as out:
        out.write(b"[" + json.dumps(PROFILE).encode() + b',{"ph":"X","name":"a","pid":1,"tid":1,"ts":"1000","dur":1}')
        for _ in range(300 * size):
            out.write(b" " * MB)
        out.write(b"]")
    return shown(file)


def summary(path: Path, size: int) -> list[list[str]]:
    """A summary of zeros."""
    for rank in (0, 1):
        write_summary(RankProfile(rank, Path(f"{rank}"), "json"), path / f"{rank}-a{SUFFIX}")
    file = path / f"0-a{SUFFIX}"
    file.write_bytes(zlib.compress(zlib.decompress(file.read_bytes()) + bytes(240 * size * MB)))
    return [["ranks", str(path), "--format", "json"]]


def pickled(name: str) -> Written:
    """A hostile pickle."""

    def made(path: Path, size: int) -> list[list[str]]:
        (path / "snapshot.pickle").write_bytes(pickles.large(20 * size)[name])
        return shown(path / "snapshot.pickle")

    return made


def run_of_a_log(content: Callable[[int], bytes]) -> Written:
    """A log with a run that is large."""

    def made(path: Path, size: int) -> list[list[str]]:
        (path / "2026-01-01T00-00-00-a-1.json").write_bytes(content(20 * MB * size))
        return [["log", "--log", str(path)]]

    return made


def of_job(name: str, content: Callable[[int], bytes]) -> Written:
    """What a cluster analysis leaves behind of two ranks, one file of which is large."""

    def made(path: Path, size: int) -> list[list[str]]:
        output = path / "cluster_analysis_output"
        output.mkdir()
        steps = "".join(f"1,rank,{rank},100.0,50.0,1.0,51.0,20.0,171.0,0.0,50.0\n" for rank in (0, 1))
        (output / "cluster_step_trace_time.csv").write_text(
            "Step,Type,Index,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble,"
            f"Communication(Not Overlapped and Exclude Receive)\n{steps}"
        )
        file = output / name
        file.write_bytes((file.read_bytes() if file.exists() else b"") + content(20 * MB * size))
        return [["ranks", str(path), "--format", "json"], ["screenshot", str(path), "-o", str(path / "a.svg")]]

    return made


def of_experts(name: str, content: Callable[[int], bytes]) -> Written:
    """Loads of experts and a placement, one of which is large."""

    def made(path: Path, size: int) -> list[list[str]]:
        (path / "decode_1.csv").write_text("1,2,3,4\n" * 8)
        (path / name).write_bytes(content(20 * MB * size))
        return [["ranks", str(path), "--format", "json"], ["report", str(path), "--format", "json"]]

    return made


def of_roles(content: Callable[[int], bytes]) -> Written:
    """A job of roles, whose profiles have large metadata."""

    def made(path: Path, size: int) -> list[list[str]]:
        begins = {"rollout": 0, "actor_update": 2 * ROLE_SECOND}
        of_role = [(role, rank, begin) for role, begin in begins.items() for rank in (0, 1)]
        work = [Work(1, role, rank, begin, begin + ROLE_SECOND, rank, 0, rank) for role, rank, begin in of_role]
        write_roles(path / "job", work)
        for profile in sorted((path / "job").rglob("*_ascend_pt"))[:2]:
            (profile / "profiler_metadata.json").write_bytes(content(10 * MB * size))
        return [["ranks", str(path / "job"), "--format", "json"]]

    return made


_CALL = '"%d":{"0":{"Communication Time Info":{"Start Timestamp(us)":1.5,"Elapse Time(ms)":1}}}'
FILES: dict[str, Written] = {
    **{f"shape {name}": shape(name) for name in SHAPES},
    "devices": lambda path, size: trace(path, [
        event for k in range(2_000 * size) for event in (
            PROFILE | {"pid": 100 + k},
            {"ph": "M", "name": "process_labels", "pid": 100 + k, "args": {"labels": f"NPU {k}"}},
            {"ph": "X", "name": "a", "pid": 100 + k, "tid": 1, "ts": str(1000 + k), "dur": 1})]),
    "lanes": lambda path, size: trace(path, slices(100_000 * size, tid=lambda k: k)),
    "a long name": lambda path, size: trace(path, slices(2, name="x" * 20 * MB * size)),
    "long names": lambda path, size: trace(path, slices(200, name=lambda k: f"{k}" + "x" * (MB // 10) * size)),
    "long arguments": lambda path, size: trace(path, slices(200, args={"a": "x" * (MB // 10) * size})),
    "equal ids": lambda path, size: trace(path, slices(50_000 * size, args={"connection_id": 1})),
    "a long call stack": lambda path, size: trace(path, slices(200, args={"Call stack": "a.py(1): f;\n" * 9_000})),
    "counters of many series": lambda path, size: trace(path, [PROFILE, *(
        {"ph": "C", "name": "c", "pid": 1, "ts": str(k), "args": {f"s{k * 20 + n}": 1 for n in range(20)}}
        for k in range(10_000 * size))]),
    "kernels without line ends": beside("kernel_details.csv", lambda size: b"a," * (size // 2)),
    "kernels of one cell": beside("kernel_details.csv", lambda size: b'"' + b"a" * size),
    "kernels of line ends": beside("kernel_details.csv", lambda size: b"Name,Type\n" + b"\n" * size),
    "kernels of many columns": beside("kernel_details.csv", lambda size: (b"a," * 100_000 + b"\n") * (size // 200_000)),
    "communication of brackets": beside("communication.json", lambda size: b"[" * size),
    "communication of keys": beside("communication.json", lambda size: b'{"step1":{"collective":{' + b",".join(
        b'"hcom_a__1_%d_1@1":{}' % k for k in range(size // 25)) + b"}}}"),
    **{f"communication of {name}": beside("communication.json", of_many('{"s":{"c":{' + before, unit, after + "}}}"))
       for name, before, unit, after in (
        ("times", "", '"%d":{"Communication Time Info":{"a":1}}', ""),
        ("transports", '"a":{"Communication Bandwidth Info":{', '"%d":{"Transit Size(MB)":1}', "}}"),
        ("packets", '"a":{"Communication Bandwidth Info":{"a":{"Size Distribution":{', '"%d":[1,1]', "}}}}"),
        ("words", '"a":{"a":[', '"\U0001f600%d"', "]}"))},
    "communication that is cut off": beside("communication.json", of_many(
        '{"s":{"c":{', '"%d":{"Communication Time Info":{"Start Timestamp(us)":1}}', "")),
    "a matrix": beside("communication_matrix.json", of_many(
        '{"s":{"c":{', '"a-%d@1":{"0-1":{"Transport Type":"HCCS","Transit Size(MB)":1.5,"Transit Time(ms)":0.5,'
        '"Bandwidth(GB/s)":3.0,"Op Name":"hcom_send__1_1_1"}}', "}}}")),
    "a matrix of pairs": beside("communication_matrix.json", of_many(
        '{"s":{"c":{"a@1":{', '"1-%d":{"Transport Type":"a","Op Name":"b"}', "}}}}")),
    "settings of keys": beside("../profiler_info_0.json", of_many("{", '"%d":1', "}")),
    "groups of ranks": beside("../profiler_metadata.json", of_many(
        '{"parallel_group_info":{"a":{"group_name":"tp","global_ranks":[', "1%d", "]}}}")),
    "an environment": beside("../profiler_metadata.json", of_many('{"ENV_VARIABLES":{', '"%d":"1"', "}}")),
    "operators of a step": beside("step_trace_time.csv", lambda size: b"Step,Computing\n" + b"1,1\n" * (size // 4)),
    "memory of names": beside("operator_memory.csv", lambda size: b"Name,Size(KB),Allocation Time(us)\n" + b"".join(
        b"n%d,1,%d.0\n" % (k, k) for k in range(size // 20))),
    "ids of a database": database(_MANY.format(50_000) + " INSERT INTO CONNECTION_IDS SELECT 1, x FROM c",
                                  "UPDATE PYTORCH_API SET connectionId = 1"),
    "texts of a database": database(
        _MANY.format(200) + " INSERT INTO STRING_IDS SELECT x + 9e6, hex(zeroblob(50000)) FROM c"),
    "a text of a database": database("UPDATE STRING_IDS SET value = hex(zeroblob(10000000)) WHERE rowid = 1"),
    "batches of a request": batches(lambda size: (f"'cmpl-000001', 'iter': {k}" for k in range(size // 90))),
    "nameless requests": batches(lambda size: ("{},{'iter': 0" * 20 for _ in range(size // 300))),
    "requests of a service": table("request.csv", b"1," * 500),
    "a cell of a service": table("batch.csv", b"[{'rid':1,'iter':1}]"),
    "rows of a service": table("batch.csv", b"prefill,1,2,3,", 20_000),
    "quotes of a service": table("kvcache.csv", b'"'),
    "spans of a service": spans_of_a_service,
    "database of a service": service_database,
    "threads of ftrace": scheduling(lambda k: switch(k, 0, 1 + k / 1e3)),
    "CPUs of ftrace": scheduling(lambda k: switch(7, k, 1 + k / 1e3)),
    "CPUs of nobody": scheduling(lambda k: switch(7, 10**9 + k, 1 + k / 1e3)),
    "times of ftrace": scheduling(lambda k: switch(k % 9, 0, k * 1e6)),
    "a line of ftrace": alone("trace.txt", lambda size: b"# tracer: nop\n" + switch(1, 0, 1).encode() + b"x" * size),
    "events without a line end": alone("memscope_dump.csv", lambda size: _EVENTS + b"1,MALLOC," * (size // 9)),
    "a packed trace": packed,
    "a summary of zeros": summary,
    "a run of brackets": run_of_a_log(lambda size: b"[" * size),
    "a run of text": run_of_a_log(lambda size: b'{"label":"' + b"x" * size + b'"}'),
    "a run of keys": run_of_a_log(of_many('{"setup":{', '"%d":"1"', "}}")),
    "runs of a log": lambda path, size: [[path.joinpath(f"{k}.json").write_bytes(b"[" * 60_000) for k in range(300)] and
                                         ["log", "--log", str(path)]],
    **{f"a cluster's {what}": of_job(name, content) for what, name, content in (
        ("steps", "cluster_step_trace_time.csv", lambda size: b"2,rank,%d,1,1,1,1,1,1,0,1\n" % 1 * (size // 24)),
        ("ranks", "cluster_step_trace_time.csv", lambda size: b"".join(
            b"1,rank,%d,1,1,1,1,1,1,0,1\n" % k for k in range(size // 30))),
        ("quotes", "cluster_step_trace_time.csv", lambda size: b'"' * size),
        ("brackets", "cluster_communication.json", lambda size: b"[" * size),
        ("collectives", "cluster_communication.json", of_many('{"collective":{"step1":{', _CALL, "}}}")),
        ("ranks of a collective", "cluster_communication.json", of_many('{"collective":{"step1":{"a@1":{',
            '"%d":{"Communication Time Info":{"Start Timestamp(us)":1.5,"Elapse Time(ms)":1}}', "}}}}")),
        ("words", "cluster_communication.json", of_many('{"collective":{"step1":{"a@1":[', '"\U0001f600%d"', "]}}}")),
        ("links", "cluster_communication_matrix.json", of_many('{"p2p":{"step1":{"hcom_send__1_0@1":{',
            '"0-%d":{"Transport Type":"HCCS","Transit Size(MB)":1,"Bandwidth(GB/s)":1}', "}}}}")),
        ("groups", "communication_group.json", of_many('{"comm_group_parallel_info":[',
            '{"pg_name":"tp","group_id":"%d","rank_set":[0,1]}', "]}")),
        ("group", "communication_group.json", of_many('{"comm_group_parallel_info":[{"pg_name":"tp","group_id":"1",'
            '"rank_set":[', "%d", "]}]}")))},
    **{f"experts of {what}": of_experts(name, content) for what, name, content in (
        ("cells", "decode_0.csv", lambda size: b"1," * (size // 2)),
        ("rows", "decode_0.csv", lambda size: b"1,2,3,4\n" * (size // 8)),
        ("line ends", "decode_0.csv", lambda size: b"\n" * size),
        ("wide text", "decode_0.csv", lambda size: "\U0001f600,".encode() * (size // 5)),
        ("brackets", "a_global_deployment.json", lambda size: b"[" * size),
        ("layers", "a_global_deployment.json", of_many('{"layer_list":[', '{"layer_id":%d,"device_list":[]}', "]}")),
        ("devices", "a_global_deployment.json", of_many('{"layer_list":[{"layer_id":0,"device_list":[',
            '{"device_id":%d,"device_expert":[0]}', "]}]}")),
        ("slots", "a_global_deployment.json", of_many('{"layer_list":[{"layer_id":0,"device_list":[{"device_id":0,'
            '"device_expert":[', "%d", "]}]}]}")),
        ("settings", "model_gen_config.json", of_many('{"num_moe_layers":', "[%d", "")))},
    **{f"roles of {what}": of_roles(content) for what, content in (
        ("brackets", lambda size: b"[" * size),
        ("keys", of_many('{"role":"actor",', '"%d":1', "}")),
        ("a name", lambda size: b'{"role":"' + b"x" * size + b'"}'),
        ("groups", of_many('{"parallel_group_info":{', '"%d":{"group_name":"tp","global_ranks":[0,1]}', "}}")))},
    **{f"pickle of {name}": pickled(name) for name in pickles.large(0) if name != "a real one"},
}  # fmt: skip


_RUN = """
import os, sys
from npu_tui.cli.main import main
code = main(sys.argv[1:])
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]
print(peak, sum(os.times()[:2]), file=sys.stderr)
sys.exit(code)
"""


def measured(words: list[str]) -> tuple[int, str, int, float]:
    """The exit code of a command, what it tells, the most memory and the seconds of processor it took."""
    command = [sys.executable, "-c", _RUN, *words]
    with tempfile.TemporaryFile() as told:
        running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=told, cwd=ROOT, env=ENVIRONMENT)
        timer = threading.Timer(4 * SECONDS, running.kill)
        timer.start()
        code = running.wait()
        timer.cancel()
        told.seek(0)
        *said, last = told.read().decode("utf-8", "replace").splitlines() or [""]
    peak, seconds = map(float, last.split()) if re.fullmatch(r"\d+ [0-9.]+", last) else (0.0, 0.0)
    return code, "\n".join(said), int(peak) << 10, seconds


def main() -> int:
    """The command; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description="Read hostile files and measure what they take.")
    parser.add_argument("names", nargs="*", default=[])
    parser.add_argument("--scale", type=int, default=1)
    options = parser.parse_args()
    wrong = runs = 0
    for name in options.names or FILES:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "alone" / "here"  # what else lies there may be shown beside
            place.mkdir(parents=True)
            commands = FILES[name](place, options.scale)
            size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
            for words in commands:
                code, told, peak, seconds = measured(words)
                bad = code not in (0, 3) or "Traceback" in told or peak > TIMES * size + MORE or seconds > SECONDS
                runs, wrong = runs + 1, wrong + bad
                cells = f"{name} | {words[0]} | {size / MB:.1f} MB | exit {code} | {peak / MB:.0f} MB | {seconds:.1f} s"
                print(f"{'WRONG ' if bad else ''}{cells} | {told.strip()[:110]}", flush=True)
    print(f"{runs} runs, {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
