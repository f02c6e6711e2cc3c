"""The outline: traces, layers and lanes as rows of a foldable tree, and which of them fold to fit a screen."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from pathlib import PurePath as Path

from msgspec import Struct
from msgspec.structs import replace

from npu_tui.strings import say
from npu_tui.trace.folded_rows import DEEP
from npu_tui.trace.model import Lane, Layer, Rows, Trace
from npu_tui.trace.recorder import recorder_of
from npu_tui.view.scene import BESIDE_LANES, Chart, Scene, ScreenRow


def with_cpus(scene: Scene, index: int, rows: list[ScreenRow]) -> list[ScreenRow]:
    """``rows`` of a layer of trace number ``index`` with the CPU of each lane below its last row."""
    below: dict[int, list[ScreenRow]] = {}
    for number, chart in enumerate(scene.charts[index]):
        if chart.kind in BESIDE_LANES:
            row = ScreenRow("chart", index, chart.layer, name=chart.name, chart=number)
            below.setdefault(chart.lane, []).append(row)
    if not below:
        return rows
    last = {row.lane: at for at, row in enumerate(rows) if row.lane in below}
    result: list[ScreenRow] = []
    for at, row in enumerate(rows):
        result.append(row)
        if last.get(row.lane) == at:
            result += below[row.lane]
    return result


LeafRows = Callable[[int, tuple[int, ...]], Rows]
IsShown = Callable[[ScreenRow], bool]
"""Returns the folded row of some lanes of a trace."""


LaneKey = tuple[int, int, int, int, int]
"""A lane, curve or chart, independent of folds: trace, layer, lane, series, chart (-1 where it does not apply)."""


LEAST_BANDS, MOST_BANDS = 5, 24
"""Text rows of a stacked area: fewer show no shape, more no further byte."""


class Folds(Struct):
    """Which traces, layers, lanes and charts are folded, as (trace, index), and which lanes are pinned or hidden.

    The other way round, ``workers`` and ``charts`` are layers whose worker threads or charts are shown one by one. A
    stacked area has ``bands``.
    """

    traces: set[int] = set()
    workers: set[tuple[int, int]] = set()
    layers: set[tuple[int, int]] = set()
    lanes: set[tuple[int, int]] = set()
    pinned: list[LaneKey] = []
    hidden: set[LaneKey] = set()
    charts: set[tuple[int, int]] = set()
    bands: int = LEAST_BANDS


def lane_key(row: ScreenRow) -> LaneKey:
    """The key of the lane, curve or chart of a row."""
    return row.trace, row.layer, row.lane, row.series, row.chart


def is_plane(trace: Trace, lane: Lane) -> bool:
    """Whether a lane holds the tasks of one plane of the group above it."""
    return trace.layers[lane.layer].kind == "communication" and lane.name.startswith("Plane ")


def default_folds(scene: Scene) -> Folds:
    """The folds of a new scene: deep lanes, planes of groups, and counter layers with several curves."""
    folds = Folds()
    for index, trace in enumerate(scene.traces):
        for layer in trace.layers:
            if layer.series and not layer.lanes:
                folds.layers.add((index, layer.index))
            if not layer.series and not layer.lanes:
                folds.charts.add((index, layer.index))
        for lane in trace.lanes:
            if lane.rows > DEEP or _planes(trace, lane):
                folds.lanes.add((index, lane.index))
    return folds


def outline(scene: Scene, folds: Folds, leaf_rows: LeafRows, heads: bool = True) -> list[ScreenRow]:
    """All rows from top to bottom: pinned lanes, then the traces one below the other.

    A trace has its steps and its critical paths first, then its layers in the profiler's order; counter layers come
    last. With ``heads`` traces (where there are several) and layers get their own row above their lanes; folded ones
    always do.
    """
    rows = [row for key in folds.pinned for row in _pinned_rows(scene, key, folds, leaf_rows)]
    set_aside = {*folds.pinned, *folds.hidden}
    for index, trace in enumerate(scene.traces):
        if len(scene.traces) > 1 and (heads or index in folds.traces):
            rows.append(_trace_row(scene, index, index in folds.traces))
        if index in folds.traces:
            continue
        for lane in trace.lanes:
            if lane.derived and (index, lane.layer, lane.index, -1, -1) not in set_aside:
                rows += _lane_rows(scene, index, lane, folds, leaf_rows)
        rows += [row for row in _path_rows(index, scene.charts[index]) if lane_key(row) not in set_aside]
        for layer in trace.layers:
            if not layer.lanes:
                continue
            layer_rows = with_cpus(scene, index, _layer_rows(scene, index, layer, folds, leaf_rows, heads))
            rows += layer_rows
            if not layer_rows:
                rows += _hidden_row(index, layer, folds)
            elif not layer_rows[0].folded:
                opened = (index, layer.index) in folds.charts
                charts = _chart_rows(index, scene.charts[index], layer, opened, folds.bands)
                rows += [row for row in charts if lane_key(row) not in set_aside]
                rows += _hidden_row(index, layer, folds)
    if scene.is_film:
        return rows  # no replay knows what was counted: recorded curves are not those of the run above
    # Curves matter least: those of all traces are below everything that ran.
    for index, trace in enumerate(scene.traces):
        for layer in trace.layers:
            if layer.lanes or index in folds.traces:
                continue
            if layer.series:
                layer_rows = _layer_rows(scene, index, layer, folds, leaf_rows, heads)
            else:
                opened = (index, layer.index) in folds.charts
                charts = _chart_rows(index, scene.charts[index], layer, opened, folds.bands)
                layer_rows = [row for row in charts if lane_key(row) not in set_aside]
            rows += layer_rows or _hidden_row(index, layer, folds)
    return rows


def _trace_row(scene: Scene, index: int, folded: bool) -> ScreenRow:
    """The head of a trace; one that is labelled with a letter shows the name of its file or folder."""
    label = scene.labels[index]
    name = rank_name(scene, index) if label.isdecimal() else Path(scene.traces[index].path).name or label
    return ScreenRow("trace", index, -1, name=name, foldable=True, folded=folded)


def rank_name(scene: Scene, index: int) -> str:
    """The name of trace number ``index``: its rank, or its letter."""
    label = scene.labels[index]
    return say("header.rank", rank=label) if label.isdecimal() else label


def _pinned_rows(scene: Scene, key: LaneKey, folds: Folds, leaf_rows: LeafRows) -> list[ScreenRow]:
    index, _, lane, series, chart = key
    trace = scene.traces[index]
    if lane >= 0:
        rows = _lane_rows(scene, index, trace.lanes[lane], folds, leaf_rows)
    elif chart >= 0:
        charts = scene.charts[index]
        every = [*_path_rows(index, charts), *_chart_rows(index, charts, trace.layers[key[1]], True, folds.bands)]
        rows = [row for row in every if row.chart == chart]
    else:
        rows = [_counter_row(index, trace, key[1], series)]
    return [replace(row, pinned=True) for row in rows]


def ordered_lanes(scene: Scene, index: int, layer: Layer) -> list[int]:
    """The lanes of a layer in screen order: by role, the workers last."""
    roles = scene.roles[index]
    return sorted(layer.lanes, key=lambda lane: roles[lane].order)


def workers_of(scene: Scene, index: int, layer: Layer) -> list[int]:
    """The worker threads of a layer that share a row; empty if there is only one."""
    workers = [lane for lane in layer.lanes if scene.roles[index][lane].kind == "worker"]
    return workers if len(workers) > 1 else []


def _layer_name(trace: Trace, layer: Layer) -> str:
    """What a layer is called; PyTorch's own profiler calls the processes of host and devices all alike: python3."""
    alike = [other.name for other in trace.layers if other.lanes].count(layer.name) > 1
    is_named = alike and layer.device is not None
    return f"{layer.name} {recorder_of(trace).chip} {layer.device}" if is_named else layer.name


