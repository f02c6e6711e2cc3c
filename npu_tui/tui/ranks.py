"""Several ranks or two profiles on one screen: which is shown, and how they are aligned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from rich.text import Text
from textual.geometry import Size

from npu_tui.compare.comparison import PartChange, ProfileComparison
from npu_tui.compare.measured import MeasuredSide
from npu_tui.compare.picture import ComparisonPicture, compared_scene
from npu_tui.compare.steps import StepWindow
from npu_tui.jobs.blame import BlamedCollective
from npu_tui.jobs.job import Job
from npu_tui.jobs.timelines import LateRank, Timelines, running_at
from npu_tui.profile.profile import Profile
from npu_tui.strings import say
from npu_tui.trace.classes import OpClass
from npu_tui.trace.intervals import covered_before
from npu_tui.trace.text import brief, cell_count, change_text, duration_text, printable, probability_text, shortened
from npu_tui.tui.head import HeadLines, profile_name
from npu_tui.tui.session import Session, make_session
from npu_tui.tui.terminal.colours import ALERT, class_colour
from npu_tui.view.explorer import Explorer
from npu_tui.view.scene import BASE, NEW, ComparedPair, Face, Selected

_LONGEST_NAME = 40


class JobRanks:
    """``session``, which ``explorer`` shows, as a part of its job.

    ``want`` shows the timelines of ranks, with what a late one did in a collective selected.
    """

    def __init__(
        self,
        session: Session,
        explorer: Explorer,
        want: Callable[[list[int], tuple[BlamedCollective, int] | None], object],
    ) -> None:
        self._session = session
        self._explorer = explorer
        self._want = want

    @property
    def alone(self) -> bool:
        """Whether one rank of a job is on screen."""
        return self._session.job is not None and len(self._session.scene.traces) == 1

    def beside(self, direction: int) -> str | None:
        """The rank with the next (1) or previous (-1) number that has a trace."""
        lines = self._session.job
        assert lines is not None
        there = sorted(profile.rank for profile in lines.job.ranks if profile.has_trace)
        at = there.index(lines.ranks[0]) + direction if lines.ranks[0] in there else -1
        if not 0 <= at < len(there):
            return say("rank.last" if direction > 0 else "rank.first")
        self._want([there[at]], None)
        return None

    def late(self) -> LateRank | None:
        """Who came last to the selected collective; None where that is no other rank, or nothing of that is known."""
        lines, selected = self._session.job, self._explorer.state.selection
        if lines is None or selected is None or self._session.picture is not None:
            return None
        late = lines.late(selected.trace, selected.item)
        return None if late is None or late.rank == lines.ranks[selected.trace] else late

    def follow(self, late: LateRank) -> str | None:
        """From the selected collective to what the rank that came last did meanwhile."""
        lines, waiting = self._session.job, self._explorer.state.selection
        assert lines is not None
        assert waiting is not None
        if late.rank not in lines.ranks:
            traced = {profile.rank: profile.has_trace for profile in lines.job.ranks}
            if not traced.get(late.rank, False):
                return say("ranks.late.no_trace", rank=late.rank, cost=late.cost)
            self._want([*lines.ranks, late.rank], (late.blamed, late.rank))
            return None
        scene, to = self._session.scene, lines.ranks.index(late.rank)
        item = running_at(self._session.profiles[to], scene.to_trace(to, scene.times(waiting)[0]))
        if item is None:
            return say("ranks.late.nothing", rank=late.rank, cost=late.cost)
        self._explorer.select(Selected(to, item))
        name = brief(printable(scene.traces[to].name_of(item)), _LONGEST_NAME)
        return say("ranks.late", rank=late.rank, cost=late.cost, name=name)


def apart_words(session: Session) -> str:
    """Which ranks stand apart because nothing ties their clocks; nothing where all are tied."""
    apart = session.job.apart if session.job is not None and len(session.profiles) > 1 else []
    return say("ranks.apart.told", ranks=apart) if apart else ""


_NEXT: dict[Face, Face] = {"both": "base", "base": "new", "new": "both"}


class ComparedRanks:
    """The two profiles of ``session``, which ``explorer`` shows; without a comparison each says that there is none."""

    def __init__(self, session: Session, explorer: Explorer) -> None:
        self._session = session
        self._explorer = explorer

    def align(self) -> str:
        """Lay the two sides on each other another way: the selected slices, all that is matched, or the steps."""
        pair = self._session.scene.pair
        if pair is None:
            return say("compared.none")
        if pair.alignment == "step":
            return self._align_here(pair) or self._align_all(pair)
        return self._align_all(pair) if pair.alignment == "operation" else self._align_steps(pair)

    def _align_steps(self, pair: ComparedPair) -> str:
        self._explorer.leave()
        pair.alignment = "step"
        self._explorer.set_offsets(pair.offsets)
        self._explorer.show(*pair.step(self._session.scene.offsets))
        return say("compared.aligned.step")

    def _align_here(self, pair: ComparedPair) -> str:
        """Lay the selected slice on its counterpart; nothing where none is selected or it has none."""
        selected, picture = self._explorer.state.selection, self._session.picture
        twin = None if selected is None or picture is None else picture.counterpart(selected.trace, selected.item)
        if selected is None or twin is None:
            return ""
        other = Selected(1 - selected.trace, twin)
        base, new = (selected, other) if selected.trace == BASE else (other, selected)
        scene = self._session.scene
        by = scene.times(base)[0] - scene.times(new)[0]
        self._explorer.shift(NEW, by)
        pair.alignment = "operation"
        name = brief(printable(self._session.scene.traces[selected.trace].name_of(selected.item)), _LONGEST_NAME)
        return say("compared.aligned.operation", name=name, by=duration_text(abs(by)))

    def _align_all(self, pair: ComparedPair) -> str:
        self._explorer.leave()
        self._explorer.set_offsets(pair.offsets)
        pair.alignment = "every"
        self._explorer.show(*pair.step(self._session.scene.offsets))
        return say("compared.aligned.every")

    def counterpart(self) -> str:
        """To the slice of the other side that the selected one, or the one under the cursor, is matched with."""
        if self._explorer.state.selection is None:
            self._explorer.select_under_cursor()
        selected, picture = self._explorer.state.selection, self._session.picture
        if picture is None:
            return say("compared.none")
        if selected is None:
            return say("select.none")
        twin = picture.counterpart(selected.trace, selected.item)
        if twin is None:
            return say("compared.no_twin", side=say(f"column.{'new' if selected.trace == BASE else 'base'}"))
        if picture.pair.face != "both":
            self._turn(picture.pair, "new" if selected.trace == BASE else "base")
        scene = self._session.scene
        traces = [scene.traces[selected.trace], scene.traces[1 - selected.trace]]
        lengths = [
            int(trace.slices.end[item] - trace.slices.start[item])
            for trace, item in zip(traces, (selected.item, twin), strict=True)
        ]
        self._explorer.select(Selected(1 - selected.trace, twin))
        base, new = lengths if selected.trace == BASE else lengths[::-1]
        name = brief(printable(traces[1].name_of(twin)), _LONGEST_NAME)
        return say("compared.twin", name=name, base=base, new=new, delta=new - base)

    def turn(self) -> str:
        """Show both sides, the first, or the second."""
        pair = self._session.scene.pair
        if pair is None:
            return say("compared.none")
        self._turn(pair, _NEXT[pair.face])
        return say(f"compared.shown.{pair.face}")

    def _turn(self, pair: ComparedPair, face: Face) -> None:
        """Show ``face``: of one side the rows stand where those of the other stood."""
        alike = "both" not in (face, pair.face)
        pair.face = face
        self._explorer.list.show_face(alike)

    def step(self, direction: int) -> str:
        """Draw the next (1) or previous (-1) step of both sides."""
        picture, explorer = self._session.picture, self._explorer
        if picture is None:
            return say("compared.none")
        if not picture.move(direction):
            return say("step.last" if direction > 0 else "step.first")
        scene, pair = self._session.scene, picture.pair
        explorer.leave()
        if pair.alignment == "operation":
            pair.alignment = "step"
        explorer.state.selection = None
        explorer.set_offsets(pair.offsets)
        scene.findings = picture.marks()
        explorer.show(*pair.step(scene.offsets))
        base, new = picture.drawn.windows
        return say(
            "compared.steps", base=base.number, new=new.number, base_wall=base.wall, new_wall=new.wall,
            delta=new.wall - base.wall,
        )  # fmt: skip


def of_sides(profiles: Sequence[Profile]) -> ProfileComparison:
    """The second of two profiles held against the first."""
    return ProfileComparison(MeasuredSide(profiles[0]), MeasuredSide(profiles[1]))


def compared_session(compare: Callable[[Sequence[Profile]], ProfileComparison], profiles: Sequence[Profile]) -> Session:
    """The session of two profiles, compared as ``compare`` says."""
    picture = ComparisonPicture(compare(profiles))
    return Session(profiles, compared_scene(picture), picture=picture)


def ranks_session(
    job: Job,
    ranks: Sequence[int],
    shown: BlamedCollective | None,
    followed: int | None,
    profiles: Sequence[Profile],
    begun: int | None = None,
    thread: str = "",
) -> Session:
    """The ``profiles`` of ``ranks`` on one clock, with the collective ``shown`` selected in the first of them.

    ``thread`` is what the job says of them.

    With ``followed`` it is what that rank did while the others waited in that collective. With ``begun``, ns since 1970
    on the device of the first one, it is the first kernel from then on.
    """
    session = make_session(profiles)
    lines = Timelines(job, ranks, profiles)
    session.scene.set_offsets(lines.offsets())
    session.scene.stacked = True
    session.job, session.thread = lines, thread
    if begun is not None:
        session.goal = _first_kernel(profiles[0], begun)
    elif shown is not None and followed is not None and followed in ranks:
        session.goal = late_operation(session, shown, followed)
    elif shown is not None:
        item = lines.item_of(0, shown)
        session.goal = None if item is None else Selected(0, item)
    return session


def _first_kernel(profile: Profile, begun: int) -> Selected | None:
    """The first kernel that begins at ``begun`` ns since 1970 or later."""
    start = profile.trace.slices.start
    later = np.flatnonzero(profile.compute & (start >= begun - profile.trace.start_ns))
    return Selected(0, int(later[np.argmin(start[later])])) if len(later) else None


def late_operation(session: Session, blamed: BlamedCollective, rank: int) -> Selected | None:
    """What ``rank`` did when the first of the ranks on screen had come to the collective; None if nothing is known."""
    lines = session.job
    if lines is None or rank not in lines.ranks:
        return None
    to = lines.ranks.index(rank)
    waiting = [
        session.scene.times(Selected(number, item))[0]
        for number in range(len(lines.ranks))
        if number != to and (item := lines.item_of(number, blamed)) is not None
    ]
    if not waiting:
        return None
    item = running_at(session.profiles[to], session.scene.to_trace(to, min(waiting)))
    return None if item is None else Selected(to, item)


def against(job: Job, ranks: Sequence[int], profiles: Sequence[Profile]) -> Session:
    """The second of two ranks held against the first."""
    session = compared_session(of_sides, profiles)
    session.job = Timelines(job, ranks, profiles)
    return session


_FILLS = {"idle": "╱", "computing": "█", "exposed": "▒", "outside": "·"}
_CLASSES = {"idle": OpClass.WAIT, "computing": OpClass.CUBE, "exposed": OpClass.COMMUNICATION, "outside": OpClass.STEP}
_KINDS = tuple(_FILLS)
_WIDE = 110
_BAR = 6
"""Cells of the longest bar beside a part of the step."""


class ComparedHead(HeadLines):
    """Both profiles, the verdict of their comparison, and both steps in bars."""

    def __init__(self, picture: ComparisonPicture) -> None:
        super().__init__()
        self._picture = picture

    def show(self, explorer: Explorer, size: Size) -> None:
        """Fill the lines for a terminal of ``size``; the lowest ones have no room for the bars."""
        width = size.width - 2
        self.headline.fill([self._sides(explorer, width)])
        self.verdict.fill([self._verdict(width), self._parts(width)][: 1 if size.height < 18 else 2])
        self.facts.fill(self._bars(width) if size.height >= 20 else [])

    def _sides(self, explorer: Explorer, width: int) -> Text:
        """Both profiles, and how their clocks lie over one another."""
        pair = explorer.scene.pair
        alignment = say(f"compared.alignment.{pair.alignment}") if pair is not None else ""
        if pair is not None and pair.face != "both":
            alignment = f"{say(f'compared.face.{pair.face}')}  {alignment}"
        wide = width >= _WIDE
        facts = [self._facts(side, wide) for side in self._picture.comparison.sides]
        title = say("compared.title") + "  " if wide else ""
        room = width - cell_count(title) - cell_count(alignment) - sum(map(cell_count, facts)) - 11
        line = Text(title, style="bold", no_wrap=True, end="")
        for sign, side, fact in zip("BN", self._picture.comparison.sides, facts, strict=True):
            if sign == "N":
                line.append("  →  ")
            line.append(f"{sign} ", style="bold")
            path = shortened(printable(profile_name(side.trace.path)), max(room // 2, 8), ahead=True)
            line.append(path, style="not bold")
            line.append(fact, style="dim not bold")
        gap = width - line.cell_len - cell_count(alignment)
        line.append(" " * max(gap, 2) + alignment, style="bold")
        return line

    @staticmethod
    def _facts(side: MeasuredSide, wide: bool) -> str:
        """How many steps, which rank and level a side has."""
        count = len(side.windows)
        if not wide:
            return f" ({count})" if side.windows[0].name is not None else ""
        words = []
        if side.windows[0].name is not None:
            words.append(say("compare.steps", count=count))
        if side.trace.rank is not None:
            words.append(say("header.rank", rank=side.trace.rank))
        if side.profile.profiler_level is not None:
            words.append(say("compared.level", level=side.profile.profiler_level))
        return "".join(f"  {word}" for word in words)

    def _verdict(self, width: int) -> Text:
        """The verdict and what it rests on."""
        comparison = self._picture.comparison
        step = comparison.step
        base, new = step.before, step.after
        style = f"bold {ALERT}" if step.verdict == "slower" else "bold"
        line = Text(say(f"compare.verdict.{step.verdict}"), style=style, no_wrap=True, end="")
        share = step.delta / base if base else 0.0
        words = [say("compared.step", base=base, new=new, delta=step.delta, share=share)]
        if step.shift is not None:
            p = probability_text(step.shift.p)
            words.append(say("compared.interval", low=step.shift.low, high=step.shift.high, p=p))
        elif step.verdict == "unsure":
            words.append(say("compared.few"))
        elif step.verdict in ("slower", "faster"):
            words.append(say("compared.far"))
        if comparison.computing is not None:
            known = comparison.computing
            words.append(say(f"compared.computing.{known.verdict}", delta=known.delta))
        if step.visible is not None and base:
            words.append(say("compared.visible", share=step.visible / base))
        if comparison.operations_matched is not None:
            words.append(say("compared.matched", share=comparison.operations_matched))
        for word in words:
            if line.cell_len + 2 + cell_count(word) <= width:
                line.append(f"  {word}", style="default not bold")
        return line

    def _parts(self, width: int) -> Text:
        """The difference of every part of the step, beside bars where there is room; they sum to that of the step."""
        rows = [row for row in self._picture.comparison.parts if row.delta]
        if not rows:
            return Text(say("compared.no_parts"), style="dim", no_wrap=True, end="")
        for form, bars in (("", True), ("", False), (".short", False)):
            line = _waterfall(rows, form, bars)
            if line.cell_len <= width:
                return line
        order = sorted(rows, key=lambda row: -abs(row.delta))
        for kept in range(len(rows) - 1, 0, -1):
            line = _waterfall([row for row in rows if row in order[:kept]], ".short", False, sum_of=rows)
            if line.cell_len <= width:
                break
        return line

    def _bars(self, width: int) -> list[Text]:
        """Both drawn steps on one scale."""
        picture = self._picture
        windows = picture.drawn.windows
        names = [f"{sign} {_step_name(window)}" for sign, window in zip("BN", windows, strict=True)]
        ends = [f" {duration_text(window.wall)}" for window in windows]
        left, right = max(map(cell_count, names)) + 1, max(map(cell_count, ends))
        longest = max(max(window.wall for window in windows), 1)
        lines = []
        for side, window, name, end in zip(picture.comparison.sides, windows, names, ends, strict=True):
            cells = max(round((width - left - right) * window.wall / longest), 1)
            line = Text(name.ljust(left), style="bold", no_wrap=True, end="")
            for kind, count in _runs(_classes(side, window, cells)):
                line.append(_FILLS[kind] * count, style=f"not bold {class_colour(_CLASSES[kind])}")
            line.append(end, style="not bold")
            lines.append(line)
        return lines


def _waterfall(shown: list[PartChange], form: str, bars: bool, sum_of: list[PartChange] | None = None) -> Text:
    """The parts ``shown``, what the others of ``sum_of`` make together, and the sum."""
    total = sum(row.delta for row in sum_of or shown)
    most = max(abs(row.delta) for row in shown)
    rest = total - sum(row.delta for row in shown)
    parts = [(say(f"compared.part.{row.part}{form}"), row.delta) for row in shown]
    line = Text(no_wrap=True, end="")
    for number, (name, delta) in enumerate([*parts, (say("compared.part.others"), rest)] if sum_of else parts):
        line.append(" │ " if bars and number else "  " if number else "", style="dim")
        line.append(f"{name} ", style="dim")
        line.append(change_text(delta, 4 if bars else 3), style="bold" if abs(delta) == most else "")
        cells = round(_BAR * abs(delta) / most)
        if bars and cells:
            line.append(" " + "█" * cells, style=ALERT if delta > 0 else class_colour(OpClass.VECTOR))
    line.append(f" = {change_text(total, 4)}", style="bold")
    return line


def _step_name(window: StepWindow) -> str:
    return "" if window.name is None else f"#{window.number}" if window.number is not None else window.name


def _classes(side: MeasuredSide, window: StepWindow, cells: int) -> npt.NDArray[np.int64]:
    """What each of ``cells`` equal parts of the step was mostly spent on, as an index of the kinds of fills."""
    if side.claims is None:
        return np.full(cells, _KINDS.index("outside"))
    edges = (window.start + np.arange(cells + 1) * window.wall // cells).astype(np.float64)
    own = [np.diff(covered_before(*spans, edges)) for spans in (side.claims.computing, side.claims.exposed)]
    busy = np.flatnonzero((own[0] + own[1]) > 0)
    found = np.full(cells, _KINDS.index("idle"))
    found[: int(busy[0]) if len(busy) else cells] = _KINDS.index("outside")
    found[int(busy[-1]) + 1 if len(busy) else cells :] = _KINDS.index("outside")
    half = np.diff(edges) / 2
    found[own[1] >= half] = _KINDS.index("exposed")
    found[own[0] >= half] = _KINDS.index("computing")
    return found


def _runs(kinds: npt.NDArray[np.int64]) -> list[tuple[str, int]]:
    """Equal neighbours together: the kind and how many cells."""
    edges = np.concatenate(([0], np.flatnonzero(np.diff(kinds)) + 1, [len(kinds)]))
    return [(_KINDS[int(kinds[low])], int(high - low)) for low, high in pairwise(edges.tolist()) if high > low]
