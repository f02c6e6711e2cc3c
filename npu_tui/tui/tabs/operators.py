"""The Operators tab: compute time by operator type and core."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from npu_tui.analysis.device import device_slices
from npu_tui.analysis.work.operators import OperatorSum, kernel_types, operators
from npu_tui.ingest.companions.files import companions_of
from npu_tui.strings import say
from npu_tui.trace.model import Trace
from npu_tui.trace.text import brief
from npu_tui.trace.units import duration_text
from npu_tui.tui.keys.commands import BY_ID, keys_label
from npu_tui.tui.tabs.scope import ComputedTab, Ranked, scope_note
from npu_tui.tui.tabs.tab import GAP, Content, Context, Row, Table

I64 = npt.NDArray[np.int64]

_COLUMNS = ("sum", "share", "count", "max", "type", "core", "avg", "min")
"""What is looked at most comes first: narrow screens cut the others."""


@dataclass(frozen=True, slots=True)
class _Kernels:
    """The compute slices of a trace with the cores that kernel_details.csv names (None without it)."""

    items: I64
    cores: list[str | None] | None


class OperatorsTab(ComputedTab):
    """A row per type and core, most time first; Enter goes to its longest kernel."""

    id = "operators"
    key = "6"

    def __init__(self) -> None:
        super().__init__()
        self._kernels: dict[int, _Kernels] = {}

    def compute(self, now: Context) -> Content:
        """The operators of all devices; the kernels that start in the range, where one is marked."""
        trace = now.session.scene.traces[now.trace]
        kernels = self._kernels_of(now.trace, trace)
        inside = np.flatnonzero(now.window.holds(trace.slices.start[kernels.items]))
        items = kernels.items[inside]
        cores = None if kernels.cores is None else [kernels.cores[at] for at in inside.tolist()]
        found = operators(trace, items, cores)
        if not found:
            return say("operators.none")
        listed = sum(row.total for row in found)
        rows = [_row(now.trace, trace, each, listed, items, cores) for each in found]
        total = say("operators.total", count=f"{len(items):,}", total=duration_text(listed))
        lead = say("operators.lead", key=keys_label(BY_ID["focus_next"]))
        note = GAP.join([scope_note(now), total, lead])
        return Table(tuple(say(f"operators.{key}") for key in _COLUMNS), rows, note)

    def _kernels_of(self, index: int, trace: Trace) -> _Kernels:
        if index not in self._kernels:
            compute = np.zeros(len(trace.slices), np.bool_)
            for device in device_slices(trace):
                compute |= device.compute
            items, companions = np.flatnonzero(compute), companions_of(trace)
            self._kernels[index] = _Kernels(items, companions.kernel_cores(trace, items) if companions else None)
        return self._kernels[index]


def _row(index: int, trace: Trace, each: OperatorSum, listed: int, items: I64, cores: list[str | None] | None) -> Row:
    average = each.total / each.count
    core, name = brief(each.core or ""), brief(each.type)
    share = each.total / listed if listed else 0.0
    cells = (
        duration_text(each.total),
        f"{share:.1%}",
        f"{each.count:,}",
        duration_text(each.longest),
        name,
        core,
        duration_text(average),
        duration_text(each.shortest),
    )
    values = (each.total, share, each.count, each.longest, name, core or None, average, each.shortest)
    return Row(cells, Ranked(index, each.count, partial(_longest, trace, each, items, cores)), values)


def _longest(trace: Trace, each: OperatorSum, items: I64, cores: list[str | None] | None) -> I64:
    """The kernels of one type and core, the longest first."""
    types, code = kernel_types(trace, items)
    own = code == types.index(each.type)
    if cores is not None:
        own &= np.array([core == each.core for core in cores], np.bool_)
    items = items[own]
    return items[np.argsort(trace.slices.start[items] - trace.slices.end[items], kind="stable")]
