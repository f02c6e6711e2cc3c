"""What a bar is called: a ladder of ever shorter names, safe for a terminal, ready as code points."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from npu_tui.trace.text import cell_count, char_cells, drawable
from npu_tui.view.cells.grid import CONTINUED, U32
from npu_tui.view.spans import I64

RUNGS = 4
ELLIPSIS = "…"
_LONGEST = 400
_MISSING = -1

_SOURCE = re.compile(r"^(?:.*/)?(?P<file>[^/()]+\.py)\((?P<line>\d+)\): (?P<function>.+)$")
_BUILT_IN = re.compile(r"^<built-in (?:method|function) (?P<function>[^ >]+).*>$")
_MODULE = re.compile(r"^nn\.Module: (?P<name>.+)$")
_STEP = re.compile(r"^ProfilerStep(?P<number>#\d+)$")
_QUEUED = re.compile(r"^(?:\w+)@(?P<name>.+)$")
_GROUP = re.compile(r"^hcom_(?P<name>[A-Za-z0-9]+?)_?(?:__.*|_\d[\d_]*)?$")
_KERNEL = re.compile(r"^(?:aclnn\w+?|aclop\w*?)_(?:\w+_)?(?P<kernel>[A-Za-z0-9]+)$")


def ladder(name: str) -> list[str]:
    """``name`` and its shorter forms, longest first, each safe to draw."""
    steps = [drawable(name)]
    for shorter in _shorter(steps[0]):
        if 0 < cell_count(shorter) < cell_count(steps[-1]):
            steps.append(shorter)
    return steps[:RUNGS]


def _shorter(name: str) -> list[str]:
    if match := _SOURCE.match(name):
        return [f"{match['function']} {match['file']}:{match['line']}", match["function"]]
    if match := _BUILT_IN.match(name):
        return [match["function"]]
    if match := _MODULE.match(name):
        return [match["name"], re.sub(r"_\d+$", "", match["name"])]
    if match := _STEP.match(name):
        return [match["number"]]
    if match := _GROUP.match(name):
        return [match["name"]]
    if match := _KERNEL.match(name):
        return [match["kernel"]]
    if match := _QUEUED.match(name):
        return [match["name"], *_shorter(match["name"])]
    if "::" in name:
        tail = name.partition("::")[2] if name.startswith(("aten::", "c10d::", "npu::")) else name.rpartition("::")[2]
        return [tail, tail.rpartition(": ")[2]]
    if "#" in name:
        return [name.rpartition("#")[2]]
    return []


def cut_middle(text: str, room: int) -> str:
    """``text`` in at most ``room`` cells, the middle left out: names of threads and groups differ at their ends."""
    if cell_count(text) <= room:
        return text
    tail = min(room // 2 + 1, room - 2) if room > 2 else room - 1
    end = cut_end(text[::-1], max(tail, 0))[::-1]
    return cut_end(text, room - 1 - cell_count(end)) + ELLIPSIS + end if room > 0 else ""


def cut_end(text: str, room: int) -> str:
    """The beginning of ``text`` that fits ``room`` cells."""
    if text.isascii():
        return text[:room]
    for length, char in enumerate(text):
        room -= char_cells(char)
        if room < 0:
            return text[:length]
    return text


def points(text: str) -> U32:
    """The code points of ``text``, one per cell: the second cell of a wide character is ``CONTINUED``."""
    if not text.isascii():
        text = "".join(char if char_cells(char) < 2 else f"{char}{chr(CONTINUED)}" for char in text)
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


class Labels:
    """The ladders of one trace's names, made when a name first comes into view."""

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self._offset = np.zeros((len(names), RUNGS), np.int64)
        self._length = np.full((len(names), RUNGS), _MISSING, np.int64)
        self._text = np.zeros(1 << 12, np.uint32)
        self._used = 0
        self.wide = False
        """Whether any label made so far has characters of two cells."""

    @property
    def text(self) -> U32:
        """Code points of all labels made so far; ``fit`` answers with places in it."""
        return self._text

    def fit(self, names: I64, room: I64) -> tuple[I64, I64, npt.NDArray[np.bool_]]:
        """Place and length in ``text`` of the longest label that fits ``room`` cells, and whether it had to be cut.

        A cut label is given in full room: its last cell is meant for the ellipsis.
        """
        for code in np.unique(names[self._length[names, 0] == _MISSING]).tolist():
            self._make(code)
        lengths = self._length[names]
        fits = lengths <= room[:, None]
        cut = ~fits[:, -1]
        rung = np.where(cut, RUNGS - 1, fits.argmax(axis=1))
        which = np.arange(len(names))
        return self._offset[names, rung], np.minimum(lengths[which, rung], room), cut

    def _make(self, code: int) -> None:
        steps = ladder(self._names[code][:_LONGEST])
        steps += [steps[-1]] * (RUNGS - len(steps))
        for rung, label in enumerate(map(points, steps)):
            if self._used + len(label) > len(self._text):
                larger = np.zeros(max(2 * len(self._text), self._used + len(label)), np.uint32)
                larger[: self._used] = self._text[: self._used]
                self._text = larger
            self._text[self._used : self._used + len(label)] = label
            self.wide = self.wide or bool((label == CONTINUED).any())
            self._offset[code, rung], self._length[code, rung] = self._used, len(label)
            self._used += len(label)
