"""What a job says first where no rank, stage or link is found at fault."""

from __future__ import annotations

from dataclasses import replace as changed
from pathlib import Path
from types import SimpleNamespace

import pytest
from cause import ranks_of
from cause_jobs import JOB
from made_jobs import simulated
from msgspec.structs import replace
from test_job_path import written

from npu_tui.analysis.code_lines import CodeLine
from npu_tui.jobs.findings import job_findings
from npu_tui.jobs.job import Job
from npu_tui.jobs.model import RankCalls, RankFinding, RankProfile, RecordedCall, StepTime
from npu_tui.jobs.opening import open_job
from npu_tui.jobs.part_tables import JOB_OWNERS
from npu_tui.jobs.path import JobOwner, JobPath, job_path
from npu_tui.jobs.several import lost_by_all
from npu_tui.jobs.summary import read_summaries, write_summary
from npu_tui.output.job_document import job_finding
from npu_tui.output.job_report import job_report, verdict
from npu_tui.rules.model import Finding
from npu_tui.strings import words
from npu_tui.trace.message import message

EPOCH = 1_760_000_000_000_000_000
MS = 1_000_000


def job(exposed: tuple[int, ...], level: int, kind: str = "trace_view_json") -> Job:
    """Ranks of three steps of 100 ms, with so many ms of exposed communication."""
    return Job(
        Path("job"),
        [
            RankProfile(
                rank,
                Path(f"rank{rank}"),
                kind,
                level=level,
                steps=tuple(StepTime(str(step), 30 * MS, ms * MS, (70 - ms) * MS, 100 * MS) for step in range(3)),
            )
            for rank, ms in enumerate(exposed)
        ],
        [],
    )


@pytest.mark.parametrize(("level", "why"), [(0, "record Level1"), (1, "use --traces")])
def test_exposed_communication_without_a_cause_leads_and_says_what_would_tell(level, why):
    said = words(verdict(job((25, 40), level), []))
    assert said.startswith(
        "cause not known: rank 1 spends 40.00 ms of 100.0 ms a step (40.0%) in exposed communication"
    )
    assert said.endswith(why)


def test_the_ranks_of_a_stage_that_waits_are_named_together():
    """Four ranks receive for as long, but for a little, and three compute meanwhile."""
    even, bubbles = job((45, 46, 47, 48, 20, 20, 20), 1), (40, 41, 42, 43, 0, 0, 0)
    ranks = [
        replace(profile, steps=tuple(replace(step, bubble=bubble * MS) for step in profile.steps))
        for profile, bubble in zip(even.ranks, bubbles, strict=True)
    ]
    said = words(verdict(Job(Path("job"), ranks, []), []))
    assert said == (
        "cause not known: ranks 0–3 wait 40.00 ms to 43.00 ms a step (41.5%) to receive from another pipeline stage "
        "(Bubble)"
    )
    said = words(verdict(Job(Path("job"), [ranks[3], *ranks[4:]], []), []))
    assert said.startswith("cause not known: rank 3 spends 48.00 ms of 100.0 ms a step (48.0%)")


def test_what_is_waited_for_in_ranks_without_files_comes_before_little(monkeypatch):
    """Files beside traces tell which collective takes long; a rank that is a little slow is no answer to that."""
    even = job((45, 46), 2, "companions")
    calls = [RecordedCall("pp", "batchSendRecv", "", str(step), None, 0, 30 * MS) for step in range(3)]
    ranks = [replace(profile, calls=RankCalls.of(calls)) for profile in even.ranks]
    title = message("job.slow.title", rank=0, of="a step", gain=MS, share=0.01)
    little = Finding("RANK.SLOW", "dispatch", "low", title, message("job.unexplained.waits"), ranks=(0,))
    monkeypatch.setattr("npu_tui.output.job_report.job_findings", lambda job: [little])
    first, second = job_report(Job(Path("job"), ranks, [])).verdict
    assert first.startswith(
        "cause not known: rank 1 spends 46.00 ms of 100.0 ms a step (46.0%) in exposed communication"
    )
    assert first.endswith(", where batchSendRecv takes 30.00 ms; files beside the traces do not tell who is waited for")
    assert second == words(title)


def test_a_job_that_hides_its_communication_has_nothing_to_explain():
    assert "cause not known" not in words(verdict(job((5, 20), 1), []))


