"""Joins slices with rows of the profiler's tables, and compares our figures with those of the tables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from npu_tui.trace.arrays import I64
from npu_tui.trace.model import Trace

_CANN = "cann::"
_INPUT = re.compile(r"_in_\d+$")
"""The suffix that CANN appends for the memory of one input."""

# Offsets of a start that are tried in this order, ns: table and trace may round microseconds differently.
_OFF = (0, -1, 1)
_FARTHEST_NS = 10_000_000  # a collective of the same name farther away than this is another one


def rows_of_kernels(trace: Trace, items: I64, names: Sequence[str | None], start: I64) -> I64:
    """For each slice of ``items`` the row with its name and start (ns since 1970), -1 without one; (items,)."""
    code_of = {name: code for code, name in enumerate(trace.names)}
    codes = np.array([code_of.get(name, -1) if name is not None else -1 for name in names], np.int64)
    rows = np.flatnonzero(codes >= 0)
    rows = rows[np.lexsort((rows, start[rows], codes[rows]))]
    row_of = np.full(len(items), -1, np.int64)
    name, begin = trace.slices.name[items].astype(np.int64), trace.slices.start[items] + trace.start_ns
    # Exact starts first: a neighbour within a ns must not take the row of another slice.
    for off in _OFF:
        missing = np.flatnonzero(row_of < 0)
        row_of[missing] = _exact(codes[rows], start[rows], rows, name[missing], begin[missing] + off)
    return row_of


def _exact(codes: I64, start: I64, rows: I64, name: I64, begin: I64) -> I64:
    """The first of ``rows``, sorted by (code, start), for every (name, begin); -1 without one."""
    if not len(rows):
        return np.full(len(name), -1, np.int64)
    low = np.searchsorted(codes, name, "left")
    high = np.searchsorted(codes, name, "right")
    at = low.copy()
    # Starts are sorted only among rows of one name, so np.searchsorted does not apply: this is a binary search of
    # all queries at once, each in the span of its name.
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
    slice_of = np.full(len(names), -1, np.int64)
    for row, name in enumerate(names):
        candidates = np.array(of_name.get(name or "", []), np.int64)
        if len(candidates):
            away = np.abs(trace.slices.start[candidates] + trace.start_ns - start[row])
            nearest = int(np.argmin(away))
            # A single candidate is the one, however far the clocks of file and trace are apart.
            if away[nearest] <= _FARTHEST_NS or len(candidates) == 1:
                slice_of[row] = candidates[nearest]
    return slice_of


def operations_at(trace: Trace, names: Sequence[str | None], time: I64) -> I64:
    """For each row the innermost host slice with its name at ``time`` (ns since 1970), -1 without one; (rows,)."""
    lanes = [lane for lane in trace.file_lanes if trace.layer_of(lane.index).kind in ("python", "other")]
    hosts = np.concatenate([np.arange(lane.first, lane.last) for lane in lanes] or [np.zeros(0, np.int64)])
    code_of = {name: code for code, name in enumerate(trace.names)}
    codes = np.array([code_of.get(name, -1) if name is not None else -1 for name in names], np.int64)
    slice_of = np.full(len(names), -1, np.int64)
    wanted = np.zeros(len(trace.names) + 1, np.bool_)
    wanted[codes[codes >= 0]] = True
    hosts = hosts[wanted[trace.slices.name[hosts]]]
    hosts = hosts[np.lexsort((trace.slices.start[hosts], trace.slices.name[hosts]))]
    name = trace.slices.name[hosts]
    moment = time - trace.start_ns
    for code in np.unique(codes[codes >= 0]).tolist():
        namesakes = hosts[np.searchsorted(name, code, "left") : np.searchsorted(name, code, "right")]
        rows = np.flatnonzero(codes == code)
        if len(namesakes):
            slice_of[rows] = _innermost(
                trace.slices.start[namesakes], trace.slices.end[namesakes], namesakes, moment[rows]
            )
    return slice_of


def _innermost(start: I64, end: I64, items: I64, moment: I64) -> I64:
    """The one of ``items`` (by start) that began last among those around each ``moment``; -1 without one."""
    at = np.searchsorted(start, moment, "right") - 1
    reach = np.maximum.accumulate(end)
    innermost = np.full(len(moment), -1, np.int64)
    pending = np.flatnonzero(at >= 0)
    while len(pending):
        holds = end[at[pending]] >= moment[pending]
        innermost[pending[holds]] = items[at[pending[holds]]]
        pending = pending[~holds]
        at[pending] -= 1
        pending = pending[(at[pending] >= 0) & (reach[np.maximum(at[pending], 0)] >= moment[pending])]
    return innermost


def kernels_allocated_for(trace: Trace, kernels: I64, names: Sequence[str | None], time: I64) -> I64:
    """The kernel that each row of memory was allocated for, by its name; -1 for rows without one; (rows,).

    A row names the kernel ``cann::Conv2D1``, in databases ``Conv2D1``. Memory is allocated at the launch: the kernel is
    the first of that name that starts afterwards, or the last one where the clocks of host and device differ.
    """
    starts: dict[str, list[int]] = {}
    order = kernels[np.argsort(trace.slices.start[kernels], kind="stable")]
    for item in order.tolist():
        starts.setdefault(trace.name_of(item), []).append(item)
    kernel_of = np.full(len(names), -1, np.int64)
    for row, name in enumerate(names):
        if name is not None:
            namesakes = starts.get(_INPUT.sub("", name.removeprefix(_CANN)), [])
            if namesakes:
                at = int(np.searchsorted(trace.slices.start[namesakes], time[row] - trace.start_ns, "left"))
                kernel_of[row] = namesakes[min(at, len(namesakes) - 1)]
    return kernel_of


Tasks = tuple[I64, I64, Sequence[str | None]]
"""Stream id, task id and name of each task."""


def rows_of_tasks(tasks: Tasks, rows: Tasks) -> I64:
    """For each of ``tasks``, by start, its row of a table, -1 without one; (tasks,).

    A row without a name fits any task of its ids. Ids are reused in a long run. If a key has as many rows as tasks,
    they are paired in order; a single row belongs to all tasks; any other number is ambiguous and gives -1.
    """
    rows_by_key: dict[tuple[int, int, str | None], list[int]] = {}
    for row, (stream, task, name) in enumerate(zip(rows[0].tolist(), rows[1].tolist(), rows[2], strict=True)):
        rows_by_key.setdefault((stream, task, name), []).append(row)
    places_of_key: dict[tuple[int, int, str | None], list[int]] = {}
    for place, (stream, task, name) in enumerate(zip(tasks[0].tolist(), tasks[1].tolist(), tasks[2], strict=True)):
        key = (stream, task, name) if (stream, task, name) in rows_by_key else (stream, task, None)
        if key in rows_by_key:
            places_of_key.setdefault(key, []).append(place)
    row_of = np.full(len(tasks[0]), -1, np.int64)
    for key, places in places_of_key.items():
        rows_of_key = rows_by_key[key]
        if len(rows_of_key) in (1, len(places)):
            row_of[places] = rows_of_key
    return row_of


def task_ids(trace: Trace, items: I64) -> I64:
    """The task ids of the slices ``items`` from their args, -1 where absent. Raises like ``ArgReader.many``."""
    (values,) = trace.args.many(trace.slices.event[items], ("Task Id",))
    return np.array([value if type(value) is int and 0 <= value < 2**62 else -1 for value in values], np.int64)


Key = tuple[str, ...]
Figures = Mapping[str, int | None]
"""Figures of one row by name: counts, times in ns, memory in bytes."""


class Difference(Struct, frozen=True):
    """The figure ``name`` of the row ``key``: ours (None: we have no such row) and that of the file, counts or ns."""

    key: Key
    name: str
    ours: int | None
    theirs: int

    @property
    def away(self) -> float:
        """The distance of both; infinite where ours is missing."""
        return float("inf") if self.ours is None else abs(self.ours - self.theirs)


class JoinCheck(Struct, frozen=True):
    """The comparison with one file: its ``rows``, how many ``matched`` ours, and the differences, farthest first.

    ``compared`` counts figures, ``differing`` rows. ``ours_only`` counts rows that the file lacks.
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
) -> JoinCheck:
    """Compares rows by key. A figure in ``tolerance`` may differ by that much (ns), any other must be equal.

    A figure that one side lacks is not compared; a row of the file that we lack counts as differing.
    """
    differences: list[Difference] = []
    differing, compared = 0, 0
    for key, figures in theirs.items():
        our_figures = ours.get(key)
        if our_figures is None:
            differing += 1
            differences += [Difference(key, name, None, value) for name, value in figures.items() if value is not None][
                :1
            ]
            continue
        away = []
        for name, value in figures.items():
            our_value = our_figures.get(name)
            if our_value is None or value is None:
                continue
            compared += 1
            if abs(our_value - value) > tolerance.get(name, 0):
                away.append(Difference(key, name, our_value, value))
        differing += bool(away)
        differences += away
    differences.sort(key=lambda difference: -difference.away)
    matched = sum(key in ours for key in theirs)
    return JoinCheck(
        file, len(theirs), matched, compared, differing, tuple(differences), len(ours.keys() - theirs.keys())
    )
