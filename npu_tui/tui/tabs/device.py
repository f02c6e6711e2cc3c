"""What the device spends time on: operators, collectives, the links between ranks."""

from __future__ import annotations

from functools import partial

import numpy as np
from msgspec.structs import replace
from rich.text import Text

from npu_tui.analysis.collectives import LOCAL, PairSum
from npu_tui.analysis.device import Window
from npu_tui.analysis.kernels import KernelTable
from npu_tui.analysis.operators import WAYS, By
from npu_tui.load.errors import InputError
from npu_tui.profile.collective_tables import COLLECTIVES, exposed_together
from npu_tui.profile.file_tables import LINK_MATRIX, pair_sheet
from npu_tui.profile.table import Value, ViewField
from npu_tui.profile.work_tables import OPERATORS
from npu_tui.strings import say
from npu_tui.trace.kineto import is_kineto
from npu_tui.trace.text import brief, duration_text, shortened
from npu_tui.tui.commands import BY_ID, keys_label
from npu_tui.tui.tabs.declared import MOST_ROWS, shown
from npu_tui.tui.tabs.table import GAP, Content, Context, nothing, scope_note

_LONGEST_OPERATOR = 32

# --- compute time by operator type, shapes, name, core or data type, or of every kernel

_FIRST = 4
"""What is looked at most comes first: narrow screens cut the others. Then comes what names the row."""
_LABELS: dict[By, tuple[str, ...]] = {
    "type": ("type", "core"),
    "shapes": ("type", "shapes", "core"),
    "name": ("name", "core"),
    "name_shapes": ("name", "shapes", "core"),
    "core": ("core",),
    "dtype": ("dtypes",),
    "kernel": ("name", "shapes", "core"),
}


def operators(now: Context) -> Content:
    """A row per group of kernels, most time first; those that start in the range, where one is marked.

    Enter walks the kernels of a group from the slowest on. Each turn groups them another way.
    """
    ways = _ways(now.part.kernel_table)
    by, then = (ways[(now.turn + ahead) % len(ways)] for ahead in (0, 1))
    sheet = OPERATORS.make(now.part, by=by)
    if not sheet.rows:
        return nothing(now, say("operators.none"))
    calls, total = (sum(sheet.values(name)) for name in ("calls", "total"))
    notes = [
        scope_note(now),
        say("operators.total", count=f"{calls:,}", total=duration_text(total)),
        say("operators.lead", key=keys_label(BY_ID["focus_next"])),
        say("operators.by", by=say(f"operators.by_{by}")),
    ]
    again = say("operators.by", by=say(f"operators.by_{then}"))
    if sheet.rows > MOST_ROWS:
        notes.append(say("operators.cut", shown=MOST_ROWS, count=sheet.rows))
    return shown(
        now.trace, OPERATORS, sheet, GAP.join(notes), columns=_columns(by), again=again,
        cells={
            "outliers": lambda row, count: say("operators.outlier", count=count) if count else "",
            "name": lambda row, name: brief(str(name or ""), _LONGEST_OPERATOR),
        },
    )  # fmt: skip


def _columns(by: By) -> list[ViewField]:
    """The columns of the panel with those that name a row up front."""
    names = _LABELS[by]
    first, rest = OPERATORS.panel[:_FIRST], OPERATORS.panel[_FIRST:]
    named = [field for name in names for field in rest if field.column.id == name]
    return [*first, *named, *(field for field in rest if field.column.id not in (*names, "type", "name"))]


def _ways(table: KernelTable) -> list[By]:
    """The ways to gather ``table`` that say something: by what is known."""
    unknown: set[By] = set()
    if not table.shapes.is_known:
        unknown |= {"shapes", "name_shapes"}
    if not table.core.is_known:
        unknown.add("core")
    if not table.dtypes.is_known:
        unknown.add("dtype")
    if not len(table):
        return ["type"]
    return [way for way in WAYS if way not in unknown]


# --- collectives, and the links between ranks

_MOST_RANKS = 8
_HEAT = "░▒▓█"


def communication(now: Context) -> Content:
    """A row per collective of all groups by start, of those in the range where one is marked; every other turn links.

    Enter goes to a collective, and again to the next one of its type.
    """
    if now.turn % 2:
        return say("not_checked.gpu") if is_kineto(now.profile.trace) else link_table(now.profile.tables.link_matrix)
    marked = now.marked_in(now.trace)
    try:
        sheet = COLLECTIVES.make(now.profile.whole, running=None if marked is None else Window(*marked))
    except InputError as error:
        return say("communication.gone", why=error.message)
    if not sheet.rows:
        return nothing(now, say("communication.none"))
    items = np.array([item for item in sheet.values("slice") if item is not None], np.int64)
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
        again=say("communication.links"), most=sheet.rows,
    )  # fmt: skip


def link_table(pairs: list[PairSum]) -> Content:
    """A row per pair of ranks and transport; up to eight ranks stand in a heat map beside it."""
    if not pairs:
        return say("links_between.none", key=keys_label(BY_ID["tab_communication"]))
    note, sheet = say("links_between.note", count=len(pairs)), pair_sheet(pairs)
    table = shown(0, LINK_MATRIX, sheet, note, again=say("links_between.again"), most=sheet.rows)
    if len({rank for pair_of in pairs for rank in (pair_of.source, pair_of.target)}) > _MOST_RANKS:
        return table
    rows = [
        replace(row, aside=partial(_heat_map, [pair for pair in pairs if pair.group == pair_of.group]))
        for row, pair_of in zip(table.rows, pairs, strict=True)
    ]
    return replace(table, rows=rows)


def _heat_map(pairs: list[PairSum], width: int, height: int) -> Text:
    """Bandwidth from rank to rank of one group, a shade alone where columns are narrow, without copies on the chip."""
    del height
    ranks = sorted({rank for pair in pairs for rank in (pair.source, pair.target)})
    speeds = {(pair.source, pair.target): pair.speed for pair in pairs if pair.transport != LOCAL}
    most = max((speed for speed in speeds.values() if speed), default=0.0)
    cell = max((width - 4) // max(len(ranks), 1), 2)
    picture = Text(shortened(say("links_between.heat"), width), style="dim", no_wrap=True)
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
            told = f"{shade}{speed:.0f}"
            picture.append((told if len(told) < cell else shade).rjust(cell))
    return picture
