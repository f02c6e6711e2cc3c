"""Findings about an inference service: why requests wait, and what makes their tokens slow."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.service_latency import TPOT, TTFT, Latencies, Timeline, surcharges
from npu_tui.analysis.service_replay import (
    FAITHFUL,
    MANY,
    Served,
    ServiceModel,
    Slower,
    evenly,
    fitted,
    line_of,
    model_of,
    recorded,
    replayed,
    reproduces,
    slower_since,
    twice,
    undrafted,
    with_engines,
    work_of,
)
from npu_tui.analysis.service_steps import B, D, F, P, S
from npu_tui.analysis.thresholds import AnyThreshold, Threshold, Thresholds
from npu_tui.rules.model import Kind
from npu_tui.rules.rule import Skipped, sentences
from npu_tui.trace.arrays import I64
from npu_tui.trace.message import Message, message
from npu_tui.trace.once import once
from npu_tui.trace.service import UNKNOWN

SHARE = Threshold("service_share", 0.15)
TAIL_SHARE = Threshold("service_tail_share", 0.30)
SLOWER = Threshold("service_slower", 1.15)
RANK_LOAD = Threshold("service_rank_load", 1.3)
WAITING = Threshold("service_waiting", 1.0)
LONG_PROMPT = Threshold("service_long_prompt", 8.0)
ACCEPTED = Threshold("service_accepted", 0.3)
SLOWEST = 20.0
"""The same work takes no engine longer by this factor and more: such times are damaged."""
Remedy = Callable[[ServiceModel], ServiceModel]


class Draft(Struct, frozen=True):
    """What a rule found: ``share`` of TTFT or TPOT, of all or of the slowest tenth, where it is larger.

    ``cost`` (requests,) is what each request lost by it, ns, and ``blame`` (steps,) how much each batch shows it.
    ``remedy`` takes it out of the replayed service.
    """

    share: float
    title: Message
    detail: Message
    cost: I64
    blame: I64
    remedy: Remedy | None = None
    advice: tuple[str, ...] = ()


class ServiceRule(Kind, frozen=True, kw_only=True):
    """A rule about a service."""

    check: Callable[[ServiceFacts], Draft | Skipped | None]


class ServiceFacts:
    """What rules read: the requests, their parts, and the model of the service, which is built once."""

    def __init__(self, found: Timeline, limits: Thresholds) -> None:
        self.found, self.limits = found, limits
        self.latencies: Latencies = found.latencies
        self.ttft, self.tpot = self.latencies.metrics

    @property
    def knows_blocks(self) -> bool:
        """Whether it is known how many blocks were free after a schedule: else a wait has no reason."""
        free = self.found.steps.free
        return bool(len(free)) and float((free != UNKNOWN).mean()) > 1 / 2

    def first(self, *parts: str) -> tuple[float, float]:
        """The share of ``parts`` of TTFT: of all requests, and of the slowest tenth."""
        return self.ttft.shares(self.ttft.part(*parts))

    def tokens(self, *parts: str) -> tuple[float, float]:
        """The share of ``parts`` of TPOT, as ``first``."""
        return self.tpot.shares(self.tpot.part(*parts))

    def cost(self, first: tuple[str, ...] = (), tokens: tuple[str, ...] = ()) -> I64:
        """What every request spent in parts of TTFT and of the time after it, ns."""
        lat = self.latencies
        cost: I64 = lat.ttft_parts[:, [TTFT.index(part) for part in first]].sum(axis=1)
        cost += lat.tpot_parts[:, [TPOT.index(part) for part in tokens]].sum(axis=1)
        return cost

    def waiting(self, part: str) -> float:
        """How many requests wait for ``part`` on average, on the engine where most do, while it has any to serve."""
        waited, steps = self.found.waited[:, TTFT.index(part)], self.found.steps
        busy = [int(steps.cycle[steps.of(number)][:, :-1].sum()) for number in range(len(waited))]
        return max((float(time) / max(of, 1) for time, of in zip(waited, busy, strict=True)), default=0.0)

    def notable(self, shares: tuple[float, float]) -> bool:
        """Whether a part is more than what a healthy service has."""
        return shares[0] >= self.limits[SHARE] or shares[1] >= self.limits[TAIL_SHARE]

    @once
    def slower(self) -> Slower | None:
        """Since when the model is slower; None where it is not."""
        found = slower_since(self.found)
        return found if found is not None and self.limits[SLOWER] <= found.factor < SLOWEST else None

    @property
    def holds(self) -> bool:
        """Whether requests wait although there is room for them."""
        return self.knows_blocks and self.notable(self.first("queue_other"))

    @once
    def figures(self) -> dict[str, float]:
        """TTFT and TPOT as recorded at some percentiles (ns), and tokens a second; NaN where nothing tells."""
        return recorded(self.found).figures()

    @once
    def model(self) -> ServiceModel | None:
        """The model of the service where its replay gives what was recorded."""
        model = model_of(self.found, self.slower, self.holds)
        if model is None:
            return None
        error = reproduces(model, self.found)
        if error > FAITHFUL and any(engine.blocks < MANY for engine in model.engines):
            model = with_engines(model, whole=True)
            error = reproduces(model, self.found)
        return model if error <= FAITHFUL else None

    def after(self, remedy: Remedy) -> Served | None:
        """The service with ``remedy``; None where it cannot be replayed."""
        served = None if self.model is None else replayed(remedy(self.model))
        return served if served is not None and served.complete else None


_WORSE = 1.2
_CHUNK = 512
_FEWEST = 100
_FEWEST_REQUESTS = 10
_BOOK = "https://gitcode.com/Ascend/msprof/tree/master/docs/zh/best_practices"


def _queue(facts: ServiceFacts) -> Draft | None:
    """Requests wait though there are blocks: the batch is full."""
    shares = facts.first("queue_full")
    steps = facts.found.steps
    waiting = facts.waiting("queue_full")
    if not facts.notable(shares) or waiting < facts.limits[WAITING]:
        return None
    limited = facts.model is not None and any(engine.seqs < MANY for engine in facts.model.engines)
    remedy: Remedy | None = twice
    if limited:
        more = facts.after(_more_room)
        now, then = facts.figures, {} if more is None else more.figures()
        if (
            more is not None
            and then["ttft_p99"] < _ENOUGH * now["ttft_p99"]
            and then["tpot_p99"] < 1.5 * now["tpot_p99"]
        ):
            remedy = _more_room
    waits = facts.ttft.part("queue_full")
    words = {
        "share": max(shares), "most": int(steps.size.max()), "count": int((waits > 0).sum()), "all": len(waits),
        "mean": float(waits.mean()), "waiting": waiting, "tokens": int((steps.prompts + steps.decoded).max()),
    }  # fmt: skip
    kind = "room" if remedy is _more_room else "load"
    told = "places" if kind == "room" and not facts.knows_blocks else kind
    return Draft(
        max(shares), message("finding.service.queue", **words), message(f"finding.service.queue_{told}", **words),
        facts.cost(("queue_full",)),
        np.where(facts.found.queued == TTFT.index("queue_full"), steps.size, 0), remedy, (f"service_{kind}",),
    )  # fmt: skip


_ENOUGH = 0.5


def _more_room(model: ServiceModel) -> ServiceModel:
    return with_engines(model, seqs=MANY)


def _kv(facts: ServiceFacts) -> Draft | None:
    """Requests wait for blocks of the KV cache, or lose theirs."""
    first, tokens = facts.first("queue_blocks"), facts.tokens("preempted")
    if not (facts.notable(first) or facts.notable(tokens)):
        return None
    steps, batches = facts.found.steps, facts.found.service.batches
    short = steps.free[(steps.free != UNKNOWN) & (facts.found.queued == TTFT.index("queue_blocks"))]
    total = int(batches.total_blocks.max()) if len(batches) else UNKNOWN
    kind = "first" if max(first) >= max(tokens) else "tokens"
    preempted = int((facts.latencies.tpot_parts[:, TPOT.index("preempted")] > 0).sum())
    words = {
        "share": max(*first, *tokens), "first": max(first), "tokens": max(tokens), "preempted": preempted,
        "total": total if total > 0 else None, "free": int(np.median(short)) if len(short) else None,
        "steps": len(short),
    }  # fmt: skip
    return Draft(
        max(*first, *tokens), message(f"finding.service.kv_{kind}", **words),
        sentences(
            message("finding.service.kv_blocks", **words) if len(short) else "",
            message("finding.service.kv_preempted", **words) if preempted else "",
        ),
        facts.cost(("queue_blocks",), ("preempted",)),
        np.where(facts.found.queued == TTFT.index("queue_blocks"), steps.size, 0),
        lambda model: with_engines(model, blocks=MANY),
    )  # fmt: skip


def _wait(facts: ServiceFacts) -> Draft | None:
    """Requests wait although the batch has room and blocks are free."""
    if not facts.holds:
        return None
    shares = facts.first("queue_other")
    words = {"share": max(shares)}
    return Draft(
        max(shares), message("finding.service.wait", **words), message("finding.service.wait_detail", **words),
        facts.cost(("queue_other",)),
        np.where(facts.found.queued == TTFT.index("queue_other"), facts.found.steps.size, 0),
        lambda model: replace(model, held=np.zeros_like(model.held)),
    )  # fmt: skip


def _mix(facts: ServiceFacts) -> Draft | None:
    """Prompts are computed in or between the steps that decode, most of all a few long ones."""
    lat, steps = facts.latencies, facts.found.steps
    prompts = lat.prompt[facts.ttft.rids]
    if not len(prompts):
        return None
    usual = float(np.median(prompts))
    long = np.flatnonzero(lat.prompt >= facts.limits[LONG_PROMPT] * usual)
    few = 0 < len(long) <= len(prompts) // 5
    cost = facts.cost((), ("surcharge", "prompts"))
    if few:
        pairs = facts.found.pair_prompt & np.isin(facts.found.pair_rid, long)
        of_long = np.zeros(len(steps), bool)
        of_long[facts.found.pair_step[pairs]] = True
        extra = np.where(steps.work == 0, steps.cycle.sum(axis=1), surcharges(steps)) * of_long
        total = np.append(0, np.cumsum(extra))
        passed = total[np.maximum(lat.last, lat.token) + 1] - total[lat.token + 1]
        cost = np.where((lat.token >= 0) & (lat.tpot != UNKNOWN), np.minimum(passed, cost), 0)
    all_, tail = shares = facts.tpot.shares(cost[facts.tpot.rids])
    if max(shares) < facts.limits[SHARE] if few else all_ < 2 * facts.limits[TAIL_SHARE]:
        return None
    chunked = facts.model is None or all(engine.chunked for engine in facts.model.engines)
    words = {
        "share": max(all_, tail), "count": len(long), "usual": round(usual), "longest": int(prompts.max()),
        "longest_step": int(steps.cycle[:, F].max()), "chunk": _CHUNK,
        "step": int(np.median(steps.cycle[steps.work == 2, F])) if (steps.work == 2).any() else None,
    }  # fmt: skip
    kind = "few" if few else "all"
    return Draft(
        max(all_, tail), message(f"finding.service.mix_{kind}", **words),
        message("finding.service.mix_detail", **words),
        cost, np.where(steps.prompts > 0, steps.cycle[:, F], 0), None if chunked else _in_chunks,
        ("service_apart",) if chunked else ("service_chunks", "service_apart"),
    )  # fmt: skip


def _in_chunks(model: ServiceModel) -> ServiceModel:
    return with_engines(model, chunked=True, budget=_CHUNK)


def _rank(facts: ServiceFacts) -> Draft | Skipped | None:
    """One of several engines is slower: its device, or the load that it is given."""
    engines: list[int] = np.flatnonzero(facts.found.serves).tolist()
    if len(engines) < 2:
        return None
    found, lat = facts.found, facts.latencies
    steps, work = found.steps, work_of(found)
    parts = [steps.of(number) for number in engines]
    if any(part.stop - part.start < _FEWEST for part in parts):
        return Skipped(message("finding.service.rank_few", fewest=_FEWEST))
    mean = work[np.isin(steps.engine, engines)].mean(axis=0)[None, :]
    costs = [fitted(work[part][steps.size[part] > 0], steps.cycle[part, F][steps.size[part] > 0]) for part in parts]
    time = np.array([cost.of(mean)[0] for cost in costs])
    tokens = np.array([float((steps.prompts + steps.decoded)[part].sum()) for part in parts])
    counts = np.array([float((lat.engine[facts.ttft.rids] == number).sum()) for number in engines])
    starts = np.unique(np.concatenate([steps.start[part] for part in parts]) // _TOGETHER, return_counts=True)[1]
    apart = float((starts == 1).sum() / len(steps)) > 1 / 2
    worst = int(np.argmax(_beside(time))) if apart else 0
    rank: object = found.engines[engines[worst]].rank
    if apart and facts.limits[SLOWER] <= _beside(time)[worst] < SLOWEST:
        ratio, usual = _beside(time)[worst], engines[int(np.argsort(time)[(len(time) - 1) // 2])]

        def others_cost(model: ServiceModel) -> ServiceModel:
            changed = list(model.engines)
            changed[engines[worst]] = replace(changed[engines[worst]], cost=changed[usual].cost)
            return replace(model, engines=tuple(changed))

        words = {"rank": rank, "ratio": ratio - 1, "share": 1 - 1 / ratio, "tokens": tokens[worst] / tokens.sum()}
        return Draft(
            1 - 1 / float(ratio), message("finding.service.rank_slow", **words),
            message("finding.service.rank_slow_detail", **words), _of_engine(facts, engines[worst], 1 - 1 / ratio),
            np.where(steps.engine == engines[worst], steps.cycle[:, F], 0), others_cost, ("service_device",),
        )  # fmt: skip
    worst = int(np.argmax(_beside(tokens)))
    if not apart:
        return _waited_for(facts, engines, worst, tokens, mean)
    slowness = [_slowness(of.values, lat.engine[of.rids] == engines[worst]) for of in (facts.ttft, facts.tpot)]
    slow = max((ratio for ratio in slowness if ratio is not None), default=1.0)
    if _beside(tokens)[worst] < facts.limits[RANK_LOAD] or slow < _WORSE:
        return None
    by = "count" if _beside(counts)[worst] >= _WORSE else "lengths"
    words = {
        "rank": found.engines[engines[worst]].rank, "load": tokens[worst] / tokens.sum(), "ranks": len(engines),
        "requests": int(counts[worst]), "all": int(counts.sum()), "slow": slow - 1,
    }  # fmt: skip
    return Draft(
        1 - 1 / slow, message(f"finding.service.rank_{by}", **words), message("finding.service.rank_load", **words),
        _of_engine(facts, engines[worst], 1 - 1 / slow),
        np.where(steps.engine == engines[worst], steps.size, 0),
        lambda model: evenly(model, np.array(engines)), ("service_routing",),
    )  # fmt: skip


def _waited_for(
    facts: ServiceFacts, engines: list[int], worst: int, tokens: npt.NDArray[np.float64], mean: npt.NDArray[np.float64]
) -> Draft | None:
    """All ranks wait for the one with most to do, in every step."""
    found, steps = facts.found, facts.found.steps
    part, work = steps.of(engines[worst]), work_of(facts.found)
    cost = fitted(work[part], steps.cycle[part, F])
    share = 1 - float(cost.of(mean)[0] / max(cost.of(work[part].mean(axis=0)[None, :])[0], 1.0))
    if _beside(tokens)[worst] < facts.limits[RANK_LOAD] or share < facts.limits[SHARE]:
        return None
    words = {"rank": found.engines[engines[worst]].rank, "share": share, "load": tokens[worst] / tokens.sum()}
    return Draft(
        share, message("finding.service.rank_wait", **words), message("finding.service.rank_wait_detail", **words),
        (facts.cost(("prefill",), ("forward", "surcharge")) * share).astype(np.int64),
        np.where(steps.engine == engines[worst], steps.size, 0), advice=("service_routing",),
    )  # fmt: skip


_TOGETHER = 1_000_000
"""Steps of engines that wait for each other begin within a ms."""


def _beside(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Each value over the median of the others."""
    return np.array([value / max(float(np.median(np.delete(values, at))), 1.0) for at, value in enumerate(values)])


