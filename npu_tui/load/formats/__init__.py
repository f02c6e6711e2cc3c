"""All formats of traces that are read, a file each.

A file declares one `Format`; outputs that are no trace, those of cluster analyses and files of experts, say which
files they are. Readers lie in ``load``, and are imported when something of their format is read.
"""

from __future__ import annotations

from npu_tui.load.format import Format
from npu_tui.load.formats.chrome import CHROME, KINETO, MSPROF, TORCH_NPU
from npu_tui.load.formats.database import DATABASE, MSMONITOR
from npu_tui.load.formats.ftrace import FTRACE
from npu_tui.load.formats.memory import MEMORY
from npu_tui.load.formats.opprof import OPPROF
from npu_tui.load.formats.service import SERVICE
from npu_tui.load.formats.tables import TABLES

FORMATS: tuple[Format, ...] = (
    TORCH_NPU,
    MSPROF,
    KINETO,
    SERVICE,
    OPPROF,
    TABLES,
    FTRACE,
    MEMORY,
    DATABASE,
    MSMONITOR,
    CHROME,
)
"""In order of precedence: the first one that recognises a file or a folder reads it.

Timelines that are known by their names come first: no other format looks into what is no database.
"""
