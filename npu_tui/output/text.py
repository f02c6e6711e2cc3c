"""A document as plain text for a terminal, and as Markdown to paste into an issue or a pull request.

Names of a trace read as they are written: none of them becomes markup, a link, a mention or the number of an issue.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence

from npu_tui.output.document import (
    Block,
    Cell,
    Code,
    Document,
    Finding,
    Findings,
    Heading,
    Items,
    Paragraph,
    Picture,
    Table,
)
from npu_tui.strings import say
from npu_tui.trace.text import brief, cell_count, padded, printable, shortened, wrapped

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
            words = item if isinstance(item, str) else say("list.colon").join(item)
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
    """All about ``finding``: at most ``most`` places of it, and none of a part, as another finding has these."""
    gain = f"  {finding.gain}" if finding.gain else ""
    lines = [f"{finding.number}. {finding.head}  [{finding.id}]{gain}"]
    lines += wrapped(printable(finding.detail), width, "  ", "  ")
    places = finding.evidence[:most]
    if most is None or not finding.part:
        for proof in places:
            words = say("list.colon").join(filter(None, (proof.name, proof.note)))
            lines.append(f"    {proof.place}  {words}".rstrip())
        if hidden := len(finding.evidence) - len(places):
            lines.append(f"    {say('report.more', count=hidden)}")
    for number, advice in enumerate(finding.advice, 1):
        lines += wrapped(printable(advice), width, f"    ({number}) ", " " * 8)
    if finding.notes:
        lines += wrapped(printable(" · ".join(finding.notes)), width, "  ", "  ")
    return lines


MARKDOWN_ROWS = 10
"""Rows of a table that an issue gets."""
_MARKDOWN_EVIDENCE = 5
_LONGEST_CODE = 160
_SPECIAL = re.compile(r"[\\`*\[\]<|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|&(?=[#\w])")
_LEADING = re.compile(r"^(\d*)(?=[-+>=#]|[.)](?:\s|$))")
_BREAK = "<!-- -->"


def markdown(document: Document, rows: int = MARKDOWN_ROWS) -> str:
    """The lines of ``document``: at most ``rows`` of a table."""
    lines = [f"## {as_markdown(document.title)}"]
    for block in document.blocks:
        if isinstance(block, Picture):
            continue
        if isinstance(block, (Heading, Table, Findings)) and block.title:
            lines += ["", f"### {as_markdown(block.title)}"]
        written = list(_marked_block(block, rows))
        lines += ["", *written] if written else []
    return "\n".join(lines) + "\n"


def as_markdown(text: str) -> str:
    """``text`` as Markdown that reads as it stands, also where it begins a line."""
    return _LEADING.sub(r"\1\\", _inline(text), count=1)


def _inline(text: str) -> str:
    """``text`` as Markdown that reads as it is written after something else, such as the bar of a table."""
    safe = _SPECIAL.sub(r"\\\g<0>", printable(text).strip())
    safe = re.sub(r"([@#])(?=\w)", rf"\1{_BREAK}", safe)
    safe = re.sub(r"(?i)(?<=[a-z]):(?=//)", "&#58;", safe)
    return re.sub(r"(?i)\b(www)\.", r"\1&#46;", safe)


def code(text: str, table: bool = False) -> str:
    """``text`` as a code span, whatever it holds; ``table`` for the cell of a table."""
    safe = brief(text, _LONGEST_CODE)
    if table:
        safe = safe.replace("|", "\\|")
    longest = max((len(run) for run in re.findall("`+", safe)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if safe.startswith("`") or safe.endswith("`") or not safe.strip() else ""
    return f"{fence}{pad}{safe}{pad}{fence}" if safe else ""


def _marked_block(block: Block, rows: int) -> Iterator[str]:
    if isinstance(block, Paragraph):
        # Two blanks at its end break a line.
        quote = "> " if block.style == "verdict" else ""
        yield from (f"{quote}{as_markdown(line)}  " for line in block.lines[:-1])
        yield from (f"{quote}{as_markdown(line)}" for line in block.lines[-1:])
    elif isinstance(block, Items):
        for number, line in enumerate(block.lines, 1):
            words = as_markdown(line) if isinstance(line, str) else f"{code(line[0])}: {as_markdown(line[1])}"
            yield f"{number}. {words}" if block.ordered else f"- {words}"
    elif isinstance(block, Code):
        yield from map(code, block.lines) if len(block.lines) == 1 else _fenced(block)
    elif isinstance(block, Table):
        yield from _table_lines(block, rows)
    elif isinstance(block, Findings):
        yield from _finding_lines(block, rows)


def _fenced(block: Code) -> Iterator[str]:
    lines = [printable(line) for line in block.lines]
    longest = max(len(run) for run in re.findall("`+", "\n".join(lines)) or [""])
    fence = "`" * max(3, longest + 1)
    yield from (fence, *lines, fence)


def _table_lines(table: Table, rows: int) -> Iterator[str]:
    rule = " | ".join("---:" if numeric else "---" for numeric in table.numeric)
    yield from (f"| {' | '.join(map(_inline, table.columns))} |", f"| {rule} |")
    for row in table.shown(rows):
        yield f"| {' | '.join(map(_cell_markdown, row))} |"
    if hidden := table.hidden(rows):
        yield from ("", as_markdown(hidden))


def _cell_markdown(cell: Cell) -> str:
    return code(cell.text, table=True) if cell.name else _inline(cell.text)


def _finding_lines(block: Findings, rows: int) -> Iterator[str]:
    if block.full is None:
        yield from _table_lines(block.table, rows) if block.table is not None else ()
        return
    lines: list[str] = []
    for finding in block.findings:
        if finding.number in block.full:
            lines += [f"**{finding.number}. {as_markdown(finding.head)}**  ", as_markdown(finding.detail), ""]
            lines += _proof_lines(finding)
    rest = [finding for finding in block.findings if finding.number not in block.full]
    if rest:
        lines += [
            as_markdown(block.rest),
            "",
            *(f"- {code(finding.id)} {as_markdown(finding.brief)}" for finding in rest),
            "",
        ]
    yield from lines[:-1]


def _proof_lines(finding: Finding) -> Iterator[str]:
    """Where to see a finding, what to do, and who says so; an empty line after each."""
    places = () if finding.part else finding.evidence[:_MARKDOWN_EVIDENCE]
    for proof in places:
        name = f" {code(proof.name)}" if proof.name else ""
        note = f"{say('list.colon')}{as_markdown(proof.note)}" if proof.note else ""
        yield f"- {as_markdown(proof.place)}{name}{note}"
    if places:
        if hidden := len(finding.evidence) - len(places):
            yield f"- {say('report.more', count=hidden)}"
        yield ""
    if finding.advice:
        yield from (say("page.do"), "")
        yield from (f"{number}. {as_markdown(advice)}" for number, advice in enumerate(finding.advice, 1))
        yield ""
    foot = " · ".join(filter(None, (finding.id, finding.gain, *finding.notes)))
    yield from (f"<sub>{as_markdown(foot)}</sub>", "")
