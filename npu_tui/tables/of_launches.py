"""The tables about launches: one row per launch, and lost time by line of code."""

from __future__ import annotations

import numpy as np

from npu_tui.analysis.launches.backlog import host_lead
from npu_tui.analysis.launches.code_lines import launches_by_line
from npu_tui.analysis.launches.origin import dequeue_of, enqueue_of, operation_of
from npu_tui.profile.profile import Profile
from npu_tui.tables.places import UNKNOWN, names_of, rank_of, steps_at, times
from npu_tui.tables.sheet import Array, Labels, Numbers, Sheet, coded, computed, labels, numbers, optional
from npu_tui.trace.once import once

_CLASSES = ["near-vertical", "shallow", "queued"]


class _Launches:
    """The launches of all devices by device and target start; what costs is made once, when it is asked for."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.trace = profile.trace
        self.devices = profile.dispatch
        self.link = self._each("link", np.int64)

    def _each(self, name: str, kind: type) -> Array:
        parts = [getattr(device, name) for device in self.devices]
        return np.concatenate(parts) if parts else np.zeros(0, kind)

    @property
    def device(self) -> Array:
        """The number of the device of each, -1 where it has none."""
        number = [UNKNOWN if each.device is None else each.device for each in self.devices]
        return np.repeat(np.array(number, np.int64), [len(each.link) for each in self.devices])

    @property
    def shape(self) -> Array:
        """The class of each, by ``_CLASSES``."""
        found = [np.where(each.near_vertical, 0, np.where(each.queued, 2, 1)) for each in self.devices]
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    @once
    def dequeue(self) -> Array:
        """The Dequeue slice of each, -1 without."""
        return dequeue_of(self.trace, self.link)

    @once
    def enqueue(self) -> Array:
        """The Enqueue slice of each, -1 without."""
        return enqueue_of(self.trace, self.dequeue)

    @once
    def operation(self) -> Array:
        """The operation of each, -1 without."""
        return operation_of(self.trace, self.trace.links.target_slice[self.link].astype(np.int64))

    @once
    def lead(self) -> Array:
        """The host's lead of each, ns."""
        found = [host_lead(self.trace, each) for each in self.devices]
        return np.concatenate(found) if found else np.zeros(0)

    @once
    def lines(self) -> tuple[list[tuple[str, int, str]], Array]:
        """The distinct lines of code, and which one each launch has, -1 without."""
        known: dict[tuple[str, int, str], int] = {}
        codes = np.full(len(self.link), UNKNOWN, np.int64)
        at = 0
        for device in self.devices:
            everything = np.arange(len(device.link), dtype=np.int64)
            for line, members in launches_by_line(self.trace, device, everything):
                if line is not None:
                    place = line.file, line.line, line.function
                    codes[at + members] = known.setdefault(place, len(known))
            at += len(device.link)
        return list(known), codes

    def later(self, values: Array, name: str) -> Numbers:
        """``values`` of the slices that the property ``name`` gives, null without one."""
        return computed(lambda first, last: _taken(values, getattr(self, name)[first:last]), UNKNOWN)


def _taken(values: Array, items: Array) -> Array:
    return np.where(items >= 0, values[items], UNKNOWN) if len(values) else np.full(len(items), UNKNOWN)


