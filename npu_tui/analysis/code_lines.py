"""Lines of user code: the innermost user frame of a call stack, and the launches and lost time of each line.

Call stacks are recorded with ``with_stack=True``. A kernel has the stack of the operation that launched it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import numpy as np
from msgspec import Struct

from npu_tui.analysis.launches import Around, Dispatch, operation_of
from npu_tui.analysis.limits import HALF
from npu_tui.trace.arrays import F64, I64, BySlice
from npu_tui.trace.classes import FRAME, is_of_program, is_of_user
from npu_tui.trace.model import FORWARD_BACKWARD, Trace
from npu_tui.trace.once import of_trace

# Where engines such as vLLM and SGLang keep the code of models, below whatever folder they are installed in.
_MODEL_CODE = re.compile(r"(?:^|[/\\])(?:models|layers|attention|model_executor)[/\\]")
_GENERATED = re.compile(r"<|.*(?:^|[/\\])(?:torch|torch_npu|triton|torchinductor\w*|torch_compile_cache)[/\\]")


class CodeLine(Struct, frozen=True):
    """A frame of user code: the line of the call."""

    file: str
    line: int
    function: str


class LineLoss(Struct, frozen=True):
    """The lost time of the launches of one line, ns; ``code`` is None for launches without a call stack.

    It may be ``borrowed`` from another profile, for the first kernel that a launch of a graph replays.
    """

    code: CodeLine | None
    lost: float
    launches: int
    borrowed: bool = False


def user_line(stack: str) -> CodeLine | None:
    """The innermost user frame of ``stack`` (``file(line): function;`` a line, innermost first); None without one."""
    return next(iter(_user_frames(stack)), None)


def user_lines(stack: str) -> list[CodeLine]:
    """All user frames of a call stack, innermost first."""
    return list(_user_frames(stack))


def common_lines(stacks: Iterable[list[CodeLine]]) -> list[CodeLine]:
    """The frames that all of ``stacks``, innermost first, have in common; outermost first."""
    chains = [frames[::-1] for frames in stacks]
    common: list[CodeLine] = []
    for frames in zip(*chains, strict=False):
        if any(frame != frames[0] for frame in frames):
            break
        common.append(frames[0])
    return common


def program_line(stack: str) -> CodeLine | None:
    """The innermost frame of a call stack in the program's own code, else that of the user; None without either."""
    frames = user_lines(stack)
    return next((line for line in frames if is_of_program(line.file)), frames[0] if frames else None)


def lines_of_stacks(trace: Trace, stack: I64) -> tuple[I64, list[CodeLine]]:
    """The ``program_line`` of each call ``stack`` as a code (-1: none), and the lines that the codes name; (n,)."""
    of_stack = np.full(len(trace.stacks) + 1, -1, np.int64)
    known: dict[CodeLine, int] = {}
    for text in np.unique(stack[stack >= 0]).tolist():
        line = program_line(trace.stacks[text])
        if line is not None:
            of_stack[text] = known.setdefault(line, len(known))
    return of_stack[stack], list(known)


def _user_frames(stack: str) -> Iterator[CodeLine]:
    for frame in stack.split(";"):
        match = FRAME.fullmatch(frame.strip())
        if match is not None and is_of_user(match["file"]):
            yield CodeLine(match["file"], int(match["line"]), match["function"])


