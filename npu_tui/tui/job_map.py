"""The heat map and the waterfall of a job, and the lines above them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from rich.segment import Segment
from textual import events
from textual.strip import Strip

from npu_tui.jobs.heat import SHADES, HeatRow
from npu_tui.jobs.timelines import Bar, waterfall
from npu_tui.strings import say
from npu_tui.trace.text import duration_text, printable, signed_text, time_text
from npu_tui.tui.job_overview import Overview
from npu_tui.tui.terminal.frames import style_of
from npu_tui.tui.terminal.terminal import Terminal
from npu_tui.tui.timeline import Drawing
from npu_tui.view.bars import points
from npu_tui.view.grid import Grid
from npu_tui.view.heat import (
    DrawnParts,
    DrawnRow,
    FieldPicture,
    FieldPlaces,
    HeatBar,
    HeatPicture,
    HeatPlaces,
    WaterfallPicture,
    draw_field,
    draw_heat,
    draw_parts,
    draw_waterfall,
    field_places,
)
from npu_tui.view.palette import Ink
from npu_tui.view.passes import draw_passes, legend_lines

FIELD_FROM = 64
"""From more ranks than these on a field of hosts shows all of them at once."""

_ALARMING = ("own", "cost", "experts", "change")  # metrics in which a rank is to blame for its own values
_DIGITS = 3
_MOST_PARTS = 16
"""Ranks whose step is drawn in parts."""
_TALLEST = 26  # lines of the field of hosts at most


def heat_picture(view: Overview) -> HeatPicture:
    """The heat map of ``view`` with its cursor."""
    heat = view.heat
    title = say("ranks.map.title", metric=say(f"ranks.metric.{heat.metric}"), axis=say(f"ranks.axis.{heat.axis}"))
    if view.scope.ranks is not None:
        title += f"  [{view.scope.name}]"
    rows = tuple(_map_row(view, row) for row in view.rows)
    heads = tuple(say(f"column.{name}") for name in ("own", "last", "waits", "saves") if view.job.has_profiles)
    labels = tuple(column.label if heat.axis != "collective" else f"#{column.label}" for column in heat.columns)
    more = ""
    hidden = sum(len(row.ranks) for row in view.rows)
    if len(view.rows) > 1:
        more = say("ranks.map.more", rows=len(view.rows), ranks=hidden)
    return HeatPicture(title, labels, rows, heads, SHADES, heat.metric in _ALARMING, view.row, view.column, more=more)


def _map_row(view: Overview, row: HeatRow) -> DrawnRow:
    each = 1e3 / _step_count(view)
    if row.kind == "missing":
        label = f"{row.ranks[0]}" if len(row.ranks) == 1 else say("ranks.missing.label", count=len(row.ranks))
        figures = () if np.isnan(row.values).all() else _seen_figures(view, row.ranks[0])
        return DrawnRow(label, say("ranks.missing"), row.values, figures, unknown=not figures)
    if row.kind == "alike" and view.job.has_profiles:
        own = [view.examined.rows[rank] for rank in row.ranks]
        most = max(abs(rank_row.own_excess_us or 0) for rank_row in own) * each
        waits = max(rank_row.job_waits_us or 0 for rank_row in own) * each
        return DrawnRow(
            say("ranks.alike", count=len(row.ranks)), "", row.values, (f"±{_time_text(most)}", "", _time_text(waits))
        )
    rank = row.ranks[0]
    if not view.job.has_profiles:
        return DrawnRow(f"{rank}" if row.kind == "rank" else say("ranks.alike", count=len(row.ranks)), "", row.values)
    own_row = view.examined.rows[rank]
    if not own_row.collectives:
        return DrawnRow(f"{rank}", own_row.host, row.values, marked=rank in view.marked)
    gain = "" if own_row.gain_us is None else _time_text(own_row.gain_us * each)
    figures = (
        signed_text(own_row.own_excess_us * each, _DIGITS) if own_row.own_excess_us else "0",
        f"{own_row.came_last}/{own_row.collectives}",
        _time_text((own_row.job_waits_us or 0) * each),
        gain,
    )
    return DrawnRow(f"{rank}", own_row.host, row.values, figures, marked=rank in view.marked)


def _seen_figures(view: Overview, rank: int) -> tuple[str, ...]:
    """The cells of a rank without files, by what other ranks waited for it."""
    own, steps = next(sums for sums in view.job.sums if sums.rank == rank), _step_count(view)
    gain = "" if own.gain is None else _time_text(own.gain / steps)
    return "", f"{own.came_last}/{own.collectives}", _time_text(own.cost / steps), gain


def _step_count(view: Overview) -> int:
    """How many steps the sums of a rank cover, to divide them into figures per step; 1 without steps."""
    return max(len(view.job.steps), 1)


def _time_text(ns: float) -> str:
    return time_text(ns, _DIGITS)


def arrivals_picture(view: Overview) -> HeatPicture | None:
    """The arrivals at the collectives of the step under the cursor, in the rows of the heat map; None without any."""
    heat = view.arrivals()
    if not heat.columns or view.axis != "step":
        return None
    shares = heat.shares
    place = {rank: number for number, rank in enumerate(heat.ranks)}
    rows = []
    for row in view.rows:
        own = [place[rank] for rank in row.ranks if rank in place]
        values = np.fmax.reduce(shares[own], axis=0) if own else np.full(len(heat.columns), np.nan)
        rows.append(DrawnRow("", "", values, unknown=row.kind == "missing"))
    at = next((k for k, column in enumerate(heat.columns) if view.collective in column.collectives), -1)
    title = say("ranks.arrivals.title", step=printable(view.step) or "–")
    columns = tuple(f"#{column.label}" for column in heat.columns)
    return HeatPicture(title, columns, tuple(rows), (), SHADES, False, view.row, at, named=False)


def field_picture(view: Overview) -> FieldPicture | None:
    """Every rank of a large job as a cell by its host; None for a small one, or where only some ranks are shown."""
    hosts, heat = view.job.hosts, view.heat
    if len(heat.ranks) <= FIELD_FROM or view.scope.ranks is not None:
        return None
    devices = max(len(host.ranks) for host in hosts)
    worst = np.full(len(heat.ranks), np.nan)
    if len(heat.columns):
        worst = np.fmax.reduce(heat.shares, axis=1)
    place = {rank: number for number, rank in enumerate(heat.ranks)}
    shares = np.full((len(hosts), devices), np.nan)
    for number, host in enumerate(hosts):
        shares[number, : len(host.ranks)] = worst[[place[rank] for rank in host.ranks]]
    own = view.job.host_of.get(view.rank)
    cursor = None
    if own is not None:
        cursor = (hosts.index(own), own.ranks.index(view.rank))
    title = say("ranks.field.title", hosts=len(hosts), ranks=len(heat.ranks))
    return FieldPicture(title, shares, tuple(host.id for host in hosts), SHADES, heat.metric in _ALARMING, cursor)


def waterfall_picture(view: Overview, collective: int, lines: int) -> WaterfallPicture | None:
    """``collective``, a number in ``Job.blamed``, in at most so many ``lines`` of bars; None where there is none."""
    if not 0 <= collective < len(view.job.blamed):
        return None
    blamed = view.job.blamed[collective]
    meeting = blamed.meeting
    found = waterfall(blamed, view.job.clocks)
    step = say("ranks.fall.step", step=printable(meeting.step)) if meeting.step else ""
    title = say(
        "ranks.fall.title", type=printable(meeting.type), ordinal=meeting.ordinal,
        group=view.group_name(meeting.group), step=step,
    )  # fmt: skip
    error = max((bar.error for bar in found.bars), default=0)
    asides = tuple(say(f"ranks.fall.aside{form}", spread=blamed.spread, error=error) for form in ("", ".short"))
    bars, more = list(found.bars), ""
    if len(bars) > lines:
        kept = max(lines - 1, 1)
        rest = bars[kept:]
        after = sorted(bar.come for bar in rest)
        first = min(bar.come for bar in bars)
        more = say(
            "ranks.fall.more", count=len(rest), half=after[len(after) // 2] - first,
            most=after[math.ceil(0.99 * len(after)) - 1] - first,
        )  # fmt: skip
        bars = bars[:kept]
    drawn = tuple(_bar(view, bar, blamed.last, blamed.cost) for bar in bars)
    return WaterfallPicture(title, asides, found.length, found.come, drawn, more)


def _bar(view: Overview, bar: Bar, last: int | None, cost: int) -> HeatBar:
    is_last = bar.rank == last
    host = view.job.host_of.get(bar.rank)
    words = "" if last is None or is_last else say("ranks.fall.waits_for", rank=last)
    if bar.at_most:
        note = say("ranks.fall.at_most")
    elif is_last:
        note = say("ranks.fall.last", time=cost)
    elif bar.wait:
        note = say("ranks.fall.waits", time=bar.wait)
    else:
        note = say("ranks.fall.with_last")
    name = f" {printable(host.id)}" if host is not None and host.known and len(view.job.hosts) > 1 else ""
    return HeatBar(
        f"{bar.rank}{name}", bar.begin, bar.come, bar.end, bar.own, bar.error, words, note, is_last, bar.at_most,
        bar.rank == view.rank,
    )  # fmt: skip


def parts_rows(view: Overview) -> tuple[DrawnParts, ...]:
    """What the ranks of the heat map, or of the stages, spend a step on; none where files do not say, or of many."""
    by_rank = view.examined.rows
    shown = [row for row in view.rows if row.kind == "rank" or view.walk is not None]
    rows = [by_rank[rank] for row in shown for rank in row.ranks if rank in by_rank]
    if not 0 < len(rows) <= _MOST_PARTS:
        return ()
    found = []
    for row in rows:
        parts = (row.computing_us, row.communication_not_overlapped_us, row.free_us)
        known = [part * 1e3 for part in parts if part is not None]
        if len(known) == len(parts):
            note = duration_text(sum(known), _DIGITS)
            found.append(DrawnParts(str(row.rank), (known[0], known[1], known[2]), note, row.rank == view.rank))
    return tuple(found)


def beside_picture(view: Overview, width: int) -> HeatPicture | None:
    """The arrivals that stand beside the heat map on a screen of ``width`` columns, None where they do not."""
    return arrivals_picture(view) if width >= _BESIDE_FROM else None


def natural_lines(view: Overview, width: int) -> tuple[int, int, int, int]:
    """Lines of the heat map, the field of hosts, the collective and the parts of a step, if there were room."""
    field, lines = field_picture(view), 0
    if field is not None:
        hosts, devices = field.shares.shape
        places = field_places(hosts, devices, width, _TALLEST)
        lines = 1 + (devices if places.by_device else -(-places.hosts // places.across))
    bars = len(view.examined.source.ranks_of(view.collective)) + 1 if view.collective >= 0 else 0
    if view.axis == "role":
        return 2 + len(view.rows), 0, len(view.whole.report.roles) + 2 if len(view.roles.steps) > 1 else 0, 0
    above = 2
    if view.walk is not None:
        upper = width - (0 if beside_picture(view, width) is None else int(width * _BESIDE))
        above = 1 + legend_lines(view.walk.picture(view.row, view.column, upper), upper)
    return above + len(view.rows), lines, bars, len(parts_rows(view)) + bool(parts_rows(view))


def _other_pictures(view: Overview, top: int, height: int) -> Iterator[WaterfallPicture]:
    """The other collectives that fit whole between line ``top`` and ``height``, from the longest wait on."""
    for other in view.others() if view.axis != "role" and top + _LEAST_FALL <= height else ():
        bars = waterfall_picture(view, other, height)
        if bars is None or top + len(bars.bars) + 1 > height:
            return
        yield bars
        top += len(bars.bars) + 2


def filled_lines(view: Overview, width: int, height: int) -> int:
    """How many of ``height`` lines the pictures fill, with a blank line below all of them."""
    shown = divided(height, *natural_lines(view, width))
    top = sum(lines + 1 for lines in shown if lines)
    return min(top + sum(len(bars.bars) + 2 for bars in _other_pictures(view, top, height)), height)


_BESIDE_FROM = 150  # columns from which the arrivals in a step stand beside the heat map
_BESIDE = 0.36
_LEAST_FALL = 4
"""Lines that a collective is worth showing on, with its title."""
_LEAST_MAP = 5
_WHEEL_ROWS = 3


class JobMap(Drawing):
    """Shows what ``view`` looks at; nothing until there is one."""

    DEFAULT_CSS = "JobMap { height: 1fr; width: 1fr; }"

    def __init__(self, terminal: Terminal, moved: Callable[[], object], chosen: Callable[[], object]) -> None:
        """``moved`` is called when something else is looked at, ``chosen`` when its row was clicked twice."""
        super().__init__(terminal)
        self._moved, self._chosen = moved, chosen
        self._strips: list[Strip] = []
        self.view: Overview | None = None
        self.words = ""
        """What stands there while there is nothing to look at."""
        self._places = HeatPlaces()
        self._beside = HeatPlaces()
        self._beside_left = 0
        self._field: FieldPlaces | None = None
        self._field_top = 0

    def changed(self) -> None:
        """Paint again."""
        self.call_later(self._moved)
        self._strips = []
        self.refresh()

    def forget_shown(self) -> None:
        """Nothing is remembered of what the terminal shows."""

    def on_resize(self) -> None:
        """Paint for another size."""
        self._strips = []

    def render_line(self, y: int) -> Strip:
        """Line ``y`` of the picture."""
        if len(self._strips) != self.size.height:
            self._paint()
        return self._strips[y] if y < len(self._strips) else Strip.blank(self.size.width)

    def _paint(self) -> None:
        width, height = self.size
        grid = Grid.blank(height, width, Ink.TEXT, Ink.LANE)
        if self.view is None:
            grid.write(min(1, height - 1), 1, points(self.words), Ink.DIM)
        elif width and height:
            self._draw(self.view, grid)
        encoder = self._encoder
        grid.mend()
        grid = encoder.prepared(grid)
        self._strips = [
            Strip([Segment(run[0], style_of(*run[1:])) for run in encoder.runs(grid, y)], width) for y in range(height)
        ]

    def _draw(self, view: Overview, grid: Grid) -> None:
        """The heat map on top, the collective below, the field of hosts between them where there is one.

        Where lines are left below, other collectives have them.
        """
        lines, field, fall, parts = divided(grid.height, *natural_lines(view, grid.width))
        beside = beside_picture(view, grid.width)
        right = 0 if beside is None else int(grid.width * _BESIDE)
        upper = grid.part(0, 0, lines, grid.width - right)
        if view.walk is not None:
            self._places = draw_passes(view.walk.picture(view.row, view.column, upper.width), upper)
        else:
            self._places = draw_heat(heat_picture(view), upper)
        self._beside_left = grid.width - right + 2
        if beside is not None:
            self._beside = draw_heat(beside, grid.part(0, self._beside_left, lines, right - 2))
            grid.char[:lines, self._beside_left - 2] = ord("│")
            grid.fg[:lines, self._beside_left - 2] = Ink.RULE
        else:
            self._beside = HeatPlaces()
        self._field = None
        top = lines + 1
        shown = field_picture(view) if field else None
        if shown is not None:
            self._field, self._field_top = draw_field(shown, grid.part(top, 0, field, grid.width)), top + 1
            top += field + 1
        tails = view.roles.tails_picture() if view.axis == "role" else None
        if fall and view.axis == "role":
            if tails is not None:
                draw_heat(tails, grid.part(top, 0, fall, grid.width))
            top += fall + 1
        elif fall:
            bars = waterfall_picture(view, view.collective, fall - 1)
            if bars is not None:
                draw_waterfall(bars, grid.part(top, 0, fall, grid.width))
            top += fall + 1
        if parts:
            draw_parts(say("ranks.shares.title"), parts_rows(view), grid.part(top, 0, parts, grid.width))
            top += parts + 1
        for bars in _other_pictures(view, top, grid.height):
            taken = len(bars.bars) + 1
            draw_waterfall(bars, grid.part(top, 0, taken, grid.width))
            top += taken + 1

    # --- mouse

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Go to the row, column, collective or host under the pointer."""
        self.focus()
        view = self.view
        if view is None:
            return
        row = self._places.row(event.y)
        if row is not None and row < len(view.rows):
            view.row = row
            column = self._places.column(event.x) if event.x < self._beside_left else None
            if column is not None:
                view.show_column(column)
            beside = self._beside.column(event.x - self._beside_left) if self._beside.bins else None
            if beside is not None:
                view.show_collective(view.arrivals().columns[beside].collectives[0])
        elif self._field is not None and (place := self._field.at(event.x, event.y - self._field_top)) is not None:
            host, device = place
            if host < len(view.job.hosts):
                own = view.job.hosts[host]
                if device < 0:
                    view.show_scope(view.scope_of_host(own.id))
                elif device < len(own.ranks):
                    view.go_to_rank(own.ranks[device])
        else:
            return
        self.changed()

    def on_click(self, event: events.Click) -> None:
        """A double click on a row is Enter."""
        if event.chain == 2 and self._places.row(event.y) is not None:
            self.call_later(self._chosen)

    def turn_wheel(self, event: events.MouseScrollUp | events.MouseScrollDown, direction: int) -> None:
        """Scroll the rows."""
        if self.view is not None:
            self.view.move(_WHEEL_ROWS * direction)
            self.changed()


def divided(height: int, rows: int, field: int, fall: int, parts: int) -> tuple[int, int, int, int]:
    """Lines out of ``height`` for the heat map, the field of hosts, the collective and the parts of a step.

    A blank line stands between them. What has no room for its least is left out, the field last; the parts are shown
    only if everything else has all it needs.
    """
    left = height
    field_lines = 0
    if field:
        field_lines = min(field, max(left // 3, 4))
        left -= field_lines + 1
    fall_lines = 0
    if fall and left >= min(rows, _LEAST_MAP) + min(fall, _LEAST_FALL) + 1:
        fall_lines = min(fall, max(left - rows - 1, left * 2 // 5, _LEAST_FALL))
        left -= fall_lines + 1
    map_lines = min(rows, left)
    whole = (map_lines, field_lines, fall_lines) == (rows, field, fall)
    return map_lines, field_lines, fall_lines, parts if parts and whole and left - rows > parts else 0