def found(gain: int, file: str = "train.py", name: str = "json.dumps", thread: int = 7, **args) -> RankFinding:
    """A line of the user that holds up the rank for ``gain`` ms a step."""
    place = message("finding.place", place=f"{file}:31", function="main")
    title = message(
        "finding.work.title", time=gain * MS, chip="NPU", unit=message("finding.unit.step"),
        where=message("path.owner.work", line=place, name=name, thread=thread),
    )  # fmt: skip
    return RankFinding(**{"id": "HOST.WORK", "gain": gain * MS, "title": title, "cls": "dispatch", "line": (file, 31),
                          "count": 3, "is_cause": True} | args)  # fmt: skip


def alike(*ranks: tuple[RankFinding, ...], read: int | None = None) -> Job:
    """A job whose ranks have such findings by their own profiles, of which so many were read."""
    profiles = [
        replace(profile, findings=findings, recorded=0 if read is None or profile.rank < read else None)
        for profile, findings in zip(job((0,) * len(ranks), 1).ranks, ranks, strict=True)
    ]
    return Job(Path("job"), profiles, [])


def causes(job: Job) -> list[Finding]:
    """What is wrong with ``job``, without what limits the report."""
    return [finding for finding in job_findings(job) if finding.severity != "info"]


def test_what_holds_up_all_ranks_alike_is_the_verdict_with_the_least_that_one_gains():
    three = alike(*((found(gain, thread=gain), found(3, "load.py", "open")) for gain in (9, 8, 10)))
    cause, other = causes(three)
    assert other.gain_ns == 9 * MS
    assert "open at load.py:31 in main()" in words(other.title)
    said = words(verdict(three, [cause]))
    assert said == (
        "all 3 ranks alike: json.dumps at train.py:31 in main() holds up the NPU: 8.000 ms per step; figures of rank 1"
    )
    assert (cause.id, cause.cls, cause.severity) == ("HOST.WORK", "dispatch", "high")
    assert (cause.ranks, cause.gain_ns) == ((0, 1, 2), 24 * MS)
    assert "8.000 ms to 10.00 ms, and without it a step is 8.000 ms (8.0%) shorter. Open rank 1" in words(cause.detail)


@pytest.mark.parametrize(("gain", "first"), [(5, "COMM.NEEDLESS"), (3, "COMM.EXPOSED")])
def test_a_cause_that_is_half_of_all_exposed_communication_is_told_before_it(gain: int, first: str):
    of_all = [found(8, id="COMM.EXPOSED", line=None), found(gain, id="COMM.NEEDLESS", line=None)]
    assert next(cause.id for cause in causes(alike(of_all, of_all))) == first


def test_what_holds_up_all_ranks_has_its_line_where_its_title_does_not_name_it():
    title = message("finding.exposed.title", each=message("finding.each.step", time=27 * MS), share=0.3, mostly="")
    (cause,) = causes(alike(*((found(9, id="COMM.EXPOSED", title=title),),) * 2))
    assert words(cause.title) == (
        "all 2 ranks alike: Communication is exposed for 27.00 ms per step (30.0%), most at train.py:31"
    )


@pytest.mark.parametrize(
    "other",
    [
        (found(9, "other.py"),),
        (found(9, name="MatMulV3", cls="compute"),),
        (found(9, is_cause=False),),
        (found(9, id="HOST.OTHER"),),
        (found(2),),
        (),
    ],
    ids=["another line", "another kernel", "no cause", "another kind", "too little", "nothing"],
)
def test_what_one_rank_does_not_have_does_not_hold_up_all(other: tuple[RankFinding, ...]):
    assert causes(alike((found(9),), (found(9),), other)) == []


def test_what_most_stages_of_a_pipeline_have_is_told_of_these(monkeypatch: pytest.MonkeyPatch):
    """The last stage waits elsewhere for the same thing; of ranks with equal work one without it rules it out."""
    ranks = (found(9),), (found(8),), (found(9, "other.py"),)
    assert causes(alike(*ranks)) == []
    monkeypatch.setattr(Job, "pipelines", SimpleNamespace(runs=[SimpleNamespace(ranks=(0, 1, 2))]))
    (cause,) = lost_by_all(alike(*ranks), None)
    assert words(cause.title).startswith("2 of 3 ranks alike: json.dumps at train.py:31")
    assert (cause.ranks, cause.gain_ns) == ((0, 1), 24 * MS)


def test_ranks_that_are_longest_in_different_calls_of_one_line_are_held_up_alike():
    ranks = [(found(gain, name=name),) for gain, name in ((9, "_object_to_tensor"), (11, "_tensor_to_object"))]
    (cause,) = causes(alike(*ranks))
    assert words(cause.title).startswith("all 2 ranks alike: _object_to_tensor at train.py:31 in main()")
    assert cause.gain_ns == 27 * MS