def _slowness(values: npt.NDArray[np.float64], here: npt.NDArray[np.bool_]) -> float | None:
    """The mean of ``values`` here over that elsewhere; None where one of both has none."""
    return float(values[here].mean() / values[~here].mean()) if here.any() and (~here).any() else None


def _of_engine(facts: ServiceFacts, engine: int, share: float) -> I64:
    lat = facts.latencies
    time = np.where(lat.ttft == UNKNOWN, 0, lat.ttft) + np.where(lat.tpot == UNKNOWN, 0, lat.tpot)
    return np.where(lat.engine == engine, time * share, 0).astype(np.int64)


def _part(
    name: str, column: int, first: tuple[str, ...], tokens: tuple[str, ...], remedy: Remedy | None
) -> Callable[[ServiceFacts], Draft | None]:
    """A check for parts that a healthy service has little of: those of TTFT ``first``, those of TPOT ``tokens``.

    In batches it shows in a ``column`` of their cycle; F stands for none.
    """

    def check(facts: ServiceFacts) -> Draft | None:
        of_first, of_tokens = facts.first(*first), facts.tokens(*tokens)
        share = max(of_first[0], of_tokens[0])
        if share < facts.limits[SHARE]:
            return None
        turns = np.maximum(facts.latencies.turns[facts.tpot.rids], 0)
        words = {
            "share": share, "first": of_first[0], "tokens": of_tokens[0],
            "mean": float(facts.ttft.part(*first).mean()) if len(facts.ttft.rids) else None,
            "each": float(facts.tpot.part(*tokens).sum() / max(turns.sum(), 1)),
        }  # fmt: skip
        kind = "tokens" if of_tokens[0] >= of_first[0] else "first"
        title = message(f"finding.service.{name}_{kind}", **words)
        detail = message(f"finding.service.{name}_detail", **words)
        blame = facts.found.steps.cycle[:, column] * (column != F)
        return Draft(share, title, detail, facts.cost(first, tokens), blame, remedy)

    return check


