"""The Operators tab: compute time by operator type, shapes, name, core or data type, or of every kernel."""

from __future__ import annotations

from npu_tui.analysis.kernels import KernelTable
from npu_tui.analysis.operators import WAYS, By
from npu_tui.profile.table import Field, Value
from npu_tui.profile.work_tables import OPERATORS
from npu_tui.strings import say
from npu_tui.trace.text import brief, duration_text
from npu_tui.tui.commands import BY_ID, keys_label
from npu_tui.tui.tabs.declared import shown
from npu_tui.tui.tabs.table import GAP, ComputedTab, Content, Context, scope_note

_MOST_ROWS = 2000
_LONGEST_NAME = 32
_FIRST = 4
"""What is looked at most comes first: narrow screens cut the others. Then comes what names the row."""
_LABELS: dict[By, tuple[str, ...]] = {
    "type": ("type", "core"),
    "shapes": ("type", "shapes", "core"),
    "name": ("name", "core"),
    "name_shapes": ("name", "shapes", "core"),
    "core": ("core",),
    "dtype": ("dtypes",),
    "kernel": ("name", "shapes", "core"),
}
_NAMES = ("type", "name")


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
        ways = _ways(now.part.kernel_table)
        by = ways[self._way % len(ways)]
        sheet = OPERATORS.make(now.part, by=by)
        if not sheet.rows:
            return say("operators.none")
        calls, total = (sum(sheet.values(name)) for name in ("calls", "total"))
        then = say(f"operators.by_{ways[(self._way + 1) % len(ways)]}")
        notes = [
            scope_note(now),
            say("operators.total", count=f"{calls:,}", total=duration_text(total)),
            say("operators.lead", key=keys_label(BY_ID["focus_next"])),
            say("operators.by", by=say(f"operators.by_{by}")),
        ]
        again = say("operators.again", key=keys_label(BY_ID["tab_operators"]), then=then)
        if sheet.rows > _MOST_ROWS:
            notes.append(say("operators.cut", shown=_MOST_ROWS, count=sheet.rows))
        return shown(
            now.trace, OPERATORS, sheet, GAP.join(notes), columns=_columns(by), again=again, most=_MOST_ROWS,
            cells={"outliers": _outliers, "name": _name},
        )  # fmt: skip


def _outliers(row: int, count: Value) -> str:
    return say("operators.outlier", count=count) if count else ""


def _name(row: int, name: Value) -> str:
    return brief(str(name or ""), _LONGEST_NAME)


def _columns(by: By) -> list[Field]:
    """The columns of the panel with those that name a row up front."""
    names = _LABELS[by]
    first, rest = OPERATORS.panel[:_FIRST], OPERATORS.panel[_FIRST:]
    named = [each for name in names for each in rest if each.column.id == name]
    return [*first, *named, *(each for each in rest if each.column.id not in (*names, *_NAMES))]


def _ways(table: KernelTable) -> list[By]:
    """The ways to gather ``table`` that say something: by what is known."""
    unknown: set[By] = set()
    if not table.shapes.is_known:
        unknown |= {"shapes", "name_shapes"}
    if not table.core.is_known:
        unknown.add("core")
    if not table.dtypes.is_known:
        unknown.add("dtype")
    if not len(table):
        return ["type"]
    return [way for way in WAYS if way not in unknown]
