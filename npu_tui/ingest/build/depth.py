"""Rows of overlapping slices, found by idle workers while this process goes on."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from npu_tui.ingest.errors import InputError, WorkerError
from npu_tui.ingest.json.reading.worker import ROWS, Pack
from npu_tui.ingest.json.reading.workers import Workers
from npu_tui.trace.depth import I32, Crowds, packed

_WORTH = 1 << 16
"""Fewer slices than this are packed before the workers would have them."""


class Packing:
    """The rows of ``crowds``, which ``workers`` without tasks begin to look for at once."""

    def __init__(self, crowds: Crowds, workers: Workers | None) -> None:
        self._crowds = crowds
        self._workers = workers if len(crowds.where) >= _WORTH else None
        if self._workers is not None:
            for number, piece in enumerate(_pieces(crowds, len(self._workers))):
                columns: list[Any] = [crowds.start[piece], crowds.until[piece], crowds.first[piece]]
                self._workers.ask(number, Pack(number, len(columns[0])), *columns)

    def depth(self) -> I32:
        """The row of every slice within its lane; (count,) int32. Raises ``WorkerError`` if a worker fails."""
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
