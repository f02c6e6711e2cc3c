"""The profiles of one rank of a role, recorded a step at a time, put together; and a rank without its peers.

A trace shows when its rank worked as which role: by ranges of mstx around the functions of a role, else by the device.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from msgspec.structs import replace

from npu_tui.jobs.model import (
    SAME_BOOT,
    Busy,
    Notifies,
    RankCalls,
    RankProfile,
    Sightings,
    StepTime,
    Stint,
    WorkBefore,
    step_order,
)
from npu_tui.load.find import Source
from npu_tui.load.load import load
from npu_tui.trace.arrays import I64
from npu_tui.trace.intervals import union
from npu_tui.trace.model import Trace

_ROWS = ("steps", "stints", "links", "problems", "lines", "findings")  # what a rank has of every step
_Columns = TypeVar("_Columns", WorkBefore, Busy)


def without_peers(profile: RankProfile) -> RankProfile:
    """``profile`` without what it recorded of its peers, whose ranks are other ones in another role."""
    nothing = {"calls": RankCalls.of(()), "notifies": Notifies.of(()), "seen": Sightings.of(())}
    return replace(profile, **nothing, work=None, busy=None, links=(), groups={}, layout=None)


def named_hosts(profiles: Sequence[RankProfile]) -> list[RankProfile]:
    """``profiles`` with a name for every host that booted at a known time, the same in all roles."""
    boots = sorted({profile.boot for profile in profiles if profile.boot is not None and not profile.host_name})
    number, numbers = -1, {}
    for before, boot in zip([None, *boots], boots, strict=False):
        number += before is None or boot - before > SAME_BOOT
        numbers[boot] = number
    several = len({profile.role for profile in profiles}) > 1
    return [
        replace(profile, host_name=f"host{numbers[profile.boot]}") if several and profile.boot in numbers else profile
        for profile in profiles
    ]


def steps_joined(profiles: Sequence[RankProfile]) -> list[RankProfile]:
    """One profile for those of a rank that were recorded in different steps; the others stay.

    Where the folders name no steps, the order of time does: a step begins when a rank is there again.
    """
    joined = [profile for profile in profiles if not profile.role]
    unnamed = [profile for profile in profiles if profile.role and not profile.in_step and profile.stints]
    joined += [profile for profile in profiles if profile.role and not profile.in_step and not profile.stints]
    by_rank: dict[int, list[RankProfile]] = defaultdict(list)
    for profile in [*(profile for profile in profiles if profile.role and profile.in_step), *_numbered(unnamed)]:
        by_rank[profile.rank].append(profile)
    for own in by_rank.values():
        if len({profile.in_step for profile in own}) < len(own):  # two of one step are of different jobs
            joined += [_in_its_step(profile) for profile in own]
        else:
            own.sort(key=lambda profile: step_order(profile.in_step))
            joined.append(_joined_profile([_in_its_step(profile) for profile in own]))
    return joined


def _numbered(profiles: list[RankProfile]) -> list[RankProfile]:
    """``profiles`` in their steps, by the time when they began; as they are where all are of one."""
    numbered: list[RankProfile] = []
    there: set[int] = set()
    number = 1
    for profile in sorted(profiles, key=lambda profile: profile.stints[0].start):
        if profile.rank in there:
            there, number = set(), number + 1
        there.add(profile.rank)
        numbered.append(replace(profile, in_step=str(number)))
    return numbered if number > 1 else profiles


def _in_its_step(profile: RankProfile) -> RankProfile:
    """``profile`` with all it holds in the step that its folder names."""
    step = profile.in_step
    if not step:
        return profile
    kinds = tuple((group, kind, step) for group, kind, _ in profile.calls.kinds)
    calls = _with_other_kinds(profile.calls, kinds)
    times: tuple[StepTime, ...] = ()
    if profile.steps:
        sums = [sum(getattr(own, name) for own in profile.steps) for name in ("computing", "exposed", "free", "total")]
        times = (StepTime(step, *sums),)
    stints = tuple(replace(stint, step=step) for stint in profile.stints)
    return replace(profile, calls=calls, steps=times, stints=stints)


def _with_other_kinds(calls: RankCalls, kinds: tuple[tuple[str, str, str], ...]) -> RankCalls:
    """``calls`` of other kinds, several of which may now be the same one."""
    codes: dict[tuple[str, str, str], int] = {}
    code = np.array([codes.setdefault(kind, len(codes)) for kind in kinds], np.int64)
    kind = code[calls.kind] if len(calls) else calls.kind
    return RankCalls(tuple(codes), calls.name, kind, calls.ordinal, calls.start, calls.end, calls.pair)


def _joined_profile(profiles: list[RankProfile]) -> RankProfile:
    """The steps of one rank as one profile; arrivals of ranks without files only where their calls are distinct."""
    first = profiles[0]
    if len(profiles) == 1:
        return first
    names = [name for profile in profiles for name in set(profile.calls.name)]
    seen = [row for profile in profiles for row in profile.seen] if len(set(names)) == len(names) else []
    calls = [call for profile in profiles for call in profile.calls]
    order = np.argsort([call.start for call in calls], kind="stable")
    return replace(
        first,
        calls=RankCalls.of(calls),
        notifies=Notifies.of([row for profile in profiles for row in profile.notifies]),
        seen=Sightings.of(seen),
        **{name: tuple(row for profile in profiles for row in getattr(profile, name)) for name in _ROWS},
        work=_put_together(WorkBefore, [profile.work for profile in profiles], order),
        busy=_put_together(Busy, [profile.busy for profile in profiles]),
        folders=tuple((profile.in_step, profile.path) for profile in profiles),
    )


def _put_together(kind: type[_Columns], parts: Sequence[_Columns | None], order: I64 | None = None) -> _Columns | None:
    """The columns of all ``parts`` in ``order``, by their start where there is none; None where one is not known."""
    if not all(parts):
        return None
    columns = [np.concatenate([getattr(part, name) for part in parts]) for name in kind.__struct_fields__]
    order = np.argsort(columns[0], kind="stable") if order is None else order
    return kind(*(column[order] for column in columns))


FUNCTIONS = frozenset(
    f"{model}_{work}" if work else model
    for model, work in (
        ("generate_sequences", ""), ("rollout", "generate"), ("actor", "generate"), ("actor", "compute_log_prob"),
        ("compute_log_prob", ""), ("compute_ref_log_prob", ""), ("ref", "compute_log_prob"),
        ("reference", "compute_log_prob"), ("compute_values", ""), ("critic", "compute_values"), ("update_critic", ""),
        ("critic", "update"), ("compute_rm_score", ""), ("update_actor", ""), ("actor", "update"),
    )
)  # fmt: skip
"""What verl and MindSpeed-RL call the functions of roles, without the class before a dot."""

_GENERATES = ("generate", "rollout", "gen")
_ON_DEVICE = ("hardware", "communication", "overlap")


def generates(role: str) -> bool:
    """Whether ``role`` makes the responses."""
    return any(word in role.lower().replace("-", "_").split("_") for word in _GENERATES) or "rollout" in role.lower()


def with_stints(profile: RankProfile, source: Source) -> RankProfile:
    """``profile`` with no more of the trace of ``source`` than when it worked as which role. Raises ``InputError``."""
    return stints_added(profile, load(source))


def stints_added(profile: RankProfile, trace: Trace) -> RankProfile:
    """``profile`` with when it worked as which role, by its ``trace``, and the device that it worked on."""
    device = next((layer.device for layer in trace.layers if layer.device is not None), None)
    return replace(profile, stints=stints_of(trace, profile.role), device=device)


def stints_of(trace: Trace, role: str) -> tuple[Stint, ...]:
    """The stints of a rank as ``role``, or, where it ran functions of several roles, as each of those.

    Without ranges it is the time from the first work of the device to the last; not without a role.
    """
    slices, called = trace.slices, {}
    for code, name in enumerate(trace.names):
        function = name.rpartition(".")[2]
        if function.lower() in FUNCTIONS:
            called[code] = function
    items = np.flatnonzero(np.isin(slices.name, list(called))) if called else np.zeros(0, np.int64)
    kinds = np.array([trace.layers[lane.layer].kind for lane in trace.lanes])
    lane_kind = kinds[slices.lane]
    on_host = items[~np.isin(lane_kind[items], _ON_DEVICE)]
    items = on_host if len(on_host) else items
    spans: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for item in items.tolist():
        spans[called[int(slices.name[item])]].append((int(slices.start[item]), int(slices.end[item])))
    if len(spans) == 1 and role:
        spans = defaultdict(list, {role: next(iter(spans.values()))})
    if not spans and role:
        work = np.flatnonzero(lane_kind == "overlap")
        work = work if len(work) else np.flatnonzero(np.isin(lane_kind, _ON_DEVICE))
        if len(work):
            span = int(slices.start[work].min()), int(slices.end[work].max())
            return (_stint(trace, role, "1", span, "device"),)
    # A step begins where responses are made, or else with what is done first.
    first = next((name for name in spans if generates(name)), min(spans, key=lambda name: min(spans[name]), default=""))
    begins = sorted(start for start, _ in _united(spans[first])) if spans else []
    return tuple(
        _stint(trace, name, str(max(bisect_right(begins, span[0]), 1)), span, "range")
        for name, own in spans.items()
        for span in _united(own)
    )


def _united(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """``spans`` in order, those that overlap as one."""
    start, end = union(*np.array(spans, np.int64).T)
    return list(zip(start.tolist(), end.tolist(), strict=True))


def _stint(trace: Trace, role: str, step: str, span: tuple[int, int], known_by: str) -> Stint:
    return Stint(role, step, trace.start_ns + span[0], trace.start_ns + span[1], known_by)
