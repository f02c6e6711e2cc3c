"""Tables of what the host did: waits for the device, calls of CANN, operations of the framework."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import PurePath

import numpy as np
import numpy.typing as npt
from rich.text import Text

from npu_tui.analysis.bubbles import SyncSum, sync_sums
from npu_tui.profile.profile import Profile
from npu_tui.strings import say
from npu_tui.trace.model import Trace
from npu_tui.trace.text import brief, duration_text, printable, share_text
from npu_tui.tui.tabs.table.scope import Ranked, scope_note
from npu_tui.tui.tabs.table.spread import spread, spread_picture
from npu_tui.tui.tabs.table.tab import GAP, Content, Context, Row, Table, known_columns

I64 = npt.NDArray[np.int64]

_SYNCS = ("idle", "after", "total", "count", "longest", "line", "call")
_CALLS = ("total", "share", "count", "avg", "max", "call", "level", "min", "deviation")
_HOSTS = ("host_self", "host_total", "device_self", "device_total", "count", "operation", "spread")
_LONGEST_NAME = 60


def ahead_of(profile: Profile) -> float:
    """By how much the clock of the first device is ahead of the host's, with the way to it, ns."""
    return profile.dispatch[0].floors[0].floor if profile.dispatch else 0.0


def syncs(now: Context) -> Content:
    """A row per call and code line that waits for the device, the costliest first; Enter goes to its longest wait."""
    profile = now.profile
    found = sync_sums(profile.trace, profile.idles, ahead_of(profile), now.part.window)
    if not found:
        return say("syncs.none")
    note = say(
        "syncs.note",
        count=sum(len(each.items) for each in found),
        total=duration_text(sum(each.total for each in found)),
        idle=duration_text(sum(each.idle for each in found)),
        after=duration_text(sum(each.after for each in found)),
    )
    rows = [_sync(now.trace, profile.trace, each) for each in found]
    return known_columns(Table(tuple(say(f"syncs.{key}") for key in _SYNCS), rows, GAP.join([note, scope_note(now)])))


def _sync(index: int, trace: Trace, each: SyncSum) -> Row:
    place = say("lines.place", file=brief(PurePath(each.code.file).name), line=each.code.line) if each.code else ""
    call = brief(printable(each.call.rpartition("@")[2]), _LONGEST_NAME)
    if each.operation:
        call = f"{brief(printable(each.operation), _LONGEST_NAME)} → {call}"
    values = (each.idle, each.after, each.total, len(each.items), each.longest, place, call)
    cells = (
        *map(duration_text, values[:3]), f"{len(each.items):,}", duration_text(each.longest), place, call,
    )  # fmt: skip
    return Row(cells, _ranked(index, each.items), values, each.code, aside=_picture(trace, each.call, each.items))


def calls(now: Context) -> Content:
    """A row per call of CANN, most time first; Enter goes to its longest, and again to the next."""
    found = now.part.apis
    if not found:
        return say("calls.none")
    total, trace = sum(each.total for each in found), now.profile.trace
    window, slices = now.part.window, trace.slices
    on_cann = np.array([trace.layers[lane.layer].kind == "cann" for lane in trace.lanes] + [False])
    items = np.flatnonzero(on_cann[slices.lane] & window.holds(slices.start))
    order = items[np.argsort(slices.name[items], kind="stable")]
    codes, first = np.unique(slices.name[order], return_index=True)
    own = dict(zip((trace.names[code] for code in codes.tolist()), np.split(order, first[1:]), strict=True))
    levels = {each.rpartition("@")[2]: each for each in own}
    rows = []
    for each in found:
        name = next((full for full in own if full.rpartition("@")[2] == each.name and _is(full, each.level)), None)
        members = own[name or levels[each.name]]
        call, average = brief(printable(each.name), _LONGEST_NAME), each.total / each.count
        share, deviation = each.total / max(total, 1), each.variance**0.5 * 1000
        values = (each.total, share, each.count, average, each.longest, call, each.level, each.shortest, deviation)
        cells = (
            duration_text(each.total), share_text(share), f"{each.count:,}", duration_text(average),
            duration_text(each.longest), call, each.level, duration_text(each.shortest), duration_text(deviation),
        )  # fmt: skip
        rows.append(Row(cells, _slowest(now.trace, trace, members), values, aside=_picture(trace, each.name, members)))
    note = say("calls.note", count=sum(each.count for each in found), total=duration_text(total))
    return Table(tuple(say(f"calls.{key}") for key in _CALLS), rows, GAP.join([note, scope_note(now)]))


def _is(full: str, level: str) -> bool:
    """Whether the call ``full`` is of ``level`` as its sums name that."""
    prefix = full.rpartition("@")[0]
    return prefix.lower() == level or (prefix, level) == ("AscendCL", "acl")


def host_ops(now: Context) -> Content:
    """A row per operation of the framework, most own time on the host first, with what it launched."""
    found, trace = now.profile.host_operators, now.profile.trace
    chosen = np.flatnonzero(now.part.window.holds(trace.slices.start[found.item]))
    if not len(chosen):
        return say("hosts.none")
    names = trace.slices.name[found.item[chosen]]
    codes, code, counts = np.unique(names, return_inverse=True, return_counts=True)
    columns = [
        np.bincount(code, weights=column[chosen])
        for column in (found.host_self, found.host_total, found.device_self, found.device_total)
    ]
    order = np.argsort(code, kind="stable")
    members = np.split(found.item[chosen][order], np.cumsum(counts)[:-1])
    rows = []
    for k in np.argsort(-columns[0], kind="stable").tolist():
        name, items = trace.names[int(codes[k])], members[k]
        times = [float(column[k]) for column in columns]
        operation = brief(printable(name), _LONGEST_NAME)
        lengths = trace.slices.end[items] - trace.slices.start[items]
        cells = (*map(duration_text, times), f"{int(counts[k]):,}", operation, spread(lengths))
        spread_of = float(lengths.max() / max(lengths.min(), 1))
        values: tuple[float | str | None, ...] = (*times, int(counts[k]), operation, spread_of)
        rows.append(Row(cells, _slowest(now.trace, trace, items), values, aside=_picture(trace, name, items)))
    note = say("hosts.note", count=len(chosen), own=duration_text(float(columns[0].sum())))
    return Table(tuple(say(f"hosts.{key}") for key in _HOSTS), rows, GAP.join([note, scope_note(now)]))


def _slowest(index: int, trace: Trace, items: I64) -> Ranked:
    slices = trace.slices
    return Ranked(index, len(items), lambda: items[np.argsort(slices.start[items] - slices.end[items], kind="stable")])


def _ranked(index: int, items: I64) -> Ranked:
    return Ranked(index, len(items), lambda: items)


def _picture(trace: Trace, name: str, items: I64) -> Callable[[int, int], Text] | None:
    if len(items) < 2:
        return None
    lengths = trace.slices.end[items] - trace.slices.start[items]
    return partial(spread_picture, say("spread.title", count=len(items), name=name), lengths)
