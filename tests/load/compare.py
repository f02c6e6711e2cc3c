"""The loader's trace against the reference reader's, everything that both know."""

from __future__ import annotations

from collections import Counter

from reference import Reference, Slice

from npu_tui.load.json_events import name_after_number
from npu_tui.trace.model import Lane, Trace


def assert_equal(trace: Trace, reference: Reference) -> None:
    """Slices lane by lane, links end by end, counters sample by sample, events by phase."""
    assert trace.events == reference.phases
    assert trace.start_ns == reference.start
    assert slices_of(trace) == {thread: expected_slices(lane) for thread, lane in reference.slices.items()}
    assert Counter(links_of(trace)) == Counter(expected_links(reference))
    assert keys_of(trace) == expected_keys(reference)
    assert samples_of(trace) == expected_samples(reference)
    assert len(trace.slices) == sum(lane.last - lane.first for lane in trace.lanes)


def thread_of(trace: Trace, lane: Lane) -> tuple[object, object]:
    """Process and thread as the file writes them."""
    pid = trace.layers[lane.layer].pid
    if lane.tid == -2:
        return name_after_number(pid) or pid, ""
    asynchronous = lane.tid < -1 and not name_after_number(lane.tid)
    return name_after_number(pid) or pid, ("async", lane.name) if asynchronous else name_after_number(
        lane.tid
    ) or lane.tid


def slices_of(trace: Trace) -> dict[tuple[object, object], list[tuple[object, ...]]]:
    slices = trace.slices
    found = {}
    for lane in trace.file_lanes:
        found[thread_of(trace, lane)] = [
            (
                int(slices.start[i]) + trace.start_ns,
                int(slices.end[i]) + trace.start_ns,
                int(slices.depth[i]),
                trace.names[slices.name[i]],
                trace.categories[slices.category[i]],
                trace.task_types[slices.task_type[i]] if slices.task_type[i] >= 0 else None,
                int(slices.stream[i]),
                int(slices.connection[i]),
                int(slices.correlation[i]),
                _recorded_stack(trace, i),
                int(slices.event[i]),
            )
            for i in range(lane.first, lane.last)
        ]
        assert (slices.lane[lane.first : lane.last] == lane.index).all()
    return found


def _recorded_stack(trace: Trace, item: int) -> str | None:
    stack = int(trace.slices.stack[item])
    return _not_its_own(trace.stacks[stack], trace.name_of(item)) if stack >= 0 else None


def _not_its_own(stack: str | None, name: str) -> str | None:
    """A call stack unless it begins with its slice: that of a frame of Python follows from the frames around it."""
    return stack if stack and stack.partition(";")[0] != name else None


def expected_slices(lane: list[Slice]) -> list[tuple[object, ...]]:
    return [
        (
            item.start,
            item.end,
            item.depth,
            item.event.get("name", ""),
            item.event.get("cat", ""),
            item.arg("Task Type") or None,
            _first(item.arg("Stream Id"), item.arg("Physic Stream Id")),
            _first(item.arg("connection_id")),
            _first(item.arg("correlation_id")),
            _not_its_own(item.arg("Call stack"), item.event.get("name", "")),
            item.ordinal,
        )
        for item in lane
    ]


def _first(*values: int | None) -> int:
    return next((value for value in values if value is not None), -1)


def links_of(trace: Trace) -> list[tuple[object, ...]]:
    links, event = trace.links, trace.slices.event
    assert (links.target_time[1:] >= links.target_time[:-1]).all()
    return [
        (
            trace.link_categories[links.category[i]],
            int(links.source_event[i]),
            int(links.target_event[i]),
            int(links.source_time[i]) + trace.start_ns,
            int(links.target_time[i]) + trace.start_ns,
            int(event[links.source_slice[i]]) if links.source_slice[i] >= 0 else None,
            int(event[links.target_slice[i]]) if links.target_slice[i] >= 0 else None,
        )
        for i in range(len(links))
    ]


def expected_links(reference: Reference) -> list[tuple[object, ...]]:
    return [
        (
            pair.category,
            pair.source.ordinal,
            pair.target.ordinal,
            pair.source.time,
            pair.target.time,
            pair.source_slice.ordinal if pair.source_slice else None,
            pair.target_slice.ordinal if pair.target_slice else None,
        )
        for pair in reference.pairs
    ]


def keys_of(trace: Trace) -> set[frozenset[int]]:
    """The sets of target ordinals that share a key."""
    groups: dict[int, set[int]] = {}
    for key, target in zip(trace.links.key.tolist(), trace.links.target_event.tolist(), strict=True):
        groups.setdefault(key, set()).add(target)
    return {frozenset(group) for group in groups.values()}


def expected_keys(reference: Reference) -> set[frozenset[int]]:
    groups: dict[tuple[str, str], set[int]] = {}
    for pair in reference.pairs:
        groups.setdefault((pair.category, pair.id), set()).add(pair.target.ordinal)
    return {frozenset(group) for group in groups.values()}


def samples_of(trace: Trace) -> dict[tuple[object, str, str, str], list[tuple[int, float]]]:
    counters = trace.counters
    found = {}
    for series in counters.series:
        own = slice(counters.offset[series.index], counters.offset[series.index + 1])
        times = (counters.time[own] + trace.start_ns).tolist()
        samples = list(zip(times, counters.value[own].tolist(), strict=True))
        pid = trace.layers[series.layer].pid
        found[name_after_number(pid) or pid, series.name, series.key, series.instance] = samples
    return found


def expected_samples(reference: Reference) -> dict[tuple[object, str, str, str], list[tuple[int, float]]]:
    return {key: [(time, float(value)) for time, value in series] for key, series in reference.samples.items()}
