"""The links between ranks: a table, and a heat map of their bandwidth where the ranks are few."""

from __future__ import annotations

from functools import partial

from rich.text import Text

from npu_tui.analysis.collectives import LOCAL, PairSum
from npu_tui.strings import say
from npu_tui.trace.text import brief, duration_text, printable, size_text, speed_text
from npu_tui.tui.keys.commands import BY_ID, keys_label
from npu_tui.tui.tabs.table.tab import Content, Row, Table

_COLUMNS = ("route", "transport", "speed", "size", "time", "group")
_MOST_RANKS = 8
_HEAT = "░▒▓█"
_LONGEST_GROUP = 24


def link_table(pairs: list[PairSum]) -> Content:
    """A row per pair of ranks and transport; up to eight ranks stand in a heat map beside it."""
    key = keys_label(BY_ID["tab_communication"])
    if not pairs:
        return say("links_between.none", key=key)
    ranks = {rank for each in pairs for rank in (each.source, each.target)}
    rows = [_row(each, pairs if len(ranks) <= _MOST_RANKS else []) for each in pairs]
    note, again = say("links_between.note", count=len(pairs)), say("links_between.again", key=key)
    return Table(tuple(say(f"links_between.{column}") for column in _COLUMNS), rows, note, again=again)


def _row(each: PairSum, pairs: list[PairSum]) -> Row:
    route = say("links_between.pair", source=each.source, target=each.target)
    cells = (
        route,
        printable(each.transport),
        "" if each.speed is None else speed_text(each.speed),
        size_text(each.size),
        duration_text(each.time),
        brief(each.group, _LONGEST_GROUP),
    )
    values = (route, each.transport, each.speed, each.size, each.time, each.group)
    own = [pair for pair in pairs if pair.group == each.group]
    return Row(cells, (), values, aside=partial(_heat_map, own) if own else None)


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
