"""The critical path of a device in the window that is judged, with its owners; or why it is unknown.

Owners come from ``analysis.owners``. Their gains are given only where the replay is trusted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache, partial

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.code_lines import CodeLine, user_line
from npu_tui.analysis.communication import UNKNOWN, lane_and_place
from npu_tui.analysis.device import EVERYTHING
from npu_tui.analysis.limits import HALF, NEARLY_ALL
from npu_tui.analysis.owners import owners
from npu_tui.analysis.path import COMPUTE, DEVICE_GAP, HOST, Owner, Owners, critical_path
from npu_tui.analysis.replay import ANY_THREAD, CLOSE_ENOUGH, NO_CHANGE, Change
from npu_tui.rules.facts import Facts, once_per_device
from npu_tui.rules.inputs import Span, length_of
from npu_tui.rules.model import Finding
from npu_tui.rules.rule import line_of, place_in
from npu_tui.strings import LANGUAGES, labelling, speaking, words
from npu_tui.trace.classes import FRAME, is_of_program
from npu_tui.trace.intervals import covered_within, intersection, union
from npu_tui.trace.message import Message, Said, message
from npu_tui.trace.model import Trace
from npu_tui.trace.text import brief, decimal_number


class JudgedPath(Struct, frozen=True):
    """The path of a ``device`` with its ``owners``; without them ``reason`` says why there is none.

    A gain of an owner divided by ``count`` is that of one ``unit`` (step, token, …; run). ``floor`` is the device's
    clock minus the host's, which the path is on, ns.
    """

    device: int | None
    unit: str
    count: int
    floor: int = 0
    owners: Owners | None = None
    reason: Message | None = None

    def shift(self, stretch: int) -> int:
        """How much later than on the path a stretch is on the clock of its own lane, ns."""
        assert self.owners is not None
        return 0 if self.owners.path.kind[stretch] == HOST else self.floor

    def gain_of(self, owner: Owner) -> float | None:
        """How much shorter a unit is without ``owner``, ns; None for what cannot be removed."""
        return None if owner.gain is None else owner.gain / self.count


# A built-in; some of extensions have no name, ``<built-in method  of PyCapsule object at 0x…>``.
_BUILT_IN = re.compile(r"<built-in (?:function|method) (?:(?P<name>[^> ]+)(?: of .*)?| of (?P<type>\S+) object.*)>")
# Where a module lies; what is left is its name.
_FOLDER = re.compile(r".*/(?:site-packages|dist-packages|python3\.\d+)/|^/.*/")
_LONGEST = 80  # characters of a call: ``enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__`` has 61


def short_call(name: str) -> str:
    """``tolist`` of ``<built-in method tolist of …>``, ``torch.serialization.save`` of a frame; others as they are."""
    if (match := _BUILT_IN.fullmatch(name)) is not None:
        return brief(match["name"] or match["type"], _LONGEST)
    if (match := FRAME.fullmatch(name)) is not None:
        module = _FOLDER.sub("", match["file"]).removesuffix(".py").replace("/", ".")
        return brief(f"{module}.{match['function']}", _LONGEST)
    return brief(name.removeprefix("AscendCL@"), _LONGEST)


def owner_text(trace: Trace, owner: Owner, inner: CodeLine | None = None) -> Message:
    """What ``owner`` is, in a few words with its line: ``tolist at model.py:31 in relative_bias()``.

    ``inner`` is the place in a library that the line leads to.
    """
    if owner.kind == "late_rank":
        lane, place = lane_and_place(owner.peer)
        if place == UNKNOWN:
            return message("path.owner.rank_unknown")
        if lane < 0:
            return message("path.owner.rank", rank=place)
        return message("path.owner.rank_of", rank=place, group=brief(trace.lanes[lane].name))
    if owner.doing == "device" and owner.kind in ("latency", "device_gap", "unexplained"):
        ending = "_nowhere" * (owner.kind == "unexplained" and not owner.name)
        return message(f"path.owner.{owner.kind}{ending}", name=brief(owner.name.strip()))
    word = {"work": "silent", "wait": "waiting"}.get(owner.doing, owner.doing) if not owner.name else owner.doing
    words = {"name": short_call(owner.name), "thread": owner.thread}
    if owner.where is None:
        return message(f"path.owner.{word}_nowhere", **words)
    line = line_of(owner.where, inner)
    if owner.name.endswith(f"({owner.where.line}): {owner.where.function}") and owner.doing == "work":
        outer = next((each for each in map(user_line, owner.calls) if each and is_of_program(each.file)), None)
        if outer is not None and not is_of_program(owner.where.file):
            line = line_of(outer, owner.where)
        return message("path.owner.work_nowhere", name=line)  # the frame itself
    return message(f"path.owner.{word}", line=line, **words)


def owner_name(trace: Trace, owner: Owner) -> Message:
    """What ``owner`` is without its line: ``tolist``."""
    if owner.doing == "launch" and owner.where is not None:
        return message("path.owner.launching")
    return owner_text(trace, replace(owner, where=None))


def owners_called(trace: Trace, owners: Sequence[Owner], typed: str) -> list[Owner]:
    """The owners that ``typed`` means: by number from 1, by the whole text, name or line, else by parts of it."""
    if typed.isdecimal():
        number = decimal_number(typed) or 0
        return list(owners[number - 1 : number]) if number else []
    wanted = _bare_question(typed)
    names: list[tuple[Owner, set[str]]] = []
    for owner in owners:
        known = set()
        place = "" if owner.where is None else place_in(owner.where)
        for language in LANGUAGES:
            with speaking(language), labelling(str):
                name, text = words(owner_name(trace, owner)), words(owner_text(trace, owner))
            for called in {name, short_call(owner.name)} - {""}:  # a wait is known by its call, too
                known |= {_bare_question(called), _bare_question(f"{called} {place}")}
            known |= {_bare_question(text), _bare_question(place)} - {""}
        names.append((owner, known))
    exact = [owner for owner, known in names if wanted in known]
    if exact or len(wanted) < _SHORTEST:
        return exact
    return [owner for owner, known in names if any(all(word in each for word in wanted.split()) for each in known)]


_SHORTEST = 3  # a shorter text is a part of too many others


def _bare_question(text: str) -> str:
    """``text`` without case and without the ``at`` before a line."""
    return " ".join(word for word in text.casefold().split() if word != "at")


def explained(owners: Iterable[Owner], findings: Iterable[Finding]) -> list[Finding | None]:
    """For each owner the first of ``findings`` with a change that removes all of its work; None without one."""
    covers = [(finding, _Cover(finding.remedy.change)) for finding in findings if finding.remedy is not None]
    return [
        None if own is None or own.is_empty else next((each for each, cover in covers if cover.contains(own)), None)
        for own in (owner.change for owner in owners)
    ]


class _Cover:
    """What a change removes from the run."""

    def __init__(self, change: Change) -> None:
        self._change = change
        cuts = {gap: [cut.items for cut in change.tasks if cut.keep < 1 and cut.gap is gap] for gap in (False, True)}
        self._tasks = {gap: np.concatenate(cut) if cut else np.zeros(0, np.int64) for gap, cut in cuts.items()}
        self._of_thread = cache(self._host_of)

    def contains(self, own: Change) -> bool:
        """Whether all of ``own`` is part of it; for work of the host, most."""
        if not (own.waits <= self._change.waits and own.in_time <= self._change.in_time):
            return False
        if not all(np.isin(task.items, self._tasks[task.gap]).all() for task in own.tasks):
            return False
        held = sum(length_of(intersection(*mine.span, *self._of_thread(mine.thread))) for mine in own.host)
        total = sum(length_of(mine.span) for mine in own.host)
        return held > NEARLY_ALL * total or not total

    def _host_of(self, thread: int) -> Span:
        """The time of a host thread."""
        cuts = [cut.span for cut in self._change.host if cut.keep < 1 and cut.thread in (thread, ANY_THREAD)]
        start, end = ([span[side] for span in cuts] or [np.zeros(0, np.int64)] for side in (0, 1))
        return union(np.concatenate(start), np.concatenate(end))


def why_untrusted(facts: Facts) -> Message:
    """Why the path of a run is unknown if its replay is not trusted."""
    every = facts.inputs.replay_of(facts.part)
    if every is None:
        return message("path.no_launches")
    if every.error > CLOSE_ENOUGH:
        return message("path.not_close", error=every.error, most=CLOSE_ENOUGH)
    return message("path.not_linked", share=every.model.linked)


@once_per_device
def run_path(facts: Facts) -> JudgedPath:
    """The path of the whole run of a device, whatever ``facts`` judge of it; without gains."""
    if facts.window == EVERYTHING and facts.is_whole:
        return judged_path(facts)  # the same, which the findings ask for too
    tell = partial(JudgedPath, facts.part.device, "run", 1)
    if facts.replay is None:
        return tell(reason=why_untrusted(facts))
    path, floor = critical_path(facts.replay), facts.replay.model.floor
    return tell(floor=floor, owners=owners(facts.replay, facts.inputs.types_of, path, lambda _: NO_CHANGE))


@once_per_device
def path_owners(facts: Facts) -> Owners | None:
    """The owners of the path of what ``facts`` judge, also where the replay is not trusted; None without launches.

    Gains count only where ``facts.replay`` is there. May raise ``InputError`` as the model of the run does.
    """
    replay = facts.inputs.replay_of(facts.part)
    if replay is None:
        return None
    path, floor = critical_path(replay), replay.model.floor
    if facts.window != EVERYTHING:
        start = facts.window.start if facts.inputs.step is None else facts.since
        path = path.within(start - floor, facts.window.end - floor)
    judged = facts.judged if facts.whole_steps else lambda change: change
    found = owners(replay, facts.inputs.types_of, path, judged)
    if facts.is_whole:
        return found
    # What is cut out is whole, also where it began before the range or is in other steps: what counts is within it.
    limited = (
        owner if owner.gain is None else replace(owner, gain=min(owner.gain, owner.on_path)) for owner in found.owners
    )
    return replace(found, owners=tuple(limited))


def launching_gains(facts: Facts) -> list[int]:
    """What the run gains without the launching of each thread and function on the critical path, ns."""
    told = path_owners(facts)
    return [] if told is None else [owner.gain or 0 for owner in told.owners if owner.doing == "launch"]


def task_gaps(facts: Facts, idle: int) -> dict[str, Said | float]:
    """The gaps before tasks that follow others at once on their streams, if they are most of the ``idle`` time.

    These lie on the critical path, so a step cannot gain more than they take; none without a replay to trust.
    """
    told = path_owners(facts) if facts.replay is not None else None
    if told is None:
        return {}
    took, kind = told.path.end - told.path.start, told.path.kind
    gaps, kernels = took[kind == DEVICE_GAP], took[kind == COMPUTE]
    if not len(kernels) or gaps.sum() <= idle / 2:
        return {}
    middle, long = np.percentile(gaps, (50, 90))
    time = int(gaps.sum()) / facts.count
    lengths = {"middle": float(middle), "long": float(long), "kernel": float(np.median(kernels))}
    return {"count": len(gaps), "time": time, "unit": facts.unit, **lengths}


def blocked(facts: Facts, idle: Span) -> Message | None:
    """Where the host waits during most of the ``idle`` time of the device; None where it does not."""
    told = path_owners(facts)
    most, where = HALF * length_of(idle), None
    for site in () if told is None else told.waits:
        time = length_of(intersection(*facts.on_device(facts.span_of(site.items)), *idle))
        if time > most:
            most, where = time, message("finding.free.blocked", where=owner_text(facts.trace, site), time=time)
    return where


def lines_under(facts: Facts, span: Span) -> tuple[CodeLine, ...]:
    """The line of the user that holds most of the critical path in ``span`` of the device; empty where none does."""
    told = path_owners(facts)
    if told is None or not len(span[0]):
        return ()
    path, floor = told.path, facts.floor
    inside = covered_within(span[0] - floor, span[1] - floor, path.start, path.end)
    of_owner = np.bincount(told.owner, inside, len(told.owners))
    lines: Counter[CodeLine] = Counter()
    for owner, time in zip(told.owners, of_owner.tolist(), strict=True):
        if owner.where is not None and time:
            lines[owner.where] += round(time)
    return tuple(line for line, time in lines.most_common(1) if time > HALF * inside.sum())


def judged_path(facts: Facts) -> JudgedPath:
    """The path of what ``facts`` judge, where the replay is to be trusted; may raise as ``path_owners``."""
    tell = partial(JudgedPath, facts.part.device, facts.unit_name, facts.count)
    if facts.replay is None:
        return tell(reason=why_untrusted(facts))
    return tell(floor=facts.replay.model.floor, owners=path_owners(facts))
