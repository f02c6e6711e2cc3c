"""Whose the compared steps of two profiles are, by their critical paths: what each owner adds or takes.

Of every compared step the path tells each nanosecond; what it does not reach is outside of it. So the differences of
all owners sum to that of the step.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import zip_longest

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.code_lines import CodeLine
from npu_tui.analysis.lateness import lane_and_place
from npu_tui.analysis.operators import collective_type
from npu_tui.analysis.path import Doing, Owner, PathKind
from npu_tui.compare.measured import MeasuredSide
from npu_tui.compare.operations import shared_names
from npu_tui.load.errors import InputError
from npu_tui.rules.told_path import owner_name, run_path, short_call
from npu_tui.trace.arrays import summed
from npu_tui.trace.intervals import covered_within
from npu_tui.trace.message import Message, message
from npu_tui.trace.model import Trace
from npu_tui.trace.text import brief

_GROUP = " ("  # between the type of a collective and its group
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class OwnerSide(Struct, frozen=True):
    """What one side spends on an owner, ns in all compared steps; ``item`` is a slice of it, -1 without one."""

    kind: PathKind
    doing: Doing
    name: Message | str
    where: CodeLine | None
    time: int
    item: int = -1


class OwnerChange(Struct, frozen=True):
    """One owner on both sides, None where a side has it not; ``base_ns`` and ``new_ns`` are of one step, whole ns.

    They add up to the mean step of each side, rounded. ``exact`` is the difference times both counts of steps.
    """

    base: OwnerSide | None
    new: OwnerSide | None
    base_ns: int
    new_ns: int
    exact: int

    @property
    def known(self) -> OwnerSide:
        """The owner as the new side has it, else as the base."""
        side = self.new or self.base
        assert side is not None  # one of both has it
        return side

    @property
    def delta(self) -> int:
        """New minus base, ns per step."""
        return self.new_ns - self.base_ns


class Untold(Struct, frozen=True):
    """Why the owners of two sides are not compared."""

    side: str
    reason: Message


def owner_changes(
    base: MeasuredSide, new: MeasuredSide, renamed: Mapping[str, str], delta: float
) -> list[OwnerChange] | Untold:
    """The owners of both sides, the largest difference first; ``delta`` is that of the mean step, ns."""
    owned = []
    for name, side, names in (("base", base, renamed), ("new", new, {})):
        found = _owned(side, names)
        if isinstance(found, Message):
            return Untold(name, found)
        owned.append(found)
    pairs = _pairs(*owned)
    counts = len(base.windows), len(new.windows)
    before, after = ([0 if row is None else row.time for row in side] for side in zip(*pairs, strict=True))
    total = round(sum(before) / counts[0])
    shares = _rounded(before, counts[0], total), _rounded(after, counts[1], total + round(delta))
    rows = [
        OwnerChange(*pair, was, now, counts[0] * last - counts[1] * first)
        for pair, was, now, first, last in zip(pairs, *shares, before, after, strict=True)
    ]
    return sorted(rows, key=lambda row: (-abs(row.delta), -row.new_ns))


def _rounded(times: Sequence[int], count: int, total: int) -> list[int]:
    """``times`` over ``count`` in whole numbers that sum to ``total``: those next to the following one are raised."""
    whole = [time // count for time in times]
    left = total - sum(whole)
    order = sorted(range(len(times)), key=lambda k: -(times[k] % count))
    for k in order[: max(left, 0)]:
        whole[k] += 1
    if left < 0 or left > len(times):  # the sums differ by a rounding: the largest takes it
        largest = max(range(len(times)), key=lambda k: times[k], default=0)
        whole[largest] += total - sum(whole)
    return whole


_Key = tuple[Hashable, ...]
"""What says that two owners are the same; the last of it, a line, thread, group or stream, may differ."""


def _owned(side: MeasuredSide, renamed: Mapping[str, str]) -> dict[_Key, OwnerSide] | Message:
    """The owners of the compared steps of ``side``, or why they are not told."""
    profile = side.profile.whole
    if profile.clock_jump is not None:
        return profile.clock_jump
    device = next((part.device for part in profile.devices if part.lanes is not None), None)
    facts = next((facts for facts in profile.facts if facts.part.device == device and facts.has("overlap")), None)
    if facts is None:
        return message("path.no_launches" if side.of_tables else "path.no_device")
    try:
        told = run_path(facts)
    except InputError as error:
        return error.message
    if told.owners is None:
        return told.reason or message("path.no_launches")
    path, owners = told.owners.path, told.owners.owners
    start = np.array([window.start for window in side.windows], np.int64)
    end = np.array([window.end for window in side.windows], np.int64)
    within = covered_within(start, end, path.start, path.end)
    rows: list[tuple[_Key, OwnerSide]] = []
    for owner, time in zip(owners, summed(told.owners.owner, within, len(owners)).tolist(), strict=True):
        if time:
            item = int(owner.items[0]) if len(owner.items) else -1
            row = OwnerSide(owner.kind, owner.doing, _owner_name(side.trace, owner), owner.where, time, item)
            rows.append((_owner_key(side.trace, owner, renamed), row))
    outside = int((end - start).sum()) - int(within.sum())
    if outside:
        row = OwnerSide("unexplained", "device", message("path.owner.outside"), None, outside)
        rows.append((("outside", None), row))
    return _merged_owners(rows)


def _owner_key(trace: Trace, owner: Owner, renamed: Mapping[str, str]) -> _Key:
    if owner.kind == "late_rank":
        lane, place = lane_and_place(owner.peer)
        return owner.kind, place, None if lane < 0 else trace.lanes[lane].name
    name = renamed.get(owner.name, owner.name)
    if owner.kind in ("device_gap", "unexplained"):
        return owner.kind, None, name
    if owner.kind == "transfer":
        kind, _, group = name.partition(_GROUP)
        return owner.kind, collective_type(kind), group
    if owner.doing == "device":
        return owner.kind, name, None
    called = "" if owner.doing == "launch" else _ADDRESS.sub("", short_call(name))
    if owner.where is None:
        return owner.doing, called, None, owner.thread if owner.doing == "launch" else None
    return owner.doing, called, (owner.where.file, owner.where.function), owner.where.line


def _owner_name(trace: Trace, owner: Owner) -> Message | str:
    """What the owner is called on both sides."""
    if owner.kind != "transfer":
        return owner_name(trace, owner)
    kind, bracket, group = owner.name.partition(_GROUP)  # a collective has a number of its own in every run
    return brief(f"{collective_type(kind).rstrip('_')}{bracket}{group}")


_Pair = tuple[OwnerSide | None, OwnerSide | None]


def _pairs(base: dict[_Key, OwnerSide], new: dict[_Key, OwnerSide]) -> list[_Pair]:
    """The owners of both sides that are the same: by line or thread, else in the order of these, or of times."""
    places = {row.where.file for side in (base, new) for row in side.values() if row.where is not None}
    names = shared_names(sorted(places))
    sides = [_merged_owners((_in_any_folder(key, names), row) for key, row in side.items()) for side in (base, new)]
    pairs: list[_Pair] = [(row, sides[1][key]) for key, row in sides[0].items() if key in sides[1]]
    left: dict[_Key, tuple[list[_Key], list[_Key]]] = defaultdict(lambda: ([], []))
    for k in (0, 1):
        for key in sides[k]:
            if key not in sides[1 - k]:
                left[key[:-1]][k].append(key)
    for keys in left.values():
        ordered = (sorted(side, key=lambda key: key[-1] if isinstance(key[-1], int) else 0) for side in keys)
        for was, now in zip_longest(*ordered):
            pairs.append((None if was is None else sides[0][was], None if now is None else sides[1][now]))
    return pairs


def _merged_owners(rows: Iterable[tuple[_Key, OwnerSide]]) -> dict[_Key, OwnerSide]:
    """``rows`` with the times of equal keys added up."""
    merged: dict[_Key, OwnerSide] = {}
    for key, row in rows:
        merged[key] = replace(merged[key], time=merged[key].time + row.time) if key in merged else row
    return merged


def _in_any_folder(key: _Key, names: Mapping[str, str]) -> _Key:
    """``key`` with the name of its file that it has in any folder."""
    return tuple((names[part[0]], part[1]) if isinstance(part, tuple) else part for part in key)
