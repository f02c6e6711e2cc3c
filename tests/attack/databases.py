"""Databases changed in every way, read by the loader and by the ``sqlite3`` shell: both have the same rows.

    python tests/attack/databases.py DATABASE [--mutants 300] [--seed 1]

Rows that the shell reads before it stops at a damaged page must be there, or the table be told to be damaged; more may
be, as the loader goes on after it and reads files that are cut off.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from npu_tui.load.database_file import opened
from npu_tui.load.database_rows import DatabaseTables, quoted
from npu_tui.load.errors import InputError

ODD = (None, 0, -1, (1 << 63) - 1, -(1 << 63), 1.5, 1e300, "", "x", "12", b"\xff\0", "9" * 30)
Numbered = dict[int, tuple[Any, ...]]


def changed(path: Path, draw: random.Random) -> str:
    """Change the database at ``path``; what was done."""
    kind = draw.choice(["cells", "cells", "rows", "numbers", "column", "order", "bytes", "bytes", "cut", "vacuum"])
    if kind in ("bytes", "cut"):
        data = bytearray(path.read_bytes())
        for _ in range(draw.choice([1, 5, 40]) if kind == "bytes" else 0):
            data[draw.randrange(100, len(data))] = draw.randrange(256)
        path.write_bytes(data[: draw.randrange(4096, len(data))] if kind == "cut" else data)
        return kind
    with sqlite3.connect(path) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for name in draw.sample(names, min(3, len(names))):
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({quoted(name)})")]
            column, share = quoted(draw.choice(columns)), draw.choice([2, 7, 50])
            try:
                if kind == "cells":
                    value = draw.choice(ODD)
                    connection.execute(f"UPDATE {quoted(name)} SET {column} = ? WHERE rowid % {share} = 1", (value,))
                elif kind == "rows":
                    connection.execute(f"DELETE FROM {quoted(name)} WHERE rowid % {share} = 1")
                elif kind == "numbers":
                    far = draw.choice([1 << 40, -(1 << 40), (1 << 62)])
                    connection.execute(f"UPDATE {quoted(name)} SET rowid = rowid + {far} WHERE rowid % {share} = 1")
                elif kind == "column":
                    connection.execute(f"ALTER TABLE {quoted(name)} DROP COLUMN {column}")
                elif kind == "order":
                    connection.execute(f"CREATE TABLE t_ AS SELECT * FROM {quoted(name)} ORDER BY {column} DESC")
                    connection.execute(f"DROP TABLE {quoted(name)}")
                    connection.execute(f"ALTER TABLE t_ RENAME TO {quoted(name)}")
            except sqlite3.Error:
                continue
    connection.close()
    if kind == "vacuum":
        with sqlite3.connect(path, isolation_level=None) as connection:
            connection.execute(f"PRAGMA page_size = {draw.choice([512, 4096, 65536])}")
            connection.execute("VACUUM")
        connection.close()
    return kind


def by_shell(path: Path, table: str, columns: list[str]) -> Numbered:
    """The whole numbers of ``table`` by the number of the row, as far as the shell reads; None for other cells."""
    cells = [f"CASE typeof({quoted(name)}) WHEN 'integer' THEN {quoted(name)} END" for name in columns]
    parts = ", ".join(["rowid", *cells])
    words = ["sqlite3", "-batch", "-readonly", "-list", "-separator", "|", "-nullvalue", "-", str(path)]
    done = subprocess.run(
        [*words, f"SELECT {parts} FROM {quoted(table)} NOT INDEXED"], capture_output=True, check=False, timeout=60
    )
    rows: Numbered = {}
    twice: set[int] = set()  # in a damaged page
    for line in done.stdout.decode().splitlines():
        number, *values = (None if cell == "-" else int(cell) for cell in line.split("|"))
        if number is not None:
            twice |= {number} & rows.keys()
            rows[number] = tuple(values)
    return {number: cells for number, cells in rows.items() if number not in twice}


def counted(path: Path, table: str) -> int | None:
    """How many rows the shell goes through; None where it does not come to the end."""
    words = ["sqlite3", "-readonly", str(path), f"SELECT rowid FROM {quoted(table)} NOT INDEXED"]
    done = subprocess.run(words, capture_output=True, check=False, timeout=60)
    return None if done.returncode or done.stderr else len(done.stdout.split())


def difference(path: Path) -> str:
    """The first row in which both readers differ; empty where none does."""
    try:
        with opened(path) as database:
            tables = DatabaseTables(database)
            for name in sorted(set(tables.names.values())):
                table = tables.find(name)
                if table is None or "rowid" in table.columns:
                    continue
                plain = list(table.columns)
                ours = tables.read(table, plain)
                place = {number: at for at, number in enumerate(ours.number.tolist())}
                columns = [ours.columns[column].tolist() for column in plain]
                for number, cells in by_shell(path, table.name, [table.columns[column] for column in plain]).items():
                    if number not in place and name in tables.damaged:
                        continue
                    if number not in place:
                        return f"{name}: row {number} is missing"
                    for column, value, cell in zip(plain, columns, cells, strict=True):
                        if cell is not None and value[place[number]] != cell:
                            return f"{name}.{column} of row {number}: {value[place[number]]} for {cell}"
                if name in tables.damaged:
                    continue
                if (count := counted(path, table.name)) is not None and count != len(ours):
                    return f"{name}: {len(ours)} rows for {count}"
    except InputError:
        done = subprocess.run(["sqlite3", "-readonly", str(path), ".tables"], capture_output=True, check=False)
        return "" if done.returncode or not done.stdout.strip() else "refused, but the shell reads it"
    return ""


def main() -> int:
    """The command; 1 where the readers differ."""
    parser = argparse.ArgumentParser(description="Read changed databases twice.")
    parser.add_argument("database", type=Path)
    parser.add_argument("--mutants", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    wrong: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "changed.db"
        for number in range(options.first, options.first + options.mutants):
            shutil.copy(options.database, path)
            path.chmod(0o644)
            told = changed(path, random.Random(f"{options.seed} {number}"))
            if why := difference(path):
                wrong[f"{number} {told}"] = why
            for file in Path(folder).iterdir():
                file.unlink()
    print(json.dumps({"mutants": options.mutants, "wrong": wrong}, indent=1))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
