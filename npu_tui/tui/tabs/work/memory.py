"""The Memory tab: peaks, and which operations and code lines hold memory at the peak, at the cursor or to the end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from npu_tui.analysis.code_lines import CodeLine, line_of
from npu_tui.analysis.memory import BEFORE, NEVER, Allocations, Holder, Memory, MemoryCurve, allocating, holders
from npu_tui.profile.profile import Profile
from npu_tui.strings import say
from npu_tui.trace.text import brief, memory_text, moment_text, printable, share_text
from npu_tui.tui.keys.commands import BY_ID, keys_label
from npu_tui.tui.tabs.table.scope import ComputedTab
from npu_tui.tui.tabs.table.tab import GAP, Content, Context, Place, Row, Stretch, Table
from npu_tui.view.scene import Selected

I64 = npt.NDArray[np.int64]

_WAYS = ("peak", "cursor", "kept", "modules")
_COLUMNS = ("size", "share", "count", "operation", "line", "allocated", "released", "largest")
_MODULES = ("size", "component", "when", "last")
_LONGEST_NAME = 44


class MemoryTab(ComputedTab):
    """A row per operation and code line, most bytes first; Enter goes to its allocations."""

    id = "memory"
    key = "9"

    def __init__(self) -> None:
        super().__init__()
        self._way = 0
        self._makers: dict[int, I64] = {}

    def depends_on(self, now: Context) -> object:
        """The trace, the way, and the cursor where its time is asked for."""
        way = _WAYS[self._way]
        return now.trace, way, now.cursor if way == "cursor" else None

    def again(self) -> bool:
        """At the peak, at the cursor, what was never released, the components of the device."""
        self._way = (self._way + 1) % len(_WAYS)
        return True

    def compute(self, now: Context) -> Content:
        """What holds memory."""
        profile, way = now.profile, _WAYS[self._way]
        memory = profile.memory
        if not memory.is_known:
            return say("memory.none")
        then = say(f"memory.by_{_WAYS[(self._way + 1) % len(_WAYS)]}")
        notes = [_peaks(memory)]
        again = say("memory.again", key=keys_label(BY_ID["tab_memory"]), then=then)
        if way == "modules":
            rows = [_module(each) for each in sorted(memory.modules, key=lambda each: -each.peak[1]) if each.peak[1]]
            words = say("memory.modules", shown=len(rows), count=len(memory.modules))
            notes.append(words)
            return Table(tuple(say(f"memory.{each}") for each in _MODULES), rows, "\n".join(notes), again=again)
        time = _time(now, memory, way)
        chosen = memory.allocations.kept if time is None else memory.allocations.alive(time)
        total = _held(memory, time)
        known = int(memory.allocations.size[chosen].sum())
        words = say("memory.kept_words") if time is None else say(f"memory.{way}_words", time=time)
        notes.append(
            GAP.join(
                [
                    say("memory.alive", words=words, count=len(chosen), size=known),
                    say("memory.lead", key=keys_label(BY_ID["focus_next"])),
                ]
            )
        )
        rows = self._rows(now.trace, profile, chosen, max(total or known, known))
        if total is not None and total > known and time is not None:
            rows.append(_before(total - known, total))
        return Table(tuple(say(f"memory.{each}") for each in _COLUMNS), rows, "\n".join(notes), again=again)

    def _rows(self, index: int, profile: Profile, chosen: I64, total: int) -> list[Row]:
        allocations = profile.memory.allocations
        if index not in self._makers:
            self._makers[index] = _makers(profile)
        makers = self._makers[index]
        lines: dict[int, CodeLine | None] = {-1: None}
        for item in set(makers[chosen].tolist()) - {-1}:
            lines[item] = line_of(profile.trace, item)
        places = [lines[item] for item in makers[chosen].tolist()]
        line_at = dict(zip(chosen.tolist(), places, strict=True))
        found = holders(allocations, chosen, list(places))
        return [
            _row(index, allocations, each, line_at[int(each.members[0])], makers[each.members], total) for each in found
        ]


def _makers(profile: Profile) -> I64:
    """The slice of the operation that made each allocation, -1 where none of its name is there."""
    trace, hosts, allocations = profile.trace, profile.host_operators, profile.memory.allocations
    codes = {name: code for code, name in enumerate(trace.names)}
    name = np.array([codes.get(value, -1) for value in allocations.name.values] + [-1], np.int64)[allocations.name.code]
    slices, item = trace.slices, hosts.item
    found = allocating(
        name, allocations.start, slices.name[item].astype(np.int64), slices.start[item], slices.end[item]
    )
    return np.where(found >= 0, np.append(item, -1)[found], -1)


def _time(now: Context, memory: Memory, way: str) -> int | None:
    """The time that is asked about, ns; None for what was never released."""
    if way == "kept":
        return None
    if way == "cursor":
        return now.session.scene.to_trace(now.trace, now.cursor)
    curve = memory.curve("allocated") or memory.curve("reserved")
    if curve is not None:
        return curve.peak[0]
    allocations = memory.allocations  # without records of the allocator: when its operations held the most
    edges = np.unique(allocations.start[allocations.start > BEFORE])
    return max(edges.tolist(), key=lambda at: int(allocations.size[allocations.alive(at)].sum()), default=0)


def _held(memory: Memory, time: int | None) -> int | None:
    curve = memory.curve("allocated")
    return None if time is None or curve is None else curve.at(time)


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


def _module(each: MemoryCurve) -> Row:
    when, peak = each.peak
    last = int(each.value[-1])
    cells = (memory_text(peak), printable(each.component), moment_text(when), memory_text(last))
    return Row(cells, [Stretch(when, when + 1, words=printable(each.component))], (peak, each.component, when, last))


def _row(index: int, allocations: Allocations, each: Holder, line: CodeLine | None, makers: I64, total: int) -> Row:
    first = int(each.members[0])
    start, end, largest = (int(column[first]) for column in (allocations.start, allocations.end, allocations.size))
    share = each.size / total if total else 0.0
    place = "" if line is None else say("lines.place", file=line.file.rpartition("/")[2], line=line.line)
    name = brief(each.name, _LONGEST_NAME)
    cells = (
        memory_text(each.size),
        share_text(share),
        f"{len(each.members):,}",
        name,
        printable(place),
        say("memory.before") if start == BEFORE else moment_text(start),
        say("memory.never") if end == NEVER else moment_text(end),
        memory_text(largest),
    )
    values = (each.size, share, len(each.members), name, place or None, start, end, largest)
    return Row(cells, _places(index, allocations, each.members, makers), values, line)


def _places(index: int, allocations: Allocations, members: I64, makers: I64) -> Sequence[Place]:
    """The operations that allocated, else the times."""
    found: list[Place] = []
    for item, start, end in zip(
        makers.tolist(), allocations.start[members].tolist(), allocations.end[members].tolist(), strict=True
    ):
        if item >= 0:
            found.append(Selected(index, item))
        elif start > BEFORE:
            found.append(Stretch(start, end if end < NEVER else start + 1, index))
    return found


def _before(size: int, total: int) -> Row:
    """What was allocated before profiling began, or by what is no operation."""
    words = say("memory.unknown")
    share = size / total
    cells = (memory_text(size), share_text(share), "", words, "", "", "", "")
    return Row(cells, (), (size, share, None, words, None, None, None, None))
