"""Which files record the scheduler of the kernel: texts of ftrace, and databases made of them."""

from __future__ import annotations

import os
import re
from fnmatch import fnmatch
from functools import lru_cache
from pathlib import Path

from npu_tui.trace.side_file import head_of

_HEAD = 64 << 10
_LINE = re.compile(
    rb"# tracer: |^[ \t]*.{1,64}?-\d{1,9}[ \t]+(?:\([ \t]*[\d-]+\)[ \t]+)?\[\d{1,5}\][ \t]+"
    rb"(?:[^\s\d]\S*[ \t]+)?\d{1,9}\.\d{1,9}:[ \t]+\w+:",
    re.MULTILINE,
)
_NAMES = ("trace.txt", "*ftrace*.txt", "*ftrace*.db")
_OTHERS = (".json", ".gz", ".pkl", ".pickle")
_PROFILERS = ("ascend_", "msprof", "msmonitor", "cluster_", "profiler")
"""How the names of databases begin that profilers write: they are many, and opening each takes a while."""


def is_recording(path: Path) -> bool:
    """Whether ``path`` records the scheduler and not a device, by its name and its content."""
    if path.suffix in _OTHERS or not path.is_file():
        return False
    if path.suffix == ".db":
        if path.name.startswith(_PROFILERS):
            return False
        from npu_tui.load.ftrace_database import is_ftrace_database  # most databases are of profilers

        return is_ftrace_database(path)
    return _LINE.search(head_of(path, _HEAD)) is not None


def recording_in(folder: Path) -> Path | None:
    """The recording of the scheduler in ``folder``, a text before what was made of it; None without one."""
    try:
        return _recording_in(folder, folder.stat().st_mtime_ns)
    except OSError:
        return None


@lru_cache(maxsize=16)
def _recording_in(folder: Path, changed: int) -> Path | None:
    """The same, looked for once for all ranks in ``folder`` as long as that has not ``changed``."""
    names = sorted(os.listdir(folder))
    found = (folder / name for pattern in _NAMES for name in names if fnmatch(name, pattern))
    return next((path for path in found if is_recording(path)), None)
