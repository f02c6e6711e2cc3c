"""Waits of services whose files or engines are of other kinds: what requests wait for, and what it would be without."""

from __future__ import annotations

import ast
import csv
import json
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
import pytest
from served import figure, of_services, shortened, written

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "fixtures"))

from service import MS, US, Service, Tenant, serve
from service_causes import TROUBLES as WHOLE
from service_writer import Folder

from npu_tui.analysis.limits import Thresholds
from npu_tui.analysis.service_cost import lockstep_of
from npu_tui.analysis.service_latency import timeline
from npu_tui.analysis.service_stalls import beat_of, held_in, pieces_of
from npu_tui.analysis.service_steps import Cycle
from npu_tui.analysis.service_timeline import TPOT, TTFT
from npu_tui.load.load import load
from npu_tui.load.service import read_service
from npu_tui.rules.service_engines import stall
from npu_tui.rules.service_facts import ServiceFacts
from npu_tui.rules.service_verdict import JudgedService, judge
from npu_tui.strings import words

pytestmark = of_services

_REQUESTS = {"long_head": 260, "leak": 200, "capture": 160, "cold": 120}
TROUBLES = {name: shortened(trouble, _REQUESTS.get(name, 80)) for name, trouble in WHOLE.items()}
"""So many requests show what they lose; blocks that leak are gone later, and before or after a moment are enough."""


def told(service: Service, folder: Path) -> JudgedService:
    """What is said of ``service``."""
    return judge(timeline(read_service(written(service, folder))))


@cache
def told_of(name: str) -> JudgedService:
    """What is said of the service with a trouble, judged once for all tests that ask about it."""
    with TemporaryDirectory() as folder:
        return told(TROUBLES[name].service, Path(folder))


def after(judged: JudgedService) -> tuple[str, float, float]:
    """The first finding, and the figure that it names as it is and without."""
    first = judged.findings.findings[0]
    assert first.gain_ns is not None
    assert first.step_after_ns is not None
    return first.id, first.gain_ns + first.step_after_ns, first.step_after_ns


@pytest.mark.parametrize(
    "name", ["capture", "long_few", "long_head", "answered_full", "restart", "leak", "newest", "polled", "cold",
             "eager", "serial", "throttled", "swaps", "rank_waits"]
)  # fmt: skip
def test_the_gain_is_that_of_a_run_without_it(name: str) -> None:
    """The cause is named first, and the figure told without it is the one of a second simulation."""
    trouble = TROUBLES[name]
    assert trouble.remedied is not None
    id_, now, then = after(told_of(name))
    assert id_ == trouble.finding
    true = {
        (metric, share): figure(trouble.remedied, metric, share) for metric in ("ttft", "tpot") for share in (50, 99)
    }
    was = {key: figure(trouble.service, *key) for key in true}
    nearest = min(was, key=lambda key: abs(was[key] - now))
    assert now - then == pytest.approx(was[nearest] - true[nearest], rel=0.1)


def test_sizes_that_are_new_are_not_any_stall(tmp_path: Path) -> None:
    """Steps that stand still are the first of their size in one service, any in another."""
    of_sizes = told_of("capture").findings.findings[0]
    any_step = told(replace(WHOLE["healthy"].service, stall=700 * MS, stall_every=90), tmp_path / "any")
    assert of_sizes.title.code == "finding.service.stall_sizes"
    assert any_step.findings.findings[0].title.code == "finding.service.stall"


@pytest.mark.parametrize(("stuck", "code"), [((0, 1, 3, 6), "stall_first"), ((0, 1, 3, 300), "stall")])
def test_steps_that_stand_still_at_the_start_only_are_told_as_such(
    stuck: tuple[int, ...], code: str, tmp_path: Path
) -> None:
    """Chance hardly brings all of them among the first seven of hundreds."""
    found = timeline(read_service(written(TROUBLES["healthy"].service, tmp_path)))
    held = np.zeros_like(found.steps.cycle)
    held[list(stuck), Cycle.forward] = 4_000 * MS
    found.steps.cycle[:] += held
    told = stall(ServiceFacts(msgspec.structs.replace(found, held=held), Thresholds()))
    assert told is not None
    assert told.title.code == f"finding.service.{code}"


