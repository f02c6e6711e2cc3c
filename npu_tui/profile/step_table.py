"""The steps of step_trace_time.csv, for a profile without a trace."""

from __future__ import annotations

from msgspec import Struct

from npu_tui.analysis.overlap import Overlap
from npu_tui.ingest.companions.schemas import STEPS
from npu_tui.profile.tables import Tables


class StepRow(Struct, frozen=True):
    """A row of the table, times in ns: ``number`` is None without steps, others where they are absent."""

    number: int | None
    overlap: Overlap
    stage: int | None
    bubble: int | None
    preparing: int | None


def step_rows(tables: Tables) -> list[StepRow]:
    """The rows that have all parts of a step."""
    if not tables.has(STEPS.stem):
        return []
    columns = ("device", "step", "computing", "communication", "exposed", "free", "stage", "bubble", "preparing")
    found = []
    for device, step, *times, stage, bubble, preparing in tables.table(STEPS.stem).frame.select(*columns).iter_rows():
        if all(time is not None for time in times):
            number = int(step) if step is not None and step.isdecimal() else None
            found.append(StepRow(number, Overlap(device, *times), stage, bubble, preparing))
    return found


def step_sums(rows: list[StepRow]) -> Overlap:
    """All ``rows`` together."""
    parts = [each.overlap for each in rows]
    return Overlap(
        None,
        sum(each.computing for each in parts),
        sum(each.communication for each in parts),
        sum(each.not_overlapped for each in parts),
        sum(each.free for each in parts),
    )
