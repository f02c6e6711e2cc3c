"""Findings, code lines and the time of a device in words."""

from __future__ import annotations

from npu_tui.report.schema import CodeLineRow, OverlapPart
from npu_tui.strings import say


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
