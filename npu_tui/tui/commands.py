"""Every command with its keys and what it does; names of keys; the questions that commands answer."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, get_args

from msgspec import Struct

from npu_tui.strings import asked_phrases, knows, name_keys, say
from npu_tui.subjects.declaration import Subject

_SIGNS = {
    "!": "exclamation_mark", '"': "quotation_mark", "#": "number_sign", "$": "dollar_sign", "%": "percent_sign",
    "&": "ampersand", "'": "apostrophe", "(": "left_parenthesis", ")": "right_parenthesis", "*": "asterisk",
    "+": "plus", ",": "comma", "-": "minus", ".": "full_stop", "/": "slash", ":": "colon", ";": "semicolon",
    "<": "less_than_sign", "=": "equals_sign", ">": "greater_than_sign", "?": "question_mark", "@": "at",
    "[": "left_square_bracket", "\\": "backslash", "]": "right_square_bracket", "^": "circumflex_accent",
    "_": "underscore", "`": "grave_accent", "{": "left_curly_bracket", "|": "vertical_line",
    "}": "right_curly_bracket", "~": "tilde",
}  # fmt: skip
_NAMED = {
    "left": "←", "right": "→", "up": "↑", "down": "↓", "pageup": "PgUp", "pagedown": "PgDn", "home": "Home",
    "end": "End", "insert": "Ins", "delete": "Del", "backspace": "Backspace", "space": "Space", "enter": "Enter",
    "escape": "Esc", "tab": "Tab", **{f"f{number}": f"F{number}" for number in range(1, 13)},
}  # fmt: skip
_LABELS = {name: sign for sign, name in _SIGNS.items()} | _NAMED
_BY_LABEL = {label.lower(): name for name, label in _LABELS.items()}
_SYNONYMS = {"return": "enter", "pgdown": "pagedown"}
_MODIFIERS = ("ctrl", "alt", "shift")
"""In the order in which people write them; Textual's names have them in the order of the alphabet."""

_CHINESE = {
    ".": "。", "[": "【", "]": "】", "/": "、", "<": "《", ">": "》", "Space": "\u3000", "'": "‘’", '"': "“”"
}  # fmt: skip
"""What Chinese input methods send for the sign of a key, beside its full-width form."""
_FULL_WIDTH = ord("！") - ord("!")

# What terminals without the kitty protocol send the same byte for.
_SENT_AS = {"ctrl+i": "tab", "ctrl+m": "enter", "ctrl+h": "backspace", "ctrl+left_square_bracket": "escape"}


def key_label(key: str) -> str:
    """A key, or a sequence of two, as people write it: ``Ctrl+R`` for ``ctrl+r``, ``+`` for ``plus``."""
    first, _, second = key.partition(" ")
    if second:
        label = key_label(first)
        return label + label if len(label) == 1 else f"{label} {label}"
    *modifiers, base = key.split("+")
    label = _LABELS.get(base, base.upper() if modifiers else base)
    return "+".join([*(word.capitalize() for word in _MODIFIERS if word in modifiers), label])


def key_in_ascii(key: str) -> str:
    """A key as people write it into a file: ``left`` for the arrow, which few keyboards have as a character."""
    label = key_label(key)
    return label if label.isascii() else key


def find_key(text: str) -> str | None:
    """Textual's name of a key as people write it, None if there is no such key.

    ``w``, ``W``, ``/``, ``Ctrl+R``, ``PgUp`` and Textual's own names are keys; ``gg`` and ``F5 F5`` are one key twice.
    """
    words = text.split()
    if len(words) == 1 and len(text) == 2 and text[0] == text[1]:
        words = [text[0], text[0]]
    if len(words) == 2 and words[0] == words[1]:
        key = find_key(words[0])
        return None if key is None or " " in key else f"{key} {key}"
    modifiers: set[str] = set()
    rest = text.strip()
    while True:
        word, plus, behind = rest.partition("+")
        if not plus or not behind or word.lower() not in _MODIFIERS:
            break
        modifiers.add(word.lower())
        rest = behind
    key = _base(rest)
    if key is None:
        return None
    if len(key) == 1 and modifiers == {"shift"}:
        return key.upper() if key.isalpha() else None  # as terminals send it: a digit becomes a sign
    return "+".join([*sorted(modifiers), key.lower() if modifiers else key])


