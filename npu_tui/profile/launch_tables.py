"""The tables about launches and waits: late launches, who had the CPU meanwhile, lost time by line, bubbles, waits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.bubbles import sync_sums
from npu_tui.analysis.code_lines import LineLoss, launches_by_line, line_of
from npu_tui.analysis.cpu_time import PARTS, CpuTime, Culprit
from npu_tui.analysis.drains import CAUSES, Cause, Drains, host_lead
from npu_tui.analysis.launches import dequeue_of, enqueue_of, operation_of
from npu_tui.profile.columns import UNKNOWN, base_of, names_of, steps_at, times
from npu_tui.profile.module_tables import borrowed_lines
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import (
    MISSING,
    Array,
    CodedLabels,
    Column,
    Numbers,
    RankedSlices,
    Span,
    TableSheet,
    attribute_rows,
    attributes,
    coded,
    columns,
    numbers,
    optional,
    table,
)
from npu_tui.rules.facts import Facts
from npu_tui.trace.once import once
from npu_tui.trace.text import runs

_CLASSES = ["near-vertical", "shallow", "queued"]


class _AllLaunches:
    """The launches of all devices by device and target start.

    Operations and lines of code take a walk through the trace: they are made once, when a query names such a column.
    """

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.trace = profile.trace
        self.devices = profile.dispatch
        self.link = self._each("link", np.int64)

    def _each(self, name: str, kind: type) -> Array:
        arrays = [getattr(device, name) for device in self.devices]
        return np.concatenate(arrays) if arrays else np.zeros(0, kind)

    @property
    def device(self) -> Array:
        """The number of the device of each, -1 where it has none."""
        number = [UNKNOWN if launches.device is None else launches.device for launches in self.devices]
        return np.repeat(np.array(number, np.int64), [len(launches.link) for launches in self.devices])

    @property
    def shape(self) -> Array:
        """The class of each, by ``_CLASSES``."""
        shapes = [np.where(launches.near_vertical, 0, np.where(launches.queued, 2, 1)) for launches in self.devices]
        return np.concatenate(shapes) if shapes else np.zeros(0, np.int64)

    @once
    def dequeue(self) -> Array:
        """The Dequeue slice of each, -1 without."""
        return dequeue_of(self.trace, self.link)

    @once
    def enqueue(self) -> Array:
        """The Enqueue slice of each, -1 without."""
        return enqueue_of(self.trace, self.dequeue)

    @once
    def operation(self) -> Array:
        """The operation of each, -1 without."""
        return operation_of(self.trace, self.trace.links.target_slice[self.link].astype(np.int64))

    @once
    def lead(self) -> Array:
        """The host's lead of each, ns."""
        leads = [host_lead(self.trace, launches) for launches in self.devices]
        return np.concatenate(leads) if leads else np.zeros(0)

    @once
    def lines(self) -> tuple[list[tuple[str, int, str]], Array]:
        """The distinct lines of code, and which one each launch has, -1 without."""
        known: dict[tuple[str, int, str], int] = {}
        codes = np.full(len(self.link), UNKNOWN, np.int64)
        at = 0
        for device in self.devices:
            everything = np.arange(len(device.link), dtype=np.int64)
            for line, members in launches_by_line(self.trace, device, everything):
                if line is not None:
                    place = line.file, line.line, line.function
                    codes[at + members] = known.setdefault(place, len(known))
            at += len(device.link)
        return list(known), codes

    def later(self, values: Array, name: str) -> Numbers:
        """``values`` of the slices that the property ``name`` gives, null without one."""
        return Numbers(lambda first, last: _values_of_items(values, getattr(self, name)[first:last]), UNKNOWN)


def _values_of_items(values: Array, items: Array) -> Array:
    return np.where(items >= 0, values[items], UNKNOWN) if len(values) else np.full(len(items), UNKNOWN)


