"""The search: it runs beside the screen, so that no key waits, and the newest wins; its hits are marked and listed."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from functools import partial
from itertools import count

import numpy as np
import numpy.typing as npt
from textual.worker import get_current_worker

from npu_tui.analysis.ranges import PHASES, phases
from npu_tui.analysis.search import FIELDS, Search, SearchError, parse_search, unknown_field
from npu_tui.analysis.statistics import Distribution, by_code, distribution
from npu_tui.load.errors import InputError
from npu_tui.strings import say, words
from npu_tui.trace.text import brief, duration_text, exact_text, printable
from npu_tui.tui.prompt import Desk
from npu_tui.tui.session import NO_HITS, Bools, Hits, Session, make_hits
from npu_tui.tui.tabs.declared import spread, spread_picture, spread_words, sum_words
from npu_tui.tui.tabs.table import GAP, Content, Context, Ranked, TabRow, TabTable
from npu_tui.view.scene import Selected

_NUMBERS = count()  # every search has its own, so that none is taken for one of another session

_BETWEEN = 0.15  # seconds from one count to the next while args are read


# What people type who know another language of search: a bare limit, a pattern left open, one without slashes.
_MEANT = {
    "time": re.compile(r"(?:^|\s)[<>]=?\s*\d"),
    "close": re.compile(r"(?:^|\s)/[^/]+$"),
    "pattern": re.compile(r"[~^$]|\.\*|\\w|\[.+\]"),
}


class Finder:
    """The present search of ``desk``: its ``hits``, and in ``error`` one line where its text cannot be used.

    ``found`` is called when there are more hits.
    """

    def __init__(self, desk: Desk, found: Callable[[], object]) -> None:
        self.hits = NO_HITS
        self.error = ""
        self.running = False
        self.text = ""
        """What is or was looked for; empty without a search."""
        self._start, self._later, self._found = desk.work, desk.later, found
        self._number = next(_NUMBERS)
        self._scene, self._profiles = desk.session.scene, desk.session.profiles
        self._traces = self._scene.traces
        self._prepared = False
        self._orders: dict[int, npt.NDArray[np.int64]] = {}
        self._places = [
            name
            for trace in self._traces
            for name in (*(lane.name for lane in trace.lanes), *(layer.name for layer in trace.layers))
        ]

    def prepare(self) -> None:
        """Compute in a thread what searches need, while the user is still typing one."""
        if not self._prepared:
            self._prepared = True
            self._start(self._prepare, "prepare")

    def _prepare(self) -> None:
        for number, profile in enumerate(self._profiles):
            profile.searchable.prepare()
            self._order(number)

    def _order(self, number: int) -> npt.NDArray[np.int64]:
        """The slices of trace ``number`` as they stand in the file."""
        if number not in self._orders:
            self._orders[number] = self._traces[number].slices.file_order()
        return self._orders[number]

    def clear(self) -> None:
        """Stop searching; there are no hits."""
        self._number = next(_NUMBERS)
        self.hits, self.error, self.running, self.text = NO_HITS, "", False, ""

    def shifted(self) -> None:
        """A trace lies elsewhere on the scene's clock now: so do its hits."""
        if self.hits is not NO_HITS:
            self.hits = make_hits(self.hits.text, self._scene, self.hits.masks, self.hits.share)

    def begin(self, text: str) -> None:
        """Look for ``text`` in a thread."""
        self.clear()
        if not text.strip():
            return
        self.text, self.running = text, True
        number = self._number
        self._start(lambda: self._work(number, text), "search")

    def finish(self, text: str) -> None:
        """Look for ``text`` until the hits are there; only args are still read in the thread."""
        if text == self.text and not self.running:
            return
        try:
            search = parse_search(text, self._places)
        except SearchError as error:
            self._refuse(error)
            return
        if search.args:
            if text != self.text:
                self.begin(text)
            return
        self.clear()
        self.text = text
        try:
            self.hits = make_hits(text, self._scene, self._masks(search))
        except SearchError as error:
            self._refuse(error)

    def words(self, typing: bool = False) -> str:
        """How many hits there are, or what is wrong; empty without a search. Without that text while it is in sight."""
        count, text = len(self.hits), self.text
        if self.error or not text:
            return self.error
        share = f"{self._share:.0%}"
        if self.running and typing:
            return say("search.count_so_far", count=count, share=share)
        if self.running:
            return say("search.running", count=count, text=text, share=share)
        if typing:
            return say("search.count", count=count) if count else say("search.no_hits") + self._fields()
        return (
            say("search.title", count=count, text=text) if count else say("search.nothing", text=text) + self._fields()
        )

    @property
    def _share(self) -> float:
        return 0.0 if self.hits is NO_HITS else self.hits.share

    def _fields(self) -> str:
        """Which field an unknown one may mean."""
        unknown = unknown_field(self.text)
        if unknown is None:
            return next((say(f"search.hint.{key}") for key, form in _MEANT.items() if form.search(self.text)), "")
        near = get_close_matches(unknown, FIELDS, 1)
        return say("search.field_near", near=near[0]) if near else say("search.fields", fields=" ".join(FIELDS))

    def _take(self, number: int, hits: Hits, error: str = "") -> None:
        """Keep the ``hits`` of search ``number`` so far, or in ``error`` what is wrong, unless another search runs."""
        if number == self._number:
            self.hits, self.error = hits, error
            self.running = hits.share < 1 and not error
            self._found()

    def _refuse(self, error: SearchError) -> None:
        self.clear()
        self.error = printable(str(error))

    def _work(self, number: int, text: str) -> None:
        worker = get_current_worker()

        def go_on() -> bool:
            return number == self._number and not worker.is_cancelled

        try:
            search = parse_search(text, self._places)
            for hits in self._search(search, go_on):
                self._later(self._take, number, hits)
        except SearchError as error:
            self._later(self._take, number, NO_HITS, printable(str(error)))
        except InputError as error:
            self._later(self._take, number, NO_HITS, words(error.message))

    def _masks(self, search: Search) -> list[Bools]:
        return [profile.searchable.find(search) for profile in self._profiles]

    def _search(self, search: Search, go_on: Callable[[], bool]) -> Iterator[Hits]:
        masks = self._masks(search)
        if not search.args:
            yield make_hits(search.text, self._scene, masks)
            return
        wanted, masks = masks, [np.zeros(len(mask), np.bool_) for mask in masks]
        shown = time.monotonic()
        none = True
        for number, trace in enumerate(self._traces):
            order = self._order(number)
            items = order[wanted[number][order]]
            for part in trace.args.scan(trace.slices.event[items], search.args, go_on):
                masks[number][items[part.places]] = True
                now = time.monotonic()
                # The first hits are shown at once.
                if now - shown >= _BETWEEN or (none and len(part.places)):
                    shown, none = now, none and not len(part.places)
                    share = min((number + part.share) / len(self._traces), 0.999)
                    yield make_hits(search.text, self._scene, [mask.copy() for mask in masks], share)
        if go_on():
            yield make_hits(search.text, self._scene, masks)


