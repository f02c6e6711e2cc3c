"""The tabs of the panel: tables of the profile with the places of their rows."""

from __future__ import annotations

from npu_tui.tui.tabs.changes import ChangesTab
from npu_tui.tui.tabs.communication import CommunicationTab
from npu_tui.tui.tabs.details import DetailsTab
from npu_tui.tui.tabs.findings import FindingsTab
from npu_tui.tui.tabs.lines import LinesTab
from npu_tui.tui.tabs.links import LinksTab
from npu_tui.tui.tabs.memory import MemoryTab
from npu_tui.tui.tabs.operators import OperatorsTab
from npu_tui.tui.tabs.range import RangeTab
from npu_tui.tui.tabs.search import SearchTab
from npu_tui.tui.tabs.summary import SummaryTab
from npu_tui.tui.tabs.table import Tab

COMPARED_TABS: tuple[type[Tab], ...] = (ChangesTab,)
"""The tabs that only a comparison has; they stand before the others."""

TABS: tuple[type[Tab], ...] = (
    FindingsTab,
    LinesTab,
    DetailsTab,
    LinksTab,
    RangeTab,
    OperatorsTab,
    CommunicationTab,
    SearchTab,
    MemoryTab,
    SummaryTab,
)
