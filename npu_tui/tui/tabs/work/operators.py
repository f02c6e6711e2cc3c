"""The Operators tab: compute time by operator type, shapes, name, core or data type, or of every kernel."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt
from rich.text import Text

from npu_tui.analysis.kernel_groups import WAYS, By, KernelGroup, kernel_groups
from npu_tui.analysis.kernels import KernelTable
from npu_tui.strings import say
from npu_tui.trace.text import brief, duration_text, share_text
from npu_tui.tui.keys.commands import BY_ID, keys_label
from npu_tui.tui.tabs.table.scope import ComputedTab, Ranked, scope_note
from npu_tui.tui.tabs.table.spread import spread, spread_picture
from npu_tui.tui.tabs.table.tab import GAP, Content, Context, Place, Row, Stretch, Table

I64 = npt.NDArray[np.int64]

_MOST_ROWS = 2000
_LONGEST_LABEL, _LONGEST_SHAPES, _LONGEST_DTYPES = 32, 40, 18

_FIRST = ("sum", "share", "count", "max")
_LABELS: dict[By, tuple[str, ...]] = {
    "type": ("type", "core"),
    "shapes": ("type", "shapes", "core"),
    "name": ("name", "core"),
    "name_shapes": ("name", "shapes", "core"),
    "core": ("core",),
    "dtype": ("dtypes",),
    "kernel": ("name", "shapes", "core"),
}
_REST = (
    "p50", "p90", "avg", "min", "wait", "outliers", "speed", "mte2", "mac", "vec", "spread", "core", "shapes", "dtypes",
)  # fmt: skip
"""What is looked at most comes first: narrow screens cut the others. Between them stands what names the row."""


class OperatorsTab(ComputedTab):
    """A row per group, most time first; Enter walks its kernels from the slowest on. Its key again groups anew."""

    id = "operators"
    key = "6"

    def __init__(self) -> None:
        super().__init__()
        self._way = 0

    def depends_on(self, now: Context) -> object:
        """The trace, the range, and how kernels are gathered."""
        return now.trace, now.marked, self._way

    def again(self) -> bool:
        """Gather the kernels the next way."""
        self._way += 1
        return True

    def compute(self, now: Context) -> Content:
        """The kernels of all devices; those that start in the range, where one is marked."""
        table = now.part.kernel_table
        if not len(table):
            return say("operators.none")
        ways = _ways(table)
        by = ways[self._way % len(ways)]
        found = kernel_groups(table, by)
        labels = _LABELS[by]
        columns = [*_FIRST, *labels, *(each for each in _REST if each not in labels)]
        known = _known(table)
        columns = [each for each in columns if each in known]
        rows = [_row(now.trace, table, each, columns) for each in found[:_MOST_ROWS]]
        then = say(f"operators.by_{ways[(self._way + 1) % len(ways)]}")
        notes = [
            scope_note(now),
            say("operators.total", count=f"{len(table):,}", total=duration_text(int(table.duration.sum()))),
            say("operators.lead", key=keys_label(BY_ID["focus_next"])),
            say("operators.by", by=say(f"operators.by_{by}")),
        ]
        again = say("operators.again", key=keys_label(BY_ID["tab_operators"]), then=then)
        if len(found) > len(rows):
            notes.append(say("operators.cut", shown=len(rows), count=len(found)))
        return Table(tuple(say(f"operators.{key}") for key in columns), rows, GAP.join(notes), again=again)


def _ways(table: KernelTable) -> list[By]:
    """The ways to gather ``table`` that say something: by what is known."""
    unknown: set[By] = set()
    if not table.shapes.is_known:
        unknown |= {"shapes", "name_shapes"}
    if not table.core.is_known:
        unknown.add("core")
    if not table.dtypes.is_known:
        unknown.add("dtype")
    return [way for way in WAYS if way not in unknown]


def _known(table: KernelTable) -> set[str]:
    """The columns that have anything to show."""
    found = {*_FIRST, "type", "name", "p50", "p90", "avg", "min", "wait", "spread"}
    found |= {name for name, ratio in table.ratios.items() if np.isfinite(ratio).any()}
    if table.shapes.is_known:
        found |= {"shapes", "outliers"}
    if np.isfinite(table.bytes).any():
        found.add("speed")
    return found | {name for name in ("core", "dtypes") if getattr(table, name).is_known}


def _row(index: int, table: KernelTable, each: KernelGroup, columns: list[str]) -> Row:
    cells, values = _cells(table, each)
    members = each.members
    items = table.item
    places: Ranked | list[Place]
    if (items < 0).any():  # rows of a file, without slices
        start, length = table.start, table.duration
        own = members()[:_MOST_ROWS].tolist()
        places = [Stretch(int(start[k]), int(start[k] + length[k]), index) for k in own]
    else:
        places = Ranked(index, each.count, lambda: items[members()])
    return Row(
        tuple(cells[key] for key in columns),
        places,
        tuple(values[key] for key in columns),
        told=lambda: _told(cells, each),
        aside=partial(_aside, table, each) if each.count > 1 else None,
    )


def _cells(table: KernelTable, each: KernelGroup) -> tuple[dict[str, str], dict[str, float | str | None]]:
    """Every column of a row as it reads, and as it sorts."""
    times = {
        "sum": each.total, "max": each.longest, "p50": each.p50, "p90": each.p90, "avg": each.average,
        "min": each.shortest, "wait": each.wait,
    }  # fmt: skip
    texts = {
        "type": brief(each.type, _LONGEST_LABEL),
        "name": brief(each.name or each.type, _LONGEST_LABEL),
        "core": brief(each.core or ""),
        "shapes": brief(each.shapes or "", _LONGEST_SHAPES),
        "dtypes": brief(each.dtypes or "", _LONGEST_DTYPES),
    }
    cells = {key: duration_text(time) for key, time in times.items()} | texts
    values: dict[str, float | str | None] = {**times, **{key: text or None for key, text in texts.items()}}
    cells |= {
        "share": share_text(each.share),
        "count": f"{each.count:,}",
        "outliers": say("operators.outlier", count=each.outliers) if each.outliers else "",
        "speed": "" if each.speed is None else f"{each.speed:,.1f}",
        "spread": spread(table.duration[each.members()]),
    }
    cells |= {name: "" if ratio is None else f"{ratio:.0%}" for name, ratio in each.ratios.items()}
    values |= {"share": each.share, "count": each.count, "outliers": each.outliers or None, "speed": each.speed}
    values |= {"spread": each.longest / max(each.shortest, 1), **each.ratios}
    return cells, values


def _told(cells: dict[str, str], each: KernelGroup) -> str:
    """Everything about the row, a line for each thing, shapes and types in full."""
    whole = {"type": each.type, "name": each.name, "shapes": each.shapes or "", "dtypes": each.dtypes or ""}
    return "\n".join(
        say("operators.told", name=say(f"operators.{key}"), value=text) for key, text in (cells | whole).items() if text
    )


def _aside(table: KernelTable, each: KernelGroup, width: int, height: int) -> Text:
    durations = table.duration[each.members()]
    return spread_picture(say("spread.title", count=each.count, name=each.type or each.name), durations, width, height)
