"""Findings about the data that kernels move, by kernel_details.csv and l2_cache.csv: bandwidth, cache, formats.

Conversions of formats and slow vector kernels are step 7 of the 20-step tuning checklist.
"""

from __future__ import annotations

import math
import re
from collections import Counter

import numpy as np

from npu_tui.analysis.code_lines import lines_of_stacks, stack_of
from npu_tui.analysis.kernels import (
    KernelTable,
    distinct_kernels,
    is_half,
    matrix_flops,
    sides_of_shapes,
    unquoted,
)
from npu_tui.analysis.launches import operation_of
from npu_tui.analysis.limits import ANOTHER_KIND, BEST_PERCENTILE, ENOUGH, HALF, Threshold
from npu_tui.analysis.ranges import PHASES, phases
from npu_tui.rules import pages
from npu_tui.rules.cores import KERNEL_SHARE, MTE2_CUBE, MTE2_VECTOR, VECTOR_KINDS, on_few_cores, reading
from npu_tui.rules.facts import CUBE, MOVES, Facts
from npu_tui.rules.kernels import cheaper_kernels, kernels_of_a_kind, longest_kernels, most_time
from npu_tui.rules.launching import SMALL_KERNEL_US
from npu_tui.rules.model import Confidence
from npu_tui.rules.rule import GRADES, SEVERITY_MEDIUM, Draft, Rule, about, advise, ranked
from npu_tui.rules.sequences import ELEMENTWISE
from npu_tui.trace.arrays import F64, I64, Bools
from npu_tui.trace.message import Message, message
from npu_tui.trace.text import brief


def memory_bound(facts: Facts) -> Draft | None:
    """Kernels that wait for data more than they compute."""
    table = facts.kernel_table
    cores = table.core.where(lambda core: core.startswith(("AI_", "MIX_")) and core != "AI_CPU")
    bound = cores & reading(facts)
    total, waiting = int(table.duration[cores].sum()), int(table.duration[bound].sum())
    if not total or waiting < facts.limits[KERNEL_SHARE] * total:
        return None
    return kernels_of_a_kind(facts, "bandwidth", bound, share=waiting / total, time=waiting)


L2_HIT = Threshold("l2_hit", 0.5)


def cache(facts: Facts) -> Draft | None:
    """Kernels that find little of their data in the L2 cache."""
    limits, table = facts.limits, facts.kernel_table
    rate = table.hit_rate
    known = np.isfinite(rate)
    rate = np.where(known & (rate > 1.0), rate / 100.0, rate)  # newer writers give percent
    total = int(table.duration[known].sum())
    rows = np.flatnonzero(known & (rate < limits[L2_HIT]))
    time = int(table.duration[rows].sum())
    if not total or time < limits[KERNEL_SHARE] * total:
        return None
    mean = float((rate[known] * table.duration[known]).sum() / total)
    kernels = most_time(table, rows, table.duration)
    return Draft(
        "info",
        *about("cache", share=time / total, least=limits[L2_HIT], mean=mean, kernels=kernels),
        longest_kernels(facts, rows, lambda row: message("finding.cache.place", rate=float(rate[row]))),
    )


def _moves(kind: str) -> bool:
    """Whether kernels of a type move or fill tensors, as parts of what a model computes need to."""
    return MOVES.search(kind) is not None or kind in ("MemSet", "ZerosLike")


_CONVERSIONS = ("transdata", "transpose", "asstrided", "viewcopy")


def formats(facts: Facts) -> tuple[Draft, ...]:
    """Conversions of formats, layouts and types, and copies of functions that do nothing else; a loss in 32 bits."""
    converting = facts.kernel_table.type.where(lambda kind: any(word in kind.lower() for word in _CONVERSIONS))
    losses, moved = _loss_in_32_bits(facts, converting)
    return tuple(
        draft
        for draft in (_converted(facts, converting & ~moved, moved), _wide_loss(facts, losses, moved))
        if draft is not None
    )


