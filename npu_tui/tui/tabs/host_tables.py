"""Tables of what the host did: waits for the device, calls of CANN, operations of the framework."""

from __future__ import annotations

from npu_tui.profile.launch_tables import SYNCS
from npu_tui.profile.table import Value
from npu_tui.profile.trace_tables import OPERATIONS
from npu_tui.profile.work_tables import APIS
from npu_tui.strings import say
from npu_tui.trace.text import brief, duration_text
from npu_tui.tui.tabs.declared import shown
from npu_tui.tui.tabs.table import GAP, Content, Context, scope_note

_LONGEST_NAME = 60


def syncs(now: Context) -> Content:
    """A row per call and code line that waits for the device, the costliest first; Enter goes to its longest wait."""
    sheet = SYNCS.make(now.part)
    if not sheet.rows:
        return say("syncs.none")
    count, total, idle, after = (sum(sheet.values(name)) for name in ("calls", "total", "device_idle", "idle_after"))
    note = say(
        "syncs.note", count=count, total=duration_text(total), idle=duration_text(idle), after=duration_text(after)
    )
    operations = sheet.values("operation")

    def call(row: int, name: Value) -> str:
        operation = operations[row]
        own = brief(str(name), _LONGEST_NAME)
        return own if operation is None else f"{brief(operation, _LONGEST_NAME)} → {own}"

    return shown(now.trace, SYNCS, sheet, GAP.join([note, scope_note(now)]), cells={"call": call}, most=sheet.rows)


def calls(now: Context) -> Content:
    """A row per call of CANN, most time first; Enter goes to its longest, and again to the next."""
    sheet = APIS.make(now.part)
    if not sheet.rows:
        return say("calls.none")
    count, total = (sum(sheet.values(name)) for name in ("calls", "total"))
    note = say("calls.note", count=count, total=duration_text(total))
    return shown(now.trace, APIS, sheet, GAP.join([note, scope_note(now)]), most=sheet.rows)


def host_ops(now: Context) -> Content:
    """A row per operation of the framework, most own time on the host first, with what it launched."""
    sheet = OPERATIONS.make(now.part)
    if not sheet.rows:
        return say("hosts.none")
    count, own = (sum(sheet.values(name)) for name in ("calls", "host_self"))
    note = say("hosts.note", count=count, own=duration_text(own))
    return shown(now.trace, OPERATIONS, sheet, GAP.join([note, scope_note(now)]), most=sheet.rows)
