"""A profile as PyTorch's own profiler would have written it on a GPU: same operations, other kernels, other times."""

from __future__ import annotations

import json
from pathlib import Path

from npu_tui.compare.side import Side

_OTHERS = "aclnn"


def as_gpu(side: Side, factor: float, path: Path) -> Path:
    """Write the host operations of ``side`` and one CUDA kernel per kernel of it, ``factor`` times as long."""
    trace, kernels = side.trace, side.kernels
    slices = trace.slices
    host, device = 4242, 0
    events: list[dict[str, object]] = [
        {"ph": "M", "name": "process_name", "pid": host, "tid": 0, "ts": 0, "args": {"name": "python"}},
        {"ph": "M", "name": "process_name", "pid": device, "tid": 0, "ts": 0, "args": {"name": "python"}},
        {"ph": "M", "name": "process_labels", "pid": device, "tid": 0, "ts": 0, "args": {"labels": "GPU 0"}},
    ]

    def complete(name: str, category: str, pid: int, tid: int, start: int, length: int, **args: object) -> None:
        times = {"ts": start / 1000 + 1_000_000, "dur": length / 1000}
        events.append({"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, **times, "args": args})

    for window in side.sample.compared:
        complete(f"ProfilerStep#{window.number}", "user_annotation", host, 1, window.host_start,
                 window.end - window.host_start)  # fmt: skip
        own = side.operations_in(window)
        for item, name, role in zip(own.item.tolist(), own.name, own.role.tolist(), strict=True):
            if not name.startswith(_OTHERS):
                start, end = int(slices.start[item]), int(slices.end[item])
                complete(name, "cpu_op", host, 1 + role, start, end - start)
    roles = {
        item: role
        for window in side.sample.compared
        for own in [side.operations_in(window)]
        for item, role in zip(own.item.tolist(), own.role.tolist(), strict=True)
    }
    free = 0
    for number, (item, operation) in enumerate(zip(kernels.item.tolist(), kernels.operation.tolist(), strict=True)):
        if operation not in roles:
            continue
        launch, thread = int(slices.start[operation]), 1 + roles[operation]
        length = max(int((slices.end[item] - slices.start[item]) * factor), 1)
        start = max(free, launch + 2_000)
        free = start + length
        complete("cudaLaunchKernel", "cuda_runtime", host, thread, launch + 100, 300, correlation=number)
        complete(f"void ampere_gemm<float, {number % 7}>(float*)_{number}", "kernel", device, 7, start, length,
                 correlation=number, stream=7)  # fmt: skip
        for phase, pid, tid, when in (("s", host, thread, launch + 100), ("f", device, 7, start)):
            events.append({"ph": phase, "id": number, "cat": "ac2g", "name": "ac2g", "pid": pid, "tid": tid,
                           "ts": when / 1000 + 1_000_000, "bp": "e"})  # fmt: skip
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [{"name": "A100"}], "traceEvents": events}))
    return path
