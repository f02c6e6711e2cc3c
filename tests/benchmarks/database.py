"""Loading a large database against loading the text of the same run, in time per slice.

    python tests/benchmarks/database.py TEXT_PROFILE [--megabytes 1000]

multiplies the run in TEXT_PROFILE until its database is that large, and its trace_view.json as often, but no longer
than that either; prints wall time, CPU time and peak memory of both, best of the rounds, and the ratio per slice.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "load" / "database")]

from export import export  # noqa: E402 - its folder is no package

SHIFTS = {
    "TASK": ("startNs", "endNs"),
    "COMMUNICATION_OP": ("startNs", "endNs"),
    "CANN_API": ("startNs", "endNs"),
    "PYTORCH_API": ("startNs", "endNs"),
    "STEP_TIME": ("startNs", "endNs"),
    "NPU_MEM": ("timestampNs",),
    "HBM": ("timestampNs",),
    "LLC": ("timestampNs",),
    "ACC_PMU": ("timestampNs",),
    "SOC_BANDWIDTH_LEVEL": ("timestampNs",),
    "QOS": ("timestampNs",),
    "MEMORY_RECORD": ("timestamp",),
    "OP_MEMORY": ("allocationTime", "releaseTime", "activeReleaseTime"),
    "NPU_MODULE_MEM": ("timestampNs",),
    "COMPUTE_TASK_INFO": (),
    "COMMUNICATION_TASK_INFO": (),
    "TASK_PMU_INFO": (),
    "CONNECTION_IDS": (),
    "PYTORCH_CALLCHAINS": (),
}
"""Tables that are multiplied, and their columns of times."""

IDS = {
    "TASK": {"globalTaskId": "task", "connectionId": "connection"},
    "COMPUTE_TASK_INFO": {"globalTaskId": "task"},
    "COMMUNICATION_TASK_INFO": {"globalTaskId": "task", "opId": "op"},
    "TASK_PMU_INFO": {"globalTaskId": "task"},
    "COMMUNICATION_OP": {"opId": "op", "connectionId": "connection"},
    "CANN_API": {"connectionId": "connection"},
    "PYTORCH_API": {"connectionId": "link", "callchainId": "chain"},
    "CONNECTION_IDS": {"id": "link", "connectionId": "connection"},
    "PYTORCH_CALLCHAINS": {"id": "chain"},
}
"""Columns of numbers that each copy has its own of; numbers of one kind are moved alike."""

STRIDE = 1 << 26


def multiplied(database: Path, megabytes: int) -> int:
    """Repeat the run in ``database``, one after the other, until it is that large; returns how often it is there."""
    with sqlite3.connect(database) as connection:
        span = connection.execute("SELECT max(endNs) - min(startNs) FROM TASK").fetchone()[0] * 3
        for name in SHIFTS:
            connection.execute(f"CREATE TABLE copy_{name} AS SELECT * FROM {name}")
        connection.execute("DROP INDEX IF EXISTS TaskIndex")
        connection.execute("DROP INDEX IF EXISTS CommunicationTaskIndex")
        times = 1
        while database.stat().st_size < megabytes << 20:
            for _ in range(8):
                for name, shifted in SHIFTS.items():
                    cells = []
                    for (column,) in connection.execute(f"SELECT name FROM pragma_table_info('{name}')").fetchall():
                        cell = column
                        if column in shifted:
                            cell = f"{column} + {span * times}"
                            cell = f"CAST({cell} AS TEXT)" if name == "PYTORCH_API" else cell
                        elif column in IDS.get(name, {}):
                            cell = f"{column} + {STRIDE * times}"
                        cells.append(cell)
                    connection.execute(f"INSERT INTO {name} SELECT {', '.join(cells)} FROM copy_{name}")
                times += 1
            connection.commit()
        for name in SHIFTS:
            connection.execute(f"DROP TABLE copy_{name}")
    connection.close()
    return times


def text_of(profile: Path, out: Path, times: int, megabytes: int) -> None:
    """The events of ``profile`` repeated ``times`` times as one trace_view.json, or as often as it holds."""
    events = json.loads((profile / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_bytes())
    starts = [int(event["ts"].replace(".", "")) for event in events if event["ph"] == "X"]
    span = (max(starts) - min(starts)) * 3
    with out.open("w") as file:
        file.write("[")
        for number in range(times):
            if file.tell() >= megabytes << 20:
                break
            lines = []
            for event in events:
                if event["ph"] == "M":
                    if not number:
                        lines.append(json.dumps(event))
                    continue
                copy = dict(event)
                whole, _, fraction = event["ts"].partition(".")
                time_ns = int(whole) * 1000 + int((fraction + "000")[:3]) + span * number
                copy["ts"] = f"{time_ns // 1000}.{time_ns % 1000:03}"
                if "id" in event:
                    copy["id"] = f"{event['id']}{number:06}"
                args = event.get("args")
                if args and "connection_id" in args:
                    copy["args"] = {**args, "connection_id": args["connection_id"] + STRIDE * number}
                lines.append(json.dumps(copy))
            file.write(("," if number else "") + ",".join(lines))
        file.write("]")


def measured(path: Path) -> dict[str, float]:
    """Load ``path`` in a process of its own."""
    words = [sys.executable, __file__, "--load", str(path)]
    answer = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    found: dict[str, float] = json.loads(answer.splitlines()[-1])
    return found


def load_and_tell(path: Path) -> None:
    """Load ``path`` and print what it took as JSON."""
    from npu_tui.load.load import load

    path.read_bytes()  # into the page cache
    wall, cpu = time.perf_counter(), sum(os.times()[:4])
    trace = load(path)
    wall, cpu = time.perf_counter() - wall, sum(os.times()[:4]) - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"wall": wall, "cpu": cpu, "slices": len(trace.slices), "links": len(trace.links), "mb": peak}))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("profile", type=Path, nargs="?")
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--load", type=Path)
    parser.add_argument("--keep", type=Path, help="where the large files are kept and found again")
    options = parser.parse_args()
    if options.load:
        load_and_tell(options.load)
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        database, text = folder / "ascend_pytorch_profiler_0.db", folder / "trace_view.json"
        if not database.exists():
            export(options.profile, database)
            times = multiplied(database, options.megabytes)
            text_of(options.profile, text, times, options.megabytes)
        best: dict[str, dict[str, float]] = {}
        for _ in range(options.rounds):
            for path in (database, text):
                found = measured(path)
                if path.name not in best or found["wall"] < best[path.name]["wall"]:
                    best[path.name] = found
        for path in (database, text):
            found = best[path.name]
            words = [f"{path.name:30} {path.stat().st_size >> 20:6} MB  {found['slices']:12,.0f} slices"]
            for key in ("wall", "cpu"):
                words.append(f"{key} {found[key]:6.2f} s {found[key] / found['slices'] * 1e6:6.3f} µs/slice")
            print("  ".join([*words, f"peak {found['mb']:6.0f} MB"]))
        walls = [best[path.name]["wall"] / best[path.name]["slices"] for path in (database, text)]
        cpus = [best[path.name]["cpu"] / best[path.name]["slices"] for path in (database, text)]
        print(f"database / text per slice: wall {walls[0] / walls[1]:.2f}, cpu {cpus[0] / cpus[1]:.2f}")


if __name__ == "__main__":
    main()
