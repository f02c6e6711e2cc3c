"""What is gone through row by row: the findings of a profile, or the changes of a comparison."""

from __future__ import annotations

from functools import partial
from pathlib import PurePath

from msgspec.structs import replace
from rich.text import Text

from npu_tui.compare.picture import BothPlaces, ComparisonPicture
from npu_tui.output.report_document import finding_text, what_to_do
from npu_tui.profile.finding_tables import FINDINGS
from npu_tui.profile.table import Value
from npu_tui.rules.ladder import SUMMING_UP, is_work
from npu_tui.rules.model import SEVERITIES, Finding, Findings
from npu_tui.strings import say, words
from npu_tui.trace.message import Message, message
from npu_tui.trace.text import brief, change_text, duration_text, share_text
from npu_tui.tui.tabs.declared import shown
from npu_tui.tui.tabs.table import GAP, Content, Context, Stretch, TabRow, TabTable, known_columns
from npu_tui.tui.terminal.frames import ALERT
from npu_tui.view.scene import BASE, NEW

_STYLES = {"high": f"bold {ALERT}", "medium": "bold"}  # how a row stands out by its severity
_LONGEST_NAME = 40


def findings(now: Context) -> Content:
    """The findings, those above info first; without one what the device does with its time.

    Enter goes to the evidence of a finding, Space shows all about it.
    """
    known = now.findings
    if known is None:
        return now.session.examining(now.trace)
    rows = listed(known)
    if not rows:
        return "\n".join(map(words, known.verdict))
    numbers = {finding.id: number for number, finding in reversed([*enumerate(rows, 1)])}
    sheet = FINDINGS.make(now.profile.whole, rows)

    def quiet(row: int) -> str:
        return "" if is_work(rows[row]) else "dim"

    def mark(row: int) -> str:
        return quiet(row) or _STYLES.get(rows[row].severity, "")

    def gain(row: int, time: Value) -> Text:
        text = "" if time is None else say("findings.frees_nothing")
        return Text(_gain_text(rows[row].gain_after, duration_text(float(time))) if time else text, quiet(row))

    def title(row: int, text: Value) -> Text:
        part = rows[row].part_of
        part_words = "" if part is None else say("findings.part", title=text, number=numbers.get(part, ""))
        return Text(f"  {part_words}" if part_words else str(text), quiet(row))

    unchecked = len(known.not_checked)
    notes = [say("findings.note"), *([say("findings.unchecked", count=unchecked)] if unchecked else [])]
    table = shown(
        now.trace, FINDINGS, sheet, GAP.join(notes), most=sheet.rows,
        spare=("place",),
        cells={
            "number": lambda row, number: Text(str(number), mark(row)),
            "severity": lambda row, _: Text(say(f"finding.class.{rows[row].cls}"), mark(row)),
            "gain": gain,
            "place": lambda row, place: Text(str(place), quiet(row)),
            "title": title,
        },
    )  # fmt: skip
    shown_rows = [
        replace(
            row,
            values=(row.values[0], SEVERITIES.index(finding.severity), *row.values[2:]),
            told=partial(finding_text, now.profile, finding, number),
            explained=partial(what_to_do, now.profile, finding),
            minor=not is_work(finding),
            cause=finding.whatif or (finding.id if now.profile.trace.nature.replays_ids else ""),
        )
        for number, (row, finding) in enumerate(zip(table.rows, rows, strict=True), 1)
    ]
    return replace(table, rows=shown_rows)


def listed(found: Findings) -> list[Finding]:
    """The findings that have a row: what sums up the time of the device stands above the lanes."""
    return [finding for finding in found.findings if finding.id not in SUMMING_UP]


def findings_worth_a_look(now: Context) -> int:
    """How many findings are to be worked on."""
    return 0 if now.findings is None else sum(map(is_work, now.findings.findings))


def _gain_text(after: int, gain: str) -> str:
    """``gain`` after the findings that must be fixed before it, so that the figures stand below each other."""
    if not after:
        return gain
    return say("findings.after", gain=gain) if after == 1 else say("findings.after_many", after=after, gain=gain)


def changes(now: Context) -> Content:
    """The changes, the largest first, what none of them explains, and the sum.

    Enter shows the place of a change on both sides, Space shows all about it.
    """
    picture = now.session.picture
    if picture is None:
        return say("compared.none")
    step = picture.comparison.step.delta
    rows, explained, number = [], 0.0, 0
    those = [change for change in picture.changes if change.id != "DIFF.STEP"]
    # Changes that make up for each other have no share of what they come to together.
    whole = 0.0 if any(abs(change.delta_ns or 0.0) > abs(step) for change in those) else step
    for change in those:
        counts = _counts(change)
        number += counts
        explained += (change.delta_ns or 0.0) * counts
        rows.append(_change_row(picture, change, number if counts else None, whole))
    if not rows:
        return say("compare.nothing")
    rows += [_sum("compared.rest", step - explained, whole), _sum("compare.part.sum", step, whole)]
    headings = tuple(say(f"changes.{key}") for key in ("number", "delta", "share", "p", "what"))
    skipped = [words(reason) for reason in picture.comparison.comparability.not_judged]
    note = say("compared.not_judged", what=say("list.comma").join(skipped)) if skipped else ""
    return known_columns(TabTable(headings, rows, note))


