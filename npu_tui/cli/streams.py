"""Where a command writes, what interrupts it, and lists on a terminal."""

from __future__ import annotations

import argparse
import atexit
import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from npu_tui.strings import say, words
from npu_tui.trace.text import cell_count, drawable, padded, printable, shortened, size_text

if TYPE_CHECKING:
    from npu_tui.output.statement import Statement

DONE, FAILED, USAGE, UNREADABLE, INTERNAL, INTERRUPTED = 0, 1, 2, 3, 70, 130
DEBUG = "NPU_TUI_DEBUG"
"""The variable of the environment that asks for a whole traceback after an internal error."""


def write(text: str | bytes) -> None:
    """Write to stdout, whatever characters its encoding has; bytes as they are."""
    if isinstance(text, bytes):
        sys.stdout.buffer.write(text)
    else:
        encoding = sys.stdout.encoding or "utf-8"
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
    sys.stdout.flush()


FORMATS = ("text", "markdown", "html", "json")
"""What an answer can be written as."""

_ENDINGS = {".html": "html", ".htm": "html", ".md": "markdown", ".markdown": "markdown", ".json": "json",
            ".txt": "text"}  # fmt: skip


def add_format(parser: argparse.ArgumentParser, text: str) -> None:
    """The options that say in which of ``FORMATS`` and where to an answer is written; ``text`` is about the format."""
    parser.add_argument("--format", choices=FORMATS, help=text)
    parser.add_argument("-o", "--output", metavar="FILE", help=say("cli.answer_file"))
    parser.add_argument("--fields", metavar="NAMES", help=say("cli.fields"))
    add_schema(parser)


def add_schema(parser: argparse.ArgumentParser) -> None:
    """The option that says in which schema JSON is written; ``NPU_TUI_SCHEMA`` does where it does not."""
    parser.add_argument("--schema", choices=("1", "2"), help=say("cli.schema_version"))


def format_of(parser: argparse.ArgumentParser, options: argparse.Namespace) -> str:
    """What ``options`` ask for: ``--format``, else the extension of the file, else text.

    Raises ``SystemExit`` (2) for an extension that names no format, for a page that would pour into a terminal, and for
    fields of what is no JSON.
    """
    form: str | None = options.format
    if form is None and options.output is not None:
        form = _ENDINGS.get(Path(options.output).suffix.lower())
        if form is None:
            parser.error(say("cli.bad_answer_file", path=options.output))
    if form == "html" and options.output is None and sys.stdout is not None and sys.stdout.isatty():
        parser.error(say("cli.page_on_terminal"))
    if options.fields is not None and form != "json":
        parser.error(say("cli.fields_of"))
    return form or "text"


def fields_of(options: argparse.Namespace) -> list[str] | None:
    """The fields of JSON that ``options`` ask for; None for all."""
    return None if options.fields is None else [name.strip() for name in options.fields.split(",") if name.strip()]


def tell(parser: argparse.ArgumentParser, options: argparse.Namespace, statement: Statement, form: str) -> None:
    """Write ``statement`` in ``form`` to where ``options`` say, of JSON the fields that they ask for.

    Raises ``SystemExit`` (2) for a field that is not there, ``OSError``.
    """
    if (names := fields_of(options)) is None:
        hand_over(statement.written(form, options.schema), options.output)
        return
    import orjson

    from npu_tui.output.envelope import NoFieldError, chosen_fields

    try:
        fields = chosen_fields(statement.laid_out(options.schema), names)
    except NoFieldError as error:
        meant = say("cli.no_field_meant", nearest=error.nearest) if error.nearest else ""
        parser.error(say("cli.no_field", name=error.name) + meant)
    hand_over(orjson.dumps(fields, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE), options.output)


def hand_over(content: str | bytes, output: str | None) -> None:
    """Write ``content`` to the file ``output``, whole or not at all; to stdout without one. Raises ``OSError``."""
    if output is None:
        write(content)
        return
    from npu_tui.whole_file import write_file

    write_file(Path(output), content if isinstance(content, bytes) else content.encode())


