"""A CSV file beside a trace to a frame of typed columns, in blocks of whole rows, whatever its size and encoding.

Several programs of several versions write such files: cells end in tabs, lack a value (empty or ``N/A``), stand in
quotes over several lines; rows are too short, too long or cut off; some are GBK. ``companion_schema`` has the columns.
"""

from __future__ import annotations

import codecs
import csv
import errno
import io
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from npu_tui.load.companion_schema import Column, Kind, Reading, Schema, column_name, find_file, reason
from npu_tui.load.times import INVALID, parse_times
from npu_tui.trace.side_file import open_regular
from npu_tui.trace.text import printable

if TYPE_CHECKING:
    import polars as pl


BLOCK = 4 << 20
"""Bytes read at a time."""

_LONGEST_ROW = 1 << 20
_MOST_COLUMNS = 1_000
"""Of a header; with all PMU counters kernel_details.csv has about 100."""

_BLANK = b" \t\r\n\0"
_FILLED = re.compile(rb"[^ \t\r\n\0]")


class Blocks:
    """Iterates over the rows of ``path`` as UTF-8, some megabytes at a time; the header is no row.

    Afterwards ``cut_off`` says whether the file ends within a row: that row is left out if cells are missing, else its
    last cell is, as it may be shorter than it was. ``short`` counts rows left out of blocks with less than half a byte
    a cell: each cell would take memory for nothing. Raises ``OSError`` if the file cannot be read or has no header.
    """

    def __init__(self, path: Path) -> None:
        self.header: list[str] = []
        self.cut_off = False
        self.is_blank = False
        self.short = 0
        self._stream = io.BufferedReader(open_regular(path))
        self._rest = b""
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
        """``data`` without its short rows, if there are so many of them: each cell costs memory, whatever is in it."""
        if data.count(b"\n") * len(self.header) <= 2 * len(data):
            return data
        rows = data.split(b"\n")
        kept = [row for row in rows if len(row) + 1 >= len(self.header)]
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


MISSING = ("", "N/A", "NA", "<NA>", "NaN", "nan", "n/a", "None", "null", "-")
"""What writers put where there is no value."""

_USUAL_TIME = r"^-?\d{1,15}\.\d{3}$"


def read_table(folder: Path, schema: Schema) -> Reading:
    """The file of ``schema`` in ``folder``, read in blocks; what cannot be read of it is told by the ``Reading``."""
    name = f"{schema.stem}.csv"
    try:
        path = find_file(folder, schema.stem, schema.others)
        name = path.name
        if not path.exists():
            return Reading(name, "missing", empty_frame(schema))
        blocks = Blocks(path)
        if blocks.is_blank:  # also where the quotes of the header are not closed
            return Reading(name, "cut_off" if blocks.cut_off else "empty", empty_frame(schema))
        typed = _Typed(schema, blocks.header)
        if not typed.is_of_kind and blocks.cut_off:
            return Reading(name, "cut_off", empty_frame(schema))
        if not typed.is_of_kind:
            return Reading(name, "unreadable", empty_frame(schema), why=typed.odd)
        if not (schema.only and _took_all(typed, path, blocks.header)):
            for block in _ahead(blocks):
                typed.add(_cells(block, blocks.header, typed.wanted))
    except OSError as error:
        return Reading(name, "unreadable", empty_frame(schema), why=reason(error))
    return typed.reading(name, blocks.cut_off, blocks.short)


def _took_all(typed: _Typed, path: Path, header: Sequence[str]) -> bool:
    """Whether ``typed`` could take in the whole file at once: in half the time, but only where nothing in it is odd."""
    import polars as pl

    lines, size, data = 0, 0, b""
    with open_regular(path) as stream:
        while block := stream.read(BLOCK):
            lines, size, data = lines + block.count(b"\n"), size + len(block), block
    if not data.endswith(b"\n") or lines * len(header) > 2 * size:
        return False
    names = [f"{number}" for number in range(len(header))]
    try:
        cells = pl.read_csv(
            path,
            has_header=False,
            skip_lines=1,
            columns=list(typed.wanted),
            schema=dict.fromkeys(names, pl.String) | typed.direct,
            null_values=list(MISSING),
            truncate_ragged_lines=True,
        )
    except (pl.exceptions.PolarsError, ValueError):
        return False
    return len(cells) == lines - 1 and typed.add_usual(cells)  # else a cell has several lines


def _ahead(blocks: Blocks) -> Iterator[bytes]:
    """``blocks``, the next of which is read while one is worked on."""
    with ThreadPoolExecutor(1) as reader:
        pieces = iter(blocks)
        coming = reader.submit(next, pieces, None)
        while (block := coming.result()) is not None:
            coming = reader.submit(next, pieces, None)
            yield block


