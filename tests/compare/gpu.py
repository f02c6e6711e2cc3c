"""A profile as PyTorch's own profiler writes it on a GPU: same operations, other kernels, other times.

The object form of Kineto: schema, device properties, base time, distributed info, events over the host's threads and
the streams of each device. Source: libkineto's output_json.cpp, and traces in the tests of HolisticTraceAnalysis.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from npu_tui.compare.measured import MeasuredSide

_SHARED = re.compile(r"aten::|torch::|autograd::|c10d::|\w+Backward\d+$")
"""What operations are called on any device; the others are those of the NPU's own backend."""
_HOST, _DEVICE, _STREAM, _COPIES, _COLLECTIVES = 4242, 0, 7, 20, 24
_BASE_NS = 1_751_342_400_000_000_000


class _Events:
    """The events in the order they are written."""

    def __init__(self) -> None:
        self.all: list[dict[str, Any]] = []

    def complete(
        self, category: str, name: str, place: tuple[Any, Any], start: int, length: int, **args: object
    ) -> None:
        times = {"ts": round(start / 1000 + 4_935_426_834.123, 3), "dur": round(length / 1000, 3)}
        self.all.append(
            {"ph": "X", "cat": category, "name": name, "pid": place[0], "tid": place[1], **times, "args": args}
        )

    def flow(self, number: int, source: tuple[int, int, int], target: tuple[int, int, int]) -> None:
        for phase, (pid, tid, when) in (("s", source), ("f", target)):
            bound = {"bp": "e"} if phase == "f" else {}
            time = round(when / 1000 + 4_935_426_834.123, 3)
            self.all.append(
                {"ph": phase, "id": number, "pid": pid, "tid": tid, "ts": time, "cat": "ac2g", "name": "ac2g", **bound}
            )

    def named(self, pid: int, tid: int, what: str, **args: object) -> None:
        self.all.append({"name": what, "ph": "M", "ts": 4_935_426_834.123, "pid": pid, "tid": tid, "args": args})


def as_gpu(side: MeasuredSide, factor: float, path: Path, late_ns: int = 2_000, annotated: bool = True) -> Path:
    """Write the host operations of ``side`` and one CUDA kernel per kernel of it, ``factor`` times as long.

    A kernel starts ``late_ns`` after its launch at the earliest; ``annotated`` steps are written on the device, too.
    """
    trace, kernels = side.trace, side.kernels
    slices = trace.slices
    events = _Events()
    for number, (pid, name, label) in enumerate(((_HOST, "python", "CPU"), (_DEVICE, "python", "GPU 0"))):
        events.named(pid, 0, "process_name", name=name)
        events.named(pid, 0, "process_labels", labels=label)
        events.named(pid, 0, "process_sort_index", sort_index=_HOST if not number else 5_000_000)
    for stream in (_STREAM, _COPIES, _COLLECTIVES):
        events.named(_DEVICE, stream, "thread_name", name=f"stream {stream}")
    roles: dict[int, int] = {}
    steps = []
    for window in side.sample.compared:
        start, name = window.host_start, f"ProfilerStep#{window.number}"
        events.complete(
            "user_annotation", name, (_HOST, 1), start, window.end - start, **{"External id": window.number}
        )
        steps.append((name, start, window.end))
        own = side.operations_in(window)
        for item, called, role in zip(own.item.tolist(), own.name, own.role.tolist(), strict=True):
            roles[item] = role
            called = called.replace("npu::npu_fusion_attention", "aten::scaled_dot_product_attention")
            if _SHARED.match(called):
                begin, end = int(slices.start[item]), int(slices.end[item])
                args = {"External id": item, "Record function id": 0, "Ev Idx": item, "Input Dims": [[32, 768], []]}
                events.complete("cpu_op", called, (_HOST, 1 + role), begin, end - begin, **args)
        _around(events, window.host_start, window.end)
    free = 0
    reach: dict[int, list[int]] = {}
    for number, (item, operation) in enumerate(zip(kernels.item.tolist(), kernels.operation.tolist(), strict=True)):
        if operation not in roles:
            continue
        launch, thread = int(slices.start[operation]), 1 + roles[operation]
        length = max(int((slices.end[item] - slices.start[item]) * factor), 1)
        begin = max(free, launch + late_ns)
        free = begin + length
        ids = {"External id": operation, "correlation": number}
        events.complete("cuda_runtime", "cudaLaunchKernel", (_HOST, thread), launch + 100, 300, cbid=211, **ids)
        events.complete(
            "kernel", f"void ampere_gemm<float, {number % 7}>(float*)_{number}", (_DEVICE, _STREAM), begin, length,
            **ids, queued=0, device=0, context=1, stream=_STREAM, grid=[8, 12, 1], block=[128, 1, 1],
            **{"registers per thread": 128, "shared memory": 13056, "est. achieved occupancy %": 5},
        )  # fmt: skip
        events.flow(number, (_HOST, thread, launch + 100), (_DEVICE, _STREAM, begin))
        step = next((k for k, (_, low, high) in enumerate(steps) if low <= launch < high), None)
        if step is not None:
            reach.setdefault(step, []).extend((begin, begin + length))
    for step, times in reach.items() if annotated else ():
        length = max(times) - min(times)
        events.complete("gpu_user_annotation", steps[step][0], (_DEVICE, _STREAM), min(times), length)
    events.complete("Trace", "PyTorch Profiler (0)", ("Spans", "PyTorch Profiler"), 0, free, **{"Op count": 0})
    head = {
        "schemaVersion": 1,
        "deviceProperties": [
            {"id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85_051_572_224, "numSms": 108}
        ],
        "cupti_version": 22,
        "cuda_runtime_version": 12040,
        "record_shapes": 1,
        "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 8},
        "traceEvents": events.all,
        "traceName": path.name,
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": _BASE_NS,
    }
    path.write_text(json.dumps(head, indent=1))
    return path


def _around(events: _Events, start: int, end: int) -> None:
    """What a step has beside kernels: a copy, a wait of the host, the profiler's own buffers."""
    number = 10_000_000 + start % 1_000_000
    events.complete("cuda_runtime", "cudaMemcpyAsync", (_HOST, 1), start + 10, 40, cbid=41, correlation=number)
    events.complete(
        "gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", (_DEVICE, _COPIES), start + 60, 31_000,
        device=0, context=1, stream=_COPIES, correlation=number, bytes=1_609_728, **{"memory bandwidth (GB/s)": 50.4},
    )  # fmt: skip
    events.flow(number, (_HOST, 1, start + 10), (_DEVICE, _COPIES, start + 60))
    events.complete("cuda_runtime", "cudaDeviceSynchronize", (_HOST, 1), end - 400, 300, cbid=165, correlation=0)
    events.complete("overhead", "Activity Buffer Request", (-1, 0), start + 5, 900)
