"""What a change of the run would gain: the answer, its JSON and its document."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import or_
from typing import ClassVar, Literal

import numpy as np
from msgspec import Struct

from npu_tui.analysis.communication import UNKNOWN, lane_and_place
from npu_tui.analysis.path import Owner
from npu_tui.analysis.questions import UnknownChangeError, parse_question
from npu_tui.analysis.replay import NO_CHANGE, Change, Replay, Run
from npu_tui.analysis.replay_device import COLLECTIVE, KERNEL
from npu_tui.output.document import Block, Cell, Document, Paragraph, Table
from npu_tui.output.envelope import PATH, PathSource, Root
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import us
from npu_tui.rules.facts import Facts
from npu_tui.rules.judged_path import JudgedPath, owner_name, owner_text, owners_called
from npu_tui.rules.model import Remedy
from npu_tui.rules.rule import place_in
from npu_tui.strings import labelling, say, words
from npu_tui.trace.intervals import covered_before
from npu_tui.trace.message import Message, SaidError, message
from npu_tui.trace.model import Trace
from npu_tui.trace.text import HEIGHTS, brief, duration_text

_CELLS = 64


class NoReplayError(SaidError):
    """A run that cannot be replayed."""


class WhatIfRow(Struct, frozen=True, kw_only=True):
    """One change: how much it shortens a step ``alone`` and after those before it, and the step then."""

    text: str
    matches: int
    alone_us: float
    gain_us: float
    step_us: float


class Ghost(Struct, frozen=True, kw_only=True):
    """A stream: how busy it is as recorded and as predicted, each 0 to 1 in equal parts of the recorded length."""

    stream: str
    recorded: tuple[float, ...]
    predicted: tuple[float, ...]


class WhatIf(Root, frozen=True, kw_only=True):
    """Lengths are means over the ``count`` steps that the findings judge, or what a run without steps is divided by.

    ``per`` says what one is. ``warm_up`` more steps are left out: they stay as recorded. ``error`` is the share of it
    by which the unchanged replay misses the recording. ``replays`` is what was replayed. Both numbers of micro batches
    where another one is asked for.
    """

    OLD: ClassVar = {"source": PATH}
    ON_ONE_LINE: ClassVar = True

    schema_version: Literal[2] = 2
    kind: Literal["whatif"] = "whatif"
    source: PathSource
    device: int | None
    per: str
    count: int
    warm_up: int
    recorded_us: float
    replayed_us: float
    error: float
    step_us: float
    step_after_us: float
    gain_us: float
    changes: tuple[WhatIfRow, ...]
    timeline: tuple[Ghost, ...]
    replays: Literal["launches", "roles", "pipeline", "ranks"] = "launches"
    micro_batches: int | None = None
    micro_batches_after: int | None = None


def whatif(profile: Profile, texts: Sequence[str], cells: int = _CELLS) -> WhatIf:
    """The run of the first device of ``profile`` that can be replayed, with ``texts`` changed one after another.

    Raises ``NoReplayError``, ``UnknownChangeError`` for a text that means nothing here, and ``InputError`` if the file
    has changed.
    """
    asked = ask(profile, texts)
    device, replay, facts, count = asked.device, asked.replay, asked.facts, asked.facts.count
    rows, total = asked.rows()
    run = replay.run(asked.change)
    return WhatIf(
        source=PathSource(profile.path),
        device=device,
        per=facts.unit_name,
        count=count,
        warm_up=len(facts.warm_up),
        recorded_us=us(replay.recorded),
        replayed_us=us(replay.replayed),
        error=round(replay.error, 6),
        step_us=us(facts.step_ns),
        step_after_us=us(facts.step_ns - total / count),
        gain_us=us(total / count),
        changes=rows,
        timeline=_timeline(replay, run, asked.change, cells),
    )


class AskedRun(Struct, frozen=True):
    """The run of a ``device`` with the changes ``asked`` for, one after another."""

    device: int | None
    replay: Replay
    facts: Facts
    asked: tuple[Asked, ...]

    @property
    def change(self) -> Change:
        """All of them at once."""
        return reduce(or_, (each.change for each in self.asked), NO_CHANGE)

    def rows(self) -> tuple[tuple[WhatIfRow, ...], int]:
        """What each change adds to those before it, and how much shorter the run gets with all of them, ns."""
        rows, change, total, count = [], NO_CHANGE, 0, self.facts.count
        for asked in self.asked:
            change = change | asked.change
            gain = asked.limited(self.replay.gain(change) - total)
            total += gain
            after = self.facts.step_ns - total / count
            rows.append(_whatif_row(asked, asked.alone(self.replay) / count, gain / count, after))
        return tuple(rows), total


def ask(profile: Profile, texts: Sequence[str]) -> AskedRun:
    """The run of that device with ``texts`` changed; raises what ``whatif`` does."""
    device, replay = replay_of(profile)
    facts = _device_facts(profile, device)
    return AskedRun(device, replay, facts, tuple(_asked_change(profile, facts, replay, text) for text in texts))


class Asked(Struct, frozen=True):
    """A change of the run: its text, how many slices or ranks it concerns, and the finding's ``remedy`` that it is."""

    text: str
    change: Change
    matches: int
    remedy: Remedy | None = None

    def alone(self, replay: Replay) -> int:
        """How much shorter the run gets with this change alone, ns."""
        return self.limited(replay.gain(self.change))

    def limited(self, gain: int) -> int:
        """What of ``gain`` ns is due to this change."""
        return gain if self.remedy is None else self.remedy.limited(gain)


