"""Two inference services: whether their load is alike, which latencies changed, and how far."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from npu_tui.analysis.limits import EVEN
from npu_tui.analysis.service_cost import FEWEST, fitted, work_of
from npu_tui.analysis.service_timeline import Metric
from npu_tui.analysis.statistics import Verdict
from npu_tui.profile.table import Column, TableSheet, columns, from_tuples, table
from npu_tui.rules.service_verdict import JudgedService
from npu_tui.trace.arrays import F64

ALIKE = 0.1
"""How far rates and mean lengths of requests may be apart where loads are alike."""
LOAD = {"rate": "requests_per_s", "prompt": "prompt_tokens", "answer": "output_tokens"}
"""What is held against it, and which field of a load it is."""
_RESAMPLED = 200  # draws: five of them lie beyond each end of a range of 95 %
PERCENTILES = 50, 90, 99


class LoadRow(Struct, frozen=True, kw_only=True):
    """What one service was asked for; means of tokens are of computed prompts and of answers, null is unknown."""

    path: str
    requests: int
    requests_per_s: float | None
    prompt_tokens: float | None
    output_tokens: float | None
    tokens_per_s: float | None


_OWN: dict[str, Column] = {
    **columns("real", "ns", "time", "time_base time_new low high"),
    **columns("real", "ns", "change", "time_delta"),
    **columns("label", "", "word", "figure", "service.figure"),
    **columns("label", "", "word", "verdict", "compare.service.word"),
    **columns("label", "", "word", "metric", "latency.metric"),
    **columns("label", "", "word", "part", "latency.part"),
}


def load_of(side: JudgedService, path: str) -> LoadRow:
    """What the service at ``path`` was asked for."""
    lat, requests = side.found.latencies, side.found.latencies.answered
    start, tokens = lat.start[requests], lat.tokens[requests]
    means = dict.fromkeys(LOAD.values(), float("nan")) | {"tokens_per_s": side.figures["tokens_per_s"]}
    if len(requests) > 1:
        means["requests_per_s"] = (len(requests) - 1) / max(int(start.max() - start.min()) / 1e9, 1e-9)
        for name, counts in (("prompt_tokens", lat.prompt[requests]), ("output_tokens", tokens)):
            means[name] = float(counts[counts > 0].mean()) if (counts > 0).any() else float("nan")
    known = {name: None if mean != mean else round(mean, 3) for name, mean in means.items()}
    return LoadRow(path=path, requests=len(requests), **known)


def unlike_in(base: LoadRow, new: LoadRow) -> list[str]:
    """What of two loads is not alike, or not known."""
    pairs = ((name, getattr(base, field), getattr(new, field)) for name, field in LOAD.items())
    return [name for name, *sides in pairs if None in sides or abs(sides[1] - sides[0]) > ALIKE * max(sides)]


def latencies(sides: tuple[JudgedService, JudgedService]) -> TableSheet:
    """How the percentiles of TTFT, TPOT and the time to the end of the answer changed."""
    base, new = ([*side.found.latencies.metrics, side.found.latencies.end_to_end] for side in sides)
    rows = [
        (f"{one.name}_p{share}", *_change(share, one.values, other.values))
        for one, other in zip(base, new, strict=True)
        for share in (PERCENTILES if len(one.rids) and len(other.rids) else ())
    ]
    return from_tuples(rows, "figure time_base time_new time_delta low high verdict", _OWN)


LATENCIES = table(
    "latency",
    latencies,
    json="figure base=time_base new=time_new delta=time_delta low high verdict",
    page="metric=figure base=time_base new=time_new difference=time_delta verdict",
    row="FigureRow",
    about="""A percentile of TTFT, TPOT or E2E of both; ``low_us`` and ``high_us`` hold its difference with 95%.""",
    own=_OWN,
)


def latency_parts(sides: tuple[JudgedService, JudgedService]) -> TableSheet:
    """How the means of what TTFT and TPOT are made of changed."""
    rows = []
    for base, new in _metrics(sides):
        means = ((side.parts / side.weight[:, None]).mean(axis=0).tolist() for side in (base, new))
        rows += [
            (base.name, part, before, after, after - before)
            for part, before, after in zip(base.names, *means, strict=True)
            if before or after
        ]
    return from_tuples(rows, "metric part time_base time_new time_delta", _OWN)


LATENCY_PARTS = table(
    "latency_parts",
    latency_parts,
    json="metric part base=time_base new=time_new delta=time_delta",
    page="metric part base=time_base new=time_new difference=time_delta",
    row="PartRow",
    about="The mean of a part of TTFT (a request) or TPOT (a token); those of a metric add up to its mean.",
    own=_OWN,
)


def _metrics(sides: tuple[JudgedService, JudgedService]) -> Iterator[tuple[Metric, Metric]]:
    """TTFT and TPOT of base and new in pairs; one that either side did not measure is left out."""
    base, new = (side.found.latencies.metrics for side in sides)
    return ((one, other) for one, other in zip(base, new, strict=True) if len(one.rids) and len(other.rids))


def _change(share: int, base: F64, new: F64) -> tuple[float, float, float, float, float, Verdict]:
    """A percentile of both sides, ns, its difference, the range of that in resampled requests, and the verdict."""
    random = np.random.default_rng(0)
    drawn = [
        np.array([np.percentile(random.choice(side, len(side)), share) for _ in range(_RESAMPLED)])
        for side in (base, new)
    ]
    low, high = np.percentile(drawn[1] - drawn[0], (2.5, 97.5)).tolist()
    before, after = float(np.percentile(base, share)), float(np.percentile(new, share))
    small = EVEN * before
    verdict: Verdict = "unsure"
    if low > 0 and after - before > small:
        verdict = "slower"
    elif high < 0 and before - after > small:
        verdict = "faster"
    elif max(abs(low), abs(high)) <= max(small, ALIKE * before):
        verdict = "same"
    return before, after, after - before, low, high, verdict


def forward_change(base: JudgedService, new: JudgedService) -> float | None:
    """How much longer a forward pass of the new service takes for the same tokens and context; None: too few steps."""
    sides = []
    for side in (base, new):
        mine = side.found.serving
        if len(mine) < FEWEST:
            return None
        sides.append((work_of(side.found)[mine], side.found.steps.forward[mine]))
    (work, time), (new_work, new_time) = sides
    expected = np.maximum(fitted(work, time).of(new_work), 1)
    return round(float(np.median(new_time / expected)) - 1, 6)
