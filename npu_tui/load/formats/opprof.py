"""What ``msprof op`` measured of one operator: ``OPPROF_*`` folders, which have tables of pipes and no timeline.

Described at https://gitcode.com/Ascend/msopprof, ``docs/en/user_guide/msopprof_performance_data.md``. Where a timeline
of its instructions lies there too, that is what is read.
"""

from __future__ import annotations

from pathlib import Path

from npu_tui.load.format import Format, Source
from npu_tui.load.opprof import BASIC, DURATION, FILES
from npu_tui.load.survey import Survey


def _recognise(path: Path, survey: Survey) -> Source | None:
    folder = path if path.is_dir() else path.parent
    if path != folder and path.name not in FILES:
        return None
    if DURATION.encode() not in survey.head(folder / BASIC) or (path == folder and survey.glob(path, "trace.json")):
        return None
    return Source(path, folder, (), None, OPPROF, survey=survey)


OPPROF = Format("opprof", _recognise, "text_trace.read_tables", is_folder=True)
