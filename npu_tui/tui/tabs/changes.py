"""The Changes tab of a comparison: what changed, what it costs a step, and where on both sides."""

from __future__ import annotations

from functools import partial
from pathlib import PurePath

from rich.text import Text

from npu_tui.compare.differences import Difference
from npu_tui.compare.picture import BothPlaces, Picture
from npu_tui.strings import say, words
from npu_tui.trace.message import Message, message
from npu_tui.trace.text import change_text, duration_text, printable, share_text
from npu_tui.tui.tabs.table import Content, Context, Row, Stretch, Tab, Table
from npu_tui.tui.terminal.theme import ALERT
from npu_tui.view.scene import BASE, NEW

_COLUMNS = ("number", "delta", "share", "p", "what")


class ChangesTab(Tab):
    """A row per change; Enter shows its place on both sides, Space tells all about it."""

    id = "changes"
    key = "F"

    def depends_on(self, now: Context) -> object:
        """The steps that are drawn."""
        return None if now.session.picture is None else now.session.picture.at

    def count(self, now: Context) -> int:
        """The changes that cost or save time."""
        picture = now.session.picture
        return 0 if picture is None else sum(bool(each.delta) for each in picture.changes if _counts(each))

    def content(self, now: Context) -> Content:
        """The changes, the largest first, what none of them explains, and the sum."""
        picture = now.session.picture
        if picture is None:
            return say("compared.none")
        step = picture.comparison.step.delta
        rows, explained, number = [], 0.0, 0
        for each in picture.changes:
            if each.id == "DIFF.STEP":
                continue
            own = _counts(each)
            number += own
            explained += (each.delta or 0.0) * own
            rows.append(_row(picture, each, number if own else None, step))
        if not rows:
            return say("compare.nothing")
        rows.append(_sum("compared.rest", step - explained, step))
        rows.append(_sum("compare.part.sum", step, step))
        headings = tuple(say(f"changes.{key}") for key in _COLUMNS)
        skipped = [words(each) for each in picture.comparison.comparability.not_judged]
        note = say("compared.not_judged", what=say("list.comma").join(skipped)) if skipped else ""
        return Table(headings, rows, note)


def _counts(change: Difference) -> bool:
    """Whether a change stands for itself in the sum."""
    return change.id != "DIFF.STEP" and change.part_of is None and change.delta is not None


def _row(picture: Picture, change: Difference, number: int | None, step: float) -> Row:
    quiet = "dim" if number is None else ""
    mark = {"high": f"bold {ALERT}", "medium": "bold"}.get(change.severity, quiet)
    delta = "" if change.delta is None else change_text(change.delta)
    share = _share(change.delta, step)
    title = words(_brief(change))
    p = "" if change.p is None else "<0.001" if change.p < 0.001 else f"{change.p:.2g}"
    cells = (
        Text("" if number is None else str(number), mark),
        Text(delta, mark, justify="right"),
        Text(share, quiet, justify="right"),
        Text(p, quiet),
        Text(title, quiet),
    )
    values = (number, change.delta, None if change.delta is None else abs(change.delta), change.p, title)
    places = tuple(filter(None, (_stretch(each) for each in picture.places(change))))
    return Row(cells, places, values, told=partial(_told, picture, change), minor=not places or number is None)


def _brief(change: Difference) -> Message:
    """The title with the name of the file alone, as a row has little room."""
    file = change.title.args.get("file")
    return (
        change.title
        if file is None
        else message(change.title.code, **{**change.title.args, "file": PurePath(str(file)).name})
    )


def _share(delta: float | None, step: float) -> str:
    if delta is None or not step:
        return ""
    share = delta / step
    return share_text(share) if 0 <= share <= 10 else f"−{share_text(-share)}" if -10 <= share < 0 else ""


def _sum(key: str, delta: float, step: float) -> Row:
    cells = ("", change_text(delta), _share(delta, step), "", say(key))
    return Row(tuple(Text(cell, "dim", justify="right" if k in (1, 2) else "left") for k, cell in enumerate(cells)),
               values=(None, None, None, None, None), minor=True)  # fmt: skip


def _stretch(place: BothPlaces) -> Stretch | None:
    """A place of the new side with that of the base, or of the one side that has it."""
    sides = [
        None if each is None else Stretch(each.start, each.end, side, each.lane, each.item)
        for side, each in ((BASE, place.base), (NEW, place.new))
    ]
    told = say(
        "compared.place",
        base=_length(place, BASE),
        new=_length(place, NEW),
        name=printable((place.new or place.base).name if place.new or place.base else ""),  # type: ignore[union-attr]
    )
    own, other = (sides[NEW], sides[BASE]) if sides[NEW] is not None else (sides[BASE], None)
    if own is None:
        return None
    return Stretch(own.start, own.end, own.trace, own.lane, own.slice, told, twin=other)


def _length(place: BothPlaces, side: int) -> str:
    own = (place.base, place.new)[side]
    return say("compared.absent") if own is None else duration_text(own.end - own.start)


def _told(picture: Picture, change: Difference) -> str:
    """All there is to say of a change."""
    lines = [f"{change.id}  {words(change.title)}"]
    if change.delta is not None:
        lines.append(say("compared.told.delta", delta=change.delta, step=picture.comparison.step.delta))
    if change.part_of is not None:
        lines.append(say("compared.told.part_of", id=change.part_of))
    if change.p is not None:
        lines.append(say("compared.told.p", p=f"{change.p:.2g}"))
    lines.append(say("compared.told.severity", severity=say(f"compare.severity.{change.severity}")))
    lines += ["", *(words(each) for each in change.advice)]
    for both in picture.places(change):
        for side, place in (("B", both.base), ("N", both.new)):
            if place is not None:
                start = place.start - picture.drawn.windows[side == "N"].start
                lines.append(
                    say("compared.told.place", side=side, at=start, length=place.end - place.start,
                        name=printable(place.name))
                )  # fmt: skip
    return "\n".join(lines)
