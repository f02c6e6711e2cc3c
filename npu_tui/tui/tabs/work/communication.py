"""The Communication tab: every collective, how long it waited, and for whom."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from npu_tui.analysis.collectives import Collective
from npu_tui.analysis.operators import collective_type
from npu_tui.ingest.errors import InputError
from npu_tui.profile.profile import Profile
from npu_tui.strings import say
from npu_tui.trace.intervals import clipped, covered, difference
from npu_tui.trace.model import Trace
from npu_tui.trace.text import brief, duration_text, exact_text, share_text
from npu_tui.tui.keys.commands import BY_ID, keys_label
from npu_tui.tui.tabs.table.scope import ComputedTab, Ranked, nothing, scope_note
from npu_tui.tui.tabs.table.tab import GAP, Content, Context, Row, Stretch, Table
from npu_tui.tui.tabs.work.link_matrix import link_table

_COLUMNS = (
    "name", "elapsed", "exposed", "last", "wait", "longest", "transit", "sync", "ratio", "size", "bandwidth", "start",
    "group",
)  # fmt: skip
_MB = 1_000_000


class CommunicationTab(ComputedTab):
    """A row per collective by start; Enter goes there, and again to the next one of its type."""

    id = "communication"
    key = "7"

    def __init__(self) -> None:
        super().__init__()
        self._links = False

    def depends_on(self, now: Context) -> object:
        """The trace, the range, and whether links are shown."""
        return now.trace, now.marked, self._links

    def again(self) -> bool:
        """Change between collectives and the links between ranks."""
        self._links = not self._links
        return True

    def compute(self, now: Context) -> Content:
        """The collectives of all groups; those that run in the range, where one is marked. Or the links."""
        trace = now.profile.trace
        if self._links:
            return link_table(now.profile.link_matrix)
        try:
            found = _running(now)
        except InputError as error:
            return say("communication.gone", why=error.message)
        if not found and not len(trace.slices):
            return _of_tables(now)
        if not found:
            return nothing(now, say("communication.none"))
        types = [collective_type(trace.name_of(each.item)) for each in found]
        kinds: dict[str, list[int]] = {}
        turns = []
        for each, kind in zip(found, types, strict=True):
            turns.append(len(kinds.setdefault(kind, [])))
            kinds[kind].append(each.item)
        rows, offset = [], now.session.scene.offsets[now.trace]
        alone, together = _exposed(now.profile, [each.item for each in found])
        for each, kind, turn, exposed in zip(found, types, turns, alone, strict=True):
            own = kinds[kind]
            rows.append(_row(trace, each, exposed, offset, Ranked(now.trace, len(own), partial(_from, own, turn))))
        elapsed = duration_text(sum(each.elapsed for each in found))
        shown = duration_text(together)
        total = say("communication.total", count=f"{len(found):,}", elapsed=elapsed, exposed=shown)
        links = say("communication.links", key=keys_label(BY_ID["tab_communication"]))
        note = GAP.join([total, scope_note(now)])
        return Table(tuple(say(f"communication.{key}") for key in _COLUMNS), rows, note, again=links)


def _running(now: Context) -> Sequence[Collective]:
    """The collectives that run in the range, whole ones, or all. Raises ``InputError`` if the file is gone."""
    found, marked = now.profile.whole.collectives, now.marked_in(now.trace)
    if marked is None:
        return found
    slices = now.profile.trace.slices
    return [each for each in found if slices.start[each.item] < marked[1] and slices.end[each.item] > marked[0]]


_TABLE_COLUMNS = ("name", "elapsed", "wait", "transit", "sync", "ratio", "size", "bandwidth", "start", "group")


def _of_tables(now: Context) -> Content:
    """The collectives of communication.json, where there is no trace."""
    profile = now.profile
    moved: dict[tuple[str, int], tuple[float, int]] = {}
    for each in profile.transfers:
        if each.transport in ("SDMA", "RDMA"):
            size, time = moved.get((each.name, each.start), (0.0, 0))
            moved[each.name, each.start] = size + each.size, time + each.time
    columns = ("name", "group", "start", "elapsed", "wait", "transit", "synchronization", "synchronization_ratio")
    frame, origin = profile.tables.communication.frame, profile.tables.start_ns
    rows = []
    for name, group, start, elapsed, *times, ratio in frame.select(*columns).iter_rows():
        begin = None if start is None else start - origin
        sums = moved.get((name, begin or 0))
        volume = None if sums is None else sums[0]
        speed = sums[0] / sums[1] if sums is not None and sums[1] else None
        shown = ["" if value is None else duration_text(value) for value in (elapsed, *times)]
        cells = (
            brief(name), *shown, "" if ratio is None else share_text(ratio),
            "" if volume is None else say("communication.megabytes", size=volume / _MB),
            "" if speed is None else say("communication.gigabytes", speed=speed),
            "" if begin is None else exact_text(begin), brief(group or ""),
        )  # fmt: skip
        values = (name, elapsed, *times, ratio, volume, speed, begin, group)
        place = () if begin is None else (Stretch(begin, begin + (elapsed or 0), now.trace, words=brief(name)),)
        rows.append(Row(cells, place, values))
    if not rows:
        return say("communication.none")
    links = say("communication.links", key=keys_label(BY_ID["tab_communication"]))
    return Table(tuple(say(f"communication.{key}") for key in _TABLE_COLUMNS), rows, again=links)


def _exposed(profile: Profile, items: list[int]) -> tuple[list[int], int]:
    """How long (ns) nothing was computed on the device while each of the collectives ran, and while any of them did."""
    slices, trace = profile.trace.slices, profile.trace
    together = 0
    own: dict[int | None, list[int]] = {}
    for item in items:
        own.setdefault(trace.layers[trace.lanes[int(slices.lane[item])].layer].device, []).append(item)
    alone: dict[int, int] = {}
    for device, members in own.items():
        lanes = [each for each in profile.overlap_lanes if each.device == device] or profile.overlap_lanes
        computing = lanes[0].computing if lanes else (slices.start[:0], slices.end[:0])
        for item in members:
            start, end = int(slices.start[item]), int(slices.end[item])
            alone[item] = end - start - covered(*clipped(*computing, start, end))
        together += covered(*difference(slices.start[members], slices.end[members], *computing))
    return [alone[item] for item in items], together


def _from(items: list[int], turn: int) -> npt.NDArray[np.int64]:
    return np.roll(np.array(items, np.int64), -turn)


def _row(trace: Trace, each: Collective, exposed: int, offset: int, places: Ranked) -> Row:
    timing = each.timing
    size = sum(link.size for link in each.traffic) if each.traffic else None
    transfer = sum(link.transfer for link in each.traffic) if each.traffic else None
    bandwidth = size / transfer if size is not None and transfer else None
    last = max(each.arrivals, key=lambda arrival: arrival[1]) if each.arrivals else None
    start = int(trace.slices.start[each.item]) + offset
    name, group = brief(trace.name_of(each.item)), brief(trace.lanes[int(trace.slices.lane[each.item])].name)
    times = (timing.wait, timing.transit, timing.synchronization) if timing else (None, None, None)
    moved = timing.synchronization + timing.transit if timing else 0
    ratio = timing.synchronization / moved if timing and moved else None
    longest = "" if each.longest_wait is None else duration_text(each.longest_wait)
    if each.peer is not None:
        longest = say("communication.peer", wait=longest, rank=each.peer)
    wait, transit, synchronization = ("" if value is None else duration_text(value) for value in times)
    cells = (
        name,
        duration_text(each.elapsed),
        duration_text(exposed),
        "" if last is None else say("communication.after", rank=last[0], after=duration_text(last[1])),
        wait,
        longest,
        transit,
        synchronization,
        "" if ratio is None else share_text(ratio),
        "" if size is None else say("communication.megabytes", size=size / _MB),
        "" if bandwidth is None else say("communication.gigabytes", speed=bandwidth),
        exact_text(start),
        group,
    )
    values = (
        name,
        each.elapsed,
        exposed,
        None if last is None else last[1],
        times[0],
        each.longest_wait,
        *times[1:],
        ratio,
        size,
        bandwidth,
        start,
        group,
    )
    return Row(cells, places, values)
