"""Damaged exports of a service: every one is judged, and in time.

python tests/attack/damaged_services.py [--mutants 300] [--seed 1]
"""

from __future__ import annotations

import argparse
import csv
import random
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "fixtures"))

from service_causes import write_service  # noqa: E402 - its folder is no package

from npu_tui.analysis.service_latency import UNKNOWN, timeline  # noqa: E402
from npu_tui.load.service import read_service  # noqa: E402
from npu_tui.rules.service_verdict import judge  # noqa: E402
from npu_tui.strings import words  # noqa: E402

ODD = [
    "",
    "0",
    "-1",
    "<NA>",
    "nan",
    "inf",
    "1e300",
    "9223372036854775807",
    "-9223372036854775808",
    "x",
    "[]",
    "[{}]",
    "3.5",
]
SECONDS = 20


def damage(folder: Path, into: Path, draw: random.Random) -> str:
    """A copy of ``folder`` with one or several damages; what they are."""
    told = []
    for file in sorted(folder.glob("*.csv")):
        rows = list(csv.reader(file.open(encoding="utf-8", newline="")))
        kind = draw.choice(["none", "cut", "cells", "column", "rows", "gone", "shuffle"])
        width = len(rows[0])
        if kind == "cells":
            for _ in range(draw.randint(1, 40)):
                rows[draw.randrange(1, len(rows))][draw.randrange(width)] = draw.choice(ODD)
        elif kind == "column":
            place, value = draw.randrange(width), draw.choice(ODD)
            for row in rows[1:]:
                row[place] = value
        elif kind == "rows":
            rows = rows[:1] + draw.choices(rows[1:], k=len(rows))
        elif kind == "shuffle":
            place = draw.randrange(width)
            values = [row[place] for row in rows[1:]]
            draw.shuffle(values)
            for row, value in zip(rows[1:], values, strict=True):
                row[place] = value
        told.append(f"{file.stem} {kind}")
        if kind == "gone":
            continue
        with (into / file.name).open("w", encoding="utf-8", newline="") as out:
            csv.writer(out).writerows(rows)
        if kind == "cut":
            text = (into / file.name).read_bytes()
            (into / file.name).write_bytes(text[: draw.randrange(len(text))])
    return ", ".join(told)


def judged(folder: Path) -> float:
    """Judge the service in ``folder``; the seconds it took. Raises what goes wrong."""
    began = time.monotonic()
    found = timeline(read_service(folder))
    lat = found.latencies
    known = lat.answered
    assert (lat.ttft_parts[known].sum(axis=1) == lat.ttft[known]).all()
    assert (lat.ttft != UNKNOWN)[known].all()
    list(map(words, judge(found).findings.verdict))
    return time.monotonic() - began


CAUSES = ("kv", "transfer", "rank_slow", "mix")


def attack(mutants: int, seed: int, causes: tuple[str, ...] = CAUSES) -> list[str]:
    """What went wrong with services of ``causes``, a line each."""
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        wholes = []
        for cause in causes:
            wholes.append(Path(folder) / cause)
            write_service(wholes[-1], cause, 1, 40)
        for number in range(mutants):
            draw, into = random.Random(seed * 1_000_003 + number), Path(folder) / "damaged"
            into.mkdir()
            told = damage(draw.choice(wholes), into, draw)
            signal.alarm(SECONDS)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error", RuntimeWarning)
                    judged(into)
            except Exception as error:
                failed.append(f"{number}: {type(error).__name__} {error}: {told}")
            finally:
                signal.alarm(0)
            for file in into.iterdir():
                file.unlink()
            into.rmdir()
    return failed


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    def late(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, late)
    failed = attack(options.mutants, options.seed)
    print("\n".join(failed) or f"{options.mutants} damaged services judged")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
