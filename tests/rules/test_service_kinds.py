"""Services whose files say things in other ways, and causes that look like others: what counts, and what is said."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import polars as pl
import pytest
from measured import profile_of
from msgspec import structs
from served import of_services, served, shortened, written

from npu_tui.load.load import load

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "fixtures"))

from service import MS, US, Service, Tenant
from service_causes import TROUBLES as WHOLE

from npu_tui.analysis.limits import Thresholds
from npu_tui.analysis.service_cost import FEWEST, fitted, slower_since, work_of
from npu_tui.analysis.service_latency import surcharges, timeline
from npu_tui.analysis.service_model import model_of, with_engines
from npu_tui.analysis.service_steps import Cycle, Work
from npu_tui.analysis.service_timeline import TPOT, TTFT, ServiceTimeline
from npu_tui.load.service import read_service
from npu_tui.profile.service_tables import LATENCY
from npu_tui.rules.service import SERVICE_RULES
from npu_tui.rules.service_facts import Cause, ServiceFacts
from npu_tui.rules.service_verdict import JudgedService, judge, judged
from npu_tui.strings import words
from npu_tui.trace.service import UNKNOWN, Pass

pytestmark = of_services

TROUBLES = {name: shortened(trouble, 100) for name, trouble in WHOLE.items()}

Row = dict[str, str]


def rewritten(folder: Path, name: str, change: Callable[[list[Row]], list[Row]]) -> None:
    """The table ``name`` after a ``change``; columns are those of the first row."""
    path = folder / f"{name}.csv"
    rows = change(list(csv.DictReader(path.open(newline=""))))
    with path.open("w", newline="") as out:
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def told(folder: Path) -> JudgedService:
    """What is said of the service in ``folder``."""
    return judge(timeline(read_service(folder)))


def named(judged: JudgedService) -> list[str]:
    """The findings above info, the first one first."""
    return [one.id for one in judged.findings.findings if one.severity != "info"]


def said(judged: JudgedService) -> str:
    """The verdict."""
    return " ".join(map(words, judged.findings.verdict))


def each(change: Callable[[Row], Row]) -> Callable[[list[Row]], list[Row]]:
    """``change`` of every row."""
    return lambda rows: [change(row) for row in rows]


def floored(row: Row) -> Row:
    """A start in whole ms, rounded down."""
    return row | {"start_time(ms)": f"{int(float(row['start_time(ms)']))}.0"}


@pytest.mark.parametrize("dated", [True, False])
def test_a_start_in_whole_ms_is_rounded_down(dated: bool, tmp_path: Path) -> None:
    """Tokens that leave soon after their step would leave before it; the date of the same row is exact."""
    folder = written(Service(requests=40, budget=256, output=100 * US), tmp_path)
    exact = timeline(read_service(folder)).latencies
    rewritten(folder, "request", each(floored))
    if not dated:
        rewritten(folder, "request", each(lambda row: {key: row[key] for key in row if key != "start_datetime"}))
    found = timeline(read_service(folder)).latencies
    assert (found.token == exact.token).all()
    assert (found.tpot == exact.tpot).all()
    assert found.answered.tolist() == exact.answered.tolist()
    if dated:
        assert np.abs(found.start - exact.start).max() < 2000


def test_who_closes_the_connection_is_left_out(tmp_path: Path) -> None:
    """A third has no end and no tokens: the percentiles are those of the others, and the report says so."""
    folder = written(Service(requests=45), tmp_path)
    whole = timeline(read_service(folder)).latencies
    kept = [rid for rid in range(45) if rid % 3]
    values = [whole.ttft[whole.start.argsort(kind="stable")[rid]] for rid in kept]

    def aborted(rows: list[Row]) -> list[Row]:
        rows.sort(key=lambda row: row["http_rid"])
        blank = dict.fromkeys(("execution_time(ms)", "reply_token_size", "recv_token_size"), "")
        return [row if at % 3 else row | blank for at, row in enumerate(rows)]

    rewritten(folder, "request", aborted)
    judged = told(folder)
    assert len(judged.found.latencies.answered) == len(kept)
    assert judged.figures["ttft_p50"] == pytest.approx(np.percentile(values, 50), abs=2000)
    assert "15 requests of 45 are left out" in said(judged)
    rewritten(folder, "request", each(lambda row: row | {"execution_time(ms)": ""}))
    assert len(told(folder).found.latencies.answered) == 45  # a column without any value tells of nobody


@pytest.mark.parametrize("workers", [1, 2])
def test_rows_inside_of_an_execution_are_its_workers(workers: int, tmp_path: Path) -> None:
    """They name requests alone: one engine, as many steps, the same latencies; of two, one is late."""
    folder = written(Service(requests=40, fixed=20 * MS), tmp_path)
    plain = told(folder)

    def inner(rows: list[Row]) -> list[Row]:
        found = []
        for row in rows:
            found.append(row)
            if row["name"] != "batchFrameworkProcessing" and row["res_list"] != "[]":
                members = [{"rid": rid} for rid in row["res_list"].split("'rid': '")[1:]]
                members = [{"rid": member["rid"].partition("'")[0]} for member in members]
                begin, end = (float(row[f"{side}_time(ms)"]) for side in ("start", "end"))
                for worker in range(workers):
                    zeros = {name: "0" for name in row if "blocks" in name or "tokens" in name}
                    found.append(row | zeros | {
                        "name": "modelRunnerExec", "res_list": str(members), "batch_type": "",
                        "prof_id": f"worker-{worker}", "start_time(ms)": f"{begin + 0.1 + 6 * worker:.6f}",
                        "end_time(ms)": f"{end - 0.05:.6f}",
                    })  # fmt: skip
        return found

    rewritten(folder, "batch", inner)
    judged = told(folder)
    assert len(judged.found.engines) == 1
    assert len(judged.found.steps) == len(plain.found.steps)
    assert (judged.found.latencies.tpot_parts == plain.found.latencies.tpot_parts).all()
    assert named(judged) == ([] if workers == 1 else ["SERVICE.WORKERS"])
    blocks = judged.found.service.batches.free_blocks[judged.found.service.batches.passes == Pass.execute]
    assert (blocks[-workers:] == UNKNOWN).all()  # zeros that fill a row without blocks


def test_forward_passes_are_those_of_the_workers(tmp_path: Path) -> None:
    """The process that executes has none of its own: what follows them in its steps is sampling all the same."""
    folder = written(replace(TROUBLES["sampling"].service, requests=60), tmp_path)
    plain = told(folder)

    def inner(rows: list[Row]) -> list[Row]:
        more = [
            row | {"name": "modelRunnerExec", "prof_id": "worker-1"}
            for row in rows
            if row["name"] != "batchFrameworkProcessing"
        ]
        return [*rows, *more]

    rewritten(folder, "batch", inner)
    rewritten(folder, "forward", each(lambda row: row | {"prof_id": "worker-1"}))
    judged = told(folder)
    assert named(judged) == named(plain) == ["SERVICE.SAMPLING"]
    assert judged.findings.findings[0].gain_ns == pytest.approx(plain.findings.findings[0].gain_ns, rel=0.02)


def test_a_process_that_only_schedules_is_no_worker(tmp_path: Path) -> None:
    folder = written(replace(TROUBLES["late_worker"].service, requests=40), tmp_path)
    rewritten(
        folder, "batch",
        each(lambda row: row | ({"prof_id": "core-1"} if row["name"] == "batchFrameworkProcessing" else {})),
    )  # fmt: skip
    assert named(told(folder)) == ["SERVICE.WORKERS"]


def test_drafts_behind_the_execution_are_no_bubble(tmp_path: Path) -> None:
    """The same service, with drafts in the execution and in a call of their own after it."""
    service = Service(requests=60, drafts=4, accepted=50, draft=6 * MS)
    for name in ("inside", "apart"):
        written(service, tmp_path / name)
    lasting = {batch.members[0][0:2]: batch.draft for batch in served(service).batches if batch.members and batch.draft}
    assert lasting

    def cut(row: Row) -> Row:
        begin, end = float(row["start_time(ms)"]), float(row["end_time(ms)"])
        return row if row["name"] == "batchFrameworkProcessing" else row | {
            "end_time(ms)": f"{end - 6:.6f}", "during_time(ms)": f"{end - 6 - begin}", "end_datetime": ""}  # fmt: skip

    rewritten(tmp_path / "apart", "batch", each(cut))
    rewritten(
        tmp_path / "apart", "spec_decode",
        each(lambda row: row | {"start_datetime": "", "end_datetime": row["end_datetime"], "during_time(ms)": "6.0"}),
    )  # fmt: skip
    inside, apart = told(tmp_path / "inside"), told(tmp_path / "apart")
    assert named(apart) == named(inside) == ["SERVICE.DRAFTS"]
    assert apart.figures["tpot_p50"] == pytest.approx(inside.figures["tpot_p50"], rel=0.02)
    assert apart.found.latencies.tpot_parts[:, TPOT.draft].sum() == pytest.approx(
        inside.found.latencies.tpot_parts[:, TPOT.draft].sum(), rel=0.02
    )


def test_a_full_batch_is_told_by_its_gain(tmp_path: Path) -> None:
    """Less than one request waits on average; without the limit the slowest first tokens come far earlier."""
    judged = told(written(Service(seed=4, requests=60, gap=650 * MS, max_seqs=4), tmp_path))
    assert named(judged)[:1] == ["SERVICE.QUEUE"]
    first = judged.findings.findings[0]
    assert first.gain_ns is not None
    assert first.gain_ns > 0.1 * judged.figures["ttft_p99"]


@pytest.mark.parametrize("part", [TTFT.queue_full, TTFT.queue_step])
def test_a_verdict_without_cause_does_not_deny_its_table(
    part: TTFT, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = timeline(read_service(written(Service(requests=30), tmp_path)))
    found.latencies.ttft_parts[:, part] += found.latencies.ttft.clip(0)
    monkeypatch.setattr("npu_tui.rules.service_verdict.SERVICE_RULES", ())
    verdict = words(judge(found).findings.verdict[0])
    assert "most of TTFT is queue: " in verdict
    assert "takes more than" not in verdict


def test_a_burst_is_no_overload(tmp_path: Path) -> None:
    """Twenty come at once and are served long before the next twenty; the overload has no end."""
    short = (Tenant(1, (200, 700), (5, 30)),)
    codes = {}
    for name, service in {
        "burst": Service(requests=80, burst=20, gap=400 * MS, max_seqs=8, tenants=short),
        "load": Service(requests=80, gap=38 * MS, max_seqs=8),
    }.items():
        judged = told(written(service, tmp_path / name))
        first = judged.findings.findings[0]
        assert first.id == "SERVICE.QUEUE"
        codes[name] = words(first.detail)
    assert "while a burst of requests lasts" in codes["burst"]
    assert "more requests arrive than the service can handle" in codes["load"]


_DECODES = Service(requests=80, pull=6 * US, gap=120 * MS, max_seqs=14)
_PREFILLS = Service(requests=80, pull=6 * US, gap=40 * MS, budget=4096, tenants=(Tenant(1, (1500, 3000), (5, 20)),))


@pytest.mark.parametrize(("side", "service"), [("decode", _DECODES), ("prefill", _PREFILLS)])
def test_the_side_that_is_short_is_named(side: str, service: Service, tmp_path: Path) -> None:
    """Prefill and decode are apart: one of them has no place."""
    judged = told(written(service, tmp_path))
    queue = [one for one in judged.findings.findings if one.id == "SERVICE.QUEUE"]
    assert queue
    assert f"wait on the {side} side" in words(queue[0].detail)


def test_a_prefill_side_that_waits_now_and_then_is_short_too(tmp_path: Path) -> None:
    """No limit of places is met, but the slowest first tokens wait for other prompts: the sides are not balanced."""
    service = replace(_PREFILLS, gap=115 * MS, requests=80)
    judged = told(written(service, tmp_path))
    assert named(judged)[:1] == ["SERVICE.QUEUE"]
    assert "wait on the prefill side" in words(judged.findings.findings[0].detail)


def test_swapped_is_not_computed_again(tmp_path: Path) -> None:
    """b is out for two steps in which a decodes, and goes on to decode: nothing of it is computed a second time."""
    rows = ["name,res_list,start_time(ms),end_time(ms),prof_id"]
    turns = [
        [("a", 0, 0, 40), ("b", 0, 0, 40)],
        [("a", 1, 1, 1), ("b", 1, 1, 1)],
        [("a", 2, 1, 1)],
        [("a", 3, 1, 1)],
        [("a", 4, 1, 1), ("b", 2, 1, 1)],
    ]
    for at, members in enumerate(turns):
        listed = [
            {"rid": rid, "iter": n, "type": kind, "num_scheduled_tokens": tokens} for rid, n, kind, tokens in members
        ]
        begin = 1_763_600_000_000 + 20 * at
        rows += [f'{name},"{listed}",{begin + low},{begin + high},core' for name, low, high in (
            ("batchFrameworkProcessing", 0, 1), ("modelExec", 1, 19))]  # fmt: skip
    (tmp_path / "batch.csv").write_text("\n".join(rows) + "\n")
    found = timeline(read_service(tmp_path))
    rids = [found.service.rids[rid] for rid in found.pair_rid[found.pair_swapped]]
    assert (rids, found.pair_step[found.pair_swapped].tolist()) == (["b"], [4])
    assert found.seated.tolist() == [2, 2, 1, 1, 2]


def test_a_stall_is_no_surcharge(tmp_path: Path) -> None:
    """A step with a prompt is stuck: that is one event, and no reason to compute prompts elsewhere."""
    folder = written(Service(requests=60), tmp_path)
    plain = timeline(read_service(folder)).steps
    stuck = int(np.flatnonzero(plain.work == Work.mixed)[5])
    until = int(plain.start[stuck] + plain.forward[stuck])
    lasting = 3000  # ms

    def late(row: Row) -> Row:
        for name in row:
            if name in ("start_time(ms)", "end_time(ms)") and float(row[name]) * 1e6 >= until - 500:
                row[name] = f"{float(row[name]) + lasting:.6f}"
        return {name: cell for name, cell in row.items() if "datetime" not in name}

    def longer(row: Row) -> Row:
        begin = float(row["start_time(ms)"])
        for name in ("execution_time(ms)", "first_token_latency(ms)"):
            if begin * 1e6 < until <= (begin + float(row[name])) * 1e6:
                row[name] = f"{float(row[name]) + lasting:.6f}"
        return late(row)

    for name, change in (("batch", late), ("forward", late), ("request", longer)):
        rewritten(folder, name, each(change))
    found = timeline(read_service(folder))
    assert found.stuck[stuck] > 2_900_000_000
    assert surcharges(found.steps, found.stuck)[stuck] < 200_000_000
    checks = {rule.id: rule.check(ServiceFacts(found, Thresholds())) for rule in SERVICE_RULES}
    assert isinstance(checks["SERVICE.STALL"], Cause)
    assert checks["SERVICE.MIX"] is None


def _scaled(found: ServiceTimeline, growth: np.ndarray) -> ServiceTimeline:
    extra = (found.steps.cycle[:, Cycle.forward] * (growth - 1)).astype(np.int64)
    found.steps.cycle[:, Cycle.forward] += extra
    return found


def test_slow_growth_is_no_step(tmp_path: Path) -> None:
    folder = written(Service(requests=80), tmp_path)
    found = timeline(read_service(folder))
    place = np.linspace(0, 1, len(found.steps))
    drift = slower_since(slow := _scaled(found, 1 + 0.6 * place), slow.serving)
    assert drift is not None
    assert drift.is_slow
    assert drift.factor == pytest.approx(1.6, abs=0.1)
    slow = _scaled(timeline(read_service(folder)), np.where(place > 0.5, 1.5, 1.0))
    sudden = slower_since(slow, slow.serving)
    assert sudden is not None
    assert not sudden.is_slow
    assert sudden.factor == pytest.approx(1.5, abs=0.05)


def test_few_requests_of_either_latency_are_said(tmp_path: Path) -> None:
    """All have a first token, but two thirds have no other one: the p99 of TPOT is that of few."""
    brief = (Tenant(2, (200, 300), (1, 1)), Tenant(1, (200, 300), (20, 40)))
    note = "With fewer than 100 requests, P99 is set by the slowest one or two."
    judged = told(written(Service(requests=110, tenants=brief), tmp_path / "brief"))
    assert len(judged.found.latencies.answered) >= 100 > len(judged.found.latencies.decoded)
    assert note in said(judged)
    both = Service(requests=110, tenants=(replace(brief[1], output=(10, 20)),))
    assert note not in said(told(written(both, tmp_path / "both")))


@pytest.mark.parametrize("shares", [(1, 12), (12, 1)])
def test_the_cost_of_an_engine_is_its_own_in_any_order(shares: tuple[int, int], tmp_path: Path) -> None:
    """One of two engines has too few steps to tell what they cost, and takes what both do."""
    service = Service(requests=40, shares=shares, speed=(100, 160), tenants=(Tenant(1, (200, 1000), (4, 8)),))
    found = timeline(read_service(written(service, tmp_path)))
    model = model_of(found, None)
    assert model is not None
    steps, work = found.steps, work_of(found)
    used = [np.flatnonzero((steps.engine == number) & (steps.size > 0)) for number in range(2)]
    often = int(np.argmax(shares))
    assert len(used[1 - often]) < FEWEST <= len(used[often])
    assert model.engines[often].cost == fitted(work[used[often]], steps.forward[used[often]])
    every = np.sort(np.concatenate(used))
    assert model.engines[1 - often].cost == fitted(work[every], steps.forward[every])


def test_each_engine_has_its_own_blocks(tmp_path: Path) -> None:
    service = replace(TROUBLES["kv"].service, requests=80, gap=80 * MS, shares=(1, 1))
    found = timeline(read_service(written(service, tmp_path)))
    assert found.room.total == (64, 64)
    found.room = structs.replace(found.room, total=(64, 72))
    model = model_of(found, None)
    assert model is not None
    assert [engine.blocks for engine in model.engines] == [64, 72]


def test_a_hold_is_found_where_some_waits_are_unknown(tmp_path: Path) -> None:
    """A wait of 0 is none that is known: it does not say that nobody is held back."""
    folder = written(replace(TROUBLES["wait"].service, requests=80), tmp_path)
    draw = Random(3)
    rewritten(folder, "request", each(lambda row: row | ({"queue_wait_time(ms)": "0"} if draw.random() < 0.08 else {})))
    judged = told(folder)
    assert named(judged)[:1] == ["SERVICE.WAIT"]
    assert (judged.findings.findings[0].gain_ns or 0) > 50 * MS


def test_answers_that_are_not_streamed(tmp_path: Path) -> None:
    """The first token leaves with the last one: that is no late output, and the engine's part is judged as before."""
    folder = written(Service(requests=40), tmp_path)
    plain = told(folder)
    rewritten(folder, "request", each(lambda row: row | {"first_token_latency(ms)": row["execution_time(ms)"]}))
    judged = told(folder)
    assert named(judged) == named(plain) == []
    assert "40 answers of 40 left the service at once, without streaming" in said(judged)
    assert judged.figures["ttft_p50"] == pytest.approx(plain.figures["ttft_p50"], abs=MS)


