"""The tables that are the columns of the trace itself: slices, links, counters."""

from __future__ import annotations

from typing import get_args

import numpy as np

from npu_tui.profile.profile import Profile
from npu_tui.tables.places import absolute, devices_of, lanes_of, names_of, rank_of, times
from npu_tui.tables.sheet import Array, Labels, Sheet, coded, computed, constant, labels, numbers
from npu_tui.trace.classes import OpClass
from npu_tui.trace.model import LayerKind

_KINDS: list[str] = list(get_args(LayerKind))


def slices(profile: Profile) -> Sheet:
    """Every slice of the trace."""
    trace = profile.trace
    own, rows = trace.slices, len(trace.slices)
    layer_of = np.array([lane.layer for lane in trace.lanes], np.int64)
    kind_of = np.array([_KINDS.index(trace.layers[lane.layer].kind) for lane in trace.lanes], np.int64)
    device_of = devices_of(profile)

    def by_lane(values: Array) -> Array:
        return values if len(values) else np.zeros(1, np.int64)

    layer_of, kind_of, device_of = by_lane(layer_of), by_lane(kind_of), by_lane(device_of)
    return Sheet(
        rows,
        {
            "rank": rank_of(profile, rows),
            "device": computed(lambda first, last: device_of[own.lane[first:last]], -1),
            "slice": computed(lambda first, last: np.arange(first, last, dtype=np.int64)),
            "layer": Labels(
                lambda: [layer.name for layer in trace.layers], lambda first, last: layer_of[own.lane[first:last]]
            ),
            "kind": Labels(lambda: _KINDS, lambda first, last: kind_of[own.lane[first:last]]),
            "lane": lanes_of(profile, own.lane),
            "depth": numbers(own.depth),
            "name": coded(trace.names, own.name),
            "category": coded(trace.categories, own.category),
            "class": coded([each.name.lower() for each in OpClass], own.op_class),
            "task_type": coded(trace.task_types, own.task_type),
            "stream": numbers(own.stream, -1),
            "connection": numbers(own.connection, -1),
            "correlation": numbers(own.correlation, -1),
            "start": numbers(own.start),
            "end": numbers(own.end),
            "duration": computed(lambda first, last: own.end[first:last] - own.start[first:last]),
            "start_ns": absolute(profile, own.start),
            "stack": coded(trace.stacks, own.stack),
            "event": numbers(own.event),
        },
    )


def links(profile: Profile) -> Sheet:
    """Every (source, target) pair."""
    trace = profile.trace
    own, rows = trace.links, len(trace.links)
    return Sheet(
        rows,
        {
            "rank": rank_of(profile, rows),
            "link": computed(lambda first, last: np.arange(first, last, dtype=np.int64)),
            "category": coded(trace.link_categories, own.category),
            "source_slice": numbers(own.source_slice, -1),
            "source_name": names_of(profile, own.source_slice),
            "source_lane": lanes_of(profile, own.source_lane),
            "source_time": numbers(own.source_time),
            "target_slice": numbers(own.target_slice, -1),
            "target_name": names_of(profile, own.target_slice),
            "target_lane": lanes_of(profile, own.target_lane),
            "target_time": numbers(own.target_time),
            "latency": computed(lambda first, last: own.target_time[first:last] - own.source_time[first:last]),
        },
    )


def counters(profile: Profile) -> Sheet:
    """Every sample of every counter."""
    trace = profile.trace
    own, rows = trace.counters, len(trace.counters)
    series = np.repeat(np.arange(len(own.series), dtype=np.int64), np.diff(own.offset)) if rows else np.zeros(0, int)
    return Sheet(
        rows,
        {
            "rank": rank_of(profile, rows),
            "layer": coded([trace.layers[each.layer].name for each in own.series], series),
            "series": numbers(series),
            "name": coded([each.name for each in own.series], series),
            "key": coded([each.key for each in own.series], series),
            "instance": coded([each.instance for each in own.series], series),
            "start": numbers(own.time),
            "start_ns": absolute(profile, own.time),
            "value": numbers(own.value),
        },
    )


def overview(profile: Profile) -> Sheet:
    """One row about the profile."""
    trace = profile.trace
    return Sheet(
        1,
        {
            "rank": rank_of(profile, 1),
            "device": constant(profile.device, 1),
            "path": labels([profile.path]),
            "kind": labels([profile.kind]),
            "start_ns": numbers([profile.tables.start_ns]),
            "span": numbers([trace.end]),
            "events": numbers([sum(trace.events.values())]),
            "slices": numbers([len(trace.slices)]),
            "links": numbers([len(trace.links)]),
            "profiler_level": constant(profile.profiler_level, 1),
            "bytes": numbers([trace.size]),
        },
    )


def host_operators(profile: Profile) -> Sheet:
    """Every operation of the framework."""
    found, trace = profile.host_operators, profile.trace
    item, rows = found.item, len(found.item)
    return Sheet(
        rows,
        {
            "rank": rank_of(profile, rows),
            "slice": numbers(item),
            "name": names_of(profile, item),
            **times(profile, trace.slices.start[item], found.host_total),
            "host_self": numbers(found.host_self),
            "device_self": numbers(found.device_self),
            "device_total": numbers(found.device_total),
        },
    )
