"""What makes the requests of simulated services slow: the cause first, parts that add up, the gain of the twin."""

from __future__ import annotations

import csv
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from measured import profile_of

from npu_tui.load.load import load

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "fixtures"))

from served import of_services, served, shortened, written
from service_causes import write_service
from service_writer import EPOCH_NS
from services import ALL, NEAR, outcome

from npu_tui.analysis.limits import Number, Threshold, Thresholds
from npu_tui.analysis.service_cost import Cost, Slower
from npu_tui.analysis.service_latency import timeline
from npu_tui.analysis.service_model import model_of
from npu_tui.analysis.service_replay import replayed
from npu_tui.load.service import read_service
from npu_tui.rules.service import SERVICE_RULES
from npu_tui.rules.service_facts import Cause, ServiceFacts
from npu_tui.rules.service_verdict import judge
from npu_tui.strings import words
from npu_tui.trace.service import EngineRanges

pytestmark = of_services

SILENT = ["healthy", "idle"]
NAMED = ["kv a block more", "kv some kept", "wait", "transfer", "stalls", "late output"]


@pytest.mark.parametrize("name", SILENT)
def test_healthy_services_are_silent(name: str, tmp_path: Path) -> None:
    found = outcome(shortened(ALL[name], 20), 1, tmp_path)
    assert found.named == []


@pytest.mark.few(3)
@pytest.mark.parametrize("name", NAMED)
def test_cause_first_with_the_gain_of_its_twin(name: str, tmp_path: Path) -> None:
    found = outcome(shortened(ALL[name], 100), 2, tmp_path)
    assert found.named[0] == ALL[name].finding
    assert found.error is not None
    assert found.error <= NEAR


@pytest.mark.parametrize("name", ["serial full", "full rank"])
def test_places_are_held_by_requests_that_a_step_leaves_out(name: str, tmp_path: Path) -> None:
    """Steps of prompts alone have room only in appearance; where one rank is full, more places are no remedy."""
    assert outcome(shortened(ALL[name], 150), 1, tmp_path).named == [ALL[name].finding]


@pytest.mark.parametrize("name", ["scheduler", "transfer"])
def test_a_wait_may_end_elsewhere(name: str, tmp_path: Path) -> None:
    """When its first schedule begins, and not where that ends or on the decode side: the time before it is the same."""
    trouble = shortened(ALL[name], 80)
    found = timeline(read_service(written(trouble.service, tmp_path)))
    rids, opened = found.service.rids, found.steps.opened[found.latencies.first]
    came = {f"cmpl-{request.rid:06d}": EPOCH_NS + request.enqueue for request in served(trouble.service).requests}
    rows = list(csv.DictReader((tmp_path / "request.csv").open(newline="")))
    for row in rows:
        rid = row["http_rid"]
        row["queue_wait_time(ms)"] = f"{(opened[rids.index(rid)] - came[rid]) / 1e6:.6f}"
    with (tmp_path / "request.csv").open("w", newline="") as out:
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    found = timeline(read_service(tmp_path))
    off = {rid: abs(int(found.latencies.arrival[found.service.rids.index(rid)]) - time) for rid, time in came.items()}
    known = [time for time in off.values() if time < 1_000_000_000]  # a wait of 0 is unknown
    assert len(known) > 20
    assert max(known) < 3_000_000
    judged = judge(found)
    assert [one.id for one in judged.findings.findings] == [trouble.finding]
    assert judged.findings.findings[0].gain_ns is not None


def test_the_worker_that_the_others_wait_for(tmp_path: Path) -> None:
    found = outcome(shortened(ALL["late_worker"], 60), 1, tmp_path)
    assert (found.named, found.error is not None and found.error < NEAR) == (["SERVICE.WORKERS"], True)


def test_the_prefix_cache_forgets(tmp_path: Path) -> None:
    """From some moment on nothing is hit: that is the cause. Where nothing ever was, nobody knows what could be."""
    found = outcome(shortened(ALL["prefix"], 180), 1, tmp_path / "cold")
    assert (found.named, found.error is not None and found.error < NEAR) == (["SERVICE.PREFIX"], True)
    first = judge(timeline(read_service(tmp_path / "cold"))).findings.findings[0]
    assert "blocks are free at least: nothing is evicted" in words(first.detail)
    assert [one.code for one in first.advice] == ["finding.advice.service_prefix_changed"]
    written(replace(shortened(ALL["prefix"], 60).service, prefix=1), tmp_path / "none")
    judged = judge(timeline(read_service(tmp_path / "none")))
    assert ("SERVICE.PREFIX", "info") in [(one.id, one.severity) for one in judged.findings.findings]
    assert not judged.findings.leaders
    assert words(judged.findings.verdict[0]).startswith("The prefix cache gives 0% of the prompts")


