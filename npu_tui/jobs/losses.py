"""What of a job is not there, as a share of what its figures rest on."""

from __future__ import annotations

from npu_tui.analysis.evidence import Loss
from npu_tui.jobs.job import Job, members
from npu_tui.load.companions import STEP_FILE
from npu_tui.load.documents import COMMUNICATION
from npu_tui.trace.message import message

_UNREAD = ("job.broken", "job.empty", "job.no_summary", "job.cluster.cut_off", "job.cluster.unreadable")
_UNPARSED = ("input.raw", "input.raw_below", "input.raw_below_more")


def job_losses(job: Job) -> list[Loss]:
    """What is not there of the job: ranks that cannot be read or have no collective, and what the others have lost."""
    losses = []
    unread = [reason for reason in job.broken if reason.code in _UNREAD or reason.code in _UNPARSED]
    every = len(job.ranks) + len(unread)
    losses += [Loss("slices", 1 / every, reason) for reason in unread]
    for part, profile in members(job):
        for problem in profile.problems:
            share = problem.args.get("share") if problem.code == "job.lost" else 1.0
            if problem.code == "job.lost" or (
                problem.code in ("job.unreadable", "job.cut_off")
                and problem.args.get("file") in (COMMUNICATION, STEP_FILE)
            ):
                losses.append(Loss("slices", share if isinstance(share, float) else 1.0, problem))
        if len(part.meetings) and not profile.calls:
            losses.append(Loss("slices", 1 / every, message("evidence.no_calls", rank=profile.rank)))
    return losses
