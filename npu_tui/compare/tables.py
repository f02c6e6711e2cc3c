"""The tables of a comparison: parts of the step, kernels, lines of code, collectives, settings, known findings.

``make`` of a table takes the comparison. A pair in a cell of JSON is (base, new); differences are new minus base, per
step. Pages have a column for each side of a pair, which the document writes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from npu_tui.analysis.path import PathKind
from npu_tui.compare.comparison import OwnersUnknown, ProfileComparison
from npu_tui.compare.kernels import GroupSide as GroupTimes
from npu_tui.compare.kernels import Identity
from npu_tui.load.errors import InputError
from npu_tui.profile.finding_tables import PlaceRow, place_row
from npu_tui.profile.table import Column, TableSheet, attribute_rows, columns, from_tuples, row_type, table, us
from npu_tui.rules.model import Evidence, Finding, FindingClass, Severity, SideName
from npu_tui.strings import words
from npu_tui.trace.text import printable

_OWN: dict[str, Column] = {
    **columns("real", "ns", "change", "delta by_count by_duration"),
    **columns("real", "ns", "time", "part_base part_new base_time new_time base_wait new_wait"),
    **columns("real", "", "mean_count", "base_calls new_calls"),
    **columns("real", "0..1", "share", "p q ratio"),
    **columns("label", "", "name", "formats group was key"),
    **columns("label", "", "word", "setting_base setting_new finding rung"),
    **columns("label", "", "word", "id", "compare.part"),
    **columns("label", "", "word", "change", "compare.change"),
    **columns("label", "", "word", "came", "compare.profile_finding"),
    **columns("whole", "", "id", "base_line ordinal delta_ns_times_nm"),
    **columns("whole", "ns", "time", "owner_base owner_new"),
    **columns("whole", "ns", "change", "owner_delta"),
    **columns("label", "", "word", "kind", "path.kind"),
    **columns("label", "", "word", "doing"),
    **columns("rows", "", "word", "where"),
    **columns(
        "rows",
        "",
        "word",
        "base_side new_side lost_us launch_counts elapsed_us wait_us transfer_us peers evidence advice",
    ),
}
_TIMES = tuple[float | None, float | None]


GroupSide = row_type(
    "GroupSide", "The calls of one group, per step.", count=float, total_us=float, median_us=float | None
)


def parts(comparison: ProfileComparison) -> TableSheet:
    """Every class of the wall time; those that no trace of communication has come last, unknown."""
    rows: list[tuple[Any, ...]] = [(row.part, row.base, row.new, row.delta, row.exact) for row in comparison.parts]
    known = {row[0] for row in rows}
    rows += [(name, *[None] * 4) for name in ("wait", "transfer") if rows and name not in known]
    return from_tuples(rows, "id part_base part_new delta delta_ns_times_nm", _OWN)


PARTS = table(
    "parts",
    parts,
    json="id base=part_base? new=part_new? delta? delta_ns_times_nm?",
    page="part_of_step=id base=part_base new=part_new change=delta",
    row="Part",
    about="One class of the wall time; the differences of all sum to that of the step.",
    own=_OWN,
)


def groups(comparison: ProfileComparison) -> TableSheet:
    """Kernels of one kind on both sides."""
    return attribute_rows(
        comparison.groups,
        "change rung delta by_count by_duration p q ratio was=formerly",
        _OWN,
        **{name: attrgetter(f"identity.{name}") for name in Identity._fields},
        base_side=lambda row: _side(row.base),
        new_side=lambda row: _side(row.new),
    )


def _side(side: GroupTimes) -> Any:
    return GroupSide(round(side.count, 6), us(side.total), us(side.median))


GROUPS = table(
    "groups",
    groups,
    json="type shapes? dtypes? formats? core? change rung base=base_side new=new_side delta by_count by_duration p? q? "
    "was? ratio?",
    page="change_kind=change base_calls base=base_time new_calls new=new_time change=delta by_count by_duration ratio "
    "p=q kernel=type",
    row="Group",
    about="""Kernels of one kind; ``change`` says what happened to them, ``rung`` how they were matched.

    ``ratio`` is the new total over that of the base. On the rung ``operation`` the type is what launched them.
    """,
    own=_OWN,
    types={"base_side": GroupSide, "new_side": GroupSide},
)


def lines(comparison: ProfileComparison) -> TableSheet:
    """Code lines by the lost time of their launches."""
    return attribute_rows(
        comparison.lines,
        "delta",
        _OWN,
        file=lambda row: row.code and row.code.file,
        line=lambda row: row.code and row.code.line,
        function=lambda row: row.code and row.code.function,
        base_line=lambda row: row.base and row.base.code and row.base.code.line,
        lost_us=lambda row: tuple(us(float(side.lost)) if side else 0.0 for side in (row.base, row.new)),
        launch_counts=lambda row: tuple(round(side.launches, 6) if side else 0 for side in (row.base, row.new)),
    )


LINES = table(
    "lines",
    lines,
    json="file? line? base_line? function? lost_us launches=launch_counts delta",
    page="base=base_time new=new_time change=delta line=file",
    row="Line",
    about="A code line by the lost time of its launches; ``base_line`` is its number in the base.",
    own=_OWN,
    types={"lost_us": tuple[float, float], "launch_counts": tuple[float, float]},
)


def owners(comparison: ProfileComparison) -> TableSheet:
    """The owners of the steps; none where a side does not know them."""
    rows = comparison.owners
    return attribute_rows(
        () if isinstance(rows, OwnersUnknown) else rows,
        "owner_base=base_ns owner_new=new_ns owner_delta=delta delta_ns_times_nm=exact",
        _OWN,
        kind=attrgetter("known.kind"),
        doing=attrgetter("known.doing"),
        name=lambda row: words(row.known.name),
        where=lambda row: place_row(row.known.where),
    )


OWNERS = table(
    "owners",
    owners,
    json="kind doing name where? base=owner_base new=owner_new delta=owner_delta delta_ns_times_nm",
    page="owner=name kind base=owner_base new=owner_new change=owner_delta",
    row="OwnerDelta",
    about="""Whose a part of the step is by the critical path, per step; the differences of all sum to that of the step.

    ``doing`` is work (it launches nothing), launch, wait (for the device) or device. Times are whole ns: those of each
    side sum to its mean step. What the path does not reach is ``unexplained``.
    """,
    own=_OWN,
    types={"kind": PathKind, "where": PlaceRow},
)


def collectives(comparison: ProfileComparison) -> TableSheet:
    """The collectives at the same place of the step."""

    def times(name: str) -> Callable[[Any], Any]:
        return lambda row: tuple(us(getattr(side, name)) if side else None for side in (row.base, row.new))

    return attribute_rows(
        comparison.collectives,
        "type group ordinal",
        _OWN,
        elapsed_us=times("elapsed"),
        wait_us=times("wait"),
        transfer_us=times("transfer"),
        peers=lambda row: tuple(side.peer if side else None for side in (row.base, row.new)),
    )


COLLECTIVES = table(
    "collectives",
    collectives,
    json="type group ordinal elapsed_us wait_us transfer_us peer_rank=peers",
    page="base=base_time new=new_time change=delta base_wait new_wait collective=type",
    row="Collective",
    about="The collective at one place of the step: until its longest wait ended, and from there on.",
    own=_OWN,
    types={
        "elapsed_us": _TIMES, "wait_us": _TIMES, "transfer_us": _TIMES, "peers": tuple[int | None, int | None],
    },
)  # fmt: skip


CONFIG = table(
    "config",
    lambda comparison: attribute_rows(comparison.comparability.config, "key setting_base=base setting_new=new", _OWN),
    json="key base=setting_base? new=setting_new?",
    page="key base=setting_base new=setting_new",
    row="Setting",
    about="A setting, version or variable that differs.",
    own=_OWN,
)


EvidenceRow = row_type(
    "ComparedPlace",
    "Where a change is to be seen, on one side, µs since the start of that side's trace.",
    side=SideName,
    start_us=float,
    end_us=float,
    lane=str | None,
    name=str,
)


def changes(comparison: ProfileComparison, found: Sequence[Finding]) -> TableSheet:
    """The changes that were ``found``."""
    lanes = {name: side.trace.lanes for name, side in zip(("base", "new"), comparison.sides, strict=True)}

    def place(at: Evidence) -> Any:
        lane = None if at.lane is None else printable(lanes[at.side or "new"][at.lane].name)
        return EvidenceRow(at.side, us(at.start), us(at.end), lane, words(at.name))

    return attribute_rows(
        found,
        "id class=cls severity delta=delta_ns part_of",
        _OWN,
        title=lambda each: words(each.title),
        evidence=lambda each: list(map(place, each.evidence)),
        advice=lambda each: list(map(words, each.advice)),
    )


CHANGES = table(
    "changes",
    changes,
    json="id cls=class severity title delta? evidence advice part_of?",
    row="Change",
    about="One change; ``delta_us`` is what it adds to a step.",
    own=_OWN,
    types={
        "class": FindingClass, "severity": Severity, "advice": list[str],
        "evidence": list[EvidenceRow],  # type: ignore[valid-type]
    },
)  # fmt: skip


def profile_findings(comparison: ProfileComparison) -> TableSheet:
    """The findings above info that only one side has, of the rules that could be applied to both.

    Empty where a file is gone or has changed, as rules read files again.
    """
    try:
        (base, base_silent), (new, new_silent) = (side.profile.titles for side in comparison.sides)
    except InputError:
        return from_tuples((), "finding came title", _OWN)
    silent = base_silent | new_silent
    # Between two ranks of one job nothing came or went: one of them has it.
    came, went = ("only_new", "only_base") if comparison.comparability.same_job else ("new", "solved")
    rows = [(id, came, words(title)) for id, title in new.items() if id not in silent | base.keys()]
    rows += [(id, went, words(title)) for id, title in base.items() if id not in silent | new.keys()]
    return from_tuples(rows, "finding came title", _OWN)


PROFILE_FINDINGS = table(
    "profile_findings",
    profile_findings,
    json="id=finding change=came title",
    page="change_kind=came finding what_changed=title",
    row="KnownFinding",
    about="""A finding that only one of the two profiles has on its own.

    ``change`` is new or solved, between ranks of one job only_new or only_base.
    """,
    own=_OWN,
)
