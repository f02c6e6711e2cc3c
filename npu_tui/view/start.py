"""Places: where to open (options of the command line), a view kept while the trace loads, the same row elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.trace.model import Trace
from npu_tui.trace.text import exact_text, parse_duration
from npu_tui.view.explorer import Explorer
from npu_tui.view.outline import LaneKey, default_folds, lane_key, series_name
from npu_tui.view.rows import RowKey
from npu_tui.view.scene import LinkMode, Scene, ScreenRow, Selected, true_offsets

BETWEEN = ".."
NO_TAB = "none"
"""The ``--tab`` of a hidden panel."""
_TOKEN = re.compile(
    r"(?P<kind>[phn][lcg]|al|ar|ol|[fFxitr])(?:(?P<trace>\d{1,9}):)?(?P<index>\d{1,9})?(?:\.(?P<depth>\d{1,9}))?"
)
_JUMP_BEFORE, _JUMP_BEHIND = 9, 10
"""The view around a selected slice, in lengths of the slice, as in MindStudio Insight."""


class Start(Struct, frozen=True):
    """A place to open at, from options of the command line; times in ns, None or empty where an option is not given.

    ``view`` is the visible time, ``at`` the cursor, ``select`` a slice as ``slice_text`` writes it, ``rows`` folds,
    pins, hidden lanes and scrolling as ``rows_text`` writes them, ``tab`` a tab of the panel or ``NO_TAB``, ``finding``
    the id of a finding to go to, ``offsets`` the shift of each trace. All other times are on the clock with these
    offsets.
    """

    view: tuple[int, int] | None = None
    at: int | None = None
    range: tuple[int, int] | None = None
    select: str = ""
    rows: str = ""
    search: str = ""
    links: LinkMode | None = None
    tab: str = ""
    finding: str = ""
    offsets: tuple[int, ...] = ()

    def words(self) -> list[str]:
        """The command-line options that open this place."""
        spans = (("--view", self.view), ("--range", self.range))
        words = [word for option, span in spans if span is not None for word in (option, span_text(span))]
        if self.offsets:
            words.append(f"--offsets={','.join(map(option_time, self.offsets))}")
        if self.at is not None:
            words += ["--at", option_time(self.at)]
        texts = (("--select", self.select), ("--search", self.search), ("--links", self.links), ("--tab", self.tab))
        # With "=", as a value may begin with a dash.
        words += [f"{option}={text}" for option, text in (*texts, ("--rows", self.rows)) if text]
        return words


def option_time(ns: int) -> str:
    """A time as the options accept it, with all digits."""
    return exact_text(ns).replace(" ", "")


def span_text(span: tuple[int, int]) -> str:
    """Two times as the options accept them."""
    return f"{option_time(span[0])}{BETWEEN}{option_time(span[1])}"


def parse_span(text: str) -> tuple[int, int] | None:
    """The two times of a text such as ``12ms..14ms``; None if it is not one."""
    first, between, last = text.partition(BETWEEN)
    start, end = parse_duration(first), parse_duration(last)
    return None if not between or start is None or end is None or start >= end else (start, end)


def parse_offsets(text: str) -> tuple[int, ...] | None:
    """The times of a text such as ``0ms,1.5ms``; None if it is not one."""
    offsets = [parse_duration(word) for word in text.split(",")]
    return None if None in offsets else tuple(offset for offset in offsets if offset is not None)


def offsets_of(scene: Scene) -> tuple[int, ...]:
    """The offsets of the traces if the user has shifted one, else empty."""
    return () if scene.offsets == true_offsets(scene.traces, scene.lengths) else tuple(scene.offsets)


def slice_text(scene: Scene, selected: Selected) -> str:
    """A slice as ``name@start``, or as ``#`` and the number of its event where other slices share name and start."""
    trace = scene.traces[selected.trace]
    start, name = scene.times(selected)[0], trace.name_of(selected.item)
    matches = 0
    for index, other in enumerate(scene.traces):
        if len(other.slices):
            at_start = other.slices.start == scene.to_trace(index, start)
            matches += np.count_nonzero(_names_match(other.names, name)[other.slices.name] & at_start)
    if matches == 1 and name.isprintable() and len(name) <= 200:
        return f"{name}@{option_time(start)}"
    prefix = f"{selected.trace}:" if selected.trace else ""
    return f"#{prefix}{int(trace.slices.event[selected.item])}"


