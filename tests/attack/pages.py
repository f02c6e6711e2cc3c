"""Pages of databases with a few bytes changed: the compiled reader finds the same rows as SQLite, or it refuses.

What is refused SQLite reads, and intact pages that it did not come to are added: no row of SQLite's is missing then.

``python tests/attack/pages.py [--flips 2000] [--seed 0]`` prints how many were read from their pages, and how many of
these differ from what SQLite reads.
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

from npu_tui.ingest.database.tables.connect import open_database  # noqa: E402
from npu_tui.ingest.database.tables.paged import read_pages  # noqa: E402
from npu_tui.ingest.database.tables.rows import Rows, Tables  # noqa: E402
from npu_tui.ingest.errors import InputError  # noqa: E402

TABLE = "T"
WHOLE, REAL = ("startNs", "text", "key", "mixed"), ("share",)


@dataclass
class Outcome:
    """How many damaged databases were read from their pages, by SQLite, not at all, and not alike."""

    paged: int = 0
    refused: int = 0
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


def both(path: Path) -> tuple[Rows, Rows, bool] | None:
    """The rows by the usual way and by SQLite alone, and whether the first are from the pages; None without a table."""
    try:
        database = open_database(path)
    except InputError:
        return None
    try:
        tables = Tables(database)
        table = tables.find(TABLE)
        if table is None:
            return None
        wanted = [(name.lower(), np.int64) for name in WHOLE] + [(name.lower(), np.float64) for name in REAL]
        here = [(table.columns[name], kind) for name, kind in wanted if name in table.columns]
        paged = read_pages(database, table.name, here, lambda count: None) is not None
        usual = tables.read(table, WHOLE, REAL)
        pages, database.pages = database.pages, None
        alone = Tables(database).read(table, WHOLE, REAL)
        database.pages = pages
        return usual, alone, paged
    finally:
        database.close()


def same(one: Rows, other: Rows) -> bool:
    """Whether two readings found the same, bit for bit."""
    return np.array_equal(one.number, other.number) and all(
        np.array_equal(values, other.columns[name], equal_nan=values.dtype == np.float64)
        for name, values in one.columns.items()
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
    """Read ``flips`` damaged databases both ways."""
    outcome = Outcome()
    for number in range(flips):
        if number % 100 == 0:
            path = folder / f"{number}.db"
            data = made(path, 300, 512, seed + number).read_bytes()
        path.write_bytes(flipped(data, random.Random(seed * 1_000_003 + number)))
        found = both(path)
        if found is None:
            outcome.closed += 1
            continue
        usual, alone, paged = found
        outcome.paged += paged
        outcome.refused += not paged
        if not (same(usual, alone) if paged else np.isin(alone.number, usual.number).all()):
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
    print(f"{options.flips} damaged databases: {found.paged} read from pages, {found.refused} by SQLite, "
          f"{found.closed} not at all, {found.different} not alike")  # fmt: skip
    return int(found.different > 0)


if __name__ == "__main__":
    sys.exit(main())
