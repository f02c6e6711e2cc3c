"""How time and memory grow with the size of every extreme shape: `python tests/attack/sizes.py`.

Every figure is of a process of its own that loads a generated trace and writes its report.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from shapes import SHAPES, write_shape

_RUN = """
import os, resource, sys
from pathlib import Path
os.environ["NPU_TUI_CACHE_MB"] = "0"
from npu_tui.load.load import load
from npu_tui.profile.profile import Profile
from npu_tui.output.report import report
from npu_tui.output.report_document import report_document
from npu_tui.output.text import text
from npu_tui.output.svg import timeline_files

def memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

def processor():
    return sum(os.times()[:4])

base, begun = memory(), processor()
trace = load(sys.argv[1])
loaded = processor()
part = Profile(trace)
text(report_document(report(part)))
reported = processor()
timeline_files(part)
drawn = processor()
print(loaded - begun, reported - loaded, drawn - reported, memory() - base)
"""


def measured(path: Path, limit: float) -> tuple[float, ...] | None:
    """Processor seconds of loading, report and picture, MB of memory; None after ``limit`` seconds of the clock."""
    command = [sys.executable, "-c", _RUN, str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr)
        return None
    return tuple(map(float, done.stdout.split()))


def main() -> int:
    """The command; 1 if a shape grows faster than n log n with some room for noise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shapes", nargs="*", default=[])
    parser.add_argument("--sizes", default="5000,20000,80000,320000")
    parser.add_argument("--limit", type=float, default=120.0)
    options = parser.parse_args()
    sizes = [int(text) for text in options.sizes.split(",")]
    print("| shape | n | MB of file | load s | report s | picture s | memory MB | s per n log n, last to first |")
    print("|---|---|---|---|---|---|---|---|")
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for shape in options.shapes or SHAPES:
            first: float | None = None
            for size in sizes:
                path = write_shape(Path(folder) / "trace_view.json", shape, size)
                begun = time.monotonic()
                found = measured(path, options.limit)
                if found is None:
                    print(
                        f"| {shape} | {size:,} | | stopped after {time.monotonic() - begun:.0f} s | | | | |", flush=True
                    )
                    bad += 1
                    break
                load, report, picture, memory = found
                cost = (load + report + picture) / (size * math.log(size))
                growth = "" if first is None else f"{cost / first:.2f}"
                first = cost if first is None else first
                seconds = f"{load:.2f} | {report:.2f} | {picture:.2f}"
                mega = path.stat().st_size / 1e6
                print(f"| {shape} | {size:,} | {mega:.1f} | {seconds} | {memory:.0f} | {growth} |", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
