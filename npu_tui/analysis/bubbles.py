"""Why the device idles: its free times with the launch that ended each, and the calls that wait for the device.

A free time is split into waiting for late launches, waiting for what is unknown, and the rest, which is the device's
own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from npu_tui.analysis.calls import BLOCKING_OPERATIONS, blocking_calls
from npu_tui.analysis.code_lines import CodeLine, stack_of, user_line
from npu_tui.analysis.device import Window, named_on
from npu_tui.analysis.launches import Around, launched_at
from npu_tui.analysis.limits import ROUNDING_NS
from npu_tui.analysis.overlap import DevicePart, FreeSplit
from npu_tui.trace.arrays import F64, I64, BySlice
from npu_tui.trace.intervals import covered_before
from npu_tui.trace.model import Trace


class Idles(Struct, frozen=True):
    """The free times of one device by start, (n,) each.

    ``late`` (ns) is how long the device waited in it for launches that had not reached it, ``unlinked`` how long for
    what is not known; the rest is the device's fault. ``before`` is the busy slice that ended last, ``after`` the one
    that ended the free time, ``link`` the launch of ``after`` (-1 without one); ``ahead`` is the launch latency plus
    clock offset of that link, ns. ``split`` has the parts of all of them, None without launches.
    """

    device: int | None
    start: I64
    end: I64
    late: F64
    unlinked: F64
    before: I64
    after: I64
    link: I64
    ahead: F64
    split: FreeSplit | None

    def __len__(self) -> int:
        return len(self.start)

    @property
    def length(self) -> I64:
        """The length of each, ns."""
        lengths: I64 = self.end - self.start
        return lengths

    def within(self, window: Window) -> Idles:
        """The parts inside ``window``; ``late`` and ``unlinked`` are those of the part."""
        low, high = window.cut(self.start, self.end)
        inside = np.flatnonzero(high > low)
        begun, low, high = self.start[inside], low[inside], high[inside]
        split = None if self.split is None else self.split.within(window)
        before, after, link, ahead = self.before[inside], self.after[inside], self.link[inside], self.ahead[inside]
        return Idles(
            self.device, low, high, *_late_of_begun(split, begun, high - low), before, after, link, ahead, split
        )

    def longest(self) -> I64:
        """Positions, the longest free time first."""
        return np.argsort(-self.length, kind="stable").astype(np.int64)


def _late_of_begun(split: FreeSplit | None, begun: I64, length: I64) -> tuple[F64, F64]:
    """How long the host is late in the free times that have ``begun`` then, and how long is unknown; (n,) ns each."""
    if split is None or not len(begun):
        return np.zeros(len(begun)), length.astype(np.float64)
    of = np.searchsorted(begun, split.begun)
    late = np.bincount(of, split.late_until - split.start, len(begun))
    unlinked = np.bincount(of, (split.end - split.start) * ~split.linked, len(begun))
    return late.astype(np.float64), unlinked.astype(np.float64)


def idles(trace: Trace, part: DevicePart) -> Idles:
    """The free times of a device: its Free slices, with the launch that ended each."""
    slices, links = trace.slices, trace.links
    assert part.lanes is not None
    device, lanes, pairs = part.slices, part.lanes, part.pairs
    start, end = lanes.free
    lasting = end > start
    order = np.argsort(start[lasting], kind="stable")
    start, end = start[lasting][order], end[lasting][order]
    count = len(start)
    none = np.full(count, -1, np.int64)
    ahead = np.zeros(count)
    before, after, link = none.copy(), none.copy(), none.copy()
    busy = np.flatnonzero(device.busy) if device is not None else none[:0]
    if count and len(busy):
        links_of_pairs, launch = (none[:0], ahead[:0]) if pairs is None else (pairs.link, pairs.launch)
        pair = BySlice(links.target_slice[links_of_pairs], np.arange(len(links_of_pairs)))
        # The first busy slice after the free time ended it; of slices that start together prefer one with a launch.
        busy = busy[np.lexsort((pair.of(busy) < 0, slices.start[busy]))]
        at = np.searchsorted(slices.start[busy], start, "left")
        following = busy[np.minimum(at, len(busy) - 1)]
        near = (at < len(busy)) & (slices.start[following] <= end + ROUNDING_NS)
        after[near] = following[near]
        ended = busy[np.argsort(slices.end[busy], kind="stable")]
        # Sorted by end, the last slice that ended by the start of the free time is the one before it.
        last_ended = np.searchsorted(slices.end[ended], start + ROUNDING_NS, "right") - 1
        before[last_ended >= 0] = ended[last_ended[last_ended >= 0]]
        pair_of = pair.of(following)
        linked = near & (pair_of >= 0)
        pair_of = pair_of[linked]
        link[linked] = links_of_pairs[pair_of]
        ahead[linked] = launch[pair_of] - launched_at(trace, link[linked])
    late = _late_of_begun(part.split, start, end - start)
    return Idles(lanes.device, start, end, *late, before, after, link, ahead, part.split)


class SyncSum(Struct, frozen=True):
    """The waits in one ``call`` of one ``operation`` (empty without) on one code line.

    Times in ns: the host is blocked for ``total``, and no device is busy for ``idle`` of it; after the waits devices
    stay idle for ``after`` until the next launch arrives. ``items`` are the slices, the longest first.
    """

    call: str
    operation: str
    code: CodeLine | None
    total: int
    idle: int
    after: int
    longest: int
    items: I64


def waits(trace: Trace) -> I64:
    """The CANN calls that block the host until the device is done; without any, the outermost such operations."""
    calls = blocking_calls(trace)
    if len(calls):
        return calls
    operations = named_on(trace, ("python", "other"), BLOCKING_OPERATIONS.__contains__)
    if not len(operations):
        return operations
    chosen = np.zeros(len(trace.slices), np.bool_)
    chosen[operations] = True
    around = Around(trace, chosen)
    return around.items[around.parents() < 0]


def sync_sums(trace: Trace, idle: Sequence[Idles], ahead: float, window: Window) -> list[SyncSum]:
    """The waits that start in ``window`` by call, operation and line, the costliest first.

    ``ahead`` (ns) is added to a time of the host to get that of the devices.
    """
    slices = trace.slices
    items = waits(trace)
    items = items[window.holds(slices.start[items])]
    if not len(items):
        return []
    start, end = (times[items].astype(np.float64) + ahead for times in (slices.start, slices.end))
    idle_inside, after = np.zeros(len(items)), np.zeros(len(items))
    # Several devices idle at once during one wait: the longest counts, not their sum.
    for free in idle:
        idle_inside = np.maximum(
            idle_inside, covered_before(free.start, free.end, end) - covered_before(free.start, free.end, start)
        )
        if free.split is not None and len(free.split.start):
            at = np.searchsorted(free.split.start, end, "right") - 1
            after = np.maximum(after, np.where(at >= 0, free.split.late_until[at] - end, 0.0))
    operation = _operations_around(trace, items)
    stack = stack_of(trace, operation)
    groups: dict[tuple[str, str, CodeLine | None], list[int]] = {}
    for k in range(len(items)):
        line = user_line(trace.stacks[int(stack[k])]) if stack[k] >= 0 else None
        name = trace.name_of(int(operation[k])) if operation[k] >= 0 else ""
        groups.setdefault((trace.name_of(int(items[k])), name, line), []).append(k)
    length = slices.end[items] - slices.start[items]
    rows = []
    for (call, name, line), members in groups.items():
        chosen = np.array(members)
        chosen = chosen[np.argsort(-length[chosen], kind="stable")]
        rows.append(
            SyncSum(
                call,
                name if name != call else "",
                line,
                int(length[chosen].sum()),
                int(idle_inside[chosen].sum()),
                int(after[chosen].sum()),
                int(length[chosen[0]]),
                items[chosen],
            )
        )
    return sorted(rows, key=lambda row: (-(row.idle + row.after), -row.total, row.call))


def _operations_around(trace: Trace, items: I64) -> I64:
    """The innermost operation of the framework around each of ``items``, or the item if it is one; -1 without; (n,)."""
    slices = trace.slices
    if "cpu_op" not in trace.categories:
        return np.full(len(items), -1, np.int64)
    chosen = slices.category == trace.categories.index("cpu_op")
    python = {trace.lanes[lane].tid: lane for layer in trace.layers if layer.kind == "python" for lane in layer.lanes}
    python_lane = np.array([python.get(lane.tid, -1) for lane in trace.lanes] + [-1], np.int32)
    around = Around(trace, chosen).find(python_lane[slices.lane[items]], slices.start[items], slices.end[items])
    return np.where(chosen[items], items, around)
