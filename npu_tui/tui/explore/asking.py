"""What may be meant after ``:``, and what is done with it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from npu_tui.strings import say
from npu_tui.trace.text import brief, exact_text, parse_duration, printable
from npu_tui.tui.explore.completion import QUIT_WORDS, Candidate, best, nearest_command
from npu_tui.tui.explore.flag_marks import FlagMarks
from npu_tui.tui.explore.querying import Querying
from npu_tui.tui.keys.commands import BY_ID, commands_of
from npu_tui.tui.widgets.prompt import Prompt
from npu_tui.view.explorer import Explorer
from npu_tui.view.scene import Scene
from npu_tui.view.start import find_slice, parse_span

_MARGIN = 0.05
"""A range that is typed is shown with this share of its length on either side."""
_SUPPOSE = "whatif "
"""What begins a change to replay."""
_QUERY = "sql "
"""What begins a query over the tables of the profile."""


class Asking:
    """Commands, times, flags, lanes and names of slices typed in ``prompt``; ``run_command`` runs a command.

    ``suppose`` replays the run with what follows ``whatif``, ``querying`` answers what follows ``sql``.
    """

    def __init__(
        self,
        prompt: Prompt,
        explorer: Explorer,
        marks: FlagMarks,
        run_command: Callable[[str], object],
        suppose: Callable[[str], object],
        querying: Querying,
    ) -> None:
        self._prompt = prompt
        self._explorer = explorer
        self._marks = marks
        self._run_command = run_command
        self._suppose = suppose
        self._querying = querying
        self._found: list[Candidate] = []
        self._at = 0
        self._typed = ""
        self._names: list[str] = []

    def open(self) -> None:
        """Open the prompt for a command."""
        self._found, self._at, self._typed = [], 0, ""
        self._prompt.open("command", hint=say("ask.hint"))

    def complete(self, text: str) -> None:
        """Show what ``text`` may mean; a query goes on in a prompt of its own."""
        if text == self._typed:
            return
        if text.lower().startswith(_QUERY) and self._prompt.is_open:
            sql = text[len(_QUERY) :]
            self._querying.open(sql)
            self._querying.complete(sql)
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

    def obey(self, text: str) -> str:
        """Do what the chosen candidate says; where none is, return which command is called most like ``text``."""
        self.complete(text)  # it may have been entered faster than it was completed
        if self._found and self._at >= 0:
            self._found[self._at].run()
        elif typed := text.strip():
            near = nearest_command(typed, BY_ID)
            hint = say("command.nearest", command=near) if near else ""
            return say("command.unknown", text=brief(typed, 40)) + hint
        return ""

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
        lowered = text.lower()
        if not text:
            return [], []
        if lowered in QUIT_WORDS:
            return [Candidate("command", "quit", partial(self._run_command, "quit"))], []
        if lowered.startswith(_SUPPOSE):
            return [Candidate("command", text, partial(self._suppose, text[len(_SUPPOSE) :]))], []
        if lowered.startswith(_QUERY):
            return [Candidate("command", text, partial(self._querying.ask, text[len(_QUERY) :]))], []
        span = parse_span(text)
        if span is not None:
            words = say("panel.range", start=exact_text(span[0]), end=exact_text(span[1]))
            return [Candidate("range", words, partial(self._mark, *span))], []
        when = parse_duration(text)
        if when is not None:
            return [Candidate("time", exact_text(when), partial(self._explorer.jump, when))], []
        exact = BY_ID.get(lowered.replace(" ", "_")) or next(
            (command for command in commands_of("lanes") if command.title.lower() == lowered), None
        )
        first = [] if exact is None else [Candidate("command", exact.title, partial(self._run_command, exact.id))]
        commands = [
            Candidate("command", command.title, partial(self._run_command, command.id), (command.id,))
            for command in commands_of("lanes")
            if command is not exact and command.id != "command"
        ]
        if not self._names:
            self._names = sorted({name for trace in self._explorer.scene.traces for name in trace.names})
        sure, guesses = best(text, (*self._flags_and_lanes(), commands), self._names, self._slice)
        near = (nearest_command(text, BY_ID),)
        nearest = [one for one in commands if one.also == near and one not in sure]
        return first + sure, nearest + [one for one in guesses if one.also != near]

    def _flags_and_lanes(self) -> tuple[list[Candidate], list[Candidate]]:
        flags = [
            Candidate("flag", flag.name, partial(self._marks.go_to, flag), beside=flag.when)
            for flag in self._marks.flags.all
        ]
        lanes = [
            Candidate("lane", name, partial(self._go_to_lane, *place))
            for name, place in _lane_names(self._explorer.scene)
        ]
        return flags, lanes

    def places(self) -> list[Candidate]:
        """All flags and all lanes, folded away or not."""
        flags, lanes = self._flags_and_lanes()
        return flags + lanes

    def _mark(self, start: int, end: int) -> None:
        """Show a stretch of time and make it the range; the answer is about it alone."""
        self._explorer.show(start, end, _MARGIN)
        self._explorer.set_range(start, end)
        self._explorer.state.selection = None

    def _go_to_lane(self, index: int, lane: int) -> None:
        """Move to a lane; what is selected then is on it."""
        self._explorer.state.selection = None
        self._explorer.go_to_lane(index, lane)

    def _slice(self, name: str) -> Candidate:
        return Candidate("slice", printable(name), partial(self._go_to_name, name))

    def _go_to_name(self, name: str) -> None:
        found = find_slice(self._explorer.scene, name, self._explorer.state.cursor, parts=False)
        if found is not None:
            self._explorer.select(found)


def _lane_names(scene: Scene) -> list[tuple[str, tuple[int, int]]]:
    """Names of all lanes, folded away or not, each with (trace, lane)."""
    return [
        (
            printable(_lane_name(trace.layers[lane.layer].name, lane.name, scene.roles[index][lane.index].name)),
            (index, lane.index),
        )
        for index, trace in enumerate(scene.traces)
        for lane in trace.lanes
    ]


def _lane_name(layer: str, lane: str, shown: str) -> str:
    """A lane by what it is called on screen, and as the profiler calls it where that is something else."""
    return f"{layer} / {shown}" if shown == lane else f"{layer} / {shown} ({lane})"
