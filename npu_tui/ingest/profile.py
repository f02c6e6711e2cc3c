"""Where the trace lies in a profile directory, and whose it is."""

from __future__ import annotations

import re
from pathlib import Path

from npu_tui.ingest.errors import InputError

_OUTPUT = "ASCEND_PROFILER_OUTPUT"
_TRACE = "trace_view.json"
_INFO = re.compile(r"profiler_info_(\d{1,5})\.json")


def find_trace(path: Path) -> Path:
    """The file of events at ``path``: itself, or the one ``trace_view.json`` of a profile directory.

    Raises ``InputError`` if nothing is there or a directory holds no or several traces.
    """
    if not path.exists():
        raise InputError(f"{path}: no such file or directory; give a trace_view.json or a profile directory")
    if not path.is_dir():
        return path
    for known in (path / _OUTPUT / _TRACE, path / _TRACE):
        if known.is_file():
            return known
    found = sorted(path.glob(f"*/{_OUTPUT}/{_TRACE}"))
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(f"{path}: holds {len(found)} traces; give one of them, such as {found[0]}")
    raise InputError(f"{path}: no {_OUTPUT}/{_TRACE} in this directory; give a trace_view.json")


def rank_of(file: Path) -> int | None:
    """The rank named by the first ``profiler_info_<rank>.json`` two directories up, as torch_npu lays profiles out."""
    try:
        infos = sorted(file.resolve().parent.parent.iterdir())
    except OSError:
        return None
    for info in infos:
        match = _INFO.fullmatch(info.name)
        if match:
            return int(match[1])
    return None
