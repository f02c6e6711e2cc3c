"""What is folded so that the first screen shows of everything that ran."""

from __future__ import annotations

from npu_tui.trace.model import Layer
from npu_tui.view.rows.outline import Folds, LeafRows, outline
from npu_tui.view.scene import Scene


def fold_to_fit(scene: Scene, folds: Folds, height: int, heads: bool, leaf_rows: LeafRows) -> None:
    """Fold the deepest lanes until ``height`` rows hold all of them but counters, then layers, in all traces alike.

    Host layers fold before those of the devices, further devices before the first one. Where rows are left over, deep
    lanes and layers of counters open, as far as they fit.
    """

    def missing() -> int:
        rows = outline(scene, folds, leaf_rows, heads)
        return len([row for row in rows if row.series < 0]) - height

    over = missing()
    if over < 0:
        _open_what_fits(scene, folds, height - len(outline(scene, folds, leaf_rows, heads)))
        return
    deepest = sorted(
        (-lane.rows, index, lane.index)
        for index, trace in enumerate(scene.traces)
        for lane in trace.lanes
        if lane.rows > 1 and not lane.derived and (index, lane.index) not in folds.lanes
    )
    for depth, index, lane in deepest:
        if over <= 0:
            return
        folds.lanes.add((index, lane))
        over += depth + 1
    turns = {
        (index, layer.index): turn
        for index, trace in enumerate(scene.traces)
        for layer in trace.layers
        if (turn := _turn(scene, index, layer)) is not None
    }
    for turn in sorted(set(turns.values())):
        if missing() <= 0:
            return
        folds.layers |= {layer for layer, own in turns.items() if own == turn}


def _open_what_fits(scene: Scene, folds: Folds, spare: int) -> None:
    """Open lanes that are folded for their depth, then layers of counters, in at most ``spare`` rows more.

    The same opens in fewer rows, as long as they hold it: who takes the rest away from the lanes changes nothing.
    """
    for index, trace in enumerate(scene.traces):
        for lane in trace.lanes:
            if (index, lane.index) in folds.lanes and 1 < lane.rows <= spare + 1:
                folds.lanes.discard((index, lane.index))
                spare -= lane.rows - 1
    for index, trace in enumerate(scene.traces):
        for layer in trace.layers:
            if (index, layer.index) in folds.layers and not layer.lanes and 1 < len(layer.series) <= spare:
                folds.layers.discard((index, layer.index))
                spare -= len(layer.series)


def _turn(scene: Scene, index: int, layer: Layer) -> tuple[int, int] | None:
    """When a layer folds, lowest first; None if it never does."""
    if not layer.lanes:
        return None
    if layer.kind in ("other", "cann", "python"):
        return 0, ("other", "cann", "python").index(layer.kind)
    own = [each for each in scene.traces[index].layers if each.kind == layer.kind and each.lanes]
    place = own.index(layer)
    if layer.kind == "overlap":
        return (2, -place) if place else None
    return 3 if not place else 1, ("communication", "hardware", "counter").index(layer.kind) - 3 * place
