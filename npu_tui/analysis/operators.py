"""Compute time by operator type and core."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.launches import dequeued_launches
from npu_tui.trace.intervals import distinct
from npu_tui.trace.model import BySlice, Trace

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
TypesOf = Callable[[I64], tuple[list[str], I64]]
"""Slices (n,) to the distinct operator types of them, and which one each has; (n,)."""

_DEQUEUE = "Dequeue@"


class OperatorSum(Struct, frozen=True):
    """The kernels of one type and core (None: unknown), times in ns."""

    type: str
    core: str | None
    count: int
    total: int
    shortest: int
    longest: int


def operator_type(name: str, operation: str = "") -> str:
    """The operator type in a kernel's ``name``, as op_statistic.csv and kernel_details.csv give it.

    ``operation`` is what the launching ``Dequeue@`` slice names: it tells ``MaxPoolWithArgmaxV1`` with a number after
    it from another version of that operator.
    """
    if name.rstrip("-0123456789_").lower() == "memset":
        return "MemSet"  # older chips write it in their own way
    words = name.split("_")
    while len(words) > 1 and words[-1].isdecimal():
        words.pop()
    word = words[-1]
    if operation and word.startswith(operation) and word[len(operation) :].isdecimal():
        return operation
    if name.startswith("aclnn"):
        return word
    return word.rstrip("0123456789") or word


@lru_cache(maxsize=1 << 16)  # every collective has a name of its own, and several rules ask
def collective_type(name: str) -> str:
    """The type of a collective's ``name``: ``hcom_allReduce_`` of ``hcom_allReduce__586_0_1``."""
    head, double, _ = name.partition("__")
    return f"{head}_" if double else operator_type(name)


def collective_types(trace: Trace, items: I64) -> tuple[I64, list[str]]:
    """Which type each of the collectives ``items`` has, (n,), and the types in the order in which they come."""
    names, name = distinct(trace.slices.name[items])
    firsts = np.full(len(names), len(items))
    np.minimum.at(firsts, name, np.arange(len(items)))
    types: dict[str, int] = {}
    of_name = np.zeros(len(names), np.int64)
    for k in np.argsort(firsts).tolist():
        of_name[k] = types.setdefault(collective_type(trace.names[int(names[k])]), len(types))
    return of_name[name], list(types)


def kernel_types(trace: Trace, items: I64) -> tuple[list[str], I64]:
    """The distinct operator types of the kernels ``items`` by their names, and which one each has; (n,)."""
    slices = trace.slices
    operation = _operations(trace, items)
    (names, name), (launching, launch) = distinct(slices.name[items]), distinct(operation)
    pairs, code = distinct(name * len(launching) + launch)
    types: dict[str, int] = {}
    of_pair = np.zeros(len(pairs), np.int64)
    for k, (own, by) in enumerate(zip(*(each.tolist() for each in np.divmod(pairs, len(launching))), strict=True)):
        dequeue = int(launching[by])
        queued = trace.names[dequeue].removeprefix(_DEQUEUE) if dequeue >= 0 else ""
        of_pair[k] = types.setdefault(operator_type(trace.names[int(names[own])], queued), len(types))
    return list(types), of_pair[code]


def _operations(trace: Trace, items: I64) -> I64:
    """The name code of the ``Dequeue@operation`` slice that launched each of ``items``, -1 without one; (n,)."""
    link, dequeue = dequeued_launches(trace)
    named = np.array([name.startswith(_DEQUEUE) for name in trace.names] + [False])
    name = np.where(dequeue >= 0, trace.slices.name[dequeue], -1)
    known = named[name]
    target = trace.links.target_slice[link[known]]
    return BySlice(target[::-1], name[known][::-1]).of(items)


def operators(
    trace: Trace,
    items: I64,
    cores: list[str | None] | None = None,
    kinds: tuple[list[str], I64] | None = None,
) -> list[OperatorSum]:
    """The kernels ``items`` (compute slices) by type and core, most time first.

    ``cores`` has one entry per item, None where kernel_details.csv is missing; ``kinds`` is what ``kernel_types`` says
    of ``items`` where that has been asked before.
    """
    if not len(items):
        return []
    types, type_code = kernel_types(trace, items) if kinds is None else kinds
    known = {core: code for code, core in enumerate(dict.fromkeys(cores or [None]))}
    core_code = np.array([known[core] for core in cores], np.int64) if cores else np.zeros(len(items), np.int64)
    names = list(known)
    group, code = distinct(type_code * len(names) + core_code)
    length = trace.slices.end[items] - trace.slices.start[items]
    order = np.argsort(code, kind="stable")
    firsts = np.searchsorted(code[order], np.arange(len(group)))
    ordered = length[order]
    rows = [
        OperatorSum(types[value // len(names)], names[value % len(names)], count, total, shortest, longest)
        for value, count, total, shortest, longest in zip(
            group.tolist(),
            np.bincount(code).tolist(),
            np.add.reduceat(ordered, firsts).tolist(),
            np.minimum.reduceat(ordered, firsts).tolist(),
            np.maximum.reduceat(ordered, firsts).tolist(),
            strict=True,
        )
    ]
    return sorted(rows, key=lambda row: (-row.total, row.type, row.core or ""))
