"""What changed between two profiles: what it costs per step, how severe it is, where it is on both sides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.kernels import core_clock
from npu_tui.analysis.overlap import Intervals
from npu_tui.compare.comparison import ProfileComparison
from npu_tui.compare.kernels import GroupChange
from npu_tui.compare.measured import MeasuredSide
from npu_tui.compare.steps import StepWindow
from npu_tui.rules import pages
from npu_tui.rules.model import Evidence, Finding, Kind, SideName
from npu_tui.rules.rule import priced_change
from npu_tui.trace.arrays import I64
from npu_tui.trace.intervals import difference, inside, union
from npu_tui.trace.message import Message, message
from npu_tui.trace.text import printable

_NONE = np.zeros(0, np.int64)
_MOST_EVIDENCE = 5


def places_of(side: MeasuredSide, name: SideName, items: I64, step: StepWindow | None = None) -> list[Evidence]:
    """The longest of the slices ``items``, by start; only those in ``step`` (default: the typical one) if any are."""
    slices = side.trace.slices
    window = step or side.sample.medoid
    inside = items[(slices.start[items] >= window.start) & (slices.start[items] < window.end)]
    items = inside if len(inside) else items
    longest = items[np.argsort(slices.start[items] - slices.end[items], kind="stable")][:_MOST_EVIDENCE]
    return [place_at(side, name, item) for item in sorted(longest.tolist())]


def place_at(side: MeasuredSide, name: SideName, item: int) -> Evidence:
    """The slice ``item`` of one side as evidence."""
    slices, text = side.trace.slices, printable(side.trace.name_of(item))
    return Evidence(int(slices.start[item]), int(slices.end[item]), int(slices.lane[item]), text, slice=item, side=name)


def places_on_both(comparison: ProfileComparison, base: I64, new: I64) -> tuple[Evidence, ...]:
    """The longest of the slices ``base`` and ``new`` of the two sides."""
    return (*places_of(comparison.base, "base", base), *places_of(comparison.new, "new", new))


_WORTH = 0.002  # share of the base step from which a change is a finding
_SYNCS = ("aten::_local_scalar_dense", "aten::item", "aten::is_nonzero", "aten::nonzero")
_CAUSES_OF_LINES = ("DIFF.SYNC.ADDED", "DIFF.COMPILE", "DIFF.LOADER")
_EXPLAINED = 1.25
"""A line that costs more than so many times what a cause does is not explained by that cause."""
_COMPILE = "aclopCompileAndExecute"
_FREQUENCY_SHARE = 0.02
_MEMORY_SHARE, _MEMORY_LEAST = 0.02, 16 * 2**20
"""Share of the base, and bytes, from which a different peak of memory is a finding."""
_KERNEL_IDS = {
    "new": "DIFF.KERNEL.NEW",
    "gone": "DIFF.KERNEL.GONE",
    "slower": "DIFF.KERNEL.SLOWER",
    "faster": "DIFF.KERNEL.FASTER",
    "more": "DIFF.KERNEL.MORE",
    "fewer": "DIFF.KERNEL.FEWER",
    "changed": "DIFF.KERNEL.CHANGED",
    "replaced": "DIFF.REPLACED",
}
DIFFERENCES = (
    Kind("DIFF.STEP", "dispatch", "compare"),
    *(Kind(id, "compute", "compare") for id in _KERNEL_IDS.values()),
    Kind("DIFF.LINE", "dispatch", "compare"),
    Kind("DIFF.SYNC.ADDED", "dispatch", "compare"),
    Kind("DIFF.COMM.EXPOSED", "communication", "compare", pages=(pages.DDP,)),
    Kind("DIFF.COMM.LATE_RANK", "communication", "compare", pages=(pages.SLOW_RANK,)),
    Kind("DIFF.COMM.BANDWIDTH", "communication", "compare"),
    Kind("DIFF.COMPILE", "dispatch", "compare", pages=(pages.COMPILE,)),
    Kind("DIFF.LOADER", "data", "compare", pages=(pages.DATA,)),
    Kind("DIFF.COPY", "data", "compare", pages=(pages.TUNING,)),
    Kind("DIFF.MEMORY", "memory", "compare"),
    Kind("DIFF.FREQ", "compute", "compare"),
    Kind("DIFF.CONFIG", "config", "compare"),
    Kind("DIFF.INCOMPARABLE", "config", "compare"),
)
"""All findings of a comparison."""

_KINDS = {kind.id: kind for kind in DIFFERENCES}


def differences(comparison: ProfileComparison) -> list[Finding]:
    """All changes worth a look: by what they cost or save, then those that only explain others."""
    if comparison.comparability.verdict == "incomparable":
        return [_explainer("DIFF.INCOMPARABLE", message("diff.incomparable"))]
    changes = [
        *_kernels(comparison),
        *_synchronisations(comparison),
        *_collectives(comparison),
        *_compilations(comparison),
        *_idle_difference(comparison, "DIFF.LOADER", "diff.loader", _fetching),
        *_idle_difference(comparison, "DIFF.COPY", "diff.copy", _copying),
    ]
    causes = [change for change in changes if change.id in _CAUSES_OF_LINES and (change.delta_ns or 0) > 0]
    cause = max(causes, key=lambda change: change.delta_ns or 0, default=None)
    changes += _line_findings(comparison, cause)
    # A change that a cause explains comes after it, even if it is a little larger.
    most = abs(cause.delta_ns or 0) if cause else 0.0
    changes.sort(
        key=lambda change: (
            -min(abs(change.delta_ns or 0), most) if change.part_of else -abs(change.delta_ns or 0),
            bool(change.part_of),
        )
    )
    return [
        *changes, *_memory_findings(comparison), *_frequency(comparison),
        *_configuration(comparison), *_step(comparison),
    ]  # fmt: skip


def _difference(
    comparison: ProfileComparison,
    id: str,
    delta: float,
    title: Message,
    items: tuple[I64, I64],
    *,
    advice: tuple[Message, ...] = (),
    part_of: str | None = None,
    p: float | None = None,
) -> Iterator[Finding]:
    """A finding that adds ``delta`` ns to a step, with slices ``items`` of both sides; none if that is too little."""
    wall = max(float(comparison.base.walls.mean()), 1.0)  # a profile of one slice may have 0
    if abs(delta) >= _WORTH * wall:
        found, places = priced_change(_KINDS[id], delta, wall, title), places_on_both(comparison, *items)
        yield replace(found, evidence=places, advice=advice, part_of=part_of, p=p, items=items)


def _explainer(id: str, title: Message, evidence: tuple[Evidence, ...] = (), delta: float | None = None) -> Finding:
    """A finding without a cost, which only explains others."""
    return replace(priced_change(_KINDS[id], None, 1.0, title), evidence=evidence, delta_ns=delta)


def _kernels(comparison: ProfileComparison) -> Iterator[Finding]:
    for row in comparison.groups:
        if row.change in _KERNEL_IDS:
            title = message(f"diff.{row.change}", **_group_words(row))
            items = row.base_items, row.new_items
            yield from _difference(comparison, _KERNEL_IDS[row.change], row.delta, title, items, p=row.q)


def _group_words(row: GroupChange) -> dict[str, object]:
    was = row.was or row.identity
    return {
        "kernel": row.identity.type,
        "was": " + ".join(row.parts) or was.type,
        "attributes": f" {row.identity.shapes}" if row.identity.shapes else "",
        "what": _attribute(row),
        "base_count": row.base.count,
        "new_count": row.new.count,
        "base_median": row.base.median,
        "new_median": row.new.median,
        "delta": row.delta,
    }


def _attribute(row: GroupChange) -> Message | str:
    """The first attribute of a changed group that differs, and how."""
    if row.was is None:
        return ""
    for key in ("dtypes", "shapes", "formats", "core"):
        before, after = getattr(row.was, key), getattr(row.identity, key)
        if before != after:
            return message(f"diff.attribute.{key}", base=before, new=after)
    return ""


def _synchronisations(comparison: ProfileComparison) -> Iterator[Finding]:
    """Operations that wait for the device and that only the new side has."""
    added = [_alone(comparison, k) for k in (0, 1)]
    counts = [[names.count(name) for name in _SYNCS] for _, names in added]
    if all(new <= base for base, new in zip(*counts, strict=True)):
        return
    waits = [(item, name) for item, name in zip(*added[1], strict=True) if name in _SYNCS]
    # One .item() is several nested operations: the one that waits counts, or all if it is not recorded.
    waiting = [item for item, name in waits if name == _SYNCS[0]] or [item for item, _ in waits]
    idle = _idle(comparison)
    if idle > 0:
        operation = comparison.new.trace.name_of(waiting[0])
        title = message("diff.sync_added", count=len(waiting), operation=operation, delta=idle)
        advice = (message("finding.advice.DIFF.SYNC.ADDED"),)
        items = _NONE, np.array(waiting, np.int64)
        yield from _difference(comparison, "DIFF.SYNC.ADDED", idle, title, items, advice=advice)


def _idle(comparison: ProfileComparison) -> float:
    """How much longer the device is idle, ns per step, except what longer fetches and copies explain."""
    idle = ("prep", "host_late", "device_side", "unlinked", "tail")
    longer = sum(row.delta for row in comparison.parts if row.part in idle)
    for spans in (_fetching, _copying):
        base, new = (side.idle_in(*spans(side)[1]) for side in comparison.sides)
        longer -= max(new - base, 0.0)
    return longer


def _fetching(side: MeasuredSide) -> tuple[I64, Intervals]:
    """The slices in which the host fetches a batch, and their times on the device's clock without those of copies."""
    items = _items_named(side, lambda name: "dataloader" in name.lower())
    spans = union(side.trace.slices.start[items] + side.floor, side.trace.slices.end[items] + side.floor)
    return items, difference(*spans, *_copying(side)[1])


