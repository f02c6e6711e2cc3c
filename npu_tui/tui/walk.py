"""From slice to slice: along a row, by name, along links, to bubbles and starved launches; steps, ranks and ranges."""

from __future__ import annotations

import numpy as np

from npu_tui.analysis.calls import chain_of, launched_in, passes_of
from npu_tui.analysis.ranges import namesakes
from npu_tui.analysis.replay_device import is_of_event
from npu_tui.profile.profile import Profile
from npu_tui.strings import say
from npu_tui.subjects import subject_of
from npu_tui.trace.model import FORWARD_BACKWARD, Trace
from npu_tui.trace.text import brief, duration_text, exact_text, printable, signed_text
from npu_tui.tui.commands import BY_ID, keys_label
from npu_tui.tui.contents import Contents
from npu_tui.tui.prompt import Desk
from npu_tui.tui.ranks import across
from npu_tui.tui.session import Session
from npu_tui.tui.tabs.details import pass_times
from npu_tui.tui.tabs.device import idle_at, verdict
from npu_tui.tui.tabs.search import Finder
from npu_tui.tui.tabs.table import TabRow, TabTable
from npu_tui.view.explorer import Explorer
from npu_tui.view.moves import back, forward, gap_beside, link_span, next_in_time, siblings, task_beside
from npu_tui.view.outline import rank_name
from npu_tui.view.scene import Selected
from npu_tui.view.start import Edge, align, mark_base, move_rank

_LONGEST_NAME = 40
_CHAIN_MARGIN = 0.05


def event_beside(profile: Profile, item: int) -> int | None:
    """The record that the wait ``item`` waits for, or the first wait for the record ``item``."""
    waits, records = profile.event_pairs
    found = np.concatenate((records[waits == item], waits[records == item]))
    return int(found[0]) if len(found) else None


