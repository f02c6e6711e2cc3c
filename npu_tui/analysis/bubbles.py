"""Why the device idles: the bubble around a time, and the calls in which the host waits for the device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.code_lines import CodeLine, stack_of, user_line
from npu_tui.analysis.device import DeviceSlices, Window
from npu_tui.analysis.launches import Around, Pairs
from npu_tui.analysis.overlap import OverlapLanes
from npu_tui.trace.arrays import BySlice
from npu_tui.trace.intervals import covered_before
from npu_tui.trace.model import Trace

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

_ROUNDING_NS = 2


class Idles(Struct, frozen=True):
    """Free times of one device by start, (n,) each.

    ``late`` is how long (ns) the launch that ended a time had not arrived yet; the rest is the device's own, where
    ``linked``, else nothing tells. ``before`` is the busy slice that ended last, ``after`` the one that ended the time
    (-1 without one), ``link`` the launch of ``after`` (-1 without one), and ``ahead`` by how much the device's clock
    and the way to it are ahead of the host's, ns.
    """

    device: int | None
    start: I64
    end: I64
    late: F64
    linked: npt.NDArray[np.bool_]
    before: I64
    after: I64
    link: I64
    ahead: F64

    def __len__(self) -> int:
        return len(self.start)

    @property
    def length(self) -> I64:
        """How long each lasts, ns."""
        found: I64 = self.end - self.start
        return found

    def within(self, window: Window) -> Idles:
        """What of them lies in ``window``, cut to it; late time is that of the part."""
        low = np.clip(self.start, window.start, window.end)
        high = np.maximum(np.clip(self.end, window.start, window.end), low)
        some = np.flatnonzero(high > low)
        late = np.clip(self.start + self.late, low, high) - low
        return Idles(
            self.device,
            low[some],
            high[some],
            late[some],
            self.linked[some],
            self.before[some],
            self.after[some],
            self.link[some],
            self.ahead[some],
        )

    def longest(self) -> I64:
        """Their positions, the longest first."""
        return np.argsort(-self.length, kind="stable").astype(np.int64)


def idles(trace: Trace, device: DeviceSlices | None, lanes: OverlapLanes, pairs: Pairs | None) -> Idles:
    """The free times of a device: its Free slices, computed ones where the file has none."""
    slices, links = trace.slices, trace.links
    start, end = lanes.free
    lasting = end > start
    order = np.argsort(start[lasting], kind="stable")
    start, end = start[lasting][order], end[lasting][order]
    count = len(start)
    none = np.full(count, -1, np.int64)
    late, linked, ahead = np.zeros(count), np.zeros(count, np.bool_), np.zeros(count)
    before, after, link = none.copy(), none.copy(), none.copy()
    busy = np.flatnonzero(device.busy) if device is not None else none[:0]
    if count and len(busy):
        own, launch = (none[:0], late[:0]) if pairs is None else (pairs.link, pairs.launch)
        pair = BySlice(links.target_slice[own], np.arange(len(own)))
        # Of slices that start together the one with a launch comes first.
        busy = busy[np.lexsort((pair.of(busy) < 0, slices.start[busy]))]
        at = np.searchsorted(slices.start[busy], start, "left")
        following = busy[np.minimum(at, len(busy) - 1)]
        near = (at < len(busy)) & (slices.start[following] <= end + _ROUNDING_NS)
        after[near] = following[near]
        ended = busy[np.argsort(slices.end[busy], kind="stable")]
        place = np.searchsorted(slices.end[ended], start + _ROUNDING_NS, "right") - 1
        before[place >= 0] = ended[place[place >= 0]]
        led = pair.of(following)
        linked = near & (led >= 0)
        led = led[linked]
        link[linked] = own[led]
        late[linked] = np.clip(launch[led], start[linked], end[linked]) - start[linked]
        ahead[linked] = launch[led] - links.source_time[link[linked]]
    return Idles(lanes.device, start, end, late, linked, before, after, link, ahead)


_OPERATIONS = frozenset(
    {"aten::item", "aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero", "Event::synchronize"}
)


class SyncSum(Struct, frozen=True):
    """The waits in one ``call`` of one ``operation`` (empty without) on one code line.

    Times in ns: ``total`` blocks the host, ``idle`` is what of it no device was busy, ``after`` is for how long devices
    stay idle from its end until the next launch arrives. ``items`` are the slices, the longest first.
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
    """The calls of CANN that block the host until the device is done; without any the operations that do, outermost."""
    cann = _named(trace, ("cann",), [_blocks(name) for name in trace.names])
    if len(cann):
        return cann
    found = _named(trace, ("python", "other"), [name in _OPERATIONS for name in trace.names])
    if not len(found):
        return found
    chosen = np.zeros(len(trace.slices), np.bool_)
    chosen[found] = True
    around = Around(trace, chosen)
    return around.items[around.parents() < 0]


