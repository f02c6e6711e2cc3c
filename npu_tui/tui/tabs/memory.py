"""Memory of the device: its curve, and which operations, code lines and components hold it.

At the peak, at the cursor, or to the end: each turn of the tab asks about another moment. Where a memory snapshot was
opened or lies beside, the last turn shows what grew from step to step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace
from rich.text import Text

from npu_tui.analysis.memory import BEFORE, MemoryCurve, MemoryUse
from npu_tui.analysis.snapshot import free_in_pools
from npu_tui.output.memory_report import SHADE, shaded_bars
from npu_tui.profile.memory_tables import EVENTS, GROWTH, HOLDERS, MODULE_PEAKS
from npu_tui.profile.profile import Profile
from npu_tui.profile.snapshot_memory import SnapshotBeside
from npu_tui.profile.table import Value
from npu_tui.strings import say
from npu_tui.subjects import subject_of
from npu_tui.trace.recorder import recorder_of
from npu_tui.trace.text import brief, cell_count, moment_text, printable, shortened
from npu_tui.tui.commands import BY_ID, keys_label
from npu_tui.tui.tabs.declared import MOST_ROWS, shown
from npu_tui.tui.tabs.table import GAP, Content, Context, TabTable

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

_LONGEST_HOLDER = 44
_POOLS = 2

_MOMENTS = ("peak", "cursor", "kept", "modules")
_OF_SNAPSHOT = ("snapshot_peak", "snapshot_kept")


def _views(profile: Profile) -> list[tuple[str, SnapshotBeside | None]]:
    """What the tab shows in turn: of the files, then of a device of a snapshot, then of its other devices."""
    beside = profile.beside
    if beside is None:
        return [(view, None) for view in _MOMENTS]
    whole = beside.memory is profile.memory
    known = _MOMENTS[:3] if whole else _MOMENTS if profile.memory.is_known else ()
    own: list[tuple[str, SnapshotBeside | None]] = [
        (view, beside) for view in (*known, *(() if whole else _OF_SNAPSHOT), "growth")
    ]
    return own + [(view, other) for other in beside.others for view in _OF_SNAPSHOT]


def _view_title(view: tuple[str, SnapshotBeside | None]) -> str:
    words = say(f"memory.by_{view[0]}")
    several = view[1] is not None and view[1].others and view[0] in _OF_SNAPSHOT
    return f"{words}, {say('snapshot.device', device=view[1].device.label)}" if several and view[1] else words


def memory_depends_on(now: Context) -> object:
    """The trace, and the cursor where ``memory`` is asked about it; a snapshot beside is not read for that."""
    follows = False
    if Profile.beside.is_known(now.profile):
        views = _views(now.profile)
        follows = views[now.turn % len(views)][0] == "cursor"
    return now.trace, now.cursor if follows else None


def memory(now: Context) -> Content:
    """A row per operation and code line, most bytes first; Enter goes to its allocations."""
    held, beside, views = now.profile.memory, now.profile.beside, _views(now.profile)
    if not held.is_known and beside is None:
        trace = now.profile.trace
        if why := subject_of(trace).no_kernels:
            return say(why)
        none = say(recorder_of(trace).word("memory.none"))
        return say("list.sentences", parts=[none, say("memory.beside")])
    again, (view, beside) = _view_title(views[(now.turn + 1) % len(views)]), views[now.turn % len(views)]
    if view == "modules":
        sheet = MODULE_PEAKS.make(now.part)
        note = say("memory.modules", shown=sheet.rows, count=len(held.modules))
        table = shown(now.trace, MODULE_PEAKS, sheet, f"{_peaks(held)}\n{note}", again=again, most=sheet.rows)
        of_component = {curve.component: curve for curve in held.modules}
        components = [[(printable(name), of_component[name])] for name in sheet.values("component")]
        return _pictured(table, components, None, now.profile.trace.end)
    if view == "growth" and beside is not None:
        return _growth_by_line(now, beside, again)
    if view in _OF_SNAPSHOT or (beside is not None and beside.memory is held):
        return _held_then(now, view, again, beside)
    return _held_then(now, view, again)


def events(now: Context) -> Content:
    """A row per event of the allocator in a snapshot, the largest first; Enter goes there."""
    sheet = EVENTS.make(now.profile)
    order = np.argsort(-np.array(sheet.values("size"), np.int64), kind="stable")[:MOST_ROWS]
    note = say("memory.events.note", shown=len(order), count=sheet.rows)
    return shown(now.trace, EVENTS, sheet.taken(order), note)


def _held_then(now: Context, view: str, again: str, beside: SnapshotBeside | None = None) -> TabTable:
    """Who held memory at the moment of ``view``, by the files or by a device of a snapshot ``beside``.

    Times of one that has no place on the timeline are numbers of events.
    """
    held = now.profile.memory if beside is None else beside.memory
    unplaced = None if beside is None or beside.placed else beside

    def at(time: int) -> str:
        return _moment_text(time) if unplaced is None else say("snapshot.at", event=unplaced.event_at(time))

    moment = view.removeprefix("snapshot_")
    time = _asked_moment(now, held, moment)
    chosen = held.allocations.kept if time is None else held.allocations.alive(time)
    known = int(held.allocations.size[chosen].sum())
    words = say("memory.kept_words") if time is None else say(f"memory.{moment}_words", time=at(time))
    alive = say("memory.alive", words=words, count=len(chosen), size=known)
    lead = say("memory.lead", key=keys_label(BY_ID["focus_next"])) if unplaced is None else say("memory.unplaced")
    sheet = HOLDERS.make(now.part, chosen=chosen, time=time, memory=held)
    names = sheet.values("name")

    def when(row: int, value: Value, unknown: str) -> str:
        return "" if names[row] is None else say(unknown) if value is None else at(int(value))

    cells = {
        "name": lambda row, name: brief(str(name), _LONGEST_HOLDER) if name else say("memory.unknown"),
        "at": lambda row, value: when(row, value, "memory.before"),
        "released": lambda row, value: when(row, value, "memory.never"),
    }
    lines = [_peaks(held, at), GAP.join([alive, lead])]
    # A low panel shows the first line alone: it says what the rows show.
    note = "\n".join(lines if moment == "peak" else lines[::-1])
    if beside is not None and time is not None and beside.device.has_segments:
        note += _free(beside, time)
    if beside is not None and beside.others:
        note = say("snapshot.device", device=beside.device.label) + GAP + note
    note = _which_snapshot(beside) + note
    table = shown(now.trace, HOLDERS, sheet, note, cells=cells, again=again, most=sheet.rows)
    if unplaced is not None:
        table = replace(table, rows=[replace(row, places=()) for row in table.rows])
    curves = [
        (say(f"memory.curve.{amount}"), curve)
        for amount in ("allocated", "reserved")
        if (curve := held.curve(amount)) is not None
    ]
    marks: list[int] = []
    if beside is not None:
        items = [step.item for step in now.profile.steps if step.item >= 0]
        marks = now.profile.trace.slices.start[items].tolist() if beside.placed else beside.step_times
    return _pictured(table, [curves] * sheet.rows, time, 0 if unplaced else now.profile.trace.end, at, marks)


def _which_snapshot(beside: SnapshotBeside | None) -> str:
    """Which snapshot is shown, before anything else, where others lie beside it; else nothing."""
    if beside is None or not beside.left:
        return ""
    name, left = (
        printable(brief(path, _LONGEST_HOLDER)) for path in (Path(beside.snapshot.path).name, ", ".join(beside.left))
    )
    return say("memory.left", name=name, left=left) + GAP


def _free(beside: SnapshotBeside, time: int) -> str:
    """What is free in each pool of the allocator at ``time``, those with most of it, in a line."""
    pools = [pool for pool in free_in_pools(beside.device, beside.event_at(time)) if len(pool.free)][:_POOLS]
    words = [
        say(
            f"memory.free_{'small' if pool.small else 'large'}", count=len(pool.free),
            size=int(pool.free.sum()), largest=int(pool.free[0]),
        )
        for pool in pools
    ]  # fmt: skip
    return "\n" + GAP.join(words) if words else ""


def _growth_by_line(now: Context, beside: SnapshotBeside, again: str) -> Content:
    """What each line holds more after each step of the snapshot."""
    grown, name = beside.growth, printable(beside.snapshot.path)
    if grown is None:
        return say("memory.no_steps", path=name)
    words = say("memory.growth", count=len(grown.starts), path=name)
    if grown.per_step is not None:
        words += GAP + say("memory.growth_step", size=grown.per_step)
    table = shown(now.trace, GROWTH, GROWTH.make(now.profile), _which_snapshot(beside) + words, again=again)
    times = np.arange(len(grown.moments), dtype=np.int64)
    curves = [[(say("memory.curve.steps"), MemoryCurve("", "allocated", times, held))] for _, held in grown.held]
    return _pictured(table, curves, None, 0, lambda step: say("memory.after_step", step=min(step, len(times) - 1)))


def _asked_moment(now: Context, memory: MemoryUse, moment: str) -> int | None:
    """The time that is asked about, ns; None for what was never released."""
    if moment == "kept":
        return None
    if moment == "cursor":
        return now.session.scene.to_trace(now.trace, now.cursor)
    curve = memory.curve("allocated") or memory.curve("reserved")
    if curve is not None:
        return curve.peak[0]
    allocations = memory.allocations  # without records of the allocator: when its operations held the most
    edges = np.unique(allocations.start[allocations.start > BEFORE])
    return max(edges.tolist(), key=lambda at: int(allocations.size[allocations.alive(at)].sum()), default=0)


def _moment_text(time: int) -> str:
    return moment_text(float(time))


def _peaks(memory: MemoryUse, at: Callable[[int], str] = _moment_text) -> str:
    """The peaks of all curves, and how far reserved was above allocated."""
    words = []
    for amount in ("allocated", "reserved", "active"):
        curve = memory.curve(amount)
        if curve is not None:
            words.append(say(f"memory.peak_{amount}", size=curve.peak[1], time=at(curve.peak[0])))
    gap = memory.fragmented()
    if gap is not None:
        words.append(say("memory.gap", size=gap[1], time=at(gap[0])))
    if memory.process is not None:
        words.append(say("memory.process", size=memory.process.peak[1]))
    return GAP.join(words)


# --- the curve beside the table

Named = tuple[str, MemoryCurve]
"""What a curve is called, and the curve."""


def _pictured(
    table: TabTable,
    curves: Sequence[Sequence[Named]],
    time: int | None,
    end: int,
    at: Callable[[int], str] = _moment_text,
    marks: Sequence[int] = (),
) -> TabTable:
    """``table`` with the ``curves`` of each row beside it, up to ``end`` ns; ``time`` is marked, and ``marks``."""
    rows = [
        replace(row, aside=partial(curve_picture, of_row, time, end, at=at, marks=marks) if of_row else None)
        for row, of_row in zip(table.rows, curves, strict=True)
    ]
    return replace(table, rows=rows)


def curve_picture(
    named: Sequence[Named],
    time: int | None,
    end: int,
    width: int,
    height: int,
    at: Callable[[int], str] = _moment_text,
    marks: Sequence[int] = (),
) -> Text:
    """The first of the ``named`` curves as bars, the second shaded behind it, over their time up to ``end`` ns.

    Each column shows the maximum of its time; below, ``time`` is marked, and the starts of steps, the ``marks``.
    """
    curves = [curve for _, curve in named]
    begin = min(int(curve.time[0]) for curve in curves)
    end = max(end, *(int(curve.time[-1]) + 1 for curve in curves))
    top = max(curve.peak[1] for curve in curves)
    words = [f"{glyph} {name}" for glyph, (name, _) in zip(("█", SHADE), named, strict=False)]
    title, limit = "  ".join(words), f"  {say('memory.curve', size=top)}"
    if cell_count(title + limit) <= width:  # the peak stands above the table as well
        title += limit
    picture = Text(shortened(title, width), style="dim", no_wrap=True)
    lines = height - 2
    if lines < 1 or width < 1 or top <= 0:
        return picture
    edges = np.linspace(begin, end, width + 1).astype(np.int64)
    heights = [np.ceil(8 * lines * _most_bytes(curve, edges) / top).astype(np.int64) for curve in curves]
    behind = heights[1] if len(heights) > 1 else np.zeros(width, np.int64)
    for bars in shaded_bars(heights[0], behind, lines):
        picture.append("\n" + bars)
    picture.append("\n" + _axis(begin, end, time, width, at, marks), style="dim")
    return picture


def _most_bytes(curve: MemoryCurve, edges: I64) -> F64:
    """The most bytes in each column between ``edges``; 0 before the first record."""
    first = np.searchsorted(curve.time, edges[:-1], "right") - 1
    last = np.searchsorted(curve.time, edges[1:], "left")
    spans = zip(np.maximum(first, 0).tolist(), np.maximum(last, first + 1).tolist(), strict=True)
    return np.array([curve.value[low:high].max(initial=0) for low, high in spans], np.float64)


def _axis(begin: int, end: int, time: int | None, width: int, at: Callable[[int], str], marks: Sequence[int]) -> str:
    """When the curve begins and ends, with a mark at ``time``, which takes the place of both, and where steps begin."""

    def column(place: int) -> int:
        return (place - begin) * width // max(end - begin, 1)

    left, right = at(begin), at(end)
    marked = None if time is None else column(time)
    if marked is not None and marked < len(left):
        left = ""
    if marked is not None and marked >= width - len(right):
        right = ""
    room = max(width - len(left) - len(right), 1)
    line = list(f"{left}{' ' * room}{right}"[:width])
    for place in map(column, marks):
        if 0 <= place < len(line) and line[place] == " ":
            line[place] = "╷"
    if marked is not None and 0 <= marked < len(line):
        line[marked] = "▲"
    return "".join(line)
