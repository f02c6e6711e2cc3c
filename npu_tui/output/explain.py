"""What a finding means, as a document."""

from __future__ import annotations

import difflib
from typing import get_args

from npu_tui.analysis.thresholds import Thresholds
from npu_tui.compare.differences import DIFFERENCES
from npu_tui.jobs.findings import JOB_FINDINGS
from npu_tui.output.document import Block, Cell, Code, Document, Heading, Items, Paragraph, Table
from npu_tui.rules.explanation import explanation
from npu_tui.rules.find import RULES
from npu_tui.rules.model import FindingClass, Kind
from npu_tui.strings import say
from npu_tui.trace.text import printable

_ALIKE = 0.75

KINDS: tuple[Kind, ...] = (*RULES, *DIFFERENCES, *JOB_FINDINGS)
"""Everything that can be explained."""


def kind_of(wanted: str) -> Kind | None:
    """The finding with the id ``wanted``, in any case; None if there is none."""
    return next((kind for kind in KINDS if kind.id.lower() == wanted.strip().lower()), None)


def finding_ids() -> list[str]:
    """The ids of all findings: of one profile, of a comparison, and of a job."""
    return [kind.id for kind in KINDS]


def nearest(wanted: str) -> str | None:
    """The id that ``wanted`` may mean: one that contains it, else the most similar one; None without any."""
    word = wanted.strip().upper()
    ids = finding_ids()
    parts = [part for id in ids for part in id.split(".")]
    begun = [id for id in ids if word and any(part.startswith(word) for part in id.split("."))]
    inside = begun or [id for id in ids if word and word in id]
    close = difflib.get_close_matches(word, [*ids, *parts], n=1, cutoff=_ALIKE)
    near = [id for id in ids if close and close[0] in (id, *id.split("."))]
    return next(iter(inside or near), None)


def unknown(wanted: str) -> str:
    """What to say where no finding is called ``wanted``: the one that may be meant, else all."""
    near = nearest(wanted)
    if near is not None:
        return say("explain.unknown", id=printable(wanted), near=near)
    return say("explain.unknown_all", id=printable(wanted), ids=" ".join(finding_ids()))


WIDTH = 100
"""Cells of a line: an explanation is read, not scanned."""


def findings_document() -> Document:
    """All ids by class with the first sentence of each."""
    groups: list[tuple[str, list[Kind]]] = [
        (say(f"finding.class.{cls}"), [rule for rule in RULES if rule.cls == cls]) for cls in get_args(FindingClass)
    ]
    groups += [(say("explain.compare"), [*DIFFERENCES]), (say("explain.job"), [*JOB_FINDINGS])]
    return Document(
        say("explain.list"),
        [
            _pairs(title, [[Cell(kind.id, name=True), Cell(explanation(kind).summary)] for kind in kinds])
            for title, kinds in groups
        ],
    )


def explain_document(kind: Kind, thresholds: Thresholds | None = None) -> Document:
    """Everything about ``kind``, with the values of ``thresholds``."""
    about = explanation(kind, thresholds)
    blocks: list[Block] = [Paragraph((about.meaning,)), Paragraph((about.needs,))]
    if about.thresholds:
        rows = [
            [Cell(name, name=True), Cell(f"= {value:g}", value), Cell(text)] for name, value, text in about.thresholds
        ]
        blocks.append(_pairs(say("explain.thresholds"), rows))
    blocks += [Heading(say("explain.advice")), Items(about.advice)]
    if about.change:
        blocks += [Heading(say("explain.change")), Code(about.change)]
    if about.pages:
        pages = tuple(say("explain.page", title=title, address=address) for title, address in about.pages)
        blocks += [Heading(say("explain.pages")), Items(pages)]
    if about.documents:
        blocks += [Heading(say("explain.documents")), Items(about.documents)]
    return Document(say("explain.head", id=about.id, cls=about.subject), blocks)


def _pairs(title: str, rows: list[list[Cell]]) -> Table:
    """Names and what they mean: a table without a head."""
    columns = len(rows[0])
    return Table("meanings", title, ("",) * columns, (False,) * columns, rows)
