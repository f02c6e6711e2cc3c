"""Time from a key to the last byte of its frame, and the bytes, at 200x50 in a pseudo-terminal.

``python tests/benchmarks/frames.py TRACE [...]``: each figure is printed with its ratio to the budget (median 10 ms,
p95 14 ms, 15 kB per panning frame, 2 kB per row move). After every key a program of a few lines is asked for 5 ms of
plain Python in the same way: ``machine`` is how much longer its answer took, which is what other programs cost, and
times without it are printed too, and the processor time of the thread that draws. The first row is measured at once,
while the findings of a large trace are still computed (p95 16 ms), the others after ``--after`` seconds of rest.
``--fresh`` opens it without a parsed copy and measures from the first lanes on, while more of it comes, findings are
computed and a copy is written.
``--film`` measures the film of the first cause, two runs with their links and paths, against the same budgets, and how
long it takes to make.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from terminal import KEYS, Terminal, npu_tui

SIZE = (200, 50)
MEDIAN_MS, P95_MS, BESIDE_MS, PAN_BYTES, ROW_BYTES = 10.0, 14.0, 16.0, 15_000, 2_000
PLAIN, PLAIN_MS = (
    """
import os, tty
tty.setraw(0)
while os.read(0, 1):
    counts = dict.fromkeys(range(97), 0)
    for i in range(57_000):
        counts[i % 97] += i * i % 7
    os.write(1, b"." * 100)
""",
    5.0,
)
"""The program that the machine is judged by, and what its answer takes on an idle one, on which the budgets are met."""
STEPS = b"ProfilerStep"
FILM, LONGEST_FILM = b"Replayed without", 600.0
ROUNDS, FRESH_ROUNDS = 40, 4
REST = 0.12
"""Seconds between keys: the panel has followed the last one, and no frame is held back for the frame rate."""

ZOOMS = (
    ("whole", "w00", "ws"),  # the first 0 shows the step unless it is on screen already, the next one the whole trace
    ("1/16", "WW", "da"),
    ("1/256", "WW", "da"),
    ("1/4096", "WW", "da"),
    ("1/65536", "WW", "da"),
)


def go_to(terminal: Terminal, keys: str) -> None:
    """Press ``keys`` one after the other."""
    for key in keys:
        time.sleep(REST)
        terminal.press(key)


class Figures(NamedTuple):
    """Median and p95 of frames in ms, their median bytes, the ms of processor they take, and what the machine costs."""

    median: float
    p95: float
    size: float
    processor: float
    machine: float


def measure(terminal: Terminal, keys: str) -> Figures:
    """What ``ROUNDS`` of the two ``keys`` in turn take."""
    times, sizes, plain, begun = [], [], [], terminal.processor_ms()
    other = Terminal([sys.executable, "-c", PLAIN], 80, 24)
    other.press("a")
    for i in range(ROUNDS):
        time.sleep(REST)
        seconds, size = terminal.press(keys[i % 2])
        times.append(seconds * 1000)
        sizes.append(size)
        plain.append(1000 * other.press("a")[0])
    other.close()
    times.sort()
    processor = (terminal.processor_ms() - begun) / ROUNDS
    p95 = times[int(ROUNDS * 0.95) - 1]
    return Figures(
        statistics.median(times), p95, statistics.median(sizes), processor, statistics.median(plain) / PLAIN_MS
    )


def row(view: str, keys: str, figures: Figures, byte_budget: int, slow: float = P95_MS) -> str:
    """One line of the table."""
    median, p95, size, processor, machine = figures
    return (
        f"| {view} | {keys[0]} {keys[1]} | {median:.1f} | {median / MEDIAN_MS:.2f} | {p95:.1f} | {p95 / slow:.2f} "
        f"| {machine:.1f} × | {median / machine:.1f} | {p95 / machine:.1f} | {processor:.1f} "
        f"| {size / 1000:.1f} | {size / byte_budget:.2f} |"
    )


def opened(path: Path) -> Terminal:
    """The program with its first lanes."""
    terminal = Terminal(npu_tui(str(path)), *SIZE, answers=True)
    data, _ = terminal.read(until=KEYS, quiet=0.02, limit=120.0)
    if STEPS not in data.partition(KEYS)[2]:  # the picture before the application has them as well
        terminal.read(until=STEPS, quiet=0.5, limit=120.0)
    terminal.press("q")
    return terminal


def fresh(path: Path) -> None:
    """Print how keys are answered while ``path`` is opened for the first time."""
    print(f"\n{path.name}, {path.stat().st_size / 1e6:.1f} MB, {SIZE[0]}x{SIZE[1]}, without a copy\n")
    print("| seconds since the start | keys | median ms | p95 ms | longest ms |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="npu-tui-benchmark-") as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        terminal = opened(path)
        go_to(terminal, "w00")
        for _ in range(FRESH_ROUNDS):
            begun = time.perf_counter() - terminal.begun
            times = []
            for i in range(ROUNDS):
                time.sleep(REST)
                times.append(1000 * terminal.press("ws"[i % 2])[0])
            times.sort()
            shown = " | ".join(
                f"{each:.1f}" for each in (statistics.median(times), times[int(ROUNDS * 0.95) - 1], times[-1])
            )
            print(f"| {begun:.0f} to {time.perf_counter() - terminal.begun:.0f} | {ROUNDS} | {shown} |", flush=True)
        terminal.close()


def film(terminal: Terminal) -> None:
    """Go to the film of the first cause; prints how long that takes to make."""
    begun = time.perf_counter()
    os.write(terminal.master, b"!")
    # The findings come first: those of 10 M slices take half a minute where others use the machine, as the film does.
    data, last = terminal.read(until=FILM, quiet=0.5, limit=LONGEST_FILM)
    if FILM not in data:
        raise SystemExit(
            f"no film within {LONGEST_FILM:.0f} s: no finding gives the step that is left, or it takes longer"
        )
    print(f"film of the first cause made in {last - begun:.2f} s\n")


def table(terminal: Terminal) -> None:
    """Print a row for every zoom, and one for moves between rows."""
    for view, zoom, keys in ZOOMS:
        go_to(terminal, zoom)
        print(row(view, keys, measure(terminal, keys), PAN_BYTES), flush=True)
    print(row(ZOOMS[-1][0], "jk", measure(terminal, "jk"), ROW_BYTES))


HEADS = """\
| view | keys | median ms | of budget | p95 ms | of budget | machine | median | p95 without | processor | kB | of it |
|---|---|---|---|---|---|---|---|---|---|---|---|"""


def main() -> None:
    """Print one table per trace."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", nargs="+", type=Path)
    parser.add_argument("--after", type=float, default=8.0, metavar="SECONDS", help="of rest after the first row")
    parser.add_argument("--fresh", action="store_true", help="open it for the first time")
    parser.add_argument("--film", action="store_true", help="the film of the first cause")
    options = parser.parse_args()
    for path in options.trace:
        if options.fresh:
            fresh(path)
            continue
        print(f"\n{path.name}, {path.stat().st_size / 1e6:.1f} MB, {SIZE[0]}x{SIZE[1]}\n")
        terminal = opened(path)
        if options.film:
            terminal.read(quiet=options.after, limit=120.0 + options.after)
            film(terminal)
        print(HEADS)
        if not options.film:
            view, zoom, keys = ZOOMS[0]
            go_to(terminal, zoom)
            print(row(f"{view}, at once", keys, measure(terminal, keys), PAN_BYTES, BESIDE_MS), flush=True)
            terminal.read(quiet=options.after, limit=120.0 + options.after)
        table(terminal)
        terminal.close()


if __name__ == "__main__":
    main()
