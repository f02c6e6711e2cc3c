"""The device side of the replay's model: tasks on streams, events, collectives and the peers they wait for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct

from npu_tui.analysis.collectives import Arrivals, Collectives
from npu_tui.analysis.communication import AS_LATE, TOGETHER_NS, UNKNOWN, fill_of, lateness, peers_seen, unknown_waits
from npu_tui.analysis.device import DeviceSlices
from npu_tui.analysis.launches import launched_at
from npu_tui.analysis.limits import EVEN, HALF, NEARLY_ALL, SOME
from npu_tui.analysis.pipelines import pipeline_fills
from npu_tui.trace.arrays import I64, Bools, BySlice, among, previous_same
from npu_tui.trace.intervals import covered, difference, union
from npu_tui.trace.model import Trace
from npu_tui.trace.recorder import bound_launch_links

KERNEL, RECORD, AWAIT, COLLECTIVE = range(4)

AFTER_EVENT_NS = 30_000  # a stream continues at most this long after the event that it waits for has fired


class DeviceTasks(Struct):
    """Tasks of one device by start, ns on the clock of the device; (n,) each.

    ``stream`` numbers streams; a collective belongs to the stream that its tasks run on. ``previous`` is the task
    before on the stream (-1: none), ``event`` the record that an event wait waits for (-1: unknown). ``launched`` is
    when the host launched a task on the host ``lane`` (both -1 where unknown); tasks with one ``call`` (-1: unknown)
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

        A graph replay is one launch of many tasks: a task that starts long after the launch follows another one.
        """
        before = np.full(len(tasks), -1, np.int64)
        if not len(tasks):
            return before
        order = np.lexsort((self.end, self.call))
        low = np.searchsorted(self.call[order], self.call[tasks], "left")
        high = np.searchsorted(self.call[order], self.call[tasks], "right")
        for at in np.flatnonzero((self.call[tasks] >= 0) & (high - low > 1)).tolist():
            of_call = order[low[at] : high[at]]
            last = int(np.searchsorted(self.end[of_call], self.start[tasks[at]], "right")) - 1
            if last >= 0:
                before[at] = of_call[last]
        return before


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
    # Collectives have lanes of their own, which are no streams: they queue on the stream that runs their tasks.
    of_groups = _streams_of_groups(trace, item, kind, hardware) | _streams_of_events(trace, item, kind)
    for lane, group_stream in of_groups.items():
        stream[stream == lane] = group_stream
    order = np.lexsort((slices.end[item], slices.start[item]))
    item, kind, stream = item[order], kind[order], stream[order]
    launched, source_lane, call = _launches(trace, item)
    tasks = DeviceTasks(
        item,
        kind,
        stream,
        slices.start[item],
        slices.end[item],
        previous_same(stream),
        np.full(len(item), -1, np.int64),
        launched,
        source_lane,
        call,
    )
    _pair_events(trace, tasks)
    return tasks


def event_pairs(devices: Sequence[DeviceTasks]) -> tuple[I64, I64]:
    """The event waits (slices) and the event record that each waits for; waits for unknown events are left out."""
    waits, records = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for tasks in devices:
        known = np.flatnonzero(tasks.event >= 0)
        waits.append(tasks.item[known])
        records.append(tasks.item[tasks.event[known]])
    return np.concatenate(waits), np.concatenate(records)


def is_of_event(name: str) -> bool:
    """Whether a task called ``name`` records an event or waits for one."""
    return name.upper().replace(" ", "_").startswith(("EVENT_RECORD", "EVENT_WAIT"))


def _kinds_of_names(trace: Trace) -> I64:
    """The kind of a hardware task by the code of its name: RECORD, AWAIT, else KERNEL; (names + 1,)."""
    kind_of_name = np.full(len(trace.names) + 1, KERNEL)
    for code, name in enumerate(trace.names):
        if name[:5].upper() == "EVENT":  # cheaper than the full test, and few names pass
            word = name.upper().replace(" ", "_")
            for kind, prefix in ((RECORD, "EVENT_RECORD"), (AWAIT, "EVENT_WAIT")):
                if word.startswith(prefix):
                    kind_of_name[code] = kind
    return kind_of_name


def _hardware_lanes(trace: Trace, device: DeviceSlices) -> list[slice]:
    """The slices of each stream of ``device``."""
    layers = [layer for layer in trace.layers if layer.kind == "hardware" and layer.device == device.device]
    lanes = [trace.lanes[lane] for layer in layers for lane in layer.lanes]
    return [slice(lane.first, lane.last) for lane in lanes]


def _streams_of_groups(trace: Trace, item: I64, kind: I64, hardware: list[slice]) -> dict[int, int]:
    """The hardware lane that runs the tasks of each group lane's collectives, by the connection ids of both."""
    slices = trace.slices
    collectives = item[kind == COLLECTIVE]
    known = collectives[slices.connection[collectives] >= 0]
    ids = np.unique(slices.connection[known])
    on_device = np.concatenate(
        [span.start + np.flatnonzero(among(slices.connection[span], ids)) for span in hardware] or [known[:0]]
    )
    if not len(known) or not len(on_device):
        return {}
    on_device = on_device[np.lexsort((slices.start[on_device], slices.connection[on_device]))]
    ids = slices.connection[on_device]
    at = np.minimum(np.searchsorted(ids, slices.connection[known]), len(ids) - 1)
    hit = ids[at] == slices.connection[known]
    groups, streams = slices.lane[known[hit]], slices.lane[on_device[at[hit]]].astype(np.int64)
    return {int(group): int(np.bincount(streams[groups == group]).argmax()) for group in np.unique(groups)}