def test_a_first_token_before_its_prompt_is_unknown(tmp_path: Path) -> None:
    folder = written(Service(requests=50, budget=256), tmp_path)
    plain = told(folder).found.latencies
    rewritten(
        folder, "request",
        lambda rows: [row if at % 10 else row | {"first_token_latency(ms)": "3.5"} for at, row in enumerate(rows)],
    )  # fmt: skip
    judged = told(folder)
    lat = judged.found.latencies
    assert lat.contradicted.sum() == 5
    assert len(lat.answered) == 45
    assert (lat.tpot == plain.tpot)[~lat.contradicted].all()
    assert np.abs(lat.tpot - plain.tpot).max() <= MS  # without its first token the steps tell
    assert "5 requests of 50" in said(judged)


@pytest.mark.parametrize("late", [0, 400])
def test_times_per_token_are_those_of_the_table(tmp_path: Path, late: int) -> None:
    """However late tokens leave behind their steps: first, last, or both; and the parts add up."""
    folder = written(replace(TROUBLES["ranks"].service, requests=60), tmp_path)
    draw = Random(late)

    def later(row: dict[str, str]) -> dict[str, str]:
        first, end = sorted(draw.randint(0, late) for _ in range(2))
        first = first if draw.random() < 0.5 else 0
        return row | {
            "first_token_latency(ms)": str(float(row["first_token_latency(ms)"]) + first),
            "execution_time(ms)": str(float(row["execution_time(ms)"]) + end),
        }

    rewritten(folder, "request", each(later))
    rows = pl.read_csv(folder / "request.csv")
    told_by_table = (rows["execution_time(ms)"] - rows["first_token_latency(ms)"]) / (rows["reply_token_size"] - 1)
    judged = told(folder)
    for share in (50, 99):
        expected = float(np.percentile(told_by_table.to_numpy(), share))
        assert judged.figures[f"tpot_p{share}"] / MS == pytest.approx(expected, rel=1e-6)
    lat = judged.found.latencies
    assert (lat.tpot_parts >= 0).all()
    assert (lat.tpot_parts.sum(axis=1) == lat.tpot)[lat.decoded].all()
    assert (named(judged)[:1] == ["SERVICE.OUTPUT"]) == (late > 0)


