"""What each collective is for: gradients or shards of them, tensor parallelism, gathered weights, experts, a pipeline.

The kind of collective says most of it. An all-reduce sums gradients after the backward pass has begun; in tensor
parallelism it stands right after a matrix product in the forward pass as well, and the next operator waits for it.
"""

from __future__ import annotations

import math
import re
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
from msgspec import Struct

from npu_tui.analysis.kernels import SIZES, sides_of_shapes
from npu_tui.analysis.launches import operation_of
from npu_tui.analysis.limits import A_PART, ALMOST_ALL, AWAKE_NS, HALF, MORE_THAN_ONE, NOTABLE
from npu_tui.analysis.ranges import PHASES
from npu_tui.native.spans import count_until
from npu_tui.rules.facts import Facts, once_per_device
from npu_tui.rules.inputs import Span, inside
from npu_tui.trace.arrays import F64, I64, Bools, in_groups
from npu_tui.trace.intervals import covered_before, covered_within
from npu_tui.trace.model import Trace

Purpose = Literal["gradients", "shards", "tensor", "weights", "experts", "pipeline", "other"]
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)

_KINDS: tuple[tuple[str, Purpose], ...] = (
    ("alltoall", "experts"),
    ("all_to_all", "experts"),
    ("send", "pipeline"),
    ("recv", "pipeline"),
    ("receive", "pipeline"),
    ("allgather", "weights"),
    ("all_gather", "weights"),
    ("reducescatter", "shards"),
    ("reduce_scatter", "shards"),
    ("allreduce", "gradients"),
    ("all_reduce", "gradients"),
)
_MATMUL = re.compile(r"^(?:Batch)?MatMul|gemm|cutlass", re.IGNORECASE)
_BACKWARD_KERNEL = re.compile(r"Grad|Backward|Backprop|_bwd", re.IGNORECASE)
_BACKWARD = re.compile(r"^autograd::|Backward\d*$")
BUCKET = 25 * 2**20
"""Bytes of a bucket of gradients, as DistributedDataParallel makes them."""
_COUNT = 8
"""Bytes of the longest number: SyncBatchNorm sends that of its rows along in the pass forward, and not backward."""


@once_per_device
def serial(facts: Facts) -> Bools:
    """Which of ``facts.collectives`` are waited for, as little computing overlaps them; (n,)."""
    slices, items = facts.trace.slices, facts.collectives.item
    working = facts.span_of(facts.kernels)
    begin, end = slices.start[items].astype(np.float64), slices.end[items].astype(np.float64)
    together = covered_before(*working, end) - covered_before(*working, begin)
    waited: Bools = together <= NOTABLE * (end - begin)
    return waited


@once_per_device
def product_before(facts: Facts) -> I64:
    """The position in ``facts.kernels`` of the matrix multiplication that a collective starts right after.

    -1 where there is none, or where the collective is not waited for; (n,).
    """
    slices, items = facts.trace.slices, facts.collectives.item
    if not len(facts.kernels) or not len(items):
        return np.full(len(items), -1, np.int64)
    products = _is_product(facts)
    end = slices.end[facts.kernels]
    by_end = np.argsort(end, kind="stable")
    at = count_until(end[by_end], slices.start[items]) - 1
    last = by_end[np.maximum(at, 0)]
    directly = (at >= 0) & products[last] & (slices.start[items] - end[last] <= AWAKE_NS) & serial(facts)
    before: I64 = np.where(directly, last, -1)
    return before


def _is_product(facts: Facts) -> Bools:
    """Which of ``facts.kernels`` multiply matrices; (kernels,)."""
    types, code = facts.kernel_types
    products: Bools = np.array([bool(_MATMUL.search(name)) for name in types] + [False])[code]
    return products


