"""The list of profiles as lines of text."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from msgspec import Struct
from rich.text import Text

from npu_tui.nearby.profiles import Nearby, matching
from npu_tui.nearby.verdicts import Told
from npu_tui.strings import say
from npu_tui.trace.text import cell_count, padded, printable, shortened, size_text, wrapped
from npu_tui.tui.terminal.theme import ALERT

_FOLDED_FROM = 9
"""Ranks from which on those of a job are shown when they are asked for."""
_GAP = 2
_LEAST_NAME, _MOST_NAME = 18, 48
_LEAST_VERDICT = 24
_MARK = 2


class Choice(Struct):
    """What can be chosen, what is shown of it, and what is marked."""

    folder: Path
    listed: list[Nearby] = []
    told: dict[Path, Told] = {}
    marked: set[Path] = set()
    turned: set[Path] = set()
    wanted: str = ""
    at: int = 0
    is_whole: bool = False
    is_examined: bool = False

    def shown(self) -> list[Nearby]:
        """The rows on screen: those that match, without the ranks of folded jobs."""
        if self.wanted:
            return list(matching(self.listed, self.wanted, {path: told.text for path, told in self.told.items()}))
        hidden = {rank.path for each in self.listed if each.is_job and self.is_folded(each) for rank in each.ranks}
        return [each for each in self.listed if each.path not in hidden or each.is_job]

    def is_folded(self, job: Nearby) -> bool:
        """Whether the ranks of ``job`` are not shown: those of a large one at first, and what was turned since."""
        return (len(job.ranks) >= _FOLDED_FROM) != (job.path in self.turned)

    def current(self) -> Nearby | None:
        """The row under the cursor."""
        shown = self.shown()
        return shown[min(self.at, len(shown) - 1)] if shown else None

    def stay_at(self, row: Nearby | None) -> None:
        """Let the cursor be on ``row`` again, whatever is shown now."""
        shown = self.shown()
        paths = [each.path for each in shown]
        if row is not None and row.path in paths:
            self.at = paths.index(row.path)
        self.at = max(0, min(self.at, len(shown) - 1))

    def jobs(self) -> int:
        """How many folders are jobs."""
        return sum(each.is_job for each in self.listed)

    def in_jobs(self) -> set[Path]:
        """The profiles that are ranks of a job."""
        return {rank.path for each in self.listed for rank in each.ranks}


def head_line(choice: Choice, width: int) -> Text:
    """How many there are, below which folder, and what is searched for."""
    profiles = sum(not each.is_job for each in choice.listed)
    words = [say("picker.title", count=profiles), say("picker.below", path=_home(choice.folder))]
    jobs = choice.jobs()
    if jobs:
        words.append(say("picker.jobs", count=jobs))
    if not choice.is_whole:
        words.append(say("picker.looking"))
    elif not choice.is_examined:
        words.append(say("picker.examining"))
    line = Text.assemble((words[0], "bold"), no_wrap=True, end="")
    for word in words[1:]:
        if line.cell_len + 2 + cell_count(word) <= width:
            line.append(f"  {word}", "dim")
    return line


def _home(folder: Path) -> str:
    return printable(str(folder.absolute()))


def columns(choice: Choice, shown: Sequence[Nearby], width: int) -> list[int]:
    """Cells of name, rank, time, size, level and verdict in lines of ``width``; 0 for what has no room."""
    rank = max([cell_count(say("picker.rank")), *(cell_count(_rank(each)) for each in shown)])
    size = max([cell_count(say("picker.size")), *(cell_count(size_text(each.bytes)) for each in shown)])
    fixed = [rank, 16, size, cell_count(say("picker.level"))]
    longest = max([_LEAST_NAME, *(cell_count(_name(choice, each)) for each in shown)])
    room = width - _MARK
    for dropped in ([], [3], [3, 0], [3, 0, 2], [0, 1, 2, 3]):
        own = [0 if at in dropped else cells for at, cells in enumerate(fixed)]
        taken = sum(cells + _GAP for cells in own if cells)
        name = min(longest, _MOST_NAME, max(_LEAST_NAME, (room - taken) // 3))
        if room - taken - name - _GAP >= _LEAST_VERDICT:
            return [name, *own, room - taken - name - _GAP]
    return [max(room, 1), 0, 0, 0, 0, 0]


def title_line(widths: Sequence[int]) -> Text:
    """What stands above the columns."""
    names = ("worker", "rank", "time", "size", "level", "verdict")
    cells = [say(f"picker.{name}") for name in names]
    cells[0] = f"  {cells[0]}"
    return Text(" " * _MARK + _joined(cells, widths), "dim", no_wrap=True, end="")


def row_line(choice: Choice, each: Nearby, widths: Sequence[int], is_current: bool) -> Text:
    """One profile or job."""
    told = choice.told.get(each.path)
    mark = "●" if each.path in choice.marked else " "
    level = "" if each.level is None else str(each.level)
    time = datetime.fromtimestamp(each.time).strftime("%Y-%m-%d %H:%M") if each.time else ""
    cells = [_name(choice, each), _rank(each), time, size_text(each.bytes), level]
    line = Text(f"{mark} ", no_wrap=True, end="")
    line.append(_joined(cells, widths[:-1]), "bold" if each.is_job else "")
    if widths[-1]:
        words = "…" if told is None and not choice.is_examined else ""
        words = words if told is None else shortened(printable(told.text), widths[-1])
        line.append(" " * _GAP)
        begin = len(line)
        line.append(padded(words, widths[-1]), "dim" if told is None or told.failed else "")
        if told is not None and told.grave:
            line.stylize(f"bold {ALERT}", begin, begin + max(words.find(":"), words.find("：")) + 1)
    if is_current:
        line.stylize("reverse")
    return line


def foot_lines(choice: Choice, width: int, words: str) -> list[Text]:
    """All of what the row under the cursor says, where it lies, and the keys."""
    each = choice.current()
    lines: list[Text] = []
    if each is not None:
        told = choice.told.get(each.path)
        if told is not None:
            style = "dim" if told.failed else "bold"
            lines += [Text(line, style, no_wrap=True, end="") for line in wrapped(printable(told.text), width)[:2]]
        lines.append(Text(shortened(printable(str(each.path)), width, ahead=True), "dim", no_wrap=True, end=""))
    if choice.wanted:
        typed = say("picker.filter", text=printable(choice.wanted), count=len(choice.shown()))
        lines.append(Text(shortened(typed, width, ahead=True), "bold", no_wrap=True, end=""))
    lines.append(Text(shortened(words or _keys(choice), width), "" if words else "dim", no_wrap=True, end=""))
    return lines


def _keys(choice: Choice) -> str:
    if choice.wanted:
        return say("picker.keys.filter")
    if choice.marked:
        return say("picker.keys.marked", count=len(choice.marked))
    return say("picker.keys")


def _name(choice: Choice, each: Nearby) -> str:
    """The name, with how to unfold a job ahead, or below its job."""
    if each.is_job:
        return f"{'▸' if choice.is_folded(each) and not choice.wanted else '▾'} {each.name}"
    worker = each.name.rpartition("/")[2]
    return f"    {worker}" if each.path in choice.in_jobs() else f"  {each.name}"


def _rank(each: Nearby) -> str:
    if each.is_job:
        return say("picker.ranks", count=len(each.ranks))
    return "" if each.rank is None else str(each.rank)


def _joined(cells: Sequence[str], widths: Sequence[int]) -> str:
    """The cells in their columns: names and words on the left, figures on the right."""
    own = [
        padded(shortened(cell, width, ahead=not at), width, right=at in (1, 3, 4))
        for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
        if width
    ]
    return (" " * _GAP).join(own)
