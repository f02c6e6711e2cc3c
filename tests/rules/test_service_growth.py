"""What the host of a simulated service takes longer for later: bit by bit, or since a moment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from served import figure, of_services, written
from service import MS, US, Service, Tenant

from npu_tui.analysis.limits import Thresholds
from npu_tui.load.load import load
from npu_tui.rules.service_verdict import JudgedService, judged
from npu_tui.strings import words

pytestmark = of_services

_SERVICE = Service(requests=80)


def _told(service: Service, folder: Path) -> JudgedService:
    written(service, folder)
    return judged(load(folder), Thresholds())


@pytest.mark.parametrize(
    ("service", "title"),
    [
        (replace(_SERVICE, keeps=150 * US), "Each step's schedule takes ever longer over the run"),
        (replace(_SERVICE, later=12 * MS), "Each step's schedule takes 12."),
    ],
)
def test_what_grows_or_begins_in_the_run_is_told_with_what_it_was_before(
    service: Service, title: str, tmp_path: Path
) -> None:
    """The replay without it has the figures of the same service as it was in the beginning."""
    found = _told(service, tmp_path)
    first = found.findings.findings[0]
    assert words(first.title).startswith(title)
    after = found.facts.after(found.remedies[first.id])
    assert after
    for name, share in (("tpot", 50), ("tpot", 99)):
        assert after[f"{name}_p{share}"] == pytest.approx(figure(_SERVICE, name, share), rel=0.1)


@pytest.mark.parametrize("service", [replace(_SERVICE, schedule=8 * MS), replace(_SERVICE, scan=3 * MS, max_seqs=9)])
def test_what_takes_long_all_the_time_or_by_the_queue_does_not_grow(service: Service, tmp_path: Path) -> None:
    assert not _told(service, tmp_path).facts.grown


_RANKS = Service(requests=80, gap=55 * MS, shares=(1, 1, 1), inputs=MS)


@pytest.mark.parametrize("lockstep", [True, False])
def test_a_rank_whose_host_is_slow_is_told_with_what_it_is_slow_in(lockstep: bool, tmp_path: Path) -> None:
    """In lockstep all wait for it; the replay with a host like the others' has the figures of such a service."""
    usual = replace(_RANKS, lockstep=lockstep)
    found = _told(replace(usual, hosts=(100, 100, 700)), tmp_path)
    first = found.findings.findings[0]
    assert words(first.title).startswith("The host of DP rank 2 takes")
    assert ("all wait for it" in words(first.title)) == lockstep
    assert "inputs 7." in words(first.detail)
    assert "schedule 2.8" in words(first.detail)
    after = found.facts.after(found.remedies[first.id])
    assert after
    for name, share in (("tpot", 50), ("ttft", 50)):
        assert after[f"{name}_p{share}"] == pytest.approx(figure(usual, name, share), rel=0.1)


def test_ranks_with_like_hosts_are_not_told_apart(tmp_path: Path) -> None:
    assert not _told(replace(_RANKS, lockstep=True), tmp_path).findings.leaders


def test_pulls_that_wait_for_a_place_are_told_with_the_side_that_is_short(tmp_path: Path) -> None:
    """They begin once one is free: no transfer and no handover is slow, and more places are what helps."""
    usual = replace(_SERVICE, requests=80, gap=90 * MS, pull=6 * US, seated=True)
    found = _told(replace(usual, max_seqs=5), tmp_path)
    first = found.findings.findings[0]
    assert words(first.title).startswith("Requests wait for a place on the decode side, which is short")
    assert "SERVICE.TRANSFER" not in [one.id for one in found.findings.leaders]
    after = found.facts.after(found.remedies[first.id])
    assert after
    for name, share in (("ttft", 50), ("tpot", 50)):
        assert after[f"{name}_p{share}"] == pytest.approx(figure(usual, name, share), rel=0.1)


def test_passes_that_are_compiled_anew_are_told_by_the_shapes_of_their_prompts(tmp_path: Path) -> None:
    usual = replace(_SERVICE, requests=200, gap=90 * MS)
    found = _told(replace(usual, compiles=22 * MS), tmp_path)
    first = found.findings.findings[0]
    assert "passes take 21." in words(first.title)
    assert "rounded up to 128, than the 3 passes with prompts before them" in words(first.detail)
    after = found.facts.after(found.remedies[first.id])
    assert after
    for name, share in (("ttft", 50), ("tpot", 50)):
        assert after[f"{name}_p{share}"] == pytest.approx(figure(usual, name, share), rel=0.1)