def test_the_time_to_the_end_has_percentiles(tmp_path: Path) -> None:
    folder = written(Service(requests=40), tmp_path)
    rows = list(csv.DictReader((folder / "request.csv").open(newline="")))
    lasting = [float(row["execution_time(ms)"]) for row in rows]
    sheet = LATENCY.make(profile_of(load(folder)))
    assert sheet.values("metric") == ["ttft", "tpot", "e2e"]
    assert sheet.values("p99")[2] == pytest.approx(np.percentile(lasting, 99) * 1e6)


def test_a_preempted_request_has_its_prefill(tmp_path: Path) -> None:
    """Its queue time reaches beyond its first token: the wait that is drawn ends where it was first in a batch."""
    folder = written(replace(TROUBLES["kv"].service, requests=80), tmp_path)
    trace = load(folder)
    assert trace.service is not None
    requests = trace.service.requests
    beyond = np.flatnonzero((requests.queue > requests.first_token) & (requests.first_token != UNKNOWN))
    assert len(beyond)
    lane = {trace.lanes[at].name: at for at in range(len(trace.lanes))}
    of_lane = np.flatnonzero(trace.slices.lane == lane["prefill"])
    with_prefill = set((trace.slices.event[of_lane] - trace.service.ordinals["requests"]).tolist())
    assert set(beyond.tolist()) <= with_prefill


