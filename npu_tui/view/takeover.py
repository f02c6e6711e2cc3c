"""The view on a trace that is still loading, kept when more of the trace is there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npu_tui.trace.model import Trace
from npu_tui.view.explorer import Explorer
from npu_tui.view.outline import default_folds
from npu_tui.view.rowlist import RowKey
from npu_tui.view.scene import Selected


def take_over(before: Explorer, now: Explorer) -> None:
    """Make ``now`` look at what ``before`` looks at: time, row, folds, selection and range.

    Both show one trace, ``now`` more of it: layers are told by process, lanes by thread, slices by their event. A view
    that was never moved stays the one that opens.
    """
    old, new = before.scene.traces[0], now.scene.traces[0]
    shift = old.start_ns - new.start_ns
    lanes, layers = _lanes(old, new), _layers(old, new)
    _fold(before, now, lanes, layers)
    state, place = before.state, before.place()
    selection = None if state.selection is None else _same_slice(old, new, state.selection)
    now.state.link_mode, now.state.link_category = state.link_mode, state.link_category
    key = _same_row(place.focus, lanes, layers)
    if before.moved:
        start, end = before.asked
        place = replace(
            place, start=start + shift, end=end + shift, cursor=place.cursor + shift, selection=selection, focus=key
        )
        now.return_to(place)
    if state.range is not None:
        now.set_range(state.range[0] + shift, state.range[1] + shift)


def _lanes(old: Trace, new: Trace) -> dict[int, int]:
    """Lane of ``new`` by lane of ``old``."""
    place = {(new.layers[lane.layer].pid, lane.tid, lane.derived): lane.index for lane in new.lanes}
    found = {lane.index: place.get((old.layers[lane.layer].pid, lane.tid, lane.derived)) for lane in old.lanes}
    return {lane: other for lane, other in found.items() if other is not None}


def _layers(old: Trace, new: Trace) -> dict[int, int]:
    place = {layer.pid: layer.index for layer in new.layers}
    return {layer.index: place[layer.pid] for layer in old.layers if layer.pid in place}


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


def _same_row(key: RowKey, lanes: dict[int, int], layers: dict[int, int]) -> RowKey:
    trace, layer, lane, depth, series, chart = key
    return trace, layers.get(layer, 0), lanes.get(lane, -1), depth, series, chart


def _same_slice(old: Trace, new: Trace, selected: Selected) -> Selected | None:
    found = np.flatnonzero(new.slices.event == old.slices.event[selected.item])
    return Selected(0, int(found[0])) if len(found) else None
