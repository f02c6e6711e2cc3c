"""The texts of the command line."""

from __future__ import annotations

ENGLISH: dict[str, str] = {
    "cli.description": "The trace explorer for Ascend NPUs that lives in the terminal.",
    "cli.epilog": (
        "Without a terminal on stdout, PATH and demo print a summary. "
        "Exit codes: 0 done, 1 a check failed, 2 wrong usage, 3 input not readable, 70 internal error, 130 interrupted."
    ),
    "cli.report": "print what the explorer shows, as text or JSON",
    "cli.format": "text (the default) or json",
    "cli.range": "only this time, such as 12ms..14ms; either end may be left out",
    "cli.step": "only ProfilerStep#N, on the device",
    "cli.bad_range": "a range is two times, such as 12ms..14ms",
    "cli.no_step": "no ProfilerStep#{step} that launched anything",
    "cli.trace": "trace_view.json or a *_ascend_pt directory",
    "cli.bad_output": "-o wants the name of an .svg file",
    "cli.path": "trace_view.json or a *_ascend_pt directory, - for a pipe; without it, the current directory",
    "cli.demo": "open a bundled example",
    "cli.demo_name": "which example: {names}",
    "cli.explain": "what a finding means: its rule, its thresholds, what to do, its documents",
    "cli.explain_id": "which finding, such as DISPATCH.VERTICAL; without it, all are listed",
    "cli.screenshot": "write the screen as an SVG picture, without a terminal",
    "cli.settings": "print a complete settings file with every default, or check the one in use",
    "cli.settings.check": "only say whether the settings file is right",
    "cli.settings.good": "{path}: every setting is known",
    "cli.settings.none": "{path}: there is no such file, so the defaults count",
    "cli.config": "a settings file in place of the one in the config directory",
    "cli.output": "where the picture goes",
    "cli.theme": "colours: auto (as the terminal's background), dark, light, colour-blind, colour-blind-light",
    "cli.glyphs": "characters to draw with: auto (asks the terminal), blocks, safe (where blocks take two cells), ascii",
    "cli.size": "columns x rows of the screen",
    "cli.keys": "keys to press first, in Textual's names, separated by blanks",
    "cli.bad_keys": "no key is called {keys}; use characters and names such as space, enter, left, shift+left",
    "cli.bad_size": "--size wants COLUMNSxROWS from 20x6 to 1000x500, such as 120x40",
    "cli.no_demo": "there is no demo called {name}; there are {names}",
}
