"""Every nanosecond of a step has exactly one class."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from npu_tui.analysis.overlap import FreeSplit, OverlapLanes
from npu_tui.compare.steps import claims, partitions

_END = 400


def intervals():
    """Starts and ends within a small span, in any order, overlapping as they like."""
    edge = st.tuples(st.integers(0, _END), st.integers(0, _END)).map(sorted)
    return st.lists(edge, max_size=8).map(
        lambda rows: (np.array([row[0] for row in rows], np.int64), np.array([row[1] for row in rows], np.int64))
    )


def painted(intervals_):
    """The nanoseconds that the intervals cover, as a mask."""
    mask = np.zeros(_END, np.bool_)
    for start, end in zip(*intervals_, strict=True):
        mask[start:end] = True
    return mask


@given(
    intervals(),
    intervals(),
    intervals(),
    intervals(),
    st.tuples(st.integers(0, _END), st.integers(0, _END)).map(sorted),
)
def test_parts_sum_to_the_window_and_are_what_a_painter_sees(computing, communication, waits, free, window):
    low, high = window
    order = np.argsort(free[0], kind="stable")
    free = free[0][order], free[1][order]
    turn = (free[0] + free[1]) / 2
    no, yes = np.zeros(len(turn), np.bool_), np.ones(len(turn), np.bool_)
    split = FreeSplit(free[0], free[1], turn.astype(np.float64), yes, free[0], no)
    lanes = OverlapLanes(0, None, computing, communication, communication, free)
    own = claims(lanes, split, waits)
    columns = partitions(own, np.array([low, 0]), np.array([high, _END]))
    parts = {name: int(values[0]) for name, values in columns.items()}
    assert sum(int(values[1]) for values in columns.values()) == _END
    assert sum(parts.values()) == high - low
    assert min(parts.values(), default=0) >= 0
    compute = painted(computing)
    exposed = painted(communication) & ~compute
    assert parts["computing"] == compute[low:high].sum()
    assert parts["wait"] == (exposed & painted(waits))[low:high].sum()
    assert parts["transfer"] == (exposed & ~painted(waits))[low:high].sum()
    busy = np.flatnonzero((compute | exposed)[low:high])
    assert parts["prep"] == (busy[0] if len(busy) else high - low)
    assert parts["tail"] == (high - low - 1 - busy[-1] if len(busy) else 0)
