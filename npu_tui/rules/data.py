"""Findings about what a step works on: its batch is fetched and copied."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.code_lines import CodeLine, own_lines, user_line
from npu_tui.analysis.drains import idle_work
from npu_tui.analysis.launches import operation_of
from npu_tui.analysis.limits import ALMOST_ALL, HALF, LITTLE, NAMED, Threshold
from npu_tui.analysis.path import Owner
from npu_tui.analysis.replay import Change, TaskCut
from npu_tui.analysis.replay_device import AWAIT
from npu_tui.rules import pages
from npu_tui.rules.blame import (
    SYNC_SHARE,
    before_first_kernels,
    start_share,
    sync_calls,
    waited_copies,
    without_all,
)
from npu_tui.rules.facts import Facts, once_per_device
from npu_tui.rules.functions import line_within
from npu_tui.rules.host_work import called, works
from npu_tui.rules.inputs import NOTHING, Span, common, largest, length_of, without
from npu_tui.rules.judged_path import lines_under, owner_text, path_owners, short_call
from npu_tui.rules.rule import (
    GRADES,
    LISTED,
    SEVERITY_HIGH,
    Draft,
    Rule,
    advise,
    line_of,
    sentences,
    severity_of,
    stretches,
)
from npu_tui.trace.arrays import I64
from npu_tui.trace.intervals import union
from npu_tui.trace.message import Said, message
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
            line=line_within(facts, lines[0], operation_of(facts.trace, items), facts.length(items)) if lines else "",
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
    length = facts.length(copied.item) * taken
    return 2 * int(length[back[copied.way]].sum()) > int(length.sum())


def _copied_by_direction(facts: Facts) -> list[tuple[str, int, int, int]]:
    """How many copies moved how many bytes in each direction, and for how long, ns; most bytes first.

    At most ``NAMED``; nothing where no copy has a size.
    """
    device, slices, copied = facts.part.slices, facts.trace.slices, facts.inputs.copies()
    assert device is not None
    chosen = device.copy[copied.item] & facts.window.holds(slices.start[copied.item])
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
    # The iterator of a loader without workers says so in its name; the frame of __next__ around it does not.
    single = len(facts.begun(facts.named(("python", "other"), lambda name: "singleprocess" in name.lower()))) > 0
    advice = advise("workers" if single else "workers_more", "pin_memory", "storage")
    words = {"waits": draft.title.args["waits"], "unit": facts.unit}
    verdict = message("finding.loader.verdict", **words)
    if (doing := _fetches_itself(facts)) is None:
        return replace(draft, advice=advice, verdict=verdict)
    known = doing.where is not None and any(
        (line := user_line(call)) is not None and line.function == doing.where.function for call in doing.calls
    )
    what: Said = owner_text(facts.trace, doing if known else replace(doing, where=None))
    through = [short_call(call) for call in doing.calls[1:NAMED]]
    title = message("finding.loader.title_itself", what=what, **draft.title.args)
    parts = draft.detail, message("finding.loader.itself", what=what, calls=through) if through and not single else ""
    lines = (doing.where,) if known and doing.where is not None else ()
    more = advice if single else advise("fetch_itself")
    verdict = message("finding.loader.verdict_itself", what=what, **words)
    return replace(
        draft, title=title, detail=sentences(*parts), advice=more, verdict=verdict, code_lines=lines, anywhere=not known
    )


def _fetches_itself(facts: Facts) -> Owner | None:
    """The call that is most of fetching, where that is no wait for a worker of the loader; None where it is one."""
    owners = [replace(owner, name=owner.name or owner.calls[0]) for owner in works(facts)["DATA.LOADER"] if owner.calls]
    times = Counter[str]()
    for owner in owners:
        times[owner.name] += owner.on_path
    name, most = times.most_common(1)[0] if times else ("", 0)
    if not most > HALF * sum(times.values()) or _WAITS.search(name) or _LOADER in name.lower():
        return None
    return max((owner for owner in owners if owner.name == name), key=lambda owner: owner.on_path)


_WAITS = re.compile(r"acquire|poll|select|wait|sleep", re.IGNORECASE)
"""Calls that wait for a thread, a pipe or a queue."""

_LOADER = "dataloader"


def step_start(facts: Facts) -> Draft | None:
    """STEP.START: the device idles from the start of a step to its first kernel."""
    if facts.has_engine_steps:
        return None  # it fetches no batch, and its host starts a step while the device runs the previous one
    gaps = without(before_first_kernels(facts), facts.profiling)
    if not facts.whole_steps:
        gaps = facts.cut(gaps)
    share = start_share(facts, gaps)
    if not len(gaps[0]) or share < facts.limits[SEVERITY_HIGH]:
        return None
    time, copying = length_of(gaps), facts.part.slices.copy if facts.part.slices is not None else np.zeros(0, np.int64)
    copies = length_of(common(gaps, facts.span_of(copying)))
    waited = length_of(common(facts.on_device(facts.span_of(sync_calls(facts))), gaps))
    parts, least = _start_parts(facts, gaps), LITTLE * time
    words = {"time": time / facts.count, "step": facts.step_ns, "share": share, "unit": facts.unit}
    times = {"time": waited / facts.count, "copy": copies / facts.count}
    fetched = sum(taken for name, taken in parts if name == message("finding.start.loader"))
    told = sum(taken for _, taken in parts)
    worked = told - fetched - max(copies, waited)
    advice = {
        "work_beside": 2 * worked >= time,
        "prefetch": max(fetched, copies) >= least,
        "non_blocking": copies >= least,
        "overlap_steps": waited >= least,
    }
    named = [message("finding.start.part", name=name, time=taken / facts.count) for name, taken in parts]
    if time - max(told, waited) >= least:
        named.append(message("finding.start.unrecorded", time=(time - max(told, waited)) / facts.count))
    copied = lines_under(facts, common(gaps, facts.span_of(copying))) if copies > HALF * time else ()
    where: Said = parts[0][0] if parts else message("finding.start.nothing")
    if copied:
        where = message("finding.start.copies", line=line_of(copied[0]))
    return Draft(
        severity_of(facts.limits, share),
        message("finding.start.title", where=where, **words),
        sentences(
            message(f"finding.start.detail{'_mean' * (facts.count > 1)}", **words),
            message("finding.start.parts", parts=named) if named else "",
            message(f"finding.start.{'waited' if copies else 'blocked'}", **times) if waited >= least else "",
        ),
        stretches(largest(gaps), message("finding.start.name"), "finding.start.place"),
        advise(*(word for word, holds in advice.items() if holds)) if any(advice.values()) else None,
        removes=gaps,
        change=without_all(facts, gaps),  # as if the batch were on the device already
        most=time,  # the host runs ahead without its waits, but that is not what is reported
        verdict=message("finding.start.verdict", **words),
    )


def _start_parts(facts: Facts, gaps: Span) -> list[tuple[Said, int]]:
    """The host's work in ``gaps`` by code line or name, ns, most first: operations, and frames that launch nothing."""
    slices, trace = facts.trace.slices, facts.trace
    if "cpu_op" not in trace.categories:
        return []
    code = trace.categories.index("cpu_op")
    operations = np.setdiff1d(
        np.flatnonzero(slices.category == code), [step.item for step in facts.steps], assume_unique=True
    )
    operations = np.union1d(operations, idle_work(trace))
    operations = operations[np.argsort(slices.start[operations], kind="stable")]
    begins, reach = slices.start[operations], np.maximum.accumulate(slices.end[operations])
    times: dict[CodeLine | str, int] = {}
    for start, end in zip(gaps[0].tolist(), gaps[1].tolist(), strict=True):
        low, high = start - facts.floor, end - facts.floor
        items = operations[int(reach.searchsorted(low, "right")) : int(begins.searchsorted(high))]
        items = facts.outermost(items[slices.end[items] > low])
        for item, line in zip(items.tolist(), own_lines(trace, items), strict=True):
            name = brief(trace.name_of(item), 60)
            label = _LOADER if _LOADER in name.lower() else line or name
            times[label] = times.get(label, 0) + min(int(slices.end[item]), high) - max(int(slices.start[item]), low)
    rows = sorted(times.items(), key=lambda row: -row[1])
    return [(_part_name(label), time) for label, time in rows[:LISTED] if time >= LITTLE * length_of(gaps)]


