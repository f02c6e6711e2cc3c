"""The Code lines tab: which lines launched too late, other tables of the host and of engines, the answer to a query."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from threading import Event
from typing import Any

import numpy as np
from msgspec.structs import replace
from rich.text import Text

from npu_tui.analysis.engine_steps import fallen_out
from npu_tui.load.source import given_folders
from npu_tui.profile.columns import base_of
from npu_tui.profile.engine_tables import ENGINE_KINDS, ENGINE_STEPS
from npu_tui.profile.launch_tables import CODE_LINES, CPU_TIME, SYNCS
from npu_tui.profile.module_tables import MODULES
from npu_tui.profile.service_tables import BATCH_KINDS, BATCHES, KV_BLOCKS, REQUESTS
from npu_tui.profile.table import Table as DataTable
from npu_tui.profile.table import Value, declared_tables
from npu_tui.profile.trace_tables import OPERATIONS
from npu_tui.profile.work_tables import APIS
from npu_tui.query.engine import QueryError
from npu_tui.query.frames import ONE_PROFILE, TABLES, tables_of
from npu_tui.query.query import about, described_columns, query
from npu_tui.rules.service_verdict import JudgedService
from npu_tui.strings import say, words
from npu_tui.subjects import subject_of
from npu_tui.trace.message import Message
from npu_tui.trace.once import Cancelled
from npu_tui.trace.recorder import recorder_of
from npu_tui.trace.text import brief, duration_text, printable
from npu_tui.tui.tabs.declared import shown
from npu_tui.tui.tabs.device import bubbles
from npu_tui.tui.tabs.memory import events, memory, memory_depends_on
from npu_tui.tui.tabs.source import source_table
from npu_tui.tui.tabs.table import (
    GAP,
    Content,
    Context,
    Place,
    Stretch,
    Tab,
    TabRow,
    TabTable,
    known_columns,
    nothing,
    of_a_device,
    scope_note,
)
from npu_tui.tui.terminal.frames import ALERT
from npu_tui.view.scene import Selected


def batches(now: Context) -> Content:
    """A row per batch of a service by start; Enter goes to it."""
    sheet = BATCHES.make(now.part)
    if not sheet.rows:
        return nothing(now, say("service.none", what=say("service.batches")))
    judged = now.profile.judged
    batches = len(judged.found.steps) if isinstance(judged, JudgedService) else 0
    key = "service.batches.note" if batches else "service.batches.rows"
    note = GAP.join([say(key, count=sheet.rows, batches=batches), scope_note(now)])
    return shown(now.trace, BATCHES, sheet, note)


def requests(now: Context) -> Content:
    """A row per request of a service, the slowest first; Enter goes to it."""
    sheet = REQUESTS.make(now.part)
    if not sheet.rows:
        return nothing(now, say("service.none", what=say("service.requests")))
    length = np.array([-1 if value is None else value for value in sheet.values("execution")], np.int64)
    note = GAP.join([say("service.requests.note", count=sheet.rows), scope_note(now)])
    return shown(now.trace, REQUESTS, sheet.taken(np.argsort(-length, kind="stable")), note)


def kv_blocks(now: Context) -> Content:
    """A row per event of the KV cache, the fullest first; Enter goes there."""
    sheet = KV_BLOCKS.make(now.part)
    if not sheet.rows:
        return nothing(now, say("service.none", what=say("service.kv")))
    used, free, total = (
        np.array([-1 if value is None else value for value in sheet.values(name)], np.int64)
        for name in ("used_blocks", "free_blocks", "total_blocks")
    )
    order = np.lexsort((np.where(free < 0, free.max(), free), -used))
    note = say("service.kv.note", count=sheet.rows)
    if used[order[0]] >= 0 and total[order[0]] > 0:
        share = float(used[order[0]] / total[order[0]])
        note = say("service.kv.most", used=int(used[order[0]]), total=int(total[order[0]]), share=share)
    return shown(now.trace, KV_BLOCKS, sheet.taken(order), GAP.join([note, scope_note(now)]))


def engine_steps(now: Context) -> Content:
    """A row per step by start, the cursor on the first one that fell out of graph capture; Enter goes to the step."""
    sheet = ENGINE_STEPS.make(now.part)
    basis = now.profile.engine.basis
    if not sheet.rows or basis is None:
        return nothing(now, say("engine.none"))
    fallen = {step.number for step in fallen_out(now.profile.engine.steps)}
    numbers = sheet.values("ordinal")
    at = [row for row, number in enumerate(numbers) if number in fallen]

    def graph(row: int, word: Value) -> Text | str:
        text = say(f"engine.graph.{word}") if word else ""
        return Text(text, style=ALERT) if numbers[row] in fallen else text

    notes = [say("engine.note", count=sheet.rows), say(f"engine.by.{basis}"), scope_note(now)]
    if at:
        notes.insert(1, say("engine.fallen", count=len(at)))
    table = shown(now.trace, ENGINE_STEPS, sheet, GAP.join(notes), cells={"graph": graph}, most=sheet.rows)
    return replace(table, at=at[0] if at else None)


def batch_kinds(now: Context) -> Content:
    """A row per engine and kind of batches of a service; Enter goes to its longest batch."""
    return shown(now.trace, BATCH_KINDS, BATCH_KINDS.make(now.part), scope_note(now))


def engine_kinds(now: Context) -> Content:
    """A row per kind and number of tokens, most time first; Enter goes to its longest step."""
    sheet = ENGINE_KINDS.make(now.part)
    if not sheet.rows:
        return nothing(now, say("engine.none"))
    note = say("engine.kinds.note", count=sum(sheet.values("calls")))
    return shown(now.trace, ENGINE_KINDS, sheet, GAP.join([note, scope_note(now)]), most=sheet.rows)


_SQL = "sql"  # the view that answers a query; no key leads to it, as it needs one

_NAMES = {
    "bubbles": "bubbles.name", "syncs": "syncs.name", "calls": "calls.name",
    "host_ops": "hosts.name", "passes": "passes.name", "modules": "modules.name", "engine_kinds": "engine.kinds.name",
    "engine_steps": "engine.name", "batches": "service.batches.name", "cpu": "cpu.view",
    "batch_kinds": "service.kinds.name", "requests": "service.requests.name", "kv_blocks": "service.kv.name",
    "holders": "memory.holders.name", "events": "memory.events.name",
}  # fmt: skip
_LONGEST_NAME = 60


class LinesTab(Tab):
    """A row per line, most lost time first; Enter goes to its worst launch. Other views have keys of their own."""

    def __init__(self) -> None:
        super().__init__(self._view_of, self._depends_on, turns=True)
        self.view = "lines"
        self._sql = ""
        self._stopped = Event()
        self._running: set[Event] = set()
        self._shown = self.view

    def ask(self, sql: str) -> None:
        """Show the answer to the query ``sql``."""
        self.stop()
        self.view, self._sql, self._stopped = _SQL, sql, Event()

    def stop(self) -> bool:
        """End the query that is still being answered; False where there is none."""
        self._stopped.set()
        return self._stopped in self._running

    def _depends_on(self, now: Context) -> object:
        self._shown = _view_of(now, self.view)
        if self._shown == "holders":
            return memory_depends_on(now)
        if self.view == _SQL:
            return now.trace, self._stopped
        has_path = now.trace in now.session.paths  # its lines may be the ones with source here
        return now.trace, now.marked, self.view, given_folders(), has_path

    @property
    def name(self) -> str:
        """The name of the view."""
        return say("query.tab") if self.view == _SQL else view_name(self._shown)

    def _view_of(self, now: Context) -> Content:
        if self.view != _SQL:
            view = _view_of(now, self.view)
            return VIEWS[view](now) if view == self.view else viewed(now, view)
        sql, stopped = self._sql, self._stopped
        self._running.add(stopped)
        try:
            return answered(now, sql, stopped)
        finally:
            self._running.discard(stopped)


def _view_of(now: Context, view: str) -> str:
    """What stands in the place of ``view`` for the subject at the cursor."""
    return subject_of(now.profile.trace).tabs.get(view) or view


def view_name(view: str) -> str:
    """What a view is called, or a table that is shown as one; empty for the first view of a tab and for none."""
    if view in _NAMES:
        return say(_NAMES[view])
    return say(f"table.{view}") if view in DECLARED else ""


def viewed(now: Context, view: str) -> Content:
    """A view, or the table of that name, which a subject without kernels may have."""
    return _declared(DECLARED[view], now) if view in DECLARED else VIEWS[view](now)


def has_own(tab: str, now: Context) -> bool:
    """Whether the subject at the cursor has something else in the place of ``tab``."""
    return bool(subject_of(now.profile.trace).tabs.get(tab))


def of_subject(tab: str, make: Callable[[Context], Content]) -> Callable[[Context], Content]:
    """``make``, or what the subject at the cursor has in the place of ``tab``."""
    return lambda now: viewed(now, subject_of(now.profile.trace).tabs[tab]) if has_own(tab, now) else make(now)


def lines(now: Context) -> Content:
    """The code with the times of its lines, where it is at hand, and the table of lost time in turn."""
    table = _lost_lines(now)
    if not isinstance(table, TabTable):
        return table
    code = source_table(now)
    if isinstance(code, TabTable):
        return replace(table, again=say("source.code"), at=0) if now.turn % 2 else code
    return replace(table, note=GAP.join(part for part in (code, table.note) if part))


def _lost_lines(now: Context) -> Content:
    """The lines of all devices."""
    if not now.profile.dispatch:
        return say("lines.no_dispatch")
    sheet = CODE_LINES.make(now.part)
    if not sheet.rows:
        return nothing(now, say("lines.none"))
    lost = np.array(sheet.values("lost"))
    sheet = sheet.taken(np.argsort(-lost, kind="stable"))
    note = GAP.join(
        [say("lines.total", lost=base_of(now.part.facts).of_one(lost.sum())), scope_note(now), say("lines.views")]
    )
    place = {"place": lambda row, value: str(value) or say("lines.unknown")}
    return shown(now.trace, CODE_LINES, sheet, note, cells=place, most=sheet.rows)


def syncs(now: Context) -> Content:
    """A row per call and code line that waits for the device, the costliest first; Enter goes to its longest wait."""
    sheet = SYNCS.make(now.part)
    if not sheet.rows:
        return nothing(now, say("syncs.none"))
    count, total, idle, after = (sum(sheet.values(name)) for name in ("calls", "total", "device_idle", "idle_after"))
    note = GAP.join(
        [say("syncs.note", count=count, total=total), scope_note(now), say("syncs.idle", idle=idle, after=after)]
    )
    operations = sheet.values("operation")

    def call(row: int, name: Value) -> str:
        operation = operations[row]
        own = brief(str(name), _LONGEST_NAME)
        return own if operation is None else f"{brief(operation, _LONGEST_NAME)} → {own}"

    return shown(now.trace, SYNCS, sheet, note, cells={"call": call}, most=sheet.rows, spare=("idle_after", "longest"))


def cpu(now: Context) -> Content:
    """A row per state of the launching threads and per culprit, most lost time first; Enter goes to the longest."""
    known = now.profile.cpu
    if isinstance(known, Message):
        return words(known)
    sheet = CPU_TIME.make(now.part)
    if not sheet.rows:
        return nothing(now, say("cpu.none" if known is None else "cpu.silent"))
    unknown = [] if known is None else [words(reason) for reason in known.unknown]
    note = say("cpu.note", lost=base_of(now.part.facts).of_one(sum(sheet.values("lost_time"))))
    return shown(now.trace, CPU_TIME, sheet, GAP.join([note, scope_note(now), *unknown]), most=sheet.rows)


def calls(now: Context) -> Content:
    """A row per call of CANN, most time first; Enter goes to its longest, and again to the next."""
    sheet = APIS.make(now.part)
    if not sheet.rows:
        return nothing(now, say(recorder_of(now.profile.trace).word("calls.none")))
    count, total = (sum(sheet.values(name)) for name in ("calls", "total"))
    note = say("calls.note", count=count, total=duration_text(total))
    return shown(now.trace, APIS, sheet, GAP.join([note, scope_note(now)]), most=sheet.rows)


def host_ops(now: Context) -> Content:
    """A row per operation of the framework, most own time on the host first, with what it launched."""
    sheet = OPERATIONS.make(now.part)
    if not sheet.rows:
        return nothing(now, say("hosts.none"))
    count, own = (sum(sheet.values(name)) for name in ("calls", "host_self"))
    note = say("hosts.note", count=count, own=duration_text(own))
    note = GAP.join([note, scope_note(now)])
    return shown(now.trace, OPERATIONS, sheet, note, most=sheet.rows, spare=("host_total", "device_self"))


def passes(now: Context) -> Content:
    """A row per operation with a backward pass, the longest first; the key that opens it shows both of a row."""
    sheet = OPERATIONS.make(now.part)
    backward = np.array(sheet.values("backward"))
    order = np.argsort(-backward, kind="stable")[: np.count_nonzero(backward)]
    if not len(order):
        return nothing(now, say("passes.unknown"))
    columns = [field for name in _OF_PASSES for field in OPERATIONS.panel if field.column.id == name]
    note = GAP.join([say("passes.list"), scope_note(now)])
    return shown(
        now.trace, OPERATIONS, sheet.taken(order), note, columns=columns, most=sheet.rows, spare=("host_total",)
    )


_OF_PASSES = ("host_total", "device_total", "backward", "calls", "name", "spread")


def modules(now: Context) -> Content:
    """A row per ``nn.Module`` as a tree, with what it and those in it launched; Enter goes to its longest call."""
    sheet = MODULES.make(now.part)
    if not sheet.rows:
        return nothing(now, say("modules.none"))
    outermost = [row for row, depth in enumerate(sheet.values("depth")) if not depth]
    total, backward = (sum(sheet.values(name)[row] or 0 for row in outermost) for name in ("total", "backward"))
    depths = sheet.values("depth")

    def name_of(row: int, name: Value) -> str:
        if name is None:
            return say("report.modules.none")
        return f"{'  ' * min(depths[row], _DEEPEST)}{brief(str(name), _LONGEST_NAME)}"

    note = say("modules.note", count=sheet.rows, total=duration_text(total), backward=duration_text(backward))
    return shown(now.trace, MODULES, sheet, GAP.join([note, scope_note(now)]), cells={"name": name_of}, most=sheet.rows)


_DEEPEST = 10

_OF_DEVICES: dict[str, Callable[[Context], Content]] = {
    "lines": lines,
    "bubbles": bubbles,
    "syncs": syncs,
    "calls": calls,
    "host_ops": host_ops,
    "passes": passes,
    "modules": modules,
}

VIEWS: dict[str, Callable[[Context], Content]] = {
    **{name: of_a_device(make) for name, make in _OF_DEVICES.items()},
    "engine_kinds": engine_kinds,
    "engine_steps": engine_steps,
    "batches": batches,
    "batch_kinds": batch_kinds,
    "requests": requests,
    "kv_blocks": kv_blocks,
    "holders": memory,
    "events": events,
    "cpu": cpu,
}
"""What the tab can show, by the ids of the commands that show it."""


def _declared(table: DataTable, now: Context) -> Content:
    """The rows of ``table`` in its order."""
    sheet = table.make(now.part)
    return shown(now.trace, table, sheet, scope_note(now)) if sheet.rows else nothing(now, say("query.tab.none"))


DECLARED = {table.id: table for table in declared_tables("npu_tui.profile") if table.tab}
"""Tables that need no view of their own, by their names after ``:``."""
VIEWS |= {name: of_a_device(partial(_declared, table)) for name, table in DECLARED.items()}

OF_DEVICES = frozenset((*_OF_DEVICES, *DECLARED))
"""Views about kernels and launches, which a subject without these does not have."""


# --- the answer to a query typed after ``:sql``: a row leads to its slice, or to its time

_MOST = 1000  # rows that are shown

_SLICES = ("slice", "target_slice", "op", "launch", "source_slice", "after_slice", "before_slice")
_STARTS = ("start", "time", "target_time", "source_time")
_LONGEST_CELL = 80


def answered(now: Context, sql: str, stopped: Event) -> Content:
    """The answer to ``sql`` over the tables of the profile at the cursor, or what is wrong with it, until ``stopped``.

    Without a query the tables there are, for the name of one its columns.
    """
    if not sql:
        return _listed("table", ((name, "", about(name)) for name in ONE_PROFILE))
    if sql in ONE_PROFILE:
        columns = described_columns(sql, tables_of(now.profile).columns(sql))
        return _listed("column", ((name, unit, meaning) for name, _, unit, meaning in columns))
    try:
        frame = query(tables_of(now.profile), sql, _MOST + 1, stopped=stopped)
    except QueryError as error:
        return words(error.message)
    except Cancelled:
        return say("query.stopped")
    names = frame.columns
    rows = [_line_row(now, dict(zip(names, cells, strict=True))) for cells in frame.head(_MOST).iter_rows()]
    if not rows:
        return say("query.tab.none")
    shown = say("query.tab.rows", count=len(rows))
    note = GAP.join([shown, say("query.tab.more")]) if len(frame) > _MOST else shown
    return TabTable(tuple(map(_heading, names)), rows, note)


def _heading(name: str) -> str:
    """The name of a column, with its unit where it is one of the schema that has the same in every table."""
    units = {column.unit for table in TABLES.values() for column in table.sql if column.id == name}
    unit = units.pop() if len(units) == 1 else ""
    return " ".join(part for part in (brief(printable(name), _LONGEST_CELL), unit) if part)


def _listed(what: str, lines: Iterable[tuple[str, str, str]]) -> TabTable:
    """Names of tables or columns with their units and what they are."""
    headings = (say(f"sql.{what}"), say("sql.unit"), say("sql.about"))
    rows = [TabRow(line, (), line) for line in lines]
    return known_columns(TabTable(headings, rows, say("sql.listed")))


def _line_row(now: Context, cells: dict[str, Any]) -> TabRow:
    texts = tuple(_value_text(value) for value in cells.values())
    values = tuple(
        value if isinstance(value, (int, float)) or value is None else str(value) for value in cells.values()
    )
    return TabRow(texts, _place_of_row(now, cells), values)


def _value_text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if isinstance(value, float) else brief(printable(str(value)), _LONGEST_CELL)


def _place_of_row(now: Context, cells: dict[str, Any]) -> tuple[Place, ...]:
    """The slice that a row names, else the time."""
    trace = now.profile.trace
    for name in _SLICES:
        item = cells.get(name)
        if type(item) is int and 0 <= item < len(trace.slices):
            return (Selected(now.trace, item),)
    for name in _STARTS:
        start = cells.get(name)
        if type(start) is int:
            end = cells.get("end")
            length = cells.get("duration")
            until = end if type(end) is int else start + length if type(length) is int else start
            return (Stretch(start, max(until, start + 1), trace=now.trace),)
    return ()
