"""Findings about what keeps the host from launching: compiling, small kernels, optimizers that are not fused.

Sources: the advisor of msprof-analyze and the tuning guides.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np

from npu_tui.analysis.code_lines import CodeLine, lines_of_stacks, stack_of
from npu_tui.analysis.launches import dequeue_slices, enqueue_slices, operation_of
from npu_tui.analysis.limits import A_PART, HALF, NOTABLE, ROUNDING_NS, SOME, Threshold
from npu_tui.analysis.replay import NO_CHANGE, Change, HostCut, TaskCut
from npu_tui.rules import pages
from npu_tui.rules.blame import (
    LINKS_FEWEST,
    SYNC_BLOCKING,
    SYNC_SHARE,
    launch_blocking,
    launching_calls,
    queue_is_off,
    sync_calls,
)
from npu_tui.rules.config import COSTLY
from npu_tui.rules.facts import Facts
from npu_tui.rules.functions import line_within
from npu_tui.rules.inputs import NOTHING, common, inside, length_of, together
from npu_tui.rules.judged_path import path_owners
from npu_tui.rules.rule import (
    GRADES,
    SEVERITY_HIGH,
    SEVERITY_MEDIUM,
    Draft,
    Rule,
    about,
    cost_of,
    most_common,
    priced,
)
from npu_tui.rules.waits import queued
from npu_tui.trace.arrays import I64, among, less
from npu_tui.trace.intervals import union
from npu_tui.trace.message import Said, message
from npu_tui.trace.text import brief


def queue(facts: Facts) -> Draft | None:
    """A task queue that is off, where the device waits for launches that the threads of the operators make."""
    operations = operation_of(facts.trace, facts.target)
    calls = less(launching_calls(facts), sync_calls(facts))
    if not queue_is_off(facts) or not len(calls) or launch_blocking(facts) > facts.limits[SYNC_BLOCKING]:
        return None
    tid, lane = np.array([lane.tid for lane in facts.trace.lanes]), facts.trace.slices.lane
    there = np.isin(tid[lane[calls]], tid[lane[operations[operations >= 0]]])
    change, removes = queued(facts, sync_calls(facts)), common(facts.host_late, facts.on_device(facts.span_of(calls)))
    if there.mean() < HALF or change.is_empty:
        return None
    time = int(facts.length(calls).sum()) / facts.count
    return priced(facts, "queue", change, removes, calls, {"count": len(calls), "time": time})


CACHE_LIMIT = "ACLNN_CACHE_LIMIT"


def plans(facts: Facts) -> Draft | None:
    """Operators planned anew at each call, where the environment limits CANN's cache of plans.

    A call that finds its plan takes less than half as long as any other. Where no calls stand apart so, none found
    one, and nothing shows what finding it takes.
    """
    recorded = facts.inputs.setup.environment or {}
    calls = facts.named(("cann",), lambda name: name.endswith("GetWorkspaceSize"))
    if not recorded.get(CACHE_LIMIT) or not COSTLY[CACHE_LIMIT](recorded[CACHE_LIMIT]) or not len(calls):
        return None
    length = np.sort(facts.length(calls))
    shorter = np.flatnonzero(length[:-1] < HALF * length[1:]) + 1
    shorter = shorter[(shorter >= SOME) & (shorter <= len(length) - SOME)]
    found = float(np.median(length[: shorter[0]])) if len(shorter) else 0.0
    change = facts.without_calls(calls, found * len(calls) / max(int(length.sum()), 1))
    removes = common(facts.host_late, facts.on_device(facts.span_of(calls)))
    words: dict[str, object] = {"set": f"{CACHE_LIMIT}={brief(recorded[CACHE_LIMIT], 40)}", "count": len(calls)}
    words |= {"middle": float(np.median(length)), "least": round(found) or int(length[0])}
    words["found"] = message(f"finding.plans.{'found' if found else 'never'}")
    return priced(facts, "plans", change, removes, calls, words)


def one_core(facts: Facts) -> Draft | None:
    """The threads of Python stand still whenever the one that launches works: they share a core.

    Threads on several cores begin and end things all the time, whatever the others do.
    """
    trace, slices = facts.trace, facts.trace.slices
    launching = dequeue_slices(trace)
    lanes = np.setdiff1d(slices.lane[enqueue_slices(trace)], slices.lane[launching])
    if not len(lanes):
        return None
    # What begins or ends with a launch does not run beside it.
    beside = union(slices.start[launching] + ROUNDING_NS, slices.end[launching] - ROUNDING_NS)
    share = length_of(beside) / int(beside[1][-1] - beside[0][0])
    if share < NOTABLE:
        return None
    items = np.flatnonzero(among(slices.lane, lanes))
    edges = np.concatenate((slices.start[items], slices.end[items]))
    edges = edges[(edges >= beside[0][0]) & (edges < beside[1][-1])]
    if not len(edges) or (moving := np.count_nonzero(inside(beside, edges)) / len(edges)) > A_PART * share:
        return None
    tids = {trace.lanes[lane].tid for lane in lanes.tolist()}
    change = Change(host=tuple(HostCut(tid, beside) for tid in sorted(tids)))
    removes = common(facts.host_late, facts.on_device(beside))
    words: dict[str, object] = {"moving": moving, "share": share}
    return priced(facts, "core", change, removes, launching, words, confidence="medium")


_OPTIMIZER = re.compile(r"Optimizer\.step#(\w+)\.step")
_FUSED_LAUNCHES = 4
"""Launches that a step of a fused optimizer still makes."""
# A fused AdamW reads four tensors and writes three; the longest of its parts, addcdiv or addcmul, reads three of them
# and writes one.
_FUSED_PASS = 7 / 4
_FUSED_OPTIMIZERS = frozenset({"SGD", "Adadelta", "Lamb", "Adam", "AdamW", "AdamP", "BertAdam", "RMSprop", "RMSpropTF"})

SMALL_KERNEL_US = Threshold("small_kernel_us", 20.0)
SMALL_KERNEL_SHARE = Threshold("small_kernel_share", 0.5)


def small(facts: Facts) -> Draft | None:
    """Many kernels so short that launching them takes longer than running them."""
    limits, kernels = facts.limits, facts.kernels
    if len(kernels) < limits[LINKS_FEWEST] or facts.launches is None:
        return None
    short = facts.length(kernels) < limits[SMALL_KERNEL_US] * 1000
    share = float(np.count_nonzero(short)) / len(kernels)
    of_short = np.isin(facts.target, kernels[short])
    removes = facts.lost_span(of_short)
    if not share or share < limits[SMALL_KERNEL_SHARE] or facts.share(length_of(removes)) < limits[SEVERITY_MEDIUM]:
        return None
    source = np.sort(facts.trace.links.source_time[facts.launches.link])
    interval = float(np.median(np.diff(source))) if len(source) > 1 else 0.0
    types, code = facts.kernel_types
    counts = np.bincount(code[short], minlength=len(types)).tolist()
    line, change = _looped(facts, kernels[short])
    each, verdict = length_of(removes), "finding.small.verdict"
    if line is not None:
        change |= facts.without_work(removes)
        each, verdict = cost_of(facts, change, removes), "finding.small.verdict_graph"
    words: dict[str, Any] = {"share": share, "least": limits[SMALL_KERNEL_US] * 1000}
    words["at"] = "" if line is None else message("finding.vertical.at", line=_short_at(facts, line, kernels[short]))
    return Draft(
        "low",
        *about(
            "small", **words, count=int(np.count_nonzero(short)), all=len(kernels),
            median=float(np.median(facts.length(kernels[short]))), interval=interval, lost=length_of(removes),
            types=most_common(+Counter(dict(zip(types, counts, strict=True)))),
        ),
        facts.longest(kernels[short], lambda item: message("finding.small.place"), most=5),
        removes=removes,
        verdict=message(verdict, **words, chip=facts.chip, each=facts.per_unit(each)),
        change=None if line is None else change,
        code_lines=() if line is None else (line,),
        reach=None if line is None else "place",
    )  # fmt: skip


def _short_at(facts: Facts, line: CodeLine, short: I64) -> Said:
    """``line``, with the place in a library that launches most of the ``short`` kernels there."""
    return line_within(facts, line, operation_of(facts.trace, short), np.ones(len(short)))


def _looped(facts: Facts, short: I64) -> tuple[CodeLine | None, Change]:
    """The line that launches most of the ``short`` kernels, and the run without launching them one by one.

    In that run the host does not launch there, and the kernels save their gaps and the time that every kernel takes.
    """
    trace, told = facts.trace, path_owners(facts)
    code, lines = lines_of_stacks(trace, stack_of(trace, operation_of(trace, short)))
    counts = np.bincount(code[code >= 0], minlength=len(lines))
    if told is None or not len(counts) or counts.max() <= HALF * counts.sum():
        return None, NO_CHANGE
    line, mine = lines[int(counts.argmax())], short[code == counts.argmax()]
    launching = [owner.change for owner in told.owners if owner.doing == "launch" and owner.where == line]
    if len(launching) != 1 or launching[0] is None:
        return None, NO_CHANGE
    length = facts.length(mine)
    fixed = float(facts.length(facts.kernels).min()) * len(mine) / max(int(length.sum()), 1)
    return line, launching[0] | Change(tasks=(TaskCut(mine, 1 - fixed), TaskCut(mine, gap=True)))


def optimizer(facts: Facts) -> Draft | None:
    """An optimizer for which torch_npu has a fused one."""
    items = facts.named(("python", "other"), lambda name: _fused_name(name) is not None)
    items = facts.outermost(items)
    spent = length_of(facts.span_of(items))
    if not spent:
        return None
    name = _fused_name(facts.trace.name_of(int(items[0]))) or ""
    removes, launches = NOTHING, 0
    if facts.launches is not None:
        source = operation_of(facts.trace, facts.target)
        begin = np.where(source >= 0, facts.trace.slices.start[source], -1)
        under = (source >= 0) & inside(facts.span_of(items), begin)
        removes = facts.lost_span(under)
        launches = int(np.count_nonzero(under))
    idle = length_of(removes)
    each = launches / len(items)
    if 0 < each <= _FUSED_LAUNCHES:
        return None
    kernels, keep = _optimizer_kernels(facts, items)
    time, kept = int(facts.length(kernels).sum()), int(facts.length(kernels).sum() * keep)
    lost = facts.share(length_of(removes) + time - kept)
    if time > kept:
        start, end = facts.span_of(kernels)
        removes = together(removes, (start + ((end - start) * keep).astype(np.int64), end))
    limits = facts.limits
    change = facts.without_calls(items, _FUSED_LAUNCHES / each) if launches else NO_CHANGE
    passes = {"time": time / facts.count, "less": kept / facts.count, "unit": facts.unit}
    return Draft(
        "medium" if lost >= limits[SEVERITY_MEDIUM] else "low" if lost >= limits[SYNC_SHARE] else "info",
        message("finding.optimizer.title_passes", name=name, **passes)
        if time - kept > idle and facts.share(time - kept) >= limits[SYNC_SHARE]
        else message("finding.optimizer.title", name=name, time=spent / len(items)),
        message(
            "finding.optimizer.detail" if idle else "finding.optimizer.detail_hidden",
            name=name, count=len(items), time=spent, lost=idle,
            launches=message("finding.optimizer.launches", launches=each) if launches else "",
            passes=message("finding.optimizer.passes", **passes) if time > kept else "",
        ),
        facts.longest(items, lambda item: message("finding.optimizer.place", name=name), most=5),
        (message("finding.advice.fused_optimizer", name=name),),
        removes if length_of(removes) else None,
        confidence="medium",
        change=change | Change(tasks=(TaskCut(kernels, keep),)) if launches else None,
        shown=facts.on_device(facts.span_of(items)),
    )  # fmt: skip


def _optimizer_kernels(facts: Facts, items: I64) -> tuple[I64, float]:
    """The kernels of the optimizer's steps ``items``, and the share of their time that one kernel in their place takes.

    The type that takes longest for one pass over the parameters reads and writes the most tensors. Among those of
    notable time the one with the fewest kernels makes one pass.
    """
    source = operation_of(facts.trace, facts.kernels)
    begin = np.where(source >= 0, facts.trace.slices.start[source], -1)
    under = (source >= 0) & inside(facts.span_of(items), begin)
    kernels, code = facts.kernels[under], facts.kernel_types[1][under]
    by_type, count = np.bincount(code, facts.length(kernels)), np.bincount(code)
    total, notable = float(by_type.sum()), by_type > NOTABLE * by_type.max(initial=0)
    if not total:
        return kernels, 1.0
    a_pass = by_type[notable] * count[notable].min() / count[notable]
    return kernels, min(_FUSED_PASS * float(a_pass.max()) / total, 1.0)


def _fused_name(name: str) -> str | None:
    match = _OPTIMIZER.fullmatch(name)
    return match[1] if match is not None and match[1] in _FUSED_OPTIMIZERS else None


RULES: tuple[Rule, ...] = (
    Rule(
        "DISPATCH.QUEUE",
        cls="dispatch",
        inputs=("device", "overlap", "links", "python"),
        check=queue,
        thresholds=(SYNC_BLOCKING, *GRADES),
        advice=("set_queue",),
        pages=(pages.TASK_QUEUE, pages.PIPELINE),
        change="""\