def _layer_rows(
    scene: Scene, index: int, layer: Layer, folds: Folds, leaf_rows: LeafRows, heads: bool
) -> list[ScreenRow]:
    trace = scene.traces[index]
    if not layer.lanes and not layer.series:
        return []
    folded = (index, layer.index) in folds.layers
    single = layer.series and not layer.lanes and len(layer.series) == 1
    if layer.series and not layer.lanes and (folded or single):
        first = layer.series[0]
        if single and (index, layer.index, -1, first, -1) in {*folds.pinned, *folds.hidden}:
            return []
        many = len(layer.series) > 1
        return [ScreenRow("counter", index, layer.index, series=first, name=layer.name, foldable=many, folded=many)]
    rows = []
    if heads or folded or not layer.lanes:
        row = ScreenRow("layer", index, layer.index, name=_layer_name(trace, layer), foldable=True, folded=folded)
        if folded and layer.lanes:
            order = tuple(ordered_lanes(scene, index, layer))
            row = replace(row, rows=leaf_rows(index, order), row=0, lanes=order)
        rows.append(row)
    if folded:
        return rows
    set_aside = {*folds.pinned, *folds.hidden}
    workers = workers_of(scene, index, layer)
    together = [] if (index, layer.index) in folds.workers else workers
    covered = False
    for lane in ordered_lanes(scene, index, layer):
        if not is_plane(trace, trace.lanes[lane]):
            covered = (index, lane) in folds.lanes
        elif covered:  # a folded group hides its planes
            continue
        if (index, layer.index, lane, -1, -1) in set_aside:
            continue
        if lane not in together:
            lane_rows = _lane_rows(scene, index, trace.lanes[lane], folds, leaf_rows)
            if layer.kind == "cann" and not heads:  # its threads have the names of Python's lanes
                lane_rows = [replace(row, name=f"{layer.name} {row.name}") for row in lane_rows]
            rows += (
                [replace(lane_rows[0], foldable=True), *lane_rows[1:]] if workers and lane == workers[0] else lane_rows
            )
        elif lane == together[0]:
            row = ScreenRow("leaf", index, layer.index, lane, name=say("lane.workers", count=len(workers)))
            shared = leaf_rows(index, tuple(workers))
            rows.append(replace(row, rows=shared, row=0, foldable=True, folded=True, lanes=tuple(workers)))
    for series in layer.series:
        if (index, layer.index, -1, series, -1) not in set_aside:
            rows.append(_counter_row(index, trace, layer.index, series))
    return rows


