"""What rules about an inference service read, and what they find: its requests, their parts, its replayed model."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.limits import HALF, LITTLE, NEARLY_ALL, SOME, UNSEEN, Threshold, Thresholds
from npu_tui.analysis.service_blocks import MANY
from npu_tui.analysis.service_cost import (
    FEWEST,
    Filled,
    Floor,
    Jump,
    Lockstep,
    Sampling,
    Slower,
    filled_in,
    floor_in,
    jump_in,
    lockstep_of,
    sampling_of,
    slower_since,
)
from npu_tui.analysis.service_growth import Grown, Padded, grown_of, over_all, padded_in
from npu_tui.analysis.service_host import (
    EAGER_PASS,
    Stops,
    again_of,
    freed,
    modes_of,
    of_rows,
    parts_of,
    said_of,
    stops_of,
    taken_out,
)
from npu_tui.analysis.service_model import ServiceModel, model_of, with_engines
from npu_tui.analysis.service_replay import FAITHFUL, FIGURES, TOLD, recorded, replayed
from npu_tui.analysis.service_steps import Work
from npu_tui.analysis.service_timeline import TPOT, TTFT, Latencies, Metric, ServiceTimeline
from npu_tui.rules.model import Kind
from npu_tui.rules.rule import Skipped
from npu_tui.trace.arrays import I64, Bools
from npu_tui.trace.message import Message, Said, message
from npu_tui.trace.once import once
from npu_tui.trace.service import TOKENIZERS, UNKNOWN
from npu_tui.trace.text import brief

SHARE = Threshold("service_share", 0.15)
TAIL_SHARE = Threshold("service_tail_share", 0.30)
SLOWER = Threshold("service_slower", 1.15)
HIT_FALL = Threshold("service_hit_fall", 0.2)
TELLING = 50  # prompts, or steps on either side of a moment, from which on what they have in common is no chance
SHORT = 40
"""Letters of the name of a process, a range or an arg in a sentence."""
SLOWEST = 20.0
"""The same work takes no engine longer by this factor and more: such times are damaged."""
Remedy = Callable[[ServiceModel], ServiceModel]


class Cause(Struct, frozen=True):
    """What a rule found, before it is weighed: ``share`` of TTFT or TPOT, of all or of the slowest tenth if larger.

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
    feeds: bool = False
    """Whether it takes the longer, the more requests wait: what shortens the queue hides it, and comes after it."""
    buys: bool = False
    """Whether another instance is what helps: defects that gain as much come before it."""
    root: bool = False
    """Whether others are longer because of it: they count by what they take besides."""
    hint: Said = ""
    """What may be lost, though nothing shows it; empty where something does."""
    likely: bool = False
    """Whether something speaks for a hint."""
    instead: tuple[str, Remedy] | None = None
    """What else could be done, with its figures and its name."""
    after: dict[str, float] | None = None
    """The figures of the replayed service without it alone; None where it cannot be replayed."""
    saved: float = 1.0
    """The share of the figure that gains most; 1 where the gain is unknown."""


def draft_of(
    share: float, title: str, detail: str, words: dict[str, Any], cost: I64, blame: I64, remedy: Remedy | None = None,
    *advice: str,
) -> Cause:  # fmt: skip
    """A draft with the messages ``title`` and ``detail``, which both get ``words``."""
    told, explained = (message(f"finding.service.{key}", **words) for key in (title, detail))
    return Cause(share, told, explained, cost, blame, remedy, advice)


_FEW = 4  # requests for which an engine may have captured graphs of their own beside one large graph
COMPUTING = TTFT.prefill, TPOT.forward, TPOT.surcharge


class Trait(Struct, frozen=True):
    """What is said of some requests, a ``share`` of all, before they are scheduled: the arg ``key`` has this ``value``.

    They have a ``part`` of what all lost.
    """

    key: str
    value: str
    share: float
    part: float

    @property
    def words(self) -> dict[str, Any]:
        """What a sentence says of it."""
        return {"key": brief(self.key, SHORT), "value": brief(self.value, SHORT), "base": self.share, "of": self.part}


class ServiceRule(Kind, frozen=True, kw_only=True):
    """A rule about a service."""

    check: Callable[[ServiceFacts], Cause | Skipped | None]


