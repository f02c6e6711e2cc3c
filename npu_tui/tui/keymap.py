"""The user's keys, and the bindings that follow."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct
from textual.binding import Binding, BindingType

from npu_tui.settings import Settings, setting_error
from npu_tui.strings import say
from npu_tui.tui.commands import (
    BY_ID,
    COMMANDS,
    TAB_COMMAND,
    Command,
    Where,
    commands_of,
    delivered,
    find_key,
    key_label,
    nearest_key,
    sent_as,
    set_keys,
)

# Keys that no other command can have than the one called so, each with the text that says why.
_FIXED = {"ctrl+c": "keymap.fixed", "escape": "keymap.escape"}

_Givers = dict[tuple[Where, str], tuple[str, str]]
"""The command and the whole key that the user gave a screen and a first key."""

_without: list[str] = []
"""Commands that lost their last key to others without a word of the user about them."""


class KeymapError(ValueError):
    """Keys that cannot be used; one line that names the command, the key and the nearest name.

    ``command`` is the one whose keys are at fault.
    """

    def __init__(self, command: str, words: str) -> None:
        super().__init__(words)
        self.command = command


class Remark(Struct, frozen=True):
    """``words`` about the keys that the user gave to ``command``: they work, but something else does not any more."""

    command: str
    words: str


def use_settings(settings: Settings) -> list[str]:
    """Use the keys of ``settings``; returns a line about each default key that they take and each that rarely arrives.

    Raises ``SettingsError``, which names the file and the line.
    """
    try:
        remarks = use_keys(settings.keys, settings.key_lines)
    except KeymapError as error:
        raise setting_error(settings, error.command, str(error)) from None
    remarks.sort(key=lambda remark: settings.key_lines.get(remark.command, 0))
    return [str(setting_error(settings, remark.command, remark.words)) for remark in remarks]


def use_keys(own: Mapping[str, tuple[str, ...]], lines: Mapping[str, int] | None = None) -> list[Remark]:
    """Give the commands of ``own`` its keys in place of theirs; a key is taken from the command that had it.

    ``lines`` says where the file names each command. Returns what the user may not have meant. Raises
    ``KeymapError`` for an unknown key, for one that ``own`` gives to two commands, and for one that would both begin a
    sequence and run a command.
    """
    if not own:
        _without.clear()
        set_keys({})
        return []
    wanted = {command: _key_names(command, keys) for command, keys in own.items()}
    givers: _Givers = {}
    for command, keys in wanted.items():
        for key in keys:
            for where in BY_ID[command].where:
                other, whole = givers.setdefault((where, key.partition(" ")[0]), (command, key))
                if (other, whole) != (command, key):
                    raise KeymapError(command, _clash(command, key, other, whole, lines or {}))
    remarks = [*_taken_keys(wanted, givers), *_odd(wanted)]
    _without[:] = [id_ for id_, keys in _kept_keys(wanted, givers).items() if not keys and BY_ID[id_].default_keys]
    set_keys(wanted | _kept_keys(wanted, givers))
    return remarks


def words_at_start() -> list[str]:
    """The message for a user whose own keys left commands without any: one line at most."""
    return [say("keymap.without", commands=", ".join(_without))] if _without else []


def _key_names(command: str, keys: tuple[str, ...]) -> tuple[str, ...]:
    """Textual's names of ``keys``, each once."""
    return tuple(dict.fromkeys(key_name(command, key) for key in keys))


def key_name(command: str, text: str) -> str:
    """Textual's name of a key of ``command`` as people write it. Raises ``KeymapError`` if there is no such key."""
    key = find_key(text)
    if key is None:
        near = nearest_key(text)
        hint = say("keymap.nearest", name=near) if near else ""
        raise KeymapError(command, say("keymap.unknown", key=text, command=command) + hint)
    fixed = _FIXED.get(key.partition(" ")[0])
    if fixed is not None and command != key:
        raise KeymapError(command, say(fixed, key=key_label(key), command=command))
    return key


def _clash(command: str, key: str, other: str, whole: str, lines: Mapping[str, int]) -> str:
    """What is wrong where ``key`` of ``command`` and ``whole`` of ``other`` begin alike."""
    there = f"{other} ({say('keymap.line', line=lines[other])})" if other in lines and other != command else other
    if key == whole:
        return say("keymap.twice", key=key_label(key), command=command, other=there)
    if " " in key:  # the sequence first
        return say("keymap.begins", key=key_label(whole), sequence=key_label(key), command=there, other=command)
    return say("keymap.begins", key=key_label(key), sequence=key_label(whole), command=command, other=there)


def _giver(command: Command, key: str, givers: _Givers) -> tuple[str, str] | None:
    """What the user gave the first key of ``key`` to on a screen that has ``command``."""
    own = ((where, key.partition(" ")[0]) for where in command.where)
    return next((givers[each] for each in own if each in givers), None)