class Searching:
    """Asks in the prompt of ``desk`` what ``finder`` is to look for, and marks its hits.

    ``told`` is called whenever the hits have changed, with whether the search has ended after it was entered.
    """

    def __init__(self, desk: Desk, finder: Finder, told: Callable[[bool], None]) -> None:
        self._prompt, self._explorer, self._finder, self._told = desk.prompt, desk.explorer, finder, told
        self._is_entered = False

    def ask(self) -> None:
        """Ask what to look for."""
        self._finder.prepare()
        self._prompt.open("search", hint=say("search.hint"))

    def typed(self, text: str) -> None:
        """Count the hits of ``text`` while it is typed."""
        self._finder.begin(text)
        if not self._finder.running:
            self.show()

    def entered(self, text: str) -> None:
        """Look for ``text``, and go to the first hit as soon as there is one."""
        self._finder.finish(text)
        self._is_entered = True
        self.show()

    def mark(self) -> None:
        """Mark the hits where they are now."""
        self._explorer.state.hits, self._explorer.state.hit_masks = self._finder.hits.starts, self._finder.hits.masks

    def show(self) -> None:
        """Mark the hits and count them in the prompt."""
        self.mark()
        if self._prompt.is_open:
            self._prompt.answer(self._finder.words(typing=True))
        ended = not self._prompt.is_open and self._is_entered and (len(self._finder.hits) or not self._finder.running)
        self._is_entered = self._is_entered and not ended
        self._told(bool(ended))


I64 = npt.NDArray[np.int64]

_SHOWN_ROWS = 500
_LONGEST_NAME = 60
_AT_ONCE = 20_000  # hits that are added up without a thread
_HITS = ("duration", "start", "lane", "name")
_GROUPS = ("total", "count_heading", "p50", "p90", "max", "histogram", "what", "union")
_VIEWS = ("hits", "names", "lanes", "steps", "phases")


def are_few(now: Context) -> bool:
    """Whether there are so few hits that they are added up at once."""
    return len(now.hits) <= _AT_ONCE


def lists_hits(turn: int) -> bool:
    """Whether ``search`` lists the hits themselves, with the selected one under the cursor."""
    return turn % len(_VIEWS) == 0


