"""Findings about kernels that compute nothing, which copy, join, split, repeat, pad or convert; and about gradients.

Told by where the program asks for it. What is known of a special kind of it, such as pads that a convolution makes by
itself, is nearer to what must be changed and comes first.
"""

from __future__ import annotations

import math
import re
from collections import Counter

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.kernels import SIZES, matrix_flops, sides_of_shapes, unquoted
from npu_tui.analysis.launches import operation_of
from npu_tui.analysis.limits import HALF
from npu_tui.analysis.ranges import PHASES, phases
from npu_tui.rules import pages
from npu_tui.rules.bandwidth import best_speed
from npu_tui.rules.compute import LAYOUT
from npu_tui.rules.facts import Facts
from npu_tui.rules.kernels import cheaper_kernels
from npu_tui.rules.needless import next_on_stream
from npu_tui.rules.parallelism import PURPOSES, purposes
from npu_tui.rules.rule import GRADES, Draft, Rule, advise, most_common, sentences
from npu_tui.trace.arrays import I64, BySlice
from npu_tui.trace.message import Said, message

_COPYING = frozenset(
    f"aten::{name}" for name in ("contiguous", "clone", "copy_", "to", "_to_copy", "reshape", "permute", "transpose")
)
"""Operations of the framework inside which others copy."""
_MOVING = re.compile(
    r"(?:concat|pack|unpack|stack|split|(?:strided)?slice|tensormove|transdata|transpose|permute|reshape|viewcopy|"
    r"asstrided|cast|tile|broadcastto|expand|repeat|mirrorpad|pad(?:d|v\d|$)|gatherelements|scatterelements)",
    re.IGNORECASE,
)
"""How types of kernels begin that compute nothing; lookups of rows, as in an embedding, do not count."""


def moved(facts: Facts) -> Draft | None:
    """All kernels that only move or convert data: at best a step needs none of them."""
    table = facts.kernel_table
    moving = table.type.where(lambda kind: _MOVING.match(kind) is not None)
    rows = np.flatnonzero(moving)
    laid_out = table.type.where(lambda kind: LAYOUT.search(kind) is not None)[rows]
    advice = advise(*["moves"] * bool((~laid_out).any()), *["moves_layout"] * bool(laid_out.any()))
    part = int(table.duration[rows].sum()) / max(int(table.duration.sum()), 1)
    note = message("finding.moves.place")
    draft = cheaper_kernels(
        facts, rows, np.zeros(len(rows)), "moves.{}", lambda row: note, advice, "medium", part=part
    )  # fmt: skip
    if draft is None:
        return None
    by = _launched_by(facts, table.item[rows[table.item[rows] >= 0]])
    return replace(draft, detail=sentences(draft.detail, by), reach="place")


def moves_data(facts: Facts, items: I64) -> I64:
    """Those of ``items`` of the device that compute nothing; ascending."""
    table = facts.kernel_table
    return np.intersect1d(items, table.item[table.type.where(lambda kind: _MOVING.match(kind) is not None)])


def _launched_by(facts: Facts, items: I64) -> Said:
    """Which operations of the framework asked for the kernels ``items`` (n,)."""
    trace, hosts = facts.trace, facts.inputs.hosts()
    operations = operation_of(trace, items)
    operations = operations[operations >= 0]
    at = BySlice(hosts.item, np.arange(len(hosts.item))).of(operations)
    at = at[at >= 0]
    if not len(at):
        return ""
    name = trace.slices.name[hosts.item]
    called = facts.names_where(lambda name: name.startswith("aten::"))[name]
    while (inside := (hosts.parent[at] >= 0) & ~called[at]).any():
        at = np.where(inside, hosts.parent[at], at)
    copying = facts.names_where(_COPYING.__contains__)[name]
    while (inside := (hosts.parent[at] >= 0) & copying[hosts.parent[at]]).any():  # contiguous calls clone calls copy_
        at = np.where(inside, hosts.parent[at], at)
    names = Counter(trace.names[name] for name in trace.slices.name[hosts.item[at]].tolist())
    return message("finding.moves.launched", operations=most_common(names))


_FUSED_PART = 1 / 3
"""What adding a gradient of 16 bits to one of 32 takes inside the product that makes it, of what it takes apart.

It reads and writes the sum (8 bytes a number) and does not write the 16 bits (2); a cast and an addition of their own
move 6 and 12. How much of that a product hides is not known.
"""


