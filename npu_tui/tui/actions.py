"""What each command of the registry does, one method by the command's id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npu_tui.analysis.chain import chain_of
from npu_tui.strings import say
from npu_tui.trace.text import printable
from npu_tui.trace.units import duration_text, exact_text
from npu_tui.tui.editor import line_of, open_line
from npu_tui.tui.panel import Panel
from npu_tui.tui.tabs.tab import Table
from npu_tui.view.explorer import next_in_time
from npu_tui.view.follow import back, forward, link_span
from npu_tui.view.scene import Selected

if TYPE_CHECKING:
    from npu_tui.tui.main import MainScreen

_ZOOM = 1.25
_ZOOM_FAST = 4.0
_PAN = 0.1
_PAN_FAST = 0.5


class Actions:
    """The commands of ``screen``. A method returns what to tell the user, or None when the screen says it all."""

    def __init__(self, screen: MainScreen) -> None:
        self._screen = screen
        self._explorer = screen.explorer
        self._session = screen.session

    # --- time

    def zoom_in(self) -> None:
        self._explorer.zoom(_ZOOM)

    def zoom_out(self) -> None:
        self._explorer.zoom(1 / _ZOOM)

    def zoom_in_fast(self) -> None:
        self._explorer.zoom(_ZOOM_FAST)

    def zoom_out_fast(self) -> None:
        self._explorer.zoom(1 / _ZOOM_FAST)

    def pan_left(self) -> None:
        self._explorer.pan(-_PAN)

    def pan_right(self) -> None:
        self._explorer.pan(_PAN)

    def pan_left_fast(self) -> None:
        self._explorer.pan(-_PAN_FAST)

    def pan_right_fast(self) -> None:
        self._explorer.pan(_PAN_FAST)

    def cursor_left(self) -> None:
        self._explorer.move_cursor(-1)

    def cursor_right(self) -> None:
        self._explorer.move_cursor(1)

    def home(self) -> None:
        self._explorer.home()

    def fit(self) -> str | None:
        selected = self._explorer.state.selection
        ends = None if selected is None else link_span(self._session.scene.traces[selected.trace], selected.item)
        return None if self._explorer.fit(ends) else say("fit.none")

    def undo(self) -> str | None:
        return None if self._explorer.undo() else say("undo.none")

    def redo(self) -> str | None:
        return None if self._explorer.redo() else say("redo.none")

    # --- rows and slices

    def row_up(self) -> None:
        self._explorer.move_row(-1)

    def row_down(self) -> None:
        self._explorer.move_row(1)

    def layer_up(self) -> None:
        self._explorer.move_layer(-1)

    def layer_down(self) -> None:
        self._explorer.move_layer(1)

    def row_first(self) -> None:
        self._explorer.move_row(-len(self._explorer.rows))

    def row_last(self) -> None:
        self._explorer.move_row(len(self._explorer.rows))

    def fold(self) -> str | None:
        return None if self._explorer.toggle_fold() else say("fold.none")

    def slice_previous(self) -> str | None:
        return None if self._explorer.move_slice(-1) else say("slice.last")

    def slice_next(self) -> str | None:
        return None if self._explorer.move_slice(1) else say("slice.last")

    def finding_next(self) -> str:
        return self._screen.go_to_finding(1)

    def finding_previous(self) -> str:
        return self._screen.go_to_finding(-1)

    def starved_next(self) -> str:
        return self._starved(1)

    def starved_previous(self) -> str:
        return self._starved(-1)

    def _starved(self, direction: int) -> str:
        launches = self._session.starved
        if not launches:
            return say("starved.none")
        state = self._explorer.state
        # With nothing selected the first one in view is meant, wherever the cursor stands.
        here = state.cursor if state.selection is not None else state.viewport.start - 1
        at = next_in_time(self._session.starved_starts, here, direction)
        if at is None:
            at = 0 if direction > 0 else len(launches) - 1  # round the end
        launch = launches[at]
        self._explorer.select(Selected(launch.trace, launch.item))
        name = self._session.scene.traces[launch.trace].name_of(launch.item)
        return say("starved.of", n=at + 1, count=len(launches), name=name, lost=duration_text(launch.lost, 3))

    # --- links

    def link_forward(self) -> str | None:
        return self._follow(True)

    def link_back(self) -> str | None:
        return self._follow(False)

    def _follow(self, onward: bool) -> str | None:
        state = self._explorer.state
        missing = say("link.none" if onward else "link.none_back")
        if state.selection is None and not self._explorer.select_under_cursor():
            return missing
        selected = state.selection
        if selected is None:
            return missing
        trace = self._session.scene.traces[selected.trace]
        way = forward if onward else back
        item = way(trace, selected.item, state.link_category)
        if item is None:
            found = chain_of(trace, selected.item)
            item = None if found is None else found.beside(selected.item, 1 if onward else -1)
        if item is None:
            return missing
        self._explorer.select(Selected(selected.trace, item))
        return None

    def chain(self) -> str | None:
        selected = self._explorer.state.selection
        if selected is None:
            return say("fit.none")
        found = chain_of(self._session.scene.traces[selected.trace], selected.item)
        if found is None:
            return say("chain.none")
        self._explorer.select(Selected(selected.trace, found.kernel))
        self._explorer.show(found.start, found.end, 0.05)
        self._screen.open_tab("details")
        return None if found.holds(selected.item) else say("chain.first")

    def link_mode(self) -> str:
        return say(f"mode.{self._explorer.cycle_links()}")

    # --- range

    def range_selection(self) -> str | None:
        if not self._explorer.mark_selection():
            return say("fit.none")
        self._screen.open_tab("range", unfold=False)
        return None

    def range_clear(self) -> None:
        self._explorer.anchor = None
        self._explorer.state.range = None

    def range_mark(self) -> str | None:
        self._explorer.mark()
        if self._explorer.anchor is not None:
            return say("range.begun", start=exact_text(self._explorer.anchor))
        self._screen.open_tab("range", unfold=False)
        return None

    def range_zoom(self) -> str | None:
        return None if self._explorer.zoom_to_range() else say("range.zoom_none")

    # --- search

    def search(self) -> None:
        self._screen.ask("search")

    def hit_next(self) -> str:
        return self._hit(1)

    def hit_previous(self) -> str:
        return self._hit(-1)

    def _hit(self, direction: int) -> str:
        hits = self._screen.hits
        if not len(hits.starts):
            return say("hit.none")
        at = hits.next(self._explorer.state.selection, self._explorer.state.cursor, direction)
        found = hits.at(at)
        self._explorer.select(found)
        name = printable(self._session.scene.traces[found.trace].name_of(found.item))
        return say("hit.of", n=at + 1, count=len(hits.starts), name=name)

    # --- panel and program

    def panel(self) -> None:
        self._screen.toggle_panel()

    def sort_reverse(self) -> str | None:
        panel = self._screen.query_one(Panel)
        if not isinstance(panel.content, Table):
            return say("panel.no_table")
        order = panel.order
        panel.sort(order.by(panel.content, 0 if order.column is None else order.column))
        return None

    def filter(self) -> str | None:
        if not isinstance(self._screen.query_one(Panel).content, Table):
            return say("panel.no_table")
        self._screen.ask("filter")
        return None

    def open_code(self) -> str:
        panel = self._screen.query_one(Panel)
        row = panel.row_at_cursor()
        selected = self._explorer.state.selection
        code = row.code if row is not None and (panel.table.has_focus or selected is None) else None
        if code is None and selected is not None:
            code = line_of(self._session.scene.traces[selected.trace], selected.item)
        if code is None and row is not None:
            code = row.code
        if code is None:
            return say("code.none")
        words = open_line(self._screen.app, code)
        self._screen.on_screen_resume()
        return words

    def go(self) -> str | None:
        return None if self._explorer.select_under_cursor() else say("select.none")

    def escape(self) -> None:
        self._screen.escape()

    def focus_next(self) -> None:
        self._screen.focus_next()

    def command(self) -> None:
        self._screen.ask("command")

    def palette(self) -> None:
        self._screen.app.action_command_palette()

    def health(self) -> None:
        self._screen.show_health()

    def help(self) -> None:
        self._screen.show_help()

    def redraw(self) -> None:
        self._screen.redraw()

    def quit(self) -> None:
        self._screen.leave()