-export TASK_QUEUE_ENABLE=0
+export TASK_QUEUE_ENABLE=1
""",
        sources=("MindStudio Insight walk-through 1-54, 1-55",),
        reach="cause",
        replayed=True,
        words=("pipeline",),
    ),
    Rule(
        "DISPATCH.PLANS",
        cls="dispatch",
        inputs=("device", "overlap", "links", "metadata"),
        check=plans,
        thresholds=GRADES,
        advice=("cann_cache",),
        pages=(pages.VARIABLES,),
        change="""\
-export ACLNN_CACHE_LIMIT=1
+export ACLNN_CACHE_LIMIT=100000
+export HOST_CACHE_CAPACITY=20
""",
        sources=("msprof-analyze advisor: environment variables",),
        reach="cause",
        replayed=True,
    ),
    Rule(
        "HOST.CORE",
        cls="dispatch",
        inputs=("device", "overlap", "links"),
        check=one_core,
        thresholds=(SEVERITY_MEDIUM, SEVERITY_HIGH),
        advice=("binding",),
        pages=(pages.BINDING,),
        change="""\
-taskset -c 0 python train.py
+export CPU_AFFINITY_CONF=2
+python train.py
""",
        sources=("msprof best practices: frequent switching of threads",),
        reach="cause",
        replayed=True,
    ),
    Rule(
        "OP.SMALL",
        cls="dispatch",
        inputs=("device", "overlap", "links"),
        check=small,
        thresholds=(SMALL_KERNEL_US, SMALL_KERNEL_SHARE, SEVERITY_MEDIUM, LINKS_FEWEST),
        advice=("fewer_operators", "foreach", "graph"),
        gpu=("fewer_operators", "foreach", "gpu_graph"),
        pages=(pages.GRAPHS, pages.OPTIMIZERS, pages.ATB),
        change="""\
-for weight, grad in zip(weights, grads):
-    weight.add_(grad, alpha=-lr)
+torch._foreach_add_(weights, grads, alpha=-lr)
""",
        sources=(
            "operator tuning guide 0-14",
            "20-step tuning checklist 2-22",
            "msprof-analyze advisor: operator schedule",
        ),
        replayed=True,
    ),
    Rule(
        "OPT.FUSED",
        cls="compute",
        inputs=("device", "overlap", "python"),
        check=optimizer,
        thresholds=(SYNC_SHARE, SEVERITY_MEDIUM),
        advice=("foreach",),
        pages=(pages.OPTIMIZERS, pages.FUSED),
        change="""\
-optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
-torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
+optimizer = torch_npu.optim.NpuFusedAdamW(model.parameters(), lr=lr)
+optimizer.clip_grad_norm_fused_(1.0)
""",
        sources=("affinity operators guide 3-19", "msprof-analyze advisor: affinity optimizer"),
        reach="cause",
        words=("affinity",),
    ),
)
