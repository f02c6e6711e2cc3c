"""What a step computes without need: full sorts, pads, repeated K and V, masked scores, adapters; what it does twice.

Shapes show what reads what: a kernel reads a tensor with the sides that another one before it on its stream wrote. A
second pass backward propagates each loss on its own, and shared layers once for each. Checkpoints compute layers again.
"""

from __future__ import annotations

import math
import re
from functools import partial

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.code_lines import CodeLine
from npu_tui.analysis.kernels import SIZES, Coded, KernelTable, matrix_flops, sides_of_shapes, unquoted
from npu_tui.analysis.launches import Around, operation_of
from npu_tui.analysis.limits import HALF, HARDLY_ANY
from npu_tui.analysis.ranges import PHASES
from npu_tui.analysis.replay import Change, TaskCut
from npu_tui.rules import pages
from npu_tui.rules.bandwidth import best_speed
from npu_tui.rules.compute import lines_by
from npu_tui.rules.facts import Facts
from npu_tui.rules.functions import called_from, line_within
from npu_tui.rules.kernels import cheaper_kernels
from npu_tui.rules.parallelism import trains
from npu_tui.rules.rule import (
    GRADES,
    LISTED,
    SEVERITY_MEDIUM,
    Draft,
    Rule,
    advise,
    line_of,
    priced,
    ranked,
    sentences,
    severity_of,
)
from npu_tui.rules.sequences import ELEMENTWISE
from npu_tui.trace.arrays import I64, Bools
from npu_tui.trace.message import Said, message
from npu_tui.trace.model import FORWARD_BACKWARD

_SORT = re.compile(r"(?:Stable)?Sort(?:V\d|WithIndex)?")
_SLICE = re.compile(r"(?:Strided)?Slice(?:D|V\d)?|AsStrided|ViewCopy")
_PAD = re.compile(r"Pad(?:D|V\d)?")
_PADS_ITSELF = re.compile(r"conv\dd|conv2dtranspose|deconv|pool", re.IGNORECASE)
_REPEAT = re.compile(r"Tile(?:D)?|Expand(?:D)?|BroadcastTo(?:D)?|RepeatInterleave(?:V\d|D)?")
_SUM = re.compile(r"ReduceSum(?:D)?")
_COPY = re.compile(r"Trans(?:pose|Data)(?:D)?|AsStrided|ViewCopy|TensorMove")
_PRODUCT = re.compile(r"(?:Batch)?MatMul(?:V\d|D)?", re.IGNORECASE)
_ATTENTION = re.compile(r"flash_?attention|infer_?attention|fusion_?attention", re.IGNORECASE)


def sorts(facts: Facts) -> Draft | None:
    """Sorts of whole rows of which only a few are taken afterwards; reading them once finds these."""
    table, best = facts.kernel_table, best_speed(facts)
    sorting, slicing = _is(table, _SORT), _is(table, _SLICE)
    if best is None or not sorting.any():
        return None
    following, rows, expected = next_on_stream(table), list[int](), list[float]()
    for row in np.flatnonzero(sorting).tolist():
        sides, taken, at = _sides(table.outputs, row), list[int](), int(following[row])
        while at >= 0 and slicing[at] and _sides(table.shapes, at) == sides:
            taken.append(at)
            at = int(following[at])
        if taken and all(_elements(table.outputs, at) < HALF * math.prod(sides) for at in taken):
            rows += [row, *taken]
            size = SIZES.get((unquoted(table.dtypes.at(row)) or "").split(";")[0].strip().upper().removeprefix("DT_"))
            read = math.prod(sides) * size / best if size else float(table.duration[row])
            expected += [read, *[0.0] * len(taken)]
    note = message("finding.sort.place")
    return cheaper_kernels(
        facts, np.array(rows, np.int64), np.array(expected), "sort.{}", lambda row: note, advise("topk")
    )


