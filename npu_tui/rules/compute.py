"""Findings about the work of the device itself: how much it computes, and on what.

Rules F09 to F12, F21, F22 and F24 of the collected diagnosis rules: the tuning guides and the kernel rules of
msprof-analyze's advisor.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np

from npu_tui.analysis.code_lines import CodeLine, stack_of, user_line
from npu_tui.analysis.device import on_ai_cpu
from npu_tui.analysis.kernels import is_wide
from npu_tui.analysis.launches import operation_of
from npu_tui.analysis.replay import Change, TaskCut
from npu_tui.analysis.thresholds import Threshold
from npu_tui.rules import pages
from npu_tui.rules.blame import LINKS_FEWEST, compile_calls
from npu_tui.rules.facts import Facts
from npu_tui.rules.inputs import Span, length_of, without
from npu_tui.rules.left_out import left_out
from npu_tui.rules.model import Evidence, Severity
from npu_tui.rules.rule import (
    SEVERITY_HIGH,
    SEVERITY_MEDIUM,
    Draft,
    Rule,
    Skipped,
    advise,
    counted,
    line_of,
    sentences,
    severity_of,
    timed,
)
from npu_tui.trace.arrays import I64, BySlice
from npu_tui.trace.message import Message, message
from npu_tui.trace.text import brief

CUBE = re.compile(r"matmul|gemm|^conv|attention|^mm$|^bmm$", re.IGNORECASE)
COPY = frozenset(
    ("TransData", "TensorMove", "ViewCopy", "AsStrided", "Slice", "SliceD", "StridedSlice", "StridedSliceD")
)
_COPYING = frozenset(
    f"aten::{name}" for name in ("contiguous", "clone", "copy_", "to", "_to_copy", "reshape", "permute", "transpose")
)
"""Operations of the framework inside which others copy."""
_MOST_LINES = 3
_BY_MASK = re.compile(r"^(?:index|nonzero|argm(?:in|ax)|maskedselect|where)", re.IGNORECASE)
"""Operators that a mask of a fixed shape does the work of."""
LAYOUT = re.compile(r"^(?:transpose|reshape|permute|flatten|squeeze|unsqueeze)", re.IGNORECASE)
SOFTMAX = re.compile(r"softmax", re.IGNORECASE)

UTILIZATION_FINE = Threshold("utilization_fine", 0.8)
UTILIZATION_POOR = Threshold("utilization_poor", 0.5)


def utilization(facts: Facts) -> Draft:
    """How much of its time the device computes, and how much it does anything at all."""
    limits, sums = facts.limits, facts.sums
    compute, busy = facts.share(sums.computing), 1 - facts.share(sums.free)
    band = "fine" if compute > limits[UTILIZATION_FINE] else "poor" if compute < limits[UTILIZATION_POOR] else "room"
    return Draft(
        "info",
        message(
            "finding.util.title_poor" if band == "poor" else "finding.util.title",
            compute=compute,
            busy=busy,
            limit=limits[UTILIZATION_POOR],
        ),
        message(f"finding.util.{band}", compute=compute, busy=busy, total=facts.total),
        advice=(),  # the other findings say what to change
    )


def verdict(facts: Facts) -> Draft:
    """What binds the job: the largest of host-late Free (where no launch is known all of Free), exposed communication
    and computing; none of them where the device is free for longer than all three with its launches on time.
    """
    sums = facts.sums
    known = facts.part.split is not None
    late = length_of(facts.host_late) if known else sums.free
    parts = {"dispatch": late, "communication": sums.not_overlapped, "compute": sums.computing}
    bound = max(parts, key=lambda name: parts[name])
    times = {"late": late, "exposed": sums.not_overlapped, "compute": sums.computing}
    shares = {f"{name}_share": facts.share(time) for name, time in times.items()}
    detail = message("finding.verdict.detail" if known else "finding.verdict.detail_free", **times, **shares)
    if not known and bound == "dispatch":
        title = message("finding.verdict.title_free")
    elif sums.free - late > sum(parts.values()):
        title = message("finding.verdict.title_device")
    else:
        title = message("finding.verdict.title", bound=message(f"finding.bound.{bound}"))
    return Draft("info", title, sentences(detail, *left_out(facts)))


SHARE_CUBE = Threshold("share_cube", 0.6)
SHARE_COPY = Threshold("share_copy", 0.3)
SHARE_LAYOUT = Threshold("share_layout", 0.2)
SHARE_SOFTMAX = Threshold("share_softmax", 0.15)


def op_share(facts: Facts) -> Draft | None:
    """A kind of operators that takes more of the compute time than it should."""
    limits, times = facts.limits, facts.time_by_type
    total = sum(times.values())
    if not total or len(facts.kernels) < limits[LINKS_FEWEST]:
        return None
    kinds: tuple[tuple[str, float, Callable[[str], bool]], ...] = (
        ("copy", limits[SHARE_COPY], lambda name: name in COPY),
        ("layout", limits[SHARE_LAYOUT], lambda name: bool(LAYOUT.search(name))),
        ("softmax", limits[SHARE_SOFTMAX], lambda name: bool(SOFTMAX.search(name))),
        # Matrix work is what the device is for: a large share of it says where to look, not that something is wrong.
        ("cube", limits[SHARE_CUBE], lambda name: bool(CUBE.search(name))),
    )
    exceeding = []
    for kind, most, belongs in kinds:
        types = [name for name in times if belongs(name)]
        share = sum(times[name] for name in types) / total
        if share > most:
            exceeding.append((kind, share, most, types))
    if not exceeding:
        return None
    lines = [
        message(
            "finding.share.part",
            kind=message(f"finding.share.{kind}"), share=share, most=most,
            types=[timed(name, times[name]) for name in types[:4]],
        )
        for kind, share, most, types in exceeding
    ]  # fmt: skip
    moved = {name for kind, _, _, types in exceeding if kind in ("copy", "layout") for name in types}
    first, share, most, types = exceeding[0]
    return Draft(
        "info" if first == "cube" else "medium",
        message("finding.share.title", kind=message(f"finding.share.{first}"), share=share),
        sentences(*lines, *(_launched_by(facts, moved) if moved else ())),
        _longest_kernels(facts, _kernels_of(facts, set(types))),
        advise(*(f"share.{kind}" for kind, *_ in exceeding)),
        weight=(share - most) * total,
        shown=facts.span_of(_kernels_of(facts, set(types))),
    )


def _kernels_of(facts: Facts, wanted: set[str]) -> I64:
    types, code = facts.kernel_types
    chosen = np.array([name in wanted for name in types] + [False])
    items: I64 = facts.kernels[chosen[code]]
    return items


def _most_common(names: Counter[str]) -> list[Message]:
    return [counted(name, count) for name, count in names.most_common(4)]


def _longest_kernels(facts: Facts, items: I64) -> tuple[Evidence, ...]:
    """The five longest of the slices ``items``; kernels without a slice (-1) are left out."""
    return facts.longest(items[items >= 0], lambda item: message("finding.dominant.place"), 5)


def _span_of_rows(facts: Facts, items: I64) -> Span:
    """When kernels run, as far as they have a slice (-1: none)."""
    return facts.span_of(items[items >= 0])


def _launched_by(facts: Facts, wanted: set[str]) -> list[Message]:
    """Which operations of the framework asked for kernels of the types ``wanted``, and at which lines of code."""
    trace, hosts = facts.trace, facts.inputs.hosts()
    operations = operation_of(trace, _kernels_of(facts, wanted))
    operations = operations[operations >= 0]
    at = BySlice(hosts.item, np.arange(len(hosts.item))).of(operations)
    at = at[at >= 0]
    if not len(at):
        return []
    name = trace.slices.name[hosts.item]
    called = facts.names_where(lambda name: name.startswith("aten::"))[name]
    while (inside := (hosts.parent[at] >= 0) & ~called[at]).any():
        at = np.where(inside, hosts.parent[at], at)
    copying = facts.names_where(_COPYING.__contains__)[name]
    while (inside := (hosts.parent[at] >= 0) & copying[hosts.parent[at]]).any():  # contiguous calls clone calls copy_
        at = np.where(inside, hosts.parent[at], at)
    names = Counter(trace.names[name] for name in trace.slices.name[hosts.item[at]].tolist())
    stacks = Counter(stack for stack in stack_of(trace, operations).tolist() if stack >= 0)
    lines: Counter[CodeLine] = Counter()
    for stack, count in stacks.items():
        if (line := user_line(trace.stacks[stack])) is not None:
            lines[line] += count
    parts = [message("finding.share.launched", operations=_most_common(names))]
    if lines:
        words = [line_of(line) for line, _ in lines.most_common(_MOST_LINES)]
        parts.append(message("finding.share.lines", lines=words))
    return parts


DOMINANT_SHARE = Threshold("dominant_share", 0.3)
DOMINANT_SHARE_HIGH = Threshold("dominant_share_high", 0.5)


def dominant(facts: Facts) -> Draft | None:
    """One operator type that takes a large part of the compute time."""
    limits, times = facts.limits, facts.time_by_type
    total = sum(times.values())
    if not total or len(facts.kernels) < limits[LINKS_FEWEST]:
        return None
    large = [name for name, time in times.items() if time / total >= limits[DOMINANT_SHARE]]
    if not large:
        return None
    # Matrix work is what the device is for: what else takes as much stands before it.
    name = next((name for name in large if CUBE.search(name) is None), large[0])
    time, share = times[name], times[name] / total
    types, code = facts.kernel_types
    items = facts.kernels[code == types.index(name)]
    length = facts.length(items)
    severity: Severity = "high" if share >= limits[DOMINANT_SHARE_HIGH] else "medium"
    is_cube = CUBE.search(name) is not None
    return Draft(
        "info" if is_cube else severity,
        message("finding.dominant.title", name=brief(name, 40), share=share),
        message(
            "finding.dominant.detail",
            name=brief(name), time=time, share=share, count=len(items),
            average=float(length.mean()), longest=float(length.max()),
        ),
        facts.longest(items, lambda item: message("finding.dominant.place")),
        advise("dominant", "share.cube" if is_cube else "replace"),
        weight=time - limits[DOMINANT_SHARE] * total,
        shown=facts.span_of(items),
    )  # fmt: skip


AI_CPU_US = Threshold("ai_cpu_us", 20.0)


def bound(facts: Facts) -> Draft | None:
    """Kernels that run on the AI CPU, or for which every shape is compiled anew."""
    limits = facts.limits
    items = facts.kernels[on_ai_cpu(facts.trace, facts.kernels)]
    least = limits[AI_CPU_US] * 1000
    slow = items[facts.length(items) >= least]
    state = facts.kernel_table.details.get("state")
    count = int(np.count_nonzero(state.code >= 0)) if state is not None else 0
    dynamic = state is not None and count > 0 and not state.where(lambda word: word == "static").any()
    if not len(slow) and not dynamic:
        return None
    details = []
    removes: Span | None = None
    severity: Severity = "info"
    title = message("finding.bound.dynamic_title", count=count)
    advice: list[Message] = []
    if len(slow):
        device = facts.part.slices
        assert device is not None  # the rule asks for a device
        busy = np.flatnonzero(device.compute | device.collective)
        removes = without(facts.span_of(slow), facts.span_of(busy[~on_ai_cpu(facts.trace, busy)]))
        severity = severity_of(facts, facts.share(length_of(removes)))
        times = Counter[str]()
        types, code = facts.kernel_types
        chosen = np.isin(facts.kernels, slow)
        for kind, time in zip(code[chosen].tolist(), facts.length(facts.kernels[chosen]).tolist(), strict=True):
            times[types[kind]] += time
        title = message("finding.bound.cpu_title", count=len(slow), time=length_of(removes))
        names = [timed(name, time) for name, time in times.most_common(4)]
        spent = int(facts.length(slow).sum())
        details.append(message("finding.bound.cpu", count=len(slow), least=least, time=spent, names=names))
        advice += _off_the_ai_cpu(facts, slow, times)
    if dynamic:
        details.append(message("finding.bound.dynamic", count=count))
        compiles = not facts.has("cann") or len(compile_calls(facts)) > 0
        advice.append(message("finding.advice.jit_compile" if compiles else "finding.advice.graph"))
    return Draft(
        severity,
        title,
        sentences(*details),
        facts.longest(slow, lambda item: message("finding.bound.place")),
        tuple(advice),
        removes,
        change=Change(tasks=(TaskCut(slow),)),
    )


def _off_the_ai_cpu(facts: Facts, slow: I64, names: Iterable[str]) -> tuple[Message, ...]:
    """What brings the kernels ``slow``, of the types ``names``, to the AI cores: other types, or other operators."""
    table = facts.kernel_table
    rows = np.isin(table.item, slow)
    typed = rows & table.dtypes.where(lambda kinds: kinds.strip() not in ("", "N/A"))
    wide = rows & table.dtypes.where(is_wide)
    shaped = any(_BY_MASK.match(name) for name in names)
    # Without kernel_details.csv the types of the data are not known.
    words = [word for word, fits in (("ai_cpu", wide.any() or not typed.any()), ("ai_cpu_operators", shaped)) if fits]
    return advise(*(words or ["ai_cpu_other"]))


FLOAT_SHARE = Threshold("float_share", 0.5)


def dtype(facts: Facts) -> Draft | None:
    """Matrix work in 32-bit floating point, and 64-bit work on the AI CPU."""
    table = facts.kernel_table
    matrix = table.type.where(lambda kind: CUBE.search(kind) is not None)
    plain = matrix & table.dtypes.where(lambda kinds: kinds.split(";")[0].strip() in ("FLOAT", "DT_FLOAT", "FLOAT32"))
    cube, wide = int(table.duration[matrix].sum()), int(table.duration[plain].sum())
    if not cube or wide < facts.limits[FLOAT_SHARE] * cube:
        return None
    names = Counter(table.type.at(k) or "" for k in np.flatnonzero(plain).tolist())
    return Draft(
        "low",
        message("finding.dtype.title", share=wide / cube),
        message("finding.dtype.detail", share=wide / cube, time=cube, names=_most_common(names)),
        _longest_kernels(facts, table.item[plain]),
        confidence="medium",
        shown=_span_of_rows(facts, table.item[plain]),
    )


MTE2_CUBE = Threshold("mte2_cube", 0.95)
MTE2_VECTOR = Threshold("mte2_vector", 0.7)
MTE2_SHARE = Threshold("mte2_share", 0.1)


def memory_bound(facts: Facts) -> Draft | Skipped | None:
    """Kernels that wait for data more than they compute."""
    limits = facts.limits
    table = facts.kernel_table
    cores = table.core.where(lambda core: core.startswith(("AI_", "MIX_")) and core != "AI_CPU")
    cube, vector = table.measured("aic_mte2_ratio"), table.measured("aiv_mte2_ratio")
    plain = table.measured("mte2_ratio")  # older chips have one kind of core, and no prefix
    matrix = table.type.where(lambda kind: CUBE.search(kind) is not None)
    cube, vector = np.fmax(cube, np.where(matrix, plain, np.nan)), np.fmax(vector, np.where(matrix, np.nan, plain))
    bound = cores & ((cube >= limits[MTE2_CUBE]) | (vector >= limits[MTE2_VECTOR]))
    total, waiting = int(table.duration[cores].sum()), int(table.duration[bound].sum())
    if not total or waiting < limits[MTE2_SHARE] * total:
        return None
    names = Counter(table.type.at(k) or "" for k in np.flatnonzero(bound).tolist())
    return Draft(
        "low",
        message("finding.bandwidth.title", share=waiting / total),
        message("finding.bandwidth.detail", time=waiting, share=waiting / total, names=_most_common(names)),
        _longest_kernels(facts, table.item[bound]),
        confidence="medium",
        shown=_span_of_rows(facts, table.item[bound]),
    )


RULES: tuple[Rule, ...] = (
    Rule(
        "OP.SHARE",
        cls="compute",
        inputs=("device", "overlap"),
        check=op_share,
        thresholds=(SHARE_CUBE, SHARE_COPY, SHARE_LAYOUT, SHARE_SOFTMAX, LINKS_FEWEST),
        advice=("share.copy", "share.layout", "share.softmax", "share.cube"),
        pages=(pages.ADVISOR,),
        sources=("20-step tuning checklist 2-09 to 2-12",),
        reach="place",
    ),
    Rule(
        "OP.DOMINANT",
        cls="compute",
        inputs=("device", "overlap"),
        check=dominant,
        thresholds=(DOMINANT_SHARE, DOMINANT_SHARE_HIGH, LINKS_FEWEST),
        advice=("dominant", "replace"),
        gpu=("dominant",),
        pages=(pages.ADVISOR,),
        change="""\
