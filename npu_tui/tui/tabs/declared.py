"""A table of a profile as the panel shows it: cells, what they sort by, where each row leads, durations as pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import PurePath

import numpy as np
import numpy.typing as npt
from msgspec.structs import asdict
from rich.text import Text

from npu_tui.analysis.code_lines import CodeLine
from npu_tui.analysis.statistics import Distribution, histogram
from npu_tui.profile.table import RankedSlices, TableSheet, Value, ViewField
from npu_tui.profile.table import Table as DataTable
from npu_tui.strings import say
from npu_tui.trace.model import Trace
from npu_tui.trace.text import HEIGHTS, WIDTHS, brief, duration_text, printable, shortened
from npu_tui.tui.tabs.table import Place, Ranked, Stretch, TabRow, TabTable, known_columns

MOST_ROWS = 2000

_LONGEST = 60
_WIDEST = {"type": 32, "shapes": 40, "dtypes": 18, "group_name": 24, "title": 200}
"""Characters of a cell by column; Space shows all of them."""

Cell = Callable[[int, Value], Text | str]
"""The cell of a row, by its number and the value of the column."""


_NAMING = ("type", "name", "call", "kind")  # the columns that name what a row adds up


def shown(
    trace: int,
    of: DataTable,
    sheet: TableSheet,
    note: str = "",
    *,
    columns: Sequence[ViewField] | None = None,
    cells: Mapping[str, Cell] | None = None,
    again: str = "",
    most: int = MOST_ROWS,
    every: bool = False,
    spare: Collection[str] = (),
) -> TabTable:
    """The first rows of ``sheet`` ``of`` a table, of trace number ``trace``; columns without a word are left out.

    ``columns`` are those of the panel unless given. ``cells`` write the columns that they name in their own way; with
    ``every`` an empty column stays. A narrow terminal leaves out the columns ``spare``.
    """
    fields = of.panel if columns is None else columns
    rows = min(sheet.rows, most)
    headings = tuple(field.heading(sheet.base) for field in fields)
    values = [_values(sheet, field, rows) for field in fields]
    written = [
        [_declared_cell(sheet, field, cells or {}, row, value) for row, value in enumerate(column)]
        for field, column in zip(fields, values, strict=True)
    ]
    found = [
        TabRow(
            tuple(column[row] for column in written),
            places_of(trace, sheet, row),
            tuple(value[row] if value[row] != "" else None for value in values),
            None if sheet.code is None else sheet.code(row),
            partial(_row_text, headings, [column[row] for column in written], [value[row] for value in values]),
            aside=_aside(sheet, fields, values, row),
        )
        for row in range(rows)
    ]
    named = next((field.heading() for field in fields if field.column.id in _NAMING), "")
    spared = tuple(name for name, field in zip(headings, fields, strict=True) if field.column.id in spare)
    table = TabTable(headings, found, note, again=again, named=named, spare=spared)
    return table if every else known_columns(table)


def code_places(codes: Sequence[CodeLine | None]) -> list[str]:
    """File and line of each of ``codes``, with the folder where another file has the same name; empty without one."""
    files = {code.file for code in codes if code is not None}
    counts = Counter(PurePath(file).name for file in files)
    names = {
        file: path.name if counts[path.name] == 1 else "/".join(path.parts[-2:])
        for file, path in ((file, PurePath(file)) for file in files)
    }
    return ["" if code is None else say("lines.place", file=brief(names[code.file]), line=code.line) for code in codes]


def _values(sheet: TableSheet, field: ViewField, rows: int) -> Sequence[Value]:
    if field.column.id == "place" and sheet.code is not None:
        return code_places([sheet.code(row) for row in range(rows)])
    return [field.of_one(value, sheet.base) for value in sheet.values(field.column.id, rows)]


def _declared_cell(
    sheet: TableSheet, field: ViewField, cells: Mapping[str, Cell], row: int, value: Value
) -> Text | str:
    column = field.column
    if column.id in cells:
        return cells[column.id](row, value)
    if column.id == "spread":
        assert sheet.lengths is not None
        return spread(sheet.lengths(row))
    return brief(column.cell(value), _WIDEST.get(column.id, _LONGEST))


def places_of(trace: int, sheet: TableSheet, row: int) -> Sequence[Place]:
    """Where a row of ``sheet``, of trace number ``trace``, leads."""
    if sheet.place is None:
        return ()
    place = sheet.place(row)
    if isinstance(place, RankedSlices):
        return Ranked(trace, place.count, place.items)
    return [Stretch(**asdict(each), trace=trace) for each in place]


def _aside(
    sheet: TableSheet, fields: Sequence[ViewField], values: Sequence[Sequence[Value]], row: int
) -> Callable[[int, int], Text] | None:
    """The histogram of what a row adds up, where that is more than one thing."""
    lengths, known = sheet.lengths, dict(zip((field.column.id for field in fields), values, strict=True))
    count = known["calls"][row] if "calls" in known else None
    if lengths is None or not isinstance(count, int) or count < 2:
        return None
    name = next((known[naming][row] for naming in _NAMING if naming in known and known[naming][row]), "")

    def picture(width: int, height: int) -> Text:
        title = say("spread.title", count=count, name=name)
        return spread_picture(title, lengths(row), width, height)

    return picture


def _row_text(headings: Sequence[str], cells: Sequence[Text | str], values: Sequence[Value]) -> str:
    """A line for each column with a word, names in full."""
    lines = []
    for heading, cell, value in zip(headings, cells, values, strict=True):
        text = printable(value) if isinstance(value, str) and str(cell).endswith("…") else str(cell)
        if text.strip():
            lines.append(say("panel.told", name=heading, value=text))
    return "\n".join(lines)


_CELLS = 8


def spark(values: npt.ArrayLike) -> str:
    """A line of one block per value, the highest full; what is above 0 is never blank."""
    heights = np.asarray(values, np.float64)
    top = heights.max(initial=0.0)
    if top <= 0:
        return " " * len(heights)
    levels = np.ceil(8 * heights / top).astype(np.int64)
    return "".join(HEIGHTS[min(max(level, 0), 8)] for level in levels.tolist())


def bar(share: float, width: int) -> str:
    """A bar of ``share`` of ``width`` cells, to an eighth of a cell."""
    eighths = max(round(min(max(share, 0.0), 1.0) * width * 8), 1 if share > 0 else 0)
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (WIDTHS[rest] if rest else "")


def spread(durations: npt.NDArray[np.int64]) -> str:
    """The histogram of ``durations`` (ns) in one cell of a table; empty for a single one."""
    return spark(histogram(durations, _CELLS).count) if len(durations) > 1 else ""


def spread_picture(title: str, durations: npt.NDArray[np.int64], width: int, height: int) -> Text:
    """The histogram of ``durations`` (ns) as bars below ``title``, one line per bin."""
    found = histogram(durations, max(height - 1, 1))
    picture = Text(shortened(printable(title), width), style="dim", no_wrap=True)
    most = int(found.count.max())
    for low, count in zip(found.edges.tolist(), found.count.tolist(), strict=False):
        label = say("spread.from", low=duration_text(low, 3))
        room = max(width - len(label) - len(f"{most:,}") - 2, 1)
        picture.append(f"\n{label} ", style="dim")
        picture.append(bar(count / most, room))
        picture.append(f" {count:,}" if count else "", style="dim")
    return picture


def spread_words(trace: Trace, found: Distribution) -> str:
    """Percentiles and the histogram of some durations."""
    lengths = trace.slices.end[found.items] - trace.slices.start[found.items]
    return say(
        "search.spread",
        p50=duration_text(found.p50),
        p90=duration_text(found.p90),
        longest=duration_text(found.longest),
        spread=spread(lengths),
    )


def sum_words(found: Distribution) -> str:
    """What some durations add up to, with and without what overlaps."""
    return say("search.sums", total=duration_text(found.total), union=duration_text(found.union))
