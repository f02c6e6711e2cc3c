"""What holds the requests of a service, walked back to its owner: simulated services, each with one trouble."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import service as simulated
from served import of_services, served, written
from service import MS, US, Request, Service, Tenant
from service_writer import Folder, latencies

from npu_tui.analysis.limits import Thresholds
from npu_tui.analysis.service_cost import Cost, Filled, Floor
from npu_tui.analysis.service_latency import timeline
from npu_tui.analysis.service_model import with_engines
from npu_tui.load.load import load
from npu_tui.load.service import read_service
from npu_tui.rules import service_facts
from npu_tui.rules.service_facts import ServiceFacts
from npu_tui.rules.service_verdict import JudgedService, judged
from npu_tui.strings import words

pytestmark = of_services

_LONG_ANSWERS = (Tenant(17), Tenant(1, (200, 1000), (1400, 1800)))
_HUGE = (Tenant(24, (200, 600)), Tenant(1, (9_000, 11_000), (20, 60)))
_BRIEF, _LENGTHY = Tenant(9, (200, 600)), Tenant(2, (4_000, 5_000))
_BEGINS = Tenant(1, (1600, 2400))
_short = partial(Service, requests=150)
"""So many show each trouble; the simulator's own 240 take half as long again, written, read and replayed."""
_few = partial(Service, requests=70)
"""So many are enough where every request, or every step, has what is wrong."""


def told(service: Service, folder: Path) -> JudgedService:
    """What is said of ``service``, from its files with their trace."""
    written(service, folder, trace=True)
    return judged(load(folder), Thresholds())


def mean(service: Service, latency: str) -> float:
    """The mean of a latency of the simulated ``service``, ns."""
    return float(np.mean(latencies(served(service).requests)[latency]))


@pytest.mark.parametrize(
    ("service", "without", "latency", "title"),
    [
        (_few(grammar=70 * MS), {"grammar": 0}, "ttft", "Taking in some requests stops the scheduler"),
        (_short(filled=64, per_decode=250 * US), {"filled": 0}, "tpot", "take the same time for any batch"),
        (_few(images=130 * MS), {"images": 0}, "ttft", "far longer than their length explains"),
        (_short(launch=36 * MS), {"launch": 0}, "tpot", "No forward pass takes less than 36"),
        (
            _few(frontend=MS, per_text=240 * US, serial_text=True, gap=145 * MS), {"serial_text": False}, "ttft",
            "wait for the tokenizer, which works on 1 request at a time",
        ),
        (_few(fetch=1600 * MS), {"fetch": 0}, "ttft", "wait for their fetch_media before they reach the queue"),
        (
            _few(in_flight=5, gap=110 * MS), {"in_flight": 0}, "ttft",
            "No more than 5 requests are let in at a time",
        ),
        (_few(ahead=200, blocks=100), {"blocks": 2000}, "ttft", "wait for blocks of the KV cache"),
        (
            _few(reserve=4096, blocks=330), {"reserve": 0}, "ttft",
            "blocks that are reserved for longer answers",
        ),
        (_few(lock=250, schedule=MS, per_text=6 * US), {"lock": 0}, "tpot", "Each open request slows all that"),
        (_short(timer=200 * MS, gap=110 * MS), {"timer": 0}, "ttft", "nobody in before the first one has waited 20"),
        (
            _few(max_seqs=6, gap=120 * MS), {"max_seqs": 48}, "ttft",
            "More requests come than end with 6 in a batch",
        ),
        (_short(drained=True), {"drained": False}, "ttft", "wait until the whole batch before them has ended"),
        (_few(quota=55 * MS), {"quota": 0}, "tpot", "The host stops until the same moment of every 100.0 ms"),
        (_few(accept=40 * MS), {"accept": 0}, "ttft", "before the tokenizer, which is free"),
        (_few(penalty=8 * US), {"penalty": 0}, "tpot", "Sampling takes ever longer with the answers"),
        (_short(masks=5 * MS), {"masks": 0}, "tpot", "requests make sampling longer for all in their batch"),
        (
            _few(scan=400 * US, max_seqs=9), {"scan": 0}, "tpot",
            "Scheduling takes ever longer with the requests that wait",
        ),
        (
            _few(patience=300 * MS, gap=1_500 * MS), {"patience": 0}, "ttft",
            "waits though requests are there and nothing runs",
        ),
        (_short(drafts=3, draft=90 * MS), {"drafts": 0}, "tpot", "Making drafts takes"),
        (
            _few(budget=128, tenants=(_BEGINS,), gap=600 * MS), {"budget": 2048}, "ttft",
            "A step takes at most 128 tokens",
        ),
        (
            _few(prefix=1536, tenants=(_BEGINS,), evicted=True, gap=220 * MS), {"evicted": False}, "ttft",
            "compute 1,536 tokens anew that others had from the prefix cache",
        ),
        (
            _short(tenants=_LONG_ANSWERS, blocks=64, gap=420 * MS), {"tenants": (Tenant(18),)}, "ttft",
            "A few long answers hold the blocks",
        ),
    ],
)  # fmt: skip
def test_the_owner_is_told_first_and_its_gain_is_that_of_the_mean(
    service: Service, without: dict[str, object], latency: str, title: str, tmp_path: Path
) -> None:
    """The title names what holds requests; the replayed mean is that of the same requests without it."""
    said = told(service, tmp_path)
    first = said.findings.findings[0]
    assert title in words(first.title)
    if service.filled:  # files tell neither sizes of graphs nor whether there are any
        assert "or no graph is captured" in words(first.detail)
    then, now = mean(replace(service, **without), latency), said.figures[f"{latency}_mean"]  # type: ignore[arg-type]
    assert now - then > 0.1 * now
    replayed = words(first.detail).split(f"{latency.upper()} mean ")[1].split(" → ")[1]
    value, unit = replayed.split(" ")[:2]
    ns = float(value) * {"µs": US, "ms": MS, "s": 1000 * MS}[unit.strip(".,;")]
    assert ns == pytest.approx(then, rel=0.1)