def _kept_keys(wanted: Mapping[str, tuple[str, ...]], givers: _Givers) -> dict[str, tuple[str, ...]]:
    """The default keys that the commands without keys of their own keep."""
    return {
        command.id: tuple(key for key in command.default_keys if _giver(command, key, givers) is None)
        for command in COMMANDS
        if command.id not in wanted
    }


def _taken_keys(wanted: Mapping[str, tuple[str, ...]], givers: _Givers) -> list[Remark]:
    """The default keys that were taken from commands that the user does not mention."""
    remarks = []
    for id_, left in _kept_keys(wanted, givers).items():
        for key in BY_ID[id_].default_keys:
            giver = _giver(BY_ID[id_], key, givers)
            if key in left or giver is None:
                continue
            by, whole = giver
            labels = {"key": key_label(whole), "command": by, "other": id_, "sequence": key_label(key)}
            words = say("keymap.ends" if " " in key else "keymap.taken", **labels)
            rest = " ".join(map(key_label, left))
            words += say("keymap.keeps", keys=rest) if rest else say("keymap.none_left")
            remarks.append(Remark(by, words))
    return remarks


def _odd(wanted: Mapping[str, tuple[str, ...]]) -> list[Remark]:
    """The keys that most terminals send as another one."""
    remarks = []
    for command, keys in wanted.items():
        for key in keys:
            other = sent_as(key.partition(" ")[0])
            if other is not None:
                words = say("keymap.sent_as", key=key_label(key), command=command, other=key_label(other))
                remarks.append(Remark(command, words))
    return remarks


ASKING = ("search", "command", "flag", "filter")
"""The commands that open a prompt. What is typed at once after their keys belongs to it already."""

_ANYWHERE = re.compile(r"(ctrl|alt)\+\S+|f\d+")  # keys that mean nothing while a text is typed


def screen_bindings(where: Where) -> list[BindingType]:
    """Two bindings per key of the commands of a screen; the first key of a sequence waits for the second.

    The first one runs at once while the lanes have the focus, so that keys which come together run in their order, also
    those after a prompt's; the second one runs what the focused table leaves.
    """
    bindings: list[BindingType] = []
    for command in commands_of(where):
        for key in command.keys:
            first, _, second = key.partition(" ")
            action, target = ("prefix", first) if second else ("run", command.id)
            bindings += _bindings_named(command, f"lanes_{action}('{target}')", [first], urgent=True)
            bindings += _bindings_named(command, f"{action}('{target}')", [first], urgent=command.id in ASKING)
    return bindings


# What keys did on a screen that have another meaning on the others, and the command that does it now.
_MOVED: dict[tuple[Where, str], str] = {
    ("job", "x"): "path",
    ("job", "left_square_bracket"): "slice_previous",
    ("job", "right_square_bracket"): "slice_next",
    ("job", "T"): "sides",
    ("job", "F"): "link_mode",
    ("job", "S"): "extremes",
    ("job", "0"): f"{TAB_COMMAND}job_changes",
    ("job", "g"): "hits_only",
}


def elsewhere(key: str, where: Where) -> str:
    """The message about a key that does nothing on a screen: what it does on others, and where what it did here went.

    "" where it is no key, and for one that the user gave to a command.
    """
    others = [each for each in COMMANDS if where not in each.acts and key in _first_keys(each)]
    words = [say(f"keys.of.{next(iter(each.acts))}", key=key_label(key), what=each.title) for each in others[:1]]
    if moved := BY_ID.get(_MOVED.get((where, key), "")):
        words.append(say("keys.moved", key=moved.press, what=moved.title_on(where)))
    return "   ".join(words)


def _first_keys(command: Command) -> set[str]:
    return {name for key in command.keys if " " not in key for name in delivered(key)}


def list_bindings(where: Where) -> list[Binding]:
    """The keys of the commands of a list; the first key of a sequence waits for the second."""
    bindings = []
    for command in commands_of(where):
        for key in command.keys:
            first, _, second = key.partition(" ")
            bindings += _bindings_named(command, f"prefix('{first}')" if second else f"run('{command.id}')", [first])
    return bindings


def quit_bindings() -> list[Binding]:
    """The keys that end the program wherever the user is, as far as no prompt takes them."""
    command = BY_ID["quit"]
    keys = [key for key in command.keys if _ANYWHERE.fullmatch(key)]
    return _bindings_named(command, "quit", keys, urgent=True)


def closing_bindings(*commands: str) -> list[BindingType]:
    """Esc, and the keys of ``commands``, close a sheet."""
    bindings: list[BindingType] = [Binding("escape", "dismiss", show=False)]
    for command in commands:
        keys = [key for key in BY_ID[command].keys if key != "escape" and " " not in key]
        bindings += _bindings_named(BY_ID[command], "dismiss", keys)
    return bindings


def _bindings_named(command: Command, action: str, keys: Iterable[str], urgent: bool = False) -> list[Binding]:
    # Their descriptions are never shown: the help says what keys do.
    return [
        Binding(name, action, "", show=False, priority=urgent, id=f"{command.id}:{name}")
        for key in keys
        for name in delivered(key)
    ]
