"""The texts of the help sheet."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "help.title": "Keys",
    "help.ask": "type to find one, Esc closes",
    "help.found": "with {text}; Esc shows all again",
    "help.none": "No key and no command has {text} in it.",
    "help.task.table": "Here: in the table",
    "help.task.place": "Go to a place",
    "help.task.slices": "Walk slices",
    "help.task.launches": "Follow launches",
    "help.task.measure": "Measure",
    "help.task.search": "Search",
    "help.task.notes": "Flags and copies",
    "help.task.rows": "Arrange rows",
    "help.task.panel": "Panel",
    "help.task.compared": "Compare two profiles",
    "help.task.prompt": "In a prompt",
    "help.task.mouse": "Mouse",
    "help.task.program": "Program",
    "help.table.move": "row up, row down",
    "help.table.sort": "sort by the next column",
    "help.table.go": "go to the row's place; again: its next one",
    "help.table.tell": "show everything about the row",
    "help.table.leave": "back to the lanes; letters drive them from here too",
    "help.prompt.enter": "accept",
    "help.prompt.leave": "cancel",
    "help.prompt.choose": "another candidate after :",
    "help.prompt.take": "complete the candidate after :",
    "help.mouse.drag": "drag",
    "help.mouse.mark": "mark a range",
    "help.mouse.right": "right-drag, Alt-drag",
    "help.mouse.zoom_range": "zoom to a range",
    "help.mouse.click": "click, double click",
    "help.mouse.select": "select, fit",
    "help.mouse.wheel": "wheel, Shift, Ctrl",
    "help.mouse.scroll": "rows, pan, zoom at the pointer",
    "help.mouse.ruler": "ruler, minimap",
    "help.mouse.pan": "drag to pan, click to jump",
    "help.picture": "a picture of the screen (screenshot), without a terminal; {press[yank_view]} copies where to open",
    "help.language": 'the language; in the settings file, for all runs: language = "zh"',
    "help.mouse.gutter": "click in the gutter",
    "help.mouse.fold": "fold or open",
    "help.words": (
        "┃ near-vertical: the device started as soon as the host had launched. ╲ queued: it waited after "
        "others.\nRed is a starved launch: the idle device waited 10 µs or more for it; the sum of that is lost "
        "time.\nLead: how far the host is ahead of the device; it hangs from the top where the host is late. "
        "Queue depth: launches in flight.\nBars: · before the first kernel █ compute ▒ exposed communication ╱ "
        "free. A bubble is one stretch in which the device is free."
    ),
}
