"""The Memory tab: peaks, and which operations and code lines hold memory at the peak, at the cursor or to the end."""

from __future__ import annotations

import numpy as np

from npu_tui.analysis.memory import BEFORE, Memory
from npu_tui.profile.file_tables import HOLDERS, MODULE_PEAKS
from npu_tui.profile.table import Value
from npu_tui.strings import say
from npu_tui.trace.text import brief, moment_text
from npu_tui.tui.commands import BY_ID, keys_label
from npu_tui.tui.tabs.declared import shown
from npu_tui.tui.tabs.table import GAP, ComputedTab, Content, Context

_LONGEST_NAME = 44
_WAYS = ("peak", "cursor", "kept", "modules")


class MemoryTab(ComputedTab):
    """A row per operation and code line, most bytes first; Enter goes to its allocations."""

    id = "memory"
    key = "9"

    def __init__(self) -> None:
        super().__init__()
        self._way = 0

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
            sheet = MODULE_PEAKS.make(now.part)
            notes.append(say("memory.modules", shown=sheet.rows, count=len(memory.modules)))
            return shown(now.trace, MODULE_PEAKS, sheet, "\n".join(notes), again=again, most=sheet.rows)
        time = _time(now, memory, way)
        chosen = memory.allocations.kept if time is None else memory.allocations.alive(time)
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
        sheet = HOLDERS.make(now.part, chosen=chosen, time=time)
        names = sheet.values("name")

        def moment(row: int, at: Value, unknown: str) -> str:
            return "" if names[row] is None else say(unknown) if at is None else moment_text(float(at))

        cells = {
            "name": lambda row, name: say("memory.unknown") if name is None else brief(str(name), _LONGEST_NAME),
            "at": lambda row, at: moment(row, at, "memory.before"),
            "released": lambda row, at: moment(row, at, "memory.never"),
        }
        return shown(now.trace, HOLDERS, sheet, "\n".join(notes), cells=cells, again=again, most=sheet.rows)


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
