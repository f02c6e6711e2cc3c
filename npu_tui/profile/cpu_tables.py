"""The tables of the CPU: who had it while devices waited for launches, and each late launch by what its threads did."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.cpu_time import PARTS, CpuTime, Culprit
from npu_tui.profile.columns import base_of, names_of
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import MISSING, Array, Column, Span, TableSheet, attribute_rows, columns, numbers, table
from npu_tui.trace.text import runs

_OWN = {
    **columns("label", "", "word", "state", "cpu.state"),
    **columns("label", "", "word", "by", "cpu.who"),
    **columns("label", "", "word", "cpus"),
    **columns("whole", "", "id", "task process"),
    **columns("whole", "", "count", "late"),
    **columns("whole", "ns", "time", " ".join(PARTS)),
    "lost_time": Column("lost_time", "whole", "ns", "time", summed=True),
}


def _cpu_and_launches(profile: Profile) -> tuple[CpuTime, Array] | None:
    """Who had the CPU, and the launches that the part is about; None where that is not known."""
    known = profile.cpu
    links = [facts.launches.link for facts in profile.facts if facts.launches is not None]
    return (known, np.concatenate(links)) if isinstance(known, CpuTime) and links else None


def cpu_time(profile: Profile) -> TableSheet:
    """The lost time by state of the threads that launch and by who had their CPU, most time first."""
    found = _cpu_and_launches(profile)
    if found is None:
        return TableSheet(0, {})
    known, links = found
    rows = known.culprits(links)
    total = sum(row.total for row in rows)

    def place(row: int) -> list[Span]:
        parts = rows[row].rows
        worst = parts[np.argsort(-known.parts.time[parts], kind="stable")[:100]]
        start, end = known.on_device(worst)
        items = profile.trace.links.target_slice[known.waits.link[known.parts.wait[worst]]]
        spans = zip(start.tolist(), end.tolist(), items.tolist(), strict=True)
        return [Span(low, high, slice=item, words=rows[row].name) for low, high, item in spans]

    sheet = attribute_rows(
        rows,
        "state=part by task process lost_time=total late=waits",
        _OWN,
        name=lambda row: row.name or None,
        cpus=lambda row: cpu_list(row) or None,
        share=lambda row: row.total / total if total else None,
    )
    base = base_of(profile.facts)
    return replace(sheet, place=place, lengths=lambda row: known.parts.time[rows[row].rows], base=base)


def cpu_list(culprit: Culprit) -> str:
    """The CPUs where it happened: ``3,8-11``."""
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs(culprit.cpus))


CPU_TIME = table(
    "cpu_time",
    cpu_time,
    sql="rank state by name task process cpus lost_time share late",
    json="state by name? pid=task? process? cpus? lost=lost_time ratio=share? launches=late",
    page="state by name? pid=task? cpus? lost=lost_time share launches=late",
    panel="lost=lost_time share spread state by name pid=task process cpus launches=late",
    section="cpu_time",
    row="CpuTimeRow",
    about="""Time that devices waited for launches while the threads that make them were in one ``state``.

    ``by`` says who had the CPU: another thread (``name``, ``pid``), the source of an interrupt, nobody (an idle CPU);
    of a sleep, who ended it. ``state`` is running, preempted, woken (runnable since a wakeup), asleep, blocked,
    interrupt or unknown; the rows add up to the lost time.
    """,
    own=_OWN,
)


def cpu_waits(profile: Profile) -> TableSheet:
    """Every launch that a device waited for, with what the threads that made it did meanwhile."""
    found = _cpu_and_launches(profile)
    if found is None:
        return TableSheet(0, {})
    known, links = found
    waits, parts = known.waits, known.parts
    chosen = np.flatnonzero(np.isin(waits.link, links))
    times = np.zeros((len(waits.link), len(PARTS)), np.int64)
    np.add.at(times, (parts.wait, parts.part), parts.time)
    items = profile.trace.links.target_slice[waits.link[chosen]].astype(np.int64)
    return TableSheet(
        len(chosen),
        {
            "link": numbers(waits.link[chosen]),
            "slice": numbers(items, MISSING),
            "name": names_of(profile, items),
            "start": numbers(waits.ready[chosen]),
            "lost_time": numbers((waits.end - waits.start)[chosen]),
            **{part: numbers(times[chosen, number]) for number, part in enumerate(PARTS)},
        },
    )


CPU_WAITS = table("cpu_waits", cpu_waits, sql="rank link slice name start lost_time " + " ".join(PARTS), own=_OWN)
