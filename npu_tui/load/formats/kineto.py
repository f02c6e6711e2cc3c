"""Traces of PyTorch's own profiler (Kineto), of GPUs and CPUs: ``<worker>.<time>.pt.trace.json``, a Chrome trace.

https://github.com/pytorch/kineto/blob/main/tb_plugin/README.md; verl calls them ``prof_rank-0_031847.json.gz``. They
are read for comparisons with a GPU: what Kineto leaves out, ``load.kineto`` adds to every trace that looks like one,
whatever its name.
"""

from __future__ import annotations

import re
from pathlib import Path

from npu_tui.load.format import Files, Format, Source, Survey, form_of, named
from npu_tui.load.formats.chrome import rank_in

NAME = re.compile(r".*\.pt\.trace\.json(?:\.gz)?")
_VERL = re.compile(r"(?:.*_)?prof_rank[-_]\d.*\.json(?:\.gz)?")


def _traces(folder: Path, survey: Survey) -> list[Files]:
    return [(file,) for file in named(folder, survey, NAME, _VERL)]


def _recognise(path: Path, survey: Survey) -> Source | None:
    named_so = NAME.fullmatch(path.name) or _VERL.fullmatch(path.name)
    if not named_so or form_of(path, survey) != "text":
        return None
    return Source(path, path, (path,), rank_in(path, survey), KINETO, survey=survey)


KINETO = Format("json", _recognise, "text_trace.read_other", _traces, "text")
