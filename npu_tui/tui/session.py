"""What a screen is about: profiles, scene, hits of a search."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.profile.profile import Profile
from npu_tui.strings import say
from npu_tui.trace.message import Message
from npu_tui.trace.model import Trace
from npu_tui.trace.snapshot import EVENT_NS
from npu_tui.trace.text import EventAxis, printable, read_in
from npu_tui.view.explorer import Explorer
from npu_tui.view.painter import Painter
from npu_tui.view.scene import Scene, Selected

if TYPE_CHECKING:
    from npu_tui.compare.picture import ComparisonPicture
    from npu_tui.jobs.timelines import Timelines
    from npu_tui.output.film import Film
    from npu_tui.profile.scene import ShownPath
    from npu_tui.rules.model import Findings


_YOUNG = 100_000  # so many objects more than before make it run in between all the same

_OLDER, _ALL = 16, 512
"""At every so many rests it looks through what has outlived one, and through everything."""

_rests = count(1)


def settle() -> None:
    """The columns stay: no later collection needs to walk them."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, 20, 100)
    gc.enable()


@contextmanager
def kept() -> Iterator[None]:
    """What is made within stays: nothing walks it, neither now nor later."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def collect_at_rest() -> None:
    """Collect what the last keys have left."""
    if not gc.isenabled():
        return
    rest = next(_rests)
    gc.collect(2 if rest % _ALL == 0 else 1 if rest % _OLDER == 0 else 0)


Bools = npt.NDArray[np.bool_]


class Hits(Struct, frozen=True, eq=False):
    """(trace, slice) pairs by start time (ns of the scene's clock); ``masks`` is one per trace over its slices.

    ``share`` 0..1 is how much has been searched so far.
    """

    text: str
    masks: list[Bools]
    traces: npt.NDArray[np.int64]
    items: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    share: float = 1.0

    def __len__(self) -> int:
        return len(self.starts)

    def at(self, index: int) -> Selected:
        """The slice of one hit."""
        return Selected(int(self.traces[index]), int(self.items[index]))

    def index(self, selected: Selected | None) -> int | None:
        """The hit that is the selected slice."""
        if selected is None:
            return None
        same = np.flatnonzero((self.traces == selected.trace) & (self.items == selected.item))
        return int(same[0]) if len(same) else None

    def next(self, selected: Selected | None, cursor: int, direction: int) -> int:
        """The hit after (direction 1) or before (-1) the selected one, else the cursor; it wraps around."""
        count = len(self.starts)
        here = self.index(selected)
        if here is not None:
            return (here + direction) % count
        at = int(np.searchsorted(self.starts, cursor, "left")) - (direction < 0)
        return at % count


def make_hits(text: str, scene: Scene, masks: list[Bools], share: float = 1.0) -> Hits:
    """The slices that ``masks``, one per trace of ``scene``, choose; by start."""
    empty = np.zeros(0, np.int64)
    found = [np.flatnonzero(mask) for mask in masks]
    items = np.concatenate([*found, empty])
    owner = np.concatenate([*[np.full(len(own), i, np.int64) for i, own in enumerate(found)], empty])
    own = zip(scene.traces, found, strict=False)
    starts = np.concatenate([*[scene.to_scene(i, trace.slices.start[n]) for i, (trace, n) in enumerate(own)], empty])
    order = np.argsort(starts, kind="stable")
    return Hits(text, masks, owner[order], items[order], starts[order], share)


NO_HITS = make_hits("", Scene([], []), [])


_LONG = 500_000  # so many slices take longer to look at for the first time than a frame

_UNSEEN = (160, 60)  # columns and rows of a large terminal


_AXIS = EventAxis(
    EVENT_NS,
    length=lambda count: say("axis.events", count=count),
    short=lambda count: say("axis.short", count=count),
    moment=lambda number: say("snapshot.at", event=number),
)


def read_times_of(traces: Sequence[Trace]) -> None:
    """Times read in events where none of ``traces`` has any."""
    read_events(bool(traces) and all(trace.is_untimed for trace in traces))


def read_events(are_events: bool) -> None:
    """Times read as numbers of events of a snapshot, or as times."""
    read_in(_AXIS if are_events else None)


class Session(Struct):
    """The scene of ``profiles``.

    ``findings`` and critical ``paths`` (of every device that did anything) come when a thread has computed them. A
    session that is not ``whole`` shows a part of a trace that is still loading. With a ``picture`` the second profile
    is held against the first one, in a ``film`` it is the first one replayed. ``job`` is there where they are ranks of
    a job that is open, and ``thread`` what it says of them; the screen begins at ``goal``, if there is one.
    """

    profiles: Sequence[Profile]
    scene: Scene
    findings: dict[int, Findings] = {}
    paths: dict[int, list[ShownPath]] = {}
    whole: bool = True
    picture: ComparisonPicture | None = None
    job: Timelines | None = None
    thread: Message | None = None
    goal: Selected | None = None
    film: Film | None = None
    _examining: dict[int, str] = {}
    _painter: Painter | None = None

    def __post_init__(self) -> None:
        read_times_of(self.scene.traces)

    @property
    def painter(self) -> Painter:
        """What draws the scene, and keeps what it has found out."""
        if self._painter is None:
            self._painter = Painter(self.scene)
        return self._painter

    @property
    def is_long(self) -> bool:
        """Whether there is so much that the first frame takes longer than a key may."""
        return sum(len(trace.slices) for trace in self.scene.traces) >= _LONG

    def draw_ahead(self) -> None:
        """Draw a frame out of sight, where traces are long: the first one on screen has less to find out."""
        if self.is_long:
            explorer = Explorer(self.scene, *_UNSEEN)
            self.painter.compose(explorer.rows, explorer.state, *_UNSEEN)

    def examining(self, index: int) -> str:
        """What is going on while there are no findings of profile number ``index``."""
        if not self.whole:
            span, steps = self.profiles[index].trace.end, len(self.scene.steps(index))
            return say("loading.first.steps", span=span, count=steps) if steps else say("loading.first", span=span)
        if index not in self._examining:
            large = self.profiles[index].large_tables()
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

        self.findings[index], self.scene.events[index] = found, self.profiles[index].event_pairs
        if self.picture is None:  # in a comparison the changes are marked
            self.scene.findings[index] = finding_marks(found.findings)

    def take_paths(self, index: int, paths: list[ShownPath]) -> bool:
        """Take the critical paths of profile number ``index``; returns whether a lane shows any of them."""
        from npu_tui.profile.scene import path_charts

        self.paths[index] = paths
        if self.picture is not None:  # a comparison has no room for those of two
            return False
        charts = path_charts(self.scene.traces[index], paths)
        kept = [chart for chart in self.scene.charts[index] if chart.path is None]
        self.scene.charts[index] = [*kept, *charts]
        return bool(charts)

    def remember(self, index: int) -> bool:
        """Take the charts of files beside the trace of profile number ``index``, once read; whether there are any."""
        from npu_tui.profile.scene import cpu_charts, memory_charts, network_charts

        profile = self.profiles[index]
        found = memory_charts(profile) + network_charts(profile) + cpu_charts(profile)
        self.scene.add_charts(index, found)
        return bool(found)


def make_session(profiles: Sequence[Profile], whole: bool = True) -> Session:
    """What the screen needs to know about ``profiles`` before it is drawn; traces may not be ``whole`` yet."""
    from npu_tui.profile.scene import make_scene

    return Session(profiles, make_scene(profiles), whole=whole)


def early_session(profile: Profile) -> Session:
    """``profile`` of a trace that is still loading, or with nothing computed yet."""
    return Session([profile], Scene.plain([profile.trace]), whole=False)
