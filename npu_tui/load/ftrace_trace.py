"""A recording of the scheduler as a ``Trace``: a lane for every CPU, and one for every thread."""

from __future__ import annotations

import numpy as np

from npu_tui.load.build import build_trace
from npu_tui.load.errors import Watcher
from npu_tui.load.format import ReadingPace, Source
from npu_tui.load.ftrace_beside import load_scheduling
from npu_tui.load.json_reader import WholeColumns
from npu_tui.load.service_spans import TextArgs
from npu_tui.trace.arrays import summed
from npu_tui.trace.message import message
from npu_tui.trace.model import EventFile, Health, Trace
from npu_tui.trace.scheduling import FTRACE, IDLE, OwnedSpans, State

_CPUS, _THREADS = 1, 2
_MOST_LANES = 2000
"""Threads that get a lane, those that ran longest: the others are on the lanes of CPUs."""
_WORDS = ("Unknown", "Running", "Runnable (preempted)", "Runnable (woken)", "Sleeping", "Uninterruptible sleep")
"""The states of threads, as MindStudio Insight and the kernel call them."""
assert len(_WORDS) == len(State)


def read_ftrace_trace(source: Source, watcher: Watcher, pace: ReadingPace) -> Trace:
    """The trace of the recording ``source``; raises as ``load_scheduling``."""
    scheduling = load_scheduling(source.path, watcher)
    whole = WholeColumns()
    whole.metadata.process_name = {_CPUS: "CPU Scheduling", _THREADS: "Process Scheduling"}
    whole.metadata.process_order = {_CPUS: 0, _THREADS: 1}
    health = Health(skipped=dict(scheduling.odd))
    runs, interrupts, lost = scheduling.runs, scheduling.interrupts, scheduling.lost
    busy = runs.taken(runs.kind != IDLE)
    _put(whole, _CPUS, busy, [scheduling.name_of(task) for task in busy.kind.tolist()])
    _put(whole, _CPUS, interrupts, [scheduling.sources[source] for source in interrupts.kind.tolist()])
    _put(whole, _CPUS, lost, ["events lost"] * len(lost.owner))
    tasks, number = np.unique(scheduling.states.owner, return_inverse=True)
    lasting = np.where(scheduling.states.kind == State.running, scheduling.states.end - scheduling.states.start, 0)
    ran = summed(number, lasting, len(tasks))
    shown = np.sort(tasks[np.argsort(-ran, kind="stable")[:_MOST_LANES]]).tolist()
    if len(shown) < len(tasks):
        health.warnings.append(message("odd.ftrace_lanes", count=len(tasks) - len(shown), most=_MOST_LANES))
    for task in shown:
        spans = scheduling.states_of(task)
        _put(whole, _THREADS, spans, [_WORDS[state] for state in spans.kind.tolist()])
        whole.metadata.thread_name[_THREADS, task] = scheduling.name_of(task)
    for cpu in {*runs.owner.tolist(), *interrupts.owner.tolist(), *lost.owner.tolist()}:
        whole.metadata.thread_name[_CPUS, cpu] = f"CPU {cpu}"
    trace = build_trace(whole, scheduling.path, (EventFile(scheduling.path, scheduling.size),), None, health)
    trace.args = TextArgs(())  # all that is known of a slice is its name and its lane
    trace.nature, trace.scheduling = FTRACE, scheduling
    trace.events = {"ftrace": scheduling.events}  # those of the file: slices are made of several
    return trace


def _put(whole: WholeColumns, process: int, spans: OwnedSpans, names: list[str]) -> None:
    """Take ``spans`` in as slices on the lanes of their owners."""
    owners, number = np.unique(spans.owner, return_inverse=True)
    threads = np.array([whole.threads[process, owner] for owner in owners.tolist()], np.int32)
    event = np.arange(whole.count, whole.count + len(names))
    codes = np.array([whole.names[name] for name in names], np.int32)
    whole.slices(event, threads[number], spans.start, spans.end, codes, whole.categories["scheduling"])