def pads(facts: Facts) -> Draft | None:
    """Tensors padded for a convolution, or a pool, that pads itself; and the slices of the pass backward."""
    table = facts.kernel_table
    padding, following = _is(table, _PAD), next_on_stream(table)
    readers = table.type.where(lambda kind: _PADS_ITSELF.search(kind) is not None)
    pairs = set[tuple[tuple[int, ...], tuple[int, ...]]]()
    for row in np.flatnonzero(padding & (following >= 0)).tolist():
        made, at = (_sides(table.shapes, row), _sides(table.outputs, row)), int(following[row])
        padding[row] = readers[at] and _sides(table.shapes, at) in made
        pairs.update([made] if padding[row] else [])
    padding &= following >= 0
    back = _undone(table, _SLICE, pairs)
    rows, note = np.flatnonzero(padding | back), message("finding.pad.place")
    return cheaper_kernels(facts, rows, np.zeros(len(rows)), "pad.{}", lambda row: note, advise("pad_inside"))


def repeats(facts: Facts) -> Draft | None:
    """K and V repeated for each head of Q before a fused attention, with copies of them, and their sums backward."""
    table = facts.kernel_table
    attention = np.flatnonzero(table.type.where(lambda kind: _ATTENTION.search(kind) is not None))
    if not len(attention):
        return None
    # The second input is K, in one of several layouts.
    texts = {table.shapes.at(row) for row in attention[np.unique(table.shapes.code[attention], return_index=True)[1]]}
    sizes = {math.prod(sides[1]) for text in texts if len(sides := sides_of_shapes(unquoted(text))) > 1}
    repeating, pairs = _is(table, _REPEAT), set[tuple[tuple[int, ...], tuple[int, ...]]]()
    for row in np.flatnonzero(repeating).tolist():
        made = _sides(table.shapes, row), _sides(table.outputs, row)
        read, written = map(math.prod, made)
        repeating[row] = read > 1 and written > read and written % read == 0 and written in sizes
        pairs.update([made] if repeating[row] else [])
    whole = {made for _, made in pairs}
    found = repeating | _undone(table, _SUM, pairs)
    following = next_on_stream(table)
    beside = np.zeros(len(table), np.bool_)
    known = following >= 0
    beside[known] |= found[following[known]]
    beside[following[known & found]] = True
    copies = _is(table, _COPY) & beside & table.shapes.where(lambda text: _sides_in(text) in whole)
    rows, note = np.flatnonzero(found | copies), message("finding.repeat.place")
    return cheaper_kernels(facts, rows, np.zeros(len(rows)), "repeat.{}", lambda row: note, advise("grouped_heads"))


_COMPRESSED_SIDE = 2048
"""A side of the compressed mask of fused attention: aclnnFlashAttentionScore, sparse modes 2 and 3."""
_OF_MASKS = ("BOOL", "UINT8")


def masks(facts: Facts) -> Draft | None:
    """Fused attention that reads a mask of all scores, and so computes all: half of a causal one are not needed.

    What the mask holds is not recorded, so this is a choice of the user.
    """
    table = facts.kernel_table
    fused = np.flatnonzero(table.type.where(lambda kind: _ATTENTION.search(kind) is not None))
    side = np.array([_side_of_mask(table, row) for row in fused.tolist()], np.int64)
    rows, side = fused[side > _COMPRESSED_SIDE], side[side > _COMPRESSED_SIDE]
    note, advice = message("finding.mask.place"), advise("compressed_mask")
    draft = cheaper_kernels(
        facts, rows, table.duration[rows] / 2, "mask.{}", lambda row: note, advice, "low", side=int(side.max(initial=0))
    )  # fmt: skip
    return draft and replace(draft, severity="low", choice=True, weight=float(table.duration[rows].sum()))


_STEP = re.compile(rf"(?:{'|'.join(ELEMENTWISE)})(?:V\d)?")
_ADDS = re.compile(r"Add(?:V2)?|Axpy(?:V2)?")


