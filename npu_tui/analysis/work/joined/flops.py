"""How many floating point operations matrix products take, by their shapes."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from npu_tui.analysis.work.joined.kernels import KernelTable

F64 = npt.NDArray[np.float64]


def matrix_flops(table: KernelTable) -> F64:
    """Operations of every kernel that is a matrix product, not-a-number for others and unknown shapes; (n,)."""
    found = np.full(len(table), np.nan)
    known: dict[tuple[int, int], float] = {}
    products = np.flatnonzero(table.type.where(lambda kind: "matmul" in kind.lower()))
    for row in products.tolist():
        key = int(table.shapes.code[row]), int(table.outputs.code[row])
        if key not in known:
            known[key] = product_flops(table.shapes.at(row), table.outputs.at(row))
        found[row] = known[key]
    return found


def product_flops(inputs: str | None, outputs: str | None) -> float:
    """Twice the multiplications of a product of the first two of ``inputs`` (``32,64;64,16``) that gives ``outputs``.

    Which side is transposed does not matter: the sizes of both inputs and of the output give the inner axis.
    """
    sides = [_sides(shape) for shape in (inputs or "").split(";")[:2]]
    out = _sides((outputs or "").split(";")[0])
    if len(sides) < 2 or any(side is None or len(side) < 2 for side in (*sides, out)):
        return math.nan
    first, second, result = (side or [] for side in (*sides, out))
    batch = math.prod(result[:-2])
    whole = math.prod(result)
    if not whole or not math.prod(first) or not math.prod(second):
        return 0.0
    inner = math.prod(first) * math.prod(second) * batch / (whole * math.prod(first[:-2]) * math.prod(second[:-2]))
    return 2.0 * whole * math.sqrt(inner)


def _sides(shape: str) -> list[int] | None:
    sides = [side.strip() for side in shape.split(",") if side.strip()]
    return [int(side) for side in sides] if all(side.isdecimal() for side in sides) else None
