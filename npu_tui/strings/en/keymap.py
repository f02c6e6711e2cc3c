"""The texts of the user's own keys."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "keymap.heading.keys": "keys",
    "keymap.heading.what": "what they do",
    "keymap.unknown": "[keys] {command}: there is no key {key}",
    "keymap.nearest": "; did you mean {name}?",
    "keymap.fixed": "[keys] {command}: {key} always quits at once",
    "keymap.escape": "[keys] {command}: {key} always closes, clears and returns to the lanes",
    "keymap.twice": "[keys] {key} is bound to both {other} and {command}",
    "keymap.begins": "[keys] {key} begins {sequence} of {other}, so it cannot also run {command}",
    "keymap.line": "line {line}",
    "keymap.taken": "[keys] {key} runs {command} and no longer {other}",
    "keymap.ends": "[keys] {key} runs {command}, so {sequence} no longer runs {other}",
    "keymap.keeps": ", which keeps {keys}",
    "keymap.none_left": ", which has no key left: give it one, or [] to have it so",
    "keymap.sent_as": "[keys] {command}: most terminals send {other} for {key}",
    "keymap.without": "{commands} have no key: npu-tui settings --check says why",
}
