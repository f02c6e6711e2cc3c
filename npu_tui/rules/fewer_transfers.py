"""Findings about collectives that could be left out, or move fewer bytes."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from npu_tui.analysis.collectives import ranks_of_group
from npu_tui.analysis.kernels import SIZES, is_half, sides_of_shapes
from npu_tui.analysis.launches import operation_of
from npu_tui.analysis.limits import ALMOST_ALL, HALF, NAMED
from npu_tui.analysis.replay import Change, TaskCut
from npu_tui.rules import pages
from npu_tui.rules.communication import data_sizes, exposed_of, shortened_collectives, start_costs
from npu_tui.rules.compute import CUBE, lines_by
from npu_tui.rules.facts import Facts
from npu_tui.rules.host_work import cost_of
from npu_tui.rules.inputs import common
from npu_tui.rules.parallelism import gathered_again, is_for, reduced_again, serial
from npu_tui.rules.rule import GRADES, SEVERITY_MEDIUM, Draft, Rule, about, advise, ranked, severity_of
from npu_tui.rules.sequences import CHAIN_FROM
from npu_tui.trace.arrays import I64, Bools
from npu_tui.trace.message import message

_DTYPES, _WIDE = ("data_type", "dtype"), ("FP32", "FLOAT", "FLOAT32")
"""Args with the type of the numbers that a collective moves, on NPUs and on GPUs, and the names of 32-bit ones."""


def needless(facts: Facts) -> tuple[Draft, ...]:
    """Collectives that could be left out, or move half as much.

    Sums of gradients that a later pass makes again, broadcasts in every step, weights that are gathered twice, sums of
    next to nothing in each layer; 32-bit numbers where products compute in 16 bits, rows of an embedding without a
    gradient.
    """
    every, starts = facts.collectives, facts.trace.slices.start
    sent = np.array(["broadcast" in name.lower() for name in every.types] + [False], np.bool_)[every.type]
    repeated = len(np.unique(np.searchsorted(facts.repetitions, starts[every.item[sent]], "right")))
    found = {"again": reduced_again(facts), "sent": every.item[sent] if repeated >= facts.count > 1 else every.item[:0]}
    found["gathered"] = gathered_again(facts)
    found["small"] = _small(facts)
    drafts = [_spared(facts, subject, items, _without_collectives(facts, items)) for subject, items in found.items()]
    wide, spared = _wide(facts), np.zeros(len(every), np.int64)
    spared[wide] = _moving(facts)[wide] // 2
    drafts.append(_spared(facts, "wide", every.item[wide], Change(tasks=shortened_collectives(facts, spared))))
    untouched = _untouched_rows(facts)
    change = Change(tasks=shortened_collectives(facts, untouched))
    drafts.append(_spared(facts, "rows", every.item[untouched > 0], change))
    return tuple(draft for draft in drafts if draft is not None)


def _small(facts: Facts) -> I64:
    """The sums that kernels wait for one after another, and that take longer to start than to move anything.

    They are no gradients, nor parts of a product: the statistics that SyncBatchNorm has in each layer.
    """
    every = facts.collectives
    small = (
        serial(facts)
        & is_for(facts, "other")
        & (start_costs(facts) > HALF * (every.elapsed - np.maximum(every.waited, 0)))
    )
    small &= np.array(["reduce" in name.lower() for name in every.types] + [False], np.bool_)[every.type]
    return every.item[small] if np.count_nonzero(small) >= CHAIN_FROM * facts.count else every.item[:0]


def _wide(facts: Facts) -> Bools:
    """Which collectives move 32-bit numbers while most products compute in 16 bits; (n,)."""
    table, every, trace = facts.kernel_table, facts.collectives, facts.trace
    products = table.type.where(lambda kind: CUBE.search(kind) is not None)
    half = int(table.duration[products & table.dtypes.where(is_half)].sum())
    if not len(every) or half <= HALF * int(table.duration[products].sum()):
        return np.zeros(len(every), np.bool_)
    kinds = trace.args.columns(trace.slices.event[every.item], _DTYPES)
    return np.array(
        [str(npu or gpu).upper() in _WIDE for npu, gpu in zip(*(kind.objects for kind in kinds), strict=True)]
    )


def _moving(facts: Facts) -> I64:
    """How long each collective moves data, once all ranks have come and it has started, ns; (n,)."""
    every = facts.collectives
    moving = facts.length(every.item) - np.maximum(every.waited, 0) - start_costs(facts)
    return np.rint(moving).astype(np.int64).clip(0)


def _untouched_rows(facts: Facts) -> I64:
    """How much of its transfer each sum of gradients takes for rows of an embedding that no rank's tokens touch, ns.

    It follows the kernel of the gradient, whose indices are the tokens, and has as many bytes. Gathering rows instead
    moves those of each rank to all others. A table that the head multiplies by too has a gradient in all rows; (n,).
    """
    table, every, starts = facts.kernel_table, facts.collectives, facts.trace.slices.start
    saved, size, moving = np.zeros(len(every), np.int64), data_sizes(facts), _moving(facts)
    sums = np.flatnonzero((is_for(facts, "gradients") | is_for(facts, "shards")) & (size > 0))
    sums = sums[np.argsort(starts[every.item[sums]], kind="stable")]
    adds = table.type.where(lambda kind: kind.lower().removeprefix("inplace").startswith("add"))
    added = {table.outputs.at(row) for row in np.flatnonzero(adds).tolist()}
    rows = np.flatnonzero(table.type.where(lambda kind: kind.startswith("EmbeddingDenseGrad")))
    ends = table.start[rows] + table.duration[rows]
    until = np.append(ends[1:], facts.trace.end)[: len(ends)]
    for row, low, high in zip(rows.tolist(), ends.tolist(), until.tolist(), strict=True):
        read, made = (sides_of_shapes(column.at(row)) for column in (table.shapes, table.outputs))
        if len(read) < 2 or len(made[0]) != 2 or table.outputs.at(row) in added:
            continue
        width = SIZES.get((table.dtypes.at(row) or "").split(";")[0].strip().removeprefix("DT_"), 0)
        part, begin = math.prod(made[0]) * width / size[sums], starts[every.item[sums]]
        # Sums of other gradients may still be waiting for their turn: that of the first layer is the last.
        own = sums[(begin >= low) & (begin < high) & (part >= ALMOST_ALL) & (part <= 1 / ALMOST_ALL)]
        for one in own[-1:].tolist():
            lane = facts.trace.lanes[int(facts.trace.slices.lane[every.item[one]])].name
            ranks = len(ranks_of_group(lane, facts.inputs.setup.groups))
            # A ring moves all rows twice, and where they are gathered those of each rank once.
            less = max(1 - ranks * math.prod(read[1]) / (2 * made[0][0]), 0.0)
            saved[one] = int(moving[one] * less) if ranks > 1 else 0
    return saved


def _without_collectives(facts: Facts, items: I64) -> Change:
    """Nothing launches the collectives ``items``, and their stream does not wait."""
    calls = operation_of(facts.trace, items)
    return Change(tasks=(TaskCut(items), TaskCut(items, gap=True))) | facts.without_operations(calls[calls >= 0])


def _spared(facts: Facts, subject: str, items: I64, change: Change) -> Draft | None:
    """The draft about the collectives ``items``, by what the run gains with ``change``."""
    removes = common(facts.exposed, facts.span_of(items))
    cost = cost_of(facts, change, removes) if len(items) else 0
    if not cost or facts.share(cost) < facts.limits[SEVERITY_MEDIUM]:
        return None
    every, calls = facts.collectives, operation_of(facts.trace, items)
    chosen = np.isin(every.item, items)
    # Names with and without ``_`` at the end are one operation to a reader.
    kinds = Counter(every.types[kind].rstrip("_") for kind in every.type[chosen].tolist())
    words = {"count": round(len(items) / facts.count), "unit": facts.unit, "time": cost / facts.count}
    words |= {
        "size": int(every.size[chosen].clip(0).sum()) // facts.count,
        "names": [name for name, _ in ranked(kinds, NAMED)],
    }
    lines = ranked(lines_by(facts, calls[calls >= 0], np.ones(np.count_nonzero(calls >= 0))), NAMED)
    return Draft(
        severity_of(facts.limits, facts.share(cost)),
        *about(f"needless.{subject}", **words),
        facts.longest(items, lambda item: message("finding.exposed.place", time=exposed_of(facts, item))),
        advise(_ADVICE[subject]),
        removes=removes,
        confidence="medium" if subject in ("wide", "rows") else "high",
        by_design=subject == "rows",  # what every job with a large vocabulary does, unless it takes sparse gradients
        verdict=message(
            "finding.verdict.line",
            what=message("finding.class.communication"),
            title=message(f"finding.needless.{subject}.title", **words),
        ),
        change=change,
        code_lines=tuple(line for line, _ in lines),
    )


_ADVICE = {
    "again": "no_sync",
    "sent": "broadcast_buffers",
    "gathered": "gather_once",
    "wide": "reduce_half",
    "rows": "sparse_embedding",
    "small": "fewer_sums",
}

RULES: tuple[Rule, ...] = (
    Rule(
        "COMM.NEEDLESS",
        cls="communication",
        inputs=("device", "overlap"),
        check=needless,
        thresholds=GRADES,
        advice=tuple(_ADVICE.values()),
        gpu=tuple(_ADVICE.values()),
        pages=(pages.DDP, pages.AMP),
        change="""\
-model = DistributedDataParallel(model)
+model = DistributedDataParallel(model, broadcast_buffers=False)
+with model.no_sync():  # all passes of an accumulation but the last
+    model(batch).backward()
+model.register_comm_hook(None, default_hooks.bf16_compress_hook)
""",
        sources=("PyTorch: DistributedDataParallel",),
        reach="cause",
        replayed=True,
    ),
)
