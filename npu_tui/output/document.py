"""A document before it has a format: a list of blocks that ``text``, ``markdown`` and ``html`` write.

A builder decides what is said and in which order. A writer decides how a block looks and how much of it fits: a
terminal gets ten rows of a table, a page five hundred. So a builder never asks for the format.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from npu_tui.strings import say


class Cell(Struct, frozen=True):
    """``text`` is shown; ``sort`` orders numbers (None: unknown, or a text that orders by itself).

    ``name`` marks what the trace spells: names of kernels, files and functions. Markdown sets them as code, and a page
    in a font of equal widths. ``link`` is the id of the place on the page that tells more.
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

    A page has the ``table`` and all findings in full. Text and Markdown write those in full whose number is in
    ``full``, and below ``rest`` one line for each other one; or the table alone where ``full`` is None.
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
    """``shapes`` on ``width`` x ``height`` pixels; ``legend`` tells what its paints mean. Only a page shows it.

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
