"""Simulated memory snapshots with one trouble each: is it told first, by its line, and nothing of a healthy one?

    python tests/snapshots.py [--seeds 20] [NAME…]

Prints how many seeds of each cause were judged right, and what was said of the others.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "fixtures"))

# Its folder is no package.
from snapshot import CAUSES, MB, Allocator, OutOfMemoryError, simulate, write_snapshot  # noqa: E402, F401

from npu_tui.load.snapshot import load_snapshot  # noqa: E402
from npu_tui.output.memory_report import memory_report  # noqa: E402


def failures(cause: str, seed: int, folder: Path) -> list[str]:
    """What is wrong with the report about `cause`: its figures, what it tells first, and of whom; empty if nothing is.

    What is only information, such as the line that holds most, is told of every snapshot.
    """
    path = folder / "snapshot.pkl"
    write_snapshot(path, cause, seed)
    truth = json.loads((folder / "truth.json").read_bytes())
    report = memory_report(load_snapshot(path))
    (device,) = report.devices
    figures = {
        "events": device.events, "peak_requested_bytes": device.peak_requested_bytes,
        "requested_end_bytes": device.requested_end_bytes, "reserved_end_bytes": device.reserved_end_bytes,
    }  # fmt: skip
    wrong = [f"{name}: {value}, not {truth[name]}" for name, value in figures.items() if value != truth[name]]
    wrong += [f"{row.reason}: {row.count}" for row in report.health.skipped]
    graver = [finding for finding in report.findings if finding.severity != "info"]
    wanted = [] if truth["finding"] in (None, "SNAPSHOT.PEAK") else [truth["finding"]]
    if [finding.id for finding in graver] != wanted:
        wrong.append(f"told: {[finding.title for finding in graver]}")
    told = next((finding for finding in report.findings if finding.id == truth["finding"]), None)
    line = told.where.line if told is not None and told.where is not None else None
    if truth["line"] is not None and line != truth["line"]:
        wrong.append(f"line {line}, not {truth['line']}")
    return wrong


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=[name for name in CAUSES if name != "large"])
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    for name in options.names:
        with tempfile.TemporaryDirectory() as folder:
            wrong = {seed: failures(name, seed, Path(folder)) for seed in range(1, options.seeds + 1)}
        print(f"{name:16}{sum(not said for said in wrong.values())}/{options.seeds}")
        for seed, said in wrong.items():
            if said:
                print(f"  seed {seed}: {'; '.join(said)}")


if __name__ == "__main__":
    main()
