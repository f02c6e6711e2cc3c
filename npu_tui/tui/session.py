"""The profiles on screen, and what the screen has learned of them so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from npu_tui.profile.profile import Profile
from npu_tui.strings import say
from npu_tui.trace.text import printable
from npu_tui.view.explorer import Explorer
from npu_tui.view.painter import Painter
from npu_tui.view.scene import Chart, Scene, Selected

if TYPE_CHECKING:
    from npu_tui.compare.picture import Picture
    from npu_tui.jobs.timelines import Timelines
    from npu_tui.rules.model import Findings

_LONG = 500_000
"""So many slices take longer to look at for the first time than a frame."""

_UNSEEN = (160, 60)


class Session(Struct):
    """The scene of ``profiles``.

    ``findings`` come when a thread has computed them. A session that is not ``whole`` shows a part of a trace that is
    still loading. With a ``picture`` the second profile is held against the first one. ``job`` is there where they are
    ranks of a job that is open; the screen begins at ``goal``, if there is one.
    """

    profiles: Sequence[Profile]
    scene: Scene
    findings: dict[int, Findings] = {}
    whole: bool = True
    picture: Picture | None = None
    job: Timelines | None = None
    goal: Selected | None = None
    _examining: dict[int, str] = {}
    _painter: Painter | None = None

    @property
    def painter(self) -> Painter:
        """What draws the scene, and keeps what it has found out."""
        if self._painter is None:
            self._painter = Painter(self.scene)
        return self._painter

    def draw_ahead(self) -> None:
        """Draw a frame that nobody sees, where traces are long: the first one on screen has less to find out."""
        if sum(len(trace.slices) for trace in self.scene.traces) >= _LONG:
            explorer = Explorer(self.scene, *_UNSEEN)
            self.painter.compose(explorer.rows, explorer.state, *_UNSEEN)

    def examining(self, index: int) -> str:
        """What is going on while there are no findings of profile number ``index``."""
        if index not in self._examining:
            large = self.profiles[index].large_tables() if self.whole else []
            file, size = large[0] if large else ("", 0)
            said = (
                say("findings.examining_file", file=printable(file), size=size) if large else say("findings.examining")
            )
            self._examining[index] = said
        return self._examining[index]

    @property
    def is_tables(self) -> bool:
        """Whether there is nothing to draw: tables of profiles without a trace."""
        return self.whole and not any(len(trace.slices) for trace in self.scene.traces)

    def learn(self, index: int, found: Findings) -> None:
        """Take the findings of profile number ``index``; those that shorten the step are marked on its timeline."""
        from npu_tui.profile.scene import finding_marks

        self.findings[index] = found
        if self.picture is None:  # in a comparison the changes are marked
            self.scene.findings[index] = finding_marks(found.findings)

    def haunt(self, index: int, ghosts: list[Chart]) -> None:
        """Show ``ghosts`` of profile number ``index`` in place of those before; none of them are gone."""
        kept = [chart for chart in self.scene.charts[index] if chart.kind != "ghost"]
        self.scene.charts[index] = [*kept, *ghosts]

    def remember(self, index: int) -> bool:
        """Take the charts of memory of profile number ``index``, once they are read; whether there are any."""
        from npu_tui.profile.scene import memory_charts

        found = memory_charts(self.profiles[index])
        self.scene.add_charts(index, found)
        return bool(found)


def make_session(profiles: Sequence[Profile], whole: bool = True) -> Session:
    """What the screen needs to know about ``profiles``, whose traces may not be ``whole`` yet, before it is drawn."""
    from npu_tui.profile.scene import make_scene

    return Session(profiles, make_scene(profiles), whole=whole)


def early_session(profile: Profile) -> Session:
    """``profile`` of a trace that is still loading, or of which nothing is computed yet."""
    return Session([profile], Scene.plain([profile.trace]), whole=False)
