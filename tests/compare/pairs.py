"""Simulated jobs in pairs that differ in one cause, as two sides of a comparison."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import simulator
from generate import recorded
from launcher import Launcher
from measured import profile_at
from situations import Situation, SlowLine, Trouble, Uneven
from workload import ModuleCall

from npu_tui.analysis.statistics import Tolerance
from npu_tui.compare.comparison import ProfileComparison
from npu_tui.compare.measured import MeasuredSide
from npu_tui.profile.profile import Profile

_NUMBERS = count()


@cache
def _kept(process: int) -> TemporaryDirectory[str]:
    """The folder of a ``process``: args are read from the files when they are asked for."""
    return TemporaryDirectory(prefix="npu-tui-pairs-")


BASE = Situation(
    name="base",
    seed=11,
    steps=6,
    layers=2,
    host_op_ns=60_000,
    kernel_ns=120_000,
    world_size=8,
    peer_lateness_ns=20_000,
    step_end_sync=True,
    leaf_frames=0,
    paired=True,
)


def profile(situation: Situation, edit: Callable[[str], str] = str, dtype: str | None = None) -> Profile:
    """The profile of ``situation``, its trace changed by ``edit``, with all that its files tell.

    With ``dtype`` there is a kernel_details.csv in which matrix products have that type.
    """
    if edit is str and dtype is None:
        return _plain(situation, Launcher._kernel, simulator.LAYER)
    folder = _written(situation, edit)
    if dtype is not None:
        with_details(folder, dtype)
    return profile_at(folder)


@cache
def _plain(situation: Situation, *_: object) -> Profile:
    """Read once for all tests: nothing changes a profile. What a test replaces in the simulator is part of the key."""
    return profile_at(_written(situation, str))


def _written(situation: Situation, edit: Callable[[str], str]) -> Path:
    folder = Path(_kept(os.getpid()).name) / str(next(_NUMBERS))
    for name, content in recorded(situation, simulator.simulate(situation)).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(edit(content.decode()).encode() if name.endswith("trace_view.json") else content)
    return folder


def compared(base: Profile, new: Profile, tolerance: Tolerance | None = None) -> ProfileComparison:
    """The comparison of both."""
    return ProfileComparison(MeasuredSide(base), MeasuredSide(new), tolerance)


@contextmanager
def slower_kernel(kind: str, factor: float) -> Iterator[None]:
    """Inside, simulated kernels of the type ``kind`` last ``factor`` times as long."""
    own = Launcher._kernel

    def kernel(self, start, name, task_type, type_, duration, *rest):  # type: ignore[no-untyped-def]
        return own(self, start, name, task_type, type_, round(duration * factor) if type_ == kind else duration, *rest)

    Launcher._kernel = kernel  # type: ignore[method-assign]
    try:
        yield
    finally:
        Launcher._kernel = own  # type: ignore[method-assign]


def moved_lines(by: int) -> Callable[[str], str]:
    """An edit: every line of the model's file stands ``by`` lines lower."""
    return lambda text: re.sub(
        r"(model\.py\()(\d+)(\))", lambda match: f"{match[1]}{int(match[2]) + by}{match[3]}", text
    )


@contextmanager
def layers_of(*calls: ModuleCall) -> Iterator[None]:
    """Inside, every simulated layer runs ``calls``."""
    own = simulator.LAYER
    simulator.LAYER = calls
    try:
        yield
    finally:
        simulator.LAYER = own


def with_details(folder: Path, dtype: str) -> None:
    """Write kernel_details.csv beside the trace in ``folder``; matrix products have the data type ``dtype``."""
    trace = profile_at(folder)
    slices, table = trace.trace.slices, trace.kernel_table
    rows = ["Name,Type,Accelerator Core,Start Time(us),Duration(us),Input Shapes,Input Data Types,Input Formats"]
    for number, item in enumerate(table.item.tolist()):
        kind = table.type.at(number) or ""
        start = trace.trace.start_ns + int(slices.start[item])
        length = int(slices.end[item] - slices.start[item])
        cells = [
            trace.trace.name_of(item),
            kind,
            "AI_CORE",
            f"{start // 1000}.{start % 1000:03d}\t",
            f"{length / 1000:.3f}",
        ]
        cells += ['"""64,384;384,384"""', f"{dtype};{dtype}" if kind == "MatMulV2" else "FLOAT;FLOAT", "ND;ND"]
        rows.append(",".join(cells))
    (folder / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv").write_text("\n".join(rows) + "\n")


__all__ = [
    "BASE", "Situation", "SlowLine", "Trouble", "Uneven", "compared", "layers_of", "moved_lines", "profile", "replace",
    "slower_kernel",
]  # fmt: skip
