"""Findings about runs of operations and kernels that one fused operator replaces (rules F14 and F15)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.calls import HostOperators
from npu_tui.analysis.code_lines import CodeLine, stack_of, user_line
from npu_tui.analysis.launches import operation_of
from npu_tui.analysis.replay import Change, TaskCut
from npu_tui.analysis.thresholds import Threshold
from npu_tui.rules import pages
from npu_tui.rules.facts import Facts, once_per_device
from npu_tui.rules.inputs import Span, together
from npu_tui.rules.model import Evidence, Severity
from npu_tui.rules.parallelism import is_for, product_before, serial, trains
from npu_tui.rules.rule import SEVERITY_HIGH, Draft, Rule, line_of, sentences
from npu_tui.rules.sequences import (
    ADDMM,
    ATEN,
    BETWEEN_ATEN,
    BETWEEN_KERNELS,
    CHAIN,
    IN_PLACE,
    KERNEL,
    Matches,
    matches,
    of_training,
)
from npu_tui.trace.arrays import I64, Bools, in_groups
from npu_tui.trace.message import Message, message
from npu_tui.trace.model import Slices
from npu_tui.trace.text import brief

_PREFIX = "aten::"
_BACKWARD = re.compile(r"^autograd::|Backward\d*$")
_LINEAR = ("aten::linear", "aten::addmm")
_ALL_REDUCE = "hcom_allReduce_"
_MATMUL_ALL_REDUCE = "torch_npu.npu_mm_all_reduce_base (MatmulAllReduce)"
_DOT = "elementwise multiplication and sum, or merged axes"
_SINGLE = re.compile(r"(?:^|,)1,1$")
_MOST_PLACES = 5


class Saving:
    """How often one API fits, the device time of all places and how much of it the API would save, ns.

    ``places`` are the first of them: first slice, last slice, and the names of the run. ``spans`` are when all of them
    begin and end, ``spare`` the kernels that would not run: all of a run but the longest, which takes as long as one
    that does the work of all.
    """

    def __init__(self) -> None:
        self.count = 0
        self.time = 0
        self.saves = 0
        self.exact = False
        self.places: list[tuple[int, int, str]] = []
        self.spans: list[Span] = []
        self.spare: list[I64] = []

    def add(self, span: Span, time: int, saves: int, exact: bool) -> int:
        """Count the runs of ``span``, which take ``time`` ns on the device.

        Returns how many of their places may still be listed.
        """
        self.count += len(span[0])
        self.spans.append(span)
        self.time += time
        self.saves += saves
        self.exact |= exact
        return _MOST_PLACES - len(self.places)


AFFINITY_SHARE = Threshold("affinity_share", 0.01)


def affinity_api(facts: Facts) -> Draft | None:
    """Runs of top-level operations that one call of torch_npu replaces."""
    savings = api_savings(facts)
    lines = _lines(facts, [place[0] for saving in savings.values() for place in saving.places])
    return _draft(facts, savings, "api", lines)


@once_per_device
def api_savings(facts: Facts) -> dict[str, Saving]:
    """Runs of top-level operations by the call that replaces them."""
    trace, slices = facts.trace, facts.trace.slices
    items, device = _top_level(facts, facts.inputs.hosts())
    savings: dict[str, Saving] = {}
    short = [name.removeprefix(_PREFIX) for name in trace.names]
    runs = of_training(ATEN) if trains(facts) else ATEN
    for lane in np.unique(slices.lane[items]).tolist():
        positions = np.flatnonzero(slices.lane[items] == lane)
        code = slices.name[items[positions]].astype(np.int64)
        matched = matches(short, code, runs, BETWEEN_ATEN)
        _add(slices, savings, matched, items[positions], device[positions], short, code)
    return savings


def _top_level(facts: Facts, hosts: HostOperators) -> tuple[I64, I64]:
    """The ``aten`` operations of the window inside no other one and in no backward pass, with their time on the device.

    What only names a part of the program, such as a ``record_function`` or ``DistributedDataParallel.forward``, is
    looked into.
    """
    trace = facts.trace
    closed = facts.names_where(lambda name: name.startswith(_PREFIX) or _is_backward(name))
    plain = facts.names_where(lambda name: name.startswith(_PREFIX))
    name = trace.slices.name[hosts.item]
    operations = np.flatnonzero(plain[name])
    operations = operations[facts.window.holds(trace.slices.start[hosts.item[operations]] + facts.floor)]
    operations = operations[~_below(hosts, hosts.parent[operations], closed[name])]
    return hosts.item[operations], hosts.device_total[operations]


def _is_backward(name: str) -> bool:
    """Whether an operation belongs to a backward pass; the pattern is slow, so most names are sorted out before."""
    return ("Backward" in name or name.startswith("autograd::")) and _BACKWARD.search(name) is not None


def _below(hosts: HostOperators, at: I64, chosen: Bools) -> Bools:
    """Whether the operation at each position ``at`` of ``hosts`` (-1: none), or one around it, is ``chosen``; (n,)."""
    below = np.zeros(len(at), np.bool_)
    left = np.flatnonzero(at >= 0)
    at = at[left]
    while len(left):  # one pass per level of nesting
        below[left] = chosen[at]
        at = np.where(chosen[at], -1, hosts.parent[at])
        left, at = left[at >= 0], at[at >= 0]
    return below


def affinity_kernel(facts: Facts) -> Draft | None:
    """Runs of kernels on one stream that one operator does at once, and types that a cheaper one replaces."""
    savings = kernel_savings(facts)
    first = np.array([place[0] for saving in savings.values() for place in saving.places], np.int64)
    operations = operation_of(facts.trace, first)
    return _draft(facts, savings, "kernel", _lines(facts, operations[operations >= 0].tolist()))


@once_per_device
def kernel_savings(facts: Facts) -> dict[str, Saving]:
    """Runs of kernels on one stream, and types of kernels, by what replaces them."""
    slices = facts.trace.slices
    types, code = facts.kernel_types
    savings: dict[str, Saving] = {}
    runs = of_training(KERNEL) if trains(facts) else KERNEL
    for lane in np.unique(slices.lane[facts.kernels]).tolist():
        positions = np.flatnonzero(slices.lane[facts.kernels] == lane)
        items = facts.kernels[positions]
        matched = _in_one_piece(facts, matches(types, code[positions], runs, BETWEEN_KERNELS), items)
        matched = _without_optimizers(facts, _without_linear(facts, matched, positions), positions)
        _add(slices, savings, matched, items, facts.length(items), types, code[positions])
    _all_reduces(facts, savings)
    _dots(facts, savings)
    return savings


def _in_one_piece(facts: Facts, matched: Matches, items: I64) -> Matches:
    """``matched`` among ``items`` without the runs that wait for a collective between two members."""
    slices = facts.trace.slices
    waited = np.sort(slices.start[facts.collectives.item[serial(facts)]])
    if not len(waited) or not len(matched.run):
        return matched
    low, high = slices.start[items[matched.first]], slices.start[items[matched.last - 1]]
    whole = np.searchsorted(waited, low) == np.searchsorted(waited, high)
    return Matches(matched.runs, matched.run[whole], matched.first[whole], matched.last[whole])


def _without_linear(facts: Facts, matched: Matches, kernels: I64) -> Matches:
    """``matched`` among the kernels ``own``: where a linear launched the run of one only its bias is added apart."""
    linear, bias = (np.array([getattr(run, kind) for run in matched.runs])[matched.run] for kind in ("linear", "bias"))
    if not (linear | bias).any():
        return matched
    launched = np.append(0, np.cumsum(_in_linear(facts)[kernels]))
    inside = launched[matched.last] - launched[matched.first]
    apart = [replace(run, api=ADDMM, exact=False) for run in matched.runs]
    number = matched.run + np.where(linear & (inside > 0), len(apart), 0)
    kept = ~bias | (inside == matched.last - matched.first)
    return Matches((*matched.runs, *apart), number[kept], matched.first[kept], matched.last[kept])


def _without_optimizers(facts: Facts, matched: Matches, kernels: I64) -> Matches:
    """``matched`` without chains of an optimizer: they compute one parameter after another."""
    chain = np.array([run.api == CHAIN for run in matched.runs], np.bool_)[matched.run]
    if not chain.any():
        return matched
    launched = np.append(0, np.cumsum(_in_optimizer(facts)[kernels]))
    kept = ~chain | (launched[matched.last] == launched[matched.first])
    return Matches(matched.runs, matched.run[kept], matched.first[kept], matched.last[kept])


@once_per_device
def _in_linear(facts: Facts) -> Bools:
    """Which kernels of the window an operation launched that is a linear, or is inside one; (kernels,)."""
    return _launched_in(facts, _LINEAR.__contains__)


@once_per_device
def _in_optimizer(facts: Facts) -> Bools:
    """Which kernels of the window an optimizer launched; (kernels,)."""
    return _launched_in(facts, lambda name: name.startswith("Optimizer.step#"))


def _launched_in(facts: Facts, rule: Callable[[str], bool]) -> Bools:
    """Which kernels of the window an operation launched whose name fulfils ``rule``, or one inside it; (kernels,)."""
    trace, hosts = facts.trace, facts.inputs.hosts()
    named = facts.names_where(rule)
    operation = operation_of(trace, facts.kernels)
    at = np.searchsorted(hosts.item, operation)
    at[np.append(hosts.item, -1)[at] != operation] = -1
    at[operation < 0] = -1
    return _below(hosts, at, named[trace.slices.name[hosts.item]])


def _all_reduces(facts: Facts, savings: dict[str, Saving]) -> None:
    """Sums over ranks that follow a matrix multiplication and that the device waits for, as tensor parallelism does."""
    slices, every = facts.trace.slices, facts.collectives
    types, code = facts.kernel_types
    last = product_before(facts)
    chosen = (last >= 0) & is_for(facts, "tensor")
    chosen &= np.array([kind == _ALL_REDUCE for kind in every.types] + [False])[every.type]
    transfers = np.where(every.timings.known, every.timings.transit, every.elapsed)
    for k in np.flatnonzero(chosen).tolist():
        kernel, transfer = int(facts.kernels[last[k]]), int(transfers[k])
        length = int(slices.end[kernel] - slices.start[kernel])
        row = savings.setdefault(_MATMUL_ALL_REDUCE, Saving())
        if row.add(facts.span_of(np.array([kernel])), length, min(length, transfer), exact=True) > 0:
            words = f"{types[int(code[last[k]])]} → {_ALL_REDUCE.rstrip('_')}"
            row.places.append((kernel, int(every.item[k]), words))


def _dots(facts: Facts, savings: dict[str, Saving]) -> None:
    """Batched multiplications whose results are single numbers: the cube computes a block for each."""
    table, slices = facts.kernel_table, facts.trace.slices
    batched = table.type.where(lambda kind: kind.startswith("BatchMatMul"))
    single = table.outputs.where(lambda shapes: _SINGLE.search(shapes) is not None)
    for item in table.item[batched & single & (table.item >= 0)].tolist():
        length = int(slices.end[item] - slices.start[item])
        row = savings.setdefault(_DOT, Saving())
        if row.add(facts.span_of(np.array([item])), length, 0, exact=False) > 0:
            row.places.append((item, item, "BatchMatMul […,1,1]"))


def _add(
    slices: Slices,
    savings: dict[str, Saving],
    matched: Matches,
    items: I64,
    time: I64,
    names: Sequence[str],
    code: I64,
) -> None:
    """Disjoint runs of ``items``, which take ``time`` ns on the device each; ``code`` are their ``names``.

    One operator takes about as long as the longest of a run; of a whole run, which something cheap replaces, nothing
    stays.
    """
    if not len(matched.run):
        return
    bounds = np.stack((matched.first, matched.last), axis=1).ravel()
    time = np.append(time, 0)  # the last run may end with the items
    total, longest = (every.reduceat(time, bounds)[::2] for every in (np.add, np.maximum))
    runs = matched.runs
    vanishes = np.array([run.whole for run in runs])[matched.run]
    exact = np.array([run.exact or run.whole for run in runs])[matched.run]
    apis: dict[str, int] = {}
    api = np.array([apis.setdefault(run.api, len(apis)) for run in runs])[matched.run]
    for members in in_groups(api):
        row = savings.setdefault(runs[int(matched.run[members[0]])].api, Saving())
        saves = total[members] - np.where(vanishes[members], 0, longest[members])
        ends = items[matched.first[members]], items[np.maximum(matched.last[members] - 1, 0)]
        span = slices.start[ends[0]], np.maximum(slices.end[ends[1]], slices.start[ends[0]] + 1)
        room = row.add(span, int(total[members].sum()), int(saves.sum()), bool(exact[members].any()))
        row.spare.append(_spare(items, time[:-1], matched.first[members], matched.last[members]))
        for first, last in zip(
            matched.first[members[:room]].tolist(), matched.last[members[:room]].tolist(), strict=True
        ):
            words = " → ".join(names[name] for name in code[first:last].tolist())
            row.places.append((int(items[first]), int(items[last - 1]), words))


def _spare(items: I64, time: I64, first: I64, last: I64) -> I64:
    """Those of ``items`` in the runs from ``first`` to ``last`` but the one of most ``time`` in each run."""
    count = last - first
    at = np.arange(int(count.sum())) + np.repeat(last - np.cumsum(count), count)
    # Of several that are equally long the first one stays.
    order = time[at] * len(at) - np.arange(len(at))
    longest = np.maximum.reduceat(order, np.cumsum(count) - count) if len(at) else order
    return items[at[order < np.repeat(longest, count)]]


def _lines(facts: Facts, items: list[int]) -> tuple[CodeLine, ...]:
    stacks = stack_of(facts.trace, np.array(items, np.int64)) if items else np.zeros(0, np.int64)
    lines = [user_line(facts.trace.stacks[stack]) for stack in stacks.tolist() if stack >= 0]
    return tuple(dict.fromkeys(line for line in lines if line is not None))[:5]


def _in_place(facts: Facts, count: int) -> Message:
    """What ``count`` activations in place would save: memory, as far as operator_memory.csv tells."""
    allocations = facts.inputs.memory().allocations
    made = allocations.name.where(lambda name: _ACTIVATION.fullmatch(name) is not None)
    made &= facts.window.holds(allocations.start)
    if not made.any():
        return message("finding.affinity.in_place", count=count)
    return message("finding.affinity.in_place_bytes", count=count, size=int(allocations.size[made].sum()))


_ACTIVATION = re.compile(r"aten::(?:relu|sigmoid|tanh)")


def _draft(facts: Facts, savings: dict[str, Saving], kind: str, lines: tuple[CodeLine, ...]) -> Draft | None:
    if not savings:
        return None
    rows = sorted(savings.items(), key=lambda entry: (entry[0] == IN_PLACE, -entry[1].saves, -entry[1].time))
    timed = [(api, saving) for api, saving in rows if api != IN_PLACE]
    exact = [saving for _, saving in rows if saving.exact]
    saves = sum(saving.saves for saving in exact)
    time, computing = sum(saving.time for _, saving in timed), facts.sums.computing
    severity: Severity = "low" if facts.share(saves) >= facts.limits[AFFINITY_SHARE] else "info"
    title = message(
        "finding.affinity.title",
        api=rows[0][0],
        more=message("finding.affinity.more", count=len(rows) - 1) if len(rows) > 1 else "",
    )
    weight, removes, change = float(saves), None, None
    if rows[0][0] == CHAIN and severity != "info":
        chains = savings[CHAIN]
        spare = np.concatenate(chains.spare)
        calls = np.unique(operation_of(facts.trace, spare))
        removes, weight = facts.span_of(spare), 0.0
        change = Change(tasks=(TaskCut(spare),)) | facts.without_calls(calls[calls >= 0])
        words = {"share": facts.share(chains.time), "count": chains.count, "api": CHAIN}
        title = message("finding.affinity.chain", **words)
        severity = "medium" if facts.share(chains.saves) >= facts.limits[SEVERITY_HIGH] else severity
    if _DOT in savings and facts.share(savings[_DOT].time) >= facts.limits[SEVERITY_HIGH]:
        # The cube multiplies blocks of which one number counts: nearly all of that time is for nothing.
        severity, weight = "medium", weight + savings[_DOT].time
        words = {"share": facts.share(savings[_DOT].time), "count": savings[_DOT].count, "api": _DOT}
        title = message("finding.affinity.dots", **words)
    runs = [
        message(
            "finding.affinity.run",
            api=api, count=saving.count, words=brief(saving.places[0][2], 80), time=saving.time,
        )
        for api, saving in timed[:6]
    ]  # fmt: skip
    parts = [message(f"finding.affinity.{kind}", runs=runs)] if runs else []
    if IN_PLACE in savings:
        parts.append(_in_place(facts, savings[IN_PLACE].count))
    if change is not None:
        parts.append(message("finding.affinity.as_long"))
    if lines:
        parts.append(message("finding.affinity.lines", lines=[line_of(line) for line in lines]))
    slices = facts.trace.slices
    evidence = [
        Evidence(
            int(slices.start[first]), int(slices.end[last]), int(slices.lane[first]), brief(words, 120),
            message("finding.affinity.place", api=api), first,
        )
        for api, saving in rows[:4]
        for first, last, words in saving.places[:3]
    ]  # fmt: skip
    return Draft(
        severity,
        title,
        sentences(*parts),
        tuple(evidence),
        (
            *(message("finding.advice.use", api=api) for api, _ in rows[:4]),
            message("finding.advice.check_numbers", share=min(time / computing, 1.0) if computing else 0.0),
        ),
        removes=removes,
        weight=weight,
        confidence="medium" if exact else "low",
        change=change,
        code_lines=lines,
        shown=together(*(span for _, saving in rows for span in saving.spans)),
    )


RULES: tuple[Rule, ...] = (
    Rule(
        "OP.AFFINITY_API",
        cls="compute",
        inputs=("device", "overlap", "python"),
        check=affinity_api,
        thresholds=(AFFINITY_SHARE,),
        advice=("replace",),
        pages=(pages.FUSED, pages.ATTENTION, pages.ROTARY),
        change="""\
-scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(d)
-out = torch.matmul(scores.softmax(-1), v)
+out = torch_npu.npu_fusion_attention(q, k, v, heads, "BNSD", scale=1 / math.sqrt(d))[0]
""",
        sources=(
            "msprof-analyze advisor: affinity API",
            "MindStudio Insight: fusible operators",
            "affinity operators guide",
        ),
        words=("affinity",),
    ),
    Rule(
        "OP.AFFINITY_KERNEL",
        cls="compute",
        inputs=("device", "overlap"),
        check=affinity_kernel,
        thresholds=(AFFINITY_SHARE, SEVERITY_HIGH),
        advice=("replace",),
        pages=(*pages.AFFINITY, pages.FUSED, pages.ATTENTION, pages.ROTARY),
        change="""\
-x[~mask] = 0
+x = x * mask
-x = torch.where(mask, a, b)
+x = a * mask + b * (1 - mask)
-y = torch.nn.functional.linear(input, weight, bias)
+y = torch.addmm(bias, input, weight.t())
-out = torch.matmul(a.transpose(1, 2), b)  # [b, 1, n] x [n, 1]: BatchMatMul
+out = torch.matmul(a.flatten(1), b)       # [b, n] x [n, 1]: one MatMul
-p = logits.gather(1, target).view(-1)
+p = logits[torch.arange(logits.size(0)), target.squeeze(1)]
-w = alpha.gather(0, target.view(-1))
+w = torch.index_select(alpha, 0, target.view(-1))
-y = F.one_hot(index, n).sum(0)
+y = torch.zeros(n, device="npu").scatter_add_(0, index, ones)
-z = x.repeat_interleave(k, dim=0)
+z = x.unsqueeze(1).expand(-1, k, -1).reshape(-1, x.shape[-1])
""",
        sources=(
            "msprof-analyze advisor: fused kernels",
            "operator tuning guide 0-15 to 0-21",
            "affinity operators guide 3-04 to 3-18",
        ),
        words=("affinity",),
    ),
)