def _copying(side: MeasuredSide) -> tuple[I64, Intervals]:
    """The copies of the device, and when they run."""
    device = next((part.slices for part in side.profile.devices if part.slices is not None), None)
    items = _NONE if device is None else np.flatnonzero(device.copy)
    return items, union(side.trace.slices.start[items], side.trace.slices.end[items])


def _idle_difference(
    comparison: ProfileComparison, id: str, code: str, spans: Callable[[MeasuredSide], tuple[I64, Intervals]]
) -> Iterator[Finding]:
    """A finding if the device is idle for another time during ``spans``, such as copies."""
    (base_items, base_spans), (new_items, new_spans) = map(spans, comparison.sides)
    base, new = comparison.base.idle_in(*base_spans), comparison.new.idle_in(*new_spans)
    title = message(code, base=base, new=new, delta=new - base)
    yield from _difference(comparison, id, new - base, title, (base_items, new_items))


def _alone(comparison: ProfileComparison, k: int) -> tuple[list[int], list[str]]:
    """The operations of one side without a counterpart: slices and names."""
    operations = comparison.sides[k].operations
    match = (comparison.operations.base, comparison.operations.new)[k]
    alone = np.ones(len(operations), np.bool_)
    alone[match] = False
    at = np.flatnonzero(alone)
    return operations.item[at].tolist(), [operations.name[place] for place in at.tolist()]


