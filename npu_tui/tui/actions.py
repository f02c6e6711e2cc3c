"""What the user can do: the id of every command, its group in the help, its keys, and what it does on each screen.

A command is one entry here and its title ``command.<id>`` in every language. What it does is a function of the screen
that has it, checked by the types; anything longer than a call stands in a method there. It returns what to tell the
user, or None where the screen shows it. The order is that of the help.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from npu_tui.strings import LANGUAGES, say
from npu_tui.tui.commands import COMPARED_KEYS, JOB_KEYS, TAB_COMMAND, TAB_KEYS, VIEW_KEYS, Command, Group, Where

if TYPE_CHECKING:  # who only prints the table of keys waits for none of these
    from npu_tui.tui.job_screen import JobScreen
    from npu_tui.tui.panel_screen import PanelScreen
    from npu_tui.tui.picker import PickerScreen
    from npu_tui.tui.screen import MainScreen

_ZOOM, _ZOOM_FAST = 1.25, 4.0
_PAN, _PAN_FAST = 0.1, 0.5
_TO_THE_END = 1 << 30


def _command(
    id_: str,
    group: Group,
    keys: tuple[str, ...] = (),
    lanes: Callable[[MainScreen], str | None] | None = None,
    job: Callable[[JobScreen], str | None] | None = None,
    both: Callable[[PanelScreen[Any]], str | None] | None = None,
    picker: Callable[[PickerScreen], str | None] | None = None,
) -> Command:
    """``both`` is for lanes and job."""
    acts: dict[Where, Callable[[Any], str | None] | None] = {
        "lanes": lanes or both,
        "job": job or both,
        "picker": picker,
    }
    return Command(id_, group, keys, {where: act for where, act in acts.items() if act is not None})


def _opens(tab: str) -> Callable[[PanelScreen[Any]], str | None]:
    return lambda screen: screen.press_tab(tab)


def _shows(view: str) -> Callable[[MainScreen], str | None]:
    return lambda screen: screen.contents.press_view(view)


def _looks(theme: str) -> Callable[[PanelScreen[Any]], str | None]:
    return lambda screen: screen.app.look_as(theme)


def _speaks(language: str) -> Callable[[PanelScreen[Any]], str | None]:
    return lambda screen: screen.app.speak_in(language)


def _needs(word: str) -> Callable[[PanelScreen[Any]], str | None]:
    return lambda screen: say(f"order.{word}")


def _finding(id_: str, key: str, direction: int) -> Command:
    return _command(
        id_,
        "slices",
        (key,),
        lambda screen: screen.next_finding(direction),
        lambda screen: screen.next_finding(direction),
    )


ACTIONS: tuple[Command, ...] = (
    _command("zoom_in", "time", ("w",), lambda screen: screen.explorer.zoom(_ZOOM)),
    _command("zoom_out", "time", ("s",), lambda screen: screen.explorer.zoom(1 / _ZOOM)),
    _command("zoom_in_fast", "time", ("W",), lambda screen: screen.explorer.zoom(_ZOOM_FAST)),
    _command("zoom_out_fast", "time", ("S",), lambda screen: screen.explorer.zoom(1 / _ZOOM_FAST)),
    _command(
        "pan_left",
        "time",
        ("a", "left"),
        lambda screen: screen.explorer.pan(-_PAN),
        job=lambda screen: screen.overview.move_column(-1),
    ),
    _command(
        "pan_right",
        "time",
        ("d", "right"),
        lambda screen: screen.explorer.pan(_PAN),
        job=lambda screen: screen.overview.move_column(1),
    ),
    _command("pan_left_fast", "time", ("A",), lambda screen: screen.explorer.pan(-_PAN_FAST)),
    _command("pan_right_fast", "time", ("D",), lambda screen: screen.explorer.pan(_PAN_FAST)),
    _command("cursor_left", "time", ("shift+left",), lambda screen: screen.explorer.move_cursor(-1)),
    _command("cursor_right", "time", ("shift+right",), lambda screen: screen.explorer.move_cursor(1)),
    _command(
        "home",
        "time",
        ("0", "home", "ctrl+0"),
        lambda screen: screen.explorer.home(),
        picker=lambda screen: screen.move(-_TO_THE_END),
    ),
    _command("fit", "time", ("f",), lambda screen: screen.walk.fit()),
    _command("undo", "time", ("backspace", "u"), lambda screen: screen.undo()),
    _command("redo", "time", ("U", "ctrl+r"), lambda screen: None if screen.explorer.redo() else say("redo.none")),
    _command(
        "step_previous",
        "time",
        ("less_than_sign",),
        lambda screen: screen.step(-1),
        job=lambda screen: screen.next_rank(-1),
    ),
    _command(
        "step_next",
        "time",
        ("greater_than_sign",),
        lambda screen: screen.step(1),
        job=lambda screen: screen.next_rank(1),
    ),
    _command("align_start", "time", ("L",), lambda screen: screen.walk.align("start")),
    _command("align_end", "time", ("R",), lambda screen: screen.walk.align("end")),
    _command("base", "time", (), lambda screen: screen.walk.mark_base()),
    _command(
        "align_sides",
        "compared",
        ("equals_sign",),
        lambda screen: screen.sides.align(),
        job=lambda screen: screen.compare(),
    ),
    _command("counterpart", "compared", ("backslash",), lambda screen: screen.sides.counterpart()),
    _command(
        "sides",
        "compared",
        ("vertical_line",),
        lambda screen: screen.sides.turn(),
        job=lambda screen: screen.next_axis(),
    ),
    _command(
        "row_up",
        "rows",
        ("up", "k"),
        lambda screen: screen.explorer.move_row(-1),
        job=lambda screen: screen.overview.move(-1),
        picker=lambda screen: screen.move(-1),
    ),
    _command(
        "row_down",
        "rows",
        ("down", "j"),
        lambda screen: screen.explorer.move_row(1),
        job=lambda screen: screen.overview.move(1),
        picker=lambda screen: screen.move(1),
    ),
    _command(
        "layer_up",
        "rows",
        ("pageup",),
        lambda screen: screen.explorer.move_layer(-1),
        picker=lambda screen: screen.page(-1),
    ),
    _command(
        "layer_down",
        "rows",
        ("pagedown",),
        lambda screen: screen.explorer.move_layer(1),
        picker=lambda screen: screen.page(1),
    ),
    _command(
        "row_first",
        "rows",
        ("g g",),
        lambda screen: screen.explorer.move_row(-_TO_THE_END),
        job=lambda screen: screen.overview.move(-_TO_THE_END),
        picker=lambda screen: screen.move(-_TO_THE_END),
    ),
    _command(
        "row_last",
        "rows",
        ("G", "end"),
        lambda screen: screen.explorer.move_row(_TO_THE_END),
        job=lambda screen: screen.overview.move(_TO_THE_END),
        picker=lambda screen: screen.move(_TO_THE_END),
    ),
    _command("fold", "rows", ("space",), lambda screen: None if screen.explorer.toggle_fold() else say("fold.none")),
    _command("pin", "rows", ("p",), lambda screen: screen.walk.pin()),
    _command("hide", "rows", ("H",), lambda screen: screen.walk.hide()),
    _command("show_hidden", "rows", (), lambda screen: screen.walk.show_hidden()),
    _command("idle", "rows", ("i",), lambda screen: screen.walk.toggle_idle()),
    _command(
        "slice_previous",
        "slices",
        ("h", "comma"),
        lambda screen: screen.walk.slice(-1),
        job=lambda screen: screen.next_collective(-1),
    ),
    _command(
        "slice_next",
        "slices",
        ("l", "full_stop"),
        lambda screen: screen.walk.slice(1),
        job=lambda screen: screen.next_collective(1),
    ),
    _command("same_previous", "slices", ("left_curly_bracket",), lambda screen: screen.walk.same(-1)),
    _command("same_next", "slices", ("right_curly_bracket",), lambda screen: screen.walk.same(1)),
    _command("bubble_next", "slices", ("b",), lambda screen: screen.walk.bubble(1)),
    _command("bubble_previous", "slices", ("B",), lambda screen: screen.walk.bubble(-1)),
    _command("starved_next", "slices", ("x",), lambda screen: screen.walk.starved(1)),
    _command("starved_previous", "slices", ("X",), lambda screen: screen.walk.starved(-1)),
    _command("path_next", "slices", ("apostrophe",), lambda screen: screen.path.step(1)),
    _command("path_previous", "slices", ("quotation_mark",), lambda screen: screen.path.step(-1)),
    _command(
        "path",
        "slices",
        ("semicolon",),
        lambda screen: screen.path.longest(),
        job=lambda screen: None if screen.overview.worst_collective() else say("ranks.collective.none"),
    ),
    _finding("finding_next", "e", 1),
    _finding("finding_previous", "E", -1),
    _command(
        "film", "slices", ("exclamation_mark",), lambda screen: screen.toggle_film(), lambda screen: screen.films.show()
    ),
    _command("link_back", "links", ("left_square_bracket",), lambda screen: screen.walk.follow(False)),
    _command("link_forward", "links", ("right_square_bracket",), lambda screen: screen.follow_link()),
    _command("sibling_previous", "links", ("left_parenthesis",), lambda screen: screen.walk.sibling(-1)),
    _command("sibling_next", "links", ("right_parenthesis",), lambda screen: screen.walk.sibling(1)),
    _command("chain", "links", ("c",), lambda screen: screen.walk.chain()),
    _command("passes", "links", ("percent_sign",), lambda screen: screen.show_passes()),
    _command(
        "link_mode",
        "links",
        ("t",),
        lambda screen: say(f"mode.{screen.explorer.cycle_links()}"),
        job=lambda screen: screen.next_metric(),
    ),
    _command("range_selection", "range", ("m",), lambda screen: screen.walk.mark_selection()),
    _command("range_clear", "range", ("M",), lambda screen: screen.explorer.clear_range()),
    _command("range_mark", "range", ("v",), lambda screen: screen.walk.mark_range()),
    _command("range_gap", "range", ("V",), lambda screen: screen.walk.mark_gap()),
    _command(
        "range_zoom",
        "range",
        ("z", "Z"),
        lambda screen: None if screen.explorer.zoom_to_range() else say("range.zoom_none"),
    ),
    _command(
        "search",
        "search",
        ("slash",),
        lambda screen: screen.ask_search(),
        job=lambda screen: screen.ask(),
        picker=lambda screen: screen.find(),
    ),
    _command("hit_next", "search", ("n",), lambda screen: screen.next_hit(1)),
    _command("hit_previous", "search", ("N",), lambda screen: screen.next_hit(-1)),
    _command(
        "hits_only",
        "search",
        ("asterisk",),
        lambda screen: screen.walk.toggle_hits_only(),
        job=lambda screen: screen.next_scope(),
    ),
    _command("flag", "notes", ("K",), lambda screen: screen.marks.add_here()),
    _command("flags", "notes", (), lambda screen: screen.list_flags()),
    _command("yank", "notes", ("y",), lambda screen: screen.yank()),
    _command("yank_view", "notes", ("Y",), lambda screen: screen.yank_view(), job=lambda screen: screen.yank_view()),
    _command("copy_text", "notes", (), both=lambda screen: screen.copy_table("text")),
    _command("copy_csv", "notes", (), both=lambda screen: screen.copy_table("csv")),
    _command(
        "panel",
        "panel",
        ("q", "Q"),
        both=lambda screen: screen.close_panel(),
        picker=lambda screen: screen.app.leave(),
    ),
    _command("panel_grow", "panel", ("P",), both=lambda screen: screen.grow_panel()),
    *(_command(f"{TAB_COMMAND}{tab}", "panel", (key,), _opens(tab)) for tab, key in (TAB_KEYS | COMPARED_KEYS).items()),
    _command("code", "panel", lanes=_shows("lines")),
    *(_command(view, "panel", keys, _shows(view)) for view, keys in VIEW_KEYS.items()),
    _command("sort_reverse", "panel", ("minus",), both=lambda screen: screen.reverse_order()),
    _command(
        "filter",
        "panel",
        ("ampersand",),
        both=lambda screen: screen.filtering.ask(),
        picker=lambda screen: screen.find(),
    ),
    _command("open_code", "panel", ("o",), lambda screen: screen.open_code()),
    _command(
        "go", "panel", ("enter",), lambda screen: None if screen.explorer.select_under_cursor() else say("select.none")
    ),
    _command(
        "escape", "panel", ("escape",), both=lambda screen: screen.escape(), picker=lambda screen: screen.escape()
    ),
    _command("focus_next", "panel", ("tab",), both=lambda screen: screen.focus_panel()),
    _command("ranks", "job", ("J",), lambda screen: screen.show_ranks()),
    _command("open", "job", ("enter",), job=lambda screen: screen.open_here(), picker=lambda screen: screen.open()),
    _command("mark", "job", ("space",), job=lambda screen: screen.mark(), picker=lambda screen: screen.mark()),
    _command("extremes", "job", ("plus",), job=lambda screen: screen.open_ranks(screen.overview.extremes())),
    *(_command(f"{TAB_COMMAND}{tab}", "job", (key,), job=_opens(tab)) for tab, key in JOB_KEYS.items()),
    _command("fold_job", "list", ("left", "right"), picker=lambda screen: screen.fold()),
    _command(
        "command", "program", ("colon", "ctrl+p"), lambda screen: screen.asking.open(), job=lambda screen: screen.ask()
    ),
    _command("whatif", "program", (), lambda screen: screen.supposing.open()),
    _command("sql", "program", (), lambda screen: screen.querying.open()),
    _command("record", "program", ("at",), both=lambda screen: screen.app.record()),
    _command(
        "stop",
        "program",
        ("ctrl+x",),
        both=lambda screen: screen.app.stop_work(),
        picker=lambda screen: screen.app.stop_work(),
    ),
    *(_command(word, "program", both=_needs(word)) for word in ("report", "screenshot", "compare")),
    _command("share", "program", lanes=_needs("share"), job=_needs("share_timeline")),
    _command("requests", "panel", lanes=lambda screen: screen.show_requests(), job=_needs("requests")),
    *(_command(word, "job", lanes=_needs(word), job=_opens(f"job_{word}")) for word in ("roles", "experts")),
    _command("health", "program", (), lambda screen: screen.show_health()),
    *(_command(theme.replace("-", "_"), "program", both=_looks(theme)) for theme in ("dark", "light", "colour-blind")),
    *(_command(language, "program", both=_speaks(language)) for language in LANGUAGES),
    _command("redraw", "program", ("ctrl+l",), both=lambda screen: screen.redraw()),
    _command(
        "help",
        "program",
        ("question_mark",),
        both=lambda screen: screen.show_help(),
        picker=lambda screen: screen.show_help(),
    ),
    _command(
        "quit", "program", ("ctrl+q",), both=lambda screen: screen.app.leave(), picker=lambda screen: screen.app.leave()
    ),
)
