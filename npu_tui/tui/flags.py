"""Flags: places with a name, their file, and what the screen does with them."""

from __future__ import annotations

import re
from bisect import insort
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import ClassVar, Literal

from msgspec import Struct
from msgspec.structs import replace
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widgets import DataTable, Static

from npu_tui.strings import say
from npu_tui.trace.model import Trace
from npu_tui.trace.text import exact_text, parse_duration, printable
from npu_tui.tui.prompt import Prompt
from npu_tui.tui.sheets import Modal
from npu_tui.view.explorer import Explorer
from npu_tui.whole_file import alone, write_file

LONGEST_NAME = 256
"""As in MindStudio Insight."""

_SECTION = re.compile(r"\[(?P<identity>[^\]]*)\]")
_FLAG = re.compile(r"(?P<start>[-+.\w]{1,64}?)(?:\.\.(?P<end>[-+.\w]{1,64}))?(?:\s+(?P<name>.*))?")


class Flag(Struct, frozen=True, order=True):
    """A named time, or a range if ``end`` is later than ``start``; ns relative to the trace start."""

    start: int
    end: int
    name: str

    @property
    def when(self) -> str:
        """The time or range as it stands in the file."""
        first = exact_text(self.start).replace(" ", "")
        return first if self.end == self.start else f"{first}..{exact_text(self.end).replace(' ', '')}"

    def shifted(self, by: int) -> Flag:
        """The same flag ``by`` ns later."""
        return replace(self, start=self.start + by, end=self.end + by)


def identity_of(trace: Trace) -> str:
    """What identifies this trace, wherever its file lies."""
    return f"{trace.start_ns}-{trace.end}-{sum(trace.events.values())}"


def default_notes() -> Path:
    """The file of flags in the user's data directory."""
    from platformdirs import user_data_path

    return user_data_path("npu-tui", appauthor=False) / "flags.txt"


