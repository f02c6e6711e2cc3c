"""The compiled library that suits this machine, if there is one.

``NPU_TUI_SCANNER`` chooses: ``off`` for none, the name of one in the folder ``library``, or the path of another.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

VARIABLE = "NPU_TUI_SCANNER"
OFF = "off"

_FOLDER = Path(__file__).parent / "library"
_ARGUMENTS = {
    "scan": "an", "rehash": "an", "chosen": "ann", "first_fit": "aaaanan", "leaves": "aaanaaanana",
    "crossing": "aanan", "passing": "aaaanana", "count_until": "anana", "united": "aanaa", "shared": "aanaanaa",
    "covered": "aaanaanaa", "csv_columns": "a", "cells": "an", "walking": "aaaananannaa",
    "innermost": "anaaaananananananaanann",
}  # fmt: skip
"""The functions of a library and what they take: an array, whose memory they work in, or a number of 64 bits."""
_HOLDING = frozenset({"cells"})  # those that let no other thread run meanwhile: a frame would wait for its turn again
_V2 = frozenset({"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"})
_V3 = _V2 | {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"}


class _Memory:
    """An argument that is an array: the call holds it, so that its memory stays until the function returns."""

    @staticmethod
    def from_param(array: Any) -> Any:
        """The address of ``array``, which lies in one piece."""
        assert array.flags.c_contiguous
        try:
            return ctypes.byref(ctypes.c_char.from_buffer(array))  # a third of the time of what numpy says of itself
        except (TypeError, ValueError):  # it is empty, or must not be written to
            return ctypes.c_int64(array.ctypes.data)


_KINDS: dict[str, Any] = {"a": _Memory, "n": ctypes.c_int64}


class Library(Struct, frozen=True):
    """A library by its name; most of its functions let other threads run meanwhile."""

    name: str
    scan: Any
    rehash: Any
    chosen: Any
    first_fit: Any
    leaves: Any
    crossing: Any
    passing: Any
    count_until: Any
    united: Any
    shared: Any
    covered: Any
    csv_columns: Any
    cells: Any
    walking: Any
    innermost: Any


def library() -> Library | None:
    """The library to read with, None to read without."""
    return _loaded(os.environ.get(VARIABLE, ""))


@cache
def _loaded(wish: str) -> Library | None:
    name = wish or suiting()
    if name in ("", OFF):
        return None
    path = Path(name) if os.sep in name else _FOLDER / f"{name}.so"
    try:
        found, holding = ctypes.CDLL(str(path)), ctypes.PyDLL(str(path))
        functions = [getattr(holding if name in _HOLDING else found, name) for name in _ARGUMENTS]
    except (OSError, AttributeError):  # not this system's, or a folder from which nothing may be run
        return None
    for function, kinds in zip(functions, _ARGUMENTS.values(), strict=True):
        function.argtypes = [_KINDS[kind] for kind in kinds]
        function.restype = ctypes.c_int64
    return Library(path.stem, *functions)


def suiting() -> str:
    """The name of the library for this machine, empty if there is none."""
    if sys.platform != "linux" or sys.byteorder != "little" or sys.maxsize < 1 << 32:
        return ""
    machine = os.uname().machine  # the module platform would have to be imported
    if machine == "aarch64":
        return "aarch64"
    if machine != "x86_64":
        return ""
    flags = _flags()
    return "x86_64_v3" if flags >= _V3 else "x86_64_v2" if flags >= _V2 else ""


def _flags() -> set[str]:
    """What the processor can do, in the words of Linux."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith("flags"):
                    return set(line.partition(":")[2].split())
    except OSError:
        pass
    return set()


_TRIM, _MMAP = -1, -3
"""``M_TRIM_THRESHOLD`` and ``M_MMAP_THRESHOLD`` of malloc.h."""
_NEVER, _USUAL = 1 << 30, 32 << 20  # bytes; glibc raises its limit of mmap to the latter by itself


@contextmanager
def kept_heap() -> Iterator[None]:
    """Keep what is freed for the next arrays, and give it back at the end; other C libraries than glibc are left alone.

    Findings on 10 M slices make thousands of arrays of 10 to 80 MB. Asked of the system anew each, their pages of
    zeros take a fifth of the processor's time.
    """
    glibc = ctypes.CDLL(None)
    if not hasattr(glibc, "malloc_trim"):
        yield
        return
    for setting in (_TRIM, _MMAP):
        glibc.mallopt(setting, _NEVER)
    try:
        yield
    finally:
        for setting in (_TRIM, _MMAP):
            glibc.mallopt(setting, _USUAL)
        glibc.malloc_trim(0)
