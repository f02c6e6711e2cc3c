"""Folders of a service as people and versions leave them: nothing is lost without a line, and nothing breaks.

python tests/attack/service_folders.py [KIND...] [--mutants 12] [--seed 1] [--first 0]
"""

from __future__ import annotations

import csv
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from inputs import problem
from rounds import rounds

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "fixtures")]

from service import Service, serve  # noqa: E402 - its folder is no package
from service_writer import Folder  # noqa: E402

from npu_tui.load.service import read_service  # noqa: E402
from npu_tui.trace.service import NONE, TABLES, UNKNOWN  # noqa: E402

SECONDS = 30
SERVICE = Service(requests=25, drafts=2, pull=20_000, workers=2)
WRITERS: dict[str, Callable[[Path], None]] = {
    "new": lambda folder: Folder(serve(SERVICE)).write(folder),
    "old": lambda folder: Folder(serve(SERVICE), old=True).write(folder),
    "mindie": lambda folder: Folder(serve(SERVICE), mindie=True).write(folder),
    "other": lambda folder: Folder(serve(replace(SERVICE, seed=9, requests=15))).write(folder),
    "all": lambda folder: Folder(serve(SERVICE)).write(folder, trace=True, database=True),
}
"""The same service as versions write it, another one, and with a database and events beside."""
COMMANDS = [
    ["report", "{}", "--format", "json", "--no-cache"],
    ["query", "{}", "SELECT * FROM requests", "--no-cache"],
    ["check", "{}", "--max-ttft", "p99:800ms", "--no-cache"],
]
Rows = list[list[str]]
Change = Callable[[Path, random.Random, Path], bool]
"""Damages a folder; ``kept`` has the others. True if a line must tell, False if nothing may be lost without one."""


def rows_of(file: Path) -> Rows:
    """The cells of a table."""
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.reader(stream))


def put(file: Path, rows: Rows) -> None:
    """Write a table."""
    with file.open("w", encoding="utf-8", newline="") as out:
        csv.writer(out, lineterminator="\n").writerows(rows)


def table(folder: Path, draw: random.Random, *names: str) -> Path:
    """A table of ``folder``, of ``names`` if they are given."""
    return draw.choice([folder / f"{name}.csv" for name in names] or sorted(folder.glob("*.csv")))


def versions(folder: Path, draw: random.Random, kept: Path) -> bool:
    """Some tables are those of another version."""
    for file in sorted(folder.glob("*.csv")):
        if draw.random() < 0.5 and file.name != "kvcache.csv":
            shutil.copy(kept / "old" / file.name, file)
    return False


def hosts(folder: Path, draw: random.Random, kept: Path) -> bool:
    """Two hosts of different versions in one file, by the names of their columns."""
    file = table(folder, draw, "request", "batch", "forward")
    other = rows_of(kept / draw.choice(["old", "mindie"]) / file.name)
    title, *rows = rows_of(file)
    shared = title + [name for name in other[0] if name not in title]
    cells = [dict(zip(of, row, strict=True)) for of, part in ((title, rows), (other[0], other[1:])) for row in part]
    put(file, [shared, *([row.get(name, "") for name in shared] for row in cells)])
    return file.name == "request.csv"


def appended(folder: Path, draw: random.Random, kept: Path) -> bool:
    """An export stands behind another one, its header too."""
    file = table(folder, draw, "request", "batch", "forward", "request_status")
    other = kept / draw.choice(["new", "old", "other"]) / file.name
    file.write_bytes(file.read_bytes() + other.read_bytes())
    return True


def another_run(folder: Path, draw: random.Random, kept: Path) -> bool:
    """A table is that of a run some hours later."""
    file = table(folder, draw, "request", "batch", "kvcache")
    text, hour = (kept / "other" / file.name).read_text(), 10 + draw.randint(2, 9)
    text = text.replace("2026-03-02 10:", f"2026-03-02 {hour}:")
    file.write_text(text.replace(",17724168", f",{17724168 + (hour - 10) * 36}"))
    return True


def database(folder: Path, draw: random.Random, kept: Path) -> bool:
    """A table has fewer rows than the one of the database beside, or other ones."""
    shutil.copy(kept / "all" / "profiler.db", folder)
    file = table(folder, draw)
    rows = rows_of(file)
    kind = draw.choice(["fewer", "empty", "gone", "more", "other"])
    if kind == "gone":
        file.unlink()
    elif kind in ("fewer", "empty"):
        put(file, rows[: 1 if kind == "empty" else draw.randrange(2, len(rows) - 1)])
    else:
        with closing(sqlite3.connect(folder / "profiler.db")) as base, base:
            change = "DELETE FROM" if kind == "more" else f'UPDATE {file.stem} SET "{rows[0][-1]}" = -7 WHERE 1 OR'
            base.execute(f"{change} {file.stem} WHERE rowid > 3" if kind == "more" else f"{change} 1")
    return kind == "fewer"


def renamed(folder: Path, draw: random.Random, kept: Path) -> bool:
    """A table has the name that a browser, an editor or an archive gives it."""
    file = table(folder, draw)
    names = ("{} (1).csv", "{}.csv.bak", "{}.CSV", "{}_old.csv", "{}.csv.gz", "{} - Copy.csv")
    file.rename(folder / draw.choice(names).format(file.stem))
    return True


def beside(folder: Path, draw: random.Random, kept: Path) -> bool:
    """The table of another run stands beside."""
    file = table(folder, draw)
    shutil.copy(kept / "other" / file.name, folder / f"{file.stem}_{draw.choice(['2', '20260302', 'b'])}.csv")
    return True


