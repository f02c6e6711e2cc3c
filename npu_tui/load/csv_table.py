"""A CSV file beside a trace to a frame of typed columns, in blocks of whole rows, whatever its size and encoding.

Several programs of several versions write such files: cells end in tabs, lack a value (empty or ``N/A``), stand in
quotes over several lines; rows are too short, too long or cut off; some are GBK. ``companion_schema`` has the columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from npu_tui.load.companion_schema import (
    MISSING,
    FileColumn,
    Kind,
    Reading,
    Schema,
    State,
    column_name,
    find_file,
    reason,
)
from npu_tui.load.csv_rows import CsvBlocks, ahead, parsed_rows
from npu_tui.load.format import Survey
from npu_tui.load.layers import first_rows
from npu_tui.load.times import INVALID, parse_times
from npu_tui.native.layout import (
    CSV_DATE,
    CSV_LEFT_OUT,
    CSV_MICROSECONDS,
    CSV_MILLISECONDS,
    CSV_REAL,
    CSV_REQUESTS,
    CSV_TEXT,
    CSV_WHOLE,
)
from npu_tui.native.rows import NO_VALUE, CsvColumns, csv_columns
from npu_tui.trace.arrays import I64
from npu_tui.trace.text import LONGEST, printable

if TYPE_CHECKING:
    import polars as pl


_COMPILED = {
    "whole": CSV_WHOLE, "real": CSV_REAL, "moment": CSV_MILLISECONDS, "length": CSV_MILLISECONDS,
    "time": CSV_MICROSECONDS, "span": CSV_MICROSECONDS, "date": CSV_DATE,
    "text": CSV_TEXT, "label": CSV_TEXT, "shapes": CSV_TEXT, "requests": CSV_REQUESTS,
}  # fmt: skip
"""Kinds of columns as the compiled loop knows them."""
_MOMENTS = "time", "moment", "date"
_USUAL_TIME = r"^-?\d{1,15}\.\d{3}$"


def read_table(folder: Path, schema: Schema, survey: Survey | None = None) -> Reading:
    """The file of ``schema`` in ``folder``, read in blocks; the ``Reading`` says what could not be read."""
    name = f"{schema.stem}.csv"
    try:
        path = find_file(folder, schema.stem, schema.others, survey=survey)
        name = path.name
        if not path.exists():
            return Reading(name, "missing", empty_frame(schema))
        blocks = CsvBlocks(path)
        if blocks.is_blank:  # also where the quotes of the header are not closed
            return Reading(name, "cut_off" if blocks.cut_off else "empty", empty_frame(schema))
        typed = _Typed(schema, blocks.header)
        if not typed.is_of_kind and blocks.cut_off:
            return Reading(name, "cut_off", empty_frame(schema))
        if not typed.is_of_kind:
            return Reading(name, "unreadable", empty_frame(schema), why=typed.odd)
        for block in ahead(blocks):
            typed.add(block)
    except (OSError, MemoryError) as error:
        return Reading(name, "unreadable", empty_frame(schema), why=reason(error))
    return typed.reading(name, blocks.cut_off, blocks.short)


def table_of_columns(schema: Schema, name: str, columns: Mapping[str, pl.Series]) -> Reading:
    """A reading of ``columns`` by their names in ``schema``, in its types, from whatever source."""
    import polars as pl

    if not set(schema.key) <= columns.keys():
        return Reading(name, "empty", empty_frame(schema))
    lists = [column.name for column in schema.columns if column.kind == "requests" and column.name in columns]
    counts, requests = requests_of(columns[lists[0]]) if lists else (None, None)
    typed = dict(columns) if counts is None else {**columns, lists[0]: counts}
    frame = _completed(pl.DataFrame(typed), schema)
    headings = tuple(columns) if len(frame) else ()
    return Reading(name, "read" if len(frame) else "empty", frame, headings, requests=requests)


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
        typed.put({}, pl.DataFrame(wanted))
    return typed.reading(name, cut_off=False, short=0)


def _cells(block: bytes, header: Sequence[str], wanted: Sequence[int]) -> pl.DataFrame:
    """The columns ``wanted``, by their places, of the rows of ``block`` as texts."""
    import polars as pl

    names = [f"{number}" for number in range(len(header))]
    try:
        return pl.read_csv(
            ",".join(names).encode() + b"\n" + block,  # polars takes the first row for as wide as all others
            columns=[names[number] for number in wanted],
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


_MOST_REAL = 1e15  # a size, speed or percentage above that is no real one; sums and products of those below are finite


def _type_of(kind: Kind) -> Any:
    import polars as pl

    types = {"text": pl.String, "shapes": pl.String, "label": pl.Categorical, "real": pl.Float64}
    return types.get(kind, pl.Int64)


def _is_usual(values: pl.Series, kind: Kind) -> bool:
    """Whether ``values`` are numbers to reckon with, and times of today's ms or lengths in ms and no others."""
    if values.dtype.is_float():
        return bool((values.abs() < _MOST_REAL).all())
    if kind == "span":
        return bool((values.abs() < LONGEST).all())
    if kind in ("moment", "length"):
        low, high = cast(int | None, values.min()), cast(int, values.max())  # ns
        least = _LATEST_S if kind == "moment" else -_LATEST_MS
        return low is None or (low > least * 10**6 and high < _LATEST_MS * 10**6)
    return True