def _blocks(name: str) -> bool:
    call = name.rpartition("@")[2]
    return call.startswith("aclrtSynchronize") or call == "aclrtMemcpy"


def _named(trace: Trace, kinds: tuple[str, ...], wanted: list[bool]) -> I64:
    layer = np.array([trace.layers[lane.layer].kind in kinds for lane in trace.lanes] + [False])
    names = np.array([*wanted, False])
    return np.flatnonzero(names[trace.slices.name] & layer[trace.slices.lane])


def sync_sums(trace: Trace, idle: Sequence[Idles], ahead: float, window: Window) -> list[SyncSum]:
    """The waits that start in ``window`` by call, operation and line, the costliest first.

    ``ahead`` is by how much the devices' clock is ahead of the host's, ns.
    """
    slices = trace.slices
    found = waits(trace)
    found = found[window.holds(slices.start[found])]
    if not len(found):
        return []
    start, end = (times[found].astype(np.float64) + ahead for times in (slices.start, slices.end))
    inside, after = np.zeros(len(found)), np.zeros(len(found))
    for each in idle:
        inside = np.maximum(
            inside, covered_before(each.start, each.end, end) - covered_before(each.start, each.end, start)
        )
        at = np.searchsorted(each.start, end, "right") - 1
        known = at >= 0
        reach = np.where(known, (each.start + each.late)[at], 0.0) if len(each) else np.zeros(len(found))
        after = np.maximum(after, np.where(known, np.maximum(reach - end, 0.0), 0.0))
    operation = _operations(trace, found)
    stack = stack_of(trace, operation)
    groups: dict[tuple[str, str, CodeLine | None], list[int]] = {}
    for k in range(len(found)):
        line = user_line(trace.stacks[int(stack[k])]) if stack[k] >= 0 else None
        name = trace.name_of(int(operation[k])) if operation[k] >= 0 else ""
        groups.setdefault((trace.name_of(int(found[k])), name, line), []).append(k)
    length = slices.end[found] - slices.start[found]
    rows = []
    for (call, name, line), members in groups.items():
        own = np.array(members)
        own = own[np.argsort(-length[own], kind="stable")]
        rows.append(
            SyncSum(
                call,
                name if name != call else "",
                line,
                int(length[own].sum()),
                int(inside[own].sum()),
                int(after[own].sum()),
                int(length[own[0]]),
                found[own],
            )
        )
    return sorted(rows, key=lambda row: (-(row.idle + row.after), -row.total, row.call))


def _operations(trace: Trace, items: I64) -> I64:
    """The innermost operation of the framework around each of ``items`` on its thread, itself if it is one; (n,)."""
    slices = trace.slices
    if "cpu_op" not in trace.categories:
        return np.full(len(items), -1, np.int64)
    chosen = slices.category == trace.categories.index("cpu_op")
    python = {trace.lanes[lane].tid: lane for layer in trace.layers if layer.kind == "python" for lane in layer.lanes}
    same = np.array([python.get(lane.tid, -1) for lane in trace.lanes] + [-1], np.int32)
    around = Around(trace, chosen).find(same[slices.lane[items]], slices.start[items], slices.end[items])
    return np.where(chosen[items], items, around)