def _transfer(facts: ServiceFacts) -> Draft | None:
    """The transfer of keys and values from prefill to decode; whether it grows with the prompt."""
    shares = facts.first("transfer")
    if shares[0] < facts.limits[SHARE]:
        return None
    pulls = facts.found.service.transfers
    known = (pulls.tokens > 0) & (pulls.end != UNKNOWN) & (pulls.start != UNKNOWN)
    time, tokens = (pulls.end - pulls.start)[known], pulls.tokens[known]
    per, related = 0.0, False
    if len(time) >= _FEWEST_REQUESTS and len(np.unique(tokens)) > 1:
        per = line_of(tokens, time)[0]
        related = per > 0 and float(np.var(per * tokens) / max(np.var(time), 1.0)) >= _RELATED
    words = {"share": max(shares), "median": float(np.median(time)) if len(time) else None, "per": per}
    kind = "length" if related else "fixed"
    return Draft(
        max(shares), message("finding.service.transfer", **words), message(f"finding.service.transfer_{kind}", **words),
        facts.cost(("transfer",)), np.zeros(len(facts.found.steps), np.int64),
        lambda model: replace(model, pull=np.zeros_like(model.pull)),
    )  # fmt: skip


_RELATED = 0.6
"""The share of the variance of transfers that the length of the prompt explains."""


