"""The film of the fix on screen: the run without some causes above the recorded one, and the ladder of both in bars.

The film of a job: the rank that holds up the others and the one that waits longest, as recorded and without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from rich.text import Text
from textual.geometry import Size

from npu_tui.analysis.questions import UnknownChangeError
from npu_tui.jobs.job import Job
from npu_tui.jobs.model import RankProfile
from npu_tui.jobs.timelines import Timelines, waiting_rank
from npu_tui.load.errors import InputError
from npu_tui.output.film import (
    PLAYED,
    RECORDED,
    Film,
    align_film,
    film_scene,
    hidden_step,
    job_film,
    no_moments,
    step_that_gains,
)
from npu_tui.output.job_whatif import job_changes, job_moments, job_whatif, pair_of
from npu_tui.rules.model import Finding, Findings
from npu_tui.strings import say, words
from npu_tui.trace.classes import OpClass
from npu_tui.trace.text import brief, cell_count, duration_text, printable
from npu_tui.tui.head import HeadLines
from npu_tui.tui.job_overview import Examined
from npu_tui.tui.loading import BARS_FROM, PANEL_FROM, Make
from npu_tui.tui.prompts import Supposed
from npu_tui.tui.session import Session
from npu_tui.tui.tabs.declared import bar
from npu_tui.tui.terminal.frames import class_colour
from npu_tui.view.scene import ViewState

if TYPE_CHECKING:
    from npu_tui.profile.profile import Profile

_NAMES = 0.45  # the share of the width that the names of causes take at most
_LAYERS = 2  # with heads: the hardware, and communication
_HEAD = 8  # rows above and below the lanes of a film of one cause
_FIGURES = 11  # cells of a length such as ``155.99 ms``, and of the blanks around it


class Films:
    """The films of a screen.

    ``play`` makes the film of the run without some causes, of its first one where none is named; ``show`` shows a
    session; ``back`` goes to what a film of several ranks was opened from.
    """

    def __init__(
        self,
        play: Callable[[Sequence[str]], object],
        show: Callable[[Session], object],
        back: Callable[[], object],
    ) -> None:
        self._play, self._show, self._back = play, show, back
        self._recorded: Session | None = None
        """What was on screen before the film."""
        self._owed: str | None = None
        """The cause of a film that was asked for before there were findings."""

    def toggle(self, session: Session, trace: int, cause: str) -> str | None:
        """Show ``trace`` of ``session`` without ``cause``, its first one where that is empty; or leave a film.

        Returns the message. What is asked for before there are findings comes with them.
        """
        if session.film is not None:
            self.leave()
            return None
        if session.picture is not None:
            return say("film.compared")
        self._owed = cause
        return self.pay(session, trace) or say("film.then")

    def pay(self, session: Session, trace: int) -> str:
        """Make the film that was asked for, once there are findings of ``trace``; returns the message."""
        if self._owed is None or trace not in session.findings:
            return ""
        cause, self._owed = self._owed, None
        self._play([cause] if cause else [])
        return say("film.making")

    def leave(self) -> None:
        """Show the recorded run again."""
        if self._recorded is not None:
            before, self._recorded = self._recorded, None
            self._show(before)
        else:
            self._back()

    def next(self, film: Film, direction: int) -> str | None:
        """One more cause goes (1), or the last one comes back (-1)."""
        count = film.count + direction
        if count > len(film.rungs):
            return say("film.last")
        if count:
            self._play([rung.text for rung in film.rungs[:count]])
            return say("film.making")
        self.leave()
        return None

    def show(self, session: Session, state: ViewState, answer: Supposed) -> tuple[tuple[int, int], str] | None:
        """Show the film that was made of ``session`` from the cursor on, or end the one on screen.

        Returns a step to go to and why, where a film begins in one that is no shorter, or the replayed run has nothing
        left in view; else None.
        """
        cursor = state.cursor
        if answer.film is None:
            self.leave()
            return None
        before = self._recorded = self._recorded or session
        made = film_session(before, 0 if session.film is not None else answer.trace, answer.film)
        step = step_that_gains(made.scene, cursor) if session.film is None else None
        made.scene.set_offsets(align_film(made.scene, cursor if step is None else step[0]))
        self._show(made)
        if step is not None:
            return step, say("film.moved")
        hidden = hidden_step(made.scene, state.viewport.start, cursor)
        return None if hidden is None else (hidden, say("film.hidden"))


def film_session(before: Session, index: int, film: Film) -> Session:
    """The session that shows ``film``, of profile number ``index`` of the session ``before``."""
    scene = film_scene(film)
    if index in before.findings:
        scene.findings[RECORDED], scene.events[RECORDED] = before.scene.findings[index], before.scene.events[index]
    known = {RECORDED: before.findings[index]} if index in before.findings else {}
    paths = {RECORDED: before.paths.get(index, []), PLAYED: [film.path] if film.path is not None else []}
    return Session([*film.runs, *film.played], scene, known, paths, film=film)


def job_film_session(
    job: Job, ranks: Sequence[int], texts: Sequence[str], name: str, profiles: Sequence[Profile]
) -> Session:
    """The session that shows the ``ranks`` of ``job`` with ``texts`` changed, which are called ``name``.

    ``profiles`` are those of the ranks that have a timeline. Raises ``InputError`` as ``job_film`` does.
    """
    film = job_film(job, ranks, texts, name, profiles)
    scene = film_scene(film)
    offsets = Timelines(job, ranks, film.runs).offsets()
    scene.set_offsets([*offsets, *offsets])
    scene.set_offsets(align_film(scene, scene.start))
    known = {number: run.findings if run.source is not None else _NO_FINDINGS for number, run in enumerate(film.runs)}
    return Session([*film.runs, *film.played], scene, known, film=film)


_NO_FINDINGS = Findings((), (), ())  # of a rank with known passes and calls only


def show_film(head: HeadLines, film: Film, size: Size) -> None:
    """Fill the lines above the lanes: without what the run is replayed, and how long a unit takes with every cause."""
    width = size.width - 2
    names = [rung.name for rung in film.rungs[: film.count]]
    title = say("film.title", causes=say("list.comma").join(map(printable, names)))
    if film.figure is not None:
        title = f"{words(film.figure)}: {title}"
    line = Text(brief(title, width), "bold", no_wrap=True, end="")
    uncounted = say("film.uncounted") if len(film.profile.trace.counters) else ""
    uncounted = say("film.requests") if film.figure is not None else uncounted
    if uncounted and line.cell_len + 2 + cell_count(uncounted) <= width:
        line.append("  " + uncounted, style="dim not bold")
    head.headline.fill([line])
    rungs = [(say("film.recorded"), film.recorded), *((printable(rung.name), rung.length) for rung in film.rungs)]
    most = 5 if size.height >= PANEL_FROM else 4
    # The recorded run is always there; of more causes than rows the last ones are, and the next that could go.
    first = max(film.count + 2 - (most - 1), 1)
    shown = [0, *range(first, min(film.count + 2, len(rungs)))]
    if size.height < BARS_FROM:
        head.verdict.fill([_length_chain(film, width)])
    else:
        head.verdict.fill([_rung(rungs[at], film, at, width) for at in shown])
    head.facts.fill([])


def _length_chain(film: Film, width: int) -> Text:
    """The lengths in one line: ``step 155.99 ms → 64.48 ms → 44.03 ms``."""
    unit = words(film.figure) if film.figure is not None else say(f"finding.unit.{film.unit}")
    line = Text(f"{unit} ", no_wrap=True, end="")
    lengths = [film.recorded, *(rung.length for rung in film.rungs)]
    for at, length in enumerate(lengths):
        part = (" → " if at else "") + duration_text(length)
        if line.cell_len + cell_count(part) > width:
            break
        line.append(part, style="bold" if at == film.count else "dim" if at > film.count else "")
    return line


def _rung(rung: tuple[str, float], film: Film, at: int, width: int) -> Text:
    """One length as a bar; the recorded run has the longest, and what could go next is dim."""
    name, length = rung
    style = "bold" if at == film.count else "dim" if at > film.count else ""
    room = max(int(_NAMES * width), 8)
    label = name if not at else say("film.without" if at <= film.count else "film.next", name=name)
    label = f"  {label}" if at > film.count else label
    label = brief(label, room)
    line = Text(label + " " * (room - cell_count(label)), style=style, no_wrap=True, end="")
    line.append(f"{duration_text(length):>{_FIGURES - 1}} ", style=style)
    longest = max(film.recorded, *(rung.length for rung in film.rungs), 1)
    colour = class_colour(OpClass.CUBE if at <= film.count else OpClass.WAIT)
    cells = max(width - line.cell_len, 1)
    return line.append(bar(length / longest, cells), style=colour)


class JobFilm(Struct, frozen=True):
    """The timelines to load, by their ``paths``, and what makes the session of their profiles."""

    paths: tuple[Path, ...]
    make: Make


def first_with_film(examined: Examined) -> int | None:
    """The number of the first finding of a job that a replay can leave out; None where there is none."""
    return next((at for at, row in enumerate(examined.findings) if job_changes(_job_of(examined, row), row)), None)


def _job_of(examined: Examined, finding: Finding) -> Job:
    """The job of the role that ``finding`` is about, else all of it."""
    return next((part for part in examined.job.parts if part.role == finding.role), examined.job)


def film_without(examined: Examined, number: int, height: int) -> JobFilm | str:
    """The film of the job without finding ``number``, or why there is none."""
    if not examined.findings:
        return say("ranks.finding.none")
    finding = examined.findings[number]
    job = _job_of(examined, finding)
    texts = job_changes(job, finding)
    if not texts:
        return say("film.job_only")
    name = say("film.rung", number=number + 1, title=words(finding.title))
    return _film_of(job, finding.ranks, texts, name, height - _HEAD)


def film_asked(job: Job, texts: Sequence[str], height: int) -> JobFilm | str:
    """The film of ``job`` with ``texts`` changed, as ``npu-tui whatif`` has them; or why there is none."""
    texts = [text.strip() for text in texts if text.strip()]
    named = [int(word) for text in texts for word in text.split() if word.isdecimal()]
    stages = {profile.rank: job.stage(profile.rank) for profile in job.ranks}
    of_stage = [rank for rank, stage in stages.items() if stage in named and "stage" in texts[0].lower()]
    ranks = of_stage or [rank for rank in named if rank in stages] or [*stages]
    return _film_of(job, ranks, texts, "; ".join(texts), height - _HEAD)


def _film_of(job: Job, ranks: Sequence[int], texts: Sequence[str], name: str, room: int) -> JobFilm | str:
    """The film of the first of ``ranks`` that is there and the one that waits longest for it, or gets its messages.

    Where only calls are known of both, others take the rest of the ``room``, in rows.
    """
    try:
        answer = job_whatif(job, texts)
    except UnknownChangeError as error:
        return words(error.message)
    except InputError as error:
        return words(error.message)
    if job_moments(job, texts) is None:
        return words(no_moments(answer, name))
    known = {profile.rank: profile for profile in job.ranks}
    here = [rank for rank in ranks if rank in known]
    told = [rank for rank in here if any(rank in run.ranks for run in job.pipelines.runs)] or here
    pair = pair_of(texts[0])
    waiting = waiting_rank(job, told[0] if told else -1)
    shown = list(pair or [*told[:1], *([] if waiting is None else [waiting])])
    if not any(known[rank].has_trace for rank in shown):
        shown += ranks_below(known, shown, room)
    gone = [rank for rank in shown if known[rank].has_trace and not known[rank].path.exists()]
    if gone:
        return say("ranks.elsewhere", ranks=gone, path=str(known[gone[0]].path))
    paths = tuple(known[rank].path for rank in shown if known[rank].has_trace)
    return JobFilm(paths, partial(job_film_session, job, shown, texts, name))


def ranks_below(known: Mapping[int, RankProfile], shown: Sequence[int], room: int) -> list[int]:
    """Further ranks that fit below ``shown`` into ``room`` rows: with all lanes, or folded as ``shown``."""
    passes = {rank: profile.passes is not None for rank, profile in known.items()}
    groups = {rank: {group for group, _, _ in profile.calls.kinds} for rank, profile in known.items()}

    def rows(ranks: Sequence[int], folded: bool) -> int:
        of_calls = sum(bool(groups[rank]) if folded else len(groups[rank]) for rank in ranks)
        return 2 * (of_calls + sum(passes[rank] for rank in ranks)) + (0 if folded else _LAYERS)

    folded, found = rows(shown, False) > room, [*shown]
    for rank in known:
        if rank not in found and rows([*found, rank], folded) <= room:
            found.append(rank)
    return found[len(shown) :]
