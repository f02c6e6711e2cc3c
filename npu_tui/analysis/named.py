"""Slices by their names and the layers they are on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from npu_tui.trace.model import LayerKind, Trace


def named_on(trace: Trace, kinds: tuple[LayerKind, ...], rule: Callable[[str], bool]) -> npt.NDArray[np.int64]:
    """The slices on layers of ``kinds`` whose name fulfils ``rule``, ascending."""
    wanted = np.array([rule(name) for name in trace.names] + [False])
    lanes = [lane for lane in trace.lanes if trace.layers[lane.layer].kind in kinds] if wanted.any() else []
    found = [lane.first + np.flatnonzero(wanted[trace.slices.name[lane.first : lane.last]]) for lane in lanes]
    return np.sort(np.concatenate([*found, np.zeros(0, np.int64)]))
