"""Findings about how kernels use the cores, by kernel_details.csv and l2_cache.csv.

Rules F22 and F24 of the collected diagnosis rules: block dim, AI CPU, AI core performance of msprof-analyze's advisor.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_tui.analysis.work.joined.flops import matrix_flops
from npu_tui.analysis.work.joined.kernels import KernelTable, is_wide
from npu_tui.analysis.work.joined.peaks import is_half
from npu_tui.rules.facts.facts import Facts
from npu_tui.rules.facts.spans import I64
from npu_tui.rules.phrases import advise, timed
from npu_tui.rules.places import longest_kernels, title_of
from npu_tui.rules.rule import Draft, Rule
from npu_tui.trace.message import Message, message

F64 = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_CUBE, _VECTOR = ("AI_CORE", "MIX_AIC"), ("AI_VECTOR_CORE", "MIX_AIV")
_LISTED = 4
_LONG_US = 5.0
"""Shorter kernels take part of their time to start."""
_CLOCK = 90.0
"""Percentile of cycles by time and block that is the clock: blocks that end early have less, later rounds have less."""
_MOST_CORES = 64
"""More blocks than any device has cores of one kind run in rounds."""


def _on(table: KernelTable, cores: tuple[str, ...]) -> Bools:
    return table.core.where(lambda core: core in cores)


def block_dim(facts: Facts) -> Draft | None:
    """Kernels whose blocks do not fill the cores: the last round leaves some of them idle."""
    limits, table = facts.limits, facts.kernel_table
    idle = np.zeros(len(table))
    counted = np.zeros(len(table), np.bool_)
    for cores, limit, prefix in ((_CUBE, limits.cube_cores, "aic"), (_VECTOR, limits.vector_cores, "aiv")):
        own = _on(table, cores) & (table.block_dim > 0)
        count = limit or _cores(table, own, prefix)
        if not own.any() or not count:
            continue
        dim = table.block_dim[own]
        idle[own] = table.duration[own] * (1.0 - dim / (np.ceil(dim / count) * count))
        counted |= own
    total = int(table.duration[counted].sum())
    chosen = np.flatnonzero((idle > 0) & (table.duration >= limits.block_dim_us * 1000))
    lost = float(idle[chosen].sum())
    if not total or not len(chosen) or lost < limits.block_dim_share * total:
        return None
    rows = chosen[np.argsort(-idle[chosen], kind="stable")]
    return Draft(
        "info",
        message("finding.block_dim.title", count=len(chosen), share=lost / total),
        message("finding.block_dim.detail", time=lost, kernels=_most(table, rows, idle)),
        longest_kernels(
            facts, table, rows[:10], lambda row: message("finding.block_dim.place", dim=int(table.block_dim[row]))
        ),
        advise("block_dim", "larger_shapes"),
        confidence="medium" if limits.cube_cores and limits.vector_cores else "low",
    )


def _cores(table: KernelTable, own: Bools, prefix: str) -> int:
    """How many cores kernels use at the same time at most, 0 if unknown.

    The cycles of a kernel are those of all its cores: over its time and the clock they give the cores in use. Kernels
    with few blocks, each on a core of its own, give the clock. Without cycles the largest Block Dim counts.
    """
    cycles = table.measured(f"{prefix}_total_cycles")
    time = table.measured("aicore_time_us" if prefix == "aic" else "aiv_time_us")
    known = own & (cycles > 0) & (time >= _LONG_US)
    if known.any():
        clock = float(np.percentile(cycles[known] / time[known] / table.block_dim[known], _CLOCK, method="higher"))
        return round(float((cycles[known] / time[known]).max()) / clock)
    single = table.block_dim[own & (table.block_dim <= _MOST_CORES)]
    return int(single.max(initial=0))


def _most(table: KernelTable, rows: I64, time: F64) -> list[Message]:
    """Types and shapes of ``rows`` with their sums of ``time``, the most first."""
    sums: dict[str, float] = {}
    for row in rows.tolist():
        title = title_of(table, row)
        sums[title] = sums.get(title, 0.0) + float(time[row])
    return [timed(title, sums[title]) for title in sorted(sums, key=lambda title: -sums[title])[:_LISTED]]


def ai_cpu(facts: Facts) -> Draft | None:
    """Kernels that run on the AI CPU as the AI core has none for their data types."""
    table = facts.kernel_table
    on_cpu = table.core.where(lambda core: core == "AI_CPU") & (table.duration >= facts.limits.ai_cpu_us * 1000)
    wide = on_cpu & table.dtypes.where(is_wide)
    rows = np.flatnonzero(wide)
    if not len(rows):
        return None
    kinds: dict[str, float] = {}
    for row in rows.tolist():
        name = f"{table.type.at(row) or table.name.at(row)} ({(table.dtypes.at(row) or '').replace(';', ', ')})"
        kinds[name] = kinds.get(name, 0.0) + float(table.duration[row])
    listed = sorted(kinds, key=lambda name: -kinds[name])[:_LISTED]
    return Draft(
        "low",
        message("finding.ai_cpu.title", count=len(rows), time=int(table.duration[rows].sum())),
        message("finding.ai_cpu.detail", names=[timed(name, kinds[name]) for name in listed]),
        longest_kernels(
            facts, table, rows, lambda row: message("finding.ai_cpu.place", dtypes=table.dtypes.at(row) or "")
        ),
        advise("narrow_types"),
    )


def pipes(facts: Facts) -> Draft | None:
    """Which pipe of the core kernels are bound by, and the shapes of those kernels."""
    limits, table = facts.limits, facts.kernel_table
    cube, vector = _on(table, _CUBE), _on(table, _VECTOR)
    mte2, mac, vec = (table.ratios[name] for name in ("mte2", "mac", "vec"))
    known = (cube | vector) & (np.isfinite(mte2) | np.isfinite(mac) | np.isfinite(vec))
    bound = {
        "mac": known & cube & (mac >= limits.mac_bound),
        "mte2": known & ((cube & (mte2 >= limits.mte2_cube)) | (vector & (mte2 >= limits.mte2_vector))),
        "vec": known & vector & (vec >= limits.vec_bound),
    }
    total = int(table.duration[known].sum())
    if not total:
        return None
    none = known & ~np.logical_or.reduce(list(bound.values()))
    time = {name: int(table.duration[rows].sum()) for name, rows in {**bound, "none": none}.items()}
    top = max(time, key=lambda name: time[name])
    if time[top] < limits.pipe_share * total:
        return None
    rows = np.flatnonzero(none if top == "none" else bound[top])
    return Draft(
        "info",
        message(f"finding.pipes.title.{top}", share=time[top] / total),
        message(
            "finding.pipes.detail",
            mac=time["mac"] / total,
            mte2=time["mte2"] / total,
            vec=time["vec"] / total,
            none=time["none"] / total,
            kernels=_most(table, rows, table.duration.astype(np.float64)),
        ),
        longest_kernels(
            facts,
            table,
            rows,
            lambda row: message(
                "finding.pipes.place", mac=_share(mac[row]), mte2=_share(mte2[row]), vec=_share(vec[row])
            ),
        ),
        advise(f"pipes_{top}"),
    )


def _share(value: float) -> float:
    return float(value) if np.isfinite(value) else 0.0


def cache(facts: Facts) -> Draft | None:
    """Kernels that find little of their data in the L2 cache."""
    limits, table = facts.limits, facts.kernel_table
    rate = table.hit_rate
    known = np.isfinite(rate)
    rate = np.where(known & (rate > 1.0), rate / 100.0, rate)  # newer writers give percent
    total = int(table.duration[known].sum())
    low = known & (rate < limits.l2_hit)
    time = int(table.duration[low].sum())
    if not total or time < limits.l2_share * total:
        return None
    rows = np.flatnonzero(low)
    mean = float((rate[known] * table.duration[known]).sum() / total)
    return Draft(
        "info",
        message("finding.cache.title", share=time / total, least=limits.l2_hit),
        message("finding.cache.detail", mean=mean, kernels=_most(table, rows, table.duration.astype(np.float64))),
        longest_kernels(facts, table, rows, lambda row: message("finding.cache.place", rate=float(rate[row]))),
        advise("cache_tiling"),
    )


def utilized(facts: Facts) -> Draft | None:
    """What share of its peak the device reaches in matrix products, and over all its time."""
    table, peak = facts.kernel_table, facts.peak_tflops * 1e3
    flops = matrix_flops(table)
    rows = np.flatnonzero(np.isfinite(flops) & (table.duration > 0))
    if not facts.limits.peak_tflops:  # the peaks of chips are those of one type
        rows = rows[[is_half(table.dtypes, row) for row in rows.tolist()]]
    if not len(rows):
        return None
    total, time = float(flops[rows].sum()), int(table.duration[rows].sum())
    whole = facts.total or int(table.duration.sum())
    reached = flops / np.maximum(table.duration, 1) / peak
    slow = rows[np.argsort(reached[rows] * 1.0, kind="stable")]
    return Draft(
        "info",
        message("finding.mfu.title", mfu=total / whole / peak if whole else 0.0),
        message(
            "finding.mfu.detail",
            share=total / time / peak,
            count=len(rows),
            tflops=total / 1e12,
            peak=facts.peak_tflops,
            kernels=_most(table, slow[: max(len(slow) // 4, 1)], table.duration.astype(np.float64)),
        ),
        longest_kernels(facts, table, rows, lambda row: message("finding.mfu.place", share=float(reached[row])), 5),
        advise("mfu"),
        confidence="medium",
    )


RULES = (
    Rule(
        "KERNEL.CORES",
        "compute",
        ("kernel_details",),
        block_dim,
        ("block_dim_us", "block_dim_share", "cube_cores", "vector_cores"),
        ("msprof-analyze advisor: block dim", "20-step tuning checklist 2-23"),
        reach="place",
    ),
    Rule(
        "KERNEL.AICPU",
        "compute",
        ("kernel_details",),
        ai_cpu,
        ("ai_cpu_us",),
        ("msprof-analyze advisor: AICPU",),
        reach="cause",
    ),
    Rule(
        "KERNEL.PIPE",
        "compute",
        ("pmu",),
        pipes,
        ("mac_bound", "vec_bound", "mte2_cube", "mte2_vector", "pipe_share"),
        ("msprof-analyze advisor: AI core performance",),
        reach="place",
    ),
    Rule(
        "MEM.L2",
        "compute",
        ("l2_cache",),
        cache,
        ("l2_hit", "l2_share"),
        ("20-step tuning checklist 2-25",),
        reach="place",
    ),
    Rule("MFU", "compute", ("peak",), utilized, ("peak_tflops",), ("msprof-analyze: operator_mfu",)),
)
