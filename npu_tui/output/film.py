"""The film of the fix: a run as it would be without some of its causes, beside the recorded one on one clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from npu_tui.analysis.film import film, moved_film, served_trace
from npu_tui.analysis.limits import EVEN
from npu_tui.load.errors import InputError
from npu_tui.output.document import Block, Cell, Paragraph, Table
from npu_tui.output.svg import scene_timeline
from npu_tui.output.whatif import NoReplayError, WhatIf, ask
from npu_tui.profile.profile import Profile
from npu_tui.profile.scene import ShownPath, make_scene, path_charts, played_path, shown_paths
from npu_tui.rules.model import Finding
from npu_tui.strings import say, words
from npu_tui.trace.message import Message, message
from npu_tui.trace.text import duration_text
from npu_tui.view.scene import Scene

if TYPE_CHECKING:  # the film of one rank needs none
    from npu_tui.jobs.job import Job

RECORDED, PLAYED = 0, 1
"""The traces of a film of one rank by their numbers in its scene."""
PLAYED_LABEL = "−"
"""What the rows of the replayed run begin with: something is taken away there."""


class FilmRung(Struct, frozen=True):
    """One more cause that is done without: its ``text`` for ``npu-tui whatif``, its ``name``, and how long a unit takes
    then, ns.
    """

    text: str
    name: str
    length: float


class Film(Struct, frozen=True, eq=False):
    """The ``runs`` of one or more ranks without the first ``count`` of ``rungs``; the rest are what could go next.

    A ``unit`` takes ``recorded`` ns with all of them; for a service that is the ``figure`` which gains most. ``played``
    are the runs as replayed; one that is alone has its critical ``path``.
    """

    runs: tuple[Profile, ...]
    unit: str
    recorded: float
    rungs: tuple[FilmRung, ...]
    count: int
    played: tuple[Profile, ...]
    path: ShownPath | None = None
    figure: Message | None = None

    @property
    def profile(self) -> Profile:
        """The first of the recorded runs."""
        return self.runs[0]

    @property
    def texts(self) -> tuple[str, ...]:
        """What is done without."""
        return tuple(rung.text for rung in self.rungs[: self.count])


def causes(profile: Profile) -> list[Finding]:
    """The findings of ``profile`` that shorten the step one after another, in the order of work.

    Raises ``InputError`` as findings do.
    """
    return [
        finding
        for finding in profile.findings.findings
        if finding.step_after_ns is not None and finding.part_of is None and finding.whatif and not finding.hidden
    ]


def film_of(profile: Profile, texts: Sequence[str] = ()) -> Film | None:
    """The run of ``profile`` without what ``texts`` name, as ``npu-tui whatif`` knows it, else without its first cause.

    None where it has no such cause. Raises what that does.
    """
    if own := _FILMS.get(profile.trace.nature.subject):
        return own(profile, texts)
    titles = {finding.whatif: words(finding.title) for finding in causes(profile) if finding.whatif}
    if not (every := list(dict.fromkeys(texts)) or [*titles][:1]):
        return None
    numbers = {finding.whatif: number for number, finding in enumerate(profile.findings.findings, 1)}
    later = [text for text in titles if text not in every]
    rows, _ = ask(profile, [*every, *later]).rows()
    rungs = tuple(
        FilmRung(
            text,
            say("film.rung", number=numbers[text], title=titles[text]) if text in titles else text,
            1000 * row.step_us,
        )
        for text, row in zip([*every, *later], rows, strict=True)
    )
    asked = ask(profile, every)
    trace, place = film(asked.replay, asked.change, profile.device_slices)
    path = played_path(profile, asked.facts, asked.replay, asked.change, trace, place)
    played = (Profile(trace, None, profile.thresholds),)
    return Film((profile,), asked.facts.unit_name, asked.facts.step_ns, rungs, len(every), played, path)


def _served_film(profile: Profile, texts: Sequence[str]) -> Film | None:
    """The requests of the service ``profile`` without the findings that ``texts`` name, without the first by default.

    None where no replay of the service can leave them out.
    """
    from npu_tui.rules.service_facts import most_saved
    from npu_tui.rules.service_verdict import JudgedService

    verdict = profile.judged
    if not isinstance(verdict, JudgedService) or (model := verdict.facts.model) is None:
        return None
    facts, known = verdict.facts, verdict.remedies
    chosen = list(dict.fromkeys(text.removeprefix("fix ") for text in texts)) or [*known][:1]
    if not chosen or not {*chosen} <= {*known}:
        return None
    ids = [*chosen, *(id for id in known if id not in chosen)]
    figures = [facts.after(*(known[id] for id in ids[: count + 1])) for count in range(len(ids))]
    if figures[len(chosen) - 1] is None or figures[0] is None:
        return None
    figure = most_saved(facts.figures, figures[0])
    numbers = {
        finding.id: (number, words(finding.title)) for number, finding in enumerate(verdict.findings.findings, 1)
    }
    rungs = []
    for id, after in zip(ids, figures, strict=True):
        if after is None or not after[figure] > 0:
            break  # how long a request takes then is not known
        number, title = numbers[id]
        rungs.append(FilmRung(id, say("film.rung", number=number, title=title), after[figure]))
    if len(rungs) < len(chosen):
        return None
    for id in chosen:
        model = known[id](model)
    played = Profile(served_trace(profile.trace, model), None, profile.thresholds)
    told = message(f"service.figure.{figure}")
    return Film((profile,), "request", facts.figures[figure], tuple(rungs), len(chosen), (played,), figure=told)


_FILMS = {"service": _served_film}  # the films of subjects that have one of their own


def job_film(job: Job, ranks: Sequence[int], texts: Sequence[str], name: str, profiles: Sequence[Profile]) -> Film:
    """The runs of ``ranks`` of ``job`` with ``texts`` changed, which are called ``name``, as ``npu-tui whatif`` knows.

    ``profiles`` are those of the ranks that have a timeline, in their order; for others passes and calls are shown.
    Raises what ``job_whatif`` does, and ``InputError`` where it is unknown when ranks pass what.
    """
    from npu_tui.jobs.timelines import trace_of_calls
    from npu_tui.output.job_whatif import job_moments, job_whatif

    answer, moments = job_whatif(job, texts), job_moments(job, texts)
    if moments is None:
        raise InputError(no_moments(answer, name))
    known = {profile.rank: profile for profile in job.ranks}
    traced = iter(profiles)
    runs = [next(traced) if known[rank].has_trace else Profile(trace_of_calls(known[rank]), None) for rank in ranks]
    played = []
    for rank, run in zip(ranks, runs, strict=True):
        recorded, sooner = moments[rank]
        since = recorded - run.trace.start_ns
        trace = moved_film(run.trace, since, since - sooner, run.device_slices)
        played.append(Profile(trace, None, run.thresholds))
    rung = FilmRung("; ".join(texts), name, 1000 * answer.step_after_us)
    return Film(tuple(runs), answer.per, 1000 * answer.step_us, (rung,), 1, tuple(played))


def no_moments(answer: WhatIf, name: str) -> Message:
    """What is known where there is no film: the ``answer`` to ``name``."""
    before, after = 1000 * answer.step_us, 1000 * answer.step_after_us
    return message("film.no_moments", name=name, unit=message(f"finding.unit.{answer.per}"), before=before, after=after)


def film_scene(shown: Film) -> Scene:
    """All runs with the same lanes next to each other, the replayed ones above, the critical paths of one on top."""
    scene = make_scene([*shown.runs, *shown.played])
    scene.stacked = scene.is_film = True
    recorded = [str(run.trace.rank) for run in shown.runs] if len(shown.runs) > 1 else [""]
    scene.labels = [*recorded, *(f"{PLAYED_LABEL}{label}" for label in recorded)]
    if shown.path is not None:
        for index, paths in ((RECORDED, shown_paths(shown.profile)), (PLAYED, [shown.path])):
            scene.charts[index] += path_charts(scene.traces[index], paths)
    return scene


_MOST_RUNGS = 6
_BAR = 40
"""Causes that a page names, and characters of the bar of the recorded run."""


def film_blocks(profile: Profile) -> list[Block]:
    """The ladder of the causes of ``profile`` and the run without the first one above the recorded one.

    Nothing where the run cannot be replayed, or no cause is known.
    """
    try:
        shown = film_of(profile)
    except (NoReplayError, InputError):
        return []
    if shown is None:
        return []
    unit = shown.figure or message(f"finding.unit.{shown.unit}")
    lengths = [(say("film.recorded"), shown.recorded)]
    lengths += [(say("film.without", name=rung.name), rung.length) for rung in shown.rungs[:_MOST_RUNGS]]
    longest = max(length for _, length in lengths)
    rows = [
        [Cell(name), Cell(duration_text(length), length), Cell("█" * max(round(_BAR * length / max(longest, 1)), 1))]
        for name, length in lengths
    ]
    title = say("film.title", causes=shown.rungs[0].name)
    columns = (say("whatif.column.change"), say("whatif.column.after", unit=unit), "")
    ladder = Table(
        "film",
        say("film.ladder" if shown.figure is None else "film.ladder.requests", unit=unit),
        columns,
        (False, True, False),
        rows,
        sortable=False,
    )
    about = say("film.page" if shown.figure is None else "film.page.requests")
    return [ladder, Paragraph((about,), "faint"), scene_timeline(film_scene(shown), title, RECORDED)]


def align_film(scene: Scene, when: int) -> list[int]:
    """The offsets with which the step of the recorded run around ``when`` begins at once in all runs, ns.

    Those of the recorded runs stay, and replayed ones stay as far apart as those are.
    """
    half = scene.played_from
    recorded, played = scene.offsets[:half], scene.offsets[half:]
    steps = _step_bounds(scene)
    if not steps:
        return [*recorded, *recorded]
    (begin, _), (begin_played, _) = steps[_step_number_at(steps, when)]
    return [*recorded, *(offset + begin - begin_played for offset in played)]


def step_that_gains(scene: Scene, when: int) -> tuple[int, int] | None:
    """The recorded step that gets shorter the most, where that around ``when`` stays as long; None elsewhere.

    A cause that is not in every step is nowhere to be seen in the others.
    """
    steps = _step_bounds(scene)
    gains = [1 - (after[1] - after[0]) / max(before[1] - before[0], 1) for before, after in steps]
    if not steps or gains[_step_number_at(steps, when)] > EVEN or max(gains) <= EVEN:
        return None
    return steps[gains.index(max(gains))][0]


def hidden_step(scene: Scene, begin: int, when: int) -> tuple[int, int] | None:
    """The recorded step around ``when``, where the replayed one is over before a view from ``begin`` on; else None."""
    steps = _step_bounds(scene)
    if not steps:
        return None
    recorded, played = steps[_step_number_at(steps, when)]
    return recorded if played[1] <= begin else None


def _step_bounds(scene: Scene) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Begin and end of each step of the first run, as recorded and as replayed; none where they do not match."""
    recorded, played = (
        [(start, end) for start, end, _ in scene.steps(index)] for index in (RECORDED, scene.played_from)
    )
    return list(zip(recorded, played, strict=True)) if len(recorded) == len(played) else []


def _step_number_at(steps: Sequence[tuple[tuple[int, int], tuple[int, int]]], when: int) -> int:
    """The number of the recorded step around ``when``, else of the nearest one."""
    return min(range(len(steps)), key=lambda at: max(steps[at][0][0] - when, when - steps[at][0][1], 0))
