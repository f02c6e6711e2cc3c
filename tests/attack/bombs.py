"""Files that mean far more than they hold: how much memory and time each takes, beside what lies on the disk.

    python tests/attack/bombs.py [--megabytes 30] [NAME ...]

Four of each format. A file may take three times its bytes, and as much as a small one of its format takes anyway.
Where its rows are shorter than any writer's, 512 bytes a row count instead: 64 numbers of what is read and sorted.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import pickle
import resource
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "fixtures"), str(ROOT / "tests/load/database"), str(ROOT / "tests/load")]

from small import small_database  # noqa: E402 - its folder is no package
from test_memscope import HEADER, row  # noqa: E402

TIMES, HOLE = 3, 1 << 40
FLOOR = 48 << 20
"""Bytes that libraries lay out when they first read anything of some size, whatever it is."""
SECONDS = 60.0
_WAITS = 10
A_ROW, A_NAME = 512, 32
"""Bytes that a row may take however short it is, and a name in a list."""

Make = Callable[[Path, int], Path]
"""Writes a bomb of about so many bytes into a folder; returns what is opened."""


class Bomb(NamedTuple):
    format: str
    name: str
    make: Make
    command: str = "report"
    times: float = TIMES
    """How many bytes may be taken for each on the disk."""


def _text(text: str) -> bytes:
    data = text.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def _file(name: str, data: Callable[[int], bytes], hole: bool = False) -> Make:
    def make(folder: Path, size: int) -> Path:
        path = folder / name
        path.write_bytes(data(size))
        if hole:
            os.truncate(path, HOLE)
        return path

    return make


def _repeated(head: str, line: Callable[[int], str], tail: str = "") -> Callable[[int], bytes]:
    def data(size: int) -> bytes:
        lines = [line(number) for number in range(min(10_000, size // len(line(0))))]
        block = "".join(lines)
        return (head + block * max(size // len(block), 1) + tail).encode()

    return data


# --- Memory snapshots ---


def _shared_history(size: int) -> bytes:
    keys = {f"key{number}": number for number in range(size // 40)}
    block = {"size": 1, "state": "active_allocated", "history": [{"addr": 1, "real_size": 1, "frames": []}], **keys}
    segment = {"device": 0, "address": 1, "total_size": 1 << 40, "stream": 0, "blocks": [block] * (size // 20)}
    return pickle.dumps({"segments": [segment], "device_traces": [[]]}, 4)


def _long_ids(size: int) -> bytes:
    pool = tuple(range(1 << 20, (1 << 20) + size // 10))
    event = {"action": "alloc", "addr": 1, "size": 1, "stream": 0, "frames": [], "pool_id": pool}
    events = [dict(event, addr=number) for number in range(size // 40)]
    segments = [{"device": 0, "address": n << 21, "total_size": 1 << 20, "segment_pool_id": pool, "blocks": []}
                for n in range(size // 80)]  # fmt: skip
    return pickle.dumps({"segments": segments, "device_traces": [events]}, 4)


def _stacks(size: int) -> bytes:
    frames = [{"name": "f" * 2000, "filename": "g" * 2000, "line": number} for number in range(400)]
    events = [{"action": "alloc", "addr": n, "size": 1, "stream": 0, "frames": frames[n % 400 :] + frames[: n % 400]}
              for n in range(size // 900)]  # fmt: skip
    return pickle.dumps({"segments": [], "device_traces": [events]}, 4)


# --- Recordings ---

SWITCH = "a-{task} [000] d..2. {time}: sched_switch: prev_comm=a prev_pid={task} prev_prio=1 prev_state=S ==> "
SWITCH += "next_comm=b next_pid={other} next_prio=1\n"


def _switches(number: int) -> str:
    time = f"{number // 1000}.{number % 1000:03d}"
    return SWITCH.format(task=number + 1, other=number + 2, time=time)


# --- MemScope ---


def _memscope(stack: Callable[[int], tuple[str, str]]) -> Callable[[int], bytes]:
    def line(number: int) -> str:
        cells = row(number + 1, "MALLOC", 0x1000 * (number + 1), 512, stack=stack(number))
        return ",".join(f'"{cell}"' for cell in cells) + "\n"

    return _repeated(",".join(HEADER) + "\n", line)


def _distinct_rows(size: int) -> bytes:
    lines = [f"{n},MALLOC,PTA,N/A,{n + 1},7,8,0,{n + 1},{{size:1}},," for n in range(size // 36)]
    return "\n".join([",".join(HEADER), *lines, ""]).encode()


def _memscope_database(cell: Callable[[int], str], rows: Callable[[int], int]) -> Make:
    def make(folder: Path, size: int) -> Path:
        path = folder / "memscope_dump_1.db"
        names, marks = ", ".join(f'"{name}" TEXT' for name in HEADER), ", ".join("?" * len(HEADER))
        with sqlite3.connect(path) as base:
            base.execute(f"CREATE TABLE memscope_dump ({names})")
            made = (row(n + 1, "MALLOC", n + 1, 1, stack=(cell(n), "")) for n in range(rows(size)))
            base.executemany(f"INSERT INTO memscope_dump VALUES ({marks})", made)
        base.close()
        return path

    return make


# --- Databases of a profiler ---


def _database(*statements: str, hole: bool = False) -> Make:
    def make(folder: Path, size: int) -> Path:
        path = small_database(folder / "ascend_pytorch_profiler_0.db")
        with sqlite3.connect(path) as base:
            for statement in statements:
                base.execute(statement.format(count=size // 40, size=size))
        base.close()
        if hole:
            os.truncate(path, HOLE)
        return path

    return make


_COUNT = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < {count}) "


# --- Group lists ---


def _group_lists(content: Callable[[Path, int], None]) -> Make:
    def make(folder: Path, size: int) -> Path:
        for rank in range(4):
            place = folder / f"step_1/actor/rank{rank}/dump_tensor_data"
            place.mkdir(parents=True)
            content(place / "NPU.npu_grouped_matmul.0.forward.kwargs.group_list.pt", size // 4)
        return folder

    return make


def _many_members(path: Path, size: int) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(size // 110):
            archive.writestr(f"a/{number}", b"")


def _packed(kind: int) -> Callable[[Path, int], None]:
    def write(path: Path, size: int) -> None:
        with zipfile.ZipFile(path, "w", kind) as archive:
            archive.writestr("a/data.pkl", b"\0" * (size * 30))
            archive.writestr("a/data/0", b"\0" * (size * 30))

    return write


def _sparse_list(path: Path, size: int) -> None:
    path.write_bytes(b"PK\x03\x04")
    os.truncate(path, HOLE)


# --- Services ---


def _service(name: str, data: Callable[[int], bytes], hole: bool = False) -> Make:
    def make(folder: Path, size: int) -> Path:
        (folder / "request.csv").write_text("http_rid,start_time(ms)\na,1763600000500.0\n")
        _file(name, data, hole)(folder, size)
        return folder

    return make


_BATCH = "name,start_time(ms),end_time(ms),res_list\n"


def _lists(size: int) -> bytes:
    return (_BATCH + 'modelExec,1763600000500.0,1763600000501.0,"[' + "7," * (size // 2) + '7]"\n').encode()


def _many_lists(number: int) -> str:
    return f'modelExec,17636{number:08d}.0,17636{number:08d}.5,"[' + "7," * 400 + '7]"\n'


def _service_rows(folder: Path, size: int) -> Path:
    (folder / "request.csv").write_text("http_rid,start_time(ms)\na,1763600000500.0\n")
    with sqlite3.connect(folder / "profiler.db") as base:
        base.execute("CREATE TABLE batch (name, start_time, end_time, res_list)")
        rows = (("m", 1763600000500 + n, 1763600000501 + n, "[]") for n in range(size // 24))
        base.executemany("INSERT INTO batch VALUES (?, ?, ?, ?)", rows)
    base.close()
    return folder


# --- Files beside a profile ---


def _beside(name: str, data: Callable[[int], bytes], hole: bool = False) -> Make:
    def make(folder: Path, size: int) -> Path:
        output = folder / "ASCEND_PROFILER_OUTPUT"
        output.mkdir()
        trace = next((ROOT / "fixtures/healthy").rglob("trace_view.json"))
        (output / "trace_view.json").write_bytes(trace.read_bytes())
        _file(name, data, hole)(output, size)
        return folder

    return make


_KERNELS = "Step Id,Device_id,Name,Accelerator Core,Start Time(us),Duration(us)\n"


# --- Traces ---

_EVENT = '{{"ph":"X","pid":1,"tid":{tid},"ts":{ts},"dur":1,"name":"{name}"}},'


def _events(number: int) -> str:
    return _EVENT.format(tid=1, ts=number, name="a")


def _names(size: int) -> bytes:
    return ("[" + "".join(_EVENT.format(tid=1, ts=n, name=f"n{n}") for n in range(size // 60)) + "{}]").encode()


def _lanes(size: int) -> bytes:
    return ("[" + "".join(_EVENT.format(tid=n, ts=n, name="a") for n in range(size // 60)) + "{}]").encode()


def _gzip(size: int) -> bytes:
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb") as stream:
        stream.write(b"[")
        for _ in range(200):
            stream.write(b" " * size)
    return packed.getvalue()


BOMBS = [
    Bomb("snapshot", "block with a history shared", _file("s.pickle", _shared_history)),
    Bomb("snapshot", "long ids of pools shared", _file("s.pickle", _long_ids)),
    Bomb("snapshot", "stacks of the same frames", _file("s.pickle", _stacks)),
    Bomb("snapshot", "hole of 1 TB", _file("s.pickle", lambda size: b"\x80\x04}", True)),
    Bomb("recording", "short lines", _file("trace.txt", _repeated("# tracer: nop\n", _switches))),
    Bomb("recording", "empty lines", _file("trace.txt", lambda size: b"# tracer: nop\n" + b"\n" * size)),
    Bomb("recording", "one line", _file("trace.txt", lambda size: b"# tracer: nop\na-1 [000] 1.0: x:" + b"a" * size)),
    Bomb("recording", "hole of 1 TB", _file("trace.txt", _repeated("# tracer: nop\n", _switches), True)),
    Bomb("MemScope CSV", "short rows", _file("memscope_dump_1.csv", _distinct_rows), times=A_ROW / 36),
    Bomb("MemScope CSV", "stacks of one letter", _file("memscope_dump_1.csv", _memscope(lambda n: (f"a({n}): f", "")))),
    Bomb("MemScope CSV", "one wide stack", _file("memscope_dump_1.csv", lambda size: _memscope(
        lambda n: ("é(1): f\n" * 100, ""))(size))),
    Bomb("MemScope CSV", "hole of 1 TB", _file("memscope_dump_1.csv", _memscope(lambda n: ("", "")), True)),
    Bomb("MemScope database", "short rows", _memscope_database(lambda n: "", lambda size: size // 120),
         times=A_ROW / 128),
    Bomb("MemScope database", "stacks", _memscope_database(lambda n: f"a({n}): f\n" * 40, lambda size: size // 500)),
    Bomb("MemScope database", "a cell of zeros", _memscope_database(
        lambda n: "\0" * (8 << 20) if n < 4 else "", lambda size: 1000)),
    Bomb("MemScope database", "one long line", _memscope_database(
        lambda n: "a" * (8 << 20) if n < 4 else "", lambda size: 1000)),
    Bomb("database", "short tasks", _database(
        _COUNT + "INSERT INTO TASK SELECT x, x + 1, 0, 0, 0, 0, 0, 0, 0, 0, 0 FROM c"),
         times=A_ROW / 40),
    Bomb("database", "names of zeros", _database("INSERT INTO STRING_IDS VALUES (1000000, zeroblob({size}))")),
    Bomb("database", "endless view", _database(
        "CREATE VIEW api AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c")),
    Bomb("database", "hole of 1 TB", _database(hole=True)),
    Bomb("group lists", "very many members", _group_lists(_many_members), "ranks"),
    Bomb("group lists", "deflated", _group_lists(_packed(zipfile.ZIP_DEFLATED)), "ranks"),
    Bomb("group lists", "LZMA", _group_lists(_packed(zipfile.ZIP_LZMA)), "ranks"),
    Bomb("group lists", "hole of 1 TB", _group_lists(_sparse_list), "ranks"),
    Bomb("service", "one list of requests", _service("batch.csv", _lists)),
    Bomb("service", "lists of short ids", _service("batch.csv", _repeated(_BATCH, _many_lists)), times=A_NAME / 2),
    Bomb("service", "short rows of a database", _service_rows, times=A_ROW / 26),
    Bomb("service", "hole of 1 TB", _service("batch.csv", _repeated(_BATCH, _many_lists), True), times=A_NAME / 2),
    Bomb("tables", "short rows", _beside(
        "kernel_details.csv", _repeated(_KERNELS, lambda n: f"1,0,a,AI_CORE,{n},1\n")),
         times=A_ROW / 22),
    Bomb("tables", "commas", _beside("kernel_details.csv", lambda size: (_KERNELS + "," * size + "\n").encode())),
    Bomb("tables", "a quote that never ends", _beside(
        "kernel_details.csv", lambda size: (_KERNELS + '1,0,"' + "a\n" * (size // 2)).encode())),
    Bomb("tables", "hole of 1 TB", _beside("kernel_details.csv", lambda size: _KERNELS.encode(), True)),
    Bomb("documents", "empty objects", _beside(
        "communication.json", lambda size: b'{"step1":[' + b"{}," * (size // 3))),
    Bomb("documents", "short members", _beside("communication.json", lambda size: b'{"step1":{' + b",".join(
        b'"%d":1' % n for n in range(size // 10)) + b"}}")),
    Bomb("documents", "deep", _beside("communication.json", lambda size: b"[" * size)),
    Bomb("documents", "hole of 1 TB", _beside("communication_matrix.json", lambda size: b'{"step1":{', True)),
    Bomb("trace", "names of their own", _file("trace_view.json", _names), times=A_ROW / 63),
    Bomb("trace", "lanes of their own", _file("trace_view.json", _lanes), times=A_ROW / 60),
    Bomb("trace", "blanks in a gzip", _file("trace_view.json.gz", _gzip)),
    Bomb("trace", "hole of 1 TB", _file("trace_view.json", _repeated("[", _events), True)),
]  # fmt: skip


class Outcome(NamedTuple):
    """What became of a command: its exit code, the most memory in bytes, seconds of processor, and its last words."""

    code: int
    memory: int
    seconds: float
    words: str


def outcome(command: str, path: Path, seconds: float = SECONDS) -> Outcome:
    """Run a command on ``path`` in a process of its own."""
    run = [sys.executable, "-c", "import sys; from npu_tui.cli.main import main; sys.exit(main(sys.argv[1:]))"]

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 1))

    environment = {**os.environ, "NPU_TUI_CACHE_MB": "0", "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(
            [*run, command, str(path)],
            stdout=out,
            stderr=out,
            stdin=subprocess.DEVNULL,
            env=environment,
            preexec_fn=limit,
        )
        until = time.monotonic() + _WAITS * seconds  # others may need the processor too
        while (found := os.wait4(process.pid, os.WNOHANG))[0] == 0:
            if time.monotonic() > until:
                process.kill()
            time.sleep(0.02)
        process.returncode = os.waitstatus_to_exitcode(found[1])
        out.seek(max(out.seek(0, 2) - 150, 0))
        words = out.read().decode(errors="replace").strip().replace("\n", " ")
    return Outcome(process.returncode, found[2].ru_maxrss << 10, found[2].ru_utime + found[2].ru_stime, words)


def on_disk(path: Path) -> int:
    """The bytes that lie on the disk below ``path``."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(min(file.stat().st_size, file.stat().st_blocks * 512) for file in files)


