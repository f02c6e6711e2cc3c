"""Runs of operations and kernels for which one fused operator exists, as data, and what stays of them in both passes.

A run is written as its members in order: ``a|b`` is either, ``[a]`` is optional, ``a*2`` occurs up to two times or not
at all, ``a*2+`` two times or more. Sources: the affinity tables of msprof-analyze's advisor (6.3.RC2 to 8.0.RC3),
MindStudio Insight's fusible operators, and the tuning guides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.launches import Around, operation_of
from npu_tui.analysis.operators import fused_times
from npu_tui.rules.facts import CUBE, Facts
from npu_tui.trace.arrays import F64, I64, BySlice
from npu_tui.trace.message import Said, message
from npu_tui.trace.model import FORWARD_BACKWARD, Trace


class FusedSequence(Struct, frozen=True):
    """Members that follow each other and the API that does their work at once: its name, or a phrase for a reader.

    ``exact`` replacements compute the same; others are approximations or need a look at the model first. A run of a
    ``linear`` is already fused where a linear operation launched it, one of a ``bias`` elsewhere is no run. A ``whole``
    run is replaced by something that takes hardly any time; otherwise the replacement takes as long as the longest
    member. A ``constant`` run is replaced only where what it writes is one. ``training`` is what does the work where
    weights are trained, if that is something else.
    """

    members: str
    api: Said
    exact: bool = True
    linear: bool = False
    bias: bool = False
    whole: bool = False
    constant: bool = False
    training: Said = ""


_FOLDED = message("fused.folded_norm")
_FUSED = message("fused.fused_norm")
_BATCHED = "BatchMatMul|BatchMatMulV2|BatchMatMulV3"
_PRODUCT = "MatMul|MatMulV2|MatMulV3"
_ACTIVATION = "Relu|Relu6|Gelu|GeluV2|Swish|Sigmoid|Tanh"
ELEMENTWISE = (
    "Abs", "Add", "Adds", "Addcdiv", "Addcmul", "Cast", "Ceil", "ClipByValue", "ClipByValueV2", "Cos", "Div", "Divs",
    "Erf", "Exp", "Expm1", "Floor", "Lerp", "Log", "Log1p", "Maximum", "Minimum", "Mul", "Muls", "Neg", "Pow", "Pows",
    "RealDiv", "Reciprocal", "Relu", "Rsqrt", "Sigmoid", "Sign", "Sin", "Sqrt", "Square", "Sub", "Subs", "Tanh",
)  # fmt: skip
"""Types of kernels that compute each element from the same one of their inputs."""
_ALONG = (
    "ConcatD", "ConcatV2", "ReduceMax", "ReduceMean", "ReduceMeanD", "ReduceSum", "ReduceSumD", "Slice", "SliceD",
    "StridedSlice", "StridedSliceD",
)  # fmt: skip
"""Types that do so with the elements of one row, as a norm and a rotary embedding need."""
_MASK = "DropOutGenMask|DropOutGenMaskV3|DropOutGenMaskV4|StatelessDropOutGenMask"
_HALVES = "slice|chunk|split|split_with_sizes [slice] [contiguous] [contiguous]"
"""The two halves of a projection, each copied where the program asks for rows without gaps."""
_SLICE = "Slice|SliceD|StridedSlice|StridedSliceD"
_HALF = f"{_SLICE}|Split|SplitD|SplitV|SplitVD [{_SLICE}]"
_BREAKER = message("fused.moved_out")

ADDMM = "torch.addmm(bias, input, weight.t())"

IN_PLACE = message("fused.in_place")
"""What saves memory and no time."""

#: Runs of top-level ``aten`` operations, without their prefix.
ATEN: tuple[FusedSequence, ...] = (
    FusedSequence("permute|transpose [contiguous] reshape|view", "torch_npu.npu_confusion_transpose"),
    FusedSequence("reshape|view [contiguous] permute|transpose", "torch_npu.npu_confusion_transpose"),
    FusedSequence(
        "matmul|bmm [add] [mul|div] [masked_fill_|masked_fill|add] softmax [dropout] matmul|bmm",
        "torch_npu.npu_fusion_attention",
    ),
    FusedSequence("[mul|div] masked_fill_|masked_fill softmax", "torch_npu.npu_scaled_masked_softmax"),
    FusedSequence("mul|div add softmax", "torch_npu.npu_scaled_masked_softmax", exact=False),
    FusedSequence("add reciprocal mul", "torch_npu.optim clip_grad_norm_fused_"),
    FusedSequence("[mul] chunk|slice|split [slice] neg cat mul [mul] add", "torch_npu.npu_rotary_mul"),
    FusedSequence("[to|_to_copy|float] [pow] [mean] [add] rsqrt mul [type_as] [mul]", "torch_npu.npu_rms_norm"),
    FusedSequence(f"{_HALVES} silu mul", "torch_npu.npu_swiglu"),
    FusedSequence(f"{_HALVES} sigmoid mul mul", "torch_npu.npu_swiglu"),
    FusedSequence("silu slice|chunk|split|split_with_sizes mul", "torch_npu.npu_swiglu"),
    FusedSequence(f"{_HALVES} gelu mul", "torch_npu.npu_geglu"),
    FusedSequence("group_norm silu", "torch_npu.npu_group_norm_silu"),
    FusedSequence("mul mul add", "torch.addmm", exact=False),
    FusedSequence("add layer_norm", "torch_npu.npu_add_layer_norm"),
    FusedSequence("matmul add", message("fused.matmul_add")),
    FusedSequence("argsort argsort index_select", message("fused.permute")),
    FusedSequence("index_select mul reduce_sum", message("fused.unpermute")),
    FusedSequence("mul sigmoid", "torch_npu.npu_silu", exact=False),
    FusedSequence("gelu", "torch_npu.fast_gelu", exact=False),
    FusedSequence("mish", "torch_npu.npu_mish", exact=False),
    FusedSequence("one_hot sum", "torch.zeros(…).scatter_(…)"),
    FusedSequence("repeat_interleave", "unsqueeze + expand + reshape", exact=False, whole=True),
    FusedSequence("conv2d batch_norm [relu|relu_|silu|silu_|hardswish]", _FOLDED, exact=False, training=_FUSED),
    FusedSequence(
        "matmul add relu|relu_|sigmoid|sigmoid_|tanh|tanh_|silu",
        message("fused.linear_activation"),
    ),
    FusedSequence("matmul add gelu", "torch.nn.functional.linear"),
    FusedSequence("relu|sigmoid|tanh", IN_PLACE, exact=False),
    FusedSequence("where", message("fused.masked"), exact=False, whole=True),
    FusedSequence("gather", message("fused.indexed"), exact=False, whole=True),
)

CHAIN = message("fused.chain")
CHAIN_FROM = 6
"""Fewer are what layers have anyway: a bias, a residual, a scale and casts between them."""

#: Runs of operator types on one stream.
KERNEL: tuple[FusedSequence, ...] = (
    FusedSequence("Add DropOutDoMask Add", message("fused.bias_dropout")),
    FusedSequence(f"[{_MASK}] DropOutDoMask|DropOutDoMaskV3", message("fused.no_dropout"), whole=True),
    FusedSequence(
        f"{_BATCHED} [Mul|Muls|Div|RealDiv] [Add|MaskedFill] SoftmaxV2 [DropOutDoMask] {_BATCHED}",
        "torch_npu.npu_fusion_attention",
    ),
    FusedSequence("[Cast] Square ReduceMean|ReduceMeanD Add Rsqrt Mul [Mul] [Cast]", "torch_npu.npu_rms_norm"),
    FusedSequence("Cast LayerNorm|LayerNormV3 Cast", message("fused.norm_type")),
    FusedSequence("Add LayerNorm|LayerNormV3", "torch_npu.npu_add_layer_norm"),
    FusedSequence("Gelu Add", message("fused.bias_gelu"), exact=False),
    FusedSequence("Mul [Slice|AsStrided] Neg [Slice|AsStrided] ConcatD Mul [Add]", "torch_npu.npu_rotary_mul"),
    FusedSequence("MatMulV2 Swish MatMulV2 Mul MatMulV2", "torch_npu.npu_ffn"),
    FusedSequence(f"{_HALF} Swish Mul", "torch_npu.npu_swiglu"),
    FusedSequence(f"{_HALF} Sigmoid Mul Mul", "torch_npu.npu_swiglu"),
    # Views leave no kernel: the halves may as well come from two projections, which have to become one first.
    FusedSequence("Swish Mul", message("fused.swiglu_halves"), exact=False),
    FusedSequence("Mul|Muls|Div|RealDiv MaskedFill SoftmaxV2", "torch_npu.npu_scaled_masked_softmax"),
    FusedSequence("Mul|Muls|Div|RealDiv Add SoftmaxV2", "torch_npu.npu_scaled_masked_softmax", exact=False),
    FusedSequence(
        "Transpose Transpose GatherElement|GatherElements|GatherElementsV2 Transpose",
        message("fused.last_axis"),
    ),
    FusedSequence(
        "Conv2D|Conv2DV2 BNInfer|BatchNorm|BatchNormV3|BNTrainingUpdate [Relu|Relu6|Swish]",
        _FOLDED,
        exact=False,
        training=_FUSED,
    ),
    FusedSequence(
        "Conv2D|Conv2DV2 BNTrainingReduce BNTrainingUpdate|BNTrainingUpdateV2 [Relu|Relu6|Swish]", _FUSED, exact=False
    ),
    FusedSequence(f"{_PRODUCT} Add {_ACTIVATION}", message("fused.linear_bias"), linear=True),
    FusedSequence(f"{_PRODUCT} Add", ADDMM, exact=False, bias=True),
    FusedSequence(f"{_PRODUCT}|{_BATCHED} SoftmaxV2", message("fused.attention_softmax")),
    FusedSequence(f"{_PRODUCT}|{_BATCHED} Transpose|Reshape {_ACTIVATION}|Add|SoftmaxV2", _BREAKER, exact=False),
    FusedSequence("OneHot ReduceSum", "torch.zeros(…).scatter_(…)"),
    FusedSequence("IndexPutV2", message("fused.times_mask"), whole=True, constant=True),
    FusedSequence("NonZero", message("fused.times_fixed"), whole=True),
    FusedSequence("SelectV2|Select|Where", message("fused.masked"), exact=False, whole=True),
    FusedSequence("GatherElement|GatherElements|GatherElementsV2", message("fused.indexed"), exact=False, whole=True),
    FusedSequence(
        "RepeatInterleave|RepeatInterleaveV2",
        message("fused.repeats"),
        exact=False,
        whole=True,
    ),
    # Of equally long ones a run that has a name counts.
    FusedSequence(f"{'|'.join((*ELEMENTWISE, *_ALONG))}*{CHAIN_FROM}+", CHAIN),
)

#: Members that may occur between two others without breaking the run.
BETWEEN_ATEN = frozenset({"to", "_to_copy", "type_as"})
BETWEEN_KERNELS = frozenset({"Cast", "TransData"})

_FIRST_CHAR = 0xE000  # the private characters of Unicode begin here: none of them means anything in a pattern
_MEMBER = re.compile(r"(?P<open>\[)?(?P<names>[^\[\]*]+)\]?(?:\*(?P<times>\d)(?P<more>\+)?)?")


def of_training(runs: Sequence[FusedSequence]) -> tuple[FusedSequence, ...]:
    """``runs`` as they are replaced where weights are trained."""
    return tuple(replace(run, api=run.training) if run.training else run for run in runs)


class SequenceMatches(Struct, frozen=True):
    """Where ``runs`` occur: ``run`` is an index into them, the members are [``first``, ``last``); (n,) each."""

    runs: Sequence[FusedSequence]
    run: I64
    first: I64
    last: I64


def matches(names: Sequence[str], code: I64, runs: Sequence[FusedSequence], between: frozenset[str]) -> SequenceMatches:
    """All places of a sequence where one of ``runs`` occurs; of overlapping ones the longer, then the earlier counts.

    ``code`` (n,) says which of ``names`` each of its members has.
    """
    occurring = np.flatnonzero(np.bincount(code, minlength=len(names)))
    # Every name that occurs becomes one character, so that a run is a regular expression over one long text.
    codes: dict[str, str] = {}
    chars = np.zeros(len(names), "<u4")
    chars[occurring] = [
        ord(codes.setdefault(names[name], chr(_FIRST_CHAR + len(codes)))) for name in occurring.tolist()
    ]
    text = chars[code].tobytes().decode("utf-32-le")
    gap = _any([codes[word] for word in between if word in codes])
    numbers: list[int] = []
    spans: list[tuple[int, int]] = []
    for number, run in enumerate(runs):
        pattern = _pattern(run, codes, f"(?:{gap}{{0,1}})" if gap else "")
        if pattern is None:
            continue
        places = [match.span() for match in re.finditer(pattern, text)]
        numbers += [number] * len(places)
        spans += places
    first, last = np.array(spans, np.int64).reshape(-1, 2).T
    disjoint = _without_overlaps(first, last)
    disjoint = disjoint[np.argsort(first[disjoint], kind="stable")]
    return SequenceMatches(runs, np.array(numbers, np.int64)[disjoint], first[disjoint], last[disjoint])


def _without_overlaps(first: I64, last: I64) -> I64:
    """The spans that remain when of overlapping ones only the longest, then earliest, then first one counts."""
    order = np.argsort(first, kind="stable")
    # Most spans overlap no other one: they are kept at once, and only the crowded ones go through the loop.
    alone = np.ones(len(order) + 1, np.bool_)
    alone[1:-1] = first[order[1:]] >= np.maximum.accumulate(last[order])[:-1]
    alone = alone[:-1] & alone[1:]
    crowded = np.sort(order[~alone])
    crowded = crowded[np.lexsort((first[crowded], (first - last)[crowded]))]
    taken = bytearray(int(last.max(initial=0)))
    apart = order[alone].tolist()
    for number, begin, end in zip(crowded.tolist(), first[crowded].tolist(), last[crowded].tolist(), strict=True):
        if not any(taken[begin:end]):
            taken[begin:end] = b"\1" * (end - begin)
            apart.append(number)
    return np.array(apart, np.int64)


def _pattern(run: FusedSequence, codes: dict[str, str], gap: str) -> str | None:
    """The run over the characters of ``codes``; None if a member that must be there never occurs."""
    pattern, started = "", False
    for member in run.members.split():
        part = _MEMBER.fullmatch(member)
        if part is None:
            raise ValueError(f"{member} is no member of a run")
        chars = _any([codes[name] for name in part["names"].split("|") if name in codes])
        optional = part["open"] is not None or (part["times"] is not None and part["more"] is None)
        if not chars:
            if optional:
                continue
            return None
        lead = gap if started else ""
        if part["more"] is not None:
            pattern += f"{lead}{chars}(?:{gap}{chars}){{{int(part['times']) - 1},}}"
            started = True
        elif part["times"] is not None:
            pattern += f"(?:{lead}{chars}){{0,{part['times']}}}"
        elif optional:
            # In front of the first member that must be there, the gap follows; after it, it leads.
            pattern += f"(?:{lead}{chars})?" if started else f"(?:{chars}{gap})?"
        else:
            pattern += lead + chars
            started = True
    return pattern


def _any(chars: list[str]) -> str:
    return f"[{''.join(chars)}]" if chars else ""


Runs = tuple[list[tuple[I64, I64]], list[I64]]
"""Operations or kernels of runs and the run of each, and kernels of the runs that go entirely."""


def shortened(facts: Facts, runs_of: dict[Said, Runs], kind: str) -> tuple[I64, F64]:
    """The kernels that calls in place of runs of operations or kernels shorten, and which part of each stays; (n,).

    One call takes the place of a run in the pass forward, and one in the backward. Where shapes give what it moves and
    computes it takes that time; elsewhere, and of chains, as long as the longest, as it reads and writes what that
    does. So do products.
    """
    trace = facts.trace
    operations, number, chains = _joined([]), _joined([]), _joined([])
    for api, (members, _) in runs_of.items():
        for items, run in members:
            run = np.unique(run, return_inverse=True)[1] + number.max(initial=-1) + 1
            operations, number = _joined([operations, items]), _joined([number, run])
            chains = _joined([chains, np.unique(run) if api == CHAIN else run[:0]])
    kernels = np.sort(operations), number[np.argsort(operations)]
    if kind == "kernel":
        operations = operation_of(trace, operations)
        operations, number = operations[operations >= 0], number[operations >= 0]
    order = np.argsort(operations, kind="stable")
    runs = BySlice(operations[order], number[order])
    called = operation_of(trace, facts.kernels)
    links = trace.bound_links_of(FORWARD_BACKWARD)
    inside = runs.of(_around(trace, operations, trace.links.source_slice[links].astype(np.int64)))
    targets = trace.links.target_slice[links[inside >= 0]].astype(np.int64)
    of_targets = BySlice(targets, inside[inside >= 0])
    forward = BySlice(*kernels).of(facts.kernels) if kind == "kernel" else runs.of(_around(trace, operations, called))
    backward = of_targets.of(_around(trace, targets, called))
    whole = [part for _, parts in runs_of.values() for part in parts]
    keep = np.ones(len(facts.kernels))
    keep[np.isin(facts.kernels, _joined(whole))] = 0.0
    for run, is_backward in ((forward, False), (backward, True)):
        keep = np.fmin(keep, _kept(facts, run, is_backward, chains))
    return facts.kernels[keep < 1], keep[keep < 1]


def _kept(facts: Facts, run: I64, backward: bool, chains: I64) -> F64:
    """Which part of each kernel stays where one does the work of all of a ``run``; -1: none; (kernels,)."""
    types, code = facts.kernel_types
    product = np.array([CUBE.search(name) is not None for name in types] + [False])[code]
    length = facts.length(facts.kernels).astype(np.float64)
    there = np.flatnonzero(run >= 0)
    there = there[np.lexsort((facts.trace.slices.start[facts.kernels[there]], run[there]))]
    keep = np.ones(len(run))
    if not len(there):
        return keep
    number = np.append(0, np.cumsum(np.diff(run[there]) > 0))
    first = np.flatnonzero(np.append(True, np.diff(number) > 0))
    order = length[there] * len(there) - np.arange(len(there))  # of several that are equally long the first one stays
    longest = order == np.maximum.reduceat(order, first)[number]
    keep[there] = longest | product[there]
    known = ~np.isin(run[there], chains) & (np.bincount(number)[number] > 1)
    if not facts.has("shapes") or len(facts.kernel_table) != len(run) or not known.any():
        return keep
    table = facts.kernel_table.of_slices(facts.kernels)
    fused = fused_times(table, there, number, backward, product)[number]
    known &= np.isfinite(fused)
    # What takes the place of the longest has its launch; where that is too short the others have what is left.
    most = np.maximum.reduceat(np.where(longest, length[there], 0.0), first)[number]
    rest = np.bincount(number, length[there])[number] - most
    share = np.where(longest, fused / np.maximum(most, 1), (fused - most) / np.maximum(rest, 1))
    keep[there[known]] = np.clip(share[known], 0.0, 1.0)
    return keep


def _around(trace: Trace, chosen: I64, items: I64) -> I64:
    """The innermost slice of ``chosen`` that each of ``items`` is, or lies in; -1 without one; (n,)."""
    slices = trace.slices
    lane = np.where(items >= 0, slices.lane[items], -1)
    return Around(trace, np.unique(chosen)).find(lane, slices.start[items], slices.end[items])


def _joined(parts: list[I64]) -> I64:
    return np.concatenate([np.zeros(0, np.int64), *parts])