def test_early_files_with_changes_marks_and_types(tmp_path: Path) -> None:
    """States are written as changes, sizes as marks at the time of an event, what batches do in args of their own."""
    begin = 1_727_000_000_000_000
    status = [
        ",time,metrics,=recvTokenSize,+WAITING,+RUNNING,+PENDING,=replyTokenSize",
        f"0,{begin + 60}.0,{{}},7.0,,,,",
        f"1,{begin + 90}.0,{{}},,1.0,,,",
        f"2,{begin + 95}.5,{{}},,-2.0,2.0,,",
        f"3,{begin + 9000}.0,{{}},,,-1.0,,12.0",
    ]
    (tmp_path / "request_status.csv").write_text("\n".join(status) + "\n")
    events = [
        {"name": "httpReq", "ph": "X", "ts": begin, "dur": 2, "pid": 1, "tid": "a", "args": {"rid": "r"}},
        {"name": "encode", "ph": "X", "ts": begin + 60, "dur": 2, "pid": 1, "tid": "a", "args": {"rid": "r"}},
        {"name": "DecodeEnd", "ph": "X", "ts": begin + 9000, "dur": 2, "pid": 1, "tid": "a", "args": {"rid": "r"}},
    ]
    for at, kind in enumerate(("Prefill", "Decode", "Decode", None)):
        about = {"batchType": kind, "batchSize": 1.0, "rid": "r"}
        for name, late in (("BatchSchedule", 100), ("modelExec", 300)):
            when = {"ts": begin + 1000 * at + late, "dur": 100}
            events.append({"name": name, "ph": "X", **when, "pid": 1, "tid": "b", "args": about})
    (tmp_path / "chrome_tracing.json").write_text(json.dumps(events))
    service = read_service(tmp_path)
    assert service.odd == []
    assert service.statuses.waiting.tolist() == [1, 2, 0, 0]
    assert service.statuses.running.tolist() == [0, 0, 2, 1]
    assert service.statuses.time[0] == (begin + 60) * 1000
    assert (service.requests.prompt_tokens.tolist(), service.requests.output_tokens.tolist()) == ([7], [12])
    steps = timeline(service).steps
    assert [Work(work).name for work in steps.work.tolist()] == ["prefill", "decode", "decode", "unknown"]
    assert steps.size.tolist() == [1, 1, 1, 1]