def _counter_row(index: int, trace: Trace, layer: int, series: int) -> ScreenRow:
    item = trace.counters.series[series]
    return ScreenRow("counter", index, layer, series=series, name=series_name(item.name, item.instance))


def _hidden_row(index: int, layer: Layer, folds: Folds) -> list[ScreenRow]:
    """The row that represents the hidden rows of a layer; empty without any."""
    count = sum(key[:2] == (index, layer.index) and (key[2] in layer.lanes or key[2] < 0) for key in folds.hidden)
    if not count:
        return []
    name = say("rows.hidden", count=count)
    return [ScreenRow("hidden", index, layer.index, name=name, foldable=True, folded=True)]


def _chart_rows(index: int, charts: list[Chart], layer: Layer, opened: bool, bands: int) -> list[ScreenRow]:
    """The charts of ``layer``; memory charts are folded into the first of them unless they are ``opened``."""
    charts_of_layer = [
        row
        for row in enumerate(charts)
        if row[1].layer == layer.index and row[1].kind not in BESIDE_LANES and row[1].path is None
    ]
    memory = [number for number, chart in charts_of_layer if chart.kind == "memory"]
    rows: list[ScreenRow] = []
    for number, chart in charts_of_layer:
        row = ScreenRow("chart", index, layer.index, name=chart.name, chart=number)
        if chart.kind == "stack":
            rows += [replace(row, depth=band, bands=bands) for band in range(bands)]
        elif opened or number not in memory[1:]:
            several = number in memory[:1] and len(memory) > 1
            rows.append(replace(row, foldable=several, folded=several and not opened))
    return rows


def _path_rows(index: int, charts: list[Chart]) -> list[ScreenRow]:
    """The critical paths among ``charts``."""
    return [
        ScreenRow("path", index, chart.layer, rows=chart.path.rows, row=0, name=chart.name, chart=number)
        for number, chart in enumerate(charts)
        if chart.path is not None
    ]


def series_name(name: str, instance: str) -> str:
    """The name of a counter curve, with its instance where several share the name."""
    return f"{name} {instance}" if instance else name


def _lane_rows(scene: Scene, index: int, lane: Lane, folds: Folds, leaf_rows: LeafRows) -> list[ScreenRow]:
    trace, name = scene.traces[index], scene.roles[index][lane.index].name
    folded = (index, lane.index) in folds.lanes
    foldable = lane.rows > 1 or bool(_planes(trace, lane))
    if folded and lane.rows > 1:
        rows = leaf_rows(index, (lane.index,))
        return [ScreenRow("leaf", index, lane.layer, lane.index, 0, -1, rows, 0, name, True, True, True)]
    return [
        ScreenRow(
            kind="slices",
            trace=index,
            layer=lane.layer,
            lane=lane.index,
            depth=depth,
            rows=trace.rows,
            row=lane.first_row + depth,
            name=name,
            opener=depth == 0,
            foldable=foldable,
            folded=folded,
        )
        for depth in range(lane.rows)
    ]


