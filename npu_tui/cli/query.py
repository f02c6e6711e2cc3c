"""``npu-tui query`` and ``mcp``: the profile as tables, for the shell; tools for coding agents, on standard streams."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from npu_tui.cli.options import add_eager, add_opening, borrow_from, refuse_terminal, thresholds_of
from npu_tui.cli.parser import Parser
from npu_tui.cli.streams import DONE, USAGE, add_schema, end_process, refuse, write
from npu_tui.strings import ENGLISH, say, speak, words
from npu_tui.trace.text import printable, whole_number

if TYPE_CHECKING:
    from npu_tui.profile.table import Kind

_SHOWN = 100
"""Rows of a table that people read, unless they ask for more."""

_STDIN = "-"


def run_query(parser: Parser, options: argparse.Namespace) -> int:
    """Answer the query in ``options``, or list tables and columns; returns the exit code, 2 for a wrong query.

    Raises ``InputError`` for a profile that cannot be read, ``SettingsError``, ``OSError`` of stdout or a file.
    """
    from npu_tui.query.engine import ENDINGS

    if options.examples:
        write(_examples())
        return DONE
    sql = _sql(parser, options)
    form = options.format or (ENDINGS.get(Path(options.output).suffix.lower(), "csv") if options.output else None)
    if form is None:
        form = "table" if sys.stdout.isatty() or sql is None or sql.isidentifier() else "csv"
    if form in ("parquet", "arrow") and options.output is None and sys.stdout.isatty():
        parser.error(say("query.no_terminal"))
    limit = None if options.limit is None else whole_number(options.limit)
    seconds = None if options.timeout is None else whole_number(options.timeout)
    if options.limit is not None and (limit is None or limit < 0):
        parser.error(say("query.bad_limit"))
    if options.timeout is not None and (seconds is None or seconds < 1):
        parser.error(say("query.bad_timeout"))
    refuse_terminal(parser, options.path)
    if form in ("json", "ndjson"):
        speak(ENGLISH)
    return _answer(options, sql, form, limit, seconds)


def _answer(options: argparse.Namespace, sql: str | None, form: str, limit: int | None, seconds: int | None) -> int:
    from npu_tui.query.engine import QueryError, most_rows, unwritable, written
    from npu_tui.query.frames import TABLES
    from npu_tui.query.query import begin, opened_tables, query

    if sql is not None and sql not in TABLES:
        begin()  # it comes to itself while the profile is opened
    tables = opened_tables(options.path, thresholds_of(options.config), not options.no_cache, options.source)
    if options.eager is not None:
        borrow_from(tables.profiles, options)
    if sql is None or sql in TABLES:
        return _list_tables(options, tables.names if sql is None else [sql], form, lambda: tables.columns(str(sql)))
    shown = _SHOWN if limit is None and form == "table" else limit or None
    most = most_rows(1) + 1 if limit is None else None
    try:
        # One row more than is shown says whether there are more.
        frame = query(tables, sql, most if shown is None else shown + 1, seconds)
    except QueryError as error:
        return refuse(error, USAGE)
    for lacking in tables.left_out:
        print(words(lacking), file=sys.stderr)
    if limit is None and shown is None:
        shown = most_rows(frame.width)
    if why := unwritable(frame, form):
        return refuse(words(why), USAGE)
    if shown is not None and len(frame) > shown:
        frame = frame.head(shown)
        if limit is None:
            print(say("query.more", shown=shown), file=sys.stderr)
    _write_content(options, written(frame, form))
    return DONE


def _list_tables(
    options: argparse.Namespace, names: list[str], form: str, columns: Callable[[], Mapping[str, Kind]]
) -> int:
    from npu_tui.query.query import listed_tables, listing_text, table_listing

    if form == "json":
        from npu_tui.output.envelope import json_bytes

        _write_content(options, json_bytes(listed_tables(names), schema=options.schema))
    elif len(names) == 1:
        _write_content(options, table_listing(names[0], columns()).encode())
    else:
        _write_content(options, listing_text(names).encode())
        print(say("query.hint", path=printable(options.path)), file=sys.stderr)
    return DONE


def _write_content(options: argparse.Namespace, content: bytes) -> None:
    if options.output is None:
        if sys.stdout.isatty():  # a text that SQL has made may hold anything
            content = "\n".join(map(printable, content.decode(errors="replace").split("\n"))).encode()
        write(content)
    else:
        from npu_tui.whole_file import write_file

        write_file(Path(options.output), content)


def _sql(parser: argparse.ArgumentParser, options: argparse.Namespace) -> str | None:
    """The query, of the command line, a file or standard input; None where there is none."""
    if options.sql is not None and options.file is not None:
        parser.error(say("query.two"))
    alone = options.sql is None and options.file is None
    if alone and options.path.lower().startswith(("select ", "with ")) and not Path(options.path).exists():
        options.path, options.sql = ".", options.path
    if options.file is None:
        found: str | None = options.sql
        return found
    try:
        content = sys.stdin.buffer.read() if options.file == _STDIN else Path(options.file).read_bytes()
        return content.decode("utf-8-sig")
    except OSError as error:
        parser.error(say("query.unreadable", path=printable(options.file), why=error.strerror or str(error)))
    except UnicodeDecodeError:
        parser.error(say("query.not_text", path=printable(options.file)))


def _examples() -> str:
    from npu_tui.query.engine import EXAMPLES

    return "\n".join(f"-- {say(f'query.example.{name}')}\n{sql};\n" for name, sql in EXAMPLES.items())


def query_options(parser: Parser) -> None:
    """Add the arguments and options of ``npu-tui query``."""
    from npu_tui.query.engine import MOST_SECONDS

    parser.add_argument("path", nargs="?", default=".", metavar="PATH", help=say("query.path"))
    parser.add_argument("sql", nargs="?", metavar="SQL", help=say("query.sql"))
    parser.add_argument("--file", metavar="FILE", help=say("query.file"))
    parser.add_argument(
        "--format", choices=("table", "csv", "json", "ndjson", "parquet", "arrow"), help=say("query.format")
    )
    parser.add_argument("-o", "--output", metavar="FILE", help=say("query.output"))
    add_schema(parser)
    parser.add_argument("--limit", metavar="N", help=say("query.limit"))
    parser.add_argument("--timeout", metavar="SECONDS", help=say("query.timeout", seconds=MOST_SECONDS))
    parser.add_argument("--examples", action="store_true", help=say("query.examples"))
    parser.add_argument("--config", metavar="FILE", help=say("cli.config"))
    add_opening(parser)
    add_eager(parser)


_THREADS = 4


def mcp_options(parser: Parser) -> None:
    """Add the arguments and options of ``npu-tui mcp``."""
    parser.add_argument("--root", action="append", default=[], metavar="DIR", help=say("mcp.root"))
    parser.add_argument("--allow-record", action="store_true", help=say("mcp.allow_record"))
    parser.add_argument("--config", metavar="FILE", help=say("cli.config"))


def run_mcp(parser: Parser, options: argparse.Namespace) -> int:
    """Serve until the client is gone; returns the exit code. Raises ``SettingsError``."""
    roots = [Path(root) for root in options.root or ["."]]
    for root in roots:
        if not root.is_dir():
            parser.error(say("mcp.no_root", path=str(root)))
    if find_spec("mcp") is None:
        return refuse(say("mcp.not_installed"), USAGE)
    from npu_tui.mcp.server import serve
    from npu_tui.mcp.session import OpenProfiles

    speak(ENGLISH)  # as all JSON
    threads = min(os.cpu_count() or 1, _THREADS)
    serve(OpenProfiles(roots, thresholds_of(options.config), threads, options.allow_record))
    return end_process(DONE)  # what is not waited for any more may still be read
