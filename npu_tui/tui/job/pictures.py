"""The overview as pictures to draw: the heat map, the field of hosts, the arrivals in a step, one collective."""

from __future__ import annotations

import math

import numpy as np

from npu_tui.jobs.heat import SHADES, HeatRow
from npu_tui.jobs.timelines import Bar, waterfall
from npu_tui.strings import say
from npu_tui.trace.text import duration_text, printable
from npu_tui.tui.job.overview import Overview
from npu_tui.view.heat import DrawnBar, DrawnParts, DrawnRow, FieldPicture, HeatPicture, WaterfallPicture, field_places

FIELD_FROM = 64
"""From more ranks than these on a field of hosts shows all of them at once."""

_ALARMING = ("own", "cost")
"""Metrics of which a rank is to blame for its own values."""
_DIGITS = 3
_MOST_PARTS = 16
"""Ranks whose step is drawn in parts."""
_TALLEST = 26
"""Lines of the field of hosts at most."""


def heat_picture(view: Overview) -> HeatPicture:
    """The heat map of ``view`` with its cursor."""
    heat = view.heat
    title = say("ranks.map.title", metric=say(f"ranks.metric.{heat.metric}"), axis=say(f"ranks.axis.{heat.axis}"))
    if view.scope.ranks is not None:
        title += f"  [{view.scope.name}]"
    rows = tuple(_row(view, row) for row in view.rows)
    heads = tuple(say(f"column.{name}") for name in ("own", "last", "waits", "saves"))
    labels = tuple(column.label if heat.axis != "collective" else f"#{column.label}" for column in heat.columns)
    more = ""
    hidden = sum(len(row.ranks) for row in view.rows)
    if len(view.rows) > 1:
        more = say("ranks.map.more", rows=len(view.rows), ranks=hidden)
    return HeatPicture(title, labels, rows, heads, SHADES, heat.metric in _ALARMING, view.row, view.column, more=more)


def _row(view: Overview, row: HeatRow) -> DrawnRow:
    if row.kind == "missing":
        label = f"{row.ranks[0]}" if len(row.ranks) == 1 else say("ranks.missing.label", count=len(row.ranks))
        figures = () if np.isnan(row.values).all() else _seen_figures(view, row.ranks[0])
        return DrawnRow(label, say("ranks.missing"), row.values, figures, unknown=not figures)
    if row.kind == "alike":
        own = [view.examined.rows[rank] for rank in row.ranks]
        most = max(abs(each.own_excess_us) for each in own) * 1e3
        waits = max(each.job_waits_us for each in own) * 1e3
        return DrawnRow(say("ranks.alike", count=len(row.ranks)), "", row.values, (f"±{_time(most)}", "", _time(waits)))
    rank = row.ranks[0]
    own_row = view.examined.rows[rank]
    gain = "" if own_row.gain_us is None else _time(own_row.gain_us * 1e3)
    figures = (
        _signed(own_row.own_excess_us * 1e3),
        f"{own_row.came_last}/{own_row.collectives}",
        _time(own_row.job_waits_us * 1e3),
        gain,
    )
    return DrawnRow(f"{rank}", own_row.host, row.values, figures, marked=rank in view.marked)


def _seen_figures(view: Overview, rank: int) -> tuple[str, ...]:
    """What the others tell of a rank without files."""
    own = next(each for each in view.job.sums if each.rank == rank)
    return "", f"{own.came_last}/{own.collectives}", _time(own.cost), "" if own.gain is None else _time(own.gain)


def _time(ns: float) -> str:
    return duration_text(ns, _DIGITS) if ns else "0"


def _signed(ns: float) -> str:
    return ("+" if ns > 0 else "") + _time(ns)


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


def waterfall_picture(view: Overview, lines: int) -> WaterfallPicture | None:
    """The collective that is looked at in at most so many ``lines`` of bars; None without collectives."""
    if not 0 <= view.collective < len(view.job.blamed):
        return None
    blamed = view.job.blamed[view.collective]
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


def _bar(view: Overview, bar: Bar, last: int | None, cost: int) -> DrawnBar:
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
    label = f"{bar.rank}" if host is None or len(view.job.hosts) < 2 else f"{bar.rank} {printable(host.id)}"
    return DrawnBar(
        label, bar.begin, bar.come, bar.end, bar.own, bar.error, words, note, is_last, bar.at_most,
        bar.rank == view.rank,
    )  # fmt: skip


def parts_rows(view: Overview) -> tuple[DrawnParts, ...]:
    """What the ranks of the heat map spend a step on; none where files do not tell, or where the ranks are many."""
    rows = [view.examined.rows[row.ranks[0]] for row in view.rows if row.kind == "rank"]
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


def natural_lines(view: Overview, width: int) -> tuple[int, int, int, int]:
    """Lines of the heat map, the field of hosts, the collective and the parts of a step, if there were room."""
    field, lines = field_picture(view), 0
    if field is not None:
        hosts, devices = field.shares.shape
        places = field_places(hosts, devices, width, _TALLEST)
        lines = 1 + (devices if places.by_device else -(-places.hosts // places.across))
    bars = len(view.examined.source.ranks_of(view.collective)) + 1 if view.collective >= 0 else 0
    return 2 + len(view.rows), lines, bars, len(parts_rows(view)) + bool(parts_rows(view))
