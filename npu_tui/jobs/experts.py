"""How evenly the experts of a job are loaded: what the slowest rank of a MoE layer costs, and what even loads gain.

The ranks of a group wait for each other where tokens go back. Had all of them computed as long as their mean, the last
one had come earlier. Only the work of the products counts: what the host or a slow device delays is no load.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from npu_tui.analysis.limits import EVEN, SOME
from npu_tui.jobs.blame import Blame
from npu_tui.jobs.columns import ROUNDED
from npu_tui.jobs.model import RankProfile
from npu_tui.trace.arrays import F64, I64

# Kinds of kernels that show it, those that take most time.
_PACES = 8


class Balance(Struct, frozen=True, eq=False):
    """Every rank in every MoE layer of every pass that an exchange of several ranks ends, (n,) each; times in ns.

    ``rank`` is a place in ``Job.ranks``, ``row`` the exchange in ``Job.blamed``, ``arrival`` the rank's one in it,
    ``sent`` its arrival in the exchange before the products, -1 where no other rank is known in that. ``work`` is the
    time of the products from ``start`` to ``end`` by the rank's own clock, ``load`` as far as their rows explain it,
    ``beside`` the time of kernels between the exchanges, ``tokens`` the rows (-1: unknown). ``less`` is what of the
    work is above the mean of the group by its load, not by its device or host; negative below it. ``mean`` work, how
    much later each exchange begins (``cost``), whose load is longest (``slowest``) and which share of what most tokens
    take is above the mean (``spare``) are those of the exchanges, (m,). ``padded``: all ranks compute equally many rows
    in all of them.
    """

    rank: I64
    row: I64
    arrival: I64
    sent: I64
    layer: I64
    work: I64
    load: I64
    beside: I64
    tokens: I64
    start: I64
    end: I64
    less: I64
    mean: F64
    cost: I64
    slowest: I64
    spare: F64
    padded: bool

    @property
    def layers(self) -> list[int]:
        """The numbers of the layers."""
        numbers: list[int] = np.unique(self.layer).tolist()
        return numbers


def balance_of(ranks: Sequence[RankProfile], blamed: Blame) -> Balance | None:
    """How evenly the experts of ``ranks`` are loaded; None where no exchange follows them on several ranks."""
    rows = _met(ranks, blamed)
    if rows is None:
        return None
    rank, arrival, sent, layer, work, beside, idle, tokens, begun, end = rows
    row = blamed.row[arrival]
    pace = _pace(ranks)
    count = np.bincount(row, minlength=len(blamed))
    fair = work / pace[rank]
    mean = np.bincount(row, fair, len(blamed)) / np.maximum(count, 1)
    known = bool((tokens >= 0).all())
    padded = known and len(np.unique(tokens)) == 1
    if known and not padded:  # a buffer of one size may hold more tokens of one rank
        fair = mean[row] + _by_rows(fair - mean[row], mean[row], tokens, row, count)
    less = np.where(count[row] > 1, (fair - mean[row]) * pace[rank], 0.0)
    # Activations and permutations between the products grow with them: as much as they did in all passes.
    others = beside - (np.bincount(row, beside, len(blamed)) / np.maximum(count, 1))[row]
    less *= 1 + min(max(float((others * less).sum() / max((less * less).sum(), 1.0)), 0.0), 1.0)
    least = np.full(len(blamed), np.iinfo(np.int64).max)
    np.minimum.at(least, row, idle)
    # A rank that stands still between its products and the exchange would come no sooner with less to compute.
    less = np.where(less > 0, np.maximum(less - (idle - least[row]), 0), less)
    even = np.rint(less).astype(np.int64)
    come, sooner = np.full(len(blamed), np.iinfo(np.int64).min), np.zeros(len(blamed), np.int64)
    start = blamed.start.copy()
    start[arrival] -= even
    np.maximum.at(come, blamed.row[~blamed.at_most], start[~blamed.at_most])
    some = count > 1
    sooner[some] = np.maximum(blamed.come - come, 0)[some]
    order = np.lexsort((fair, row))
    slowest = np.full(len(blamed), -1)
    slowest[row[order]] = rank[order]
    times = np.bincount(row, work, len(blamed)) / np.maximum(count, 1)
    held, most = tokens if known else fair, np.ones(len(blamed))
    np.maximum.at(most, row, held)
    spare = np.where(some, 1 - np.bincount(row, held, len(blamed)) / np.maximum(count, 1) / most, 0.0)
    load = np.rint(fair * pace[rank]).astype(np.int64)
    columns = (
        rank,
        row,
        arrival,
        sent,
        layer,
        work,
        load,
        beside,
        tokens,
        begun,
        end,
        even,
        times,
        sooner,
        slowest,
        spare,
    )
    return Balance(*columns, padded)


def _by_rows(more: F64, usual: F64, tokens: I64, row: I64, count: I64) -> F64:
    """What of each time ``more`` than the ``usual`` one of its exchange its rows explain, ns; negative below it; (n,).

    Equal products take now a little more, now a little less: that is no load.
    """
    rows = np.bincount(row, tokens, len(count)) / np.maximum(count, 1)
    share = (tokens / np.maximum(rows[row], 1) - 1) * usual
    return np.asarray(np.where(more * share > 0, np.sign(more) * np.minimum(np.abs(more), np.abs(share)), 0.0))


def _met(ranks: Sequence[RankProfile], blamed: Blame) -> tuple[I64, ...] | None:
    """Place of the rank, both arrivals, and the columns of every MoE layer after which the ranks meet."""
    table = blamed.met.table
    arrival_of = np.full(len(table.rank), -1, np.int64)
    inside = np.flatnonzero(blamed.call >= 0)
    arrival_of[blamed.call[inside]] = inside
    columns: list[I64] = []
    for place, profile in enumerate(ranks):
        passes = [row for row in profile.experts if not row.fused and row.back_start >= 0]
        if not passes or not len(profile.calls):
            continue
        back, sent, *of_pass = np.array(
            [
                (
                    row.back_start,
                    row.sent_start,
                    row.layer,
                    row.work,
                    row.beside,
                    row.idle,
                    row.tokens,
                    row.start,
                    row.end,
                )
                for row in passes
            ],
            np.int64,
        ).T
        first = int(table.first[place])
        arrival, before = (_arrivals(profile.calls.start, arrival_of[first:], begun) for begun in (back, sent))
        columns.append(np.stack((np.full(len(back), place), arrival, before, *of_pass))[:, arrival >= 0])
    if len(columns) < 2:
        return None
    rank, arrival, *others = np.concatenate(columns, axis=1)
    return rank, arrival, *others


def _arrivals(starts: I64, arrival_of: I64, begun: I64) -> I64:
    """The arrival of the call that starts when each exchange has ``begun``, -1 without one; ``starts`` ascend."""
    call = np.minimum(np.searchsorted(starts, begun - ROUNDED), len(starts) - 1)
    return np.where(np.abs(starts[call] - begun) <= ROUNDED, arrival_of[call], -1)


def _pace(ranks: Sequence[RankProfile]) -> F64:
    """How many times as long as on the median rank other kernels take on each, (ranks,); 1 where that is little."""
    times: defaultdict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for place, profile in enumerate(ranks):
        for kind in [kind for kind in profile.paces if not kind.routed and kind.count >= SOME][:_PACES]:
            times[kind.type, kind.shapes][place] = kind.each
    ratios: defaultdict[int, list[float]] = defaultdict(list)
    for of_kind in times.values():
        usual = float(np.median(list(of_kind.values())))
        for place, time in of_kind.items():
            if len(of_kind) > 1 and usual > 0:
                ratios[place].append(time / usual)
    pace = np.array([float(np.median(ratios[place])) if ratios[place] else 1.0 for place in range(len(ranks))])
    # A device whose other kernels take longer than on the median rank is slow, and its experts too.
    return np.where(np.abs(pace - 1) > EVEN, pace, 1.0)
