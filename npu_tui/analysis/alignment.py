"""Sequences of operations or kernels aligned: a common subsequence, and which pairs of it are beyond doubt.

Such sequences repeat layer by layer, so that a longest-block-first matcher assigns layers wrongly; these do not.
"""

from __future__ import annotations

from math import isqrt

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.trace.arrays import I32, I64, Bools

_LONGEST_SEARCH = 512  # edits after which the furthest path is kept and the search starts again from its end


def matched(base: I64, new: I64) -> tuple[I64, I64]:
    """Indices of a common subsequence of ``base`` and ``new``: ascending on both sides, equal in value.

    It is a longest one while the two differ by at most 512 edits between equal stretches; beyond that each search is
    cut at its furthest path. The algorithm is Myers' O(ND) (Algorithmica 1986), all diagonals of one edit distance at a
    time.
    """
    base, new = np.asarray(base, np.int64), np.asarray(new, np.int64)
    # A value that one side lacks is in no common subsequence, and leaving it out shortens the search.
    left_known, right_known = np.flatnonzero(np.isin(base, new)), np.flatnonzero(np.isin(new, base))
    left, right = _matched(base[left_known], new[right_known])
    return left_known[left], right_known[right]


def _matched(base: I64, new: I64) -> tuple[I64, I64]:
    x = y = 0
    runs: list[tuple[int, int, int]] = []
    hashes = _Hashes(base, new)
    while x < len(base) and y < len(new):
        path, x, y = _path(hashes, x, y)
        runs += path
    if not runs:
        none = np.zeros(0, np.int64)
        return none, none
    start, other, length = np.array(runs, np.int64).T
    offset = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
    return np.repeat(start, length) + offset, np.repeat(other, length) + offset