def tried(bomb: Bomb, size: int) -> tuple[Outcome, Outcome, int]:
    """What a small one and a large one take, and how many bytes of the large one lie on the disk."""
    with tempfile.TemporaryDirectory() as small, tempfile.TemporaryDirectory() as large:
        least = outcome(bomb.command, bomb.make(Path(small), 20_000))
        path = bomb.make(Path(large), size)
        return least, outcome(bomb.command, path), on_disk(path)


def is_held(bomb: Bomb, least: Outcome, most: Outcome, size: int) -> bool:
    """Whether memory and time of a bomb of ``size`` bytes are within bounds, and it is answered or refused."""
    room = bomb.times * size + FLOOR
    return most.code in (0, 2, 3) and most.memory - least.memory <= room and most.seconds < SECONDS


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=30)
    parser.add_argument("names", nargs="*", help="formats or names")
    options = parser.parse_args()
    fell = 0
    print("| format | bomb | MB on disk | exit | MB more than a small one | times | allowed | CPU s | |")
    print("|---" * 9 + "|")
    for bomb in BOMBS:
        if options.names and not {bomb.format, bomb.name} & set(options.names):
            continue
        least, most, size = tried(bomb, options.megabytes << 20)
        held = is_held(bomb, least, most, size)
        fell += not held
        more = most.memory - least.memory
        cells = [bomb.format, bomb.name, f"{size / 1e6:.1f}", f"{most.code}", f"{more / 1e6:.0f}"]
        cells += [
            f"{more / max(size, 1):.1f}",
            f"{bomb.times:.1f}",
            f"{most.seconds:.1f}",
            "" if held else f"FELL {most.words[-80:]}",
        ]
        print(f"| {' | '.join(cells)} |", flush=True)
    print(json.dumps({"bombs": len(BOMBS), "fell": fell}))
    return int(fell > 0)


if __name__ == "__main__":
    sys.exit(main())
