"""The part of the report that speaks of collectives."""

from __future__ import annotations

from npu_tui.analysis.work.collectives.collective import Collectives, Moved, by_owner, lists
from npu_tui.report.schema import ArrivalRow, CollectiveRow, TrafficRow
from npu_tui.report.values import each_us, ratio, text
from npu_tui.trace.model import Trace


def communication_part(trace: Trace, found: Collectives) -> list[CollectiveRow]:
    """The collectives ``found``."""
    slices, timings, waits, came = trace.slices, found.timings, found.waits, found.arrivals
    groups, types = [text(lane.name) for lane in trace.lanes], [text(each) for each in found.types]
    arrivals = [
        ArrivalRow(rank=rank, after_us=after)
        for rank, after in zip(came.rank.tolist(), each_us(came.after), strict=True)
    ]
    size, transfer = found.moved.sums(len(found))
    return [
        CollectiveRow(
            name=text(trace.names[name]),
            type=types[kind],
            group=groups[lane],
            start_us=start,
            elapsed_us=elapsed,
            wait_us=wait if timed else None,
            transit_us=transit if timed else None,
            synchronization_us=synchronization if timed else None,
            idle_us=idle if timed else None,
            size_bytes=size if links else None,
            bandwidth_gb_s=ratio(size, transfer) if links else None,
            longest_wait_us=longest if waited else None,
            peer_rank=peer if waited and peer >= 0 else None,
            arrivals=ranks,
            traffic=links,
        )
        for (
            name, kind, lane, start, elapsed, timed, wait, transit, synchronization, idle, size, transfer, waited,
            longest, peer, ranks, links,
        ) in zip(
            *lists(slices.name[found.item], found.type, slices.lane[found.item]),
            *map(each_us, (slices.start[found.item], found.elapsed)),
            *lists(timings.known),
            *map(each_us, (timings.wait, timings.transit, timings.synchronization, timings.idle)),
            *lists(size, transfer, waits.known),
            each_us(waits.length),
            *lists(waits.peer),
            by_owner(arrivals, came.owner, len(found)),
            by_owner(_traffic(found.moved), found.moved.owner, len(found)),
            strict=True,
        )
    ]  # fmt: skip


def _traffic(moved: Moved) -> list[TrafficRow]:
    """A row for each."""
    links = [text(link) for link in moved.links]
    return [
        TrafficRow(link=links[link], size_bytes=size, transit_us=time, bandwidth_gb_s=ratio(size, transfer))
        for link, size, transfer, time in zip(
            *lists(moved.link, moved.size, moved.transfer), each_us(moved.transfer), strict=True
        )
    ]
