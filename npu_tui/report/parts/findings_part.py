"""The findings as rows of the report."""

from __future__ import annotations

from npu_tui.profile.table import us
from npu_tui.report.schema import EvidenceRow, FindingRow, PlaceRow
from npu_tui.report.values import text
from npu_tui.rules.model import Finding, Findings
from npu_tui.strings import words
from npu_tui.trace.model import Trace

_LONGEST_LIST = 5
_WIDTH = 118


def findings_part(trace: Trace, found: Findings) -> list[FindingRow]:
    """The findings in the order of work."""
    return [finding_row(trace, each) for each in found.findings]


def finding_row(trace: Trace, each: Finding) -> FindingRow:
    """One finding about ``trace``."""
    return FindingRow(
        id=each.id,
        cls=each.cls,
        severity=each.severity,
        title=words(each.title),
        detail=words(each.detail),
        evidence=[
            EvidenceRow(
                start_us=us(place.start),
                end_us=us(place.end),
                lane=None if place.lane is None else text(trace.lanes[place.lane].name),
                name=words(place.name),
                note=words(place.note),
            )
            for place in each.evidence
        ],
        advice=[words(said) for said in each.advice],
        gain_us=us(each.gain_ns),
        gain_after=each.gain_after,
        step_after_us=us(each.step_after_ns),
        part_of=each.part_of,
        steps=list(each.steps),
        hidden=each.hidden,
        confidence=each.confidence,
        code_lines=[
            PlaceRow(file=text(code.file), line=code.line, function=text(code.function)) for code in each.code_lines
        ],
        sources=list(each.sources),
    )
