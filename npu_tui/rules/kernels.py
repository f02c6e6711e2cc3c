"""Findings about how kernels use the cores, by kernel_details.csv.

Source: block dim, AI CPU and AI core performance of the advisor of msprof-analyze.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.device import on_ai_cpu
from npu_tui.analysis.kernels import KernelTable, is_half, is_wide, matrix_flops
from npu_tui.analysis.launches import operation_of
from npu_tui.analysis.limits import EVEN, NAMED, Threshold
from npu_tui.analysis.ranges import PHASES, phases
from npu_tui.analysis.replay import Change, TaskCut
from npu_tui.rules import pages
from npu_tui.rules.blame import SYNC_SHARE, compile_calls
from npu_tui.rules.compute import lines_by
from npu_tui.rules.facts import CUBE, Facts
from npu_tui.rules.functions import line_within
from npu_tui.rules.inputs import MOST_PLACES, Span, first_of_largest, length_of, without
from npu_tui.rules.launching import SMALL_KERNEL_US
from npu_tui.rules.model import Confidence, Evidence, Severity
from npu_tui.rules.rule import (
    GRADES,
    LISTED,
    SEVERITY_MEDIUM,
    Draft,
    Rule,
    Skipped,
    about,
    advise,
    most_common,
    ranked,
    sentences,
    severity_of,
    timed,
)
from npu_tui.trace.arrays import F64, I64, Bools
from npu_tui.trace.message import Message, Said, message
from npu_tui.trace.text import brief

# Operators that a mask of a fixed shape does the work of.
_BY_MASK = re.compile(r"^(?:index|nonzero|argm(?:in|ax)|maskedselect|where)", re.IGNORECASE)


def most_time(table: KernelTable, rows: I64, time: F64 | I64) -> list[Message]:
    """Types and shapes of ``rows`` with their sums of ``time``, the most first."""
    sums: Counter[str] = Counter()
    for row in rows.tolist():
        sums[title_of(table, row)] += round(time[row])
    return [timed(title, spent) for title, spent in ranked(sums)]


def bound(facts: Facts) -> Draft | Skipped | None:
    """Kernels that run on the AI CPU, or for which every shape is compiled anew."""
    table, least = facts.kernel_table, facts.limits[SMALL_KERNEL_US] * 1000
    if not len(table):
        return Skipped(message("finding.needs.device"))
    on_cpu = table.core.where(lambda core: core == "AI_CPU")
    on_cpu[table.item >= 0] |= on_ai_cpu(facts.trace, table.item[table.item >= 0])
    slow = np.flatnonzero(on_cpu & (table.duration >= least))
    state = table.details.get("state")
    count = int(np.count_nonzero(state.code >= 0)) if state is not None else 0
    dynamic = state is not None and count > 0 and not state.where(lambda word: word == "static").any()
    if not len(slow) and not dynamic:
        return None
    details: list[Message] = []
    advice: list[Message] = []
    removes: Span | None = None
    severity: Severity = "info"
    spent, title = 0, message("finding.bound.dynamic_title", count=count)
    items = table.item[slow]
    items = items[items >= 0]
    if len(slow):
        spent = alone = int(table.duration[slow].sum())
        if (device := facts.part.slices) is not None:
            busy = np.flatnonzero(device.compute | device.collective)
            removes = without(facts.span_of(items), facts.span_of(busy[~on_ai_cpu(facts.trace, busy)]))
            alone = length_of(removes)
        # Where another stream computes meanwhile nothing waits for it.
        worth = removes is None or facts.share(alone) >= facts.limits[SYNC_SHARE]
        severity = severity_of(facts.limits, facts.share(alone)) if worth else "info"
        times: Counter[str] = Counter()
        for row in slow.tolist():
            times[_typed(table, row)] += int(table.duration[row])
        kinds = [brief(name, 40) for name, _ in ranked(times, NAMED)]
        title = message("finding.bound.cpu_title", each=facts.per_unit(alone), kinds=kinds)
        names = [timed(name, time) for name, time in ranked(times)]
        details.append(message("finding.bound.cpu", count=len(slow), least=least, time=spent, names=names))
        advice += _off_the_ai_cpu(table, slow)
    if dynamic:
        details.append(message("finding.bound.dynamic", count=count))
        compiles = not facts.has("cann") or len(compile_calls(facts)) > 0
        advice += advise("jit_compile" if compiles else "graph")
    return Draft(
        severity,
        title,
        sentences(*details),
        longest_kernels(facts, slow, lambda row: message("finding.bound.place")),
        tuple(advice),
        removes,
        change=Change(tasks=(TaskCut(items),)),
        weight=0 if removes is not None else spent,
    )


def _typed(table: KernelTable, row: int) -> str:
    """The type of a kernel, with those of its data where the AI cores have few operators for them."""
    kind, dtypes = table.type.at(row) or table.name.at(row) or "", table.dtypes.at(row) or ""
    return f"{kind} ({dtypes.replace(';', ', ')})" if is_wide(dtypes) else kind


def _off_the_ai_cpu(table: KernelTable, slow: I64) -> tuple[Message, ...]:
    """What brings the kernels ``slow`` (rows) to the AI cores: other types, or other operators."""
    kinds = [table.dtypes.at(row) or "" for row in slow.tolist()]
    # Without kernel_details.csv the types of the data are not known.
    by_type = any(map(is_wide, kinds)) or all(kind.strip() in ("", "N/A") for kind in kinds)
    by_mask = any(_BY_MASK.match(table.type.at(row) or "") for row in slow.tolist())
    words = ["ai_cpu"] * by_type + ["ai_cpu_operators"] * by_mask
    return advise(*(words or ["ai_cpu_other"]))


FLOAT_SHARE = Threshold("float_share", 0.5)
_SINGLE = ("FLOAT", "DT_FLOAT", "FLOAT32")
_HALF_PACE = 4
"""Times as many products of 16-bit numbers a cycle as of 32-bit ones.

