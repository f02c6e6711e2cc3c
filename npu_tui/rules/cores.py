"""Findings about how kernels use the cores and their pipes, by kernel_details.csv: block dim, what binds, MFU."""

from __future__ import annotations

import re
from math import prod

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.kernels import KernelTable, is_half, matrix_flops, sides_of_shapes
from npu_tui.analysis.launches import operation_of
from npu_tui.analysis.limits import (
    ANOTHER_KIND,
    BEST_PERCENTILE,
    ENOUGH,
    EVEN,
    HALF,
    MORE_THAN_ONE,
    NEARLY_ALL,
    Threshold,
)
from npu_tui.analysis.ranges import PHASES, phases
from npu_tui.analysis.replay import Change, TaskCut
from npu_tui.rules import pages
from npu_tui.rules.compute import lines_by
from npu_tui.rules.facts import CUBE, PEAK_TFLOPS, Facts, once_per_device
from npu_tui.rules.inputs import MOST_PLACES
from npu_tui.rules.kernels import cheaper_kernels, longest_kernels, most_time
from npu_tui.rules.launching import SMALL_KERNEL_US
from npu_tui.rules.rule import GRADES, LISTED, SEVERITY_MEDIUM, Draft, Rule, about, advise, ranked, severity_of
from npu_tui.rules.sequences import CHAIN_FROM
from npu_tui.trace.arrays import F64, I64, Bools
from npu_tui.trace.message import message
from npu_tui.trace.text import brief

_CUBE, VECTOR_KINDS = ("AI_CORE", "MIX_AIC"), ("AI_VECTOR_CORE", "MIX_AIV")
_LONG_US = 5.0
"""Shorter kernels take part of their time to start, so their cycles do not give the clock."""
_MOST_CORES = 64
"""No device has more cores of one kind (Ascend 910B2: 48 vector cores), so more blocks run in rounds."""

KERNEL_SHARE = Threshold("kernel_share", 0.1)


def _on(table: KernelTable, cores: tuple[str, ...]) -> Bools:
    return table.core.where(lambda core: core in cores)


@once_per_device
def _idle(facts: Facts) -> tuple[F64, Bools]:
    """How long the cores of each kernel have no block, ns, and for which kernels that is known; (n,) each."""
    table = facts.kernel_table
    idle = np.zeros(len(table))
    counted = np.zeros(len(table), np.bool_)
    for cores, prefix in ((_CUBE, "aic"), (VECTOR_KINDS, "aiv")):
        on_cores = _on(table, cores) & (table.block_dim > 0)
        if count := _cores(table, on_cores, prefix):
            dim = table.block_dim[on_cores]
            # Whole rounds of all cores: 25 blocks on 24 cores take two, and the second uses one core.
            idle[on_cores] = table.duration[on_cores] * (1.0 - dim / (np.ceil(dim / count) * count))
            counted |= on_cores
    return idle, counted


def on_few_cores(facts: Facts) -> Bools:
    """Which kernels, no small ones, leave nearly all cores without a block; (n,)."""
    table, (idle, _) = facts.kernel_table, _idle(facts)
    few: Bools = idle >= NEARLY_ALL * np.maximum(table.duration, 1)
    return few & (table.duration >= facts.limits[SMALL_KERNEL_US] * 1000)


def block_dim(facts: Facts) -> Draft | None:
    """Kernels whose blocks do not fill the cores: the last round leaves some of them idle."""
    limits, table = facts.limits, facts.kernel_table
    idle, counted = _idle(facts)
    chosen = np.flatnonzero((idle > 0) & (table.duration >= limits[SMALL_KERNEL_US] * 1000))
    if (serial := _serial(facts, np.flatnonzero(on_few_cores(facts)), idle)) is not None:
        return serial
    lost = float(idle[chosen].sum())
    total = int(table.duration[counted].sum())
    if not total or lost < limits[KERNEL_SHARE] * total:
        return None
    rows = chosen[np.argsort(-idle[chosen], kind="stable")]
    return Draft(
        "info",
        *about("block_dim", count=len(chosen), share=lost / total, time=lost, kernels=most_time(table, rows, idle)),
        longest_kernels(
            facts, rows[:MOST_PLACES], lambda row: message("finding.block_dim.place", dim=int(table.block_dim[row]))
        ),
        confidence="low",
    )


