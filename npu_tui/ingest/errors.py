"""What can go wrong with an input, said in one line."""

from __future__ import annotations


class InputError(Exception):
    """The input cannot be read: ``str()`` is one line for the user with the file, what is wrong and what to do."""


class Cancelled(Exception):  # noqa: N818 - not an error
    """The user stopped the loading."""
