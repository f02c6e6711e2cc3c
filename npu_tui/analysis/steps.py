"""Steps: those that the profiler marks, those that a rhythm shows, warm-up, and how their lengths spread."""

from __future__ import annotations

import re
from typing import Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.device import EVERYTHING, Window, named_in
from npu_tui.analysis.launches import dequeued_launches, enqueue_slices
from npu_tui.analysis.overlap import Overlap, OverlapLanes
from npu_tui.trace.arrays import among, distinct
from npu_tui.trace.classes import step_number
from npu_tui.trace.model import Trace

I64 = npt.NDArray[np.int64]

_RECEIVE = "hcom_receive"


class Step(Struct, frozen=True):
    """A ``ProfilerStep#N`` slice; ``window`` is its time on the device, None where it launched nothing.

    A profile without steps is one Step without name, number and slice (-1).
    """

    name: str | None
    number: int | None
    item: int
    window: Window | None


class StepSums(Struct, frozen=True):
    """The row of one step, ns; ``stage`` and ``preparing`` are None where nothing ran on the device."""

    overlap: Overlap
    stage: int | None
    bubble: int
    preparing: int | None


def steps(trace: Trace) -> list[Step]:
    """The steps of ``trace`` by number; a device time that two of them claim belongs to the first."""
    items: dict[int, int] = {}
    for item in _step_slices(trace):
        text = step_number(trace.name_of(item))
        if text is not None:
            items.setdefault(int(text), item)
    if not items:
        return [Step(None, None, -1, EVERYTHING)]
    spans = _device_spans(trace, np.array([items[number] for number in sorted(items)]))
    found, reached = [], -(2**62)
    for number, span in zip(sorted(items), spans, strict=True):
        window = None
        if span is not None:
            window = Window(max(span[0], reached), max(span[1], reached), whole=True)
            reached = window.end
        found.append(Step(trace.name_of(items[number]), number, items[number], window))
    return found


def _step_slices(trace: Trace) -> list[int]:
    """The slices of the derived Steps lanes by start."""
    found: list[int] = []
    for lane in trace.lanes:
        if lane.derived:
            low, high = trace.rows.offset[lane.first_row], trace.rows.offset[lane.first_row + lane.rows]
            found += trace.rows.item[low:high].tolist()
    return sorted(found, key=lambda item: int(trace.slices.start[item]))


def _device_spans(trace: Trace, items: I64) -> list[tuple[int, int] | None]:
    """From the first kernel of each step's first launch to the last one of its last launch, or its end on the host.

    Launches are ordered by the correlation id of the task queue, without a queue by their own time.
    """
    slices, links = trace.slices, trace.links
    link, dequeue = dequeued_launches(trace)
    enqueues = enqueue_slices(trace)
    if len(enqueues) and (dequeue >= 0).any():
        link, dequeue = link[dequeue >= 0], dequeue[dequeue >= 0]
        order_of, made_at, made = slices.correlation[dequeue], slices.start[enqueues], slices.correlation[enqueues]
        launched = among(made, order_of)
        made_at, made = made_at[launched], made[launched]
    else:
        order_of = made = links.source_time[link]
        made_at = made
    target = links.target_slice[link]
    launches, own = distinct(order_of)
    first = np.full(len(launches), 2**62)
    last = np.full(len(launches), -(2**62))
    np.minimum.at(first, own, slices.start[target])
    np.maximum.at(last, own, slices.end[target])
    in_time = np.argsort(made_at, kind="stable")
    made_at, made = made_at[in_time], made[in_time]
    low = np.searchsorted(made_at, slices.start[items], "left")
    high = np.searchsorted(made_at, slices.end[items], "right")
    spans: list[tuple[int, int] | None] = [None] * len(items)
    some = np.flatnonzero(low < high)
    if len(some):
        bounds = np.column_stack((low[some], high[some])).ravel()
        made = np.append(made, 0)  # the last step may end with the last launch
        earliest, latest = (
            np.searchsorted(launches, each.reduceat(made, bounds)[::2]) for each in (np.minimum, np.maximum)
        )
        begin, end = first[earliest].tolist(), np.maximum(last[latest], slices.end[items[some]]).tolist()
        for k, span in zip(some.tolist(), zip(begin, end, strict=True), strict=True):
            spans[k] = span
    return spans