def _serial(facts: Facts, rows: I64, idle: F64) -> Draft | None:
    """The kernels at ``rows`` that leave nearly all cores idle, for so long (n,): divided among all they gain that."""
    table, rows = facts.kernel_table, rows[facts.kernel_table.item[rows] >= 0]
    items, keep = table.item[rows], np.ceil(100 * (1 - idle[rows] / table.duration[rows])) / 100
    saved = int(idle[rows].sum())
    if facts.share(saved) < facts.limits[SEVERITY_MEDIUM]:
        return None
    lines = ranked(lines_by(facts, operation_of(facts.trace, items), facts.length(items)), LISTED)
    longest = int(rows[np.argmax(table.duration[rows])])
    words = {
        "name": brief(table.type.at(longest) or table.name.at(longest) or "", 40), "dim": int(table.block_dim[longest]),
        "count": len(rows), "each": facts.per_unit(saved), "kernels": most_time(table, rows, table.duration),
    }  # fmt: skip
    return Draft(
        severity_of(facts.limits, facts.share(saved)),
        *about("serial", **words),
        longest_kernels(facts, rows, lambda row: message("finding.block_dim.place", dim=int(table.block_dim[row]))),
        advise("serial", "deterministic"),
        facts.span_of(items),
        confidence="medium",
        code_lines=tuple(line for line, _ in lines),
        change=Change(tasks=tuple(TaskCut(items[keep == share], share) for share in np.unique(keep).tolist())),
        most=saved,
        reach="cause",
    )


def _cores(table: KernelTable, rows: Bools, prefix: str) -> int:
    """The most cores that kernels use at the same time, 0 if unknown.

    The cycles of a kernel are summed over its cores, so cycles / (time x clock) is the number of cores in use. The
    clock comes from kernels with few blocks, which have a core for each block. Without cycles the largest Block Dim
    counts.
    """
    rates, clocks = _rates(table, rows, prefix)
    if len(rates):
        return round(float(rates.max() / np.percentile(clocks, BEST_PERCENTILE, method="higher")))
    single = table.block_dim[rows & (table.block_dim <= _MOST_CORES)]
    return int(single.max(initial=0))


def _rates(table: KernelTable, rows: Bools, prefix: str) -> tuple[F64, F64]:
    """Cycles a us of the kernels in ``rows`` that are long enough for it, and those of each of their blocks; (m,)."""
    cycles = table.measured(f"{prefix}_total_cycles")
    time = table.measured("aicore_time_us" if prefix == "aic" else "aiv_time_us")
    known = rows & (cycles > 0) & (time >= _LONG_US)
    rates = cycles[known] / time[known]  # blocks that end early have less than the clock, later rounds have less
    return rates, rates / table.block_dim[known]


def counted_clock(facts: Facts) -> float | None:
    """The clock by which the profiler turned cycles of cube cores into times, MHz; None where they do not agree on one.

    It is the one of the device's info.json, which cores have where nothing holds them back.
    """
    table = facts.kernel_table
    _, clocks = _rates(table, _on(table, _CUBE) & (table.block_dim > 0), "aic")
    if len(clocks) < ENOUGH:
        return None
    clock = float(np.percentile(clocks, BEST_PERCENTILE, method="higher"))
    agree = np.count_nonzero(np.abs(clocks - clock) <= EVEN * clock)
    return clock if agree >= HALF * len(clocks) else None


