"""What stands above the lanes: headline, verdict and bars, and the numbers and findings they are made of."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from textual.worker import get_current_worker

from npu_tui.analysis.findings.model import Findings
from npu_tui.ingest.errors import InputError
from npu_tui.tui.explore.session import Session
from npu_tui.tui.widgets.bars import Bars, Times, measure
from npu_tui.tui.widgets.header import Headline
from npu_tui.tui.widgets.timeline import Timeline
from npu_tui.tui.widgets.verdict import Verdict

if TYPE_CHECKING:
    from npu_tui.tui.explore.screen import MainScreen

_BARS_FROM = 30
_VERDICT_ROWS = ((30, 2), (18, 1))
"""From how many rows of the terminal on there are bars, and so many lines of the verdict."""


class Head:
    """One per main screen; ``examined`` counts the traces whose findings are there."""

    def __init__(self, screen: MainScreen) -> None:
        self._screen = screen
        self.examined = 0

    def examine(self) -> None:
        """Have everything computed in a thread."""
        self.examined = 0
        measure_session = partial(self._measure, self._screen.session)
        self._screen.run_worker(measure_session, thread=True, exclusive=True, group="head")

    def show(self) -> None:
        """The step and device under the cursor, in bars where there is room for them."""
        focused, traces = self._screen.explorer.focused, self._screen.session.scene.traces
        index = focused.trace if focused is not None else 0
        device = traces[index].layers[focused.layer].device if focused is not None else None
        bars = self._screen.query_one(Bars)
        shown = False
        size = self._screen.app.size
        if size.height >= _BARS_FROM:
            shown = bars.show(traces, index, self._screen.explorer.state.cursor, device, size.width)
        else:
            bars.add_class("-hidden")
        self._screen.query_one(Headline).show(self._screen.session, index, size.width, not shown)
        room = next((rows for least, rows in _VERDICT_ROWS if size.height >= least), 0)
        self._screen.query_one(Verdict).show(self._screen.session.findings.get(index), room)

    def _measure(self, session: Session) -> None:
        """Add up steps and devices of ``session`` in a thread, then find what is wrong."""
        worker = get_current_worker()

        def tell(act: Callable[[int, Any], None], index: int, found: object) -> None:
            if not worker.is_cancelled:
                self._screen.app.call_from_thread(act, index, found)

        for index, profile in enumerate(session.profiles):
            tell(self._measured, index, measure(profile))
            try:
                findings = profile.whole.findings
            except InputError as error:
                findings = Findings((), (), (str(error),))
            tell(self._examined, index, findings)

    def _examined(self, index: int, found: Findings) -> None:
        if not self._screen.query(Bars):
            return  # closed while it was computed
        self._screen.session.learn(index, found)
        self.examined += 1
        self.show()
        self._screen.contents.fill()
        self._screen.examined(self.examined)
        self._screen.query_one(Timeline).changed()

    def _measured(self, index: int, times: Times) -> None:
        if not self._screen.query(Bars):
            return  # closed while it was computed
        self._screen.query_one(Bars).learn(index, times)
        self.show()
