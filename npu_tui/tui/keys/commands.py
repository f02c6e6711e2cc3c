"""The registry of commands: the one source of bindings, palette, help, footer and the README's key table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from npu_tui.strings import name_keys, say
from npu_tui.tui.keys.key_names import key_label

Group = Literal[
    "time", "rows", "slices", "links", "range", "search", "notes", "panel", "compared", "job", "list", "program"
]
GROUPS: tuple[Group, ...] = (
    "time", "rows", "slices", "links", "range", "search", "notes", "panel", "compared", "job", "list", "program",
)  # fmt: skip

Where = Literal["lanes", "job", "picker", "sweep"]
"""The screens that have commands: the lanes of some traces, the overview of a job, the list of profiles to choose from,
and the table of several profiles. Each has keys of its own."""

TAB_COMMAND = "tab_"
"""What the ids of the commands begin with that open a tab."""
TAB_KEYS = (
    ("findings", "1"),
    ("lines", "2"),
    ("details", "3"),
    ("links", "4"),
    ("range", "5"),
    ("operators", "6"),
    ("communication", "7"),
    ("search", "8"),
    ("memory", "9"),
    ("summary", "r"),
    ("changes", "F"),
)
"""The tabs of the panel as they are declared in ``tabs``, without the imports that those need."""

JOB_TABS = (
    ("job_ranks", "1"),
    ("job_collectives", "2"),
    ("job_links", "3"),
    ("job_hosts", "4"),
    ("job_groups", "5"),
    ("job_clock", "6"),
    ("job_findings", "7"),
)
"""The tabs of the overview of a job."""

VIEW_KEYS = (("bubbles", "I"), ("syncs", "T"), ("calls", "C"), ("host_ops", "O"))
"""Views of the tab ``lines`` with keys of their own."""


class Command(Struct, frozen=True):
    """Something the user can do. ``default_keys`` are Textual key names, or one twice with a blank for a sequence.

    A command without keys is typed after ``:`` or found in the palette. ``where`` are the screens that have it.
    """

    id: str
    group: Group
    default_keys: tuple[str, ...]
    where: tuple[Where, ...] = ("lanes",)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that run the command, the user's own if there are any."""
        return _own_keys.get(self.id, self.default_keys)

    @property
    def press(self) -> str:
        """What to press, or to type where it has no key, in texts that name it."""
        return key_label(self.keys[0]) if self.keys else f":{self.id}"

    @property
    def title(self) -> str:
        """What the command does, in a few words."""
        return say(f"command.{self.id}")


_own_keys: dict[str, tuple[str, ...]] = {}


def set_keys(own: Mapping[str, tuple[str, ...]]) -> None:
    """From now on the commands of ``own`` have these keys, all others their default ones."""
    _own_keys.clear()
    _own_keys.update(own)


_BOTH: tuple[Where, ...] = ("lanes", "job")
_LISTS: tuple[Where, ...] = ("picker", "sweep")
_ALL: tuple[Where, ...] = (*_BOTH, *_LISTS)
_PICKER: tuple[Where, ...] = ("picker",)
_JOB: tuple[Where, ...] = ("job",)

