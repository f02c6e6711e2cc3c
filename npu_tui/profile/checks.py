"""The figures of a profile held against the files that the profiler wrote beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npu_tui.analysis.device import EVERYTHING
from npu_tui.analysis.joins import Figures, JoinCheck, Key, cross_check
from npu_tui.analysis.memory import APP, MemoryCurve
from npu_tui.analysis.operators import kernel_groups
from npu_tui.load.companion_schema import ALLOCATIONS, API_CALLS, COLLECTIVE_CORES, KERNELS, OPERATOR_TYPES, STEPS
from npu_tui.load.errors import InputError
from npu_tui.profile.companions import CompanionTables
from npu_tui.profile.profile import Profile
from npu_tui.trace.text import MIB

_PER_CALL = 1  # the writers round every slice to a nanosecond
_SUMS, _SPANS = 60, 300
"""ns; stage and preparing are of times since 1970 in float64, a grid of 250 ns."""


def checks_of(profile: Profile) -> list[JoinCheck]:
    """A check for every file that lies beside the trace of ``profile`` and that the trace has the figures for.

    Without a trace files are checked by each other: operators by kernels, records of memory by allocations. The files
    are about everything, so a part of a profile has no checks.
    """
    return (
        profile.known.value(checks_of, lambda: _checks(profile, profile.tables)) if profile.window == EVERYTHING else []
    )


def _checks(profile: Profile, tables: CompanionTables) -> list[JoinCheck]:
    makers = {OPERATOR_TYPES.stem: _operators, ALLOCATIONS.stem: _check_memory}
    if len(profile.trace.slices):
        makers |= {API_CALLS.stem: _apis, STEPS.stem: _check_steps, KERNELS.stem: _check_kernels}
    checks = [check(profile, tables) for stem, check in makers.items() if tables.has(stem)]
    if len(profile.trace.slices) and not tables.lacks_communication:
        checks.append(_check_collectives(profile, tables))
    return [check for check in checks if check is not None and check.rows]


def _named_figures(source: Any, names: str) -> Figures:
    """Figures by name: ``least=shortest`` is the attribute ``shortest`` of ``source``, called ``least``."""
    pairs = (word.partition("=") for word in names.split())
    return {name: getattr(source, attribute or name) for name, _, attribute in pairs}


def _figures_by_key(frame: Any, keys: tuple[str, ...], figures: tuple[str, ...]) -> dict[Key, Figures]:
    """The rows of ``frame`` by key; those of one key are added up."""
    rows: dict[Key, dict[str, int | None]] = {}
    for row in frame.select(*keys, *figures).iter_rows():
        key = tuple("" if cell is None or cell == "N/A" else str(cell) for cell in row[: len(keys)])
        sums = rows.setdefault(key, dict.fromkeys(figures, None))
        for name, value in zip(figures, row[len(keys) :], strict=True):
            if value is not None:
                sums[name] = (sums[name] or 0) + int(value)
    return dict(rows)


def _operators(profile: Profile, tables: CompanionTables) -> JoinCheck | None:
    table = profile.kernel_table
    theirs = _figures_by_key(tables.table(OPERATOR_TYPES.stem).frame, ("type", "core"), ("count", "total"))
    theirs = {key: row for key, row in theirs.items() if key[1] not in COLLECTIVE_CORES}
    if not len(table):
        return None
    ours: dict[Key, Figures] = {
        (group.type, group.core or ""): _named_figures(group, "count total") for group in kernel_groups(table, "type")
    }
    most = max((row.get("count") or 0 for row in theirs.values()), default=0)
    return cross_check("op_statistic.csv", ours, theirs, {"total": 10 + _PER_CALL * most})


def _apis(profile: Profile, tables: CompanionTables) -> JoinCheck | None:
    theirs = _figures_by_key(tables.table(API_CALLS.stem).frame, ("level", "name"), ("count", "total", "least", "most"))
    ours: dict[Key, Figures] = {
        (api.level, api.name): _named_figures(api, "count total least=shortest most=longest") for api in profile.apis
    }
    levels = {level for level, _ in ours}
    theirs = {key: row for key, row in theirs.items() if key[0] in levels}  # the trace may leave a level out
    return cross_check("api_statistic.csv", ours, theirs, {"total": 10, "least": 1, "most": 1})


def _check_steps(profile: Profile, tables: CompanionTables) -> JoinCheck | None:
    names = ("computing", "exposed", "overlapped", "communication", "free", "bubble", "stage", "preparing")
    theirs = _figures_by_key(tables.table(STEPS.stem).frame, ("step",), names)
    ours: dict[Key, Figures] = {}
    for step, sums in profile.step_sums:
        if len(sums) == 1:
            overlap = sums[0].overlap
            ours["" if step.number is None else str(step.number),] = {
                **_named_figures(overlap, "computing exposed=not_overlapped communication free"),
                **_named_figures(sums[0], "bubble stage preparing"),
                "overlapped": overlap.communication - overlap.not_overlapped,
            }
    if not ours:
        return None
    limits = {**dict.fromkeys(names, _SUMS), "stage": _SPANS, "preparing": _SPANS}
    return cross_check("step_trace_time.csv", ours, theirs, limits)


def _check_kernels(profile: Profile, tables: CompanionTables) -> JoinCheck | None:
    """Every row with the slice that it is joined to."""
    length = tables.durations
    ours: dict[Key, Figures] = {}
    theirs: dict[Key, Figures] = {}
    for row, (name, start, duration) in enumerate(
        tables.table(KERNELS.stem).frame.select("name", "start", "duration").iter_rows()
    ):
        if name is None or start is None:
            continue
        key = name, str(row)
        theirs[key] = {"duration": duration}
        if row in length:
            ours[key] = {"duration": length[row]}
    busy = any(device.busy.any() for device in profile.device_slices)
    return cross_check("kernel_details.csv", ours, theirs, {"duration": 2 * _PER_CALL}) if busy else None


def _check_memory(profile: Profile, tables: CompanionTables) -> JoinCheck | None:
    """Every allocation with the totals that its row names, in the record of its time; the components share a file."""
    curves = [curve for curve in profile.memory.curves if curve.component != APP]
    columns = [amount for amount in ("allocated", "reserved", "active") if any(c.amount == amount for c in curves)]
    frame = tables.table(ALLOCATIONS.stem).frame
    ours: dict[Key, Figures] = {}
    theirs: dict[Key, Figures] = {}
    for row, (name, start, *totals) in enumerate(frame.select("name", "allocated_at", *columns).iter_rows()):
        if start is None or not columns or all(total is None for total in totals):
            continue
        key = name or "", str(row)
        recorded = {
            amount: round(total * MIB) for amount, total in zip(columns, totals, strict=True) if total is not None
        }
        theirs[key] = recorded
        ours[key] = {
            amount: _nearest_amount(curves, amount, start - tables.start_ns, value)
            for amount, value in recorded.items()
        }
    return cross_check("memory_record.csv", ours, theirs, dict.fromkeys(columns, 1))


def _nearest_amount(curves: Sequence[MemoryCurve], amount: str, time: int, value: int) -> int | None:
    """What the component has at ``time`` that comes nearest to ``value``."""
    held = [curve.at(time) for curve in curves if curve.amount == amount]
    return min(
        (candidate for candidate in held if candidate is not None),
        key=lambda candidate: abs(candidate - value),
        default=None,
    )


def _check_collectives(profile: Profile, tables: CompanionTables) -> JoinCheck | None:
    names = ("elapsed", "wait", "transit", "synchronization", "idle")
    frame = tables.communication.frame
    theirs = _figures_by_key(frame, ("name",), names)
    try:
        collectives = profile.collectives
    except InputError:
        return None
    ours: dict[Key, Figures] = {}
    for collective in collectives:
        timing = _named_figures(collective.timing, "wait transit synchronization idle") if collective.timing else {}
        ours[profile.trace.name_of(collective.item),] = {"elapsed": collective.elapsed, **timing}
    return cross_check("communication.json", ours, theirs, dict.fromkeys(names, 20)) if ours else None
