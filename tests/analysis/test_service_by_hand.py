"""A small service, calculated with pencil and paper from the definitions: neither the generator nor its scheduler.

Two requests in four steps, ms after the first request (a schedule, an execution, the forward pass in it):

    1   10–11  12–22  12–20   a: 100 tokens of its prompt
    2   23–24  24–39  24–36   a decodes, b: 50 tokens of its prompt
    3   40–41  41–47  41–45   a and b decode
    4   48–49  50–55  50–54   b decodes

a comes at 0 and is in the queue from 4 on, b comes at 5 and is there from 7 on. Tokens leave 0.5 ms after their step.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import pytest
from msgspec.structs import replace

from npu_tui.analysis.limits import Thresholds
from npu_tui.analysis.service_blocks import MANY
from npu_tui.analysis.service_cost import Cost, around_of
from npu_tui.analysis.service_latency import timeline
from npu_tui.analysis.service_model import EngineModel, ServiceModel, fewer_drafts, undrafted, with_engines
from npu_tui.analysis.service_replay import replayed
from npu_tui.analysis.service_steps import Cycle, Work
from npu_tui.analysis.service_timeline import TPOT, TTFT, Room, ServiceTimeline
from npu_tui.load.service import read_service
from npu_tui.rules.service_facts import ServiceFacts
from npu_tui.rules.service_requests import _without_queue

ORIGIN = 1_763_600_000_000
STEPS = (
    ((10, 11), (12, 22), (12, 20), [("a", 0, 0, 100)]),
    ((23, 24), (24, 39), (24, 36), [("a", 1, 1, 1), ("b", 0, 0, 50)]),
    ((40, 41), (41, 47), (41, 45), [("a", 2, 1, 1), ("b", 1, 1, 1)]),
    ((48, 49), (50, 55), (50, 54), [("b", 2, 1, 1)]),
)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> ServiceTimeline:
    """The service through its files."""
    folder = tmp_path_factory.mktemp("service")
    requests = [
        "http_rid,recv_token_size,reply_token_size,execution_time(ms),queue_wait_time(ms),first_token_latency(ms),"
        "start_time(ms)",
        f"a,100,3,47.5,7,22.5,{ORIGIN}.0",
        f"b,50,3,50.5,17,34.5,{ORIGIN + 5}.0",
    ]
    batches = ["name,res_list,start_time(ms),end_time(ms),prof_id,dp_rank"]
    forwards = ["name,start_time(ms),end_time(ms),prof_id,dp_rank"]
    for schedule, execute, forward, members in STEPS:
        listed = [{"rid": rid, "iter": at, "type": kind, "num_scheduled_tokens": n} for rid, at, kind, n in members]
        for name, (begin, end) in (("batchFrameworkProcessing", schedule), ("modelExec", execute)):
            batches.append(f'{name},"{listed}",{ORIGIN + begin}.0,{ORIGIN + end}.0,host-7,0')
        forwards.append(f"forward,{ORIGIN + forward[0]}.0,{ORIGIN + forward[1]}.0,host-7,0")
    for name, rows in (("request", requests), ("batch", batches), ("forward", forwards)):
        (folder / f"{name}.csv").write_text("\n".join(rows) + "\n")
    return timeline(read_service(folder))


def parts_of(values: np.ndarray, names: type[IntEnum]) -> dict[str, float]:
    """The parts that are not 0, in ms."""
    return {part.name: value / 1e6 for part, value in zip(names, values.tolist(), strict=True) if value}


def test_time_to_first_token(found: ServiceTimeline) -> None:
    """Nothing runs before the first schedule; b waits through the first step, which has as many tokens as any."""
    parts = found.latencies.ttft_parts[[found.service.rids.index(rid) for rid in "ab"]]
    one = {"frontend": 4, "queue_other": 6, "batching": 1, "prefill": 8, "bubble": 1, "sampling": 2, "output": 0.5}
    other = {
        "frontend": 2,
        "queue_other": 3,
        "queue_full": 13,
        "batching": 1,
        "prefill": 12,
        "sampling": 3,
        "output": 0.5,
    }
    assert parts_of(parts[0], TTFT) == one
    assert parts_of(parts[1], TTFT) == other | {"sampling": 3, "output": 0.5}


def test_time_per_token(found: ServiceTimeline) -> None:
    """From the step of the first token to that of the last: 22 to 47 ms of a, 39 to 55 ms of b."""
    parts = found.latencies.tpot_parts[[found.service.rids.index(rid) for rid in "ab"]]
    assert parts_of(parts[0], TPOT) == {"forward": 16, "sampling": 5, "schedule": 2, "bubble": 2}
    assert parts_of(parts[1], TPOT) == {"forward": 8, "sampling": 3, "schedule": 2, "bubble": 3}
    rids = np.array([found.service.rids.index(rid) for rid in "ab"])
    assert ((found.latencies.tpot[rids] / (found.latencies.tokens[rids] - 1)) / 1e6).tolist() == [12.5, 8.0]


def test_time_without_a_queue(found: ServiceTimeline) -> None:
    """b waits for the full step from 7 to 23 of the 55 ms; what it does before and after that is no wait."""
    assert _without_queue(ServiceFacts(found, Thresholds())) == pytest.approx(1 - 16 / 55)


def test_time_of_the_engine(found: ServiceTimeline) -> None:
    """45 ms from its first schedule to its last step."""
    steps = found.steps
    forward = np.bincount(steps.work, steps.cycle[:, Cycle.forward], len(Work))
    assert parts_of(forward, Work) == {"prefill": 8, "mixed": 12, "decode": 8}
    total = {"schedule": 4, "forward": 28, "sampling": 8, "bubble": 5}
    assert parts_of(steps.cycle.sum(axis=0), Cycle) == total


ENGINE = EngineModel(
    cost=Cost(10, 0.1, 1, 0, 0), schedule=(0, 1, 0), gap=0, dispatch=0, prepare=(0, 0, 0), after=(0, 0, 0), seqs=2,
    budget=MANY, chunked=True, blocks=MANY, room=Room(10, 0, (0,), (0,)), margin=0,
)  # fmt: skip
"""A step takes 11 ns, 1 for each decoded token and 1 for ten tokens of a prompt; two requests fit."""


def model_of(prompts: list[int], turns: list[int], starts: list[int], engine: EngineModel = ENGINE) -> ServiceModel:
    """Requests on one engine."""
    none = np.zeros(len(prompts), np.int64)
    return ServiceModel(
        (engine,), np.arange(len(prompts)), np.array(starts), none, np.array(prompts), np.array(turns),
        np.ones(len(prompts)), np.array(turns) + 1, none, none, none, none, none, none, none, none > 0,
        none > 0, none == 0,
    )  # fmt: skip


THREE = model_of([100, 50, 10], [2, 1, 0], [0, 5, 6])


def test_two_places_for_three_requests() -> None:
    """0–21 the first prompt; 21–38 a token and the second prompt; 38–51 two tokens; 51–63 the third prompt."""
    served = replayed(THREE)
    assert served.ttft.tolist() == [21, 33, 57]
    assert served.tpot.tolist() == [15, 13]
    assert served.tokens_per_s == pytest.approx(6 / 63e-9)


def test_inputs_grow_with_the_prompt() -> None:
    """A tenth of a ns more for each token of a prompt: 0–31 the first, 31–53 a token and the second, 53–66 two."""
    served = replayed(with_engines(THREE, prepare=(0, 0, 0.1)))
    assert served.ttft.tolist() == pytest.approx([31, 48, 73])
    assert served.tpot.tolist() == [17.5, 13]


def test_what_lies_around_a_pass_is_told_by_what_tells_it() -> None:
    """Tokens explain these times and the size of the batch does not; where they do not either, they are no reason."""
    rng = np.random.default_rng(4)
    size, tokens = rng.integers(1, 9, 80), rng.integers(0, 500, 80)
    every = np.ones(80, bool)
    assert around_of(size, tokens, 300 + 20 * size + 7 * tokens, every) == pytest.approx((20, 300, 7))
    assert around_of(size, tokens, 300 + 20 * size + rng.integers(0, 900, 80), every)[2] == 0


def test_room_for_all() -> None:
    """21–39 a token and both prompts; 39–52 two tokens."""
    served = replayed(with_engines(THREE, seqs=MANY))
    assert served.ttft.tolist() == [21, 34, 33]
    assert served.tpot.tolist() == [15.5, 13]


def test_sixteen_blocks() -> None:
    """At 38 the second request needs a sixth block, and eleven are taken: it loses its five and waits.

    38–50 the first one decodes alone; 50–67.1 the prompt of the second one and its token again, with the third one's.
    """
    served = replayed(with_engines(THREE, blocks=16))
    assert served.ttft.tolist() == pytest.approx([21, 33, 61.1])
    assert served.tpot.tolist() == pytest.approx([14.5, 29.1])


def test_chunks() -> None:
    """40 tokens a step: 30–45 the last 20 of the first prompt and 20 of the second, 45–60 a token and 30."""
    model = model_of([100, 50], [1, 0], [0, 1], replace(ENGINE, budget=40))
    served = replayed(model)
    assert served.ttft.tolist() == [45, 59]
    assert served.tpot.tolist() == [15]


def test_a_prompt_that_loses_its_blocks_is_computed_again() -> None:
    """0–15 the first prompt and 10 tokens of the second; 15–39 two tokens alone; 39–54 and 54–67 all 60 tokens."""
    model = model_of([30, 60], [2, 0], [0, 0], replace(ENGINE, budget=40, blocks=7))
    assert replayed(model).ttft.tolist() == [15, 67]


def test_another_engine_decodes() -> None:
    """21 the prompt, 2 until its transfer, 7 for that; 30–42 the first token, 42–54 and 54–66 the two others."""
    alone = model_of([100], [2], [0], ENGINE)
    moved = replace(
        alone, engines=(ENGINE, ENGINE), last=np.ones(1, np.int64), pull=np.array([7]), handover=np.array([2])
    )
    served = replayed(moved)
    assert (served.ttft.tolist(), served.tpot.tolist()) == ([42], [12])


@pytest.mark.parametrize("chunked", [True, False])
def test_an_empty_batch_needs_no_margin(chunked: bool) -> None:
    """The prompt takes 9 of 10 blocks, and 2 stay free beside others only: 0–20 and 20–40, one after the other."""
    engine = replace(ENGINE, blocks=10, margin=2, chunked=chunked)
    assert replayed(model_of([90, 90], [0, 0], [0, 0], engine)).ttft.tolist() == [20, 40]


def test_drafts() -> None:
    """0–25 the prompt and a draft; 25–43 and 43–61 three tokens, two of which stay. Without: 21, then 12 each."""
    model = replace(
        model_of([100], [2], [0], replace(ENGINE, width=3, draft=4)), growth=np.full(1, 2.0), answer=np.full(1, 5)
    )
    served, alone = replayed(model), replayed(undrafted(model))
    assert (served.ttft.tolist(), served.tpot.tolist()) == ([25], [9])
    assert (alone.ttft.tolist(), alone.tpot.tolist()) == ([21], [12])


def test_one_draft_of_two() -> None:
    """Half of two are accepted, each with a chance of 0.618: three steps of 15 give four tokens, after one of 23."""
    model = replace(
        model_of([100], [2], [0], replace(ENGINE, width=3, draft=4)), growth=np.full(1, 2.0), answer=np.full(1, 5)
    )
    one = replayed(fewer_drafts(1, 2, 0.5, model))
    assert (one.ttft.tolist(), one.tpot.tolist()) == ([23], [11.25])


def test_a_request_that_is_held_back() -> None:
    """It came at 5 and is seen at 35, in the step 33–45 of the other one: it is computed 45–61."""
    model = replace(model_of([100, 50], [2, 0], [0, 5]), held=np.array([0, 30]))
    assert replayed(model).ttft.tolist() == [21, 56]
    assert replayed(replace(model, held=np.zeros(2, np.int64))).ttft.tolist() == [21, 33]