def beside_product(facts: Facts, span: Span) -> I64:
    """How much of each collective in ``span`` could go along with its product, in tensor parallelism, ns; (n,).

    A sum needs the product before it, and a gather is needed by the one after it: in parts, as MatmulAllReduce does,
    each goes along with that product and with nothing else.
    """
    slices, every = facts.trace.slices, facts.collectives.item
    hidden = np.zeros(len(every), np.int64)
    rows = np.flatnonzero(is_for(facts, "tensor"))
    items = every[rows]
    products = facts.kernels[_is_product(facts)]
    left = facts.length(products)
    gathers = facts.names_where(lambda name: _purpose_of(name) == "weights")[slices.name[items]]
    ended = np.maximum.accumulate(slices.end[products])
    before = count_until(ended, slices.start[items]) - 1
    after = np.searchsorted(slices.start[products], slices.end[items])
    bare = covered_within(*span, slices.start[items], slices.end[items])
    for row, need, at in zip(rows.tolist(), bare.tolist(), np.where(gathers, after, before).tolist(), strict=True):
        if 0 <= at < len(products):
            hidden[row] = min(need, int(left[at]))
            left[at] -= hidden[row]
    return hidden


@once_per_device
def backward(facts: Facts) -> Bools:
    """Which of ``facts.kernels`` run after the backward pass of their step has begun; (kernels,)."""
    starts = facts.trace.slices.start[facts.kernels]
    return _after_backward(facts, starts[_in_backward_pass(facts)], starts)


@once_per_device
def _in_backward_pass(facts: Facts) -> Bools:
    """Which of ``facts.kernels`` belong to a pass backward, by their names and by what launched them; (kernels,)."""
    types, code = facts.kernel_types
    named: Bools = np.array([_BACKWARD_KERNEL.search(name) is not None for name in types] + [False])[code]
    return named | launched_backward(facts)


def _after_backward(facts: Facts, backward_starts: I64, starts: I64) -> Bools:
    """Which of ``starts`` lie after the first of ``backward_starts`` in their step; (n,)."""
    # What comes before the first kernel of a step belongs to it.
    steps = np.sort(facts.repetitions)
    first = np.full(len(steps) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, np.searchsorted(steps, backward_starts, "right"), backward_starts)
    begun: Bools = starts >= first[count_until(steps, starts)]
    return begun


def launched_backward(facts: Facts) -> Bools:
    """Which of ``facts.kernels`` an operation of the backward pass launched, as far as operations are recorded."""
    trace, slices = facts.trace, facts.trace.slices
    operation = operation_of(trace, facts.kernels)
    launched = np.zeros(len(operation), np.bool_)
    named = facts.names_where(lambda name: _BACKWARD.search(name) is not None)
    items = np.flatnonzero(named[slices.name])
    for lane in np.unique(slices.lane[items]).tolist():
        there = np.flatnonzero((operation >= 0) & (slices.lane[operation] == lane))
        launched[there] = inside(facts.span_of(items[slices.lane[items] == lane]), slices.start[operation[there]])
    return launched


@once_per_device
def reduced_again(facts: Facts) -> I64:
    """The reductions of gradients that a later pass backward of their step makes again: one in the last is enough.

    Between those of two passes lies a pass forward, and both move as much.
    """
    starts, every = facts.trace.slices.start, facts.collectives
    chosen = np.flatnonzero(is_for(facts, "gradients"))
    chosen = chosen[np.argsort(starts[every.item[chosen]], kind="stable")]
    begin, size = starts[every.item[chosen]], every.moved.sums(len(every))[0][chosen]
    known = operation_of(facts.trace, facts.kernels) >= 0
    launched = starts[facts.kernels[known]]
    backward = _in_backward_pass(facts) | (facts.kernel_phases == PHASES.index("backward"))
    forward = launched[~backward[known]]
    before, between = (np.diff(np.searchsorted(some, begin)) for some in (forward, launched))
    step = np.searchsorted(facts.repetitions, begin, "right")
    # What scales or unpacks gradients is no pass: some of the next pass backward lies after a pass forward, too.
    fresh = (np.diff(step) > 0) | ((before > 0) & (before >= A_PART * between) & (before < between))
    passes = np.split(np.arange(len(chosen)), np.flatnonzero(fresh) + 1)
    again = [
        rows
        for rows, following in pairwise(passes)
        if step[rows[-1]] == step[following[0]] and size[rows].all() and (sorted(size[rows]) == sorted(size[following]))
    ]
    found: I64 = every.item[chosen[np.concatenate(again)]] if again else chosen[:0]
    return found