def adapters(facts: Facts) -> Draft | None:
    """Products through a narrow side beside a full one of what they read, whose result is added; in no training.

    Both narrow weights can be multiplied once and added to the full one. What converts, scales and adds goes with them.
    """
    table, following = facts.kernel_table, next_on_stream(facts.kernel_table)
    flops, found = matrix_flops(table), list[int]()
    product = _is(table, _PRODUCT) & (flops > 0)
    if trains(facts) or not product.any():
        return None
    before = np.full(len(table), -1, np.int64)
    before[following[following >= 0]] = np.flatnonzero(following >= 0)
    made = np.array([_matrix_of(text) for text in table.outputs.values] + [(0, 0)], np.int64)[table.outputs.code]
    inner = np.where(product, np.rint(flops / (2 * np.maximum(made.prod(axis=1), 1))), 0).astype(np.int64)
    sizes = np.stack((made[:, 0], inner, made[:, 1]), axis=1) * product[:, None]
    simple, second = _is(table, _STEP), np.where(following >= 0, following, 0)
    narrow, wide = sizes[:, 2], sizes[second, 2]
    pair = product & (following >= 0) & (sizes[second, 0] == made[:, 0]) & (sizes[second, 1] == narrow)
    for row in np.flatnonzero(pair & (narrow * (inner + wide) < inner * wide)).tolist():
        other, (m, k, _) = int(following[row]), sizes[row].tolist()
        whole = (m, k, int(wide[row]))
        own, first, at = [row, other], int(before[row]), int(following[other])
        while first >= 0 and table.type.at(first) == "Cast" and _elements(table.outputs, first) == m * k:
            own.append(first)
            first = int(before[first])
        added = False
        while at >= 0 and not added and simple[at] and _elements(table.outputs, at) == m * whole[2]:
            own.append(at)
            added, at = _ADDS.fullmatch(table.type.at(at) or "") is not None, int(following[at])
        if added and any(each >= 0 and tuple(sizes[each].tolist()) == whole for each in (first, at)):
            found += own
    rows, note = np.array(sorted(set(found)), np.int64), message("finding.adapter.place")
    rows = rows[table.item[rows] >= 0]
    return cheaper_kernels(facts, rows, np.zeros(len(rows)), "adapter.{}", lambda row: note, advise("merge_adapters"))


