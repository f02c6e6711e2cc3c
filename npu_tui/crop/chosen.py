"""Which slices and links of a trace a crop keeps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.device import EVERYTHING, Window
from npu_tui.analysis.launches import Around, dequeue_of, enqueue_of
from npu_tui.trace.model import HOST_TO_DEVICE, TASK_QUEUE, Trace
from npu_tui.trace.transfers import groups_of

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Wanted(Struct, frozen=True):
    """What to keep: slices that touch ``window``, on ``lanes`` (None: all), whose name contains one of ``names``.

    With ``clip`` slices are cut at the edges of the window, and nothing outside of it is kept.
    """

    window: Window = EVERYTHING
    lanes: frozenset[int] | None = None
    names: tuple[str, ...] = ()
    clip: bool = False


class Chosen(Struct, frozen=True):
    """Masks over the slices and the links of a trace that are kept; (slices,) and (links,)."""

    wanted: Wanted
    slices: Bools
    links: Bools

    def events(self, trace: Trace) -> Bools:
        """Which events are kept because of a slice or a link, by ordinal; (events,)."""
        kept = np.zeros(sum(trace.events.values()), np.bool_)
        kept[trace.slices.event[self.slices]] = True
        kept[trace.links.source_event[self.links]] = True
        kept[trace.links.target_event[self.links]] = True
        return kept


def lanes_named(trace: Trace, words: Sequence[str]) -> frozenset[int]:
    """The lanes whose name, or whose layer's name, contains one of ``words``; case does not count."""
    found = set()
    for lane in trace.file_lanes:
        texts = (lane.name.lower(), trace.layers[lane.layer].name.lower())
        if any(word.strip().lower() in text for word in words for text in texts):
            found.add(lane.index)
    return frozenset(found)


def chosen(trace: Trace, wanted: Wanted) -> Chosen:
    """What of ``trace`` is kept as ``wanted`` says.

    A link stays with its target, a collective has its tasks with it. Unless slices are clipped a link brings the slice
    at its source, and a launch its way through the task queue, wherever they are: without them nothing tells who
    launched what is kept.
    """
    links = trace.links
    touched, allowed = _touched(trace, wanted), _on_lanes(trace, wanted)
    if not wanted.clip and not wanted.names:
        touched |= _tasks(trace, touched) & allowed
    target, source = links.target_slice, links.source_slice
    free_ends = not wanted.names
    inside = wanted.window.holds(links.target_time)
    to_kept = np.append(touched, False)[target]
    to_kept |= (target < 0) & inside & free_ends & _lanes_kept(wanted, links.target_lane)
    from_there = np.append(touched if wanted.clip else allowed, False)[source]
    from_there |= (source < 0) & _lanes_kept(wanted, links.source_lane)
    kept = to_kept & from_there
    if wanted.clip:
        kept &= inside & wanted.window.holds(links.source_time)
    pulled = np.zeros(len(touched), np.bool_)
    pulled[source[kept & (source >= 0)]] = True
    if not wanted.clip:
        launches = np.intersect1d(np.flatnonzero(kept), trace.links_of(HOST_TO_DEVICE))
        dequeue = dequeue_of(trace, launches)
        queued = np.concatenate([dequeue, enqueue_of(trace, dequeue)])
        pulled[queued[queued >= 0]] = True
        pulled |= _around(trace, pulled & ~touched)
        pulled &= allowed
        queue = trace.links_of(TASK_QUEUE)
        both = np.append(touched | pulled, False)
        kept[queue[both[target[queue]] & both[source[queue]]]] = True
    return Chosen(wanted, touched | pulled, kept)


def _tasks(trace: Trace, kept: Bools) -> Bools:
    """The tasks on planes of the collectives among ``kept``: a collective that is kept whole keeps all of them."""
    slices = trace.slices
    found = np.zeros(len(kept), np.bool_)
    for group, planes in groups_of(trace):
        own = group.first + np.flatnonzero(kept[group.first : group.last])
        if not len(own):
            continue
        latest = np.maximum.accumulate(slices.end[own])
        for plane in planes:
            start = slices.start[plane.first : plane.last]
            at = np.searchsorted(slices.start[own], start, "right") - 1
            found[plane.first : plane.last] = (at >= 0) & (start < latest[np.maximum(at, 0)])
    return found


def _touched(trace: Trace, wanted: Wanted) -> Bools:
    slices, window = trace.slices, wanted.window
    kept = _on_lanes(trace, wanted)
    if window != EVERYTHING:
        kept &= ((slices.end > window.start) & (slices.start < window.end)) | window.holds(slices.start)
    if wanted.names:
        lowered = [word.lower() for word in wanted.names]
        named = np.array([any(word in name.lower() for word in lowered) for name in trace.names] + [False])
        kept &= named[slices.name]
    return kept


def _on_lanes(trace: Trace, wanted: Wanted) -> Bools:
    if wanted.lanes is None:
        return np.ones(len(trace.slices), np.bool_)
    mask = np.zeros(len(trace.slices), np.bool_)
    for lane in wanted.lanes:
        mask[trace.lanes[lane].first : trace.lanes[lane].last] = True
    return mask


def _lanes_kept(wanted: Wanted, lane: npt.NDArray[np.int32]) -> Bools:
    if wanted.lanes is None:
        return np.ones(len(lane), np.bool_)
    found: Bools = np.isin(lane, np.array(sorted(wanted.lanes), np.int32))
    return found


def _around(trace: Trace, inner: Bools) -> Bools:
    """The slices that hold the slices ``inner`` on their lanes."""
    found = np.zeros(len(inner), np.bool_)
    at = np.flatnonzero(inner)
    parent = Around(trace, np.ones(len(inner), np.bool_)).parents() if len(at) else at
    while len(at):
        at = np.unique(parent[at])
        at = at[at >= 0]
        at = at[~found[at]]
        found[at] = True
    return found
