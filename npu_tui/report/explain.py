"""Every finding that can be explained, by its id or one that looks like it."""

from __future__ import annotations

import difflib

from npu_tui.compare.differences import DIFFERENCES
from npu_tui.jobs.findings import JOB_FINDINGS
from npu_tui.rules.find import RULES
from npu_tui.rules.model import Kind
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
