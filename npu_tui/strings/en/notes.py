"""The texts of flags, copies and places to open at."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "flag.prompt": "flag: ",
    "flag.kept": "flag {name} at {when}",
    "flag.here": "flag {name}: {when}",
    "flag.deleted": "flag {name} is deleted",
    "flag.renamed": "the flag is called {name} now",
    "flag.edit": "an empty name deletes this flag",
    "flag.new": "{when}; Enter keeps the flag",
    "flag.point": "flag",
    "flag.range": "range",
    "flags.head": "# Flags of npu-tui: a time or a range, then the name; each section belongs to one trace.",
    "flags.problem": "flags are kept in memory only: {path}: {why}",
    "flags.title": "Flags",
    "flags.none": "no flags: {press[flag]} sets one",
    "flags.when": "time",
    "flags.name": "name",
    "flags.keys": "Enter goes there, r renames, d deletes, Esc closes",
    "copy.name": "copied: {text}",
    "copy.table": "copied {rows} rows",
    "copy.part": "copied the first {rows} of {count} rows: terminals take no more than {size} kB",
    "copy.none": "no table is open: the panel's tabs have them",
    "copy.nothing": "nothing to copy: select a slice or go to a table row",
    "copy.piped": "copied; pipe the same trace into it: {text}",
    "copy.title_piped": "This command opens the view where the same trace is piped into it; it is copied",
    "copy.title": "This command opens the view; it is copied",
    "open.failed": "{option}: this trace has nothing like that",
}
