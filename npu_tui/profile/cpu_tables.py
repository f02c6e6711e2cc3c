"""Who had the CPU while devices waited for launches: the measuring, and its tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.cpu_time import PARTS, CpuTime, Culprit, running_share
from npu_tui.analysis.launches import Dispatch
from npu_tui.load.errors import InputError
from npu_tui.load.find import Source
from npu_tui.load.ftrace_beside import Recording, recording_beside
from npu_tui.profile.columns import base_of, names_of
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import MISSING, Array, Column, Span, TableSheet, columns, listed, numbers, table
from npu_tui.trace.message import Message, message
from npu_tui.trace.model import Trace
from npu_tui.trace.scheduling import State
from npu_tui.trace.text import runs

_RUNS = 0.9
"""Share of the slices of a thread that must begin while it runs: on the right clock nearly all do."""
_AHEAD = 0.02
"""By how much the thread of one container must fit better than that of another."""
_MOST_THREADS = 2_000
_EDGE = 0.02
"""Share of the trace that a recording may leave out at either end without a word."""


def measured_cpu(source: Source | None, trace: Trace, devices: Sequence[Dispatch]) -> CpuTime | Message | None:
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
        reasons.append(message("cpu.ambiguous", threads=_listed(ambiguous)))
    if missing:
        key = "cpu.missing" if recording.threads else "cpu.missing_map"
        reasons.append(message(key, threads=_listed(missing), path=scheduling.path))
    if not (scheduling.states.kind == State.woken).any():
        reasons.append(message("cpu.no_wakeups", path=scheduling.path))
    if scheduling.first > _EDGE * trace.end or scheduling.last < (1 - _EDGE) * trace.end:
        reasons.append(message("cpu.part", path=scheduling.path, start=scheduling.first, end=scheduling.last))
    return replace(placed, threads=threads, processes=processes, unknown=tuple(reasons))


def _listed(threads: list[int]) -> list[str]:
    return [str(thread) for thread in threads[:5]]


_OWN = {
    **columns("label", "", "word", "state", "cpu.state"),
    **columns("label", "", "word", "by", "cpu.who"),
    **columns("label", "", "word", "cpus"),
    **columns("whole", "", "id", "task process"),
    **columns("whole", "", "count", "late"),
    **columns("whole", "ns", "time", " ".join(PARTS)),
    "lost_time": Column("lost_time", "whole", "ns", "time", summed=True),
}


def _cpu_and_launches(profile: Profile) -> tuple[CpuTime, Array] | None:
    """Who had the CPU, and the launches that the part is about; None where that is not known."""
    known = profile.cpu
    links = [facts.launches.link for facts in profile.facts if facts.launches is not None]
    return (known, np.concatenate(links)) if isinstance(known, CpuTime) and links else None


def cpu_time(profile: Profile) -> TableSheet:
    """The lost time by state of the threads that launch and by who had their CPU, most time first."""
    found = _cpu_and_launches(profile)
    if found is None:
        return TableSheet(0, {})
    known, links = found
    rows = known.culprits(links)
    total = sum(row.total for row in rows)

    def place(row: int) -> list[Span]:
        parts = rows[row].rows
        worst = parts[np.argsort(-known.parts.time[parts], kind="stable")[:100]]
        start, end = known.on_device(worst)
        items = profile.trace.links.target_slice[known.waits.link[known.parts.wait[worst]]]
        spans = zip(start.tolist(), end.tolist(), items.tolist(), strict=True)
        return [Span(low, high, slice=item, words=rows[row].name) for low, high, item in spans]

    sheet = listed(
        rows,
        "state=part by task process lost_time=total late=waits",
        _OWN,
        name=lambda row: row.name or None,
        cpus=lambda row: cpu_list(row) or None,
        share=lambda row: row.total / total if total else None,
    )
    base = base_of(profile.facts)
    return replace(sheet, place=place, lengths=lambda row: known.parts.time[rows[row].rows], base=base)


def cpu_list(culprit: Culprit) -> str:
    """The CPUs where it happened: ``3,8-11``."""
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs(culprit.cpus))


CPU_TIME = table(
    "cpu_time",
    cpu_time,
    sql="rank state by name task process cpus lost_time share late",
    json="state by name? pid=task? process? cpus? lost=lost_time ratio=share? launches=late",
    page="state by name? pid=task? cpus? lost=lost_time share launches=late",
    panel="lost=lost_time share spread state by name pid=task process cpus launches=late",
    section="cpu_time",
    row="CpuTimeRow",
    about="""Time that devices waited for launches while the threads that make them were in one ``state``.

    ``by`` says who had the CPU: another thread (``name``, ``pid``), the source of an interrupt, nobody (an idle CPU);
    of a sleep, who ended it. ``state`` is running, preempted, woken (runnable since a wakeup), asleep, blocked,
    interrupt or unknown; the rows add up to the lost time.
    """,
    own=_OWN,
)


def cpu_waits(profile: Profile) -> TableSheet:
    """Every launch that a device waited for, with what the threads that made it did meanwhile."""
    found = _cpu_and_launches(profile)
    if found is None:
        return TableSheet(0, {})
    known, links = found
    waits, parts = known.waits, known.parts
    chosen = np.flatnonzero(np.isin(waits.link, links))
    times = np.zeros((len(waits.link), len(PARTS)), np.int64)
    np.add.at(times, (parts.wait, parts.part), parts.time)
    items = profile.trace.links.target_slice[waits.link[chosen]].astype(np.int64)
    return TableSheet(
        len(chosen),
        {
            "link": numbers(waits.link[chosen]),
            "slice": numbers(items, MISSING),
            "name": names_of(profile, items),
            "start": numbers(waits.ready[chosen]),
            "lost_time": numbers((waits.end - waits.start)[chosen]),
            **{part: numbers(times[chosen, number]) for number, part in enumerate(PARTS)},
        },
    )


CPU_WAITS = table("cpu_waits", cpu_waits, sql="rank link slice name start lost_time " + " ".join(PARTS), own=_OWN)