@pytest.mark.parametrize("spread", [0, 60])
def test_what_a_timer_starts_has_a_period(spread: int) -> None:
    """Two engines stand still every 400 ms, late by up to ``spread``, where they have requests; others at random."""
    rng = np.random.default_rng(7)
    engine = np.repeat([0, 1], 30)
    turns = np.concatenate([np.sort(rng.choice(50, 30, replace=False)) for _ in range(2)])
    begin = 90 * engine + 400 * turns + rng.integers(0, spread + 1, 60)

    beat = beat_of(begin * MS, engine)
    assert beat is not None
    assert beat.period == pytest.approx(400 * MS, rel=0.01)
    assert beat_of(np.sort(rng.integers(0, 20_000, (2, 30))).ravel() * MS, engine) is None
    assert beat_of(begin[:4] * MS, engine[:4]) is None
    damaged = np.append(begin[:30], 10**12) * MS  # one moment of a damaged table lies far away from all others
    assert beat_of(damaged, np.zeros(31, np.int64)) is None
    few = beat_of(np.array([0, 400, 800, 90, 490, 890]) * MS, np.repeat([0, 1], 3))  # one engine alone is no proof
    assert few is not None
    assert few.period == pytest.approx(400 * MS, rel=0.01)


def test_a_host_without_cpu_until_the_end_of_a_period_is_throttled() -> None:
    """Whatever it does then takes longer, each time by another length; what it lacks is told, not what it did."""
    first, *others = told_of("throttled").findings.findings
    assert first.title.code == "finding.service.stall_quota"
    assert first.title.args["period"] == pytest.approx(100 * MS, rel=0.001)
    assert all(other.severity == "info" for other in others)


def test_passes_of_a_size_that_all_take_long_are_not_stuck(tmp_path: Path) -> None:
    """A few passes hold up by little more than a step; those above the largest graph take that long each time."""
    found = timeline(read_service(written(TROUBLES["healthy"].service, tmp_path)))
    steps, size = found.steps, found.steps.size
    forward, alone = steps.forward.copy(), steps.prompts == 0
    held, large = np.flatnonzero(alone)[50:600:60], np.flatnonzero(alone & (size == np.quantile(size[alone], 0.97)))
    assert 5 <= len(large) < len(forward) / 10
    for chosen, stuck in ((held, len(held)), (large, 0)):
        steps.cycle[:, Cycle.forward] = forward
        steps.cycle[chosen, Cycle.forward] += 40 * MS
        assert np.count_nonzero(held_in(found, size > 0)[:, Cycle.forward]) == stuck


def test_what_is_loaded_piece_by_piece_is_not_told_of_what_grows_with_the_batch(tmp_path: Path) -> None:
    """Adapters take equal times, as many as differ in a batch; inputs of each request, or of all, take no pieces."""
    swaps = told_of("swaps")
    assert swaps.findings.findings[0].title.args["piece"] == pytest.approx(TROUBLES["swaps"].service.swap, rel=0.01)
    for name in ("inputs", "healthy"):
        found = timeline(read_service(written(TROUBLES[name].service, tmp_path / name)))
        assert pieces_of(found, Cycle.prepare) is None
    found.steps.cycle[:, Cycle.prepare] = MS + 4 * MS * found.steps.decoded
    assert pieces_of(found, Cycle.prepare) is None


def test_waits_for_the_longest_engine_are_neither_stalls_nor_bubbles(tmp_path: Path) -> None:
    """Engines in lockstep wait after their passes, as where these are as long as their own work."""
    folder = written(TROUBLES["rank_waits"].service, tmp_path)
    shorter = timeline(read_service(folder))
    steps = shorter.steps
    own = np.minimum(steps.forward, (14 * MS + 120 * US * steps.decoded + 40 * US * steps.prompts).astype(np.int64))
    steps.cycle[:, Cycle.bubble] += steps.forward - own
    steps.cycle[:, Cycle.forward] = own
    told = lockstep_of(shorter)
    assert told is not None
    assert not told.inside
    assert told.gap < MS
    assert not held_in(shorter, steps.size > 0).any()
    inside = lockstep_of(timeline(read_service(folder)))
    assert inside is not None
    assert inside.inside


def test_the_engine_that_stands_still_is_named(tmp_path: Path) -> None:
    """Of two engines only the second one stops: not all requests wait, its own do."""
    service = replace(TROUBLES["healthy"].service, shares=(1, 1), stall=700 * MS, stall_every=90)
    found = timeline(read_service(written(service, tmp_path)))
    both = stall(ServiceFacts(found, Thresholds()))
    assert both is not None
    assert "and its requests wait" not in words(both.detail)
    held = np.where(found.steps.engine[:, None] == 1, found.held, 0)
    one = stall(ServiceFacts(msgspec.structs.replace(found, held=held), Thresholds()))
    assert one is not None
    assert "DP rank 1 has 100% of that time, and its requests wait" in words(one.detail)


