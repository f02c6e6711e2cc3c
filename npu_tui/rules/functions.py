"""What belongs to one work of the host: a function with all that it does, or operators and copies around them.

A function is the deepest one that holds nearly all of what could go with it: those around it add nothing. Operators
without a line that a host works through one after another are one piece of work where nothing is launched. Copies
belong to it if it works on them, or if they take out its result.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.code_lines import CodeLine, called_lines, library_line, own_lines, stack_of, user_line
from npu_tui.analysis.launches import Around, operation_of
from npu_tui.analysis.limits import ALMOST_ALL, AWAKE_NS, COPY_NS, HALF, NOTABLE
from npu_tui.analysis.path import Owner
from npu_tui.analysis.replay import NO_CHANGE, Change, HostCut, TaskCut
from npu_tui.rules.blame import waited_copies
from npu_tui.rules.facts import Facts, once_per_device
from npu_tui.rules.inputs import Span, inside, length_of, together, without
from npu_tui.rules.rule import line_of, ranked
from npu_tui.trace.arrays import F64, I64, Bools, BySlice
from npu_tui.trace.intervals import union
from npu_tui.trace.message import Said

Function = tuple[str, str]
"""A file without its folders, which frames leave out and call stacks do not, and a function in it."""


def function_of(line: CodeLine) -> Function:
    """The function that ``line`` is in."""
    return line.file.replace("\\", "/").rpartition("/")[2], line.function


def line_within(facts: Facts, line: CodeLine, operations: I64, weight: I64 | F64) -> Said:
    """``line``, with the place in a library where it has most of the ``weight`` of ``operations`` (-1: none); (n,)."""
    return line_of(line, library_line(facts.trace, line, stack_of(facts.trace, operations), weight))


@once_per_device
def _of_stacks(facts: Facts) -> list[tuple[Function, ...]]:
    """The functions of the user and of libraries in each call stack, the innermost first."""
    return [tuple(map(function_of, called_lines(stack))) for stack in facts.trace.stacks]


def stacks_of_launches(facts: Facts, items: I64) -> I64:
    """The call stack of the operation that launched each of ``items`` of the device, -1 without one; (n,)."""
    operation = operation_of(facts.trace, items)
    stack = np.full(len(items), -1, np.int64)
    stack[operation >= 0] = stack_of(facts.trace, operation[operation >= 0])
    return stack


def within(facts: Facts, function: Function, stack: I64) -> Bools:
    """Which of the call stacks ``stack`` (-1: none) ``function`` is in; (n,)."""
    return np.array([*(function in row for row in _of_stacks(facts)), False], np.bool_)[stack]


def _begun_in(facts: Facts, function: Function, items: I64) -> Bools:
    """Which of ``items`` were launched in frames of ``function``, as far as is known; (n,)."""
    frames = frames_of(facts, function)
    tasks = facts.tasks
    if tasks is None or not len(frames):
        return np.ones(len(items), np.bool_)
    task = BySlice(tasks.item, np.arange(len(tasks.item))).of(items)
    launched = np.where(task >= 0, tasks.launched[task], -1)
    return (launched < 0) | inside(facts.span_of(frames), launched)


def functions_around(facts: Facts, stack: int) -> tuple[Function, ...]:
    """The functions of the user and of libraries in a call stack, the innermost first."""
    return _of_stacks(facts)[stack] if stack >= 0 else ()


def deepest(functions: Sequence[Function], sizes: Sequence[float]) -> Function | None:
    """The first of ``functions``, innermost first, that has nearly all of what the last one has; None of none."""
    return next((each for each, size in zip(functions, sizes, strict=True) if size >= ALMOST_ALL * sizes[-1]), None)


def without_passes(facts: Facts, items: I64, kernels: Bools) -> Function | None:
    """The function that launches all of ``items`` and no kernel but ``kernels`` (a mask), with those it calls; or None.

    Among several the deepest that holds nearly all of what the outermost does, on the host and on the device. It
    launches no collectives either.
    """
    stack, met = (stacks_of_launches(facts, each) for each in (facts.kernels, facts.collectives.item))
    own = np.unique(stacks_of_launches(facts, items))
    if not len(items) or own[0] < 0:
        return None
    chain: list[Function] = []
    sizes: list[float] = []
    for function in functions_around(facts, int(own[0])):
        there = within(facts, function, stack)
        if not kernels[there].all() or within(facts, function, met).any():
            break
        if within(facts, function, own).all():
            chain.append(function)
            held = facts.span_of(frames_of(facts, function))
            sizes.append(length_of(held) + float(facts.length(facts.kernels[there]).sum()))
    return deepest(chain, sizes) if chain else None


def frames_of(facts: Facts, function: Function) -> I64:
    """The frames of ``function`` on the host, none inside another."""
    return facts.outermost(facts.named(("python", "other"), lambda name: _is_of(name, function)))


def by_function(facts: Facts, owners: Sequence[Owner], beside: Sequence[Owner]) -> list[Owner]:
    """``owners`` of host work with those of one function as one, with the copies that it makes.

    A function that launches kernels of a notable length, or collectives, is left out: it does more than hold
    up the host. Unrecorded work ``beside`` the owners of a function is counted with them if it is less than they are.
    """
    device = facts.part.slices
    if device is None or not len(facts.trace.stacks):
        return list(owners)
    copies = np.flatnonzero(device.copy & facts.window.holds(facts.trace.slices.start))
    launched = [(items, stacks_of_launches(facts, items)) for items in (copies, facts.kernels, facts.collectives.item)]
    known: dict[Function, float | None] = {}
    around = {id(owner): _functions(owner) for owner in (*owners, *beside)}

    def copied(function: Function) -> I64:
        items, stack = launched[0]
        return items[within(facts, function, stack)]

    def inner(function: Function, rows: Sequence[Owner]) -> list[Owner]:
        return [owner for owner in rows if function in around[id(owner)]]

    def silent(function: Function) -> list[Owner]:
        """What nothing records beside more that is recorded."""
        found = inner(function, beside)
        return found if sum(map(_work_of, found)) <= sum(map(_work_of, inner(function, owners))) else []

    def size(function: Function) -> float | None:
        """How much time could go with ``function``, ns; None where it does more than that."""
        if function not in known:
            time = sum(map(_work_of, inner(function, owners))) + sum(map(_work_of, silent(function)))
            time += length_of(without(facts.span_of(copied(function)), facts.working))
            kernels, collectives = (
                items[within(facts, function, stack) | ((stack < 0) & _begun_in(facts, function, items))]
                for items, stack in launched[1:]
            )
            more = len(collectives) or int(facts.length(kernels).sum()) > NOTABLE * time
            known[function] = None if more else float(time)
        return known[function]

    rows: dict[Function | int, list[Owner]] = {}
    for owner in owners:
        chain: list[tuple[Function, float]] = []
        for function in around[id(owner)]:
            if (time := size(function)) is None:
                break
            chain.append((function, time))
        place = deepest([function for function, _ in chain], [time for _, time in chain])
        rows.setdefault(id(owner) if place is None else place, []).append(owner)
    found = []
    for key, own in rows.items():
        if not isinstance(key, tuple) or (len(own) == 1 and _work_of(own[0]) >= (1 - NOTABLE) * (known[key] or 0)):
            found += own
        else:
            found.append(_as_function(key, own, silent(key), copied(key)))
    return found


def waited_before(facts: Facts, owner: Owner, sites: Sequence[Owner]) -> Owner | None:
    """The one of ``sites`` where the function of ``owner`` waits for the device right before most of its work, or None.

    The device is done then, and idle for as long as the work takes.
    """
    own, most, found = _functions(owner)[:1], HALF * _work_of(owner), None
    for site in sites:
        if site.where is None or (function_of(site.where),) != own:
            continue
        ends = np.sort(facts.trace.slices.end[site.items])
        behind = 0
        for cut in (owner.change or NO_CHANGE).host:
            start, end = cut.span
            at = np.searchsorted(ends, start, "right") - 1
            follows = (at >= 0) & (start - ends[np.maximum(at, 0)] <= AWAKE_NS)
            behind += int((end - start)[follows].sum())
        if behind > most:
            most, found = behind, site
    return found


def called_from(facts: Facts, operations: I64) -> tuple[CodeLine, ...]:
    """The frames of the user within which most of ``operations`` run, on whatever thread; the innermost of each."""
    trace, slices = facts.trace, facts.trace.slices
    frames = facts.named(("python", "other"), lambda name: user_line(name) is not None)
    counts: dict[CodeLine, int] = {}
    for lane in np.unique(slices.lane[frames]).tolist():
        every = Around(trace, np.sort(frames[slices.lane[frames] == lane]))
        at = every.find(np.full(len(operations), lane, np.int32), slices.start[operations], slices.end[operations])
        for frame in at[at >= 0].tolist():
            line = user_line(trace.name_of(frame))
            if line is not None:
                counts[line] = counts.get(line, 0) + 1
    return tuple(line for line, _ in ranked(counts))


def _work_of(owner: Owner) -> int:
    """How long the host works for ``owner``, on the path or not, ns."""
    return sum(length_of(cut.span) for cut in (owner.change or NO_CHANGE).host)


def _functions(owner: Owner) -> tuple[Function, ...]:
    """The functions of the user around the work of ``owner``, the innermost first."""
    called = [function_of(line) for line in map(user_line, owner.calls) if line is not None]
    own = () if owner.where is None else (function_of(owner.where),)
    # What a library does for the line is inside its function.
    return tuple(dict.fromkeys((*called, *own) if own and own[0] in called else (*own, *called)))


def _as_function(function: Function, owners: Sequence[Owner], beside: Sequence[Owner], copies: I64) -> Owner:
    """All that ``owners`` do in ``function`` as one owner, with what is ``beside`` them and the ``copies`` it makes.

    What it calls for most of that time stays the innermost of its calls.
    """
    first, change = owners[0], Change(tasks=(TaskCut(copies),)) if len(copies) else NO_CHANGE
    for owner in (*owners, *beside):
        change |= owner.change or NO_CHANGE
    at = next((at for at, call in enumerate(first.calls) if _is_of(call, function)), None)
    name, calls = (
        (first.name, first.calls) if at is None else (first.calls[at], (*((first.name,) * (at > 0)), *first.calls[at:]))
    )
    where = first.where if at is None else user_line(name)
    items = np.unique(np.concatenate([owner.items for owner in owners]))
    on_path = sum(owner.on_path for owner in (*owners, *beside))
    return replace(first, name=name, where=where, calls=calls, change=change, items=items, on_path=on_path)


def _is_of(call: str, function: Function) -> bool:
    return (line := user_line(call)) is not None and function_of(line) == function


def in_one_stretch(facts: Facts, owners: tuple[Owner, ...]) -> dict[int, int]:
    """The number of the first of ``owners`` beside which each operator works, where no frames of Python are recorded.

    Both do most of their work between the same two launches of their thread, so that one thing comes of them.
    """
    if facts.tasks is None or "python_function" in facts.trace.categories:
        return {}
    launched, groups = np.unique(facts.tasks.launched), dict[int, dict[tuple[int, int], int]]()
    first: dict[int, int] = {}
    for number, owner in enumerate(owners):
        if owner.where is not None or "::" not in owner.name or len(owner.calls) > 1:
            continue
        own = _times(launched, owner.change or NO_CHANGE)
        least = HALF * sum(own.values())
        shared = (at for at, times in groups.items() if sum(own[key] for key in own.keys() & times) > least)
        first[number] = at = next(shared, number)
        groups[at] = own | groups.get(at, {})
    return first


def _times(launched: I64, change: Change) -> dict[tuple[int, int], int]:
    """How long ``change`` is at work between two launches, by thread and how many were made before, ns."""
    times: dict[tuple[int, int], int] = {}
    for cut in change.host:
        start, end = cut.span
        for at, time in zip(np.searchsorted(launched, end).tolist(), (end - start).tolist(), strict=True):
            times[cut.thread, at] = times.get((cut.thread, at), 0) + time
    return times


def whole_stretches(facts: Facts, change: Change, others: Span) -> Change:
    """``change`` with what lies between its parts where nothing is launched and they are most of it; not ``others``.

    Where no frames are recorded that is what the program does there.
    """
    if facts.tasks is None:
        return change
    launched, cuts = np.unique(facts.tasks.launched), []
    for thread in {cut.thread for cut in change.host}:
        start, end = together(*(cut.span for cut in change.host if cut.thread == thread))
        at = np.unique(np.searchsorted(launched, end), return_inverse=True)[1]
        first = np.flatnonzero(np.append(True, np.diff(at) > 0))
        low, high = start[first], np.maximum.reduceat(end, first)
        most = np.bincount(at, end - start) > HALF * (high - low)
        cuts.append(HostCut(thread, together((start, end), without(union(low[most], high[most]), others))))
    return change | Change(host=tuple(cuts))


def read_before(facts: Facts, owner: Owner, work: Span) -> I64:
    """The copies to the host that it waits for right before the work in ``work``: what that works on.

    With those that the function of ``owner`` waits for right before these, one after another.
    """
    every = right_before(facts, work), waited_copies(facts)
    read, waited = (np.setdiff1d(copies, copies_to_device(facts)) for copies in every)
    waited = np.union1d(_copied_by(facts, owner, waited), read)
    waited = waited[np.argsort(facts.trace.slices.start[waited], kind="stable")]
    gap = facts.trace.slices.start[waited[1:]] - facts.trace.slices.end[waited[:-1]]
    batch = np.cumsum(np.append(0, gap >= COPY_NS))[: len(waited)]
    return np.sort(waited[np.isin(batch, batch[np.isin(waited, read)])])


def right_before(facts: Facts, work: Span) -> I64:
    """The copies that the host waits for right before the work in ``work``; ascending."""
    copies, begins = waited_copies(facts), np.sort(work[0])
    ended = facts.trace.slices.end[copies]
    following = np.append(begins, np.iinfo(np.int64).max)[np.searchsorted(begins, ended)]
    return np.sort(copies[following - ended < COPY_NS])


def sent_after(facts: Facts, owner: Owner, work: Span) -> I64:
    """The copies to the device that the function of ``owner`` makes right after its work: what comes out of that."""
    copies, ends = copies_to_device(facts), np.sort(work[1])
    if not len(ends):
        return copies[:0]
    begun = facts.trace.slices.start[copies]
    at = np.searchsorted(ends, begun, "right") - 1
    return _copied_by(facts, owner, copies[(at >= 0) & (begun - ends[at] < COPY_NS)])


def _copied_by(facts: Facts, owner: Owner, copies: I64) -> I64:
    """Those of ``copies`` that the function of ``owner`` makes."""
    lines, own = own_lines(facts.trace, operation_of(facts.trace, copies)), owner.where
    mine = [own is not None and line is not None and line.function == own.function for line in lines]
    return copies[np.array(mine, np.bool_)]


def copies_to_device(facts: Facts) -> I64:
    """The copies of the window that are known to go to the device; ascending."""
    copied = facts.inputs.copies()
    to_device = np.array([way.startswith("host to device") for way in copied.ways] + [False])
    items = np.sort(copied.item[to_device[copied.way]])
    return items[facts.window.holds(facts.trace.slices.start[items])]
