"""Records an inference service through the file of msServiceProfiler (https://gitcode.com/Ascend/msserviceprofiler).

``SERVICE_PROF_CONFIG_PATH`` names it. A thread of each process looks at its time of change: ``enable`` 1 starts, 0
stops. On its own limit of time or of steps the profiler writes ``enable`` 0 back: then it has ended. A recording is a
folder of ``prof_dir`` with a database of each process, ``ms_service_*.db``: ``msserviceprofiler parse`` makes tables.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from npu_tui.load.raw import raw_services
from npu_tui.load.survey import Survey
from npu_tui.record.progress import (
    POLL,
    Deadline,
    Progress,
    RecordClock,
    RecordError,
    RecordRequest,
    surely,
    unreadable,
)
from npu_tui.record.serving import SECONDS
from npu_tui.trace.message import message
from npu_tui.trace.side_file import paths_in, read_regular
from npu_tui.whole_file import write_file

_PLACE = "~/.ms_server_profiler"
_LARGEST = 1 << 20
"""Bytes of the file: it holds some settings."""
_QUIET = 5.0
"""Seconds in which a database of a process that still records has changed."""


class ServiceSwitch:
    """The ``file`` of a service's profiler. Raises ``RecordError`` if it cannot be read."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.settings = self._read()
        if "enable" not in self.settings:
            raise RecordError(message("record.no_service_file", path=str(file)))

    def _read(self) -> dict[str, Any]:
        try:
            found = orjson.loads(read_regular(self.file, _LARGEST))
            orjson.dumps(found)  # it reads deeper ones than it writes
        except OSError as error:
            raise unreadable(self.file, error) from error
        except (orjson.JSONDecodeError, TypeError):
            found = None
        if not isinstance(found, dict):
            raise RecordError(message("record.bad_switch", path=str(self.file)))
        return found

    @property
    def place(self) -> Path:
        """Where the profiler writes."""
        told = self.settings.get("prof_dir")
        return Path(os.path.expanduser(told if isinstance(told, str) and told else _PLACE))

    @property
    def is_on(self) -> bool:
        """Whether it is asked to record at present; also while the profiler is writing the file."""
        try:
            return self._read().get("enable") == 1
        except RecordError:
            return self.file.exists()

    @property
    def ends_itself(self) -> bool:
        """Whether the settings have a limit of their own."""
        return any(self.settings.get(name) for name in ("timelimit", "profiler_step_num"))

    def off(self) -> None:
        """Let nothing record any more. Raises ``RecordError``."""
        if self.is_on:
            self.write(0)

    def write(self, enable: int, **fields: object) -> None:
        """``enable`` or disable; with ``fields`` changed, all others as they are found."""
        try:
            write_file(self.file, orjson.dumps(self._read() | fields | {"enable": enable}, option=orjson.OPT_INDENT_2))
        except OSError as error:
            raise unreadable(self.file, error) from error


def record_service(file: Path, wanted: RecordRequest, clock: RecordClock) -> Iterator[Progress]:
    """Record the service that watches ``file``: ends with the raw folders, which are to be parsed.

    It has stopped recording afterwards, also where the iterator is closed early.
    Raises ``RecordError``, ``StoppedError``.
    """
    switch = ServiceSwitch(file)
    if switch.is_on:
        raise RecordError(message("record.service_busy", path=str(file)))
    known = set(_recordings(switch.place))
    seconds = wanted.seconds or (None if switch.ends_itself else SECONDS)
    try:
        switch.write(1)
        length = message("record.own_limit") if seconds is None else message("record.length", length=seconds * 1e9)
        yield Progress("waiting", message("record.service_asked", path=str(file), length=length))
        deadline = Deadline(clock, wanted.patience)
        while not (found := [folder for folder in _recordings(switch.place) if folder not in known]):
            clock.wait(POLL)
            if deadline.is_over:
                waited = deadline.seconds * 1e9
                raise RecordError(message("record.service_nothing", path=str(file), folder=str(switch.place),
                                          waited=waited))  # fmt: skip
        yield Progress("recording", message("record.service_records", folder=str(found[0]), length=length))
        deadline = Deadline(clock, wanted.patience if seconds is None else seconds)
        while switch.is_on and not deadline.is_over:
            clock.wait(POLL)
    finally:
        surely(switch.off)
    found = [folder for folder in _recordings(switch.place) if folder not in known]
    while True:
        sizes = _sizes(found)
        clock.wait(_QUIET)
        if sizes == _sizes(found):
            break
        yield Progress("recording", message("record.writing", count=len(found), size=sum(sizes)))
    yield Progress("raw", message("record.raw", count=len(found), size=sum(sizes)), tuple(found))


def _recordings(place: Path) -> list[Path]:
    """The folders that the profiler has made in ``place``."""
    try:
        return [folder for folder in paths_in(place) if folder.is_dir() and raw_services(folder, Survey())]
    except OSError:
        return []


def _sizes(folders: list[Path]) -> list[int]:
    return [path.stat().st_size for folder in folders for path in paths_in(folder) if ".db" in path.name]
