"""Begin and end marks of the Trace Event Format as slices.

``B``/``E`` pairs nest on their thread; ``b``/``e`` pairs belong together by category, id and name, also across
processes, and get a lane of their own per process and category, as they may overlap anything.
"""

from __future__ import annotations

from binascii import crc32
from collections import Counter

import msgspec

from npu_tui.ingest.json.decoding.events import Event
from npu_tui.ingest.times import INVALID, parse_times

PHASES = frozenset("BEbe")

Numbered = tuple[int, Event]


class _Open:
    """Beginnings without an end so far, as (time, index); an end takes the last one of its process, else the last."""

    def __init__(self) -> None:
        self.left: set[int] = set()
        self._all: list[tuple[int, int]] = []
        self._of: dict[int, list[tuple[int, int]]] = {}

    def begin(self, pid: int, mark: tuple[int, int]) -> None:
        self.left.add(mark[1])
        self._all.append(mark)
        self._of.setdefault(pid, []).append(mark)

    def end(self, pid: int) -> tuple[int, int] | None:
        """The beginning that an end in process ``pid`` belongs to, if there is any."""
        for marks in (self._of.get(pid, []), self._all):
            while marks:
                mark = marks.pop()
                if mark[1] in self.left:  # it stands in both lists
                    self.left.remove(mark[1])
                    return mark
        return None


class BeginEndEvents:
    """BeginEndEvents in file order; ``slices`` pairs them."""

    def __init__(self) -> None:
        self.lane_names: dict[tuple[int, int], str] = {}
        self._marks: list[Numbered] = []

    def add(self, numbered: list[Numbered]) -> None:
        """Take in marks with their ordinals in the file."""
        self._marks.extend(numbered)

    def slices(self, skipped: Counter[str]) -> list[Numbered]:
        """One ``X`` event per pair with the ordinal of its beginning; marks without a partner are counted.

        BeginEndEvents are paired in the order of time, at equal times in that of the file.
        """
        times = parse_times([event.ts for _, event in self._marks])
        skipped["skip.mark_time"] += int((times == INVALID).sum())
        order = sorted((time, i) for i, time in enumerate(times.tolist()) if time != INVALID)
        open_marks: dict[tuple[object, ...], _Open] = {}
        found: list[Numbered] = []
        for time, i in order:
            event = self._marks[i][1]
            key = self._key(event)
            if event.ph in "Bb":
                open_marks.setdefault(key, _Open()).begin(event.pid, (time, i))
            elif key in open_marks and (begun := open_marks[key].end(event.pid)):
                found.append(self._slice(begun[1], time - begun[0]))
            else:
                skipped["skip.lone_end"] += 1
        skipped["skip.lone_begin"] += sum(len(marks.left) for marks in open_marks.values())
        return sorted(found, key=lambda pair: pair[0])

    def _key(self, event: Event) -> tuple[object, ...]:
        return (event.pid, event.tid) if event.ph in "BE" else (event.cat, str(event.id), event.name)

    def _slice(self, index: int, duration: int) -> Numbered:
        ordinal, event = self._marks[index]
        tid = event.tid
        if event.ph == "b":
            label = event.cat or event.name
            tid = -2 - crc32(f"async {label}".encode())
            self.lane_names[event.pid, tid] = label
        return ordinal, msgspec.structs.replace(event, ph="X", tid=tid, dur=duration / 1000)