class ServiceFacts:
    """What rules read: the requests, their parts, and the model of the service, which is built once."""

    def __init__(self, found: ServiceTimeline, limits: Thresholds) -> None:
        self.found, self.limits = found, limits
        self.latencies: Latencies = found.latencies
        self.ttft, self.tpot = self.latencies.metrics
        self._after = dict[tuple[Remedy, ...], dict[str, float] | None]()
        self._unchanged: tuple[ServiceModel, dict[str, float]] | None = None

    @property
    def knows_blocks(self) -> bool:
        """Whether free blocks after a schedule are known; without them the reason of a wait is unknown."""
        free = self.found.steps.free
        return bool(len(free)) and float((free != UNKNOWN).mean()) > 1 / 2

    def cost(self, *parts: TTFT | TPOT) -> I64:
        """What every request spent in parts of TTFT and of the time after it, ns."""
        first, tokens = ([part for part in parts if isinstance(part, of)] for of in (TTFT, TPOT))
        cost: I64 = self.latencies.ttft_parts[:, first].sum(axis=1) + self.latencies.tpot_parts[:, tokens].sum(axis=1)
        return cost

    @once
    def asked(self) -> I64:
        """The tokens of each prompt (requests,), those from the prefix cache included; 0 if unknown."""
        asked, requests = np.zeros(len(self.latencies.prompt), np.int64), self.found.service.requests
        asked[requests.rid[requests.rid >= 0]] = requests.prompt_tokens[requests.rid >= 0]
        return np.maximum(asked, self.latencies.prompt)

    @once
    def traits(self) -> dict[str, dict[str, Bools]]:
        """Who (requests,) has a value of what is said of them before they are scheduled; by key and value."""
        spans, lat = self.found.service.spans, self.latencies
        rows = np.flatnonzero(spans.rid >= 0)
        rows = rows[(lat.arrival[spans.rid[rows]] != UNKNOWN) & (spans.start[rows] <= lat.arrival[spans.rid[rows]])]
        found: dict[str, dict[str, Bools]] = {}
        for name in np.unique(spans.name[rows]).tolist():
            mine = rows[spans.name[rows] == name]
            for key, values in said_of(self.found.service, mine).items():
                kinds = found.setdefault(key, {})
                for rid, value in zip(spans.rid[mine].tolist(), values, strict=True):
                    if value is not None and len(kinds) < len(mine) // SOME:  # a name of each one is no kind
                        kinds.setdefault(str(value), np.zeros(len(lat.start), np.bool_))[rid] = True
        return found

    def trait_of(self, cost: I64) -> Trait | None:
        """What nearly all that lost most of ``cost`` (requests,) have in common and most others have not, if known."""
        rids = self.ttft.rids
        lost = cost[rids]
        much, whole = lost > lost.mean() if len(lost) else lost > 0, max(int(lost.sum()), 1)
        best: tuple[float, Trait] | None = None
        for key, kinds in self.traits.items():
            for value, of in kinds.items():
                share, part = float(of[rids].mean()), float(lost[of[rids]].sum() / whole)
                if not 0 < share <= HALF or part < NEARLY_ALL:
                    continue
                likely = chance(int((much & of[rids]).sum()), int(much.sum()), share)
                if likely <= UNSEEN and (best is None or likely < best[0]):
                    best = likely, Trait(key, value, share, part)
        return best and best[1]

    def again(self, rows: I64) -> tuple[Message, I64] | None:
        """What is said of the ranges ``rows`` of one kind that do what was done before, and what these take of cycles.

        None where hardly any do.
        """
        told = again_of(self.found, rows)
        if told is None:
            return None
        words = {"key": brief(told.key, SHORT), "again": len(told.rows), "of": len(rows), "distinct": told.distinct}
        return message("finding.service.again", **words), of_rows(self.found, told.rows, *parts_of(self.found.steps))

    def called(self, metric: Metric) -> Message:
        """What a user calls ``metric``."""
        return message(f"latency.metric.{metric.name}")

    def held(self, part: TTFT) -> I64:
        """How many requests are in each step after which the next one waits for ``part``, 0 in others."""
        return np.where(self.found.queued == part, self.found.steps.size, 0)

    def notable(self, shares: tuple[float, float]) -> bool:
        """Whether a part is more than what a healthy service has."""
        return shares[0] >= self.limits[SHARE] or shares[1] >= self.limits[TAIL_SHARE]

    def worth(self, shares: tuple[float, float], remedy: Remedy, least: float | None = None) -> bool:
        """Whether a part is a notable one of all requests, or half as large and ``remedy`` gains ``least``."""
        share: float = self.limits[SHARE]
        part = shares[0] >= LITTLE and max(shares) >= HALF * share
        return shares[0] >= share or (part and self.gains(remedy, least))

    @once
    def modes(self) -> I64:
        """How each pass runs, ``GRAPH_PASS`` or ``EAGER_PASS``; ``UNKNOWN`` where no range says so."""
        return modes_of(self.found)

    @once
    def uncaptured(self) -> int:
        """How many passes that only decode run no graph, where nearly all of those that are known do not; else 0."""
        modes = self.modes[(self.found.steps.work == Work.decode) & (self.modes != UNKNOWN)]
        eager = int((modes == EAGER_PASS).sum())
        return eager if eager >= max(FEWEST, (1 - LITTLE) * len(modes)) else 0

    @once
    def captured(self) -> int:
        """The most requests of a pass that only decodes with a graph, where all larger ones have none; else 0."""
        steps = self.found.steps
        alone = (steps.work == Work.decode) & (self.modes != UNKNOWN)
        size, eager = steps.size[alone], self.modes[alone] == EAGER_PASS
        if not eager.any() or eager.all():
            return 0
        largest = int(size[~eager].max())
        return largest if (size[eager] > largest).mean() >= 1 - LITTLE else 0

    @property
    def slower(self) -> Slower | None:
        """Since when the model is slower, or until when it was; None where it is not, or the batch size explains it."""
        found, sizes = self._slow, self.filled or self.jump
        return None if found is None or (sizes is not None and sizes.away < found.away) else found

    @once
    def _slow(self) -> Slower | None:
        found = slower_since(self.found, self.telling)
        if found is None:
            return None
        if found.factor > 1:
            return found if self.limits[SLOWER] <= found.factor < SLOWEST else None
        warms = not found.is_slow and found.away <= HALF * found.smooth
        return found if warms and self.limits[SLOWER] <= 1 / found.factor < SLOWEST else None

    @once
    def _rise(self) -> Jump | None:
        found = jump_in(self.found, self.telling, self.captured)
        return found if found is not None and self.limits[SLOWER] <= found.factor < SLOWEST else None

    @property
    def jump(self) -> Jump | None:
        """The batch size above which steps suddenly get slower; None without one, or if batches are padded."""
        return self._rise if self.filled is None else None

    @once
    def filled(self) -> Filled | None:
        """The cost of batches that are padded to a large size; None if they are not known to be.

        Graphs for up to ``_FEW`` requests may exist: times rise above them to those of the large size.
        """
        if self.uncaptured or (self._rise is not None and self._rise.size > _FEW):
            return None
        tried = (filled_in(self.found, self.telling, above) for above in range(_FEW + 1))
        found = next((one for one in tried if one is not None), None)
        others = (one.away for one in (self._slow, self._least) if one is not None)
        return found if found and found.away < min(others, default=math.inf) else None

    @once
    def floor(self) -> Floor | None:
        """The least time of forward passes, where neither a moment nor the size of batches explains their times."""
        return None if self.slower or self.jump or self.filled else self._least

    @once
    def _least(self) -> Floor | None:
        return floor_in(self.found, self.telling)

    @once
    def padded(self) -> Padded | None:
        """What passes cost where each request has the longest context, where nothing else tells their times."""
        return None if self.slower or self.jump or self.filled or self.floor else padded_in(self.found, self.telling)

    @property
    def telling(self) -> I64:
        """The steps that show what passes cost: in lockstep only those for which the others wait."""
        return self.found.serving if self.lockstep is None else self.lockstep.leading

    @once
    def lockstep(self) -> Lockstep | None:
        """How engines step that begin together."""
        return lockstep_of(self.found)

    @once
    def sampling(self) -> Sampling | None:
        """What sampling grows with, where that is more than the size of the batch and no moment stops the host."""
        return None if self.stops else sampling_of(self.found)

    @once
    def tokenizing(self) -> tuple[I64, I64, I64]:
        """When the tokenizer worked, and on which requests: the start, the end (ns) and the rid of each range."""
        begin, end, rid = self.ranges(TOKENIZERS)
        return begin[rid >= 0], end[rid >= 0], rid[rid >= 0]

    def ranges(self, names: tuple[str, ...]) -> tuple[I64, I64, I64]:
        """The ranges with one of ``names`` in lower case: start and end (ns), and the rid, below 0 without one."""
        spans, texts = self.found.service.spans, self.found.service.texts
        rows = np.flatnonzero(np.isin(spans.name, [code for code, text in enumerate(texts) if text.lower() in names]))
        return spans.start[rows], spans.end[rows], spans.rid[rows].astype(np.int64)

    @property
    def holds(self) -> bool:
        """Whether requests wait although there is room for them."""
        return self.knows_blocks and self.notable(self.ttft.share(TTFT.queue_other))

    @once
    def figures(self) -> dict[str, float]:
        """TTFT and TPOT as recorded at some percentiles (ns), and tokens a second; NaN if unknown."""
        return recorded(self.found).figures()

    def better(self, now: dict[str, float], then: dict[str, float] | None) -> float:
        """How much better ``then`` is than ``now``: the best share of a recorded figure, less the worst one.

        A shorter total time of requests counts, whatever becomes of single latencies.
        """
        if then is None:
            return 0.0
        names = known(now, then, self.figures, of=TOLD)
        shares = {name: (now[name] - then[name]) / self.figures[name] for name in names}
        whole = shares.get("e2e_mean", 0.0)
        of_one = [share for name, share in shares.items() if name in FIGURES]
        return max(max(of_one) + min(*of_one, 0.0), whole) if of_one else 0.0

    def most(self, now: dict[str, float], then: dict[str, float] | None) -> float:
        """The best share by which a figure of ``then`` is better than ``now``, whatever becomes of the others."""
        return max((1 - then[name] / now[name] for name in known(now, then)), default=0.0) if then else 0.0

    def gains(self, remedy: Remedy, least: float | None = None) -> bool:
        """Whether ``remedy`` makes a figure better by a notable share, or by ``least``."""
        return self.most(self.figures, self.after(remedy)) >= (self.limits[SHARE] if least is None else least)

    def gives(self, remedy: Remedy) -> float:
        """The share of TTFT or TPOT (means, the larger share) that ``remedy`` saves in the replay, trusted or not."""
        if self.model is None:
            return 0.0
        now, then = self._figures_of(self.model), replayed(remedy(self.model)).figures()
        return max((1 - then[name] / now[name] for name in ("ttft_mean", "tpot_mean") if now[name] > 0), default=0.0)

    def changes(self, then: dict[str, float]) -> list[Message]:
        """The figure that gains most, others of its latency, then others that change; each before and after."""
        now, best = self.figures, most_saved(self.figures, then)
        names = known(now, then, of=TOLD)
        own = [name for name in names if name.startswith(best[:4]) and name != best]
        others = [
            name for name in names if name not in (best, *own) and abs(1 - then[name] / now[name])
            >= (LITTLE if name.endswith("mean") or name.startswith("itl") else self.limits[SHARE])
        ]  # fmt: skip
        return [
            message("finding.service.change", figure=message(f"service.figure.{name}"), now=now[name], then=then[name])
            for name in (best, *own, *others)
        ]

    def freed(self, time: I64) -> Remedy | None:
        """A remedy that takes ``time`` out of each part of the cycle of steps, (steps, 7); None without a replay."""
        if self.model is None:
            return None
        other = ServiceFacts(freed(self.found, time), self.limits).built
        return None if other is None else partial(taken_out, self.model, other)

    @once
    def stops(self) -> Stops | None:
        """When the host stands still in every period."""
        return stops_of(self.found, self.tokenizing[1])

    @once
    def grown(self) -> tuple[Grown, ...]:
        """What the host takes longer for over the run; nothing where a rhythm of its own stops it."""
        return () if self.stops else grown_of(self.found)

    @property
    def built(self) -> ServiceModel | None:
        """The model of the service, whether it comes out as recorded or not."""
        jump = None if self.slower else self.jump
        found = freed(self.found, over_all(self.found, self.grown)) if self.grown else self.found
        model = model_of(found, self.slower, self.holds, jump, self.filled, self.sampling, self.floor)
        if model is not None and self.padded is not None:
            cost = {True: self.padded.cost}
            engines = (
                replace(one, cost=cost.get(serves, one.cost), padded=bool(serves))
                for one, serves in zip(model.engines, self.found.serves.tolist(), strict=True)
            )
            model = replace(model, engines=tuple(engines))
        return model and with_engines(model, grows=tuple((one.since, one.until, one.more) for one in self.grown))

    @once
    def replay(self) -> tuple[ServiceModel, list[str]] | None:
        """The model of the service, and the figures that come out as recorded; None where none does."""
        model = self.built
        if model is None:
            return None
        found = model, self._faithful(model)
        others = [with_engines(model, whole=True)] if any(engine.blocks < MANY for engine in model.engines) else []
        waits = self.latencies.ttft_parts[model.rids]  # each as long as it was held back, not all alike
        if self.holds or self.ttft.share(TTFT.queue_other)[1] >= HALF * self.limits[TAIL_SHARE]:
            others.append(replace(model, held=waits[:, TTFT.queue_other]))
        if self.holds:
            others.append(replace(model, held=waits[:, TTFT.queue_step : TTFT.queue_other + 1].sum(axis=1)))
        for other in others:
            if len(found[1]) < len(known(self.figures, of=TOLD)):
                found = max(found, (other, self._faithful(other)), key=lambda one: len(one[1]))
        return found if found[1] else None

    def _figures_of(self, model: ServiceModel) -> dict[str, float]:
        """The figures of ``model``; replayed once where it is asked of again before another."""
        if self._unchanged is None or self._unchanged[0] is not model:
            self._unchanged = model, replayed(model).figures()
        return self._unchanged[1]

    def _faithful(self, model: ServiceModel) -> list[str]:
        served, real = self._figures_of(model), self.figures
        return [name for name in TOLD if real[name] > 0 and abs(served[name] / real[name] - 1) <= FAITHFUL]

    def _outweighs(self, name: str, then: float) -> bool:
        """Whether ``then`` is better than recorded by twice of what the unchanged replay is off."""
        return self._off[name] <= HALF * (self.figures[name] - then)

    @once
    def _off(self) -> dict[str, float]:
        """How far the figures of the unchanged replay are from the recorded ones, ns."""
        served = self._figures_of(self.model) if self.model is not None else {}
        return {name: abs(told - self.figures[name]) for name, told in served.items()}

    @property
    def model(self) -> ServiceModel | None:
        """The model that the replay runs; None without a replay."""
        return None if self.replay is None else self.replay[0]

    def after(self, *remedies: Remedy) -> dict[str, float] | None:
        """The figures of the service with ``remedies``, NaN where unknown; None where it cannot be replayed."""
        if self.replay is not None and remedies not in self._after:
            model, faithful = self.replay
            for remedy in remedies:
                model = remedy(model)
            served = replayed(model)
            figures = {
                name: told if name in faithful or self._outweighs(name, told) else math.nan
                for name, told in served.figures().items()
            }
            self._after[remedies] = figures if served.complete and known(figures, of=TOLD) else None
        return self._after.get(remedies)


def chance(found: int, every: int, share: float) -> float:
    """How likely ``found`` and more of ``every`` pair are among a ``share`` of all pairs."""
    terms = (
        math.lgamma(every + 1) - math.lgamma(k + 1) - math.lgamma(every - k + 1)
        + k * math.log(share) + (every - k) * math.log1p(-share)
        for k in range(found, every + 1)
    )  # fmt: skip
    return sum(map(math.exp, terms))


def known(*figures: dict[str, float], of: tuple[str, ...] = FIGURES) -> list[str]:
    """Which figures of ``of`` all of ``figures`` know."""
    return [name for name in of if all(one[name] > 0 for one in figures)]


def most_saved(now: dict[str, float], then: dict[str, float]) -> str:
    """The percentile with the largest relative gain from ``now`` to ``then``; a mean where it gains twice as much."""
    gains = {name: 1 - then[name] / now[name] for name in known(now, then) or known(now, then, of=TOLD)}
    shares = [name for name in gains if "mean" not in name]
    best = max(shares or gains, key=lambda name: gains[name], default="ttft_p50")
    mean = max((name for name in gains if "mean" in name), key=lambda name: gains[name], default=best)
    return mean if gains.get(mean, 0.0) * HALF > gains.get(best, 0.0) else best
