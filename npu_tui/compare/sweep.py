"""Several profiles of one program in a row: how long a step takes, what of, and how much work is done a second."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.compare.partition import Part
from npu_tui.compare.side import Side
from npu_tui.compare.verdict import Judgement, judge

I64 = npt.NDArray[np.int64]

_BATCH = re.compile(r"(?:\bbs|batch(?:[ _-]?size)?)\s*[=: _-]?\s*(\d{1,9})", re.IGNORECASE)
_FEWEST_BATCHES, _NEARLY = 3, 0.9
"""Batch sizes that make a curve, and the share of the highest throughput from which more of a batch hardly pays."""
_IDLE: tuple[Part, ...] = ("host_late", "device_side", "unlinked")
_EXPOSED: tuple[Part, ...] = ("wait", "transfer", "exposed")
_OUTSIDE: tuple[Part, ...] = ("prep", "tail")


class SweepRow(Struct, frozen=True):
    """One profile; times are ns per step, means but for ``median``. None is what it does not tell.

    ``judged`` holds it against the first profile; that of the first one itself is None. ``batch`` is how many samples
    a step works on.
    """

    label: str
    side: Side
    batch: int | None
    median: float
    computing: float | None
    exposed: float | None
    idle: float | None
    outside: float | None
    judged: Judgement | None

    @property
    def steps_per_second(self) -> float | None:
        """Steps a second, by the median; None without a time."""
        return 1e9 / self.median if self.median else None

    @property
    def samples_per_second(self) -> float | None:
        """Samples a second; None where the batch size is not known."""
        rate = self.steps_per_second
        return None if rate is None or self.batch is None else rate * self.batch


def batch_of(label: str) -> int | None:
    """The batch size that ``label`` names: ``bs=32``, ``batch 64``, ``128``; None without one."""
    if label.strip().isdecimal():
        return int(label) or None
    found = _BATCH.search(label)
    return None if found is None else int(found[1]) or None


def sweep(sides: Sequence[Side], labels: Sequence[str], tolerance: float) -> list[SweepRow]:
    """One row per side in their order; ``labels`` name them. A change up to ``tolerance`` of a step is none."""
    rows = []
    for side, label in zip(sides, labels, strict=True):
        parts = side.parts(False)
        first = sides[0]
        judged = None if side is first else judge(first.walls, side.walls, tolerance)
        rows.append(
            SweepRow(
                label,
                side,
                batch_of(label),
                float(np.median(side.walls)),
                _mean(parts, ("computing",)),
                _mean(parts, _EXPOSED),
                _mean(parts, _IDLE),
                _mean(parts, _OUTSIDE),
                judged,
            )
        )
    return rows


def knee(rows: Sequence[SweepRow]) -> SweepRow | None:
    """The smallest batch that does nearly as many samples a second as any; None below three batch sizes."""
    rates = {row.batch: row for row in sorted(rows, key=lambda row: row.samples_per_second or 0.0) if row.batch}
    if len(rates) < _FEWEST_BATCHES:
        return None
    most = max(row.samples_per_second or 0.0 for row in rates.values())
    return min(
        (row for row in rates.values() if (row.samples_per_second or 0.0) >= _NEARLY * most),
        key=lambda row: row.batch or 0,
    )


def _mean(parts: Mapping[Part, I64], names: Sequence[Part]) -> float | None:
    if not parts:
        return None
    return sum(float(parts[name].mean()) for name in names if name in parts)
