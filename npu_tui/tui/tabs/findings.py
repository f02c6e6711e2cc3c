"""The Findings tab: what is wrong with the job, in the order of work, each with the places that prove it."""

from __future__ import annotations

from functools import partial
from pathlib import PurePath

from rich.text import Text

from npu_tui.report.parts.findings_part import finding_text
from npu_tui.rules.ladder import SUMMING_UP
from npu_tui.rules.model import SEVERITIES, Evidence, Finding
from npu_tui.strings import say, words
from npu_tui.trace.text import brief, duration_text
from npu_tui.tui.tabs.table.tab import Content, Context, Place, Row, Stretch, Tab, Table
from npu_tui.tui.terminal.theme import ALERT

_COLUMNS = ("number", "class", "frees", "where", "what")


class FindingsTab(Tab):
    """A row per finding; Enter goes to its evidence, Space tells all about it."""

    id = "findings"
    key = "1"

    def depends_on(self, now: Context) -> object:
        """The trace, and whether its findings are there."""
        return now.trace, now.session.findings.get(now.trace) is not None

    def count(self, now: Context) -> int:
        """The findings that are worth a look."""
        found = now.session.findings.get(now.trace)
        return 0 if found is None else sum(not _is_minor(each) for each in found.findings)

    def content(self, now: Context) -> Content:
        """The findings, those above info first; without one what the device does with its time."""
        found = now.session.findings.get(now.trace)
        if found is None:
            return now.session.examining(now.trace)
        numbers = {each.id: number for number, each in reversed([*enumerate(found.findings, 1)])}
        rows = [self._row(now, number, each, numbers) for number, each in enumerate(found.findings, 1)]
        if not rows:
            return "\n".join(map(words, found.verdict))
        headings = tuple(say(f"findings.{key}") for key in _COLUMNS)
        return Table(headings, rows, say("findings.note", unchecked=len(found.not_checked)))

    def _row(self, now: Context, number: int, finding: Finding, numbers: dict[str, int]) -> Row:
        quiet = "dim" if _is_minor(finding) or finding.part_of is not None else ""
        mark = quiet or {"high": f"bold {ALERT}", "medium": "bold"}.get(finding.severity, "")
        frees = "" if finding.gain_ns is None else say("findings.frees_nothing")
        if finding.gain_ns:
            frees = _gain(finding.gain_after, duration_text(finding.gain_ns))
        code = next((line for line in finding.code_lines), None)
        where = say("lines.place", file=brief(PurePath(code.file).name), line=code.line) if code is not None else ""
        title = words(finding.title)
        if finding.part_of is not None:
            title = "  " + say("findings.part", title=title, number=numbers.get(finding.part_of, ""))
        cells = (
            Text(str(number), mark),
            Text(say(f"finding.class.{finding.cls}"), mark),
            Text(frees, quiet),
            Text(where, quiet),
            Text(title, quiet),
        )
        values = (number, SEVERITIES.index(finding.severity), finding.gain_ns, where, title)
        places = tuple(_place(now.trace, each) for each in finding.evidence)
        told = partial(finding_text, now.profile.trace, finding, number)
        return Row(cells, places, values, code, told, _is_minor(finding))


def _is_minor(finding: Finding) -> bool:
    """Whether it is not to be worked on now."""
    return finding.hidden or finding.severity == "info" or finding.id in SUMMING_UP


def _gain(after: int, gain: str) -> str:
    """``gain`` after the findings that must be fixed before it, so that the figures stand below each other."""
    if not after:
        return gain
    return say("findings.after", gain=gain) if after == 1 else say("findings.after_many", after=after, gain=gain)


def _place(trace: int, evidence: Evidence) -> Place:
    told = say("findings.place", name=evidence.name, note=evidence.note)
    return Stretch(evidence.start, evidence.end, trace, evidence.lane, evidence.slice, told)