def changes_that_count(now: Context) -> int:
    """The changes that cost or save time."""
    picture = now.session.picture
    return 0 if picture is None else sum(bool(change.delta_ns) for change in picture.changes if _counts(change))


def _counts(change: Finding) -> bool:
    """Whether a change stands for itself in the sum."""
    return change.id != "DIFF.STEP" and change.part_of is None and change.delta_ns is not None


def _change_row(picture: ComparisonPicture, change: Finding, number: int | None, step: float) -> TabRow:
    quiet = "dim" if number is None else ""
    mark = _STYLES.get(change.severity, quiet)
    delta = "" if change.delta_ns is None else change_text(change.delta_ns)
    share = _share(change.delta_ns, step)
    title = words(_brief(change))
    p = "" if change.p is None else "<0.001" if change.p < 0.001 else f"{change.p:.2g}"
    cells = (
        Text("" if number is None else str(number), mark),
        Text(delta, mark, justify="right"),
        Text(share, quiet, justify="right"),
        Text(p, quiet),
        Text(title, quiet),
    )
    values = (number, change.delta_ns, None if change.delta_ns is None else abs(change.delta_ns), change.p, title)
    places = tuple(filter(None, (_stretch(each) for each in picture.places(change))))
    return TabRow(
        cells, places, values, told=partial(_change_text, picture, change), minor=not places or number is None
    )


def _brief(change: Finding) -> Message:
    """The title with the name of the file alone and names cut, as a row has little room and ends with figures."""
    args = {
        name: brief(PurePath(value).name if name == "file" else value, _LONGEST_NAME)
        if isinstance(value, str)
        else value
        for name, value in change.title.args.items()
    }
    return message(change.title.code, **args)


def _share(delta: float | None, step: float) -> str:
    if delta is None or not step:
        return ""
    share = delta / step
    return share_text(share) if share >= 0 else f"−{share_text(-share)}"


def _sum(key: str, delta: float, step: float) -> TabRow:
    cells = ("", change_text(delta), _share(delta, step), "", say(key))
    return TabRow(tuple(Text(cell, "dim", justify="right" if k in (1, 2) else "left") for k, cell in enumerate(cells)),
               values=(None, None, None, None, None), minor=True)  # fmt: skip


def _stretch(place: BothPlaces) -> Stretch | None:
    """A place of the new side with that of the base, or of the one side that has it."""
    sides = [
        None if each is None else Stretch(each.start, each.end, each.lane, each.slice, trace=side)
        for side, each in ((BASE, place.base), (NEW, place.new))
    ]
    told = say(
        "compared.place",
        base=_length_text(place, BASE),
        new=_length_text(place, NEW),
        name=words((place.new or place.base).name if place.new or place.base else ""),  # type: ignore[union-attr]
    )
    own, other = (sides[NEW], sides[BASE]) if sides[NEW] is not None else (sides[BASE], None)
    if own is None:
        return None
    return replace(own, words=told, twin=other)


def _length_text(place: BothPlaces, side: int) -> str:
    own = (place.base, place.new)[side]
    return say("compared.absent") if own is None else duration_text(own.end - own.start)


def _change_text(picture: ComparisonPicture, change: Finding) -> str:
    """All there is to say of a change."""
    lines = [f"{change.id}  {words(change.title)}"]
    if change.delta_ns is not None:
        lines.append(say("compared.told.delta", delta=change.delta_ns, step=picture.comparison.step.delta))
    if change.part_of is not None:
        lines.append(say("compared.told.part_of", id=change.part_of))
    if change.p is not None:
        lines.append(say("compared.told.p", p=f"{change.p:.2g}"))
    lines.append(say("compared.told.severity", severity=say(f"severity.{change.severity}")))
    lines += ["", *(words(each) for each in change.advice)]
    for both in picture.places(change):
        for side, place in (("B", both.base), ("N", both.new)):
            if place is not None:
                start = place.start - picture.drawn.windows[side == "N"].start
                lines.append(
                    say("compared.told.place", side=side, at=start, length=place.end - place.start,
                        name=words(place.name))
                )  # fmt: skip
    return "\n".join(lines)
