"""A job of many ranks from the files beside their traces: ``python tests/benchmarks/many_ranks.py [--ranks 1000]``.

Writes what the profiler writes beside a trace (communication.json, communication_matrix.json, step_trace_time.csv,
settings; about 50 kB a rank) for a job with one slow rank, and times ``npu-tui ranks``, ``summarize``, ``ranks`` on
the summaries and ``compare`` of them with themselves, each in a process of its own, with peak memory and the ratios to
the budgets (2 s and 1 GB for 1000 ranks, 20 s for 10 000); then the processor time of every stage.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

EPOCH = 1_760_000_000_000_000
"""us since 1970 at which the job starts."""

T = TypeVar("T")

BUDGETS = {1_000: (2.0, 1e9), 10_000: (20.0, None)}


def write_job(folder: Path, world: int, steps: int, calls: int, slow: int) -> None:
    """A data parallel job in groups of 8 ranks and one of all, whose rank ``slow`` works 20 % longer."""
    draw = random.Random(1)
    left = [0.0] * world
    rows: list[dict[str, dict[str, dict[str, object]]]] = [{} for _ in range(world)]
    empty = {name: {"Transit Size(MB)": 0, "Transit Time(ms)": 0, "Bandwidth(GB/s)": 0, "Large Packet Ratio": 0,
                    "Size Distribution": {}} for name in ("RDMA", "HCCS", "PCIE", "SDMA", "SIO")}  # fmt: skip
    for step in range(steps):
        for number in range(calls):
            everybody = number == calls - 1
            for first in range(0, world, world if everybody else 8):
                members = range(first, world if everybody else min(first + 8, world))
                work = {rank: 5_000 * (1.2 if rank == slow else 1 + draw.random() / 100) for rank in members}
                starts = {rank: left[rank] + work[rank] for rank in members}
                end = max(starts.values()) + 400
                group = "99" if everybody else str(1000 + first)
                name = f"hcom_allReduce__{group[-3:]:0>3}_{step * calls + number}_1@{group}"
                for rank in members:
                    times = {"Start Timestamp(us)": EPOCH + starts[rank], "Elapse Time(ms)": (end - starts[rank]) / 1e3,
                             "Transit Time(ms)": 0.4, "Wait Time(ms)": 0, "Synchronization Time(ms)": 0,
                             "Idle Time(ms)": 0, "Wait Time Ratio": 0, "Synchronization Time Ratio": 0}  # fmt: skip
                    body = {"Communication Time Info": times, "Communication Bandwidth Info": empty}
                    rows[rank].setdefault(f"step{step}", {"p2p": {}, "collective": {}})["collective"][name] = body
                    left[rank] = end
    for rank in range(world):
        profile = folder / f"rank_{rank}_ascend_pt"
        output = profile / "ASCEND_PROFILER_OUTPUT"
        output.mkdir(parents=True)
        (output / "communication.json").write_text(json.dumps(rows[rank]))
        first = rank // 8 * 8
        links = {f"{rank % 8}-{other}": {"Transport Type": "HCCS", "Transit Size(MB)": 8.0, "Transit Time(ms)": 0.45,
                                        "Bandwidth(GB/s)": 18 + draw.random(), "Op Name": "hcom_allReduce__000_0_1"}
                 for other in range(8) if other != rank % 8}  # fmt: skip
        matrix = {"step0": {"p2p": {}, "collective": {f"allreduce-top1@{1000 + first}": links}}}
        (output / "communication_matrix.json").write_text(json.dumps(matrix))
        total = left[rank] / steps
        lines = ["Device_id,Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free"]
        parts = f"{total * 0.6:.3f},{total * 0.3:.3f},0,{total * 0.3:.3f},{total * 0.1:.3f}"
        lines += [f"{rank},{step},{parts}" for step in range(steps)]
        (output / "step_trace_time.csv").write_text("\n".join(lines) + "\n")
        boot = 1_700_000_000_000_000_000 + rank // 8 * 1_000_000_000
        info = {"config": {"experimental_config": {"_profiler_level": "Level1"}}, "rank_id": str(rank),
                "start_info": {"freq": 100, "start_cnt": 1_000_000, "start_monotonic": 0},
                "end_info": {"collectionTimeEnd": boot + 5, "MonotonicTimeEnd": 5}}  # fmt: skip
        (profile / f"profiler_info_{rank}.json").write_text(json.dumps(info))
        args = {"tensor_model_parallel_size": 1, "pipeline_model_parallel_size": 1, "data_parallel_size": world,
                "world_size": world}  # fmt: skip
        groups = {"group_name_0": {"group_name": "default_group", "group_rank": rank, "global_ranks": [*range(world)]},
                  "group_name_1": {"group_name": "dp", "group_rank": rank, "global_ranks": [*range(world)]},
                  "group_name_2": {"group_name": "ep", "group_rank": rank % 8,
                                   "global_ranks": [*range(first, min(first + 8, world))]}}  # fmt: skip
        metadata = {"distributed_args": args, "parallel_group_info": groups}
        (profile / "profiler_metadata.json").write_text(json.dumps(metadata))


def stages(folder: Path) -> dict[str, float]:
    """The seconds of processor time that each stage takes in this process."""
    from npu_tui.jobs.findings import job_findings
    from npu_tui.jobs.opening import job_of, read_rank
    from npu_tui.load.find import find_sources
    from npu_tui.output.job_document import job_document
    from npu_tui.output.job_report import job_report
    from npu_tui.output.text import text

    found: dict[str, float] = {}

    def timed(name: str, work: Callable[[], T]) -> T:
        begun = time.process_time()
        result = work()
        found[name] = time.process_time() - begun
        return result

    sources = timed("find", lambda: find_sources(folder))
    job = timed("read", lambda: job_of(folder, [read_rank(source, False, True) for source in sources]))
    timed("pair", lambda: job.meetings)
    timed("clocks", lambda: job.clocks)
    timed("blame", lambda: job.blamed)
    timed("replay", lambda: job.sums)
    timed("links", lambda: job.links)
    timed("findings", lambda: job_findings(job))
    timed("report", lambda: text(job_document(job_report(job))))
    return found


def timed_run(words: list[str]) -> tuple[float, float, float, str]:
    """Wall and processor seconds, peak bytes and output of ``npu-tui`` with ``words`` in a process of its own."""
    command = [shutil.which("npu-tui", path=os.path.dirname(sys.executable)) or "npu-tui", *words]
    begun = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(process.returncode)
    return time.perf_counter() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, output


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1_000])
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--calls", type=int, default=6)
    options = parser.parse_args()
    print("| ranks | command | files | time | of budget | processor | peak memory | of budget | says |")
    print("|---|---|---|---|---|---|---|---|---|")
    parts: dict[int, dict[str, float]] = {}
    for world in options.ranks:
        with tempfile.TemporaryDirectory() as name:
            folder, summaries = Path(name) / "job", Path(name) / "summaries"
            write_job(folder, world, options.steps, options.calls, slow=world // 2)
            commands = (["ranks", folder], ["summarize", folder, "-o", summaries], ["ranks", summaries],
                        ["compare", summaries, summaries])  # fmt: skip
            for command in commands:
                seconds, processor, memory, output = timed_run([str(word) for word in command])
                read = Path(command[1])
                size = sum(file.stat().st_size for file in read.rglob("*") if file.is_file())
                wall, most = BUDGETS.get(world, (None, None)) if command[0] != "summarize" else (None, None)
                of_wall, of_memory = f"{seconds / wall:.2f}" if wall else "", f"{memory / most:.2f}" if most else ""
                said = output.splitlines()[2 if command[0] == "ranks" else 0].replace(name, "")
                taken = f"{seconds:.2f} s | {of_wall} | {processor:.2f} s | {memory / 1e6:.0f} MB | {of_memory}"
                what = f"{command[0]} {read.name}"
                print(f"| {world:,} | {what} | {size / 1e6:.0f} MB | {taken} | {said} |", flush=True)
            parts[world] = stages(folder)
    print(f"\n| ranks | {' | '.join(next(iter(parts.values())))} |")
    print(f"|---|{'---|' * len(next(iter(parts.values())))}")
    for world, found in parts.items():
        print(f"| {world:,} | {' | '.join(f'{seconds:.2f} s' for seconds in found.values())} |")


if __name__ == "__main__":
    main()
