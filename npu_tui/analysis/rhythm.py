"""What repeats in a run without steps: calls of an engine, values read back, graphs, kernels at even distances.

Signs are tried in a fixed order, the surest first: calls of an engine, values read back after about as many kernels,
launches of graphs, ranges of the program, steps of an optimizer. ``rhythm`` says when each of them holds.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Literal

import numpy as np
from msgspec import Struct

from npu_tui.analysis.device import HOST, named_on
from npu_tui.analysis.launches import graph_launches
from npu_tui.analysis.limits import (
    ALMOST_ALL,
    ANOTHER_KIND,
    EVEN,
    FEWEST_EQUALS,
    HALF,
    LITTLE,
    LONG_NS,
    MORE_THAN_ONE,
    NEARLY_ALL,
)
from npu_tui.trace.arrays import I64, Bools, distinct
from npu_tui.trace.intervals import outermost
from npu_tui.trace.kineto import runtime_calls
from npu_tui.trace.model import Trace
from npu_tui.trace.once import of_trace
from npu_tui.trace.recorder import launch_links

_PERIODS = 256  # periods that are tried
_BACKWARD = re.compile(r"Grad|Backward|Optimizer|ApplyAdam|ApplyMomentum", re.IGNORECASE)
_OPTIMIZER_STEP = re.compile(r"Optimizer\.step\b")
_READS = frozenset({"aten::item", "aten::_local_scalar_dense"})
_ENGINE = tuple(
    re.compile(pattern)
    for pattern in (
        r"execute_(?:context_)?\d+\w*(?:\(.*)?",  # vLLM: execute_32_context_0(...)_generation_32(...)
        r"step\[.*",  # SGLang: step[DECODE bs=1 toks=1]
        r"(?:.*\W)?execute_model",
        r"forward",
        r"Iteration \d+",
    )
)
"""Names of one step of an inference engine, the most certain first."""
_NO_RANGE = re.compile(r"::|[@#]|^(?:En|De)queue|^nn\.Module|^acl[a-z]|\(\d+\): |^<|^Torch-Compiled|^GC$")
"""Names of operations, calls, frames and modules: all others on the host are ranges that a program marked."""
_DIGITS = re.compile(r"\d+")
_COUNTED = re.compile(r"step|iter|batch|epoch|token|pass", re.IGNORECASE)
_ATTENTION = re.compile(r"attention|attn", re.IGNORECASE)
_SERVES = re.compile(
    r"execute_(?:context_)?\d+\w*|execute_model|step\[|\b(?:decode|generate)\b|sample_token|_generation_\d"
    r"|Paged_?Attention|Incre_?Flash|Fused_?Infer_?Attention|reshape_?and_?cache|kv_?cache|unified_attention"
    r"|\b(?:vllm|sgl_kernel|sglang|mindie|atb)::|generation/utils\.py",
    re.IGNORECASE,
)
"""Names that only a model has that makes one token after another: calls of its engine, kernels that read or write the
keys and values of earlier tokens."""
_CHOICE = re.compile(r"argmax|multinomial|sampl(?!e_?rate)", re.IGNORECASE)
_ONCE_A_TOKEN = re.compile(r"argmax|top_?k|multinomial|sampl|embedding|gatherv\d", re.IGNORECASE)
"""Kernels that choose a token, or look up its embedding: no layer has them."""

Unit = Literal["token", "iteration", "repetition"]
Basis = Literal["annotations", "graphs", "rhythm", "profiler"]
"""The signs by which steps of an engine begin: its own names, launches of graphs, kernels, ``ProfilerStep#N``."""


class Rhythm(Struct, frozen=True):
    """The ``starts`` of the repetitions, ns on the device's clock; (count,).

    With training the unit is an iteration. It is a token only where something decodes, else a repetition. They were
    found ``by`` calls of an engine, by launches of graphs, or by what else comes again.
    """

    starts: I64
    unit: Unit
    by: Basis = "rhythm"

    @property
    def count(self) -> int:
        """The number of repetitions."""
        return len(self.starts)


