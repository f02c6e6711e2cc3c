"""Counter samples by series and time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_tui.ingest.build.layers import ProcessPlan
from npu_tui.ingest.json.columns.whole_columns import WholeColumns
from npu_tui.ingest.times import INVALID
from npu_tui.trace.arrays import sort_slices
from npu_tui.trace.model import Counters, Series

I32 = npt.NDArray[np.int32]


def sorted_counters(whole: WholeColumns, plans: list[ProcessPlan], start_ns: int) -> tuple[Counters, int]:
    """The samples of ``whole`` by series and time, in ns after ``start_ns``, and how many have no time."""
    layer_of = {plan.pid: i for i, plan in enumerate(plans)}
    declared = list(whole.series)
    rank = sorted(range(len(declared)), key=lambda code: (layer_of[declared[code][0]], code))
    series = [
        Series(i, layer_of[pid], name, key, instance)
        for i, (pid, name, key, instance) in enumerate(declared[code] for code in rank)
    ]
    new_code = np.empty(len(declared), np.int32)
    new_code[rank] = np.arange(len(declared))
    time, value = whole.column("c_time", np.int64), whole.column("c_value", np.float64)
    code = whole.column("c_series", np.int32)
    timed = time != INVALID
    if not timed.all():
        time, value, code = time[timed], value[timed], code[timed]
    time -= start_ns
    code = np.take(new_code, code)
    offset = np.append(0, np.cumsum(np.bincount(code, minlength=len(series)))).astype(np.int64)
    order = sort_slices(code, time, time)
    return Counters(np.take(time, order), np.take(value, order), offset, series), len(timed) - len(time)
