"""Some args of many events of a trace as columns, by the compiled library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from npu_tui.ingest.scanner.elements import Elements
from npu_tui.native.layout import CHOSEN_REGION, CHOSEN_UNREAD, CHOSEN_WORD
from npu_tui.native.library import Library

I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]

_WORD_BYTES = 8
_TEXTS = 1 << 11
_HEAP = 1 << 18
"""So many different texts and bytes of them; events with more are left unread."""


class ChosenArgs:
    """The args ``keys`` of events in ``pieces`` of the file, ``most`` of which are read at a time.

    There is a row for each event; ``positions`` (n,) are those in their pieces. ``values`` and ``kinds``
    (``CHOSEN_ABSENT`` and the others) are (keys, n).
    """

    def __init__(self, library: Library, pieces: Elements, most: int, keys: Sequence[str], positions: I64) -> None:
        self._library = library
        names = [key.encode() for key in keys]
        places = np.cumsum([0] + [len(name) for name in names])
        rows = len(positions)
        self.values = np.zeros((len(keys), rows), np.int64)
        self.kinds = np.zeros((len(keys), rows), np.uint8)
        self._entries, self._heap = np.zeros((_TEXTS, 3), np.int64), np.zeros(_HEAP, np.uint8)
        self._pieces = np.zeros((most, 4), np.int64)
        self._arrays: dict[str, npt.NDArray[Any]] = {
            "text": pieces.text,
            "pieces": self._pieces,
            "bounds": pieces.found,
            "positions": np.ascontiguousarray(positions, np.int64),
            "keys": np.array([[at, len(name)] for at, name in zip(places[:-1].tolist(), names, strict=True)], np.int64),
            "letters": np.frombuffer(b"".join(names) + bytes(_WORD_BYTES), np.uint8),
            "values": self.values,
            "kinds": self.kinds,
            "slots": np.zeros(2 * _TEXTS, np.int32),
            "entries": self._entries,
            "heap": self._heap,
        }
        self._plan = np.zeros(2 * len(CHOSEN_REGION) + len(CHOSEN_WORD), np.int64)
        for name, word in CHOSEN_REGION.items():
            self._plan[word : word + 2] = self._arrays[name].ctypes.data, self._arrays[name].nbytes
        self._plan[CHOSEN_WORD["count"]], self._plan[CHOSEN_WORD["rows"]] = len(keys), rows

    def take(self, first: int, pieces: I64) -> I64:
        """Read the rows from ``first`` on of ``pieces`` that lie in the text; those that are left unread.

        Each piece is its offset in the text, its length, how many events it has, and the row after its last; (n, 4).
        """
        self._pieces[: len(pieces)] = pieces
        self._plan[CHOSEN_WORD["asked"]] = len(pieces)
        if not self._library.chosen(self._plan, self._plan.nbytes, first):
            return np.zeros(0, np.int64)
        return first + np.flatnonzero(self.kinds[0, first : int(pieces[-1, 3])] == CHOSEN_UNREAD)

    @property
    def texts(self) -> list[str]:
        """The texts that values of ``CHOSEN_TEXT`` are the places of."""
        known = self._entries[: int(self._plan[CHOSEN_WORD["known"]])]
        data = self._heap[: int(self._plan[CHOSEN_WORD["used"]])].tobytes()
        return [data[at : at + length].decode() for _, at, length in known.tolist()]
