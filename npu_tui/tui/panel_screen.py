"""A screen of one drawing above a panel of tables, on which keys run the commands of the registry.

The lanes of a trace and the overview of a job are such screens.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Generic, Literal, TypeVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult

from npu_tui.load.errors import InputError
from npu_tui.output.svg import svg
from npu_tui.strings import say
from npu_tui.tui.commands import BY_ID, Where, commands_of, is_han
from npu_tui.tui.contents import record
from npu_tui.tui.exports import page_to, report_to, screen_runs
from npu_tui.tui.footer import FirstRun, Place, StatusLine
from npu_tui.tui.head import HeadLines
from npu_tui.tui.keymap import ASKING, elsewhere, screen_bindings
from npu_tui.tui.loading import Make
from npu_tui.tui.panel import Filtering, Panel, TabLine
from npu_tui.tui.prompt import Kind, Prompt, Wish
from npu_tui.tui.sheets import Focus, HelpSheet, Sheet
from npu_tui.tui.tabs.table import TabRow, TabTable, as_csv, as_text
from npu_tui.tui.terminal.internals import PlainApp, SeenScreen, bind
from npu_tui.tui.terminal.terminal import MOST_BYTES, cut
from npu_tui.tui.timeline import Drawing

if TYPE_CHECKING:
    from pathlib import Path

    from npu_tui.jobs.blame import BlamedCollective
    from npu_tui.load.load import Opening
    from npu_tui.output.statement import Statement
    from npu_tui.record.outputs import RawProfile
    from npu_tui.trace.model import Trace

Drawn = TypeVar("Drawn", bound=Drawing)

_FORMS: dict[str, Callable[[TabTable | None], list[str]]] = {"text": as_text, "csv": as_csv}


MOST_STACKED = 16
"""Timelines that are opened together at most."""


class Program(PlainApp[InputError | None], inherit_bindings=False):
    """The application, as its screens call it."""

    @abstractmethod
    def leave(self, return_code: int = 0) -> None:
        """End the program."""

    @abstractmethod
    def back(self) -> None:
        """Show again what the screen on top was opened from."""

    @abstractmethod
    def stop_loading(self) -> None:
        """Wait no longer for the rest of a trace."""

    @abstractmethod
    def look_as(self, theme: str) -> None:
        """Draw all screens in the colours of ``theme``."""

    @abstractmethod
    def speak_in(self, language: str) -> None:
        """Let all screens say what they show in ``language``."""

    @abstractmethod
    def record(self, folder: str = "") -> str:
        """Record the job that watches ``folder``; without one the job that was recorded last."""

    @abstractmethod
    def stop_work(self) -> None:
        """Stop the recording, or the analysis, that goes on beside the screen."""

    @abstractmethod
    def compare_with(self, path: str) -> None:
        """Compare what is on screen with the profile at ``path``."""

    @abstractmethod
    def enter(self, openings: list[Opening], make: Make) -> None:
        """Load ``openings`` and show the session that ``make`` makes of their profiles on top of the job."""

    @abstractmethod
    def end_job(self, error: InputError) -> None:
        """The job cannot be read."""

    @abstractmethod
    def show_ranks(self, ranks: list[int], follow: tuple[BlamedCollective, int] | None) -> None:
        """Show the timelines of ``ranks`` of the job, with what a late one did in a collective selected."""

    @abstractmethod
    def open_chosen(self, paths: list[Path], job: bool) -> None:
        """Show ``paths`` one below the other, or the ``job`` that is the only one."""

    @abstractmethod
    def analyse(self, raws: list[RawProfile], job: bool) -> None:
        """Analyse raw profiles, then open them one below the other; for a ``job`` the first one."""


class PanelScreen(SeenScreen[None], Generic[Drawn], inherit_bindings=False):
    """A ``drawing``, a ``panel`` of tabs, a prompt and a status line.

    ``footers`` are the keys that the status line names while the drawing, a table of the panel or a text there has the
    focus; ``focuses`` are those of the help.
    """

    DEFAULT_CSS = "PanelScreen.-page Drawing { display: none; }"
    where: ClassVar[Where]
    footers: tuple[Place, Place, Place]
    focuses: ClassVar[tuple[Focus, Focus, Focus]] = ("lanes", "table", "panel")
    head: HeadLines
    app: Program

    @property
    def is_settled(self) -> bool:
        """Whether all that the last key has changed is there."""
        return True

    def rest(self) -> None:
        """Let the panel follow the last key now, without waiting for another key."""

    def __init__(self, drawing: Drawn, panel: Panel) -> None:
        super().__init__()
        bind(self, screen_bindings(self.where))  # the user's keys are known only now
        self.drawing = drawing
        self.panel = panel
        self.prompt = Prompt(self.take_typed, self.take_wish, self.take_entered, self._take_back)
        self.filtering = Filtering(panel, self.prompt)
        self.first_run: FirstRun | None = None
        self._line = StatusLine()
        self._prefix = ""

    def compose(self) -> ComposeResult:
        """Lines above, drawing, panel; prompt and status line below."""
        yield from self.head.lines
        yield self.drawing
        yield self.panel
        yield self._line
        yield self.prompt

    # --- commands

    def run_command(self, command: str) -> None:
        """Run a command of the registry and show what it has to say; what began a sequence of keys is forgotten."""
        self._prefix = ""
        if self.first_run is not None and command in FirstRun.ENDS:
            self.first_run.used(command)
        words = BY_ID[command].acts[self.where](self)
        if words:
            self.tell(words)
        elif self._line.is_speaking:
            self._line.show_keys()
        self.drawing.changed()

    def tell(self, words: str) -> None:
        """Show ``words`` in the status line, if there are any."""
        if words:
            self._line.say(words)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:
        """In a prompt keys are text, and what belongs to the drawing alone needs its focus."""
        asked = self.prompt.is_open
        if action in ("lanes_prefix", "lanes_run"):
            return not asked and self.focused is self.drawing
        return not (asked and (action == "prefix" or (action == "run" and parameters[0] in ASKING)))

    def action_prefix(self, key: str) -> None:
        """Take the first key of a sequence; the second one runs its command."""
        if self._prefix == key:
            self.run_command(next(each.id for each in commands_of(self.where) if f"{key} {key}" in each.keys))
        else:
            self._prefix = key
            self.tell(elsewhere(key, self.where))

    # What bindings call, those that need the focus of the drawing by names of their own.
    action_run = action_lanes_run = run_command
    action_lanes_prefix = action_prefix

    def on_key(self, event: events.Key) -> None:
        """Say why keys do nothing: while an input method takes them, and where they belong to another screen."""
        self.tell(say("keys.input_method") if is_han(event.character) else elsewhere(event.key, self.where))

    @abstractmethod
    def why_not(self) -> Mapping[str, str]:
        """The commands that can do nothing just now, each with the reason in one line."""

    @abstractmethod
    def escape(self) -> str | None:
        """Close what is open, else take back what is chosen, else leave."""

    @property
    def trace(self) -> Trace | None:
        """The trace that the cursor is in, where the screen is one of traces."""
        return None

    def focus_panel(self) -> None:
        """Give the focus to the next part of the screen that takes it."""
        self.focus_next()

    def show_help(self) -> None:
        """Show all keys, and why some can do nothing just now."""
        self.app.push_screen(HelpSheet(self.focuses[self._focus_at()], self.why_not(), self.trace))

    @abstractmethod
    def say_again(self) -> None:
        """Say what is on screen again, in the language that is spoken now."""

    # --- drawing

    def on_screen_suspend(self) -> None:
        """Another screen draws over this one."""
        self.drawing.forget_shown()

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        """This screen is drawn again as a whole; its widgets got their styles when they came."""
        event.refresh_styles = False
        self.drawing.forget_shown()

    def hold(self, words: str) -> None:
        """Show ``words`` in place of the keys for as long as something goes on; nothing once it is done."""
        self._line.hold(words)

    # --- orders: a word and what it is about

    def orders(self) -> dict[str, Callable[[str], object]]:
        """What is done with what follows a word in the prompt."""
        return {
            "report": self.report_to,
            "screenshot": self.screenshot_to,
            "compare": lambda path: self.app.compare_with(path),
            "record": lambda folder: self.tell(self.app.record(folder)),
        }

    @abstractmethod
    def statement(self) -> Statement | None:
        """The report about what is on screen, None where there is none yet."""

    def report_to(self, name: str) -> None:
        """Write the report into the file ``name``, in the form that its ending names."""
        told = self.statement()
        if told is None:
            self.tell(say("loading.findings"))
            return
        self.tell(say("export.writing"))
        job = partial(report_to, name, lambda: told)
        self.run_worker(lambda: self.call_later(self.tell, job()), thread=True, group="export", description="export")

    def screenshot_to(self, name: str) -> None:
        """Write a picture of the screen, without the prompt, into the file ``name``."""
        terminal = self.drawing.terminal
        self.call_after_refresh(
            lambda: self.tell(page_to(name, ".svg", lambda: svg(screen_runs(self, terminal), "npu-tui")))
        )

    def redraw(self) -> None:
        """Draw everything again, whatever the terminal shows now."""
        self.drawing.forget_shown()
        self.refresh()

    @abstractmethod
    def show_head(self, anew: bool = True) -> None:
        """Fill the lines above the drawing; not ``anew`` only where they may say something else."""

    # --- prompt

    def take_entered(self, kind: Kind, text: str) -> None:
        """Do what was entered; the keys after it are for what it leads to."""
        self.set_focus(self.drawing)
        try:
            if kind == "filter":
                self.filtering.show(text)
                self.panel.table.focus()
            else:
                self.obey(kind, text)
        finally:
            self.prompt.is_answering = False

    @abstractmethod
    def obey(self, kind: Kind, text: str) -> None:
        """Do what was entered in a prompt of this ``kind``."""

    def take_typed(self, kind: Kind, text: str) -> None:
        """Filter while typing."""
        if kind == "filter":
            self.filtering.show(text)

    def take_wish(self, wish: Wish) -> None:
        """Show another candidate, or take over the one on show, where there are such."""

    def _take_back(self, kind: Kind) -> None:
        """Back to the drawing; a filter that was given up is what it was before."""
        if kind == "filter":
            self.filtering.give_up()
            self.panel.table.focus()
        else:
            self.set_focus(self.drawing)

    # --- panel

    @abstractmethod
    def fill(self) -> None:
        """Show in the panel what the open tab says now."""

    def hide_panel(self) -> None:
        """Hide the panel; the keys are for the drawing."""
        self.panel.hide()
        self.set_focus(self.drawing)
        self.show_head()
        self.fill()

    def close_panel(self) -> str | None:
        """Close the panel; where none is open, leave if the user asks for that a second time."""
        if self.panel.is_shown:
            self.hide_panel()
            return None
        if self._line.says(again := say("leave.again.panel")):
            self.app.leave()
            return None
        return again

    def grow_panel(self) -> str:
        """Let the panel have half of the screen, all of it, or what it has usually."""
        was_shown = self.panel.is_shown
        self.panel.grow()
        self.fill()
        if not was_shown or self.panel.growth == "full":
            self.panel.focus_content()
        if self.panel.growth != "full" and self.focused is None:
            self.set_focus(self.drawing)
        return say(f"panel.{self.panel.growth}")

    def press_tab(self, tab: str) -> str | None:
        """Open ``tab``; where it is open, give it the focus; where it has that, let it show the next thing it can."""
        if self.panel.is_open(tab) and not self.panel.has_focus_within:
            self.panel.focus_content()
            return None
        return self.open_tab(tab)

    @abstractmethod
    def open_tab(self, tab: str) -> str | None:
        """Open ``tab``, or where it is open let it show the next thing it can."""

    def on_tab_line_chosen(self, event: TabLine.Chosen) -> None:
        """Open the tab that was clicked."""
        self.press_tab(event.tab)

    def _focus_at(self) -> Literal[0, 1, 2]:
        """What has the focus: the drawing (0), the table of the panel (1), its text (2)."""
        if not self.panel.has_focus_within:
            return 0
        return 1 if self.panel.table.has_focus else 2

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Put the prompt away when something else takes the focus; name the keys of what has it."""
        above, inside = event.widget.ancestors, self.panel in event.widget.ancestors
        self._line.show_place(self.footers[0 if not inside else 1 if self.panel.table.has_focus else 2])
        # A prompt that was opened since then has the focus by now.
        if self.prompt.is_open and self.prompt not in above and event.widget is self.focused:
            self.prompt.close()

    # --- the table

    @abstractmethod
    def visit(self, row: TabRow) -> str:
        """Go to where ``row`` of the table leads; returns the message."""

    def on_data_table_row_selected(self) -> None:
        """Enter or a click on a row."""
        row = self.panel.row_at_cursor()
        if row is not None:
            self.tell(self.visit(row))
            self.drawing.changed()

    def action_tell_row(self) -> None:
        """Space: everything about the row."""
        row, content, panel = self.panel.row_at_cursor(), self.panel.content, self.panel
        if row is None or not isinstance(content, TabTable):
            return
        title = say("told.row", tab=say(f"tab.{panel.tab}"), number=panel.table.cursor_row + 1)
        self.app.push_screen(Sheet(title, Text(row.told() if row.told is not None else record(content, row))))

    def reverse_order(self) -> str | None:
        """Sort the table the other way round, by its first column where it is not sorted."""
        content, order = self.panel.content, self.panel.order
        if not isinstance(content, TabTable):
            return say("panel.no_table")
        self.panel.sort(order.by(content, 0 if order.column is None else order.column))
        return None

    def copy_table(self, form: Literal["text", "csv"]) -> str:
        """Copy the table of the open tab as it is shown."""
        content = self.panel.content
        lines = _FORMS[form](TabTable(content.headings, self.panel.rows) if isinstance(content, TabTable) else None)
        if not lines:
            return say("copy.none")
        text, kept = cut(lines)
        self.app.copy_to_clipboard(text)
        rows, count = f"{kept - 1:,}", f"{len(lines) - 1:,}"
        if kept < len(lines):
            return say("copy.part", rows=rows, count=count, size=MOST_BYTES // 1000)
        return say("copy.table", rows=rows)
