"""Where the events of a piece of a trace begin and end, by the compiled library."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_tui.native.layout import PADDING
from npu_tui.native.library import Library

I64 = npt.NDArray[np.int64]


class Elements:
    """Room for pieces of a trace, read into ``view`` one after the other."""

    def __init__(self, library: Library, most_bytes: int, most_events: int) -> None:
        """For pieces of at most so many bytes and events."""
        self._library = library
        self.text = np.zeros(most_bytes + PADDING, np.uint8)
        self.found = np.empty((most_events, 2), np.int64)
        self.view = self.text.data
        """Where the bytes of a piece are to be written."""

    def bounds(self, length: int, count: int, offset: int = 0) -> I64 | None:
        """Begin and end of each of the ``count`` events in ``length`` bytes of ``view`` from ``offset`` on, (n, 2).

        None if there are others. The next call overwrites them. Only quotes and brackets are looked at.
        """
        text = self.text[offset:]
        known = self._library.elements(text, length, len(text), self.found, len(self.found))
        return self.found[:count] if known == count else None
