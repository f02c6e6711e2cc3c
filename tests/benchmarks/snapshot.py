"""Time and memory to open a memory snapshot, its report, and frames of it, beside ``pickle.load`` of the same file.

``python tests/benchmarks/snapshot.py [FILE.pkl]``: without a file one of a million events is generated. *open* is until
the lanes are there; frames are those of panning and zooming at 200x50, from the key to the grid. Memory is the most
that opening takes beside what the program takes, as a multiple of the file.
"""

from __future__ import annotations

import gc
import pickle
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "fixtures"))

from snapshot import write_snapshot  # its folder is no package

from npu_tui.load.load import load
from npu_tui.output.memory_report import memory_report
from npu_tui.profile.profile import Profile
from npu_tui.tui.session import make_session, settle
from npu_tui.view.explorer import Explorer

FRAMES = 200


def _most() -> int:
    """The most memory of this process so far, bytes."""
    status = Path("/proc/self/status").read_text(encoding="ascii").split("\n")
    return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))


def measure(path: Path) -> None:
    """Print a line for each figure."""
    size = path.stat().st_size
    before, begin = _most(), time.perf_counter()
    trace = load(path)
    opened = time.perf_counter() - begin
    memory = (_most() - before) / size
    assert trace.snapshot is not None
    begin = time.perf_counter()
    report = memory_report(trace.snapshot)
    told = time.perf_counter() - begin
    session = make_session([Profile(trace)])
    settle()
    explorer = Explorer(session.scene, 200, 40)
    times = []
    for number in range(FRAMES):
        begin = time.perf_counter()
        explorer.zoom(0.8 if number % 40 < 20 else 1.25)
        explorer.pan(0.1 if number % 2 else -0.05)
        session.painter.compose(explorer.rows, explorer.state, 200, 40)
        times.append(time.perf_counter() - begin)
    p50, p95 = np.percentile(times, (50, 95)) * 1000
    gc.disable()
    begin = time.perf_counter()
    with path.open("rb") as stream:
        pickle.load(stream)
    plain = time.perf_counter() - begin
    print(f"{size / 1e6:,.1f} MB, {report.health.events:,} events; pickle.load {plain:.2f} s")
    print(
        f"open   {opened:.2f} s, {opened / plain:.2f} x; memory {memory:.2f} x the file ({len(trace.slices):,} slices)"
    )
    print(f"report {told:.2f} s, {told / plain:.2f} x")
    print(f"frames: median {p50:.1f} ms, p95 {p95:.1f} ms, of {FRAMES}")


if __name__ == "__main__":
    if sys.argv[1:]:
        measure(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            write_snapshot(Path(folder) / "large.pkl", "large")
            measure(Path(folder) / "large.pkl")
