"""Rows of several traces with the same lanes together: each lane of the first trace, below it that of every other."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import groupby

from npu_tui.view.rows.outline import Folds, LaneKey, lane_key
from npu_tui.view.rows.paired import matched
from npu_tui.view.scene import Scene, ScreenRow

Home = tuple[int, int, int, int]
"""What is the same in several traces: numbers of its layer, lane, series and chart among all of them, -1 for none."""


class Alike:
    """Which layers, lanes, curves and charts of the traces of a scene are the same: of one kind and name, in order."""

    def __init__(self, scene: Scene) -> None:
        self._homes: dict[tuple[int, str, int], int] = {}
        known: dict[str, list[tuple[Hashable, object]]] = {"layer": [], "lane": [], "series": [], "chart": []}
        for index, trace in enumerate(scene.traces):
            self._place(known, index, "layer", [(each.index, (each.kind, each.name)) for each in trace.layers])

            def layer(number: int, index: int = index) -> int:
                return self._homes[index, "layer", number]

            roles, series = scene.roles[index], trace.counters.series
            lanes = [
                (each.index, ((layer(each.layer), each.derived, roles[each.index].kind), each.name))
                for each in trace.lanes
            ]
            self._place(known, index, "lane", lanes)
            curves = [(each.index, ((layer(each.layer), each.name), each.instance)) for each in series]
            self._place(known, index, "series", curves)
            charts = [
                (number, ((layer(each.layer), each.kind), each.name)) for number, each in enumerate(scene.charts[index])
            ]
            self._place(known, index, "chart", charts)
        self._keys: dict[int, list[LaneKey]] = {
            index: [
                *((index, lane.layer, lane.index, -1, -1) for lane in trace.lanes),
                *((index, each.layer, -1, each.index, -1) for each in trace.counters.series),
                *((index, each.layer, -1, -1, number) for number, each in enumerate(scene.charts[index])),
            ]
            for index, trace in enumerate(scene.traces)
        }

    def _place(
        self,
        known: dict[str, list[tuple[Hashable, object]]],
        trace: int,
        kind: str,
        own: Iterable[tuple[int, tuple[Hashable, object]]],
    ) -> None:
        """Give what a trace has of one kind the numbers of those before that are the same, else new ones."""
        own = list(own)
        homes = known[kind]
        back = {right: left for left, right in matched(enumerate(homes), own).items()}
        for number, identity in own:
            if number not in back:
                back[number] = len(homes)
                homes.append(identity)
            self._homes[trace, kind, number] = back[number]

    def home(self, key: LaneKey) -> Home:
        """What a lane, curve or chart is the same as."""
        trace, layer, lane, series, chart = key
        parts = (("layer", layer), ("lane", lane), ("series", series), ("chart", chart))
        found = [self._homes.get((trace, kind, number), -1) for kind, number in parts]
        return found[0], found[1], found[2], found[3]

    def mirror(self, folds: Folds, trace: int) -> None:
        """Fold, pin and hide in all other traces what is folded, pinned and hidden in ``trace``."""
        for kept, kind in (
            (folds.layers, "layer"),
            (folds.workers, "layer"),
            (folds.lanes, "lane"),
            (folds.charts, "layer"),
        ):
            known = {home for (index, each, _), home in self._homes.items() if (index, each) == (trace, kind)}
            wanted = {self._homes[trace, kind, number] for index, number in kept if index == trace}
            for (index, each, number), home in self._homes.items():
                if each == kind and index != trace and home in known:
                    (kept.add if home in wanted else kept.discard)((index, number))
        mine = {self.home(key) for key in self._keys[trace]}
        others: dict[Home, list[LaneKey]] = {}
        for index, keys in self._keys.items():
            for key in keys if index != trace else ():
                if self.home(key) in mine:
                    others.setdefault(self.home(key), []).append(key)
        twins = {key for keys in others.values() for key in keys}
        hidden = {self.home(key) for key in folds.hidden if key[0] == trace}
        folds.hidden -= twins
        folds.hidden |= {key for home in hidden for key in others.get(home, [])}
        pinned: list[LaneKey] = []
        for key in folds.pinned:
            if key[0] == trace:
                pinned += [key, *others.get(self.home(key), [])]
            elif key not in twins:
                pinned.append(key)
        folds.pinned[:] = pinned


def _block(row: ScreenRow) -> tuple[LaneKey, bool, str]:
    """What the rows of one lane, curve, chart or head have in common."""
    return lane_key(row), row.pinned, row.kind if row.kind in ("layer", "hidden") else ""


def stacked_rows(alike: Alike, rows: list[ScreenRow]) -> list[ScreenRow]:
    """``rows`` with what is the same in several traces together, in the order of the first one, without heads."""
    places: dict[tuple[Home, bool, bool], list[list[ScreenRow]]] = {}
    order: list[tuple[Home, bool, bool]] = []
    for _, group in groupby((row for row in rows if row.kind != "trace"), _block):
        own = list(group)
        where = (alike.home(lane_key(own[0])), own[0].pinned, own[0].kind == "hidden")
        if where not in places:
            places[where] = []
            same = [at for at, (home, pinned, _) in enumerate(order) if (home[0], pinned) == (where[0][0], where[1])]
            order.insert(same[-1] + 1 if same else len(order), where)
        places[where].append(own)
    found: list[ScreenRow] = []
    for where in order:
        blocks = places[where]
        heads = all(len(own) == 1 and own[0].kind == "layer" and own[0].rows is None for own in blocks)
        for own in blocks[:1] if heads else blocks:
            found += own
    return found
