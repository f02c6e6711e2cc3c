"""Collectives, and the links between ranks."""

from __future__ import annotations

from functools import partial

import numpy as np
from msgspec.structs import replace
from rich.text import Text

from npu_tui.analysis.collectives import LOCAL, PairSum
from npu_tui.analysis.device import Window
from npu_tui.load.errors import InputError
from npu_tui.profile.collective_tables import COLLECTIVES, exposed_together
from npu_tui.profile.file_tables import LINK_MATRIX, pair_sheet
from npu_tui.profile.table import Value
from npu_tui.strings import say
from npu_tui.trace.text import duration_text
from npu_tui.tui.commands import BY_ID, keys_label
from npu_tui.tui.tabs.declared import shown
from npu_tui.tui.tabs.table import GAP, ComputedTab, Content, Context, nothing, scope_note

_MOST_RANKS = 8
_HEAT = "░▒▓█"


class CommunicationTab(ComputedTab):
    """A row per collective by start; Enter goes there, and again to the next one of its type."""

    id = "communication"
    key = "7"

    def __init__(self) -> None:
        super().__init__()
        self._links = False

    def depends_on(self, now: Context) -> object:
        """The trace, the range, and whether links are shown."""
        return now.trace, now.marked, self._links

    def again(self) -> bool:
        """Change between collectives and the links between ranks."""
        self._links = not self._links
        return True

    def compute(self, now: Context) -> Content:
        """The collectives of all groups; those that run in the range, where one is marked. Or the links."""
        if self._links:
            return link_table(now.profile.tables.link_matrix)
        marked = now.marked_in(now.trace)
        try:
            sheet = COLLECTIVES.make(now.profile.whole, running=None if marked is None else Window(*marked))
        except InputError as error:
            return say("communication.gone", why=error.message)
        if not sheet.rows:
            return nothing(now, say("communication.none"))
        items = np.array([each for each in sheet.values("slice") if each is not None], np.int64)
        total = say(
            "communication.total",
            count=f"{sheet.rows:,}",
            elapsed=duration_text(sum(sheet.values("duration"))),
            exposed=duration_text(exposed_together(now.profile, items)),
        )
        peers, ranks = sheet.values("peer_rank"), sheet.values("last_rank")

        def waited(row: int, wait: Value) -> str:
            text = "" if wait is None else duration_text(float(wait))
            return text if peers[row] is None else say("communication.peer", wait=text, rank=peers[row])

        def last(row: int, after: Value) -> str:
            text = "" if after is None else duration_text(float(after))
            return say("communication.after", rank=ranks[row], after=text) if text else ""

        return shown(
            now.trace, COLLECTIVES, sheet, GAP.join([total, scope_note(now)]),
            cells={"longest_wait": waited, "last_after": last},
            again=say("communication.links", key=keys_label(BY_ID["tab_communication"])), most=sheet.rows,
        )  # fmt: skip


def link_table(pairs: list[PairSum]) -> Content:
    """A row per pair of ranks and transport; up to eight ranks stand in a heat map beside it."""
    key, sheet = keys_label(BY_ID["tab_communication"]), pair_sheet(pairs)
    if not pairs:
        return say("links_between.none", key=key)
    note, again = say("links_between.note", count=len(pairs)), say("links_between.again", key=key)
    table = shown(0, LINK_MATRIX, sheet, note, again=again, most=sheet.rows)
    if len({rank for each in pairs for rank in (each.source, each.target)}) > _MOST_RANKS:
        return table
    rows = [
        replace(row, aside=partial(_heat_map, [pair for pair in pairs if pair.group == each.group]))
        for row, each in zip(table.rows, pairs, strict=True)
    ]
    return replace(table, rows=rows)


def _heat_map(pairs: list[PairSum], width: int, height: int) -> Text:
    """Bandwidth from rank to rank of one group; copies on the chip are left out of the scale."""
    del height
    ranks = sorted({rank for each in pairs for rank in (each.source, each.target)})
    speeds = {(each.source, each.target): each.speed for each in pairs if each.transport != LOCAL}
    most = max((speed for speed in speeds.values() if speed), default=0.0)
    cell = max((width - 4) // max(len(ranks), 1), 4)
    picture = Text(say("links_between.heat")[:width], style="dim", no_wrap=True)
    picture.append("\n    " + "".join(f"{rank:>{cell}}" for rank in ranks), style="dim")
    for source in ranks:
        if not any((source, target) in speeds for target in ranks):
            continue
        picture.append(f"\n{source:>3} ", style="dim")
        for target in ranks:
            speed = speeds.get((source, target))
            if speed is None:
                picture.append(" " * (cell - 1) + "·", style="dim")
                continue
            shade = _HEAT[min(int(speed / most * len(_HEAT)), len(_HEAT) - 1)] if most else " "
            picture.append(f"{shade}{speed:.0f}".rjust(cell))
    return picture