def test_a_context_that_all_of_a_pass_are_padded_to_is_told(tmp_path: Path) -> None:
    tenants = (Tenant(6, (100, 300)), Tenant(1, (1500, 3000)))
    usual = replace(_SERVICE, requests=80, tenants=tenants, per_context=900 * US)
    found = _told(replace(usual, padded=True), tmp_path)
    first = found.findings.findings[0]
    assert words(first.title).startswith("One long context makes a pass as long as if all of its requests had it")
    after = found.facts.after(found.remedies[first.id])
    assert after
    for name, share in (("tpot", 50), ("tpot", 99)):
        assert after[f"{name}_p{share}"] == pytest.approx(figure(usual, name, share), rel=0.1)


def test_passes_that_cost_what_each_request_has_are_not_padded(tmp_path: Path) -> None:
    tenants = (Tenant(6, (100, 300)), Tenant(1, (1500, 3000)))
    assert _told(replace(_SERVICE, tenants=tenants, per_context=900 * US), tmp_path).facts.padded is None


def test_blocks_that_ended_requests_keep_are_told_with_for_how_long(tmp_path: Path) -> None:
    usual = replace(_SERVICE, requests=200, blocks=130)
    found = _told(replace(usual, held=900 * MS), tmp_path)
    first = found.findings.findings[0]
    assert words(first.title).startswith("Blocks stay taken for about 9")
    after = found.facts.after(found.remedies[first.id])
    assert after
    for name, share in (("ttft", 50), ("tpot", 50)):
        assert after[f"{name}_p{share}"] == pytest.approx(figure(usual, name, share), rel=0.1)


@pytest.mark.parametrize("limit", [3000 * MS, 0])
def test_clients_that_give_up_and_try_again_are_told_with_how_long_they_wait(limit: int, tmp_path: Path) -> None:
    """The replay has the figures of a service whose clients wait for their first request."""
    usual = replace(_SERVICE, requests=80, max_seqs=11)
    found = _told(replace(usual, gives_up=limit), tmp_path)
    first = found.findings.findings[0]
    if not limit:
        assert first.id != "SERVICE.REPEATS"
        return
    assert words(first.title).startswith("Clients give up after 3.000 s and send the request again: ")
    after = found.facts.after(found.remedies[first.id])
    assert after
    assert after["tpot_p50"] == pytest.approx(figure(usual, "tpot", 50), rel=0.1)
    assert after["ttft_p50"] == pytest.approx(figure(usual, "ttft", 50), rel=0.2)


def test_an_engine_that_looks_for_requests_now_and_then_is_told_with_how_often(tmp_path: Path) -> None:
    usual = replace(_SERVICE, requests=120, gap=2500 * MS)
    found = _told(replace(usual, looks=150 * MS), tmp_path)
    first = found.findings.findings[0]
    assert words(first.title).startswith("An idle engine looks for new requests only every 15")
    after = found.facts.after(found.remedies[first.id])
    assert after
    assert after["ttft_p50"] == pytest.approx(figure(usual, "ttft", 50), rel=0.1)


def test_requests_that_come_many_in_a_row_to_one_engine_are_told(tmp_path: Path) -> None:
    """Each engine gets as many as the other in all."""
    usual = Service(requests=240, gap=110 * MS, shares=(1, 1), tenants=(Tenant(1, (1200, 2400)),))
    found = _told(replace(usual, row=12), tmp_path)
    first = found.findings.findings[0]
    assert words(first.title).startswith("Requests come to one engine many in a row (12 on average)")
    after = found.facts.after(found.remedies[first.id])
    assert after
    assert after["ttft_p50"] == pytest.approx(figure(usual, "ttft", 50), rel=0.15)


def test_a_probe_that_slows_the_others_is_told_by_its_length_and_how_often_it_comes(tmp_path: Path) -> None:
    usual = replace(_SERVICE, budget=4096)
    found = _told(replace(usual, probe=400 * MS), tmp_path)
    first = found.findings.findings[0]
    assert words(first.title).startswith("The same request, 3,000 tokens in and 1 out, comes every 400.0 ms")
    after = found.facts.after(found.remedies[first.id])
    assert after
    for name, share in (("ttft", 50), ("tpot", 50)):
        assert after[f"{name}_p{share}"] == pytest.approx(figure(usual, name, share), rel=0.1)


@pytest.mark.parametrize("told", [True, False])
def test_several_decode_steps_in_a_schedule_are_told_where_nothing_drafts(told: bool, tmp_path: Path) -> None:
    written(replace(_SERVICE, drafts=7, draft=0, accepted=1000), tmp_path)
    if told:
        (tmp_path / "spec_decode.csv").unlink()
    titles = [words(one.title) for one in judged(load(tmp_path), Thresholds()).findings.findings]
    assert any(title.startswith("Each schedule covers 8 decode steps") for title in titles) == told
