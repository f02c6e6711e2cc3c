"""The job of a training that watches a folder: ``profiler_config.json``, the switch that it reads, and its logs.

torch_npu: https://www.hiascend.com/document/detail/en/Pytorch/710/ptmoddevg/trainingmigrguide/performance_tuning_0018.html
(``PROF_CONFIG_PATH``, ``dp.init``); one process of a host looks at the whole seconds of its time of change, every rank
takes a file that is newer than its own start and than the one it took last. MindSpore
(https://www.mindspore.cn/docs/en/master/api_python/mindspore/mindspore.profiler.DynamicProfilerMonitor.html) has a file
of the same name with ``stop_step``; a job reads what it holds also when it starts, begins nothing without a
``start_step``, and does not end what it records without a ``stop_step``.

Every rank of torch_npu writes ``log/dp_<host>_<pid>_rank_<rank>.log``, the one process of a host that looks at the
switch ``log/monitor_dp_<host>_<pid>_rank_<rank>.log``
(``torch_npu/profiler/_dynamic_profiler/_dynamic_profiler_utils.py``). Ranks of a host share
``/dev/shm/DynamicProfileNpuShm<hour of the start>``: two jobs that start in one hour of the clock get the same, and the
second obeys the file of the first.
"""

from __future__ import annotations

import contextlib
import math
import os
import pwd
import re
import socket
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import orjson
from msgspec import Struct

from npu_tui.record import RecordError, RecordRequest, unreadable
from npu_tui.trace.message import Message, message
from npu_tui.trace.side_file import open_regular, paths_in
from npu_tui.trace.text import whole_number

NAME = "profiler_config.json"

Framework = Literal["torch_npu", "mindspore"]

_MOST_BYTES = 1 << 20  # the shared memory of torch_npu that the file has to fit into

_BEHIND = 2.0  # seconds that a disk keeps a time of change coarser by (FAT has 2 s); more than that its clock is wrong


class Switch:
    """The switch of the job that watches ``folder``: ``settings`` are those found, which ``off`` puts back.

    Raises ``RecordError`` if the file cannot be read, or is not for this user to write.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        try:
            with open_regular(self.path) as file:
                content = file.read(_MOST_BYTES + 1)
            self._told = self.path.stat()
        except PermissionError:
            raise RecordError(foreign(self.path)) from None
        except OSError as error:
            raise unreadable(self.path, error) from error
        try:
            settings = orjson.loads(content)
            orjson.dumps(settings)  # it reads deeper ones than it writes
        except (orjson.JSONDecodeError, TypeError):
            settings = None
        if not isinstance(settings, dict) or len(content) > _MOST_BYTES:
            raise RecordError(message("record.bad_switch", path=str(self.path)))
        self.settings: dict[str, Any] = settings
        self._is_on, self._stop = False, -1
        self.framework: Framework = "mindspore" if "stop_step" in settings else "torch_npu"
        self._refuse_foreign()

    def _refuse_foreign(self) -> None:
        """A job that cannot read what is written here records nothing."""
        mine = self._told.st_uid == os.geteuid() or os.geteuid() == 0
        if not (os.access(self.path.parent, os.W_OK | os.X_OK) and os.access(self.path, os.W_OK)) or not (
            mine or self._told.st_mode & stat.S_IROTH
        ):
            raise RecordError(foreign(self.path))

    def give(self, folders: Iterable[Path]) -> None:
        """Let the job write into ``folders`` that were made here, where it runs as another user."""
        if self._told.st_uid != os.geteuid():
            for folder in folders:
                with contextlib.suppress(PermissionError):  # only root may, and others may have a group in common
                    os.chown(folder, self._told.st_uid, self._told.st_gid)

    def on(self, wanted: RecordRequest) -> None:
        """Ask for what is ``wanted``; unknown fields stay. Raises ``RecordError``."""
        of = _for_mindspore if self.framework == "mindspore" else _for_torch
        asked = of(self.settings, wanted)
        self._is_on, self._stop = True, asked.get("stop_step", -1)
        self._write(asked)
        behind = time.time() - self.path.stat().st_mtime
        if behind > _BEHIND:
            raise RecordError(message("record.clock", path=str(self.path), behind=behind * 1e9))

    def off(self, recorded: bool = True) -> None:
        """Put back what was found, with no recording asked for: none begins by accident. Raises ``RecordError``.

        Unless all is ``recorded`` MindSpore keeps the step to end at, as what it has begun would go on for ever.
        """
        if not self._is_on:
            return
        never: dict[str, Any] = {"start_step": 0}
        if self.framework == "mindspore":
            never = {"start_step": -1, "stop_step": -1 if recorded else self._stop}
        self._write(self.settings | never)

    def _write(self, settings: dict[str, Any]) -> None:
        """Put ``settings`` in the place of what is there, as a whole, with a later second than any before."""
        content = orjson.dumps(settings, option=orjson.OPT_INDENT_2)
        try:
            descriptor, name = tempfile.mkstemp(".part", f".{NAME}.", self.path.parent)
            try:
                with open(descriptor, "wb") as out:
                    out.write(content)
                    os.fchmod(out.fileno(), stat.S_IMODE(self._told.st_mode))
                    if (self._told.st_uid, self._told.st_gid) != (os.geteuid(), os.getegid()):
                        with contextlib.suppress(PermissionError):  # it can be read by all, see ``_refuse_foreign``
                            os.fchown(out.fileno(), self._told.st_uid, self._told.st_gid)
                second = max(math.ceil(time.time()), int(self.path.stat().st_mtime) + 1)
                os.utime(name, (second, second))
                os.replace(name, self.path)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(name)
                raise
        except OSError as error:
            raise unreadable(self.path, error) from error


def foreign(path: Path) -> Message:
    """What is said where ``path``, a file of a job or its folder, is another user's."""
    try:
        owner = user_name(path.stat().st_uid)
    except OSError:  # not even that may be seen
        owner = user_name(path.parent.stat().st_uid)
    return message("record.foreign", path=str(path), owner=owner, user=user_name(os.geteuid()))


