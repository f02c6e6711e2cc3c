"""Numbers and texts as reports write them: ratios with six decimals, harmless texts."""

from __future__ import annotations

from typing import overload

from npu_tui.trace.text import printable


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
