"""What a gate asks of a job of several ranks."""

from __future__ import annotations

from npu_tui.gate.checks import Check
from npu_tui.gate.limits import parse_share
from npu_tui.jobs.job import Job
from npu_tui.strings import say
from npu_tui.trace.text import parse_duration

JOB_LIMITS = {"max_rank_wait": "rank_wait", "max_own_excess": "own_excess"}
"""The measure that each option limits: what the job waits for one rank, and what one works longer than its peers."""

Most = tuple[float | None, float | None]
"""The most a measure may be: a share of the job's time, or a time in us."""


def parse_most(text: str) -> Most | None:
    """The limit in ``text``, such as ``2%`` or ``5ms``; None if it is none."""
    share = parse_share(text)
    time = parse_duration(text) if share is None and text.strip()[-1:].isalpha() else None
    if share is None and (time is None or time < 0):
        return None
    return share, None if time is None else time / 1000


def job_checks(job: Job, limits: dict[str, Most]) -> list[Check]:
    """A check for each of ``limits`` by measure; one that nothing was measured for does not pass."""
    return [_checked(job, measure, share, time) for measure, (share, time) in limits.items()]


def _checked(job: Job, measure: str, share: float | None, time: float | None) -> Check:
    length = job.length / 1e3
    if not job.blamed or not length:
        return Check("limit", measure, "not_measured", text=say("gate.job.nothing"))
    if measure == "own_excess" and all(arrival.own is None for each in job.blamed for arrival in each.arrivals):
        return Check("limit", measure, "not_measured", text=say("gate.job.no_peers"))
    value, rank = max(((own.cost if measure == "rank_wait" else own.own) / 1e3, own.rank) for own in job.sums)
    most = time if share is None else share * length
    status = "pass" if most is not None and value <= most else "fail"
    text = say("gate.job.rank", rank=rank)
    return Check("limit", measure, status, round(value, 3), most, value / length, share, text=text)  # type: ignore[arg-type]
