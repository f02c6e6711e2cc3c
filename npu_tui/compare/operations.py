"""Host operations and code lines of two profiles matched, and how far one side is behind at each operation.

Threads are matched by role, never by id. Top-level operations are matched as sequences, then the children of every
matched pair among themselves, level by level.

Of code lines it says what launching from each cost, also where the line has moved.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.alignment import matched
from npu_tui.analysis.code_lines import CodeLine
from npu_tui.analysis.launches import Around
from npu_tui.compare.steps import StepWindow
from npu_tui.trace.arrays import I64
from npu_tui.trace.classes import names_step
from npu_tui.trace.model import FORWARD_BACKWARD, Trace

_OPERATION = "cpu_op"
_AS_MANY = 0.98
"""Share of what names alone match that shapes must leave."""
_ENGINE = "autograd::engine"


class Operations(Struct, frozen=True):
    """The operations of one step; (n,) each, by role of the thread, then by start, the outer one first.

    ``item`` are slices, ``parent`` positions in these arrays (-1 at the top), ``role`` numbers the threads.
    """

    item: I64
    name: list[str]
    role: I64
    parent: I64
    level: I64

    def __len__(self) -> int:
        return len(self.item)


class Replacement(Struct, frozen=True):
    """Neighbouring operations of one level that only one side has, between two matches; positions, ascending."""

    base: I64
    new: I64


class OperationMatch(Struct, frozen=True):
    """Positions in the ``Operations`` of both sides that belong together, and what was replaced by what."""

    base: I64
    new: I64
    replaced: list[Replacement]

    def share(self, base: Operations, new: Operations) -> float | None:
        """How much of both sides is matched, 0...1; None where neither has an operation."""
        total = len(base) + len(new)
        return 2 * len(self.base) / total if total else None


def operations(trace: Trace, low: int, high: int) -> Operations:
    """The operations of the framework that start in ``[low, high)``."""
    chosen = np.zeros(len(trace.slices), np.bool_)
    if _OPERATION in trace.categories:
        start = trace.slices.start
        named = np.array([not names_step(name) for name in trace.names] + [False])
        chosen = (trace.slices.category == trace.categories.index(_OPERATION)) & (start >= low) & (start < high)
        chosen &= named[trace.slices.name]
    around = Around(trace, chosen)
    parent = around.parents()
    role_of = _roles(trace, chosen)
    role = role_of[around.lane]
    order = np.argsort(role, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    parent = np.where(parent >= 0, place[np.maximum(parent, 0)], -1)[order]
    names = [trace.names[code] for code in trace.slices.name[around.items[order]].tolist()]
    return Operations(around.items[order], names, role[order], parent, _levels(parent))


def _roles(trace: Trace, chosen: npt.NDArray[np.bool_]) -> I64:
    """For each lane its role: 0 main thread, 1 autograd, from 2 on the others by their first operation; -1 none."""
    slices, links = trace.slices, trace.links
    lanes = np.unique(slices.lane[chosen]).tolist()
    role = np.full(len(trace.lanes) + 1, -1, np.int64)
    if not lanes:
        return role
    count = np.bincount(slices.lane[chosen], minlength=len(trace.lanes))
    steps = np.array([names_step(name) for name in trace.names] + [False])
    holding = np.bincount(slices.lane[steps[slices.name]], minlength=len(trace.lanes))
    ways = trace.links_of(FORWARD_BACKWARD)
    ends = links.target_lane[ways]
    backward = np.bincount(ends[ends >= 0], minlength=len(trace.lanes))
    if not backward.any():  # not every profiler writes these links
        engine = np.array([name.startswith(_ENGINE) for name in trace.names] + [False])
        backward = np.bincount(slices.lane[chosen & engine[slices.name]], minlength=len(trace.lanes))
    main = max(lanes, key=lambda lane: (holding[lane], count[lane], -lane))
    rest = [lane for lane in lanes if lane != main]
    autograd = max(rest, key=lambda lane: (backward[lane], -lane), default=None)
    role[main] = 0
    if autograd is not None and backward[autograd]:
        role[autograd] = 1
        rest.remove(autograd)
    first = {lane: int(slices.start[chosen & (slices.lane == lane)].min()) for lane in rest}
    for number, lane in enumerate(sorted(rest, key=lambda lane: first[lane]), 2):
        role[lane] = number
    return role


def _levels(parent: I64) -> I64:
    level = np.zeros(len(parent), np.int64)
    above = parent.copy()
    while (open_ := above >= 0).any():
        level[open_] += 1
        above[open_] = parent[above[open_]]
    return level


def match_operations(base: Operations, new: Operations) -> OperationMatch:
    """The operations of ``base`` and ``new`` that are the same by name and place."""
    return _matched_by(base, new, None)


def refined(
    match: OperationMatch, base: Operations, new: Operations, shapes: tuple[Sequence[str], Sequence[str]]
) -> OperationMatch:
    """``match`` with operations of equal ``shapes`` matched before those that have the name alone in common.

    Where that finds fewer, as with another batch size, the shapes say nothing.
    """
    codes: dict[str, int] = {}
    codes_of = [np.array([codes.setdefault(shape, len(codes)) for shape in side], np.int64) for side in shapes]
    finer = _matched_by(base, new, codes_of)
    return finer if len(finer.base) >= _AS_MANY * len(match.base) else match


def _matched_by(base: Operations, new: Operations, shapes: list[I64] | None) -> OperationMatch:
    codes: dict[str, int] = {}
    names = [np.array([codes.setdefault(name, len(codes)) for name in side.name], np.int64) for side in (base, new)]
    pair_of = [np.full(len(side) + 1, -1, np.int64) for side in (base, new)]
    matches: list[tuple[I64, I64]] = []
    replaced: list[Replacement] = []
    pairs = 0
    for level in range(1 + min((int(side.level.max()) if len(side) else -1) for side in (base, new))):
        level_of = [np.flatnonzero(side.level == level) for side in (base, new)]
        # Children match only within the pair their parents make, top-level operations within one role.
        frame = [
            side.role[at] if level == 0 else pair_of[k][side.parent[at]]
            for k, (side, at) in enumerate(zip((base, new), level_of, strict=True))
        ]
        level_of = [at[inside >= 0] for at, inside in zip(level_of, frame, strict=True)]
        frame = [inside[inside >= 0] for inside in frame]
        order = [np.argsort(inside, kind="stable") for inside in frame]
        level_of = [at[by] for at, by in zip(level_of, order, strict=True)]
        frame = [inside[by] for inside, by in zip(frame, order, strict=True)]
        symbol = [inside * len(codes) + name[at] for inside, name, at in zip(frame, names, level_of, strict=True)]
        if shapes is None:
            left, right = matched(symbol[0], symbol[1])
        else:
            left, right = _finer(symbol, [shape[at] for shape, at in zip(shapes, level_of, strict=True)])
        matches.append((level_of[0][left], level_of[1][right]))
        pair_of[0][level_of[0][left]] = pair_of[1][level_of[1][right]] = pairs + np.arange(len(left))
        pairs += len(left)
        replaced += _replacements(level_of, frame, left, right)
    first = np.concatenate([left for left, _ in matches]) if matches else np.zeros(0, np.int64)
    second = np.concatenate([right for _, right in matches]) if matches else np.zeros(0, np.int64)
    order_all = np.argsort(first, kind="stable")
    return OperationMatch(first[order_all], second[order_all], replaced)


def _finer(symbol: list[I64], shape: list[I64]) -> tuple[I64, I64]:
    """Match two sequences by symbol and shape, then what lies between by symbol alone; positions in both, ascending."""
    most = 1 + max((int(symbols.max()) for symbols in shape if len(symbols)), default=0)
    left, right = matched(*(symbols * most + at for symbols, at in zip(symbol, shape, strict=True)))
    rest, gaps = [], []
    for symbols, taken in zip(symbol, (left, right), strict=True):
        open_ = np.ones(len(symbols), np.bool_)
        open_[taken] = False
        rest.append(np.flatnonzero(open_))
        gaps.append(np.searchsorted(taken, rest[-1]))
    span = 1 + max((int(symbols.max()) for symbols in symbol if len(symbols)), default=0)
    more = matched(*(gap * span + symbols[at] for gap, symbols, at in zip(gaps, symbol, rest, strict=True)))
    return np.sort(np.concatenate((left, rest[0][more[0]]))), np.sort(np.concatenate((right, rest[1][more[1]])))


def _replacements(places: list[I64], frame: list[I64], left: I64, right: I64) -> list[Replacement]:
    """The replacements: what both sides have between the same two matches, inside one frame."""
    lows = [np.concatenate(([-1], matches)) + 1 for matches in (left, right)]
    highs = [np.append(matches, len(at)) for matches, at in zip((left, right), places, strict=True)]
    both = np.flatnonzero((highs[0] > lows[0]) & (highs[1] > lows[1]))
    replaced = []
    for gap in both.tolist():
        spans = [slice(int(low[gap]), int(high[gap])) for low, high in zip(lows, highs, strict=True)]
        shared = np.intersect1d(frame[0][spans[0]], frame[1][spans[1]])
        for inside in shared.tolist():
            replaced.append(
                Replacement(
                    places[0][spans[0]][frame[0][spans[0]] == inside], places[1][spans[1]][frame[1][spans[1]] == inside]
                )
            )
    return replaced


def matched_times(
    base: tuple[Trace, StepWindow, Operations], new: tuple[Trace, StepWindow, Operations], match: OperationMatch
) -> tuple[I64, I64]:
    """Times of both sides that belong together, ascending, ns, (n,) each.

    They are the start and the end of each step, and those of the matched operations of its main thread.
    """
    main = base[2].role[match.base] == 0
    times = []
    for (trace, window, operations), at in zip((base, new), (match.base, match.new), strict=True):
        item = operations.item[at[main]]
        inside = np.clip(np.concatenate((trace.slices.start[item], trace.slices.end[item])), window.start, window.end)
        times.append(np.concatenate(([window.start], inside, [window.end])))
    # Both orders agree, as operations of one thread are matched in sequence; where edges meet they may swap.
    order = np.lexsort((times[1], times[0]))
    return times[0][order], np.maximum.accumulate(times[1][order])


@dataclass(frozen=True, slots=True)
class LineCost:
    """What one line lost per step (ns) with how many launches.

    ``operations`` names what it launched, in order; ``items`` are the slices on the device that came late.
    """

    code: CodeLine | None
    lost: float
    launches: float
    operations: tuple[str, ...] = ()
    items: I64 = field(default_factory=lambda: np.zeros(0, np.int64), compare=False, repr=False)


class LineChange(Struct, frozen=True):
    """One line on both sides; None where a side lost nothing there. ``delta`` is new minus base, ns per step."""

    base: LineCost | None
    new: LineCost | None

    @property
    def delta(self) -> float:
        """How much more the new side loses at this line, ns per step."""
        return (self.new.lost if self.new else 0.0) - (self.base.lost if self.base else 0.0)

    @property
    def code(self) -> CodeLine | None:
        """The line as the new side has it, else as the base had it; None for launches without a call stack."""
        known = self.new or self.base
        return known.code if known else None


def line_changes(base: list[LineCost], new: list[LineCost]) -> list[LineChange]:
    """The lines of both sides matched, the largest difference first.

    A line is the same at the same number of the same function and file, wherever the project's folder lies, unless
    most numbers of that function launch something else now; what is left is matched in order by what it launches.
    """
    names = shared_names([cost.code.file for side in (base, new) for cost in side if cost.code])
    functions: dict[tuple[str, str] | None, tuple[list[LineCost], list[LineCost]]] = defaultdict(lambda: ([], []))
    for k, side in enumerate((base, new)):
        for cost in side:
            functions[(names[cost.code.file], cost.code.function) if cost.code else None][k].append(cost)
    rows = [row for sides in functions.values() for row in _lines_of_function(*sides)]
    return sorted(rows, key=lambda row: (-abs(row.delta), str(row.code)))


def _lines_of_function(base: list[LineCost], new: list[LineCost]) -> list[LineChange]:
    """Match the lines of one function: by number unless the function has moved, the rest in order by what they launch.

    A line without a match is a change of one side alone.
    """
    base, new = sorted(base, key=_line_number), sorted(new, key=_line_number)
    stayed = {_line_number(cost): cost for cost in base}
    same = {_line_number(cost): cost for cost in new if _line_number(cost) in stayed}
    alike = sum(cost.operations == stayed[number].operations for number, cost in same.items())
    if 2 * alike < len(same):
        same = {}  # most numbers launch something else now: the function has moved
    rows = [LineChange(stayed[number], cost) for number, cost in same.items()]
    left = [cost for cost in base if _line_number(cost) not in same]
    right = [cost for cost in new if _line_number(cost) not in same]
    codes: dict[tuple[str, ...], int] = {}
    symbols = [
        np.array([codes.setdefault(cost.operations, len(codes)) for cost in side], np.int64) for side in (left, right)
    ]
    first, second = (at.tolist() for at in matched(symbols[0], symbols[1]))
    rows += [LineChange(left[a], right[b]) for a, b in zip(first, second, strict=True)]
    gone = [cost for k, cost in enumerate(left) if k not in set(first)]
    come = [cost for k, cost in enumerate(right) if k not in set(second)]
    for cost in gone:
        # What launches something else on both sides is still one line where it has one number.
        twin = next((other for other in come if _line_number(other) == _line_number(cost)), None)
        come = [other for other in come if other is not twin]
        rows.append(LineChange(cost, twin))
    return rows + [LineChange(None, cost) for cost in come]


def _line_number(cost: LineCost) -> int:
    return cost.code.line if cost.code else 0


def shared_names(files: Iterable[str]) -> dict[str, str]:
    """Each path as its shortest tail that no other path of the same side ends in.

    Two paths with the same end are taken for one file in two folders.
    """
    parts = {file: tuple(part for part in re.split(r"[/\\]", file) if part) for file in dict.fromkeys(files)}
    tails: dict[str, str] = {}
    for file, folders in parts.items():
        longest = 1
        for other, theirs in parts.items():
            if other == file or not folders or not theirs or folders[-1] != theirs[-1]:
                continue
            alike = next(
                (k for k, (a, b) in enumerate(zip(reversed(folders), reversed(theirs), strict=False)) if a != b),
                min(len(folders), len(theirs)),
            )
            longest = max(longest, alike)
        tails[file] = "/".join(folders[-longest:])
    # Frames leave out folders that call stacks have: a path that another ends in is that file.
    return {
        file: tails[max((other for other in parts if parts[other][-len(folders) :] == folders), key=len)]
        for file, folders in parts.items()
    }
