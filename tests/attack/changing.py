"""Profiles that change while they are read: an answer, or one line, and no gate that fails passes.

    python tests/attack/changing.py [KIND...] [--mutants 30] [--seed 1] [--first 0]

A file is replaced, cut off, grown, deleted or made something else at the n-th time that something of it is opened:
between two blocks of a trace, or between the trace and the files beside it.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from gates import FIXTURES, database, profile, run, service, snapshot
from inputs import ODD_PLACES, problem
from rounds import rounds

Change = Callable[[Path, bytes], object]
CHANGES: dict[str, Change] = {
    "replaced": lambda file, data: _moved(file, data.replace(b"1", b"2")),
    "replaced by another": lambda file, data: _moved(file, (FIXTURES / "healthy/profiler_info_0.json").read_bytes()),
    "cut off": lambda file, data: os.truncate(file, len(data) // 2),
    "emptied": lambda file, data: os.truncate(file, 0),
    "grown": lambda file, data: file.write_bytes(data + data[len(data) // 2 :]),
    "written anew": lambda file, data: file.write_bytes(data[: len(data) // 3]),
    "deleted": lambda file, data: file.unlink(),
    "a folder": lambda file, data: (file.unlink(), file.mkdir()),
    "a FIFO": lambda file, data: ODD_PLACES["a FIFO"](file),
    "moved away": lambda file, data: file.parent.rename(file.parent.with_name("away")),
}


def _moved(file: Path, data: bytes) -> None:
    """Put ``data`` in the place of ``file`` at once, as a writer does that is careful."""
    other = file.with_name("other.part")
    other.write_bytes(data)
    other.replace(file)


GATES: dict[str, tuple[Callable[[Path], Path], list[str]]] = {
    "text": (profile, ["--max-free", "0.001us"]),
    "job": (lambda folder: profile(folder, "two_ranks"), ["--max-rank-wait", "0.001us"]),
    "service": (service, ["--max-ttft", "p99:0.001us"]),
    "snapshot": (snapshot, ["--max-peak", "1B"]),
    "database": (database, ["--max-free", "0.001us"]),
}
"""What is read, and a limit that it fails."""
_armed: list[Any] = []
"""The folder, how many files of it are opened first, and what is done then; empty while nothing is to happen."""


def _opened(event: str, given: tuple[Any, ...]) -> None:
    """What the interpreter tells of everything that opens a file, a folder or a database."""
    if not _armed or event not in ("open", "os.listdir", "os.scandir", "sqlite3.connect"):
        return
    if str(given[0]).removeprefix("file:").startswith(_armed[0]):
        _armed[1] -= 1
        if _armed[1] < 0:
            change = _armed[2]
            _armed.clear()
            change()


@cache
def _watch() -> None:
    """Hear of all that is opened from now on: the interpreter never forgets whom it tells."""
    sys.addaudithook(_opened)


def attack(kind: str, numbers: range, seed: int) -> tuple[int, list[str]]:
    """How many changes were withstood, and what went wrong, a line each."""
    _watch()
    make, limit = GATES[kind]
    withstood, failed = 0, list[str]()
    with tempfile.TemporaryDirectory() as name:
        sound, folder = Path(name) / "sound", Path(name) / "changing" / "here"
        sound.mkdir()
        path = folder / make(sound).relative_to(sound)
        for number in numbers:
            draw = random.Random(f"{kind} {seed} {number}")
            shutil.copytree(sound, folder)
            file = draw.choice(sorted(place for place in folder.rglob("*") if place.is_file()))
            what, data, after = draw.choice(sorted(CHANGES)), file.read_bytes(), draw.choice([0, 1, 2, 3, 5, 9, 15])
            report = ["ranks" if kind == "job" else "report", str(path), "--format", "json"]
            for words in (report, ["check", str(path), *limit]):
                _armed[:] = [str(folder), after, lambda f=file, d=data, w=what: f.exists() and CHANGES[w](f, d)]
                why = problem(words, folder) if words is report else _passed(words)
                _armed.clear()
                if why:
                    failed.append(f"{kind} {number}: {words[0]}: {file.name} {what} after {after}: {why}")
                else:
                    withstood += 1
            shutil.rmtree(folder.parent)
    return withstood, failed


def _passed(words: list[str]) -> str:
    """What is wrong with a gate that would fail; empty if nothing is."""
    code, out, told = run(words)
    return "" if code in (1, 3) and "Traceback" not in told else f"exit {code} {out[:300]} {told[-300:]}"


def main() -> int:
    """The command; 1 if anything is wrong."""
    return rounds("Change profiles while they are read.", GATES, attack, 30)


if __name__ == "__main__":
    sys.exit(main())