def _converted(facts: Facts, converting: Bools, others: Bools) -> Draft | None:
    """The kernels in ``converting`` but not in ``others``, by what they convert and the operators on both sides."""
    table = facts.kernel_table
    back = _casts_back(table) & ~others
    casts = _casts_of_operands(facts) & ~back & ~others
    moves = _only_moved(facts, converting | casts) & ~converting & ~casts & ~back & ~others
    kinds = {"formats_cast": casts, "formats_back": back, "formats_copy": moves, "formats": converting}
    kinds["formats_group"] = converting
    converting = converting | casts | back | moves
    into = table.details.get("output_formats")
    rows = np.flatnonzero(converting)
    total, time = int(table.duration.sum()), int(table.duration[rows].sum())
    if into is None or not time or time < facts.limits[SEVERITY_MEDIUM] * total:
        return None
    sides = [side.tolist() for side in _neighbours(table, converting)]

    def converted(row: int) -> tuple[str, str]:
        if table.type.at(row) == "Cast":
            return _tensor_of(table, row, False)[1] or "?", _tensor_of(table, row, True)[1] or "?"
        return (table.formats.at(row) or "?").split(";")[0], (into.at(row) or "?").split(";")[0]

    times, counts = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    for row in rows.tolist():
        key = *converted(row), *((table.type.at(side[row]) or "?") if side[row] >= 0 else "–" for side in sides)
        times[key] += int(table.duration[row])
        counts[key] += 1
    groups = [
        message(
            "finding.formats.group",
            source=key[0], target=key[1], before=brief(key[2]), after=brief(key[3]), count=counts[key], time=spent,
        )
        for key, spent in ranked(times)
    ]  # fmt: skip

    def place(row: int) -> Message:
        source, target = converted(row)
        return message("finding.formats.place", source=source, target=target)

    keys = [key for key, chosen in kinds.items() if chosen.any()]
    # At best none of them is needed.
    more: dict[str, object] = {"groups": groups, "part": time / total, "back": ""}
    if back.any():
        more["back"] = message("finding.formats.back", count=int(back.sum()))
    return cheaper_kernels(facts, rows, np.zeros(len(rows)), "formats.{}", place, advise(*keys), "medium", None, **more)


def _casts_back(table: KernelTable) -> Bools:
    """The casts, one after another on a stream, that convert what the one before them made to what that had read; (n,).

    No such cast is needed where they end with the type they began with, and one where they do not.
    """
    needless = np.zeros(len(table), np.bool_)
    stream = table.details.get("stream")
    order = np.lexsort((table.start, np.zeros(len(table)) if stream is None else stream.code))
    edges = np.diff(table.type.where("Cast".__eq__)[order].astype(np.int8), prepend=0, append=0)
    for first, last in zip(np.flatnonzero(edges == 1).tolist(), np.flatnonzero(edges == -1).tolist(), strict=True):
        rows = order[first:last].tolist()
        while len(rows) > 1:
            chain = 1
            while chain < len(rows) and _is_back(table, rows[chain - 1], rows[chain]):
                chain += 1
            needless[rows[chain % 2 : chain]] = True
            rows = rows[chain:]
    return needless


def _is_back(table: KernelTable, before: int, row: int) -> bool:
    made, read = _tensor_of(table, before, True), _tensor_of(table, row, False)
    return bool(made[1]) and made == read and _tensor_of(table, row, True) == _tensor_of(table, before, False)


def _tensor_of(table: KernelTable, row: int, written: bool) -> tuple[int, str]:
    """The elements and the type of what the kernel at ``row`` reads first, or has ``written``."""
    kinds = table.details.get("output_types") if written else table.dtypes
    kind = (unquoted(None if kinds is None else kinds.at(row)) or "").split(";")[0].strip().upper()
    return math.prod(sides_of_shapes((table.outputs if written else table.shapes).at(row))[0]), kind.removeprefix("DT_")


def _loss_in_32_bits(facts: Facts, converting: Bools) -> tuple[Bools, Bools]:
    """The kernels of a loss that read as 32-bit numbers what a product made in 16, and what else is done to that.

    That is what converts or copies it, and what a loss is written out in: one kernel of a loss does it inside. The
    product's result may have other sides before the last one; (n,) each.
    """
    table = facts.kernel_table
    half = table.type.where(lambda kind: CUBE.search(kind) is not None) & table.dtypes.where(is_half)
    wide = table.dtypes.where(_is_float)
    losses = wide & table.type.where(lambda kind: _LOSS.search(kind) is not None)
    made, read = (
        {_row_and_size(column.values[code]) for code in np.unique(column.code[rows & (column.code >= 0)]).tolist()}
        for column, rows in ((table.outputs, half), (table.shapes, losses))
    )
    read &= made - {None}
    logits = table.shapes.where(lambda text: _row_and_size(text) in read)
    copies = converting | table.type.where(_moves)
    kinds = table.details.get("output_types")
    made_wide = np.zeros_like(wide) if kinds is None else kinds.where(_is_float)
    steps = wide & logits | made_wide & table.outputs.where(lambda text: _row_and_size(text) in read)
    steps &= table.type.where(lambda kind: _STEP_OF_LOSS.fullmatch(kind) is not None)
    return losses & logits, steps | logits & (table.type.where("Cast".__eq__) | (copies & wide))


