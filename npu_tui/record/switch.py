"""``profiler_config.json``: the file that a running job reads to begin recording.

torch_npu: https://www.hiascend.com/document/detail/en/Pytorch/710/ptmoddevg/trainingmigrguide/performance_tuning_0018.html
(``PROF_CONFIG_PATH``, ``dp.init``); one process of a host looks at the whole seconds of its time of change, every rank
takes a file that is newer than its own start and than the one it took last. MindSpore
(https://www.mindspore.cn/docs/en/master/api_python/mindspore/mindspore.profiler.DynamicProfilerMonitor.html) has a file
of the same name with ``stop_step``; a job reads what it holds also when it starts, begins nothing without a
``start_step``, and does not end what it records without a ``stop_step``.
"""

from __future__ import annotations

import contextlib
import math
import os
import pwd
import stat
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import orjson

from npu_tui.record.progress import RecordError, RecordRequest, unreadable
from npu_tui.trace.message import Message, message
from npu_tui.trace.side_file import open_regular

NAME = "profiler_config.json"

Framework = Literal["torch_npu", "mindspore"]

_MOST_BYTES = 1 << 20
"""The shared memory of torch_npu that the file has to fit into."""

_BEHIND = 2.0
"""Seconds that a disk keeps a time of change coarser by (FAT has 2 s); more than that its clock is wrong."""


class Switch:
    """The switch of the job that watches ``folder``: ``settings`` are those found, which ``off`` leaves behind.

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
        """Ask for what is ``wanted``; fields that nobody here knows stay. Raises ``RecordError``."""
        of = _for_mindspore if self.framework == "mindspore" else _for_torch
        asked = of(self.settings, wanted)
        self._is_on, self._stop = True, asked.get("stop_step", -1)
        self._write(asked)
        behind = time.time() - self.path.stat().st_mtime
        if behind > _BEHIND:
            raise RecordError(message("record.clock", path=str(self.path), behind=behind * 1e9))

    def off(self, recorded: bool = True) -> None:
        """What was found before, and no recording asked for: nobody records by accident. Raises ``RecordError``.

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
