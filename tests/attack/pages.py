"""Pages of databases with a few bytes changed: what is read is what SQLite reads row by row, or damage is noted.

``python tests/attack/pages.py [--flips 2000] [--seed 0]`` prints how many were read whole, in part and not at all, and
how many of these differ from what SQLite reads.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from npu_tui.load.database_file import UNREADABLE, open_database  # noqa: E402
from npu_tui.load.database_rows import ABSENT, DatabaseRows, DatabaseTables, quoted  # noqa: E402  # noqa: E402
from npu_tui.load.errors import InputError  # noqa: E402

TABLE = "T"
_MOST_ROWS = 5000
WHOLE, REAL = ("startNs", "text", "key", "mixed"), ("share",)


@dataclass
class Outcome:
    """How many damaged databases were read whole, in part, not at all, and not as SQLite reads them."""

    whole: int = 0
    part: int = 0
    closed: int = 0
    different: int = 0


def made(path: Path, rows: int, page_bytes: int, seed: int = 0, statements: tuple[str, ...] = ()) -> Path:
    """A database with a table of numbers of every kind, partly deleted and not in the order of its pages."""
    chance = random.Random(seed)
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA page_size = {page_bytes}")
        connection.execute(f"CREATE TABLE {TABLE} (startNs INTEGER, text TEXT, key INTEGER PRIMARY KEY, mixed, share)")
        keys = chance.sample(range(-rows, 5 * rows), rows)
        for key in keys:
            time = chance.choice([0, 1, -1, 127, -129, 1 << 20, -(1 << 30), 1 << 40, 1736405443881410320])
            text = str(chance.choice([0, 7, 12345678, 1736405443881410320, 9223372036854775807, -5]))
            mixed = chance.choice([None, 3, 2.75, -1e15, "42", ""])
            share = chance.choice([None, 0.1, 1 / 3, 5, -2.5e300])
            connection.execute(f"INSERT INTO {TABLE} VALUES (?, ?, ?, ?, ?)", (time, text, key, mixed, share))
        connection.execute(f"DELETE FROM {TABLE} WHERE key % 11 = 3")
        for statement in statements:
            connection.execute(statement)
    connection.close()
    return path


def slowly(path: Path) -> tuple[list[tuple[int | float, ...]], bool]:
    """The rows of the table one by one, row number first, and whether SQLite came to its end.

    A damaged table may lead in a circle, which has no end.
    """
    database = open_database(path)
    try:
        columns = DatabaseTables(database).find(TABLE).columns  # type: ignore[union-attr]
        cells = ["rowid"]
        for name in WHOLE:
            known = columns.get(name.lower())
            cells.append(f"ifnull(CAST({quoted(known)} AS INTEGER), {ABSENT})" if known else str(ABSENT))
        for name in REAL:
            cells.append(f"CAST({quoted(columns[name])} AS REAL)" if name in columns else "NULL")
        rows: list[tuple[int | float, ...]] = []
        try:
            query = f"SELECT {', '.join(cells)} FROM {TABLE} NOT INDEXED ORDER BY rowid LIMIT {_MOST_ROWS}"
            for row in database.connection.execute(query):
                rows.append(row)
        except UNREADABLE:
            return rows, False
        return rows, len(rows) < _MOST_ROWS
    finally:
        database.close()


def read(path: Path) -> tuple[DatabaseRows, bool] | None:
    """The rows as the loader has them, and whether damage was noted; None without a table."""
    try:
        database = open_database(path)
    except InputError:
        return None
    try:
        tables = DatabaseTables(database)
        table = tables.find(TABLE)
        return None if table is None else (tables.read(table, WHOLE, REAL), bool(tables.damaged))
    finally:
        database.close()


def same(rows: DatabaseRows, expected: list[tuple[int | float, ...]]) -> bool:
    """Whether ``rows`` are those ``expected``, bit for bit."""
    columns = [rows.number, *(rows.columns[name] for name in (*WHOLE, *REAL))]
    if any(len(column) != len(expected) for column in columns):
        return False
    wanted = zip(*expected, strict=True) if expected else [()] * len(columns)
    return all(
        np.array_equal(column, np.array(values, column.dtype), equal_nan=column.dtype == np.float64)
        for column, values in zip(columns, wanted, strict=True)
    )


def flipped(data: bytes, chance: random.Random) -> bytes:
    """``data`` with one to four bytes changed after the header, preferably where pages have their headers."""
    found = bytearray(data)
    page_bytes = int.from_bytes(data[16:18], "big")
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(1, len(data) // page_bytes) * page_bytes
        at += chance.choice([chance.randrange(12), chance.randrange(12, 80), chance.randrange(page_bytes)])
        found[at] = chance.choice([0, 1, 5, 13, 127, 128, 255, found[at] ^ 1 << chance.randrange(8)])
    return bytes(found)


def attack(folder: Path, flips: int, seed: int) -> Outcome:
    """Read ``flips`` damaged databases."""
    outcome = Outcome()
    for number in range(flips):
        if number % 100 == 0:
            path = folder / f"{number}.db"
            data = made(path, 300, 512, seed + number).read_bytes()
        path.write_bytes(flipped(data, random.Random(seed * 1_000_003 + number)))
        found = read(path)
        if found is None:
            outcome.closed += 1
            continue
        rows, damaged = found
        outcome.part += damaged
        outcome.whole += not damaged
        expected, complete = slowly(path)
        # What SQLite reads to its end is read as it is; of anything else all columns have the same rows.
        even = len({len(rows), *map(len, rows.columns.values())}) == 1
        alike = same(rows, expected) if complete and not damaged else even
        if not alike:
            outcome.different += 1
            print(f"differs: seed {seed} flip {number}")
    return outcome


def main() -> int:
    """Attack and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flips", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = attack(Path(folder), options.flips, options.seed)
    print(f"{options.flips} damaged databases: {found.whole} read whole, {found.part} in part, {found.closed} not at "
          f"all, {found.different} not as SQLite reads them")  # fmt: skip
    return int(found.different > 0)


if __name__ == "__main__":
    sys.exit(main())
