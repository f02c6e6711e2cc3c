"""The device's part of the model: tasks in the order of their streams, what launched them, and which wait for which."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.device import DeviceSlices
from npu_tui.trace.before import one_before
from npu_tui.trace.by_slice import BySlice
from npu_tui.trace.distinct import among
from npu_tui.trace.model import HOST_TO_DEVICE, Trace

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

KERNEL, RECORD, AWAIT, COLLECTIVE = range(4)

_AFTER_EVENT_NS = 30_000
"""How long after an event fired a stream goes on at the latest."""


class DeviceTasks(Struct):
    """Tasks of one device by start, ns on the clock of the device; (n,) each.

    ``stream`` numbers streams; a collective counts for the stream its own tasks run on. ``previous`` is the task before
    on the stream (-1: none), ``event`` for a wait the record it waits for (-1: none known). ``launched`` is when the
    host launched a task, in ``lane`` of the host (both -1 where that is not known); tasks of one ``call`` (-1: unknown)
    were launched together.
    """

    item: I64
    kind: I64
    stream: I64
    start: I64
    end: I64
    previous: I64
    event: I64
    launched: I64
    lane: I64
    call: I64

    def __len__(self) -> int:
        return len(self.item)

    def within_launch(self, tasks: I64) -> I64:
        """The task of the same launch that ended last before each of ``tasks`` began, -1 without one; (m,).

        A graph is one launch of many tasks: where one of them starts long after the launch, it follows another.
        """
        found = np.full(len(tasks), -1, np.int64)
        if not len(tasks):
            return found
        order = np.lexsort((self.end, self.call))
        low = np.searchsorted(self.call[order], self.call[tasks], "left")
        high = np.searchsorted(self.call[order], self.call[tasks], "right")
        for at in np.flatnonzero((self.call[tasks] >= 0) & (high - low > 1)).tolist():
            own = order[low[at] : high[at]]
            last = int(np.searchsorted(self.end[own], self.start[tasks[at]], "right")) - 1
            if last >= 0:
                found[at] = own[last]
        return found


def device_tasks(trace: Trace, device: DeviceSlices) -> DeviceTasks:
    """The tasks of ``device``: kernels, copies, collectives, and the records of and waits for events."""
    slices = trace.slices
    hardware = _hardware_lanes(trace, device)
    of_name = _kinds_of_names(trace)
    chosen = device.busy.copy()
    for span in hardware:
        chosen[span] |= of_name[slices.name[span]] != KERNEL
    item = np.flatnonzero(chosen)
    kind = np.where(device.collective[item], COLLECTIVE, of_name[slices.name[item]])
    stream = slices.lane[item].astype(np.int64)
    for lane, own in _streams_of_groups(trace, item, kind, hardware).items():
        stream[stream == lane] = own
    order = np.lexsort((slices.end[item], slices.start[item]))
    item, kind, stream = item[order], kind[order], stream[order]
    launched, source_lane = _launches(trace, item)
    tasks = DeviceTasks(
        item,
        kind,
        stream,
        slices.start[item],
        slices.end[item],
        one_before(stream),
        np.full(len(item), -1, np.int64),
        launched,
        source_lane,
        slices.connection[item].astype(np.int64),
    )
    _pair_events(trace, tasks)
    return tasks


def event_pairs(devices: Sequence[DeviceTasks]) -> tuple[I64, I64]:
    """Waits for events, as slices, and the record each waits for; those whose record is not known are left out."""
    waits, records = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for tasks in devices:
        known = np.flatnonzero(tasks.event >= 0)
        waits.append(tasks.item[known])
        records.append(tasks.item[tasks.event[known]])
    return np.concatenate(waits), np.concatenate(records)


def is_of_event(name: str) -> bool:
    """Whether a task of that name records an event or waits for one."""
    return name.upper().replace(" ", "_").startswith(("EVENT_RECORD", "EVENT_WAIT"))


def _kinds_of_names(trace: Trace) -> I64:
    """What a task of the hardware is by its name: the record of an event, a wait for one, else a kernel."""
    found = np.full(len(trace.names) + 1, KERNEL)
    for code, name in enumerate(trace.names):
        if name[:5].upper() == "EVENT":  # few names do, and a prefix is told sooner
            word = name.upper().replace(" ", "_")
            for kind, prefix in ((RECORD, "EVENT_RECORD"), (AWAIT, "EVENT_WAIT")):
                if word.startswith(prefix):
                    found[code] = kind
    return found


def _hardware_lanes(trace: Trace, device: DeviceSlices) -> list[slice]:
    """The slices of each stream of ``device``."""
    layers = [layer for layer in trace.layers if layer.kind == "hardware" and layer.device == device.device]
    lanes = [trace.lanes[lane] for layer in layers for lane in layer.lanes]
    return [slice(lane.first, lane.last) for lane in lanes]


def _streams_of_groups(trace: Trace, item: I64, kind: I64, hardware: list[slice]) -> dict[int, int]:
    """The hardware lane on which the tasks of each group's collectives run, by the connections that both name."""
    slices = trace.slices
    collectives = item[kind == COLLECTIVE]
    known = collectives[slices.connection[collectives] >= 0]
    ids = np.unique(slices.connection[known])
    on_device = np.concatenate(
        [own.start + np.flatnonzero(among(slices.connection[own], ids)) for own in hardware] or [known[:0]]
    )
    if not len(known) or not len(on_device):
        return {}
    on_device = on_device[np.lexsort((slices.start[on_device], slices.connection[on_device]))]
    ids = slices.connection[on_device]
    at = np.minimum(np.searchsorted(ids, slices.connection[known]), len(ids) - 1)
    hit = ids[at] == slices.connection[known]
    groups, streams = slices.lane[known[hit]], slices.lane[on_device[at[hit]]].astype(np.int64)
    return {int(group): int(np.bincount(streams[groups == group]).argmax()) for group in np.unique(groups)}


