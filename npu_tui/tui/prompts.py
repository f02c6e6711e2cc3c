"""Prompts: commands, SQL, what-if, borrowed code, and what Tab completes in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from os.path import expanduser
from pathlib import Path

from msgspec import Struct

from npu_tui.analysis.questions import UnknownChangeError
from npu_tui.load.errors import InputError
from npu_tui.load.load import opening_of
from npu_tui.load.source import look_below
from npu_tui.output.document import Document
from npu_tui.output.film import Film, film_of
from npu_tui.output.text import ALL, text_lines
from npu_tui.output.whatif import NoReplayError, remedies, remedies_document
from npu_tui.profile.module_tables import borrow
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import declared_tables
from npu_tui.query.frames import ONE_PROFILE, Name, possible_names
from npu_tui.rules.explanation import words_called
from npu_tui.strings import say, words
from npu_tui.subjects import subject_of
from npu_tui.trace.text import brief, exact_text, parse_duration, printable
from npu_tui.tui.commands import BY_ID, Command, Where, asked, commands_of
from npu_tui.tui.contents import Contents
from npu_tui.tui.flags import FlagMarks
from npu_tui.tui.prompt import Desk, Prompt
from npu_tui.tui.walk import TraceWalk
from npu_tui.view.scene import Scene
from npu_tui.view.start import find_slice, parse_span

QUIT_WORDS = ("q", "q!", "qa", "wq", "quit", "exit")
"""What people type to leave a program."""

_MOST_NAMES = 200_000  # names that are looked through while typing; more would take longer than a key may

_SHOWN = 50


class Completion(Struct, frozen=True):
    """Something that can be gone to: its ``text`` is matched and taken over by Tab, ``kind`` says what it is.

    ``also`` are other names that are matched.
    """

    kind: str
    text: str
    run: Callable[[], object]
    also: tuple[str, ...] = ()


def score(typed: str, text: str) -> int:
    """How well ``text`` fits what was typed, both in lower case; 0 if it does not.

    Every word typed must be in the text; the earlier and the nearer to the beginning of a word, the better. Letters
    in their order but apart count least, and only where most of them are neighbours.
    """
    total = 0
    for word in typed.split():
        at = text.find(word)
        if at < 0:
            total += _scattered(word, text)
            if not total or not _scattered(word, text):
                return 0
            continue
        begins = at == 0 or not text[at - 1].isalnum()
        total += 1000 + 200 * begins + 100 * (at == 0) - min(at, 99)
    return total + (500 if typed == text else 0)


def _scattered(word: str, text: str) -> int:
    """A small score for the letters of ``word`` in their order, in runs of two or more on average; else 0."""
    at, runs, last = 0, 0, -2
    for letter in word:
        at = text.find(letter, at)
        if at < 0:
            return 0
        runs += at != last + 1
        last, at = at, at + 1
    return max(100 - 10 * runs, 1) if len(word) >= 2 * runs else 0


def best(typed: str, groups: Iterable[Sequence[Completion]], names: Sequence[str], name: Callable[[str], Completion]
         ) -> tuple[list[Completion], list[Completion]]:  # fmt: skip
    """The candidates of ``groups`` that fit, and the ``names`` of slices made into candidates by ``name``.

    First those that are called what was typed, then guesses: they only have its letters, or a command has its words
    inside of others.
    """
    typed = typed.lower().strip()
    found = [(fit, -number, -len(one.text), one) for number, group in enumerate(groups) for one in group
             if (fit := max(score(typed, text.lower()) for text in (one.text, *one.also)))]  # fmt: skip
    found.sort(key=lambda entry: entry[:3], reverse=True)
    words = typed.split()
    fitting = [text for text in names[:_MOST_NAMES] if all(word in text.lower() for word in words)] if words else []
    fitting.sort(key=lambda text: (not text.lower().startswith(typed), len(text)))
    sure: list[Completion] = []
    guesses: list[Completion] = []
    for fit, _, _, one in found:
        (sure if fit >= 1000 and _begins(words, one) else guesses).append(one)
    return [*sure, *(name(text) for text in fitting[:_SHOWN])][:_SHOWN], guesses[:_SHOWN]


def _begins(words: Sequence[str], one: Completion) -> bool:
    """Whether what was typed names ``one``: its words begin words of a command, or are any parts of another name."""
    if one.kind != "command":
        return True
    texts = [text.lower() for text in (one.text, *one.also)]
    parts = [(text, *re.split(r"[\s_]+", text)) for text in texts]
    return any(all(any(part.startswith(word) for part in names) for word in words) for names in parts)


def command_called(text: str, where: Where) -> Command | None:
    """The command of a screen that has ``text`` as its id or title, or that words to leave a program mean."""
    lowered = text.lower()
    named = "quit" if lowered in QUIT_WORDS else lowered.replace(" ", "_")
    return next(
        (command for command in commands_of(where) if command.id == named or command.title.lower() == lowered), None
    )


def nearest_command(typed: str, where: Where) -> str | None:
    """Which command of a screen ``typed`` means, else is written most like it; None where none is near."""
    there = {command.id for command in commands_of(where)}
    by_meaning = (command for word in words_called(typed) for command in word.commands if command in there)
    if (meant := next(by_meaning, None)) is not None:
        return meant
    as_id = typed.lower().replace(" ", "_")
    if as_id.count("_") > max(id_.count("_") for id_ in there):  # a sentence is no misspelt name
        return None
    near = get_close_matches(as_id, [command.id for command in commands_of(where)], 1, 0.3)
    return near[0] if near else None


_HINT_SHARE = 0.4  # of the width, for what the last word may become, however long the query is


class Querying:
    """Asks in ``prompt`` for a query; ``answer`` shows what comes of it."""

    def __init__(self, prompt: Prompt, answer: Callable[[str], None]) -> None:
        """``answer`` is called with each query that is asked."""
        self._prompt, self._answer = prompt, answer
        self._asked: list[str] = []
        self._past = 0
        self._found: list[Name] = []
        self._at = 0
        self._typed = ""

    def open(self, sql: str | None = None) -> None:
        """Ask for a query, beginning with ``sql``, else with the last one."""
        self._found, self._at, self._typed, self._past = [], 0, "", len(self._asked)
        if sql is None:
            self._past = max(self._past - 1, 0)
            sql = self._asked[-1] if self._asked else ""
        self._prompt.open("sql", sql, say("sql.hint"))

    def complete(self, sql: str) -> None:
        """Show what the last word of ``sql`` may become."""
        if sql != self._typed:
            self._found, self._at, self._typed = possible_names(sql, ONE_PROFILE), 0, sql
            self._show()

    def choose(self, direction: int) -> None:
        """Go to the next or previous name; where no name is on show, to a later or earlier query."""
        self.complete(self._prompt.text)
        if self._found:
            self._at = (self._at + direction) % len(self._found)
            self._show()
        elif self._asked:
            self._past = min(max(self._past + direction, 0), len(self._asked))
            self._prompt.take(self._asked[self._past] if self._past < len(self._asked) else "")

    def taken(self) -> str | None:
        """The query with the name on show."""
        self.complete(self._prompt.text)
        return self._found[self._at].text if self._found else None

    def ask(self, sql: str) -> None:
        """Show the answer to ``sql``."""
        sql = sql.strip()
        if sql:
            self._asked = [*(query for query in self._asked if query != sql), sql]
        self._answer(sql)

    def _show(self) -> None:
        if not self._found:
            self._prompt.answer(say("sql.hint"))
            return
        found = self._found[self._at]
        name = f"{found.word} [{found.unit}]" if found.unit else found.word
        words = say("sql.found", name=name, about=say(found.key), n=self._at + 1, count=len(self._found))
        self._prompt.answer(words, _HINT_SHARE)


_OFF = "off"


class Supposed(Struct, frozen=True):
    """The answer: a ``title`` with ``lines``, or in ``error`` why there is none.

    ``film`` is that of trace number ``trace``; with ``is_off`` the one on screen is over.
    """

    title: str = ""
    lines: tuple[str, ...] = ()
    error: str = ""
    trace: int = 0
    film: Film | None = None
    is_off: bool = False


class Supposing:
    """Asks in the prompt of ``desk`` what to change in the run of the trace at the cursor, and gives the ``answer``.

    It is ``pending`` while a thread makes that.
    """

    def __init__(self, desk: Desk, answer: Callable[[Supposed], object]) -> None:
        self._prompt, self._explorer, self._work, self._give = desk.prompt, desk.explorer, desk.work, answer
        self.pending = False
        session = desk.session
        # Whatever row of a film the cursor is in, the recorded run is replayed.
        recorded = session.profiles if session.film is None else [session.film.profile] * len(session.profiles)
        self._profiles = recorded

    def open(self) -> None:
        """Ask for the changes."""
        self._prompt.open("whatif", hint=say("whatif.ask"))

    def begin(self, text: str) -> None:
        """Replay the run with the changes of ``text``, which semicolons or commas part; ``off`` ends the film.

        Quotes part them too, as a shell would have it. Without any change those that would gain something are listed.
        """
        changes = [part.strip() for part in re.split(r"[;,；，\"']", text) if part.strip()]
        if changes == [_OFF]:
            self._give(Supposed(is_off=True))
        else:
            self.play(changes, partial(self._remedies, self._trace) if not changes else None)

    @property
    def _trace(self) -> int:
        """The number of the trace at the cursor."""
        selection = self._explorer.state.selection
        return self._explorer.trace if selection is None else selection.trace

    def play(self, changes: Sequence[str], instead: Callable[[], Supposed] | None = None) -> None:
        """Give the film of the run without ``changes``, of its first cause without any, or what comes ``instead``."""
        make = instead or partial(self._film, self._trace, changes)
        self.pending = True
        self._work(lambda: self._give(_supposed_or_why(make)), "whatif")

    def _remedies(self, trace: int) -> Supposed:
        answer = remedies_document(remedies(self._profiles[trace]))
        return Supposed(answer.title, _sheet_lines(answer))

    def _film(self, trace: int, changes: Sequence[str]) -> Supposed:
        shown = film_of(self._profiles[trace], changes)
        if shown is None:
            return Supposed(error=say(subject_of(self._profiles[trace].trace).no_film))
        return Supposed(trace=trace, film=shown)


def _supposed_or_why(make: Callable[[], Supposed]) -> Supposed:
    """What ``make`` makes, or why that is unknown."""
    try:
        return make()
    except (UnknownChangeError, NoReplayError) as error:
        return Supposed(error=printable(words(error.message)))
    except InputError as error:
        return Supposed(error=printable(words(error.message)))


def _sheet_lines(answer: Document) -> tuple[str, ...]:
    """What a sheet shows below the title; it wraps the lines itself."""
    return tuple(map(printable, text_lines(answer.blocks, ALL, ALL)))


_MARGIN = 0.05  # a range that is typed is shown with this share of its length on either side
_QUERY = "sql "  # what begins a query over the tables of the profile


class Asking:
    """Commands, times, flags, lanes and names of slices typed in the prompt of ``desk``.

    ``run_command`` runs a command, ``walk`` goes to a time, ``querying`` answers what follows ``sql``, and ``contents``
    shows a table that is declared for the panel. ``orders`` are what is done with what follows other words.
    """

    def __init__(
        self,
        desk: Desk,
        marks: FlagMarks,
        walk: TraceWalk,
        contents: Contents,
        querying: Querying,
        run_command: Callable[[str], object],
        orders: Mapping[str, Callable[[str], object]],
    ) -> None:
        self._prompt, self._explorer, self._marks = desk.prompt, desk.explorer, marks
        self._run_command, self._jump, self._view = run_command, walk.jump, contents.press_view
        self._querying, self._orders = querying, orders
        self._found: list[Completion] = []
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
            told = self._found[self._at].run()
            return told if isinstance(told, str) else ""
        if typed := text.strip():
            near = nearest_command(typed, "lanes")
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

    def candidates(self, text: str) -> tuple[list[Completion], list[Completion]]:
        """Everything that ``text`` may mean, and what it may have been meant to mean; each best first."""
        lowered = text.lower()
        if not text:
            return [], []
        if lowered in QUIT_WORDS:
            return [Completion("command", "quit", partial(self._run_command, "quit"))], []
        word, _, rest = text.partition(" ")
        if (order := self._orders.get(word.lower())) is not None and rest.strip():
            return [Completion("command", text, partial(order, rest.strip()))], []
        if lowered.startswith(_QUERY):
            return [Completion("command", text, partial(self._querying.ask, text[len(_QUERY) :]))], []
        span = parse_span(text)
        if span is not None:
            words = say("panel.range", start=exact_text(span[0]), end=exact_text(span[1]))
            return [Completion("range", words, partial(self._mark, *span))], []
        when = parse_duration(text)
        if when is not None:
            return [Completion("time", exact_text(when), partial(self._jump, when))], []
        exact = command_called(text, "lanes")
        first = [] if exact is None else [Completion("command", exact.title, partial(self._run_command, exact.id))]
        commands = [
            Completion("command", command.title, partial(self._run_command, command.id), (command.id,))
            for command in commands_of("lanes")
            if command is not exact and command.id != "command"
        ]
        commands += [
            Completion("command", say(f"table.{table.id}"), partial(self._view, table.id), (table.id,))
            for table in declared_tables("npu_tui.profile")
            if table.tab
        ]
        if not self._names:
            self._names = sorted({name for trace in self._explorer.scene.traces for name in trace.names})
        sure, guesses = best(text, (*self._flags_and_lanes(), commands), self._names, self._slice)
        # Several words, or Chinese ones, are a question; one word is a name, and a question only if no name.
        if " " in text or not text.isascii() or not (first or sure):
            shown = subject_of(self._explorer.scene.traces[self._explorer.trace])
            meant = [BY_ID[command] for command in asked(text, "lanes", shown)]
            answers = [Completion("command", one.title, partial(self._run_command, one.id), (one.id,)) for one in meant]
            first += [one for one in answers if one.also not in {each.also for each in sure}] if first else answers
        near = (nearest_command(text, "lanes"),)
        nearest = [one for one in commands if one.also == near and one not in sure]
        return first + sure, nearest + [one for one in guesses if one.also != near]

    def _flags_and_lanes(self) -> tuple[list[Completion], list[Completion]]:
        flags = [Completion("flag", flag.name, partial(self._marks.go_to, flag)) for flag in self._marks.flags.all]
        lanes = [
            Completion("lane", name, partial(self._go_to_lane, *place))
            for name, place in _lane_names(self._explorer.scene)
        ]
        return flags, lanes

    def _mark(self, start: int, end: int) -> None:
        """Show a stretch of time and make it the range; the answer is about it alone."""
        self._explorer.show(start, end, _MARGIN)
        self._explorer.set_range(start, end)
        self._explorer.state.selection = None

    def _go_to_lane(self, index: int, lane: int) -> None:
        """Move to a lane; what is selected then is on it."""
        self._explorer.state.selection = None
        self._explorer.go_to_lane(index, lane)
        self._explorer.select_under_cursor()

    def _slice(self, name: str) -> Completion:
        return Completion("slice", printable(name), partial(self._go_to_name, name))

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


def borrowed(profile: Profile, path: str) -> str:
    """Let replayed kernels of ``profile`` have the code of the one at ``path`` where it fits; returns a message."""
    try:
        opening = opening_of(expanduser(path.strip()), True, None)
        found = borrow(profile, Profile(opening.trace(), opening.source, profile.thresholds))
    except InputError as error:
        return printable(words(error.message))
    shares = {"covered_here": found.covered_here, "covered_there": found.covered_there}
    key = "borrow.told" if found.fits.any() else "borrow.told_other"
    return printable(say(key, kernels=len(found.item), unique=int(found.unique.sum()), path=brief(path, 40), **shares))


def refused_code(name: str) -> str:
    """Look for the source of the program in the folder ``name`` from now on; returns why not."""
    folder = Path(name).expanduser()
    if not folder.is_dir():
        return say("source.no_folder", path=printable(name))
    look_below(folder)
    return ""
