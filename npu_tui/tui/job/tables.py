"""The tabs of the overview: ranks, collectives, links, hosts, groups, clocks and findings as tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rich.text import Text

from npu_tui.output.job_document import exposed_waits, greatest_bend
from npu_tui.report.job.schema import ClockRow, RankRow
from npu_tui.strings import say
from npu_tui.trace.text import duration_text, printable, size_text
from npu_tui.tui.job.overview import Overview, Scope
from npu_tui.tui.keys.commands import JOB_TABS
from npu_tui.tui.tabs.table.tab import GAP, Row, Table, known_columns
from npu_tui.tui.terminal.theme import ALERT

_MOST = 300
"""Rows of a table at most: what comes after the first ones by their cost is reached by name."""

_SEVERE = {"high": f"bold {ALERT}", "medium": "bold", "low": "", "info": "dim"}


class JobRow(Row, frozen=True):
    """A row that leads to a rank, a collective or a scope; ``finding`` is the number of the finding that it is."""

    rank: int | None = None
    collective: int | None = None
    scope: Scope | None = None
    finding: int | None = None


def job_table(view: Overview, tab: str) -> Table:
    """The contents of ``tab``, one of ``JOB_TABS``."""
    return _TABLES[tab](view)


def counts(view: Overview) -> dict[str, int]:
    """What stands after the name of every tab."""
    report = view.report
    known = {
        "job_ranks": len(report.rank_table),
        "job_collectives": len(report.collectives),
        "job_links": sum(link.verdict != "as_others" for link in report.links),
        "job_hosts": len(report.hosts),
        "job_groups": len(report.groups),
        "job_findings": len(report.findings),
    }
    return {tab: known.get(tab, 0) for tab, _ in JOB_TABS}


def _headings(*names: str) -> tuple[str, ...]:
    return tuple(say(f"ranks.head.{name}") for name in names)


def _us(us: float | None) -> str:
    return say("report.unknown") if us is None else duration_text(us * 1e3) if us else "0"


def _cut(rows: list[JobRow], note: str = "") -> tuple[list[JobRow], str]:
    if len(rows) <= _MOST:
        return rows, note
    return rows[:_MOST], say("ranks.table.more", shown=_MOST, count=len(rows))


def _in_scope(view: Overview, rank: int) -> bool:
    return view.scope.ranks is None or rank in view.scope.ranks


def _ranks(view: Overview) -> Table:
    rows = [row for row in view.report.rank_table if _in_scope(view, row.rank)]
    rows.sort(key=lambda row: (-(row.gain_us or 0), -row.own_excess_us, row.rank))
    found = [_rank(view, row) for row in rows[: _MOST + 1]]
    found += [_absent(view, rank) for rank in view.missing[:_MOST] if _in_scope(view, rank)]
    kept, note = _cut(found)
    if note:
        note = say("ranks.table.more", shown=_MOST, count=len(rows))
    heads = _headings(
        "rank", "host", "step", "computing", "exposed", "free", "own", "last", "waits", "waits_exposed", "gain", "why"
    )
    return known_columns(Table(heads, list(kept), note))


def _rank(view: Overview, row: RankRow) -> JobRow:
    tells = any(own.exposed is not None for own in view.job.sums)
    exposed = exposed_waits(row) if tells else None
    why = say("list.comma").join(row.why)
    if view.examined.clocks[row.rank].offset_us is None:
        why = say("ranks.apart")
    cells = (
        ("• " if row.rank in view.marked else "") + str(row.rank),
        row.host,
        *map(_us, (row.step_us, row.computing_us, row.communication_not_overlapped_us, row.free_us)),
        ("+" if row.own_excess_us > 0 else "") + _us(row.own_excess_us),
        f"{row.came_last}/{row.collectives}",
        _us(row.job_waits_us),
        _us(exposed) if tells else "",
        _us(row.gain_us),
        why,
    )
    values = (
        row.rank, row.host, row.step_us, row.computing_us, row.communication_not_overlapped_us, row.free_us,
        row.own_excess_us, row.came_last / max(row.collectives, 1), row.job_waits_us, exposed, row.gain_us, why,
    )  # fmt: skip
    return JobRow(cells, values=values, rank=row.rank)


def _absent(view: Overview, rank: int) -> JobRow:
    """A rank without files: what the others tell of it."""
    own = next((each for each in view.job.sums if each.rank == rank), None)
    told = say("ranks.absent.silent")
    cells = [str(rank), say("ranks.missing"), *[""] * 9]
    values: list[float | str | None] = [rank, "", *[None] * 9]
    if own is not None and own.collectives:
        told = say("ranks.absent.seen", count=own.collectives)
        cells[7], cells[8] = f"{own.came_last}/{own.collectives}", _us(own.cost / 1e3)
        if own.exposed is not None:
            cells[9], values[9] = _us(own.exposed / 1e3), own.exposed / 1e3
        values[7], values[8] = own.came_last / own.collectives, own.cost / 1e3
    return JobRow((*cells, told), values=(*values, told), rank=rank, minor=True)


def _collectives(view: Overview) -> Table:
    rows = [
        (number, each)
        for number, each in enumerate(view.report.collectives)
        if view.scope.group in (None, view.examined.source.group_of(number))
    ]
    rows.sort(key=lambda row: -row[1].second_us)
    found = []
    for number, each in rows[: _MOST + 1]:
        last = say("job.nobody") if each.last_rank is None else str(each.last_rank)
        cells = (
            printable(each.type), printable(each.step), str(each.ordinal), view.group_name(each.group), last,
            _us(each.second_us), _us(each.transfer_us), _us(each.end_spread_us), str(len(each.arrivals)),
        )  # fmt: skip
        values = (
            each.type, each.step, each.ordinal, each.group, each.last_rank, each.second_us, each.transfer_us,
            each.end_spread_us, len(each.arrivals),
        )  # fmt: skip
        found.append(JobRow(cells, values=values, collective=number))
    kept, note = _cut(found)
    heads = _headings("type", "in_step", "ordinal", "group", "last_rank", "waits", "transfer", "ends", "count")
    at = next((k for k, row in enumerate(kept) if row.collective == view.collective), None)
    return Table(heads, list(kept), note, at)


def _links(view: Overview) -> Table:
    rows = sorted(view.report.links, key=lambda link: (link.verdict == "as_others", link.z))
    found = []
    for link in rows[: _MOST + 1]:
        verdict = say(f"ranks.link.{link.verdict}")
        speeds = say("ranks.speed", speed=link.gb_s), say("ranks.speed", speed=link.expected_gb_s)
        cells: tuple[Text | str, ...] = (
            str(link.src), str(link.dst), printable(link.transport), printable(link.type), size_text(link.size_bytes),
            *speeds, f"{link.z:+.1f}", Text(verdict, "" if link.verdict == "as_others" else f"bold {ALERT}"),
        )  # fmt: skip
        values = (
            link.src, link.dst, link.transport, link.type, link.size_bytes, link.gb_s, link.expected_gb_s, link.z,
            verdict,
        )  # fmt: skip
        found.append(JobRow(cells, values=values, rank=link.src))
    kept, note = _cut(found)
    heads = _headings("from", "to", "transport", "type", "size", "speed", "usual", "score", "verdict")
    return Table(heads, list(kept), note or ("" if rows else say("job.no_links")))


def _hosts(view: Overview) -> Table:
    found = []
    for host in view.report.hosts:
        own = [view.examined.rows[rank] for rank in host.ranks]
        worst = max(own, key=lambda row: row.own_excess_us)
        waits = sum(row.job_waits_us for row in own)
        error = max((view.examined.clocks[rank].error_us or 0.0 for rank in host.ranks), default=0.0)
        cells = (
            printable(host.id), _few(host.ranks), str(worst.rank), _us(worst.own_excess_us), _us(waits), _us(error),
        )  # fmt: skip
        values = (host.id, len(host.ranks), worst.rank, worst.own_excess_us, waits, error)
        found.append(
            JobRow(cells, values=values, scope=view.scope_of_host(host.id) if len(view.job.hosts) > 1 else None)
        )
    found.sort(key=lambda row: -float(row.values[3] or 0))
    kept, note = _cut(found)
    return Table(_headings("host", "ranks", "slowest", "own", "waits", "error"), list(kept), note)


def _few(ranks: list[int]) -> str:
    """Ranks as people write them: ranges where they follow each other."""
    parts: list[list[int]] = []
    for rank in sorted(ranks):
        if parts and rank == parts[-1][1] + 1:
            parts[-1][1] = rank
        else:
            parts.append([rank, rank])
    words = [f"{low}" if low == high else f"{low}–{high}" for low, high in parts[:6]]
    return " ".join(words) + (" …" if len(parts) > 6 else "")


def _groups(view: Overview) -> Table:
    waits: dict[str, float] = {}
    counted: dict[str, int] = {}
    for each in view.report.collectives:
        waits[each.group] = waits.get(each.group, 0.0) + each.second_us
        counted[each.group] = counted.get(each.group, 0) + 1
    found = []
    for group in view.report.groups:
        kind = group.kind or say("report.unknown")
        own = (counted.get(group.name, 0), waits.get(group.name, 0.0))
        cells = (kind, printable(group.name), _few(group.ranks), str(own[0]), _us(own[1]))
        values = (kind, group.name, len(group.ranks), *own)
        scope = Scope(say("ranks.scope.group", group=view.group_name(group.name)), frozenset(group.ranks), group.name)
        found.append(JobRow(cells, values=values, scope=scope))
    found.sort(key=lambda row: -float(row.values[4] or 0))
    kept, note = _cut(found)
    return Table(_headings("kind", "group", "ranks", "collectives", "waits"), list(kept), note)


def _clock(view: Overview) -> Table:
    found = []
    rows = [row for row in view.report.clock if _in_scope(view, row.rank)]
    rows.sort(key=lambda row: (row.offset_us is not None, -(row.error_us or 0), row.rank))
    for row in rows[: _MOST + 1]:
        tied = row.offset_us is not None
        low, high = (say("report.unknown") if each is None else f"{each:+.2f}" for each in (row.low_us, row.high_us))
        reference, bend = row.method == "reference", greatest_bend(row)
        cells = (
            str(row.rank),
            view.job.host_of[row.rank].id,
            f"{row.offset_us:+.2f}" if row.offset_us is not None else say("ranks.apart.short"),
            f"±{row.error_us:.2f}" if row.error_us is not None and not reference else "",
            "" if reference or not tied else low,
            "" if reference or not tied else high,
            f"{row.drift_us_per_s:+.2f}" if row.drift_us_per_s else "",
            "" if bend is None else say("ranks.bend", gained=bend.gained_us, after=bend.after_us * 1e3),
            say(f"job.method.{row.method}"),
        )
        values = (
            row.rank, cells[1], row.offset_us, row.error_us, row.low_us, row.high_us, row.drift_us_per_s,
            0.0 if bend is None else abs(bend.gained_us), row.method,
        )  # fmt: skip
        found.append(JobRow(cells, values=values, told=partial(_course, row) if row.bends else None, rank=row.rank))
    note = say("ranks.clock.note")
    if view.has_traces and view.job.devices_apart:
        note += GAP + say("ranks.clock.lanes", apart=view.job.devices_apart)
    kept, note = _cut(found, note)
    heads = _headings("rank", "host", "offset", "error", "low", "high", "drift", "bends", "method")
    return known_columns(Table(heads, list(kept), note))


def _course(row: ClockRow) -> str:
    """How a clock that does not drift evenly runs, one line a window."""
    lines = [say("ranks.bend.at", after=bend.after_us * 1e3, gained=bend.gained_us) for bend in row.bends]
    return "\n".join([say("ranks.bend.told", rank=row.rank, drift=row.drift_us_per_s), "", *lines])


def _findings(view: Overview) -> Table:
    found = []
    for number, each in enumerate(view.report.findings):
        words = Text(each.title, _SEVERE.get(each.severity, ""))
        detail = f"{each.id}  {each.title}\n\n{each.detail}"
        cells: tuple[Text | str, ...] = (
            each.id,
            say(f"severity.{each.severity}"),
            _us(each.gain_us),
            words,
            each.detail,
        )
        values = (each.id, each.severity, each.gain_us, each.title, each.detail)
        rank = each.ranks[0] if each.ranks else None
        found.append(JobRow(cells, values=values, told=partial(str, detail), rank=rank, finding=number))
    for reason in view.report.not_checked:
        unchecked = ("", say("job.not_checked"), "", reason, "")
        found.append(JobRow(unchecked, values=("", "", None, reason, ""), told=partial(str, reason), minor=True))
    return Table(_headings("id", "severity", "gain", "what", "detail"), list(found))


_TABLES: dict[str, Callable[[Overview], Table]] = {
    "job_ranks": _ranks,
    "job_collectives": _collectives,
    "job_links": _links,
    "job_hosts": _hosts,
    "job_groups": _groups,
    "job_clock": _clock,
    "job_findings": _findings,
}