def step_sums(trace: Trace, found: list[Step], lanes: OverlapLanes) -> list[StepSums]:
    """The time of each of the steps ``found`` by kind; every slice counts as a whole for the step it starts in."""
    groups = (
        lane
        for lane in trace.file_lanes
        if trace.layers[lane.layer].kind == "communication" and trace.layers[lane.layer].device == lanes.device
    )
    received = named_in(trace, groups, lambda name: name.startswith(_RECEIVE))
    received = received[np.argsort(trace.slices.start[received], kind="stable")]
    receive = trace.slices.start[received], trace.slices.end[received]
    kinds = (lanes.computing, lanes.communication, lanes.not_overlapped, lanes.free, receive)
    windows = [step.window or Window(0, 0) for step in found]
    bounds = np.array([(window.start, window.end) for window in windows], np.int64).reshape(-1, 2)
    spent = [_spent(start, end, bounds) for start, end in kinds]
    rows = []
    for step, *own in zip(found, *spent, strict=True):
        (computing, _, _), (communication, _, _), (exposed, _, _), (free, _, _), (bubble, _, _) = own
        begins = [first for _, first, _ in own if first is not None]
        ends = [last for _, _, last in own if last is not None]
        working = [first for _, first, _ in own[:2] if first is not None]
        origin = _host_start(trace, step)
        rows.append(
            StepSums(
                Overlap(lanes.device, computing, communication, exposed, free),
                max(ends) - min(begins) - bubble if begins else None,
                bubble,
                min(working) - origin if working and origin is not None else None,
            )
        )
    return rows


def _spent(start: I64, end: I64, bounds: I64) -> list[tuple[int, int | None, int | None]]:
    """How long the intervals by start last that begin within each of ``bounds``, (n, 2); first start and last end."""
    places = np.searchsorted(start, bounds)
    before = np.append(0, np.cumsum(end - start))
    total = np.diff(before[places])[:, 0].tolist()
    some = np.flatnonzero(places[:, 1] > places[:, 0])
    firsts: list[int | None] = [None] * len(places)
    lasts = firsts.copy()
    if len(some):
        first, last = start[places[some, 0]], np.maximum.reduceat(np.append(end, 0), places[some].ravel())[::2]
        for k, begun, ended in zip(some.tolist(), first.tolist(), last.tolist(), strict=True):
            firsts[k], lasts[k] = begun, ended
    return list(zip(total, firsts, lasts, strict=True))


def _host_start(trace: Trace, step: Step) -> int | None:
    """Start of the step on the host; without steps that of the first operation."""
    if step.item >= 0:
        return int(trace.slices.start[step.item])
    if "cpu_op" not in trace.categories:
        return None
    operations = trace.slices.start[trace.slices.category == trace.categories.index("cpu_op")]
    return int(operations.min()) if len(operations) else None


_FEWEST = 4
_FEWEST_KERNELS = 2
_EVEN = 0.02
_MOSTLY = 0.8
_COVERED = 0.6
_BACKWARD = re.compile(r"Grad|Backward|Optimizer|ApplyAdam|ApplyMomentum", re.IGNORECASE)
_READS = frozenset({"aten::item", "aten::_local_scalar_dense"})

Unit = Literal["token", "iteration"]


class Rhythm(Struct, frozen=True):
    """``starts`` of what repeats, ns on the device's clock; (count,). A ``token`` where nothing is trained."""

    starts: I64
    unit: Unit

    @property
    def count(self) -> int:
        """How often it repeats."""
        return len(self.starts)


