"""SYNC.HOST: the host waits for the device.

A wait counts by what the run would gain without it, which a replay gives (but for ``_credited_to_others``); without a
replay, by the time the device was dry after it. The rule names the guides that describe it in its ``sources``.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.calls import BLOCKING_OPERATIONS, SIZED_OPERATIONS
from npu_tui.analysis.code_lines import CodeLine, library_line, stack_of, user_line
from npu_tui.analysis.host_owners import WORK_NS
from npu_tui.analysis.launches import Around, enqueue_slices, operation_of
from npu_tui.analysis.limits import HALF, NEARLY_ALL, NOTABLE, Threshold
from npu_tui.analysis.owners import operations_around
from npu_tui.analysis.path import Owner
from npu_tui.analysis.replay import ANY_THREAD, NO_CHANGE, Change, HostCut, TaskCut
from npu_tui.load.errors import InputError
from npu_tui.rules import pages
from npu_tui.rules.blame import (
    SYNC_BLOCKING,
    SYNC_SHARE,
    before_first_kernels,
    blocking_is_set,
    held_launches,
    launch_blocking,
    launching_calls,
    sync_calls,
    sync_operations,
    waited_copies,
    waits_after_launches,
    without_all,
)
from npu_tui.rules.cpu import cpu
from npu_tui.rules.data import goes_back
from npu_tui.rules.facts import Facts, once_per_device
from npu_tui.rules.functions import copies_to_device
from npu_tui.rules.host_work import change_of, host_work, is_frame, span_of, works
from npu_tui.rules.inputs import NOTHING, Span, common, inside, largest, length_of, without
from npu_tui.rules.judged_path import launching_gains, owner_text, path_owners, short_call
from npu_tui.rules.pauses import reads_back
from npu_tui.rules.rule import (
    GRADES,
    LISTED,
    SEVERITY_HIGH,
    SEVERITY_MEDIUM,
    Draft,
    Rule,
    advise,
    cost_of,
    line_of,
    sentences,
    severity_of,
    stretches,
)
from npu_tui.trace.arrays import I64
from npu_tui.trace.classes import is_of_program
from npu_tui.trace.intervals import covered_within, union
from npu_tui.trace.kineto import runtime_calls, synchronized_lane
from npu_tui.trace.message import Message, Said, message
from npu_tui.trace.text import brief

_COPYING = frozenset({"aten::copy_", "aten::to", "aten::_to_copy"})
_MOST_SITES = 10
"""At most this many wait sites are replayed, the longest blocked first."""
# The setting that makes launches wait, by the prefix of the runtime's calls: ROCm, MUSA, and SYCL on Level Zero.
_SETTINGS = {"hi": "HIP_LAUNCH_BLOCKING=1", "mu": "MUSA_LAUNCH_BLOCKING=1", "ur": "UR_L0_SERIALIZE=2"}
_ENTRY_NS = 5_000  # the cost of one enqueue into the task queue of torch_npu

SYNC_LONG_US = Threshold("sync_long_us", 100.0)


def sync_host(facts: Facts) -> Draft | None:
    """SYNC.HOST: the host waits for the device, after which the device waits for the host."""
    limits, path = facts.limits, path_owners(facts)
    if (nothing := _waits_for_nothing_finding(facts)) is not None:
        return nothing
    share_held, held = held_launches(facts)
    if share_held > NEARLY_ALL:
        return _blocking_finding(facts, share_held, held)
    sites = () if path is None else path.waits
    waits, calls = np.concatenate([np.zeros(0, np.int64), *(site.items for site in sites)]), sync_calls(facts)
    # If calls are recorded, an ``aten::item`` that contains none did not wait: its value was on the host already.
    waits = np.intersect1d(waits, calls) if len(calls) else facts.begun(waits)
    if not len(waits):
        return None
    share_blocking = launch_blocking(facts)
    blocking = share_blocking > limits[SYNC_BLOCKING]
    change = Change(waits=frozenset(waits.tolist()))
    if blocking:
        change = _without_launch_waits(facts, change)
    # One wait a step is normal: a program keeps in step with the device, and a server reads back every token.
    few = facts.is_serving or len(waits) <= facts.count + 1
    if not blocking and not few:
        change |= _read_back(facts, waits)
    after, more, inner_only, engine = _credited_to_others(facts, change, few), None, False, facts.has_engine_steps
    credited, sites = facts.freed(change, after), _by_gain(facts, sites)
    if not (blocking or few) and (last := _at_ends(facts, sites, waits)) is not None:
        inner = np.setdiff1d(waits, last.items)
        own = facts.freed(within := Change(waits=frozenset(inner.tolist())), after) or 0
        # What a step begins with, such as its copies, is no merit of the wait that ends the one before.
        ahead = facts.freed(last.change or NO_CHANGE, after | without_all(facts, before_first_kernels(facts))) or 0
        if credited is not None and own >= min(HALF * credited, ahead) and own > 0:
            if own < NEARLY_ALL * credited:
                where = owner_text(facts.trace, last)
                more = message("finding.sync.with_last", where=where, each=facts.per_unit(credited))
            waits, change, credited, inner_only = inner, within, own, True
            sites = tuple(site for site in sites if site is not last)
    operations = _wait_operations(facts, waits)
    read, tests = (waits[:0], waits[:0]) if blocking else _made_for(facts, waits)
    tests = tests if len(tests) > HALF * len(operations) else tests[:0]
    if inner_only or len(tests):
        # What reads a value is gone with its wait, and what only finds it.
        reads = operations[facts.names_where(BLOCKING_OPERATIONS.__contains__)[facts.trace.slices.name[operations]]]
        change |= facts.without_operations(reads) | (Change(tasks=(TaskCut(read),)) if len(read) else NO_CHANGE)
        credited, more = facts.freed(change, after), None if len(tests) else more
    credited = None if credited is None else max(credited, 0)
    blocked = facts.on_device(facts.span_of(waits))
    removes = without(common(facts.lost, _dry_after_waits(facts)), _starts_without_wait(facts))
    lost = length_of(removes) if credited is None else credited
    least = limits[SEVERITY_HIGH] if few else limits[SEVERITY_MEDIUM]
    share = facts.share(lost)
    if not blocking and share < limits[SYNC_SHARE]:
        return None
    # The wait shows what launching takes too long for: most of the idle time does not begin as it ends.
    elsewhere = not reads_back(facts) and length_of(removes) < HALF * lost
    shown = few and (elsewhere or lost < max(launching_gains(facts), default=0))
    long = operations[facts.length(operations) >= limits[SYNC_LONG_US] * 1000]
    longest = int(operations[np.argmax(facts.length(operations))])
    parts = [
        message(
            "finding.sync.detail",
            count=len(operations), long=len(long), least=limits[SYNC_LONG_US] * 1000,
            blocked=length_of(facts.span_of(operations)),
            longest=int(facts.length(operations).max()), what=_waited_for(facts, longest),
        )
    ]  # fmt: skip
    title = message("finding.sync.title", each=facts.per_unit(lost))
    if sites and not blocking:
        below = _idle_in(facts, sites[0], waits)
        site = replace(sites[0], name=(_called_in(facts, sites[0]) if below is None else "") or sites[0].name)
        title = message(
            "finding.sync.title_at", chip=facts.chip, where=owner_text(facts.trace, site, below), **title.args
        )
    if len(tests):
        names = sorted({facts.name_of(item) for item in operation_of(facts.trace, tests).tolist()})
        words_of = {"names": names, "time": int(facts.length(tests).sum()) / facts.count, "unit": facts.unit}
        parts.append(message("finding.sync.tests", count=len(tests), **words_of))
        line = sites[0].where if sites else None
        at: Said = "" if line is None else message("finding.vertical.at", line=line_of(line))
        title = message("finding.sync.title_tests", names=names, at=at, **title.args)
    sized = not blocking and bool(sites) and sites[0].name in SIZED_OPERATIONS
    if sized:
        parts.append(message("finding.sync.sized", name=short_call(sites[0].name)))
    if more is not None:
        parts.append(more)
    if blocking:
        is_set = "_set" * blocking_is_set(facts)
        parts.append(message(f"finding.sync.blocking{is_set}", share=share_blocking, setting=_blocking_variable(facts)))
    elif reads_back(facts):
        start, end = span_of(facts, change_of(works(facts)["HOST.PAUSE"]))
        parts.append(message("finding.sync.silent", time=float(np.median(end - start))))
    rarely = "inference" if facts.is_serving else "metrics_rarely"
    way = "copy_back" if goes_back(facts) else "non_blocking"
    advice = advise(*(("non_blocking", "copy_back") if _copy_tensors(facts, long) else (rarely, way)))
    if blocking:
        advice = (*_advice_to_unset(facts), *advice)
    if len(tests):
        advice = advise("anomaly")
    elif sized:
        advice = advise("fixed_shape")
    return Draft(
        "high" if blocking else severity_of(limits, share) if share >= least else "info",
        title,
        sentences(*parts),
        facts.longest(operations, lambda item: message("finding.sync.place", what=_waited_for(facts, item))),
        advice,
        removes,
        change=change,
        first=blocking,
        most=credited,
        shown=blocked,
        # An engine waits once a step to read its tokens: the work after that wait is a better candidate for the cause.
        # Without waits within a step the host does not run ahead of everything: they explain what is late.
        reach="cause" if inner_only else None if blocking else "broad" if shown else "place" if engine else None,
        code_lines=tuple(dict.fromkeys(site.where for site in sites if site.where is not None))[:LISTED],
    )


def waits_for_nothing(facts: Facts) -> tuple[I64, Span]:
    """The calls that block the host after everything recorded of the device has ended; what they wait for is unknown.

    Returns the slices, (n,), and from when to when each waits for nothing, on the device's clock, ns, (n,) each.
    """
    calls, slices, busy = sync_calls(facts), facts.trace.slices, facts.busy
    if not len(calls) or sum(layer.kind == "hardware" for layer in facts.trace.layers) > 1:  # waits for another one?
        return calls[:0], NOTHING
    low, high = (times.astype(np.int64) for times in facts.on_device((slices.start[calls], slices.end[calls])))
    since = np.maximum(low, np.append(busy[1], low.min())[np.searchsorted(busy[0], high) - 1])
    chosen = high - since >= WORK_NS
    return calls[chosen], (since[chosen], high[chosen])


def blocked_for_nothing(facts: Facts) -> Message | None:
    """The verdict that calls block the host for a notable part of the recording while the device is idle; else None."""
    calls, (since, until) = waits_for_nothing(facts)
    time, whole = length_of(union(since, until)), facts.trace.end
    if time < NOTABLE * whole:
        return None
    name = short_call(facts.name_of(int(calls[np.argmax(until - since)]), 60))
    words = {"name": name, "each": facts.per_unit(time), "share": time / whole}
    return message("finding.sync.nothing_verdict", **words)


def _waits_for_nothing_finding(facts: Facts) -> Draft | None:
    """The finding about calls that block the host while nothing recorded runs on the device."""
    calls, (since, until) = waits_for_nothing(facts)
    if not len(calls):
        return None
    removes = common(facts.lost, union(since, until))
    time, floor = length_of(removes), facts.floor
    share = facts.share(time)
    if share < facts.limits[SEVERITY_MEDIUM]:
        return None
    name = short_call(facts.name_of(int(calls[np.argmax(until - since)]), 60))
    words: dict[str, Said | int] = {"name": name, "count": len(calls), "time": time, "each": facts.per_unit(time)}
    return Draft(
        severity_of(facts.limits, share),
        message("finding.sync.nothing_title", **words),
        message("finding.sync.nothing", share=share, **words),
        facts.longest(calls, lambda item: message("finding.sync.place_nothing")),
        advise("sync_elsewhere"),
        removes,
        change=Change(host=(HostCut(ANY_THREAD, union(since - int(floor), until - int(floor)), 0.0),)),
        confidence="medium",
    )


def _read_back(facts: Facts, waits: I64) -> Change:
    """The run without the copies to the host that ``waits`` end with: what is not read back is not waited for.

    Those that work of the host reads, or writes, belong to that; copies of unknown direction may be those of a batch.
    """
    if not goes_back(facts):
        return NO_CHANGE
    worked = [cut.items for draft in host_work(facts) for cut in (draft.change or NO_CHANGE).tasks]
    copies = np.setdiff1d(waited_copies(facts), np.concatenate((copies_to_device(facts), *worked)))
    start, end = facts.on_device(facts.span_of(waits))
    copies = copies[inside((start, end + 1), facts.trace.slices.end[copies])]
    return Change(tasks=(TaskCut(copies),)) if len(copies) else NO_CHANGE


def _wait_operations(facts: Facts, waits: I64) -> I64:
    """The synchronising operations around ``waits``, and those of them that no such operation encloses."""
    slices, operations = facts.trace.slices, sync_operations(facts)
    begun = np.sort(slices.start[waits])
    around = np.searchsorted(begun, slices.end[operations]) > np.searchsorted(begun, slices.start[operations])
    operations = operations[around]
    return np.union1d(operations, waits[~inside(facts.span_of(operations), slices.start[waits])])


def _called_in(facts: Facts, site: Owner) -> str:
    """The function of a library that the line of ``site`` calls and that waits, such as one that gathers objects.

    Empty where the line calls an operation itself, or that is unknown.
    """
    slices, longest = facts.trace.slices, int(site.items[np.argmax(facts.length(site.items))])
    start, end = int(slices.start[longest]), int(slices.end[longest])
    frames = facts.named(("python",), is_frame)
    tid = np.array([lane.tid for lane in facts.trace.lanes])
    frames = frames[(slices.start[frames] <= start) & (slices.end[frames] >= end)]
    frames = frames[tid[slices.lane[frames]] == tid[slices.lane[longest]]]
    names = [facts.name_of(item) for item in frames[np.argsort(-facts.length(frames), kind="stable")].tolist()]
    own = [at for at, name in enumerate(names) if (line := user_line(name)) is not None and is_of_program(line.file)]
    return names[own[-1] + 1] if own and own[-1] + 1 < len(names) and site.where is not None else ""


def _idle_in(facts: Facts, site: Owner, waits: I64) -> CodeLine | None:
    """Where a library below the line of ``site`` waits; the device is idle most from there to the next of ``waits``."""
    trace, slices = facts.trace, facts.trace.slices
    if site.where is None:
        return None
    waits = waits[np.argsort(slices.start[waits], kind="stable")]
    begun = np.append(slices.start[waits], trace.end)
    idle = covered_within(*facts.lost, *facts.on_device((begun[:-1], begun[1:])))
    mine = np.isin(waits, site.items)
    asking = operations_around(trace, slices.lane[waits[mine]].astype(np.int64), slices.start[waits[mine]])
    return library_line(trace, site.where, stack_of(trace, asking), idle[mine])


def _by_gain(facts: Facts, sites: tuple[Owner, ...]) -> tuple[Owner, ...]:
    """The ``_MOST_SITES`` of ``sites`` with the longest waits, sorted by what the run gains without each."""
    longest = sorted(sites, key=lambda site: -int(facts.length(site.items).sum()))[:_MOST_SITES]
    return tuple(sorted(longest, key=lambda site: -(facts.freed(site.change or NO_CHANGE) or 0)))


_TESTING = frozenset({"aten::isnan", "aten::isinf", "aten::isfinite", "aten::any", "aten::all", "aten::ne", "aten::eq"})
"""Operations that test values: what they find is read on the host where it decides what the program does."""


def _made_for(facts: Facts, waits: I64) -> tuple[I64, I64]:
    """The kernels that only find what one of ``waits`` reads: launched right before it, by what tests or counts values.

    And those of them that test, where what counts them is not what is read.
    """
    device = facts.part.slices
    if facts.launches is None or device is None:
        return waits[:0], waits[:0]
    slices, asked = facts.trace.slices, operation_of(facts.trace, facts.target)
    testing, finding = (
        facts.names_where(names.__contains__)[slices.name] for names in (_TESTING, _TESTING | SIZED_OPERATIONS)
    )
    around = Around(facts.trace, finding).find(slices.lane[asked], slices.start[asked], slices.end[asked])
    outer = np.where((asked >= 0) & finding[asked], asked, around)  # a launch is that of the aclnnAny in an aten::any
    tests = outer >= 0
    tid = np.array([lane.tid for lane in facts.trace.lanes] + [-1])
    thread = np.concatenate((tid[slices.lane[asked]], tid[slices.lane[waits]]))
    time = np.concatenate((slices.start[asked], slices.start[waits]))
    order = np.lexsort((time, thread))
    # What follows on its thread that is no test, nor the copy that is waited for: a wait reads the tests before it.
    others = np.concatenate((~tests & ~device.copy[facts.target], np.ones(len(waits), np.bool_)))
    other = np.flatnonzero(others[order])
    at = np.flatnonzero(np.append(tests, np.zeros(len(waits), np.bool_))[order])
    following = np.searchsorted(other, at)
    at, following = at[following < len(other)], other[following[following < len(other)]]
    chosen = (order[following] >= len(asked)) & (thread[order[following]] == thread[order[at]])
    found, read = order[at[chosen]], following[chosen]
    counted = read[~testing[outer[found]]]
    tests = testing[outer[found]] & ~np.isin(read, counted)
    return facts.target[np.sort(found)], facts.target[np.sort(found[tests])]


def _at_ends(facts: Facts, sites: tuple[Owner, ...], waits: I64) -> Owner | None:
    """The one of several ``sites`` whose ``waits`` are the last one of each step, as it keeps in step with the device.

    Without it the host runs ahead into the next step, which hides what it does there too.
    """
    if len(sites) < 2 or not facts.steps or not facts.whole_steps:
        return None
    start, end = facts.trace.slices.start, facts.trace.slices.end
    steps = np.array([step.item for step in facts.steps], np.int64)
    waits = waits[np.argsort(start[waits])]
    at = np.unique(np.searchsorted(start[waits], np.append(start[steps[1:]], end[steps[-1]])) - 1)
    last = waits[at[at >= 0]]
    return next((site for site in sites if np.array_equal(np.sort(last), np.intersect1d(site.items, waits))), None)


def _credited_to_others(facts: Facts, change: Change, few: bool) -> Change:
    """The run without what the waits of ``change`` get no credit for.

    A host that does not wait runs ahead, which hides its other work too. The waits get no credit for that work if it
    is unrecorded, if another process held the CPU, if the waits are ``few``, or if removing the work alone gains
    nearly as much. They get it for what the program does with a value that it has just read back.
    """
    found = works(facts)
    stolen = cpu(facts)
    after = NO_CHANGE if reads_back(facts) else change_of(found["HOST.PAUSE"])
    after |= facts.without_work(facts.unasked)
    after |= (stolen.change or NO_CHANGE) if isinstance(stolen, Draft) else NO_CHANGE
    work = change_of(tuple(owner for rule, own in found.items() if rule != "HOST.PAUSE" for owner in own))
    alone, gain = facts.freed(work, after) or 0, facts.freed(change, after) or 0
    return after if not few and alone < NEARLY_ALL * gain else after | work


def _copy_tensors(facts: Facts, waits: I64) -> bool:
    """Whether most of ``waits`` copy tensors rather than read scalars."""
    copying = facts.span_of(facts.named(("python", "other"), _COPYING.__contains__))
    return 2 * int(np.count_nonzero(inside(copying, facts.trace.slices.start[waits]))) > len(waits)


def _blocking_variable(facts: Facts) -> str:
    """The environment variable that makes every launch block, with its value."""
    calls = {facts.trace.names[code][:2] for code in np.unique(facts.trace.slices.name[runtime_calls(facts.trace)])}
    return next((setting for start, setting in _SETTINGS.items() if start in calls), facts.recorder.blocking)


def _advice_to_unset(facts: Facts) -> tuple[Message, ...]:
    return advise(facts.recorder.word("launch_blocking"))


def _blocking_finding(facts: Facts, share: float, change: Change) -> Draft:
    """The finding for launches that block until their kernel ends; it needs no recorded calls of the runtime.

    If the host did not wait it would run ahead, and no launch would be late. The gain is capped by the time it waited.
    """
    waited = sum(length_of(cut.span) for cut in change.host)
    change |= Change(waits=frozenset(waits_after_launches(facts, sync_calls(facts)).tolist()))
    change |= facts.without_work(facts.lost)
    cost = min(cost_of(facts, change, facts.lost), waited)
    words = {"share": share, "cost": cost / facts.count, "unit": facts.unit, "step": facts.step_ns}
    words |= {"setting": _blocking_variable(facts)}
    is_set = message("finding.sync.blocking_set") if blocking_is_set(facts) else ""
    return Draft(
        "high",
        message("finding.sync.title_held", **words),
        sentences(message("finding.sync.held", **words), is_set),
        stretches(largest(facts.lost), "Free", "finding.stage.place"),
        _advice_to_unset(facts),
        facts.lost,
        verdict=message("finding.sync.title_held", **words),
        change=change,
        first=True,
        most=cost,
    )


def _without_launch_waits(facts: Facts, change: Change) -> Change:
    """The change that removes the wait after each launch; the program's own waits stay.

    If no wait after a launch is recorded, that is ``change``.
    """
    calls = sync_calls(facts)
    waits = waits_after_launches(facts, calls)
    unwaited = Change(waits=frozenset(waits.tolist())) if len(waits) else change
    return unwaited | queued(facts, calls)


def queued(facts: Facts, waits: I64) -> Change:
    """The change that a task queue makes: launching moves to a second thread, beside Python, so the shorter is free.

    No change if the program has a task queue already. ``waits`` are calls that do not launch.
    """
    if len(enqueue_slices(facts.trace)):
        return NO_CHANGE
    calls = np.setdiff1d(launching_calls(facts), waits)
    launching = facts.span_of(calls)
    if not len(launching[0]):
        return NO_CHANGE
    around = launching[0][:1], launching[1][-1:]
    python = without(without(around, launching), facts.span_of(waits))
    less = launching if length_of(launching) < length_of(python) else python
    operations = operation_of(facts.trace, facts.target)  # one entry an operation, however many calls it makes
    entries = len(np.unique(operations[operations >= 0])) or len(calls)
    keep = min(entries * _ENTRY_NS / length_of(less), 1.0) if length_of(less) else 0.0
    return Change(host=(HostCut(ANY_THREAD, less, keep),))


def _waited_for(facts: Facts, item: int) -> Message:
    """What the device did while the host waited in ``item``."""
    device, slices = facts.part.slices, facts.trace.slices
    if device is None:
        return message("finding.sync.waited.nothing")
    low, high = int(slices.start[item]) + facts.floor, int(slices.end[item]) + facts.floor
    best, words = 0, message("finding.sync.waited.nothing")
    lane: int | None = None
    with suppress(InputError):  # the stream is an arg, and the trace file may be gone
        lane = synchronized_lane(facts.trace, item)
    for until in (high, facts.trace.end):  # work that goes on after the wait was hardly its target
        for kind, items, begun, reach in _device_work(facts):
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
def _device_work(facts: Facts) -> list[tuple[str, I64, I64, I64]]:
    """Per kind of work: its word in messages, its slices by start, their starts, the running maximum of their ends."""
    device, slices = facts.part.slices, facts.trace.slices
    assert device is not None
    rows = []
    masks = (("compute", device.compute), ("communication", device.collective), ("copy", device.copy))
    for kind, mask in masks:
        items = np.flatnonzero(mask)
        items = items[np.argsort(slices.start[items], kind="stable")]
        rows.append((kind, items, slices.start[items], np.maximum.accumulate(slices.end[items])))
    return rows


def _dry_after_waits(facts: Facts) -> Span:
    """When the device was dry after a wait of the host."""
    drained = facts.drains.of("sync")
    return drained.start.astype(np.int64), drained.end.astype(np.int64)


def _starts_without_wait(facts: Facts) -> Span:
    """From each start of a step that no wait preceded to its first kernel: that loss is of the step, not of a wait."""
    start, end = before_first_kernels(facts)
    before = inside(_dry_after_waits(facts), start)
    return start[~before], end[~before]


RULES: tuple[Rule, ...] = (
    Rule(
        "SYNC.HOST",
        cls="dispatch",
        inputs=("device", "overlap", "links"),
        check=sync_host,
        thresholds=(SYNC_SHARE, SYNC_BLOCKING, SYNC_LONG_US, *GRADES),
        advice=(
            "metrics_rarely",
            "fixed_shape",
            "copy_back",
            "non_blocking",
            "launch_blocking",
            "launch_blocking_gpu",
            "inference",
            "sync_elsewhere",
            "anomaly",
        ),
        gpu=(
            "metrics_rarely",
            "fixed_shape",
            "copy_back",
            "non_blocking",
            "launch_blocking_gpu",
            "sync_elsewhere",
            "anomaly",
        ),
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
    ),
)
