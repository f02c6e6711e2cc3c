"""The texts of the command line."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "cli.description": "A trace explorer for Ascend NPUs in the terminal.",
    "cli.epilog": (
        "Without a terminal on stdout, PATH and demo print the report. "
        "Exit codes: 0 done, 1 a check failed, 2 wrong usage, 3 input not readable or output not writable, "
        "70 internal error, 130 interrupted."
    ),
    "cli.usage": "npu-tui [COMMAND] [PATH …] [OPTIONS]",
    "cli.topic": "a page ({topics}), or a command; without it, all are listed",
    "cli.schema": "which one: {names}",
    "cli.no_topic": "there is no page and no command {word}",
    "cli.fields": "with --format json: only these fields, such as verdict,findings.id,overlap.free_us",
    "cli.fields_of": "--fields needs --format json",
    "cli.no_field": "there is no field {name}",
    "cli.no_field_meant": "; did you mean {nearest}?",
    "cli.shell": "which shell: {names}",
    "cli.completion": "print the script that makes a shell complete commands, options, paths, findings and tables",
    "cli.completion_epilog": (
        "bash with bash-completion:\n"
        "npu-tui completion bash > ~/.local/share/bash-completion/completions/npu-tui\n"
        "bash without it, in ~/.bashrc:\n"
        "source <(npu-tui completion bash)\n"
        "zsh, with fpath=(~/.zfunc $fpath) before compinit in ~/.zshrc:\n"
        "npu-tui completion zsh > ~/.zfunc/_npu-tui\n"
        "fish:\n"
        "npu-tui completion fish > ~/.config/fish/completions/npu-tui.fish\n"
        "Create a missing folder with mkdir -p first, and open a new shell afterwards."
    ),
    "cli.no_command": "{word}: no such file, and no such command",
    "cli.meant": "; did you mean npu-tui {nearest}?",
    "cli.no_stdout": "standard output is closed; give it a place to go",
    "cli.stdout": "standard output",
    "cli.version": "npu-tui {version} (scanner: {scanner})",
    "cli.no_scanner": "Python",
    "cli.no_memory": "not enough memory; close other programs, or use a machine with more",
    "cli.no_threads": "the system cannot start more threads; close other programs, or raise its limit (ulimit -u)",
    "cli.report": "print what the explorer shows",
    "cli.format": "text (the default), markdown, html or json",
    "cli.range": "only this time, such as 12ms..14ms; either end may be left out",
    "cli.step": "only ProfilerStep#N, on the device",
    "cli.outside": "the range is outside the trace, which lasts from 0 to {end}",
    "cli.bad_range": "a range is two times, such as 12ms..14ms",
    "cli.no_step": "no ProfilerStep#{step} that launched anything",
    "cli.trace": "trace_view.json or a *_ascend_pt directory, - for a pipe",
    "cli.bad_output": "-o needs the name of an .svg file",
    "cli.paths": "trace_view.json or a *_ascend_pt directory, - for a pipe; several stand one below the other on one "
    "clock; without it, the current directory; several profiles below that, or several runs of one rank below a PATH, "
    "are listed to choose from",
    "cli.traces": "trace_view.json or a *_ascend_pt directory, - for a pipe; several stand one below the other on one clock",
    "cli.path": "trace_view.json or a *_ascend_pt directory, - for a pipe; without it, the current directory",
    "cli.demo": "open a bundled example",
    "cli.demo_name": "which example: {names}",
    "cli.explain": "what a finding means: its rule, its thresholds, what to do, its documents",
    "cli.explain_id": "which finding, such as DISPATCH.VERTICAL; without it, all are listed",
    "cli.screenshot": "write the screen as an SVG picture, without a terminal",
    "cli.settings": "print a complete settings file with every default, or check the one in use",
    "cli.settings.check": "only check whether the settings file is valid",
    "cli.settings.good": "{path}: every setting is valid",
    "cli.settings.none": "{path}: no such file, so the defaults apply",
    "cli.config": "a settings file instead of the one in the config directory",
    "cli.lang": "language: auto (as the locale), en, zh",
    "cli.output": "where the picture goes",
    "cli.theme": "colours: auto (as the terminal's background), dark, light, colour-blind, colour-blind-light",
    "cli.glyphs": "characters to draw with: auto (asks the terminal), blocks, safe (where blocks take two cells), ascii",
    "cli.size": "columns x rows of the screen",
    "cli.keys": "keys to press first, separated by spaces, such as x Enter Ctrl+R PgDn",
    "cli.bad_keys": "there is no key {keys}; use characters and names such as Space, Enter, left, Shift+left",
    "cli.bad_size": "--size needs COLUMNSxROWS from 20x6 to 1000x500, such as 120x40",
    "cli.no_demo": "there is no demo {name}; there are {names}",
    "cli.key_table": "print every key and what it does",
    "cli.place": "where to open; Y in the explorer copies a command with all of this",
    "cli.place.at": "put the cursor at this time, such as 12.3ms",
    "cli.place.range": "mark this range and show it, such as 12ms..14ms",
    "cli.place.view": "show this part of the time",
    "cli.place.select": "select the slice of this name, NAME@12.3ms the one that starts there",
    "cli.place.search": "search for this",
    "cli.place.finding": "go to the evidence of this finding; npu-tui explain lists the ids",
    "cli.place.links": "which links are drawn",
    "cli.place.tab": "open the panel at this tab",
    "cli.place.rows": "which rows are folded, pinned and hidden, as Y writes it",
    "cli.place.notes": "keep the flags in this text file instead of the user's data directory",
    "cli.place.offsets": "how far each of several traces is shifted, one time per PATH with commas between, as Y writes it",
    "cli.bad_offsets": "--offsets needs one time per PATH, such as 0ms,1.25ms, not {text}",
    "cli.bad_span": "{option} needs two times, such as 12ms..14ms, not {text}",
    "cli.bad_time": "--at needs a time, such as 12.3ms or 40us, not {text}",
    "cli.bad_tab": "there is no tab {text}; there are {tabs}",
}