MTE2_CUBE = Threshold("mte2_cube", 0.95)
MTE2_VECTOR = Threshold("mte2_vector", 0.7)
MAC_BOUND = Threshold("mac_bound", 0.8)
VEC_BOUND = Threshold("vec_bound", 0.75)
_PIPES = ("mac", "mte2", "vec")


def reading(facts: Facts) -> Bools:
    """Which kernels of the table wait for data more than they compute; (n,)."""
    limits, table = facts.limits, facts.kernel_table
    cube, vector = table.measured("aic_mte2_ratio"), table.measured("aiv_mte2_ratio")
    plain = table.measured("mte2_ratio")  # older chips have one kind of core, and no prefix
    matrix = table.type.where(lambda kind: CUBE.search(kind) is not None)
    cube, vector = np.fmax(cube, np.where(matrix, plain, np.nan)), np.fmax(vector, np.where(matrix, np.nan, plain))
    return np.asarray((cube >= limits[MTE2_CUBE]) | (vector >= limits[MTE2_VECTOR]))


def pipes(facts: Facts) -> Draft | None:
    """The pipe of the core that binds most kernels, with their shapes; MEM.BW is about those that read."""
    limits, table = facts.limits, facts.kernel_table
    cube, vector = _on(table, _CUBE), _on(table, VECTOR_KINDS)
    measured = [table.ratios[name] for name in _PIPES]
    known = (cube | vector) & np.isfinite(measured).any(axis=0)
    ratios = {name: np.nan_to_num(ratio).tolist() for name, ratio in zip(_PIPES, measured, strict=True)}
    bound = {
        "mac": known & cube & (table.ratios["mac"] >= limits[MAC_BOUND]),
        "mte2": known & reading(facts),
        "vec": known & vector & (table.ratios["vec"] >= limits[VEC_BOUND]),
    }
    total = int(table.duration[known].sum())
    if not total:
        return None
    none = known & ~np.logical_or.reduce(list(bound.values()))
    times = {name: int(table.duration[rows].sum()) for name, rows in {**bound, "none": none}.items()}
    shares = {name: time / total for name, time in times.items()}
    top = max(times, key=lambda name: times[name])
    # Reading is the subject of MEM.BW.
    if top == "mte2" or times[top] < limits[KERNEL_SHARE] * total:
        return None
    rows = np.flatnonzero(none if top == "none" else bound[top])
    return Draft(
        "info",
        message(f"finding.pipes.title.{top}", share=shares[top]),
        message("finding.pipes.detail", kernels=most_time(table, rows, table.duration), **shares),
        longest_kernels(
            facts, rows, lambda row: message("finding.pipes.place", **{name: at[row] for name, at in ratios.items()})
        ),
        advise(f"pipes_{top}"),
    )