def _streams_of_events(trace: Trace, item: I64, kind: I64) -> dict[int, int]:
    """The hardware lane of each group whose events hold its collectives, where the tasks of these run beside it.

    Nothing computes there, and as most of the collectives end an event is recorded or waited for.
    """
    slices, lane = trace.slices, trace.slices.lane[item].astype(np.int64)
    events = item[((kind == RECORD) | (kind == AWAIT)) & ~among(lane, np.unique(lane[kind == KERNEL]))]
    groups = item[kind == COLLECTIVE]
    found: dict[int, int] = {}
    for stream in np.unique(slices.lane[events]).tolist():
        fired = np.append(np.sort(slices.start[events[slices.lane[events] == stream]]), np.iinfo(np.int64).max)
        for group in np.unique(slices.lane[groups]).tolist():
            ends = slices.end[groups[slices.lane[groups] == group]]
            after = fired[np.searchsorted(fired, ends)] - ends
            if group != stream and np.count_nonzero(after <= AFTER_EVENT_NS) > HALF * len(ends):
                found[group] = stream
    return found


def _launches(trace: Trace, item: I64) -> tuple[I64, I64, I64]:
    """When, on which host lane and by which call each task was launched: by its link, else by its connection id.

    (n,) each, -1 where unknown.
    """
    slices, links = trace.slices, trace.links
    time, lane = np.full(len(item), -1, np.int64), np.full(len(item), -1, np.int64)
    connection = slices.connection[item].astype(np.int64)
    call = connection.copy()
    link = bound_launch_links(trace)
    led = BySlice(links.target_slice[link], np.arange(len(link))).of(item)
    linked = link[led[led >= 0]]
    time[led >= 0], lane[led >= 0] = launched_at(trace, linked), links.source_lane[linked]
    if (connection < 0).all():  # a GPU has none
        call[led >= 0] = links.source_slice[linked]
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
        # Connection ids ascend in the order of launches: take the known launch with the next lower id.
        known = known[np.argsort(connection[known], kind="stable")]
        at = np.searchsorted(connection[known], connection[lost], "right") - 1
        near = known[np.maximum(at, 0)]
        time[lost], lane[lost] = np.where(at >= 0, time[near], -1), np.where(at >= 0, lane[near], -1)
    of_copies = np.array([_COPY in name.lower() for name in trace.names] + [False], np.bool_)
    lost = np.flatnonzero((lane < 0) & of_copies[slices.name[item]])
    if len(lost):
        # Databases of older chips keep the calls of copies, and not which copy each made: they come in their order.
        calls = _cann_slices(trace, lambda own: of_copies[slices.name[own]])
        calls = calls[~among(slices.connection[calls], np.unique(connection))]
        calls = calls[np.argsort(slices.start[calls], kind="stable")]
        if len(calls) == len(lost) and (slices.start[calls] <= slices.start[item[lost]]).all():
            time[lost], lane[lost] = slices.start[calls], slices.lane[calls]
    return time, lane, call