@once_per_device
def gathered_again(facts: Facts) -> I64:
    """The gathers of weights beyond one for each pass, where a pass backward gathers a layer's weights twice.

    Then more than one gather of as many bytes lies between its reductions of two layers. One is enough for the pass
    forward of a layer, and one for its pass backward, which ends with the reduction.
    """
    every, starts = facts.collectives, facts.trace.slices.start
    begin, lane, size = starts[every.item], facts.trace.slices.lane[every.item], every.size
    gathers, shards = is_for(facts, "weights") & (size > 0), is_for(facts, "shards") & (size > 0)
    forward = facts.kernels[facts.kernel_phases == PHASES.index("forward")]
    again = [np.zeros(0, np.int64)]
    for group, bytes_of_layer in np.unique(np.stack((lane, size), axis=1)[gathers], axis=0).tolist():
        equal = (lane == group) & (size == bytes_of_layer)
        rows, ends = np.flatnonzero(gathers & equal), np.sort(begin[shards & equal])
        rows = rows[np.argsort(begin[rows], kind="stable")]
        between = np.diff(np.searchsorted(begin[rows], ends))[np.diff(np.searchsorted(starts[forward], ends)) == 0]
        kept = 2 * len(ends) / len(rows)
        if kept < 1 and np.count_nonzero(between > 1) >= HALF * len(between) > 0:
            again.append(every.item[rows[np.diff(np.floor(kept * np.arange(len(rows) + 1))) == 0]])
    return np.concatenate(again)


_OF_NORMS = re.compile(r"norm", re.IGNORECASE)


def summed_apart(facts: Facts) -> I64:
    """The sums of tensor parallelism that only products, and a norm at most, part from the next one in a pass backward.

    Linear layers that read one tensor each have a part of its gradient: the sum of these parts is as good as their sums
    over the ranks, and one reduction does for all. The last one of each such row is needed.
    """
    every, starts = facts.collectives, facts.trace.slices.start
    summing = np.array([_purpose_of(name) == "gradients" for name in every.types] + [False])[every.type]
    types, code = facts.kernel_types
    apart = np.array([not (_MATMUL.search(name) or _OF_NORMS.search(name)) for name in types] + [False])[code]
    products, others = starts[facts.kernels[_is_product(facts)]], starts[facts.kernels[apart]]
    size = _bytes_of(facts)
    step = np.searchsorted(np.sort(facts.repetitions), starts[every.item], "right")
    trained = _after_backward(facts, starts[facts.kernels[backward(facts)]], starts[every.item])
    chosen = np.flatnonzero(summing & is_for(facts, "tensor") & trained & (size > 0) & serial(facts))
    found = [np.zeros(0, np.int64)]
    for members in in_groups(facts.trace.slices.lane[every.item[chosen]].astype(np.int64)):
        rows = chosen[members][np.argsort(starts[every.item[chosen[members]]], kind="stable")]
        begin = starts[every.item[rows]]
        beside = (np.diff(np.searchsorted(others, begin)) == 0) & (np.diff(np.searchsorted(products, begin)) > 0)
        found.append(every.item[rows[:-1][beside & (np.diff(size[rows]) == 0) & (np.diff(step[rows]) == 0)]])
    return np.concatenate(found)


def used_in_part(facts: Facts) -> I64:
    """The sums of gradients in a group that gathers as many bytes of weights: each rank updates a part alone."""
    every, size = facts.collectives, _bytes_of(facts)
    sums, gathers = is_for(facts, "gradients") & (size > 0), is_for(facts, "weights") & (size > 0)
    found = [np.zeros(0, np.int64)]
    for members in in_groups(facts.trace.slices.lane[every.item].astype(np.int64)):
        summed, gathered = (members[some[members]] for some in (sums, gathers))
        both = int(size[summed].sum()), int(size[gathered].sum())
        found.append(every.item[summed if min(both) >= ALMOST_ALL * max(*both, 1) else summed[:0]])
    return np.concatenate(found)


