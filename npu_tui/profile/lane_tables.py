"""The tables of traces without a device of their own: lanes, names, and the cores of one kernel with their pipes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from npu_tui.analysis.lanes import core_lanes, lane_times
from npu_tui.load.formats.opprof import Core, measured_cores
from npu_tui.profile.parts import FOREIGN
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import COLUMNS, RankedSlices, TableSheet, columns, from_tuples, table
from npu_tui.trace.arrays import I64, distinct, summed

_OWN = {
    **columns("whole", "ns", "time", "busy waits on_chain span"),
    **columns("real", "0..1", "share", "busy_share of_slowest"),
    **columns("label", "", "name", "core pipe"),
}
_LANES = "layer lane slices busy busy_share waits on_chain"
_CORES = "core span of_slowest pipe busy busy_share waits"
LaneRow = tuple[str, str, int | None, int, float | None, int | None, int | None]


def _is_shown(profile: Profile) -> bool:
    return profile.kind in FOREIGN or (profile.kind == "kineto" and not profile.devices)


def _of_operator(profile: Profile) -> list[Core]:
    """The cores of the operator that ``msprof op`` measured; none of anything else."""
    source = profile.source
    return measured_cores(source.path) if profile.kind == "opprof" and source is not None else []


def lanes(profile: Profile) -> TableSheet:
    """The lanes with slices: of the simulator pipes of cores, of PTO cores; what works longest comes first."""
    trace = profile.trace
    rows: list[tuple[LaneRow, int]] = []
    if _is_shown(profile):
        found, (of_cores, _) = lane_times(trace), core_lanes(trace)
        has_chain, pipes = bool(found.chained.any()), frozenset(of_cores.tolist())
        times = (found.lane, found.slices, found.busy, found.span, found.wait, found.chained)
        for index, count, busy, span, wait, chained in zip(*(column.tolist() for column in times), strict=True):
            lane, known = trace.lanes[index], index in pipes
            row = (
                trace.layers[lane.layer].name, lane.name, count, busy, busy / span if span else None,
                wait if known else None, chained if known and has_chain else None,
            )  # fmt: skip
            rows.append((row, index))
    for core in _of_operator(profile):
        rows += [((core.name, pipe.name, None, pipe.busy, pipe.share, pipe.waits, None), -1) for pipe in core.pipes]
    rows.sort(key=lambda row: -row[0][3])
    sheet = from_tuples([row for row, _ in rows], _LANES, COLUMNS | _OWN)
    if not len(trace.slices):
        return sheet

    def place(row: int) -> RankedSlices:
        lane = trace.lanes[rows[row][1]]
        return RankedSlices(lane.last - lane.first, lambda: _longest_slices(profile, np.arange(lane.first, lane.last)))

    return TableSheet(sheet.rows, sheet.data, place)


def _longest_slices(profile: Profile, items: I64) -> I64:
    slices = profile.trace.slices
    return items[np.argsort(slices.start[items] - slices.end[items], kind="stable")]


LANES = table(
    "lanes",
    lanes,
    sql=_LANES,
    json="layer lane count=slices? busy busy_share? waits? on_chain?",
    page="process=layer lane count=slices busy share=busy_share pipe_waits=waits on_chain",
    panel="busy share=busy_share pipe_waits=waits on_chain count=slices lane process=layer",
    section="lanes",
    tab=True,
    row="LaneRow",
    about="""A lane of a trace without a device, or a pipe of one kernel; shares are of the time of its layer.

    ``waits_us`` is time in instructions that wait for other pipes, ``on_chain_us`` that in the longest chain.
    """,
    own=_OWN,
)


def cores(profile: Profile) -> TableSheet:
    """The cores that ran one kernel, or tasks of PTO, each with its busiest pipe; the slowest comes first."""
    rows = sorted(_cores(profile), key=lambda row: -row[1])
    slowest = max((row[1] for row in rows), default=0)
    found = [
        (core, span, span / slowest if slowest else None, pipe, busy, busy / span if span else None, waits)
        for core, span, pipe, busy, waits in rows
    ]
    return from_tuples(found, _CORES, COLUMNS | _OWN)


CoreRow = tuple[str, int, str | None, int, int | None]
"""A core, how long it ran, its busiest pipe, how long that worked and waited, ns."""


def _cores(profile: Profile) -> Iterator[CoreRow]:
    for core in _of_operator(profile):
        longest = max(core.pipes, key=lambda pipe: pipe.busy)
        yield core.name, core.span, longest.name, longest.busy, longest.waits
    trace = profile.trace
    known, are_cores = core_lanes(trace)
    if not _is_shown(profile) or not len(known):
        return
    times, slices = lane_times(trace), trace.slices
    at = np.searchsorted(times.lane, known)
    if are_cores:
        for lane, k in zip(known.tolist(), at.tolist(), strict=True):
            one = trace.lanes[lane]
            span = int(slices.end[one.first : one.last].max() - slices.start[one.first])
            yield one.name, span, None, int(times.busy[k]), None
        return
    of_layer: dict[int, list[int]] = {}
    for k in at.tolist():
        of_layer.setdefault(trace.lanes[times.lane[k]].layer, []).append(k)
    for layer, members in of_layer.items():
        most = max(members, key=lambda k: int(times.busy[k]))
        pipe = trace.lanes[times.lane[most]].name
        yield trace.layers[layer].name, int(times.span[most]), pipe, int(times.busy[most]), int(times.wait[most])


CORES = table(
    "cores",
    cores,
    sql=_CORES,
    json="core span of_slowest? pipe? busy busy_share? waits?",
    page="core span of_slowest pipe busy share=busy_share pipe_waits=waits",
    panel="core span of_slowest pipe busy share=busy_share pipe_waits=waits",
    section="cores",
    tab=True,
    row="CoreRow",
    about="A core of one kernel, or of PTO's swimlanes, from its first to its last work, with its busiest pipe.",
    own=_OWN,
)


def names(profile: Profile) -> TableSheet:
    """The names of slices by their time, most first."""
    slices = profile.trace.slices
    if not _is_shown(profile) or not len(slices):
        return TableSheet(0, {})
    length = slices.end - slices.start
    known, code = distinct(slices.name)
    total = summed(code, length, len(known))
    longest = np.zeros(len(known), np.int64)
    np.maximum.at(longest, code, length)
    order = np.lexsort((known, -total))
    count = np.bincount(code, minlength=len(known))
    rows = [(profile.trace.names[known[k]], int(count[k]), int(total[k]), int(longest[k])) for k in order.tolist()]
    sheet = from_tuples(rows, "name slices total longest")

    def place(row: int) -> RankedSlices:
        return RankedSlices(rows[row][1], lambda: _longest_slices(profile, np.flatnonzero(code == order[row])))

    return TableSheet(sheet.rows, sheet.data, place)


NAMES = table(
    "names",
    names,
    sql="name slices total longest",
    json="name count=slices total longest",
    page="total count=slices longest name",
    panel="total count=slices longest name",
    section="names",
    tab=True,
    row="NameRow",
    about="The slices of one name in a trace without a device; those within each other count each.",
)
