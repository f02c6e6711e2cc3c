"""The part of a profile that a question is about, values that all parts share, and the kind of what was opened.

The kind of file or folder that a user opened comes from discovery and the layers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from msgspec import Struct

from npu_tui.analysis.device import EVERYTHING, Window
from npu_tui.load.find import Source
from npu_tui.load.kineto import is_graph
from npu_tui.trace.kineto import runtime_calls
from npu_tui.trace.model import Trace
from npu_tui.trace.once import once
from npu_tui.trace.recorder import recorder_of
from npu_tui.trace.text import parse_duration

if TYPE_CHECKING:
    from npu_tui.analysis.steps import Step

T = TypeVar("T")
P = TypeVar("P", bound="Parted")


class shared(once[T]):  # noqa: N801 - like ``once``
    """A value that does not depend on the window: it is computed once for a profile and all its parts."""

    @overload
    def __get__(self, instance: None, owner: type) -> shared[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None or instance.whole is instance:
            return super().__get__(instance, owner)
        return getattr(instance.whole, self._name)

    def is_known(self, instance: Any) -> bool:
        """Whether the value of ``instance`` is there at once."""
        return super().is_known(instance.whole)


class Selection(Struct, frozen=True):
    """Which part of a profile a question is about: a window and, where it is that of one step, its number.

    A range cuts overlap and Free at its edges; launches, kernels and collectives belong to it if they start inside.
    """

    window: Window = EVERYTHING
    step: int | None = None


WHOLE_TRACE = Selection()
_MOST_PARTS = 8
"""Ranges that a user marks come and go; the last ones stay measured."""


class Parted(ABC):
    """Answers for the whole or for parts; each part is measured once."""

    def __init__(self) -> None:
        self.selection = self.usual = WHOLE_TRACE  # ``usual`` is what is asked about where nothing else is said
        self._whole: Parted | None = None  # a reference to itself would keep a large trace until the next collection
        self._parts: OrderedDict[Selection, Parted] = OrderedDict()
        self._parts_lock = Lock()

    @abstractmethod
    def _again(self) -> Parted:
        """The same part, with nothing measured yet."""

    @property
    def whole(self: P) -> P:
        """The profile of the whole trace."""
        return self if self._whole is None else cast(P, self._whole)

    @property
    def window(self) -> Window:
        """The time that is selected, ns."""
        return self.selection.window

    @property
    def step(self) -> int | None:
        """The number of the step that is selected, None for a range or everything."""
        return self.selection.step

    def part(self: P, selection: Selection) -> P:
        """The part that ``selection`` names, measured once as long as it is among the last that were asked for."""
        whole = self.whole
        if selection == WHOLE_TRACE:
            selection = whole.usual
        if selection == WHOLE_TRACE:
            return whole
        with whole._parts_lock:
            part = whole._parts.pop(selection, None)
            if part is None:
                part = self._again()
                part.selection, part._whole = selection, whole
            whole._parts[selection] = part  # the last one asked for goes to the end
            while len(whole._parts) > _MOST_PARTS:
                whole._parts.popitem(last=False)
            return cast(P, part)


def parse_range(text: str) -> Selection | None:
    """The range in a text such as ``12ms..14ms`` (either end may be left out); None if it is no range."""
    first, dots, last = text.partition("..")
    start = parse_duration(first) if first.strip() else EVERYTHING.start
    end = parse_duration(last) if last.strip() else EVERYTHING.end
    if not dots or start is None or end is None or start >= end:
        return None
    return Selection(Window(start, end))


def select_step(steps: Sequence[Step], number: int) -> Selection | None:
    """The time on the device of ``ProfilerStep#number``; None without that step, or if it launched nothing."""
    window = next((step.window for step in steps if step.number == number), None)
    return None if window is None else Selection(window, number)


PROFILES = (
    "trace_view_json", "msprof_json", "profile_directory", "database", "kineto", "chrome_trace", "msmonitor", "opprof",
)  # fmt: skip
"""What profiles and traces of other tools are; any other has the name of its subject as its kind."""

# Formats whose files are of the kind of the same name.
_NAMED = frozenset({"trace_view_json", "msprof_json", "msmonitor"})

# Layers that only profiles of an NPU have.
_OF_NPU = frozenset({"Ascend Hardware", "Overlap Analysis", "HCCL", "Communication"})


def kind_of(trace: Trace, source: Source | None) -> str:
    """What the user opened, or the database that was found there: by discovery, else by the layers of ``trace``."""
    if source is not None and source.format.form == "db":
        return source.kind if source.kind in _NAMED else "database"
    if written := trace.nature.kind or recorder_of(trace).kind:
        return written
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