_STEP_OF_LOSS = re.compile(
    rf"(?:{'|'.join(ELEMENTWISE)})|OneHot|Fill|(?:Reduce(?:Sum|Max|Mean)|BroadcastTo|Scatter|Gather)(?:D|Elements?\w*)?"
)
"""What a loss is written out in: steps that one kernel of it does for a row at a time."""
_LOSS = re.compile(r"crossentropy|logsoftmax|nllloss", re.IGNORECASE)


def _is_float(kinds: str) -> bool:
    return kinds.split(";")[0].strip().upper().removeprefix("DT_") in ("FLOAT", "FLOAT32")


def _row_and_size(shapes: str) -> tuple[int, int] | None:
    """The last side of the first of ``shapes`` and how many elements that has; None where it has no two sides."""
    sides = sides_of_shapes(shapes)[0]
    return (sides[-1], math.prod(sides)) if len(sides) > 1 else None


def _wide_loss(facts: Facts, losses: Bools, moved: Bools) -> Draft | None:
    """The draft about ``losses`` in 32 bits and what is ``moved`` for them: on 16 bits they read and write half."""
    table, rows = facts.kernel_table, np.flatnonzero(losses | moved)
    if not moved.any():
        return None
    expected = np.where(losses[rows], table.duration[rows] / 2, 0.0)
    shape = (table.shapes.at(int(np.flatnonzero(losses)[0])) or "").split(";")[0]
    note, advice = message("finding.dtype.place"), advise("fused_loss")
    return cheaper_kernels(facts, rows, expected, "wide_loss.{}", lambda row: note, advice, "medium", shape=shape)


def _casts_of_operands(facts: Facts) -> Bools:
    """The casts in passes forward from 32 bits that operands of products in 16 bits have the sides of; (n,).

    With those of the passes backward that their gradients have: without the first ones nothing is cast back either.
    """
    table = facts.kernel_table
    casts = table.type.where("Cast".__eq__) & ~table.dtypes.where(is_half) & (table.item >= 0)
    if not casts.any():
        return casts
    half = table.type.where(lambda kind: CUBE.search(kind) is not None) & table.dtypes.where(is_half)
    told = {
        table.shapes.at(row) or ""
        for row in np.flatnonzero(half)[np.unique(table.shapes.code[half], return_index=True)[1]].tolist()
    }
    operands = {sides for text in told for shape in text.split(";") if (sides := _sides_in_shape(shape))}
    casts &= table.shapes.where(lambda text: _sides_in_shape(text) in operands)
    rows = np.flatnonzero(casts)
    casts[rows] = phases(facts.trace, table.item[rows]) == PHASES.index("forward")
    cast = {table.shapes.values[code] for code in np.unique(table.shapes.code[casts]).tolist()}
    gradients = np.flatnonzero(
        table.type.where("Cast".__eq__) & table.dtypes.where(is_half) & table.shapes.where(cast.__contains__)
    )
    gradients = gradients[table.item[gradients] >= 0]
    casts[gradients] = phases(facts.trace, table.item[gradients]) == PHASES.index("backward")
    return casts


def _sides_in_shape(shape: str) -> tuple[str, ...]:
    return tuple(sorted(shape.strip('" ').split(",")))


def _only_moved(facts: Facts, converting: Bools) -> Bools:
    """The kernels of functions of the user that launch nothing but such as move or convert data; (n,)."""
    table = facts.kernel_table
    there = np.flatnonzero(table.item >= 0)
    code = np.full(len(table), -1, np.int64)
    code[there], lines = lines_of_stacks(
        facts.trace, stack_of(facts.trace, operation_of(facts.trace, table.item[there]))
    )
    functions = {function: number for number, function in enumerate({(line.file, line.function) for line in lines})}
    function = np.array([functions[line.file, line.function] for line in lines] + [-1], np.int64)[code]
    moving = converting | table.type.where(_moves)
    others = np.unique(function[~moving])
    moves: Bools = moving & (function >= 0) & ~np.isin(function, others)
    return moves


