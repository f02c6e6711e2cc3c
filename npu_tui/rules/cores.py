"""Findings about how kernels use the cores and their pipes, by kernel_details.csv: block dim, what binds, MFU."""

from __future__ import annotations

import numpy as np

from npu_tui.analysis.kernels import KernelTable, is_half, matrix_flops
from npu_tui.analysis.launches import operation_of
from npu_tui.analysis.limits import BEST_PERCENTILE, ENOUGH, EVEN, HALF, NEARLY_ALL, Threshold
from npu_tui.analysis.replay import Change, TaskCut
from npu_tui.rules import pages
from npu_tui.rules.compute import lines_by
from npu_tui.rules.facts import CUBE, PEAK_TFLOPS, Facts, once_per_device
from npu_tui.rules.inputs import MOST_PLACES
from npu_tui.rules.kernels import longest_kernels, most_time
from npu_tui.rules.launching import SMALL_KERNEL_US
from npu_tui.rules.rule import LISTED, SEVERITY_MEDIUM, Draft, Rule, about, advise, ranked, severity_of
from npu_tui.trace.arrays import F64, I64, Bools
from npu_tui.trace.message import message
from npu_tui.trace.text import brief

_CUBE, VECTOR_KINDS = ("AI_CORE", "MIX_AIC"), ("AI_VECTOR_CORE", "MIX_AIV")
_LONG_US = 5.0
"""Shorter kernels take part of their time to start, so their cycles do not tell the clock."""
_MOST_CORES = 64
"""No device has more cores of one kind (Ascend 910B2: 48 vector cores), so more blocks run in rounds."""

KERNEL_SHARE = Threshold("kernel_share", 0.1)


def _on(table: KernelTable, cores: tuple[str, ...]) -> Bools:
    return table.core.where(lambda core: core in cores)


@once_per_device
def _idle(facts: Facts) -> tuple[F64, Bools]:
    """For how much of each kernel its cores have no block, ns, and of which kernels that is known; (n,) each."""
    table = facts.kernel_table
    idle = np.zeros(len(table))
    counted = np.zeros(len(table), np.bool_)
    for cores, prefix in ((_CUBE, "aic"), (VECTOR_KINDS, "aiv")):
        on_cores = _on(table, cores) & (table.block_dim > 0)
        if count := _cores(table, on_cores, prefix):
            dim = table.block_dim[on_cores]
            # Whole rounds of all cores: 25 blocks on 24 cores take two, of which the second uses one core.
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
    """Cycles a us of the kernels in ``rows`` that are long enough to tell, and those of each of their blocks; (m,)."""
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
    # Reading is what MEM.BW tells about.
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
)
