"""Rows of overlapping slices, found while other things go on."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from npu_tui.ingest.errors import InputError, WorkerError
from npu_tui.ingest.json.reading.worker import ROWS, Pack
from npu_tui.ingest.json.reading.workers import Workers
from npu_tui.ingest.scanner.background import Background
from npu_tui.ingest.scanner.depth import first_fit
from npu_tui.ingest.scanner.library import library
from npu_tui.trace.depth import I32, I64, Crowds, crowds, packed

_WORTH = 1 << 16
"""Fewer slices than this are packed before the workers would have them."""


class Packing:
    """The rows of slices in the order of ``sort_slices``, which others begin to look for at once.

    Who does: the compiled library in a thread, else ``workers`` without tasks, else nobody before they are asked for.
    """

    def __init__(self, lane: I32, start: I64, end: I64, workers: Workers | None) -> None:
        self._compiled: Background[I32] | None = None
        found = library() if workers is None else None
        if found is not None:
            self._compiled = Background(lambda: first_fit(found, lane, start, end), len(lane) >= _WORTH)
            return
        self._crowds = crowds(lane, start, end)
        self._workers = workers if len(self._crowds.where) >= _WORTH else None
        if self._workers is not None:
            for number, piece in enumerate(_pieces(self._crowds, len(self._workers))):
                columns: list[Any] = [self._crowds.start[piece], self._crowds.until[piece], self._crowds.first[piece]]
                self._workers.ask(number, Pack(number, len(columns[0])), *columns)

    def depth(self) -> I32:
        """The row of every slice within its lane; (count,) int32. Raises ``WorkerError`` if a worker fails."""
        if self._compiled is not None:
            return self._compiled.result()
        crowds = self._crowds
        if self._workers is None:
            return crowds.depth(packed(crowds.start, crowds.until, crowds.first))
        rows: dict[int, I32] = {}
        while len(rows) < len(self._workers):
            _, part = self._workers.parts.get()
            if isinstance(part, InputError):
                raise WorkerError(part.message)
            rows[part.number] = part.columns[ROWS]
        return crowds.depth(np.concatenate([rows[number] for number in sorted(rows)]))


def _pieces(crowds: Crowds, count: int) -> list[slice]:
    """``count`` pieces of about the same size, each of whole crowds."""
    begins = np.flatnonzero(crowds.first)
    total = len(crowds.where)
    at = np.searchsorted(begins, np.arange(1, count) * total // count)
    cuts = [0, *np.append(begins, total)[at].tolist(), total]
    return [slice(low, high) for low, high in pairwise(cuts)]
