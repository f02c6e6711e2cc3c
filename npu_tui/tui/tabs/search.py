"""The Search tab: the hits of the last search, the slowest first, how they spread, and by what they differ."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from npu_tui.analysis.ranges import PHASES, phases
from npu_tui.analysis.statistics import Distribution, by_code, distribution
from npu_tui.strings import say
from npu_tui.trace.text import brief, duration_text, exact_text, printable
from npu_tui.tui.session import Session
from npu_tui.tui.tabs.declared import spread, spread_picture, spread_words, sum_words
from npu_tui.tui.tabs.table import GAP, Content, Context, Ranked, TabRow, TabTable
from npu_tui.view.scene import Selected

I64 = npt.NDArray[np.int64]

_SHOWN_ROWS = 500
_LONGEST_NAME = 60
_AT_ONCE = 20_000
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
