"""A place to open at, a view kept while the trace still loads, and the same time on another rank."""

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
"""Stands for a panel that is hidden."""
_TOKEN = re.compile(
    r"(?P<kind>[phn][lcg]|al|ar|ol|[fFxitr])(?:(?P<trace>\d{1,9}):)?(?P<index>\d{1,9})?(?:\.(?P<depth>\d{1,9}))?"
)
_JUMP_BEFORE, _JUMP_BEHIND = 9, 10
"""What MindStudio Insight shows around a slice it jumps to, in lengths of the slice."""


class Start(Struct, frozen=True):
    """What the options say; times in ns, None or empty where nothing is said.

    ``view`` is the visible time, ``at`` the cursor, ``select`` a slice as ``slice_text`` writes it, ``rows`` what is
    folded, pinned, hidden and scrolled as ``rows_text`` writes it, ``tab`` a tab of the panel or ``NO_TAB``,
    ``finding`` the id of the finding whose evidence is gone to, ``offsets`` how far each trace is shifted. All other
    times are those of the clock that this makes.
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
        """The options of the command line that open here."""
        spans = (("--view", self.view), ("--range", self.range))
        words = [word for option, span in spans if span is not None for word in (option, span_text(span))]
        if self.offsets:
            words.append(f"--offsets={','.join(map(time_text, self.offsets))}")
        if self.at is not None:
            words += ["--at", time_text(self.at)]
        texts = (("--select", self.select), ("--search", self.search), ("--links", self.links), ("--tab", self.tab))
        # An option's own value may begin with a dash.
        words += [f"{option}={text}" for option, text in (*texts, ("--rows", self.rows)) if text]
        return words


def time_text(ns: int) -> str:
    """A time as the options take it, with all its digits."""
    return exact_text(ns).replace(" ", "")


def span_text(span: tuple[int, int]) -> str:
    """Two times as the options take them."""
    return f"{time_text(span[0])}{BETWEEN}{time_text(span[1])}"


def parse_span(text: str) -> tuple[int, int] | None:
    """Two times such as ``12ms..14ms``; None if it is none."""
    first, between, last = text.partition(BETWEEN)
    start, end = parse_duration(first), parse_duration(last)
    return None if not between or start is None or end is None or start >= end else (start, end)


def parse_offsets(text: str) -> tuple[int, ...] | None:
    """Times with commas between them; None if they are none."""
    found = [parse_duration(word) for word in text.split(",")]
    return None if None in found else tuple(each for each in found if each is not None)


def offsets_of(scene: Scene) -> tuple[int, ...]:
    """The offsets of the traces where the user has shifted one, else none."""
    return () if scene.offsets == true_offsets(scene.traces, scene.lengths) else tuple(scene.offsets)


def slice_text(scene: Scene, selected: Selected) -> str:
    """A slice as name and start, or as ``#`` and the number of its event where others share both."""
    trace = scene.traces[selected.trace]
    start, name = scene.times(selected)[0], trace.name_of(selected.item)
    same = 0
    for index, other in enumerate(scene.traces):
        if len(other.slices):
            here = other.slices.start == scene.to_trace(index, start)
            same += np.count_nonzero(_named(other.names, name)[other.slices.name] & here)
    if same == 1 and name.isprintable() and len(name) <= 200:
        return f"{name}@{time_text(start)}"
    prefix = f"{selected.trace}:" if selected.trace else ""
    return f"#{prefix}{int(trace.slices.event[selected.item])}"