COMMANDS: tuple[Command, ...] = (
    Command("zoom_in", "time", ("w",)),
    Command("zoom_out", "time", ("s",)),
    Command("zoom_in_fast", "time", ("W",)),
    Command("zoom_out_fast", "time", ("S",)),
    Command("pan_left", "time", ("a", "left")),
    Command("pan_right", "time", ("d", "right")),
    Command("pan_left_fast", "time", ("A",)),
    Command("pan_right_fast", "time", ("D",)),
    Command("cursor_left", "time", ("shift+left",)),
    Command("cursor_right", "time", ("shift+right",)),
    Command("home", "time", ("0", "home", "ctrl+0")),
    Command("fit", "time", ("f",)),
    Command("undo", "time", ("backspace", "u")),
    Command("redo", "time", ("U", "ctrl+r")),
    Command("step_previous", "time", ("less_than_sign",)),
    Command("step_next", "time", ("greater_than_sign",)),
    Command("align_start", "time", ("L",)),
    Command("align_end", "time", ("R",)),
    Command("base", "time", ()),
    Command("align_sides", "compared", ("equals_sign",)),
    Command("counterpart", "compared", ("backslash",)),
    Command("blink", "compared", ("grave_accent",)),
    Command("sides", "compared", ("vertical_line",)),
    Command("row_up", "rows", ("up", "k"), _ALL),
    Command("row_down", "rows", ("down", "j"), _ALL),
    Command("layer_up", "rows", ("pageup",)),
    Command("layer_down", "rows", ("pagedown",)),
    Command("row_first", "rows", ("g g",)),
    Command("row_last", "rows", ("G",), _ALL),
    Command("fold", "rows", ("space",)),
    Command("pin", "rows", ("p",)),
    Command("hide", "rows", ("H",)),
    Command("show_hidden", "rows", ()),
    Command("idle", "rows", ("i",)),
    Command("slice_previous", "slices", ("h", "comma")),
    Command("slice_next", "slices", ("l", "full_stop")),
    Command("same_previous", "slices", ("left_curly_bracket",)),
    Command("same_next", "slices", ("right_curly_bracket",)),
    Command("bubble_next", "slices", ("b",)),
    Command("bubble_previous", "slices", ("B",)),
    Command("starved_next", "slices", ("x",)),
    Command("starved_previous", "slices", ("X",)),
    Command("finding_next", "slices", ("e",), _BOTH),
    Command("finding_previous", "slices", ("E",), _BOTH),
    Command("link_back", "links", ("left_square_bracket",)),
    Command("link_forward", "links", ("right_square_bracket",)),
    Command("sibling_previous", "links", ("left_parenthesis",)),
    Command("sibling_next", "links", ("right_parenthesis",)),
    Command("chain", "links", ("c",)),
    Command("link_mode", "links", ("t",)),
    Command("range_selection", "range", ("m",)),
    Command("range_clear", "range", ("M",)),
    Command("range_mark", "range", ("v",)),
    Command("range_gap", "range", ("V",)),
    Command("range_zoom", "range", ("z", "Z")),
    Command("search", "search", ("slash",)),
    Command("hit_next", "search", ("n",)),
    Command("hit_previous", "search", ("N",)),
    Command("hits_only", "search", ("asterisk",)),
    Command("flag", "notes", ("K",)),
    Command("flags", "notes", ()),
    Command("yank", "notes", ("y",)),
    Command("yank_view", "notes", ("Y",), _BOTH),
    Command("copy_text", "notes", (), _BOTH),
    Command("copy_csv", "notes", (), _BOTH),
    Command("panel", "panel", ("q", "Q"), _BOTH),
    Command("panel_grow", "panel", ("P",), _BOTH),
    *(Command(f"{TAB_COMMAND}{tab}", "panel", (key,)) for tab, key in TAB_KEYS),
    *(Command(view, "panel", (key,)) for view, key in VIEW_KEYS),
    Command("sort_reverse", "panel", ("minus",), _BOTH),
    Command("filter", "panel", ("ampersand",), _BOTH),
    Command("open_code", "panel", ("o",)),
    Command("go", "panel", ("enter",)),
    Command("escape", "panel", ("escape",), _ALL),
    Command("focus_next", "panel", ("tab",), _BOTH),
    Command("ranks", "job", ("J",)),
    Command("open_rank", "job", ("enter",), _JOB),
    Command("mark_rank", "job", ("space",), _JOB),
    Command("find_rank", "job", ("slash",), _JOB),
    Command("rank_previous", "job", ("less_than_sign",), _JOB),
    Command("rank_next", "job", ("greater_than_sign",), _JOB),
    Command("column_previous", "job", ("left", "a"), _JOB),
    Command("column_next", "job", ("right", "d"), _JOB),
    Command("collective_previous", "job", ("left_square_bracket",), _JOB),
    Command("collective_next", "job", ("right_square_bracket",), _JOB),
    Command("collective_worst", "job", ("x",), _JOB),
    Command("compare_ranks", "job", ("equals_sign",), _JOB),
    Command("extremes", "job", ("S",), _JOB),
    Command("metric", "job", ("F",), _JOB),
    Command("axis", "job", ("T",), _JOB),
    Command("job_group", "job", ("g",), _JOB),
    *(Command(f"{TAB_COMMAND}{tab}", "job", (key,), _JOB) for tab, key in JOB_TABS),
    Command("open_profile", "list", ("enter",), _LISTS),
    Command("list_first", "list", ("home", "g"), _LISTS),
    Command("list_last", "list", ("end",), _LISTS),
    Command("page_up", "list", ("pageup",), _LISTS),
    Command("page_down", "list", ("pagedown",), _LISTS),
    Command("mark_profile", "list", ("space",), _PICKER),
    Command("fold_job", "list", ("left", "right"), _PICKER),
    Command("find_profile", "list", ("slash", "ampersand"), _PICKER),
    Command("leave_list", "list", ("q",), _LISTS),
    Command("command", "program", ("colon",), _BOTH),
    Command("palette", "program", ("ctrl+p",), _BOTH),
    Command("whatif", "program", ()),
    Command("sql", "program", ()),
    Command("health", "program", ()),
    Command("redraw", "program", ("ctrl+l",), _BOTH),
    Command("help", "program", ("question_mark",), (*_BOTH, *_PICKER)),
    Command("quit", "program", ("ctrl+q",), _ALL),
)


def commands_of(where: Where) -> list[Command]:
    """The commands of one screen."""
    return [command for command in COMMANDS if where in command.where]


BY_ID: dict[str, Command] = {command.id: command for command in COMMANDS}
name_keys(lambda command: BY_ID[command].press)


def keys_label(command: Command) -> str:
    """All keys of a command as people write them."""
    return " ".join(_labels(command))


def _labels(command: Command) -> list[str]:
    """The keys of a command, or how it is typed where it has none."""
    return [key_label(key) for key in command.keys] or [f":{command.id}"]


def markdown_table(where: Where) -> str:
    """The keys of a screen as a table in Markdown."""
    lines = [f"| {say('keymap.heading.keys')} | {say('keymap.heading.what')} |", "|---|---|"]
    for command in commands_of(where):
        keys = " ".join(_code(label) for label in _labels(command))
        lines.append(f"| {keys} | {command.title} |")
    return "\n".join(lines) + "\n"


def _code(label: str) -> str:
    """``label`` as code in a cell of a Markdown table, also where it is a backtick or the bar between cells."""
    return f"`` {label} ``" if "`" in label else "`" + label.replace("|", "\\|") + "`"


def text_table() -> str:
    """The key table as plain text, by group."""
    width = max(len(keys_label(command)) for command in COMMANDS)
    lines = []
    for group in GROUPS:
        lines += [say(f"group.{group}")]
        lines += [f"  {keys_label(command):{width}}  {command.title}" for command in COMMANDS if command.group == group]
        lines.append("")
    return "\n".join(lines)