def library_line(trace: Trace, line: CodeLine, stack: I64, weight: I64 | F64) -> CodeLine | None:
    """Where a library that ``line`` calls has most of the ``weight`` of the call stacks below it (-1: none); (n,) each.

    That is the deepest function that most of the weight shares, at its heaviest line; the framework is no place. None
    where the weight lies in no function of a library.
    """
    chains: list[tuple[list[CodeLine], float]] = []
    for text, sum_of in enumerate(np.bincount(stack + 1, weight, len(trace.stacks) + 1).tolist()[1:]):
        if sum_of and (below := _below(trace.stacks[text], line)) is not None:
            chains.append((below, sum_of))
    place, least = None, HALF * sum(each for _, each in chains)
    while True:
        chains = [(frames, each) for frames, each in chains if frames]
        depth: dict[tuple[str, str], dict[CodeLine, float]] = {}
        for (frame, *_), each in chains:
            lines = depth.setdefault((frame.file, frame.function), {})
            lines[frame] = lines.get(frame, 0.0) + each
        shared = max(depth, key=lambda key: sum(depth[key].values()), default=None)
        if shared is None or sum(depth[shared].values()) <= least:
            return place
        place = max(depth[shared], key=lambda frame: depth[shared][frame])
        chains = [(frames[1:], each) for frames, each in chains if (frames[0].file, frames[0].function) == shared]


_INSTALLED = re.compile(r".*[/\\](?:site|dist)-packages[/\\]")


def _below(stack: str, line: CodeLine) -> list[CodeLine] | None:
    """The frames of libraries that ``line`` calls in ``stack``, outermost first; None where ``line`` is not in it."""
    frames = called_lines(stack)
    return frames[: frames.index(line)][::-1] if line in frames else None


def called_lines(stack: str) -> list[CodeLine]:
    """The frames of a call stack but for those of Python, of the framework and of generated code, innermost first."""
    found = []
    for frame in stack.split(";"):
        match = FRAME.fullmatch(frame.strip())
        if match is not None and not _GENERATED.match(match["file"]) and is_of_user(_INSTALLED.sub("", match["file"])):
            found.append(CodeLine(match["file"], int(match["line"]), match["function"]))
    return found


def model_line(frames: Iterable[str]) -> CodeLine | None:
    """The innermost of ``frames`` (innermost first) in the code of a model, else of user code; None without either.

    The innermost user frame alone is often a wrapper, such as Triton's driver, or compiled code.
    """
    user: CodeLine | None = None
    for frame in frames:
        match = FRAME.fullmatch(frame.strip())
        if match is None or _GENERATED.match(match["file"]):
            continue
        line = CodeLine(match["file"], int(match["line"]), match["function"])
        if _MODEL_CODE.search(line.file):
            return line
        if user is None and is_of_user(line.file):
            user = line
    return user


def losing_launches(trace: Trace, launches: Dispatch) -> list[tuple[LineLoss, I64]]:
    """The lines that lost time, those that lost most first, and for each line the launches that lost it.

    These are positions in ``launches``, the one that lost most first. Together the lines lost what ``launches`` lost.
    """
    position = np.flatnonzero(launches.lost > 0)
    position = position[np.argsort(-launches.lost[position], kind="stable")]
    rows = [
        (LineLoss(line, float(launches.lost[members].sum()), len(members)), members)
        for line, members in launches_by_line(trace, launches, position)
    ]
    return sorted(rows, key=lambda row: (-row[0].lost, row[0].code is None, _file_and_line(row[0].code)))


def launches_by_line(trace: Trace, launches: Dispatch, position: I64) -> list[tuple[CodeLine | None, I64]]:
    """The launches at ``position`` in ``launches`` grouped by code line; each group keeps the order of ``position``."""
    target = trace.links.target_slice[launches.link[position]].astype(np.int64)
    stacks, code = np.unique(stack_of(trace, operation_of(trace, target)), return_inverse=True)
    lines: dict[CodeLine | None, int] = {}
    of_stack = np.zeros(len(stacks), np.int64)
    for k, stack in enumerate(stacks.tolist()):
        line = user_line(trace.stacks[stack]) if stack >= 0 else None
        of_stack[k] = lines.setdefault(line, len(lines))
    owner = of_stack[code]
    order = np.argsort(owner, kind="stable")
    members = np.split(position[order], np.searchsorted(owner[order], np.arange(1, len(lines)))) if lines else []
    return list(zip(lines, members, strict=True))


