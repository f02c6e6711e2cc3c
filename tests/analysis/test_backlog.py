from __future__ import annotations

import numpy as np
from samples import Simulated, parts_of

from npu_tui.analysis.drains import backlog, host_lead, waiting


def test_depth_by_its_definition(variation: Simulated) -> None:
    """At any time the depth is the number of launches that have reached the device and have not ended."""
    parts, trace = parts_of(variation.trace), variation.trace
    time, depth, pair = backlog(parts.pairs)
    target = trace.links.target_slice[parts.pairs.link]
    arrival, end = parts.pairs.arrival, trace.slices.end[target].astype(np.float64)
    last = np.append(time[1:] != time[:-1], True)
    assert len(time) == 2 * len(target)
    for at in np.flatnonzero(last)[:: max(len(time) // 200, 1)].tolist():
        assert depth[at] == np.count_nonzero((arrival <= time[at]) & (end > time[at]))
        assert time[at] in (arrival[pair[at]], end[pair[at]])
    assert depth.min() == 0
    assert depth[-1] == 0


def test_a_negative_lead_is_lost_time(variation: Simulated) -> None:
    """What was lost is how far the launch came behind, but never more than until its start."""
    launches, trace = parts_of(variation.trace).launches, variation.trace
    lead = host_lead(trace, launches)
    known = launches.ready >= 0
    assert np.isnan(lead[~known]).all()
    start = trace.links.target_time[launches.link].astype(np.float64)
    most = np.maximum(start - launches.ready, 0.0)
    np.testing.assert_allclose(launches.lost[known], np.clip(-lead, 0, most)[known], atol=1e-6)
    assert not launches.lost[~known].any()


def test_waiting_sums_to_the_lost_time(variation: Simulated) -> None:
    launches = parts_of(variation.trace).launches
    start, end, starved = waiting(launches)
    assert abs(float((end - start).sum()) - launches.lost.sum()) <= 0.5 * len(launches.link)
    assert starved.sum() == launches.starved.sum()
    assert (end > start).all()