class _Typed:
    """The blocks of a table so far, in the types of ``schema``."""

    def __init__(self, schema: Schema, header: Sequence[str]) -> None:
        self._schema = schema
        self._lost: dict[str, int] = {}
        self._frames: list[pl.DataFrame] = []
        self._requests: list[pl.DataFrame] = []
        known = schema.by_heading()
        self._columns: list[FileColumn] = []
        self._of_schema = {column.name for column in schema.columns}
        taken: set[str] = set()
        self.wanted: list[int] = []
        """The places of the columns that are read."""
        there = set(map(column_name, header))
        for number, heading in enumerate(header):
            name = column_name(heading)
            column = known.get(name) or FileColumn(name or f"column_{number}", "text", (heading,))
            if schema.only and (name not in known or column.name in taken):
                continue
            headings = [*map(column_name, column.headings)]
            if schema.only and not there.isdisjoint(headings[: headings.index(name)]):
                continue  # a more usual heading stands elsewhere
            if column.name in taken or (name not in known and column.name in self._of_schema):
                column = FileColumn(f"{column.name}_{number}", column.kind, column.headings)
            taken.add(column.name)
            self._columns.append(column)
            self.wanted.append(number)
        self._known = taken & self._of_schema
        self.is_of_kind = set(schema.key) <= taken and bool(self._known)
        self._header = header
        places = zip(self.wanted, self._columns, strict=True)
        self._lists = next((place for place, column in places if column.kind == "requests"), None)

    @property
    def odd(self) -> str:
        """Why this is no table of the kind: the columns it lacks, or that it has none of them."""
        if not self._known:
            return f"unknown columns: {printable(','.join(self._header))[:80]}"
        keys = [column.headings[0] for column in self._schema.columns if column.name in self._schema.key]
        lacking = [heading for heading in keys if column_name(heading) not in map(column_name, self._header)]
        return f"no column {', '.join(lacking)}"

    def add(self, block: bytes) -> None:
        """Take in the rows of ``block``: columns without an odd cell by the compiled loop, the others as texts."""
        kinds = [CSV_LEFT_OUT] * len(self._header)
        for place, column in zip(self.wanted, self._columns, strict=True):
            if column.name in self._of_schema:  # others may be numbers, of which no two are alike
                kinds[place] = _COMPILED.get(column.kind, CSV_LEFT_OUT)
        found = csv_columns(block, kinds, MISSING)
        columns, requests = ({}, None) if found is None else self._typed(found)
        left = [place for place in self.wanted if place not in columns]
        cells = _cells(block, self._header, left) if left else None
        if found is not None and cells is not None and len(cells) != found.rows:
            columns, requests, cells = {}, None, _cells(block, self._header, self.wanted)
        if requests is not None:
            self._requests.append(requests)
        self.put(columns, cells)

    def _typed(self, found: CsvColumns) -> tuple[dict[int, pl.Series], pl.DataFrame | None]:
        """The columns of ``found``, but for those that need a second look, and the requests of batches."""
        import polars as pl

        typed, requests = dict[int, pl.Series](), None
        texts = _cleaned(found.texts)
        there = {column.kind for column in self._columns}
        labels = texts.cast(pl.Categorical) if there & {"label", "requests"} else texts
        kinds = {"text": texts, "label": labels, "shapes": _one_line(texts) if "shapes" in there else texts}
        # Requests of batches are lists in one cell, which become a table of their own.
        if self._lists in found.values:
            rid, *numbers = found.requests.T
            columns = (labels.gather(rid - 1), *map(_nullable_numbers, numbers))
            requests = pl.DataFrame(dict(zip(REQUESTS, columns, strict=True)))
        for place, column in zip(self.wanted, self._columns, strict=True):
            if (values := found.values.get(place)) is None:
                continue
            if column.kind in kinds:
                series = kinds[column.kind].extend_constant(None, 1)
                typed[place] = series.gather(np.where(values == NO_VALUE, len(texts), values - 1))
                continue
            series = _nullable_numbers(values, np.float64 if column.kind == "real" else np.int64)
            if _is_usual(series, column.kind):
                typed[place] = series
        return typed, requests

    def put(self, typed: dict[int, pl.Series], cells: pl.DataFrame | None) -> None:
        """Take in rows of columns that are ``typed``, by their places, and of others as texts."""
        import polars as pl

        columns, numbers = {}, {}
        of_texts = {} if cells is None else self._of_texts(cells)
        for place, column in zip(self.wanted, self._columns, strict=True):
            columns[column.name] = typed[place] if place in typed else of_texts[f"{place}"]
            if column.kind == "date" and place not in typed and cells is not None:
                text = cells[f"{place}"].str.strip_chars()
                numbers[column.name] = text.set(text.is_in((*MISSING, "0")), None)
        for date, text in numbers.items():
            name = date.removesuffix("_date")
            moments = moments_of(text.set(_dated(text), None))
            if moments.null_count() < len(moments):
                columns[name] = columns[name].fill_null(moments) if name in columns else moments
            unread = text.is_not_null() & columns[date].is_null() & columns.get(name, moments).is_null()
            if unread.any():
                self._lost[name] = self._lost.get(name, 0) + int(unread.sum())
        frame = pl.DataFrame(columns)
        blank = frame.select(pl.all_horizontal(pl.all().is_null())).to_series()
        self._frames.append(frame.filter(~blank) if blank.any() else frame)

    def _of_texts(self, cells: pl.DataFrame) -> dict[str, pl.Series]:
        """The columns of ``cells``, which are named by their places, in their types."""
        import polars as pl

        pairs = zip(self.wanted, self._columns, strict=True)
        column_of = {f"{place}": column for place, column in pairs if f"{place}" in cells.columns}
        as_it_stands = [name for name, column in column_of.items() if column.kind == "requests"]
        texts = (pl.col(name).str.strip_chars() for name in cells.columns if name not in as_it_stands)
        cells = cells.with_columns(pl.when(~text.is_in(MISSING)).then(text) for text in texts)
        return {name: self._converted(column, cells[name]) for name, column in column_of.items()}

    def _converted(self, column: FileColumn, text: pl.Series) -> pl.Series:
        import polars as pl

        if column.kind == "text":
            return text
        values: pl.Series
        if column.kind == "date":
            values = moments_of(text.set(~_dated(text), None))
            return values
        if column.kind == "requests":
            values, requests = requests_of(text)
            self._requests.append(requests)
            return values
        if column.kind == "label":
            values = text.cast(pl.Categorical)
            return values
        if column.kind == "shapes":
            values = _one_line(text)
            return values
        if column.kind == "real":
            values = text.cast(pl.Float64, strict=False)
            values = values.set(~(values.abs() < _MOST_REAL).fill_null(True), None)
        elif column.kind == "whole":
            values = text.cast(pl.Int64, strict=False)
            if values.null_count() > text.null_count():
                values = values.fill_null(text.cast(pl.Float64, strict=False).round().cast(pl.Int64, strict=False))
        elif column.kind in ("moment", "length"):
            values = moments_of(text) if column.kind == "moment" else milliseconds_of(text)
        else:
            values = nanoseconds_of(text)
        if column.kind in ("span", "length"):
            values = values.set((values.abs() >= LONGEST).fill_null(False), None)
        if lost := values.null_count() - text.null_count():
            self._lost[column.name] = self._lost.get(column.name, 0) + lost
        return values

    def reading(self, name: str, cut_off: bool, short: int) -> Reading:
        """The whole table as it was read."""
        import polars as pl

        if not self._frames:
            return Reading(name, "cut_off" if cut_off else "empty", empty_frame(self._schema), short=short)
        # Not copied into one piece, which would take as much memory again.
        frame = _completed(pl.concat(self._frames, how="diagonal"), self._schema)
        if self._schema.measured:
            frame = frame.with_columns(self._measured(frame))
        headings = tuple(column.name for column in self._columns)
        state: State = "cut_off" if cut_off else "read"
        requests = pl.concat(self._requests, how="vertical_relaxed") if self._requests else None
        rows, moments = len(frame), [column.name for column in self._columns if column.kind in _MOMENTS]
        kept = first_rows(frame, moments) if self._schema.events and moments else None
        if kept is not None:
            if requests is not None:
                counts = next(column.name for column in self._columns if column.kind == "requests")
                requests = requests.filter(np.repeat(kept, frame[counts].fill_null(0).to_numpy()))
            frame = frame.filter(kept)
        lost, twice = self._lost or None, rows - len(frame)
        return Reading(name, state, frame, headings, lost, short=short, requests=requests, twice=twice)

    def _measured(self, frame: pl.DataFrame) -> list[pl.Series]:
        """The columns that are not of the schema and hold numbers only."""
        import polars as pl

        columns = (frame[name] for name in set(frame.columns) - self._of_schema)
        numbers = ((column, column.cast(pl.Float64, strict=False)) for column in columns)
        return [number for column, number in numbers if number.null_count() == column.null_count()]


