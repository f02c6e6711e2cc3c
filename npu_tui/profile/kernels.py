"""The kernels of a profile with their rows of kernel_details and l2_cache, joined once by ``CompanionTables``.

Also who had the CPU while launches were late, by a recording of the scheduler put on the clock of the profile; and the
steps of an inference engine: by annotations, else by launches of graphs, else by the rhythm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from npu_tui.analysis.cpu_time import CpuTime, running_share
from npu_tui.analysis.device import DeviceSlices, Window
from npu_tui.analysis.engine_steps import EngineSteps, engine_steps, kinds_by_kernels, padded_by_shapes
from npu_tui.analysis.joins import rows_of_tasks
from npu_tui.analysis.kernels import RATIOS, Coded, KernelTable, from_trace, waits, with_details
from npu_tui.analysis.launches import Dispatch
from npu_tui.analysis.modules import ShapesOf
from npu_tui.analysis.operators import kernel_types
from npu_tui.analysis.overlap import Intervals
from npu_tui.analysis.rhythm import Basis, is_serving
from npu_tui.analysis.steps import Step, called_steps
from npu_tui.load.companion_schema import COLLECTIVE_CORES, KERNELS, L2_CACHE, SOC_PMU
from npu_tui.load.companions import Recording, recording_beside
from npu_tui.load.errors import InputError
from npu_tui.load.find import Source
from npu_tui.load.times import INVALID
from npu_tui.native.spans import count_until
from npu_tui.profile.companions import CompanionTables
from npu_tui.trace.arrays import F64, I64, Bools
from npu_tui.trace.intervals import intersection
from npu_tui.trace.message import Message, message
from npu_tui.trace.model import Trace
from npu_tui.trace.scheduling import State

if TYPE_CHECKING:
    from npu_tui.rules.facts import Facts


def kernels_of(trace: Trace, items: I64, devices: list[DeviceSlices], tables: CompanionTables) -> KernelTable:
    """All kernels of ``devices``, the ascending ``items``, by start; those of kernel_details where there are none."""
    if not len(items):
        return _from_rows(_Cells(tables), tables)
    table = from_trace(trace, items, kernel_types(trace, items), _wait_before_each(trace, devices, items))
    place = count_until(items, table.item) - 1
    if tables.has(KERNELS.stem):
        cells = _Cells(tables)
        table = with_details(table, tables.kernel_rows[place], cells.columns, cells.cells)
    if tables.has(SOC_PMU.stem):
        table = replace(table, details=table.details | _rates(tables, place))
    return replace(table, hit_rate=_hits(tables)[place]) if tables.has(L2_CACHE.stem) else table


def _rates(tables: CompanionTables, place: I64) -> dict[str, Coded]:
    """The TLB rates of the compute slices at ``place``, unknown without a row of soc_pmu."""
    try:
        row = tables.soc_rows[place]
    except InputError:  # as for L2
        return {}
    frame = tables.table(SOC_PMU.stem).frame
    cells = {name: [*frame[name].to_list(), None] for name in ("tlb_hit_rate", "tlb_miss_rate")}
    return {
        name: Coded.of(None if values[at] is None else str(values[at]) for at in row.tolist())
        for name, values in cells.items()
    }


def _hits(tables: CompanionTables) -> F64:
    """The hit rate of L2 of every compute slice, not-a-number without one."""
    try:
        row = tables.cache_rows
    except InputError:  # the ids of the tasks are args of a trace that is gone
        return np.full(len(tables.kernel_rows), np.nan)
    rate = tables.table(L2_CACHE.stem).frame["hit_rate"].fill_null(np.nan).to_numpy()
    return np.append(rate, np.nan)[row]


def _wait_before_each(trace: Trace, devices: list[DeviceSlices], items: I64) -> I64:
    """What each of the ascending ``items``, all compute slices, waited on its device, ns; (n,)."""
    slices = trace.slices
    waited = np.zeros(len(items), np.int64)
    for device in devices:
        others = np.flatnonzero(device.collective)
        computing = np.flatnonzero(device.compute)
        waited[count_until(items, computing) - 1] = waits(
            slices.start[computing], slices.end[computing], slices.start[others], slices.end[others]
        )
    return waited


class _Cells:
    """kernel_details by the columns of its schema."""

    def __init__(self, tables: CompanionTables) -> None:
        reading = tables.table(KERNELS.stem) if tables.has(KERNELS.stem) else None
        self._frame = None if reading is None or not len(reading.frame) else reading.frame
        self.columns: list[str] = [] if reading is None or self._frame is None else list(reading.headings)

    def cells(self, column: str) -> Sequence[str | None] | None:
        """The cells of ``column`` as texts, None without it."""
        if self._frame is None or column not in self.columns:
            return None
        return [None if value is None else str(value) for value in self._frame[column].to_list()]

    def whole(self, column: str) -> I64:
        """The whole numbers of ``column``, ``INVALID`` where there is none."""
        if self._frame is None or column not in self.columns:
            return np.full(0 if self._frame is None else len(self._frame), INVALID)
        return self._frame[column].fill_null(INVALID).to_numpy().astype(np.int64)


def _from_rows(table: _Cells, tables: CompanionTables) -> KernelTable:
    """The kernels of kernel_details.csv alone, for a profile whose trace has none."""
    start, length = table.whole("start"), table.whole("duration")
    cores = table.cells("core") or [None] * len(start)
    known = (start != INVALID) & (length != INVALID)
    rows = np.flatnonzero(known & np.array([core not in COLLECTIVE_CORES for core in cores], np.bool_))
    rows = rows[np.argsort(start[rows], kind="stable")]
    others = np.setdiff1d(np.flatnonzero(known), rows)
    begin = start - tables.start_ns
    names, nothing = Coded.of(table.cells("name") or []), Coded([], np.full(len(rows), -1, np.int64))
    unknown = np.full(len(rows), np.nan)
    gap = waits(begin[rows], begin[rows] + length[rows], begin[others], begin[others] + length[others])
    bare = KernelTable(
        np.full(len(rows), -1, np.int64), begin[rows], length[rows], gap, names.taken(rows), nothing, nothing, nothing,
        nothing, nothing, nothing, unknown, unknown, dict.fromkeys(RATIOS, unknown), unknown,
    )  # fmt: skip
    if not len(rows):
        return bare
    kernels = with_details(bare, rows, table.columns, table.cells)
    return replace(kernels, hit_rate=_hits_of_rows(table, tables, rows)) if tables.has(L2_CACHE.stem) else kernels


def _hits_of_rows(table: _Cells, tables: CompanionTables, rows: I64) -> F64:
    """The hit rate of L2 of the rows ``own`` of kernel_details, by start; not-a-number without one."""
    cache, names = tables.table(L2_CACHE.stem).frame, table.cells("name")
    stream, task = table.whole("stream"), table.whole("task")
    if not len(cache) or names is None:
        return np.full(len(rows), np.nan)
    wanted = stream[rows], task[rows], [names[row] for row in rows.tolist()]
    of_stream, of_task = (cache[name].fill_null(INVALID).to_numpy().astype(np.int64) for name in ("stream", "task"))
    row = rows_of_tasks(wanted, (of_stream, of_task, cache["name"].to_list()))
    return np.append(cache["hit_rate"].fill_null(np.nan).to_numpy(), np.nan)[row]


def shapes_in(trace: Trace) -> ShapesOf:
    """The reader of the ``Input Dims`` of operations of ``trace``."""

    def shapes_of(operations: I64) -> list[object]:
        try:
            (shapes,) = trace.args.many(trace.slices.event[operations], ("Input Dims",))
        except InputError:  # the file of the trace is gone
            return [None] * len(operations)
        return list(shapes)

    return shapes_of


def types_of(trace: Trace, items: I64, compute: Bools, table: Callable[[], KernelTable]) -> tuple[list[str], I64]:
    """The distinct operator types of the slices ``items`` (n,), and which one each has; (n,).

    A kernel (``compute`` says which slices are) has the type of its row in ``table``, a slice without a row the one in
    its name.
    """
    types, code = kernel_types(trace, items)
    kernels = np.flatnonzero(compute[items])
    if not len(kernels):
        return types, code
    known = table().of_slices(items[kernels]).type
    kernels, known = kernels[known.code >= 0], known.taken(np.flatnonzero(known.code >= 0))
    code[kernels] = len(types) + known.code
    distinct, code = np.unique(code, return_inverse=True)
    every = [*types, *known.values]
    merged: dict[str, int] = {}
    place = [merged.setdefault(every[kind], len(merged)) for kind in distinct.tolist()]
    return list(merged), np.array(place, np.int64)[code]


_RUNS = 0.9  # share of the slices of a thread that must begin while it runs: on the right clock nearly all do
_AHEAD = 0.02  # how much better the thread of one container must fit than that of another, as a share
_MOST_THREADS = 2_000
_EDGE = 0.02
"""Share of the trace that a recording may leave out at either end without a word."""


def cpu_time(source: Source | None, trace: Trace, devices: Sequence[Dispatch]) -> CpuTime | Message | None:
    """Who had the CPU by the recording beside the profile; why that is not known; None without a recording."""
    recording = None if source is None else recording_beside(source)
    if recording is None:
        return None
    try:
        scheduling = recording.load()
    except InputError as error:
        return error.message
    except OSError as error:
        return message("input.unreadable", path=str(recording.path), why=error.strerror or str(error))
    offsets = (0,) if scheduling.is_absolute else recording.offsets
    words = {"path": str(recording.path)}
    if not offsets:
        return message("cpu.no_clock", **words)
    covering = []
    for offset in offsets:
        moved = scheduling.shifted(offset - trace.start_ns)
        if moved.first < trace.end and moved.last > 0:
            covering.append(_matched(CpuTime(trace, devices, moved), recording))
    if not covering:
        there = [scheduling.shifted(offset - trace.start_ns) for offset in offsets]
        return message("cpu.other_time", gap=min(max(at.first - trace.end, -at.last) for at in there), **words)
    best = max(covering, key=lambda placed: len(placed.threads))
    if not best.threads:
        return best.unknown[0] if best.unknown else message("cpu.no_thread", **words)
    return best


def _matched(placed: CpuTime, recording: Recording) -> CpuTime:
    """``placed`` with the threads that are certain, and why others are not."""
    trace, scheduling = placed.trace, placed.scheduling
    processes = {mapped.task: mapped.process for mapped in recording.threads}
    inside = {mapped.task: mapped.inside for mapped in recording.threads}
    layers = [layer for layer in trace.layers if layer.kind in ("python", "cann") and layer.lanes]
    wanted = {trace.lanes[lane].tid: layer.pid for layer in layers for lane in layer.lanes}
    threads, elsewhere = dict[int, int](), dict[int, float]()
    missing, ambiguous = list[int](), list[int]()
    for thread, process in sorted(wanted.items())[:_MOST_THREADS]:
        named = [one for one in recording.threads if one.inside == thread]
        same = [one for one in named if inside.get(one.process) in (process, process >> 10)]
        mapped = sorted({one.task for one in same or named if one.task in scheduling.tasks})
        tasks = mapped or [thread] * (thread in scheduling.tasks)  # a converter may have mapped them already
        shares = [(*running_share(trace, thread, scheduling.states_of(task)), task) for task in tasks]
        shares.sort(key=lambda row: (row[0], row[2]), reverse=True)
        (share, asked, task), (next_best, *_) = [*shares, (0.0, 0, 0), (0.0, 0, 0)][:2]
        if asked and share >= _RUNS and share - next_best >= _AHEAD:
            threads[thread] = task
        elif len(tasks) > 1:
            ambiguous.append(thread)
        elif asked:
            elsewhere[thread] = share
        else:
            missing.append(thread)
    reasons = []
    if elsewhere:
        number, share = min(elsewhere.items(), key=lambda row: row[1])
        reasons.append(message("cpu.not_running", thread=number, share=share, path=scheduling.path))
    if ambiguous:
        reasons.append(message("cpu.ambiguous", threads=_thread_list(ambiguous)))
    if missing:
        key = "cpu.missing" if recording.threads else "cpu.missing_map"
        reasons.append(message(key, threads=_thread_list(missing), path=scheduling.path))
    if not (scheduling.states.kind == State.woken).any():
        reasons.append(message("cpu.no_wakeups", path=scheduling.path))
    if scheduling.first > _EDGE * trace.end or scheduling.last < (1 - _EDGE) * trace.end:
        reasons.append(message("cpu.part", path=scheduling.path, start=scheduling.first, end=scheduling.last))
    return replace(placed, threads=threads, processes=processes, unknown=tuple(reasons))


def _thread_list(threads: list[int]) -> list[str]:
    return [str(thread) for thread in threads[:5]]


def engine_of(
    trace: Trace,
    steps: Sequence[Step],
    devices: Sequence[DeviceSlices],
    launches: Sequence[Dispatch],
    compute: npt.NDArray[np.bool_],
    facts_of: Callable[[], Sequence[Facts]],
    kernels_of: Callable[[], KernelTable],
) -> EngineSteps:
    """The steps of an engine in ``trace`` and the sign by which they begin; none where no engine works.

    ``compute`` are the kernels. ``facts_of`` gives what the rules read of each device, the tokens of a run without
    ``steps`` of its own among it, ``kernels_of`` the shapes of kernels.
    """

    def unasked() -> Intervals:
        """The time in which every device is idle because the engine has no request."""
        spans = [facts.unasked for facts in facts_of()] or [(trace.slices.start[:0],) * 2]
        return reduce(lambda span, other: intersection(*span, *other), spans)

    annotated = called_steps(steps)
    if annotated:
        found = engine_steps(trace, annotated, "annotations", devices, launches, unasked())
        return replace(found, steps=padded_by_shapes(found, kernels_of()))
    known = [step for step in steps if step.number is not None]
    basis: Basis = "profiler"
    if known and not is_serving(trace):
        return EngineSteps()
    if not known:
        rhythm = next((facts.rhythm for facts in facts_of() if facts.is_serving), None)
        if rhythm is None:
            return EngineSteps()
        basis = rhythm.by
        ends = np.append(rhythm.starts[1:], trace.end).tolist()
        known = [
            Step(None, number, -1, Window(start, end, whole=True))
            for number, (start, end) in enumerate(zip(rhythm.starts.tolist(), ends, strict=True), 1)
        ]
    calls = kinds_by_kernels(trace, np.flatnonzero(compute), [step.window or Window(0, 0) for step in known])
    known = [replace(step, engine=call) for step, call in zip(known, calls, strict=True)]
    return engine_steps(trace, known, basis, devices, launches, unasked())
