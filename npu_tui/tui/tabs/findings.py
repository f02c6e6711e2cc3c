"""The Findings tab: what is wrong with the job, in the order of work, each with the places that prove it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace
from rich.text import Text

from npu_tui.output.report_document import finding_text
from npu_tui.profile.finding_tables import FINDINGS
from npu_tui.profile.table import Value
from npu_tui.rules.ladder import SUMMING_UP
from npu_tui.rules.model import SEVERITIES, Finding
from npu_tui.strings import say, words
from npu_tui.trace.text import duration_text
from npu_tui.tui.tabs.declared import shown
from npu_tui.tui.tabs.table import Content, Context, Tab, Table
from npu_tui.tui.terminal.theme import ALERT


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
        if not found.findings:
            return "\n".join(map(words, found.verdict))
        return self._table(now, found.findings, numbers, say("findings.note", unchecked=len(found.not_checked)))

    def _table(self, now: Context, findings: Sequence[Finding], numbers: dict[str, int], note: str) -> Table:
        sheet = FINDINGS.make(now.profile.whole, findings)

        def quiet(row: int) -> str:
            return "dim" if _is_minor(findings[row]) or findings[row].part_of is not None else ""

        def mark(row: int) -> str:
            return quiet(row) or {"high": f"bold {ALERT}", "medium": "bold"}.get(findings[row].severity, "")

        def gain(row: int, time: Value) -> Text:
            text = "" if time is None else say("findings.frees_nothing")
            return Text(_gain(findings[row].gain_after, duration_text(float(time))) if time else text, quiet(row))

        def title(row: int, text: Value) -> Text:
            part = findings[row].part_of
            part_words = "" if part is None else say("findings.part", title=text, number=numbers.get(part, ""))
            return Text(f"  {part_words}" if part_words else str(text), quiet(row))

        table = shown(
            now.trace, FINDINGS, sheet, note, every=True, most=sheet.rows,
            cells={
                "number": lambda row, number: Text(str(number), mark(row)),
                "severity": lambda row, _: Text(say(f"finding.class.{findings[row].cls}"), mark(row)),
                "gain": gain,
                "place": lambda row, place: Text(str(place), quiet(row)),
                "title": title,
            },
        )  # fmt: skip
        rows = [
            replace(
                row,
                values=(row.values[0], SEVERITIES.index(finding.severity), *row.values[2:]),
                told=partial(finding_text, now.profile.trace, finding, number),
                minor=_is_minor(finding),
            )
            for number, (row, finding) in enumerate(zip(table.rows, findings, strict=True), 1)
        ]
        return replace(table, rows=rows)


def _is_minor(finding: Finding) -> bool:
    """Whether it is not to be worked on now."""
    return finding.hidden or finding.severity == "info" or finding.id in SUMMING_UP


def _gain(after: int, gain: str) -> str:
    """``gain`` after the findings that must be fixed before it, so that the figures stand below each other."""
    if not after:
        return gain
    return say("findings.after", gain=gain) if after == 1 else say("findings.after_many", after=after, gain=gain)
