"""``PYTORCH_CALLCHAINS``: call stacks, one row per frame."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_tui.ingest.database.tables.rows import Tables
from npu_tui.ingest.database.tables.texts import Texts
from npu_tui.ingest.json.columns.codes import Codes

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]

FRAMES = ";\r\n"
"""Stands between the frames of a call stack, innermost first, as in a text trace."""

_MIX = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)
_PLACE = 0xD6E8FEB86659FD93
_SPREAD = 0xBF58476D1CE4E5B9
"""What frames are mixed with; two numbers of 64 bits tell stacks apart."""


def stack_codes(tables: Tables, texts: Texts, into: Codes[str]) -> tuple[I64, I32]:
    """The ids of all call stacks and the codes of their texts in ``into``; (stacks,) each.

    Equal stacks of many operations have one text, which is put together once.
    """
    table = tables.find("PYTORCH_CALLCHAINS")
    rows = tables.read(table, ("id", "stack", "stackDepth")) if table else None
    if rows is None or not len(rows):
        return np.zeros(0, np.int64), np.zeros(0, np.int32)
    chain, frame, depth = rows["id"], rows["stack"], rows["stackDepth"]
    step = np.diff(chain)
    if (step < 0).any() or (np.diff(depth)[step == 0] <= 0).any():
        order = np.lexsort((depth, chain))
        chain, frame = chain[order], frame[order]
    first, *marks = marked(chain, frame)
    last = np.append(first[1:], len(chain))
    _, example, of = np.unique(marks[0], return_index=True, return_inverse=True)
    if (marks[1] != marks[1][example][of]).any():
        _, example, of = np.unique(np.stack(marks, 1), axis=0, return_index=True, return_inverse=True)
    codes = []
    for low, high in zip(first[example].tolist(), last[example].tolist(), strict=True):
        codes.append(into[FRAMES.join(texts[number] for number in frame[low:high].tolist())])
    return chain[first], np.array(codes, np.int32)[of.reshape(-1)]


def marked(chain: I64, frame: I64) -> tuple[I64, U64, U64]:
    """The first row of every stack and two numbers that equal ones share, of rows that lie in order."""
    first = np.flatnonzero(np.diff(chain, prepend=chain[:1] - 1))
    place = (np.arange(len(chain)) - np.repeat(first, np.diff(first, append=len(chain)))).astype(np.uint64)
    frames = frame.astype(np.uint64) + np.uint64(1)
    marks = []
    for mix in _MIX:
        spread = frames * np.uint64(mix) + place * np.uint64(mix ^ _PLACE)
        spread = (spread ^ (spread >> np.uint64(29))) * np.uint64(_SPREAD)
        marks.append(np.add.reduceat(spread ^ (spread >> np.uint64(32)), first))
    return first, marks[0], marks[1]
