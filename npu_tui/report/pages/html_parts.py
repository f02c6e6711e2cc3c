"""What the pages of reports are made of: one HTML file that needs nothing else, no network, no script but its own."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from html import escape

from npu_tui.output.document import Cell, Table
from npu_tui.report.pages.html_style import SCRIPT, STYLE
from npu_tui.strings import language, say
from npu_tui.trace.text import brief, printable

ROWS = 500
"""Rows of a table that the page holds."""
_LONGEST = 4_000
PRINTED = 15
"""Rows of a table that are printed."""


def page(title: str, body: Iterable[str]) -> str:
    """The page called ``title``; ``body`` are its lines of HTML."""
    parts = [
        "<!DOCTYPE html>",
        f'<html lang="{language()}">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_policy()}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{text(title)}</title>",
        f"<style>{STYLE}</style>",
        "</head>",
        "<body>",
        f"<h1>{text(title)}</h1>",
        *body,
        f"<script>{SCRIPT}</script>",
        "</body>",
        "</html>",
    ]
    return "\n".join(parts) + "\n"


def _policy() -> str:
    """What the page may load and run: its own style and, known by its digest, its own script."""
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def text(words: str) -> str:
    """``words`` as it stands, with nothing in it that the page would obey."""
    return escape(brief(words, _LONGEST))


def listed(tag: str, lines: list[str]) -> list[str]:
    """``lines`` as a list of the kind ``tag``; nothing without one."""
    return [f"<{tag}>", *(f"<li>{text(line)}</li>" for line in lines), f"</{tag}>"] if lines else []


def table_part(table: Table, sortable: bool = True) -> list[str]:
    """A heading and the first rows of ``table``."""
    heads = "".join(
        f'<th scope="col"{_number(numeric)}>{text(column)}</th>'
        for column, numeric in zip(table.columns, table.numeric, strict=True)
    )
    rows = [
        f"<tr{_id(row)}>{''.join(_cell(*each) for each in zip(row, table.numeric, table.columns, strict=True))}</tr>"
        for row in table.shown(ROWS)
    ]
    kind = ' class="sortable"' if sortable and len(rows) > 1 else ""
    hidden, unprinted = table.hidden(ROWS), len(rows) - PRINTED
    return [
        f'<h2 id="{table.id}">{printable(table.title)}</h2>',
        f'<div class="scroll"><table{kind}><thead><tr>{heads}</tr></thead><tbody>',
        *rows,
        "</tbody></table></div>",
        *([f'<p class="faint">{text(hidden)}</p>'] if hidden else []),
        *([f'<p class="faint more">{say("report.more", count=unprinted)}</p>'] if unprinted > 0 else []),
    ]


def _number(numeric: bool) -> str:
    return ' class="number"' if numeric else ""


def _id(row: list[Cell]) -> str:
    """What the links to a row that links to something name."""
    return next((f' id="row-{cell.link}"' for cell in row if cell.link), "")


def _cell(cell: Cell, numeric: bool, head: str) -> str:
    sort = "" if cell.sort is None else f' data-sort="{cell.sort:.15g}"'
    kind = _number(numeric) or (' class="name"' if cell.name else "")
    shown = f'<a href="#{cell.link}">{text(cell.text)}</a>' if cell.link else text(cell.text)
    return f'<td{kind}{sort} data-head="{text(head)}">{shown}</td>'
