"""The texts of flags, copies and places to open at."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "flag.prompt": "flag: ",
    "flag.kept": "flag {name} set at {when}",
    "flag.here": "flag {name}: {when}",
    "flag.deleted": "flag {name} deleted",
    "flag.renamed": "flag renamed to {name}",
    "flag.edit": "an empty name deletes this flag",
    "flag.new": "{when}; Enter saves the flag",
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
    "copy.table": "copied {rows:row|rows}",
    "copy.part": "copied the first {rows} of {count:row|rows}: terminals accept no more than {size} kB",
    "copy.none": "no table is open: open a tab of the panel",
    "copy.nothing": "nothing to copy: select a slice or go to a table row",
    "copy.piped": "copied; pipe the same trace into it: {text}",
    "copy.title_piped": "This command opens the view where the same trace is piped into it; it is copied",
    "copy.title": "This command opens the view; it is copied",
    "open.failed": "{option}: not found in this trace",
}
