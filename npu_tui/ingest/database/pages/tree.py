"""The leaves of a table: pages of rows, found through the pages of keys above them (SQLite's file format, 1.6)."""

from __future__ import annotations

import os
import stat

import numpy as np
import numpy.typing as npt
from msgspec import Struct

U8 = npt.NDArray[np.uint8]
I64 = npt.NDArray[np.int64]

LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1
LEAF, _INNER = 13, 5
_INNER_HEADER = 12
_MOST_LEVELS = 20
_LONGEST_KEY = 9
_ENCODING, _UTF8 = slice(56, 60), 1
_RESERVED, _VERSION = 20, 19
_NEWEST_VERSION = 2


class UnusualError(Exception):
    """What lies there is not as SQLite usually writes it: SQLite itself has to read it."""


class PageFile(Struct, frozen=True):
    """The pages of an open file; ``usable`` bytes of each are in use."""

    descriptor: int
    page_bytes: int
    usable: int
    pages: int

    def page(self, number: int) -> U8:
        """Page ``number``, the first being 1, and zeros after it. Raises ``UnusualError`` if it is not there."""
        if not 1 < number <= self.pages:
            raise UnusualError
        data = os.pread(self.descriptor, self.page_bytes, (number - 1) * self.page_bytes)
        if len(data) < self.page_bytes:
            raise UnusualError
        return np.frombuffer(data + bytes(_LONGEST_KEY), np.uint8)


class Leaves(Struct, frozen=True):
    """The leaves of a table in the order of its rows: their pages, and the row numbers they may have.

    All are (n,); row numbers lie above ``below`` and up to ``highest``.
    """

    page: I64
    below: I64
    highest: I64

    def __len__(self) -> int:
        return len(self.page)


def page_file(descriptor: int) -> PageFile | None:
    """The pages of the database that is open as ``descriptor``; None for one of a kind that only SQLite reads."""
    try:
        status = os.fstat(descriptor)
        head = os.pread(descriptor, 100, 0)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode) or len(head) < 100 or head[_VERSION] > _NEWEST_VERSION:
        return None
    size = int.from_bytes(head[16:18], "big")
    page_bytes = 1 << 16 if size == 1 else size
    usable = page_bytes - head[_RESERVED]
    if int.from_bytes(head[_ENCODING], "big") != _UTF8 or page_bytes < 512 or page_bytes & (page_bytes - 1):
        return None
    return PageFile(descriptor, page_bytes, usable, status.st_size // page_bytes) if usable >= 480 else None


def leaves_of(file: PageFile, root: int) -> Leaves:
    """The leaves of the table whose topmost page is ``root``.

    Raises ``UnusualError`` if its rows have no numbers or it leads in a circle, and ``OSError`` if it cannot be read.
    """
    page, highest = np.array([root]), np.array([HIGHEST])
    for _ in range(_MOST_LEVELS):
        kind = int(file.page(int(page[0]))[0])
        if kind == LEAF:
            below = np.concatenate(([LOWEST], highest[:-1]))
            if (
                (highest <= below).any()
                or len(np.unique(page)) < len(page)
                or page.min() < 2
                or page.max() > file.pages
            ):
                raise UnusualError
            return Leaves(page, below, highest)
        if kind != _INNER or len(page) > file.pages:
            raise UnusualError
        found = [_children(file, number, last) for number, last in zip(page.tolist(), highest.tolist(), strict=True)]
        page, highest = (np.concatenate(both) for both in zip(*found, strict=True))
        if len(page) > file.pages:
            raise UnusualError
    raise UnusualError


def rows_stored(file: PageFile, root: int) -> int:
    """How many rows the leaves below page ``root`` say that they hold, whatever their numbers are.

    Pages that are none of a table are left out. Raises ``OSError`` if the file cannot be read.
    """
    return sum(_cells(file.page(number)) for number in sound_leaves(file, root).page.tolist())


def sound_leaves(file: PageFile, root: int) -> Leaves:
    """The leaves below page ``root`` as far as the pages above them lead to some, each once.

    Their bounds are what those pages say, in no order where these are damaged. Raises ``OSError`` if the file cannot
    be read.
    """
    found: list[tuple[int, int, int]] = []
    seen, waiting = {root}, [(root, LOWEST, HIGHEST)]
    while waiting:
        number, below, highest = waiting.pop()
        try:
            page = file.page(number)
            if page[0] == LEAF:
                found.append((number, below, highest))
            elif page[0] == _INNER:
                children, highs = (values.tolist() for values in _children(file, number, highest))
                lows = [below, *highs[:-1]]
                own = [child for child in zip(children, lows, highs, strict=True) if child[0] not in seen]
                seen.update(children)
                waiting += reversed(own)
        except UnusualError:
            continue
    page, below, highest = np.array(found, np.int64).reshape(-1, 3).T
    return Leaves(page, below, highest)


def _cells(page: U8) -> int:
    return int(page[3]) << 8 | int(page[4])


def _children(file: PageFile, number: int, last: int) -> tuple[I64, I64]:
    """The pages below page ``number`` and the highest row numbers they may have; ``last`` is that of the page."""
    page = file.page(number)
    cells = _cells(page)
    begin = _INNER_HEADER + 2 * cells
    if page[0] != _INNER or cells == 0 or begin > file.usable:
        raise UnusualError
    pointers = page[_INNER_HEADER:begin].astype(np.int64)
    at = pointers[0::2] << 8 | pointers[1::2]
    if at.min() < begin or at.max() > file.usable - 5:
        raise UnusualError
    child = np.append(_four_bytes(page, at), _four_bytes(page, np.array([8])))
    return child, np.append(_keys(page, at + 4), last)


def _four_bytes(page: U8, at: I64) -> I64:
    value = np.zeros(len(at), np.int64)
    for k in range(4):
        value = value << 8 | page[at + k]
    return value


def _keys(page: U8, at: I64) -> I64:
    """The numbers of one to nine bytes at ``at``; (n,)."""
    value, going = np.zeros(len(at), np.int64), np.ones(len(at), np.bool_)
    for k in range(_LONGEST_KEY - 1):
        byte = page[np.minimum(at + k, len(page) - 1)].astype(np.int64)
        value = np.where(going, value << 7 | byte & 127, value)
        going &= byte >= 128
        if not going.any():
            return value
    return np.where(going, value << 8 | page[np.minimum(at + _LONGEST_KEY - 1, len(page) - 1)], value)
