"""Which command, and exit codes; nothing heavy is imported before it is needed."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable

from npu_tui.cli.parser import choose_language, given, meant, parser_of, runner_of, with_joined_limits
from npu_tui.cli.streams import (
    DEBUG,
    DONE,
    INTERNAL,
    INTERRUPTED,
    UNREADABLE,
    USAGE,
    clear_at_end,
    drop_output,
    end_at_once,
    end_process,
    give_up,
    is_given_up,
    refuse,
    settle_stderr,
)
from npu_tui.load.polars_door import watch_polars
from npu_tui.settings import SettingsError
from npu_tui.strings import ENGLISH, language, say, speak, speaking
from npu_tui.trace.memory import is_limited
from npu_tui.trace.text import printable

_YOUNG = 250_000
"""New objects before the garbage collector runs: a report has many rows, and none is part of a cycle."""


def main(argv: list[str] | None = None) -> int:
    """Run ``npu-tui`` with ``argv`` (the process's own if None); returns the exit code."""
    own = argv is None
    words = sys.argv[1:] if argv is None else argv
    if own:
        end_at_once()
        clear_at_end()
        gc.set_threshold(_YOUNG)
    # NumPy starts a thread per core for matrices, of which there are none here.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    watch_polars()
    command, rest, lang, config = given(words)
    speak(choose_language(lang, config))
    if own and "_ARGCOMPLETE" in os.environ:  # the script of a shell asks for words
        from npu_tui.cli.completion import complete

        complete()
    if sys.stdout is None:  # the shell has closed it
        return refuse(say("cli.no_stdout"))
    if sys.stderr is None:  # the next file that is opened must not take its place
        sys.stderr = sys.__stderr__ = open(os.devnull, "w", encoding="utf-8")  # type: ignore[misc]  # noqa: SIM115
    if not command and rest and (nearest := meant(rest[0])):
        code = refuse(say("cli.no_command", word=printable(rest[0])) + say("cli.meant", nearest=nearest), USAGE)
        settle_stderr()
        return code
    try:
        code = guarded_main(lambda: _run_command_line(command, rest, own))
    finally:
        if own:
            settle_stderr()
    if own:
        end_at_once()
        if code == INTERRUPTED:
            end_process(code)
    return code


def guarded_main(run: Callable[[], int]) -> int:
    """The exit code of ``run``; an error that it does not handle is one line."""
    try:
        return run()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader has seen enough
        drop_output()
        return DONE
    except OSError as error:
        if error.filename is None:
            drop_output()
        return refuse(error)
    except MemoryError:
        return refuse(say("cli.memory_limit" if is_limited() else "cli.no_memory"))
    except Exception as error:
        return INTERRUPTED if is_given_up() else refuse(*_refusal(error))


def _refusal(error: Exception) -> tuple[Exception | str, int]:
    """What to say about an error, and the exit code: input and settings files are refused with a line of their own."""
    from npu_tui.load.errors import InputError

    if isinstance(error, InputError):
        return error, UNREADABLE
    if isinstance(error, SettingsError):
        return error, USAGE
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return say("cli.no_threads"), UNREADABLE
    if os.environ.get(DEBUG):
        import traceback

        traceback.print_exception(error)
    return say("app.crashed", error=f"{type(error).__name__}: {error}", variable=DEBUG), INTERNAL


def _run_command_line(command: str, words: list[str], own: bool) -> int:
    run = runner_of(command)
    if own:
        give_up()
    with speaking(language()):  # JSON is English, errors about it are in the language of the user
        parser = parser_of(command)
        options = parser.parse_args(with_joined_limits(words))
        if getattr(options, "format", None) in ("json", "ndjson"):
            speak(ENGLISH)
        return run(parser, options)
