"""One recording from the switch to the profiles that can be opened, and what has to be ready for it."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from npu_tui.record import Progress, RecordClock, RecordError, RecordRequest
from npu_tui.record.file_recording import job_of, record_by_file
from npu_tui.record.outputs import PYTHON, analysed, last_size, opened_of, outputs_below, raw_at
from npu_tui.record.serving import Daemon, record_by_daemon, record_server, record_service
from npu_tui.record.switch import Switch, user_name
from npu_tui.trace.message import Message, message

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


Job = Literal["training", "vllm", "sglang", "mindie", "mindspore"]


class ReadyJob(Struct, frozen=True):
    """How ``job`` is made ready: ``set`` before its start, ``code`` to add to it, ``record`` to record it then.

    ``variable`` is the one of the environment that decides, empty where none does.
    """

    job: Job
    variable: str
    set: str
    code: str
    record: str


JOBS = (
    ReadyJob(
        "training", "PROF_CONFIG_PATH", "export PROF_CONFIG_PATH=/path/DIR", "", "npu-tui record /path/DIR --steps 5"
    ),
    ReadyJob(
        "vllm",
        "",
        'vllm serve MODEL --profiler-config \'{"profiler": "torch", "torch_profiler_dir": "/path/OUT"}\'',
        "",
        "npu-tui record --url http://localhost:8000 --seconds 5 --out /path/OUT",
    ),
    ReadyJob(
        "sglang",
        "SGLANG_TORCH_PROFILER_DIR",
        "export SGLANG_TORCH_PROFILER_DIR=/path/OUT",
        "",
        "npu-tui record --url http://localhost:30000 --steps 5 --out /path/OUT",
    ),
    ReadyJob(
        "mindie",
        "SERVICE_PROF_CONFIG_PATH",
        "export SERVICE_PROF_CONFIG_PATH=/path/FILE.json",
        "",
        "npu-tui record --service /path/FILE.json --seconds 10",
    ),
    ReadyJob(
        "mindspore",
        "",
        "",
        'model.train(..., callbacks=[DynamicProfilerMonitor(cfg_path="/path/DIR")])',
        "npu-tui record /path/DIR --at 100 --steps 5",
    ),
)
"""Every kind of job, in the order in which they are listed."""

ANALYSERS = ("msprof", "msserviceprofiler")
"""The programs that parse raw data."""


class Shell(Struct, frozen=True):
    """What a shell has of it: ``variables`` that are set, by name, and where ``programs`` lie, None if absent."""

    variables: dict[str, str]
    programs: dict[str, str | None]


def shell_of(environment: Mapping[str, str] | None = None) -> Shell:
    """The variables and programs for recordings in ``environment``, by default that of this process."""
    environment = os.environ if environment is None else environment
    names = [*(job.variable for job in JOBS if job.variable), "MSMONITOR_USE_DAEMON"]
    programs = {name: shutil.which(name, path=environment.get("PATH")) for name in ANALYSERS}
    return Shell({name: environment[name] for name in names if environment.get(name)}, programs)


class Readiness(Struct, frozen=True):
    """What was looked at, by ``name``, what was ``found``, and what to do; None where all is well."""

    name: str
    found: Message
    advice: Message | None = None


def looked_at(folder: Path) -> Iterator[Readiness]:
    """What a recording of the job that watches ``folder`` would find."""
    try:
        job = job_of(folder)
        switch = Switch(folder)
    except RecordError as error:
        yield Readiness("switch", message("record.ready.no"), error.message)
        return
    owner = user_name(switch.path.stat().st_uid)
    yield Readiness("switch", message("record.ready.switch", path=str(switch.path), of=switch.framework, owner=owner))
    if job is not None:
        ranks = sorted(job.ranks)
        yield Readiness("ranks", message("record.ready.ranks", count=len(ranks), ranks=ranks[:16]))
    room = shutil.disk_usage(folder).free
    size = last_size(folder / PROFILES)
    if size is None:
        yield Readiness("room", message("record.ready.room", free=room))
    else:
        yield Readiness("room", message("record.ready.room_of", free=room, step=size.of(1, 1)))
