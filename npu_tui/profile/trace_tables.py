"""The tables that are the columns of the trace itself: slices, links, counters, operations of the framework."""

from __future__ import annotations

from typing import get_args

import numpy as np

from npu_tui.profile.columns import absolute, devices_of, lanes_of, names_of, slowest, times
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import (
    Array,
    CodedLabels,
    Numbers,
    TableSheet,
    attribute_rows,
    coded,
    columns,
    constant,
    from_tuples,
    labels,
    numbers,
    row_type,
    table,
    us,
)
from npu_tui.trace.arrays import distinct, most_first
from npu_tui.trace.classes import OpClass
from npu_tui.trace.model import LayerKind, Trace

_KINDS: list[str] = list(get_args(LayerKind))


def slices(profile: Profile) -> TableSheet:
    """Every slice of the trace."""
    trace = profile.trace
    columns, rows = trace.slices, len(trace.slices)
    layer_of = np.array([lane.layer for lane in trace.lanes], np.int64)
    kind_of = np.array([_KINDS.index(trace.layers[lane.layer].kind) for lane in trace.lanes], np.int64)
    device_of = devices_of(profile)

    def by_lane(values: Array) -> Array:
        return values if len(values) else np.zeros(1, np.int64)

    layer_of, kind_of, device_of = by_lane(layer_of), by_lane(kind_of), by_lane(device_of)
    return TableSheet(
        rows,
        {
            "device": Numbers(lambda first, last: device_of[columns.lane[first:last]], -1),
            "slice": Numbers(lambda first, last: np.arange(first, last, dtype=np.int64)),
            "layer": CodedLabels(
                lambda: [layer.name for layer in trace.layers], lambda first, last: layer_of[columns.lane[first:last]]
            ),
            "kind": CodedLabels(lambda: _KINDS, lambda first, last: kind_of[columns.lane[first:last]]),
            "lane": lanes_of(profile, columns.lane),
            "depth": numbers(columns.depth),
            "name": coded(trace.names, columns.name),
            "category": coded(trace.categories, columns.category),
            "class": coded([op_class.name.lower() for op_class in OpClass], columns.op_class),
            "task_type": coded(trace.task_types, columns.task_type),
            "stream": numbers(columns.stream, -1),
            "connection": numbers(columns.connection, -1),
            "correlation": numbers(columns.correlation, -1),
            "start": numbers(columns.start),
            "end": numbers(columns.end),
            "duration": Numbers(lambda first, last: columns.end[first:last] - columns.start[first:last]),
            "start_ns": absolute(profile, columns.start),
            "stack": coded(trace.stacks, columns.stack),
            "event": numbers(columns.event),
        },
    )


SLICES = table(
    "slices",
    slices,
    sql="rank device slice layer kind lane depth name category class task_type stream connection correlation start end "
    "duration start_ns stack event",
)


def links(profile: Profile) -> TableSheet:
    """Every (source, target) pair."""
    trace = profile.trace
    columns, rows = trace.links, len(trace.links)
    return TableSheet(
        rows,
        {
            "link": Numbers(lambda first, last: np.arange(first, last, dtype=np.int64)),
            "category": coded(trace.link_categories, columns.category),
            "source_slice": numbers(columns.source_slice, -1),
            "source_name": names_of(profile, columns.source_slice),
            "source_lane": lanes_of(profile, columns.source_lane),
            "source_time": numbers(columns.source_time),
            "target_slice": numbers(columns.target_slice, -1),
            "target_name": names_of(profile, columns.target_slice),
            "target_lane": lanes_of(profile, columns.target_lane),
            "target_time": numbers(columns.target_time),
            "latency": Numbers(lambda first, last: columns.target_time[first:last] - columns.source_time[first:last]),
        },
    )


LINKS = table(
    "links",
    links,
    sql="rank link category source_slice source_name source_lane source_time target_slice target_name target_lane "
    "target_time latency",
)


def layers(profile: Profile) -> TableSheet:
    """The processes of the trace."""
    trace = profile.trace
    return attribute_rows(
        trace.layers,
        "name kind rank device",
        lanes=lambda layer: len(layer.lanes),
        slices=lambda layer: sum(trace.lanes[lane].last - trace.lanes[lane].first for lane in layer.lanes),
    )


LAYERS = table(
    "layers",
    layers,
    json="name kind rank? device? lanes slices",
    section="layers",
    row="LayerRow",
    about="A process of the trace.",
    types={"kind": LayerKind},
)

Latency = row_type(
    "Latency",
    "Raw target minus source, µs; percentiles as numpy's ``linear``.",
    min=float | None,
    median=float | None,
    p90=float | None,
    max=float | None,
)


def link_categories(profile: Profile) -> TableSheet:
    """The links by category, those whose target lies in the window; ends are counted as distinct events."""
    trace, links = profile.trace, profile.trace.links
    rows = []
    for category in trace.link_categories:
        chosen = trace.links_of(category)
        chosen = chosen[profile.window.holds(links.target_time[chosen])]
        if not len(chosen):
            continue
        latency = links.latency[chosen].astype(np.float64)
        ends = (
            (links.source_event, chosen),
            (links.target_event, chosen),
            (links.source_event, chosen[links.source_slice[chosen] >= 0]),
            (links.target_event, chosen[links.target_slice[chosen] >= 0]),
        )
        percentiles = latency.min(), np.percentile(latency, 50), np.percentile(latency, 90), latency.max()
        rows.append(
            (
                category, *(distinct_events(trace, event[some]) for event, some in ends),
                Latency(*map(us, percentiles)), int(np.count_nonzero(latency < 0)),
            )
        )  # fmt: skip
    return from_tuples(rows, "category sources targets bound_sources bound_targets latencies negative")


