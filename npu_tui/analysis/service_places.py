"""Places on the engines that decode which are given before keys and values are pulled: who waits for one."""

from __future__ import annotations

import numpy as np

from npu_tui.analysis.limits import LITTLE, LONG_NS, MORE_THAN_ONE, NEARLY_ALL, SOME
from npu_tui.analysis.service_steps import Steps
from npu_tui.analysis.service_timeline import Latencies, Places
from npu_tui.trace.arrays import I64
from npu_tui.trace.intervals import covered_within
from npu_tui.trace.service import UNKNOWN


def places_of(lat: Latencies, steps: Steps, rid: I64, step: I64, begun: I64, engines: int) -> Places:
    """The places of engines whose pulls begin once one is free: nearly all of what goes by before them is without one.

    A place is taken from the moment at which the pull of a request has ``begun`` to its last step. The request of each
    of pairs, ``rid``, is in ``step``.
    """
    most, waits = np.zeros(engines, np.int64), np.zeros(len(lat.start), np.int64)
    rids = np.flatnonzero((begun != UNKNOWN) & (lat.first >= 0) & (lat.last >= 0))
    rids = rids[steps.engine[lat.first[rids]] != lat.engine[rids]] if len(rids) else rids
    ended = np.zeros(len(lat.start), np.int64)
    stays = steps.engine[step] == steps.engine[lat.first[rid]]
    np.maximum.at(ended, rid[stays], steps.end[step[stays]])
    for number in np.unique(lat.engine[rids]).tolist():
        mine = rids[lat.engine[rids] == number]
        before = np.maximum(begun[mine] - ended[mine], 0)
        moments = np.append(begun[mine], steps.end[lat.last[mine]])
        more = np.repeat((1, -1), len(mine))
        order = np.lexsort((more, moments))  # one that leaves makes room for the next one
        moments, taken = moments[order], np.cumsum(more[order])
        lasting = np.diff(moments)
        places = int(np.bincount(taken[:-1], lasting).argmax()) if len(lasting) else 0
        if lasting[taken[:-1] > places].sum() > LITTLE * lasting[taken[:-1] >= places].sum():
            continue
        full = np.flatnonzero(taken[:-1] >= places)
        inside = covered_within(moments[full], moments[full + 1], begun[mine] - before, begun[mine])
        long = before > LONG_NS
        if places < MORE_THAN_ONE or long.sum() < SOME or inside.sum() < NEARLY_ALL * before.sum():
            continue
        most[number], waits[mine] = places, inside
    return Places(most, waits)