def test_ranks_that_take_turns_in_one_cause_lose_the_longest_of_each_step():
    """Each takes 9 ms longer in two of six steps and waits for the others in four: no step is as long without it."""
    turns = simulated(3, lambda rank, step, call: 2 * MS + 9 * MS * (step % 3 == rank and not call), steps=6)
    by_step = [tuple(MS * (1 + 9 * (step % 3 == rank)) for step in range(6)) for rank in range(3)]
    ranks = [
        replace(rank, findings=(found(4, count=6, by_step=own),), recorded=0)
        for rank, own in zip(turns.ranks, by_step, strict=True)
    ]
    cause = causes(Job(Path("job"), ranks))[0]
    assert cause.id == "HOST.WORK"
    assert cause.gain_ns == pytest.approx(6 * 9 * MS, rel=0.1)
    assert "figures of rank 0, without it a step is 8." in words(cause.title)
    blind = [replace(rank, findings=(found(4, count=6),)) for rank in ranks]
    assert causes(Job(Path("job"), blind))[0].id == "RANK.WANDER"


@pytest.mark.parametrize(
    ("by_step", "told"),
    [
        (((0, 27, 0), (0, 21, 0)), ", in 1 of 3 steps (1); figures of rank 1"),
        (((0, 13, 14), (0, 9, 12)), ", in 2 of 3 steps (1 and 2); figures of rank 1"),
        (((0, 13, 14), (6, 6, 9)), ": 7.000 ms per step; figures of rank 1"),
        (((), (0, 21, 0)), ": 7.000 ms per step; figures of rank 1"),
    ],
)
def test_what_ranks_lose_in_some_steps_only_is_told_of_those(by_step, told):
    ranks = [
        (found(gain, by_step=tuple(time * MS for time in own)),) for gain, own in zip((9, 7), by_step, strict=True)
    ]
    assert told in words(causes(alike(*ranks))[0].title)


def test_a_slow_rank_is_told_with_what_its_own_profile_says_and_its_peers_do_not():
    def with_findings(*each: tuple[RankFinding, ...]) -> str:
        slow = simulated(3, lambda rank, *_: 2 * MS + MS * (rank == 1))  # 6 ms in each of 8 steps
        ranks = [replace(rank, findings=own, recorded=0) for rank, own in zip(slow.ranks, each, strict=True)]
        return words(causes(Job(Path("job"), ranks))[0].title)

    own = found(6, count=8)
    assert "its own profile: json.dumps at train.py:31" in with_findings((), (own,), ())
    for others in (((), (), ()), ((own,), (own,), (own,)), ((), (found(1, count=8),), ())):
        assert "its own profile" not in with_findings(*others)


@pytest.mark.parametrize("file", ["train.py", "load.py"])
def test_ranks_that_one_cause_slows_in_different_steps_are_told_together(file: str):
    """Each has it at a line of its own, as each waits for its batch elsewhere; another cause is told apart."""
    slow = simulated(5, lambda rank, step, call: 2 * MS + 6 * MS * (call == 2 and (rank, step) in ((1, 2), (3, 5))))
    own = {1: found(1, count=8), 3: found(1, file, count=8, id="HOST.WORK" if file == "train.py" else "DATA.LOADER")}
    ranks = [replace(rank, findings=(own[rank.rank],) if rank.rank in own else (), recorded=0) for rank in slow.ranks]
    told = [cause for cause in causes(Job(Path("job"), ranks)) if cause.id == "RANK.SLOW"]
    if file == "train.py":
        (both,) = told
        assert words(both.title).startswith("2 ranks are slow by the same cause (")
        assert "their own profiles: json.dumps at train.py:31" in words(both.title)
        assert both.ranks in ((1, 3), (3, 1))
        assert both.gain_ns == pytest.approx(12 * MS, rel=0.05)
    else:
        assert {cause.ranks for cause in told} == {(1,), (3,)}