def _neighbours(table: KernelTable, converting: Bools) -> tuple[I64, I64]:
    """For every kernel the last one before it and the first after it that converts nothing, -1 without one; (n,)."""
    order = np.argsort(table.start, kind="stable")
    plain = np.append(order[~converting[order]], -1)
    passed = np.cumsum(~converting[order])  # kernels up to here that convert nothing
    before, after = np.full(len(order), -1, np.int64), np.full(len(order), -1, np.int64)
    before[order] = plain[passed - 1]
    after[order] = plain[np.minimum(passed, len(plain) - 1)]
    return before, after


VECTOR_MB = Threshold("vector_mb", 4.0)
VECTOR_SLOW = Threshold("vector_slow", 0.25)


def _large(facts: Facts) -> Bools:
    """Which kernels of the vector cores read and write much; (n,)."""
    table = facts.kernel_table
    return table.core.where(lambda core: core in VECTOR_KINDS) & (table.bytes >= facts.limits[VECTOR_MB] * 1e6)


def best_speed(facts: Facts) -> float | None:
    """The bandwidth that large vector kernels reach at best, bytes/ns; None where too few of them show it."""
    speed = facts.kernel_table.speed[_large(facts)]
    speed = speed[np.isfinite(speed)]
    # A percentile, as a single short kernel may seem to reach any speed.
    return float(np.percentile(speed, BEST_PERCENTILE)) if len(speed) >= ENOUGH else None


def vectors(facts: Facts) -> Draft | None:
    """Large vector kernels that compute little and stay far below the bandwidth that others of their kind reach."""
    limits, table, best = facts.limits, facts.kernel_table, best_speed(facts)
    speed = table.speed
    rows = np.flatnonzero(_large(facts) & np.isfinite(speed))
    if best is None:
        return None
    busy = np.nan_to_num(table.ratios["vec"]) >= HALF
    # What runs on few cores is slow because of that.
    slow = rows[(speed[rows] < limits[VECTOR_SLOW] * best) & ~busy[rows] & ~on_few_cores(facts)[rows]]

    def place(row: int) -> Message:
        return message("finding.vectors.place", speed=float(speed[row]), size=round(float(table.bytes[row])))

    part = int(table.duration[slow].sum()) / max(int(table.duration.sum()), 1)
    words = {"slow": limits[VECTOR_SLOW], "best": best, "part": part}
    advice = advise("bandwidth", "vector_layout", "vector_other")
    return cheaper_kernels(facts, slow, table.bytes[slow] / best, "vectors.{}", place, advice, "low", None, **words)


def slow(facts: Facts) -> tuple[Draft, ...]:
    """Kernels that take many times what their shapes need: products that are written as convolutions, and any other.

    They need as long as products in this profile of as many bits take for their FLOP, or others for their bytes,
    whichever is longer. What a vector unit computes, and what attention does, shapes do not tell.
    """
    table, best = facts.kernel_table, best_speed(facts)
    known = (table.duration >= facts.limits[SMALL_KERNEL_US] * 1000) & ~on_few_cores(facts)
    flops, half, (convolved, apart) = matrix_flops(table), table.dtypes.where(is_half), _convolutions(table)
    need = np.full(len(table), np.nan) if best is None else table.bytes / best
    flops = np.where(np.isnan(flops), convolved, flops)
    product = known & table.type.where(lambda kind: "matmul" in kind.lower()) & (flops > 0)
    vector = table.core.where(lambda core: core in VECTOR_KINDS) & (np.nan_to_num(table.ratios["vec"]) < HALF)
    computed = table.type.where(lambda kind: CUBE.search(kind) is not None and "attention" not in kind.lower())
    for each in (half, ~half):
        pace = (flops / np.maximum(table.duration, 1))[product & each]
        if len(pace) >= ENOUGH:
            rows = np.flatnonzero(computed & each)
            need[rows] = np.fmax(need[rows], flops[rows] / np.percentile(pace, BEST_PERCENTILE))
        else:
            known &= ~(computed & each)
    known &= (vector & ~computed & ~_large(facts)) | (computed & np.isfinite(flops))
    known &= need * ANOTHER_KIND < table.duration
    note, drafts = message("finding.slow.place"), list[Draft | None]()
    for key, chosen in (("windows", known & apart), ("slow", known & ~apart)):
        rows = np.flatnonzero(chosen)
        sure: Confidence = "high" if key == "windows" else "low"
        drafts.append(cheaper_kernels(facts, rows, need[rows], f"{key}.{{}}", lambda row: note, advise(key), sure))
    return tuple(draft for draft in drafts if draft is not None)


