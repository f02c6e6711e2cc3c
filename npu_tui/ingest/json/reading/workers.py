"""Processes that read ranges of a file side by side."""

from __future__ import annotations

import contextlib
import math
import os
import queue
import signal
import sys
import threading
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
import numpy as np
import numpy.typing as npt

import npu_tui
from npu_tui.ingest.errors import InputError
from npu_tui.ingest.json.columns.range_columns import RangeColumns, unpacked
from npu_tui.ingest.json.reading.worker import Failure, Pack, Task
from npu_tui.trace.message import Message, message

if TYPE_CHECKING:
    import subprocess

ALONE_BYTES = 24 << 20
"""A smaller file is read by this process before others would have started."""

_PER_WORKER = 32 << 20
_MOST = 8
_PIPE_BYTES = 1 << 20
_F_SETPIPE_SZ = 1031
_NO_MEMORY = Message("input.reader.memory")


def worker_count(size: int) -> int:
    """How many processes a file of ``size`` bytes is worth on this machine; 0 to read it in this one."""
    if size < ALONE_BYTES:
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, math.ceil(size / _PER_WORKER), _MOST)


class Workers:
    """``count`` processes; each part comes back through ``parts`` as (worker, part), an error in a part's place."""

    def __init__(self, count: int) -> None:
        """Start them. Raises ``OSError`` if the system has no room for another process."""
        import subprocess  # mostly threads of this process read

        self.parts: queue.SimpleQueue[tuple[int, RangeColumns | InputError]] = queue.SimpleQueue()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._closing = False
        package = str(Path(npu_tui.__file__).parent.parent)
        path = [os.path.abspath(entry) for entry in sys.path] + [package]
        program = f"import sys; sys.path[:] = {path!r}; from npu_tui.ingest.json.reading.worker import main; main()"
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        try:
            for _ in range(count):
                self._processes.append(
                    subprocess.Popen(
                        [sys.executable, "-I", "-S", "-c", program],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.DEVNULL,
                        bufsize=0,
                        env=environment,
                        start_new_session=True,  # keys that interrupt are this process's business
                    )
                )
        except OSError:
            self.close()
            raise
        for number, process in enumerate(self._processes):
            _widen(process)
            threading.Thread(target=self._receive, args=(number, process), daemon=True).start()

    def __len__(self) -> int:
        return len(self._processes)

    def ask(self, worker: int, task: Task | Pack, *columns: npt.NDArray[Any]) -> None:
        """Give a task to ``worker``, with what belongs to it; it answers its tasks in order."""
        stdin = cast(FileIO, self._processes[worker].stdin)
        with contextlib.suppress(BrokenPipeError):  # its end is reported by the thread that listens
            for piece in (msgspec.json.encode(task) + b"\n", *(column.view(np.uint8).data for column in columns)):
                left = memoryview(piece)  # type: ignore[arg-type]
                while left:
                    left = left[stdin.write(left) :]

    def close(self) -> None:
        """End the processes."""
        self._closing = True
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()

    def _receive(self, number: int, process: subprocess.Popen[bytes]) -> None:
        """Hand on what one process sends until it ends."""
        stdout = cast(FileIO, process.stdout)

        def fill(buffer: memoryview) -> None:
            while buffer:
                got = stdout.readinto(buffer)
                if not got:
                    raise EOFError
                buffer = buffer[got:]

        error: Message | None = None
        try:
            while True:
                length = bytearray(8)
                fill(memoryview(length))
                head = bytearray(int.from_bytes(length, "little"))
                fill(memoryview(head))
                try:
                    part = unpacked(bytes(head), fill)
                except msgspec.ValidationError:
                    why = msgspec.msgpack.decode(head, type=Failure).failure
                    error = message("input.reader.failed", why=why) if why else _NO_MEMORY
                    break
                self.parts.put((number, part))
        except (EOFError, OSError, ValueError):
            pass
        except MemoryError:
            error = _NO_MEMORY
        finally:  # whatever happened, whoever waits must not wait for ever
            if not self._closing:
                self.parts.put((number, InputError(error or _ending(process))))


def _ending(process: subprocess.Popen[bytes]) -> Message:
    """What became of a process that should still be there."""
    import subprocess

    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1)
    code = process.returncode
    if code is None or code >= 0:
        return message("input.reader.ended", code=code)
    return message("input.reader.killed" if code == -signal.SIGKILL else "input.reader.signal", signal=-code)


def _widen(process: subprocess.Popen[bytes]) -> None:
    """Let the pipe hold more, where the system can, so that neither side waits for the other so often."""
    with contextlib.suppress(OSError, ImportError):
        import fcntl

        fcntl.fcntl(cast(FileIO, process.stdout).fileno(), _F_SETPIPE_SZ, _PIPE_BYTES)
