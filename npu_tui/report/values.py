"""Numbers and texts as reports write them: microseconds with three decimals, ratios with six, harmless texts."""

from __future__ import annotations

from typing import overload

import numpy as np
import numpy.typing as npt

from npu_tui.trace.text import printable

_EXACT = 1 << 53


@overload
def us(ns: float) -> float: ...
@overload
def us(ns: float | None) -> float | None: ...
def us(ns: float | None) -> float | None:
    """Nanoseconds as microseconds; None stays None."""
    if type(ns) is int and -_EXACT < ns < _EXACT:
        return ns / 1000  # the float nearest to it has no more decimals
    return None if ns is None else round(float(ns) / 1000, 3)


def each_us(ns: npt.NDArray[np.int64]) -> list[float]:
    """``us`` of many; (n,)."""
    if len(ns) and max(int(ns.max()), -int(ns.min())) >= _EXACT:
        return [us(each) for each in ns.tolist()]
    return (ns / 1000).tolist()  # type: ignore[no-any-return]


def ratio(part: float | None, whole: float | None) -> float | None:
    """``part`` of ``whole``, None where either is unknown or there is no whole."""
    return None if part is None or not whole else round(part / whole, 6)


@overload
def text(value: str) -> str: ...
@overload
def text(value: str | None) -> str | None: ...
def text(value: str | None) -> str | None:
    """A text of the trace without characters that act on a terminal; None stays None."""
    return None if value is None else printable(value)