def table_of_columns(schema: Schema, name: str, columns: Mapping[str, pl.Series]) -> Reading:
    """A reading of ``columns`` by their names in ``schema``, in its types, from whatever source."""
    import polars as pl

    if not set(schema.key) <= columns.keys():
        return Reading(name, "empty", empty_frame(schema))
    frame = _completed(pl.DataFrame(dict(columns)), schema)
    return Reading(name, "read" if len(frame) else "empty", frame, tuple(columns) if len(frame) else ())


def table_of_cells(
    schema: Schema, name: str, header: Sequence[str], pieces: Iterable[Sequence[Sequence[str | None]]]
) -> Reading:
    """A reading of the texts of ``pieces``, the columns of some rows each, as if they stood in a file."""
    import polars as pl

    typed = _Typed(schema, header)
    if not typed.is_of_kind:
        return Reading(name, "unreadable", empty_frame(schema), why=typed.odd)
    for columns in pieces:
        wanted = {f"{number}": pl.Series(columns[number], dtype=pl.String) for number in typed.wanted}
        typed.add(pl.DataFrame(wanted))
    return typed.reading(name, cut_off=False, short=0)


def _cells(block: bytes, header: Sequence[str], wanted: Sequence[int]) -> pl.DataFrame:
    """The columns ``wanted``, by their places, of the rows of ``block`` as texts."""
    import polars as pl

    names = [f"{number}" for number in range(len(header))]
    try:
        return pl.read_csv(
            block,
            has_header=False,
            columns=list(wanted),
            schema=dict.fromkeys(names, pl.String),
            infer_schema=False,
            truncate_ragged_lines=True,
        )
    except (pl.exceptions.PolarsError, ValueError):
        rows = [[*row[: len(names)], *[None] * (len(names) - len(row))] for row in parsed_rows(block) if row]
        frame = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")
        return frame.select(names[number] for number in wanted)


def empty_frame(schema: Schema) -> pl.DataFrame:
    """No rows, all columns."""
    import polars as pl

    return pl.DataFrame(schema={column.name: _type_of(column.kind) for column in schema.columns})


