"""Tables as text for the clipboard of the terminal, which takes only so much (OSC 52), and the way through tmux."""

from __future__ import annotations

import csv
import io
import os
import subprocess

from rich.cells import cell_len
from rich.text import Text

from npu_tui.trace.text import printable
from npu_tui.tui.tabs.tab import Table

MOST_BYTES = 74_994
"""hterm and others drop an OSC 52 sequence of more than 100,000 characters, which is this many bytes in base64."""

_TMUX_SECONDS = 2.0


def to_tmux(text: str) -> bool:
    """Give ``text`` to the tmux that the program runs in, and through it to the terminal; False if that did not work.

    As tmux comes, it drops OSC 52 from the programs in it (``set-clipboard external``) but sends its own.
    """
    if not os.environ.get("TMUX"):
        return False
    command = ["tmux", "load-buffer", "-w", "-"]
    try:
        done = subprocess.run(command, input=text.encode(), capture_output=True, timeout=_TMUX_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0  # before tmux 3.2 there is no -w


def row_cells(cells: tuple[Text | str, ...]) -> list[str]:
    """The cells of a row as plain texts."""
    return [printable(cell.plain if isinstance(cell, Text) else cell) for cell in cells]


def as_text(table: Table | None) -> list[str]:
    """Headings and rows in columns; empty without a table."""
    if table is None:
        return []
    rows = [list(table.headings), *(row_cells(row.cells) for row in table.rows)]
    widths = [max(cell_len(row[i]) for row in rows) for i in range(len(table.headings))]
    return ["  ".join(cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows]  # fmt: skip


def as_csv(table: Table | None) -> list[str]:
    """Headings and rows as lines of CSV; empty without a table."""
    if table is None:
        return []
    lines = []
    for row in [list(table.headings), *(row_cells(row.cells) for row in table.rows)]:
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow(row)
        lines.append(line.getvalue())
    return lines


def cut(lines: list[str]) -> tuple[str, int]:
    """As many whole lines as terminals take, and how many those are."""
    size = kept = 0
    for line in lines:
        size += len(line.encode()) + 1
        if size > MOST_BYTES:
            break
        kept += 1
    return "".join(f"{line}\n" for line in lines[:kept]), kept