_COPY = "memcpy"


def _calls_of(trace: Trace, connections: I64) -> I64:
    """The CANN calls with one of the ids ``connections``, by connection id and start."""
    slices = trace.slices
    calls = _cann_slices(trace, lambda own: among(slices.connection[own], connections))
    return calls[np.lexsort((slices.start[calls], slices.connection[calls]))]


def _cann_slices(trace: Trace, chosen: Callable[[slice], Bools]) -> I64:
    """The CANN calls that are ``chosen``, ascending."""
    lanes = [trace.lanes[index] for layer in trace.layers if layer.kind == "cann" for index in layer.lanes]
    parts = [np.zeros(0, np.int64)]
    for own in sorted(lanes, key=lambda lane: lane.first):
        parts.append(own.first + np.flatnonzero(chosen(slice(own.first, own.last))))
    return np.concatenate(parts)


def _pair_events(trace: Trace, tasks: DeviceTasks) -> None:
    """Pair each event wait with the record it waits for: on another stream, launched before, fired when it ended.

    The file does not identify events. A wait that took time ended when its event fired; a wait that took none is
    paired with the last record that was launched before it.
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
    record = np.where((made >= 0) & (after >= -AFTER_EVENT_NS), made, -1)
    by_end = records[np.argsort(tasks.end[records], kind="stable")]
    fired = _last_of_others(tasks, by_end, np.searchsorted(tasks.end[by_end], until, "right") - 1, stream)
    fired[until - tasks.end[fired] > AFTER_EVENT_NS] = -1
    lasted = until - tasks.start[awaits] > AFTER_EVENT_NS
    tasks.event[awaits] = np.where(lasted & ((record < 0) | (after > AFTER_EVENT_NS)), fired, record)


def _last_of_others(tasks: DeviceTasks, records: I64, at: I64, stream: I64) -> I64:
    """The last of ``records`` up to position ``at`` on another stream than ``stream``, -1 without one; (n,)."""
    stream_of_record = tasks.stream[records]
    position = np.arange(len(records))
    first = np.maximum.accumulate(
        np.where(np.diff(stream_of_record, prepend=-1) != 0, position, 0)
    )  # first of each run of records on one stream
    safe = np.maximum(at, 0)
    at = np.where((at >= 0) & (stream_of_record[safe] == stream), first[safe] - 1, at)
    return np.where(at >= 0, records[np.maximum(at, 0)], -1)


# A lateness that varies by less than this share of the variation of the work before does not depend on that work.
_STEADY = 0.3


class TaskMeetings(Struct, frozen=True):
    """Collectives by start: index ``task`` of the device's tasks, index ``previous`` of the group's last one; (n,).

    ``late`` are the arrivals of the late ranks of the run, of an UNKNOWN one where only the length shows a wait.
    ``others`` is when the last of the other peers arrived, ns after this rank: they run the same code and move with
    this rank. ``other`` is that peer, UNKNOWN where none came later. ``transfer`` is the time from the last arrival to
    the end, ns; ``seen`` are all known arrivals. In a meeting that is ``following``, the last rank is equally late
    however long this rank takes: it does the same work and moves with this rank too.
    """

    task: I64
    previous: I64
    late: Arrivals
    others: I64
    other: I64
    transfer: I64
    seen: Arrivals
    following: Bools

    def __len__(self) -> int:
        return len(self.task)


def meetings(trace: Trace, collectives: Collectives, tasks: DeviceTasks, steps: int = 0) -> TaskMeetings:
    """The meetings of the device's ``tasks`` by start; ``steps`` is how many steps the run has."""
    guessed = unknown_waits(trace, collectives)
    fills = pipeline_fills(trace, collectives, steps)
    chosen = np.flatnonzero(tasks.kind == COLLECTIVE)
    item, elapsed = tasks.item[chosen], tasks.end[chosen] - tasks.start[chosen]
    seen, fill = _arrivals_at(collectives, item), fill_of(fills, item)
    waits = lateness(seen, elapsed, fill, fill_of(guessed, item))
    late, others = waits.behind, waits.others
    previous = previous_same(trace.slices.lane[item])
    before = tasks.start[chosen] - tasks.end[chosen[np.maximum(previous, 0)]]
    step = int(tasks.end.max() - tasks.start.min()) // steps if steps and len(chosen) else 0
    follow = _following(seen.taken(previous[seen.owner] >= 0), before, waits.late, step)
    on_time = waits.arrivals.taken(~waits.arrivals.of(waits.late))
    last = on_time.taken(on_time.after > 0).last()
    other = np.full(len(chosen), UNKNOWN)
    other[last.owner] = last.rank
    following, waited = np.zeros((2, len(chosen)), np.bool_)
    longest = late.longest()
    following[longest.owner] = longest.of(frozenset(follow)) | _held_up_alike(tasks, chosen, longest)
    waited[late.owner] = True
    others = np.where(waited, np.maximum(others, fill), others)
    return TaskMeetings(chosen, previous, late, others, other, elapsed - waits.arrivals.latest(), seen, following)


