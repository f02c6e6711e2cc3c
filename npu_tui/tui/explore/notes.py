"""The flags on the timeline, and what the prompt asks about them."""

from __future__ import annotations

from npu_tui.strings import say
from npu_tui.trace.text import printable
from npu_tui.tui.flags import Flag, Flags
from npu_tui.tui.widgets.prompt import Prompt
from npu_tui.view.walk.explorer import Explorer

_MARGIN = 0.05


class Notes:
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
