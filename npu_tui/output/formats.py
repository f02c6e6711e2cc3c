"""The formats that a document is written in, by name."""

from __future__ import annotations

import msgspec

from npu_tui.output.document import Document


def json_report(report: msgspec.Struct) -> bytes:
    """``report`` as indented UTF-8 text with a line end, fields in the order of its type."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"


def written(document: Document, form: str, rows: int | None = None) -> str:
    """``document`` as ``text``, ``markdown`` or ``html``; at most ``rows`` of a table, by default what suits it.

    A page holds its own number of rows in any case: its reader sorts them.
    """
    # Only a page needs a template engine.
    if form == "html":
        from npu_tui.output.html import html

        return html(document)
    if form == "markdown":
        from npu_tui.output.markdown import ROWS, markdown

        return markdown(document, rows or ROWS)
    from npu_tui.output.text import ROWS, text

    return text(document, rows or ROWS)
