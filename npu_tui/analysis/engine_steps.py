"""The steps of an inference engine in figures: kind, requests, tokens, graph or eager, phases of the host, time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.device import HOST, DeviceSlices, Window, named_on
from npu_tui.analysis.kernels import KernelTable
from npu_tui.analysis.launches import Dispatch, graph_calls
from npu_tui.analysis.limits import HALF, LITTLE
from npu_tui.analysis.rhythm import Basis
from npu_tui.analysis.steps import LaunchedWork, Step, launched_by
from npu_tui.native.spans import count_until
from npu_tui.trace.arrays import I64, BySlice
from npu_tui.trace.classes import PHASES, EngineName, phase_of
from npu_tui.trace.intervals import covered_within, union
from npu_tui.trace.model import Trace

Captured = Literal["graph", "mixed", "eager"]
"""Whether graphs replay the kernels of a step, some of them, or none."""

PREFILL = 2.0  # a prefill computes so many times as long as the usual step


class EngineStep(Struct, frozen=True):
    """One step; times in ns, None where the trace does not say.

    ``window`` is its time on the device, until the next step begins there; ``start`` and ``host`` are start and length
    of its slice ``item`` (-1: none). In ``window`` devices are ``busy``; in the ``bubble`` at its end they are not. In
    the ``unasked`` time the engine has no request: it is part of ``window``, not of ``bubble``. ``replayed`` of its
    ``kernels`` belong to graphs. ``phases`` are ranges of the host until the next step begins there.
    """

    number: int
    name: str | None
    call: EngineName
    item: int
    window: Window | None
    start: int
    host: int | None
    busy: int | None
    bubble: int | None
    unasked: int
    lost: int | None
    kernels: int
    replayed: int
    copies: int
    graphs: int
    captured: Captured | None
    phases: dict[str, int]

    @property
    def kind(self) -> str:
        """What the step does; ``unknown`` if neither its name nor its kernels say."""
        return self.call.kind

    @property
    def span(self) -> int | None:
        """The length of ``window`` but for ``unasked`` time."""
        return None if self.window is None else self.window.end - self.window.start - self.unasked

    @property
    def is_replayed(self) -> bool | Literal["mixed"] | None:
        """Whether graphs replay the step, as JSON says it."""
        return None if self.captured is None else "mixed" if self.captured == "mixed" else self.captured == "graph"


def fallen_out(steps: Sequence[EngineStep]) -> list[EngineStep]:
    """The steps that launch every kernel by itself although graphs replay others of their kind.

    A step of unknown kind may be a prefill if its kernels take far longer than those of replayed ones.
    """
    known = [step for step in steps if step.window is not None and step.captured is not None]
    busy: dict[str, list[int]] = {}
    for step in known:
        if step.captured != "eager":
            busy.setdefault(step.kind, []).append(step.busy or 0)
    most = {kind: PREFILL * float(np.median(times)) if kind == "unknown" else np.inf for kind, times in busy.items()}
    return [step for step in known if step.captured == "eager" and (step.busy or 0) <= most.get(step.kind, -1)]


_NONE = np.zeros(0, np.int64)


class EngineSteps(Struct, frozen=True):
    """The steps of a run by start, and the sign by which they begin (None without any).

    It has the slices ``kernel`` and the position of the ``step`` that each belongs to (-1: none), and when the host
    ``made`` its launch, ns (-1: not known); (n,).
    """

    steps: list[EngineStep] = []
    basis: Basis | None = None
    kernel: I64 = _NONE
    step: I64 = _NONE
    made: I64 = _NONE

    def rows_of(self, items: I64) -> I64:
        """Where the slices ``items`` lie in ``kernel``; (m,)."""
        return count_until(self.kernel, items) - 1


def engine_steps(
    trace: Trace,
    steps: Sequence[Step],
    basis: Basis,
    devices: Sequence[DeviceSlices],
    launches: Sequence[Dispatch],
    unasked: tuple[I64, I64],
) -> EngineSteps:
    """The figures of ``steps``, each with a window or None; those without a slice (-1) are known from the device alone.

    ``unasked`` is when devices idle for lack of requests.
    """
    count = len(steps)
    windows = [step.window or Window(0, 0) for step in steps]
    low, high = (np.array([getattr(window, end) for window in windows], np.int64) for end in ("start", "end"))
    items = np.array([step.item for step in steps], np.int64)
    on_host = bool((items >= 0).all()) and count > 0
    begins = trace.slices.start[items] if on_host else low
    ends = np.append(begins[1:], max(int(trace.end), int(begins.max(initial=0)))) if count else begins
    kernel, copy, busy = _masks(trace, devices)
    # Asynchronous scheduling starts a step on the host while the device is in the one before: what a step launched is
    # known by the links, not by its time.
    work = launched_by(trace, begins)
    of_kernel, of_copy = (_steps_of(trace, work, (low, high), on_host, items) for items in (kernel, copy))
    in_graph = BySlice(work.item, work.graph.astype(np.int64)).of(kernel) > 0
    kernels_of, copies_of, replayed_of = (
        np.bincount(step[step >= 0], minlength=count) for step in (of_kernel, of_copy, of_kernel[in_graph])
    )
    covered = union(trace.slices.start[busy], trace.slices.end[busy])
    working = covered_within(*covered, low, high)
    # The bubble of a step: from the end of its last work to that of its window, without time that no request asked for.
    last = np.searchsorted(covered[0], high, "left") - 1
    reached = np.where(last >= 0, np.append(covered[1], 0)[last], low)
    idle_from = np.minimum(np.maximum(reached, low), high)
    bubble = high - idle_from - covered_within(*unasked, idle_from, high)
    idle = covered_within(*unasked, low, high)
    lost = _lost_in_windows(trace, launches, low, high)
    called = graph_calls(trace)
    first = np.unique(work.made[work.graph], return_index=True)[1]
    graphs = _count_in_steps(called if on_host else trace.slices.start[work.item[work.graph][first]], begins)
    phases = {name: covered_within(*span, begins, ends) for name, span in phase_spans(trace).items()} if on_host else {}
    # Without any launch and any call of a graph nothing is known of how kernels came to the device.
    known = bool(len(launches)) or bool(len(called))
    rows = []
    for k, step in enumerate(steps):
        there = step.window is not None
        kernels, graph_kernels, launched = int(kernels_of[k]), int(replayed_of[k]), int(graphs[k])
        rows.append(
            EngineStep(
                step.number or k + 1,
                step.name,
                step.engine or EngineName("unknown"),
                step.item,
                step.window,
                int(begins[k]),
                int(trace.slices.end[step.item] - trace.slices.start[step.item]) if step.item >= 0 else None,
                int(working[k]) if there else None,
                int(bubble[k]) if there else None,
                int(idle[k]),
                int(lost[k]) if there and launches else None,
                kernels,
                graph_kernels,
                int(copies_of[k]),
                launched,
                _captured(kernels, graph_kernels, launched) if known and (there or launched) else None,
                {name: int(times[k]) for name, times in phases.items() if times[k]},
            )
        )
    launched_at = BySlice(work.item, np.arange(len(work.item))).of(kernel)
    return EngineSteps(rows, basis, kernel, of_kernel, np.append(work.made, -1)[launched_at])


def _count_in_steps(times: I64, begins: I64) -> I64:
    """How many of ``times`` lie in each step; (steps,)."""
    at = np.searchsorted(begins, times, "right") - 1
    return np.bincount(at[at >= 0], minlength=len(begins))


def _captured(kernels: int, replayed: int, launched: int) -> Captured:
    if not launched and not replayed:
        return "eager"
    if not kernels or replayed >= (1 - LITTLE) * kernels:
        return "graph"
    # With a single launch of a graph most of the step is enough.
    return "graph" if launched == 1 and replayed >= HALF * kernels else "mixed"


def _masks(trace: Trace, devices: Sequence[DeviceSlices]) -> tuple[I64, I64, I64]:
    """The kernels, the copies and all busy slices of all devices."""
    none = np.zeros(len(trace.slices), np.bool_)
    kernel = np.logical_or.reduce([none, *(device.compute | device.collective for device in devices)])
    copy = np.logical_or.reduce([none, *(device.copy for device in devices)])
    return np.flatnonzero(kernel), np.flatnonzero(copy), np.flatnonzero(kernel | copy)


def _steps_of(trace: Trace, work: LaunchedWork, windows: tuple[I64, I64], on_host: bool, items: I64) -> I64:
    """The position of the step of each of ``items``, -1 of none; (n,).

    What has no place among the launches, such as the collectives of a group, is where the clock puts it.
    """
    low, high = windows
    step = BySlice(work.item, work.step + 1).of(items) - 1 if on_host else np.full(len(items), -2)
    order, unlaunched = np.flatnonzero(high > low), np.flatnonzero(step < -1)
    if len(unlaunched) and len(order):
        start = trace.slices.start[items[unlaunched]]
        at = np.searchsorted(low[order], start, "right") - 1
        step[unlaunched] = np.where((at >= 0) & (start < high[order][np.maximum(at, 0)]), order[np.maximum(at, 0)], -1)
    return step


def _lost_in_windows(trace: Trace, launches: Sequence[Dispatch], low: I64, high: I64) -> I64:
    """How long an idle device waited for the launches of each window, ns; (windows,)."""
    lost = np.zeros(len(low))
    for device in launches:
        start = trace.links.target_time[device.link]
        before = np.append(0.0, np.cumsum(device.lost))
        lost += before[np.searchsorted(start, high, "left")] - before[np.searchsorted(start, low, "left")]
    return lost.astype(np.int64)


def phase_spans(trace: Trace) -> dict[str, tuple[I64, I64]]:
    """When the host is in each phase of an engine's steps, ns on its clock, in the order of a step's work."""
    items = named_on(trace, HOST, lambda name: phase_of(name) is not None)
    names, name_of = np.unique(trace.slices.name[items], return_inverse=True)
    phase = np.array([phase_of(trace.names[name]) for name in names.tolist()], np.str_)
    spans = {}
    for name in PHASES:
        of_phase = items[(phase == name)[name_of]] if len(items) else items
        if len(of_phase):
            spans[name] = union(trace.slices.start[of_phase], trace.slices.end[of_phase])
    return spans


_PREFILL = re.compile(r"flash_?attention_?unpad|prompt_?flash|ring_?mla|varlen|fmha_?prefill|unpad_flash", re.I)
_DECODE = re.compile(r"paged_?attention|incre_?flash", re.I)


def kinds_by_kernels(trace: Trace, kernels: I64, windows: Sequence[Window]) -> list[EngineName]:
    """The kind of each step by the names of its attention kernels, ``unknown`` where they do not say."""
    slices = trace.slices
    marks = []
    low, high = (np.array([getattr(window, end) for window in windows], np.int64) for end in ("start", "end"))
    for rule in (_PREFILL, _DECODE):
        named = np.array([rule.search(name) is not None for name in trace.names] + [False])
        start = np.sort(slices.start[kernels[named[slices.name[kernels]]]])
        marks.append(np.searchsorted(start, high, "left") > np.searchsorted(start, low, "left"))
    words = {(True, False): "prefill", (False, True): "decode", (True, True): "mixed"}
    return [EngineName(words.get(pair, "unknown")) for pair in zip(*(mark.tolist() for mark in marks), strict=True)]


def padded_by_shapes(engine: EngineSteps, table: KernelTable) -> list[EngineStep]:
    """The steps with the requests that replayed ones are padded to, where their names do not say and shapes do.

    The first side of a matrix product counts the tokens of the batch: that of most products of the step.
    """
    product = table.type.where(lambda kind: "matmul" in kind.lower()) & (table.item >= 0)
    rows = np.array([_rows_of(shapes) for shapes in table.shapes.values] + [0], np.int64)[table.shapes.code]
    chosen = np.flatnonzero(product & (rows > 0))
    step = np.append(engine.step, -1)[engine.rows_of(table.item[chosen])]
    chosen = chosen[np.argsort(step, kind="stable")]
    bounds = np.searchsorted(np.sort(step), np.arange(len(engine.steps) + 1)).tolist()
    steps = []
    for one, low, high in zip(engine.steps, bounds, bounds[1:], strict=False):
        call, sizes = one.call, rows[chosen[low:high]]
        if len(sizes) and one.captured == "graph" and call.padded is None and call.requests and call.tokens:
            values, counts = np.unique(sizes, return_counts=True)
            tokens = int(values[np.argmax(counts)])
            if tokens >= call.tokens:
                one = replace(one, call=replace(call, padded=tokens * call.requests // call.tokens))
        steps.append(one)
    return steps


def _rows_of(shapes: str) -> int:
    """The first side of the first tensor of ``32,2880;2880,5120``; 0 if there is none."""
    first = shapes.split(";")[0].split(",")[0].strip(' "')
    return int(first) if first.isdecimal() and len(first) < 10 else 0


class EngineKind(Struct, frozen=True):
    """The steps of one kind with up to ``bucket`` tokens and more than half of that (None: unknown), times in ns.

    ``spans`` are their lengths on the device, ``tokens`` those of all of them (None where one is unknown). ``phases``
    are the time on the host by phase.
    """

    kind: str
    bucket: int | None
    steps: list[EngineStep]
    spans: I64
    tokens: int | None
    busy: int
    lost: int | None
    phases: dict[str, int]

    def count(self, captured: Captured) -> int:
        """How many of them are replayed, partly replayed or eager."""
        return sum(step.captured == captured for step in self.steps)


def engine_kinds(steps: Sequence[EngineStep]) -> list[EngineKind]:
    """``steps`` that worked on the device by kind and number of tokens, most time first."""
    groups: dict[tuple[str, int | None], list[EngineStep]] = {}
    for step in steps:
        if step.window is not None:
            groups.setdefault((step.kind, step.call.bucket), []).append(step)
    kinds = []
    for (kind, bucket), rows in groups.items():
        counts = [row.call.tokens for row in rows if row.call.tokens is not None]
        times = {name: sum(row.phases.get(name, 0) for row in rows) for name in PHASES}
        kinds.append(
            EngineKind(
                kind,
                bucket,
                rows,
                np.array([row.span or 0 for row in rows], np.int64),
                sum(counts) if len(counts) == len(rows) else None,
                sum(row.busy or 0 for row in rows),
                None if any(row.lost is None for row in rows) else sum(row.lost or 0 for row in rows),
                {name: time for name, time in times.items() if time},
            )
        )
    return sorted(kinds, key=lambda row: -int(row.spans.sum()))
