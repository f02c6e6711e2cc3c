"""The picker: profiles below a folder, with what each says."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from threading import Event

from msgspec import Struct
from rich.text import Text
from textual import events, work
from textual.app import ComposeResult
from textual.widgets import Static

from npu_tui.load.find import MOST_FOLDERS, Source, sources_below
from npu_tui.nearby import Nearby, Verdict, jobs_in, matching, newest_first, others_below, profile_of, verdicts
from npu_tui.record.outputs import RawProfile, estimated, raw_rows
from npu_tui.strings import say
from npu_tui.strings import words as worded
from npu_tui.trace.text import cell_count, padded, printable, shortened, size_text, wrapped
from npu_tui.tui.commands import BY_ID, commands_of
from npu_tui.tui.keymap import list_bindings
from npu_tui.tui.panel_screen import MOST_STACKED, Program
from npu_tui.tui.sheets import HelpSheet
from npu_tui.tui.terminal.frames import ALERT
from npu_tui.tui.terminal.internals import SeenScreen, bind

_FOLDED_FROM = 9
"""Ranks from which on those of a job are shown when they are asked for."""
_GAP = 2
_LEAST_NAME, _MOST_NAME = 18, 64
_LEAST_VERDICT = 36
_MARK = 2
_MOST_SAID = 8
"""Lines of a message: a command that is to be copied stands there as a whole."""
_WHOLE_TIME, _SHORT_TIME, _WIDE = 16, 11, 98
"""Cells of a time with its year, and without it on a line that is not so wide."""


class PickerChoice(Struct):
    """What can be chosen, what is shown of it, and what is marked."""

    folder: Path
    listed: list[Nearby] = []
    told: dict[Path, Verdict] = {}
    marked: set[Path] = set()
    turned: set[Path] = set()
    wanted: str = ""
    at: int = 0
    is_whole: bool = False
    is_cut: bool = False
    is_examined: bool = False

    def shown(self) -> list[Nearby]:
        """The rows on screen: those that match, without the ranks of folded jobs."""
        if self.wanted:
            return list(matching(self.listed, self.wanted, {path: told.text for path, told in self.told.items()}))
        hidden = {rank.path for entry in self.listed if self.is_folded(entry) for rank in entry.ranks}
        return [entry for entry in self.listed if entry.path not in hidden or entry.ranks]

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
        paths = [entry.path for entry in shown]
        if row is not None and row.path in paths:
            self.at = paths.index(row.path)
        self.at = max(0, min(self.at, len(shown) - 1))

    def in_jobs(self) -> set[Path]:
        """The profiles that are ranks of a job."""
        return {rank.path for entry in self.listed for rank in entry.ranks}


def head_line(choice: PickerChoice, width: int) -> Text:
    """The line on top: how many profiles there are, below which folder, and what is searched for."""
    jobs = jobs_in(choice.listed)
    words = [
        say("picker.title", count=len(choice.listed) - jobs),
        say("picker.below", path=printable(str(choice.folder.absolute()))),
    ]
    if choice.is_cut:
        words.insert(1, say("picker.cut", count=MOST_FOLDERS))
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


def columns(choice: PickerChoice, shown: Sequence[Nearby], width: int) -> list[int]:
    """Cells of name, rank, time, size, level and verdict in lines of ``width``; 0 for what has no room."""
    rank = max([cell_count(say("picker.rank")), *(cell_count(entry.rank_text()) for entry in shown)])
    size = max([cell_count(say("picker.size")), *(cell_count(size_text(entry.bytes)) for entry in shown)])
    fixed = [rank, _WHOLE_TIME if width >= _WIDE else _SHORT_TIME, size, cell_count(say("picker.level"))]
    same = [1] if len(shown) > 1 and len({int(entry.time) // 60 for entry in shown}) == 1 else []  # it says nothing
    longest = max([_LEAST_NAME, *(cell_count(_entry_name(choice, entry)) for entry in shown)])
    room = width - _MARK
    for dropped in ([], [3], [3, 0], [3, 0, 2], [0, 1, 2, 3]):
        own = [0 if at in (*dropped, *same) else cells for at, cells in enumerate(fixed)]
        taken = sum(cells + _GAP for cells in own if cells)
        name = min(longest, _MOST_NAME, max(_LEAST_NAME, room - taken - _GAP - _LEAST_VERDICT))
        if room - taken - name - _GAP >= _LEAST_VERDICT:
            return [name, *own, room - taken - name - _GAP]
    return [max(room, 1), 0, 0, 0, 0, 0]


def title_line(widths: Sequence[int]) -> Text:
    """What stands above the columns."""
    names = ("worker", "rank", "time", "size", "level", "verdict")
    cells = [say(f"picker.{name}") for name in names]
    cells[0] = f"  {cells[0]}"
    return Text(" " * _MARK + _joined_cells(cells, widths), "dim", no_wrap=True, end="")


def row_line(choice: PickerChoice, entry: Nearby, widths: Sequence[int], is_current: bool) -> Text:
    """One profile or job."""
    told = choice.told.get(entry.path)
    mark = "●" if entry.path in choice.marked else " "
    level = "" if entry.level is None else str(entry.level)
    time = datetime.fromtimestamp(entry.time).isoformat(" ", "minutes")[-widths[2] :] if entry.time else ""
    cells = [_entry_name(choice, entry), entry.rank_text(), time, size_text(entry.bytes), level]
    line = Text(f"{mark} ", no_wrap=True, end="")
    line.append(_joined_cells(cells, widths[:-1]), entry.style)
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


def foot_lines(choice: PickerChoice, width: int, words: str) -> list[Text]:
    """The lines at the bottom: the verdict on the row under the cursor in full, its path, and the keys."""
    entry = choice.current()
    lines: list[Text] = []
    if entry is not None:
        told = choice.told.get(entry.path)
        if told is not None:
            style = "dim" if told.failed else "bold"
            lines += [Text(line, style, no_wrap=True, end="") for line in wrapped(printable(told.text), width)[:2]]
        lines.append(Text(shortened(printable(str(entry.path)), width, ahead=True), "dim", no_wrap=True, end=""))
    if choice.wanted:
        typed = say("picker.filter", text=printable(choice.wanted), count=len(choice.shown()))
        lines.append(Text(shortened(typed, width, ahead=True), "bold", no_wrap=True, end=""))
    said = wrapped(words, width)[:_MOST_SAID] if words else [shortened(_key_hints(choice), width)]
    lines += [Text(line, "" if words else "dim", no_wrap=True, end="") for line in said]
    return lines


def _key_hints(choice: PickerChoice) -> str:
    if choice.wanted:
        return say("picker.keys.filter")
    if choice.marked:
        return say("picker.keys.marked", count=len(choice.marked))
    return say("picker.keys")


def _offer(ranks: Sequence[Nearby]) -> str:
    """What a second Enter on the row of the raw ``ranks`` of a job does."""
    first = ranks[0]
    estimate = "" if first.writer is None else worded(estimated(first.writer, first.bytes).said)
    return say("picker.offer", first=first.rank_text() or first.name, rest=len(ranks) - 1, estimate=estimate)


def _entry_name(choice: PickerChoice, entry: Nearby) -> str:
    """The name of ``entry``: a job has its fold mark in front, a rank of a job is indented below it."""
    if entry.ranks:
        return f"{'▸' if choice.is_folded(entry) and not choice.wanted else '▾'} {entry.name}"
    worker = entry.name.rpartition("/")[2]
    return f"    {worker}" if entry.path in choice.in_jobs() else f"  {entry.name}"


def _joined_cells(cells: Sequence[str], widths: Sequence[int]) -> str:
    """The cells in their columns: names and words on the left, figures on the right."""
    own = [
        padded(shortened(cell, width, ahead=not at), width, right=at in (1, 3, 4))
        for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
        if width
    ]
    return (" " * _GAP).join(own)


_HEAD = 3
"""Lines above the first row."""
_FEW = 16
"""Profiles after which those found so far are shown."""


class PickerScreen(SeenScreen[None], inherit_bindings=False):
    """Lists the profiles below ``folder`` as they are found, and what each says as that becomes known."""

    DEFAULT_CSS = "PickerScreen Static { height: 1fr; padding: 0 1; text-wrap: nowrap; }"

    app: Program

    def __init__(self, folder: Path, cached: bool = True) -> None:
        """With ``cached`` parsed copies are used."""
        super().__init__()
        self._cached = cached
        self._shown = Static()
        self._words = self._held = ""
        self._typing = False
        self._prefix = ""
        self._analysed: set[Path] = set()
        self._first = 0
        self._stop = Event()
        self.choice = PickerChoice(folder)
        bind(self, list_bindings("picker"))  # the user's keys are known only now

    def compose(self) -> ComposeResult:
        """The list alone."""
        yield self._shown

    def on_mount(self) -> None:
        """Begin to look."""
        self._draw()
        self._look()

    def on_unmount(self) -> None:
        """Stop to look: the answers are no longer needed."""
        self._stop.set()

    # --- looking

    def forget_raw(self) -> None:
        """What was raw is analysed: it is looked for as a profile with the next ``examine``."""
        self._analysed = {entry.path for entry in self.choice.listed if entry.writer is not None}
        self.choice.marked -= self._analysed

    def hold(self, words: str) -> None:
        """Show ``words`` in place of the keys for as long as something goes on; nothing once it is done."""
        self._held = f"{words}   {say('picker.keys.stop')}" if words else ""
        self._draw()

    @work(thread=True, exclusive=True, group="look")
    def _look(self) -> None:
        found: list[Nearby] = []
        sources: list[Source] = []
        for source in sources_below(self.choice.folder, lambda: setattr(self.choice, "is_cut", True)):
            if self._stop.is_set():
                return
            sources.append(source)
            found.append(profile_of(source, self.choice.folder))
            if len(found) % _FEW == 0:
                self.call_later(self._show_listed, newest_first(found), False)
        others = others_below(self.choice.folder, sources)
        listed = [*newest_first(found), *others, *raw_rows(self.choice.folder, sources)]
        self.call_later(self._show_listed, listed, True)

    def _show_listed(self, listed: list[Nearby], whole: bool) -> None:
        """Show what was found, ``whole`` if that is all; the cursor stays where the user has put it."""
        gc.enable()  # traces come and go from now on while the list is read
        choice = self.choice
        row = choice.current() if choice.at else None
        choice.listed, choice.is_whole = listed, whole
        if whole:
            for path in self._analysed:  # what was said of its raw data
                choice.told.pop(path, None)
            self._analysed.clear()
        for entry in listed:
            if entry.writer is not None:
                estimate = worded(estimated(entry.writer, entry.bytes).said)
                said = say(entry.raw, estimate=estimate)
                choice.told[entry.path] = Verdict(entry.path, said)
        choice.stay_at(row)
        self._draw()
        if whole:
            self.examine()

    def examine(self) -> None:
        """Ask for the verdict of each profile that has none yet."""
        self._stop.clear()
        if self._analysed:
            self._look()
            return
        self._learn([entry for entry in self.choice.listed if entry.path not in self.choice.told])

    @work(thread=True, exclusive=True, group="learn")
    def _learn(self, listed: list[Nearby]) -> None:
        go_on: Callable[[], bool] = lambda: not self._stop.is_set()  # noqa: E731 - its type
        for told in verdicts(listed, self._cached, go_on):
            if not go_on():
                return
            self.call_later(self._show_verdict, told)
        if go_on():
            self.call_later(self._show_verdict, None)

    def _show_verdict(self, told: Verdict | None) -> None:
        """Show what a profile says; None once there is nothing more to learn."""
        if told is None:
            self.choice.is_examined = True
        else:
            row = self.choice.current()
            self.choice.told[told.path] = told
            self.choice.stay_at(row)
        self._draw()

    def pause(self) -> None:
        """Learn nothing more until ``examine``: something is opened, which needs the machine."""
        self._stop.set()

    # --- drawing

    def on_resize(self) -> None:
        """Draw the list for another size."""
        self._draw()

    def tell(self, words: str) -> None:
        """Show ``words`` in place of the keys."""
        self._words = words
        self._draw()

    def _draw(self) -> None:
        width, height = self.app.size.width - 2, self.app.size.height
        if width <= 0 or height <= 0:
            return
        shown = self.choice.shown()
        foot = foot_lines(self.choice, width, self._words or self._held)
        room = self._room(len(foot))
        self._first = max(0, min(max(self._first, self.choice.at - room + 1), self.choice.at, len(shown) - room))
        rows = shown[self._first : self._first + room]
        widths = columns(self.choice, shown, width)
        lines = [head_line(self.choice, width), Text(), title_line(widths)]
        lines += [
            row_line(self.choice, entry, widths, at == self.choice.at) for at, entry in enumerate(rows, self._first)
        ]
        if not shown and self.choice.is_whole:
            lines.append(Text(say("picker.nothing"), "dim"))
        lines += [Text()] * (height - len(lines) - len(foot))
        self._shown.update(Text("\n").join([*lines, *foot]))

    def _room(self, foot: int = 5) -> int:
        """How many rows fit."""
        return max(self.app.size.height - _HEAD - foot - 1, 1)

    # --- keys

    def on_key(self, event: events.Key) -> None:
        """A letter that is no command begins a filter; in one all are text, and Backspace takes back the last."""
        if event.key == "backspace":
            self._want(self.choice.wanted[:-1])
            event.stop()
            return
        if not self._typing and event.key in self._bound:
            return
        if event.is_printable and event.character and not event.character.isspace():
            self._type(event.character)
            event.stop()

    def on_paste(self, event: events.Paste) -> None:
        """Filter by what is pasted."""
        self._type(event.text.strip().partition("\n")[0])

    def _type(self, text: str) -> None:
        self._typing = True
        self._want(self.choice.wanted + text)

    def _want(self, text: str) -> None:
        row = self.choice.current()
        self.choice.wanted = text
        self._typing = bool(text) or self._typing
        self.choice.stay_at(row)
        self.tell("" if text or not self._typing else say("picker.type"))

    @property
    def _bound(self) -> frozenset[str]:
        """The keys of its commands, under every name that terminals deliver them."""
        return frozenset(binding.key for binding in list_bindings("picker"))

    def action_prefix(self, key: str) -> None:
        """Take the first key of a sequence; the second one runs its command."""
        if self._prefix == key:
            self.action_run(next(entry.id for entry in commands_of("picker") if f"{key} {key}" in entry.keys))
        else:
            self._prefix = key

    def action_run(self, command: str) -> None:
        """Run the command called ``command``."""
        self._prefix = ""
        BY_ID[command].acts["picker"](self)

    def find(self) -> None:
        """Begin a filter."""
        self._typing = True
        self.tell(say("picker.type"))

    def move(self, by: int) -> None:
        """Go ``by`` rows down."""
        self.choice.at = max(0, min(self.choice.at + by, len(self.choice.shown()) - 1))
        self.tell("")

    def page(self, by: int) -> None:
        """Go a page down or up."""
        self.move(by * self._room())

    def fold(self) -> None:
        """Show the ranks of a job, or hide them."""
        row = self.choice.current()
        if row is None:
            return
        job = row if row.ranks else next((entry for entry in self.choice.listed if row in entry.ranks), None)
        if job is not None:
            self.choice.turned ^= {job.path}
            self.choice.stay_at(job)
        self.tell("")

    def mark(self) -> None:
        """Mark this one or take its mark away, and go on."""
        row = self.choice.current()
        if row is None:
            return
        if row.alone:
            self.tell(say(row.alone))
            return
        self.choice.marked ^= {row.path}
        self.move(1)

    def open(self) -> None:
        """Open what is marked, or else this one; the ranks of raw data are analysed once the user agrees."""
        row = self.choice.current()
        wanted = [entry for entry in self.choice.listed if entry.path in self.choice.marked and not entry.alone]
        marked = [entry.path for entry in wanted]
        ranks = () if row is None or wanted or row.writer is None else row.ranks
        raws = [
            RawProfile(each.path.absolute(), each.writer)
            for each in wanted or ranks or filter(None, [row])
            if each.writer is not None
        ]
        if len(marked) > MOST_STACKED:
            self.tell(say("picker.too_many", count=len(marked), most=MOST_STACKED))
        elif ranks and self._words != (offer := _offer(ranks)):
            self.tell(offer)
        elif raws:
            self.tell("")
            self.app.analyse(raws, bool(ranks))
        elif marked:
            self.app.open_chosen(marked, False)
        elif row is not None:
            self.app.open_chosen([row.path], row.is_job)

    def on_click(self, event: events.Click) -> None:
        """Go to the row under the pointer; a double click opens it."""
        at = event.screen_y - _HEAD + self._first
        if 0 <= event.screen_y - _HEAD < self._room() and at < len(self.choice.shown()):
            self.choice.at = at
            self.tell("")
            if event.chain > 1:
                self.open()

    def on_mouse_scroll_down(self) -> None:
        """Three rows down."""
        self.move(3)

    def on_mouse_scroll_up(self) -> None:
        """Three rows up."""
        self.move(-3)

    def show_help(self) -> None:
        """Show all keys."""
        self.app.push_screen(HelpSheet("picker", {}))

    def leave_twice(self) -> None:
        """Leave if the user asks for that a second time, as on every screen without a panel."""
        if self._words == (again := say("leave.again")):
            self.app.leave()
        else:
            self.tell(again)

    def escape(self) -> None:
        """Take back the filter, then the marks; else leave."""
        if self._typing:
            self._typing = False
            self._want("")
        elif self.choice.marked:
            self.choice.marked.clear()
            self.tell("")
        else:
            self.app.leave()