def accumulated(facts: Facts) -> Draft | None:
    """Gradients that one kernel converts to 32 bits and the next one adds to a sum, where a product could do both."""
    table, following = facts.kernel_table, next_on_stream(facts.kernel_table)
    kinds = table.details.get("output_types")
    wide = np.zeros(len(table), np.bool_) if kinds is None else kinds.where(lambda text: _FLOAT in text)
    casts = np.flatnonzero(table.type.where("Cast".__eq__) & wide & (table.item >= 0) & (following >= 0))
    casts = casts[phases(facts.trace, table.item[casts]) == PHASES.index("backward")]
    adds = table.type.where("Add".__eq__) & table.dtypes.where(lambda text: text.split(";")[0].strip('" ') == _FLOAT)
    sums = following[casts]
    same = np.array([_size(table.outputs.at(row)) for row in casts]) == [_size(table.shapes.at(row)) for row in sums]
    told = adds[sums] & same
    rows = np.concatenate((casts[told], sums[told]))
    note = message("finding.accumulated.place")
    expected = _FUSED_PART * table.duration[rows]
    advice = advise("fused_accumulation")
    return cheaper_kernels(facts, rows, expected, "accumulated.{}", lambda row: note, advice, "medium")


_TAKES = re.compile(r"gather|(?:strided)?slice|index", re.IGNORECASE)


def unread(facts: Facts) -> tuple[Draft, ...]:
    """Rows that are computed and that nothing reads afterwards: of a product, or of all layers before the last one."""
    return tuple(draft for draft in (_taken_late(facts), _taken_early(facts)) if draft is not None)


def _taken_late(facts: Facts) -> Draft | None:
    """Products forward of which, but for conversions, only a kernel reads that takes a few rows out of what they made.

    With the rows taken before it, a product still reads its weight.
    """
    table, following, best = facts.kernel_table, next_on_stream(facts.kernel_table), best_speed(facts)
    made = [*(_rows_of(text) for text in table.outputs.values), (0, 0)]
    product = table.type.where(lambda kind: "matmul" in kind.lower()) & (table.item >= 0) & (following >= 0)
    taking = table.type.where(lambda kind: _TAKES.search(kind) is not None)
    casts, keep, taker = table.type.where("Cast".__eq__), dict[int, float](), dict[int, int]()
    flops = matrix_flops(table)
    passed = np.isin(phases(facts.trace, np.maximum(table.item, 0)), [PHASES.index("forward"), PHASES.index("neither")])
    device = facts.part.slices
    if best is None or device is None:
        return None
    others = np.sort(facts.trace.slices.start[np.flatnonzero(device.copy | device.collective)])
    for row in np.flatnonzero(product & passed & (taking[following] | casts[following])).tolist():
        size, chain, at = made[table.outputs.code[row]], [row], int(following[row])
        while at >= 0 and casts[at] and made[table.outputs.code[at]] == size:
            chain.append(at)
            at = int(following[at])
        rows, wide = made[table.outputs.code[at]] if at >= 0 and taking[at] else (0, 0)
        between = np.searchsorted(others, [table.start[row], table.start[at]])
        if not 0 < wide == size[1] or not 0 < rows < HALF * size[0] or between[0] < between[1]:
            continue
        inner = flops[row] / (2 * math.prod(size))
        weight = table.bytes[row] * inner * size[1] / (inner * sum(size) + math.prod(size))
        keep |= dict.fromkeys(chain, rows / size[0])
        taker |= dict.fromkeys(chain, at)
        keep[row] = max(rows / size[0], min(float(np.nan_to_num(weight)) / best / float(table.duration[row]), 1.0))
    sizes = {made[table.outputs.code[row]] for row in keep}
    shapes = [*({_rows_of(each) for each in (unquoted(text) or "").split(";")} for text in table.shapes.values), set()]
    apart = np.setdiff1d(np.flatnonzero(~taking), np.fromiter(keep, np.int64, len(keep)))
    read = {size for code in np.unique(table.shapes.code[apart]).tolist() for size in shapes[code] & sizes}
    found = [row for row in sorted(keep) if made[table.outputs.code[row]] not in read]
    rows, note = np.array(found, np.int64), message("finding.unread.place")
    expected = np.array([keep[row] for row in found]) * table.duration[rows]
    takers = np.array(sorted({taker[row] for row in found}), np.int64)
    every, advice = max((made[table.outputs.code[row]][0] for row in found), default=0), advise("take_first")
    return cheaper_kernels(facts, rows, expected, "unread.{}", lambda row: note, advice, "high", takers, all=every)


