"""Slices joined with rows of files, and our figures against those of the profiler."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.trace.model import Trace

I64 = npt.NDArray[np.int64]

_CANN = "cann::"
_INPUT = re.compile(r"_in_\d+$")
"""What CANN appends for the memory of one input."""

_OFF = (0, -1, 1)
_FARTHEST_NS = 10_000_000
"""A collective of the same name that begins farther away is another one."""


def rows_of_kernels(trace: Trace, items: I64, names: Sequence[str | None], start: I64) -> I64:
    """For each slice of ``items`` the row with its name and start (ns since 1970), -1 without one; (items,)."""
    code_of = {name: code for code, name in enumerate(trace.names)}
    codes = np.array([code_of.get(name, -1) if name is not None else -1 for name in names], np.int64)
    rows = np.flatnonzero(codes >= 0)
    rows = rows[np.lexsort((rows, start[rows], codes[rows]))]
    found = np.full(len(items), -1, np.int64)
    name, begin = trace.slices.name[items].astype(np.int64), trace.slices.start[items] + trace.start_ns
    for off in _OFF:
        left = np.flatnonzero(found < 0)
        found[left] = _exact(codes[rows], start[rows], rows, name[left], begin[left] + off)
    return found


def _exact(codes: I64, start: I64, rows: I64, name: I64, begin: I64) -> I64:
    """The first of ``rows``, sorted by (code, start), for every (name, begin); -1 without one."""
    if not len(rows):
        return np.full(len(name), -1, np.int64)
    low = np.searchsorted(codes, name, "left")
    high = np.searchsorted(codes, name, "right")
    at = low.copy()
    # Starts are sorted only among rows of one name: a search for all of them at once, by halving each one's span.
    while len(pending := np.flatnonzero(at < high)):
        middle = (at[pending] + high[pending]) // 2
        later = start[middle] < begin[pending]
        at[pending[later]] = middle[later] + 1
        high[pending[~later]] = middle[~later]
    place = np.minimum(at, len(rows) - 1)
    hit = (at < len(rows)) & (codes[place] == name) & (start[place] == begin)
    return np.where(hit, rows[place], -1)


def slices_of_collectives(trace: Trace, items: I64, names: Sequence[str | None], start: I64) -> I64:
    """For each row the collective among ``items`` with its name whose start is nearest, -1 without one; (rows,)."""
    of_name: dict[str, list[int]] = {}
    for item in items.tolist():
        of_name.setdefault(trace.name_of(item), []).append(item)
    found = np.full(len(names), -1, np.int64)
    for row, name in enumerate(names):
        candidates = np.array(of_name.get(name or "", []), np.int64)
        if len(candidates):
            away = np.abs(trace.slices.start[candidates] + trace.start_ns - start[row])
            nearest = int(np.argmin(away))
            if away[nearest] <= _FARTHEST_NS or len(candidates) == 1:
                found[row] = candidates[nearest]
    return found


def operations_at(trace: Trace, names: Sequence[str | None], time: I64) -> I64:
    """For each row the innermost host slice with its name at ``time`` (ns since 1970), -1 without one; (rows,)."""
    lanes = [lane for lane in trace.file_lanes if trace.layer_of(lane.index).kind in ("python", "other")]
    hosts = np.concatenate([np.arange(lane.first, lane.last) for lane in lanes] or [np.zeros(0, np.int64)])
    code_of = {name: code for code, name in enumerate(trace.names)}
    codes = np.array([code_of.get(name, -1) if name is not None else -1 for name in names], np.int64)
    found = np.full(len(names), -1, np.int64)
    wanted = np.zeros(len(trace.names) + 1, np.bool_)
    wanted[codes[codes >= 0]] = True
    hosts = hosts[wanted[trace.slices.name[hosts]]]
    hosts = hosts[np.lexsort((trace.slices.start[hosts], trace.slices.name[hosts]))]
    name = trace.slices.name[hosts]
    moment = time - trace.start_ns
    for code in np.unique(codes[codes >= 0]).tolist():
        own = hosts[np.searchsorted(name, code, "left") : np.searchsorted(name, code, "right")]
        rows = np.flatnonzero(codes == code)
        if len(own):
            found[rows] = _innermost(trace.slices.start[own], trace.slices.end[own], own, moment[rows])
    return found


def _innermost(start: I64, end: I64, items: I64, moment: I64) -> I64:
    """The one of ``items`` (by start) that began last among those that hold each ``moment``; -1 without one."""
    at = np.searchsorted(start, moment, "right") - 1
    reach = np.maximum.accumulate(end)
    found = np.full(len(moment), -1, np.int64)
    left = np.flatnonzero(at >= 0)
    while len(left):
        holds = end[at[left]] >= moment[left]
        found[left[holds]] = items[at[left[holds]]]
        left = left[~holds]
        at[left] -= 1
        left = left[(at[left] >= 0) & (reach[np.maximum(at[left], 0)] >= moment[left])]
    return found


def kernels_allocated_for(trace: Trace, kernels: I64, names: Sequence[str | None], time: I64) -> I64:
    """For each row that names a kernel (``cann::Conv2D1``, in databases ``Conv2D1``) the one it is for; (rows,).

    The memory is allocated when the kernel is launched: it is the first one of the name to start afterwards, or the
    last one where host and device differ by their clocks; -1 for any other row.
    """
    starts: dict[str, list[int]] = {}
    order = kernels[np.argsort(trace.slices.start[kernels], kind="stable")]
    for item in order.tolist():
        starts.setdefault(trace.name_of(item), []).append(item)
    found = np.full(len(names), -1, np.int64)
    for row, name in enumerate(names):
        if name is not None:
            own = starts.get(_INPUT.sub("", name.removeprefix(_CANN)), [])
            if own:
                at = int(np.searchsorted(trace.slices.start[own], time[row] - trace.start_ns, "left"))
                found[row] = own[min(at, len(own) - 1)]
    return found


Tasks = tuple[I64, I64, Sequence[str | None]]
"""Stream, task and name of each of them."""


def rows_of_tasks(tasks: Tasks, rows: Tasks) -> I64:
    """For each of ``tasks``, by start, its row of a table, -1 without one; (tasks,).

    A row without a name is that of any. Ids come again in a long run: as many rows as tasks of the same ids and name
    belong to each other in turn, one row to all of them, and of any other number nobody knows which.
    """
    known: dict[tuple[int, int, str | None], list[int]] = {}
    for row, (stream, task, name) in enumerate(zip(rows[0].tolist(), rows[1].tolist(), rows[2], strict=True)):
        known.setdefault((stream, task, name), []).append(row)
    alike: dict[tuple[int, int, str | None], list[int]] = {}
    for place, (stream, task, name) in enumerate(zip(tasks[0].tolist(), tasks[1].tolist(), tasks[2], strict=True)):
        key = (stream, task, name) if (stream, task, name) in known else (stream, task, None)
        if key in known:
            alike.setdefault(key, []).append(place)
    found = np.full(len(tasks[0]), -1, np.int64)
    for key, places in alike.items():
        own = known[key]
        if len(own) in (1, len(places)):
            found[places] = own
    return found


def task_ids(trace: Trace, items: I64) -> I64:
    """The task ids of the slices ``items``, from their args, -1 where absent; raises as ``ArgReader.many`` does."""
    (found,) = trace.args.many(trace.slices.event[items], ("Task Id",))
    return np.array([value if type(value) is int and 0 <= value < 2**62 else -1 for value in found], np.int64)


Key = tuple[str, ...]
Figures = Mapping[str, int | None]
"""Figures of one row by name: counts, times in ns, memory in bytes."""


class Difference(Struct, frozen=True):
    """The figure ``name`` of the row ``key``: ``ours`` and what the file says, counts or ns."""

    key: Key
    name: str
    ours: int | None
    theirs: int

    @property
    def away(self) -> float:
        """How far apart they are, infinitely where we have none."""
        return float("inf") if self.ours is None else abs(self.ours - self.theirs)


class Check(Struct, frozen=True):
    """One file: its ``rows``, how many of them have a row of ours, and what differs, the farthest first.

    ``compared`` counts figures. ``ours_only`` are rows of ours that the file does not have.
    """

    file: str
    rows: int
    matched: int
    compared: int
    differing: int
    differences: tuple[Difference, ...]
    ours_only: int


def cross_check(
    file: str, ours: Mapping[Key, Figures], theirs: Mapping[Key, Figures], tolerance: Mapping[str, int]
) -> Check:
    """The rows of both by key; figures of ``tolerance`` (ns) may differ by that, others must be equal.

    A figure that either side does not have is not compared; a row that we do not have differs.
    """
    found: list[Difference] = []
    differing, compared = 0, 0
    for key, figures in theirs.items():
        own = ours.get(key)
        if own is None:
            differing += 1
            found += [Difference(key, name, None, value) for name, value in figures.items() if value is not None][:1]
            continue
        away = []
        for name, value in figures.items():
            mine = own.get(name)
            if mine is None or value is None:
                continue
            compared += 1
            if abs(mine - value) > tolerance.get(name, 0):
                away.append(Difference(key, name, mine, value))
        differing += bool(away)
        found += away
    found.sort(key=lambda each: -each.away)
    matched = sum(key in ours for key in theirs)
    return Check(file, len(theirs), matched, compared, differing, tuple(found), len(ours.keys() - theirs.keys()))