@pytest.mark.parametrize(
    ("service", "title", "part"),
    [
        (Service(requests=200, max_seqs=10, gap=170 * MS, sample=2200 * US), "with 10 in a batch", "SERVICE.SAMPLING"),
        (
            _short(gap=50 * MS, inputs=1500 * US, hosts=(100, 100, 100, 350), speed=(100,) * 4, shares=(1,) * 4),
            "The host of DP rank 3 takes", "SERVICE.INPUTS",
        ),
    ],
)  # fmt: skip
def test_a_limit_and_a_rank_come_before_what_gains_more_by_them(
    service: Service, title: str, part: str, tmp_path: Path
) -> None:
    """What takes little of each step shortens a queue, or what one rank is slow in, by more than itself."""
    first, other, *_ = told(service, tmp_path).findings.findings
    assert title in words(first.title)
    assert (other.id, other.part_of) == (part, first.id)


def test_one_that_does_not_fit_holds_nobody_up_where_the_next_are_taken(tmp_path: Path) -> None:
    """Huge prompts, which an engine takes whole or not at all, wait for blocks: the others pass in the replay."""
    service = _few(tenants=_HUGE, blocks=110, gap=260 * MS, chunked=False, budget=32_000)
    written(service, tmp_path)
    facts = ServiceFacts(timeline(read_service(tmp_path)), Thresholds())
    assert facts.model is not None
    passing = facts.gives(lambda model: with_engines(model, skips=True))
    assert passing > 0
    assert passing < facts.gives(lambda model: with_engines(model, blocks=1 << 40))


def test_percentiles_of_other_latencies_are_told_where_they_change_much(tmp_path: Path) -> None:
    """The tail of TPOT may be what hurts, though TTFT gains more by the same change."""
    written(_few(), tmp_path)
    facts = ServiceFacts(timeline(read_service(tmp_path)), Thresholds())
    then = facts.figures | {name: by * facts.figures[name] for name, by in (("ttft_p50", 0.5), ("tpot_p99", 0.8))}
    told_of = [words(one).split(" ms")[0].rpartition(" ")[0] for one in facts.changes(then)]
    assert "TPOT p99" in told_of
    assert told_of[0] == "TTFT p50"
    assert not {"TPOT p50", "E2E p50", "ITL p99"} & set(told_of)


def between_tokens(service: Service) -> float:
    """The 99th percentile of what lies between two tokens of a request of the simulated ``service``, ns."""
    ends = dict[int, list[int]]()
    for batch in sorted(served(service).batches, key=lambda batch: batch.execute):
        for (rid, *_), given in zip(batch.members, batch.accepted, strict=True):
            ends.setdefault(rid, []).extend([batch.execute[1]] if given else [])
    return float(np.percentile(np.concatenate([np.diff(of) for of in ends.values()]), 99))