def _planes(trace: Trace, lane: Lane) -> list[int]:
    """The plane lanes of a group lane: those that follow it up to the next group."""
    layer = trace.layers[lane.layer]
    if layer.kind != "communication" or lane.derived or is_plane(trace, lane):
        return []
    planes = []
    for other in range(lane.index + 1, layer.lanes[-1] + 1):  # lanes of a layer are consecutive
        if not is_plane(trace, trace.lanes[other]):
            break
        planes.append(other)
    return planes


def fold_to_fit(
    scene: Scene, folds: Folds, height: int, heads: bool, leaf_rows: LeafRows, is_shown: IsShown = lambda row: True
) -> None:
    """Fold the deepest lanes, then layers, until everything but counters fits into ``height`` rows.

    Host layers fold before device layers, further devices before the first one, in all traces alike. If rows are left,
    stacked areas grow, then deep lanes and counter layers open as far as they fit. Only what ``is_shown`` counts.
    """
    fits = len([row for row in outline(scene, folds, leaf_rows, heads) if row.series < 0 and is_shown(row)]) < height
    if not fits:
        _fold_lanes(scene, folds, height, heads, leaf_rows, is_shown)
    areas = sum(chart.kind == "stack" for charts in scene.charts for chart in charts)
    if areas:
        spare = height - len(outline(scene, folds, leaf_rows, heads))
        folds.bands = min(LEAST_BANDS + max(spare, 0) // areas, MOST_BANDS)
    if fits:
        _open_what_fits(scene, folds, height - len(outline(scene, folds, leaf_rows, heads)))


def _fold_lanes(scene: Scene, folds: Folds, height: int, heads: bool, leaf_rows: LeafRows, is_shown: IsShown) -> None:
    """Fold lanes, then layers, until everything but counters fits."""

    def missing() -> int:
        rows = outline(scene, folds, leaf_rows, heads)
        return len([row for row in rows if row.series < 0 and is_shown(row)]) - height

    over = missing()
    deepest = sorted(
        (-lane.rows, index, lane.index)
        for index, trace in enumerate(scene.traces)
        for lane in trace.lanes
        if lane.rows > 1 and not lane.derived and (index, lane.index) not in folds.lanes
    )
    # A lane of n rows folds to one: it saves n - 1, and ``depth`` is -n.
    for depth, index, lane in deepest:
        if over <= 0:
            return
        folds.lanes.add((index, lane))
        over += depth + 1
    turns = sorted({turn for trace in scene.traces for turn in _fold_turns(trace).values()})
    always = frozenset(folds.layers)

    def fits(count: int) -> bool:
        """Whether everything fits after the first ``count`` turns, which are left folded."""
        last = turns[count - 1]
        folds.layers = set(always) | {
            (index, layer)
            for index, trace in enumerate(scene.traces)
            for layer, turn in _fold_turns(trace).items()
            if turn <= last
        }
        return missing() <= 0

    # A turn only takes rows away: a trace of 2,000 devices has as many turns, and each count builds the outline.
    if turns and missing() > 0:
        fits(bisect_left(range(1, len(turns)), True, key=fits) + 1)


def _open_what_fits(scene: Scene, folds: Folds, spare: int) -> None:
    """Open lanes that are folded for their depth, then counter layers, with at most ``spare`` more rows.

    The result only depends on what fits, so a panel that takes some unused rows does not change it.
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


def _fold_turns(trace: Trace) -> dict[int, tuple[int, int]]:
    """The turn in which each layer of ``trace`` folds, by its index, lowest first; without those that never do."""
    turns: dict[int, tuple[int, int]] = {}
    places: Counter[str] = Counter()
    for layer in trace.layers:
        if not layer.lanes:
            continue
        place = places[layer.kind]
        places[layer.kind] += 1
        if folds := trace.nature.folds:
            turns[layer.index] = folds(layer.pid, place)
        elif layer.kind in ("other", "cann", "python"):
            turns[layer.index] = 0, ("other", "cann", "python").index(layer.kind)
        elif layer.kind != "overlap":
            # Further devices in turn 1, overlap layers of further devices in turn 2, the first device last.
            order = ("communication", "hardware", "counter").index(layer.kind) - 3 * place
            turns[layer.index] = 3 if not place else 1, order
        elif place:
            turns[layer.index] = 2, -place
    return turns
