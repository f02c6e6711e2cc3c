"""What a query may be and cost: only tables of the profile, a plan that polars can plan, memory that there is."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING

from npu_tui.load.polars_door import silenced
from npu_tui.trace.memory import free_addresses, free_memory
from npu_tui.trace.message import Message, message
from npu_tui.trace.text import brief

if TYPE_CHECKING:
    import polars as pl

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

_LONGEST_QUERY = 100_000
_MOST_OPERATORS = 500
"""Polars takes a second for 1,000 terms, minutes for 3,200, and ends the process at 20,000."""

_READING = ("select", "from", "join", "values")
_MOST_SCANS = 400
"""Selections and tables that a plan reads, with those that its named queries read each time: 800 end the process."""

_WIDEST_DECIMAL = 38


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
    if name := _lengthening(tokens):
        return message("query.too_wide", name=name, most=_WIDEST_TEXT)
    if _scans(tokens) > _MOST_SCANS:
        return message("query.too_deep", most=_MOST_SCANS)
    for (_, word), (_, bracket), (_, digits) in zip(tokens, tokens[1:], tokens[2:], strict=False):
        is_decimal = word.lower() in ("decimal", "numeric", "dec") and bracket == "("
        if is_decimal and digits.isdecimal() and not 1 <= int(digits[:9]) <= _WIDEST_DECIMAL:
            return message("query.wide_decimal", most=_WIDEST_DECIMAL)
    return None


def _tokens(sql: str) -> Iterator[tuple[str, str]]:
    for match in _TOKEN.finditer(sql):
        yield match.lastgroup or "", match[0]


def _plain(name: str) -> str:
    return name.strip('"`').lower()


def _reader(tokens: list[tuple[str, str]]) -> str | None:
    """The first table that would be made by a function, such as ``read_csv('/etc/passwd')``."""
    before = ""
    for (kind, text), (_, bracket) in zip(tokens, [*tokens[1:], ("", "")], strict=False):
        name = _plain(text)
        is_table = before in ("from", "join") and name not in ("unnest", "select", "lateral", "values")
        if kind == "name" and bracket == "(" and (name.startswith(_READERS) or is_table):
            return name
        before = text.lower()
    return None


_LENGTHENING = ("rpad", "lpad", "repeat", "zfill")
_WIDEST_TEXT = 1_000


def _lengthening(tokens: list[tuple[str, str]]) -> str | None:
    """The first function that may make a text of any length: its second argument is no number, or a large one."""
    for at, (_, text) in enumerate(tokens[:-1]):
        if _plain(text) not in _LENGTHENING or tokens[at + 1][1] != "(":
            continue
        depth, length = 0, None
        for place in range(at + 1, len(tokens)):
            sign = tokens[place][1]
            depth += (sign == "(") - (sign == ")")
            if depth == 1 and sign == ",":
                length = [word for _, word in tokens[place + 1 : place + 3]]
                break
            if not depth:
                break
        if length is None or len(length) < 2 or not length[0].isdecimal() or length[1] not in (",", ")"):
            return _plain(text)
        if int(length[0][:9]) > _WIDEST_TEXT:
            return _plain(text)
    return None


def _scans(tokens: list[tuple[str, str]]) -> int:
    """How many selections and tables the plan reads; one that WITH names counts whenever it is read."""
    named: dict[str, int] = {}
    scans, depth, before, last = 0, 0, "", ""
    bodies: list[tuple[str, int, int]] = []
    for kind, text in tokens:
        word = _plain(text) if kind == "name" else text
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

_MOST_MEMORY = 2 << 30


def most_rows(columns: int) -> int:
    """Rows up to which an answer of so many ``columns`` is given without being asked for all."""
    return _MOST_CELLS // max(columns, 1)


_MOST_PAIRS = 250_000_000
_SCAN = re.compile(r"PYTHON\[(\w+)\] SCAN")


def most_pairs(plan: str, rows: Callable[[str], int], in_memory: bool) -> int:
    """Rows of the largest join of all rows with all that ``plan``, as polars explains it, makes of tables of ``rows``.

    ``in_memory`` is whether polars makes pairs at once also where it joins by something else than equal columns.
    """
    most, sides = 0, [0]
    for line in plan.splitlines():
        if scan := _SCAN.search(line):
            sides[-1] = max(sides[-1], rows(scan[1]))
        elif line.lstrip().startswith(("LEFT PLAN", "RIGHT PLAN")):
            sides.append(0)
        elif line.lstrip().startswith("END ") and line.endswith(" JOIN") and len(sides) > 2:
            right, left = sides.pop(), sides.pop()
            pairs = left * right if in_memory or "CROSS" in line else 0
            most = max(most, pairs)
            sides[-1] = max(sides[-1], left, right, pairs)
    return most


class TooLarge(Exception):  # noqa: N818 - said as a QueryError
    """The query wanted more memory than it may have; ``message`` says of what."""

    def __init__(self, said: Message) -> None:
        super().__init__(said.code)
        self.message = said


def collected(answer: pl.LazyFrame, rows: Callable[[str], int]) -> pl.DataFrame:
    """``answer`` of tables that have so many ``rows``, computed in pieces.

    Raises ``TooLarge`` where it takes a quarter of the memory that is free, or 2 GB, or joins too many rows with all.
    """
    import polars as pl

    plan = answer.explain(engine="streaming")
    if " JOIN" in plan:
        steps = answer.show_graph(engine="streaming", plan_stage="physical", raw_output=True) or ""
        if (pairs := most_pairs(plan, rows, "in-memory-join" in steps)) > _MOST_PAIRS:
            raise TooLarge(message("query.too_many_pairs", pairs=pairs, most=_MOST_PAIRS))
    with _within(min(_MOST_MEMORY, free_memory() // 4, free_addresses() // 4)):
        try:
            return answer.collect(engine="streaming")
        except pl.exceptions.ComputeError as error:
            if "disk budget" in str(error):
                time.sleep(_GIVING_UP_SECONDS)
                raise TooLarge(message("query.too_large")) from None
            raise


_GIVING_UP_SECONDS = 0.3
"""Tasks of a query that has ended give up a moment later, and write a panic each."""
_ONE_BY_ONE = Lock()
_running: list[int] = []
_before: dict[str, str] = {}
"""What the environment said to polars before the first of the queries that run."""


@contextmanager
def _within(allowed: int) -> Iterator[None]:
    """Polars takes ``allowed`` bytes: it writes what exceeds its budget to disk, and may write nothing."""
    budget = {"MEMORY_BUDGET_MB": str(max(allowed >> 20, 1)), "DISK_BUDGET_MB": "0", "SPILL_DIR": _spill_folder().name}
    named = {f"POLARS_OOC_{name}": value for name, value in budget.items()}
    with _ONE_BY_ONE:
        if not _running:
            _before.update((name, os.environ.get(name, "")) for name in named)
        _running.append(allowed)
        _set_environment(named)
    try:
        with silenced():
            yield
    finally:
        with _ONE_BY_ONE:
            _running.remove(allowed)
            if not _running:
                _set_environment(_before)


@cache
def _spill_folder() -> tempfile.TemporaryDirectory[str]:
    """Polars makes a folder of its own in it, once for the process."""
    return tempfile.TemporaryDirectory(prefix="npu-tui-", ignore_cleanup_errors=True)


def _set_environment(values: dict[str, str]) -> None:
    """Make polars read ``values`` from the environment; an empty one is not there."""
    import polars as pl

    os.environ.update(values)
    for name in (name for name, value in values.items() if not value):
        del os.environ[name]
    pl.Config.reload_env_vars()
