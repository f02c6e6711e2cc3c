"""Tails and slow roles: named first with what they cost, silent where ends differ as they usually do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from made_roles import AFTER, asynchronous, colocated, job_in_memory, length_of
from role_simulations import SITUATIONS, judged, nothing, one
from roles import SECOND, Layout, Work, write_roles
from written import fields_of, reasons

from npu_tui.cli.main import main
from npu_tui.jobs.findings import job_findings
from npu_tui.jobs.opening import open_job
from npu_tui.output.job_report import job_report
from npu_tui.output.job_whatif import job_remedies, job_whatif


@pytest.mark.parametrize("situation", SITUATIONS)
def test_the_cause_is_named_first_at_its_price(situation: str):
    named, off = judged(situation, 101)
    assert named
    assert off is None or off < 0.10


@pytest.mark.parametrize(("seconds", "told"), [(11.7, True), (9.5, False)])
def test_a_role_that_takes_longer_for_the_same_tokens_is_told_by_its_gain(seconds: float, told: bool):
    """Of a step of 106 s it holds 3.7 s, 3.5 %, where the actor's takes 8 s: less than half as long again."""
    after = (AFTER[0], ("ref_compute_log_prob", seconds), AFTER[2])
    findings = job_findings(job_in_memory(colocated(nothing, 8, 3, after=after, spread=0.3)))
    assert ["ref_compute_log_prob" in repr(found.title) for found in findings if found.id == "ROLE.SLOW"] == [
        True
    ] * told


@pytest.mark.parametrize("layout", ["steps", "e2e", "mindspeed"])
def test_a_tail_in_files_of_every_layout(layout: Layout, tmp_path: Path):
    write_roles(tmp_path / "p", colocated(one(2, 41), world=4, spread=0.01), layout)
    report = job_report(open_job(tmp_path / "p"))
    (finding,) = report.findings
    assert (finding.id, finding.ranks, finding.severity) == ("ROLE.TAIL", [2], "high")
    assert report.verdict == [finding.title]
    assert "rank 2 ends 40.99 s after the median: 28.3% of the step" in finding.title
    assert "on 3 ranks" in finding.title
    assert report.steps == ["1", "2"]
    after = report.roles[1]
    assert (after.waits_for, after.waited_us) == (finding.role, pytest.approx(0.75 * 41e6, rel=0.01))
    first = report.roles[0]
    assert (first.ranks, first.steps, first.role) == (4, 2, finding.role)
    assert len(report.role_steps) == 8
    assert finding.evidence[0].rank == 2
    assert finding.evidence[0].end_ns - finding.evidence[0].start_ns > 95 * SECOND