def test_prompts_that_come_first_are_told_by_the_distance_of_tokens(tmp_path: Path) -> None:
    """Computed whole, prompts stop all answers now and then; in chunks they take longer: told, not called a trouble."""
    service = _few(tenants=(Tenant(1, (1200, 3600)),), gap=420 * MS, chunked=False, budget=8192)
    said = told(service, tmp_path)
    assert said.figures["itl_p99"] == pytest.approx(between_tokens(service), rel=0.02)
    assert said.findings.leaders == ()
    (hint,) = said.findings.findings
    assert hint.title.code == "finding.service.mix_whole_first"
    then = float(words(hint.detail).split("ITL p99 ")[1].split(" → ")[1].split(" ms")[0]) * MS
    assert then == pytest.approx(between_tokens(replace(service, chunked=True, budget=512)), rel=0.1)


def test_prompts_are_told_by_how_they_hold_up_answers_and_where_nothing_else_is_to_be_mended(tmp_path: Path) -> None:
    """Steps of their own are a setting; that prompts take most of TPOT is not, and goes with those that need not be."""
    first = Service(
        requests=100, chunked=False, budget=8192, gap=130 * MS, tenants=(Tenant(1, (1200, 2500), (30, 90)),)
    )
    found = told(first, tmp_path / "first").findings.findings
    assert words(found[0].title).startswith("Prompts come before decoding, in steps of their own, and hold up the ans")
    many = Service(requests=120, prefix=1536, gap=85 * MS, tenants=(Tenant(1, (1600, 1900), (20, 60)),))
    assert [
        one.id
        for one in told(
            replace(many, prefix=0, gap=95 * MS, budget=16384, max_seqs=200), tmp_path / "all"
        ).findings.leaders
    ] == ["SERVICE.MIX"]
    found = told(replace(many, cold_from=30), tmp_path / "stopped").findings.findings
    assert [one.id for one in found] == ["SERVICE.PREFIX"]


def test_a_cache_that_gives_nothing_is_no_finding_where_nothing_says_that_prompts_are_alike(tmp_path: Path) -> None:
    """Most of TTFT is prefill and no prompt has a hit: what is not recorded is not checked."""
    said = told(_few(tenants=(Tenant(1, (150, 2400)),), gap=260 * MS, prefix=128, cold_from=1), tmp_path)
    assert said.findings.findings == ()
    assert "SERVICE.PREFIX" in dict(said.findings.not_checked)


def test_what_runs_between_steps_is_named(tmp_path: Path) -> None:
    """The trace has a range of the engine after every step, while nothing else runs."""
    written(Service(output=8 * MS, requests=70), tmp_path, trace=True)
    path = tmp_path / "chrome_tracing.json"
    events = json.loads(path.read_bytes())
    steps = [event for event in events if event["name"] == "modelExec"]
    more = ({"name": "log_stats", "ts": step["ts"] + step["dur"], "dur": 7_500.0, "args": {}} for step in steps)
    path.write_text(json.dumps(events + [step | after for step, after in zip(steps, more, strict=True)]))
    first = judged(load(tmp_path), Thresholds()).findings.findings[0]
    assert (first.id, first.title.code) == ("SERVICE.BUBBLE", "finding.service.named_bubble")
    assert words(first.title).startswith("Between steps the device waits for log_stats")


@pytest.mark.parametrize(("service", "kind"), [(_few(max_seqs=9), "queue"), (_few(blocks=64), "kv")])
def test_requests_that_run_on_after_their_end_keep_what_others_wait_for(
    service: Service, kind: str, tmp_path: Path
) -> None:
    """Of all requests some end early for their client and are computed on; without that the others wait less."""
    folder = tmp_path / "service"
    written(service, folder)
    path = folder / "request.csv"
    rows = list(csv.DictReader(path.open(newline="")))
    for row in rows[::3]:
        row["execution_time(ms)"] = str(float(row["first_token_latency(ms)"]) + 1)
    with path.open("w", newline="") as out:
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    first = judged(load(folder), Thresholds()).findings.findings[0]
    assert first.title.code == f"finding.service.{kind}_gone"
    assert "Pass the abort of a client" in words(first.advice[0])
    assert first.title.args["gone"] == pytest.approx(len(rows[::3]), abs=2)


def test_prompts_that_may_begin_alike_are_told_with_what_a_cache_would_give(tmp_path: Path) -> None:
    """No prompt is far shorter than the others, and no hit is recorded; prompts of any length say nothing."""
    alike = told(_few(tenants=(_BEGINS,), gap=260 * MS), tmp_path / "alike")
    assert alike.findings.leaders == ()
    assert "if they share their first" in words(alike.findings.verdict[0])
    other = told(_few(tenants=(Tenant(1, (100, 2400)),), gap=260 * MS), tmp_path / "other")
    assert "if they share" not in " ".join(words(said) for said in other.findings.verdict)


