"""What holds up all ranks of a job alike, by the profile of each whose trace was read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np

from npu_tui.analysis.limits import HALF, LITTLE, MAINLY, NOTABLE, SOME
from npu_tui.jobs.finding import Held
from npu_tui.jobs.job import Job
from npu_tui.jobs.model import RankFinding
from npu_tui.jobs.rings import root_of, rooted
from npu_tui.rules.model import Finding
from npu_tui.rules.rule import LISTED, SEVERITY_MEDIUM, lines_of, severity_of
from npu_tui.strings import words
from npu_tui.trace.message import Message, message

ALARM = SEVERITY_MEDIUM.default
"""Share of the job's time from which a cause is reported that only a sum or other ranks show."""
OF_OTHERS = ("COMM.STRAGGLER", "COMM.LINK")
"""What a rank says of others: the job sees those itself."""


def step_time(job: Job) -> Held:
    """What times of ``job`` refer to."""
    return Held.of_steps(job.length, job.steps)


def gains_of(job: Job, cases: Sequence[Sequence[int]]) -> list[int]:
    """What the job would save with all ranks of each of several sets as fast as their peers, ns."""
    place = {rank: number for number, rank in enumerate(job.blamed.ranks)}
    return job.savings.gains(
        [np.isin(job.blamed.rank, [place[rank] for rank in ranks if rank in place]) for ranks in cases]
    )


def placed(found: RankFinding) -> Message:
    """The title of what a rank found, with its line where it does not name it."""
    if found.line is None or words(line := lines_of(found.line[0], [found.line[1]])) in words(found.title):
        return found.title
    return message("job.alike.at", what=found.title, line=line)


def lost_by_all(job: Job, first: Finding | None) -> list[Finding]:
    """What holds up all ranks alike, by the profile of each rank with a trace: what gains most in all comes first.

    Beside the ``first`` finding of the job only what each rank loses more by counts, or all of them twice as much, or
    more by turns; and what it does itself: its communication may be waiting for what the job has found.
    """
    found = None if first is None else first.gain_ns or 0
    beyond = 1.0 if first is not None and first.id == "RANK.WANDER" else HALF
    examined = [profile for profile in job.ranks if profile.recorded is not None]
    own = [
        {
            row.about: row
            for row in reversed(profile.findings)
            if row.is_cause and row.id not in OF_OTHERS and (found is None or row.cls != "communication")
        }
        for profile in examined
    ]
    shared = set(own[0]).intersection(*own[1:]) if len(own) > 1 and job.length else set()
    every_rank = len(own)
    if not shared and found is None and (of_stages := _of_most_stages(job, own)) is not None:
        shared, having = {of_stages}, [of_stages in each for each in own]
        examined = [each for each, has in zip(examined, having, strict=True) if has]
        own = [each for each, has in zip(own, having, strict=True) if has]
    if not shared:
        return []
    # Without a cause the job is as long as the rank that gains least; the others are without it as well. A rank that
    # waited for those that have more of it waits less, but the job gains no more than one rank does in each step.
    alone = {about: [round(_alone_sum(each[about])) for each in own] for about in shared}
    # Stages wait for what others of them work, which stays.
    waits = [0] * len(own) if len(own) < every_rank else _waits_for_slower(job, [each.rank for each in examined])
    every = {
        about: round(min(_longest_of_each([each[about] for each in own]), *map(sum, zip(times, waits, strict=True))))
        for about, times in alone.items()
    }
    told: list[Finding] = []
    held = step_time(job)
    # A cause that is half of all exposed communication says more than that sum.
    weight = {about: every[about] * (HALF if own[0][about].id == "COMM.EXPOSED" else 1) for about in shared}
    for about in sorted(shared, key=lambda about: (-weight[about], repr(about))):
        gain = every[about]
        place = min(range(len(own)), key=lambda place: abs(alone[about][place] - gain))
        row = own[place][about]
        least, most = min(alone[about]) // row.count, max(alone[about]) // row.count
        if gain < ALARM * job.length or (found is not None and least * row.count <= found >= beyond * gain):
            continue
        count, of = len(examined), len(job.ranks) + len(job.missing)
        what = placed(row)
        if seen := _seen_in(job, [each[about] for each in own]):
            words_of = {"count": len(seen), "all": len(job.steps), "named": seen[:LISTED]}
            what = message(f"job.alike.steps{'_first' * (len(seen) > LISTED)}", what=what, **words_of)
        if (more := gain > (1 + LITTLE) * alone[about][place]) or most > (1 + NOTABLE) * least:  # not those of all
            words_of = {"rank": examined[place].rank, "gain": held.each(gain), **held.words}
            what = message(f"job.alike.{'gains' if more else 'of'}", what=what, **words_of)
        code = "most" if count < every_rank else "all" if count == of else "some"
        title = message(f"job.alike.{code}", count=count, of=of, what=what)
        args = {"least": least, "most": most, "share": gain / job.length, "rank": examined[place].rank, **held.words}
        code = "again" if told else "detail" if found is None else "detail_more"
        detail = message("list.sentences", parts=[message(f"job.alike.{code}", **args), *row.advice])
        if row.title.code == "finding.needless.sent.title" and (root := root_of(job)):
            title, detail = rooted(root, what, gain / job.length, held)
        ranks = tuple(profile.rank for profile in examined)
        told.append(Finding(row.id, row.cls, severity_of(None, gain / job.length), title, detail, gain_ns=gain,
                            unit="run", ranks=ranks))  # fmt: skip
    return told


