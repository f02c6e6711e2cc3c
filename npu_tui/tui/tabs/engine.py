"""The steps of an inference engine in the panel, and what they take by kind and number of tokens."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace
from rich.text import Text

from npu_tui.analysis.engine_steps import fallen_out
from npu_tui.profile.engine_tables import ENGINE_KINDS, ENGINE_STEPS
from npu_tui.profile.service_tables import BATCH_KINDS, BATCHES, KV_BLOCKS, REQUESTS
from npu_tui.profile.table import Value
from npu_tui.strings import say
from npu_tui.tui.tabs.declared import shown
from npu_tui.tui.tabs.table import GAP, Content, Context, nothing, scope_note
from npu_tui.tui.terminal.colours import ALERT


def batches(now: Context) -> Content:
    """A row per batch of a service by start; Enter goes to it."""
    sheet = BATCHES.make(now.part)
    if not sheet.rows:
        return nothing(now, say("service.none", what=say("service.batches")))
    note = GAP.join([say("service.batches.note", count=sheet.rows), scope_note(now)])
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
