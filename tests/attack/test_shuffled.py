"""The order of events in a file is no property of a run: shuffled, it gives the same figures and sentences."""

from __future__ import annotations

import csv
import json
import random
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from npu_tui.load.load import Opening
from npu_tui.mcp.session import plain
from npu_tui.output.envelope import document
from npu_tui.output.statement import profile_statement
from npu_tui.profile.profile import Profile
from npu_tui.profile.selection import part_of
from tests.conftest import ROOT

sys.path[:0] = [str(ROOT / "tests" / "load"), str(ROOT / "tests" / "load" / "database"), str(ROOT / "fixtures")]
from service_causes import write_service  # noqa: E402 - its folder is no package
from small import small_database  # noqa: E402 - its folder is no package
from test_memscope import HEADER, row  # noqa: E402 - its folder is no package


def differing(before: Any, after: Any, place: str = "") -> list[str]:
    """Where two documents differ, the first ten places."""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = [*before, *(key for key in after if key not in before)]
        return [one for key in keys for one in differing(before.get(key), after.get(key), f"{place}.{key}")][:10]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return [one for number, pair in pairs for one in differing(*pair, f"{place}[{number}]")][:10]
    return [] if before == after else [f"{place}: {before!r:.120} -> {after!r:.120}"]


FIXTURES = [
    "healthy", "dispatch_bound", "communication_bound", "interrupted", "level0", "older_chip", "newest_torch_npu",
    "mindspore", "kineto", "decimal_pids",
]  # fmt: skip


def told(path: Path) -> dict[str, Any]:
    opening = Opening(path)
    statement = profile_statement(part_of(Profile(opening.trace(), opening.source), None, None))
    found: dict[str, Any] = plain(document(statement.data, statement.verdict))
    links = found["sections"].get("links", [])  # in the order in which the file names them
    links.sort(key=lambda row: row["category"])
    return found


def content_of(name: str) -> tuple[Path, list[dict[str, Any]]]:
    file = max((ROOT / "fixtures" / name).rglob("*.json"), key=lambda file: file.stat().st_size)
    content = json.loads(file.read_text())
    return file, content if isinstance(content, list) else content["traceEvents"]


@pytest.mark.few(5)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", FIXTURES)
def test_a_shuffled_file_says_the_same(tmp_path, name, seed):
    file, events = content_of(name)
    path = tmp_path / file.name
    names = [event for event in events if event["ph"] == "M"]
    others = [event for event in events if event["ph"] != "M"]
    path.write_text(json.dumps(names + others))
    alone = told(path)
    random.Random(seed).shuffle(others)
    path.write_text(json.dumps(names + others))
    assert differing(alone, told(path)) == []


def database(folder: Path) -> tuple[Path, list[Path]]:
    path = small_database(folder / "ascend_pytorch_profiler_0.db")
    return path, [path]


def memscope(folder: Path) -> tuple[Path, list[Path]]:
    path, live, rows = folder / "memscope_dump_1.csv", [0x1000], []
    for number in range(1, 120):
        if number % 3:
            live.append(0x1000 * number)
        of = live[-1] if number % 3 else live.pop(number % len(live))
        rows.append(row(number, "MALLOC" if number % 3 else "FREE", of, 512 * (number % 5 + 1)))
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([HEADER, *rows])
    return path, [path]


def service(folder: Path) -> tuple[Path, list[Path]]:
    write_service(folder / "output", "scheduler", 2, 12)
    return folder / "output", sorted((folder / "output").glob("*.csv"))


def kernels(folder: Path) -> tuple[Path, list[Path]]:
    path = folder / "kernel_details.csv"
    rows = [f"1,k{at % 7},T{at % 3},AI_CORE,{5 * at}.5,{at % 4}.25" for at in range(200)]
    header = "Step Id,Name,Type,Accelerator Core,Start Time(us),Duration(us)"
    path.write_text("\n".join([header, *rows, ""]))
    return path, [path]


def shuffle(path: Path, draw: random.Random) -> None:
    """Put the rows of every table in ``path`` into another order."""
    if path.suffix == ".csv":
        head, *rows = path.read_text().splitlines(keepends=True)
        path.write_text(head + "".join(draw.sample(rows, len(rows))))
        return
    with sqlite3.connect(path) as base:
        for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            if rows := base.execute(f"SELECT * FROM {name}").fetchall():
                base.execute(f"DELETE FROM {name}")
                marks = ", ".join("?" * len(rows[0]))
                base.executemany(f"INSERT INTO {name} VALUES ({marks})", draw.sample(rows, len(rows)))
    base.close()


@pytest.mark.few(4)
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("made", [database, memscope, service, kernels])
def test_shuffled_tables_say_the_same(tmp_path, made, seed):
    path, files = made(tmp_path)
    alone = told(path)
    for file in files:
        shuffle(file, random.Random(seed))
    assert [where for where in differing(alone, told(path)) if "bytes" not in where.partition(":")[0]] == []