def find_slice(scene: Scene, text: str, after: int, parts: bool = True) -> Selected | None:
    """The slice that ``slice_text`` wrote, or the first one of a name from ``after`` ns on, wrapping at the end.

    With ``parts`` a part of a name matches if no slice has the complete name.
    """
    event = re.fullmatch(r"#(?:(\d{1,9}):)?(\d{1,18})", text)
    if event is not None and int(event[1] or 0) < len(scene.traces):
        index = int(event[1] or 0)
        items = np.flatnonzero(scene.traces[index].slices.event == int(event[2]))
        return Selected(index, int(items[0])) if len(items) else None
    name, _, when = text.rpartition("@")
    start = parse_duration(when) if name else None
    if start is None:
        name = text
    for exact in (True, False) if parts else (True,):
        candidates: list[tuple[bool, int, Selected]] = []
        for index, trace in enumerate(scene.traces):
            if not len(trace.slices):
                continue
            items = np.flatnonzero(_names_match(trace.names, name, exact)[trace.slices.name])
            if start is not None:
                items = items[trace.slices.start[items] == scene.to_trace(index, start)]
            starts = scene.to_scene(index, trace.slices.start[items])
            if len(items):
                best = int(np.lexsort((starts, starts < after))[0])
                candidates.append((bool(starts[best] < after), int(starts[best]), Selected(index, int(items[best]))))
        if candidates:
            return min(candidates, key=lambda place: place[:2])[2]
    return None


def _names_match(names: list[str], name: str, exact: bool = True) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    if exact:
        return np.array([other == name for other in names], np.bool_)
    return np.array([name.lower() in other.lower() for other in names], np.bool_)


def rows_text(explorer: Explorer) -> str:
    """The user's folds, pins, hidden lanes, the cursor's row and the scrolling as a text: ``x,f3,pl1:4,nl5.2,t0``.

    Tokens are letters and a number: after ``x`` only the traces ``r``, layers ``F`` and lanes ``f`` are folded; ``pl``
    ``pc`` ``pg`` pin a lane, curve or chart, ``hl`` ``hc`` ``hg`` hide it; ``i`` leaves out idle rows; ``nl`` ``nc``
    ``ng`` are the cursor's lane and depth, curve or chart, ``al`` is its layer's head, ``ar`` its trace's; ``ol`` is a
    lane and depth that are shown alone; ``t`` is the first row below the pinned ones. A trace other than the first
    stands before the number: ``1:4``.
    """
    folds, tokens = explorer.folds, []
    if not explorer.list.own_folds:
        tokens = ["x", *(f"r{trace}" for trace in sorted(folds.traces))]
        tokens += [_token("F", *key) for key in sorted(folds.layers)]
        tokens += [_token("f", *key) for key in sorted(folds.lanes)]
    tokens += [_lane_token("p", key) for key in folds.pinned]
    tokens += [_lane_token("h", key) for key in sorted(folds.hidden)]
    tokens += ["i"] * explorer.list.idle_away
    alone = sorted(explorer.list.only or ())
    tokens += [_token("ol", trace, lane) + (f".{depth}" if depth else "") for trace, lane, depth in alone]
    row = explorer.focused
    if row is not None and row.layer < 0:
        tokens.append(_token("ar", row.trace, 0))
    elif row is not None and max(row.lane, row.series, row.chart) < 0:
        tokens.append(_token("al", row.trace, row.layer))
    elif row is not None:
        tokens.append(_lane_token("n", lane_key(row)) + (f".{row.depth}" if row.depth else ""))
    tokens.append(f"t{explorer.state.top}")
    return ",".join(tokens)


def _lane_token(letter: str, key: LaneKey) -> str:
    trace, _, lane, series, chart = key
    kind, index = ("l", lane) if lane >= 0 else ("c", series) if series >= 0 else ("g", chart)
    return _token(letter + kind, trace, index)


def _token(kind: str, trace: int, index: int) -> str:
    return f"{kind}{trace}:{index}" if trace else f"{kind}{index}"


def apply_rows(explorer: Explorer, text: str) -> bool:
    """Fold, pin, hide and scroll as in a text of ``rows_text``; False if it is not one or does not fit the traces."""
    scene, folds = explorer.scene, explorer.folds
    if "x" in text or "p" in text or "h" in text:
        explorer.list.keep_folds()
    top: int | None = None
    focus: RowKey | None = None
    alone: list[tuple[int, int, int]] = []
    for word in text.split(","):
        match = _TOKEN.fullmatch(word)
        if match is None:
            return False
        kind, trace, index = match["kind"], int(match["trace"] or 0), int(match["index"] or 0)
        if kind == "x":
            folds.traces.clear()
            folds.layers.clear()
            folds.lanes.clear()
        elif kind == "i":
            explorer.list.idle_away = True
        elif kind == "t":
            top = index
        elif trace >= len(scene.traces):
            return False
        elif kind == "r":
            if index >= len(scene.traces):
                return False
            folds.traces.add(index)
        elif kind == "ar":
            focus = trace, -1, -1, 0, -1, -1
        elif kind == "F":
            folds.layers.add((trace, index))
        elif kind == "al":
            focus = trace, index, -1, 0, -1, -1
        else:
            key = _lane_key(scene, trace, index, kind[1:] or "l")
            if key is None:
                return False
            if kind == "f":
                folds.lanes.add((trace, index))
            elif kind[0] == "o":
                alone.append((trace, index, int(match["depth"] or 0)))
            elif kind[0] == "n":
                focus = (*key[:3], int(match["depth"] or 0), *key[3:])
            elif kind[0] == "p":
                folds.pinned.append(key)
            else:
                folds.hidden.add(key)
    if alone:
        explorer.list.show_only(alone)
    explorer.list.restore(top, focus)
    return True


