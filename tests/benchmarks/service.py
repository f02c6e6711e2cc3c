"""Time to open an inference service, and of its frames, beside a plain read of the same tables.

``python tests/benchmarks/service.py [FOLDER]``: without a folder one is generated, of 100,000 requests and a million
rows of batch.csv (``--requests N`` for fewer). *open* is until the lanes are there, *links* until requests lead to
batches, which takes the names of all requests of all batches; both with their ratio to ``polars.read_csv`` of all CSV
files, in this run. Frames are those of panning and zooming at 200x50, from the key to the grid.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "fixtures"))

from composed import frames_line
from service_causes import LARGE, write_service

from npu_tui.load.errors import Watcher
from npu_tui.load.load import load


def measure(folder: Path) -> None:
    """Print a line for each figure."""
    size = sum(file.stat().st_size for file in folder.glob("*.csv"))
    begin = time.perf_counter()
    rows = {file.name: len(pl.read_csv(file, infer_schema=False)) for file in sorted(folder.glob("*.csv"))}
    plain = time.perf_counter() - begin
    print(f"{size / 1e6:,.0f} MB, " + ", ".join(f"{name} {count:,}" for name, count in rows.items()))
    print(f"polars.read_csv {plain:.2f} s")
    shown: list[float] = []
    begin = time.perf_counter()
    trace = load(folder, Watcher(early=lambda _: shown.append(time.perf_counter() - begin)))
    done = time.perf_counter() - begin
    print(f"open  {shown[0]:.2f} s, {shown[0] / plain:.2f} x ({len(trace.slices):,} slices)")
    print(f"links {done:.2f} s, {done / plain:.2f} x ({len(trace.links):,} links)")
    print(frames_line(trace))


def main() -> None:
    """Measure the folder that was given, or one that is generated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--requests", type=int, default=100_000)
    options = parser.parse_args()
    if options.folder is not None:
        measure(options.folder)
        return
    with tempfile.TemporaryDirectory() as folder:
        write_service(Path(folder), LARGE, requests=options.requests)
        measure(Path(folder))


if __name__ == "__main__":
    main()
