"""Memory of the device: its curve, and which operations, code lines and components hold it.

At the peak, at the cursor, or to the end: each turn of the tab asks about another moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace
from rich.text import Text

from npu_tui.analysis.memory import BEFORE, Memory, MemoryCurve
from npu_tui.profile.file_tables import HOLDERS, MODULE_PEAKS
from npu_tui.profile.table import Value
from npu_tui.strings import say
from npu_tui.trace.text import brief, moment_text, printable, shortened
from npu_tui.tui.commands import BY_ID, keys_label
from npu_tui.tui.tabs.declared import shown
from npu_tui.tui.tabs.table import GAP, Content, Context, Table

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

_LONGEST_HOLDER = 44

_MOMENTS = ("peak", "cursor", "kept", "modules")


def memory_moment(turn: int) -> str:
    """What ``memory`` shows: at the peak, at the cursor, what was never released, or the components of the device."""
    return _MOMENTS[turn % len(_MOMENTS)]


def memory(now: Context) -> Content:
    """A row per operation and code line, most bytes first; Enter goes to its allocations."""
    held, moment = now.profile.memory, memory_moment(now.turn)
    if not held.is_known:
        return say("memory.none")
    notes = [_peaks(held)]
    then = say(f"memory.by_{memory_moment(now.turn + 1)}")
    again = say("memory.again", key=keys_label(BY_ID["tab_memory"]), then=then)
    if moment == "modules":
        sheet = MODULE_PEAKS.make(now.part)
        notes.append(say("memory.modules", shown=sheet.rows, count=len(held.modules)))
        table = shown(now.trace, MODULE_PEAKS, sheet, "\n".join(notes), again=again, most=sheet.rows)
        of_component = {curve.component: curve for curve in held.modules}
        components = [[(printable(name), of_component[name])] for name in sheet.values("component")]
        return _pictured(table, components, None, now.profile.trace.end)
    time = _time(now, held, moment)
    chosen = held.allocations.kept if time is None else held.allocations.alive(time)
    known = int(held.allocations.size[chosen].sum())
    words = say("memory.kept_words") if time is None else say(f"memory.{moment}_words", time=time)
    alive = say("memory.alive", words=words, count=len(chosen), size=known)
    notes.append(GAP.join([alive, say("memory.lead", key=keys_label(BY_ID["focus_next"]))]))
    sheet = HOLDERS.make(now.part, chosen=chosen, time=time)
    names = sheet.values("name")

    def when(row: int, at: Value, unknown: str) -> str:
        return "" if names[row] is None else say(unknown) if at is None else moment_text(float(at))

    cells = {
        "name": lambda row, name: say("memory.unknown") if name is None else brief(str(name), _LONGEST_HOLDER),
        "at": lambda row, at: when(row, at, "memory.before"),
        "released": lambda row, at: when(row, at, "memory.never"),
    }
    table = shown(now.trace, HOLDERS, sheet, "\n".join(notes), cells=cells, again=again, most=sheet.rows)
    curves = [
        (say(f"memory.curve.{amount}"), curve)
        for amount in ("allocated", "reserved")
        if (curve := held.curve(amount)) is not None
    ]
    return _pictured(table, [curves] * sheet.rows, time, now.profile.trace.end)


def _time(now: Context, memory: Memory, moment: str) -> int | None:
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


def _peaks(memory: Memory) -> str:
    """The peaks of all curves, and how far reserved was above allocated."""
    words = []
    for amount in ("allocated", "reserved", "active"):
        curve = memory.curve(amount)
        if curve is not None:
            words.append(say(f"memory.peak_{amount}", size=curve.peak[1], time=curve.peak[0]))
    gap = memory.fragmented()
    if gap is not None:
        words.append(say("memory.gap", size=gap[1], time=gap[0]))
    if memory.process is not None:
        words.append(say("memory.process", size=memory.process.peak[1]))
    return GAP.join(words)


# --- the curve beside the table

_LEVELS = " ▁▂▃▄▅▆▇█"
_SHADE = "░"

Named = tuple[str, MemoryCurve]
"""What a curve is called, and the curve."""


def _pictured(table: Table, curves: Sequence[Sequence[Named]], time: int | None, end: int) -> Table:
    """``table`` with the ``curves`` of each row beside it, up to ``end`` ns; ``time`` is marked."""
    rows = [
        replace(row, aside=partial(curve_picture, of_row, time, end) if of_row else None)
        for row, of_row in zip(table.rows, curves, strict=True)
    ]
    return replace(table, rows=rows)


def curve_picture(named: Sequence[Named], time: int | None, end: int, width: int, height: int) -> Text:
    """The first of the ``named`` curves as bars, the second shaded behind it, over their time up to ``end`` ns.

    Each column shows the most of its time; ``time`` is marked below.
    """
    curves = [curve for _, curve in named]
    begin = min(int(curve.time[0]) for curve in curves)
    end = max(end, *(int(curve.time[-1]) + 1 for curve in curves))
    top = max(curve.peak[1] for curve in curves)
    words = [f"{glyph} {name}" for glyph, (name, _) in zip(("█", _SHADE), named, strict=False)]
    title = "  ".join([*words, say("memory.curve", size=top)])
    picture = Text(shortened(title, width), style="dim", no_wrap=True)
    lines = height - 2
    if lines < 1 or width < 1 or top <= 0:
        return picture
    edges = np.linspace(begin, end, width + 1).astype(np.int64)
    heights = [np.ceil(8 * lines * _most(curve, edges) / top).astype(np.int64) for curve in curves]
    behind = heights[1] if len(heights) > 1 else np.zeros(width, np.int64)
    for line in range(lines - 1, -1, -1):
        levels = np.clip(heights[0] - 8 * line, 0, 8).tolist()
        shades = (behind > 8 * line).tolist()
        cells = [_LEVELS[level] if level or not shade else _SHADE for level, shade in zip(levels, shades, strict=True)]
        picture.append("\n" + "".join(cells))
    picture.append("\n" + _axis(begin, end, time, width), style="dim")
    return picture


def _most(curve: MemoryCurve, edges: I64) -> F64:
    """The most bytes in each column between ``edges``; 0 before the first record."""
    first = np.searchsorted(curve.time, edges[:-1], "right") - 1
    last = np.searchsorted(curve.time, edges[1:], "left")
    spans = zip(np.maximum(first, 0).tolist(), np.maximum(last, first + 1).tolist(), strict=True)
    return np.array([curve.value[low:high].max(initial=0) for low, high in spans], np.float64)


def _axis(begin: int, end: int, time: int | None, width: int) -> str:
    """When the curve begins and ends, with a mark at ``time``."""
    left, right = moment_text(float(begin)), moment_text(float(end))
    room = max(width - len(left) - len(right), 1)
    line = list(f"{left}{' ' * room}{right}"[:width])
    if time is not None and end > begin and 0 <= (at := (time - begin) * width // (end - begin)) < len(line):
        line[at] = "▲"
    return "".join(line)
