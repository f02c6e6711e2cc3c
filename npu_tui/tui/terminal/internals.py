"""Every private name of Textual that this program uses. A test fails when one of them is gone."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from rich.console import RenderableType
from rich.segment import Segment
from rich.traceback import Traceback
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.binding import Binding, BindingsMap, BindingType
from textual.cache import FIFOCache
from textual.message import Message
from textual.screen import Screen
from textual.strip import Strip
from textual.widgets import DataTable

Result = TypeVar("Result")

USED: tuple[tuple[type, tuple[str, ...]], ...] = (
    (
        App,
        (
            "_bindings",
            "_clipboard",
            "_close_messages_no_wait",
            "_exception",
            "_exit_renderables",
            "_fatal_error",
            "_return_code",
        ),
    ),
    (Screen, ("_bindings", "_compositor")),
    (Strip, ("_cell_count", "_cell_length", "_link_ids", "_render_cache", "_segments")),
    (DataTable, ("_clear_caches",)),
)
"""The private attributes used below, by the class that has them."""


def events_of(text: str) -> list[Message]:
    """What Textual reads from ``text`` that a terminal sent."""
    return list(XTermParser().feed(text))


class BareStrip(Strip):
    """A row of ``width`` cells without the caches that Textual gives each strip; ``pieces`` makes its segments."""

    __slots__ = ()

    def __init__(self, width: int) -> None:
        # Strip's own initialiser makes eight caches that a row which is written whole never needs.
        self._cell_length = width
        self._render_cache = None
        self._link_ids = None
        self._cell_count = None

    def __getattr__(self, name: str) -> FIFOCache[Any, Any]:
        if not name.endswith("_cache"):
            raise AttributeError(name)
        cache: FIFOCache[Any, Any] = FIFOCache(4)
        setattr(self, name, cache)
        return cache

    def pieces(self) -> list[Segment]:
        """The row in segments."""
        return []

    @property
    def _segments(self) -> list[Segment]:
        return self.pieces()

    @_segments.setter
    def _segments(self, segments: Iterable[Segment]) -> None:
        raise AttributeError("the pieces of a bare strip are made, not set")


class PlainApp(App[Result], Generic[Result], inherit_bindings=False):
    """An application that ends after an error in words of its own."""

    def bind_first(self, bindings: Iterable[Binding]) -> None:
        """Add ``bindings`` behind those that the class declares."""
        for binding in bindings:
            self._bindings.key_to_bindings.setdefault(binding.key, []).append(binding)

    def remember_copied(self, text: str) -> None:
        """Let ``text`` be what the clipboard holds, as far as Textual knows."""
        self._clipboard = text

    def last_words(self, error: str) -> tuple[RenderableType, int] | None:
        """What to leave in the terminal after an ``error`` that nobody handled, and the exit code.

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
        stacks = [stack for one in renderables if isinstance(one, Traceback) for stack in one.trace.stacks[:1]]
        if not self._end_with(*(f"{stack.exc_type}: {stack.exc_value}" for stack in stacks)):
            super().panic(*renderables)

    def _end_with(self, error: str = "") -> bool:
        words = self.last_words(error)
        if words is not None:
            self._exit_renderables.append(words[0])
            self._return_code = words[1]
            self._close_messages_no_wait()
        return words is not None


def bind(screen: Screen[Any], bindings: Iterable[BindingType]) -> None:
    """Let these be the only bindings of ``screen``."""
    screen._bindings = BindingsMap(bindings)


def strips_of(screen: Screen[Any]) -> list[Strip]:
    """The rows of ``screen`` as they are shown."""
    return screen._compositor.render_strips()


def forget_widths(table: DataTable[Any]) -> None:
    """Let ``table`` draw all its cells anew."""
    table._clear_caches()
