"""Rows of overlapping slices: the lowest one whose last slice has ended."""

from __future__ import annotations

from npu_tui.ingest.scanner.source.memory import Region, compiled, read32, read64, write32, write64

_FEW = 32
"""So many rows are looked through one after the other; more of them have a tree of their earliest ends."""

_NEVER = -(1 << 63)


@compiled
def first_free(ends: Region, used: int, start: int) -> int:
    """The lowest of ``used`` rows that is free at ``start``, else the next one."""
    row = 0
    while row < used and read64(ends, 8 * row) > start:
        row += 1
    return row


@compiled
def plant(tree: Region, used: int, before: int, leaves: int) -> None:
    """A tree over ``leaves`` rows, of which ``used`` have ends; these stand after the ``before`` inner nodes."""
    row = used - 1
    while row >= 0:
        write64(tree, 8 * (leaves + row), read64(tree, 8 * (before + row)))
        row -= 1
    for row in range(used, leaves):
        write64(tree, 8 * (leaves + row), _NEVER)
    node = leaves - 1
    while node > 0:
        left, right = read64(tree, 16 * node), read64(tree, 16 * node + 8)
        write64(tree, 8 * node, left if left < right else right)
        node -= 1


@compiled
def take(tree: Region, leaves: int, start: int, until: int) -> int:
    """Occupy the lowest row of the tree that is free at ``start``; one must be."""
    node = 1
    while node < leaves:
        node = 2 * node
        if read64(tree, 8 * node) > start:
            node += 1
    row = node - leaves
    write64(tree, 8 * node, until)
    while node > 1:
        node = node >> 1
        left, right = read64(tree, 16 * node), read64(tree, 16 * node + 8)
        write64(tree, 8 * node, left if left < right else right)
    return row


@compiled
def first_fit(
    lane_address: int, start_address: int, end_address: int, depth_address: int, count: int, tree_address: int,
    tree_bytes: int,
) -> int:  # fmt: skip
    """Rows of ``count`` slices in the order (lane, start, -end); 0, or 1 if the tree has no room.

    Lanes and depths are int32, starts and ends int64. A slice without duration takes up one nanosecond.
    """
    lanes, depths = (lane_address, 4 * count), (depth_address, 4 * count)
    starts, ends = (start_address, 8 * count), (end_address, 8 * count)
    tree = (tree_address, tree_bytes)
    lane, reach, used, leaves = -1, 0, 0, 0
    for k in range(count):
        start, until = read64(starts, 8 * k), read64(ends, 8 * k)
        if until <= start:
            until = start + 1
        if read32(lanes, 4 * k) != lane or start >= reach:
            lane, reach, used, leaves = read32(lanes, 4 * k), until, 0, 0
        if until > reach:
            reach = until
        row = 0
        if leaves == 0:
            row = first_free(tree, used, start)
            if row == _FEW:
                leaves = 2 * _FEW
                if 16 * leaves > tree_bytes:
                    return 1
                plant(tree, used, 0, leaves)
            else:
                write64(tree, 8 * row, until)
                if row == used:
                    used += 1
        if leaves > 0:
            if read64(tree, 8) > start:
                if 32 * leaves > tree_bytes:
                    return 1
                plant(tree, leaves, leaves, 2 * leaves)
                leaves = 2 * leaves
            row = take(tree, leaves, start, until)
        write32(depths, 4 * k, row)
    return 0