def find_slice(scene: Scene, text: str, after: int, parts: bool = True) -> Selected | None:
    """The slice that ``slice_text`` wrote; else the first one of that name from ``after`` ns on, round the end.

    With ``parts`` a part of a name will do where no slice has the whole.
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
    for whole in (True, False) if parts else (True,):
        found: list[tuple[bool, int, Selected]] = []
        for index, trace in enumerate(scene.traces):
            if not len(trace.slices):
                continue
            items = np.flatnonzero(_named(trace.names, name, whole)[trace.slices.name])
            if start is not None:
                items = items[trace.slices.start[items] == scene.to_trace(index, start)]
            starts = scene.to_scene(index, trace.slices.start[items])
            if len(items):
                best = int(np.lexsort((starts, starts < after))[0])
                found.append((bool(starts[best] < after), int(starts[best]), Selected(index, int(items[best]))))
        if found:
            return min(found, key=lambda place: place[:2])[2]
    return None


def _named(names: list[str], name: str, whole: bool = True) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    if whole:
        return np.array([other == name for other in names], np.bool_)
    return np.array([name.lower() in other.lower() for other in names], np.bool_)


def rows_text(explorer: Explorer) -> str:
    """Folds where the user made them, pins, hidden lanes, the cursor's row and what is scrolled.

    Tokens of letters and a number: after ``x`` only the traces ``r``, layers ``F`` and lanes ``f`` are folded; ``pl``
    ``pc`` ``pg`` pin a lane, curve or chart, ``hl`` ``hc`` ``hg`` hide it; ``i`` leaves out idle rows; ``nl`` ``nc``
    ``ng`` are the cursor's lane and depth, curve or chart, ``al`` is its layer's head, ``ar`` its trace's; ``ol``
    a lane and depth that are shown alone; ``t`` the first row below the pinned ones.
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
    """Fold, pin, hide and scroll as ``rows_text`` wrote; False for what it did not write or another trace has."""
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
    known = scene.traces[trace]
    if kind == "g":
        charts = scene.charts[trace]
        return (trace, charts[index].layer, -1, -1, index) if index < len(charts) else None
    if kind == "c":
        series = known.counters.series
        return (trace, series[index].layer, -1, index, -1) if index < len(series) else None
    return (trace, known.lanes[index].layer, index, -1, -1) if index < len(known.lanes) else None


def start_at(explorer: Explorer, start: Start) -> str:
    """Show what ``start`` asks for but search and tab; returns the option that could not be followed, or nothing."""
    state, scene, failed = explorer.state, explorer.scene, ""
    if len(start.offsets) == len(scene.traces):
        explorer.set_offsets(start.offsets)
    elif start.offsets:
        failed = "--offsets"
    if start.links is not None:
        state.link_mode = start.links
    if start.select:
        after = start.at if start.at is not None else (start.view or start.range or (0, 0))[0]
        found = find_slice(scene, start.select, after)
        if found is None:
            failed = "--select"
        else:
            explorer.select(found)
            if start.view is None and start.range is None:
                begin, end = scene.times(found)
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
    """What trace number ``index``, ``other``, has where ``trace`` has ``row``: its layer, lane and depth, or series.

    Layers are told by kind and name; lanes by name, else by their place in the layer, as threads have other numbers in
    every process.
    """
    if row.layer < 0:
        return index, -1, -1, 0, -1, -1
    layer = trace.layers[row.layer]
    same = [each for each in other.layers if (each.kind, each.name) == (layer.kind, layer.name)]
    if not same:
        return index, -1, -1, 0, -1, -1
    home, lane, series = same[0], -1, -1
    if row.lane >= 0:
        own = trace.lanes[row.lane]
        # Steps are no lane of their layer.
        beside = [each for each in other.lanes if each.layer == home.index and each.derived == own.derived]
        place = [each.index for each in trace.lanes if each.layer == own.layer and each.derived == own.derived]
        lane = _same(own.name, place.index(own.index), [each.index for each in beside], lambda i: other.lanes[i].name)
    elif row.series >= 0:
        name = _series_name(trace, row.series)
        place = list(layer.series)
        series = _same(name, place.index(row.series), list(home.series), lambda i: _series_name(other, i))
    return index, home.index, lane, row.depth, series, row.chart


def _series_name(trace: Trace, series: int) -> str:
    found = trace.counters.series[series]
    return series_name(found.name, found.instance)


def _same(name: str, place: int, others: list[int], name_of: Callable[[int], str]) -> int:
    named = [each for each in others if name_of(each) == name]
    return named[0] if named else others[min(place, len(others) - 1)] if others else -1


def mark_base(explorer: Explorer) -> bool:
    """Make the selected slice the one that other traces are aligned with; False where none is selected."""
    if explorer.state.selection is None:
        return False
    explorer.base = explorer.state.selection
    return True


def align(explorer: Explorer, edge: Edge) -> int | Refusal:
    """Shift the trace of the selected slice so that its ``edge`` meets that of the base; returns by how much, ns."""
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
