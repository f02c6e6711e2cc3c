"""The tables of an inference service: requests, batches and who is in them, forward passes, KV blocks, transfers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.device import EVERYTHING
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
from npu_tui.trace.service import MOMENTS, NUMBERED, TABLES, UNKNOWN, Service, columns_of, minus

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


def _sheet(service: Service, profile: Profile, title: str, **more: Callable[[Array], Data]) -> TableSheet:
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


def _declared(name: str, make: Callable[[Service, Profile], TableSheet], **views: Any) -> Table:
    """The table ``name`` of a service; others have no row of it."""

    def sheet(profile: Profile) -> TableSheet:
        return TableSheet(0, {}) if profile.trace.service is None else make(profile.trace.service, profile)

    return table(name, sheet, own=_OWN, **views)


def _table(name: str, title: str = "", first: str = "", **views: Any) -> Table:
    """The table ``name`` of the rows of ``Service.<title>``."""
    title = title or name
    columns = [_NAMES.get(column, column) for column in TABLES[title].__struct_fields__]
    if "end" in columns:
        columns.insert(columns.index("end") + 1, "duration")
    elif title == "requests":
        columns.insert(columns.index("start") + 1, "end")
    more = {first: numbers} if first else {}
    sql = " ".join([*more, *columns])
    return _declared(name, lambda service, profile: _sheet(service, profile, title, **more), sql=sql, **views)


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


BATCH_KINDS = _declared(
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

REQUESTS = _table(
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
BATCHES = _table(
    "batches",
    first="batch",
    panel="start pass kind length=duration batch_size=size prefill_size decode_size tokens dp_rank process "
    "used_blocks free_blocks name",
)
FORWARDS, SPEC_DECODES, HANDOFFS = map(_table, ("forwards", "spec_decodes", "handoffs"))
KV_BLOCKS = _table(
    "kv_blocks",
    panel="time used_blocks free_blocks total_blocks allocated_blocks freed_blocks rid name",
)
TRANSFERS = _table(
    "transfers",
    json="rid? rank? start? duration? tokens?",
    page="rid rank start length=duration tokens",
    panel="rid rank start length=duration tokens domain",
    section="transfers",
    longest="duration",
    row="TransferRow",
    about="A pull of KV blocks from the prefill to the decode side; bytes are not recorded.",
)
STATUSES = _table("request_status", "statuses")


def batch_requests(service: Service, profile: Profile) -> TableSheet:
    """Who is in each batch."""
    members = service.members
    whole: dict[str, Data] = {
        name: numbers(getattr(members, name), UNKNOWN) for name in ("batch", "iter", "phase", "tokens")
    }
    return TableSheet(len(members), whole | {"rid": coded(service.rids, members.rid)})


BATCH_REQUESTS = _declared("batch_requests", batch_requests, sql="batch rid iter phase tokens")
