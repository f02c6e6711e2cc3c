"""Several ranks, two profiles, or a service and its NPUs on one screen: which is shown, how they are aligned."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import numpy.typing as npt

from npu_tui.compare.comparison import ProfileComparison
from npu_tui.compare.measured import MeasuredSide
from npu_tui.compare.picture import ComparisonPicture, compared_scene
from npu_tui.jobs.blame import BlamedCollective
from npu_tui.jobs.job import Job
from npu_tui.jobs.timelines import LateRank, Timelines, running_at
from npu_tui.load.format import OUTPUT
from npu_tui.profile.profile import Profile
from npu_tui.strings import say
from npu_tui.trace.message import Message, message
from npu_tui.trace.model import Trace
from npu_tui.trace.service import whole_quarters
from npu_tui.trace.text import brief, duration_text, printable
from npu_tui.tui.prompt import Desk
from npu_tui.tui.session import Session, make_session
from npu_tui.view.scene import BASE, NEW, ComparedPair, Face, Selected

_LONGEST_NAME = 40


class JobRanks:
    """The session of ``desk`` as a part of its job.

    ``want`` shows the timelines of ranks, with what a late one did in a collective selected.
    """

    def __init__(self, desk: Desk, want: Callable[[list[int], tuple[BlamedCollective, int] | None], object]) -> None:
        self._session, self._explorer, self._want = desk.session, desk.explorer, want

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
    """The two profiles on a ``desk``; without a comparison each method says that there is none."""

    def __init__(self, desk: Desk) -> None:
        self._session, self._explorer = desk.session, desk.explorer

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
        """Show ``face``: the rows of one side stand where those of the other stood."""
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


def second_side(profiles: Sequence[Profile]) -> ProfileComparison:
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
    thread: Message | None = None,
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
    """The operation of ``rank`` when the first rank on screen arrived at the collective; None if unknown."""
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
    session = compared_session(second_side, profiles)
    session.job = Timelines(job, ranks, profiles)
    return session


I64 = npt.NDArray[np.int64]


def meet(session: Session, one: int, other: int) -> bool:
    """Whether two traces of the scene stand where they were recorded, and meet there."""
    traces, offsets = session.scene.traces, session.scene.offsets
    apart = traces[other].start_ns - traces[one].start_ns
    return offsets[other] - offsets[one] == apart and -traces[other].end < apart < traces[one].end


def met(profiles: Sequence[Profile], optional: Sequence[bool]) -> list[Profile]:
    """``profiles`` without those that were found beside a service (``optional``) and do not meet it in time.

    Its health says which. Where the zone of its dates is unknown: the one that lets an NPU work within its time.
    """
    first, kept = profiles[0].trace, [profiles[0]]
    for profile, is_found in zip(profiles[1:], optional[1:], strict=True):
        npu = profile.trace
        if is_found and first.service is not None and first.service.clock.basis == "assumed":
            by = whole_quarters(npu.start_ns + npu.end // 2 - first.start_ns - first.end // 2)
            if _meets(first, npu, by):
                by = 0 if _meets(first, npu, 0) else by
                first.service.move(by, "device")
                first.start_ns += by
                assumed = {"odd.service_clock.assumed"}
                first.health.warnings[:] = [said for said in first.health.warnings if said.code not in assumed]
                first.health.warnings.append(message("odd.service_clock.device", shift=first.service.clock.shift))
        if not is_found or _meets(first, npu, 0):
            kept.append(profile)
        else:
            first.health.warnings.append(message("odd.service_apart", path=_folder_name(npu), when=_day(npu)))
    return kept


def _folder_name(trace: Trace) -> str:
    """The folder of the profile of ``trace`` under the name that tells it from others."""
    path = Path(trace.path)
    return (path.parent.parent if path.parent.name == OUTPUT else path.parent).name


def _day(trace: Trace) -> str:
    """The day on which ``trace`` begins, by its own clock."""
    return f"{datetime.fromtimestamp(trace.start_ns // 1_000_000_000, timezone.utc):%Y-%m-%d}"


def _meets(service: Trace, npu: Trace, by: int) -> bool:
    """Whether two traces have a moment in common, that of the service ``by`` ns later."""
    return -npu.end < npu.start_ns - service.start_ns - by < service.end


def across(session: Session, selected: Selected, onward: bool) -> Selected | None:
    """What ran on the NPU in the batch ``selected``, or in which batch the step or kernel ``selected`` ran.

    None without such, and where the clocks of the two do not meet.
    """
    traces = session.scene.traces
    serving = {number for number, trace in enumerate(traces) if trace.service is not None}
    if (selected.trace in serving) != onward:
        return _inside(session, selected) if onward else None
    others = [number for number in range(len(traces)) if (number in serving) != onward]
    if onward:  # the rank whose process ran the batch, where a process is known
        row = _rows(traces[selected.trace], np.array([selected.item]))[0]
        service = traces[selected.trace].service
        assert service is not None
        process = service.batches.process[row] if row >= 0 else -1
        others = [n for n in others if process in _processes(traces[selected.trace], traces[n])] or others
    for number in others:
        if number < len(session.profiles) and meet(session, selected.trace, number):
            place = (_step if onward else _batch)(session, selected, number)
            if place is not None:
                return place
    return None


def _rows(trace: Trace, items: I64) -> I64:
    """The batch that each slice of a service is, -1 for others; (n,)."""
    service = trace.service
    assert service is not None
    row = trace.slices.event[items] - service.ordinals["batches"]
    return np.where((row >= 0) & (row < len(service.batches)), row, -1)


def _processes(service: Trace, npu: Trace) -> list[int]:
    """The processes of a service (codes) with the number, at the end of their name, of a host process of ``npu``."""
    assert service.service is not None
    hosts = [layer.pid for layer in npu.layers if layer.kind in ("python", "cann")]
    pids = {str(pid) for host in hosts for pid in (host, host >> 10)}
    codes = np.unique(service.service.batches.process).tolist()
    return [code for code in codes if re.split(r"\D", service.service.text(code))[-1] in pids]


def _span_on_clock(session: Session, selected: Selected, trace: int) -> tuple[int, int]:
    """Start and end of a slice on the clock of another trace."""
    start, end = (session.scene.to_trace(trace, when) for when in session.scene.times(selected))
    return start, max(end, start + 1)


def _step(session: Session, selected: Selected, number: int) -> Selected | None:
    """The step of the engine that shares most time with a batch, else the first kernel that starts in it."""
    start, end = _span_on_clock(session, selected, number)
    steps = [step for step in session.profiles[number].engine.steps if step.item >= 0]
    if steps:
        begin = np.array([step.start for step in steps], np.int64)
        last = begin + np.array([step.host or 1 for step in steps], np.int64)
        at = _most_shared(begin, last, start, end)
        if at is not None:
            return Selected(number, steps[at].item)
    return _kernel_within(session.profiles[number], number, start, end)


def _kernel_within(profile: Profile, number: int, start: int, end: int) -> Selected | None:
    slices, busy = profile.trace.slices, np.flatnonzero(profile.compute)
    inside = busy[(slices.start[busy] >= start) & (slices.start[busy] < end)]
    return Selected(number, int(inside[np.argmin(slices.start[inside])])) if len(inside) else None


def _inside(session: Session, selected: Selected) -> Selected | None:
    """The first kernel of a step with launches without links, such as those of a graph."""
    profile = session.profiles[selected.trace] if selected.trace < len(session.profiles) else None
    step = next((step for step in profile.engine.steps if step.item == selected.item), None) if profile else None
    if profile is None or step is None or step.window is None:
        return None
    return _kernel_within(profile, selected.trace, step.window.start, step.window.end)


def _batch(session: Session, selected: Selected, number: int) -> Selected | None:
    """The step around a slice of the host or a kernel; for a step the executed batch that shares most time with it."""
    profile = session.profiles[selected.trace]
    start = session.scene.traces[selected.trace].slices.start[selected.item]
    steps = profile.engine.steps
    for step in steps if all(step.item != selected.item for step in steps) else ():
        window = step.window
        in_host = step.start <= start < step.start + (step.host or 0)
        if step.item >= 0 and (in_host or (window is not None and window.start <= start < window.end)):
            return Selected(selected.trace, step.item)
    start, end = _span_on_clock(session, selected, number)
    trace = session.scene.traces[number]
    processes = _processes(trace, session.scene.traces[selected.trace])
    lanes = [lane for lane in trace.lanes if trace.layers[lane.layer].name.startswith("Engine")]
    for part in ("execute", "forward", "schedule"):
        items = np.concatenate(
            [np.zeros(0, np.int64), *(np.arange(lane.first, lane.last) for lane in lanes if lane.name.startswith(part))]
        )
        rows = _rows(trace, items)
        assert trace.service is not None
        ours = (rows >= 0) & np.isin(trace.service.batches.process[rows], processes)
        items = items[ours] if ours.any() else items  # those of the process that was profiled, where that is known
        at = _most_shared(trace.slices.start[items], trace.slices.end[items], start, end)
        if at is not None:
            return Selected(number, int(items[at]))
    return None


def _most_shared(begin: I64, last: I64, start: int, end: int) -> int | None:
    """Which of the times ``[begin, last)`` shares most with ``[start, end)``, the first of equals; None without any."""
    if not len(begin):
        return None
    shared = np.minimum(last, end) - np.maximum(begin, start)
    at = int(np.argmax(shared))
    return at if shared[at] > 0 else None