def _taken_early(facts: Facts) -> Draft | None:
    """Work of both passes on rows of which only some are taken for the last product, such as all but padding."""
    table, following = facts.kernel_table, next_on_stream(facts.kernel_table)
    phase = np.full(len(table), -1, np.int64)
    phase[table.item >= 0] = phases(facts.trace, table.item[table.item >= 0])
    made = [*(_rows_of(text) for text in table.outputs.values), (0, 0)]
    forward, back = (phase == PHASES.index(name) for name in ("forward", "backward"))
    product = np.flatnonzero(table.type.where(lambda kind: "matmul" in kind.lower()) & forward)
    taking = table.type.where(lambda kind: _TAKES.search(kind) is not None) & forward & (following >= 0)
    taken, ends = dict[int, list[int]](), np.sort(table.start[back])
    for row in np.flatnonzero(taking).tolist():
        rows, wide = made[table.outputs.code[row]]
        every, width = _rows_of((unquoted(table.shapes.at(row)) or "").split(";")[0])
        if not 0 < rows < every or width != wide or int(following[row]) not in product:
            continue
        end = np.append(ends, np.iinfo(np.int64).max)[np.searchsorted(ends, table.start[row])]
        layers = product[[made[code][0] == every for code in table.outputs.code[product].tolist()]]
        if len(layers) and not ((table.start[layers] > table.start[row]) & (table.start[layers] < end)).any():
            taken.setdefault(every, []).append(rows)
    if not taken or not back.any():
        return None
    every = max(taken, key=lambda rows: len(taken[rows]))
    part = sum(taken[every]) / len(taken[every]) / every
    sides = [*(_has_rows(text, every) for text in table.shapes.values), False]
    linear = np.array(sides)[table.shapes.code] & (forward | back)
    rows, note = np.flatnonzero(linear), message("finding.padded.place")
    words: dict[str, object] = {"all": every, "real": round(part * every), "part": part}
    expected, advice = (part * table.duration[rows]).astype(np.float64), advise("unpad")
    draft = cheaper_kernels(facts, rows, expected, "padded.{}", lambda row: note, advice, "low", None, **words)
    return draft and replace(draft, severity="low", choice=True, weight=float(table.duration[rows].sum()))


def _rows_of(text: str) -> tuple[int, int]:
    """The rows and columns of the first of the shapes ``text``; 0 without."""
    sides = sides_of_shapes(unquoted(text))[0]
    return (math.prod(sides[:-1]), sides[-1]) if sides else (0, 0)


def _has_rows(text: str, rows: int) -> bool:
    """Whether one of the shapes ``text`` has that many rows, or is a product that sums over them."""
    shapes = sides_of_shapes(unquoted(text))
    return any(rows in np.cumprod(sides[:-1]).tolist() for sides in shapes) or all(
        rows in sides for sides in shapes[:2]
    )


_FLOAT = "FLOAT"
_GRADIENT_OF_ROWS = re.compile(r"EmbeddingDenseGrad(?:V\d)?")


