"""Recordings of the scheduler of the kernel: texts of ftrace, and databases that MindStudio Insight makes of them.

``trace-cmd report`` and ``/sys/kernel/tracing/trace`` write a line an event, ``<thread>-<id> [<cpu>] <s>: <event>:``:
https://www.kernel.org/doc/html/latest/trace/ftrace.html. One beside a profile says who had the CPU (``load.ftrace``),
one alone is a trace of threads and CPUs.
"""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

from npu_tui.load.format import HEAD, Format, Source, Survey

_LINE = re.compile(
    rb"# tracer: |^[ \t]*.{1,64}?-\d{1,9}[ \t]+(?:\([ \t]*[\d-]+\)[ \t]+)?\[\d{1,5}\][ \t]+"
    rb"(?:[^\s\d]\S*[ \t]+)?\d{1,9}\.\d{1,9}:[ \t]+\w+:",
    re.MULTILINE,
)
_NAMES = ("trace.txt", "*ftrace*.txt", "*ftrace*.db")
_OTHERS = (".json", ".gz", ".pkl", ".pickle")
_PROFILERS = ("ascend_", "msprof", "msmonitor", "cluster_", "profiler")
"""How the names of databases begin that profilers write: they are many, and opening each takes a while."""


def _is_recording(path: Path, survey: Survey) -> bool:
    """Whether the file ``path`` records the scheduler and not a device, by its name and its content."""
    if path.suffix in _OTHERS:
        return False
    if path.suffix == ".db":
        if path.name.startswith(_PROFILERS):
            return False
        from npu_tui.load.ftrace import is_ftrace_database  # most databases are of profilers

        return is_ftrace_database(path)
    return _LINE.search(survey.head(path, HEAD)) is not None


def recording_in(folder: Path, survey: Survey) -> Path | None:
    """The recording of the scheduler in ``folder``, a text before what was made of it; None without one."""
    try:
        names = survey.names(folder)
    except OSError:
        return None
    found = (folder / name for pattern in _NAMES for name in names if fnmatch(name, pattern))
    return next((path for path in found if path.is_file() and survey.answer(_is_recording, path)), None)


def _recognise(path: Path, survey: Survey) -> Source | None:
    """The recording at ``path``: the file itself, or the one in the folder."""
    if path.is_dir():
        recording = recording_in(path, survey)
    else:
        recording = path if path.is_file() and survey.answer(_is_recording, path) else None
    return None if recording is None else Source(path, recording, (recording,), None, FTRACE, survey=survey)


FTRACE = Format("ftrace", _recognise, "ftrace.read_ftrace_trace", is_profile=False)
