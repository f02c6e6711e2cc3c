"""The job of torch_npu that watches a folder, as its logs tell: who runs, who looks at the switch, what they do.

Every rank writes ``log/dp_<host>_<pid>_rank_<rank>.log``, the one process of a host that looks at the switch
``log/monitor_dp_<host>_<pid>_rank_<rank>.log`` (``torch_npu/profiler/_dynamic_profiler/_dynamic_profiler_utils.py``).
Ranks of a host share ``/dev/shm/DynamicProfileNpuShm<hour of the start>``: two jobs that start in one hour of the clock
get the same, and the second obeys the file of the first.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct

from npu_tui.record.progress import RecordError
from npu_tui.record.switch import NAME, user_name
from npu_tui.trace.message import Message, message
from npu_tui.trace.side_file import open_regular, paths_in
from npu_tui.trace.text import whole_number

_LOG = re.compile(r"(monitor_)?dp_(.+)_(\d{1,9})_rank_(-?\d{1,9})\.log")
_LOGS = "log"
_SHARED = Path("/dev/shm")
_SHARED_NAME = "DynamicProfileNpuShm*"
_MOST_BYTES = 4 << 20
"""A log is begun anew after 200 kB; what is larger is none."""

Event = Literal["read", "unreadable", "asked", "started", "stopped", "not_asked", "too_old", "no_analysis"]

_EVENTS: tuple[tuple[Event, re.Pattern[str]], ...] = (
    ("read", re.compile(r"process load json success")),
    ("unreadable", re.compile(r"process load json failed")),
    ("too_old", re.compile(r"Start step is not valid")),
    ("asked", re.compile(r"Start step will be set to (-?\d{1,9})")),
    ("started", re.compile(r"Start Dynamic Profiler at (\d{1,9}) step")),
    ("stopped", re.compile(r"Stop Dynamic Profiler at (\d{1,9}) step")),
    ("not_asked", re.compile(r"not in valid rank_list")),
    ("no_analysis", re.compile(r"profiler data analyse will be closed")),
)
"""What lines of the logs tell, and the step that some name."""


class Happened(Struct, frozen=True):
    """``rank`` told ``event``, with the number of a ``step`` where it names one."""

    rank: int
    event: Event
    step: int | None = None


class JobLog(Struct):
    """The log of one process; ``read`` bytes of it are known."""

    path: Path
    looks: bool
    host: str
    pid: int
    rank: int
    read: int = 0

    @property
    def is_gone(self) -> bool:
        """Whether its process has ended for certain."""
        return has_ended(self.host, self.pid)

    def news(self) -> Iterator[Happened]:
        """What has been written since the last time; a log that has been begun anew is read from its beginning."""
        try:
            with open_regular(self.path) as file:
                size = file.seek(0, 2)
                self.read = self.read if self.read <= size else 0
                file.seek(max(self.read, size - _MOST_BYTES))
                text = file.read(_MOST_BYTES)
        except OSError:  # it has been moved away meanwhile
            return
        whole = text.rfind(b"\n") + 1
        self.read = size - len(text) + whole
        for line in text[:whole].decode("utf-8", "replace").splitlines():
            for event, pattern in _EVENTS:
                if found := pattern.search(line):
                    step = whole_number(found[1]) if pattern.groups else None
                    yield Happened(self.rank, event, step)
                    break


def has_ended(host: str, pid: int) -> bool:
    """Whether process ``pid`` of ``host`` has ended for certain: only those of this host can be seen."""
    return host == socket.gethostname() and not _runs(pid)


def _runs(pid: int) -> bool:
    """Whether process ``pid`` of this host runs; one that nobody has asked for its exit code yet does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[:1] not in (["Z"], ["X"])


class TorchJob:
    """The processes that watch ``folder``; what they wrote before is past. Raises ``RecordError`` where none runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._logs: dict[Path, JobLog] = {}
        self.last_step = max((each.step or 0 for each in self.news() if each.event == "stopped"), default=0)
        if not (folder / NAME).exists():
            raise RecordError(self._why_no_switch())
        self._refuse_ended()

    @property
    def ranks(self) -> set[int]:
        """The ranks that run, as far as can be seen from here."""
        return {log.rank for log in self._logs.values() if not (log.looks or log.is_gone)}

    @property
    def has_ended(self) -> bool:
        """Whether every process of it has ended."""
        return bool(self._logs) and all(log.is_gone for log in self._logs.values())

    def news(self) -> list[Happened]:
        """What the processes have written since the last time."""
        try:
            names = paths_in(self.folder / _LOGS)
        except OSError:
            names = []
        for path in names:
            found = _LOG.fullmatch(path.name)
            if found is not None and path not in self._logs:
                self._logs[path] = JobLog(path, found[1] is not None, found[2], int(found[3]), int(found[4]))
        # What a rank does it does after the switch was read.
        logs = sorted(self._logs.values(), key=lambda log: not log.looks)
        return [happened for log in logs for happened in log.news()]

    def _why_no_switch(self) -> Message:
        shared = _shared_memories()
        owners = [user_name(path.stat().st_uid) for path in shared]
        if any(not log.is_gone for log in self._logs.values()) and shared:
            return message("record.other_job", folder=str(self.folder), shared=[str(path) for path in shared])
        if shared:
            return message("record.no_switch_shared", folder=str(self.folder), name=NAME,
                           shared=[str(path) for path in shared], owners=owners)  # fmt: skip
        return message("record.no_switch", folder=str(self.folder), name=NAME)

    def _refuse_ended(self) -> None:
        if not self._logs:
            raise RecordError(message("record.no_logs", folder=str(self.folder)))
        if self.has_ended:
            ended = sorted({log.pid for log in self._logs.values() if not log.looks})
            raise RecordError(message("record.ended", folder=str(self.folder), pids=ended[:8], count=len(ended)))
        looking = [log for log in self._logs.values() if log.looks]
        running = [log for log in self._logs.values() if not (log.looks or log.is_gone)]
        if not looking:
            shared = [str(path) for path in _shared_memories()]
            raise RecordError(message("record.other_job", folder=str(self.folder), shared=shared))
        if all(log.is_gone for log in looking) and {log.host for log in running} <= {log.host for log in looking}:
            raise RecordError(message("record.nobody_looks", pid=looking[-1].pid, path=str(self.folder / NAME)))


def _shared_memories() -> list[Path]:
    """The memories that jobs of this host share, the newest last."""
    try:
        return sorted(_SHARED.glob(_SHARED_NAME))
    except OSError:
        return []