def averaged(facts: Facts) -> I64:
    """The sums after the optimizer's kernels of a step, which move as many bytes as those of its gradients did."""
    every, starts, size = facts.collectives, facts.trace.slices.start, _bytes_of(facts)
    updates = starts[facts.kernels[facts.kernel_phases == PHASES.index("optimizer")]]
    of_update = np.searchsorted(np.sort(facts.repetitions), updates, "right")
    rows = np.flatnonzero(is_for(facts, "gradients") & (size > 0))
    begin = starts[every.item[rows]]
    step = np.searchsorted(np.sort(facts.repetitions), begin, "right")
    found = [np.zeros(0, np.int64)]
    for members in in_groups(step):
        own = updates[of_update == step[members[0]]]
        if not len(own):
            continue
        late, early = members[begin[members] > own.max()], members[begin[members] < own.min()]
        both = int(size[rows[late]].sum()), int(size[rows[early]].sum())
        found.append(every.item[rows[late]] if min(both) >= ALMOST_ALL * max(*both, 1) else found[0])
    return np.concatenate(found)


def _bytes_of(facts: Facts) -> I64:
    """The bytes of each of ``facts.collectives``, or those that it moves; 0 where neither is known; (n,)."""
    every = facts.collectives
    size: I64 = np.where(every.size >= 0, every.size, every.moved.sums(len(every))[0])
    return size


@once_per_device
def gathered_whole(facts: Facts) -> I64:
    """The gathers that each fetch all weights of their step at once, in ``facts.collectives``, and are waited for."""
    chosen = is_for(facts, "weights")
    each = np.count_nonzero(chosen) == facts.count and facts.whole_steps
    return np.flatnonzero(chosen & serial(facts) & (_bytes_of(facts) > BUCKET)) if each else np.zeros(0, np.int64)


def due_at_once(facts: Facts, gathers: I64) -> F64:
    """The share of ``gathers`` of all weights that the pass forward needs at its begin: one bucket; (n,)."""
    share: F64 = BUCKET / np.maximum(_bytes_of(facts)[gathers], BUCKET)
    return share


class Unsplit(Struct, frozen=True):
    """The ``reductions`` of a step, in ``facts.collectives``, that begin when the pass backward has ended.

    The pass takes from ``begin`` to ``end``, ns. In so many ``buckets`` they would go along with it, as the ``others``
    of the step do, but for the ``last`` bucket: that share of their bytes is ready only when the pass is over.
    """

    reductions: I64
    begin: int
    end: int
    buckets: int
    others: int
    last: float


@once_per_device
def unsplit(facts: Facts) -> list[Unsplit]:
    """The steps that reduce gradients after the pass backward; a bucket is as large as usual, or one parameter.

    The device begins some of those late that the pass asks for: beside others it counts what the host asks for later.
    """
    starts, every = facts.trace.slices.start, facts.collectives
    moved = _bytes_of(facts)
    rows = np.flatnonzero((is_for(facts, "gradients") | is_for(facts, "shards")) & (moved > 0))
    steps = np.sort(facts.repetitions)
    passes = facts.kernels[_in_backward_pass(facts)]
    added = facts.named(("python", "other"), lambda name: name.endswith("AccumulateGrad"))
    parameters = len(added) // facts.count
    found = []
    for members in in_groups(np.searchsorted(steps, starts[every.item[rows]], "right")):
        reductions = rows[members]
        begin = starts[every.item[reductions]]
        step = int(np.searchsorted(steps, begin[0], "right"))
        kernels = passes[np.searchsorted(steps, starts[passes], "right") == step]
        if len(kernels) and starts[kernels[-1]] > begin.min():
            reductions = reductions[_asked_after(facts.trace, every.item[reductions], kernels)]
            reductions = reductions if len(reductions) >= MORE_THAN_ONE else reductions[:0]  # the last bucket is late
        size = int(moved[reductions].sum())
        buckets = min(round(size / BUCKET), parameters or size)  # unknown where no gradient is accumulated
        if buckets < 2 or not len(kernels):
            continue
        # Of several passes backward the last one counts: forward passes lie between them.
        at = np.searchsorted(starts[facts.kernels], starts[kernels])
        cuts = np.flatnonzero(np.diff(at) > max(A_PART * len(at), 1))
        first = kernels[int(cuts[-1]) + 1 if len(cuts) else 0]
        end = int(starts[every.item[reductions]].min())
        last = max(1 / buckets, min(_made(facts, kernels, end) / size, 1.0))
        found.append(Unsplit(reductions, int(starts[first]), end, buckets, len(members) - len(reductions), last))
    return found