def test_the_rank_with_the_slow_link_is_named(tmp_path: Path) -> None:
    """Half of the pulls begin later, on another rank: to this one the link is six times as fast."""
    written(shortened(ALL["transfer"], 80).service, tmp_path)
    path = tmp_path / "pd_split_kvcache.csv"
    rows = list(csv.DictReader(path.open(newline="")))
    for row in rows[::2]:
        start, end = float(row["start_time(ms)"]), float(row["end_time(ms)"])
        row |= {
            "rank": "1",
            "start_time(ms)": f"{end - (end - start) / 6:.6f}",
            "during_time(ms)": f"{(end - start) / 6}",
        }
    for row in rows[1::2]:
        row["rank"] = "0"
    with path.open("w", newline="") as out:
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    first = judge(timeline(read_service(tmp_path))).findings.findings[0]
    assert "KV transfers of rank 0 take 6.0 times as long" in words(first.title)
    assert "per token of the prompt" in words(first.detail)
    asked = set[str]()

    class Noting(Thresholds):
        def __getitem__(self, threshold: Threshold[Number]) -> Number:
            asked.add(threshold.name)
            return super().__getitem__(threshold)

    (rule,) = [one for one in SERVICE_RULES if one.id == "SERVICE.TRANSFER"]
    rule.check(ServiceFacts(timeline(read_service(tmp_path)), Noting()))
    assert asked == {one.name for one in rule.thresholds} == {"service_share", "service_slower"}


