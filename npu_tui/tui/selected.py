"""What is selected, in one line: its name, how long, when, what launched it or what it launches."""

from __future__ import annotations

from npu_tui.profile.profile import Profile
from npu_tui.strings import say
from npu_tui.trace.model import ASYNC_NPU, HOST_TO_DEVICE, Trace
from npu_tui.trace.text import brief, cell_count, duration_text, exact_text, printable, signed_text
from npu_tui.tui.commands import BY_ID, keys_label
from npu_tui.tui.session import Session
from npu_tui.view.explorer import Explorer
from npu_tui.view.moves import links_of
from npu_tui.view.scene import Selected

_LONGEST_OTHER = 32
"""The name at the other end of a link."""
_SHORTEST_NAME = 24
"""Below this a name says too little: then what follows the times is left out."""


def selection_line(
    session: Session, explorer: Explorer, width: int, linked: bool, opened: bool, origin: int = -1
) -> str:
    """The selected slice, or the range without one, in at most ``width`` columns; "" without either.

    ``linked``: also the other end of its link, which takes a look at all links of the trace: of several the one from
    slice ``origin``. ``opened``: Details are on show, so their key is not named.
    """
    state, gap = explorer.state, say("list.selected")
    more = [] if opened else [say("selected.details", key=keys_label(BY_ID["tab_details"]))]
    if state.selection is None:
        if state.range is None or state.range[0] == state.range[1]:
            return ""
        start, end = state.range
        marked = say("range.marked", length=duration_text(end - start), start=exact_text(start), end=exact_text(end))
        whole = gap.join([marked, *more])
        return whole if cell_count(whole) <= width else marked
    if state.selection not in session.scene:
        return ""
    trace = session.scene.traces[state.selection.trace]
    start, end = session.scene.times(state.selection)
    times = [duration_text(end - start), say("selected.start", start=exact_text(start))]
    links = _other_end(session, state.selection, state.link_category, origin) if linked else []
    name = printable(trace.name_of(state.selection.item))
    for facts in ([*times, *links, *more], [*times, *links], [*times, *more], times):
        rest = gap + gap.join(facts)
        room = width - cell_count(rest)
        if cell_count(name) <= room or room >= _SHORTEST_NAME:
            break
    return brief(name, max(room, 1)) + rest


def _other_end(session: Session, selected: Selected, category: str, origin: int) -> list[str]:
    """What launched the slice, and when; else what it launches, else where another of its links leads.

    What has the same name is named after its lane: a request is queued, prefill and decode.
    """
    trace, item = session.scene.traces[selected.trace], selected.item
    ends, links, start = links_of(trace, item, category), trace.links, int(trace.slices.start[item])

    def name_of(other: int) -> str:
        same = trace.slices.name[other] == trace.slices.name[item]
        return brief(trace.lanes[trace.slices.lane[other]].name if same else trace.name_of(other), _LONGEST_OTHER)

    bound = [link for link in ends.into if links.source_slice[link] >= 0]
    into = min(bound, key=lambda link: links.source_slice[link] != origin, default=None)
    if into is not None:
        operation = _operation(session, selected) if session.profiles else -1
        name = name_of(operation if operation >= 0 else int(links.source_slice[into]))
        key = "selected.launched" if links.category[into] in _launching(trace) else "selected.from"
        return [say(key, name=name, before=duration_text(start - int(links.source_time[into])))]
    out = [link for link in ends.out if links.target_slice[link] >= 0]
    if not out:
        return []
    target = int(links.target_slice[out[0]])
    after = signed_text(int(trace.slices.start[target]) - start)
    name = name_of(target)
    if links.category[out[0]] in _launching(trace):
        key = "selected.to" if len(out) == 1 else "selected.to_several"
    else:
        key = "selected.leads" if len(out) == 1 else "selected.leads_several"
    return [say(key, name=name, after=after, others=len(out) - 1)]


def _launching(trace: Trace) -> list[int]:
    """The categories of links from a host slice to what it launched."""
    names = trace.link_categories
    return [at for at, name in enumerate(names) if name in (HOST_TO_DEVICE, ASYNC_NPU)]


def _operation(session: Session, selected: Selected) -> int:
    """The operation that launched a kernel, where the operations of the host are known already; else -1."""
    profile = session.profiles[selected.trace]
    if not Profile.host_operators.is_known(profile) or not profile.compute[selected.item]:
        return -1
    return profile.operation_of(selected.item)
