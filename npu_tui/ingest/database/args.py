"""Args of slices that are rows of a database: the row is read again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from npu_tui.ingest.database.arg_names import ARGS, ArgOf, Cells, Look, columns_of
from npu_tui.ingest.database.columns.whole import ROW, ROW_BITS, TABLES
from npu_tui.ingest.database.tables.connect import UNREADABLE, opened
from npu_tui.ingest.database.tables.rows import Tables
from npu_tui.ingest.errors import InputError
from npu_tui.trace.args import Arg, ArgColumn, Matches, always, column_of
from npu_tui.trace.message import Message, message
from npu_tui.trace.model import Chunks, EventFile
from npu_tui.trace.text import on_one_line

I64 = npt.NDArray[np.int64]

_BATCH = 1 << 12
"""Rows that a scan reads and searches at a time."""


class DatabaseArgs:
    """The ``ArgReader`` of the rows of the database ``file`` that ``chunks`` finds again.

    ``path`` is what an error names.
    """

    def __init__(self, path: str, file: EventFile, chunks: Chunks) -> None:
        self._path = path
        self._file = file
        self._chunks = chunks

    @property
    def is_ready(self) -> bool:
        """A database is never packed."""
        return True

    def one(self, ordinal: int) -> dict[str, Any]:
        """All args of a row; empty for a slice that was computed."""
        with self._opened() as look:
            for _, args, rows in self._rows(look, np.array([ordinal]), lambda args: args):
                return _values(look, args, rows[0])
        return {}

    def objects(self, ordinals: I64) -> Iterator[tuple[int, dict[str, Any]]]:
        """All args of many rows, each with its place in ``ordinals``; rows without any are left out."""
        with self._opened() as look:
            for first in range(0, len(ordinals), _BATCH):
                for places, args, rows in self._rows(look, ordinals[first : first + _BATCH], lambda args: args):
                    for place, cells in zip(places, rows, strict=True):
                        yield first + place, _values(look, args, cells)

    def many(self, ordinals: I64, keys: Sequence[str]) -> list[list[Any]]:
        """The args ``keys`` of many rows."""
        found: list[list[Any]] = [[None] * len(ordinals) for _ in keys]
        with self._opened() as look:
            wanted = frozenset(keys)
            for places, args, rows in self._rows(look, ordinals, lambda args: _those(args, wanted.__contains__)):
                for number, key in enumerate(keys):
                    if key in args:
                        value = args[key].value
                        for place, cells in zip(places, rows, strict=True):
                            found[number][place] = value(look, cells)
        return found

    def columns(self, ordinals: I64, keys: Sequence[str]) -> list[ArgColumn]:
        """The same as columns."""
        return [column_of(values) for values in self.many(ordinals, keys)]

    def scan(self, ordinals: I64, wanted: Sequence[Arg], go_on: Callable[[], bool] = always) -> Iterator[Matches]:
        """Which rows match, batch by batch; only args of a name that is asked for are looked at."""

        def asked(args: dict[str, ArgOf]) -> dict[str, ArgOf]:
            names = [[name for name in args if one.key in name.lower()] for one in wanted]
            return _those(args, set().union(*names).__contains__) if all(names) else {}

        with self._opened() as look:
            for first in range(0, len(ordinals), _BATCH):
                if not go_on():
                    return
                places: list[int] = []
                batch = ordinals[first : first + _BATCH]
                for own, args, rows in self._rows(look, batch, asked):
                    matching = (_matches(_values(look, args, cells), wanted) for cells in rows)
                    places += [first + place for place, yes in zip(own, matching, strict=True) if yes]
                yield Matches(np.array(sorted(places), np.int64), min((first + _BATCH) / len(ordinals), 1.0))

    def _opened(self) -> _Opened:
        return _Opened(self._path, self._file)

    def _rows(
        self, look: Look, ordinals: I64, chosen: Callable[[dict[str, ArgOf]], dict[str, ArgOf]]
    ) -> Iterator[tuple[list[int], dict[str, ArgOf], list[Cells]]]:
        """By table the places of its ``ordinals``, those of its args that ``chosen`` wants, and the rows."""
        chunks = self._chunks
        at = np.searchsorted(chunks.first_event, ordinals, "right") - 1
        numbers = (chunks.offset[at] & ROW) + (ordinals - chunks.first_event[at])
        kinds = chunks.offset[at] >> ROW_BITS
        for kind in np.unique(kinds).tolist():
            table = look.tables.find(TABLES[kind])
            args = chosen(ARGS.get(TABLES[kind], {}))
            if table is None or not args:
                continue
            places = np.flatnonzero(kinds == kind)
            rows = look.tables.rows(table, columns_of(table, args), numbers[places].tolist())
            if any(row is None for row in rows):
                raise InputError(_changed(self._path))
            yield places.tolist(), args, [row for row in rows if row is not None]


class _Opened:
    """The database while args are read. Raises ``InputError`` if it is gone or is not the one that was loaded."""

    def __init__(self, path: str, file: EventFile) -> None:
        self._path = path
        self._file = file

    def __enter__(self) -> Look:
        path = Path(self._file.path)
        try:
            size = os.stat(path).st_size
        except OSError as error:
            raise InputError(message("input.gone", path=self._path, why=error.strerror or str(error))) from error
        if self._file.copy is None and size != self._file.size:
            raise InputError(_changed(self._path))
        self._database = opened(path)
        return Look(Tables(self._database.__enter__()))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        self._database.__exit__(None, None, None)
        if isinstance(error, UNREADABLE):
            raise InputError(
                message("input.db_row", path=self._path, why=str(error) or type(error).__name__)
            ) from error


def _those(args: dict[str, ArgOf], wanted: Callable[[str], bool]) -> dict[str, ArgOf]:
    return {name: arg for name, arg in args.items() if wanted(name)}


def _values(look: Look, args: dict[str, ArgOf], cells: Cells) -> dict[str, Any]:
    found = ((name, arg.value(look, cells)) for name, arg in args.items())
    return {name: value for name, value in found if value is not None}


def _matches(args: dict[str, Any], wanted: Sequence[Arg]) -> bool:
    texts = [(name.lower(), on_one_line(str(value)).lower()) for name, value in args.items()]
    return all(any(one.holds(name, value) for name, value in texts) for one in wanted)


def _changed(path: str) -> Message:
    return message("input.db_changed", path=path)
