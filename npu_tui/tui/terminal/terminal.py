"""The terminal: what it can do, asked and restored; the clipboard; the program in a browser."""

from __future__ import annotations

import atexit
import os
import re
import select
import signal
import subprocess
import sys
import termios
import threading
import time
import tty
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, BinaryIO, ClassVar

from msgspec import Struct
from msgspec.structs import replace

from npu_tui.trace.text import cell_count, printable
from npu_tui.view.ansi import GLYPH_SETS, PROBE, Depth, GlyphSet
from npu_tui.view.palette import DARK, LIGHT, PALETTES, Palette


def in_browser() -> bool:
    """Whether a server draws this program in a browser (``textual serve``): it names Textual's driver for it."""
    return bool(os.environ.get("TEXTUAL_DRIVER"))


AUTO = "auto"
THEME_NAMES = (AUTO, *PALETTES)
GLYPHS_NAMES = (AUTO, *GLYPH_SETS)

PATIENCE = 0.4
"""Seconds for the first answer; a terminal that is silent that long is asked nothing else."""

_LONGER = 1.0
_MONOCHROME = re.compile(r"^(?:dumb|unknown|vt\d+|ansi-m|.*-mono|.*-m)$")
_SERIAL = re.compile(r"^(?:dumb|unknown|vt\d+.*|ansi.*)$")
"""What a serial console is called: terminals of old with ASCII alone."""
# Terminals that have 24-bit colour in every version (github.com/termstandard/colors).
_TRUE = re.compile(r"^(?:xterm-kitty|xterm-ghostty|ghostty|foot(?:-.*)?|alacritty(?:-.*)?|wezterm|.*-direct.*)$")
_CURSOR = re.compile(rb"\x1b\[\??(\d+);(\d+)R")
_BACKGROUND = re.compile(rb"\x1b\]11;rgba?:([0-9a-fA-F]+)/([0-9a-fA-F]+)/([0-9a-fA-F]+)[^\x07\x1b]*(?:\x07|\x1b\\)")
_WHERE = "\x1b[6n"
_COLOUR = "\x1b[48;2;1;2;3m\x1bP$qm\x1b\\\x1b[0m"
"""An unlikely background is set, then asked for with DECRQSS: who has no such colours answers with another one.

Source: github.com/termstandard/colors, "Querying The Terminal"; the answer is ``DCS 1 $ r … m ST``.
"""
_SETTING = re.compile(rb"\x1bP[01]\$r[^\x1b]{0,64}\x1b\\")
_KEPT = re.compile(rb"48[:;]2(?:[:;]|::|:0:)1[:;]2[:;]3(?!\d)")
_SAVE, _BACK = "\x1b7", "\x1b8\x1b[K"


class Terminal(Struct, frozen=True):
    """How to draw. ``typed`` are bytes that were typed while the terminal was asked."""

    depth: Depth = "truecolor"
    palette: Palette = DARK
    glyphs: GlyphSet = "blocks"
    typed: bytes = b""


def colour_depth(environment: Mapping[str, str]) -> Depth:
    """The colours that the environment promises."""
    term = environment.get("TERM", "").lower()
    if environment.get("NO_COLOR") or not term or _MONOCHROME.match(term):
        return "none"
    if environment.get("COLORTERM", "").lower() in ("truecolor", "24bit") or _TRUE.match(term):
        return "truecolor"
    return "256" if "256" in term else "16"


def glyphs_of_term(environment: Mapping[str, str]) -> GlyphSet | None:
    """The glyphs that ``TERM`` alone decides: ASCII on the Linux console and on serial ones; None: it is asked."""
    term = environment.get("TERM", "").lower()
    return "ascii" if term == "linux" or term.startswith("linux-") or _SERIAL.match(term) else None


def asks_colours(environment: Mapping[str, str], depth: Depth) -> bool:
    """Whether the terminal is asked for true colour: where nothing promises it, as ssh drops ``COLORTERM``.

    GNU screen passes what it does not know on to the terminal around it, which would show it.
    """
    screen = environment.get("STY") or environment.get("TERM", "").startswith("screen")
    return depth in ("16", "256") and not screen


