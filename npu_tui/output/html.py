"""A document, or a view to hand on, as one HTML page that needs nothing else: no network, no script but its own.

The page is a template with a style and a script beside it. The template escapes all that a document says. A policy in
the page forbids every load, and every script but its own, known by a digest.

The page of a view has its rows with their slices, to pan and zoom in a browser.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import orjson
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from npu_tui.output.document import Document, Picture, Proof
from npu_tui.output.svg import page_picture
from npu_tui.strings import language, say
from npu_tui.trace.arrays import I64
from npu_tui.trace.classes import OpClass
from npu_tui.trace.text import brief, printable
from npu_tui.view.palette import DARK, PLAIN, Ink, bar
from npu_tui.view.scene import Scene, ScreenRow, ViewState

TEMPLATES = Path(__file__).parent / "templates"
ROWS = 500
"""Rows of a table that the page holds."""
PRINTED = 15
"""Rows of a table that are printed; the style knows them too."""
_LONGEST = 4_000  # characters of one text: a name of a trace may have any length


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
    return say("list.colon").join(filter(None, (proof.place, proof.name, proof.note)))


MOST_BYTES = 1_000_000
"""A page that is sent by mail or chat stays below this size."""
_MOST_SLICES = 30_000
_LONGEST_NAME = 80
"""Slices of a page, the longest ones, and characters of their names."""
_MOST_ROWS, _WIDEST = 900, 28
"""Rows, and characters of their names: browsers draw 32,767 pixels below each other, and a row is up to 36 high."""


def share_page(scene: Scene, rows: Sequence[ScreenRow], state: ViewState, said: Sequence[str]) -> str:
    """The page of ``rows`` at the view of ``state``, below the lines ``said``; less than ``MOST_BYTES`` long.

    Where not all slices fit, long ones in view come first; the page says how many are left out.
    """
    found = _slices(scene, rows, state)
    count, found = len(found), found[found[:, 0] < _MOST_ROWS]
    most = min(len(found), _MOST_SLICES)
    page = _page(scene, rows[:_MOST_ROWS], state, said, found[:most], count - most)
    while len(page.encode()) >= MOST_BYTES and most:
        most //= 2
        page = _page(scene, rows[:_MOST_ROWS], state, said, found[:most], count - most)
    return page


def _slices(scene: Scene, rows: Sequence[ScreenRow], state: ViewState) -> I64:
    """Row, start, end, slice and class of what the rows hold, what is in view and long first; (n, 5)."""
    parts = [np.zeros((0, 5), np.int64)]
    for number, row in enumerate(rows):
        if row.rows is None or row.row < 0 or row.kind == "path":
            continue
        own = slice(*row.rows.offset[[row.row, row.row + 1]].tolist())
        start, end = (scene.to_scene(row.trace, times[own]) for times in (row.rows.start, row.rows.end))
        item = row.rows.item[own].astype(np.int64)
        op_class = scene.traces[row.trace].slices.op_class[item]
        parts.append(np.stack((np.full(len(item), number), start, end, item, op_class.astype(np.int64)), axis=1))
    found = np.concatenate(parts)
    view = state.viewport
    beside = (found[:, 2] < view.start) | (found[:, 1] >= view.end)
    order: I64 = np.lexsort((found[:, 1] - found[:, 2], beside))
    return found[order]


def _page(scene: Scene, rows: Sequence[ScreenRow], state: ViewState, said: Sequence[str], found: I64, left: int) -> str:
    names: dict[str, int] = {}
    texts = []
    for number, item in zip(found[:, 0].tolist(), found[:, 3].tolist(), strict=True):
        name = brief(printable(scene.traces[rows[number].trace].name_of(item)), _LONGEST_NAME)
        texts.append(names.setdefault(name, len(names)))
    view, (first, last) = state.viewport, scene.limits
    data = {
        "rows": [
            {"name": brief(printable(name), _WIDEST), "head": row.kind in ("layer", "trace")}
            for row in rows
            for name in [f"{scene.labels[row.trace]} {row.name}".strip()]
        ],
        "names": [*names],
        "slices": [
            found[:, 0].tolist(),
            (found[:, 1] - first).tolist(),
            (found[:, 2] - found[:, 1]).tolist(),
            texts,
            found[:, 4].tolist(),
        ],
        "colours": [_ink_hex(bar(op_class, PLAIN)) for op_class in range(max(OpClass) + 1)],
        "ground": [_ink_hex(ink) for ink in (Ink.LANE, Ink.BAND, Ink.TEXT, Ink.DIM)],
        "view": [view.start - first, view.end - first],
        "whole": last - first,
    }
    # Within a script only ``<`` could end it or begin a comment.
    told = orjson.dumps(data).decode().replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    script = beside("share.js").replace('"DATA"', told, 1)
    words = [
        *map(printable, said),
        *([say("share.left", count=left, rows=_MOST_ROWS)] if left else []),
        say("share.keys"),
    ]
    return _SHELL.format(
        language=language(),
        policy=policy(script),
        title=escape(printable(scene.traces[0].path)),
        style=beside("share.css"),
        words=Markup("\n").join(Markup("<p>{}</p>").format(line) for line in words),
        script=script,
    )


_SHELL = """<!DOCTYPE html>
<html lang="{language}"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width"><title>{title}</title>
<style>{style}</style></head>
<body><header><h1>{title}</h1>
{words}</header>
<canvas id="lanes" tabindex="0"></canvas><output id="tip"></output>
<script>{script}</script></body></html>
"""


def _ink_hex(ink: int) -> str:
    return "#{:02x}{:02x}{:02x}".format(*DARK.rgb[ink].tolist())