def test_a_replay_with_swaps_computes_nothing_again(tmp_path: Path) -> None:
    """What is taken out and keeps its context costs no second prefill."""
    facts = ServiceFacts(timeline(read_service(written(TROUBLES["kv"].service, tmp_path))), Thresholds())
    assert facts.model is not None
    assert not any(engine.swaps for engine in facts.model.engines)
    again, kept = facts.after(), facts.after(lambda model: with_engines(model, swaps=True))
    assert again is not None
    assert kept is not None
    assert kept["ttft_p99"] < again["ttft_p99"]


def test_inputs_before_the_forward_pass_are_a_part_of_their_own(tmp_path: Path) -> None:
    """The execution begins with them: TPOT has them whole, a usual service has hardly any."""
    judged = told(written(replace(TROUBLES["inputs"].service, requests=60), tmp_path / "slow"))
    assert named(judged) == ["SERVICE.INPUTS"]
    lat = judged.found.latencies
    each = lat.tpot_parts[lat.decoded, TPOT.prepare] / lat.turns[lat.decoded]
    assert each == pytest.approx(14 * MS, rel=0.01)
    usual = told(written(Service(requests=60), tmp_path / "usual"))
    first = judged.findings.findings[0]
    assert first.gain_ns is not None
    assert first.step_after_ns is not None
    was = first.gain_ns + first.step_after_ns
    figure = min(judged.figures, key=lambda name: abs(judged.figures[name] - was))
    assert first.step_after_ns == pytest.approx(usual.figures[figure], rel=0.05)
    assert usual.found.steps.cycle[:, Cycle.prepare].max() <= 1000
    assert named(usual) == []


