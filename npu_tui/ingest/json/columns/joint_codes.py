"""Values that come together, numbered by one look-up and taken apart into the codes of each later."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from npu_tui.ingest.json.columns.codes import Codes


class JointCodes:
    """Numbers the combinations of a process, a thread and further values; few differ, however many events there are.

    ``threads`` numbers pairs of process and thread, the other ``dictionaries`` one value each.
    """

    def __init__(self, threads: Codes[tuple[int, int]], *dictionaries: Codes[str]) -> None:
        self._threads = threads
        self._dictionaries = dictionaries
        self._numbers: Codes[tuple[Any, ...]] = Codes()
        self._table = np.zeros((1 + len(dictionaries), 0), np.int32)
        self._found: list[npt.NDArray[np.int32]] = []

    def add(self, *columns: list[Any]) -> None:
        """Take in processes, threads and the further values, one of each per event."""
        numbers = map(self._numbers.__getitem__, zip(*columns, strict=True))
        self._found.append(np.fromiter(numbers, np.int32, len(columns[0])))

    def take(self) -> npt.NDArray[np.int32]:
        """The codes of all events since the last call: one row per dictionary, one column per event."""
        news = [
            [self._threads[pid, tid], *(codes[value] for codes, value in zip(self._dictionaries, values, strict=True))]
            for pid, tid, *values in self._numbers.since(self._table.shape[1])
        ]
        if news:
            self._table = np.concatenate((self._table, np.array(news, np.int32).T), axis=1)
        found, self._found = np.concatenate([np.zeros(0, np.int32), *self._found]), []
        return np.take(self._table, found, axis=1)
