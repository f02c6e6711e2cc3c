"""Odd questions: SQL, words on the command line, arguments of tools for agents. Each has an answer or one line.

python tests/attack/asked.py [sql] [words] [agents] [--mutants 300] [--seed 1] [--first 0]
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from rounds import rounds

from npu_tui.cli.main import main as command
from npu_tui.cli.parser import COMMANDS, parser_of
from npu_tui.mcp.server import answered
from npu_tui.mcp.session import OpenProfiles, ToolCall
from npu_tui.mcp.tools import TOOLS
from npu_tui.profile.profile import Profile
from npu_tui.query.engine import EXAMPLES, QueryError
from npu_tui.query.frames import ProfileTables, tables_of
from npu_tui.query.query import query
from npu_tui.trace.text import printable

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
SECONDS = 60
PIECES = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "JOIN slices b ON", "UNION ALL SELECT",
    "WITH a AS (", "CASE WHEN", "END", "OVER (PARTITION BY name)", "HAVING", "DISTINCT", "EXPLAIN", "SHOW TABLES",
    "VALUES (1), (2)", "*", "(", ")", ",", ";", "--", "/*", "*/", "'", '"', "::", "::int", "[1]", "{'a': 1}",
    "x'ff'", "null", "1e999", "-1", "''", "9223372036854775808", "0.1", "''''", "\x1b[2J", "\0", "\udcff", "长",
    "count(*)", "sum(duration)", "array_agg(name)", "regexp_like(name, '(a+)+$')", "substr(name, -9, 99999999999)",
    "repeat(name, 1000000000)", "read_csv('/etc/passwd')", "generate_series(1, 1e18)", "CAST(name AS INT)",
    "CAST(1 AS DECIMAL(99, 9))", "INTERVAL '9' YEAR", "DATE '2026-99-99'", "name", "start", "duration", "rank",
    "slices", "links", "kernels", "findings", "nothing", "name LIKE '%_%%'", "1/0", "duration % 0",
    "power(duration, 1e6)", "strftime(start, '%q')", "unnest(array_agg(name))", "a.b.c.d", "$1", "?", "@a",
    "CREATE TABLE a AS", "DROP TABLE slices", "INSERT INTO slices VALUES (1)", "DELETE FROM slices",
    "TRUNCATE slices", "split_part(name, '', 0)", "log(-1)", "name || name", "date_part('century', start)",
    "IN (SELECT name FROM links)",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1.5, 1e308, float("nan"), 2**63, 10**40, "", "a" * 5_000, "../../etc/passwd", "/dev/zero",
    "\0", "\ud800", "\x1b[2J", "12ms..14ms", "14ms..12ms", "..", "-5ms..", "decode", "DISPATCH.VERTICAL",
    "findings.id", "x Enter", "ctrl+c", "[", "kernel * x0", "kernel MatMulV2 x0.5", "x" * 40 + "*" * 40,
    "SELECT * FROM slices", "dispatch_bound", "two_ranks", "healthy", "kineto", ".", [], [""], ["a"] * 2_000,
    [None], [[["a"]]], {}, {"a": 1}, "slices", "log:last-5",
)  # fmt: skip
WORDS = (
    "--", "-", "-o", "", " ", "a" * 300, "/" + "a/" * 3000, "\udcff", "\x1b[2J\x1b]0;a\x07", "a\r\nb", "%s", "{x}",
    "9" * 400, "nan", "inf", "-1", "1e400", "5%", "5ms", "p99:5ms", "decode:p99:9ms", "52GiB", "..", "12ms..",
    "0..0", "/dev/zero", "/dev/full", "/dev/null", "/proc/self/mem", "/", "~", "$HOME", "fixtures",
    "fixtures/healthy", "fixtures/two_ranks", "fixtures/kineto", "log:last-5", "log:last-99999999999999", "log:",
    "json", "high", "200x50", "0x0", "9999999x9999999", "MatMul:0.5", "step=3%", "*", "?", "[a-", "(a+)+$",
    "\\", "'", '"', "\0", "en", "xx", "长" * 50, "0x10", "1_000", "½", "+5",
)  # fmt: skip


@cache
def _tables() -> ProfileTables:
    from npu_tui.load.load import load

    return tables_of(Profile(load(FIXTURES / "dispatch_bound")))


def sql(draw: random.Random) -> str:
    """What goes wrong with a statement of odd pieces; empty if nothing does."""
    if draw.random() < 0.5:
        words = draw.choice(_statements()).split(" ")
        for _ in range(draw.choice([1, 1, 2, 5])):
            at = draw.randrange(len(words))
            words[at : at + draw.choice([0, 1, 1, 3])] = draw.choices(PIECES, k=draw.choice([0, 1, 1, 2]))
    else:
        words = ["SELECT", *draw.choices(PIECES, k=draw.choice([2, 5, 15])), *draw.choice([["FROM", "slices"], []])]
    text = " ".join(words)
    try:
        query(_tables(), text, draw.choice([None, 1, 101]), seconds=5)
    except QueryError as error:
        if set(str(error)) & set("\x1b\x07\r\0\n"):
            return f"{error!s:.200}: {text}"
    except Exception as error:
        return f"{type(error).__name__} {error!s:.200}: {text}"
    return ""


@cache
def _statements() -> list[str]:
    return list(EXAMPLES.values())


def words(draw: random.Random) -> str:
    """What goes wrong with a command line of odd words; empty if nothing does."""
    name = draw.choice(sorted(set(COMMANDS) - {"mcp", "watch"}))
    options = [word for action in parser_of(name)._actions for word in action.option_strings]
    picked = draw.choices(options, k=draw.choice([0, 1, 2, 3])) if options else []
    given = [name, *draw.choice([[], ["fixtures/healthy"], ["fixtures/two_ranks"], [draw.choice(WORDS)]])]
    for option in picked:
        value = draw.choice(WORDS)
        given += draw.choice(
            [[option, value], [f"{option}={value}"], [option], [option[: draw.randrange(2, 9)], value]]
        )
    given += draw.choices(WORDS, k=draw.choice([0, 0, 1, 3]))
    out, told = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(told):
            code = command(given)
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    except BaseException as error:
        return f"{type(error).__name__} {error!s:.200}: {given!r:.400}"
    told.flush()
    said = told.buffer.getvalue().decode("utf-8", "replace")  # type: ignore[attr-defined]
    if code not in (0, 1, 2, 3) or "Traceback" in said or set(said) & set("\x1b\x07\r\0"):
        return f"exit {code} {said[-300:]}: {given!r:.400}"
    return ""


@cache
def _session() -> OpenProfiles:
    return OpenProfiles([FIXTURES])


def agents(draw: random.Random) -> str:
    """What goes wrong with a call of a tool with odd arguments; empty if nothing does."""
    name = draw.choice(sorted(TOOLS))
    fields = TOOLS[name].arguments.__struct_fields__
    given = {field: draw.choice(VALUES) for field in draw.sample(fields, draw.randrange(len(fields) + 1))}
    good = {"path": "dispatch_bound", "base": "dispatch_bound", "new": "communication_bound", "sql": "SELECT 1 AS a"}
    given |= {field: value for field, value in good.items() if field in fields and draw.random() < 0.7}
    if "output" in given:
        given["output"] = draw.choice(["", "../a.svg", "/dev/full", "\0", 5])
    try:
        answer, _ = answered(_session(), ToolCall(), name, given)
    except Exception as error:
        return f"{type(error).__name__} {error!s:.200}: {name} {given!r:.400}"
    if "internal" in str(answer.get("error", "")) or "\x1b" in str(answer):
        return f"{answer!s:.300}: {name} {given!r:.400}"
    return ""


KINDS: dict[str, Callable[[random.Random], str]] = {"sql": sql, "words": words, "agents": agents}


def attack(kind: str, numbers: range, seed: int) -> tuple[int, list[str]]:
    """How many of the questions ``numbers`` of ``kind`` were withstood, and what went wrong, a line each."""
    failed = list[str]()
    for number in numbers:
        signal.alarm(SECONDS)
        try:
            why = KINDS[kind](random.Random(f"{kind} {seed} {number}"))
        except BaseException as error:
            why = f"{type(error).__name__} {error}"
        signal.alarm(0)
        if why:
            failed.append(printable(f"{kind} {number}: {why}"))
    return len(numbers) - len(failed), failed


def main() -> int:
    """The command; 1 if anything is wrong."""
    os.environ["NPU_TUI_DEBUG"] = "1"
    sys.stdin = io.StringIO()
    with tempfile.TemporaryDirectory() as name:
        for each in ("healthy", "two_ranks", "kineto"):
            shutil.copytree(FIXTURES / each, Path(name) / "fixtures" / each)
        os.environ["XDG_CACHE_HOME"] = os.environ["XDG_CONFIG_HOME"] = name
        os.chdir(name)
        return rounds("Ask odd questions.", KINDS, attack, 300)


if __name__ == "__main__":
    sys.exit(main())