def _launches(trace: Trace, item: I64) -> tuple[I64, I64]:
    """When and in which lane each task was launched: by its HostToDevice link, else by the call of its connection."""
    slices, links = trace.slices, trace.links
    time, lane = np.full(len(item), -1, np.int64), np.full(len(item), -1, np.int64)
    connection = slices.connection[item]
    link = trace.links_of(HOST_TO_DEVICE)
    link = link[links.target_slice[link] >= 0]
    led = BySlice(links.target_slice[link], np.arange(len(link))).of(item)
    linked = link[led[led >= 0]]
    time[led >= 0], lane[led >= 0] = links.source_time[linked], links.source_lane[linked]
    other = np.flatnonzero((led < 0) & (connection >= 0))
    calls = _calls_of(trace, np.unique(connection[other]))
    if len(calls):
        ids = slices.connection[calls]
        at = np.minimum(np.searchsorted(ids, connection[other]), len(ids) - 1)
        hit = ids[at] == connection[other]
        time[other[hit]], lane[other[hit]] = slices.start[calls[at[hit]]], slices.lane[calls[at[hit]]]
    known = np.flatnonzero((lane >= 0) & (connection >= 0))
    lost = np.flatnonzero((lane < 0) & (connection >= 0))
    if len(known) and len(lost):
        # Connections are numbered as they are made: the launch before is the nearest that is known.
        known = known[np.argsort(connection[known], kind="stable")]
        at = np.searchsorted(connection[known], connection[lost], "right") - 1
        near = known[np.maximum(at, 0)]
        time[lost], lane[lost] = np.where(at >= 0, time[near], -1), np.where(at >= 0, lane[near], -1)
    return time, lane


def _calls_of(trace: Trace, connections: I64) -> I64:
    """The calls of CANN with one of ``connections``, by connection and then by start."""
    slices = trace.slices
    lanes = [trace.lanes[each] for layer in trace.layers if layer.kind == "cann" for each in layer.lanes]
    found = [np.zeros(0, np.int64)]
    for own in sorted(lanes, key=lambda lane: lane.first):
        found.append(own.first + np.flatnonzero(among(slices.connection[own.first : own.last], connections)))
    calls = np.concatenate(found)
    return calls[np.lexsort((slices.start[calls], slices.connection[calls]))]


def _pair_events(trace: Trace, tasks: DeviceTasks) -> None:
    """The record each wait waits for: of another stream, launched before it, that had fired when the wait ended.

    The file does not name events. A wait that lasted ends as its event fires; one that did not is paired with the
    last record launched before it.
    """
    awaits, records = np.flatnonzero(tasks.kind == AWAIT), np.flatnonzero(tasks.kind == RECORD)
    if not len(awaits) or not len(records):
        return
    connection = trace.slices.connection
    made = connection[tasks.item]
    launched = np.where(made >= 0, made, tasks.start)
    until, stream = tasks.end[awaits], tasks.stream[awaits]
    by_launch = records[np.argsort(launched[records], kind="stable")]
    made = _last_of_others(tasks, by_launch, np.searchsorted(launched[by_launch], launched[awaits], "left") - 1, stream)
    after = until - tasks.end[made]
    found = np.where((made >= 0) & (after >= -_AFTER_EVENT_NS), made, -1)
    by_end = records[np.argsort(tasks.end[records], kind="stable")]
    fired = _last_of_others(tasks, by_end, np.searchsorted(tasks.end[by_end], until, "right") - 1, stream)
    fired[until - tasks.end[fired] > _AFTER_EVENT_NS] = -1
    lasted = until - tasks.start[awaits] > _AFTER_EVENT_NS
    tasks.event[awaits] = np.where(lasted & ((found < 0) | (after > _AFTER_EVENT_NS)), fired, found)


def _last_of_others(tasks: DeviceTasks, records: I64, at: I64, stream: I64) -> I64:
    """The last of ``records`` up to position ``at`` that is of another stream than ``stream``, -1 without one; (n,)."""
    own = tasks.stream[records]
    position = np.arange(len(records))
    first = np.maximum.accumulate(np.where(np.diff(own, prepend=-1) != 0, position, 0))  # of its run of one stream
    safe = np.maximum(at, 0)
    at = np.where((at >= 0) & (own[safe] == stream), first[safe] - 1, at)
    return np.where(at >= 0, records[np.maximum(at, 0)], -1)