def is_utf8(environment: Mapping[str, str]) -> bool:
    """Whether the locale's characters are those of UTF-8."""
    named = next((environment[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if environment.get(name)), "")
    return "utf8" in named.lower().replace("-", "")


def find_terminal(theme: str = AUTO, glyphs: str = AUTO) -> Terminal:
    """The terminal this program runs in; what is given explicitly is not asked for."""
    environment = os.environ
    if in_browser():
        depth: Depth = "none" if environment.get("NO_COLOR") else "truecolor"
        return Terminal(depth, palette_named(theme), glyphs_named(glyphs))
    found = Terminal(colour_depth(environment))
    fixed = glyphs_of_term(environment)
    automatic, dark = fixed, True
    ask_glyphs = glyphs == AUTO and fixed is None and is_utf8(environment)
    ask_theme = theme == AUTO and fixed is None and found.depth != "none"
    if ask_glyphs or ask_theme:
        answers = ask(ask_theme, fixed is None and asks_colours(environment, found.depth))
        found = replace(found, typed=answers.typed, depth="truecolor" if answers.true_colour else found.depth)
        dark = _hinted_dark(environment) if answers.light is None else answers.light < 0.5
        automatic = glyphs_of_width(answers.width, is_utf8(environment))
    if automatic is None:
        automatic = glyphs_of_width(None, is_utf8(environment))
    return replace(found, palette=palette_named(theme, dark), glyphs=glyphs_named(glyphs, automatic))


class TerminalQuery:
    """The terminal, asked by ``find_terminal`` in a thread while something else is done."""

    def __init__(self, theme: str = AUTO, glyphs: str = AUTO) -> None:
        self._wanted = theme, glyphs
        self._found = Terminal()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._ask, name="terminal", daemon=True)
        self._thread.start()

    def _ask(self) -> None:
        try:
            self._found = find_terminal(*self._wanted)
        except BaseException as error:
            self._error = error

    def terminal(self) -> Terminal:
        """What it has answered; waits for that. Raises what ``find_terminal`` did."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._found


def palette_named(theme: str, dark: bool = True) -> Palette:
    """The palette of ``theme``; ``dark`` is the terminal's background, for ``AUTO``."""
    return PALETTES.get(theme, DARK if dark else LIGHT)


def glyphs_named(name: str, automatic: GlyphSet = "blocks") -> GlyphSet:
    """The glyphs called ``name``, or ``automatic`` for ``AUTO``."""
    return next((glyphs for glyphs in GLYPH_SETS if glyphs == name), automatic)


def glyphs_of_width(width: int | None, utf8: bool) -> GlyphSet:
    """The glyphs for a terminal that drew ``PROBE`` in ``width`` cells (None: it did not say)."""
    if not utf8:
        return "ascii"
    if width is None or width == cell_count(PROBE):
        return "blocks"
    # More than two cells each: the terminal takes every byte for a character.
    return "safe" if cell_count(PROBE) < width <= 2 * cell_count(PROBE) else "ascii"


def _hinted_dark(environment: Mapping[str, str]) -> bool:
    """Whether the background is dark by ``COLORFGBG`` of rxvt and Konsole, where it is set."""
    return environment.get("COLORFGBG", "").rpartition(";")[2] not in ("7", "15")


class Answers(Struct, frozen=True):
    """What a terminal answers: the cells of ``PROBE``, its background's lightness 0..1, whether it keeps true colours.

    A question it does not answer is None or False. ``typed`` is what was typed meanwhile.
    """

    width: int | None = None
    light: float | None = None
    true_colour: bool = False
    typed: bytes = b""


def ask(background: bool, colours: bool = False) -> Answers:
    """Ask the terminal for the width of its glyphs, its ``background`` and whether it keeps 24-bit ``colours``."""
    screen = sys.__stderr__ if sys.__stderr__ is not None and sys.__stderr__.isatty() else sys.__stdout__
    if screen is None or not screen.isatty() or not os.isatty(0):
        return Answers()
    keys, out = 0, screen.fileno()
    try:
        before = termios.tcgetattr(keys)
        tty.setcbreak(keys, termios.TCSANOW)
    except termios.error:
        return Answers()
    try:
        return _dialogue(lambda text: os.write(out, text.encode()), lambda wait: _read(keys, wait), background, colours)
    except OSError:
        return Answers()
    finally:
        termios.tcsetattr(keys, termios.TCSANOW, before)