def user_name(uid: int) -> str:
    """The name of a user, the number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _for_torch(settings: dict[str, Any], wanted: RecordRequest) -> dict[str, Any]:
    inner = settings.get("experimental_config")
    inner = dict(inner) if isinstance(inner, dict) else {"export_type": ["text"], "data_simplification": True}
    return settings | {
        "activities": ["CPU", "NPU"],
        "prof_dir": str(wanted.out),
        "analyse": True,
        # Without it a job stands still while it analyses, and does not analyse at all for a list of ranks.
        "async_mode": True,
        "active": wanted.steps,
        "warmup": wanted.warmup,
        "start_step": -1 if wanted.at is None else wanted.at,
        "is_rank": bool(wanted.ranks),
        "rank_list": list(wanted.ranks),
        "with_stack": wanted.stack,
        "record_shapes": wanted.shapes,
        "profile_memory": wanted.memory,
        "experimental_config": inner | {"profiler_level": f"Level{wanted.level}"},
    }


def _for_mindspore(settings: dict[str, Any], wanted: RecordRequest) -> dict[str, Any]:
    if wanted.at is None:
        raise RecordError(message("record.mindspore_step"))
    if wanted.ranks:
        raise RecordError(message("record.mindspore_ranks"))
    # Each is a number or a text, whichever the file has.
    level = wanted.level if isinstance(settings.get("profiler_level"), int) else f"Level{wanted.level}"
    mode = "async" if isinstance(settings.get("analyse_mode"), str) else 1
    return settings | {
        "prof_path": str(wanted.out),
        "analyse": True,
        "analyse_mode": mode,
        "start_step": wanted.at,
        "stop_step": wanted.at + wanted.steps - 1,
        "with_stack": wanted.stack,
        "record_shapes": wanted.shapes,
        "profile_memory": wanted.memory,
        "profiler_level": level,
    }


_LOG = re.compile(r"(monitor_)?dp_(.+)_(\d{1,9})_rank_(-?\d{1,9})\.log")
_LOGS = "log"
_SHARED = Path("/dev/shm")
_SHARED_NAME = "DynamicProfileNpuShm*"
_MOST_LOG = 4 << 20
"""A log is begun anew after 200 kB; a larger file is no log."""

Event = Literal["read", "unreadable", "asked", "started", "stopped", "not_asked", "too_old", "no_analysis"]

# What lines of the logs report, and the step that some name.
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


class Happened(Struct, frozen=True):
    """``rank`` reported ``event``, with the number of a ``step`` where it names one."""

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
                begins = max(self.read, size - _MOST_LOG)
                file.seek(begins)
                text = file.read(size - begins)  # no more: what is written meanwhile comes the next time
        except OSError:  # it has been moved away meanwhile
            return
        whole = text.rfind(b"\n") + 1
        self.read = begins + whole
        for line in text[:whole].decode("utf-8", "replace").splitlines():
            for event, pattern in _EVENTS:
                if found := pattern.search(line):
                    step = whole_number(found[1]) if pattern.groups else None
                    yield Happened(self.rank, event, step)
                    break


def has_ended(host: str, pid: int) -> bool:
    """Whether process ``pid`` of ``host`` has ended for certain: only those of this host can be seen."""
    return host == socket.gethostname() and not _is_running(pid)


def _is_running(pid: int) -> bool:
    """Whether process ``pid`` of this host runs; one that ended but was not waited for yet does not."""
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
