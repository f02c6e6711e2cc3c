"""What threads were in during stretches of their time: the loop of ``stacks.c``, and its slower twin."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.native.library import library

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]

OWN = -2
"""The call stack of a slice that is a frame: the stack of no operation around it is its own."""
ROOT = 0
"""The node of what is in no call."""
_FULL = -1
_NODES = 1 << 12
"""Nodes that there is room for at first."""


class Stretches(Struct, frozen=True):
    """Stretches of one thread: ``bounds`` are their starts and ends, ascending and disjoint, ns; (m, 2).

    ``lanes`` are the first slice and the one after the last of each of its lanes; (lanes, 2). The first of its slices
    with a call stack begins below the frames of that where the thread has no frames of its own (``chained``).
    """

    bounds: I64
    lanes: I64
    chained: bool


class StackParts(Struct, frozen=True):
    """Stretches cut where the innermost slice changes; (n,) each.

    ``item`` is that slice (-1: none), ``node`` its place in the tree of calls, ``stack`` its call stack (-1: none),
    ``thread`` and ``stretch`` say which stretch a part belongs to. ``above`` and ``name`` are those of each node, the
    first of which is the root; (nodes,).
    """

    low: I64
    high: I64
    item: I64
    node: I64
    stretch: I64
    stack: I64
    thread: I64
    above: I64
    name: I64


def innermost(
    threads: Sequence[Stretches],
    start: I64,
    end: I64,
    name: I32,
    stack: I32,
    clear: U8,
    chains: I32,
    stack_node: I32,
) -> StackParts:
    """The parts of all stretches of ``threads``; ``start``, ``end`` (ns) and ``name`` are those of all slices.

    ``stack`` is the call stack of each: -1 where it is that of the slice around it, OWN where it is a frame. ``clear``
    marks the names that are no node of the tree; (names + 1,). ``chains`` are nodes to begin with, each the one above
    it and a name; ``stack_node`` is the node in which the slices with a call stack begin, -1 for none.
    """
    compiled = library()
    if compiled is None:
        return slow_innermost(threads, start, end, name, stack, clear, chains, stack_node)
    nodes = max(_NODES, 2 * len(chains))
    while True:
        tree = np.full((nodes, 2), -1, np.int32)
        tree[1 : 1 + len(chains)] = chains
        used = np.array([1 + len(chains)])
        # Nodes of the chains are not looked up: no name of a slice is one of theirs.
        slots = np.zeros(2 * nodes, np.int32)
        found: list[I64] = []
        for thread in threads:
            lanes = np.ascontiguousarray(thread.lanes.copy())
            slices = int((lanes[:, 1] - lanes[:, 0]).sum())
            room = len(thread.bounds) + 2 * slices
            parts, opened = np.empty((room, 6), np.int64), np.empty((slices, 3), np.int64)
            count = compiled.innermost(
                lanes, len(lanes), start, end, name, stack, len(start), clear, len(clear), stack_node,
                len(stack_node), np.ascontiguousarray(thread.bounds), len(thread.bounds), tree, nodes, slots,
                len(slots), used, opened, slices, parts, room, thread.chained,
            )  # fmt: skip
            if count == _FULL:
                break
            found.append(parts[:count])
        else:
            return _thread_parts(found, tree[: used[0]])
        nodes *= 4


def _thread_parts(found: list[I64], tree: I32) -> StackParts:
    """The parts of each thread, (m, 6), as columns."""
    none = np.zeros((0, 6), np.int64)
    columns = [np.concatenate([none[:, at], *(rows[:, at] for rows in found)]) for at in range(6)]
    columns.append(np.repeat(np.arange(len(found)), [len(rows) for rows in found]))
    return StackParts(*columns, *tree.T.astype(np.int64))


def slow_innermost(
    threads: Sequence[Stretches],
    start: I64,
    end: I64,
    name: I32,
    stack: I32,
    clear: U8,
    chains: I32,
    stack_node: I32,
) -> StackParts:
    """``innermost`` without the library."""
    tree: list[tuple[int, int]] = [(-1, -1), *map(tuple, chains.tolist())]
    nodes: dict[tuple[int, int], int] = {}
    found: list[I64] = []
    for thread in threads:
        rows: list[tuple[int, ...]] = []
        items = np.concatenate([np.arange(*lane) for lane in thread.lanes.tolist()] or [np.zeros(0, np.int64)])
        order = items[np.lexsort((-end[items], start[items]))].tolist()
        opened: list[tuple[int, int, int]] = []
        at = 0
        for piece, (now, until) in enumerate(thread.bounds.tolist()):
            while now < until:
                begin = int(start[order[at]]) if at < len(order) else None
                since = now if begin is None else min(begin, now)
                while opened and end[opened[-1][0]] <= since:
                    opened.pop()
                _, node, known = opened[-1] if opened else (-1, 0, -1)
                if begin is not None and begin <= now:
                    item, at = order[at], at + 1
                    if end[item] <= now:
                        continue
                    text = int(stack[item])
                    if thread.chained and known < 0 <= text and stack_node[text] >= 0:
                        node = int(stack_node[text])
                    known = text if text >= 0 else -1 if text == OWN else known
                    code = int(name[item]) if name[item] >= 0 else len(clear) - 1
                    if not clear[code]:
                        below = nodes.setdefault((node, code), len(tree))
                        if below == len(tree):
                            tree.append((node, code))
                        node = below
                    opened.append((item, node, known))
                    continue
                item = opened[-1][0] if opened else -1
                stop = min(filter(None, (until, begin, int(end[item]) if item >= 0 else None)))
                rows.append((now, stop, item, node, piece, known))
                now = stop
        found.append(np.array(rows, np.int64).reshape(-1, 6))
    return _thread_parts(found, np.array(tree, np.int32))