def _of_most_stages(job: Job, own: Sequence[dict[Hashable, RankFinding]]) -> Hashable | None:
    """The cause that most stages of a pipeline have, whose first and last one do other work; None without one.

    Of several it is the one by which each loses most.
    """
    if max((len(run.ranks) for run in job.pipelines.runs), default=0) < SOME:
        return None
    having = Counter(about for each in own for about in each)
    often = [about for about, count in having.items() if count >= MAINLY * len(own)]
    least = {about: min(_alone_sum(each[about]) for each in own if about in each) for about in often}
    return max(least, key=lambda about: (least[about], repr(about)), default=None)


def _seen_in(job: Job, rows: Sequence[RankFinding]) -> list[str]:
    """The steps in which a rank of ``rows`` loses by them, where some are left out; empty where not all say it."""
    if {len(row.by_step) for row in rows} != {len(job.steps)}:
        return []
    times = np.array([row.by_step for row in rows], np.int64)
    lost = (times > NOTABLE * times.max()).any(axis=0)
    return [] if lost.all() else [step for step, there in zip(job.steps, lost.tolist(), strict=True) if there]


def _alone(row: RankFinding) -> list[float]:
    """What the rank gains in each step, ns, as recorded or with the others in time; in sum where no step is known."""
    most, whole = max(row.gain, row.freed) * row.count, sum(row.by_step)
    return [most * time / whole for time in row.by_step] if whole else [float(most)]


def _alone_sum(row: RankFinding) -> float:
    return sum(_alone(row))


def _longest_of_each(rows: Sequence[RankFinding]) -> float:
    """The sum of what the rank of ``rows`` that gains most gains in each step, where all know their steps, ns."""
    steps = [*map(_alone, rows)]
    return sum(map(max, zip(*steps, strict=True))) if len({*map(len, steps)}) == 1 else max(map(sum, steps))


def _waits_for_slower(job: Job, ranks: Sequence[int]) -> list[int]:
    """How long each of ``ranks`` waits for ranks that are slower than it, ns."""
    slower = {row.rank: row.own for row in job.sums}
    most = gains_of(job, [[*slower]])[0] if slower else 0
    return [max(most - max(slower.get(rank, 0), 0), 0) for rank in ranks]
