"""A document as plain text, for a terminal or an issue."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from npu_tui.output.document import Block, Code, Document, Finding, Findings, Heading, Items, Paragraph, Picture, Table
from npu_tui.strings import say
from npu_tui.trace.text import cell_count, padded, printable, shortened, wrapped

ROWS = 10
"""Rows of a table that a terminal gets."""
ALL = sys.maxsize
"""As many rows or cells as there are."""
WIDTH = 118
_EVIDENCE = 5
_LONGEST_NAME = 100
"""Cells of a name in a table: what follows stays in sight, and longer names rarely differ in what is cut off."""


def text(document: Document, rows: int = ROWS, width: int = WIDTH) -> str:
    """The lines of ``document``: at most ``rows`` of a table, sentences wrapped at ``width`` cells."""
    lines = [document.title, "", *text_lines(document.blocks, rows, width)]
    return "\n".join(map(printable, lines)) + "\n"


def text_lines(blocks: Sequence[Block], rows: int = ROWS, width: int = WIDTH) -> list[str]:
    """The lines of ``blocks``: indented below a heading, with an empty line between two blocks."""
    lines: list[str] = []
    indent = ""
    follows = False
    for block in blocks:
        if isinstance(block, Picture):
            continue
        title = "" if isinstance(block, (Paragraph, Items, Code)) else block.title
        if lines and (title or not follows):
            lines.append("")
        if title:
            lines.append(title)
            indent = "  "
        follows = isinstance(block, Heading)
        ahead = "" if isinstance(block, Findings) and block.full is not None else indent
        lines += [f"{ahead}{line}" if line else "" for line in _block_lines(block, rows, width - len(ahead))]
    return lines


def _block_lines(block: Block, rows: int, width: int) -> Iterator[str]:
    if isinstance(block, Paragraph):
        for line in block.lines:
            # A verdict stays in one piece, so that programs find it.
            yield from wrapped(printable(line), width) if block.style == "plain" else (line,)
    elif isinstance(block, Items):
        for number, item in enumerate(block.lines, 1):
            mark = f"{number}. " if block.ordered else "- "
            words = item if isinstance(item, str) else ": ".join(item)
            yield from wrapped(printable(words), width, mark, " " * len(mark))
    elif isinstance(block, Code):
        yield from block.lines
    elif isinstance(block, Table):
        yield from table_lines(block, rows)
    elif isinstance(block, Findings):
        yield from _finding_texts(block, width)


def table_lines(table: Table, rows: int = ROWS) -> list[str]:
    """The columns of ``table`` side by side, numbers to the right, and how many rows are left out."""
    cells = [
        [shortened(printable(cell.text), _LONGEST_NAME) if cell.name else printable(cell.text) for cell in row]
        for row in table.shown(rows)
    ]
    if table.headed:
        cells.insert(0, list(table.columns))
    widths = [max(map(cell_count, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            padded(cell, width, right=numeric) for cell, width, numeric in zip(row, widths, table.numeric, strict=True)
        ).rstrip()
        for row in cells
    ]
    hidden = table.hidden(rows)
    return [*lines, hidden] if hidden else lines


def _finding_texts(block: Findings, width: int) -> Iterator[str]:
    if block.full is None:
        # The other tables are cut; what changed is not.
        yield from table_lines(block.table, ALL) if block.table is not None else ()
        return
    for place, finding in enumerate(finding for finding in block.findings if finding.number in block.full):
        yield from ("",) if place else ()
        yield from finding_lines(finding, width, _EVIDENCE)
    rest = [finding for finding in block.findings if finding.number not in block.full]
    if rest:
        yield from ("", block.rest)
        for finding in rest:
            yield from wrapped(f"{finding.id}: {printable(finding.brief)}", width, "- ", "  ")


def finding_lines(finding: Finding, width: int = WIDTH, most: int | None = None) -> list[str]:
    """All about ``finding``: at most ``most`` places of it, and none of a part, whose places another finding has."""
    gain = f"  {finding.gain}" if finding.gain else ""
    lines = [f"{finding.number}. {finding.head}  [{finding.id}]{gain}"]
    lines += wrapped(printable(finding.detail), width, "  ", "  ")
    places = finding.evidence[:most]
    if most is None or not finding.part:
        for proof in places:
            words = ": ".join(filter(None, (proof.name, proof.note)))
            lines.append(f"    {proof.place}  {words}".rstrip())
        if hidden := len(finding.evidence) - len(places):
            lines.append(f"    {say('report.more', count=hidden)}")
    for number, advice in enumerate(finding.advice, 1):
        lines += wrapped(printable(advice), width, f"    ({number}) ", " " * 8)
    if finding.notes:
        lines += wrapped(printable(" · ".join(finding.notes)), width, "  ", "  ")
    return lines
