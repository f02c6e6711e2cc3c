"""What can go wrong with an input, said in one line."""

from __future__ import annotations

from npu_tui.trace.text import printable


class InputError(Exception):
    """The input cannot be read: ``str()`` is one line for the user with the file, what is wrong and what to do.

    Names of files are as untrusted as what is in them.
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class WorkerError(InputError):
    """A process that was reading failed, whatever the input is like."""


class Cancelled(Exception):  # noqa: N818 - not an error
    """The user stopped the loading."""
