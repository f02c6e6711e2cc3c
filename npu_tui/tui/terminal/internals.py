"""Every private name of Textual that this program uses, and its reader. A test fails when one of them is gone."""

from __future__ import annotations

import asyncio
import os
import re
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from rich.console import RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events, messages
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.binding import Binding, BindingsMap, BindingType
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message
from textual.message_pump import MessagePump
from textual.screen import Screen, ScreenResultType
from textual.strip import Strip
from textual.timer import Timer, TimerCallback
from textual.widgets import DataTable
from textual.widgets.data_table import Column, RowKey

from npu_tui.tui.terminal.terminal import Aside, Guard, in_browser

PASTE_BEGINS, PASTE_ENDS = b"\x1b[200~", b"\x1b[201~"
MOST_PASTED = 1 << 20
"""Bytes of a paste that are kept."""

_LONE_SECONDS, _PART_SECONDS = 0.1, 0.5
"""How long the rest of a sequence may take: of one that a key may be the whole of, and of any other."""

_STRING = rb"\x1b[\]PX^_][^\x03\x07\x18\x1a\x1b]{0,65536}"
_WHOLE = re.compile(
    rb"(?P<left_out>\x1b\[M[\x20-\xff]{3}|" + _STRING + rb"(?:\x07|\x1b\\))"
    rb"|\x1b\[\[[A-E]|\x1b\[(?!\[|M)[-0-?]{0,4096}[ -/]{0,4}[@-~]|\x1bO[0-9;]{0,8}[@-~]"
    rb"|\x1b[^\x03\x11\x1b\[O\]PX^_\x80-\xff]"
)
_PART = re.compile(
    rb"(?:\x1b(?:\[(?:\[|M[\x20-\xff]{0,2}|[-0-?]{0,4096}[ -/]{0,4})?|O[0-9;]{0,8})?|" + _STRING + rb"\x1b?)\Z"
)
_BROKEN = re.compile(_STRING + rb"|\x1b\[M[\x20-\xff]{0,2}|\x1b\[[-0-?]*[ -/]*|\x1bO[0-9;]*")
_KEYS = re.compile(rb"\x1b[\[O\]PX^_]?\Z")
"""What a key sends that is the beginning of a sequence too: Esc, and Alt with one of these characters."""

_LONGEST = 32  # no key and no useful answer has more bytes

_SGR_MOUSE = re.compile(r"\x1b\[<(\d+);(-?\d+);(-?\d+)([mM])\Z")
_STOPS = (b"\x03", b"\x11", b"\x1b[99;5u", b"\x1b[113;5u")
"""What Ctrl+C and Ctrl+Q send. Alone within a paste they end it: its end may never come."""

Kind = Literal["text", "sequence", "key", "paste"]


class Piece(NamedTuple):
    """Text that was typed, a whole ``sequence``, Esc or Alt with a ``key`` that nothing follows, or a paste."""

    kind: Kind
    text: str