def rhythm(trace: Trace, kernels: I64, link: I64) -> Rhythm | None:
    """The rhythm of the compute slices ``kernels`` (by start); ``link`` launched each (-1: unknown); None without one.

    A run without marked steps is divided by the calls of its engine; else by the values that the host reads back, such
    as a sampled token, if about the same number of kernels lies between any two of them; else by the launches of
    graphs; else by ranges that the program marked; else by steps of its optimizer; else, in training, by the length
    after which all kernels come again; else by groups of as many launches with a pause of the host between them; else
    by the rarest kernel that recurs at even distances. That may be a layer.
    """
    if len(kernels) < FEWEST_EQUALS:
        return None
    slices = trace.slices
    launched = np.append(trace.links.source_time, -1)[link]
    names = slices.name[kernels].astype(np.int64)
    used = np.unique(names).tolist()
    trained = any(_BACKWARD.search(trace.names[code]) for code in used if code < len(trace.names))
    trained = trained or any(name.startswith(("autograd::engine", "Optimizer.step")) for name in trace.names)
    decodes = not trained and is_serving(trace)
    reads = _starts_by_reads(trace, launched)
    if reads is not None and decodes:
        reads = _starts_by_choices(trace, names, reads)
    ways: tuple[tuple[Basis, I64 | None], ...] = (
        ("annotations", _starts_by_calls(trace, launched)),
        ("rhythm", reads),
        ("graphs", _starts_by_graphs(trace, kernels, link, decodes)),
    )
    for way in ways:
        by, at = way
        if at is None:
            continue
        if len(at) >= MORE_THAN_ONE:
            break
        if len(kernels) - int(at[0]) >= HALF * len(kernels):
            return None  # one call of the engine, or one graph: what repeats in it are layers
    else:
        by = "rhythm"
        at = _starts_by_ranges(trace, launched)
        if at is None:
            at = _starts_by_optimizer(trace, launched)
        if at is None and trained:
            at = _starts_by_period(names, _backward_among(trace, names))
        if at is None:
            at = _starts_by_pauses(launched)
        if at is None:
            at = _starts_by_names(names)
        if at is None:
            return None
        # Ranges and an even rhythm of kernels may be those of the layers.
        decodes = decodes and _chooses(trace, names, len(at))
    unit: Unit = "iteration" if trained else "token" if decodes else "repetition"
    return Rhythm(slices.start[kernels[at]], unit, by)


@of_trace
def is_serving(trace: Trace) -> bool:
    """Whether any name is one that only a model has that makes one token after another, and none is of training."""
    # A training run says so soon, and its names may be many: those of its collectives are all different.
    if any(name.startswith("autograd::engine") or _BACKWARD.search(name) for name in trace.names):
        return False
    return any(_SERVES.search(name) for name in trace.names)


def _starts_by_calls(trace: Trace, launched: I64) -> I64 | None:
    """The first kernel launched in each call of the engine, by position; None without such calls.

    A call inside another one counts as a part of that.
    """
    slices, order = trace.slices, _order_of(launched)
    for name in _ENGINE:
        calls = outermost(slices.start, slices.end, named_on(trace, HOST, partial(_is_called, name)))
        first = np.searchsorted(launched[order], slices.start[calls], "left")
        first = np.unique(first[first < len(order)])
        if len(first):
            return np.sort(order[first])
    return None


def _is_called(name: re.Pattern[str], text: str) -> bool:
    return name.fullmatch(text) is not None


def _order_of(launched: I64) -> I64:
    """The kernels with a known launch, by the time of it."""
    known = np.flatnonzero(launched >= 0)
    return known[np.argsort(launched[known], kind="stable")]


def _starts_by_ranges(trace: Trace, launched: I64) -> I64 | None:
    """The first kernel launched in each range that the program marked, by position; None without such ranges.

    Equal names but for numbers are one kind; of the kinds that come again and launch most kernels the rarest counts.
    A range encloses calls: what launches a kernel itself, or no more than one, is a call.
    """
    slices, order = trace.slices, _order_of(launched)
    items = named_on(trace, ("python", "other"), lambda name: _NO_RANGE.search(name) is None)
    calls = np.union1d(runtime_calls(trace), trace.links.source_slice[launch_links(trace)])
    items = np.setdiff1d(items, calls)
    codes, code = np.unique(slices.name[items], return_inverse=True)
    kinds: dict[str, int] = {}
    kind = np.array([kinds.setdefault(_DIGITS.sub("", trace.names[each]), len(kinds)) for each in codes], np.int64)[
        code
    ]
    items = items[np.argsort(kind, kind="stable")]
    best: I64 | None = None
    for calls in np.split(items, np.cumsum(np.bincount(kind))[:-1]):
        calls = _first_of_cycle(trace, outermost(slices.start, slices.end, calls))
        first, last = (np.searchsorted(launched[order], times[calls], "left") for times in (slices.start, slices.end))
        first, count = first[last > first], int((last - first).sum())
        if (
            len(first) >= MORE_THAN_ONE
            and count >= max(HALF * len(launched), MORE_THAN_ONE * len(first))
            and (best is None or len(first) < len(best))
        ):
            best = first
    return None if best is None else np.sort(order[best])


