"""Any other text of trace events, under any name: Chrome's Trace Event Format, as many tools write it.

https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU. An array of events, or an object with
``traceEvents``; packed by gzip too. What is not recognised as anything else is read as this, so that its reader says
what is wrong with it. In a folder only files count that begin so.
"""

from __future__ import annotations

import re
import zlib
from pathlib import Path

from npu_tui.load.format import HEAD, Files, Format, Source, Survey, named, rank_above, rank_of
from npu_tui.load.unpack import MAGIC

# Traces that somebody has copied out of their profiles, such as ``trace_view_rank0.json``.
_COPIED = re.compile(r"(?=.*trace)(?:.*trace_view.*|.*rank[_-]?\d.*)\.json(?:\.gz)?", re.IGNORECASE)
# Files that may be traces under names of somebody's own.
_ANY = re.compile(r"(?!profiler_|communication|cluster_|chrome_tracing\.).*\.json(?:\.gz)?")
_BEGINS = re.compile(rb'\s*(?:\xef\xbb\xbf)?[\[{].*?"(?:ph|traceEvents|schemaVersion|distributedInfo)"\s*:', re.DOTALL)


def _traces(folder: Path, survey: Survey) -> list[Files]:
    return [(file,) for file in named(folder, survey, _COPIED)]


def named_otherwise(folder: Path, survey: Survey) -> list[Path]:
    """The files in ``folder`` that may be traces under names of somebody's own, by name."""
    return named(folder, survey, _ANY) if folder.is_dir() else []


def begins_as_trace(file: Path, survey: Survey) -> bool:
    """Whether ``file`` begins as a text of events does; not where it cannot be read."""
    head = survey.head(file, HEAD)
    if head.startswith(MAGIC):
        try:
            head = zlib.decompressobj(31).decompress(head, HEAD)
        except zlib.error:
            return False
    return _BEGINS.match(head) is not None


def rank_in(path: Path, survey: Survey) -> int | None:
    """The rank of a trace by the folders around it, by what Kineto says in it, or by its name."""
    rank = rank_above(path, survey)
    if rank is None and path.is_file():
        from npu_tui.load.kineto import distributed  # most traces are of an NPU

        rank = survey.told(distributed, path).rank
    return rank_of(path, survey) if rank is None else rank


def _recognise(path: Path, survey: Survey) -> Source:
    return Source(path, path, (path,), rank_in(path, survey), CHROME, survey=survey)


CHROME = Format("json", _recognise, "text_trace.read_other", _traces, "text")
