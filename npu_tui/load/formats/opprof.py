"""What ``msprof op`` measured of one operator: ``OPPROF_*`` folders, which have tables of pipes and no timeline.

Described at https://gitcode.com/Ascend/msopprof, ``docs/en/user_guide/msopprof_performance_data.md``. Where a timeline
of its instructions lies there too, that is what is read.
"""

from __future__ import annotations

from pathlib import Path

from npu_tui.load.errors import InputError
from npu_tui.load.format import Format, Source
from npu_tui.load.opprof import BASIC, DURATION, FILES
from npu_tui.load.survey import Survey
from npu_tui.trace.message import message

_NAMED = 5
"""Folders in a message."""


def _recognise(path: Path, survey: Survey) -> Source | None:
    """The folder ``path``, or the only one in it; a table of one stands for all of it."""

    def is_measured(folder: Path) -> bool:
        return DURATION.encode() in survey.head(folder / BASIC)

    if not path.is_dir():
        alone = path.name in FILES and is_measured(path.parent)
        return Source(path, path.parent, (), None, OPPROF, survey=survey) if alone else None
    found = [folder for folder in (path, *survey.folders(path, "OPPROF_*")) if is_measured(folder)]
    if len(found) > 1:
        names = "  ".join(str(folder) for folder in found[:_NAMED])
        raise InputError(message("input.operators", path=str(path), count=len(found), names=names))
    if not found or survey.glob(found[0], "trace.json"):
        return None
    return Source(path, found[0], (), None, OPPROF, survey=survey)


OPPROF = Format("opprof", _recognise, "text_trace.read_tables", is_folder=True)
