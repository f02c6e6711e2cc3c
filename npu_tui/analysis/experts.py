"""Experts of a model with several (MoE): what every layer of a pass computed for them, and the exchanges around it.

Experts compute in grouped matrix products. Tokens come to them and go back in kernels that exchange them
(MoeDistributeDispatch and Combine), in all-to-alls, or in whatever other collective stands next to the products.
Source: the operators of CANN (aclnnGroupedMatmulV4, aclnnMoeDistributeDispatch), torch ``_grouped_mm``, DeepEP, vLLM.

``Swap`` and ``ExpertCopies`` say what moving or copying some experts of a layer would change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct

from npu_tui.analysis.kernels import Coded, Groups, KernelTable
from npu_tui.analysis.limits import A_PART
from npu_tui.trace.arrays import F64, I64, Bools
from npu_tui.trace.text import decimal_number

_PRODUCT = re.compile(r"grouped_?mat_?mul|grouped_?gemm|grouped_mm|fused_moe|moe_gemm", re.IGNORECASE)
_FUSED = re.compile(
    r"DispatchFFNCombine|all_?to_?all_?v?_?(?:gmm|grouped)"
    r"|(?:gmm|grouped_?mat_?mul)_?(?:all_?to_?all|all_?reduce|reduce_?scatter)",
    re.IGNORECASE,
)
"""Products and the exchange in one kernel: it waits for other ranks inside, so its time is not work alone."""
_EXCHANGE = re.compile(r"MoeDistribute(?P<npu>Dispatch|Combine)|deep_ep.*(?P<gpu>dispatch|combine)", re.IGNORECASE)
_ROUTING = re.compile(r"Moe(?:Init|Finalize)Routing|MoeToken(?:Un)?Permute", re.IGNORECASE)
"""Kernels that put tokens into the order of their experts, once for each expert of a token, and back."""
_MOST_EXPERTS = 64  # experts of one token: models have up to 22; a larger side is something else
_ATTENTION = re.compile(r"attention|flash|mla_", re.IGNORECASE)
_GRADIENT = re.compile(r"Grad|Backward|Backprop|_bwd", re.IGNORECASE)
_LAST = re.compile(r"^ArgMax", re.IGNORECASE)
"""Kernels that choose the next token: a pass ends there."""
_VOCABULARY = 32_768  # columns of weights from which a product is that of the words (lm head), which ends a pass too

# Kinds of kernels that are listed, those with most time: where each step has shapes of its own, a few steps of a model.
_PACES = 64

KERNELS, ALL_TO_ALL, OTHER = range(3)
"""Kinds of exchanges, those that only experts use first."""


class Exchanges(Struct, frozen=True, eq=False):
    """Everything that may exchange tokens, by start: ``kind`` as above, ``group`` numbers groups; (n,) each."""

    start: I64
    end: I64
    kind: I64
    group: I64

    def taken(self, chosen: Bools | I64) -> Exchanges:
        """The ``chosen`` ones."""
        return Exchanges(self.start[chosen], self.end[chosen], self.kind[chosen], self.group[chosen])


class ExpertPass(Struct, frozen=True, gc=False):
    """What one MoE layer of one pass did for its experts; times in ns, -1 where there is none.

    ``work`` is the time of the products, which lie from ``start`` to ``end`` and compute ``tokens`` rows, ``beside``
    that of other kernels between the exchanges. The exchanges before (``sent``) and after (``back``) include the waits
    for other ranks, and ``fused`` products do. No kernel runs for ``idle`` between the products and ``back``.
    """

    layer: int
    backward: bool
    start: int
    end: int
    work: int
    tokens: int
    sent_start: int
    sent_end: int
    back_start: int
    back_end: int
    fused: bool = False
    beside: int = 0
    idle: int = 0


class LayerSum(Struct, frozen=True):
    """The passes of one MoE layer added up, ns; ``tokens`` is their mean, ``dispatch`` and ``combine`` the exchanges.

    None is unknown: without shapes, or where no exchange is recorded.
    """

    layer: int
    passes: list[ExpertPass]
    tokens: float | None
    work: int
    backward: int
    dispatch: int | None
    combine: int | None
    fused: bool


def layer_sums(passes: Iterable[ExpertPass]) -> list[LayerSum]:
    """``passes`` by layer."""
    layers: dict[int, list[ExpertPass]] = {}
    for row in passes:
        layers.setdefault(row.layer, []).append(row)
    sums = []
    for layer, rows in sorted(layers.items()):
        tokens = [row.tokens for row in rows if row.tokens >= 0]
        sent = [row.sent_end - row.sent_start for row in rows if row.sent_end >= 0]
        back = [row.back_end - row.back_start for row in rows if row.back_end >= 0]
        sums.append(
            LayerSum(
                layer, rows, sum(tokens) / len(tokens) if tokens else None, sum(row.work for row in rows),
                sum(row.work for row in rows if row.backward), sum(sent) if sent else None,
                sum(back) if back else None, any(row.fused for row in rows),
            )
        )  # fmt: skip
    return sums


class Pace(Struct, frozen=True):
    """Kernels of one ``type`` and ``shapes``, or calls of one name, on a rank: ``count`` of them take ``time`` ns.

    ``routed`` kernels stand between exchanges of tokens: what they do depends on the tokens that come. ``blocks`` is
    the Block Dim of the median one, 0 where that is not known.
    """

    type: str
    shapes: str
    count: int
    time: int
    routed: bool = False
    blocks: int = 0

    @property
    def each(self) -> float:
        """How long one of them takes, ns."""
        return self.time / self.count


def exchanging(kernels: KernelTable) -> dict[int, str]:
    """The kernels that exchange tokens by position, each with what it does: ``Dispatch`` or ``Combine``."""
    found = {}
    for at in np.flatnonzero(_kernels_named(kernels, _EXCHANGE)).tolist():
        match = _EXCHANGE.search(kernels.type.at(at) or "") or _EXCHANGE.search(kernels.name.at(at) or "")
        if match is not None:
            found[at] = (match["npu"] or match["gpu"]).capitalize()
    return found


def has_experts(kernels: KernelTable) -> bool:
    """Whether any kernel computes for experts."""
    return bool((_kernels_named(kernels, _PRODUCT) | _kernels_named(kernels, _FUSED)).any())


def _kernels_named(kernels: KernelTable, pattern: re.Pattern[str]) -> Bools:
    """Which kernels have a type or a name with ``pattern``; (n,)."""

    def matches(text: str) -> bool:
        return pattern.search(text) is not None

    return np.asarray(kernels.type.where(matches) | kernels.name.where(matches))


def expert_passes(kernels: KernelTable, exchanges: Exchanges, borders: I64, backward: Bools) -> list[ExpertPass]:
    """Every MoE layer of every pass by start.

    ``borders`` are times at which a pass may begin, ``backward`` says which kernels the backward pass launched; (n,).
    Where it names none, gradients say so: kernels called so stand before the products of a layer in a backward pass.
    """
    fused = _kernels_named(kernels, _FUSED)
    chosen = _kernels_named(kernels, _PRODUCT) & ~fused
    whole = not chosen.any() and bool(fused.any())
    items = np.flatnonzero(fused if whole else chosen)
    if not len(items):
        return []
    start, length = kernels.start[items], kernels.duration[items]
    around = exchanges.taken(_serving(start, exchanges))
    splits = around.start
    if not len(splits):  # nothing is exchanged: what lies between two attentions is a layer
        splits = kernels.start[_kernels_named(kernels, _ATTENTION)]
    following = np.searchsorted(splits, start, "right")
    first = np.flatnonzero(np.append(True, np.diff(following) != 0))
    work, end = np.add.reduceat(length, first), np.maximum.reduceat(start + length, first)
    after = following[first]
    has_back, has_sent = after < len(around.start), (after > 0) & (len(around.start) > 0)
    times = np.full((4, len(first)), -1, np.int64)
    for row, known, place in ((0, has_sent, after - 1), (2, has_back, after)):
        times[row, known], times[row + 1, known] = around.start[place[known]], around.end[place[known]]
    ends = _pass_ends(kernels)
    pass_of = np.searchsorted(np.sort(np.concatenate((borders, ends))), start[first], "right")
    back = backward[items[first]]
    if not back.any():
        gradients = np.searchsorted(
            kernels.start[_kernels_named(kernels, _GRADIENT)], np.append(start[:1], start[first])
        )
        back = np.append(False, np.diff(gradients)[1:] > 0) if len(first) else back
    layer = _layers(pass_of, back)
    tokens = _tokens(kernels.shapes)[kernels.shapes.code[items[first]]]
    others, at = _between_products(kernels, times)
    beside = np.bincount(at, kernels.duration[others], len(first)).astype(np.int64)
    late = kernels.start[others] >= end[at]
    idle = times[2] - end - np.bincount(at[late], kernels.duration[others[late]], len(first)).astype(np.int64)
    idle = np.where(has_back, np.maximum(idle, 0), 0)
    known = np.full(len(first), whole)
    rows = (layer, back, start[first], end, work, tokens, *times, known, beside, idle)
    return [ExpertPass(*row) for row in zip(*(column.tolist() for column in rows), strict=True)]


def _between_products(kernels: KernelTable, times: I64) -> tuple[I64, I64]:
    """The kernels that are no products and no exchanges, and lie between the two of a layer; and which layer that is.

    ``times`` (4, layers) begin and end the exchange before and after, -1 where there is none.
    """
    known = np.flatnonzero((times[0] >= 0) & (times[2] >= 0))
    other = np.flatnonzero(~_is_of_experts(kernels))
    at = np.searchsorted(times[1][known], kernels.start[other], "right") - 1
    other, at = other[at >= 0], known[at[at >= 0]]
    inside = kernels.start[other] < times[2][at]
    return other[inside], at[inside]


def _is_of_experts(kernels: KernelTable) -> Bools:
    """Which kernels compute for experts or exchange their tokens."""
    return _kernels_named(kernels, _PRODUCT) | _kernels_named(kernels, _FUSED) | _kernels_named(kernels, _EXCHANGE)


def _serving(start: I64, exchanges: Exchanges) -> Bools:
    """Which exchanges serve the products that begin at ``start``: of the groups that mostly follow them."""
    for kind in (KERNELS, ALL_TO_ALL, OTHER):
        of_kind = exchanges.kind == kind
        group = exchanges.group[of_kind]
        following = np.searchsorted(exchanges.start[of_kind], start, "right")
        last = following[np.append(np.diff(following) != 0, True)]
        counts = np.bincount(group[last[last < len(group)]], minlength=1)
        if counts.any():
            # Others follow them by chance, seldom beside the one that does most.
            return np.asarray(of_kind & np.isin(exchanges.group, np.flatnonzero(counts >= A_PART * counts.max())))
    return np.zeros(len(exchanges.start), np.bool_)


def _pass_ends(kernels: KernelTable) -> I64:
    """When kernels run that only the end of a pass has."""
    wide = np.array(
        [_tensor_sides(text, 1)[-1:] >= [_VOCABULARY] for text in kernels.shapes.values] + [False], np.bool_
    )
    products = _kernels_named(kernels, re.compile("MatMul|gemm", re.IGNORECASE)) & ~_kernels_named(kernels, _PRODUCT)
    widest = products & wide[kernels.shapes.code]
    return np.asarray(kernels.start[_kernels_named(kernels, _LAST) | widest])


def _tensor_sides(shapes: str, place: int) -> list[int]:
    """The sides of the tensor at ``place`` of ``shapes`` (``32,64;64,128``), ascending; none where it is unknown."""
    tensors = shapes.split(";")
    sides = tensors[place].split(",") if place < len(tensors) else []
    return sorted(known for side in sides if (known := decimal_number(side.strip())) is not None)


def _tokens(shapes: Coded) -> I64:
    """The rows that products of each of the ``shapes`` compute, -1 where unknown, with a -1 at the end.

    They are those of the first tensors: several inputs have one hidden size, and the weights after them have another
    number of dimensions or of columns.
    """
    rows = []
    for text in shapes.values:
        tensors = [tensor.split(",") for tensor in text.split(";")]
        inputs = [tensors[0]]
        inputs += [tensor for tensor in tensors[1:] if len(tensor) == 2 and tensor[1] == tensors[0][-1]]
        if len(inputs) > 1 and len(inputs) == sum(len(tensor) > 1 for tensor in tensors):  # the weights are square
            inputs = inputs[: len(inputs) // 2]
        sides = [tensor[0].strip() for tensor in inputs]
        rows.append(sum(map(int, sides)) if all(side.isdecimal() and len(side) < 12 for side in sides) else -1)
    return np.array([*rows, -1], np.int64)


def routed_rows(kernels: KernelTable) -> int:
    """How many rows, one for each expert of a token, go to experts in a pass; 0 where that differs or is unknown."""
    routing = np.flatnonzero(_kernels_named(kernels, _ROUTING) & ~_kernels_named(kernels, _GRADIENT))
    rows = {
        _routed(kernels.shapes.values[code]) for code in np.unique(kernels.shapes.code[routing]).tolist() if code >= 0
    }
    return rows.pop() if len(rows) == 1 else 0


def _routed(shapes: str) -> int:
    """The rows that a kernel of such ``shapes`` routes: by a second tensor (tokens, experts), else by the first.

    That one may also be flat: (tokens · experts of each).
    """
    tensors = [[decimal_number(side.strip()) or 0 for side in tensor.split(",")] for tensor in shapes.split(";")]
    chosen = next((each for each in tensors[1:] if len(each) == 2 and each[1] <= _MOST_EXPERTS), None)
    if chosen is not None:
        return chosen[0] * chosen[1]
    tokens = tensors[0][0] or 1
    flat = next((each[0] for each in tensors[1:] if len(each) == 1 and tokens <= each[0] <= _MOST_EXPERTS * tokens), 0)
    return flat if flat % tokens == 0 and flat else tensors[0][0] if len(tensors[0]) == 2 else 0


def _layers(pass_of: I64, backward: Bools) -> I64:
    """The number of the MoE layer of every block, (n,): its place in its pass, from the end in a backward pass.

    A pass ends at a border and where forward turns to backward. Most passes have as many layers as the model; a stage
    of a pipeline runs several in a row. A layer that is computed again in the backward pass is there twice.
    """
    first = np.flatnonzero(np.append(True, (np.diff(pass_of) != 0) | (np.diff(backward) != 0)))
    lengths = np.diff(np.append(first, len(pass_of)))
    back = backward[first]
    forward = lengths[~back] if not back.all() else lengths
    sizes, counts = np.unique(forward, return_counts=True)
    count = int(sizes[np.argmax(sizes * counts)])
    again = max(round(int(backward.sum()) / max(int((~backward).sum()), 1)), 1) if not back.all() else 1
    layer = np.zeros(len(pass_of), np.int64)
    for number, (low, length, is_back) in enumerate(zip(first.tolist(), lengths.tolist(), back.tolist(), strict=True)):
        place = np.arange(length)
        if is_back:
            place = count - 1 - place % (count * again) // again
        elif length % count == 0:
            place %= count
        elif number == 0 and length < count:  # the recording began within a pass
            place += count - length
        layer[low : low + length] = place
    return layer


def paces(kernels: KernelTable, passes: Sequence[ExpertPass]) -> tuple[Pace, ...]:
    """The kinds of kernels that compute most; those in the layers of ``passes`` are routed.

    On a slow device all of them take longer.
    """
    times = np.array([(row.sent_start, row.sent_end, row.back_start, row.back_end) for row in passes], np.int64)
    routed = _is_of_experts(kernels)
    routed[_between_products(kernels, times.reshape(-1, 4).T)[0]] = True
    items = np.flatnonzero(kernels.type.code >= 0)
    if not len(items):
        return ()
    kind = kernels.type.code[items] * (len(kernels.shapes.values) + 1) + kernels.shapes.code[items] + 1
    groups = Groups(kind * 2 + routed[items], kernels.duration[items])
    found: list[Pace] = []
    for group in np.argsort(-groups.total, kind="stable")[:_PACES].tolist():
        own = items[groups.items(group)]
        at, blocks = int(own[0]), kernels.block_dim[own]
        of_kind = kernels.type.at(at) or "", kernels.shapes.at(at) or ""
        usual = int(np.median(blocks)) if np.isfinite(blocks).all() else 0
        found.append(Pace(*of_kind, int(groups.count[group]), int(groups.total[group]), bool(routed[at]), usual))
    return tuple(found)


class Swap(Struct, frozen=True):
    """``expert`` of the device at ``place`` and ``other_expert`` of that at ``other`` change places: then the device
    with most tokens has ``most``.
    """

    place: int
    expert: int
    other: int
    other_expert: int
    most: float


def best_swap(tokens: F64, experts: I64) -> Swap | None:
    """The swap between the device with most tokens and another that leaves the least on the device with most then.

    ``tokens`` and ``experts`` are those of the slots, (devices, slots), not-a-number for an empty one. No device gets
    a second copy of an expert. None where nothing gets better.
    """
    load = np.nansum(tokens, axis=1)
    hot = int(np.argmax(load))
    less = tokens[hot][:, None, None] - tokens[None]  # (slots of the hot one, devices, slots)
    # Apart from the two, the device with most tokens is one of the three with most.
    order = np.argsort(-load, kind="stable")
    rest = np.array([max((load[row] for row in order[:3] if row not in (hot, other)), default=0.0)
                     for other in range(len(load))])  # fmt: skip
    after = np.maximum(np.maximum(load[hot] - less, load[None, :, None] + less), rest[None, :, None])
    twice = (experts[None] == experts[hot][:, None, None]).any(axis=2)[:, :, None]
    twice = twice | np.isin(experts, experts[hot])[None]
    after[:, hot] = np.nan
    after = np.where(twice, np.nan, after)
    if not np.isfinite(after).any() or np.nanmin(after) >= load[hot]:
        return None
    slot, other, other_slot = np.unravel_index(int(np.nanargmin(after)), after.shape)
    found = experts[hot, slot], other, experts[other, other_slot]
    return Swap(hot, int(found[0]), int(found[1]), int(found[2]), float(after[slot, other, other_slot]))


class ExpertCopies(Struct, frozen=True):
    """How a placement spreads ``experts`` over devices.

    ``redundant`` slots hold a further copy, in every layer (None: as many differ). ``most`` is how many layers have so
    many copies of one expert at most, by copies; ``twice`` counts devices of layers that hold an expert twice, and
    ``missing`` the experts of some layer that another layer does not place.
    """

    experts: int
    redundant: int | None
    most: dict[int, int]
    twice: int
    missing: int


def copies_in(slots: I64) -> ExpertCopies:
    """Copies of the experts in ``slots`` (layers, devices, slots), -1 for an empty one."""
    every = np.unique(slots[slots >= 0])
    most: dict[int, int] = {}
    redundant, twice, missing = set(), 0, 0
    for of_layer in slots:
        there, counts = np.unique(of_layer[of_layer >= 0], return_counts=True)
        most[int(counts.max())] = most.get(int(counts.max()), 0) + 1
        redundant.add(int(counts.sum()) - len(there))
        missing += len(every) - len(there)
        ordered = np.sort(of_layer, axis=1)
        twice += int(((np.diff(ordered, axis=1) == 0) & (ordered[:, 1:] >= 0)).any(axis=1).sum())
    return ExpertCopies(len(every), redundant.pop() if len(redundant) == 1 else None, most, twice, missing)