class TraceWalk:
    """Moves through the session of ``desk``. A move returns the message for the user, or None where it is shown.

    ``direction`` is 1 for the next and -1 for the previous one. ``contents`` follows to the tab that a move is about;
    ``finder`` has the hits.
    """

    def __init__(self, desk: Desk, contents: Contents, finder: Finder) -> None:
        self._session, self._scene, self._explorer = desk.session, desk.session.scene, desk.explorer
        self._contents, self._finder = contents, finder
        self._left: Selected | None = None
        """Where the last link was followed from: a batch has many requests, and the user came from one of them."""

    def _no_link(self, reason: str, **words: str) -> str:
        """Why there is no link to follow: links come when the whole trace is there."""
        return say(reason, **words) if self._session.whole else say("loading.links")

    def _selected(self) -> Selected | None:
        """The selected slice, else the one under the cursor, which is selected then."""
        if self._explorer.state.selection is None:
            self._explorer.select_under_cursor()
        return self._explorer.state.selection

    def _go(self, place: Selected) -> None:
        self._explorer.select(place)
        self._contents.leave_stretch()

    # --- rows

    def pin(self) -> str:
        """Keep the lane under the cursor on top, or let it go again."""
        row = self._explorer.focused
        pinned = self._explorer.list.toggle_pin()
        if row is None or pinned is None:
            return say("rows.no_lane")
        return say("rows.pinned" if pinned else "rows.unpinned", name=printable(row.name))

    def hide(self) -> str:
        """Hide the lane under the cursor."""
        row = self._explorer.focused
        if row is None or not self._explorer.list.hide():
            return say("rows.hide_none")
        return say("rows.hide", name=printable(row.name))

    def show_hidden(self) -> str:
        """Show all hidden lanes."""
        count = self._explorer.list.show_hidden()
        return say("rows.shown", count=count) if count else say("rows.shown_none")

    def toggle_idle(self) -> str:
        """Leave out the rows without a slice on screen, or show them."""
        return say("rows.idle_away" if self._explorer.list.toggle_idle() else "rows.idle_shown")

    # --- slices

    def slice(self, direction: int) -> str | None:
        """To the slice beside, in the row of the cursor."""
        return None if self._explorer.move_slice(direction) else say("slice.last")

    def starved(self, direction: int) -> str:
        """To a launch that let the device starve."""
        index, state = self._explorer.trace, self._explorer.state
        launches = self._session.profiles[index].starved if self._session.profiles else []
        if not launches:
            return self._no_link(lacking(self._scene.traces[index], "starved.none"))
        # With nothing selected the first one in view is meant, wherever the cursor stands.
        here = state.cursor if state.selection is not None else state.viewport.start - 1
        starts = np.array([launch.start for launch in launches], np.int64)
        at = next_in_time(starts, self._scene.to_trace(index, here), direction)
        if at is None:
            at = 0 if direction > 0 else len(launches) - 1  # round the end
        launch = launches[at]
        self._go(Selected(index, launch.item))
        key, lost = keys_label(BY_ID["range_gap"]), duration_text(launch.lost, 3)
        return say("starved.of", n=at + 1, count=len(launches), lost=lost, key=key)

    def same(self, direction: int) -> str:
        """To a slice of the same name."""
        selected = self._selected()
        if selected is None:
            return say("select.none")
        trace = self._scene.traces[selected.trace]
        found = namesakes(trace, selected.item)
        at = found.at + direction
        if not 0 <= at < len(found.items):
            return say("same.last", name=_slice_name(trace, selected.item), count=f"{len(found.items):,}")
        item = int(found.items[at])
        self._go(Selected(selected.trace, item))
        found = namesakes(trace, item)
        return say(
            "same.of",
            n=f"{found.at + 1:,}",
            count=f"{len(found.items):,}",
            median=duration_text(found.median),
            percentile=f"{found.percentile:.0f}",
        )

    def bubble(self, direction: int) -> str:
        """To a time in which the device does nothing."""
        walked = self._contents.walk_bubbles(direction)
        if walked is not None:
            return walked
        index = self._explorer.trace
        if index >= len(self._session.profiles):
            return say("bubble.none")
        slices, profile = self._scene.traces[index].slices, self._session.profiles[index]
        items, none = profile.free_slices, np.zeros(0, np.int64)
        starts, ends = slices.start[items], slices.end[items]
        if not len(items):
            starts, ends = (
                np.concatenate([none, *(getattr(idles, edge) for idles in profile.idles)]) for edge in ("start", "end")
            )
            order = np.argsort(starts, kind="stable")
            starts, ends = starts[order], ends[order]
        if not len(starts):
            return say("bubble.none")
        when = self._scene.to_trace(index, self._explorer.state.cursor)
        at = next_in_time(starts, when, direction)
        inside = int(np.searchsorted(starts, when, "right")) - 1
        # Inside a bubble that nothing leads to yet, the next one is this one.
        if direction > 0 and inside >= 0 and starts[inside] < when < ends[inside]:
            at = inside
        if at is None:
            return say("bubble.last" if direction > 0 else "bubble.first")
        if len(items):
            self._go(Selected(index, int(items[at])))
        else:  # a trace without Free slices: Details show the cursor
            self._explorer.clear_range()
            self._explorer.state.selection = None
            self._explorer.go_to(self._scene.to_scene(index, int(starts[at])))
        why = self._why_idle(index, int(starts[at])) or duration_text(int(ends[at] - starts[at]))
        return say("bubble.of", n=f"{at + 1:,}", count=f"{len(starts):,}", why=why)

    def _why_idle(self, index: int, when: int) -> str:
        """How long the device of trace number ``index`` is free around ``when`` ns, and why; "" where it is busy."""
        found = idle_at(self._session.profiles[index], when)
        if found is None:
            return ""
        idles, at = found
        return say("idle.here", length=duration_text(int(idles.length[at])), why=verdict(idles, at))

    def jump(self, when: int) -> str:
        """Put the cursor at ``when`` ns of the screen; in a bubble, what the device waits for there."""
        self._explorer.jump(when)
        self._contents.leave_stretch()
        if not self._scene.start <= when <= self._scene.end:
            start, end = (exact_text(edge) for edge in (self._scene.start, self._scene.end))
            return say("jump.outside", start=start, end=end)
        index = self._explorer.trace
        if index >= len(self._session.profiles):
            return ""
        return self._why_idle(index, self._scene.to_trace(index, when))

    # --- hits

    def hit(self, direction: int) -> str:
        """To a hit of the search."""
        hits, state = self._finder.hits, self._explorer.state
        if not len(hits):
            return self._finder.words() or say("hit.none")
        at = hits.next(state.selection, state.cursor, direction)
        self._explorer.select(hits.at(at))
        return say("hit.of", n=at + 1, count=len(hits.starts))

    def toggle_hits_only(self) -> str:
        """Draw nothing but the hits, or everything."""
        state = self._explorer.state
        state.hits_only = not state.hits_only
        if not len(self._finder.hits):
            return say("hit.none")
        return say("search.filter_on" if state.hits_only else "search.filter_off")

    # --- links

    def follow(self, onward: bool) -> str | None:
        """Along a link of the selected slice, ``onward`` or back to where it came from."""
        state = self._explorer.state
        missing = self._no_link("link.none" if onward else "link.none_back")
        selected = self._selected()
        if selected is None:
            return missing
        trace = self._scene.traces[selected.trace]
        item = (
            forward(trace, selected.item, state.link_category)
            if onward
            else back(trace, selected.item, state.link_category, self.origin())
        )
        if item is None:
            found = chain_of(trace, selected.item)
            item = None if found is None else found.beside(selected.item, 1 if onward else -1)
        if item is None:
            item = task_beside(trace, selected.item, onward)
        if item is None and is_of_event(trace.name_of(selected.item)):
            item = event_beside(self._session.profiles[selected.trace], selected.item)
        if item is None:
            place = across(self._session, selected, onward) if self._session.whole else None
            if place is None:
                why = trace.nature.uncovered if onward and len(self._scene.traces) > 1 else ""
                return say(why) if why else missing
            self._go(place)
            there = self._scene.traces[place.trace]
            return say("service.across", name=_slice_name(there, place.item), label=rank_name(self._scene, place.trace))
        self._left = selected if onward else None
        self._explorer.select(Selected(selected.trace, item))
        return None

    def origin(self) -> int:
        """The slice of the trace of the selected one that the last link was followed from, -1 without one."""
        left, selected = self._left, self._explorer.state.selection
        return left.item if left is not None and selected is not None and left.trace == selected.trace else -1

    def chain(self) -> str | None:
        """Show how the selected kernel came about, and nothing else; again: everything."""
        selected = self._explorer.state.selection
        if selected is None:
            return say("fit.none")
        found = chain_of(self._scene.traces[selected.trace], selected.item)
        if found is None:
            return self._no_link("chain.none")
        kernel = Selected(selected.trace, found.kernel)
        if self._explorer.list.only is not None and found.holds(selected.item):
            self._explorer.list.show_only(None)
            self._explorer.select(kernel)
            return say("chain.left")
        self._explorer.select(kernel)
        stages = {stage.item for stage in found.stages if stage.item >= 0} | {found.kernel}
        self._explorer.show_alone(Selected(selected.trace, item) for item in stages)
        start, end = (self._scene.to_scene(selected.trace, when) for when in (found.start, found.end))
        self._explorer.show(start, end, _CHAIN_MARGIN)
        self._contents.open_tab("details")
        return None if found.holds(selected.item) else say("chain.first")

    def passes(self, row: TabRow | None) -> str | None:
        """Show the forward and the backward operation of ``row``, else of the selection, with their kernels alone.

        Again: to the other one of the two. Where there are none, only the panel changes: it lists those there are.
        """
        selected = self._explorer.state.selection
        if row is not None and row.places and selected not in row.places:
            place = row.places[0]
            item = place.item if isinstance(place, Selected) else place.slice
            if item is None:
                return say("passes.unknown")
            selected = Selected(place.trace, item)
        if selected is None and row is None:
            self._contents.press_view("passes")
            self._contents.press_view("passes")  # again: the focus
            return None
        if selected is None:
            return say("select.none")
        trace, operation = self._scene.traces[selected.trace], -1
        if self._session.profiles:
            operation = self._session.profiles[selected.trace].operation_of(selected.item)
        item = operation if operation >= 0 else selected.item  # a kernel stands for what launched it
        found = passes_of(trace, item)
        if found is None:
            if self._session.whole and len(trace.bound_links_of(FORWARD_BACKWARD)):
                self._contents.lines.view = "passes"
                self._contents.open_tab("lines")
            return self._no_link("passes.none", name=_slice_name(trace, item))
        hosts = found.forward, *found.backward
        if self._explorer.list.only is not None and selected.item in hosts:
            item = found.backward[0] if selected.item == found.forward else found.forward
        elif item not in hosts:  # it lies inside of one of them, or around it
            lane, start, end = trace.slices.lane, trace.slices.start, trace.slices.end
            beside = (host for host in hosts if lane[host] == lane[item] and start[host] < end[item])
            item = next((host for host in beside if start[item] < end[host]), found.forward)
        launched = [items for host in hosts if (items := launched_in(trace, host)) is not None]
        shown = np.concatenate((hosts, *launched))
        self._explorer.select(Selected(selected.trace, item))
        self._explorer.show_alone(Selected(selected.trace, int(each)) for each in shown)
        low, high = int(trace.slices.start[shown].min()), int(trace.slices.end[shown].max())
        low, high = (self._scene.to_scene(selected.trace, when) for when in (low, high))
        self._explorer.show(low, high, _CHAIN_MARGIN)
        self._contents.open_tab("details")
        forward, backward = pass_times(trace, hosts[:1]), pass_times(trace, hosts[1:])
        name = brief(trace.name_of(found.backward[0]), _LONGEST_NAME)
        return say("passes.of", forward=forward, backward=backward, name=name)

    def sibling(self, direction: int) -> str:
        """To a kernel of the same launch."""
        selected = self._selected()
        if selected is None:
            return say("select.none")
        trace = self._scene.traces[selected.trace]
        found = siblings(trace, selected.item, self._explorer.state.link_category, self.origin())
        if len(found) < 2:
            return self._no_link("sibling.none")
        if selected.item in found:
            at = found.index(selected.item) + direction
        else:
            at = 0 if direction > 0 else len(found) - 1
        if not 0 <= at < len(found):
            return say("sibling.last", count=len(found))
        self._explorer.select(Selected(selected.trace, found[at]))
        return say("sibling.of", n=at + 1, count=len(found))

    # --- time

    def fit(self) -> str | None:
        """Fit the selected slice; again: with the ends of its links."""
        selected = self._explorer.state.selection
        ends = None
        if selected is not None and (span := link_span(self._scene.traces[selected.trace], selected.item)) is not None:
            low, high = (self._scene.to_scene(selected.trace, when) for when in span)
            ends = low, high
        return None if self._explorer.fit(ends) else say("fit.none")

    def step(self, direction: int) -> str:
        """Show the next step in ``direction`` (1 or -1); returns the message for the user."""
        steps = self._scene.steps()
        if not steps:
            return say(lacking(self._scene.traces[0], "step.none"))
        state = self._explorer.state
        at = next_in_time(np.array([start for start, _, _ in steps]), state.cursor, direction)
        if direction < 0 and at is not None and steps[at][1] > state.cursor:
            at = at - 1 if at else None  # the step that the cursor is in does not count
        if at is None:
            return say("step.last" if direction > 0 else "step.first")
        start, end, selected = steps[at]
        self._explorer.show(start, end)
        self._explorer.jump(start)
        name = printable(self._scene.traces[selected.trace].name_of(selected.item))
        return say("step.of", name=name, n=at + 1, count=len(steps), length=duration_text(end - start))

    def rank(self, direction: int) -> str:
        """To the timeline of a rank."""
        if not move_rank(self._explorer, direction):
            return say("rank.last" if direction > 0 else "rank.first")
        index = self._explorer.trace
        return say("rank.of", label=rank_name(self._scene, index), n=index + 1, count=len(self._scene.traces))

    def align(self, edge: Edge) -> str:
        """Shift the trace of the selected slice until its ``edge`` lies on that of the base."""
        found, selected, base = align(self._explorer, edge), self._explorer.state.selection, self._explorer.base
        if isinstance(found, str) or selected is None or base is None:
            return say(f"align.{found}")
        offset = self._scene.offsets[selected.trace]
        rank, other = (rank_name(self._scene, index) for index in (selected.trace, base.trace))
        return say(f"align.{edge}", rank=rank, by=signed_text(found), base=other, offset=signed_text(offset))

    def mark_base(self) -> str:
        """Let the selected slice be what others are aligned to."""
        if len(self._scene.traces) < 2:
            return say("align.one_rank")
        self._selected()
        if not mark_base(self._explorer) or self._explorer.base is None:
            return say("select.none")
        base = self._explorer.base
        name = _slice_name(self._scene.traces[base.trace], base.item)
        return say("align.base", name=name, rank=rank_name(self._scene, base.trace))

    # --- ranges

    def mark_selection(self) -> str | None:
        """Let the selected slice be the range."""
        if not self._explorer.mark_selection():
            return say("fit.none")
        return self._range()

    def mark_range(self) -> str | None:
        """Begin a range at the cursor, or end it there."""
        self._explorer.mark()
        if self._explorer.anchor is not None:
            return say("range.begun", start=exact_text(self._explorer.anchor))
        return self._range()

    def mark_gap(self) -> str | None:
        """Let the gap before the selected slice be the range; again: the one after it; with none, the bubble here."""
        bubble = self._bubble_here()
        if bubble is not None:
            self._explorer.set_range(*bubble)
            return self._range()
        selected = self._selected()
        if selected is None:
            return say("select.none")
        trace = self._scene.traces[selected.trace]
        before, behind = (gap_beside(trace, selected.item, direction) for direction in (-1, 1))
        gap = before
        if gap is None or (behind is not None and self._explorer.state.range == self._seen(selected.trace, gap)):
            gap = behind
        if gap is None:
            return say("range.no_gap")
        beyond = gap[2]
        start, end = self._seen(selected.trace, gap)
        self._explorer.set_range(start, end)  # also an empty one, so that this key goes on to the other side
        if start == end:
            key = "range.no_gap_before" if gap is before else "range.no_gap_behind"
            return say(key, name=_slice_name(trace, beyond))
        self._contents.open_tab("range", unfold=False)
        first, second = (beyond, selected.item) if gap is before else (selected.item, beyond)
        names = {"first": _slice_name(trace, first), "second": _slice_name(trace, second)}
        return say("range.marked_between", length=duration_text(end - start), **names)

    def _bubble_here(self) -> tuple[int, int] | None:
        """The free time of a device that the cursor stands in, on the scene's clock, where nothing is selected."""
        state, index = self._explorer.state, self._explorer.trace
        if state.selection is not None or index >= len(self._session.profiles):
            return None
        found = idle_at(self._session.profiles[index], self._scene.to_trace(index, state.cursor))
        if found is None:
            return None
        idles, at = found
        return self._seen(index, (int(idles.start[at]), int(idles.end[at]), -1))

    def _seen(self, trace: int, gap: tuple[int, int, int]) -> tuple[int, int]:
        """Start and end of a gap on the scene's clock."""
        return self._scene.to_scene(trace, gap[0]), self._scene.to_scene(trace, gap[1])

    def _range(self) -> str | None:
        """How long the range is; its tab is open after the key that shows the panel."""
        self._contents.open_tab("range", unfold=False)
        marked = self._explorer.state.range
        if marked is None:
            return None
        start, end = marked
        return say("range.marked", length=duration_text(end - start), start=exact_text(start), end=exact_text(end))


def _slice_name(trace: Trace, item: int) -> str:
    return brief(trace.name_of(item), _LONGEST_NAME)


def lacking(trace: Trace, otherwise: str) -> str:
    """The text of what ``trace`` has instead of kernels, by its subject; ``otherwise`` where it may have some."""
    return subject_of(trace).no_kernels or otherwise


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
        (not scene.steps(), lacking(scene.traces[0], "step.none"), "step_next step_previous"),
        (
            not starved,
            lacking(scene.traces[0], "starved.none") if session.whole else "loading.links",
            "starved_next starved_previous",
        ),
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
