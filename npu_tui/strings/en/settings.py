"""The texts of the settings file and what may be wrong in it."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "settings.head": "Settings of npu-tui. Every line shows its default: remove the # and change the value.",
    "settings.head.place": "This file belongs at {path}; NPU_TUI_CONFIG or --config FILE names another one.",
    "settings.head.keys": 'command = "key" or a list of keys, instead of those shown; an empty list unbinds it.',
    "settings.head.glyphs": "which characters draw the lanes: {allowed}",
    "settings.head.theme": "the colours: {allowed}",
    "settings.head.language": "the language of the texts: {allowed}",
    "settings.head.thresholds": "the thresholds of the findings, each with the source of its default",
    "settings.not_utf8": "not UTF-8 at byte {byte}",
    "settings.no_toml": "not valid TOML: {words}",
    "settings.too_deep": "not valid TOML: nested too deep",
    "settings.too_long": "a number is too long",
    "settings.no_table": "{name} is a table: write [{name}] on a line of its own and its settings below",
    "settings.no_key": '{name} needs a key such as "w", or a list of keys',
    "settings.no_text": "{name} needs a text in quotes",
    "settings.no_bool": "{name} needs true or false",
    "settings.no_whole": "{name} needs a whole number from 0, such as {default}",
    "settings.no_number": "{name} needs a number from 0, such as {default}",
    "settings.unknown_table": "there is no table [{name}]",
    "settings.unknown_command": "there is no command {name}",
    "settings.unknown_screen": "[screen] has no {name}",
    "settings.unknown_threshold": "there is no threshold {name}",
    "settings.unknown_choice": "{name} cannot be {value}, only one of {allowed}",
    "settings.nearest": "; did you mean {name}?",
}