def _first_of_cycle(trace: Trace, calls: I64) -> I64:
    """``calls`` by start, or of names that come again in turn, such as ``layer 0`` to ``layer 7``, each first one.

    Numbers of steps and batches begin anew with each epoch, and are what repeats.
    """
    codes = trace.slices.name[calls]
    period = len(np.unique(codes))
    if not 1 < period < len(codes) or float(np.mean(codes[period:] == codes[:-period])) < NEARLY_ALL:
        return calls
    return calls if _COUNTED.search(trace.names[int(codes[0])]) else calls[::period]


def _starts_by_optimizer(trace: Trace, launched: I64) -> I64 | None:
    """The first kernel launched after each step of the optimizer but the last, and the first of all, by position."""
    slices, order = trace.slices, _order_of(launched)
    steps = named_on(trace, ("python", "other"), lambda name: _OPTIMIZER_STEP.match(name) is not None)
    ends = slices.end[outermost(slices.start, slices.end, steps)]
    if len(ends) < MORE_THAN_ONE or not len(order):
        return None
    first = np.unique(np.append(0, np.searchsorted(launched[order], np.sort(ends), "left")))
    return np.sort(order[first[first < len(order)]])


def _starts_by_reads(trace: Trace, launched: I64) -> I64 | None:
    """The first kernel launched after each value that the host read back, by position; None if they are not even."""
    slices = trace.slices
    named = np.array([name in _READS for name in trace.names] + [False])[slices.name]
    reads = np.sort(slices.end[named])
    order = _order_of(launched)
    if len(reads) < FEWEST_EQUALS or not len(order):
        return None
    first = np.concatenate(([0], np.searchsorted(launched[order], reads, "left")))
    first = np.unique(first[first < len(order)])
    if len(first) < FEWEST_EQUALS or not _is_even(np.diff(np.append(first, len(order)))):
        return None
    return np.sort(order[first])


def _starts_by_choices(trace: Trace, names: I64, reads: I64) -> I64:
    """``reads``, or the kernels after each choice of a token where many are chosen before one is read back.

    A server that reads back once a request makes many tokens with each.
    """
    counts = np.bincount(names, minlength=len(trace.names))
    for code in np.flatnonzero(counts >= MORE_THAN_ONE * len(reads)).tolist():
        if not _CHOICE.search(trace.names[code]):
            continue
        at = np.flatnonzero(names == code)
        each = np.diff(np.searchsorted(at, np.append(reads, len(names))))
        if each.min() >= MORE_THAN_ONE:
            return np.concatenate((reads[:1], at[:-1] + 1))
    return reads


def _starts_by_graphs(trace: Trace, kernels: I64, link: I64, decodes: bool) -> I64 | None:
    """The first kernel of every graph, by position; where several graphs take turns that of the rarest one.

    Graphs of one run that ``decodes`` between two choices of a token are pieces of one pass: the first one counts.
    Graphs differ by the name of their first kernel, else by how many kernels come until the next one. An eager pass of
    the model before the first graph or between two of them, such as a prefill, begins anew.
    """
    slices, launch = trace.slices, np.append(trace.links.source_event, -1)[link]
    first = np.unique(launch, return_index=True)[1]
    first = first[launch[first] >= 0]
    replayed = graph_launches(trace, link[first])
    graphs = np.sort(first[replayed])
    if not len(graphs):
        return None
    chosen = graphs[:0]
    if decodes:
        chooses = np.array([_CHOICE.search(name) is not None for name in trace.names] + [False])
        chosen = np.flatnonzero(chooses[slices.name[kernels]])
        graphs = graphs[np.unique(np.searchsorted(chosen, graphs), return_index=True)[1]]
    kinds, graph = distinct(slices.name[kernels[graphs]].astype(np.int64))
    sizes = np.diff(np.append(graphs, len(kernels)))
    if len(kinds) < 2 and sizes.min() <= NEARLY_ALL * sizes.max():  # another graph begins with the same kernel
        graph = sizes
    rarest = _starts_by_names(graph)
    if rarest is not None:
        graphs = graphs[rarest]
    elif len(kinds) > 1:
        return None
    alone = np.append(np.isin(trace.links.source_event, launch[first[~replayed]]), False)[link]
    gap = np.append(0, slices.start[kernels[1:]] - np.maximum.accumulate(slices.end[kernels])[:-1])
    return _graph_and_eager_starts(_input_kernels(graphs, chosen, gap), alone, gap)


def _input_kernels(graphs: I64, chosen: I64, gap: I64) -> I64:
    """The kernels at which what leads to ``graphs`` begins, such as the look-up of embeddings; (graphs,).

    It begins at the largest ``gap`` after the last one of the ``chosen`` tokens, usually so many kernels before them.
    """
    last = np.append(-1, chosen)[np.searchsorted(chosen, graphs)]
    begins = [low + 1 + int(np.argmax(gap[low + 1 : at + 1])) for low, at in zip(last, graphs, strict=True) if low >= 0]
    usual = int(np.median(graphs[last >= 0] - begins)) if begins else 0
    begun: I64 = np.maximum(graphs - usual, last + 1)
    return begun


