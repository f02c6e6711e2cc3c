"""Findings that one place in the code has in common are one cause, with one gain: that of the run without all of them.

A function holds findings together if they are nearly all that it does. What only moves or converts data belongs to the
operators that it is launched beside. A large function, such as that of a step, does much that is in no finding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.code_lines import CodeLine, called_lines
from npu_tui.analysis.limits import ALMOST_ALL, HALF, NEARLY_ALL, NOTABLE
from npu_tui.analysis.replay import NO_CHANGE, Change, HostCut
from npu_tui.rules.facts import Facts
from npu_tui.rules.functions import Function, function_of, stacks_of_launches
from npu_tui.rules.inputs import Span, common, length_of, together
from npu_tui.rules.moves import moves_data
from npu_tui.rules.rule import Draft, FiredRule, line_of, sentences
from npu_tui.trace.arrays import I64, Bools, once_each
from npu_tui.trace.classes import FRAME
from npu_tui.trace.message import Said, message

_NOTHING: I64 = np.zeros(0, np.int64)


class _Joint(Struct, frozen=True):
    """What two findings share: its ``place`` in words, and what of the second belongs to it."""

    place: Said
    change: Change


def joined(candidates: list[FiredRule], facts: Facts, gain_of: Callable[[Draft], int]) -> list[FiredRule]:
    """``candidates``, the drafts of which one that shares a place with others removes their part of it as well.

    The one nearest to a cause that gains most speaks for them; the others keep their drafts and become parts of it.
    """
    able = [each for each in candidates if _is_able(each)]
    if len(able) < 2 or facts.replay is None:
        return candidates
    gains = {each: gain_of(each.draft) for each in able}
    able.sort(key=lambda each: (each.reach != "cause", -gains[each]))
    work, taken, new = _Work(facts), set[FiredRule](), dict[FiredRule, FiredRule]()
    for lead in able:
        parts = [] if lead in taken else _parts_of(lead, [each for each in able if each not in taken], work)
        if not parts:
            continue
        change, shares = lead.draft.change or NO_CHANGE, [joint.change for _, joint in parts]
        for share in shares:
            change |= share
        spans = [each.draft.removes for each in (lead, *(part for part, _ in parts)) if each.draft.removes is not None]
        draft = replace(lead.draft, change=change, removes=together(*spans), most=None)
        limits = [each.draft.most for each in (lead, *(part for part, _ in parts))]
        if any(limit is not None for limit in limits):
            draft = replace(draft, most=gains[lead] + sum(gains[part] for part, _ in parts))
        cost = gain_of(draft)
        if cost < (1 + NOTABLE) * gains[lead]:
            continue  # what shares its time is a part of it anyway
        words = {"title": draft.title, "place": parts[0][1].place, "each": facts.per_unit(cost)}
        others = [part.draft.title for part, _ in parts]
        title = message("finding.joined.title", **words)
        detail = sentences(draft.detail, message("finding.joined.detail", others=others))
        new[lead] = replace(lead, draft=replace(draft, title=title, detail=detail, verdict=None))
        taken |= {lead, *(part for part, _ in parts)}
    return [new.get(each, each) for each in candidates]


def _is_able(each: FiredRule) -> bool:
    """Whether a finding removes work that has a place."""
    draft = each.draft
    known = draft.change is not None and bool(draft.change.host or draft.change.tasks) and not draft.change.in_time
    return known and each.reach in ("cause", "place") and not (draft.first or draft.by_design or draft.anywhere)


def _parts_of(lead: FiredRule, able: Sequence[FiredRule], work: _Work) -> list[tuple[FiredRule, _Joint]]:
    """Those of ``able`` that are one cause with ``lead``, all of the same place; each with what belongs to it."""
    change = lead.draft.change or NO_CHANGE
    others = [each for each in able if each is not lead]
    for find in (work.function, work.frame, work.beside):
        rows = [(each, find(change, each.draft.change or NO_CHANGE)) for each in others]
        found = [(each, joint) for each, joint in rows if joint is not None]
        if found:
            return [(each, joint) for each, joint in found if joint.place == found[0][1].place]
    return []


_Node = tuple[tuple[Function, ...], tuple[CodeLine, ...]]
"""A function with those around it, and the lines that lead to it."""


class _Work:
    """The work of a device and its host, by what launched it."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        slices, device = facts.trace.slices, facts.part.slices
        copies = _NOTHING if device is None else np.flatnonzero(device.copy & facts.window.holds(slices.start))
        items = once_each(np.concatenate([facts.kernels, facts.collectives.item, copies]))
        tasks = facts.tasks
        launched = np.full(len(slices), -1, np.int64)
        if tasks is not None:
            launched[tasks.item] = tasks.launched
        self._items = items[np.lexsort((slices.start[items], launched[items]))]
        self._stack, self._length = stacks_of_launches(facts, self._items), facts.length(self._items)
        self._chains = [called_lines(stack)[::-1] for stack in facts.trace.stacks]
        self._held: dict[_Node, int] = self._nodes(np.ones(len(self._items), np.bool_))

    def _removed(self, change: Change) -> Bools:
        """Which items of the device ``change`` takes out or shortens."""
        cuts = [cut.items for cut in change.tasks if cut.keep < 1 and not cut.gap]
        return np.isin(self._items, np.concatenate(cuts)) if cuts else np.zeros(len(self._items), np.bool_)

    def _apart(self, lead: Change, other: Change) -> tuple[Bools, Bools] | None:
        """The items of two findings about the device; None if the second has nearly all of the first, told coarser."""
        if lead.host or other.host:
            return None
        own, beside = self._removed(lead), self._removed(other)
        return None if self._time(own & beside) >= ALMOST_ALL * self._time(own) else (own, beside)

    def _nodes(self, chosen: Bools) -> dict[_Node, int]:
        """How long the ``chosen`` items of each function take by the lines that lead to it, ns."""
        held: Counter[_Node] = Counter()
        known = chosen & (self._stack >= 0)
        for stack, time in enumerate(np.bincount(self._stack[known], self._length[known]).astype(np.int64).tolist()):
            chain = self._chains[stack] if time else ()
            for depth in range(len(chain)):
                held[tuple(map(function_of, chain[: depth + 1])), tuple(chain[:depth])] += time
        return held

    def _time(self, chosen: Bools) -> int:
        return int(self._length[chosen].sum())

    def function(self, lead: Change, other: Change) -> _Joint | None:
        """The deepest function that holds ``lead`` and most of ``other``, if they are nearly all that it does."""
        if (apart := self._apart(lead, other)) is None:
            return None
        own, beside = apart
        mine, theirs, both = self._nodes(own), self._nodes(beside), self._nodes(own | beside)
        by_function: dict[tuple[Function, ...], list[_Node]] = {}
        for node in mine.keys() & theirs.keys():
            by_function.setdefault(node[0], []).append(node)
        for path, nodes in sorted(by_function.items(), key=lambda row: -len(row[0])):
            held = {name: sum(table[node] for node in nodes) for name, table in
                    (("own", mine), ("other", theirs), ("both", both), ("all", self._held))}  # fmt: skip
            if (
                held["own"] >= ALMOST_ALL * self._time(own)
                and held["other"] >= HALF * self._time(beside)
                and held["both"] >= NEARLY_ALL * held["all"]
            ):
                there = self._in(nodes)
                place = message("finding.joined.all", line=self._line_in(path, there & (own | beside)))
                return _Joint(place, self._only(other, there))
        return None

    def _in(self, nodes: Sequence[_Node]) -> Bools:
        """Which items were launched in one of ``nodes``."""
        wanted = set(nodes)
        depth = len(nodes[0][0])
        held = [
            len(chain) >= depth and (tuple(map(function_of, chain[:depth])), tuple(chain[: depth - 1])) in wanted
            for chain in self._chains
        ]
        return np.array([*held, False], np.bool_)[self._stack]

    def _line_in(self, path: tuple[Function, ...], chosen: Bools) -> Said:
        """The line of the last function of ``path`` that launches most of the ``chosen`` items."""
        lines: Counter[CodeLine] = Counter()
        for stack, time in zip(self._stack[chosen].tolist(), self._length[chosen].tolist(), strict=True):
            lines[self._chains[stack][len(path) - 1]] += time
        return line_of(lines.most_common(1)[0][0])

    def _only(self, change: Change, chosen: Bools) -> Change:
        """``change`` on the ``chosen`` items alone."""
        kept = self._items[chosen]
        cuts = [replace(cut, items=cut.items[np.isin(cut.items, kept)]) for cut in change.tasks]
        return replace(change, tasks=tuple(cut for cut in cuts if len(cut.items)))

    def frame(self, lead: Change, other: Change) -> _Joint | None:
        """The innermost frame that holds the host's work of ``lead`` and of ``other``, nearly all that it does."""
        if not lead.host or not other.host:
            return None
        own, beside = (together(*(cut.span for cut in change.host)) for change in (lead, other))
        if length_of(common(own, beside)) >= ALMOST_ALL * length_of(own):
            return None  # a coarser view of the same work
        both = together(own, beside)
        longest = int(np.argmax(own[1] - own[0]))
        for name, held in self._frames_around(int(own[0][longest]), int(own[1][longest])):
            if (
                length_of(common(own, held)) >= ALMOST_ALL * length_of(own)
                and length_of(common(beside, held)) >= HALF * length_of(beside)
                and length_of(common(both, held)) >= NEARLY_ALL * length_of(held)
                and (match := FRAME.fullmatch(name)) is not None
            ):
                line = CodeLine(match["file"], int(match["line"]), match["function"])
                cuts = tuple(HostCut(cut.thread, common(cut.span, held), cut.keep) for cut in other.host)
                return _Joint(message("finding.joined.all", line=line_of(line)), replace(other, host=cuts))
        return None

    def _frames_around(self, low: int, high: int) -> list[tuple[str, Span]]:
        """The frames around a time of the host, the innermost first: the name of each, and when such ones run."""
        facts, slices = self._facts, self._facts.trace.slices
        frames = facts.named(("python", "other"), lambda name: FRAME.fullmatch(name) is not None)
        around = frames[(slices.start[frames] <= low) & (slices.end[frames] >= high)]
        around = around[np.argsort(slices.end[around] - slices.start[around], kind="stable")]
        names = dict.fromkeys(slices.name[around].tolist())
        return [
            (facts.trace.names[name], facts.span_of(facts.outermost(frames[slices.name[frames] == name])))
            for name in names
        ]

    def beside(self, lead: Change, other: Change) -> _Joint | None:
        """What only moves or converts data, if nearly all of it is launched right before or after what ``lead`` has."""
        if (apart := self._apart(lead, other)) is None:
            return None
        own, near = apart
        moving = near & ~own & np.isin(self._items, moves_data(self._facts, self._items))
        if not moving.any() or self._time(moving) < ALMOST_ALL * self._time(near & ~own):
            return None
        run = np.cumsum(np.append(True, (own | near)[1:] != (own | near)[:-1]))  # of items one after another
        held = moving & np.isin(run, run[own])
        if self._time(held) < ALMOST_ALL * self._time(moving):
            return None
        return _Joint(message("finding.joined.beside"), self._only(other, held | (near & own)))
