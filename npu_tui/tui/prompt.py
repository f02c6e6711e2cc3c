"""The one-line prompts for search, commands and filters."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

from msgspec import Struct
from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.geometry import Region
from textual.widgets import Input, Label

from npu_tui.strings import say
from npu_tui.trace.text import brief
from npu_tui.tui.session import Session
from npu_tui.view.explorer import Explorer

Kind = Literal["search", "command", "flag", "filter", "whatif", "sql"]
Wish = Literal["next", "previous", "take"]

_LONGEST = 1000  # characters of a line: all of it is measured with every key
_LEAST_CELLS = 6  # what the typed text and the answer keep on the narrowest of screens


class Field(Input):
    """The prompt's input. It acts on Enter, Esc and Tab at once: the next key may be here already."""

    def on_key(self, event: events.Key) -> None:
        """Enter ends, Esc gives up, Tab takes the suggestion; after them keys are for the lanes again."""
        prompt = self.query_ancestor(Prompt)
        if not prompt.is_open:
            prompt.is_answering = False
            event.prevent_default()
            return
        acts: dict[str, Callable[[], object]] = {
            "enter": prompt.enter,
            "escape": prompt.give_up,
            "tab": partial(prompt.wish, "take"),
            "up": partial(prompt.wish, "previous"),
            "down": partial(prompt.wish, "next"),
        }
        act = acts.get(event.key)
        if act is not None:
            event.prevent_default()
            event.stop()
            act()

    def on_resize(self) -> None:
        """Keep the cursor in sight: the answer may take its room after the last key."""
        here = cell_len(self.value[: self.cursor_position])
        self.scroll_to_region(Region(here, 0, 1, 1), animate=False, force=True)


class Prompt(Horizontal):
    """Asks for one line; tells its screen what is ``typed``, ``wished``, ``entered``, and when it is ``given_up``."""

    DEFAULT_CSS = """
    Prompt { height: 1; dock: bottom; display: none; background: $panel; }
    Prompt.-open { display: block; }
    Prompt Label { width: auto; color: $text-accent; text-style: bold; padding: 0 0 0 1; }
    Prompt Input { border: none; height: 1; padding: 0; background: $panel; width: 1fr; min-width: 6; }
    Prompt #answer { color: $text-muted; padding: 0 1; }
    """

    def __init__(
        self,
        typed: Callable[[Kind, str], object],
        wished: Callable[[Wish], object],
        entered: Callable[[Kind, str], object],
        given_up: Callable[[Kind], object],
    ) -> None:
        super().__init__()
        self._typed, self._wished, self._entered, self._given_up = typed, wished, entered, given_up
        self.kind: Kind = "search"
        self.is_open = False
        self.is_answering = False
        """Whether what was entered is still to be done: only then is known what the next key is for."""
        self._answer, self._share = "", 0.0
        self._ask = Label(id="ask", markup=False)
        self._field = Field(compact=True, max_length=_LONGEST)
        self._beside = Label(id="answer", markup=False)

    def compose(self) -> ComposeResult:
        """Label, input, answer."""
        yield self._ask
        yield self._field
        yield self._beside

    def open(self, kind: Kind, value: str = "", hint: str = "") -> None:
        """Ask for a search text, a command or a name, with ``value`` there already and ``hint`` beside it."""
        self.kind = kind
        self._ask.update(say(f"{kind}.prompt"))
        self.take(value)
        self.answer(hint)
        self.is_open = True
        self.add_class("-open")
        self.screen.set_focus(self._field)  # at once: the next key may be here already

    @property
    def text(self) -> str:
        """What is typed so far."""
        return self._field.value

    def take(self, text: str) -> None:
        """Put ``text`` in place of what is typed."""
        self._field.value = text
        self._field.cursor_position = len(text)

    def answer(self, text: str, share: float = 0.0) -> None:
        """Show ``text`` right of the input: what leaves the typed text in sight, at least ``share`` of the width."""
        self._answer, self._share = text, share
        typed = max(cell_len(self.text) + 1, _LEAST_CELLS)
        width = self.app.size.width  # its own is known only once it is on show
        room = width - cell_len(say(f"{self.kind}.prompt")) - typed - 3
        self._beside.update(brief(text, max(room, int(share * width), _LEAST_CELLS)))

    def close(self) -> None:
        """Put the prompt away."""
        self.is_open = False
        self.remove_class("-open")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Pass on what is typed."""
        event.stop()
        if self.is_open:
            self.answer(self._answer, self._share)
            self.screen.call_later(self._typed, self.kind, event.value)

    def enter(self) -> None:
        """Pass on what is entered."""
        self.close()
        self.screen.call_later(self._entered, self.kind, self.text)

    def wish(self, wish: Wish) -> None:
        """Ask for another candidate, or for the one on show."""
        self.screen.call_later(self._wished, wish)

    def give_up(self) -> None:
        """Put the prompt away without an answer."""
        self.close()
        self.screen.call_later(self._given_up, self.kind)


class Desk(Struct, frozen=True):
    """What the parts of a screen of traces work with: the ``session``, what ``explorer`` shows of it, the ``prompt``.

    ``work`` runs a function in a thread, those of one group one after the other, ``later`` one in the event loop.
    """

    session: Session
    explorer: Explorer
    prompt: Prompt
    work: Callable[[Callable[[], object], str], object]
    later: Callable[..., object]
