"""A document before it has a format: a list of blocks that ``text``, ``markdown`` and ``html`` write.

A builder decides what is said and in which order. A writer decides how a block looks and how much of it fits: a
terminal gets ten rows of a table, a page five hundred. So a builder never asks for the format.

A declared table becomes a block made of the rows of its JSON; here is also how values are written in words.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from npu_tui.profile.table import Record, ViewField, heading
from npu_tui.profile.table import Table as DataTable
from npu_tui.rules.model import SEVERITIES, Base
from npu_tui.strings import say
from npu_tui.trace import text as units
from npu_tui.trace.text import ticks_per_us


class Cell(Struct, frozen=True):
    """``text`` is shown; ``sort`` orders numbers (None: unknown, or a text that orders by itself).

    ``name`` marks what the trace spells: names of kernels, files and functions. Markdown sets them as code, and a page
    in a font of equal widths. ``link`` is the id of the place on the page that says more.
    """

    text: str
    sort: float | None = None
    name: bool = False
    link: str = ""


class Table(Struct, frozen=True):
    """A table under its own heading; ``numeric`` says for each column whether it holds numbers.

    Where not all rows fit, the first ones stay, or with ``weights`` (one for each row) the heaviest, in their order:
    of 1,500 steps the ten longest. ``more`` is the sentence about the rows left out, given how many they are.
    A table whose ``columns`` are all empty has no head: the checks of a gate, the thresholds of a rule. The reader of a
    page may sort the rows unless they depend on their order, such as parts above their sum. ``cells`` writes a row.
    It is asked only for rows that a reader gets: a job has 100,000 collectives, of which a terminal shows ten.
    """

    id: str
    title: str
    columns: tuple[str, ...]
    numeric: tuple[bool, ...]
    rows: Sequence[Any]
    weights: tuple[float, ...] = ()
    sortable: bool = True
    more: Callable[[int], str] = lambda hidden: say("report.more", count=hidden)
    cells: Callable[[Any], list[Cell]] = list

    def shown(self, most: int) -> list[list[Cell]]:
        """The ``most`` rows that a reader gets."""
        rows = self.rows[:most]
        if len(self.rows) > most and self.weights:
            # The sort is stable, so of equally heavy rows the first stay.
            heaviest = sorted(range(len(self.rows)), key=lambda row: -self.weights[row])[:most]
            rows = [self.rows[row] for row in sorted(heaviest)]
        return list(map(self.cells, rows))

    def hidden(self, most: int) -> str:
        """What to say below ``most`` rows; empty if that is all of them."""
        left_out = len(self.rows) - most
        return self.more(left_out) if left_out > 0 else ""

    @property
    def headed(self) -> bool:
        """Whether the columns have titles."""
        return any(self.columns)


class Heading(Struct, frozen=True):
    """The title of what follows, up to the next heading or titled block; ``id`` is what links to it name."""

    title: str
    id: str = ""


class Paragraph(Struct, frozen=True):
    """Lines of words. A ``verdict`` answers the reader's question; ``faint`` is said once and seldom read again."""

    lines: tuple[str, ...]
    style: Literal["plain", "verdict", "faint"] = "plain"


class Items(Struct, frozen=True):
    """A list of sentences. A pair is a name that Markdown sets as code, such as the id of a rule, and its sentence."""

    lines: tuple[str | tuple[str, str], ...]
    ordered: bool = False


class Code(Struct, frozen=True):
    """Lines to copy: a command, or code to change."""

    lines: tuple[str, ...]


class Proof(Struct, frozen=True):
    """Where a finding is seen: when and on which lane, the ``name`` that the trace spells, and a note."""

    place: str
    name: str = ""
    note: str = ""


class Finding(Struct, frozen=True):
    """One finding as words, made of a row of JSON: ``gain`` says what mending it saves, ``notes`` are short facts.

    ``part`` marks one that another finding contains: text and Markdown leave out its evidence, which the other one has.
    """

    number: int
    id: str
    severity: str
    title: str
    gain: str = ""
    detail: str = ""
    evidence: tuple[Proof, ...] = ()
    advice: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    part: bool = False

    @property
    def head(self) -> str:
        """How grave it is, and its title."""
        return f"{say(f'severity.{self.severity}').upper()} · {self.title}"

    @property
    def brief(self) -> str:
        """What it is and what it saves, in one line."""
        return " · ".join(filter(None, (self.head, self.gain)))


