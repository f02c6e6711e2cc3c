"""``npu-tui doctor``: what the program finds around it, and what to change where something is in its way."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import ClassVar, Literal

from msgspec import Struct

from npu_tui.cli.options import known_settings
from npu_tui.cli.parser import Parser
from npu_tui.cli.streams import DONE, add_schema, write
from npu_tui.cli.words import version_line
from npu_tui.native.library import VARIABLE, library, suiting
from npu_tui.output.envelope import Root, json_bytes
from npu_tui.settings import SettingsError, load_settings, settings_path
from npu_tui.strings import say, words
from npu_tui.trace.text import cell_count, padded, printable, wrapped

_LIBRARIES = ("textual", "polars", "numpy", "msgspec", "orjson", "rich")
_TRANSLATED = frozenset(
    {
        "libraries",
        "library",
        "system",
        "machine",
        "colours",
        "locale",
        "answers",
        "copies",
        "settings",
        "switch",
        "ranks",
        "room",
    }
)
"""Names that are words; the others are names of things."""
_ROOM_LEAST = 1 << 30  # bytes: less than a large trace unpacks to
_ESCAPE_MOST_MS = 100  # a user feels a longer wait after Esc
_TMUX_SECONDS = 2.0


class Found(Struct, frozen=True):
    """``name`` of what was looked at, the ``value`` found, and ``advice``, empty where all is well."""

    name: str
    value: str
    advice: str = ""


class Doctor(Root, frozen=True):
    """What is around the program."""

    ALONE: ClassVar = "facts"

    facts: list[Found]
    schema_version: Literal[2] = 2
    kind: Literal["doctor"] = "doctor"


def doctor_options(parser: Parser) -> None:
    """Add the arguments and options of ``npu-tui doctor``."""
    parser.add_argument("dir", nargs="?", metavar="DIR", help=say("doctor.dir"))
    parser.add_argument("--format", choices=("text", "json"), default="text", help=say("doctor.format"))
    add_schema(parser)


def run_doctor(parser: Parser, options: argparse.Namespace) -> int:
    """Print what is found; returns the exit code."""
    found = [*_program(), *_terminal(), *_tmux(), *_disk(), _found_settings()]
    if options.dir is not None:
        found += _job(Path(options.dir))
    if options.format == "json":
        write(json_bytes(Doctor(found), [_sum(found)], options.schema))
        return DONE
    names = [say(f"doctor.name.{fact.name}") if fact.name in _TRANSLATED else fact.name for fact in found]
    room = max(map(cell_count, names)) + 2
    width = max(shutil.get_terminal_size().columns - room, 30)
    for name, fact in zip(names, found, strict=True):
        lines = wrapped(printable(fact.value), width)
        if fact.advice:
            lines += wrapped("-> " + fact.advice, width)
        write("\n".join(padded(name if not k else "", room) + line for k, line in enumerate(lines)) + "\n")
    write(_sum(found) + "\n")
    return DONE


def _sum(found: list[Found]) -> str:
    count = sum(bool(fact.advice) for fact in found)
    return say("doctor.sum", count=count) if count else say("doctor.none")


def _program() -> list[Found]:
    from importlib.metadata import PackageNotFoundError, version

    libraries = []
    for name in _LIBRARIES:
        try:
            libraries.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            libraries.append(f"{name} -")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    page = os.sysconf("SC_PAGE_SIZE")
    memory = os.sysconf("SC_PHYS_PAGES") * page
    machine = say("doctor.machine", machine=platform.machine(), cores=cores, size=memory, page=page >> 10)
    return [
        Found("npu-tui", f"{version_line()}, {sys.prefix}"),
        Found("python", f"Python {platform.python_version()}"),
        Found("libraries", ", ".join(libraries)),
        _library(),
        Found("system", ", ".join(filter(None, (f"{platform.system()} {platform.release()}", _libc())))),
        Found("machine", machine),
    ]


def _library() -> Found:
    """What runs the loops of traces on this machine."""
    if (found := library()) is not None:
        return Found("library", found.name)
    if wish := os.environ.get(VARIABLE):
        return Found(
            "library", say("doctor.no_library"), say("doctor.library_off", variable=VARIABLE, wish=printable(wish))
        )
    return Found("library", say("doctor.no_library"), say("doctor.library_refused") if suiting() else "")


def _libc() -> str:
    """The C library and its version, empty where it is not glibc."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):
        return ""


