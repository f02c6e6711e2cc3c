"""The panel of the overview: it takes what the pictures above it leave."""

from __future__ import annotations

from npu_tui.tui.keys.commands import JOB_TABS
from npu_tui.tui.widgets.panel import Panel

_LEAST = 6
_USUAL = ((45, 13), (36, 11), (30, 9))


class JobPanel(Panel):
    """A panel with as much height as is left over."""

    FIRST = "job_ranks"
    SHOWN_FROM = 20

    def __init__(self) -> None:
        super().__init__()
        self._wanted_rows = _LEAST
        self._counts = {tab: 0 for tab, _ in JOB_TABS}  # until the job is read

    @property
    def usual(self) -> int:
        """The rows it has while it is neither grown nor dragged."""
        return self._wanted_rows

    def share(self, height: int, above: int, more: int = 0) -> None:
        """Take what a terminal of ``height`` rows has left below a head and pictures of ``above`` rows.

        A picture of ``more`` rows is shown as well if that leaves enough.
        """
        least = next((rows for from_, rows in _USUAL if height >= from_), _LEAST)
        left = height - above - 1
        self._wanted_rows = max(least, left - more if left - more >= least else left)
        self.fit(height)