def write_pages(text: str) -> None:
    """Write ``text``; on a terminal that it does not fit into, through ``$PAGER`` or less, where there is one."""
    if sys.stdout is None or not sys.stdout.isatty() or text.count("\n") < shutil.get_terminal_size().lines:
        write(text)
        return
    words = shlex.split(os.environ.get("PAGER") or "less")
    if not words or shutil.which(words[0]) is None:
        write(text)
        return
    signals = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is for the pager
    try:
        subprocess.run(words, input=text.encode(), env=os.environ | {"LESS": os.environ.get("LESS", "-R")}, check=False)
    finally:
        signal.signal(signal.SIGINT, signals)


class StatusLine:
    """One line of stderr that is always the last one and stays as long as it is true; nothing without a terminal."""

    def __init__(self) -> None:
        self.is_on = sys.stderr is not None and sys.stderr.isatty()
        self._shown = ""

    def show(self, text: str) -> None:
        """``text`` in place of what is shown, cut where the terminal ends; none takes the line away."""
        line = shortened(drawable(text), max(shutil.get_terminal_size().columns - 1, 1)) if text else ""
        if self.is_on and line != self._shown:
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
            self._shown = line


def show_progress(done: int, count: int) -> None:
    """The ranks read so far, on one line of stderr that goes away."""
    end = "\r" if done < count else "\r\x1b[K"
    print(say("job.reading", done=done, count=count), end=end, file=sys.stderr, flush=True)


def drop_output() -> None:
    """What still waits to be written to stdout is not tried again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def refuse(error: Exception | str, code: int = UNREADABLE) -> int:
    """Say ``error`` on stderr in one line; returns ``code``."""
    line = words(getattr(error, "message", str(error)))
    if isinstance(error, OSError):
        line = f"{error.filename or say('cli.stdout')}: {error.strerror or error}"
    with contextlib.suppress(OSError):  # there is no way to say it; the exit code still does
        print(f"npu-tui: {printable(line)}", file=sys.stderr)
    return code


def settle_stderr() -> None:
    """What does not fit on stderr any more is dropped: Python would end with 120 because of it."""
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def end_process(code: int) -> NoReturn:
    """End at once, without waiting for threads."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)


def write_list(folder: Path) -> None:
    """Write the profiles below ``folder`` to stdout, the newest first, each job before its ranks."""
    from npu_tui.nearby import Nearby, jobs_in, nearby

    def cells(entry: Nearby) -> list[str]:
        return [
            entry.rank_text(),
            datetime.fromtimestamp(entry.time).strftime("%Y-%m-%d %H:%M") if entry.time else "",
            size_text(entry.bytes),
            "" if entry.level is None else str(entry.level),
            shlex.quote(printable(str(entry.path))),
        ]

    found = nearby(folder)
    names = [say(f"picker.{name}") for name in ("rank", "time", "size", "level")]
    table = [[*names, "PATH"], *map(cells, found)]
    widths = [max(cell_count(row[at]) for row in table) for at in range(4)]
    write(say("picker.list", count=len(found) - jobs_in(found), path=printable(str(folder.absolute()))) + "\n\n")
    for row in table:
        own = [padded(cell, width, right=at != 1) for at, (cell, width) in enumerate(zip(row, widths, strict=False))]
        write("  ".join([*own, row[-1]]) + "\n")


_pressed = False


def end_at_once() -> None:
    """From now on Ctrl+C ends the process at once: there is nothing to clean up."""
    _answer(_end)


def give_up() -> None:
    """From now on Ctrl+C raises ``KeyboardInterrupt``, once."""
    _answer(_raise)


def is_given_up() -> bool:
    """Whether Ctrl+C was pressed during the command; code that caught it may have raised another error instead."""
    return _pressed


def _answer(handler: Any) -> None:
    # A shell starts background jobs with SIGINT ignored; that stays.
    if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, _end, _raise):
        signal.signal(signal.SIGINT, handler)


def _end(number: int, frame: Any) -> None:
    os._exit(INTERRUPTED)


def _raise(number: int, frame: Any) -> None:
    global _pressed
    _pressed = True
    if frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        _end(number, frame)  # the callback of an import lock would swallow the exception
    end_at_once()
    raise KeyboardInterrupt


def clear_at_end() -> None:
    """From now on SIGTERM and SIGHUP leave nothing on the disk: they end this process as they would, a little later."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _clear)


def _clear(number: int, frame: Any) -> None:
    database_file = sys.modules.get("npu_tui.load.database_file")  # most profiles are text
    if database_file is not None:
        database_file.forget_copies()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