def _graph_and_eager_starts(graphs: I64, alone: Bools, gap: I64) -> I64:
    """The kernels at which ``graphs`` begin, and those at which many kernels begin that are launched ``alone``.

    Many are half as many as a graph and its sampling have. They begin after the sampling, at the largest ``gap``.
    """
    bounds = np.append(graphs, len(alone))
    counts = np.add.reduceat(np.append(alone, False).astype(np.int64), graphs)
    usual, pass_ = int(np.median(counts)), HALF * float(np.median(np.diff(bounds)))
    begins = [0] if alone[: graphs[0]].sum() >= pass_ else []
    for k in np.flatnonzero(counts - usual >= pass_).tolist():
        last = bounds[k] + np.flatnonzero(~alone[bounds[k] : bounds[k + 1]])[-1]
        begins.append(int(last + 1 + np.argmax(gap[last + 1 : last + 2 + usual])))
    return np.sort(np.append(graphs, begins).astype(np.int64))


def _backward_among(trace: Trace, names: I64) -> Bools:
    """Which of the kernels called ``names`` belong to a backward pass or an optimizer; (n,)."""
    among: Bools = np.array([_BACKWARD.search(name) is not None for name in trace.names] + [False])[names]
    return among


def _starts_by_period(names: I64, backward: Bools) -> I64 | None:
    """The position at which all kernels of a training run begin to come again, each time; None where they do not.

    Its layers run forward and ``backward``, so that no less than an iteration comes again.
    """
    counts = np.bincount(names)
    used = np.flatnonzero(counts >= MORE_THAN_ONE)
    if not len(used):
        return None
    rarest = np.flatnonzero(names == used[np.argmin(counts[used])])
    for period in (rarest[1 : _PERIODS + 1] - rarest[0]).tolist():
        if len(names) < round(MORE_THAN_ONE * period * NEARLY_ALL):
            return None
        same = names[period:] == names[:-period]
        there = backward[:period]
        if there.any() and not there.all() and same[: 4 * period].mean() >= 1 - LITTLE and same.mean() >= 1 - LITTLE:
            starts: I64 = np.arange(round(len(names) / period), dtype=np.int64) * period
            return starts
    return None


def _starts_by_pauses(launched: I64) -> I64 | None:
    """The first kernel of each group of about as many launches between which the host pauses; None without such."""
    order = _order_of(launched)
    gaps = np.diff(launched[order])
    if len(gaps) < FEWEST_EQUALS or not gaps.any():
        return None
    usual = float(np.percentile(gaps, 100 * ALMOST_ALL))
    first = np.append(0, np.flatnonzero(gaps > max(ANOTHER_KIND * usual, LONG_NS)) + 1)
    sizes = np.diff(np.append(first, len(order)))
    return np.sort(order[first]) if len(first) >= FEWEST_EQUALS and _is_even(sizes) else None


def _starts_by_names(names: I64) -> I64 | None:
    """The positions of the rarest kernel name that recurs at even distances; among equals the first to occur."""
    counts = np.bincount(names)
    best: I64 | None = None
    for code in np.flatnonzero(counts >= FEWEST_EQUALS).tolist():
        if best is not None and counts[code] > len(best):
            continue
        at = np.flatnonzero(names == code)
        gaps = np.diff(at)
        if not _is_even(gaps) or float(np.median(gaps)) * len(at) < HALF * len(names):
            continue
        if best is None or len(at) < len(best) or at[0] < best[0]:
            best = at
    return best


def _chooses(trace: Trace, names: I64, count: int) -> bool:
    """Whether each of ``count`` passes makes a token: it has several layers, or once a kernel that only tokens have."""
    counts = np.bincount(names, minlength=len(trace.names))
    attention = (code for code in np.flatnonzero(counts >= 2 * count).tolist() if _ATTENTION.search(trace.names[code]))
    if any(_SERVES.search(trace.names[code]) for code in attention):
        return True
    once = (code for code in np.flatnonzero(counts).tolist() if _ONCE_A_TOKEN.search(trace.names[code]))
    return any(abs(int(counts[code]) - count) <= max(1, EVEN * count) for code in once)


def _is_even(gaps: I64) -> bool:
    """Whether most of ``gaps`` are about equal."""
    usual = float(np.median(gaps))
    return usual >= MORE_THAN_ONE and float(np.mean(np.abs(gaps - usual) <= max(1.0, EVEN * usual))) >= NEARLY_ALL
