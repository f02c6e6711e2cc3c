"""A job under torch_npu's own dynamic profiling, without torch, CANN or an NPU.

    NPU_TUI_TORCH_NPU=FOLDER python torch_npu_job.py DIR PROFILE [--seconds 60] [--step 0.05]

FOLDER is the package ``torch_npu`` out of its wheel (``pip download torch-npu --no-deps``, then unzip). Its poller, its
shared memory, its logs and its rules about times, steps and ranks run as they are. What they call in torch stands here;
a recording, once it stops, is a copy of PROFILE under the name that the profiler gives it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import sys
import time
import types
from datetime import datetime
from pathlib import Path
from typing import Any

SOURCE = Path(os.environ["NPU_TUI_TORCH_NPU"])
COPIED = Path()


def module(name: str, path: str = "", **held: object) -> types.ModuleType:
    """The module ``name``, a package at ``path`` of torch_npu unless that is empty."""
    made = types.ModuleType(name)
    made.__dict__.update(held)
    if path:
        made.__path__ = [str(SOURCE / path)]
    sys.modules[name] = made
    return made


class Profile:
    """Takes the place of ``torch_npu.profiler.profile``: what it was asked for, and a profile when it stops."""

    def __init__(self, on_trace_ready: Any = None, **asked: Any) -> None:
        self._write = on_trace_ready
        self.metadata: dict[str, str] = {}

    def _set_step_num_offset_for_dynamic_prof(self, step: int) -> None: ...

    def start(self) -> None: ...

    def step(self) -> None: ...

    def add_metadata_json(self, key: str, value: str) -> None:
        self.metadata[key] = value

    def stop(self) -> None:
        self._write(self)


def handler(folder: str, **asked: Any) -> Any:
    """Takes the place of ``tensorboard_trace_handler``: what puts a profile into ``folder``."""

    def write(profile: Profile) -> None:
        time_of = datetime.now().strftime("%Y%m%d%H%M%S%f")[:-3]
        place = Path(folder) / f"{socket.gethostname()}_{os.getpid()}_{time_of}_ascend_pt"
        shutil.copytree(COPIED, place)
        (place / "profiler_info_0.json").write_text("{}")
        (place / "profiler_metadata.json").write_text(json.dumps(profile.metadata))
        (place / "analyse.done").touch()

    return write


class _Anything:
    """Any constant of torch_npu by its own name."""

    def __getattr__(self, name: str) -> str:
        return name


class _Config:
    def __init__(self, **asked: Any) -> None: ...


def stand_in() -> None:
    """Put what torch_npu's dynamic profiling imports where it looks for it."""
    distributed = types.SimpleNamespace(is_available=lambda: False)
    threads = module("torch.multiprocessing", _set_thread_name=lambda name: None)
    module("torch", __version__="2.14.0", distributed=distributed, multiprocessing=threads)
    module("torch_npu", ".")
    module("torch_npu._C")
    activity = types.SimpleNamespace(CPU="CPU", NPU="NPU")
    module("torch_npu._C._profiler", ProfilerActivity=activity).__getattr__ = lambda name: lambda *words, **named: None
    marks = types.SimpleNamespace(range_start=lambda *words: 1, range_end=lambda *words: None)
    module("torch_npu.npu", mstx=marks, current_stream=lambda: None)
    module("torch_npu.profiler", "profiler")
    module("torch_npu.utils", "utils")
    module("torch_npu.profiler.profiler", tensorboard_trace_handler=handler, profile=Profile)
    module("torch_npu.profiler.scheduler", Schedule=lambda **asked: asked)
    levels = {"ProfilerLevel": _Anything(), "AiCMetrics": _Anything()}
    module("torch_npu.profiler.experimental_config", _ExperimentalConfig=_Config, **levels)
    module("torch_npu._init").__path__ = []
    module("torch_npu._init.common").__path__ = []
    module("torch_npu._init.common.warning_utils", _should_print_warning=lambda *words, **named: True)
    module("torch_npu.utils.utils", _is_interactive_command_line=lambda: False)


def main() -> None:
    """Train."""
    global COPIED
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("profile", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--step", type=float, default=0.05)
    options = parser.parse_args()
    COPIED = options.profile
    stand_in()
    from torch_npu.profiler import dynamic_profile

    options.folder.mkdir(parents=True, exist_ok=True)
    dynamic_profile.init(str(options.folder))
    until = time.monotonic() + options.seconds
    while time.monotonic() < until:
        time.sleep(options.step)
        dynamic_profile.step()


if __name__ == "__main__":
    main()