class Findings(Struct, frozen=True):
    """Findings in the order of work under one heading.

    A page has the ``table`` and all findings in full. Text and Markdown write those with a number in ``full`` in full,
    and below ``rest`` one line for each other one; or the table alone where ``full`` is None.
    """

    title: str
    table: Table | None
    findings: tuple[Finding, ...]
    full: frozenset[int] | None = None
    rest: str = ""


Rgb = tuple[int, int, int]
Paint = int | Rgb | str
"""An ink of the palette, a colour, or the name of a class that the page colours, such as ``free``."""


class Box(NamedTuple):
    """A rectangle in pixels."""

    left: float
    top: float
    width: float
    height: float
    paint: Paint
    faint: bool = False


class Dots(NamedTuple):
    """The dots of a braille glyph by their upper left corners, in pixels."""

    corners: tuple[tuple[float, float], ...]
    paint: Paint
    faint: bool = False


class Look(NamedTuple):
    """How a line is drawn: its width in pixels, smoothed or not, in dashes or not."""

    width: float
    smooth: bool = False
    dashed: bool = False


class Line(NamedTuple):
    """A line between two places in pixels."""

    x1: float
    y1: float
    x2: float
    y2: float
    paint: Paint
    look: Look
    faint: bool = False


class Words(NamedTuple):
    """A text from ``left`` on its ``baseline``, stretched to ``width`` pixels so that it fills its cells."""

    left: float
    baseline: float
    width: float
    text: str
    paint: Paint
    bold: bool = False
    faint: bool = False


class Tip(NamedTuple):
    """Words that show over a rectangle where the mouse rests on it, and the id of the place that a click leads to."""

    left: float
    top: float
    width: float
    height: float
    words: str
    link: str = ""


Shape = Box | Dots | Line | Words | Tip


CHART_WIDTH, CHART_HEIGHT, CHART_MARGIN = 900, 180, 90
"""Pixels of a chart, and of its left part, which has the words of its axis."""


class Picture(Struct, frozen=True):
    """``shapes`` on ``width`` x ``height`` pixels; ``legend`` says what its paints mean. Only a page shows it.

    It has a heading where it has an ``id``; without one it belongs to the block before it. With a ``head`` the words
    in its first pixels and above bars keep their size, and the bars are as wide as the page leaves.
    """

    title: str
    width: float
    height: float
    shapes: Sequence[Shape]
    id: str = ""
    legend: tuple[tuple[Paint, str], ...] = ()
    head: float | None = None


Block = Heading | Paragraph | Items | Code | Table | Findings | Picture


class Document(Struct, frozen=True):
    """What a reader gets: a title and the blocks below it."""

    title: str
    blocks: list[Block]


def ratio(part: float | None, whole: float | None) -> float | None:
    """``part`` of ``whole``, None where either is unknown or the whole is 0."""
    return None if part is None or not whole else round(part / whole, 6)


def report_time(us: float | None) -> str:
    """A time in µs in the unit that suits it; None is unknown."""
    return say("report.unknown") if us is None else units.time_text(us * units.ticks_per_us())


def report_share(value: float | None) -> str:
    """A share of 1 as a percentage; None is unknown."""
    return say("report.unknown") if value is None else units.share_text(value)


def or_unknown(value: object) -> object:
    """``value`` itself unless it is None."""
    return say("report.unknown") if value is None else value


Write = Callable[[Record], Cell]
"""The cell that a column has in a row."""


def rendered(
    table: DataTable,
    rows: Sequence[Record],
    id: str = "",
    blank: bool = False,
    title: str = "",
    base: Base | None = None,
    /,
    **cells: Write,
) -> Table:
    """``rows`` of the JSON of ``table`` as a page shows them; ``cells`` writes those of the columns that it names.

    The table is called ``id``, by default as ``table`` is, and has the ``title`` of that name. What is null is unknown;
    in a column with a question mark, and with ``blank`` in those of numbers, it is not there. A column without a word
    in any row is left out. Where not all rows fit, those stay that are ``longest``. What is saved or lost is that of
    one of what ``base`` names.
    """
    columns = [(field, cells.get(field.name) or _cell_writer(table, field, blank, base)) for field in table.page]
    columns = [(field, write) for field, write in columns if not rows or any(write(row).text for row in rows)]
    return Table(
        id or table.id,
        title or say(f"table.{id or table.id}"),
        tuple(field.heading(base) for field, _ in columns),
        tuple(field.column.is_number for field, _ in columns),
        rows,
        tuple(getattr(row, table.field(table.longest).name) or 0.0 for row in rows) if table.longest else (),
        cells=lambda row: [write(row) for _, write in columns],
    )


