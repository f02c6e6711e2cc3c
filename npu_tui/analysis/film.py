"""A replayed run as a trace: the slices of the recorded one, or the requests of a service, as the replay passes them.

The replay knows when points of host threads are passed and when tasks of the device run. What lies between two points
of a thread keeps its length, without what the change removes, and ends with the next point at the latest. What lies in
a task of the device, or between two, moves with these. Counters are left out: no replay has them.

Of a service batches are left out: the replay forms others, which no recorded one stands for. So are requests that it
does not serve, such as those whose begin or end was not recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from msgspec import Struct
from msgspec.structs import replace as changed

from npu_tui.analysis.device import DeviceSlices
from npu_tui.analysis.overlap import COMMUNICATION, COMPUTING, FREE, NOT_OVERLAPPED, computed_lanes
from npu_tui.analysis.replay import ANY_THREAD, Change, HostCut, Replay, Run, spans_by_cut
from npu_tui.analysis.replay_device import AWAIT, COLLECTIVE, RECORD
from npu_tui.analysis.replay_host import MARK, thread_numbers
from npu_tui.analysis.service_model import ServiceModel
from npu_tui.analysis.service_replay import moments
from npu_tui.native.rows import first_fit
from npu_tui.trace.arrays import I32, I64, Bools, sort_slices
from npu_tui.trace.intervals import covered_before, difference, union
from npu_tui.trace.model import Counters, Lane, Links, Rows, Slices, Trace, make_rows

_OF_DEVICE = ("hardware", "communication")


class _Moves(Struct, frozen=True, eq=False):
    """When what happened at ``recorded`` happens in the replayed run, ``played``; both ascend, ns; (n,) each."""

    recorded: I64
    played: I64

    @classmethod
    def of(cls, recorded: I64, played: I64) -> _Moves:
        """The moves by known moments in any order: among several at one time the last counts, and none goes back."""
        order = np.lexsort((played, recorded))
        recorded, played = recorded[order], np.maximum.accumulate(played[order])
        last = np.append(recorded[1:] != recorded[:-1], True)[: len(recorded)]
        return cls(recorded[last], played[last])

    def at(self, time: I64) -> I64:
        """When ``time`` is: in proportion between two known moments, shifted outside of them."""
        if not len(self.recorded):
            return time
        inside = np.rint(np.interp(time, self.recorded, self.played)).astype(np.int64)
        before, after = time + self.played[0] - self.recorded[0], time + self.played[-1] - self.recorded[-1]
        return np.where(time < self.recorded[0], before, np.where(time > self.recorded[-1], after, inside))

    def kept_at(self, time: I64, cuts: Iterable[HostCut]) -> I64:
        """When ``time`` is where work between two known moments keeps its length, but for ``cuts``."""
        if not len(self.recorded):
            return time
        follows = np.searchsorted(self.recorded, time, "right")
        at = np.maximum(follows - 1, 0)
        lengths = _kept_before(time, cuts) - _kept_before(self.recorded[at], cuts)
        next_one = np.append(self.played, np.iinfo(np.int64).max)[np.maximum(follows, 1)]
        moved: I64 = np.minimum(self.played[at] + lengths, next_one)
        return moved


def _kept_before(time: I64, cuts: Iterable[HostCut]) -> I64:
    """How much of the work before each ``time`` is left, ns; the smallest factor counts where cuts meet."""
    left = time.astype(np.float64)
    taken = (np.zeros(0, np.int64), np.zeros(0, np.int64))
    for _, keep, span in spans_by_cut(_of_any_thread(cuts)):
        own = difference(*span, *taken)
        left -= (1.0 - keep) * covered_before(*own, time.astype(np.float64))
        taken = union(np.concatenate((taken[0], own[0])), np.concatenate((taken[1], own[1])))
    result: I64 = np.rint(left).astype(np.int64)
    return result


def _of_any_thread(cuts: Iterable[HostCut]) -> list[HostCut]:
    """The ``cuts`` of one thread relabelled as cuts of any thread, so that they merge."""
    return [HostCut(ANY_THREAD, cut.span, cut.keep) for cut in cuts]


def film(replay: Replay, change: Change, devices: Sequence[DeviceSlices]) -> tuple[Trace, I64]:
    """The run of ``replay`` with ``change`` as a trace with the lanes, slices and links of the recorded one.

    Its steps and tasks lie where the replay has them, to the nanosecond. The lanes of the overlap of ``devices`` are
    computed of them. Slices are in the order of their new starts: the second result is the new number of each recorded
    one, -1 where it is not there; (slices + 1,), the last for no slice.
    """
    trace = replay.model.trace
    start, end = _replayed_times(replay, replay.run(change), change)
    moved = as_nature(trace, replace(trace, slices=changed(trace.slices, start=start, end=end)))
    dropped, added = _overlap(moved, devices)
    return assembled(trace, moved, np.flatnonzero(~dropped), added)


def moved_film(trace: Trace, recorded: I64, played: I64, devices: Sequence[DeviceSlices]) -> Trace:
    """The run of ``trace`` where the moments ``recorded`` are ``played`` instead, ns; all between two in proportion."""
    moves, slices = _Moves.of(recorded, played), trace.slices
    start, end = moves.at(slices.start), moves.at(slices.end)
    moved = as_nature(trace, replace(trace, slices=changed(slices, start=start, end=end)))
    dropped, added = _overlap(moved, devices)
    return assembled(trace, moved, np.flatnonzero(~dropped), added)[0]


def _replayed_times(replay: Replay, run: Run, change: Change) -> tuple[I64, I64]:
    """Start and end of every slice in the replayed run, ns; (n,) each."""
    model, trace = replay.model, replay.model.trace
    tasks, slices = model.tasks, trace.slices
    start, end = slices.start.copy(), slices.end.copy()
    _move_host(replay, run, change, start, end)
    lane_of = slices.lane[tasks.item]
    ends = np.maximum(run.ends, run.starts)
    # Of a collective that waits for ranks the transfer keeps its length, and the wait takes what is left.
    both = np.flatnonzero(tasks.kind == COLLECTIVE)
    transfer = np.zeros(len(tasks), np.int64)
    transfer[model.meetings.task] = model.meetings.transfer
    # Of events only the end is a moment of the replay.
    fires = np.isin(tasks.kind, (RECORD, AWAIT))
    timed = np.flatnonzero(~fires)
    moments = (
        np.concatenate((tasks.start[timed], tasks.end, (tasks.end - transfer)[both])),
        np.concatenate((run.starts[timed], ends, np.maximum(ends - transfer, run.starts)[both])),
    )
    of_moment = np.concatenate((timed, np.arange(len(tasks)), both))
    exchanging = np.zeros(len(tasks), np.bool_)
    exchanging[both] = True
    for lane in trace.file_lanes:
        layer = trace.layers[lane.layer]
        if layer.kind not in _OF_DEVICE or not _is_replayed(trace, layer.device, lane_of) or lane.first == lane.last:
            continue
        own = (tasks.stream == lane.index) | (lane_of == lane.index)
        if not own.any():  # a plane of a group moves with the collectives, a stream without tasks with all of them
            own = exchanging if layer.kind == "communication" and len(both) else np.ones(len(own), np.bool_)
        at = own[of_moment]
        moves = _Moves.of(moments[0][at], moments[1][at])
        span = slice(lane.first, lane.last)
        start[span], end[span] = moves.at(slices.start[span]), moves.at(slices.end[span])
    start[tasks.item[timed]] = run.starts[timed]
    end[tasks.item] = ends
    fired = tasks.item[fires]
    start[fired] = np.minimum(start[fired], end[fired])
    return start, np.maximum(end, start)


def _is_replayed(trace: Trace, device: int | None, lane_of: I32) -> bool:
    """Whether ``device`` is that of the tasks on the lanes ``lane_of``."""
    return device is None or not len(lane_of) or trace.layer_of(int(lane_of[0])).device in (None, device)


def _move_host(replay: Replay, run: Run, change: Change, start: I64, end: I64) -> None:
    """Move the slices of host threads. A thread without points moves with the one that has most of them."""
    model, trace = replay.model, replay.model.trace
    host, slices = model.host, trace.slices
    recorded, played = model.time[host.node], run.time[host.node]
    _, number = thread_numbers(trace)
    counts = np.bincount(host.thread, minlength=1)
    for lane in trace.file_lanes:
        thread = int(number[lane.index])
        if thread < 0 or lane.first == lane.last:
            continue
        known = thread if thread < len(counts) and counts[thread] else int(counts.argmax())
        own = host.thread == known
        moves = _Moves.of(recorded[own], played[own])
        tid = int(model.tids[known]) if known < len(model.tids) else ANY_THREAD
        cuts = [cut for cut in change.host if cut.thread in (ANY_THREAD, tid)]
        span = slice(lane.first, lane.last)
        start[span], end[span] = (moves.kept_at(times[span], cuts) for times in (slices.start, slices.end))
    # Steps are measured by their own points.
    marks = np.flatnonzero((host.kind == MARK) & (host.item >= 0))
    item = host.item[marks]
    for times, before in ((start, slices.start), (end, slices.end)):
        at = before[item] == recorded[marks]
        times[item[at]] = played[marks[at]]


def as_nature(trace: Trace, made: Trace) -> Trace:
    """``made`` with what ``trace`` has beside its columns: its nature, its service, the scheduling of its threads."""
    for name in ("nature", "service", "scheduling", "is_untimed", "bytes_beside", "held"):
        setattr(made, name, getattr(trace, name))
    return made


_Added = tuple[I64, I64, I64]
"""Start and end of slices that are new, and the recorded slice that each is like; (n,) each."""


def _overlap(moved: Trace, devices: Sequence[DeviceSlices]) -> tuple[Bools, _Added]:
    """Which slices of the overlap analysis are dropped, as the work below has moved, and what takes their place."""
    dropped: Bools = np.zeros(len(moved.slices), np.bool_)
    added: list[_Added] = [(np.zeros(0, np.int64),) * 3]
    layers = [layer for layer in moved.layers if layer.kind == "overlap"]
    for layer in layers:
        device = next((each for each in devices if each.device == layer.device), None)
        device = devices[0] if device is None and len(devices) == len(layers) == 1 else device
        if device is None:
            continue
        computed = computed_lanes(moved, device)
        parts = {COMPUTING: computed.computing, COMMUNICATION: computed.communication, FREE: computed.free}
        parts[NOT_OVERLAPPED] = computed.not_overlapped
        for lane in (moved.lanes[index] for index in layer.lanes):
            if lane.first < lane.last and (part := parts.get(moved.name_of(lane.first))) is not None:
                dropped[lane.first : lane.last] = True
                lasting = part[1] > part[0]
                like = np.full(int(lasting.sum()), lane.first, np.int64)
                added.append((part[0][lasting], part[1][lasting], like))
    start, end, like = (np.concatenate(column) for column in zip(*added, strict=True))
    return dropped, (start, end, like)


def assembled(recorded: Trace, moved: Trace, kept: I64, added: _Added) -> tuple[Trace, I64]:
    """Put a trace together from the slices of ``moved`` that are ``kept`` and those that are ``added``.

    Slices are in order and in rows, with the links between them. The second result is the new number of each slice
    of ``moved``, -1 where it is not there; (slices + 1,), the last for no slice.
    """
    moved_slices = moved.slices
    source = np.concatenate((kept, added[2]))
    start = np.concatenate((moved_slices.start[kept], added[0]))
    end = np.concatenate((moved_slices.end[kept], added[1]))
    order = sort_slices(moved_slices.lane[source], start, end)
    source = source[order]
    slices = Slices(*(getattr(moved_slices, name)[source] for name in Slices.__struct_fields__))
    slices.start, slices.end = start[order], end[order]
    place = np.full(len(moved_slices) + 1, -1, np.int64)
    of_kept = np.flatnonzero(order < len(kept))
    place[source[of_kept]] = of_kept
    rows, lanes = _rows(moved, slices, place)
    made = as_nature(
        moved,
        replace(
            moved,
            end=int(slices.end.max(initial=0)),
            slices=slices,
            rows=rows,
            lanes=lanes,
            layers=[changed(layer, series=()) for layer in moved.layers],
            links=_moved_links(recorded, slices, place),
            counters=Counters(np.zeros(0, np.int64), np.zeros(0), np.zeros(1, np.int64), []),
        ),
    )
    return made, place


def _rows(moved: Trace, slices: Slices, place: I64) -> tuple[Rows, list[Lane]]:
    """A row for each lane and depth; lanes that show slices of others again come last, as in every trace."""
    bounds = np.searchsorted(slices.lane, np.arange(len(moved.lanes) + 1))
    items, lanes, offset, first_row = [np.zeros(0, np.int64)], list[Lane](), [np.zeros(1, np.int64)], 0
    for lane in moved.lanes:
        first, last = int(bounds[lane.index]), int(bounds[lane.index + 1])
        if lane.derived:
            shown = moved.rows.offset[[lane.first_row, lane.first_row + lane.rows]]
            own, first, last = place[moved.rows.item[slice(*shown.tolist())]], 0, 0
            own, depth = _in_rows(slices, own, np.zeros(len(own), np.int32))
        else:
            own, depth = _in_rows(slices, np.arange(first, last), slices.depth[first:last])
            slices.depth[own] = depth
        height = int(depth.max(initial=0)) + 1
        items.append(own)
        offset.append(offset[-1][-1] + np.cumsum(np.bincount(depth, minlength=height)))
        lanes.append(changed(lane, first=first, last=last, first_row=first_row, rows=height))
        first_row += height
    item = np.concatenate(items).astype(np.int32)
    return make_rows(np.concatenate(offset), item, slices.start[item], slices.end[item]), lanes


def _in_rows(slices: Slices, own: I64, depth: I32) -> tuple[I64, I32]:
    """The slices ``own`` of a lane by row and time, and the row of each: the recorded ``depth`` where that is free.

    What a change has left without any duration stays in its row, though others begin there.
    """
    order = np.lexsort((slices.end[own], slices.start[own], depth))
    own, depth = own[order], depth[order]
    start, end = slices.start[own], slices.end[own]
    if ((depth[1:] == depth[:-1]) & (start[1:] < end[:-1])).any():
        order = np.lexsort((-end, start))
        own = own[order]
        depth = first_fit(np.zeros(len(own), np.int32), slices.start[own], slices.end[own])
        order = np.argsort(depth, kind="stable")
        own, depth = own[order], depth[order]
    return own, depth


def _moved_links(recorded: Trace, slices: Slices, place: I64) -> Links:
    """The links between two slices; an end keeps its distance from the start of its slice, as far as that lasts."""
    before, links = recorded.slices, recorded.links
    bound = np.flatnonzero((links.source_slice >= 0) & (links.target_slice >= 0))
    made = Links(*(getattr(links, name)[bound] for name in Links.__struct_fields__))
    for side in ("source", "target"):
        was, time = getattr(made, f"{side}_slice"), getattr(made, f"{side}_time")
        item = place[was]
        within = np.clip(time - before.start[was], 0, slices.end[item] - slices.start[item])
        setattr(made, f"{side}_slice", item.astype(np.int32))
        setattr(made, f"{side}_time", slices.start[item] + within)
    order = np.argsort(made.target_time, kind="stable")
    return Links(*(getattr(made, name)[order] for name in Links.__struct_fields__))


_STATES = "queued", "prefill", "decode"
"""The states of a request as the trace names them; each ends where the next one begins."""


def served_trace(trace: Trace, model: ServiceModel) -> Trace:
    """``trace`` with its requests as ``model`` serves them; a state that is over before it begins takes no time."""
    assert trace.service is not None
    run, slices, service = moments(model), trace.slices, trace.service
    place = np.full(len(service.rids), -1, np.int64)
    place[model.rids] = np.where(np.isfinite(run.last), np.arange(len(model.rids)), -1)
    rid_of_name = dict(zip(service.rids, range(len(service.rids)), strict=True))
    rid_of = np.array([rid_of_name.get(name, -1) for name in trace.names], np.int64)
    request = np.where(rid_of[slices.name] >= 0, place[rid_of[slices.name]], -1)
    # Of times since 1970 a float has 256 ns: what is added to the begin of a request has all of them.
    come = run.come - trace.start_ns
    first, last = (come + np.rint(np.nan_to_num(when - run.come)).astype(np.int64) for when in (run.first, run.last))
    begun = np.clip(come + np.rint(np.nan_to_num(run.begun - run.come)).astype(np.int64), come, first)
    bounds: list[I64] = [come, begun, first, np.maximum(last, first)]
    start, end, kept = slices.start.copy(), slices.end.copy(), np.zeros(len(slices), np.bool_)
    for at, state in enumerate(_STATES):
        code = trace.categories.index(state) if state in trace.categories else -1
        mine = np.flatnonzero((slices.category == code) & (request >= 0))
        start[mine], end[mine], kept[mine] = bounds[at][request[mine]], bounds[at + 1][request[mine]], True
    moved = as_nature(trace, replace(trace, slices=changed(slices, start=start, end=end)))
    none = np.zeros(0, np.int64)
    return assembled(trace, moved, np.flatnonzero(kept), (none, none, none))[0]
