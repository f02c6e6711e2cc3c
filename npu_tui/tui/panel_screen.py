"""A screen with a panel: its tabs, its size, its table, and how it shares the height with the lanes."""

from __future__ import annotations

from abc import abstractmethod

from rich.text import Text
from textual import events
from textual.timer import Timer

from npu_tui.strings import say
from npu_tui.tui.compared.head import ComparedHead
from npu_tui.tui.explore.contents import Computed, Contents
from npu_tui.tui.explore.head import Head
from npu_tui.tui.explore.record import record
from npu_tui.tui.garbage import collect_at_rest
from npu_tui.tui.key_screen import KeyScreen
from npu_tui.tui.keys.footer import Place
from npu_tui.tui.sheets.sheet import Sheet
from npu_tui.tui.tabs.table.tab import Table
from npu_tui.tui.terminal.internals import after
from npu_tui.tui.widgets.filtering import Filtering
from npu_tui.tui.widgets.panel import Panel
from npu_tui.tui.widgets.prompt import Prompt
from npu_tui.tui.widgets.tab_line import TabLine
from npu_tui.tui.widgets.timeline import Timeline

_PANEL_SECONDS = 0.08
"""The panel follows the last key after this rest, as filling a table takes longer than a frame."""


class PanelScreen(KeyScreen[Timeline]):
    """The lanes of ``timeline`` below a head, and a panel of ``contents``."""

    DEFAULT_CSS = "PanelScreen.-page Timeline { display: none; }"
    contents: Contents

    def __init__(self, timeline: Timeline, prompt: Prompt) -> None:
        super().__init__(timeline, prompt)
        self.head: Head | ComparedHead = Head()
        self._panel = Panel()
        self._panel_timer: Timer | None = None
        self._filtering = Filtering(self._panel, prompt)
        self._lanes_place: Place = "lanes"

    @property
    def timeline(self) -> Timeline:
        """The lanes."""
        return self._timeline

    @abstractmethod
    def _show_head(self) -> None:
        """Fill what stands above the lanes."""

    # --- size

    def _toggle_panel(self) -> None:
        """Show or hide the panel."""
        self._panel.toggle()
        if not self._panel.is_shown:
            self.set_focus(self._timeline)
        self._show_head()
        self.contents.fill()

    def _grow_panel(self) -> str:
        """Let the panel have half of the screen, all of it, or what it has usually."""
        was_shown = self._panel.is_shown
        self._panel.grow()
        self.contents.fill()
        if not was_shown or self._panel.growth == "full":
            self._panel.focus_content()
        if self._panel.growth != "full" and self.focused is None:
            self.set_focus(self._timeline)
        return say(f"panel.{self._panel.growth}")

    def on_tab_line_dragged(self, event: TabLine.Dragged) -> None:
        """The panel begins where its line of tabs was dragged to."""
        self._panel.drag(self.app.size.height - 1 - event.y)

    def on_panel_fitted(self) -> None:
        """The head stands over lanes of another height now."""
        self._show_head()

    def on_timeline_fitted(self) -> None:
        """What the lanes leave blank is another now."""
        self._share_blank()

    def _share_blank(self) -> None:
        """The panel takes the rows that the lanes leave blank."""
        panel, timeline = self._panel, self._timeline
        if not panel.is_shown or panel.growth != "normal" or not timeline.size.height:
            return
        taken = panel.size.height - panel.usual
        # The lanes keep a row even where none is shown, so what is left of it is not blank.
        blank = self._timeline.explorer.list.height + taken - max(len(self._timeline.explorer.rows), 1)
        panel.take_blank(max(blank, 0))

    # --- tabs

    def _press_tab(self, tab: str) -> str | None:
        """Open ``tab``; where it is open, give it the focus; where it has that, let it show the next thing it can."""
        if self._panel.is_open(tab) and not self._panel.has_focus_within:
            self._panel.focus_content()
            return None
        return self.contents.press_tab(tab)

    def _press_view(self, view: str) -> None:
        """Show ``view`` of the tab of code lines; where it is on show, give it the focus."""
        if self._panel.is_open("lines") and self.contents.view == view:
            self._panel.focus_content()
        else:
            self.contents.open_view(view)

    def on_tab_line_chosen(self, event: TabLine.Chosen) -> None:
        """Open the tab that was clicked."""
        self._press_tab(event.tab)

    def on_computed(self, event: Computed) -> None:
        """Show what a thread has made for the panel."""
        self.contents.take(event)

    def on_timeline_moved(self) -> None:
        """Fill the panel again after a rest."""
        if self._panel_timer is None:
            self._panel_timer = after(_PANEL_SECONDS, self, self._rested)
        else:
            self._panel_timer.reset()

    def _rested(self) -> None:
        self._panel_timer = None
        self._show_head()
        self.contents.fill()
        self._share_blank()
        collect_at_rest()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Put the prompt away when something else takes the focus; name the keys of what has it."""
        above, inside = event.widget.ancestors, self._panel in event.widget.ancestors
        self._line.show_place(self._lanes_place if not inside else "table" if self._panel.table.has_focus else "text")
        # A prompt that was opened since then has the focus by now.
        if self._prompt.is_open and self._prompt not in above and event.widget is self.focused:
            self._prompt.close()

    # --- the table

    def on_data_table_row_selected(self) -> None:
        """Enter or a click on a row: go there, and again to its next place."""
        row = self._panel.row_at_cursor()
        if row is not None:
            if self._panel.is_full and row.places and self._timeline.explorer.rows:
                self._panel.grow("normal")
            self.tell(self.contents.visit(row))
            self._timeline.changed()

    def on_rows_asked(self) -> None:
        """Space: the whole record of the row."""
        row, content, panel = self._panel.row_at_cursor(), self._panel.content, self._panel
        if row is None or not isinstance(content, Table):
            return
        title = say("told.row", tab=say(f"tab.{panel.tab}"), number=panel.table.cursor_row + 1)
        self.app.push_screen(Sheet(title, Text(row.told() if row.told is not None else record(content, row))))

    def on_prompt_closed(self) -> None:
        """Back to the lanes; a filter that was given up is what it was before."""
        if self._prompt.kind == "filter":
            self._filtering.give_up()
            self._panel.table.focus()
        else:
            super().on_prompt_closed()