def _base(text: str) -> str | None:
    """The name of a key without its modifiers."""
    if len(text) == 1 and text.isalnum() and text.isascii():
        return text
    lowered = text.lower()
    found = _SIGNS.get(text) or _BY_LABEL.get(lowered) or _SYNONYMS.get(lowered)
    return found or (lowered if lowered in _LABELS else None)


def nearest_key(text: str) -> str | None:
    """What is a key and is written most like ``text``; None where nothing is near."""
    before, plus, base = text.rpartition("+")
    from difflib import get_close_matches  # mostly there is nothing wrong

    near = get_close_matches(base.lower(), sorted({*_LABELS, *_BY_LABEL}), 1, 0.5)
    found = f"{before}{plus}{near[0]}" if near else ""
    return found if found and find_key(found) else None


def delivered(key: str) -> list[str]:
    """The names under which terminals deliver ``key``.

    Some send a capital as Shift with the letter; input methods send full-width twins.
    """
    label = _LABELS.get(key, key)
    twins = _CHINESE.get(label, "") + (chr(ord(label) + _FULL_WIDTH) if len(label) == 1 and label.isascii() else "")
    # As Textual names them: a letter or a digit by itself, a sign by its name in Unicode.
    names = [
        key,
        *(
            twin if twin.isalnum() else unicodedata.name(twin).lower().replace("-", "_").replace(" ", "_")
            for twin in twins
        ),
    ]
    if len(key) == 1 and key.isupper():
        names += [f"shift+{key.lower()}", f"shift+{key}"]
    return names


def sent_as(key: str) -> str | None:
    """The other key that most terminals send in place of ``key``, None where they distinguish it."""
    return _SENT_AS.get(key)


def is_han(char: str | None) -> bool:
    """Whether ``char`` is a Chinese character: an input method stands between the keys and the program."""
    return char is not None and unicodedata.name(char[:1] or " ", "").startswith("CJK UNIFIED IDEOGRAPH")


Group = Literal[
    "place", "slices", "launches", "measure", "search", "notes", "rows", "panel", "compared", "job", "list", "program"
]
"""What a command is for; the heading is the text ``help.task.<group>``."""
GROUPS: tuple[Group, ...] = get_args(Group)

Where = Literal["lanes", "job", "picker"]
"""The screens that have commands: the lanes of some traces, the overview of a job, and the list of profiles to choose
from. Each has keys of its own."""

TAB_COMMAND = "tab_"
"""What the ids of the commands begin with that open a tab."""
TAB_KEYS = {
    "findings": "1",
    "lines": "2",
    "details": "3",
    "links": "4",
    "range": "5",
    "operators": "6",
    "communication": "7",
    "search": "8",
    "memory": "9",
    "summary": "r",
}
"""The tabs of the panel in their order, each with its key. What they show stands in ``npu_tui.tui.tabs``."""

COMPARED_KEYS = {"changes": "F"}
"""The tabs that only a comparison has; they stand before the others."""

JOB_KEYS = {
    "job_changes": COMPARED_KEYS["changes"],
    "job_findings": TAB_KEYS["findings"],
    "job_ranks": "2",
    "job_hosts": "3",
    "job_links": TAB_KEYS["links"],
    "job_groups": "5",
    "job_clock": "6",
    "job_collectives": TAB_KEYS["communication"],
    "job_experts": "8",
    "job_roles": "9",
}
"""The tabs of the overview of a job."""

VIEW_KEYS = {
    "bubbles": "I", "syncs": "T", "calls": "C", "host_ops": "O", "modules": "", "engine_kinds": "", "engine_steps": "#",
    "batches": "", "cpu": "",
}  # fmt: skip
"""Views of the tab ``lines``, with the keys that lead to them; the key of the tab goes through all of them."""


class Command(Struct, frozen=True):
    """Something the user can do. ``default_keys`` are Textual key names, or one twice with a blank for a sequence.

    ``acts`` is what it does, by the screen that has it: a function of that screen, which returns the message for the
    user, or None where the screen shows it. A command without keys is typed after ``:``.
    """

    id: str
    group: Group
    default_keys: tuple[str, ...]
    acts: Mapping[Where, Callable[[Any], str | None]]

    @property
    def where(self) -> tuple[Where, ...]:
        """The screens that have it."""
        return (*self.acts,)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that run the command, the user's own if there are any."""
        return _own_keys.get(self.id, self.default_keys)

    @property
    def press(self) -> str:
        """What to press, or to type where it has no key, in texts that name it."""
        return key_label(self.keys[0]) if self.keys else f":{self.id}"

    @property
    def title(self) -> str:
        """What the command does, in a few words."""
        return self.title_on(next(iter(self.acts)))

    def title_on(self, where: str) -> str:
        """What the command does on a screen, or for a subject, which may have words of its own for it."""
        own = f"command.{self.id}.{where}"
        return say(own if knows(own) else f"command.{self.id}")


