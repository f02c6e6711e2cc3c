"""Products too small for the cube: of small micro batches, or of one expert after another.

A product that fills the cores is bound by the cube (its mac_ratio reaches ``mac_bound``). What smaller ones take beyond
that is their fixed part: filling the pipes, and reading weights for few rows.
"""

from __future__ import annotations

import re
from math import prod

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.kernels import is_half, sides_of_shapes
from npu_tui.analysis.launches import operation_of
from npu_tui.analysis.limits import ANOTHER_KIND, MORE_THAN_ONE
from npu_tui.analysis.ranges import PHASES, phases
from npu_tui.analysis.replay import Change, TaskCut
from npu_tui.rules import pages
from npu_tui.rules.cores import MAC_BOUND
from npu_tui.rules.facts import CUBE, Facts
from npu_tui.rules.kernels import cheaper_kernels
from npu_tui.rules.rule import GRADES, Draft, Rule, advise
from npu_tui.rules.sequences import CHAIN_FROM
from npu_tui.trace.arrays import F64, I64, Bools
from npu_tui.trace.message import message

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
