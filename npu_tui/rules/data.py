"""Findings about data: fetching batches, copying them, and the memory they live in.

Rules F16 to F18 and F26 of the collected diagnosis rules: the tuning guides and the advisor of msprof-analyze.
"""

from __future__ import annotations

import numpy as np

from npu_tui.analysis.code_lines import CodeLine
from npu_tui.analysis.device import HOST
from npu_tui.analysis.replay import ANY_THREAD, Change, HostCut, TaskCut
from npu_tui.analysis.thresholds import Threshold
from npu_tui.rules import pages
from npu_tui.rules.blame import (
    LOADER_LEAST_MS,
    SYNC_SHARE,
    before_first_kernels,
    cache_drops,
    dry,
    fetches,
    memory_calls,
    runtime_calls,
    starving,
    waited_copies,
)
from npu_tui.rules.facts import Facts, once_per_device
from npu_tui.rules.host_work import unrecorded
from npu_tui.rules.inputs import GARBAGE_COLLECTION, Span, both, largest, length_of, together, without
from npu_tui.rules.model import Evidence, Severity
from npu_tui.rules.rule import SEVERITY_HIGH, SEVERITY_MEDIUM, Draft, Rule, advise, line_of, sentences, severity_of
from npu_tui.rules.told_path import path_owners
from npu_tui.trace.arrays import I64
from npu_tui.trace.intervals import covered_within
from npu_tui.trace.message import Message, message
from npu_tui.trace.text import brief


def idle(facts: Facts) -> Span:
    """When the device neither computes, communicates nor copies: Free, and the time before its first slice."""
    start, end = facts.busy
    if not len(start):
        return facts.free
    before = np.array([min(0, int(start[0]))], np.int64), start[:1]
    return without(together(facts.free, facts.cut(before) if facts.window.whole else before), (start, end))


LOADER_MS = Threshold("loader_ms", 10.0)
LOADER_FREE_SHARE = Threshold("loader_free_share", 0.01)


@once_per_device
def loader(facts: Facts) -> Draft | None:
    """Fetching a batch while the device has nothing to do."""
    limits = facts.limits
    items = fetches(facts)
    if not len(items):
        return None
    fetching = facts.on_device(facts.span_of(items))
    removes = both(fetching, idle(facts))
    slow = items[facts.length(items) >= limits[LOADER_MS] * 1e6]
    in_free = facts.share(length_of(both(fetching, facts.free)))
    if not len(slow) and in_free < limits[LOADER_FREE_SHARE]:
        return None
    share = length_of(removes) / facts.count / facts.step_ns if facts.step_ns else 0.0
    single = any("singleprocess" in facts.trace.name_of(item).lower() for item in items.tolist())
    words = {"waits": length_of(removes) / facts.count, "unit": facts.unit}
    mean, longest = float(facts.length(items).mean()), float(facts.length(items).max())
    return Draft(
        "high" if share >= limits[LOADER_FREE_SHARE] else "info",
        message("finding.loader.title", time=longest, **words),
        message("finding.loader.detail", count=len(items), mean=mean, longest=longest, idle=length_of(removes)),
        facts.longest(items, lambda item: message("finding.loader.place")),
        advise("workers" if single else "workers_more", "pin_memory", "storage"),
        removes,
        change=facts.without_calls(items),
        verdict=message("finding.loader.verdict", **words),
    )


COPY_SHARE = Threshold("copy_share", 0.05)
COPY_SHARE_HIGH = Threshold("copy_share_high", 0.2)


def copies(facts: Facts) -> Draft | None:
    """Copies between host and device that nothing hides."""
    limits, device = facts.limits, facts.part.slices
    assert device is not None
    items = np.flatnonzero(device.copy & facts.window.holds(facts.trace.slices.start))
    copying = facts.span_of(items)
    removes = without(copying, facts.working)
    # What is judged of a range may begin with copies, and the device's time with the first kernel after them.
    whole = facts.total if facts.whole_steps else max(facts.total, round(facts.step_ns))
    share = length_of(removes) / max(whole, 1)
    if share <= limits[COPY_SHARE]:
        return None
    blocking = len(waited_copies(facts))
    lines, back = _copied_at(facts), _goes_back(facts)
    at_starts = both(removes, before_first_kernels(facts))
    severity: Severity = "high" if share > limits[COPY_SHARE_HIGH] else "medium"
    moved = _moved(facts)
    return Draft(
        severity,
        message(
            f"finding.copy.title{'_at' * bool(lines)}",
            time=length_of(removes),
            share=share,
            line=line_of(lines[0]) if lines else "",
        ),
        sentences(
            message("finding.copy.detail", count=len(items), time=length_of(copying), exposed=length_of(removes)),
            message("finding.copy.blocking", count=blocking) if blocking else "",
            message("finding.copy.moved", ways=list(moved)) if moved else "",
        ),
        facts.longest(items, lambda item: message("finding.copy.place")),
        advise("copy_back", "fewer_copies") if back else advise("non_blocking", "prefetch", "fewer_copies"),
        removes,
        change=Change(tasks=(TaskCut(items),)),
        code_lines=lines,
        # A batch that is fetched ahead is there when the step starts, however it is copied.
        reach="broad" if min(blocking / len(items), length_of(at_starts) / length_of(removes)) >= _MOSTLY else None,
    )


