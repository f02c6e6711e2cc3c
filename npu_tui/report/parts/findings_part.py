"""The findings as rows of the JSON report, and as lines of text."""

from __future__ import annotations

from npu_tui.report.finding_words import class_word, gain_words, severity_word, split_findings
from npu_tui.report.schema import EvidenceRow, FindingRow, PlaceRow, Report
from npu_tui.report.values import text, us
from npu_tui.report.wording import moment, time_text
from npu_tui.rules.model import Finding, Findings
from npu_tui.strings import say, words
from npu_tui.trace.model import Trace
from npu_tui.trace.text import wrapped

_LONGEST_LIST = 5
_WIDTH = 118


def findings_part(trace: Trace, found: Findings) -> list[FindingRow]:
    """The findings in the order of work."""
    return [_row(trace, each) for each in found.findings]


def finding_text(trace: Trace, finding: Finding, number: int) -> str:
    """All about one finding in words; it is the ``number``-th."""
    lines = _finding(number, _row(trace, finding), whole=True)
    return "\n".join([*lines, "", say("report.findings.sources", sources="; ".join(finding.sources))])


def _row(trace: Trace, each: Finding) -> FindingRow:
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


def verdict_lines(report: Report) -> list[str]:
    """The verdict of ``report``, then each finding in words.

    A part of another finding goes without its places, what is hidden or info takes one line.
    """
    lines = [say("report.verdict"), *(f"  {line}" for line in report.verdict)]
    full, brief = split_findings(report.findings)
    for number, each in enumerate(full, 1):
        lines += ["", *_finding(number, each)]
    if brief:
        lines += ["", say("report.findings.brief")]
        lines += [
            say(
                "report.findings.brief_hidden" if each.hidden else "report.findings.brief_row",
                id=each.id,
                severity=severity_word(each.severity),
                title=words(each.title),
            )
            for each in brief
        ]
    return lines


def _wrapped(told: str) -> list[str]:
    return wrapped(told, _WIDTH, "  ", "  ")


def _finding(number: int, each: FindingRow, whole: bool = False) -> list[str]:
    gain = each.gain_us
    frees = "" if gain is None else say("report.findings.no_gain")
    if gain:
        frees = say("report.findings.gain", gain=gain_words(time_text(gain), each.gain_after))
    lines = [
        say(
            "report.findings.head",
            number=number,
            severity=severity_word(each.severity).upper(),
            cls=class_word(each.cls),
            title=each.title,
            id=each.id,
            gain=frees,
        ),
        *(["  " + each.detail] if whole else _wrapped(each.detail)),
    ]
    advice = [say("report.findings.advice", number=at, text=text) for at, text in enumerate(each.advice, 1)]
    if each.part_of is not None and not whole:
        return [*lines, *advice]
    listed = each.evidence if whole else each.evidence[:_LONGEST_LIST]
    for place in listed:
        lines.append(
            say(
                "report.findings.place",
                start=moment(place.start_us),
                end=moment(place.end_us),
                name=place.name,
                note=place.note,
            )
        )
    hidden = len(each.evidence) - len(listed)
    if hidden > 0:
        lines.append("    " + say("report.more", count=hidden))
    return [*lines, *advice]
