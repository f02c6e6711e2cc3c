"""The texts of the command line."""

from __future__ import annotations

ENGLISH: dict[str, str] = {
    "cli.description": "The trace explorer for Ascend NPUs that lives in the terminal.",
    "cli.epilog": (
        "Without a terminal on stdout, PATH and demo print a summary. "
        "Exit codes: 0 done, 2 wrong usage, 3 input not readable, 70 internal error, 130 interrupted."
    ),
    "cli.report": "print what the explorer shows, as text or JSON",
    "cli.format": "text (the default) or json",
    "cli.range": "only this time, such as 12ms..14ms; either end may be left out",
    "cli.step": "only ProfilerStep#N, on the device",
    "cli.bad_range": "a range is two times, such as 12ms..14ms",
    "cli.no_step": "no ProfilerStep#{step} that launched anything",
    "cli.trace": "trace_view.json or a *_ascend_pt directory",
    "cli.bad_output": "-o wants the name of an .svg file",
    "cli.path": "trace_view.json or a *_ascend_pt directory; without it, the current directory",
    "cli.demo": "open a bundled example",
    "cli.demo_name": "which example: {names}",
    "cli.screenshot": "write the screen as an SVG picture, without a terminal",
    "cli.settings": "print a complete settings file with every default, or check the one in use",
    "cli.settings.check": "only say whether the settings file is right",
    "cli.settings.good": "{path}: every setting is known",
    "cli.settings.none": "{path}: there is no such file, so the defaults count",
    "cli.config": "a settings file in place of the one in the config directory",
    "cli.output": "where the picture goes",
    "cli.size": "columns x rows of the screen",
    "cli.keys": "keys to press first, in Textual's names, separated by blanks",
    "cli.bad_keys": "no key is called {keys}; use characters and names such as space, enter, left, shift+left",
    "cli.bad_size": "--size wants COLUMNSxROWS from 20x6 to 1000x500, such as 120x40",
    "cli.no_demo": "there is no demo called {name}; there are {names}",
    "cli.key_table": "print every key and what it does",
    "cli.place": "where to open; Y in the explorer copies a command with all of this",
    "cli.place.at": "put the cursor at this time, such as 12.3ms",
    "cli.place.range": "mark this range and show it, such as 12ms..14ms",
    "cli.place.view": "show this part of the time",
    "cli.place.select": "select the slice of this name, NAME@12.3ms the one that starts there",
    "cli.place.search": "search for this",
    "cli.place.links": "which links are drawn",
    "cli.place.tab": "open the panel at this tab",
    "cli.place.rows": "which rows are folded, pinned and hidden, as Y writes it",
    "cli.place.notes": "keep the flags in this text file instead of the user's data directory",
    "cli.bad_span": "{option} wants two times, such as 12ms..14ms, not {text}",
    "cli.bad_time": "--at wants a time, such as 12.3ms or 40us, not {text}",
    "cli.bad_tab": "there is no tab {text}; there are {tabs}",
}
