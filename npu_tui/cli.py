"""Which command, and exit codes; nothing heavy is imported before it is needed."""

from __future__ import annotations

import importlib
import os
import sys

from npu_tui.commands.language import choose_language
from npu_tui.commands.streams import DONE, INTERRUPTED, UNREADABLE, USAGE, drop_output, refuse
from npu_tui.strings import say, speak

_COMMANDS = {
    "demo": "demo:run",
    "report": "report:run",
    "screenshot": "screenshot:run",
    "check": "check:run",
    "compare": "compare:run",
    "whatif": "whatif:run",
    "settings": "settings:run",
    "explain": "explain:run",
    "keys": "keys:run",
    "cache": "copies:run_cache",
    "index": "copies:run_index",
}
"""Module of ``npu_tui.commands`` and function of every command."""


def main(argv: list[str] | None = None) -> int:
    """Run ``npu-tui`` with ``argv`` (the process's own if None); returns the exit code."""
    words = sys.argv[1:] if argv is None else argv
    # NumPy starts a thread per core for matrices, of which there are none here.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    words, language = choose_language(words)
    speak(language)
    command = words[0] if words and words[0] in _COMMANDS else ""
    if sys.stdout is None:  # the shell has closed it
        return refuse(say("cli.no_stdout"))
    try:
        return _run(command, words[1:] if command else words)
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
        return refuse(say("cli.no_memory"))
    except Exception as error:
        code = _refusal(error)
        if code is None:
            raise
        return refuse(error, code)


def _refusal(error: Exception) -> int | None:
    """The exit code of an input or settings file that is refused with a line of its own; None for anything else."""
    from npu_tui.ingest.errors import InputError
    from npu_tui.settings import SettingsError

    return UNREADABLE if isinstance(error, InputError) else USAGE if isinstance(error, SettingsError) else None


def _run(command: str, words: list[str]) -> int:
    module, _, function = _COMMANDS.get(command, "explore:run").partition(":")
    return int(getattr(importlib.import_module(f"npu_tui.commands.{module}"), function)(words))