def frozen(facts: Facts) -> Draft | None:
    """Gradients of weights that nothing updates: all that the optimizer updates, or ranks exchange, is smaller.

    A product backward makes one if it sums over the rows of a product forward and has the sides of its weight. Counted
    from the smallest, those that find room in what is updated are left out; a step has the rarest once a micro batch.
    """
    table, phase = facts.kernel_table, np.full(len(facts.kernel_table), -1, np.int64)
    known = table.item >= 0
    phase[known] = phases(facts.trace, table.item[known])
    steps, room = phase == PHASES.index("optimizer"), _updated(facts, phase)
    if not steps.any() or room is None:
        return None
    flops, weights, kinds = matrix_flops(table), set[tuple[int, ...]](), dict[tuple[int, ...], list[int]]()
    product = np.isfinite(flops) & table.type.where(lambda kind: "matmul" in kind.lower())
    outputs = [*(sides_of_shapes(unquoted(text))[0] for text in table.outputs.values), []]
    back = phase == PHASES.index("backward")
    for forward, chosen in ((True, phase == PHASES.index("forward")), (False, back)):
        for row in np.flatnonzero(product & chosen).tolist():
            made = outputs[table.outputs.code[row]]
            if len(made) != 2 or not math.prod(made):
                continue
            inner = round(flops[row] / (2 * math.prod(made)))
            if forward and made[0] not in (inner, made[1]):
                weights.add((made[0], *sorted((inner, made[1]))))
            elif not forward and (inner, *sorted(made)) in weights:
                kinds.setdefault(tuple(sorted(made)), []).append(row)
    looked_up = table.type.where(lambda kind: _GRADIENT_OF_ROWS.fullmatch(kind) is not None)
    for row in np.flatnonzero(looked_up & back).tolist():
        kinds.setdefault(tuple(outputs[table.outputs.code[row]]), []).append(row)
    fewest, unused = min(map(len, kinds.values()), default=1), list[int]()
    for sides, rows in sorted(kinds.items(), key=lambda kind: math.prod(kind[0])):
        room -= math.prod(sides) * (len(rows) // fewest)
        unused += rows if room < 0 else []
    if not product[unused].any():
        return None  # a sparse gradient may leave an embedding to rows that no tensor shows
    found, note = np.array(sorted(unused), np.int64), message("finding.frozen.place")
    none = np.zeros(len(found))
    return cheaper_kernels(facts, found, none, "frozen.{}", lambda row: note, advise("freeze"), "medium")


def _updated(facts: Facts, phase: I64) -> float | None:
    """At most how many numbers a step updates on all ranks, from kernels of such phases; None if it is not known."""
    table, sums = facts.kernel_table, Counter[int]()
    rows = np.flatnonzero(phase == PHASES.index("optimizer"))
    for row in rows.tolist():
        sides = sides_of_shapes(unquoted(table.outputs.at(row)))
        if not sides[0]:
            return None
        sums[int(table.type.code[row])] += sum(math.prod(each) for each in sides)
    steps = phase[(phase >= 0) & (phase != PHASES.index("neither"))] == PHASES.index("optimizer")
    times = int(np.count_nonzero(steps & ~np.append(False, steps[:-1])))
    given = np.isin(purposes(facts), [PURPOSES.index("gradients"), PURPOSES.index("shards")])
    sizes = facts.collectives.size[given]
    if (sizes < 0).any():
        return None
    least = min(SIZES.values())
    return max(sums.values(), default=0) / max(min(times, facts.count), 1) + int(sizes.sum()) / least


def _size(shapes: str | None) -> int:
    return math.prod(sides_of_shapes(unquoted(shapes))[0])


RULES: tuple[Rule, ...] = (
    Rule(
        "OP.FROZEN",
        cls="compute",
        inputs=("kernel_details", "shapes"),
        check=frozen,
        thresholds=GRADES,
        advice=("freeze",),
        gpu=("freeze",),
        pages=(pages.TUNING,),
        change="""\
+for weight in base.parameters():
+    weight.requires_grad_(False)
 optimizer = torch.optim.AdamW(adapters.parameters())
""",
        sources=("PyTorch: torch.Tensor.requires_grad_",),
        reach="cause",
    ),
    Rule(
        "OP.ROWS",
        cls="compute",
        inputs=("kernel_details", "shapes"),
        check=unread,
        thresholds=GRADES,
        advice=("take_first", "unpad"),
        gpu=("take_first", "unpad"),
        pages=(pages.TUNING,),
        change="""\
-logits = self.head(hidden).float()[last]
+logits = self.head(hidden[last]).float()
""",
        sources=("vLLM: logits of selected token indices alone", "FlashAttention: unpad_input"),
        reach="cause",
    ),
    Rule(
        "OP.ACCUMULATE",
        cls="compute",
        inputs=("kernel_details",),
        check=accumulated,
        thresholds=GRADES,
        advice=("fused_accumulation",),
        pages=(pages.FUSED,),
        sources=("Megatron-LM: gradient accumulation fusion",),
        reach="cause",
    ),
    Rule(
        "OP.MOVES",
        cls="compute",
        check=moved,
        thresholds=GRADES,
        advice=("moves", "moves_layout"),
        pages=(pages.ADVISOR,),
        sources=("20-step tuning checklist 2-09 to 2-12",),
        reach="place",
        words=("contiguous",),
    ),
)
