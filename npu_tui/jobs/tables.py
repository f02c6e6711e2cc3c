"""The tables of a job: ranks, hosts, groups, clocks, the heat map, collectives, links between ranks, findings.

Times are in us, as the clocks of ranks are known to fractions of it. ``make`` of a table takes the job.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from npu_tui.profile.table import (
    CodedLabels,
    Column,
    NestedRows,
    Numbers,
    TableSheet,
    attribute_rows,
    coded,
    columns,
    from_tuples,
    numbers,
    optional,
    row_type,
    table,
    us,
)
from npu_tui.strings import say, words
from npu_tui.trace.arrays import I64, in_groups
from npu_tui.trace.text import printable

if TYPE_CHECKING:  # a job is not needed to name its tables
    from npu_tui.jobs.blame import Blame
    from npu_tui.jobs.clock import RankClock
    from npu_tui.jobs.job import Job
    from npu_tui.rules.model import Finding

_OWN: dict[str, Column] = {
    **columns(
        "real", "µs", "time",
        "step computing communication_not_overlapped free own_excess inherited job_waits job_waits_exposed "
        "waits_exposed own_each waits_each exposed_each gain_each gain clock_offset late second transfer end_spread "
        "offset low high error waited without_wait fastest slowest_one beyond",
    ),
    **columns("label", "", "word", "in_step reasons interval role"),
    **columns("whole", "", "count", "rank_count edges count"),
    **columns("whole", "", "id", "src dst boot_epoch_ns slowest ordinal"),
    **columns("real", "", "speed", "gb_s expected_gb_s"),
    **columns("real", "", "mean_count", "z drift_us_per_s"),
    **columns("rows", "", "word", "why ranks bends evidence"),
    **columns("whole", "", "size", "size_bytes"),
    **columns("real", "0..1", "share", "last_share"),
    **columns("label", "", "word", "verdict", "ranks.link"),
    **columns("label", "", "word", "per", "finding.unit"),
    **columns("label", "", "word", "method", "job.method"),
}  # fmt: skip
_table, _sheet = partial(table, own=_OWN, subject="part"), partial(from_tuples, own=_OWN)

ArrivalRow = row_type(
    "ArrivalRow",
    "When a rank came, after the first one; ``at_most``: it may have come earlier.",
    rank=int,
    after_us=float,
    bound=Literal["exact", "at_most"],
)
EvidenceRow = row_type(
    "JobEvidenceRow",
    "Where a finding shows, on the device clock of the rank, ns since 1970.",
    rank=int,
    start_ns=int,
    end_ns=int,
)


def ranks(job: Job, absent: Sequence[int] = ()) -> TableSheet:
    """Every rank over all its steps; the ``absent`` ones, without files, have what the others say of them."""
    shape, clock_of = job.shapes, {clock.rank: clock for clock in job.clocks}
    tells = any(row.exposed is not None for row in job.sums)
    longest, count = {one.rank: one for one in job.longest}, max(len(job.steps), 1)
    rows: list[Sequence[Any]] = []
    for profile, row in zip(job.ranks, job.sums, strict=False):  # those without files come after
        clock, steps = clock_of[profile.rank], profile.steps
        why = [words(reason) for reason in job.reasons[profile.rank]]
        exposed = None if row.exposed is None else us(row.exposed)
        shown = (exposed if row.cost else 0.0) if tells and row.collectives else None
        figures: tuple[float | None, ...] = us(row.own), us(row.cost), us(row.gain)
        if (one := longest.get(profile.rank)) is not None:  # the steps show which rank worked longest
            figures = us(round(one.more)), us(row.cost) if row.collectives else None, us(round(one.gain))
        elif not row.collectives:
            figures = None, None, None
        own, cost, gain = figures
        # Files and queries have sums over all steps; a reader of a table compares them with the times of a step.
        each = [None if time is None else time / count for time in (own, cost, shown, gain)]
        rows.append(
            (
                profile.rank, job.role, _host_of(job, profile.rank), _mean_or_none([step.total for step in steps]),
                _mean_or_none([step.computing for step in steps]), _mean_or_none([step.exposed for step in steps]),
                _mean_or_none([step.free for step in steps]), own, us(row.inherited), row.came_last, row.collectives,
                cost, exposed, gain, shape.get(profile.rank), why,
                us(clock.offset) if clock.is_tied else None, shown,
                row.came_last / row.collectives if row.collectives else None,
                say("ranks.apart") if profile.rank in job.untied and not job.role else say("list.comma").join(why),
                *each,
            )
        )  # fmt: skip
    sums = {row.rank: row for row in job.sums if row.collectives}
    for rank in absent:
        seen = sums.get(rank)
        came: list[Any] = [None] * 6
        note = say("ranks.absent.silent")
        if seen is not None:
            exposed = None if seen.exposed is None else us(seen.exposed)
            met = seen.collectives
            came = [seen.came_last / met, seen.came_last, met, us(seen.cost), exposed, us(seen.gain)]
            note = say("ranks.absent.seen", count=met)
        told = rank, job.role, say("ranks.missing"), *[None] * 6, *came[1:], None, [], None
        each = [None if time is None else time / count for time in (came[3], came[4], came[5])]
        rows.append((*told, came[4], came[0], note, None, *each))
    return _sheet(
        rows,
        "rank role host step computing communication_not_overlapped free own_excess inherited came_last collectives "
        "job_waits job_waits_exposed gain shape why clock_offset waits_exposed last_share reasons own_each waits_each "
        "exposed_each gain_each",
    )


def _host_of(job: Job, rank: int) -> str:
    """What the host of ``rank`` is called."""
    host = job.host_of[rank]
    return printable(host.id) if host.known else say("ranks.host.unknown")


def _mean_or_none(times: list[int]) -> float | None:
    return us(sum(times) / len(times)) if times else None


_RANK_COLUMNS = (
    "rank role host step_time=step computing exposed=communication_not_overlapped free own=own_each last=last_share "
    "waits=waits_each waits_exposed=exposed_each saves=gain_each why=reasons"
)
RANKS = _table(
    "ranks",
    ranks,
    sql="rank role host step computing communication_not_overlapped free own_excess inherited came_last collectives "
    "job_waits gain shape clock_offset",
    json="rank role? host step? computing? communication_not_overlapped? free? own_excess? inherited came_last "
    "collectives job_waits? job_waits_exposed? gain? shape? why clock_offset?",
    page=_RANK_COLUMNS,
    panel=_RANK_COLUMNS,
    section="rank_table",
    row="RankRow",
    about="One rank over all its steps.",
    types={"why": list[str]},
)


def hosts(job: Job) -> TableSheet:
    """Every known host with the slowest of its ranks, the one with the most work above its peers."""
    sums = {row.rank: row for row in job.sums}
    error = {clock.rank: us(clock.error) or 0.0 for clock in job.clocks if clock.is_tied}
    rows = []
    for host in job.hosts:
        if not host.known:
            continue
        slowest = max(host.ranks, key=lambda rank: sums[rank].own)
        waits = us(sum(sums[rank].cost for rank in host.ranks))
        least_sure = max(error.get(rank, 0.0) for rank in host.ranks)
        rows.append(
            (
                printable(host.id), job.role, list(host.ranks), host.boot, len(host.ranks), slowest,
                us(sums[slowest].own), waits, least_sure,
            )
        )  # fmt: skip
    return _sheet(rows, "id role ranks boot_epoch_ns rank_count slowest own_excess job_waits error")


HOSTS = _table(
    "hosts",
    hosts,
    json="id role? ranks boot_epoch_ns?",
    panel="host=id ranks=rank_count slowest own=own_excess waits=job_waits error",
    section="hosts",
    row="HostRow",
    about="Ranks of one host; ``boot_epoch_ns`` is its wall clock at boot.",
    types={"ranks": list[int]},
)


def groups(job: Job) -> TableSheet:
    """Every group with how many collectives it had, and how long its last ranks made the others wait."""
    costs: dict[str, list[int]] = defaultdict(list)
    blamed = job.blamed
    for kind, cost in zip(blamed.met.kind[blamed.meeting].tolist(), blamed.cost.tolist(), strict=True):
        costs[job.calls.kinds[kind][0]].append(cost)
    rows = [
        (
            printable(group.name), job.role, group.kind, list(group.ranks), len(group.ranks), len(costs[group.name]),
            us(sum(costs[group.name])),
        )
        for group in job.groups
    ]  # fmt: skip
    return _sheet(rows, "name role kind ranks rank_count collectives job_waits")


GROUPS = _table(
    "groups",
    groups,
    json="name role? kind? ranks",
    panel="kind group=name ranks=rank_count collectives waits=job_waits",
    section="groups",
    row="GroupRow",
    about="Ranks that meet in collectives; ``kind`` is tp, pp, dp, ep, cp or mp.",
    types={"ranks": list[int]},
)


def clocks(job: Job) -> TableSheet:
    """Every rank's device clock minus the lowest rank's."""
    return _sheet(
        [_clock(job, clock) for clock in job.clocks if job.has_profiles],
        "rank role offset low high error method drift_us_per_s edges bends host",
    )


def _clock(job: Job, clock: RankClock) -> Sequence[Any]:
    offset, error = (us(clock.offset), us(clock.error)) if clock.is_tied else (None, None)
    return (
        clock.rank, job.role, offset, us(clock.low), us(clock.high), error, clock.method, round(clock.drift * 1e6, 3),
        clock.edges, [], _host_of(job, clock.rank),
    )  # fmt: skip


CLOCKS = _table(
    "clock",
    clocks,
    json="rank role? offset? low? high? error? method drift_us_per_s edges bends",
    page="rank role clock_offset=offset interval known_by=method",
    panel="rank host offset error low high drift=drift_us_per_s method",
    section="clock",
    row="ClockRow",
    about="That rank's device clock minus the lowest rank's: a point, what is certain, and what it rests on.",
    types={"bends": list[float]},  # always empty: what schema 1 has stays
)


def heat(job: Job) -> TableSheet:
    """Every rank in every step."""
    table, ranks = job.by_step, np.array([profile.rank for profile in job.ranks], np.int64)
    # A step is a text in JSON, and ordered as one: 10 before 2.
    order = np.array(sorted(range(len(table.steps)), key=table.steps.__getitem__), np.int64)
    places, columns = np.nonzero(table.took_part[:, order])
    steps = order[columns]
    return TableSheet(
        len(places),
        {
            "rank": numbers(ranks[places]),
            "role": _role(job, len(places)),
            "in_step": coded(table.steps, steps),
            "own_excess": _microseconds(table.own[places, steps]),
            "late": _microseconds(table.late[places, steps]),
        },
    )


HEAT = _table(
    "heat",
    heat,
    json="rank role? step=in_step own_excess late",
    section="heat",
    row="HeatCell",
    about="A rank in a step.",
)


def collectives(job: Job) -> TableSheet:
    """The collectives of several ranks by time; ``second`` is how long the last rank came after the second last."""
    blamed = job.blamed
    if not len(blamed):
        return _sheet((), "in_step group_name type ordinal last_rank second transfer end_spread arrivals rank_count")
    kind = blamed.met.kind[blamed.meeting]
    group, name, step = ([kind_of[k] for kind_of in job.calls.kinds] for k in range(3))
    times = {"second": blamed.cost, "transfer": blamed.transfer, "end_spread": blamed.spread}
    count = blamed.first[1:] - blamed.first[:-1]
    return TableSheet(
        len(blamed),
        {
            "role": _role(job, len(blamed)),
            "in_step": coded(step, kind),
            "group_name": coded(group, kind),
            "type": coded(name, kind),
            "ordinal": numbers(blamed.met.ordinal[blamed.meeting]),
            "last_rank": optional([None if last < 0 else blamed.ranks[last] for last in blamed.last.tolist()]),
            **{column: _microseconds(values) for column, values in times.items()},
            "arrivals": NestedRows(lambda: _arrivals_in_order(blamed)),
            "rank_count": numbers(count),
        },
    )


def _arrivals_in_order(blamed: Blame) -> list[list[Any]]:
    """The arrivals of each collective in their order."""
    after = (blamed.start - blamed.start[blamed.first[:-1]][blamed.row]).tolist()
    bounds = ["at_most" if at_most else "exact" for at_most in blamed.at_most.tolist()]
    rows = [
        ArrivalRow(blamed.ranks[rank], time / 1e3, bound)
        for rank, time, bound in zip(blamed.rank.tolist(), after, bounds, strict=True)
    ]
    return [rows[low:high] for low, high in zip(blamed.first[:-1].tolist(), blamed.first[1:].tolist(), strict=True)]


def _role(job: Job, count: int) -> CodedLabels:
    """The role of ``job`` repeated for so many rows, null without roles."""
    return coded([job.role or ""], np.full(count, 0 if job.role else -1, np.int64))


def _microseconds(ns: I64) -> Numbers:
    return numbers(ns / 1000)  # the float nearest to it has three decimals at most


COLLECTIVES = _table(
    "job_collectives",
    collectives,
    json="role? step=in_step group=group_name type ordinal last_rank? second transfer end_spread arrivals",
    page="type step=in_step last=last_rank waits=second transfer ends=end_spread",
    panel="type step=in_step number=ordinal group=group_name last=last_rank waits=second transfer ends=end_spread "
    "ranks=rank_count",
    section="collectives",
    row="CollectiveRow",
    about="A collective of several ranks; ``second_us`` is how long the last one came after the second last.",
    types={"arrivals": list[ArrivalRow]},  # type: ignore[valid-type]
)


def collective_costs(job: Job) -> TableSheet:
    """What the collectives of one type and group take once their last rank has come; most beyond the fastest first.

    The fastest of each is that with the same number in another step, which moves as much.
    """
    blamed = job.blamed
    kinds = [job.calls.kinds[code][:2] for code in blamed.met.kind[blamed.meeting].tolist()]
    places: dict[tuple[str, str], int] = {}
    place = np.array([places.setdefault(kind, len(places)) for kind in kinds], np.int64)
    took = np.maximum(blamed.transfer, 0)
    beyond, compared = took.copy(), np.zeros(len(took), np.bool_)
    for same in in_groups(place * (1 << 32) + blamed.met.ordinal[blamed.meeting]) if len(place) else ():
        beyond[same] -= took[same].min()
        compared[same] = len(same) > 1
    rows = [
        (
            job.role, *kind, len(items), us(int(blamed.cost[items].sum())), us(int(took[items].sum())),
            us(int(took[items].min())), us(int(took[items].max())),
            us(int(beyond[items].sum())) if compared[items].all() else None,
        )
        for kind, items in zip(places, in_groups(place), strict=True)
    ]  # fmt: skip
    return _sheet(sorted(rows, key=lambda row: (-(row[-1] or 0), -row[5])), _COSTS)


_COSTS = "role group_name type collectives waited without_wait fastest slowest_one beyond"
COLLECTIVE_COSTS = _table(
    "job_collective_costs",
    collective_costs,
    sql=_COSTS,
    json="role? group=group_name type count=collectives waited without_wait fastest slowest=slowest_one beyond?",
    page="type group=group_name count=collectives waits=waited without_wait fastest slowest=slowest_one beyond",
    section="collective_costs",
    row="JobCollectiveCostRow",
    about="""Collectives of one type and group from when the last rank had come to the first end, against the fastest.

    The fastest is that of the same number in another step, which moves as much; ``waited_us`` is for the last rank.
    """,
)


def links(job: Job) -> TableSheet:
    """From every rank to others, by kind of operation; ``z`` in robust standard deviations."""
    return attribute_rows(
        job.links,
        "src=source dst=target transport type verdict",
        _OWN,
        role=lambda link: job.role,
        size_bytes=lambda link: round(link.size_mb * 1e6),
        gb_s=lambda link: round(link.speed, 3),
        expected_gb_s=lambda link: round(link.expected, 3),
        z=lambda link: round(link.score, 2),
    )


LINKS = _table(
    "job_links",
    links,
    json="role? src dst transport type size_bytes gb_s expected_gb_s z verdict",
    panel="from=src to=dst transport type size=size_bytes speed=gb_s usual=expected_gb_s score=z verdict",
    section="links",
    row="LinkRow",
    about="From a rank to another in one kind of operation; ``z`` in robust standard deviations.",
)


def findings(job: Job, findings: Sequence[Finding]) -> TableSheet:
    """What is wrong with the job: ``findings``, the dearest first."""
    return attribute_rows(
        findings,
        "id role severity per=unit count",
        _OWN,
        title=lambda finding: words(finding.title),
        detail=lambda finding: words(finding.detail),
        ranks=lambda finding: list(finding.ranks),
        gain=lambda finding: us(finding.gain_ns),
        evidence=lambda finding: [EvidenceRow(place.rank, place.start, place.end) for place in finding.evidence],
    )


FINDINGS = _table(
    "job_findings",
    findings,
    json="id role? severity title detail ranks gain? per count evidence",
    panel="finding=id severity saves=gain what=title",
    row="JobFindingRow",
    about="What is wrong with the job; ``gain_us`` is that of the run, which is all of its steps.",
    types={"ranks": list[int], "evidence": list[EvidenceRow]},  # type: ignore[valid-type]
)
