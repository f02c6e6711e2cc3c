"""A document as one HTML page that needs nothing else: no network, no script but its own.

The page is a template with a style and a script beside it. The template escapes all that a document says. A policy in
the page forbids every load, and every script but the one whose digest it names.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from npu_tui.output.document import Document, Picture, Proof
from npu_tui.output.svg import page_picture
from npu_tui.strings import language, say
from npu_tui.trace.text import brief

TEMPLATES = Path(__file__).parent / "templates"
ROWS = 500
"""Rows of a table that the page holds."""
PRINTED = 15
"""Rows of a table that are printed; the style knows them too."""
_LONGEST = 4_000
"""Characters of one text: a name of a trace may have any length."""


def html(document: Document, rows: int = ROWS) -> str:
    """The page of ``document``: at most ``rows`` of a table."""
    style, script = beside("page.css"), beside("page.js")
    return _template().render(
        document=document,
        language=language(),
        style=Markup(style),
        script=Markup(script),
        policy=Markup(policy(script)),
        most_rows=rows,
        printed_rows=PRINTED,
        timeline=any(isinstance(block, Picture) and block.id == "timeline" for block in document.blocks),
        do=say("page.do"),
        to_table=say("page.to_table"),
        to_timeline=say("page.to_timeline"),
        more=lambda count: say("report.more", count=count),
    )


def policy(script: str) -> str:
    """What the page may load and run: its own style and, known by its digest, its own script."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


@cache
def beside(name: str) -> str:
    """The text of the file ``name`` beside the template."""
    return (TEMPLATES / name).read_text(encoding="utf-8")


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        finalize=_shown_value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "kind": lambda block: type(block).__name__,
        "picture": _picture_markup,
        "proof": _proof_markup,
    }
    return environment.get_template("page.html")


def _shown_value(value: object) -> object:
    """A text cut to a length, without what acts on a terminal or reorders a line; anything else as it is."""
    return brief(value, _LONGEST) if isinstance(value, str) and not isinstance(value, Markup) else value


def _picture_markup(picture: Picture) -> Markup:
    return Markup(page_picture(picture))


def _proof_markup(proof: Proof) -> str:
    return ": ".join(filter(None, (proof.place, proof.name, proof.note)))