def launches(profile: Profile) -> Sheet:
    """Every launch with its way from the operation to the device."""
    all_of = _Launches(profile)
    trace, link, rows = profile.trace, all_of.link, len(all_of.link)
    links, own = trace.links, trace.slices
    target = links.target_slice[link].astype(np.int64)
    source = links.source_slice[link].astype(np.int64)
    start = own.start[target]
    name_of = np.append(own.name, UNKNOWN)
    return Sheet(
        rows,
        {
            "rank": rank_of(profile, rows),
            "device": numbers(all_of.device, UNKNOWN),
            "step": steps_at(profile, start),
            "link": numbers(link),
            "slice": numbers(target),
            "name": names_of(profile, target),
            **times(profile, start, own.end[target] - start),
            "class": coded(_CLASSES, all_of.shape),
            "starved": numbers(all_of._each("starved", np.bool_)),
            "lost": numbers(all_of._each("lost", np.float64)),
            "relative": numbers(all_of._each("relative", np.float64)),
            "lead": computed(lambda first, last: all_of.lead[first:last]),
            "latency": numbers(links.latency[link]),
            "source_time": numbers(links.source_time[link]),
            "launch": numbers(source, UNKNOWN),
            "launch_name": names_of(profile, source),
            "dequeue": computed(lambda first, last: all_of.dequeue[first:last], UNKNOWN),
            "dequeue_start": all_of.later(own.start, "dequeue"),
            "dequeue_end": all_of.later(own.end, "dequeue"),
            "enqueue": computed(lambda first, last: all_of.enqueue[first:last], UNKNOWN),
            "enqueue_start": all_of.later(own.start, "enqueue"),
            "enqueue_end": all_of.later(own.end, "enqueue"),
            "op": computed(lambda first, last: all_of.operation[first:last], UNKNOWN),
            "op_name": Labels(lambda: trace.names, lambda first, last: name_of[all_of.operation[first:last]]),
            "op_start": all_of.later(own.start, "operation"),
            "file": Labels(lambda: [each[0] for each in all_of.lines[0]], lambda a, b: all_of.lines[1][a:b]),
            "line": computed(lambda first, last: _line_numbers(all_of.lines, first, last), UNKNOWN),
            "function": Labels(lambda: [each[2] for each in all_of.lines[0]], lambda a, b: all_of.lines[1][a:b]),
        },
    )


def _line_numbers(lines: tuple[list[tuple[str, int, str]], Array], first: int, last: int) -> Array:
    number = np.array([line for _, line, _ in lines[0]] + [UNKNOWN], np.int64)
    return number[lines[1][first:last]]


def code_lines(profile: Profile) -> Sheet:
    """Lost time by line of code, as the report has it."""
    found = [(facts.part.device, each) for facts in profile.whole.facts if facts.launches is not None
             for each in facts.lines]  # fmt: skip
    codes = [each.code for _, each in found]
    return Sheet(
        len(found),
        {
            "rank": rank_of(profile, len(found)),
            "device": optional([device for device, _ in found]),
            "file": labels([None if code is None else code.file for code in codes]),
            "line": optional([None if code is None else code.line for code in codes]),
            "function": labels([None if code is None else code.function for code in codes]),
            "lost": numbers(np.array([each.lost for _, each in found], np.float64)),
            "launches": numbers(np.array([each.launches for _, each in found], np.int64)),
        },
    )


def free(profile: Profile) -> Sheet:
    """Every time a device was free, and whose fault it was."""
    found = profile.idles
    rows = sum(len(each) for each in found)

    def joined(name: str, kind: type = np.int64) -> Array:
        return np.concatenate([getattr(each, name) for each in found]) if found else np.zeros(0, kind)

    start, end, late, linked = joined("start"), joined("end"), joined("late", float), joined("linked", bool)
    length = (end - start).astype(np.float64)
    known = np.repeat(np.array([_has_launches(profile, each.device) for each in found], np.bool_),
                      [len(each) for each in found])  # fmt: skip
    device = [UNKNOWN if each.device is None else each.device for each in found]
    before, after = joined("before"), joined("after")
    return Sheet(
        rows,
        {
            "rank": rank_of(profile, rows),
            "device": numbers(np.repeat(np.array(device, np.int64), [len(each) for each in found]), UNKNOWN),
            "step": steps_at(profile, start),
            **times(profile, start, end - start),
            "host_late": numbers(np.where(known, np.where(linked, late, 0.0), np.nan)),
            "device_side": numbers(np.where(known, np.where(linked, length - late, 0.0), np.nan)),
            "unlinked": numbers(np.where(known, np.where(linked, 0.0, length), np.nan)),
            "before_slice": numbers(before, UNKNOWN),
            "before_name": names_of(profile, before),
            "after_slice": numbers(after, UNKNOWN),
            "after_name": names_of(profile, after),
            "link": numbers(joined("link"), UNKNOWN),
        },
    )


def _has_launches(profile: Profile, device: int | None) -> bool:
    """Whether any launch leads to ``device``, so that its free time can be split."""
    return any(each.device == device for each in profile.dispatch)