def embeddings(facts: Facts) -> Draft | None:
    """Dense gradients of embeddings of which a step reads hardly any row, and what the optimizer does to all rows.

    Not those of embeddings that are operands of products too: these have a gradient in every row.
    """
    table, rows, expected, making = facts.kernel_table, list[int](), list[float](), list[int]()
    placed = list[int]()
    gradients = np.flatnonzero(table.type.where(lambda kind: kind.startswith("EmbeddingDenseGrad")))
    reading = table.type.where(lambda kind: kind.startswith("Gather"))
    operands = {
        sides
        for code in np.unique(table.shapes.code[_is(table, _PRODUCT)]).tolist() if code >= 0
        for sides in map(tuple, sides_of_shapes(unquoted(table.shapes.values[code])))
    }  # fmt: skip
    for made in {_sides(table.outputs, row) for row in gradients.tolist()}:
        own = [row for row in gradients.tolist() if _sides(table.outputs, row) == made]
        touched = sum(_elements(table.shapes, row) for row in own) / facts.count / max(math.prod(made), 1)
        if len(made) != 2 or touched > HARDLY_ANY or {made, made[::-1]} & operands:
            continue
        whole = table.shapes.where(partial(_begins_with, made))
        each, read = [*own, *np.flatnonzero(whole & ~reading).tolist()], np.flatnonzero(whole & reading).tolist()
        rows, making, placed = rows + each, making + own, placed + (read or own)
        expected += [touched * float(table.duration[row]) for row in each]
    caused, note = np.array(placed, np.int64), message("finding.embedding.place")
    shape = _sides(table.outputs, making[0]) if making else (0, 1)
    words = {"whole": shape[0], "read": _elements(table.shapes, making[0]) // shape[1] if making else 0}
    advice = advise("sparse_rows")
    return cheaper_kernels(
        facts, np.array(rows, np.int64), np.array(expected), "embedding.{}", lambda row: note, advice, "medium", caused,
        **words,
    )  # fmt: skip


def _side_of_mask(table: KernelTable, row: int) -> int:
    """The side of the square mask that the kernel at ``row`` reads; 0 without one."""
    kinds = [kind.strip().upper().removeprefix("DT_") for kind in (unquoted(table.dtypes.at(row)) or "").split(";")]
    for sides, kind in zip(sides_of_shapes(unquoted(table.shapes.at(row))), kinds, strict=False):
        if kind in _OF_MASKS and len(sides) > 1 and sides[-1] == sides[-2]:
            return sides[-1]
    return 0


def _undone(table: KernelTable, kind: re.Pattern[str], pairs: set[tuple[tuple[int, ...], tuple[int, ...]]]) -> Bools:
    """The kernels of ``kind`` that write what one of ``pairs`` read from what it wrote: of the pass backward; (n,)."""
    undone = _is(table, kind)
    for row in np.flatnonzero(undone).tolist():
        undone[row] = (_sides(table.outputs, row), _sides(table.shapes, row)) in pairs
    return undone


def _is(table: KernelTable, kind: re.Pattern[str]) -> Bools:
    return table.type.where(lambda name: kind.fullmatch(name) is not None)


def _sides(shapes: Coded, row: int) -> tuple[int, ...]:
    """The sides of the first shape at ``row``."""
    return _sides_in(shapes.at(row))


def _sides_in(text: str | None) -> tuple[int, ...]:
    return tuple(sides_of_shapes(unquoted(text))[0])


def _matrix_of(text: str) -> tuple[int, int]:
    """The rows and columns of the first of the shapes ``text``; 0 without."""
    sides = _sides_in(text)
    return (math.prod(sides[:-1]), sides[-1]) if sides else (0, 0)


def _begins_with(sides: tuple[int, ...], text: str) -> bool:
    return _sides_in(text) == sides


def _elements(shapes: Coded, row: int) -> int:
    return math.prod(_sides(shapes, row))


def next_on_stream(table: KernelTable) -> I64:
    """The row of the kernel that follows each one on its stream, -1 without one; (n,)."""
    stream = table.details.get("stream")
    code = np.zeros(len(table), np.int64) if stream is None else stream.code
    order = np.lexsort((table.start, code))
    following = np.full(len(table), -1, np.int64)
    following[order[:-1]] = np.where(np.diff(code[order]) == 0, order[1:], -1)
    return following


def second_backward(facts: Facts) -> Draft | None:
    """Operations of a pass backward that a later one runs again for the same operation of the pass forward."""
    trace, slices = facts.trace, facts.trace.slices
    again = _walked_again(facts)
    if not len(again):
        return None
    operations = operation_of(trace, facts.kernels)
    kernels, operations = facts.kernels[operations >= 0], operations[operations >= 0]
    around = Around(trace, again).find(slices.lane[operations], slices.start[operations], slices.end[operations])
    items = kernels[around >= 0]
    change, removes = Change(tasks=(TaskCut(items),)) | facts.without_operations(again), facts.span_of(items)
    lines = called_from(facts, again)
    words: dict[str, object] = {"at": message("finding.dtype.at", line=line_of(lines[0])) if lines else ""}
    words["count"] = len(again)
    words["time"] = int(facts.length(items).sum()) / facts.count
    return priced(facts, "twice", change, removes, items, words, lines=lines)


def _walked_again(facts: Facts) -> I64:
    """The operations of passes backward that are run once more later for the same one forward; ascending.

    What a pass backward records itself, as for a penalty on gradients, is walked again because it must be.
    """
    trace, slices = facts.trace, facts.trace.slices
    link = trace.bound_links_of(FORWARD_BACKWARD)
    link = link[trace.links.source_slice[link] >= 0]
    source, target, key = (each[link].astype(np.int64) for each in (
        trace.links.source_slice, trace.links.target_slice, trace.links.key
    ))  # fmt: skip
    order = np.lexsort((slices.start[target], source, key))
    source, target, key = source[order], target[order], key[order]
    every = np.unique(target)
    place = np.argsort(np.argsort(slices.start[every], kind="stable"))[np.searchsorted(every, target)]
    # Of one walk are those that follow each other, such as the gradients of both factors of a product.
    walked = (np.diff(source) == 0) & (np.diff(key) == 0) & (np.diff(place) > 1)
    again = facts.begun(np.unique(target[:-1][walked]))
    recorded = np.unique(source)
    inside = Around(trace, every).find(slices.lane[recorded], slices.start[recorded], slices.end[recorded])
    return again[:0] if (inside >= 0).any() else again


_EVALUATE = "autograd::engine::evaluate_function: "
_RECOMPUTING = re.compile(
    rf"(?:{_EVALUATE})?CheckpointFunctionBackward|.*torch/utils/checkpoint\.py\(\d+\): recompute_fn"
)
"""Around what is computed again: the reentrant way, whose own backward pass lies inside as well, and the other one."""
_SMALLEST = 32 * 2**30
"""Memory of the smallest devices that train, such as those of the Ascend 910A; what a device has is not recorded."""


def recompute(facts: Facts) -> tuple[Draft, ...]:
    """What the backward pass computes again because activation checkpointing does not keep it; what it does twice."""
    trace, slices = facts.trace, facts.trace.slices
    again = facts.names_where(lambda name: _RECOMPUTING.fullmatch(name) is not None)
    if not again.any():
        return ()
    evaluating = facts.names_where(lambda name: name.startswith(_EVALUATE))
    operations = operation_of(trace, facts.kernels)
    at = np.flatnonzero(operations >= 0)
    operations = operations[at]
    around = Around(trace, (again | evaluating)[slices.name])
    inner = around.find(slices.lane[operations], slices.start[operations], slices.end[operations])
    chosen = (inner >= 0) & again[slices.name[inner]]
    at, operations, inner = at[chosen], operations[chosen], inner[chosen]
    twice = _more_than_once(facts, at, slices.end[inner] - slices.start[inner])
    nested = _recomputed(facts, at[twice], operations[twice], called_from(facts, np.unique(inner[twice])))
    return tuple(draft for draft in (nested, _recomputed(facts, at, operations)) if draft is not None)


def _more_than_once(facts: Facts, at: I64, around: I64) -> Bools:
    """Which of the kernels at ``at``, computed again within what takes ``around`` ns, are so once more; (n,).

    Of each type and shapes there are more than passes forward compute: those within the shortest, as checkpoints nest.
    """
    table, code, twice = facts.kernel_table, facts.kernel_types[1], np.zeros(len(at), np.bool_)
    if not table.shapes.is_known or len(table) != len(facts.kernels):
        return twice
    kind = code.astype(np.int64) * (len(table.shapes.values) + 1) + table.shapes.code + 1
    forward = np.isin(facts.kernel_phases, [PHASES.index("forward"), PHASES.index("neither")])
    forward[at] = False
    _, kind = np.unique(kind, return_inverse=True)
    first, again = (np.bincount(kind[part], minlength=len(kind)) for part in (forward, at))
    order = np.lexsort((around, kind[at]))
    own = kind[at[order]]
    place = np.arange(len(at)) - np.searchsorted(own, own)
    twice[order] = (first[own] > 0) & (place < again[own] - first[own])
    return twice


def _recomputed(
    facts: Facts, at: I64, operations: I64, nested: tuple[CodeLine, ...] | None = None
) -> Draft | None:  # fmt: skip
    """The draft about kernels computed again that ``operations`` launched; of checkpoints ``nested`` there, if any."""
    items = facts.kernels[at]
    time = int(facts.length(items).sum())
    if facts.share(time) < facts.limits[SEVERITY_MEDIUM]:
        return None
    lines = nested or tuple(line for line, _ in ranked(lines_by(facts, operations, facts.length(items)), LISTED))
    reserved = facts.inputs.memory().curve("reserved")
    most = 0 if reserved is None else int(reserved.value.max(initial=0))
    peak: Said = "" if reserved is None else message("finding.recompute.peak", peak=most)
    spare = 0 < most <= HALF * _SMALLEST
    if spare:
        peak = message("finding.recompute.spare", peak=most, capacity=_SMALLEST)
    choice = nested is None and not spare  # of time for memory
    words = {"time": time / facts.count, "unit": facts.unit, "share": facts.share(time), "count": len(items)}
    words |= {"at": message("finding.dtype.at", line=line_of(lines[0])) if nested else ""}
    under = [line_within(facts, line, operations, facts.length(items)) for line in lines]
    named = message("finding.share.lines", lines=under) if lines and nested is None else ""
    key = "recompute" if nested is None else "nested"
    return Draft(
        "low" if choice else severity_of(facts.limits, facts.share(time)),
        title := message(f"finding.{key}.title", **words),
        sentences(message(f"finding.{key}.detail", **words), named, peak if nested is None else ""),
        facts.longest(items, lambda item: message("finding.recompute.place"), 5),
        advise(key),
        weight=time,
        code_lines=lines,
        verdict=title,
        removes=facts.span_of(items),
        change=Change(tasks=(TaskCut(items),)) | facts.without_operations(np.unique(operations)),
        choice=choice,
        reach="place" if nested is None else "cause",
    )


RULES: tuple[Rule, ...] = (
    Rule(
        "OP.SORT",
        cls="compute",
        inputs=("kernel_details",),
        check=sorts,
        thresholds=GRADES,
        advice=("topk",),
        pages=(pages.TUNING,),
        change="""\
-best = logits.sort(dim=-1, descending=True).indices[:, :5]
+best = logits.topk(5, dim=-1).indices
""",
        sources=("20-step tuning checklist 2-08",),
        reach="cause",
    ),
    Rule(
        "OP.PAD",
        cls="compute",
        inputs=("kernel_details",),
        check=pads,
        thresholds=GRADES,
        advice=("pad_inside",),
        pages=(pages.TUNING,),
        change="""\
-x = conv(F.pad(x, (1, 1, 1, 1)))
+x = conv(x)  # Conv2d(..., padding=1)
""",
        sources=("20-step tuning checklist 2-08",),
        reach="cause",
    ),
    Rule(
        "OP.REPEAT",
        cls="compute",
        inputs=("kernel_details",),
        check=repeats,
        thresholds=GRADES,
        advice=("grouped_heads",),
        pages=(pages.FUSED,),
        change="""\
-k, v = (x.repeat_interleave(heads // kv_heads, dim=1) for x in (k, v))
 out = torch_npu.npu_fusion_attention(q, k, v, heads, "BNSD")[0]
""",
        sources=("affinity operators guide",),
        reach="cause",
    ),
    Rule(
        "OP.MASK",
        cls="compute",
        inputs=("kernel_details",),
        check=masks,
        thresholds=GRADES,
        advice=("compressed_mask",),
        pages=(pages.FUSED,),
        change="""\
-out = torch_npu.npu_fusion_attention(q, k, v, heads, "BSH", atten_mask=causal)[0]
+small = torch.triu(torch.ones(2048, 2048, dtype=torch.bool, device=q.device), diagonal=1)
+out = torch_npu.npu_fusion_attention(q, k, v, heads, "BSH", atten_mask=small, sparse_mode=2)[0]
""",
        sources=("aclnnFlashAttentionScore: sparse modes",),
        reach="cause",
    ),
    Rule(
        "OP.ADAPTER",
        cls="compute",
        inputs=("kernel_details",),
        check=adapters,
        thresholds=GRADES,
        advice=("merge_adapters",),
        pages=(pages.TUNING,),
        change="""\
 model = PeftModel.from_pretrained(base, path)
+model = model.merge_and_unload()
""",
        sources=("LoRA (Hu et al.): no additional latency once merged",),
        reach="cause",
    ),
    Rule(
        "OP.EMBEDDING",
        cls="compute",
        inputs=("kernel_details",),
        check=embeddings,
        thresholds=GRADES,
        advice=("sparse_rows",),
        pages=(pages.TUNING,),
        change="""\
-self.table = torch.nn.Embedding(rows, width)
+self.table = torch.nn.Embedding(rows, width, sparse=True)  # updated by torch.optim.SparseAdam
""",
        sources=("PyTorch: torch.nn.Embedding",),
        reach="cause",
    ),
    Rule(
        "OP.RECOMPUTE",
        cls="compute",
        inputs=("device", "overlap", "python"),
        check=recompute,
        thresholds=GRADES,
        advice=("nested", "recompute"),
        gpu=("nested", "recompute"),
        pages=(pages.TUNING,),
        change="""\
-out = checkpoint(layer, x)
+out = layer(x) if number < kept else checkpoint(layer, x)
""",
        sources=("PyTorch: torch.utils.checkpoint",),
        reach="place",
        words=("memory",),
    ),
    Rule(
        "OP.BACKWARD",
        cls="compute",
        inputs=("device", "overlap", "python"),
        check=second_backward,
        thresholds=GRADES,
        advice=("one_backward",),
        pages=(pages.TUNING,),
        change="""\
-aux_loss.backward(retain_graph=True)
-loss.backward()
+(loss + aux_loss).backward()
""",
        sources=("torch.profiler: fwdbwd links",),
        reach="cause",
        replayed=True,
    ),
)
