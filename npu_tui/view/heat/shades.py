"""Shares as shades: a character and an ink, so that they are told apart without colour too."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_tui.view.cells.grid import U8, U32
from npu_tui.view.cells.palette import Ink

F64 = npt.NDArray[np.float64]

GLYPHS = np.array([ord(char) for char in "·░▒▓█"], np.uint32)
ALARMING = np.array([Ink.FAINT, Ink.DIM, Ink.ACCENT, Ink.ALERT_LOW, Ink.ALERT], np.uint8)
CALM = np.array([Ink.FAINT, Ink.COUNTER_LOW, Ink.COUNTER_LOW, Ink.COUNTER, Ink.COUNTER], np.uint8)
"""The inks of the shades: red is for what a rank is to blame for, and for nothing else."""
UNKNOWN = ord(" ")


def shaded(shares: F64, least: tuple[float, ...], alarming: bool) -> tuple[U32, U8]:
    """Characters and inks of ``shares`` (any shape); ``least`` are where the shades after the first begin.

    What is not known (NaN) stays blank.
    """
    known = ~np.isnan(shares)
    level = np.searchsorted(np.array(least), np.where(known, shares, 0.0), "right")
    char = np.where(known, GLYPHS[level], UNKNOWN).astype(np.uint32)
    ink = (ALARMING if alarming else CALM)[level]
    return char, ink


def worst(shares: F64, count: int) -> F64:
    """``shares`` (…, n) in ``count`` columns, n at the most, each the worst of those that fall into it."""
    columns = shares.shape[-1]
    if columns <= count:
        return shares
    begins = np.arange(count) * columns // count
    found: F64 = np.fmax.reduceat(shares, begins, axis=-1)
    return found
