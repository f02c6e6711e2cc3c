"""Links as ways to go: from a slice to what it launched, and back."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.trace.model import ASYNC_NPU, FORWARD_BACKWARD, HOST_TO_DEVICE, TASK_QUEUE, Trace

_PREFERENCE = (HOST_TO_DEVICE, TASK_QUEUE, ASYNC_NPU, FORWARD_BACKWARD)


class LinkEnds(Struct, frozen=True):
    """The links of one slice as indices of ``Trace.links``: those that leave and those that arrive, best first."""

    out: list[int]
    into: list[int]


def links_of(trace: Trace, item: int, category: str = HOST_TO_DEVICE) -> LinkEnds:
    """The links whose ends are bound to slice ``item``; those of ``category`` come first, then by target time."""
    links = trace.links
    order = _order(trace, category)
    out = np.flatnonzero(links.source_slice == item)
    into = np.flatnonzero(links.target_slice == item)
    return LinkEnds(_sorted(out, order, trace), _sorted(into, order, trace))


def inner_links(trace: Trace, item: int, category: str = HOST_TO_DEVICE) -> list[int]:
    """The links that leave slices inside ``item`` on its lane, most telling first."""
    links, slices = trace.links, trace.slices
    on_lane = (links.source_lane == slices.lane[item]) & (links.source_slice >= 0)
    within = (links.source_time >= slices.start[item]) & (links.source_time < slices.end[item])
    return _sorted(np.flatnonzero(on_lane & within), _order(trace, category), trace)


def forward(trace: Trace, item: int, category: str = HOST_TO_DEVICE) -> int | None:
    """The slice that the first link out of ``item``, or out of what it contains, leads to."""
    links = trace.links
    ways = links_of(trace, item, category).out or inner_links(trace, item, category)
    return next((int(links.target_slice[way]) for way in ways if links.target_slice[way] >= 0), None)


def back(trace: Trace, item: int, category: str = HOST_TO_DEVICE) -> int | None:
    """The slice that the first link into ``item`` comes from."""
    links = trace.links
    ways = links_of(trace, item, category).into
    return next((int(links.source_slice[way]) for way in ways if links.source_slice[way] >= 0), None)


def siblings(trace: Trace, item: int, category: str = HOST_TO_DEVICE) -> list[int]:
    """The slices that one launch leads to, by start: those beside ``item``, else those that it launched itself.

    The links of a launch share key and source; a source that issued several links counts as one launch. The first link
    of ``item`` that did not come alone counts, so kernels of one operation belong together even where each has a launch
    of its own. Fewer than two for a slice whose links all came alone.
    """
    ends = links_of(trace, item, category)
    groups = [_launched(trace, way) for way in (*ends.into, *ends.out)]
    return next((group for group in groups if len(group) > 1), groups[0] if groups else [])


def _launched(trace: Trace, way: int) -> list[int]:
    """The slices that the launch of link number ``way`` leads to, by start."""
    links = trace.links
    same = (links.category == links.category[way]) & (links.target_slice >= 0)
    group = same & (links.key == links.key[way]) & (links.source_event == links.source_event[way])
    if np.count_nonzero(group) < 2 and links.source_slice[way] >= 0:
        group = same & (links.source_slice == links.source_slice[way])
    found = np.unique(links.target_slice[group])
    order = np.argsort(trace.slices.start[found], kind="stable")
    return [int(target) for target in found[order]]


def link_span(trace: Trace, item: int) -> tuple[int, int] | None:
    """From the earliest to the latest end of the links of ``item`` with the slices there, ns; None without links."""
    ends = links_of(trace, item)
    ways = ends.out + ends.into
    if not ways:
        return None
    links, slices = trace.links, trace.slices
    # Where the clocks differ, a target can lie before its source.
    low = min(int(min(links.source_time[way], links.target_time[way])) for way in ways)
    high = max(int(max(links.source_time[way], links.target_time[way])) for way in ways)
    for way in ways:
        for other in (int(links.source_slice[way]), int(links.target_slice[way])):
            if other >= 0 and other != item:
                low, high = min(low, int(slices.start[other])), max(high, int(slices.start[other]))
    return low, high


def _order(trace: Trace, category: str) -> list[int]:
    """The rank of every link category."""
    preferred = (category, *_PREFERENCE)
    return [preferred.index(name) if name in preferred else len(preferred) for name in trace.link_categories]


def _sorted(ways: npt.NDArray[np.int64], order: list[int], trace: Trace) -> list[int]:
    links = trace.links
    return sorted(ways.tolist(), key=lambda way: (order[links.category[way]], int(links.target_time[way])))
