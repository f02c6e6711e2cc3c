"""One rank, from the files beside its trace, and what it alone would gain by its own profile.

A job has thousands of these files, so the few fields that are needed are decoded straight into records. A file that
does not fit them, or that is cut off, is read again by the tolerant reader of ``load.companions``.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.limits import PLACES
from npu_tui.analysis.replay import NO_CHANGE, Change
from npu_tui.jobs.model import (
    NO_ORDINAL,
    NO_PAIR,
    Layout,
    LinkUse,
    RankCalls,
    RankFinding,
    RankProfile,
    StepTime,
    is_message,
    pair_of,
)
from npu_tui.load.companion_schema import State
from npu_tui.load.companions import STEP_FILE, Companions, communication_links, communication_spans, level_in
from npu_tui.load.documents import COMMUNICATION, MATRIX, fits, scaled
from npu_tui.load.find import Source
from npu_tui.load.roles import RolePlaces, role_in_metadata, role_of
from npu_tui.profile.profile import Profile
from npu_tui.rules.cpu import standstills, together_on_time
from npu_tui.rules.host_work import work_behind_peers
from npu_tui.rules.model import Finding
from npu_tui.rules.pauses import pauses_behind_peers
from npu_tui.trace.intervals import covered_within, union
from npu_tui.trace.message import Message, message
from npu_tui.trace.side_file import read_regular
from npu_tui.trace.text import printable

_NAME = re.compile(r"(?:hcom_)?(?P<type>[A-Za-z]+?)_{1,3}(?P<hash>\d+)_(?P<ordinal>\d{1,18})(?:_\d+)*")
_SIZES = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "data_parallel_size", "world_size")
_LOCAL = "LOCAL"


class _NamedGroup(msgspec.Struct):
    name: str = msgspec.field(name="group_name", default="")
    ranks: msgspec.Raw = msgspec.field(name="global_ranks", default=msgspec.Raw(b"[]"))


class _Metadata(msgspec.Struct):
    args: dict[str, Any] | None = msgspec.field(name="distributed_args", default=None)
    groups: dict[str, _NamedGroup] | None = msgspec.field(name="parallel_group_info", default=None)
    role: str | None = None


_metadata = msgspec.json.Decoder(_Metadata)
_ranks = msgspec.json.Decoder(tuple[Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)], ...])


Cell = str | float | None
"""What stands in a table of a file."""


@lru_cache(maxsize=1 << 16)
def call_name(name: str) -> tuple[str, str, int | None]:
    """Type, group suffix and ordinal in a name such as ``hcom_allReduce__586_0_1``."""
    match = _NAME.fullmatch(name)
    if match is None:
        return name.removeprefix("hcom_").partition("_")[0], "", None
    return match["type"], match["hash"], int(match["ordinal"])


def companion_rank(source: Source, companions: Companions, rank: int, places: RolePlaces | None = None) -> RankProfile:
    """``rank`` by the files beside its trace; what is missing there stays empty."""
    problems: list[Message] = []
    info = companions.profiler_info
    layout, groups, told = _division(companions)
    place = (places or RolePlaces()).of(companions.folder.absolute())
    boot, counter = _host(info)
    peers: Peers = {}
    links = tuple(_companion_links(companions, rank, problems, peers))
    steps = tuple(companion_steps((step, None, cells) for step, *cells in companions.step_times()))
    if STEP_FILE in companions.cut_off:
        problems.append(message("job.cut_off", rank=rank, file=STEP_FILE))
    return RankProfile(
        rank,
        source.opened,
        source.kind,
        boot,
        counter,
        host_name=_text_or_empty(info.get("host_name")) or printable(place.host(rank)),
        level=level_in(info),
        layout=layout,
        groups=groups,
        calls=_companion_calls(companions, rank, problems, peers),
        steps=steps,
        links=links,
        problems=tuple(problems),
        role=printable(role_of(place, told)),
        in_step=place.step,
        process=place.process,
    )


def _note(state: State, name: str, rank: int, problems: list[Message]) -> None:
    if state in ("unreadable", "cut_off"):
        problems.append(message(f"job.{state}", rank=rank, file=name))


def _companion_calls(companions: Companions, rank: int, problems: list[Message], peers: Peers) -> RankCalls:
    """The collectives of communication.json; ``peers`` says which rank each message went to."""
    spans = communication_spans(companions)
    _note(spans.state, COMMUNICATION, rank, problems)
    kinds, ordinals, names, pairs = [], [], [], []
    for step, name, group in spans.places:
        kind, suffix, ordinal = call_name(name)
        kinds.append((_shared(group) or suffix, kind, _shared(step)))
        ordinals.append(NO_ORDINAL if ordinal is None else ordinal)
        names.append(_shared(name))
        between = peers.get((step, group, name), ()) if peers else ()
        pairs.append(next(iter(between)) if len(between) == 1 else NO_PAIR)
    return RankCalls.sorted(names, kinds, ordinals, spans.start, spans.end, pairs)


Peers = dict[tuple[str, str, str], set[int]]
"""The pairs of places between which bytes went in (step, group, collective)."""

_Shared = TypeVar("_Shared", str, tuple[int, ...])


@lru_cache(maxsize=1 << 18)
def _shared(value: _Shared) -> _Shared:
    """One object for equal ones: thousands of ranks name the same groups, with the same ranks, and collectives."""
    return value


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


def _text_or_empty(value: object) -> str:
    return value if isinstance(value, str) else ""


def _division(companions: Companions) -> tuple[Layout | None, dict[str, tuple[int, ...]], str]:
    """How the job is divided, its groups, and its role, if the profile names one.

    In a large job every rank lists all of them: equal lists are decoded once.
    """
    if type(companions) is Companions:
        try:
            data = read_regular(companions.folder.resolve().parent / "profiler_metadata.json")
            fast = _metadata.decode(data if fits(data) else b"")
            named: dict[str, tuple[int, ...]] = {}
            for key, group in (fast.groups or {}).items():
                ranks = _ranks_in(bytes(group.ranks))
                if ranks:
                    _add(named, group.name, key, ranks)
            return _layout(fast.args), named, fast.role or ""
        except (OSError, ValueError, RecursionError):  # missing, or something else
            pass
    metadata = companions.metadata_document().value
    layout = _layout(metadata.get("distributed_args") if isinstance(metadata, dict) else None)
    return layout, _parallel_groups(metadata), role_in_metadata(metadata)


@lru_cache(maxsize=1 << 14)
def _ranks_in(data: bytes) -> tuple[int, ...]:
    ranks: tuple[int, ...] = _shared(_ranks.decode(data))
    return ranks


def _add(groups: dict[str, tuple[int, ...]], name: str, key: str, ranks: tuple[int, ...]) -> None:
    """Add a group under its name (``tp``, ``dp_cp``, …), or under ``key`` if the name is taken."""
    groups[_shared(name if name and name not in groups else key)] = ranks


def _layout(args: Any) -> Layout | None:
    if not isinstance(args, dict):
        return None
    sizes = [args.get(name) for name in _SIZES]
    if not all(type(size) is int and 0 < size < 1 << 31 for size in sizes):
        return None
    return Layout(*sizes)  # type: ignore[arg-type]


def _parallel_groups(metadata: Any) -> dict[str, tuple[int, ...]]:
    """The ranks of every parallel group by its name (``tp``, ``dp_cp``, …); a malformed entry is left out."""
    values = metadata.get("parallel_group_info") if isinstance(metadata, dict) else None
    groups: dict[str, tuple[int, ...]] = {}
    for key, group in values.items() if isinstance(values, dict) else ():
        ranks = group.get("global_ranks") if isinstance(group, dict) else None
        if not (isinstance(ranks, list) and ranks and all(type(rank) is int and rank >= 0 for rank in ranks)):
            continue
        _add(groups, _text_or_empty(group.get("group_name")), str(key), _shared(tuple(ranks)))
    return groups


def companion_steps(rows: Iterable[tuple[str | None, Cell, Sequence[Cell]]]) -> Iterator[StepTime]:
    """Steps of names, bubbles and the cells of computing, exposed and free time, us; what is no number is left out."""
    for step, bubble, cells in rows:
        computing, exposed, free = (scaled(cell or 0, 1_000) for cell in cells)
        waited = None if bubble is None else scaled(bubble, 1_000)
        if computing is None or exposed is None or free is None or (waited is None) != (bubble is None):
            continue
        yield StepTime(_shared(step or ""), computing, exposed, free, computing + exposed + free, waited)


def _companion_links(companions: Companions, rank: int, problems: list[Message], peers: Peers) -> Iterator[LinkUse]:
    """Every operation between two chips by communication_matrix.json; sums over operations are left out.

    The places between which each message went are added to ``peers``. An operation may be listed under several names,
    such as allreduce-top1 and allreduce-middle: it counts once.
    """
    seen: set[tuple[str, str, int, int]] = set()
    links, state = communication_links(companions)
    _note(state, MATRIX, rank, problems)
    for step, group, source, target, transport, size, speed, operation in links:
        if transport == _LOCAL or source == target or not speed or not size or speed < 0 or size < 0:
            continue
        if (step, operation, source, target) in seen:
            continue
        seen.add((step, operation, source, target))
        kind = _shared(call_name(operation)[0])
        if is_message(kind):
            place = (step.removeprefix("step"), group, operation)
            peers.setdefault(place, set()).add(pair_of(source, target))
        yield LinkUse(source, target, _shared(transport), kind, size, speed, _shared(group))


def findings_of(profile: Profile) -> tuple[RankFinding, ...]:
    """What the rank alone would gain, causes before what they explain, the dearest first."""
    found, above = [], NO_CHANGE
    for row in profile.findings.findings:
        is_cause = row.verdict is not None and row.part_of is None and not row.by_design
        if row.gain_ns and not row.hidden:
            line = next(((code.file, code.line) for code in row.code_lines), None)
            told = RankFinding(row.id, row.gain_ns, row.title, row.cls, line, row.count, is_cause)
            if is_cause:
                by_step = () if row.remedy is None else _by_step(profile, row.remedy.change)
                told = replace(told, freed=_freed(profile, row, above), advice=row.advice, by_step=by_step)
            found.append(told)
        if is_cause and row.remedy is not None:
            above |= row.remedy.change
    kept = sorted(found, key=lambda row: (not row.is_cause, -row.gain))[:PLACES]
    behind = _behind_peers(profile, {row.about for row in kept if row.is_cause})
    return (*kept, *behind, *_standing_still(profile))


def _by_step(profile: Profile, change: Change) -> tuple[int, ...]:
    """How long the host does what ``change`` takes out in each numbered step, ns; empty where it does not."""
    slices, steps = profile.trace.slices, [step.item for step in profile.steps if step.number is not None]
    if not change.host or not steps:
        return ()
    start, end = (np.concatenate([cut.span[side] for cut in change.host]) for side in (0, 1))
    return tuple(covered_within(*union(start, end), slices.start[steps], slices.end[steps]).astype(int).tolist())


def _behind_peers(profile: Profile, known: set[Hashable]) -> list[RankFinding]:
    """Work and pauses of the host, but what is ``known``, shorter than the rank waits for others: no gain alone."""
    found = []
    for facts in profile.facts if len(profile.facts) == 1 else ():
        pauses = pauses_behind_peers(facts)
        drafts = [("HOST.WORK", draft) for draft in work_behind_peers(facts)]
        for id, draft in (*drafts, *([("HOST.PAUSE", pauses)] if pauses is not None else [])):
            line = next(((code.file, code.line) for code in draft.code_lines), None)
            freed, advice = round((draft.most or 0) / facts.count), draft.advice or ()
            by_step = _by_step(profile, draft.change or NO_CHANGE)
            row = RankFinding(id, 0, draft.title, "dispatch", line, facts.count, True, freed, advice, by_step)
            found += [row] if row.about not in known else []
    return found


STILL = "HOST.STILL"
"""What a summary calls it where the process of a rank stands still: it means something only beside its peers."""


def _standing_still(profile: Profile) -> Iterator[RankFinding]:
    """How long no thread of the process does anything while the device has nothing to do, if it does so.

    Alone that may be work which nothing recorded.
    """
    for facts in profile.facts if len(profile.facts) == 1 else ():
        start, end = standstills(facts)
        if len(start):
            words = {"count": len(start), "longest": int((end - start).max())}
            title = message(f"job.still{'.period' * together_on_time(end)}", **words)
            yield RankFinding(STILL, int((end - start).sum()), title, "dispatch")


def _freed(profile: Profile, finding: Finding, above: Change) -> int:
    """What a step of the rank gains without ``finding``, after ``above``, once the others are in time, ns.

    0 without a replay.
    """
    if finding.remedy is None or len(profile.facts) > 1:
        return 0
    gain = profile.facts[0].freed(finding.remedy.change, above) or 0
    return round((gain if finding.remedy.most is None else min(gain, finding.remedy.most)) / finding.count)
