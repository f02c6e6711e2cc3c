"""Start to the first lanes in a pseudo-terminal and of ``--help``: ``python tests/benchmarks/startup.py TRACE``.

Medians of ten runs with their ratios to the budgets (0.35 s, or 1 s for a trace that still loads then, and 0.1 s) and
to starting Python alone. ``--copy`` reopens a large trace from its parsed copy (0.4 s), else none is used. A Textual
application of one widget tells what importing and starting Textual takes; ``--modules`` what importing each part takes
before the first lanes and before the application draws.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from terminal import KEYS, Terminal, npu_tui

from npu_tui.load.copy import LEAST_BYTES

PAINT_S, REOPEN_S, EARLY_S, HELP_S = 0.35, 0.4, 1.0, 0.1
RUNS = 10
LANES = "▾".encode()
BARE = [sys.executable, "-c", """
from rich.segment import Segment
from textual.app import App
from textual.strip import Strip
from textual.widget import Widget

class Lanes(Widget):
    def render_line(self, y):
        return Strip([Segment("▾" * self.size.width)])

class Bare(App):
    def compose(self):
        yield Lanes()

Bare().run()
"""]  # fmt: skip
PARTS = {
    "before the first lanes": "import npu_tui.cli.main, npu_tui.cli.explore, npu_tui.settings, npu_tui.load.load,"
    "npu_tui.tui.loading, npu_tui.view.ansi, npu_tui.view.painter,"
    "npu_tui.view.explorer",
    "before the application draws": "import npu_tui.cli.explore, npu_tui.tui.app",
}


def paint(command: list[str]) -> tuple[float, float]:
    """Seconds from the start of the process to the first lanes, and to the first frame of the application."""
    terminal = Terminal(command, 120, 40, answers=True)
    data, last = terminal.read(until=LANES, quiet=0.02)
    lanes = last - terminal.begun
    if KEYS not in data:
        _, last = terminal.read(until=KEYS, quiet=0.02)
    drawn = last - terminal.begun
    terminal.read(quiet=0.3, limit=2.0)
    terminal.close()
    return lanes, drawn


def modules(code: str) -> Counter[str]:
    """Milliseconds that importing takes, by package, with Python's own part of this program's start as ``stdlib``."""
    told = subprocess.run([sys.executable, "-X", "importtime", "-c", code], check=True, capture_output=True, text=True)
    found: Counter[str] = Counter()
    for own, name in re.findall(r"import time: +(\d+) \| +\d+ \| +(\S+)", told.stderr):
        words = name.split(".")
        room = ".".join(words[:2]) if words[0] == "npu_tui" else words[0]
        found[room if room.startswith(("npu_tui", "numpy", "textual", "rich", "msgspec")) else "stdlib"] += int(own)
    return found


def run(command: list[str]) -> float:
    """Seconds a command takes."""
    begun = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - begun


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--copy", action="store_true", help="reopen the trace from its parsed copy")
    parser.add_argument("--modules", action="store_true", help="tell what importing takes")
    options = parser.parse_args()
    path = options.trace
    if options.modules:
        for part, code in PARTS.items():
            runs = [modules(code) for _ in range(RUNS)]
            names = sorted(runs[0], key=lambda name: -runs[0][name])
            told = {name: statistics.median(run[name] for run in runs) / 1000 for name in names}
            print(f"{part}: {sum(told.values()):.0f} ms;", ", ".join(f"{name} {told[name]:.0f}" for name in names[:14]))
        return
    if options.copy:
        subprocess.run(npu_tui("index", str(path)), check=True, capture_output=True)
    else:
        os.environ["NPU_TUI_CACHE_MB"] = "0"
        os.environ["XDG_CACHE_HOME"] = tempfile.gettempdir()
    budget = REOPEN_S if options.copy else PAINT_S if path.stat().st_size < LEAST_BYTES else EARLY_S
    bare = statistics.median(run([sys.executable, "-c", "pass"]) for _ in range(RUNS))
    help_time = statistics.median(run(npu_tui("--help")) for _ in range(RUNS))
    both = [(paint(BARE)[0], *paint(npu_tui(str(path)))) for _ in range(RUNS)]
    floor, first, drawn = (statistics.median(times) for times in zip(*both, strict=True))
    print("| what | median s | of budget | x bare Python |")
    print("|---|---|---|---|")
    print(f"| python -c pass | {bare:.3f} | | 1.0 |")
    print(f"| npu-tui --help | {help_time:.3f} | {help_time / HELP_S:.2f} | {help_time / bare:.1f} |")
    megabytes = path.stat().st_size / 1e6
    how = ", from its copy" if options.copy else ""
    print(f"| first lanes, {megabytes:.1f} MB{how} | {first:.3f} | {first / budget:.2f} | {first / bare:.1f} |")
    print(f"| first frame of the application, keys answered | {drawn:.3f} | | {drawn / bare:.1f} |")
    print(f"| first frame of a Textual application of one widget | {floor:.3f} | | {floor / bare:.1f} |")


if __name__ == "__main__":
    main()
