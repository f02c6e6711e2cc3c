"""The report about a job in words, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from npu_tui.report.job.schema import ClockBend, ClockRow, JobFindingRow, JobReport, RankRow
from npu_tui.strings import say
from npu_tui.trace.text import cell_count, duration_text, padded, printable, share_text

_MOST_RANKS = 16
_MOST_COLLECTIVES = 8
_MOST_LINKS = 8
_MOST_RANGE = 6


def job_text(found: JobReport) -> str:
    """The lines of ``found``: verdict, findings, clock, ranks, collectives, links, and what was not checked."""
    lines = [head_line(found), "", found.verdict]
    lines += _section("findings", [line for each in found.findings for line in finding_lines(found, each)])
    lines += _section("clock", _columns([clock_cells(row) for row in shown_clocks(found)], "<><<"))
    rows = rank_cells(found)
    lines += _section("ranks", [*_columns(rows, "<<" + ">" * (len(rows[0]) - 2)), *_alike(found)])
    cells = collective_cells(found)
    lines += _section("collectives", _columns(cells, "<<<>><") if len(cells) > 1 else [])
    lines += _section("links", link_lines(found))
    lines += _section("not_checked", found.not_checked)
    return "\n".join(map(printable, lines)) + "\n"


def collective_cells(found: JobReport) -> list[list[str]]:
    """The collectives that were waited for the longest, under a row of headings."""
    rows = sorted((row for row in found.collectives if row.second_us), key=lambda row: -row.second_us)
    names = ("type", "step", "last", "waits", "transfer", "ends")
    return [
        [say(f"job.column.{name}") for name in names],
        *(
            [
                row.type,
                say("job.in_step", step=row.step) if row.step else "",
                say("job.nobody") if row.last_rank is None else say("job.last", rank=row.last_rank),
                duration_text(row.second_us * 1e3),
                duration_text(row.transfer_us * 1e3),
                say("job.spread", time=row.end_spread_us * 1e3),
            ]
            for row in rows[:_MOST_COLLECTIVES]
        ),
    ]


def link_lines(found: JobReport) -> list[str]:
    """The links that stand out; the slowest one where none does."""
    slow = [link for link in found.links if link.verdict != "as_others"]
    slow = slow or sorted(found.links, key=lambda link: link.z)[:1]
    return [
        say(
            f"job.link.{link.verdict}",
            source=link.src,
            target=link.dst,
            transport=link.transport,
            type=link.type,
            speed=link.gb_s,
            expected=link.expected_gb_s,
        )
        for link in slow[:_MOST_LINKS]
    ]


def head_line(found: JobReport) -> str:
    """Where the job lies and what of it."""
    steps = say("job.no_steps")
    if found.steps:
        first, last = found.steps[0], found.steps[-1]
        steps = say("job.steps.one", step=first) if first == last else say("job.steps", first=first, last=last)
    where = {"ranks": len(found.rank_table), "hosts": len(found.hosts), "traces": found.source.traces}
    return say("job.head", path=found.source.path, steps=steps, **where)


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return ["", say(f"job.{title}"), *(f"  {line}" for line in lines)] if lines else []


def _columns(rows: list[list[str]], align: str) -> list[str]:
    widths = [max((cell_count(row[k]) for row in rows), default=0) for k in range(len(align))]
    return [
        "  ".join(
            padded(cell, width, right=side == ">") for cell, width, side in zip(row, widths, align, strict=True)
        ).rstrip()
        for row in rows
    ]


def finding_lines(found: JobReport, each: JobFindingRow) -> list[str]:
    """A finding: its title, what it means, and why the rank is slow."""
    why = reasons_of(found, each)
    return [f"{each.id}  {each.title}", f"    {each.detail}", *([f"    {say('job.why', why=why)}"] if why else [])]


def reasons_of(found: JobReport, each: JobFindingRow) -> str:
    """Why the rank that a finding names alone is slow; empty where nothing tells."""
    ranks = each.ranks if each.id == "RANK.SLOW" else []
    row = next((row for row in found.rank_table if len(ranks) == 1 and row.rank == ranks[0]), None)
    return "" if row is None else " · ".join(row.why)


def shown_clocks(found: JobReport) -> list[ClockRow]:
    """The clocks worth a line: of a large job those that are not tied, drift, or are known the least."""
    rows = found.clock
    if len(rows) <= _MOST_RANKS:
        return rows
    return sorted(rows, key=lambda row: (row.offset_us is not None, -(row.error_us or 0)))[:_MOST_RANKS]


def clock_cells(row: ClockRow) -> list[str]:
    """Rank, offset with its ±, the interval that is certain, and how it is known."""
    if row.offset_us is None or row.error_us is None:
        return [say("job.rank", rank=row.rank), "", "", say("job.method.none")]
    interval = ""
    if row.method != "reference" and row.low_us is not None and row.high_us is not None:
        interval = say("job.interval", low=row.low_us, high=row.high_us)
    offset = say("job.offset", offset=row.offset_us, error=row.error_us)
    course = say("job.drifts", drift=row.drift_us_per_s) if row.drift_us_per_s else ""
    if (bend := greatest_bend(row)) is not None:
        course += say("job.bends", gained=bend.gained_us, after=bend.after_us * 1e3)
    return [say("job.rank", rank=row.rank), offset, interval, say(f"job.method.{row.method}") + course]


def greatest_bend(row: ClockRow) -> ClockBend | None:
    """Where a clock that does not drift evenly is the farthest from an even drift; None where it drifts evenly."""
    return max(row.bends, key=lambda bend: abs(bend.gained_us), default=None)


def shown_ranks(found: JobReport) -> list[RankRow]:
    """The ranks with the most work above their peers; all of a small job."""
    return sorted(found.rank_table, key=lambda row: (-(row.gain_us or 0), -row.own_excess_us, row.rank))[:_MOST_RANKS]


def _alike(found: JobReport) -> list[str]:
    rest = len(found.rank_table) - _MOST_RANKS
    return [say("job.more_ranks", count=rest)] if rest > 0 else []


def rank_cells(found: JobReport) -> list[list[str]]:
    """The shown ranks under a row of headings."""
    names = ["rank", "host", "step", "computing", "exposed", "free", "own", "last", "waits", "gain"]
    waits = tells_exposed_waits(found)
    if waits:
        names.insert(9, "waits_exposed")
    return [[say(f"job.column.{name}") for name in names], *(_rank_cells(row, waits) for row in shown_ranks(found))]


def tells_exposed_waits(found: JobReport) -> bool:
    """Whether of any rank it is known how much of the time that the job waits for it is not hidden by computing."""
    return any(row.job_waits_exposed_us is not None for row in found.rank_table)


def _rank_cells(row: RankRow, waits: bool) -> list[str]:
    def time(us: float | None) -> str:
        return say("report.unknown") if us is None else duration_text(us * 1e3)

    share = share_text(row.came_last / row.collectives) if row.collectives else ""
    return [
        say("job.rank", rank=row.rank),
        row.host,
        time(row.step_us),
        time(row.computing_us),
        time(row.communication_not_overlapped_us),
        time(row.free_us),
        time(row.own_excess_us),
        f"{row.came_last}/{row.collectives} {share}".rstrip(),
        time(row.job_waits_us),
        *([time(exposed_waits(row))] if waits else []),
        time(row.gain_us),
    ]


def exposed_waits(row: RankRow) -> float | None:
    """What of the time that the job waits for a rank is not hidden by computing, us; None where no trace tells."""
    return 0.0 if not row.job_waits_us else row.job_waits_exposed_us
