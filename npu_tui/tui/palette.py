"""The palette: every command by words that are like its name, and why a command is off."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Protocol, cast

from rich.cells import cell_len
from textual import on
from textual.await_complete import AwaitComplete
from textual.command import CommandInput, CommandList, DiscoveryHit, Hit, Hits, Provider
from textual.containers import Horizontal
from textual.content import Content
from textual.css.query import NoMatches
from textual.fuzzy import FuzzySearch
from textual.widget import Widget
from textual.widgets import Input, LoadingIndicator

from npu_tui.strings import say
from npu_tui.trace.text import printable, shortened
from npu_tui.tui.commands import Where, commands_of, keys_label
from npu_tui.tui.session import Session
from npu_tui.tui.terminal.internals import SteadyPalette
from npu_tui.view.explorer import Explorer

Entry = tuple[str, str, Callable[[], object]]
"""A name, what stands beside it, and what choosing it does."""


_EDGES = 7
"""What the edges of the palette and its scroll bar take."""

_LOOKED_AT = 400
"""Characters of a name that are compared with what is typed."""

_SEARCH = FuzzySearch()


def likeness(query: str, title: str) -> float:
    """How well ``title`` has the letters of ``query`` in their order, as Textual scores it; 0 where it does not.

    From each place of the first letter the others are taken where they come next. Textual tries all their
    combinations, and a name of few different letters has more of them than can ever be tried.
    """
    query, title = query.lower(), title[:_LOOKED_AT].lower()
    boost = 2.0 if query == title else 1.5 if query in title else 1.0
    best, start = 0.0, title.find(query[:1])
    while start >= 0:
        places = [start]
        for letter in query[1:]:
            at = title.find(letter, places[-1] + 1)
            if at < 0:
                return best
            places.append(at)
        best = max(best, boost * _SEARCH.score(title, places))
        start = title.find(query[:1], start + 1)
    return best


class Offering(Protocol):
    """A screen whose commands and places the palette offers."""

    where: Where

    def run_command(self, command: str) -> None:
        """Run the command called ``command``."""

    def why_not(self) -> Mapping[str, str]:
        """Why commands can do nothing just now."""

    def places(self) -> Iterable[Entry]:
        """Flags and lanes to go to."""


class CommandProvider(Provider):
    """Finds commands, flags and lanes by any part of their names."""

    async def search(self, query: str) -> Hits:
        """Commands and places that match ``query``."""
        for title, keys, run in (*self._commands(), *self._offering.places()):
            score = likeness(query, title)
            if score > 0:
                yield Hit(score, self._line(title, keys), run, text=title)

    async def discover(self) -> Hits:
        """All commands, before anything is typed."""
        for title, keys, run in self._commands():
            yield DiscoveryHit(self._line(title, keys), run, text=title)

    def _line(self, title: str, keys: str) -> Content:
        """A name, and on the right of the line what stands beside it."""
        room = self.app.size.width - _EDGES
        beside = shortened(printable(keys), max(room - cell_len(title) - 2, 8), ahead=True)
        gap = max(room - cell_len(title) - cell_len(beside), 2)
        return Content.assemble(title, " " * gap, (beside, "dim"))

    @property
    def _offering(self) -> Offering:
        return cast("Offering", self.screen)

    def _commands(self) -> Iterable[Entry]:
        reasons = self._offering.why_not()
        for command in commands_of(self._offering.where):
            if command.id != "palette":
                keys, reason = keys_label(command), reasons.get(command.id)
                words = f"{reason}   {keys}" if reason else keys
                yield command.title, words, partial(self._offering.run_command, command.id)


_LONGEST = 200
"""Characters that commands are looked for with; all of them are measured with every key."""


class Palette(SteadyPalette):
    """The list of all commands, flags and lanes; of keys that come in one burst the first Enter counts.

    The icon is left out, as it has no counterpart in plain glyphs and terminals differ about its width; the list wraps
    its words, which needs a cell of width; few rows are all for what is typed and found.
    """

    VERTICAL_BREAKPOINTS = [(0, "-few"), (12, "-enough")]  # noqa: RUF012 - as Textual declares it
    CSS = """
    Palette SearchIcon { display: none; }
    Palette CommandList { min-width: 10; }
    Palette.-few > Vertical { margin-top: 0; }
    Palette.-few #--input { border: none; }
    Palette.-few CommandInput { border: none; height: 1; }
    Palette.-few CommandList { border: none; }
    """

    def __init__(self) -> None:
        super().__init__()
        kinds = (CommandList, CommandInput, LoadingIndicator)
        self._stand_ins: dict[object, Widget] = {kind: kind() for kind in kinds} | {"#--input": Horizontal()}

    def on_mount(self) -> None:
        """Take no more than a line can have."""
        self.query_one(CommandInput).max_length = _LONGEST

    def dismiss(self, result: None = None) -> AwaitComplete:
        """Close, unless it is on its way out already."""
        return super().dismiss(result) if self.is_current else AwaitComplete()

    def query_one(self, selector: Any, expect_type: Any = None) -> Any:
        """As Textual has it, but that what was under way when its parts went finds others to work on in vain."""
        try:
            return super().query_one(selector, expect_type) if expect_type else super().query_one(selector)
        except NoMatches:
            if selector not in self._stand_ins:
                raise
            return self._stand_ins[selector]

    @on(Input.Submitted)
    def take_no_more(self, event: Input.Submitted) -> None:
        """Run nothing twice."""
        if not self.is_current:
            event.stop()
            event.prevent_default()


def why_not(session: Session, explorer: Explorer, hits: int, flags: int, has_table: bool) -> dict[str, str]:
    """The commands that can do nothing just now, each with the reason in one line.

    ``hits`` and ``flags`` are how many there are; ``has_table`` tells whether the open tab shows a table.
    """
    state, scene = explorer.state, session.scene
    starved = any(profile.starved for profile in session.profiles)
    checks = (
        (scene.pair is None, "compared.none", "align_sides counterpart sides tab_changes"),
        (session.job is None, "ranks.no_job", "ranks"),
        (len(scene.traces) < 2, "align.one_rank", "align_start align_end base"),
        (not scene.steps(), "step.none", "step_next step_previous"),
        (not starved, "starved.none" if session.whole else "loading.links", "starved_next starved_previous"),
        (
            not any(len(each) for profile in session.profiles for each in profile.idles),
            "bubble.none",
            "bubble_next bubble_previous",
        ),
        (not hits, "hit.none", "hit_next hit_previous hits_only"),
        (state.range is None, "range.zoom_none", "range_zoom range_clear"),
        (state.selection is None, "fit.none", "fit chain passes range_selection"),
        (not explorer.history.past, "undo.none", "undo"),
        (not explorer.history.future, "redo.none", "redo"),
        (not explorer.folds.hidden, "rows.shown_none", "show_hidden"),
        (not flags, "flags.none", "flags"),
        (not has_table, "panel.no_table", "sort_reverse filter copy_text copy_csv"),
    )
    return {command: say(reason) for off, reason, commands in checks if off for command in commands.split()}
