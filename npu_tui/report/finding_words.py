"""One finding in words, the same in every format, and the line that says what was read."""

from __future__ import annotations

from npu_tui.report.schema import CodeLineRow, EvidenceRow, FindingRow, OverlapPart, Report
from npu_tui.report.wording import count_text, moment, or_unknown, time_text
from npu_tui.rules.ladder import SUMMING_UP
from npu_tui.strings import say


def split_findings(findings: list[FindingRow]) -> tuple[list[FindingRow], list[FindingRow]]:
    """The findings to work on, told in full, and those worth a line: information, what is hidden, what sums up.

    The former come first in ``findings``, so that a finding has one number everywhere.
    """
    full = [each for each in findings if each.severity != "info" and not each.hidden and each.id not in SUMMING_UP]
    return full, [each for each in findings if each not in full]


def severity_word(severity: str) -> str:
    """A severity in words."""
    return say(f"severity.{severity}")


def class_word(cls: str) -> str:
    """A class of findings in words."""
    return say(f"finding.kind.{cls}")


def overlap_title(overlap: OverlapPart) -> str:
    """The title of how the device spent its time: of several devices, that it is their sum."""
    if not overlap.devices:
        return say("report.overlap")
    return say("report.overlap.sum", count=len(overlap.devices))


def finding_head(finding: FindingRow) -> str:
    """Severity, class and title in one line."""
    head = say(
        "page.head", severity=severity_word(finding.severity).upper(), cls=class_word(finding.cls), title=finding.title
    )
    return f"{head} {say('page.hidden')}" if finding.hidden else head


def finding_foot(finding: FindingRow) -> str:
    """Its id, what mending it would gain, how sure that is, and who says so, in one line."""
    words = [finding.id]
    if finding.gain_us:
        words.append(say("page.gain", gain=gain_words(time_text(finding.gain_us), finding.gain_after)))
    words.append(say("page.confidence", confidence=say(f"confidence.{finding.confidence}")))
    if finding.sources:
        words.append(say("page.sources", sources="; ".join(finding.sources)))
    return " · ".join(words)


def evidence_place(place: EvidenceRow) -> str:
    """When and on which lane a piece of evidence lies."""
    text = say("page.place", start=moment(place.start_us), end=moment(place.end_us))
    return text if place.lane is None else f"{text} {say('page.lane', lane=place.lane)}"


def source_line(report: Report) -> str:
    """What was read: rank, device, level, steps, size, and the selection if there is one."""
    source, trace, selection = report.source, report.trace, report.selection
    text = say(
        "report.about",
        kind=say(f"source.kind.{source.kind}"),
        rank=or_unknown(source.rank),
        device=or_unknown(source.device),
        level=or_unknown(source.profiler_level),
        steps=source.step_count,
        slices=count_text(trace.slices),
        links=count_text(trace.links),
        span=time_text(trace.span_us),
    )
    if selection is None:
        return text
    end = selection.end_us
    key = "report.selection" if selection.step is None else "report.selection.step"
    words = {
        "start": time_text(selection.start_us or 0.0),
        "end": say("report.end") if end is None else time_text(end),
        "step": selection.step,
    }
    return f"{text}; {say(key, **words)}"


def line_place(line: CodeLineRow) -> str:
    """Where a line of code stands, or that no call stack tells."""
    if line.file is None:
        return say("report.lines.none")
    return say("report.lines.place", file=line.file, line=line.line, function=line.function)


def gain_words(gain: str, after: int) -> str:
    """``gain`` with the findings that must be fixed before it is gained: the first ``after`` ones."""
    if not after:
        return gain
    if after == 1:
        return say("finding.gain_after", gain=gain)
    return say("finding.gain_after_many", gain=gain, after=after)
