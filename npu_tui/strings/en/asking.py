"""The texts of the prompt for commands, times and names."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "ask.hint": "a command, a time such as 12.3ms, a range 30ms..45ms, a lane or the name of a slice",
    "ask.nothing": "nothing has that name",
    "ask.found": "→ {kind} {text}",
    "ask.found_of": "→ {kind} {text} ({n:count} of {count:count}, ↑ ↓ choose, Tab accepts)",
    "ask.guess": "nothing has that name; ↓ chooses {kind} {text}",
    "kind.command": "command",
    "kind.time": "time",
    "kind.range": "range",
    "kind.flag": "flag",
    "kind.lane": "lane",
    "kind.slice": "slice",
}
