"""The bytes that terminals send for every key of the registry."""

from __future__ import annotations

import re
from dataclasses import dataclass

from npu_tui.tui.commands import commands_of

LEGACY, KITTY, TWIN = "legacy", "kitty", "input method"
_ESCAPED = re.compile(r"\x1b\[(27;\d+;\d+~|[\d;]+u)")

BYTES: dict[str, list[str]] = {
    "left": ["\x1b[D", "\x1bOD", "\x1b[1;1D", "\x1b[57417;1u"],
    "right": ["\x1b[C", "\x1bOC", "\x1b[1;1C"],
    "up": ["\x1b[A", "\x1bOA", "\x1b[1;1A"],
    "down": ["\x1b[B", "\x1bOB", "\x1b[1;1B"],
    "shift+left": ["\x1b[1;2D"],
    "shift+right": ["\x1b[1;2C"],
    "home": ["\x1b[H", "\x1bOH", "\x1b[1~", "\x1b[1;1H"],
    "end": ["\x1b[F", "\x1bOF", "\x1b[4~", "\x1b[1;1F"],
    "pageup": ["\x1b[5~"],
    "pagedown": ["\x1b[6~"],
    "backspace": ["\x7f", "\x08", "\x1b[127u", "\x1b[127;1u"],
    "enter": ["\r", "\x1b[13u", "\x1b[13;1u"],
    "escape": ["\x1b", "\x1b[27u", "\x1b[27;1u"],
    "tab": ["\t", "\x1b[9u", "\x1b[9;1u"],
    "space": [" ", "\x1b[32;1;32u", "\x1b[32u"],
    "comma": [",", "\x1b[44;1;44u"],
    "full_stop": [".", "\x1b[46;1;46u"],
    "slash": ["/", "\x1b[47;1;47u"],
    "asterisk": ["*", "\x1b[56;2;42u"],
    "less_than_sign": ["<", "\x1b[44;2;60u"],
    "greater_than_sign": [">", "\x1b[46;2;62u"],
    "left_curly_bracket": ["{", "\x1b[91;2;123u"],
    "right_curly_bracket": ["}", "\x1b[93;2;125u"],
    "left_parenthesis": ["(", "\x1b[57;2;40u"],
    "right_parenthesis": [")", "\x1b[48;2;41u"],
    "number_sign": ["#", "\x1b[51;2;35u"],
    "semicolon": [";", "\x1b[59;1;59u"],
    "apostrophe": ["'", "\x1b[39;1;39u"],
    "quotation_mark": ['"', "\x1b[39;2;34u"],
    "exclamation_mark": ["!", "\x1b[49;2;33u"],
    "at": ["@", "\x1b[50;2;64u"],
    "percent_sign": ["%", "\x1b[53;2;37u"],
    "ampersand": ["&", "\x1b[55;2;38u"],
    "colon": [":", "\x1b[59;2;58u"],
    "question_mark": ["?", "\x1b[47;2;63u"],
    "equals_sign": ["=", "\x1b[61;1;61u"],
    "backslash": ["\\", "\x1b[92;1;92u"],
    "grave_accent": ["`", "\x1b[96;1;96u"],
    "vertical_line": ["|", "\x1b[92;2;124u"],
    "minus": ["-", "\x1b[45;1;45u"],
    "left_square_bracket": ["[", "\x1b[91;1;91u"],
    "right_square_bracket": ["]", "\x1b[93;1;93u"],
    "0": ["0", "\x1b[48;1;48u"],
    "ctrl+0": ["\x1b[48;5u"],
    "ctrl+l": ["\x0c", "\x1b[108;5u"],
    "ctrl+x": ["\x18", "\x1b[120;5u"],
    "ctrl+p": ["\x10", "\x1b[112;5u"],
    "ctrl+q": ["\x11", "\x1b[113;5u"],
    "ctrl+r": ["\x12", "\x1b[114;5u"],
    "Z": ["Z", "\x1b[122;2;90u", "\x1b[27;2;90~", "\x1b[122;2u", "\x1b[90;2u"],
}
"""Legacy first, then the kitty protocol (flags 1, 8 and 16: every key escaped, with its text)."""

TWINS = {
    "comma": "，", "full_stop": "。", "slash": "、", "colon": "：", "question_mark": "？", "left_parenthesis": "（",
    "right_parenthesis": "）", "left_square_bracket": "【", "right_square_bracket": "】", "left_curly_bracket": "｛",
    "right_curly_bracket": "｝", "less_than_sign": "《", "greater_than_sign": "》", "exclamation_mark": "！",
    "space": "\u3000",
}  # fmt: skip
"""What Chinese input methods send for punctuation; for letters and digits it is their full-width form."""


@dataclass(frozen=True)
class KeyBytes:
    """One way in which a terminal sends a key of a command."""

    command: str
    key: str
    data: str
    protocol: str

    @property
    def through_tmux(self) -> bool:
        """Whether the terminal around a tmux sends this: tmux asks no terminal to escape every key."""
        return self.protocol != KITTY

    @property
    def through_extended_tmux(self) -> bool:
        """The same for a tmux with extended keys, which takes keys with a modifier escaped."""
        return self.through_tmux or (self.key.startswith("ctrl+") and self.data.endswith("u"))


def sequences(key: str) -> list[str]:
    """Bytes for one key; letters and digits follow one rule."""
    if key in BYTES:
        return BYTES[key]
    assert len(key) == 1, f"no bytes are known for {key}"
    assert key.isalnum()
    shifted = key.isupper()
    code = ord(key.lower())
    capital = [f"\x1b[{code};65;{ord(key)}u", f"\x1b[{code};2u", f"\x1b[{ord(key)};2u"] if shifted else []
    return [key, f"\x1b[{code};{2 if shifted else 1};{ord(key)}u", *capital]


def twin(key: str) -> str | None:
    """What an input method sends for ``key``, None where it leaves the key alone."""
    if len(key) == 1:
        return chr(ord(key) + ord("！") - ord("!"))
    return TWINS.get(key)


def cases() -> list[KeyBytes]:
    """Every way to send every key of every command."""
    found = []
    for command in commands_of("lanes"):
        for key in command.keys:
            parts = key.split(" ")
            for ways in zip(*(sequences(part) for part in parts), strict=True):
                data = "".join(ways)
                found.append(KeyBytes(command.id, key, data, KITTY if _ESCAPED.match(data) else LEGACY))
            full = [twin(part) for part in parts]
            if all(full):
                found.append(KeyBytes(command.id, key, "".join(map(str, full)), TWIN))
    return found
