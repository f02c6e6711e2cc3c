"""The calls that the host was in: a tree of them, and the line of code of each.

A thread has frames of Python, operations and calls of CANN in one another. A thread without frames, such as that of
the backward pass or of the task queue, has the frames of the user that the operation's call stack names.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npu_tui.analysis.code_lines import stack_of, user_lines
from npu_tui.analysis.launches import dequeue_slices, enqueue_of
from npu_tui.analysis.replay_host import thread_numbers
from npu_tui.native.stacks import OWN, Stretches, innermost
from npu_tui.trace.arrays import I32, I64, numbers_in
from npu_tui.trace.classes import names_step
from npu_tui.trace.model import FORWARD_BACKWARD, Trace
from npu_tui.trace.once import of_trace


class CallPaths(Struct, frozen=True):
    """Stretches of host threads, cut where their innermost call changes; (n,) each.

    ``stretch`` is the stretch that was given, ``low`` and ``high`` the recorded time (ns), ``item`` the innermost slice
    (-1: none), ``node`` its place in the tree, ``stack`` its call stack (-1: none). Of each node ``above`` is the one
    around it and ``text`` its name; the first is the root. A node may be a frame of a call stack: its text is then that
    of the frame.
    """

    stretch: I64
    low: I64
    high: I64
    item: I64
    node: I64
    stack: I64
    above: I64
    text: list[str]

    @property
    def length(self) -> I64:
        """How long each part takes, ns."""
        return self.high - self.low


def call_paths(trace: Trace, thread: I64, low: I64, high: I64) -> CallPaths:
    """The calls around every moment of the stretches ``[low, high)`` of host threads (their numbers), ns; (m,) each."""
    _, number = thread_numbers(trace)
    chains, stack_node, texts = _chains(trace)
    threads: list[Stretches] = []
    members: list[I64] = []
    for one in numbers_in(thread):
        mine = np.flatnonzero(thread == one)
        mine = mine[np.argsort(low[mine], kind="stable")]
        bounds = np.stack((low[mine], high[mine]), 1)
        # What two stretches share counts once, for the first of them.
        bounds[1:, 0] = np.maximum(bounds[1:, 0], np.maximum.accumulate(bounds[:-1, 1]))
        lanes = [lane for lane in trace.lanes if number[lane.index] == one and lane.first < lane.last]
        framed = any(_has_frames(trace, lane.first, lane.last) for lane in lanes)
        ends = np.array([(lane.first, lane.last) for lane in lanes], np.int64).reshape(-1, 2)
        threads.append(Stretches(bounds, ends, not framed))
        members.append(mine)
    slices = trace.slices
    clear = np.array([*map(_is_clear, trace.names), True], np.uint8)
    parts = innermost(threads, slices.start, slices.end, slices.name, _stacks(trace), clear, chains, stack_node)
    stretch = np.zeros(len(parts.low), np.int64)
    for at, of_thread in enumerate(members):
        mine = parts.thread == at
        stretch[mine] = of_thread[parts.stretch[mine]]
    names = [*trace.names, *texts]
    texts = ["" if code < 0 else names[code] for code in parts.name.tolist()]
    return CallPaths(stretch, parts.low, parts.high, parts.item, parts.node, parts.stack, parts.above, texts)


def _is_clear(name: str) -> bool:
    """Whether a slice of this name adds nothing to its calls: steps, modules, and the profiler around the program."""
    return names_step(name) or name.startswith(("nn.Module: ", *_OF_PROFILER))


_OF_PROFILER = ("torch_npu/profiler/", "torch/autograd/profiler.py", "<built-in method _record_function_enter")


def _has_frames(trace: Trace, first: int, last: int) -> bool:
    if "python_function" not in trace.categories:
        return False
    return bool((trace.slices.category[first:last] == trace.categories.index("python_function")).any())


def _chains(trace: Trace) -> tuple[I32, I32, list[str]]:
    """The frames of the user in each call stack as nodes below the root, the node of each stack (-1: none), and texts.

    Codes of the texts follow those of the names of the trace.
    """
    nodes: dict[tuple[int, str], int] = {}
    texts: dict[str, int] = {}
    rows: list[tuple[int, int]] = []
    of_stack = np.full(len(trace.stacks) + 1, -1, np.int32)
    for number, stack in enumerate(trace.stacks):
        node = 0
        for line in reversed(user_lines(stack)):
            text = f"{line.file}({line.line}): {line.function}"
            code = len(trace.names) + texts.setdefault(text, len(texts))
            known = nodes.setdefault((node, text), len(nodes) + 1)
            if known > len(rows):
                rows.append((node, code))
            node = known
        of_stack[number] = node or -1
    return np.array(rows, np.int32).reshape(-1, 2), of_stack, list(texts)


@of_trace
def _stacks(trace: Trace) -> I32:
    """The call stack of every slice: tasks of the queue have that of their entry, backward operations the forward's."""
    slices, links = trace.slices, trace.links
    stack: I32 = slices.stack.copy()
    if "python_function" in trace.categories:
        stack[slices.category == trace.categories.index("python_function")] = OWN
    if trace.stacks:
        dequeues, passes = dequeue_slices(trace), trace.bound_links_of(FORWARD_BACKWARD)
        for items, told in (
            (dequeues, enqueue_of(trace, dequeues)),
            (links.target_slice[passes].astype(np.int64), links.source_slice[passes].astype(np.int64)),
        ):
            stack[items] = np.where(told >= 0, stack_of(trace, told), -1)
    return stack