def test_clocks_of_hosts_are_set_by_the_collectives_of_any_role(tmp_path: Path):
    work = [Work(1, "rollout_generate", rank, 0, 60 * SECOND, rank, rank // 2, rank) for rank in range(4)]
    meets = tuple(SECOND * at for at in (63, 66, 69))
    early = (1_000_000,) * 3
    work += [Work(1, "actor_update", rank, 61 * SECOND, 70 * SECOND, rank, rank // 2, rank, meets, early)
             for rank in range(4)]  # fmt: skip
    write_roles(tmp_path, work, skew={1: 20 * SECOND})
    report = job_report(open_job(tmp_path))
    assert report.role_clock is not None
    assert report.role_clock.method == "collectives"
    assert report.role_steps[0].tail_us == pytest.approx(0, abs=100)
    assert not report.findings


@pytest.mark.parametrize("seconds", [0, 41])
def test_a_system_clock_that_is_off_is_no_tail(seconds: float, tmp_path: Path):
    work = [replace(row, host=row.rank // 4) for row in colocated(one(6, seconds), after=())]
    write_roles(tmp_path, work, skew={1: 20 * SECOND})
    report = job_report(open_job(tmp_path))
    assert report.role_clock is not None
    assert report.role_clock.method == "system"
    assert [finding.ranks for finding in report.findings if finding.id == "ROLE.TAIL"] == ([[6]] if seconds else [])
    assert any("system clocks" in line for line in reasons(report))


def test_devices_that_each_process_counts_from_0_are_no_card(tmp_path: Path):
    work = [
        Work(step, role, 0, 10**9 * (10 * step + late), 10**9 * (10 * step + 9 + late), process)
        for step in (1, 2, 3)
        for role, process, late in (("rollout_generate", 1, 0), ("actor_update", 2, 3))
    ]
    write_roles(tmp_path, work)
    roles = open_job(tmp_path).roles
    assert roles is not None
    assert roles.are_apart("rollout_generate", "actor_update")
    assert len({span.card for span in roles.spans}) == 2


@pytest.mark.parametrize("world", [3, 4, 8, 16])
def test_one_step_of_few_ranks_is_enough_for_a_clear_tail(world: int):
    for seed in range(5):
        (finding,) = job_findings(job_in_memory(colocated(one(1, 41), world, 1, seed)))
        assert (finding.id, finding.ranks) == ("ROLE.TAIL", (1,))


def test_a_tail_that_nobody_waits_for_costs_cards_and_no_time():
    later = one(3, 30)
    job = job_in_memory(asynchronous(lambda step, rank: later(step, rank) * (step > 1), generate=30, train=62))
    (finding,) = job_findings(job)
    assert finding.id == "ROLE.TAIL"
    assert finding.detail.code == "job.tail.hidden"
    assert finding.severity == "low"
    assert (finding.gain_ns or 0) < 3 * SECOND * 10


def test_one_of_two_replicas_with_many_ranks_is_named():
    job = job_in_memory(colocated(one(1, 41), 16, 3, replicas=2))
    (finding,) = job_findings(job)
    assert (finding.id, finding.role) == ("ROLE.TAIL", "agent_loop_rollout_replica_1")
    assert finding.title.args["count"] == 8


def test_who_shares_a_card_is_said_only_where_it_is_known():
    job = job_in_memory(colocated(nothing, world=2), processes=False)
    assert job.roles is not None
    assert [row.waits for row in job.roles.sums] == [None] * 4
    known = job_in_memory(colocated(nothing, world=2)).roles
    assert known is not None
    assert all(row.waits is not None for row in known.sums)


def test_what_if_the_tail_were_as_the_median(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    work, remedied = (colocated(one(2, seconds), world=4, spread=0.01) for seconds in (41, 0))
    write_roles(tmp_path, work)
    words = ["tail as the median", "tail of rollout_generate as the median", "fix role.tail", "role actor_update x0"]
    job = open_job(tmp_path)
    for text in words:
        found = job_whatif(job, [text])
        truth = length_of(work) - length_of(remedied) if "role a" not in text else 2 * 25 * SECOND
        assert found.gain_us * found.count * 1e3 == pytest.approx(truth, rel=0.01)
    assert [row.text for row in job_remedies(job).changes] == ["tail of rollout_generate as the median"]
    assert main(["whatif", str(tmp_path), "tail as the median", "--format", "json"]) == 0
    assert fields_of(capsys.readouterr().out)["gain_us"] == job_whatif(job, words[:1]).gain_us


def test_the_replicas_of_a_recorded_step(tmp_path: Path):
    """Ends in ms of four replicas of two ranks, and of two ranks of the log probabilities after them (rl-insight)."""
    ends = {0: (890_928.173, 890_928.792), 1: (890_979.492, 890_978.815), 2: (891_064.010, 891_063.695),
            3: (891_095.664, 891_095.803)}  # fmt: skip
    begun = 888_698.726

    def ns(ms: float) -> int:
        return round((ms - begun) * 1e6)

    work = [Work(1, f"agent_loop_rollout_replica_{replica}", rank, 0, ns(end), 2 * replica + rank)
            for replica, both in ends.items() for rank, end in enumerate(both)]  # fmt: skip
    times = {1: (899_046.412, 902_988.043), 3: (899_045.877, 902_987.040)}
    work += [
        Work(1, "actor_compute_log_prob", rank, ns(low), ns(high), 20 + rank) for rank, (low, high) in times.items()
    ]
    write_roles(tmp_path, work, "roles", ranges=False)
    job = open_job(tmp_path)
    report = job_report(job)
    assert not report.findings
    assert [(row.role, row.ranks, row.replicas) for row in report.roles] == [
        ("agent_loop_rollout", 8, 4),
        ("actor_compute_log_prob", 2, 1),
    ]
    rollout, log_prob = report.role_steps
    assert (rollout.last_role, rollout.last_rank) == ("agent_loop_rollout_replica_3", 1)
    assert rollout.end_us == pytest.approx(2_397_077)
    assert rollout.tail_us == pytest.approx(74_209, abs=1)
    assert log_prob.start_us - rollout.end_us == pytest.approx(7_950_074)
    lasted = {row.rank: row.end_us - row.start_us for row in report.stints if row.role == "actor_compute_log_prob"}
    assert lasted == {3: pytest.approx(3_941_163), 1: pytest.approx(3_941_631)}
    assert {row.known_by for row in report.stints} == {"device"}
    assert job.roles is not None
    first = [span for span in job.roles.spans if span.place == "agent_loop_rollout_replica_0"]
    assert all(1e6 * 166.5 < rollout.end_us * 1e3 - (span.end - job.roles.spans[0].start) < 1e6 * 168 for span in first)
