"""The list of flags over the main screen."""

from __future__ import annotations

from typing import ClassVar, Literal, NamedTuple

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widgets import DataTable, Static

from npu_tui.strings import say
from npu_tui.tui.flags import Flag, Flags
from npu_tui.tui.sheets.modal import Modal


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