def _lane_key(scene: Scene, trace: int, index: int, kind: str) -> LaneKey | None:
    shown = scene.traces[trace]
    if kind == "g":
        charts = scene.charts[trace]
        return (trace, charts[index].layer, -1, -1, index) if index < len(charts) else None
    if kind == "c":
        series = shown.counters.series
        return (trace, series[index].layer, -1, index, -1) if index < len(series) else None
    return (trace, shown.lanes[index].layer, index, -1, -1) if index < len(shown.lanes) else None


def start_at(explorer: Explorer, start: Start) -> str:
    """Go to ``start``, apart from its search and tab; returns the option that does not fit the scene, else empty."""
    state, scene, failed = explorer.state, explorer.scene, ""
    if len(start.offsets) == len(scene.traces):
        explorer.set_offsets(start.offsets)
    elif start.offsets:
        failed = "--offsets"
    if start.links is not None:
        state.link_mode = start.links
    if start.select:
        after = start.at if start.at is not None else (start.view or start.range or (0, 0))[0]
        selected = find_slice(scene, start.select, after)
        if selected is None:
            failed = "--select"
        else:
            explorer.select(selected)
            if start.view is None and start.range is None:
                begin, end = scene.times(selected)
                length = end - begin
                explorer.show(begin - _JUMP_BEFORE * max(length, 1), begin + _JUMP_BEHIND * max(length, 1))
    if start.range is not None:
        explorer.set_range(*start.range)
        explorer.show(*start.range)
    if start.view is not None:
        explorer.show(*start.view)
    if start.at is not None:
        explorer.go_to(start.at)
    if start.rows and not apply_rows(explorer, start.rows):
        failed = "--rows"
    return failed


# --- The view of a trace that is still loading ---


def take_over(before: Explorer, now: Explorer) -> None:
    """Give ``now`` the view of ``before``: time, rows, folds, selection and range.

    Both show the same trace while it loads, ``now`` more of it. Layers are matched by process, lanes by thread, slices
    by event. A view that the user never moved stays the opening one.
    """
    old, new = before.scene.traces[0], now.scene.traces[0]
    shift = old.start_ns - new.start_ns
    lanes, layers, series = _lane_map(old, new), _layer_map(old, new), _series_map(old, new)
    _fold(before, now, lanes, layers)
    _set_aside(before, now, lanes, layers, series)
    if before.list.idle_away:
        now.list.toggle_idle()
    state, place = before.state, before.place()
    selection = None if state.selection is None else _same_slice(before.scene, new, state.selection)
    now.state.link_mode, now.state.link_category = state.link_mode, state.link_category
    now.state.hits_only = state.hits_only
    key = _same_row(place.focus, lanes, layers, series)
    if key[0] >= len(now.scene.traces):  # a row of the replayed run, which is gone
        key = (0, *key[1:])
    if before.moved:
        start, end = before.fitted
        place = replace(
            place, start=start + shift, end=end + shift, cursor=place.cursor + shift, selection=selection, focus=key,
            offsets=tuple(now.scene.offsets),
        )  # fmt: skip
        now.return_to(place)
    if state.range is not None:
        now.set_range(state.range[0] + shift, state.range[1] + shift)
    now.anchor = None if before.anchor is None else before.anchor + shift


def _lane_map(old: Trace, new: Trace) -> dict[int, int]:
    """The lane of ``new`` for each lane of ``old``."""
    place = {(new.layers[lane.layer].pid, lane.tid, lane.derived): lane.index for lane in new.lanes}
    lane_of = {lane.index: place.get((old.layers[lane.layer].pid, lane.tid, lane.derived)) for lane in old.lanes}
    return {lane: other for lane, other in lane_of.items() if other is not None}


def _layer_map(old: Trace, new: Trace) -> dict[int, int]:
    place = {layer.pid: layer.index for layer in new.layers}
    return {layer.index: place[layer.pid] for layer in old.layers if layer.pid in place}


def _series_map(old: Trace, new: Trace) -> dict[int, int]:
    place = {
        (new.layers[series.layer].pid, series.name, series.key, series.instance): series.index
        for series in new.counters.series
    }
    keys = {
        series.index: (old.layers[series.layer].pid, series.name, series.key, series.instance)
        for series in old.counters.series
    }
    return {index: place[key] for index, key in keys.items() if key in place}


