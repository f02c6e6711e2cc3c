"""The times in which a device was idle as a table, the longest first."""

from __future__ import annotations

from functools import partial
from pathlib import PurePath

from npu_tui.analysis.bubbles import Idles
from npu_tui.analysis.code_lines import line_of
from npu_tui.analysis.ranges import meanwhile
from npu_tui.strings import say
from npu_tui.trace.text import brief, duration_text, exact_text, printable, share_text
from npu_tui.tui.tabs.table.scope import nothing, scope_note
from npu_tui.tui.tabs.table.tab import GAP, Content, Context, Row, Stretch, Table, known_columns
from npu_tui.tui.tabs.why import host_threads, verdict
from npu_tui.view.scene import Role

_COLUMNS = ("length", "late", "line", "next", "main", "queue", "start")
_SHOWN_ROWS = 300
_LONGEST_NAME = 30


def bubbles(now: Context) -> Content:
    """A row per time in the range, else in the trace; Enter goes there and marks it."""
    found = [each.within(now.part.window) for each in now.profile.idles]
    count = sum(map(len, found))
    if not count:
        return nothing(now, say("idle.none"))
    places = sorted(
        ((int(each.length[at]), k, at) for k, each in enumerate(found) for at in _longest(each)), reverse=True
    )
    roles = now.session.scene.roles[now.trace]
    rows = [_row(now, found[k], at, roles) for _, k, at in places[:_SHOWN_ROWS]]
    total = sum(int(each.length.sum()) for each in found)
    late = sum(float(each.late.sum()) for each in found)
    notes = [
        say("bubbles.note", count=count, total=duration_text(total), late=duration_text(late)),
        scope_note(now),
        say("bubbles.walk"),
    ]
    if count > len(rows):
        notes.insert(1, say("bubbles.cut", shown=len(rows), count=count))
    return known_columns(Table(tuple(say(f"bubbles.{key}") for key in _COLUMNS), rows, GAP.join(notes)))


def _longest(found: Idles) -> list[int]:
    return [int(at) for at in found.longest()[:_SHOWN_ROWS]]


def _row(now: Context, found: Idles, at: int, roles: list[Role]) -> Row:
    trace = now.profile.trace
    start, end, after = int(found.start[at]), int(found.end[at]), int(found.after[at])
    length, late = end - start, float(found.late[at])
    code = line_of(trace, after) if after >= 0 else None
    place = say("lines.place", file=brief(PurePath(code.file).name), line=code.line) if code is not None else ""
    name = brief(printable(trace.name_of(after)), _LONGEST_NAME) if after >= 0 else ""
    shift = round(float(found.ahead[at]))
    threads = {roles[each.lane.index].kind: each for each in host_threads(trace, roles, -1)}
    doing = []
    for kind in ("main", "queue"):
        done = meanwhile(trace, threads[kind].lane, start - shift, end - shift) if kind in threads else None
        if done is None:
            doing.append("")
        elif not done.names or done.silent > done.names[0][1]:
            doing.append(f"{done.silent / length:.0%} {say('idle.silent')}")
        else:
            doing.append(f"{done.names[0][1] / length:.0%} {brief(printable(done.names[0][0]), _LONGEST_NAME)}")
    when = start + now.session.scene.offsets[now.trace]
    share = share_text(late / length) if found.linked[at] else ""
    cells = (duration_text(length), share, place, name, *doing, exact_text(when))
    values = (length, late / length if found.linked[at] else None, place, name, *doing, when)
    words = say("idle.for", length=duration_text(length))
    free = now.profile.free_slices
    own = free[(trace.slices.start[free] <= start) & (trace.slices.end[free] >= end)]
    item = int(own[0]) if len(own) else None
    stretch = Stretch(start, end, now.trace, None, item, f"{words}: {verdict(found, at)}", marked=False)
    return Row(cells, (stretch,), values, code, partial(_told, now, found, at, cells))


def _told(now: Context, found: Idles, at: int, cells: tuple[str, ...]) -> str:
    trace = now.profile.trace
    names = [say(f"bubbles.{key}") for key in _COLUMNS]
    pairs = [(name, cell) for name, cell in zip(names, cells, strict=True) if cell]
    pairs.insert(0, (say("idle.why"), verdict(found, at)))
    before, after = int(found.before[at]), int(found.after[at])
    pairs += [
        (say(key), printable(trace.name_of(item)))
        for key, item in (("idle.before", before), ("idle.next", after))
        if item >= 0
    ]
    return "\n".join(f"{name}   {cell}" for name, cell in pairs)
