"""Findings about the host waiting for the device, and about the device waiting for the first launch of a step.

Rules F05 and F30 of the collected diagnosis rules.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from npu_tui.analysis.code_lines import CodeLine, own_lines
from npu_tui.analysis.host_work import idle_work
from npu_tui.analysis.launches import enqueue_slices
from npu_tui.analysis.owner import Owner
from npu_tui.analysis.replay import ANY_THREAD, NO_CHANGE, Change, HostCut
from npu_tui.analysis.replay_host import Silence, thread_numbers
from npu_tui.analysis.thresholds import Threshold
from npu_tui.load.errors import InputError
from npu_tui.rules import pages
from npu_tui.rules.blame import (
    STEP_START_SHARE,
    SYNC_BLOCKING,
    SYNC_SHARE,
    before_first_kernels,
    launch_blocking,
    runtime_calls,
    start_share,
    sync_calls,
    sync_operations,
    sync_span,
    waits_after_launches,
    without_all,
)
from npu_tui.rules.cpu import cpu
from npu_tui.rules.data import collector, loader
from npu_tui.rules.facts import Facts, once_per_device
from npu_tui.rules.host_work import change_of, host_work, reads_back, works
from npu_tui.rules.inputs import Span, both, inside, length_of, without
from npu_tui.rules.model import Severity
from npu_tui.rules.rule import (
    SEVERITY_HIGH,
    SEVERITY_MEDIUM,
    Draft,
    Rule,
    Skipped,
    advise,
    line_of,
    sentences,
    severity_of,
    stretches,
)
from npu_tui.rules.told_path import owner_text, path_owners
from npu_tui.trace.arrays import I64
from npu_tui.trace.intervals import touches, union
from npu_tui.trace.kineto import synchronized_lane
from npu_tui.trace.message import Message, Said, message
from npu_tui.trace.text import brief

_NEARLY_ALL = 0.8
_MOST_OF_IT = 0.6
_WORK_SAVES = 0.5
"""Share of what mending the waits saves: work of the host that saves as much is taken out before they are priced."""
_NEGLIGIBLE = 0.01
_COPYING = frozenset({"aten::copy_", "aten::to", "aten::_to_copy"})
_NOTABLE_PART = 0.05
"""Of what the host does before the first kernel of a step."""
_MOST_LINES = 3
_MOST_SITES = 10
"""Places where the host waits that are replayed, those first at which it is blocked for longest."""
_LOADER = "dataloader"
_ENTRY_NS = 5_000
"""What it takes to put a launch into the task queue."""

SYNC_UNPROVEN = Threshold("sync_unproven", 0.1)
SYNC_LONG_US = Threshold("sync_long_us", 100.0)


def sync_host(facts: Facts) -> Draft | None:
    """The host waits for the device, and the device afterwards for the host."""
    limits = facts.limits
    calls, operations = sync_calls(facts), sync_operations(facts)
    waits = np.concatenate((_outside(facts, calls, operations), operations))
    if not len(waits):
        return None
    blocked = length_of(facts.span_of(waits))
    share_blocking = launch_blocking(facts)
    blocking = share_blocking > limits[SYNC_BLOCKING]
    if facts.share(blocked) < limits[SYNC_SHARE] and not blocking:
        return None
    removes = without(sync_span(facts), _fresh_starts(facts))
    change, freed, few = _unwaited(facts, calls, operations)
    if blocking:
        change = _unblocked(facts, calls, change)
        freed = facts.freed(change)
    lost = length_of(removes) if freed is None else freed
    if not lost and not blocking:
        return None
    share = facts.share(lost)
    severity: Severity = "high" if blocking else "info"
    proven = facts.share(length_of(removes)) >= limits[SYNC_SHARE]
    # What only the replay shows must be more than one wait a step, or a token, costs where it is well placed.
    if proven:
        alone = limits[SEVERITY_HIGH] if facts.is_serving else limits[SEVERITY_MEDIUM]  # a server reads every token
        least = alone if few else limits[SYNC_SHARE]
    else:
        least = limits[SYNC_UNPROVEN] if few else limits[SEVERITY_MEDIUM]
    if severity == "info" and share >= least:
        severity = severity_of(facts.limits, share)
    long = waits[facts.length(waits) >= limits[SYNC_LONG_US] * 1000]
    longest = int(waits[np.argmax(facts.length(waits))])
    parts = [
        message(
            "finding.sync.detail",
            count=len(waits), long=len(long), least=limits[SYNC_LONG_US] * 1000, blocked=blocked,
            longest=float(facts.length(waits).max()), what=_waited_for(facts, longest),
        )
    ]  # fmt: skip
    title = message("finding.sync.title", lost=lost)
    sites = _sites(facts, change)
    if sites and sites[0].where is not None and not blocking:
        title = message("finding.sync.title_at", lost=lost, chip=facts.chip, where=owner_text(facts.trace, sites[0]))
    if blocking:
        parts.append(message("finding.sync.blocking", share=share_blocking))
    elif silent := _silence_after(facts, waits, lost):
        parts.append(message("finding.sync.silent", time=silent))
    read = "inference" if facts.is_serving else "metrics_rarely"
    advice = advise(*(("non_blocking", "copy_back") if _copies(facts, long) else (read, "non_blocking")))
    if blocking:
        advice = (message("finding.advice.launch_blocking"), *advice)
    return Draft(
        severity,
        title,
        sentences(*parts),
        facts.longest(waits, lambda item: message("finding.sync.place", what=_waited_for(facts, item))),
        advice,
        removes,
        change=change,
        first=blocking,
        most=freed,
        shown=facts.on_device(facts.span_of(waits)),
        # An engine that reads its tokens waits once a step: what it does until its next launch is nearer to a cause.
        reach="place" if few and facts.has_engine_steps and not blocking else None,
        code_lines=tuple(dict.fromkeys(site.where for site in sites if site.where is not None))[:_MOST_LINES],
    )


def _sites(facts: Facts, change: Change) -> list[Owner]:
    """The places of the waits that ``change`` takes out, the one that the run gains most without first."""
    told = path_owners(facts)
    taken = [owner for owner in (() if told is None else told.waits) if change.waits.intersection(owner.items.tolist())]
    taken.sort(key=lambda owner: -int(facts.length(owner.items).sum()))
    taken = taken[:_MOST_SITES]
    return sorted(taken, key=lambda owner: -(facts.freed(owner.change or NO_CHANGE) or 0))


def _copies(facts: Facts, waits: I64) -> bool:
    """Whether most of ``waits`` are for copies of tensors, not for values."""
    copying = facts.span_of(facts.named(("python", "other"), _COPYING.__contains__))
    return 2 * int(np.count_nonzero(inside(copying, facts.trace.slices.start[waits]))) > len(waits)


def _silence_after(facts: Facts, waits: I64, lost: int) -> float:
    """How long the host records nothing after one of ``waits``, the median, ns; 0 where that is little of ``lost``."""
    slices = facts.trace.slices
    _, number = thread_numbers(facts.trace)
    end = slices.end[waits]
    after = Silence(facts.trace, number).next_edge(number[slices.lane[waits]], end) - end
    after = after[after <= facts.total]
    silent = float(np.median(after)) if len(after) and after.sum() >= _MOST_OF_IT * lost else 0.0
    return silent if silent >= facts.limits[SYNC_LONG_US] * 1000 else 0.0


def _outside(facts: Facts, calls: I64, operations: I64) -> I64:
    """Those of ``calls`` that start in none of ``operations``: inside one it is the same wait once more."""
    return calls[~inside(facts.span_of(operations), facts.trace.slices.start[calls])]


def _unwaited(facts: Facts, calls: I64, operations: I64) -> tuple[Change, int | None, bool]:
    """The change that removes the costliest waits, its gain in ns (None without a replay), and whether they are few.

    The waits are the operations of the framework that wait, or the calls outside of them where the other group adds
    little. They are few where a step has no more than one of each kind.
    """
    outside = _outside(facts, calls, operations)
    groups = [np.concatenate((operations, np.setdiff1d(calls, outside))), outside]
    # All waits first, then each kind alone: a kind that explains nearly all of the gain is blamed alone.
    groups = [np.concatenate(groups), *(group for group in groups if len(group))]
    heavy = _heavy(facts, operations, outside)
    within, around = (waits[np.isin(waits, heavy)] for waits in (operations, outside))
    few = [len(within) <= facts.count and len(around) <= facts.count + 1]
    few += [len(some) <= facts.count + 1 for some, waits in ((within, operations), (around, outside)) if len(waits)]
    changes = [Change(waits=frozenset(group.tolist())) for group in groups]
    # Without the waits the host runs ahead, which hides what it works as well. That is not credited to the waits where
    # nothing records it or others have the CPU, nor where it would gain most of it without any change of the waits.
    after = change_of(works(facts)["HOST.PAUSE"]) if not reads_back(facts) else NO_CHANGE
    after |= _changes(cpu(facts)) | facts.without_work(facts.unasked)
    freed = [facts.freed(change, after) for change in changes]
    work = _changes(*host_work(facts), collector(facts), loader(facts))
    gain = None if work == NO_CHANGE else facts.freed(work, after)
    if gain is not None and gain >= _WORK_SAVES * max(freed[0] or 0, 0):
        freed = [facts.freed(change, after | work) for change in changes]
    if freed[0] is None:
        return changes[0], None, few[0]
    gains = [gain or 0 for gain in freed]
    best = max(range(1, len(gains)), key=lambda k: gains[k], default=0)
    chosen = best if gains[best] >= _NEARLY_ALL * gains[0] else 0
    return changes[chosen], max(gains[chosen], 0), few[chosen]


def _changes(*found: Draft | Skipped | None) -> Change:
    """The run without what each of ``found`` is about."""
    change = NO_CHANGE
    for draft in found:
        change |= draft.change or NO_CHANGE if isinstance(draft, Draft) else NO_CHANGE
    return change


def _heavy(facts: Facts, *waits: I64) -> I64:
    """``waits`` without the shortest ones, which take 1 % together, such as those for small kernels."""
    by_length = np.concatenate(waits)
    by_length = by_length[np.argsort(facts.length(by_length), kind="stable")]
    so_far = np.cumsum(facts.length(by_length))
    heavy: I64 = by_length[so_far > _NEGLIGIBLE * so_far[-1]] if len(by_length) else by_length
    return heavy


def _unblocked(facts: Facts, calls: I64, change: Change) -> Change:
    """The run in which no launch is waited for: what the program waits for itself stays as it is.

    Where no such wait is recorded, ``change``.
    """
    waits = waits_after_launches(facts, calls)
    unwaited = Change(waits=frozenset(waits.tolist())) if len(waits) else change
    return unwaited | _queued(facts, calls)


def _queued(facts: Facts, waits: I64) -> Change:
    """The change that a task queue makes: launches move to a second thread, and the shorter of the two costs nothing.

    No change where the program has a task queue already. ``waits`` are calls that do not launch.
    """
    if len(enqueue_slices(facts.trace)):
        return NO_CHANGE
    calls = np.setdiff1d(runtime_calls(facts), waits)
    launching = facts.span_of(calls)
    if not len(launching[0]):
        return NO_CHANGE
    around = launching[0][:1], launching[1][-1:]
    python = without(without(around, launching), facts.span_of(waits))
    less = launching if length_of(launching) < length_of(python) else python
    keep = min(len(calls) * _ENTRY_NS / length_of(less), 1.0) if length_of(less) else 0.0
    return Change(host=(HostCut(ANY_THREAD, less, keep),))


def _waited_for(facts: Facts, item: int) -> Message:
    """What the device did while the host waited in ``item``."""
    device, slices = facts.part.slices, facts.trace.slices
    if device is None:
        return message("finding.sync.waited.nothing")
    low, high = int(slices.start[item]) + facts.floor, int(slices.end[item]) + facts.floor
    best, words = 0, message("finding.sync.waited.nothing")
    lane: int | None = None
    with suppress(InputError):  # the stream is an arg of a trace that is gone
        lane = synchronized_lane(facts.trace, item)
    for until in (high, facts.trace.end):  # what runs on was hardly waited for
        for kind, items, begun, reach in _kinds_of_work(facts):
            running = np.sort(items[int(reach.searchsorted(low, "right")) : int(begun.searchsorted(high))])
            running = running[(slices.end[running] > low) & (slices.end[running] <= until)]
            running = running if lane is None else running[slices.lane[running] == lane]
            start, end = np.maximum(slices.start[running], low), np.minimum(slices.end[running], high)
            shared = length_of(union(start, end))
            if shared > best:
                best, longest = shared, facts.name_of(int(running[np.argmax(end - start)]), 60)
                words = message(f"finding.sync.waited.{kind}", name=longest)
        if best:
            break
    if best and lane is not None:
        return message("finding.sync.waited.on", what=words, stream=brief(facts.trace.lanes[lane].name))
    return words


@once_per_device
def _kinds_of_work(facts: Facts) -> list[tuple[str, I64, I64, I64]]:
    """What the device does: a word for it, its slices by start, their starts and the latest end so far."""
    device, slices = facts.part.slices, facts.trace.slices
    assert device is not None
    rows = []
    masks = (("compute", device.compute), ("communication", device.collective), ("copy", device.copy))
    for kind, mask in masks:
        items = np.flatnonzero(mask)
        items = items[np.argsort(slices.start[items], kind="stable")]
        rows.append((kind, items, slices.start[items], np.maximum.accumulate(slices.end[items])))
    return rows


def _fresh_starts(facts: Facts) -> Span:
    """The starts of steps at which the device had not run dry before: what is lost there begins there."""
    start, end = before_first_kernels(facts)
    dry, at = facts.drains.of("sync"), start.astype(np.float64)
    before = touches(dry.start, dry.end, at, at)
    return start[~before], end[~before]


STEP_START_SHARE_HIGH = Threshold("step_start_share_high", 0.1)


def step_start(facts: Facts) -> Draft | None:
    """The time from the start of a step to its first kernel, in which the device has nothing to do."""
    if facts.has_engine_steps:
        return None  # an engine fetches no batch, and its host begins a step while the device is in the one before it
    limits = facts.limits
    gaps = before_first_kernels(facts)
    if not facts.whole_steps:
        gaps = facts.cut(gaps)
    if not len(gaps[0]):
        return None
    time = length_of(gaps) / facts.count
    share = start_share(facts, gaps)
    if share < limits[STEP_START_SHARE]:
        return None
    severity: Severity = "high" if share >= limits[STEP_START_SHARE_HIGH] else "medium"
    parts = _start_parts(facts, gaps)
    rest, least = length_of(gaps) - sum(length for _, length in parts), _NOTABLE_PART * length_of(gaps)
    named = [message("finding.start.part", name=name, time=length / facts.count) for name, length in parts]
    if rest >= least:
        named.append(message("finding.start.unrecorded", time=rest / facts.count))
    copies = length_of(both(gaps, facts.span_of(facts.part.slices.copy))) if facts.part.slices is not None else 0
    detail = [
        message(
            f"finding.start.detail{'_mean' * (facts.count > 1)}",
            time=time,
            step=facts.step_ns,
            share=share,
            unit=facts.unit,
        ),
        message("finding.start.parts", parts=named),
    ]
    waited = length_of(both(facts.on_device(facts.span_of(sync_calls(facts))), gaps))
    if waited >= least:
        times = {"time": waited / facts.count, "copy": copies / facts.count}
        detail.append(
            message("finding.start.waited", **times) if copies else message("finding.start.blocked", time=times["time"])
        )
    first = parts[0][0] if parts else message("finding.start.nothing")
    fetched = sum(length for name, length in parts if name == message("finding.start.loader"))
    worked = sum(length for _, length in parts) - fetched - max(copies, waited)
    advice = [
        *(["work_beside"] if worked >= _MOST_OF_IT * length_of(gaps) else []),
        *(["prefetch"] if max(fetched, copies) >= least else []),
        *(["non_blocking"] if copies >= least else []),
        *(["overlap_steps"] if waited >= least else []),
    ]
    return Draft(
        severity,
        message("finding.start.title", time=time, where=first),
        sentences(*detail),
        stretches(
            zip(*(edge[:10].tolist() for edge in gaps), strict=True),
            message("finding.start.name"),
            "finding.start.place",
        ),
        advise(*advice) if advice else None,
        removes=gaps,
        change=without_all(facts, gaps),  # the batch is on the device already
        verdict=message("finding.start.verdict", time=time, share=share, unit=facts.unit),
    )


def _start_parts(facts: Facts, gaps: Span) -> list[tuple[Said, int]]:
    """What the host did in ``gaps``, by line or name, most time first: operations, and frames that launch nothing."""
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
    return [(_place(label), time) for label, time in rows[:4] if time >= _NOTABLE_PART * length_of(gaps)]


def _place(label: CodeLine | str) -> Said:
    if isinstance(label, CodeLine):
        return line_of(label)
    return message("finding.start.loader") if label == _LOADER else label


RULES: tuple[Rule, ...] = (
    Rule(
        "SYNC.HOST",
        cls="dispatch",
        inputs=("device", "overlap", "links"),
        check=sync_host,
        thresholds=(SYNC_SHARE, SYNC_UNPROVEN, SYNC_BLOCKING, SYNC_LONG_US, SEVERITY_MEDIUM, SEVERITY_HIGH),
        advice=("metrics_rarely", "copy_back", "non_blocking", "launch_blocking", "inference"),
        gpu=("metrics_rarely", "copy_back", "non_blocking"),
        pages=(pages.TUNING, pages.SYNC, pages.BLOCKING, pages.ASYNC),
        change="""\
-for batch in loader:
-    loss = train(batch)
-    total += loss.item()
-    print(metric(out, target).item())
+for step, batch in enumerate(loader):
+    loss = train(batch)
+    total += loss.detach()
+    if step % 100 == 0:
+        print(total.item(), metric(out, target).item())
""",
        sources=(
            "operator tuning guide 0-07",
            "MindStudio Insight walk-through 1-52",
            "msprof-analyze advisor: synchronize stream",
        ),
        reach="cause",
        replayed=True,
        words=("sync",),
        totals=("sync.title", "sync.title_lines"),
    ),
    Rule(
        "STEP.START",
        cls="dispatch",
        inputs=("device", "overlap", "steps"),
        check=step_start,
        thresholds=(STEP_START_SHARE, STEP_START_SHARE_HIGH),
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