def test_stalls_by_a_timer_are_told_with_their_period(tmp_path: Path) -> None:
    """What lies between them is short beside them, so that they come at a rhythm."""
    halts = replace(TROUBLES["healthy"].service, stall=5_000 * MS, stall_every=30)
    first = told(halts, tmp_path).findings.findings[0]
    assert first.title.code == "finding.service.stall_timer"
    assert 5_000 * MS < first.title.args["period"] < 8_000 * MS


def test_steps_that_stand_still_for_the_inputs_of_a_request_say_so(tmp_path: Path) -> None:
    """An adapter is loaded before the forward pass: no graph is captured there, although sizes may be new."""
    loads = replace(TROUBLES["healthy"].service, adapter=700 * MS)
    judged = told(loads, tmp_path)
    assert judged.findings.findings[0].title.code == "finding.service.stall_inputs"
    _, now, then = after(judged)
    true = figure(loads, "ttft", 50) - figure(replace(loads, adapter=0), "ttft", 50)
    assert now - then == pytest.approx(true, rel=0.1)


def test_who_was_taken_out_needs_room_for_all_of_it(tmp_path: Path) -> None:
    """Long answers lose their blocks: what they need again is more than the prompt of the next request has."""
    service = Service(requests=80, gap=90 * MS, blocks=60, tenants=(Tenant(1, (200, 900), (200, 420)),))
    found = timeline(read_service(written(service, tmp_path)))
    assert found.pair_admitted.sum() > len(found.entries) + 20
    ttft, _ = found.latencies.metrics
    assert ttft.share(TTFT.queue_blocks)[0] > 0.6
    assert ttft.share(TTFT.queue_other)[0] < 0.1
    judged = judge(found)
    id_, now, then = after(judged)
    assert id_ == "SERVICE.KV"
    true = [figure(replace(service, blocks=4000), "ttft", share) for share in (50, 99)]
    assert min(abs(then - one) for one in true) < 0.1 * now


def test_the_wait_for_the_decode_side_is_told_where_tokens_come_before_it(tmp_path: Path) -> None:
    """The prefill side answers first, so that the wait for a place lies between the first two tokens."""
    service = TROUBLES["answered_full"].service
    found = timeline(read_service(written(service, tmp_path)))
    _, tpot = found.latencies.metrics
    assert tpot.share(TPOT.queue_full)[0] > 0.3
    assert tpot.share(TPOT.handover)[0] < 0.1
    first = judge(found).findings.findings[0]
    assert "of TPOT" in words(first.title)
    assert "decode side" in words(first.title)


def test_bursts_are_measured_against_the_same_requests_in_turn(tmp_path: Path) -> None:
    """Spread evenly, nobody waits; the figure is near that of a service whose requests come one by one."""
    service = Service(requests=160, burst=40, gap=300 * MS, max_seqs=20, blocks=6000)
    judged = told(service, tmp_path)
    id_, now, then = after(judged)
    assert id_ == "SERVICE.QUEUE"
    assert "come in bursts" in words(judged.findings.findings[0].title)
    assert now - then == pytest.approx(now - figure(replace(service, burst=1), "ttft", 99), rel=0.1)


def test_what_a_shared_beginning_would_give_is_told_with_its_condition(tmp_path: Path) -> None:
    """No prompt hits the cache and all are long: the sentence says if, and how long the shortest one is."""
    service = Service(requests=80, gap=220 * MS, tenants=(Tenant(1, (1400, 2000)),))
    folder = written(service, tmp_path)
    lines = (folder / "request.csv").read_text().splitlines()
    at = lines[0].split(",").index("cache_hit_rate")
    rows = [line.split(",") for line in lines[1:]]
    (folder / "request.csv").write_text(
        "\n".join([lines[0], *(",".join([*r[:at], "0.0", *r[at + 1 :]]) for r in rows)])
    )
    judged = judge(timeline(read_service(folder)))
    verdict = " ".join(map(words, judged.findings.verdict))
    assert "Whether prompts begin alike is not recorded; if they share their first 1,408 tokens" in verdict
    (finding,) = judged.findings.findings
    assert finding.severity == "info"
    assert finding.gain_ns is None


