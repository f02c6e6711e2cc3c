"""Findings about what a step works on: its batch is fetched and copied (F17 of the collected diagnosis rules)."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.code_lines import CodeLine
from npu_tui.analysis.limits import ALMOST_ALL, HALF, NAMED
from npu_tui.analysis.replay import Change, TaskCut
from npu_tui.analysis.replay_device import AWAIT
from npu_tui.analysis.thresholds import Threshold
from npu_tui.rules import pages
from npu_tui.rules.blame import SYNC_SHARE, before_first_kernels, waited_copies
from npu_tui.rules.facts import Facts, once_per_device
from npu_tui.rules.host_work import called
from npu_tui.rules.inputs import NOTHING, Span, common, length_of, without
from npu_tui.rules.rule import GRADES, Draft, Rule, advise, line_of, sentences, severity_of
from npu_tui.rules.told_path import path_owners
from npu_tui.trace.arrays import I64
from npu_tui.trace.intervals import union
from npu_tui.trace.message import message
from npu_tui.trace.text import brief

COPY_SHARE = Threshold("copy_share", 0.05)
COPY_GB_S = Threshold("copy_gb_s", 5.0)
LARGE_BYTES = 1_000_000
"""Smaller transfers are bound by latency, which says nothing of a link; bytes."""


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
    lines, back = _copied_at(facts), goes_back(facts)
    at_starts = common(removes, before_first_kernels(facts))
    moved = _copied_by_direction(facts)
    ways = [message("finding.copy.way", way=way, count=n, size=size, speed=size / time) for way, n, size, time in moved]
    fast = limits[COPY_GB_S]
    slow = any(size < fast * time and size >= LARGE_BYTES * count for _, count, size, time in moved[:1])
    late = not slow and length_of(common(removes, _awaited(facts, items))) >= HALF * length_of(removes)
    return Draft(
        severity_of(limits, share),
        message(
            f"finding.copy.title{'_event' * late}{'_at' * bool(lines)}",
            each=facts.per_unit(length_of(removes)),
            share=share,
            line=line_of(lines[0]) if lines else "",
            speed=message("finding.copy.speed", **ways[0].args) if ways else "",
        ),
        sentences(
            message("finding.copy.detail", count=len(items), time=length_of(copying), exposed=length_of(removes)),
            message("finding.copy.blocking", count=blocking) if blocking else "",
            message("finding.copy.moved", ways=ways) if ways else "",
            message("finding.copy.slow", **ways[0].args) if slow else "",
            message("finding.copy.event") if late else "",
        ),
        facts.longest(items, lambda item: message("finding.copy.place")),
        advise("copy_back", "fewer_copies")
        if back
        else advise(*(("copy_event", "prefetch") if late else ("non_blocking", "prefetch", "fewer_copies"))),
        removes,
        change=Change(tasks=(TaskCut(items),)),
        code_lines=lines,
        # A batch that is fetched ahead is there when the step starts, however it is copied.
        reach="broad" if min(blocking / len(items), length_of(at_starts) / length_of(removes)) >= ALMOST_ALL else None,
    )


def _awaited(facts: Facts, copies: I64) -> Span:
    """When the stream of most kernels waits for an event during one of ``copies`` on another stream."""
    tasks = facts.tasks
    if tasks is None or not len(facts.kernels):
        return NOTHING
    own = tasks.stream == np.bincount(tasks.stream[np.isin(tasks.item, facts.kernels)]).argmax()
    waits = np.flatnonzero(own & (tasks.kind == AWAIT))
    elsewhere = tasks.item[~own & np.isin(tasks.item, copies)]
    return common(union(tasks.start[waits], tasks.end[waits]), facts.span_of(elsewhere))


def _copied_at(facts: Facts) -> tuple[CodeLine, ...]:
    """The lines that copy on the critical path, most time first."""
    told = path_owners(facts)
    copying = [owner.where for owner in (() if told is None else told.owners) if owner.kind == "copy"]
    return tuple(dict.fromkeys(line for line in copying if line is not None))


def goes_back(facts: Facts) -> bool:
    """Whether most of what is copied goes from the device to the host."""
    device, slices, copied = facts.part.slices, facts.trace.slices, facts.inputs.copies()
    if device is None:
        return False
    taken = device.copy[copied.item] & facts.window.holds(slices.start[copied.item])
    back = np.array([way.startswith("device to host") for way in copied.ways] + [False])
    length = (slices.end - slices.start)[copied.item] * taken
    return 2 * int(length[back[copied.way]].sum()) > int(length.sum())


def _copied_by_direction(facts: Facts) -> list[tuple[str, int, int, int]]:
    """How many copies moved how many bytes in each direction, and for how long, ns; most bytes first.

    At most ``NAMED``; nothing where no copy has a size.
    """
    device, slices, copied = facts.part.slices, facts.trace.slices, facts.inputs.copies()
    assert device is not None
    chosen = (device.copy & facts.window.holds(slices.start))[copied.item]
    code, size, length = copied.way[chosen], copied.size[chosen], facts.length(copied.item[chosen])
    rows = [
        (
            brief(copied.ways[way]),
            int((code == way).sum()),
            int(size[code == way].sum()),
            int(length[code == way].sum()),
        )
        for way in np.unique(code).tolist()
    ]
    return sorted((row for row in rows if row[3]), key=lambda row: -row[2])[:NAMED]


LOADER_LEAST_MS = Threshold("loader_least_ms", 1.0)


@once_per_device
def loader(facts: Facts) -> Draft | None:
    """Fetching a batch, for longer than the iterator's own work takes, while the device has nothing to do."""
    items = facts.outermost(facts.named(("python", "other"), lambda name: "dataloader" in name.lower()))
    items = items[facts.length(items) >= facts.limits[LOADER_LEAST_MS] * 1e6]
    draft = called(facts, "loader", items)
    if draft is None:
        return None
    single = any("singleprocess" in facts.trace.name_of(item).lower() for item in items.tolist())
    advice = advise("workers" if single else "workers_more", "pin_memory", "storage")
    words = {"waits": draft.title.args["waits"], "unit": facts.unit}
    return replace(draft, advice=advice, verdict=message("finding.loader.verdict", **words))


RULES: tuple[Rule, ...] = (
    Rule(
        "DATA.LOADER",
        cls="data",
        inputs=("device", "overlap", "python"),
        check=loader,
        thresholds=(LOADER_LEAST_MS, SYNC_SHARE, *GRADES),
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
        thresholds=(COPY_SHARE, COPY_GB_S, *GRADES),
        advice=("non_blocking", "prefetch", "copy_back", "fewer_copies", "copy_event"),
        gpu=("non_blocking", "prefetch", "copy_back", "fewer_copies", "copy_event"),
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
    ),
)
