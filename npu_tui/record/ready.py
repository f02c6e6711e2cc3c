"""What to set so that a job can be recorded while it runs, and whether one that watches a folder can be now."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from npu_tui.record.file_recording import job_of
from npu_tui.record.outputs import last_size
from npu_tui.record.progress import RecordError
from npu_tui.record.recording import PROFILES
from npu_tui.record.switch import Switch, user_name
from npu_tui.trace.message import Message, message

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
"""Every kind of job, in the order in which they are told."""

ANALYSERS = ("msprof", "msserviceprofiler")
"""The programs that parse raw data."""


class Shell(Struct, frozen=True):
    """What of it a shell has: ``variables`` that are set, by name, and where ``programs`` lie, None if absent."""

    variables: dict[str, str]
    programs: dict[str, str | None]


def shell_of(environment: Mapping[str, str] | None = None) -> Shell:
    """What ``environment``, that of this process if None, has."""
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
