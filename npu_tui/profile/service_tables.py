"""The tables of an inference service: latencies and their parts, requests, batches, forward passes, KV blocks."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.device import EVERYTHING
from npu_tui.analysis.service_steps import Cycle, Steps, Work
from npu_tui.analysis.service_timeline import TPOT, TTFT, Latencies
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import (
    Array,
    Column,
    Data,
    Kind,
    Span,
    Table,
    TableSheet,
    coded,
    columns,
    from_tuples,
    numbers,
    table,
)
from npu_tui.rules.service_verdict import JudgedService
from npu_tui.strings import say
from npu_tui.trace.service import MOMENTS, NUMBERED, TABLES, UNKNOWN, Service, columns_of, minus

_TTFT = [f"ttft_{part.name}" for part in TTFT]
_TPOT = [f"tpot_{part.name}" for part in TPOT]
_WORK = [*Work.__members__]
_CYCLE = [part.name for part in Cycle if part != Cycle.forward]
_OF_LATENCY = {
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
    return from_tuples(rows, "metric requests mean p50 p90 p99 longest", _OF_LATENCY)


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
    return from_tuples(rows, "metric part total share mean middle slowest slowest_share", _OF_LATENCY)


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


def service_about(requests: int, batches: int, engines: int) -> str:
    """What there is of a service; before its engines are known, or where no table tells of them, its requests alone.

    A batch is a step of an engine: its schedule, and its execution on each worker, are rows of ``batches``.
    """
    key = "service.about" if engines else "service.about.requests"
    return say(key, requests=requests, batches=batches, engines=engines)


def service_engines(judged: JudgedService, profile: Profile) -> TableSheet:
    """What the time of every engine went to."""
    steps = judged.found.steps
    rows = [
        (number, engine.rank, *_engine(steps, judged.found.latencies, number))
        for number, engine in enumerate(judged.found.engines)
    ]
    return from_tuples(rows, f"{_ENGINE} tokens tokens_per_s", _OF_LATENCY)


def _engine(steps: Steps, lat: Latencies, number: int) -> list[int | float | None]:
    part = steps.of(number)
    cycle, work = steps.cycle[part], steps.work[part]
    wall, forward = int(cycle.sum()), np.bincount(work, cycle[:, Cycle.forward], len(Work)).astype(np.int64).tolist()
    others = [int(cycle[:, place].sum()) for place in Cycle if place != Cycle.forward]
    mine = lat.answered[lat.engine[lat.answered] == number]
    tokens = int(lat.tokens[mine].clip(0).sum())
    told = bool(wall) and bool((lat.tokens[mine] != UNKNOWN).any())
    return [len(work), wall, *forward, *others, tokens, tokens / wall * 1e9 if told else None]


def _of_verdict(make: Callable[[JudgedService, Profile], TableSheet], sql: str, json: str = "", **views: Any) -> Table:
    """The table that ``make`` makes of a service, called like it; ``json`` is as ``sql`` where it is empty."""

    def sheet(profile: Profile) -> TableSheet:
        judged = profile.judged
        return make(judged, profile) if isinstance(judged, JudgedService) else TableSheet(0, {})

    return table(make.__name__, sheet, sql=sql, json=json or sql, own=_OF_LATENCY, **views)


LATENCY = _of_verdict(
    latency,
    sql="metric requests mean p50 p90 p99 longest",
    page="metric requests average=mean p50 p90 p99 longest",
    section="latency",
    row="LatencyRow",
    about="TTFT, TPOT or E2E (to the end of the answer) of the complete requests; percentiles are numpy's ``linear``.",
)
LATENCY_PARTS = _of_verdict(
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
SERVICE_ENGINES = _of_verdict(
    service_engines,
    sql=f"{_ENGINE} tokens tokens_per_s",
    json=f"{_ENGINE.replace('dp_rank', 'dp_rank?')} tokens tokens_per_s?",
    page=f"{_ENGINE.replace('bubble', 'bubbles=bubble').replace('idle', 'no_request=idle')} tokens_per_s",
    section="service_engines",
    row="ServiceEngineRow",
    about="What the time of an engine went to, from its first schedule on; forward passes by what they hold.",
)
_REQUEST = "rid engine start ttft per_token decoding tokens prompt turns complete ttft_most tpot_most"
LATENCIES = _of_verdict(
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


_NAMES = {"passes": "pass"}
_KINDS: dict[str, tuple[Kind, str]] = {"real": ("real", "0..1"), "whole": ("whole", "")}
_KINDS |= dict.fromkeys(("text", "label", ""), ("label", "")) | dict.fromkeys(("moment", "length"), ("whole", "ns"))
_OWN = {
    _NAMES.get(name, name): Column(_NAMES.get(name, name), *_KINDS[kind], form)
    for rows in TABLES.values()
    for name, (kind, form, *_) in columns_of(rows).items()
}
_OWN |= columns("whole", "", "id", "batch phase") | columns("whole", "", "count", "requests")
_OWN |= columns("whole", "ns", "time", "p50 p90 p99")


def _rows_of_part(service: Service, profile: Profile, title: str, **more: Callable[[Array], Data]) -> TableSheet:
    """The rows of the table ``title`` that touch the part, by time; times are those of the trace."""
    rows, origin = getattr(service, title), np.int64(profile.trace.start_ns)
    moments = {name: minus(getattr(rows, name), origin) for name in rows.__struct_fields__ if name in MOMENTS}
    if title == "requests":
        moments["end"] = minus(rows.end, origin)
    begin, end = next(iter(moments.values())), np.maximum.reduce(list(moments.values()))
    chosen, window = np.arange(len(rows)), profile.window
    if window != EVERYTHING:
        chosen = np.flatnonzero((begin != UNKNOWN) & (begin < window.end) & (end >= window.start))
    data: dict[str, Data] = {}
    for name in {**dict.fromkeys(rows.__struct_fields__), **moments}:
        values = (moments[name] if name in moments else getattr(rows, name))[chosen]
        words, missing = service.words(name), UNKNOWN if values.dtype.kind == "i" else None
        data[_NAMES.get(name, name)] = numbers(values, missing) if words is None else coded(words, values)
    if "end" in moments:
        data["duration"] = numbers(minus(end, begin)[chosen], UNKNOWN)
    data |= {name: make(chosen) for name, make in more.items()}

    def place(row: int) -> list[Span]:
        number = int(chosen[row])
        items = np.flatnonzero(profile.trace.slices.event == service.ordinals.get(title, -1) + number)
        if len(items):
            return [Span(int(begin[number]), int(end[number]), slice=int(items[0]), marked=False)]
        return [] if begin[number] == UNKNOWN else [Span(int(begin[number]), int(end[number]), marked=False)]

    return TableSheet(len(chosen), data, place=place)


def _declared_table(name: str, make: Callable[[Service, Profile], TableSheet], **views: Any) -> Table:
    """The table ``name`` of a service; others have no row of it."""

    def sheet(profile: Profile) -> TableSheet:
        return TableSheet(0, {}) if profile.trace.service is None else make(profile.trace.service, profile)

    return table(name, sheet, own=_OWN, **views)


def _service_table(name: str, title: str = "", first: str = "", **views: Any) -> Table:
    """The table ``name`` of the rows of ``Service.<title>``."""
    title = title or name
    columns = [_NAMES.get(column, column) for column in TABLES[title].__struct_fields__]
    if "end" in columns:
        columns.insert(columns.index("end") + 1, "duration")
    elif title == "requests":
        columns.insert(columns.index("start") + 1, "end")
    more = {first: numbers} if first else {}
    sql = " ".join([*more, *columns])
    return _declared_table(
        name, lambda service, profile: _rows_of_part(service, profile, title, **more), sql=sql, **views
    )


def batch_kinds(service: Service, profile: Profile) -> TableSheet:
    """What the passes of each engine take by what they compute, most time first."""
    batches, window = service.batches, profile.window
    length, start = minus(batches.end, batches.start), minus(batches.start, np.int64(profile.trace.start_ns))
    chosen = np.flatnonzero((length != UNKNOWN) & (start >= window.start) & (start < window.end))
    keys = np.stack((batches.dp_rank[chosen], batches.passes[chosen], batches.kind[chosen]))
    order = np.lexsort(keys)
    starts = np.flatnonzero((np.diff(keys[:, order], axis=1) != 0).any(axis=0)) + 1
    groups = np.split(chosen[order], starts) if len(chosen) else []
    groups.sort(key=lambda members: -int(length[members].sum()))
    columns = "dp_rank pass kind calls total requests tokens p50 p90 p99"
    rows = []
    for members in groups:
        rank, passes, kind = (int(column[members[0]]) for column in (batches.dp_rank, batches.passes, batches.kind))
        sums = (int(column[members].sum()) if (column[members] != UNKNOWN).all() else None
                for column in (batches.size, batches.tokens))  # fmt: skip
        rows.append((
            None if rank == UNKNOWN else rank, NUMBERED["passes"][passes] if passes >= 0 else None,
            NUMBERED["kind"][kind] if kind >= 0 else None, len(members), int(length[members].sum()), *sums,
            *np.rint(np.percentile(length[members], (50, 90, 99))).astype(np.int64).tolist(),
        ))  # fmt: skip
    sheet = from_tuples(rows, columns, _OWN)
    return replace(sheet, lengths=lambda row: length[groups[row]])


BATCH_KINDS = _declared_table(
    "batch_kinds",
    batch_kinds,
    sql="dp_rank pass kind calls total requests tokens p50 p90 p99",
    json="dp_rank? pass? kind? count=calls total requests? tokens? p50 p90 p99",
    page="dp_rank pass kind count=calls total requests tokens p50 p90 p99",
    panel="dp_rank pass kind count=calls total requests tokens p50 p90 p99 spread",
    section="batch_kinds",
    row="BatchKindRow",
    about="""The passes of one engine that compute the same; percentiles are numpy's ``linear``.

    ``requests`` and ``tokens`` count each pass: a request is in many.
    """,
)

REQUESTS = _service_table(
    "requests",
    json="rid? start? execution? queue? first_token? prompt_tokens? output_tokens? hit_rate?",
    page="rid start execution queue_wait=queue first_token prompt_tokens output_tokens hit_rate",
    panel="rid start execution queue_wait=queue first_token prompt_tokens output_tokens hit_rate",
    section="requests",
    longest="execution",
    row="RequestRow",
    about="""A request of an inference service, as request.csv has it.

    ``queue_us`` is what the tool calls queue wait: a request that is preempted waits in it again. Null is unknown.
    """,
)
BATCHES = _service_table(
    "batches",
    first="batch",
    panel="start pass kind length=duration batch_size=size prefill_size decode_size tokens dp_rank process "
    "used_blocks free_blocks name",
)
FORWARDS, SPEC_DECODES, HANDOFFS = map(_service_table, ("forwards", "spec_decodes", "handoffs"))
KV_BLOCKS = _service_table(
    "kv_blocks",
    panel="time used_blocks free_blocks total_blocks allocated_blocks freed_blocks rid name",
)
TRANSFERS = _service_table(
    "transfers",
    json="rid? rank? start? duration? tokens?",
    page="rid rank start length=duration tokens",
    panel="rid rank start length=duration tokens domain",
    section="transfers",
    longest="duration",
    row="TransferRow",
    about="A pull of KV blocks from the prefill to the decode side; bytes are not recorded.",
)
STATUSES = _service_table("request_status", "statuses")


def batch_requests(service: Service, profile: Profile) -> TableSheet:
    """Who is in each batch."""
    members = service.members
    whole: dict[str, Data] = {
        name: numbers(getattr(members, name), UNKNOWN) for name in ("batch", "iter", "phase", "tokens")
    }
    return TableSheet(len(members), whole | {"rid": coded(service.rids, members.rid)})


BATCH_REQUESTS = _declared_table("batch_requests", batch_requests, sql="batch rid iter phase tokens")