@pytest.mark.parametrize(
    ("name", "title", "detail"),
    [
        ("restart", "stand still", "computed their context anew, as after a restart"),
        ("leak", "The KV cache loses blocks, ", "blocks were free (median)"),
        ("newest", "Later requests overtake others", "still waited after one that came later was taken"),
        ("polled", "between prefill and decode before their KV transfer begins", "polling"),
        ("serial", "for the KV transfers of others", "one after another"),
        ("long_head", "all tokens of one step after another (2,048)", "Replayed with 512 tokens of a prompt"),
        ("eager", "Steps of more than 8 requests take ", "no captured graph"),
        ("cold", "the model takes", "the steps after it are the reference"),
    ],
)
def test_a_cause_is_told_by_its_own_words(name: str, title: str, detail: str) -> None:
    """What is special about the trouble stands in the sentences."""
    first = told_of(name).findings.findings[0]
    assert title in words(first.title)
    assert detail in words(first.detail)


def test_ends_that_are_written_as_0_are_unknown(tmp_path: Path) -> None:
    """A tool that has no end of a request writes an execution of 0: the figures are those with ends."""
    folder = written(TROUBLES["kv"].service, tmp_path)
    before = judge(timeline(read_service(folder)))
    lines = (folder / "request.csv").read_text().splitlines()
    at = lines[0].split(",").index("execution_time(ms)")
    rows = [line.split(",") for line in lines[1:]]
    (folder / "request.csv").write_text("\n".join([lines[0], *(",".join([*r[:at], "0", *r[at + 1 :]]) for r in rows)]))
    found = timeline(read_service(folder))
    after = judge(found)
    assert (found.ahead == 0).all()
    assert [finding.id for finding in after.findings.findings] == [finding.id for finding in before.findings.findings]
    assert after.figures["ttft_p99"] == before.figures["ttft_p99"]
    assert len(found.latencies.end_to_end.rids) == 0


def test_a_scheduler_that_stands_still_now_and_then_is_said_so(tmp_path: Path) -> None:
    """Every fifth schedule of one service takes long, every one of the other: the first ones are stalls."""
    served = serve(Service(requests=80))
    slow, moved, batches = 90 * MS, 0, []
    for number, batch in enumerate(served.batches):
        opened = batch.schedule[0] + moved
        moved += slow if number % 5 == 0 else 0
        later = {
            name: tuple(moment + moved for moment in getattr(batch, name)) for name in ("execute", "forward", "sample")
        }
        batches.append(replace(batch, schedule=(opened, batch.schedule[1] + moved), **later))
    stops = [batch.schedule[0] for batch in served.batches[::5]]
    for request in served.requests:  # all that comes after a stop is later by it
        for name in ("arrival", "begun", "enqueue", "ready", "dequeued", "prefill_end", "first_token", "last_token"):
            moment = getattr(request, name)
            setattr(request, name, moment + slow * sum(stop < moment for stop in stops))
    served.batches[:] = batches
    Folder(served).write(tmp_path / "now_and_then")
    found = judge(timeline(read_service(tmp_path / "now_and_then"))).findings.findings
    (stall,) = (finding for finding in found if finding.id == "SERVICE.STALL")
    assert not [finding for finding in found if finding.id == "SERVICE.SCHEDULER"]
    assert "Some schedules take far longer" in words(stall.title)
    assert "They come now and then" in words(stall.detail)
    always = told_of("scheduler").findings.findings[0]
    assert always.id == "SERVICE.SCHEDULER"


def test_what_can_be_done_instead_has_its_figure_too(tmp_path: Path) -> None:
    """Long prompts that are computed whole: chunks are the remedy, prompts kept apart the other one."""
    judged = told_of("mix")
    first = judged.findings.findings[0]
    assert first.id == "SERVICE.MIX"
    assert "in the place of the long ones instead: T" in words(first.detail)
    short = told(
        Service(requests=80, pull=6 * US, per_prompt=260 * US, answers=True), tmp_path / "short"
    ).findings.findings[0]
    assert "With forward passes of half the time there instead: TTFT" in words(short.detail)