_FIX = re.compile(r"fix\s+(?P<id>\S+)", re.IGNORECASE)
_OWNER = re.compile(r"owner\s+(?P<name>.+)", re.IGNORECASE)


def _asked_change(profile: Profile, facts: Facts, replay: Replay, text: str) -> Asked:
    """What ``text`` changes: a question of ``parse_question``, ``fix ID`` (a finding), ``owner NAME`` (of the path)."""
    asked = " ".join(text.split())
    if (owner := _OWNER.fullmatch(asked)) is not None:
        return _without_owner(profile, facts, asked, owner["name"])
    match = _FIX.fullmatch(asked)
    if match is None:
        question = parse_question(replay.model, text, profile.types_of)
        return Asked(question.text, facts.judged(question.change), question.matches)
    known = {finding.whatif: finding.remedy for finding in profile.findings.findings}
    remedies = {asked.removeprefix("fix "): remedy for asked, remedy in known.items() if asked and remedy}
    name = match["id"].upper()
    if name not in remedies:
        raise UnknownChangeError(message("whatif.no_fix", id=match["id"], ids=list(remedies)))
    change = remedies[name].change
    return Asked(f"fix {name}", change, _matched_count(change), remedies[name])


def _matched_count(change: Change) -> int:
    """How many slices, stretches of the host or ranks ``change`` concerns."""
    spans = sum(len(cut.span[0]) for cut in change.host)
    return spans + sum(len(cut.items) for cut in change.tasks) + len(change.waits) + len(change.in_time)


def _critical_path_of(profile: Profile, facts: Facts) -> JudgedPath:
    """The critical path of the device of ``facts``."""
    return next(told for told in profile.critical_paths if told.device == facts.part.device)


def _without_owner(profile: Profile, facts: Facts, text: str, name: str) -> Asked:
    """The run without the owners of the critical path that ``name`` means."""
    told = _critical_path_of(profile, facts)
    if told.owners is None:
        raise UnknownChangeError(told.reason or message("path.no_launches"))
    every = told.owners.owners
    owners = owners_called(profile.trace, every, name)
    if not owners:
        names = [
            message("path.owner.numbered", number=number, owner=owner_text(profile.trace, owner))
            for number, owner in enumerate(every, 1)
        ]
        raise UnknownChangeError(message("whatif.no_owner", name=name, owners=names[:_NAMED]))
    changes = [facts.judged(owner.change) for owner in owners if owner.change is not None]
    if not changes:
        raise UnknownChangeError(message("whatif.owner_needed", name=owner_text(profile.trace, owners[0])))
    change = reduce(or_, changes)
    return Asked(text, change, _matched_count(change))


_NAMED = 8  # owners that are named where another one is asked for


def _whatif_row(asked: Asked, alone: float, gain: float, after: float) -> WhatIfRow:
    return WhatIfRow(text=asked.text, matches=asked.matches, alone_us=us(alone), gain_us=us(gain), step_us=us(after))


def replay_of(profile: Profile) -> tuple[int | None, Replay]:
    """The first device that can be replayed with the model of its run; raises ``NoReplayError`` without one."""
    if profile.trace.health.cropped is not None:
        raise NoReplayError(message("whatif.cropped"))
    replays = [(part.device, replay) for part, replay in profile.replays if replay is not None]
    if not replays:
        raise NoReplayError(message("whatif.no_model"))
    for device, replay in replays:
        if replay.trusted:
            return device, replay
    raise NoReplayError(message("whatif.not_close", error=replays[0][1].error))


