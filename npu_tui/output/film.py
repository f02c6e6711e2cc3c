"""The film of the fix: a run as it would be without some of its causes, beside the recorded one on one clock."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from npu_tui.analysis.film import film
from npu_tui.load.errors import InputError
from npu_tui.output.document import Block, Cell, Paragraph, Table
from npu_tui.output.timeline import scene_timeline
from npu_tui.output.whatif import NoReplayError, ask
from npu_tui.profile.path_lanes import ShownPath, path_charts, played_path
from npu_tui.profile.profile import Profile
from npu_tui.profile.scene import make_scene
from npu_tui.rules.model import Finding
from npu_tui.strings import say, words
from npu_tui.trace.message import message
from npu_tui.trace.text import duration_text
from npu_tui.view.scene import Scene

RECORDED, PLAYED = 0, 1
"""The traces of a film by their numbers in its scene."""
PLAYED_LABEL = "−"
"""What the rows of the replayed run begin with: something is taken away there."""


class Rung(Struct, frozen=True):
    """One more cause that is done without: its ``text`` for ``npu-tui whatif``, its ``name``, and how long a unit takes
    then, ns.
    """

    text: str
    name: str
    length: float


class Film(Struct, frozen=True, eq=False):
    """The run of ``profile`` without the first ``count`` of ``rungs``; the rest are what could go next.

    A ``unit`` takes ``recorded`` ns with all of them. ``played`` is the run as replayed, with its critical ``path``.
    """

    profile: Profile
    unit: str
    recorded: float
    rungs: tuple[Rung, ...]
    count: int
    played: Profile
    path: ShownPath

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


def film_of(profile: Profile, texts: Sequence[str]) -> Film:
    """The run of ``profile`` without what ``texts`` name, as ``npu-tui whatif`` knows it; raises what that does."""
    every = list(dict.fromkeys(texts))
    numbers = {finding.whatif: number for number, finding in enumerate(profile.findings.findings, 1)}
    titles = {finding.whatif: words(finding.title) for finding in causes(profile)}
    later = [finding.whatif for finding in causes(profile) if finding.whatif and finding.whatif not in every]
    rows, _ = ask(profile, [*every, *later]).rows()
    rungs = tuple(
        Rung(
            text,
            say("film.rung", number=numbers[text], title=titles[text]) if text in titles else text,
            1000 * row.step_us,
        )
        for text, row in zip([*every, *later], rows, strict=True)
    )
    asked = ask(profile, every)
    trace, place = film(asked.replay, asked.change, profile.device_slices)
    path = played_path(profile, asked.facts, asked.replay, asked.change, trace, place)
    played = Profile(trace, None, profile.thresholds)
    return Film(profile, asked.facts.unit_name, asked.facts.step_ns, rungs, len(every), played, path)


def film_scene(shown: Film) -> Scene:
    """Both runs with the same lanes next to each other, the replayed one above, both critical paths on top."""
    from npu_tui.profile.path_lanes import shown_paths

    scene = make_scene([shown.profile, shown.played])
    scene.stacked = scene.is_film = True
    scene.labels = ["", PLAYED_LABEL]
    for index, paths in ((RECORDED, shown_paths(shown.profile)), (PLAYED, [shown.path])):
        scene.charts[index] += path_charts(scene.traces[index], paths)
    return scene


_MOST_RUNGS = 6
_BAR = 40
"""Causes that a page tells, and characters of the bar of the recorded run."""


def film_blocks(profile: Profile) -> list[Block]:
    """The ladder of the causes of ``profile`` and the run without the first one above the recorded one.

    Nothing where the run cannot be replayed, or no cause is known.
    """
    try:
        first = next((finding.whatif for finding in causes(profile)), None)
        shown = None if first is None else film_of(profile, [first])
    except (NoReplayError, InputError):
        return []
    if shown is None:
        return []
    unit = message(f"finding.unit.{shown.unit}")
    lengths = [(say("film.recorded"), shown.recorded)]
    lengths += [(say("film.without", name=rung.name), rung.length) for rung in shown.rungs[:_MOST_RUNGS]]
    longest = max(length for _, length in lengths)
    rows = [
        [Cell(name), Cell(duration_text(length), length), Cell("█" * max(round(_BAR * length / max(longest, 1)), 1))]
        for name, length in lengths
    ]
    title = say("film.title", causes=shown.rungs[0].name)
    columns = (say("whatif.column.change"), say("whatif.column.after", unit=unit), "")
    ladder = Table("film", say("film.ladder", unit=unit), columns, (False, True, False), rows, sortable=False)
    return [ladder, Paragraph((say("film.page"),), "faint"), scene_timeline(film_scene(shown), title, RECORDED)]


def align_film(scene: Scene, when: int) -> list[int]:
    """The offsets with which the step of the recorded run around ``when`` begins at once in both runs, ns."""
    steps = [scene.steps(index) for index in (RECORDED, PLAYED)]
    ends = [max(step[0] - when, when - step[1], 0) for step in steps[RECORDED]]
    if not ends or len(steps[PLAYED]) != len(ends):
        return [0, 0]
    at = ends.index(min(ends))
    return [0, scene.offsets[PLAYED] + steps[RECORDED][at][0] - steps[PLAYED][at][0]]
