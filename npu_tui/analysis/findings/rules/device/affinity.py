"""Findings about runs of operations and kernels that one fused operator replaces (rules F14 and F15)."""

from __future__ import annotations

import re

import numpy as np

from npu_tui.analysis.findings.facts.facts import Facts
from npu_tui.analysis.findings.facts.spans import I64, Bools
from npu_tui.analysis.findings.model import Evidence, Severity
from npu_tui.analysis.findings.phrases import line_of, sentences
from npu_tui.analysis.findings.rule import Draft, Rule
from npu_tui.analysis.findings.rules.device.sequences import ATEN, BETWEEN_ATEN, BETWEEN_KERNELS, KERNEL, matches
from npu_tui.analysis.launches.code_lines import CodeLine, stack_of, user_line
from npu_tui.analysis.launches.origin import operation_of
from npu_tui.analysis.work.host_operators import HostOperators
from npu_tui.analysis.work.operators import collective_type
from npu_tui.trace.intervals import covered_before
from npu_tui.trace.message import message
from npu_tui.trace.text import brief

_PREFIX = "aten::"
_BACKWARD = re.compile(r"^autograd::|Backward\d*$")
_MATMUL = re.compile(r"^(?:Batch)?MatMul", re.IGNORECASE)
_LINEAR = ("aten::linear", "aten::addmm")
_ALL_REDUCE = "hcom_allReduce_"
_MATMUL_ALL_REDUCE = "torch_npu.npu_mm_all_reduce_base (MatmulAllReduce)"
_ADDMM = "torch.addmm(bias, input, weight.t())"
_DOT = "elementwise multiplication and sum, or merged axes"
_SINGLE = re.compile(r"(?:^|,)1,1$")
_DIRECTLY_NS = 50_000
"""A collective that starts this soon after a matrix multiplication was waiting for its result."""
_SERIAL_SHARE = 0.1
"""A collective that less computing than this goes along with is waited for: the next operator needs its result."""


class _Found:
    """The places of one API: where they begin and end, the device time of all and what of it would be saved, ns."""

    def __init__(self) -> None:
        self.time = 0
        self.saves = 0
        self.exact = False
        self.places: list[tuple[int, int, str]] = []


def affinity_api(facts: Facts) -> Draft | None:
    """Runs of top-level operations with a torch_npu API of their own."""
    trace, slices = facts.trace, facts.trace.slices
    items, device = _top_level(facts, facts.hosts)
    found: dict[str, _Found] = {}
    for lane in np.unique(slices.lane[items]).tolist():
        own = np.flatnonzero(slices.lane[items] == lane)
        words = [trace.name_of(item).removeprefix(_PREFIX) for item in items[own].tolist()]
        for match in matches(words, ATEN, BETWEEN_ATEN):
            members = own[match.first : match.last]
            text = " → ".join(words[match.first : match.last])
            _add(found, match.run.api, match.run.exact, items[members], device[members], text, match.run.whole)
    lines = _lines(facts, [place[0] for each in found.values() for place in each.places[:5]])
    return _draft(facts, found, "api", lines)


def _top_level(facts: Facts, hosts: HostOperators) -> tuple[I64, I64]:
    """The ``aten`` operations of the window inside no other one and in no backward pass, with their time on the device.

    What only names a part of the program, such as a ``record_function`` or ``DistributedDataParallel.forward``, is
    looked into.
    """
    trace = facts.trace
    closed = np.array([name.startswith(_PREFIX) or bool(_BACKWARD.search(name)) for name in trace.names] + [False])
    plain = np.array([name.startswith(_PREFIX) for name in trace.names] + [False])
    closes = closed[trace.slices.name[hosts.item]]
    inside = np.zeros(len(hosts.item), np.bool_)
    above = hosts.parent
    while (known := above >= 0).any():  # one pass per level of nesting
        inside |= known & closes[above]
        above = np.where(known, hosts.parent[above], -1)
    own = plain[trace.slices.name[hosts.item]] & ~inside
    own &= facts.window.holds(trace.slices.start[hosts.item] + facts.floor)
    return hosts.item[own], hosts.device_total[own]


