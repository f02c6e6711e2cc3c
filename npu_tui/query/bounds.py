"""What a query may be: only tables of the profile, a plan that polars can plan, an answer of so many rows."""

from __future__ import annotations

import re
from collections.abc import Iterator

from npu_tui.trace.message import Message, SaidError, message
from npu_tui.trace.text import brief


class QueryError(SaidError):
    """A query that cannot be answered."""


_TOKEN = re.compile(
    r"""(?P<gap>\s+|--[^\n]*|/\*.*?\*/)
      | (?P<text>'(?:[^']|'')*')
      | (?P<name>"(?:[^"]|"")*"|`[^`]*`|[^\W\d]\w*)
      | (?P<number>\d[\w.]*)
      | (?P<sign>[(),.;]|[^\w\s(),.;'"`]+|.)""",
    re.VERBOSE | re.DOTALL,
)
_OPERATING = frozenset(
    ("and", "or", "not", "in", "is", "like", "ilike", "between", "case", "when", "cast", "xor", "rlike", "regexp",
     "div", "mod")
)  # fmt: skip
_READERS = ("read_", "scan_")
"""How the functions of polars begin that are tables made of files."""

MOST_SECONDS = 300
"""How long a query may take unless another time is given."""
_RECURSION_SECONDS = 6
"""How long one may take that reads itself: without an end it grows until it is stopped."""
NO_TABLE = re.compile(r"relation '(.+?)' was not found", re.DOTALL)
"""What polars says of a table that it does not know."""

_LONGEST_QUERY = 100_000
_MOST_OPERATORS = 500
"""Polars takes a second for 1,000 terms, minutes for 3,200, and ends the process at 20,000."""

_READING = ("select", "from", "join", "values")
_MOST_SCANS = 400
"""Selections and tables that a plan reads, with those that its named queries read each time: 800 end the process."""


def refused(sql: str) -> Message | None:
    """Why ``sql`` is not answered at all, None where it may be."""
    if len(sql) > _LONGEST_QUERY:
        return message("query.too_long", most=_LONGEST_QUERY)
    if any("\ud800" <= letter <= "\udfff" for letter in sql):
        return message("query.not_utf8")
    tokens = [(kind, text) for kind, text in _tokens(sql) if kind != "gap"]
    operators = sum(
        (kind == "sign" and text not in "(),.;") or (kind == "name" and text.lower() in _OPERATING)
        for kind, text in tokens
    )
    if operators > _MOST_OPERATORS:
        return message("query.too_many", count=operators, most=_MOST_OPERATORS)
    if reader := _reader(tokens):
        return message("query.no_files", name=brief(reader, 60))
    if _scans(tokens) > _MOST_SCANS:
        return message("query.too_deep", most=_MOST_SCANS)
    return None


def seconds_of(sql: str) -> int:
    """How long ``sql`` may take where nobody says."""
    is_recursive = any(kind == "name" and _unquoted(text) == "recursive" for kind, text in _tokens(sql))
    return _RECURSION_SECONDS if is_recursive else MOST_SECONDS


def _tokens(sql: str) -> Iterator[tuple[str, str]]:
    for match in _TOKEN.finditer(sql):
        yield match.lastgroup or "", match[0]


def _unquoted(name: str) -> str:
    return name.strip('"`').lower()


def _reader(tokens: list[tuple[str, str]]) -> str | None:
    """The first table that would be made by a function, such as ``read_csv('/etc/passwd')``."""
    before = ""
    for (kind, text), (_, bracket) in zip(tokens, [*tokens[1:], ("", "")], strict=False):
        name = _unquoted(text)
        is_table = before in ("from", "join") and name not in ("unnest", "select", "lateral", "values")
        if kind == "name" and bracket == "(" and (name.startswith(_READERS) or is_table):
            return name
        before = text.lower()
    return None


def _scans(tokens: list[tuple[str, str]]) -> int:
    """How many selections and tables the plan reads; one that WITH names counts whenever it is read."""
    named: dict[str, int] = {}
    scans, depth, before, last = 0, 0, "", ""
    bodies: list[tuple[str, int, int]] = []
    for kind, text in tokens:
        word = _unquoted(text) if kind == "name" else text
        if text == "(":
            if before == "as" and last:
                bodies.append((last, depth, scans))
            depth += 1
        elif text == ")":
            depth -= 1
            if bodies and bodies[-1][1] == depth:
                name, _, begun = bodies.pop()
                named[name] = max(scans - begun, 1)
                scans = begun
        elif kind == "name":
            scans += named.get(word, 1 if word in _READING else 0)
            if word != "as":
                last = word
        before = word
        if scans > _MOST_SCANS:
            return scans
    return scans or sum(named.values())


_MOST_CELLS = 100_000_000
"""Numbers and texts of an answer: of a table with 10 columns 10 million rows."""


def most_rows(columns: int) -> int:
    """How many rows an answer of ``columns`` columns may have where nobody asked for all of them."""
    return _MOST_CELLS // max(columns, 1)