def test_a_transfer_after_the_first_token_takes_no_blocks(tmp_path: Path) -> None:
    """The prefill side gives the first token: TTFT ends there, and what follows until decode is transfer."""
    judged = told(written(replace(TROUBLES["transfer_later"].service, requests=80), tmp_path))
    assert named(judged)[:1] == ["SERVICE.TRANSFER"]
    assert "of TPOT" in said(judged)
    lat, found = judged.found.latencies, judged.found
    assert (lat.tpot_parts.sum(axis=1)[lat.decoded] == lat.tpot[lat.decoded]).all()
    assert (lat.tpot_parts[:, TPOT.preempted] == 0).all()
    took = (found.pulls[1] - found.pulls[0])[lat.decoded]
    assert np.abs(lat.tpot_parts[lat.decoded, TPOT.transfer] - took).max() <= 2000


def test_blocks_that_stay_free_are_no_room(tmp_path: Path) -> None:
    """Of 72 blocks 8 stay free at every admission, far more than a fiftieth: requests wait for blocks."""
    judged = told(written(TROUBLES["kept"].service, tmp_path / "kept"))
    assert named(judged) == ["SERVICE.KV"]
    assert 6 <= judged.found.room.margin[0] <= 10
    assert judged.found.latencies.metrics[0].share(TTFT.queue_other)[0] < 0.02
    full = told(written(TROUBLES["queue"].service, tmp_path / "queue"))
    assert full.found.room.margin == (0,)