def test_requests_that_come_again_are_told_beside_those_that_are_alike_by_chance(tmp_path: Path) -> None:
    """Every fourth request comes twice; without them the others have the latencies of a run without them."""
    service = Service(repeats=900 * MS, requests=160)
    said = told(service, tmp_path / "twice")
    first = said.findings.findings[0]
    assert first.title.code == "finding.service.repeats"
    assert (first.title.args["count"], first.title.args["all"]) == (40, 200)
    assert mean(replace(service, repeats=0), "tpot") == pytest.approx(
        float(words(first.detail).split("TPOT mean ")[1].split(" → ")[1].split(" ms")[0]) * MS, rel=0.03
    )
    assert told(_short(tenants=(Tenant(1, (500, 540)),)), tmp_path / "chance").findings.findings == ()


def test_heaps_of_requests_are_told_where_chance_does_not_explain_them(tmp_path: Path) -> None:
    """Twelve at a time wait for each other; the same number by chance says nothing."""
    heaps = told(_few(burst=12, gap=220 * MS), tmp_path / "heaps")
    assert "come in heaps" in words(heaps.findings.verdict[0]) or "in bursts" in words(heaps.findings.verdict[0])
    assert heaps.findings.leaders == ()
    assert told(_few(gap=220 * MS), tmp_path / "chance").findings.findings == ()


def test_drafts_that_save_more_than_they_cost_are_no_loss(tmp_path: Path) -> None:
    """Few are accepted, but they are nearly free: what good ones would give is told as what may be."""
    said = told(_few(drafts=3, draft=100 * US, accepted=350), tmp_path)
    assert said.findings.leaders == ()
    (hint,) = [one for one in said.findings.findings if one.id == "SERVICE.DRAFTS"]
    assert hint.severity == "info"
    assert "They save more than they cost" in words(hint.detail)


def test_what_a_smaller_draft_model_would_give_is_no_finding(tmp_path: Path) -> None:
    """Drafts take long, but tokens come sooner with them: nothing shows that others take less."""
    said = told(_few(drafts=3, draft=12 * MS), tmp_path)
    assert said.findings.leaders == ()
    (hint,) = [one for one in said.findings.findings if one.id == "SERVICE.DRAFTS"]
    assert hint.severity == "info"
    assert "an assumption" in words(hint.detail)


def test_what_samples_longer_is_named_by_its_ranges(tmp_path: Path) -> None:
    """A range within sampling takes as much longer as some requests do, beside one that each batch has."""
    written(_short(masks=5 * MS), tmp_path, trace=True)
    path = tmp_path / "chrome_tracing.json"
    events = json.loads(path.read_bytes())
    for one in [event for event in events if event["name"] == "sample"]:
        masks = one["dur"] // 5_000 * 5_000.0
        events += [dict(one, name="apply_mask", dur=masks)] if masks else []
        events.append(dict(one, name="to_host", ts=one["ts"] + masks, dur=one["dur"] - masks))
    path.write_text(json.dumps(events))
    first = judged(load(tmp_path), Thresholds()).findings.findings[0]
    assert words(first.title).startswith("apply_mask makes sampling longer for all in the batch of 30 of 150")


def test_text_that_is_made_between_steps_is_told_as_the_gap(tmp_path: Path) -> None:
    """The ranges belong to the process that answers, but no step begins before they end: late tokens are part of it."""
    written(_few(output=12 * MS), tmp_path, trace=True)
    path = tmp_path / "chrome_tracing.json"
    events = json.loads(path.read_bytes())
    one = next(event for event in events if event["name"] == "detokenize")
    samples = [event for event in events if event["name"] == "sample"]
    events = [event for event in events if event["name"] != "detokenize"]
    events += [dict(one, ts=at["ts"] + at["dur"], dur=12_000.0, args={}) for at in samples]
    path.write_text(json.dumps(events))
    first, *others = judged(load(tmp_path), Thresholds()).findings.findings
    assert words(first.title).startswith("Between steps the device waits for detokenize")
    assert all(other.severity == "info" for other in others)
    then = mean(_few(output=0), "tpot")
    value = words(first.detail).split("TPOT mean ")[1].split(" → ")[1].split(" ms")[0]
    assert float(value) * MS == pytest.approx(then, rel=0.1)
    assert "ITL p50 " in words(first.detail)


