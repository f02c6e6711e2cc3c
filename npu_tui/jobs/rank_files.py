"""One rank, from the files beside its trace.

The few fields that are needed are decoded straight into records; a file that does not fit them, or that is cut off, is
read the patient way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from npu_tui.ingest.companions.communication import communication_spans, matrix_rows
from npu_tui.ingest.companions.documents import Document
from npu_tui.ingest.companions.files import Companions, level_in
from npu_tui.ingest.source.find import Source
from npu_tui.jobs.model import NO_ORDINAL, NO_PAIR, Calls, Layout, LinkUse, RankProfile, StepTime, is_message, pair_of
from npu_tui.trace.message import Message, message

_NAME = re.compile(r"(?:hcom_)?(?P<type>[A-Za-z]+?)_{1,3}(?P<hash>\d+)_(?P<ordinal>\d+)(?:_\d+)*")
_SIZES = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "data_parallel_size", "world_size")
_STEP_COLUMNS = ("Step", "Computing", "Communication(Not Overlapped)", "Free", "Stage", "Overlapped")
_LOCAL = "LOCAL"
_TOTALS = ("Total Op Info", "total")
_LARGEST = 2**62


class _Times(msgspec.Struct):
    start: float | None = msgspec.field(name="Start Timestamp(us)", default=None)
    elapsed: float | None = msgspec.field(name="Elapse Time(ms)", default=None)


class _Operation(msgspec.Struct):
    times: _Times | None = msgspec.field(name="Communication Time Info", default=None)


class _Link(msgspec.Struct):
    transport: str | None = msgspec.field(name="Transport Type", default=None)
    size: float | None = msgspec.field(name="Transit Size(MB)", default=None)
    speed: float | None = msgspec.field(name="Bandwidth(GB/s)", default=None)
    operation: str | None = msgspec.field(name="Op Name", default=None)


class _Group(msgspec.Struct):
    name: str = msgspec.field(name="group_name", default="")
    ranks: msgspec.Raw = msgspec.field(name="global_ranks", default=msgspec.Raw(b"[]"))


class _Metadata(msgspec.Struct):
    args: dict[str, Any] | None = msgspec.field(name="distributed_args", default=None)
    groups: dict[str, _Group] | None = msgspec.field(name="parallel_group_info", default=None)


_metadata = msgspec.json.Decoder(_Metadata)
_ranks = msgspec.json.Decoder(tuple[Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)], ...])
_communication = msgspec.json.Decoder(dict[str, dict[str, dict[str, _Operation]]])
_matrix = msgspec.json.Decoder(dict[str, dict[str, dict[str, dict[str, _Link]]]])
_Decoded = TypeVar("_Decoded")


@lru_cache(maxsize=1 << 16)
def call_name(name: str) -> tuple[str, str, int | None]:
    """Type, group suffix and ordinal in a name such as ``hcom_allReduce__586_0_1``."""
    match = _NAME.fullmatch(name)
    if match is None:
        return name.removeprefix("hcom_").partition("_")[0], "", None
    return match["type"], match["hash"], int(match["ordinal"])


def companion_rank(source: Source, companions: Companions, rank: int) -> RankProfile:
    """``rank`` as the files beside its trace tell it; what is missing there stays empty."""
    problems: list[Message] = []
    info = companions.profiler_info
    layout, groups = _division(companions)
    boot, counter = _host(info)
    peers: Peers = {}
    links = tuple(_links(companions, rank, problems, peers))
    return RankProfile(
        rank,
        source.opened,
        source.kind,
        boot,
        counter,
        host_name=_text(info.get("host_name")),
        level=level_in(info),
        layout=layout,
        groups=groups,
        calls=_calls(companions, rank, problems, peers),
        steps=tuple(_steps(companions)),
        links=links,
        problems=tuple(problems),
    )


def _decoded(companions: Companions, name: str, decoder: msgspec.json.Decoder[_Decoded]) -> _Decoded | None:
    """The file ``name`` as records; None if it is not there, or holds something else."""
    if type(companions) is not Companions:  # what a database holds is no file
        return None
    try:
        return decoder.decode((companions.folder / name).read_bytes())
    except (OSError, ValueError):  # what msgspec raises is one; a text that is no UTF-8 too
        return None


def _patient(companions: Companions, name: str, rank: int, problems: list[Message]) -> Document:
    found = companions.document_state(name)
    if found.state in ("unreadable", "cut_off"):
        problems.append(message(f"job.{found.state}", rank=rank, file=name))
    return found


def _calls(companions: Companions, rank: int, problems: list[Message], peers: Peers) -> Calls:
    name = "communication.json"
    fast = _decoded(companions, name, _communication)
    if fast is None:
        document = _patient(companions, name, rank, problems)
        rows = [(place[0], place[2], place[3], start, start + elapsed)
                for place, start, elapsed in communication_spans(document)]  # fmt: skip
        return _columns(
            [(step, called, group) for step, called, group, _, _ in rows],
            np.array([row[3] for row in rows], np.int64),
            np.array([row[4] for row in rows], np.int64),
            peers,
        )
    places, times = [], []
    for step, kinds in fast.items():
        number = _shared(step.removeprefix("step"))
        for operations in kinds.values():
            for key, body in operations.items():
                own = body.times
                if own is None or own.start is None or own.elapsed is None:
                    continue
                called, _, group = key.partition("@")
                if called not in _TOTALS:
                    places.append((number, called, group))
                    times.append((own.start, own.elapsed))
    table = np.array(times, np.float64).reshape(-1, 2)
    good = np.isfinite(table).all(axis=1) & (np.abs(table[:, 0]) < _LARGEST / 1e3) & (np.abs(table[:, 1]) < 1e12)
    if not good.all():
        table, places = table[good], [place for place, kept in zip(places, good.tolist(), strict=True) if kept]
    whole = np.floor(table[:, 0])  # a float of us since 1970 holds no ns: the parts are scaled apart
    start = whole.astype(np.int64) * 1_000 + np.rint((table[:, 0] - whole) * 1e3).astype(np.int64)
    return _columns(places, start, start + np.rint(table[:, 1] * 1e6).astype(np.int64), peers)


Peers = dict[tuple[str, str, str], set[int]]
"""The pairs of places between which bytes went in (step, group, collective)."""


def _columns(
    places: list[tuple[str, str, str]], start: npt.NDArray[np.int64], end: npt.NDArray[np.int64], peers: Peers
) -> Calls:
    """Calls of (step, name, group)."""
    kinds, ordinals, names, pairs = [], [], [], []
    for step, called, group in places:
        kind, suffix, ordinal = call_name(called)
        kinds.append((_shared(group) or suffix, kind, step))
        ordinals.append(NO_ORDINAL if ordinal is None else ordinal)
        names.append(_shared(called))
        between = peers.get((step, group, called), ()) if peers else ()
        pairs.append(next(iter(between)) if len(between) == 1 else NO_PAIR)
    return Calls.sorted(names, kinds, ordinals, start, end, pairs)


@lru_cache(maxsize=1 << 18)
def _shared(text: str) -> str:
    """One object for equal texts: thousands of ranks name the same groups and collectives."""
    return text


def _host(info: dict[str, Any]) -> tuple[int | None, int | None]:
    """When the host was booted by its wall clock, and how far its cycle counter is ahead of its monotonic clock, ns."""
    end, start = info.get("end_info"), info.get("start_info")
    boot = counter = None
    if isinstance(end, dict):
        wall, monotonic = end.get("collectionTimeEnd"), end.get("MonotonicTimeEnd")
        if isinstance(wall, int) and isinstance(monotonic, int):
            boot = wall - monotonic
    if isinstance(start, dict):
        cycles, rate, monotonic = start.get("start_cnt"), start.get("freq"), start.get("start_monotonic")
        if isinstance(cycles, int) and isinstance(rate, int | float) and isinstance(monotonic, int) and rate > 0:
            counter = round(cycles * 1_000 / rate) - monotonic  # freq is in MHz
    return boot, counter


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _division(companions: Companions) -> tuple[Layout | None, dict[str, tuple[int, ...]]]:
    """How the job is divided, and its groups.

    Of a large job every rank lists all of them: equal lists are decoded once.
    """
    if type(companions) is Companions:
        try:
            data = (companions.folder.resolve().parent / "profiler_metadata.json").read_bytes()
            fast = _metadata.decode(data)
            named: dict[str, tuple[int, ...]] = {}
            for key, group in (fast.groups or {}).items():
                ranks = _ranks_in(bytes(group.ranks))
                if ranks:
                    _add(named, group.name, key, ranks)
            return _layout(fast.args), named
        except (OSError, ValueError):  # missing, or something else
            pass
    metadata = companions.metadata
    return _layout(metadata.get("distributed_args") if isinstance(metadata, dict) else None), _groups(metadata)


@lru_cache(maxsize=1 << 14)
def _ranks_in(data: bytes) -> tuple[int, ...]:
    return _shared_ranks(_ranks.decode(data))


def _add(found: dict[str, tuple[int, ...]], name: str, key: str, ranks: tuple[int, ...]) -> None:
    """A group by its name (``tp``, ``dp_cp``, …), a second one of that name by its ``key``."""
    found[_shared(name if name and name not in found else key)] = ranks


def _layout(args: Any) -> Layout | None:
    if not isinstance(args, dict):
        return None
    sizes = [args.get(name) for name in _SIZES]
    if not all(type(size) is int and 0 < size < 1 << 31 for size in sizes):
        return None
    return Layout(*sizes)  # type: ignore[arg-type]


def _groups(metadata: Any) -> dict[str, tuple[int, ...]]:
    """The ranks of every parallel group by its name (``tp``, ``dp_cp``, …); a malformed entry is left out."""
    values = metadata.get("parallel_group_info") if isinstance(metadata, dict) else None
    found: dict[str, tuple[int, ...]] = {}
    for key, group in values.items() if isinstance(values, dict) else ():
        ranks = group.get("global_ranks") if isinstance(group, dict) else None
        if not (isinstance(ranks, list) and ranks and all(type(rank) is int and rank >= 0 for rank in ranks)):
            continue
        _add(found, _text(group.get("group_name")), str(key), _shared_ranks(tuple(ranks)))
    return found


@lru_cache(maxsize=1 << 14)
def _shared_ranks(ranks: tuple[int, ...]) -> tuple[int, ...]:
    """One object for equal groups."""
    return ranks


def _steps(companions: Companions) -> Iterator[StepTime]:
    """Steps of step_trace_time.csv; its times are in us."""
    for step, *cells in companions.rows("step_trace_time.csv", *_STEP_COLUMNS):
        try:
            computing, exposed, free = (round(float(cell or 0) * 1_000) for cell in cells[:3])
        except (ValueError, OverflowError):
            continue
        yield StepTime(_shared(step or ""), computing, exposed, free, computing + exposed + free)


def _links(companions: Companions, rank: int, problems: list[Message], peers: Peers) -> Iterator[LinkUse]:
    """Every operation between two chips by communication_matrix.json; sums over operations are left out.

    ``peers`` is told between which places each message went.

    The same operation may stand there under several names, as the fastest and the middle one: it counts once.
    """
    seen: set[tuple[str, str, str]] = set()
    for step, group, pair, transport, size, speed, operation in _link_rows(companions, rank, problems):
        source, _, target = pair.partition("-")
        if (
            transport == _LOCAL
            or source == target
            or not (speed and size and source.isdecimal() and target.isdecimal())
        ):
            continue
        if speed < 0 or size < 0 or (step, operation, pair) in seen:
            continue
        seen.add((step, operation, pair))
        kind = _shared(call_name(operation)[0])
        if is_message(kind):
            own = (step.removeprefix("step"), group, operation)
            peers.setdefault(own, set()).add(pair_of(int(source), int(target)))
        yield LinkUse(int(source), int(target), _shared(transport), kind, size, speed, _shared(group))


def _link_rows(
    companions: Companions, rank: int, problems: list[Message]
) -> Iterable[tuple[str, str, str, str, float | None, float | None, str]]:
    name = "communication_matrix.json"
    fast = _decoded(companions, name, _matrix)
    if fast is None:
        for step, _, called, group, source, target, transport, size, _, speed, operation in matrix_rows(
            _patient(companions, name, rank, problems)
        ):
            if not called.endswith("-total"):
                yield step, group, f"{source}-{target}", transport or "", size, speed, operation or called
        return
    for step, kinds in fast.items():
        for operations in kinds.values():
            for key, links in operations.items():
                called, _, group = key.partition("@")
                if called in _TOTALS or called.endswith("-total"):
                    continue
                for pair, link in links.items():
                    yield step, group, pair, link.transport or "", link.size, link.speed, link.operation or called