def _terminal() -> list[Found]:
    from npu_tui.tui.terminal.terminal import ask, asks_colours, colour_depth, glyphs_of_width, is_utf8

    term, depth = os.environ.get("TERM", ""), colour_depth(os.environ)
    utf8 = is_utf8(os.environ)
    size = shutil.get_terminal_size()
    colours = "" if depth == "truecolor" or os.environ.get("NO_COLOR") else say("doctor.colours")
    rows = [
        Found("TERM", f"{term or '-'}, {size.columns}x{size.lines}"),
        Found("colours", depth, colours),
        Found("locale", "UTF-8" if utf8 else say("doctor.locale"), "" if utf8 else say("doctor.no_utf8")),
    ]
    if not sys.stdout.isatty() or not os.isatty(0):
        return [*rows, Found("answers", say("doctor.no_terminal"))]
    answers = ask(True, asks_colours(os.environ, depth))
    width, light = answers.width, answers.light
    silent = width is None and light is None
    shade = say("doctor.unsaid" if light is None else "doctor.light" if light >= 0.5 else "doctor.dark")
    told = say("doctor.silent") if silent else say("doctor.answers", glyphs=glyphs_of_width(width, utf8), shade=shade)
    return [*rows, Found("answers", told, say("doctor.is_silent") if silent else "")]


def _tmux() -> list[Found]:
    if not os.environ.get("TMUX"):
        return []
    version = _asked_of_tmux("-V")
    rows = [Found("tmux", version.removeprefix("tmux ") or say("doctor.silent"))]
    escape = _asked_of_tmux("show-options", "-sv", "escape-time")
    if escape.isdigit():
        rows.append(Found("escape-time", f"{escape} ms", say("doctor.escape") * (int(escape) > _ESCAPE_MOST_MS)))
    keys = _asked_of_tmux("show-options", "-sv", "extended-keys")
    rows.append(Found("extended-keys", keys or "-", say("doctor.extended") * (keys not in ("on", "always"))))
    clipboard = _asked_of_tmux("show-options", "-sv", "set-clipboard")
    rows.append(Found("set-clipboard", clipboard or "-", say("doctor.clipboard") * (clipboard == "off")))
    return rows


def _asked_of_tmux(*words: str) -> str:
    """What tmux says to ``words``; empty where it says nothing in time."""
    try:
        done = subprocess.run(["tmux", *words], capture_output=True, timeout=_TMUX_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace").strip()


def _disk() -> list[Found]:
    from npu_tui.load import copy as cache

    copies, room = cache.directory(), Path(tempfile.gettempdir())
    kept = cache.limit()
    shown = say("doctor.copies", path=copies, size=kept) if kept else say("doctor.no_copies", variable=cache.VARIABLE)
    place = next(path for path in (copies, *copies.parents) if path.exists())
    writable = os.access(place, os.W_OK | os.X_OK)
    free = shutil.disk_usage(room).free
    return [
        Found("copies", shown, "" if writable or not kept else say("doctor.no_cache", path=printable(str(place)))),
        Found("TMPDIR", say("doctor.room", path=room, size=free), say("doctor.little") * (free < _ROOM_LEAST)),
    ]


def _job(folder: Path) -> list[Found]:
    """Whether the job that watches ``folder`` can be recorded."""
    from npu_tui.record.recording import looked_at

    return [
        Found(look.name, words(look.found), "" if look.advice is None else words(look.advice))
        for look in looked_at(folder)
    ]


def _found_settings() -> Found:
    from npu_tui.tui.keymap import use_settings

    path = str(settings_path())
    try:
        settings = load_settings(None, known_settings())
        use_settings(settings)
    except SettingsError as error:
        return Found("settings", path, str(error))
    return Found("settings", say("cli.settings.none" if settings.path is None else "cli.settings.good", path=path))
