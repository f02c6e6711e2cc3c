"""Lost time by the line of user code that launched."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.launches import Around, Dispatch, operation_of
from npu_tui.trace.arrays import BySlice
from npu_tui.trace.model import FORWARD_BACKWARD, Trace
from npu_tui.trace.once import of_trace

I64 = npt.NDArray[np.int64]

_FRAME = re.compile(r"(?P<file>.*)\((?P<line>\d{1,9})\): ?(?P<function>.*)", re.DOTALL)
_LIBRARIES = frozenset({"site-packages", "dist-packages", "torch", "torch_npu"})
_STANDARD_LIBRARY = re.compile(r"(?:^|[/\\])lib[/\\]python3\.[^/\\]*[/\\]")


class CodeLine(Struct, frozen=True):
    """A frame of user code: the line of the call."""

    file: str
    line: int
    function: str


class LineLoss(Struct, frozen=True):
    """What the launches of one line lost (ns); ``code`` is None where no call stack names a line."""

    code: CodeLine | None
    lost: float
    launches: int


def user_line(stack: str) -> CodeLine | None:
    """The innermost user frame of a call stack (``file(line): function;`` per line, innermost first)."""
    return next(iter(_user_frames(stack)), None)


def user_lines(stack: str) -> list[CodeLine]:
    """All user frames of a call stack, innermost first."""
    return list(_user_frames(stack))


def _user_frames(stack: str) -> Iterator[CodeLine]:
    for frame in stack.split(";"):
        match = _FRAME.fullmatch(frame.strip())
        if match is not None and _is_user(match["file"]):
            yield CodeLine(match["file"], int(match["line"]), match["function"])


def _is_user(file: str) -> bool:
    if file == "<string>" or _STANDARD_LIBRARY.search(file):
        return False
    return _LIBRARIES.isdisjoint(re.split(r"[/\\]", file))


def losing_launches(trace: Trace, launches: Dispatch) -> list[tuple[LineLoss, I64]]:
    """The lines whose launches lost time, most first, each with the positions of those in ``launches``, worst first.

    The sum over the lines is the lost time of ``launches``.
    """
    position = np.flatnonzero(launches.lost > 0)
    position = position[np.argsort(-launches.lost[position], kind="stable")]
    rows = [
        (LineLoss(line, float(launches.lost[members].sum()), len(members)), members)
        for line, members in launches_by_line(trace, launches, position)
    ]
    return sorted(rows, key=lambda row: (-row[0].lost, row[0].code is None, _place(row[0].code)))


def launches_by_line(trace: Trace, launches: Dispatch, position: I64) -> list[tuple[CodeLine | None, I64]]:
    """The launches at ``position`` in ``launches`` by their code line, those of each in the order of ``position``."""
    target = trace.links.target_slice[launches.link[position]].astype(np.int64)
    distinct, code = np.unique(stack_of(trace, operation_of(trace, target)), return_inverse=True)
    lines: dict[CodeLine | None, int] = {}
    of_stack = np.zeros(len(distinct), np.int64)
    for k, number in enumerate(distinct.tolist()):
        line = user_line(trace.stacks[number]) if number >= 0 else None
        of_stack[k] = lines.setdefault(line, len(lines))
    owner = of_stack[code]
    order = np.argsort(owner, kind="stable")
    own = np.split(position[order], np.searchsorted(owner[order], np.arange(1, len(lines)))) if lines else []
    return list(zip(lines, own, strict=True))


def _place(code: CodeLine | None) -> tuple[str, int]:
    return (code.file, code.line) if code else ("", 0)


def stack_of(trace: Trace, operation: I64) -> I64:
    """The call stack (index into ``Trace.stacks``) of each operation, -1 without one; (n,).

    An operation without a stack has that of the nearest one around it, a backward operation that of its forward one.
    """
    slices = trace.slices
    around = _with_stack(trace)
    item = _own_or_around(trace, around, operation)
    missing = np.flatnonzero((item < 0) & (operation >= 0))
    if len(missing):
        forward = _forward_of(trace, operation[missing])
        item[missing] = _own_or_around(trace, around, forward)
    return np.where(item >= 0, slices.stack[item], -1).astype(np.int64)


def _own_or_around(trace: Trace, around: Around, item: I64) -> I64:
    slices = trace.slices
    found: I64 = item.copy()
    bare = np.flatnonzero((item >= 0) & (slices.stack[item] < 0))
    at = item[bare]
    found[bare] = around.find(slices.lane[at], slices.start[at], slices.end[at])
    return found


def _forward_of(trace: Trace, item: I64) -> I64:
    """The forward operation of each backward one, or of the nearest backward operation around it, -1 without; (n,)."""
    slices = trace.slices
    forward, around = _forward(trace)
    own = forward.of(item) >= 0
    backward = np.where(own, item, around.find(slices.lane[item], slices.start[item], slices.end[item]))
    return forward.of(backward)


@of_trace
def _forward(trace: Trace) -> tuple[BySlice, Around]:
    """The forward operation of each backward one, and what finds the latter around others."""
    links = trace.links
    ways = trace.links_of(FORWARD_BACKWARD)
    ways = ways[(links.source_slice[ways] >= 0) & (links.target_slice[ways] >= 0)]
    backward = np.zeros(len(trace.slices), np.bool_)
    backward[links.target_slice[ways]] = True
    return BySlice(links.target_slice[ways], links.source_slice[ways]), Around(trace, backward)


@of_trace
def _with_stack(trace: Trace) -> Around:
    return Around(trace, trace.slices.stack >= 0)


def line_of(trace: Trace, item: int) -> CodeLine | None:
    """The innermost user frame of slice ``item``, or of the operation that launched it; None without a call stack."""
    operation = int(operation_of(trace, np.array([item], np.int64))[0])
    stack = int(stack_of(trace, np.array([item if operation < 0 else operation], np.int64))[0])
    return user_line(trace.stacks[stack]) if stack >= 0 else None
