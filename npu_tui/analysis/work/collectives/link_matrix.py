"""What went from rank to rank, of all operations together."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

LOCAL = "LOCAL"
"""The transport of a copy that stays on the chip."""


class PairSum(Struct, frozen=True):
    """From rank ``source`` to ``target`` of ``group`` by ``transport``: ``size`` in bytes, ``time`` in ns."""

    group: str
    source: int
    target: int
    transport: str
    size: float
    time: int
    operations: int

    @property
    def speed(self) -> float | None:
        """GB/s, None where nothing took time."""
        return self.size / self.time if self.time > 0 else None


Cells = tuple[str | None, str | None, int, int, str | None, float | None, int | None]
"""Operation, group, source, target, transport, MB and ns of one row of communication_matrix.json."""


def pair_sums(rows: Iterable[Cells]) -> list[PairSum]:
    """The rows by group and pair; the operations that sum up others (``…-total``) count where there are any.

    Beside them the file has the fastest, slowest and middle operations of each type once more.
    """
    every = list(rows)
    totals = [row for row in every if (row[0] or "").endswith("-total")]
    found: dict[tuple[str, int, int, str], list[float]] = {}
    for _, group, source, target, transport, size, time in totals or every:
        sums = found.setdefault((group or "", source, target, transport or ""), [0.0, 0, 0])
        sums[0] += (size or 0.0) * 1e6
        sums[1] += time or 0
        sums[2] += 1
    return [
        PairSum(group, source, target, transport, size, int(time), int(count))
        for (group, source, target, transport), (size, time, count) in sorted(found.items())
    ]
