"""Between an inference service and the NPU profile of the same moment: from a batch to its step, and back, by time."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from npu_tui.profile.profile import Profile
from npu_tui.trace.message import message
from npu_tui.trace.model import Trace
from npu_tui.trace.service import whole_quarters
from npu_tui.tui.session import Session
from npu_tui.view.scene import Selected

I64 = npt.NDArray[np.int64]


def meet(session: Session, one: int, other: int) -> bool:
    """Whether two traces of the scene stand where they were recorded, and meet there."""
    traces, offsets = session.scene.traces, session.scene.offsets
    apart = traces[other].start_ns - traces[one].start_ns
    return offsets[other] - offsets[one] == apart and -traces[other].end < apart < traces[one].end


def met(profiles: Sequence[Profile], optional: Sequence[bool]) -> list[Profile]:
    """``profiles`` without those that were found beside a service (``optional``) and do not meet it in time.

    Its health says which. Where nothing told the zone of its dates: that which lets an NPU work within its time.
    """
    first, kept = profiles[0].trace, [profiles[0]]
    for profile, is_found in zip(profiles[1:], optional[1:], strict=True):
        npu = profile.trace
        if is_found and first.service is not None and first.service.clock.basis == "assumed":
            by = whole_quarters(npu.start_ns + npu.end // 2 - first.start_ns - first.end // 2)
            if _meets(first, npu, by):
                by = 0 if _meets(first, npu, 0) else by
                first.service.move(by, "device")
                first.start_ns += by
                assumed = {"odd.service_clock.assumed"}
                first.health.warnings[:] = [said for said in first.health.warnings if said.code not in assumed]
                first.health.warnings.append(message("odd.service_clock.device", shift=first.service.clock.shift))
        if not is_found or _meets(first, npu, 0):
            kept.append(profile)
        else:
            first.health.warnings.append(message("odd.service_apart", path=npu.path))
    return kept


def _meets(service: Trace, npu: Trace, by: int) -> bool:
    """Whether two traces have a moment in common, that of the service ``by`` ns later."""
    return -npu.end < npu.start_ns - service.start_ns - by < service.end


def across(session: Session, selected: Selected, onward: bool) -> Selected | None:
    """What ran on the NPU in the batch ``selected``, or in which batch the step or kernel ``selected`` ran.

    None without such, and where the clocks of the two do not meet.
    """
    traces = session.scene.traces
    is_service = traces[selected.trace].service is not None
    if is_service != onward:
        return _inside(session, selected) if not is_service and onward else None
    others = [number for number, trace in enumerate(traces) if (trace.service is not None) != is_service]
    if is_service:  # the rank whose process ran the batch, where a process is known
        row = _rows(traces[selected.trace], np.array([selected.item]))[0]
        process = service.batches.process[row] if (service := traces[selected.trace].service) and row >= 0 else -1
        others = [n for n in others if process in _processes(traces[selected.trace], traces[n])] or others
    for number in others:
        if number < len(session.profiles) and meet(session, selected.trace, number):
            place = _step(session, selected, number) if is_service else _batch(session, selected, number)
            if place is not None:
                return place
    return None


def _rows(trace: Trace, items: I64) -> I64:
    """The batch that each slice of a service is, -1 for others; (n,)."""
    service = trace.service
    if service is None:
        return np.full(len(items), -1)
    row = trace.slices.event[items] - service.ordinals["batches"]
    return np.where((row >= 0) & (row < len(service.batches)), row, -1)


def _processes(service: Trace, npu: Trace) -> list[int]:
    """The processes of a service (codes) whose number, which ends their name, is that of a host process of ``npu``."""
    if service.service is None:
        return []
    hosts = [layer.pid for layer in npu.layers if layer.kind in ("python", "cann")]
    pids = {str(pid) for host in hosts for pid in (host, host >> 10)}
    codes = np.unique(service.service.batches.process).tolist()
    return [code for code in codes if re.split(r"\D", service.service.text(code))[-1] in pids]


def _times(session: Session, selected: Selected, trace: int) -> tuple[int, int]:
    """Start and end of a slice on the clock of another trace."""
    start, end = (session.scene.to_trace(trace, when) for when in session.scene.times(selected))
    return start, max(end, start + 1)


def _step(session: Session, selected: Selected, number: int) -> Selected | None:
    """The step of the engine that shares most time with a batch, else the first kernel that starts in it."""
    start, end = _times(session, selected, number)
    steps = [step for step in session.profiles[number].engine.steps if step.item >= 0]
    if steps:
        begin = np.array([step.start for step in steps], np.int64)
        last = begin + np.array([step.host or 1 for step in steps], np.int64)
        at = _most_shared(begin, last, start, end)
        if at is not None:
            return Selected(number, steps[at].item)
    return _first_kernel(session.profiles[number], number, start, end)


def _first_kernel(profile: Profile, number: int, start: int, end: int) -> Selected | None:
    slices, busy = profile.trace.slices, np.flatnonzero(profile.compute)
    inside = busy[(slices.start[busy] >= start) & (slices.start[busy] < end)]
    return Selected(number, int(inside[np.argmin(slices.start[inside])])) if len(inside) else None


def _inside(session: Session, selected: Selected) -> Selected | None:
    """The first kernel of a step whose launches have no links, such as those of a graph."""
    profile = session.profiles[selected.trace] if selected.trace < len(session.profiles) else None
    step = next((step for step in profile.engine.steps if step.item == selected.item), None) if profile else None
    if profile is None or step is None or step.window is None:
        return None
    return _first_kernel(profile, selected.trace, step.window.start, step.window.end)


def _batch(session: Session, selected: Selected, number: int) -> Selected | None:
    """The step around a slice of the host or a kernel; of a step the executed batch that shares most time with it."""
    profile = session.profiles[selected.trace]
    start = session.scene.traces[selected.trace].slices.start[selected.item]
    steps = profile.engine.steps
    for step in steps if all(step.item != selected.item for step in steps) else ():
        window = step.window
        in_host = step.start <= start < step.start + (step.host or 0)
        if step.item >= 0 and (in_host or (window is not None and window.start <= start < window.end)):
            return Selected(selected.trace, step.item)
    start, end = _times(session, selected, number)
    trace = session.scene.traces[number]
    processes = _processes(trace, session.scene.traces[selected.trace])
    lanes = [lane for lane in trace.lanes if trace.layers[lane.layer].name.startswith("Engine")]
    for part in ("execute", "forward", "schedule"):
        items = np.concatenate(
            [np.zeros(0, np.int64), *(np.arange(lane.first, lane.last) for lane in lanes if lane.name.startswith(part))]
        )
        rows = _rows(trace, items)
        ours = (rows >= 0) & np.isin(trace.service.batches.process[rows], processes) if trace.service else rows < 0
        items = items[ours] if ours.any() else items  # those of the process that was profiled, where that is known
        at = _most_shared(trace.slices.start[items], trace.slices.end[items], start, end)
        if at is not None:
            return Selected(number, int(items[at]))
    return None


def _most_shared(begin: I64, last: I64, start: int, end: int) -> int | None:
    """Which of the times ``[begin, last)`` shares most with ``[start, end)``, the first of equals; None without any."""
    if not len(begin):
        return None
    shared = np.minimum(last, end) - np.maximum(begin, start)
    at = int(np.argmax(shared))
    return at if shared[at] > 0 else None
