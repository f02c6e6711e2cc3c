"""The operator class of a slice: what a bar's colour and texture stand for.

The names come from the layers of torch_npu's and msprof's writers (``trace_view.json``); kernels are told apart by
the operator type in their name, as the text trace labels cube and vector kernels alike.
"""

from __future__ import annotations

import re
from enum import IntEnum

from npu_tui.trace.model import LayerKind


class OpClass(IntEnum):
    """Classes in the order of the palette."""

    FRAME = 0
    OP = 1
    QUEUE = 2
    CANN = 3
    CUBE = 4
    VECTOR = 5
    COMMUNICATION = 6
    MEMORY = 7
    WAIT = 8
    OTHER = 9
    STEP = 10


_CUBE = re.compile(r"matmul|gemm|conv\d?d|flashattention|attentionscore|_bmm|_mm(?![a-z])", re.IGNORECASE)
_DEVICE_MEMORY = re.compile(
    r"memcpy|memset|sdma|transdata|tensormove|transpose|(?:^|_)cast\d*(?:_|$)|cast(?:aicore)?\d*$", re.IGNORECASE
)
_DEVICE_WAIT = re.compile(r"event[_ ]wait|notify[_ ]wait|placeholder|place_holder", re.IGNORECASE)
_DEVICE_SIGNAL = re.compile(r"event[_ ]record|notify[_ ]record|write[_ ]value|profiling_", re.IGNORECASE)
_HOST_WAIT = re.compile(r"synchronize|_local_scalar_dense", re.IGNORECASE)
_STEP_PREFIX = "ProfilerStep#"
_STEP = re.compile(_STEP_PREFIX + r"\d{1,18}")


def step_number(name: str) -> str | None:
    """The N of a ``ProfilerStep#N`` name as text, else None."""
    if not name.startswith(_STEP_PREFIX):  # most names are not, and a prefix is told sooner
        return None
    return name.removeprefix(_STEP_PREFIX) if _STEP.fullmatch(name) else None


def classify(kind: LayerKind, category: str, name: str) -> OpClass:
    """The class of the slices called ``name`` with ``category`` in a layer of ``kind``."""
    if kind == "python" or kind == "other":
        return _host_class(category, name)
    if kind == "cann":
        return OpClass.WAIT if _HOST_WAIT.search(name) else OpClass.CANN
    if kind == "overlap":
        if name == "Free":
            return OpClass.WAIT
        return OpClass.CUBE if name == "Computing" else OpClass.COMMUNICATION
    return _device_class(kind, name)


def _host_class(category: str, name: str) -> OpClass:
    if category == "python_function":
        return OpClass.FRAME
    if category in ("enqueue", "dequeue"):
        return OpClass.QUEUE
    if _STEP.fullmatch(name):
        return OpClass.STEP
    if _HOST_WAIT.search(name):
        return OpClass.WAIT
    return OpClass.OP if category == "cpu_op" else OpClass.OTHER


def _device_class(kind: LayerKind, name: str) -> OpClass:
    if _DEVICE_WAIT.search(name):
        return OpClass.WAIT
    if kind == "communication":
        return OpClass.MEMORY if name == "Memcpy" else OpClass.COMMUNICATION
    if _DEVICE_SIGNAL.search(name):
        return OpClass.OTHER
    if _DEVICE_MEMORY.search(name):
        return OpClass.MEMORY
    if name.startswith(("hcom_", "Reduce_Inline")):
        return OpClass.COMMUNICATION
    return OpClass.CUBE if _CUBE.search(name) else OpClass.VECTOR