def _file_and_line(code: CodeLine | None) -> tuple[str, int]:
    return (code.file, code.line) if code else ("", 0)


def stack_of(trace: Trace, operation: I64) -> I64:
    """The call stack (index into ``Trace.stacks``) of each operation, -1 without one; (n,).

    An operation without a stack takes that of the innermost operation around it with one. A backward operation runs on
    a thread without Python frames: it takes the stack of its forward operation.
    """
    slices = trace.slices
    around = _with_stack(trace)
    item = _own_or_around(trace, around, operation)
    missing = np.flatnonzero((item < 0) & (operation >= 0))
    if len(missing):
        forward = forward_of(trace, operation[missing])
        item[missing] = _own_or_around(trace, around, forward)
    return np.where(item >= 0, slices.stack[item], -1).astype(np.int64)


def _own_or_around(trace: Trace, around: Around, item: I64) -> I64:
    """Each of ``item`` if it has a call stack, else the innermost slice around it with one, else -1; (n,)."""
    slices = trace.slices
    with_stack: I64 = item.copy()
    missing = np.flatnonzero((item >= 0) & (slices.stack[item] < 0))
    at = item[missing]
    with_stack[missing] = around.find(slices.lane[at], slices.start[at], slices.end[at])
    return with_stack


def forward_of(trace: Trace, item: I64) -> I64:
    """The forward operation of each backward one, or of the innermost backward one around it; -1 without; (n,)."""
    slices = trace.slices
    forward, around = _forward(trace)
    is_backward = forward.of(item) >= 0
    backward = np.where(is_backward, item, around.find(slices.lane[item], slices.start[item], slices.end[item]))
    return forward.of(backward)


@of_trace
def _forward(trace: Trace) -> tuple[BySlice, Around]:
    """The forward operation of each backward one, and an index of the backward ones."""
    links = trace.links
    passes = trace.bound_links_of(FORWARD_BACKWARD)
    backward = np.zeros(len(trace.slices), np.bool_)
    backward[links.target_slice[passes]] = True
    return BySlice(links.target_slice[passes], links.source_slice[passes]), Around(trace, backward)


@of_trace
def _with_stack(trace: Trace) -> Around:
    # The stack of a step is that of prof.step(), which launches nothing.
    steps = np.array([name.startswith("ProfilerStep#") for name in trace.names], np.bool_)
    return Around(trace, (trace.slices.stack >= 0) & ~steps[trace.slices.name])


def own_lines(trace: Trace, items: I64) -> list[CodeLine | None]:
    """The user code line of each operation or frame: a frame of Python is its own line, an operation has a stack."""
    named = list(zip(trace.slices.name[items].tolist(), stack_of(trace, items).tolist(), strict=True))
    lines = {
        (name, stack): user_line(trace.names[name]) or (user_line(trace.stacks[stack]) if stack >= 0 else None)
        for name, stack in set(named)
    }
    return [lines[key] for key in named]


def whole_name(trace: Trace, file: str) -> str:
    """The only file of the call stacks whose path ends with all of ``file``: some frames leave its folders out."""
    longer = [] if file.startswith("/") else [name for name in _frame_files(trace) if name.endswith(f"/{file}")]
    return longer[0] if len(longer) == 1 else file


@of_trace
def _frame_files(trace: Trace) -> frozenset[str]:
    """The files of all frames of all call stacks."""
    return frozenset(frame.partition("(")[0].strip() for stack in trace.stacks for frame in stack.split(";"))


def line_of(trace: Trace, item: int) -> CodeLine | None:
    """The user code line of slice ``item`` or of the operation that launched it; None without a call stack."""
    operation = int(operation_of(trace, np.array([item], np.int64))[0])
    stack = int(stack_of(trace, np.array([item if operation < 0 else operation], np.int64))[0])
    return user_line(trace.stacks[stack]) if stack >= 0 else None
