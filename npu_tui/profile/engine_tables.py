"""The tables of an inference engine: its steps, and what they take by kind and number of tokens."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.engine_steps import EngineKind, EngineStep
from npu_tui.analysis.engine_steps import engine_kinds as kinds_of
from npu_tui.profile.columns import base_of
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import NestedRows, Span, TableSheet, attribute_rows, attributes, columns, numbers, table, us
from npu_tui.strings import say
from npu_tui.trace.classes import PHASES

_OWN = {
    **columns("whole", "", "id", "ordinal"),
    **columns(
        "whole", "", "count",
        "requests tokens context_tokens kv_tokens padded kernels graph_kernels graphs copies_count bucket graph_steps "
        "mixed_steps eager_steps",
    ),
    **columns("label", "", "word", "kind"),
    **columns("label", "", "word", "graph", "engine.graph"),
    **columns("whole", "ns", "moment", "host_start device_start"),
    **columns("whole", "ns", "time", "host device_span device_busy bubble lost_time p50 p90 p99"),
    **columns("rows", "", "word", "phases"),
    **columns("real", "", "mean_count", "tokens_per_s"),
    **columns("real", "0..1", "share", " ".join(("busy_share", *(f"{name}_share" for name in PHASES)))),
}  # fmt: skip


def engine_kinds(profile: Profile) -> TableSheet:
    """The steps of an engine that touch the part by kind and number of tokens, most time first."""
    rows = kinds_of([step for step in profile.engine.steps if _touches_part(profile, step)])

    def percentile(rank: int) -> Callable[[EngineKind], int]:
        return lambda row: round(float(np.percentile(row.spans, rank)))

    def phase(name: str) -> Callable[[EngineKind], float | None]:
        return lambda row: row.phases[name] / total if name in row.phases and (total := int(row.spans.sum())) else None

    def place(row: int) -> list[Span]:
        step = max(rows[row].steps, key=lambda step: step.span or 0)
        return [Span(step.start, step.start + (step.host or step.span or 0), words=step.name or "")]

    sheet = attribute_rows(
        rows,
        "kind bucket tokens lost_time=lost",
        _OWN,
        calls=lambda row: len(row.steps),
        p50=percentile(50),
        p90=percentile(90),
        p99=percentile(99),
        tokens_per_s=lambda row: None if row.tokens is None else row.tokens / max(int(row.spans.sum()), 1) * 1e9,
        busy_share=lambda row: row.busy / max(int(row.spans.sum()), 1),
        graph_steps=lambda row: row.count("graph"),
        mixed_steps=lambda row: row.count("mixed"),
        eager_steps=lambda row: row.count("eager"),
        **{f"{name}_share": phase(name) for name in PHASES},
    )
    return replace(sheet, place=place, lengths=lambda row: rows[row].spans, base=base_of(profile.facts))


_SHARES = " ".join(f"{name}_share" for name in PHASES)

ENGINE_KINDS = table(
    "engine_kinds",
    engine_kinds,
    sql="rank kind bucket calls tokens p50 p90 p99 tokens_per_s busy_share lost_time graph_steps mixed_steps "
    f"eager_steps {_SHARES}",
    json="kind bucket? count=calls tokens? p50 p90 p99 tokens_per_s? busy_share lost=lost_time? graph_steps "
    "mixed_steps eager_steps " + " ".join(f"{name}?" for name in _SHARES.split()),
    page="kind bucket count=calls p50 p90 p99 tokens_per_s busy_share lost=lost_time graph_steps mixed_steps "
    "eager_steps",
    panel="kind bucket count=calls p50 p90 p99 spread tokens_per_s busy_share lost=lost_time graph_steps mixed_steps "
    f"eager_steps {_SHARES}",
    section="engine_kinds",
    row="EngineKindRow",
    about="""The steps of an engine of one ``kind`` with up to ``bucket`` tokens and more than half of that.

    Percentiles (numpy's ``linear``) and shares are of their time on the device, the shares of phases too: what the host
    does in a phase may overlap with the device.
    """,
    own=_OWN,
)


def engine_steps(profile: Profile) -> TableSheet:
    """The steps of an engine that touch the part, by start."""
    rows = [step for step in profile.engine.steps if _touches_part(profile, step)]
    trace = profile.trace

    def place(row: int) -> list[Span]:
        step = rows[row]
        if step.item >= 0:
            return [Span(step.start, step.start + (step.host or 0), slice=step.item, words=step.name or "")]
        window = step.window
        return [] if window is None else [Span(window.start, window.end, words=say("engine.step", step=step.number))]

    return TableSheet(
        len(rows),
        {
            **attributes(
                rows,
                "ordinal=number kernels graph_kernels=replayed graphs copies_count=copies host_start=start host "
                "device_span=span device_busy=busy bubble lost_time=lost kind",
                _OWN,
                **{
                    field: lambda step, field=field: getattr(step.call, field)
                    for field in ("requests", "tokens", "context_tokens", "kv_tokens", "padded")
                },
                name=lambda step: step.name,
                slice=lambda step: step.item if step.item >= 0 else None,
                device_start=lambda step: None if step.window is None else step.window.start,
                graph=lambda step: step.captured,
            ),
            "is_graph": NestedRows(lambda: [step.is_replayed for step in rows]),
            "phases": NestedRows(lambda: [{name: us(time) for name, time in step.phases.items()} for step in rows]),
            "start_ns": numbers(np.array([step.start + trace.start_ns for step in rows], np.int64)),
        },
        place=place,
    )


def _touches_part(profile: Profile, step: EngineStep) -> bool:
    if profile.step is not None and profile.step != step.number:
        return False
    window = step.window
    if profile.window.start <= step.start < profile.window.end:  # its work on the device may be much later
        return True
    return window is not None and window.end > profile.window.start and window.start < profile.window.end


ENGINE_STEPS = table(
    "engine_steps",
    engine_steps,
    sql="rank ordinal name kind requests tokens context_tokens kv_tokens padded graph graphs slice host_start host "
    "start_ns device_start device_span device_busy bubble lost_time kernels graph_kernels copies_count",
    json="ordinal name? kind requests? tokens? context_tokens? kv_tokens? padded? graph=is_graph? "
    "graph_launches=graphs start=host_start host? device_start? device_span? device_busy? bubble? lost=lost_time? "
    "kernels graph_kernels copies=copies_count phases",
    page="ordinal kind requests tokens graph host device_span device_busy kernels",
    panel="ordinal kind requests tokens graph device_span device_busy bubble lost=lost_time kernels host name",
    section="engine_steps",
    row="EngineStepRow",
    about="""A step of an inference engine; ``kind`` is prefill, decode, mixed, dummy, capture, diffusion or as written.

    ``start_us`` and ``host_us`` are its slice; ``device_span_us`` lasts from its first work on the device to that of
    the next step, of the last one to its end, without time in which nobody has a request (SERVE.IDLE). It ends with
    ``bubble_us`` in which devices do nothing. ``graph`` is
    True where graphs replay it, "mixed" where they replay a part, None where launches are unknown. ``phases`` are
    ranges of the host, in \u00b5s by name.
    """,
    own=_OWN | columns("rows", "", "word", "is_graph"),
    types={"is_graph": bool | str, "phases": dict[str, float]},
)
