"""The main screen: headline, timeline, panel, status line, and the keys that drive them."""

from __future__ import annotations

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.timer import Timer

from npu_tui.analysis.ranges import range_sums
from npu_tui.report.health import health_lines
from npu_tui.strings import say
from npu_tui.trace.text import printable
from npu_tui.trace.units import duration_text, exact_text, parse_duration
from npu_tui.tui.actions import Actions
from npu_tui.tui.commands import BY_ID, COMMANDS, delivered
from npu_tui.tui.details import details, legend
from npu_tui.tui.header import Headline, StatusLine
from npu_tui.tui.help import help_text
from npu_tui.tui.hits import Hits, search
from npu_tui.tui.links import Way, link_columns, link_rows, ways_of
from npu_tui.tui.palette import CommandProvider
from npu_tui.tui.panel import Panel, Rows, Tab, TabLine
from npu_tui.tui.prompt import Kind, Prompt
from npu_tui.tui.session import Session
from npu_tui.tui.sheet import Sheet
from npu_tui.tui.timeline import Timeline
from npu_tui.view.explorer import Explorer
from npu_tui.view.frame import Painter
from npu_tui.view.scene import Selected

_PANEL_SECONDS = 0.08
"""The panel follows the last key after this rest, as filling a table takes longer than a frame."""

_ASKING = ("search", "command")
_SHOWN_ROWS = 500
_PANEL_HEIGHTS = ((45, 10), (36, 8))
_PANEL_FROM = 36
_PANEL_SMALL = 8


def _bindings() -> list[BindingType]:
    """One binding per key of the registry; the first key of a sequence waits for the second."""
    bindings: list[BindingType] = []
    for command in COMMANDS:
        for key in command.keys:
            first, _, second = key.partition(" ")
            action = f"prefix('{first}')" if second else f"run('{command.id}')"
            # What is typed at once behind the key belongs to the prompt already, so this key goes first.
            urgent = command.id in _ASKING
            bindings += [
                Binding(name, action, command.title, show=False, priority=urgent, id=f"{command.id}:{name}")
                for name in delivered(first)
            ]
    return bindings