def test_blocks_that_are_a_little_off_still_tell_their_size(tmp_path: Path) -> None:
    """Free blocks are those of another moment of the step: by one or two they are no total."""
    folder = written(TROUBLES["kv"].service, tmp_path)
    random = Random(3)

    def off(row: Row) -> Row:
        free, held = row["free_blocks"], row["blocks_allocated"]
        if not free.isdecimal():
            return row
        return row | {"free_blocks": str(max(int(free) - random.randrange(3), 0)), "blocks_allocated": held and "1"}

    rewritten(folder, "batch", each(off))
    judged = told(folder)
    assert judged.found.room.block == 128
    assert named(judged)[:1] == ["SERVICE.KV"]


def test_bursts_that_more_places_hardly_help_are_bursts(tmp_path: Path) -> None:
    """Forty come at once and are answered long before the next; a second instance halves each of these crowds."""
    service = Service(requests=160, burst=40, gap=600 * MS, max_seqs=20, blocks=6000)
    judged = told(written(service, tmp_path))
    assert named(judged)[:1] == ["SERVICE.QUEUE"]
    assert "Requests come in bursts" in said(judged)


def test_a_prefix_cache_without_hits_is_said_where_prompts_take_the_tokens(tmp_path: Path) -> None:
    """It may be off: the verdict says so, but nothing tells that prompts begin alike."""
    service = Service(requests=80, gap=220 * MS, tenants=(Tenant(1, (1400, 2000)),))
    folder = written(service, tmp_path)
    rewritten(folder, "request", each(lambda row: row | {"cache_hit_rate": "0.0"}))
    judged = told(folder)
    assert [one.id for one in judged.findings.findings] == ["SERVICE.PREFIX"]
    assert not named(judged)
    assert "The prefix cache gives 0% of the prompts" in said(judged)


