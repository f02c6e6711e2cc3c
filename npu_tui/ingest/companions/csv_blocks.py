"""A CSV file in blocks of whole rows, whatever its size, encoding and line ends."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

BLOCK = 4 << 20
"""Bytes read at a time."""

_LONGEST_ROW = 64 << 20
_BOM = b"\xef\xbb\xbf"
_BLANK = b" \t\r\n\0"


class Blocks:
    """Iterates over the rows of ``path`` as UTF-8, some megabytes at a time; the header is no row.

    Afterwards ``cut_off`` says whether the file ends within a row: that row is left out if cells are missing, else its
    last cell is, as it may be shorter than it was. Raises ``OSError`` if the file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.header: list[str] = []
        self.cut_off = False
        self.is_blank = False
        self._stream = path.open("rb")
        self._rest = b""
        self._chinese = False
        first = next(self._whole_rows(), b"")
        first = first.removeprefix(_BOM)
        self.is_blank = not first.strip(_BLANK)
        end = _row_end(first)
        self.header = next(iter(parsed_rows(self._text(first[:end]))), [])
        self._first = first[end:]

    def __iter__(self) -> Iterator[bytes]:
        with self._stream:
            if self._first.strip(_BLANK):
                yield self._text(self._first)
            for block in self._whole_rows():
                if block.strip(_BLANK):
                    yield self._text(block)

    def _whole_rows(self) -> Iterator[bytes]:
        """The bytes of whole rows."""
        while data := self._stream.read(BLOCK):
            data = self._rest + data
            end = _last_row_end(data)
            self._rest = data[end:]
            if end:
                yield data[:end]
            elif len(data) > _LONGEST_ROW:
                self.cut_off = True  # a quote without a partner makes one cell of all that follows
                self._rest = b""
                return
        last, self._rest = self._rest, b""
        if last.strip(_BLANK):
            yield self._last_rows(last)

    def _last_rows(self, data: bytes) -> bytes:
        """What is left at the end of the file, which has no line end of its own."""
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
    is_open = data.count(b'"') % 2
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