def affinity_kernel(facts: Facts) -> Draft | None:
    """Runs of kernels on one stream that one operator does at once, and types that a cheaper one replaces."""
    slices = facts.trace.slices
    types, code = facts.kernel_types
    linear = _in_linear(facts)
    found: dict[str, _Found] = {}
    for lane in np.unique(slices.lane[facts.kernels]).tolist():
        own = np.flatnonzero(slices.lane[facts.kernels] == lane)
        items = facts.kernels[own]
        names = [types[k] for k in code[own].tolist()]
        for match in matches(names, KERNEL, BETWEEN_KERNELS):
            members = items[match.first : match.last]
            words = " → ".join(names[match.first : match.last])
            api, exact = match.run.api, match.run.exact
            if match.run.linear and linear[members].any():
                api, exact = _ADDMM, False  # it is a linear already: only its bias is added apart
            _add(found, api, exact, members, facts.length(members), words, match.run.whole)
    _all_reduces(facts, found)
    _dots(facts, found)
    return _draft(facts, found, "kernel", ())


def _in_linear(facts: Facts) -> Bools:
    """By slice: whether an operation launched it that is a linear, or is inside one; (slices,)."""
    trace, hosts = facts.trace, facts.hosts
    named = np.array([name in _LINEAR for name in trace.names] + [False])
    of_host = named[trace.slices.name[hosts.item]]
    above = hosts.parent
    while (known := above >= 0).any():
        of_host |= known & named[trace.slices.name[hosts.item]][above]
        above = np.where(known, hosts.parent[above], -1)
    by_slice = np.zeros(len(trace.slices) + 1, np.bool_)
    by_slice[hosts.item] = of_host
    found = np.zeros(len(trace.slices), np.bool_)
    found[facts.kernels] = by_slice[operation_of(trace, facts.kernels)]
    return found


def _all_reduces(facts: Facts, found: dict[str, _Found]) -> None:
    """Sums over ranks that follow a matrix multiplication and that the device waits for, as tensor parallelism does."""
    slices = facts.trace.slices
    if not len(facts.kernels):
        return
    types, code = facts.kernel_types
    products = np.array([bool(_MATMUL.match(name)) for name in types] + [False])[code]
    end = slices.end[facts.kernels]
    by_end = np.argsort(end, kind="stable")
    ended = end[by_end]
    working = facts.span_of(facts.kernels)
    items = np.array([each.item for each in facts.collectives], np.int64)
    begins, ends = slices.start[items].astype(np.float64), slices.end[items].astype(np.float64)
    together = covered_before(*working, ends) - covered_before(*working, begins)
    for each, hidden in zip(facts.collectives, together.tolist(), strict=True):
        if collective_type(facts.trace.name_of(each.item)) != _ALL_REDUCE:
            continue
        start = int(slices.start[each.item])
        at = int(np.searchsorted(ended, start, "right")) - 1
        if at < 0 or not products[by_end[at]] or start - int(end[by_end[at]]) > _DIRECTLY_NS:
            continue
        if hidden > _SERIAL_SHARE * each.elapsed:
            continue
        kernel = int(facts.kernels[by_end[at]])
        transfer = each.elapsed if each.timing is None else each.timing.transit
        length = int(slices.end[kernel] - slices.start[kernel])
        row = found.setdefault(_MATMUL_ALL_REDUCE, _Found())
        row.time += length
        row.saves += min(length, transfer)
        row.exact = True
        row.places.append((kernel, each.item, f"{types[int(code[by_end[at]])]} → {_ALL_REDUCE.rstrip('_')}"))