class Cutter:
    """Cuts what is read. Bytes that are no UTF-8, broken sequences, and answers in strings are left out.

    ``strange`` counts the bytes that are no UTF-8.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._held = b""
        self._since = 0.0
        self._pasted: bytearray | None = None
        self.strange = 0

    def cut(self, data: bytes) -> list[Piece]:
        """The pieces that are whole with ``data``."""
        if self._pasted is not None and data in _STOPS:
            self._pasted, self._held = None, b""
        data, self._held = self._held + data, b""
        self._since = self._clock()
        return list(self._pieces(data))

    def rest(self) -> list[Piece]:
        """What is taken for whole because nothing follows; called now and then."""
        held = self._held
        if not held or self._pasted is not None:
            return []
        is_key = _KEYS.match(held) is not None
        if self._clock() - self._since < (_LONE_SECONDS if is_key else _PART_SECONDS):
            return []
        self._held = b""
        return [Piece("key", held.decode("ascii"))] if is_key else []

    def _pieces(self, data: bytes) -> Iterator[Piece]:
        at = 0
        while at < len(data):
            if self._pasted is not None:
                end = self._paste(data, at)
                if end < 0:
                    return
                yield Piece("paste", self._pasted.decode("utf-8", "replace").replace("\x00", ""))
                self._pasted, at = None, end
                continue
            if data[at] != 0x1B:
                end = data.find(b"\x1b", at)
                yield from self._text(data[at:] if end < 0 else data[at:end], end < 0)
                if end < 0:
                    return
                at = end
                continue
            found = _WHOLE.match(data, at)
            if found is not None:
                at = found.end()
                yield from self._sequence(found)
            elif _PART.match(data, at):
                self._held = data[at:]
                return
            elif broken := _BROKEN.match(data, at):
                at = broken.end()
            else:
                at += 1
                yield Piece("key", "\x1b")

    def _paste(self, data: bytes, at: int) -> int:
        """Take what belongs to the paste; returns where what follows begins, -1 where the end has not come."""
        assert self._pasted is not None
        end = data.find(PASTE_ENDS, at)
        # The end may come in parts.
        stop = end if end >= 0 else max(len(data) - len(PASTE_ENDS) + 1, at)
        self._pasted += data[at:stop][: max(MOST_PASTED - len(self._pasted), 0)]
        if end >= 0:
            return end + len(PASTE_ENDS)
        self._held = data[stop:]
        return -1

    def _sequence(self, found: re.Match[bytes]) -> Iterator[Piece]:
        sequence = found[0]
        if sequence == PASTE_BEGINS:
            self._pasted = bytearray()
        elif found["left_out"] is None and sequence != PASTE_ENDS and len(sequence) <= _LONGEST:
            yield Piece("key" if len(sequence) == 2 else "sequence", sequence.decode("ascii"))

    def _text(self, data: bytes, is_last: bool) -> Iterator[Piece]:
        """The characters in ``data``; the beginning of one is held back where more may come."""
        found, at = [], 0
        while at < len(data):
            try:
                found.append(data[at:].decode("utf-8"))
                break
            except UnicodeDecodeError as error:
                found.append(data[at : at + error.start].decode("utf-8"))
                at += error.start
                if is_last and error.reason == "unexpected end of data":
                    self._held = data[at:]
                    break
                self.strange += error.end - error.start
                at += error.end - error.start
        text = "".join(char for char in "".join(found) if not "\x80" <= char <= "\x9f")
        if text:
            yield Piece("text", text)


def within(sequence: str, columns: int, rows: int) -> str:
    """``sequence``, where it reports the mouse outside a terminal of so many cells at the nearest place inside."""
    found = _SGR_MOUSE.match(sequence)
    if found is None:
        return sequence
    code, x, y = (int(number[:9]) for number in found.groups()[:3])
    return f"\x1b[<{code};{min(max(x, 1), columns)};{min(max(y, 1), rows)}{found[4]}"


Result = TypeVar("Result")

USED: dict[type, str] = {
    App: "_bindings _clipboard _close_messages_no_wait _exception _exit_renderables _fatal_error _return_code"
    " _update_mouse_over",
    Screen: "_bindings _callbacks _compositor _compositor_refresh _dirty_widgets _layout_required"
    " _message_queue _next_callbacks _repaint_required _scroll_required",
    Strip: "_segments",
    DataTable: "_clear_caches _data _get_row_renderables _get_styles_to_render_cell _render_cell"
    " _require_update_dimensions _show_hover_cursor _update_count _update_dimensions",
    LinuxDriver: "_auto_restart _get_terminal_size _must_signal_resume _sigcont_application",
    Timer: "_skip",
}
"""The private attributes used below, by the class that has them."""


_LARGEST = 10_000  # columns and rows of a terminal that are believed

_RESET = "\x1b[0m"
_LOOK = re.compile(r"\x1b\[[\d;]+m")
_ENTER = "\x1b[?1049h"

# What a terminal says of its size; the system knows it, also of terminals that never say it or say it wrongly.
_ASKED_IN_VAIN = (events.Resize, messages.InBandWindowResize)


def after(seconds: float, node: MessagePump, callback: TimerCallback) -> Timer:
    """Call ``callback`` of ``node`` once, after so many ``seconds`` or, where the machine is busy, later.

    Textual drops the call of a timer that is late already when it begins, as where other threads had the processor.
    """
    timer = node.set_timer(seconds, callback)
    timer._skip = False
    return timer


class Reader:
    """Events from what a terminal of ``size`` (columns, rows) sends, in whatever parts and states it comes."""

    def __init__(self, size: Callable[[], tuple[int, int]]) -> None:
        self._size = size
        self._cutter = Cutter()
        self._parser = XTermParser()

    def read(self, data: bytes) -> Iterator[Message]:
        """The events that are whole with ``data``."""
        return self._events(self._cutter.cut(data))

    def rest(self) -> Iterator[Message]:
        """The events that are whole because nothing follows."""
        return self._events(self._cutter.rest())

    @property
    def strange(self) -> int:
        """How many bytes were no UTF-8."""
        return self._cutter.strange

    def _events(self, pieces: Iterable[Piece]) -> Iterator[Message]:
        for kind, text in pieces:
            if kind == "paste":
                yield events.Paste(text)
                continue
            found = self._parsed(within(text, *self._size()) if kind == "sequence" else text, kind == "key")
            if kind != "text" and not found:
                self._parser = XTermParser()  # it would take what follows for the rest of a sequence
            yield from (event for event in found if not isinstance(event, _ASKED_IN_VAIN))

    def _parsed(self, text: str, is_whole: bool) -> list[Message]:
        try:
            found = list(self._parser.feed(text))
            if is_whole:
                found += self._parser.feed("")
                self._parser = XTermParser()
        except Exception:  # whatever a terminal sends, it is no reason to end
            self._parser = XTermParser()
            return []
        return found


def joined(data: str) -> str:
    """``data`` with neighbouring pieces of one look written as one: Textual ends each, as each has its own clicks."""
    parts, last = [], ""
    for part in data.split(_RESET):
        found = _LOOK.match(part)
        look = found[0] if found is not None else ""
        if look and look == last:
            parts.append(part[len(look) :])
        else:
            parts += [_RESET, part] if parts else [part]
        last = look if part.count("\x1b") == 1 else ""
    return "".join(parts)


class SteadyDriver(LinuxDriver):
    """The terminal as Textual drives it, but that nothing it sends or claims ends or stops the program."""

    def __init__(self, app: PlainApp[Any], **options: Any) -> None:
        self._aside = Aside()  # before Textual asks which file is the terminal
        super().__init__(app, **options)
        self._for = app
        self._has_screen = False

    def start_application_mode(self) -> None:
        """Take the terminal over."""
        self._has_screen = Guard.picture is not None and Guard.picture()
        Guard.taken, Guard.picture = True, None
        self._loop = asyncio.get_running_loop()
        self._aside.begin()
        super().start_application_mode()  # type: ignore[no-untyped-call]

    def write(self, data: str) -> None:
        """Write to the terminal; the alternate screen that shows a picture already is not entered again."""
        if self._has_screen and data == _ENTER:
            self._has_screen = False  # entering it again would lose the place to come back to
        else:
            super().write(joined(data))

    def close(self) -> None:
        """Give back what was taken, once all of it is written."""
        super().close()
        self._aside.end()
        Guard.taken = Guard.pictured = False

    def _sigcont_application(self, *_: object) -> None:
        if self._must_signal_resume:
            super()._sigcont_application()
        elif self._auto_restart and Guard.taken:  # stopped by SIGSTOP as it stood, maybe within a write
            self._loop.call_soon_threadsafe(self._take_again)

    def _take_again(self) -> None:
        """Give back what was reset already when the program was stopped, and take it anew."""
        if not Guard.taken:
            return
        if os.isatty(self.fileno) and os.tcgetpgrp(self.fileno) != os.getpgrp():
            os.kill(os.getpid(), signal.SIGSTOP)  # in the background it may not write
            return
        self.suspend_application_mode()
        self.resume_application_mode()
        self._for.post_message(self.SignalResume())

    def _get_terminal_size(self) -> tuple[int, int]:
        for number in (self.fileno, 2, 1):
            with suppress(OSError):
                width, height = os.get_terminal_size(number)
                if width > 0 and height > 0:
                    return min(width, _LARGEST), min(height, _LARGEST)
        return 80, 25

    def run_input_thread(self) -> None:
        """Read what the terminal sends until the program ends."""
        reader, told = Reader(self._get_terminal_size), False
        while not self.exit_event.is_set():
            try:
                ready = select.select([self.fileno], [], [], 0.05)[0]
                data = os.read(self.fileno, 1 << 14) if ready else b""
            except OSError:  # the terminal is gone
                ready, data = [self.fileno], b""
            if ready and not data:
                os.kill(os.getpid(), signal.SIGHUP)
                return
            for message in reader.read(data) if data else reader.rest():
                if isinstance(message, events.Key) and message.key == "ctrl+c":
                    self._for.interrupted = True  # whatever was typed before it need not be done any more
                self.process_message(message)
            if words := self._aside.news():
                self._for.call_later(self._for.overhear, words)
            if reader.strange and not told:
                told = True
                self._for.call_later(self._for.meet_strange)


def driver() -> type[Driver] | None:
    """What drives the terminal: ours, unless the environment names another, as a server for browsers does."""
    return None if in_browser() else SteadyDriver


def events_of(data: bytes) -> list[Message]:
    """What Textual reads from ``data`` that a terminal sent."""
    reader = Reader(lambda: (_LARGEST, _LARGEST))
    return [*reader.read(data)]


class LazyStrip(Strip):
    """A row that is written as it is; ``pieces`` makes its segments where something cuts it."""

    __slots__ = ()

    def pieces(self) -> list[Segment]:
        """The row in segments."""
        return []

    @property
    def _segments(self) -> list[Segment]:
        return self.pieces()

    @_segments.setter
    def _segments(self, segments: Iterable[Segment]) -> None:
        """Textual sets those that it was made of: none."""


class PlainApp(App[Result], Generic[Result], inherit_bindings=False):
    """An application that ends after an error in words of its own."""

    CSS = "Screen { overflow: hidden; }"
    """In two columns the bar of a screen would leave no room for what it is needed for, and come and go for ever."""

    interrupted = False
    """Whether Ctrl+C has been read; it may still be queued after other keys."""

    @property
    def ends(self) -> bool:
        """Whether the application is over, or about to be after an unhandled error."""
        return not self.is_running or self._exception is not None

    def bind_first(self, bindings: Iterable[Binding]) -> None:
        """Add ``bindings`` after those that the class declares."""
        for binding in bindings:
            self._bindings.key_to_bindings.setdefault(binding.key, []).append(binding)

    def remember_copied(self, text: str) -> None:
        """Let ``text`` be what the clipboard holds, as far as Textual knows."""
        self._clipboard = text

    def overhear(self, words: str) -> None:
        """Something of this process has written ``words`` to standard error."""

    def meet_strange(self) -> None:
        """The terminal sends bytes that are no UTF-8."""

    def last_words(self, error: str) -> tuple[RenderableType | None, int] | None:
        """What to leave in the terminal after an unhandled ``error``, if anything, and the exit code.

        None for Textual's own pages.
        """
        del error
        return None

    def _fatal_error(self) -> None:
        error = sys.exc_info()[1] or self._exception
        if not self._end_with(f"{type(error).__name__}: {error}"):
            super()._fatal_error()

    def panic(self, *renderables: RenderableType) -> None:
        """End after an error outside of the event loop."""
        # A traceback of Rich, whose module takes long to import.
        stacks = [stack for one in renderables if hasattr(one, "trace") for stack in one.trace.stacks[:1]]
        if not self._end_with(*(f"{stack.exc_type}: {stack.exc_value}" for stack in stacks)):
            super().panic(*renderables)

    def _end_with(self, error: str = "") -> bool:
        words = self.last_words(error)
        if words is not None:
            self._exit_renderables += [] if words[0] is None else [words[0]]
            self._return_code = words[1]
            self._close_messages_no_wait()
        return words is not None


def bind(screen: Screen[Any] | App[Any], bindings: Iterable[BindingType]) -> None:
    """Let these be the only bindings of ``screen``, or of an app."""
    screen._bindings = BindingsMap(bindings)


def strips_of(screen: Screen[Any]) -> list[Strip]:
    """The rows of ``screen`` as they are shown."""
    return screen._compositor.render_strips()


def is_at_rest(app: App[Any]) -> bool:
    """Whether every message is handled, and the screen and its tables are laid out."""
    screen = app.screen
    if screen._layout_required or screen._scroll_required or screen._repaint_required or screen._dirty_widgets:
        return False
    if screen._callbacks or any(table._require_update_dimensions for table in screen.query(DataTable)):
        return False
    pumps = [app, *screen.walk_children(with_self=True)]
    return all(pump._message_queue.empty() and not pump._next_callbacks for pump in pumps)


class SeenScreen(Screen[ScreenResultType]):
    """A screen that is painted for a terminal only: without one it is not seen before its strips are asked for."""

    def _compositor_refresh(self) -> None:
        if self.app.is_headless and self is self.app.screen:
            self._dirty_widgets.clear()  # what of them has changed is in the regions of the compositor
            self.app._update_mouse_over(self)
        else:
            super()._compositor_refresh()


class PlainTable(DataTable[Text]):
    """A table of texts of one line, which no console has to lay out.

    Rows have no labels, and columns stay in the order they came in. Only where it ``has_tall_rows`` a text may have
    several lines.
    """

    has_tall_rows = False

    @property
    def ordered_columns(self) -> list[Column]:
        """The columns as they are on screen."""
        return [*self.columns.values()]

    def forget_widths(self) -> None:
        """Draw all cells anew."""
        self._clear_caches()

    def replace_row(self, at: int, cells: Iterable[Text], height: int) -> None:
        """Show ``cells`` in row number ``at``, ``height`` lines high; columns stay as wide as they are."""
        row = self.ordered_rows[at]
        self._data[row.key] = dict(zip(self.columns, cells, strict=True))
        row.height = height
        self._update_count += 1
        self._clear_caches()
        self._update_dimensions(())
        self.refresh()

    def _update_dimensions(self, new_rows: Iterable[RowKey]) -> None:
        columns = self.ordered_columns
        for cells in (self._data[key] for key in new_rows if key in self._data):
            for column in columns:
                lines = cells[column.key].split("\n") if self.has_tall_rows else (cells[column.key],)
                column.content_width = max(column.content_width, *(line.cell_len for line in lines))
        super()._update_dimensions(())

    def _render_cell(
        self,
        row_index: int,
        column_index: int,
        base_style: Style,
        width: int,
        cursor: bool = False,
        hover: bool = False,
    ) -> list[list[Segment]]:
        text = self._get_row_renderables(row_index).cells[column_index]
        assert isinstance(text, Text)
        plain, right = text.plain, text.justify == "right"
        left = width - 2 * self.cell_padding - text.cell_len
        is_tall = self.has_tall_rows and row_index >= 0
        if is_tall or left < 0 or not plain.isprintable() or (right and plain.endswith(" ")):
            return super()._render_cell(row_index, column_index, base_style, width, cursor, hover)
        style, above = self._get_styles_to_render_cell(
            row_index == -1,
            False,
            False,
            hover,
            cursor,
            self.show_cursor,
            self._show_hover_cursor,
            self.cursor_foreground_priority == "css",
            self.cursor_background_priority == "css",
        )
        style = base_style + Style.from_meta({"row": row_index, "column": column_index}) + style
        own = self.app.console.get_style(text.style)
        pad, blank = " " * self.cell_padding, style + above
        row = [Segment(pad, blank)]
        if right and left:
            row.append(Segment(" " * left, style + own + above))
        for part, found, _ in text.render(self.app.console) if text.spans else [Segment(plain, own)]:
            row.append(Segment(part, style + found + above))
        row.append(Segment(pad if right else pad + " " * left, blank))
        return [row]