def _fold(before: Explorer, now: Explorer, lanes: dict[int, int], layers: dict[int, int]) -> None:
    """Fold and open what the user folded and opened, apart from the default folds."""
    usual = default_folds(before.scene)
    for new_of_old, folded, at_first, wanted in (
        (lanes, before.folds.lanes, usual.lanes, now.folds.lanes),
        (layers, before.folds.layers, usual.layers, now.folds.layers),
    ):
        for trace, old in folded ^ at_first:
            if old in new_of_old:
                change = wanted.add if (trace, old) in folded else wanted.discard
                change((trace, new_of_old[old]))
    now.list.refold()


def _set_aside(
    before: Explorer, now: Explorer, lanes: dict[int, int], layers: dict[int, int], series: dict[int, int]
) -> None:
    """Pin and hide what the user pinned and hid."""
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


def _same_slice(scene: Scene, new: Trace, selected: Selected) -> Selected | None:
    items = np.flatnonzero(new.slices.event == scene.traces[selected.trace].slices.event[selected.item])
    return Selected(0, int(items[0])) if len(items) else None


# --- Other traces of the scene ---

Edge = Literal["start", "end"]
Refusal = Literal["one_rank", "no_base", "no_slice", "same_rank"]
"""Why a trace cannot be shifted."""


def move_rank(explorer: Explorer, direction: int) -> bool:
    """Go to the same row of the next (1) or previous (-1) trace at the same time; False where there is none."""
    row, traces = explorer.focused, explorer.scene.traces
    other = explorer.trace + direction
    if row is None or not 0 <= other < len(traces):
        return False
    explorer.leave()
    explorer.list.focus_on(same_row(row, traces[row.trace], traces[other], other))
    explorer.list.reveal()
    explorer.state.selection = None
    explorer.select_under_cursor()
    return True


def same_row(row: ScreenRow, trace: Trace, other: Trace, index: int) -> RowKey:
    """The row of ``other`` (trace number ``index``) that corresponds to ``row`` of ``trace``.

    Layers are matched by kind and name; lanes by name, else by their place in the layer, as thread ids differ between
    processes.
    """
    if row.layer < 0:
        return index, -1, -1, 0, -1, -1
    layer = trace.layers[row.layer]
    same = [candidate for candidate in other.layers if (candidate.kind, candidate.name) == (layer.kind, layer.name)]
    if not same:
        return index, -1, -1, 0, -1, -1
    home, lane, series = same[0], -1, -1
    if row.lane >= 0:
        lane_of_row = trace.lanes[row.lane]
        # The derived Steps lane names a layer but is not one of its lanes.
        beside = [
            neighbour
            for neighbour in other.lanes
            if neighbour.layer == home.index and neighbour.derived == lane_of_row.derived
        ]
        place = [
            neighbour.index
            for neighbour in trace.lanes
            if neighbour.layer == lane_of_row.layer and neighbour.derived == lane_of_row.derived
        ]
        lane = _same(
            lane_of_row.name,
            place.index(lane_of_row.index),
            [neighbour.index for neighbour in beside],
            lambda i: other.lanes[i].name,
        )
    elif row.series >= 0:
        name = _series_name(trace, row.series)
        place = list(layer.series)
        series = _same(name, place.index(row.series), list(home.series), lambda i: _series_name(other, i))
    return index, home.index, lane, row.depth, series, row.chart


def _series_name(trace: Trace, series: int) -> str:
    curve = trace.counters.series[series]
    return series_name(curve.name, curve.instance)


def _same(name: str, place: int, others: list[int], name_of: Callable[[int], str]) -> int:
    named = [number for number in others if name_of(number) == name]
    return named[0] if named else others[min(place, len(others) - 1)] if others else -1


def mark_base(explorer: Explorer) -> bool:
    """Make the selected slice the base of ``align``; False if none is selected."""
    if explorer.state.selection is None:
        return False
    explorer.base = explorer.state.selection
    return True


def align(explorer: Explorer, edge: Edge) -> int | Refusal:
    """Shift the trace of the selected slice so that its ``edge`` meets that of the base; returns the shift, ns."""
    selected, scene = explorer.state.selection, explorer.scene
    if len(scene.traces) < 2:
        return "one_rank"
    if explorer.base is None:
        return "no_base"
    if selected is None:
        return "no_slice"
    if selected.trace == explorer.base.trace:
        return "same_rank"
    side = 0 if edge == "start" else 1
    by = scene.times(explorer.base)[side] - scene.times(selected)[side]
    explorer.shift(selected.trace, by)
    explorer.go_to(scene.times(selected)[0])
    return by
