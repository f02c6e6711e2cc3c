"""Simulated jobs with one trouble each, loaded, with the findings about them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from generate import build
from situations import Situation
from troubled import TROUBLED

from npu_tui.analysis.findings.facts import Beside, Facts
from npu_tui.analysis.findings.find import RULES
from npu_tui.analysis.findings.model import Finding, Findings
from npu_tui.analysis.findings.rule import Draft, Rule, Skipped
from npu_tui.analysis.thresholds import Thresholds
from npu_tui.ingest.load import load
from npu_tui.report.measured import Measured
from npu_tui.report.selection import WHOLE_TRACE, Selection


def measured(
    situation: Situation, selection: Selection = WHOLE_TRACE, thresholds: Thresholds | None = None
) -> Measured:
    """The profile of ``situation``, with everything that is read from its files again."""
    with TemporaryDirectory() as folder:
        for name, content in build(situation).items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        found = Measured(load(Path(folder)), selection, thresholds)
        _ = found.facts, found.findings
    return found


@cache
def job(trouble: str, seed: int = 7) -> Measured:
    """The troubled job of that name."""
    return measured(replace(TROUBLED[trouble], seed=seed))


def by_id(found: Findings) -> dict[str, Finding]:
    """The findings by their ids, of which none occurs twice."""
    rows = {each.id: each for each in found.findings}
    assert len(rows) == len(found.findings)
    return rows


def rule(wanted: str) -> Rule:
    """The rule with that id."""
    return next(each for each in RULES if each.id == wanted)


def check(wanted: str, facts: Facts) -> Draft | Skipped | None:
    """What the rule ``wanted`` says where its inputs are there."""
    assert all(facts.has(needed) for needed in rule(wanted).inputs), wanted
    return rule(wanted).check(facts)


def facts_of(found: Measured, beside: Beside | None = None, thresholds: Thresholds | None = None) -> Facts:
    """The facts of the only device, with other files beside the trace or other thresholds."""
    (part,) = found.parts
    return Facts(
        found.trace,
        part,
        found.steps,
        planes=found.planes,
        collectives=found.collectives,
        beside=beside or found.beside,
        thresholds=thresholds,
    )