def _read(keys: int, wait: float) -> bytes:
    return os.read(keys, 4096) if select.select([keys], [], [], max(wait, 0))[0] else b""


def _dialogue(
    write: Callable[[str], object], read: Callable[[float], bytes], background: bool, colours: bool = False
) -> Answers:
    """The questions and answers of ``ask``; ``read`` waits that many seconds for bytes."""
    write(f"{_SAVE}{_WHERE}{PROBE}{_WHERE}{_BACK}")
    data = _until(read, b"", 2, PATIENCE)
    places = _CURSOR.findall(data)
    if len(places) < 2:
        return Answers(typed=_CURSOR.sub(b"", data))
    width = int(places[1][1]) - int(places[0][1]) if places[0][0] == places[1][0] else None
    if not (background or colours):
        return Answers(width, typed=_CURSOR.sub(b"", data))
    # Terminals answer in order, so the cursor's place says that no other answer will come any more.
    question = ("\x1b]11;?\x1b\\" if background else "") + (_COLOUR if colours else "")
    write(f"{_SAVE}{question}{_WHERE}{_BACK}")
    data = _until(read, _CURSOR.sub(b"", data), 1, _LONGER)
    colour, kept = _BACKGROUND.search(data), _SETTING.search(data)
    typed = _CURSOR.sub(b"", _SETTING.sub(b"", _BACKGROUND.sub(b"", data)))
    return Answers(width, _lightness(colour), kept is not None and _KEPT.search(kept[0]) is not None, typed)


def _until(read: Callable[[float], bytes], data: bytes, answers: int, patience: float) -> bytes:
    """``data`` and what follows, until it holds so many cursor places or ``patience`` seconds have gone."""
    deadline = time.monotonic() + patience
    while len(_CURSOR.findall(data)) < answers:
        wait = deadline - time.monotonic()
        if wait <= 0:
            break
        data += read(wait)
    return data


def _lightness(colour: re.Match[bytes] | None) -> float | None:
    if colour is None:
        return None
    red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in colour.groups())
    return float(0.2126 * red + 0.7152 * green + 0.0722 * blue)


_QUIET = (
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l"  # mouse
    "\x1b[?1004l\x1b[?2004l\x1b[?2048l\x1b[?2026l\x1b[?7h\x1b[?25h\x1b[0m"  # focus, paste, resize, frames, wrap, cursor
)
_SHELL = "\x1b[?1049l"
_LEAVE = f"\x1b[<u{_SHELL}"
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_GRACE = 2.0
"""Seconds that the program has to end in order after a signal."""


class Guard:
    """Leaves the terminal as it was, whatever ends the body of the ``with``.

    SIGINT, SIGTERM, SIGHUP and SIGQUIT end the program with their exit code. Once it draws they call ``stop`` in its
    event loop; if that is stuck, the process ends all the same. ``taken`` says whether the program has the alternate
    screen and a keyboard mode of its own, which must be given back once, ``pictured`` that a first picture has taken
    the screen alone. ``picture`` is asked, once the program draws, to do so no more; it returns whether it has.
    """

    taken: ClassVar[bool] = False
    pictured: ClassVar[bool] = False
    picture: ClassVar[Callable[[], bool] | None] = None

    def __init__(self) -> None:
        self._before: list[Any] | None = None
        self._previous: dict[signal.Signals, Any] = {}
        self._stop: Callable[[int], None] | None = None
        self._ended: int | None = None
        self._leaving = False

    def draws(self, stop: Callable[[int], None]) -> None:
        """From now on the program draws, and ``stop`` is how to end it with an exit code."""
        self._stop = stop

    def __enter__(self) -> Guard:
        self._before = _attributes()
        self._previous = {number: signal.signal(number, self._signalled) for number in _ENDING}
        return self

    def __exit__(self, *_: object) -> None:
        self._leaving = True
        self._restore()
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        if self._ended is not None:
            atexit._run_exitfuncs()
            os._exit(self._ended)  # threads that still read would abort an interpreter that ends

    def _restore(self) -> None:
        if self._stop is not None or Guard.pictured:  # else nothing was drawn, and these would move the cursor
            with suppress(OSError):
                _tell((_LEAVE if Guard.taken else _SHELL if Guard.pictured else "") + _QUIET)
        if self._before is not None:
            with suppress(termios.error):
                # What the terminal still answers is not read.
                termios.tcsetattr(0, termios.TCSANOW if self._stop is not None else termios.TCSAFLUSH, self._before)

    def _end(self, code: int) -> None:
        self._restore()
        os._exit(code)

    def _signalled(self, number: int, _: object) -> None:
        code = 128 + number
        try:
            watch = threading.Timer(_GRACE, self._end, (code,))
            watch.daemon = True
            watch.start()
            if self._leaving:
                return  # an exception would leave the terminal half restored
            if self._stop is None:
                self._ended = code
                raise SystemExit(code)  # an import may swallow it
            import asyncio  # takes as long as the rest of what the first picture needs

            asyncio.get_running_loop().call_soon_threadsafe(self._stop, code)
        except RuntimeError:  # nothing runs yet, or no thread can be started
            if not self._leaving:
                raise SystemExit(code) from None


