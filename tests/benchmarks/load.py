"""Loading against ``orjson.loads`` alone: ``python tests/benchmarks/load.py FILE...`` prints a Markdown table.

Every measurement runs in a process of its own, imports excluded; the rounds of both interleave and medians are shown.
``orjson.loads`` runs without garbage collection, as the loader does. Peak memory is the process's own (RSS), with the
interpreter and its imports in it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import median

ROUNDS = 3
_REPORT = "print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024]))"
LOADS = f"""
import gc, json, resource, sys, time
import orjson
gc.disable()
begun = time.perf_counter()
with open(sys.argv[1], "rb") as file:
    events = orjson.loads(file.read())
seconds = time.perf_counter() - begun
{_REPORT}
"""
LOAD = f"""
import json, resource, sys, time
from npu_tui.ingest.load import load
begun = time.perf_counter()
trace = load(sys.argv[1])
seconds = time.perf_counter() - begun
{_REPORT}
"""


def measure(program: str, path: Path) -> tuple[float, int]:
    """Seconds and peak bytes of ``program`` on ``path`` in a fresh process."""
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{path}: {done.stderr.strip().splitlines()[-1]}")
    seconds, peak = json.loads(done.stdout)
    return seconds, peak


def row(path: Path) -> str:
    """The table row of one file."""
    rounds = [(measure(LOADS, path), measure(LOAD, path)) for _ in range(ROUNDS)]
    loads, loads_peak, load, load_peak = (
        median(found[program][value] for found in rounds) for program in (0, 1) for value in (0, 1)
    )
    ratio = median(ours[0] / theirs[0] for theirs, ours in rounds)
    size = path.stat().st_size
    return (
        f"| {path.name} | {size / 1e6:.1f} | {loads:.3f} | {load:.3f} | {ratio:.2f} "
        f"| {loads_peak / 1e6:.0f} | {load_peak / 1e6:.0f} |"
    )


def main() -> None:
    """Measure every file of the command line."""
    parser = argparse.ArgumentParser(description="Time and memory of loading a trace, against orjson.loads alone.")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a trace_view.json")
    print("| file | MB | orjson.loads s | load s | ratio | orjson.loads peak MB | load peak MB |")
    print("|---|---|---|---|---|---|---|")
    for path in parser.parse_args().files:
        print(row(path), flush=True)


if __name__ == "__main__":
    main()