def _part_name(label: CodeLine | str) -> Said:
    if isinstance(label, CodeLine):
        return line_of(label)
    return message("finding.start.loader") if label == _LOADER else label


RULES: tuple[Rule, ...] = (
    Rule(
        "DATA.LOADER",
        cls="data",
        inputs=("device", "overlap", "python"),
        check=loader,
        thresholds=(LOADER_LEAST_MS, SYNC_SHARE, *GRADES),
        advice=("workers", "workers_more", "pin_memory", "storage", "fetch_itself"),
        gpu=("workers", "workers_more", "pin_memory", "storage", "fetch_itself"),
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
    Rule(
        "STEP.START",
        cls="dispatch",
        inputs=("device", "overlap", "steps"),
        check=step_start,
        thresholds=GRADES,
        advice=("prefetch", "non_blocking", "overlap_steps", "work_beside"),
        gpu=("prefetch", "non_blocking", "overlap_steps", "work_beside"),
        pages=(pages.DATA, pages.TUNING),
        change="""\
-for images, labels in loader:
-    images = images.npu()
+loader = DataLoader(data, num_workers=4, prefetch_factor=2, pin_memory=True)
+for images, labels in loader:
+    images = images.npu(non_blocking=True)
""",
        sources=("torch_npu step_trace_time.csv: Preparing", "operator tuning guide 0-25, 0-27"),
        reach="place",
        replayed=True,
        words=("preparing", "step"),
    ),
)