def launches(profile: Profile) -> TableSheet:
    """Every launch with its way from the operation to the device."""
    trace = profile.trace
    all_of = _AllLaunches(profile)
    link, rows = all_of.link, len(all_of.link)
    links, slices = trace.links, trace.slices
    target = links.target_slice[link].astype(np.int64)
    source = links.source_slice[link].astype(np.int64)
    start = slices.start[target]
    name_of = np.append(slices.name, UNKNOWN)
    return TableSheet(
        rows,
        {
            "device": numbers(all_of.device, UNKNOWN),
            "step": steps_at(profile, start),
            "link": numbers(link),
            "slice": numbers(target),
            "name": names_of(profile, target),
            **times(profile, start, slices.end[target] - start),
            "class": coded(_CLASSES, all_of.shape),
            "starved": numbers(all_of._each("starved", np.bool_)),
            "lost": numbers(all_of._each("lost", np.float64)),
            "relative": numbers(all_of._each("relative", np.float64)),
            "lead": Numbers(lambda first, last: all_of.lead[first:last]),
            "latency": numbers(links.latency[link]),
            "source_time": numbers(links.source_time[link]),
            "launch": numbers(source, UNKNOWN),
            "launch_name": names_of(profile, source),
            "dequeue": Numbers(lambda first, last: all_of.dequeue[first:last], UNKNOWN),
            "dequeue_start": all_of.later(slices.start, "dequeue"),
            "dequeue_end": all_of.later(slices.end, "dequeue"),
            "enqueue": Numbers(lambda first, last: all_of.enqueue[first:last], UNKNOWN),
            "enqueue_start": all_of.later(slices.start, "enqueue"),
            "enqueue_end": all_of.later(slices.end, "enqueue"),
            "op": Numbers(lambda first, last: all_of.operation[first:last], UNKNOWN),
            "op_name": CodedLabels(lambda: trace.names, lambda first, last: name_of[all_of.operation[first:last]]),
            "op_start": all_of.later(slices.start, "operation"),
            "file": CodedLabels(lambda: [file for file, _, _ in all_of.lines[0]], lambda a, b: all_of.lines[1][a:b]),
            "line": Numbers(lambda first, last: _line_numbers(all_of.lines, first, last), UNKNOWN),
            "function": CodedLabels(
                lambda: [name for _, _, name in all_of.lines[0]], lambda a, b: all_of.lines[1][a:b]
            ),
        },
    )


def _line_numbers(lines: tuple[list[tuple[str, int, str]], Array], first: int, last: int) -> Array:
    number = np.array([line for _, line, _ in lines[0]] + [UNKNOWN], np.int64)
    return number[lines[1][first:last]]


LAUNCHES = table(
    "launches",
    launches,
    sql="rank device step link slice name start end duration start_ns class starved lost relative lead latency "
    "source_time launch launch_name dequeue dequeue_start dequeue_end enqueue enqueue_start enqueue_end op op_name "
    "op_start file line function",
)


def code_lines(profile: Profile, devices: Sequence[Facts] | None = None) -> TableSheet:
    """Lost time by line of code, of all devices or of some; a row leads to its launches, the worst first."""
    facts = [device for device in (profile.facts if devices is None else devices) if device.launches is not None]
    rows = []
    for device in facts:
        lost = np.zeros(0) if device.asked is None else device.asked.lost
        for loss, launches in device.losing:
            for code, at in borrowed_lines(profile, loss.code, device.target[launches]):
                late = launches[at]
                of_line = LineLoss(code, float(lost[late].sum()), len(late), code != loss.code)
                rows.append((device, of_line, late))
    losses = [loss for _, loss, _ in rows]
    total = sum(device.lost for device in losses)

    def place(row: int) -> RankedSlices:
        device, _, launches = rows[row]
        return RankedSlices(len(launches), lambda: device.target[launches])

    return TableSheet(
        len(rows),
        {
            "device": optional([device.part.device for device, _, _ in rows]),
            **attributes(
                losses,
                "lost launches borrowed",
                _OWN,
                file=lambda device: device.code and device.code.file,
                line=lambda device: device.code and device.code.line,
                function=lambda device: device.code and device.code.function,
                share=lambda device: device.lost / total if total else None,
            ),
        },
        place,
        code=lambda row: losses[row].code,
        base=base_of(facts),
    )


_OWN = columns("flag", "", "word", "borrowed")

CODE_LINES = table(
    "code_lines",
    code_lines,
    sql="rank device file line function lost launches borrowed",
    json="file? line? function? lost launches borrowed",
    page="lost launches place",
    panel="lost share launches line=place function",
    row="CodeLineRow",
    about="""Lost time by line of user code; place None where no call stack leads to one.

    ``borrowed``: by another profile (``--eager``), for the first kernel that the launch of a graph replays.
    """,
    own=_OWN,
)


def ranges(profile: Profile, facts: Facts) -> TableSheet:
    """The clusters of near-vertical launches of one device by start."""
    clusters = facts.ranges
    return attribute_rows(clusters, "start end links near_vertical ratio=idle_ratio lost")


RANGES = table(
    "ranges",
    ranges,
    json="start end links near_vertical idle_ratio=ratio? lost",
    page="start end near=near_vertical launches=links device_idle=ratio lost",
    row="RangeRow",
    about="A cluster of near-vertical launches; ``idle_ratio`` is None for one without length.",
)


