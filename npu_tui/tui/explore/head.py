"""What stands above the lanes: headline, verdict and bars."""

from __future__ import annotations

from textual.geometry import Size

from npu_tui.tui.heights import BARS_FROM, verdict_lines, verdict_rows
from npu_tui.tui.session import Session
from npu_tui.tui.widgets.bars import Bars
from npu_tui.tui.widgets.header import Headline
from npu_tui.tui.widgets.verdict import Verdict
from npu_tui.view.explorer import Explorer


class Head:
    """The widgets above the lanes; ``examined`` counts the traces whose findings are there."""

    def __init__(self) -> None:
        self.headline = Headline()
        self.verdict = Verdict()
        self.bars = Bars()
        self.examined = 0

    def show(self, session: Session, explorer: Explorer, size: Size, with_panel: bool = False) -> None:
        """The step and device under the cursor, in bars where a terminal of ``size`` has room for them.

        ``with_panel`` says whether the panel is on screen, too.
        """
        focused, traces = explorer.focused, session.scene.traces
        index = focused.trace if focused is not None else 0
        device = traces[index].layers[focused.layer].device if focused is not None and focused.layer >= 0 else None
        shown = False
        if size.height >= BARS_FROM:
            cursor = session.scene.to_trace(index, explorer.state.cursor) if traces else 0
            shown = self.bars.show(traces, index, cursor, device, size.width)
        else:
            self.bars.add_class("-hidden")
        self.headline.show(session, index, size.width, not shown)
        most = verdict_lines(size.height, with_panel)
        found = session.findings.get(index)
        meanwhile = session.examining(index) if found is None else ""
        self.verdict.show(found, verdict_rows(size.height), size.width, most, meanwhile)
