"""What everything that is written as JSON is declared as: its fields side by side, and where schema 1 had them.

``json_document`` writes both schemas of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from msgspec import Struct

from npu_tui.strings import words
from npu_tui.trace.message import Message

SCHEMA_VERSION = 2
"""Of everything that is written as JSON, unless schema 1 is asked for."""


class NotChecked(Struct, frozen=True, kw_only=True):
    """A field, a finding or a side of it that is not known, and why."""

    id: str
    reason: str


def not_checked(why: Message, after: int = 1) -> NotChecked:
    """What is not known by the code of ``why``, ``after`` its first words: ``no_layout`` of ``job.no_layout``."""
    return NotChecked(id=why.code.split(".", after)[-1], reason=words(why))


class PathSource(Struct, frozen=True):
    """What was read."""

    path: str


Source = TypeVar("Source")


class ComparedSides(Struct, Generic[Source], frozen=True):
    """Both sides of a comparison."""

    base: Source
    new: Source


class Old(Struct, frozen=True):
    """How schema 1 has a field: its name, type and value where they are others."""

    name: str = ""
    type: Any = None
    value: Callable[[Any], Any] | None = None


class Root(Struct, frozen=True):
    """A JSON document; the subclass has its fields side by side, in ``ORDER`` where that is not how they are declared.

    Schema 2 has ``source``, ``verdict``, ``findings``, ``not_checked`` and ``health`` beside each other, fields or
    properties, and all other fields in ``sections``. Schema 1 has the fields alone, each as ``OLD`` says, not at all
    where that says None; with ``ALONE``, it is the list of that name. ``FIRST`` are the sections that are told where
    there is no room for all.
    """

    ORDER: ClassVar[str] = ""
    FIRST: ClassVar[Sequence[str]] = ()
    OLD: ClassVar[Mapping[str, Old | None]] = {}
    ALONE: ClassVar[str] = ""
    ON_ONE_LINE: ClassVar[bool] = False
    """Whether schema 1 has no line breaks."""


PATH = Old("path", str, lambda source: source.path)
"""Schema 1 has the path of the source alone."""
REASONS = Old(type=list[str], value=lambda rows: [row.reason for row in rows])
"""Schema 1 has the reasons alone."""
