"""Input that cannot be read, and how far reading has come."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from npu_tui.trace.message import Message
from npu_tui.trace.model import Trace
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


Progress = Callable[[int, int, int], bool]
"""Called with (bytes read, bytes in all, events so far); returning False cancels the loading."""

Early = Callable[[Trace], None]
"""Called with the trace of what has been read so far, without links."""


class Watcher(Struct, frozen=True):
    """The two callbacks of one loading; either may be missing."""

    progress: Progress | None = None
    early: Early | None = None

    def report(self, done: int, total: int, events: int = 0) -> None:
        """Tell ``progress``. Raises ``Cancelled`` if it says to stop."""
        if self.progress is not None and not self.progress(done, total, events):
            raise Cancelled