def _attributes() -> list[Any] | None:
    try:
        return termios.tcgetattr(0)
    except termios.error:
        return None


def _tell(text: str) -> None:
    screen = sys.__stderr__
    if screen is not None and screen.isatty():
        os.write(screen.fileno(), text.encode())


_MOST_KEPT = 20_000  # bytes of standard error that are read at once


class Aside:
    """Standard error while the program draws, where that is the terminal: its words would stay on the screen.

    What the process writes there meanwhile is kept in a file, and written once the screen is given back.
    ``sys.__stderr__`` is the terminal all the time.
    """

    def __init__(self) -> None:
        from tempfile import TemporaryFile  # the first picture needs nothing of it

        self._kept: BinaryIO | None = None
        self._told = self._written = 0
        with suppress(OSError):  # no room for a file: as before
            if os.isatty(2):
                self._kept = TemporaryFile()  # noqa: SIM115
                sys.__stderr__ = open(os.dup(2), "w", encoding="utf-8", errors="replace")  # type: ignore[misc]  # noqa: SIM115

    def begin(self) -> None:
        """Keep what is written from now on."""
        if self._kept is not None:
            os.dup2(self._kept.fileno(), 2)

    def news(self) -> str:
        """The first line of what has been written since this was asked last."""
        if self._kept is None or os.fstat(self._kept.fileno()).st_size == self._told:
            return ""
        text = self._since(self._told)
        self._told += len(text)
        return next(iter(text.decode(errors="replace").split("\n")), "")

    def end(self) -> None:
        """Give standard error back, with what was kept."""
        if self._kept is None or sys.__stderr__ is None:
            return
        os.dup2(sys.__stderr__.fileno(), 2)
        while text := self._since(self._written):
            self._written += len(text)
            lines = text.decode(errors="replace").split("\n")
            sys.__stderr__.write("\r\n".join(map(printable, lines)))
        sys.__stderr__.flush()

    def _since(self, start: int) -> bytes:
        assert self._kept is not None
        return os.pread(self._kept.fileno(), _MOST_KEPT, start)


MOST_BYTES = 74_994
"""hterm and others drop an OSC 52 sequence of more than 100,000 characters, which is this many bytes in base64."""

_TMUX_SECONDS = 2.0


def to_tmux(text: str) -> bool:
    """Give ``text`` to the tmux that the program runs in, and through it to the terminal; False if that did not work.

    As tmux comes, it drops OSC 52 from the programs in it (``set-clipboard external``) but sends its own.
    """
    if not os.environ.get("TMUX"):
        return False
    command = ["tmux", "load-buffer", "-w", "-"]
    try:
        done = subprocess.run(command, input=text.encode(), capture_output=True, timeout=_TMUX_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0  # before tmux 3.2 there is no -w


def cut(lines: list[str]) -> tuple[str, int]:
    """The first lines, as many as terminals take in whole, and how many those are."""
    size = kept = 0
    for line in lines:
        size += len(line.encode()) + 1
        if size > MOST_BYTES:
            break
        kept += 1
    return "".join(f"{line}\n" for line in lines[:kept]), kept
