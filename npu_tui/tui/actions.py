"""What the user can do: the id of every command, its group in the help, its keys, and what it does on each screen.

A command is one entry here and its title ``command.<id>`` in every language. What it does is a function of the screen
that has it, checked by the types; anything longer than a call stands in a method there. It returns the message for the
user, or None where the screen shows it. The order is that of the help.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from npu_tui.strings import LANGUAGES, say
from npu_tui.tui.commands import (
    COMPARED_KEYS,
    JOB_KEYS,
    TAB_COMMAND,
    TAB_KEYS,
    VIEW_KEYS,
    Command,
    Group,
    Where,
    find_key,
)

if TYPE_CHECKING:  # who only prints the table of keys waits for none of these
    from npu_tui.tui.job_screen import JobScreen
    from npu_tui.tui.panel_screen import PanelScreen
    from npu_tui.tui.picker import PickerScreen
    from npu_tui.tui.screen import MainScreen

_ZOOM, _ZOOM_FAST = 1.25, 4.0
_PAN, _PAN_FAST = 0.1, 0.5
_TO_THE_END = 1 << 30


Act = Callable[[Any], str | None]
Way = Callable[[Any, int], str | None]


def _command(
    group: Group,
    named: str,
    lanes: Callable[[MainScreen], str | None] | None = None,
    job: Callable[[JobScreen], str | None] | None = None,
    both: Callable[[PanelScreen[Any]], str | None] | None = None,
    picker: Callable[[PickerScreen], str | None] | None = None,
) -> Command:
    """The command ``named`` by its id and the keys after it, as people write them; ``both`` is for lanes and job."""
    id_, *keys = named.split()
    acts: dict[Where, Act | None] = {"lanes": lanes or both, "job": job or both, "picker": picker}
    own = tuple(key for each in keys if (key := find_key(each)) is not None)
    assert len(own) == len(keys), "no key is called so"
    return Command(id_, group, own, {where: act for where, act in acts.items() if act is not None})


# What the id of the one of two commands says that goes the other way.
_BACK = frozenset(("previous", "out", "left", "up", "first", "back"))


def _ways(
    group: Group,
    one: str,
    other: str,
    lanes: Callable[[MainScreen, int], str | None],
    job: Callable[[JobScreen, int], str | None] | None = None,
    picker: Callable[[PickerScreen, int], str | None] | None = None,
) -> tuple[Command, Command]:
    """Two commands as of ``_command`` that differ in the way they go: onward (1) or back (-1)."""

    def on(act: Way | None, way: int) -> Act | None:
        return None if act is None else lambda screen: act(screen, way)

    def of(named: str) -> Command:
        way = 1 if _BACK.isdisjoint(named.split()[0].split("_")) else -1
        return _command(group, named, on(lanes, way), on(job, way), picker=on(picker, way))

    return of(one), of(other)


def _opens(tab: str) -> Callable[[PanelScreen[Any]], str | None]:
    return lambda screen: screen.press_tab(tab)


def _shows(view: str) -> Callable[[MainScreen], str | None]:
    return lambda screen: screen.contents.press_view(view)


def _looks(theme: str) -> Callable[[PanelScreen[Any]], str | None]:
    return lambda screen: screen.app.look_as(theme)


def _speaks(language: str) -> Callable[[PanelScreen[Any]], str | None]:
    return lambda screen: screen.app.speak_in(language)


def _needs(word: str) -> Act:
    return lambda screen: say(f"order.{word}")


ACTIONS: tuple[Command, ...] = (
    *_ways("place", "zoom_in w", "zoom_out s", lambda screen, way: screen.explorer.zoom(_ZOOM**way)),
    *_ways("place", "zoom_in_fast W", "zoom_out_fast S", lambda screen, way: screen.explorer.zoom(_ZOOM_FAST**way)),
    *_ways(
        "place", "pan_left a left", "pan_right d right", lambda screen, way: screen.explorer.pan(way * _PAN),
        job=lambda screen, way: screen.overview.move_column(way),
    ),
    *_ways("place", "pan_left_fast A", "pan_right_fast D", lambda screen, way: screen.explorer.pan(way * _PAN_FAST)),
    *_ways(
        "place", "cursor_left shift+left", "cursor_right shift+right",
        lambda screen, way: screen.explorer.move_cursor(way),
    ),
    _command(
        "place", "home 0 home ctrl+0", lambda screen: screen.explorer.home(),
        picker=lambda screen: screen.move(-_TO_THE_END),
    ),
    _command("place", "fit f", lambda screen: screen.walk.fit()),
    _command("place", "undo backspace u", lambda screen: screen.undo()),
    _command("place", "redo U ctrl+r", lambda screen: None if screen.explorer.redo() else say("redo.none")),
    *_ways(
        "place", "step_previous <", "step_next >", lambda screen, way: screen.step(way),
        job=lambda screen, way: screen.next_rank(way),
    ),
    _command("measure", "align_start L", lambda screen: screen.walk.align("start")),
    _command("measure", "align_end R", lambda screen: screen.walk.align("end")),
    _command("measure", "base", lambda screen: screen.walk.mark_base()),
    _command("compared", "align_sides =", lambda screen: screen.sides.align(), job=lambda screen: screen.compare()),
    _command("compared", "counterpart \\", lambda screen: screen.sides.counterpart()),
    _command("compared", "sides |", lambda screen: screen.sides.turn(), job=lambda screen: screen.next_axis()),
    *_ways(
        "place", "row_up up k", "row_down down j", lambda screen, way: screen.explorer.move_row(way),
        job=lambda screen, way: screen.overview.move(way), picker=lambda screen, way: screen.move(way),
    ),
    *_ways(
        "place", "layer_up pageup", "layer_down pagedown", lambda screen, way: screen.explorer.move_layer(way),
        picker=lambda screen, way: screen.page(way),
    ),
    *_ways(
        "place", "row_first gg", "row_last G end", lambda screen, way: screen.explorer.move_row(way * _TO_THE_END),
        job=lambda screen, way: screen.overview.move(way * _TO_THE_END),
        picker=lambda screen, way: screen.move(way * _TO_THE_END),
    ),
    _command("rows", "fold space", lambda screen: None if screen.explorer.toggle_fold() else say("fold.none")),
    _command("rows", "pin p", lambda screen: screen.walk.pin()),
    _command("rows", "hide H", lambda screen: screen.walk.hide()),
    _command("rows", "show_hidden", lambda screen: screen.walk.show_hidden()),
    _command("rows", "idle i", lambda screen: screen.walk.toggle_idle()),
    *_ways(
        "slices", "slice_previous h ,", "slice_next l .", lambda screen, way: screen.walk.slice(way),
        job=lambda screen, way: screen.next_collective(way),
    ),
    *_ways("slices", "same_previous {", "same_next }", lambda screen, way: screen.walk.same(way)),
    *_ways("slices", "bubble_next b", "bubble_previous B", lambda screen, way: screen.walk.bubble(way)),
    *_ways("launches", "starved_next x", "starved_previous X", lambda screen, way: screen.walk.starved(way)),
    *_ways("slices", "path_next '", 'path_previous "', lambda screen, way: screen.path.step(way)),
    _command(
        "slices", "path ;", lambda screen: screen.path.longest(),
        job=lambda screen: None if screen.overview.worst_collective() else say("ranks.collective.none"),
    ),
    *_ways(
        "place", "finding_next e", "finding_previous E", lambda screen, way: screen.next_finding(way),
        job=lambda screen, way: screen.next_finding(way),
    ),
    _command("slices", "film !", lambda screen: screen.toggle_film(), lambda screen: screen.toggle_film()),
    _command("launches", "link_back [", lambda screen: screen.walk.follow(False)),
    _command("launches", "link_forward ]", lambda screen: screen.follow_link()),
    *_ways("launches", "sibling_previous (", "sibling_next )", lambda screen, way: screen.walk.sibling(way)),
    _command("launches", "chain c", lambda screen: screen.walk.chain()),
    _command("launches", "passes %", lambda screen: screen.show_passes()),
    _command(
        "launches", "link_mode t", lambda screen: say(f"mode.{screen.explorer.cycle_links()}"),
        job=lambda screen: screen.next_metric(),
    ),
    _command("measure", "range_selection m", lambda screen: screen.walk.mark_selection()),
    _command("measure", "range_clear M", lambda screen: screen.explorer.clear_range()),
    _command("measure", "range_mark v", lambda screen: screen.walk.mark_range()),
    _command("measure", "range_gap V", lambda screen: screen.walk.mark_gap()),
    _command(
        "measure", "range_zoom z Z",
        lambda screen: None if screen.explorer.zoom_to_range() else say("range.zoom_none"),
    ),
    _command(
        "search", "search /", lambda screen: screen.searching.ask(), job=lambda screen: screen.ask(),
        picker=lambda screen: screen.find(),
    ),
    *_ways("search", "hit_next n", "hit_previous N", lambda screen, way: screen.next_hit(way)),
    _command(
        "search", "hits_only *", lambda screen: screen.walk.toggle_hits_only(), job=lambda screen: screen.next_scope()
    ),
    _command("notes", "flag K", lambda screen: screen.marks.add_here()),
    _command("notes", "flags", lambda screen: screen.list_flags()),
    _command("notes", "yank y", lambda screen: screen.yank()),
    _command("notes", "yank_view Y", lambda screen: screen.yank_view(), job=lambda screen: screen.yank_view()),
    _command("notes", "copy_text", both=lambda screen: screen.copy_table("text")),
    _command("notes", "copy_csv", both=lambda screen: screen.copy_table("csv")),
    _command(
        "panel", "panel q Q", both=lambda screen: screen.close_panel(), picker=lambda screen: screen.leave_twice()
    ),
    _command("panel", "panel_grow P", both=lambda screen: screen.grow_panel()),
    *(_command("panel", f"{TAB_COMMAND}{tab} {key}", _opens(tab)) for tab, key in (TAB_KEYS | COMPARED_KEYS).items()),
    _command("panel", "code", lanes=_shows("lines"), job=_needs("code_timeline")),
    *(_command("panel", f"{view} {key}", _shows(view)) for view, key in VIEW_KEYS.items()),
    _command("panel", "call_tree", lanes=lambda screen: screen.contents.show_call_tree()),
    _command("panel", "sort_reverse -", both=lambda screen: screen.reverse_order()),
    _command("panel", "filter &", both=lambda screen: screen.filtering.ask(), picker=lambda screen: screen.find()),
    _command("launches", "open_code o", lambda screen: screen.open_code()),
    _command(
        "slices", "go enter", lambda screen: None if screen.explorer.select_under_cursor() else say("select.none")
    ),
    _command("slices", "escape escape", both=lambda screen: screen.escape(), picker=lambda screen: screen.escape()),
    _command("panel", "focus_next tab", both=lambda screen: screen.focus_panel()),
    _command("job", "ranks J", lambda screen: screen.show_ranks()),
    _command("job", "open enter", job=lambda screen: screen.open_here(), picker=lambda screen: screen.open()),
    _command("job", "mark space", job=lambda screen: screen.mark(), picker=lambda screen: screen.mark()),
    _command("job", "extremes +", job=lambda screen: screen.open_ranks(screen.overview.extremes())),
    *(_command("job", f"{TAB_COMMAND}{tab} {key}", job=_opens(tab)) for tab, key in JOB_KEYS.items()),
    _command("list", "fold_job left right", picker=lambda screen: screen.fold()),
    _command("place", "command : ctrl+p", lambda screen: screen.asking.open(), job=lambda screen: screen.ask()),
    _command("program", "whatif", lambda screen: screen.supposing.open(), job=_needs("whatif_job")),
    _command("program", "sql", lambda screen: screen.querying.open()),
    _command("program", "record @", both=lambda screen: screen.app.record()),
    _command(
        "program", "stop ctrl+x", both=lambda screen: screen.app.stop_work(),
        picker=lambda screen: screen.app.stop_work(),
    ),
    *(_command("program", word, both=_needs(word)) for word in ("report", "screenshot", "compare")),
    _command("program", "share", lanes=_needs("share"), job=_needs("share_timeline")),
    _command("panel", "requests", lanes=lambda screen: screen.show_requests(), job=_needs("requests")),
    *(_command("job", word, lanes=_needs(word), job=_opens(f"job_{word}")) for word in ("roles", "experts")),
    _command("program", "health", lambda screen: screen.show_health()),
    *(_command("program", theme.replace("-", "_"), both=_looks(theme)) for theme in ("dark", "light", "colour-blind")),
    *(_command("program", language, both=_speaks(language)) for language in LANGUAGES),
    _command("program", "redraw ctrl+l", both=lambda screen: screen.redraw()),
    _command("program", "help ?", both=lambda screen: screen.show_help(), picker=lambda screen: screen.show_help()),
    _command(
        "program", "quit ctrl+q", both=lambda screen: screen.app.leave(), picker=lambda screen: screen.app.leave()
    ),
)  # fmt: skip