class Flags:
    """The flags of one trace, ascending by start; in ``path`` too unless that is None.

    A change reads the file again first, as other programs may write it; what is not a flag of this trace stays as it
    is. ``problem`` is one line if the file could not be read or written: the flags are then kept in memory only.
    """

    def __init__(self, trace: Trace, path: Path | None) -> None:
        self.all: list[Flag] = []
        self.problem = ""
        self._identity = identity_of(trace)
        self._title = _title(trace)
        self._path = path
        self._load()

    def keep_in(self, trace: Trace, path: Path | None) -> None:
        """From now on these are the flags of ``trace`` in ``path``; those that are here already are added to it."""
        before, self.problem = self.all, ""
        self._identity, self._title, self._path = identity_of(trace), _title(trace), path
        self._load()
        for flag in before:
            self.add(flag)

    def shift(self, by: int) -> None:
        """All flags are ``by`` ns later, as the trace begins earlier."""
        self.all = [flag.shifted(by) for flag in self.all]

    def add(self, flag: Flag) -> None:
        """Keep ``flag``."""
        self._change(None, replace(flag, name=printable(flag.name.strip())[:LONGEST_NAME]))

    def rename(self, flag: Flag, name: str) -> None:
        """Call ``flag`` something else."""
        self._change(flag, replace(flag, name=printable(name.strip())[:LONGEST_NAME]))

    def delete(self, flag: Flag) -> None:
        """Forget ``flag``."""
        self._change(flag, None)

    def at(self, low: int, high: int) -> Flag | None:
        """A flag that starts or ends in ``[low, high)`` ns."""
        return next((flag for flag in self.all if any(low <= time < high for time in (flag.start, flag.end))), None)

    def free_name(self, kind: str) -> str:
        """``kind`` with the first number that no flag has."""
        names = {flag.name for flag in self.all}
        return next(name for i in range(1, len(names) + 2) if (name := f"{kind}-{i}") not in names)

    def _change(self, old: Flag | None, new: Flag | None) -> None:
        with nullcontext() if self._path is None else alone(self._path):
            self._change_alone(old, new)

    def _change_alone(self, old: Flag | None, new: Flag | None) -> None:
        before, own, after = self._load()
        if old in self.all:
            self.all.remove(old)
        if new is not None and new not in self.all:
            insort(self.all, new)
        if self._path is None or self.problem:
            return
        remarks = [line for line in own if _flag(_decoded_line(line)) is None]
        lines = [f"{flag.when}  {flag.name}".rstrip().encode() for flag in self.all]
        if not before and not after:
            before = [say("flags.head").encode()]
        head = [] if own else [f"[{self._identity}] {self._title}".encode()]
        self._write([*before, *head, *remarks[:1], *lines, *remarks[1:], *after])

    def _write(self, lines: list[bytes]) -> None:
        assert self._path is not None
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_file(self._path, b"\n".join(lines) + b"\n")
        except OSError as error:
            self._refuse(error)

    def _load(self) -> tuple[list[bytes], list[bytes], list[bytes]]:
        """The lines before, of and after the section of this trace."""
        if self._path is None or self.problem:
            return [], [], []
        try:
            # What is no file holds no flags, and a FIFO would be waited for.
            content = self._path.read_bytes() if self._path.is_file() or not self._path.exists() else b""
            lines = content.removesuffix(b"\n").split(b"\n") if content else []
        except FileNotFoundError:
            lines = []
        except OSError as error:
            self._refuse(error)
            return [], [], []
        heads = [
            (i, match["identity"])
            for i, line in enumerate(lines)
            if (match := _SECTION.match(_decoded_line(line).strip()))
        ]
        first = next((i for i, identity in heads if identity == self._identity), len(lines))
        last = next((i for i, _ in heads if i > first), len(lines))
        self.all = sorted({flag for line in lines[first:last] if (flag := _flag(_decoded_line(line))) is not None})
        return lines[:first], lines[first:last], lines[last:]

    def _refuse(self, error: OSError) -> None:
        self.problem = say("flags.problem", path=printable(str(self._path)), why=error.strerror)


def _title(trace: Trace) -> str:
    return printable(str(Path(trace.path).absolute()))


def _decoded_line(line: bytes) -> str:
    """A line as it was typed: editors of a Chinese locale may write GBK."""
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("gb18030", "replace")


def _flag(line: str) -> Flag | None:
    match = _FLAG.fullmatch(line.strip())
    start = None if match is None else parse_duration(match["start"])
    if match is None or start is None:
        return None
    end = parse_duration(match["end"]) if match["end"] else start
    if end is None:
        return None
    return Flag(min(start, end), max(start, end), printable(match["name"] or "")[:LONGEST_NAME])


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
        """From now on mark the flags in ``explorer``, where times are ``shift`` ns greater."""
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

        Returns the message.
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
        """Keep, rename or delete the flag that was asked about; returns the message."""
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

    def list(self, then: Callable[[str], object]) -> str | None:
        """List the flags, and do what is chosen; ``then`` gets the message. Without flags says so."""

        def chosen(choice: FlagChoice | None) -> None:
            problem = self.mark()
            if choice is not None:
                act, flag = choice
                (self.go_to if act == "go" else self.edit)(flag)
            then(problem)

        if not self.flags.all:
            return say("flags.none")
        self._prompt.app.push_screen(FlagSheet(self.flags), chosen)
        return None


FlagChoice = tuple[Literal["go", "rename"], Flag]
"""What is to be done with a flag."""


class FlagSheet(Modal[FlagChoice | None]):
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
            self.dismiss(("go", self._flag))

    def action_rename(self) -> None:
        """Ask for another name."""
        if self._flag is not None:
            self.dismiss(("rename", self._flag))

    def action_delete(self) -> None:
        """Forget the flag."""
        if self._flag is not None:
            self._flags.delete(self._flag)
            self._fill()
            if not self._flags.all:
                self.dismiss(None)
