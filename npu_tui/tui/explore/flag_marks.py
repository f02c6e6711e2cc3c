"""The flags of a trace on its timeline: their marks, the list of them, and the prompt for their names."""

from __future__ import annotations

from typing import ClassVar, Literal, NamedTuple

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widgets import DataTable, Static

from npu_tui.strings import say
from npu_tui.trace.text import printable
from npu_tui.tui.flags import Flag, Flags
from npu_tui.tui.sheets.modal import Modal
from npu_tui.tui.widgets.prompt import Prompt
from npu_tui.view.explorer import Explorer

_MARGIN = 0.05


class FlagMarks:
    """The ``flags`` of a trace, marked in what ``explorer`` shows; ``prompt`` asks for their names."""

    def __init__(self, flags: Flags, explorer: Explorer, prompt: Prompt) -> None:
        self.flags = flags
        self._explorer = explorer
        self._prompt = prompt
        self._asked: tuple[Flag | None, Flag] | None = None

    @property
    def _offset(self) -> int:
        """Where the trace that the flags belong to lies on the scene's clock, ns."""
        return self._explorer.scene.offsets[0]

    def move_to(self, explorer: Explorer, shift: int) -> None:
        """From now on the flags are marked in ``explorer``, whose times are ``shift`` ns greater."""
        self._explorer = explorer
        self.flags.shift(shift)
        if self._asked is not None:
            old, flag = self._asked
            self._asked = None if old is None else old.shifted(shift), flag.shifted(shift)
        self.mark()

    def mark(self) -> str:
        """Have the flags marked by the next frame; returns where they cannot be kept."""
        times = {time + self._offset for flag in self.flags.all for time in (flag.start, flag.end)}
        self._explorer.state.flags = tuple(sorted(times))
        return self.flags.problem

    def go_to(self, flag: Flag) -> None:
        """Show a flag: its range, or its time."""
        seen = flag.shifted(self._offset)
        if seen.end > seen.start:
            self._explorer.set_range(seen.start, seen.end)
            self._explorer.show(seen.start, seen.end, _MARGIN)
        self._explorer.jump(seen.start)

    def point_at(self, start: int, end: int) -> str:
        """A click on the ruler at ``[start, end)`` ns: to the flag there or beside it, else the cursor goes there.

        Returns what to tell.
        """
        column = end - start
        low, high = start - self._offset, end - self._offset
        flag = self.flags.at(low, high) or self.flags.at(low - column, high + column)
        if flag is None:
            self._explorer.go_to(start + column // 2)
            return ""
        self.go_to(flag)
        return say("flag.here", name=flag.name, when=flag.when)

    def add_here(self) -> None:
        """A flag at the cursor is edited, else one is made of the range, the selection or the cursor, as in Insight."""
        state, scene = self._explorer.state, self._explorer.scene
        column = state.viewport.column(state.cursor)
        here = self.flags.at(state.viewport.edge(column) - self._offset, state.viewport.edge(column + 1) - self._offset)
        marked = None
        if state.range is not None:
            marked = Flag(*state.range, self.flags.free_name(say("flag.range"))).shifted(-self._offset)
        if here is not None and (marked is None or (marked.start, marked.end) == (here.start, here.end)):
            self.edit(here)
        elif marked is not None:
            self._ask_new(marked)
        elif state.selection is not None:
            name = printable(scene.traces[state.selection.trace].name_of(state.selection.item))
            self._ask_new(Flag(*scene.times(state.selection), name).shifted(-self._offset))
        else:
            flag = Flag(state.cursor, state.cursor, self.flags.free_name(say("flag.point")))
            self._ask_new(flag.shifted(-self._offset))

    def _ask_new(self, flag: Flag) -> None:
        self._asked = None, flag
        self._prompt.open("flag", flag.name, say("flag.new", when=flag.when))

    def edit(self, flag: Flag) -> None:
        """Ask for another name of a flag."""
        self._asked = flag, flag
        self._prompt.open("flag", flag.name, say("flag.edit"))

    def name(self, name: str) -> str:
        """Keep, rename or delete the flag that was asked about; returns what to tell."""
        if self._asked is None:
            return ""
        (old, flag), self._asked = self._asked, None
        name = printable(name.strip())
        if old is None:
            name = name or flag.name
            self.flags.add(Flag(flag.start, flag.end, name))
            words = say("flag.kept", name=name, when=flag.when)
        elif name:
            self.flags.rename(old, name)
            words = say("flag.renamed", name=name)
        else:
            self.flags.delete(old)
            words = say("flag.deleted", name=old.name)
        return self.mark() or words


class Choice(NamedTuple):
    """What is to be done with a flag."""

    act: Literal["go", "rename"]
    flag: Flag


class FlagSheet(Modal["Choice | None"]):
    """Lists the flags of ``flags``; dismissed with what is to be done, or None."""

    DEFAULT_CSS = """
    FlagSheet { align: center middle; }
    FlagSheet > Vertical {
        width: 80%; max-width: 110; height: auto; max-height: 90%;
        background: $surface; border: round $primary; padding: 0 2;
    }
    FlagSheet Static { height: auto; }
    FlagSheet DataTable { height: auto; max-height: 20; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,q", "dismiss", ""),
        ("r", "rename", ""),
        ("d,delete", "delete", ""),
    ]

    def __init__(self, flags: Flags) -> None:
        super().__init__()
        self._flags = flags

    def compose(self) -> ComposeResult:
        """Title, table, keys."""
        with Vertical():
            yield Static(Text(say("flags.title"), style="bold"))
            yield DataTable[Text](cursor_type="row")
            yield Static(Text(say("flags.keys"), style="dim"))

    def on_mount(self) -> None:
        """Fill the table."""
        table = self.query_one(DataTable)
        table.add_columns(say("flags.when"), say("flags.name"))
        self._fill()
        table.focus()

    def _fill(self) -> None:
        table = self.query_one(DataTable)
        at = table.cursor_row
        table.clear()
        for flag in self._flags.all:
            table.add_row(Text(flag.when), Text(flag.name))
        table.move_cursor(row=max(min(at, len(self._flags.all) - 1), 0))

    @property
    def _flag(self) -> Flag | None:
        at = self.query_one(DataTable).cursor_row
        return self._flags.all[at] if at < len(self._flags.all) else None

    def on_data_table_row_selected(self) -> None:
        """Go to the flag."""
        if self._flag is not None:
            self.dismiss(Choice("go", self._flag))

    def action_rename(self) -> None:
        """Ask for another name."""
        if self._flag is not None:
            self.dismiss(Choice("rename", self._flag))

    def action_delete(self) -> None:
        """Forget the flag."""
        if self._flag is not None:
            self._flags.delete(self._flag)
            self._fill()
            if not self._flags.all:
                self.dismiss(None)
