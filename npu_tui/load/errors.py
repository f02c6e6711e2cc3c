"""Input that cannot be read, and who watches the reading of what can."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from npu_tui.trace.memory import is_limited
from npu_tui.trace.message import Message, message
from npu_tui.trace.model import Trace
from npu_tui.trace.once import Cancelled
from npu_tui.trace.text import printable


class InputError(Exception):
    """The input cannot be read: ``message`` is one line for the user with the file, what is wrong and what to do.

    Names of files are as untrusted as what is in them: texts among its arguments are made printable.
    """

    def __init__(self, message: Message) -> None:
        super().__init__(message)
        args = {name: printable(value) if isinstance(value, str) else value for name, value in message.args.items()}
        self.message = Message(message.code, args)


class SeveralError(InputError):
    """There are several profiles where one is asked for."""


@contextlib.contextmanager
def walled(path: str | Path) -> Iterator[None]:
    """Turns whatever reading the profile at ``path`` raises into an ``InputError``: others are read all the same."""
    try:
        yield
    except (InputError, Cancelled):
        raise
    except MemoryError as error:
        raise out_of_memory(path) from error
    except OSError as error:
        raise InputError(message("input.unreadable", path=str(path), why=error.strerror or str(error))) from error
    except BaseException as error:
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        why = f"{type(error).__name__}: {error}"[:_MOST_SAID]
        raise InputError(message("input.unexpected", path=str(path), why=why)) from error


def out_of_memory(path: str | Path) -> InputError:
    """What a ``MemoryError`` while the profile at ``path`` is read becomes."""
    return InputError(message("input.memory_limit" if is_limited() else "input.memory", path=str(path)))


def is_panic(error: BaseException) -> bool:
    """Whether polars has given up, which is no ``Exception``."""
    return type(error).__name__ == "PanicException"


_MOST_SAID = 200  # characters of an unforeseen reason: it stays one line


class Watcher(Struct, frozen=True):
    """Callbacks that hear how loading proceeds; each may be missing.

    ``progress`` is called with (bytes read, bytes in all, events so far) and cancels the loading by returning False.
    ``early`` is called now and then with the trace of what has been read so far, without links. ``note`` is called with
    one line if the parsed copy of the trace cannot be kept.
    """

    progress: Callable[[int, int, int], bool] | None = None
    early: Callable[[Trace], None] | None = None
    note: Callable[[Message | str], None] | None = None

    def report(self, done: int, total: int, events: int = 0) -> None:
        """Tell ``progress``. Raises ``Cancelled`` if it says to stop."""
        if self.progress is not None and not self.progress(done, total, events):
            raise Cancelled


UNWATCHED = Watcher()