_MOSTLY = 0.9


def _copied_at(facts: Facts) -> tuple[CodeLine, ...]:
    """The lines that copy on the critical path, most time first."""
    told = path_owners(facts)
    copying = [owner.where for owner in (() if told is None else told.owners) if owner.kind == "copy"]
    return tuple(dict.fromkeys(line for line in copying if line is not None))


def _goes_back(facts: Facts) -> bool:
    """Whether most of what is copied goes from the device to the host."""
    device, slices, copied = facts.part.slices, facts.trace.slices, facts.inputs.copies()
    if device is None:
        return False
    taken = device.copy[copied.item] & facts.window.holds(slices.start[copied.item])
    back = np.array([way.startswith("device to host") for way in copied.ways] + [False])
    length = (slices.end - slices.start)[copied.item] * taken
    return 2 * int(length[back[copied.way]].sum()) > int(length.sum())


def _moved(facts: Facts) -> tuple[Message, ...]:
    """How many bytes were copied in which direction and how fast, most first; nothing where no copy has a size."""
    device, slices, copied = facts.part.slices, facts.trace.slices, facts.inputs.copies()
    assert device is not None
    copies = device.copy & facts.window.holds(slices.start)
    sums: dict[int, list[int]] = {}
    for item, size, code in zip(copied.item.tolist(), copied.size.tolist(), copied.way.tolist(), strict=True):
        if copies[item]:
            row = sums.setdefault(code, [0, 0, 0])
            for at, more in enumerate((1, size, int(slices.end[item] - slices.start[item]))):
                row[at] += more
    order = sorted(sums.items(), key=lambda row: -row[1][1])
    return tuple(
        message("finding.copy.way", way=brief(copied.ways[code]), count=count, size=size, speed=size / max(time, 1))
        for code, (count, size, time) in order[:3]
    )


ALLOCATION_MS = Threshold("allocation_ms", 10.0)


def allocation(facts: Facts) -> Draft | None:
    """Memory taken from the device or given back to it while the job runs."""
    limits, calls = facts.limits, memory_calls(facts)
    spent = {name: int(facts.length(items).sum()) for name, items in calls.items()}
    drained = dry(facts).of("memory")
    if not any(time >= limits[ALLOCATION_MS] * 1e6 for time in spent.values()) and not len(drained):
        return None
    items = np.concatenate(list(calls.values())) if calls else np.zeros(0, np.int64)
    removes = starving(facts, items)
    share = facts.share(length_of(removes))
    drops, lost = cache_drops(facts), length_of(removes)
    named = [message("finding.allocation.call", name=name, count=len(calls[name]), time=spent[name]) for name in spent]
    detail = message("finding.allocation.detail", calls=named, drains=len(drained), lost=lost)
    return Draft(
        severity_of(facts.limits, share) if share >= limits[SYNC_SHARE] else "low",
        message("finding.allocation.title", time=sum(spent.values()), lost=lost),
        sentences(detail, message("finding.allocation.drops", count=drops) if drops else ""),
        facts.longest(items, lambda item: message("finding.allocation.place"))
        or tuple(
            Evidence(start, end, None, message("finding.cause.memory"), "")
            for start, end, *_ in drained.taken(np.arange(min(len(drained), 10))).rows()
        ),
        advise("empty_cache", "expandable") if drops else advise("expandable", "temporaries", "smaller_batch"),
        removes,
        change=facts.without_calls(items) if len(items) else None,
    )


GC_MS = Threshold("gc_ms", 1.0)
GC_SUSPECT_MS = Threshold("gc_suspect_ms", 200.0)


