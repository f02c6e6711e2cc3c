"""Code lines of two profiles: what launching from each cost, also where the line has moved."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from msgspec import Struct

from npu_tui.analysis.alignment import matched
from npu_tui.analysis.code_lines import CodeLine
from npu_tui.trace.arrays import I64


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
        """How much more the new side loses at this line."""
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
    rows = [row for sides in functions.values() for row in _of_function(*sides)]
    return sorted(rows, key=lambda row: (-abs(row.delta), str(row.code)))


def _of_function(base: list[LineCost], new: list[LineCost]) -> list[LineChange]:
    """The lines of one function: by number where that is known to be the same, else in order by what they launch."""
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