def _convolutions(table: KernelTable) -> tuple[F64, Bools]:
    """FLOP of each convolution and its gradients, not-a-number where unknown, and which are products; (n,) each."""
    flops, product = np.full(len(table), np.nan), np.zeros(len(table), np.bool_)
    rows = np.flatnonzero(table.type.where(lambda kind: _CONVOLUTION.fullmatch(kind) is not None))
    first, of = distinct_kernels(table, rows)
    told = np.array([_convolution_of(*table.tensors_of(row)) for row in first], np.float64).reshape(-1, 2)[of]
    flops[rows], product[rows] = told[:, 0], told[:, 1] > 0
    return flops, product


_CONVOLUTION = re.compile(r"conv[23]d(?:backprop(?:input|filter))?(?:d|v\d)?", re.IGNORECASE)


def _convolution_of(kind: str, inputs: str | None, outputs: str | None) -> tuple[float, bool]:
    """The FLOP of a convolution of type ``kind`` or of its gradient, and whether it is a product of reshaped tensors.

    It is one if its windows, of several elements, have none in common. Each element of what it makes is a product with
    a whole filter. Filters are the first side of their tensor, or its second and third one (FRACTAL_Z). Not-a-number
    where the shapes do not tell.
    """
    entered, left = ([shape for shape in sides_of_shapes(text) if len(shape) > 3] for text in (inputs, outputs))
    if _CONVOLUTION.fullmatch(kind) is None or len(entered) < 2 or not left:
        return math.nan, False
    if "filter" in kind.lower():
        weight, both = left[0], sorted(entered[:2], key=math.prod)
        made, read = both if _filters(weight, both[0]) else both[::-1]
    else:
        read, weight, made = (left[0], *entered[:2]) if "input" in kind.lower() else (*entered[:2], left[0])
    filters = _filters(weight, made)
    if not filters:
        return math.nan, False
    products = math.prod(made) * math.prod(weight) // filters
    plain = filters == weight[0] and read[1] == weight[1] and math.prod(weight[2:]) > 1
    return 2.0 * products, plain and products <= math.prod(read) * filters


def _filters(weight: list[int], made: list[int]) -> int:
    """How many filters ``weight`` has, if that is how many channels ``made`` has; else 0."""
    if weight[0] == made[1]:
        return weight[0]
    return weight[1] * weight[2] if weight[1] * weight[2] == made[1] * made[-1] else 0


RULES: tuple[Rule, ...] = (
    Rule(
        "MEM.BW",
        cls="compute",
        inputs=("pmu",),
        check=memory_bound,
        thresholds=(MTE2_CUBE, MTE2_VECTOR, KERNEL_SHARE),
        advice=("bandwidth",),
        pages=(pages.ADVISOR,),
        sources=("operator tuning guide 0-05", "msprof-analyze advisor: AI Core performance"),
    ),
    Rule(
        "MEM.L2",
        cls="compute",
        inputs=("l2_cache",),
        check=cache,
        thresholds=(L2_HIT, KERNEL_SHARE),
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
        thresholds=GRADES,
        advice=("formats", "formats_group", "formats_cast", "formats_back", "formats_copy", "fused_loss"),
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
        thresholds=(VECTOR_MB, VECTOR_SLOW, SEVERITY_MEDIUM),
        advice=("bandwidth", "vector_layout", "vector_other"),
        pages=(pages.ADVISOR,),
        sources=("operator tuning guide 0-05",),
        reach="place",
    ),
    Rule(
        "KERNEL.PACE",
        cls="compute",
        inputs=("kernel_details",),
        check=slow,
        thresholds=(SMALL_KERNEL_US, *GRADES),
        advice=("windows", "slow"),
        pages=(pages.TUNING,),
        change="""\
-x = self.proj(x)  # Conv3d whose stride is its kernel, on [patches, 3, 2, 14, 14]
+x = x.flatten(1) @ self.proj.weight.flatten(1).T
""",
        sources=("operator tuning guide 0-05",),
        reach="cause",
    ),
)