def utilized(facts: Facts) -> Draft | None:
    """What share of its peak the device reaches in matrix products, and over all its time."""
    table, peak = facts.kernel_table, facts.peak_tflops * 1e3
    flops = matrix_flops(table)
    rows = np.flatnonzero(np.isfinite(flops) & (table.duration > 0))
    if not facts.limits[PEAK_TFLOPS]:  # the peaks of chips are those of one type
        rows = rows[table.dtypes.where(is_half)[rows]]
    if not len(rows):
        return None
    total, time = float(flops[rows].sum()), int(table.duration[rows].sum())
    total_time = facts.total or int(table.duration.sum())
    reached = flops / np.maximum(table.duration, 1) / peak
    slow = rows[np.argsort(reached[rows], kind="stable")]
    return Draft(
        "info",
        *about(
            "mfu",
            mfu=total / total_time / peak if total_time else 0.0,
            share=total / time / peak,
            count=len(rows),
            tflops=total / 1e12,
            peak=facts.peak_tflops,
            kernels=most_time(table, slow[: max(len(slow) // 4, 1)], table.duration),
        ),
        longest_kernels(facts, rows, lambda row: message("finding.mfu.place", share=float(reached[row])), 5),
        confidence="medium",
    )


_LONGEST_ROUND = 12
"""Kernels that a loop launches in a round: an expert has three forward and five backward, more with biases."""
_OF_LAYERS = re.compile(r"norm|attention|softmax", re.IGNORECASE)
"""What each layer of a model has, and no expert."""


def small_products(facts: Facts) -> tuple[Draft, ...]:
    """Products that leave the cube idle as they are small: in loops over experts, else in several passes of a step."""
    table = facts.kernel_table
    product = table.type.where(lambda kind: CUBE.search(kind) is not None and "attention" not in kind.lower())
    bound = table.ratios["mac"] * table.duration / facts.limits[MAC_BOUND]
    small = product & table.dtypes.where(is_half) & (table.item >= 0) & (bound < table.duration)
    looped = small & _in_loops(facts, product)
    drafts = (_of_experts(facts, looped, bound), _of_passes(facts, small & ~looped, bound))
    return tuple(draft for draft in drafts if draft is not None)


def _in_loops(facts: Facts, product: Bools) -> Bools:
    """Which kernels of the table are launched in rounds of the same types and shapes, one after another; (n,).

    Rounds with a product, and with nothing that a layer has: layers come one after another, too.
    """
    table = facts.kernel_table
    stream = table.details.get("stream")
    order = np.lexsort((table.start, np.zeros(len(table)) if stream is None else stream.code))
    key = (table.type.code.astype(np.int64) * (len(table.shapes.values) + 1) + table.shapes.code)[order]
    layered = table.type.where(lambda kind: _OF_LAYERS.search(kind) is not None)[order]
    found = np.zeros(len(table), np.bool_)
    for length in range(1, _LONGEST_ROUND + 1):
        same = np.append(key[length:] == key[:-length], np.zeros(min(length, len(key)), np.bool_))[: len(key)]
        edges = np.diff(same.astype(np.int8), prepend=0, append=0)
        for first, last in zip(np.flatnonzero(edges == 1).tolist(), np.flatnonzero(edges == -1).tolist(), strict=True):
            rows = slice(first, last + length)
            if last - first >= (CHAIN_FROM - 1) * length and product[order[rows]].any() and not layered[rows].any():
                found[order[rows]] = True
    return found


def _of_experts(facts: Facts, looped: Bools, bound: F64) -> Draft | None:
    rows, note = np.flatnonzero(looped), message("finding.grouped.place")
    if not len(rows):
        return None
    table = facts.kernel_table
    each = round(len(rows) / facts.count / max(len({table.shapes.at(row) for row in rows.tolist()}), 1))
    return cheaper_kernels(
        facts, rows, bound[rows], "grouped.{}", lambda row: note, advise("grouped_products"), "medium", calls=each,
        bound=facts.limits[MAC_BOUND], reached=_reached(facts, rows),
    )  # fmt: skip


def _of_passes(facts: Facts, small: Bools, bound: F64) -> Draft | None:
    """The draft about several passes of a step: one pass over as many rows has each of them once."""
    table = facts.kernel_table
    phase = np.full(len(table), PHASES.index("neither"))
    phase[table.item >= 0] = phases(facts.trace, table.item[table.item >= 0])
    passing = np.isin(phase, (PHASES.index("forward"), PHASES.index("backward")))
    order = np.argsort(table.start, kind="stable")
    order = order[passing[order]]
    turns = np.count_nonzero(np.diff((phase[order] == PHASES.index("backward")).astype(np.int8)) == 1)
    passes = round(turns / max(facts.count, 1))
    small = small & passing
    if passes < MORE_THAN_ONE or not small.any() or _sends(facts):
        return None
    wide = passing & ~small & (table.item >= 0) & _of_weights(facts)
    expected = np.where(wide, table.duration / passes, bound)
    rows, note = np.flatnonzero(small | wide), message("finding.passes.place")
    draft = cheaper_kernels(
        facts, rows, expected[rows], "passes.{}", lambda row: note, advise("larger_micro_batch"), "medium",
        passes=passes, bound=facts.limits[MAC_BOUND], reached=_reached(facts, np.flatnonzero(small)),
    )  # fmt: skip
    if draft is None or draft.change is None:
        return draft
    # As many fewer kernels are launched, and have gaps before them.
    items = table.item[passing & (table.item >= 0)]
    operations = operation_of(facts.trace, items)
    fewer = facts.without_operations(np.unique(operations[operations >= 0]), 1 / passes)
    fewer |= Change(tasks=(TaskCut(items, 1 / passes, gap=True),))
    return replace(draft, change=draft.change | fewer, anywhere=True, code_lines=())


def _of_weights(facts: Facts) -> Bools:
    """Which kernels write far more than they read of the batch, as the gradient of an embedding; (n,)."""
    table = facts.kernel_table
    known = [prod(sides_of_shapes(text)[0]) for text in (*table.shapes.values, "")]
    left = [prod(sides_of_shapes(text)[0]) for text in (*table.outputs.values, "")]
    read, written = np.array(known)[table.shapes.code], np.array(left)[table.outputs.code]
    wide: Bools = (read > 1) & (written >= ANOTHER_KIND * read)
    return wide


def _sends(facts: Facts) -> bool:
    """Whether stages of a pipeline send to each other: their micro batches are what keeps all of them at work."""
    types = facts.collectives.types
    return any(re.search("send|recv|receive", types[kind], re.IGNORECASE) for kind in np.unique(facts.collectives.type))


def _reached(facts: Facts, rows: I64) -> float:
    """The mean mac_ratio of the kernels at ``rows``."""
    table = facts.kernel_table
    return float(np.average(table.ratios["mac"][rows], weights=np.maximum(table.duration[rows], 1)))


RULES: tuple[Rule, ...] = (
    Rule(
        "KERNEL.CORES",
        cls="compute",
        inputs=("kernel_details",),
        check=block_dim,
        thresholds=(SMALL_KERNEL_US, KERNEL_SHARE),
        advice=("block_dim", "larger_shapes", "serial", "deterministic"),
        pages=(pages.ADVISOR,),
        sources=("msprof-analyze advisor: block dim", "20-step tuning checklist 2-23"),
        reach="place",
    ),
    Rule(
        "KERNEL.PIPE",
        cls="compute",
        inputs=("pmu",),
        check=pipes,
        thresholds=(MAC_BOUND, VEC_BOUND, MTE2_CUBE, MTE2_VECTOR, KERNEL_SHARE),
        advice=("pipes_mac", "pipes_vec", "pipes_none"),
        pages=(pages.ADVISOR,),
        sources=("msprof-analyze advisor: AI core performance",),
        reach="place",
    ),
    Rule(
        "MFU",
        cls="compute",
        inputs=("peak",),
        check=utilized,
        thresholds=(PEAK_TFLOPS,),
        advice=("mfu",),
        pages=(pages.ADVISOR,),
        sources=("msprof-analyze: operator_mfu",),
        words=("utilization",),
    ),
    Rule(
        "KERNEL.PRODUCTS",
        cls="compute",
        inputs=("device", "overlap", "kernel_details", "pmu"),
        check=small_products,
        thresholds=(MAC_BOUND, *GRADES),
        advice=("grouped_products", "larger_micro_batch"),
        pages=(pages.ADVISOR, pages.FUSED),
        change="""\
-for expert, rows in zip(experts, split):
-    outs.append(expert(rows))
+out = torch_npu.npu_grouped_matmul([rows], weights, group_list=counts, group_type=0, split_item=2)
""",
        sources=("msprof-analyze advisor: AI Core performance", "20-step tuning checklist 2-23"),
        reach="cause",
    ),
)