def search(now: Context) -> Content:
    """One row per hit, the slowest first; each turn adds them up by name, lane, step, forward and backward."""
    hits = now.hits
    if not len(hits):
        return say("search.none")
    view, then = (_VIEWS[(now.turn + ahead) % len(_VIEWS)] for ahead in (0, 1))
    again = say(f"search.by_{then}")
    notes = [say("search.title", count=len(hits), text=hits.text), *_spread_words(now)]
    if view == "hits":
        shown = _slowest(now)
        rows = [_hit_row(now, hits.at(index)) for index in shown]
        if len(rows) < len(hits):
            notes[0] = say("search.more", count=len(hits), shown=_SHOWN_ROWS)
        at = hits.index(now.selection)
        headings = tuple(say(f"search.{key}") for key in _HITS)
        return TabTable(headings, rows, GAP.join(notes), shown.index(at) if at in shown else None, again=again)
    rows = [
        row
        for number in range(len(now.session.scene.traces))
        for row in _group_rows(now.session, number, hits.items[hits.traces == number], view)
    ]
    return TabTable(tuple(say(f"search.{key}") for key in _GROUPS), rows, GAP.join(notes), again=again)


def _spread_words(now: Context) -> list[str]:
    """How the hits of each trace spread, in a line."""
    found = []
    for number, trace in enumerate(now.session.scene.traces):
        spread_of = distribution(trace, now.hits.items[now.hits.traces == number])
        if spread_of is not None:
            label = now.session.scene.labels[number]
            found += [f"{label} {spread_words(trace, spread_of)}".strip(), sum_words(spread_of)]
    return found


def _slowest(now: Context) -> list[int]:
    """Which hits are listed, the slowest first."""
    hits = now.hits
    lasting = np.zeros(len(hits), np.int64)
    for number, trace in enumerate(now.session.scene.traces):
        mine = hits.traces == number
        items = hits.items[mine]
        lasting[mine] = trace.slices.end[items] - trace.slices.start[items]
    return [int(index) for index in np.argsort(-lasting, kind="stable")[:_SHOWN_ROWS]]


def _group_rows(session: Session, number: int, items: I64, view: str) -> list[TabRow]:
    """A row per name, lane, step or pass of the hits of one trace."""
    scene, trace = session.scene, session.scene.traces[number]
    slices = trace.slices
    if view == "names":
        code, names = slices.name[items].astype(np.int64), trace.names
    elif view == "lanes":
        code = slices.lane[items].astype(np.int64)
        names = [f"{trace.layers[lane.layer].name} / {scene.roles[number][lane.index].name}" for lane in trace.lanes]
    elif view == "steps":
        steps = [step for step in session.profiles[number].steps if step.window is not None]
        code, names = np.full(len(items), -1, np.int64), [step.name or "" for step in steps]
        for k, step in enumerate(steps):
            if step.window is not None:
                code[step.window.holds(slices.start[items])] = k
        names.append(say("search.no_step"))
        code[code < 0] = len(names) - 1
    else:
        code, names = phases(trace, items), [say(f"phase.{phase}") for phase in PHASES]
    label = scene.labels[number]
    rows = []
    for number_of, found in by_code(trace, items, code)[:_SHOWN_ROWS]:
        name = brief(printable(f"{label} {names[number_of]}".strip()), _LONGEST_NAME)
        rows.append(_group(number, name, slices.end[found.items] - slices.start[found.items], found))
    return rows


def _group(number: int, name: str, lengths: I64, found: Distribution) -> TabRow:
    times = (found.total, found.union, found.p50, found.p90, found.longest)
    total, union, p50, p90, longest = map(duration_text, times)
    cells = (total, f"{found.count:,}", p50, p90, longest, spread(lengths), name, union)
    ratio = found.longest / max(found.shortest, 1)
    values = (found.total, found.count, found.p50, found.p90, found.longest, ratio, name, found.union)
    title = say("spread.title", count=found.count, name=name)
    aside = partial(spread_picture, title, lengths) if found.count > 1 else None
    return TabRow(cells, Ranked(number, found.count, lambda: found.items), values, aside=aside)


def _hit_row(now: Context, found: Selected) -> TabRow:
    trace = now.session.scene.traces[found.trace]
    lane = trace.lanes[int(trace.slices.lane[found.item])]
    start, end = now.session.scene.times(found)
    label, name = now.session.scene.labels[found.trace], printable(trace.name_of(found.item))
    role = now.session.scene.roles[found.trace][lane.index]
    where = printable(f"{label} {trace.layers[lane.layer].name} / {role.name}".strip())
    return TabRow(
        (duration_text(end - start), exact_text(start), where, name), (found,), (end - start, start, where, name)
    )
