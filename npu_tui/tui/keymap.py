"""The user's own keys, checked against the keys that terminals can send."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches

from npu_tui.strings import say
from npu_tui.tui.commands import COMMANDS, KEY_LABELS, Command, set_keys

_NAMED = (
    "left right up down home end pageup pagedown insert delete backspace enter escape tab space "
    + " ".join(f"f{number}" for number in range(1, 13))
).split()
_SIGNS = {
    "+": "plus", "=": "equals_sign", "!": "exclamation_mark", '"': "quotation_mark", "#": "number_sign",
    "$": "dollar_sign", "%": "percent_sign", "'": "apostrophe", ";": "semicolon", "@": "at", "\\": "backslash",
    "^": "circumflex_accent", "_": "underscore", "`": "grave_accent", "|": "vertical_line", "~": "tilde",
}  # fmt: skip
_SYNONYMS = {"esc": "escape", "pgup": "pageup", "pgdn": "pagedown", "return": "enter", "del": "delete", "ins": "insert"}
_MODIFIED = re.compile(r"((?:ctrl|alt|shift)\+)+", re.IGNORECASE)


class KeymapError(ValueError):
    """Keys that cannot be used; one line that names the command, the key and the nearest name."""


def use_keys(own: Mapping[str, tuple[str, ...]]) -> None:
    """Give the commands of ``own`` its keys in place of theirs; a key is taken from the command that had it.

    Raises ``KeymapError`` for an unknown key and for one that ``own`` gives to two commands.
    """
    wanted = {command: tuple(key_name(command, key) for key in keys) for command, keys in own.items()}
    taken: dict[str, str] = {}
    for command, keys in wanted.items():
        for key in keys:
            # A key that begins a sequence cannot also run a command at once.
            first = key.partition(" ")[0]
            other = taken.setdefault(first, command)
            if other != command:
                raise KeymapError(say("keymap.twice", key=key_text(key), command=command, other=other))
    set_keys({command.id: _left(command, wanted, taken) for command in COMMANDS} if wanted else {})


def _left(command: Command, wanted: Mapping[str, tuple[str, ...]], taken: Mapping[str, str]) -> tuple[str, ...]:
    if command.id in wanted:
        return wanted[command.id]
    return tuple(key for key in command.default_keys if key.partition(" ")[0] not in taken)


def key_name(command: str, text: str) -> str:
    """Textual's name of a key as people write it: ``w``, ``W``, ``/``, ``Ctrl+R``, ``PgUp``, ``gg`` or the name itself.

    Raises ``KeymapError`` if there is no such key.
    """
    words = text.split()
    if len(words) == 2 and words[0] == words[1]:
        return f"{key_name(command, words[0])} {key_name(command, words[1])}"
    if len(text) == 2 and text[0] == text[1] and text.isalnum():
        return f"{text[0]} {text[0]}"
    labels = {label: name for name, label in KEY_LABELS.items()}
    if text in labels:
        return labels[text]
    modified = _MODIFIED.match(text)
    prefix = "" if modified is None else modified[0].lower()
    rest = text[len(prefix) :]
    known = {*_NAMED, *_SIGNS.values(), *(name for name in KEY_LABELS if "+" not in name and " " not in name)}
    lowered = _SYNONYMS.get(rest.lower(), rest.lower())
    if len(rest) == 1 and rest.isalnum() and rest.isascii():
        return prefix + (rest.lower() if prefix else rest)
    if rest in _SIGNS:
        return prefix + _SIGNS[rest]
    if rest in labels:
        return prefix + labels[rest]
    if lowered in known:
        return prefix + lowered
    near = get_close_matches(lowered, sorted(known), 1, 0.5)
    hint = say("keymap.nearest", name=prefix + near[0]) if near else ""
    raise KeymapError(say("keymap.unknown", key=text, command=command) + hint)


def key_text(key: str) -> str:
    """A key as people write it."""
    signs = {name: sign for sign, name in _SIGNS.items()}
    return KEY_LABELS.get(key, signs.get(key, key))
