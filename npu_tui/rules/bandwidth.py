"""Findings about the data that kernels move, by kernel_details.csv and l2_cache.csv: bandwidth, cache, formats.

Rules F24 of the collected diagnosis rules, conversions of formats and slow vector kernels (step 7 of the 20-step tuning
checklist).
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from npu_tui.analysis.kernels import KernelTable
from npu_tui.analysis.replay import Change, TaskCut
from npu_tui.analysis.thresholds import Threshold
from npu_tui.rules import pages
from npu_tui.rules.compute import most_common
from npu_tui.rules.facts import Facts
from npu_tui.rules.inputs import length_of
from npu_tui.rules.kernels import MTE2_CUBE, MTE2_VECTOR, VECTOR_KINDS, longest_kernels, most_time, reading, title_of
from npu_tui.rules.rule import SEVERITY_HIGH, SEVERITY_MEDIUM, Draft, Rule, severity_of
from npu_tui.trace.arrays import I64, Bools
from npu_tui.trace.message import Message, message
from npu_tui.trace.text import brief

_LISTED = 4
MTE2_SHARE = Threshold("mte2_share", 0.1)


def memory_bound(facts: Facts) -> Draft | None:
    """Kernels that wait for data more than they compute."""
    limits = facts.limits
    table = facts.kernel_table
    cores = table.core.where(lambda core: core.startswith(("AI_", "MIX_")) and core != "AI_CPU")
    bound = cores & reading(facts)
    total, waiting = int(table.duration[cores].sum()), int(table.duration[bound].sum())
    if not total or waiting < limits[MTE2_SHARE] * total:
        return None
    names = Counter(table.type.at(k) or "" for k in np.flatnonzero(bound).tolist())
    return Draft(
        "low",
        message("finding.bandwidth.title", share=waiting / total),
        message("finding.bandwidth.detail", time=waiting, share=waiting / total, names=most_common(names)),
        longest_kernels(facts, table, np.flatnonzero(bound), lambda row: message("finding.dominant.place"), 5),
        confidence="medium",
        shown=facts.span_of(table.item[bound & (table.item >= 0)]),
    )


L2_HIT = Threshold("l2_hit", 0.5)
L2_SHARE = Threshold("l2_share", 0.2)


def cache(facts: Facts) -> Draft | None:
    """Kernels that find little of their data in the L2 cache."""
    limits, table = facts.limits, facts.kernel_table
    rate = table.hit_rate
    known = np.isfinite(rate)
    rate = np.where(known & (rate > 1.0), rate / 100.0, rate)  # newer writers give percent
    total = int(table.duration[known].sum())
    low = known & (rate < limits[L2_HIT])
    time = int(table.duration[low].sum())
    if not total or time < limits[L2_SHARE] * total:
        return None
    rows = np.flatnonzero(low)
    mean = float((rate[known] * table.duration[known]).sum() / total)
    return Draft(
        "info",
        message("finding.cache.title", share=time / total, least=limits[L2_HIT]),
        message("finding.cache.detail", mean=mean, kernels=most_time(table, rows, table.duration.astype(np.float64))),
        longest_kernels(facts, table, rows, lambda row: message("finding.cache.place", rate=float(rate[row]))),
    )


_CONVERSIONS = ("transdata", "transpose")
_BEST_PERCENTILE = 90.0
"""Percentile of the speeds of large vector kernels that the device is known to reach."""
_FEWEST_VECTORS = 5

FORMAT_SHARE = Threshold("format_share", 0.05)


def formats(facts: Facts) -> Draft | None:
    """Conversions of formats, by what they convert and the operators on both sides."""
    table = facts.kernel_table
    converting = table.type.where(lambda kind: any(word in kind.lower() for word in _CONVERSIONS))
    into = table.details.get("output_formats")
    rows = np.flatnonzero(converting)
    total = int(table.duration.sum())
    time = int(table.duration[rows].sum())
    if not len(rows) or into is None or not total or time < facts.limits[FORMAT_SHARE] * total:
        return None
    before, after = _neighbours(table, converting)
    groups: dict[tuple[str, str, str, str], list[int]] = {}
    for row in rows.tolist():
        kinds = [(coded.at(row) or "?").split(";")[0] for coded in (table.formats, into)]
        sides = [(table.type.at(side) or "?") if side >= 0 else "–" for side in (int(before[row]), int(after[row]))]
        groups.setdefault((kinds[0], kinds[1], sides[0], sides[1]), []).append(row)
    times = {key: int(table.duration[members].sum()) for key, members in groups.items()}
    listed = [
        message(
            "finding.formats.group",
            source=source, target=target, before=brief(before_name), after=brief(after_name),
            count=len(groups[source, target, before_name, after_name]), time=spent,
        )
        for (source, target, before_name, after_name), spent in Counter(times).most_common(_LISTED)
    ]  # fmt: skip

    def converted(row: int) -> Message:
        source, target = ((coded.at(row) or "?").split(";")[0] for coded in (table.formats, into))
        return message("finding.formats.place", source=source, target=target)

    items = table.item[rows]
    items = items[items >= 0]
    removes = facts.span_of(items)  # at best none of them is needed
    return Draft(
        severity_of(facts.limits, facts.share(length_of(removes))),
        message("finding.formats.title", count=len(rows), time=time, share=time / total),
        message("finding.formats.detail", groups=listed),
        longest_kernels(facts, table, rows, converted),
        removes=removes if len(items) else None,
        confidence="medium",
        change=Change(tasks=(TaskCut(items),)) if len(items) else None,
    )


def _neighbours(table: KernelTable, converting: Bools) -> tuple[I64, I64]:
    """For every kernel the last one before it and the first after it that converts nothing, -1 without one; (n,)."""
    order = np.argsort(table.start, kind="stable")
    plain = np.where(converting[order], -1, np.arange(len(order)))
    last = np.maximum.accumulate(plain)
    following = np.where(converting[order], len(order), np.arange(len(order)))
    first = np.minimum.accumulate(following[::-1])[::-1]
    before, after = np.full(len(order), -1, np.int64), np.full(len(order), -1, np.int64)
    before[order] = np.where(last >= 0, order[np.maximum(last, 0)], -1)
    after[order] = np.where(first < len(order), order[np.minimum(first, len(order) - 1)], -1)
    return before, after


VECTOR_MB = Threshold("vector_mb", 4.0)
VECTOR_SLOW = Threshold("vector_slow", 0.25)
VECTOR_SHARE = Threshold("vector_share", 0.03)
MEMORY_GB_S = Threshold("memory_gb_s", 0.0)


def vectors(facts: Facts) -> Draft | None:
    """Large vector kernels far from the bandwidth that others of them reach."""
    limits, table = facts.limits, facts.kernel_table
    large = table.core.where(lambda core: core in VECTOR_KINDS) & (table.bytes >= limits[VECTOR_MB] * 1e6)
    speed = table.speed
    rows = np.flatnonzero(large & np.isfinite(speed))
    if len(rows) < (1 if limits[MEMORY_GB_S] else _FEWEST_VECTORS):
        return None
    best = limits[MEMORY_GB_S] or float(np.percentile(speed[rows], _BEST_PERCENTILE))
    slow = rows[speed[rows] < limits[VECTOR_SLOW] * best]
    time, total = int(table.duration[slow].sum()), int(table.duration.sum())
    if not len(slow) or time < limits[VECTOR_SHARE] * total:
        return None
    order = slow[np.argsort(-table.duration[slow], kind="stable")]
    titles = list(dict.fromkeys(title_of(table, row) for row in order.tolist()))[:_LISTED]
    return Draft(
        "info",
        message("finding.vectors.title", count=len(slow), share=limits[VECTOR_SLOW], best=best),
        message("finding.vectors.detail", time=time, part=time / total, names=titles),
        longest_kernels(
            facts,
            table,
            slow,
            lambda row: message("finding.vectors.place", speed=float(speed[row]), size=round(float(table.bytes[row]))),
        ),
        confidence="medium" if limits[MEMORY_GB_S] else "low",
    )


RULES: tuple[Rule, ...] = (
    Rule(
        "MEM.BW",
        cls="compute",
        inputs=("pmu",),
        check=memory_bound,
        thresholds=(MTE2_CUBE, MTE2_VECTOR, MTE2_SHARE),
        advice=("bandwidth",),
        pages=(pages.ADVISOR,),
        sources=("operator tuning guide 0-05", "msprof-analyze advisor: AI Core performance"),
    ),
    Rule(
        "MEM.L2",
        cls="compute",
        inputs=("l2_cache",),
        check=cache,
        thresholds=(L2_HIT, L2_SHARE),
        advice=("cache_tiling",),
        pages=(pages.ADVISOR,),
        sources=("20-step tuning checklist 2-25",),
        reach="place",
    ),
    Rule(
        "OP.FORMAT",
        cls="compute",
        inputs=("kernel_details",),
        check=formats,
        thresholds=(FORMAT_SHARE, SEVERITY_MEDIUM, SEVERITY_HIGH),
        advice=("formats", "formats_group"),
        pages=(pages.AFFINITY_CASE, pages.ADVISOR),
        change="""\
-out = f(x.permute(0, 2, 1)) + g(x.permute(0, 2, 1))  # each one copies it
+x = x.permute(0, 2, 1).contiguous()                  # one copy
+out = f(x) + g(x)
""",
        sources=("20-step tuning checklist 2-16",),
        reach="cause",
        words=("contiguous",),
    ),
    Rule(
        "MEM.VECTOR",
        cls="compute",
        inputs=("shapes",),
        check=vectors,
        thresholds=(VECTOR_MB, VECTOR_SLOW, VECTOR_SHARE, MEMORY_GB_S),
        advice=("bandwidth", "vector_layout"),
        pages=(pages.ADVISOR,),
        sources=("operator tuning guide 0-05",),
        reach="place",
    ),
)