By aic_mac_time of recorded products on Ascend 910B a core makes 4,020 of the former, and 1,006 of the latter without
HF32.
"""


def dtype(facts: Facts) -> Draft | None:
    """Matrix work in 32-bit floating point: all of it, or what lies among work of 16 bits and costs more than that."""
    table = facts.kernel_table
    matrix = table.type.where(lambda kind: CUBE.search(kind) is not None)
    plain = matrix & table.dtypes.where(lambda kinds: kinds.split(";")[0].strip() in _SINGLE)
    rows, half = np.flatnonzero(plain), np.flatnonzero(matrix & table.dtypes.where(is_half))
    expected, measured = _time_in_16_bits(facts, half, rows)
    saved, note = table.duration[rows] - expected, message("finding.dtype.place")
    hf32 = table.details.get("hf32")
    refused = hf32 is not None and bool((plain & hf32.where("NO".__eq__)).any())
    half_or_hf32 = advise("mixed_precision", *["allow_hf32"] * refused)
    # What most of it is known by.
    by_pace = 2 * saved[measured].sum() < saved.sum()
    rows, expected = rows[saved > 0], expected[saved > 0]
    if by_pace and len(rows):
        moving = _beside_products(facts, matrix)
        rows, expected = np.append(rows, moving), np.append(expected, table.duration[moving] / 2)
    draft = (
        cheaper_kernels(facts, rows, expected, "dtype.{}_plain", lambda row: note, half_or_hf32, "medium")
        if by_pace
        else cheaper_kernels(facts, rows, expected, "dtype.{}_mixed", lambda row: note, advise("autocast_all"))
    )
    cube, wide = int(table.duration[matrix].sum()), int(table.duration[plain].sum())
    if draft is not None or not cube or wide < facts.limits[FLOAT_SHARE] * cube:
        return draft
    draft = kernels_of_a_kind(facts, "dtype", plain, share=wide / cube, time=cube)
    return replace(draft, advice=(*half_or_hf32, *advise("autocast_all")))


def _beside_products(facts: Facts, matrix: Bools) -> I64:
    """The kernels of both passes, no small ones, that read the 32-bit results of products: 16 bits are half as much."""
    table = facts.kernel_table
    wide = table.dtypes.where(lambda kinds: kinds.split(";")[0].strip() in _SINGLE)
    rows = np.flatnonzero(wide & ~matrix & (table.item >= 0) & (table.duration >= facts.limits[SMALL_KERNEL_US] * 1000))
    of_pass = phases(facts.trace, table.item[rows])
    moving: I64 = rows[(of_pass == PHASES.index("forward")) | (of_pass == PHASES.index("backward"))]
    return moving


# The cube multiplies blocks of 16 by 16 elements: what a side has beyond a multiple of that costs as much as one.
_BLOCK = 16


def unaligned(facts: Facts) -> Draft | None:
    """Products with a side that is no multiple of a block, slower than those of their type with none."""
    table = facts.kernel_table
    known = np.isfinite(matrix_flops(table)) & (table.duration >= facts.limits[SMALL_KERNEL_US] * 1000)
    odd = known & table.shapes.where(_is_odd)
    kin = np.flatnonzero(known & ~odd)
    rows = np.flatnonzero(odd)
    expected = _time_at_pace(table, rows, kin)
    slower = expected < (1 - EVEN) * table.duration[rows]
    note = message("finding.shape.place")
    return cheaper_kernels(facts, rows[slower], expected[slower], "shape.{}", lambda row: note, advise("align_sides"))


def _is_odd(shapes: str) -> bool:
    sides = [side for shape in shapes.split(";")[:2] for side in shape.split(",")[-2:] if side.strip().isdecimal()]
    return any(int(side) % _BLOCK for side in sides if int(side) > _BLOCK)


def cheaper_kernels(
    facts: Facts, rows: I64, expected: F64, text: str, note: Callable[[int], Said], advice: tuple[Message, ...],
    confidence: Confidence = "high", caused: I64 | None = None, **more: object,
) -> Draft | None:  # fmt: skip
    """The draft about kernels at ``rows`` that would take no more than ``expected``, ns; (n,).

    This is device time with a cheaper form: 0 where the kernels are not needed at all. ``text`` is the key of its title
    and detail, which may have ``more`` words; ``note`` says what is notable of a row. The lines are those of the rows
    that ``caused`` it, if it is none of all.
    """
    table = facts.kernel_table
    if not len(rows):
        return None
    items, took = table.item[rows], int(table.duration[rows].sum())
    saved = took - int(expected.sum())
    share = facts.share(saved) if (items >= 0).any() else saved / int(table.duration.sum())
    if share < facts.limits[SEVERITY_MEDIUM]:
        return None
    items = items[items >= 0]
    start, end = facts.span_of(items)
    keep = 1 - saved / took
    placed = items if caused is None else table.item[caused]
    operations, length = operation_of(facts.trace, placed), facts.length(placed)
    lines = ranked(lines_by(facts, operations, length), LISTED)
    named = [line_within(facts, line, operations, length) for line, _ in lines]
    at: Said = message("finding.dtype.at", line=named[0]) if lines else ""
    counts = most_common(Counter(table.type.at(row) or "" for row in rows.tolist()))
    spent = Counter[str]()
    for row in rows.tolist():
        spent[table.type.at(row) or table.name.at(row) or ""] += int(table.duration[row])
    kinds = [brief(name, 40) for name, _ in ranked(spent, NAMED)]
    words = {"time": took / facts.count, "less": (took - saved) / facts.count, "unit": facts.unit, "kinds": kinds}
    words |= {"count": len(rows), "share": facts.share(took), "names": counts, "at": at, "each": facts.per_unit(took)}
    words |= {"needless": facts.per_unit(saved), "shapes": most_time(table, rows, table.duration), **more}
    title = message(f"finding.{text.format('title')}", **words)
    return Draft(
        severity_of(facts.limits, share),
        title,
        sentences(
            message(f"finding.{text.format('detail')}", **words),
            message("finding.share.lines", lines=named) if lines else "",
        ),
        longest_kernels(facts, rows, note, 5),
        advice,
        (start + ((end - start) * keep).astype(np.int64), end) if len(items) else None,
        code_lines=tuple(line for line, _ in lines),
        verdict=title,
        change=Change(tasks=(TaskCut(items, keep),)) if len(items) else None,
        confidence=confidence,
        reach="cause",
    )


def _time_in_16_bits(facts: Facts, half: I64, plain: I64) -> tuple[F64, Bools]:
    """How long the products at the rows ``plain`` would take in 16 bits, ns, and where those in ``half`` show it; (n,).

    Those of one type and shape take the median of them. Others, where most is computed in 16 bits, take what their
    FLOP do at the pace of their type; without one they take a part of their time, which is unknown with HF32. Either is
    no less than half their bytes at the highest GB/s of another kernel that is not small.
    """
    table = facts.kernel_table
    expected, told = table.duration[plain].astype(np.float64), np.zeros(len(plain), np.bool_)
    like = table.type.code * (len(table.shapes.values) + 1) + table.shapes.code
    others = np.setdiff1d(np.flatnonzero(table.duration >= facts.limits[SMALL_KERNEL_US] * 1000), plain)
    flops, speed = matrix_flops(table), float(np.nanmax(table.speed[others], initial=0.0))
    most = len(half) > 0 and np.nansum(flops[half]) >= np.nansum(flops[plain])
    hf32 = table.details.get("hf32")
    slower = table.type.where(lambda kind: "attention" not in kind.lower())
    slower &= True if hf32 is None else ~hf32.where("YES".__eq__)
    for each in np.unique(like[plain]).tolist():
        mine, twins = like[plain] == each, half[like[half] == each]
        rows = plain[mine]
        if len(twins) and table.shapes.code[rows[0]] >= 0:
            expected[mine], told[mine] = np.median(table.duration[twins]), True
            continue
        pace = _time_at_pace(table, rows, half) if most else expected[mine]
        told[mine] = pace != table.duration[rows]
        pace = np.where(told[mine] | ~slower[rows], pace, pace / _HALF_PACE)
        expected[mine] = np.fmax(pace, table.bytes[rows] / 2 / speed) if speed > 0 else pace
    return np.where(np.isfinite(expected), np.fmin(expected, table.duration[plain]), table.duration[plain]), told


def _time_at_pace(table: KernelTable, rows: I64, kin: I64) -> F64:
    """How long the products at ``rows`` take at the pace of those at ``kin`` of their type, ns; theirs without any."""
    flops, expected = matrix_flops(table), table.duration[rows].astype(np.float64)
    for kind in np.unique(table.type.code[rows]).tolist():
        mine, own = table.type.code[rows] == kind, kin[(table.type.code[kin] == kind) & (flops[kin] > 0)]
        if len(own):
            expected[mine] = flops[rows[mine]] * table.duration[own].sum() / flops[own].sum()
    return np.where(np.isfinite(expected), expected, table.duration[rows])


def kernels_of_a_kind(facts: Facts, subject: str, chosen: Bools, **words: object) -> Draft:
    """The draft about the ``chosen`` kernels (n,) of the table that lists their types."""
    table, rows = facts.kernel_table, np.flatnonzero(chosen)
    names = most_common(Counter(table.type.at(row) or "" for row in rows.tolist()))
    return Draft(
        "low",
        *about(subject, names=names, **words),
        longest_kernels(facts, rows, lambda row: message("finding.dominant.place"), 5),
        confidence="medium",
        shown=facts.span_of(table.item[chosen & (table.item >= 0)]),
    )


def longest_kernels(
    facts: Facts, rows: I64, note: Callable[[int], Said], most: int = MOST_PLACES
) -> tuple[Evidence, ...]:
    """The longest of the kernels at ``rows`` of the table, in order of time; ``note`` gives the words for a row."""
    table = facts.kernel_table

    def place(row: int) -> Evidence:
        if (item := int(table.item[row])) >= 0:
            return facts.place(item, note(row))
        start = int(table.start[row])
        return Evidence(start, start + int(table.duration[row]), None, brief(table.name.at(row) or ""), note(row))

    chosen = rows[first_of_largest(table.duration[rows], most)]
    return tuple(place(row) for row in chosen[np.argsort(table.start[chosen], kind="stable")].tolist())


def title_of(table: KernelTable, row: int) -> str:
    """Type and shapes of a kernel: ``MatMulV2 32,1024;1024,4096``."""
    words = [table.type.at(row) or table.name.at(row) or "", table.shapes.at(row) or ""]
    return brief(" ".join(word for word in words if word), 60)


RULES: tuple[Rule, ...] = (
    Rule(
        "KERNEL.BOUND",
        cls="compute",
        inputs=(),
        check=bound,
        thresholds=(SMALL_KERNEL_US, SYNC_SHARE, *GRADES),
        advice=("ai_cpu", "ai_cpu_operators", "ai_cpu_other", "jit_compile", "graph"),
        pages=(pages.ADVISOR,),
        change="""\
