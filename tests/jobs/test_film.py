"""The film of a job: ranks as they would be without a cause, to the nanosecond as long as the answer says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pipeline_jobs import SITUATIONS, job_of

from npu_tui.analysis.questions import UnknownChangeError
from npu_tui.jobs.findings import job_findings
from npu_tui.jobs.job import Job
from npu_tui.jobs.opening import open_job
from npu_tui.jobs.slowness import SavingsModel
from npu_tui.jobs.timelines import trace_of_calls, waiting_rank
from npu_tui.load.errors import InputError
from npu_tui.load.load import opening_of
from npu_tui.output.film import Film, align_film, film_scene, job_film
from npu_tui.output.job_whatif import job_changes, job_moments, job_remedies, job_whatif, pair_of
from npu_tui.profile.profile import Profile
from npu_tui.rules.model import Finding

TWO_RANKS = Path(__file__).resolve().parents[2] / "fixtures" / "two_ranks"


@pytest.fixture(scope="module", params=["two_ranks", "middle stage slow", "late messages forward"])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Job, Finding]:
    """A job, and its first finding."""
    if request.param in SITUATIONS:
        job = job_of(SITUATIONS[request.param][0], tmp_path_factory.mktemp("job"))[0]
    else:
        job = open_job(TWO_RANKS)
    return job, job_findings(job)[0]


def shown(job: Job, finding: Finding) -> Film:
    known = {profile.rank: profile for profile in job.ranks}
    rank = finding.ranks[0]
    waiting = waiting_rank(job, rank)
    assert waiting not in (None, rank)
    profiles = [Profile(opening_of(known[each].path).trace(), None) for each in (rank, waiting)]
    return job_film(job, [rank, waiting], job_changes(job, finding), "it", profiles)


def test_ranks_end_sooner_by_what_the_job_gains(case: tuple[Job, Finding]) -> None:
    job, finding = case
    texts = job_changes(job, finding)
    answer, moments = job_whatif(job, texts), job_moments(job, texts)
    gain = round(1000 * answer.gain_us * answer.count)
    assert gain == pytest.approx(finding.gain_ns, rel=0.01)
    assert moments is not None
    clock = {profile.rank: at.offset for profile, at in zip(job.ranks, job.clocks, strict=True)}
    ends = [[int(times.max()) - clock[rank] for times in (at, at - by)] for rank, (at, by) in moments.items()]
    before, after = (max(column) for column in zip(*ends, strict=True))
    assert before - after == pytest.approx(gain, abs=2)
    for recorded, sooner in moments.values():
        order = np.argsort(recorded, kind="stable")
        played = (recorded - sooner)[order]
        assert (np.diff(played)[np.diff(recorded[order]) > 0] >= -1).all(), "nothing overtakes another"


def test_a_film_has_the_recorded_slices_at_their_new_times(case: tuple[Job, Finding]) -> None:
    job, finding = case
    film = shown(job, finding)
    answer = job_whatif(job, job_changes(job, finding))
    assert film.recorded == pytest.approx(1000 * answer.step_us)
    assert film.rungs[0].length == pytest.approx(1000 * answer.step_after_us)
    gain, ends = 1000 * answer.gain_us * answer.count, list[list[int]]()
    for run, played in zip(film.runs, film.played, strict=True):
        before, after = run.trace, played.trace
        assert [lane.name for lane in after.lanes] == [lane.name for lane in before.lanes]
        assert (after.slices.end >= after.slices.start).all()
        ends.append([int(trace.slices.end.max()) + trace.start_ns for trace in (before, after)])
        rows = after.rows
        row = np.repeat(np.arange(len(rows)), np.diff(rows.offset))
        assert (rows.start[1:] >= rows.end[:-1])[row[1:] == row[:-1]].all()
    assert min(before - after for before, after in ends) <= gain + 2
    assert max(before - after for before, after in ends) >= gain - 2


def test_replayed_ranks_stand_above_recorded_ones_at_one_step(case: tuple[Job, Finding]) -> None:
    film = shown(*case)
    scene = film_scene(film)
    ranks = [str(run.trace.rank) for run in film.runs]
    assert scene.labels == [*ranks, *(f"−{rank}" for rank in ranks)]
    scene.set_offsets([0, 5, 0, 5])
    offsets = align_film(scene, scene.end)
    assert offsets[:2] == [0, 5]
    assert offsets[3] - offsets[2] == 5
    if steps := scene.steps(0):
        scene.set_offsets(offsets)
        assert steps[-1][0] in [begin for begin, _, _ in scene.steps(2)]


def test_a_rank_without_a_timeline_has_its_passes_and_calls(case: tuple[Job, Finding]) -> None:
    job, _ = case
    profile = job.ranks[0]
    trace = trace_of_calls(profile)
    passes = 0 if profile.passes is None else len(profile.passes.start)
    assert len(trace.slices) == len(profile.calls) + passes
    assert trace.rank == profile.rank
    begins = sorted([*profile.calls.start.tolist(), *(profile.passes.start.tolist() if passes else [])])
    assert sorted((trace.slices.start + trace.start_ns).tolist()) == begins
    assert trace.args.one(0) == {}
    known = Profile(trace, None)
    assert known.devices
    assert not known.overlap_lanes  # when it computes is unknown: that is neither 0 nor free
    assert not known.idles


def test_what_no_replay_tells_has_no_film(case: tuple[Job, Finding]) -> None:
    job, _ = case
    if not job.pipelines.runs:
        pytest.skip(reason="this job has no pipeline: only replays of pipelines know micro batches")
    assert job_moments(job, ["16 micro batches"]) is None
    answer = job_whatif(job, ["16 micro batches"])
    with pytest.raises(InputError) as raised:
        job_film(job, [0], ["16 micro batches"], "it", [])
    assert raised.value.message.args["before"] == 1000 * answer.step_us
    assert raised.value.message.args["after"] == 1000 * answer.step_after_us


def test_late_messages_cost_what_their_finding_says(tmp_path: Path) -> None:
    job = job_of(SITUATIONS["late messages forward"][0], tmp_path)[0]
    finding = next(finding for finding in job_findings(job) if finding.id == "PIPELINE.TRANSFER")
    (text,) = job_changes(job, finding)
    assert text == "messages 1 to 2 as others"
    assert pair_of("Messages  1 to 2 as  others") == (1, 2)
    assert pair_of("rank 1 as its peers") is None
    answer = job_whatif(job, [text])
    assert round(1000 * answer.gain_us * answer.count) == pytest.approx(finding.gain_ns, abs=answer.count)
    assert job_remedies(job).changes[0].text == text
    for other in ("messages 2 to 1 as others", "messages 2 to 3 as others", "messages 7 to 8 as others"):
        with pytest.raises(UnknownChangeError):
            job_whatif(job, [other])


def test_who_waits_longest_does_so_over_all_steps() -> None:
    runs = [
        SimpleNamespace(ranks=(0, 1, 2), idle=idle.__getitem__) for idle in ([0, 1000, 10], [0, 1000, 10], [0, 5, 30])
    ]
    job: Any = SimpleNamespace(pipelines=SimpleNamespace(runs=runs))
    assert waiting_rank(job, 0) == 1
    assert waiting_rank(job, 1) == 2


def test_the_error_of_the_replay_of_ranks_is_measured(case: tuple[Job, Finding]) -> None:
    """It is about nothing as recorded, and is told where ranks are said to leave a collective before the last comes."""
    job, _ = case
    assert job.savings.length == pytest.approx(job.savings.measured, rel=0.01)
    sooner = replace(job.blamed, end=np.minimum(job.blamed.end, job.blamed.come[job.blamed.row] - 1_000_000))
    nothing = np.zeros(len(sooner.ranks), np.int64)
    prices = SavingsModel(sooner, nothing, nothing - 1, nothing, nothing)
    ended = sooner.end.max() - sooner.start[~sooner.outside].min()
    assert prices.measured == ended
    assert abs(prices.length - prices.measured) > 10_000
