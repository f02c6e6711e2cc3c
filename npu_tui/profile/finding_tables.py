"""The tables about verdicts: findings, the places that prove them, and the critical path.

Those of the critical path have its stretches and their owners.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from npu_tui.analysis.code_lines import CodeLine
from npu_tui.analysis.communication import UNKNOWN as NOBODY
from npu_tui.analysis.communication import lane_and_place
from npu_tui.analysis.path import KINDS, Owner, PathKind
from npu_tui.analysis.replay_host import thread_numbers
from npu_tui.profile.columns import UNKNOWN, lanes_of, times
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import (
    CodedLabels,
    Column,
    Data,
    NestedRows,
    Span,
    TableSheet,
    attributes,
    coded,
    columns,
    labels,
    numbers,
    optional,
    row_type,
    table,
    us,
)
from npu_tui.rules.inputs import first_of_largest
from npu_tui.rules.judged_path import JudgedPath, explained, owner_name, owner_text
from npu_tui.rules.model import Base, Confidence, Evidence, Finding, FindingClass, Severity
from npu_tui.strings import say, words
from npu_tui.trace.arrays import I64
from npu_tui.trace.message import Message
from npu_tui.trace.text import printable

EvidenceRow = row_type(
    "EvidenceRow",
    "A place that proves a finding; ``lane`` is None where it is on none.",
    start_us=float,
    end_us=float,
    lane=str | None,
    name=str,
    note=str,
)
PlaceRow = row_type("PlaceRow", "A line of code.", file=str, line=int, function=str)

_OWN = {
    **columns("whole", "", "count", "gain_after count"),
    **columns("label", "", "word", "per", "finding.unit"),
    **columns("rows", "", "word", "evidence advice steps code_lines sources"),
}


def findings(profile: Profile, known: Sequence[Finding] | None = None) -> TableSheet:
    """The findings in the order of work, each at its first place; ``known`` where they are known.

    Raises ``InputError`` if the file is gone.
    """
    known = profile.findings.findings if known is None else known

    def proofs(finding: Finding) -> list[Any]:
        lanes = profile.trace.lanes
        return [
            EvidenceRow(
                us(place.start),
                us(place.end),
                None if place.lane is None else printable(lanes[place.lane].name),
                words(place.name),
                words(place.note),
            )
            for place in finding.evidence
        ]

    return TableSheet(
        len(known),
        {
            "number": numbers(np.arange(1, len(known) + 1)),
            **attributes(
                known,
                "id class=cls severity gain=gain_ns per=unit count "
                "step_after=step_after_ns part_of confidence hidden gain_after",
                _OWN,
                title=lambda finding: words(finding.title),
                detail=lambda finding: words(finding.detail),
                gain_alone=lambda finding: None if finding.remedy is None else finding.remedy.gain,
                whatif=lambda finding: finding.whatif,
            ),
            "evidence": NestedRows(lambda: list(map(proofs, known))),
            "advice": NestedRows(lambda: [list(map(words, finding.advice)) for finding in known]),
            "steps": NestedRows(lambda: [list(finding.steps) for finding in known]),
            "code_lines": NestedRows(
                lambda: [
                    [PlaceRow(printable(code.file), code.line, printable(code.function)) for code in finding.code_lines]
                    for finding in known
                ]
            ),
            "sources": NestedRows(lambda: [list(finding.sources) for finding in known]),
            **_evidence_columns(profile, [next(iter(finding.evidence), None) for finding in known]),
        },
        lambda row: [
            Span(
                place.start, place.end, place.lane, place.slice, say("findings.place", name=place.name, note=place.note)
            )
            for place in known[row].evidence
        ],
        code=lambda row: next(iter(known[row].code_lines), None),
        base=Base(known[0].unit, known[0].count) if known else None,
    )


FINDINGS = table(
    "findings",
    findings,
    sql="rank number id class severity title detail gain per count step_after gain_alone whatif part_of "
    "confidence hidden "
    "slice start end duration start_ns",
    json="id cls=class severity title detail evidence advice gain? per count gain_after step_after? "
    "gain_alone? whatif? part_of? steps hidden confidence code_lines sources",
    panel="number class=severity gain line=place what=title",
    section="findings",
    row="FindingRow",
    about="""A finding; ``gain_us`` is what the step would lose in length, None where it cannot be told.

    ``per`` says of what: a step, or what repeats in a run without steps (token, iteration, repetition), else
    the whole run or range; ``count`` is how many of them were measured.

    ``step_after_us`` is None for what is no step of the ladder, ``part_of`` for what no other finding contains.
    ``gain_after`` is how many findings above must be fixed first for the gain, as they take as long at the same time.
    ``whatif`` is the change that replays the run without it, None where none does; ``gain_alone_us`` is its gain.
    ``steps`` are the numbers of the steps it shows in.
    """,
    own=_OWN,
    types={
        "class": FindingClass,
        "severity": Severity,
        "confidence": Confidence,
        "evidence": list[EvidenceRow],  # type: ignore[valid-type]
        "advice": list[str],
        "steps": list[int],
        "code_lines": list[PlaceRow],  # type: ignore[valid-type]
        "sources": list[str],
    },
)


def evidence(profile: Profile) -> TableSheet:
    """Every place that proves a finding."""
    rows: list[tuple[int, Finding, Evidence]] = [
        (number, finding, place)
        for number, finding in enumerate(profile.findings.findings, 1)
        for place in finding.evidence
    ]
    lanes = profile.trace.lanes
    places = [place for _, _, place in rows]
    return TableSheet(
        len(rows),
        {
            "number": numbers(np.array([number for number, _, _ in rows], np.int64)),
            "id": labels([finding.id for _, finding, _ in rows]),
            "name": labels([words(place.name) for place in places]),
            "note": labels([words(place.note) for place in places]),
            "lane": labels([None if place.lane is None else lanes[place.lane].name for place in places]),
            **_evidence_columns(profile, places),
        },
    )


EVIDENCE = table("evidence", evidence, sql="rank number id slice name note lane start end duration start_ns")


def _evidence_columns(profile: Profile, places: list[Evidence] | list[Evidence | None]) -> dict[str, Data]:
    origin = profile.tables.start_ns
    columns = ("slice", "start", "end", "duration", "start_ns")
    cells: list[tuple[int | None, ...]] = [
        (None,) * len(columns)
        if place is None
        else (place.slice, place.start, place.end, place.end - place.start, place.start + origin)
        for place in places
    ]
    return {column: optional([row[k] for row in cells]) for k, column in enumerate(columns)}


OWN: dict[str, Column] = {
    **columns("label", "", "word", "kind", "path.kind"),
    **columns("label", "", "word", "doing finding"),
    **columns("label", "", "name", "title name lane"),
    **columns("label", "", "word", "per", "finding.unit"),
    **columns("whole", "", "id", "owner index thread"),
    **columns("whole", "", "count", "count stretches"),
    **columns("rows", "", "word", "where"),
}
"""The columns of all tables about critical paths."""
_OF_PATH = {**OWN, **columns("whole", "ns", "time", "on_path"), **columns("real", "ns", "time", "each")}


def critical_path(profile: Profile, paths: Sequence[JudgedPath] | None = None) -> TableSheet:
    """Every stretch of the paths of all devices that have one, or of ``paths``: each begins where the one before ends.

    Raises ``InputError`` as ``Profile.critical_paths``.
    """
    told = [path for path in profile.critical_paths if path.owners is not None] if paths is None else paths
    rows = [path.owners.path for path in told if path.owners is not None]
    count = sum(map(len, rows))

    def gathered(*columns: I64) -> I64:
        return np.concatenate([np.zeros(0, np.int64), *columns])

    start, end, item, kind, thread = (
        gathered(*(getattr(path, name) for path in rows)) for name in ("start", "end", "item", "kind", "thread")
    )
    owner = gathered(*(path.owners.owner for path in told if path.owners is not None))
    device = gathered(*(np.full(len(path), _device_number(one.device)) for one, path in zip(told, rows, strict=True)))
    lane = np.where(item >= 0, np.append(profile.trace.slices.lane, UNKNOWN)[item], _lane_of_threads(profile)[thread])
    text, code = _stretch_names(profile, told, item, owner, np.repeat(np.arange(len(rows)), list(map(len, rows))))

    return TableSheet(
        count,
        {
            "device": numbers(device, UNKNOWN),
            **times(profile, start, end - start),
            "kind": coded(KINDS, kind),
            "lane": lanes_of(profile, lane),
            "name": coded(text, code),
            "slice": numbers(item, UNKNOWN),
            "owner": numbers(owner + 1),
            "index": numbers(owner),
        },
    )


def _device_number(device: int | None) -> int:
    return UNKNOWN if device is None else device


def _lane_of_threads(profile: Profile) -> I64:
    """The first lane of every host thread, then -1 for none; (threads + 1,)."""
    tids, number = thread_numbers(profile.trace)
    lane = np.full(len(tids) + 1, UNKNOWN, np.int64)
    known = np.flatnonzero(number >= 0)[::-1]
    lane[number[known]] = known
    return lane


def _stretch_names(
    profile: Profile, told: Sequence[JudgedPath], item: I64, owner: I64, path: I64
) -> tuple[list[str], I64]:
    """What each stretch is called: its slice, else its owner."""
    name = np.where(item >= 0, np.append(profile.trace.slices.name, UNKNOWN)[item], UNKNOWN)
    codes, code = np.unique(name[item >= 0], return_inverse=True)
    text = [profile.trace.names[known] for known in codes.tolist()]
    result = np.zeros(len(item), np.int64)
    result[item >= 0] = code
    for number, one in enumerate(told):
        mine = np.flatnonzero((item < 0) & (path == number))
        owners = () if one.owners is None else one.owners.owners
        for own in np.unique(owner[mine]).tolist():
            result[mine[owner[mine] == own]] = len(text)
            text.append(words(owner_text(profile.trace, owners[own])))
    return text, result


CRITICAL_PATH = table(
    "critical_path",
    critical_path,
    sql="rank device start end duration start_ns kind lane name slice owner",
    json="start end kind lane? name owner=index",
    row="PathStretchRow",
    about="""A stretch of the critical path, on the clock of the host; it begins where the one before ends.

    ``owner`` is the index of whose it is in ``owners``, from 0. ``lane`` is None where it is on none.
    """,
    own=_OF_PATH,
    types={"kind": PathKind},
)


def path_owners(profile: Profile, paths: Sequence[JudgedPath] | None = None) -> TableSheet:
    """The owners of the paths of all devices, or of ``paths``: in each path the one with the most time first.

    Raises ``InputError`` as ``Profile.critical_paths``.
    """
    told = [path for path in profile.critical_paths if path.owners is not None] if paths is None else paths
    trace = profile.trace
    rows = [
        (path, number, owner, path.owners.path.length)
        for path in told
        if path.owners is not None
        for number, owner in enumerate(path.owners.owners, 1)
    ]
    owners = [owner for _, _, owner, _ in rows]

    @cache
    def finding() -> CodedLabels:  # the screen shows owners without waiting for findings
        found = profile.findings.findings if rows else ()
        return labels([None if known is None else known.id for known in explained(owners, found)])

    return TableSheet(
        len(rows),
        {
            "device": numbers(np.array([_device_number(path.device) for path, *_ in rows], np.int64), UNKNOWN),
            "number": numbers(np.array([number for _, number, *_ in rows], np.int64)),
            "ratio": numbers(np.array([owner.on_path / max(length, 1) for *_, owner, length in rows], np.float64)),
            **owner_columns([(owner, owner_text(trace, owner), owner_name(trace, owner)) for owner in owners]),
            **attributes(
                [(path, owner) for path, _, owner, _ in rows],
                "",
                _OF_PATH,
                peer_rank=lambda row: _late_rank(row[1]),
                on_path=lambda row: row[1].on_path,
                each=lambda row: row[1].on_path / row[0].count,
                gain=lambda row: None if (gain := row[0].gain_of(row[1])) is None else round(gain),
                per=lambda row: row[0].unit,
                count=lambda row: row[0].count,
            ),
            "finding": CodedLabels(lambda: finding().texts(), lambda first, last: finding().part(first, last)),
        },
        lambda row: _longest_stretches(rows[row][0], rows[row][1] - 1),
        code=lambda row: owners[row].where,
        base=Base(told[0].unit, told[0].count) if told else None,
    )


def _longest_stretches(told: JudgedPath, number: int) -> list[Span]:
    """The longest stretches of an owner, each on the clock of the lane that it is on."""
    assert told.owners is not None
    path = told.owners.path
    own = np.flatnonzero(told.owners.owner == number)
    spans = []
    for at in own[first_of_largest((path.end - path.start)[own], _MOST_PLACES)].tolist():
        shift, item = told.shift(at), int(path.item[at])
        start, end = int(path.start[at]) + shift, int(path.end[at]) + shift
        spans.append(Span(start, end, slice=item if item >= 0 else None, marked=False))
    return spans


_MOST_PLACES = 200  # stretches of an owner that a row of the screen leads to


def owner_columns(rows: Sequence[tuple[Any, Message, Message]]) -> dict[str, Data]:
    """The columns that say what owners are, each with its text and name: an ``Owner`` or the ``JobOwner`` of a job."""
    return attributes(
        rows,
        "",
        OWN,
        kind=lambda row: row[0].kind,
        doing=lambda row: row[0].doing,
        title=lambda row: words(row[1]),
        name=lambda row: words(row[2]),
        file=lambda row: row[0].where and row[0].where.file,
        line=lambda row: row[0].where and row[0].where.line,
        function=lambda row: row[0].where and row[0].where.function,
        where=lambda row: place_row(row[0].where),
        thread=lambda row: None if row[0].thread < 0 else row[0].thread,
        stretches=lambda row: row[0].count,
    )


def place_row(line: CodeLine | None) -> Any:
    """A line of code in JSON."""
    return None if line is None else PlaceRow(printable(line.file), line.line, printable(line.function))


def _late_rank(owner: Owner) -> int | None:
    """The rank of the job that comes late; None where it only has a place in a group, or is unknown."""
    if owner.kind != "late_rank":
        return None
    lane, place = lane_and_place(owner.peer)
    return place if lane < 0 and place != NOBODY else None


PATH_OWNERS = table(
    "path_owners",
    path_owners,
    sql="rank device number kind doing title name file line function thread peer_rank stretches on_path ratio gain per "
    "count finding",
    json="number kind doing title name where? thread? rank=peer_rank? count=stretches on_path ratio gain? finding?",
    page="number owner=title kind share=ratio time=on_path each gain finding",
    panel="device share=ratio time=on_path each gain count=stretches kind owner=title",
    row="PathOwnerRow",
    about="""Whose some stretches of the critical path are; ``title`` says it in a few words, ``name`` without its line.

    ``doing`` is work (it launches nothing), launch, wait (for the device) or device. ``where`` is the line of the
    user, ``thread`` the id of the host's thread, ``rank`` the one that comes late, by its number in the job. ``count``
    counts its stretches: they take ``on_path_us`` in all, ``ratio`` of the path. By ``gain_us`` one of what the path's
    ``per`` names is shorter without it; None for what one cannot do without, such as kernels at their length, and for
    what takes next to nothing. ``finding`` is the first that does without all of it.
    """,
    own=_OF_PATH,
    types={"kind": PathKind, "where": PlaceRow},
)