class _Hashes:
    """Both sequences with hashes of their prefixes, to see how long two stretches are equal."""

    def __init__(self, base: I64, new: I64) -> None:
        self.sizes = len(base), len(new)
        self.base, self.new = np.append(base, -1), np.append(new, -2)
        self._longest = min(self.sizes)
        rng = np.random.default_rng(20)
        values, codes = np.unique(np.concatenate((base, new)), return_inverse=True)
        symbols = rng.integers(1, 2**63, len(values), np.uint64)[codes]
        # Sums of symbol x weight by position: two stretches are compared after shifting one by the weights' ratio.
        factor = np.uint64(0x9E3779B97F4A7C15 | 1)
        powers = np.ones(max(self.sizes) + 1, np.uint64)
        powers[1:] = factor
        self._powers = np.multiply.accumulate(powers)
        self._base_sums = self._sums(symbols[: len(base)])
        self._new_sums = self._sums(symbols[len(base) :])

    def _sums(self, symbols: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        return np.concatenate((np.zeros(1, np.uint64), np.cumsum(symbols * self._powers[: len(symbols)])))

    def equal_run(self, x: I64, y: I64) -> I64:
        """How many values from ``base[x]`` and ``new[y]`` on are equal, for each pair; (n,)."""
        run = np.zeros(len(x), np.int64)
        going = np.flatnonzero(self.base[x] == self.new[y])
        if not len(going):
            return run
        # Most runs are short: doubling, then halving, over those that still go on.
        low = np.ones(len(going), np.int64)
        limit = np.minimum(self.sizes[0] - x[going], self.sizes[1] - y[going])
        step = 1
        active = np.arange(len(going))
        while len(active):
            reach = np.minimum(low[active] + step, limit[active])
            same = self._same(x[going[active]], y[going[active]], reach)
            low[active[same]] = reach[same]
            active = active[same & (reach < limit[active])]
            step *= 2
        active = np.flatnonzero(low < limit)
        high = np.minimum(low + step, limit) + 1
        while len(active := active[high[active] - low[active] > 1]):
            middle = (low[active] + high[active]) // 2
            same = self._same(x[going[active]], y[going[active]], middle)
            low[active[same]] = middle[same]
            high[active[~same]] = middle[~same]
        run[going] = low
        return run

    def _same(self, x: I64, y: I64, length: I64) -> npt.NDArray[np.bool_]:
        base = self._base_sums[x + length] - self._base_sums[x]
        new = self._new_sums[y + length] - self._new_sums[y]
        shift = np.abs(x - y)
        base = np.where(x < y, base * self._powers[shift], base)
        new = np.where(y < x, new * self._powers[shift], new)
        equal: npt.NDArray[np.bool_] = base == new
        return equal


def _path(hashes: _Hashes, x0: int, y0: int) -> tuple[list[tuple[int, int, int]], int, int]:
    """The equal runs (base, new, length) of the shortest way from (``x0``, ``y0``) on, and where it ends."""
    rows, columns = hashes.sizes[0] - x0, hashes.sizes[1] - y0
    searched: list[tuple[I64, I64, I64]] = []  # for each count of edits: diagonals x - y, x before an equal run, after
    diagonals = begin = np.zeros(1, np.int64)
    while True:
        ends = begin + hashes.equal_run(begin + x0, begin - diagonals + y0)
        searched.append((diagonals, begin, ends))
        arrived = np.flatnonzero((ends == rows) & (ends - diagonals == columns))
        if len(arrived) or len(searched) > _LONGEST_SEARCH:
            best = int(arrived[0]) if len(arrived) else int(np.argmax(2 * ends - diagonals))
            return _traced(searched, best, x0, y0)
        # A deletion leads to the diagonal above, an insertion to the one below.
        deleted = np.where(ends < rows, ends + 1, -1)
        inserted = np.where(ends - diagonals < columns, ends, -1)
        diagonals = np.concatenate((diagonals - 1, diagonals[-1:] + 1))
        begin = np.maximum(np.concatenate(([-1], deleted)), np.concatenate((inserted, [-1])))
        # Only the outermost diagonals can leave the rectangle.
        inside = np.flatnonzero(begin >= 0)
        diagonals, begin = diagonals[inside[0] : inside[-1] + 1], begin[inside[0] : inside[-1] + 1]


def _traced(
    searched: list[tuple[I64, I64, I64]], best: int, x0: int, y0: int
) -> tuple[list[tuple[int, int, int]], int, int]:
    """The equal runs of the path that ends on entry ``best`` of the last edit count, and its end."""
    runs: list[tuple[int, int, int]] = []
    diagonal = int(searched[-1][0][best])
    last = int(searched[-1][2][best])
    stop = (last + x0, last - diagonal + y0)
    for edits in range(len(searched) - 1, -1, -1):
        diagonals, begin, ends = searched[edits]
        at = (diagonal - int(diagonals[0])) // 2
        before, after = int(begin[at]), int(ends[at])
        if after > before:
            runs.append((before + x0, before - diagonal + y0, after - before))
        if edits:
            diagonal += _came_from(searched[edits - 1], diagonal, before)
    return runs[::-1], *stop


def _came_from(earlier: tuple[I64, I64, I64], diagonal: int, x: int) -> int:
    """-1 if ``x`` on ``diagonal`` was reached by a deletion, 1 if by an insertion."""
    diagonals, _, ends = earlier
    at = (diagonal - 1 - int(diagonals[0])) // 2
    return -1 if 0 <= at < len(ends) and int(ends[at]) + 1 == x else 1


class SequencePlacement(Struct, frozen=True):
    """Where the values of one sequence (n,) stand in another one, by a longest common subsequence of both.

    ``placed`` are those in it, ``at`` is the position of each in the other sequence where no other longest one has it
    elsewhere, else -1. ``choices`` counts the positions that any longest one gives it, ``common`` (labels, n) has what
    all of these are labelled, -1 where they differ.
    """

    placed: Bools
    at: I64
    choices: I64
    common: I64


def placement(here: I64, there: I64, labels: I64) -> SequencePlacement:
    """The values of ``here`` placed in ``there``, which has ``labels`` (labels, len(there)).

    Position j of ``there`` is a choice for i where the longest subsequences before both and after both add up to one
    less than the longest. Rows of the table of lengths are kept at every sqrt(n)-th value and made again block by
    block: memory grows with m * sqrt(n), time with n * m.
    """
    first, second = np.flatnonzero(np.isin(here, there)), np.flatnonzero(np.isin(there, here))
    wanted, given = here[first], there[second]
    places = {int(value): np.flatnonzero(given == value) for value in np.unique(given).tolist()}
    rows = len(wanted)
    block = isqrt(rows) + 1
    before = np.zeros(len(given) + 1, np.int32)
    kept = [before]
    for i in range(rows):
        before = _longer(before, places[int(wanted[i])])
        if (i + 1) % block == 0:
            kept.append(before)
    left = longest = int(before[-1])
    found = SequencePlacement(
        np.zeros(len(here), np.bool_),
        np.full(len(here), -1, np.int64),
        np.zeros(len(here), np.int64),
        np.full((len(labels), len(here)), -1, np.int64),
    )
    taken, after, limit = np.zeros(len(given), np.int64), np.zeros(len(given) + 1, np.int32), len(given)
    for low in range((rows - 1) // block * block if rows else 0, -1, -block):
        table = [kept[low // block]]
        for i in range(low, min(low + block, rows)):
            table.append(_longer(table[-1], places[int(wanted[i])]))
        for i in range(min(low + block, rows) - 1, low - 1, -1):
            at, prefix, k = places[int(wanted[i])], table[i - low], first[i]
            if left and prefix[limit] < left:  # without this value the rest would be one short
                limit = int(at[(at < limit) & (prefix[at] == left - 1)][-1])
                left -= 1
                found.placed[k] = True
            choices = at[prefix[at] + after[len(given) - at - 1] == longest - 1]
            taken[choices] += 1
            found.choices[k] = len(choices)
            if len(choices):
                chosen = labels[:, second[choices]]
                found.common[:, k] = np.where((chosen == chosen[:, :1]).all(axis=1), chosen[:, 0], -1)
            if len(choices) == 1 and found.placed[k]:
                found.at[k] = choices[0]
            after = _longer(after, (len(given) - 1 - at)[::-1])
    sure = np.flatnonzero(found.at >= 0)
    alone = taken[found.at[sure]] == 1  # else another value may take the place as well
    found.at[sure] = np.where(alone, second[found.at[sure]] if len(second) else -1, -1)
    return found


def _longer(lengths: I32, at: I64) -> I32:
    """The next row of the table of lengths, for a value that the other sequence has ``at``, ascending."""
    row = lengths.copy()
    row[at + 1] = np.maximum(row[at + 1], lengths[at] + 1)
    return np.maximum.accumulate(row)