def half(folder: Path, draw: random.Random, kept: Path) -> bool:
    """One of two files that belong together is gone, empty, or nothing but its header."""
    file = table(folder, draw, "pd_split_kvcache", "pd_split_communication", "request", "batch")
    kind = draw.choice(["empty", "header", "blank"])
    file.write_bytes(b"" if kind == "empty" else b"\n\n" if kind == "blank" else file.read_bytes().split(b"\n")[0])
    return True


def ordered(folder: Path, draw: random.Random, kept: Path) -> bool:
    """Rows are in another order, or columns."""
    file = table(folder, draw)
    title, *rows = rows_of(file)
    if draw.random() < 0.5:
        draw.shuffle(rows)
        put(file, [title, *rows[::-1]])
    else:
        places = draw.sample(range(len(title)), len(title))
        put(file, [[row[place] for place in places] for row in (title, *rows)])
    return False


NUMBERS = (
    str(1 << 64), f"-{1 << 70}", "1e30", "-5", "-1e12", "1e400", "-inf", "inf", "x", "0x10", "1,5", "1_000", "٣",
    "1969-12-31 23:59:59:000001", "0001-01-01 00:00:00:000000", "2026-02-30 10:00:00:000000", "9999999999999999999.5",
)  # fmt: skip
ZONED = ("start_datetime", "end_datetime", "start_time", "during_time(ms)", "relative_timestamp(ms)")


def numbers(folder: Path, draw: random.Random, kept: Path) -> bool:
    """Cells that are no numbers that can be."""
    file = table(folder, draw)
    rows = rows_of(file)
    place = draw.randrange(len(rows[0]))
    for row in draw.sample(rows[1:], min(draw.choice([1, 5, 1000]), len(rows) - 1)):
        if row[place] not in ("", "<NA>"):
            row[place] = draw.choice(NUMBERS)
    put(file, rows)
    return False


LISTS = (
    "[{'rid': 'cmpl-000001', 'iter': 0", "[{'rid': 'cmpl-0000", "{", "[{}]", "[{'iter': 0}]", "[{'rid': {'a': 1}}]",
    "[{'rid': '', 'iter': 0}]", "[[{'rid': [1], 'iter': 0}]]", "[" * 5000, "{" * 5000, "[{'rid': None}]",
)  # fmt: skip


def lists(folder: Path, draw: random.Random, kept: Path) -> bool:
    """Lists of requests that are cut off, nested, or without names."""
    rows = rows_of(folder / "batch.csv")
    for row in draw.sample(rows[1:], draw.choice([1, 5, 50])):
        row[1] = draw.choice(LISTS)
    put(folder / "batch.csv", rows)
    return True


def cut(folder: Path, draw: random.Random, kept: Path) -> bool:
    """A file ends within a row."""
    file = table(folder, draw)
    data = file.read_bytes()
    end = draw.randrange(data.index(b"\n") + 2, len(data) - 2)
    file.write_bytes(data[: end + (data[end - 1 : end] == b"\n")])
    return True


KINDS: dict[str, Change] = {
    change.__name__: change
    for change in (
        versions,
        hosts,
        appended,
        another_run,
        database,
        renamed,
        beside,
        half,
        ordered,
        numbers,
        lists,
        cut,
    )
}


def known(folder: Path) -> tuple[dict[str, int], list[str]]:
    """How much is known of each column of the service in ``folder``, and what is said of it."""
    service = read_service(folder)
    found = {"members": int(np.count_nonzero(service.members.rid != NONE))}
    for name in TABLES:
        rows = getattr(service, name)
        for column in rows.__struct_fields__:
            values = getattr(rows, column)
            none = UNKNOWN if values.dtype == np.int64 else NONE
            found[f"{name}.{column}"] = int(np.count_nonzero((values != none) & (values == values)))
    return found, [said.code for said in service.odd]


@cache
def _written() -> tuple[tempfile.TemporaryDirectory[str], Path, dict[str, int]]:
    keep = tempfile.TemporaryDirectory()
    for name, write in WRITERS.items():
        write(Path(keep.name) / name)
    whole, odd = known(Path(keep.name) / "new")
    assert not odd, odd
    return keep, Path(keep.name), whole


def failure(kind: str, number: int, seed: int, commands: list[list[str]]) -> str:
    """What goes wrong with a mutant; empty if nothing does."""
    _, kept, whole = _written()
    with tempfile.TemporaryDirectory() as name:
        folder, draw = Path(name) / "service", random.Random(f"{kind} {seed} {number}")
        shutil.copytree(kept / "new", folder)
        must = KINDS[kind](folder, draw, kept)
        found, odd = known(folder)
        fewer = [f"{column} {whole[column]} -> {count}" for column, count in found.items() if count < whole[column]]
        if not odd and (must or fewer):
            return f"nothing is said of it: {fewer[:3]}"
        return next(filter(None, (problem(words, folder) for words in commands)), "")


def attack(kind: str, numbers: range, seed: int, commands: list[list[str]] = COMMANDS) -> tuple[int, list[str]]:
    """How many of the mutants ``numbers`` of ``kind`` were withstood, and what went wrong, a line each."""
    failed = list[str]()
    for number in numbers:
        signal.alarm(SECONDS)
        try:
            why = failure(kind, number, seed, commands)
        except Exception as error:
            why = f"{type(error).__name__} {error}"
        signal.alarm(0)
        if why:
            failed.append(f"{kind} {number}: {why}")
    return len(numbers) - len(failed), failed


def main() -> int:
    """The command; 1 if anything is wrong."""
    return rounds("Change folders of a service as people and versions do.", KINDS, attack, 20)


if __name__ == "__main__":
    sys.exit(main())