-x[mask] = value
+x = x * (1 - mask) + value * mask
""",
        sources=("affinity operators guide 3-03", "20-step tuning checklist 2-08"),
        reach="place",
    ),
    Rule(
        "KERNEL.BOUND",
        cls="compute",
        inputs=("device", "overlap"),
        check=bound,
        thresholds=(AI_CPU_US, SEVERITY_MEDIUM, SEVERITY_HIGH),
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
        thresholds=(FLOAT_SHARE,),
        advice=("mixed_precision",),
        pages=(pages.AMP,),
        change="""\
-out = model(x)
+with torch.npu.amp.autocast():
+    out = model(x)
""",
        sources=("operator tuning guide 0-28", "20-step tuning checklist 2-18"),
    ),
    Rule(
        "MEM.BW",
        cls="compute",
        inputs=("pmu",),
        check=memory_bound,
        thresholds=(MTE2_CUBE, MTE2_VECTOR, MTE2_SHARE),
        advice=("bandwidth",),
        pages=(pages.ADVISOR,),
        sources=("operator tuning guide 0-05", "msprof-analyze advisor: AI Core performance"),
    ),
    Rule(
        "UTIL",
        cls="dispatch",
        inputs=("overlap",),
        check=utilization,
        thresholds=(UTILIZATION_FINE, UTILIZATION_POOR),
        advice=("order",),
        gpu=("order",),
        pages=(pages.PIPELINE, pages.NPU_SMI),
        sources=("20-step tuning checklist 2-06",),
    ),
    Rule(
        "VERDICT",
        cls="compute",
        inputs=("overlap",),
        check=verdict,
        advice=("order",),
        gpu=("order",),
        pages=(pages.ADVISOR,),
        sources=("MindStudio Insight walk-through 1-02, 1-49, 1-56",),
    ),
)