def _nullable_numbers(values: I64, kind: Any = np.int64) -> pl.Series:
    """``values``, the bits of numbers of ``kind``, null where there are none."""
    import polars as pl

    series = pl.Series(np.ascontiguousarray(values).view(kind))
    return series.set(pl.Series(values == NO_VALUE), None) if len(values) and values.min() == NO_VALUE else series


def _cleaned(texts: list[str]) -> pl.Series:
    """``texts`` of cells without quotes and blanks around them, null for those that stand for no value."""
    import polars as pl

    series = pl.Series(texts, dtype=pl.String)
    if series.str.contains('"', literal=True).any():
        series = series.str.replace(r'^"((?s:.*))"$', "$1").str.replace_all('""', '"', literal=True)
    series = series.str.strip_chars()
    return series.set(series.is_in(MISSING), None)


def _one_line(texts: pl.Series) -> pl.Series:
    return texts.str.replace_all(r'["\r\n]', "").str.strip_chars()


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


_LATEST_MS = 4 * 10**12  # in the year 2096; what is larger counts us or ns since 1970
_LATEST_S = _LATEST_MS // 1000
_USUAL_DATE = "%Y-%m-%d %H:%M:%S:%6f"
_DATES = "%Y-%m-%d %H:%M:%S%.f", "%Y/%m/%d %H:%M:%S%.f"
_DATED = r"^\d{4}[-/]\d\d[-/]\d\d"