def _made(facts: Facts, kernels: I64, end: int) -> int:
    """The bytes that the last of ``kernels`` before ``end`` makes, as of an embedding, which no bucket splits; or 0."""
    table = facts.kernel_table
    rows = np.flatnonzero(np.isin(table.item, kernels) & (table.start < end))
    if not len(rows) or not (table.item >= 0).any():
        return 0
    row = int(rows[-1])
    made = sides_of_shapes(table.outputs.at(row))
    width = SIZES.get((table.dtypes.at(row) or "").split(";")[0].strip().removeprefix("DT_"), 0)
    return round(math.prod(made[0]) * width) if made and made[0] else 0


def _asked_after(trace: Trace, items: I64, kernels: I64) -> Bools:
    """Which of ``items`` the host launches after the last of ``kernels``; none of unknown launch; (n,)."""
    starts, launching, of_kernels = trace.slices.start, operation_of(trace, items), operation_of(trace, kernels)
    of_kernels = of_kernels[of_kernels >= 0]
    after: Bools = (launching >= 0) & (starts[launching] > starts[of_kernels].max(initial=0)) & (len(of_kernels) > 0)
    return after


def trains(facts: Facts) -> bool:
    """Whether something is trained: a backward pass runs."""
    return bool(backward(facts).any()) or any(name.startswith("BNTraining") for name in facts.kernel_types[0])


@once_per_device
def purposes(facts: Facts) -> I64:
    """What each of ``facts.collectives`` is for, as an index into ``PURPOSES``; (n,)."""
    every = facts.collectives
    kinds = np.array([PURPOSES.index(_purpose_of(name)) for name in every.types] + [PURPOSES.index("other")])
    purpose: I64 = kinds[every.type].astype(np.int64)
    before, after = product_before(facts), backward(facts)
    summing = np.isin(purpose, [PURPOSES.index("gradients"), PURPOSES.index("shards")])
    forward = (before >= 0) & ~np.append(after, True)[before]
    slices = facts.trace.slices
    lane = slices.lane[every.item]
    least = MORE_THAN_ONE * facts.count
    # There are no gradients before the backward pass.
    kernels = slices.start[facts.kernels]
    trained = summing & _after_backward(facts, kernels[after], slices.start[every.item])
    purpose[summing & ~trained] = PURPOSES.index("other")
    for group in np.unique(lane[summing & forward]).tolist():
        there = summing & (lane == group)
        behind = np.count_nonzero(before[there] >= 0)
        if np.count_nonzero(there & forward) >= least and behind >= A_PART * there.sum():
            # With sequence parallelism the group gathers what its sums scatter.
            gathered = purpose == PURPOSES.index("weights")
            purpose[(lane == group) & (summing | gathered)] = PURPOSES.index("tensor")
    # What is summed as much before the pass backward does not count: the statistics of a norm, there with their count.
    size = _bytes_of(facts)
    like = lane.astype(np.int64) * (int(size.max(initial=0)) + _COUNT + 1) + size
    others = np.unique(like[summing & (purpose == PURPOSES.index("other"))])
    gradients = np.flatnonzero(summing & (purpose == PURPOSES.index("gradients")))
    alike = np.searchsorted(others, like[gradients] + _COUNT, "right") > np.searchsorted(others, like[gradients])
    purpose[gradients[alike]] = PURPOSES.index("other")
    # A single number is no bucket of gradients: it is a loss, or a norm.
    purpose[summing & (size > 0) & (size <= _COUNT)] = PURPOSES.index("other")
    return purpose


def _purpose_of(name: str) -> Purpose:
    plain = name.lower()
    return next((purpose for word, purpose in _KINDS if word in plain), "other")


def is_for(facts: Facts, purpose: Purpose) -> Bools:
    """Which of ``facts.collectives`` are for ``purpose``; (n,)."""
    wanted: Bools = purposes(facts) == PURPOSES.index(purpose)
    return wanted