def _line_findings(comparison: ProfileComparison, cause: Finding | None) -> Iterator[Finding]:
    """Code lines whose launches come later or earlier; ``cause`` is what may explain them."""
    explained = _EXPLAINED * (cause.delta_ns or 0) if cause else 0.0
    for row in comparison.lines:
        if row.code is None:
            continue
        title = message(
            "diff.line" if row.delta > 0 else "diff.line_earlier",
            file=row.code.file,
            line=row.code.line,
            function=row.code.function,
            base=row.base.lost if row.base else 0.0,
            new=row.new.lost if row.new else 0.0,
            delta=row.delta,
        )
        items = (row.base.items if row.base else _NONE, row.new.items if row.new else _NONE)
        part_of = cause.id if cause and 0 < row.delta <= explained else None
        yield from _difference(comparison, "DIFF.LINE", row.delta, title, items, part_of=part_of)


def _collectives(comparison: ProfileComparison) -> Iterator[Finding]:
    """Collectives that wait longer for a rank or transfer longer; without waits, all exposed communication together."""
    parts = {row.part: row for row in comparison.parts}
    for row in comparison.collectives if "wait" in parts else ():
        base, new = row.base, row.new
        if base is None or new is None or None in (base.wait, new.wait, base.transfer, new.transfer):
            continue
        words = {"type": row.type, "group": row.group, "ordinal": row.ordinal + 1}
        items = (np.array(base.items, np.int64), np.array(new.items, np.int64))
        waited = new.exposed_wait - base.exposed_wait
        args = {"base_wait": base.wait, "new_wait": new.wait, "base_peer": base.peer, "new_peer": new.peer}
        code = "diff.late_rank" if base.peer != new.peer else "diff.wait"
        title = message(code, **words, **args, delta=waited)
        yield from _difference(comparison, "DIFF.COMM.LATE_RANK", waited, title, items)
        moved = new.exposed_transfer - base.exposed_transfer
        title = message("diff.bandwidth", **words, base=base.transfer, new=new.transfer, delta=moved)
        yield from _difference(comparison, "DIFF.COMM.BANDWIDTH", moved, title, items)
    exposed = parts.get("exposed")
    if exposed is not None:
        base_items = [item for row in comparison.collectives if row.base for item in row.base.items]
        new_items = [item for row in comparison.collectives if row.new for item in row.new.items]
        items = (np.array(base_items, np.int64), np.array(new_items, np.int64))
        title = message("diff.exposed", base=exposed.base, new=exposed.new, delta=exposed.delta)
        yield from _difference(comparison, "DIFF.COMM.EXPOSED", exposed.delta, title, items)


