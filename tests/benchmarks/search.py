"""Time from a query to its hits, and to the first ones where args are read from the file.

``python tests/benchmarks/search.py TRACE [QUERY ...]``: every query is asked first of a trace that was never searched,
as the explorer does it (what ``/`` prepares while the query is typed is timed on its own), and then again. Both are
given with their ratio to a plain loop in Python over the names of all slices, timed in the same run.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np
import numpy.typing as npt

from npu_tui.analysis.search import Searchable, parse_search
from npu_tui.load.load import Opening
from npu_tui.profile.profile import Profile
from npu_tui.trace.model import Trace
from npu_tui.tui.session import make_hits
from npu_tui.view.scene import Scene

I64 = npt.NDArray[np.int64]

FIRST_HITS_S = 0.1
LATER = 3
QUERIES = (
    "a",
    "matmul",
    "/^aclnn.*mul/",
    "/(mat|rel)+mul/",
    "name=aten::linear",
    "dur>1ms",
    "start>1s",
    "end<1s",
    "layer:cann dur>10us",
    "lane:Stream",
    "class:starved",
    "class:cube",
    "line:train.py",
    "line:train.py:139",
    "step:50",
    "arg:Input Dims~64",
    "layer:hardware arg:Stream Id>40",
    "arg:Input Dims~nowhere",
)


def measure(scene: Scene, searchable: Searchable, order: I64, text: str) -> tuple[int, float, float]:
    """Hits, seconds to the first of them (to the end where there are none), seconds to the last."""
    trace = scene.traces[0]
    begun = time.perf_counter()
    query = parse_search(text)
    mask = searchable.find(query)
    if not query.args:
        hits = make_hits(text, scene, [mask])
        taken = time.perf_counter() - begun
        return len(hits), taken, taken
    count, first = 0, 0.0
    for found in trace.args.scan(trace.slices.event[order[mask[order]]], query.args):
        count += len(found.places)
        if count and not first:
            first = time.perf_counter() - begun
    whole = time.perf_counter() - begun
    return count, first or whole, whole


def plain_loop(trace: Trace) -> float:
    """Seconds of a loop over the names of all slices."""
    names, codes = [name.lower() for name in trace.names], trace.slices.name.tolist()
    begun = time.perf_counter()
    sum("matmul" in names[code] for code in codes)
    return time.perf_counter() - begun


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("query", nargs="*", default=QUERIES)
    options = parser.parse_args()
    trace = Opening(options.trace).trace()
    profile = Profile(trace)
    scene = Scene([trace], [])
    loop = plain_loop(trace)
    print(f"{options.trace.name}: {len(trace.slices):,} slices, {len(trace.names):,} names, {trace.size / 1e6:.0f} MB")
    print(f"a plain loop over the names of all slices: {loop * 1000:.0f} ms")
    begun = time.perf_counter()
    Searchable(trace, profile.dispatch, lambda: profile.steps).prepare()
    order = trace.slices.file_order()
    prepared = (time.perf_counter() - begun) * 1000
    print(f"prepared while the first query is typed, for line:, step: and arg: {prepared:.0f} ms\n")
    print("| query | hits | first search: first hits ms | of loop | later: first hits ms | of loop | all hits ms |")
    print("|---|---|---|---|---|---|---|")
    slow = []
    for text in options.query:
        searchable = Searchable(trace, profile.dispatch, lambda: profile.steps)
        searchable.prepare()
        count, first, _ = measure(scene, searchable, order, text)
        later = [measure(scene, searchable, order, text) for _ in range(LATER)]
        again, whole = median(run[1] for run in later), median(run[2] for run in later)
        print(
            f"| {text} | {count:,} | {first * 1000:.1f} | {first / loop:.2f} | {again * 1000:.1f} | {again / loop:.2f} "
            f"| {whole * 1000:.1f} |"
        )
        if count and first > FIRST_HITS_S:
            slow.append(text)
    imported = "polars" in sys.modules
    print(f"\nfirst hits later than {FIRST_HITS_S} s: {', '.join(slow) or 'none'}; polars imported: {imported}")


if __name__ == "__main__":
    main()
