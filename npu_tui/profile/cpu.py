"""The recording of the scheduler beside a profile, put on its clock, and what it says of late launches."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from npu_tui.analysis.cpu_time import CpuTime, running_share
from npu_tui.analysis.launches import Dispatch
from npu_tui.load.errors import InputError
from npu_tui.load.find import Source
from npu_tui.load.ftrace_beside import Recording, recording_beside
from npu_tui.trace.message import Message, message
from npu_tui.trace.model import Trace
from npu_tui.trace.scheduling import State

_RUNS = 0.9  # share of the slices of a thread that must begin while it runs: on the right clock nearly all do
_AHEAD = 0.02  # by how much the thread of one container must fit better than that of another
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