def rhythm(trace: Trace, kernels: I64, launched: I64) -> Rhythm | None:
    """What repeats in the compute slices ``kernels`` (by start), launched at ``launched`` ns (-1: unknown).

    A value that the host reads back splits the run if about the same number of kernels lies between two of them; else
    the rarest kernels that come back at even distances do.
    """
    if len(kernels) < _FEWEST:
        return None
    slices = trace.slices
    at = _by_reads(trace, launched)
    if at is None:
        at = _by_names(slices.name[kernels].astype(np.int64))
    if at is None:
        return None
    used = np.unique(slices.name[kernels]).tolist()
    trained = any(_BACKWARD.search(trace.names[code]) for code in used if code < len(trace.names))
    trained = trained or any(name.startswith("autograd::engine") for name in trace.names)
    return Rhythm(slices.start[kernels[at]], "iteration" if trained else "token")


def _by_reads(trace: Trace, launched: I64) -> I64 | None:
    """Which kernels are the first after each value that is read back."""
    slices = trace.slices
    named = np.array([name in _READS for name in trace.names] + [False])[slices.name]
    reads = np.sort(slices.end[named])
    known = np.flatnonzero(launched >= 0)
    if len(reads) < _FEWEST or not len(known):
        return None
    order = known[np.argsort(launched[known], kind="stable")]
    first = np.concatenate(([0], np.searchsorted(launched[order], reads, "left")))
    first = np.unique(first[first < len(order)])
    if len(first) < _FEWEST or not _is_even(np.diff(np.append(first, len(order)))):
        return None
    return np.sort(order[first])


def _by_names(names: I64) -> I64 | None:
    """Where the kernels come that are rarest of those at even distances, the one that comes first."""
    counts = np.bincount(names)
    best: I64 | None = None
    for code in np.flatnonzero(counts >= _FEWEST).tolist():
        if best is not None and counts[code] > len(best):
            continue
        at = np.flatnonzero(names == code)
        gaps = np.diff(at)
        if not _is_even(gaps) or float(np.median(gaps)) * len(at) < _COVERED * len(names):
            continue
        if best is None or len(at) < len(best) or at[0] < best[0]:
            best = at
    return best


def _is_even(gaps: I64) -> bool:
    """Whether most of ``gaps`` are about the same."""
    usual = float(np.median(gaps))
    return usual >= _FEWEST_KERNELS and float(np.mean(np.abs(gaps - usual) <= max(1.0, _EVEN * usual))) >= _MOSTLY


FEWEST_STEPS = 3
"""Fewer steps do not tell which of them is slow."""
_SLOWER = 1.2
_FEW, _SLOWER_THAN_FEW = 4, 2.0
"""So few later steps can be alike by chance: a first one has to take twice as long."""
_SPREADS = 5.0
_AS_SLOW = 1 / 3
_RARE = 0.1


def warm_up_steps(lengths: npt.NDArray[np.int64]) -> int:
    """How many of the steps that last ``lengths`` ns are warm-up; at most half of them.

    Those are the first ones as far as each takes a fifth longer than the median of the second half, twice as long where
    that half has few steps, and more than its spread explains. Where more than a tenth of the later steps are slow as
    well, it is a habit of the run and none is warm-up.
    """
    if len(lengths) < FEWEST_STEPS:
        return 0
    later = lengths[len(lengths) // 2 :].astype(np.float64)
    usual = float(np.median(later))
    spread = float(np.median(np.abs(later - usual)))
    slower = _SLOWER if len(later) >= _FEW else _SLOWER_THAN_FEW
    warm = 0
    while warm < len(lengths) // 2 and lengths[warm] > max(slower * usual, usual + _SPREADS * spread):
        warm += 1
    if not warm:
        return 0
    slow = lengths[warm:] > usual + _AS_SLOW * (float(lengths[:warm].min()) - usual)
    return warm if np.mean(slow) <= _RARE else 0


class StepSpread(Struct, frozen=True):
    """Percentiles in ns of the steps after the first ``warm_up`` ones."""

    warm_up: int
    p50: float
    p90: float
    p99: float


def step_spread(lengths: npt.NDArray[np.int64]) -> StepSpread | None:
    """Of steps that last ``lengths`` ns; None without any."""
    if not len(lengths):
        return None
    warm = warm_up_steps(lengths)
    p50, p90, p99 = np.percentile(lengths[warm:], (50, 90, 99)).tolist()
    return StepSpread(warm, p50, p90, p99)
