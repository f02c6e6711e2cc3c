"""Two profiles compared from their parsed copies: how long the table takes, and a frame against that of one profile.

``python tests/benchmarks/compare.py BASE NEW``: opens both once so that there are copies, then prints every figure with
its ratio to the budget (table 2 s for two files of 1 GB; a line of a
frame as long as with one profile; CPU time for frames, wall time for the rest).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from npu_tui.compare.comparison import ProfileComparison
from npu_tui.compare.measured import MeasuredSide
from npu_tui.compare.picture import ComparisonPicture, compared_scene
from npu_tui.compare.tables import PROFILE_FINDINGS
from npu_tui.load.load import opening_of
from npu_tui.output.compare_report import compare_document, compared
from npu_tui.output.text import text
from npu_tui.profile.profile import Profile
from npu_tui.profile.scene import make_scene
from npu_tui.view.caches import lanes_top
from npu_tui.view.explorer import Explorer
from npu_tui.view.margins import gutter_width
from npu_tui.view.painter import Painter
from npu_tui.view.scene import Scene

TABLE_SECONDS = 2.0
WIDTH, HEIGHT = 200, 50
ROUNDS = 120
ZOOMS = (1.0, 16.0, 256.0, 4096.0)


def timed(work: Callable[[], object]) -> tuple[float, object]:
    """Seconds and result."""
    begun = time.perf_counter()
    result = work()
    return time.perf_counter() - begun, result


def opened(path: Path) -> Profile:
    """The profile at ``path``, from its copy where there is one."""
    opening = opening_of(path, cached=True)
    return Profile(opening.trace(), opening.source)


class Frames:
    """Composing the frames of a scene while it pans at ``zoom``; CPU time of each in ms."""

    def __init__(self, scene: Scene, zoom: float) -> None:
        self.explorer = Explorer(scene, WIDTH - gutter_width(WIDTH), HEIGHT - lanes_top(HEIGHT))
        self.explorer.zoom(zoom)
        self.painter = Painter(scene)
        self.times: list[float] = []
        self.lines = min(len(self.explorer.rows), HEIGHT - lanes_top(HEIGHT))
        self._compose()

    def _compose(self) -> None:
        self.painter.compose(self.explorer.rows, self.explorer.state, WIDTH, HEIGHT)

    def pan(self, turn: int) -> None:
        """One more frame."""
        self.explorer.pan(0.1 if turn % 4 < 2 else -0.1)
        begun = time.thread_time()
        self._compose()
        self.times.append((time.thread_time() - begun) * 1000)


def frames(scenes: Sequence[Scene], zoom: float) -> list[tuple[float, float, int]]:
    """Median and p95 of a frame of each scene, ms, and how many lines it has; they take turns, so that what else the
    machine does slows all of them alike."""
    panned = [Frames(each, zoom) for each in scenes]
    for turn in range(ROUNDS):
        for each in panned:
            each.pan(turn)
    return [(statistics.median(own.times), sorted(own.times)[int(0.95 * ROUNDS) - 1], own.lines) for own in panned]


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", type=Path)
    parser.add_argument("new", type=Path)
    options = parser.parse_args()
    paths = (options.base, options.new)
    for path in paths:
        opened(path)
    opening, profiles = timed(lambda: [opened(path) for path in paths])
    assert isinstance(profiles, list)
    comparison = ProfileComparison(*map(MeasuredSide, profiles))
    picture = ComparisonPicture(comparison)
    table, _ = timed(lambda: (picture.changes, comparison.parts, comparison.step))
    drawing, scene = timed(lambda: compared_scene(picture))
    judging, _ = timed(lambda: PROFILE_FINDINGS.records(comparison))
    written, report = timed(lambda: text(compare_document(compared(comparison, single=False))))
    assert isinstance(scene, Scene)
    gigabytes = sum(path.stat().st_size for path in paths if path.is_file()) / 1e9
    slices = sum(len(profile.trace.slices) for profile in profiles)
    print(f"{gigabytes:.2f} GB, {slices:,} slices, {len(str(report).splitlines())} lines of the report")
    print("| what | s | of 2 s |\n|---|---:|---:|")
    for name, seconds in (
        ("open both from their copies", opening), ("the table", table), ("open and the table", opening + table),
        ("the pair to draw", drawing), ("the report", written), ("the findings of both", judging),
    ):  # fmt: skip
        print(f"| {name} | {seconds:.2f} | {seconds / TABLE_SECONDS:.2f} |")
    one = make_scene([profiles[0]])
    print("\n| zoom | one: median, p95 ms, lines | both: median, p95 ms, lines | ratio | per line |")
    print("|---|---:|---:|---:|---:|")
    for zoom in ZOOMS:
        alone, both = frames((one, scene), zoom)
        told = [f"{median:.1f}, {p95:.1f}, {lines}" for median, p95, lines in (alone, both)]
        ratio = both[0] / alone[0]
        print(f"| {zoom:g} | {told[0]} | {told[1]} | {ratio:.2f} | {ratio * alone[2] / both[2]:.2f} |")


if __name__ == "__main__":
    main()