@pytest.mark.parametrize("away", [0.02, 0.08])
def test_of_a_least_time_and_filled_up_batches_what_is_nearer_to_times_is_told(
    away: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Passes with a prompt that by chance take a little less than the least time do not show that batches are full."""
    written(_few(), tmp_path)
    facts = ServiceFacts(timeline(read_service(tmp_path)), Thresholds())
    cost = Cost(14.0 * MS, 40.0 * US, 120.0 * US, 10.0, 0.0)
    monkeypatch.setattr(service_facts, "filled_in", lambda *_: Filled(cost, 20.0 * MS, 0.0, 64, True, 0, 0.05))
    monkeypatch.setattr(service_facts, "floor_in", lambda *_: Floor(36.0 * MS, cost, 0.5, away))
    assert (facts.filled is None) == (facts.floor is not None) == (away < 0.05)


def test_a_tokenizer_that_is_free_in_between_is_slow_not_short(tmp_path: Path) -> None:
    """With some time to spare it would be enough if it was quick; more threads gain less, and are told besides."""
    first = told(Service(frontend=MS, per_text=240 * US, serial_text=True, gap=200 * MS), tmp_path).findings.findings[0]
    assert "wait for the tokenizer, which is slow" in words(first.title)
    assert "more threads or processes" in words(first.detail)


def test_fewer_drafts_are_replayed_where_they_gain_more_than_none(tmp_path: Path) -> None:
    """Of eight drafts the first ones pay, the others do not: with those a token takes as long as in a simulation."""
    service = _few(drafts=8, draft=8 * MS, accepted=500)
    said = told(service, tmp_path)
    first = said.findings.findings[0]
    assert first.id == "SERVICE.DRAFTS"
    few = int(words(first.detail).split("Replayed with ")[1].split(" ")[0])
    assert 0 < few < 8
    value = words(first.detail).split("TPOT mean ")[1].split(" → ")[1].split(" ms")[0]
    simulated_alike = replace(service, drafts=few, draft=few * service.draft // 8)
    assert float(value) * MS == pytest.approx(mean(simulated_alike, "tpot"), rel=0.1)


def test_no_drafts_are_replayed_where_fewer_gain_hardly_more(tmp_path: Path) -> None:
    first = told(_short(drafts=3, draft=5 * MS, accepted=200), tmp_path).findings.findings[0]
    assert first.id == "SERVICE.DRAFTS"
    assert "Replayed with " not in words(first.detail)


def test_long_prompts_that_one_engine_is_given_are_told_as_its_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gain is that of the same requests by tokens; what would go if they were short is not the gain of routing."""
    arrivals = simulated._arrivals
    given = _few(gap=55 * MS, shares=(1, 2), tenants=(_BRIEF, _LENGTHY), blocks=6000, max_seqs=64)

    def long_ones_first(service: Service) -> list[Request]:
        return [replace(one, rank=0 if one.prompt > 2_500 else one.rank) for one in arrivals(service)]

    def by_tokens(service: Service) -> list[Request]:
        sums, requests = [0, 0], arrivals(service)
        for one in requests:
            one.rank = sums.index(min(sums))
            sums[one.rank] += one.prompt + one.output
        return requests

    monkeypatch.setattr(simulated, "_arrivals", long_ones_first)
    first_way = simulated.serve(given)
    Folder(first_way).write(tmp_path, trace=True)
    said = judged(load(tmp_path), Thresholds())
    monkeypatch.setattr(simulated, "_arrivals", by_tokens)
    now, then = (float(np.mean(latencies(way.requests)["ttft"])) for way in (first_way, simulated.serve(given)))
    assert [one.id for one in said.findings.findings if one.severity != "info"] == ["SERVICE.RANK"]
    first = said.findings.findings[0]
    assert words(first.title).startswith("DP rank 0 is given longer requests than the others")
    value, unit = words(first.detail).split("TTFT mean ")[1].split(" → ")[1].split(" ")[:2]
    assert unit.strip(".,;") == "ms"
    assert now - float(value) * MS == pytest.approx(now - then, rel=0.1)


def test_a_prompt_that_does_not_fit_is_told_though_it_is_next_for_a_part_of_the_time(tmp_path: Path) -> None:
    """Others wait most of the time for the blocks that it has then: had they passed it, they would not wait."""
    huge = (Tenant(25, (100, 500), (20, 60)), Tenant(1, (2_800, 3_200), (20, 60)))
    service = _few(tenants=huge, blocks=44, gap=120 * MS, ahead=60)
    said = told(service, tmp_path)
    assert said.findings.findings[0].title.code == "finding.service.kv_head"
