"""What the program says to a user, as a code with arguments; only ``npu_tui.strings`` puts it into words."""

from __future__ import annotations

from msgspec import Struct


class Message(Struct, frozen=True):
    """``code`` is a key of ``npu_tui.strings``, ``args`` fill the placeholders of its text.

    An argument is a number in the unit of the placeholder (ns, bytes, a share 0..1, a count), a text of the trace, or
    another message.
    """

    code: str
    args: dict[str, object] = {}

    def __hash__(self) -> int:
        # Values may be unhashable (lists); the names of the arguments are enough for a hash.
        return hash((self.code, *sorted(self.args)))


Said = Message | str
"""A message, or a text that needs no translation: a name of the trace, or nothing."""


class SaidError(Exception):
    """What cannot be done: ``message`` is one line for the user that says why, and what to do."""

    def __init__(self, said: Message) -> None:
        super().__init__(said.code)
        self.message = said


def message(code: str, /, **args: object) -> Message:
    """``Message(code, args)``."""
    return Message(code, args)
