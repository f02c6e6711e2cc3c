"""Rows of several traces brought together: two in pairs (a comparison), or the same lanes of all (stacked)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import groupby

from msgspec.structs import replace

from npu_tui.view.outline import Folds, LaneKey, lane_key
from npu_tui.view.scene import BASE, NEW, ComparedPair, Scene, ScreenRow

Named = tuple[int, tuple[object, object]]
"""The number of a layer, lane, curve or chart, with its (kind, name)."""


class Twins:
    """The layers, lanes, curves and charts of the new trace that correspond to those of the base."""

    def __init__(self, scene: Scene) -> None:
        sides = (BASE, NEW)
        traces = scene.traces
        self.layers = matching_numbers(
            *([(layer.index, (layer.kind, layer.name)) for layer in traces[k].layers] for k in sides)
        )
        base_layer = {right: left for left, right in self.layers.items()}
        lanes: list[list[Named]] = [[], []]
        series: list[list[Named]] = [[], []]
        for k in sides:
            for layer in traces[k].layers:
                place = layer.index if k == BASE else base_layer.get(layer.index, -1)
                if place < 0:
                    continue
                for lane in traces[k].lanes:
                    if lane.layer == layer.index:
                        role = (place, lane.derived, scene.roles[k][lane.index].kind)
                        lanes[k].append((lane.index, (role, lane.name)))
                curves = (traces[k].counters.series[number] for number in layer.series)
                series[k] += [(curve.index, ((place, curve.name), curve.instance)) for curve in curves]
        self.lanes, self.series = matching_numbers(*lanes), matching_numbers(*series)
        charts = ([(number, (chart.kind, chart.name)) for number, chart in enumerate(scene.charts[k])] for k in sides)
        self._charts = matching_numbers(*charts)
        self._back = [
            {right: left for left, right in matches.items()}
            for matches in (self.layers, self.lanes, self.series, self._charts)
        ]

    def key(self, key: LaneKey) -> LaneKey | None:
        """The counterpart of a lane, curve or chart; None without one."""
        trace, *parts = key
        parts_of_twin = [1 - trace]
        for number, to_new, to_base in zip(
            parts, (self.layers, self.lanes, self.series, self._charts), self._back, strict=True
        ):
            other = (to_new if trace == BASE else to_base).get(number, -1)
            if number >= 0 and other < 0:
                return None
            parts_of_twin.append(other if number >= 0 else -1)
        return parts_of_twin[0], parts_of_twin[1], parts_of_twin[2], parts_of_twin[3], parts_of_twin[4]

    def mirror(self, folds: Folds, trace: int) -> None:
        """Fold, pin and hide in the other trace what is folded, pinned and hidden in ``trace``."""
        for folded, kind in ((folds.layers, 0), (folds.workers, 0), (folds.lanes, 1), (folds.charts, 0)):
            pairs = (self.layers, self.lanes)[kind] if trace == BASE else self._back[kind]
            known = {(1 - trace, other) for other in pairs.values()}
            wanted = {(1 - trace, pairs[number]) for side, number in folded if side == trace and number in pairs}
            folded -= known - wanted
            folded |= wanted
        for listed in (folds.pinned, folds.hidden):
            keys = [key for key in listed if key[0] == trace]
            twins = [other for key in keys if (other := self.key(key)) is not None]
            gone = {key for key in listed if key[0] != trace and self.key(key) is not None} - set(twins)
            if isinstance(listed, list):
                listed[:] = [key for key in listed if key not in gone and key[0] == trace]
                for key, other in [(key, self.key(key)) for key in keys]:
                    if other is not None:
                        listed.insert(listed.index(key) + 1, other)
            else:
                listed -= gone
                listed |= set(twins)


def matching_numbers(base: Iterable[Named], new: Iterable[Named]) -> dict[int, int]:
    """The number in ``new`` of each of ``base``: that of the same kind and name, else the next one of its kind."""
    left, right, pairs = list(base), list(new), {}
    # Equal names first. What is left pairs up in order: threads and streams have other numbers in another run.
    for exact in (True, False):
        waiting: dict[object, list[Named]] = {}
        for item in right:
            waiting.setdefault(item[1] if exact else item[1][0], []).append(item)
        for item in list(left):
            if others := waiting.get(item[1] if exact else item[1][0]):
                pairs[item[0]] = others[0][0]
                left.remove(item)
                right.remove(others.pop(0))
    return pairs


def paired_rows(pair: ComparedPair, twins: Twins, rows: list[ScreenRow]) -> list[ScreenRow]:
    """``rows`` in pairs, base above new. A single face is padded with blank rows, so that both faces line up."""
    blocks = {
        key: list(block)
        for key, block in groupby(
            (row for row in rows if row.kind != "trace"), lambda row: (*lane_key(row), row.pinned)
        )
    }
    ordered: list[tuple[list[ScreenRow], list[ScreenRow]]] = []
    taken = set()
    places: dict[int, int] = {}
    for key, block in blocks.items():
        if key[0] != BASE:
            continue
        other = twins.key(key[:5])
        twin = (*other, key[5]) if other is not None else None
        ordered.append((block, blocks.get(twin, []) if twin is not None else []))
        places[key[1]] = len(ordered)
        if twin is not None:
            taken.add(twin)
    back = {right: left for left, right in twins.layers.items()}
    for key, block in blocks.items():
        if key[0] == NEW and key not in taken:
            at = places.get(back.get(key[1], -2), len(ordered))
            ordered.insert(at, ([], block))
            places = {layer: place + (place >= at) for layer, place in places.items()}
    result: list[ScreenRow] = []
    for base, new in ordered:
        sides = (base, new)
        if pair.face == "both":
            together = bool(base and new) and base[0].kind == "layer" and base[0].rows is None and new[0].rows is None
            result += base if together else [*base, *new]
            continue
        visible = sides[pair.face == "new"]
        shape = visible or sides[pair.face != "new"]
        blank = replace(
            shape[0], kind="leaf", trace=int(pair.face == "new"), lane=-1, series=-1, chart=-1, rows=None, row=-1,
            name="", opener=True, foldable=False, folded=False, lanes=(),
        )  # fmt: skip
        if shape[0].trace != blank.trace:
            head = twins.key((shape[0].trace, shape[0].layer, -1, -1, -1))
            blank = replace(blank, layer=head[1] if head is not None else -1)
        result += visible + [blank] * (max(len(base), len(new)) - len(visible))
    return result


Home = tuple[int, int, int, int]
"""The identity of a lane, curve or chart across traces: numbers of its layer, lane, series and chart, -1 for none."""


class SharedLanes:
    """The layers, lanes, curves and charts that are the same in several traces: of one kind and name, in order."""

    def __init__(self, scene: Scene) -> None:
        self._homes: dict[tuple[int, str, int], int] = {}
        known: dict[str, list[tuple[Hashable, object]]] = {"layer": [], "lane": [], "series": [], "chart": []}
        for index, trace in enumerate(scene.traces):
            self._place(known, index, "layer", [(item.index, (item.kind, item.name)) for item in trace.layers])

            def layer(number: int, index: int = index) -> int:
                return self._homes[index, "layer", number]

            roles, series = scene.roles[index], trace.counters.series
            lanes = [
                (lane.index, ((layer(lane.layer), lane.derived, roles[lane.index].kind), lane.name))
                for lane in trace.lanes
            ]
            self._place(known, index, "lane", lanes)
            curves = [(curve.index, ((layer(curve.layer), curve.name), curve.instance)) for curve in series]
            self._place(known, index, "series", curves)
            charts = [
                (number, ((layer(chart.layer), chart.kind), chart.name))
                for number, chart in enumerate(scene.charts[index])
            ]
            self._place(known, index, "chart", charts)
        self._first: dict[int, int] = {}
        for (index, kind, _), home in self._homes.items():
            if kind == "layer":
                self._first.setdefault(home, index)
        self._keys: dict[int, list[LaneKey]] = {
            index: [
                *((index, lane.layer, lane.index, -1, -1) for lane in trace.lanes),
                *((index, curve.layer, -1, curve.index, -1) for curve in trace.counters.series),
                *((index, chart.layer, -1, -1, number) for number, chart in enumerate(scene.charts[index])),
            ]
            for index, trace in enumerate(scene.traces)
        }

    def _place(
        self,
        known: dict[str, list[tuple[Hashable, object]]],
        trace: int,
        kind: str,
        named: Iterable[tuple[int, tuple[Hashable, object]]],
    ) -> None:
        """Number the layers, lanes, curves or charts of a trace: as the same ones of earlier traces, else anew."""
        named = list(named)
        homes = known[kind]
        back = {right: left for left, right in matching_numbers(enumerate(homes), named).items()}
        for number, identity in named:
            if number not in back:
                back[number] = len(homes)
                homes.append(identity)
            self._homes[trace, kind, number] = back[number]

    def home(self, key: LaneKey) -> Home:
        """The identity of a lane, curve or chart across traces."""
        trace, layer, lane, series, chart = key
        parts = (("layer", layer), ("lane", lane), ("series", series), ("chart", chart))
        numbers = [self._homes.get((trace, kind, number), -1) for kind, number in parts]
        return numbers[0], numbers[1], numbers[2], numbers[3]

    def is_first(self, row: ScreenRow) -> bool:
        """Whether no earlier trace has the layer of ``row``."""
        return self._first[self._homes[row.trace, "layer", row.layer]] == row.trace

    def mirror(self, folds: Folds, trace: int) -> None:
        """Fold, pin and hide in all other traces what is folded, pinned and hidden in ``trace``."""
        for folded, kind in (
            (folds.layers, "layer"),
            (folds.workers, "layer"),
            (folds.lanes, "lane"),
            (folds.charts, "layer"),
        ):
            known = {
                home for (index, other_kind, _), home in self._homes.items() if (index, other_kind) == (trace, kind)
            }
            wanted = {self._homes[trace, kind, number] for index, number in folded if index == trace}
            for (index, other_kind, number), home in self._homes.items():
                if other_kind == kind and index != trace and home in known:
                    (folded.add if home in wanted else folded.discard)((index, number))
        homes = {self.home(key) for key in self._keys[trace]}
        others: dict[Home, list[LaneKey]] = {}
        for index, keys in self._keys.items():
            for key in keys if index != trace else ():
                if self.home(key) in homes:
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


def _block_key(row: ScreenRow) -> tuple[LaneKey, bool, str]:
    """The key that the rows of one lane, curve, chart or head share."""
    return lane_key(row), row.pinned, row.kind if row.kind in ("layer", "hidden") else ""


def is_stacked_row(shared: SharedLanes, row: ScreenRow) -> bool:
    """Whether ``stacked_rows`` keeps ``row``: no head of a trace, nor of a layer that an earlier trace has."""
    return row.kind != "trace" and (row.kind != "layer" or row.rows is not None or shared.is_first(row))


def stacked_rows(shared: SharedLanes, rows: list[ScreenRow], above: int = 0) -> list[ScreenRow]:
    """``rows`` with the same lanes of several traces next to each other, in the order of the first trace.

    Heads of traces are dropped, and equal heads of layers are shown once. The lanes of traces from number ``above`` on
    stand above those of earlier ones.
    """
    places: dict[tuple[Home, bool, bool], list[list[ScreenRow]]] = {}
    order: list[tuple[Home, bool, bool]] = []
    for _, group in groupby((row for row in rows if row.kind != "trace"), _block_key):
        block = list(group)
        where = (shared.home(lane_key(block[0])), block[0].pinned, block[0].kind == "hidden")
        if where not in places:
            places[where] = []
            same = [at for at, (home, pinned, _) in enumerate(order) if (home[0], pinned) == (where[0][0], where[1])]
            order.insert(same[-1] + 1 if same else len(order), where)
        places[where].append(block)
    result: list[ScreenRow] = []
    for where in order:
        blocks = places[where]
        heads = all(len(block) == 1 and block[0].kind == "layer" and block[0].rows is None for block in blocks)
        for block in blocks[:1] if heads else sorted(blocks, key=lambda block: block[0].trace < above):
            result += block
    return result