COMMANDS: list[Command] = []
BY_ID: dict[str, Command] = {}
"""All commands in the order of the help, and by their ids: those that ``tui/actions.py`` declares.

The table names the screens, and the screens and all below them name commands; so it is declared here when
``npu_tui.tui`` is imported, before anything asks for it.
"""

_own_keys: dict[str, tuple[str, ...]] = {}


def declare(commands: Iterable[Command]) -> None:
    """Let ``commands`` be those that there are."""
    COMMANDS.extend(commands)
    BY_ID.update((command.id, command) for command in COMMANDS)
    assert len(BY_ID) == len(COMMANDS), "two commands have one id"
    name_keys(lambda command: BY_ID[command].press)


def set_keys(own: Mapping[str, tuple[str, ...]]) -> None:
    """From now on the commands of ``own`` have these keys, all others their default ones."""
    _own_keys.clear()
    _own_keys.update(own)


def commands_of(where: Where) -> list[Command]:
    """The commands of one screen."""
    return [command for command in COMMANDS if where in command.where]


def keys_label(command: Command) -> str:
    """All keys of a command as people write them."""
    return " ".join(_labels(command))


def _labels(command: Command) -> list[str]:
    """The keys of a command, or how it is typed where it has none."""
    return [key_label(key) for key in command.keys] or [f":{command.id}"]


def markdown_table(where: Where) -> str:
    """The keys of a screen as a table in Markdown."""
    lines = [f"| {say('keymap.heading.keys')} | {say('keymap.heading.what')} |", "|---|---|"]
    for command in commands_of(where):
        keys = " ".join(_code(label) for label in _labels(command))
        lines.append(f"| {keys} | {command.title_on(where)} |")
    return "\n".join(lines) + "\n"


def _code(label: str) -> str:
    """``label`` as code in a cell of a Markdown table, also where it is a backtick or the bar between cells."""
    return f"`` {label} ``" if "`" in label else "`" + label.replace("|", "\\|") + "`"


# Where the keys stand that a screen has in words of its own.
_GROUP_OF: dict[Where, Group] = {"job": "job", "picker": "list"}


def text_table() -> str:
    """The key table as plain text, by group."""
    rows: dict[Group, list[tuple[str, str]]] = {group: [] for group in GROUPS}
    for command in COMMANDS:
        titles = {command.title_on(where): _GROUP_OF[where] for where in command.acts if where in _GROUP_OF}
        for title, group in (titles | {command.title: command.group}).items():
            rows[group].append((keys_label(command), title))
    width = max(len(keys) for found in rows.values() for keys, _ in found)
    lines = []
    for group, found in rows.items():
        lines += [say(f"help.task.{group}"), *(f"  {keys:{width}}  {title}" for keys, title in found), ""]
    return "\n".join(lines)


_WORD = re.compile(r"[a-z0-9_.]+")


def asked(text: str, where: Where, subject: Subject | None = None) -> list[str]:
    """The commands of a screen that answer ``text``, the best first: those that have a phrase with all of its words.

    Phrases are known in every language, whichever is spoken. A longer phrase says more. A ``subject`` has phrases of
    its own for its tabs, and none for those that it lacks.
    """
    typed = text.casefold()
    words, phrases = set(_WORD.findall(typed)), asked_phrases()
    best: dict[str, int] = {}
    for command in commands_of(where):
        if subject is not None and subject.tabs.get(command.id.removeprefix(TAB_COMMAND)) == "":
            continue
        own = f"{command.id}.{subject.id}" if subject is not None else command.id
        for phrase in phrases.get(own) or phrases.get(command.id, ()):
            parts = phrase.split()
            # Chinese has no blanks between words: a phrase is anywhere in the text.
            if all(part in words if part.isascii() else part in typed for part in parts):
                best[command.id] = max(best.get(command.id, 0), sum(map(len, parts)) * (1 if phrase.isascii() else 3))
    return sorted(best, key=lambda command: -best[command])
