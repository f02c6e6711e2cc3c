"""What columns of several tables are made of: where and when slices and times are, and what losses refer to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from npu_tui.profile.profile import Profile
from npu_tui.profile.table import MISSING, Array, CodedLabels, Data, Numbers, RankedSlices, coded, numbers
from npu_tui.rules.model import Base

if TYPE_CHECKING:  # which come with all rules
    from npu_tui.rules.facts import Facts

UNKNOWN = -1


def times(profile: Profile, start: Array, duration: Array) -> dict[str, Data]:
    """``start``, ``end``, ``duration`` and the absolute ``start_ns`` of rows, ns."""
    return {
        "start": numbers(start),
        "end": Numbers(lambda first, last: start[first:last] + duration[first:last]),
        "duration": numbers(duration),
        "start_ns": absolute(profile, start),
    }


def absolute(profile: Profile, start: Array) -> Numbers:
    """``start`` as ns since 1970."""
    origin = profile.tables.start_ns
    return Numbers(lambda first, last: start[first:last] + origin)


def names_of(profile: Profile, items: Array) -> CodedLabels:
    """The names of the slices ``items``, null below 0."""
    codes = np.append(profile.trace.slices.name, UNKNOWN)
    return CodedLabels(lambda: profile.trace.names, lambda first, last: codes[items[first:last]])


def lanes_of(profile: Profile, lane: Array) -> CodedLabels:
    """The names of the lanes ``lane``, null below 0."""
    values = [known.name for known in profile.trace.lanes]
    return coded(values, lane)


def devices_of(profile: Profile) -> Array:
    """The device of every lane, -1 where none is known."""
    known = [profile.trace.layers[lane.layer].device for lane in profile.trace.lanes]
    return np.array([UNKNOWN if number is None else number for number in known], np.int64)


def steps_at(profile: Profile, start: Array) -> Numbers:
    """The step on the device to which what starts at ``start`` belongs, null outside of all."""
    steps = [
        (step.window, step.number) for step in profile.steps if step.window is not None and step.number is not None
    ]
    begins = np.array([window.start for window, _ in steps], np.int64)
    ends = np.array([window.end for window, _ in steps], np.int64)
    number = np.array([number for _, number in steps], np.int64)

    def numbers_of(first: int, last: int) -> Array:
        time = start[first:last]
        if not len(begins):
            return np.full(len(time), UNKNOWN)
        at = np.searchsorted(begins, time, "right") - 1
        return np.where((at >= 0) & (time < ends[at]), number[at], UNKNOWN)

    return Numbers(numbers_of, UNKNOWN)


def where(values: Array, known: Array) -> Numbers:
    """``values`` where they are ``known``, null elsewhere."""
    return numbers(np.where(known, values, MISSING), MISSING)


def slowest(profile: Profile, members: Callable[[int], Array]) -> dict[str, Any]:
    """``place`` and ``lengths`` of rows that add up the slices ``members``: the slowest comes first."""
    slices = profile.trace.slices

    def lengths(row: int) -> Array:
        items = members(row)
        return slices.end[items] - slices.start[items]

    def place(row: int) -> RankedSlices:
        items = members(row)
        return RankedSlices(len(items), lambda: items[np.argsort(-lengths(row), kind="stable")])

    return {"place": place, "lengths": lengths}


def base_of(facts: Sequence[Facts]) -> Base:
    """What the losses of devices refer to."""
    return next((Base(device.unit_name, device.count) for device in facts), Base("run"))