def test_a_shared_beginning_that_nothing_speaks_for_does_not_lead(tmp_path: Path) -> None:
    """Prompts of any length may share what the shortest one has: that is told after what is known."""
    folder = written(Service(requests=80, gap=400 * MS, tenants=(Tenant(1, (900, 4000)),)), tmp_path)
    rewritten(folder, "request", each(lambda row: row | {"cache_hit_rate": "0.0"}))
    first, *others = (words(said) for said in told(folder).findings.verdict)
    assert "if they share" not in first
    assert any("if they share their first" in said for said in others)


def test_two_causes_are_both_told(tmp_path: Path) -> None:
    """Faster schedules leave much of the wait for blocks: what is left is halved by more blocks."""
    service = replace(TROUBLES["kv"].service, schedule=10 * MS)
    assert set(named(told(written(service, tmp_path)))) == {"SERVICE.KV", "SERVICE.SCHEDULER"}


def empty_forwards(folder: Path) -> Path:
    """As many versions of vLLM write it: forward.csv has headings alone."""
    path = folder / "forward.csv"
    path.write_text(path.read_text().partition("\n")[0] + "\n")
    return folder


def test_events_tell_forward_passes_where_their_table_is_empty(tmp_path: Path) -> None:
    written(replace(TROUBLES["sampling"].service, requests=60), tmp_path, trace=True)
    plain = judged(load(tmp_path), Thresholds())
    told = judged(load(empty_forwards(tmp_path)), Thresholds())
    assert [one.id for one in told.findings.findings][:1] == ["SERVICE.SAMPLING"]
    assert told.findings.findings[0].gain_ns == pytest.approx(plain.findings.findings[0].gain_ns, rel=0.02)
    assert "SERVICE.SAMPLING" not in {id_ for id_, _ in told.findings.not_checked}
    assert "SERVICE.SAMPLING" in {id_ for id_, _ in judge(timeline(read_service(tmp_path))).findings.not_checked}


@pytest.mark.parametrize("late", [0, 8])
def test_forward_passes_tell_a_late_worker_that_writes_no_executions(late: int, tmp_path: Path) -> None:
    """Of three workers of one engine only the first writes executions; they leave a pass together."""
    folder = written(Service(requests=40, fixed=25 * MS), tmp_path)

    def passes(rows: list[Row]) -> list[Row]:
        found = list(rows)
        for row in rows:
            for worker in (1, 2):
                begin = float(row["start_time(ms)"]) + (late if worker == 2 else 0)
                found.append(row | {"prof_id": f"worker-{worker}", "start_time(ms)": f"{begin:.6f}"})
        return found

    rewritten(folder, "forward", passes)
    found = told(folder)
    assert named(found) == (["SERVICE.WORKERS"] if late else [])
    if late:
        assert words(found.findings.findings[0].title).startswith("Worker worker-2 begins each step 8.000 ms after")


def test_executions_that_hand_a_batch_over_are_no_bubbles(tmp_path: Path) -> None:
    """They are over after 20 µs: a step lasts until the next one is scheduled, and few requests are told by parts."""
    folder = written(Service(requests=6, tenants=(Tenant(1, (200, 300), (60, 90)),)), tmp_path)
    (folder / "forward.csv").write_bytes(b"")
    recorded = timeline(read_service(folder))

    def handed_over(row: Row) -> Row:
        if row["name"] != "modelExec" or not row["start_time(ms)"]:
            return row
        return row | {"end_time(ms)": repr(float(row["start_time(ms)"]) + 0.02), "during_time(ms)": "0.02"}

    rewritten(folder, "batch", each(handed_over))
    judged = told(folder)
    found = judged.found.steps.cycle.sum(axis=0)
    true = recorded.steps.cycle.sum(axis=0)
    assert found[Cycle.forward] == pytest.approx(true[Cycle.forward], rel=0.1)
    assert found[Cycle.bubble] < 0.05 * found[Cycle.forward]
    assert any("only hand a batch over" in words(warning) for warning in judged.warnings)
    first = words(judged.findings.verdict[0])
    assert first.startswith("TTFT is ")
    assert "(6 requests)" in first
    assert not told(written(Service(requests=6), tmp_path / "whole")).warnings