def _dots(facts: Facts, found: dict[str, _Found]) -> None:
    """Batched multiplications whose results are single numbers: the cube computes a block for each."""
    table = facts.kernel_table
    batched = table.type.where(lambda kind: kind.startswith("BatchMatMul"))
    single = table.outputs.where(lambda shapes: _SINGLE.search(shapes) is not None)
    for item in table.item[batched & single & (table.item >= 0)].tolist():
        length = facts.length(np.array([item]))
        _add(found, _DOT, False, np.array([item]), length, "BatchMatMul […,1,1]")


def _add(
    found: dict[str, _Found], api: str, exact: bool, items: I64, time: I64, words: str, whole: bool = False
) -> None:
    """A run of ``items``, each ``time`` ns on the device: one operator takes about as long as the longest of them.

    Where the ``whole`` run is replaced by something cheap, nothing of it stays.
    """
    row = found.setdefault(api, _Found())
    row.time += int(time.sum())
    row.saves += int(time.sum() - (0 if whole else time.max(initial=0)))
    row.exact |= exact or whole
    row.places.append((int(items[0]), int(items[-1]), words))


def _lines(facts: Facts, items: list[int]) -> tuple[CodeLine, ...]:
    stacks = stack_of(facts.trace, np.array(items, np.int64)) if items else np.zeros(0, np.int64)
    lines = [user_line(facts.trace.stacks[stack]) for stack in stacks.tolist() if stack >= 0]
    return tuple(dict.fromkeys(line for line in lines if line is not None))[:5]


def _draft(facts: Facts, found: dict[str, _Found], kind: str, lines: tuple[CodeLine, ...]) -> Draft | None:
    if not found:
        return None
    limits = facts.limits
    rows = sorted(found.items(), key=lambda row: (-row[1].saves, -row[1].time))
    exact = [row for row in rows if row[1].exact]
    saves = sum(row.saves for _, row in exact)
    share = facts.share(saves)
    time, computing = sum(row.time for _, row in rows), facts.sums.computing
    severity: Severity = "low" if share >= limits.affinity_share else "info"
    runs = [
        message(
            "finding.affinity.run",
            api=api,
            count=len(row.places),
            words=brief(row.places[0][2], 80),
            time=row.time,
        )
        for api, row in rows[:6]
    ]
    parts = [message(f"finding.affinity.{kind}", runs=runs)]
    if lines:
        parts.append(message("finding.affinity.lines", lines=[line_of(line) for line in lines]))
    slices = facts.trace.slices
    evidence = tuple(
        Evidence(
            int(slices.start[first]),
            int(slices.end[last]),
            int(slices.lane[first]),
            brief(words, 120),
            message("finding.affinity.place", api=api),
            first,
        )
        for api, row in rows[:4]
        for first, last, words in row.places[:3]
    )
    return Draft(
        severity,
        message(
            "finding.affinity.title",
            api=rows[0][0],
            more=message("finding.affinity.more", count=len(rows) - 1) if len(rows) > 1 else "",
        ),
        sentences(*parts),
        evidence,
        (
            *(message("finding.advice.use", api=api) for api, _ in rows[:4]),
            message("finding.advice.check_numbers", share=min(time / computing, 1.0) if computing else 0.0),
        ),
        weight=float(saves),
        confidence="medium" if exact else "low",
        code_lines=lines,
    )


RULES = (
    Rule(
        "OP.AFFINITY_API",
        "compute",
        ("device", "overlap", "python"),
        affinity_api,
        ("affinity_share",),
        ("msprof-analyze advisor: affinity API", "MindStudio Insight: fusible operators", "affinity operators guide"),
    ),
    Rule(
        "OP.AFFINITY_KERNEL",
        "compute",
        ("device", "overlap"),
        affinity_kernel,
        ("affinity_share",),
        (
            "msprof-analyze advisor: fused kernels",
            "operator tuning guide 0-15 to 0-21",
            "affinity operators guide 3-04 to 3-18",
        ),
    ),
)