def _dated(text: pl.Series) -> pl.Series:
    """Which cells are dates."""
    return text.str.contains(_DATED).fill_null(False)


def moments_of(text: pl.Series) -> pl.Series:
    """Dates such as ``2025-11-20 08:53:20:002687``, or s, ms, us or ns since 1970, as ns since 1970; null for 0.

    A date has no zone: its ns are those of UTC.
    """
    import polars as pl

    values = milliseconds_of(text)
    if values.null_count() > text.null_count():  # the other ways take ten times as long
        values = values.fill_null(text.str.strptime(pl.Datetime("ns"), _USUAL_DATE, strict=False).cast(pl.Int64))
    if values.null_count() > text.null_count():
        dated = _dated(text)
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


# Of a list that is cut off the last one has no end, nor a name: it may be shorter than it was.
_MEMBER = r"\{[^{}]{5,}\}?"
_RID = r"""['"]?\b(?:rid|req_id|request_id|id)['"]?\s*[:=]\s*['"]?([^'",{}\[\]]*[^'",{}\[\]\s])"""
_NUMBERS = (
    r"""['"]?\b(?:iter|iter_size)['"]?\s*[:=]\s*['"]?(\d{1,15})""",
    r"""['"]?\b(?:type|batch_type)['"]?\s*[:=]\s*['"]?(\d{1,15})""",
    r"""['"]?\b(?:num_scheduled_tokens|scheduled_tokens|tokens)['"]?\s*[:=]\s*['"]?(\d{1,15})""",
)
_USUAL = (
    r"""^\{['"]rid['"]: ['"]?([^'",{}]+)['"]?, ['"]iter['"]: (\d{1,15}), ['"]type['"]: (\d{1,15})"""
    r"""(?:, ['"]num_scheduled_tokens['"]: (\d{1,15}))?[^{}]*\}$"""
)
"""What nearly all writers write: the other patterns take four times as long."""
_NOBODY = "[]", "()", "{}"
_PLAIN = r"""[^\[\]\(\)'",\s]+"""
"""A request in a list of nothing but their names."""


