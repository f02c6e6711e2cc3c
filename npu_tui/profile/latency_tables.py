"""Tables of an inference service about time: its latencies, their parts, every request, every engine."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any

import numpy as np

from npu_tui.analysis.service_steps import Cycle, Steps, Work
from npu_tui.analysis.service_timeline import TPOT, TTFT, Latencies
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import (
    Array,
    Data,
    Table,
    TableSheet,
    coded,
    columns,
    from_tuples,
    numbers,
    table,
)
from npu_tui.rules.service_verdict import JudgedService
from npu_tui.trace.service import UNKNOWN, minus

_TTFT = [f"ttft_{part.name}" for part in TTFT]
_TPOT = [f"tpot_{part.name}" for part in TPOT]
_WORK = [*Work.__members__]
_CYCLE = [part.name for part in Cycle if part != Cycle.forward]
_OWN = {
    **columns("whole", "", "count", "requests tokens prompt turns steps"),
    **columns("whole", "", "id", "engine dp_rank"),
    **columns("whole", "ns", "time", " ".join((*_TTFT, *_TPOT, *_WORK, *_CYCLE))),
    **columns("whole", "ns", "time", "ttft decoding wall per_token p50 p90 p99 middle slowest longest"),
    **columns("real", "0..1", "share", "slowest_share"),
    **columns("real", "", "mean_count", "tokens_per_s"),
    **columns("flag", "", "word", "complete"),
    **columns("label", "", "word", "part ttft_most tpot_most", "latency.part"),
    **columns("label", "", "word", "metric", "latency.metric"),
    **columns("label", "", "name", "rid"),
}


_ENGINE = f"engine dp_rank steps wall {' '.join(_WORK)} {' '.join(_CYCLE)}"


def latency(judged: JudgedService, profile: Profile) -> TableSheet:
    """TTFT, TPOT and the time to the end of the answer of a service."""
    rows = []
    for metric in (*judged.found.latencies.metrics, judged.found.latencies.end_to_end):
        values = metric.values
        if len(values):
            shares = np.rint(np.percentile(values, (50, 90, 99, 100))).astype(np.int64).tolist()
            rows.append((metric.name, len(values), float(values.mean()), *shares))
    return from_tuples(rows, "metric requests mean p50 p90 p99 longest", _OWN)


def latency_parts(judged: JudgedService, profile: Profile) -> TableSheet:
    """What TTFT and TPOT consist of: all requests, those around the median, the slowest tenth."""
    rows = []
    for metric in judged.found.latencies.metrics:
        order, n = np.argsort(metric.values, kind="stable"), len(metric.rids)
        groups = order, order[int(n * 0.45) : max(int(np.ceil(n * 0.55)), 1)], order[n - max(n // 10, 1) :]
        sums = [metric.parts[group].sum(axis=0) for group in groups] if n else []
        for place, part in enumerate(metric.names):
            if n and sums[0][place]:
                means = [
                    float(total[place] / metric.weight[group].sum()) for total, group in zip(sums, groups, strict=True)
                ]
                shares = [float(total[place] / max(total.sum(), 1)) for total in sums]
                rows.append(
                    (metric.name, part, int(sums[0][place]), shares[0], means[0], *map(round, means[1:]), shares[2])
                )
    return from_tuples(rows, "metric part total share mean middle slowest slowest_share", _OWN)


def latencies(judged: JudgedService, profile: Profile) -> TableSheet:
    """Every request: when it got its first token, how long each of the others took, and where that time went."""
    found, lat = judged.found, judged.found.latencies
    kept = np.flatnonzero((lat.ttft != UNKNOWN) | (lat.first >= 0))
    kept = kept[np.argsort(-np.where(lat.ttft == UNKNOWN, -1, lat.ttft)[kept], kind="stable")]
    tokens, decoding = lat.tokens[kept], lat.tpot[kept]
    several = (decoding != UNKNOWN) & (tokens > 1)
    each = np.where(several, np.rint(decoding / np.maximum(tokens - 1, 1)).astype(np.int64), UNKNOWN)
    data: dict[str, Data] = {
        "rid": coded(found.service.rids, kept),
        "engine": numbers(lat.engine[kept], -1),
        "start": numbers(minus(lat.start[kept], np.int64(profile.trace.start_ns)), UNKNOWN),
        "ttft": numbers(lat.ttft[kept], UNKNOWN),
        "decoding": numbers(decoding, UNKNOWN),
        "per_token": numbers(each, UNKNOWN),
        "tokens": numbers(tokens, UNKNOWN),
        "prompt": numbers(lat.prompt[kept], UNKNOWN),
        "turns": numbers(lat.turns[kept]),
        "complete": numbers(lat.complete[kept]),
        "ttft_most": _largest_part(lat.ttft_parts[kept], TTFT, lat.ttft[kept] != UNKNOWN),
        "tpot_most": _largest_part(lat.tpot_parts[kept], TPOT, several),
    }
    for names, parts, known in ((_TTFT, lat.ttft_parts, lat.ttft), (_TPOT, lat.tpot_parts, lat.tpot)):
        for place, name in enumerate(names):
            data[name] = numbers(np.where(known[kept] == UNKNOWN, UNKNOWN, parts[kept, place]), UNKNOWN)
    return TableSheet(len(kept), data)


def _largest_part(parts: Array, names: type[IntEnum], known: Array) -> Data:
    """The largest part of each row."""
    return coded([*names.__members__], np.where(known, parts.argmax(axis=1), -1))


def service_engines(judged: JudgedService, profile: Profile) -> TableSheet:
    """What the time of every engine went to."""
    steps = judged.found.steps
    rows = [
        (number, engine.rank, *_engine(steps, judged.found.latencies, number))
        for number, engine in enumerate(judged.found.engines)
    ]
    return from_tuples(rows, f"{_ENGINE} tokens tokens_per_s", _OWN)


def _engine(steps: Steps, lat: Latencies, number: int) -> list[int | float | None]:
    part = steps.of(number)
    cycle, work = steps.cycle[part], steps.work[part]
    wall, forward = int(cycle.sum()), np.bincount(work, cycle[:, Cycle.forward], len(Work)).astype(np.int64).tolist()
    others = [int(cycle[:, place].sum()) for place in Cycle if place != Cycle.forward]
    mine = lat.answered[lat.engine[lat.answered] == number]
    tokens = int(lat.tokens[mine].clip(0).sum())
    told = bool(wall) and bool((lat.tokens[mine] != UNKNOWN).any())
    return [len(work), wall, *forward, *others, tokens, tokens / wall * 1e9 if told else None]


def _table(make: Callable[[JudgedService, Profile], TableSheet], sql: str, json: str = "", **views: Any) -> Table:
    """The table that ``make`` makes of a service, called like it; ``json`` is as ``sql`` where it is empty."""

    def sheet(profile: Profile) -> TableSheet:
        judged = profile.judged
        return make(judged, profile) if isinstance(judged, JudgedService) else TableSheet(0, {})

    return table(make.__name__, sheet, sql=sql, json=json or sql, own=_OWN, **views)


LATENCY = _table(
    latency,
    sql="metric requests mean p50 p90 p99 longest",
    page="metric requests average=mean p50 p90 p99 longest",
    section="latency",
    row="LatencyRow",
    about="TTFT, TPOT or E2E (to the end of the answer) of the complete requests; percentiles are numpy's ``linear``.",
)
LATENCY_PARTS = _table(
    latency_parts,
    sql="metric part total share mean middle slowest slowest_share",
    page="metric part share average=mean middle slowest slowest_share",
    section="latency_parts",
    row="LatencyPartRow",
    about="""A part of TTFT or TPOT: ``total`` of all complete requests, the parts of one metric add up to it.

    ``mean`` is for a request (TTFT) or a token (TPOT), ``middle`` for the tenth around the median, ``slowest`` for the
    slowest tenth.
    """,
)
SERVICE_ENGINES = _table(
    service_engines,
    sql=f"{_ENGINE} tokens tokens_per_s",
    json=f"{_ENGINE.replace('dp_rank', 'dp_rank?')} tokens tokens_per_s?",
    page=f"{_ENGINE.replace('bubble', 'bubbles=bubble').replace('idle', 'no_request=idle')} tokens_per_s",
    section="service_engines",
    row="ServiceEngineRow",
    about="What the time of an engine went to, from its first schedule on; forward passes by what they hold.",
)
_REQUEST = "rid engine start ttft per_token decoding tokens prompt turns complete ttft_most tpot_most"
LATENCIES = _table(
    latencies,
    sql=f"{_REQUEST} {' '.join(_TTFT)} {' '.join(_TPOT)}",
    json="rid engine? start? ttft? per_token? decoding? tokens? prompt? turns complete ttft_most? tpot_most? "
    + " ".join(f"{name}?" for name in (*_TTFT, *_TPOT)),
    page="rid start ttft ttft_most per_token tpot_most prompt_tokens=prompt output_tokens=tokens",
    section="latencies",
    longest="ttft",
    row="RequestLatencyRow",
    about="A request, the slowest first; ``ttft_*`` add up to ``ttft_us``, ``tpot_*`` to ``decoding_us``, exactly.",
)
