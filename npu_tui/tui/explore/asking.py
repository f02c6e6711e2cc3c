"""What the main screen does with its prompt: searches, commands and names of flags."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from npu_tui.strings import say
from npu_tui.trace.text import brief, printable
from npu_tui.trace.units import exact_text, parse_duration
from npu_tui.tui.explore.completion import Candidate, best, nearest_command
from npu_tui.tui.explore.flags import Flag
from npu_tui.tui.keys.commands import BY_ID, COMMANDS
from npu_tui.tui.widgets.prompt import Prompt
from npu_tui.tui.widgets.timeline import Timeline
from npu_tui.view.walk.start import find_slice

if TYPE_CHECKING:
    from npu_tui.tui.explore.screen import MainScreen

_QUIT = ("q", "q!", "qa", "wq", "quit", "exit")
"""What people type to leave a program."""


class Asking:
    """One per main screen."""

    def __init__(self, screen: MainScreen) -> None:
        self._screen = screen
        self._flag: tuple[Flag | None, Flag] | None = None
        self._found: list[Candidate] = []
        self._at = 0
        self._typed = ""
        self._names: list[str] = []

    def renew(self, shift: int) -> None:
        """Forget what was found in a session whose times are ``shift`` ns smaller than those of the one on screen."""
        self._found, self._at, self._typed, self._names = [], 0, "", []
        if self._flag is not None:
            old, flag = self._flag
            self._flag = None if old is None else old.shifted(shift), flag.shifted(shift)

    @property
    def _prompt(self) -> Prompt:
        return self._screen.query_one(Prompt)

    def search(self) -> None:
        """Open the prompt for a search."""
        self._prompt.open("search", hint=say("search.hint"))

    def filter(self) -> None:
        """Open the prompt for what the rows of the table must contain."""
        self._prompt.open("filter")

    # --- commands, times, lanes and names

    def command(self) -> None:
        """Open the prompt for a command."""
        self._found, self._at, self._typed = [], 0, ""
        self._prompt.open("command", hint=say("ask.hint"))

    def complete(self, text: str) -> None:
        """Show what ``text`` may mean."""
        if text == self._typed:
            return
        sure, guesses = self.candidates(text.strip())
        # A guess is run only once it is chosen.
        self._found, self._at, self._typed = sure + guesses, 0 if sure else -1, text
        self._show()

    def choose(self, direction: int) -> None:
        """Go to the next or previous candidate."""
        self.complete(self._prompt.text)  # it may have been chosen faster than it was completed
        if self._found:
            self._at = (max(self._at, -1 if direction > 0 else 0) + direction) % len(self._found)
            self._show()

    def taken(self) -> str | None:
        """The text of the candidate on show."""
        self.complete(self._prompt.text)
        return self._found[max(self._at, 0)].text if self._found else None

    def obey(self, text: str) -> None:
        """Do what the chosen candidate says; where none is, say which command is called most like ``text``."""
        self.complete(text)  # it may have been entered faster than it was completed
        if self._found and self._at >= 0:
            self._found[self._at].run()
        elif typed := text.strip():
            near = nearest_command(typed, BY_ID)
            hint = say("command.nearest", command=near) if near else ""
            self._screen.tell(say("command.unknown", text=brief(typed, 40)) + hint)
        self._screen.query_one(Timeline).changed()

    def _show(self) -> None:
        if not self._found:
            self._prompt.answer(say("ask.nothing") if self._prompt.text.strip() else say("ask.hint"))
            return
        found = self._found[max(self._at, 0)]
        kind, text, count = say(f"kind.{found.kind}"), brief(found.text, 60), len(self._found)
        if self._at < 0:
            words = say("ask.guess", kind=kind, text=f":{found.also[0]}" if found.also else text)
        elif count == 1:
            words = say("ask.found", kind=kind, text=text)
        else:
            words = say("ask.found_of", kind=kind, text=text, n=self._at + 1, count=count)
        self._prompt.answer(words)

    def candidates(self, text: str) -> tuple[list[Candidate], list[Candidate]]:
        """Everything that ``text`` may mean, and what it may have been meant to mean; each best first."""
        screen, lowered = self._screen, text.lower()
        if not text:
            return [], []
        if lowered in _QUIT:
            return [Candidate("command", "quit", partial(screen.run_command, "quit"))], []
        when = parse_duration(text)
        if when is not None:
            return [Candidate("time", exact_text(when), partial(screen.explorer.go_to, when))], []
        exact = BY_ID.get(lowered.replace(" ", "_")) or next(
            (command for command in COMMANDS if command.title.lower() == lowered), None
        )
        first = [] if exact is None else [Candidate("command", exact.title, partial(screen.run_command, exact.id))]
        commands = [
            Candidate("command", command.title, partial(screen.run_command, command.id), (command.id,))
            for command in COMMANDS
            if command is not exact and command.id != "command"
        ]
        if not self._names:
            self._names = sorted({name for trace in screen.session.scene.traces for name in trace.names})
        flags = [Candidate("flag", flag.name, partial(screen.notes.go_to, flag)) for flag in screen.notes.flags.all]
        lanes = [Candidate("lane", name, partial(screen.go_to_lane, row)) for name, row in screen.lane_names()]
        sure, guesses = best(text, (flags, lanes, commands), self._names, self._slice)
        near = (nearest_command(text, BY_ID),)
        nearest = [one for one in commands if one.also == near and one not in sure]
        return first + sure, nearest + [one for one in guesses if one.also != near]

    def _slice(self, name: str) -> Candidate:
        return Candidate("slice", printable(name), partial(self._go_to_name, name))

    def _go_to_name(self, name: str) -> None:
        explorer = self._screen.explorer
        found = find_slice(explorer.scene, name, explorer.state.cursor, parts=False)
        if found is not None:
            explorer.select(found)

    # --- flags

    def new_flag(self, flag: Flag) -> None:
        """Ask for the name of a new flag."""
        self._flag = None, flag
        self._prompt.open("flag", flag.name, say("flag.new", when=flag.when))

    def edit_flag(self, flag: Flag) -> None:
        """Ask for another name of a flag."""
        self._flag = flag, flag
        self._prompt.open("flag", flag.name, say("flag.edit"))

    def name_flag(self, name: str) -> None:
        """Keep, rename or delete the flag that was asked about."""
        if self._flag is None:
            return
        (old, flag), self._flag = self._flag, None
        flags, name = self._screen.notes.flags, printable(name.strip())
        if old is None:
            name = name or flag.name
            flags.add(Flag(flag.start, flag.end, name))
            words = say("flag.kept", name=name, when=flag.when)
        elif name:
            flags.rename(old, name)
            words = say("flag.renamed", name=name)
        else:
            flags.delete(old)
            words = say("flag.deleted", name=old.name)
        self._screen.notes.show_marks()
        self._screen.tell(flags.problem or words)
