"""Findings about kernels that only move data: format conversions, and slow vector kernels.

Rules F11 and F24 of the collected diagnosis rules; step 7 of the 20-step tuning checklist.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_tui.analysis.kernels import KernelTable
from npu_tui.analysis.replay import Change, TaskCut
from npu_tui.analysis.thresholds import Threshold
from npu_tui.rules import pages
from npu_tui.rules.facts import Facts
from npu_tui.rules.inputs import I64, length_of
from npu_tui.rules.kernels import longest_kernels, title_of
from npu_tui.rules.rule import SEVERITY_HIGH, SEVERITY_MEDIUM, Draft, Rule, severity_of
from npu_tui.trace.message import message
from npu_tui.trace.text import brief

_CONVERSIONS = ("transdata", "transpose")
_VECTOR = ("AI_VECTOR_CORE", "MIX_AIV")
_LISTED = 4
_BEST = 90.0
"""Percentile of the speeds of large vector kernels that the device is known to reach."""
_FEWEST = 5

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
    times = {key: int(table.duration[own].sum()) for key, own in groups.items()}
    order = sorted(groups, key=lambda key: -times[key])
    # At best none of them is needed.
    items = table.item[rows]
    items = items[items >= 0]
    removes = facts.span_of(items)
    return Draft(
        severity_of(facts, facts.share(length_of(removes))),
        message("finding.formats.title", count=len(rows), time=time, share=time / total),
        message(
            "finding.formats.detail",
            groups=[
                message(
                    "finding.formats.group", source=key[0], target=key[1], before=brief(key[2]), after=brief(key[3]),
                    count=len(groups[key]), time=times[key],
                )
                for key in order[:_LISTED]
            ],
        ),
        longest_kernels(
            facts,
            table,
            rows,
            lambda row: message(
                "finding.formats.place",
                source=(table.formats.at(row) or "?").split(";")[0],
                target=(into.at(row) or "?").split(";")[0],
            ),
        ),
        removes=removes if len(items) else None,
        confidence="medium",
        change=Change(tasks=(TaskCut(items),)) if len(items) else None,
    )  # fmt: skip


def _neighbours(table: KernelTable, converting: npt.NDArray[np.bool_]) -> tuple[I64, I64]:
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
    own = table.core.where(lambda core: core in _VECTOR) & (table.bytes >= limits[VECTOR_MB] * 1e6)
    speed = table.speed
    rows = np.flatnonzero(own & np.isfinite(speed))
    if len(rows) < (1 if limits[MEMORY_GB_S] else _FEWEST):
        return None
    best = limits[MEMORY_GB_S] or float(np.percentile(speed[rows], _BEST))
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
        "OP.FORMAT",
        cls="compute",
        inputs=("kernel_details",),
        check=formats,
        thresholds=(FORMAT_SHARE, SEVERITY_MEDIUM, SEVERITY_HIGH),
        advice=("formats", "formats_group"),
        pages=(pages.ADVISOR,),
        sources=("20-step tuning checklist 2-16",),
        reach="cause",
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
