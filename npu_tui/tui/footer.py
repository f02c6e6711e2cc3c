"""The bottom line: what is selected, the keys that matter by where the focus is, what the last key did."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

from msgspec import Struct
from rich.text import Text
from textual.widgets import Static

from npu_tui.profile.profile import Profile
from npu_tui.strings import say
from npu_tui.subjects import SUBJECTS, subject
from npu_tui.trace.model import ASYNC_NPU, HOST_TO_DEVICE, Trace
from npu_tui.trace.text import brief, cell_count, duration_text, exact_text, printable, signed_text
from npu_tui.tui.commands import BY_ID, key_label, keys_label
from npu_tui.tui.session import Session
from npu_tui.tui.terminal.internals import after
from npu_tui.view.explorer import Explorer
from npu_tui.view.moves import links_of
from npu_tui.view.scene import Selected

_MESSAGE_SECONDS = 6.0

Place = str
"""One of ``FOOTERS``."""


class Hint(Struct, frozen=True):
    """One word and what to press for it: the first keys of ``commands``, or ``keys`` that belong to a table."""

    word: str
    commands: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()

    def labels(self) -> list[str]:
        """The keys as people write them; none where no command of the hint has a key."""
        own = [key_label(BY_ID[command].keys[0]) for command in self.commands if BY_ID[command].keys]
        return own + [key_label(key) for key in self.keys]


_QUIT = "quit"


_GAP = "   "
_ALWAYS = (Hint("help", ("help",)), Hint(_QUIT))
_ROWS: dict[Place, str] = {
    "lanes": "finding=finding_next starved=starved_next zoom=zoom_in,zoom_out pan=pan_left,pan_right panel=panel_grow "
    "row=row_up,row_down chain=chain slice=slice_previous,slice_next search=search fold=fold undo=undo home=home "
    "link=link_back,link_forward fit=fit range=range_mark lines=link_mode",
    "compared": "change=finding_next other=counterpart align=align_sides sides=sides zoom=zoom_in,zoom_out "
    "pan=pan_left,pan_right panel=panel_grow row=row_up,row_down steps=step_previous,step_next chain=chain "
    "slice=slice_previous,slice_next search=search fold=fold",
    "table": "go:enter tell:space lanes=escape row:up,down sort:left,right reverse=sort_reverse filter=filter "
    "copy=yank code=open_code",
    "text": "lanes=escape scroll:up,down zoom=zoom_in,zoom_out pan=pan_left,pan_right panel=panel_grow",
    "tables": "operators=tab_operators memory=tab_memory summary=tab_summary scroll:up,down",
    "job": "open=open finding=finding_next rank=row_up,row_down compare=align_sides "
    "collective=slice_previous,slice_next metric=link_mode axis=sides group=hits_only mark=mark "
    "column=pan_left,pan_right extremes=extremes panel=panel_grow",
    "job_table": "go:enter tell:space map=escape row:up,down sort:left,right reverse=sort_reverse filter=filter",
}
"""Each word with its commands after ``=``, or with the keys of a table after ``:``."""
_OF_LAUNCHES = "starved=starved_next"
FOOTERS = (*_ROWS, *SUBJECTS)
"""Where the focus may be: in the lanes of a subject, or elsewhere."""


def _hint(row: str) -> Hint:
    word, commands, names = row.partition("=")
    if commands:
        return Hint(word, tuple(names.split(",")))
    word, _, names = row.partition(":")
    return Hint(word, keys=tuple(names.split(",")))


@cache
def hints_of(place: Place) -> tuple[Hint, ...]:
    """What the bottom line names where the focus is, in the order of what a newcomer needs."""
    rows = _ROWS.get(place) or _ROWS["lanes"]
    if (hint := subject(place).hint if place in SUBJECTS else None) is not None:
        rows = rows.replace(_OF_LAUNCHES, "=".join(hint)).replace("chain=chain ", "")
    return (*_ALWAYS, *map(_hint, rows.split()))


def place_of_session(session: Session) -> Place:
    """The trace whose keys the line names in the lanes of ``session``: the first one, as others lie beside it."""
    return "compared" if session.picture is not None else session.scene.traces[0].nature.subject


def footer(place: Place, width: int, refused: Collection[str] = ()) -> Text:
    """The hints of ``place`` but of commands that are ``refused``, as many whole ones as ``width`` columns hold."""
    return _joined_hints(
        (hint for hint in hints_of(place) if not hint.commands or set(hint.commands) - set(refused)), width
    )


def led(leads: Iterable[str], width: int, place: Place = "lanes") -> Text:
    """How to get help and out, then the first of ``leads`` that fits into ``width`` columns, else the last one.

    What room is left is for the other hints of ``place``.
    """
    line = _joined_hints(_ALWAYS, width)
    gap = _GAP if line.plain else ""
    room, words = width - line.cell_len - len(gap), list(leads)
    line.append(gap + next((lead for lead in words if cell_count(lead) <= room), words[-1]), style="bold reverse")
    others = _joined_hints(hints_of(place)[len(_ALWAYS) :], width - line.cell_len - 2)
    return line.append("  ").append_text(others) if others.plain else line


def _joined_hints(hints: Iterable[Hint], width: int) -> Text:
    line = Text()
    for hint in hints:
        labels = _ways_out() if hint.word == _QUIT else hint.labels()
        if not labels:
            continue
        part = Text.assemble((" ".join(labels), "bold"), f" {say(f'footer.{hint.word}')}")
        gap = "  " if line.plain else ""
        if line.cell_len + len(gap) + part.cell_len > width:
            break
        line.append(gap)
        line.append_text(part)
    return line


def _ways_out() -> list[str]:
    """How to quit: typed after the key of the prompt, which everybody tries, else by key."""
    if BY_ID["command"].keys:
        return [f"{key_label(BY_ID['command'].keys[0])}q"]
    return [key_label(key) for key in BY_ID["quit"].keys[:1]] or ["Ctrl+C"]


_LEAST_BESIDE = 48  # columns that what is selected needs beside a message; one that has led there gives them up
_CLAUSE = re.compile(": |：")


def _nothing(_: int) -> str:
    return ""


class StatusLine(Static):
    """What is selected or the keys that matter; for a few seconds what the last key did comes first."""

    DEFAULT_CSS = """
    StatusLine {
        height: 1; dock: bottom; padding: 0 1; color: $text-muted; text-wrap: nowrap; text-overflow: ellipsis;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._turn = 0
        self._said = self._before = ""
        self._leads: list[str] = []
        self._held = ""
        self._naming: Callable[[int], str] = _nothing
        self._selected = ""
        self._place: Place = "lanes"
        self._refused: Collection[str] = ()

    def on_resize(self) -> None:
        """Show as many keys as fit."""
        self._show()

    def hold(self, words: str) -> None:
        """Show ``words`` where the keys stand, until there are none."""
        self._held = words
        self._show()

    def lead(self, leads: Iterable[str]) -> None:
        """Show the first of ``leads`` that fits among the keys."""
        self._leads = list(leads)
        self._show()

    def select(self, naming: Callable[[int], str]) -> None:
        """Show what is selected, which ``naming`` says in a number of columns, then keys as far as there is room.

        It says "" without a selection.
        """
        self._naming = naming
        selected = naming(self.content_size.width)
        if selected != self._selected:
            self._selected = selected
            self._show()

    def _show(self) -> None:
        width = self.content_size.width
        if self._said:
            line = Text(self._beside_selection(width) if self._moved else self._said, style="bold")
            room = width - line.cell_len - len(_GAP)
            if room >= _LEAST_BESIDE and self._selected:
                line.append(_GAP + self._naming(room), style="not bold")
        elif self._held:
            line = Text(printable(self._held))
        elif self._selected:
            line = Text(self._selected, style="bold")
            keys = footer(self._place, width - line.cell_len - len(_GAP), self._refused)
            if keys.plain:
                line.append(_GAP).append_text(keys)
        elif self._leads:
            line = led(self._leads, self.size.width, self._place)
        else:
            line = footer(self._place, self.size.width, self._refused)
        self.update(line, layout=False)

    @property
    def _moved(self) -> bool:
        """Whether what was said led to a slice, which is selected now."""
        return self._selected != self._before and say("list.selected") in self._selected

    def _beside_selection(self, width: int) -> str:
        """What is said, as far as the selection leaves room for it; a message of one clause is whole."""
        clause, room = _CLAUSE.split(self._said)[0], max(width - len(_GAP) - _LEAST_BESIDE, 1)
        return self._said if clause == self._said else brief(self._said if 2 * room >= width else clause, room)

    def show_place(self, place: Place) -> None:
        """Show the keys that count where the focus is now."""
        if place != self._place:
            self._place = place
            self._show()

    def refuse(self, commands: Collection[str]) -> None:
        """Name no key that leads only to ``commands``, which can do nothing as long as the screen shows this."""
        if commands != self._refused:
            self._refused = commands
            self._show()

    @property
    def is_speaking(self) -> bool:
        """Whether a message is shown."""
        return bool(self._said)

    def says(self, words: str) -> bool:
        """Whether that is the message that is shown."""
        return self._said == printable(words)

    def show_keys(self) -> None:
        """Show the keys, or what leads on if there is such, in place of a message."""
        self._said = ""
        self._show()

    def holds(self, words: str) -> bool:
        """Whether there is room for ``words``."""
        return cell_count(printable(words)) + 2 <= self.app.size.width

    def say(self, words: str) -> None:
        """Show ``words`` for a while."""
        self._turn += 1
        turn = self._turn
        self._said, self._before = printable(words), self._selected
        self._show()
        after(_MESSAGE_SECONDS, self, lambda: self._back(turn))

    def _back(self, turn: int) -> None:
        if turn == self._turn:
            self.show_keys()


_LEADS = ("finding_next", "starved_next")


class FirstRun:
    """What to press first, in place of the keys; ``seen`` is the file that remembers that it has done its work."""

    ENDS = (*_LEADS, "escape", "help")
    """The commands after which it is not needed any more."""

    def __init__(self, seen: Path) -> None:
        self._seen = seen
        self._line: StatusLine | None = None

    def show(self, line: StatusLine) -> None:
        """Put the line in place of the keys: it leads to the findings."""
        if not os.path.exists(self._seen):  # False where it may not be looked for
            self._line = line
            self.lead_to(0)

    def lead_to(self, starved: int) -> None:
        """Lead to so many launches that ``starved`` the device, to the findings where there are none."""
        if self._line is not None:
            lead = "starved" if starved else "finding"
            self._line.lead(say(f"first.{form}", count=starved) for form in (lead, f"{lead}.short"))

    def used(self, command: str) -> None:
        """Take the line away: ``command``, one of ``ENDS``, is what it leads to, or sends it away."""
        if self._line is None:
            return
        self._line.lead(())
        self._line = None
        if command in _LEADS:
            with suppress(OSError):
                self._seen.parent.mkdir(parents=True, exist_ok=True)
                self._seen.touch()


_LONGEST_OTHER = 32  # the name at the other end of a link
_SHORTEST_NAME = 24  # below this a name says too little: then what follows the times is left out


def selection_line(
    session: Session, explorer: Explorer, width: int, linked: bool, opened: bool, origin: int = -1
) -> str:
    """The selected slice, or the range without one, in at most ``width`` columns; "" without either.

    ``linked``: also the other end of its link, which takes a look at all links of the trace: among several the one from
    slice ``origin``. ``opened``: Details are on show, so their key is not named.
    """
    state, gap = explorer.state, say("list.selected")
    more = [] if opened else [say("selected.details", key=keys_label(BY_ID["tab_details"]))]
    if state.selection is None:
        if state.range is None or state.range[0] == state.range[1]:
            return ""
        start, end = state.range
        marked = say("range.marked", length=duration_text(end - start), start=exact_text(start), end=exact_text(end))
        whole = gap.join([marked, *more])
        return whole if cell_count(whole) <= width else marked
    if state.selection not in session.scene:
        return ""
    trace = session.scene.traces[state.selection.trace]
    start, end = session.scene.times(state.selection)
    times = [duration_text(end - start), say("selected.start", start=exact_text(start))]
    links = _other_end(session, state.selection, state.link_category, origin) if linked else []
    name = printable(trace.name_of(state.selection.item))
    for facts in ([*times, *links, *more], [*times, *links], [*times, *more], times):
        rest = gap + gap.join(facts)
        room = width - cell_count(rest)
        if cell_count(name) <= room or room >= _SHORTEST_NAME:
            break
    return brief(name, max(room, 1)) + rest


def _other_end(session: Session, selected: Selected, category: str, origin: int) -> list[str]:
    """What launched the slice, and when; else what it launches, else where another of its links leads.

    What has the same name is named after its lane: a request is queued, prefill and decode.
    """
    trace, item = session.scene.traces[selected.trace], selected.item
    ends, links, start = links_of(trace, item, category), trace.links, int(trace.slices.start[item])

    def name_of(other: int) -> str:
        same = trace.slices.name[other] == trace.slices.name[item]
        return brief(trace.lanes[trace.slices.lane[other]].name if same else trace.name_of(other), _LONGEST_OTHER)

    bound = [link for link in ends.into if links.source_slice[link] >= 0]
    into = min(bound, key=lambda link: links.source_slice[link] != origin, default=None)
    if into is not None:
        operation = _operation(session, selected) if session.profiles else -1
        name = name_of(operation if operation >= 0 else int(links.source_slice[into]))
        key = "selected.launched" if links.category[into] in _launching(trace) else "selected.from"
        before = start - int(links.source_time[into])
        if before < 0:  # the clocks of host and device differ
            key = "selected.launched_by"
        return [say(key, name=name, before=duration_text(before))]
    out = [link for link in ends.out if links.target_slice[link] >= 0]
    if not out:
        return []
    target = int(links.target_slice[out[0]])
    after = signed_text(int(trace.slices.start[target]) - start)
    name = name_of(target)
    if links.category[out[0]] in _launching(trace):
        key = "selected.to" if len(out) == 1 else "selected.to_several"
    else:
        key = "selected.leads" if len(out) == 1 else "selected.leads_several"
    return [say(key, name=name, after=after, others=len(out) - 1)]


def _launching(trace: Trace) -> list[int]:
    """The categories of links from a host slice to what it launched."""
    names = trace.link_categories
    return [at for at, name in enumerate(names) if name in (HOST_TO_DEVICE, ASYNC_NPU)]


def _operation(session: Session, selected: Selected) -> int:
    """The operation that launched a kernel, where the operations of the host are known already; else -1."""
    profile = session.profiles[selected.trace]
    if not Profile.host_operators.is_known(profile) or not profile.compute[selected.item]:
        return -1
    return profile.operation_of(selected.item)
