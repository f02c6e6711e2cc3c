"""The times in which a device was idle as a table, the longest first."""

from __future__ import annotations

from functools import partial

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.bubbles import Idles
from npu_tui.analysis.ranges import meanwhile
from npu_tui.profile.launch_tables import FREE
from npu_tui.profile.table import Sheet, labels, numbers
from npu_tui.strings import say
from npu_tui.trace.text import brief, duration_text, printable
from npu_tui.tui.tabs.table.scope import nothing, scope_note
from npu_tui.tui.tabs.table.shown import shown
from npu_tui.tui.tabs.table.tab import GAP, Content, Context, Row, Stretch
from npu_tui.tui.tabs.why import host_threads, verdict

_SHOWN_ROWS = 300
_LONGEST_NAME = 30
_THREADS = ("main", "queue")


def bubbles(now: Context) -> Content:
    """A row per time in the range, else in the trace; Enter goes there and marks it."""
    sheet = FREE.make(now.part)
    if not sheet.rows:
        return nothing(now, say("idle.none"))
    found = [each.within(now.part.window) for each in now.profile.idles]
    idles = [(each, at) for each in found for at in range(len(each))]
    length = np.array(sheet.values("duration"))
    longest = np.argsort(-length, kind="stable")[:_SHOWN_ROWS]
    late = sum(float(each.late.sum()) for each in found)
    notes = [
        say("bubbles.note", count=sheet.rows, total=duration_text(int(length.sum())), late=duration_text(late)),
        scope_note(now),
        say("bubbles.walk"),
    ]
    if sheet.rows > len(longest):
        notes.insert(1, say("bubbles.cut", shown=len(longest), count=sheet.rows))
    chosen = [idles[row] for row in longest.tolist()]
    table = shown(now.trace, FREE, _with_threads(now, sheet.taken(longest), chosen), GAP.join(notes))
    return replace(table, rows=[_row(now, row, *each) for row, each in zip(table.rows, chosen, strict=True)])


def _with_threads(now: Context, sheet: Sheet, idles: list[tuple[Idles, int]]) -> Sheet:
    """``sheet`` with what the threads of the host did meanwhile, on the clock of the scene."""
    trace, roles = now.profile.trace, now.session.scene.roles[now.trace]
    threads = {roles[each.lane.index].kind: each for each in host_threads(trace, roles, -1)}
    doing: dict[str, list[str | None]] = {kind: [] for kind in _THREADS}
    for found, at in idles:
        start, end, shift = int(found.start[at]), int(found.end[at]), round(float(found.ahead[at]))
        for kind, texts in doing.items():
            done = meanwhile(trace, threads[kind].lane, start - shift, end - shift) if kind in threads else None
            if done is None:
                texts.append(None)
            elif not done.names or done.silent > done.names[0][1]:
                texts.append(f"{done.silent / (end - start):.0%} {say('idle.silent')}")
            else:
                name, time = done.names[0]
                texts.append(f"{time / (end - start):.0%} {brief(printable(name), _LONGEST_NAME)}")
    begin = np.array(sheet.values("start")) + now.session.scene.offsets[now.trace]
    added = {kind: labels(texts) for kind, texts in doing.items()} | {"start": numbers(begin)}
    return replace(sheet, data=sheet.data | added)


def _row(now: Context, row: Row, found: Idles, at: int) -> Row:
    """``row`` with why the device was idle, and the slice of the Free lane as its place."""
    slices, free = now.profile.trace.slices, now.profile.free_slices
    start, end = int(found.start[at]), int(found.end[at])
    own = free[(slices.start[free] <= start) & (slices.end[free] >= end)]
    words = f"{say('idle.for', length=duration_text(end - start))}: {verdict(found, at)}"
    place = Stretch(start, end, now.trace, None, int(own[0]) if len(own) else None, words, marked=False)
    assert row.told is not None
    return replace(row, places=(place,), told=partial(_told, now, found, at, row.told()))


def _told(now: Context, found: Idles, at: int, cells: str) -> str:
    pairs = [(say("idle.why"), verdict(found, at))]
    pairs += [
        (say(key), printable(now.profile.trace.name_of(item)))
        for key, item in (("idle.before", int(found.before[at])), ("idle.next", int(found.after[at])))
        if item >= 0
    ]
    return "\n".join([*(say("panel.told", name=name, value=text) for name, text in pairs), cells])
