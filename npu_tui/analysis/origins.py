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
from npu_tui.trace.arrays import I64
from npu_tui.trace.frames import BETWEEN
from npu_tui.trace.kineto import is_kineto
from npu_tui.trace.model import Trace

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
    called = _of_category(trace, _OPERATION)
    operation = _around(trace, launches, called)
    if not is_kineto(trace):  # ``aclnnAddmm`` launches for ``aten::addmm``
        outer = _around(
            trace, launches, called & np.array(["::" in name for name in trace.names] + [False])[trace.slices.name]
        )
        operation = np.where(outer >= 0, outer, operation)
    names = [trace.name_of(item) if item >= 0 else None for item in operation.tolist()]
    named = np.array([name.startswith(MODULE) for name in trace.names] + [False])[trace.slices.name]
    lines: dict[CodeLine, int] = {}
    line = [-1 if code is None else lines.setdefault(code, len(lines)) for code in _code_lines(trace, launches)]
    return Origins(
        Coded.of(names),
        Coded.of(_shapes(operation, shapes_of)),
        Coded.of("/".join(reversed(chain)).replace(MODULE, "") or None for chain in _chains(trace, launches, named)),
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


def _code_lines(trace: Trace, launches: I64) -> Iterator[CodeLine | None]:
    if is_kineto(trace):  # its stacks are of user frames and end where a recursion is too deep
        yield from map(model_line, _chains(trace, launches, _of_category(trace, _FRAME)))
        return
    stack = stack_of(trace, launches)
    known: dict[int, CodeLine | None] = {-1: None}
    for code in stack.tolist():
        if code not in known:
            known[code] = model_line(trace.stacks[code].split(BETWEEN[0]))
        yield known[code]


def _chains(trace: Trace, items: I64, chosen: npt.NDArray[np.bool_]) -> Iterator[tuple[str, ...]]:
    """The names of the ``chosen`` slices around each of ``items``, the innermost first."""
    slices, around = trace.slices, Around(trace, chosen)
    parents = around.parents()
    inner = around.find(slices.lane[items], slices.start[items], slices.end[items])
    known: dict[int, tuple[str, ...]] = {-1: ()}
    for at in np.where(inner >= 0, np.searchsorted(around.items, inner), -1).tolist():
        open_ = []
        while at not in known:
            open_.append(at)
            at = int(parents[at])
        for at in reversed(open_):
            known[at] = (trace.name_of(int(around.items[at])), *known[int(parents[at])])
        yield known[at]