def _arrivals_at(collectives: Collectives, items: I64) -> Arrivals:
    """The arrivals at each of the slices ``items``; owners are positions in ``items``."""
    order = np.argsort(items)
    at = np.searchsorted(items, collectives.item, sorter=order)
    row = np.append(order, -1)[at]
    row[np.append(items, -1)[row] != collectives.item] = -1
    arrivals = peers_seen(collectives)
    owner = row[arrivals.owner]
    by_owner = np.argsort(owner, kind="stable")
    by_owner = by_owner[owner[by_owner] >= 0]
    return Arrivals(len(items), owner[by_owner], arrivals.rank[by_owner], arrivals.after[by_owner])


def _held_up_alike(tasks: DeviceTasks, collective: I64, longest: Arrivals) -> bool:
    """Whether the peers are held up as this rank is: it stands still twice as long as it waits for the last of them.

    In neither time does the device compute; ``longest`` are the arrivals of the last late peers at the tasks
    ``collective``. Among ranks that run the same code, one that stood still alone would make the others wait for it.
    """
    kernels = tasks.kind == KERNEL
    computing = union(tasks.start[kernels], tasks.end[kernels])
    start = tasks.start[collective[longest.owner]]
    waiting = covered(*difference(start, start + longest.after, *computing))
    runs = union(np.append(computing[0], tasks.start[collective]), np.append(computing[1], tasks.end[collective]))
    still = int((runs[0][1:] - runs[1][:-1]).sum())
    return waiting <= HALF * still


def _following(arrivals: Arrivals, before: I64, late: frozenset[int], step: int) -> set[int]:
    """The ``late`` ranks that are equally late at every collective, whatever this rank did ``before`` it (ns).

    So are those that are hardly late, at all or most often for the work in between or a ``step`` (ns, 0: unknown), in
    which it adds up: they run the same code.
    """
    ranks = set()
    for rank in late - {UNKNOWN}:
        arrivals_of_rank = arrivals.taken(arrivals.rank == rank)
        after, work = arrivals_of_rank.after, before[arrivals_of_rank.owner]
        if (after <= TOGETHER_NS).all() or (after <= EVEN * np.maximum(work, step)).mean() >= NEARLY_ALL:
            ranks.add(rank)
            continue
        if len(after) < SOME or after.min() < AS_LATE * float(np.median(after)):
            continue
        if float(np.std(after)) < _STEADY * float(np.std(work)):
            ranks.add(rank)
    return ranks
