"""Damages the databases of a profile in every way and looks at it: nothing may fail, what is lost is said.

``python tests/damaged_databases.py [CUTS]`` prints a row per damage with what is left and how that is told; 20 cuts
without a number.
"""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "load" / "database"), str(ROOT / "fixtures")]

from beside import profile_with_files  # noqa: E402 - its folder is no package
from same_answers import exported  # noqa: E402

from npu_tui.load.errors import InputError  # noqa: E402
from npu_tui.load.load import opening_of  # noqa: E402
from npu_tui.output.envelope import json_bytes  # noqa: E402
from npu_tui.output.report import report  # noqa: E402
from npu_tui.profile.profile import Profile  # noqa: E402
from npu_tui.strings import words  # noqa: E402

Damage = Callable[[Path, bytes], AbstractContextManager[None]]
NAME = "ascend_pytorch_profiler_0.db"
WRITTEN_OVER = 3000


@dataclass(frozen=True)
class Left:
    """What a damaged ``file`` still tells; ``slices`` is None where it is refused."""

    file: str
    damage: str
    slices: int | None
    kernels: int
    memory: int
    told: str


def cut(part: int, parts: int) -> Damage:
    def done(file: Path, content: bytes) -> AbstractContextManager[None]:
        file.write_bytes(content[: len(content) * part // parts])
        return nullcontext()

    return done


def over(part: int, parts: int) -> Damage:
    """Some of the pages hold something else."""

    def done(file: Path, content: bytes) -> AbstractContextManager[None]:
        data, at = bytearray(content), len(content) * part // parts
        data[at : at + WRITTEN_OVER] = bytes(255 - k % 256 for k in range(min(WRITTEN_OVER, len(data) - at)))
        file.write_bytes(data)
        return nullcontext()

    return done


def instead(content: bytes) -> Damage:
    def done(file: Path, _: bytes) -> AbstractContextManager[None]:
        file.write_bytes(content)
        return nullcontext()

    return done


@contextmanager
def locked(file: Path, content: bytes) -> Iterator[None]:
    """Another program writes to it."""
    writer = sqlite3.connect(file, isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    writer.execute("CREATE TABLE being_written (number)")
    try:
        yield
    finally:
        writer.execute("ROLLBACK")
        writer.close()


@contextmanager
def directory(file: Path, content: bytes) -> Iterator[None]:
    file.unlink()
    file.mkdir()
    try:
        yield
    finally:
        file.rmdir()


def without(table: str) -> Damage:
    def done(file: Path, content: bytes) -> AbstractContextManager[None]:
        connection = sqlite3.connect(file)
        connection.execute(f"DROP TABLE {table}")
        connection.commit()
        connection.close()
        return nullcontext()

    return done


def ways(file: Path, cuts: int) -> dict[str, Damage]:
    """The damages of ``file`` by name."""
    connection = sqlite3.connect(file)
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    connection.close()
    return {
        **{f"cut {part}/{cuts}": cut(part, cuts) for part in range(1, cuts)},
        **{f"written over at {part}/{cuts}": over(part, cuts) for part in range(cuts)},
        **{f"without {table}": without(table) for table in tables},
        "no byte": instead(b""),
        "wrong magic": instead(b"SQLite format 4\0" + bytes(8000)),
        "zeros": instead(b"SQLite format 3\0" + bytes(8000)),
        "encrypted": instead(hashlib.sha512(b"key").digest() * 200),
        "directory": directory,
        "locked": locked,
    }


def damages(folder: Path, cuts: int, every: bool = True) -> Iterator[Left]:
    """What is left of a profile in ``folder`` that is damaged again and again.

    ``every``: with its report, and without each table in turn.
    """
    text = profile_with_files(ROOT / "fixtures" / "healthy", folder / "text")
    profile = exported(text, folder / "database", 0)
    output = profile / "ASCEND_PROFILER_OUTPUT"
    for file in sorted(output.glob("*.db")):
        content = file.read_bytes()
        for name, damage in ways(file, cuts).items():
            if not every and name.startswith("without"):
                continue
            with damage(file, content):
                yield _left(profile, file.name, name, every)
            file.write_bytes(content)
            assert sorted(each.name for each in output.iterdir()) == sorted({NAME, "analysis.db"}), name


def _left(path: Path, file: str, damage: str, whole: bool) -> Left:
    try:
        opening = opening_of(path, cached=False)
        profile = Profile(opening.trace(), opening.source)
        _ = profile.kernel_table, profile.memory, profile.tables.link_matrix, profile.setup, profile.tables.transfers
        if whole:
            json_bytes(report(profile))
    except InputError as error:
        return Left(file, damage, None, 0, 0, words(error.message))
    said = [*profile.trace.health.warnings, *(each for state in profile.tables.files for each in state.problems)]
    said = [words(each) for each in said] + ["cut off"] * profile.trace.health.truncated
    rows = [len(profile.tables.table(name).frame) for name in ("kernel_details", "memory_record")]
    return Left(file, damage, len(profile.trace.slices), *rows, "; ".join(said))


def main(arguments: list[str]) -> None:
    """Print the table."""
    folder = Path(tempfile.mkdtemp())
    count = 0
    try:
        for each in damages(folder, int(arguments[0]) if arguments else 20):
            count += 1
            kept = "refused" if each.slices is None else f"{each.slices:,} slices"
            told = each.told.replace(str(folder), "")
            print(f"| {each.file} | {each.damage} | {kept} | {each.kernels} kernels | {each.memory} records | {told} |")
    finally:
        shutil.rmtree(folder)
    print(f"{count} damaged databases, none failed")


if __name__ == "__main__":
    main(sys.argv[1:])
