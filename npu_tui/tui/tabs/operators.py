"""The Operators tab: compute time by operator type and core."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from npu_tui.analysis.work.operators import OperatorSum
from npu_tui.profile.part import ProfilePart
from npu_tui.strings import say
from npu_tui.trace.text import brief
from npu_tui.trace.units import duration_text
from npu_tui.tui.keys.commands import BY_ID, keys_label
from npu_tui.tui.tabs.scope import ComputedTab, Ranked, scope_note
from npu_tui.tui.tabs.tab import GAP, Content, Context, Row, Table

I64 = npt.NDArray[np.int64]

_COLUMNS = ("sum", "share", "count", "max", "type", "core", "avg", "min")
"""What is looked at most comes first: narrow screens cut the others."""


class OperatorsTab(ComputedTab):
    """A row per type and core, most time first; Enter goes to its longest kernel."""

    id = "operators"
    key = "6"

    def compute(self, now: Context) -> Content:
        """The operators of all devices; the kernels that start in the range, where one is marked."""
        part = now.part
        found = part.operators
        if not found:
            return say("operators.none")
        listed = sum(row.total for row in found)
        rows = [_row(now.trace, part, each, listed) for each in found]
        total = say("operators.total", count=f"{len(part.kernels.item):,}", total=duration_text(listed))
        lead = say("operators.lead", key=keys_label(BY_ID["focus_next"]))
        note = GAP.join([scope_note(now), total, lead])
        return Table(tuple(say(f"operators.{key}") for key in _COLUMNS), rows, note)


def _row(index: int, part: ProfilePart, each: OperatorSum, listed: int) -> Row:
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
    return Row(cells, Ranked(index, each.count, partial(_longest, part, each)), values)


def _longest(part: ProfilePart, each: OperatorSum) -> I64:
    """The kernels of one type and core, the longest first."""
    slices, items = part.trace.slices, part.kernels.of(each.type, each.core)
    return items[np.argsort(slices.start[items] - slices.end[items], kind="stable")]