def _compilations(comparison: ProfileComparison) -> Iterator[Finding]:
    """Operators that are compiled while the step runs; nothing where a side has not recorded CANN."""
    if not all(map(_records_cann, comparison.sides)):
        return
    base_items, new_items = (_items_named(side, lambda name: _COMPILE in name) for side in comparison.sides)
    counts, times = [], []
    for side, items in zip(comparison.sides, (base_items, new_items), strict=True):
        steps, slices = len(side.windows), side.trace.slices
        counts.append(len(items) / steps)
        times.append(float((slices.end[items] - slices.start[items]).sum()) / steps)
    longer, idle = times[1] - times[0], _idle(comparison)
    # Compiling costs a step at most the additional idle time of the device.
    delta = min(longer, max(idle, 0.0)) if longer > 0 else max(longer, min(idle, 0.0))
    title = message("diff.compile", base_count=counts[0], new_count=counts[1], base=times[0], new=times[1])
    yield from _difference(comparison, "DIFF.COMPILE", delta, title, (base_items, new_items))


def _records_cann(side: MeasuredSide) -> bool:
    return any(layer.kind == "cann" and layer.lanes for layer in side.trace.layers)


def _items_named(side: MeasuredSide, predicate: Callable[[str], bool]) -> I64:
    """The slices of the compared steps whose name satisfies ``predicate``."""
    slices = side.trace.slices
    chosen = np.array([predicate(name) for name in side.trace.names] + [False])
    if not chosen.any():
        return _NONE
    named = np.flatnonzero(chosen[slices.name])
    begins, ends = (
        np.array(times) for times in zip(*((window.host_start, window.end) for window in side.windows), strict=True)
    )
    return named[inside(begins, ends, slices.start[named])]


def _memory_findings(comparison: ProfileComparison) -> Iterator[Finding]:
    """The peak of what the framework's allocator held, else of what it reserved, if both profiles have it."""
    for amount in ("allocated", "reserved"):
        curves = [side.profile.memory.curve(amount) for side in comparison.sides]
        if curves[0] is None or curves[1] is None:
            continue
        (base_time, base), (new_time, new) = curves[0].peak, curves[1].peak
        if abs(new - base) < max(_MEMORY_SHARE * base, _MEMORY_LEAST):
            continue
        places = (
            Evidence(base_time, base_time, name=amount, side="base"),
            Evidence(new_time, new_time, name=amount, side="new"),
        )  # fmt: skip
        share = (new - base) / base if base else 0.0
        told = _explainer("DIFF.MEMORY", message(f"diff.memory.{amount}", base=base, new=new, share=share), places)
        yield replace(told, severity="low") if new > base else told
        return  # what is reserved follows what is allocated


def _frequency(comparison: ProfileComparison) -> Iterator[Finding]:
    clocks = [_mean_clock(side) for side in comparison.sides]
    if clocks[0] and clocks[1] and abs(clocks[1] - clocks[0]) >= _FREQUENCY_SHARE * clocks[0]:
        yield _explainer("DIFF.FREQ", message("diff.frequency", base=clocks[0], new=clocks[1]))


def _mean_clock(side: MeasuredSide) -> float | None:
    """The mean clock of the AI cores under the kernels of the compared steps, MHz; None where none is recorded."""
    if side.of_tables:
        return None  # no trace, which has the samples
    kernels = side.kernels
    return core_clock(side.trace.counters, side.trace.slices.end[kernels.item], kernels.duration)


def _configuration(comparison: ProfileComparison) -> Iterator[Finding]:
    config = comparison.comparability.config
    if config:
        keys: Sequence[str] = [setting.key for setting in config]
        yield _explainer("DIFF.CONFIG", message("diff.config", count=len(keys), keys=", ".join(keys)))


def _step(comparison: ProfileComparison) -> Iterator[Finding]:
    judged = comparison.step
    if judged.verdict in ("slower", "faster"):
        windows = [side.sample.medoid for side in comparison.sides]
        names: tuple[SideName, SideName] = ("base", "new")
        share = judged.delta / judged.before
        title = message(f"diff.step.{judged.verdict}", delta=judged.delta, share=share)
        places = tuple(
            Evidence(window.start, window.end, name=printable(window.name or ""), side=name)
            for name, window in zip(names, windows, strict=True)
        )
        yield _explainer("DIFF.STEP", title, places, judged.delta)
