"""A profile without its timeline: the tables that torch_npu, MindSpore or msprof wrote beside one.

Tables alone have kernels, steps, collectives and memory, and many are passed on without the large trace. They are
described at
https://www.hiascend.com/document/detail/en/canncommercial/850/devaids/profiling/atlasprofiling_16_0067.html;
``load.companions`` reads them, here is only which of them make a profile.
"""

from __future__ import annotations

import re
from pathlib import Path

from npu_tui.load.companion_schema import is_op_summary
from npu_tui.load.format import MSPROF_OUTPUT, OUTPUT, Format, Source, Survey, rank_above

_DOCUMENTS = "communication.json", "communication_matrix.json"
_TABLE = re.compile(
    r"(?:kernel_details|step_trace_time|op_statistic|api_statistic|operator_details|memory_record|operator_memory"
    r"|npu_module_mem|op_summary.*|task_time.*)\.csv"
)
"""Tables of which any one makes a profile without a trace; msprof appends the time to their names."""


def is_of_tables(folder: Path, survey: Survey) -> bool:
    """Whether tables lie in ``folder`` that make a profile without a trace."""
    try:
        return any(name in _DOCUMENTS or _TABLE.fullmatch(name) for name in survey.names(folder))
    except OSError:
        return False


def _recognise(path: Path, survey: Survey) -> Source | None:
    """The tables of the profile at ``path``, or those beside the file ``path`` if it is one of them."""
    if not path.is_dir():
        rank = rank_above(path, survey)
        is_table = _TABLE.fullmatch(path.name) is not None or (path.suffix == ".csv" and is_op_summary(path, survey))
        return Source(path, path.parent, (), rank, TABLES, survey=survey) if is_table else None
    exports = (child / MSPROF_OUTPUT for child in survey.folders(path, "PROF_*"))
    for folder in (path / OUTPUT, path, path / MSPROF_OUTPUT, *exports):
        if is_of_tables(folder, survey):
            return Source(path, folder, (), rank_above(folder / OUTPUT, survey), TABLES, survey=survey)
    if any(is_op_summary(file, survey) for file in survey.glob(path, "*.csv")):
        return Source(path, path, (), rank_above(path / OUTPUT, survey), TABLES, survey=survey)
    return None


TABLES = Format("companions", _recognise, "text_trace.read_tables", is_folder=True)
