"""Time from a query to its hits, and to the first ones where args are read from the file.

``python tests/benchmarks/search.py TRACE [QUERY ...]``: each query runs three times on the loaded trace; the first
run, which also computes what its field needs, and the best one are printed with the ratio to the budget (0.1 s).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

from npu_tui.analysis.dispatch import dispatch
from npu_tui.analysis.query import parse_query
from npu_tui.analysis.search import Searchable
from npu_tui.ingest.arg_scan import file_order, slices_with_args
from npu_tui.ingest.load import load
from npu_tui.trace.model import Trace
from npu_tui.tui.hits import make_hits

I64 = npt.NDArray[np.int64]

FIRST_HITS_S = 0.1
RUNS = 3
QUERIES = (
    "a",
    "matmul",
    "/^aclnn.*mul/",
    "layer:cann dur>10us",
    "class:starved",
    "line:train.py:139",
    "step:50",
    "arg:Input Dims~64",
    "layer:hardware arg:Stream Id>40",
    "arg:Input Dims~nowhere",
)


def measure(trace: Trace, searchable: Searchable, orders: list[I64], text: str) -> tuple[int, float, float]:
    """Hits, seconds to the first of them (to the end where there are none), seconds to the last."""
    begun = time.perf_counter()
    query = parse_query(text)
    mask = searchable.find(query)
    if not query.args:
        hits = make_hits(text, [trace], [mask])
        taken = time.perf_counter() - begun
        return len(hits), taken, taken
    if not orders:
        orders.append(file_order(trace))
    order = orders[0]
    count, first = 0, 0.0
    for batch in slices_with_args(trace, order[mask[order]], query.args):
        count += len(batch.items)
        if count and not first:
            first = time.perf_counter() - begun
    whole = time.perf_counter() - begun
    return count, first or whole, whole


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("query", nargs="*", default=QUERIES)
    options = parser.parse_args()
    trace = load(options.trace)
    orders: list[I64] = []
    searchable = Searchable(trace, dispatch(trace))
    print(
        f"{options.trace.name}: {len(trace.slices):,} slices, {len(trace.names):,} names, {trace.size / 1e6:.0f} MB\n"
    )
    print("| query | hits | first run: first hits ms | best: first hits ms | of budget | best: all ms |")
    print("|---|---|---|---|---|---|")
    for text in options.query:
        runs = [measure(trace, searchable, orders, text) for _ in range(RUNS)]
        first, whole = min(run[1] for run in runs), min(run[2] for run in runs)
        print(
            f"| {text} | {runs[0][0]:,} | {runs[0][1] * 1000:.1f} | {first * 1000:.1f} | {first / FIRST_HITS_S:.2f} "
            f"| {whole * 1000:.1f} |"
        )


if __name__ == "__main__":
    main()
