"""What became of every file that may lie beside a trace."""

from __future__ import annotations

from msgspec import Struct

from npu_tui.ingest.companions.documents import Document
from npu_tui.ingest.companions.files import Companions
from npu_tui.ingest.companions.reading import State
from npu_tui.profile.tables import Tables
from npu_tui.trace.message import Message, message

FILES = (
    "kernel_details.csv", "op_statistic.csv", "api_statistic.csv", "operator_details.csv", "step_trace_time.csv",
    "memory_record.csv", "operator_memory.csv", "npu_module_mem.csv", "static_op_mem.csv", "l2_cache.csv",
    "communication.json", "communication_matrix.json", "data_preprocess.csv", "nic.csv", "roce.csv", "pcie.csv",
    "hccs.csv", "profiler_info.json", "profiler_metadata.json",
)  # fmt: skip
"""What may lie beside a trace; ``summary.tells.<file>`` says what it tells, ``summary.makes.<file>`` what makes it."""


class FileState(Struct, frozen=True):
    """The file ``name``: how far it could be read, its ``rows`` (None for settings), and what is wrong with it."""

    name: str
    state: State
    rows: int | None
    problems: tuple[Message, ...]


def file_states(companions: Companions | None, tables: Tables) -> list[FileState]:
    """Every file of ``FILES``; those that are there are read for the answer."""
    return [_state(name, companions, tables) for name in FILES] if companions is not None else []


def _state(name: str, companions: Companions, tables: Tables) -> FileState:
    stem, _, kind = name.rpartition(".")
    if stem in ("profiler_info", "profiler_metadata"):
        document = companions.info_state if stem == "profiler_info" else companions.metadata_state
        return FileState(name, document.state, None, _problems(name, document))
    if kind == "csv":
        if not tables.has(stem):
            return FileState(name, "missing", 0, ())
        reading = tables.table(stem)
    elif tables.lacks_communication if stem == "communication" else tables.lacks_matrix:
        return FileState(name, "missing", 0, ())
    else:
        reading = tables.communication if stem == "communication" else tables.matrix
    return FileState(
        name, reading.state, len(reading.frame), () if reading.state == "missing" else tuple(reading.messages)
    )


def _problems(name: str, document: Document) -> tuple[Message, ...]:
    if document.state in ("read", "missing"):
        return ()
    if document.state == "unreadable":
        return (message("companion.unreadable", name=name, why=document.why),)
    return (message("companion.cut_short" if document.state == "cut_off" else "companion.empty", name=name),)
