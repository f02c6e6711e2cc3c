"""What a user has opened: the kind of file or folder, as discovery and the layers tell."""

from __future__ import annotations

from npu_tui.load.find import Source
from npu_tui.load.kineto import is_graph
from npu_tui.trace.kineto import is_kineto, runtime_calls
from npu_tui.trace.model import Trace
from npu_tui.trace.nature import PROFILE

PROFILES = (
    "trace_view_json", "msprof_json", "profile_directory", "database", "kineto", "chrome_trace", "msmonitor", "opprof",
)  # fmt: skip
"""What profiles and traces of other tools are; all else is of the kind that its subject is called."""

FOREIGN = frozenset({"chrome_trace", "opprof"})
"""What has lanes and names, or one kernel, but no device whose time could be judged."""

_NAMED = frozenset({"trace_view_json", "msprof_json", "msmonitor"})
"""Formats whose files are of the kind that is called so."""

_OF_NPU = frozenset({"Ascend Hardware", "Overlap Analysis", "HCCL", "Communication"})
"""Layers that only profiles of an NPU have."""


def kind_of(trace: Trace, source: Source | None) -> str:
    """What the user opened, or the database that was found there: by discovery, else by the layers of ``trace``."""
    if source is not None and source.format.form == "db":
        return source.kind if source.kind in _NAMED else "database"
    if trace.nature.subject != PROFILE.subject:
        return trace.nature.subject
    if is_kineto(trace):
        return "kineto"
    if source is not None and source.kind == "opprof":
        return "opprof"
    kinds = {layer.name for layer in trace.layers}
    is_other = source is not None and source.kind == "json" and not kinds & _OF_NPU
    if source is not None and (source.is_directory or source.format.is_folder) and not is_other:
        return "profile_directory"
    if source is not None and source.kind in _NAMED:
        return source.kind
    if kinds and all(map(is_graph, kinds)):
        return "graph_dump"
    if not kinds & _OF_NPU:
        # Kineto without its device: operations, or calls of a runtime, and nothing that they launched.
        return "kineto" if len(runtime_calls(trace)) or "cpu_op" in trace.categories else "chrome_trace"
    return "trace_view_json" if any(layer.kind == "python" for layer in trace.layers) else "msprof_json"
