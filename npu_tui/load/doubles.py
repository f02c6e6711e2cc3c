"""Events that a file holds twice: an exporter appended again, or files of one process were put together.

Equal events are distinguished where possible: a device runs one task of a stream at a time, so two equal ones mean that
the file holds events twice. Equal events of the host alone may be two calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec.structs import fields

from npu_tui.trace.arrays import I8, I32, I64, Bools
from npu_tui.trace.model import Links

if TYPE_CHECKING:
    import polars as pl


def again(same: Bools, values: npt.NDArray[Any]) -> Bools:
    """Which of some sorted events equal one before them; (n,).

    ``same`` says which have the keys of the one before them, (n,); among those ``values`` tell them apart.
    """
    found = np.zeros(len(same), np.bool_)
    rows = np.flatnonzero(same | np.append(same[1:], False))
    if len(rows):
        group = np.cumsum(~same[rows])
        order = np.lexsort((values[rows], group))
        rows, group = rows[order], group[order]
        found[rows[1:]] = (group[1:] == group[:-1]) & (values[rows][1:] == values[rows][:-1])
    return found


def doubled_slices(lane: I32, start: I64, end: I64, streams: Bools, names: Callable[[], I32]) -> tuple[Bools, int]:
    """Which slices equal one before them in lane, name, start and end and count no more, (n,); how many others do.

    The slices are sorted by lane, start and end; ``names`` gives the name of each. ``streams`` says which lanes hold
    the tasks of a device, which runs one of a stream at a time: where it would have run two, the file holds events
    twice, and those of the host that are equal are doubles too. Alone they may be calls that begin and end together.
    """
    same = np.append(False, (lane[1:] == lane[:-1]) & (start[1:] == start[:-1]) & (end[1:] == end[:-1]))[: len(lane)]
    if not same.any():
        return same, 0
    doubled = again(same, names())
    if (doubled & (end > start) & streams[lane]).any():
        return doubled, 0
    return np.zeros(len(lane), np.bool_), int(np.count_nonzero(doubled))


def doubled_ends(key: I32, phase: I8, thread: I32, time: I64) -> Bools:
    """Which ends of links equal one before them in all of that; (n,)."""
    found = np.zeros(len(key), np.bool_)
    for here in (np.flatnonzero(phase == one) for one in range(int(phase.max(initial=-1)) + 1)):
        several = here[np.bincount(key[here])[key[here]] > 1] if len(here) else here
        order = several[np.lexsort((several, time[several], thread[several], key[several]))]
        columns = (column[order] for column in (key, thread, time))
        equal = np.logical_and.reduce([column[1:] == column[:-1] for column in columns])
        found[order[1:][equal]] = True
    return found


def first_rows(frame: pl.DataFrame, moments: Sequence[str]) -> Bools | None:
    """The rows of ``frame`` that equal none before them; (n,), None if that are all. ``moments`` are its times."""
    order, same = _side_by_side(frame.select(moments).hash_rows().to_numpy())
    if not same.any():
        return None
    rows = np.sort(order[np.append(same, False) | np.append(False, same)])
    pieces = [frame[rows[at : at + _TOGETHER]].hash_rows() for at in range(0, len(rows), _TOGETHER)]
    order, same = _side_by_side(np.concatenate(pieces))
    doubled, first = rows[order[1:][same]], rows[order[:-1][same]]
    equal = np.ones(len(doubled), np.bool_)
    for at in range(0, len(doubled), _TOGETHER):
        part = slice(at, at + _TOGETHER)
        for column in frame:
            equal[part] &= column.gather(first[part]).eq_missing(column.gather(doubled[part])).to_numpy()
    kept = np.ones(len(frame), np.bool_)
    kept[doubled[equal]] = False
    return None if kept.all() else kept


_TOGETHER = 1 << 16  # rows that are copied to be compared at a time: a file may hold all of its rows twice


def _side_by_side(hashes: npt.NDArray[Any]) -> tuple[I64, Bools]:
    """Rows in an order in which equal ones follow each other, (n,), and which are like the one before, (n - 1,).

    They are like it by their ``hashes``: compared as structs the rows take ten times as much memory.
    """
    order = np.argsort(hashes, kind="stable")
    return order, hashes[order[1:]] == hashes[order[:-1]]


def distinct_links(links: Links) -> Links:
    """``links`` without those that equal another one in everything but their place in the file."""
    columns = ("key", "source_time", "target_time", "source_slice", "target_slice", "source_lane", "target_lane")
    rows = np.stack([getattr(links, name).astype(np.int64) for name in columns], axis=1)
    first = np.sort(np.unique(rows, axis=0, return_index=True)[1])
    return Links(**{field.name: getattr(links, field.name)[first] for field in fields(Links)})