def _timeline(replay: Replay, run: Run, change: Change, cells: int) -> tuple[Ghost, ...]:
    """The streams by how long they are busy as recorded, most first."""
    tasks, trace = replay.model.tasks, replay.model.trace
    busy = np.flatnonzero(np.isin(tasks.kind, (KERNEL, COLLECTIVE)))
    first, length = (
        min(int(tasks.start[busy].min()), int(run.starts[busy].min())),
        max(replay.recorded, replay.length(change)),
    )
    edges = first + np.linspace(0, length, cells + 1)
    streams: list[tuple[int, Ghost]] = []
    for stream in np.unique(tasks.stream[busy]).tolist():
        items = busy[tasks.stream[busy] == stream]
        shares = []
        for start, end in ((tasks.start[items], tasks.end[items]), (run.starts[items], run.ends[items])):
            before = covered_before(start, end, edges)
            shares.append(tuple(round(float(share), 4) for share in np.clip(np.diff(before) / (length / cells), 0, 1)))
        name = brief(trace.lanes[stream].name)
        streams.append(
            (
                -int((tasks.end[items] - tasks.start[items]).sum()),
                Ghost(stream=name, recorded=shares[0], predicted=shares[1]),
            )
        )
    return tuple(ghost for _, ghost in sorted(streams, key=lambda row: row[0]))


def _device_facts(profile: Profile, device: int | None) -> Facts:
    """What the findings on ``device`` read: they say which steps are judged."""
    return next(facts for facts in profile.facts if facts.part.device == device)


_LINES, _KERNELS, _RANKS, _FIXES, _OWNERS = 4, 3, 3, 4, 6


class Remedies(Struct, frozen=True):
    """Changes that would each alone shorten what ``per`` names; there are ``count`` of those."""

    per: str
    count: int
    changes: tuple[WhatIfRow, ...]


def remedies(profile: Profile) -> Remedies:
    """Changes of the first device of ``profile`` that can be replayed, the one that shortens its step most first.

    Owners of the critical path, lines of code that lose time, the waits of the host, late ranks, kernels that take
    long, and the remedies of findings. Raises ``NoReplayError``, and ``InputError`` if the file has changed.
    """
    device, replay = replay_of(profile)
    facts = _device_facts(profile, device)
    count = facts.count
    rows: dict[int, WhatIfRow] = {}
    for text in _change_texts(profile, facts, replay):
        try:
            asked = _asked_change(profile, facts, replay, text)
        except UnknownChangeError:
            continue
        gain = asked.alone(replay) / count
        if gain > 0:
            # Of several words for one change the first are the plainest.
            rows.setdefault(round(gain * count), _whatif_row(asked, gain, gain, facts.step_ns - gain))
    return Remedies(facts.unit_name, count, tuple(sorted(rows.values(), key=lambda row: -row.alone_us)))


def _change_texts(profile: Profile, facts: Facts, replay: Replay) -> Iterator[str]:
    yield from _owner_texts(profile, facts)
    lines = [loss.code for loss in facts.lines[:_LINES]]
    for code in dict.fromkeys(code for code in lines if code is not None):
        yield f"line {place_in(code)} x0"
    yield "no .item()"
    yield "no sync"
    late = sorted(peer for peer in replay.late if peer != UNKNOWN)
    yield from (f"rank {_peer_name(replay, peer)} in time" for peer in late[:_RANKS])
    if len(late) != 1:
        yield "ranks in time"
    yield from (f"kernel {name} x0.5" for name in list(facts.time_by_type)[:_KERNELS])
    known = [finding for finding in profile.findings.findings if finding.part_of is None and finding.gain_ns]
    yield from [finding.whatif for finding in known if finding.whatif is not None][:_FIXES]


def _owner_texts(profile: Profile, facts: Facts) -> Iterator[str]:
    """The owners of the critical path whose gain is largest; late ranks have words of their own."""
    told = _critical_path_of(profile, facts)
    owners = () if told.owners is None else told.owners.owners
    gainful = sorted((owner for owner in owners if owner.gain), key=lambda owner: -(owner.gain or 0))
    for owner in [owner for owner in gainful if owner.kind != "late_rank"][:_OWNERS]:
        yield owner_question(profile.trace, owner)


def owner_question(trace: Trace, owner: Owner) -> str:
    """How the run without ``owner`` of the critical path is asked for."""
    line = "" if owner.where is None else f" at {place_in(owner.where)}"
    with labelling(str):  # it is asked again as it stands
        name = words(owner_name(trace, owner))
    return f"owner {name}{line}"


