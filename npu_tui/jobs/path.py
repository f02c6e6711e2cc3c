"""The path of a job: the chain of what held up the end of its run, through the ranks that it leads to, on one clock.

It begins in the rank that ends last and goes back through what held that up (``analysis/path.py``). At a collective it
goes on in the rank that came last, at its arrival; at a receive of a pipeline in the sender. A rank without a recording
holds the path for as long as others waited for it. The stretches are the run of the job: each begins where the one
before it ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.code_lines import CodeLine
from npu_tui.analysis.communication import UNKNOWN
from npu_tui.analysis.path import KINDS, LATE_RANK, UNEXPLAINED, Doing, PathKind
from npu_tui.jobs.job import Job, Only
from npu_tui.jobs.kept import summaries_in
from npu_tui.jobs.path_walk import JobWalk, RankWalk, Section, concatenated, rank_of
from npu_tui.rules.judged_path import owner_name, owner_text
from npu_tui.trace.arrays import I64, summed
from npu_tui.trace.message import Message, message
from npu_tui.trace.once import of_trace
from npu_tui.trace.text import brief, decimal_number


class JobOwner(Struct, frozen=True):
    """An owner of stretches of the path: ``on_path`` ns in ``count`` stretches of ``rank``, None if no task names it.

    The fields are those of ``Owner``; ``text`` says what it is, ``name`` without its line. ``gain`` is how much
    shorter the run is without it, ns: at a collective at most the time between the second latest rank and this one;
    None if the job cannot do without it.
    """

    rank: int | None
    kind: PathKind
    text: Message
    name: Message
    doing: Doing = "device"
    where: CodeLine | None = None
    thread: int = -1
    on_path: int = 0
    count: int = 0
    gain: int | None = None


class RankShare(Struct, frozen=True):
    """How long ``rank`` (None: unknown ones) holds the path, ns; ``recorded``: its trace says by what."""

    rank: int | None
    on_path: int
    recorded: bool


class JobStretch(Struct, frozen=True):
    """A stretch of the path from ``start`` to ``end``, ns since it begins; ``owner`` is a place in ``owners``."""

    start: int
    end: int
    kind: PathKind
    rank: int | None
    lane: str
    name: str
    owner: int


class JobPath(Struct, frozen=True):
    """The path of a job, ``length`` ns, with its ``owners`` and ``ranks``, most time first, and all ``stretches``.

    A gain divided by ``count`` is that of one ``unit`` (step, …; run). Where there is no path, ``reason`` says why.
    """

    unit: str = "run"
    count: int = 1
    length: int = 0
    owners: tuple[JobOwner, ...] = ()
    ranks: tuple[RankShare, ...] = ()
    stretches: tuple[JobStretch, ...] = ()
    reason: Message | None = None

    def gain_of(self, owner: JobOwner) -> float | None:
        """How much shorter a unit is without ``owner``, ns; None for what cannot be removed."""
        return None if owner.gain is None else owner.gain / self.count

    @property
    def sentence(self) -> Message | None:
        """The rank that holds the path longest, with the time and its largest owner; None without a path."""
        if not self.ranks:
            return None
        first = self.ranks[0]
        unit, share = message(f"finding.unit.{self.unit}"), first.on_path / self.length
        if first.rank is None:
            return message("job.path.unknown", share=share, unit=unit)
        held = [owner for owner in self.owners if owner.rank == first.rank]
        if not first.recorded or not held:
            return message("job.path.unrecorded", rank=first.rank, share=share, unit=unit)
        part = held[0].on_path / self.length
        return message("job.path.told", rank=first.rank, share=share, unit=unit, part=part, what=held[0].text)


@of_trace
def job_path(job: Job) -> JobPath:
    """The path of ``job``, or of the step of it that is looked at. Reads the traces of the ranks that it leads to."""
    reason = _why_no_path(job)
    if reason is not None:
        return JobPath(reason=reason)
    # What is blamed may be narrowed to a group or a step, the chain goes through all of them.
    whole = job if job.only == Only() else Job(job.path, job.ranks, survey=job.survey)
    step = job.only.step
    walk = JobWalk(whole, decimal_number(step))
    last = walk.last_rank()
    return JobPath(reason=last) if isinstance(last, Message) else _path_ending_with(walk, last)


def _why_no_path(job: Job) -> Message | None:
    """Why nothing can be said of ``job`` at all."""
    if len(job.parts) > 1 or any(len(profile.folders) > 1 for profile in job.ranks):
        return message("job.path.roles")
    if not any(profile.has_trace for profile in job.ranks):
        return message("job.path.no_traces")
    if summaries_in(job.path, job.survey):  # the walk reads traces, which may lie elsewhere
        return message("job.path.kept")
    if all(profile.ended is None for profile in job.ranks):
        return message("job.path.unread")
    return None


class _PathRows(Struct, frozen=True):
    """Stretches on the common clock: their section, and the number of their owner; (n,) each."""

    start: I64
    end: I64
    kind: I64
    item: I64
    thread: I64
    section: I64
    owner: I64


def _path_ending_with(walk: JobWalk, last: RankWalk) -> JobPath:
    """The path that ends with the run of ``last``, with its owners."""
    sections = walk.sections(last)
    if last.until is not None:
        sections = _sections_within(walk, sections, last.common_time(last.since), last.common_time(last.until))
    if not sections:
        return JobPath(reason=message("job.path.nothing"))
    owners: list[JobOwner] = []
    rows: list[_PathRows] = []
    for place in sorted({section.place for section in sections}):
        of_rank = walk.rank(place)
        assert isinstance(of_rank, RankWalk)
        mine = [number for number, section in enumerate(sections) if section.place == place]
        rows += _rows_of(of_rank, sections, mine, owners)
    return _summed(walk, last, sections, _filled_rows(sections, rows, owners), owners)


def _sections_within(walk: JobWalk, sections: Iterable[Section], begin: int, end: int) -> list[Section]:
    """``sections`` from ``begin`` to ``end``, ns since 1970 on the common clock."""
    kept = []
    for section in sections:
        low, high = max(section.begin, begin), min(section.end, end)
        of_rank = walk.rank(section.place)
        if low < high and isinstance(of_rank, RankWalk):
            since = section.since if low == section.begin else of_rank.own_time(low)
            until = section.until if high == section.end else of_rank.own_time(high)
            path = section.path.within(since, until)
            kept.append(replace(section, path=path, since=since, until=until, begin=low, end=high))
    return kept


def _rows_of(walk: RankWalk, sections: Sequence[Section], mine: list[int], owners: list[JobOwner]) -> list[_PathRows]:
    """The stretches of the sections ``mine`` of one rank; their owners are added to ``owners``."""
    path = concatenated([sections[number].path for number in mine])
    since = np.array([sections[number].since for number in mine], np.int64)
    absent = path.taken(path.kind == LATE_RANK)
    found = []
    own = path.taken(path.kind != LATE_RANK)
    if len(own):
        judged = walk.owners(own)
        numbers = judged.owner + len(owners)
        trace = walk.facts.trace
        owners += [
            JobOwner(
                walk.rank, owner.kind, owner_text(trace, owner), owner_name(trace, owner), owner.doing, owner.where,
                owner.thread, gain=owner.gain,
            )
            for owner in judged.owners
        ]  # fmt: skip
        found.append((judged.path, numbers))
    for peer in np.unique(absent.peer).tolist():
        stretches = absent.taken(absent.peer == peer)
        found.append((stretches, np.full(len(stretches), len(owners))))
        owners.append(_late_rank_owner(rank_of(peer)))
    rows = []
    for stretches, numbers in found:
        section = np.array(mine, np.int64)[np.searchsorted(since, stretches.start, "right") - 1]
        low, high = (
            np.array([getattr(each, name) for each in sections], np.int64)[section] for name in ("begin", "end")
        )
        start, end = (np.clip(walk.common(times), low, high) for times in (stretches.start, stretches.end))
        kind = stretches.kind.astype(np.int64)
        rows.append(_PathRows(start, end, kind, stretches.item, stretches.thread, section, numbers))
    return rows


def _late_rank_owner(rank: int) -> JobOwner:
    """A rank that holds the path and cannot be walked."""
    text = message("path.owner.rank_unknown") if rank == UNKNOWN else message("job.path.absent", rank=rank)
    return JobOwner(None if rank == UNKNOWN else rank, "late_rank", text, text)


def _filled_rows(sections: Sequence[Section], rows: Sequence[_PathRows], owners: list[JobOwner]) -> _PathRows:
    """All stretches by time, without overlaps; gaps that the clocks of two ranks leave between them have an owner too.

    It is added to ``owners``.
    """
    start, end, kind, item, thread, section, owner = (
        np.concatenate([getattr(row, name) for row in rows]) for name in _PathRows.__struct_fields__
    )
    order = np.lexsort((end, start))
    start, end = start[order], end[order]
    done = np.maximum.accumulate(end)
    start[1:] = np.maximum(start[1:], done[:-1])
    lasting = np.flatnonzero(end > start)
    order, start, end = order[lasting], start[lasting], end[lasting]
    begins, ends = np.append(start, sections[-1].end), np.append(sections[0].begin, end)
    gap = np.flatnonzero(begins > ends)
    columns = [kind[order], item[order], thread[order], section[order], owner[order]]
    if len(gap):
        none = np.full(len(gap), -1, np.int64)
        of_section = columns[3][np.minimum(gap, len(start) - 1)]
        filled = np.full(len(gap), UNEXPLAINED), none, none, of_section, np.full(len(gap), len(owners))
        text = message("job.path.clocks")
        owners.append(JobOwner(None, "unexplained", text, text))
        columns = [np.concatenate(both) for both in zip(columns, filled, strict=True)]
        start, end = np.append(start, ends[gap]), np.append(end, begins[gap])
    by_time = np.argsort(start, kind="stable")
    return _PathRows(start[by_time], end[by_time], *(column[by_time] for column in columns))


def _summed(
    walk: JobWalk, last: RankWalk, sections: Sequence[Section], rows: _PathRows, owners: Sequence[JobOwner]
) -> JobPath:
    """The path with what its owners and ranks hold of it."""
    time = rows.end - rows.start
    on_path, count = summed(rows.owner, time, len(owners)).tolist(), np.bincount(rows.owner, minlength=len(owners))
    most = _most_gains(walk, sections, rows, owners)
    order = [number for number in sorted(range(len(owners)), key=lambda one: -on_path[one]) if on_path[number]]
    told = []
    for number in order:
        owner = owners[number]
        gain = None if owner.gain is None else min(owner.gain, most[number])
        told.append(replace(owner, on_path=on_path[number], count=int(count[number]), gain=gain))
    held: dict[int | None, int] = {}
    for owner in told:
        held[owner.rank] = held.get(owner.rank, 0) + owner.on_path
    recorded = {owner.rank for owner in told if owner.kind != "late_rank" and owner.rank is not None}
    ranks = [RankShare(rank, length, rank in recorded) for rank, length in held.items()]
    ranks.sort(key=lambda share: -share.on_path)
    place = np.full(len(owners), -1, np.int64)
    place[order] = np.arange(len(order))
    begin = int(rows.start[0])
    return JobPath(
        last.facts.unit_name,
        last.facts.count,
        int(rows.end[-1]) - begin,
        tuple(told),
        tuple(ranks),
        tuple(_job_stretches(walk, sections, rows, place, told, begin)),
    )


def _most_gains(walk: JobWalk, sections: Sequence[Section], rows: _PathRows, owners: Sequence[JobOwner]) -> list[int]:
    """What the job gains at most without each owner: before every collective what its rank came after the second, ns.

    Before the end of the run, and where no second one is known, it is all that the owner holds there.
    """
    key, place = np.unique(rows.owner * len(sections) + rows.section, return_inverse=True)
    held = summed(place, rows.end - rows.start, len(key))
    leads = [-1 if section.row < 0 else walk.lead(section.place, section.row, section.begin) for section in sections]
    lead = np.array(leads, np.int64)[key % len(sections)]
    length = np.array([section.end - section.begin for section in sections], np.int64)[key % len(sections)]
    # A wait that is gone may save more than it took itself.
    waits = np.array([owner.doing == "wait" for owner in owners], np.bool_)[key // len(sections)]
    most = np.where(waits, length, held)
    most = np.where(lead >= 0, np.minimum(most, lead), most)
    return [int(value) for value in summed(key // len(sections), most, len(owners)).tolist()]


def _job_stretches(
    walk: JobWalk, sections: Sequence[Section], rows: _PathRows, place: I64, owners: Sequence[JobOwner], begin: int
) -> Iterable[JobStretch]:
    columns = (rows.start, rows.end, rows.kind, rows.item, rows.section, place[rows.owner])
    for start, end, kind, item, section, owner in zip(*(column.tolist() for column in columns), strict=True):
        of_rank = walk.rank(sections[section].place)
        lane = name = ""
        if item >= 0 and isinstance(of_rank, RankWalk):
            trace = of_rank.facts.trace
            lane = brief(trace.lanes[trace.slices.lane[item]].name)
            name = brief(trace.name_of(item))
        yield JobStretch(start - begin, end - begin, KINDS[kind], owners[owner].rank, lane, name, owner)
