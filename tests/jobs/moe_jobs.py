"""Jobs with experts (MoE) whose truth is known: ``python tests/jobs/moe_jobs.py [--seeds 20]``.

Every rank is written as a profile (trace_view.json, with or without kernel_details.csv) and read again. Prints, for
every situation, how often the cause is named first, and how far its gain is from a second simulation in which all
ranks of a group compute as long for their experts as their mean.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from npu_tui.jobs.findings import job_findings
from npu_tui.jobs.job import Job
from npu_tui.jobs.opening import open_job
from npu_tui.rules.model import Finding

F64 = npt.NDArray[np.float64]
EPOCH_US = 1_760_000_000_000_000
ATTENTION, EXPERTS, TRANSFER, HEAD = 900_000.0, 700_000.0, 60_000.0, 400_000.0
"""ns of a layer: attention, products of experts, an exchange; and of what ends a pass."""
PYTHON, CANN, HARDWARE, COMMUNICATION = 1_000, 2_000, 3_000, 4_000
HIDDEN, WIDE = 2_048, 1_408


EXCHANGES = {
    "alltoallv": ("alltoallv", "alltoallv"),
    "mc2": ("MoeDistributeDispatchV2", "MoeDistributeCombineV2"),
    "allGather": ("allGather", "reduceScatter"),
}
LAYERS = {PYTHON: "Python", CANN: "CANN", HARDWARE: "Ascend Hardware", COMMUNICATION: "Communication"}
LANES = {
    (PYTHON, 1): "Thread 1", (PYTHON, 2): "Thread 2", (HARDWARE, 2): "Stream 2",
    (COMMUNICATION, 0): "Group 0 Communication", (COMMUNICATION, 1): "Group 1 Communication",
}  # fmt: skip


@dataclass
class Shape:
    """How the job is divided and recorded."""

    world: int = 8
    group: int = 8
    layers: int = 6
    steps: int = 4
    trains: bool = True
    exchange: str = "alltoallv"
    """``alltoallv``, ``mc2`` or ``allGather`` (and reduceScatter)."""
    shapes: bool = True
    passes: int = 1
    padded: bool = False
    """Whether products have the shape of a buffer, whatever is in it."""
    activation: float = 0.0
    """Time of the kernels between the products, as a share of these."""
    marked: bool = True
    """Whether steps are marked."""
    traced: bool = True
    """Whether there is a trace; without one kernel_details.csv and communication.json tell all."""
    reduces: bool = False
    """Whether gradients are reduced while experts compute."""
    differ: float = 0.005
    """Standard deviation of the times of equal products, as a share of them."""


@dataclass
class Load:
    """What every rank works, ns: (steps, blocks, world) of experts, attention before the dispatch, idle host time
    before the dispatch and between products and combine; ``pace`` multiplies all kernels of a rank."""

    experts: F64
    attention: F64
    late: F64
    gap: F64
    pace: F64
    tokens: F64 = field(default_factory=lambda: np.zeros(0))
    ranks: tuple[int, ...] | None = None
    """The ranks that must be named first; () for any with experts, None for none."""


Situation = Callable[[np.random.Generator, Shape, Load], None]


def hot_rank(draw: np.random.Generator, shape: Shape, load: Load) -> None:
    """One rank holds the hot experts of all layers."""
    rank = int(draw.integers(shape.world))
    load.tokens[:, :, rank] *= draw.uniform(1.5, 2.5)
    load.ranks = (rank,)


def hot_expert(draw: np.random.Generator, shape: Shape, load: Load) -> None:
    """One rank holds a hot expert in some layers."""
    rank, first = int(draw.integers(shape.world)), int(draw.integers(shape.layers // 2))
    layer = _layers_of(shape)
    load.tokens[:, (layer >= first) & (layer < first + shape.layers // 2), rank] *= draw.uniform(2, 3)
    load.ranks = (rank,)


def hot_layers(draw: np.random.Generator, shape: Shape, load: Load) -> None:
    """Every layer has its hot rank, always the same."""
    for layer in range(shape.layers):
        load.tokens[:, _layers_of(shape) == layer, int(draw.integers(shape.world))] *= draw.uniform(1.6, 2.5)
    load.ranks = ()


def moving(draw: np.random.Generator, shape: Shape, load: Load) -> None:
    """Tokens go to other experts in every step."""
    load.tokens *= draw.gamma(12.0, 1 / 12.0, load.tokens.shape)
    load.ranks = ()


def balanced(draw: np.random.Generator, shape: Shape, load: Load) -> None:
    """All experts get as many tokens, but for chance."""


def late_dispatch(draw: np.random.Generator, shape: Shape, load: Load) -> None:
    """The host of one rank is late before the dispatch."""
    load.late[:, :, int(draw.integers(shape.world))] += 300_000


def late_combine(draw: np.random.Generator, shape: Shape, load: Load) -> None:
    """The host of one rank is late between the products and the combine."""
    load.gap[:, :, int(draw.integers(shape.world))] += 300_000


def slow_device(draw: np.random.Generator, shape: Shape, load: Load) -> None:
    """Every kernel of one rank takes longer."""
    load.pace[int(draw.integers(shape.world))] = draw.uniform(1.2, 1.5)


SITUATIONS: dict[str, Situation] = {
    "hot rank": hot_rank, "hot expert": hot_expert, "hot layers": hot_layers, "moving": moving, "balanced": balanced,
    "late dispatch": late_dispatch, "late combine": late_combine, "slow device": slow_device,
}  # fmt: skip
SHAPES = {
    "training": Shape(),
    "training, EP 4 of 8": Shape(group=4, layers=8, steps=3),
    "training, EP 2 of 4, all-gather": Shape(world=4, group=2, layers=5, exchange="allGather", shapes=False),
    "decode, MC2": Shape(layers=10, steps=3, trains=False, exchange="mc2", passes=2),
    "decode, MC2, padded, no marks": Shape(
        world=4, group=4, layers=7, steps=3, trains=False, exchange="mc2", padded=True, marked=False
    ),
    "training, activations, reductions": Shape(activation=0.3, reduces=True, shapes=False, layers=4),
    "training, no trace": Shape(traced=False, layers=5),
    "decode, MC2, no trace": Shape(world=4, group=4, traced=False, trains=False, exchange="mc2", layers=5, passes=2),
    "prefill, EP 16, no shapes": Shape(world=16, group=16, layers=4, steps=2, trains=False, shapes=False),
}


def _layers_of(shape: Shape) -> npt.NDArray[np.int64]:
    """The layer of every block of a step."""
    forward = np.arange(shape.layers)
    passes = np.concatenate((forward, forward[::-1])) if shape.trains else forward
    return np.tile(passes, shape.passes)


def simulate(situation: str, shape: Shape, seed: int, folder: Path) -> tuple[Job, Load, float]:
    """The job read from profiles that are written to ``folder``, what it is, and the gain of balanced experts, ns."""
    draw = np.random.default_rng([seed, *map(ord, situation)])
    size = (shape.steps, len(_layers_of(shape)), shape.world)
    load = Load(*(np.zeros(size) for _ in range(4)), np.ones(shape.world))
    load.tokens = np.full(size, 4096.0) * draw.normal(1, 0.01, size)
    load.attention = ATTENTION * draw.normal(1, 0.01, size)
    SITUATIONS[situation](draw, shape, load)
    group = np.arange(shape.world) // shape.group
    for number in range(group.max() + 1):  # tokens only move: their sum stays
        there = group == number
        load.tokens[:, :, there] *= 4096 / load.tokens[:, :, there].mean(axis=2, keepdims=True)
    load.tokens = np.rint(load.tokens)
    load.experts = EXPERTS * load.tokens / 4096 * draw.normal(1, shape.differ, size)
    logs: list[list[Any]] = [[] for _ in range(shape.world)]
    ends = _run(shape, load, load.experts, logs)
    even = load.experts.copy()
    for number in range(group.max() + 1):
        there = group == number
        even[:, :, there] = even[:, :, there].mean(axis=2, keepdims=True)
    gain = ends - _run(shape, load, even, None)
    for rank, log in enumerate(logs):
        _write(shape, folder / f"rank{rank}_ascend_pt", rank, log, draw.integers(-20_000, 20_000))
    return open_job(folder, True), load, gain


def _run(shape: Shape, load: Load, experts: F64, logs: list[list[Any]] | None) -> float:
    """Play the job; returns when it ends, ns. ``logs`` get (lane, name, start, end, shapes, backward) of every rank."""
    layers, world = _layers_of(shape), shape.world
    group, now = np.arange(world) // shape.group, np.zeros(world)
    number = 0

    def log(lane: str, name: str, start: F64, end: F64, shapes: Any = None, back: bool = False) -> None:
        for rank in range(world) if logs is not None else ():
            shown = shapes(rank) if callable(shapes) else ""
            logs[rank].append((lane, name, float(start[rank]), float(end[rank]), shown, back))

    def meet(lane: str, name: str, members: npt.NDArray[np.int64], transfer: float) -> None:
        nonlocal now
        last = np.zeros(members.max() + 1)
        np.maximum.at(last, members, now)
        end = last[members] + transfer + np.arange(world) % 3 * 120
        log(lane, name, now, end)
        now = end + 2_000

    for step in range(shape.steps):
        begun = now.copy()
        for block, layer in enumerate(layers):
            back = shape.trains and block % (2 * shape.layers) >= shape.layers
            twice = 1 + back
            end = now + load.attention[step, block] * load.pace * twice
            log("kernel", "FlashAttentionScore" + "Grad" * back, now, end, lambda rank: '"1,4096,2048;1,4096,2048"')
            now = end + 3_000 + load.late[step, block]
            sent, back_name = EXCHANGES[shape.exchange]
            lane = "kernel" if shape.exchange == "mc2" else "ep"
            meet(lane, f"{sent}#{number}", group, TRANSFER)
            for part in range(2):
                if part and shape.activation:
                    end = now + experts[step, block] * load.pace * twice * shape.activation
                    log("kernel", "SwiGlu", now, end)
                    now = end + 1_000
                end = now + experts[step, block] * load.pace * twice / 2
                rows = np.full(shape.world, 9_999) if shape.padded else load.tokens[step, block]
                if part and back and shape.reduces:
                    log("dp", f"reduceScatter#{number}", now - 50_000, np.full(shape.world, now.max() + 200_000))
                log("kernel", "GroupedMatmul", now, end,
                    lambda rank, rows=rows: f'"{int(rows[rank])},{HIDDEN};8,{HIDDEN},{WIDE};;;8"', back)  # fmt: skip
                now = end + 1_500
            now = now + load.gap[step, block]
            meet(lane, f"{back_name}#{number + 1}", group, TRANSFER)
            number += 2
            if layer == shape.layers - 1 and not back:
                end = now + HEAD * load.pace
                log("kernel", "MatMulV3", now, end, lambda rank: '"4096,2048;2048,151936"')
                now = end + 2_000
        meet("dp", f"allReduce#{step}", np.zeros(world, np.int64), 5 * TRANSFER)
        if shape.marked:
            log("step", f"ProfilerStep#{step + 3}", begun, now)
    return float(now.max())


def _write(shape: Shape, folder: Path, rank: int, log: list[Any], offset: int) -> None:
    """The profile of one rank."""
    output = folder / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    lanes = {"step": (PYTHON, 1), "kernel": (HARDWARE, 2), "ep": (COMMUNICATION, 0), "dp": (COMMUNICATION, 1)}
    events: list[dict[str, Any]] = []
    for pid, name in LAYERS.items():
        events.append({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}})
    for (pid, tid), name in LANES.items():
        events.append({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}})
    rows: list[str] = []
    steps = [row for row in log if row[0] == "step"]
    collectives: dict[str, Any] = {}

    def step_of(time: float) -> str:
        return next((name.partition("#")[2] for _, name, start, end, *_ in steps if start <= time < end), "")

    def ts(ns: float) -> str:
        return f"{EPOCH_US + (int(ns) + offset) // 1000}.{(int(ns) + offset) % 1000:03d}"

    def slice_of(pid: int, tid: int, name: str, start: float, end: float, **args: Any) -> None:
        length = (int(end) - int(start)) / 1000
        events.append({"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": ts(start), "dur": length, "args": args})

    for lane, name, start, end, shapes, back in log:
        plain, _, number = name.partition("#")
        pid, tid = lanes[lane]
        if lane in ("ep", "dp"):
            group = 100 + rank // shape.group if lane == "ep" else 900
            slice_of(pid, tid, f"hcom_{plain}__{group}_{number}_1", start, end)
            of_step = collectives.setdefault(f"step{step_of(start)}", {"p2p": {}, "collective": {}})["collective"]
            spans = {"Start Timestamp(us)": float(ts(start)), "Elapse Time(ms)": (int(end) - int(start)) / 1e6}
            of_step[f"hcom_{plain}__{group}_{number}_1@{group}"] = {"Communication Time Info": spans}
        elif lane == "step":
            slice_of(pid, tid, name, start, end)
        else:
            args = {"Task Type": "AI_CORE", "Stream Id": 2, "Task Id": len(rows)}
            full = f"aclnn{plain}_{plain}_{plain}"
            slice_of(pid, tid, full, start, end, **args)
            times = ts(start) + "\t", f"{(int(end) - int(start)) / 1000:.3f}"
            cells = step_of(start), full, plain, "AI_CORE", *times, shapes
            rows.append(",".join(cells))
            if "GroupedMatmul" in plain:
                host = start - 2_000
                slice_of(PYTHON, 1 + back, "GMMFunction" + "Backward0" * back, host, host + 900)
                link = {"name": "async_npu", "cat": "async_npu", "id": len(rows)}
                events.append(link | {"ph": "s", "pid": PYTHON, "tid": 1 + back, "ts": ts(host)})
                events.append(link | {"ph": "f", "pid": pid, "tid": tid, "ts": ts(start), "bp": "e"})
    if shape.traced:
        (output / "trace_view.json").write_text(json.dumps(events))
    else:
        (output / "communication.json").write_text(json.dumps(collectives))
    (folder / f"profiler_info_{rank}.json").write_text("{}")
    if shape.shapes:
        head = "Step Id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Input Shapes\n"
        (output / "kernel_details.csv").write_text(head + "\n".join(rows) + "\n")


@dataclass
class Row:
    """How a situation came out over some seeds: how often its cause came first, and by how much the gain was off."""

    named: float
    off: list[float]
    layers: float
    wrong: list[str] = field(default_factory=list)


def measured(situation: str, shape: Shape, seeds: range) -> Row:
    """``situation`` over ``seeds``."""
    row = Row(0, [], 0)
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            job, load, gain = simulate(situation, shape, seed, Path(folder))
            found = [each for each in job_findings(job) if each.severity != "info"]
            good = is_first(found, load)
            row.named += good / len(seeds)
            layers = {each.layer for profile in job.ranks for each in profile.experts}
            row.layers += (layers == set(range(shape.layers))) / len(seeds)
            if not good:
                row.wrong.append(
                    f"{seed}: {[(each.id, each.ranks, each.gain_ns) for each in found[:2]]} not {load.ranks}"
                )
            if load.ranks is not None and found and found[0].gain_ns is not None:
                row.off.append(abs(found[0].gain_ns - gain) / gain)
    return row


def is_first(found: list[Finding], load: Load) -> bool:
    """Whether the experts are named first where they are the cause, and never where they are not."""
    if load.ranks is None:
        return all(each.id != "EXPERT.LOAD" for each in found)
    return bool(found) and found[0].id == "EXPERT.LOAD" and load.ranks in ((), found[0].ranks)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    print("| situation | shape | cause first | layers numbered | gain off, median / worst |\n|---|---|---|---|---|")
    for situation in SITUATIONS:
        for name, shape in SHAPES.items():
            if options.only in f"{situation} {name}":
                row = measured(situation, shape, range(options.seeds))
                off = f"{np.median(row.off):.1%} / {max(row.off):.1%}" if row.off else "–"
                print(f"| {situation} | {name} | {row.named:.0%} | {row.layers:.0%} | {off} |", *row.wrong, flush=True)


if __name__ == "__main__":
    main()
