"""What to set so that a job can be recorded while it runs, and what of it this shell has."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

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
