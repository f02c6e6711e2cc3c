"""Puts a query to a process that answers SQL, and ends it where it takes too long or too much, or is not waited for."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from threading import Event
from typing import TYPE_CHECKING

from npu_tui.query.engine import Channel, QueryError
from npu_tui.trace.memory import free_addresses, free_memory
from npu_tui.trace.message import Message, message
from npu_tui.trace.once import Cancelled

if TYPE_CHECKING:
    import polars as pl

    from npu_tui.query.frames import ProfileTables

NEVER = Event()
_MOST_MEMORY = 4 << 30
_TICK_SECONDS = 0.05
"""How often to look whether anything still waits."""
_PROGRAM = """
import sys
sys.path[:] = sys.argv[2:]
from npu_tui.load.polars_door import watch_polars
watch_polars()
from npu_tui.query.engine import serve
serve(int(sys.argv[1]))
"""


class Process:
    """A process that answers one query after another."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        ours.settimeout(_TICK_SECONDS)
        self._line = Channel(ours)
        self._last_words = os.memfd_create("npu-tui")
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", _PROGRAM, str(theirs.fileno()), *sys.path],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=self._last_words,
                pass_fds=[theirs.fileno()], start_new_session=True,
            )  # fmt: skip

    @property
    def is_alive(self) -> bool:
        """Whether it still runs and was not ended from outside."""
        return self._process.poll() is None

    def end(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.communicate()
        self._line.end.close()
        os.close(self._last_words)

    def answer(
        self, tables: ProfileTables, sql: str, limit: int | None, seconds: float, stopped: Event
    ) -> pl.DataFrame | tuple[str, list[str]]:
        """The answer to ``sql``, or what polars says is wrong with it and the tables that it has found.

        Raises ``QueryError`` where it takes longer than ``seconds`` or more memory than half of what is free, and
        ``Cancelled`` once ``stopped`` is set. The process has to be ended after either.
        """
        import polars as pl

        line = self._line
        memory = min(_MOST_MEMORY, free_memory() // 2, free_addresses() // 2)
        until = time.monotonic() + seconds
        scans: dict[int, Iterator[pl.DataFrame]] = {}
        try:
            line.send(limit, memory, frame=pl.DataFrame({"sql": [sql]}))
            while True:
                if stopped.is_set():
                    raise Cancelled
                if time.monotonic() > until:
                    raise QueryError(message("query.too_slow", seconds=seconds))
                try:
                    words, frame = line.hear()
                except TimeoutError:
                    continue
                if words[0] == "table":
                    scan = tables.scan(words[1]) if words[1] in tables.names else None
                    texts = None if scan is None else pl.DataFrame({name: [scan.texts[name]] for name in scan.texts})
                    line.send(None if scan is None else scan.kinds, frame=texts)
                elif words[0] == "rows":
                    number, name, columns, rows = words[1:]
                    if number not in scans:
                        scans[number] = tables.scan(name).frames(columns, rows)
                    line.send(frame=next(scans[number], None))
                else:
                    return (words[1], words[2]) if frame is None else frame
        except (EOFError, ConnectionError):
            raise QueryError(self._why(memory)) from None

    def _why(self, memory: int) -> Message:
        """Why it has ended by itself."""
        code = self._process.wait()
        said = os.pread(self._last_words, 1 << 20, 0)
        if b"memory allocation" in said or b"MemoryError" in said or code == -signal.SIGKILL:
            return message("query.too_large", memory=memory)
        return message("query.broken", code=code)


_idle: list[Process] = []
"""The one that has answered last, kept for the next query."""
os.register_at_fork(after_in_child=_idle.clear)


def begin() -> None:
    """Start a process for the query that is asked next."""
    if not _idle:
        _idle.append(Process())


def answer_in_process(
    tables: ProfileTables, sql: str, limit: int | None, seconds: float, stopped: Event
) -> pl.DataFrame | tuple[str, list[str]]:
    """``Process.answer`` of the one that is idle, or a new one."""
    try:
        process = _idle.pop()
        if not process.is_alive:
            raise IndexError
    except IndexError:
        process = Process()
    try:
        answer = process.answer(tables, sql, limit, seconds, stopped)
    except BaseException:
        process.end()
        raise
    if _idle:
        process.end()
    else:
        _idle.append(process)
    return answer