def _model(facts: ServiceFacts) -> Draft | None:
    """The same batch takes longer since a moment."""
    slower, found = facts.slower, facts.found
    if slower is None:
        return None
    share = 1 - 1 / slower.factor
    after = found.steps.start[np.maximum(facts.latencies.last, 0)] >= slower.since if len(found.steps) else False
    cost = np.where(after, facts.cost(("prefill",), ("forward", "surcharge")) * share, 0).astype(np.int64)
    words = {
        "ratio": slower.factor - 1, "share": share, "since": slower.since - int(found.steps.opened.min()),
        "steps": int((found.steps.start >= slower.since).sum()), "all": len(found.steps),
    }  # fmt: skip
    return Draft(
        share, message("finding.service.model", **words), message("finding.service.model_detail", **words), cost,
        np.where(found.steps.start >= slower.since, found.steps.cycle[:, F], 0),
        lambda model: with_engines(model, late=(MANY << 20, 1.0)),
    )  # fmt: skip


def _drafts(facts: ServiceFacts) -> Draft | None:
    """Drafting costs more than its accepted tokens save."""
    rows = facts.found.service.spec_decodes
    known = (rows.draft_tokens > 0) & (rows.accepted_tokens >= 0)
    if not known.any():
        return None
    ratio = float(rows.accepted_tokens[known].sum() / rows.draft_tokens[known].sum())
    shares = facts.tokens("draft")
    if ratio >= facts.limits[ACCEPTED]:
        return None
    words = {"ratio": ratio, "share": shares[0], "per": ratio * float(rows.draft_tokens[known].mean())}
    title = message("finding.service.drafts", **words)
    return Draft(
        max(*shares, 1 - ratio),
        title,
        message("finding.service.drafts_detail", **words),
        facts.cost((), ("draft",)),
        facts.found.steps.cycle[:, D],
        undrafted,
    )


