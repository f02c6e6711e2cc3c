"""The text timeline of torch_npu and MindSpore: ``trace_view.json``, a Chrome trace.

It lies in ``ASCEND_PROFILER_OUTPUT`` of a folder a rank (``..._ascend_pt``, ``..._ascend_ms``), with tables beside it
and ``profiler_info_<rank>.json`` above:
https://www.hiascend.com/document/detail/en/canncommercial/850/devaids/profiling/atlasprofiling_16_0056.html.
A copy under a longer name (``trace_view_rank0.json``) is read alike.
"""

from __future__ import annotations

import re
from pathlib import Path

from npu_tui.load.format import JSON, Files, Format, Source, Survey, form_of, named, rank_of

_NAME = re.compile(r"trace_view\.json(?:\.gz)?")


def _traces(folder: Path, survey: Survey) -> list[Files]:
    return [(file,) for file in named(folder, survey, _NAME)[:1]]


def _recognise(path: Path, survey: Survey) -> Source | None:
    if not path.name.startswith("trace_view") or not path.name.endswith(JSON) or form_of(path, survey) != "text":
        return None
    return Source(path, path, (path,), rank_of(path, survey), TORCH_NPU, survey=survey)


TORCH_NPU = Format("trace_view_json", _recognise, "text_trace.read_or_tables", _traces, "text")
