"""Two inference services: is their load alike, and which latencies changed by how much."""

from __future__ import annotations

from typing import Literal

import numpy as np
from msgspec import Struct

from npu_tui.analysis.service_cost import fitted, work_of
from npu_tui.profile.table import us
from npu_tui.rules.service_verdict import JudgedService
from npu_tui.trace.arrays import F64

ALIKE = 0.1
"""How far rates and mean lengths of requests may be apart where loads are alike."""
LOAD = {"rate": "requests_per_s", "prompt": "prompt_tokens", "answer": "output_tokens"}
"""What is held against it, and which field of a load it is."""
_NOISE = 0.02
_RESAMPLED = 200
_FEWEST = 30
PERCENTILES = 50, 90, 99
Change = Literal["slower", "faster", "same", "unsure"]


class LoadRow(Struct, frozen=True, kw_only=True):
    """What one service was asked for; means of tokens are of computed prompts and of answers, null is unknown."""

    path: str
    requests: int
    requests_per_s: float | None
    prompt_tokens: float | None
    output_tokens: float | None
    tokens_per_s: float | None


class FigureRow(Struct, frozen=True, kw_only=True):
    """A percentile of TTFT or TPOT on both sides; ``low_us`` and ``high_us`` hold its difference with 95%."""

    figure: str
    base_us: float
    new_us: float
    delta_us: float
    low_us: float
    high_us: float
    verdict: str


class PartRow(Struct, frozen=True, kw_only=True):
    """The mean of a part of TTFT (a request) or TPOT (a token); those of a metric add up to its mean."""

    metric: str
    part: str
    base_us: float
    new_us: float
    delta_us: float


def load_of(side: JudgedService, path: str) -> LoadRow:
    """What the service at ``path`` was asked for."""
    lat, requests = side.found.latencies, side.found.latencies.answered
    start, tokens = lat.start[requests], lat.tokens[requests]
    means = dict.fromkeys(LOAD.values(), float("nan")) | {"tokens_per_s": side.figures["tokens_per_s"]}
    if len(requests) > 1:
        means["requests_per_s"] = (len(requests) - 1) / max(int(start.max() - start.min()) / 1e9, 1e-9)
        means["prompt_tokens"] = float(lat.prompt[requests].mean())
        means["output_tokens"] = float(tokens[tokens > 0].mean()) if (tokens > 0).any() else float("nan")
    known = {name: None if mean != mean else round(mean, 3) for name, mean in means.items()}
    return LoadRow(path=path, requests=len(requests), **known)


def unlike_in(base: LoadRow, new: LoadRow) -> list[str]:
    """What of two loads is not alike, or not known."""
    pairs = ((name, getattr(base, field), getattr(new, field)) for name, field in LOAD.items())
    return [name for name, *sides in pairs if None in sides or abs(sides[1] - sides[0]) > ALIKE * max(sides)]


def latency_changes(base: JudgedService, new: JudgedService) -> tuple[list[FigureRow], list[PartRow]]:
    """How the percentiles of TTFT and TPOT changed, and the means of their parts."""
    figures, parts = [], []
    for one, other in zip(base.found.latencies.metrics, new.found.latencies.metrics, strict=True):
        if len(one.rids) and len(other.rids):
            figures += [_change(f"{one.name}_p{share}", share, one.values, other.values) for share in PERCENTILES]
            means = ((side.parts / side.weight[:, None]).mean(axis=0) for side in (one, other))
            parts += [
                PartRow(metric=one.name, part=part, base_us=us(old), new_us=us(now), delta_us=us(now - old))
                for part, old, now in zip(one.names, *means, strict=True)
                if old or now
            ]
    return figures, parts


def _change(figure: str, share: int, base: F64, new: F64) -> FigureRow:
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
    return FigureRow(
        figure=figure, base_us=us(before), new_us=us(after), delta_us=us(after - before), low_us=us(low),
        high_us=us(high), verdict=change,
    )  # fmt: skip


def forward_change(base: JudgedService, new: JudgedService) -> float | None:
    """How much longer a forward pass of the new service takes for the same tokens and context; None: too few steps."""
    sides = []
    for side in (base, new):
        mine = side.found.serving
        if len(mine) < _FEWEST:
            return None
        sides.append((work_of(side.found)[mine], side.found.steps.forward[mine]))
    (work, time), (new_work, new_time) = sides
    expected = np.maximum(fitted(work, time).of(new_work), 1)
    return round(float(np.median(new_time / expected)) - 1, 6)
