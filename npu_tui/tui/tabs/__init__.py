"""The tabs of the panel: what each shows, when that changes, and what stands after its name."""

from __future__ import annotations

from npu_tui.tui.tabs.details import details, details_are_ready, details_depend_on
from npu_tui.tui.tabs.device import communication, operators
from npu_tui.tui.tabs.findings import changes, changes_that_count, findings, findings_worth_a_look
from npu_tui.tui.tabs.lines import LinesTab, has_own, of_subject
from npu_tui.tui.tabs.links import events_are_ready, links
from npu_tui.tui.tabs.memory import memory, memory_depends_on
from npu_tui.tui.tabs.range import range_table
from npu_tui.tui.tabs.search import are_few, lists_hits, search
from npu_tui.tui.tabs.summary import summary
from npu_tui.tui.tabs.table import Context, Tab, of_a_device


def _at_once(now: Context) -> bool:
    del now
    return True


def make_tabs(compared: bool) -> dict[str, Tab]:
    """The tabs of a session by id, in the order in which they stand; a comparison has one more, which comes first."""
    first = {
        "changes": Tab(
            changes, lambda now: now.session.picture and now.session.picture.at, changes_that_count, _at_once
        )
    }
    return (first if compared else {}) | {
        "findings": Tab(
            findings, lambda now: (now.trace, now.findings is not None), findings_worth_a_look, ready=_at_once
        ),
        "lines": LinesTab(),
        "details": Tab(details, details_depend_on, ready=details_are_ready),
        "links": Tab(
            of_subject("links", links),
            lambda now: (now.trace, now.marked) if has_own("links", now) else (now.selection, now.link_category),
            lambda now: 0 if has_own("links", now) else len(now.links),
            lambda now: not has_own("links", now) and events_are_ready(now),
        ),
        "range": Tab(
            range_table,
            lambda now: (now.range, now.focused and (now.focused.trace, now.focused.layer, now.focused.lane)),
            turns=True,
        ),
        "operators": Tab(of_subject("operators", of_a_device(operators)), turns=True),
        "communication": Tab(of_subject("communication", of_a_device(communication)), turns=True),
        "search": Tab(
            search,
            lambda now: (now.hits, now.selection if lists_hits(now.turn) else None),
            lambda now: len(now.hits),
            are_few,
            turns=True,
        ),
        "memory": Tab(memory, memory_depends_on, turns=True),
        "summary": Tab(summary, lambda now: now.trace, turns=True),
    }
