"""Findings of a serving run beside those of a training run as long: ``python tests/benchmarks/engine.py [SLICES]``.

Writes two traces of about so many slices (10 million without it; 3 GB each, a few minutes): an engine whose steps
replay a graph of a thousand kernels, every third of which launches each kernel by itself, and training. Prints
what all findings take with the two threads of commands, each trace open and in a process of its own, and the ratio.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import orjson

ROOT = Path(__file__).resolve().parents[2]
for folder in (ROOT, ROOT / "fixtures", ROOT / "tests", ROOT / "tests" / "rules"):
    sys.path.insert(0, str(folder))

from engines import Batch, Engine, Run, troubles  # noqa: E402 - its folder is no package
from large_trace import write_large_trace  # noqa: E402

PROGRAM = """
import sys, time
from pathlib import Path
from npu_tui.load.load import Opening
from npu_tui.profile.profile import Profile
opening = Opening(Path(sys.argv[1]))
trace = opening.trace()
begin, used = time.perf_counter(), time.process_time()
profile = Profile(trace, opening.source, threads=2)
lead = profile.findings.findings[0].id
print(len(trace.slices), len(profile.steps), lead, time.perf_counter() - begin, time.process_time() - used)
"""
_SLICES_A_STEP = 1340
_WRITTEN = 200
"""Steps that are written at once."""


class _Long(Run):
    """A run that is written while it goes on."""

    def __init__(self, engine: Engine, path: Path) -> None:
        self._of_kernel = 0
        with path.open("wb") as self._file:
            super().__init__(engine)
            self._flush()
            self._file.write(b"]")

    def _took(self, what: int, length: float) -> float:
        self._of_kernel += 1
        return length * (1 + 0.02 * ((self._of_kernel * 2654435761 >> 7) % 1000 / 500 - 1))

    def _step(self, number: int, batch: Batch) -> None:
        super()._step(number, batch)
        if number % _WRITTEN == 0:
            self._flush()

    def _flush(self) -> None:
        if self.events:
            self._file.write((b"," if self._file.tell() else b"[") + orjson.dumps(self.events)[1:-1])
        self.events.clear()
        self.rows.clear()


def write_engine(path: Path, slices: int) -> None:
    """Write the trace of an engine of about ``slices`` slices to ``path``."""
    engine = troubles()["eager hole"].lasting(max(slices // _SLICES_A_STEP, 3)).engine
    _Long(replace(engine, layers=250, matmul=4.0, attention=3.0), path)


def measured(path: Path) -> Iterator[str]:
    """Slices, steps, the finding that leads, seconds, seconds of processor."""
    yield from subprocess.run(
        [sys.executable, "-c", PROGRAM, path], check=True, capture_output=True, text=True
    ).stdout.split()


def main() -> None:
    """Print a line for each trace."""
    slices = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    with tempfile.TemporaryDirectory() as made:
        times = []
        for name, write in (("training", write_large_trace), ("engine", write_engine)):
            path = Path(made) / f"{name}.json"
            write(path, slices)
            count, steps, lead, time, used = measured(path)
            times.append(float(time))
            print(f"{name}: {int(count):,} slices, {steps} steps, {lead}: {times[-1]:.2f} s, {float(used):.2f} of CPU")
        print(f"{times[1] / times[0]:.2f} x")


if __name__ == "__main__":
    main()
