"""Where launches come from: the operation, the shapes of its inputs, the modules around it and the line of code.

Of torch_npu a launch is an operation with a call stack. Of Kineto it is a call of the runtime: operation, modules and
frames of Python are the slices around it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.code_lines import CodeLine, model_line, stack_of
from npu_tui.analysis.kernels import Coded
from npu_tui.analysis.launches import Around
from npu_tui.analysis.modules import MODULE, ShapesOf
from npu_tui.trace.model import Trace

I64 = npt.NDArray[np.int64]

_OPERATION, _FRAME = "cpu_op", "python_function"


class Origins(Struct, frozen=True):
    """Where each of some launches comes from; (n,) each, -1 where it is not known.

    ``module`` is the path of names, ``Model_0/Layer_3/Linear_1``; ``line`` indexes ``lines``.
    """

    operation: Coded
    shapes: Coded
    module: Coded
    line: I64
    lines: list[CodeLine]

    @property
    def is_known(self) -> bool:
        """Whether anything is known of any launch."""
        return self.operation.is_known or self.module.is_known or bool((self.line >= 0).any())


def origins(trace: Trace, launches: I64, shapes_of: ShapesOf) -> Origins:
    """Where the slices ``launches`` come from: operations that launch kernels, or calls of the runtime."""
    slices = trace.slices
    operation = _around(trace, launches, _of_category(trace, _OPERATION))
    names = [trace.name_of(item) if item >= 0 else None for item in operation.tolist()]
    modules = _Chains(trace, np.array([name.startswith(MODULE) for name in trace.names] + [False])[slices.name])
    lines: dict[CodeLine, int] = {}
    line = [-1 if code is None else lines.setdefault(code, len(lines)) for code in _lines(trace, launches, operation)]
    return Origins(
        Coded.of(names),
        Coded.of(_shapes(operation, shapes_of)),
        Coded.of("/".join(chain[::-1]) or None for chain in modules.of(launches, MODULE)),
        np.array(line, np.int64),
        list(lines),
    )


def _of_category(trace: Trace, name: str) -> npt.NDArray[np.bool_]:
    if name not in trace.categories:
        return np.zeros(len(trace.slices), np.bool_)
    return np.asarray(trace.slices.category == trace.categories.index(name))


def _around(trace: Trace, items: I64, chosen: npt.NDArray[np.bool_]) -> I64:
    """Each of ``items`` that is ``chosen``, else the innermost chosen slice around it; -1 without one."""
    slices = trace.slices
    found = Around(trace, chosen).find(slices.lane[items], slices.start[items], slices.end[items])
    return np.where(chosen[items], items, found)


def _shapes(operation: I64, shapes_of: ShapesOf) -> Iterator[str | None]:
    """Kineto has lists of shapes, torch_npu a text."""
    known = np.flatnonzero(operation >= 0)
    values = dict(zip(known.tolist(), shapes_of(operation[known]), strict=True))
    for shapes in map(values.get, range(len(operation))):
        if isinstance(shapes, list):
            shapes = ";".join(",".join(map(str, shape)) if isinstance(shape, list) else "" for shape in shapes)
        yield shapes if isinstance(shapes, str) and shapes else None


def _lines(trace: Trace, launches: I64, operation: I64) -> Iterator[CodeLine | None]:
    stack = stack_of(trace, np.where(operation >= 0, operation, launches))
    if not (stack >= 0).any():
        yield from map(model_line, _Chains(trace, _of_category(trace, _FRAME)).of(launches))
        return
    known: dict[int, CodeLine | None] = {-1: None}
    for code in stack.tolist():
        if code not in known:
            known[code] = model_line(trace.stacks[code].split(";"))
        yield known[code]


class _Chains:
    """The ``chosen`` slices around others, one in the other."""

    def __init__(self, trace: Trace, chosen: npt.NDArray[np.bool_]) -> None:
        self._trace = trace
        self._around = Around(trace, chosen)
        self._parents = self._around.parents()
        self._known: dict[int, tuple[str, ...]] = {-1: ()}

    def of(self, items: I64, prefix: str = "") -> Iterator[tuple[str, ...]]:
        """The names around each of ``items`` without ``prefix``, the innermost first."""
        slices = self._trace.slices
        inner = self._around.find(slices.lane[items], slices.start[items], slices.end[items])
        place = np.where(inner >= 0, np.searchsorted(self._around.items, inner), -1)
        for at in place.tolist():
            open_ = []
            while at not in self._known:
                open_.append(at)
                at = int(self._parents[at])
            for at in reversed(open_):
                name = self._trace.name_of(int(self._around.items[at])).removeprefix(prefix)
                self._known[at] = (name, *self._known[int(self._parents[at])])
            yield self._known[at]
