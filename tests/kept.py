"""Keeps what simulators made of their arguments for later runs: an eighth of the processor's time of all tests.

It is kept while tests run (``keep``), in a folder of the sources that made it, and made again when one of them differs.
While a test has put something else into a module of them, everything is made anew and nothing is kept. A test that asks
whether a simulator makes the same twice calls the simulator itself.
"""

from __future__ import annotations

import os
import pickle
import sys
import zlib
from collections.abc import Callable
from functools import cache, wraps
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from types import ModuleType
from typing import ParamSpec, TypeVar

SOURCES = Path(__file__).resolve().parents[1] / "fixtures"
_WHERE: list[Path] = []
_IMPORTED: dict[str, dict[tuple[str, str], int]] = {}
"""What the modules of the sources held when they were first looked at, by their names."""

P, T = ParamSpec("P"), TypeVar("T")


def keep(where: Path) -> None:
    """Keep in ``where`` what is made from now on; a script that asks of many seeds keeps nothing."""
    _WHERE[:] = [where]


def is_as_imported() -> bool:
    """Whether all modules of the sources hold what they held when this was first asked of them."""
    modules = {
        name: module
        for name, module in list(sys.modules.items())
        if Path(getattr(module, "__file__", None) or "").parent == SOURCES
    }
    held = {name: _held(module) for name, module in modules.items()}
    for name, now in held.items():
        _IMPORTED.setdefault(name, now)
    return all(_IMPORTED[name] == now for name, now in held.items())


def _held(module: ModuleType) -> dict[tuple[str, str], int]:
    """Which objects the names of ``module`` and of its classes stand for."""
    found = {("", name): id(value) for name, value in vars(module).items() if not name.startswith("__")}
    for name, value in vars(module).items():
        if isinstance(value, type) and value.__module__ == module.__name__:
            found |= {(name, own): id(each) for own, each in vars(value).items() if not own.startswith("__")}
    return found


@cache
def folder_of(sources: Path, made: Path) -> Path:
    """The folder for what ``sources`` make; those of other sources are removed."""
    found = sha256(sys.version.encode())
    for path in [*sorted(sources.glob("*.py")), Path(__file__)]:
        found.update(f"{path.name} {sha256(path.read_bytes()).hexdigest()}\n".encode())
    folder = made / found.hexdigest()[:16]
    for other in made.glob("*"):
        if other != folder:
            rmtree(other, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def kept(make: Callable[P, T]) -> Callable[P, T]:
    """``make``, which says the same of arguments with the same ``repr``; what it makes is read back from the disk."""
    source = sha256(Path(make.__code__.co_filename).read_bytes()).hexdigest()  # it need not be one of the sources

    @wraps(make)
    def made(*args: P.args, **named: P.kwargs) -> T:
        if not _WHERE or not is_as_imported():
            return make(*args, **named)
        asked = repr((source, make.__qualname__, args, sorted(named.items())))
        assert " at 0x" not in asked, "an argument says of itself only where it lies"
        path = folder_of(SOURCES, _WHERE[0]) / sha256(asked.encode()).hexdigest()
        try:
            found: T = pickle.loads(zlib.decompress(path.read_bytes()))
        except (OSError, zlib.error, pickle.UnpicklingError, EOFError):
            found = make(*args, **named)
            own = path.with_suffix(f".{os.getpid()}")  # others may read it meanwhile
            own.write_bytes(zlib.compress(pickle.dumps(found, pickle.HIGHEST_PROTOCOL), 1))
            own.replace(path)
        return found

    return made
