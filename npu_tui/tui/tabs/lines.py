"""The Code lines tab: which lines of user code launched too late."""

from __future__ import annotations

from functools import partial

import numpy as np

from npu_tui.strings import say
from npu_tui.trace.text import brief
from npu_tui.trace.units import duration_text
from npu_tui.tui.tabs.scope import ComputedTab, Ranked, scope_note
from npu_tui.tui.tabs.tab import Content, Context, Row, Table

_COLUMNS = ("lost", "share", "launches", "heading", "function")


class LinesTab(ComputedTab):
    """A row per line, most lost time first; Enter goes to its worst launch."""

    id = "lines"
    key = "2"

    def compute(self, now: Context) -> Content:
        """The lines of all devices."""
        if not now.profile.dispatch:
            return say("lines.no_dispatch")
        found = [
            (loss, facts.target[own])
            for facts in now.part.facts
            if facts.launches is not None
            for loss, own in facts.losing
        ]
        total = sum(loss.lost for loss, _ in found)
        rows = []
        for loss, items in sorted(found, key=lambda pair: -pair[0].lost):
            code = loss.code
            place = say("lines.place", file=brief(code.file), line=code.line) if code else say("lines.unknown")
            function = brief(code.function) if code else ""
            cells = (duration_text(loss.lost), f"{loss.lost / total:.1%}", f"{loss.launches:,}", place, function)
            values = (loss.lost, loss.lost, loss.launches, place, function)
            rows.append(Row(cells, Ranked(now.trace, len(items), partial(np.asarray, items)), values, code))
        if not rows:
            return say("lines.none")
        note = f"{scope_note(now)}   {say('lines.total', lost=duration_text(total))}"
        return Table(tuple(say(f"lines.{key}") for key in _COLUMNS), rows, note)
