"""What each command does on one session."""

from __future__ import annotations

from collections.abc import Callable

from npu_tui.analysis.launches.code_lines import CodeLine
from npu_tui.tui.actions.compared import ComparedActions
from npu_tui.tui.actions.links import LinkActions
from npu_tui.tui.actions.notes import NoteActions
from npu_tui.tui.actions.panel import PanelActions
from npu_tui.tui.actions.range import RangeActions
from npu_tui.tui.actions.rows import RowActions
from npu_tui.tui.actions.search import SearchActions
from npu_tui.tui.actions.slices import SliceActions
from npu_tui.tui.actions.time import TimeActions
from npu_tui.tui.explore.contents import Contents
from npu_tui.tui.explore.finder import Finder
from npu_tui.tui.explore.notes import Notes
from npu_tui.tui.keys.commands import COMMANDS
from npu_tui.tui.session import Session
from npu_tui.tui.widgets.panel import Panel
from npu_tui.tui.widgets.prompt import Prompt
from npu_tui.view.walk.explorer import Explorer

Act = Callable[[], "str | None"]
"""Does what a command is there for; returns what to tell the user, or None when the screen says it all."""


def acts_on(
    session: Session,
    explorer: Explorer,
    contents: Contents,
    finder: Finder,
    notes: Notes,
    panel: Panel,
    prompt: Prompt,
    copy: Callable[[str], object],
    whole: Callable[[str, str, str], str | None],
    open_line: Callable[[CodeLine], str],
) -> dict[str, Act]:
    """What the commands do, by their ids, but for those that are the screen's own."""
    groups = (
        TimeActions(session, explorer),
        RowActions(session, explorer),
        SliceActions(session, explorer, contents),
        LinkActions(session, explorer, contents),
        RangeActions(session, explorer, contents),
        SearchActions(session, explorer, finder, prompt),
        NoteActions(session, explorer, notes, finder, panel, copy, whole),
        ComparedActions(session, explorer),
        PanelActions(session, explorer, panel, open_line),
    )
    ids = [command.id for command in COMMANDS]
    return {id_: getattr(group, id_) for group in groups for id_ in ids if hasattr(group, id_)}
