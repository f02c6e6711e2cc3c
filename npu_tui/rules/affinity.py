"""Findings about runs of operations and kernels that one fused operator replaces (rules F14 and F15)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.calls import HostOperators
from npu_tui.analysis.code_lines import CodeLine, stack_of, user_line
from npu_tui.analysis.launches import operation_of
from npu_tui.analysis.limits import NAMED, NOTABLE, PLACES
from npu_tui.analysis.replay import Change, TaskCut
from npu_tui.rules import pages
from npu_tui.rules.blame import SYNC_SHARE
from npu_tui.rules.facts import CUBE, Facts, once_per_device
from npu_tui.rules.inputs import Span, together
from npu_tui.rules.model import Evidence, Severity
from npu_tui.rules.outliers import first_shapes
from npu_tui.rules.parallelism import is_for, product_before, serial, trains
from npu_tui.rules.rule import GRADES, SEVERITY_HIGH, Draft, Rule, line_of, sentences, severity_of
from npu_tui.rules.sequences import (
    ADDMM,
    ATEN,
    BETWEEN_ATEN,
    BETWEEN_KERNELS,
    CHAIN,
    CHAIN_FROM,
    IN_PLACE,
    KERNEL,
    SequenceMatches,
    matches,
    of_training,
    shortened,
)
from npu_tui.trace.arrays import I64, Bools, BySlice, in_groups
from npu_tui.trace.intervals import union
from npu_tui.trace.message import Message, Said, message
from npu_tui.trace.model import Slices
from npu_tui.trace.text import brief

_PREFIX, _COLLECTIVES = "aten::", "c10d::"
_BACKWARD = re.compile(r"^autograd::|Backward\d*$")
_LINEAR = ("aten::linear", "aten::addmm")
_ALL_REDUCE = "hcom_allReduce_"
_MATMUL_ALL_REDUCE = "torch_npu.npu_mm_all_reduce_base (MatmulAllReduce)"
_DOT = message("fused.dots")
_SINGLE = re.compile(r"(?:^|[,;])1,1(?:;|$)")


class Saving(Struct):
    """How often one API fits, the device time of all places and how much of it the API would save, ns.

    ``places`` are the first of them: first slice, last slice, and the names of the run. ``spans`` are when all of them
    begin and end, ``whole`` the members of runs that go entirely. ``members`` are those of all other runs, with the
    number of the run that each belongs to.
    """

    count: int = 0
    time: int = 0
    saves: int = 0
    exact: bool = False
    places: list[tuple[int, int, str]] = []
    spans: list[Span] = []
    whole: list[I64] = []
    members: list[tuple[I64, I64]] = []

    def add(
        self, slices: Slices, first: I64, last: I64, words: Callable[[int], str], time: int, saves: int, exact: bool
    ) -> None:
        """Count runs from slice ``first`` to ``last``, (n,) each, which take ``time`` ns of the device in all.

        ``words`` are the names of the members of one of them.
        """
        self.count += len(first)
        self.time += time
        self.saves += saves
        self.exact |= exact
        self.spans.append((slices.start[first], np.maximum(slices.end[last], slices.start[first] + 1)))
        room = PLACES - len(self.places)
        ends = enumerate(zip(first[:room].tolist(), last[:room].tolist(), strict=True))
        self.places += [(begin, end, words(k)) for k, (begin, end) in ends]


def affinity_api(facts: Facts) -> Draft | None:
    """Runs of top-level operations that one call of torch_npu replaces."""
    return _draft(facts, api_savings(facts), "api")


@once_per_device
def api_savings(facts: Facts) -> dict[Said, Saving]:
    """Runs of top-level operations by the call that replaces them."""
    trace, slices = facts.trace, facts.trace.slices
    items, device = _top_level(facts, facts.inputs.hosts())
    savings: dict[Said, Saving] = {}
    short = [name.removeprefix(_PREFIX) for name in trace.names]
    runs = of_training(ATEN) if trains(facts) else ATEN
    for lane in np.unique(slices.lane[items]).tolist():
        positions = np.flatnonzero(slices.lane[items] == lane)
        code = slices.name[items[positions]].astype(np.int64)
        matched = matches(short, code, runs, BETWEEN_ATEN)
        _add_savings(slices, savings, matched, items[positions], device[positions], short, code)
    return savings


def _top_level(facts: Facts, hosts: HostOperators) -> tuple[I64, I64]:
    """The ``aten`` operations of the window inside no other one and in no backward pass, with their time on the device.

    Collectives are among them, as nothing replaces what stands on both sides of one.
    What only names a part of the program, such as a ``record_function`` or ``DistributedDataParallel.forward``, is
    looked into.
    """
    trace = facts.trace
    closed = facts.names_where(lambda name: name.startswith(_PREFIX) or _is_backward(name))
    plain = facts.names_where(lambda name: name.startswith((_PREFIX, _COLLECTIVES)))
    name = trace.slices.name[hosts.item]
    operations = np.flatnonzero(plain[name])
    operations = operations[facts.window.holds(trace.slices.start[hosts.item[operations]] + facts.floor)]
    operations = operations[~_is_in_chosen(hosts, hosts.parent[operations], closed[name])]
    return hosts.item[operations], hosts.device_total[operations]


def _is_backward(name: str) -> bool:
    """Whether an operation belongs to a backward pass; the pattern is slow, so most names are sorted out before."""
    return ("Backward" in name or name.startswith("autograd::")) and _BACKWARD.search(name) is not None


def _is_in_chosen(hosts: HostOperators, at: I64, chosen: Bools) -> Bools:
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
    return _draft(facts, kernel_savings(facts), "kernel")


@once_per_device
def kernel_savings(facts: Facts) -> dict[Said, Saving]:
    """Runs of kernels on one stream, and types of kernels, by what replaces them."""
    slices = facts.trace.slices
    types, code = facts.kernel_types
    savings: dict[Said, Saving] = {}
    runs = of_training(KERNEL) if trains(facts) else KERNEL
    for lane in np.unique(slices.lane[facts.kernels]).tolist():
        positions = np.flatnonzero(slices.lane[facts.kernels] == lane)
        items = facts.kernels[positions]
        matched = _replaceable(facts, matches(types, code[positions], runs, BETWEEN_KERNELS), positions)
        breaks = _breaks(facts, items, code[positions], matched)
        _add_savings(slices, savings, matched, items, facts.length(items), types, code[positions], breaks)
    _all_reduces(facts, savings)
    _dots(facts, savings)
    return savings


def _replaceable(facts: Facts, matched: SequenceMatches, positions: I64) -> SequenceMatches:
    """``matched`` among the kernels at ``positions`` without the runs that no operator can replace where they are.

    Those wait for a collective between two members, are chains of an optimizer, which computes one parameter after
    another, add no bias to a product, or write values that are no constant where a mask was to be multiplied by. Where
    a linear launched a run of one, only its bias is added apart.
    """
    first, last, runs = matched.first, matched.last, matched.runs
    if not len(first):
        return matched
    start = facts.trace.slices.start[facts.kernels[positions]]
    # A collective between two members stands in the way of one operator for both.
    waited = np.sort(facts.trace.slices.start[facts.collectives.item[serial(facts)]])
    kept = np.searchsorted(waited, start[first]) == np.searchsorted(waited, start[last - 1])
    flags = np.array([(run.linear, run.bias, run.api == CHAIN, run.constant) for run in runs])[matched.run]
    linear, bias, chain, constant = flags.T

    def members(launched_there: Callable[[Facts], Bools]) -> I64:
        sums = np.append(0, np.cumsum(launched_there(facts)[positions]))
        return np.asarray(sums[last] - sums[first])

    if chain.any():
        kept &= ~chain | (members(in_optimizer) == 0)
    if constant.any():
        kept &= ~constant | (members(_writes_constant) > 0)
    number = matched.run
    if (linear | bias).any():
        inside = members(_in_linear)
        kept &= ~bias | (inside == last - first)
        number = number + len(runs) * (linear & (inside > 0))
    apart = [replace(run, api=ADDMM, exact=False) for run in runs]
    return SequenceMatches((*runs, *apart), number[kept], first[kept], last[kept])


def _breaks(facts: Facts, items: I64, code: I64, matched: SequenceMatches) -> Bools:
    """Which of ``items`` in a chain compute another tensor than the one before, as far as types and shapes show.

    One kernel for several tensors moves the same bytes, so it saves launches, and hardly any time of the device. A few
    types (``code``) that come again and again are a loop over tensors, as updates of parameters are; (n,).
    """
    chain = np.array([run.api == CHAIN for run in matched.runs], np.bool_)[matched.run]
    breaks = np.zeros(len(items), np.bool_)
    if not chain.any():
        return breaks
    at, number = _members(SequenceMatches(matched.runs, matched.run[chain], matched.first[chain], matched.last[chain]))
    shape = first_shapes(facts, items[at])
    length, longest = facts.length(items[at]), np.zeros(len(matched.run), np.int64)
    np.maximum.at(longest, number, length)
    # What takes next to nothing works on a row's mean or sum: the tensor is that of the kernel before it.
    shape = shape[np.maximum.accumulate(np.where(length >= NOTABLE * longest[number], np.arange(len(at)), 0))]
    breaks[at] = (shape < 0) | np.append(True, shape[1:] != shape[:-1])
    count = np.bincount(number)
    place = np.arange(len(at)) - (np.cumsum(count) - count)[number]
    for period in range(1, CHAIN_FROM):
        other = (place >= period) & (code[at] != code[at - period])
        loops = (np.bincount(number[other], minlength=len(count)) == 0) & (count >= 2 * period)
        breaks[at[loops[number] & (place % period == 0)]] = True
    return breaks


@once_per_device
def _in_linear(facts: Facts) -> Bools:
    """Which kernels of the window an operation launched that is a linear, or is inside one; (kernels,)."""
    return _launched_in(facts, _LINEAR.__contains__)


@once_per_device
def _writes_constant(facts: Facts) -> Bools:
    """Which kernels of the window have one number as their second input, as one that a mask lets through; (kernels,).

    Without shapes, those whose operation also looks for the elements of a mask: what it writes is not known.
    """
    table, kinds = facts.kernel_table, facts.kernel_types
    if len(table) == len(facts.kernels) and facts.has("shapes"):
        return table.of_slices(facts.kernels).shapes.where(_second_is_single)
    calls = operation_of(facts.trace, facts.kernels)
    looks = np.array([kind == "NonZero" for kind in kinds[0]] + [False])[kinds[1]]
    return (calls >= 0) & np.isin(calls, calls[looks])


def _second_is_single(shapes: str) -> bool:
    inputs = shapes.strip('"').split(";")
    return len(inputs) > 1 and all(side.strip() in ("", "1") for side in inputs[1].split(","))


@once_per_device
def in_optimizer(facts: Facts) -> Bools:
    """Which kernels of the window an optimizer launched; (kernels,)."""
    return _launched_in(facts, lambda name: name.startswith("Optimizer.step#"))


def _launched_in(facts: Facts, rule: Callable[[str], bool]) -> Bools:
    """Which kernels of the window an operation launched whose name fulfils ``rule``, or one inside it; (kernels,)."""
    hosts = facts.inputs.hosts()
    at = BySlice(hosts.item, np.arange(len(hosts.item))).of(operation_of(facts.trace, facts.kernels))
    return _is_in_chosen(hosts, at, facts.names_where(rule)[facts.trace.slices.name[hosts.item]])


def _all_reduces(facts: Facts, savings: dict[Said, Saving]) -> None:
    """Sums over ranks that follow a matrix multiplication and that the device waits for, as tensor parallelism does."""
    slices, every = facts.trace.slices, facts.collectives
    types, code = facts.kernel_types
    last = product_before(facts)
    chosen = (last >= 0) & is_for(facts, "tensor")
    chosen &= np.array([kind == _ALL_REDUCE for kind in every.types] + [False])[every.type]
    if not chosen.any():
        return
    kernels = facts.kernels[last[chosen]]
    length = facts.length(kernels)
    transfers = np.where(every.timings.known, every.timings.transit, every.elapsed)[chosen]

    def words(k: int) -> str:
        return f"{types[int(code[last[chosen][k]])]} → {_ALL_REDUCE.rstrip('_')}"

    saves = int(np.minimum(length, transfers).sum())
    row = savings.setdefault(_MATMUL_ALL_REDUCE, Saving())
    row.add(slices, kernels, every.item[chosen], words, int(length.sum()), saves, exact=True)


def _dots(facts: Facts, savings: dict[Said, Saving]) -> None:
    """Batched multiplications by or to single numbers: the cube computes a block for each."""
    table = facts.kernel_table
    batched = table.type.where(lambda kind: kind.startswith("BatchMatMul"))
    single = table.outputs.where(_is_single) | table.shapes.where(_is_single)
    items = table.item[batched & single & (table.item >= 0)]
    if len(items):
        time = int(facts.length(items).sum())
        row = savings.setdefault(_DOT, Saving())
        row.add(facts.trace.slices, items, items, lambda k: "BatchMatMul […,1,1]", time, 0, exact=False)


def _is_single(shapes: str) -> bool:
    return _SINGLE.search(shapes) is not None


def _add_savings(
    slices: Slices,
    savings: dict[Said, Saving],
    matched: SequenceMatches,
    items: I64,
    time: I64,
    names: Sequence[str],
    code: I64,
    breaks: Bools | None = None,
) -> None:
    """Add to ``savings`` what one operator in place of each run of ``matched`` would save.

    Runs are disjoint stretches of ``items``, which take ``time`` ns on the device each; ``code`` (items,) is the place
    of their names in ``names``. One operator takes about as long as the longest of a run, or as its products; nothing
    stays of a whole run that something cheap replaces. A chain ends at an item with ``breaks``.
    """
    if not len(matched.run):
        return
    runs = matched.runs
    whole = np.array([run.whole for run in runs])[matched.run]
    at, number = _members(matched)
    begins = np.append(True, number[1:] != number[:-1])
    piece = np.cumsum(begins if breaks is None else begins | breaks[at]) - 1
    count = np.bincount(piece)
    # Of several that are equally long the first one stays.
    order = time[at] * len(at) - np.arange(len(at))
    product = np.array([CUBE.search(name) is not None for name in names] + [False])[code[at]]
    spare = order < np.maximum.reduceat(order, np.cumsum(count) - count)[piece]
    spare = whole[number] | (spare & ~product)
    fused = (count[piece] >= CHAIN_FROM) | ~np.array([run.api == CHAIN for run in runs])[matched.run][number]
    spare &= fused
    apis = list(dict.fromkeys(run.api for run in runs))
    api = np.array([apis.index(run.api) for run in runs], np.int64)[matched.run]
    for members in in_groups(api):
        first, last = matched.first[members], matched.last[members]
        own = np.isin(number, members)

        def words(k: int, first: I64 = first, last: I64 = last) -> str:
            return " → ".join(names[name] for name in code[first[k] : last[k]].tolist())

        row = savings.setdefault(runs[int(matched.run[members[0]])].api, Saving())
        left = own & fused & ~whole[number]
        row.members.append((items[at[left]], piece[left]))
        exact = any(runs[k].exact or runs[k].whole for k in np.unique(matched.run[members]).tolist())
        sums = int(time[at[own]].sum()), int(time[at[own & spare]].sum())
        row.add(slices, items[first], items[np.maximum(last - 1, 0)], words, *sums, exact)
        row.whole.append(items[at[own & whole[number]]])
        if runs[int(matched.run[members[0]])].api == CHAIN:
            row.count += len(np.unique(piece[own & (count[piece] >= CHAIN_FROM)])) - len(first)


def _members(matched: SequenceMatches) -> tuple[I64, I64]:
    """The positions of the members of all runs, and the number of the run that each belongs to; (members,)."""
    count = matched.last - matched.first
    number = np.repeat(np.arange(len(count)), count)
    return np.arange(len(number)) + (matched.last - np.cumsum(count))[number], number


def _calling_lines(facts: Facts, savings: dict[Said, Saving]) -> tuple[CodeLine, ...]:
    """The first lines of code from which runs are called."""
    first = np.array([begin for saving in savings.values() for begin, *_ in saving.places], np.int64)
    operation = operation_of(facts.trace, first)  # of a kernel; an operation is called itself
    stacks = stack_of(facts.trace, np.where(operation >= 0, operation, first))
    lines = [user_line(facts.trace.stacks[stack]) for stack in stacks.tolist() if stack >= 0]
    return tuple(dict.fromkeys(line for line in lines if line is not None))[:5]


def _in_place(facts: Facts, count: int) -> Message:
    """What ``count`` activations in place would save: memory, as far as operator_memory.csv says."""
    allocations = facts.inputs.memory().allocations
    made = allocations.name.where(lambda name: _ACTIVATION.fullmatch(name) is not None)
    made &= facts.window.holds(allocations.start)
    if not made.any():
        return message("finding.affinity.in_place", count=count)
    return message("finding.affinity.in_place_bytes", count=count, size=int(allocations.size[made].sum()))


_ACTIVATION = re.compile(r"aten::(?:relu|sigmoid|tanh)")


def _draft(facts: Facts, savings: dict[Said, Saving], kind: str) -> Draft | None:
    if not savings:
        return None
    lines = _calling_lines(facts, savings)
    rows = sorted(savings.items(), key=lambda entry: (entry[0] == IN_PLACE, -entry[1].saves, -entry[1].time))
    timed = [(api, saving) for api, saving in rows if api != IN_PLACE]
    exact = {api: saving for api, saving in timed if saving.exact}
    spare, keep = shortened(facts, {api: (saving.members, saving.whole) for api, saving in exact.items()}, kind)
    saves, computing = int((facts.length(spare) * (1 - keep)).sum()), facts.sums.computing
    time = sum(saving.time for _, saving in timed)
    severity: Severity = "low" if facts.share(saves) >= facts.limits[SYNC_SHARE] else "info"
    title = message(
        "finding.affinity.title",
        api=rows[0][0],
        more=message("finding.affinity.more", count=len(rows) - 1) if len(rows) > 1 else "",
    )
    weight, removes, change = float(saves), None, None
    if severity != "info":
        calls = np.setdiff1d(operation_of(facts.trace, spare[keep == 0]), operation_of(facts.trace, spare[keep > 0]))
        start, end = facts.trace.slices.start[spare], facts.trace.slices.end[spare]
        removes, weight = union(start + ((end - start) * keep).astype(np.int64), end), 0.0
        shares = np.ceil(100 * keep) / 100
        cuts = tuple(TaskCut(spare[shares == share], share) for share in np.unique(shares).tolist())
        change = Change(tasks=cuts) | facts.without_operations(calls[calls >= 0])
        severity = severity_of(facts.limits, facts.share(saves))
        first, most = max(exact.items(), key=lambda entry: entry[1].saves)
        words = {"share": facts.share(most.time), "count": most.count, "api": first}
        words |= {"words": brief(most.places[0][2], 60), "each": facts.per_unit(saves)}
        words |= {"more": message("finding.affinity.more", count=len(exact) - 1) if len(exact) > 1 else ""}
        fused = [api for api, saving in api_savings(facts).items() if saving.exact and saving.saves]
        if first == CHAIN and fused:
            words["api"] = message("finding.affinity.known", apis=fused[:NAMED])
        title = message(f"finding.affinity.{'chain' if first == CHAIN else 'priced'}", **words)
    if _DOT in savings and facts.share(savings[_DOT].time) >= facts.limits[SEVERITY_HIGH]:
        # The cube multiplies blocks in which one number counts: nearly all of that time is for nothing.
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
        reach="cause" if change is not None else None,
        code_lines=lines,
        shown=together(*(span for _, saving in rows for span in saving.spans)),
    )


RULES: tuple[Rule, ...] = (
    Rule(
        "OP.AFFINITY_API",
        cls="compute",
        inputs=("device", "overlap", "python"),
        check=affinity_api,
        thresholds=(SYNC_SHARE,),
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
        check=affinity_kernel,
        thresholds=(SYNC_SHARE, *GRADES),
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