@once_per_device
def collector(facts: Facts) -> Draft | None:
    """Python's garbage collector at work, or its likely trace where collections are not recorded."""
    limits = facts.limits
    events = facts.named(("python", "other"), lambda name: name == GARBAGE_COLLECTION)
    long = events[facts.length(events) >= limits[GC_MS] * 1e6]
    if len(long):
        removes = both(facts.on_device(facts.span_of(long)), together(facts.lost, facts.free))
        words = {"count": len(long), "time": length_of(facts.span_of(long))}
        return Draft(
            "medium" if facts.share(length_of(removes)) < limits[SEVERITY_HIGH] else "high",
            message("finding.gc.title", **words),
            message("finding.gc.detail", idle=length_of(removes), **words),
            facts.longest(long, lambda item: message("finding.gc.place")),
            advise("gc"),
            removes,
            change=_without_collections(facts, long),
        )
    if len(events) or not facts.has("cann"):
        return None
    # A guess is for what nothing recorded: where a frame or an operation says what ran, that is the owner.
    silent = both(facts.free, unrecorded(facts))
    idle = [(start, end) for start, end in largest(silent, 50) if end - start > limits[GC_SUSPECT_MS] * 1e6]
    if not idle:
        return None
    calls = facts.on_device(facts.span_of(runtime_calls(facts)))
    called = covered_within(*calls, *np.array(idle, np.int64).T).tolist()
    suspects = [(start, end) for (start, end), time in zip(idle, called, strict=True) if time < 0.01 * (end - start)]
    if not suspects:
        return None
    span = (np.array([start for start, _ in suspects]), np.array([end for _, end in suspects]))
    return Draft(
        "medium",
        message("finding.gc.suspect_title", count=len(suspects), time=length_of(span)),
        message("finding.gc.suspect", count=len(suspects), least=limits[GC_SUSPECT_MS] * 1e6),
        tuple(Evidence(start, end, None, "Free", message("finding.gc.suspect_place")) for start, end in suspects[:10]),
        advise("gc_record", "gc"),
        span,
        confidence="low",
    )


def _without_collections(facts: Facts, items: I64) -> Change:
    """The change that removes ``items``; collections on a separate thread stop all host threads."""
    trace = facts.trace
    collections = facts.names_where(GARBAGE_COLLECTION.__eq__)
    busy = {
        lane.tid
        for lane in trace.lanes
        if trace.layers[lane.layer].kind in HOST and not collections[trace.slices.name[lane.first : lane.last]].all()
    }
    if busy.issuperset(trace.lanes[lane].tid for lane in np.unique(trace.slices.lane[items]).tolist()):
        return facts.without_calls(items)
    return Change(host=(HostCut(ANY_THREAD, facts.span_of(items)),))


RULES: tuple[Rule, ...] = (
    Rule(
        "DATA.LOADER",
        cls="data",
        inputs=("device", "overlap", "python"),
        check=loader,
        thresholds=(LOADER_MS, LOADER_LEAST_MS, LOADER_FREE_SHARE),
        advice=("workers", "workers_more", "pin_memory", "storage"),
        gpu=("workers", "workers_more", "pin_memory", "storage"),
        pages=(pages.DATA, pages.TUNING),
        change="""\
-loader = DataLoader(data, batch_size=64)
+loader = DataLoader(data, batch_size=64, num_workers=4, prefetch_factor=2, pin_memory=True, persistent_workers=True)
""",
        sources=("operator tuning guide 0-25, 0-26", "msprof-analyze advisor: slow dataloader"),
        reach="cause",
        replayed=True,
        words=("aipp",),
    ),
    Rule(
        "DATA.COPY",
        cls="data",
        inputs=("device", "overlap"),
        check=copies,
        thresholds=(COPY_SHARE, COPY_SHARE_HIGH),
        advice=("non_blocking", "prefetch", "copy_back", "fewer_copies"),
        gpu=("non_blocking", "prefetch", "copy_back", "fewer_copies"),
        pages=(pages.TUNING, pages.DATA),
        change="""\
-mask = torch.ones(n).npu()
-images = images.npu()
+mask = torch.ones(n, device="npu")
+images = images.npu(non_blocking=True)
""",
        sources=("20-step tuning checklist 2-07", "operator tuning guide 0-27"),
        reach="cause",
        replayed=True,
        totals=("copy.title",),
    ),
    Rule(
        "MEM.ALLOC",
        cls="memory",
        inputs=("device", "overlap", "runtime"),
        check=allocation,
        thresholds=(ALLOCATION_MS, SYNC_SHARE, SEVERITY_MEDIUM, SEVERITY_HIGH),
        advice=("expandable", "empty_cache", "temporaries", "smaller_batch"),
        gpu=("gpu_expandable", "temporaries", "smaller_batch"),
        pages=(pages.ALLOCATOR,),
        change="""\
-    torch.npu.empty_cache()
+export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True
""",
        sources=("20-step tuning checklist 2-27", "msprof-analyze advisor: memory operations"),
        reach="cause",
        words=("memory",),
        totals=("allocation.title",),
    ),
    Rule(
        "PY.GC",
        cls="config",
        inputs=("device", "overlap", "python"),
        check=collector,
        thresholds=(GC_MS, GC_SUSPECT_MS, SEVERITY_HIGH),
        advice=("gc", "gc_record"),
        gpu=("gc",),
        pages=(pages.GC, pages.PROFILER),
        change="""\
+gc.collect()
+gc.freeze()
+gc.disable()
 for step, batch in enumerate(loader):
     train(batch)
+    if step % 500 == 0:
+        gc.collect()
""",
        sources=("msprof-analyze advisor: GC, conjectured GC",),
        reach="cause",
        replayed=True,
        totals=("gc.title", "gc.suspect_title"),
    ),
)
