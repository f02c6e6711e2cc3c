"""Which tables and columns the last word of a query may become, while it is being typed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from npu_tui.profile.table import Column
from npu_tui.tables.schema import TABLES

_WORD = re.compile(r"(?:(?P<of>[A-Za-z_]\w*)\.)?(?P<word>[A-Za-z_]\w*)?\Z")
_TABLE_NEXT = re.compile(r"\b(?:from|join)\s+(?:\w+(?:\s+(?:as\s+)?\w+)?\s*,\s*)*\Z", re.IGNORECASE)
_ALIAS_NEXT = re.compile(r"\b(?:from|join)\s+(?:\w+(?:\s+(?:as\s+)?\w+)?\s*,\s*)*\w+\s+(?:as\s+)?\Z", re.IGNORECASE)
_NAMED = re.compile(r"\b(?:from|join)\s+(\w+)(?:\s+(?:as\s+)?(\w+))?", re.IGNORECASE)
_LISTED = re.compile(r",\s*(\w+)(?:\s+(?:as\s+)?(\w+))?")
_QUOTED = re.compile(r"'(?:[^']|'')*'")
_NO_ALIAS = ("where", "join", "on", "order", "group", "limit", "left", "right", "inner", "full", "cross", "union",
             "having", "qualify", "using", "as", "asof")  # fmt: skip


class Name(Struct, frozen=True):
    """A table or a column that the last word may become; ``text`` is the whole query with it, ``key`` says what it is.

    ``unit`` is that of a column's numbers, empty otherwise.
    """

    word: str
    text: str
    key: str
    unit: str = ""


def possible_names(sql: str, names: Sequence[str]) -> list[Name]:
    """What the last word of ``sql`` may become, those that begin with it first; ``names`` are the tables there are.

    After FROM and JOIN tables, elsewhere columns of the tables that the query names, of all where it names none yet;
    the first word of all may be a table. Nothing inside of a quoted text, where an alias stands, and for a whole word.
    """
    if _QUOTED.sub("", sql).count("'") % 2:
        return []
    found = _WORD.search(sql)
    if found is None:  # pragma: no cover - it matches the empty word
        return []
    of, word = found["of"], (found["word"] or "").lower()
    before = sql[: found.start("word") if found["word"] else len(sql)]
    if of is None and (_TABLE_NEXT.search(before) or (word and not before.strip())):
        return _fitting(word, ((name, before + name, f"tables.{name}", "") for name in names))
    if of is None and (not word or _ALIAS_NEXT.search(before)):
        return []
    told = _tables_of(sql, names)
    tables = [told[of]] if of in told else [] if of is not None else list(dict.fromkeys(told.values())) or list(names)
    columns: dict[str, Column] = {}
    for table in tables:
        for column in TABLES[table].sql:
            columns.setdefault(column.id, column)
    return _fitting(word, ((each.id, before + each.id, each.about, each.unit) for each in columns.values()))


def _fitting(word: str, names: Iterable[tuple[str, str, str, str]]) -> list[Name]:
    """Those of ``names`` with ``word`` in them, those that begin with it first; none if one is ``word`` itself."""
    found = [Name(*each) for each in names if word in each[0]]
    if any(each.word == word for each in found):
        return []
    return sorted(found, key=lambda each: not each.word.startswith(word))


def _tables_of(sql: str, names: Sequence[str]) -> dict[str, str]:
    """The tables that ``sql`` names, by their names and by what it calls them."""
    plain = _QUOTED.sub("''", sql)
    found: dict[str, str] = {}
    for begin in _NAMED.finditer(plain):
        pairs = [begin.groups()]
        at = begin.end()
        while follows := _LISTED.match(plain, at):
            pairs.append(follows.groups())
            at = follows.end()
        for table, alias in pairs:
            if table in names:
                found[table] = table
                if alias and alias.lower() not in _NO_ALIAS:
                    found[alias] = table
    return found