@pytest.mark.parametrize(
    ("own", "more", "first"),
    [((20, 24, 20), 6, "HOST.WORK"), ((20, 24, 20), 90, "RANK.SLOW"), ((3, 9, 4), 6, "RANK.SLOW")],
)
def test_what_all_ranks_lose_comes_before_a_slow_rank_where_it_is_dearer(own, more: int, first: str):
    slow = simulated(3, lambda rank, *_: 2 * MS + more * MS // 6 * (rank == 1))
    ranks = [
        replace(rank, findings=(found(gain, count=8),), recorded=0) for rank, gain in zip(slow.ranks, own, strict=True)
    ]
    told = causes(Job(Path("job"), ranks))
    assert told[0].id == first
    assert "RANK.SLOW" in {each.id for each in told}
    if first == "HOST.WORK":
        assert words(told[0].title).startswith("all 3 ranks alike: json.dumps at train.py:31")
        assert "more than what ranks lose by each other" in words(told[0].detail)
    # What may be waiting for the slow rank does not displace it.
    waiting = [replace(rank, findings=(found(24, count=8, cls="communication"),)) for rank in ranks]
    assert causes(Job(Path("job"), waiting))[0].id == "RANK.SLOW"


def test_what_ranks_say_of_each_other_is_judged_by_the_job():
    assert causes(alike(*((found(9, id="COMM.STRAGGLER"),),) * 3)) == []


def test_ranks_whose_traces_were_not_read_are_not_said_to_be_alike():
    (cause,) = causes(alike(*((found(9),),) * 2, (), (), read=2))
    assert words(cause.title).startswith("2 of 4 ranks were examined, all alike: json.dumps")
    assert cause.ranks == (0, 1)
    assert causes(alike((found(9),), (), read=1)) == []


def test_a_summary_keeps_what_holds_up_its_rank(tmp_path: Path):
    write_summary(alike((found(9),)).ranks[0], tmp_path / "rank")
    (kept,), broken = read_summaries([tmp_path / "rank"])
    assert not broken
    assert kept.findings == (found(9),)


def test_ranks_that_all_fetch_slowly_are_alike(tmp_path: Path):
    slow = open_job(written(ranks_of(changed(JOB, steps=4, dataloader_ns=20_000_000)), tmp_path / "slow"))
    without = open_job(written(ranks_of(changed(JOB, steps=4, dataloader_ns=50_000)), tmp_path / "without"))
    (cause,) = causes(slow)
    assert cause.title.code == "job.alike.all"
    assert cause.ranks == (0, 1, 2, 3)
    assert cause.gain_ns == pytest.approx(job_path(slow).length - job_path(without).length, rel=0.05)


def test_an_owner_of_the_path_has_the_finding_of_its_rank_that_names_it():
    text = found(9).title.args["where"]
    there, elsewhere = CodeLine("train.py", 31, "main"), CodeLine("train.py", 32, "main")
    owners = [
        JobOwner(1, "host", text, text, where=elsewhere, gain=1),
        JobOwner(1, "host", message("path.owner.launching"), text, where=there, gain=1),
        JobOwner(1, "host", message("path.owner.launching"), text, where=elsewhere, gain=1),
        JobOwner(1, "kernel", text, text, where=there),
        JobOwner(0, "host", text, text, where=there, gain=1),
        JobOwner(None, "host", text, text, gain=1),
    ]
    path = JobPath(length=100, owners=tuple(owners))
    told = [row.finding for row in JOB_OWNERS.records(alike((), (found(9),)), path=path)]
    assert told == ["HOST.WORK", "HOST.WORK", None, None, None, None]


def test_exposed_communication_in_which_ranks_do_not_wait_for_each_other_is_transfers():
    begun = EPOCH
    ranks = []
    for profile, late in zip(job((30, 31), 0).ranks, (0, 20_000), strict=True):
        calls = [
            RecordedCall("g", "allReduce", f"hcom_allReduce__1_{at}", str(at), at, begun + at * 100 * MS + late,
                 begun + at * 100 * MS + 30 * MS)
            for at in range(3)
        ]  # fmt: skip
        ranks.append(replace(profile, calls=RankCalls.of(calls), groups={"g": (0, 1)}, recorded=begun))
    said = words(verdict(Job(Path("job"), ranks), []))
    assert said.startswith("no rank stands out: rank 1 spends 31.00 ms of 100.0 ms a step (31.0%)")
    assert "it waits 0 ns for others: the rest is transfers" in said
    unread = [replace(profile, recorded=None) for profile in ranks]
    assert words(verdict(Job(Path("job"), unread), [])).endswith("record Level1")
    alone = [replace(profile, groups={"g": (0, 1, 2)}) for profile in ranks]
    assert words(verdict(Job(Path("job"), alone), [])).endswith("record Level1")


def test_the_report_says_what_holds_up_all_ranks_and_leaves_advice_to_theirs():
    report = job_report(alike(*((found(9),),) * 3))
    told = job_finding(report, 1, report.findings[0])
    assert (told.id, told.advice) == ("HOST.WORK", ())
    assert "all 3 ranks alike" in told.title
