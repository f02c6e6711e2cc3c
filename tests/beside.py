"""Writes the files that a profiler puts beside a trace, from a simulated trace, so that everything has its row."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from measured import profile_at

from npu_tui.profile.profile import Profile

SHAPES = {
    "MatMulV2": ("64,1024;1024,4096", "64,4096"),
    "Conv2D": ("8,3,224,224;64,3,7,7", "8,64,112,112"),
    "Gelu": ("64,4096", "64,4096"),
    "TransData": ("8,3,224,224", "8,1,224,224,16"),
}
OTHER = ("64,1024", "64,1024")


def micros(time: int) -> str:
    return f"{time // 1000}.{time % 1000:03d}\t"


def profile_with_files(fixture: Path, folder: Path) -> Path:
    """A copy of ``fixture`` at ``folder`` with all files beside its trace."""
    shutil.copytree(fixture, folder)
    write_beside(profile_at(folder), folder / "ASCEND_PROFILER_OUTPUT")
    return folder


def write_beside(profile: Profile, output: Path) -> None:
    """The files of ``profile`` in ``output``."""
    for name, header, rows in (
        ("kernel_details", KERNEL_HEADER, _kernels(profile)),
        ("l2_cache", ("Stream Id", "Task Id", "Hit Rate", "Victim Rate", "Op Name"), _cache(profile)),
        ("memory_record", MEMORY_HEADER, _memory(profile)),
        ("operator_memory", ALLOCATION_HEADER, _allocations(profile)),
        ("npu_module_mem", ("Component", "Timestamp(us)", "Total Reserved(MB)", "Device"), _modules(profile)),
        ("op_statistic", ("OP Type", "Core Type", "Count", "Total Time(us)", "Ratio(%)"), _operators(profile)),
        ("step_trace_time", STEP_HEADER, _steps(profile)),
    ):
        with (output / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([header, *rows])
    (output / "communication.json").write_text(json.dumps(_communication(profile)))
    (output / "communication_matrix.json").write_text(json.dumps(_matrix(profile)))


KERNEL_HEADER = (
    "Step Id", "Task ID", "Stream ID", "Name", "Type", "OP State", "Accelerator Core", "Start Time(us)", "Duration(us)",
    "Wait Time(us)", "Block Dim", "Input Shapes", "Input Data Types", "Input Formats", "Output Shapes",
    "Output Data Types", "Output Formats", "aic_mac_ratio", "aic_mte2_ratio", "aiv_vec_ratio", "aiv_mte2_ratio",
)  # fmt: skip
MEMORY_HEADER = ("Component", "Timestamp(us)", "Total Allocated(MB)", "Total Reserved(MB)", "Device Type")
ALLOCATION_HEADER = (
    "Name", "Size(KB)", "Allocation Time(us)", "Release Time(us)", "Allocation Total Allocated(MB)",
    "Allocation Total Reserved(MB)", "Device Type",
)  # fmt: skip
STEP_HEADER = (
    "Step", "Computing", "Communication(Not Overlapped)", "Overlapped", "Communication", "Free", "Stage", "Bubble",
    "Preparing",
)  # fmt: skip


def _core(kind: str) -> str:
    return "AI_CORE" if kind in ("MatMulV2", "Conv2D", "Conv2DBackpropFilter") else "AI_VECTOR_CORE"


def _kernels(profile: Profile) -> list[Sequence[object]]:
    table, trace = profile.kernel_table, profile.trace
    rows: list[Sequence[object]] = []
    for k in range(len(table)):
        kind = table.type.at(k) or ""
        inputs, outputs = SHAPES.get(kind, OTHER)
        cube = _core(kind) == "AI_CORE"
        count = inputs.count(";") + 1
        ratios = ("0.62", "0.97", "0.000", "0.000") if cube else ("0.000", "0.000", "0.31", "0.82")
        rows.append(
            (
                20, 1000 + k, 2, table.name.at(k), kind, "static", _core(kind),
                micros(trace.start_ns + int(table.start[k])), f"{table.duration[k] / 1000:.3f}",
                f"{table.wait[k] / 1000:.3f}", 20 if cube else 30 + k % 11, f'"{inputs}"',
                ";".join(["FLOAT16"] * count), ";".join(["ND"] * count), f'"{outputs}"', "FLOAT16", "ND", *ratios,
            )
        )  # fmt: skip
    for each in profile.collectives:
        start, end = int(trace.slices.start[each.item]), int(trace.slices.end[each.item])
        rows.append(
            (20, "N/A", "N/A", trace.name_of(each.item), "hcom_allReduce_", "N/A", "COMMUNICATION",
             micros(trace.start_ns + start), f"{(end - start) / 1000:.3f}", "0.000", *["N/A"] * 11)
        )  # fmt: skip
    return rows


def _cache(profile: Profile) -> list[Sequence[object]]:
    table = profile.kernel_table
    return [(2, 1000 + k, f"{0.2 + k % 7 / 10:.3f}", "0.05", table.name.at(k)) for k in range(len(table))]


def _ops(profile: Profile) -> list[tuple[str, int, int]]:
    """Operations that allocate: name, start and end in ns since 1970, by start."""
    trace, slices = profile.trace, profile.trace.slices
    wanted = ("aten::mm", "aten::gelu", "aten::conv2d", "npu::npu_fusion_attention")
    items = [item for item in profile.host_operators.item.tolist() if trace.name_of(item) in wanted]
    items.sort(key=lambda item: int(slices.start[item]))
    origin = trace.start_ns
    return [(trace.name_of(i), origin + int(slices.start[i]), origin + int(slices.end[i])) for i in items]


SIZES_KB = {"aten::mm": 96 * 1024, "aten::gelu": 16 * 1024, "aten::conv2d": 48 * 1024}


def _events(profile: Profile) -> list[tuple[str, int, int, int | None]]:
    """Name, KB, allocation and release of every allocation: an operation's memory lives until the third one after."""
    ops = _ops(profile)
    found: list[tuple[str, int, int, int | None]] = []
    for k, (name, start, end) in enumerate(ops):
        release = ops[k + 3][2] if k + 3 < len(ops) else None
        found.append((name, SIZES_KB.get(name, 8 * 1024), (start + end) // 2, release))
    return found


def _allocations(profile: Profile) -> list[Sequence[object]]:
    totals = {row[1]: row[2:4] for row in _memory(profile)}
    return [
        (name, size, micros(start), "" if end is None else micros(end), *totals[micros(start)], "NPU:0")
        for name, size, start, end in _events(profile)
    ]


def _memory(profile: Profile) -> list[Sequence[object]]:
    changes = [(start, size) for _, size, start, _ in _events(profile)]
    changes += [(end, -size) for _, size, _, end in _events(profile) if end is not None]
    held, reserved = 512.0, 600.0
    rows: list[Sequence[object]] = [("APP", micros(profile.trace.start_ns), "", "2048", "NPU:0")]
    for time, size in sorted(changes):
        held += size / 1024
        reserved = max(reserved, held + 20)
        rows.append(("PTA", micros(time), f"{held:.3f}", f"{reserved:.3f}", "NPU:0"))
    return rows


def _modules(profile: Profile) -> list[Sequence[object]]:
    start = profile.trace.start_ns
    times = (start, start + 10_000_000)
    held = (("HCCL", "420"), ("RUNTIME", "64.5"))
    return [(name, micros(time), size, "NPU:0") for name, size in held for time in times]


def _operators(profile: Profile) -> list[Sequence[object]]:
    table = profile.kernel_table
    rows: list[Sequence[object]] = []
    total = int(table.duration.sum())
    for code, kind in enumerate(table.type.values):
        own = table.duration[table.type.code == code]
        if len(own):
            time = int(own.sum())
            rows.append((kind, _core(kind), len(own), f"{time / 1000:.3f}", f"{100 * time / total:.3f}"))
    return rows


def _steps(profile: Profile) -> list[Sequence[object]]:
    rows: list[Sequence[object]] = []
    for step, (sums, *_) in profile.step_sums:
        part = sums.overlap
        overlapped = part.communication - part.not_overlapped
        times = (part.computing, part.not_overlapped, overlapped, part.communication, part.free, sums.stage or 0)
        rows.append((step.number, *(time / 1000 for time in times), sums.bubble / 1000, (sums.preparing or 0) / 1000))
    return rows


def _communication(profile: Profile) -> dict[str, object]:
    trace, found = profile.trace, {}
    for each in profile.collectives:
        start = int(trace.slices.start[each.item]) + trace.start_ns
        none = {"Transit Size(MB)": 0, "Transit Time(ms)": 0, "Bandwidth(GB/s)": 0, "Large Packet Ratio": 0}
        moved = {
            "Transit Size(MB)": 8.0, "Transit Time(ms)": 0.8, "Bandwidth(GB/s)": 10.0, "Large Packet Ratio": 1.0,
            "Size Distribution": {"8.0": [1, 0.8]},
        }  # fmt: skip
        found[f"{trace.name_of(each.item)}@417"] = {
            "Communication Time Info": {
                "Start Timestamp(us)": start / 1000, "Elapse Time(ms)": each.elapsed / 1e6,
                **{
                    f"{name.title()} Time(ms)": getattr(each.timing, name) / 1e6
                    for name in ("transit", "wait", "synchronization", "idle")
                    if each.timing is not None
                },
            },
            "Communication Bandwidth Info": {"RDMA": none, "HCCS": moved, "PCIE": none, "SDMA": moved, "SIO": none},
        }  # fmt: skip
    return {"step20": {"p2p": {}, "collective": found}}


def _matrix(profile: Profile) -> dict[str, object]:
    pairs = {
        f"{source}-{target}": {
            "Transport Type": "HCCS", "Transit Size(MB)": 8.0 + source, "Transit Time(ms)": 0.5 + 0.25 * target,
            "Bandwidth(GB/s)": 1.0, "Op Name": "hcom_allReduce__417_0_1",
        }
        for source in range(4)
        for target in range(4)
        if source != target
    }  # fmt: skip
    return {"step20": {"p2p": {}, "collective": {"hcom_allReduce__417_0_1@417": pairs}}}
