"""The rows of a CSV file in blocks of whole ones, as UTF-8, whatever its size and encoding.

Cells in quotes go over several lines; rows are too short, too long or cut off; some are GBK.
"""

from __future__ import annotations

import codecs
import csv
import errno
import io
import itertools
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from npu_tui.native.rows import counted
from npu_tui.trace.memory import RowRoom
from npu_tui.trace.side_file import open_regular

BLOCK = 4 << 20
"""Bytes read at a time: columns of very short rows take six times as much until they are put together."""

_LONGEST_ROW = 1 << 20  # what has a longer first row is no table
_END = ord("\n")
_MOST_COLUMNS = 1_000
"""Of a header; with all PMU counters kernel_details.csv has about 100."""

_BLANK = b" \t\r\n\0"
_FILLED = re.compile(rb"[^ \t\r\n\0]")


class CsvBlocks:
    """Iterates over the rows of ``path`` as UTF-8, some megabytes at a time; the header is no row.

    Afterwards ``cut_off`` says whether the file ends within a row: that row is left out if cells are missing, else its
    last cell is, as it may be shorter than it was. ``short`` counts rows left out of blocks with less than half a byte
    a cell, as each cell would take memory for nothing, and those longer than any writer makes. Raises ``OSError`` if
    the file cannot be read or has no header, ``MemoryError`` where there is no room for its rows.
    """

    def __init__(self, path: Path) -> None:
        self.header: list[str] = []
        self.cut_off = False
        self.is_blank = False
        self.short = 0
        self._stream = io.BufferedReader(open_regular(path))
        self._rest = b""
        self._room = RowRoom()
        self._chinese = False
        first = next(self._whole_rows(), b"")
        if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            self._stream.close()
            raise OSError(errno.EILSEQ, "its text is UTF-16, not UTF-8", str(path))
        first = first.removeprefix(codecs.BOM_UTF8)
        self.is_blank = not first.strip(_BLANK)
        end = _row_end(first)
        if end > _LONGEST_ROW or (columns := first.count(b",", 0, end) + 1) > _MOST_COLUMNS:
            what = f"its first row has {end:,} bytes" if end > _LONGEST_ROW else f"{columns:,} columns"
            self._stream.close()
            raise OSError(errno.EFBIG, what, str(path))
        self.header = next(iter(parsed_rows(self._text(first[:end]))), [])
        self._first = first[end:]

    def __iter__(self) -> Iterator[bytes]:
        with self._stream:
            for block in itertools.chain((self._first,), self._whole_rows()):
                block = self._filled(block)
                if _FILLED.search(block):
                    yield self._text(block)

    def _filled(self, data: bytes) -> bytes:
        """``data`` without rows whose cells would take far more memory than their text: each cell costs the same.

        Left out are rows with fewer bytes than cells, if there are very many, and rows longer than any writer's.
        """
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == _END)
        self._room.take(len(ends))
        are_long = len(data) > _LONGEST_ROW and np.diff(ends, prepend=-1, append=len(data)).max() > _LONGEST_ROW
        if len(ends) * len(self.header) <= 2 * len(data) and not are_long:
            return data
        rows = data.split(b"\n")
        kept = [row for row in rows if len(self.header) <= len(row) + 1 <= _LONGEST_ROW]
        self.short += sum(map(bool, map(bytes.strip, rows))) - len(kept)
        return b"".join(row + b"\n" for row in kept)

    def _whole_rows(self) -> Iterator[bytes]:
        """The bytes of whole rows."""
        while data := self._stream.read(BLOCK):
            data = self._rest + data
            end = _last_row_end(data)
            self._rest = data[end:]
            if end:
                yield data[:end]
            elif len(data) > _LONGEST_ROW:
                break
        last, self._rest = self._rest, b""
        if len(last) > _LONGEST_ROW:
            self.cut_off = True  # a quote without a partner makes one cell of all that follows
        elif last.strip(_BLANK):
            yield self._last_rows(last)

    def _last_rows(self, data: bytes) -> bytes:
        """The rows of the bytes after the last line end of the file.

        The file may have been cut within the last cell, so that is left empty; a row that lacks cells is left out.
        """
        self.cut_off = True
        if data.count(b'"') % 2:
            return b""
        rows = list(parsed_rows(self._text(data)))
        if not self.header or not rows or len(rows[-1]) < len(self.header):
            return data if not self.header else b""
        out = io.StringIO()
        csv.writer(out).writerows([*rows[:-1], [*rows[-1][:-1], ""]])
        return out.getvalue().encode()

    def _text(self, data: bytes) -> bytes:
        """``data`` in UTF-8: what is not is GBK, the encoding of many a host."""
        if data.isascii():
            return data
        if not self._chinese:
            try:
                data.decode()
                return data
            except UnicodeDecodeError as error:
                if self.cut_off and error.start >= len(data) - 3:
                    return data.decode(errors="ignore").encode()
                self._chinese = True
        return data.decode("gb18030", "replace").encode()


def _row_end(data: bytes) -> int:
    """Where the first row ends."""
    at = -1
    quotes = 0
    while (end := data.find(b"\n", at + 1)) >= 0:
        quotes += data.count(b'"', at + 1, end)
        if quotes % 2 == 0:
            return end + 1
        at = end
    return len(data)


def _last_row_end(data: bytes) -> int:
    """Where the last whole row of ``data`` ends, which begins with a row; 0 if none does."""
    is_open = counted(data, b'"') % 2
    end = len(data)
    while (at := data.rfind(b"\n", 0, end)) >= 0:
        is_open = (is_open + data.count(b'"', at, end)) % 2
        if not is_open:
            return at + 1
        end = at
    return 0


def parsed_rows(text: bytes) -> Iterator[list[str]]:
    """The rows of ``text`` by Python's own reader, which stops at nothing."""
    csv.field_size_limit(_LONGEST_ROW)
    rows = csv.reader(io.StringIO(text.decode(errors="replace").replace("\0", ""), newline=""))
    while True:
        try:
            yield next(rows)
        except StopIteration:
            return
        except csv.Error:
            continue


def ahead(blocks: CsvBlocks) -> Iterator[bytes]:
    """``blocks``, the next of which is read while one is worked on."""
    with ThreadPoolExecutor(1) as reader:
        pieces = iter(blocks)
        coming = reader.submit(next, pieces, None)
        while (block := coming.result()) is not None:
            coming = reader.submit(next, pieces, None)
            yield block