-index = torch.nonzero(x > 0)
-y = x.double().cumsum(0)
+mask = x > 0
+y = x.float().cumsum(0)
""",
        sources=("msprof-analyze advisor: AICPU, dynamic shape", "operator tuning guide 0-32"),
        reach="cause",
    ),
    Rule(
        "DTYPE",
        cls="compute",
        inputs=("kernel_details",),
        check=dtype,
        thresholds=(FLOAT_SHARE, *GRADES),
        advice=("mixed_precision", "allow_hf32", "autocast_all"),
        pages=(pages.AMP,),
        change="""\
-out = model(x)
+with torch.npu.amp.autocast():
+    out = model(x)
""",
        sources=("operator tuning guide 0-28", "20-step tuning checklist 2-18"),
    ),
    Rule(
        "KERNEL.SHAPE",
        cls="compute",
        inputs=("kernel_details", "shapes"),
        check=unaligned,
        thresholds=(SMALL_KERNEL_US, *GRADES),
        advice=("align_sides",),
        pages=(pages.ADVISOR,),
        change="""\
-head = torch.nn.Linear(hidden, 24081)
+head = torch.nn.Linear(hidden, 24576)  # padded; the loss ignores what is beyond 24081
""",
        sources=("operator tuning guide 0-05",),
        reach="cause",
    ),
)
