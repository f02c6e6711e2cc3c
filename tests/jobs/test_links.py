"""Slow links and ports, and links that only look slow."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from generate import recorded
from made_jobs import linked
from simulator import simulate_ranks
from situations import SITUATIONS, Trouble

from npu_tui.jobs.findings import job_findings
from npu_tui.jobs.links import judged_links
from npu_tui.jobs.opening import open_job
from npu_tui.strings import words


def speed(draw: random.Random, usual: float = 18.0):
    return lambda source, target: usual * (1 + draw.uniform(-0.02, 0.02))


def verdicts(links):
    return {(link.source, link.target): link.verdict for link in links if link.verdict != "as_others"}


def test_even_links_are_not_judged():
    for seed in range(20):
        assert verdicts(judged_links(linked(8, speed(random.Random(seed))))) == {}


def test_one_slow_link_is_a_link():
    usual = speed(random.Random(1))
    uses = linked(8, lambda source, target: usual(source, target) * (0.6 if (source, target) == (1, 7) else 1))
    assert verdicts(judged_links(uses)) == {(1, 7): "slow"}


def test_a_slow_row_is_a_port():
    usual = speed(random.Random(1))
    uses = linked(8, lambda source, target: usual(source, target) * (0.6 if source == 3 else 1))
    assert set(verdicts(judged_links(uses)).values()) == {"slow_sender"}
    assert {source for source, _ in verdicts(judged_links(uses))} == {3}


def test_a_slow_link_of_a_ring_is_no_port():
    """A port with one link is not told from it."""
    every = linked(8, lambda source, _: 18.0 / (1 + 2 * (source == 2)))
    uses = [use for use in every if use.target == (use.source + 1) % 8]
    assert verdicts(judged_links(uses)) == {(2, 3): "slow"}


def test_other_sizes_and_operations_are_other_kinds():
    usual = speed(random.Random(1))
    small = [use for use in linked(8, lambda *pair: 9 * usual(*pair) / 18, 1.5) if use.source == 1 and use.target == 7]
    gathers = linked(8, lambda *pair: 12 * usual(*pair) / 18, 8.0, "allGather")
    assert verdicts(judged_links([*linked(8, usual), *small, *gathers])) == {}


def test_transfers_bound_by_latency_say_nothing():
    assert judged_links(linked(8, speed(random.Random(1), 0.05), 0.001)) == []


def job_of(ranks, folder):
    for situation, recording in zip(ranks, simulate_ranks(ranks), strict=True):
        for name, content in recorded(situation, recording).items():
            path = folder / f"rank{situation.rank}_ascend_pt" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return open_job(folder, traces=True)


def test_a_slow_port_is_found_in_traces_alone_and_has_a_price(tmp_path: Path) -> None:
    usual = replace(SITUATIONS["healthy"], world_size=4, steps=3, kernel_ns=150_000, gradient_bytes=20_000_000)
    ranks = [replace(usual, rank=rank, seed=rank, paired=True, with_stack=False) for rank in range(4)]
    slow = Trouble(slow_link=2, link_slower=10)
    job = job_of([replace(each, trouble=slow) if each.rank != 2 else each for each in ranks], tmp_path / "slow")
    healthy = job_of(ranks, tmp_path / "healthy")
    (port,) = (finding for finding in job_findings(job) if finding.id == "LINK.PORT")
    assert words(port.title).startswith("rank 2 receives slowly from 3 ranks: 1.")
    assert port.severity == "high"
    assert port.gain_ns == pytest.approx(job.length - healthy.length, rel=0.1)
    assert "shortens a step by up to" in words(port.detail)
    assert not [finding for finding in job_findings(healthy) if finding.severity != "info"]
