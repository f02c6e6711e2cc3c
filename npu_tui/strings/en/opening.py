"""The texts of loading and of the parsed copies."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "loading.title": "loading {path}",
    "loading.progress": "{done} of {total} MB, {events} events, {rate} events/s, {left} s left",
    "loading.piped": "{done} MB have come through the pipe",
    "loading.building": "ordering {events} events",
    "loading.cancel": "Esc cancels",
    "loading.early": "loading: {figures} · {press[escape]} cancels",
    "loading.findings": "findings come when the whole trace is there",
    "loading.links": "links and what follows from them come when the whole trace is there",
    "cache.help": "list the parsed copies of large traces, or clear them",
    "cache.what": "list (the default) or clear",
    "cache.none": "no parsed copies in {path}",
    "cache.row": "{size} MB, last used {used}: {name}",
    "cache.damaged": "{name}, damaged",
    "cache.sum": "{count} copies, {size} of {most} MB in {path}",
    "cache.sum.one": "{count} copy, {size} of {most} MB in {path}",
    "cache.cleared": "removed {count} copies, {size} MB",
    "cache.cleared.one": "removed {count} copy, {size} MB",
    "cache.failed": "the parsed copy could not be kept: {why}",
    "cli.no_cache": "neither use nor make a parsed copy of a large trace",
    "cli.index": "make parsed copies, so that large traces open at once",
    "cli.index_path": "a trace_view.json or a *_ascend_pt directory",
    "cli.piped_terminal": "- reads a trace from a pipe, and standard input is a terminal",
    "index.small": "{path}: small enough to be loaded each time",
    "index.there": "{path}: there already",
    "index.kept": "{path}: {events} events in {seconds} s",
    "index.failed": "{path}: the parsed copy could not be kept: {why}",
    "index.changed": "{path}: the file changed while it was read, so its parsed copy was not kept; run this again",
    "index.piped": "-: what comes through a pipe has no parsed copy; give a file",
}
