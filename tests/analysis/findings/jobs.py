"""Simulated jobs with one trouble each, loaded, with the findings about them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from generate import build
from measured import profile_at
from situations import Situation
from troubled import TROUBLED

from npu_tui.analysis.findings.facts.beside import Beside, Shared
from npu_tui.analysis.findings.facts.facts import Facts
from npu_tui.analysis.findings.find import RULES
from npu_tui.analysis.findings.model import Finding, Findings
from npu_tui.analysis.findings.rule import Draft, Rule, Skipped
from npu_tui.analysis.thresholds import Thresholds
from npu_tui.profile.part import ProfilePart
from npu_tui.profile.selection import WHOLE_TRACE, Selection


def measured(
    situation: Situation, selection: Selection = WHOLE_TRACE, thresholds: Thresholds | None = None
) -> ProfilePart:
    """The profile of ``situation``, with everything that is read from its files again."""
    with TemporaryDirectory() as folder:
        for name, content in build(situation).items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        found = profile_at(folder, thresholds).part(selection)
        _ = found.facts, found.findings
    return found


@cache
def job(trouble: str, seed: int = 7) -> ProfilePart:
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


def facts_of(found: ProfilePart, beside: Beside | None = None, thresholds: Thresholds | None = None) -> Facts:
    """The facts of the only device, with other files beside the trace or other thresholds."""
    (device,) = found.profile.devices
    return Facts(device, cast(Shared, _Other(found, beside or found.beside, thresholds or found.thresholds)))


class _Other:
    """What ``found`` has, but for what lies beside it and its thresholds."""

    def __init__(self, found: ProfilePart, beside: Beside, thresholds: Thresholds) -> None:
        self._found = found
        self.beside = beside
        self.thresholds = thresholds

    def __getattr__(self, name: str) -> object:
        return getattr(self._found, name)
