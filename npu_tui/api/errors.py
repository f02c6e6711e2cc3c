"""What goes wrong, as one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from npu_tui.strings import words


class Error(Exception):
    """A profile that cannot be read or a question that cannot be answered; its text is one line that says why."""


@contextmanager
def told() -> Iterator[None]:
    """What goes wrong inside is an ``Error`` with its text."""
    from npu_tui.ingest.errors import InputError
    from npu_tui.tables.query import QueryError

    try:
        yield
    except (InputError, QueryError) as error:
        raise Error(words(error.message)) from None