@pytest.mark.parametrize("turns", [True, False])
def test_chunks_without_tokens_are_told_by_the_passes_of_each_prompt(turns: bool, tmp_path: Path) -> None:
    """Only who is in a batch is written, with or without its turn: budget and tokens come out as they were."""
    service = Service(requests=120, gap=260 * MS, budget=160, tenants=(Tenant(1, (300, 2400), (40, 120)),))
    folder = written(service, tmp_path)
    true = timeline(read_service(folder))
    path = folder / "batch.csv"
    head, *rows = csv.reader(path.read_text().splitlines())
    members = head.index("res_list")
    silent = [at for at, name in enumerate(head) if "scheduled_tokens" in name or name.endswith("e_batch_size")]
    kept = ("rid", "iter") if turns else ("rid",)
    for row in rows:
        listed = ast.literal_eval(row[members] or "[]")
        row[members] = str([{name: one[name] for name in kept} for one in listed])
        for at in silent:
            row[at] = ""
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *rows])
    found = timeline(read_service(folder))
    assert (found.pair_prompt == true.pair_prompt).mean() > 0.99
    tokens, real = (one.steps.prompts + one.steps.decoded for one in (found, true))
    assert tokens.max() == pytest.approx(real.max(), rel=0.05)
    assert np.abs(tokens - real).mean() < 0.03 * real.mean()
    first = judge(found).findings.findings[0]
    assert (first.id, first.severity) == ("SERVICE.CHUNKS", "high")


def test_who_has_no_place_is_not_pulled(tmp_path: Path) -> None:
    """Transfers begin once there is a place on the decode side: the wait before them is for that."""
    trouble = TROUBLES["answered_full"]
    served = serve(trouble.service)
    for request in served.requests:
        assert request.pull is not None
        length = request.pull[1] - request.pull[0]
        request.pull = request.dequeued - length, request.dequeued
    Folder(served).write(tmp_path)
    found = timeline(read_service(tmp_path))
    _, tpot = found.latencies.metrics
    assert tpot.share(TPOT.queue_full)[0] > 0.3
    judged = judge(found)
    id_, now, then = after(judged)
    assert id_ == "SERVICE.QUEUE"
    assert "on the decode side" in words(judged.findings.findings[0].title)
    assert trouble.remedied is not None
    assert now - then == pytest.approx(now - figure(trouble.remedied, "tpot", 99), rel=0.15)


def test_bursts_that_no_limit_holds_up_are_told_for_information(tmp_path: Path) -> None:
    """Prompts of a burst fill the budget of steps: evenly they would not, which the verdict says without blame."""
    judged = told(Service(requests=80, burst=10, gap=300 * MS, blocks=8000, budget=2048), tmp_path)
    first = judged.findings.findings[0]
    assert (first.id, first.severity, first.gain_ns) == ("SERVICE.QUEUE", "info", None)
    assert "evenly over the same time (replayed)" in words(first.detail)
    assert words(judged.findings.verdict[0]).startswith("Requests come in bursts")
    assert not judged.findings.leaders


def test_prompts_that_share_passes_of_a_busy_prefill_side_are_told(tmp_path: Path) -> None:
    """Nobody waits for a place, as all are computed together: a second prefill side would make passes shorter."""
    short = told(Service(requests=80, pull=6 * US, per_prompt=130 * US, budget=9000, gap=140 * MS), tmp_path / "short")
    first = short.findings.findings[0]
    assert "on the prefill side, which is short" in words(first.title)
    assert "A pass of the prefill side takes" in words(first.detail)
    assert first.gain_ns is not None
    assert not told_of("split").findings.leaders


def test_an_engine_that_pauses_before_a_prompt_stands_still(tmp_path: Path) -> None:
    """What decodes has its place while whole prompts go first: the pause before them is no wait for the scheduler."""
    service = Service(requests=80, chunked=False, budget=9000, gap=120 * MS, stall=600 * MS, stall_every=50)
    found = timeline(read_service(written(service, tmp_path)))
    before_prompts = found.steps.prompts > 0
    assert (found.paused[before_prompts] > 0).any()
    ttft, _ = found.latencies.metrics
    assert ttft.share(TTFT.queue_other)[0] < 0.05
    assert judge(found).findings.findings[0].id == "SERVICE.STALL"


def test_tokens_that_leave_ever_later_have_a_gain(tmp_path: Path) -> None:
    """The way out of the service is not equally long for all: each has its own."""
    served = serve(Service(requests=80))
    for number, request in enumerate(served.requests):
        request.first_token += number % 10 * 60 * MS
    Folder(served).write(tmp_path)
    judged = judge(timeline(read_service(tmp_path)))
    id_, now, then = after(judged)
    assert id_ == "SERVICE.OUTPUT"
    true = {share: figure(Service(requests=80), "ttft", share) for share in (50, 99)}
    assert min(abs(then - one) for one in true.values()) < 0.1 * now


