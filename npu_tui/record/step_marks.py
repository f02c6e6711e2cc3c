"""How many steps of a recording under way are over, as the raw data of the framework tell.

The logs of a job name the first step and the last. Between them torch_npu appends each operator that has ended to
``FRAMEWORK/torch.op_range``, among them ``ProfilerStep#<step>``, from the first step after the warm-up on. It writes
hundreds at a time (``torch_npu/csrc/toolkit/profiler/src/data_dumper.cpp``), so more steps may be over than these tell.
"""

from __future__ import annotations

import re
from pathlib import Path

from npu_tui.trace.side_file import open_regular, paths_in

_MARK = re.compile(rb"ProfilerStep#(\d{1,18})\D")
_LONGEST = 32
"""Bytes of a mark of which only the beginning may have been read."""
_MOST_BYTES = 16 << 20
"""Read at one look: a rank records a few MB a second, and what is left over comes with the next look."""


class StepMarks:
    """The marks of steps in the raw data of the profile in ``folder``, read as they are written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}
        self._steps: set[bytes] = set()

    def over(self) -> int:
        """How many steps are over for certain; 0 also where nothing tells."""
        try:
            for path in paths_in(self._folder / "FRAMEWORK"):
                if path.name.endswith(".op_range"):
                    self._look(path)
        except OSError:  # it is not there yet
            pass
        return len(self._steps)

    def _look(self, path: Path) -> None:
        with open_regular(path) as file:
            begin = file.seek(max(self._read.get(path, 0) - _LONGEST, 0))
            content = file.read(_MOST_BYTES)
        self._steps.update(_MARK.findall(content))
        self._read[path] = begin + len(content)
