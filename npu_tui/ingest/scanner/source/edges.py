"""The edges of a model: which contradict an order, where each stands by its target, and the rows made of them.

Nodes and edges are numbered in int32, times are int64.
"""

from __future__ import annotations

from npu_tui.ingest.scanner.source.memory import compiled, read32, read64, write32, write64


@compiled
def contradicting(
    source_address: int, target_address: int, count: int, key_address: int, nodes: int, found_address: int, room: int
) -> int:
    """Which of ``count`` edges lead to a node whose key (int64) is not above that of their source: how many.

    Their numbers (int64) go to ``found``, which has room for so many; of more nothing but their count is told.
    """
    source, target = (source_address, 4 * count), (target_address, 4 * count)
    key, found = (key_address, 8 * nodes), (found_address, 8 * room)
    known = 0
    for k in range(count):
        if read64(key, 8 * read32(target, 4 * k)) <= read64(key, 8 * read32(source, 4 * k)):
            if known < room:
                write64(found, 8 * known, k)
            known += 1
    return known


@compiled
def edge_order(
    source_address: int, target_address: int, count: int, where_address: int, nodes: int, begin_address: int,
    new_source_address: int, new_target_address: int, place_address: int,
) -> int:  # fmt: skip
    """Sort ``count`` edges by their target, those of one target as they came.

    ``where`` has the new number of each of ``nodes`` nodes. ``begin`` are as many words and one more, all 0 at first.
    ``new_source`` and ``new_target`` are the sorted edges by new numbers, ``place`` is where each edge went (int64).
    """
    source, target = (source_address, 4 * count), (target_address, 4 * count)
    where, begin = (where_address, 4 * nodes), (begin_address, 4 * nodes + 4)
    new_source, new_target = (new_source_address, 4 * count), (new_target_address, 4 * count)
    place = (place_address, 8 * count)
    for k in range(count):
        at = 4 * read32(where, 4 * read32(target, 4 * k)) + 4
        write32(begin, at, read32(begin, at) + 1)
    for node in range(nodes):
        write32(begin, 4 * node + 4, read32(begin, 4 * node) + read32(begin, 4 * node + 4))
    for k in range(count):
        node = read32(where, 4 * read32(target, 4 * k))
        to = read32(begin, 4 * node)
        write32(begin, 4 * node, to + 1)
        write32(new_source, 4 * to, read32(where, 4 * read32(source, 4 * k)))
        write32(new_target, 4 * to, node)
        write64(place, 8 * k, to)
    return 0


@compiled
def edge_rows(
    source_address: int, target_address: int, count: int, nodes: int, row_address: int, first_source_address: int,
    first_edge_address: int, other_source_address: int, other_edge_address: int, room: int,
) -> int:  # fmt: skip
    """Write the rows of ``count`` edges sorted by target, two edges to a row; how many they are, -1 without room.

    A node that more than two edges lead to has rows of its own in front; ``row`` is the last of each node. Edge
    ``count`` holds nothing up, the one after it takes no time.
    """
    source, target = (source_address, 4 * count), (target_address, 4 * count)
    row = (row_address, 4 * nodes)
    first_source, first_edge = (first_source_address, 4 * room), (first_edge_address, 4 * room)
    other_source, other_edge = (other_source_address, 4 * room), (other_edge_address, 4 * room)
    rows = edge = 0
    for node in range(nodes):
        used = 0
        while True:
            if rows == room:
                return -1
            at = 4 * rows
            if used:
                write32(first_source, at, rows - 1)
                write32(first_edge, at, count + 1)
            elif edge < count and read32(target, 4 * edge) == node:
                write32(first_source, at, read32(row, 4 * read32(source, 4 * edge)))
                write32(first_edge, at, edge)
                edge += 1
            else:
                write32(first_source, at, 0)
                write32(first_edge, at, count)
            if edge < count and read32(target, 4 * edge) == node:
                write32(other_source, at, read32(row, 4 * read32(source, 4 * edge)))
                write32(other_edge, at, edge)
                edge += 1
            else:
                write32(other_source, at, 0)
                write32(other_edge, at, count)
            used = 1
            rows += 1
            if edge == count or read32(target, 4 * edge) != node:
                break
        write32(row, 4 * node, rows - 1)
    return rows
