"""Flips bits in parsed copies and cuts them short: `python tests/attack/flips.py --flips 2000`.

A flipped copy must be refused, or give the trace to the bit, and so must its sketch.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "load"))

from equality import assert_same, assert_same_folds

from npu_tui.load.copy_container import DamagedError, opened_path, read_container, sketch_of, write_container
from npu_tui.load.find import Source, find_source
from npu_tui.load.load import load
from npu_tui.trace.model import Trace

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("dispatch_bound", "healthy", "msprof_two_devices", "kineto", "level0", "communication_bound")
_STAMP = 1_700_000_000_000_000_000


def run_flips(seed: int, count: int) -> tuple[Counter[str], list[str]]:
    """How ``count`` damaged copies were met, and what is wrong."""
    rng = random.Random(seed)
    ended: Counter[str] = Counter()
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        copies = [_copy(ROOT / "fixtures" / name, Path(folder) / name) for name in NAMES]
        for number in range(count):
            trace, source, path = rng.choice(copies)
            data = bytearray(path.read_bytes())
            at, bits = rng.randrange(len(data)), rng.choice([1, 1, 1, 3])
            for _ in range(bits):
                data[min(at + rng.randrange(64), len(data) - 1)] ^= 1 << rng.randrange(8)
            if rng.random() < 0.05:
                del data[at:]
            damaged = Path(folder) / "damaged"
            damaged.write_bytes(data)
            os.utime(damaged, ns=(_STAMP, _STAMP))
            try:
                ended[_met(trace, source, damaged)] += 1
            except Exception:
                lines = traceback.format_exc().splitlines()
                problems.append(f"flip {number} of seed {seed}: {path.name} at byte {at}: {lines[-1]} {lines[-3:-1]}")
    return ended, problems


def _copy(profile: Path, path: Path) -> tuple[Trace, Source, Path]:
    source = find_source(profile)
    trace = load(source)
    with path.open("w+b") as out:
        assert write_container(trace, out, _STAMP, lambda: True)
    os.utime(path, ns=(_STAMP, _STAMP))
    return trace, source, path


def _met(trace: Trace, source: Source, damaged: Path) -> str:
    """How the copy of ``trace`` at ``damaged`` was met. Raises whatever is wrong."""
    descriptor = os.open(damaged, os.O_RDONLY)
    try:
        with contextlib.suppress(DamagedError):
            sketch, known = read_container(descriptor, source, sketch=True), sketch_of(trace)
            assert known is not None
            assert_same(known, sketch)
            assert_same_folds(known, sketch)
        try:
            opened_path(descriptor)
        except DamagedError:
            return "refused at the opening"
        try:
            found = read_container(descriptor, source)
        except DamagedError:
            return "refused by its checksums"
        assert_same(trace, found)
        assert_same_folds(trace, found)
        return "the same to the bit"
    finally:
        os.close(descriptor)


def main() -> int:
    """The command; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description="Flip bits in parsed copies.")
    parser.add_argument("--flips", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    ended, problems = run_flips(options.seed, options.flips)
    print(f"{options.flips:,} flips: " + ", ".join(f"{n:,} {how}" for how, n in ended.most_common()))
    print(f"{len(problems)} problems", *problems[:20], sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
