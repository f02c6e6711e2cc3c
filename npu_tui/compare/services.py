"""Two inference services: is their load alike, and which latencies changed by how much."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.service_latency import TPOT, TTFT
from npu_tui.analysis.service_replay import fitted, work_of
from npu_tui.analysis.service_steps import F
from npu_tui.rules.service_verdict import Judged

F64 = npt.NDArray[np.float64]

ALIKE = 0.1
"""How far rates and mean lengths of requests may be apart where loads are alike."""
_NOISE = 0.02
_RESAMPLED = 200
_FEWEST = 30
PERCENTILES = 50, 90, 99
Change = Literal["slower", "faster", "same", "unsure"]


class Load(Struct, frozen=True):
    """What a service was asked for: requests, how many a second, mean tokens of prompts (computed) and answers."""

    requests: int
    rate: float
    prompt: float
    answer: float


class FigureChange(Struct, frozen=True):
    """A percentile of TTFT or TPOT on both sides (ns), and the range of its difference (95%)."""

    figure: str
    base: float
    new: float
    low: float
    high: float
    change: Change


class PartChange(Struct, frozen=True):
    """A part of TTFT (of a request) or TPOT (of a token) on both sides, means in ns."""

    metric: str
    part: str
    base: float
    new: float


class ServiceComparison(Struct, frozen=True):
    """Two services. ``forward`` is how much longer the new one computes the same work (None: too few steps)."""

    base: Load
    new: Load
    unlike: list[str]
    figures: list[FigureChange]
    parts: list[PartChange]
    forward: float | None


def compare_services(base: Judged, new: Judged) -> ServiceComparison:
    """``new`` against ``base``; the unlike parts of their loads are fields of ``Load``."""
    loads = [_load(side) for side in (base, new)]
    apart = {name: (getattr(loads[0], name), getattr(loads[1], name)) for name in ("rate", "prompt", "answer")}
    unlike = [name for name, (one, other) in apart.items() if not abs(other - one) <= ALIKE * max(one, other)]
    figures, parts = [], []
    for metric, names in (("ttft", TTFT), ("tpot", TPOT)):
        (one, of_one), (other, of_other) = (_values(side, metric) for side in (base, new))
        if len(one) and len(other):
            figures += [_change(f"{metric}_p{share}", share, one, other) for share in PERCENTILES]
            parts += [
                PartChange(metric, part, float(before), float(after))
                for part, before, after in zip(names, of_one, of_other, strict=True)
                if before or after
            ]
    return ServiceComparison(loads[0], loads[1], unlike, figures, parts, _forward(base, new))


def _load(side: Judged) -> Load:
    lat, requests = side.found.latencies, side.found.latencies.answered
    if len(requests) < 2:
        return Load(len(requests), float("nan"), float("nan"), float("nan"))
    span = (int(lat.start[requests].max()) - int(lat.start[requests].min())) / 1e9
    tokens = lat.tokens[requests]
    answer = float(tokens[tokens > 0].mean()) if (tokens > 0).any() else float("nan")
    return Load(len(requests), (len(requests) - 1) / max(span, 1e-9), float(lat.prompt[requests].mean()), answer)


def _values(side: Judged, metric: str) -> tuple[F64, F64]:
    """The latencies of all requests, and the means of their parts."""
    lat = side.found.latencies
    if metric == "ttft":
        rids = lat.answered
        return lat.ttft[rids].astype(np.float64), lat.ttft_parts[rids].sum(axis=0) / max(len(rids), 1)
    rids = lat.decoded
    per = (lat.tpot_parts[rids] / np.maximum(lat.tokens[rids] - 1, 1)[:, None]).sum(axis=0) / max(len(rids), 1)
    return lat.per_token(rids), per


def _change(figure: str, share: int, base: F64, new: F64) -> FigureChange:
    """The change of a percentile; its range is that of resampled requests."""
    random = np.random.default_rng(0)
    drawn = [
        np.array([np.percentile(random.choice(side, len(side)), share) for _ in range(_RESAMPLED)])
        for side in (base, new)
    ]
    low, high = np.percentile(drawn[1] - drawn[0], (2.5, 97.5)).tolist()
    before, after = float(np.percentile(base, share)), float(np.percentile(new, share))
    small = _NOISE * before
    change: Change = "unsure"
    if low > 0 and after - before > small:
        change = "slower"
    elif high < 0 and before - after > small:
        change = "faster"
    elif max(abs(low), abs(high)) <= max(small, ALIKE * before):
        change = "same"
    return FigureChange(figure, before, after, low, high, change)


def _forward(base: Judged, new: Judged) -> float | None:
    """How much longer a forward pass of the new service takes for the same tokens and context."""
    sides = []
    for side in (base, new):
        found = side.found
        decode = np.array([not engine.prefills for engine in found.engines] or [False])
        steps = found.steps
        mine = np.flatnonzero(decode[steps.engine] & (steps.size > 0)) if len(steps) else np.zeros(0, np.int64)
        if len(mine) < _FEWEST:
            return None
        sides.append((work_of(found)[mine], steps.cycle[mine, F]))
    (work, time), (new_work, new_time) = sides
    expected = np.maximum(fitted(work, time).of(new_work), 1)
    return float(np.median(new_time / expected)) - 1
