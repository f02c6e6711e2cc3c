"""One recording from the switch to the profiles that can be opened, whatever it is asked through."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from npu_tui.record.analysis import PYTHON, analysed, opened_of, raw_at
from npu_tui.record.dyno import Daemon, record_by_daemon
from npu_tui.record.file_recording import record_by_file
from npu_tui.record.outputs import outputs_below
from npu_tui.record.progress import Progress, RecordClock, RecordRequest
from npu_tui.record.service import record_service
from npu_tui.record.serving import record_server

PROFILES = "profiles"
"""The folder of recordings in that of a switch."""


class RecordingSource(Struct, frozen=True):
    """Through what a job is recorded: the ``folder`` of a switch, ``url`` of a server, ``service`` file or ``dyno``.

    ``certificates`` are those for the daemon ``dyno``; ``python`` is that of the job, for what nothing else analyses.
    """

    folder: Path | None = None
    url: str | None = None
    service: Path | None = None
    dyno: str | None = None
    certificates: Path | None = None
    python: str = PYTHON

    @property
    def is_placed(self) -> bool:
        """Whether it writes each recording where it is asked to, and not where it was started with."""
        return self.folder is not None or self.dyno is not None


class Recorder(Struct):
    """Records from ``source`` what is ``wanted``, again and again.

    ``newest`` is what can be opened of the last recording, a profile or the folder of several; ``before`` is that of
    the recording before it, None where there is none. ``made`` are the folders that recordings of this recorder lie in.
    """

    source: RecordingSource
    wanted: RecordRequest
    newest: Path | None = None
    before: Path | None = None
    made: list[Path] = []

    def record(self, clock: RecordClock) -> Generator[Progress]:
        """Record once more: each state once it is there, ``complete`` last.

        Raises ``RecordError``, ``StoppedError``.
        """
        wanted, previous = self.wanted, self.newest or last_recording(self.wanted.out)
        if self.source.is_placed:  # each has a folder of its own
            wanted = replace(wanted, out=_new_folder(wanted.out))
        raw: tuple[Path, ...] = ()
        try:
            for state in self._states(wanted, clock):
                yield state
                raw = state.profiles if state.stage == "raw" else ()
            if raw:
                for state in analysed([raw_at(folder) for folder in raw], clock, self.source.python):
                    yield state
        finally:
            with contextlib.suppress(OSError):  # it goes if nothing is in it
                wanted.out.rmdir()
        self.before, self.newest = previous, _opened(state.profiles, wanted.out)
        if self.source.is_placed:
            self.made.append(wanted.out)

    def keep(self, count: int) -> None:
        """Delete the oldest of the recordings ``made`` here, so that ``count`` are left."""
        while len(self.made) > count:
            shutil.rmtree(self.made.pop(0), ignore_errors=True)

    def _states(self, wanted: RecordRequest, clock: RecordClock) -> Iterator[Progress]:
        source = self.source
        if source.url is not None:
            return record_server(source.url, wanted, clock)
        if source.service is not None:
            return record_service(source.service, wanted, clock)
        if source.dyno is not None:
            return record_by_daemon(Daemon(source.dyno, source.certificates), wanted, clock)
        return record_by_file(source.folder or Path(), wanted, clock)


def _new_folder(out: Path) -> Path:
    """A folder in ``out`` that is not there yet, as far as can be seen, named by the time."""
    name = time.strftime("%Y%m%d-%H%M%S")
    names = (name, *(f"{name}-{number}" for number in range(2, 100)))
    return next(path for each in names if not os.path.exists(path := out / each))


def _opened(profiles: Sequence[Path], out: Path) -> Path:
    """What is opened of ``profiles``: the tables of a service, a profile, or the folder of several."""
    if len(profiles) != 1:
        return out
    return opened_of(profiles[0])


def last_recording(out: Path) -> Path | None:
    """The newest recording with a trace that lies in ``out``: a profile, or a folder of several; None without one."""
    found = [output.folder for output in outputs_below(out) if output.has_trace]
    if not found:
        return None
    newest = max(found, key=lambda path: (path.stat().st_mtime_ns, path.name))
    return _opened([path for path in found if path.parent == newest.parent], newest.parent)
