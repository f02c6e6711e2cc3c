"""Start to the first lanes in a pseudo-terminal and of ``--help``: ``python tests/benchmarks/startup.py TRACE``.

Medians of ten runs with their ratios to the budgets (0.6 s, or 1 s for a trace that still loads then, and 0.1 s) and to
starting Python alone. No parsed copy is used.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from terminal import Terminal, npu_tui

from npu_tui.ingest.json.reading.workers import ALONE_BYTES

PAINT_S, EARLY_S, HELP_S = 0.6, 1.0, 0.1
RUNS = 10


def paint(path: Path) -> float:
    """Seconds from the start of the process to the first picture with lanes; what is found in them comes later."""
    terminal = Terminal(npu_tui(str(path)), 120, 40, answers=True)
    _, last = terminal.read(until="▾".encode(), quiet=0.02)
    seconds = last - terminal.begun
    terminal.read(quiet=0.3, limit=2.0)
    terminal.close()
    return seconds


def run(command: list[str]) -> float:
    """Seconds a command takes."""
    begun = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - begun


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path)
    path = parser.parse_args().trace
    os.environ["NPU_TUI_CACHE_MB"] = "0"
    os.environ["XDG_CACHE_HOME"] = tempfile.gettempdir()
    budget = PAINT_S if path.stat().st_size < ALONE_BYTES else EARLY_S
    bare = statistics.median(run([sys.executable, "-c", "pass"]) for _ in range(RUNS))
    help_time = statistics.median(run(npu_tui("--help")) for _ in range(RUNS))
    first = statistics.median(paint(path) for _ in range(RUNS))
    print("| what | median s | of budget | x bare Python |")
    print("|---|---|---|---|")
    print(f"| python -c pass | {bare:.3f} | | 1.0 |")
    print(f"| npu-tui --help | {help_time:.3f} | {help_time / HELP_S:.2f} | {help_time / bare:.1f} |")
    megabytes = path.stat().st_size / 1e6
    print(f"| first lanes, {megabytes:.1f} MB | {first:.3f} | {first / budget:.2f} | {first / bare:.1f} |")


if __name__ == "__main__":
    main()