def test_events_of_the_kv_cache_tell_of_the_engine_that_their_request_is_on(tmp_path: Path) -> None:
    """MindIE names requests, neither ranks nor all blocks, and dates alone."""
    trouble = shortened(ALL["kv"], 100)
    written(replace(trouble.service, shares=(1, 1), gap=trouble.service.gap // 2), tmp_path)
    batches = list(csv.DictReader((tmp_path / "batch.csv").open(newline="")))
    kept = {"start_datetime": "start_time", "end_datetime": "end_time"}
    kept |= {name: name for name in ("name", "res_list", "batch_size", "batch_type", "prof_id")}
    events = [
        {
            "rid": rid.group(1),
            "name": "allocate",
            "start_time": row["end_datetime"],
            "device_kvcache_left": row["free_blocks"],
        }
        for row in batches
        if row["free_blocks"].isdigit() and (rid := re.search(r"'rid': '([^']+)'", row["res_list"]))
    ]
    batches = [{new: row[old] for old, new in kept.items()} for row in batches]
    for name, rows in (("batch", batches), ("kvcache", events)):
        with (tmp_path / f"{name}.csv").open("w", newline="") as out:
            writer = csv.DictWriter(out, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    first = judge(timeline(read_service(tmp_path))).findings.findings[0]
    assert first.id == "SERVICE.KV"
    assert "blocks were free (median)" in words(first.detail)


def test_a_replay_of_half_a_recording_ends(tmp_path: Path) -> None:
    """Half of the batches is lost: some answers then grow by a fraction of a token in a step, and are preempted."""
    write_service(tmp_path, "kv", requests=60)
    batches = (tmp_path / "batch.csv").read_bytes()
    (tmp_path / "batch.csv").write_bytes(batches[: len(batches) // 2])
    assert profile_of(load(tmp_path)).judged is not None


def test_a_request_that_only_a_range_names(tmp_path: Path) -> None:
    """Its Enqueue is known; it was in no batch, and the others are as they were."""
    write_service(tmp_path / "out", "healthy", 1, 5)
    service = read_service(tmp_path / "out")

    def spans() -> EngineRanges:
        service.rids.append("late")
        service.texts.append("Enqueue")
        moment, code = np.array([service.batches.start[-1]]), np.array([len(service.texts) - 1], np.int32)
        return EngineRanges(code, moment, moment, code, code, np.array([5], np.int32), code)

    service.read_spans = spans
    found = timeline(service).latencies
    assert found.arrival[5] == service.batches.start[-1]
    assert found.first.tolist()[5] == -1
    plain = timeline(read_service(tmp_path / "out")).latencies
    assert (found.ttft[:5] == plain.ttft).all()


def test_an_engine_that_only_makes_dummy_steps(tmp_path: Path) -> None:
    """It has no part in the replay; it would work as those of its kind."""
    write_service(tmp_path / "out", "kv", 1, 10)
    asked = timeline(read_service(tmp_path / "out"))
    rows = list(csv.DictReader((tmp_path / "out" / "batch.csv").open()))
    idle = [
        row | {"res_list": "[]", "batch_type": "Dummy", "prof_id": "other", "dp_rank": "1", "batch_size": "0"}
        for row in rows
    ]
    with (tmp_path / "out" / "batch.csv").open("w") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows + idle)
    found = timeline(read_service(tmp_path / "out"))
    assert len(found.engines) == 2
    model, alone = model_of(found, None), model_of(asked, None)
    assert model is not None
    assert alone is not None
    assert model.engines[0] == model.engines[1]
    assert replayed(model).ttft == pytest.approx(replayed(alone).ttft)


def test_a_model_that_is_slower_by_any_factor_has_damaged_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_service(tmp_path, "healthy", 1, 20)
    found = timeline(read_service(tmp_path))
    said = {}
    for factor in (2.0, 1.5e7):
        slower = Slower(int(found.steps.opened[len(found.steps) // 2]), factor, Cost(1.0, 1.0, 1.0, 0.0, 0.0))
        monkeypatch.setattr("npu_tui.rules.service_facts.slower_since", lambda *_, slower=slower: slower)
        said[factor] = "SERVICE.MODEL" in [finding.id for finding in judge(found).findings.findings]
    assert said == {2.0: True, 1.5e7: False}


def test_a_request_that_a_batch_names_twice_is_in_it_once(tmp_path: Path) -> None:
    write_service(tmp_path / "out", "healthy", 1, 5)
    plain = timeline(read_service(tmp_path / "out")).latencies
    text = (tmp_path / "out" / "batch.csv").read_text()
    (tmp_path / "out" / "batch.csv").write_text(re.sub(r"(\{'rid': [^}]*\})\]", r"\1, \1]", text))
    found = timeline(read_service(tmp_path / "out")).latencies
    assert (found.turns == plain.turns).all()
    assert (found.tpot_parts >= 0).all()
    assert (found.tpot_parts.sum(axis=1) == plain.tpot_parts.sum(axis=1)).all()


@pytest.mark.parametrize("ahead", [5_000_000, -50_000_000])
def test_the_clock_of_the_decode_side_is_put_right(tmp_path: Path, ahead: int) -> None:
    write_service(tmp_path, "split", 1, 40)
    plain, service = timeline(read_service(tmp_path)), read_service(tmp_path)
    there = np.isin([service.text(code) for code in service.batches.process], plain.engines[-1].processes)
    forwards = np.isin([service.text(code) for code in service.forwards.process], plain.engines[-1].processes)
    for rows, chosen in ((service.batches, there), (service.forwards, forwards), (service.transfers, slice(None))):
        rows.start[chosen] += ahead
        rows.end[chosen] += ahead
    found = timeline(service)
    assert plain.ahead.tolist() == [0, 0]
    assert found.ahead[1] == pytest.approx(ahead, abs=1_000_000)
    assert found.latencies.answered.tolist() == plain.latencies.answered.tolist()
    assert (found.latencies.tpot == plain.latencies.tpot).all()
    moved = np.abs(found.latencies.ttft_parts - plain.latencies.ttft_parts).max(axis=1)
    assert np.percentile(moved, 90) < 1_000_000


def test_requests_that_are_computed_on_after_their_end_are_no_other_clock(tmp_path: Path) -> None:
    write_service(tmp_path, "healthy", 1, 20)
    service = read_service(tmp_path)
    service.requests.execution[:] -= 60_000_000
    assert timeline(service).ahead.tolist() == [0]


def test_a_gain_of_the_tail_alone_has_a_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ServiceFacts, "_faithful", lambda *_: ["ttft_p99", "tpot_p99"])
    written(shortened(ALL["small chunks"], 60).service, tmp_path)
    found = timeline(read_service(tmp_path))
    assert [finding.id for finding in judge(found).findings.findings] == ["SERVICE.CHUNKS"]
    cause = next(rule for rule in SERVICE_RULES if rule.id == "SERVICE.CHUNKS").check(ServiceFacts(found, Thresholds()))
    assert isinstance(cause, Cause)
    assert 0 < cause.share < 1


def test_a_full_decode_engine_is_no_scheduler_that_waits(tmp_path: Path) -> None:
    written(shortened(ALL["full decode"], 60).service, tmp_path)
    assert [finding.id for finding in judge(timeline(read_service(tmp_path))).findings.findings] == ["SERVICE.QUEUE"]


def test_columns_of_old_versions_say_the_same(tmp_path: Path) -> None:
    said = []
    for old in (False, True):
        folder = written(shortened(ALL["kv"], 60).service, tmp_path / str(old), old=old)
        verdict = judge(timeline(read_service(folder)))
        said.append(([(one.id, one.title.code) for one in verdict.findings.findings], verdict.figures["ttft_p99"]))
    assert said[0][0] == said[1][0]
    assert said[0][1] == pytest.approx(said[1][1], abs=2000)


def test_hidden_columns_are_unknown(tmp_path: Path) -> None:
    written(shortened(ALL["kv"], 60).service, tmp_path)
    hidden = {
        "request": ["queue_wait_time(ms)"],
        "batch": ["total_blocks", "used_blocks", "free_blocks", "blocks_allocated", "blocks_freed"],
    }
    for name, columns in hidden.items():
        rows = list(csv.reader((tmp_path / f"{name}.csv").open(encoding="utf-8", newline="")))
        kept = [place for place, column in enumerate(rows[0]) if column not in columns]
        with (tmp_path / f"{name}.csv").open("w", encoding="utf-8", newline="") as out:
            csv.writer(out).writerows([[row[place] for place in kept] for row in rows])
    for name in ("kvcache", "forward"):
        (tmp_path / f"{name}.csv").unlink()
    verdict = judge(timeline(read_service(tmp_path)))
    assert verdict.findings.findings == ()
    assert {id_ for id_, _ in verdict.findings.not_checked} == {"SERVICE.KV", "SERVICE.SAMPLING", "ttft"}
    assert "cannot be told apart" in words(verdict.findings.verdict[0])


def test_a_wait_without_known_blocks_has_no_reason(tmp_path: Path) -> None:
    written(shortened(ALL["kv"], 60).service, tmp_path)
    rows = list(csv.reader((tmp_path / "batch.csv").open(encoding="utf-8", newline="")))
    kept = [place for place, column in enumerate(rows[0]) if "blocks" not in column]
    with (tmp_path / "batch.csv").open("w", encoding="utf-8", newline="") as out:
        csv.writer(out).writerows([[row[place] for place in kept] for row in rows])
    (tmp_path / "kvcache.csv").unlink()
    verdict = judge(timeline(read_service(tmp_path)))
    assert verdict.findings.findings == ()
    assert "the reason is unknown" in words(verdict.findings.verdict[0])


@pytest.mark.parametrize("rest", [b"", b"http_rid,batch_type\n"], ids=["zero bytes", "header"])
def test_latencies_are_known_without_batches_and_their_causes_are_not(rest: bytes, tmp_path: Path) -> None:
    """A request has TTFT, end and answer in its own table; what it waited for stands in that of the batches."""
    write_service(tmp_path, "kv", requests=60)
    whole = judge(timeline(read_service(tmp_path)))
    (tmp_path / "batch.csv").write_bytes(rest)
    service = read_service(tmp_path)
    judged = judge(timeline(service))
    assert judged.findings.findings == ()
    assert [words(message) for message in service.odd] == ["batch.csv: no rows"]
    assert words(judged.findings.verdict[0]).startswith("No table tells which requests were in a batch (batch.csv)")
    for figure in ("ttft_p50", "ttft_p99", "tpot_p50", "tpot_p99"):
        assert judged.figures[figure] == pytest.approx(whole.figures[figure], rel=0.01)
    parts = judged.found.latencies
    for latency, columns in ((parts.ttft, parts.ttft_parts), (parts.tpot, parts.tpot_parts)):
        assert (latency == columns.sum(axis=1)).all()


def test_without_requests_no_latency_is_known(tmp_path: Path) -> None:
    write_service(tmp_path, "kv", requests=60)
    (tmp_path / "request.csv").unlink()
    judged = judge(timeline(read_service(tmp_path)))
    [said] = map(words, judged.findings.verdict)
    assert said.startswith("No table of requests (request.csv): TTFT and TPOT are unknown")