def _rule(
    id_: str, page: str, check: Callable[[ServiceFacts], Draft | Skipped | None], *thresholds: AnyThreshold,
    advice: tuple[str, ...] = (),
) -> ServiceRule:  # fmt: skip
    """A rule that follows ``page`` of Huawei's case book on the performance of services."""
    return ServiceRule(id_, "service", advice, ((page, f"{_BOOK}/{page}.md"),), "", thresholds, check=check)


SERVICE_RULES = (
    _rule("SERVICE.KV", "kv_block_shortage", _kv, SHARE, TAIL_SHARE),
    _rule(
        "SERVICE.QUEUE", "request_wait_latency", _queue, SHARE, TAIL_SHARE, WAITING,
        advice=("service_room", "service_load"),
    ),
    _rule("SERVICE.WAIT", "request_wait_latency", _wait, SHARE, TAIL_SHARE),
    _rule(
        "SERVICE.MIX", "batch_request_length_imbalance", _mix, SHARE, TAIL_SHARE, LONG_PROMPT,
        advice=("service_chunks", "service_apart"),
    ),
    _rule("SERVICE.RANK", "dp_load_imbalance", _rank, SLOWER, RANK_LOAD, advice=("service_device", "service_routing")),
    _rule(
        "SERVICE.SCHEDULER", "scheduler_high_latency",
        _part("scheduler", S, ("batching",), ("schedule",), lambda model: with_engines(model, schedule=(0.0, 0.0))),
        SHARE,
    ),
    _rule(
        "SERVICE.BUBBLE", "async_dual_launch_failure",
        _part("bubble", B, ("bubble",), ("bubble",), lambda model: with_engines(model, gap=0.0, dispatch=0.0)), SHARE,
    ),
    _rule(
        "SERVICE.SAMPLING", "sampler_high_latency",
        _part("sampling", P, ("sampling",), ("sampling",), lambda model: with_engines(model, after=(0.0, 0.0))), SHARE,
    ),
    _rule(
        "SERVICE.FRONTEND", "model_pre_post_processing_latency",
        _part("frontend", F, ("frontend",), (), lambda model: replace(model, front=np.zeros_like(model.front))), SHARE,
    ),
    _rule("SERVICE.TRANSFER", "kvcache_transfer_performance", _transfer, SHARE),
    _rule("SERVICE.MODEL", "model_performance_slo_degradation", _model, SLOWER),
    _rule("SERVICE.DRAFTS", "service_vs_model_performance_gap", _drafts, ACCEPTED),
)  # fmt: skip
"""Every finding about a service."""
