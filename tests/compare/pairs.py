"""Simulated jobs in pairs that differ in one cause, as two sides of a comparison."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from generate import build, write
from launcher import Launcher
from measured import profile_at
from situations import Situation, SlowLine, Trouble

from npu_tui.compare.comparison import Comparison, Tolerance
from npu_tui.compare.side import Side
from npu_tui.profile.profile import Profile

_KEPT = TemporaryDirectory(prefix="npu-tui-pairs-")
"""Args are read from the files when they are asked for."""
_NUMBERS = count()

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


def profile(situation: Situation, edit: Callable[[str], str] = str) -> Profile:
    """The profile of ``situation``, its trace changed by ``edit``, with all that its files tell."""
    files = {
        name: edit(content.decode()).encode() if name.endswith("trace_view.json") else content
        for name, content in build(situation).items()
    }
    folder = Path(_KEPT.name) / str(next(_NUMBERS))
    write(files, folder)
    return profile_at(folder)


def compared(base: Profile, new: Profile, tolerance: Tolerance | None = None) -> Comparison:
    """The comparison of both."""
    return Comparison(Side(base), Side(new), tolerance)


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


__all__ = ["BASE", "Situation", "SlowLine", "Trouble", "compared", "moved_lines", "profile", "replace", "slower_kernel"]
