"""Findings about transfers by communication.json, and needless ones.

Transport types are SDMA and RDMA; HCCS, PCIE and SIO are link types, whose data SDMA moves.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from npu_tui.analysis.collectives import Transfer, ranks_of_group
from npu_tui.analysis.kernels import SIZES, is_half, sides_of_shapes
from npu_tui.analysis.launches import operation_of
from npu_tui.analysis.limits import ALMOST_ALL, HALF, NAMED, NEARLY_ALL, Threshold
from npu_tui.analysis.replay import Change, TaskCut
from npu_tui.native.spans import count_until
from npu_tui.rules import pages
from npu_tui.rules.communication import data_sizes, exposed_of, shortened_collectives, small_sums, start_costs
from npu_tui.rules.compute import lines_by
from npu_tui.rules.facts import CUBE, Facts
from npu_tui.rules.inputs import common
from npu_tui.rules.links import (
    ALIGNMENT_BYTES,
    CONTENTION_GB_S,
    SMALL_PACKET_RDMA_MB,
    SMALL_PACKET_SDMA_MB,
    SMALL_PACKET_SHARE,
    draft_of_links,
)
from npu_tui.rules.model import Evidence
from npu_tui.rules.parallelism import (
    averaged,
    backward,
    gathered_again,
    is_for,
    product_before,
    reduced_again,
    summed_apart,
    used_in_part,
)
from npu_tui.rules.rule import (
    GRADES,
    LISTED,
    SEVERITY_MEDIUM,
    Draft,
    Rule,
    about,
    advise,
    cost_of,
    ranked,
    severity_of,
    timed,
)
from npu_tui.trace.arrays import I64, Bools
from npu_tui.trace.message import Message, message
from npu_tui.trace.text import brief


def _by_transport(facts: Facts) -> dict[str, list[Transfer]]:
    """The transfers that start in the window by transport.

    Where communication.json has the sum of a transport for a collective, the rows of its links are left out.
    """
    window = facts.window
    transfers = [transfer for transfer in facts.inputs.transfers() if window.start <= transfer.start < window.end]
    by_transport: dict[str, list[Transfer]] = {}
    for transport, links in (("SDMA", ("HCCS", "PCIE", "SIO")), ("RDMA", ("ROCE",))):
        sums = [transfer for transfer in transfers if transfer.transport.upper() == transport]
        summed = {(transfer.name, transfer.start) for transfer in sums}
        sums += [
            transfer
            for transfer in transfers
            if transfer.transport.upper() in links and (transfer.name, transfer.start) not in summed
        ]
        if sums:
            by_transport[transport] = sums
    return by_transport


def packets(facts: Facts) -> Draft | None:
    """Small and unaligned packets, where there are no plane tasks for COMM.LINK to look at one by one."""
    limits, grid = facts.limits, facts.limits[ALIGNMENT_BYTES]
    if facts.has("planes"):
        return None
    problems: list[tuple[Message, Sequence[Evidence]]] = []
    advice: list[Message] = []
    for transport, transfers in _by_transport(facts).items():
        most = (limits[SMALL_PACKET_SDMA_MB] if transport == "SDMA" else limits[SMALL_PACKET_RDMA_MB]) * 1e6
        sizes = [packet for transfer in transfers for packet in transfer.packets]
        count = sum(number for _, number in sizes)
        small = sum(number for size, number in sizes if size < most)
        if count and small > limits[SMALL_PACKET_SHARE] * count:
            text = message("finding.link.small", kind=transport, share=small / count, most=most / 1e6)
            with_small = [transfer for transfer in transfers if any(size < most for size, _ in transfer.packets)]
            problems.append((text, _longest(facts, with_small)))
            advice += advise("larger_packets")
        odd = [transfer for transfer in transfers if transport == "SDMA" and _is_odd(transfer, grid)]
        if odd:
            share = sum(transfer.time for transfer in odd) / max(sum(transfer.time for transfer in transfers), 1)
            text = message("finding.link.unaligned", count=len(odd), bytes=grid, share=share)
            problems.append((text, _longest(facts, odd)))
            advice.append(message("finding.advice.align", bytes=grid))
    return draft_of_links("low", problems, tuple(advice))


def _is_odd(transfer: Transfer, grid: int) -> bool:
    return any(size > grid and round(size) % grid for size, _ in transfer.packets)


RDMA_GB_S = Threshold("rdma_gb_s", 10.0)
SLOW_SHARE = Threshold("slow_share", 0.2)


def bandwidth(facts: Facts) -> Draft | None:
    """Transports that are slow though their packets are large, and what else ran meanwhile."""
    limits = facts.limits
    problems: list[tuple[Message, Sequence[Evidence]]] = []
    contended = 0
    for transport, transfers in _by_transport(facts).items():
        least = limits[CONTENTION_GB_S] if transport == "SDMA" else limits[RDMA_GB_S]
        slow = [
            transfer
            for transfer in transfers
            if transfer.speed is not None and transfer.speed < least and _is_large(transfer)
        ]
        time = sum(transfer.time for transfer in slow)
        if not slow or time < limits[SLOW_SHARE] * sum(transfer.time for transfer in transfers):
            continue
        meanwhile = [transfer for transfer in slow if transport == "SDMA" and _multiplies(facts, transfer)]
        speed = sum(transfer.size for transfer in slow) / max(time, 1)
        text = message(
            "finding.slow_link.contended" if meanwhile else "finding.slow_link.slow",
            transport=transport, count=len(slow), speed=speed, least=least, time=time, contended=len(meanwhile),
        )  # fmt: skip
        problems.append((text, _longest(facts, meanwhile or slow)))
        contended += len(meanwhile)
    return draft_of_links("low", problems, advise("contention" if contended else "slow_link"), "medium")


def _is_large(transfer: Transfer) -> bool:
    return transfer.large_ratio is None or transfer.large_ratio >= NEARLY_ALL


def _multiplies(facts: Facts, transfer: Transfer) -> bool:
    """Whether a matrix product runs during the collective."""
    table = facts.kernel_table
    products = table.type.where(lambda kind: "matmul" in kind.lower())
    start = table.start[products]
    return bool(np.any((start < transfer.end) & (start + table.duration[products] > transfer.start)))


def _longest(facts: Facts, transfers: list[Transfer]) -> list[Evidence]:
    """The five longest of ``transfers``, in order of time."""
    longest = sorted(transfers, key=lambda transfer: -transfer.time)[:5]
    return [_transfer_place(facts, transfer) for transfer in sorted(longest, key=lambda transfer: transfer.start)]


def _transfer_place(facts: Facts, transfer: Transfer) -> Evidence:
    note = message(
        "finding.slow_link.place",
        size=round(transfer.size), transport=transfer.transport, speed=transfer.speed or 0.0,
    )  # fmt: skip
    if transfer.item >= 0:
        return facts.place(transfer.item, note)
    return Evidence(transfer.start, transfer.end, None, brief(transfer.name), note)


PREPROCESS_MS = Threshold("preprocess_ms", 10.0)


def preprocessing(facts: Facts) -> Draft | None:
    """Preprocessing of data that takes long, by data_preprocess.csv."""
    rows = [
        row
        for row in facts.inputs.preprocessing()
        if row.start is None or facts.window.start <= row.start < facts.window.end
    ]
    sums: dict[str, int] = {}
    for row in rows:
        sums[row.name] = sums.get(row.name, 0) + row.total
    total = sum(sums.values())
    if total < facts.limits[PREPROCESS_MS] * 1e6:
        return None
    names = sorted(sums, key=lambda name: -sums[name])[:LISTED]
    return Draft(
        "low",
        message("finding.preprocess.title", name=brief(names[0]), each=facts.per_unit(total)),
        message("finding.preprocess.detail", count=len(rows), names=[timed(name, sums[name]) for name in names]),
        tuple(
            Evidence(row.start, row.start + row.total, None, brief(row.name), message("finding.preprocess.place"))
            for row in sorted(rows, key=lambda row: -row.total)[:10]
            if row.start is not None
        ),
        confidence="medium",
    )


_DTYPES, _WIDE = ("data_type", "dtype"), ("FP32", "FLOAT", "FLOAT32")
"""Args with the type of the numbers that a collective moves, on NPUs and on GPUs, and the names of 32-bit ones."""


def needless(facts: Facts) -> tuple[Draft, ...]:
    """Collectives that could be left out, or move half as much.

    Sums of gradients that a later pass makes again, broadcasts in every step, weights that are gathered twice, sums of
    what is then added, or of weights after their gradients, sums of next to nothing in each layer, logits that are
    gathered for the loss; 32-bit numbers where products compute in 16 bits, sums of which each rank uses a part, rows
    of an embedding without a gradient.
    """
    every, starts = facts.collectives, facts.trace.slices.start
    sent = np.array(["broadcast" in name.lower() for name in every.types] + [False], np.bool_)[every.type]
    repeated = len(np.unique(np.searchsorted(facts.repetitions, starts[every.item[sent]], "right")))
    found = {"again": reduced_again(facts), "sent": every.item[sent] if repeated >= facts.count > 1 else every.item[:0]}
    found |= {"gathered": gathered_again(facts), "apart": summed_apart(facts), "averaged": averaged(facts)}
    small = every.item[small_sums(facts)]
    found["statistics" if _behind_norms(facts, small) else "small"] = small
    drafts = [_spared(facts, subject, items, _without_collectives(facts, items)) for subject, items in found.items()]
    drafts.append(_spared(facts, "whole", *_gathered_for_loss(facts)))
    wide, spared = _wide(facts), np.zeros(len(every), np.int64)
    spared[wide] = _moving(facts)[wide] // 2
    drafts.append(_spared(facts, "wide", every.item[wide], Change(tasks=shortened_collectives(facts, spared))))
    in_part = np.isin(every.item, used_in_part(facts))
    rounds = facts.length(every.item) - np.maximum(every.waited, 0)  # half as many of them, and so of their starts
    halved = Change(tasks=shortened_collectives(facts, np.where(in_part, rounds.clip(0) // 2, 0).astype(np.int64)))
    drafts.append(_spared(facts, "part", every.item[in_part], halved))
    untouched = _untouched_rows(facts)
    change = Change(tasks=shortened_collectives(facts, untouched))
    drafts.append(_spared(facts, "rows", every.item[untouched > 0], change))
    return tuple(draft for draft in drafts if draft is not None)


_NORM = re.compile(r"BN(?:Training|Infer)|Batch_?Norm", re.IGNORECASE)
"""Kernels that have statistics of a batch, on NPUs and on GPUs."""


def _behind_norms(facts: Facts, items: I64) -> bool:
    """Whether most of the collectives ``items`` begin after a kernel of a norm, whose statistics they sum then."""
    slices, (types, code) = facts.trace.slices, facts.kernel_types
    if not len(items) or not len(facts.kernels):
        return False
    order = np.argsort(slices.end[facts.kernels], kind="stable")
    last = count_until(slices.end[facts.kernels][order], slices.start[items]) - 1
    norms = np.array([_NORM.search(name) is not None for name in types] + [False])[code]
    return bool(np.count_nonzero((last >= 0) & norms[order][np.maximum(last, 0)]) > HALF * len(items))


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


_PARTS = re.compile(r"Concat|Slice|Split|Pack", re.IGNORECASE)
"""Kernels that put parts together or take them apart."""


def _gathered_for_loss(facts: Facts) -> tuple[I64, Change]:
    """The gathers between the last product of a pass forward and the first of its pass backward; the run without them.

    They gather the logits: each rank of a tensor-parallel group has those of a part of the vocabulary, and the loss
    reads all. On its own part alone a rank needs nothing that puts parts together or takes its own out again, and of
    what reads whole logits only its share.
    """
    every, table, slices = facts.collectives, facts.kernel_table, facts.trace.slices
    gathers = np.array(["gather" in name.lower() for name in every.types] + [False], np.bool_)[every.type]
    before, after, found, whole, ranks = product_before(facts), backward(facts), [], [table.item[:0]], 1
    gathers &= is_for(facts, "tensor") & (before >= 0)
    if len(table) != len(facts.kernels):
        return every.item[:0], Change()
    products = np.flatnonzero(table.type.where(lambda kind: CUBE.search(kind) is not None))
    for row in np.flatnonzero(gathers).tolist():
        end = int(slices.end[every.item[row]])
        first, at = (int(np.searchsorted(starts, end)) for starts in (table.start, table.start[products]))
        if after[before[row]] or at == len(products) or not after[products[at]]:
            continue
        between = np.arange(first, products[at])
        reading = between[table.bytes[between] >= max(int(every.size[row]), 1)]
        if len(reading):
            found.append(row)
            whole.append(reading)
            lane = facts.trace.lanes[int(slices.lane[every.item[row]])].name
            ranks = max(len(ranks_of_group(lane, facts.inputs.setup.groups)), 2)
    rows = np.concatenate(whole).astype(np.int64)
    rows = rows[table.item[rows] >= 0]
    parts = table.type.where(lambda kind: _PARTS.search(kind) is not None)[rows]
    gone, less = table.item[rows[parts]], table.item[rows[~parts]]
    items = every.item[np.array(found, np.int64)]
    cuts = TaskCut(gone), TaskCut(gone, gap=True), TaskCut(less, 1 / ranks)
    return items, Change(tasks=cuts) | _without_collectives(facts, items)


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
    "small": "sum_together",
    "statistics": "fewer_sums",
    "whole": "loss_of_part",
    "apart": "join_linears",
    "averaged": "average_once",
    "part": "reduce_scatter",
}

RULES: tuple[Rule, ...] = (
    Rule(
        "COMM.PACKETS",
        cls="communication",
        inputs=("transfers",),
        check=packets,
        thresholds=(SMALL_PACKET_SHARE, SMALL_PACKET_SDMA_MB, SMALL_PACKET_RDMA_MB, ALIGNMENT_BYTES),
        advice=("larger_packets",),
        pages=(pages.ANALYZE,),
        sources=("msprof-analyze advisor: packet, byte alignment",),
        reach="place",
        words=("hccl",),
    ),
    Rule(
        "COMM.BANDWIDTH",
        cls="communication",
        inputs=("transfers",),
        check=bandwidth,
        thresholds=(CONTENTION_GB_S, RDMA_GB_S, SLOW_SHARE),
        advice=("contention", "slow_link"),
        pages=(pages.ANALYZE,),
        sources=("msprof-analyze advisor: bandwidth contention", "20-step tuning checklist 2-26"),
        reach="place",
        words=("slow_link",),
    ),
    Rule(
        "DATA.PREPROCESS",
        cls="data",
        inputs=("preprocess",),
        check=preprocessing,
        thresholds=(PREPROCESS_MS,),
        advice=("preprocess",),
        pages=(pages.DATA,),
        sources=("MindStudio profiling guide: data_preprocess",),
        reach="place",
        words=("aipp",),
    ),
    Rule(
        "COMM.NEEDLESS",
        cls="communication",
        inputs=("device", "overlap"),
        check=needless,
        thresholds=GRADES,
        advice=tuple(dict.fromkeys(_ADVICE.values())),
        gpu=tuple(dict.fromkeys(_ADVICE.values())),
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