class MainScreen(Screen[None], inherit_bindings=False):
    """Explores one session."""

    BINDINGS = _bindings()
    COMMANDS = {CommandProvider}  # noqa: RUF012 - Textual's own declaration

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.explorer = Explorer(session.scene, 80, 20)
        self.hits: Hits = search([], "")
        self._actions = Actions(self)
        self._prefix = ""
        self._panel_timer: Timer | None = None
        self._panel_wanted: bool | None = None
        self._targets: list[Selected | None] = []
        self._ways: list[Way] = []
        self._filled: tuple[object, ...] | None = None

    def compose(self) -> ComposeResult:
        """Headline, timeline, panel; prompt and status line below."""
        yield Headline()
        yield Timeline(self.explorer, Painter(self.session.scene))
        yield Panel()
        yield StatusLine()
        yield Prompt()

    def on_mount(self) -> None:
        """Focus the lanes, and say what is wrong with the trace."""
        self.query_one(Timeline).focus()
        self._fill_panel()
        for trace in self.session.scene.traces:
            if trace.health.truncated:
                self.tell(say("health.truncated", events=sum(trace.events.values())))

    def on_screen_suspend(self) -> None:
        """Another screen draws over this one."""
        self.query_one(Timeline).forget_shown()

    def on_screen_resume(self) -> None:
        """This screen is drawn again as a whole."""
        self.query_one(Timeline).forget_shown()

    def on_resize(self) -> None:
        """Headline and panel follow the size of the terminal."""
        self.query_one(Headline).show(self.session, 0, self.size.width)
        height = next((rows for least, rows in _PANEL_HEIGHTS if self.size.height >= least), _PANEL_SMALL)
        panel = self.query_one(Panel)
        panel.styles.height = min(height, max(self.size.height // 2, 3))
        shown = self.size.height >= _PANEL_FROM if self._panel_wanted is None else self._panel_wanted
        panel.set_class(not shown, "-hidden")

    # --- commands

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:
        """In a prompt the keys that open prompts are text."""
        return not (action == "run" and parameters[0] in _ASKING and self.query_one(Prompt).is_open)

    def action_prefix(self, key: str) -> None:
        """Take the first key of a sequence; the second one runs its command."""
        if self._prefix == key:
            command = next(command for command in COMMANDS if f"{key} {key}" in command.keys)
            self.run_command(command.id)
        else:
            self._prefix = key

    def action_run(self, command: str) -> None:
        """Run the command called ``command`` (a binding's action)."""
        self.run_command(command)

    def run_command(self, command: str) -> None:
        """Run a command of the registry and show what it has to say."""
        self._prefix = ""
        words = getattr(self._actions, command)()
        if words:
            self.tell(words)
        else:
            self.query_one(StatusLine).show_keys()
        self.query_one(Timeline).changed()

    def tell(self, words: str) -> None:
        """Show ``words`` in the status line."""
        self.query_one(StatusLine).say(words)

    def escape(self) -> None:
        """Close what is open, else clear, else deselect; from the panel back to the lanes."""
        timeline = self.query_one(Timeline)
        if self.focused is not timeline:
            timeline.focus()
        elif self.explorer.deselect() and not len(self.explorer.state.hits):
            self.hits = search([], "")

    def show_help(self) -> None:
        """Show all keys."""
        self.app.push_screen(Sheet(say("help.title"), help_text()))

    def show_health(self) -> None:
        """Show what of the traces could not be placed."""
        lines = [line for trace in self.session.scene.traces for line in health_lines(trace)]
        self.app.push_screen(Sheet(say("health.title"), Text("\n".join(lines))))

    # --- prompt

    def ask(self, kind: Kind) -> None:
        """Open the prompt for a search or a command."""
        suggestions = []
        if kind == "command":
            suggestions = [command.title for command in COMMANDS] + [name for name, _ in self.lane_names()]
        self.query_one(Prompt).open(kind, suggestions)

    def on_prompt_typed(self, event: Prompt.Typed) -> None:
        """Count the hits while typing."""
        if event.kind == "search":
            self._search(event.text)
            count = say("search.title", count=f"{len(self.hits.starts):,}", text=event.text) if event.text else ""
            self.query_one(Prompt).answer(count)

    def on_prompt_entered(self, event: Prompt.Entered) -> None:
        """Go to the first hit, or do what was asked."""
        self.set_focus(self.query_one(Timeline))
        if event.kind == "command":
            self._obey(event.text.strip())
            return
        self._search(event.text)
        if len(self.hits.starts):
            self.run_command("hit_next")
            self.open_tab("search", unfold=False)
        elif event.text:
            self.tell(say("search.nothing", text=event.text))

    def on_prompt_closed(self) -> None:
        """Back to the lanes."""
        self.set_focus(self.query_one(Timeline))

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Put the prompt away when something else takes the focus."""
        prompt = self.query_one(Prompt)
        if prompt.is_open and prompt not in event.widget.ancestors:
            prompt.close()

    def _search(self, text: str) -> None:
        self.hits = search(self.session.scene.traces, text)
        self.explorer.state.hits = self.hits.starts
        self.explorer.state.hit_names = self.hits.names if text else []
        self.query_one(Timeline).changed()

    def _obey(self, text: str) -> None:
        """Run a command, go to a time, or go to a lane."""
        lowered = text.lower()
        if lowered in ("q", "quit"):
            self.app.exit()
            return
        when = parse_duration(text)
        found = BY_ID.get(lowered.replace(" ", "_")) or next(
            (command for command in COMMANDS if command.title.lower() == lowered), None
        )
        lane = next((row for name, row in self.lane_names() if lowered and lowered in name.lower()), None)
        if found is not None:
            self.run_command(found.id)
        elif when is not None:
            self.explorer.go_to(when)
        elif lane is not None:
            self.go_to_lane(lane)
        elif text:
            self.tell(say("command.unknown", text=text))
        self.query_one(Timeline).changed()

    def lane_names(self) -> list[tuple[str, tuple[int, int]]]:
        """Names of all lanes, folded away or not, each with (trace, lane)."""
        return [
            (printable(f"{trace.layers[lane.layer].name} / {lane.name}"), (index, lane.index))
            for index, trace in enumerate(self.session.scene.traces)
            for lane in trace.lanes
        ]

    def go_to_lane(self, place: tuple[int, int]) -> None:
        """Open what hides the (trace, lane) of ``place`` and move the cursor to it."""
        self.explorer.go_to_lane(*place)
        self.query_one(Timeline).changed()

    # --- panel

    def toggle_panel(self) -> None:
        """Show or hide the panel."""
        panel = self.query_one(Panel)
        self._panel_wanted = panel.has_class("-hidden")
        panel.set_class(not self._panel_wanted, "-hidden")
        if not self._panel_wanted:
            self.query_one(Timeline).focus()
        self._fill_panel()

    def open_tab(self, tab: Tab, unfold: bool = True) -> None:
        """Show ``tab``; with ``unfold`` also the panel, where it is hidden."""
        panel = self.query_one(Panel)
        if unfold and panel.has_class("-hidden"):
            self._panel_wanted = True
            panel.remove_class("-hidden")
        panel.tab = tab
        self._fill_panel()

    def on_tab_line_chosen(self, event: TabLine.Chosen) -> None:
        """Open the tab that was clicked."""
        self.open_tab(event.tab)

    def on_timeline_moved(self) -> None:
        """Fill the panel again after a rest."""
        if self._panel_timer is None:
            self._panel_timer = self.set_timer(_PANEL_SECONDS, self._fill_panel)
        else:
            self._panel_timer.reset()

    def _fill_panel(self) -> None:
        self._panel_timer = None
        panel, state, focused = self.query_one(Panel), self.explorer.state, self.explorer.focused
        if panel.has_class("-hidden"):
            self._filled = None
            return
        layer = (focused.trace, focused.layer) if focused is not None and panel.tab == "range" else None
        wanted = (panel.tab, state.selection, state.range, self.hits, layer)
        if wanted == self._filled:
            return
        self._filled = wanted
        self._ways = [] if state.selection is None else self._ways_of(state.selection)
        panel.counts = {"search": len(self.hits.starts), "links": len(self._ways)}
        fill = {
            "details": self._fill_details,
            "links": self._fill_links,
            "range": self._fill_range,
            "search": self._fill_search,
        }
        fill[panel.tab](panel)

    def _fill_details(self, panel: Panel) -> None:
        selected = self.explorer.state.selection
        if selected is None:
            panel.show_text("details", legend())
        else:
            scene = self.session.scene
            trace, marks = scene.traces[selected.trace], scene.marks[selected.trace]
            panel.show_text("details", details(trace, marks, selected.item))

    def _fill_links(self, panel: Panel) -> None:
        selected = self.explorer.state.selection
        if selected is None:
            panel.show_text("links", say("details.none"))
            return
        trace, marks = self.session.scene.traces[selected.trace], self.session.scene.marks[selected.trace]
        rows = link_rows(trace, marks, self._ways[:_SHOWN_ROWS])
        if not rows:
            panel.show_text("links", say("links.none"))
            return
        self._targets = [Selected(selected.trace, row.item) if row.item >= 0 else None for row in rows]
        panel.show_table("links", "", link_columns(), [row.cells for row in rows])

    def _ways_of(self, selected: Selected) -> list[Way]:
        return ways_of(self.session.scene.traces[selected.trace], selected.item, self.explorer.state.link_category)

    def _fill_range(self, panel: Panel) -> None:
        marked = self.explorer.state.range
        if marked is None or marked[0] == marked[1]:
            panel.show_text("range", say("range.none"))
            return
        start, end = marked
        rows, self._targets, count = [], [], 0
        for index, trace in enumerate(self.session.scene.traces):
            sums = range_sums(trace, start, end)
            focused = self.explorer.focused
            sums.sort(key=lambda row: focused is None or (index, row.layer) != (focused.trace, focused.layer))
            for row in sums:
                count += row.count
                name = printable(trace.names[row.name])
                busy, share = duration_text(row.busy), f"{row.busy / (end - start):.1%}"
                layer = printable(trace.layers[row.layer].name)
                rows.append((busy, share, f"{row.count:,}", duration_text(row.total), layer, name))
                self._targets.append(Selected(index, row.longest))
        note = say(
            "range.title",
            start=exact_text(start),
            end=exact_text(end),
            length=duration_text(end - start),
            count=f"{count:,}",
            names=len(rows),
        )
        headings = tuple(say(f"range.{key}") for key in ("busy", "share", "count", "sum", "layer", "name"))
        panel.show_table("range", note, headings, list(rows))

    def _fill_search(self, panel: Panel) -> None:
        hits = self.hits
        if not len(hits.starts):
            panel.show_text("search", say("search.none"))
            return
        rows, self._targets = [], []
        for index in range(min(len(hits.starts), _SHOWN_ROWS)):
            found = hits.at(index)
            trace = self.session.scene.traces[found.trace]
            lane = trace.lanes[int(trace.slices.lane[found.item])]
            start, end = int(trace.slices.start[found.item]), int(trace.slices.end[found.item])
            where = printable(f"{trace.layers[lane.layer].name} / {lane.name}")
            rows.append((exact_text(start), duration_text(end - start), where, printable(trace.name_of(found.item))))
            self._targets.append(found)
        count = f"{len(hits.starts):,}"
        note = say("search.title", count=count, text=hits.text)
        if len(rows) < len(hits.starts):
            note = say("search.more", count=count, shown=len(rows))
        headings = tuple(say(f"search.{key}") for key in ("start", "duration", "lane", "name"))
        at = hits.index(self.explorer.state.selection)
        panel.show_table("search", note, headings, list(rows), at if at is not None and at < len(rows) else None)

    def on_data_table_row_selected(self, event: Rows.RowSelected) -> None:
        """Enter or a click on a row: go there."""
        target = self._targets[event.cursor_row] if event.cursor_row < len(self._targets) else None
        if target is not None:
            self.explorer.select(target)
            self.query_one(Timeline).changed()
