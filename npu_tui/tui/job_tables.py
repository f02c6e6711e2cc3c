"""The tabs of the overview: ranks, collectives, links, hosts, groups, clocks and findings as tables."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from msgspec.structs import asdict, replace
from rich.text import Text

from npu_tui.jobs.change_tables import RANKS as CHANGED_RANKS
from npu_tui.jobs.change_tables import place_of
from npu_tui.jobs.finding import advised
from npu_tui.jobs.part_tables import EXPERT_LAYERS, ROLES
from npu_tui.jobs.tables import CLOCKS, COLLECTIVES, FINDINGS, GROUPS, HOSTS, LINKS, RANKS
from npu_tui.output.job_document import job_finding
from npu_tui.output.job_report import JobReport
from npu_tui.output.text import finding_lines
from npu_tui.profile.expert_tables import LOAD_LAYERS, PLACEMENTS
from npu_tui.profile.table import Table as DataTable
from npu_tui.profile.table import TableSheet, Value
from npu_tui.strings import say, words
from npu_tui.trace.text import change_text, printable, runs, time_text
from npu_tui.tui.commands import JOB_KEYS
from npu_tui.tui.job_overview import Overview, Scope
from npu_tui.tui.panel import Panel
from npu_tui.tui.tabs.declared import Cell, shown
from npu_tui.tui.tabs.table import GAP, Content, TabRow, TabTable
from npu_tui.tui.terminal.frames import ALERT

_MOST = 300  # rows of a table at most: what comes after the first ones by their cost is reached by name

RARE_TABS = ("job_changes", "job_roles", "job_experts")
"""Tabs that are there only where they have rows."""

_MOST_TOLD = 4  # changes that are shown above the ranks

_SEVERE = {"high": f"bold {ALERT}", "medium": "bold", "low": "", "info": "dim"}


_LEAST = 6
_USUAL = ((45, 13), (36, 11), (30, 9))


class JobPanel(Panel):
    """A panel with as much height as is left over."""

    FIRST = "job_findings"
    SHOWN_FROM = 20

    def __init__(self, filled: Callable[[int], int]) -> None:
        """``filled`` says how many of so many rows the head and the pictures above it fill."""
        super().__init__()
        self.add_class("-hidden")
        self._counts = {tab: 0 for tab in JOB_KEYS if tab not in RARE_TABS}  # until the job is read
        self._filled = filled
        self._height = self._most = 0

    def share(self, height: int, above: int, more: int = 0) -> None:
        """Take what a terminal of ``height`` rows has left below a head and pictures of ``above`` rows.

        A picture of ``more`` rows is shown as well if that leaves enough.
        """
        least = next((rows for from_, rows in _USUAL if height >= from_), _LEAST)
        left = height - above - 1
        self._height, self._most = height, max(least, left - more if left - more >= least else left)
        self._settle()

    def _settle(self) -> None:
        """Leave the rows that a table does not need to the pictures, as far as they fill them."""
        usual = self._most
        if isinstance(self.content, TabTable) and self.table.size.width:
            # The line of tabs and a blank row: a text has all the rows of its table but one.
            needed = 2 + self._lines + self.table.rows_wanted(usual)
            above = self._height - 1
            usual = min(usual, above - self._filled(above - needed)) if needed < usual else usual
        self.fit(self._height, usual)

    def _show_note(self) -> None:
        super()._show_note()
        if self._height:
            self._settle()


class JobRow(TabRow, frozen=True):
    """A row that leads to a rank, a collective, a scope or a role; ``finding`` is the number of the finding it is.

    ``base`` is the rank of another job that ``rank`` is compared with.
    """

    rank: int | None = None
    collective: int | None = None
    scope: Scope | None = None
    finding: int | None = None
    role: str | None = None
    base: int | None = None


def job_table(view: Overview, tab: str) -> Content:
    """The contents of ``tab``, one of ``JOB_KEYS``; without rows why there are none."""
    table = _changes(view) if tab == "job_changes" else _TABS[tab][0](view)
    if table.rows:
        return table
    if not view.is_whole:
        return say("job.verdict.reading")
    return say(view.job.no_links if tab == "job_links" else f"job.none.{tab}")


def counts(view: Overview) -> dict[str, int]:
    """What stands after the name of every tab."""
    counting = ((tab, _TABS[tab][1]) for tab in JOB_KEYS if tab in _TABS)
    found = {tab: count(view.report if tab in _OF_WHOLE else view.examined.report) for tab, count in counting}
    found = {tab: count for tab, count in found.items() if count or tab not in RARE_TABS}
    changes = view.whole.changes
    if changes is None:
        return found
    return {"job_changes": sum(row.verdict in ("slower", "faster") for row in changes.ranks), **found}


def _table(
    table: DataTable,
    sheet: TableSheet,
    order: Sequence[int],
    leads: Callable[[int], dict[str, Any]],
    cells: Mapping[str, Cell],
    note: str = "",
    every: bool = False,
    spare: Collection[str] = (),
) -> TabTable:
    """The first of the rows ``order`` of ``sheet``; ``leads`` says where one of them leads, or how it is shown.

    With ``every`` an empty column stays. A narrow terminal leaves out the columns ``spare``.
    """
    rows = list(order[:_MOST])
    if len(order) > len(rows):
        note = say("ranks.table.more", shown=len(rows), count=len(order))
    own = {name: _moved_cell(cell, rows) for name, cell in cells.items()}
    found = shown(0, table, sheet.taken(np.array(rows, np.int64)), note, cells=own, every=every, spare=spare)
    return replace(found, rows=[JobRow(**asdict(row) | leads(at)) for at, row in zip(rows, found.rows, strict=True)])


def _moved_cell(cell: Cell, rows: Sequence[int]) -> Cell:
    return lambda row, value: cell(rows[row], value)


def _rows_in_scope(view: Overview, ranks: Sequence[Any]) -> list[int]:
    """The rows of the ranks that are looked at."""
    return [row for row, rank in enumerate(ranks) if view.scope.ranks is None or rank in view.scope.ranks]


def _ranks(view: Overview) -> TabTable:
    missing = view.job.missing[:_MOST]
    sheet = RANKS.make(view.job, absent=missing)
    rank, gain, own = (sheet.values(name) for name in ("rank", "gain", "own_excess"))
    last, count, waits, time = (sheet.values(name) for name in ("came_last", "collectives", "job_waits", "step"))
    there = sheet.rows - len(missing)
    order = _rows_in_scope(view, rank)
    # A rank without files has no gain of its own: what the job waits for it stands in its place.
    dear = [(waits[row] if row >= there else gain[row]) or 0 for row in range(sheet.rows)]
    order.sort(
        key=lambda row: (-dear[row], row >= there, -(waits[row] or 0), -(own[row] or 0), -(time[row] or 0), rank[row])
    )
    rows = [row for row in order if row < there][:_MOST] + [row for row in order if row >= there]
    rows.sort(key=order.index)
    note = say("ranks.table.more", shown=_MOST, count=there) if there > _MOST else ""
    cells: dict[str, Cell] = {
        "rank": lambda row, value: f"{'• ' if value in view.marked else ''}{value}",
        "own_each": lambda row, value: "" if value is None else "+" * (float(value) > 0) + _time_cell(value),
        "last_share": lambda row, value: "" if value is None else f"{last[row]}/{count[row]}",
    }
    if not view.is_whole:  # what ties the clocks is still to be read
        cells["reasons"] = lambda row, value: ""
    for name in ("waits_each", "exposed_each", "gain_each"):
        cells[name] = lambda row, value: "" if value is None else _time_cell(value)

    def leads(row: int) -> dict[str, Any]:
        return {"rank": rank[row], "minor": row >= there}

    return _table(RANKS, sheet, rows, leads, cells, note, spare=("step", "computing", "free"))


def _changes(view: Overview) -> TabTable:
    """The ranks against those of the other job with the same work, the most changed first."""
    compared, changes = view.whole.compared, view.whole.changes
    if compared is None or changes is None:
        return TabTable((), [])
    sheet = CHANGED_RANKS.make(compared)
    names = ("rank", "base_rank", "role", "work_delta", "verdict")
    rank, base, role, delta, verdict = (sheet.values(name) for name in names)
    order = _rows_in_scope(view, rank)
    order.sort(key=lambda row: (verdict[row] not in ("slower", "faster"), -abs(delta[row]), rank[row]))
    style = {"slower": f"bold {ALERT}", "faster": "bold"}
    cells: dict[str, Cell] = {
        "base_rank": lambda row, value: "" if value == rank[row] else str(value),
        "verdict": lambda row, value: Text(say(f"compare.computing.{value}"), style.get(str(value), "")),
    }
    stages = [
        f"{words(place_of(row.role, row.stage))} {change_text(row.delta('work'))}"
        for row in compared.stages
        if compared.stages[1:]
    ]
    note = GAP.join([*(row.title for row in changes.findings[1:_MOST_TOLD]), *stages, say("against.work")])
    return _table(
        CHANGED_RANKS, sheet, order, lambda row: {"rank": rank[row], "base": base[row], "role": role[row]}, cells, note
    )


def _time_cell(us: Value) -> str:
    return time_text(float(us or 0) * 1e3)


def _collectives(view: Overview) -> TabTable:
    sheet, source = COLLECTIVES.make(view.job), view.examined.source
    group, second = sheet.values("group_name"), sheet.values("second")
    order = [row for row in range(sheet.rows) if view.scope.group in (None, source.group_of(row))]
    order.sort(key=lambda row: -second[row])
    cells: dict[str, Cell] = {
        "group_name": lambda row, value: view.group_name(group[row]),
        "last_rank": lambda row, value: say("job.nobody") if value is None else str(value),
    }
    found = _table(COLLECTIVES, sheet, order, lambda row: {"collective": row}, cells)
    at = next((k for k, row in enumerate(order[:_MOST]) if row == view.collective), None)
    return replace(found, at=at)


def _links_table(view: Overview) -> TabTable:
    sheet = LINKS.make(view.job)
    verdict, score, source = (sheet.values(name) for name in ("verdict", "z", "src"))
    order = sorted(range(sheet.rows), key=lambda row: (verdict[row] == "as_others", score[row]))
    cells: dict[str, Cell] = {
        "z": lambda row, value: f"{value:+.1f}",
        "verdict": lambda row, value: Text(say(f"ranks.link.{value}"), "" if value == "as_others" else f"bold {ALERT}"),
    }
    return _table(LINKS, sheet, order, lambda row: {"rank": source[row]}, cells, spare=("size_bytes",))


def _experts(view: Overview) -> TabTable:
    """The MoE layers by what their slowest rank costs; Enter opens that rank at the exchange it is waited for in."""
    sheet, balance = EXPERT_LAYERS.make(view.job), view.job.experts
    layer, waits, slowest = (sheet.values(name) for name in ("layer", "job_waits", "slowest"))
    order = sorted(range(sheet.rows), key=lambda row: -waits[row])

    def leads(row: int) -> dict[str, Any]:
        if balance is None:
            return {}
        rows = np.unique(balance.row[balance.layer == layer[row]])
        return {"rank": slowest[row], "collective": int(rows[np.argmax(balance.cost[rows])])}

    if not sheet.rows and (view.whole.job.loads or view.whole.job.expert_files.placements):
        return _loads(view)
    return _table(EXPERT_LAYERS, sheet, order, leads, {})


def _loads(view: Overview) -> TabTable:
    """The layers of dumps of expert loads, those first in which a swap gains most, then those with the hottest expert.

    Enter goes to their busiest rank. Without dumps the placements.
    """
    if not view.whole.job.loads:
        placed = PLACEMENTS.make(view.whole.job.expert_files.placements)
        return _table(PLACEMENTS, placed, range(placed.rows), lambda row: {}, {})
    sheet, placements = LOAD_LAYERS.make(view.whole.job.loads), view.whole.job.expert_files.placements
    beside = GAP.join(say("ranks.loads.placed", file=printable(one.path.name)) for one in placements)
    uneven, swapped, slowest, hot = (sheet.values(name) for name in ("uneven", "swapped", "slowest", "expert_uneven"))
    order = sorted(
        range(sheet.rows), key=lambda row: ((swapped[row] or uneven[row] or 0) - (uneven[row] or 0), -(hot[row] or 0))
    )
    leads = [{} if rank is None else {"rank": rank} for rank in slowest]
    return _table(LOAD_LAYERS, sheet, order, leads.__getitem__, {}, beside)


def _roles(view: Overview) -> TabTable:
    """The roles in the order in which they begin; Enter shows the lanes of one."""
    sheet = ROLES.make(view.whole.job)
    role = sheet.values("role")
    cells: dict[str, Cell] = {"waits": lambda row, value: say("report.unknown") if value is None else _time_cell(value)}
    return _table(ROLES, sheet, range(sheet.rows), lambda row: {"role": role[row]}, cells)


def _hosts(view: Overview) -> TabTable:
    sheet = HOSTS.make(view.job)
    own, ranks, hosts = (sheet.values(name) for name in ("own_excess", "ranks", "id"))
    order = sorted(range(sheet.rows), key=lambda row: -own[row])
    several = len(view.job.hosts) > 1

    def leads(row: int) -> dict[str, Any]:
        return {"scope": view.scope_of_host(hosts[row]) if several else None}

    return _table(HOSTS, sheet, order, leads, {"rank_count": lambda row, value: _rank_ranges(ranks[row])})


def _rank_ranges(ranks: Sequence[int]) -> str:
    """Ranks as people write them: ranges where they follow each other."""
    parts = runs(ranks)
    words = [f"{low}" if low == high else f"{low}–{high}" for low, high in parts[:6]]
    return " ".join(words) + (" …" if len(parts) > 6 else "")


def _groups_table(view: Overview) -> TabTable:
    sheet = GROUPS.make(view.job)
    waits, ranks, names = (sheet.values(name) for name in ("job_waits", "ranks", "name"))
    order = sorted(range(sheet.rows), key=lambda row: -waits[row])

    def leads(row: int) -> dict[str, Any]:
        name = names[row]
        words = say("ranks.scope.group", group=view.group_name(name))
        return {"scope": Scope(words, frozenset(ranks[row]), name)}

    cells: dict[str, Cell] = {
        "kind": lambda row, value: str(value or say("report.unknown")),
        "rank_count": lambda row, value: _rank_ranges(ranks[row]),
    }
    return _table(GROUPS, sheet, order, leads, cells)


def _clock(view: Overview) -> TabTable:
    sheet, rows = CLOCKS.make(view.job), view.examined.report.clock
    rank, offset, error = (sheet.values(name) for name in ("rank", "offset", "error"))
    order = _rows_in_scope(view, rank)
    order.sort(key=lambda row: (offset[row] is not None, -(error[row] or 0), rank[row]))

    def bound(row: int, value: Value) -> str:
        if rows[row].method == "reference" or offset[row] is None:
            return ""
        return say("report.unknown") if value is None else f"{value:+.2f}"

    cells: dict[str, Cell] = {
        "offset": lambda row, value: say("ranks.apart.short") if value is None else f"{value:+.2f}",
        "error": lambda row, value: "" if value is None or rows[row].method == "reference" else f"±{value:.2f}",
        "low": bound,
        "high": bound,
        "drift_us_per_s": lambda row, value: f"{value:+.2f}" if value else "",
    }
    note = say("ranks.clock.note")
    if view.has_traces and view.job.devices_apart:
        note += GAP + say("ranks.clock.lanes", apart=view.job.devices_apart)

    return _table(CLOCKS, sheet, order, lambda row: {"rank": rank[row]}, cells, note)


def _finding_text(report: JobReport, row: int) -> str:
    """All about a finding, each sentence on one line."""
    block = job_finding(report, row + 1, report.findings[row])
    return "\n".join(map(printable, finding_lines(block, width=sys.maxsize)))


def _findings(view: Overview) -> TabTable:
    """The findings by what they cost, then what could not be checked."""
    findings, steps = view.report.findings, max(len(view.job.steps), 1)

    def sentences(row: int, value: Value) -> Text:
        found = findings[row]
        text = Text(say("job.finding.told", title=str(value), detail=found.detail))
        text.stylize(_SEVERE.get(found.severity, ""), 0, len(str(value)))
        return text.append(" ").append(advised(found.id), "bold")

    cells: dict[str, Cell] = {
        "gain": lambda row, value: say("report.unknown") if value is None else _time_cell(float(value) / steps),
        "title": sentences,
    }

    def leads(row: int) -> dict[str, Any]:
        finding = findings[row]
        told = partial(_finding_text, view.report, row)
        return {"rank": next(iter(finding.ranks), None), "told": told, "finding": row}

    sheet = FINDINGS.make(view.job, view.whole.findings)
    table = _table(FINDINGS, sheet, range(sheet.rows), leads, cells, every=True, spare=("severity",))
    unchecked = [
        JobRow(
            (say("job.not_checked"), "", "", row.reason),
            values=("", "", None, row.reason),
            told=partial(str, row.reason),
            minor=True,
        )
        for row in view.report.not_checked
    ]
    return replace(table, rows=[*table.rows, *unchecked])


def _dumped(report: JobReport) -> int:
    files = report.expert_files
    return 0 if files is None else len(files.layers) or len(files.placements)


_OF_WHOLE = ("job_findings", "job_roles")  # tabs that are about all roles; the others are about that under the cursor

# What each of ``JOB_KEYS`` shows, and the number after its name (0: none).
_TABS: dict[str, tuple[Callable[[Overview], TabTable], Callable[[JobReport], int]]] = {
    "job_findings": (_findings, lambda report: len(report.findings)),
    "job_collectives": (_collectives, lambda report: len(report.collectives)),
    "job_links": (_links_table, lambda report: sum(link.verdict != "as_others" for link in report.links)),
    "job_hosts": (_hosts, lambda report: len(report.hosts)),
    "job_groups": (_groups_table, lambda report: len(report.groups)),
    "job_clock": (_clock, lambda report: 0),
    "job_ranks": (_ranks, lambda report: len(report.rank_table)),
    "job_roles": (_roles, lambda report: len(report.roles)),
    "job_experts": (_experts, lambda report: len(report.expert_layers) or _dumped(report)),
}
