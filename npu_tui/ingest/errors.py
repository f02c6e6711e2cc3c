"""What can go wrong with an input."""

from __future__ import annotations

from npu_tui.trace.message import Message
from npu_tui.trace.text import printable


class InputError(Exception):
    """The input cannot be read: ``message`` is one line for the user with the file, what is wrong and what to do.

    Names of files are as untrusted as what is in them: texts among its arguments are made printable.
    """

    def __init__(self, message: Message) -> None:
        super().__init__(message)
        self.message = _harmless(message)


class SeveralError(InputError):
    """There are several profiles where one is asked for."""


class Cancelled(Exception):  # noqa: N818 - not an error
    """The user stopped the loading."""


def _harmless(message: Message) -> Message:
    args = {name: printable(value) if isinstance(value, str) else value for name, value in message.args.items()}
    return Message(message.code, args)