def _completed(frame: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """``frame`` with the columns of ``schema`` that it lacks, null."""
    import polars as pl

    missing = [column for column in schema.columns if column.name not in frame.columns]
    return frame.with_columns(pl.lit(None, _type_of(column.kind)).alias(column.name) for column in missing)


def _type_of(kind: Kind) -> Any:
    import polars as pl

    types = {"text": pl.String, "shapes": pl.String, "list": pl.String, "label": pl.Categorical, "real": pl.Float64}
    return types.get(kind, pl.Int64)


def _are_all(values: pl.Series, text: pl.Series) -> bool:
    """Whether ``values`` are all that is in ``text``, but for what stands where there is no value."""
    if values.null_count() == text.null_count():
        return True
    others = text.filter(values.is_null()).drop_nulls().unique()
    return len(others) <= len(MISSING) and bool(others.str.strip_chars().is_in(MISSING).all())


def _is_usual(values: pl.Series, kind: Kind) -> bool:
    """Whether ``values`` are finite, and times of today's ms or lengths in ms and no others."""
    if values.dtype.is_float():
        return bool(values.is_finite().all())
    if values.dtype.is_decimal():
        low, high = values.min(), values.max()
        least = _LATEST_S if kind == "moment" else -_LATEST_MS
        return low is None or bool(low > least and high < _LATEST_MS)  # type: ignore[operator]
    return True


def _finished(values: pl.Series) -> pl.Series:
    """``values`` of ms as ns, others as they are."""
    import polars as pl

    return values.to_physical().cast(pl.Int64) if values.dtype.is_decimal() else values


class _Typed:
    """The blocks of a table so far, in the types of ``schema``."""

    def __init__(self, schema: Schema, header: Sequence[str]) -> None:
        self._schema = schema
        self._lost: dict[str, int] = {}
        self._frames: list[pl.DataFrame] = []
        known = schema.by_heading()
        self._columns: list[Column] = []
        self._of_schema = {column.name for column in schema.columns}
        taken: set[str] = set()
        self.wanted: list[int] = []
        """The places of the columns that are read."""
        there = set(map(column_name, header))
        for number, heading in enumerate(header):
            name = column_name(heading)
            column = known.get(name) or Column(name or f"column_{number}", "text", (heading,))
            if schema.only and (name not in known or column.name in taken):
                continue
            headings = [*map(column_name, column.headings)]
            if schema.only and not there.isdisjoint(headings[: headings.index(name)]):
                continue  # a more usual heading stands elsewhere
            if column.name in taken or (name not in known and column.name in self._of_schema):
                column = Column(f"{column.name}_{number}", column.kind, column.headings)
            taken.add(column.name)
            self._columns.append(column)
            self.wanted.append(number)
        self._known = taken & self._of_schema
        self.is_of_kind = set(schema.key) <= taken and bool(self._known)
        self._header = header

    @property
    def odd(self) -> str:
        """Why this is no table of the kind: the columns it lacks, or that it has none of them."""
        if not self._known:
            return f"unknown columns: {printable(','.join(self._header))[:80]}"
        keys = [column.headings[0] for column in self._schema.columns if column.name in self._schema.key]
        lacking = [heading for heading in keys if column_name(heading) not in map(column_name, self._header)]
        return f"no column {', '.join(lacking)}"

    @property
    def direct(self) -> dict[str, Any]:
        """The types that columns of numbers are read as, by the place of each in the header; times are ms."""
        import polars as pl

        ms = pl.Decimal(38, 6)
        kinds: dict[str, Any] = {"whole": pl.Int64, "real": pl.Float64, "moment": ms, "length": ms}
        pairs = zip(self.wanted, self._columns, strict=True)
        return {f"{number}": kinds[column.kind] for number, column in pairs if column.kind in kinds}

    def add_usual(self, cells: pl.DataFrame) -> bool:
        """Take in rows whose numbers are read already; False, and none is taken, where a cell needs a second look."""
        import polars as pl

        frame = []
        for name, column in zip(cells.columns, self._columns, strict=True):
            values = cells[name].cast(pl.Categorical) if column.kind == "label" else cells[name]
            if column.kind in ("label", "text"):
                texts = values.unique().cast(pl.String)
                if (texts != texts.str.strip_chars()).any():
                    return False
            elif not _is_usual(values, column.kind):
                return False
            frame.append(_finished(values).alias(column.name))
        self._put(pl.DataFrame(frame))
        return True

    def _put(self, frame: pl.DataFrame) -> None:
        import polars as pl

        blank = frame.select(pl.all_horizontal(pl.all().is_null())).to_series()
        self._frames.append(frame.filter(~blank) if blank.any() else frame)

    def add(self, cells: pl.DataFrame) -> None:
        """Take in rows of texts, whose columns are those of the header."""
        import polars as pl

        # All columns at once, on all cores: first those that hold nothing but numbers, then the others.
        direct = {name: pl.col(name).cast(kind, strict=False) for name, kind in self.direct.items()}
        kind_of = dict(zip(cells.columns, (column.kind for column in self._columns), strict=True))
        plain = {
            name: values
            for name, values in zip(direct, cells.select(direct.values()).get_columns(), strict=True)
            if _are_all(values, cells[name]) and _is_usual(values, kind_of[name])
        }
        as_it_stands = [
            name for name, column in zip(cells.columns, self._columns, strict=True) if column.kind == "list"
        ]
        texts = (pl.col(name).str.strip_chars() for name in cells.columns if name not in {*plain, *as_it_stands})
        cells = cells.with_columns(pl.when(~text.is_in(MISSING)).then(text) for text in texts)
        typed = [
            (_finished(plain[name]) if name in plain else self._converted(column, cells[name])).alias(column.name)
            for name, column in zip(cells.columns, self._columns, strict=True)
        ]
        self._put(pl.DataFrame(typed))

    def _converted(self, column: Column, text: pl.Series) -> pl.Series:
        import polars as pl

        if column.kind in ("text", "list"):
            return text
        values: pl.Series
        if column.kind == "label":
            values = text.cast(pl.Categorical)
            return values
        if column.kind == "shapes":
            values = text.str.replace_all(r'["\r\n]', "").str.strip_chars()
            return values
        if column.kind == "real":
            values = text.cast(pl.Float64, strict=False)
            values = values.set(~values.is_finite().fill_null(True), None)
        elif column.kind == "whole":
            values = text.cast(pl.Int64, strict=False)
            if values.null_count() > text.null_count():
                values = values.fill_null(text.cast(pl.Float64, strict=False).round().cast(pl.Int64, strict=False))
        elif column.kind in ("moment", "length"):
            values = moments_of(text) if column.kind == "moment" else milliseconds_of(text)
        else:
            values = nanoseconds_of(text)
        if lost := values.null_count() - text.null_count():
            self._lost[column.name] = self._lost.get(column.name, 0) + lost
        return values

    def reading(self, name: str, cut_off: bool, short: int) -> Reading:
        """All of it."""
        import polars as pl

        if not self._frames:
            return Reading(name, "cut_off" if cut_off else "empty", empty_frame(self._schema), short=short)
        # Not copied into one piece, which would take as much memory again.
        frame = _completed(pl.concat(self._frames), self._schema)
        if self._schema.measured:
            frame = frame.with_columns(self._measured(frame))
        headings = tuple(column.name for column in self._columns)
        return Reading(name, "cut_off" if cut_off else "read", frame, headings, self._lost or None, short=short)

    def _measured(self, frame: pl.DataFrame) -> list[pl.Series]:
        """The columns that are not of the schema and hold numbers only."""
        import polars as pl

        columns = (frame[name] for name in set(frame.columns) - self._of_schema)
        numbers = ((column, column.cast(pl.Float64, strict=False)) for column in columns)
        return [number for column, number in numbers if number.null_count() == column.null_count()]


def nanoseconds_of(text: pl.Series) -> pl.Series:
    """Microseconds as text to whole ns, exactly; null where it is no number."""
    import polars as pl

    usual = text.str.contains(_USUAL_TIME).fill_null(False)
    values: pl.Series = text.set(~usual, None).str.replace(".", "", literal=True).cast(pl.Int64, strict=False)
    others = np.flatnonzero((~usual & text.is_not_null()).to_numpy())
    if len(others):
        parsed = parse_times(text[others].to_list())
        good = parsed != INVALID
        values = values.scatter(others[good], parsed[good])
    return values


def milliseconds_of(text: pl.Series) -> pl.Series:
    """Milliseconds as text to whole ns; null where it is no number, or none that fits."""
    import polars as pl

    # Decimals of ns: what a number has beyond them says nothing. Exponents and the like take the way of floats.
    values = text.cast(pl.Decimal(38, 6), strict=False)
    odd = values.is_null() & text.is_not_null()
    whole: pl.Series = values.set(values.abs() >= _LATEST_MS, None).to_physical().cast(pl.Int64, strict=False)
    if odd.any():
        others = text.cast(pl.Float64, strict=False)
        others = others.set(~(others.abs() < _LATEST_MS).fill_null(False), None)
        whole = whole.fill_null((others * 1e6).round().cast(pl.Int64, strict=False))
    return whole


_LATEST_MS = 4 * 10**12
"""In the year 2096; what is larger counts us or ns since 1970."""
_LATEST_S = _LATEST_MS // 1000
_USUAL_DATE = "%Y-%m-%d %H:%M:%S:%6f"
_DATES = "%Y-%m-%d %H:%M:%S%.f", "%Y/%m/%d %H:%M:%S%.f"
DATED = r"^\d{4}[-/]\d\d[-/]\d\d"


def moments_of(text: pl.Series) -> pl.Series:
    """Dates such as ``2025-11-20 08:53:20:002687``, or s, ms, us or ns since 1970, as ns since 1970; null for 0.

    A date has no zone: its ns are those of UTC.
    """
    import polars as pl

    values = milliseconds_of(text)
    if values.null_count() > text.null_count():  # the other ways take ten times as long
        values = values.fill_null(text.str.strptime(pl.Datetime("ns"), _USUAL_DATE, strict=False).cast(pl.Int64))
    if values.null_count() > text.null_count():
        dated = text.str.contains(DATED).fill_null(False)
        dates = text.set(~dated, None).str.replace("T", " ", literal=True).str.replace(r":(\d+)$", ".$1")
        # The seconds are the last after a colon where no fraction follows them: 08:53:20 has become 08:53.20.
        dates = dates.str.replace(r" (\d\d:\d\d)\.(\d\d)$", " $1:$2")
        for form in _DATES:
            moment = dates.str.strptime(pl.Datetime("ns"), form, strict=False).cast(pl.Int64)
            values = values.fill_null(moment)
        numbers = text.set(dated, None).cast(pl.Decimal(38, 0), strict=False)
        for least, times in ((4 * 10**17, 1), (4 * 10**14, 1000)):
            fits = ((numbers >= least) & (numbers < 10 * least)).fill_null(False)
            values = values.fill_null((numbers.set(~fits, None) * times).cast(pl.Int64, strict=False))
    seconds = (values > _LATEST_S * 10**5) & (values < _LATEST_S * 10**6)  # they were read as ms
    values = (values * 1000).zip_with(seconds.fill_null(False), values)
    odd = (values == 0) | (values.abs() >= _LATEST_MS * 10**6)
    moments: pl.Series = values.set(odd.fill_null(False), None)
    return moments
