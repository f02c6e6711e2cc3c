"""What the ranks of a job recorded, before it is brought to one clock, and its calls as columns."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import Formatter
from typing import Any, ClassVar, TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import force_setattr
from msgspec.structs import replace as with_fields

from npu_tui.analysis.experts import ExpertPass, Pace
from npu_tui.jobs.columns import Names, RowColumns
from npu_tui.rules.model import FindingClass
from npu_tui.strings import texts_of
from npu_tui.trace.arrays import I64, U64, Bools
from npu_tui.trace.message import Message
from npu_tui.trace.recorder import Recorder, recorder_named
from npu_tui.trace.text import decimal_number

_BARRIERS = frozenset(
    ("allreduce", "allgather", "reducescatter", "alltoall", "alltoallv", "alltoallvc", "barrier",
     "moedistributedispatch", "moedistributecombine")
)  # fmt: skip
_PAIRS = frozenset(("batchsendrecv", "sendrecv"))
_SENDS, _RECEIVES = frozenset(("send",)), frozenset(("receive", "recv"))


def is_barrier(kind: str) -> bool:
    """Whether no rank can leave a collective of this type before all have arrived."""
    return kind.lower() in _BARRIERS


def is_pair(kind: str) -> bool:
    """Whether a call of this type is a barrier of two ranks, in a group that may have more."""
    return kind.lower() in _PAIRS


def is_send(kind: str) -> bool:
    """Whether a call of this type goes to one rank that receives."""
    return kind.lower() in _SENDS


def is_receive(kind: str) -> bool:
    """Whether a call of this type waits for one rank that sends."""
    return kind.lower() in _RECEIVES


def is_message(kind: str) -> bool:
    """Whether a call of this type is between two ranks only."""
    return is_pair(kind) or is_send(kind) or is_receive(kind)


NO_ORDINAL = -1

NO_PAIR = -1
_PLACES = 1 << 24  # two places make one number of 48 bits


def pair_of(place: int, other: int) -> int:
    """A number for two places in a group, the same whichever comes first; ``NO_PAIR`` if one of them is no place."""
    low, high = sorted((place, other))
    return low * _PLACES + high if low >= 0 and high < _PLACES else NO_PAIR


class RecordedCall(Struct, frozen=True):
    """A collective as one rank recorded it: ``start`` and ``end`` in ns since 1970, by the clock of its device.

    ``ordinal`` is that of the profiler within the group, None where the name has none; ``group`` identifies a group of
    the job and is the same on all its ranks. ``pair`` names the two places of the group that a message is between.
    """

    group: str
    type: str
    name: str
    step: str
    ordinal: int | None
    start: int
    end: int
    pair: int = NO_PAIR


@dataclass(frozen=True, slots=True, eq=False)
class RankCalls(RowColumns[RecordedCall]):
    """The calls of one rank by their start, as columns of (n,) each: ``kind`` is an index into ``kinds``.

    A kind is (group, type, step); ``ordinal`` is ``NO_ORDINAL`` where the name has none, ``pair`` ``NO_PAIR`` where it
    is not known, or where more than two ranks take part.
    """

    kinds: tuple[tuple[str, str, str], ...]
    name: Sequence[str]
    kind: I64
    ordinal: I64
    start: I64
    end: I64
    pair: I64

    @staticmethod
    def of(rows: Iterable[RecordedCall]) -> RankCalls:
        """``rows`` as columns; themselves where they are."""
        if isinstance(rows, RankCalls):
            return rows
        rows = list(rows)
        return RankCalls.sorted(
            [row.name for row in rows],
            [(row.group, row.type, row.step) for row in rows],
            [NO_ORDINAL if row.ordinal is None else row.ordinal for row in rows],
            [row.start for row in rows],
            [row.end for row in rows],
            [row.pair for row in rows],
        )

    @staticmethod
    def sorted(
        names: Sequence[str],
        kinds: Sequence[tuple[str, str, str]],
        ordinals: Sequence[int],
        starts: Sequence[int] | I64,
        ends: Sequence[int] | I64,
        pairs: Sequence[int] | None = None,
    ) -> RankCalls:
        """Columns in any order, brought into that of the starts; without ``pairs`` none of them is known."""
        codes: dict[tuple[str, str, str], int] = {}
        kind = np.array([codes.setdefault(row, len(codes)) for row in kinds], np.int64)
        pairs = [NO_PAIR] * len(names) if pairs is None else pairs
        ordinal, start, end, pair = (np.asarray(column, np.int64) for column in (ordinals, starts, ends, pairs))
        order = np.argsort(start, kind="stable")
        if len(order) and (np.diff(order) == 1).all():
            return RankCalls(tuple(codes), tuple(names), kind, ordinal, start, end, pair)
        named = tuple(names[place] for place in order.tolist())
        return RankCalls(tuple(codes), named, kind[order], ordinal[order], start[order], end[order], pair[order])

    def __len__(self) -> int:
        return len(self.name)

    def row_at(self, place: int) -> RecordedCall:
        """The call at ``place``."""
        ordinal = int(self.ordinal[place])
        group, kind, step = self.kinds[self.kind[place]]
        known = None if ordinal == NO_ORDINAL else ordinal
        times = int(self.start[place]), int(self.end[place])
        return RecordedCall(group, kind, self.name[place], step, known, *times, int(self.pair[place]))


class Notify(Struct, frozen=True):
    """A record for, or a wait for, ``peer`` inside the call ``name``; times as those of ``RecordedCall``.

    The k-th wait with ``key`` on one rank ends after the k-th record with it starts on the other. ``peer`` is a rank of
    the job, or, where this rank's own ``place`` in the group is known, a place in it too.
    """

    waits: bool
    peer: int
    name: str
    key: int
    start: int
    end: int
    place: int = -1


class Seen(Struct, frozen=True):
    """What a rank saw of a peer in the call ``name``: it was there ``after`` ns after this rank's start, or before.

    ``peer`` and ``place`` are as in ``Notify``.
    """

    name: str
    peer: int
    after: int
    at_most: bool
    place: int = -1


_Row = TypeVar("_Row")
_Columns = TypeVar("_Columns", bound="PeerColumns[Any]")
_TYPES = {"key": np.uint64, "waits": np.bool_, "at_most": np.bool_}
"""Of columns that are no int64."""


@dataclass(frozen=True, slots=True, eq=False)
class PeerColumns(RowColumns[_Row]):
    """What a rank recorded of its peers, columns of (n,) with the fields of ``ROW``."""

    ROW: ClassVar[type[Struct]]

    name: Names
    peer: I64
    place: I64

    @classmethod
    def of(cls: type[_Columns], rows: Sequence[Any]) -> _Columns:
        """``rows`` as columns; themselves where they are."""
        if isinstance(rows, cls):
            return rows
        columns = {field: [getattr(row, field) for row in rows] for field in cls.ROW.__struct_fields__}
        names = Names.of(columns.pop("name"))
        return cls(names, **{field: np.array(rows, _TYPES.get(field, np.int64)) for field, rows in columns.items()})

    def __len__(self) -> int:
        return len(self.peer)

    def row_at(self, place: int) -> Any:
        """The row at ``place``."""
        values = {field: getattr(self, field)[place] for field in self.ROW.__struct_fields__}
        return self.ROW(**{field: value if field == "name" else value.item() for field, value in values.items()})

    def of_peers(self: _Columns, kept: Bools, peer: I64, place: I64) -> _Columns:
        """The rows that are ``kept`` (n,), with these peers and places; (kept,) each."""
        others = [field for field in self.ROW.__struct_fields__ if field not in ("name", "peer", "place")]
        own = {field: getattr(self, field)[kept] for field in others}
        return type(self)(replace(self.name, code=self.name.code[kept]), peer[kept], place[kept], **own)


@dataclass(frozen=True, slots=True, eq=False)
class Notifies(PeerColumns[Notify]):
    """The notifies of one rank."""

    ROW = Notify

    waits: Bools
    key: U64
    start: I64
    end: I64


@dataclass(frozen=True, slots=True, eq=False)
class Sightings(PeerColumns[Seen]):
    """When the peers of one rank came."""

    ROW = Seen

    after: I64
    at_most: Bools


_NO_CALLS, _NO_NOTIFIES, _NOTHING_SEEN = RankCalls.of(()), Notifies.of(()), Sightings.of(())


class StepTime(Struct, frozen=True):
    """One step of a rank by step_trace_time, ns; ``bubble`` is how long it waited to receive, None if unknown."""

    step: str
    computing: int
    exposed: int
    free: int
    total: int
    bubble: int | None = None

    def without(self, waited: int) -> StepTime:
        """This step less what was ``waited`` of its exposed communication, ns."""
        waited = min(waited, self.exposed)
        return with_fields(self, exposed=self.exposed - waited, total=self.total - waited) if waited else self


class LinkUse(Struct, frozen=True):
    """From one rank of ``group`` to another in one operation: GB/s over ``size_mb``, by ``transport``.

    ``source`` and ``target`` are places within the group, ranks of the job where ``group`` is empty. Among ``calls``
    equal transfers some ``slow`` ones went far below that, at ``slow_speed``; 0 where single transfers are not known.
    """

    source: int
    target: int
    transport: str
    type: str
    size_mb: float
    speed: float
    group: str = ""
    calls: int = 0
    slow: int = 0
    slow_speed: float = 0.0


class WorkBefore(Struct, frozen=True, eq=False):
    """What the trace shows of the work before each of ``RankCalls``, since the start of the call before; (n,) each.

    ``kernels`` began there and took ``computing`` ns together; the idle device waited ``lost`` ns for launches.
    """

    kernels: I64
    computing: I64
    lost: I64


class Busy(Struct, frozen=True, eq=False):
    """When the device computed inside its collectives: spans in ns since 1970 by its own clock, in order; (n,) each."""

    start: I64
    end: I64

    def until(self, time: I64) -> I64:
        """How long it had computed in them by each ``time``, ns."""
        done = np.concatenate((np.zeros(1, np.int64), np.cumsum(self.end - self.start)))
        last = np.searchsorted(self.start, time, "right")
        ends = np.concatenate((np.full(1, np.iinfo(np.int64).min), self.end))
        return np.asarray(done[last] - np.where(last > 0, np.maximum(ends[last] - time, 0), 0))


class RankPasses(Struct, frozen=True, eq=False):
    """The passes of a rank by start, ns since 1970 by the clock of its device; (n,) each.

    The last kernel of each was ``done`` before the end, which is when its message is sent; ``backward`` ones go the
    other way. Each is one of ``layers`` layers, as far as kernels repeat themselves.
    """

    start: I64
    end: I64
    done: I64
    backward: Bools
    layers: I64


class RankFinding(Struct, frozen=True):
    """What the summary of a rank keeps of a ``Finding``; ``gain`` is that of one of ``count`` steps, ns.

    A cause is what the verdict of the rank may name, with its ``title`` and the ``line`` of the user (file, number);
    ``freed`` is its gain where the other ranks are in time, 0 where that is not known. ``advice`` says what to do.
    ``by_step`` is how long the host of the rank works on it in each numbered step, ns; empty where it does not.
    """

    id: str
    gain: int
    title: Message
    cls: FindingClass
    line: tuple[str, int] | None = None
    count: int = 1
    is_cause: bool = False
    freed: int = 0
    advice: tuple[Message, ...] = ()
    by_step: tuple[int, ...] = ()

    @property
    def about(self) -> Hashable:
        """What is the same in the ranks that one cause holds up alike: all of it but how long that takes.

        For a host held up at a line of the user it is the line: in what that calls, one rank is longest here, one
        there.
        """
        return self.id, self.line, None if self.line and self.cls == "dispatch" else _unmeasured(self.title)

    def explains(self, text: Message, line: tuple[str, int] | None) -> bool:
        """Whether it is about what ``text`` says, at ``line``: its title names it, or it is the cause there."""
        return _names(self.title, text) or (self.is_cause and line is not None and line == self.line)


def _names(value: object, text: Message) -> bool:
    return value == text or (isinstance(value, Message) and any(_names(arg, text) for arg in value.args.values()))


def _unmeasured(value: object) -> Hashable:
    """A text, or an argument that it shows, without its numbers and its lists, which name what takes most time."""
    if isinstance(value, Message):
        shown = {name for _, name, _, _ in Formatter().parse(texts_of("en").get(value.code, ""))}
        return value.code, tuple((name, _unmeasured(arg)) for name, arg in sorted(value.args.items()) if name in shown)
    return value if isinstance(value, str) else None


class WaitedLine(Struct, frozen=True):
    """A line of user code, and how long the device waited for its launches, ns."""

    file: str
    line: int
    lost: int


SAME_BOOT = 1_000_000
"""ns within which two ranks of one host agree on the boot of the host."""
SAME_NAME = 1_000_000_000
"""ns within which two ranks whose hosts have one name do: clocks that are set right meanwhile move by less."""


def step_order(step: str) -> tuple[bool, int, str]:
    """What orders steps: their numbers, then the names of those without."""
    number = decimal_number(step)
    return number is None, number or 0, step


class Stint(Struct, frozen=True):
    """When a rank worked as ``role`` in ``step``, ns since 1970 on its own clock.

    ``known_by`` the range of mstx around the function, the first and last work of the device, or the span of the calls
    beside the trace.
    """

    role: str
    step: str
    start: int
    end: int
    known_by: str = "range"


class Layout(Struct, frozen=True):
    """How the job is divided: sizes of tensor, pipeline and data parallel groups; ``world`` ranks."""

    tensor: int
    pipeline: int
    data: int
    world: int

    def stage(self, rank: int) -> int:
        """The pipeline stage of ``rank``: ranks of a stage are neighbours."""
        return rank // max(self.world // max(self.pipeline, 1), 1)

    def peers_key(self, rank: int) -> tuple[int, int]:
        """What ranks with the same work have in common: stage and tensor index, which runs fastest."""
        return self.stage(rank), rank % max(self.tensor, 1)


class RankProfile(Struct, frozen=True):
    """One rank: where it lies and what it recorded. Rows that are no columns yet become columns.

    ``boot`` is the wall clock of its host at boot in ns, ``counter`` what its cycle counter is ahead of the monotonic
    clock: ranks of one host agree on both. ``groups`` are the ranks of the job in each named group. ``begun`` is when
    its first step began, ``ended`` when the last step or the device did, ns since 1970 on its device's clock, where a
    trace has it, ``recorded`` when its recording began. ``lines`` are those that launched late, ``findings`` those of
    the rank alone that would gain most; both need a trace. ``stage`` is that of the pipeline where a file numbers them,
    ``passes`` are those of that stage where kernels show them.

    ``role`` is that in a job of several roles, ``in_step`` the step that the folder names, ``process`` the host and
    process that recorded it, which roles that share a card share; ``stints`` say when it worked, on the ``device`` of
    its host. ``folders`` are the profiles (step, path) of a rank that recorded each step for itself.

    ``experts`` are what a trace shows of MoE layers, ns since 1970. ``paces`` are how long its kernels take,
    ``host_paces`` the calls of CANN, ``clock`` the mean of the AI cores while they compute, MHz. ``routed`` rows go to
    experts in every pass, 0 where that is not known.
    """

    rank: int
    path: Path
    kind: str
    boot: int | None = None
    counter: int | None = None
    host_name: str = ""
    level: int | None = None
    layout: Layout | None = None
    groups: Mapping[str, tuple[int, ...]] = {}
    calls: RankCalls = _NO_CALLS
    notifies: Notifies = _NO_NOTIFIES
    seen: Sightings = _NOTHING_SEEN
    steps: tuple[StepTime, ...] = ()
    links: tuple[LinkUse, ...] = ()
    problems: tuple[Message, ...] = ()
    work: WorkBefore | None = None
    lines: tuple[WaitedLine, ...] = ()
    findings: tuple[RankFinding, ...] = ()
    busy: Busy | None = None
    begun: int | None = None
    ended: int | None = None
    recorded: int | None = None
    stage: int | None = None
    role: str = ""
    in_step: str = ""
    process: str = ""
    stints: tuple[Stint, ...] = ()
    folders: tuple[tuple[str, Path], ...] = ()
    device: int | None = None
    passes: RankPasses | None = None
    experts: tuple[ExpertPass, ...] = ()
    paces: tuple[Pace, ...] = ()
    host_paces: tuple[Pace, ...] = ()
    clock: float | None = None
    routed: int = 0

    def path_at(self, step: str) -> Path:
        """Where the profile of ``step`` lies; the first one where they are not separate."""
        return dict(self.folders).get(step, self.path)

    @property
    def recorder(self) -> Recorder:
        """Who wrote what the rank has."""
        return recorder_named(self.kind)

    @property
    def has_trace(self) -> bool:
        """Whether there is a timeline: files beside one, and the output of a cluster analysis, do not count."""
        return self.recorder.has_trace

    def __post_init__(self) -> None:
        force_setattr(self, "calls", RankCalls.of(self.calls))
        force_setattr(self, "notifies", Notifies.of(self.notifies))
        force_setattr(self, "seen", Sightings.of(self.seen))


class CallTable(Struct, frozen=True, eq=False):
    """Every call, by rank and start; (n,) each but ``kinds``, which ``kind`` indexes, and ``first`` (ranks + 1,).

    ``rank`` is the place of the rank among ``ranks``, whose calls begin at ``first[place]``. Times are ns since
    1970 on the rank's own clock. Equal ordinals mean one call where they are ``exact``.
    """

    ranks: tuple[int, ...]
    calls: tuple[RankCalls, ...]
    kinds: tuple[tuple[str, str, str], ...]
    first: I64
    rank: I64
    kind: I64
    ordinal: I64
    start: I64
    end: I64
    pair: I64
    exact: bool = False

    def call(self, number: int) -> RecordedCall:
        """Row ``number`` as an object."""
        place = int(self.rank[number])
        return self.calls[place][number - int(self.first[place])]

    def name(self, number: int) -> str:
        """What the profiler calls row ``number``."""
        place = int(self.rank[number])
        return self.calls[place].name[number - int(self.first[place])]


def call_table(ranks: Sequence[RankProfile]) -> CallTable:
    """The calls of ``ranks`` in their order."""
    calls = tuple(profile.calls for profile in ranks)
    codes: dict[tuple[str, str, str], int] = {}
    kinds = [
        np.array([codes.setdefault(kind, len(codes)) for kind in own.kinds] or [0], np.int64)[own.kind] for own in calls
    ]
    lengths = np.array([len(own) for own in calls], np.int64)
    nothing = np.zeros(0, np.int64)
    return CallTable(
        tuple(profile.rank for profile in ranks),
        calls,
        tuple(codes),
        np.concatenate(([0], np.cumsum(lengths))),
        np.repeat(np.arange(len(calls)), lengths),
        np.concatenate([nothing, *kinds]),
        np.concatenate([nothing, *(own.ordinal for own in calls)]),
        np.concatenate([nothing, *(own.start for own in calls)]),
        np.concatenate([nothing, *(own.end for own in calls)]),
        np.concatenate([nothing, *(own.pair for own in calls)]),
        all(profile.recorder.counts_in_job for profile in ranks),
    )
