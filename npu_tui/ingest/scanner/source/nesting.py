"""Which slice holds which."""

from __future__ import annotations

from npu_tui.ingest.scanner.source.memory import compiled, read32, read64, write64


@compiled
def nesting(end_address: int, lane_address: int, count: int, parent_address: int) -> int:
    """For each of ``count`` slices by lane (int32) and start the last one before it that ends as late, -1 without one.

    Ends and parents are int64. What ends before a later slice does holds nothing that follows either, so that the way
    goes from parent to parent.
    """
    ends, lanes, parents = (end_address, 8 * count), (lane_address, 4 * count), (parent_address, 8 * count)
    first = 0
    for k in range(count):
        if read32(lanes, 4 * k) != read32(lanes, 4 * first):
            first = k
        end = read64(ends, 8 * k)
        at = k - 1
        while at >= first and read64(ends, 8 * at) < end:
            at = read64(parents, 8 * at)
        if at < first:
            at = -1
        write64(parents, 8 * k, at)
    return 0
