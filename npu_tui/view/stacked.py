"""Rows of several traces: one below the other, or two in pairs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import groupby

from msgspec.structs import replace

from npu_tui.view.outline import Folds, LaneKey, lane_key
from npu_tui.view.scene import BASE, NEW, Pair, Scene, ScreenRow

Named = tuple[int, tuple[object, object]]
"""A number, and the kind and the name of what has it."""


class Twins:
    """Which layer, lane, curve and chart of the new trace belongs to which of the base; -1 where none does."""

    def __init__(self, scene: Scene) -> None:
        sides = (BASE, NEW)
        traces = scene.traces
        self.layers = matched(*([(each.index, (each.kind, each.name)) for each in traces[k].layers] for k in sides))
        home = {right: left for left, right in self.layers.items()}
        lanes: list[list[Named]] = [[], []]
        series: list[list[Named]] = [[], []]
        for k in sides:
            for layer in traces[k].layers:
                place = layer.index if k == BASE else home.get(layer.index, -1)
                if place < 0:
                    continue
                for lane in traces[k].lanes:
                    if lane.layer == layer.index:
                        role = (place, lane.derived, scene.roles[k][lane.index].kind)
                        lanes[k].append((lane.index, (role, lane.name)))
                curves = (traces[k].counters.series[number] for number in layer.series)
                series[k] += [(each.index, ((place, each.name), each.instance)) for each in curves]
        self.lanes, self.series = matched(*lanes), matched(*series)
        charts = ([(number, (each.kind, each.name)) for number, each in enumerate(scene.charts[k])] for k in sides)
        self._charts = matched(*charts)
        self._back = [
            {right: left for left, right in own.items()} for own in (self.layers, self.lanes, self.series, self._charts)
        ]

    def key(self, key: LaneKey) -> LaneKey | None:
        """The counterpart of a lane, curve or chart."""
        trace, *parts = key
        found = [1 - trace]
        for number, way, back in zip(
            parts, (self.layers, self.lanes, self.series, self._charts), self._back, strict=True
        ):
            other = (way if trace == BASE else back).get(number, -1)
            if number >= 0 and other < 0:
                return None
            found.append(other if number >= 0 else -1)
        return found[0], found[1], found[2], found[3], found[4]

    def mirror(self, folds: Folds, trace: int) -> None:
        """Fold, pin and hide of the other trace what is folded, pinned and hidden of ``trace``."""
        for kept, way in ((folds.layers, 0), (folds.workers, 0), (folds.lanes, 1), (folds.charts, 0)):
            pairs = (self.layers, self.lanes)[way] if trace == BASE else self._back[way]
            known = {(1 - trace, other) for other in pairs.values()}
            wanted = {(1 - trace, pairs[number]) for side, number in kept if side == trace and number in pairs}
            kept -= known - wanted
            kept |= wanted
        for listed in (folds.pinned, folds.hidden):
            own = [key for key in listed if key[0] == trace]
            twins = [other for key in own if (other := self.key(key)) is not None]
            gone = {key for key in listed if key[0] != trace and self.key(key) is not None} - set(twins)
            if isinstance(listed, list):
                listed[:] = [key for key in listed if key not in gone and key[0] == trace]
                for key, other in [(key, self.key(key)) for key in own]:
                    if other is not None:
                        listed.insert(listed.index(key) + 1, other)
            else:
                listed -= gone
                listed |= set(twins)


def matched(base: Iterable[Named], new: Iterable[Named]) -> dict[int, int]:
    """The number of each of ``base`` with that of ``new``: of one kind and name, else the next of its kind."""
    left, right, found = list(base), list(new), {}
    for exact in (True, False):
        waiting: dict[object, list[Named]] = {}
        for each in right:
            waiting.setdefault(each[1] if exact else each[1][0], []).append(each)
        for each in list(left):
            if others := waiting.get(each[1] if exact else each[1][0]):
                found[each[0]] = others[0][0]
                left.remove(each)
                right.remove(others.pop(0))
    return found


def paired_rows(pair: Pair, twins: Twins, rows: list[ScreenRow]) -> list[ScreenRow]:
    """``rows`` in pairs, base above new; of one side alone in the places that both sides need, so that they agree."""
    blocks = {
        key: list(own)
        for key, own in groupby((row for row in rows if row.kind != "trace"), lambda row: (*lane_key(row), row.pinned))
    }
    ordered: list[tuple[list[ScreenRow], list[ScreenRow]]] = []
    taken = set()
    places: dict[int, int] = {}
    for key, own in blocks.items():
        if key[0] != BASE:
            continue
        other = twins.key(key[:5])
        twin = (*other, key[5]) if other is not None else None
        ordered.append((own, blocks.get(twin, []) if twin is not None else []))
        places[key[1]] = len(ordered)
        if twin is not None:
            taken.add(twin)
    back = {right: left for left, right in twins.layers.items()}
    for key, own in blocks.items():
        if key[0] == NEW and key not in taken:
            at = places.get(back.get(key[1], -2), len(ordered))
            ordered.insert(at, ([], own))
            places = {layer: place + (place >= at) for layer, place in places.items()}
    found: list[ScreenRow] = []
    for base, new in ordered:
        sides = (base, new)
        if pair.face == "both":
            together = bool(base and new) and base[0].kind == "layer" and base[0].rows is None and new[0].rows is None
            found += base if together else [*base, *new]
            continue
        own = sides[pair.face == "new"]
        shape = own or sides[pair.face != "new"]
        blank = replace(
            shape[0], kind="leaf", trace=int(pair.face == "new"), lane=-1, series=-1, chart=-1, rows=None, row=-1,
            name="", opener=True, foldable=False, folded=False, lanes=(),
        )  # fmt: skip
        if shape[0].trace != blank.trace:
            head = twins.key((shape[0].trace, shape[0].layer, -1, -1, -1))
            blank = replace(blank, layer=head[1] if head is not None else -1)
        found += own + [blank] * (max(len(base), len(new)) - len(own))
    return found


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
