"""Slow links and ports, and links that only look slow."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from generate import recorded
from made_jobs import EPOCH, linked
from measured import profile_at
from msgspec.structs import replace as replace_link
from simulator import simulate, simulate_ranks
from situations import SITUATIONS, Trouble

from npu_tui.analysis.communication import faltering
from npu_tui.jobs.findings import job_findings
from npu_tui.jobs.job import Job
from npu_tui.jobs.links import judged_links
from npu_tui.jobs.model import Busy, LinkUse, RankProfile, RecordedCall, StepTime
from npu_tui.jobs.opening import open_job
from npu_tui.jobs.rings import flat_rings
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


def over(transport: str, pairs: set[tuple[int, int]], uses: list[LinkUse], factor: float = 0.3) -> list[LinkUse]:
    """``uses`` with those between ``pairs`` over another ``transport``, that much slower."""
    return [
        replace_link(use, transport=transport, speed=use.speed * factor) if (use.source, use.target) in pairs else use
        for use in uses
    ]


def test_a_link_that_falls_back_to_another_transport_is_slow():
    every = linked(8, speed(random.Random(1)))
    links = judged_links(over("PCIE", {(0, 1), (1, 0)}, every))
    assert verdicts(links) == {(0, 1): "slow", (1, 0): "slow"}
    slow = [link for link in links if link.verdict == "slow"]
    assert {(link.transport, link.beside) for link in slow} == {("PCIE", "HCCS")}
    assert all(abs(link.expected - 18.0) < 0.5 for link in slow)


def test_links_that_the_build_of_hosts_has_on_another_transport_are_not_slow():
    every = linked(8, speed(random.Random(1)))
    across = {(source, target) for source in range(8) for target in range(8) if (source < 4) != (target < 4)}
    assert verdicts(judged_links(over("PCIE", across, every))) == {}  # two meshes of four
    ring = [use for use in every if use.target == (use.source + 1) % 8]
    assert verdicts(judged_links(over("PCIE", {(3, 4), (7, 0)}, ring))) == {}
    assert verdicts(judged_links(over("RDMA", {(0, 1), (1, 0)}, every))) == {}
    assert verdicts(judged_links(over("SIO", {(0, 1), (1, 0)}, every, 4.0))) == {}


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


@pytest.mark.parametrize(("reached", "slow"), [(0.4, True), (0.7, False)])
def test_one_of_two_links_between_hosts_is_slow_below_half_of_the_other(reached: float, slow: bool) -> None:
    ring = [use for use in linked(8, speed(random.Random(1))) if use.target == (use.source + 1) % 8]
    links = judged_links([*over("RDMA", {(3, 4)}, over("RDMA", {(7, 0)}, ring, 0.5 * reached), 0.5)] * 2)
    assert verdicts(links) == ({(7, 0): "slow"} if slow else {})
    assert [ring.ranks for ring in flat_rings(links, [range(4), range(4, 8)])] == ([] if slow else [tuple(range(8))])


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


def test_a_port_that_is_slow_both_ways_is_told_once_with_its_price(monkeypatch: pytest.MonkeyPatch):
    """All wait for what it exchanges: the collectives move their data as fast as those of other ports."""
    monkeypatch.setattr("npu_tui.jobs.findings.in_less", lambda job, ranks, kind, keep: round(job.length * (1 - keep)))
    links = linked(4, lambda source, target: 5.0 if 2 in (source, target) else 20.0)
    calls = [RecordedCall("g", "allReduce", "a", "1", 0, 0, 100)]
    job = Job(Path("job"), [RankProfile(rank, Path(), "trace", calls=calls, links=links) for rank in range(4)], [])
    monkeypatch.setattr(Job, "length", 100)
    (port,) = (finding for finding in job_findings(job) if finding.id == "LINK.PORT")
    assert words(port.title) == "rank 2 sends to and receives from 3 ranks slowly: 5.00 GB/s of 20.00 GB/s"
    assert port.gain_ns == 75


def test_a_slow_link_is_told_once_with_its_price():
    """Half of the pairs are slow: the others tell how fast it should be. What is computed meanwhile gains nothing."""
    ms = 1_000_000
    uses = [LinkUse(a, b, "HCCS", "allReduce", 8.0, 2.0 if {a, b} == {0, 1} else 20.0) for a, b in
            ((0, 1), (1, 0), (2, 3), (3, 2)) for _ in range(4)]  # fmt: skip
    calls: list[list[RecordedCall]] = [[] for _ in range(4)]
    for pair, took in (((0, 1), 10 * ms), ((2, 3), ms)):
        for number in range(12):
            for rank in pair:
                start = EPOCH + number * (5 * ms + took)
                name = f"hcom_allReduce__10{pair[0]}_{number}_1"
                calls[rank].append(
                    RecordedCall(f"10{pair[0]}", "allReduce", name, str(number // 4), number, start, start + took)
                )
    busy = Busy(np.array([calls[0][0].start]), np.array([calls[0][0].start + 4 * ms]))
    nothing = Busy(np.zeros(0, np.int64), np.zeros(0, np.int64))
    ranks = [
        RankProfile(rank, Path(f"rank{rank}"), "trace", boot=EPOCH, counter=0, calls=tuple(own),
                    links=tuple(use for use in uses if use.source == rank), busy=busy if rank < 2 else nothing,
                    steps=tuple(StepTime(str(step), 20 * ms, 40 * ms, 0, 60 * ms) for step in range(3)))
        for rank, own in enumerate(calls)
    ]  # fmt: skip
    (found,) = (each for each in job_findings(Job(Path("job"), ranks)) if each.id == "LINK.SLOW")
    assert (
        words(found.title) == "the link between ranks 0 and 1 is slow: 2.00 GB/s of 20.00 GB/s over HCCS in allReduce"
    )
    assert found.ranks == (0, 1)
    assert found.gain_ns == pytest.approx(0.9 * (12 * 10 - 4) * ms, rel=0.01)
    assert found.severity == "high"


@pytest.mark.parametrize(("target", "found"), [(lambda rank: (rank + 1) % 8, True), (lambda rank: rank ^ 1, False)])
def test_a_ring_over_all_hosts_is_told_with_what_all_links_would_take(target, found):
    """Eight ranks on two hosts, one of whose links each moves everything; pairs are no ring."""
    ms = 1_000_000
    took, steps = 10 * ms, 3
    ranks = []
    for rank in range(8):
        begins = [EPOCH + step * 60 * ms + 50 * ms for step in range(steps)]
        calls = [
            RecordedCall("77", "allReduce", f"hcom_allReduce__077_{step}_1", str(step), step, start, start + took)
            for step, start in enumerate(begins)
        ]
        place = "HCCS" if rank // 4 == target(rank) // 4 else "RDMA"
        ranks.append(
            RankProfile(rank, Path(f"rank{rank}"), "trace", boot=EPOCH + rank // 4 * 10**12, counter=0,
                        host_name=f"node{rank // 4}", calls=tuple(calls),
                        links=(LinkUse(rank, target(rank), place, "allReduce", 100.0, 20.0),),
                        steps=tuple(StepTime(str(step), 50 * ms, took, 0, 60 * ms) for step in range(steps)))
        )  # fmt: skip
    told = [each for each in job_findings(Job(Path("job"), ranks)) if each.id == "LINK.RING"]
    assert len(told) == found
    for each in told:
        assert words(each.title).startswith("allReduce runs in one flat ring over 8 ranks of 2 hosts")
        keep = (1 / 4 + 1 / 8) / (1 - 1 / 8)
        assert each.gain_ns == pytest.approx((1 - keep) * steps * took, rel=0.01)


def spread_ranks(speeds: Sequence[float], near: bool, took: int, steps: int) -> list[RankProfile]:
    """Tensor groups of four ranks on two hosts each; the n-th sends between its hosts at ``speeds[n]`` GB/s."""
    ms, ranks = 1_000_000, []
    for rank in range(4 * len(speeds)):
        first, place = rank // 4 * 4, rank % 4
        links = [LinkUse(rank, first + (place + 2) % 4, "RDMA", "allReduce", 16.0, speeds[rank // 4])]
        links += [LinkUse(rank, rank ^ 1, "HCCS", "allReduce", 32.0, 20.0)] if near else []
        begins = [EPOCH + step * 60 * ms + 50 * ms for step in range(steps)]
        group = str(77 + rank // 4)
        calls = [
            RecordedCall(group, "allReduce", f"hcom_allReduce__0{group}_{step}_1", str(step), step, start, start + took)
            for step, start in enumerate(begins)
        ]
        ranks.append(
            RankProfile(rank, Path(f"rank{rank}"), "trace", boot=EPOCH + rank // 2 * 10**12, counter=0,
                        host_name=f"node{rank // 2}", calls=tuple(calls), links=tuple(links),
                        groups={"tp": tuple(range(first, first + 4))},
                        steps=tuple(StepTime(str(step), 50 * ms, took, 0, 60 * ms) for step in range(steps)))
        )  # fmt: skip
    return ranks


def test_the_speeds_of_spread_groups_are_those_of_the_group_that_is_named():
    job = Job(Path("job"), spread_ranks([5.0, 2.0], True, 10_000_000, 3))
    (found,) = (each for each in job_findings(job) if each.id == "GROUP.HOSTS")
    assert "the tensor group of ranks 0, 1, 2 and 3 " in words(found.title)
    assert "at 5.00 GB/s; within one host (20.00 GB/s)" in words(found.title)
    assert found.ranks == tuple(range(8))


@pytest.mark.parametrize(("near", "keep"), [(True, 16.0 / 20.0 / (32.0 / 20.0 + 16.0 / 5.0)), (False, None)])
def test_a_tensor_group_over_two_hosts_costs_what_it_sends_over_the_network(near: bool, keep: float | None):
    took, steps = 10_000_000, 3
    ranks = spread_ranks([5.0], near, took, steps)
    (found,) = (each for each in job_findings(Job(Path("job"), ranks)) if each.id == "GROUP.HOSTS")
    assert words(found.title).startswith("the tensor group of ranks 0, 1, 2 and 3 is spread over 2 hosts: ")
    assert found.gain_ns == (None if keep is None else pytest.approx((1 - keep) * steps * took, rel=0.01))
    of_data = [replace_link(each, groups={"dp": (0, 1, 2, 3)}) for each in ranks]
    assert not [each for each in job_findings(Job(Path("job"), of_data)) if each.id == "GROUP.HOSTS"]


def grouped_ranks(groups: Sequence[Sequence[int]], kind: str, links: Sequence[LinkUse], took: int, named: str = ""):
    """Eight ranks on two hosts; in each of three steps those of each of ``groups`` meet ``took`` ns."""
    ms, ranks = 1_000_000, []
    for rank in range(8):
        own = next(each for each in groups if rank in each)
        calls = [
            RecordedCall(f"{list(own)}", kind, f"{kind} {list(own)} {step}", str(step), step, start, start + took)
            for step in range(3) for start in [EPOCH + step * 60 * ms + 20 * ms]
        ]  # fmt: skip
        ranks.append(
            RankProfile(rank, Path(f"rank{rank}"), "trace", boot=EPOCH + rank // 4 * 10**12, counter=0,
                        host_name=f"node{rank // 4}", calls=tuple(calls),
                        links=tuple(each for each in links if each.source == rank),
                        groups={named: tuple(own)} if named else {}, busy=Busy(*np.zeros((2, 0), np.int64)),
                        steps=tuple(StepTime(str(step), 50 * ms, took, 0, 60 * ms) for step in range(3)))
        )  # fmt: skip
    return ranks


def test_tokens_that_go_to_another_host_would_be_as_fast_as_the_links_within_one():
    took, spread = 10_000_000, [[0, 2, 4, 6], [1, 3, 5, 7]]
    links = [
        LinkUse(rank, to, "RDMA" if far else "HCCS", "alltoallv", 80.0, 10.0 if far else 20.0)
        for own in spread for rank in own for to in own if to != rank for far in [rank // 4 != to // 4]
    ]  # fmt: skip
    found = job_findings(Job(Path("job"), grouped_ranks(spread, "alltoallv", links, took)))
    (told,) = (each for each in found if each.id == "GROUP.HOSTS")
    assert words(told.title).startswith("the expert group of ranks 0, 2, 4 and 6 is spread over 2 hosts: ")
    assert told.gain_ns == pytest.approx(3 * took / 2, rel=0.01)  # all at once: the slowest link is twice as fast
    every = [[*range(8)]]  # more than a host has: some of them are always on another one
    found = job_findings(Job(Path("job"), grouped_ranks(every, "alltoallv", links, took)))
    assert not [each for each in found if each.id == "GROUP.HOSTS"]


def test_what_other_groups_lose_where_those_of_tensors_move_into_a_host_is_deducted():
    ms, took, spread = 1_000_000, 10_000_000, [[rank, rank + 4] for rank in range(4)]
    links = [LinkUse(rank, (rank + 4) % 8, "RDMA", "allReduce", 100.0, 10.0) for rank in range(8)]
    hosts = [range(4), range(4, 8)]
    links += [LinkUse(a, b, "HCCS", "allReduce", 50.0, 20.0) for own in hosts for a in own for b in own if a != b]
    tensor = grouped_ranks(spread, "allReduce", links, took, "tp")
    data, gain = grouped_ranks(hosts, "allReduce", [], 5 * ms // 2), {}
    for beside in (-10, 1):  # before them, or at the same time
        ranks = []
        for each, other in zip(tensor, data, strict=True):
            later = [replace_link(call, start=call.start + beside * ms, end=call.end + beside * ms)
                     for call in other.calls]  # fmt: skip
            ranks.append(replace_link(each, calls=(*each.calls, *later)))
        (told,) = (row for row in job_findings(Job(Path("job"), ranks)) if row.id == "GROUP.HOSTS")
        gain[beside] = told.gain_ns
    # Two of four ranks a host: twice as much over each of its links, and as much over the network at half the speed.
    alone = 3 * (took - 100 * ms // 20)
    assert gain[1] > gain[-10] == pytest.approx(alone - 3 * 5 * ms // 2, rel=0.02)


def test_a_link_that_is_slow_now_and_then_is_no_slow_link():
    every = linked(4, speed(random.Random(1)))
    pair = [replace_link(use, calls=32, slow=12, slow_speed=1.7) for use in every if {use.source, use.target} == {0, 2}]
    links = judged_links([*every, *pair])
    assert verdicts(links) == {(0, 2): "falters", (2, 0): "falters"}
    ranks = [
        RankProfile(rank, Path(f"rank{rank}"), "companions", boot=EPOCH, counter=0,
                    links=tuple(use for use in (*every, *pair) if use.source == rank))
        for rank in range(4)
    ]  # fmt: skip
    (found,) = (each for each in job_findings(Job(Path("job"), ranks)) if each.id == "LINK.SLOW")
    assert words(found.title).startswith(
        "the link between ranks 0 and 2 is slow now and then: 1.70 GB/s in 12 of 32 equal transfers, 1"
    )
    every_one = [replace_link(use, calls=32, slow=12, slow_speed=1.7) for use in every]
    assert verdicts(judged_links(every_one)) == {}


def test_one_rank_tells_a_link_that_is_slow_now_and_then(tmp_path: Path):
    usual = replace(
        SITUATIONS["healthy"], world_size=4, steps=3, layers=6, kernel_ns=150_000, gradient_bytes=20_000_000
    )
    falters = replace(usual, trouble=Trouble(slow_link=2, link_slower=20, link_every=3))
    for name, content in recorded(falters, simulate(falters)).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (found,) = (each for each in profile_at(tmp_path).findings.findings if each.id == "COMM.LINK")
    assert words(found.title).startswith("The link to rank 2 is slow now and then (")
    assert found.gain_ns is not None


def test_transfers_that_are_slow_on_all_links_are_no_matter_of_one():
    assert faltering(np.array([18.0, 18.2, 1.7, 18.1, 17.9, 1.6])).tolist() == [False, False, True, False, False, True]
    assert faltering(np.array([18.0, 18.2, 1.7, 18.1, 17.9])) is None  # once is chance
    assert faltering(np.array([1.7, 1.6, 1.7, 1.6, 1.7, 18.0])) is None
    assert faltering(np.array([18.0, 1.0, 1.0])) is None


def test_a_few_slow_ones_of_many_transfers_are_noise():
    noise = np.random.default_rng(1).normal(0, 0.15, (56, 1_000))
    assert [at for at, link in enumerate(18.0 * np.exp(noise)) if faltering(link) is not None] == []
    again = np.full(1_000, 18.0)
    again[[100, 600]] = 18.0 / 500  # what is sent again after a timeout takes half as long as all others together
    told = faltering(again)
    assert told is not None
    assert np.flatnonzero(told).tolist() == [100, 600]