def drains(profile: Profile, dry: Drains) -> TableSheet:
    """The times without any launch of one device in flight."""
    return TableSheet(
        len(dry),
        {
            "drain_start": numbers(dry.start),
            "drain_end": numbers(dry.end),
            "cause": coded(CAUSES, dry.cause),
            "peak_backlog": numbers(dry.peak_backlog),
            "interrupted": numbers(dry.interrupted),
            "before_name": names_of(profile, dry.before),
            "after_name": names_of(profile, dry.after),
        },
    )


DRAINS = table(
    "drains",
    drains,
    json="start=drain_start end=drain_end cause peak_backlog interrupted before=before_name after=after_name",
    row="DrainRow",
    about="A time without any launch in flight, between the operations ``before`` and ``after``.",
    types={"cause": Cause},
)


def free(profile: Profile) -> TableSheet:
    """Every time a device was free, and what was at fault."""
    gaps = [idle.within(profile.window) for idle in profile.idles]
    rows = sum(len(idle) for idle in gaps)

    def joined(name: str, kind: type = np.int64) -> Array:
        return np.concatenate([getattr(idle, name) for idle in gaps]) if gaps else np.zeros(0, kind)

    start, end, late, unlinked = joined("start"), joined("end"), joined("late", float), joined("unlinked", float)
    length = (end - start).astype(np.float64)
    known = np.repeat(np.array([_has_launches(profile, idle.device) for idle in gaps], np.bool_),
                      [len(idle) for idle in gaps])  # fmt: skip
    device = [UNKNOWN if idle.device is None else idle.device for idle in gaps]
    before, after = joined("before"), joined("after")
    return TableSheet(
        rows,
        {
            "device": numbers(np.repeat(np.array(device, np.int64), [len(idle) for idle in gaps]), UNKNOWN),
            "step": steps_at(profile, start),
            **times(profile, start, end - start),
            "host_late": numbers(np.where(known, late, np.nan)),
            "device_side": numbers(np.where(known, length - late - unlinked, np.nan)),
            "unlinked": numbers(np.where(known, unlinked, np.nan)),
            "before_slice": numbers(before, UNKNOWN),
            "before_name": names_of(profile, before),
            "after_slice": numbers(after, UNKNOWN),
            "after_name": names_of(profile, after),
            "link": numbers(joined("link"), UNKNOWN),
            "late_share": numbers(np.where(unlinked < length, late / np.maximum(length, 1), np.nan)),
        },
        lambda row: [Span(int(start[row]), int(end[row]), marked=False)],
        code=lambda row: line_of(profile.trace, int(after[row])) if after[row] >= 0 else None,
    )


FREE = table(
    "free",
    free,
    sql="rank device step start end duration start_ns host_late device_side unlinked before_slice before_name "
    "after_slice after_name link",
    panel="idle=duration late=late_share line=place next=after_name main queue start",
)


def _has_launches(profile: Profile, device: int | None) -> bool:
    """Whether any launch leads to ``device``, so that its free time can be split."""
    return any(launches.device == device for launches in profile.dispatch)


def syncs(profile: Profile) -> TableSheet:
    """The waits of the host for the device by call and line of code, the costliest first, each at its longest."""
    trace = profile.trace
    sums = sync_sums(trace, profile.idles, ahead_of(profile), profile.window)

    def lengths(row: int) -> Array:
        items = sums[row].items
        return trace.slices.end[items] - trace.slices.start[items]

    sheet = attribute_rows(
        sums,
        "total longest",
        device_idle=lambda wait: wait.idle + wait.after,
        idle_after=lambda wait: wait.after,
        calls=lambda wait: len(wait.items),
        call=lambda wait: wait.call.rpartition("@")[2],
        operation=lambda wait: wait.operation or None,
    )
    return replace(
        sheet,
        place=lambda row: RankedSlices(len(sums[row].items), lambda: sums[row].items),
        lengths=lengths,
        code=lambda row: sums[row].code,
    )


SYNCS = table("syncs", syncs, panel="device_idle idle_after total count=calls max=longest line=place call")


def ahead_of(profile: Profile) -> float:
    """How far the clock of the first device is ahead of the host's, with the way to it, ns."""
    return profile.dispatch[0].floors[0].floor if profile.dispatch else 0.0


_OWN_OF_CPU = {
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

    sheet = attribute_rows(
        rows,
        "state=part by task process lost_time=total late=waits",
        _OWN_OF_CPU,
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
    own=_OWN_OF_CPU,
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


CPU_WAITS = table(
    "cpu_waits", cpu_waits, sql="rank link slice name start lost_time " + " ".join(PARTS), own=_OWN_OF_CPU
)
