"""Replays the run with what the user wants changed, beside the screen; the answer is a sheet with a ghost timeline."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from textual.message import Message

from npu_tui.analysis.what_if import UnknownChangeError
from npu_tui.ingest.errors import InputError
from npu_tui.output.document import Document
from npu_tui.output.text import ALL, text_lines
from npu_tui.output.whatif_document import remedies_document, whatif_document
from npu_tui.profile.profile import Profile
from npu_tui.profile.scene import ghost_charts
from npu_tui.report.remedies import remedies
from npu_tui.report.whatif import NoReplayError, predicted, whatif
from npu_tui.strings import say, words
from npu_tui.trace.text import printable
from npu_tui.tui.widgets.prompt import Prompt
from npu_tui.view.explorer import Explorer
from npu_tui.view.scene import Chart

_OFF = "off"
_LEAST_CELLS, _BESIDE = 24, 20
"""Cells of a ghost on the narrowest screen, and what the sheet needs beside it."""


class Supposed(Message):
    """The answer: a ``title`` with ``lines``, or in ``error`` why there is none.

    ``ghosts`` go below the streams of trace number ``trace``; None leaves those that are there.
    """

    def __init__(
        self,
        title: str = "",
        lines: tuple[str, ...] = (),
        error: str = "",
        trace: int = 0,
        ghosts: tuple[Chart, ...] | None = (),
    ) -> None:
        self.title = title
        self.lines = lines
        self.error = error
        self.trace = trace
        self.ghosts = ghosts
        super().__init__()


class Supposing:
    """Asks in ``prompt`` what to change in the run of the trace at the cursor, and answers by ``post``.

    ``work`` runs a function in a thread, ``width`` tells the cells of the screen.
    """

    def __init__(
        self,
        prompt: Prompt,
        explorer: Explorer,
        profiles: Sequence[Profile],
        work: Callable[[Callable[[], None], str], object],
        post: Callable[[Message], object],
        width: Callable[[], int],
    ) -> None:
        self._prompt = prompt
        self._explorer = explorer
        self._profiles = profiles
        self._work = work
        self._post = post
        self._width = width

    def open(self) -> None:
        """Ask for the changes."""
        self._prompt.open("whatif", hint=say("whatif.ask"))

    def begin(self, text: str) -> None:
        """Replay the run with the changes of ``text``, which semicolons or commas part; ``off`` ends the ghosts.

        Quotes part them too, as a shell would have it. Without any change those that would gain something are listed.
        """
        changes = [part.strip() for part in re.split(r"[;,；，\"']", text) if part.strip()]
        selection = self._explorer.state.selection
        trace = 0 if selection is None else selection.trace
        if not changes:
            self._work(lambda: self._list(trace), "whatif")
            return
        if changes == [_OFF]:
            self._post(Supposed(trace=trace))
            return
        cells = min(max(self._width() * 92 // 100 - _BESIDE, _LEAST_CELLS), 110)
        self._work(lambda: self._answer(trace, changes, cells), "whatif")

    def _list(self, trace: int) -> None:
        try:
            answer = remedies_document(remedies(self._profiles[trace]))
        except NoReplayError as error:
            self._post(Supposed(error=printable(words(error.said))))
        except InputError as error:
            self._post(Supposed(error=printable(words(error.message))))
        else:
            self._post(Supposed(answer.title, _lines(answer), trace=trace, ghosts=None))

    def _answer(self, trace: int, changes: list[str], cells: int) -> None:
        profile = self._profiles[trace]
        try:
            found = whatif(profile, changes, cells)
            ghosts = tuple(ghost_charts(predicted(profile, changes)))
        except (UnknownChangeError, NoReplayError) as error:
            self._post(Supposed(error=printable(words(error.said))))
        except InputError as error:
            self._post(Supposed(error=printable(words(error.message))))
        else:
            answer = whatif_document(found)
            self._post(Supposed(answer.title, _lines(answer), trace=trace, ghosts=ghosts))


def _lines(answer: Document) -> tuple[str, ...]:
    """What a sheet shows below the title; it wraps the lines itself."""
    return tuple(map(printable, text_lines(answer.blocks, ALL, ALL)))