def _peer_name(replay: Replay, peer: int) -> str:
    """What ``peer`` is called in a question: ``5``, or ``3 of Group 1``."""
    lane, place = lane_and_place(peer)
    group = replay.model.trace.lanes[lane].name.removesuffix(" Communication") if lane >= 0 else ""
    return f"{place} of {group}" if group else str(place)


_LONGEST = 60  # characters of a change as the user wrote it


def whatif_document(answer: WhatIf) -> Document:
    """What ``answer`` says."""
    warm_up = message("whatif.warm_up", count=answer.warm_up) if answer.warm_up else ""
    replayed = say(
        "whatif.replayed",
        replayed=1000 * answer.replayed_us,
        recorded=1000 * answer.recorded_us,
        error=answer.error,
        steps=message(f"whatif.count.{answer.per}", count=answer.count),
        warm_up=warm_up,
    )
    predicted_us = answer.replayed_us - answer.gain_us * answer.count
    scale = say("whatif.scale", length=1000 * max(answer.recorded_us, predicted_us))
    changes = _changes("changes", answer.changes, answer.per, ordered=True)
    if answer.replays in ("roles", "ranks"):  # which only begin later or sooner
        return Document(_answer_head(answer), [Paragraph((say(f"whatif.{answer.replays}"),)), changes])
    blocks: list[Block] = [Paragraph((replayed,)), changes]
    if answer.micro_batches and answer.micro_batches_after:
        before, after = answer.step_us / answer.micro_batches, answer.step_after_us / answer.micro_batches_after
        blocks.append(Paragraph((say("whatif.micro", before=1000 * before, after=1000 * after),)))
    if answer.timeline:
        blocks += [Paragraph((scale,)), *map(_stream, answer.timeline)]
    return Document(_answer_head(answer), blocks)


def remedies_document(answer: Remedies) -> Document:
    """What ``answer`` says."""
    unit = _unit(answer.per)
    if not answer.changes:
        return Document(say("whatif.no_remedies", unit=unit), [])
    return Document(
        say("whatif.remedies", unit=unit), [_changes("remedies", answer.changes, answer.per, ordered=False)]
    )


def _unit(name: str) -> Message:
    return message(f"finding.unit.{name}")


def _answer_head(answer: WhatIf) -> str:
    """The step before and after in one line."""
    before, after = 1000 * answer.step_us, 1000 * answer.step_after_us
    gain, unit = before - after, _unit(answer.per)
    if abs(gain) < 1e-4 * before:
        return say("whatif.head.same", before=before, unit=unit)
    share = abs(gain) / before if before else 0.0
    code = "whatif.head" if gain > 0 else "whatif.head.longer"
    return say(code, before=before, after=after, gain=abs(gain), share=share, unit=unit)


def _changes(id: str, changes: tuple[WhatIfRow, ...], unit: str, ordered: bool) -> Table:
    """A row for each change; where they apply one after another, what each adds to those above it."""
    names = ("change", "matches", "alone", "gain", "after") if ordered else ("change", "matches", "alone", "after")
    rows = [
        [
            Cell(brief(row.text, _LONGEST), name=True),
            Cell(str(row.matches), row.matches),
            _gain_cell(row.alone_us),
            *([_gain_cell(row.gain_us)] if ordered else []),
            Cell(duration_text(1000 * row.step_us), row.step_us),
        ]
        for row in changes
    ]
    columns = tuple(say(f"whatif.column.{name}", unit=_unit(unit)) for name in names)
    numeric = (False, *[True] * (len(names) - 1))
    return Table(id, "", columns, numeric, rows, sortable=False)


def _gain_cell(us: float) -> Cell:
    return Cell(duration_text(1000 * us) if us else say("whatif.no_gain"), us)


def _stream(ghost: Ghost) -> Table:
    """How busy a stream is over the run: a row as recorded, and one as predicted below it."""
    rows = [
        [Cell(say(f"whatif.{name}")), Cell(_busy_bar(shares))]
        for name, shares in (("recorded", ghost.recorded), ("predicted", ghost.predicted))
    ]
    return Table("stream", ghost.stream, ("", ""), (False, False), rows, sortable=False)


def _busy_bar(shares: Sequence[float]) -> str:
    """How busy, a character per part; a part that is busy at all is never blank."""
    return "".join(HEIGHTS[0 if not share else max(1, round(share * (len(HEIGHTS) - 1)))] for share in shares)
