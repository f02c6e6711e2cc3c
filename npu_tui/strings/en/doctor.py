"""The texts of what the program finds around it."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "doctor.format": "text (the default) or json",
    "doctor.machine": "{cores:core|cores}, {size:memory} of memory",
    "doctor.colours": "where the terminal has true colour, say so: export COLORTERM=truecolor (ssh and sudo drop it)",
    "doctor.locale": "not UTF-8",
    "doctor.no_utf8": "blocks and lines need a UTF-8 locale: export LANG=C.UTF-8",
    "doctor.no_terminal": "not asked: stdin or stdout is not a terminal",
    "doctor.silent": "none",
    "doctor.is_silent": "frames go out unpaced, so keys may lag on a slow link; --glyphs and --theme choose what cannot be asked",
    "doctor.answers": "glyphs {glyphs}, background {shade}",
    "doctor.light": "light",
    "doctor.unsaid": "not told",
    "doctor.dark": "dark",
    "doctor.escape": "Esc comes late: set -sg escape-time 10",
    "doctor.extended": "Ctrl+0 and Shift with other keys do not arrive: set -s extended-keys on (every one has a second way)",
    "doctor.clipboard": "copies stay in tmux: set -s set-clipboard external",
    "doctor.copies": "{path}, up to {size:memory}",
    "doctor.no_copies": "none are kept: {variable} is 0",
    "doctor.no_cache": "cannot write to {path}: large traces are parsed every time",
    "doctor.room": "{path}, {size:memory} free",
    "doctor.little": "packed traces and pipes are unpacked there: set TMPDIR to a disk with room",
    "doctor.none": "Nothing to change.",
    "doctor.sum": "{count:thing|things} to change, marked ->.",
}
