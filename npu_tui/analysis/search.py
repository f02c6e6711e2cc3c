"""Slices found by name."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_tui.trace.model import Trace


def wanted_names(trace: Trace, text: str) -> npt.NDArray[np.bool_]:
    """Which names contain ``text``; (names,). Upper-case letters in ``text`` make the case count."""
    if not text:
        return np.zeros(len(trace.names), np.bool_)
    if text == text.lower():
        return np.array([text in name.lower() for name in trace.names], np.bool_)
    return np.array([text in name for name in trace.names], np.bool_)


def slices_named(trace: Trace, wanted: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """The slices with a ``wanted`` name, by start."""
    items = np.flatnonzero(wanted[trace.slices.name]) if len(trace.slices) else np.zeros(0, np.int64)
    return items[np.argsort(trace.slices.start[items], kind="stable")]
