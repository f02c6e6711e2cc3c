"""How the height of the terminal is shared: what stands above the lanes, and the panel below them."""

from __future__ import annotations

BARS_FROM = 30
"""Rows of the terminal from which there are bars above the lanes."""

HEADS_FROM = 30
"""Layers have rows of their own on terminals of at least this many rows."""

PANEL_FROM = 36
"""Rows of the terminal from which the panel is shown without being asked for."""

_VERDICT_ROWS = ((30, 2), (14, 1))
"""From how many rows of the terminal on there are so many lines of the verdict."""

_WHOLE_FROM = 24
"""Rows of the terminal from which there are two of them without the panel, for a first line that one would cut."""

_PANEL_ROWS = ((45, 10), (36, 8))
_SMALL = 8
_ABOVE = 9
"""Rows for what stands above the lanes, three of them, and the bottom line."""


def verdict_rows(height: int) -> int:
    """The findings that the verdict tells on a terminal of ``height`` rows, with a line for each."""
    return next((rows for least, rows in _VERDICT_ROWS if height >= least), 0)


def verdict_lines(height: int, with_panel: bool) -> int:
    """The lines that the verdict takes at most on a terminal of ``height`` rows."""
    return 2 if height >= _WHOLE_FROM and not with_panel else verdict_rows(height)


def panel_rows(height: int) -> int:
    """The rows of the panel on a terminal of ``height`` rows, while it is neither grown nor dragged."""
    rows = next((rows for least, rows in _PANEL_ROWS if height >= least), _SMALL)
    return min(rows, max(min(height // 2, height - _ABOVE), 3))
