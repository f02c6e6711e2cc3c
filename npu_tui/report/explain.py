"""What a finding means, in plain text: its rule, inputs, thresholds, advice and documents."""

from __future__ import annotations

import difflib
from typing import get_args

from npu_tui.analysis.thresholds import Thresholds
from npu_tui.compare.differences import DIFFERENCES
from npu_tui.job.findings import JOB_FINDINGS
from npu_tui.rules.explanation import explanation
from npu_tui.rules.find import RULES
from npu_tui.rules.model import FindingClass, Kind
from npu_tui.strings import say
from npu_tui.trace.text import padded, printable, wrapped

_WIDTH = 100
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
    """The id that looks like ``wanted``: one that contains it, else the most alike one; None if none is."""
    word = wanted.strip().upper()
    ids = finding_ids()
    parts = [part for each in ids for part in each.split(".")]
    begun = [each for each in ids if word and any(part.startswith(word) for part in each.split("."))]
    inside = begun or [each for each in ids if word and word in each]
    close = difflib.get_close_matches(word, [*ids, *parts], n=1, cutoff=_ALIKE)
    near = [each for each in ids if close and close[0] in (each, *each.split("."))]
    return next(iter(inside or near), None)


def unknown(wanted: str) -> str:
    """What to say where no finding is called ``wanted``: the one that may be meant, else all."""
    near = nearest(wanted)
    if near is not None:
        return say("explain.unknown", id=printable(wanted), near=near)
    return say("explain.unknown_all", id=printable(wanted), ids=" ".join(finding_ids()))


def list_findings() -> str:
    """All ids by class with the first sentence of each."""
    groups: list[tuple[str, list[Kind]]] = [
        (say(f"finding.class.{cls}"), [rule for rule in RULES if rule.cls == cls]) for cls in get_args(FindingClass)
    ]
    groups += [(say("explain.compare"), [*DIFFERENCES]), (say("explain.job"), [*JOB_FINDINGS])]
    lines = [say("explain.list")]
    for title, kinds in groups:
        lines += ["", title]
        lines += [say("explain.row", id=kind.id, first=explanation(kind).summary) for kind in kinds]
    return "\n".join(lines) + "\n"


def explain(kind: Kind, thresholds: Thresholds | None = None) -> str:
    """Everything about ``kind``, with the values of ``thresholds``."""
    about = explanation(kind, thresholds)
    lines = [
        say("explain.head", id=about.id, cls=about.subject),
        "",
        *wrapped(about.meaning, _WIDTH),
        "",
        *wrapped(about.needs, _WIDTH),
    ]
    if about.thresholds:
        width = max(len(name) for name, *_ in about.thresholds)
        lines += ["", say("explain.thresholds")]
        lines += [
            say("explain.threshold", name=padded(name, width), value=padded(f"{value:g}", 6), text=text)
            for name, value, text in about.thresholds
        ]
    lines += ["", say("explain.advice")]
    for text in about.advice:
        lines += wrapped(say("explain.item", text=text).strip(), _WIDTH, "  ", "    ")
    if about.change:
        lines += ["", say("explain.change"), *(f"  {line}" for line in about.change)]
    if about.pages:
        lines += ["", say("explain.pages")]
        lines += [say("explain.page", title=title, address=address) for title, address in about.pages]
    if about.documents:
        lines += ["", say("explain.documents"), *(f"  {document}" for document in about.documents)]
    return "\n".join(lines) + "\n"
