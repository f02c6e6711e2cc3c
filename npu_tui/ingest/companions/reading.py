"""How far a companion file could be read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from npu_tui.trace.message import Message, message

if TYPE_CHECKING:
    import polars as pl

State = Literal["missing", "empty", "cut_off", "unreadable", "read"]
"""No such file; nothing but a header; its end is missing; not to be read at all; whole."""


class Reading(Struct, frozen=True):
    """What became of the file ``name``: its ``frame`` has all columns of its schema, null where the file has none.

    ``headings`` are the columns that the file has, by their names in the frame; ``not_numbers`` counts, by column, the
    cells that should be numbers and are none (null in the frame). ``why`` is what the system or the parser says of an
    unreadable file.
    """

    name: str
    state: State
    frame: pl.DataFrame
    headings: tuple[str, ...] = ()
    not_numbers: dict[str, int] | None = None
    why: str = ""

    @property
    def messages(self) -> list[Message]:
        """What is to be said of the file: that it is not whole, and which cells were lost; nothing if all is well."""
        found = []
        if self.state == "cut_off":
            found.append(message("companion.cut_off", name=self.name, rows=len(self.frame)))
        elif self.state == "unreadable":
            found.append(message("companion.unreadable", name=self.name, why=self.why))
        elif self.state != "read":
            found.append(message(f"companion.{self.state}", name=self.name))
        for column, count in (self.not_numbers or {}).items():
            found.append(message("companion.not_numbers", name=self.name, column=column, count=count))
        return found


def reason(error: Exception) -> str:
    """What the system or a parser says, on one line."""
    words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(words.split())[:200]


def find_file(folder: Path, stem: str, others: tuple[str, ...] = (), suffix: str = ".csv") -> Path:
    """The file ``stem`` in ``folder``, else one of ``others``; msprof puts a time after the name, the newest counts.

    Raises ``OSError`` if the folder cannot be read.
    """
    plain = folder / f"{stem}{suffix}"
    if plain.exists():
        return plain
    for name in (stem, *others):
        if found := max(folder.glob(f"{name}_[0-9]*{suffix}"), default=None):
            return found
    return plain
