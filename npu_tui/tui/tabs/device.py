"""What the device spends time on: operators, collectives, the links between ranks; and why it is idle."""

from __future__ import annotations

from functools import partial
from pathlib import PurePath

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from npu_tui.analysis.bubbles import Idles
from npu_tui.analysis.code_lines import line_of
from npu_tui.analysis.collectives import LOCAL, PairSum
from npu_tui.analysis.device import Window
from npu_tui.analysis.kernels import KernelTable
from npu_tui.analysis.limits import ROUNDING_NS
from npu_tui.analysis.operators import WAYS, By
from npu_tui.analysis.ranges import meanwhile
from npu_tui.load.errors import InputError
from npu_tui.profile.collective_tables import COLLECTIVES, exposed_together
from npu_tui.profile.file_tables import LINK_MATRIX, pair_sheet
from npu_tui.profile.launch_tables import FREE
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import TableSheet, Value, ViewField, labels, numbers
from npu_tui.profile.work_tables import OPERATORS
from npu_tui.strings import say
from npu_tui.trace.model import Lane, Trace
from npu_tui.trace.recorder import recorder_of
from npu_tui.trace.text import brief, duration_text, exact_text, printable, share_text, shortened
from npu_tui.tui.commands import BY_ID, keys_label
from npu_tui.tui.tabs.declared import MOST_ROWS, shown
from npu_tui.tui.tabs.table import GAP, Content, Context, Stretch, TabRow, nothing, scope_note
from npu_tui.view.scene import Role

_LONGEST_OPERATOR = 32

# --- compute time by operator type, shapes, name, core or data type, or of every kernel

# What is looked at most comes first: narrow screens cut the others. Then comes what names the row.
_FIRST = 4
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
        return link_table(now.profile.tables.link_matrix, recorder_of(now.profile.trace).word("links_between.none"))
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


def link_table(pairs: list[PairSum], none: str = "links_between.none") -> Content:
    """A row per pair of ranks and transport, or the text ``none``; up to eight ranks are in a heat map beside it."""
    if not pairs:
        return say(none, key=keys_label(BY_ID["tab_communication"]))
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


_NAMES = 4
_LONGEST_NAME = 60
_SILENT = 0.005
"""A backward thread that did nothing for all but this share of the time is not shown."""


class Thread(Struct, frozen=True):
    """A lane of the host and what it is called."""

    lane: Lane
    name: str


def idle_at(profile: Profile, when: int) -> tuple[Idles, int] | None:
    """The free time of a device around ``when`` ns, as position in its ``Idles``; None where all devices are busy."""
    for found in profile.idles:
        at = int(np.searchsorted(found.start, when, "right")) - 1
        if at >= 0 and when < found.end[at]:
            return found, at
    return None


def why_text(now: Context, index: int, found: Idles, at: int) -> list[RenderableType]:
    """Why the device was free for the time ``at``; ``index`` is the number of its trace."""
    profile, offset = now.session.profiles[index], now.session.scene.offsets[index]
    start, end = int(found.start[at]), int(found.end[at])
    head = Text.assemble((say("idle.for", length=duration_text(end - start)), "bold"))
    head.append(f"   {exact_text(start + offset)} … {exact_text(end + offset)}", style="dim")
    parts: list[RenderableType] = [
        head,
        labelled(say("idle.why"), verdict(found, at)),
        *_rows_around(profile.trace, found, at),
    ]
    return [*parts, *_threads_beside(now, index, found, at, start, end)]


def range_text(now: Context, index: int, window: Window) -> list[RenderableType]:
    """Why the devices of a trace were free within ``window``: the sums, the longest time, the threads of the host."""
    profile = now.session.profiles[index]
    parts: list[RenderableType] = []
    for every in profile.idles:
        found = every.within(window)
        length = int(found.length.sum())
        if length <= ROUNDING_NS:
            continue
        late, linked = float(found.late.sum()), length - float(found.unlinked.sum())
        line = say(
            "idle.sums",
            length=duration_text(length),
            share=share_text(length / max(window.end - window.start, 1)),
            count=len(found),
            late=duration_text(late),
            side=duration_text(linked - late),
        )
        parts.append(Text(line, style="bold"))
        at = int(found.longest()[0])
        parts.append(labelled(say("idle.longest"), f"{duration_text(int(found.length[at]))}: {verdict(found, at)}"))
        parts += [
            *_rows_around(profile.trace, found, at),
            *_threads_beside(now, index, found, at, window.start, window.end),
        ]
    return parts