# Bytes of lists that are taken apart at a time: for a name of one byte the pieces take a hundred times as much.
_TOGETHER = 1 << 19


def requests_of(texts: pl.Series) -> tuple[pl.Series, pl.DataFrame]:
    """How many requests each of ``texts`` names, null where there is no list, and these one after the other.

    A request has its name, ``rid``, and whole numbers, null where they are missing: ``iter``, ``phase``, ``tokens``.
    """
    import polars as pl

    ends = texts.str.len_bytes().fill_null(0).cum_sum().to_numpy()
    part = np.diff(ends // _TOGETHER, prepend=0) > 0
    cuts = [0, *np.flatnonzero(part).tolist(), len(texts)]
    counts, requests = zip(*(_requests_of(texts[low:high]) for low, high in pairwise(cuts)), strict=True)
    return pl.concat(counts), pl.concat(requests, how="vertical_relaxed")


def _requests_of(texts: pl.Series) -> tuple[pl.Series, pl.DataFrame]:
    import polars as pl

    texts = texts.set(texts.str.strip_chars().is_in(MISSING), None)
    named = texts.str.contains("{", literal=True).fill_null(True)
    lists = texts.str.extract_all(_MEMBER)
    if not named.all():
        lists = lists.zip_with(named, texts.set(named, None).str.extract_all(_PLAIN))
    empty = (lists.list.len() > 0).fill_null(True) | texts.is_in(_NOBODY)
    if not empty.all():  # a list that cannot be read still stands for a request
        lists = lists.zip_with(empty, texts.set(empty, None).str.extract_all("(?s)^."))
    entries = lists.explode(empty_as_null=False, keep_nulls=False)
    rid, *numbers = entries.str.extract_groups(_USUAL).struct.unnest()
    if len(odd := entries.filter(rid.is_null())):
        places, named = rid.is_null().arg_true(), odd.str.contains("{", literal=True)
        said = odd.str.extract(_RID).set(~odd.str.ends_with("}"), None)
        rid = rid.scatter(places, said.zip_with(named, odd.str.extract(f"^({_PLAIN})$")))
        found = (odd.str.extract(pattern).set(~named, None) for pattern in _NUMBERS)
        numbers = [column.scatter(places, values) for column, values in zip(numbers, found, strict=True)]
    rid = rid.str.strip_chars()
    rid = rid.set(rid.is_in(MISSING), None).cast(pl.Categorical)
    whole = (column.cast(pl.Int64, strict=False).shrink_dtype() for column in numbers)
    columns = dict(zip(REQUESTS, (rid, *whole), strict=True))
    return lists.list.len().cast(pl.Int64).set(texts.is_null(), None), pl.DataFrame(columns)


REQUESTS = "rid", "iter", "phase", "tokens"
"""The columns of requests."""
