"""Kernels as a table: durations, shapes and metrics from kernel_details.csv, floating-point work, chip peaks.

Floating-point operations of fused attention follow from the shapes of its kernels.

Forward: two products of 2 · B · N · d · scores each; backward: five, so 2.5 times as many. Scores are Sq · Sk, or half
of them with the compressed causal mask of 2048 x 2048. Source: aclnnFlashAttentionScore (CANN), sparse modes 2 and 3.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate

import numpy as np
from msgspec import Struct

from npu_tui.analysis.limits import ENOUGH, SIGMAS
from npu_tui.trace.arrays import F64, I64, Bools, distinct
from npu_tui.trace.model import CORE_CLOCK, Counters, Trace
from npu_tui.trace.text import LONGEST, decimal_number

SIZES = {
    "DOUBLE": 8, "INT64": 8, "UINT64": 8, "COMPLEX64": 8, "COMPLEX128": 16, "FLOAT": 4, "FLOAT32": 4, "INT32": 4,
    "UINT32": 4, "FLOAT16": 2, "HALF": 2, "BF16": 2, "BFLOAT16": 2, "INT16": 2, "UINT16": 2, "INT8": 1, "UINT8": 1,
    "BOOL": 1, "FLOAT8_E4M3FN": 1, "FLOAT8_E5M2": 1, "HIFLOAT8": 1, "INT4": 0.5,
}  # fmt: skip
"""Bytes of an element by the data type that kernel_details.csv names, with ``DT_`` or without."""

# Data types that few AI core operators support; others run on the AI CPU (msprof-analyze advisor: AICPU).
_WIDE = ("DOUBLE", "INT64", "UINT64", "COMPLEX64", "COMPLEX128")

# Where equal calls agree to a few ns three quartile ranges are nothing: a call must also take half as long again.
_OUTLIER_RATIO = 1.5


def is_wide(kinds: str) -> bool:
    """Whether any data type of a kernel (``FLOAT;DT_INT64``) is one that few AI core operators support."""
    return any(kind.strip(' "').upper().removeprefix("DT_") in _WIDE for kind in kinds.split(";"))


class Coded(Struct, frozen=True):
    """One text per kernel, dictionary-encoded: ``values[code]``, unknown where the code is -1; (n,)."""

    values: list[str]
    code: I64

    @classmethod
    def of(cls, texts: Iterable[str | None]) -> Coded:
        """``texts`` encoded, the distinct ones in order of first occurrence; None is unknown."""
        known: dict[str, int] = {}
        code = [-1 if text is None else known.setdefault(text, len(known)) for text in texts]
        return cls(list(known), np.array(code, np.int64))

    def at(self, index: int) -> str | None:
        """The text of the kernel at ``index``, None if unknown."""
        code = int(self.code[index])
        return None if code < 0 else self.values[code]

    def where(self, rule: Callable[[str], bool]) -> Bools:
        """Which kernels have a text that passes ``rule``; (n,)."""
        mask = np.array([rule(value) for value in self.values] + [False], np.bool_)
        return mask[self.code]

    def taken(self, index: I64) -> Coded:
        """The texts of the kernels at ``index``."""
        return Coded(self.values, self.code[index])

    @property
    def is_known(self) -> bool:
        """Whether any kernel has a text."""
        return bool((self.code >= 0).any())


_FASTEST = 10_000.0
"""GB/s. No memory of these chips is as fast: HBM has 1,600 on 910B and 4,000 on 950DT (Huawei's roadmap of 2025).

What seems to be takes a few rows of a table or a cache whose whole shape is recorded.
"""


class KernelTable(Struct, frozen=True):
    """The kernels by start: ``start``, ``duration`` and ``wait`` in ns; all columns are (n,).

    ``item`` is the slice of each kernel, -1 for a row of kernel_details.csv without one. ``wait`` is how long no stream
    ran anything before it; the first has 0. ``ratios`` are busy shares of the core's pipes by ``mte2``, ``mac`` and
    ``vec``, not-a-number where unknown. ``bytes`` is the memory traffic if each tensor is read or written once.
    ``details`` are all cells of the kernel's row by column name.
    """

    item: I64
    start: I64
    duration: I64
    wait: I64
    name: Coded
    type: Coded
    core: Coded
    shapes: Coded
    dtypes: Coded
    formats: Coded
    outputs: Coded
    block_dim: F64
    bytes: F64
    ratios: dict[str, F64]
    hit_rate: F64
    details: dict[str, Coded] = {}

    def __len__(self) -> int:
        return len(self.start)

    @property
    def speed(self) -> F64:
        """GB/s of each kernel; not-a-number where shapes or types are unknown, or say more than it moves."""
        speeds: F64 = np.divide(self.bytes, self.duration, out=np.full(len(self), np.nan), where=self.duration > 0)
        return np.where(speeds <= _FASTEST, speeds, np.nan)

    def tensors_of(self, row: int) -> tuple[str, str | None, str | None]:
        """The type of the kernel at ``row``, the shapes of what it reads and of what it writes."""
        return self.type.at(row) or "", self.shapes.at(row), self.outputs.at(row)

    def of_slices(self, items: I64) -> KernelTable:
        """The kernels of the slices ``items``, in that order; the table must have all of them."""
        if np.array_equal(items, self.item):
            return self
        order = np.argsort(self.item, kind="stable")
        return self.taken(order[np.searchsorted(self.item[order], items)])

    def taken(self, index: I64) -> KernelTable:
        """The kernels at ``index``."""
        return KernelTable(
            self.item[index], self.start[index], self.duration[index], self.wait[index], self.name.taken(index),
            self.type.taken(index), self.core.taken(index), self.shapes.taken(index), self.dtypes.taken(index),
            self.formats.taken(index), self.outputs.taken(index), self.block_dim[index], self.bytes[index],
            {name: values[index] for name, values in self.ratios.items()}, self.hit_rate[index],
            {name: coded.taken(index) for name, coded in self.details.items()},
        )  # fmt: skip

    def measured(self, column: str) -> F64:
        """``column`` of kernel_details.csv as numbers, not-a-number where a cell is not one; (n,)."""
        if column not in self.details:
            return np.full(len(self), np.nan)
        return _numbers(self.details[column])

    def outliers(self) -> Bools:
        """Which kernels took far longer than others of their type, shapes and data types; (n,).

        An outlier is beyond the third quartile by three interquartile ranges (Tukey's outer fence) and takes 1.5 times
        the median, in a group of five or more.
        """
        mask = np.zeros(len(self), np.bool_)
        # Without known shapes a long duration may just be more work.
        known = np.flatnonzero((self.shapes.code >= 0) & (self.type.code >= 0))
        if not len(known):
            return mask
        key = self.type.code[known] * (len(self.shapes.values) + 1) + self.shapes.code[known]
        key = key * (len(self.dtypes.values) + 1) + self.dtypes.code[known] + 1
        groups = Groups(key, self.duration[known])
        low, middle, high = (groups.percentile(percent) for percent in (25.0, 50.0, 75.0))
        limit = np.maximum(high + SIGMAS * (high - low), _OUTLIER_RATIO * middle)
        limit[groups.count < ENOUGH] = np.inf
        mask[known] = self.duration[known] > limit[groups.of]
        return mask


class Groups:
    """Values ``duration`` (n,) grouped by the codes ``key`` (n,), one group per distinct code.

    ``of`` is the group of each value, ``keys`` the code of each group, ``order`` sorts by group and then by value.
    """

    def __init__(self, key: I64, duration: I64) -> None:
        self.keys, self.of = distinct(key)
        self.order = np.lexsort((duration, self.of.astype(np.min_scalar_type(len(self.keys)))))  # few bits sort faster
        self.count: I64 = np.bincount(self.of, minlength=len(self.keys))
        self.first: I64 = np.cumsum(self.count) - self.count
        self._sorted = duration[self.order]

    @property
    def total(self) -> I64:
        """The sum of each group."""
        return np.add.reduceat(self._sorted, self.first) if len(self.keys) else self.first

    def percentile(self, percent: float) -> F64:
        """The percentile of each group, interpolated as by NumPy's ``linear``; (groups,)."""
        at = (self.count - 1) * percent / 100.0
        low = np.floor(at).astype(np.int64)
        high = np.minimum(low + 1, self.count - 1)
        below, above = self._sorted[self.first + low], self._sorted[self.first + high]
        return np.asarray(below + (above - below) * (at - low), np.float64)

    def items(self, group: int) -> I64:
        """The positions of the values of one group, the largest value first."""
        low = int(self.first[group])
        return self.order[low : low + int(self.count[group])][::-1]


def waits(start: I64, end: I64, other_start: I64, other_end: I64) -> I64:
    """How long nothing ran before each kernel, ns; (n,).

    The definition is that of ``Wait Time`` in kernel_details.csv: from the end of the previous row, and its rows
    include collectives (``other_*``).
    """
    starts, ends = np.concatenate([start, other_start]), np.concatenate([end, other_end])
    order = np.argsort(starts, kind="stable")
    gap = np.zeros(len(starts), np.int64)
    if len(order):
        gap[order[1:]] = np.maximum(starts[order[1:]] - ends[order[:-1]], 0)
    return gap[: len(start)]


def unquoted(text: str | None) -> str | None:
    """A cell of shapes or types without the quotes that protect it from spreadsheets; None for an empty one."""
    if text is None:
        return None
    return text.replace('"', "").strip() or None


def tensor_bytes(shapes: str | None, dtypes: str | None) -> float:
    """Bytes of tensors by ``shapes`` (``32,3;64``) and ``dtypes`` (``FLOAT;DT_BF16``); not-a-number if unknown."""
    if shapes is None or dtypes is None:
        return float("nan")
    kinds, forms = dtypes.split(";"), shapes.split(";")
    # A scalar has an empty shape but a type, and an optional input has neither: the lists must agree to be paired.
    if len(kinds) != len(forms):
        return float("nan")
    total = 0.0
    for form, kind in zip(forms, kinds, strict=True):
        kind = kind.strip().upper().removeprefix("DT_")
        if kind in ("", "UNDEFINED", "NULL"):
            continue
        if kind not in SIZES:
            return float("nan")
        count = 1
        for side in form.split(","):
            if side.strip():
                known = decimal_number(side.strip())
                if known is None or known > _LARGEST_SIDE:
                    return float("nan")
                count = min(count * known, LONGEST)
        total += count * SIZES[kind]
    return total


RATIOS = {
    "mte2": ("aic_mte2_ratio", "aiv_mte2_ratio", "mte2_ratio"),
    "mac": ("aic_mac_ratio", "mac_ratio", "aic_cube_ratio"),
    "vec": ("aiv_vec_ratio", "vec_ratio"),
}
"""Columns of kernel_details.csv with the busy ratio of a pipe: ``aic_*`` and ``aiv_*`` on chips with split cores."""


def from_trace(trace: Trace, items: I64, kinds: tuple[list[str], I64], wait: I64) -> KernelTable:
    """The table of the kernels ``items`` without kernel_details.csv; ``kinds`` are their types, ``wait`` in ns."""
    slices = trace.slices
    order = np.argsort(slices.start[items], kind="stable")
    items = items[order]
    start, end, count = slices.start[items], slices.end[items], len(items)
    nothing, unknown = Coded([], np.broadcast_to(np.int64(-1), count)), np.broadcast_to(np.nan, count)
    return KernelTable(
        items,
        start,
        end - start,
        wait[order],
        Coded(trace.names, slices.name[items].astype(np.int64)),
        Coded(kinds[0], kinds[1][order]),
        nothing,
        nothing,
        nothing,
        nothing,
        nothing,
        unknown,
        unknown,
        dict.fromkeys(RATIOS, unknown),
        unknown,
    )


_UNKNOWN = np.full(1, -1, np.int64)

Cells = Callable[[str], Sequence[str | None] | None]
"""Returns the cells of a column by its name, None if the file has no such column."""


def with_details(kernels: KernelTable, row: I64, columns: Sequence[str], cells: Cells) -> KernelTable:
    """``kernels`` with their rows of kernel_details.csv; ``row`` is the row of each kernel, -1 without one; (n,)."""
    known = row >= 0
    coded: dict[str, Coded] = {}

    def text(column: str, clean: Callable[[str | None], str | None] = lambda value: value) -> Coded:
        if column not in coded:
            values = cells(column)
            column_of_file = Coded.of(map(clean, values)) if values is not None else Coded([], _UNKNOWN)
            code: I64 = np.broadcast_to(_UNKNOWN[0], len(row))
            if column_of_file.values:
                code = code.copy()
                code[known] = column_of_file.code[row[known]]
            coded[column] = Coded(column_of_file.values, code)
        return coded[column]

    def number(column: str) -> F64:
        return _numbers(text(column))

    shapes, outputs = text("input_shapes", unquoted), text("output_shapes", unquoted)
    dtypes, kinds = text("input_types", unquoted), text("output_types", unquoted)
    ratios = {}
    for name, choices in RATIOS.items():
        choices_of_file = [number(column) for column in choices if column in columns]
        # A kernel on both core types has two ratios: the busier pipe counts.
        ratios[name] = np.fmax.reduce(choices_of_file) if choices_of_file else np.broadcast_to(np.nan, len(row))
    core, types = text("core"), text("type")
    # A row without a type keeps the one from the kernel's name: codes of the file go after those of the names.
    type_code = np.where(types.code >= 0, types.code + len(kernels.type.values), kernels.type.code)
    details = {column: text(column) for column in columns if column not in ("start", "duration")}
    return KernelTable(
        kernels.item,
        kernels.start,
        kernels.duration,
        kernels.wait,
        kernels.name,
        _merged_codes([*kernels.type.values, *types.values], type_code),
        core,
        shapes,
        dtypes,
        text("input_formats", unquoted),
        outputs,
        number("block_dim"),
        _bytes(shapes, dtypes) + _bytes(outputs, kinds),
        ratios,
        kernels.hit_rate,
        details,
    )


def _merged_codes(values: list[str], code: I64) -> Coded:
    """A ``Coded`` in which equal ``values`` share one code."""
    known: dict[str, int] = {}
    of = np.array([known.setdefault(value, len(known)) for value in values] + [-1], np.int64)
    return Coded(list(known), of[code])


def _bytes(shapes: Coded, dtypes: Coded) -> F64:
    """``tensor_bytes`` of every kernel, computed once per distinct pair of texts; (n,)."""
    pair = (shapes.code + 1) * (len(dtypes.values) + 1) + dtypes.code + 1
    pairs, of = np.unique(pair, return_inverse=True)
    sizes = [
        tensor_bytes(
            shapes.values[value // (len(dtypes.values) + 1) - 1] if value // (len(dtypes.values) + 1) else None,
            dtypes.values[value % (len(dtypes.values) + 1) - 1] if value % (len(dtypes.values) + 1) else None,
        )
        for value in pairs.tolist()
    ]
    return np.array(sizes, np.float64)[of] if len(sizes) else np.zeros(0)


def _numbers(texts: Coded) -> F64:
    if not texts.values:
        return np.broadcast_to(np.nan, len(texts.code))
    values = np.array([_number(value) for value in texts.values] + [np.nan])
    return np.asarray(values[texts.code], np.float64)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def matrix_flops(table: KernelTable) -> F64:
    """FLOP of each matrix product and fused attention, not-a-number for other kernels and unknown shapes; (n,)."""
    flops = np.full(len(table), np.nan)
    products = np.flatnonzero(table.type.where(lambda kind: "matmul" in kind.lower() or "attention" in kind.lower()))
    first, of = distinct_kernels(table, products)
    flops[products] = np.array([_flops_of(*table.tensors_of(row)) for row in first], np.float64)[of]
    return flops


def distinct_kernels(table: KernelTable, rows: I64) -> tuple[list[int], I64]:
    """The first of ``rows`` of each type with its shapes, and which of these each row is like; (n,)."""
    like = np.zeros(len(rows), np.int64)
    for column in (table.type, table.shapes, table.outputs):
        like = np.unique(like * (len(column.values) + 1) + column.code[rows], return_inverse=True)[1]
    return rows[np.unique(like, return_index=True)[1]].tolist(), like


def _flops_of(kind: str, inputs: str | None, outputs: str | None) -> float:
    if _GROUPED.fullmatch(kind):
        return grouped_flops(inputs, outputs)
    return product_flops(inputs, outputs) if "matmul" in kind.lower() else attention_flops(kind, inputs, outputs)


_GROUPED = re.compile(r"GroupedMatmul(?:V\d+)?", re.IGNORECASE)


def grouped_flops(inputs: str | None, outputs: str | None) -> float:
    """Floating-point operations of the products of a grouped matmul: 2 · elements of x · n for each x.

    ``inputs`` are all x, then the weights, of which a list or one with an axis of experts; x may be one for all
    products. There is one output for each x, or one whose rows are those of all x.
    """
    sides, results = ([_sides_of(shape) or [] for shape in (text or "").split(";")] for text in (inputs, outputs))
    count = len(results)
    if count == 1 and len(results[0]) == 2:
        rows = list(accumulate(side[0] if side else 0 for side in sides))
        count = rows.index(results[0][0]) + 1 if results[0][0] in rows else 1
    if not all(results) or not all(sides[:count]):
        return math.nan
    columns = [side[-1] for side in results] if len(results) == count else [results[0][-1]] * count
    return float(sum(2 * math.prod(side) * n for side, n in zip(sides, columns, strict=False)))


def product_flops(inputs: str | None, outputs: str | None) -> float:
    """Floating-point operations of the product of the first two ``inputs`` (``32,64;64,16``) with shape ``outputs``.

    A multiplication and an addition each count: 2 · m · n · k. The shapes do not say which input is transposed, but
    (m · k) · (k · n) / (m · n) is k² either way.
    """
    sides = [_sides_of(shape) for shape in (inputs or "").split(";")[:2]]
    out = _sides_of((outputs or "").split(";")[0])
    if len(sides) < 2 or any(side is None or len(side) < 2 for side in (*sides, out)):
        return math.nan
    first, second, result = (side or [] for side in (*sides, out))
    batch = math.prod(result[:-2])
    result_size = math.prod(result)
    if not result_size or not math.prod(first) or not math.prod(second):
        return 0.0
    inner = (
        math.prod(first) * math.prod(second) * batch / (result_size * math.prod(first[:-2]) * math.prod(second[:-2]))
    )
    return 2.0 * result_size * math.sqrt(inner)


_LARGEST_SIDE, _MOST_SIDES = 1 << 40, 8
"""Of a tensor: it has eight dimensions at most, and no memory holds so many elements along one."""


def _sides_of(shape: str) -> list[int] | None:
    sides = [side.strip() for side in shape.split(",") if side.strip()]
    known = [one for side in sides[:_MOST_SIDES] if (one := decimal_number(side)) is not None and one <= _LARGEST_SIDE]
    return known if len(known) == len(sides) else None


_PEAKS = {
    "Ascend910_9362": 353.8944, "Ascend910_9392": 353.8944, "Ascend910B1": 373.88, "Ascend910B2": 353.8944,
    "Ascend910B3": 294.912, "Ascend910B4": 245.76, "Ascend950PR": 432.0, "Ascend950DT": 486.0, "Ascend910A": 256.0,
}  # fmt: skip
"""TFLOPS of the cube units in FLOAT16 and BFLOAT16 by the name of the chip.

910B, 910_93xx and 950: table of peaks in Huawei's torchtitan plugin for NPUs, for its MFU; 910B2 to B4 are cores x 4096
multiplications and additions a cycle x clock. 910A: Huawei, Hot Chips 31 (2019), 256 TFLOPS.
"""

_HALF = ("FLOAT16", "HALF", "BF16", "BFLOAT16")


def peak_of(chip: str | None) -> float:
    """The peak of ``chip`` in TFLOPS, 0 if unknown; a family such as ``Ascend910B`` has several peaks, so it is 0."""
    wanted = (chip or "").strip().lower()
    fitting = [name for name in _PEAKS if re.fullmatch(f"{name.lower()}([-_].*)?", wanted)]
    return _PEAKS[max(fitting, key=len)] if fitting else 0.0


def is_half(kinds: str) -> bool:
    """Whether the first data type of a kernel (``DT_BF16;FLOAT``) is a 16-bit floating-point one."""
    return kinds.split(";")[0].strip().upper().removeprefix("DT_") in _HALF


_FLASH = re.compile(r"FlashAttentionScore(?P<grad>Grad)?(?:V\d)?")
_COMPRESSED = [2048, 2048]
_LANES = 8
"""The last side of the statistics of softmax, [B, N, Sq, 8]."""
BACKWARD = 2.5
"""Times the work of a pass forward of attention: five products where that has two."""


def attention_flops(kind: str, inputs: str | None, outputs: str | None) -> float:
    """FLOP of a kernel of type ``kind``, not-a-number where its shapes do not give them.

    Unknown for ragged lengths (TND), for masks other than the compressed one, and for that one where queries and keys
    differ in length.
    """
    match = _FLASH.fullmatch(kind)
    if match is None:
        return math.nan
    entered, left = (sides_of_shapes(text) for text in (inputs, outputs))
    backward = match["grad"] is not None
    statistics = next((shape for shape in (entered if backward else left) if _is_statistics(shape)), None)
    given = entered[3:4] if backward else [shape for shape in reversed(left) if shape and not _is_statistics(shape)]
    out = given[0] if given else None
    if statistics is None or not out or len(entered) < 3:
        return math.nan
    batch, _, queries, _ = statistics
    query, key, value = entered[:3]
    lengths = {key[axis] for axis, side in enumerate(query) if side == queries and axis < len(key)}
    rows = batch * queries
    sizes = math.prod(query), math.prod(out)
    if len(lengths) != 1 or not query or len(query) != len(key) or len(value) != len(key) or not rows:
        return math.nan
    (keys,) = lengths
    # Results of the forward pass have the shapes of what they belong to; a mask or a bias is left.
    others = [shape for shape in entered[3:] if shape and not _is_statistics(shape) and shape not in (query, out)]
    scores = float(queries * keys)
    if others == [_COMPRESSED] and queries == keys != _COMPRESSED[0]:
        scores /= 2
    elif others:
        return math.nan
    forward = 2.0 * batch * (sizes[0] + sizes[1]) / rows * scores
    return BACKWARD * forward if backward else forward


def _is_statistics(shape: list[int]) -> bool:
    return len(shape) == 4 and shape[3] == _LANES


def sides_of_shapes(text: str | None) -> list[list[int]]:
    """The sides of every shape of ``4096,1,2048;;2048,2048``; empty ones are inputs that are not there."""
    shapes = [[side.strip() for side in shape.split(",") if side.strip()] for shape in (text or "").split(";")]
    return [[int(side) for side in shape] if all(map(str.isdecimal, shape)) else [] for shape in shapes]


def core_clock(counters: Counters, end: I64, duration: I64) -> float | None:
    """The mean clock of the AI cores while kernels run that ``end`` after ``duration``, ns (n,); MHz.

    Each kernel counts by its length and has the clock at its end, the lowest of all devices. What the clock is while
    nothing runs does not count. None without samples or without kernels.
    """
    clocks = [clock for _, clock in counters.at(CORE_CLOCK, end)]
    return float(np.average(np.min(clocks, axis=0), weights=duration)) if clocks and duration.any() else None
