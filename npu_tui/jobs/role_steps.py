"""The profiles of one rank of a role, recorded a step at a time, put together; and a rank without its peers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from msgspec.structs import replace

from npu_tui.jobs.columns import I64
from npu_tui.jobs.model import (
    SAME_BOOT,
    Busy,
    Notifies,
    RankCalls,
    RankProfile,
    Sightings,
    StepTime,
    WorkBefore,
    step_order,
)

_ROWS = ("steps", "stints", "links", "problems", "lines", "findings")
"""What a rank has of every step."""
_Columns = TypeVar("_Columns", WorkBefore, Busy)


def apart(profile: RankProfile) -> RankProfile:
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
            joined += [_in_step(profile) for profile in own]
        else:
            own.sort(key=lambda profile: step_order(profile.in_step))
            joined.append(_joined([_in_step(profile) for profile in own]))
    return joined


def _numbered(profiles: list[RankProfile]) -> list[RankProfile]:
    """``profiles`` in the steps that they are of by the time when they began; as they are where all are of one."""
    numbered: list[RankProfile] = []
    there: set[int] = set()
    number = 1
    for profile in sorted(profiles, key=lambda profile: profile.stints[0].start):
        if profile.rank in there:
            there, number = set(), number + 1
        there.add(profile.rank)
        numbered.append(replace(profile, in_step=str(number)))
    return numbered if number > 1 else profiles


def _in_step(profile: RankProfile) -> RankProfile:
    """``profile`` with all it holds in the step that its folder names."""
    step = profile.in_step
    if not step:
        return profile
    kinds = tuple((group, kind, step) for group, kind, _ in profile.calls.kinds)
    calls = _of_kinds(profile.calls, kinds)
    times: tuple[StepTime, ...] = ()
    if profile.steps:
        sums = [sum(getattr(own, name) for own in profile.steps) for name in ("computing", "exposed", "free", "total")]
        times = (StepTime(step, *sums),)
    stints = tuple(replace(stint, step=step) for stint in profile.stints)
    return replace(profile, calls=calls, steps=times, stints=stints)


def _of_kinds(calls: RankCalls, kinds: tuple[tuple[str, str, str], ...]) -> RankCalls:
    """``calls`` of other kinds, several of which may now be the same one."""
    codes: dict[tuple[str, str, str], int] = {}
    code = np.array([codes.setdefault(kind, len(codes)) for kind in kinds], np.int64)
    kind = code[calls.kind] if len(calls) else calls.kind
    return RankCalls(tuple(codes), calls.name, kind, calls.ordinal, calls.start, calls.end, calls.pair)


def _joined(profiles: list[RankProfile]) -> RankProfile:
    """The steps of one rank as one profile; arrivals of ranks without files only where their calls are told apart."""
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