def verdict(found: Idles, at: int) -> str:
    """Who was late, in one line."""
    length, late = int(found.length[at]), float(found.late[at])
    if found.unlinked[at] >= length:
        return say("idle.unlinked")
    if late <= 0:
        return say("idle.device")
    key = "idle.host" if late >= 0.995 * length else "idle.both"
    return say(key, late=duration_text(late), share=share_text(late / length), side=duration_text(length - late))


def labelled(label: str, words: str) -> Text:
    """``words`` after a dim ``label``; they go on in the next line where they are long."""
    return Text.assemble((f"{label} ", "dim"), words, overflow="fold")


def _rows_around(trace: Trace, found: Idles, at: int) -> list[RenderableType]:
    """The slices before and after, and the line that launched the latter."""
    parts: list[RenderableType] = []
    for key, item in (("idle.next", int(found.after[at])), ("idle.before", int(found.before[at]))):
        if item < 0:
            continue
        length = duration_text(int(trace.slices.end[item] - trace.slices.start[item]))
        line = labelled(say(key), brief(printable(trace.name_of(item)), _LONGEST_NAME))
        line.append(f"   {length}   ", style="dim")
        code = line_of(trace, item) if key == "idle.next" else None
        if code is not None:
            place = say("lines.place", file=brief(PurePath(code.file).name), line=code.line)
            line.append(say("details.code_line", place=place, function=brief(code.function)), style="bold")
        parts.append(line)
    return parts


def host_threads(trace: Trace, roles: list[Role], link: int) -> list[Thread]:
    """Main, backward and task queue thread of the framework, and the thread of CANN that ``link`` was launched on."""
    found = []
    for kind in ("main", "backward", "queue"):
        lane = next(
            (
                file_lane
                for file_lane in trace.file_lanes
                if roles[file_lane.index].kind == kind and trace.layers[file_lane.layer].kind in ("python", "other")
            ),
            None,
        )
        if lane is not None:
            found.append(Thread(lane, roles[lane.index].name))
    source = int(trace.links.source_lane[link]) if link >= 0 else -1
    if source >= 0 and all(source != thread.lane.index for thread in found):
        lane = trace.lanes[source]
        found.append(Thread(lane, f"{trace.layers[lane.layer].name} {roles[source].name}"))
    return found


def _threads_beside(now: Context, index: int, found: Idles, at: int, start: int, end: int) -> list[RenderableType]:
    """What the threads of the host did in ``[start, end)`` ns of the device."""
    ahead = round(float(found.ahead[at]))
    return threads_text(now, index, int(found.link[at]), start - ahead, end - ahead)


def threads_text(now: Context, index: int, link: int, low: int, high: int) -> list[RenderableType]:
    """What the threads of the host, that of the launch ``link`` too, did in ``[low, high)`` ns, side by side."""
    trace, roles = now.session.profiles[index].trace, now.session.scene.roles[index]
    grid = Table.grid(padding=(0, 2, 0, 0), expand=True)
    columns: list[list[Text]] = []
    for thread in host_threads(trace, roles, link):
        done = meanwhile(trace, thread.lane, low, high)
        if done.silent >= (1 - _SILENT) * (high - low) and roles[thread.lane.index].kind == "backward":
            continue
        lines = [(time, brief(printable(name), _LONGEST_NAME)) for name, time in done.names[:_NAMES]]
        if done.silent > 0:
            lines.append((done.silent, say("idle.silent")))
            lines.sort(key=lambda line: -line[0])
        cells = [Text(thread.name, style="bold", no_wrap=True, overflow="ellipsis")]
        for time, name in lines[:_NAMES]:
            cell = Text(f"{time / (high - low):>4.0%} ", no_wrap=True, overflow="ellipsis")
            cells.append(cell.append(name, style="dim" if name == say("idle.silent") else ""))
        columns.append(cells)
    if not columns:
        return []
    for _ in columns:
        grid.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    for k in range(max(map(len, columns))):
        grid.add_row(*(cells[k] if k < len(cells) else Text() for cells in columns))
    return [Text(say("idle.meanwhile"), style="dim"), grid]


