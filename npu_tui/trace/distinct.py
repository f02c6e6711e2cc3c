"""The distinct ones among many codes, and which of many are wanted."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_ROOM = 1 << 16


def distinct(code: npt.NDArray[np.integer]) -> tuple[I64, I64]:
    """The distinct values of ``code``, ascending, and which of them each is; (m,) and (n,).

    Where they are not far apart they are looked up, which takes a fraction of the time of sorting them.
    """
    least, most = (int(code.min()), int(code.max())) if len(code) else (0, -1)
    if most - least >= max(len(code), _ROOM):
        values, place = np.unique(code, return_inverse=True)
        return values.astype(np.int64, copy=False), place.astype(np.int64, copy=False)
    there = np.zeros(most - least + 1, np.bool_)
    at = code.astype(np.int64, copy=False) - least
    there[at] = True
    found = np.flatnonzero(there)
    place_of = np.zeros(len(there), np.int64)
    place_of[found] = np.arange(len(found))
    return found + least, place_of[at]


def in_groups(code: npt.NDArray[np.integer]) -> list[I64]:
    """The places of every code, ascending, those of the code that comes first in front."""
    _, group = distinct(code)
    order = np.argsort(group, kind="stable")
    found = np.split(order, np.flatnonzero(np.diff(group[order])) + 1) if len(order) else []
    return sorted(found, key=lambda own: int(own[0]))


def among(code: npt.NDArray[np.integer], wanted: npt.NDArray[np.integer]) -> Bools:
    """Which of ``code`` are among ``wanted``; (n,). These are looked up where they are not far apart."""
    least, most = (int(wanted.min()), int(wanted.max())) if len(wanted) else (0, -1)
    if not len(wanted) or most - least >= max(len(code) + len(wanted), _ROOM):
        return np.isin(code, wanted)
    there = np.zeros(most - least + 3, np.bool_)  # at both ends one for all that lie outside
    there[wanted.astype(np.int64, copy=False) - (least - 1)] = True
    return there.take(code.astype(np.int64, copy=False) - (least - 1), mode="clip")
