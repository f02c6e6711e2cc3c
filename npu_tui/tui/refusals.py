"""Why commands can do nothing just now."""

from __future__ import annotations

from npu_tui.strings import say
from npu_tui.tui.session import Session
from npu_tui.tui.tabs.table import TabTable
from npu_tui.view.explorer import Explorer


def why_not(session: Session, explorer: Explorer, hits: int, flags: int, table: TabTable | None) -> dict[str, str]:
    """The commands that can do nothing just now, each with the reason in one line.

    ``hits`` and ``flags`` are how many there are; ``table`` is that of the open tab.
    """
    state, scene = explorer.state, session.scene
    starved = any(profile.starved for profile in session.profiles)
    checks = (
        (scene.pair is None, "compared.none", "align_sides counterpart sides tab_changes"),
        (session.job is None, "ranks.no_job", "ranks"),
        (len(scene.traces) < 2, "align.one_rank", "align_start align_end base"),
        (not scene.steps(), "step.none", "step_next step_previous"),
        (not starved, "starved.none" if session.whole else "loading.links", "starved_next starved_previous"),
        (
            not any(len(each) for profile in session.profiles for each in profile.idles),
            "bubble.none",
            "bubble_next bubble_previous",
        ),
        (not hits, "hit.none", "hits_only"),
        (not hits and not (table and table.walked), "hit.none", "hit_next hit_previous"),
        (state.range is None, "range.zoom_none", "range_zoom range_clear"),
        (state.selection is None, "fit.none", "fit chain passes range_selection"),
        (not explorer.history.past, "undo.none", "undo"),
        (not explorer.history.future, "redo.none", "redo"),
        (not explorer.folds.hidden, "rows.shown_none", "show_hidden"),
        (not flags, "flags.none", "flags"),
        (table is None, "panel.no_table", "sort_reverse filter copy_text copy_csv"),
    )
    return {command: say(reason) for off, reason, commands in checks if off for command in commands.split()}
