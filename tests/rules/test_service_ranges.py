"""What runs within forward passes of a simulated service: copies take the same time in all, computing does not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs
from served import figure, of_services, served, written
from service import MS, Service

from npu_tui.analysis.limits import Thresholds
from npu_tui.analysis.service_latency import timeline
from npu_tui.load.load import load
from npu_tui.load.service import read_service
from npu_tui.rules.service import SERVICE_RULES
from npu_tui.rules.service_facts import Cause, ServiceFacts
from npu_tui.rules.service_requests import _quick_swaps
from npu_tui.rules.service_verdict import JudgedService, _ladder, judge, judged
from npu_tui.strings import words

pytestmark = of_services

_COPIED = 16  # ms of each pass
_SERVICE = Service(requests=80, fixed=(14 + _COPIED) * MS)


def _with_ranges(folder: Path, part: float) -> JudgedService:
    """What is said of ``_SERVICE`` with a range in each of its passes: as long as copies, or a ``part`` of the pass."""
    written(_SERVICE, folder, trace=True)
    path = folder / "chrome_tracing.json"
    events: list[dict[str, Any]] = json.loads(path.read_bytes())
    passes = [event for event in events if event["name"] == "forward"]
    assert len(passes) > 100
    for one in passes:
        events.append(dict(one, name="load_weights", dur=one["dur"] * part if part else _COPIED * 1000.0))
    path.write_text(json.dumps(events))
    return judged(load(folder), Thresholds())


def test_what_takes_the_same_time_in_every_pass_is_no_computing(tmp_path: Path) -> None:
    """The replayed time of tokens is that of the same service without copies."""
    first = _with_ranges(tmp_path, 0.0).findings.findings[0]
    assert words(first.title).startswith("load_weights takes 16.00 ms of each forward pass, whatever it computes")
    then = figure(replace(_SERVICE, fixed=14 * MS), "tpot", 50)
    value = words(first.detail).split("TPOT p50 ")[1].split(" → ")[1].split(" ms")[0]
    assert float(value) * MS == pytest.approx(then, rel=0.1)


def test_what_grows_with_a_pass_computes(tmp_path: Path) -> None:
    """Half of each pass is a layer, or attention: that cannot be taken away."""
    found = _with_ranges(tmp_path, 0.5)
    assert "SERVICE.COPIES" not in [one.id for one in found.findings.findings]


@pytest.mark.parametrize(("every", "adapters"), [(10, 1000), (10, 8), (0, 0)])
def test_requests_that_wait_while_adapters_are_loaded_wait_for_these(every: int, adapters: int, tmp_path: Path) -> None:
    """There is room for them: adapters that take turns in too few slots are why, if any are loaded, or loaded again."""
    held = Service(requests=80, hold=120 * MS)
    written(held, tmp_path, trace=True)
    path = tmp_path / "chrome_tracing.json"
    events: list[dict[str, Any]] = json.loads(path.read_bytes())
    passes = [event for event in events if event["name"] == "forward"]
    loads = passes[::every] if every else []
    events += [
        dict(one, name="set_active_loras", dur=500.0, args={"lora_id": at % adapters, "loaded": 1})
        for at, one in enumerate(loads)
    ]
    path.write_text(json.dumps(events))
    first = judged(load(tmp_path), Thresholds()).findings.findings[0]
    assert first.id == "SERVICE.WAIT"
    assert ("adapter" in words(first.title).lower()) == bool(every)
    again = f"Adapters (LoRA) are loaded again, {len(loads) - 8} of {len(loads)} times"
    assert words(first.title).startswith(again) == (adapters == 8)


def test_what_swapping_blocks_costs_is_what_its_ranges_take(tmp_path: Path) -> None:
    """Without them the tail of the distance of tokens is that of the same service without swaps."""
    service = Service(requests=80, adapter=120 * MS)
    written(service, tmp_path, trace=True)
    path = tmp_path / "chrome_tracing.json"
    events: list[dict[str, Any]] = json.loads(path.read_bytes())
    like = next(event for event in events if event["name"] == "forward")
    zero = like["ts"] - served(service).batches[0].forward[0] / 1000
    for batch in served(service).batches:
        if (lasting := batch.forward[0] - batch.execute[0]) > 100 * MS:
            events.append(dict(like, name="swap_blocks", ts=zero + batch.execute[0] / 1000, dur=lasting / 1000))
    path.write_text(json.dumps(events))
    trace = load(tmp_path)
    assert trace.service is not None
    facts = ServiceFacts(timeline(trace.service), Thresholds())
    kind, remedy = _quick_swaps(facts) or ("", None)
    assert kind == "swaps"
    assert remedy is not None
    then = facts.after(remedy)
    assert then is not None
    assert then["tpot_p50"] == pytest.approx(figure(replace(service, adapter=0), "tpot", 50), rel=0.1)
    assert facts.figures["tpot_p50"] > 1.1 * then["tpot_p50"]


def _told(folder: Path, service: Service, *more: tuple[str, str, float, float]) -> Any:
    """The first finding on ``service`` with ranges of a name beside those of another one: shifted, and so long (ms)."""
    written(service, folder, trace=True)
    path = folder / "chrome_tracing.json"
    events: list[dict[str, Any]] = json.loads(path.read_bytes())
    beside = [
        dict(one, name=name, ts=one["ts"] + one["dur"] + shift * 1000, dur=lasting * 1000, args={})
        for name, of, shift, lasting in more for one in events if one["name"] == of
    ]  # fmt: skip
    assert beside
    path.write_text(json.dumps(events + beside))
    return judged(load(folder), Thresholds()).findings.findings[0]


def test_the_range_with_most_of_the_time_between_steps_is_named(tmp_path: Path) -> None:
    """A short range within a long one is named only by what it takes itself, and has its own figure."""
    service = Service(output=8 * MS, requests=80)
    first = _told(tmp_path, service, ("send_all", "modelExec", 0.0, 7.5), ("log", "modelExec", 1.0, 0.2))
    assert words(first.title).startswith("Between steps the device waits for send_all:")
    assert "log" not in words(first.detail)


def test_a_range_of_a_request_that_waits_is_named(tmp_path: Path) -> None:
    """The scheduler leaves some requests alone until a range of theirs has ended, though there is room."""
    written(Service(requests=80, hold=80 * MS), tmp_path, trace=True)
    path = tmp_path / "chrome_tracing.json"
    events: list[dict[str, Any]] = json.loads(path.read_bytes())
    queued = [event for event in events if event["name"] == "Enqueue"]
    path.write_text(json.dumps(events + [dict(one, name="make_grammar", dur=80_000.0, ph="X") for one in queued]))
    first = judged(load(tmp_path), Thresholds()).findings.findings[0]
    assert (first.id, first.title.code) == ("SERVICE.WAIT", "finding.service.wait_range")
    assert "make_grammar" in words(first.title)


@pytest.mark.parametrize("starves", [True, False])
def test_requests_that_others_overtake_are_told_by_what_they_have_in_common(starves: bool, tmp_path: Path) -> None:
    """Few are overtaken, which only the tail shows; what a third of all have by chance is no reason."""
    service = Service(requests=80, newest=True, budget=512, gap=160 * MS, per_prompt=60_000)
    found = timeline(read_service(written(service, tmp_path, trace=True)))
    behind = {found.service.rids[rid] for rid in np.flatnonzero(found.overtaken)}
    path = tmp_path / "chrome_tracing.json"
    events: list[dict[str, Any]] = json.loads(path.read_bytes())
    for number, event in enumerate(event for event in events if event["name"] == "httpReq"):
        event["args"]["priority"] = 10 if (starves and event["args"]["rid"] in behind) or number % 5 == 0 else 0
    path.write_text(json.dumps(events))
    first = judged(load(tmp_path), Thresholds()).findings.findings[0]
    assert first.id == "SERVICE.QUEUE"
    assert words(first.title).startswith("Later requests overtake those with priority 10" if starves else
                                         "Later requests overtake others")  # fmt: skip
    assert ("is lost by requests with priority 10" in words(first.detail)) == starves


def _with_inputs(folder: Path, service: Service, least: int, **said: Any) -> tuple[JudgedService, list[dict[str, Any]]]:
    """What is said of ``service`` with ranges where inputs take ``least`` ns, and these; ``said`` gives their args."""
    written(service, folder, trace=True)
    path = folder / "chrome_tracing.json"
    events: list[dict[str, Any]] = json.loads(path.read_bytes())
    like = next(event for event in events if event["name"] == "forward")
    zero = like["ts"] - served(service).batches[0].forward[0] / 1000
    long = [batch for batch in served(service).batches if batch.forward[0] - batch.execute[0] > least]
    ranges = [
        dict(like, name="execute_mm_encoder", ts=zero + one.execute[0] / 1000, args={
            "num_items": 1, **{key: value(at) for key, value in said.items()}
        }, dur=(one.forward[0] - one.execute[0]) / 1000) for at, one in enumerate(long)
    ]  # fmt: skip
    path.write_text(json.dumps(events + ranges))
    return judged(load(folder), Thresholds()), ranges


@pytest.mark.parametrize("pictures", [4, 1000])
def test_what_is_done_again_is_told_by_what_it_was_done_for(pictures: int, tmp_path: Path) -> None:
    """The same pictures need no encoder again; of others nothing says so. Counts of items are no pictures."""
    service = Service(requests=100, adapter=120 * MS)
    found, ranges = _with_inputs(tmp_path, service, 100 * MS, mm_hashes=lambda at: [f"p{at % pictures}"])
    first, again = found.findings.findings[0], max(len(ranges) - pictures, 0)
    assert first.id == "SERVICE.STALL"
    assert (f"({again} of {len(ranges)} times by mm_hashes)" in words(first.title)) == bool(again)
    assert ("shares outputs of the encoder" in words(first.advice[0])) == bool(again)
    assert ("Each of them is for another mm_hashes" in words(first.detail)) == (not again)


def test_a_tail_of_few_requests_has_its_cause(tmp_path: Path) -> None:
    """A dozen steps hold up no more than a p99: without them it is that of the same service without these."""
    service = Service(requests=300, gap=400 * MS, capture=50 * MS)
    found = judge(timeline(read_service(written(service, tmp_path))))
    first = found.findings.findings[0]
    assert (first.id, first.severity) == ("SERVICE.STALL", "high")
    value = words(first.detail).split("TTFT p99 ")[1].split(" → ")[1].split(" ms")[0]
    assert float(value) * MS == pytest.approx(figure(replace(service, capture=0), "ttft", 99), rel=0.1)


def test_what_a_replay_mends_comes_before_what_nothing_is_known_to_mend(tmp_path: Path) -> None:
    """However much of the time that is: it says how the time is spent."""
    facts = ServiceFacts(timeline(read_service(written(Service(blocks=64, requests=100), tmp_path))), Thresholds())
    rules = {rule.id: rule for rule in SERVICE_RULES}
    cause = rules["SERVICE.KV"].check(facts)
    assert isinstance(cause, Cause)
    spent = structs.replace(cause, share=1.0, remedy=None, instead=None)
    for known, first in (((rules["SERVICE.KV"], cause),), "SERVICE.KV"), ((), "SERVICE.MIX"):
        assert _ladder(facts, [(rules["SERVICE.MIX"], spent), *known])[0][0].id == first
