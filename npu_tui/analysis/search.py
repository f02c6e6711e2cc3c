"""Slices found by name."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_tui.trace.model import Trace


def find_names(trace: Trace, text: str) -> npt.NDArray[np.int64]:
    """The slices whose name contains ``text``, by start; upper-case letters in ``text`` make the case count."""
    if not text:
        return np.zeros(0, np.int64)
    if text == text.lower():
        wanted = np.array([text in name.lower() for name in trace.names], np.bool_)
    else:
        wanted = np.array([text in name for name in trace.names], np.bool_)
    items = np.flatnonzero(wanted[trace.slices.name])
    return items[np.argsort(trace.slices.start[items], kind="stable")]