def _cell_writer(table: DataTable, field: ViewField, blank: bool, base: Base | None) -> Write:
    """The cell of a column by its kind."""
    column, name = field.column, table.field(field.column.id).name
    scale = ticks_per_us() if column.unit == "ns" else 1  # JSON has microseconds
    is_blank = field.optional or (blank and column.is_number)

    def write(row: Record) -> Cell:
        value = field.of_one(getattr(row, name), base)
        if value is None and is_blank:
            return Cell("", None)
        if not column.is_number:
            return name_cell(value) if column.form == "name" else Cell(column.cell(value))
        return Cell(say("report.unknown") if value is None else column.cell(value * scale), value)

    return write


def made_table(id: str, columns: str, rows: list[list[Cell]], title: str = "", base: Base | None = None) -> Table:
    """A table of ``rows`` that is declared nowhere.

    ``columns`` are the names of their headings, ``gain#`` that of numbers. A column without a word is left out.
    What is saved or lost is that of one of what ``base`` names.
    """
    names = columns.split()
    shown = [at for at in range(len(names)) if not rows or any(row[at].text for row in rows)]
    return Table(
        id,
        title or say(f"table.{id}"),
        tuple(heading(names[at].rstrip("#"), base) for at in shown),
        tuple(names[at].endswith("#") for at in shown),
        [[row[at] for at in shown] for row in rows],
    )


OWNERS = 8
"""Owners of a critical path that a page names; the others are one row."""


def first_owners(rows: Sequence[Record], sums: str, blank: str) -> list[Record]:
    """The first ``rows`` and all others in one, so that they add up: the figures ``sums`` do, what is ``blank`` is not.

    The owner of a row stands in ``title``, or where there is none in ``name``.
    """
    if len(rows) <= OWNERS + 1:
        return list(rows)
    rest = rows[OWNERS:]
    return [*rows[:OWNERS], sum_row(rest, say("report.path.more", count=len(rest)), sums, blank)]


def sum_row(rows: Sequence[Record], title: str, sums: str, blank: str) -> Record:
    """One row called ``title`` with the sums of ``rows``."""
    added = {name: sum(getattr(row, name) for row in rows) for name in sums.split()}
    called = "title" if hasattr(rows[0], "title") else "name"
    return replace(rows[0], kind="", **{called: title}, **dict.fromkeys(blank.split()), **added)


def finding_cells(number: int, severity: str) -> list[Cell]:
    """The first cells of a finding in a table: its number, which leads to it, and how grave it is."""
    return [
        Cell(str(number), number, link=f"finding-{number}"),
        Cell(say(f"severity.{severity}"), SEVERITIES.index(severity)),
    ]


def name_cell(value: str | None, unknown: str = "report.unknown") -> Cell:
    """A text of the trace; ``unknown`` is said where there is none."""
    return Cell(say(unknown) if value is None else value, name=value is not None)


def time_cell(us: float | None) -> Cell:
    """A time in µs in the unit that suits it."""
    return Cell(report_time(us), us)


def comparison_document(
    title: str, about: Sequence[str], blocks: Sequence[Block], not_judged: Sequence[str] = (), paths: Sequence[str] = ()
) -> Document:
    """What every comparison says: ``about`` its sides, ``blocks`` without empty tables, what is ``not_judged``.

    The command that says it ends it where ``paths`` are given.
    """
    some = [block for block in blocks if not isinstance(block, Table) or block.rows]
    told: list[Block] = [Paragraph(tuple(about), "faint"), *some]
    if not_judged:
        told += [Heading(say("compare.not_judged")), Items(tuple(not_judged))]
    if paths:
        told.append(Code((f"npu-tui compare {shlex.join(paths)}",)))
    return Document(title, told)