def test_workers_that_last_as_long_as_their_step_are_its_parts(tmp_path: Path) -> None:
    """Rows of workers begin and end with the step: that which one process writes is the step."""
    folder = written(TROUBLES["late_worker"].service, tmp_path)
    path = folder / "batch.csv"
    lines = path.read_text().splitlines()
    head = lines[0].split(",")
    name, process = head.index("name"), head.index("prof_id")
    rows = list(csv.reader(lines[1:]))
    steps: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row[name] == "modelExec":
            key = row[head.index("res_list")], row[head.index("end_time(ms)")]
            longest = steps.get(key)
            if longest is None or float(row[head.index("during_time(ms)")]) > float(
                longest[head.index("during_time(ms)")]
            ):
                steps[key] = row
            row[name] = "modelRunnerExec"
    engine = next(row[process] for row in rows if row[name] != "modelRunnerExec")
    outer = [[*row[:name], "modelExec", *row[name + 1 :]] for row in steps.values()]
    for row in outer:
        row[process] = f"{engine}0"
    for row in rows:
        row[process] = f"{engine}0" if row[name] != "modelRunnerExec" else row[process]
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *rows, *outer])
    found = timeline(read_service(folder))
    assert len(found.steps) == len(outer)
    assert judge(found).findings.findings[0].id == "SERVICE.WORKERS"


def test_early_events_tell_the_queue_the_blocks_and_the_prompts(tmp_path: Path) -> None:
    """Early versions call events otherwise, write sizes into their args, and blocks left beside the states."""
    (tmp_path / "request_status.csv").write_text(_left := _early(tmp_path / "chrome_tracing.json"))
    assert "deviceKvCache" in _left
    trace = load(tmp_path)
    assert trace.service is not None
    found = timeline(trace.service)
    lat = found.latencies
    front, queued = lat.ttft_parts[:, TTFT.frontend], lat.ttft_parts[:, TTFT.queue_step : TTFT.batching].sum(axis=1)
    assert front.tolist() == [300 * US] * 12
    assert (queued > 0).all()
    assert not lat.ttft_parts[:, TTFT.before].any()
    assert lat.prompt.tolist() == [100 + rid for rid in range(12)]
    assert trace.service.kv_blocks.free_blocks.tolist()[:3] == [39, 38, 37]
    assert found.room.total == (40,)


def _early(path: Path) -> str:
    """Twelve requests, one more in each step, whose batches compute prompts and tokens; the table of states beside."""
    events: list[dict[str, Any]] = []
    status, begin, number = [",time,metrics,=QueueSize,=deviceKvCache,+WAITING,+RUNNING"], 1_728_000_000_000_000, 0

    def event(name: str, at: int, lasting: int, **args: Any) -> None:
        events.append({"name": name, "ph": "X", "ts": begin + at, "dur": lasting, "pid": 7, "tid": "t", "args": args})

    def left(at: int, blocks: int) -> None:
        nonlocal number
        number += 1
        status.append(f"{number},{begin + at}.0,{{}},,{blocks}.0,,")

    for step in range(20):
        open_, there = 20_000 * step, [rid for rid in range(12) if rid <= step < rid + 8]
        if step < 12:
            event("httpReq", open_ - 9000, 2, rid=str(step))
            event("encode", open_ - 8990, 50, rid=str(step), recvTokenSize=100 + step)
            event("ReqEnQueue", open_ - 8700, 1, rid=str(step))
            left(open_ + 50, 40 - len(there))
            event("ReqDeQueue", open_ + 60, 1, rid=str(step))
            event("ReqEnQueue", open_ + 61, 1, rid=str(step))
        if not there:
            continue
        kind = "Prefill" if step == 0 else "Prefill,Decode" if step < 12 else "Decode"
        about = {"batchType": kind, "batchSize": float(len(there)), "rid": ",".join(map(str, there))}
        event("BatchSchedule", open_, 400, **about)
        event("modelExec", open_ + 500, 15_000, **about)
        if step < 12:
            event("SendResponse", open_ + 15_600, 2, rid=str(step))
        if step >= 7:
            done = step - 7
            left(open_ + 15_700, 40 - len(there) + 1)
            event("ReqDeQueue", open_ + 15_800, 1, rid=str(done))
            event("DecodeEnd", open_ + 15_900, 2, rid=str(done), replyTokenSize=8)
            event("httpRes", open_ + 15_950, 2, rid=str(done))
    path.write_text(json.dumps(events))
    return "\n".join(status) + "\n"
