"""The view on a trace that is still loading, kept when more of the trace is there."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from npu_tui.trace.model import Trace
from npu_tui.view.rows.outline import LaneKey, default_folds
from npu_tui.view.rows.rowlist import RowKey
from npu_tui.view.scene import Selected
from npu_tui.view.walk.explorer import Explorer


def take_over(before: Explorer, now: Explorer) -> None:
    """Make ``now`` look at what ``before`` looks at: time, rows, folds, selection and range.

    Both show one trace, ``now`` more of it: layers are told by process, lanes by thread, slices by their event. A view
    that was never moved stays the one that opens.
    """
    old, new = before.scene.traces[0], now.scene.traces[0]
    shift = old.start_ns - new.start_ns
    lanes, layers, series = _lanes(old, new), _layers(old, new), _series(old, new)
    _fold(before, now, lanes, layers)
    _set_aside(before, now, lanes, layers, series)
    if before.list.idle_away:
        now.list.toggle_idle()
    state, place = before.state, before.place()
    selection = None if state.selection is None else _same_slice(old, new, state.selection)
    now.state.link_mode, now.state.link_category = state.link_mode, state.link_category
    now.state.hits_only = state.hits_only
    key = _same_row(place.focus, lanes, layers, series)
    if before.moved:
        start, end = before.fitted
        place = replace(
            place, start=start + shift, end=end + shift, cursor=place.cursor + shift, selection=selection, focus=key
        )
        now.return_to(place)
    if state.range is not None:
        now.set_range(state.range[0] + shift, state.range[1] + shift)
    now.anchor = None if before.anchor is None else before.anchor + shift


def _lanes(old: Trace, new: Trace) -> dict[int, int]:
    """Lane of ``new`` by lane of ``old``."""
    place = {(new.layers[lane.layer].pid, lane.tid, lane.derived): lane.index for lane in new.lanes}
    found = {lane.index: place.get((old.layers[lane.layer].pid, lane.tid, lane.derived)) for lane in old.lanes}
    return {lane: other for lane, other in found.items() if other is not None}


def _layers(old: Trace, new: Trace) -> dict[int, int]:
    place = {layer.pid: layer.index for layer in new.layers}
    return {layer.index: place[layer.pid] for layer in old.layers if layer.pid in place}


def _series(old: Trace, new: Trace) -> dict[int, int]:
    place = {
        (new.layers[each.layer].pid, each.name, each.key, each.instance): each.index for each in new.counters.series
    }
    keys = {
        each.index: (old.layers[each.layer].pid, each.name, each.key, each.instance) for each in old.counters.series
    }
    return {index: place[key] for index, key in keys.items() if key in place}


def _fold(before: Explorer, now: Explorer, lanes: dict[int, int], layers: dict[int, int]) -> None:
    """Fold and open what the user folded and opened."""
    usual = default_folds(before.scene)
    for kept, held, at_first, wanted in (
        (lanes, before.folds.lanes, usual.lanes, now.folds.lanes),
        (layers, before.folds.layers, usual.layers, now.folds.layers),
    ):
        for trace, old in held ^ at_first:
            if old in kept:
                change = wanted.add if (trace, old) in held else wanted.discard
                change((trace, kept[old]))
    now.list.refold()


def _set_aside(
    before: Explorer, now: Explorer, lanes: dict[int, int], layers: dict[int, int], series: dict[int, int]
) -> None:
    """Pin, hide and leave out what the user did; what the user folded stays folded."""
    if before.list.own_folds:
        return

    def same(key: LaneKey) -> LaneKey | None:
        trace, layer, lane, curve, chart = key
        if layer not in layers or (lane >= 0 and lane not in lanes) or (curve >= 0 and curve not in series):
            return None
        return trace, layers[layer], lanes.get(lane, -1), series.get(curve, -1), chart

    now.list.keep_folds()
    now.folds.pinned += [key for old in before.folds.pinned if (key := same(old)) is not None]
    now.folds.hidden |= {key for old in before.folds.hidden if (key := same(old)) is not None}
    now.list.refold()


def _same_row(key: RowKey, lanes: dict[int, int], layers: dict[int, int], series: dict[int, int]) -> RowKey:
    trace, layer, lane, depth, curve, chart = key
    return trace, layers.get(layer, 0), lanes.get(lane, -1), depth, series.get(curve, -1), chart


def _same_slice(old: Trace, new: Trace, selected: Selected) -> Selected | None:
    found = np.flatnonzero(new.slices.event == old.slices.event[selected.item])
    return Selected(0, int(found[0])) if len(found) else None
