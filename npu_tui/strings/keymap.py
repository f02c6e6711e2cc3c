"""The texts of the user's own keys."""

from __future__ import annotations

ENGLISH: dict[str, str] = {
    "keymap.unknown": "[keys] {command}: there is no key {key}",
    "keymap.nearest": "; did you mean {name}?",
    "keymap.twice": "[keys] {key} is given to {other} and to {command}",
}