def distinct_events(trace: Trace, events: Array) -> int:
    """How many events there are among the ordinals ``events``."""
    seen = np.zeros(sum(trace.events.values()), np.bool_)
    seen[events] = True
    return int(np.count_nonzero(seen))


LINK_CATEGORIES = table(
    "link_categories",
    link_categories,
    json="category sources targets bound_sources bound_targets latency_us=latencies negative",
    section="links",
    row="LinkRow",
    about="The links of one category; ends are counted as distinct events, bound ones lie on a slice.",
    types={"latencies": Latency},
)


def counters(profile: Profile) -> TableSheet:
    """Every sample of every counter."""
    trace = profile.trace
    columns, rows = trace.counters, len(trace.counters)
    series = (
        np.repeat(np.arange(len(columns.series), dtype=np.int64), np.diff(columns.offset)) if rows else np.zeros(0, int)
    )
    return TableSheet(
        rows,
        {
            "layer": coded([trace.layers[counter.layer].name for counter in columns.series], series),
            "series": numbers(series),
            "name": coded([counter.name for counter in columns.series], series),
            "key": coded([counter.key for counter in columns.series], series),
            "instance": coded([counter.instance for counter in columns.series], series),
            "start": numbers(columns.time),
            "start_ns": absolute(profile, columns.time),
            "value": numbers(columns.value),
        },
    )


COUNTERS = table("counters", counters, sql="rank layer series name key instance start start_ns value")


def overview(profile: Profile) -> TableSheet:
    """One row about the profile."""
    trace = profile.trace
    return TableSheet(
        1,
        {
            "device": constant(profile.device),
            "path": labels([profile.path]),
            "kind": labels([profile.kind]),
            "start_ns": numbers([profile.tables.start_ns]),
            "span": numbers([trace.end]),
            "events": numbers([sum(trace.events.values())]),
            "slices": numbers([len(trace.slices)]),
            "links": numbers([len(trace.links)]),
            "profiler_level": constant(profile.profiler_level),
            "bytes": numbers([trace.size]),
        },
    )


OVERVIEW = table(
    "profile",
    overview,
    sql="rank device path kind start_ns span events slices links profiler_level bytes",
    own=columns("whole", "bytes", "size", "bytes"),
)


def host_operators(profile: Profile) -> TableSheet:
    """Every operation of the framework."""
    operators, trace = profile.host_operators, profile.trace
    item, rows = operators.item, len(operators.item)
    return TableSheet(
        rows,
        {
            "slice": numbers(item),
            "name": names_of(profile, item),
            **times(profile, trace.slices.start[item], operators.host_total),
            "host_self": numbers(operators.host_self),
            "device_self": numbers(operators.device_self),
            "device_total": numbers(operators.device_total),
            "backward": numbers(operators.backward),
        },
    )


HOST_OPERATORS = table(
    "host_operators",
    host_operators,
    sql="rank slice name start end duration start_ns host_self device_self device_total backward",
)


def operations(profile: Profile) -> TableSheet:
    """The operations of the framework that start in the part by name, most host time of their own first."""
    operators, slices = profile.host_operators, profile.trace.slices
    chosen = np.flatnonzero(profile.window.holds(slices.start[operators.item]))
    item = operators.item[chosen]
    names, code = distinct(slices.name[item])
    count = np.bincount(code, minlength=len(names))
    sums = {
        name: np.bincount(code, getattr(operators, name)[chosen], len(names)).astype(np.int64)
        for name in ("host_self", "host_total", "device_self", "device_total", "backward")
    }
    order = np.array(most_first(sums["host_self"], [profile.trace.names[name] for name in names.tolist()]), np.int64)
    by_name = np.argsort(code, kind="stable")
    end = np.cumsum(count)
    longest, shortest = np.zeros(len(names), np.int64), np.ones(len(names), np.int64)
    if len(names):
        length = (slices.end[item] - slices.start[item])[by_name]
        longest, shortest = (extreme.reduceat(length, end - count) for extreme in (np.maximum, np.minimum))

    def members(row: int) -> Array:
        k = order[row]
        return item[by_name[end[k] - count[k] : end[k]]]

    return TableSheet(
        len(names),
        {
            "name": coded(profile.trace.names, names[order]),
            "calls": numbers(count[order]),
            **{name: numbers(values[order]) for name, values in sums.items()},
            "spread": numbers((longest / np.maximum(shortest, 1))[order]),
        },
        **slowest(profile, members),
    )


OPERATIONS = table(
    "operations",
    operations,
    json="name count=calls host_self device_self",
    panel="host_self host_total device_self device_total backward count=calls operation=name spread",
    section="host_operators",
    row="HostOperatorRow",
    about="Operations of the framework of one name: time of their own on the host and the device time they launched.",
)
