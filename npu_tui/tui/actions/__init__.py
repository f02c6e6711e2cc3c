"""What each command of the registry does, one method by the command's id, in a module per group."""

from __future__ import annotations

from npu_tui.tui.actions.links import LinkActions
from npu_tui.tui.actions.notes import NoteActions
from npu_tui.tui.actions.panel import PanelActions
from npu_tui.tui.actions.program import ProgramActions
from npu_tui.tui.actions.range import RangeActions
from npu_tui.tui.actions.rows import RowActions
from npu_tui.tui.actions.search import SearchActions
from npu_tui.tui.actions.slices import SliceActions
from npu_tui.tui.actions.time import TimeActions


class Actions(
    TimeActions,
    RowActions,
    SliceActions,
    LinkActions,
    RangeActions,
    SearchActions,
    NoteActions,
    PanelActions,
    ProgramActions,
):
    """All commands."""
