"""What fills the batches and the blocks of a simulated service: runaway replies, copies, settings that leave room."""

from __future__ import annotations

import csv
import json
from dataclasses import replace as changed
from pathlib import Path

import pytest
from msgspec.structs import replace
from served import figure, of_services, written
from service import MS, Service, Tenant

from npu_tui.analysis.limits import Thresholds
from npu_tui.analysis.service_latency import timeline
from npu_tui.analysis.service_model import ServiceModel, with_engines
from npu_tui.analysis.service_replay import replayed
from npu_tui.load.load import load
from npu_tui.load.service import read_service
from npu_tui.rules.model import Finding
from npu_tui.rules.service_answers import _stands_still
from npu_tui.rules.service_facts import ServiceFacts
from npu_tui.rules.service_requests import _all_given, _small_blocks
from npu_tui.rules.service_verdict import judge
from npu_tui.strings import words
from npu_tui.trace.arrays import I64

pytestmark = of_services

_SHORT = Tenant(24, (100, 400), (8, 20))


def _first(folder: Path) -> Finding:
    return judge(timeline(read_service(folder))).findings.findings[0]


def _then(finding: Finding, name: str) -> float:
    """The replayed figure ``name`` in the detail of ``finding``, ns."""
    value, unit = words(finding.detail).split(f"{name} ")[1].split(" → ")[1].split(" ")[:2]
    return float(value) * (MS if unit.startswith("ms") else 1000 * MS)


def test_a_few_replies_at_the_limit_hold_the_places(tmp_path: Path) -> None:
    """One of 25 replies runs on to the same length; others that are merely longer are not told so."""
    service = Service(requests=300, gap=70 * MS, max_seqs=6, tenants=(_SHORT, Tenant(1, (100, 400), (300, 300))))
    first = _first(written(service, tmp_path / "limit"))
    assert first.title.code == "finding.service.queue_limit"
    assert "300 tokens" in words(first.title)
    assert _then(first, "TTFT p99") < 0.5 * figure(service, "ttft", 99)
    several = changed(service, tenants=(_SHORT, Tenant(1, (100, 400), (200, 400))))
    assert _first(written(several, tmp_path / "several")).title.code != "finding.service.queue_limit"


def test_blocks_that_are_kept_back_or_too_large_are_what_requests_wait_for(tmp_path: Path) -> None:
    """Of 16 blocks 8 are never given out; or a block holds eight times as many tokens as usual."""
    service = Service(requests=100, gap=40 * MS, tenants=(Tenant(1, (60, 100), (8, 24)),))
    model = ServiceFacts(timeline(read_service(written(service, tmp_path))), Thresholds()).model
    assert model is not None
    room = replace(model.engines[0].room, total=(16,))

    def waits(one: ServiceModel) -> float:
        return replayed(one).figures()["ttft_mean"]

    kept = with_engines(model, room=room, blocks=16, margin=12)
    free = with_engines(kept, margin=0)
    assert waits(_all_given(kept)) == waits(free) < 0.8 * waits(kept)
    large = with_engines(model, room=replace(room, block=1024, total=(4,)), blocks=4)
    assert waits(_small_blocks(large)) < 0.8 * waits(large)


def test_one_prompt_a_pass_is_told(tmp_path: Path) -> None:
    """Short prompts wait for passes of their own."""
    service = Service(requests=100, gap=24 * MS, alone=True, tenants=(Tenant(1, (60, 120), (4, 8)),))
    first = _first(written(service, tmp_path))
    assert (first.id, first.title.code) == ("SERVICE.WAIT", "finding.service.one_prompt")


def test_second_copies_of_requests_are_told_from_repeated_ones(tmp_path: Path) -> None:
    """Of two requests that come 10 ms after each other one gets no answer, as its copy was sooner."""
    service = Service(repeats=10 * MS, requests=160)
    path = written(service, tmp_path) / "request.csv"
    rows = list(csv.DictReader(path.open(newline="")))
    alike = [row["recv_token_size"] for row in rows]
    for at, row in enumerate(rows):
        if row["recv_token_size"] in alike[max(at - 3, 0) : at]:
            row["first_token_latency(ms)"] = ""
    with path.open("w", newline="") as out:
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    codes = [one.title.code for one in judge(timeline(read_service(tmp_path))).findings.findings]
    assert "finding.service.copies_sent" in codes
    assert "finding.service.repeats" not in codes


def test_a_process_that_answers_nothing_while_steps_end_stands_still(tmp_path: Path) -> None:
    """Something is sent after each step but those of three stops; one that says little of what it does has none."""
    written(Service(requests=100), tmp_path, trace=True)
    path = tmp_path / "chrome_tracing.json"
    events = [event for event in json.loads(path.read_bytes()) if event["name"] not in ("detokenize", "sendResponse")]
    ends = sorted(
        ((event["ts"] + event["dur"], event) for event in events if event["name"] == "modelExec"),
        key=lambda one: float(one[0]),
    )
    away = [at for first in (100, 200, 300) for at in range(first, first + 8)]

    def stops(left_out: list[int]) -> tuple[I64, I64] | None:
        sent = [
            event | {"name": "sendResponse", "pid": "API", "tid": "API", "ts": end + 50, "dur": 20.0, "args": {}}
            for at, (end, event) in enumerate(ends) if at not in left_out
        ]  # fmt: skip
        path.write_text(json.dumps(events + sent))
        service = load(tmp_path).service
        assert service is not None
        return _stands_still(ServiceFacts(timeline(service), Thresholds()))

    found = stops(away)
    assert found is not None
    assert len(found[0]) == 3
    assert (found[1] - found[0]).tolist() == pytest.approx(
        [(ends[at + 8][0] - ends[at - 1][0]) * 1e3 - 2e4 for at in (100, 200, 300)], abs=1e6
    )
    assert stops([]) is None
    assert stops([at for at in range(len(ends)) if at % 5]) is None


def test_an_engine_that_joins_late_is_told(tmp_path: Path) -> None:
    """The first 101 requests go to one of two engines, then each takes every other one."""
    service = Service(requests=300, gap=70 * MS, max_seqs=12, shares=(1, 1), speed=(100, 100), joins=101)
    first = _first(written(service, tmp_path / "late"))
    assert first.title.code == "finding.service.rank_joins"
    assert "101 requests come to others before" in words(first.detail)


def test_requests_that_decode_in_turns_have_their_blocks(tmp_path: Path) -> None:
    """A pass computes fewer than run, though blocks are free: nothing says that they lose any."""
    said = judge(timeline(read_service(written(Service(requests=100, gap=160 * MS, turns=9), tmp_path))))
    first = next(one for one in said.findings.findings if one.title.code == "finding.service.turns")
    assert "No pass decodes more than 9 requests" in words(first.title)
    assert "swapped" not in words(first.detail)


def test_drafts_that_are_accepted_no_more_are_told_with_the_moment(tmp_path: Path) -> None:
    """The first half of the steps has all of its drafts accepted, the others hardly any; else there is no moment."""
    path = written(Service(requests=100, drafts=3, accepted=100), tmp_path) / "spec_decode.csv"
    assert _first(tmp_path).title.code == "finding.service.drafts"
    rows = list(csv.DictReader(path.open(newline="")))
    with path.open("w", newline="") as out:
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        few = rows[: len(rows) // 4]
        writer.writerows([row | {"accepted_tokens": row["spec_tokens"]} for row in few] + rows[len(few) :])
    first = _first(tmp_path)
    assert first.title.code == "finding.service.drafts_fall"
    assert first.title.args["before"] > 0.9