_SHOWN_ROWS = 300
_BUBBLES_LONGEST_NAME = 30
_THREADS = ("main", "queue")


def bubbles(now: Context) -> Content:
    """A row per time in the range, else in the trace; Enter goes there and marks it."""
    sheet = FREE.make(now.part)
    if not sheet.rows:
        return nothing(now, say("idle.none"))
    found = [idles_of.within(now.part.window) for idles_of in now.profile.idles]
    idles = [(idles_of, at) for idles_of in found for at in range(len(idles_of))]
    length = np.array(sheet.values("duration"))
    longest = np.argsort(-length, kind="stable")[:_SHOWN_ROWS]
    late = sum(float(idles_of.late.sum()) for idles_of in found)
    notes = [
        say("bubbles.note", count=sheet.rows, total=duration_text(int(length.sum())), late=duration_text(late)),
        scope_note(now),
        say("bubbles.walk"),
    ]
    if sheet.rows > len(longest):
        notes.insert(1, say("bubbles.cut", shown=len(longest), count=sheet.rows))
    chosen = [idles[row] for row in longest.tolist()]
    table = shown(now.trace, FREE, _with_threads(now, sheet.taken(longest), chosen), GAP.join(notes))
    return replace(table, rows=[_gap_row(now, row, *idle) for row, idle in zip(table.rows, chosen, strict=True)])


def _with_threads(now: Context, sheet: TableSheet, idles: list[tuple[Idles, int]]) -> TableSheet:
    """``sheet`` with what the threads of the host did meanwhile, on the clock of the scene."""
    trace, roles = now.profile.trace, now.session.scene.roles[now.trace]
    threads = {roles[thread.lane.index].kind: thread for thread in host_threads(trace, roles, -1)}
    doing: dict[str, list[str | None]] = {kind: [] for kind in _THREADS}
    for found, at in idles:
        start, end, shift = int(found.start[at]), int(found.end[at]), round(float(found.ahead[at]))
        for kind, texts in doing.items():
            done = meanwhile(trace, threads[kind].lane, start - shift, end - shift) if kind in threads else None
            if done is None:
                texts.append(None)
            elif not done.names or done.silent > done.names[0][1]:
                texts.append(f"{done.silent / (end - start):.0%} {say('idle.silent')}")
            else:
                name, time = done.names[0]
                texts.append(f"{time / (end - start):.0%} {brief(printable(name), _BUBBLES_LONGEST_NAME)}")
    begin = np.array(sheet.values("start")) + now.session.scene.offsets[now.trace]
    added = {kind: labels(texts) for kind, texts in doing.items()} | {"start": numbers(begin)}
    return replace(sheet, data=sheet.data | added)


def _gap_row(now: Context, row: TabRow, found: Idles, at: int) -> TabRow:
    """``row`` with why the device was idle, and the slice of the Free lane as its place."""
    slices, free = now.profile.trace.slices, now.profile.free_slices
    start, end = int(found.start[at]), int(found.end[at])
    own = free[(slices.start[free] <= start) & (slices.end[free] >= end)]
    words = f"{say('idle.for', length=duration_text(end - start))}: {verdict(found, at)}"
    place = Stretch(start, end, None, int(own[0]) if len(own) else None, words, False, now.trace)
    assert row.told is not None
    return replace(row, places=(place,), told=partial(_gap_text, now, found, at, row.told()))


def _gap_text(now: Context, found: Idles, at: int, cells: str) -> str:
    pairs = [(say("idle.why"), verdict(found, at))]
    pairs += [
        (say(key), printable(now.profile.trace.name_of(item)))
        for key, item in (("idle.before", int(found.before[at])), ("idle.next", int(found.after[at])))
        if item >= 0
    ]
    return "\n".join([*(say("panel.told", name=name, value=text) for name, text in pairs), cells])
