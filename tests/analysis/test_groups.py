"""What repeats is what encloses calls or comes again as a group; gaps within a replayed graph are the graph's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from by_hand import ByHand
from measured import profile_at

from npu_tui.strings import words


def _iterations(call: str, mark: str, gpu: bool = True, count: int = 4) -> ByHand:
    """So many iterations of 11 kernels, whose runtime has its own ``call``, with a ``mark`` of the program."""
    trace = ByHand(gpu)
    for k in range(count):
        begin = 5000.0 * k
        for n in range(11):
            name = f"kernel_{'abcdefghijk'[n]}{'uvwx'[k]}"  # names alone do not repeat
            trace.launch(name, begin + 10 * n, begin + 10 * n + 8, 200 if n == 3 else 9, call=call)
        if mark == "optimizer":
            trace.host("Optimizer.step#AdamW.step", begin + 90, 40, cat="user_annotation")
        elif mark:
            trace.host(f"{mark} {k}", begin - 1, 150, cat="user_annotation")
    return trace


@pytest.mark.parametrize(
    ("call", "mark", "count"),
    [
        ("hipLaunchKernel", "optimizer", 4), ("musaLaunchKernel", "train batch", 4), ("urEnqueueKernelLaunch", "", 4),
        ("cuLaunchKernelEx", "", 4),
    ],
)  # fmt: skip
def test_iterations_are_no_launches(tmp_path: Path, call: str, mark: str, count: int) -> None:
    (facts,) = profile_at(_iterations(call, mark).write(tmp_path)).facts
    rhythm = facts.rhythm
    assert (0 if rhythm is None else rhythm.count) == count
    if rhythm is not None and len(rhythm.starts) > 1:
        assert (np.abs(np.diff(rhythm.starts) - 5_000_000) < 100_000).all()


def _replays(gpu: bool, inside: float) -> ByHand:
    """15 replays of a graph of 24 kernels of 20 us with ``inside`` us between them; 30 us between replays."""
    trace = ByHand(gpu)
    at = 100.0
    for _ in range(15):
        if gpu:
            trace.launch("gemm", at - 60, at, 20, call="cudaGraphLaunch", takes=20)
            key = trace.events[-1]["id"]
            for n in range(1, 24):
                start = at + n * (20 + inside)
                trace.kernel(f"gemm_{n % 3}", start, 20, correlation=key)
                end = {"ph": "f", "bp": "e", "pid": 0, "tid": 2, "cat": "ac2g", "name": "ac2g", "id": key}
                trace.events.append(end | {"ts": trace.events[-1]["ts"]})
        else:
            trace.launch("aclnnMm_MatMulV2", at - 60, at, 20, call="AscendCL@aclmdlRIExecuteAsync", takes=20)
            for n in range(1, 24):
                trace.kernel(f"aclnnAdd_Add_{'ABC'[n % 3]}dd", at + n * (20 + inside), 20)
        at += 24 * (20 + inside) + 30
    return trace


@pytest.mark.parametrize("gpu", [False, True])
def test_gaps_within_a_graph_lead(tmp_path: Path, gpu: bool) -> None:
    profile = profile_at(_replays(gpu, 18).write(tmp_path))
    verdict = words(profile.findings.verdict[0])
    assert "within replayed graphs" in verdict
    assert f"{15 * 23} gaps of 18.00 µs" in verdict
    assert words(profile.findings.findings[0].advice[0]).startswith("Ask what the graph waits for")


def test_a_graph_without_gaps_is_not_blamed(tmp_path: Path) -> None:
    profile = profile_at(_replays(False, 0).write(tmp_path))
    assert not any("within replayed" in words(line) for line in profile.findings.verdict)
