"""The keys that the bottom line names, in the order of what a newcomer needs, by where the focus is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct
from rich.text import Text

from npu_tui.strings import say
from npu_tui.trace.text import cell_count
from npu_tui.tui.commands import BY_ID, key_label

Place = Literal["lanes", "compared", "table", "text", "job", "job_table"]


class Hint(Struct, frozen=True):
    """One word and what to press for it: the first keys of ``commands``, or ``keys`` that belong to a table."""

    word: str
    commands: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()

    def labels(self) -> list[str]:
        """The keys as people write them; none where no command of the hint has a key."""
        own = [key_label(BY_ID[command].keys[0]) for command in self.commands if BY_ID[command].keys]
        return own + [key_label(key) for key in self.keys]


_QUIT = "quit"
_ALWAYS = (Hint("help", ("help",)), Hint(_QUIT))
HINTS: dict[Place, tuple[Hint, ...]] = {
    "lanes": (
        *_ALWAYS,
        Hint("finding", ("finding_next",)),
        Hint("starved", ("starved_next",)),
        Hint("zoom", ("zoom_in", "zoom_out")),
        Hint("pan", ("pan_left", "pan_right")),
        Hint("panel", ("panel",)),
        Hint("row", ("row_up", "row_down")),
        Hint("chain", ("chain",)),
        Hint("slice", ("slice_previous", "slice_next")),
        Hint("search", ("search",)),
        Hint("fold", ("fold",)),
        Hint("undo", ("undo",)),
        Hint("home", ("home",)),
        Hint("link", ("link_back", "link_forward")),
        Hint("fit", ("fit",)),
        Hint("range", ("range_mark",)),
        Hint("lines", ("link_mode",)),
    ),
    "compared": (
        *_ALWAYS,
        Hint("change", ("finding_next",)),
        Hint("other", ("counterpart",)),
        Hint("align", ("align_sides",)),
        Hint("sides", ("sides",)),
        Hint("zoom", ("zoom_in", "zoom_out")),
        Hint("pan", ("pan_left", "pan_right")),
        Hint("panel", ("panel",)),
        Hint("row", ("row_up", "row_down")),
        Hint("steps", ("step_previous", "step_next")),
        Hint("chain", ("chain",)),
        Hint("slice", ("slice_previous", "slice_next")),
        Hint("search", ("search",)),
        Hint("fold", ("fold",)),
    ),
    "table": (
        *_ALWAYS,
        Hint("go", keys=("enter",)),
        Hint("tell", keys=("space",)),
        Hint("lanes", ("escape",)),
        Hint("row", keys=("up", "down")),
        Hint("sort", keys=("left", "right")),
        Hint("reverse", ("sort_reverse",)),
        Hint("filter", ("filter",)),
        Hint("copy", ("yank",)),
        Hint("code", ("open_code",)),
    ),
    "text": (
        *_ALWAYS,
        Hint("lanes", ("escape",)),
        Hint("scroll", keys=("up", "down")),
        Hint("zoom", ("zoom_in", "zoom_out")),
        Hint("pan", ("pan_left", "pan_right")),
        Hint("panel", ("panel",)),
    ),
    "job": (
        *_ALWAYS,
        Hint("open", ("open_rank",)),
        Hint("finding", ("finding_next",)),
        Hint("rank", ("row_up", "row_down")),
        Hint("compare", ("compare_ranks",)),
        Hint("collective", ("collective_previous", "collective_next")),
        Hint("metric", ("metric",)),
        Hint("axis", ("axis",)),
        Hint("group", ("job_group",)),
        Hint("mark", ("mark_rank",)),
        Hint("column", ("column_previous", "column_next")),
        Hint("extremes", ("extremes",)),
        Hint("panel", ("panel",)),
    ),
    "job_table": (
        *_ALWAYS,
        Hint("go", keys=("enter",)),
        Hint("tell", keys=("space",)),
        Hint("map", ("escape",)),
        Hint("row", keys=("up", "down")),
        Hint("sort", keys=("left", "right")),
        Hint("reverse", ("sort_reverse",)),
        Hint("filter", ("filter",)),
    ),
}


def footer(place: Place, width: int) -> Text:
    """The hints of ``place``, as many whole ones as ``width`` columns hold."""
    return _joined(HINTS[place], width)


def led(leads: Iterable[str], width: int) -> Text:
    """How to get help and out, then the first of ``leads`` that fits into ``width`` columns, else the last one.

    What room is left is for the other hints of the lanes.
    """
    line = _joined(_ALWAYS, width)
    gap = "   " if line.plain else ""
    room, words = width - line.cell_len - len(gap), list(leads)
    line.append(gap + next((lead for lead in words if cell_count(lead) <= room), words[-1]), style="bold reverse")
    others = _joined(HINTS["lanes"][len(_ALWAYS) :], width - line.cell_len - 2)
    return line.append("  ").append_text(others) if others.plain else line


def _joined(hints: Iterable[Hint], width: int) -> Text:
    line = Text()
    for hint in hints:
        labels = _ways_out() if hint.word == _QUIT else hint.labels()
        if not labels:
            continue
        part = Text.assemble((" ".join(labels), "bold"), f" {say(f'footer.{hint.word}')}")
        gap = "  " if line.plain else ""
        if line.cell_len + len(gap) + part.cell_len > width:
            break
        line.append(gap)
        line.append_text(part)
    return line


def _ways_out() -> list[str]:
    """How to quit: typed after the key of the prompt, which everybody tries, else by key."""
    if BY_ID["command"].keys:
        return [f"{key_label(BY_ID['command'].keys[0])}q"]
    return [key_label(key) for key in BY_ID["quit"].keys[:1]] or ["Ctrl+C"]
