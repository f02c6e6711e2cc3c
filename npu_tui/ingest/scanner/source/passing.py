"""When the points of a model are passed, one after the other."""

from __future__ import annotations

from npu_tui.ingest.scanner.source.memory import compiled, read32, read64, write64


@compiled
def passing(
    source_address: int, edge_address: int, other_source_address: int, other_edge_address: int, count: int,
    lag_address: int, lags: int, time_address: int,
) -> int:  # fmt: skip
    """The times of ``count`` rows, of which the first is the origin; rows and edges are int32, times and lags int64.

    A row is passed when both its edges allow it: ``lag`` (of ``lags`` edges) after the row each comes from, an earlier
    one.
    """
    size = 4 * count
    source, edge = (source_address, size), (edge_address, size)
    other_source, other_edge = (other_source_address, size), (other_edge_address, size)
    lag, time = (lag_address, 8 * lags), (time_address, 8 * count)
    write64(time, 0, 0)
    for row in range(1, count):
        at = 4 * row
        one = read64(time, 8 * read32(source, at)) + read64(lag, 8 * read32(edge, at))
        two = read64(time, 8 * read32(other_source, at)) + read64(lag, 8 * read32(other_edge, at))
        write64(time, 8 * row, one if one > two else two)
    return 0
