"""Time and memory to open a memory snapshot, its report, and frames of it, beside ``pickle.load`` of the same file.

``python tests/benchmarks/snapshot.py [FILE.pkl]``: without a file one of a million events is generated. *open* is until
the lanes are there; frames are those of panning and zooming at 200x50, from the key to the grid. Memory is the most
that opening takes beside what the program takes, as a multiple of the file.
"""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "fixtures"))

from composed import frames_line
from snapshot import write_snapshot  # its folder is no package

from npu_tui.load.load import load
from npu_tui.output.memory_report import memory_report


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
    frames = frames_line(trace)
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
    print(frames)


if __name__ == "__main__":
    if sys.argv[1:]:
        measure(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            write_snapshot(Path(folder) / "large.pkl", "large")
            # Writing takes more memory than opening: a process of its own opens it.
            subprocess.run([sys.executable, __file__, str(Path(folder) / "large.pkl")], check=True)
